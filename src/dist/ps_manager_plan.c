/* dist/ps_manager_plan.c -- what happens next to each range, from where it is and where the ring
 * wants it.
 *
 * Every event ends here. One thing at a time happens to a range: a move whose aim has changed is
 * given up, surplus members are dropped, and then as many ranges as allowed begin to move, those
 * that lack a copy first. Every change of a range calls mr_psm_touch, so the range gets the epoch of
 * the next view. Everything that an event changed goes out in one view, here. */
#include "dist/ps_manager_internal.h"

#include <string.h>

#include "dist/ps_ring.h"

/* ---- changes ---- */

void mr_psm_act(mr_psm_actions *out, mr_psm_do what, uint64_t id, int range)
{
    mr_vec_push(out, (mr_psm_action){.what = what, .id = id, .range = range});
}

uint64_t mr_psm_next_epoch(const mr_psm *m) { return m->epoch + 1; }

void mr_psm_touch(mr_psm *m, mr_ps_range *s)
{
    s->epoch = mr_psm_next_epoch(m);
    m->changed = true;
}

int mr_psm_n_active(const mr_psm *m)
{
    int n = 0;
    for (int i = 0; i < m->view.servers.n; i++)
        n += !m->view.servers.p[i].leaving;
    return n;
}

static bool in_motion(const mr_ps_range *s) { return s->draining || s->catching.id != 0; }

int mr_psm_in_motion(const mr_psm *m)
{
    int n = 0;
    for (int i = 0; i < m->view.ranges.n; i++)
        n += in_motion(&m->view.ranges.p[i]);
    return n;
}

void mr_psm_remove_at(mr_ps_range *s, int i)
{
    MR_ASSERT(i >= 0 && i < s->n);
    memmove(s->chain + i, s->chain + i + 1, sizeof *s->chain * (size_t)(s->n - 1 - i));
    s->n--;
}

/* ---- the plan ---- */

const uint64_t *mr_psm_wanted(const mr_psm *m, int range) { return m->wanted + (size_t)range * (size_t)m->n_wanted; }

/* Whether the ring, with stand-ins for full servers, wants the server in the chain of the range. */
bool mr_psm_is_wanted(const mr_psm *m, int range, uint64_t id)
{
    for (int i = 0; i < m->n_wanted; i++)
        if (mr_psm_wanted(m, range)[i] == id)
            return true;
    return false;
}

/* The servers wanted for a range; fewer than n_wanted if no other server has memory for it. */
static int n_wanted_of(const mr_psm *m, int range)
{
    int n = 0;
    while (n < m->n_wanted && mr_psm_wanted(m, range)[n] != 0)
        n++;
    return n;
}

/* The first server that should be in the chain and is not; 0: none. */
static uint64_t missing_server(const mr_psm *m, int range)
{
    for (int i = 0; i < n_wanted_of(m, range); i++)
        if (mr_ps_range_index(&m->view.ranges.p[range], mr_psm_wanted(m, range)[i]) < 0)
            return mr_psm_wanted(m, range)[i];
    return 0;
}

/* Every server wants to leave, and those that should have taken over are lost: no server may leave. */
static void keep_all(mr_psm *m, mr_psm_actions *out)
{
    for (int i = 0; i < m->view.servers.n; i++) {
        m->view.servers.p[i].leaving = false;
        mr_psm_act(out, MR_PSM_KEEP, m->view.servers.p[i].id, -1);
    }
    m->changed = true;
}

/* ---- stand-ins for servers that have no memory ---- */

typedef struct rooms { /* by index in the view's list of servers */
    bool *open;  /* may get a range: it is not leaving, and not full */
    int *places; /* number of places that it is wanted for */
} rooms;

