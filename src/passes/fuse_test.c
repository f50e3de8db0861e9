/* passes/fuse_test.c -- which nodes are fused, and which are left alone. */
#include "passes/fuse.h"

#include "graph/scope.h"
#include "run/fused.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

#define CPU0 "/job:localhost/replica:0/task:0/device:CPU:0"
#define CPU1 "/job:localhost/replica:0/task:0/device:CPU:1"

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_device *devices[2];
    mr_prepare_options o;
} bench;

static void begin(bench *b)
{
    *b = (bench){.g = mr_graph_new()};
    mr_ops_register();
    mr_scope_init(&b->s, b->g, "");
    MR_CHECK_OK(mr_device_new_cpu(CPU0, NULL, &b->devices[0]));
    MR_CHECK_OK(mr_device_new_cpu(CPU1, NULL, &b->devices[1]));
    b->o = (mr_prepare_options){.devices = b->devices, .n_devices = 2};
}

static void end(bench *b)
{
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
    mr_device_free(b->devices[0]);
    mr_device_free(b->devices[1]);
}

/* An input, as mr_prune makes them. */
static mr_out arg(bench *b, mr_dtype type)
{
    static int n;
    return mr_emit0_with(&b->s, "_Arg", MR_ATTRS({"T", mr_a_type(type)}, {"index", mr_a_int(n++)}));
}

/* Someone reads the value. */
static mr_node *fetch(bench *b, mr_out o)
{
    static int n;
    mr_node_builder *nb = mr_node_begin(b->g, "_Retval", mr_graph_unique_name(b->g, "ret"));
    mr_nb_input(nb, o);
    mr_nb_attr(nb, "index", mr_a_int(n++));
    mr_node *out = NULL;
    MR_CHECK_OK(mr_node_finish(nb, &out));
    return out;
}

static void place_all(bench *b)
{
    for (int i = 0; i < b->g->nodes.n; i++)
        if (b->g->nodes.p[i] && !b->g->nodes.p[i]->placed)
            b->g->nodes.p[i]->placed = CPU0;
}

static void fuse(bench *b)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    place_all(b);
    MR_CHECK_OK(mr_fuse(b->g, &b->o));
    mr_node **order;
    int n;
    MR_CHECK_OK(mr_graph_topological(b->g, &order, &n)); /* no cycle */
    mr_free(order);
}

static int count(const bench *b, const char *op)
{
    int n = 0;
    for (int i = 0; i < b->g->nodes.n; i++)
        n += b->g->nodes.p[i] && mr_node_is(b->g->nodes.p[i], op);
    return n;
}
#define FUSED(b) count(b, MR_FUSED_ELEMENTWISE)

static mr_out emit1(bench *b, const char *op, mr_out x) { return mr_emit(&b->s, op, x); }
static mr_out emit2(bench *b, const char *op, mr_out x, mr_out y) { return mr_emit(&b->s, op, x, y); }

MR_TEST(fuse_makes_a_chain_one_node_with_the_name_of_the_last)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), y = emit1(&b, "Tanh", emit2(&b, "Mul", emit1(&b, "Exp", x), x));
    mr_node *ret = fetch(&b, y);
    const char *name = y.node->name;
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), 1);
    MR_CHECK_INT(count(&b, "Mul") + count(&b, "Tanh") + count(&b, "Exp"), 0);
    MR_CHECK_STR(ret->in[0].node->name, name);
    MR_CHECK(mr_graph_find(b.g, mr_sv_of(name)) == ret->in[0].node);
    MR_CHECK_INT(ret->in[0].node->n_in, 1);
    end(&b);
}

MR_TEST(fuse_does_nothing_when_switched_off)
{
    bench b;
    begin(&b);
    fetch(&b, emit1(&b, "Tanh", emit1(&b, "Exp", arg(&b, MR_FLOAT))));
    b.o.no_fuse = true;
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), 0);
    end(&b);
}

MR_TEST(fuse_keeps_values_that_others_read_as_outputs)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), a = emit1(&b, "Exp", x), c = emit1(&b, "Tanh", a);
    mr_node *first = fetch(&b, a), *second = fetch(&b, c);
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), 1);
    MR_CHECK(first->in[0].node == second->in[0].node && first->in[0].index != second->in[0].index);
    end(&b);
}

/* Fused, a and c would wait for the product, and the product for them. */
MR_TEST(fuse_makes_no_cycle_through_another_node)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), a = emit1(&b, "Exp", x);
    mr_out product = mr_emit(&b.s, "MatMul", a, x), c = emit2(&b, "Mul", product, a);
    fetch(&b, emit1(&b, "Tanh", c));
    fuse(&b);
    MR_CHECK_INT(count(&b, "Exp"), 1);
    MR_CHECK_INT(FUSED(&b), 1);
    end(&b);
}

