/* ops/state/tensor_array_test.c -- shape inference for arrays. */
#include "graph/scope.h"
#include "ops/table.h"
#include "tests/harness/test.h"

typedef struct rig {
    mr_graph *g;
    mr_scope s;
    mr_out array, index, all; /* an array of elements [2,3]; a scalar; a vector of 4 */
} rig;

static void rig_init(rig *r, bool identical, const mr_pshape *element)
{
    mr_ops_register();
    r->g = mr_graph_new();
    mr_scope_init(&r->s, r->g, "");
    r->index = mr_const_i32(&r->s, 4);
    r->all = mr_const_vec_i32(&r->s, 4, (int32_t[]){0, 1, 2, 3});
    r->array = mr_emit_with(&r->s, "TensorArrayV3",
                            MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)},
                                     {"element_shape", mr_a_shape(element)},
                                     {"identical_element_shapes", mr_a_bool(identical)}),
                            r->index);
}

static void rig_deinit(rig *r)
{
    mr_scope_deinit(&r->s);
    mr_graph_unref(r->g);
}

static const mr_pshape *shape_of(rig *r, const char *op, mr_out where)
{
    mr_out v = mr_emit_with(&r->s, op, MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), r->array, where,
                            mr_nth(r->array, 1));
    MR_CHECK_OK(mr_scope_status(&r->s));
    return mr_out_shape(v);
}

MR_TEST(tensor_array_elements_of_a_full_shape_are_known)
{
    rig r;
    mr_arena a;
    mr_arena_init(&a, 0);
    rig_init(&r, false, mr_pshape_of(&a, 2, (int64_t[]){2, 3}));
    MR_CHECK_STR(MR_PSHAPE_TEXT(shape_of(&r, "TensorArrayReadV3", r.index)), "[2,3]");
    MR_CHECK_STR(MR_PSHAPE_TEXT(shape_of(&r, "TensorArrayGatherV3", r.all)), "[4,2,3]");
    r.array = mr_emit_with(&r.s, "TensorArrayGradV3", MR_ATTRS({"source", mr_a_str("g")}), r.array,
                           mr_nth(r.array, 1));
    MR_CHECK_STR(MR_PSHAPE_TEXT(shape_of(&r, "TensorArrayReadV3", r.index)), "[2,3]");
    rig_deinit(&r);
    mr_arena_deinit(&a);
}

MR_TEST(tensor_array_elements_that_may_differ_are_unknown)
{
    rig r;
    mr_arena a;
    mr_arena_init(&a, 0);
    const mr_pshape *part = mr_pshape_of(&a, 2, (int64_t[]){-1, 3});
    rig_init(&r, false, part);
    MR_CHECK_STR(MR_PSHAPE_TEXT(shape_of(&r, "TensorArrayReadV3", r.index)), "<unknown>");
    rig_deinit(&r);
    rig_init(&r, true, part);
    MR_CHECK_STR(MR_PSHAPE_TEXT(shape_of(&r, "TensorArrayReadV3", r.index)), "[?,3]");
    rig_deinit(&r);
    mr_arena_deinit(&a);
}

MR_TEST(tensor_array_refuses_a_value_of_another_shape)
{
    rig r;
    mr_arena a;
    mr_arena_init(&a, 0);
    rig_init(&r, false, mr_pshape_of(&a, 1, (int64_t[]){2}));
    mr_emit(&r.s, "TensorArrayWriteV3", r.array, r.index, mr_const_f32(&r.s, 1),
            mr_nth(r.array, 1));
    MR_CHECK_ERR(mr_scope_status(&r.s), MR_INVALID_ARGUMENT, "must be equal rank");
    rig_deinit(&r);
    mr_arena_deinit(&a);
}
