/* passes/simplify_test.c -- which nodes go, and which stay. */
#include "graph/scope.h"
#include "passes/passes.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

#define CPU0 "/job:localhost/replica:0/task:0/device:CPU:0"

typedef struct bench {
    mr_graph *g;
    mr_scope s;
    mr_device *device;
    mr_prepare_options o;
    int n_args, n_rets;
} bench;

static void begin(bench *b)
{
    *b = (bench){.g = mr_graph_new()};
    mr_ops_register();
    mr_scope_init(&b->s, b->g, "");
    MR_CHECK_OK(mr_device_new_cpu(CPU0, NULL, &b->device));
    b->o = (mr_prepare_options){.devices = &b->device, .n_devices = 1};
}

static void end(bench *b)
{
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
    mr_device_free(b->device);
}

static mr_out arg(bench *b, mr_dtype type)
{
    return mr_emit0_with(&b->s, "_Arg", MR_ATTRS({"T", mr_a_type(type)}, {"index", mr_a_int(b->n_args++)}));
}

/* An argument of known shape. */
static mr_out shaped(bench *b, int rank, const int64_t *dims)
{
    mr_out o = arg(b, MR_FLOAT);
    mr_pshape *s = mr_arena_alloc(&b->g->arena, sizeof *s + sizeof *dims * (size_t)rank);
    s->rank = rank;
    memcpy(s->dims, dims, sizeof *dims * (size_t)rank);
    o.node->out_shapes[0] = s;
    return o;
}

static mr_out scalar(bench *b, mr_dtype type, double v)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, type, 0, NULL, &t));
    mr_dtype_convert(MR_DOUBLE, &v, type, t->data, 1, false);
    return mr_const(&b->s, t);
}

static mr_out ints(bench *b, int n, const int *v)
{
    mr_tensor *t;
    int64_t dims[] = {n};
    MR_CHECK_OK(mr_tensor_new(NULL, MR_INT32, 1, dims, &t));
    memcpy(t->data, v, sizeof *v * (size_t)n);
    return mr_const(&b->s, t);
}
#define INTS(b, ...) ints(b, MR_COUNT(((int[]){__VA_ARGS__})), (int[]){__VA_ARGS__})

static mr_node *fetch(bench *b, mr_out o)
{
    mr_node_builder *nb = mr_node_begin(b->g, "_Retval", mr_graph_unique_name(b->g, "ret"));
    mr_nb_input(nb, o);
    mr_nb_attr(nb, "index", mr_a_int(b->n_rets++));
    mr_node *out = NULL;
    MR_CHECK_OK(mr_node_finish(nb, &out));
    return out;
}

static void simplify(bench *b)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    for (int i = 0; i < b->g->nodes.n; i++)
        if (b->g->nodes.p[i])
            b->g->nodes.p[i]->placed = CPU0;
    MR_CHECK_OK(mr_simplify(b->g, &b->o));
}

static int count(const bench *b, const char *op)
{
    int n = 0;
    for (int i = 0; i < b->g->nodes.n; i++)
        n += b->g->nodes.p[i] && mr_node_is(b->g->nodes.p[i], op);
    return n;
}

/* Whether what is fetched is `o` after the pass. */
static void check_fetched(bench *b, mr_out fetched, mr_out o)
{
    mr_node *ret = fetch(b, fetched);
    simplify(b);
    MR_CHECK(mr_out_eq(ret->in[0], o));
    end(b);
}
#define CHECK_GOES(x, ...)                        \
    do {                                          \
        bench b;                                  \
        begin(&b);                                \
        mr_out a = x;                             \
        check_fetched(&b, __VA_ARGS__, a);        \
    } while (0)
#define CHECK_STAYS(x, ...)                       \
    do {                                          \
        bench b;                                  \
        begin(&b);                                \
        mr_out a = x, last = __VA_ARGS__;         \
        check_fetched(&b, last, last);            \
    } while (0)

MR_TEST(simplify_removes_operations_with_neutral_numbers)
{
    CHECK_GOES(arg(&b, MR_FLOAT), mr_emit(&b.s, "Mul", a, scalar(&b, MR_FLOAT, 1)));
    CHECK_GOES(arg(&b, MR_FLOAT), mr_emit(&b.s, "Mul", scalar(&b, MR_FLOAT, 1), a));
    CHECK_GOES(arg(&b, MR_FLOAT), mr_emit(&b.s, "RealDiv", a, scalar(&b, MR_FLOAT, 1)));
    CHECK_GOES(arg(&b, MR_FLOAT), mr_emit(&b.s, "Sub", a, scalar(&b, MR_FLOAT, 0)));
    CHECK_GOES(arg(&b, MR_FLOAT), mr_emit(&b.s, "AddV2", a, scalar(&b, MR_FLOAT, -0.0)));
    CHECK_GOES(arg(&b, MR_INT32), mr_emit(&b.s, "AddV2", scalar(&b, MR_INT32, 0), a));
    CHECK_GOES(arg(&b, MR_FLOAT), mr_emit(&b.s, "Pow", a, scalar(&b, MR_FLOAT, 1)));
}

