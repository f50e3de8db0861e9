/* server/collective_leader.c -- the leader's methods: CompleteGroup, CompleteInstance.
 *
 * dist/groups.c decides when a group is complete; it identifies a waiting call by its address. A call is
 * answered once, by an answer of dist/groups or because its caller cancelled, whichever sets
 * `answered` first under the lock.
 *
 *     CompleteGroup      a member asks for its group: answered when all members have asked
 *     CompleteInstance   a member of a broadcast asks for the source: answered when the source has asked
 *
 * Both follow one pattern: the handler registers the cancellation, asks dist/groups under the lock, writes
 * the bodies of all answers that follow from it, still under the lock, and sends them without it. */
#include "base/clock.h"
#include "base/memory.h"
#include "server/collective_internal.h"

/* A CompleteGroup or CompleteInstance that is not answered yet; dist/groups knows it by its address. */
typedef struct waiting_call {
    mr_refs refs; /* one for the handler of the call, one for the thread that answers it */
    mr_collectives *all;
    mr_net_call *call;
    bool answered; /* under the lock */
    bool instance; /* it is a CompleteInstance */
    int64_t key; /* of an instance */
} waiting_call;

static void waiting_unref(waiting_call *w)
{
    if (mr_refs_drop(&w->refs))
        mr_free(w);
}

/* The session's choice comes first, then the server's config, then task 0 of the job that is least
 * likely to go first, then task 0 of the cluster. All members must get the same answer from the same
 * cluster. */
int mr_collectives_leader_of(mr_collectives *c, const mr_task_peers *p, const char *by_session)
{
    static const char *const jobs[] = {"ps", "chief", "worker"};
    int task = by_session ? mr_cluster_find_named(&p->cluster, mr_sv_of(by_session)) : -1;
    mr_lock(&c->mu);
    if (task < 0 && c->leader)
        task = mr_cluster_find_named(&p->cluster, mr_sv_of(c->leader));
    mr_unlock(&c->mu);
    for (int i = 0; task < 0 && i < MR_COUNT(jobs); i++)
        task = mr_cluster_find(&p->cluster, mr_sv_of(jobs[i]), 0);
    return task < 0 ? 0 : task;
}

/* ---- answers ---- */

/* The length of the task's part of a device name. */
static size_t task_length(const char *device)
{
    const char *end = strstr(device, "/device:");
    return end ? (size_t)(end - device) : strlen(device);
}

/* Counts the tasks of a group. The devices of one task are next to each other. */
static int count_tasks(const mr_group_record *g)
{
    int n = 0;
    for (int i = 0; i < g->members.n; i++) {
        const char *device = g->members.p[i].device, *before = i ? g->members.p[i - 1].device : "";
        size_t len = task_length(device);
        n += task_length(before) != len || strncmp(before, device, len) != 0;
    }
    return n;
}

/* Encodes a CompleteGroupResponse. Members are in the order of their ranks.
 *
 * Fields: 1 group_key, 2 group_size, 3 device_type, 4 num_tasks, 7 communicator_key, 8 device_attributes. */
static void encode_group(const mr_group_record *g, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    mr_pb_put_varint(&w, 1, (uint64_t)g->key);
    mr_pb_put_varint(&w, 2, (uint64_t)g->size);
    mr_pb_put_bytes(&w, 3, MR_SV("CPU"));
    mr_pb_put_varint(&w, 4, (uint64_t)count_tasks(g));
    mr_pb_put_bytes(&w, 7, (mr_sv){(const char *)&g->communicator, sizeof g->communicator});
    for (int i = 0; i < g->members.n; i++)
        mr_pb_put_bytes(&w, 8, (mr_sv){g->members.p[i].attributes, g->members.p[i].attributes_n});
}

/* Encodes a CompleteInstanceResponse: 1 instance_key, 2 source_rank. */
static void encode_source(int64_t instance, int64_t source, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    mr_pb_put_varint(&w, 1, (uint64_t)instance);
    mr_pb_put_varint(&w, 2, (uint64_t)source);
}

