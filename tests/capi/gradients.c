/* tests/capi/gradients.c -- linear regression trained from C, with gradients of the library's and updates of
 * our own making. */
#include "client.h"

enum { ROWS = 8 };

/* w := w - rate * dw, as an operation. */
static TF_Operation *update(TF_Graph *g, TF_Output var, TF_Output grad, const char *name, TF_Status *s)
{
    char rate_name[32];
    snprintf(rate_name, sizeof rate_name, "%s_rate", name);
    TF_Output rate = constant(g, float_of(0.05f), rate_name, s);
    TF_OperationDescription *d = TF_NewOperation(g, "ApplyGradientDescent", name);
    TF_AddInput(d, var);
    TF_AddInput(d, rate);
    TF_AddInput(d, grad);
    TF_Operation *op = TF_FinishOperation(d, s);
    CHECK_OK(s);
    return op;
}

static TF_Output variable(TF_Graph *g, const char *name, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, "VariableV2", name);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", NULL, 0);
    TF_Output o = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    CHECK(TF_OperationOutputType(o) == (TF_DataType)(TF_FLOAT + 100)); /* a reference */
    return o;
}

static TF_Operation *assign(TF_Graph *g, TF_Output var, float v, const char *name, TF_Status *s)
{
    char value_name[32];
    snprintf(value_name, sizeof value_name, "%s_value", name);
    TF_Output value = constant(g, float_of(v), value_name, s);
    return binary(g, "Assign", var, value, name, s).oper;
}

int main(void)
{
    TF_Status *s = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    TF_Output x = placeholder(g, TF_FLOAT, "x", s), y = placeholder(g, TF_FLOAT, "y", s);
    TF_Output vars[2] = {variable(g, "w", s), variable(g, "b", s)}, grads[2];
    const TF_Operation *init[2] = {assign(g, vars[0], 0, "w_init", s),
                                   assign(g, vars[1], 0, "b_init", s)};
    TF_Output wx = binary(g, "Mul", x, vars[0], "wx", s);
    TF_Output guess = binary(g, "Add", wx, vars[1], "guess", s);
    TF_Output error = binary(g, "SquaredDifference", guess, y, "error", s);
    TF_Output axis = constant(g, int_of(0), "axis", s);
    TF_Output loss = binary(g, "Mean", error, axis, "loss", s);
    TF_AddGradientsWithPrefix(g, "back", &loss, 1, vars, 2, NULL, s, grads);
    CHECK_OK(s);
    CHECK(strncmp(TF_OperationName(grads[0].oper), "back/", 5) == 0);
    TF_AddGradientsWithPrefix(g, "back", &loss, 1, vars, 2, NULL, s, grads + 0);
    CHECK(TF_GetCode(s) == TF_INVALID_ARGUMENT); /* the prefix is taken */
    const TF_Operation *step[2] = {update(g, vars[0], grads[0], "w_step", s),
                                   update(g, vars[1], grads[1], "b_step", s)};

    TF_Session *session = session_on(g, s);
    TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, init, 2, NULL, s);
    CHECK_OK(s);
    float xs[ROWS], ys[ROWS];
    for (int i = 0; i < ROWS; i++) {
        xs[i] = (float)i - 3.5f;
        ys[i] = 3 * xs[i] - 2;
    }
    TF_Output feeds[2] = {x, y};
    TF_Tensor *values[2] = {tensor_of(TF_FLOAT, (const int64_t[]){ROWS}, 1, xs),
                            tensor_of(TF_FLOAT, (const int64_t[]){ROWS}, 1, ys)};
    TF_Tensor *fetched = NULL;
    float last = INFINITY;
    for (int i = 0; i < 200; i++) {
        TF_SessionRun(session, NULL, feeds, values, 2, &loss, &fetched, 1, step, 2, NULL, s);
        CHECK_OK(s);
        last = take_float(fetched);
    }
    CHECK(last < 1e-4f);
    CHECK(fabsf(take_float(run1(session, NOTHING, NULL, vars[0], s)) - 3) < 1e-2f);
    CHECK(fabsf(take_float(run1(session, NOTHING, NULL, vars[1], s)) + 2) < 1e-2f);
    TF_DeleteTensor(values[0]);
    TF_DeleteTensor(values[1]);
    end_session(session, s);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
    return 0;
}
