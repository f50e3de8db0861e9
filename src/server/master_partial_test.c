/* server/master_partial_test.c -- partial runs, callables and traced steps through a master. */
#include <math.h>

#include "base/memory.h"
#include "base/thread.h"
#include "graph/graph_def.h"
#include "server/cluster_fixture.h"
#include "server/host.h"
#include "server/transfers.h"
#include "server/wire.h"

/* ---- partial runs ---- */

typedef struct partial {
    cluster_fixture b;
    mr_out x, y, sum, product; /* sum = x + y; product = sum * z, on another task */
    mr_out z;
    char *handle;
} partial;

static void begin_partial(partial *p, mr_net *net)
{
    cluster_fixture_begin_on(&p->b, net, 2, 1);
    mr_scope *s = &p->b.s;
    p->x = mr_placeholder(s, MR_FLOAT, "x", &mr_pshape_scalar);
    p->y = mr_placeholder(s, MR_FLOAT, "y", &mr_pshape_scalar);
    p->z = mr_placeholder(s, MR_FLOAT, "z", &mr_pshape_scalar);
    s->device = "/job:ps/task:0";
    p->sum = mr_emit(s, "AddV2", p->x, p->y);
    s->device = "/job:ps/task:1";
    p->product = mr_emit(s, "Mul", p->sum, p->z);
    s->device = "";
    mr_session *session = cluster_fixture_session_of(&p->b);
    mr_out feeds[] = {p->x, p->y, p->z}, fetches[] = {p->sum, p->product};
    mr_run_args a = {.feeds = feeds, .n_feeds = 3, .fetches = fetches, .n_fetches = 2};
    p->handle = NULL;
    MR_CHECK_OK(session->ops->partial_setup(session, &a, &p->handle));
}

static void end_partial(partial *p)
{
    mr_free(p->handle);
    cluster_fixture_end(&p->b);
}

/* Feeds some (up to two) and fetches one, or none. */
static mr_status *step(partial *p, mr_out f1, float v1, mr_out f2, float v2, mr_out fetch, float *out)
{
    mr_session *s = p->b.session;
    mr_out feeds[] = {f1, f2};
    mr_tensor *values[] = {mr_tensor_scalar_f32(v1), mr_tensor_scalar_f32(v2)}, *got = NULL;
    mr_run_args a = {.feeds = feeds, .feed_values = values, .n_feeds = (f1.node != NULL) + (f2.node != NULL),
                     .fetches = &fetch, .fetched = &got, .n_fetches = fetch.node != NULL};
    mr_status *st = s->ops->partial_run(s, p->handle, &a, NULL);
    if (!st && got)
        *out = *MR_DATA(float, got);
    mr_tensor_unref(got);
    mr_tensor_unref(values[0]);
    mr_tensor_unref(values[1]);
    return st;
}

static void runs_piece_by_piece(mr_net *net)
{
    partial p;
    float v = 0;
    begin_partial(&p, net);
    MR_CHECK_OK(step(&p, p.x, 2, p.y, 3, p.sum, &v));
    MR_CHECK_NEAR(v, 5, 0);
    MR_CHECK_OK(step(&p, p.z, v + 1, cluster_fixture_nothing, 0, p.product, &v));
    MR_CHECK_NEAR(v, 30, 0);
    /* All is used: the run is over. */
    MR_CHECK_ERR(step(&p, p.x, 2, cluster_fixture_nothing, 0, cluster_fixture_nothing, &v), MR_INVALID_ARGUMENT,
                 "Must run 'setup'");
    end_partial(&p);
}

MR_TEST(partial_run_through_a_master) { runs_piece_by_piece(mr_net_loop()); }
MR_TEST(partial_run_through_a_master_of_one_host) { runs_piece_by_piece(mr_net_local()); }

