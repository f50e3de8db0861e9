/* tests/capi/import_maps.c -- one graph put into another, with its inputs replaced. */
#include "client.h"

static TF_Buffer *inner_graph(TF_Status *s)
{
    TF_Graph *g = TF_NewGraph();
    TF_Output x = placeholder(g, TF_FLOAT, "x", s);
    TF_Output two = constant(g, float_of(2), "two", s);
    binary(g, "Mul", x, two, "y", s);
    TF_Buffer *def = TF_NewBuffer();
    TF_GraphToGraphDef(g, def, s);
    CHECK_OK(s);
    TF_DeleteGraph(g);
    return def;
}

int main(void)
{
    TF_Status *s = TF_NewStatus();
    TF_Buffer *def = inner_graph(s);
    TF_Graph *g = TF_NewGraph();
    TF_Output v = placeholder(g, TF_FLOAT, "v", s);
    TF_Operation *before = TF_FinishOperation(TF_NewOperation(g, "NoOp", "before"), s);
    CHECK_OK(s);

    TF_ImportGraphDefOptions *o = TF_NewImportGraphDefOptions();
    TF_ImportGraphDefOptionsSetPrefix(o, "copy");
    TF_ImportGraphDefOptionsAddInputMapping(o, "x", 0, v);
    TF_ImportGraphDefOptionsAddInputMapping(o, "nobody", 3, v);
    TF_ImportGraphDefOptionsAddControlDependency(o, before);
    TF_ImportGraphDefOptionsAddReturnOutput(o, "y", 0);
    TF_ImportGraphDefOptionsAddReturnOutput(o, "x", 0); /* mapped: what it was mapped to */
    TF_ImportGraphDefOptionsAddReturnOperation(o, "two");
    CHECK(TF_ImportGraphDefOptionsNumReturnOutputs(o) == 2);
    CHECK(TF_ImportGraphDefOptionsNumReturnOperations(o) == 1);
    TF_ImportGraphDefResults *r = TF_GraphImportGraphDefWithResults(g, def, o, s);
    CHECK_OK(s);
    TF_DeleteImportGraphDefOptions(o); /* the results do without */

    int n = 0, *indexes;
    TF_Output *outs;
    TF_Operation **opers;
    const char **names;
    TF_ImportGraphDefResultsReturnOutputs(r, &n, &outs);
    CHECK(n == 2 && outs[1].oper == v.oper && outs[1].index == 0);
    CHECK(strcmp(TF_OperationName(outs[0].oper), "copy/y") == 0);
    TF_Output y = outs[0];
    TF_ImportGraphDefResultsReturnOperations(r, &n, &opers);
    CHECK(n == 1 && strcmp(TF_OperationName(opers[0]), "copy/two") == 0);
    CHECK(TF_OperationNumControlInputs(opers[0]) == 1); /* waits for `before` */
    TF_ImportGraphDefResultsMissingUnusedInputMappings(r, &n, &names, &indexes);
    CHECK(n == 1 && strcmp(names[0], "nobody") == 0 && indexes[0] == 3);
    TF_DeleteImportGraphDefResults(r);

    TF_GraphImportGraphDef(g, def, NULL, s); /* under their own names: free */
    CHECK_OK(s);
    TF_GraphImportGraphDef(g, def, NULL, s); /* now taken */
    CHECK(TF_GetCode(s) == TF_INVALID_ARGUMENT);
    o = TF_NewImportGraphDefOptions();
    TF_ImportGraphDefOptionsSetUniquifyNames(o, 1);
    TF_ImportGraphDefOptionsAddReturnOutput(o, "y", 0);
    TF_Output unique;
    TF_GraphImportGraphDefWithReturnOutputs(g, def, o, &unique, 1, s);
    CHECK_OK(s);
    CHECK(strcmp(TF_OperationName(unique.oper), "y_1") == 0);
    TF_DeleteImportGraphDefOptions(o);

    TF_Session *session = session_on(g, s);
    TF_Tensor *t = float_of(21);
    CHECK_NEAR(take_float(run1(session, v, t, y, s)), 42);
    TF_DeleteTensor(t);
    end_session(session, s);
    TF_DeleteBuffer(def);
    TF_DeleteGraph(g);
    TF_DeleteStatus(s);
    return 0;
}
