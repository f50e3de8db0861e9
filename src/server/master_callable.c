/* server/master_callable.c -- MakeCallable, RunCallable, ReleaseCallable: a step that is named once
 * and run by its number.
 *
 * A callable keeps the bytes of its CallableOptions; its request (q) has views into them. Each run
 * copies those views into its step and holds a reference to the callable, so releasing it does not
 * disturb runs that are under way. */
#include <stdio.h>

#include "base/memory.h"
#include "server/master_internal.h"
#include "server/wire.h"

/* The names of a step, kept under a number. */
struct mr_mcallable {
    mr_refs refs; /* one for the table, one for each run */
    mr_str options; /* a CallableOptions */
    mr_mrequest q;  /* views into it */
};

/* The request's views point into `options`, so both go together. */
void mr_mcallable_unref(mr_mcallable *k)
{
    if (!k || !mr_refs_drop(&k->refs))
        return;
    mr_mrequest_deinit(&k->q);
    mr_str_deinit(&k->options);
    mr_free(k);
}

/* ---- MakeCallable ---- */

/* Refuses feeds and fetches that shall stay on a device: they pass through the master, which has them
 * in CPU memory. */
static mr_status *check_device(mr_sv entry)
{
    mr_device_name d;
    mr_sv device = mr_wire_field(entry, 2);
    if (!mr_device_name_parse(device, &d) || (d.has_type && !mr_sv_is(mr_sv_of(d.type), mr_device_cpu.name)))
        return mr_error(MR_UNIMPLEMENTED,
                        "Feeds and fetches on '%.*s' are not supported: the master needs them on a CPU",
                        MR_SV_ARG(device));
    return NULL;
}

/* Parses the CallableOptions into a request. The strings are views into `options`. */
static mr_status *parse_options(mr_sv options, mr_mrequest *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, options);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_sv v = MR_SV("");
        if (wire == MR_WIRE_BYTES && field <= 7)
            v = mr_pb_bytes(&r);
        switch (field) {
        case 1: mr_vec_push(&q->feeds, v); break;
        case 2: mr_vec_push(&q->fetches, v); break;
        case 3: mr_vec_push(&q->targets, v); break;
        case 4: MR_TRY(mr_run_options_parse(v, &q->options)); break;
        case 5: mr_vec_push(&q->connections, v); break;
        case 6:
        case 7: MR_TRY(check_device(v)); break;
        default: mr_pb_skip(&r);
        }
    }
    return mr_pb_reader_status(&r, "CallableOptions");
}

/* A request of any of the three methods. */
typedef struct callable_request {
    mr_sv session, options;
    int64_t handle, request;
    MR_VEC(mr_sv) feeds;
} callable_request;

/* Parses a MakeCallableRequest. The strings are views into the body. */
static mr_status *parse_make(mr_sv body, callable_request *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: q->session = mr_pb_bytes(&r); break;
        case 2: q->options = mr_pb_bytes(&r); break;
        case 3: q->request = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "MakeCallableRequest");
}

/* Adds a callable and gives it a number. Its program is made at once, so that wrong names are reported
 * now; the tasks get their parts with the first run. */
static mr_status *add_callable(mr_msession *s, mr_sv options, int64_t *handle)
{
    mr_mprogram *program;
    mr_mcallable *k = mr_new(mr_mcallable);
    mr_refs_init(&k->refs);
    mr_str_append(&k->options, options.p ? options.p : "", options.n);
    mr_status *st = parse_options(mr_str_view(&k->options), &k->q);
    if (!st)
        st = mr_mprogram_get(s, &k->q, false, &program);
    if (st) {
        mr_mcallable_unref(k);
        return st;
    }
    /* Numbers are not used again, so a released callable is not confused with a new one. */
    char text[24];
    mr_lock(&s->mu);
    *handle = s->next_callable++;
    snprintf(text, sizeof text, "%lld", (long long)*handle);
    mr_map_putz(&s->callables, text, k);
    mr_unlock(&s->mu);
    return NULL;
}

/* Leaves the session that mr_master_run_enter has entered; NULL: it has not. */
static void leave_session(mr_msession *s)
{
    if (!s)
        return;
    mr_msession_leave(s);
    mr_msession_unref(s);
}

