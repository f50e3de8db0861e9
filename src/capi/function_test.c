/* capi/function_test.c -- functions and gradients; tests/capi has them at work. */
#include "capi/graph_fixture.h"

static const TF_Output none = {NULL, -1};

/* y = -x as a function. */
static TF_Function *negate(kit *k, const char *name, unsigned char hash)
{
    kit body = {TF_NewGraph(), k->s};
    TF_Output x = kit_placeholder(&body, "X", TF_FLOAT), y = kit_unary(&body, "Neg", "y", x);
    TF_Function *f =
        TF_GraphToFunction(body.g, name, hash, -1, NULL, 1, &x, 1, &y, NULL, NULL, NULL, k->s);
    CHECK_OK(k->s);
    TF_DeleteGraph(body.g);
    return f;
}

MR_TEST(capi_function_name_may_carry_a_hash)
{
    kit k = kit_new();
    TF_Function *f = negate(&k, "Negate", 0), *h = negate(&k, "Negate", 1),
                *same = negate(&k, "Negate", 1);
    MR_CHECK_STR(TF_FunctionName(f), "Negate");
    MR_CHECK(strncmp(TF_FunctionName(h), "Negate_", 7) == 0);
    MR_CHECK_STR(TF_FunctionName(h), TF_FunctionName(same));
    TF_DeleteFunction(f);
    TF_DeleteFunction(h);
    TF_DeleteFunction(same);
    TF_DeleteFunction(NULL);
    kit_free(&k);
}

/* The name that TensorFlow gives to this function, by its own test. */
MR_TEST(capi_function_has_the_hash_that_tensorflow_appends)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "feed", TF_INT32), y = kit_unary(&k, "Neg", "neg", x);
    TF_Function *f =
        TF_GraphToFunction(k.g, "func_name_base", 1, -1, NULL, 1, &x, 1, &y, NULL, NULL, "Return something", k.s);
    CHECK_OK(k.s);
    MR_CHECK_STR(TF_FunctionName(f), "func_name_base_qaJ8jA8UmGY");
    TF_DeleteFunction(f);
    kit_free(&k);
}

