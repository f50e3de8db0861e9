/* capi/train_test.c -- millrace/train.h as a C program sees it. */
#include "millrace/train.h"

#include <stdio.h>

#include "capi/graph_fixture.h"
#include "millrace/data.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

static const TF_Output none = {NULL, -1};

/* y = 2x - 1 learnt from four points; returns the loss after 300 steps. */
static float train(kit *k, mr_model *m, mr_optimizer o)
{
    TF_Output x = mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, 1});
    TF_Output y = mr_input(m, "y", TF_FLOAT, 2, (int64_t[]){-1, 1});
    TF_Output loss = mr_squared_loss(m, mr_dense(m, "fc", x, 1, MR_LINEAR), y);
    const TF_Operation *step = mr_minimize(m, loss, o), *init = mr_initializer(m);
    mr_model_status(m, k->s);
    CHECK_OK(k->s);
    TF_Session *s = kit_session(k);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, k->s);
    CHECK_OK(k->s);
    TF_Output feeds[2] = {x, y};
    TF_Tensor *values[2] = {kit_floats(2, (int64_t[]){4, 1}, (float[]){0, 1, 2, 3}),
                            kit_floats(2, (int64_t[]){4, 1}, (float[]){-1, 1, 3, 5})};
    TF_Tensor *out = NULL;
    float last = 0;
    for (int i = 0; i < 300; i++) {
        TF_SessionRun(s, NULL, feeds, values, 2, &loss, &out, 1, &step, 1, NULL, k->s);
        CHECK_OK(k->s);
        last = kit_take_float(out);
    }
    TF_DeleteTensor(values[0]);
    TF_DeleteTensor(values[1]);
    kit_close(k, s);
    return last;
}

MR_TEST(capi_train_every_optimizer_learns_a_line)
{
    const mr_optimizer all[] = {
        mr_sgd(0.05f),    mr_momentum(0.02f, 0.9f), mr_nesterov(0.02f, 0.9f),
        mr_adagrad(0.8f), mr_rmsprop(0.02f),        mr_adam(0.05f)};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        kit k = kit_new();
        mr_model *m = mr_model_new(k.g);
        mr_model_seed(m, 3);
        float loss = train(&k, m, all[i]);
        if (!(loss < 0.02f))
            mr_test_fail(__FILE__, __LINE__, "optimizer %zu: loss %g", i, (double)loss);
        MR_CHECK_INT(mr_parameter_count(m), 2);
        mr_model_free(m);
        kit_free(&k);
    }
}

/* Whether the first number of a sequence was positive, asked at its end: what only a memory knows. */
MR_TEST(capi_train_lstm_remembers)
{
    enum { TIME = 6, BATCH = 8, STEPS = 150 };
    kit k = kit_new();
    mr_model *m = mr_model_new(k.g);
    TF_Output x = mr_input(m, "x", TF_FLOAT, 3, (int64_t[]){-1, -1, 1});
    TF_Output y = mr_input(m, "y", TF_INT32, 1, (int64_t[]){-1});
    TF_Output h = mr_lstm(m, "lstm", x, 8, 0), all = mr_lstm(m, "every", x, 3, 1);
    TF_Output loss = mr_softmax_loss(m, mr_dense(m, "out", h, 2, MR_LINEAR), y);
    const TF_Operation *step = mr_minimize(m, loss, mr_adam(0.05f)), *init = mr_initializer(m);
    mr_model_status(m, k.s);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&k);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, k.s);
    CHECK_OK(k.s);
    float v[TIME * BATCH];
    int32_t c[BATCH];
    for (int t = 0; t < TIME; t++)
        for (int b = 0; b < BATCH; b++)
            v[t * BATCH + b] = (float)((b * 5 + t * 3) % BATCH) - 3.5f;
    for (int b = 0; b < BATCH; b++)
        c[b] = v[b] > 0;
    TF_Output feeds[2] = {x, y};
    TF_Tensor *values[2] = {kit_floats(3, (int64_t[]){TIME, BATCH, 1}, v),
                            kit_ints(1, (int64_t[]){BATCH}, c)};
    TF_Tensor *out = NULL;
    float last = 1;
    for (int i = 0; i < STEPS; i++) {
        TF_SessionRun(s, NULL, feeds, values, 2, &loss, &out, 1, &step, 1, NULL, k.s);
        CHECK_OK(k.s);
        last = kit_take_float(out);
    }
    MR_CHECK(last < 0.05f);
    TF_SessionRun(s, NULL, feeds, values, 2, &all, &out, 1, NULL, 0, NULL, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_Dim(out, 0), TIME);
    MR_CHECK_INT(TF_Dim(out, 2), 3);
    TF_DeleteTensor(out);
    TF_DeleteTensor(values[0]);
    TF_DeleteTensor(values[1]);
    kit_close(&k, s);
    mr_model_free(m);
    kit_free(&k);
}