MR_TEST(partial_run_through_a_master_refuses_what_was_used)
{
    partial p;
    float v = 0;
    begin_partial(&p, mr_net_loop());
    MR_CHECK_ERR(step(&p, p.x, 1, cluster_fixture_nothing, 0, p.sum, &v), MR_INVALID_ARGUMENT, "can't be computed");
    MR_CHECK_OK(step(&p, p.x, 1, p.y, 1, p.sum, &v)); /* that changed nothing */
    MR_CHECK_ERR(step(&p, p.x, 1, cluster_fixture_nothing, 0, cluster_fixture_nothing, &v), MR_INVALID_ARGUMENT,
                 "already been fed");
    MR_CHECK_ERR(step(&p, cluster_fixture_nothing, 1, cluster_fixture_nothing, 0, p.sum, &v), MR_INVALID_ARGUMENT,
                 "already been fetched");
    MR_CHECK_OK(step(&p, p.z, 4, cluster_fixture_nothing, 0, p.product, &v));
    MR_CHECK_NEAR(v, 8, 0);
    end_partial(&p);
}

MR_TEST(partial_run_through_a_master_knows_its_handles)
{
    partial p;
    float v = 0;
    begin_partial(&p, mr_net_loop());
    mr_free(p.handle);
    p.handle = mr_strdup("77");
    MR_CHECK_ERR(step(&p, p.x, 1, cluster_fixture_nothing, 0, cluster_fixture_nothing, &v), MR_INVALID_ARGUMENT,
                 "Must run 'setup'");
    end_partial(&p);
}

/* Two runs of the same signature do not meet. */
MR_TEST(partial_runs_through_a_master_are_apart)
{
    partial p;
    float v = 0;
    begin_partial(&p, mr_net_local());
    mr_session *s = p.b.session;
    mr_out feeds[] = {p.x, p.y, p.z}, fetches[] = {p.sum, p.product};
    char *first = p.handle, *second = NULL;
    MR_CHECK_OK(s->ops->partial_setup(s, &(mr_run_args){.feeds = feeds, .n_feeds = 3, .fetches = fetches, .n_fetches = 2}, &second));
    MR_CHECK_OK(step(&p, p.x, 1, p.y, 2, p.sum, &v));
    p.handle = second;
    MR_CHECK_OK(step(&p, p.x, 10, p.y, 20, p.sum, &v));
    MR_CHECK_NEAR(v, 30, 0);
    p.handle = first;
    MR_CHECK_OK(step(&p, p.z, 2, cluster_fixture_nothing, 0, p.product, &v));
    MR_CHECK_NEAR(v, 6, 0);
    mr_free(second); /* and one is left open: the session's end takes it along */
    end_partial(&p);
}

/* A task that is lost between two calls. */
MR_TEST(partial_run_through_a_master_ends_with_its_task)
{
    partial p;
    float v = 0;
    begin_partial(&p, mr_net_local());
    MR_CHECK_OK(step(&p, p.x, 1, p.y, 2, p.sum, &v));
    cluster_fixture_stop_task(&p.b, 1);
    MR_CHECK_ERR(step(&p, p.z, 2, cluster_fixture_nothing, 0, p.product, &v), MR_UNAVAILABLE,
                 "/job:ps/replica:0/task:1");
    MR_CHECK_ERR(step(&p, p.z, 2, cluster_fixture_nothing, 0, p.product, &v), MR_INVALID_ARGUMENT, "Must run 'setup'");
    end_partial(&p);
}