MR_TEST(capi_function_attrs_are_set_without_changing_graphs_that_have_it)
{
    kit k = kit_new();
    TF_Function *f = negate(&k, "Negate", 0);
    const char *name = TF_FunctionName(f);
    TF_Buffer *b = TF_NewBuffer();
    TF_GraphCopyFunction(k.g, f, NULL, k.s);
    TF_FunctionSetAttrValueProto(f, "speed", "\030\005", 2, k.s); /* i: 5 */
    CHECK_OK(k.s);
    TF_FunctionSetAttrValueProto(f, "speed", "\030\007", 2, k.s); /* replaced */
    CHECK_OK(k.s);
    MR_CHECK_STR(name, "Negate"); /* still there */
    TF_FunctionGetAttrValueProto(f, "speed", b, k.s);
    CHECK_OK(k.s);
    MR_CHECK(b->length == 2 && memcmp(b->data, "\030\007", 2) == 0);
    TF_FunctionGetAttrValueProto(f, "none", b, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Function 'Negate' has no attr named 'none'.");
    TF_FunctionSetAttrValueProto(f, "speed", "\377", 1, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Unparseable AttrValue proto");
    TF_GraphCopyFunction(k.g, f, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "a different function with the same name already exists");
    TF_DeleteBuffer(b);
    TF_DeleteFunction(f);
    kit_free(&k);
}

MR_TEST(capi_function_of_a_graph_goes_with_its_gradient)
{
    kit k = kit_new();
    TF_Function *f = negate(&k, "Negate", 0), *g = negate(&k, "NegateGrad", 0), *got[3] = {0};
    TF_GraphCopyFunction(k.g, f, g, k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_GraphNumFunctions(k.g), 2);
    MR_CHECK_INT(TF_GraphGetFunctions(k.g, got, 3, k.s), 2);
    MR_CHECK_STR(TF_FunctionName(got[1]), "NegateGrad");
    TF_GraphRemoveFunction(k.g, "NegateGrad", k.s);
    CHECK_OK(k.s);
    MR_CHECK_INT(TF_GraphNumFunctions(k.g), 1);
    TF_GraphRemoveFunction(k.g, "NegateGrad", k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Tried to remove non-existent function 'NegateGrad'");
    TF_GraphCopyFunction(k.g, NULL, NULL, k.s);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "'func' argument to TF_GraphCopyFunction cannot be null");
    TF_DeleteFunction(f);
    TF_DeleteFunction(g);
    TF_DeleteFunction(got[0]);
    TF_DeleteFunction(got[1]);
    kit_free(&k);
}

MR_TEST(capi_function_of_what_is_not_whole_is_refused)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), y = kit_unary(&k, "Neg", "y", x);
    TF_Output twice[2] = {x, x};
    const TF_Operation *body[] = {y.oper};
    MR_CHECK(!TF_GraphToFunction(k.g, "F", 0, -1, NULL, 2, twice, 1, &y, NULL, NULL, NULL, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "appears more than once in the input list");
    MR_CHECK(!TF_GraphToFunction(k.g, "F", 0, 1, body, 0, NULL, 1, &y, NULL, NULL, NULL, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    MR_CHECK(!TF_GraphToFunction(NULL, "F", 0, -1, NULL, 0, NULL, 0, NULL, NULL, NULL, NULL, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    MR_CHECK(!TF_GraphToFunction(k.g, "F", 0, -1, NULL, 1, NULL, 1, &y, NULL, NULL, NULL, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    MR_CHECK(!TF_FunctionImportFunctionDef("\377", 1, k.s));
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "Invalid FunctionDef given");
    MR_CHECK_STR(TF_Message(k.s), "Invalid FunctionDef given to TF_FunctionImportFunctionDef");
    TF_Output wrong[2] = {x, {x.oper, 2}}, nothing[1] = {none};
    MR_CHECK(!TF_GraphToFunction(k.g, "F", 0, -1, NULL, 2, wrong, 1, &y, NULL, NULL, NULL, k.s));
    MR_CHECK_STR(TF_Message(k.s),
                 "Node 'x' (type: 'Placeholder', num of outputs: 1) does not have output 2\n\tEncountered "
                 "while processing input 1 into function 'F'");
    MR_CHECK(!TF_GraphToFunction(k.g, "F", 0, -1, NULL, 1, &x, 1, nothing, NULL, NULL, NULL, k.s));
    MR_CHECK_STR(TF_Message(k.s), "Node is null\n\tEncountered while processing output 0 from function 'F'");
    TF_OperationDescription *d = TF_NewOperation(k.g, "Neg", "z");
    TF_AddInput(d, x);
    TF_AddControlInput(d, y.oper);
    TF_Output z = kit_out(kit_finish(&k, d), 0);
    const TF_Operation *one[] = {z.oper};
    MR_CHECK(!TF_GraphToFunction(k.g, "F", 0, 1, one, 1, &x, 1, &z, NULL, NULL, NULL, k.s));
    MR_CHECK_STR(TF_Message(k.s),
                 "The source of control edge [id=3 y:-1 -> z:-1] is not in the body. Encountered while creating "
                 "function 'F'");
    kit_free(&k);
}

MR_TEST(capi_function_arguments_keep_the_attrs_of_front_ends)
{
    kit k = kit_new();
    TF_OperationDescription *d = TF_NewOperation(k.g, "Placeholder", "n");
    TF_SetAttrType(d, "dtype", TF_INT32);
    TF_SetAttrString(d, "_test_attr", "value", 5);
    TF_Output n = kit_out(kit_finish(&k, d), 0);
    TF_Function *f = TF_GraphToFunction(k.g, "F", 0, -1, NULL, 1, &n, 0, NULL, NULL, NULL, NULL, k.s);
    CHECK_OK(k.s);
    TF_Buffer *b = TF_NewBuffer();
    TF_FunctionToFunctionDef(f, b, k.s);
    CHECK_OK(k.s);
    MR_CHECK(memmem(b->data, b->length, "_test_attr", 10) != NULL);
    TF_DeleteBuffer(b);
    TF_DeleteFunction(f);
    kit_free(&k);
}

/* ---- gradients ---- */

MR_TEST(capi_gradients_take_incoming_ones_and_add_up)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), dx = none;
    TF_Output ys[2] = {kit_unary(&k, "Square", "sq", x), kit_unary(&k, "Neg", "neg", x)};
    TF_Output in[2] = {kit_const(&k, "w", kit_float(10)), none}; /* none: ones */
    TF_AddGradients(k.g, ys, 2, &x, 1, in, k.s, &dx);
    CHECK_OK(k.s);
    MR_CHECK(strncmp(TF_OperationName(dx.oper), "gradients/", 10) == 0);
    TF_Session *s = kit_session(&k);
    TF_Tensor *v = kit_float(3);
    MR_CHECK_NEAR(kit_take_float(kit_run(&k, s, x, v, dx)), 10 * 6 - 1, 0);
    TF_DeleteTensor(v);
    kit_close(&k, s);
    kit_free(&k);
}

MR_TEST(capi_gradients_say_what_is_wrong)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), z = kit_placeholder(&k, "z", TF_FLOAT);
    TF_Output y = kit_unary(&k, "Neg", "y", x), dx = none;
    TF_AddGradients(k.g, &y, 1, &z, 1, NULL, k.s, &dx);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT,
               "Cannot compute the partial derivative for node 'z' as it's unreachable from the "
               "output node(s).");
    TF_AddGradientsWithPrefix(k.g, "x", &y, 1, &x, 1, NULL, k.s, &dx);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "prefix [x] conflicts with existing node");
    TF_AddGradients(k.g, &y, 1, &x, 1, NULL, k.s, NULL);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    TF_AddGradients(k.g, NULL, 0, &x, 1, NULL, k.s, &dx);
    CHECK_CODE(k.s, TF_INVALID_ARGUMENT, "");
    TF_AddGradients(k.g, &y, 1, NULL, 0, NULL, k.s, NULL); /* of nothing: nothing */
    CHECK_OK(k.s);
    kit_free(&k);
}

