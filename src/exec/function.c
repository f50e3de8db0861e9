/* exec/function.c -- runs functions of a library for kernels (mr_caller).
 *
 * A function with its attrs is made into a program once for each device it is called from. The program, with
 * its stateful kernels, is kept until the session ends. A call is a flow of that program on the runner of the
 * calling step. Its work is posted, never run from inside the call, so deep recursion needs memory but no
 * stack.
 *
 * Calls outside of a step (run/later.h) are flows of the same programs on their own runners. Each object that
 * may make such calls is listed. Before the functions end, each of them is ended and waited for.
 *
 * Invariants: a function is in by_hash from its creation until it is freed; n_of_states is the number of
 * those whose `state` is not 0; an mr_later is in `laters` from keep until forget, or until take_later
 * removes it. */
#include "base/clock.h"
#include "base/map.h"
#include "base/memory.h"
#include "exec/env.h"
#include "exec/straight.h"
#include "graph/grad.h"
#include "graph/library.h"
#include "run/blocking_work.h"
#include "run/later.h"

/* A recursion that never ends is an error, not the end of the process. */
#define MAX_DEPTH 10000
#define MAX_DEPTH_BYTES ((size_t)1 << 30)

typedef struct function {
    mr_function *def;      /* referenced; the client may have removed or redefined the function since */
    const mr_device *device;
    bool is_gradient;      /* of def: SymbolicGradient */
    uint64_t state;        /* mr_later_call.state whose calls share its kernels; 0: the session's */
    bool keeps_state;      /* some kernel keeps state from call to call */
    mr_arena arena;        /* of attrs */
    mr_tensor_vec held;
    int n_attrs;
    mr_named_attr *attrs;
    mr_program *program;
    struct function *next; /* of the same hash */
} function;

struct mr_functions {
    mr_caller caller; /* first: kernels see it */
    mr_env *env;
    mr_mutex mu;
    mr_imap by_hash; /* -> function * MR_GUARDED_BY(mu) */
    int n_of_states MR_GUARDED_BY(mu); /* functions that belong to a state */
    mr_cancel *cancel; /* ends what is called later */
    mr_mutex later_mu;
    mr_cond fewer;   /* `laters` got shorter */
    mr_later *laters MR_GUARDED_BY(later_mu); /* not referenced */
};


/* ---- which function is meant ---- */

typedef struct wanted {
    const mr_function *def;
    bool is_gradient;
    int n_attrs;
    const mr_named_attr *attrs;
    const mr_library *library;
    mr_device *device;
    uint64_t state;
} wanted;

static mr_status *find_def(const mr_library *l, const char *name, const mr_function **out)
{
    *out = l ? mr_library_find(l, mr_sv_of(name)) : NULL;
    return *out ? NULL : mr_error(MR_NOT_FOUND, "Function %s is not defined.", name);
}

/* SymbolicGradient stands for the gradient function that the library registers for f, or else for one derived
 * from f. */
static mr_status *resolve_gradient(const mr_func_ref *f, wanted *w)
{
    for (int i = 0; i < f->n_attrs; i++) {
        const mr_attr *v = &f->attrs[i].v;
        if (strcmp(f->attrs[i].name, "f") != 0 || v->kind != MR_ATTR_FUNC || v->is_list)
            continue;
        const char *given = mr_library_gradient(w->library, v->func->name);
        w->is_gradient = given == NULL;
        w->n_attrs = v->func->n_attrs;
        w->attrs = v->func->attrs;
        return find_def(w->library, given ? given : v->func->name, &w->def);
    }
    return mr_invalid("SymbolicGradient is missing attr: f");
}

/* Finds the function that `f` names. On success everything in *w is borrowed from the library and from f. */
static mr_status *resolve_function(const mr_library *l, mr_device *d, const mr_func_ref *f, wanted *w)
{
    *w = (wanted){.n_attrs = f->n_attrs, .attrs = f->attrs, .library = l, .device = d};
    if (w->library && strcmp(f->name, "SymbolicGradient") == 0)
        return resolve_gradient(f, w);
    return find_def(w->library, f->name, &w->def);
}

/* ---- the cache ---- */

/* Attrs that begin with '_' are notes to the runtime and do not change what a function computes. */
static bool attr_counts(const mr_named_attr *a) { return a->name[0] != '_'; }

