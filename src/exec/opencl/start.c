/* exec/opencl/start.c -- runs a node of an OpenCL device.
 *
 * A value on such a device lies in its memory or in the host's, and says so itself (mr_tensor_on_host).  Before a kernel
 * runs, each input is brought to where the kernel wants it:
 *
 *     a kernel that computes by the device       device memory, but for host_in, strings and handles
 *     an op that touches no data (Identity, Switch)     either, but for host_in: what it decides by
 *     any other kernel       host memory: it is the CPU's, or a user's
 *
 * To the device: the copy is queued, and the kernel behind it; nobody waits, for small tensors are put aside first.  A
 * large one is read where it lies; as a client may change what it fed as soon as its step is over, the node ends only
 * when the copy is done.  From the device: the run waits for the copy without a thread and goes on in the pool.
 *
 * A step that is traced waits before and after each kernel, so that its time is the kernel's and not that of queueing it:
 * placement by cost would else believe the device to be as fast as it can be asked. */
#include "base/clock.h"
#include "base/memory.h"
#include "exec/opencl/opencl.h"
#include "exec/step.h"

#define ASIDE_BYTES ((size_t)64 << 10) /* copying so much is cheaper than waiting for it */

typedef enum place { EITHER, HOST, DEVICE } place;

typedef struct waiting { /* a run that waits for copies */
    mr_task task;        /* goes on when all are done */
    mr_run *r;
    _Atomic int left;
    mr_mutex mu;
    mr_status *st MR_GUARDED_BY(mu);
} waiting;

/* ---- where inputs belong ---- */

static place place_of(const mr_run *r, int i, bool own, bool passes)
{
    if (r->in[i].kind != MR_LIVE || !mr_dtype_is_plain(r->in[i].t->dtype))
        return EITHER;
    if (mr_run_host_in(r, i))
        return HOST;
    return own ? DEVICE : passes ? EITHER : HOST;
}

static bool is_there(const mr_tensor *t, place want)
{
    return want == EITHER || t->n == 0 || mr_tensor_on_host(t) == (want == HOST);
}

/* ---- waiting ---- */

static bool is_traced(const mr_run *r) { return ((const mr_exec *)r->step->owner)->flow->trace != NULL; }

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

static void run_now(mr_run *r)
{
    mr_status *st = NULL;
    if (mr_run_on_device(r) && r->kernel->run && is_traced(r))
        mr_run_done(r, run_timed(r));
    else if (mr_run_kernel(r, &st))
        mr_run_done(r, st);
}

static void go_on(mr_task *task)
{
    waiting *w = (waiting *)task;
    mr_run *r = w->r;
    mr_status *st = w->st;
    mr_mutex_deinit(&w->mu);
    mr_small_free(w, sizeof *w);
    if (st)
        mr_run_done(r, st);
    else
        run_now(r);
}

static void one_done(waiting *w)
{
    if (atomic_fetch_sub(&w->left, 1) == 1)
        mr_pool_submit(w->r->step->device->pool, &w->task);
}

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

static waiting *waiting_of(mr_run *r, waiting **w)
{
    if (!*w) {
        *w = mr_small_alloc(sizeof **w);
        memset(*w, 0, sizeof **w);
        (*w)->task.fn = go_on;
        (*w)->r = r;
        mr_mutex_init(&(*w)->mu);
        atomic_init(&(*w)->left, 1); /* of the one who starts the copies */
    }
    atomic_fetch_add(&(*w)->left, 1);
    return *w;
}

/* ---- moving an input ---- */

/* The kernel gets the copy; the original may go at once, for what comes after is queued behind. */
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
        copy_done(w, st); /* no copy can end it before this */
        return;
    }
    if (st)
        mr_run_done(r, st);
    else
        run_now(r);
}
