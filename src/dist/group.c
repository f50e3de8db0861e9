/* dist/group.c -- the roster of a process group: joining, ending, forming.
 *
 * Invariants between events: while a generation runs, no process is expected, and none of its members
 * waits. While none runs, a process that is expected does not wait, and the generation could not be
 * formed yet. No process is expected after its time to come back is over. */
#include "dist/group.h"

#include "base/memory.h"

void mr_roster_init(mr_roster *r, const mr_roster_options *o)
{
    *r = (mr_roster){.o = *o};
    MR_ASSERT(o->size >= 1 && o->size <= MR_ROSTER_MOST);
}

void mr_roster_deinit(mr_roster *r)
{
    mr_vec_deinit(&r->members);
    mr_vec_deinit(&r->expected);
    mr_vec_deinit(&r->waiting);
}

/* ---- lists ---- */

static int find_key(const uint64_t *keys, int n, uint64_t who)
{
    for (int i = 0; i < n; i++)
        if (keys[i] == who)
            return i;
    return -1;
}

int mr_roster_rank(const mr_roster *r, uint64_t who) { return find_key(r->members.p, r->members.n, who); }

static void remove_key(mr_roster_keys *v, uint64_t who)
{
    int i = find_key(v->p, v->n, who);
    if (i >= 0)
        mr_vec_remove_swap(v, i);
}

/* The index of a process among those that wait; -1: it does not. */
static int seat_of(const mr_roster *r, uint64_t who)
{
    for (int i = 0; i < r->waiting.n; i++)
        if (r->waiting.p[i].who == who)
            return i;
    return -1;
}

static void add_action(mr_roster_actions *out, mr_roster_do what, uint64_t who, const char *why)
{
    mr_vec_push(out, (mr_roster_action){.what = what, .who = who, .why = why});
}

/* ---- ending ---- */

/* The generation is over because of `who`; all other members are expected back. */
static void end_generation(mr_roster *r, uint64_t who, const char *why, int64_t now_ns, mr_roster_actions *out)
{
    MR_ASSERT(r->running && r->expected.n == 0);
    add_action(out, MR_ROSTER_END, who, why);
    r->running = false;
    r->since_ns = now_ns;
    for (int i = 0; i < r->members.n; i++)
        if (r->members.p[i] != who)
            mr_vec_push(&r->expected, r->members.p[i]);
}

/* A process left or died. Only a member of the running generation ends it. */
static void member_goes(mr_roster *r, uint64_t who, const char *why, int64_t now_ns, mr_roster_actions *out)
{
    int seat = seat_of(r, who);
    if (seat >= 0)
        mr_vec_remove_swap(&r->waiting, seat);
    if (r->running && mr_roster_rank(r, who) >= 0)
        end_generation(r, who, why, now_ns, out);
    else
        remove_key(&r->expected, who);
}

/* ---- joining ---- */

/* Numbers of generations wrap around: b is later if it is less than half a round ahead. */
bool mr_roster_is_later(int64_t b, int64_t a)
{
    int64_t ahead = b >= a ? b - a : b - a + MR_ROSTER_LAST;
    return b > 0 && (a == 0 || (ahead > 0 && ahead < MR_ROSTER_LAST / 2));
}

/* Events come from other processes. Keys must not be 0 or repeated. */
static bool is_sensible(const mr_roster_event *e)
{
    if (e->who == 0 || e->generation < 0 || e->generation > MR_ROSTER_LAST || e->n_peers < 0 ||
        e->n_peers > MR_ROSTER_MOST || (e->n_peers > 0 && !e->peers))
        return false;
    for (int i = 0; i < e->n_peers; i++)
        if (e->peers[i] == 0 || find_key(e->peers, i, e->peers[i]) >= 0)
            return false;
    return true;
}

/* The process comes from a later generation than any we know. Its members are expected, unless this
 * roster has formed a generation itself (`own`: running, or ended just now), whose members and number
 * stay; then the next one will be later than both. */
static void adopt_generation(mr_roster *r, const mr_roster_event *e, bool own, int64_t now_ns)
{
    r->highest = e->generation;
    if (own)
        return;
    r->generation = e->generation;
    r->since_ns = now_ns;
    r->members.n = r->expected.n = 0;
    for (int i = 0; i < e->n_peers; i++) {
        mr_vec_push(&r->members, e->peers[i]);
        if (e->peers[i] != e->lost && seat_of(r, e->peers[i]) < 0)
            mr_vec_push(&r->expected, e->peers[i]);
    }
}

/* Whether another waiting process wants the same rank. */
static bool is_taken(const mr_roster *r, const mr_roster_event *e)
{
    for (int i = 0; i < r->waiting.n; i++)
        if (e->wanted >= 0 && r->waiting.p[i].wanted == e->wanted && r->waiting.p[i].who != e->who)
            return true;
    return false;
}

static void refuse_member(mr_roster_actions *out, uint64_t who, mr_code code, const char *why)
{
    mr_vec_push(out, (mr_roster_action){.what = MR_ROSTER_REFUSE, .who = who, .code = code, .why = why});
}

/* Whether the process may wait for a place; otherwise it is refused, with a reason. */
static bool admit_member(mr_roster *r, const mr_roster_event *e, mr_roster_actions *out)
{
    bool first = r->generation == 0 && e->generation == 0;
    if (!is_sensible(e) || (first && e->wanted >= r->o.size))
        refuse_member(out, e->who, MR_INVALID_ARGUMENT, "sent an invalid request, or wants a rank beyond the size");
    else if (first && is_taken(r, e))
        refuse_member(out, e->who, MR_ALREADY_EXISTS, "wants the rank of another process");
    else if (r->waiting.n >= MR_ROSTER_MOST)
        refuse_member(out, e->who, MR_RESOURCE_EXHAUSTED, "cannot join because too many processes are waiting");
    else
        return true;
    return false;
}

