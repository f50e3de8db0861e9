/* server/collective_setup.c -- how an exchange gets to its data: its group, the source of a broadcast,
 * its number.
 *
 * What is not known here is asked of the leader. Each exchange asks for itself, so that none depends
 * on another one, whose step may be cancelled. The answers arrive as the `then` of a request, and each
 * step calls the next one:
 *
 *     mr_exchange_find_group --> ask_group --> group_found --+
 *            |  (the group is known)                         v
 *            +---------------------------------------> with_group --> ask_source --> source_found --+
 *                                                            |  (no broadcast, or known source)     v
 *                                                            +-------------------------------> begin_moving
 *
 * An error in any step fails the exchange, and the steps after it are not called. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/collective_internal.h"

#define GENERATION_PATIENCE_NS (10 * INT64_C(1000000000))

/* ---- its number ---- */

/* The number under a name, which starts with `first`; owned by the map. */
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

enum { MAX_INSTANCES = 1 << 20 }; /* ops that take their keys as inputs may use a new instance each time */

/* The group is known: gives the exchange its number, opens its box, and makes its offers and requests.
 * Numbering and opening happen under one lock, because an exchange that is counted and not open counts
 * as ended. An exchange that has ended before is not counted. */
static void begin_moving(mr_exchange *x)
{
    mr_collectives *c = x->all;
    char text[MR_COUNT_TEXT];
    MR_ASSERT(x->group && x->rank >= 0 && x->rank < x->group->n);
    mr_cgroup_count_text(x->instance, x->rank, text);
    mr_exchange_sign(x);
    mr_lock(&c->mu);
    bool ended = x->ended;
    mr_status *st = ended ? NULL : mr_status_copy(x->group->broken);
    if (!ended && !st && x->group->counts.n >= MAX_INSTANCES)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "group %lld has used %d instances, the maximum",
                      (long long)x->call.group_key, MAX_INSTANCES);
    if (!ended && !st) {
        x->number = (*number_locked(&x->group->counts, text, 0))++;
        MR_ASSERT(!x->text);
        x->text = mr_printf("%016" PRIx64 ";%" PRId64 ";%" PRId64 ";%d", x->group->communicator, x->instance, x->number,
                            x->rank);
        mr_exchange_open_locked(c, x);
    }
    mr_unlock(&c->mu);
    if (ended)
        return;
    if (!st) {
        mr_net_hold(); /* requests to one member go out together */
        mr_exchange_greet(x);
        st = mr_exchange_move(x);
        mr_net_release();
    }
    if (st)
        mr_exchange_fail(x, st, true);
}

/* ---- the source of a broadcast ---- */

/* The leader has named the source. It must be a member, and this member must be the source if and only
 * if it has an input. */
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
        st = mr_error(MR_INTERNAL, "The source of a broadcast is member %lld of a group of %d", (long long)source,
                      x->group->n);
    if (!st && (source == x->rank) != (x->call.in != NULL))
        st = mr_error(MR_INTERNAL, x->call.in ? "a broadcast has two sources"
                                              : "a broadcast has no source: all members receive");
    if (st) {
        mr_exchange_fail(x, st, true);
        return;
    }
    /* Later exchanges of the instance do not ask again (known_source). */
    snprintf(text, sizeof text, "%lld", (long long)x->instance);
    mr_lock(&x->all->mu);
    *number_locked(&x->group->sources, text, 0) = source;
    mr_unlock(&x->all->mu);
    x->source = (int)source;
    begin_moving(x);
}

/* Asks the leader which member is the source of a broadcast.
 *
 * Fields of a CompleteInstanceRequest: 1 name, 3 data_type, 5 group_key, 6 group_size, 7 instance_key, 10 device,
 * 11 is_source; ours: the part of the group, and the communicator. */
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

/* ---- the group ---- */

/* Finds the rank: the op's, which must be that of its device, or the position of the device among the
 * members. */
static mr_status *find_rank(mr_exchange *x)
{
    const mr_cgroup *g = x->group;
    x->rank = (int)x->call.rank;
    for (int i = 0; i < g->n && x->rank < 0; i++)
        if (strcmp(g->members[i].device, x->device) == 0)
            x->rank = i;
    if (x->rank < 0 || x->rank >= g->n || strcmp(g->members[x->rank].device, x->device) != 0)
        return mr_error(MR_INTERNAL, "%s is not a member of group %lld", x->device, (long long)g->key);
    return NULL;
}

