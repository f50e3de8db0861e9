/* capi/tensor_test.c */
#include <stdlib.h>

#include "capi/graph_fixture.h"

typedef struct freed {
    int n;
    void *data;
    size_t len;
} freed;

static void note(void *data, size_t len, void *arg)
{
    freed *f = arg;
    f->n++;
    f->data = data;
    f->len = len;
}

MR_TEST(capi_tensor_keeps_aligned_memory_until_it_is_deleted)
{
    freed f = {0};
    float *data = aligned_alloc(64, 64);
    TF_Tensor *t = TF_NewTensor(TF_FLOAT, (int64_t[]){2, 3}, 2, data, 64, note, &f);
    MR_CHECK(TF_TensorData(t) == data);
    MR_CHECK_INT(TF_TensorByteSize(t), 64); /* as given, though 24 would do */
    MR_CHECK_INT(TF_NumDims(t), 2);
    MR_CHECK_INT(TF_Dim(t, 1), 3);
    MR_CHECK_INT(TF_TensorElementCount(t), 6);
    MR_CHECK(TF_TensorIsAligned(t));
    MR_CHECK(!TF_TensorMaybeMove(t)); /* not ours to move */
    MR_CHECK_INT(f.n, 0);
    TF_DeleteTensor(t);
    MR_CHECK(f.n == 1 && f.data == data && f.len == 64);
    free(data);
}

MR_TEST(capi_tensor_copies_memory_that_is_not_aligned_and_gives_it_back_at_once)
{
    freed f = {0};
    _Alignas(64) char room[80];
    float *data = (float *)(void *)(room + 4);
    data[0] = 1.5f;
    TF_Tensor *t = TF_NewTensor(TF_FLOAT, (int64_t[]){1}, 1, data, 8, note, &f);
    MR_CHECK(f.n == 1 && f.data == data && f.len == 8);
    memset(room, 0, sizeof room);
    MR_CHECK(TF_TensorData(t) != data);
    MR_CHECK_NEAR(*(float *)TF_TensorData(t), 1.5, 0);
    MR_CHECK_INT(TF_TensorByteSize(t), 8);
    MR_CHECK(TF_TensorIsAligned(t));
    MR_CHECK(TF_TensorMaybeMove(t) == t);
    TF_DeleteTensor(t);
    MR_CHECK_INT(f.n, 1);
}

MR_TEST(capi_tensor_refuses_what_cannot_be_and_releases_it)
{
    freed f = {0};
    static _Alignas(64) float data[4];
    MR_CHECK(!TF_NewTensor(TF_FLOAT, (int64_t[]){5}, 1, data, sizeof data, note, &f)); /* short */
    MR_CHECK(!TF_NewTensor(TF_FLOAT, (int64_t[]){-1}, 1, data, sizeof data, note, &f));
    MR_CHECK(!TF_NewTensor((TF_DataType)99, (int64_t[]){1}, 1, data, sizeof data, note, &f));
    MR_CHECK(!TF_NewTensor(TF_FLOAT, NULL, 2, data, sizeof data, note, &f));
    MR_CHECK(!TF_NewTensor(TF_FLOAT, (int64_t[]){1ll << 40, 1ll << 40}, 2, data + 1, 4, note, &f));
    MR_CHECK_INT(f.n, 5);
    MR_CHECK(!TF_AllocateTensor(TF_FLOAT, (int64_t[]){5}, 1, 16));
    MR_CHECK(!TF_AllocateTensor(TF_FLOAT, (int64_t[]){1ll << 62}, 1, (size_t)1 << 63));
    MR_CHECK(!TF_AllocateTensor(TF_FLOAT, NULL, -1, 16));
}

MR_TEST(capi_tensor_of_no_elements_is_one)
{
    TF_Tensor *t = TF_AllocateTensor(TF_INT32, (int64_t[]){0, 7}, 2, 0);
    MR_CHECK(t);
    MR_CHECK_INT(TF_TensorByteSize(t), 0);
    MR_CHECK_INT(TF_TensorElementCount(t), 0);
    MR_CHECK_INT(TF_Dim(t, 1), 7);
    TF_DeleteTensor(t);
    t = TF_NewTensor(TF_INT32, (int64_t[]){0}, 1, NULL, 0, NULL, NULL);
    MR_CHECK(t);
    TF_DeleteTensor(t);
}

