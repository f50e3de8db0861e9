/* sim/master.c -- the master service of a simulated task: it carries out the decisions of dist/, as server/master*.c
 * does. */
#include <stdio.h>

#include "sim/world.h"

typedef struct mstep mstep;

typedef struct program { /* a registered graph, for one signature of steps */
    mr_sim_msession *session;
    mr_sim_work work;
    int mask, n_parts, n_registering;
    int tasks[MR_SIM_MAX_TASKS];
    uint64_t graphs[MR_SIM_MAX_TASKS]; /* handles, by part */
    bool ready;
    mr_status *failed;
    MR_VEC(mstep *) waiting;
} program;

struct mr_sim_msession {
    mr_sim_task *task;
    uint64_t handle;
    mr_sim_call *call; /* CreateSession, then CloseSession */
    mr_creation creation;
    mr_sim_call *creating[MR_SIM_MAX_TASKS];
    uint64_t incarnations[MR_SIM_MAX_TASKS];
    bool open, closed;
    int n_open;
    MR_VEC(program *) programs;
    MR_VEC(mstep *) steps;
};

struct mstep {
    mr_sim_msession *session;
    program *program;
    mr_sim_call *call;
    int64_t id;
    mr_master_step state;
    mr_sim_call *parts[MR_SIM_MAX_TASKS];
    bool over;
};

/* ---- requests whose answer nobody needs: repeated until they succeed or dist/session.c gives up ---- */

typedef struct retried_request {
    int from, to, tries;
    mr_sim_message q;
} retried_request;

static void request_answered(mr_sim *s, mr_sim_call *c, mr_status *st);

static void send_request(mr_sim *s, void *arg)
{
    retried_request *e = arg;
    mr_sim_start(s, e->from, e->to, &e->q, 10 * MR_SIM_S, false, request_answered, e);
}

static void request_answered(mr_sim *s, mr_sim_call *c, mr_status *st)
{
    retried_request *e = c->ctx;
    int64_t ns = mr_tell_again_ns(e->tries++, mr_status_code(st));
    mr_status_free(st);
    if (ns >= 0)
        mr_sim_after(s, e->from, ns, send_request, e);
}

static void send_unawaited(mr_sim *s, int from, int to, const mr_sim_message *q)
{
    retried_request *e = mr_arena_new(&s->arena, retried_request);
    *e = (retried_request){from, to, 0, *q};
    send_request(s, e);
}

/* ---- CreateSession ---- */

static void session_free(mr_sim_msession *m)
{
    for (int i = 0; i < m->programs.n; i++) {
        mr_status_free(m->programs.p[i]->failed);
        mr_vec_deinit(&m->programs.p[i]->waiting);
    }
    for (int i = 0; i < m->steps.n; i++)
        mr_master_step_deinit(&m->steps.p[i]->state);
    mr_creation_deinit(&m->creation);
    mr_vec_deinit(&m->programs);
    mr_vec_deinit(&m->steps);
}

static void forget_session(mr_sim_msession *m)
{
    mr_sim_task *t = m->task;
    for (int i = t->msessions.n; i-- > 0;)
        if (t->msessions.p[i] == m)
            mr_vec_remove_swap(&t->msessions, i);
    session_free(m);
}

static void do_creation(mr_sim *s, mr_sim_msession *m, mr_create_actions *a);

static void creation_came(mr_sim *s, mr_sim_call *c, mr_status *st)
{
    mr_sim_msession *m = c->ctx;
    mr_create_actions a = {0};
    if (!st && c->q.kind == MR_SIM_GET_STATUS)
        m->incarnations[c->to] = c->reply.incarnation;
    m->creating[c->to] = NULL;
    mr_creation_came(&m->creation, c->to, st, &a);
    do_creation(s, m, &a);
}

static void ask_member(mr_sim *s, mr_sim_msession *m, int to, mr_sim_kind kind)
{
    int node = m->task->node;
    mr_sim_message q = {.kind = kind, .session = m->handle, .incarnation = s->nodes[node].incarnation};
    memcpy(q.incarnations, m->incarnations, sizeof q.incarnations);
    m->creating[to] = mr_sim_start(s, node, to, &q, 600 * MR_SIM_S, true, creation_came, m);
}

static void delete_at(mr_sim *s, mr_sim_msession *m, int to)
{
    mr_sim_message q = {.kind = MR_SIM_DELETE_WORKER_SESSION, .session = m->handle};
    send_unawaited(s, m->task->node, to, &q);
}

