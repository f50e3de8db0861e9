/* server/collective_groups.c -- groups as a member sees them: those that are known, and what breaks
 * them.
 *
 * A group here is one formation of it, a communicator. A broken one stays in the table until the next
 * one of its key replaces it: with its communicator the leader is asked for another formation.
 *
 * A communicator breaks in one of two ways. If a member failed, everything in it ends. If a member
 * left after it had finished what it had begun (`left`), only what needs that member ends, and the
 * others may finish.
 *
 *     mr_break   exchanges that end here   other members are told   because
 *     HERE       all                       no                       they know, or the task stops
 *     TELL       all                       by this task             an exchange failed here
 *     TOLD       all                       no                       AbortCollective came
 *     LEFT       broadcasts                by the member that left  a session was closed
 *     LEFT       those that need the task  no: each watches it      a task is lost */
#include <stdio.h>

#include "base/memory.h"
#include "server/collective_internal.h"

/* ---- groups ---- */

/* Frees a map of int64_t. */
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

/* Without the lock of mr_collectives, because the last reference to the peers may be dropped here. */
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
    mr_task_peers_unref(g->peers);
    mr_free(g);
}

/* The cluster is part of the key, because sessions with separate clusters may use the same group
 * keys. */
mr_sv mr_cgroup_text(const mr_task_peers *p, int64_t key, int64_t part, char out[MR_CGROUP_TEXT])
{
    snprintf(out, MR_CGROUP_TEXT, "%p %lld %lld", (const void *)p, (long long)key, (long long)part);
    return mr_sv_of(out);
}

/* Searches all groups, since a task has few. */
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

/* The key of an instance's count of one member. */
mr_sv mr_cgroup_count_text(int64_t instance, int64_t rank, char out[MR_COUNT_TEXT])
{
    snprintf(out, MR_COUNT_TEXT, "%lld %lld", (long long)instance, (long long)rank);
    return mr_sv_of(out);
}

/* 0 if the member has begun no exchange of the instance here. */
int64_t mr_cgroup_count_locked(mr_collectives *c, const mr_cgroup *g, int64_t instance, int64_t rank)
{
    char text[MR_COUNT_TEXT];
    const int64_t *n = mr_map_get(&g->counts, mr_cgroup_count_text(instance, rank, text));
    (void)c;
    return n ? *n : 0;
}

/* ---- ends that come first ---- */

/* Remembers that an unknown communicator is broken. That message and the answer that puts this task
 * into the communicator travel over different connections and may arrive in either order. */
static void remember_end_locked(mr_collectives *c, uint64_t communicator, const mr_status *why) MR_REQUIRES(c->mu);
static void remember_end_locked(mr_collectives *c, uint64_t communicator, const mr_status *why)
{
    int i = c->next_early;
    MR_ASSERT(i >= 0 && i < MR_EARLY_ENDS);
    mr_status_free(c->early[i].why);
    c->early[i].communicator = communicator;
    c->early[i].why = mr_status_copy(why);
    c->next_early = (i + 1) % MR_EARLY_ENDS;
}

/* Why a communicator was broken before it was known here, or NULL; borrowed. */
static const mr_status *early_end_locked(const mr_collectives *c, uint64_t communicator)
{
    for (int i = 0; i < MR_EARLY_ENDS; i++)
        if (c->early[i].communicator == communicator)
            return c->early[i].why;
    return NULL;
}

/* Called when the task's collectives are freed. */
void mr_collectives_forget_early(mr_collectives *c)
{
    for (int i = 0; i < MR_EARLY_ENDS; i++)
        mr_status_free(c->early[i].why);
}

/* ---- those that are known ---- */

/* Takes a broken group of an earlier generation out of the table, or returns NULL. The key of a
 * generation is not used again, so no successor would replace it. */
static mr_cgroup *take_former_locked(mr_collectives *c, const mr_cgroup *g) MR_REQUIRES(c->mu);
static mr_cgroup *take_former_locked(mr_collectives *c, const mr_cgroup *g)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_collectives_is_generation(g->key) && mr_map_next(&c->groups, &pos, &key, &v)) {
        mr_cgroup *old = v;
        if (old->broken && old->peers == g->peers && old->key != g->key && mr_collectives_is_generation(old->key)) {
            mr_map_remove(&c->groups, key);
            return old;
        }
    }
    return NULL;
}

