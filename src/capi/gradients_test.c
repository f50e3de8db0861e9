/* capi/gradients_test.c -- the graph is unlocked while a client's callback runs, so other threads may add operations to
 * it.  The callbacks here add such operations themselves, in the place of another thread. */
#include "capi/graph_fixture.h"
#include "millrace/train.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"

#include <stdio.h>

static const TF_Output none = {NULL, -1};

typedef struct other_thread {
    kit *k;
    TF_Output x; /* of the root frame: what the added operation reads */
    int calls;
} other_thread;

static TF_Output add_foreign(other_thread *t)
{
    char name[32];
    snprintf(name, sizeof name, "foreign_%d", t->calls++);
    return kit_unary(t->k, "Neg", name, t->x);
}

/* Leaves every gradient to the library. */
static int handle_nothing(void *arg, TF_Graph *g, TF_Operation *op, const TF_Output *dy, TF_Output *dx)
{
    (void)g, (void)op, (void)dy, (void)dx;
    add_foreign(arg);
    return 0;
}

static int want_nothing(void *arg, TF_Operation *op)
{
    (void)op;
    add_foreign(arg);
    return 0;
}

/* Passes the gradient on to every input of the operation, doubled. */
static int handle_mul(void *arg, TF_Graph *g, TF_Operation *op, const TF_Output *dy, TF_Output *dx)
{
    other_thread *t = arg;
    char name[32];
    (void)g;
    if (strcmp(TF_OperationOpType(op), "Mul") != 0)
        return 0;
    add_foreign(t);
    snprintf(name, sizeof name, "doubled_%d", t->calls);
    dx[0] = dx[1] = kit_binary(t->k, "Add", name, dy[0], dy[0]);
    return 1;
}

/* All operations that were added are in the graph under their names, read x and nothing else, and can be run. */
static void check_foreign(other_thread *t, TF_Session *s)
{
    MR_CHECK(t->calls > 0);
    for (int i = 0; i < t->calls; i++) {
        char name[32];
        snprintf(name, sizeof name, "foreign_%d", i);
        TF_Operation *op = TF_GraphOperationByName(t->k->g, name);
        MR_CHECK(op != NULL);
        if (!op)
            continue;
        MR_CHECK(TF_OperationInput((TF_Input){op, 0}).oper == t->x.oper);
        MR_CHECK_INT(TF_OperationNumControlInputs(op), 0);
        TF_Tensor *five = kit_float(5);
        TF_Tensor *value = kit_run(t->k, s, t->x, five, (TF_Output){op, 0});
        CHECK_OK(t->k->s);
        if (value)
            MR_CHECK_NEAR(kit_take_float(value), -5, 0);
        TF_DeleteTensor(five);
    }
}

/* Each operation can be found by its name, and the graph can be exported. */
static void check_graph(kit *k)
{
    size_t pos = 0;
    for (TF_Operation *op; (op = TF_GraphNextOperation(k->g, &pos));)
        MR_CHECK(TF_GraphOperationByName(k->g, TF_OperationName(op)) == op);
    TF_Buffer *b = TF_NewBuffer();
    TF_GraphToGraphDef(k->g, b, k->s);
    CHECK_OK(k->s);
    TF_DeleteBuffer(b);
}

/* y = (x * c) * op(x).  Mul emits the gradient of c too, which is not needed, so it is removed again; DeepCopy has no
 * gradient. */
static void check_plain(bool fails, mr_gradients_options o)
{
    kit k = kit_new();
    other_thread t = {&k, kit_placeholder(&k, "x", TF_FLOAT), 0};
    TF_Output c = kit_const(&k, "c", kit_float(3)), z = kit_binary(&k, "Mul", "z", t.x, c);
    TF_Output last = kit_unary(&k, fails ? "DeepCopy" : "Sin", "last", t.x);
    TF_Output y = kit_binary(&k, "Mul", "y", z, last), dx = none;
    o.struct_size = sizeof o;
    o.override_arg = &t;
    mr_gradients(k.g, &y, 1, &t.x, 1, &o, &dx, NULL, k.s);
    if (fails)
        CHECK_CODE(k.s, TF_NOT_FOUND, "DeepCopy");
    else
        CHECK_OK(k.s);
    TF_SetStatus(k.s, TF_OK, "");
    TF_Session *s = kit_session(&k);
    check_foreign(&t, s);
    check_graph(&k);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_gradients_keep_operations_that_other_threads_add_meanwhile)
{
    check_plain(false, (mr_gradients_options){.override = handle_nothing});
    check_plain(false, (mr_gradients_options){.override = handle_nothing, .overrides = want_nothing});
}