MR_TEST(capi_train_error_stays_and_nothing_more_is_built)
{
    kit k = kit_new(), other = kit_new();
    mr_model *m = mr_model_new(k.g);
    TF_Output far = kit_placeholder(&other, "far", TF_FLOAT);
    MR_CHECK(!mr_dense(m, "fc", far, 3, MR_RELU).oper);
    MR_CHECK(!mr_input(m, "x", TF_FLOAT, 0, NULL).oper);
    MR_CHECK(!mr_minimize(m, far, mr_sgd(1)));
    mr_model_status(m, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Node far was not found in the graph");
    size_t pos = 0;
    MR_CHECK(!TF_GraphNextOperation(k.g, &pos));
    mr_model_free(m);
    kit_free(&k);
    kit_free(&other);
}

MR_TEST(capi_train_survives_what_cannot_be)
{
    kit k = kit_new();
    MR_CHECK(!mr_model_new(NULL));
    mr_model_status(NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    MR_CHECK(!mr_input(NULL, "x", TF_FLOAT, 0, NULL).oper);
    MR_CHECK(!mr_initializer(NULL));
    MR_CHECK_INT(mr_parameter_count(NULL), 0);
    MR_CHECK(!mr_saver_new(NULL, 1));
    mr_saver_free(NULL);
    mr_model_free(NULL);
    mr_saver_save(NULL, NULL, NULL, 0, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    for (int i = 0; i < 5; i++) {
        kit g = kit_new();
        mr_model *m = mr_model_new(g.g);
        TF_Output x = mr_input(m, "x", TF_FLOAT, 2, (int64_t[]){-1, 4});
        TF_Output bad = i == 0   ? mr_input(m, NULL, TF_FLOAT, 0, NULL)
                        : i == 1 ? mr_input(m, "y", TF_FLOAT, 3, NULL)
                        : i == 2 ? mr_dense(m, "d", none, 3, MR_RELU)
                        : i == 3 ? mr_dense(m, "d", x, 3, (mr_activation)77)
                                 : mr_piecewise_rate(m, 2, NULL, NULL);
        MR_CHECK(!bad.oper);
        mr_model_status(m, k.s);
        MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
        mr_model_free(m);
        kit_free(&g);
    }
    kit_free(&k);
}

MR_TEST(capi_train_saves_and_restores)
{
    kit k = kit_new();
    char prefix[4096];
    snprintf(prefix, sizeof prefix, "%s/model", mr_test_dir());
    mr_model *m = mr_model_new(k.g);
    TF_Output v = mr_parameter(m, "v", TF_FLOAT, 0, NULL, (mr_init){MR_INIT_CONSTANT, 4, 0});
    mr_saver *saver = mr_saver_new(m, 2);
    const TF_Operation *init = mr_initializer(m);
    TF_Session *a = kit_session(&k), *b = kit_session(&k);
    TF_SessionRun(a, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(mr_saver_restore_latest(saver, b, mr_test_dir(), k.s), 0);
    CHECK_OK(k.s);
    mr_saver_save(saver, a, prefix, 7, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(mr_saver_restore_latest(saver, b, mr_test_dir(), k.s), 1);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, b, none, NULL, v)), 4, 0);
    mr_saver_restore(saver, b, "/nowhere/none", k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_NOT_FOUND);
    mr_saver_free(saver);
    mr_model_free(m);
    kit_close(&k, a);
    kit_close(&k, b);
    kit_free(&k);
}

MR_TEST(capi_train_digits_come_in_batches)
{
    mr_test_deadline(60); /* 24,000 digits are drawn */
    kit k = kit_new();
    mr_digits *d = mr_digits_open(NULL, k.s);
    CHECK_OK(k.s);
    TF_Tensor *images = NULL, *labels = NULL;
    mr_digits_batch(d, MR_SPLIT_TEST, 1, mr_digits_count(d, MR_SPLIT_TEST) - 1, 3, &images, &labels,
                    k.s);
    CHECK_OK(k.s);
    MR_CHECK(TF_NumDims(images) == 4 && TF_Dim(images, 0) == 3 && TF_Dim(images, 1) == 28);
    MR_CHECK(TF_TensorType(labels) == TF_INT32 && TF_TensorElementCount(labels) == 3);
    TF_DeleteTensor(images);
    TF_DeleteTensor(labels);
    mr_digits_batch(d, MR_SPLIT_TEST, 1, -1, 3, &images, &labels, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    MR_CHECK(!images && !labels);
    mr_digits_batch(NULL, MR_SPLIT_TRAIN, 1, 0, 3, &images, &labels, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    mr_digits_free(d);
    mr_digits_free(NULL);
    kit_free(&k);
}

/* ---- gradients ---- */

static int pass_triple(void *arg, TF_Graph *g, TF_Operation *op, const TF_Output *dy, TF_Output *dx)
{
    kit *k = arg;
    if (strcmp(TF_OperationName(op), "square") != 0)
        return 0;
    kit own = {g, k->s};
    dx[0] = kit_binary(&own, "Mul", "tripled", dy[0], kit_const(&own, "three", kit_float(3)));
    return 1;
}

MR_TEST(capi_train_gradients_by_a_callback)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_unary(&k, "Square", "square", x), dx;
    mr_gradients_options o = {.struct_size = sizeof o, .override = pass_triple, .override_arg = &k};
    mr_gradients(k.g, &y, 1, &x, 1, &o, &dx, NULL, k.s);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&k);
    TF_Tensor *v = kit_float(10);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, x, v, dx)), 3, 0);
    TF_DeleteTensor(v);
    kit_close(&k, s);
    kit_free(&k);
}

