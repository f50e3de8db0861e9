/* passes/costs_test.c -- estimates by op and shape, what measuring makes of them, and files of it. */
#include "passes/costs.h"

#include <stdio.h>

#include "base/file.h"
#include "base/memory.h"
#include "passes/effort.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

static mr_graph *graph;

static mr_node *node(const char *op, const char *name, int n_in, const mr_out *in)
{
    mr_node *n = NULL;
    mr_node_builder *b = mr_node_begin(graph, op, name);
    for (int i = 0; i < n_in; i++)
        mr_nb_input(b, in[i]);
    MR_CHECK_OK(mr_node_finish(b, &n));
    return n;
}

static mr_out input(const char *name, int rank, const int64_t *dims)
{
    mr_node *n = NULL;
    mr_arena a;
    mr_arena_init(&a, 0);
    mr_node_builder *b = mr_node_begin(graph, "Placeholder", name);
    mr_nb_attr(b, "dtype", mr_a_type(MR_FLOAT));
    mr_nb_attr(b, "shape", mr_a_shape(mr_pshape_of(&a, rank, dims)));
    MR_CHECK_OK(mr_node_finish(b, &n));
    mr_arena_deinit(&a);
    return (mr_out){n, 0};
}

static mr_out matrix(const char *name, int64_t rows, int64_t cols) { return input(name, 2, (int64_t[]){rows, cols}); }

static mr_node *product(const char *name, int64_t m, int64_t k, int64_t n)
{
    char a[40], b[40];
    snprintf(a, sizeof a, "%s_a", name);
    snprintf(b, sizeof b, "%s_b", name);
    return node("MatMul", name, 2, (mr_out[]){matrix(a, m, k), matrix(b, k, n)});
}

MR_TEST(effort_of_an_lstm_counts_its_product_at_every_step)
{
    mr_ops_register();
    graph = mr_graph_new();
    mr_node *length, *n;
    mr_node_builder *b = mr_node_begin(graph, "Placeholder", "length");
    mr_nb_attr(b, "dtype", mr_a_type(MR_INT64));
    MR_CHECK_OK(mr_node_finish(b, &length));
    mr_out peep = input("peep", 1, (int64_t[]){6});
    mr_out in[] = {{length, 0}, input("x", 3, (int64_t[]){3, 4, 5}), matrix("c", 4, 6), matrix("h", 4, 6), matrix("w", 11, 24),
                   peep, peep, peep, input("b", 1, (int64_t[]){24})};
    n = node("BlockLSTM", "lstm", 9, in);
    MR_CHECK_NEAR(mr_effort_of(n, MR_USUAL_DIM).flops, 2.0 * 3 * 4 * 11 * 24, 0);
    mr_graph_unref(graph);
}

MR_TEST(effort_of_products_counts_their_terms)
{
    mr_ops_register();
    graph = mr_graph_new();
    MR_CHECK_NEAR(mr_effort_of(product("p", 10, 20, 30), MR_USUAL_DIM).flops, 2.0 * 10 * 20 * 30, 0);
    MR_CHECK_NEAR(mr_effort_of(product("q", -1, 20, 30), MR_USUAL_DIM).flops, 2.0 * MR_USUAL_DIM * 20 * 30, 0);
    mr_node *n;
    mr_node_builder *b = mr_node_begin(graph, "MatMul", "t");
    mr_nb_input(b, matrix("ta", 20, 10));
    mr_nb_input(b, matrix("tb", 20, 30));
    mr_nb_attr(b, "transpose_a", mr_a_bool(true));
    MR_CHECK_OK(mr_node_finish(b, &n));
    MR_CHECK_NEAR(mr_effort_of(n, MR_USUAL_DIM).flops, 2.0 * 10 * 20 * 30, 0);
    MR_CHECK_NEAR(mr_effort_of(n, MR_USUAL_DIM).bytes, 4.0 * (20 * 10 + 20 * 30 + 10 * 30), 0);
    mr_graph_unref(graph);
}

