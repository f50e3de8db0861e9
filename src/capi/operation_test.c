/* capi/operation_test.c -- operations read, evaluated and changed. */
#include "millrace/front_end.h"
#include "capi/graph_fixture.h"

MR_TEST(capi_operation_tells_its_inputs_and_consumers)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_placeholder(&k, "y", TF_FLOAT);
    TF_Output z = kit_binary(&k, "Add", "z", x, y), w = kit_binary(&k, "Mul", "w", x, x);
    TF_Input users[4];
    TF_Output in[3] = {{NULL, 7}, {NULL, 7}, {NULL, 7}};
    MR_CHECK_INT(TF_OperationOutputNumConsumers(x), 3);
    MR_CHECK_INT(TF_OperationOutputConsumers(x, users, 2), 3); /* as many as there are */
    MR_CHECK(users[0].oper == z.oper && users[0].index == 0);
    MR_CHECK(users[1].oper == w.oper && users[1].index == 0);
    MR_CHECK(TF_OperationInput((TF_Input){z.oper, 1}).oper == y.oper);
    MR_CHECK(!TF_OperationInput((TF_Input){z.oper, 2}).oper);
    MR_CHECK_INT(TF_OperationInput((TF_Input){z.oper, 2}).index, -1);
    TF_OperationAllInputs(z.oper, in, 3);
    MR_CHECK(in[0].oper == x.oper && in[1].oper == y.oper && in[2].index == 7);
    MR_CHECK_INT(TF_OperationInputType((TF_Input){z.oper, 0}), TF_FLOAT);
    MR_CHECK_INT(TF_OperationInputType((TF_Input){z.oper, 5}), 0);
    kit_free(&k);
}

MR_TEST(capi_operation_tells_its_control_edges)
{
    kit k = kit_new();
    TF_Operation *a = kit_finish(&k, TF_NewOperation(k.g, "NoOp", "a"));
    TF_OperationDescription *d = TF_NewOperation(k.g, "NoOp", "b");
    TF_AddControlInput(d, a);
    TF_AddControlInput(d, a); /* counts once */
    TF_Operation *b = kit_finish(&k, d), *got[2] = {NULL, NULL};
    MR_CHECK_INT(TF_OperationNumControlInputs(b), 1);
    MR_CHECK_INT(TF_OperationGetControlInputs(b, got, 2), 1);
    MR_CHECK(got[0] == a);
    MR_CHECK_INT(TF_OperationNumControlOutputs(a), 1);
    MR_CHECK_INT(TF_OperationGetControlOutputs(a, got, 0), 1);
    MR_CHECK_INT(TF_OperationGetControlOutputs(a, got, 2), 1);
    MR_CHECK(got[0] == b);
    MR_CHECK_INT(TF_OperationOutputNumConsumers((TF_Output){a, 0}), 0);
    kit_free(&k);
}

MR_TEST(capi_operation_list_lengths_by_argument)
{
    kit k = kit_new();
    TF_Output axis = kit_const(&k, "axis", kit_int(0)), x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_OperationDescription *d = TF_NewOperation(k.g, "Split", "split");
    TF_AddInput(d, axis);
    TF_AddInput(d, x);
    TF_SetAttrInt(d, "num_split", 4);
    TF_Operation *op = kit_finish(&k, d);
    MR_CHECK_INT(TF_OperationNumOutputs(op), 4);
    MR_CHECK_INT(TF_OperationOutputListLength(op, "output", k.s), 4);
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_OperationInputListLength(op, "value", k.s), 1);
    MR_CHECK_INT(TF_OperationInputListLength(op, "none", k.s), -1);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Input arg 'none' not found");
    MR_CHECK_INT(TF_OperationOutputListLength(op, "value", k.s), -1);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Output arg 'value' not found");
    kit_free(&k);
}

MR_TEST(capi_operation_to_node_def)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Buffer *b = TF_NewBuffer();
    TF_OperationToNodeDef(x.oper, b, k.s);
    CHECK_OK(k.s);
    MR_CHECK(b->length > 16 && memcmp(b->data, "\012\001x\022\013Placeholder", 16) == 0);
    TF_OperationToNodeDef(x.oper, b, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Passing non-empty TF_Buffer is invalid.");
    TF_OperationToNodeDef(x.oper, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "The buffer to fill is NULL");
    TF_DeleteBuffer(b);
    kit_free(&k);
}

