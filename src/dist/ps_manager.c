/* dist/ps_manager.c -- the manager's decisions: what an event changes.
 *
 * An event changes which servers are present, or ends a move. Then mr_psm_plan looks at every range:
 * is a member missing, is one surplus, is the head another than the ring wants?
 *
 * Invariants once ranges are assigned (`dealt`): the servers of the view are exactly those in
 * `here`, in rising order; every range has at least one member; a range that changes gets the epoch
 * of the next view. */
#include "dist/ps_manager_internal.h"

#include <string.h>

enum { DEFAULT_MOTION = 16 };
#define AGAIN_NS INT64_C(30000000000)
#define MAX_EPOCH (UINT64_MAX / 2) /* higher epochs of peers are not believed: later ones must be possible */
#define PAUSE_NS INT64_C(1000000000) /* between two ticks if there is nothing to wait for */

/* Starts without a view: ranges are assigned once enough servers have joined and settle_ns has passed. After an error
 * only mr_psm_deinit may be called. */
mr_status *mr_psm_init(mr_psm *m, const mr_psm_options *o, int64_t now_ns)
{
    *m = (mr_psm){.o = *o, .start_ns = now_ns, .epoch = o->stamp};
    if (o->num_ranges < 1 || o->num_ranges > MR_PS_MAX_RANGES || o->replicas < 1 || o->replicas > MR_PS_MAX_REPLICAS)
        return mr_invalid("num_ranges is %d, expected 1 to %d; replicas is %d, expected 1 to %d", o->num_ranges,
                          MR_PS_MAX_RANGES, o->replicas, MR_PS_MAX_REPLICAS);
    if (o->servers < 0 || o->servers > MR_PS_MAX_SERVERS || o->max_motion < 0 || o->settle_ns < 0)
        return mr_invalid("servers is %d, expected 0 to %d; max_motion is %d, expected 0 or more", o->servers,
                          MR_PS_MAX_SERVERS, o->max_motion);
    m->o.max_motion = o->max_motion > 0 ? o->max_motion : DEFAULT_MOTION;
    m->o.again_ns = o->again_ns > 0 ? o->again_ns : AGAIN_NS;
    m->o.patience_ns = MR_MAX(o->patience_ns, o->settle_ns);
    m->wanted = mr_new_array(uint64_t, o->num_ranges * MR_PS_MAX_REPLICAS); /* bounded: 3.5 MB at most */
    return NULL;
}

void mr_psm_deinit(mr_psm *m)
{
    mr_ps_view_deinit(&m->view);
    mr_vec_deinit(&m->here);
    mr_vec_deinit(&m->workers);
    mr_vec_deinit(&m->full);
    mr_free(m->wanted);
    m->wanted = NULL;
}

/* ---- present servers ---- */

/* Where the id is in `here`, or where it would be inserted. */
static int here_index(const mr_psm *m, uint64_t id)
{
    int i = 0;
    while (i < m->here.n && m->here.p[i] < id)
        i++;
    return i;
}

static bool is_here(const mr_psm *m, uint64_t id)
{
    int i = here_index(m, id);
    return i < m->here.n && m->here.p[i] == id;
}

/* Keeps `here` sorted; a server that is present already is not added twice. */
static void add_here(mr_psm *m, uint64_t id)
{
    if (is_here(m, id))
        return;
    int at = here_index(m, id);
    mr_vec_push(&m->here, id);
    memmove(m->here.p + at + 1, m->here.p + at, sizeof *m->here.p * (size_t)(m->here.n - 1 - at));
    m->here.p[at] = id;
}

void mr_psm_remove_here(mr_psm *m, uint64_t id)
{
    int at = here_index(m, id);
    if (at == m->here.n || m->here.p[at] != id)
        return;
    memmove(m->here.p + at, m->here.p + at + 1, sizeof *m->here.p * (size_t)(m->here.n - 1 - at));
    m->here.n--;
}

/* The server's entry in the view; NULL: the view does not name it. */
static mr_ps_peer *peer_of(mr_psm *m, uint64_t id)
{
    for (int i = 0; i < m->view.servers.n; i++)
        if (m->view.servers.p[i].id == id)
            return &m->view.servers.p[i];
    return NULL;
}

