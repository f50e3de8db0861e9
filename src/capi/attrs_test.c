/* capi/attrs_test.c -- attrs set and read back.  Attrs whose name begins with '_' may have any
 * value, so one NoOp can carry all kinds. */
#include "capi/graph_fixture.h"

static const TF_DataType types[] = {TF_FLOAT, TF_INT64};

/* A NoOp with an attr of every kind. */
static TF_Operation *make(kit *k)
{
    TF_OperationDescription *d = TF_NewOperation(k->g, "NoOp", "all");
    TF_Tensor *t = kit_float(2.5f), *ts[2] = {kit_float(1), kit_int(2)};
    TF_SetAttrString(d, "_s", "a\0b", 3);
    TF_SetAttrStringList(d, "_ss", (const void *[]){"one", "", "three"}, (size_t[]){3, 0, 5}, 3);
    TF_SetAttrInt(d, "_i", -7);
    TF_SetAttrIntList(d, "_is", (int64_t[]){1, INT64_MIN}, 2);
    TF_SetAttrFloat(d, "_f", 0.5f);
    TF_SetAttrFloatList(d, "_fs", (float[]){1, 2, 3}, 3);
    TF_SetAttrBool(d, "_b", 7);
    TF_SetAttrBoolList(d, "_bs", (unsigned char[]){0, 2}, 2);
    TF_SetAttrType(d, "_t", TF_HALF);
    TF_SetAttrTypeList(d, "_ts", types, 2);
    TF_SetAttrShape(d, "_shape", (int64_t[]){2, -1}, 2);
    TF_SetAttrShape(d, "_any", NULL, -1);
    TF_SetAttrShapeList(d, "_shapes", (const int64_t *[]){(int64_t[]){4, 5}, NULL, NULL},
                        (int[]){2, -1, 0}, 3);
    TF_SetAttrFuncName(d, "_func", "Cube", 4);
    TF_SetAttrPlaceholder(d, "_hole", "T");
    TF_SetAttrTensor(d, "_tensor", t, k->s);
    CHECK_OK(k->s);
    TF_SetAttrTensorList(d, "_tensors", ts, 2, k->s);
    CHECK_OK(k->s);
    *(float *)TF_TensorData(t) = -1; /* the graph has its own copy */
    TF_SetAttrIntList(d, "_none", NULL, 0);
    TF_DeleteTensor(t);
    TF_DeleteTensor(ts[0]);
    TF_DeleteTensor(ts[1]);
    return kit_finish(k, d);
}

static void check_metadata(kit *k, TF_Operation *op, const char *name, int is_list, int64_t size,
                           TF_AttrType type, int64_t total)
{
    TF_AttrMetadata m = TF_OperationGetAttrMetadata(op, name, k->s);
    CHECK_OK(k->s);
    MR_CHECK_INT(m.is_list, is_list);
    MR_CHECK_INT(m.list_size, size);
    MR_CHECK_INT(m.type, type);
    MR_CHECK_INT(m.total_size, total);
}

MR_TEST(capi_attr_metadata_of_every_kind)
{
    kit k = kit_new();
    TF_Operation *op = make(&k);
    check_metadata(&k, op, "_s", 0, -1, TF_ATTR_STRING, 3);
    check_metadata(&k, op, "_ss", 1, 3, TF_ATTR_STRING, 8);
    check_metadata(&k, op, "_i", 0, -1, TF_ATTR_INT, -1);
    check_metadata(&k, op, "_is", 1, 2, TF_ATTR_INT, -1);
    check_metadata(&k, op, "_f", 0, -1, TF_ATTR_FLOAT, -1);
    check_metadata(&k, op, "_bs", 1, 2, TF_ATTR_BOOL, -1);
    check_metadata(&k, op, "_t", 0, -1, TF_ATTR_TYPE, -1);
    check_metadata(&k, op, "_shape", 0, -1, TF_ATTR_SHAPE, 2);
    check_metadata(&k, op, "_any", 0, -1, TF_ATTR_SHAPE, -1);
    check_metadata(&k, op, "_shapes", 1, 3, TF_ATTR_SHAPE, 2);
    check_metadata(&k, op, "_tensor", 0, -1, TF_ATTR_TENSOR, -1);
    check_metadata(&k, op, "_tensors", 1, 2, TF_ATTR_TENSOR, -1);
    check_metadata(&k, op, "_func", 0, -1, TF_ATTR_FUNC, -1);
    check_metadata(&k, op, "_hole", 0, -1, TF_ATTR_PLACEHOLDER, -1);
    kit_free(&k);
}

