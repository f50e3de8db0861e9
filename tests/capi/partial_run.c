/* tests/capi/partial_run.c -- a run in parts: the second feed depends on the first result. */
#include "client.h"

int main(void)
{
    TF_Status *s = TF_NewStatus();
    TF_Graph *g = TF_NewGraph();
    TF_Output a = placeholder(g, TF_FLOAT, "a", s), b = placeholder(g, TF_FLOAT, "b", s);
    TF_Output r1 = unary(g, "Square", a, "r1", s), r2 = binary(g, "Mul", r1, b, "r2", s);
    TF_Session *session = session_on(g, s);
    TF_Output feeds[2] = {a, b}, fetches[2] = {r1, r2};
    const char *handle = NULL;
    TF_SessionPRunSetup(session, feeds, 2, fetches, 2, NULL, 0, &handle, s);
    CHECK_OK(s);
    CHECK(handle);
    TF_Tensor *in = float_of(3), *out = NULL;
    TF_SessionPRun(session, handle, &a, &in, 1, &r1, &out, 1, NULL, 0, s);
    CHECK_OK(s);
    TF_DeleteTensor(in);
    in = float_of(take_float(out) + 1);
    TF_SessionPRun(session, handle, &b, &in, 1, &r2, &out, 1, NULL, 0, s);
    CHECK_OK(s);
    CHECK_NEAR(take_float(out), 90);
    TF_DeletePRunHandle(handle);

    /* What cannot be computed yet is refused, and ends that run. */
    TF_SessionPRunSetup(session, feeds, 2, fetches, 2, NULL, 0, &handle, s);
    CHECK_OK(s);
    TF_SessionPRun(session, handle, &a, &in, 1, &r2, &out, 1, NULL, 0, s);
    CHECK(TF_GetCode(s) == TF_INVALID_ARGUMENT && !out);
    CHECK(strstr(TF_Message(s), "can't be computed from the feeds that have been fed so far"));
    TF_DeletePRunHandle(handle);
    TF_DeleteTensor(in);
    end_session(session, s);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
    return 0;
}