/* Drops the groups of earlier generations, one at a time, without the lock. */
static void forget_former(mr_collectives *c, const mr_cgroup *g)
{
    for (mr_cgroup *old;;) {
        mr_lock(&c->mu);
        old = take_former_locked(c, g);
        mr_unlock(&c->mu);
        if (!old)
            return;
        mr_cgroup_unref(old);
    }
}

/* Breaks a group that was replaced in the table: nobody could find its exchanges there any more. The
 * other members are told as well. If answers of the leader arrived out of order, it is the newer group
 * that ends, and its members have to form the group again. */
static void end_former(mr_collectives *c, mr_cgroup *old)
{
    mr_status *why = mr_error(MR_ABORTED, "group %lld is being formed again", (long long)old->key);
    mr_cgroup_break(c, old, why, MR_BREAK_TELL);
    mr_status_free(why);
}

/* Two ops may have asked for the same communicator; the first answer is kept, and the second is
 * dropped. */
mr_cgroup *mr_cgroup_keep(mr_collectives *c, mr_cgroup *g)
{
    char text[MR_CGROUP_TEXT];
    forget_former(c, g);
    mr_sv key = mr_cgroup_text(g->peers, g->key, g->part, text);
    mr_lock(&c->mu);
    mr_cgroup *old = mr_map_get(&c->groups, key), *use = g;
    if (old && old->communicator == g->communicator) {
        use = old;
        old = g;
    } else {
        g->broken = mr_status_copy(early_end_locked(c, g->communicator));
        mr_map_put(&c->groups, key, g);
    }
    /* The table has one reference, the caller gets another. `old` is not in the table any more: the former group, or
     * g. */
    mr_cgroup_ref(use);
    bool ends = old && old != g && !old->broken;
    mr_unlock(&c->mu);
    if (ends)
        end_former(c, old);
    mr_cgroup_unref(old);
    return use;
}

/* The message is retried until the task has answered, for about ten minutes. Fields of an AbortCollectiveRequest:
 * 1 communicator, 2 reason, 3 left. */
void mr_collectives_tell(mr_collectives *c, mr_task_peers *p, int task, uint64_t communicator, const mr_status *why,
                         bool left)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_fixed64(&w, 1, communicator);
    mr_pb_put_bytes(&w, 2, mr_sv_of(mr_status_message(why)));
    mr_pb_opt_varint(&w, 3, left);
    mr_retries_send(&c->worker->retries, p, task, MR_WORKER_SERVICE "AbortCollective", &body);
}

