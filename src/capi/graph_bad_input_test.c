/* capi/graph_bad_input_test.c -- what a client hears when something is wrong: the code, and every word.
 *
 * Messages are TensorFlow's where TensorFlow says it well, because people search for them; else
 * they name the thing and both sides. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "base/file.h"
#include "capi/graph_fixture.h"

static const TF_Output none = {NULL, -1};

#define CHECK_EXACT(status, code, text)         \
    do {                                        \
        MR_CHECK_INT(TF_GetCode(status), code); \
        MR_CHECK_STR(TF_Message(status), text); \
    } while (0)

/* Runs one fetch and expects this error. */
static void run_fails(kit *k, TF_Output feed, TF_Tensor *value, TF_Output fetch, TF_Code code,
                      const char *text)
{
    TF_Session *s = kit_session(k);
    MR_CHECK(!kit_run(k, s, feed, value, fetch));
    CHECK_EXACT(k->s, code, text);
    TF_DeleteTensor(value);
    kit_close(k, s);
    kit_free(k);
}

/* ---- feeds and fetches ---- */

MR_TEST(bad_input_wrong_type_fed)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    run_fails(&k, x, kit_int(1), kit_unary(&k, "Neg", "y", x), TF_INVALID_ARGUMENT,
              "Expects arg[0] to be float but int32 is provided");
}

MR_TEST(bad_input_placeholder_not_fed)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    run_fails(&k, none, NULL, kit_unary(&k, "Neg", "y", x), TF_INVALID_ARGUMENT,
              "You must feed a value for placeholder tensor 'x' with dtype float\n"
              "\t [[{{node x}}]]");
}

MR_TEST(bad_input_fed_twice)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), feeds[2] = {x, x};
    TF_Output y = kit_unary(&k, "Neg", "y", x);
    TF_Session *s = kit_session(&k);
    TF_Tensor *v = kit_float(1), *values[2] = {v, v}, *out = NULL;
    TF_SessionRun(s, NULL, feeds, values, 2, &y, &out, 1, NULL, 0, NULL, k.s);
    CHECK_EXACT(k.s, TF_INVALID_ARGUMENT, "Endpoint \"x:0\" fed more than once.");
    TF_DeleteTensor(v);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(bad_input_fed_and_fetched)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    run_fails(&k, x, kit_float(1), x, TF_INVALID_ARGUMENT, "x:0 is both fed and fetched.");
}

MR_TEST(bad_input_fetch_of_no_output)
{
    kit k = kit_new();
    TF_Output x = kit_const(&k, "x", kit_float(1));
    run_fails(&k, none, NULL, (TF_Output){x.oper, 3}, TF_INVALID_ARGUMENT,
              "Fetch x:3 does not exist: the operation has 1 outputs");
}

MR_TEST(bad_input_nothing_to_run)
{
    kit k = kit_new();
    TF_Session *s = kit_session(&k);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, NULL, 0, NULL, k.s);
    CHECK_EXACT(k.s, TF_INVALID_ARGUMENT, "Must specify at least one target to fetch or execute.");
    kit_close(&k, s);
    kit_free(&k);
}

/* ---- graphs ---- */

MR_TEST(bad_input_cycle)
{
    kit k = kit_new();
    TF_Output x = kit_const(&k, "x", kit_float(1)), a = kit_unary(&k, "Neg", "a", x);
    TF_Output b = kit_unary(&k, "Neg", "b", a);
    TF_UpdateEdge(k.g, b, (TF_Input){a.oper, 0}, k.s);
    CHECK_OK(k.s);
    /* Even for what does not depend on it: the graph as a whole is handed to the session. */
    run_fails(&k, none, NULL, x, TF_INVALID_ARGUMENT,
              "Graph is invalid, contains a cycle with 2 nodes, including: a, b");
}

MR_TEST(bad_input_cycle_of_control_edges_that_is_mended)
{
    kit k = kit_new();
    TF_Operation *a = kit_finish(&k, TF_NewOperation(k.g, "NoOp", "a"));
    TF_Output x = kit_const(&k, "x", kit_float(1));
    TF_Session *s = kit_session(&k);
    TF_AddOperationControlInput(k.g, a, a);
    MR_CHECK(!kit_run(&k, s, none, NULL, x));
    CHECK_EXACT(k.s, TF_INVALID_ARGUMENT,
                "Graph is invalid, contains a cycle with 1 nodes, including: a");
    TF_RemoveAllControlInputs(k.g, a);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, none, NULL, x)), 1, 0);
    CHECK_OK(k.s);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(bad_input_unknown_op)
{
    kit k = kit_new();
    MR_CHECK(!TF_FinishOperation(TF_NewOperation(k.g, "NoSuchOp", "x"), k.s));
    CHECK_CODE(k.s, TF_NOT_FOUND, "Op type not registered 'NoSuchOp' in binary running on ");
    kit_free(&k);
}

