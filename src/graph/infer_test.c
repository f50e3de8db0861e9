#include "graph/infer.h"

#include "graph/interpreter_fixture.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

typedef struct bench {
    mr_graph *g;
    mr_scope s;
} bench;

static void bench_init(bench *b)
{
    mr_mini_register();
    b->g = mr_graph_new();
    mr_scope_init(&b->s, b->g, NULL);
}

static void bench_deinit(bench *b)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
    mr_infer_set_evaluator(NULL);
}

static mr_out input(bench *b, int rank, const int64_t *dims)
{
    return mr_placeholder(&b->s, MR_FLOAT, "x",
                          rank < 0 ? NULL : mr_pshape_of(&b->g->arena, rank, dims));
}
#define INPUT(b, ...) \
    input(b, MR_COUNT(((const int64_t[]){__VA_ARGS__})), (const int64_t[]){__VA_ARGS__})

static mr_out vec(bench *b, int n, const int32_t *v) { return mr_const_vec_i32(&b->s, n, v); }
#define VEC(b, ...) \
    vec(b, MR_COUNT(((const int32_t[]){__VA_ARGS__})), (const int32_t[]){__VA_ARGS__})

static void check_shape(mr_out o, const char *expected)
{
    MR_CHECK(o.node != NULL);
    MR_CHECK_STR(MR_PSHAPE_TEXT(mr_out_shape(o)), expected);
}

/* Of a Fill whose dims come from `shape`. */
static void check_filled(bench *b, mr_out shape, const char *expected)
{
    check_shape(mr_emit(&b->s, "Fill", shape, mr_const_f32(&b->s, 0)), expected);
}

static mr_out slice(bench *b, mr_out x, int begin, int end, int shrink)
{
    return mr_emit_with(&b->s, "StridedSlice", MR_ATTRS({"shrink_axis_mask", mr_a_int(shrink)}), x,
                        VEC(b, begin), VEC(b, end), VEC(b, 1));
}

/* ---- shape functions ---- */
MR_TEST(infer_broadcasts_known_and_unknown_sizes)
{
    bench b;
    bench_init(&b);
    check_shape(mr_emit(&b.s, "Add", INPUT(&b, 2, 1), INPUT(&b, 3)), "[2,3]");
    check_shape(mr_emit(&b.s, "Add", INPUT(&b, -1, 3), INPUT(&b, 2, 1)), "[2,3]");
    check_shape(mr_emit(&b.s, "Add", INPUT(&b, -1), INPUT(&b, 1)), "[?]");
    check_shape(mr_emit(&b.s, "Add", INPUT(&b, -1), INPUT(&b, 5)), "[5]");
    check_shape(mr_emit(&b.s, "Add", input(&b, -1, NULL), INPUT(&b, 5)), "<unknown>");
    bench_deinit(&b);
}

MR_TEST(infer_says_what_does_not_fit_and_where)
{
    bench b;
    bench_init(&b);
    mr_out x = INPUT(&b, 2, 3), y = INPUT(&b, 4);
    mr_emit(mr_as(&b.s, "sum"), "Add", x, y);
    MR_CHECK_ERR(mr_scope_status(&b.s), MR_INVALID_ARGUMENT,
                 "Dimensions must be equal, but are 3 and 4 for '{{node sum}} = Add[T=DT_FLOAT](x, "
                 "x_1)' with input "
                 "shapes: [2,3], [4].");
    mr_emit(&b.s, "MatMul", INPUT(&b, 2, 3, 4), INPUT(&b, 4, 4));
    MR_CHECK_ERR(mr_scope_status(&b.s), MR_INVALID_ARGUMENT,
                 "Shape must be rank 2 but is rank 3 for '{{node MatMul}}");
    mr_emit(&b.s, "MatMul", INPUT(&b, 2, 3), INPUT(&b, 4, 4));
    MR_CHECK_ERR(mr_scope_status(&b.s), MR_INVALID_ARGUMENT,
                 "Dimensions must be equal, but are 3 and 4 for");
    mr_emit(&b.s, "AddN", INPUT(&b, 2, 3), INPUT(&b, 2, 4));
    MR_CHECK_ERR(
        mr_scope_status(&b.s), MR_INVALID_ARGUMENT,
        "Dimension 1 in both shapes must be equal, but are 3 and 4. Shapes are [2,3] and [2,4].");
    bench_deinit(&b);
}

MR_TEST(infer_shows_the_values_it_looked_at)
{
    bench b;
    bench_init(&b);
    mr_emit(&b.s, "Sum", INPUT(&b, 2, 3), VEC(&b, 0, 5));
    MR_CHECK_ERR(mr_scope_status(&b.s), MR_INVALID_ARGUMENT,
                 "Invalid reduction dimension 5 for input with 2 dimensions for '{{node Sum}} = "
                 "Sum[T=DT_FLOAT, "
                 "keep_dims=false](x, Const)' with input shapes: [2,3], [2] and with computed "
                 "input tensors: "
                 "input[1] = <0 5>.");
    bench_deinit(&b);
}