/* Whether the source is known from an earlier exchange of the instance and fits this one. */
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

/* The error for a member whose incarnation has ended; NULL: there is none. The watch does not report
 * such a loss again. */
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

/* The exchange has waited too long. The message says for what, in TensorFlow's words. */
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

/* The timer is not set, or was just cleared. */
static void set_timer(mr_exchange *x, int64_t patience_ns)
{
    mr_timers_set(x->all->worker->host->timers, &x->timer, mr_now_ns() + patience_ns, time_is_up);
}

/* How long the exchange may take. The members of a generation come together soon after it was formed,
 * or one of them was lost on its way; so the wait for them is short. */
static int64_t patience_of(const mr_exchange *x, bool formed)
{
    double ns = x->call.timeout_s * 1e9;
    int64_t all = x->call.timeout_s > 0 ? (ns > 1e18 ? (int64_t)1e18 : (int64_t)ns) : x->all->patience_ns;
    return formed || !mr_collectives_is_generation(x->call.group_key) ? all : MR_MIN(all, GENERATION_PATIENCE_NS);
}

/* The search for the group may have a shorter limit than the exchange; then with_group sets the timer again. */
void mr_exchange_set_timer(mr_exchange *x) { set_timer(x, patience_of(x, false)); }

/* The group is known: watches its members, finds the rank, and goes on. Takes the reference to the
 * group. The members are checked after the watch has begun, so a loss is noticed by one or the other. */
static void with_group(mr_exchange *x, mr_cgroup *g)
{
    /* The shorter limit of the search is over. If the timer cannot be cleared, it has fired, and the exchange fails. */
    if (patience_of(x, true) != patience_of(x, false) && mr_timers_clear(x->all->worker->host->timers, &x->timer))
        set_timer(x, patience_of(x, true));
    mr_lock(&x->all->mu);
    MR_ASSERT(!x->group);
    x->group = g;
    g->user = x->session;
    mr_unlock(&x->all->mu);
    mr_exchange_watch(x, true);
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

/* Parses the DeviceAttributes of a member. out->device is owned by the group, also on failure. */
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
    return out->task >= 0 ? NULL
                          : mr_invalid("Device %s, a member of group %lld, belongs to no task of the cluster",
                                       out->device, (long long)x->call.group_key);
}

/* Parses a CompleteGroupResponse. The members are in the order of their ranks, and there must be as
 * many as the op expects. */
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
        return mr_error(MR_INTERNAL, "The group leader named %d of the %d members of group %lld", n, g->n,
                        (long long)x->call.group_key);
    memcpy(&g->communicator, communicator.p, sizeof g->communicator);
    return NULL;
}

/* The leader has answered CompleteGroup. */
static void group_found(mr_xrequest *q, mr_bytes *reply)
{
    mr_exchange *x = q->x;
    mr_sv body;
    mr_cgroup *g = mr_new(mr_cgroup);
    mr_refs_init(&g->refs);
    g->peers = mr_task_peers_ref(x->peers);
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
    with_group(x, mr_cgroup_keep(x->all, g));
}

/* Asks the leader for the group. useless: the communicator that is known here and broken, so that the
 * leader does not return it again.
 *
 * Fields of a CompleteGroupRequest: 1 group_key, 2 group_size, 3 device_type, 6 device_attributes; ours: the part
 * of the group, this member's rank, and the useless communicator. */
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

/* A group that is known, whole and of the right size is used; otherwise the leader is asked. A
 * generation that has ended is not formed again: the next one has another key. */
void mr_exchange_find_group(mr_exchange *x)
{
    char text[MR_CGROUP_TEXT];
    mr_collectives *c = x->all;
    mr_lock(&c->mu);
    mr_cgroup *g = mr_map_get(&c->groups, mr_cgroup_text(x->peers, x->call.group_key, x->call.subgroup, text));
    uint64_t useless = g && (g->broken || g->n != x->call.group_size) ? g->communicator : 0;
    mr_status *over = useless && mr_collectives_is_generation(x->call.group_key) ? mr_status_copy(g->broken) : NULL;
    g = g && !useless ? mr_cgroup_ref(g) : NULL;
    mr_unlock(&c->mu);
    if (g)
        with_group(x, g);
    else if (over)
        mr_exchange_fail(x, over, false);
    else
        ask_group(x, useless);
}