/* Equal keys have equal hashes: only attrs that same_attrs compares are hashed. */
static uint64_t hash_of(const wanted *w)
{
    uint64_t h = (uint64_t)(uintptr_t)w->def * 0x9e3779b97f4a7c15u ^
                 (uint64_t)(uintptr_t)w->device ^ w->is_gradient ^ w->state * 0xd6e8feb86659fd93u;
    for (int i = 0; i < w->n_attrs; i++)
        if (attr_counts(&w->attrs[i]))
            h = mr_attr_hash(&w->attrs[i].v, h);
    return h;
}

/* Compares the attrs of a kept function, which has only those that count, with all attrs of a call, in order. */
static bool same_attrs(const function *f, const wanted *w)
{
    int k = 0;
    for (int i = 0; i < w->n_attrs; i++) {
        if (!attr_counts(&w->attrs[i]))
            continue;
        if (k == f->n_attrs || strcmp(f->attrs[k].name, w->attrs[i].name) != 0 ||
            !mr_attr_eq(&f->attrs[k].v, &w->attrs[i].v))
            return false;
        k++;
    }
    return k == f->n_attrs;
}

/* Needs fs->mu. Functions are compared by the address of their definition, which the entry keeps alive: a
 * redefined function has another one. */
static function *find_locked(mr_functions *fs, uint64_t hash, const wanted *w)
{
    for (function *f = mr_imap_get(&fs->by_hash, hash); f; f = f->next)
        if (f->def == w->def && f->device == w->device && f->is_gradient == w->is_gradient && f->state == w->state &&
            same_attrs(f, w))
            return f;
    return NULL;
}

/* ---- making a program ---- */

/* True for what a call must run in any case: results, control flow, and nodes with side effects. */
static bool is_root(const mr_node *n)
{
    return mr_node_is(n, "_Retval") || mr_node_is_control_flow(n) ||
           ((n->def->flags & MR_STATEFUL) && !mr_node_is(n, "_Arg"));
}

/* Copies the part of a function's body that a call must run: everything the roots and the control results
 * need. */
static mr_status *prune_body(const mr_body *b, mr_graph **out)
{
    const mr_graph *g = b->graph;
    MR_VEC(mr_node *) todo = {0};
    bool *keep = mr_new_array(bool, g->nodes.n + 1);
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.p[i] && is_root(g->nodes.p[i]))
            mr_vec_push(&todo, g->nodes.p[i]);
    for (int i = 0; i < b->n_keep; i++)
        mr_vec_push(&todo, b->keep[i]);
    while (todo.n > 0) {
        mr_node *n = mr_vec_pop(&todo);
        if (keep[n->id])
            continue;
        keep[n->id] = true;
        for (int i = 0; i < n->n_in; i++)
            mr_vec_push(&todo, n->in[i].node);
        for (int i = 0; i < n->n_ctrl; i++)
            mr_vec_push(&todo, n->ctrl[i]);
    }
    mr_status *st = mr_graph_copy(g, keep, out, NULL);
    mr_vec_deinit(&todo);
    mr_free(keep);
    return st;
}

/* Returns the session's devices with `first`, the caller's device, in front: nodes that request no device run
 * with their caller. The array is owned by the caller. */
static mr_device **devices_from(const mr_env *e, const mr_device *first)
{
    mr_device **d = mr_new_array(mr_device *, e->n_devices);
    int n = 1;
    for (int i = 0; i < e->n_devices; i++)
        d[e->devices[i] == first ? 0 : n++] = e->devices[i];
    return d;
}

/* Makes the program of a function: instantiates or differentiates it, prunes it, and spreads it over the
 * devices. */
static mr_status *make_program(mr_functions *fs, const wanted *w, mr_program **out)
{
    mr_status *st = NULL;
    mr_body body = {0};
    mr_graph *pruned = NULL, **parts = mr_new_array(mr_graph *, fs->env->n_devices);
    mr_prepare_options o = mr_env_prepare_options(fs->env);
    mr_device **devices = devices_from(fs->env, w->device);
    o.devices = devices;
    if (w->is_gradient)
        MR_GO(mr_function_gradient(w->library, w->def, w->attrs, w->n_attrs, &body));
    else
        MR_GO(mr_function_instantiate(w->library, w->def, w->attrs, w->n_attrs, &body));
    MR_GO(prune_body(&body, &pruned));
    MR_GO(mr_prepare_body(pruned, &o, parts)); /* consumes it */
    MR_GO(mr_program_new(parts, devices, o.n_devices, body.n_args, body.n_rets, NULL, &fs->caller,
                         out));
out:
    mr_body_deinit(&body);
    mr_free(parts);
    mr_free(devices);
    return mr_status_append(st, "\n\t [[function %s]]", w->def->def.name);
}

