/* capi/op_definition_test.c -- ops of clients, their shape functions, and the lists of ops. */
#include <stdio.h>

#include "capi/graph_fixture.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_shape.h"

typedef void shape_fn(TF_ShapeInferenceContext *ctx, TF_Status *status);

/* An op "x: T -> y: T" of this name. */
static void define(kit *k, const char *name, shape_fn *shape)
{
    TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder(name);
    TF_OpDefinitionBuilderAddAttr(b, "T: type");
    TF_OpDefinitionBuilderAddInput(b, "x: T");
    TF_OpDefinitionBuilderAddOutput(b, "y: T");
    if (shape)
        TF_OpDefinitionBuilderSetShapeInferenceFunction(b, shape);
    TF_RegisterOpDefinition(b, k->s);
    CHECK_OK(k->s);
}

static TF_Output shaped(kit *k, int n, const int64_t *dims)
{
    static int count;
    char name[16];
    snprintf(name, sizeof name, "in%d", count++);
    TF_Output x = kit_placeholder(k, name, TF_FLOAT);
    TF_GraphSetTensorShape(k->g, x, dims, n, k->s);
    CHECK_OK(k->s);
    return x;
}

MR_TEST(capi_op_without_a_shape_function_is_refused_unless_allowed)
{
    kit k = kit_new();
    define(&k, "TestShapeless", NULL);
    TF_OperationDescription *d = TF_NewOperation(k.g, "TestShapeless", "a");
    TF_AddInput(d, kit_placeholder(&k, "x", TF_FLOAT));
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(
        k.s, TF_INVALID_ARGUMENT,
        "No shape inference function exists for op 'TestShapeless', did you forget to define "
        "it?");
    TF_SetRequireShapeInferenceFns(k.g, false);
    TF_Output y = kit_unary(&k, "TestShapeless", "a", kit_placeholder(&k, "y", TF_FLOAT));
    MR_CHECK_INT(TF_GraphGetTensorNumDims(k.g, y, k.s), -1);
    TF_SetRequireShapeInferenceFns(k.g, true);
    TF_SetRequireShapeInferenceFns(NULL, true);
    kit_free(&k);
}

MR_TEST(capi_op_registers_flags_attrs_and_deprecation)
{
    kit k = kit_new();
    TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder("TestFlags");
    TF_OpDefinitionBuilderAddAttr(b, "names: list(string) = [';', 'a, b']");
    TF_OpDefinitionBuilderAddAttr(b, "N: int");
    TF_OpDefinitionBuilderAddInput(b, "xs: N * float");
    TF_OpDefinitionBuilderSetIsCommutative(b, true);
    TF_OpDefinitionBuilderSetIsAggregate(b, true);
    TF_OpDefinitionBuilderSetIsStateful(b, true);
    TF_OpDefinitionBuilderSetIsStateful(b, false);
    TF_OpDefinitionBuilderSetAllowsUninitializedInput(b, true);
    TF_OpDefinitionBuilderDeprecated(b, 5, "Use TestOther");
    TF_RegisterOpDefinition(b, k.s);
    CHECK_OK(k.s);
    TF_Buffer *def = TF_NewBuffer();
    TF_GraphGetOpDef(k.g, "TestFlags", def, k.s);
    CHECK_OK(k.s);
    MR_CHECK(memmem(def->data, def->length, "a, b", 4));
    MR_CHECK(memmem(def->data, def->length, "\x80\x01\x01", 3));  /* is_aggregate */
    MR_CHECK(!memmem(def->data, def->length, "\x88\x01\x01", 3)); /* is_stateful */
    MR_CHECK(memmem(def->data, def->length, "\x90\x01\x01", 3));  /* is_commutative */
    TF_OperationDescription *d = TF_NewOperation(k.g, "TestFlags", "a");
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_UNIMPLEMENTED, "removed in version 5. Use TestOther");
    TF_DeleteBuffer(def);
    kit_free(&k);
}