MR_TEST(effort_of_convolutions_is_the_same_forwards_and_backwards)
{
    mr_ops_register();
    graph = mr_graph_new();
    mr_out image = input("image", 4, (int64_t[]){8, 28, 28, 3}), filter = input("filter", 4, (int64_t[]){5, 5, 3, 20});
    mr_node *n;
    mr_node_builder *b = mr_node_begin(graph, "Conv2D", "c");
    mr_nb_input(b, image);
    mr_nb_input(b, filter);
    mr_nb_attr(b, "strides", mr_a_ints(4, (int64_t[]){1, 1, 1, 1}));
    mr_nb_attr(b, "padding", mr_a_str("SAME"));
    MR_CHECK_OK(mr_node_finish(b, &n));
    double flops = 2.0 * 8 * 28 * 28 * 20 * 5 * 5 * 3;
    MR_CHECK_NEAR(mr_effort_of(n, MR_USUAL_DIM).flops, flops, 1e-3);
    mr_out sizes = (mr_out){node("Shape", "sizes", 1, &image), 0};
    b = mr_node_begin(graph, "Conv2DBackpropInput", "back");
    mr_nb_input(b, sizes);
    mr_nb_input(b, filter);
    mr_nb_input(b, (mr_out){n, 0});
    mr_nb_attr(b, "strides", mr_a_ints(4, (int64_t[]){1, 1, 1, 1}));
    mr_nb_attr(b, "padding", mr_a_str("SAME"));
    MR_CHECK_OK(mr_node_finish(b, &n));
    MR_CHECK_NEAR(mr_effort_of(n, MR_USUAL_DIM).flops, flops, 1e-3);
    mr_graph_unref(graph);
}

MR_TEST(effort_of_names_for_values_is_nothing)
{
    mr_ops_register();
    graph = mr_graph_new();
    mr_out x = matrix("x", 100, 100);
    mr_effort e = mr_effort_of(node("Identity", "i", 1, &x), MR_USUAL_DIM);
    MR_CHECK(e.flops == 0 && e.bytes == 0);
    e = mr_effort_of(node("Neg", "n", 1, &x), MR_USUAL_DIM);
    MR_CHECK(e.flops == 10000 && e.bytes == 80000);
    MR_CHECK(mr_effort_of(node("Exp", "e", 1, &x), MR_USUAL_DIM).flops > 5 * e.flops);
    mr_graph_unref(graph);
}

static mr_device a = {.name = "/device:A:0", .speed = {1e9, 1e9, 1e-6}}, b = {.name = "/device:B:0", .speed = {4e9, 4e9, 1e-6}};
static mr_device *const devices[] = {&a, &b};

MR_TEST(costs_are_estimates_until_something_ran)
{
    mr_ops_register();
    graph = mr_graph_new();
    mr_node *nodes[] = {product("p", 100, 100, 100), product("q", 100, 100, 100)};
    double s[4];
    mr_costs_fill(NULL, nodes, 2, devices, 2, s);
    MR_CHECK_NEAR(s[0], 1e-6 + 2e6 / 1e9, 1e-12);
    MR_CHECK_NEAR(s[1], 1e-6 + 2e6 / 4e9, 1e-12);
    MR_CHECK(s[0] == s[2] && s[1] == s[3]);
    mr_graph_unref(graph);
}