/* What fails on one task ends the run on the others, also what waits there for something else. */
MR_TEST(partial_run_through_a_master_ends_everywhere)
{
    cluster_fixture b;
    float v = 0;
    const int types[] = {MR_FLOAT};
    cluster_fixture_begin_on(&b, mr_net_local(), 1, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    mr_out y = mr_emit_with(&b.s, "CheckNumerics", MR_ATTRS({"message", mr_a_str("bad")}), mr_emit(&b.s, "Log", x));
    b.s.device = "/job:ps/task:0";
    mr_out q = mr_emit0_with(&b.s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}, {"shared_name", mr_a_str("q")}));
    mr_out get = mr_emit_with(&b.s, "QueueDequeueV2", MR_ATTRS({"component_types", mr_a_types(1, types)}), q);
    mr_out put = mr_emit_with(&b.s, "QueueEnqueueV2", MR_ATTRS({"Tcomponents", mr_a_types(1, types)}), q, mr_const_f32(&b.s, 5));
    mr_session *s = cluster_fixture_session_of(&b);
    mr_run_args a = {.feeds = &x, .n_feeds = 1, .fetches = &y, .n_fetches = 1, .targets = &get.node, .n_targets = 1};
    partial p = {.b = b};
    MR_CHECK_OK(s->ops->partial_setup(s, &a, &p.handle));
    MR_CHECK_ERR(step(&p, x, -1, cluster_fixture_nothing, 0, y, &v), MR_INVALID_ARGUMENT, "bad");
    /* The dequeue of that run would take it. */
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, cluster_fixture_nothing, put.node, &v));
    MR_CHECK_OK(cluster_fixture_run(&b, cluster_fixture_nothing, 0, get, NULL, &v));
    MR_CHECK_NEAR(v, 5, 0);
    mr_free(p.handle);
    cluster_fixture_end(&b);
}

/* Calls of one run from several threads take turns. */
typedef struct feeder {
    partial *p;
    mr_out feed, fetch;
    mr_status *st;
    mr_thread thread;
} feeder;

static void feed_it(void *arg)
{
    feeder *f = arg;
    float v;
    f->st = step(f->p, f->feed, 1, cluster_fixture_nothing, 0, f->fetch, &v);
}

MR_TEST(partial_run_through_a_master_takes_calls_in_turn)
{
    partial p;
    begin_partial(&p, mr_net_local());
    float v = 0;
    MR_CHECK_OK(step(&p, p.y, 1, cluster_fixture_nothing, 0, cluster_fixture_nothing, &v));
    feeder f[2] = {{.p = &p, .feed = p.x, .fetch = cluster_fixture_nothing},
                   {.p = &p, .feed = p.z, .fetch = cluster_fixture_nothing}};
    for (int i = 0; i < 2; i++)
        MR_CHECK_INT(mr_thread_start(&f[i].thread, "feeder", feed_it, &f[i]), 0);
    for (int i = 0; i < 2; i++) {
        mr_thread_join(&f[i].thread);
        MR_CHECK_OK(f[i].st);
    }
    MR_CHECK_OK(step(&p, cluster_fixture_nothing, 0, cluster_fixture_nothing, 0, p.sum, &v));
    MR_CHECK_OK(step(&p, cluster_fixture_nothing, 0, cluster_fixture_nothing, 0, p.product, &v));
    MR_CHECK_NEAR(v, 2, 0);
    end_partial(&p);
}

/* ---- callables ---- */

typedef struct callable {
    cluster_fixture b;
    mr_str session, reply; /* handle of the session; the last reply */
    int64_t handle;
} callable;

static mr_status *call(callable *k, const char *method, mr_str *body)
{
    return cluster_fixture_call(k->b.net, "worker0:1", method, body, &k->reply);
}

static mr_status *make(callable *k, const char *feed, const char *fetch)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&k->session));
    size_t mark = mr_pb_begin(&w, 2);
    mr_pb_put_bytes(&w, 1, mr_sv_of(feed));
    mr_pb_put_bytes(&w, 2, mr_sv_of(fetch));
    mr_pb_end(&w, mark);
    MR_TRY(call(k, MR_MASTER_SERVICE "MakeCallable", &body));
    mr_pb_reader r;
    uint32_t field, wire;
    k->handle = 0;
    mr_pb_reader_init(&r, mr_str_view(&k->reply));
    while (mr_pb_next(&r, &field, &wire))
        k->handle = mr_pb_int64(&r);
    return mr_pb_reader_status(&r, "MakeCallableResponse");
}

