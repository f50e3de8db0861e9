/* ops/data/dataset.h -- datasets and their iterators.
 *
 * A dataset is a value (a variant): a description of elements, each of n tensors of fixed types. It never changes,
 * so it may be shared and iterated many times at once. An iterator is one pass over it; its owner asks it for one
 * element after another, from one thread at a time.
 *
 * A kind of dataset is one struct of functions. Opening an iterator neither blocks nor calls functions; `next` may
 * do both, so it is called by the iterators' own threads (mr_later_thread), never by a thread of the pool. An
 * iterator that has threads shares reference-counted objects with them: closing it cancels the threads and does not
 * wait.
 *
 * A step that wants an element may first try to get it on its own thread (mr_attempt), which may be one of the pool:
 * the element is then made without a hand-over to the iterator's thread and back. An attempt never waits and takes
 * little time, or else gives up; the thread then continues where it stopped.
 *
 * Guarantees: mr_iterator_next checks for cancellation first, so that no loop over it runs for ever; the number and
 * types of the tensors it gives are those of its dataset. */
#ifndef MR_OPS_DATA_DATASET_H
#define MR_OPS_DATA_DATASET_H

#include "base/vec.h"
#include "graph/infer.h"
#include "run/later.h"

enum { MR_CARDINALITY_INFINITE = -1, MR_CARDINALITY_UNKNOWN = -2 };

typedef struct mr_dataset mr_dataset;
typedef struct mr_iterator mr_iterator;

/* Shared by the iterators of one tree: threads and functions, and their cancellation. */
typedef struct mr_data_env {
    mr_refs refs;
    struct mr_data_env *parent; /* referenced; its cancellation cancels this one. NULL: the session's does */
    mr_later *later;
    mr_cancel *cancel;
    struct mr_data_env *root;
    bool any_order;         /* the options of the dataset allow any order of its elements */
    struct mr_data_env *asker;  /* the environment whose `attempt` counts here: itself, or one above it */
    struct mr_attempt *attempt; /* what the thread that uses the iterators is doing; NULL: it may wait */
    uint64_t state;         /* of the root: functions have separate state in each root, as in TensorFlow's iterators */
    _Atomic int64_t n_open; /* iterators of all environments below a root */
} mr_data_env;
mr_data_env *mr_data_env_new(mr_later *l);            /* referenced */
mr_data_env *mr_data_env_child(mr_data_env *parent);  /* referenced */
mr_data_env *mr_data_env_ref(mr_data_env *e);
void mr_data_env_unref(mr_data_env *e); /* NULL is fine */

typedef struct mr_dataset_kind {
    const char *name;              /* "Take" */
    size_t bytes, iterator_bytes;  /* of the structs that begin with an mr_dataset, an mr_iterator */
    /* All but next may be NULL. */
    mr_status *(*open)(mr_iterator *it); /* NULL: opens input 0 as it->input */
    mr_status *(*next)(mr_iterator *it, mr_tensor **out, bool *end);
    void (*close)(mr_iterator *it);      /* it->input is closed after it */
    int64_t (*cardinality)(const mr_dataset *d); /* NULL: unknown */
    void (*free)(mr_dataset *d);
    /* See mr_iterator_next_block; the elements are of the dataset's types. NULL: one after the other. */
    mr_status *(*next_block)(mr_iterator *it, int64_t most, mr_tensor **out, int64_t *n, bool *end);
    /* next works in attempts: it calls mr_give_up before it would wait, mr_data_may_call before it takes an element
     * for a function, and loses nothing if a call of mr_iterator_next gives up. */
    bool tries;
} mr_dataset_kind;

struct mr_dataset {
    mr_object base;
    const mr_dataset_kind *kind;
    mr_arena arena;
    mr_tensor_vec held; /* references released with it */
    int n;              /* number of tensors of an element */
    const int *types;
    const mr_pshape *const *shapes;
    int n_inputs;
    mr_dataset **inputs; /* referenced */
    int depth;           /* length of the longest chain of inputs below it */
    bool has_count;
    int64_t count;       /* its cardinality, once the dataset is given: inputs may be shared many times */
    mr_later *later;     /* for its functions; NULL: it has none */
    struct mr_seed_source *seeds; /* the source of seeds for iterators (ops/data/seeds.h); set by the kind, or NULL */
    /* How it was created, for code that writes it as a graph: */
    mr_graph *graph; /* graph of node; referenced. NULL: it cannot be written as a graph */
    const mr_node *node;
    mr_tensor **made_of; /* the inputs of the node, in `held` */
};
extern const mr_object_type mr_dataset_type;

