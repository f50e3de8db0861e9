/* capi/graph_test.c */
#include "capi/graph_fixture.h"

MR_TEST(capi_graph_lists_operations_in_the_order_they_were_made)
{
    kit k = kit_new();
    TF_Operation *a = kit_placeholder(&k, "b", TF_FLOAT).oper;
    TF_Operation *b = kit_placeholder(&k, "a", TF_FLOAT).oper;
    size_t pos = 0;
    MR_CHECK(TF_GraphNextOperation(k.g, &pos) == a);
    MR_CHECK(TF_GraphNextOperation(k.g, &pos) == b);
    MR_CHECK(!TF_GraphNextOperation(k.g, &pos));
    MR_CHECK(TF_GraphOperationByName(k.g, "a") == b);
    MR_CHECK(!TF_GraphOperationByName(k.g, "c"));
    MR_CHECK(!TF_GraphOperationByName(NULL, "c"));
    MR_CHECK(!TF_GraphOperationByName(k.g, NULL));
    kit_free(&k);
}

MR_TEST(capi_graph_tells_and_takes_shapes)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    int64_t dims[2];
    MR_CHECK_INT(TF_GraphGetTensorNumDims(k.g, x, k.s), -1);
    CHECK_OK(k.s);
    TF_GraphGetTensorShape(k.g, x, NULL, -1, k.s); /* the rank, unknown, as expected */
    CHECK_OK(k.s);
    TF_GraphSetTensorShape(k.g, x, (int64_t[]){2, -1}, 2, k.s);
    CHECK_OK(k.s);
    TF_GraphGetTensorShape(k.g, x, dims, 2, k.s);
    MR_CHECK(dims[0] == 2 && dims[1] == -1);
    TF_GraphSetTensorShape(k.g, x, (int64_t[]){-1, 3}, 2, k.s); /* merged */
    TF_GraphSetTensorShape(k.g, x, NULL, -1, k.s);              /* says nothing */
    CHECK_OK(k.s);
    TF_GraphGetTensorShape(k.g, x, dims, 2, k.s);
    MR_CHECK(dims[0] == 2 && dims[1] == 3);
    TF_GraphGetTensorShape(k.g, x, dims, 1, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Expected rank is 1 but actual rank is 2");
    TF_GraphSetTensorShape(k.g, x, (int64_t[]){7, 3}, 2, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_GraphSetTensorShape(k.g, x, (int64_t[]){2, -5}, 2, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    kit_free(&k);
}

MR_TEST(capi_graph_knows_only_its_own_tensors)
{
    kit k = kit_new(), other = kit_new();
    TF_Output x = kit_placeholder(&other, "x", TF_FLOAT);
    MR_CHECK_INT(TF_GraphGetTensorNumDims(k.g, x, k.s), -1);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Node x was not found in the graph");
    TF_GraphSetTensorShape(k.g, x, NULL, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Node x was not found in the graph");
    MR_CHECK_INT(TF_GraphGetTensorNumDims(other.g, (TF_Output){x.oper, 1}, k.s), -1);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Node x has 1 outputs, there is no output 1");
    TF_GraphGetTensorNumDims(NULL, x, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    kit_free(&k);
    kit_free(&other);
}

MR_TEST(capi_graph_gives_definitions_of_ops_and_versions)
{
    kit k = kit_new();
    TF_Buffer *b = TF_NewBuffer(), *v = TF_NewBuffer();
    TF_GraphGetOpDef(k.g, "NoOp", b, k.s);
    CHECK_OK(k.s);
    MR_CHECK(b->length >= 6 && memcmp(b->data, "\012\004NoOp", 6) == 0);
    TF_GraphGetOpDef(k.g, "Nothing", v, k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, "Op type not registered 'Nothing'");
    MR_CHECK(!v->data);
    TF_GraphVersions(k.g, v, k.s);
    CHECK_OK(k.s);
    MR_CHECK(v->length == 3 && memcmp(v->data, "\010\277\010", 3) == 0); /* producer: 1087 */
    TF_DeleteBuffer(b);
    TF_DeleteBuffer(v);
    kit_free(&k);
}

/* ---- import and export; tests/capi/import_maps.c has the maps ---- */

static TF_Buffer *export(kit *k)
{
    TF_Buffer *b = TF_NewBuffer();
    TF_GraphToGraphDef(k->g, b, k->s);
    CHECK_OK(k->s);
    return b;
}

MR_TEST(capi_graph_comes_back_from_its_bytes)
{
    kit k = kit_new(), copy = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    kit_binary(&k, "Add", "y", x, kit_const(&k, "c", kit_float(1)));
    TF_Buffer *a = export(&k);
    TF_GraphImportGraphDef(copy.g, a, NULL, k.s);
    CHECK_OK(k.s);
    TF_Buffer *b = export(&copy);
    MR_CHECK(a->length == b->length && memcmp(a->data, b->data, a->length) == 0);
    TF_DeleteBuffer(a);
    TF_DeleteBuffer(b);
    kit_free(&k);
    kit_free(&copy);
}

MR_TEST(capi_graph_import_is_all_or_nothing)
{
    kit k = kit_new(), other = kit_new();
    kit_placeholder(&k, "first", TF_FLOAT);
    kit_placeholder(&k, "taken", TF_FLOAT);
    TF_Operation *taken = kit_placeholder(&other, "taken", TF_INT32).oper;
    TF_Buffer *b = export(&k), *bad = TF_NewBufferFromString("\377\377", 2);
    TF_GraphImportGraphDef(other.g, b, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Node name 'taken' already exists in the Graph");
    MR_CHECK(!TF_GraphOperationByName(other.g, "first"));
    MR_CHECK(TF_GraphOperationByName(other.g, "taken") == taken);
    TF_GraphImportGraphDef(other.g, bad, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    TF_GraphImportGraphDef(other.g, NULL, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    TF_DeleteBuffer(b);
    TF_DeleteBuffer(bad);
    kit_free(&k);
    kit_free(&other);
}

MR_TEST(capi_graph_import_options_name_and_place)
{
    kit k = kit_new(), other = kit_new();
    kit_placeholder(&k, "x", TF_FLOAT);
    TF_Buffer *b = export(&k);
    TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
    TF_ImportGraphDefOptionsSetPrefix(o, "p");
    TF_ImportGraphDefOptionsSetDefaultDevice(o, "/device:CPU:0");
    TF_ImportGraphDefOptionsSetUniquifyPrefix(o, 1);
    for (int i = 0; i < 2; i++) {
        TF_GraphImportGraphDef(other.g, b, o, k.s);
        CHECK_OK(k.s);
    }
    MR_CHECK(TF_GraphOperationByName(other.g, "p_1/x"));
    MR_CHECK_STR(TF_OperationDevice(TF_GraphOperationByName(other.g, "p/x")), "/device:CPU:0");
    TF_ImportGraphDefOptionsAddReturnOutput(o, "x", 0);
    TF_Output out;
    TF_GraphImportGraphDefWithReturnOutputs(other.g, b, o, &out, 2, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Expected 'num_return_outputs' to be 1, got 2");
    TF_ImportGraphDefOptionsAddReturnOutput(o, "none", 0);
    MR_CHECK(!TF_GraphImportGraphDefWithResults(other.g, b, o, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Requested return tensor 'none:0' not found in graph def");
    TF_DeleteImportGraphDefOptions(o);
    TF_DeleteImportGraphDefOptions(NULL);
    TF_DeleteImportGraphDefResults(NULL);
    TF_DeleteBuffer(b);
    kit_free(&k);
    kit_free(&other);
}

MR_TEST(capi_graph_import_remaps_control_dependencies)
{
    kit k = kit_new(), other = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "NoOp", "then");
    TF_AddControlInput(d, kit_finish(&k, TF_NewOperation(k.g, "NoOp", "first")));
    kit_finish(&k, d);
    TF_Operation *mine = kit_finish(&other, TF_NewOperation(other.g, "NoOp", "mine")), *got;
    TF_Buffer *b = export(&k);
    TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
    TF_ImportGraphDefOptionsRemapControlDependency(o, "first", mine);
    TF_ImportGraphDefOptionsSetValidateColocationConstraints(o, 0);
    TF_GraphImportGraphDef(other.g, b, o, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_OperationGetControlInputs(TF_GraphOperationByName(other.g, "then"), &got, 1),
                 1);
    MR_CHECK(got == mine);
    TF_DeleteImportGraphDefOptions(o);
    TF_DeleteBuffer(b);
    kit_free(&k);
    kit_free(&other);
}

/* Grappler leaves such ops in graphs that it has optimised. */
MR_TEST(capi_graph_with_fused_ops_is_imported_and_runs)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Output w = kit_const(&k, "w", kit_floats(2, (int64_t[]){1, 2}, (float[]){1, -1}));
    TF_Output b = kit_const(&k, "b", kit_floats(1, (int64_t[]){2}, (float[]){1, 1}));
    TF_OperationDescription *d = TF_NewOperation(k.g, "_FusedMatMul", "y");
    TF_AddInput(d, x);
    TF_AddInput(d, w);
    TF_AddInputList(d, &b, 1);
    TF_SetAttrStringList(d, "fused_ops", (const void *const[]){"BiasAdd", "Relu"}, (size_t[]){7, 4}, 2);
    kit_finish(&k, d);
    TF_Buffer *def = TF_NewBuffer();
    TF_GraphToGraphDef(k.g, def, k.s);
    CHECK_OK(k.s);
    kit other = {TF_NewGraph(), k.s};
    TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
    TF_GraphImportGraphDef(other.g, def, o, k.s);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&other);
    TF_Tensor *three = kit_floats(2, (int64_t[]){1, 1}, (float[]){3});
    TF_Tensor *y = kit_run(&other, s, kit_out(TF_GraphOperationByName(other.g, "x"), 0), three,
                           kit_out(TF_GraphOperationByName(other.g, "y"), 0));
    CHECK_OK(k.s);
    MR_CHECK_NEAR(((float *)TF_TensorData(y))[0], 4, 0);
    MR_CHECK_NEAR(((float *)TF_TensorData(y))[1], 0, 0);
    TF_DeleteTensor(three);
    TF_DeleteTensor(y);
    kit_close(&other, s);
    TF_DeleteImportGraphDefOptions(o);
    TF_DeleteBuffer(def);
    TF_DeleteGraph(other.g);
    kit_free(&k);
}
