/* group/roster_server.c -- carries out the roster: calls of members in, decisions of dist/group.c out.
 *
 * At most one call of each member is pending; a newer one replaces it. News for a member without a pending call is
 * queued for its next call. A member that has had no pending call for LEASE_NS counts as gone. How a member's absence
 * is noticed:
 *
 *     its process ended, or the connection broke    the pending call is cancelled (caller_left): at once
 *     it said that it leaves                        after LEAVE_NS, so that the others can finish an operation
 *     its host does not answer                      no new call within LEASE_NS after the last was answered
 *
 * Locking: k->mu guards the roster and the attendees. Replies are collected in `answers` under the lock and sent
 * without it, because a reply may call back into this file. */
#include "group/roster_server.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/timers.h"
#include "group/roster_messages.h"

#define TICK_NS INT64_C(50000000)
#define PING_NS INT64_C(1000000000)  /* how long a call stays pending without news */
#define LEASE_NS INT64_C(3000000000) /* how long a member may have no pending call */
#define LEAVE_NS \
    INT64_C(100000000) /* a member that left has finished its operations; the others get this long to finish theirs */

typedef struct attendee {
    uint64_t who;
    char *address;
    mr_net_call *call; /* pending; NULL: none */
    uint64_t serial;   /* of its latest join; older calls get no news */
    int64_t since_ns;  /* when the call became pending, or ended, or the member left */
    bool leaves;
    MR_VEC(mr_str) news;
} attendee;

typedef struct answer {
    mr_net_call *call;
    mr_status *st;
    mr_str body;
} answer;
typedef MR_VEC(answer) answers;

struct mr_roster_server {
    char *group;
    uint64_t key;
    mr_timers *timers;
    mr_timer timer;
    mr_mutex mu;
    mr_roster roster MR_GUARDED_BY(mu);
    MR_VEC(attendee *) attendees MR_GUARDED_BY(mu);
    bool closing MR_GUARDED_BY(mu);
    bool retiring MR_GUARDED_BY(mu); /* this process leaves: another one forms the next generation */
};

/* Sends the collected replies and frees the list; called without the lock. */
static void send_answers(answers *out)
{
    for (int i = 0; i < out->n; i++) {
        answer *a = &out->p[i];
        mr_bytes body = {0};
        mr_bytes_add_str(&body, &a->body);
        a->call->net->reply(a->call, a->st, a->st ? NULL : &body);
        if (a->st)
            mr_bytes_deinit(&body);
    }
    mr_vec_deinit(out);
}

/* The attendee with this key; NULL: that member is gone, or never called. */
static attendee *find_locked(mr_roster_server *k, uint64_t who) MR_REQUIRES(k->mu)
{
    for (int i = 0; i < k->attendees.n; i++)
        if (k->attendees.p[i]->who == who)
            return k->attendees.p[i];
    return NULL;
}

/* Its pending call, if any, must be in a list of answers already. */
static void attendee_free(attendee *a)
{
    for (int i = 0; i < a->news.n; i++)
        mr_str_deinit(&a->news.p[i]);
    mr_vec_deinit(&a->news);
    mr_free(a->address);
    mr_free(a);
}

/* Ends the member's pending call, if there is one, with its oldest news, or with MR_NEWS_NOTHING. */
static void answer_locked(attendee *a, answers *out)
{
    answer x = {.call = a->call};
    if (!a->call)
        return;
    if (a->news.n) { /* in the order in which they were queued: an end must not overtake what was formed before it */
        x.body = a->news.p[0];
        a->news.n--;
        memmove(a->news.p, a->news.p + 1, (size_t)a->news.n * sizeof(mr_str));
    } else {
        mr_news_write(&(mr_news){.kind = MR_NEWS_NOTHING}, &x.body);
    }
    a->call = NULL;
    a->since_ns = mr_now_ns();
    mr_vec_push(out, x);
}

/* ---- carrying out the roster's decisions ---- */

/* Queues news for a member and answers its pending call, if there is one, with the oldest in the queue. */
static void tell_locked(mr_roster_server *k, attendee *a, const mr_news *n, answers *out) MR_REQUIRES(k->mu)
{
    mr_str body = {0};
    (void)k;
    mr_news_write(n, &body);
    mr_vec_push(&a->news, body);
    answer_locked(a, out);
}

