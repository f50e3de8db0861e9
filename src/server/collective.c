/* server/collective.c -- exchanges between members of a group: their lives, and groups as a member sees them.
 *
 * The way of an exchange: it finds its group, or asks the leader for it; of a broadcast the source; then it gets its number,
 * opens its box and makes all its offers and requests.  n_left counts what is not done yet, the way itself too; who takes it
 * to 0 ends the run.  A failure cancels the requests and takes the offers back, and the rest is the same.
 *
 * A failure breaks the communicator: its other exchanges here fail too, and tasks of other members are told, unless it came
 * from one of them. */
#include "server/collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/collective_internal.h"
#include "server/wire.h"

#define PATIENCE_NS (600 * INT64_C(1000000000))
#define GENERATION_PATIENCE_NS (10 * INT64_C(1000000000))

/* ---- groups ---- */

static void free_numbers(mr_map *m)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(m, &pos, &key, &v))
        mr_free(v);
    mr_map_deinit(m);
}

mr_cgroup *mr_cgroup_ref(mr_cgroup *g)
{
    mr_refs_take(&g->refs);
    return g;
}

void mr_cgroup_unref(mr_cgroup *g)
{
    if (!g || !mr_refs_drop(&g->refs))
        return;
    for (int i = 0; g->members && i < g->n; i++)
        mr_free(g->members[i].device);
    mr_free(g->members);
    mr_status_free(g->broken);
    free_numbers(&g->counts);
    free_numbers(&g->sources);
    mr_fellows_unref(g->peers);
    mr_free(g);
}

enum { GROUP_TEXT = 96 };
static mr_sv group_text(const mr_fellows *p, int64_t key, int64_t part, char out[GROUP_TEXT])
{
    snprintf(out, GROUP_TEXT, "%p %lld %lld", (const void *)p, (long long)key, (long long)part);
    return mr_sv_of(out);
}

mr_cgroup *mr_cgroup_find_locked(mr_collectives *c, uint64_t communicator)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(&c->groups, &pos, &key, &v))
        if (((mr_cgroup *)v)->communicator == communicator)
            return v;
    return NULL;
}

/* In place of the one before it; who still works in that finds it broken.  Takes the reference, gives one that is to be used:
 * the same communicator may have come by another op before. */
static mr_cgroup *keep_group(mr_collectives *c, mr_cgroup *g)
{
    char text[GROUP_TEXT];
    mr_sv key = group_text(g->peers, g->key, g->part, text);
    mr_lock(&c->mu);
    mr_cgroup *old = mr_map_get(&c->groups, key), *use = g;
    if (old && old->communicator == g->communicator) {
        use = old;
        old = g;
    } else {
        mr_map_put(&c->groups, key, g);
    }
    mr_cgroup_ref(use);
    mr_unlock(&c->mu);
    mr_cgroup_unref(old);
    return use;
}

void mr_collectives_tell(mr_collectives *c, mr_fellows *p, int task, uint64_t communicator, const mr_status *why, bool left)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_fixed64(&w, 1, communicator);
    mr_pb_put_bytes(&w, 2, mr_sv_of(mr_status_message(why)));
    mr_pb_opt_varint(&w, 3, left);
    mr_errands_send(&c->worker->errands, p, task, MR_WORKER_SERVICE "AbortCollective", &body);
}

/* Tasks of the group, and the leader's, each once; not this one. */
static void tell_all(mr_collectives *c, mr_cgroup *g, const mr_status *why, bool left)
{
    int n_tasks = g->peers->cluster.tasks.n;
    bool *marked = mr_new_array(bool, n_tasks + 1);
    marked[g->leader] = true;
    for (int i = 0; i < g->n; i++)
        marked[g->members[i].task] = true;
    marked[g->peers->self] = false;
    for (int i = 0; i < n_tasks; i++)
        if (marked[i])
            mr_collectives_tell(c, g->peers, i, g->communicator, why, left);
    mr_free(marked);
}

/* An exchange of the group that is not told yet (left: of those that wait for others to fetch); a reference. */
static mr_exchange *take_exchange(mr_collectives *c, const mr_cgroup *g, bool left)
{
    mr_lock(&c->mu);
    mr_exchange *x = c->exchanges;
    while (x && (x->group != g || x->ended || (left && x->call.kind != MR_BROADCAST)))
        x = x->next;
    if (x)
        mr_exchange_ref(x);
    mr_unlock(&c->mu);
    return x;
}