/* A member that joins again ends its running generation: its process restarted, or it wants a new
 * one. */
static void member_joins(mr_roster *r, const mr_roster_event *e, int64_t now_ns, mr_roster_actions *out)
{
    bool own = r->running;
    if (!admit_member(r, e, out))
        return;
    if (r->running && mr_roster_rank(r, e->who) >= 0)
        end_generation(r, e->who, "wants to form the group again", now_ns, out);
    if (e->lost)
        remove_key(&r->expected, e->lost);
    if (mr_roster_is_later(e->generation, r->highest))
        adopt_generation(r, e, own, now_ns);
    remove_key(&r->expected, e->who);
    if (r->waiting.n == 0 && r->generation == 0)
        r->since_ns = now_ns;
    int seat = seat_of(r, e->who);
    if (seat < 0)
        mr_vec_push(&r->waiting, (mr_roster_seat){e->who, e->wanted});
    else
        r->waiting.p[seat].wanted = e->wanted;
    if (r->running)
        add_action(out, MR_ROSTER_WAITS, e->who, "waits");
}

/* ---- forming ---- */

/* The number of processes that a generation needs at least. */
static int least_members(const mr_roster *r)
{
    if (r->o.least > 0)
        return r->o.least;
    return r->o.majority ? r->members.n / 2 + 1 : 1;
}

static bool time_passed(int64_t since_ns, int64_t wait_ns, int64_t now_ns)
{
    return wait_ns > 0 && now_ns - since_ns >= wait_ns;
}

/* The first generation needs all members; a later one all that are expected, and at least least_members. */
static bool can_form(const mr_roster *r)
{
    if (r->running || r->waiting.n == 0)
        return false;
    if (r->generation == 0)
        return r->waiting.n >= r->o.size;
    return r->expected.n == 0 && r->waiting.n >= least_members(r);
}

/* Members of the last generation come first, in their order; then by the rank they want; then in
 * the order in which they came. */
static bool is_before(const mr_roster_keys *old, const mr_roster_seat *a, const mr_roster_seat *b)
{
    int x = find_key(old->p, old->n, a->who), y = find_key(old->p, old->n, b->who);
    if (x >= 0 || y >= 0)
        return x >= 0 && (y < 0 || x < y);
    return a->wanted >= 0 && (b->wanted < 0 || a->wanted < b->wanted);
}

/* Insertion sort: stable, and there are few. */
static void sort_waiting(mr_roster *r)
{
    for (int i = 1; i < r->waiting.n; i++) {
        mr_roster_seat s = r->waiting.p[i];
        int j = i;
        for (; j > 0 && is_before(&r->members, &s, &r->waiting.p[j - 1]); j--)
            r->waiting.p[j] = r->waiting.p[j - 1];
        r->waiting.p[j] = s;
    }
}

/* All waiting processes become the next generation. */
static void form_generation(mr_roster *r, mr_roster_actions *out)
{
    MR_ASSERT(!r->running && r->waiting.n > 0);
    MR_ASSERT(r->waiting.n <= MR_ROSTER_MOST);
    sort_waiting(r);
    r->members.n = r->expected.n = 0;
    for (int i = 0; i < r->waiting.n; i++)
        mr_vec_push(&r->members, r->waiting.p[i].who);
    r->waiting.n = 0;
    r->generation = r->highest = r->highest % MR_ROSTER_LAST + 1;
    r->running = true;
    add_action(out, MR_ROSTER_FORM, 0, "");
}

/* The time to join is over, and the generation cannot be formed. */
static void refuse_all(mr_roster *r, int64_t now_ns, mr_roster_actions *out)
{
    for (int i = 0; i < r->waiting.n; i++)
        refuse_member(out, r->waiting.p[i].who, MR_DEADLINE_EXCEEDED, "waited for members that did not come");
    r->waiting.n = r->expected.n = 0;
    r->since_ns = now_ns;
}

/* One event, then whatever it or the time makes possible: give up on missing members, form, or
 * refuse. */
void mr_roster_step(mr_roster *r, const mr_roster_event *e, int64_t now_ns, mr_roster_actions *out)
{
    if (e->message == MR_ROSTER_JOIN)
        member_joins(r, e, now_ns, out);
    else if (e->message == MR_ROSTER_LEAVE)
        member_goes(r, e->who, "has left", now_ns, out);
    else if (e->message == MR_ROSTER_GONE)
        member_goes(r, e->who, "is gone", now_ns, out);
    if (!r->running && time_passed(r->since_ns, r->o.rejoin_ns, now_ns))
        r->expected.n = 0;
    if (can_form(r))
        form_generation(r, out);
    else if (!r->running && r->waiting.n && time_passed(r->since_ns, r->o.join_ns, now_ns))
        refuse_all(r, now_ns, out);
}

/* While a generation runs, or no process waits, only an event can change something. */
int64_t mr_roster_next_ns(const mr_roster *r)
{
    int64_t next = INT64_MAX;
    if (r->running || r->waiting.n == 0)
        return next;
    if (r->o.join_ns > 0)
        next = r->since_ns + r->o.join_ns;
    if (r->generation > 0 && r->expected.n && r->o.rejoin_ns > 0)
        next = MR_MIN(next, r->since_ns + r->o.rejoin_ns);
    return next;
}
