/* passes/cse_test.c */
#include "graph/scope.h"
#include "passes/passes.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

static int count(const mr_graph *g, const char *op)
{
    int n = 0;
    for (int i = 0; i < g->nodes.n; i++)
        n += g->nodes.p[i] && mr_node_is(g->nodes.p[i], op);
    return n;
}

/* Copies of control inputs made a node, or a search through them, would take 20 GB, or minutes. */
MR_TEST(cse_of_many_equal_nodes_below_one_group_is_linear)
{
    enum { N = 50000 };
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    mr_out p = mr_placeholder(&s, MR_FLOAT, "p", &mr_pshape_scalar), one = mr_const_f32(&s, 1);
    mr_node_builder *b = mr_node_begin(g, "NoOp", "group");
    mr_node *group = NULL;
    for (int i = 0; i < N; i++)
        mr_nb_control(b, mr_emit(&s, "AddV2", p, one).node);
    MR_CHECK_OK(mr_node_finish(b, &group));
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_OK(mr_cse(g));
    MR_CHECK_INT(count(g, "AddV2"), 1);
    MR_CHECK_INT(group->n_ctrl, 1);
    MR_CHECK_INT(group->ctrl[0]->uses.n, 1);
    MR_CHECK_INT(p.node->uses.n, 1);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

/* a and b are equal, so what waits for one, the other or both is equal too. */
MR_TEST(cse_redirects_control_inputs_and_keeps_each_once)
{
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_scope_init(&s, g, "");
    mr_out p = mr_placeholder(&s, MR_FLOAT, "p", &mr_pshape_scalar);
    mr_out a = mr_emit(&s, "Tanh", p), b = mr_emit(&s, "Tanh", p), c = mr_emit(&s, "Exp", p);
    mr_out x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = mr_emit(&s, "Neg", p);
        mr_node_add_control(x[i].node, c.node);
        if (i != 1)
            mr_node_add_control(x[i].node, a.node);
        if (i != 0)
            mr_node_add_control(x[i].node, b.node);
    }
    mr_out sum = mr_emit(&s, "AddV2", x[0], mr_emit(&s, "AddV2", x[1], x[2]));
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_OK(mr_cse(g));
    MR_CHECK_INT(count(g, "Tanh"), 1);
    MR_CHECK_INT(count(g, "Neg"), 1);
    const mr_node *neg = sum.node->in[0].node;
    MR_CHECK_INT(neg->n_ctrl, 2);
    MR_CHECK(neg->ctrl[0] != neg->ctrl[1]);
    MR_CHECK_INT(c.node->uses.n, 1);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}
