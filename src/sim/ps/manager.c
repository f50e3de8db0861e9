/* sim/ps/manager.c -- the manager: carries out the decisions of dist/ps_manager, and considers silent servers lost. */
#include <string.h>

#include "sim/ps/world.h"

static int node_of(mr_pss *w, uint64_t id)
{
    const mr_pss_server *s = mr_pss_server_by_id(w, id);
    for (int i = 0; !s && i < w->n_clients; i++)
        if (w->clients[i].id == id)
            return w->clients[i].node;
    return s ? s->node : -1;
}

static void send_to(mr_pss *w, mr_pss_kind k, uint64_t to, uint64_t epoch, const mr_ps_view *v)
{
    int node = node_of(w, to);
    if (node >= 0)
        mr_pss_post(w, &(mr_pss_message){.kind = k, .from = MANAGER, .to = node, .incarnation = w->manager.incarnation, .epoch = epoch,
                       .view = v});
}

static void publish_view(mr_pss *w)
{
    const mr_ps_view *v = mr_pss_frozen(w, &w->manager.m.view);
    mr_pss_check_view(w, v);
    w->result->n_views++;
    mr_pss_note(w, MANAGER, "publishes view %llu with %llu servers, %llu ranges in motion", v->epoch, (uint64_t)v->servers.n,
         (uint64_t)mr_psm_in_motion(&w->manager.m), 0);
    for (int i = 0; i < v->servers.n; i++)
        send_to(w, VIEW, v->servers.p[i].id, 0, v);
    for (int i = 0; i < w->manager.m.workers.n; i++)
        send_to(w, VIEW, w->manager.m.workers.p[i], 0, v);
}

/* ---- clients that have gone ---- */

static void forget_client(mr_pss *w, void *arg)
{
    mr_pss_client *c = arg;
    for (int i = 0; i < w->n_servers; i++)
        mr_pss_post(w, &(mr_pss_message){.kind = FORGET, .from = MANAGER, .to = w->servers[i]->node, .id = c->id});
}

/* Carries out the actions of dist/ps_manager, after checking its limit of ranges in motion. */
static void carry_out(mr_pss *w)
{
    mr_psm_actions *out = &w->manager.actions;
    if (mr_psm_in_motion(&w->manager.m) > w->max_motion)
        mr_pss_fail(w, "%d ranges are in motion", mr_psm_in_motion(&w->manager.m));
    for (int i = 0; i < out->n; i++) {
        mr_psm_action a = out->p[i];
        switch (a.what) {
        case MR_PSM_PUBLISH: publish_view(w); break;
        case MR_PSM_SEND_VIEW: send_to(w, VIEW, a.id, 0, mr_pss_frozen(w, &w->manager.m.view)); break;
        case MR_PSM_LET_GO: send_to(w, LET_GO, a.id, a.epoch, NULL); break;
        case MR_PSM_KEEP: send_to(w, KEEP, a.id, 0, NULL); break;
        case MR_PSM_DECLINED:
            mr_pss_note(w, MANAGER, "range %llu is declined by %llx", (uint64_t)a.range, a.id, 0, 0);
            break;
        case MR_PSM_LOST_RANGE:
            w->result->n_lost++;
            mr_pss_note(w, MANAGER, "range %llu is lost with server %llx", (uint64_t)a.range, a.id, 0, 0);
            break;
        case MR_PSM_FORGET_CLIENT:
            mr_pss_at(w, FORGET_NS, forget_client, &w->clients[node_of(w, a.id) - FIRST_CLIENT]);
            break;
        case MR_PSM_WORKERS: break;
        }
    }
    out->n = 0;
}

/* ---- start and end ---- */

static void lose_silent(mr_pss *w)
{
    mr_pss_manager *m = &w->manager;
    for (int i = 0; i < w->n_servers; i++) {
        mr_pss_server *s = w->servers[i];
        if (m->heard_ns[s->node] && w->now_ns - m->heard_ns[s->node] > LOST_NS) {
            mr_pss_note(w, MANAGER, "server %llx is silent", s->id, 0, 0, 0);
            m->heard_ns[s->node] = 0;
            mr_psm_lost(&m->m, s->id, w->now_ns, &m->actions);
            carry_out(w);
        }
    }
}

static void tick_manager(mr_pss *w, void *arg)
{
    mr_pss_manager *m = &w->manager;
    if (!m->up || m->incarnation != (int)(intptr_t)arg)
        return;
    lose_silent(w);
    mr_psm_tick(&m->m, w->now_ns, &m->actions);
    carry_out(w);
    mr_pss_at(w, TICK_NS, tick_manager, arg);
}

