/* capi/experimental_test.c -- what c_api_experimental.h promises. */
#include "tensorflow/c/c_api_experimental.h"

#include <stdlib.h>

#include "capi/internal.h"
#include "store/bundle.h"
#include "store/checkpoint_v1.h"
#include "tests/harness/test.h"

#define OK(status) MR_CHECK_OK(mr_capi_status_copy(status))

MR_TEST(experimental_config_asks_for_devices)
{
    TF_Status *s = TF_NewStatus();
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_Buffer *b = TF_CreateConfig(0, 1, 3);
    TF_SetConfig(o, b->data, b->length, s);
    OK(s);
    TF_Graph *g = TF_NewGraph();
    TF_Session *session = TF_NewSession(g, o, s);
    OK(s);
    TF_DeviceList *l = TF_SessionListDevices(session, s);
    int n_cpus = 0;
    for (int i = 0; i < TF_DeviceListCount(l); i++)
        n_cpus += strcmp(TF_DeviceListType(l, i, s), "CPU") == 0;
    MR_CHECK_INT(n_cpus, 3);
    TF_DeleteDeviceList(l);
    TF_DeleteSession(session, s);
    TF_DeleteGraph(g);
    TF_DeleteBuffer(b);
    TF_DeleteSessionOptions(o);
    TF_DeleteStatus(s);
}

MR_TEST(experimental_graph_as_text)
{
    TF_Status *s = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    TF_FinishOperation(TF_NewOperation(g, "NoOp", "nothing"), s);
    OK(s);
    size_t n;
    char *text = (char *)(uintptr_t)TF_GraphDebugString(g, &n);
    MR_CHECK(strstr(text, "name: \"nothing\"") && n == strlen(text));
    free(text);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
}

MR_TEST(experimental_checkpoint_is_read)
{
    TF_Status *s = TF_NewStatus();
    char *prefix = mr_printf("%s/model", mr_test_dir());
    mr_bundle_writer *w;
    mr_tensor *t = mr_tensor_of(MR_FLOAT, 2, (const int64_t[]){1, 2}, (const float[]){3, 4});
    MR_CHECK_OK(mr_bundle_writer_new(prefix, &w));
    MR_CHECK_OK(mr_bundle_add(w, MR_SV("b"), t));
    MR_CHECK_OK(mr_bundle_add(w, MR_SV("a"), t));
    MR_CHECK_OK(mr_bundle_finish(w));
    mr_bundle_writer_free(w);
    TF_CheckpointReader *r = TF_NewCheckpointReader(prefix, s);
    OK(s);
    int64_t dims[2];
    MR_CHECK_INT(TF_CheckpointReaderSize(r), 2);
    MR_CHECK_STR(TF_CheckpointReaderGetVariable(r, 0), "a");
    MR_CHECK(!TF_CheckpointReaderGetVariable(r, 2));
    MR_CHECK(TF_CheckpointReaderHasTensor(r, "b") && !TF_CheckpointReaderHasTensor(r, "c"));
    MR_CHECK_INT(TF_CheckpointReaderGetVariableDataType(r, "b"), TF_FLOAT);
    MR_CHECK_INT(TF_CheckpointReaderGetVariableNumDims(r, "b"), 2);
    TF_CheckpointReaderGetVariableShape(r, "b", dims, 2, s);
    OK(s);
    MR_CHECK(dims[0] == 1 && dims[1] == 2);
    TF_CheckpointReaderGetVariableShape(r, "b", dims, 1, s);
    MR_CHECK_ERR(mr_capi_status_copy(s), MR_INVALID_ARGUMENT, "Expected rank is 1 but actual rank is 2");
    TF_Tensor *read = TF_CheckpointReaderGetTensor(r, "a", s);
    OK(s);
    MR_CHECK_NEAR(((float *)TF_TensorData(read))[1], 4, 0);
    TF_DeleteTensor(read);
    MR_CHECK(!TF_CheckpointReaderGetTensor(r, "c", s));
    MR_CHECK_INT(TF_GetCode(s), TF_NOT_FOUND);
    TF_DeleteCheckpointReader(r);
    MR_CHECK(!TF_NewCheckpointReader("/no/such/file", s));
    mr_tensor_unref(t);
    mr_free(prefix);
    TF_DeleteStatus(s);
}

