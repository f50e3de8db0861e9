/* sim/ps/faults.c -- the faults of a run, and their end.
 *
 * A manager dies only if every server of its last view has that view, one of them survives, and no server is cut off
 * from the successor while it collects reports: without a disk, a manager cannot know of a view that nobody reports. */
#include "sim/ps/world.h"

#define RETRY_NS (40 * MS)

static mr_pss_server *any_server(mr_pss *w)
{
    int n = mr_pss_servers_up(w), k = n ? (int)mr_pss_between(w, 0, n - 1) : -1;
    for (int i = 0; i < w->n_servers; i++)
        if (w->servers[i]->up && k-- == 0)
            return w->servers[i];
    return NULL;
}

/* The number of servers that have the newest view. */
static int n_knowing(const mr_pss *w)
{
    int n = 0;
    for (int i = 0; i < w->n_servers; i++)
        n += w->servers[i]->up && w->servers[i]->view.epoch == w->newest_epoch;
    return n;
}

/* ---- partitions ---- */

typedef struct split {
    int node, first, end;
    int one; /* -1: cut off from all of first .. end */
    bool both;
} split;

static void set_split(mr_pss *w, const split *s, bool on)
{
    for (int i = s->first; i < s->end; i++)
        if (i != s->node && (s->one < 0 || s->one == i)) {
            mr_pss_cut(w, s->node, i, s->both, on);
        }
}

static void end_partition(mr_pss *w, void *arg)
{
    const split *s = arg;
    mr_pss_note(w, s->node, "is reached again", 0, 0, 0, 0);
    set_split(w, s, false);
    if (s->first == MANAGER && mr_pss_chance(w, 700)) /* its connection broke: it joins again without waiting to hear
                                                       * that it was declared lost */
        w->servers[s->node - FIRST_SERVER]->joined = false;
}

/* Cuts a server off from the manager, the servers, the clients or all, or from one of them, for a while. */
static void begin_partition(mr_pss *w)
{
    const mr_pss_server *s = any_server(w);
    if (!s || w->now_ns < w->no_cuts_until_ns)
        return;
    split *k = mr_arena_alloc(&w->arena, sizeof *k);
    *k = (split){.node = s->node, .one = -1, .both = mr_pss_chance(w, 700)};
    switch (mr_pss_between(w, 0, 3)) {
    case 0: k->first = MANAGER, k->end = MANAGER + 1; break;
    case 1: k->first = FIRST_SERVER, k->end = FIRST_SERVER + w->n_servers; break;
    case 2: k->first = FIRST_CLIENT, k->end = MAX_NODES; break;
    default: k->first = 0, k->end = MAX_NODES; break;
    }
    if (mr_pss_chance(w, 300))
        k->one = (int)mr_pss_between(w, k->first, k->end - 1);
    int64_t ns = mr_pss_between(w, 5, 400) * MS;
    mr_pss_note(w, s->node, "is cut off from %llu to %llu for %llu ms", (uint64_t)k->first, (uint64_t)k->end, (uint64_t)(ns / MS), 0);
    set_split(w, k, true);
    mr_pss_at(w, ns, end_partition, k);
}

/* ---- crashes and restarts ---- */

static void start_another(mr_pss *w, void *arg)
{
    (void)arg;
    mr_pss_server_start(w);
}

/* Kills a client or a server. Never the last server, nor the only one that knows the newest view while no manager
 * does. */
static void crash_node(mr_pss *w)
{
    if (mr_pss_chance(w, 100)) {
        mr_pss_client *c = &w->clients[mr_pss_between(w, 0, w->n_clients - 1)];
        if (c->up && !c->finished)
            mr_pss_client_end(w, c);
        return;
    }
    mr_pss_server *s = any_server(w);
    if (!s || mr_pss_servers_up(w) < 2)
        return;
    if (s->view.epoch == w->newest_epoch && n_knowing(w) < 2 && !(w->manager.up && w->manager.m.dealt))
        return; /* otherwise a new manager would accept an older view */
    mr_pss_server_end(w, s, mr_pss_chance(w, 700));
    if (mr_pss_chance(w, 800))
        mr_pss_at(w, mr_pss_between(w, 1, 300) * MS, start_another, NULL);
}

