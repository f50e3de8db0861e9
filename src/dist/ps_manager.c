/* dist/ps_manager.c -- the manager's decisions.
 *
 * An event changes who is there, or finishes a motion; then plan() looks at every slot: is a member missing, is one
 * too many, is the head another than the ring wants?  One thing at a time happens to a slot, and it is told by the
 * next view.  Whatever an event changes goes out in one view, at its end. */
#include "dist/ps_manager.h"

#include <string.h>

#include "dist/ps_ring.h"

enum { DEFAULT_MOTION = 16 };
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
    m->o.patience_ns = MR_MAX(o->patience_ns, o->settle_ns);
    m->wanted = mr_new_array(uint64_t, o->num_slots * MR_PS_MAX_REPLICAS); /* bounded: 3.5 MB at most */
    return NULL;
}

void mr_psm_deinit(mr_psm *m)
{
    mr_ps_view_deinit(&m->view);
    mr_vec_deinit(&m->here);
    mr_vec_deinit(&m->workers);
    mr_free(m->wanted);
    m->wanted = NULL;
}

/* ---- small helpers ---- */

static void act(mr_psm_actions *out, mr_psm_do what, uint64_t id, int slot)
{
    mr_vec_push(out, (mr_psm_action){.what = what, .id = id, .slot = slot});
}

static uint64_t next_epoch(const mr_psm *m) { return m->epoch + 1; }

/* The slot changes with the next view. */
static void touch(mr_psm *m, mr_ps_slot *s)
{
    s->epoch = next_epoch(m);
    m->changed = true;
}

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

static void remove_here(mr_psm *m, uint64_t id)
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

static bool in_motion(const mr_ps_slot *s) { return s->draining || s->catching.id != 0; }

int mr_psm_in_motion(const mr_psm *m)
{
    int n = 0;
    for (int i = 0; i < m->view.slots.n; i++)
        n += in_motion(&m->view.slots.p[i]);
    return n;
}

int mr_psm_lost_slots(const mr_psm *m)
{
    int n = 0;
    for (int i = 0; i < m->view.slots.n; i++)
        n += m->view.slots.p[i].lost;
    return n;
}

static int n_active(const mr_psm *m)
{
    int n = 0;
    for (int i = 0; i < m->view.servers.n; i++)
        n += !m->view.servers.p[i].leaving;
    return n;
}

/* ---- changes to a chain ---- */

static void remove_at(mr_ps_slot *s, int i)
{
    memmove(s->chain + i, s->chain + i + 1, sizeof *s->chain * (size_t)(s->n - 1 - i));
    s->n--;
}

/* A lost server leaves a slot.  The last one stays in the chain, by name: if it comes back after all, nothing is lost.
 */
static void drop_lost(mr_psm *m, int slot, uint64_t id, mr_psm_actions *out)
{
    mr_ps_slot *s = &m->view.slots.p[slot];
    int i = mr_ps_slot_index(s, id);
    if (s->lost || (i < 0 && s->catching.id != id))
        return;
    touch(m, s);
    if (s->catching.id == id)
        s->catching = (mr_ps_member){0};
    if (i < 0)
        return;
    if (i == 0 || s->n == 1)
        s->draining = false;
    if (s->n > 1) {
        remove_at(s, i);
    } else {
        s->lost = true;
        s->catching = (mr_ps_member){0};
        act(out, MR_PSM_LOST_SLOT, id, slot);
    }
}

static void revive(mr_psm *m, uint64_t id)
{
    for (int i = 0; i < m->view.slots.n; i++) {
        mr_ps_slot *s = &m->view.slots.p[i];
        if (s->lost && s->chain[0].id == id) {
            s->lost = false;
            touch(m, s);
        }
    }
}