/* True if some kernel of the program itself keeps state from call to call. Functions that it calls are
 * checked when they are called. */
static bool keeps_state(const mr_program *p)
{
    for (int i = 0; i < p->n_plans; i++)
        for (uint32_t k = 0; k < p->plans[i]->n_nodes; k++) {
            const mr_node *n = p->plans[i]->nodes[k].node;
            if (n->def->op && (n->def->flags & MR_STATEFUL) && n->def->op->state_bytes > 0)
                return true;
        }
    return false;
}

/* Takes over p and keeps its own copies of the attrs that count. The definition is referenced: the client may
 * remove or redefine the function while this one is in use. */
static function *function_new(const wanted *w, mr_program *p)
{
    function *f = mr_new(function);
    MR_ASSERT(p);
    f->def = mr_function_ref(w->def);
    f->device = w->device;
    f->is_gradient = w->is_gradient;
    f->state = w->state;
    f->program = p;
    f->keeps_state = keeps_state(p);
    mr_arena_init(&f->arena, 0);
    f->attrs = mr_arena_array(&f->arena, mr_named_attr, w->n_attrs);
    for (int i = 0; i < w->n_attrs; i++)
        if (attr_counts(&w->attrs[i]))
            f->attrs[f->n_attrs++] =
                (mr_named_attr){mr_arena_strdup(&f->arena, w->attrs[i].name),
                                mr_attr_copy(&f->arena, &f->held, &w->attrs[i].v)};
    return f;
}

/* Nothing may be running in its program. */
static void function_free(function *f)
{
    mr_program_free(f->program);
    mr_function_unref(f->def);
    for (int i = 0; i < f->held.n; i++)
        mr_tensor_unref(f->held.p[i]);
    mr_vec_deinit(&f->held);
    mr_arena_deinit(&f->arena);
    mr_free(f);
}

/* Needs fs->mu. A new function goes to the front of the chain of its hash. */
static mr_status *find_or_make_locked(mr_functions *fs, const wanted *w, function **out)
{
    uint64_t hash = hash_of(w);
    mr_program *p = NULL;
    *out = find_locked(fs, hash, w);
    if (*out)
        return NULL;
    MR_TRY(make_program(fs, w, &p));
    *out = function_new(w, p);
    fs->n_of_states += w->state != 0;
    (*out)->next = mr_imap_put(&fs->by_hash, hash, *out);
    return NULL;
}

/* Makes the program with the lock held: each function is made once, and others in the step may need it
 * anyway. A function whose kernels keep no state serves the calls of all states. */
static mr_status *find_or_make(mr_functions *fs, const wanted *w, mr_program **out)
{
    wanted common = *w;
    function *f = NULL;
    common.state = 0;
    mr_lock(&fs->mu);
    mr_status *st = find_or_make_locked(fs, &common, &f);
    if (!st && w->state && f->keeps_state)
        st = find_or_make_locked(fs, w, &f);
    mr_unlock(&fs->mu);
    *out = !st ? f->program : NULL;
    return st;
}

/* Moves the functions of one state from their chain to the list `taken`, and returns that list; the caller
 * frees it. */
static function *take_state(function **chain, uint64_t state, function *taken)
{
    while (*chain) {
        function *f = *chain;
        if (f->state != state) {
            chain = &f->next;
            continue;
        }
        *chain = f->next;
        f->next = taken;
        taken = f;
    }
    return taken;
}

/* ---- calling ---- */

typedef struct call {
    mr_tensor **rets;
    int n_rets;
    void (*done)(void *ctx, mr_status *st);
    void *ctx;
} call;

/* Moves the results of a finished flow to the caller. On error it moves none of them. */
static mr_status *take_results(mr_flow *f, call *c)
{
    mr_status *st = mr_flow_take_status(f);
    for (int i = 0; !st && i < c->n_rets; i++)
        if (f->rets[i].kind != MR_LIVE)
            st = mr_invalid("Retval[%d] does not have value", i);
    for (int i = 0; !st && i < c->n_rets; i++) {
        c->rets[i] = f->rets[i].t;
        f->rets[i].kind = MR_ABSENT;
    }
    return st;
}

/* Ends a call. The flow is given back before `done` runs: `done` may start the same function again. */
static void call_done(mr_flow *f)
{
    call c = *(call *)f->ctx;
    MR_ASSERT(c.done);
    mr_small_free(f->ctx, sizeof(call));
    mr_status *st = take_results(f, &c);
    mr_program_give(f);
    c.done(c.ctx, st);
}

