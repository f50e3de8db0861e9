/* server/worker_run.c -- RunGraph: one task's share of a step.
 *
 * The values in the request go into the step's rendezvous, the graph runs, and the requested values
 * are taken out of the rendezvous and sent back. A partial run is one flow and several calls: the
 * first call starts the flow, each call feeds and fetches some values, and the last one waits for the
 * flow to end.
 *
 * A call (wrun) is answered when n_left reaches 0: it counts the fetches that are missing, the end of
 * the flow if the call waits for it, and one for the function that handles the call. The thread that takes
 * it to 0 answers and frees the call, so no thread may touch the call after its own run_one_less. A flow
 * (mr_worker_flow) has one reference while it runs, one for each call, and one in the step while further
 * calls may follow.
 *
 *     call                        n_left at first
 *     ordinary step               2: the end of the flow, and the handler
 *     piece of a partial run      its fetches, and the handler
 *     last piece                  its fetches, the end of the flow, and the handler
 *
 * Locks: mr_worker_run.mu guards which flow a step has, mr_worker_flow.mu how far the flow is. They are never
 * held together, and not while a flow is started or failed. */
#include "base/memory.h"
#include "exec/trace.h"
#include "server/wire.h"
#include "server/worker_internal.h"

/* A RunGraphRequest; views into the call's body. */
typedef struct run_request {
    mr_sv session, graph;
    int64_t step, request;
    bool partial, last, errors_in_body, session_made;
    bool costs, timeline, graphs; /* what is to be recorded */
    int depth;             /* of calls of functions, over tasks */
    MR_VEC(mr_sv) send; /* NamedTensorProtos */
    MR_VEC(mr_sv) recv; /* keys */
} run_request;

/* Only the lists: the strings are views into the call's body. */
static void request_deinit(run_request *q)
{
    mr_vec_deinit(&q->send);
    mr_vec_deinit(&q->recv);
}

/* Parses the ExecutorOpts: what the worker is to record of the step. */
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

/* Anything that is not a valid depth counts as too deep. */
static int parse_depth(mr_pb_reader *r)
{
    int64_t depth = mr_pb_int64(r);
    return depth < 0 || depth > INT32_MAX ? INT32_MAX : (int)depth;
}

/* Parses a RunGraphRequest. The request's strings are views into the body. */
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

/* The flow of a step. The calls of a partial run share one. */
typedef struct mr_worker_flow {
    mr_refs refs;
    mr_wgraph *graph;
    mr_flow *flow;
    mr_trace *trace; /* written while it runs, read when it is over; or NULL */
    mr_worker_run *step;  /* a reference while the flow runs: its Recvs go through the step */
    mr_mutex mu;
    bool over MR_GUARDED_BY(mu);
    bool started MR_GUARDED_BY(mu);
    bool ended MR_GUARDED_BY(mu); /* the step has ended, so the flow must end, too */
    mr_status *st MR_GUARDED_BY(mu); /* how it ended */
    wrun *waiting MR_GUARDED_BY(mu); /* the call that waits for the end */
} mr_worker_flow;

/* One value to send back. */
typedef struct wfetch {
    mr_recv w;          /* first */
    wrun *run;
    mr_rendezvous_key key;
    mr_sv name; /* into the call's body */
    mr_tensor *t;
    bool dead;
    mr_status *st;
} wfetch;

/* A RunGraph that is not answered yet. */
struct wrun {
    mr_net_call *call;
    mr_worker_service *worker;
    mr_worker_run *step;
    mr_worker_flow *flow;
    run_request q;
    int n_fetches;
    wfetch *fetches;
    _Atomic int n_left; /* see the head of this file */
    mr_status *st;
};

/* Drops a reference; the last one returns the flow to its program, so the flow must be over or never
 * started. */
