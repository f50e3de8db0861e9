/* ops/state/mutex.c -- a mutex that ops wait for: MutexV2, MutexLock, ConsumeMutexLock.
 *
 * The lock travels as a variant; it is held until ConsumeMutexLock runs or the last copy of the variant is
 * dropped.  Waiting is first come, first served, holds no thread, and ends when the step is cancelled. */
#include "graph/infer.h"
#include "run/run.h"

typedef struct waiter {
    mr_cancel_entry entry;
    struct mutex *m;
    mr_run *r;
    struct waiter *next;
    bool done; /* has the lock, or was cancelled; guarded by the mutex */
} waiter;

typedef struct mutex {
    mr_object base;
    mr_mutex mu;
    bool held MR_GUARDED_BY(mu);
    waiter *first, **last MR_GUARDED_BY(mu);
} mutex;

/* The lock while somebody has it. */
typedef struct held_lock {
    mr_object base;
    mutex *m;
    _Atomic bool released;
} held_lock;

static void mutex_free(mr_object *o)
{
    mutex *m = (mutex *)o;
    mr_mutex_deinit(&m->mu);
    mr_free(m);
}

static const mr_object_type mutex_type = {"tensorflow::Mutex", mutex_free};

static void release(held_lock *l);

static void held_free(mr_object *o)
{
    held_lock *l = (held_lock *)o;
    release(l);
    mr_object_unref(&l->m->base);
    mr_free(l);
}

static const mr_object_type held_type = {"(anonymous)::Mutex::SharedLockReleaser", held_free};

/* Ends a run with the lock, which the mutex already counts as held. */
static void grant(mutex *m, mr_run *r)
{
    held_lock *l = mr_new(held_lock);
    mr_object_init(&l->base, &held_type);
    l->m = (mutex *)mr_object_ref(&m->base);
    mr_tensor *t = NULL;
    mr_status *st = mr_tensor_new(NULL, MR_VARIANT, 0, NULL, &t);
    if (st) {
        mr_object_unref(&l->base);
    } else {
        *MR_DATA(mr_object *, t) = &l->base;
        mr_run_set(r, 0, t);
    }
    mr_run_done(r, st);
}

static void take_out_locked(mutex *m, waiter *w)
{
    for (waiter **p = &m->first; *p; p = &(*p)->next)
        if (*p == w) {
            *p = w->next;
            if (m->last == &w->next)
                m->last = p;
            return;
        }
}

/* Hands the lock to the next in line. */
static void release(held_lock *l)
{
    mutex *m = l->m;
    if (atomic_exchange(&l->released, true))
        return;
    mr_lock(&m->mu);
    waiter *w = m->first;
    if (w) {
        take_out_locked(m, w);
        w->done = true;
    } else {
        m->held = false;
    }
    mr_unlock(&m->mu);
    if (!w)
        return;
    mr_run *r = w->r;
    mr_cancel_unregister(r->step->cancel, &w->entry); /* waits for a callback that came too late */
    grant(m, r);
    mr_object_unref(&w->m->base);
    mr_free(w);
}

static void on_cancel(mr_cancel_entry *e)
{
    waiter *w = (waiter *)e;
    mutex *m = w->m;
    mr_lock(&m->mu);
    bool late = w->done;
    if (!late) {
        take_out_locked(m, w);
        w->done = true;
    }
    mr_unlock(&m->mu);
    if (late)
        return;
    mr_run *r = w->r;
    mr_free(w);
    mr_run_done(r, mr_error(MR_CANCELLED, "Lock acquisition cancelled."));
    mr_object_unref(&m->base);
}

/* ---- the ops ---- */

typedef struct state {
    mr_device *device;
    char *container, *name;
    bool is_private;
    mr_tensor *handle;
} state;