/* The kind of an empty list comes from the op: strides of MaxPool are ints. */
MR_TEST(capi_attr_metadata_of_an_empty_list_asks_the_op)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "Squeeze", "s");
    TF_AddInput(d, kit_placeholder(&k, "x", TF_FLOAT));
    check_metadata(&k, kit_finish(&k, d), "squeeze_dims", 1, 0, TF_ATTR_INT, -1);
    kit_free(&k);
}

MR_TEST(capi_attr_metadata_of_a_list_of_functions_is_empty)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "NoOp", "n");
    /* list { func { name: "F" } } */
    TF_SetAttrValueProto(d, "_fs",
                         "\x0a\x05J\x03\x0a\x01"
                         "F",
                         7, k.s);
    CHECK_OK(k.s);
    check_metadata(&k, kit_finish(&k, d), "_fs", 1, 0, TF_ATTR_FUNC, -1);
    kit_free(&k);
}

MR_TEST(capi_attr_values_come_back)
{
    kit k = kit_new();
    TF_Operation *op = make(&k);
    char text[8] = "........";
    int64_t i, is[3] = {0, 0, 99};
    float f, fs[2];
    unsigned char b, bs[2];
    TF_DataType t, ts[2];
    TF_OperationGetAttrString(op, "_s", text, sizeof text, k.s);
    MR_CHECK(memcmp(text, "a\0b.....", 8) == 0); /* no NUL is added */
    TF_OperationGetAttrString(op, "_s", text, 1, k.s);
    CHECK_OK(k.s);
    TF_OperationGetAttrInt(op, "_i", &i, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(i, -7);
    TF_OperationGetAttrIntList(op, "_is", is, 3, k.s);
    CHECK_OK(k.s);
    MR_CHECK(is[0] == 1 && is[1] == INT64_MIN && is[2] == 99);
    TF_OperationGetAttrFloat(op, "_f", &f, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(f, 0.5, 0);
    TF_OperationGetAttrFloatList(op, "_fs", fs, 2, k.s); /* of three */
    CHECK_OK(k.s);
    MR_CHECK(fs[0] == 1 && fs[1] == 2);
    TF_OperationGetAttrBool(op, "_b", &b, k.s);
    MR_CHECK_INT(b, 1);
    TF_OperationGetAttrBoolList(op, "_bs", bs, 2, k.s);
    MR_CHECK(bs[0] == 0 && bs[1] == 1);
    TF_OperationGetAttrType(op, "_t", &t, k.s);
    MR_CHECK_INT(t, TF_HALF);
    TF_OperationGetAttrTypeList(op, "_ts", ts, 2, k.s);
    MR_CHECK(ts[0] == TF_FLOAT && ts[1] == TF_INT64);
    CHECK_OK(k.s);
    kit_free(&k);
}

MR_TEST(capi_attr_string_lists_lie_in_the_storage)
{
    kit k = kit_new();
    TF_Operation *op = make(&k);
    void *values[3];
    size_t lengths[3];
    char room[8];
    TF_OperationGetAttrStringList(op, "_ss", values, lengths, 3, room, 8, k.s);
    CHECK_OK(k.s);
    MR_CHECK(values[0] == room && lengths[0] == 3 && memcmp(room, "onethree", 8) == 0);
    MR_CHECK(values[2] == room + 3 && lengths[1] == 0 && lengths[2] == 5);
    TF_OperationGetAttrStringList(op, "_ss", values, lengths, 3, room, 7, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT,
               "Not enough storage to hold the requested list of strings");
    TF_OperationGetAttrStringList(op, "_ss", values, lengths, 2, room, 7, k.s); /* two fit */
    CHECK_OK(k.s);
    kit_free(&k);
}

MR_TEST(capi_attr_shapes_come_back)
{
    kit k = kit_new();
    TF_Operation *op = make(&k);
    int64_t dims[3] = {9, 9, 9}, room[2], *at[3];
    int n[3];
    TF_OperationGetAttrShape(op, "_shape", dims, 3, k.s);
    CHECK_OK(k.s);
    MR_CHECK(dims[0] == 2 && dims[1] == -1 && dims[2] == 9);
    TF_OperationGetAttrShape(op, "_any", dims, 3, k.s); /* nothing is written */
    CHECK_OK(k.s);
    MR_CHECK_INT(dims[0], 2);
    TF_OperationGetAttrShapeList(op, "_shapes", at, n, 3, room, 2, k.s);
    CHECK_OK(k.s);
    MR_CHECK(n[0] == 2 && at[0] == room && room[0] == 4 && room[1] == 5);
    MR_CHECK(n[1] == -1 && n[2] == 0);
    TF_OperationGetAttrShapeList(op, "_shapes", at, n, 3, room, 1, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Not enough storage to hold the requested list of shapes");
    kit_free(&k);
}

MR_TEST(capi_attr_shape_protos_go_both_ways)
{
    kit k = kit_new();
    TF_Operation *op = make(&k);
    TF_Buffer *one = TF_NewBuffer(), *many[3] = {NULL, NULL, NULL};
    TF_OperationGetAttrTensorShapeProto(op, "_shape", one, k.s);
    CHECK_OK(k.s);
    TF_OperationGetAttrTensorShapeProtoList(op, "_shapes", many, 3, k.s);
    CHECK_OK(k.s);
    MR_CHECK(many[2]);
    TF_OperationDescription *d = TF_NewOperation(k.g, "NoOp", "copy");
    TF_SetAttrTensorShapeProto(d, "_shape", one->data, one->length, k.s);
    CHECK_OK(k.s);
    TF_SetAttrTensorShapeProtoList(
        d, "_shapes", (const void *[]){many[0]->data, many[1]->data, many[2]->data},
        (size_t[]){many[0]->length, many[1]->length, many[2]->length}, 3, k.s);
    CHECK_OK(k.s);
    TF_SetAttrTensorShapeProto(d, "_bad", "\377", 1, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Unparseable TensorShapeProto");
    TF_Operation *copy = kit_finish(&k, d);
    check_metadata(&k, copy, "_shape", 0, -1, TF_ATTR_SHAPE, 2);
    check_metadata(&k, copy, "_shapes", 1, 3, TF_ATTR_SHAPE, 2);
    TF_OperationGetAttrTensorShapeProto(op, "_i", one, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Value for '_i' is not a shape.");
    TF_DeleteBuffer(one);
    for (int i = 0; i < 3; i++)
        TF_DeleteBuffer(many[i]);
    kit_free(&k);
}

MR_TEST(capi_attr_tensors_are_copies)
{
    kit k = kit_new();
    TF_Operation *op = make(&k);
    TF_Tensor *t = NULL, *ts[2] = {NULL, NULL};
    TF_OperationGetAttrTensor(op, "_tensor", &t, k.s);
    CHECK_OK(k.s);
    *(float *)TF_TensorData(t) = 99; /* ours to write on */
    TF_DeleteTensor(t);
    TF_OperationGetAttrTensor(op, "_tensor", &t, k.s);
    MR_CHECK_NEAR(kit_take_float(t), 2.5, 0);
    TF_OperationGetAttrTensorList(op, "_tensors", ts, 2, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(ts[0]), 1, 0);
    MR_CHECK_INT(kit_take_int(ts[1]), 2);
    kit_free(&k);
}

MR_TEST(capi_attr_value_protos_go_both_ways)
{
    kit k = kit_new();
    TF_Operation *op = make(&k);
    static const char *const names[] = {"_s",  "_ss",     "_is",   "_fs",     "_bs",
                                        "_ts", "_shapes", "_func", "_tensor", "_hole"};
    TF_OperationDescription *d = TF_NewOperation(k.g, "NoOp", "copy");
    TF_Buffer *b[10], *again = NULL;
    for (int i = 0; i < 10; i++) {
        b[i] = TF_NewBuffer();
        TF_OperationGetAttrValueProto(op, names[i], b[i], k.s);
        CHECK_OK(k.s);
        TF_SetAttrValueProto(d, names[i], b[i]->data, b[i]->length, k.s);
        CHECK_OK(k.s);
    }
    TF_SetAttrValueProto(d, "_bad", "\377", 1, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Unparseable AttrValue proto");
    TF_Operation *copy = kit_finish(&k, d);
    for (int i = 0; i < 10; i++) {
        again = TF_NewBuffer();
        TF_OperationGetAttrValueProto(copy, names[i], again, k.s);
        MR_CHECK(again->length == b[i]->length &&
                 memcmp(again->data, b[i]->data, again->length) == 0);
        TF_DeleteBuffer(again);
        TF_DeleteBuffer(b[i]);
    }
    kit_free(&k);
}

/* ---- what is not there, or something else ---- */

MR_TEST(capi_attr_missing_has_two_codes)
{
    kit k = kit_new();
    TF_Operation *op = make(&k);
    TF_Buffer *buf = TF_NewBuffer();
    static const char invalid[] = "Operation 'all' has no attr named 'none'.";
    static const char not_found[] = "No attr named 'none' in NodeDef:";
    TF_OperationGetAttrMetadata(op, "none", k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, invalid);
    TF_OperationGetAttrString(op, "none", NULL, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, invalid);
    TF_OperationGetAttrStringList(op, "none", NULL, NULL, 0, NULL, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, invalid);
    TF_OperationGetAttrIntList(op, "none", NULL, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, invalid);
    TF_OperationGetAttrTypeList(op, "none", NULL, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, invalid);
    TF_OperationGetAttrTensorShapeProto(op, "none", buf, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, invalid);
    TF_OperationGetAttrTensorShapeProtoList(op, "none", NULL, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, invalid);
    TF_OperationGetAttrValueProto(op, "none", buf, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, invalid);
    TF_OperationGetAttrInt(op, "none", NULL, k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, not_found);
    TF_OperationGetAttrFloat(op, "none", NULL, k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, not_found);
    TF_OperationGetAttrBool(op, "none", NULL, k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, not_found);
    TF_OperationGetAttrType(op, "none", NULL, k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, not_found);
    TF_OperationGetAttrShape(op, "none", NULL, 0, k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, not_found);
    TF_OperationGetAttrShapeList(op, "none", NULL, NULL, 0, NULL, 0, k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, not_found);
    TF_OperationGetAttrTensor(op, "none", NULL, k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, not_found);
    TF_OperationGetAttrTensorList(op, "none", NULL, 0, k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, not_found);
    TF_DeleteBuffer(buf);
    kit_free(&k);
}

MR_TEST(capi_attr_of_another_kind_is_refused_but_for_lists)
{
    kit k = kit_new();
    TF_Operation *op = make(&k);
    int64_t i = 5, is[2] = {5, 5};
    TF_OperationGetAttrInt(op, "_f", &i, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT,
               "AttrValue had value with type 'float' when 'int' expected");
    MR_CHECK_INT(i, 5);
    TF_OperationGetAttrString(op, "_i", NULL, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Attribute '_i' is not a string");
    TF_OperationGetAttrIntList(op, "_i", is, 2, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Value for '_i' is not a list.");
    TF_OperationGetAttrIntList(op, "_fs", is, 2, k.s); /* some list: yields nothing */
    CHECK_OK(k.s);
    MR_CHECK(is[0] == 5 && is[1] == 5);
    TF_OperationGetAttrShapeList(op, "_fs", NULL, NULL, 0, NULL, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "'list(shape)' expected");
    kit_free(&k);
}

MR_TEST(capi_attr_names_are_listed)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    char name[32] = {0};
    MR_CHECK_INT(TF_OperationGetNumAttrs(x.oper), 2);
    MR_CHECK_INT(TF_OperationGetAttrNameLength(x.oper, 0), 5);
    TF_OperationGetAttrName(x.oper, 0, name, k.s);
    CHECK_OK(k.s);
    MR_CHECK_STR(name, "dtype");
    MR_CHECK_INT(TF_OperationGetAttrNameLength(x.oper, 2), -1);
    TF_OperationGetAttrName(x.oper, 2, name, k.s);
    CHECK_CODE(k.s, TF_OUT_OF_RANGE, "Operation only has 2 attributes, can't get the 2th");
    kit_free(&k);
}

MR_TEST(capi_attr_shapes_that_cannot_be_fail_the_operation)
{
    kit k = kit_new();
    static const int64_t many[300], negative[1] = {-2};
    static const struct {
        const int64_t *dims;
        int n;
    } bad[] = {{many, 300}, {negative, 1}, {NULL, 2}};
    for (int i = 0; i < 3; i++) {
        TF_OperationDescription *d = TF_NewOperation(k.g, "Placeholder", "p");
        TF_SetAttrType(d, "dtype", TF_FLOAT);
        TF_SetAttrShape(d, "shape", bad[i].dims, bad[i].n);
        MR_CHECK(!TF_FinishOperation(d, k.s));
        MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    }
    kit_free(&k);
}

MR_TEST(capi_attr_placeholders_are_for_function_bodies)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "Placeholder", "p");
    TF_SetAttrPlaceholder(d, "dtype", "T");
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "AttrValue had value with unexpected type 'placeholder'\n\t for attr 'dtype'");
    kit_free(&k);
}

/* An attr that no type depends on may be given when the function is called. */
MR_TEST(capi_attr_placeholders_become_attrs_of_the_function)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_OperationDescription *d = TF_NewOperation(k.g, "LeakyRelu", "y");
    TF_AddInput(d, x);
    TF_SetAttrPlaceholder(d, "alpha", "slope");
    TF_Output y = kit_out(kit_finish(&k, d), 0);
    TF_Session *s = kit_session(&k);
    TF_Tensor *one = kit_float(-1);
    MR_CHECK(!kit_run(&k, s, x, one, y)); /* not yet a value */
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "AttrValue had value with unexpected type 'placeholder'\n\t for attr 'alpha'");
    TF_Function *f = TF_GraphToFunction(k.g, "Leak", 0, -1, NULL, 1, &x, 1, &y, NULL, NULL, NULL, k.s);
    CHECK_OK(k.s);
    TF_Graph *g = TF_NewGraph();
    kit other = {g, k.s};
    TF_GraphCopyFunction(g, f, NULL, k.s);
    CHECK_OK(k.s);
    TF_Output in = kit_placeholder(&other, "in", TF_FLOAT);
    d = TF_NewOperation(g, "Leak", "call");
    TF_AddInput(d, in);
    TF_SetAttrFloat(d, "slope", 0.5f);
    TF_Output out = kit_out(kit_finish(&other, d), 0);
    TF_Session *t = kit_session(&other);
    TF_Tensor *v = kit_run(&other, t, in, one, out);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(v), -0.5, 1e-6);
    TF_DeleteTensor(one);
    kit_close(&other, t);
    TF_DeleteGraph(g);
    TF_DeleteFunction(f);
    kit_close(&k, s);
    kit_free(&k);
}