/* Rows [begin, begin + 1) of a tensor "rows" of two; with `more`, a whole "all" beside it. */
static void write_old_file(const char *path, int64_t begin, bool more)
{
    mr_v1_writer *w;
    mr_slice part, whole;
    mr_shape full = {.rank = 2, .dims = {2, 2}};
    const float row[] = {10 * (float)begin, 10 * (float)begin + 1};
    mr_tensor *t = mr_tensor_of(MR_FLOAT, 2, (const int64_t[]){1, 2}, row);
    mr_slice_all(&part, 2);
    part.start[0] = begin;
    part.length[0] = 1;
    mr_slice_all(&whole, 1);
    MR_CHECK_OK(mr_v1_writer_new(path, &w));
    MR_CHECK_OK(mr_v1_add(w, MR_SV("rows"), &full, &part, t));
    if (more) {
        mr_tensor *all = mr_tensor_of(MR_INT32, 1, (const int64_t[]){3}, (const int32_t[]){7, 8, 9});
        MR_CHECK_OK(mr_v1_add(w, MR_SV("all"), &(mr_shape){.rank = 1, .dims = {3}}, &whole, all));
        mr_tensor_unref(all);
    }
    MR_CHECK_OK(mr_v1_finish(w));
    mr_v1_writer_free(w);
    mr_tensor_unref(t);
}

MR_TEST(experimental_checkpoint_of_the_first_format_is_read)
{
    TF_Status *s = TF_NewStatus();
    char *one = mr_printf("%s/old-00000-of-00002", mr_test_dir());
    char *two = mr_printf("%s/old-00001-of-00002", mr_test_dir());
    char *both = mr_printf("%s/old-*", mr_test_dir());
    int64_t dims[2];
    write_old_file(one, 0, true);
    write_old_file(two, 1, false);
    TF_CheckpointReader *r = TF_NewCheckpointReader(both, s);
    OK(s);
    MR_CHECK_INT(TF_CheckpointReaderSize(r), 2);
    MR_CHECK_STR(TF_CheckpointReaderGetVariable(r, 0), "all");
    MR_CHECK_STR(TF_CheckpointReaderGetVariable(r, 1), "rows");
    MR_CHECK(TF_CheckpointReaderHasTensor(r, "rows") && !TF_CheckpointReaderHasTensor(r, "c"));
    MR_CHECK_INT(TF_CheckpointReaderGetVariableDataType(r, "all"), TF_INT32);
    MR_CHECK_INT(TF_CheckpointReaderGetVariableNumDims(r, "rows"), 2);
    MR_CHECK_INT(TF_CheckpointReaderGetVariableNumDims(r, "c"), -1);
    TF_CheckpointReaderGetVariableShape(r, "rows", dims, 2, s);
    OK(s);
    MR_CHECK(dims[0] == 2 && dims[1] == 2);
    TF_Tensor *read = TF_CheckpointReaderGetTensor(r, "rows", s);
    OK(s);
    MR_CHECK_NEAR(((float *)TF_TensorData(read))[3], 11, 0);
    TF_DeleteTensor(read);
    MR_CHECK(!TF_CheckpointReaderGetTensor(r, "c", s));
    MR_CHECK_INT(TF_GetCode(s), TF_NOT_FOUND);
    TF_DeleteCheckpointReader(r);
    /* A part alone is known, but it is not a tensor. */
    r = TF_NewCheckpointReader(two, s);
    OK(s);
    MR_CHECK(TF_CheckpointReaderHasTensor(r, "rows") && !TF_CheckpointReaderGetTensor(r, "rows", s));
    MR_CHECK_INT(TF_GetCode(s), TF_NOT_FOUND);
    TF_DeleteCheckpointReader(r);
    mr_free(one);
    mr_free(two);
    mr_free(both);
    TF_DeleteStatus(s);
}

MR_TEST(experimental_questions_about_ops)
{
    TF_Status *s = TF_NewStatus();
    MR_CHECK_STR(TF_GetNumberAttrForOpListInput("ConcatV2", 0, s), "N");
    MR_CHECK(!TF_GetNumberAttrForOpListInput("ConcatV2", 1, s));
    OK(s);
    MR_CHECK(TF_OpIsStateful("VarHandleOp", s) && !TF_OpIsStateful("MatMul", s));
    TF_AttrBuilder *b = TF_NewAttrBuilder("MatMul");
    TF_AttrBuilderSetType(b, "T", TF_FLOAT);
    TF_AttrBuilderCheckCanRunOnDevice(b, "CPU", s);
    OK(s);
    TF_AttrBuilderSetType(b, "T", TF_STRING);
    TF_AttrBuilderCheckCanRunOnDevice(b, "CPU", s);
    MR_CHECK_INT(TF_GetCode(s), TF_INVALID_ARGUMENT);
    TF_DeleteAttrBuilder(b);
    MR_CHECK(TF_PickUnusedPortOrDie() > 0);
    TF_DeleteStatus(s);
}