/* -0 + 0 is 0, 1 / x and 0 - x are other numbers, and a vector of ones makes a larger result. */
MR_TEST(simplify_keeps_operations_that_may_change_a_bit)
{
    CHECK_STAYS(arg(&b, MR_FLOAT), mr_emit(&b.s, "AddV2", a, scalar(&b, MR_FLOAT, 0)));
    CHECK_STAYS(arg(&b, MR_FLOAT), mr_emit(&b.s, "Sub", a, scalar(&b, MR_FLOAT, -0.0)));
    CHECK_STAYS(arg(&b, MR_FLOAT), mr_emit(&b.s, "RealDiv", scalar(&b, MR_FLOAT, 1), a));
    CHECK_STAYS(arg(&b, MR_FLOAT), mr_emit(&b.s, "Sub", scalar(&b, MR_FLOAT, 0), a));
    CHECK_STAYS(arg(&b, MR_FLOAT), mr_emit(&b.s, "Pow", a, scalar(&b, MR_FLOAT, 0.5)));
    CHECK_STAYS(arg(&b, MR_INT32), mr_emit(&b.s, "Mul", a, INTS(&b, 1, 1)));
}

MR_TEST(simplify_removes_pairs_and_casts_through_wider_types)
{
    CHECK_GOES(arg(&b, MR_FLOAT), mr_emit(&b.s, "Neg", mr_emit(&b.s, "Neg", a)));
    CHECK_GOES(arg(&b, MR_BOOL), mr_emit(&b.s, "LogicalNot", mr_emit(&b.s, "LogicalNot", a)));
    CHECK_GOES(arg(&b, MR_INT32), mr_emit(&b.s, "Identity", mr_emit(&b.s, "StopGradient", a)));
#define CAST(v, to) mr_emit_n(&b.s, "Cast", (mr_named_attr[]){{"DstT", mr_a_type(to)}}, 1, (mr_out[]){v}, 1)
    CHECK_GOES(arg(&b, MR_HALF), CAST(CAST(a, MR_FLOAT), MR_HALF));
    CHECK_GOES(arg(&b, MR_FLOAT), CAST(a, MR_FLOAT));
    CHECK_STAYS(arg(&b, MR_FLOAT), CAST(CAST(a, MR_HALF), MR_FLOAT));
    CHECK_STAYS(arg(&b, MR_FLOAT), CAST(CAST(a, MR_DOUBLE), MR_FLOAT)); /* a denormal number becomes 0 */
    CHECK_STAYS(arg(&b, MR_INT32), CAST(CAST(a, MR_FLOAT), MR_INT32));
}

MR_TEST(simplify_removes_transposes_and_reshapes_that_change_nothing)
{
    static const int64_t dims[] = {2, 3, 4};
    CHECK_GOES(shaped(&b, 3, dims), mr_emit(&b.s, "Transpose", a, INTS(&b, 0, 1, 2)));
    CHECK_GOES(shaped(&b, 3, dims), mr_emit(&b.s, "Transpose", mr_emit(&b.s, "Transpose", a, INTS(&b, 2, 0, 1)), INTS(&b, 1, 2, 0)));
    CHECK_GOES(shaped(&b, 3, dims), mr_emit(&b.s, "Reshape", a, INTS(&b, 2, -1, 4)));
    CHECK_STAYS(shaped(&b, 3, dims), mr_emit(&b.s, "Transpose", mr_emit(&b.s, "Transpose", a, INTS(&b, 2, 0, 1)), INTS(&b, 2, 0, 1)));
    CHECK_STAYS(arg(&b, MR_FLOAT), mr_emit(&b.s, "Transpose", a, INTS(&b, 0, 1, 2))); /* may be an error */
    CHECK_STAYS(shaped(&b, 3, dims), mr_emit(&b.s, "Reshape", a, INTS(&b, 3, 2, 4)));
}

MR_TEST(simplify_writes_powers_as_products_under_the_same_name)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), two = scalar(&b, MR_FLOAT, 2), three = scalar(&b, MR_FLOAT, 3);
    mr_node *ret = fetch(&b, mr_emit(mr_as(&b.s, "cube"), "Pow", x, three));
    mr_node *square = fetch(&b, mr_emit(mr_as(&b.s, "square"), "Pow", x, two));
    mr_node *half = fetch(&b, mr_emit(&b.s, "Pow", arg(&b, MR_HALF), scalar(&b, MR_HALF, 3)));
    simplify(&b);
    MR_CHECK(mr_node_is(ret->in[0].node, "Mul") && mr_node_is(square->in[0].node, "Square"));
    MR_CHECK_STR(ret->in[0].node->name, "cube");
    MR_CHECK_STR(square->in[0].node->name, "square");
    MR_CHECK(mr_node_is(half->in[0].node, "Pow")); /* which rounds once */
    MR_CHECK_INT(count(&b, "Const"), 1);
    end(&b);
}

