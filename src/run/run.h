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
    MR_ABSENT = 0, /* nothing there (yet) */
    MR_LIVE,       /* t */
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
    mr_stop stop; /* for mr_stop_swap of threads that work for it: it was cancelled, or its time is over */
    mr_resources *resources; /* per-step objects; made on first use, see mr_step_resources */
    mr_caller *caller;       /* runs functions; NULL where none can be */
    int n_args, n_rets;
    mr_value *args;          /* of _Arg by index; live tensors */
    mr_value *rets;          /* of _Retval by index; ABSENT until set */
    const struct mr_library *library;
    void *owner;             /* the executor's */
    mr_mutex *mu;            /* guards `resources` being made */
    struct mr_step *root;    /* a function uses the resources of the step that called it; or NULL */
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
    bool dead;         /* a transfer node called although an input is dead */
    void (*done)(mr_run *r, mr_status *st); /* the executor's */
    /* Of an asynchronous run: when its work began and ended (mr_now_ns), said by a device that lets nodes wait for each
     * other; 0: from its start to its end.  Of a synchronous run that is timed, began_ns is the start, and a kernel
     * whose value others can have before it returns (_Send) sets ended_ns to that moment; else both are 0. */
    int64_t began_ns, ended_ns;
};

/* What a kernel sees when it is made (once a node and session; shared by all its runs). */
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
/* Room for output i in its declared type. */
mr_status *mr_run_output(mr_run *r, int i, int rank, const int64_t *dims, mr_tensor **out);
/* The same, over the memory of input `in` when nobody else holds it and it fits. */
mr_status *mr_run_forward(mr_run *r, int in, int i, int rank, const int64_t *dims, mr_tensor **out);
/* Output i is t (the reference is taken over). */
void mr_run_set(mr_run *r, int i, mr_tensor *t);
/* Output i is input `in`, shared. */
void mr_run_pass(mr_run *r, int in, int i);
void mr_run_set_ref(mr_run *r, int i, mr_variable *v); /* takes the reference over */
void mr_run_set_dead(mr_run *r, int i);
/* Output i is input `in` under another shape of as many elements. */
mr_status *mr_run_reshape(mr_run *r, int in, int i, int rank, const int64_t *dims);
/* Somebody reads output i; else it must be there, but its values do not matter.  Always true where
 * an op is run alone (mr_eval_node). */
bool mr_run_wants(const mr_run *r, int i);
/* A tensor for the kernel's own use; unref it. */
mr_status *mr_run_temp(mr_run *r, mr_dtype t, int rank, const int64_t *dims, mr_tensor **out);

/* ---- the rest ---- */
/* The kernel computes by the device (run/accel.h); else it does on the host, and in host memory, wherever it runs. */
static inline bool mr_run_on_device(const mr_run *r)
{
    const mr_device *d = r->step->device;
    return d->accel && strcmp(r->kernel->device, d->type->kernels) == 0;
}
/* An input or output belongs in host memory: its argument is in the kernel's host_in or host_out. */
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
/* Calls the kernel of an asynchronous run, for a device's start; when it is a synchronous one, *st is what it said and
 * the answer true.  Else it ends the run itself. */
static inline bool mr_run_kernel(mr_run *r, mr_status **st)
{
    if (r->kernel->run)
        *st = r->kernel->run(r);
    else
        r->kernel->run_async(r);
    return r->kernel->run != NULL;
}
/* Ends an asynchronous run; st NULL is success.  The run is gone afterwards. */
static inline void mr_run_done(mr_run *r, mr_status *st) { r->done(r, st); }
/* The resource a handle input names, of this type; the caller owns *out. */
mr_status *mr_run_resource(mr_run *r, int in, const mr_object_type *type, mr_object **out);
mr_status *mr_run_variable(mr_run *r, int in, mr_variable **out);
/* A handle to a resource that no manager knows: it lives as long as handles to it do.  Takes o over. */
mr_status *mr_anonymous_handle(mr_run *r, mr_object *o, mr_tensor **out);
/* A scalar resource tensor for a handle (the reference is taken over). */
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
                           mr_instance **out); /* m->kernel NULL: found by device type */
void mr_instance_unref(mr_instance *k);

/* ---- functions ---- */
struct mr_later; /* run/later.h: calls outside of a step */
struct mr_later_call;
struct mr_caller {
    /* Runs a function with n_args live tensors (borrowed); done gets n_rets owned tensors in rets
     * (given by the caller of call, valid until done).  Cancelled with the step of r. */
    void (*call)(mr_caller *c, mr_run *r, const mr_func_ref *f, mr_tensor *const *args, int n_args,
                 mr_tensor **rets, int n_rets, void (*done)(void *ctx, mr_status *st), void *ctx);
    /* The same for l.  done NULL: returns when it is over, with its status. */
    mr_status *(*call_later)(mr_caller *c, struct mr_later *l, const struct mr_later_call *a,
                             void (*done)(void *ctx, mr_status *st), void *ctx);
    /* l is made from r: mr_later_end is called for it before functions end, unless it is forgotten
     * first. */
    void (*keep)(mr_caller *c, struct mr_later *l, mr_run *r);
    void (*keep_like)(mr_caller *c, struct mr_later *l, const struct mr_later *like);
    void (*forget)(mr_caller *c, struct mr_later *l);
    /* call with another device as the function's home, also of another task of the cluster. */
    void (*call_on)(mr_caller *c, mr_run *r, mr_sv device, const mr_func_ref *f, mr_tensor *const *args, int n_args,
                    mr_tensor **rets, int n_rets, void (*done)(void *ctx, mr_status *st), void *ctx);
    /* No call with this mr_later_call.state is under way or will come. */
    void (*forget_state)(mr_caller *c, uint64_t state);
};

/* Ends the asynchronous run r by calling f with all its inputs and all its outputs: the kernel of
 * call ops. */
void mr_run_call(mr_run *r, const mr_func_ref *f);
/* The same with its inputs from `first` on: what is before them decides which function is meant. */
void mr_run_call_from(mr_run *r, const mr_func_ref *f, int first);
/* The same on a device that may be another one of this session. */
void mr_run_call_on(mr_run *r, mr_sv device, const mr_func_ref *f, int first);

/* ---- one op, now ---- */
/* Runs a node's kernel on the CPU with these inputs and waits for it: for constant folding, shape
 * inference, examples and fuzzing.  Outputs are owned by the caller, NULL where dead.  Stateful
 * resources live in `env` (a device made for it); NULL: a process-wide one for stateless ops.  A
 * declared ref input gets a variable holding a copy of the tensor (NULL: uninitialised), a ref
 * output gives its value; for other inputs NULL means dead, which only Merge takes.  A kernel that
 * waits for something that cannot come is cancelled after two seconds. */
mr_status *mr_eval_node(const mr_node *n, mr_device *env, mr_tensor *const *in, mr_tensor **out);
/* The same, but the references in `in` are taken over (also on error), so a kernel may write its
 * output over an input that nobody else holds, as in a step. */
mr_status *mr_eval_node_take(const mr_node *n, mr_device *env, mr_tensor **in, mr_tensor **out);
/* mr_eval_node for a value that is to be known before anything runs: if the shape of an output is not known yet, the
 * kernel gets 1 MiB in all, so that a small graph cannot expand into a large value.  RESOURCE_EXHAUSTED beyond. */
mr_status *mr_eval_bounded(const mr_node *n, mr_tensor *const *in, mr_tensor **out);
/* Another wait than two seconds: for tests. */
void mr_eval_set_patience(int64_t ms);

#endif
