/* ops/data/dataset.h -- datasets and what goes over them.
 *
 * A dataset is a value (a variant): a description of elements, each of n tensors of fixed types.  It
 * never changes, so it may be shared and gone over many times at once.  An iterator is one way over
 * it; whoever has one asks it for one element after another, one thread at a time.
 *
 * A kind of dataset is one struct of functions.  Opening an iterator neither waits nor calls
 * functions; `next` may do both, so it is called by threads of the iterators' own (mr_later_thread),
 * never by a thread of the pool.  An iterator that has threads shares what they need with them by
 * count: closing it cancels them and does not wait.
 *
 * What can be relied on: mr_iterator_next looks at the cancellation first, so that no loop over it
 * goes on for ever; the tensors it gives are as many and of such types as its dataset says. */
#ifndef MR_OPS_DATA_DATASET_H
#define MR_OPS_DATA_DATASET_H

#include "base/vec.h"
#include "graph/infer.h"
#include "run/later.h"

enum { MR_CARDINALITY_INFINITE = -1, MR_CARDINALITY_UNKNOWN = -2 };

typedef struct mr_dataset mr_dataset;
typedef struct mr_iterator mr_iterator;

/* What the iterators of one tree share: threads and functions, and how they are stopped. */
typedef struct mr_data_env {
    mr_refs refs;
    struct mr_data_env *parent; /* referenced; its cancellation cancels this one.  NULL: the session's does */
    mr_later *later;
    mr_cancel *cancel;
    struct mr_data_env *root;
    bool any_order;         /* the options of the dataset say that the order of its elements does not matter */
    uint64_t state;         /* of the root: functions have separate state in each root, as in TensorFlow's iterators */
    _Atomic int64_t n_open; /* iterators of all environments below a root */
} mr_data_env;
mr_data_env *mr_data_env_new(mr_later *l);            /* referenced */
mr_data_env *mr_data_env_child(mr_data_env *parent);  /* referenced */
mr_data_env *mr_data_env_ref(mr_data_env *e);
void mr_data_env_unref(mr_data_env *e); /* NULL is fine */

typedef struct mr_dataset_kind {
    const char *name;              /* "Take" */
    size_t bytes, iterator_bytes;  /* of what begins with an mr_dataset, an mr_iterator */
    /* All but next may be NULL. */
    mr_status *(*open)(mr_iterator *it); /* NULL: opens input 0 as it->input */
    mr_status *(*next)(mr_iterator *it, mr_tensor **out, bool *end);
    void (*close)(mr_iterator *it);      /* it->input is closed after it */
    int64_t (*cardinality)(const mr_dataset *d); /* NULL: unknown */
    void (*free)(mr_dataset *d);
} mr_dataset_kind;

struct mr_dataset {
    mr_object base;
    const mr_dataset_kind *kind;
    mr_arena arena;
    mr_tensor_vec held; /* references dropped with it */
    int n;              /* tensors an element has */
    const int *types;
    const mr_pshape *const *shapes;
    int n_inputs;
    mr_dataset **inputs; /* referenced */
    int depth;           /* of inputs below it */
    bool has_count;
    int64_t count;       /* its cardinality, once it is given: inputs may be shared many times over */
    mr_later *later;     /* for its functions; NULL: it has none */
    struct mr_seed_source *seeds; /* where iterators take seeds from (ops/data/seeds.h); the kind's, or NULL */
    /* How it was made, for whoever writes it down as a graph: */
    mr_graph *graph; /* of node; referenced.  NULL: it cannot be said */
    const mr_node *node;
    mr_tensor **made_of; /* the inputs of the node, in `held` */
};
extern const mr_object_type mr_dataset_type;

struct mr_iterator {
    mr_dataset *dataset; /* referenced */
    mr_data_env *env;    /* referenced */
    mr_iterator *input;  /* owned; NULL: none */
    int depth;           /* of iterators around it */
};

/* ---- making datasets, in kernels ---- */

enum { MR_DATASET_FUNCS = 4 };
/* What every kernel that makes a dataset reads from its node once; first member of its state. */
typedef struct mr_dataset_state {
    mr_arena arena;
    mr_tensor_vec held;
    int n; /* 0: the node does not say */
    const int *types;
    const mr_pshape *const *shapes;
    int n_funcs;
    const mr_func_ref *funcs[MR_DATASET_FUNCS]; /* in the order of mr_dataset_func_names */
    bool flag; /* the op's own: see mr_dataset_flag_names */
    int order;  /* attrs deterministic and sloppy: 1 the input's, 0 any, -1 as the options of the dataset say */
    bool keeps_count; /* attr preserve_cardinality */
    bool one_thread;  /* attr use_inter_op_parallelism is false */
} mr_dataset_state;
mr_status *mr_dataset_init(mr_make *m, void *state);
void mr_dataset_deinit(void *state);

/* A dataset over those of n_inputs inputs of the run from first_in on; types and shapes are those of
 * the first of them.  It is freed by mr_object_unref until it is given. */