void mr_worker_flow_unref(mr_worker_flow *p)
{
    if (!p || !mr_refs_drop(&p->refs))
        return;
    MR_ASSERT(!p->waiting);
    MR_ASSERT(!p->started || p->over);
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

/* The call is answered. Its flow and its step may live longer. */
static void run_free(wrun *r)
{
    for (int i = 0; i < r->n_fetches; i++) {
        mr_rendezvous_key_deinit(&r->fetches[i].key);
        mr_tensor_unref(r->fetches[i].t);
        mr_status_free(r->fetches[i].st);
    }
    mr_free(r->fetches);
    request_deinit(&r->q);
    mr_worker_flow_unref(r->flow);
    mr_worker_run_unref(r->step);
    mr_status_free(r->st);
    mr_free(r);
}

/* ---- the answer ---- */

/* Adds the fetched values. Takes the first error that a fetch met. */
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

/* Adds what was recorded as fields of a RunGraphResponse: step_stats, cost_graph and partition_graph.
 * Each field's number is the one it has in RunMetadata plus 1. Costs are computed from a trace, so a
 * step that asked only for costs was traced, too, but does not send the trace. */
static mr_status *encode_recorded(wrun *r, mr_pb_writer *w)
{
    mr_worker_flow *p = r->flow;
    mr_program *program = p->graph->program;
    mr_str metadata = {0};
    mr_pb_reader m;
    uint32_t field, wire;
    mr_trace *stats = r->q.costs && !r->q.timeline ? NULL : p->trace;
    mr_status *st = mr_trace_encode(stats, program->plans, r->q.graphs ? program->n_plans : 0, &metadata);
    if (!st && r->q.costs && p->trace) /* there is no trace if the partial run's first call did not ask for one */
        mr_trace_put_cost_graph(p->trace, program->plans, program->n_plans, &metadata);
    mr_pb_reader_init(&m, mr_str_view(&metadata));
    while (!st && mr_pb_next(&m, &field, &wire)) {
        mr_sv v = mr_pb_bytes(&m);
        mr_pb_put_bytes(w, field + 1, v);
    }
    mr_str_deinit(&metadata);
    return st;
}

/* Starts the answer with what was recorded, which is complete only when the flow is over. */
static mr_status *begin_answer(wrun *r, mr_wire *w)
{
    bool over = r->flow && (!r->q.partial || r->q.last);
    mr_wire_init(w);
    return over && (r->flow->trace || r->q.graphs) ? encode_recorded(r, &w->pb) : NULL;
}

/* Replaces CANCELLED by the reason for it when this task was stopped or the session ended. Takes st. A
 * call that is cancelled because its server stops cannot send a body any more, so the error goes into
 * its status. */
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

/* Answers the call and frees it. An error goes into the body if the master asked for that, because the
 * length of a gRPC status is limited.
 *
 * Fields of a RunGraphResponse: 1 recv (named tensors), 2 step_stats, 3 cost_graph, 4 partition_graph,
 * 5 status_code, 6 status_error_message. */
static void answer_run(wrun *r)
{
    mr_wire w;
    mr_bytes body = {0};
    MR_ASSERT(r->call);
    mr_status *st = why_stopped(r, r->st);
    r->st = NULL;
    mr_status_update(&st, begin_answer(r, &w));
    if (!st)
        st = encode_values(r, &w);
    if (st && r->q.errors_in_body) {
        mr_wire_deinit(&w); /* drops the values that were added before the error */
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

/* One of the things the call waits for is done. The caller must not use r afterwards. */
static void run_one_less(wrun *r)
{
    MR_ASSERT(atomic_load_explicit(&r->n_left, memory_order_relaxed) > 0);
    if (atomic_fetch_sub_explicit(&r->n_left, 1, memory_order_acq_rel) == 1)
        answer_run(r);
}

/* ---- values in and out ---- */

/* Puts one fed value (a NamedTensorProto whose name is a rendezvous key) into the step's rendezvous. */
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

/* Makes a receive for each key in recv_key. The keys' names are views into the call's body, which
 * lives until the answer. */
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

/* A value that a call of a partial run fetches has arrived, or never will. */
static void value_fetched(mr_recv *w, mr_status *st, mr_tensor *t, bool dead)
{
    wfetch *f = (wfetch *)w;
    MR_ASSERT(f->run->q.partial && !f->t && !f->st);
    f->st = st;
    f->t = t;
    f->dead = dead;
    run_one_less(f->run);
}

/* Takes the fetched values out of the rendezvous after the flow has ended. A value that is missing now
 * never arrives; encode_values reports it. */
static void take_fetches(wrun *r)
{
    for (int i = 0; i < r->n_fetches; i++) {
        wfetch *f = &r->fetches[i];
        mr_rendezvous_poll(r->step->rendezvous, &f->key, f->w.frame, f->w.iteration, &f->t, &f->dead);
    }
}

/* ---- running ---- */

/* The flow has ended. If a call waits for that, it gets the status; otherwise the status is kept for
 * the last call. */
static void flow_done(mr_flow *flow)
{
    mr_worker_flow *p = flow->ctx;
    mr_worker_run *s = p->step;
    mr_status *st = mr_flow_take_status(flow);
    MR_ASSERT(s);
    mr_lock(&p->mu);
    MR_ASSERT(!p->over);
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
        run_one_less(r);
    }
    mr_worker_run_unref(s);
    mr_worker_flow_unref(p); /* the flow's */
}

/* The master cancelled the call, and may not be there to clean up, so the step ends too. If the flow
 * has ended meanwhile, failing it has no effect: it is not returned to its program before this call is
 * answered. The call may be answered and freed in here, so what is needed of r is read first. */
static void caller_left(void *arg, mr_net_call *c)
{
    (void)c;
    wrun *r = arg;
    mr_worker_service *w = r->worker;
    mr_worker_flow *p = r->flow;
    int64_t id = r->step->id;
    mr_refs_take(&p->refs); /* the flow may end inside mr_flow_fail */
    mr_flow_fail(p->flow, mr_error(MR_CANCELLED, "RunGraph was cancelled"));
    mr_worker_run_end(w, id, mr_error(MR_CANCELLED, "RunGraph was cancelled"));
    mr_worker_flow_unref(p);
}

/* Between two calls of a partial run, the flow may wait for something other than a value of its step,
 * so aborting the rendezvous would not end it. A flow that is not started yet is failed by
 * start_partial. */
void mr_worker_flow_end(mr_worker_flow *p, const mr_status *why)
{
    if (!p)
        return;
    mr_lock(&p->mu);
    p->ended = true;
    bool running = p->started && !p->over;
    mr_unlock(&p->mu);
    if (running)
        mr_flow_fail(p->flow, mr_status_copy(why));
    mr_worker_flow_unref(p);
}

/* Makes a flow of the graph; takes the caller's reference to g, also on failure. */
static mr_status *flow_new(mr_wgraph *g, mr_worker_flow **out)
{
    mr_worker_flow *p = mr_new(mr_worker_flow);
    mr_refs_init(&p->refs);
    mr_mutex_init(&p->mu);
    p->graph = g;
    mr_status *st = mr_program_take(g->program, &p->flow);
    if (st) {
        mr_worker_flow_unref(p);
        p = NULL;
    }
    *out = p;
    return st;
}

/* Starts the flow. A program of cheap nodes runs on the threads that bring its values, that is,
 * transport threads; others use the session's pool. */
static void start_flow(wrun *r)
{
    mr_worker_flow *p = r->flow;
    mr_flow *f = p->flow;
    mr_env *env = &p->graph->session->env;
    MR_ASSERT(!p->step && !p->trace && r->step);
    mr_refs_take(&p->refs); /* the flow's, until it is done */
    if (r->q.timeline || r->q.costs) {
        f->trace = p->trace = mr_trace_new();
        mr_trace_skew(p->trace, r->worker->skew_ns);
    }
    f->depth = r->q.depth;
    mr_refs_take(&r->step->refs);
    p->step = r->step;
    mr_runner_reset(&f->own_runner, mr_program_is_light(p->graph->program) ? NULL : env->inter, NULL, false);
    mr_flow_start(f, &(mr_flow_start_args){.runner = &f->own_runner,
                                           .parent = env->cancel,
                                           .done = flow_done,
                                           .ctx = p,
                                           .rendezvous = r->step->rendezvous,
                                           .step_id = r->step->id});
}

/* Finds the flow of this call: a new one, or that of the partial run it belongs to. Takes the
 * reference to the graph. A new flow is made first and dropped if it is not needed, because it cannot
 * be made under the step's lock. */
static mr_status *find_flow(wrun *r, mr_wgraph *g, bool *is_new)
{
    mr_worker_run *s = r->step;
    mr_worker_flow *made;
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
        mr_worker_flow_unref(made);
    return closed ? mr_error(MR_ABORTED, "Step %lld is over", (long long)s->id) : NULL;
}

/* Makes the call wait for the flow's end; if it is over, takes its status at once. A last call that
 * arrives twice is refused. */
static void wait_for_flow(wrun *r)
{
    mr_worker_flow *p = r->flow;
    mr_lock(&p->mu);
    bool over = p->over, twice = p->waiting != NULL;
    mr_status *st = NULL;
    if (over) {
        st = p->st;
        p->st = NULL;
    } else if (twice) {
        st = mr_error(MR_ABORTED, "The last piece of step %lld arrived twice", (long long)r->step->id);
    } else {
        p->waiting = r;
    }
    mr_unlock(&p->mu);
    if (over || twice) {
        mr_status_update(&r->st, st);
        run_one_less(r);
    }
}

/* Starts the flow of a partial run. The step may have been ended before `started` was set:
 * mr_worker_flow_end left the flow alone then, and it is failed here. */
static void start_partial(wrun *r)
{
    mr_worker_flow *p = r->flow;
    start_flow(r);
    mr_lock(&p->mu);
    p->started = true;
    bool ended = p->ended && !p->over;
    mr_unlock(&p->mu);
    if (ended)
        mr_flow_fail(p->flow, mr_error(MR_ABORTED, "Step %lld is over", (long long)r->step->id));
}

/* One call of a partial run: starts the flow if this is the first call, waits for its end if it is the
 * last, and asks for the call's fetches. With the last call the step gives up its reference to the
 * flow. */
static void run_partial(wrun *r, bool is_new)
{
    if (is_new)
        start_partial(r);
    if (r->q.last) {
        mr_worker_run *s = r->step;
        mr_lock(&s->mu);
        mr_worker_flow *p = s->partial;
        s->partial = NULL;
        s->closed = true;
        mr_unlock(&s->mu);
        wait_for_flow(r);
        mr_worker_flow_unref(p);
    }
    for (int i = 0; i < r->n_fetches; i++) {
        r->fetches[i].w.fn = value_fetched;
        mr_rendezvous_recv(r->step->rendezvous, &r->fetches[i].w);
    }
}

/* Refuses keys whose source is another task: their Recv would be sent there. */
static mr_status *check_fetches(const wrun *r, const mr_wsession *s)
{
    for (int i = 0; i < r->n_fetches; i++)
        if (!mr_sv_starts(r->fetches[i].key.src_device, s->prefix))
            return mr_invalid("%.*s cannot be fetched from this task: its source is a device of another task",
                              MR_SV_ARG(r->fetches[i].name));
    return NULL;
}

/* Sends the fed values, then finds the flow, so that the flow never waits for a feed. Takes the
 * reference to g. */
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

/* Parses and checks the request and opens its step. The step is made late, when little can fail any
 * more, and a failure after that ends it at once: a master does not clean up a step that was refused. */
static mr_status *open_run(mr_worker_service *w, mr_sv body, wrun *r, bool *is_new)
{
    mr_wgraph *g = NULL;
    r->worker = w;
    MR_TRY(parse_run(body, &r->q));
    MR_TRY(make_fetches(r));
    MR_TRY(mr_wgraph_find(w, r->q.graph, r->q.session_made ? &r->q.session : NULL, &g));
    mr_status *st = check_fetches(r, g->session);
    if (!st)
        st = mr_worker_run_begin(w, r->q.step, r->q.request, r->q.partial, g->session, &r->step);
    if (st) {
        mr_wgraph_unref(g);
        return st;
    }
    /* From here on the step exists, and others may wait for its values: a failure has to end it. */
    st = fill_step(r, g, is_new);
    if (st)
        mr_worker_run_end(w, r->q.step, mr_status_copy(st));
    return st;
}

/* Handles RunGraph on the transport's thread. The call holds one of n_left until on_cancel is set, so
 * r is valid there. */
void mr_worker_handle_run_graph(void *service, mr_net_call *c, mr_sv body)
{
    wrun *r = mr_new(wrun);
    bool is_new = false;
    r->call = c;
    r->st = open_run(service, body, r, &is_new);
    if (r->st) {
        answer_run(r);
        return;
    }
    MR_ASSERT(r->flow && r->step);
    bool waits = !r->q.partial || r->q.last;
    atomic_init(&r->n_left, (r->q.partial ? r->n_fetches : 0) + waits + 1); /* 1: this function */
    if (!r->q.partial) {
        r->flow->waiting = r; /* nobody else knows the flow yet, so no lock is needed */
        start_flow(r);
    } else {
        run_partial(r, is_new);
    }
    if (!c->net->on_cancel(c, caller_left, r))
        caller_left(r, c);
    run_one_less(r);
}