struct mr_iterator {
    mr_dataset *dataset; /* referenced */
    mr_data_env *env;    /* referenced */
    mr_iterator *input;  /* owned; NULL: none */
    int depth;           /* number of iterators around it */
    bool is_entry;       /* the outermost iterator of its environment: a thread enters it from outside */
    struct mr_data_opened *opened; /* functions that mr_data_call has opened; owned */
};

/* ---- creating datasets, in kernels ---- */

enum { MR_DATASET_FUNCS = 4 };
/* The attrs that every kernel for a dataset reads from its node once; first member of its state. */
typedef struct mr_dataset_state {
    mr_arena arena;
    mr_tensor_vec held;
    int n; /* 0: the node does not declare types */
    const int *types;
    const mr_pshape *const *shapes;
    int n_funcs;
    const mr_func_ref *funcs[MR_DATASET_FUNCS]; /* in the order of mr_dataset_func_names */
    bool flag; /* the op's bool attr: see mr_dataset_flag_names */
    int order;  /* attrs deterministic and sloppy: 1 the input's order, 0 any, -1 as the options of the dataset say */
    bool keeps_count; /* attr preserve_cardinality */
    bool one_thread;  /* attr use_inter_op_parallelism is false */
} mr_dataset_state;
mr_status *mr_dataset_init(mr_make *m, void *state);
void mr_dataset_deinit(void *state);

/* Creates a dataset over n_inputs inputs of the run from first_in on, which are datasets; types and shapes are
 * those of the first of them. Release it with mr_object_unref until it is given. */
mr_status *mr_dataset_new(mr_run *r, const mr_dataset_kind *k, int first_in, int n_inputs, void *out);
/* Creates a dataset that no node makes: an element of another dataset. */
mr_dataset *mr_dataset_make(const mr_dataset_kind *k, int n, const int *types, const mr_pshape *const *shapes);
/* Sets other types: those that the node declares, or a copy of these. */
void mr_dataset_say_types(mr_dataset *d, const mr_dataset_state *s);
void mr_dataset_set_types(mr_dataset *d, int n, const int *types, const mr_pshape *const *shapes);
/* Sets output 0 of the run to d and takes ownership of it, also if st reports that it could not be created. */
mr_status *mr_dataset_give(mr_run *r, void *d, mr_status *st);
/* The dataset in a variant tensor; borrowed from it. */
mr_status *mr_dataset_of(const mr_tensor *t, mr_dataset **out);
mr_tensor *mr_dataset_keep(mr_dataset *d, mr_tensor *t); /* a reference that is released with d; returns t */
mr_status *mr_dataset_tensor(mr_dataset *d, mr_tensor **out); /* a scalar; d is referenced */

int64_t mr_dataset_cardinality(const mr_dataset *d);
int64_t mr_dataset_cardinality_of_input(const mr_dataset *d); /* for kinds that keep it */
/* INVALID_ARGUMENT unless elements have the same number of tensors of the same types. */
mr_status *mr_dataset_check_types(int n, const int *types, const mr_dataset *got);
/* The same for shapes: they must be compatible. */
mr_status *mr_dataset_check_shapes(int n, const mr_pshape *const *shapes, const mr_dataset *got);

/* Shape function of ops that create a dataset: checks the arguments that must be scalars in every op. */
mr_status *mr_dataset_shape(mr_infer *c);

#define MR_DATASET(fn)                                                      \
    .shape = mr_dataset_shape, .kernels = MR_KERNELS(MR_CPU_ANY(fn)),       \
    .state_bytes = sizeof(mr_dataset_state), .init = mr_dataset_init, .deinit = mr_dataset_deinit
#define MR_DATASET_TYPES "output_types: list(type) >= 1; output_shapes: list(shape) >= 1"
#define MR_DATASET_ATTRS MR_DATASET_TYPES "; metadata: string = ''"

/* ---- iterating ---- */

/* parent: the iterator that opens this one, or NULL. */
mr_status *mr_iterator_open(mr_dataset *d, mr_data_env *env, const mr_iterator *parent, mr_iterator **out);
void mr_iterator_close(mr_iterator *it); /* NULL is fine */
/* Gives the next element, whose tensors the caller owns; or sets *end, and again at every later call. An error is
 * never the end: the caller may ask for the element after it. */
mr_status *mr_iterator_next(mr_iterator *it, mr_tensor **out, bool *end);
/* Gives `most` elements (rows of dataset->n tensors in `out`), *n fewer if an error or the end takes the place of the
 * next one. The caller needs all of them: what makes elements in other threads may make as many before it wakes the
 * caller. */
