/* run/run.h -- what a kernel sees.
 *
 * mr_run is one call of one kernel: its inputs, room for its outputs, its state, and the step and
 * device it runs in.  A synchronous kernel computes and returns a status.  An asynchronous one
 * (run_async) returns at once and ends the call later, from any thread, by mr_run_done; it must not
 * hold a thread meanwhile.  Inputs are owned by the run and dropped after it; a kernel that holds
 * the only reference to an input may write its output over it (mr_run_forward). */
#ifndef MR_RUN_RUN_H
#define MR_RUN_RUN_H

#include "graph/graph.h"
#include "run/cancel.h"
#include "run/device.h"
#include "run/rendezvous.h"
#include "run/variable.h"

typedef enum mr_value_kind {
    MR_ABSENT = 0, /* no value (yet) */
    MR_LIVE,       /* a tensor: t */
    MR_DEAD,       /* on the untaken side of a conditional */
    MR_REF,        /* ref: the variable itself */
} mr_value_kind;

typedef struct mr_value { /* what flows along an edge */
    union {
        mr_tensor *t;     /* owned */
        mr_variable *ref; /* owned */
    };
    uint8_t kind;
} mr_value;
void mr_value_drop(mr_value *v); /* leaves MR_ABSENT */

typedef struct mr_caller mr_caller;

/* What all kernels of one step on one device share. */
typedef struct mr_step {
    int64_t id;
    mr_device *device;
    mr_rendezvous *rendezvous;
    mr_cancel *cancel;
    mr_stop stop; /* for mr_stop_swap in threads that work for the step: it was cancelled, or its deadline passed */
    mr_resources *resources; /* per-step objects; made on first use, see mr_step_resources */
    mr_caller *caller;       /* runs functions; NULL where none can be */
    int n_args, n_rets;
    mr_value *args;          /* of _Arg by index; live tensors */
    mr_value *rets;          /* of _Retval by index; ABSENT until set */
    const struct mr_library *library;
    void *owner;             /* belongs to the executor */
    mr_mutex *mu;            /* guards the creation of `resources` */
    struct mr_step *root;    /* the step that called this function; its resources are used. NULL: not a function */
} mr_step;
/* Borrowed.  Its default container is "__per_step_<id>"; handles to per-step objects name that
 * container, so mr_run_resource finds them. */
mr_resources *mr_step_resources(mr_step *s);
#define MR_STEP_CONTAINER "__per_step_"

struct mr_run {
    const mr_node *node;
    const mr_kernel *kernel;
    void *state; /* of the kernel; see mr_op.state_bytes */
    int n_in, n_out;
    mr_value *in, *out;
    mr_step *step;
    uint64_t frame;    /* id of the control-flow frame, 0 at the root */
    int64_t iteration;
    bool dead;         /* a transfer node that is called although an input is dead */
    void (*done)(mr_run *r, mr_status *st); /* belongs to the executor */
    /* When the work began and ended (mr_now_ns), for traces. An asynchronous run: set by a device whose nodes queue
     * behind each other; 0 means from the start to the end of the run. A synchronous run that is timed: began_ns is its
     * start, and a kernel whose output is available before it returns (_Send) sets ended_ns to that time. Else both
     * are 0. */
    int64_t began_ns, ended_ns;
};

/* What a kernel sees when it is made (once per node and session; shared by all its runs). */
struct mr_make {
    const mr_node *node;
    const mr_kernel *kernel;
    mr_device *device;
    const struct mr_library *library;
};

/* ---- inputs ---- */
static inline mr_tensor *mr_in(const mr_run *r, int i) { return r->in[i].t; } /* live, not a ref */
static inline mr_variable *mr_in_ref(const mr_run *r, int i) { return r->in[i].ref; }
/* A scalar of an index type, or an error that names the argument. */
mr_status *mr_in_scalar_int(const mr_run *r, int i, const char *what, int64_t *out);
mr_status *mr_in_scalar_bool(const mr_run *r, int i, const char *what, bool *out);
/* An int32 or int64 vector as a shape: entries >= min. */
mr_status *mr_in_shape(const mr_run *r, int i, const char *what, int64_t min, mr_shape *out);

