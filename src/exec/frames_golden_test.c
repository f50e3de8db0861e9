/* exec/frames_golden_test.c -- loops of golden files: read, run over devices, differentiated.
 *
 * Each of them doubles a tensor again and again, so the gradient of the sum is the number of copies. */
#include <stdio.h>

#include "base/file.h"
#include "exec/session.h"
#include "graph/grad.h"
#include "graph/graph_def.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

static mr_graph *read_graph(const char *dir, const char *name)
{
    mr_str text = {0};
    char *path = mr_printf("%s/pbtxt/%s.pbtxt", dir, name);
    mr_graph *g = mr_graph_new();
    MR_CHECK_OK(mr_file_read_all(path, &text));
    MR_CHECK_OK(mr_graph_import_text(g, mr_str_view(&text), NULL));
    mr_str_deinit(&text);
    mr_free(path);
    return g;
}

static mr_tensor *ones(const mr_pshape *s)
{
    int64_t dims[MR_MAX_RANK];
    mr_tensor *t;
    for (int i = 0; i < s->rank; i++)
        dims[i] = s->dims[i] < 0 ? 3 : s->dims[i];
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, s->rank, dims, &t));
    for (int64_t i = 0; i < t->n; i++)
        MR_DATA(float, t)[i] = 1;
    return t;
}

static void run(mr_graph *g, int n_cpus, mr_out x, mr_tensor *value, const mr_out *y,
                mr_tensor **got)
{
    mr_session *s;
    mr_session_config c = {.n_cpus = n_cpus, .soft_placement = true};
    mr_run_args a = {.feeds = &x,
                     .feed_values = &value,
                     .n_feeds = 1,
                     .fetches = y,
                     .fetched = got,
                     .n_fetches = 2};
    MR_CHECK_OK(mr_direct_session_new(g, NULL, &c, &s));
    MR_CHECK_OK(mr_session_run(s, &a, NULL, NULL));
    mr_session_free(s);
}

static void check(const char *dir, const char *name, int copies, int n_cpus)
{
    mr_ops_register();
    mr_graph *g = read_graph(dir, name);
    mr_out x = {mr_graph_find(g, MR_SV("ones")), 0},
           last = {mr_graph_find(g, MR_SV("while/Exit_1")), 0};
    for (int i = 0; i < g->nodes.n; i++) {
        char device[32];
        snprintf(device, sizeof(device), "/device:CPU:%d", i % n_cpus);
        mr_node_set_device(g->nodes.p[i], device);
    }
    mr_gradient dx;
    mr_tensor *value = ones(mr_out_shape(x)), *got[2];
    MR_CHECK_OK(mr_graph_gradients(g, &last, 1, &x, 1, NULL, &dx));
    run(g, n_cpus, x, value, (mr_out[]){last, dx.dense}, got);
    MR_CHECK_INT(got[0]->n, copies * value->n);
    MR_CHECK(mr_tensor_same_shape(got[1], value));
    for (int64_t i = 0; i < got[1]->n; i++)
        MR_CHECK_NEAR(MR_DATA(float, got[1])[i], copies, 0);
    mr_tensor_unref(got[0]);
    mr_tensor_unref(got[1]);
    mr_tensor_unref(value);
    mr_graph_unref(g);
}

MR_TEST(golden_loop_runs_and_differentiates)
{
    check(mr_test_golden(), "while_loop", 1 << 10, 1);
    check(mr_test_golden(), "while_loop", 1 << 10, 3);
}

MR_TEST(golden_nested_loop_runs_and_differentiates)
{
    check(mr_test_golden(), "nested_loop", 1 << 6, 1);
    check(mr_test_golden(), "nested_loop", 1 << 6, 3);
}

MR_TEST(golden_loop_of_tensorflow_runs_and_differentiates)
{
    check(mr_test_tensorflow_golden(), "while_loop", 1 << 10, 1);
    check(mr_test_tensorflow_golden(), "while_loop", 1 << 10, 3);
}

MR_TEST(golden_nested_loop_of_tensorflow_runs_and_differentiates)
{
    check(mr_test_tensorflow_golden(), "nested_loop", 1 << 3, 1);
    check(mr_test_tensorflow_golden(), "nested_loop", 1 << 3, 3);
}
