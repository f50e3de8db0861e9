/* capi/exporter_test.c -- a trained model is exported, loaded by TF_LoadSessionFromSavedModel, and asked. */
#include "base/file.h"
#include "capi/internal.h"
#include "millrace/saved_model.h"
#include "tests/harness/test.h"

#define OK(status) MR_CHECK_OK(mr_capi_status_copy(status))

typedef struct trained {
    TF_Status *s;
    TF_Graph *g;
    mr_model *m;
    TF_Output x, y;
    mr_saver *saver;
    TF_Session *session;
} trained;

static TF_Session *session_of(TF_Graph *g, TF_Status *s)
{
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_Session *out = TF_NewSession(g, o, s);
    TF_DeleteSessionOptions(o);
    OK(s);
    return out;
}

static trained train(void)
{
    trained t = {.s = TF_NewStatus(), .g = TF_NewGraph()};
    t.m = mr_model_new(t.g);
    t.x = mr_input(t.m, "x", TF_FLOAT, 2, (const int64_t[]){-1, 3});
    t.y = mr_dense(t.m, "fc", t.x, 2, MR_RELU);
    TF_Operation *init = mr_initializer(t.m);
    t.saver = mr_saver_new(t.m, 0);
    mr_model_status(t.m, t.s);
    OK(t.s);
    t.session = session_of(t.g, t.s);
    TF_SessionRun(t.session, NULL, NULL, NULL, 0, NULL, NULL, 0, (const TF_Operation *const *)&init, 1, NULL, t.s);
    OK(t.s);
    return t;
}

static void drop(trained *t)
{
    TF_DeleteSession(t->session, t->s);
    mr_saver_free(t->saver);
    mr_model_free(t->m);
    TF_DeleteGraph(t->g);
    TF_DeleteStatus(t->s);
}

static TF_Tensor *run(TF_Session *session, TF_Output x, TF_Output y, TF_Status *s)
{
    mr_tensor *in = mr_tensor_of(MR_FLOAT, 2, (const int64_t[]){1, 3}, (const float[]){1, -2, 3});
    TF_Tensor *fed = mr_capi_tensor_new(in), *out = NULL;
    TF_SessionRun(session, NULL, &x, &fed, 1, &y, &out, 1, NULL, 0, NULL, s);
    OK(s);
    TF_DeleteTensor(fed);
    return out;
}

MR_TEST(exporter_model_comes_back_with_its_variables)
{
    trained t = train();
    char *dir = mr_printf("%s/model", mr_test_dir());
    mr_signature_arg x = {"images", t.x}, y = {"scores", t.y};
    mr_signature serve = {MR_DEFAULT_SIGNATURE, NULL, &x, 1, &y, 1};
    mr_saved_model_options o = {.size = sizeof o, .signatures = &serve, .num_signatures = 1};
    mr_saved_model_save(t.g, t.saver, t.session, dir, &o, t.s);
    OK(t.s);
    TF_Graph *g = TF_NewGraph();
    TF_Buffer *meta = TF_NewBuffer();
    TF_SessionOptions *so = TF_NewSessionOptions();
    const char *tags[] = {"serve"};
    TF_Session *loaded = TF_LoadSessionFromSavedModel(so, NULL, dir, tags, 1, g, meta, t.s);
    OK(t.s);
    TF_Output in = mr_signature_tensor(g, meta, MR_DEFAULT_SIGNATURE, "images", 1, t.s);
    OK(t.s);
    TF_Output out = mr_signature_tensor(g, meta, MR_DEFAULT_SIGNATURE, "scores", 0, t.s);
    OK(t.s);
    TF_Tensor *a = run(t.session, t.x, t.y, t.s), *b = run(loaded, in, out, t.s);
    MR_CHECK(mr_tensor_equal(a->t, b->t));
    mr_signature_tensor(g, meta, MR_DEFAULT_SIGNATURE, "scores", 1, t.s);
    MR_CHECK_ERR(mr_capi_status_copy(t.s), MR_NOT_FOUND, "has no tensor 'scores'");
    TF_DeleteTensor(a);
    TF_DeleteTensor(b);
    TF_DeleteSession(loaded, t.s);
    TF_DeleteGraph(g);
    TF_DeleteBuffer(meta);
    TF_DeleteSessionOptions(so);
    mr_saved_model_save(t.g, t.saver, t.session, dir, &o, t.s);
    MR_CHECK_ERR(mr_capi_status_copy(t.s), MR_ALREADY_EXISTS, "has a SavedModel already");
    mr_free(dir);
    drop(&t);
}

MR_TEST(exporter_says_what_is_wrong)
{
    trained t = train();
    mr_signature_arg bad = {"x", {NULL, 0}};
    mr_signature serve = {MR_DEFAULT_SIGNATURE, NULL, &bad, 1, NULL, 0};
    mr_saved_model_options o = {.size = sizeof o, .signatures = &serve, .num_signatures = 1};
    mr_saved_model_save(t.g, t.saver, t.session, mr_test_dir(), &o, t.s);
    MR_CHECK_INT(TF_GetCode(t.s), TF_INVALID_ARGUMENT);
    serve.key = NULL;
    mr_saved_model_save(t.g, t.saver, t.session, mr_test_dir(), &o, t.s);
    MR_CHECK_ERR(mr_capi_status_copy(t.s), MR_INVALID_ARGUMENT, "has no key");
    mr_saved_model_save(t.g, t.saver, NULL, mr_test_dir(), NULL, t.s);
    MR_CHECK_INT(TF_GetCode(t.s), TF_INVALID_ARGUMENT);
    MR_CHECK(!mr_file_exists("saved_model.pb"));
    drop(&t);
}