MR_TEST(bad_input_unknown_attr)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "NoOp", "n");
    TF_SetAttrInt(d, "depth", 3);
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_EXACT(k.s, TF_INVALID_ARGUMENT,
                "NodeDef mentions attr 'depth' not in the op's definition (check whether your "
                "GraphDef-interpreting binary is up to date with your GraphDef-generating binary); "
                "NodeDef: {{node n}}; Op<name=NoOp; signature= -> >");
    kit_free(&k);
}

MR_TEST(bad_input_shapes_that_cannot_be_multiplied)
{
    kit k = kit_new();
    TF_Output a = kit_const(&k, "a", kit_floats(2, (int64_t[]){1, 2}, (float[]){1, 2}));
    TF_Output b = kit_const(&k, "b", kit_floats(2, (int64_t[]){3, 1}, (float[]){1, 2, 3}));
    TF_OperationDescription *d = TF_NewOperation(k.g, "MatMul", "m");
    TF_AddInput(d, a);
    TF_AddInput(d, b);
    MR_CHECK(!TF_FinishOperation(d, k.s));
    CHECK_EXACT(k.s, TF_INVALID_ARGUMENT,
                "Dimensions must be equal, but are 2 and 3 for '{{node m}} = MatMul[T=DT_FLOAT, "
                "transpose_a=false, transpose_b=false](a, b)' with input shapes: [1,2], [3,1].");
    kit_free(&k);
}

MR_TEST(bad_input_shapes_found_wrong_only_when_run)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT);
    TF_Output b = kit_const(&k, "b", kit_floats(1, (int64_t[]){3}, (float[]){1, 2, 3}));
    run_fails(&k, x, kit_floats(1, (int64_t[]){2}, (float[]){1, 2}),
              kit_binary(&k, "Add", "sum", x, b), TF_INVALID_ARGUMENT,
              "Incompatible shapes: [2] vs. [3]\n\t [[{{node sum}}]]");
}

/* ---- state ---- */

MR_TEST(bad_input_uninitialized_variable)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "VariableV2", "v");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", NULL, 0);
    TF_Output v = {kit_finish(&k, d), 0};
    run_fails(&k, none, NULL, kit_unary(&k, "Neg", "y", v), TF_FAILED_PRECONDITION,
              "Attempting to use uninitialized value v\n\t [[{{node y}}]]");
}

MR_TEST(bad_input_uninitialized_resource_variable)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "VarHandleOp", "h");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", NULL, 0);
    TF_SetAttrString(d, "shared_name", "weights", 7);
    TF_Output h = {kit_finish(&k, d), 0};
    d = TF_NewOperation(k.g, "ReadVariableOp", "read");
    TF_AddInput(d, h);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    run_fails(&k, none, NULL, (TF_Output){kit_finish(&k, d), 0}, TF_FAILED_PRECONDITION,
              "Could not find variable weights. This could mean that the variable has been "
              "deleted. In TF1, it can also mean the variable is uninitialized.\n"
              "\t [[{{node read}}]]");
}

/* ---- files ---- */

static TF_Output string_list(kit *k, const char *name, const char *value)
{
    TF_Tensor *t = TF_AllocateTensor(TF_STRING, (int64_t[]){1}, 1, sizeof(TF_TString));
    TF_StringCopy(TF_TensorData(t), value, strlen(value));
    return kit_const(k, name, t);
}

/* SaveV2 of one tensor "t". */
static TF_Operation *save_op(kit *k, const char *prefix)
{
    TF_Output data = kit_const(k, "data", kit_floats(1, (int64_t[]){2}, (float[]){1, 2}));
    TF_OperationDescription *d = TF_NewOperation(k->g, "SaveV2", "save");
    TF_AddInput(d, kit_const(k, "save_prefix", kit_string(prefix)));
    TF_AddInput(d, string_list(k, "save_names", "t"));
    TF_AddInput(d, string_list(k, "save_slices", ""));
    TF_AddInputList(d, &data, 1);
    return kit_finish(k, d);
}

static TF_Output restore_op(kit *k, const char *prefix)
{
    static const TF_DataType type = TF_FLOAT;
    TF_OperationDescription *d = TF_NewOperation(k->g, "RestoreV2", "restore");
    TF_AddInput(d, kit_const(k, "prefix", kit_string(prefix)));
    TF_AddInput(d, string_list(k, "names", "t"));
    TF_AddInput(d, string_list(k, "slices", ""));
    TF_SetAttrTypeList(d, "dtypes", &type, 1);
    return (TF_Output){kit_finish(k, d), 0};
}

static void run_save(kit *k, TF_Session *s, const TF_Operation *save)
{
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &save, 1, NULL, k->s);
}

/* Changes one byte of a file. */
static void damage(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    MR_CHECK(f);
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
}