/* An empty slot at the servers that the ring wants for it. */
static void give_birth(mr_psm *m, int slot)
{
    mr_ps_slot *s = &m->view.slots.p[slot];
    *s = (mr_ps_slot){.generation = next_epoch(m), .n = m->n_wanted};
    for (int i = 0; i < m->n_wanted; i++)
        s->chain[i] = (mr_ps_member){m->wanted[slot * m->n_wanted + i], next_epoch(m)};
    touch(m, s);
}

/* ---- the plan ---- */

static const uint64_t *wanted_of(const mr_psm *m, int slot) { return m->wanted + (size_t)slot * (size_t)m->n_wanted; }

static bool is_wanted(const mr_psm *m, int slot, uint64_t id)
{
    for (int i = 0; i < m->n_wanted; i++)
        if (wanted_of(m, slot)[i] == id)
            return true;
    return false;
}

/* The first server that should be in the chain and is not; 0: none. */
static uint64_t missing(const mr_psm *m, int slot)
{
    for (int i = 0; i < m->n_wanted; i++)
        if (mr_ps_slot_index(&m->view.slots.p[slot], wanted_of(m, slot)[i]) < 0)
            return wanted_of(m, slot)[i];
    return 0;
}

/* Everybody wants to leave, and those who should have taken over are lost: nobody leaves. */
static void keep_all(mr_psm *m, mr_psm_actions *out)
{
    for (int i = 0; i < m->view.servers.n; i++) {
        m->view.servers.p[i].leaving = false;
        act(out, MR_PSM_KEEP, m->view.servers.p[i].id, -1);
    }
    m->changed = true;
}

/* Asks the ring anew.  Without memory the old answer stands for now: it names servers that may be gone, so nothing
 * moves. */
static bool find_wanted(mr_psm *m, mr_psm_actions *out)
{
    if (!m->stale)
        return true;
    if (n_active(m) == 0 && m->view.servers.n > 0)
        keep_all(m, out);
    int n = 0, n_wanted = MR_MIN(m->o.replicas, n_active(m));
    if (n_wanted == 0)
        return false;
    uint64_t *ids = mr_try_calloc((size_t)m->view.servers.n, sizeof *ids);
    for (int i = 0; ids && i < m->view.servers.n; i++)
        if (!m->view.servers.p[i].leaving)
            ids[n++] = m->view.servers.p[i].id;
    mr_status *st = ids ? mr_ps_ring_deal(ids, n, m->o.num_slots, n_wanted, m->view.slots.p, m->wanted) : NULL;
    m->stale = !ids || st;
    m->n_wanted = n_wanted;
    mr_status_free(st);
    mr_free(ids);
    return !m->stale;
}

/* A motion whose aim has changed is given up; what was copied is thrown away. */
static void give_up(mr_psm *m, int slot)
{
    mr_ps_slot *s = &m->view.slots.p[slot];
    uint64_t head = wanted_of(m, slot)[0];
    if (s->draining && (head == s->chain[0].id || mr_ps_slot_index(s, head) < 0)) {
        s->draining = false;
        touch(m, s);
    }
    if (s->catching.id && !is_wanted(m, slot, s->catching.id)) {
        s->catching = (mr_ps_member){0};
        touch(m, s);
    }
}

/* Members that are too many, but never the head: it has to drain first. */
static void drop_surplus(mr_psm *m, int slot)
{
    mr_ps_slot *s = &m->view.slots.p[slot];
    for (int i = s->n - 1; i > 0 && s->n > m->n_wanted; i--)
        if (!is_wanted(m, slot, s->chain[i].id)) {
            remove_at(s, i);
            touch(m, s);
        }
}

/* The next thing for a slot that is at rest; false: there is nothing to do. */
static bool move(mr_psm *m, int slot)
{
    mr_ps_slot *s = &m->view.slots.p[slot];
    uint64_t id = missing(m, slot);
    if (id && s->n < MR_PS_MAX_CHAIN)
        s->catching = (mr_ps_member){id, next_epoch(m)};
    else if (!id && s->chain[0].id != wanted_of(m, slot)[0])
        s->draining = true;
    else
        return false;
    touch(m, s);
    return true;
}

