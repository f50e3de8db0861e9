/* server/worker_run.c -- RunGraph: one task's share of a step.
 *
 * The values sent along go into the step's rendezvous, the graph runs, what was asked for is taken out of the rendezvous
 * and sent back.  A partial run is one flow and several calls: the first starts it, each feeds and fetches some,
 * the last one waits for its end. */
#include "base/memory.h"
#include "exec/trace.h"
#include "server/wire.h"
#include "server/worker_internal.h"

typedef struct run_request {
    mr_sv session, graph;
    int64_t step, request;
    bool partial, last, errors_in_body, session_made;
    bool costs, timeline, graphs; /* what is to be recorded */
    int depth;             /* of calls of functions, over tasks */
    MR_VEC(mr_sv) send; /* NamedTensorProtos */
    MR_VEC(mr_sv) recv; /* keys */
} run_request;

static void request_deinit(run_request *q)
{
    mr_vec_deinit(&q->send);
    mr_vec_deinit(&q->recv);
}

static void parse_recorded(mr_pb_reader *r, run_request *q)
{
    mr_pb_reader o; /* ExecutorOpts */
    uint32_t field, wire;
    if (!mr_pb_message(r, &o))
        return;
    while (mr_pb_next(&o, &field, &wire))
        switch (field) {
        case 1: q->costs = mr_pb_bool(&o); break;
        case 3: q->timeline = mr_pb_bool(&o); break;
        case 4: q->graphs = mr_pb_bool(&o); break;
        default: mr_pb_skip(&o);
        }
}

/* What is no depth is too deep. */
static int parse_depth(mr_pb_reader *r)
{
    int64_t depth = mr_pb_int64(r);
    return depth < 0 || depth > INT32_MAX ? INT32_MAX : (int)depth;
}

static mr_status *parse_run(mr_sv body, run_request *q)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *q = (run_request){0};
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_sv v = MR_SV("");
        if (wire == MR_WIRE_BYTES && (field == 1 || field == 3 || field == 4 || field == 8))
            v = mr_pb_bytes(&r);
        switch (field) {
        case 1: q->graph = v; break;
        case 2: q->step = mr_pb_int64(&r); break;
        case 3: mr_vec_push(&q->send, v); break;
        case 4: mr_vec_push(&q->recv, v); break;
        case 5: parse_recorded(&r, q); break;
        case 6: q->partial = mr_pb_bool(&r); break;
        case 7: q->last = mr_pb_bool(&r); break;
        case 8: q->session = v; break;
        case 9: q->errors_in_body = mr_pb_bool(&r); break;
        case 10: q->session_made = mr_pb_bool(&r); break;
        case 11: q->request = mr_pb_int64(&r); break;
        case MR_RUN_GRAPH_DEPTH: q->depth = parse_depth(&r); break;
        default: mr_pb_skip(&r);
        }
    }
    return mr_pb_reader_status(&r, "RunGraphRequest");
}

/* ---- one call ---- */

typedef struct wrun wrun;

/* The flow of a step; with partial runs shared by several calls. */
typedef struct mr_partial {
    mr_refs refs;
    mr_wgraph *graph;
    mr_flow *flow;
    mr_trace *trace; /* written while it runs, read when it is over; or NULL */
    mr_wstep *step; /* while it runs: Recvs of the flow go through it */
    mr_mutex mu;
    bool over MR_GUARDED_BY(mu);
    bool started MR_GUARDED_BY(mu), ended MR_GUARDED_BY(mu); /* the step has, so the flow is to */
    mr_status *st MR_GUARDED_BY(mu); /* how it ended */
    wrun *waiting MR_GUARDED_BY(mu); /* the call to be told of the end */
} mr_partial;

typedef struct wfetch { /* one value to be sent back */
    mr_recv w;          /* first */
    wrun *run;
    mr_rendezvous_key key;
    mr_sv name; /* into the call's body */
    mr_tensor *t;
    bool dead;
    mr_status *st;
} wfetch;