/* Tells the tasks of all members and the leader's, each once, but not this one. */
static void tell_all(mr_collectives *c, mr_cgroup *g, const mr_status *why, bool left)
{
    int n_tasks = g->peers->cluster.tasks.n;
    MR_ASSERT(g->leader >= 0 && g->leader < n_tasks);
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

/* An exchange of the group that is to fail, or NULL; a reference. left: only broadcasts, in which a
 * member waits for others to fetch. */
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

/* A group breaks once; one that was only left may still break completely. Members that wait for data of
 * a member that has left are told by that member, which refuses all fetches. */
void mr_cgroup_break(mr_collectives *c, mr_cgroup *g, const mr_status *why, mr_break how)
{
    MR_ASSERT(why);
    mr_lock(&c->mu);
    bool first = !g->broken, more = g->left && (how == MR_BREAK_TELL || how == MR_BREAK_TOLD);
    if (first)
        g->broken = mr_status_mark_derived(mr_status_copy(why));
    if (first || more)
        g->left = how == MR_BREAK_LEFT;
    mr_unlock(&c->mu);
    if (!first && !more)
        return;
    /* Exchanges first, then fetchers without an exchange, then members that wait at the leader, if this task is it. */
    mr_status *told = mr_status_mark_derived(mr_status_copy(why));
    for (mr_exchange *x; (x = take_exchange(c, g, how == MR_BREAK_LEFT));) {
        mr_exchange_fail(x, mr_status_copy(told), false);
        mr_exchange_unref(x);
    }
    mr_boxes_break(c, g->communicator, told);
    mr_collectives_break_led(c, g->communicator, told);
    if (how == MR_BREAK_TELL)
        tell_all(c, g, told, false);
    mr_status_free(told);
}

/* ---- endings from outside ---- */

/* Whether the group relies on an incarnation of a task that has ended; *why names the member. */
static bool has_lost(const mr_cgroup *g, const mr_task_peers *p, int task, mr_status **why)
{
    for (int i = 0; g->peers == p && i < g->n; i++)
        if (g->members[i].task == task && (*why = mr_watch_why(p->watch, task, g->members[i].incarnation))) {
            mr_status_prepend(*why, MR_ABORTED_BY "%s: ", g->members[i].device);
            return true;
        }
    return false;
}

/* A group that relies on the lost task and is not broken yet, or NULL; a reference. */
static mr_cgroup *take_lost_group(mr_collectives *c, const mr_task_peers *p, int task, mr_status **why)
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

/* Whether the exchange still needs something from a task. A task that was done with the exchange may
 * go. */
static bool needs_locked(mr_collectives *c, const mr_exchange *x, int task) MR_REQUIRES(c->mu);
static bool needs_locked(mr_collectives *c, const mr_exchange *x, int task)
{
    for (const mr_xrequest *q = x->requests; q; q = q->next)
        if (q->task == task)
            return true;
    return !x->text || mr_exchange_offers_locked(c, x);
}

/* An exchange of the group that needs something from the task, or NULL; a reference. */
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

/* Fails the exchanges that need the lost task, with the code of the loss. They are failed before the
 * group is broken, because breaking it would mark the error as a consequence of another one. */
static void fail_needing(mr_collectives *c, const mr_cgroup *g, int task, const mr_status *why)
{
    for (mr_exchange *x; (x = take_needing(c, g, task));) {
        mr_exchange_fail(x, mr_status_copy(why), false);
        mr_exchange_unref(x);
    }
}

/* One group at a time: breaking a group calls back without the lock. A broken group is not found again, so the loop
 * ends. */
void mr_collectives_lost(mr_collectives *c, const mr_task_peers *p, int task)
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

/* Takes the group out of the table, unless another one has replaced it. */
static void forget_group(mr_collectives *c, mr_cgroup *g)
{
    char text[MR_CGROUP_TEXT];
    mr_sv key = mr_cgroup_text(g->peers, g->key, g->part, text);
    mr_lock(&c->mu);
    bool there = mr_map_get(&c->groups, key) == g;
    if (there)
        mr_map_remove(&c->groups, key);
    mr_unlock(&c->mu);
    if (there)
        mr_cgroup_unref(g);
}

/* A group that the session was the last to use and that is to be broken or forgotten, or NULL; a
 * reference. */
static mr_cgroup *take_group_of(mr_collectives *c, const mr_wsession *s)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    mr_cgroup *found = NULL;
    mr_lock(&c->mu);
    while (!found && !c->stopped && mr_map_next(&c->groups, &pos, &key, &v)) {
        mr_cgroup *g = v;
        if (g->user == s && (!g->broken || g->peers->brought))
            found = mr_cgroup_ref(g);
    }
    mr_unlock(&c->mu);
    return found;
}

/* Leaves the groups that the session used: the other members are told, and may finish what does not
 * need this task. The groups of a session's own cluster are forgotten, since nobody asks for them
 * again. */
void mr_collectives_session_closed(mr_collectives *c, mr_wsession *s)
{
    for (mr_cgroup *found; (found = take_group_of(c, s));) {
        mr_status *why =
            mr_error(MR_ABORTED, MR_ABORTED_BY "%s: its session was closed", mr_task_peers_name(found->peers));
        mr_lock(&c->mu);
        bool whole = !found->broken;
        mr_unlock(&c->mu);
        mr_cgroup_break(c, found, why, MR_BREAK_LEFT);
        if (whole)
            tell_all(c, found, why, true);
        mr_status_free(why);
        if (found->peers->brought)
            forget_group(c, found);
        mr_cgroup_unref(found);
    }
}

/* Handles AbortCollective: another member has broken a communicator, or has left it. */
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
    /* A communicator that is not known here may still be on its way, so its end is remembered. This task may be its
     * leader without being a member; then members that wait for it are answered. */
    if (!st && communicator) {
        mr_status *why = mr_status_mark_derived(mr_error(MR_ABORTED, "%.*s", MR_SV_ARG(text)));
        mr_lock(&c->mu);
        mr_cgroup *g = mr_cgroup_find_locked(c, communicator);
        if (g)
            mr_cgroup_ref(g);
        else
            remember_end_locked(c, communicator, why);
        mr_unlock(&c->mu);
        if (g)
            mr_cgroup_break(c, g, why, left ? MR_BREAK_LEFT : MR_BREAK_TOLD);
        else
            mr_collectives_break_led(c, communicator, why);
        mr_cgroup_unref(g);
        mr_status_free(why);
    }
    mr_reply(call, st, NULL);
}
