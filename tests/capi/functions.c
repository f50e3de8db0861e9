/* tests/capi/functions.c -- a graph made a function, carried to another graph as bytes, called there. */
#include "client.h"

/* x^2 + y, from a graph of its own. */
static TF_Function *make(TF_Status *s)
{
    TF_Graph *g = TF_NewGraph();
    TF_Output in[2] = {placeholder(g, TF_FLOAT, "x", s), placeholder(g, TF_FLOAT, "y", s)};
    TF_Output sq = unary(g, "Square", in[0], "sq", s), out = binary(g, "Add", sq, in[1], "sum", s);
    const char *names[] = {"result"};
    TF_Function *f = TF_GraphToFunction(g, "SquareAdd", 0, -1, NULL, 2, in, 1, &out, names, NULL,
                                        "x^2 + y", s);
    CHECK_OK(s);
    CHECK(strcmp(TF_FunctionName(f), "SquareAdd") == 0);
    TF_DeleteGraph(g); /* the function stands on its own */
    return f;
}

static TF_Function *through_bytes(TF_Function *f, TF_Status *s)
{
    TF_Buffer *def = TF_NewBuffer();
    TF_FunctionToFunctionDef(f, def, s);
    CHECK_OK(s);
    TF_Function *copy = TF_FunctionImportFunctionDef(def->data, def->length, s);
    CHECK_OK(s);
    TF_DeleteBuffer(def);
    TF_DeleteFunction(f);
    return copy;
}

int main(void)
{
    TF_Status *s = TF_NewStatus();
    TF_Function *f = through_bytes(make(s), s);
    TF_Graph *g = TF_NewGraph();
    TF_GraphCopyFunction(g, f, NULL, s);
    CHECK_OK(s);
    TF_GraphCopyFunction(g, f, NULL, s); /* the same again is fine */
    CHECK_OK(s);
    CHECK(TF_GraphNumFunctions(g) == 1);
    TF_Output x = placeholder(g, TF_FLOAT, "x", s);
    TF_Output ten = constant(g, float_of(10), "ten", s);
    TF_Output call = binary(g, "SquareAdd", x, ten, "call", s);
    TF_Output twice = binary(g, "SquareAdd", call, ten, "again", s);
    TF_Output dx = NOTHING;
    TF_AddGradients(g, &call, 1, &x, 1, NULL, s, &dx);
    CHECK_OK(s);
    TF_Session *session = session_on(g, s);
    TF_Tensor *three = float_of(3);
    CHECK_NEAR(take_float(run1(session, x, three, call, s)), 19);
    CHECK_NEAR(take_float(run1(session, x, three, twice, s)), 371);
    CHECK_NEAR(take_float(run1(session, x, three, dx, s)), 6);
    TF_DeleteTensor(three);
    end_session(session, s);

    /* The graph with its function as a GraphDef, in a third graph. */
    TF_Buffer *def = TF_NewBuffer();
    TF_GraphToGraphDef(g, def, s);
    CHECK_OK(s);
    TF_Graph *h = TF_NewGraph();
    TF_GraphImportGraphDef(h, def, NULL, s);
    CHECK_OK(s);
    TF_Function *got[1] = {NULL}; /* the gradient may have brought others */
    CHECK(TF_GraphNumFunctions(h) == TF_GraphNumFunctions(g));
    CHECK(TF_GraphGetFunctions(h, got, 1, s) == 1);
    CHECK(strcmp(TF_FunctionName(got[0]), "SquareAdd") == 0);
    TF_DeleteFunction(got[0]);
    TF_DeleteBuffer(def);
    TF_DeleteGraph(h);
    TF_DeleteFunction(f);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
    return 0;
}