struct wrun {
    mr_net_call *call;
    mr_worker_service *worker;
    mr_wstep *step;
    mr_partial *flow;
    run_request q;
    int n_fetches;
    wfetch *fetches;
    _Atomic int n_left; /* fetches that are not there, and the end of the flow when it is waited for */
    mr_status *st;
};

void mr_partial_unref(mr_partial *p)
{
    if (!p || !mr_refs_drop(&p->refs))
        return;
    if (p->flow) {
        p->flow->trace = NULL;
        mr_program_give(p->flow);
    }
    mr_trace_free(p->trace);
    mr_wgraph_unref(p->graph);
    mr_status_free(p->st);
    mr_mutex_deinit(&p->mu);
    mr_free(p);
}

static void run_free(wrun *r)
{
    for (int i = 0; i < r->n_fetches; i++) {
        mr_rendezvous_key_deinit(&r->fetches[i].key);
        mr_tensor_unref(r->fetches[i].t);
        mr_status_free(r->fetches[i].st);
    }
    mr_free(r->fetches);
    request_deinit(&r->q);
    mr_partial_unref(r->flow);
    mr_wstep_unref(r->step);
    mr_status_free(r->st);
    mr_free(r);
}

/* ---- the answer ---- */

static mr_status *encode_values(wrun *r, mr_wire *w)
{
    for (int i = 0; i < r->n_fetches; i++) {
        wfetch *f = &r->fetches[i];
        if (f->st) {
            mr_status *st = f->st;
            f->st = NULL;
            return st;
        }
        if (f->dead || !f->t)
            return mr_invalid("The tensor returned for %.*s was not valid.", MR_SV_ARG(f->key.name));
        mr_wire_named(w, 1, f->name, f->t);
    }
    return NULL;
}

/* What was recorded, as fields of a RunGraphResponse: step_stats, cost_graph and partition_graph.  The number of each
 * is that of the same field of RunMetadata plus 1.  A step of which only the costs are wanted was traced, too. */
static mr_status *encode_recorded(wrun *r, mr_pb_writer *w)
{
    mr_partial *p = r->flow;
    mr_program *program = p->graph->program;
    mr_str metadata = {0};
    mr_pb_reader m;
    uint32_t field, wire;
    mr_trace *stats = r->q.costs && !r->q.timeline ? NULL : p->trace;
    mr_status *st = mr_trace_encode(stats, program->plans, r->q.graphs ? program->n_plans : 0, &metadata);
    if (!st && r->q.costs && p->trace) /* a partial run that did not ask for them at first has none */
        mr_trace_put_cost_graph(p->trace, program->plans, program->n_plans, &metadata);
    mr_pb_reader_init(&m, mr_str_view(&metadata));
    while (!st && mr_pb_next(&m, &field, &wire)) {
        mr_sv v = mr_pb_bytes(&m);
        mr_pb_put_bytes(w, field + 1, v);
    }
    mr_str_deinit(&metadata);
    return st;
}

static mr_status *begin_answer(wrun *r, mr_wire *w)
{
    bool over = r->flow && (!r->q.partial || r->q.last);
    mr_wire_init(w);
    return over && (r->flow->trace || r->q.graphs) ? encode_recorded(r, &w->pb) : NULL;
}

/* A task that is stopped, or a session that is ended, cancels its steps; why is told rather than that.  Of a call that
 * is cancelled by the end of its server no body is sent any more. */
static mr_status *why_stopped(wrun *r, mr_status *st)
{
    mr_worker_service *w = r->worker;
    if (mr_status_code(st) != MR_CANCELLED)
        return st;
    mr_lock(&w->mu);
    if (w->stopped)
        r->q.errors_in_body = false;
    mr_status *why = mr_status_copy(w->stopped ? w->stopped : r->flow ? r->flow->graph->session->ended : NULL);
    mr_unlock(&w->mu);
    if (why)
        mr_status_free(st);
    return why ? why : st;
}

