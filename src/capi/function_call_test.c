/* capi/function_call_test.c -- a front end's functions in steps. */
#include "base/status.h"
#include "base/thread.h"
#include "capi/graph_fixture.h"
#include "millrace/front_end.h"

static const TF_Output none = {NULL, -1};

/* x and y as floats -> one output of a type. */
static TF_Output function_op(kit *k, const char *op, const char *token, TF_Output x, TF_Output y, TF_DataType type)
{
    TF_OperationDescription *d = TF_NewOperation(k->g, op, token);
    TF_AddInputList(d, (TF_Output[]){x, y}, 2);
    TF_SetAttrString(d, "token", token, strlen(token));
    TF_SetAttrTypeList(d, "Tout", &type, 1);
    return kit_out(kit_finish(k, d), 0);
}

typedef struct fixture {
    kit k;
    TF_Session *s;
    TF_Output out; /* of an op with inputs 5 and 3 */
} fixture;

static fixture fixture_new(const char *op, const char *token, mr_function_hook *hook, void *ctx)
{
    fixture r = {.k = kit_new()};
    mr_set_function_hook(hook, ctx);
    r.out =
        function_op(&r.k, op, token, kit_const(&r.k, "x", kit_float(5)), kit_const(&r.k, "y", kit_float(3)), TF_FLOAT);
    r.s = kit_session(&r.k);
    return r;
}

static TF_Tensor *fixture_run(fixture *r) { return kit_run(&r->k, r->s, none, NULL, r->out); }

static void fixture_free(fixture *r)
{
    kit_close(&r->k, r->s);
    kit_free(&r->k);
    mr_set_function_hook(NULL, NULL);
}

/* ---- hooks ---- */

static void set_difference(mr_function_call *c)
{
    TF_Tensor *x = mr_function_call_input(c, 0), *y = mr_function_call_input(c, 1);
    MR_CHECK(x && y);
    mr_function_call_set_output(c, 0, kit_float(kit_take_float(x) - kit_take_float(y)));
}

static void subtract(void *ctx, mr_function_call *c)
{
    size_t n = 0;
    const char *token = mr_function_call_token(c, &n);
    MR_CHECK(n == 6 && memcmp(token, "minus_", 6) == 0);
    MR_CHECK(mr_function_call_num_inputs(c) == 2 && mr_function_call_num_outputs(c) == 1);
    MR_CHECK(mr_function_call_output_type(c, 0) == TF_FLOAT);
    set_difference(c);
    ++*(int *)ctx;
    mr_function_call_finish(c, NULL);
}

static void looks_too_far(void *ctx, mr_function_call *c)
{
    (void)ctx;
    MR_CHECK(!mr_function_call_input(c, -1) && !mr_function_call_input(c, 2));
    MR_CHECK((int)mr_function_call_output_type(c, -1) == 0 && (int)mr_function_call_output_type(c, 1) == 0);
    mr_function_call_set_output(c, 1, kit_float(7));
    mr_function_call_set_output(c, -1, kit_float(7));
    mr_function_call_set_output(c, 0, kit_float(7));
    mr_function_call_set_output(c, 0, NULL);
    mr_function_call_set_output(c, 0, kit_float(8));
    mr_function_call_set_output(c, 0, kit_float(9));
    mr_function_call_finish(c, NULL);
}

static void fails(void *ctx, mr_function_call *c)
{
    TF_Status *s = ctx;
    set_difference(c); /* dropped */
    mr_function_call_finish(c, s);
}

static void returns_an_int(void *ctx, mr_function_call *c)
{
    (void)ctx;
    mr_function_call_set_output(c, 0, kit_int(1));
    mr_function_call_finish(c, NULL);
}

static void returns_nothing(void *ctx, mr_function_call *c)
{
    (void)ctx;
    mr_function_call_finish(c, NULL);
}

static void returns_its_input(void *ctx, mr_function_call *c)
{
    (void)ctx;
    mr_function_call_set_output(c, 0, mr_function_call_input(c, 1));
    mr_function_call_finish(c, NULL);
}

/* ---- tests ---- */

