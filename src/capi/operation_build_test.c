/* capi/operation_build_test.c */
#include "capi/graph_fixture.h"

MR_TEST(capi_operation_has_what_it_was_built_with)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_placeholder(&k, "y", TF_FLOAT);
    TF_OperationDescription *d = TF_NewOperation(k.g, "Add", "sum");
    TF_SetDevice(d, "/device:CPU:0");
    TF_AddInput(d, x);
    TF_AddInput(d, y);
    TF_AddControlInput(d, x.oper);
    TF_Operation *op = kit_finish(&k, d);
    MR_CHECK_STR(TF_OperationName(op), "sum");
    MR_CHECK_STR(TF_OperationOpType(op), "Add");
    MR_CHECK_STR(TF_OperationDevice(op), "/device:CPU:0");
    MR_CHECK_INT(TF_OperationNumInputs(op), 2);
    MR_CHECK_INT(TF_OperationNumControlInputs(op), 1);
    MR_CHECK_INT(TF_OperationOutputType(kit_out(op, 0)), TF_FLOAT);
    kit_free(&k);
}

MR_TEST(capi_operation_of_a_taken_name_is_refused)
{
    kit k = kit_new();
    kit_placeholder(&k, "x", TF_FLOAT);
    TF_OperationDescription *d = TF_NewOperation(k.g, "Placeholder", "x");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Duplicate node name in graph: 'x'");
    kit_free(&k);
}

MR_TEST(capi_operation_that_fails_leaves_the_graph_as_it_was)
{
    kit k = kit_new();
    size_t pos = 0;
    TF_OperationDescription *d = TF_NewOperation(k.g, "Placeholder", "x");
    MR_CHECK(!TF_FinishOperation(d, k.s)); /* no dtype */
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "NodeDef missing attr 'dtype'");
    MR_CHECK(!TF_GraphOperationByName(k.g, "x"));
    MR_CHECK(!TF_GraphNextOperation(k.g, &pos));
    kit_placeholder(&k, "x", TF_FLOAT);
    kit_free(&k);
}

MR_TEST(capi_operation_of_an_unknown_op_is_not_found)
{
    kit k = kit_new();
    MR_CHECK(!TF_FinishOperation(TF_NewOperation(k.g, "NoSuchOp", "x"), k.s));
    CHECK_CODE(k.s, TF_NOT_FOUND, "Op type not registered 'NoSuchOp'");
    kit_free(&k);
}

MR_TEST(capi_operation_with_an_unknown_attr_is_refused)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "NoOp", "n");
    TF_SetAttrInt(d, "depth", 3);
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "NodeDef mentions attr 'depth' not in");
    kit_free(&k);
}

MR_TEST(capi_operation_with_inputs_of_two_types_is_refused)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "Add", "sum");
    TF_AddInput(d, kit_placeholder(&k, "x", TF_FLOAT));
    TF_AddInput(d, kit_placeholder(&k, "y", TF_INT32));
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Inconsistent values for attr 'T' DT_FLOAT vs. DT_INT32");
    kit_free(&k);
}

MR_TEST(capi_operation_whose_shapes_contradict_is_refused)
{
    kit k = kit_new();
    TF_Output a = kit_const(&k, "a", kit_floats(1, (int64_t[]){2}, (float[]){1, 2}));
    TF_Output b = kit_const(&k, "b", kit_floats(1, (int64_t[]){3}, (float[]){1, 2, 3}));
    TF_OperationDescription *d = TF_NewOperation(k.g, "Add", "sum");
    TF_AddInput(d, a);
    TF_AddInput(d, b);
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT,
               "Dimensions must be equal, but are 2 and 3 for '{{node sum}}");
    kit_free(&k);
}

MR_TEST(capi_operation_takes_no_input_of_another_graph)
{
    kit k = kit_new(), other = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "Identity", "i");
    TF_AddInput(d, kit_placeholder(&other, "x", TF_FLOAT));
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "another graph");
    kit_free(&k);
    kit_free(&other);
}

MR_TEST(capi_operation_takes_no_output_that_is_not_there)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "Identity", "i");
    TF_AddInput(d, kit_out(kit_placeholder(&k, "x", TF_FLOAT).oper, 1));
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "output 1 of source node x which has 1 outputs");
    kit_free(&k);
}

MR_TEST(capi_operation_list_inputs_set_their_number)
{
    kit k = kit_new();
    TF_Output in[3] = {kit_placeholder(&k, "a", TF_FLOAT), kit_placeholder(&k, "b", TF_FLOAT),
                       kit_placeholder(&k, "c", TF_FLOAT)};
    TF_OperationDescription *d = TF_NewOperation(k.g, "AddN", "sum");
    TF_AddInputList(d, in, 3);
    TF_Operation *op = kit_finish(&k, d);
    MR_CHECK_INT(TF_OperationInputListLength(op, "inputs", k.s), 3);
    int64_t n = 0;
    TF_OperationGetAttrInt(op, "N", &n, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(n, 3);
    kit_free(&k);
}

MR_TEST(capi_operation_colocation_is_sorted_and_replaced_by_setting_class)
{
    kit k = kit_new();
    TF_Operation *b = kit_placeholder(&k, "b", TF_FLOAT).oper;
    TF_Operation *a = kit_placeholder(&k, "a", TF_FLOAT).oper;
    TF_OperationDescription *d = TF_NewOperation(k.g, "NoOp", "n");
    TF_SetAttrStringList(d, "_class", (const void *[]){"loc:@gone"}, (size_t[]){9}, 1);
    TF_SetAttrStringList(d, "_class", NULL, NULL, 0);
    TF_ColocateWith(d, b);
    TF_ColocateWith(d, a);
    TF_Operation *op = kit_finish(&k, d);
    void *values[3];
    size_t lengths[3];
    char room[32];
    MR_CHECK_INT(TF_OperationGetAttrMetadata(op, "_class", k.s).list_size, 2);
    TF_OperationGetAttrStringList(op, "_class", values, lengths, 3, room, sizeof room, k.s);
    CHECK_OK(k.s);
    MR_CHECK(lengths[0] == 6 && memcmp(values[0], "loc:@a", 6) == 0);
    MR_CHECK(lengths[1] == 6 && memcmp(values[1], "loc:@b", 6) == 0);
    kit_free(&k);
}

MR_TEST(capi_operation_description_survives_nulls)
{
    kit k = kit_new();
    MR_CHECK(!TF_NewOperation(NULL, "NoOp", "n"));
    TF_SetDevice(NULL, "x");
    TF_AddInput(NULL, (TF_Output){0});
    TF_SetAttrInt(NULL, "a", 1);
    TF_SetAttrTensor(NULL, "a", NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    MR_CHECK(!TF_FinishOperation(NULL, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    TF_OperationDescription *d = TF_NewOperation(k.g, NULL, NULL);
    TF_SetDevice(d, NULL);
    TF_AddInput(d, (TF_Output){0});
    TF_AddInputList(d, NULL, 2);
    TF_AddControlInput(d, NULL);
    TF_ColocateWith(d, NULL);
    TF_SetAttrString(d, NULL, "", 0);
    TF_SetAttrIntList(d, "a", NULL, 3);
    TF_SetAttrIntList(d, "a", NULL, -3);
    TF_SetAttrStringList(d, "a", (const void *[]){NULL}, (size_t[]){3}, 1);
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    kit_free(&k);
}

MR_TEST(capi_operation_locked_forms_take_no_lock)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperationLocked(k.g, "NoOp", "n");
    MR_CHECK(TF_FinishOperationLocked(d, k.s));
    CHECK_OK(k.s);
    kit_free(&k);
}