/* The gradient of Square as rows; their shape is of the wrong type once there is such a node. */
static int one_row(void *arg, TF_Graph *g, TF_Operation *op, const mr_gradient_value *dy, mr_gradient_value *dx)
{
    (void)arg;
    if (strcmp(TF_OperationName(op), "square") != 0)
        return 0;
    MR_CHECK(dy[0].dense.oper && !dy[0].sparse.values.oper && !dx[0].dense.oper && !dx[0].sparse.values.oper);
    TF_Output shape = TF_GraphOperationByName(g, "float_shape")
                          ? (TF_Output){TF_GraphOperationByName(g, "float_shape"), 0}
                          : (TF_Output){TF_GraphOperationByName(g, "shape"), 0};
    dx[0].sparse = (mr_sparse_output){dy[0].dense, {TF_GraphOperationByName(g, "index"), 0}, shape};
    return 1;
}

MR_TEST(capi_train_gradients_by_a_callback_may_be_rows)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_unary(&k, "Square", "square", x), dx;
    TF_Output index = kit_placeholder(&k, "index", TF_INT32), shape = kit_placeholder(&k, "shape", TF_INT32);
    mr_sparse_output rows;
    mr_gradients_options o = {.struct_size = sizeof o, .override_any = one_row, .override_arg = &k};
    mr_gradients(k.g, &y, 1, &x, 1, &o, &dx, &rows, k.s);
    CHECK_OK(k.s);
    MR_CHECK(!dx.oper && rows.values.oper);
    MR_CHECK(rows.indices.oper == index.oper && rows.dense_shape.oper == shape.oper);
    kit_placeholder(&k, "float_shape", TF_FLOAT);
    mr_gradients(k.g, &y, 1, &x, 1, &o, &dx, &rows, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    kit_free(&k);
}

MR_TEST(capi_train_gradients_stop_and_may_be_sparse)
{
    kit k = kit_new();
    mr_model *m = mr_model_new(k.g);
    TF_Output ids = mr_input(m, "ids", TF_INT32, 1, (int64_t[]){-1});
    TF_Output rows = mr_embedding(m, "emb", ids, 10, 3);
    mr_model_status(m, k.s);
    CHECK_OK(k.s);
    TF_Output table = TF_OperationInput((TF_Input){rows.oper, 0}), dense;
    mr_sparse_output sparse;
    mr_gradients(k.g, &rows, 1, &table, 1, NULL, &dense, &sparse, k.s);
    CHECK_OK(k.s);
    MR_CHECK(!dense.oper && sparse.values.oper && sparse.indices.oper);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_unary(&k, "Square", "sq", x);
    TF_Output z = kit_unary(&k, "Neg", "z", y), dx;
    mr_gradients_options o = {.struct_size = sizeof o, .stop = &y, .num_stop = 1};
    mr_gradients(k.g, &z, 1, &x, 1, &o, &dx, NULL, k.s);
    CHECK_OK(k.s);
    MR_CHECK(!dx.oper);
    o.stop = &none;
    mr_gradients(k.g, &z, 1, &x, 1, &o, &dx, NULL, k.s);
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    mr_model_free(m);
    kit_free(&k);
}

