#include "graph/int_ops.h"

#include "graph/interpreter_fixture.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

/* In addition to the ops of interpreter_fixture.h; only their values matter, so they have no shapes. */
static const mr_op more[] = {
    {.name = "FloorDiv", .sig = "x: T, y: T -> z: T", .attrs = "T: type"},
    {.name = "FloorMod", .sig = "x: T, y: T -> z: T", .attrs = "T: type"},
    {.name = "TruncateDiv", .sig = "x: T, y: T -> z: T", .attrs = "T: type"},
    {.name = "TruncateMod", .sig = "x: T, y: T -> z: T", .attrs = "T: type"},
    {.name = "Maximum", .sig = "x: T, y: T -> z: T", .attrs = "T: type"},
    {.name = "Prod",
     .sig = "input: T, axes: int32 -> output: T",
     .attrs = "T: type; keep_dims: bool = false"},
    {.name = "Max",
     .sig = "input: T, axes: int32 -> output: T",
     .attrs = "T: type; keep_dims: bool = false"},
    {.name = "Range", .sig = "start: T, limit: T, delta: T -> output: T", .attrs = "T: type"},
    {.name = "Slice",
     .sig = "input: T, begin: int32, size: int32 -> output: T",
     .attrs = "T: type"},
    {.name = "GatherV2",
     .sig = "params: T, indices: int32, axis: int32 -> output: T",
     .attrs = "T: type; batch_dims: int = 0"},
    {.name = "ExpandDims", .sig = "input: T, dim: int32 -> output: T", .attrs = "T: type"},
    {.name = "Squeeze", .sig = "input: T -> output: T", .attrs = "T: type"},
};

static void start(mr_graph **g, mr_scope *s)
{
    mr_mini_register();
    for (int i = 0; i < MR_COUNT(more); i++)
        MR_CHECK_OK(mr_op_register(&more[i]));
    *g = mr_graph_new();
    mr_scope_init(s, *g, NULL);
}

static void stop(mr_graph *g, mr_scope *s)
{
    MR_CHECK_OK(mr_scope_status(s));
    mr_scope_deinit(s);
    mr_graph_unref(g);
}

/* "5", "[1,?,3]" or "nothing". */
static void check_value(mr_out o, const char *expected)
{
    mr_known k;
    mr_str text = {0};
    MR_CHECK(o.node != NULL);
    mr_known_init(&k);
    const mr_ints *v = mr_known_ints(&k, o);
    mr_str_appendz(&text, !v ? "nothing" : v->rank ? "[" : "");
    for (int i = 0; v && i < v->n; i++) {
        mr_str_appendz(&text, i ? "," : "");
        if (v->known[i])
            mr_str_printf(&text, "%lld", (long long)v->v[i]);
        else
            mr_str_appendz(&text, "?");
    }
    mr_str_appendz(&text, v && v->rank ? "]" : "");
    MR_CHECK_STR(mr_str_z(&text), expected);
    mr_str_deinit(&text);
    mr_known_deinit(&k);
}

static mr_out vec(mr_scope *s, int a, int b, int c)
{
    return mr_const_vec_i32(s, 3, (const int32_t[]){a, b, c});
}
static mr_out one(mr_scope *s, int a) { return mr_const_vec_i32(s, 1, &a); }
static mr_out num(mr_scope *s, int a) { return mr_const_i32(s, a); }

/* The shape of a tensor of which the first size is unknown: [?,3,5]. */
static mr_out partly(mr_graph *g, mr_scope *s)
{
    mr_out x =
        mr_placeholder(s, MR_FLOAT, "x", mr_pshape_of(&g->arena, 3, (const int64_t[]){-1, 3, 5}));
    return mr_emit(s, "Shape", x);
}

MR_TEST(known_integers_are_computed_entry_by_entry)
{
    mr_graph *g;
    mr_scope s;
    start(&g, &s);
    mr_out p = partly(g, &s);
    check_value(mr_emit(&s, "Add", p, num(&s, 1)), "[?,4,6]");
    check_value(mr_emit(&s, "Mul", p, vec(&s, 0, 2, 2)), "[0,6,10]");
    check_value(mr_emit(&s, "Sub", num(&s, 1), p), "[?,-2,-4]");
    check_value(mr_emit(&s, "Neg", p), "[?,-3,-5]");
    check_value(mr_emit(&s, "Maximum", p, num(&s, 4)), "[?,4,5]");
    check_value(mr_emit(&s, "Add", p, one(&s, 1)), "[?,4,6]");
    check_value(mr_emit(&s, "Add", p, mr_placeholder(&s, MR_INT32, "y", NULL)), "nothing");
    stop(g, &s);
}