static void session_created(mr_sim *s, mr_sim_msession *m)
{
    mr_status *st = mr_creation_result(&m->creation);
    mr_sim_call *c = m->call;
    mr_sim_say(s, m->task->node, "session %016llx: %s", (unsigned long long)m->handle, mr_code_name(mr_status_code(st)));
    m->call = NULL;
    c->reply.session = m->handle;
    m->open = !st;
    if (st)
        forget_session(m);
    mr_sim_reply(s, c, st);
}

/* Carries out the actions of mr_creation (dist/session.h). MR_CREATE_GATHER runs after the loop, because it produces more
 * actions. */
static void do_creation(mr_sim *s, mr_sim_msession *m, mr_create_actions *a)
{
    mr_create_actions more = {0};
    bool gather = false;
    for (int i = 0; i < a->n; i++) {
        int task = a->p[i].task;
        switch (a->p[i].what) {
        case MR_CREATE_ASK: ask_member(s, m, task, MR_SIM_GET_STATUS); break;
        case MR_CREATE_MAKE: ask_member(s, m, task, MR_SIM_CREATE_WORKER_SESSION); break;
        case MR_CREATE_CANCEL: mr_sim_cancel(s, m->creating[task]); break;
        case MR_CREATE_DELETE: delete_at(s, m, task); break;
        case MR_CREATE_GATHER: gather = true; break;
        case MR_CREATE_REPLY: session_created(s, m); break;
        }
    }
    mr_vec_deinit(a);
    if (gather) {
        mr_creation_gathered(&m->creation, NULL, &more);
        do_creation(s, m, &more);
    }
}

static void creator_gone(mr_sim *s, mr_sim_call *c)
{
    mr_sim_msession *m = c->server;
    mr_create_actions a = {0};
    mr_creation_stop(&m->creation, mr_error(MR_CANCELLED, "The client has gone"), &a);
    do_creation(s, m, &a);
}

/* The session's members are all parameter servers and this worker. */
static void create_session(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    bool member[MR_SIM_MAX_TASKS];
    mr_create_actions a = {0};
    mr_sim_msession *m = mr_arena_new(&s->arena, mr_sim_msession);
    for (int i = 0; i < s->n_tasks; i++)
        member[i] = i < s->n_ps || i == t->node; /* as device filters would select them */
    m->task = t;
    m->handle = mr_sim_random(s);
    m->call = c;
    c->server = m;
    c->gone = creator_gone;
    mr_vec_push(&t->msessions, m);
    mr_creation_init(&m->creation, s->n_tasks, member);
    mr_creation_begin(&m->creation, &a);
    do_creation(s, m, &a);
}

/* ---- CloseSession ---- */

static void leave_session(mr_sim *s, mr_sim_msession *m)
{
    if (--m->n_open > 0 || !m->closed)
        return;
    for (int i = 0; i < s->n_tasks; i++)
        if (m->creation.member[i])
            delete_at(s, m, i);
    mr_sim_call *c = m->call;
    forget_session(m);
    mr_sim_reply(s, c, NULL);
}

/* ---- RunStep ---- */

static void do_step(mr_sim *s, mstep *t, mr_step_actions *a);

static void part_ran(mr_sim *s, mr_sim_call *c, mr_status *st)
{
    mstep *t = c->ctx;
    mr_step_actions a = {0};
    int part = 0;
    while (t->parts[part] != c)
        part++;
    if (part == 0)
        t->call->reply.v = c->reply.v;
    if (st)
        mr_status_prepend(st, "From %s: ", s->nodes[c->to].name);
    mr_master_step_ran(&t->state, part, st, &a);
    do_step(s, t, &a);
}

static void run_part(mr_sim *s, mstep *t, int part)
{
    program *p = t->program;
    mr_sim_message q = {.kind = MR_SIM_RUN_GRAPH,
                        .session = t->session->handle,
                        .graph = p->graphs[part],
                        .step = t->id,
                        .v = part == 0 ? t->call->q.v : (mr_sim_value){0}};
    t->parts[part] = mr_sim_start(s, t->session->task->node, p->tasks[part], &q, 0, false, part_ran, t);
}

static void step_over(mr_sim *s, mstep *t, mr_status *st)
{
    mr_sim_msession *m = t->session;
    mr_sim_say(s, m->task->node, "step %llx: %s %s", (unsigned long long)t->id, mr_code_name(mr_status_code(st)),
               mr_status_message(st));
    t->over = true;
    for (int i = m->steps.n; i-- > 0;)
        if (m->steps.p[i] == t)
            mr_vec_remove_swap(&m->steps, i);
    mr_sim_reply(s, t->call, st);
    mr_master_step_deinit(&t->state);
    leave_session(s, m);
}