MR_TEST(infer_reduces_axes_that_are_known)
{
    bench b;
    bench_init(&b);
    mr_out x = INPUT(&b, 2, 3, -1), any = mr_placeholder(&b.s, MR_INT32, "axes", NULL);
    check_shape(mr_emit(&b.s, "Sum", x, VEC(&b, 0, -1)), "[3]");
    check_shape(mr_emit_with(&b.s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), x, VEC(&b, 1)),
                "[2,1,?]");
    check_shape(mr_emit_with(&b.s, "Sum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), x, any),
                "[?,?,?]");
    check_shape(mr_emit(&b.s, "Sum", x, any), "<unknown>");
    bench_deinit(&b);
}

MR_TEST(infer_takes_a_scalar_placeholder_of_old_graphs_for_unknown)
{
    bench b;
    bench_init(&b);
    check_shape(mr_placeholder(&b.s, MR_FLOAT, "new", &mr_pshape_scalar), "[]");
    b.g->versions.producer = 21;
    check_shape(mr_placeholder(&b.s, MR_FLOAT, "old", &mr_pshape_scalar), "<unknown>");
    bench_deinit(&b);
}

MR_TEST(infer_again_keeps_what_was_told)
{
    bench b;
    bench_init(&b);
    mr_out x = input(&b, -1, NULL), y = mr_emit(&b.s, "Tanh", x);
    MR_CHECK_OK(mr_out_refine_shape(y, mr_pshape_matrix(&b.g->arena, 4, -1)));
    MR_CHECK_OK(mr_out_refine_shape(x, mr_pshape_matrix(&b.g->arena, -1, 5)));
    MR_CHECK_OK(mr_node_infer(y.node));
    check_shape(y, "[4,5]");
    MR_CHECK_OK(mr_out_refine_shape(x, mr_pshape_matrix(&b.g->arena, 3, 5)));
    MR_CHECK_ERR(mr_node_infer(y.node), MR_INVALID_ARGUMENT, "must be equal, but are 4 and 3");
    bench_deinit(&b);
}

/* ---- values ---- */
MR_TEST(infer_reads_a_shape_from_a_constant)
{
    bench b;
    bench_init(&b);
    check_filled(&b, VEC(&b, 2, 3), "[2,3]");
    check_filled(&b, VEC(&b, 2, -1), "[2,?]");
    mr_emit(&b.s, "Fill", VEC(&b, 2, -7), mr_const_f32(&b.s, 0));
    MR_CHECK_ERR(mr_scope_status(&b.s), MR_INVALID_ARGUMENT,
                 "Invalid value in tensor used for shape: -7");
    mr_emit(&b.s, "Fill", mr_const_i32(&b.s, 3), mr_const_f32(&b.s, 0));
    MR_CHECK_ERR(mr_scope_status(&b.s), MR_INVALID_ARGUMENT, "Shape must be rank 1 but is rank 0");
    bench_deinit(&b);
}

MR_TEST(infer_reads_a_rank_from_the_length_of_a_shape)
{
    bench b;
    bench_init(&b);
    const mr_pshape *three = mr_pshape_vector(&b.g->arena, 3),
                    *many = mr_pshape_vector(&b.g->arena, 1000);
    check_filled(&b, mr_placeholder(&b.s, MR_INT32, "s", three), "[?,?,?]");
    check_filled(&b, mr_placeholder(&b.s, MR_INT32, "s", NULL), "<unknown>");
    mr_emit(&b.s, "Fill", mr_placeholder(&b.s, MR_INT32, "s", many), mr_const_f32(&b.s, 0));
    MR_CHECK_ERR(mr_scope_status(&b.s), MR_INVALID_ARGUMENT, "1000 dimensions");
    bench_deinit(&b);
}

MR_TEST(infer_follows_shapes_taken_apart_and_put_together)
{
    bench b;
    bench_init(&b);
    mr_out shape = mr_emit(&b.s, "Shape", INPUT(&b, -1, 3, 5));
    check_filled(&b, shape, "[?,3,5]");
    check_filled(&b, slice(&b, shape, 1, 3, 0), "[3,5]");
    mr_out batch = slice(&b, shape, 0, 1, 1), width = slice(&b, shape, 2, 3, 1);
    mr_out twice = mr_emit(&b.s, "Mul", width, mr_const_i32(&b.s, 2));
    check_filled(&b, mr_emit(&b.s, "Pack", batch, twice, mr_const_i32(&b.s, 7)), "[?,10,7]");
    /* an element of unknown rank hides only itself */
    mr_out odd = mr_placeholder(&b.s, MR_INT32, "odd", NULL);
    check_filled(&b, mr_emit(&b.s, "Pack", odd, mr_const_i32(&b.s, 7)), "[?,7]");
    mr_out parts[] = {slice(&b, shape, 0, 2, 0), VEC(&b, 4, 4)}, axis = mr_const_i32(&b.s, 0);
    mr_emit_arg args[] = {{2, parts}, {-1, &axis}};
    check_filled(&b, mr_emit_lists(&b.s, "ConcatV2", NULL, 0, args, 2), "[?,3,4,4]");
    bench_deinit(&b);
}

