/* capi/while_test.c */
#include "capi/graph_fixture.h"

static const TF_Output none = {NULL, -1};

/* i = 0; while (i < limit) i += 1, in r->g; the caller sets what is missing. */
static TF_WhileParams count_up(kit *k, TF_Output *inputs, int32_t limit)
{
    TF_WhileParams p = TF_NewWhile(k->g, inputs, 1, k->s);
    CHECK_OK(k->s);
    kit cond = {p.cond_graph, k->s}, body = {p.body_graph, k->s};
    TF_Output end = kit_const(&cond, "limit", kit_int(limit));
    p.cond_output = kit_binary(&cond, "Less", "less", p.cond_inputs[0], end);
    TF_Output one = kit_const(&body, "one", kit_int(1));
    p.body_outputs[0] = kit_binary(&body, "Add", "add", p.body_inputs[0], one);
    p.name = "count";
    return p;
}

MR_TEST(capi_while_counts)
{
    kit k = kit_new();
    TF_Output start = kit_placeholder(&k, "start", TF_INT32), end;
    TF_WhileParams p = count_up(&k, &start, 10);
    MR_CHECK_STR(TF_OperationName(p.cond_inputs[0].oper), "cond_input0");
    MR_CHECK_STR(TF_OperationName(p.body_inputs[0].oper), "body_input0");
    TF_FinishWhile(&p, k.s, &end);
    CHECK_OK(k.s);
    MR_CHECK_STR(TF_OperationOpType(end.oper), "Exit");
    MR_CHECK_STR(TF_OperationName(end.oper), "count/Exit");
    MR_CHECK(TF_GraphOperationByName(k.g, "count/cond/less"));
    MR_CHECK(TF_GraphOperationByName(k.g, "count/body/add"));
    MR_CHECK(!TF_GraphOperationByName(k.g, "count/body/body_input0"));
    TF_Session *s = kit_session(&k);
    for (int32_t i = 0; i < 13; i += 4) {
        TF_Tensor *v = kit_int(i);
        MR_CHECK_INT(kit_take_int(kit_run(&k, s, start, v, end)), i < 10 ? 10 : i);
        TF_DeleteTensor(v);
    }
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_while_of_several_variables_and_a_nested_loop)
{
    kit k = kit_new();
    TF_Output in[2] = {kit_const(&k, "i", kit_int(0)), kit_const(&k, "sum", kit_int(0))}, out[2];
    TF_WhileParams p = TF_NewWhile(k.g, in, 2, k.s);
    CHECK_OK(k.s);
    kit cond = {p.cond_graph, k.s}, body = {p.body_graph, k.s};
    p.cond_output =
        kit_binary(&cond, "Less", "less", p.cond_inputs[0], kit_const(&cond, "four", kit_int(4)));
    TF_Output one = kit_const(&body, "one", kit_int(1));
    p.body_outputs[0] = kit_binary(&body, "Add", "next", p.body_inputs[0], one);
    /* inner: from i up to 3, then added to the sum */
    TF_Output inner_in = p.body_inputs[0], inner_out;
    TF_WhileParams q = count_up(&body, &inner_in, 3);
    TF_FinishWhile(&q, k.s, &inner_out);
    CHECK_OK(k.s);
    p.body_outputs[1] = kit_binary(&body, "Add", "total", p.body_inputs[1], inner_out);
    p.name = "outer";
    TF_FinishWhile(&p, k.s, out);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&k);
    MR_CHECK_INT(kit_take_int(kit_run(&k, s, none, NULL, out[0])), 4);
    MR_CHECK_INT(kit_take_int(kit_run(&k, s, none, NULL, out[1])), 12);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_while_may_pass_variables_through_and_take_one_as_condition)
{
    kit k = kit_new();
    TF_Output in[2] = {kit_const(&k, "go", kit_bool(true)), kit_const(&k, "x", kit_int(5))}, out[2];
    TF_WhileParams p = TF_NewWhile(k.g, in, 2, k.s);
    kit body = {p.body_graph, k.s};
    p.cond_output = p.cond_inputs[0];
    p.body_outputs[0] = kit_unary(&body, "LogicalNot", "not", p.body_inputs[0]);
    p.body_outputs[1] = p.body_inputs[1];
    p.name = "once";
    TF_FinishWhile(&p, k.s, out);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&k);
    MR_CHECK_INT(kit_take_int(kit_run(&k, s, none, NULL, out[1])), 5);
    CHECK_OK(k.s);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_while_needs_an_input)
{
    kit k = kit_new();
    TF_Output in = none;
    TF_WhileParams p = TF_NewWhile(k.g, &in, 0, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "TF_NewWhile() must be passed at least one input");
    MR_CHECK(!p.cond_graph && !p.body_outputs && p.ninputs == 0);
    TF_WhileParams q = TF_NewWhile(k.g, &in, 1, k.s); /* nothing is no input */
    MR_CHECK_INT(TF_GetCode(k.s), TF_INVALID_ARGUMENT);
    MR_CHECK(!q.cond_graph);
    kit_free(&k);
}

/* Finishes and expects this error and an unchanged graph. */
static void refuse(kit *k, const TF_WhileParams *p, const char *text)
{
    TF_Output out;
    size_t before = 0, after = 0;
    while (TF_GraphNextOperation(k->g, &before))
        continue;
    TF_FinishWhile(p, k->s, &out);
    CHECK_CODE(k->s, TF_INVALID_ARGUMENT, text);
    while (TF_GraphNextOperation(k->g, &after))
        continue;
    MR_CHECK_INT(after, before);
}