/* Who waits for the data of a member that has left is told by that member, which answers nobody any more. */
void mr_cgroup_break(mr_collectives *c, mr_cgroup *g, const mr_status *why, mr_break how)
{
    mr_lock(&c->mu);
    bool first = !g->broken;
    if (first)
        g->broken = mr_status_mark_derived(mr_status_copy(why));
    mr_unlock(&c->mu);
    if (!first)
        return;
    for (mr_exchange *x; (x = take_exchange(c, g, how == MR_BREAK_LEFT));) {
        mr_exchange_fail(x, mr_status_copy(g->broken), false);
        mr_exchange_unref(x);
    }
    mr_boxes_break(c, g->communicator, g->broken);
    mr_collectives_break_led(c, g->communicator, g->broken);
    if (how == MR_BREAK_TELL)
        tell_all(c, g, g->broken, false);
}

/* ---- life of an exchange ---- */

mr_exchange *mr_exchange_ref(mr_exchange *x)
{
    mr_refs_take(&x->refs);
    return x;
}

void mr_exchange_unref(mr_exchange *x)
{
    if (!x || !mr_refs_drop(&x->refs))
        return;
    mr_cgroup_unref(x->group);
    mr_fellows_unref(x->peers);
    mr_free(x->text);
    mr_str_deinit(&x->signature);
    mr_status_free(x->st);
    mr_free(x);
}

static void watch_members(mr_exchange *x, bool hold)
{
    for (int i = 0; i < x->group->n; i++)
        (hold ? mr_watch_hold : mr_watch_release)(x->peers->watch, x->group->members[i].task);
}

/* Nothing of it is under way any more. */
static void finish(mr_exchange *x)
{
    mr_collectives *c = x->all;
    mr_run *r = x->r;
    mr_status *over = mr_error(MR_ABORTED, "The exchange is over");
    mr_timers_clear(c->worker->host->timers, &x->timer);
    if (x->listens)
        mr_cancel_unregister(r->step->cancel, &x->on_cancel);
    mr_exchange_close(x, over);
    mr_status_free(over);
    mr_lock(&c->mu);
    *x->link = x->next;
    if (x->next)
        x->next->link = x->link;
    mr_status *st = x->st;
    x->st = NULL;
    mr_unlock(&c->mu);
    if (x->holds)
        watch_members(x, false);
    mr_exchange_forget_pieces(x);
    if (!st)
        mr_run_set(r, 0, x->out);
    else
        mr_tensor_unref(x->out);
    x->out = NULL;
    mr_exchange_unref(x);
    mr_run_done(r, st);
}

void mr_exchange_less(mr_exchange *x, int64_t n)
{
    mr_lock(&x->all->mu);
    x->n_left -= n;
    MR_ASSERT(x->n_left >= 0);
    x->over = x->n_left == 0;
    bool over = x->over;
    x->ended |= over;
    mr_unlock(&x->all->mu);
    if (over)
        finish(x);
}

static void xrequest_unref(mr_xrequest *q)
{
    if (!mr_refs_drop(&q->refs))
        return;
    mr_exchange_unref(q->x);
    mr_free(q);
}

static void cancel_requests(mr_exchange *x)
{
    mr_collectives *c = x->all;
    for (;;) {
        mr_lock(&c->mu);
        mr_xrequest *q = x->requests;
        while (q && q->cancelled)
            q = q->next;
        bool started = q && q->started;
        if (q) {
            q->cancelled = true;
            mr_refs_take(&q->refs);
        }
        mr_unlock(&c->mu);
        if (!q)
            return;
        if (started)
            mr_fellows_cancel(x->peers, q->task, &q->request);
        xrequest_unref(q);
    }
}

/* What the others are told: who it was stands in front. */
static mr_status *as_told(const mr_exchange *x, const mr_status *st)
{
    const char *text = mr_status_message(st);
    if (strncmp(text, MR_ABORTED_BY, sizeof MR_ABORTED_BY - 1) == 0)
        return mr_error(MR_ABORTED, "%s", text);
    return mr_error(MR_ABORTED, MR_ABORTED_BY "%s: %s", x->device, text);
}