static mr_status *init(mr_make *m, void *p)
{
    state *s = p;
    mr_sv container, shared;
    s->device = m->device;
    MR_TRY(mr_node_get_str(m->node, "container", &container));
    MR_TRY(mr_node_get_str(m->node, "shared_name", &shared));
    MR_TRY(mr_resource_check_names(container, shared));
    s->container = container.n ? mr_strndup(container.p, container.n) : mr_strdup(mr_resources_default(m->device->resources));
    s->is_private = shared.n == 0;
    s->name = shared.n ? mr_strndup(shared.p, shared.n) : mr_resource_private_name(m->node->name);
    return mr_handle_tensor(mr_handle_new(s->device->name, s->container, s->name, mutex_type.name, 0, NULL), &s->handle);
}

static void deinit(void *p)
{
    state *s = p;
    if (s->is_private && s->name)
        mr_status_free(mr_resources_remove(s->device->resources, mr_sv_of(s->container), mr_sv_of(s->name), &mutex_type));
    mr_tensor_unref(s->handle);
    mr_free(s->container);
    mr_free(s->name);
}

static mr_status *make(void *ctx, mr_object **out)
{
    (void)ctx;
    mutex *m = mr_new(mutex);
    mr_object_init(&m->base, &mutex_type);
    mr_mutex_init(&m->mu);
    m->last = &m->first;
    *out = &m->base;
    return NULL;
}

static mr_status *mutex_op(mr_run *r)
{
    state *s = r->state;
    mr_object *m;
    MR_TRY(mr_resources_find_or_make(r->step->device->resources, mr_sv_of(s->container), mr_sv_of(s->name), &mutex_type, make,
                                     NULL, &m));
    mr_object_unref(m);
    mr_run_set(r, 0, mr_tensor_ref(s->handle));
    return NULL;
}

MR_OP(MutexV2,
    .doc      = "a mutex",
    .sig      = "-> resource: resource",
    .attrs    = "container: string = ''; shared_name: string = ''",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(mutex_op)),
    .state_bytes = sizeof(state), .init = init, .deinit = deinit,
    .examples = MR_EXAMPLES("-> shape()"));

static void lock(mr_run *r)
{
    mutex *m;
    mr_status *st = mr_run_resource(r, 0, &mutex_type, (mr_object **)&m);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    waiter *w = mr_new(waiter);
    *w = (waiter){.entry.fn = on_cancel, .m = m, .r = r};
    mr_lock(&m->mu);
    bool now = !m->held, cancelled = false;
    m->held = true;
    if (!now) {
        cancelled = !mr_cancel_register(r->step->cancel, &w->entry);
        if (!cancelled) {
            *m->last = w;
            m->last = &w->next;
        }
    }
    mr_unlock(&m->mu);
    if (!now && !cancelled)
        return; /* the waiter now owns the reference to m */
    mr_free(w);
    if (now)
        grant(m, r);
    else
        mr_run_done(r, mr_error(MR_CANCELLED, "Lock acquisition cancelled."));
    mr_object_unref(&m->base);
}

MR_OP(MutexLock,
    .doc      = "waits for a mutex; the result holds it",
    .sig      = "mutex: resource -> mutex_lock: variant",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ASYNC(lock)),
    .examples = MR_EXAMPLES("m = MutexV2 shared_name=\"m\"; : m -> shape()"));

static mr_status *consume(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    mr_object *o = t->n == 1 ? *MR_DATA(mr_object *, t) : NULL;
    if (!o || o->type != &held_type)
        return mr_invalid("Expected input to contain a SharedLockReleaser object: it is not the output of MutexLock");
    if (!mr_tensor_sole(t) || !mr_refs_sole(&o->refs))
        return mr_invalid("Expected use count of lock to be 1, but the lock is held by others too");
    release((held_lock *)o);
    return NULL;
}

MR_OP(ConsumeMutexLock,
    .doc      = "gives a mutex back; nobody else may hold its lock",
    .sig      = "mutex_lock: variant ->",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_ANY(consume)));