/* Makes the servers of the view those that are present; they keep their `leaving`. */
static void list_servers(mr_psm *m)
{
    MR_ASSERT(m->dealt);
    mr_ps_view old = {0};
    mr_ps_view_copy(&old, &m->view);
    m->view.servers.n = 0;
    for (int i = 0; i < m->here.n; i++) {
        mr_ps_peer peer = {m->here.p[i], false};
        for (int k = 0; k < old.servers.n; k++)
            if (old.servers.p[k].id == peer.id)
                peer.leaving = old.servers.p[k].leaving;
        mr_vec_push(&m->view.servers, peer);
    }
    mr_ps_view_deinit(&old);
    m->stale = m->changed = true;
}

int mr_psm_lost_ranges(const mr_psm *m)
{
    int n = 0;
    for (int i = 0; i < m->view.ranges.n; i++)
        n += m->view.ranges.p[i].lost;
    return n;
}

/* ---- changes to a chain ---- */

/* A lost server leaves a range. The last member stays in the chain, by name: if it comes back after
 * all, nothing is lost. */
static void drop_lost(mr_psm *m, int range, uint64_t id, mr_psm_actions *out)
{
    mr_ps_range *s = &m->view.ranges.p[range];
    int i = mr_ps_range_index(s, id);
    if (s->lost || (i < 0 && s->catching.id != id))
        return;
    mr_psm_touch(m, s);
    if (s->catching.id == id)
        s->catching = (mr_ps_member){0};
    if (i < 0)
        return;
    if (i == 0 || s->n == 1)
        s->draining = false;
    if (s->n > 1) {
        mr_psm_remove_at(s, i);
    } else {
        s->lost = true;
        s->catching = (mr_ps_member){0};
        mr_psm_act(out, MR_PSM_LOST_RANGE, id, range);
    }
}

/* A server that was taken for lost is back, and holds the only copy of some ranges. */
static void revive_ranges(mr_psm *m, uint64_t id)
{
    for (int i = 0; i < m->view.ranges.n; i++) {
        mr_ps_range *s = &m->view.ranges.p[i];
        if (s->lost && s->chain[0].id == id) {
            s->lost = false;
            mr_psm_touch(m, s);
        }
    }
}

/* A new, empty range at the servers that the ring wants for it. No server counts as full at this
 * time. */
static void begin_range(mr_psm *m, int range)
{
    MR_ASSERT(m->n_wanted >= 1 && m->n_wanted <= MR_PS_MAX_CHAIN);
    mr_ps_range *s = &m->view.ranges.p[range];
    *s = (mr_ps_range){.generation = mr_psm_next_epoch(m)};
    for (int i = 0; i < m->n_wanted; i++)
        s->chain[s->n++] = (mr_ps_member){mr_psm_wanted(m, range)[i], mr_psm_next_epoch(m)};
    mr_psm_touch(m, s);
}

/* ---- the start ---- */

/* No server reported a view: all ranges begin empty. Without memory it is tried again later. */
static void deal_fresh(mr_psm *m, mr_psm_actions *out)
{
    MR_ASSERT(!m->dealt && m->here.n > 0);
    m->dealt = true;
    m->view.replicas = m->o.replicas;
    for (int i = 0; i < m->o.num_ranges; i++)
        mr_vec_push(&m->view.ranges, (mr_ps_range){0});
    list_servers(m);
    if (!mr_psm_find_wanted(m, out)) {
        m->dealt = false;
        m->view.ranges.n = m->view.servers.n = 0;
        return;
    }
    for (int i = 0; i < m->o.num_ranges; i++)
        begin_range(m, i);
}

/* Adopts the view of an earlier manager. Servers that are missing count as lost; new ones join. */
static void take_up(mr_psm *m, mr_psm_actions *out)
{
    MR_ASSERT(!m->dealt && m->view.epoch > 0);
    m->dealt = true;
    m->view.replicas = m->o.replicas;
    for (int i = 0; i < m->view.servers.n; i++)
        if (!is_here(m, m->view.servers.p[i].id))
            for (int range = 0; range < m->view.ranges.n; range++)
                drop_lost(m, range, m->view.servers.p[i].id, out);
    for (int i = 0; i < m->here.n; i++)
        revive_ranges(m, m->here.p[i]);
    list_servers(m);
}

