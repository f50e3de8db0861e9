/* group/keeper.c -- calls in, the roster's decisions out.
 *
 * Of each member there is at most one call that waits; another one of it takes its place.  News that come while none waits are
 * kept for the next.  Replies are sent without the lock. */
#include "group/keeper.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/timers.h"
#include "group/words.h"

#define TICK_NS INT64_C(50000000)
#define PING_NS INT64_C(1000000000)  /* how long a call waits without news */
#define LEASE_NS INT64_C(3000000000) /* how long a member may be away between two calls */
#define LEAVE_NS INT64_C(100000000)  /* who leaves has done its part: the others may still be at theirs */

typedef struct attendee {
    uint64_t who;
    char *address;
    mr_net_call *call; /* waits; NULL: it is away */
    uint64_t serial;   /* of its calls that count */
    int64_t since_ns;  /* that it waits, is away, or has left */
    bool leaves;
    MR_VEC(mr_str) news;
} attendee;

typedef struct answer {
    mr_net_call *call;
    mr_status *st;
    mr_str body;
} answer;
typedef MR_VEC(answer) answers;

struct mr_keeper {
    char *group;
    uint64_t key;
    mr_timers *timers;
    mr_timer timer;
    mr_mutex mu;
    mr_roster roster MR_GUARDED_BY(mu);
    MR_VEC(attendee *) attendees MR_GUARDED_BY(mu);
    bool closing MR_GUARDED_BY(mu);
    bool retiring MR_GUARDED_BY(mu); /* this process leaves: what is formed next is formed by another */
};

static void send(answers *out)
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

static attendee *find_locked(mr_keeper *k, uint64_t who) MR_REQUIRES(k->mu)
{
    for (int i = 0; i < k->attendees.n; i++)
        if (k->attendees.p[i]->who == who)
            return k->attendees.p[i];
    return NULL;
}

static void attendee_free(attendee *a)
{
    for (int i = 0; i < a->news.n; i++)
        mr_str_deinit(&a->news.p[i]);
    mr_vec_deinit(&a->news);
    mr_free(a->address);
    mr_free(a);
}

