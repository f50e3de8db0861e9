#include "graph/gradient_fixture.h"
#include "graph/library.h"

/* f(x, w) = tanh(x w) x, and a number that is not differentiated. */
static void add_function(mr_library *l, const char *name)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_function *f = NULL;
    mr_scope_init(&s, g, NULL);
    mr_out x = mr_placeholder(&s, MR_DOUBLE, "x", NULL),
           w = mr_placeholder(&s, MR_DOUBLE, "w", NULL);
    mr_out y = mr_emit(&s, "Mul", mr_emit(&s, "Tanh", mr_emit(&s, "Mul", x, w)), x),
           n = mr_emit(&s, "Rank", x);
    MR_CHECK_OK(mr_scope_status(&s));
    mr_out in[] = {x, w}, out[] = {y, n};
    mr_function_spec spec = {
        .name = name, .n_nodes = -1, .n_inputs = 2, .inputs = in, .n_outputs = 2, .outputs = out};
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f));
    MR_CHECK_OK(mr_library_add(l, f));
    mr_function_unref(f);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

static void check_at(mr_body *b, double dy, double dx, double dw, int i_dx, int i_dw)
{
    mr_mini_feed feed[] = {
        {b->args[0], -1, {0.3}}, {b->args[1], -1, {0.7}}, {b->args[2], -1, {dy}}};
    mr_mini_value v;
    MR_CHECK_OK(mr_mini_run(b->graph, feed, 3, &b->rets[i_dx]->in[0], 1, 1, &v));
    MR_CHECK_NEAR(v.v[0], dx, 1e-12);
    MR_CHECK_OK(mr_mini_run(b->graph, feed, 3, &b->rets[i_dw]->in[0], 1, 1, &v));
    MR_CHECK_NEAR(v.v[0], dw, 1e-12);
}

static const double x = 0.3, w = 0.7;
static double slope(void) { return 1 - tanh(x * w) * tanh(x * w); }

MR_TEST(gradients_of_a_function_are_a_body)
{
    mr_body b;
    mr_mini_register();
    mr_library *l = mr_library_new();
    add_function(l, "f");
    MR_CHECK_OK(mr_function_gradient(l, mr_library_find(l, MR_SV("f")), NULL, 0, &b));
    MR_CHECK_INT(b.n_args, 4);
    MR_CHECK_INT(b.n_rets, 2);
    MR_CHECK(b.args[3] == NULL); /* of the number */
    check_at(&b, 2, 2 * (slope() * w * x + tanh(x * w)), 2 * slope() * x * x, 0, 1);
    mr_body_deinit(&b);
    mr_library_free(l);
}

static mr_out call(mr_gtrial *t, const char *f)
{
    mr_func_ref ref = {f, 0, NULL};
    mr_named_attr attrs[] = {{"f", {MR_ATTR_FUNC, .func = &ref}},
                             {"Tout", mr_a_types(2, (const int[]){MR_DOUBLE, MR_INT32})}};
    return mr_emit_n(&t->b.s, "PartitionedCall", attrs, 2, t->x, 2);
}

/* The function the gradient of a call calls, instantiated. */
static void called_body(const mr_node *n, const char *attr, mr_body *out)
{
    const mr_func_ref *ref;
    MR_CHECK_OK(mr_node_get_func(n, attr, &ref));
    const mr_function *f = mr_library_find(n->graph->library, mr_sv_of(ref->name));
    MR_CHECK(f != NULL);
    MR_CHECK_OK(mr_function_instantiate(n->graph->library, f, NULL, 0, out));
}