/* Decides how to start, once. The first server that reports may be one that was considered lost
 * long ago, whose view names no other server; hence all get time to report. */
static void try_start(mr_psm *m, int64_t now_ns, mr_psm_actions *out)
{
    if (m->dealt || m->here.n == 0 || now_ns - m->start_ns < m->o.settle_ns)
        return;
    bool all = true;
    for (int i = 0; i < m->view.servers.n; i++)
        all &= is_here(m, m->view.servers.p[i].id);
    if (m->view.epoch > 0 && (all || now_ns - m->start_ns >= m->o.patience_ns))
        take_up(m, out);
    else if (m->view.epoch == 0 && m->here.n >= m->o.servers &&
             (!m->remembered || now_ns - m->start_ns >= m->o.patience_ns))
        deal_fresh(m, out);
}

/* ---- servers ---- */

/* The view of a server that joins. */
static mr_status *check_report(const mr_psm *m, const mr_ps_view *has)
{
    MR_TRY(mr_ps_view_check(has));
    if (has->ranges.n != m->o.num_ranges)
        return mr_error(MR_FAILED_PRECONDITION, "a server has a view of %d ranges, but the manager has %d",
                        has->ranges.n, m->o.num_ranges);
    if (has->epoch > MAX_EPOCH)
        return mr_invalid("a server has a view of epoch %llu, which is not possible", (unsigned long long)has->epoch);
    return NULL;
}

/* A reported view counts only until ranges are assigned; after that ours is the view. A server with
 * a newer epoch has another history: a view with a still higher epoch makes it take ours. */
static void hear_report(mr_psm *m, const mr_ps_view *has)
{
    if (!has || has->epoch == 0)
        return;
    m->epoch = MR_MAX(m->epoch, has->epoch);
    if (!m->dealt && has->epoch > m->view.epoch)
        mr_ps_view_copy(&m->view, has);
    m->changed |= m->dealt && has->epoch > m->view.epoch;
}

/* A server that was lost and is back revives the ranges of which it has the only copy. */
mr_status *mr_psm_join(mr_psm *m, uint64_t server, const mr_ps_view *has, int64_t now_ns, mr_psm_actions *out)
{
    if (server == 0)
        return mr_invalid("a server joins without an id");
    if (!is_here(m, server) && m->here.n >= MR_PS_MAX_SERVERS)
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot add a server: there are already %d, the maximum", m->here.n);
    if (has && has->epoch)
        MR_TRY(check_report(m, has));
    hear_report(m, has);
    bool known = is_here(m, server);
    add_here(m, server);
    if (!m->dealt) {
        try_start(m, now_ns, out);
    } else if (known) {
        mr_psm_act(out, MR_PSM_SEND_VIEW, server, -1);
    } else {
        revive_ranges(m, server);
        list_servers(m);
    }
    mr_psm_plan(m, out);
    return NULL;
}

/* Losing the last server that the start waited for may let the manager start. */
void mr_psm_lost(mr_psm *m, uint64_t server, int64_t now_ns, mr_psm_actions *out)
{
    if (!is_here(m, server))
        return;
    mr_psm_remove_here(m, server);
    if (m->dealt) {
        for (int range = 0; range < m->view.ranges.n; range++)
            drop_lost(m, range, server, out);
        list_servers(m);
    }
    try_start(m, now_ns, out);
    mr_psm_plan(m, out);
}

/* A server that is not in the view was let go before, or came before ranges were assigned. If it was
 * considered lost and has the only copy of a range, it must join first. */
static void let_stranger_go(mr_psm *m, uint64_t server, mr_psm_actions *out)
{
    if (mr_psm_holds(m, server)) {
        mr_psm_act(out, MR_PSM_SEND_VIEW, server, -1);
        return;
    }
    mr_psm_remove_here(m, server);
    mr_psm_say_let_go(m, server, out);
}