/* ---- variables that were there before the model ---- */

static TF_Operation *op(kit *k, const char *type, const char *name, const TF_Output *in, int n)
{
    TF_OperationDescription *d = TF_NewOperation(k->g, type, name);
    for (int i = 0; i < n; i++)
        TF_AddInput(d, in[i]);
    if (strcmp(type, "VarHandleOp") == 0 || strcmp(type, "VariableV2") == 0) {
        TF_SetAttrType(d, "dtype", TF_FLOAT);
        TF_SetAttrShape(d, "shape", (int64_t[]){2}, 1);
    }
    if (strcmp(type, "ReadVariableOp") == 0)
        TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_Operation *o = TF_FinishOperation(d, k->s);
    CHECK_OK(k->s);
    return o;
}

/* A variable of either kind, what sets it to {3, -5}, and the sum of its squares. */
static TF_Output make_variable(kit *k, bool ref, TF_Operation **init, TF_Output *loss)
{
    TF_Output v = {op(k, ref ? "VariableV2" : "VarHandleOp", "mine", NULL, 0), 0};
    TF_Output start = kit_const(k, "start", kit_floats(1, (int64_t[]){2}, (float[]){3, -5}));
    *init = op(k, ref ? "Assign" : "AssignVariableOp", "set", (TF_Output[]){v, start}, 2);
    TF_Output read = {op(k, ref ? "Identity" : "ReadVariableOp", "see", &v, 1), 0};
    *loss = (TF_Output){op(k, "L2Loss", "loss", &read, 1), 0};
    return v;
}

MR_TEST(capi_train_adopts_variables_of_both_kinds)
{
    for (int ref = 0; ref < 2; ref++) {
        kit k = kit_new();
        mr_model *m = mr_model_new(k.g);
        TF_Operation *set;
        TF_Output loss, v = make_variable(&k, ref, &set, &loss);
        TF_Output value =
            mr_model_adopt(m, v, &(mr_adopt_options){.struct_size = sizeof(mr_adopt_options), .initializer = set});
        MR_CHECK_INT(mr_parameter_count(m), 2);
        MR_CHECK(mr_parameter_handle(m, value).oper == v.oper);
        MR_CHECK(mr_model_adopt(m, v, NULL).oper == value.oper); /* once is enough */
        const TF_Operation *step = mr_minimize(m, loss, mr_sgd(0.5f)), *init = mr_initializer(m);
        mr_model_status(m, k.s);
        CHECK_OK(k.s);
        TF_Session *s = kit_session(&k);
        TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, k.s);
        CHECK_OK(k.s);
        TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &step, 1, NULL, k.s);
        CHECK_OK(k.s);
        TF_Tensor *out = NULL;
        TF_SessionRun(s, NULL, NULL, NULL, 0, &loss, &out, 1, NULL, 0, NULL, k.s);
        CHECK_OK(k.s);
        MR_CHECK_NEAR(kit_take_float(out), (1.5 * 1.5 + 2.5 * 2.5) / 2, 1e-5);
        kit_close(&k, s);
        mr_model_free(m);
        kit_free(&k);
    }
}

MR_TEST(capi_train_adopts_gradients_of_the_client)
{
    kit k = kit_new();
    mr_model *m = mr_model_new(k.g);
    TF_Operation *set;
    TF_Output loss, v = make_variable(&k, false, &set, &loss);
    TF_Output g = kit_const(&k, "g", kit_floats(1, (int64_t[]){2}, (float[]){2, 4}));
    TF_Output value = mr_model_adopt(
        m, v,
        &(mr_adopt_options){
            .struct_size = sizeof(mr_adopt_options), .initializer = set, .differentiated = 1, .gradient = g});
    const TF_Operation *step = mr_minimize(m, loss, mr_sgd(1)), *init = mr_initializer(m);
    mr_model_status(m, k.s);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&k);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, k.s);
    CHECK_OK(k.s);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &step, 1, NULL, k.s);
    CHECK_OK(k.s);
    TF_Tensor *out = NULL;
    TF_SessionRun(s, NULL, NULL, NULL, 0, &value, &out, 1, NULL, 0, NULL, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(((float *)TF_TensorData(out))[0], 1, 1e-6);
    MR_CHECK_NEAR(((float *)TF_TensorData(out))[1], -9, 1e-6);
    TF_DeleteTensor(out);
    kit_close(&k, s);
    mr_model_free(m);
    kit_free(&k);
}