/* The call of a kernel, or of an iterator, may name any function. */
static mr_status *check_counts(const mr_program *p, const mr_func_ref *f, int n_args, int n_rets)
{
    if (p->n_args != n_args)
        return mr_invalid("Function %s takes %d arguments, got %d", f->name, p->n_args, n_args);
    if (p->n_rets != n_rets)
        return mr_invalid("Function %s returns %d values, expected %d", f->name, p->n_rets, n_rets);
    return NULL;
}

/* Where a call comes from: the library, device and limits that it inherits. */
typedef struct origin {
    const mr_library *library;
    mr_device *device;
    int depth;
    size_t depth_bytes;
    int64_t deadline_ns; /* 0: none */
    uint64_t state;
} origin;

/* A kernel that calls a function runs in an executor, so the step's owner is an mr_exec. */
static origin origin_of_run(const mr_run *r)
{
    MR_ASSERT(r->step->owner);
    const mr_flow *outer = ((mr_exec *)r->step->owner)->flow;
    return (origin){r->step->library, r->step->device, outer->depth, outer->depth_bytes, outer->deadline_ns,
                    outer->state};
}

static mr_status *too_deep_error(const mr_func_ref *f)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "Function %s: calls are nested deeper than %d", f->name, MAX_DEPTH);
}

/* Finds the program of a call and refuses calls that are nested too deep, take too much memory together or
 * have the wrong number of arguments. It checks the deadline because a loop of calls does so nowhere else. */
static mr_status *prepare_call(mr_functions *fs, const origin *o, const mr_func_ref *f, int n_args,
                               int n_rets, mr_program **out)
{
    wanted w;
    if (o->depth >= MAX_DEPTH)
        return too_deep_error(f);
    if (o->deadline_ns && mr_now_ns() > o->deadline_ns)
        return mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification");
    MR_TRY(resolve_function(o->library, o->device, f, &w));
    w.state = o->state;
    MR_TRY(find_or_make(fs, &w, out));
    if (o->depth_bytes + (*out)->flow_bytes > MAX_DEPTH_BYTES)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Function %s: nested calls take more than %zu MiB",
                        f->name, MAX_DEPTH_BYTES >> 20);
    return check_counts(*out, f, n_args, n_rets);
}

/* Takes a flow and fills in its arguments, which stay borrowed. The caller sets the deadline and the trace,
 * and starts it. */
static mr_status *open_call(mr_functions *fs, const origin *o, const mr_func_ref *f,
                            mr_tensor *const *args, int n_args, int n_rets, mr_flow **out)
{
    mr_program *p = NULL;
    MR_TRY(prepare_call(fs, o, f, n_args, n_rets, &p));
    MR_TRY(mr_program_take(p, out));
    MR_ASSERT((*out)->program == p && p->n_args == n_args && p->n_rets == n_rets);
    for (int i = 0; i < n_args; i++)
        (*out)->args[i] = (mr_value){.t = args[i], .kind = MR_LIVE};
    (*out)->depth = o->depth + 1;
    (*out)->depth_bytes = o->depth_bytes + p->flow_bytes;
    (*out)->state = o->state;
    return NULL;
}

/* Starts a call on the runner of the calling step, cancelled together with it. done is called exactly once,
 * also if the call could not be started. */
static void start_call(mr_caller *c, mr_run *r, const origin *o, const mr_func_ref *f, mr_tensor *const *args,
                       int n_args, mr_tensor **rets, int n_rets, void (*done)(void *ctx, mr_status *st), void *ctx)
{
    mr_flow *flow = NULL;
    mr_status *st = open_call((mr_functions *)c, o, f, args, n_args, n_rets, &flow);
    if (st) {
        done(ctx, st);
        return;
    }
    const mr_flow *outer = ((mr_exec *)r->step->owner)->flow;
    flow->deadline_ns = outer->deadline_ns;
    flow->trace = outer->trace;
    call *k = mr_small_alloc(sizeof(call));
    *k = (call){rets, n_rets, done, ctx};
    mr_flow_start(flow, &(mr_flow_start_args){outer->runner, outer->cancel, r->step, call_done, k});
}