/* The last server that is not leaving must stay. */
void mr_psm_leave(mr_psm *m, uint64_t server, int64_t now_ns, mr_psm_actions *out)
{
    mr_ps_peer *peer = m->dealt ? peer_of(m, server) : NULL;
    if (!peer) {
        let_stranger_go(m, server, out);
        return;
    }
    if (peer->leaving)
        return;
    if (mr_psm_n_active(m) == 1) {
        mr_psm_act(out, MR_PSM_KEEP, server, -1);
        return;
    }
    peer->leaving = true;
    m->stale = m->changed = true;
    (void)now_ns;
    mr_psm_plan(m, out);
}

/* If a peer has a higher epoch than any of ours, the clock went back between two managers: ours
 * must rise above it, or no peer accepts our views. */
void mr_psm_heard(mr_psm *m, uint64_t id, uint64_t epoch, int64_t now_ns, mr_psm_actions *out)
{
    (void)now_ns;
    if (m->dealt && epoch < m->view.epoch)
        mr_psm_act(out, MR_PSM_SEND_VIEW, id, -1);
    if (epoch <= m->epoch || epoch > MAX_EPOCH)
        return;
    m->epoch = epoch;
    m->changed |= m->dealt;
    mr_psm_plan(m, out);
}

/* ---- ends of moves ---- */

/* The range, if the report is of its present epoch; else NULL, because the range has changed since. */
static mr_ps_range *range_at(mr_psm *m, int range, uint64_t epoch)
{
    if (!m->dealt || range < 0 || range >= m->view.ranges.n || m->view.ranges.p[range].epoch != epoch)
        return NULL;
    return &m->view.ranges.p[range];
}

/* Only the last full member, which feeds the new one, may report it. */
void mr_psm_complete(mr_psm *m, uint64_t by, int range, uint64_t range_epoch, uint64_t member, mr_psm_actions *out)
{
    mr_ps_range *s = range_at(m, range, range_epoch);
    if (!s || member == 0 || s->catching.id != member || s->chain[s->n - 1].id != by || s->n >= MR_PS_MAX_CHAIN)
        return;
    s->chain[s->n++] = s->catching;
    s->catching = (mr_ps_member){0};
    mr_psm_touch(m, s);
    mr_psm_plan(m, out);
}

/* The order that the ring wants, then the other members, which are dropped as far as they are
 * surplus. */
static void reorder_chain(mr_psm *m, int range)
{
    mr_ps_range *s = &m->view.ranges.p[range];
    mr_ps_member old[MR_PS_MAX_CHAIN];
    int n_old = s->n;
    memcpy(old, s->chain, sizeof old);
    s->n = 0;
    for (int i = 0; i < m->n_wanted; i++)
        for (int k = 0; k < n_old; k++)
            if (old[k].id == mr_psm_wanted(m, range)[i])
                s->chain[s->n++] = old[k];
    for (int k = 0; k < n_old; k++)
        if (!mr_psm_is_wanted(m, range, old[k].id))
            s->chain[s->n++] = old[k];
    MR_ASSERT(s->n == n_old);
}

/* All members hold the same now, so the order may change. */
void mr_psm_drained(mr_psm *m, uint64_t by, int range, uint64_t range_epoch, mr_psm_actions *out)
{
    mr_ps_range *s = range_at(m, range, range_epoch);
    if (!s || !s->draining || s->chain[0].id != by || m->stale)
        return;
    s->draining = false;
    MR_ASSERT(s->n >= 1 && !s->lost);
    reorder_chain(m, range);
    mr_psm_touch(m, s);
    mr_psm_plan(m, out);
}

/* The server gets no ranges until then. */
static void take_for_full(mr_psm *m, uint64_t id, int64_t until_ns)
{
    int i = 0;
    while (i < m->full.n && m->full.p[i].id != id)
        i++;
    if (i == m->full.n)
        mr_vec_push(&m->full, (mr_psm_full){.id = id});
    m->full.p[i].until_ns = until_ns;
    m->stale = true;
}

/* What the member holds is a prefix of what the chain holds, as always, so it can be dropped like a
 * lost one. A head cannot decline. */