void mr_exchange_fail(mr_exchange *x, mr_status *st, bool tell)
{
    mr_collectives *c = x->all;
    mr_lock(&c->mu);
    bool first = !x->st && !x->over;
    if (first) {
        x->st = mr_status_copy(st);
        x->ended = true;
        x->n_left++; /* it does not end in the middle of this */
    }
    mr_cgroup *g = first && x->group ? mr_cgroup_ref(x->group) : NULL;
    mr_unlock(&c->mu);
    if (!first) {
        mr_status_free(st);
        return;
    }
    mr_status *told = as_told(x, st);
    mr_status_mark_derived(told);
    int64_t untaken = mr_exchange_close(x, told);
    cancel_requests(x);
    if (g)
        mr_cgroup_break(c, g, told, tell ? MR_BREAK_TELL : MR_BREAK_HERE);
    mr_cgroup_unref(g);
    mr_status_free(told);
    mr_status_free(st);
    mr_exchange_less(x, untaken + 1);
}

/* ---- requests ---- */

/* Why one failed, in words that name whom was asked. */
static mr_status *why_failed(const mr_xrequest *q, mr_status *st)
{
    const char *who = q->from >= 0 ? q->x->group->members[q->from].device : mr_fellows_task(q->x->peers, q->task)->name;
    st = mr_wire_unmark(st);
    if (strncmp(mr_status_message(st), MR_ABORTED_BY, sizeof MR_ABORTED_BY - 1) == 0)
        return st;
    if (mr_status_code(st) == MR_CANCELLED) { /* not by us: its server ends */
        mr_status_free(st);
        st = mr_error(MR_UNAVAILABLE, "The server was stopped");
    }
    return mr_status_prepend(st, MR_ABORTED_BY "%s: ", who);
}

static void replied(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    mr_xrequest *q = (mr_xrequest *)r;
    mr_exchange *x = q->x;
    mr_lock(&x->all->mu);
    *q->link = q->next;
    if (q->next)
        q->next->link = q->link;
    bool ended = x->ended;
    mr_unlock(&x->all->mu);
    if (ended)
        mr_status_free(st);
    else if (st)
        mr_exchange_fail(x, why_failed(q, st), true);
    else
        q->then(q, reply);
    mr_exchange_less(x, 1);
    xrequest_unref(q);
}

mr_xrequest *mr_xrequest_new(mr_exchange *x, int task, int from, void (*then)(mr_xrequest *q, mr_bytes *reply))
{
    mr_xrequest *q = mr_new(mr_xrequest);
    mr_refs_init(&q->refs);
    q->x = mr_exchange_ref(x);
    q->task = task;
    q->from = from;
    q->then = then;
    return q;
}

void mr_xrequest_send(mr_xrequest *q, const char *method, mr_str *body)
{
    mr_exchange *x = q->x;
    mr_collectives *c = x->all;
    mr_lock(&c->mu);
    bool ended = x->ended;
    if (!ended) {
        q->next = x->requests;
        q->link = &x->requests;
        if (q->next)
            q->next->link = &q->next;
        x->requests = q;
        x->n_left++;
    }
    mr_unlock(&c->mu);
    if (ended) {
        mr_str_deinit(body);
        xrequest_unref(q);
        return;
    }
    /* A leader that is not up yet is waited for, as all waits of a cluster's start; a member was there before. */
    q->request = (mr_net_request){.method = method, .done = replied, .wait_for_ready = q->from < 0};
    mr_bytes_add_str(&q->request.body, body);
    mr_refs_take(&q->refs);
    mr_fellows_ask(x->peers, q->task, &q->request);
    mr_lock(&c->mu);
    q->started = true;
    bool cancelled = q->cancelled;
    mr_unlock(&c->mu);
    if (cancelled)
        mr_fellows_cancel(x->peers, q->task, &q->request);
    xrequest_unref(q);
}

/* ---- the way: numbers ---- */

static int64_t *number_locked(mr_map *m, const char *text, int64_t first)
{
    int64_t *n = mr_map_getz(m, text);
    if (!n) {
        n = mr_new(int64_t);
        *n = first;
        mr_map_putz(m, text, n);
    }
    return n;
}

/* Instances of ops that have their keys as inputs may be new ones each time; there is an end to what is remembered of them. */
enum { MAX_INSTANCES = 1 << 20 };