/* mr_caller.call: runs the function on the device of the run. */
static void call_function(mr_caller *c, mr_run *r, const mr_func_ref *f, mr_tensor *const *args,
                          int n_args, mr_tensor **rets, int n_rets,
                          void (*done)(void *ctx, mr_status *st), void *ctx)
{
    origin o = origin_of_run(r);
    start_call(c, r, &o, f, args, n_args, rets, n_rets, done, ctx);
}

/* Finds the first device of the session that matches a full or partial name. *out is NULL without an error if
 * the name belongs to another task. */
static mr_status *find_device(const mr_env *e, const mr_device *home, mr_sv name, mr_device **out)
{
    mr_device_name asked, own, full;
    if (!mr_device_name_parse(name, &asked))
        return mr_invalid("Malformed device specification '%.*s'", MR_SV_ARG(name));
    for (int i = 0; i < e->n_devices; i++)
        if (mr_device_name_parse(mr_sv_of(e->devices[i]->name), &full) && mr_device_name_matches(&asked, &full)) {
            *out = e->devices[i];
            return NULL;
        }
    bool here = mr_device_name_parse(mr_sv_of(home->name), &own) && (!asked.has_job || strcmp(asked.job, own.job) == 0) &&
                (asked.task < 0 || asked.task == own.task);
    *out = NULL;
    if (!here)
        return NULL;
    return mr_invalid("Cannot run a function on device '%.*s': this task has no such device", MR_SV_ARG(name));
}

/* Forwards a call to the task that owns the device. Only a worker of a cluster can do that. */
static void call_other_task(const mr_env *e, mr_run *r, int depth, const mr_remote_args *a)
{
    if (!e->remote)
        a->done(a->ctx, mr_error(MR_UNIMPLEMENTED,
                                 "Cannot run a function on '%.*s' from %s: it belongs to another task, and this "
                                 "session has no cluster",
                                 MR_SV_ARG(a->device), r->step->device->name));
    else if (depth >= MAX_DEPTH)
        a->done(a->ctx, too_deep_error(a->f));
    else
        e->remote->call(e->remote, r, a);
}

/* mr_caller.call_on: runs the function on another device of this session, or of another task. */
static void call_on(mr_caller *c, mr_run *r, mr_sv device, const mr_func_ref *f, mr_tensor *const *args, int n_args,
                    mr_tensor **rets, int n_rets, void (*done)(void *ctx, mr_status *st), void *ctx)
{
    origin o = origin_of_run(r);
    const mr_env *e = ((mr_functions *)c)->env;
    mr_status *st = find_device(e, r->step->device, device, &o.device);
    if (st)
        done(ctx, st);
    else if (!o.device)
        call_other_task(e, r, o.depth,
                        &(mr_remote_args){device, f, args, rets, n_args, n_rets, o.depth + 1, done, ctx});
    else
        start_call(c, r, &o, f, args, n_args, rets, n_rets, done, ctx);
}

/* ---- calls outside of a step ---- */

static void waited_done(mr_flow *f) { mr_runner_finish(&f->own_runner); }

/* Runs the flow and waits for it on the calling thread, which works like the caller of a step. Gives the flow
 * back. */
static mr_status *call_and_wait(mr_functions *fs, mr_flow *f, const mr_later_call *a)
{
    if (a->one_thread)
        mr_runner_reset_caller_only(&f->own_runner, fs->env->devices[0]->pool);
    else
        mr_runner_reset(&f->own_runner, fs->env->inter, fs->env->devices[0]->pool, true);
    mr_flow_start(f, &(mr_flow_start_args){&f->own_runner, a->cancel, NULL, waited_done, NULL});
    mr_runner_wait(&f->own_runner, 0);
    mr_status *st = take_results(f, &(call){a->rets, a->n_rets, NULL, NULL});
    mr_program_give(f);
    return st;
}

/* Calls outside of a step have no deadline and are not traced. They count as nested in the call that made l. */
static mr_status *open_later(mr_functions *fs, mr_later *l, const mr_later_call *a, mr_flow **out)
{
    origin o = {mr_later_library(l), l->device, l->depth, l->depth_bytes, 0, a->state};
    MR_TRY(open_call(fs, &o, a->f, a->args, a->n_args, a->n_rets, out));
    (*out)->deadline_ns = 0;
    (*out)->trace = NULL;
    return NULL;
}

/* A call with one_thread that nobody waits for. Its kernels may block, so it gets a thread that may block. */
typedef struct threaded_call {
    mr_blocking_work work;
    mr_functions *fs;
    mr_later *later;
    mr_later_call a;
    void (*done)(void *ctx, mr_status *st);
    void *ctx;
} threaded_call;

