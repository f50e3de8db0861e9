/* capi/trace_test.c -- traces for people, through the C API. */
#include "millrace/trace.h"

#include "base/file.h"
#include "base/memory.h"
#include "capi/graph_fixture.h"
#include "tests/harness/test.h"

/* The metadata of a run of -x. */
static TF_Buffer *traced(kit *k)
{
    TF_Output x = kit_const(k, "x", kit_float(1));
    TF_OperationDescription *d = TF_NewOperation(k->g, "Neg", "minus");
    TF_AddInput(d, x);
    TF_Output y = {TF_FinishOperation(d, k->s), 0};
    TF_Session *s = kit_session(k);
    TF_Tensor *out = NULL;
    TF_Buffer *options = TF_NewBufferFromString("\010\003", 2), *meta = TF_NewBuffer();
    TF_SessionRun(s, options, NULL, NULL, 0, &y, &out, 1, NULL, 0, meta, k->s);
    MR_CHECK_INT(TF_GetCode(k->s), TF_OK);
    TF_DeleteTensor(out);
    TF_DeleteBuffer(options);
    kit_close(k, s);
    return meta;
}

static bool holds(const TF_Buffer *b, const char *text)
{
    return memmem(b->data, b->length, text, strlen(text)) != NULL;
}

MR_TEST(capi_trace_of_a_run_is_a_chrome_trace_and_a_text)
{
    kit k = kit_new();
    const TF_Buffer *meta = traced(&k);
    mr_str json = {0};
    char *path = mr_printf("%s/trace.json", mr_test_dir());
    mr_trace_to_chrome(&meta, 1, path, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_OK);
    MR_CHECK_OK(mr_file_read_all(path, &json));
    MR_CHECK(strstr(mr_str_z(&json), "\"localhost\"") && strstr(mr_str_z(&json), "\"traceEvents\""));
    const TF_Buffer *both[] = {meta, meta};
    TF_Buffer *blame = mr_trace_blame(both, 2, k.s), *text = mr_trace_text(&meta, 1, 60, k.s);
    MR_CHECK(holds(blame, "step 1: ") && holds(blame, "2 steps, on average "));
    MR_CHECK(holds(text, "localhost  CPU:0"));
    TF_DeleteBuffer(blame);
    TF_DeleteBuffer(text);
    TF_DeleteBuffer((TF_Buffer *)(uintptr_t)meta);
    mr_str_deinit(&json);
    mr_free(path);
    kit_free(&k);
}

MR_TEST(capi_trace_refuses_what_is_no_metadata)
{
    kit k = kit_new();
    const TF_Buffer *bad = TF_NewBufferFromString("\377", 1), *none = NULL;
    MR_CHECK(!mr_trace_blame(&bad, 1, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "malformed");
    MR_CHECK(!mr_trace_text(&none, 1, 0, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Metadata 0 is NULL");
    MR_CHECK(!mr_trace_text(NULL, -1, 0, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "metadata is NULL");
    mr_trace_to_chrome(NULL, 0, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "path is NULL");
    mr_trace_to_chrome(NULL, 0, "/nowhere/at/all", k.s);
    CHECK_CODE(k.s, TF_NOT_FOUND, "/nowhere/at/all");
    TF_DeleteBuffer((TF_Buffer *)(uintptr_t)bad);
    kit_free(&k);
}