/* A value that is needed early does not wait for one that comes late. */
MR_TEST(fuse_keeps_an_early_value_apart_from_a_late_one)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), a = emit1(&b, "Exp", x), late = mr_emit(&b.s, "MatMul", x, x);
    fetch(&b, a);
    fetch(&b, emit2(&b, "Mul", emit1(&b, "Neg", late), a));
    fuse(&b);
    MR_CHECK_INT(count(&b, "Exp"), 1);
    MR_CHECK_INT(FUSED(&b), 1);
    end(&b);
}

MR_TEST(fuse_takes_an_early_value_that_only_the_late_one_reads)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), late = mr_emit(&b.s, "MatMul", x, x);
    fetch(&b, emit2(&b, "Mul", late, emit1(&b, "Exp", x)));
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), 1);
    MR_CHECK_INT(count(&b, "Exp"), 0);
    end(&b);
}

MR_TEST(fuse_keeps_devices_apart)
{
    bench b;
    begin(&b);
    mr_out a = emit1(&b, "Exp", arg(&b, MR_FLOAT)), c = emit1(&b, "Tanh", a);
    c.node->placed = CPU1;
    fetch(&b, c);
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), 0);
    end(&b);
}

/* One side of the conditional is dead: what is outside must not be. */
MR_TEST(fuse_keeps_outputs_apart_that_may_be_dead_for_other_reasons)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), p = arg(&b, MR_BOOL), a = emit1(&b, "Exp", x);
    mr_out side = mr_emit(&b.s, "Switch", x, p);
    mr_out c = emit2(&b, "Mul", a, emit1(&b, "Neg", side));
    fetch(&b, a);
    fetch(&b, c);
    fuse(&b);
    MR_CHECK_INT(count(&b, "Exp"), 1);
    MR_CHECK_INT(FUSED(&b), 1);
    end(&b);
}

/* Both Switches ask the same predicate. */
MR_TEST(fuse_joins_values_of_one_side_of_a_conditional)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), y = arg(&b, MR_FLOAT), p = arg(&b, MR_BOOL);
    mr_out sx = mr_nth(mr_emit(&b.s, "Switch", x, p), 1), sy = mr_nth(mr_emit(&b.s, "Switch", y, p), 1);
    mr_out a = emit1(&b, "Exp", sx), c = emit2(&b, "Mul", a, emit1(&b, "Neg", sy));
    fetch(&b, a);
    fetch(&b, c);
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), 1);
    MR_CHECK_INT(count(&b, "Exp") + count(&b, "Mul"), 0);
    end(&b);
}

/* Whoever fills the queue may need the first value. */
MR_TEST(fuse_keeps_a_value_apart_from_one_that_may_wait)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), queue = mr_emit0_with(&b.s, "FIFOQueueV2", MR_ATTRS({"component_types", mr_a_types(1, (int[]){MR_FLOAT})}));
    mr_out got = mr_emit_n(&b.s, "QueueDequeueV2", (const mr_named_attr[]){{"component_types", mr_a_types(1, (int[]){MR_FLOAT})}}, 1, &queue, 1);
    mr_out a = emit1(&b, "Exp", x), c = emit2(&b, "Mul", a, emit1(&b, "Neg", got));
    fetch(&b, a);
    fetch(&b, c);
    fuse(&b);
    MR_CHECK_INT(count(&b, "Exp"), 1);
    MR_CHECK_INT(FUSED(&b), 1);
    end(&b);
}

MR_TEST(fuse_moves_control_edges_to_the_fused_node)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT);
    mr_node *before = mr_emit0(&b.s, "NoOp").node, *after = mr_emit0(&b.s, "NoOp").node;
    mr_out a = emit1(&b, "Exp", x), c = emit1(&b, "Tanh", a), d = emit1(&b, "Neg", c);
    mr_node_add_control(a.node, before);
    mr_node_add_control(after, d.node);
    mr_node_add_control(after, c.node);
    mr_node *ret = fetch(&b, d);
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), 1);
    MR_CHECK_INT(ret->in[0].node->n_ctrl, 1);
    MR_CHECK(ret->in[0].node->ctrl[0] == before && after->n_ctrl == 1 && after->ctrl[0] == ret->in[0].node);
    MR_CHECK_INT(before->uses.n, 1);
    end(&b);
}

/* A control edge from the first to the second of two that are fused otherwise. */
MR_TEST(fuse_keeps_nodes_apart_that_a_control_edge_orders)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), a = emit1(&b, "Exp", x), c = emit1(&b, "Tanh", a);
    mr_node *between = mr_emit0(&b.s, "NoOp").node;
    mr_node_add_control(between, a.node);
    mr_node_add_control(c.node, between);
    fetch(&b, c);
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), 0);
    end(&b);
}

MR_TEST(fuse_leaves_reads_of_references_alone)
{
    bench b;
    begin(&b);
    mr_named_attr attrs[] = {{"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(&mr_pshape_scalar)}};
    mr_out v = mr_emit_n(&b.s, "VariableV2", attrs, 2, NULL, 0);
    fetch(&b, emit1(&b, "Tanh", emit2(&b, "Mul", v, arg(&b, MR_FLOAT))));
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), 0);
    end(&b);
}