/* mr_stop_swap makes waits for pipes on this thread end when the call is cancelled. */
static mr_status *run_threaded(threaded_call *t)
{
    mr_flow *flow = NULL;
    mr_stop outer = mr_stop_swap(mr_cancel_stop(t->a.cancel));
    mr_status *st = open_later(t->fs, t->later, &t->a, &flow);
    if (!st)
        st = call_and_wait(t->fs, flow, &t->a);
    mr_stop_swap(outer);
    return st;
}

/* Frees the call before it reports the end: done may end the functions. */
static void run_or_cancel_threaded(mr_blocking_work *w, bool cancelled)
{
    threaded_call *t = (threaded_call *)((char *)w - offsetof(threaded_call, work));
    mr_status *st = cancelled ? mr_status_mark_derived(mr_error(MR_CANCELLED, "Run call was cancelled")) : run_threaded(t);
    threaded_call was = *t;
    mr_small_free(t, sizeof *t);
    was.done(was.ctx, st);
}

/* Copies *a. The mr_later is kept alive by mr_later_start until done is called. */
static void start_threaded(mr_functions *fs, mr_later *l, const mr_later_call *a,
                           void (*done)(void *ctx, mr_status *st), void *ctx)
{
    threaded_call *t = mr_small_alloc(sizeof *t);
    *t = (threaded_call){.work.fn = run_or_cancel_threaded, .fs = fs, .later = l, .a = *a, .done = done, .ctx = ctx};
    mr_blocking_work_start(&t->work, a->cancel);
}

/* mr_caller.call_later. With done NULL it waits and returns the status of the call; otherwise errors go to
 * done and it returns NULL. */
static mr_status *call_later(mr_caller *c, mr_later *l, const mr_later_call *a,
                             void (*done)(void *ctx, mr_status *st), void *ctx)
{
    mr_functions *fs = (mr_functions *)c;
    mr_flow *flow = NULL;
    if (done && a->one_thread) {
        start_threaded(fs, l, a, done, ctx);
        return NULL;
    }
    mr_status *st = open_later(fs, l, a, &flow);
    if (st && done)
        done(ctx, st);
    if (st)
        return done ? NULL : st;
    if (!done)
        return call_and_wait(fs, flow, a);
    call *k = mr_small_alloc(sizeof(call));
    *k = (call){a->rets, a->n_rets, done, ctx};
    mr_runner_reset(&flow->own_runner, fs->env->inter, NULL, false);
    mr_flow_start(flow, &(mr_flow_start_args){&flow->own_runner, a->cancel, NULL, call_done, k});
    return NULL;
}

/* ---- functions that are called many times ---- */

/* A function that was looked up once. A straight one is run in a loop on the calling thread, unless several of its
 * nodes are worth a thread each and there are other threads; else each call is a flow on its own runner. */
typedef struct mr_prepared {
    mr_functions *fs;
    mr_program *program;
    mr_straight *straight; /* NULL: the program is not straight */
    origin o;
    mr_later_call a; /* args: the captured values, which come last */
    int n_first;
} prepared;

static void close_fn(mr_caller *c, prepared *k)
{
    (void)c;
    mr_straight_free(k->straight);
    mr_free(k);
}

/* The captured values are put into the straight program's flow once. */
static mr_status *begin_straight(prepared *k)
{
    MR_TRY(mr_straight_new(k->program, &k->straight));
    if (!k->straight)
        return NULL;
    mr_flow *f = mr_straight_flow(k->straight);
    for (int i = 0; i < k->a.n_args; i++)
        f->args[k->n_first + i] = (mr_value){.t = k->a.args[i], .kind = MR_LIVE};
    f->depth = k->o.depth + 1;
    f->depth_bytes = k->o.depth_bytes + k->program->flow_bytes;
    f->state = k->o.state;
    mr_straight_begin(k->straight, k->a.cancel);
    return NULL;
}

static mr_status *open_fn(mr_caller *c, mr_later *l, const mr_later_call *a, int n_first, prepared **out)
{
    prepared *k = mr_new(prepared);
    *k = (prepared){.fs = (mr_functions *)c, .a = *a, .n_first = n_first};
    k->o = (origin){mr_later_library(l), l->device, l->depth, l->depth_bytes, 0, a->state};
    mr_status *st = prepare_call(k->fs, &k->o, a->f, n_first + a->n_args, a->n_rets, &k->program);
    if (!st)
        st = begin_straight(k);
    if (st) {
        close_fn(c, k);
        k = NULL;
    }
    *out = k;
    return st;
}