MR_TEST(capi_while_says_what_is_not_set)
{
    kit k = kit_new();
    TF_Output start = kit_placeholder(&k, "start", TF_INT32);
    TF_WhileParams p = count_up(&k, &start, 10);
    p.cond_output = none;
    refuse(&k, &p, "TF_WhileParams `cond_output` field isn't set");
    TF_WhileParams q = count_up(&k, &start, 10);
    q.body_outputs[0] = none;
    refuse(&k, &q, "TF_WhileParams `body_outputs[0]` field isn't set");
    TF_WhileParams r = count_up(&k, &start, 10);
    r.name = NULL;
    refuse(&k, &r, "TF_WhileParams `name` field is null");
    TF_WhileParams zero = {0};
    refuse(&k, &zero, "TF_WhileParams must be created by successful TF_NewWhile() call");
    kit_free(&k);
}

MR_TEST(capi_while_condition_is_a_boolean_scalar)
{
    kit k = kit_new();
    TF_Output start = kit_placeholder(&k, "start", TF_INT32);
    TF_WhileParams p = count_up(&k, &start, 10);
    p.cond_output = p.cond_inputs[0];
    refuse(&k, &p, "'cond' argument must return a boolean output, got int32");
    TF_WhileParams q = count_up(&k, &start, 10);
    kit cond = {q.cond_graph, k.s};
    TF_Output vec = kit_const(&cond, "v", kit_ints(1, (int64_t[]){2}, (int32_t[]){1, 2}));
    q.cond_output = kit_binary(&cond, "Less", "many", vec, vec);
    refuse(&k, &q, "must return a scalar output, got shape [2]");
    kit_free(&k);
}

MR_TEST(capi_while_body_keeps_the_types)
{
    kit k = kit_new();
    TF_Output start = kit_placeholder(&k, "start", TF_INT32);
    TF_WhileParams p = count_up(&k, &start, 10);
    kit body = {p.body_graph, k.s};
    p.body_outputs[0] = kit_const(&body, "half", kit_float(0.5f));
    refuse(&k, &p, "float");
    kit_free(&k);
}

MR_TEST(capi_while_cannot_take_what_is_outside)
{
    kit k = kit_new();
    TF_Output start = kit_placeholder(&k, "start", TF_INT32);
    TF_WhileParams p = count_up(&k, &start, 10);
    p.body_outputs[0] = start;
    refuse(&k, &p, "Requested return tensor 'start:0' not found in graph def");
    TF_WhileParams q = count_up(&k, &start, 10);
    q.body_outputs[0].index = 100;
    refuse(&k, &q, "Invalid return output 100 of node 'add', which has 1 output(s)");
    kit_free(&k);
}

MR_TEST(capi_while_aborted_leaves_nothing)
{
    kit k = kit_new();
    TF_Output start = kit_placeholder(&k, "start", TF_INT32);
    TF_WhileParams p = count_up(&k, &start, 10);
    TF_AbortWhile(&p);
    size_t pos = 0;
    TF_GraphNextOperation(k.g, &pos);
    MR_CHECK(!TF_GraphNextOperation(k.g, &pos));
    TF_AbortWhile(&(TF_WhileParams){0});
    TF_AbortWhile(NULL);
    kit_free(&k);
}

MR_TEST(capi_while_of_a_taken_name_gets_another)
{
    kit k = kit_new();
    TF_Output start = kit_placeholder(&k, "start", TF_INT32), a, b;
    TF_WhileParams p = count_up(&k, &start, 3), q = count_up(&k, &start, 5);
    TF_FinishWhile(&p, k.s, &a);
    CHECK_OK(k.s);
    TF_FinishWhile(&q, k.s, &b);
    CHECK_OK(k.s);
    MR_CHECK_STR(TF_OperationName(b.oper), "count_1/Exit");
    kit_free(&k);
}

MR_TEST(capi_while_has_a_gradient)
{
    kit k = kit_new();
    /* x doubled three times: d/dx = 8 */
    TF_Output in[2] = {kit_const(&k, "i", kit_int(0)), kit_placeholder(&k, "x", TF_FLOAT)}, out[2];
    TF_WhileParams p = TF_NewWhile(k.g, in, 2, k.s);
    kit cond = {p.cond_graph, k.s}, body = {p.body_graph, k.s};
    p.cond_output =
        kit_binary(&cond, "Less", "less", p.cond_inputs[0], kit_const(&cond, "three", kit_int(3)));
    p.body_outputs[0] =
        kit_binary(&body, "Add", "next", p.body_inputs[0], kit_const(&body, "one", kit_int(1)));
    p.body_outputs[1] =
        kit_binary(&body, "Mul", "twice", p.body_inputs[1], kit_const(&body, "two", kit_float(2)));
    p.name = "power";
    TF_FinishWhile(&p, k.s, out);
    CHECK_OK(k.s);
    TF_Output dx = none;
    TF_AddGradients(k.g, &out[1], 1, &in[1], 1, NULL, k.s, &dx);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&k);
    TF_Tensor *v = kit_float(5);
    TF_Tensor *r = kit_run(&k, s, in[1], v, dx);
    CHECK_OK(k.s);
    MR_CHECK_NEAR(kit_take_float(r), 8, 0);
    TF_DeleteTensor(v);
    kit_close(&k, s);
    kit_free(&k);
}