MR_TEST(capi_operation_constant_is_evaluated)
{
    kit k = kit_new();
    TF_Output two = kit_const(&k, "two", kit_float(2)), x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Output four = kit_binary(&k, "Mul", "four", two, two);
    TF_Output unknown = kit_binary(&k, "Mul", "unknown", four, x);
    TF_Tensor *t = NULL;
    MR_CHECK_INT(TF_TryEvaluateConstant(k.g, four, &t, k.s), 1);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(t), 4, 0);
    MR_CHECK_INT(TF_TryEvaluateConstant(k.g, unknown, &t, k.s), 0);
    CHECK_OK(k.s);
    MR_CHECK(!t);
    MR_CHECK_INT(TF_TryEvaluateConstant(k.g, two, &t, k.s), 1);
    *(float *)TF_TensorData(t) = 9; /* a copy: the graph's own stays */
    TF_DeleteTensor(t);
    MR_CHECK_INT(TF_TryEvaluateConstant(k.g, two, &t, k.s), 1);
    MR_CHECK_NEAR(kit_take_float(t), 2, 0);
    MR_CHECK_INT(TF_TryEvaluateConstant(k.g, (TF_Output){two.oper, 1}, &t, k.s), 0);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    MR_CHECK(!t);
    kit_free(&k);
}

MR_TEST(capi_operation_survives_nulls)
{
    kit k = kit_new();
    MR_CHECK_STR(TF_OperationName(NULL), "");
    MR_CHECK_STR(TF_OperationOpType(NULL), "");
    MR_CHECK_STR(TF_OperationDevice(NULL), "");
    MR_CHECK_INT(TF_OperationNumInputs(NULL), 0);
    MR_CHECK_INT(TF_OperationNumOutputs(NULL), 0);
    MR_CHECK_INT(TF_OperationOutputType((TF_Output){NULL, 0}), 0);
    MR_CHECK_INT(TF_OperationOutputNumConsumers((TF_Output){NULL, 0}), 0);
    MR_CHECK_INT(TF_OperationGetNumAttrs(NULL), 0);
    MR_CHECK_INT(TF_OperationGetAttrNameLength(NULL, 0), -1);
    TF_OperationGetAttrMetadata(NULL, "a", k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_OperationToNodeDef(NULL, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    kit_free(&k);
}

/* ---- changes ---- */

MR_TEST(capi_operation_edge_is_updated)
{
    kit k = kit_new();
    TF_Output a = kit_const(&k, "a", kit_float(1)), b = kit_const(&k, "b", kit_float(5));
    TF_Output i = kit_const(&k, "i", kit_int(5)), y = kit_unary(&k, "Neg", "y", a);
    TF_UpdateEdge(k.g, b, (TF_Input){y.oper, 0}, k.s);
    CHECK_OK(k.s);
    MR_CHECK(TF_OperationInput((TF_Input){y.oper, 0}).oper == b.oper);
    MR_CHECK_INT(TF_OperationOutputNumConsumers(a), 0);
    TF_Buffer *def = TF_NewBuffer();
    TF_OperationToNodeDef(y.oper, def, k.s);
    CHECK_OK(k.s);
    MR_CHECK(memmem(def->data, def->length, "\x1a\x03" "b:0", 5)); /* as TensorFlow writes it */
    TF_DeleteBuffer(def);
    TF_UpdateEdge(k.g, b, (TF_Input){y.oper, 1}, k.s);
    CHECK_CODE(k.s, TF_OUT_OF_RANGE, "Input index [1] is greater than the number of total inputs");
    TF_UpdateEdge(k.g, (TF_Output){b.oper, 1}, (TF_Input){y.oper, 0}, k.s);
    CHECK_CODE(k.s, TF_OUT_OF_RANGE,
               "Output index [1] is greater than the number of total outputs");
    TF_UpdateEdge(k.g, i, (TF_Input){y.oper, 0}, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT); /* another type */
    TF_Output v = kit_const(&k, "v", kit_floats(1, (int64_t[]){2}, (float[]){1, 2}));
    TF_UpdateEdge(k.g, v, (TF_Input){y.oper, 0}, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Cannot update edge, incompatible shapes: [] and [2].");
    kit_free(&k);
}

static void set_attr(kit *k, TF_Operation *op, const char *name, const char *bytes, size_t n)
{
    TF_Buffer *b = TF_NewBufferFromString(bytes, n);
    TF_SetAttr(k->g, op, name, b, k->s);
    TF_DeleteBuffer(b);
}

MR_TEST(capi_operation_attrs_change_but_not_its_types)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    int64_t v = 0;
    set_attr(&k, x.oper, "_note", "\030\005", 2); /* i: 5 */
    CHECK_OK(k.s);
    TF_OperationGetAttrInt(x.oper, "_note", &v, k.s);
    MR_CHECK_INT(v, 5);
    TF_ClearAttr(k.g, x.oper, "_note", k.s);
    CHECK_OK(k.s);
    TF_OperationGetAttrInt(x.oper, "_note", &v, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_NOT_FOUND);
    set_attr(&k, x.oper, "dtype", "0\003", 2); /* type: DT_INT32 */
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Attr 'dtype' of operation 'x' cannot change");
    set_attr(&k, x.oper, "shape", "\030\005", 2);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "'int' when 'shape' expected");
    set_attr(&k, x.oper, "speed", "\030\005", 2);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "has no attr named 'speed'");
    set_attr(&k, x.oper, "_note", "\377", 1);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Unparseable AttrValue proto");
    TF_ClearAttr(k.g, x.oper, "dtype", k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "cannot be removed");
    set_attr(&k, x.oper, "shape", ":\004\022\002\010\003", 6); /* shape { dim { size: 3 } } */
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_GraphGetTensorNumDims(k.g, x, k.s), 1);
    kit_free(&k);
}