static void begin_moving(mr_exchange *x)
{
    mr_collectives *c = x->all;
    char text[64];
    snprintf(text, sizeof text, "%lld %d", (long long)x->instance, x->rank);
    mr_lock(&c->mu);
    mr_status *st = mr_status_copy(x->group->broken);
    if (!st && x->group->counts.n >= MAX_INSTANCES)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "group %lld has had %d instances", (long long)x->call.group_key, MAX_INSTANCES);
    if (!st)
        x->number = (*number_locked(&x->group->counts, text, 0))++;
    mr_unlock(&c->mu);
    x->text = mr_printf("%016" PRIx64 ";%" PRId64 ";%" PRId64 ";%d", x->group->communicator, x->instance, x->number, x->rank);
    mr_exchange_sign(x);
    if (!st) {
        mr_net_hold(); /* what goes to one member goes together */
        mr_exchange_open(x);
        st = mr_exchange_move(x);
        mr_net_release();
    }
    if (st)
        mr_exchange_fail(x, st, true);
}

/* ---- the way: the source of a broadcast ---- */

static void source_found(mr_xrequest *q, mr_bytes *reply)
{
    mr_exchange *x = q->x;
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv body;
    char text[32];
    int64_t source = 0;
    mr_status *st = mr_bytes_flat(reply, &body);
    if (!st) {
        mr_pb_reader_init(&r, body);
        while (mr_pb_next(&r, &field, &wire))
            if (field == 2)
                source = mr_pb_int64(&r);
            else
                mr_pb_skip(&r);
        st = mr_pb_reader_status(&r, "CompleteInstanceResponse");
    }
    if (!st && (source < 0 || source >= x->group->n))
        st = mr_error(MR_INTERNAL, "The source of a broadcast is member %lld of %d", (long long)source, x->group->n);
    if (!st && (source == x->rank) != (x->call.in != NULL))
        st = mr_error(MR_INTERNAL, x->call.in ? "a broadcast has two sources" : "a broadcast has no source: all members receive");
    if (st) {
        mr_exchange_fail(x, st, true);
        return;
    }
    snprintf(text, sizeof text, "%lld", (long long)x->instance);
    mr_lock(&x->all->mu);
    *number_locked(&x->group->sources, text, 0) = source;
    mr_unlock(&x->all->mu);
    x->source = (int)source;
    begin_moving(x);
}

static void ask_source(mr_exchange *x)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_sv_of(x->r->node->name));
    mr_pb_put_varint(&w, 3, (uint64_t)x->call.type);
    mr_pb_put_varint(&w, 5, (uint64_t)x->call.group_key);
    mr_pb_put_varint(&w, 6, (uint64_t)x->call.group_size);
    mr_pb_put_varint(&w, 7, (uint64_t)x->instance);
    mr_pb_put_bytes(&w, 10, mr_sv_of(x->device));
    mr_pb_opt_varint(&w, 11, x->call.in != NULL);
    mr_pb_opt_varint(&w, MR_C_PART, (uint64_t)x->call.subgroup);
    mr_pb_put_fixed64(&w, MR_C_COMMUNICATOR, x->group->communicator);
    mr_xrequest *q = mr_xrequest_new(x, x->leader, -1, source_found);
    mr_xrequest_send(q, MR_WORKER_SERVICE "CompleteInstance", &body);
}

/* ---- the way: the group ---- */

static mr_status *find_rank(mr_exchange *x)
{
    const mr_cgroup *g = x->group;
    x->rank = (int)x->call.rank;
    for (int i = 0; i < g->n && x->rank < 0; i++)
        if (strcmp(g->members[i].device, x->device) == 0)
            x->rank = i;
    if (x->rank < 0 || x->rank >= g->n || strcmp(g->members[x->rank].device, x->device) != 0)
        return mr_error(MR_INTERNAL, "%s is no member of group %lld", x->device, (long long)g->key);
    return NULL;
}

static bool known_source(mr_exchange *x)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)x->instance);
    mr_lock(&x->all->mu);
    const int64_t *n = mr_map_getz(&x->group->sources, text);
    x->source = n ? (int)*n : -1;
    mr_unlock(&x->all->mu);
    return x->source >= 0 && (x->source == x->rank) == (x->call.in != NULL);
}

/* A member whose life has ended: nobody will tell of it any more. */
static mr_status *lost_member(const mr_exchange *x)
{
    for (int i = 0; i < x->group->n; i++) {
        const mr_cmember *m = &x->group->members[i];
        mr_status *st = mr_watch_why(x->peers->watch, m->task, m->incarnation);
        if (st)
            return mr_status_prepend(st, MR_ABORTED_BY "%s: ", m->device);
    }
    return NULL;
}