mr_status *mr_iterator_next_block(mr_iterator *it, int64_t most, mr_tensor **out, int64_t *n, bool *end);

/* An attempt to get an element on a thread that must not wait. */
typedef struct mr_attempt {
    const mr_cancel *run; /* of the step that wants the element */
    int64_t until_ns;     /* time to give up */
    int patience;         /* calls of mr_iterator_next before the clock is read */
    bool gave_up;         /* what mr_iterator_next returned is not an error of the element */
} mr_attempt;
#define MR_ATTEMPT_NS 100000 /* a thread of the pool is not occupied for longer; a hand-over costs a tenth of it */
static inline mr_attempt *mr_iterator_attempt(const mr_iterator *it) { return it->env->asker->attempt; }
static inline bool mr_gave_up(const mr_iterator *it)
{
    return mr_iterator_attempt(it) && mr_iterator_attempt(it)->gave_up;
}
/* During an attempt: the status that ends it. Otherwise NULL. */
mr_status *mr_give_up(mr_iterator *it);

/* True if the elements must be in the order of the input; order: as in mr_dataset_state. */
static inline bool mr_iterator_in_order(const mr_iterator *it, int order)
{
    return order < 0 ? !it->env->any_order : order == 1;
}
/* Opens input i in addition to it->input. */
mr_status *mr_iterator_open_input(mr_iterator *it, int i, mr_iterator **out);
void mr_element_drop(mr_tensor **t, int n); /* leaves NULLs */
/* INVALID_ARGUMENT, after dropping it, if an element is not of the dataset's types: a function may return others. */
mr_status *mr_element_check(const mr_dataset *d, mr_tensor **out);
enum { MR_FEW_TENSORS = 16 }; /* an element of as many is kept on the stack */
/* An array of NULLs on the heap (mr_free); n is the number of types of a node, so it is bounded by the node's size. */
static inline mr_tensor **mr_element_new(int n) { return mr_new_array(mr_tensor *, n); }

/* ---- functions of datasets ---- */
typedef struct mr_data_fn {
    const mr_func_ref *f;
    int n_captured;
    mr_tensor **captured; /* held by the dataset */
    bool one_thread; /* see mr_later_call */
} mr_data_fn;
/* Function i of the state; n inputs of the run from first_in on follow its arguments. */
void mr_data_fn_init(mr_data_fn *fn, mr_dataset *d, mr_run *r, int i, int first_in, int n);
/* Calls the function and waits for it. An iterator always calls a function with the same numbers. */
mr_status *mr_data_call(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n_args,
                        mr_tensor **rets, int n_rets);
/* During an attempt: gives up unless a call of the function is known to be short. */
mr_status *mr_data_may_call(const mr_data_fn *fn, mr_iterator *it);
/* The function for a thread that calls it many times, while fn, d and env exist; the caller closes it. */
mr_status *mr_data_fn_open(const mr_data_fn *fn, const mr_dataset *d, const mr_data_env *env, int n_args, int n_rets,
                           mr_later_fn **out);
/* The number of results; 0 when it is not known. */
int mr_data_fn_results(const mr_data_fn *fn, const mr_dataset *d);
/* Handles a function that returned OUT_OF_RANGE: it ends the elements or, if there must be one for every element of
 * the input, it is an error. */
mr_status *mr_data_out_of_range(mr_status *st, bool keeps_count, bool *end);
/* Functions that return a bool (a predicate) or an int64 (a key). */
mr_status *mr_data_call_bool(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n, bool *out);
mr_status *mr_data_call_int(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n, int64_t *out);
/* A function that returns a dataset whose elements are like those of it->dataset; gives an open iterator. */
mr_status *mr_data_call_dataset(const mr_data_fn *fn, mr_iterator *it, mr_tensor *const *args, int n,
                                mr_iterator **out);
/* Does not wait: see mr_later_start. args must hold all arguments of the function. */
void mr_data_start(const mr_data_fn *fn, const mr_dataset *d, const mr_data_env *e, mr_tensor *const *args, int n_args,
                   mr_tensor **rets, int n_rets, void (*done)(void *ctx, mr_status *st), void *ctx);

/* ---- kernels that go over a dataset ---- */
/* An asynchronous kernel whose work is done by a separate thread, which may block. */
typedef mr_status *(*mr_data_job)(mr_run *r, mr_data_env *env);
void mr_data_job_start(mr_run *r, mr_data_job fn);

#endif