/* A reply to be sent once the lock is released. */
typedef struct answer {
    waiting_call *to;
    mr_status *st;
    mr_str body;
} answer;
typedef MR_VEC(answer) answers;

/* Turns answers of dist/groups into replies. Records are valid only until the next change, so the
 * bodies are written under the lock. Calls that were answered meanwhile are skipped. */
static void write_locked(mr_group_answers *all, answers *out)
{
    for (int i = 0; i < all->n; i++) {
        const mr_group_answer *a = &all->p[i];
        answer to = {.to = a->caller, .st = a->st};
        if (to.to->answered) {
            mr_status_free(to.st);
            continue;
        }
        to.to->answered = true;
        if (!to.st && to.to->instance)
            encode_source(to.to->key, a->source, &to.body);
        else if (!to.st)
            encode_group(a->record, &to.body);
        mr_vec_push(out, to);
    }
    mr_vec_deinit(all);
}

/* Sends the replies without the lock and drops the references for it. */
static void reply_all(answers *all)
{
    for (int i = 0; i < all->n; i++) {
        MR_ASSERT(all->p[i].to->answered);
        mr_reply_str(all->p[i].to->call, all->p[i].st, &all->p[i].body);
        mr_str_deinit(&all->p[i].body);
        waiting_unref(all->p[i].to);
    }
    mr_vec_deinit(all);
}

/* Members that wait for the group are answered with why; the next one that asks forms the group again. 0 is used when
 * the task stops. */
void mr_collectives_break_led(mr_collectives *c, uint64_t communicator, const mr_status *why)
{
    mr_group_answers told = {0};
    answers out = {0};
    mr_lock(&c->mu);
    if (communicator)
        mr_groups_break(&c->led, communicator, why, &told);
    else
        mr_groups_end(&c->led, why, &told);
    write_locked(&told, &out);
    mr_unlock(&c->mu);
    reply_all(&out);
}

/* For a group that is not complete yet, and therefore has no communicator. */
void mr_collectives_drop_led(mr_collectives *c, int64_t key, const mr_status *why)
{
    mr_group_answers told = {0};
    answers out = {0};
    mr_lock(&c->mu);
    mr_groups_drop(&c->led, key, why, &told);
    write_locked(&told, &out);
    mr_unlock(&c->mu);
    reply_all(&out);
}

/* ---- calls ---- */

/* The caller cancelled: it does not count for its group any more. */
static void caller_left(void *arg, mr_net_call *call)
{
    waiting_call *w = arg;
    mr_lock(&w->all->mu);
    bool mine = !w->answered;
    w->answered = true;
    if (mine)
        mr_groups_leave(&w->all->led, w);
    mr_unlock(&w->all->mu);
    if (!mine)
        return;
    mr_reply(call, mr_error(MR_CANCELLED, "The call was cancelled"), NULL);
    waiting_unref(w);
}

/* From now on the caller may cancel at any time; false: it has. */
static bool begin_waiting(waiting_call *w)
{
    mr_refs_take(&w->refs);
    if (!w->call->net->on_cancel(w->call, caller_left, w))
        caller_left(w, w->call);
    mr_lock(&w->all->mu);
    bool there = !w->answered;
    mr_unlock(&w->all->mu);
    return there;
}

/* Parses a CompleteGroupRequest. The strings are views into the body. */
static mr_status *parse_group(mr_sv body, mr_group_ask *q)
{
    mr_pb_reader r, d;
    uint32_t field, wire;
    *q = (mr_group_ask){.rank = -1, .device = MR_SV(""), .attributes = MR_SV("")};
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: q->key = mr_pb_int64(&r); break;
        case 2: q->size = mr_pb_int64(&r); break;
        case 6: q->attributes = mr_pb_bytes(&r); break;
        case MR_C_PART: q->part = mr_pb_int64(&r); break;
        case MR_C_RANK: q->rank = mr_pb_int64(&r); break;
        case MR_C_COMMUNICATOR: q->useless = mr_pb_fixed64(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "CompleteGroupRequest"));
    /* The attributes are passed on to the other members as they are; only name and incarnation are needed here. */
    mr_pb_reader_init(&d, q->attributes);
    while (mr_pb_next(&d, &field, &wire))
        switch (field) {
        case 1: q->device = mr_pb_bytes(&d); break;
        case 6: q->incarnation = mr_pb_fixed64(&d); break;
        default: mr_pb_skip(&d);
        }
    MR_TRY(mr_pb_reader_status(&d, "DeviceAttributes"));
    mr_device_name name;
    if (!mr_device_name_parse(q->device, &name) || !mr_device_name_full(&name))
        return mr_invalid("CompleteGroup: '%.*s' is not the full name of a device", MR_SV_ARG(q->device));
    return NULL;
}