/* Index in the view's list of servers; -1: not in it. */
static int server_index(const mr_psm *m, uint64_t id)
{
    int low = 0, high = m->view.servers.n;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (m->view.servers.p[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < m->view.servers.n && m->view.servers.p[low].id == id ? low : -1;
}

/* Finds out which servers may get ranges, and how many each is wanted for. */
static void count_rooms(const mr_psm *m, rooms *r)
{
    for (int i = 0; i < m->view.servers.n; i++)
        r->open[i] = !m->view.servers.p[i].leaving;
    for (int i = 0, at; i < m->full.n; i++)
        if ((at = server_index(m, m->full.p[i].id)) >= 0)
            r->open[at] = false;
    for (int i = 0, at; i < m->o.num_ranges * m->n_wanted; i++)
        if ((at = server_index(m, m->wanted[i])) >= 0)
            r->places[at]++;
}

/* Present members come first, the one that catches up last of them, because less has to be copied.
 * Then the server that is wanted for the fewest places. -1: none. */
static int find_stand_in(const mr_psm *m, int range, const rooms *r)
{
    const mr_ps_range *s = &m->view.ranges.p[range];
    int best = -1;
    for (int i = 0; i <= s->n; i++) {
        uint64_t id = i < s->n ? s->chain[i].id : s->catching.id;
        int at = server_index(m, id);
        if (at >= 0 && !m->view.servers.p[at].leaving && !mr_psm_is_wanted(m, range, id))
            return at;
    }
    for (int i = 0; i < m->view.servers.n; i++)
        if (r->open[i] && (best < 0 || r->places[i] < r->places[best]) &&
            !mr_psm_is_wanted(m, range, m->view.servers.p[i].id))
            best = i;
    return best;
}

/* Whether the server is a member of the chain, or catches up with it. */
static bool has_or_gets(const mr_ps_range *s, uint64_t id)
{
    return mr_ps_range_index(s, id) >= 0 || s->catching.id == id;
}

/* A full server stays where it already is, and is replaced elsewhere. Places that no server can take
 * become 0, at the end of the row. */
static void replace_full_servers(mr_psm *m, int range, rooms *r)
{
    uint64_t *row = m->wanted + (size_t)range * (size_t)m->n_wanted;
    int n = 0;
    MR_ASSERT(!m->view.ranges.p[range].lost);
    for (int i = 0; i < m->n_wanted; i++) {
        int at = server_index(m, row[i]);
        if (at < 0 || r->open[at] || has_or_gets(&m->view.ranges.p[range], row[i]))
            continue;
        r->places[at]--;
        row[i] = 0;
        at = find_stand_in(m, range, r);
        if (at >= 0) {
            r->places[at]++;
            row[i] = m->view.servers.p[at].id;
        }
    }
    for (int i = 0; i < m->n_wanted; i++)
        if (row[i] != 0)
            row[n++] = row[i];
    while (n < m->n_wanted)
        row[n++] = 0;
}

/* false: no memory. */
static bool replace_all_full(mr_psm *m)
{
    rooms r = {mr_try_calloc((size_t)m->view.servers.n + 1, sizeof *r.open),
               mr_try_calloc((size_t)m->view.servers.n + 1, sizeof *r.places)};
    bool ok = r.open && r.places;
    if (ok)
        count_rooms(m, &r);
    for (int range = 0; ok && range < m->view.ranges.n; range++)
        if (!m->view.ranges.p[range].lost)
            replace_full_servers(m, range, &r);
    mr_free(r.open);
    mr_free(r.places);
    return ok;
}

/* Asks the ring again if servers, or full ones, have changed. Without memory the old answer stays,
 * and nothing moves: it may name servers that are gone. */
bool mr_psm_find_wanted(mr_psm *m, mr_psm_actions *out)
{
    if (!m->stale)
        return true;
    if (mr_psm_n_active(m) == 0 && m->view.servers.n > 0)
        keep_all(m, out);
    int n = 0, n_wanted = MR_MIN(m->o.replicas, mr_psm_n_active(m));
    if (n_wanted == 0)
        return false;
    uint64_t *ids = mr_try_calloc((size_t)m->view.servers.n, sizeof *ids);
    for (int i = 0; ids && i < m->view.servers.n; i++)
        if (!m->view.servers.p[i].leaving)
            ids[n++] = m->view.servers.p[i].id;
    mr_status *st = ids ? mr_ps_ring_deal(ids, n, m->o.num_ranges, n_wanted, m->view.ranges.p, m->wanted) : NULL;
    m->stale = !ids || st;
    m->n_wanted = n_wanted;
    if (!m->stale && m->full.n > 0)
        m->stale = !replace_all_full(m);
    mr_status_free(st);
    mr_free(ids);
    return !m->stale;
}

/* Gives up a move whose aim has changed; what was copied is thrown away. */
static void give_up(mr_psm *m, int range)
{
    mr_ps_range *s = &m->view.ranges.p[range];
    uint64_t head = mr_psm_wanted(m, range)[0];
    if (s->draining && (head == s->chain[0].id || mr_ps_range_index(s, head) < 0)) {
        s->draining = false;
        mr_psm_touch(m, s);
    }
    if (s->catching.id && !mr_psm_is_wanted(m, range, s->catching.id)) {
        s->catching = (mr_ps_member){0};
        mr_psm_touch(m, s);
    }
}

/* Drops surplus members, but never the head: it must drain first. */
static void drop_surplus(mr_psm *m, int range)
{
    mr_ps_range *s = &m->view.ranges.p[range];
    int n = n_wanted_of(m, range);
    for (int i = s->n - 1; i > 0 && n > 0 && s->n > n; i--)
        if (!mr_psm_is_wanted(m, range, s->chain[i].id)) {
            mr_psm_remove_at(s, i);
            mr_psm_touch(m, s);
        }
}

/* The next step of a range at rest: add a missing member, or drain to change the head. false:
 * nothing to do. */
static bool move_range(mr_psm *m, int range)
{
    mr_ps_range *s = &m->view.ranges.p[range];
    uint64_t id = missing_server(m, range);
    MR_ASSERT(!s->lost && !in_motion(s));
    if (id && s->n < MR_PS_MAX_CHAIN)
        s->catching = (mr_ps_member){id, mr_psm_next_epoch(m)};
    else if (!id && n_wanted_of(m, range) > 0 && s->chain[0].id != mr_psm_wanted(m, range)[0])
        s->draining = true;
    else
        return false;
    mr_psm_touch(m, s);
    return true;
}

/* Starts moves up to max_motion. Ranges that lack a copy come first. */
static void move_some(mr_psm *m)
{
    int room = m->o.max_motion - mr_psm_in_motion(m);
    for (int pass = 0; pass < 2; pass++)
        for (int range = 0; range < m->view.ranges.n && room > 0; range++) {
            const mr_ps_range *s = &m->view.ranges.p[range];
            if (!s->lost && !in_motion(s) && (pass == 1 || s->n < m->n_wanted))
                room -= move_range(m, range);
        }
}

bool mr_psm_holds(const mr_psm *m, uint64_t id)
{
    for (int i = 0; i < m->view.ranges.n; i++)
        if (mr_ps_range_index(&m->view.ranges.p[i], id) >= 0 || m->view.ranges.p[i].catching.id == id)
            return true;
    return false;
}

/* Removes servers that leave and hold nothing. They are told after the view without them is out. */
static void let_go(mr_psm *m, mr_psm_actions *gone)
{
    for (int i = m->view.servers.n - 1; i >= 0; i--) {
        mr_ps_peer peer = m->view.servers.p[i];
        if (!peer.leaving || mr_psm_holds(m, peer.id))
            continue;
        mr_psm_remove_here(m, peer.id);
        memmove(m->view.servers.p + i, m->view.servers.p + i + 1,
                sizeof *m->view.servers.p * (size_t)(m->view.servers.n - 1 - i));
        m->view.servers.n--;
        m->changed = true;
        mr_psm_act(gone, MR_PSM_LET_GO, peer.id, -1);
    }
}

/* One view for everything that the event changed. */
static void publish_view(mr_psm *m, mr_psm_actions *out)
{
    if (!m->changed)
        return;
    m->changed = false;
    m->view.epoch = m->epoch = mr_psm_next_epoch(m);
    mr_psm_act(out, MR_PSM_PUBLISH, 0, -1);
}

/* Carries the epoch, because the server may have been added again in a newer view when it reads this. */
void mr_psm_say_let_go(mr_psm *m, uint64_t server, mr_psm_actions *out)
{
    mr_psm_act(out, MR_PSM_LET_GO, server, -1);
    mr_vec_last(out).epoch = m->view.epoch;
}

/* A server that wants to leave must stay if it holds a range for which no other server has memory. */
static void keep_some(mr_psm *m, mr_psm_actions *out)
{
    for (int range = 0; range < m->view.ranges.n && m->full.n > 0; range++) {
        const mr_ps_range *s = &m->view.ranges.p[range];
        for (int i = 0; i < m->view.servers.n && !s->lost && n_wanted_of(m, range) == 0; i++) {
            mr_ps_peer *peer = &m->view.servers.p[i];
            if (!peer->leaving || mr_ps_range_index(s, peer->id) < 0)
                continue;
            peer->leaving = false;
            m->stale = m->changed = true;
            mr_psm_act(out, MR_PSM_KEEP, peer->id, -1);
        }
    }
}

/* Servers that must stay after all count as active, so the ring is asked again. */
static bool find_aims(mr_psm *m, mr_psm_actions *out)
{
    if (!mr_psm_find_wanted(m, out))
        return false;
    keep_some(m, out);
    return mr_psm_find_wanted(m, out);
}

/* Without an answer of the ring nothing moves, but changes that were made are published. */
void mr_psm_plan(mr_psm *m, mr_psm_actions *out)
{
    if (!m->dealt)
        return;
    mr_psm_actions gone = {0};
    if (find_aims(m, out)) {
        for (int range = 0; range < m->view.ranges.n; range++)
            if (!m->view.ranges.p[range].lost) {
                give_up(m, range);
                drop_surplus(m, range);
            }
        move_some(m);
        let_go(m, &gone);
    }
    publish_view(m, out);
    for (int i = 0; i < gone.n; i++)
        mr_psm_say_let_go(m, gone.p[i].id, out);
    mr_vec_deinit(&gone);
}

/* Lost ranges do not count: nothing can be done about them. */
bool mr_psm_quiet(const mr_psm *m)
{
    if (!m->dealt || m->stale)
        return false;
    for (int range = 0; range < m->view.ranges.n; range++) {
        const mr_ps_range *s = &m->view.ranges.p[range];
        if (s->lost)
            continue;
        if (in_motion(s) || s->n != m->n_wanted || s->chain[0].id != mr_psm_wanted(m, range)[0] ||
            missing_server(m, range))
            return false;
    }
    return true;
}