MR_TEST(infer_follows_values_through_switch_and_enter)
{
    bench b;
    bench_init(&b);
    mr_out pred = mr_placeholder(&b.s, MR_BOOL, "p", NULL);
    mr_out side = mr_nth(mr_emit(&b.s, "Switch", VEC(&b, 2, 3), pred), 1);
    check_filled(&b, side, "[2,3]");
    mr_out in = mr_emit_with(
        &b.s, "Enter", MR_ATTRS({"frame_name", mr_a_str("f")}, {"is_constant", mr_a_bool(true)}),
        VEC(&b, 4));
    check_shape(mr_emit(&b.s, "Fill", in, mr_const_f32(&b.s, 0)), "[4]");
    bench_deinit(&b);
}

MR_TEST(infer_knows_sizes_and_ranks)
{
    bench b;
    bench_init(&b);
    mr_out size = mr_emit(&b.s, "Size", INPUT(&b, 3, 5)),
           rank = mr_emit(&b.s, "Rank", INPUT(&b, 3, -1));
    check_filled(&b, mr_emit(&b.s, "Pack", size, rank), "[15,2]");
    check_filled(&b, mr_emit(&b.s, "Pack", mr_emit(&b.s, "Size", INPUT(&b, 3, -1)), rank), "[?,2]");
    bench_deinit(&b);
}

static int n_evaluated;

/* Adds floats; represents a kernel. */
static mr_status *evaluate(const mr_node *n, mr_tensor *const *in, mr_tensor **out)
{
    n_evaluated++;
    if (!mr_node_is(n, "Add") && !mr_node_is(n, "Neg"))
        return mr_error(MR_UNIMPLEMENTED, "%s", n->def->name);
    out[0] = mr_tensor_scalar_f32(MR_DATA(float, in[0])[0] +
                                  (n->n_in > 1 ? MR_DATA(float, in[1])[0] : 0));
    return NULL;
}

MR_TEST(infer_asks_the_evaluator_for_the_rest)
{
    bench b;
    mr_tensor *t;
    bench_init(&b);
    mr_out y = mr_emit(&b.s, "Add", mr_const_f32(&b.s, 1), mr_const_f32(&b.s, 2)),
           z = mr_emit(&b.s, "Add", y, y);
    MR_CHECK_OK(mr_out_value(z, &t));
    MR_CHECK(!t);
    mr_infer_set_evaluator(evaluate);
    MR_CHECK_OK(mr_out_value(z, &t));
    MR_CHECK(t && MR_DATA(float, t)[0] == 6);
    mr_tensor_unref(t);
    MR_CHECK_INT(n_evaluated, 2); /* y once, although used twice */
    bench_deinit(&b);
}

MR_TEST(infer_does_not_evaluate_what_is_fed_stateful_or_too_much)
{
    bench b;
    mr_tensor *t;
    bench_init(&b);
    mr_infer_set_evaluator(evaluate);
    mr_out x = mr_placeholder(&b.s, MR_FLOAT, "x", &mr_pshape_scalar), y = mr_const_f32(&b.s, 1);
    MR_CHECK_OK(mr_out_value(mr_emit(&b.s, "Add", x, y), &t));
    MR_CHECK(!t);
    for (int i = 0; i < 1000; i++)
        y = mr_emit(&b.s, "Add", y, y);
    MR_CHECK_OK(mr_out_value(y, &t));
    MR_CHECK(!t);
    mr_out large = mr_emit(&b.s, "Fill", VEC(&b, 1 << 20, 1 << 10), mr_const_f32(&b.s, 1));
    n_evaluated = 0;
    MR_CHECK_OK(mr_out_value(mr_emit(&b.s, "Neg", large), &t));
    MR_CHECK(!t);
    MR_CHECK_INT(n_evaluated, 0);
    bench_deinit(&b);
}

