/* server/collective_order_test.c -- passes/order_collectives.c: which collectives wait for which. */
#include "graph/scope.h"
#include "ops/table.h"
#include "passes/passes.h"
#include "tests/harness/test.h"

static mr_out reduce(mr_scope *s, mr_out in, int key, const char *device)
{
    mr_named_attr attrs[] = {{"group_size", mr_a_int(2)}, {"group_key", mr_a_int(1)}, {"instance_key", mr_a_int(key)},
                             {"merge_op", mr_a_str("Add")}, {"final_op", mr_a_str("Id")}, {"subdiv_offsets", mr_a_ints(0, NULL)}};
    mr_out o = mr_emit_n(s, "CollectiveReduce", attrs, 6, &in, 1);
    if (o.node)
        o.node->placed = device;
    return o;
}

static bool waits(mr_out a, mr_out b)
{
    for (int i = 0; i < a.node->n_ctrl; i++)
        if (a.node->ctrl[i] == b.node)
            return true;
    return false;
}

MR_TEST(order_collectives_goes_by_keys_within_a_device)
{
    mr_scope s;
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope_init(&s, g, "");
    mr_out x = mr_placeholder(&s, MR_FLOAT, "x", NULL);
    mr_out c = reduce(&s, x, 3, "a"), a = reduce(&s, x, 1, "a"), b = reduce(&s, x, 2, "a"), other = reduce(&s, x, 9, "b");
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_OK(mr_order_collectives(g));
    MR_CHECK(waits(b, a) && waits(c, b) && !waits(c, a));
    MR_CHECK_INT(a.node->n_ctrl + other.node->n_ctrl, 0);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

MR_TEST(order_collectives_follows_what_depends_on_what)
{
    mr_scope s;
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope_init(&s, g, "");
    mr_out x = mr_placeholder(&s, MR_FLOAT, "x", NULL);
    mr_out five = reduce(&s, x, 5, "a"), two = reduce(&s, mr_emit(&s, "Neg", five), 2, "a"), four = reduce(&s, x, 4, "a");
    /* Crosswise between two devices: each alone could go by its keys. */
    mr_out late = reduce(&s, x, 8, "b"), early = reduce(&s, mr_emit(&s, "Neg", late), 1, "a");
    MR_CHECK_OK(mr_scope_status(&s));
    MR_CHECK_OK(mr_order_collectives(g));
    MR_CHECK(waits(five, four) && waits(two, five) && waits(early, two));
    MR_CHECK_INT(late.node->n_ctrl, 0);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}