MR_TEST(simplify_moves_control_edges_to_the_input)
{
    bench b;
    begin(&b);
    mr_node *after = mr_emit0(&b.s, "NoOp").node;
    mr_out x = mr_emit(&b.s, "Neg", arg(&b, MR_FLOAT)), same = mr_emit(&b.s, "Identity", x);
    mr_node_add_control(after, same.node);
    mr_node_add_control(after, x.node);
    fetch(&b, same);
    simplify(&b);
    MR_CHECK_INT(count(&b, "Identity"), 0);
    MR_CHECK_INT(after->n_ctrl, 1);
    MR_CHECK(after->ctrl[0] == x.node);
    end(&b);
}

MR_TEST(simplify_keeps_identities_that_others_rely_on)
{
    bench b;
    begin(&b);
    mr_node *before = mr_emit0(&b.s, "NoOp").node, *after = mr_emit0(&b.s, "NoOp").node;
    mr_out x = arg(&b, MR_FLOAT), late = mr_emit(&b.s, "Identity", x);
    mr_out side = mr_emit(&b.s, "Identity", mr_emit(&b.s, "Switch", x, arg(&b, MR_BOOL)));
    mr_pshape *shape = mr_arena_calloc(&b.g->arena, 1, sizeof *shape);
    mr_out read = mr_emit(&b.s, "Identity", mr_emit0_with(&b.s, "VariableV2", MR_ATTRS({"shape", mr_a_shape(shape)}, {"dtype", mr_a_type(MR_FLOAT)})));
    mr_emit(&b.s, "Identity", x); /* a target */
    mr_node_add_control(late.node, before);
    mr_node_add_control(after, side.node);
    fetch(&b, late);
    fetch(&b, side);
    fetch(&b, read);
    simplify(&b);
    MR_CHECK_INT(count(&b, "Identity"), 4);
    end(&b);
}

/* Inside a conditional the constant exists only on one side; the value on both. */
MR_TEST(simplify_keeps_an_operation_with_a_constant_of_one_side)
{
    bench b;
    begin(&b);
    mr_out x = arg(&b, MR_FLOAT), one = scalar(&b, MR_FLOAT, 1);
    mr_out pivot = mr_emit(&b.s, "Identity", mr_emit(&b.s, "Switch", x, arg(&b, MR_BOOL)));
    mr_node_add_control(one.node, pivot.node);
    fetch(&b, mr_emit(&b.s, "Mul", x, one));
    fetch(&b, mr_emit(&b.s, "Mul", mr_emit(&b.s, "Neg", pivot), one));
    simplify(&b);
    MR_CHECK_INT(count(&b, "Mul"), 1);
    end(&b);
}

/* The gradient of x y towards x, as it is written for shapes that are not known. */
static mr_out gradient_of_product(bench *b, mr_out x, mr_out y, mr_out dz)
{
    mr_out sx = mr_emit(&b->s, "Shape", x), sy = mr_emit(&b->s, "Shape", y);
    mr_out axes = mr_emit(&b->s, "BroadcastGradientArgs", sx, sy);
    return mr_emit(&b->s, "Reshape", mr_emit(&b->s, "Sum", mr_emit(&b->s, "Mul", dz, y), axes), sx);
}

MR_TEST(simplify_removes_the_sum_for_an_operand_that_was_not_broadcast)
{
    static const int64_t any[] = {-1, 3};
    bench b;
    begin(&b);
    mr_out x = shaped(&b, 2, any), y = mr_emit(&b.s, "Tanh", x), z = mr_emit(&b.s, "Mul", x, y);
    mr_node *ret = fetch(&b, gradient_of_product(&b, x, y, mr_emit(&b.s, "OnesLike", z)));
    simplify(&b);
    MR_CHECK(mr_node_is(ret->in[0].node, "Mul"));
    MR_CHECK_INT(count(&b, "Sum") + count(&b, "Shape") + count(&b, "BroadcastGradientArgs"), 0);
    end(&b);
}

/* Both have a first dimension of unknown size; one of them may be 1. */
MR_TEST(simplify_keeps_the_sum_for_an_operand_that_may_be_broadcast)
{
    static const int64_t any[] = {-1, 3};
    bench b;
    begin(&b);
    mr_out x = shaped(&b, 2, any), y = shaped(&b, 2, any), z = mr_emit(&b.s, "Mul", x, y);
    fetch(&b, gradient_of_product(&b, x, y, mr_emit(&b.s, "OnesLike", z)));
    simplify(&b);
    MR_CHECK_INT(count(&b, "Sum"), 1);
    end(&b);
}

MR_TEST(simplify_can_be_switched_off)
{
    bench b;
    begin(&b);
    b.o.no_simplify = true;
    fetch(&b, mr_emit(&b.s, "Identity", arg(&b, MR_FLOAT)));
    simplify(&b);
    MR_CHECK_INT(count(&b, "Identity"), 1);
    end(&b);
}