static void adoption_fails(bool ref, const char *which, const mr_adopt_options *o, mr_optimizer with, const char *text)
{
    kit k = kit_new();
    mr_model *m = mr_model_new(k.g);
    TF_Operation *set;
    TF_Output loss, v = make_variable(&k, ref, &set, &loss);
    mr_model_adopt(m, which ? (TF_Output){TF_GraphOperationByName(k.g, which), 0} : v, o);
    mr_minimize(m, loss, with);
    mr_model_status(m, k.s);
    MR_CHECK(TF_GetCode(k.s) != TF_OK && strstr(TF_Message(k.s), text));
    mr_model_free(m);
    kit_free(&k);
}

MR_TEST(capi_train_refuses_what_is_no_variable)
{
    mr_adopt_options half = {.struct_size = sizeof half, .differentiated = 1};
    adoption_fails(false, "start", NULL, mr_sgd(1), "'start' is a node of Const");
    adoption_fails(false, "nobody", NULL, mr_sgd(1), "");
    adoption_fails(true, NULL, NULL, mr_adam(1), "only mr_sgd");
    half.struct_size = 3;
    adoption_fails(false, NULL, &half, mr_sgd(1), "");
}

static void want_error(mr_model *m, kit *k, const char *text)
{
    mr_model_status(m, k->s);
    CHECK_CODE(k->s, TF_INVALID_ARGUMENT, text);
    mr_model_free(m);
    kit_free(k);
}

/* [n, 1] against [n] would be n * n pairs. */
MR_TEST(capi_train_losses_refuse_shapes_that_would_be_broadcast)
{
    for (int i = 0; i < 3; i++) {
        kit k = kit_new();
        mr_model *m = mr_model_new(k.g);
        TF_Output p = mr_input(m, "p", TF_FLOAT, 2, (int64_t[]){-1, 1});
        TF_Output y = mr_input(m, "y", i == 2 ? TF_INT32 : TF_FLOAT, i == 2 ? 2 : 1, (int64_t[]){-1, 1});
        TF_Output loss = i == 0 ? mr_squared_loss(m, p, y) : i == 1 ? mr_sigmoid_loss(m, p, y) : mr_accuracy(m, p, y);
        MR_CHECK(!loss.oper);
        want_error(m, &k, i == 0   ? "mr_squared_loss: values [?,1] and targets [?] must have the same shape"
                          : i == 1 ? "mr_sigmoid_loss: logits [?,1] and targets [?] must have the same shape"
                                   : "mr_accuracy: classes [?] and labels [?,1] must have the same shape");
    }
}

/* A rank that is not known when the loss is made is checked by the step; a scalar stands for all elements. */
MR_TEST(capi_train_losses_check_an_unknown_rank_when_they_run)
{
    kit k = kit_new();
    mr_model *m = mr_model_new(k.g);
    TF_Output p = mr_input(m, "p", TF_FLOAT, 2, (int64_t[]){-1, 1}), y = kit_placeholder(&k, "y", TF_FLOAT);
    TF_Output loss = mr_squared_loss(m, p, y);
    TF_Output scalar = mr_squared_loss(m, p, kit_const(&k, "half", kit_float(0.5f)));
    mr_model_status(m, k.s);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&k);
    TF_Output feeds[2] = {p, y};
    TF_Tensor *values[2] = {kit_floats(2, (int64_t[]){2, 1}, (float[]){1, 2}),
                            kit_floats(1, (int64_t[]){2}, (float[]){1, 4})};
    TF_Tensor *out = NULL;
    TF_SessionRun(s, NULL, feeds, values, 2, &loss, &out, 1, NULL, 0, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    TF_SetShape(values[1], (int64_t[]){2, 1}, 2);
    TF_SessionRun(s, NULL, feeds, values, 2, &loss, &out, 1, NULL, 0, NULL, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(out), 2, 1e-6);
    TF_SessionRun(s, NULL, feeds, values, 2, &scalar, &out, 1, NULL, 0, NULL, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(out), 1.25, 1e-6);
    TF_DeleteTensor(values[0]);
    TF_DeleteTensor(values[1]);
    kit_close(&k, s);
    mr_model_free(m);
    kit_free(&k);
}