MR_TEST(capi_gradients_that_fail_keep_operations_that_other_threads_add_meanwhile)
{
    check_plain(true, (mr_gradients_options){.override = handle_nothing});
    check_plain(true, (mr_gradients_options){.override = handle_nothing, .overrides = want_nothing});
    check_plain(true, (mr_gradients_options){.override = handle_mul});
}

static other_thread *registered_thread; /* what registered gradients stand for */

/* x is doubled three times by a while loop whose body has `op` too.  What a callback adds for the gradient goes into
 * the backward loop; what another thread adds stays outside. */
static void check_loop(const char *op, TF_Code code)
{
    kit k = kit_new();
    other_thread t = {&k, kit_placeholder(&k, "x", TF_FLOAT), 0};
    registered_thread = &t;
    TF_Output in[2] = {kit_const(&k, "i", kit_int(0)), t.x}, out[2], dx = none;
    TF_WhileParams p = TF_NewWhile(k.g, in, 2, k.s);
    kit cond = {p.cond_graph, k.s}, body = {p.body_graph, k.s};
    p.cond_output = kit_binary(&cond, "Less", "less", p.cond_inputs[0], kit_const(&cond, "three", kit_int(3)));
    p.body_outputs[0] = kit_binary(&body, "Add", "next", p.body_inputs[0], kit_const(&body, "one", kit_int(1)));
    TF_Output value = kit_unary(&body, op, "op", p.body_inputs[1]);
    p.body_outputs[1] = kit_binary(&body, "Mul", "twice", value, kit_const(&body, "two", kit_float(2)));
    p.name = "power";
    TF_FinishWhile(&p, k.s, out);
    CHECK_OK(k.s);
    mr_gradients_options o = {.struct_size = sizeof o, .override = handle_mul, .override_arg = &t};
    mr_gradients(k.g, &out[1], 1, &in[1], 1, &o, &dx, NULL, k.s);
    CHECK_CODE(k.s, code, code == TF_OK ? "" : op);
    TF_SetStatus(k.s, TF_OK, "");
    TF_Session *s = kit_session(&k);
    check_foreign(&t, s);
    check_graph(&k);
    TF_Tensor *one = kit_float(1);
    if (code == TF_OK)
        MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, t.x, one, dx)), 8, 0);
    CHECK_OK(k.s);
    TF_DeleteTensor(one);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_gradients_of_a_loop_leave_operations_of_other_threads_outside) { check_loop("Identity", TF_OK); }

MR_TEST(capi_gradients_of_a_loop_that_fail_leave_a_graph_that_runs) { check_loop("DeepCopy", TF_NOT_FOUND); }

static void any_shape(TF_ShapeInferenceContext *c, TF_Status *s) { TF_ShapeInferenceContextSetUnknownShape(c, s); }

static void pass_value(void *state, TF_OpKernelContext *ctx)
{
    (void)state;
    TF_Status *s = TF_NewStatus();
    TF_Tensor *x = NULL;
    TF_GetInput(ctx, 0, &x, s);
    TF_SetOutput(ctx, 0, x, s);
    TF_DeleteTensor(x);
    TF_DeleteStatus(s);
}

static void define_op(const char *name, mr_gradient_function *gradient)
{
    TF_Status *s = TF_NewStatus();
    TF_OpDefinitionBuilder *b = TF_NewOpDefinitionBuilder(name);
    TF_OpDefinitionBuilderAddInput(b, "x: float");
    TF_OpDefinitionBuilderAddOutput(b, "y: float");
    TF_OpDefinitionBuilderSetShapeInferenceFunction(b, any_shape);
    TF_RegisterOpDefinition(b, s);
    CHECK_OK(s);
    TF_RegisterKernelBuilder(name, TF_NewKernelBuilder(name, "CPU", NULL, pass_value, NULL), s);
    CHECK_OK(s);
    mr_register_gradient(name, gradient, NULL, s);
    CHECK_OK(s);
    TF_DeleteStatus(s);
}

static void pass_on(void *arg, const mr_gradient_call *c, TF_Status *s)
{
    (void)arg, (void)s;
    add_foreign(registered_thread);
    c->grad_inputs[0] = c->grad_outputs[0];
}

static void fail_after(void *arg, const mr_gradient_call *c, TF_Status *s)
{
    pass_on(arg, c, s);
    TF_SetStatus(s, TF_DATA_LOSS, "GradientsTestFails has no gradient today");
}

MR_TEST(capi_gradients_by_registered_functions_keep_operations_of_other_threads)
{
    define_op("GradientsTestPasses", pass_on);
    define_op("GradientsTestFails", fail_after);
    check_loop("GradientsTestPasses", TF_OK);
    check_loop("GradientsTestFails", TF_DATA_LOSS);
}
