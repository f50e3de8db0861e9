/* tests/capi/while_loop.c -- a loop built with TF_NewWhile: Newton's square root, and its gradient. */
#include "client.h"

int main(void)
{
    TF_Status *s = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    TF_Output a = placeholder(g, TF_FLOAT, "a", s);
    TF_Output in[3] = {constant(g, int_of(0), "zero", s), a, a}, out[3];
    TF_WhileParams p = TF_NewWhile(g, in, 3, s); /* i, a, x */
    CHECK_OK(s);
    CHECK(p.ninputs == 3);
    TF_Output rounds = constant(p.cond_graph, int_of(20), "rounds", s);
    p.cond_output = binary(p.cond_graph, "Less", p.cond_inputs[0], rounds, "more", s);
    /* x = (x + a/x) / 2 */
    TF_Output one = constant(p.body_graph, int_of(1), "one", s);
    TF_Output half = constant(p.body_graph, float_of(0.5f), "half", s);
    TF_Output q =
        binary(p.body_graph, "RealDiv", p.body_inputs[1], p.body_inputs[2], "quotient", s);
    TF_Output sum = binary(p.body_graph, "Add", p.body_inputs[2], q, "sum", s);
    p.body_outputs[0] = binary(p.body_graph, "Add", p.body_inputs[0], one, "next", s);
    p.body_outputs[1] = p.body_inputs[1];
    p.body_outputs[2] = binary(p.body_graph, "Mul", sum, half, "mean", s);
    p.name = "newton";
    TF_FinishWhile(&p, s, out);
    CHECK_OK(s);
    TF_Output slope = NOTHING;
    TF_AddGradients(g, &out[2], 1, &a, 1, NULL, s, &slope);
    CHECK_OK(s);
    TF_Session *session = session_on(g, s);
    for (float v = 1; v < 100; v *= 3) {
        TF_Tensor *t = float_of(v);
        CHECK_NEAR(take_float(run1(session, a, t, out[2], s)), sqrtf(v));
        CHECK(fabsf(take_float(run1(session, a, t, slope, s)) - 0.5f / sqrtf(v)) < 1e-3f);
        TF_DeleteTensor(t);
    }
    end_session(session, s);

    TF_WhileParams q2 = TF_NewWhile(g, in, 3, s); /* thought better of */
    CHECK_OK(s);
    TF_AbortWhile(&q2);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
    return 0;
}
