/* sim/worker.c -- the worker service of a simulated task: it carries out the decisions of dist/, as server/worker*.c
 * does.
 *
 * One kind of program represents all programs: the worker sends the fed value to each parameter server, which does some
 * work with it (sim/ps.c) and sends back the result. So no part ends without the others, and every RecvTensor may
 * arrive before or after its step. */
#include <stdio.h>

#include "sim/world.h"

struct mr_sim_graph {
    uint64_t handle;
    mr_worker_session *session;
    mr_sim_message q; /* its RegisterGraph: worker, mask, lives */
};

typedef struct slot { /* the value for another task */
    bool there;
    mr_sim_value value;
    mr_sim_call *waiting; /* its RecvTensor */
} slot;

struct mr_sim_worker_run {
    mr_sim_task *task;
    int64_t id;
    slot slots[MR_SIM_MAX_TASKS];
    mr_code aborted; /* 0: not aborted */
    mr_sim_graph graph; /* a copy, because the session may end first */
    mr_sim_call *run;   /* RunGraph, until it is answered */
    mr_sim_value v; /* the fed value, then the result */
    int n_left; /* values still to arrive */
    bool fetched;
    mr_sim_call *receives[MR_SIM_MAX_TASKS];
};

static void handle_text(uint64_t handle, char out[17]) { snprintf(out, 17, "%016llx", (unsigned long long)handle); }

static int64_t compute_ns(mr_sim *s, int node)
{
    return MR_MIN(mr_sim_between(s, 100 * MR_SIM_US, 5 * MR_SIM_MS) * s->nodes[node].slow, 3 * MR_SIM_S);
}

/* ---- the end of a step ---- */

static void run_ends(mr_sim *s, mr_sim_worker_run *w, mr_status *st)
{
    mr_sim_call *c = w->run;
    w->run = NULL;
    if (c) {
        c->reply.v = w->v;
        mr_sim_reply(s, c, st);
    } else {
        mr_status_free(st);
    }
}

static void answer_waiting(mr_sim *s, mr_sim_worker_run *w, int to, mr_status *st)
{
    mr_sim_call *c = w->slots[to].waiting;
    mr_worker_step *step = mr_worker_steps_find(w->task->steps, w->id);
    w->slots[to].waiting = NULL;
    if (step)
        mr_worker_steps_asked(step, false);
    c->reply.v = w->slots[to].value;
    mr_sim_reply(s, c, st);
}

static mr_status *abort_error(const mr_sim_worker_run *w)
{
    return mr_status_mark_derived(mr_error(w->aborted, "The step was aborted"));
}

/* Ends everything that waits in this step: tensors it was asked for, tensors it waits for, and its RunGraph. Only the
 * first reason counts. */
static void abort_step(mr_sim *s, mr_sim_worker_run *w, const mr_status *why)
{
    if (w->aborted)
        return;
    w->aborted = mr_status_code(why);
    for (int i = 0; i < s->n_tasks; i++) {
        if (w->slots[i].waiting)
            answer_waiting(s, w, i, abort_error(w));
        if (w->receives[i])
            mr_sim_cancel(s, w->receives[i]);
    }
    if (w->task->ps)
        mr_sim_ps_forget(w->task, w);
    run_ends(s, w, mr_status_copy(why));
}

static void end_step(mr_sim *s, mr_sim_task *t, int64_t id, mr_status *why)
{
    mr_sim_worker_run *w = mr_worker_steps_end(t->steps, id);
    if (w) {
        mr_sim_say(s, t->node, "step %llx ends: %s", (unsigned long long)id, mr_status_message(why));
        abort_step(s, w, why);
    }
    mr_status_free(why);
}

static mr_status *get_step(mr_sim *s, mr_sim_task *t, int64_t id, int64_t request, mr_worker_step **out)
{
    bool is_new;
    MR_TRY(mr_worker_steps_once(t->steps, request));
    MR_TRY(mr_worker_steps_get(t->steps, id, out, &is_new));
    if (is_new) {
        mr_sim_worker_run *w = (*out)->host = mr_arena_new(&s->arena, mr_sim_worker_run);
        w->task = t;
        w->id = id;
    }
    return NULL;
}

/* ---- values between tasks ---- */

static void put_value(mr_sim *s, mr_sim_worker_run *w, int to, mr_sim_value value)
{
    w->slots[to].there = true;
    w->slots[to].value = value;
    if (w->slots[to].waiting)
        answer_waiting(s, w, to, NULL);
}

static void value_came(mr_sim *s, mr_sim_worker_run *w, mr_sim_value value);

static void tensor_received(mr_sim *s, mr_sim_call *c, mr_status *st)
{
    mr_sim_worker_run *w = c->ctx;
    w->receives[c->to] = NULL;
    if (!w->aborted && !st)
        value_came(s, w, c->reply.v);
    else if (!w->aborted)
        abort_step(s, w, st);
    mr_status_free(st);
}