/* As TensorFlow's C API: integers too, and all nodes in one scope. */
MR_TEST(capi_gradients_of_integers_and_their_names)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_INT32), y = kit_unary(&k, "Square", "y", x), dx = none;
    TF_AddGradients(k.g, &y, 1, &x, 1, NULL, k.s, &dx);
    CHECK_OK(k.s);
    TF_Session *s = kit_session(&k);
    TF_Tensor *five = kit_int(5), *t = kit_run(&k, s, x, five, dx);
    CHECK_OK(k.s);
    MR_CHECK_INT(kit_take_int(t), 10);
    TF_DeleteTensor(five);
    kit_close(&k, s);
    TF_Output a = kit_placeholder(&k, "a", TF_FLOAT), b = kit_placeholder(&k, "b", TF_FLOAT), xs[2] = {a, b}, dxs[2];
    TF_Output c = kit_binary(&k, "MatMul", "MatMul", a, b);
    TF_AddGradientsWithPrefix(k.g, "g", &c, 1, xs, 2, NULL, k.s, dxs);
    CHECK_OK(k.s);
    MR_CHECK_STR(TF_OperationName(dxs[0].oper), "g/MatMul");
    MR_CHECK_STR(TF_OperationName(dxs[1].oper), "g/MatMul_1");
    MR_CHECK(TF_GraphOperationByName(k.g, "g/OnesLike") != NULL);
    kit_free(&k);
}

MR_TEST(capi_gradients_that_do_not_arrive_are_nothing)
{
    kit k = kit_new();
    TF_Output x = kit_placeholder(&k, "x", TF_FLOAT), dx = {x.oper, 0};
    TF_Output y = kit_unary(&k, "Floor", "y", x);
    TF_AddGradients(k.g, &y, 1, &x, 1, NULL, k.s, &dx);
    CHECK_OK(k.s);
    MR_CHECK(!dx.oper && dx.index == -1);
    kit_free(&k);
}