/* ---- handles ---- */
MR_TEST(infer_passes_on_what_a_handle_leads_to)
{
    bench b;
    bench_init(&b);
    const mr_pshape *s = mr_pshape_matrix(&b.g->arena, 2, 3);
    mr_out h = mr_emit0_with(&b.s, "VarHandleOp",
                             MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(s)}));
    mr_out pred = mr_placeholder(&b.s, MR_BOOL, "p", NULL);
    mr_out split = mr_emit(&b.s, "Switch", mr_emit(&b.s, "Identity", h), pred);
    mr_out joined = mr_emit(&b.s, "Merge", mr_nth(split, 0), mr_nth(split, 1));
    mr_out in = mr_emit_with(&b.s, "Enter", MR_ATTRS({"frame_name", mr_a_str("f")}), joined);
    check_shape(mr_emit_with(&b.s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), in),
                "[2,3]");
    bench_deinit(&b);
}

/* ---- windows ---- */
static void check_window(int64_t n, int64_t k, int64_t d, int64_t s, mr_padding p, int64_t out,
                         int64_t before, int64_t after)
{
    int64_t got = -9, b = before, a = after;
    MR_CHECK_OK(mr_window_size(n, k, d, s, p, &b, &a, &got));
    MR_CHECK_INT(got, out);
    MR_CHECK_INT(b, before);
    MR_CHECK_INT(a, after);
}

MR_TEST(window_sizes_follow_their_padding)
{
    check_window(10, 3, 1, 1, MR_PAD_VALID, 8, 0, 0);
    check_window(10, 3, 1, 2, MR_PAD_VALID, 4, 0, 0);
    check_window(10, 3, 2, 1, MR_PAD_VALID, 6, 0, 0);
    check_window(2, 3, 1, 1, MR_PAD_VALID, 0, 0, 0);
    check_window(10, 3, 1, 1, MR_PAD_SAME, 10, 1, 1);
    check_window(10, 4, 1, 3, MR_PAD_SAME, 4, 1, 2);
    check_window(0, 3, 1, 1, MR_PAD_SAME, 0, 0, 0);
    check_window(10, 3, 1, 1, MR_PAD_EXPLICIT, 12, 2, 2);
    check_window(-1, 3, 1, 1, MR_PAD_VALID, -1, 0, 0);
    check_window(-1, 3, 1, 1, MR_PAD_SAME, -1, -1, -1);
    check_window(7, -1, 1, 2, MR_PAD_SAME, 4, -1, -1);
}

MR_TEST(window_sizes_of_shape_inference_are_never_empty_for_want_of_room)
{
    int64_t out = 0;
    MR_CHECK_OK(mr_infer_window(3, 3, 1, 2, MR_PAD_VALID, 0, 0, &out));
    MR_CHECK_INT(out, 1);
    MR_CHECK_OK(mr_infer_window(2, 3, 1, 2, MR_PAD_EXPLICIT, 1, 0, &out));
    MR_CHECK_INT(out, 1);
    MR_CHECK_OK(mr_infer_window(0, 3, 1, 2, MR_PAD_SAME, 0, 0, &out));
    MR_CHECK_INT(out, 0);
    MR_CHECK_OK(mr_infer_window(-1, 3, 1, 2, MR_PAD_VALID, 0, 0, &out));
    MR_CHECK_INT(out, -1);
    MR_CHECK_ERR(mr_infer_window(2, 3, 1, 2, MR_PAD_VALID, 0, 0, &out), MR_INVALID_ARGUMENT,
                 "Negative dimension size caused by subtracting 3 from 2");
    MR_CHECK_ERR(mr_infer_window(3, 3, 2, 1, MR_PAD_EXPLICIT, 0, 1, &out), MR_INVALID_ARGUMENT,
                 "Negative dimension size caused by subtracting 5 from 4");
}

MR_TEST(window_sizes_refuse_nonsense)
{
    int64_t b = 0, a = 0, out;
    MR_CHECK_ERR(mr_window_size(1, 5, 1, 1, MR_PAD_VALID, &b, &a, &out), MR_INVALID_ARGUMENT,
                 "Computed output size would be negative");
    MR_CHECK_ERR(mr_window_size(5, 3, 1, 0, MR_PAD_VALID, &b, &a, &out), MR_INVALID_ARGUMENT,
                 "Stride must be > 0");
    MR_CHECK_ERR(mr_window_size(5, 3, 0, 1, MR_PAD_VALID, &b, &a, &out), MR_INVALID_ARGUMENT,
                 "Dilation");
    MR_CHECK_ERR(mr_window_size(5, 0, 1, 1, MR_PAD_VALID, &b, &a, &out), MR_INVALID_ARGUMENT,
                 "Window size");
    MR_CHECK_ERR(mr_window_size(5, INT64_MAX, 9, 1, MR_PAD_SAME, &b, &a, &out), MR_INVALID_ARGUMENT,
                 "too large");
    b = a = INT64_MAX;
    MR_CHECK_ERR(mr_window_size(5, 3, 1, 1, MR_PAD_EXPLICIT, &b, &a, &out), MR_INVALID_ARGUMENT,
                 "too large");
}
