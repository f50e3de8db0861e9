/* exec/opencl/start.c -- runs a node of an OpenCL device.
 *
 * A value on such a device is in its memory or in the host's, and mr_tensor_on_host tells which. Before a
 * kernel runs, each input is brought to where the kernel wants it:
 *
 *     a kernel that computes on the device            device memory, except for host_in, strings and handles
 *     an op that touches no data (Identity, Switch)   either, except for host_in: the value it decides by
 *     any other kernel                                host memory: it is a CPU kernel, or a user's
 *
 * To the device: the copy is queued, and the kernel behind it; nothing waits, because small tensors are
 * copied to a temporary block first. A large tensor is read where it is. The client may change a tensor that
 * it fed as soon as its step is over, so the node ends only when the copy is done. From the device: the run
 * waits for the copy without a thread and continues in the pool.
 *
 * A traced step waits before and after each kernel, so that the time recorded is the kernel's and not that of
 * queueing it. Otherwise placement by cost would take the queueing time for the speed of the device. */
#include "base/clock.h"
#include "base/memory.h"
#include "exec/opencl/opencl.h"
#include "exec/executor_state.h"

#define ASIDE_BYTES ((size_t)64 << 10) /* copying up to this much is cheaper than waiting */

typedef enum place { EITHER, HOST, DEVICE } place;

typedef struct waiting { /* a run that waits for copies */
    mr_task task;        /* continues the run when all copies are done */
    mr_run *r;
    _Atomic int left;    /* copies under way, and the thread that starts them */
    mr_mutex mu;
    mr_status *st MR_GUARDED_BY(mu);
} waiting;

/* ---- where inputs belong ---- */

/* Where input i belongs; own: the kernel computes on the device, passes: the op touches no data. */
static place place_of(const mr_run *r, int i, bool own, bool passes)
{
    if (r->in[i].kind != MR_LIVE || !mr_dtype_is_plain(r->in[i].t->dtype))
        return EITHER;
    if (mr_run_host_in(r, i))
        return HOST;
    return own ? DEVICE : passes ? EITHER : HOST;
}

/* An empty tensor has no data, so it is everywhere. */
static bool is_there(const mr_tensor *t, place want)
{
    return want == EITHER || t->n == 0 || mr_tensor_on_host(t) == (want == HOST);
}

/* ---- waiting ---- */

static bool is_traced(const mr_run *r) { return ((const mr_exec *)r->step->owner)->flow->trace != NULL; }

/* Runs a traced kernel with the queue empty before and after it. Blocks the thread. */
static mr_status *run_timed(mr_run *r)
{
    const mr_opencl *p = mr_opencl_of(r->step->device);
    MR_TRY(p->driver->finish(p->d));
    r->began_ns = mr_now_ns();
    MR_TRY(r->kernel->run(r));
    mr_status *st = p->driver->finish(p->d);
    r->ended_ns = mr_now_ns();
    return st;
}

/* All inputs are in the right memory. */
static void run_now(mr_run *r)
{
    mr_status *st = NULL;
    if (mr_run_on_device(r) && r->kernel->run && is_traced(r))
        mr_run_done(r, run_timed(r));
    else if (mr_run_kernel(r, &st))
        mr_run_done(r, st);
}

/* All copies are done: runs the kernel on a thread of the pool, or reports the first error. */
static void go_on(mr_task *task)
{
    waiting *w = (waiting *)task;
    mr_run *r = w->r;
    MR_ASSERT(w->left == 0);
    mr_status *st = w->st;
    mr_mutex_deinit(&w->mu);
    mr_small_free(w, sizeof *w);
    if (st)
        mr_run_done(r, st);
    else
        run_now(r);
}

/* The last one submits the continuation, which frees w. */
static void one_done(waiting *w)
{
    MR_ASSERT(w->left > 0);
    if (atomic_fetch_sub(&w->left, 1) == 1)
        mr_pool_submit(w->r->step->device->pool, &w->task);
}

/* Called by the waiter's thread, and once by the thread that starts the copies. Takes st. */
static void copy_done(void *arg, mr_status *st)
{
    waiting *w = arg;
    if (st) {
        mr_lock(&w->mu);
        mr_status_update(&w->st, st);
        mr_unlock(&w->mu);
    }
    one_done(w);
}

/* Makes *w on first use and counts one more copy in it. The thread that starts the copies holds one count, so
 * the run cannot continue before all of them are started. */
static waiting *waiting_of(mr_run *r, waiting **w)
{
    if (!*w) {
        *w = mr_small_alloc(sizeof **w);
        memset(*w, 0, sizeof **w);
        (*w)->task.fn = go_on;
        (*w)->r = r;
        mr_mutex_init(&(*w)->mu);
        atomic_init(&(*w)->left, 1);
    }
    atomic_fetch_add(&(*w)->left, 1);
    return *w;
}

/* ---- moving an input ---- */

/* Replaces an input by a copy on the other side. The original may be freed at once: if its memory is reused,
 * later commands are queued behind the copy. */
static mr_status *move_input(mr_run *r, int i, place to, waiting **w)
{
    mr_opencl *p = mr_opencl_of(r->step->device);
    mr_tensor *from = mr_in(r, i), *copy = NULL;
    mr_allocator *a = to == HOST ? mr_cpu_allocator() : r->step->device->alloc;
    mr_status *st = NULL;
    MR_TRY(mr_tensor_new(a, from->dtype, from->rank, from->dims, &copy));
    if (to == HOST)
        mr_opencl_copy_out(p, from, copy, copy_done, waiting_of(r, w));
    else if (mr_tensor_bytes(from) > ASIDE_BYTES)
        mr_opencl_copy_in(p, from, copy, copy_done, waiting_of(r, w));
    else
        st = mr_opencl_copy_in_soon(p, from->data, copy);
    r->in[i].t = copy;
    mr_tensor_unref(from);
    return st;
}

/* mr_device_type.start: moves the inputs and runs the kernel, now or when the copies are done. */
void mr_opencl_start(mr_run *r)
{
    bool own = mr_run_on_device(r), passes = r->node->def->flags & MR_HOST_ONLY || !r->node->def->op;
    waiting *w = NULL;
    mr_status *st = NULL;
    for (int i = 0; i < r->n_in && !r->dead && !st; i++) {
        place want = place_of(r, i, own, passes);
        if (want != EITHER && !is_there(mr_in(r, i), want))
            st = move_input(r, i, want, &w);
    }
    if (w) {
        copy_done(w, st); /* gives up the starter's count */
        return;
    }
    if (st)
        mr_run_done(r, st);
    else
        run_now(r);
}