/* A session with y = -x, made by hand. */
static void begin_callable(callable *k)
{
    mr_str body = {0}, graph = {0};
    mr_pb_writer w;
    *k = (callable){0};
    cluster_fixture_begin(&k->b, 1, 1);
    mr_out x = mr_placeholder(&k->b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    k->b.s.device = "/job:ps/task:0";
    mr_emit(mr_as(&k->b.s, "y"), "Neg", x);
    MR_CHECK_OK(mr_scope_status(&k->b.s));
    MR_CHECK_OK(mr_graph_export(k->b.g, &graph));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&graph));
    MR_CHECK_OK(call(k, MR_MASTER_SERVICE "CreateSession", &body));
    mr_sv handle = mr_wire_field(mr_str_view(&k->reply), 1);
    mr_str_append(&k->session, handle.p, handle.n);
    mr_str_deinit(&graph);
}

static void end_callable(callable *k)
{
    mr_str_deinit(&k->session);
    mr_str_deinit(&k->reply);
    cluster_fixture_end(&k->b);
}

static mr_status *run_callable(callable *k, int n_feeds, float value, float *out)
{
    mr_str body = {0}, proto = {0};
    mr_pb_writer w;
    mr_tensor *t = mr_tensor_scalar_f32(value), *got;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&k->session));
    mr_pb_opt_varint(&w, 2, (uint64_t)k->handle);
    MR_CHECK_OK(mr_tensor_encode(t, &proto));
    for (int i = 0; i < n_feeds; i++)
        mr_pb_put_bytes(&w, 3, mr_str_view(&proto));
    mr_str_deinit(&proto);
    mr_tensor_unref(t);
    MR_TRY(call(k, MR_MASTER_SERVICE "RunCallable", &body));
    MR_TRY(mr_tensor_decode(mr_cpu_allocator(), mr_wire_field(mr_str_view(&k->reply), 1), &got));
    *out = *MR_DATA(float, got);
    mr_tensor_unref(got);
    return NULL;
}

static mr_status *release(callable *k)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&k->session));
    mr_pb_opt_varint(&w, 2, (uint64_t)k->handle);
    return call(k, MR_MASTER_SERVICE "ReleaseCallable", &body);
}

MR_TEST(callable_runs_until_it_is_released)
{
    callable k;
    float v = 0;
    begin_callable(&k);
    for (int i = 0; i < 3; i++) { /* handles are told apart */
        MR_CHECK_OK(make(&k, "x:0", "y:0"));
        MR_CHECK_INT((int)k.handle, i);
    }
    for (int i = 0; i < 5; i++) {
        MR_CHECK_OK(run_callable(&k, 1, (float)i, &v));
        MR_CHECK_NEAR(v, -i, 0);
    }
    MR_CHECK_OK(release(&k));
    MR_CHECK_ERR(run_callable(&k, 1, 1, &v), MR_INVALID_ARGUMENT, "after handle was released");
    MR_CHECK_OK(release(&k)); /* as in TensorFlow */
    k.handle = 0;
    MR_CHECK_OK(run_callable(&k, 1, 1, &v));
    end_callable(&k);
}

static mr_status *make_connected(callable *k, const char *from, const char *to, const char *feed, const char *fetch)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&k->session));
    size_t mark = mr_pb_begin(&w, 2);
    mr_pb_put_bytes(&w, 1, mr_sv_of(feed));
    mr_pb_put_bytes(&w, 2, mr_sv_of(fetch));
    size_t connection = mr_pb_begin(&w, 5);
    mr_pb_put_bytes(&w, 1, mr_sv_of(from));
    mr_pb_put_bytes(&w, 2, mr_sv_of(to));
    mr_pb_end(&w, connection);
    mr_pb_end(&w, mark);
    k->handle = 0;
    return call(k, MR_MASTER_SERVICE "MakeCallable", &body);
}