/* Tells all members of the new generation who they are. The addresses are borrowed from the attendees. */
static void form_locked(mr_roster_server *k, answers *out) MR_REQUIRES(k->mu)
{
    mr_news n = {.kind = MR_NEWS_FORMED, .generation = k->roster.generation, .roster_server = k->key};
    MR_ASSERT(k->roster.members.n > 0);
    for (int i = 0; i < k->roster.members.n; i++) {
        attendee *a = find_locked(k, k->roster.members.p[i]);
        mr_vec_push(&n.members, (mr_news_member){k->roster.members.p[i], a ? a->address : (char *)""});
    }
    for (int i = 0; i < k->roster.members.n; i++) {
        attendee *a = find_locked(k, k->roster.members.p[i]);
        if (a)
            tell_locked(k, a, &n, out);
    }
    mr_vec_deinit(&n.members); /* not mr_news_deinit: the addresses are borrowed */
}

/* Tells all members but the cause that the generation ended, or that a process waits. `who` is set only if that
 * member is gone; otherwise it merely asks for another generation. */
static void tell_members_locked(mr_roster_server *k, mr_news_kind kind, const mr_roster_action *act, answers *out) MR_REQUIRES(k->mu)
{
    bool gone = !find_locked(k, act->who);
    mr_news n = {.kind = kind, .generation = k->roster.generation, .roster_server = k->key, .who = gone ? act->who : 0};
    mr_str_printf(&n.why, "member %d %s", mr_roster_rank(&k->roster, act->who), act->why);
    for (int i = 0; i < k->roster.members.n; i++) {
        attendee *a = find_locked(k, k->roster.members.p[i]);
        if (a && a->who != act->who)
            tell_locked(k, a, &n, out);
    }
    mr_news_deinit(&n);
}

/* Tells a process why it cannot join. The news carries the code of the error in place of a generation. */
static void refuse_locked(mr_roster_server *k, const mr_roster_action *act, answers *out) MR_REQUIRES(k->mu)
{
    attendee *a = find_locked(k, act->who);
    if (!a)
        return;
    mr_news n = {.kind = MR_NEWS_REFUSED, .generation = act->code};
    mr_str_printf(&n.why, "group '%s': this process %s", k->group, act->why);
    tell_locked(k, a, &n, out);
    mr_news_deinit(&n);
}

/* Feeds one event to the roster and carries out its actions. */
static void step_locked(mr_roster_server *k, const mr_roster_event *e, answers *out) MR_REQUIRES(k->mu)
{
    mr_roster_actions acts = {0};
    mr_roster_step(&k->roster, e, mr_now_ns(), &acts);
    for (int i = 0; i < acts.n; i++) {
        const mr_roster_action *a = &acts.p[i];
        if (a->what == MR_ROSTER_FORM)
            form_locked(k, out);
        else if (a->what == MR_ROSTER_REFUSE)
            refuse_locked(k, a, out);
        else
            tell_members_locked(k, a->what == MR_ROSTER_END ? MR_NEWS_ENDED : MR_NEWS_WAITS, a, out);
    }
    mr_vec_deinit(&acts);
}

/* Forgets a member and reports that to the roster. Its pending call, if any, must already be in *out. */
static void remove_locked(mr_roster_server *k, attendee *a, mr_roster_message message, answers *out) MR_REQUIRES(k->mu)
{
    uint64_t who = a->who;
    for (int i = 0; i < k->attendees.n; i++)
        if (k->attendees.p[i] == a) {
            mr_vec_remove_swap(&k->attendees, i);
            break;
        }
    attendee_free(a);
    step_locked(k, &(mr_roster_event){.message = message, .who = who}, out);
}

/* ---- calls ---- */

/* A pending call was cancelled: its process ended or lost the connection, so the member is gone. The thread that takes
 * a call out of its attendee answers it; if no attendee has the call, another thread has answered it already. */
static void caller_left(void *arg, mr_net_call *c)
{
    mr_roster_server *k = arg;
    answers out = {0};
    bool mine = false;
    mr_lock(&k->mu);
    for (int i = 0; i < k->attendees.n && !mine; i++) {
        attendee *a = k->attendees.p[i];
        if (a->call != c)
            continue;
        mine = true;
        mr_vec_push(&out, (answer){.call = c, .st = mr_error(MR_CANCELLED, "group: the member has gone")});
        if (k->closing)
            a->call = NULL;
        else
            remove_locked(k, a, MR_ROSTER_GONE, &out);
    }
    mr_unlock(&k->mu);
    send_answers(&out);
}