MR_TEST(known_integers_divide_as_the_ops_do)
{
    mr_graph *g;
    mr_scope s;
    start(&g, &s);
    mr_out x = vec(&s, 7, -7, 7), y = vec(&s, 2, 2, -2);
    check_value(mr_emit(&s, "FloorDiv", x, y), "[3,-4,-4]");
    check_value(mr_emit(&s, "TruncateDiv", x, y), "[3,-3,-3]");
    check_value(mr_emit(&s, "FloorMod", x, y), "[1,1,-1]");
    check_value(mr_emit(&s, "TruncateMod", x, y), "[1,-1,1]");
    check_value(mr_emit(&s, "FloorDiv", x, num(&s, 0)), "[?,?,?]");
    stop(g, &s);
}

MR_TEST(known_integers_that_do_not_fit_are_unknown)
{
    mr_graph *g;
    mr_scope s;
    start(&g, &s);
    check_value(mr_emit(&s, "Mul", num(&s, 1 << 20), num(&s, 1 << 20)), "?");
    mr_out wide = mr_const_i64(&s, INT64_MAX);
    check_value(mr_emit(&s, "Add", wide, wide), "?");
    check_value(mr_emit_with(&s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), wide), "?");
    check_value(mr_emit(&s, "TruncateDiv", mr_const_i64(&s, INT64_MIN), mr_const_i64(&s, -1)), "?");
    stop(g, &s);
}

MR_TEST(known_integers_are_taken_apart)
{
    mr_graph *g;
    mr_scope s;
    start(&g, &s);
    mr_out p = partly(g, &s);
    check_value(mr_emit(&s, "Slice", p, one(&s, 1), one(&s, -1)), "[3,5]");
    check_value(mr_emit(&s, "Slice", p, one(&s, 1), one(&s, 3)), "nothing");
    check_value(mr_emit(&s, "GatherV2", p, vec(&s, 2, 0, 1), num(&s, 0)), "[5,?,3]");
    check_value(mr_emit(&s, "GatherV2", p, num(&s, 3), num(&s, 0)), "nothing");
    check_value(mr_emit_with(&s, "StridedSlice",
                             MR_ATTRS({"begin_mask", mr_a_int(1)}, {"end_mask", mr_a_int(1)}), p,
                             one(&s, 0), one(&s, 0), one(&s, -1)),
                "[5,3,?]");
    check_value(mr_emit(&s, "StridedSlice", p, one(&s, -2), one(&s, 9), one(&s, 1)), "[3,5]");
    check_value(mr_emit_with(&s, "StridedSlice", MR_ATTRS({"shrink_axis_mask", mr_a_int(1)}), p,
                             one(&s, -1), one(&s, 0), one(&s, 1)),
                "5");
    stop(g, &s);
}

MR_TEST(known_integers_are_put_together)
{
    mr_graph *g;
    mr_scope s;
    start(&g, &s);
    mr_out p = partly(g, &s), axes = one(&s, 0);
    check_value(mr_emit(&s, "Prod", vec(&s, 2, 3, 4), axes), "24");
    check_value(mr_emit(&s, "Prod", p, axes), "?");
    check_value(mr_emit(&s, "Max", vec(&s, 2, 9, 4), axes), "9");
    check_value(mr_emit(&s, "Sum", vec(&s, 2, 3, 4), axes), "9");
    check_value(mr_emit(&s, "Range", num(&s, 1), num(&s, 8), num(&s, 3)), "[1,4,7]");
    check_value(mr_emit(&s, "Range", num(&s, 5), num(&s, 0), num(&s, -2)), "[5,3,1]");
    check_value(mr_emit(&s, "Range", num(&s, 0), num(&s, INT32_MAX), num(&s, 1)), "nothing");
    check_value(mr_emit(&s, "ExpandDims", num(&s, 4), num(&s, 0)), "[4]");
    check_value(mr_emit(&s, "Squeeze", one(&s, 4)), "4");
    check_value(mr_emit(&s, "Fill", one(&s, 2), num(&s, 6)), "[6,6]");
    check_value(mr_emit(&s, "OnesLike", p), "[1,1,1]");
    stop(g, &s);
}