static void time_is_up(mr_timer *t)
{
    mr_exchange *x = mr_exchange_ref((mr_exchange *)((char *)t - offsetof(mr_exchange, timer)));
    mr_lock(&x->all->mu);
    bool formed = x->group != NULL;
    mr_unlock(&x->all->mu);
    mr_exchange_fail(x, mr_error(MR_DEADLINE_EXCEEDED, "Collective has timed out during %s.",
                                 formed ? "execution" : "the search for the other members"), true);
    mr_exchange_unref(x);
}

static void set_timer(mr_exchange *x, int64_t patience_ns)
{
    mr_timers_set(x->all->worker->host->timers, &x->timer, mr_now_ns() + patience_ns, time_is_up);
}

/* Members of a generation come together soon after it was formed, or one of them was lost on its way. */
static int64_t patience_of(const mr_exchange *x, bool formed)
{
    double ns = x->call.timeout_s * 1e9;
    int64_t all = x->call.timeout_s > 0 ? (ns > 1e18 ? (int64_t)1e18 : (int64_t)ns) : x->all->patience_ns;
    return formed || !mr_collectives_is_generation(x->call.group_key) ? all : MR_MIN(all, GENERATION_PATIENCE_NS);
}

/* Takes the reference to the group. */
static void with_group(mr_exchange *x, mr_cgroup *g)
{
    if (patience_of(x, true) != patience_of(x, false) && mr_timers_clear(x->all->worker->host->timers, &x->timer))
        set_timer(x, patience_of(x, true));
    mr_lock(&x->all->mu);
    x->group = g;
    g->user = x->session;
    mr_unlock(&x->all->mu);
    watch_members(x, true);
    x->holds = true;
    mr_status *st = lost_member(x);
    if (!st)
        st = find_rank(x);
    if (st)
        mr_exchange_fail(x, st, true);
    else if (x->call.kind != MR_BROADCAST || known_source(x))
        begin_moving(x);
    else
        ask_source(x);
}

static mr_status *read_member(mr_exchange *x, mr_sv attributes, mr_cmember *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv name = MR_SV("");
    mr_pb_reader_init(&r, attributes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: name = mr_pb_bytes(&r); break;
        case 6: out->incarnation = mr_pb_fixed64(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "DeviceAttributes"));
    out->device = mr_strndup(name.p, name.n);
    out->task = mr_cluster_find_named(&x->peers->cluster, name);
    return out->task >= 0 ? NULL : mr_invalid("There is no task of device %s, a member of group %lld", out->device,
                                              (long long)x->call.group_key);
}

static mr_status *read_group(mr_exchange *x, mr_sv body, mr_cgroup *g)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv communicator = MR_SV("");
    mr_status *st = NULL;
    int n = 0;
    g->n = (int)x->call.group_size;
    g->members = mr_try_calloc((size_t)g->n, sizeof *g->members);
    if (!g->members)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a group of %d", g->n);
    mr_pb_reader_init(&r, body);
    while (!st && mr_pb_next(&r, &field, &wire))
        if (field == 7)
            communicator = mr_pb_bytes(&r);
        else if (field == 8 && n < g->n)
            st = read_member(x, mr_pb_bytes(&r), &g->members[n++]);
        else
            mr_pb_skip(&r);
    MR_TRY(st);
    MR_TRY(mr_pb_reader_status(&r, "CompleteGroupResponse"));
    if (n != g->n || communicator.n != sizeof g->communicator)
        return mr_error(MR_INTERNAL, "The leader of the collectives names %d of %d members of group %lld", n, g->n,
                        (long long)x->call.group_key);
    memcpy(&g->communicator, communicator.p, sizeof g->communicator);
    return NULL;
}

static void group_found(mr_xrequest *q, mr_bytes *reply)
{
    mr_exchange *x = q->x;
    mr_sv body;
    mr_cgroup *g = mr_new(mr_cgroup);
    mr_refs_init(&g->refs);
    g->peers = mr_fellows_ref(x->peers);
    g->key = x->call.group_key;
    g->part = x->call.subgroup;
    g->leader = x->leader;
    mr_status *st = mr_bytes_flat(reply, &body);
    if (!st)
        st = read_group(x, body, g);
    if (st) {
        mr_cgroup_unref(g);
        mr_exchange_fail(x, st, true);
        return;
    }
    with_group(x, keep_group(x->all, g));
}