mr_status *mr_dataset_new(mr_run *r, const mr_dataset_kind *k, int first_in, int n_inputs, void *out);
/* One that no node makes: an element of another one. */
mr_dataset *mr_dataset_make(const mr_dataset_kind *k, int n, const int *types, const mr_pshape *const *shapes);
/* Other types: those the node says, or a copy of these. */
void mr_dataset_say_types(mr_dataset *d, const mr_dataset_state *s);
void mr_dataset_set_types(mr_dataset *d, int n, const int *types, const mr_pshape *const *shapes);
/* The output of the run is d, which is taken over, also when st says that it could not be made. */
mr_status *mr_dataset_give(mr_run *r, void *d, mr_status *st);
/* The dataset in a variant tensor; borrowed from it. */
mr_status *mr_dataset_of(const mr_tensor *t, mr_dataset **out);
mr_tensor *mr_dataset_keep(mr_dataset *d, mr_tensor *t); /* a reference that dies with d; returns t */
mr_status *mr_dataset_tensor(mr_dataset *d, mr_tensor **out); /* a scalar; d is referenced */

int64_t mr_dataset_cardinality(const mr_dataset *d);
int64_t mr_dataset_cardinality_of_input(const mr_dataset *d); /* for kinds that keep it */
/* INVALID_ARGUMENT unless elements are of as many tensors of the same types. */
mr_status *mr_dataset_check_types(int n, const int *types, const mr_dataset *got);
/* The same for shapes: none contradicts. */
mr_status *mr_dataset_check_shapes(int n, const mr_pshape *const *shapes, const mr_dataset *got);

/* Shape function of ops that make a dataset: arguments that are scalars everywhere must be. */
mr_status *mr_dataset_shape(mr_infer *c);

#define MR_DATASET(fn)                                                      \
    .shape = mr_dataset_shape, .kernels = MR_KERNELS(MR_CPU_ANY(fn)),       \
    .state_bytes = sizeof(mr_dataset_state), .init = mr_dataset_init, .deinit = mr_dataset_deinit
#define MR_DATASET_TYPES "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"
#define MR_DATASET_ATTRS MR_DATASET_TYPES "; metadata: string = ''"

/* ---- going over them ---- */

/* parent: the iterator around it, or NULL. */
mr_status *mr_iterator_open(mr_dataset *d, mr_data_env *env, const mr_iterator *parent, mr_iterator **out);
void mr_iterator_close(mr_iterator *it); /* NULL is fine */
/* The next element, its tensors owned by the caller; or *end, and at every call from then on.  An error is never the
 * end: the caller may ask for the element after it. */
mr_status *mr_iterator_next(mr_iterator *it, mr_tensor **out, bool *end);
/* Whether the elements must come in the order of the input; order: as in mr_dataset_state. */
static inline bool mr_iterator_in_order(const mr_iterator *it, int order)
{
    return order < 0 ? !it->env->any_order : order == 1;
}
/* Opens input i beside it->input. */
mr_status *mr_iterator_open_input(mr_iterator *it, int i, mr_iterator **out);
void mr_element_drop(mr_tensor **t, int n); /* leaves NULLs */
/* An array of NULLs on the heap (mr_free); n is of a node's types, so bounded by its size. */
static inline mr_tensor **mr_element_new(int n) { return mr_new_array(mr_tensor *, n); }

/* ---- functions of datasets ---- */
typedef struct mr_data_fn {
    const mr_func_ref *f;
    int n_captured;
    mr_tensor **captured; /* held by the dataset */
    bool one_thread; /* see mr_later_call */
} mr_data_fn;
/* Function i of the state, with n inputs of the run from first_in on behind its arguments. */
void mr_data_fn_init(mr_data_fn *fn, mr_dataset *d, mr_run *r, int i, int first_in, int n);
/* Waits for it. */
mr_status *mr_data_call(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n_args,
                        mr_tensor **rets, int n_rets);
/* How many results it has; 0 when it is not known. */
int mr_data_fn_results(const mr_data_fn *fn, const mr_dataset *d);
/* Of a function that says OUT_OF_RANGE: the end of the elements or, where there must be one for every
 * one of the input, an error. */
mr_status *mr_data_out_of_range(mr_status *st, bool keeps_count, bool *end);
/* A bool (a predicate's answer), an int64 (a key). */
mr_status *mr_data_call_bool(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n, bool *out);
mr_status *mr_data_call_int(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n, int64_t *out);
/* A dataset whose elements are like those of it->dataset, as an open iterator. */
mr_status *mr_data_call_dataset(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n,
                                mr_iterator **out);
/* Does not wait: see mr_later_start.  args are to be all that the function takes. */
void mr_data_start(const mr_data_fn *fn, const mr_dataset *d, const mr_data_env *e, mr_tensor *const *args, int n_args,
                   mr_tensor **rets, int n_rets, void (*done)(void *ctx, mr_status *st), void *ctx);

/* ---- kernels that go over a dataset ---- */
/* An asynchronous kernel whose work is done by a thread of its own, where it may wait. */
typedef mr_status *(*mr_data_job)(mr_run *r, mr_data_env *env);
void mr_data_job_start(mr_run *r, mr_data_job fn);

#endif