/* The first incarnation waits for up to two servers; later ones first collect the reports of servers for a while. */
void mr_pss_manager_start(mr_pss *w)
{
    mr_pss_manager *m = &w->manager;
    mr_psm_options o = {.num_ranges = w->n_ranges,
                        .replicas = w->replicas,
                        .servers = m->incarnation == 0 ? (int)mr_pss_between(w, 1, 2) : 1,
                        .max_motion = w->max_motion,
                        .settle_ns = m->incarnation == 0 ? 0 : SETTLE_NS,
                        .patience_ns = PATIENCE_NS,
                        .again_ns = AGAIN_NS,
                        .stamp = (uint64_t)(w->now_ns / US) + 1};
    m->incarnation++;
    m->up = true;
    memset(m->heard_ns, 0, sizeof m->heard_ns);
    mr_status *st = mr_psm_init(&m->m, &o, w->now_ns);
    if (st)
        mr_pss_fail(w, "%s", mr_status_message(st));
    mr_status_free(st);
    mr_pss_note(w, MANAGER, "starts as incarnation %llu", (uint64_t)m->incarnation, 0, 0, 0);
    mr_pss_at(w, TICK_NS, tick_manager, (void *)(intptr_t)m->incarnation);
}

void mr_pss_manager_end(mr_pss *w)
{
    w->manager.up = false;
    mr_psm_deinit(&w->manager.m);
    mr_vec_deinit(&w->manager.actions);
}

void mr_pss_manager_closed(mr_pss *w, void *arg)
{
    mr_pss_server *s = arg;
    if (!w->manager.up)
        return;
    w->manager.heard_ns[s->node] = 0;
    mr_psm_lost(&w->manager.m, s->id, w->now_ns, &w->manager.actions);
    carry_out(w);
}

/* Restarts lost ranges, or all of them: somebody restores a snapshot. */
void mr_pss_manager_restore(mr_pss *w, bool all)
{
    if (!w->manager.up || !w->manager.m.dealt || (!all && mr_psm_lost_ranges(&w->manager.m) == 0))
        return;
    mr_pss_note(w, MANAGER, "restores %llu ranges (all: %llu)", (uint64_t)mr_psm_lost_ranges(&w->manager.m), all, 0, 0);
    w->restoring = w->was_restored = true;
    mr_psm_restore(&w->manager.m, all, &w->manager.actions);
    carry_out(w);
    w->restoring = false;
}

bool mr_pss_manager_is_quiet(mr_pss *w)
{
    for (int i = 0; i < w->n_servers; i++)
        if (w->servers[i]->up && (!w->servers[i]->joined || w->servers[i]->view.epoch != w->manager.m.view.epoch))
            return false; /* it is about to join, or to learn that it should */
    for (int i = 0; w->manager.up && i < w->manager.m.view.servers.n; i++)
        if (!mr_pss_server_by_id(w, w->manager.m.view.servers.p[i].id)->up)
            return false; /* its silence will be noticed */
    return w->manager.up && mr_psm_quiet(&w->manager.m) && mr_psm_lost_ranges(&w->manager.m) == 0 &&
           w->manager.m.full.n == 0; /* substitutes for full servers need not be balanced */
}

void mr_pss_manager_take(mr_pss *w, const mr_pss_message *m)
{
    mr_pss_manager *k = &w->manager;
    bool server = m->kind != ASK_VIEW && m->kind != GOODBYE;
    if (server && m->incarnation != k->incarnation)
        return; /* from a connection to the previous manager */
    if (server)
        k->heard_ns[m->from] = w->now_ns;
    switch (m->kind) {
    case JOIN: {
        mr_status *st = mr_psm_join(&k->m, m->id, m->view, w->now_ns, &k->actions);
        if (st)
            mr_pss_fail(w, "join: %s", mr_status_message(st));
        mr_status_free(st);
        break;
    }
    case HEARD: mr_psm_heard(&k->m, m->id, m->epoch, w->now_ns, &k->actions); break;
    case LEAVE: mr_psm_leave(&k->m, m->id, w->now_ns, &k->actions); break;
    case COMPLETE: mr_psm_complete(&k->m, m->id, m->range, m->epoch, m->version, &k->actions); break;
    case DECLINE: mr_psm_declined(&k->m, m->id, m->range, m->epoch, w->now_ns, &k->actions); break;
    case DRAINED: mr_psm_drained(&k->m, m->id, m->range, m->epoch, &k->actions); break;
    case ASK_VIEW: mr_psm_worker_join(&k->m, m->id, &k->actions); break;
    case GOODBYE: mr_psm_worker_leave(&k->m, m->id, &k->actions); break;
    default: mr_pss_fail(w, "the manager gets a message of kind %d", m->kind); return;
    }
    carry_out(w);
}