MR_TEST(capi_train_minimize_needs_variables_that_the_loss_depends_on)
{
    for (int i = 0; i < 2; i++) {
        kit k = kit_new();
        mr_model *m = mr_model_new(k.g);
        TF_Output x = mr_input(m, "x", TF_FLOAT, 1, (int64_t[]){-1});
        if (i == 1)
            mr_parameter(m, "w", TF_FLOAT, 0, NULL, (mr_init){MR_INIT_CONSTANT, 0, 0});
        MR_CHECK(!mr_minimize(m, mr_squared_loss(m, x, x), mr_sgd(0.1f)));
        want_error(m, &k, i == 0 ? "No variables to optimize." : "No gradients provided for any variable");
    }
}

/* The gradient is doubled by the caller; a variable without one stays. */
MR_TEST(capi_train_applies_gradients_of_the_caller)
{
    kit k = kit_new();
    mr_model *m = mr_model_new(k.g);
    const mr_init three = {MR_INIT_CONSTANT, 3, 0};
    TF_Output w[2] = {mr_parameter(m, "w", TF_FLOAT, 0, NULL, three), mr_parameter(m, "v", TF_FLOAT, 0, NULL, three)};
    TF_Output loss = kit_unary(&k, "Square", "loss", w[0]), dw, handle = mr_parameter_handle(m, w[0]);
    mr_gradients(k.g, &loss, 1, &handle, 1, NULL, &dw, NULL, k.s);
    CHECK_OK(k.s);
    mr_gradient_value g[2] = {{.dense = kit_binary(&k, "AddV2", "twice", dw, dw)}, {.dense = none}};
    const TF_Operation *step = mr_apply_gradients(m, 2, w, g, mr_sgd(0.1f)), *init = mr_initializer(m);
    mr_model_status(m, k.s);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&k);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, k.s);
    TF_SessionRun(s, NULL, NULL, NULL, 0, NULL, NULL, 0, &step, 1, NULL, k.s);
    CHECK_OK(k.s);
    TF_Tensor *out[2];
    TF_SessionRun(s, NULL, NULL, NULL, 0, w, out, 2, NULL, 0, NULL, k.s);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(out[0]), 3 - 0.1 * 12, 1e-5);
    MR_CHECK_NEAR(kit_take_float(out[1]), 3, 0);
    kit_close(&k, s);
    TF_Output same[2] = {w[0], w[0]};
    mr_gradient_value twice[2] = {g[0], g[0]};
    MR_CHECK(!mr_apply_gradients(m, 2, same, twice, mr_sgd(0.1f)));
    want_error(m, &k, "variable 'w' is given twice");
}

/* ---- an op of one's own ---- */

static void scalar_shape(TF_ShapeInferenceContext *ctx, TF_Status *s)
{
    TF_ShapeHandle *h = TF_NewShapeHandle();
    TF_ShapeInferenceContextGetInput(ctx, 0, h, s);
    TF_ShapeInferenceContextSetOutput(ctx, 0, h, s);
    TF_DeleteShapeHandle(h);
}

/* d(x * x * x)/dx = 3 * x * x, as three additions of the product. */
static void cube_gradient(void *arg, const mr_gradient_call *c, TF_Status *s)
{
    (*(int *)arg)++;
    char name[200];
    TF_Output x = TF_OperationInput((TF_Input){c->op, 0}), at = c->grad_outputs[0];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/mul_%d", c->prefix, i);
        TF_OperationDescription *d = TF_NewOperation(c->graph, "Mul", name);
        TF_AddInput(d, at);
        TF_AddInput(d, x);
        at = (TF_Output){TF_FinishOperation(d, s), 0};
    }
    snprintf(name, sizeof name, "%s/sum", c->prefix);
    TF_OperationDescription *d = TF_NewOperation(c->graph, "AddN", name);
    TF_AddInputList(d, (TF_Output[]){at, at, at}, 3);
    c->grad_inputs[0] = (TF_Output){TF_FinishOperation(d, s), 0};
}