/* A random number for a new communicator; 0 means none. */
static uint64_t fresh_number(void)
{
    uint64_t v = mr_random64();
    return v ? v : 1;
}

/* The caller has one reference; begin_waiting takes another one for the thread that answers. */
static waiting_call *waiting_new(mr_collectives *c, mr_net_call *call)
{
    waiting_call *w = mr_new(waiting_call);
    mr_refs_init(&w->refs);
    w->all = c;
    w->call = call;
    return w;
}

/* Handles CompleteGroup: answered when the group is complete, or at once if its generation has ended. */
void mr_collectives_complete_group(mr_collectives *c, mr_net_call *call, mr_sv body)
{
    mr_group_ask q;
    mr_group_answers told = {0};
    answers out = {0};
    mr_status *st = parse_group(body, &q);
    if (st) {
        mr_reply(call, st, NULL);
        return;
    }
    waiting_call *w = waiting_new(c, call);
    q.caller = w;
    if (begin_waiting(w)) {
        mr_lock(&c->mu);
        if (c->stopped && !w->answered)
            mr_vec_push(&told, (mr_group_answer){w, mr_status_copy(c->stopped), NULL, -1});
        else if (!w->answered && mr_collectives_is_over_locked(c, q.key))
            mr_vec_push(&told, (mr_group_answer){w, mr_error(MR_ABORTED, "The generation of group %lld has ended",
                                                             (long long)q.key), NULL, -1});
        else if (!w->answered)
            mr_groups_ask(&c->led, &q, fresh_number(), &told);
        write_locked(&told, &out);
        mr_unlock(&c->mu);
        reply_all(&out);
    }
    waiting_unref(w);
}

/* Parses a CompleteInstanceRequest. The device's name is a view into the body. */
static mr_status *parse_instance(mr_sv body, mr_instance_ask *a)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *a = (mr_instance_ask){.rank = -1, .device = MR_SV("")};
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 5: a->key = mr_pb_int64(&r); break;
        case 7: a->instance = mr_pb_int64(&r); break;
        case 10: a->device = mr_pb_bytes(&r); break;
        case 11: a->is_source = mr_pb_bool(&r); break;
        case MR_C_PART: a->part = mr_pb_int64(&r); break;
        case MR_C_RANK: a->rank = mr_pb_int64(&r); break;
        case MR_C_COMMUNICATOR: a->communicator = mr_pb_fixed64(&r); break;
        default: mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "CompleteInstanceRequest");
}

/* Handles CompleteInstance: answered when the source of the broadcast is known. */
void mr_collectives_complete_instance(mr_collectives *c, mr_net_call *call, mr_sv body)
{
    mr_instance_ask a;
    mr_group_answers told = {0};
    answers out = {0};
    mr_status *st = parse_instance(body, &a);
    if (st) {
        mr_reply(call, st, NULL);
        return;
    }
    waiting_call *w = waiting_new(c, call);
    w->instance = true;
    w->key = a.instance;
    a.caller = w;
    if (begin_waiting(w)) {
        mr_lock(&c->mu);
        if (c->stopped && !w->answered)
            mr_vec_push(&told, (mr_group_answer){w, mr_status_copy(c->stopped), NULL, -1});
        else if (!w->answered)
            mr_groups_ask_source(&c->led, &a, &told);
        write_locked(&told, &out);
        mr_unlock(&c->mu);
        reply_all(&out);
    }
    waiting_unref(w);
}