MR_TEST(callable_connects_tensors)
{
    callable k;
    float v = 0;
    begin_callable(&k);
    /* The graph has x and y = Neg(x); extended by z and w = Square(z). */
    mr_out z = mr_placeholder(&k.b.s, MR_FLOAT, "z", &mr_pshape_scalar);
    mr_emit(mr_as(&k.b.s, "w"), "Square", z);
    mr_str body = {0}, graph = {0};
    mr_pb_writer w;
    MR_CHECK_OK(mr_graph_export_since(k.b.g, 2, &graph));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, mr_str_view(&k.session));
    mr_pb_put_bytes(&w, 2, mr_str_view(&graph));
    mr_str_deinit(&graph);
    MR_CHECK_OK(call(&k, MR_MASTER_SERVICE "ExtendSession", &body));
    MR_CHECK_OK(make_connected(&k, "y:0", "z:0", "x:0", "w:0"));
    MR_CHECK_OK(run_callable(&k, 1, 3, &v));
    MR_CHECK_NEAR(v, 9, 0); /* Square(Neg(3)) */
    MR_CHECK_ERR(make_connected(&k, "y:0", "z:0", "z:0", "w:0"), MR_INVALID_ARGUMENT, "both fed and connected");
    MR_CHECK_ERR(make_connected(&k, "gone:0", "z:0", "x:0", "w:0"), MR_NOT_FOUND, "gone");
    MR_CHECK_ERR(make_connected(&k, "y:0", "x:0", "z:0", "y:0"), MR_INVALID_ARGUMENT, "y"); /* a circle */
    end_callable(&k);
}

MR_TEST(callable_tells_what_is_wrong_when_it_is_made)
{
    callable k;
    float v;
    begin_callable(&k);
    MR_CHECK_ERR(make(&k, "x:0", "nothing:0"), MR_NOT_FOUND, "nothing:0");
    MR_CHECK_ERR(make(&k, "x:0", "y:1"), MR_INVALID_ARGUMENT, "y");
    MR_CHECK_OK(make(&k, "x:0", "y:0"));
    MR_CHECK_ERR(run_callable(&k, 2, 1, &v), MR_INVALID_ARGUMENT, "Expected 1 feed tensors, but got 2");
    k.handle = 99;
    MR_CHECK_ERR(run_callable(&k, 1, 1, &v), MR_INVALID_ARGUMENT, "No such callable handle: 99");
    end_callable(&k);
}

/* ---- traces ---- */

static bool mentions(mr_sv bytes, const char *text) { return memmem(bytes.p, bytes.n, text, strlen(text)) != NULL; }

MR_TEST(server_traces_a_step_on_all_tasks)
{
    cluster_fixture b;
    mr_str metadata = {0};
    mr_tensor *got = NULL;
    cluster_fixture_begin(&b, 2, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(mr_as(&b.s, "first"), "Neg", x);
    b.s.device = "/job:ps/task:1";
    mr_out z = mr_emit(mr_as(&b.s, "second"), "Square", y);
    mr_tensor *one = mr_tensor_scalar_f32(1);
    mr_run_args a = {.feeds = &x, .feed_values = &one, .n_feeds = 1, .fetches = &z, .fetched = &got, .n_fetches = 1};
    mr_session *s = cluster_fixture_session_of(&b);
    MR_CHECK_OK(mr_session_run(s, &a, NULL, &metadata));
    MR_CHECK_INT((int)metadata.n, 0); /* nobody asked */
    mr_tensor_unref(got);
    MR_CHECK_OK(mr_session_run(s, &a, &(mr_run_options){.trace_level = 3, .output_partition_graphs = true}, &metadata));
    mr_tensor_unref(got);
    mr_tensor_unref(one);
    mr_sv stats = mr_wire_field(mr_str_view(&metadata), 1);
    MR_CHECK(mentions(stats, "/job:ps/replica:0/task:0/device:CPU:0") && mentions(stats, "first"));
    MR_CHECK(mentions(stats, "/job:ps/replica:0/task:1/device:CPU:0") && mentions(stats, "second"));
    mr_sv graph = mr_wire_field(mr_str_view(&metadata), 3);
    MR_CHECK(graph.n > 0);
    mr_str_deinit(&metadata);
    cluster_fixture_end(&b);
}

/* The node of a CostGraphDef with this name; "": there is none. */
static mr_sv cost_node(mr_sv graph, const char *name)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_reader_init(&r, graph);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_sv node = mr_pb_bytes(&r);
        if (field == 1 && mr_sv_is(mr_wire_field(node, 1), name))
            return node;
    }
    return MR_SV("");
}