MR_TEST(capi_op_definitions_that_make_no_sense_are_refused)
{
    static const char *const specs[][3] = {/* name, input, attr */
                                           {"lowercase", "x: float", "T: type"},
                                           {"TestBadOne", "x: nothing", "T: type"},
                                           {"TestBadTwo", "x float", "T: type"},
                                           {"TestBadThree", "x: float", "T type"},
                                           {"TestBadFour", "x: float, y: float", "T: type"},
                                           {"TestBadFive", "x: float -> y", "T: type"},
                                           {"TestBadSix", "x: float", "T: type; U: type"},
                                           {"NoOp", "x: float", "T: type"},
                                           {"TestBadSeven", NULL, "T: type"},
                                           {NULL, "x: float", "T: type"}};
    kit k = kit_new();
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder(specs[i][0]);
        TF_OpDefinitionBuilderAddInput(b, specs[i][1]);
        TF_OpDefinitionBuilderAddAttr(b, specs[i][2]);
        TF_RegisterOpDefinition(b, k.s);
        MR_CHECK(TF_GetCode(k.s) == TF_INVALID_ARGUMENT || TF_GetCode(k.s) == TF_ALREADY_EXISTS);
    }
    TF_DeleteOpDefinitionBuilder(TF_NewOpDefinitionBuilder("TestUnused"));
    TF_DeleteOpDefinitionBuilder(NULL);
    TF_RegisterOpDefinition(NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    kit_free(&k);
}

/* ---- shape functions ---- */

/* [a, b, c] -> [b, c, 7, a]; all that the context can do, on the way. */
static void turn(TF_ShapeInferenceContext *ctx, TF_Status *s)
{
    TF_ShapeHandle *in = TF_NewShapeHandle(), *head = TF_NewShapeHandle(),
                   *tail = TF_NewShapeHandle();
    TF_ShapeHandle *seven = TF_ShapeInferenceContextVectorFromSize(ctx, 7);
    TF_ShapeHandle *scalar = TF_ShapeInferenceContextScalar(ctx);
    TF_DimensionHandle *dim = TF_NewDimensionHandle();
    TF_DataType type;
    MR_CHECK_INT(TF_ShapeInferenceContextNumInputs(ctx), 1);
    TF_ShapeInferenceContext_GetAttrType(ctx, "T", &type, s);
    MR_CHECK_INT(type, TF_FLOAT);
    TF_ShapeInferenceContextGetInput(ctx, 1, in, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "input index out of range");
    TF_ShapeInferenceContextGetInput(ctx, 0, in, s);
    CHECK_OK(s);
    TF_ShapeInferenceContextWithRank(ctx, in, 3, in, s);
    if (TF_GetCode(s) != TF_OK)
        goto out;
    MR_CHECK_INT(TF_ShapeInferenceContextRank(ctx, in), 3);
    MR_CHECK(TF_ShapeInferenceContextRankKnown(ctx, in));
    MR_CHECK_INT(TF_ShapeInferenceContextRank(ctx, scalar), 0);
    TF_ShapeInferenceContextDim(ctx, in, -2, dim);
    MR_CHECK(TF_DimensionHandleValueKnown(dim));
    MR_CHECK_INT(TF_DimensionHandleValue(dim), 3);
    TF_ShapeInferenceContextDim(ctx, in, 5, dim); /* there is none */
    MR_CHECK(!TF_DimensionHandleValueKnown(dim));
    TF_ShapeInferenceContextSubshape(ctx, in, 0, 1, head, s);
    CHECK_OK(s);
    TF_ShapeInferenceContextSubshape(ctx, in, -2, 99, tail, s);
    CHECK_OK(s);
    TF_ShapeInferenceContextConcatenateShapes(ctx, tail, seven, tail, s);
    TF_ShapeInferenceContextConcatenateShapes(ctx, tail, scalar, tail, s);
    TF_ShapeInferenceContextConcatenateShapes(ctx, tail, head, tail, s);
    CHECK_OK(s);
    TF_ShapeInferenceContextSetOutput(ctx, 1, tail, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "output index out of range");
    TF_ShapeInferenceContextSetOutput(ctx, 0, tail, s);
    CHECK_OK(s);
out:
    TF_DeleteShapeHandle(in);
    TF_DeleteShapeHandle(head);
    TF_DeleteShapeHandle(tail);
    TF_DeleteShapeHandle(seven);
    TF_DeleteShapeHandle(scalar);
    TF_DeleteDimensionHandle(dim);
}