static void ask_group(mr_exchange *x, uint64_t useless)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)x->call.group_key);
    mr_pb_put_varint(&w, 2, (uint64_t)x->call.group_size);
    mr_pb_put_bytes(&w, 3, mr_sv_of(x->r->step->device->type->name));
    mr_device_attributes_encode(x->r->step->device, &w, 6);
    mr_pb_opt_varint(&w, MR_C_PART, (uint64_t)x->call.subgroup);
    if (x->call.rank >= 0)
        mr_pb_put_varint(&w, MR_C_RANK, (uint64_t)x->call.rank);
    if (useless)
        mr_pb_put_fixed64(&w, MR_C_COMMUNICATOR, useless);
    mr_xrequest *q = mr_xrequest_new(x, x->leader, -1, group_found);
    mr_xrequest_send(q, MR_WORKER_SERVICE "CompleteGroup", &body);
}

static void find_group(mr_exchange *x)
{
    char text[GROUP_TEXT];
    mr_collectives *c = x->all;
    mr_lock(&c->mu);
    mr_cgroup *g = mr_map_get(&c->groups, group_text(x->peers, x->call.group_key, x->call.subgroup, text));
    uint64_t useless = g && (g->broken || g->n != x->call.group_size) ? g->communicator : 0;
    mr_status *over = useless && mr_collectives_is_generation(x->call.group_key) ? mr_status_copy(g->broken) : NULL;
    g = g && !useless ? mr_cgroup_ref(g) : NULL;
    mr_unlock(&c->mu);
    if (g)
        with_group(x, g);
    else if (over) /* the next one has another key */
        mr_exchange_fail(x, over, false);
    else
        ask_group(x, useless);
}

/* ---- the beginning ---- */

static void step_cancelled(mr_cancel_entry *e)
{
    mr_exchange *x = mr_exchange_ref((mr_exchange *)((char *)e - offsetof(mr_exchange, on_cancel)));
    mr_exchange_fail(x, mr_error(MR_CANCELLED, "Collective op was cancelled"), true);
    mr_exchange_unref(x);
}

/* False when nothing begins any more. */
static bool enlist(mr_exchange *x)
{
    mr_collectives *c = x->all;
    mr_lock(&c->mu);
    bool ok = !c->stopped;
    if (ok) {
        x->next = c->exchanges;
        x->link = &c->exchanges;
        if (x->next)
            x->next->link = &x->next;
        c->exchanges = x;
    }
    mr_unlock(&c->mu);
    return ok;
}

static mr_exchange *exchange_new(mr_session_collective *s, mr_run *r, const mr_collective_call *call)
{
    mr_exchange *x = mr_new(mr_exchange);
    mr_refs_init(&x->refs);
    x->session = s->session;
    x->all = s->session->worker->collectives;
    x->peers = mr_fellows_ref(s->session->peers);
    mr_lock(&s->mu);
    x->leader = mr_collectives_leader_of(x->all, x->peers, s->leader);
    mr_unlock(&s->mu);
    x->r = r;
    x->call = *call;
    x->device = r->step->device->name;
    x->incarnation = r->step->device->incarnation;
    /* Exchanges of communicators are counted by the group: after a failure its members count from 0 again. */
    x->instance = call->rank >= 0 ? -1 : call->instance_key;
    x->n_left = 1;
    x->timer.place = -1;
    return x;
}

/* The run may be over behind it. */
static void start(mr_collective *base, mr_run *r, const mr_collective_call *call)
{
    mr_session_collective *s = (mr_session_collective *)base;
    /* A generation of one is known to the leader too: so it hears of its end. */
    if (call->group_size <= 0 || (call->group_size == 1 && !mr_collectives_is_generation(call->group_key))) {
        mr_collective_local()->start(mr_collective_local(), r, call);
        return;
    }
    if (call->group_size > MR_GROUP_MAX_SIZE) {
        mr_run_done(r, mr_invalid("a group of %lld members; at most %d are possible", (long long)call->group_size, MR_GROUP_MAX_SIZE));
        return;
    }
    mr_exchange *x = exchange_new(s, r, call);
    if (!enlist(x)) {
        mr_exchange_unref(x);
        mr_run_done(r, mr_error(MR_UNAVAILABLE, "The server was stopped"));
        return;
    }
    mr_exchange_ref(x);
    set_timer(x, patience_of(x, false));
    x->on_cancel.fn = step_cancelled;
    x->listens = mr_cancel_register(r->step->cancel, &x->on_cancel);
    if (!x->listens)
        mr_exchange_fail(x, mr_error(MR_CANCELLED, "Collective op was cancelled"), true);
    else
        find_group(x);
    mr_exchange_less(x, 1);
    mr_exchange_unref(x);
}