/* build_cost_model 2 and build_cost_model_after 1: of the steps 2, 4, 6 and so on. */
MR_TEST(server_gives_the_costs_of_some_steps_on_all_tasks)
{
    cluster_fixture b;
    mr_tensor *got = NULL;
    cluster_fixture_begin(&b, 2, 1);
    mr_str_append(&b.config, "\x52\x04\x20\x02\x48\x01", 6); /* ConfigProto.graph_options */
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(mr_as(&b.s, "first"), "Neg", x);
    b.s.device = "/job:ps/task:1";
    mr_out z = mr_emit(mr_as(&b.s, "second"), "Square", y);
    mr_tensor *one = mr_tensor_scalar_f32(1);
    mr_run_args a = {.feeds = &x, .feed_values = &one, .n_feeds = 1, .fetches = &z, .fetched = &got, .n_fetches = 1};
    for (int step = 0; step < 7; step++) {
        mr_str metadata = {0};
        bool traced = step == 4;
        mr_run_options full = {.trace_level = MR_FULL_TRACE};
        MR_CHECK_OK(mr_session_run(cluster_fixture_session_of(&b), &a, traced ? &full : NULL, &metadata));
        mr_tensor_unref(got);
        mr_sv all = mr_str_view(&metadata), costs = mr_wire_field(all, 2);
        MR_CHECK((mr_wire_field(all, 1).n > 0) == traced);
        MR_CHECK((costs.n > 0) == (step == 2 || step == 4 || step == 6));
        mr_sv first = cost_node(costs, "first"), second = cost_node(costs, "second");
        if (costs.n) {
            MR_CHECK(mr_sv_is(mr_wire_field(first, 2), "/job:ps/replica:0/task:0/device:CPU:0"));
            MR_CHECK(mr_sv_is(mr_wire_field(second, 2), "/job:ps/replica:0/task:1/device:CPU:0"));
            MR_CHECK(mentions(mr_wire_field(second, 5), "\x08\x04")); /* OutputInfo.size: a float */
        }
        mr_str_deinit(&metadata);
    }
    mr_tensor_unref(one);
    cluster_fixture_end(&b);
}

/* A step that fails has none, and counts. */
MR_TEST(server_gives_no_costs_of_a_step_that_failed)
{
    cluster_fixture b;
    cluster_fixture_begin(&b, 1, 1);
    mr_str_append(&b.config, "\x52\x02\x20\x02", 4);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit_with(mr_as(&b.s, "checked"), "CheckNumerics", MR_ATTRS({"message", mr_a_str("bad")}), x);
    for (int step = 0; step < 4; step++) {
        mr_str metadata = {0};
        mr_tensor *got = NULL, *value = mr_tensor_scalar_f32(step == 1 ? INFINITY : 1);
        mr_run_args a = {.feeds = &x, .feed_values = &value, .n_feeds = 1,
                         .fetches = &y, .fetched = &got, .n_fetches = 1};
        mr_status *st = mr_session_run(cluster_fixture_session_of(&b), &a, NULL, &metadata);
        MR_CHECK_INT(mr_status_code(st), step == 1 ? MR_INVALID_ARGUMENT : MR_OK);
        MR_CHECK((mr_wire_field(mr_str_view(&metadata), 2).n > 0) == (step == 3));
        mr_status_free(st);
        mr_tensor_unref(got);
        mr_tensor_unref(value);
        mr_str_deinit(&metadata);
    }
    cluster_fixture_end(&b);
}

/* ---- transfers ---- */

