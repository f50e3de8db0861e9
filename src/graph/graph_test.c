/* graph/graph_test.c -- edges rewired, nodes removed, graphs copied and ordered. */
#include "graph/graph.h"

#include "base/memory.h"
#include "graph/sample_ops_fixture.h"

#define CHECK_GRAPH(g, expected)          \
    do {                                  \
        char *text_ = mr_sample_print(g); \
        MR_CHECK_STR(text_, expected);    \
        mr_free(text_);                   \
    } while (0)

/* x, y; z = x + y; w = z + x, after y. */
static mr_graph *diamond(void)
{
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *y = mr_sample_source(g, "y", MR_FLOAT);
    mr_node *w = mr_sample_add(g, "w", mr_sample_add(g, "z", x, y), x);
    mr_node_add_control(w, y);
    return g;
}

static mr_node *find(mr_graph *g, const char *name) { return mr_graph_find(g, mr_sv_of(name)); }

/* Every edge is known at both its ends. */
static void check_edges(const mr_graph *g)
{
    int n_edges = 0, n_uses = 0;
    for (int i = 0; i < g->nodes.n; i++) {
        const mr_node *n = g->nodes.p[i];
        if (!n)
            continue;
        MR_CHECK_INT(n->id, i);
        n_uses += n->uses.n;
        n_edges += n->n_ctrl;
        for (int k = 0; k < n->n_in; k++)
            n_edges += n->in[k].node != NULL;
        for (int k = 0; k < n->uses.n; k++) {
            const mr_use *u = &n->uses.p[k];
            bool found = u->input >= 0 && mr_out_eq(u->node->in[u->input],
                                                    (mr_out){(mr_node *)(uintptr_t)n, u->output});
            for (int c = 0; u->input < 0 && c < u->node->n_ctrl; c++)
                found |= u->node->ctrl[c] == n;
            MR_CHECK(found);
        }
    }
    MR_CHECK_INT(n_edges, n_uses);
}

MR_TEST(graph_controls_are_added_once_and_removed)
{
    mr_graph *g = diamond();
    mr_node *w = find(g, "w"), *x = find(g, "x"), *y = find(g, "y");
    for (int i = 0; i < 3; i++)
        mr_node_add_control(w, x);
    MR_CHECK_INT(w->n_ctrl, 2);
    mr_node_remove_control(w, y);
    mr_node_remove_control(w, y);
    MR_CHECK_INT(w->n_ctrl, 1);
    MR_CHECK(w->ctrl[0] == x);
    check_edges(g);
    for (int i = 0; i < 9; i++) /* room grows after a removal as before it */
        mr_node_add_control(w, mr_sample_source(g, mr_graph_unique_name(g, "c"), MR_FLOAT));
    MR_CHECK_INT(w->n_ctrl, 10);
    check_edges(g);
    mr_graph_unref(g);
}

MR_TEST(graph_replace_uses_moves_data_edges_only)
{
    mr_graph *g = diamond();
    mr_node *v = mr_sample_source(g, "v", MR_FLOAT), *i = mr_sample_source(g, "i", MR_INT32);
    MR_CHECK_OK(mr_graph_replace_uses(mr_o(find(g, "y"), 0), mr_o(v, 0)));
    check_edges(g);
    CHECK_GRAPH(
        g, "x = TestSource()\ny = TestSource()\nz = TestAdd(x, v) {T=DT_FLOAT}\n"
           "w = TestAdd(z, x, ^y) {T=DT_FLOAT}\nv = TestSource()\ni = TestSource() {T=DT_INT32}\n");
    MR_CHECK_ERR(mr_graph_replace_uses(mr_o(v, 0), mr_o(i, 0)), MR_INVALID_ARGUMENT,
                 "of type int32");
    mr_graph_unref(g);
}

MR_TEST(graph_replace_uses_leaves_the_new_producer_its_input)
{
    mr_graph *g = diamond();
    mr_node *x = find(g, "x"), *y = find(g, "y"), *n = mr_sample_add(g, "n", x, y);
    MR_CHECK_OK(mr_graph_replace_uses(mr_o(x, 0), mr_o(n, 0)));
    check_edges(g);
    CHECK_GRAPH(g, "x = TestSource()\ny = TestSource()\nz = TestAdd(n, y) {T=DT_FLOAT}\n"
                   "w = TestAdd(z, n, ^y) {T=DT_FLOAT}\nn = TestAdd(x, y) {T=DT_FLOAT}\n");
    mr_graph_unref(g);
}

MR_TEST(graph_replace_uses_within_one_node)
{
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *s, *z;
    mr_node_builder *b = mr_node_begin(g, "TestSplit", "s");
    mr_nb_input(b, mr_o(x, 0));
    mr_nb_attr(b, "n", mr_a_int(2));
    MR_CHECK_OK(mr_node_finish(b, &s));
    b = mr_node_begin(g, "TestAdd", "z");
    mr_nb_input(b, mr_o(s, 0));
    mr_nb_input(b, mr_o(s, 1));
    MR_CHECK_OK(mr_node_finish(b, &z));
    MR_CHECK_OK(mr_graph_replace_uses(mr_o(s, 0), mr_o(s, 1)));
    check_edges(g);
    MR_CHECK_INT(z->in[0].index, 1);
    MR_CHECK_INT(s->uses.n, 2);
    mr_graph_unref(g);
}