MR_TEST(function_call_computes_in_the_front_end)
{
    const char *ops[] = {"PyFunc", "PyFuncStateless", "EagerPyFunc"};
    for (int i = 0; i < 3; i++) {
        int n = 0;
        fixture r = fixture_new(ops[i], "minus_", subtract, &n);
        MR_CHECK(kit_take_float(fixture_run(&r)) == 2);
        CHECK_OK(r.k.s);
        MR_CHECK(n == 1); /* neither folded nor called twice */
        MR_CHECK(kit_take_float(fixture_run(&r)) == 2);
        MR_CHECK(n == 2);
        fixture_free(&r);
    }
}

MR_TEST(function_call_has_no_inputs_or_outputs_but_its_own)
{
    fixture r = fixture_new("PyFunc", "f", looks_too_far, NULL);
    MR_CHECK(kit_take_float(fixture_run(&r)) == 9);
    fixture_free(&r);
}

MR_TEST(function_call_may_return_its_input)
{
    fixture r = fixture_new("PyFunc", "f", returns_its_input, NULL);
    MR_CHECK(kit_take_float(fixture_run(&r)) == 3);
    fixture_free(&r);
}

MR_TEST(function_call_passes_an_error_on)
{
    TF_Status *s = TF_NewStatus();
    fixture r = fixture_new("PyFunc", "f", fails, s);
    TF_SetStatus(s, TF_OUT_OF_RANGE, "ValueError: too much");
    MR_CHECK(!fixture_run(&r));
    CHECK_CODE(r.k.s, TF_OUT_OF_RANGE, "ValueError: too much");
    TF_SetStatus(s, TF_OK, "");
    MR_CHECK(kit_take_float(fixture_run(&r)) == 2);
    fixture_free(&r);
    TF_DeleteStatus(s);
}

MR_TEST(function_call_with_another_type_fails)
{
    fixture r = fixture_new("PyFunc", "f", returns_an_int, NULL);
    MR_CHECK(!fixture_run(&r));
    CHECK_CODE(r.k.s, TF_INVALID_ARGUMENT, "0-th value returned by f is int32, but expects float");
    fixture_free(&r);
}

MR_TEST(function_call_without_a_value_fails)
{
    fixture r = fixture_new("PyFunc", "f", returns_nothing, NULL);
    MR_CHECK(!fixture_run(&r));
    CHECK_CODE(r.k.s, TF_INTERNAL, "f returned no value 0");
    fixture_free(&r);
}

MR_TEST(function_call_needs_a_hook)
{
    int n = 0;
    fixture r = fixture_new("PyFunc", "minus_", subtract, &n);
    mr_set_function_hook(NULL, NULL);
    MR_CHECK(!fixture_run(&r));
    CHECK_CODE(r.k.s, TF_UNIMPLEMENTED, "minus_");
    MR_CHECK(n == 0);
    fixture_free(&r);
}

/* ---- in another thread ---- */

typedef struct desk { /* one call waits here for the other thread */
    mr_mutex mu;
    mr_cond changed;
    mr_function_call *call;
} desk;

static void lay_down(void *ctx, mr_function_call *c)
{
    desk *d = ctx;
    mr_lock(&d->mu);
    d->call = c;
    mr_cond_broadcast(&d->changed);
    mr_unlock(&d->mu);
}

static void finish_one(void *arg)
{
    desk *d = arg;
    mr_lock(&d->mu);
    while (!d->call)
        mr_cond_wait(&d->changed, &d->mu);
    mr_function_call *c = d->call;
    d->call = NULL;
    mr_unlock(&d->mu);
    set_difference(c);
    mr_function_call_finish(c, NULL);
}

MR_TEST(function_call_may_be_finished_by_another_thread)
{
    desk d = {0};
    mr_thread t;
    mr_mutex_init(&d.mu);
    mr_cond_init(&d.changed);
    fixture r = fixture_new("PyFunc", "f", lay_down, &d);
    for (int i = 0; i < 20; i++) {
        MR_CHECK(mr_thread_start(&t, "front-end", finish_one, &d) == 0);
        MR_CHECK(kit_take_float(fixture_run(&r)) == 2);
        mr_thread_join(&t);
    }
    fixture_free(&r);
    mr_cond_deinit(&d.changed);
    mr_mutex_deinit(&d.mu);
}