/* Slots that lack a copy come first. */
static void move_some(mr_psm *m)
{
    int room = m->o.max_motion - mr_psm_in_motion(m);
    for (int pass = 0; pass < 2; pass++)
        for (int slot = 0; slot < m->view.slots.n && room > 0; slot++) {
            const mr_ps_slot *s = &m->view.slots.p[slot];
            if (!s->lost && !in_motion(s) && (pass == 1 || s->n < m->n_wanted))
                room -= move(m, slot);
        }
}

static bool holds_something(const mr_psm *m, uint64_t id)
{
    for (int i = 0; i < m->view.slots.n; i++)
        if (mr_ps_slot_index(&m->view.slots.p[i], id) >= 0 || m->view.slots.p[i].catching.id == id)
            return true;
    return false;
}

/* Those that leave and hold nothing; they are told after the view without them. */
static void let_go(mr_psm *m, mr_psm_actions *gone)
{
    for (int i = m->view.servers.n - 1; i >= 0; i--) {
        mr_ps_peer peer = m->view.servers.p[i];
        if (!peer.leaving || holds_something(m, peer.id))
            continue;
        remove_here(m, peer.id);
        memmove(m->view.servers.p + i, m->view.servers.p + i + 1,
                sizeof *m->view.servers.p * (size_t)(m->view.servers.n - 1 - i));
        m->view.servers.n--;
        m->changed = true;
        act(gone, MR_PSM_LET_GO, peer.id, -1);
    }
}

static void publish(mr_psm *m, mr_psm_actions *out)
{
    if (!m->changed)
        return;
    m->changed = false;
    m->view.epoch = m->epoch = next_epoch(m);
    act(out, MR_PSM_PUBLISH, 0, -1);
}

static void say_let_go(mr_psm *m, uint64_t server, mr_psm_actions *out)
{
    act(out, MR_PSM_LET_GO, server, -1);
    mr_vec_last(out).epoch = m->view.epoch;
}

/* What every event ends with. */
static void plan(mr_psm *m, mr_psm_actions *out)
{
    if (!m->dealt)
        return;
    mr_psm_actions gone = {0};
    if (find_wanted(m, out)) {
        for (int slot = 0; slot < m->view.slots.n; slot++)
            if (!m->view.slots.p[slot].lost) {
                give_up(m, slot);
                drop_surplus(m, slot);
            }
        move_some(m);
        let_go(m, &gone);
    }
    publish(m, out);
    for (int i = 0; i < gone.n; i++)
        say_let_go(m, gone.p[i].id, out);
    mr_vec_deinit(&gone);
}

/* ---- the beginning ---- */

static void deal_fresh(mr_psm *m, mr_psm_actions *out)
{
    m->dealt = true;
    m->view.replicas = m->o.replicas;
    for (int i = 0; i < m->o.num_slots; i++)
        mr_vec_push(&m->view.slots, (mr_ps_slot){0});
    list_servers(m);
    if (!find_wanted(m, out)) { /* no memory: another time */
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
        act(out, MR_PSM_SEND_VIEW, server, -1);
    } else {
        revive(m, server);
        list_servers(m);
    }
    plan(m, out);
    return NULL;
}

void mr_psm_lost(mr_psm *m, uint64_t server, int64_t now_ns, mr_psm_actions *out)
{
    if (!is_here(m, server))
        return;
    remove_here(m, server);
    if (m->dealt) {
        for (int slot = 0; slot < m->view.slots.n; slot++)
            drop_lost(m, slot, server, out);
        list_servers(m);
    }
    begin(m, now_ns, out);
    plan(m, out);
}

/* Not in the view: it was let go before, or came when nothing was dealt out.  Unless it was taken for lost and has the
 * only copy of something: then it has to join first. */