/* The attendee of a message's sender, added if it is new. */
static attendee *seat_locked(mr_roster_server *k, const mr_attend *w) MR_REQUIRES(k->mu)
{
    attendee *a = find_locked(k, w->who);
    if (a)
        return a;
    a = mr_new(attendee);
    a->who = w->who;
    MR_ASSERT(a->who != 0);
    a->address = mr_strdup(mr_str_z(&w->address));
    mr_vec_push(&k->attendees, a);
    return a;
}

/* Answers a call that will get no news: it was overtaken, replaced, or announced that the member leaves. */
static void say_nothing(mr_net_call *c, answers *out)
{
    answer x = {.call = c};
    mr_news_write(&(mr_news){.kind = MR_NEWS_NOTHING}, &x.body);
    mr_vec_push(out, x);
}

/* Makes a call the member's pending one; an older pending call ends without news. false: the caller has left
 * already. */
static bool wait_locked(mr_roster_server *k, attendee *a, mr_net_call *c, answers *out) MR_REQUIRES(k->mu)
{
    if (a->call)
        say_nothing(a->call, out);
    a->call = c;
    a->since_ns = mr_now_ns();
    return c->net->on_cancel(c, caller_left, k);
}

/* Handles one valid Attend message; each path answers the call or leaves it pending. A call with an older serial
 * was overtaken by a join and must not replace it. A join discards queued news, which is about the time before. */
static void attend_locked(mr_roster_server *k, const mr_attend *w, mr_net_call *c, answers *out) MR_REQUIRES(k->mu)
{
    attendee *a = seat_locked(k, w);
    if (w->serial < a->serial) {
        say_nothing(c, out);
        return;
    }
    a->serial = w->serial;
    /* The roster learns of it after LEAVE_NS (look_locked). */
    if (w->flags & MR_ATTEND_LEAVE) {
        say_nothing(c, out);
        answer_locked(a, out);
        a->leaves = true;
        k->retiring |= a->who == k->key;
        a->since_ns = mr_now_ns();
        return;
    }
    /* Cancelled before it could become pending: caller_left will not be called for it. */
    if (!wait_locked(k, a, c, out)) {
        a->call = NULL;
        mr_vec_push(out, (answer){.call = c, .st = mr_error(MR_CANCELLED, "group: the member has gone")});
        remove_locked(k, a, MR_ROSTER_GONE, out);
        return;
    }
    if (w->flags & MR_ATTEND_JOIN) {
        for (int i = 0; i < a->news.n; i++)
            mr_str_deinit(&a->news.p[i]);
        a->news.n = 0;
        step_locked(k, &(mr_roster_event){.message = MR_ROSTER_JOIN, .who = w->who, .wanted = w->wanted,
                                          .generation = w->generation, .peers = w->peers.p, .n_peers = w->peers.n,
                                          .lost = w->lost}, out);
    }
    if (a->news.n)
        answer_locked(a, out);
}

/* Refuses a message for another group, for example from a process that was given a wrong address. */
static mr_status *check_attend(const mr_roster_server *k, const mr_attend *w)
{
    if (strcmp(mr_str_z(&w->name), k->group) != 0)
        return mr_invalid("group: this process keeps the roster of group '%s', not of '%s'", k->group,
                          mr_str_z(&w->name));
    return w->who == 0 ? mr_invalid("group '%s': an Attend message has no member key", k->group) : NULL;
}

/* Reads and checks a message from outside, then handles it. Every call is answered here or becomes pending. */
void mr_roster_server_handle(mr_roster_server *k, mr_net_call *c)
{
    mr_attend w = {0};
    mr_sv bytes;
    answers out = {0};
    mr_status *st = c->body.n > MR_ROSTER_MAX_BYTES
                        ? mr_invalid("group: an Attend message has %zu bytes, at most %d are allowed", c->body.n,
                                     (int)MR_ROSTER_MAX_BYTES)
                        : NULL;
    if (!st)
        st = mr_bytes_flat(&c->body, &bytes);
    if (!st)
        st = mr_attend_read(bytes, &w);
    if (!st)
        st = check_attend(k, &w);
    mr_lock(&k->mu);
    /* A retiring server takes no joins, so that the members look for the next roster server. */
    bool is_full = k->attendees.n >= MR_ROSTER_MOST && !find_locked(k, w.who);
    if (!st && (k->closing || is_full || (k->retiring && (w.flags & MR_ATTEND_JOIN))))
        st = mr_error(MR_UNAVAILABLE, "group '%s': the process with the roster is closing or its roster is full",
                      k->group);
    if (st)
        mr_vec_push(&out, (answer){.call = c, .st = st});
    else
        attend_locked(k, &w, c, &out);
    mr_unlock(&k->mu);
    send_answers(&out);
    mr_attend_deinit(&w);
}

