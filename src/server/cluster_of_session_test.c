/* server/cluster_of_session_test.c -- sessions that bring a cluster of their own: tasks that know nothing of each other. */
#include "base/clock.h"
#include "base/memory.h"
#include "server/cluster_fixture.h"
#include "server/host.h"
#include "server/wire.h"

/* Three servers, each alone in its cluster; a session calls them ps/0, ps/1 and worker/0. */
typedef struct rig {
    cluster_fixture b; /* its cluster and servers are not used as such */
    mr_server *servers[3];
    mr_str config;
} rig;

static const char *const addresses[] = {"first:1", "second:1", "third:1"};

static void start_server(rig *r, int i)
{
    mr_server_def def = {.job = "local", .task = 0};
    MR_CHECK_OK(mr_cluster_add(&def.cluster, MR_SV("local"), 0, mr_sv_of(addresses[i])));
    MR_CHECK_OK(mr_server_new(&def, &r->b.options, &r->servers[i]));
    MR_CHECK_OK(mr_server_start(r->servers[i]));
    mr_cluster_deinit(&def.cluster);
}

static void write_config(rig *r, const mr_cluster *c)
{
    mr_str cluster = {0};
    mr_pb_writer w;
    mr_cluster_encode(c, &cluster);
    mr_str_clear(&r->config);
    mr_pb_writer_init(&w, &r->config);
    mr_pb_put_bytes(&w, 14, mr_str_view(&cluster));
    mr_str_deinit(&cluster);
}

static void begin(rig *r, mr_net *net)
{
    mr_cluster c = {0};
    *r = (rig){0};
    cluster_fixture_begin_on(&r->b, net, 0, 0);
    for (int i = 0; i < 3; i++)
        start_server(r, i);
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), 0, mr_sv_of(addresses[0])));
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), 1, mr_sv_of(addresses[1])));
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("worker"), 0, mr_sv_of(addresses[2])));
    write_config(r, &c);
    mr_cluster_deinit(&c);
}

static mr_status *open_session(rig *r)
{
    MR_CHECK_OK(mr_scope_status(&r->b.s));
    return mr_remote_session_new(r->b.net, addresses[2], r->b.g, NULL, mr_str_view(&r->config), NULL, &r->b.session);
}

static void end(rig *r)
{
    cluster_fixture_end_session(&r->b);
    for (int i = 0; i < 3; i++)
        mr_server_free(r->servers[i]);
    mr_str_deinit(&r->config);
    cluster_fixture_end(&r->b);
}

static void spans(mr_net *net)
{
    rig r;
    float v;
    begin(&r, net);
    mr_out x = mr_placeholder(&r.b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    r.b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(&r.b.s, "Square", x);
    r.b.s.device = "/job:ps/task:1";
    mr_out z = mr_emit(&r.b.s, "AddV2", y, x);
    r.b.s.device = "/job:worker/task:0";
    mr_out w = mr_emit(&r.b.s, "Mul", z, y);
    MR_CHECK_OK(open_session(&r));
    for (int i = 0; i < 5; i++) {
        MR_CHECK_OK(cluster_fixture_run(&r.b, x, (float)i, w, NULL, &v));
        MR_CHECK_NEAR(v, (i * i + i) * i * i, 0);
    }
    mr_device_info *d;
    int n;
    MR_CHECK_OK(r.b.session->ops->list_devices(r.b.session, &d, &n));
    MR_CHECK_INT(n, 3);
    MR_CHECK_STR(d[0].name, "/job:worker/replica:0/task:0/device:CPU:0");
    mr_device_infos_free(d, n);
    end(&r);
}

MR_TEST(brought_cluster_spans_tasks) { spans(mr_net_loop()); }
MR_TEST(brought_cluster_spans_tasks_of_one_host) { spans(mr_net_local()); }

/* Variables are the session's. */
MR_TEST(brought_cluster_is_isolated)
{
    rig r;
    float v;
    begin(&r, mr_net_loop());
    r.b.s.device = "/job:ps/task:0";
    mr_out var = mr_emit0_with(mr_as(&r.b.s, "v"), "VariableV2",
                               MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out set = mr_emit(&r.b.s, "Assign", var, mr_const_f32(&r.b.s, 10));
    mr_out read = mr_emit(&r.b.s, "Neg", var);
    MR_CHECK_OK(open_session(&r));
    MR_CHECK_OK(cluster_fixture_run(&r.b, cluster_fixture_nothing, 0, cluster_fixture_nothing, set.node, &v));
    MR_CHECK_OK(cluster_fixture_run(&r.b, cluster_fixture_nothing, 0, read, NULL, &v));
    cluster_fixture_end_session(&r.b);
    MR_CHECK_OK(open_session(&r));
    MR_CHECK_ERR(cluster_fixture_run(&r.b, cluster_fixture_nothing, 0, read, NULL, &v), MR_FAILED_PRECONDITION,
                 "uninitialized");
    end(&r);
}

/* ConfigProto.experimental.share_session_state_in_clusterspec_propagation. */
MR_TEST(brought_cluster_shares_state_when_asked_to)
{
    rig r;
    float v;
    mr_pb_writer w;
    begin(&r, mr_net_loop());
    mr_pb_writer_init(&w, &r.config);
    mr_pb_put_bytes(&w, 16, MR_SV("\x40\x01"));
    r.b.s.device = "/job:ps/task:0";
    mr_out var = mr_emit0_with(mr_as(&r.b.s, "v"), "VariableV2",
                               MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)}));
    mr_out set = mr_emit(&r.b.s, "Assign", var, mr_const_f32(&r.b.s, 10));
    mr_out read = mr_emit(&r.b.s, "Neg", var);
    MR_CHECK_OK(open_session(&r));
    MR_CHECK_OK(cluster_fixture_run(&r.b, cluster_fixture_nothing, 0, cluster_fixture_nothing, set.node, &v));
    cluster_fixture_end_session(&r.b);
    MR_CHECK_OK(open_session(&r));
    MR_CHECK_OK(cluster_fixture_run(&r.b, cluster_fixture_nothing, 0, read, NULL, &v));
    MR_CHECK_NEAR(v, -10, 0);
    end(&r);
}