MR_TEST(gradients_of_a_call_are_a_call)
{
    mr_gtrial t;
    mr_gradient dx[2];
    mr_body b;
    mr_gtrial_init(&t, 2);
    add_function(t.g->library, "f");
    mr_out y = call(&t, "f");
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, t.x, 2, NULL, dx));
    MR_CHECK(mr_node_is(dx[0].dense.node, "PartitionedCall"));
    MR_CHECK(dx[1].dense.node == dx[0].dense.node && dx[1].dense.index == 1);
    MR_CHECK_INT(dx[0].dense.node->n_in, 3); /* x, w, dy */
    called_body(dx[0].dense.node, "f", &b);
    check_at(&b, 1, slope() * w * x + tanh(x * w), slope() * x * x, 0, 1);
    mr_body_deinit(&b);
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_node_named_for_its_function)
{
    mr_gtrial t;
    mr_gradient dx[2];
    mr_gtrial_init(&t, 2);
    add_function(t.g->library, "f");
    mr_out y = mr_emit_n(&t.b.s, "f", NULL, 0, t.x, 2);
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, t.x, 2, NULL, dx));
    MR_CHECK(mr_node_is(dx[0].dense.node, "PartitionedCall"));
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_call_in_a_loop)
{
    mr_gtrial t;
    mr_gradient dx[2];
    mr_gtrial_init(&t, 2);
    add_function(t.g->library, "f");
    mr_out v[3] = {{0}, t.x[0]};
    mr_fb_for(&t.b, mr_gtrial_i32(&t, 3), 10, v + 1, 1);
    v[1] = mr_fb_emit(&t.b, "f", NULL, 0, (mr_out[]){v[1], t.x[1]}, 2);
    mr_fb_end_for(&t.b, v + 1, 1);
    MR_CHECK_OK(mr_graph_gradients(t.g, &v[1], 1, t.x, 2, NULL, dx));
    MR_CHECK(mr_node_is_exit(dx[0].dense.node) && mr_node_is_exit(dx[1].dense.node));
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_call_of_nothing_are_not_found)
{
    mr_gtrial t;
    mr_gradient dx[2];
    mr_gtrial_init(&t, 2);
    mr_out y = call(&t, "nobody");
    MR_CHECK_ERR(mr_graph_gradients(t.g, &y, 1, t.x, 2, NULL, dx), MR_NOT_FOUND,
                 "Function 'nobody' is not in");
    mr_gtrial_deinit(&t);
}

MR_TEST(gradients_of_a_call_use_a_gradient_written_by_hand)
{
    mr_gtrial t;
    mr_gradient dx[2];
    mr_gtrial_init(&t, 2);
    add_function(t.g->library, "f");
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_function *f = NULL;
    mr_scope_init(&s, g, NULL);
    mr_out in[4];
    for (int i = 0; i < 4; i++)
        in[i] = mr_placeholder(&s, i < 3 ? MR_DOUBLE : MR_INT32, "in", NULL);
    mr_out out[] = {mr_emit(&s, "Neg", in[2]), mr_emit(&s, "Tanh", in[2])};
    mr_function_spec spec = {.name = "by_hand",
                             .n_nodes = -1,
                             .n_inputs = 4,
                             .inputs = in,
                             .n_outputs = 2,
                             .outputs = out};
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f));
    MR_CHECK_OK(mr_library_add(t.g->library, f));
    MR_CHECK_OK(mr_library_set_gradient(t.g->library, "f", "by_hand"));
    mr_out y = call(&t, "f");
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, t.x, 2, NULL, dx));
    const mr_func_ref *ref;
    MR_CHECK_OK(mr_node_get_func(dx[1].dense.node, "f", &ref));
    MR_CHECK_STR(ref->name, "by_hand");
    MR_CHECK_INT(dx[1].dense.index, 1);
    mr_function_unref(f);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    mr_gtrial_deinit(&t);
}