MR_TEST(fuse_cuts_a_region_that_is_too_large_for_one_node)
{
    enum { N = 1000 };
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT);
    for (int i = 0; i < N; i++)
        x = emit1(&b, "Neg", x);
    fetch(&b, x);
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), (N + MR_FUSED_MAX_MEMBERS - 1) / MR_FUSED_MAX_MEMBERS);
    MR_CHECK_INT(count(&b, "Neg"), 0);
    end(&b);
}

MR_TEST(fuse_of_a_wide_graph_is_linear)
{
    enum { N = 5000 };
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), y = arg(&b, MR_FLOAT);
    mr_node_builder *nb = mr_node_begin(b.g, "NoOp", "group");
    mr_node *group = NULL;
    for (int i = 0; i < N; i++) {
        mr_out a = emit2(&b, "Mul", x, y), c = emit1(&b, "Tanh", a);
        mr_nb_control(nb, a.node);
        mr_nb_control(nb, c.node);
    }
    MR_CHECK_OK(mr_node_finish(nb, &group));
    fuse(&b);
    MR_CHECK_INT(FUSED(&b), N);
    MR_CHECK_INT(group->n_ctrl, N);
    end(&b);
}

/* ---- updates ---- */

static mr_out variable(bench *b, const mr_pshape *shape)
{
    return mr_emit0_with(&b->s, "VariableV2", MR_ATTRS({"shape", mr_a_shape(shape)}, {"dtype", mr_a_type(MR_FLOAT)}));
}

/* A gradient of this length from arguments, and the update of a variable by it. */
static mr_node *update(bench *b, int64_t n, mr_out grad)
{
    mr_pshape *shape = mr_arena_alloc(&b->g->arena, sizeof *shape + sizeof(int64_t));
    shape->rank = 1;
    shape->dims[0] = n;
    mr_out rate = arg(b, MR_FLOAT), delta = mr_emit(&b->s, "Sub", variable(b, shape), grad);
    delta.node->out_shapes[0] = shape;
    rate.node->out_shapes[0] = mr_arena_calloc(&b->g->arena, 1, sizeof *shape);
    return mr_emit_n(&b->s, "ApplyGradientDescent", NULL, 0, (mr_out[]){variable(b, shape), rate, delta}, 3).node;
}

#define UPDATES(b) count(b, MR_FUSED_UPDATE)

MR_TEST(fuse_joins_small_updates_and_their_control_edges)
{
    bench b;
    begin(&b);
    mr_node *before = mr_emit0(&b.s, "NoOp").node, *after = mr_emit0(&b.s, "NoOp").node;
    for (int i = 0; i < 5; i++) {
        mr_node *n = update(&b, 100, arg(&b, MR_FLOAT));
        mr_node_add_control(n, before);
        mr_node_add_control(after, n);
    }
    fuse(&b);
    MR_CHECK_INT(UPDATES(&b), 1);
    MR_CHECK_INT(count(&b, "ApplyGradientDescent"), 0);
    MR_CHECK_INT(after->n_ctrl, 1);
    MR_CHECK_INT(after->ctrl[0]->n_ctrl, 1);
    MR_CHECK_INT(after->ctrl[0]->n_in, 15);
    end(&b);
}

MR_TEST(fuse_leaves_large_updates_and_those_that_are_read_alone)
{
    bench b;
    begin(&b);
    update(&b, 100, arg(&b, MR_FLOAT));
    update(&b, 1000000, arg(&b, MR_FLOAT));
    mr_node *read = update(&b, 100, arg(&b, MR_FLOAT));
    fetch(&b, emit1(&b, "Identity", (mr_out){read, 0}));
    fuse(&b);
    MR_CHECK_INT(UPDATES(&b), 0);
    end(&b);
}

/* The second update waits for what the first one leads to. */
MR_TEST(fuse_makes_no_cycle_of_updates)
{
    bench b;
    begin(&b);
    mr_node *first = update(&b, 100, arg(&b, MR_FLOAT)), *other = update(&b, 100, arg(&b, MR_FLOAT));
    mr_node *between = mr_emit0(&b.s, "NoOp").node, *second = update(&b, 100, arg(&b, MR_FLOAT));
    mr_node_add_control(between, first);
    mr_node_add_control(second, between);
    fuse(&b);
    MR_CHECK_INT(UPDATES(&b), 1);
    MR_CHECK_INT(count(&b, "ApplyGradientDescent"), 1);
    MR_CHECK(mr_graph_find(b.g, mr_sv_of(second->name)) == second);
    (void)other;
    end(&b);
}

/* Only one of them may be dead. */
MR_TEST(fuse_keeps_updates_apart_that_may_be_dead_for_other_reasons)
{
    bench b;
    begin(&b);
    mr_out side = mr_emit(&b.s, "Switch", arg(&b, MR_FLOAT), arg(&b, MR_BOOL));
    update(&b, 100, side);
    update(&b, 100, arg(&b, MR_FLOAT));
    fuse(&b);
    MR_CHECK_INT(UPDATES(&b), 0);
    end(&b);
}