/* B is eight times slower than it promised: so is, by all we know, everything else there; A is believed. */
MR_TEST(costs_carry_over_to_what_was_not_measured)
{
    mr_ops_register();
    graph = mr_graph_new();
    mr_node *nodes[] = {product("p", 100, 100, 100), product("q", 100, 100, 100)};
    double first[4], s[4];
    mr_costs *c = mr_costs_new();
    mr_costs_fill(c, nodes, 2, devices, 2, first);
    mr_costs_add(c, "/device:B:0", MR_SV("p"), 8 * first[1]);
    mr_costs_fill(c, nodes, 2, devices, 2, s);
    MR_CHECK_NEAR(s[1] / first[1], 8, 1e-9);
    MR_CHECK_NEAR(s[3] / first[3], 8, 1e-9);
    MR_CHECK_NEAR(s[0] / first[0], 1, 1e-9);
    MR_CHECK_NEAR(s[2] / first[2], 1, 1e-9);
    /* q is found to take twice what the others made expect: elsewhere too. */
    mr_costs_add(c, "/device:A:0", MR_SV("p"), first[0]);
    mr_costs_add(c, "/device:B:0", MR_SV("q"), 32 * first[3]);
    mr_costs_fill(c, nodes, 2, devices, 2, s);
    MR_CHECK_NEAR(s[2] / first[2], 2, 1e-9);
    mr_costs_free(c);
    mr_graph_unref(graph);
}

MR_TEST(costs_follow_changes)
{
    mr_ops_register();
    graph = mr_graph_new();
    mr_node *p = product("p", 2, 2, 2);
    double s[2];
    mr_costs *c = mr_costs_new();
    for (int i = 0; i < 100; i++)
        mr_costs_add(c, "/device:A:0", MR_SV("p"), 1);
    for (int i = 0; i < 100; i++)
        mr_costs_add(c, "/device:A:0", MR_SV("p"), 3);
    mr_costs_fill(c, &p, 1, devices, 2, s);
    MR_CHECK_NEAR(s[0], 3, 0.01);
    MR_CHECK_INT(mr_costs_runs(c, MR_SV("p"), "/device:A:0"), 200);
    MR_CHECK_INT(mr_costs_runs(c, MR_SV("p"), "/device:B:0"), 0);
    MR_CHECK_INT(mr_costs_bytes(c, (mr_out){p, 0}), 16);
    mr_costs_add_bytes(c, MR_SV("p"), 0, 77);
    MR_CHECK_INT(mr_costs_bytes(c, (mr_out){p, 0}), 77);
    mr_costs_free(c);
    mr_graph_unref(graph);
}

MR_TEST(costs_come_back_from_files)
{
    char path[300];
    mr_str first = {0}, second = {0};
    mr_costs *c = mr_costs_new(), *d = mr_costs_new();
    snprintf(path, sizeof path, "%s/costs", mr_test_dir());
    mr_costs_add(c, "/device:A:0", MR_SV("x/y"), 0.1);
    mr_costs_add(c, "/device:B:0", MR_SV("x/y"), 1e-7);
    mr_costs_add_bytes(c, MR_SV("x/y"), 2, 12345678901);
    MR_CHECK_OK(mr_costs_save(c, path));
    MR_CHECK_OK(mr_file_read_all(path, &first));
    MR_CHECK_OK(mr_costs_load(d, path));
    MR_CHECK_INT(mr_costs_runs(d, MR_SV("x/y"), "/device:B:0"), 1);
    MR_CHECK_OK(mr_costs_save(d, path));
    MR_CHECK_OK(mr_file_read_all(path, &second));
    MR_CHECK_STR(mr_str_z(&first), mr_str_z(&second));
    mr_str_deinit(&first);
    mr_str_deinit(&second);
    mr_costs_free(c);
    mr_costs_free(d);
}

MR_TEST(costs_refuse_lines_that_are_none)
{
    static const char *const bad[] = {"a\tb\t1", "a\tb\t0\t1", "a\tb\t1\tx", "a\tb\t1\tnan", "a\tb\t1\t-1", "a\tb\t1\tinf",
                                      "\tb\t1\t1", "a\tb\t1\t1\t1", "bytes\tb\t-1\t1", "bytes\tb\t99999999\t1", "x"};
    for (int i = 0; i < MR_COUNT(bad); i++) {
        mr_costs *c = mr_costs_new();
        char text[100];
        snprintf(text, sizeof text, "# head\na\tb\t1\t1\n%s\n", bad[i]);
        MR_CHECK_ERR(mr_costs_parse(c, mr_sv_of(text), "f"), MR_INVALID_ARGUMENT, "f:3: expected device, node");
        mr_costs_free(c);
    }
}