static bool runs_straight(const prepared *k)
{
    return k->straight && (mr_straight_heavy(k->straight) < 2 || mr_pool_threads(k->fs->env->inter) < 2);
}

static int64_t fn_cost_ns(const prepared *k)
{
    if (!k->straight || mr_straight_waits(k->straight))
        return MR_LATER_FN_UNKNOWN;
    int64_t ns = mr_straight_cost_ns(k->straight);
    return ns > 0 && runs_straight(k) ? ns : MR_LATER_FN_UNKNOWN;
}

/* As call_and_wait. */
static mr_status *run_as_flow(prepared *k, mr_tensor *const *first, mr_tensor **rets)
{
    mr_flow *f;
    mr_later_call a = k->a;
    a.rets = rets;
    MR_TRY(mr_program_take(k->program, &f));
    for (int i = 0; i < k->n_first + a.n_args; i++)
        f->args[i] = (mr_value){.t = i < k->n_first ? first[i] : a.args[i - k->n_first], .kind = MR_LIVE};
    f->depth = k->o.depth + 1;
    f->depth_bytes = k->o.depth_bytes + k->program->flow_bytes;
    f->state = k->o.state;
    f->deadline_ns = 0;
    f->trace = NULL;
    return call_and_wait(k->fs, f, &a);
}

/* A program with work for the pools' threads counts this thread among theirs, as the caller of a step does. */
static mr_status *run_straight(prepared *k, mr_tensor *const *first, mr_tensor **rets)
{
    mr_flow *f = mr_straight_flow(k->straight);
    mr_pool *loops = mr_straight_heavy(k->straight) > 0 ? k->fs->env->devices[0]->pool : NULL;
    for (int i = 0; i < k->n_first; i++)
        f->args[i] = (mr_value){.t = first[i], .kind = MR_LIVE};
    mr_pool_caller_begins(loops);
    mr_status *st = mr_straight_run(k->straight);
    mr_pool_caller_ends(loops);
    for (int i = 0; !st && i < k->a.n_rets; i++) {
        rets[i] = f->rets[i].t;
        f->rets[i].kind = MR_ABSENT;
    }
    return st;
}

static mr_status *run_fn(mr_caller *c, prepared *k, mr_tensor *const *first, mr_tensor **rets)
{
    (void)c;
    return runs_straight(k) ? run_straight(k, first, rets) : run_as_flow(k, first, rets);
}

/* Frees the functions that were made for calls of this state. They are freed without the lock: a kernel may
 * own an iterator that forgets a state in turn. */
static void forget_state(mr_caller *c, uint64_t state)
{
    mr_functions *fs = (mr_functions *)c;
    uint32_t pos = 0;
    uint64_t hash;
    void *v;
    function *taken = NULL;
    mr_lock(&fs->mu);
    /* Chains are changed while the map is walked: their heads are replaced in place or removed, never added. */
    while (fs->n_of_states > 0 && mr_imap_next(&fs->by_hash, &pos, &hash, &v)) {
        function *chain = v, *before = taken;
        taken = take_state(&chain, state, taken);
        if (taken == before)
            continue;
        if (chain)
            mr_imap_put(&fs->by_hash, hash, chain);
        else
            mr_imap_remove(&fs->by_hash, hash);
    }
    for (function *f = taken; f; f = f->next)
        fs->n_of_states--;
    MR_ASSERT(fs->n_of_states >= 0);
    mr_unlock(&fs->mu);
    for (function *next; taken; taken = next) {
        next = taken->next;
        function_free(taken);
    }
}

/* The entry of an mr_later in the session's cancellation. */
static void session_cancelled(mr_cancel_entry *e)
{
    mr_cancel_start(((mr_later *)((char *)e - offsetof(mr_later, in_session)))->cancel);
}

/* Lists an mr_later, so that the session can end it, and holds the session on its behalf. If the session has
 * been cancelled already, the mr_later is cancelled too. */
static void list_later(mr_functions *fs, mr_later *l)
{
    if (fs->env->holder)
        fs->env->hold(fs->env->holder);
    l->in_session.fn = session_cancelled;
    if (!mr_cancel_register(fs->cancel, &l->in_session))
        mr_cancel_start(l->cancel);
    mr_lock(&fs->later_mu);
    l->prev = NULL;
    if ((l->next = fs->laters))
        l->next->prev = l;
    fs->laters = l;
    mr_unlock(&fs->later_mu);
}

