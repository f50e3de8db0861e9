/* run/eval.c -- runs one op on the calling thread, outside of any step.
 *
 * Each evaluation makes a private step with its own cancellation and rendezvous. Nothing else works on that step,
 * so an asynchronous kernel that does not end soon never will. wait_done therefore cancels it after a while
 * (mr_eval_set_patience); every kernel must end when it is cancelled. */
#include "base/clock.h"
#include "base/memory.h"
#include "run/run.h"

static _Atomic int64_t patience_ns = INT64_C(2000000000);

void mr_eval_set_patience(int64_t ms) { atomic_store(&patience_ns, ms * 1000000); }

/* One evaluation, on the stack of the caller. The kernel may end it from another thread (eval_done), so the caller
 * leaves only after `done`. */
typedef struct eval {
    mr_run run;
    mr_step step;
    mr_mutex mu;
    mr_cond changed;
    mr_mutex step_mu;
    bool done MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu);
} eval;

/* The device of evaluations that keep no state; lives as long as the process. */
static mr_device *shared_device(void)
{
    static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
    static mr_device *device;
    pthread_mutex_lock(&mu);
    if (!device)
        mr_status_free(
            mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &device));
    pthread_mutex_unlock(&mu);
    return device;
}

/* The `done` of the run; the kernel may call it from any thread. */
static void eval_done(mr_run *r, mr_status *st)
{
    eval *e = (eval *)((char *)r - offsetof(eval, run));
    mr_lock(&e->mu);
    MR_ASSERT(!e->done);
    e->done = true;
    e->st = st;
    mr_cond_signal(&e->changed);
    mr_unlock(&e->mu);
}

/* Ends whatever the kernel waits for. */
static void cancel_eval(eval *e)
{
    mr_status *why = mr_error(MR_CANCELLED, "The op waits for something that cannot happen outside of a step");
    mr_cancel_start(e->step.cancel);
    mr_rendezvous_abort(e->step.rendezvous, why);
    mr_status_free(why);
}

/* Waits until the kernel has ended. At the deadline it cancels once, and then waits without a limit. */
static mr_status *wait_done(eval *e)
{
    bool cancelled = false;
    int64_t deadline_ns = 0;
    mr_lock(&e->mu);
    while (!e->done) {
        if (cancelled) {
            mr_cond_wait(&e->changed, &e->mu);
            continue;
        }
        if (!deadline_ns)
            deadline_ns = mr_now_ns() + atomic_load(&patience_ns);
        if (!mr_cond_wait_until(&e->changed, &e->mu, deadline_ns) && !e->done) {
            mr_unlock(&e->mu);
            cancel_eval(e);
            mr_lock(&e->mu);
            cancelled = true;
        }
    }
    mr_status *st = e->st;
    mr_unlock(&e->mu);
    return st;
}

/* A reference input gets its own variable with a copy of the tensor. *out is to be dropped also on failure. */
static mr_status *make_input(const mr_node *n, int i, mr_tensor *t, mr_value *out)
{
    if (mr_dtype_is_ref(n->in_types[i])) {
        mr_variable *v = mr_variable_new(true, mr_dtype_base(n->in_types[i]), n->name);
        *out = (mr_value){.ref = v, .kind = MR_REF};
        return t ? mr_tensor_copy(NULL, t, &v->t) : NULL;
    }
    if (!t && !mr_node_is_merge(n))
        return mr_invalid("%s '%s': input %d is missing", n->def->name, n->name, i);
    if (t && t->dtype != mr_dtype_base(n->in_types[i]))
        return mr_invalid("%s '%s': input %d is %s, expected %s", n->def->name, n->name, i,
                          mr_dtype_name(t->dtype), mr_dtype_name(n->in_types[i]));
    *out = (mr_value){.t = mr_tensor_ref(t), .kind = t ? MR_LIVE : MR_DEAD};
    return NULL;
}

/* Moves output i to the caller; of a reference, the current value of its variable. */
static mr_status *take_output(const mr_node *n, int i, mr_value *v, mr_tensor **out)
{
    *out = NULL;
    if (v->kind == MR_REF)
        return mr_variable_read(v->ref, NULL, out);
    if (v->kind != MR_LIVE)
        return v->kind == MR_DEAD || mr_node_is_switch(n)
                   ? NULL
                   : mr_error(MR_INTERNAL, "Missing %d-th output from {{node %s}}", i, n->name);
    if (v->t->dtype != mr_dtype_base(n->out_types[i]))
        return mr_error(MR_INTERNAL,
                        "Output %d of type %s does not match declared output type %s for node %s",
                        i, mr_dtype_name(v->t->dtype), mr_dtype_name(n->out_types[i]), n->name);
    *out = v->t;
    v->kind = MR_ABSENT;
    return NULL;
}