/* h(x) = h(tanh(x)): made in a graph that knows another h. */
MR_TEST(gradients_of_a_function_that_calls_itself_are_refused)
{
    mr_gtrial t;
    mr_gtrial_init(&t, 1);
    for (int round = 0; round < 2; round++) {
        mr_graph *g = mr_graph_new();
        mr_scope s;
        mr_function *f = NULL;
        mr_scope_init(&s, g, NULL);
        if (round)
            MR_CHECK_OK(mr_library_copy(t.g->library, g->library));
        mr_out in = mr_placeholder(&s, MR_DOUBLE, "in", NULL), out = mr_emit(&s, "Tanh", in);
        if (round)
            out = mr_emit(&s, "h", out);
        MR_CHECK_OK(mr_scope_status(&s));
        mr_function_spec spec = {.name = "h",
                                 .n_nodes = -1,
                                 .n_inputs = 1,
                                 .inputs = &in,
                                 .n_outputs = 1,
                                 .outputs = &out,
                                 .output_names = (const char *const[]){"y"}};
        MR_CHECK_OK(mr_function_from_graph(g, &spec, &f));
        if (round)
            MR_CHECK_OK(mr_library_remove(t.g->library, MR_SV("h")));
        MR_CHECK_OK(mr_library_add(t.g->library, f));
        mr_function_unref(f);
        mr_scope_deinit(&s);
        mr_graph_unref(g);
    }
    mr_out y = mr_emit_n(&t.b.s, "h", NULL, 0, t.x, 1);
    mr_gradient dx;
    MR_CHECK_ERR(mr_graph_gradients(t.g, &y, 1, t.x, 1, NULL, &dx), MR_UNIMPLEMENTED,
                 "calls itself");
    mr_gtrial_deinit(&t);
}

/* g(x, w) = -x: no gradient for w. */
static void add_negative(mr_library *l)
{
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_function *f = NULL;
    mr_scope_init(&s, g, NULL);
    mr_out in[] = {mr_placeholder(&s, MR_DOUBLE, "x", NULL),
                   mr_placeholder(&s, MR_DOUBLE, "w", NULL)};
    mr_out out[] = {mr_emit(&s, "Neg", in[0]), mr_emit(&s, "Rank", in[1])};
    mr_function_spec spec = {
        .name = "g", .n_nodes = -1, .n_inputs = 2, .inputs = in, .n_outputs = 2, .outputs = out};
    MR_CHECK_OK(mr_function_from_graph(g, &spec, &f));
    MR_CHECK_OK(mr_library_add(l, f));
    mr_function_unref(f);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

MR_TEST(gradients_of_an_if_are_an_if_of_gradients)
{
    mr_gtrial t;
    mr_gradient dx[2];
    mr_body b;
    mr_gtrial_init(&t, 2);
    add_function(t.g->library, "f");
    add_negative(t.g->library);
    mr_func_ref f = {"f", 0, NULL}, g = {"g", 0, NULL};
    mr_named_attr attrs[] = {{"then_branch", {MR_ATTR_FUNC, .func = &f}},
                             {"else_branch", {MR_ATTR_FUNC, .func = &g}},
                             {"Tin", mr_a_types(2, (const int[]){MR_DOUBLE, MR_DOUBLE})},
                             {"Tout", mr_a_types(2, (const int[]){MR_DOUBLE, MR_INT32})}};
    mr_out in[] = {mr_placeholder(&t.b.s, MR_BOOL, "p", NULL), t.x[0], t.x[1]};
    mr_out y = mr_emit_n(&t.b.s, "If", attrs, 4, in, 3);
    MR_CHECK_OK(mr_graph_gradients(t.g, &y, 1, t.x, 2, NULL, dx));
    MR_CHECK(mr_node_is(dx[0].dense.node, "If") && mr_out_eq(dx[0].dense.node->in[0], in[0]));
    called_body(dx[0].dense.node, "then_branch", &b);
    check_at(&b, 1, slope() * w * x + tanh(x * w), slope() * x * x, 0, 1);
    mr_body_deinit(&b);
    called_body(dx[0].dense.node, "else_branch", &b);
    check_at(&b, 3, -3, 0, 0, 1);
    mr_body_deinit(&b);
    mr_gtrial_deinit(&t);
}