static void do_step(mr_sim *s, mstep *t, mr_step_actions *a)
{
    mr_sim_message clean = {.kind = MR_SIM_CLEANUP_GRAPH, .step = t->id};
    for (int i = 0; i < a->n; i++) {
        int part = a->p[i].part;
        switch (a->p[i].what) {
        case MR_DO_RUN: run_part(s, t, part); break;
        case MR_DO_CANCEL: mr_sim_cancel(s, t->parts[part]); break;
        case MR_DO_CLEANUP: send_unawaited(s, t->session->task->node, t->program->tasks[part], &clean); break;
        case MR_DO_REPLY: step_over(s, t, mr_master_step_result(&t->state)); break;
        }
    }
    mr_vec_deinit(a);
}

static void stop_step(mr_sim *s, mstep *t, mr_status *why)
{
    mr_step_actions a = {0};
    mr_master_step_stop(&t->state, why, &a);
    do_step(s, t, &a);
}

static void time_is_up(mr_sim *s, void *arg)
{
    mstep *t = arg;
    if (!t->over)
        stop_step(s, t, mr_error(MR_DEADLINE_EXCEEDED, "Timed out waiting for notification"));
}

static void client_gone(mr_sim *s, mr_sim_call *c)
{
    mstep *t = c->server;
    if (!t->over && t->id)
        stop_step(s, t, mr_error(MR_CANCELLED, "RunStep was cancelled"));
}

/* Starts a step; if the client has gone or the session was closed meanwhile, stops it at once. */
static void begin_step(mr_sim *s, mstep *t)
{
    mr_step_actions a = {0};
    t->id = (int64_t)(mr_sim_random(s) >> 7) | 1;
    mr_vec_push(&t->session->steps, t);
    mr_master_step_init(&t->state, t->program->n_parts);
    mr_sim_say(s, t->session->task->node, "step %llx begins for %s: %d with %lld", (unsigned long long)t->id,
               s->nodes[t->call->from].name, t->call->q.work, (long long)t->call->q.v.a);
    if (t->call->q.timeout_ns)
        mr_sim_after(s, t->session->task->node, t->call->q.timeout_ns, time_is_up, t);
    mr_master_step_begin(&t->state, &a);
    do_step(s, t, &a);
    if (!t->call->served && !t->over) /* the client left while the program was being registered */
        client_gone(s, t->call);
    else if (t->session->closed && !t->over)
        stop_step(s, t, mr_error(MR_CANCELLED, "Session was closed"));
}

/* ---- registration ---- */

/* Starts all steps that waited for the registration, or fails them. */
static void registered_all(mr_sim *s, program *p)
{
    mr_sim_msession *m = p->session;
    p->ready = !p->failed;
    m->n_open++; /* keeps the session open while the last step below ends */
    for (int i = 0; i < p->waiting.n; i++) {
        mstep *t = p->waiting.p[i];
        if (p->ready) {
            begin_step(s, t);
        } else {
            mr_sim_reply(s, t->call, mr_status_copy(p->failed));
            t->over = true;
            leave_session(s, m);
        }
    }
    p->waiting.n = 0;
    for (int i = m->programs.n; !p->ready && i-- > 0;)
        if (m->programs.p[i] == p) { /* the next step registers it again */
            mr_vec_remove_swap(&m->programs, i);
            mr_status_free(p->failed);
            mr_vec_deinit(&p->waiting);
        }
    leave_session(s, m);
}

static void graph_registered(mr_sim *s, mr_sim_call *c, mr_status *st)
{
    program *p = c->ctx;
    for (int i = 0; i < p->n_parts; i++)
        if (p->tasks[i] == c->to)
            p->graphs[i] = c->reply.graph;
    mr_status_update(&p->failed, st);
    if (--p->n_registering == 0)
        registered_all(s, p);
}