void mr_psm_declined(mr_psm *m, uint64_t by, int range, uint64_t range_epoch, int64_t now_ns, mr_psm_actions *out)
{
    mr_ps_range *s = range_at(m, range, range_epoch);
    int i = s && !s->lost ? mr_ps_range_index(s, by) : -1;
    if (!s || by == 0 || (i < 1 && s->catching.id != by))
        return;
    if (s->catching.id == by)
        s->catching = (mr_ps_member){0};
    else
        mr_psm_remove_at(s, i);
    take_for_full(m, by, now_ns + m->o.again_ns);
    mr_psm_touch(m, s);
    mr_psm_act(out, MR_PSM_DECLINED, by, range);
    mr_psm_plan(m, out);
}

/* A server that declined is tried again after a while: some of its ranges may have moved away. */
static void forget_full(mr_psm *m, int64_t now_ns)
{
    for (int i = m->full.n - 1; i >= 0; i--)
        if (m->full.p[i].until_ns <= now_ns) {
            mr_vec_remove_swap(&m->full, i);
            m->stale = true;
        }
}

/* Lost ranges have no members while the ring assigns them again. Without memory they stay lost. */
void mr_psm_restore(mr_psm *m, bool all, mr_psm_actions *out)
{
    if (!m->dealt || mr_psm_n_active(m) == 0)
        return;
    MR_VEC(int) born = {0};
    m->stale |= m->full.n > 0; /* an empty range takes no memory */
    m->full.n = 0;
    for (int i = 0; i < m->view.ranges.n; i++) {
        mr_ps_range *s = &m->view.ranges.p[i];
        if (s->lost) {
            s->lost = false;
            s->n = 0; /* no members: the ring assigns it again */
            mr_vec_push(&born, i);
        } else if (all) {
            s->generation = mr_psm_next_epoch(m);
            s->draining = false;
            s->catching = (mr_ps_member){0};
            mr_psm_touch(m, s);
        }
    }
    m->stale |= born.n > 0;
    bool dealt = mr_psm_find_wanted(m, out);
    for (int i = 0; i < born.n; i++) {
        mr_ps_range *s = &m->view.ranges.p[born.p[i]];
        s->n = 1;
        s->lost = true; /* stays so without memory */
        if (dealt)
            begin_range(m, born.p[i]);
    }
    mr_vec_deinit(&born);
    mr_psm_plan(m, out);
}

/* ---- workers ---- */

static int worker_index(const mr_psm *m, uint64_t id)
{
    for (int i = 0; i < m->workers.n; i++)
        if (m->workers.p[i] == id)
            return i;
    return -1;
}

/* A worker that joins again, after it lost its connection, only gets the view. */
void mr_psm_worker_join(mr_psm *m, uint64_t worker, mr_psm_actions *out)
{
    if (worker_index(m, worker) < 0) {
        mr_vec_push(&m->workers, worker);
        mr_psm_act(out, MR_PSM_WORKERS, worker, -1);
    }
    if (m->dealt)
        mr_psm_act(out, MR_PSM_SEND_VIEW, worker, -1);
}

void mr_psm_remember(mr_psm *m) { m->remembered = true; }

/* Its pushes cannot come any more, so servers may drop its clocks. */
void mr_psm_worker_leave(mr_psm *m, uint64_t worker, mr_psm_actions *out)
{
    int i = worker_index(m, worker);
    if (i < 0)
        return;
    mr_vec_remove_swap(&m->workers, i);
    mr_psm_act(out, MR_PSM_FORGET_CLIENT, worker, -1);
    mr_psm_act(out, MR_PSM_WORKERS, worker, -1);
}

/* ---- time ---- */

/* While ranges are not assigned, the next tick is at the end of settling or of patience. */
int64_t mr_psm_tick(mr_psm *m, int64_t now_ns, mr_psm_actions *out)
{
    try_start(m, now_ns, out);
    forget_full(m, now_ns);
    mr_psm_plan(m, out);
    int64_t waits[] = {m->start_ns + m->o.settle_ns, m->start_ns + m->o.patience_ns};
    for (int i = 0; !m->dealt && i < MR_COUNT(waits); i++)
        if (waits[i] > now_ns)
            return waits[i];
    return now_ns + PAUSE_NS;
}
