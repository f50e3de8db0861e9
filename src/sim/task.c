/* sim/task.c -- one task of the cluster: both services, and its failure detector. */
#include "sim/world.h"

static const mr_membership_times times = {2 * MR_SIM_S, 5 * MR_SIM_S, 10 * MR_SIM_S};

/* A task that was heard recently is not lost, however slow it is. */
static void check_left(mr_sim *s, const mr_sim_task *t, int lost, uint64_t incarnation)
{
    if (incarnation == s->nodes[lost].incarnation && s->now_ns - t->heard_ns[lost] < times.lost_ns)
        mr_sim_fail(s, "%s takes %s for lost, which it heard %lld ms ago", s->nodes[t->node].name, s->nodes[lost].name,
                    (long long)((s->now_ns - t->heard_ns[lost]) / MR_SIM_MS));
}

/* Drops the sessions of masters that left or restarted, and stops the steps that have a part on them. */
static void handle_member_events(mr_sim *s, mr_sim_task *t, mr_member_events *e)
{
    for (int i = 0; i < e->n; i++) {
        const mr_member_event *m = &e->p[i];
        mr_sim_say(s, t->node, "%s %s", s->nodes[m->task].name, mr_member_what_name(m->what));
        if (m->what == MR_MEMBER_LEFT)
            check_left(s, t, m->task, m->incarnation);
        if (m->what == MR_MEMBER_LEFT)
            mr_sim_drop_sessions(s, t, m->task, 0);
        /* its earlier incarnation may have asked for sessions */
        if (m->what == MR_MEMBER_RESTARTED || m->what == MR_MEMBER_JOINED)
            mr_sim_drop_sessions(s, t, m->task, m->incarnation);
        if (m->what == MR_MEMBER_LEFT || m->what == MR_MEMBER_RESTARTED)
            mr_sim_stop_steps(s, t, m->task);
    }
    mr_vec_deinit(e);
}

static void heartbeat_came_back(mr_sim *s, mr_sim_call *c, mr_status *st)
{
    mr_sim_task *t = c->ctx;
    mr_member_events e = {0};
    if (!st && c->reply.incarnation == s->nodes[c->to].incarnation)
        t->heard_ns[c->to] = s->now_ns;
    bool present = !st && mr_membership_heard(&t->members, c->to, c->reply.incarnation, c->start_ns, s->now_ns, &e);
    mr_status_free(st);
    handle_member_events(s, t, &e);
    if (present) /* an incarnation that was never heard may have asked for a session late */
        mr_sim_drop_sessions(s, t, c->to, c->reply.incarnation);
}

static void tick_task(mr_sim *s, void *arg)
{
    mr_sim_task *t = arg;
    mr_member_events e = {0};
    mr_member_tasks ask = {0};
    int64_t next_ns = mr_membership_tick(&t->members, s->now_ns, &e, &ask);
    handle_member_events(s, t, &e);
    mr_sim_message q = {.kind = MR_SIM_HEARTBEAT, .incarnation = s->nodes[t->node].incarnation};
    for (int i = 0; i < ask.n; i++)
        mr_sim_start(s, t->node, ask.p[i], &q, 5 * MR_SIM_S, false, heartbeat_came_back, t);
    mr_vec_deinit(&ask);
    mr_sim_after(s, t->node, next_ns - s->now_ns, tick_task, t);
}

void mr_sim_serve(mr_sim *s, mr_sim_call *c)
{
    mr_sim_task *t = s->nodes[c->to].task;
    mr_member_events e = {0};
    if (c->q.kind == MR_SIM_HEARTBEAT || c->q.kind == MR_SIM_CREATE_WORKER_SESSION) {
        if (c->q.incarnation == s->nodes[c->from].incarnation)
            t->heard_ns[c->from] = s->now_ns;
        mr_membership_heard(&t->members, c->from, c->q.incarnation, -1, s->now_ns, &e);
        handle_member_events(s, t, &e);
    }
    if (c->q.kind >= MR_SIM_CREATE_SESSION)
        mr_sim_serve_master(s, t, c);
    else
        mr_sim_serve_worker(s, t, c);
}

void mr_sim_task_start(mr_sim *s, int node)
{
    mr_sim_node *n = &s->nodes[node];
    mr_sim_task *t = n->task = mr_arena_new(&s->arena, mr_sim_task);
    n->up = true;
    n->incarnation = mr_sim_random(s) | 1;
    t->node = node;
    t->steps = mr_worker_steps_new();
    t->ps = mr_sim_ps_new();
    t->next_request = (int64_t)(mr_sim_random(s) >> 2) | 1;
    mr_membership_init(&t->members, s->n_tasks, node, &times, s->now_ns);
    mr_sim_say(s, node, "starts");
    mr_sim_after(s, node, mr_sim_between(s, 0, MR_SIM_S), tick_task, t);
}

void mr_sim_task_end(mr_sim *s, int node)
{
    mr_sim_node *n = &s->nodes[node];
    mr_sim_task *t = n->task;
    n->up = false;
    n->generation++;
    n->task = NULL;
    mr_sim_worker_deinit(s, t);
    mr_sim_master_deinit(s, t);
    mr_membership_deinit(&t->members);
}