static void make_program(mr_sim *s, mr_sim_msession *m, const mr_sim_message *q, program **out)
{
    program *p = *out = mr_arena_new(&s->arena, program);
    int node = m->task->node;
    p->session = m;
    p->mask = q->mask;
    p->work = q->work;
    p->tasks[p->n_parts++] = node;
    for (int i = 0; i < s->n_ps; i++)
        if (q->mask >> i & 1)
            p->tasks[p->n_parts++] = i;
    mr_vec_push(&m->programs, p);
    p->n_registering = p->n_parts;
    mr_sim_message r = {.kind = MR_SIM_REGISTER_GRAPH, .session = m->handle, .worker = node, .mask = q->mask, .work = q->work};
    memcpy(r.incarnations, m->incarnations, sizeof r.incarnations);
    for (int i = 0; i < p->n_parts; i++)
        mr_sim_start(s, node, p->tasks[i], &r, 0, false, graph_registered, p);
}

static mr_status *find_session(mr_sim_task *t, uint64_t handle, mr_sim_msession **out)
{
    for (int i = 0; i < t->msessions.n; i++)
        if (t->msessions.p[i]->handle == handle && t->msessions.p[i]->open) {
            *out = t->msessions.p[i];
            return NULL;
        }
    return mr_error(MR_ABORTED, "Session is not found. Possibly, this master has restarted.");
}

/* Rejects a repeated request, finds or registers the program, and starts the step or queues it until the program is
 * ready. */
static mr_status *run_step(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    mr_sim_msession *m;
    program *p = NULL;
    MR_TRY(mr_recent_once(&t->requests, c->q.request));
    MR_TRY(find_session(t, c->q.session, &m));
    if (m->closed)
        return mr_error(MR_CANCELLED, "Session has been closed.");
    m->n_open++;
    for (int i = 0; i < m->programs.n && !p; i++)
        if (m->programs.p[i]->mask == c->q.mask && m->programs.p[i]->work == c->q.work)
            p = m->programs.p[i];
    if (!p)
        make_program(s, m, &c->q, &p);
    mstep *step = mr_arena_new(&s->arena, mstep);
    *step = (mstep){.session = m, .program = p, .call = c};
    c->server = step;
    c->gone = client_gone;
    if (p->ready)
        begin_step(s, step);
    else
        mr_vec_push(&p->waiting, step);
    return NULL;
}

static mr_status *close_session(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    mr_sim_msession *m;
    MR_TRY(find_session(t, c->q.session, &m));
    if (m->closed)
        return mr_error(MR_ABORTED, "Session is closed already");
    m->closed = true;
    m->call = c;
    m->n_open++;
    for (int i = m->steps.n; i-- > 0;)
        stop_step(s, m->steps.p[i], mr_error(MR_CANCELLED, "Session was closed"));
    leave_session(s, m);
    return NULL;
}

/* ---- the service ---- */

void mr_sim_serve_master(mr_sim *s, mr_sim_task *t, mr_sim_call *c)
{
    mr_status *st = NULL;
    switch (c->q.kind) {
    case MR_SIM_CREATE_SESSION: create_session(s, t, c); break;
    case MR_SIM_RUN_STEP: st = run_step(s, t, c); break;
    default: st = close_session(s, t, c);
    }
    if (st)
        mr_sim_reply(s, c, st);
}

static bool takes_part(const mstep *t, int task)
{
    for (int i = 0; i < t->program->n_parts; i++)
        if (t->program->tasks[i] == task)
            return true;
    return false;
}

void mr_sim_stop_steps(mr_sim *s, mr_sim_task *t, int lost)
{
    for (int i = t->msessions.n; i-- > 0;) {
        mr_sim_msession *m = t->msessions.p[i];
        for (int k = m->steps.n; k-- > 0;)
            if (takes_part(m->steps.p[k], lost) && mr_membership_ended(&t->members, lost, m->incarnations[lost]))
                stop_step(s, m->steps.p[k], mr_error(MR_UNAVAILABLE, "%s is lost", s->nodes[lost].name));
    }
}

bool mr_sim_master_knows(const mr_sim_task *t, const char *handle)
{
    char text[17];
    for (int i = 0; i < t->msessions.n; i++) {
        snprintf(text, sizeof text, "%016llx", (unsigned long long)t->msessions.p[i]->handle);
        if (strcmp(text, handle) == 0)
            return true;
    }
    return false;
}

int mr_sim_master_busy(const mr_sim_task *t)
{
    int n = 0;
    for (int i = 0; i < t->msessions.n; i++)
        n += t->msessions.p[i]->n_open;
    return n;
}

void mr_sim_master_deinit(mr_sim *s, mr_sim_task *t)
{
    (void)s;
    for (int i = 0; i < t->msessions.n; i++)
        session_free(t->msessions.p[i]);
    mr_vec_deinit(&t->msessions);
    mr_recent_deinit(&t->requests);
}