static mr_status *log_on(cluster_fixture *b, const char *address, uint32_t field, uint64_t value, mr_str *reply)
{
    mr_str body = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, field, value);
    return cluster_fixture_call(b->net, address, MR_WORKER_SERVICE "Logging", &body, reply);
}

/* The master's step ids are random, so the step is run by hand. */
MR_TEST(transfers_are_logged_while_somebody_wants_it)
{
    mr_transfers t;
    mr_str out = {0};
    const uint8_t on[] = {1 << 3, 1}, fetch[] = {3 << 3, 7}, packed[] = {3 << 3 | 2, 1, 7}, off[] = {4 << 3, 1};
    mr_transfers_init(&t);
    mr_transfers_add(&t, 7, MR_SV("edge_1_x"), MR_SV("/job:ps"), MR_SV("/job:w"), 4, 0);
    MR_CHECK_OK(mr_transfers_answer(&t, (mr_sv){(const char *)on, 2}, &out));
    MR_CHECK_INT((int)out.n, 0); /* nobody had asked before */
    mr_transfers_add(&t, 7, MR_SV("edge_2_y"), MR_SV("/job:ps"), MR_SV("/job:w"), 4, 0);
    mr_transfers_add(&t, 8, MR_SV("edge_3_z"), MR_SV("/job:ps"), MR_SV("/job:w"), 4, 0);
    MR_CHECK_OK(mr_transfers_answer(&t, (mr_sv){(const char *)fetch, 2}, &out));
    MR_CHECK(mentions(mr_str_view(&out), "edge_2_y from /job:ps to /job:w"));
    MR_CHECK(!mentions(mr_str_view(&out), "edge_1_x") && !mentions(mr_str_view(&out), "edge_3_z"));
    mr_str_clear(&out);
    MR_CHECK_OK(mr_transfers_answer(&t, (mr_sv){(const char *)packed, 3}, &out));
    MR_CHECK(!mentions(mr_str_view(&out), "edge_2_y")); /* it was told */
    MR_CHECK_OK(mr_transfers_answer(&t, (mr_sv){(const char *)off, 2}, &out));
    mr_transfers_add(&t, 9, MR_SV("edge_4_z"), MR_SV("/job:ps"), MR_SV("/job:w"), 4, 0);
    MR_CHECK_INT(t.all.n, 1); /* of step 8 */
    mr_str_deinit(&out);
    mr_transfers_deinit(&t);
}

MR_TEST(transfers_of_old_steps_are_forgotten)
{
    mr_transfers t;
    mr_transfers_init(&t);
    t.on = true;
    for (int i = 0; i < MR_TRANSFERS_KEPT + 10; i++)
        mr_transfers_add(&t, i, MR_SV("e"), MR_SV("a"), MR_SV("b"), 4, 0);
    MR_CHECK_INT(t.all.n, MR_TRANSFERS_KEPT);
    MR_CHECK_INT((int)t.all.p[0].step, 10);
    mr_transfers_deinit(&t);
}

/* A task tells what came to it; the steps are the master's, so all are dropped by `clear`. */
MR_TEST(server_logs_what_comes_from_other_tasks)
{
    cluster_fixture b;
    float v;
    mr_str reply = {0};
    cluster_fixture_begin(&b, 1, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(&b.s, "Neg", x);
    MR_CHECK_OK(log_on(&b, "ps0:1", 1, 1, &reply));
    MR_CHECK_OK(cluster_fixture_run(&b, x, 1, y, NULL, &v));
    MR_CHECK_OK(log_on(&b, "ps0:1", 3, 12345, &reply)); /* no such step: a label and nothing else */
    MR_CHECK(reply.n > 0 && !mentions(mr_str_view(&reply), "RecvTensor"));
    MR_CHECK_OK(log_on(&b, "ps0:1", 2, 1, &reply));
    MR_CHECK_INT((int)reply.n, 0);
    mr_str_deinit(&reply);
    cluster_fixture_end(&b);
}