/* ---- outputs ---- */
/* Allocates output i in its declared type; *out is borrowed from the run. */
mr_status *mr_run_output(mr_run *r, int i, int rank, const int64_t *dims, mr_tensor **out);
/* The same, but reuses the memory of input `in` if nobody else holds it and the sizes are equal. */
mr_status *mr_run_forward(mr_run *r, int in, int i, int rank, const int64_t *dims, mr_tensor **out);
/* Makes t output i; takes over the reference. */
void mr_run_set(mr_run *r, int i, mr_tensor *t);
/* Makes input `in` output i, without a copy. */
void mr_run_pass(mr_run *r, int in, int i);
void mr_run_set_ref(mr_run *r, int i, mr_variable *v); /* takes over the reference */
void mr_run_set_dead(mr_run *r, int i);
/* Makes input `in` output i, with another shape of the same number of elements. */
mr_status *mr_run_reshape(mr_run *r, int in, int i, int rank, const int64_t *dims);
/* True if some node reads output i. Otherwise the output must exist, but its values do not matter. Always true if the
 * op runs alone (mr_eval_node). */
bool mr_run_wants(const mr_run *r, int i);
/* A temporary tensor for the kernel, which must unref it. */
mr_status *mr_run_temp(mr_run *r, mr_dtype t, int rank, const int64_t *dims, mr_tensor **out);

/* ---- the rest ---- */
/* True if the kernel computes on the device (run/accel.h). Otherwise it computes on the host, in host memory. */
static inline bool mr_run_on_device(const mr_run *r)
{
    const mr_device *d = r->step->device;
    return d->accel && strcmp(r->kernel->device, d->type->kernels) == 0;
}
/* True if the input or output must be in host memory: its argument is in the kernel's host_in or host_out. */
bool mr_run_host_in(const mr_run *r, int i);
bool mr_run_host_out(const mr_run *r, int i);
static inline mr_allocator *mr_run_allocator(const mr_run *r)
{
    mr_allocator *a = r->step->device->alloc;
    return MR_LIKELY(a->host) || !r->step->device->accel || mr_run_on_device(r) ? a : mr_cpu_allocator();
}
static inline mr_dtype mr_out_dtype(const mr_run *r, int i)
{
    return mr_dtype_base(r->node->out_types[i]);
}
/* A loop split over idle threads: mr_pool_for on the device's pool. */
static inline void mr_run_for(mr_run *r, int64_t n, double cost_ns,
                              void (*fn)(void *, int64_t, int64_t), void *ctx)
{
    mr_pool_for(r->step->device->pool, n, cost_ns, fn, ctx);
}
/* Calls the kernel on behalf of a device's start function. true: the kernel is synchronous and has returned *st; the
 * caller ends the run. false: the kernel is asynchronous and ends the run itself. */
static inline bool mr_run_kernel(mr_run *r, mr_status **st)
{
    if (r->kernel->run)
        *st = r->kernel->run(r);
    else
        r->kernel->run_async(r);
    return r->kernel->run != NULL;
}
/* Ends an asynchronous run; st NULL is success. r must not be used afterwards. */
static inline void mr_run_done(mr_run *r, mr_status *st) { r->done(r, st); }
/* The resource of this type that a handle input names; the caller owns *out. */
mr_status *mr_run_resource(mr_run *r, int in, const mr_object_type *type, mr_object **out);
mr_status *mr_run_variable(mr_run *r, int in, mr_variable **out);
/* A handle to a resource that is in no manager: it lives as long as handles to it do. Takes over o. */
mr_status *mr_anonymous_handle(mr_run *r, mr_object *o, mr_tensor **out);
/* A scalar resource tensor for a handle; takes over the reference. */
mr_status *mr_handle_tensor(mr_handle *h, mr_tensor **out);

/* ---- kernels as made ---- */
typedef struct mr_instance { /* a kernel with its state */
    mr_refs refs;
    const mr_kernel *kernel;
    const mr_op *op;
    void *state;
} mr_instance;
/* NOT_FOUND "No OpKernel was registered to support Op '..' used by {{node ..}} with these attrs:
 * .." */
mr_status *mr_instance_new(const mr_make *m,
                           mr_instance **out); /* m->kernel NULL: chosen by the device's type */
void mr_instance_unref(mr_instance *k);