static void receive_tensor(mr_sim *s, mr_sim_worker_run *w, int from)
{
    mr_sim_message q = {.kind = MR_SIM_RECV_TENSOR,
                        .step = w->id,
                        .request = w->task->next_request++,
                        .incarnation = w->graph.q.incarnations[from]};
    w->receives[from] = mr_sim_start(s, w->task->node, from, &q, 0, false, tensor_received, w);
}

static void asker_gone(mr_sim *s, mr_sim_call *c)
{
    mr_sim_worker_run *w = c->server;
    if (w->slots[c->from].waiting != c)
        return;
    w->slots[c->from].waiting = NULL;
    mr_worker_step *step = mr_worker_steps_find(w->task->steps, w->id);
    if (step && mr_worker_steps_asked(step, true))
        end_step(s, w->task, w->id, mr_error(MR_ABORTED, "The receiver gave up the step"));
}

/* The tensor may exist already, or the step may not even have begun here: then the call waits in the step. */
static mr_status *recv_tensor(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    mr_worker_step *step;
    if (c->q.incarnation != s->nodes[t->node].incarnation)
        return mr_error(MR_ABORTED, "RecvTensor expects a different device incarnation");
    MR_TRY(get_step(s, t, c->q.step, c->q.request, &step));
    mr_sim_worker_run *w = step->host;
    if (w->aborted)
        return abort_error(w);
    if (w->slots[c->from].waiting)
        return mr_error(MR_ABORTED, "Another RecvTensor already waits for this value");
    w->slots[c->from].waiting = c;
    c->server = w;
    c->gone = asker_gone;
    mr_worker_steps_ask(step);
    if (w->slots[c->from].there)
        answer_waiting(s, w, c->from, NULL);
    return NULL;
}

/* ---- RunGraph ---- */

/* The end of a parameter server's part: sends the result back to the worker, or aborts the step. */
void mr_sim_work_done(mr_sim *s, mr_sim_worker_run *w, mr_status *st, mr_sim_value v)
{
    if (st)
        abort_step(s, w, st);
    else
        put_value(s, w, w->graph.q.worker, v);
    mr_status_free(st);
    run_ends(s, w, NULL);
}

static void do_ps_work(mr_sim *s, void *arg)
{
    mr_sim_worker_run *w = arg;
    if (!w->aborted)
        mr_sim_ps_work(s, w->task, w, w->graph.q.work, &w->v);
}

/* The worker's part: sends the fed value to all parameter servers of the step. */
static void feed_all(mr_sim *s, void *arg)
{
    mr_sim_worker_run *w = arg;
    for (int i = 0; i < s->n_ps && !w->aborted; i++)
        if (w->graph.q.mask >> i & 1)
            put_value(s, w, i, w->v);
}

/* The result of several servers is the minimum of their values, which answers "are all of you ready?" */
static void value_came(mr_sim *s, mr_sim_worker_run *w, mr_sim_value value)
{
    bool is_worker = w->task->node == w->graph.q.worker, first = !w->fetched;
    w->fetched = true;
    w->v = (mr_sim_value){first ? value.a : MR_MIN(w->v.a, value.a), first ? value.b : MR_MIN(w->v.b, value.b), value.c};
    if (--w->n_left > 0)
        return;
    if (is_worker)
        run_ends(s, w, NULL);
    else
        mr_sim_after(s, w->task->node, compute_ns(s, w->task->node), do_ps_work, w);
}

static void start_part(mr_sim *s, mr_sim_worker_run *w)
{
    int node = w->task->node;
    if (node != w->graph.q.worker) {
        w->n_left = 1;
        receive_tensor(s, w, w->graph.q.worker);
        return;
    }
    for (int i = 0; i < s->n_ps; i++)
        w->n_left += w->graph.q.mask >> i & 1;
    mr_sim_after(s, node, compute_ns(s, node), feed_all, w);
    for (int i = 0; i < s->n_ps; i++)
        if (w->graph.q.mask >> i & 1)
            receive_tensor(s, w, i);
}

static void runner_gone(mr_sim *s, mr_sim_call *c)
{
    mr_sim_worker_run *w = c->server;
    if (w->run == c)
        end_step(s, w->task, w->id, mr_error(MR_CANCELLED, "RunGraph was cancelled"));
}

static mr_status *find_graph(mr_sim_task *t, const mr_sim_message *q, mr_sim_graph **out)
{
    char handle[17];
    handle_text(q->session, handle);
    mr_worker_session *session = mr_worker_sessions_find(&t->sessions, mr_sv_of(handle));
    if (!session)
        return mr_error(MR_ABORTED, "Session handle is not found");
    for (int i = 0; i < t->graphs.n; i++)
        if (t->graphs.p[i]->handle == q->graph && t->graphs.p[i]->session == session) {
            *out = t->graphs.p[i];
            return NULL;
        }
    return mr_error(MR_ABORTED, "Graph handle is not found");
}

