/* tests/capi/loop_over_devices.c -- a loop with its body on a second device, exported, imported under a
 * prefix and differentiated there: on one device or two, the same bits. */
#include "client.h"

static TF_Output on_device(TF_Graph *g, const char *op, TF_Output x, TF_Output y, const char *device,
                           const char *name, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, op, name);
    TF_AddInput(d, x);
    TF_AddInput(d, y);
    TF_SetDevice(d, device);
    TF_Output o = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    return o;
}

/* x, and then seven times: x <- tanh(x * a + x) */
static void build(TF_Graph *g, TF_Status *s)
{
    TF_Output a = placeholder(g, TF_FLOAT, "a", s), x = placeholder(g, TF_FLOAT, "x", s);
    TF_Output in[3] = {constant(g, int_of(0), "zero", s), a, x}, out[3];
    TF_WhileParams p = TF_NewWhile(g, in, 3, s);
    CHECK_OK(s);
    TF_Output rounds = constant(p.cond_graph, int_of(7), "rounds", s);
    p.cond_output = binary(p.cond_graph, "Less", p.cond_inputs[0], rounds, "more", s);
    TF_Output one = constant(p.body_graph, int_of(1), "one", s);
    TF_Output ax = on_device(p.body_graph, "Mul", p.body_inputs[1], p.body_inputs[2],
                             "/device:CPU:1", "ax", s);
    TF_Output sum = binary(p.body_graph, "AddV2", ax, p.body_inputs[2], "sum", s);
    p.body_outputs[0] = binary(p.body_graph, "AddV2", p.body_inputs[0], one, "next", s);
    p.body_outputs[1] = p.body_inputs[1];
    p.body_outputs[2] = unary(p.body_graph, "Tanh", sum, "tanh", s);
    p.name = "rounds";
    TF_FinishWhile(&p, s, out);
    CHECK_OK(s);
    unary(g, "Identity", out[2], "y", s);
}

/* The same graph as it comes out of a file. */
static TF_Graph *reread(TF_Graph *g, TF_Status *s)
{
    TF_Buffer *b = TF_NewBuffer();
    TF_Graph *copy = TF_NewGraph();
    TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
    TF_GraphToGraphDef(g, b, s);
    CHECK_OK(s);
    TF_ImportGraphDefOptionsSetPrefix(o, "read");
    TF_GraphImportGraphDef(copy, b, o, s);
    CHECK_OK(s);
    TF_DeleteImportGraphDefOptions(o);
    TF_DeleteBuffer(b);
    return copy;
}

static TF_Output find(TF_Graph *g, const char *name)
{
    TF_Output o = {TF_GraphOperationByName(g, name), 0};
    CHECK(o.oper);
    return o;
}

/* y and its slopes by a and x; n_devices is what the session is told to have. */
static void run(TF_Graph *g, const char *prefix, int n_devices, float *result, TF_Status *s)
{
    char names[3][32];
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], "%s%c", prefix, "axy"[i]);
    TF_Output x[2] = {find(g, names[0]), find(g, names[1])}, fetches[3] = {find(g, names[2])};
    TF_AddGradients(g, fetches, 1, x, 2, NULL, s, fetches + 1);
    CHECK_OK(s);
    /* ConfigProto { device_count { key: "CPU" value: n } allow_soft_placement: true } */
    char config[] = {0x0a, 7, 0x0a, 3, 'C', 'P', 'U', 0x10, (char)n_devices, 0x38, 1};
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, config, sizeof config, s);
    CHECK_OK(s);
    TF_Session *session = TF_NewSession(g, o, s);
    CHECK_OK(s);
    TF_DeleteSessionOptions(o);
    TF_Tensor *values[2] = {float_of(0.4f), float_of(0.3f)}, *got[3];
    TF_SessionRun(session, NULL, x, values, 2, fetches, got, 3, NULL, 0, NULL, s);
    CHECK_OK(s);
    for (int i = 0; i < 3; i++)
        result[i] = take_float(got[i]);
    TF_DeleteTensor(values[0]);
    TF_DeleteTensor(values[1]);
    end_session(session, s);
}

int main(void)
{
    TF_Status *s = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    build(g, s);
    TF_Graph *copy = reread(g, s);
    float one[3], two[3], read[3];
    run(g, "", 1, one, s);
    run(g, "", 2, two, s);
    run(copy, "read/", 2, read, s);
    CHECK(memcmp(one, two, sizeof one) == 0);
    CHECK(memcmp(one, read, sizeof one) == 0);
    /* By hand. */
    double a = 0.4f, x = 0.3f, dx = 1, da = 0;
    for (int i = 0; i < 7; i++) {
        double y = tanh(x * a + x), slope = 1 - y * y;
        da = slope * ((a + 1) * da + x);
        dx *= slope * (a + 1);
        x = y;
    }
    CHECK_NEAR(one[0], x);
    CHECK_NEAR(one[1], da);
    CHECK_NEAR(one[2], dx);
    TF_DeleteGraph(copy);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
    return 0;
}