static void let_stranger_go(mr_psm *m, uint64_t server, mr_psm_actions *out)
{
    if (holds_something(m, server)) {
        act(out, MR_PSM_SEND_VIEW, server, -1);
        return;
    }
    remove_here(m, server);
    say_let_go(m, server, out);
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
    if (n_active(m) == 1) {
        act(out, MR_PSM_KEEP, server, -1);
        return;
    }
    peer->leaving = true;
    m->stale = m->changed = true;
    (void)now_ns;
    plan(m, out);
}

void mr_psm_heard(mr_psm *m, uint64_t id, uint64_t epoch, int64_t now_ns, mr_psm_actions *out)
{
    (void)now_ns;
    if (m->dealt && epoch < m->view.epoch)
        act(out, MR_PSM_SEND_VIEW, id, -1);
    if (epoch <= m->epoch || epoch > MAX_EPOCH)
        return;
    m->epoch = epoch; /* the clock went back between two managers: ours must be above what anybody has, or is not taken */
    m->changed |= m->dealt;
    plan(m, out);
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
    touch(m, s);
    plan(m, out);
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
            if (old[k].id == wanted_of(m, slot)[i])
                s->chain[s->n++] = old[k];
    for (int k = 0; k < n_old; k++)
        if (!is_wanted(m, slot, old[k].id))
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
    touch(m, s);
    plan(m, out);
}

void mr_psm_restore(mr_psm *m, bool all, mr_psm_actions *out)
{
    if (!m->dealt || n_active(m) == 0)
        return;
    MR_VEC(int) born = {0};
    for (int i = 0; i < m->view.slots.n; i++) {
        mr_ps_slot *s = &m->view.slots.p[i];
        if (s->lost) {
            s->lost = false;
            s->n = 0; /* nobody's: the ring deals it out anew */
            mr_vec_push(&born, i);
        } else if (all) {
            s->generation = next_epoch(m);
            s->draining = false;
            s->catching = (mr_ps_member){0};
            touch(m, s);
        }
    }
    m->stale |= born.n > 0;
    bool dealt = find_wanted(m, out);
    for (int i = 0; i < born.n; i++) {
        mr_ps_slot *s = &m->view.slots.p[born.p[i]];
        s->n = 1;
        s->lost = true; /* still so, without memory */
        if (dealt)
            give_birth(m, born.p[i]);
    }
    mr_vec_deinit(&born);
    plan(m, out);
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
        act(out, MR_PSM_WORKERS, worker, -1);
    }
    if (m->dealt)
        act(out, MR_PSM_SEND_VIEW, worker, -1);
}

void mr_psm_remember(mr_psm *m) { m->remembered = true; }

void mr_psm_worker_leave(mr_psm *m, uint64_t worker, mr_psm_actions *out)
{
    int i = worker_index(m, worker);
    if (i < 0)
        return;
    mr_vec_remove_swap(&m->workers, i);
    act(out, MR_PSM_FORGET_CLIENT, worker, -1);
    act(out, MR_PSM_WORKERS, worker, -1);
}

/* ---- time ---- */

int64_t mr_psm_tick(mr_psm *m, int64_t now_ns, mr_psm_actions *out)
{
    begin(m, now_ns, out);
    plan(m, out);
    int64_t waits[] = {m->start_ns + m->o.settle_ns, m->start_ns + m->o.patience_ns};
    for (int i = 0; !m->dealt && i < MR_COUNT(waits); i++)
        if (waits[i] > now_ns)
            return waits[i];
    return now_ns + PAUSE_NS;
}

bool mr_psm_quiet(const mr_psm *m)
{
    if (!m->dealt || m->stale)
        return false;
    for (int slot = 0; slot < m->view.slots.n; slot++) {
        const mr_ps_slot *s = &m->view.slots.p[slot];
        if (s->lost)
            continue;
        if (in_motion(s) || s->n != m->n_wanted || s->chain[0].id != wanted_of(m, slot)[0] || missing(m, slot))
            return false;
    }
    return true;
}