/* ---- time ---- */

/* Looks at the time: removes members that left or were silent too long, answers calls that have been pending for
 * PING_NS, and lets the roster act. It counts down because remove_locked moves the last attendee into the gap. */
static void look_locked(mr_roster_server *k, answers *out) MR_REQUIRES(k->mu)
{
    int64_t now = mr_now_ns();
    for (int i = k->attendees.n - 1; i >= 0; i--) {
        attendee *a = k->attendees.p[i];
        if (a->leaves) {
            if (now - a->since_ns > LEAVE_NS) {
                answer_locked(a, out); /* nothing stops a member from calling again after it left */
                remove_locked(k, a, MR_ROSTER_LEAVE, out);
            }
        } else if (a->call && now - a->since_ns > PING_NS)
            answer_locked(a, out);
        else if (!a->call && now - a->since_ns > LEASE_NS)
            remove_locked(k, a, MR_ROSTER_GONE, out);
    }
    if (now >= mr_roster_next_ns(&k->roster))
        step_locked(k, &(mr_roster_event){.message = MR_ROSTER_TICK}, out);
}

/* The timer: looks every TICK_NS until the roster closes. */
static void on_tick(mr_timer *t)
{
    mr_roster_server *k = (mr_roster_server *)((char *)t - offsetof(mr_roster_server, timer));
    answers out = {0};
    mr_lock(&k->mu);
    bool closing = k->closing;
    if (!closing)
        look_locked(k, &out);
    mr_unlock(&k->mu);
    send_answers(&out);
    if (!closing)
        mr_timers_set(k->timers, &k->timer, mr_now_ns() + TICK_NS, on_tick);
}

/* Members that are leaving do not count: they need no news any more. */
bool mr_roster_server_has_guests(mr_roster_server *k)
{
    mr_lock(&k->mu);
    bool any = false;
    for (int i = 0; i < k->attendees.n; i++)
        any |= k->attendees.p[i]->who != k->key && !k->attendees.p[i]->leaves;
    mr_unlock(&k->mu);
    return any;
}

/* ---- creating and freeing ---- */

/* Starts with an empty roster and a timer on a thread of its timers. A former member that joins brings the number of
 * its last generation, so the numbering continues. */
mr_status *mr_roster_server_new(const char *group, uint64_t key, const mr_roster_options *o, mr_roster_server **out)
{
    MR_ASSERT(key != 0);
    mr_roster_server *k = mr_new(mr_roster_server);
    mr_status *st = mr_timers_new(&k->timers);
    if (st) {
        mr_free(k);
        return st;
    }
    k->group = mr_strdup(group);
    k->key = key;
    mr_mutex_init(&k->mu);
    mr_roster_init(&k->roster, o);
    mr_timers_set(k->timers, &k->timer, mr_now_ns() + TICK_NS, on_tick);
    *out = k;
    return NULL;
}

/* Stops the timer, ends all pending calls with UNAVAILABLE, then frees. The caller hands over no more calls. */
void mr_roster_server_free(mr_roster_server *k)
{
    answers out = {0};
    if (!k)
        return;
    mr_lock(&k->mu);
    k->closing = true;
    mr_unlock(&k->mu);
    mr_timers_clear(k->timers, &k->timer);
    mr_timers_clear(k->timers, &k->timer); /* a tick that was running may have set it again */
    mr_timers_free(k->timers);
    mr_lock(&k->mu);
    for (int i = 0; i < k->attendees.n; i++) {
        attendee *a = k->attendees.p[i];
        if (a->call)
            mr_vec_push(&out, (answer){.call = a->call,
                                       .st = mr_error(MR_UNAVAILABLE,
                                                      "group '%s': the process with the roster has left", k->group)});
        a->call = NULL;
    }
    mr_unlock(&k->mu);
    send_answers(&out);
    for (int i = 0; i < k->attendees.n; i++)
        attendee_free(k->attendees.p[i]);
    mr_vec_deinit(&k->attendees);
    mr_roster_deinit(&k->roster);
    mr_mutex_deinit(&k->mu);
    mr_free(k->group);
    mr_free(k);
}
