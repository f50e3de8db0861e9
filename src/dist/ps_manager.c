/* dist/ps_manager.c -- the manager's decisions: what an event changes.
 *
 * An event changes who is there, or finishes a motion; then mr_psm_plan looks at every slot: is a member missing, is one
 * too many, is the head another than the ring wants?  Servers of the view are always those that are here, once slots were
 * dealt out. */
#include "dist/ps_manager_internal.h"

#include <string.h>

enum { DEFAULT_MOTION = 16 };
#define AGAIN_NS INT64_C(30000000000)
#define MAX_EPOCH (UINT64_MAX / 2) /* that is believed: there must be higher ones */
#define PAUSE_NS INT64_C(1000000000) /* from tick to tick when there is nothing to wait for */

mr_status *mr_psm_init(mr_psm *m, const mr_psm_options *o, int64_t now_ns)
{
    *m = (mr_psm){.o = *o, .start_ns = now_ns, .epoch = o->stamp};
    if (o->num_slots < 1 || o->num_slots > MR_PS_MAX_SLOTS || o->replicas < 1 || o->replicas > MR_PS_MAX_REPLICAS)
        return mr_invalid("%d slots and %d replicas", o->num_slots, o->replicas);
    if (o->servers < 0 || o->servers > MR_PS_MAX_SERVERS || o->max_motion < 0 || o->settle_ns < 0)
        return mr_invalid("%d servers, %d slots in motion", o->servers, o->max_motion);
    m->o.max_motion = o->max_motion > 0 ? o->max_motion : DEFAULT_MOTION;
    m->o.again_ns = o->again_ns > 0 ? o->again_ns : AGAIN_NS;
    m->o.patience_ns = MR_MAX(o->patience_ns, o->settle_ns);
    m->wanted = mr_new_array(uint64_t, o->num_slots * MR_PS_MAX_REPLICAS); /* bounded: 3.5 MB at most */
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

/* ---- who is here ---- */

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

static mr_ps_peer *peer_of(mr_psm *m, uint64_t id)
{
    for (int i = 0; i < m->view.servers.n; i++)
        if (m->view.servers.p[i].id == id)
            return &m->view.servers.p[i];
    return NULL;
}

/* Servers of the view are always those that are here. */
static void list_servers(mr_psm *m)
{
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

int mr_psm_lost_slots(const mr_psm *m)
{
    int n = 0;
    for (int i = 0; i < m->view.slots.n; i++)
        n += m->view.slots.p[i].lost;
    return n;
}

/* ---- changes to a chain ---- */

/* A lost server leaves a slot.  The last one stays in the chain, by name: if it comes back after all, nothing is lost.
 */
static void drop_lost(mr_psm *m, int slot, uint64_t id, mr_psm_actions *out)
{
    mr_ps_slot *s = &m->view.slots.p[slot];
    int i = mr_ps_slot_index(s, id);
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
        mr_psm_act(out, MR_PSM_LOST_SLOT, id, slot);
    }
}

static void revive(mr_psm *m, uint64_t id)
{
    for (int i = 0; i < m->view.slots.n; i++) {
        mr_ps_slot *s = &m->view.slots.p[i];
        if (s->lost && s->chain[0].id == id) {
            s->lost = false;
            mr_psm_touch(m, s);
        }
    }
}

/* An empty slot at the servers that the ring wants for it. */
static void give_birth(mr_psm *m, int slot)
{
    mr_ps_slot *s = &m->view.slots.p[slot];
    *s = (mr_ps_slot){.generation = mr_psm_next_epoch(m)};
    for (int i = 0; i < m->n_wanted; i++) /* nobody is full then */
        s->chain[s->n++] = (mr_ps_member){mr_psm_wanted(m, slot)[i], mr_psm_next_epoch(m)};
    mr_psm_touch(m, s);
}

/* ---- the beginning ---- */

static void deal_fresh(mr_psm *m, mr_psm_actions *out)
{
    m->dealt = true;
    m->view.replicas = m->o.replicas;
    for (int i = 0; i < m->o.num_slots; i++)
        mr_vec_push(&m->view.slots, (mr_ps_slot){0});
    list_servers(m);
    if (!mr_psm_find_wanted(m, out)) { /* no memory: another time */
        m->dealt = false;
        m->view.slots.n = m->view.servers.n = 0;
        return;
    }
    for (int i = 0; i < m->o.num_slots; i++)
        give_birth(m, i);
}

/* The view of an earlier manager is in force again; who is missing is lost, who is new joins. */
static void take_up(mr_psm *m, mr_psm_actions *out)
{
    m->dealt = true;
    m->view.replicas = m->o.replicas;
    for (int i = 0; i < m->view.servers.n; i++)
        if (!is_here(m, m->view.servers.p[i].id))
            for (int slot = 0; slot < m->view.slots.n; slot++)
                drop_lost(m, slot, m->view.servers.p[i].id, out);
    for (int i = 0; i < m->here.n; i++)
        revive(m, m->here.p[i]);
    list_servers(m);
}

/* The first to report may be one that was taken for lost long ago, whose view names nobody else: all get time to
 * speak. */
static void begin(mr_psm *m, int64_t now_ns, mr_psm_actions *out)
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

static mr_status *check_report(const mr_psm *m, const mr_ps_view *has)
{
    MR_TRY(mr_ps_view_check(has));
    if (has->slots.n != m->o.num_slots)
        return mr_error(MR_FAILED_PRECONDITION, "a server has a view of %d slots, the manager cuts into %d", has->slots.n,
                        m->o.num_slots);
    if (has->epoch > MAX_EPOCH)
        return mr_invalid("there is no epoch %llu", (unsigned long long)has->epoch);
    return NULL;
}

/* Its word counts only until slots were dealt out: then ours is the view. */
static void hear_report(mr_psm *m, const mr_ps_view *has)
{
    if (!has || has->epoch == 0)
        return;
    m->epoch = MR_MAX(m->epoch, has->epoch);
    if (!m->dealt && has->epoch > m->view.epoch)
        mr_ps_view_copy(&m->view, has);
    m->changed |= m->dealt && has->epoch > m->view.epoch; /* of another history: it shall take ours */
}

mr_status *mr_psm_join(mr_psm *m, uint64_t server, const mr_ps_view *has, int64_t now_ns, mr_psm_actions *out)
{
    if (server == 0)
        return mr_invalid("a server without an id");
    if (!is_here(m, server) && m->here.n >= MR_PS_MAX_SERVERS)
        return mr_error(MR_RESOURCE_EXHAUSTED, "there are %d servers already", m->here.n);
    if (has && has->epoch)
        MR_TRY(check_report(m, has));
    hear_report(m, has);
    bool known = is_here(m, server);
    add_here(m, server);
    if (!m->dealt) {
        begin(m, now_ns, out);
    } else if (known) {
        mr_psm_act(out, MR_PSM_SEND_VIEW, server, -1);
    } else {
        revive(m, server);
        list_servers(m);
    }
    mr_psm_plan(m, out);
    return NULL;
}

void mr_psm_lost(mr_psm *m, uint64_t server, int64_t now_ns, mr_psm_actions *out)
{
    if (!is_here(m, server))
        return;
    mr_psm_remove_here(m, server);
    if (m->dealt) {
        for (int slot = 0; slot < m->view.slots.n; slot++)
            drop_lost(m, slot, server, out);
        list_servers(m);
    }
    begin(m, now_ns, out);
    mr_psm_plan(m, out);
}

/* Not in the view: it was let go before, or came when nothing was dealt out.  Unless it was taken for lost and has the
 * only copy of something: then it has to join first. */
static void let_stranger_go(mr_psm *m, uint64_t server, mr_psm_actions *out)
{
    if (mr_psm_holds(m, server)) {
        mr_psm_act(out, MR_PSM_SEND_VIEW, server, -1);
        return;
    }
    mr_psm_remove_here(m, server);
    mr_psm_say_let_go(m, server, out);
}

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

void mr_psm_heard(mr_psm *m, uint64_t id, uint64_t epoch, int64_t now_ns, mr_psm_actions *out)
{
    (void)now_ns;
    if (m->dealt && epoch < m->view.epoch)
        mr_psm_act(out, MR_PSM_SEND_VIEW, id, -1);
    if (epoch <= m->epoch || epoch > MAX_EPOCH)
        return;
    m->epoch = epoch; /* the clock went back between two managers: ours must be above what anybody has, or is not taken */
    m->changed |= m->dealt;
    mr_psm_plan(m, out);
}

/* ---- motions end ---- */

static mr_ps_slot *slot_at(mr_psm *m, int slot, uint64_t epoch)
{
    if (!m->dealt || slot < 0 || slot >= m->view.slots.n || m->view.slots.p[slot].epoch != epoch)
        return NULL;
    return &m->view.slots.p[slot];
}

void mr_psm_complete(mr_psm *m, uint64_t by, int slot, uint64_t slot_epoch, uint64_t member, mr_psm_actions *out)
{
    mr_ps_slot *s = slot_at(m, slot, slot_epoch);
    if (!s || member == 0 || s->catching.id != member || s->chain[s->n - 1].id != by || s->n >= MR_PS_MAX_CHAIN)
        return;
    s->chain[s->n++] = s->catching;
    s->catching = (mr_ps_member){0};
    mr_psm_touch(m, s);
    mr_psm_plan(m, out);
}

/* The order that the ring wants, then the others; they are surplus, and dropped as far as they are too many. */
static void reorder(mr_psm *m, int slot)
{
    mr_ps_slot *s = &m->view.slots.p[slot];
    mr_ps_member old[MR_PS_MAX_CHAIN];
    int n_old = s->n;
    memcpy(old, s->chain, sizeof old);
    s->n = 0;
    for (int i = 0; i < m->n_wanted; i++)
        for (int k = 0; k < n_old; k++)
            if (old[k].id == mr_psm_wanted(m, slot)[i])
                s->chain[s->n++] = old[k];
    for (int k = 0; k < n_old; k++)
        if (!mr_psm_is_wanted(m, slot, old[k].id))
            s->chain[s->n++] = old[k];
    MR_ASSERT(s->n == n_old);
}

void mr_psm_drained(mr_psm *m, uint64_t by, int slot, uint64_t slot_epoch, mr_psm_actions *out)
{
    mr_ps_slot *s = slot_at(m, slot, slot_epoch);
    if (!s || !s->draining || s->chain[0].id != by || m->stale)
        return;
    s->draining = false;
    reorder(m, slot);
    mr_psm_touch(m, s);
    mr_psm_plan(m, out);
}

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

/* What it has is the beginning of what the chain has, as always: so it can go like one that is lost. */
void mr_psm_declined(mr_psm *m, uint64_t by, int slot, uint64_t slot_epoch, int64_t now_ns, mr_psm_actions *out)
{
    mr_ps_slot *s = slot_at(m, slot, slot_epoch);
    int i = s && !s->lost ? mr_ps_slot_index(s, by) : -1;
    if (!s || by == 0 || (i < 1 && s->catching.id != by))
        return;
    if (s->catching.id == by)
        s->catching = (mr_ps_member){0};
    else
        mr_psm_remove_at(s, i);
    take_for_full(m, by, now_ns + m->o.again_ns);
    mr_psm_touch(m, s);
    mr_psm_act(out, MR_PSM_DECLINED, by, slot);
    mr_psm_plan(m, out);
}

/* Who declined is asked again after a while: others may have taken something off it. */
static void forget_full(mr_psm *m, int64_t now_ns)
{
    for (int i = m->full.n - 1; i >= 0; i--)
        if (m->full.p[i].until_ns <= now_ns) {
            mr_vec_remove_swap(&m->full, i);
            m->stale = true;
        }
}

void mr_psm_restore(mr_psm *m, bool all, mr_psm_actions *out)
{
    if (!m->dealt || mr_psm_n_active(m) == 0)
        return;
    MR_VEC(int) born = {0};
    m->stale |= m->full.n > 0; /* what begins anew takes no memory yet */
    m->full.n = 0;
    for (int i = 0; i < m->view.slots.n; i++) {
        mr_ps_slot *s = &m->view.slots.p[i];
        if (s->lost) {
            s->lost = false;
            s->n = 0; /* nobody's: the ring deals it out anew */
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
        mr_ps_slot *s = &m->view.slots.p[born.p[i]];
        s->n = 1;
        s->lost = true; /* still so, without memory */
        if (dealt)
            give_birth(m, born.p[i]);
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

int64_t mr_psm_tick(mr_psm *m, int64_t now_ns, mr_psm_actions *out)
{
    begin(m, now_ns, out);
    forget_full(m, now_ns);
    mr_psm_plan(m, out);
    int64_t waits[] = {m->start_ns + m->o.settle_ns, m->start_ns + m->o.patience_ns};
    for (int i = 0; !m->dealt && i < MR_COUNT(waits); i++)
        if (waits[i] > now_ns)
            return waits[i];
    return now_ns + PAUSE_NS;
}