/* mr_caller.keep: later calls count as nested as deep as the run that made l. */
static void keep_later(mr_caller *c, mr_later *l, mr_run *r)
{
    origin o = origin_of_run(r);
    l->depth = o.depth;
    l->depth_bytes = o.depth_bytes;
    list_later((mr_functions *)c, l);
}

/* mr_caller.keep_like: the new object counts as nested as deep as the one it was made from. */
static void keep_later_like(mr_caller *c, mr_later *l, const mr_later *like)
{
    l->depth = like->depth;
    l->depth_bytes = like->depth_bytes;
    list_later((mr_functions *)c, l);
}

/* Needs fs->later_mu. take_later may be waiting for the list to become shorter. */
static void unlist_locked(mr_functions *fs, mr_later *l)
{
    MR_ASSERT(fs->laters && (l->prev ? l->prev->next == l : fs->laters == l));
    if (l->prev)
        l->prev->next = l->next;
    else
        fs->laters = l->next;
    if (l->next)
        l->next->prev = l->prev;
    mr_cond_broadcast(&fs->fewer);
}

/* Removes an mr_later whose last reference is gone. Without a holder the session may be freed as soon as l is
 * off the list, so what is needed afterwards is read before. */
static void forget_later(mr_caller *c, mr_later *l)
{
    mr_functions *fs = (mr_functions *)c;
    void *holder = fs->env->holder;
    void (*release)(void *) = fs->env->release;
    mr_cancel_unregister(fs->cancel, &l->in_session);
    mr_lock(&fs->later_mu);
    unlist_locked(fs, l);
    mr_unlock(&fs->later_mu);
    if (holder)
        release(holder); /* the session may go with it */
}

/* Returns a listed mr_later with a reference and removes it from the list; NULL if none is left. One whose
 * last reference is being dropped removes itself, so this waits for it. Running functions may add new ones
 * meanwhile. */
static mr_later *take_later(mr_functions *fs)
{
    mr_later *l;
    mr_lock(&fs->later_mu);
    for (;;) {
        for (l = fs->laters; l && !mr_later_try_ref(l);)
            l = l->next;
        if (l || !fs->laters)
            break;
        mr_cond_wait(&fs->fewer, &fs->later_mu);
    }
    if (l)
        unlist_locked(fs, l);
    mr_unlock(&fs->later_mu);
    return l;
}

/* Cancels all of them first and waits afterwards: one may be waiting for another. */
void mr_functions_end(mr_functions *fs)
{
    const mr_env *e = fs->env;
    mr_cancel_start(fs->cancel);
    for (mr_later *l; (l = take_later(fs));) {
        mr_later_end(l);
        mr_cancel_unregister(fs->cancel, &l->in_session);
        mr_later_unref(l);
        if (e->holder)
            e->release(e->holder);
    }
}

/* ---- making and freeing ---- */

/* The cancellation of calls outside of steps is a child of the session's. On a server it has no parent: iterators
 * that are resources of its devices outlive a session. */
mr_functions *mr_functions_new(mr_env *e)
{
    mr_functions *fs = mr_new(mr_functions);
    fs->caller = (mr_caller){call_function, call_later, keep_later,  keep_later_like,
                             forget_later,  call_on,    forget_state, open_fn,
                             run_fn,        fn_cost_ns, close_fn};
    fs->env = e;
    fs->cancel = mr_cancel_new(e->borrowed ? NULL : e->cancel);
    mr_mutex_init(&fs->mu);
    mr_mutex_init(&fs->later_mu);
    mr_cond_init(&fs->fewer);
    return fs;
}

/* Ends all objects that could still call functions, then frees the programs. Steps must have ended before. */
void mr_functions_free(mr_functions *fs)
{
    uint32_t pos = 0;
    uint64_t hash;
    void *v;
    mr_functions_end(fs);
    MR_ASSERT(!fs->laters);
    while (mr_imap_next(&fs->by_hash, &pos, &hash, &v))
        for (function *f = v, *next; f; f = next) {
            next = f->next;
            function_free(f);
        }
    mr_imap_deinit(&fs->by_hash);
    mr_cancel_free(fs->cancel);
    mr_cond_deinit(&fs->fewer);
    mr_mutex_deinit(&fs->later_mu);
    mr_mutex_deinit(&fs->mu);
    mr_free(fs);
}

mr_caller *mr_functions_caller(mr_functions *fs) { return &fs->caller; }