/* Without a device for state (env), the step runs on the shared device, so the node must be stateless. */
static void step_init(eval *e, mr_device *env)
{
    mr_mutex_init(&e->mu);
    mr_mutex_init(&e->step_mu);
    mr_cond_init(&e->changed);
    e->step.device = env ? env : shared_device();
    e->step.cancel = mr_cancel_new(NULL);
    e->step.stop = mr_cancel_stop(e->step.cancel);
    e->step.rendezvous = mr_rendezvous_new();
    e->step.mu = &e->step_mu;
}

/* The kernel has ended, so nobody waits in the rendezvous or in the cancellation any more. */
static void step_deinit(eval *e)
{
    mr_resources_free(e->step.resources);
    mr_rendezvous_unref(e->step.rendezvous);
    mr_cancel_free(e->step.cancel);
    mr_cond_deinit(&e->changed);
    mr_mutex_deinit(&e->step_mu);
    mr_mutex_deinit(&e->mu);
}

/* Runs the kernel to its end, also an asynchronous one. */
static mr_status *run_kernel(eval *e, const mr_instance *k)
{
    MR_ASSERT(e->step.device && k->kernel);
    e->run.kernel = k->kernel;
    e->run.state = k->state;
    e->run.step = &e->step;
    e->run.done = eval_done;
    if (k->kernel->run)
        return k->kernel->run(&e->run);
    k->kernel->run_async(&e->run);
    return wait_done(e);
}

/* Sets them to NULL, so that a second call does nothing. */
static void drop_inputs(const mr_node *n, mr_tensor **in)
{
    for (int i = 0; i < n->n_in; i++) {
        mr_tensor_unref(in[i]);
        in[i] = NULL;
    }
}

/* Runs the node and moves its outputs to out; on failure they are all NULL. `own` is NULL, or `in` again:
 * these references are dropped as soon as the run has its own, so that a kernel may write over an input
 * nobody else holds. */
static mr_status *evaluate_node(const mr_node *n, mr_device *env, mr_tensor *const *in, mr_tensor **own,
                           mr_tensor **out)
{
    mr_status *st = NULL;
    mr_instance *k = NULL;
    eval e = {0};
    mr_value *values = mr_try_calloc((size_t)n->n_in + (size_t)n->n_out, sizeof(mr_value));
    if (!values)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot allocate the inputs of %s", n->name);
    e.run = (mr_run){
        .node = n, .n_in = n->n_in, .n_out = n->n_out, .in = values, .out = values + n->n_in};
    step_init(&e, env);
    for (int i = 0; i < n->n_out; i++)
        out[i] = NULL;
    for (int i = 0; i < n->n_in; i++)
        MR_GO(make_input(n, i, in[i], &values[i]));
    /* The run has its own references now. */
    if (own)
        drop_inputs(n, own);
    MR_GO(mr_instance_new(&(mr_make){n, NULL, e.step.device, n->graph->library}, &k));
    MR_GO(mr_status_append(run_kernel(&e, k), "\n\t [[{{node %s}}]]", n->name));
    for (int i = 0; i < n->n_out; i++)
        MR_GO(take_output(n, i, &e.run.out[i], &out[i]));
out:
    for (int i = 0; st && i < n->n_out; i++) {
        mr_tensor_unref(out[i]);
        out[i] = NULL;
    }
    for (int i = 0; i < n->n_in + n->n_out; i++)
        mr_value_drop(&values[i]);
    mr_instance_unref(k);
    step_deinit(&e);
    mr_free(values);
    return st;
}

mr_status *mr_eval_node(const mr_node *n, mr_device *env, mr_tensor *const *in, mr_tensor **out)
{
    return evaluate_node(n, env, in, NULL, out);
}

/* evaluate_node has dropped the references as soon as the run had its own; if it failed before, they are dropped
 * here. */
mr_status *mr_eval_node_take(const mr_node *n, mr_device *env, mr_tensor **in, mr_tensor **out)
{
    mr_status *st = evaluate_node(n, env, in, in, out);
    drop_inputs(n, in); /* if the run never began */
    return st;
}

/* If some output shape is unknown, the node runs on a private device with a budget, so that concurrent evaluations
 * do not count. The outputs keep the budget alive as long as they need it. */
mr_status *mr_eval_bounded(const mr_node *n, mr_tensor *const *in, mr_tensor **out)
{
    bool known = true;
    for (int i = 0; i < n->n_out; i++)
        known &= n->out_shapes[i] && mr_pshape_full(n->out_shapes[i]);
    if (known)
        return mr_eval_node(n, NULL, in, out);
    mr_device *d;
    MR_TRY(mr_device_new_cpu(shared_device()->name, NULL, &d));
    d->alloc = mr_budget_new(NULL, "evaluation", 1 << 20);
    mr_status *st = mr_eval_node(n, d, in, out);
    mr_budget_free(d->alloc);
    mr_device_free(d);
    return st;
}