/* The step may have been created earlier, by a RecvTensor that arrived before its RunGraph. */
static mr_status *run_graph(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    mr_sim_graph *g = NULL;
    mr_worker_step *step;
    MR_TRY(find_graph(t, &c->q, &g));
    MR_TRY(get_step(s, t, c->q.step, c->q.request, &step));
    MR_TRY(mr_worker_steps_begin(step, false, g->session));
    mr_sim_worker_run *w = step->host;
    w->graph = *g;
    w->run = c;
    w->v = c->q.v;
    c->server = w;
    c->gone = runner_gone;
    mr_sim_say(s, t->node, "step %llx begins", (unsigned long long)w->id);
    start_part(s, w);
    return NULL;
}

/* ---- sessions ---- */

static void end_session(mr_sim *s, mr_sim_task *t, mr_worker_session *session, const char *why)
{
    mr_sim_say(s, t->node, "session %s ends: %s", session->handle, why);
    for (int i = t->graphs.n; i-- > 0;)
        if (t->graphs.p[i]->session == session)
            mr_vec_remove_swap(&t->graphs, i);
    for (mr_worker_step *step; (step = mr_worker_steps_any(t->steps, session));)
        end_step(s, t, step->id, mr_error(MR_CANCELLED, "%s", why));
    mr_worker_sessions_end(&t->sessions, mr_sv_of(session->handle));
}

void mr_sim_drop_sessions(mr_sim *s, mr_sim_task *t, int master, uint64_t incarnation)
{
    mr_sv name = mr_sv_of(s->nodes[master].name);
    for (mr_worker_session *w; (w = mr_worker_sessions_left_by(&t->sessions, &name, incarnation));)
        end_session(s, t, w, "its master is gone");
}

static mr_status *create_session(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    char handle[17];
    mr_worker_session *session;
    if (c->q.incarnations[t->node] !=
        s->nodes[t->node].incarnation) /* meant for an earlier incarnation, which got its deletion */
        return mr_error(MR_ABORTED, "%s was restarted", s->nodes[t->node].name);
    if (mr_membership_ended(&t->members, c->from, c->q.incarnation))
        return mr_error(MR_ABORTED, "%s was restarted since", s->nodes[c->from].name);
    handle_text(c->q.session, handle);
    MR_TRY(mr_worker_sessions_add(&t->sessions, mr_sv_of(handle), mr_sv_of(s->nodes[c->from].name), c->q.incarnation,
                                  &session));
    mr_sim_say(s, t->node, "session %s begins", handle);
    return NULL;
}

static void delete_session(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    char handle[17];
    handle_text(c->q.session, handle);
    mr_worker_session *session = mr_worker_sessions_find(&t->sessions, mr_sv_of(handle));
    if (session)
        end_session(s, t, session, "deleted");
    else
        mr_worker_sessions_end(&t->sessions, mr_sv_of(handle)); /* its creation may arrive later */
}

static mr_status *register_graph(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    char handle[17];
    handle_text(c->q.session, handle);
    mr_worker_session *session = mr_worker_sessions_find(&t->sessions, mr_sv_of(handle));
    if (!session)
        return mr_error(MR_ABORTED, "Session handle is not found");
    mr_sim_graph *g = mr_arena_new(&s->arena, mr_sim_graph);
    *g = (mr_sim_graph){t->next_graph++, session, c->q};
    mr_vec_push(&t->graphs, g);
    c->reply.graph = g->handle;
    return NULL;
}

/* ---- the service ---- */

void mr_sim_serve_worker(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    mr_status *st = NULL;
    bool later = false; /* answered later */
    switch (c->q.kind) {
    case MR_SIM_CREATE_WORKER_SESSION: st = create_session(s, t, c); break;
    case MR_SIM_DELETE_WORKER_SESSION: delete_session(s, t, c); break;
    case MR_SIM_REGISTER_GRAPH: st = register_graph(s, t, c); break;
    case MR_SIM_CLEANUP_GRAPH: end_step(s, t, c->q.step, mr_error(MR_ABORTED, "cleaned up")); break;
    case MR_SIM_RUN_GRAPH: later = !(st = run_graph(s, t, c)); break;
    case MR_SIM_RECV_TENSOR: later = !(st = recv_tensor(s, t, c)); break;
    default: c->reply.incarnation = s->nodes[t->node].incarnation; /* GetStatus, heartbeats */
    }
    if (!later)
        mr_sim_reply(s, c, st);
}

void mr_sim_worker_deinit(mr_sim *s, mr_sim_task *t)
{
    (void)s;
    for (mr_worker_step *w; (w = mr_worker_steps_any(t->steps, NULL));)
        mr_worker_steps_end(t->steps, w->id);
    for (mr_worker_session *w; (w = mr_worker_sessions_left_by(&t->sessions, NULL, 0));)
        mr_worker_sessions_end(&t->sessions, mr_sv_of(w->handle));
    mr_sim_ps_free(t->ps);
    mr_worker_steps_free(t->steps);
    mr_worker_sessions_deinit(&t->sessions);
    mr_vec_deinit(&t->graphs);
}