/* ---- functions ---- */
struct mr_later; /* run/later.h: calls outside of a step */
struct mr_later_call;
struct mr_prepared; /* a function that is ready to be called; belongs to the caller */
struct mr_caller {
    /* Runs a function with n_args live tensors (borrowed). Before done is called, rets gets n_rets owned tensors; the
     * array belongs to the caller and must live until then. Cancelled with the step of r. */
    void (*call)(mr_caller *c, mr_run *r, const mr_func_ref *f, mr_tensor *const *args, int n_args,
                 mr_tensor **rets, int n_rets, void (*done)(void *ctx, mr_status *st), void *ctx);
    /* The same for l. done NULL: waits and returns the status of the call. */
    mr_status *(*call_later)(mr_caller *c, struct mr_later *l, const struct mr_later_call *a,
                             void (*done)(void *ctx, mr_status *st), void *ctx);
    /* Lists l, which was made from r: the caller calls mr_later_end for it before it is freed, unless it is forgotten
     * first. */
    void (*keep)(mr_caller *c, struct mr_later *l, mr_run *r);
    void (*keep_like)(mr_caller *c, struct mr_later *l, const struct mr_later *like);
    void (*forget)(mr_caller *c, struct mr_later *l);
    /* Like call, but the function runs on another device, which may be on another task of the cluster. */
    void (*call_on)(mr_caller *c, mr_run *r, mr_sv device, const mr_func_ref *f, mr_tensor *const *args, int n_args,
                    mr_tensor **rets, int n_rets, void (*done)(void *ctx, mr_status *st), void *ctx);
    /* No call with this mr_later_call.state is in progress or will follow. */
    void (*forget_state)(mr_caller *c, uint64_t state);
    /* Prepares a function for many calls by one thread at a time; see mr_later_fn. a->args are the last arguments,
     * which stay the same; n_first others come before them in each call. */
    mr_status *(*open_fn)(mr_caller *c, struct mr_later *l, const struct mr_later_call *a, int n_first,
                          struct mr_prepared **out);
    mr_status *(*run_fn)(mr_caller *c, struct mr_prepared *p, mr_tensor *const *first, mr_tensor **rets);
    int64_t (*fn_cost_ns)(const struct mr_prepared *p);
    void (*close_fn)(mr_caller *c, struct mr_prepared *p);
};

/* Ends the asynchronous run r with a call of f: the inputs of r are the arguments and its outputs are the results. The
 * kernel of call ops. */
void mr_run_call(mr_run *r, const mr_func_ref *f);
/* The same with the inputs from `first` on; the inputs before it select the function. */
void mr_run_call_from(mr_run *r, const mr_func_ref *f, int first);
/* The same on another device of this session. */
void mr_run_call_on(mr_run *r, mr_sv device, const mr_func_ref *f, int first);

/* ---- one op, now ---- */
/* Runs a node's kernel on the CPU with these inputs and waits for it: for constant folding, shape inference, examples
 * and fuzzing.
 * - The caller owns the outputs; a dead output is NULL.
 * - Resources are in `env`, a device made for this purpose. NULL: a device of the process, for ops without state.
 * - A ref input gets a variable with a copy of the tensor (NULL: uninitialised); a ref output gives its value.
 * - For other inputs NULL means dead, which only Merge accepts.
 * - A kernel that waits for something that cannot happen is cancelled after two seconds. */
mr_status *mr_eval_node(const mr_node *n, mr_device *env, mr_tensor *const *in, mr_tensor **out);
/* The same, but the references in `in` are taken over (also on error), so a kernel may write its
 * output over an input that nobody else holds, as in a step. */
mr_status *mr_eval_node_take(const mr_node *n, mr_device *env, mr_tensor **in, mr_tensor **out);
/* mr_eval_node for passes that compute values before the graph runs. If the shape of an output is unknown, the kernel
 * may allocate at most 1 MiB in all, so that a small graph cannot expand into a large value; RESOURCE_EXHAUSTED
 * beyond. */
mr_status *mr_eval_bounded(const mr_node *n, mr_tensor *const *in, mr_tensor **out);
/* Changes the wait of two seconds, for tests. */
void mr_eval_set_patience(int64_t ms);

#endif