/* An error goes into the body when the master asked so: a call's status is short. */
static void answer(wrun *r)
{
    mr_wire w;
    mr_bytes body = {0};
    mr_status *st = why_stopped(r, r->st);
    r->st = NULL;
    mr_status_update(&st, begin_answer(r, &w));
    if (!st)
        st = encode_values(r, &w);
    if (st && r->q.errors_in_body) {
        mr_wire_deinit(&w); /* of values that came before the error */
        mr_status_free(begin_answer(r, &w));
        char *text = mr_wire_error_text(st);
        mr_pb_put_varint(&w.pb, 5, mr_status_code(st));
        mr_pb_put_bytes(&w.pb, 6, mr_sv_of(text));
        mr_free(text);
        mr_status_free(st);
        st = NULL;
    }
    mr_status *encoded = mr_wire_finish(&w, &body);
    mr_status_update(&st, encoded);
    mr_reply(r->call, st, &body);
    mr_bytes_deinit(&body);
    run_free(r);
}

static void one_less(wrun *r)
{
    if (atomic_fetch_sub_explicit(&r->n_left, 1, memory_order_acq_rel) == 1)
        answer(r);
}

/* ---- values in and out ---- */

static mr_status *send_one(wrun *r, mr_sv named)
{
    mr_pb_reader p;
    uint32_t field, wire;
    mr_sv name = MR_SV(""), tensor = MR_SV("");
    mr_rendezvous_key key;
    uint64_t frame;
    int64_t iteration;
    mr_tensor *t;
    mr_pb_reader_init(&p, named);
    while (mr_pb_next(&p, &field, &wire))
        if (field == 1)
            name = mr_pb_bytes(&p);
        else if (field == 2)
            tensor = mr_pb_bytes(&p);
        else
            mr_pb_skip(&p);
    MR_TRY(mr_pb_reader_status(&p, "NamedTensorProto"));
    MR_TRY(mr_rendezvous_key_parse(name, &key, &frame, &iteration));
    mr_status *st = mr_tensor_decode(mr_cpu_allocator(), tensor, &t);
    if (!st)
        st = mr_rendezvous_send(r->step->rendezvous, &key, frame, iteration, t, false);
    mr_rendezvous_key_deinit(&key);
    return st;
}

static mr_status *make_fetches(wrun *r)
{
    r->n_fetches = r->q.recv.n;
    r->fetches = mr_new_array(wfetch, r->n_fetches + 1);
    for (int i = 0; i < r->n_fetches; i++) {
        wfetch *f = &r->fetches[i];
        f->run = r;
        f->name = r->q.recv.p[i];
        MR_TRY(mr_rendezvous_key_parse(f->name, &f->key, &f->w.frame, &f->w.iteration));
        f->w.key = &f->key;
    }
    return NULL;
}

static void fetched(mr_recv *w, mr_status *st, mr_tensor *t, bool dead)
{
    wfetch *f = (wfetch *)w;
    f->st = st;
    f->t = t;
    f->dead = dead;
    one_less(f->run);
}

/* After the flow all that was asked for is there, or never comes. */
static void take_fetches(wrun *r)
{
    for (int i = 0; i < r->n_fetches; i++) {
        wfetch *f = &r->fetches[i];
        mr_rendezvous_poll(r->step->rendezvous, &f->key, f->w.frame, f->w.iteration, &f->t, &f->dead);
    }
}

/* ---- running ---- */

static void flow_done(mr_flow *flow)
{
    mr_partial *p = flow->ctx;
    mr_wstep *s = p->step;
    mr_status *st = mr_flow_take_status(flow);
    mr_lock(&p->mu);
    p->over = true;
    wrun *r = p->waiting;
    p->waiting = NULL;
    if (!r)
        p->st = st;
    mr_unlock(&p->mu);
    if (r) {
        mr_status_update(&r->st, st);
        if (!r->st && !r->q.partial)
            take_fetches(r);
        one_less(r);
    }
    mr_wstep_unref(s);
    mr_partial_unref(p); /* the flow's */
}