MR_TEST(brought_cluster_tells_of_a_task_that_is_gone)
{
    rig r;
    float v;
    begin(&r, mr_net_local());
    mr_out x = mr_placeholder(&r.b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    r.b.s.device = "/job:ps/task:1";
    mr_out y = mr_emit(&r.b.s, "Square", x);
    MR_CHECK_OK(open_session(&r));
    MR_CHECK_OK(cluster_fixture_run(&r.b, x, 2, y, NULL, &v));
    mr_server_free(r.servers[1]);
    MR_CHECK_ERR(cluster_fixture_run(&r.b, x, 2, y, NULL, &v), MR_UNAVAILABLE, "/job:ps/replica:0/task:1");
    start_server(&r, 1);
    mr_status *st = cluster_fixture_run(&r.b, x, 2, y, NULL, &v); /* as the heartbeats have it by now */
    MR_CHECK(mr_status_code(st) == MR_ABORTED || mr_status_code(st) == MR_UNAVAILABLE);
    mr_status_free(st);
    end(&r);
}

MR_TEST(brought_cluster_must_have_the_master)
{
    rig r;
    mr_cluster c = {0};
    begin(&r, mr_net_loop());
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), 0, mr_sv_of(addresses[0])));
    write_config(&r, &c);
    MR_CHECK_ERR(open_session(&r), MR_INVALID_ARGUMENT, "no task at the target 'third:1'");
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), 1, mr_sv_of(addresses[2])));
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), 2, mr_sv_of(addresses[2])));
    write_config(&r, &c);
    MR_CHECK_ERR(open_session(&r), MR_INVALID_ARGUMENT, "multiple matching tasks");
    mr_cluster_deinit(&c);
    end(&r);
}

/* A server may be in sessions of several clusters, under several names, and in its own. */
MR_TEST(brought_clusters_are_apart)
{
    rig r;
    float v;
    mr_cluster c = {0};
    begin(&r, mr_net_local());
    mr_out x = mr_placeholder(&r.b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    r.b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(&r.b.s, "Neg", x);
    MR_CHECK_OK(open_session(&r));
    MR_CHECK_OK(cluster_fixture_run(&r.b, x, 2, y, NULL, &v));
    mr_session *first = r.b.session;
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("ps"), 0, mr_sv_of(addresses[1]))); /* another one is ps/0 */
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("worker"), 5, mr_sv_of(addresses[2])));
    write_config(&r, &c);
    MR_CHECK_OK(open_session(&r));
    mr_server_free(r.servers[0]);
    r.servers[0] = NULL;
    MR_CHECK_OK(cluster_fixture_run(&r.b, x, 3, y, NULL, &v));
    MR_CHECK_NEAR(v, -3, 0);
    mr_session *second = r.b.session;
    r.b.session = first;
    MR_CHECK_ERR(cluster_fixture_run(&r.b, x, 2, y, NULL, &v), MR_UNAVAILABLE, "/job:ps/replica:0/task:0");
    mr_session_free(second);
    mr_cluster_deinit(&c);
    end(&r);
}

/* Each task that is named costs memory and heartbeats. */
MR_TEST(brought_cluster_may_not_be_huge)
{
    rig r;
    mr_cluster c = {0};
    begin(&r, mr_net_loop());
    MR_CHECK_OK(mr_cluster_add(&c, MR_SV("a"), 0, mr_sv_of(addresses[2])));
    for (int i = 0; i < 10000; i++) {
        char *address = mr_printf("host%d.example:1", i);
        MR_CHECK_OK(mr_cluster_add(&c, MR_SV("b"), i, mr_sv_of(address)));
        mr_free(address);
    }
    write_config(&r, &c);
    MR_CHECK_ERR(open_session(&r), MR_RESOURCE_EXHAUSTED, "cluster_def");
    mr_cluster_deinit(&c);
    end(&r);
}