/* ---- endings from outside ---- */

static bool has_lost(const mr_cgroup *g, const mr_fellows *p, int task, mr_status **why)
{
    for (int i = 0; g->peers == p && i < g->n; i++)
        if (g->members[i].task == task && (*why = mr_watch_why(p->watch, task, g->members[i].incarnation))) {
            mr_status_prepend(*why, MR_ABORTED_BY "%s: ", g->members[i].device);
            return true;
        }
    return false;
}

static mr_cgroup *take_lost_group(mr_collectives *c, const mr_fellows *p, int task, mr_status **why)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    mr_cgroup *found = NULL;
    mr_lock(&c->mu);
    while (!found && mr_map_next(&c->groups, &pos, &key, &v)) {
        mr_cgroup *g = v;
        if (!g->broken && has_lost(g, p, task, why))
            found = mr_cgroup_ref(g);
    }
    mr_unlock(&c->mu);
    return found;
}

/* Whether it still needs something of a task: one that was done with the exchange may go. */
static bool needs_locked(mr_collectives *c, const mr_exchange *x, int task) MR_REQUIRES(c->mu);
static bool needs_locked(mr_collectives *c, const mr_exchange *x, int task)
{
    for (const mr_xrequest *q = x->requests; q; q = q->next)
        if (q->task == task)
            return true;
    return !x->text || mr_exchange_offers_locked(c, x);
}

static mr_exchange *take_needing(mr_collectives *c, const mr_cgroup *g, int task)
{
    mr_lock(&c->mu);
    mr_exchange *x = c->exchanges;
    while (x && (x->group != g || x->ended || !needs_locked(c, x, task)))
        x = x->next;
    if (x)
        mr_exchange_ref(x);
    mr_unlock(&c->mu);
    return x;
}

/* The exchanges are told first, with the code of the loss: to them it is no consequence of something else. */
static void fail_needing(mr_collectives *c, const mr_cgroup *g, int task, const mr_status *why)
{
    for (mr_exchange *x; (x = take_needing(c, g, task));) {
        mr_exchange_fail(x, mr_status_copy(why), false);
        mr_exchange_unref(x);
    }
}

void mr_collectives_lost(mr_collectives *c, const mr_fellows *p, int task)
{
    mr_status *why = NULL;
    for (mr_cgroup *g; (g = take_lost_group(c, p, task, &why));) {
        fail_needing(c, g, task, why);
        mr_cgroup_break(c, g, why, MR_BREAK_LEFT);
        mr_cgroup_unref(g);
        mr_status_free(why);
        why = NULL;
    }
}

static void forget_group(mr_collectives *c, mr_cgroup *g)
{
    char text[GROUP_TEXT];
    mr_sv key = group_text(g->peers, g->key, g->part, text);
    mr_lock(&c->mu);
    bool there = mr_map_get(&c->groups, key) == g;
    if (there)
        mr_map_remove(&c->groups, key);
    mr_unlock(&c->mu);
    if (there)
        mr_cgroup_unref(g);
}

void mr_collectives_session_closed(mr_collectives *c, mr_wsession *s)
{
    for (;;) {
        uint32_t pos = 0;
        mr_sv key;
        void *v;
        mr_cgroup *found = NULL;
        mr_lock(&c->mu);
        while (!found && !c->stopped && mr_map_next(&c->groups, &pos, &key, &v)) {
            mr_cgroup *g = v;
            if (!g->broken && g->user == s)
                found = mr_cgroup_ref(g);
        }
        mr_unlock(&c->mu);
        if (!found)
            return;
        mr_status *why = mr_error(MR_ABORTED, MR_ABORTED_BY "%s: its session was closed", mr_fellows_name(found->peers));
        mr_cgroup_break(c, found, why, MR_BREAK_LEFT);
        tell_all(c, found, why, true);
        mr_status_free(why);
        if (found->peers->brought) /* the session's own cluster: nobody asks for the group again */
            forget_group(c, found);
        mr_cgroup_unref(found);
    }
}

