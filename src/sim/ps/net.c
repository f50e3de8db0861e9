/* sim/ps/net.c -- messages in flight.
 *
 * Each message has its own latency, so messages overtake each other. They are lost if a node is cut off or if the seed
 * decides so: a client may then notice that its connection broke, or only time out; the sender of a copy is always
 * notified. */
#include <string.h>

#include "sim/ps/world.h"

static bool is_up(const mr_pss *w, int node)
{
    if (node == MANAGER)
        return w->manager.up;
    if (node < FIRST_CLIENT)
        return w->servers[node - FIRST_SERVER]->up;
    return w->clients[node - FIRST_CLIENT].up;
}

static int64_t draw_latency(mr_pss *w)
{
    if (!w->calm && (w->faults & MR_PS_SIM_DELAY) && mr_pss_chance(w, 60)) /* some longer than the limit of silence */
        return mr_pss_between(w, 1, mr_pss_chance(w, 100) ? LONGEST_DELAY_MS : 80) * MS;
    return mr_pss_between(w, 50, 1000) * US;
}

static void message_arrives(mr_pss *w, void *arg);

/* Notifications of the network itself are never lost. */
static void notify_node(mr_pss *w, int node, mr_pss_kind k, const mr_pss_message *about, bool ok)
{
    mr_pss_message *m = mr_arena_alloc(&w->arena, sizeof *m);
    *m = (mr_pss_message){.kind = k, .from = about->to, .to = node, .range = about->range, .ok = ok, .id = about->id};
    mr_pss_at(w, mr_pss_between(w, 100, 30000) * US, message_arrives, m);
}

static void lose_message(mr_pss *w, const mr_pss_message *m)
{
    if (m->kind == COPY)
        notify_node(w, m->from, COPIED, m, false);
    else if ((m->kind == PUSH || m->kind == PULL) && (mr_pss_chance(w, 500) || !is_up(w, m->to)))
        notify_node(w, m->from, BROKEN, m, false);
    else if (m->kind == ANSWER && mr_pss_chance(w, 500))
        notify_node(w, m->to, BROKEN, &(mr_pss_message){.to = m->from, .id = m->id}, false);
}

static void hand_over(mr_pss *w, const mr_pss_message *m)
{
    if (m->to == MANAGER)
        mr_pss_manager_take(w, m);
    else if (m->to < FIRST_CLIENT)
        mr_pss_server_take(w, w->servers[m->to - FIRST_SERVER], m);
    else
        mr_pss_client_take(w, &w->clients[m->to - FIRST_CLIENT], m);
}

static void message_arrives(mr_pss *w, void *arg)
{
    const mr_pss_message *m = arg;
    bool network = m->kind == COPIED || m->kind == BROKEN;
    if (!is_up(w, m->to) || (!network && w->cut[m->from][m->to])) {
        if (!network)
            lose_message(w, m);
        return;
    }
    hand_over(w, m);
    if (m->kind == COPY && is_up(w, m->from))
        notify_node(w, m->from, COPIED, m, !w->declined);
}

void mr_pss_post(mr_pss *w, const mr_pss_message *m)
{
    bool troubled = !w->calm && m->from != m->to;
    mr_pss_message *copy = mr_arena_alloc(&w->arena, sizeof *copy);
    *copy = *m;
    if (troubled && (w->faults & MR_PS_SIM_LOSS) && mr_pss_chance(w, 25)) {
        lose_message(w, copy);
        return;
    }
    mr_pss_at(w, draw_latency(w), message_arrives, copy);
    if (troubled && (w->faults & MR_PS_SIM_DUPLICATION) && m->kind != COPY && mr_pss_chance(w, 60))
        mr_pss_at(w, draw_latency(w) + (mr_pss_chance(w, 200) ? mr_pss_between(w, 1, 60) * MS : 0), message_arrives,
                  copy);
}

const mr_ps_view *mr_pss_frozen(mr_pss *w, const mr_ps_view *v)
{
    mr_ps_view *copy = mr_arena_alloc(&w->arena, sizeof *copy);
    *copy = *v;
    copy->servers.p = mr_arena_alloc(&w->arena, sizeof *v->servers.p * (size_t)(v->servers.n + 1));
    copy->ranges.p = mr_arena_alloc(&w->arena, sizeof *v->ranges.p * (size_t)(v->ranges.n + 1));
    if (v->servers.n)
        memcpy(copy->servers.p, v->servers.p, sizeof *v->servers.p * (size_t)v->servers.n);
    if (v->ranges.n)
        memcpy(copy->ranges.p, v->ranges.p, sizeof *v->ranges.p * (size_t)v->ranges.n);
    return copy;
}

void mr_pss_cut(mr_pss *w, int a, int b, bool both, bool on)
{
    w->cut[a][b] = on;
    if (both)
        w->cut[b][a] = on;
}

void mr_pss_heal(mr_pss *w)
{
    for (int i = 0; i < MAX_NODES; i++)
        for (int k = 0; k < MAX_NODES; k++)
            w->cut[i][k] = false;
}