MR_TEST(capi_tensor_allocated_is_aligned_and_may_be_larger)
{
    TF_Tensor *t = TF_AllocateTensor(TF_DOUBLE, (int64_t[]){3}, 1, 100);
    MR_CHECK_INT((uintptr_t)TF_TensorData(t) % TF_TensorDefaultAlignment(), 0);
    MR_CHECK_INT(TF_TensorByteSize(t), 100);
    MR_CHECK(TF_TensorMaybeMove(t) == t);
    TF_DeleteTensor(t);
}

MR_TEST(capi_tensor_bitcast_shares_the_memory)
{
    kit k = kit_new();
    TF_Tensor *a = kit_ints(1, (int64_t[]){4}, (int32_t[]){1, 2, 3, 0x3f800000});
    TF_Tensor *b = kit_float(0);
    TF_TensorBitcastFrom(a, TF_FLOAT, b, (int64_t[]){2, 2}, 2, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_NumDims(b), 2);
    MR_CHECK(TF_TensorData(a) == TF_TensorData(b));
    MR_CHECK_NEAR(((float *)TF_TensorData(b))[3], 1, 0);
    MR_CHECK(!TF_TensorMaybeMove(a)); /* shared now */
    TF_TensorBitcastFrom(a, TF_DOUBLE, b, (int64_t[]){3}, 1, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    MR_CHECK_INT(TF_NumDims(b), 2); /* as before */
    TF_DeleteTensor(a);
    MR_CHECK_INT(((int32_t *)TF_TensorData(b))[0], 1); /* outlives a */
    TF_DeleteTensor(b);
    kit_free(&k);
}

MR_TEST(capi_tensor_shape_changes_only_to_as_many_elements)
{
    TF_Tensor *t = kit_ints(1, (int64_t[]){6}, (int32_t[]){1, 2, 3, 4, 5, 6});
    TF_SetShape(t, (int64_t[]){2, 3}, 2);
    MR_CHECK_INT(TF_NumDims(t), 2);
    TF_SetShape(t, (int64_t[]){2, 2}, 2);
    MR_CHECK_INT(TF_Dim(t, 1), 3);
    TF_DeleteTensor(t);
}

MR_TEST(capi_tensor_from_proto)
{
    kit k = kit_new();
    /* dtype: DT_INT32, tensor_shape {}, int_val: 7 */
    TF_Buffer *b = TF_NewBufferFromString("\010\003\022\000:\001\007", 7);
    TF_Tensor *t = kit_float(0);
    TF_TensorFromProto(b, t, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(kit_take_int(t), 7);
    TF_Buffer *bad = TF_NewBufferFromString("\377", 1);
    t = kit_float(3);
    TF_TensorFromProto(bad, t, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    MR_CHECK_NEAR(kit_take_float(t), 3, 0);
    TF_DeleteBuffer(b);
    TF_DeleteBuffer(bad);
    kit_free(&k);
}

MR_TEST(capi_tensor_outlives_its_handle_while_a_session_uses_it)
{
    kit k = kit_new();
    freed f = {0};
    static _Alignas(64) float data[16];
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Output y = kit_unary(&k, "Identity", "y", x);
    TF_Session *s = kit_session(&k);
    TF_Tensor *t = TF_NewTensor(TF_FLOAT, (int64_t[]){16}, 1, data, sizeof data, note, &f);
    TF_Tensor *r = kit_run(&k, s, x, t, y);
    CHECK_OK(k.s);
    TF_DeleteTensor(t);
    MR_CHECK_INT(f.n, TF_TensorData(r) == data ? 0 : 1);
    TF_DeleteTensor(r);
    kit_close(&k, s);
    MR_CHECK_INT(f.n, 1);
    kit_free(&k);
}

MR_TEST(capi_tensor_sizes_of_types)
{
    static const struct {
        TF_DataType t;
        size_t n;
    } want[] = {
        {TF_FLOAT, 4},     {TF_DOUBLE, 8},      {TF_UINT8, 1},         {TF_STRING, 0},
        {TF_COMPLEX64, 8}, {TF_BOOL, 1},        {TF_COMPLEX128, 16},   {TF_HALF, 2},
        {TF_BFLOAT16, 2},  {TF_QINT32, 4},      {TF_RESOURCE, 0},      {TF_VARIANT, 0},
        {TF_UINT64, 8},    {TF_FLOAT8_E5M2, 1}, {TF_FLOAT8_E4M3FN, 1}, {TF_INT4, 1},
        {TF_UINT4, 1},     {(TF_DataType)0, 0}, {(TF_DataType)101, 0}, {(TF_DataType)1000, 0}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        MR_CHECK_INT(TF_DataTypeSize(want[i].t), want[i].n);
}

MR_TEST(capi_tensor_survives_nulls)
{
    kit k = kit_new();
    TF_DeleteTensor(NULL);
    MR_CHECK(!TF_TensorMaybeMove(NULL));
    MR_CHECK_INT(TF_NumDims(NULL), -1);
    MR_CHECK_INT(TF_Dim(NULL, 0), -1);
    MR_CHECK(!TF_TensorData(NULL));
    MR_CHECK_INT(TF_TensorByteSize(NULL), 0);
    TF_SetShape(NULL, NULL, 0);
    TF_TensorBitcastFrom(NULL, TF_FLOAT, NULL, NULL, 0, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    TF_TensorFromProto(NULL, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    kit_free(&k);
}

/* A session refuses resources as feeds, but only once it has understood what they are. */
MR_TEST(capi_tensor_of_bytes_that_name_no_resource_is_an_error_only_when_used)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_RESOURCE), y = kit_unary(&k, "Identity", "y", x);
    TF_Session *s = kit_session(&k);
    TF_Tensor *t = TF_AllocateTensor(TF_RESOURCE, NULL, 0, 35);
    memset(TF_TensorData(t), 0xff, 35);
    MR_CHECK_INT(TF_TensorByteSize(t), 35);
    MR_CHECK(!kit_run(&k, s, x, t, y));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "unable to parse resource handle");
    TF_DeleteTensor(t);
    t = TF_AllocateTensor(TF_RESOURCE, (int64_t[]){2}, 1, 64);
    memset(TF_TensorData(t), 0xff, 64);
    MR_CHECK_INT(TF_Dim(t, 0), 2);
    MR_CHECK(!kit_run(&k, s, x, t, y));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT,
               "Malformed TF_RESOURCE tensor: expected a scalar, got a tensor with shape [2]");
    TF_SetShape(t, (int64_t[]){1, 2}, 2);
    MR_CHECK_INT(TF_NumDims(t), 1);
    TF_DeleteTensor(t);
    freed f = {0};
    char bytes[] = "\x1a\x01v"; /* name: "v" */
    t = TF_NewTensor(TF_RESOURCE, NULL, 0, bytes, 3, note, &f);
    MR_CHECK(TF_TensorData(t) == bytes && f.n == 0);
    MR_CHECK(!kit_run(&k, s, x, t, y));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "cannot be fed");
    TF_DeleteTensor(t);
    MR_CHECK(f.n == 1 && f.data == bytes && f.len == 3);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_tensor_of_variants_cannot_be_made_from_bytes)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_VARIANT), y = kit_unary(&k, "Identity", "y", x);
    TF_Session *s = kit_session(&k);
    TF_Tensor *t = TF_AllocateTensor(TF_VARIANT, NULL, 0, 24);
    memset(TF_TensorData(t), 0xab, 24);
    MR_CHECK(!kit_run(&k, s, x, t, y));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "A variant tensor cannot be made from bytes");
    TF_DeleteTensor(t);
    t = TF_AllocateTensor(TF_VARIANT, (int64_t[]){0}, 1, 0); /* without elements there is nothing to make up */
    TF_Tensor *none = kit_run(&k, s, x, t, y);
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_Dim(none, 0), 0);
    TF_DeleteTensor(none);
    TF_DeleteTensor(t);
    kit_close(&k, s);
    kit_free(&k);
}