static void cube(void *state, TF_OpKernelContext *ctx)
{
    (void)state;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *x = NULL, *y = TF_AllocateOutput(ctx, 0, TF_FLOAT, NULL, 0, 4, s);
    TF_GetInput(ctx, 0, &x, s);
    float v = *(float *)TF_TensorData(x);
    *(float *)TF_TensorData(y) = v * v * v;
    TF_DeleteTensor(x);
    TF_DeleteTensor(y);
    TF_DeleteStatus(s);
}

MR_TEST(capi_train_takes_gradients_of_a_clients_own_op)
{
    kit k = kit_new();
    int calls = 0;
    TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder("TrainTestCube");
    TF_OpDefinitionBuilderAddInput(b, "x: float");
    TF_OpDefinitionBuilderAddOutput(b, "y: float");
    TF_OpDefinitionBuilderSetShapeInferenceFunction(b, scalar_shape);
    TF_RegisterOpDefinition(b, k.s);
    CHECK_OK(k.s);
    TF_RegisterKernelBuilder("cube", TF_NewKernelBuilder("TrainTestCube", "CPU", NULL, cube, NULL), k.s);
    CHECK_OK(k.s);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_unary(&k, "TrainTestCube", "y", x), dx;
    TF_AddGradients(k.g, &y, 1, &x, 1, NULL, k.s, &dx);
    CHECK_CODE(k.s, TF_NOT_FOUND, "No gradient defined for op: TrainTestCube");
    mr_register_gradient("TrainTestCube", cube_gradient, &calls, k.s);
    CHECK_OK(k.s);
    mr_register_gradient("TrainTestCube", cube_gradient, &calls, k.s);
    CHECK_CODE(k.s, TF_ALREADY_EXISTS, "TrainTestCube");
    mr_register_gradient("MatMul", cube_gradient, &calls, k.s);
    CHECK_CODE(k.s, TF_ALREADY_EXISTS, "MatMul");
    TF_Session *s = kit_session(&k);
    for (int i = 0; i < 2; i++) { /* names of the second time do not meet those of the first */
        if (i == 0)
            TF_AddGradients(k.g, &y, 1, &x, 1, NULL, k.s, &dx);
        else
            mr_gradients(k.g, &y, 1, &x, 1, NULL, &dx, NULL, k.s);
        CHECK_OK(k.s);
        MR_CHECK_INT(calls, i + 1);
        TF_Tensor *two = kit_float(2), *out = kit_run(&k, s, x, two, dx);
        CHECK_OK(k.s);
        MR_CHECK_NEAR(kit_take_float(out), 12, 1e-5);
        TF_DeleteTensor(two);
    }
    kit_close(&k, s);
    kit_free(&k);
}

/* Claims an output that no operation has. */
static void wrong_gradient(void *arg, const mr_gradient_call *c, TF_Status *s)
{
    (void)arg, (void)s;
    c->grad_inputs[0] = (TF_Output){c->grad_outputs[0].oper, 5};
}

/* In a client's graph, and in the body of a function, which is no client's. */
MR_TEST(capi_train_refuses_gradients_that_a_client_made_up)
{
    kit k = kit_new(), body = kit_new();
    TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder("TrainTestWrong");
    TF_OpDefinitionBuilderAddInput(b, "x: float");
    TF_OpDefinitionBuilderAddOutput(b, "y: float");
    TF_OpDefinitionBuilderSetShapeInferenceFunction(b, scalar_shape);
    TF_RegisterOpDefinition(b, k.s);
    CHECK_OK(k.s);
    mr_register_gradient("TrainTestWrong", wrong_gradient, NULL, k.s);
    CHECK_OK(k.s);
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_unary(&k, "TrainTestWrong", "y", x), dx;
    TF_AddGradients(k.g, &y, 1, &x, 1, NULL, k.s, &dx);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "there is no output 5");
    TF_Output in = kit_placeholder(&body, "in", TF_FLOAT), out = kit_unary(&body, "TrainTestWrong", "out", in);
    TF_Function *f = TF_GraphToFunction(body.g, "calls_wrong", 0, -1, NULL, 1, &in, 1, &out, NULL, NULL, NULL, k.s);
    CHECK_OK(k.s);
    TF_GraphCopyFunction(k.g, f, NULL, k.s);
    CHECK_OK(k.s);
    y = kit_unary(&k, "calls_wrong", "call", x);
    mr_gradients(k.g, &y, 1, &x, 1, NULL, &dx, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "there is no output 5");
    TF_DeleteFunction(f);
    kit_free(&body);
    kit_free(&k);
}