/* Its call ends with what there is to say; a body of its own when that is nothing. */
static void answer_locked(attendee *a, answers *out)
{
    answer x = {.call = a->call};
    if (!a->call)
        return;
    if (a->news.n) {
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

/* ---- what the roster decides ---- */

static void tell_locked(mr_keeper *k, attendee *a, const mr_news *n, answers *out) MR_REQUIRES(k->mu)
{
    mr_str body = {0};
    (void)k;
    mr_news_write(n, &body);
    mr_vec_push(&a->news, body);
    answer_locked(a, out);
}

static void form_locked(mr_keeper *k, answers *out) MR_REQUIRES(k->mu)
{
    mr_news n = {.kind = MR_NEWS_FORMED, .generation = k->roster.generation, .keeper = k->key};
    for (int i = 0; i < k->roster.members.n; i++) {
        attendee *a = find_locked(k, k->roster.members.p[i]);
        mr_vec_push(&n.members, (mr_news_member){k->roster.members.p[i], a ? a->address : (char *)""});
    }
    for (int i = 0; i < k->roster.members.n; i++) {
        attendee *a = find_locked(k, k->roster.members.p[i]);
        if (a)
            tell_locked(k, a, &n, out);
    }
    mr_vec_deinit(&n.members); /* the addresses are the attendees' */
}

static void tell_members_locked(mr_keeper *k, mr_news_kind kind, const mr_roster_action *act, answers *out) MR_REQUIRES(k->mu)
{
    bool gone = !find_locked(k, act->who); /* else it only wants another generation */
    mr_news n = {.kind = kind, .generation = k->roster.generation, .keeper = k->key, .who = gone ? act->who : 0};
    mr_str_printf(&n.why, "member %d %s", mr_roster_rank(&k->roster, act->who), act->why);
    for (int i = 0; i < k->roster.members.n; i++) {
        attendee *a = find_locked(k, k->roster.members.p[i]);
        if (a && a->who != act->who)
            tell_locked(k, a, &n, out);
    }
    mr_news_deinit(&n);
}

static void refuse_locked(mr_keeper *k, const mr_roster_action *act, answers *out) MR_REQUIRES(k->mu)
{
    attendee *a = find_locked(k, act->who);
    if (!a)
        return;
    mr_news n = {.kind = MR_NEWS_REFUSED, .generation = act->code};
    mr_str_printf(&n.why, "group '%s': this process %s", k->group, act->why);
    tell_locked(k, a, &n, out);
    mr_news_deinit(&n);
}

static void step_locked(mr_keeper *k, const mr_roster_event *e, answers *out) MR_REQUIRES(k->mu)
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

static void remove_locked(mr_keeper *k, attendee *a, mr_roster_word word, answers *out) MR_REQUIRES(k->mu)
{
    uint64_t who = a->who;
    for (int i = 0; i < k->attendees.n; i++)
        if (k->attendees.p[i] == a) {
            mr_vec_remove_swap(&k->attendees, i);
            break;
        }
    attendee_free(a);
    step_locked(k, &(mr_roster_event){.word = word, .who = who}, out);
}

/* ---- calls ---- */

static void caller_left(void *arg, mr_net_call *c)
{
    mr_keeper *k = arg;
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
    send(&out);
}

static attendee *seat_locked(mr_keeper *k, const mr_attend *w) MR_REQUIRES(k->mu)
{
    attendee *a = find_locked(k, w->who);
    if (a)
        return a;
    a = mr_new(attendee);
    a->who = w->who;
    a->address = mr_strdup(mr_str_z(&w->address));
    mr_vec_push(&k->attendees, a);
    return a;
}

static void say_nothing(mr_net_call *c, answers *out)
{
    answer x = {.call = c};
    mr_news_write(&(mr_news){.kind = MR_NEWS_NOTHING}, &x.body);
    mr_vec_push(out, x);
}

/* The call takes its member's place; false: its caller has left already. */
static bool wait_locked(mr_keeper *k, attendee *a, mr_net_call *c, answers *out) MR_REQUIRES(k->mu)
{
    if (a->call) /* another of the same member: nothing is told twice, so this one gets nothing */
        say_nothing(a->call, out);
    a->call = c;
    a->since_ns = mr_now_ns();
    return c->net->on_cancel(c, caller_left, k);
}

static void attend_locked(mr_keeper *k, const mr_attend *w, mr_net_call *c, answers *out) MR_REQUIRES(k->mu)
{
    attendee *a = seat_locked(k, w);
    if (w->serial < a->serial) { /* was overtaken by a join: that one waits, and must go on to do so */
        say_nothing(c, out);
        return;
    }
    a->serial = w->serial;
    if (w->flags & MR_ATTEND_LEAVE) {
        say_nothing(c, out);
        answer_locked(a, out);
        a->leaves = true;
        k->retiring |= a->who == k->key;
        a->since_ns = mr_now_ns();
        return;
    }
    if (!wait_locked(k, a, c, out)) {
        a->call = NULL;
        mr_vec_push(out, (answer){.call = c, .st = mr_error(MR_CANCELLED, "group: the member has gone")});
        remove_locked(k, a, MR_ROSTER_GONE, out);
        return;
    }
    if (w->flags & MR_ATTEND_JOIN) { /* what was to be told of before is of no interest any more */
        for (int i = 0; i < a->news.n; i++)
            mr_str_deinit(&a->news.p[i]);
        a->news.n = 0;
        step_locked(k, &(mr_roster_event){.word = MR_ROSTER_JOIN, .who = w->who, .wanted = w->wanted,
                                          .generation = w->generation, .fellows = w->fellows.p, .n_fellows = w->fellows.n,
                                          .lost = w->lost}, out);
    }
    if (a->news.n)
        answer_locked(a, out);
}

static mr_status *check(const mr_keeper *k, const mr_attend *w)
{
    if (strcmp(mr_str_z(&w->name), k->group) != 0)
        return mr_invalid("group: this is '%s', not '%s'", k->group, mr_str_z(&w->name));
    return w->who == 0 ? mr_invalid("group '%s': a member without a key", k->group) : NULL;
}

void mr_keeper_handle(mr_keeper *k, mr_net_call *c)
{
    mr_attend w = {0};
    mr_sv bytes;
    answers out = {0};
    mr_status *st = c->body.n > MR_WORDS_BYTES ? mr_invalid("group: a word of %zu bytes", c->body.n) : NULL;
    if (!st)
        st = mr_bytes_flat(&c->body, &bytes);
    if (!st)
        st = mr_attend_read(bytes, &w);
    if (!st)
        st = check(k, &w);
    mr_lock(&k->mu);
    bool is_full = k->attendees.n >= MR_ROSTER_MOST && !find_locked(k, w.who);
    if (!st && (k->closing || is_full || (k->retiring && (w.flags & MR_ATTEND_JOIN))))
        st = mr_error(MR_UNAVAILABLE, "group '%s': its keeper takes nobody in", k->group);
    if (st)
        mr_vec_push(&out, (answer){.call = c, .st = st});
    else
        attend_locked(k, &w, c, &out);
    mr_unlock(&k->mu);
    send(&out);
    mr_attend_deinit(&w);
}

/* ---- time ---- */

static void look_locked(mr_keeper *k, answers *out) MR_REQUIRES(k->mu)
{
    int64_t now = mr_now_ns();
    for (int i = k->attendees.n - 1; i >= 0; i--) {
        attendee *a = k->attendees.p[i];
        if (a->leaves) {
            if (now - a->since_ns > LEAVE_NS)
                remove_locked(k, a, MR_ROSTER_LEAVE, out);
        } else if (a->call && now - a->since_ns > PING_NS)
            answer_locked(a, out);
        else if (!a->call && now - a->since_ns > LEASE_NS)
            remove_locked(k, a, MR_ROSTER_GONE, out);
    }
    if (now >= mr_roster_next_ns(&k->roster))
        step_locked(k, &(mr_roster_event){.word = MR_ROSTER_TICK}, out);
}

static void tick(mr_timer *t)
{
    mr_keeper *k = (mr_keeper *)((char *)t - offsetof(mr_keeper, timer));
    answers out = {0};
    mr_lock(&k->mu);
    bool closing = k->closing;
    if (!closing)
        look_locked(k, &out);
    mr_unlock(&k->mu);
    send(&out);
    if (!closing)
        mr_timers_set(k->timers, &k->timer, mr_now_ns() + TICK_NS, tick);
}

bool mr_keeper_has_guests(mr_keeper *k)
{
    mr_lock(&k->mu);
    bool any = false;
    for (int i = 0; i < k->attendees.n; i++)
        any |= k->attendees.p[i]->who != k->key && !k->attendees.p[i]->leaves;
    mr_unlock(&k->mu);
    return any;
}

/* ---- its life ---- */

mr_status *mr_keeper_new(const char *group, uint64_t key, const mr_roster_options *o, mr_keeper **out)
{
    mr_keeper *k = mr_new(mr_keeper);
    mr_status *st = mr_timers_new(&k->timers);
    if (st) {
        mr_free(k);
        return st;
    }
    k->group = mr_strdup(group);
    k->key = key;
    mr_mutex_init(&k->mu);
    mr_roster_init(&k->roster, o);
    mr_timers_set(k->timers, &k->timer, mr_now_ns() + TICK_NS, tick);
    *out = k;
    return NULL;
}

void mr_keeper_free(mr_keeper *k)
{
    answers out = {0};
    if (!k)
        return;
    mr_lock(&k->mu);
    k->closing = true;
    mr_unlock(&k->mu);
    mr_timers_clear(k->timers, &k->timer);
    mr_timers_clear(k->timers, &k->timer); /* set again by one that ran */
    mr_timers_free(k->timers);
    mr_lock(&k->mu);
    for (int i = 0; i < k->attendees.n; i++) {
        attendee *a = k->attendees.p[i];
        if (a->call)
            mr_vec_push(&out, (answer){.call = a->call, .st = mr_error(MR_UNAVAILABLE, "group '%s': its keeper has left", k->group)});
        a->call = NULL;
    }
    mr_unlock(&k->mu);
    send(&out);
    for (int i = 0; i < k->attendees.n; i++)
        attendee_free(k->attendees.p[i]);
    mr_vec_deinit(&k->attendees);
    mr_roster_deinit(&k->roster);
    mr_mutex_deinit(&k->mu);
    mr_free(k->group);
    mr_free(k);
}