MR_TEST(bad_input_corrupt_checkpoint)
{
    kit k = kit_new();
    char prefix[4096], path[4200], text[4400];
    snprintf(prefix, sizeof prefix, "%s/model", mr_test_dir());
    snprintf(path, sizeof path, "%s.data-00000-of-00001", prefix);
    TF_Session *s = kit_session(&k);
    run_save(&k, s, save_op(&k, prefix));
    CHECK_OK(k.s);
    TF_Output r = restore_op(&k, prefix);
    TF_Tensor *t = kit_run(&k, s, none, NULL, r);
    CHECK_OK(k.s);
    TF_DeleteTensor(t);
    damage(path, 3);
    MR_CHECK(!kit_run(&k, s, none, NULL, r));
    MR_CHECK_INT(TF_GetCode(k.s), TF_DATA_LOSS);
    snprintf(text, sizeof text, "%s", TF_Message(k.s));
    MR_CHECK(strstr(text, "t") && strstr(text, "[[{{node restore}}]]"));
    snprintf(path, sizeof path, "%s.index", prefix);
    damage(path, 0);
    MR_CHECK(!kit_run(&k, s, none, NULL, r));
    MR_CHECK_INT(TF_GetCode(k.s), TF_DATA_LOSS);
    MR_CHECK(strstr(TF_Message(k.s), path));
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(bad_input_checkpoint_that_is_not_there)
{
    kit k = kit_new();
    char prefix[4096];
    snprintf(prefix, sizeof prefix, "%s/none", mr_test_dir());
    TF_Session *s = kit_session(&k);
    MR_CHECK(!kit_run(&k, s, none, NULL, restore_op(&k, prefix)));
    CHECK_CODE(k.s, TF_NOT_FOUND, prefix);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(bad_input_full_disk)
{
    kit k = kit_new();
    char prefix[4096], path[4200];
    snprintf(prefix, sizeof prefix, "%s/model", mr_test_dir());
    snprintf(path, sizeof path, "%s.index", prefix);
    TF_Session *s = kit_session(&k);
    TF_Operation *save = save_op(&k, prefix);
    mr_file_fail_after(4, ENOSPC);
    run_save(&k, s, save);
    mr_file_fail_after(0, 0);
    CHECK_CODE(k.s, TF_RESOURCE_EXHAUSTED, "No space left on device");
    MR_CHECK(strstr(TF_Message(k.s), prefix));
    MR_CHECK(!mr_file_exists(path)); /* nothing half done has the name */
    run_save(&k, s, save);           /* and the next one succeeds */
    CHECK_OK(k.s);
    kit_close(&k, s);
    kit_free(&k);
}

/* ---- ends ---- */

MR_TEST(bad_input_closed_session)
{
    kit k = kit_new();
    TF_Output x = kit_const(&k, "x", kit_float(1));
    TF_Session *s = kit_session(&k);
    TF_CloseSession(s, k.s);
    CHECK_OK(k.s);
    MR_CHECK(!kit_run(&k, s, none, NULL, x));
    CHECK_EXACT(k.s, TF_CANCELLED, "Session has been closed.");
    TF_DeleteSession(s, k.s);
    kit_free(&k);
}

typedef struct waiter {
    TF_Session *s;
    TF_Output item;
    TF_Status *status;
} waiter;

static void *wait_for_item(void *arg)
{
    waiter *w = arg;
    TF_Tensor *out = NULL;
    TF_SessionRun(w->s, NULL, NULL, NULL, 0, &w->item, &out, 1, NULL, 0, NULL, w->status);
    MR_CHECK(!out);
    return NULL;
}

static TF_Output dequeue_op(kit *k)
{
    static const TF_DataType type = TF_FLOAT;
    TF_OperationDescription *d = TF_NewOperation(k->g, "FIFOQueueV2", "queue");
    TF_SetAttrTypeList(d, "component_types", &type, 1);
    TF_Output queue = {kit_finish(k, d), 0};
    d = TF_NewOperation(k->g, "QueueDequeueV2", "dequeue");
    TF_AddInput(d, queue);
    TF_SetAttrTypeList(d, "component_types", &type, 1);
    return (TF_Output){kit_finish(k, d), 0};
}

/* Whichever comes first, the wait or the end of it, the step is cancelled. */
MR_TEST(bad_input_step_cancelled_by_closing)
{
    kit k = kit_new();
    TF_Session *s = kit_session(&k);
    waiter w = {s, dequeue_op(&k), TF_NewStatus()};
    pthread_t t;
    MR_CHECK(pthread_create(&t, NULL, wait_for_item, &w) == 0);
    TF_CloseSession(s, k.s);
    CHECK_OK(k.s);
    pthread_join(t, NULL);
    MR_CHECK_INT(TF_GetCode(w.status), TF_CANCELLED);
    TF_DeleteSession(s, k.s);
    TF_DeleteStatus(w.status);
    kit_free(&k);
}

MR_TEST(bad_input_step_that_takes_too_long)
{
    kit k = kit_new();
    TF_Output item = dequeue_op(&k);
    TF_Session *s = kit_session(&k);
    TF_Buffer *options = TF_NewBufferFromString("\020\012", 2); /* timeout_in_ms: 10 */
    TF_Tensor *out = NULL;
    TF_SessionRun(s, options, NULL, NULL, 0, &item, &out, 1, NULL, 0, NULL, k.s);
    CHECK_EXACT(k.s, TF_DEADLINE_EXCEEDED, "Timed out waiting for notification");
    TF_DeleteBuffer(options);
    kit_close(&k, s);
    kit_free(&k);
}