/* Handles MakeCallable. The step is used only to enter the session; it does not run. */
void mr_master_make_callable(void *service, mr_net_call *c, mr_sv body)
{
    mr_master_run *t = mr_master_run_new(c);
    callable_request q = {0};
    mr_str reply = {0};
    mr_pb_writer w;
    int64_t handle = 0;
    mr_status *st = parse_make(body, &q);
    if (!st)
        st = mr_master_run_enter(t, service, q.session, q.request);
    mr_msession *s = t->session;
    if (!st)
        st = add_callable(s, q.options, &handle);
    mr_pb_writer_init(&w, &reply);
    if (!st)
        mr_pb_opt_varint(&w, 1, (uint64_t)handle);
    mr_master_run_unref(t);
    mr_reply_str(c, st, &reply);
    mr_str_deinit(&reply);
    leave_session(s);
}

/* ---- RunCallable ---- */

/* Parses a RunCallableRequest, and also a ReleaseCallableRequest, whose two fields have the same numbers. The caller
 * frees q->feeds, also on failure. */
static mr_status *parse_run(mr_sv body, callable_request *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: q->session = mr_pb_bytes(&r); break;
        case 2: q->handle = mr_pb_int64(&r); break;
        case 3: {
            mr_sv feed = mr_pb_bytes(&r);
            mr_vec_push(&q->feeds, feed);
            break;
        }
        case 4: q->request = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "RunCallableRequest");
}

/* Finds a callable and takes a reference. Handles are numbers in sequence, so a released one can be
 * told from one that never existed. */
static mr_status *find_callable(mr_msession *s, int64_t handle, mr_mcallable **out)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)handle);
    mr_lock(&s->mu);
    bool ever = handle >= 0 && handle < s->next_callable;
    *out = mr_map_getz(&s->callables, text);
    if (*out)
        mr_refs_take(&(*out)->refs);
    mr_unlock(&s->mu);
    if (*out)
        return NULL;
    return ever ? mr_invalid("Attempted to run callable after handle was released: %lld", (long long)handle)
                : mr_invalid("No such callable handle: %lld", (long long)handle);
}

/* Fills the step with the callable's names and this call's values, and finds its program. */
static mr_status *fill_step(mr_master_run *t, const callable_request *q)
{
    MR_TRY(find_callable(t->session, q->handle, &t->callable));
    MR_ASSERT(t->callable);
    /* The names are views into the callable, which the step keeps; the values are views into the call's body. */
    const mr_mrequest *named = &t->callable->q;
    if (q->feeds.n != named->feeds.n)
        return mr_invalid("Expected %d feed tensors, but got %d", named->feeds.n, q->feeds.n);
    for (int i = 0; i < named->feeds.n; i++) {
        mr_vec_push(&t->q.feeds, named->feeds.p[i]);
        mr_vec_push(&t->q.values, q->feeds.p[i]);
    }
    for (int i = 0; i < named->fetches.n; i++)
        mr_vec_push(&t->q.fetches, named->fetches.p[i]);
    for (int i = 0; i < named->targets.n; i++)
        mr_vec_push(&t->q.targets, named->targets.p[i]);
    for (int i = 0; i < named->connections.n; i++)
        mr_vec_push(&t->q.connections, named->connections.p[i]);
    t->q.options = named->options;
    return mr_mprogram_get(t->session, &t->q, false, &t->program);
}

/* Handles RunCallable, on the pool: the program may have to be made again, since placing the graph again drops it. */
void mr_master_handle_run_callable(void *service, mr_net_call *c, mr_sv body)
{
    mr_master_run *t = mr_master_run_new(c);
    callable_request q = {0};
    mr_status *st = parse_run(body, &q);
    if (!st)
        st = mr_master_run_enter(t, service, q.session, q.request);
    if (!st)
        st = fill_step(t, &q);
    mr_vec_deinit(&q.feeds);
    mr_master_run_go(t, st);
}

/* ---- ReleaseCallable ---- */

/* Handles ReleaseCallable. Releasing a handle that does not exist is not an error. Runs that are under way keep the
 * callable. The step is used only to enter the session; it does not run. */
void mr_master_release_callable(void *service, mr_net_call *c, mr_sv body)
{
    mr_master_run *t = mr_master_run_new(c);
    callable_request q = {0};
    char text[24];
    mr_status *st = parse_run(body, &q);
    if (!st)
        st = mr_master_run_enter(t, service, q.session, 0);
    mr_msession *s = t->session;
    snprintf(text, sizeof text, "%lld", (long long)q.handle);
    if (!st) {
        mr_lock(&s->mu);
        mr_mcallable *k = mr_map_remove(&s->callables, mr_sv_of(text));
        mr_unlock(&s->mu);
        mr_mcallable_unref(k);
    }
    mr_vec_deinit(&q.feeds);
    mr_master_run_unref(t);
    mr_reply(c, st, NULL);
    leave_session(s);
}