MR_TEST(graph_remove_takes_a_node_and_its_edges)
{
    mr_graph *g = diamond();
    mr_graph_remove(g, find(g, "w"));
    MR_CHECK(!find(g, "w"));
    MR_CHECK_INT(find(g, "y")->uses.n, 1);
    check_edges(g);
    mr_sample_source(g, "w", MR_FLOAT); /* the name is free again */
    mr_graph_unref(g);
}

MR_TEST(graph_attrs_are_set_and_cleared)
{
    mr_graph *g = diamond();
    mr_node *n = find(g, "z");
    mr_node_set_attr(n, "_b", mr_a_int(1));
    mr_node_set_attr(n, "A", mr_a_int(2));
    mr_node_set_attr(n, "_b", mr_a_str("x"));
    MR_CHECK_INT(n->n_attrs, 3);
    MR_CHECK(mr_sv_is(mr_node_attr(n, "_b")->s, "x"));
    MR_CHECK_INT(mr_node_attr(n, "A")->i, 2);
    mr_node_clear_attr(n, "A");
    mr_node_clear_attr(n, "none");
    MR_CHECK(!mr_node_attr(n, "A"));
    MR_CHECK(mr_node_attr(n, "T"));
    mr_node_set_device(n, "/gpu:0");
    MR_CHECK_STR(n->device, "/gpu:0");
    mr_graph_unref(g);
}

/* ---- copies ---- */

MR_TEST(graph_copy_outlives_its_source)
{
    mr_graph *g = diamond(), *copy;
    mr_tensor *t = mr_tensor_scalar_f32(3), *got;
    mr_tensor_attr v = {.t = t};
    mr_node_set_attr(find(g, "z"), "_t", (mr_attr){MR_ATTR_TENSOR, .tensor = &v});
    mr_tensor_unref(t);
    mr_node_set_device(find(g, "z"), "/cpu:1");
    MR_CHECK_OK(mr_out_refine_shape(mr_o(find(g, "x"), 0), mr_pshape_vector(&g->arena, 7)));
    char *before = mr_sample_print(g);
    MR_CHECK_OK(mr_graph_copy(g, NULL, &copy, NULL));
    mr_graph_unref(g);
    CHECK_GRAPH(copy, before);
    check_edges(copy);
    MR_CHECK_STR(find(copy, "z")->device, "/cpu:1");
    MR_CHECK_INT(find(copy, "x")->out_shapes[0]->dims[0], 7);
    MR_CHECK_OK(mr_node_get_tensor(find(copy, "z"), "_t", &got));
    MR_CHECK_NEAR(*MR_DATA(float, got), 3, 0);
    mr_tensor_unref(got);
    mr_free(before);
    mr_graph_unref(copy);
}

MR_TEST(graph_copy_in_part_leaves_inputs_open)
{
    mr_graph *g = diamond(), *copy;
    mr_node **map;
    bool keep[4] = {true, false, true, true};
    MR_CHECK_OK(mr_graph_copy(g, keep, &copy, &map));
    CHECK_GRAPH(
        copy, "x = TestSource()\nz = TestAdd(x, ?) {T=DT_FLOAT}\nw = TestAdd(z, x) {T=DT_FLOAT}\n");
    check_edges(copy);
    MR_CHECK(!map[1]);
    MR_CHECK(map[3] == find(copy, "w"));
    mr_free(map);
    mr_graph_unref(copy);
    mr_graph_unref(g);
}

/* ---- order ---- */

MR_TEST(graph_order_puts_producers_first)
{
    mr_graph *g = diamond();
    mr_node **order, *first = mr_sample_source(g, "late", MR_FLOAT);
    int n, at[5];
    mr_node_add_control(find(g, "x"), first);
    MR_CHECK_OK(mr_graph_topological(g, &order, &n));
    MR_CHECK_INT(n, 5);
    for (int i = 0; i < n; i++)
        at[order[i]->id] = i;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < order[i]->n_in; k++)
            MR_CHECK(at[order[i]->in[k].node->id] < i);
        for (int k = 0; k < order[i]->n_ctrl; k++)
            MR_CHECK(at[order[i]->ctrl[k]->id] < i);
    }
    mr_free(order);
    mr_graph_unref(g);
}

MR_TEST(graph_order_names_a_cycle)
{
    mr_graph *g = diamond();
    mr_node **order;
    int n;
    MR_CHECK_OK(mr_node_set_input(find(g, "z"), 1, mr_o(find(g, "w"), 0)));
    MR_CHECK_ERR(mr_graph_topological(g, &order, &n), MR_INVALID_ARGUMENT,
                 "Graph is invalid, contains a cycle with 2 nodes, including: z, w");
    mr_graph_unref(g);
}

MR_TEST(graph_order_follows_loops_once)
{
    mr_sample_ops();
    mr_graph *g = mr_graph_new();
    mr_node *x = mr_sample_source(g, "x", MR_FLOAT), *merge, *next, **order;
    int n;
    mr_node_builder *b = mr_node_begin(g, "Merge", "merge");
    mr_nb_input_list(b, (mr_out[]){mr_o(x, 0)}, 1);
    mr_nb_input_later(b, MR_FLOAT);
    MR_CHECK_OK(mr_node_finish(b, &merge));
    b = mr_node_begin(g, "NextIteration", "next");
    mr_nb_input(b, mr_o(merge, 0));
    MR_CHECK_OK(mr_node_finish(b, &next));
    MR_CHECK_OK(mr_node_set_input(merge, 1, mr_o(next, 0)));
    MR_CHECK_OK(mr_graph_topological(g, &order, &n));
    MR_CHECK_INT(n, 3);
    MR_CHECK(order[2] == next);
    mr_free(order);
    mr_graph_unref(g);
}
