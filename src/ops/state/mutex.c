/* ops/state/mutex.c -- a mutex that ops wait for: MutexV2, MutexLock, ConsumeMutexLock.
 *
 * The lock is a variant; it is held until ConsumeMutexLock runs or the last copy of the variant is
 * dropped.  Waiters get the lock in order of arrival, do not block a thread, and stop waiting when their
 * step is cancelled (ops/queue/waiting.h). */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/queue/named.h"
#include "ops/queue/waiting.h"

typedef struct mutex {
    mr_waited on;
    bool held MR_GUARDED_BY(on.mu);
    mr_waiters line MR_GUARDED_BY(on.mu);
} mutex;

/* The lock while it is held. */
typedef struct held_lock {
    mr_object base;
    mutex *m;
    _Atomic bool released;
} held_lock;

static void mutex_free(mr_object *o)
{
    mutex *m = (mutex *)o;
    MR_ASSERT(!m->held && !m->line.first); /* a held lock and each waiter hold a reference */
    mr_waited_deinit(&m->on);
    mr_free(m);
}

static const mr_object_type mutex_type = {"tensorflow::Mutex", mutex_free};

/* ---- the held lock ---- */

/* Releases the lock, once; the next waiter in line gets it. */
static void release_lock(held_lock *l)
{
    if (atomic_exchange(&l->released, true))
        return;
    mr_lock(&l->m->on.mu);
    l->m->held = false;
    mr_waited_unlock(&l->m->on, NULL);
}

static void held_free(mr_object *o)
{
    held_lock *l = (held_lock *)o;
    release_lock(l);
    mr_object_unref(&l->m->on.base);
    mr_free(l);
}

static const mr_object_type held_type = {"(anonymous)::Mutex::SharedLockReleaser", held_free};

/* ---- waiting ---- */

static void advance_line(mr_waited *on, mr_waiters *gone)
{
    mutex *m = (mutex *)on;
    if (m->held || !m->line.first)
        return;
    m->held = true;
    mr_waiter_let_go(m->line.first, NULL, gone);
}

/* Sets the output to the lock.  advance_line has already marked the mutex as held. */
static mr_status *give_lock(mr_waiter *w)
{
    held_lock *l = mr_new(held_lock);
    mr_object_init(&l->base, &held_type);
    l->m = (mutex *)mr_object_ref(&w->on->base);
    mr_tensor *t = NULL;
    mr_status *st = mr_tensor_new(NULL, MR_VARIANT, 0, NULL, &t);
    if (st) {
        mr_object_unref(&l->base);
        return st;
    }
    *MR_DATA(mr_object *, t) = &l->base;
    mr_run_set(w->r, 0, t);
    return NULL;
}

static const mr_waited_kind waiting = {sizeof(mr_waiter), advance_line, give_lock, NULL};

/* ---- the ops ---- */

static mr_status *init_mutex(mr_make *m, void *p) { return mr_named_init(p, m, &mutex_type); }

static void deinit_mutex(void *p) { mr_named_deinit(p); }

static mr_status *make_mutex(void *ctx, mr_object **out)
{
    (void)ctx;
    mutex *m = mr_new(mutex);
    mr_waited_init(&m->on, &mutex_type, &waiting);
    *out = &m->on.base;
    return NULL;
}

static mr_status *mutex_op(mr_run *r)
{
    mr_object *m;
    MR_TRY(mr_named_open(r->state, make_mutex, NULL, &m));
    mr_object_unref(m);
    mr_named_give(r->state, r);
    return NULL;
}

MR_OP(MutexV2,
    .doc      = "a mutex",
    .sig      = "-> resource: resource",
    .attrs    = "container: string = ''; shared_name: string = ''",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(mutex_op)),
    .state_bytes = sizeof(mr_named), .init = init_mutex, .deinit = deinit_mutex,
    .examples = MR_EXAMPLES("-> shape()"));

static void lock_mutex(mr_run *r)
{
    mutex *m;
    mr_status *st = mr_run_resource(r, 0, &mutex_type, (mr_object **)&m);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    mr_wait(mr_waiter_new(&m->on, r, "Lock acquisition cancelled."), &m->line);
}

MR_OP(MutexLock,
    .doc      = "waits for a mutex; the result holds it",
    .sig      = "mutex: resource -> mutex_lock: variant",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ASYNC(lock_mutex)),
    .examples = MR_EXAMPLES("m = MutexV2 shared_name=\"m\"; : m -> shape()"));

static mr_status *consume_lock(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    mr_object *o = t->n == 1 ? *MR_DATA(mr_object *, t) : NULL;
    if (!o || o->type != &held_type)
        return mr_invalid("Expected input to contain a SharedLockReleaser object: it is not the "
                          "output of MutexLock");
    if (!mr_tensor_sole(t) || !mr_refs_sole(&o->refs))
        return mr_invalid("Expected use count of lock to be 1, but the lock is held by others too");
    release_lock((held_lock *)o);
    return NULL;
}

MR_OP(ConsumeMutexLock,
    .doc      = "releases a mutex; there must be no other reference to its lock",
    .sig      = "mutex_lock: variant ->",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_ANY(consume_lock)));
