/* server/cluster_functions_test.c -- functions of a client's graph, called on several tasks and devices. */
#include "base/memory.h"
#include "graph/library.h"
#include "server/cluster_fixture.h"

/* Twice(a) = a + a joins the library of the client's graph. */
static void add_twice(cluster_fixture *b)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_function *made;
    mr_scope_init(&s, g, "");
    mr_out a = mr_placeholder(&s, MR_FLOAT, "a", NULL), sum = mr_emit(&s, "AddV2", a, a);
    MR_CHECK_OK(mr_scope_status(&s));
    mr_function_spec spec = {.name = "Twice", .n_nodes = -1, .n_inputs = 1, .inputs = &a, .n_outputs = 1, .outputs = &sum};
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &made));
    MR_CHECK_OK(mr_library_add(b->g->library, made));
    mr_function_unref(made);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

static mr_out call(cluster_fixture *b, const char *device, mr_out x)
{
    static const int type[] = {MR_FLOAT};
    mr_func_ref f = {"Twice", 0, NULL};
    b->s.device = device;
    return mr_emit_with(&b->s, "PartitionedCall",
                        MR_ATTRS({"Tin", mr_a_types(1, type)}, {"Tout", mr_a_types(1, type)}, {"f", {MR_ATTR_FUNC, .func = &f}}), x);
}

MR_TEST(server_functions_are_called_on_several_tasks)
{
    cluster_fixture b;
    float v = 0;
    cluster_fixture_begin_on(&b, mr_net_local(), 2, 1);
    add_twice(&b);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    mr_out y = call(&b, "/job:ps/task:1", call(&b, "/job:ps/task:0", call(&b, "/job:worker/task:0", x)));
    for (int i = 0; i < 3; i++) {
        MR_CHECK_OK(cluster_fixture_run(&b, x, (float)i, y, NULL, &v));
        MR_CHECK_NEAR(v, 8 * i, 0);
    }
    cluster_fixture_end(&b);
}

/* Parts of one task travel as one graph, whose library is there once. */
MR_TEST(server_functions_are_called_on_several_devices_of_a_task)
{
    cluster_fixture b;
    float v = 0;
    cluster_fixture_begin(&b, 1, 1);
    b.task_config = MR_SV("\x0a\x07\x0a\x03" "CPU" "\x10\x02"); /* device_count { "CPU": 2 } */
    for (int i = 0; i < 2; i++) {
        cluster_fixture_stop_task(&b, i);
        cluster_fixture_start_task(&b, i);
    }
    add_twice(&b);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    mr_out y = call(&b, "/job:ps/task:0/device:CPU:1", call(&b, "/job:ps/task:0/device:CPU:0", x));
    MR_CHECK_OK(cluster_fixture_run(&b, x, 3, y, NULL, &v));
    MR_CHECK_NEAR(v, 12, 0);
    cluster_fixture_end(&b);
}

/* A function that came after the session was made. */
MR_TEST(server_functions_come_with_what_extends_a_graph)
{
    cluster_fixture b;
    float v = 0;
    cluster_fixture_begin(&b, 1, 1);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar);
    b.s.device = "/job:ps/task:0";
    mr_out y = mr_emit(&b.s, "Neg", x);
    MR_CHECK_OK(cluster_fixture_run(&b, x, 3, y, NULL, &v));
    add_twice(&b);
    mr_out z = call(&b, "/job:ps/task:0", y);
    MR_CHECK_OK(cluster_fixture_run(&b, x, 3, z, NULL, &v));
    MR_CHECK_NEAR(v, -6, 0);
    mr_out w = call(&b, "/job:ps/task:0", z); /* and once more: the library is sent again with it */
    MR_CHECK_OK(cluster_fixture_run(&b, x, 3, w, NULL, &v));
    MR_CHECK_NEAR(v, -12, 0);
    cluster_fixture_end(&b);
}