/* Somebody restores an old snapshot: every range restarts, and discarding the pushes is intended. */
static bool chance_of_restore(mr_pss *w)
{
    if (!mr_pss_chance(w, 60))
        return false;
    mr_pss_manager_restore(w, true);
    return true;
}

static void change_servers(mr_pss *w)
{
    mr_pss_server *s = any_server(w);
    if (chance_of_restore(w))
        return;
    if (mr_pss_chance(w, 500) || !s)
        mr_pss_server_start(w);
    else
        s->wants_to_leave = true;
}

/* ---- the manager ---- */

/* Whether all servers of the view have it; servers that the manager considers lost may be behind. */
static bool all_know(mr_pss *w)
{
    if (!w->manager.up || !w->manager.m.dealt)
        return false;
    for (int i = 0; i < w->n_servers; i++)
        if (w->servers[i]->up && mr_ps_view_has_server(&w->manager.m.view, w->servers[i]->id) &&
            w->servers[i]->view.epoch != w->manager.m.view.epoch)
            return false;
    return n_knowing(w) > 0;
}

static void begin_again(mr_pss *w, void *arg)
{
    (void)arg;
    mr_pss_manager_start(w);
}

static void restart_manager(mr_pss *w, void *arg)
{
    if (w->calm || !all_know(w)) {
        if (!w->calm && w->manager.up)
            mr_pss_at(w, RETRY_NS, restart_manager, arg);
        return;
    }
    mr_pss_note(w, MANAGER, "dies", 0, 0, 0, 0);
    mr_pss_manager_end(w);
    mr_pss_heal(w);
    int64_t away_ns = mr_pss_between(w, 1, 200) * MS;
    w->no_cuts_until_ns = w->now_ns + away_ns + PATIENCE_NS;
    mr_pss_at(w, away_ns, begin_again, NULL);
}

/* ---- the plan ---- */

static void cause_fault(mr_pss *w, void *arg)
{
    w->result->n_faults++;
    switch ((intptr_t)arg) {
    case MR_PS_SIM_PARTITION: begin_partition(w); break;
    case MR_PS_SIM_CRASH: crash_node(w); break;
    case MR_PS_SIM_CHANGE: change_servers(w); break;
    default: restart_manager(w, NULL); break;
    }
}

/* Lost ranges stay lost until somebody restores them; ranges whose server was only cut off return by themselves. */
static void restore_lost(mr_pss *w, void *arg)
{
    const mr_psm *m = &w->manager.m;
    bool for_good = w->manager.up;
    for (int i = 0; for_good && i < m->view.ranges.n; i++) {
        const mr_pss_server *s = m->view.ranges.p[i].lost ? mr_pss_server_by_id(w, m->view.ranges.p[i].chain[0].id) : NULL;
        for_good = !s || !s->up;
    }
    if (for_good && m->dealt)
        mr_pss_manager_restore(w, false);
    mr_pss_at(w, 100 * MS, restore_lost, arg);
}

static void calm_down(mr_pss *w, void *arg)
{
    (void)arg;
    mr_pss_heal(w);
    w->calm = true;
    mr_pss_note(w, -1, "faults are over", 0, 0, 0, 0);
    while (mr_pss_servers_up(w) < 2 && mr_pss_server_start(w)) /* the manager may wait for that many */
        ;
    restore_lost(w, NULL);
}

void mr_pss_plan_faults(mr_pss *w)
{
    static const unsigned kinds[] = {MR_PS_SIM_PARTITION, MR_PS_SIM_CRASH, MR_PS_SIM_CHANGE, MR_PS_SIM_MANAGER};
    int64_t end_ns = mr_pss_between(w, 100, 900) * MS;
    for (int i = 0; i < MR_COUNT(kinds); i++) {
        int n = w->faults & kinds[i] ? (int)mr_pss_between(w, 0, kinds[i] == MR_PS_SIM_MANAGER ? 1 : 4) : 0;
        for (int k = 0; k < n; k++)
            mr_pss_at(w, mr_pss_between(w, 0, end_ns), cause_fault, (void *)(intptr_t)kinds[i]);
    }
    w->faults_end_ns = end_ns + 300 * MS;
    mr_pss_at(w, w->faults_end_ns, calm_down, NULL);
}