MR_TEST(capi_op_shape_function_makes_shapes)
{
    kit k = kit_new();
    define(&k, "TestTurn", turn);
    TF_Output y = kit_unary(&k, "TestTurn", "y", shaped(&k, 3, (int64_t[]){2, 3, -1}));
    int64_t dims[4];
    TF_GraphGetTensorShape(k.g, y, dims, 4, k.s);
    CHECK_OK(k.s);
    MR_CHECK(dims[0] == 3 && dims[1] == -1 && dims[2] == 7 && dims[3] == 2);
    TF_OperationDescription *d = TF_NewOperation(k.g, "TestTurn", "z");
    TF_AddInput(d, shaped(&k, 1, (int64_t[]){2}));
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Shape must be rank 3 but is rank 1 for '{{node z}}");
    kit_free(&k);
}

/* What cannot be is said, not done. */
static void doubtful(TF_ShapeInferenceContext *ctx, TF_Status *s)
{
    TF_ShapeHandle *h = TF_NewShapeHandle();
    MR_CHECK(!TF_ShapeInferenceContextRankKnown(ctx, h));
    TF_ShapeInferenceContextGetInput(ctx, 0, h, s);
    TF_ShapeInferenceContextWithRankAtLeast(ctx, h, 3, h, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "Shape must be at least rank 3 but is rank 2");
    TF_ShapeInferenceContextWithRankAtMost(ctx, h, 1, h, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "Shape must be at most rank 1 but is rank 2");
    TF_ShapeInferenceContextWithRank(ctx, h, -1, h, s);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    TF_ShapeInferenceContextSubshape(ctx, h, 2, 1, h, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "Subshape must have computed start <= end");
    TF_ShapeInferenceContextSubshape(ctx, h, -9, 1, h, s);
    CHECK_CODE(s, TF_INVALID_ARGUMENT, "Subshape start out of bounds");
    TF_ShapeInferenceContextSetUnknownShape(ctx, s);
    CHECK_OK(s);
    TF_DeleteShapeHandle(h);
}

MR_TEST(capi_op_shape_function_hears_what_cannot_be)
{
    kit k = kit_new();
    define(&k, "TestDoubtful", doubtful);
    TF_Output y = kit_unary(&k, "TestDoubtful", "y", shaped(&k, 2, (int64_t[]){2, 3}));
    MR_CHECK_INT(TF_GraphGetTensorNumDims(k.g, y, k.s), -1);
    TF_Shape *s = TF_NewShape();
    MR_CHECK_INT(TF_ShapeDims(s), -1);
    MR_CHECK_INT(TF_ShapeDimSize(s, 0), -1);
    TF_DeleteShape(s);
    TF_DeleteShape(NULL);
    TF_DeleteShapeHandle(NULL);
    TF_DeleteDimensionHandle(NULL);
    kit_free(&k);
}

/* ---- lists ---- */