/* Another member has broken a communicator. */
void mr_collectives_abort(mr_collectives *c, mr_net_call *call, mr_sv body)
{
    mr_pb_reader r;
    uint32_t field, wire;
    uint64_t communicator = 0;
    bool left = false;
    mr_sv text = MR_SV("");
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: communicator = mr_pb_fixed64(&r); break;
        case 2: text = mr_pb_bytes(&r); break;
        case 3: left = mr_pb_bool(&r); break;
        default: mr_pb_skip(&r);
        }
    mr_status *st = mr_pb_reader_status(&r, "AbortCollectiveRequest");
    if (!st && communicator) {
        mr_status *why = mr_status_mark_derived(mr_error(MR_ABORTED, "%.*s", MR_SV_ARG(text)));
        mr_lock(&c->mu);
        mr_cgroup *g = mr_cgroup_find_locked(c, communicator);
        if (g)
            mr_cgroup_ref(g);
        mr_unlock(&c->mu);
        if (g)
            mr_cgroup_break(c, g, why, left ? MR_BREAK_LEFT : MR_BREAK_HERE);
        else
            mr_collectives_break_led(c, communicator, why);
        mr_cgroup_unref(g);
        mr_status_free(why);
    }
    mr_reply(call, st, NULL);
}

void mr_collectives_stop(mr_collectives *c, const mr_status *why)
{
    mr_lock(&c->mu);
    if (!c->stopped)
        c->stopped = mr_status_copy(why);
    mr_unlock(&c->mu);
    for (;;) {
        mr_lock(&c->mu);
        mr_exchange *x = c->exchanges;
        while (x && x->ended)
            x = x->next;
        if (x)
            mr_exchange_ref(x);
        mr_unlock(&c->mu);
        if (!x)
            break;
        mr_exchange_fail(x, mr_status_copy(why), false);
        mr_exchange_unref(x);
    }
    mr_boxes_break(c, 0, why);
    mr_collectives_break_led(c, 0, why);
    mr_collectives_end_joining(c, why);
}

/* ---- of a task ---- */

void mr_session_collective_init(mr_session_collective *c, mr_wsession *s)
{
    c->base = (mr_collective){"cluster", start};
    c->session = s;
    mr_mutex_init(&c->mu);
}

void mr_session_collective_deinit(mr_session_collective *c)
{
    mr_free(c->leader);
    mr_mutex_deinit(&c->mu);
}

mr_status *mr_session_collective_configure(mr_session_collective *c, mr_sv config)
{
    mr_session_config parsed;
    if (!config.n)
        return NULL;
    MR_TRY(mr_session_config_parse(config, &parsed));
    mr_lock(&c->mu);
    mr_free(c->leader);
    c->leader = parsed.group_leader[0] ? mr_strdup(parsed.group_leader) : NULL;
    mr_unlock(&c->mu);
    return NULL;
}

static int64_t setting(const char *name, int64_t otherwise, int64_t least, int64_t most)
{
    const char *text = getenv(name);
    int64_t v = 0;
    return text && mr_sv_to_i64(mr_sv_of(text), &v) && v >= least && v <= most ? v : otherwise;
}

mr_collectives *mr_collectives_new(mr_worker_service *w)
{
    mr_collectives *c = mr_new(mr_collectives);
    mr_mutex_init(&c->mu);
    c->worker = w;
    c->ticker.place = -1;
    c->patience_ns = setting("MILLRACE_COLLECTIVE_TIMEOUT_MS", PATIENCE_NS / 1000000, 1, INT64_C(1) << 40) * 1000000;
    c->chunk_bytes = setting("MILLRACE_COLLECTIVE_CHUNK", 1 << 20, 64, INT64_C(1) << 32);
    c->ring_from = (int)setting("MILLRACE_COLLECTIVE_RING_FROM", 9, 2, INT32_MAX);
    return c;
}

void mr_collectives_set_leader(mr_collectives *c, mr_sv task)
{
    mr_lock(&c->mu);
    mr_free(c->leader);
    c->leader = task.n ? mr_strndup(task.p, task.n) : NULL;
    mr_unlock(&c->mu);
}

void mr_collectives_free(mr_collectives *c)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    if (!c)
        return;
    MR_ASSERT(!c->exchanges && c->boxes.n == 0);
    while (mr_map_next(&c->groups, &pos, &key, &v))
        mr_cgroup_unref(v);
    mr_map_deinit(&c->groups);
    mr_map_deinit(&c->boxes);
    mr_groups_deinit(&c->led);
    mr_collectives_forget_steps(c);
    for (int i = 0; i < MR_ELASTIC_SLOTS; i++) {
        mr_elastic_deinit(&c->elastic[i].e);
        mr_free(c->elastic[i].name);
    }
    mr_status_free(c->stopped);
    mr_free(c->leader);
    mr_mutex_deinit(&c->mu);
    mr_free(c);
}