/* The master has given the step up, and may not be there to clean it up.  A flow that has ended meanwhile takes no
 * harm: it is not given back before this call is answered.  That may happen in here: then r is gone behind it. */
static void caller_left(void *arg, mr_net_call *c)
{
    (void)c;
    wrun *r = arg;
    mr_worker_service *w = r->worker;
    mr_partial *p = r->flow;
    int64_t id = r->step->id;
    mr_refs_take(&p->refs); /* the flow may come to its end in here */
    mr_flow_fail(p->flow, mr_error(MR_CANCELLED, "RunGraph was cancelled"));
    mr_wstep_end(w, id, mr_error(MR_CANCELLED, "RunGraph was cancelled"));
    mr_partial_unref(p);
}

/* Between two calls nobody else would tell a flow that waits for something but values of its step. */
void mr_partial_end(mr_partial *p, const mr_status *why)
{
    if (!p)
        return;
    mr_lock(&p->mu);
    p->ended = true;
    bool running = p->started && !p->over;
    mr_unlock(&p->mu);
    if (running)
        mr_flow_fail(p->flow, mr_status_copy(why));
    mr_partial_unref(p);
}

static mr_status *flow_new(mr_wgraph *g, mr_partial **out)
{
    mr_partial *p = mr_new(mr_partial);
    mr_refs_init(&p->refs);
    mr_mutex_init(&p->mu);
    p->graph = g;
    mr_status *st = mr_program_take(g->program, &p->flow);
    if (st) {
        mr_partial_unref(p);
        p = NULL;
    }
    *out = p;
    return st;
}

static void start(wrun *r)
{
    mr_partial *p = r->flow;
    mr_flow *f = p->flow;
    mr_env *env = &p->graph->session->env;
    mr_refs_take(&p->refs); /* the flow's, until it is done */
    if (r->q.timeline || r->q.costs) {
        f->trace = p->trace = mr_trace_new();
        mr_trace_skew(p->trace, r->worker->skew_ns);
    }
    f->depth = r->q.depth;
    mr_refs_take(&r->step->refs);
    p->step = r->step;
    /* What is light runs where its values come: in threads of the transports. */
    mr_runner_reset(&f->own_runner, mr_program_is_light(p->graph->program) ? NULL : env->inter, NULL, false);
    mr_flow_start(f, &(mr_flow_start_args){.runner = &f->own_runner,
                                           .parent = env->cancel,
                                           .done = flow_done,
                                           .ctx = p,
                                           .rendezvous = r->step->rendezvous,
                                           .step_id = r->step->id});
}

/* The flow of this call: a new one, or that of the partial run it belongs to.  Takes over the graph. */
static mr_status *find_flow(wrun *r, mr_wgraph *g, bool *is_new)
{
    mr_wstep *s = r->step;
    mr_partial *made;
    MR_TRY(flow_new(g, &made));
    mr_lock(&s->mu);
    bool closed = s->closed;
    *is_new = !closed && !s->partial;
    if (*is_new && r->q.partial) {
        mr_refs_take(&made->refs);
        s->partial = made;
    }
    r->flow = closed ? NULL : s->partial ? s->partial : made;
    if (r->flow && r->flow != made)
        mr_refs_take(&r->flow->refs);
    mr_unlock(&s->mu);
    if (!*is_new)
        mr_partial_unref(made);
    return closed ? mr_error(MR_ABORTED, "Step %lld is over", (long long)s->id) : NULL;
}