MR_TEST(capi_op_list_has_all_ops_and_kernels)
{
    kit k = kit_new();
    TF_Buffer *ops = TF_GetAllOpList(), *all = TF_GetAllRegisteredKernels(k.s);
    CHECK_OK(k.s);
    MR_CHECK(memmem(ops->data, ops->length, "\012\006MatMul", 8));
    MR_CHECK(memmem(all->data, all->length, "\012\006MatMul\022\003CPU", 13));
    TF_Buffer *one = TF_GetRegisteredKernelsForOp("MatMul", k.s);
    CHECK_OK(k.s);
    MR_CHECK(one->length > 0 && one->length < all->length);
    TF_Buffer *nothing = TF_GetRegisteredKernelsForOp("Nothing", k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(nothing->length, 0);
    TF_DeleteBuffer(ops);
    TF_DeleteBuffer(all);
    TF_DeleteBuffer(one);
    TF_DeleteBuffer(nothing);
    kit_free(&k);
}

static bool has(const TF_Buffer *b, const char *text)
{
    return b && memmem(b->data, b->length, text, strlen(text));
}

MR_TEST(capi_api_def_map_merges_texts)
{
    kit k = kit_new();
    TF_Buffer *ops = TF_GetAllOpList();
    TF_ApiDefMap *m = TF_NewApiDefMap(ops, k.s);
    CHECK_OK(k.s);
    static const char text[] = "op {\n  graph_op_name: \"MatMul\"\n  visibility: HIDDEN\n"
                               "  endpoint { name: \"linalg.matmul\" }\n"
                               "  in_arg { name: \"a\" rename_to: \"left\" }\n"
                               "  description: <<END\nMultiplies `a` by \"b\".\nTwo lines.\nEND\n"
                               "  arg_order: \"b\" arg_order: \"a\"\n}\n"
                               "op { graph_op_name: \"NobodyKnowsThisOp\" }\n";
    TF_ApiDefMapPut(m, text, strlen(text), k.s);
    CHECK_OK(k.s);
    TF_Buffer *d = TF_ApiDefMapGet(m, "MatMul", 6, k.s);
    CHECK_OK(k.s);
    MR_CHECK(has(d, "linalg.matmul"));
    MR_CHECK(has(d, "Multiplies `left` by \"b\".\nTwo lines."));
    MR_CHECK(has(d, "Z\001bZ\001a")); /* arg_order */
    MR_CHECK(!TF_ApiDefMapGet(m, "NobodyKnowsThisOp", 17, k.s));
    CHECK_OK(k.s);
    TF_ApiDefMapPut(m, text, strlen(text), k.s);
    CHECK_CODE(k.s, TF_FAILED_PRECONDITION,
               "TF_ApiDefMapPut cannot be called after TF_ApiDefMapGet has been called.");
    TF_DeleteBuffer(d);
    TF_DeleteBuffer(ops);
    TF_DeleteApiDefMap(m);
    TF_DeleteApiDefMap(NULL);
    kit_free(&k);
}

MR_TEST(capi_api_def_map_refuses_what_does_not_fit)
{
    kit k = kit_new();
    TF_Buffer *ops = TF_GetAllOpList(), *bad = TF_NewBufferFromString("\377", 1);
    TF_ApiDefMap *m = TF_NewApiDefMap(ops, k.s);
    static const struct {
        const char *text;
        TF_Code code;
    } wrong[] = {
        {"op { graph_op_name: 3 }", TF_INVALID_ARGUMENT},
        {"op { graph_op_name: \"MatMul\" in_arg { name: \"c\" } }", TF_FAILED_PRECONDITION},
        {"op { graph_op_name: \"MatMul\" attr { name: \"c\" } }", TF_FAILED_PRECONDITION},
        {"op { graph_op_name: \"MatMul\" arg_order: \"a\" }", TF_FAILED_PRECONDITION},
        {"op { graph_op_name: \"MatMul\" arg_order: [\"a\", \"a\"] }", TF_FAILED_PRECONDITION}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        TF_ApiDefMapPut(m, wrong[i].text, strlen(wrong[i].text), k.s);
        MR_CHECK_INT(TF_GetCode(k.s), wrong[i].code);
    }
    MR_CHECK(!TF_NewApiDefMap(bad, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Unparseable OpList");
    TF_DeleteApiDefMap(m);
    TF_DeleteBuffer(ops);
    TF_DeleteBuffer(bad);
    kit_free(&k);
}

MR_TEST(capi_library_that_is_not_there_is_not_found)
{
    kit k = kit_new();
    MR_CHECK(!TF_LoadLibrary("/nowhere/none.so", k.s));
    MR_CHECK_INT(TF_GetCode(k.s), TF_NOT_FOUND);
    MR_CHECK(!TF_LoadLibrary(NULL, k.s));
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    MR_CHECK_INT(TF_GetOpList(NULL).length, 0);
    TF_DeleteLibraryHandle(NULL);
    kit_free(&k);
}