MR_TEST(capi_operation_device_and_control_inputs_change)
{
    kit k = kit_new(), other = kit_new();
    TF_Operation *a = kit_finish(&k, TF_NewOperation(k.g, "NoOp", "a"));
    TF_Operation *b = kit_finish(&k, TF_NewOperation(k.g, "NoOp", "b"));
    TF_Operation *c = kit_finish(&k, TF_NewOperation(k.g, "NoOp", "c"));
    TF_Operation *far = kit_finish(&other, TF_NewOperation(other.g, "NoOp", "far"));
    TF_SetRequestedDevice(k.g, a, "/device:CPU:0");
    MR_CHECK_STR(TF_OperationDevice(a), "/device:CPU:0");
    TF_AddOperationControlInput(k.g, c, a);
    TF_AddOperationControlInput(k.g, c, b);
    TF_AddOperationControlInput(k.g, c, far); /* of another graph: nothing happens */
    MR_CHECK_INT(TF_OperationNumControlInputs(c), 2);
    TF_RemoveAllControlInputs(k.g, c);
    MR_CHECK_INT(TF_OperationNumControlInputs(c), 0);
    MR_CHECK_INT(TF_OperationNumControlOutputs(a), 0);
    kit_free(&k);
    kit_free(&other);
}

/* Only computing it tells how many axes a sum over a broadcast has. */
MR_TEST(capi_operation_evaluates_constants_of_shapes_that_are_not_known)
{
    kit k = kit_new();
    TF_Output x = kit_const(&k, "x", kit_ints(1, (int64_t[]){2}, (int32_t[]){32, 10}));
    TF_Output y = kit_const(&k, "y", kit_ints(1, (int64_t[]){1}, (int32_t[]){10}));
    TF_Output r = kit_binary(&k, "BroadcastGradientArgs", "r", x, y);
    TF_Tensor *t = NULL;
    MR_CHECK(TF_TryEvaluateConstant(k.g, kit_out(r.oper, 1), &t, k.s));
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_Dim(t, 0), 1);
    MR_CHECK_INT(kit_take_int(t), 0);
    MR_CHECK(TF_TryEvaluateConstant(k.g, kit_out(r.oper, 0), &t, k.s));
    MR_CHECK_INT(TF_Dim(t, 0), 0);
    TF_DeleteTensor(t);
    kit_free(&k);
}

/* What turns out to be large is not computed: 2^30 ones in a few bytes. */
MR_TEST(capi_operation_does_not_evaluate_what_takes_much_memory)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "Where", "w");
    TF_Output big = kit_const(&k, "dims", kit_ints(1, (int64_t[]){1}, (int32_t[]){1 << 20}));
    TF_Output ones = kit_binary(&k, "Fill", "f", big, kit_const(&k, "true", kit_bool(true)));
    TF_AddInput(d, ones);
    TF_Output w = kit_out(kit_finish(&k, d), 0);
    TF_Tensor *t = NULL;
    MR_CHECK(!TF_TryEvaluateConstant(k.g, w, &t, k.s));
    CHECK_OK(k.s);
    MR_CHECK(!t);
    kit_free(&k);
}

MR_TEST(capi_operation_index_is_where_the_graph_lists_it)
{
    kit k = kit_new();
    size_t pos = 0;
    for (int i = 0; i < 3; i++)
        kit_const(&k, (const char *[]){"a", "b", "c"}[i], kit_bool(true));
    for (TF_Operation *op; (op = TF_GraphNextOperation(k.g, &pos));)
        MR_CHECK_INT(mr_operation_index(op), pos - 1);
    MR_CHECK_INT(pos, 3);
    MR_CHECK(mr_operation_index(NULL) == SIZE_MAX);
    kit_free(&k);
}