/* The end of the flow is to be told to r: at once when it is over. */
static void wait_for_flow(wrun *r)
{
    mr_partial *p = r->flow;
    mr_lock(&p->mu);
    bool over = p->over, twice = p->waiting != NULL;
    mr_status *st = NULL;
    if (over) {
        st = p->st;
        p->st = NULL;
    } else if (twice) {
        st = mr_error(MR_ABORTED, "The last piece of step %lld came twice", (long long)r->step->id);
    } else {
        p->waiting = r;
    }
    mr_unlock(&p->mu);
    if (over || twice) {
        mr_status_update(&r->st, st);
        one_less(r);
    }
}

/* The step may have been ended before its flow was started. */
static void start_partial(wrun *r)
{
    mr_partial *p = r->flow;
    start(r);
    mr_lock(&p->mu);
    p->started = true;
    bool ended = p->ended && !p->over;
    mr_unlock(&p->mu);
    if (ended)
        mr_flow_fail(p->flow, mr_error(MR_ABORTED, "Step %lld is over", (long long)r->step->id));
}

static void run_partial(wrun *r, bool is_new)
{
    if (is_new)
        start_partial(r);
    if (r->q.last) {
        mr_wstep *s = r->step;
        mr_lock(&s->mu);
        mr_partial *p = s->partial;
        s->partial = NULL;
        s->closed = true;
        mr_unlock(&s->mu);
        wait_for_flow(r);
        mr_partial_unref(p);
    }
    for (int i = 0; i < r->n_fetches; i++) {
        r->fetches[i].w.fn = fetched;
        mr_rendezvous_recv(r->step->rendezvous, &r->fetches[i].w);
    }
}

/* What is of another task would be asked for there. */
static mr_status *check_fetches(const wrun *r, const mr_wsession *s)
{
    for (int i = 0; i < r->n_fetches; i++)
        if (!mr_sv_starts(r->fetches[i].key.src_device, s->prefix))
            return mr_invalid("%.*s is not fetched from here", MR_SV_ARG(r->fetches[i].name));
    return NULL;
}

/* What the flow is to find, then the flow. */
static mr_status *fill_step(wrun *r, mr_wgraph *g, bool *is_new)
{
    mr_status *st = NULL;
    for (int i = 0; !st && i < r->q.send.n; i++)
        st = send_one(r, r->q.send.p[i]);
    if (!st)
        return find_flow(r, g, is_new);
    mr_wgraph_unref(g);
    return st;
}

/* The step is made late, when little can refuse it any more, and ended then: who was refused does not clean up. */
static mr_status *open_run(mr_worker_service *w, mr_sv body, wrun *r, bool *is_new)
{
    mr_wgraph *g = NULL;
    r->worker = w;
    MR_TRY(parse_run(body, &r->q));
    MR_TRY(make_fetches(r));
    MR_TRY(mr_wgraph_find(w, r->q.graph, r->q.session_made ? &r->q.session : NULL, &g));
    mr_status *st = check_fetches(r, g->session);
    if (!st)
        st = mr_wstep_begin(w, r->q.step, r->q.request, r->q.partial, g->session, &r->step);
    if (st) {
        mr_wgraph_unref(g);
        return st;
    }
    st = fill_step(r, g, is_new);
    if (st)
        mr_wstep_end(w, r->q.step, mr_status_copy(st));
    return st;
}

void mr_worker_run_graph(void *service, mr_net_call *c, mr_sv body)
{
    wrun *r = mr_new(wrun);
    bool is_new = false;
    r->call = c;
    r->st = open_run(service, body, r, &is_new);
    if (r->st) {
        answer(r);
        return;
    }
    bool waits = !r->q.partial || r->q.last;
    atomic_init(&r->n_left, (r->q.partial ? r->n_fetches : 0) + waits + 1); /* one for this call */
    if (!r->q.partial) {
        r->flow->waiting = r;
        start(r);
    } else {
        run_partial(r, is_new);
    }
    if (!c->net->on_cancel(c, caller_left, r))
        caller_left(r, c);
    one_less(r);
}
