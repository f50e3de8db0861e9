/* exec/functional_fixture.c */
#include "exec/functional_fixture.h"

#include "base/memory.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

void function_fixture_init(function_fixture *b)
{
    mr_ops_register();
    *b = (function_fixture){.g = mr_graph_new()};
    mr_scope_init(&b->s, b->g, "");
    b->x = mr_placeholder(&b->s, MR_FLOAT, "x", NULL);
}

void function_fixture_deinit(function_fixture *b)
{
    mr_session_free(b->session);
    mr_scope_deinit(&b->s);
    mr_graph_unref(b->g);
}

mr_status *function_fixture_run(function_fixture *b, float x, mr_out y, float *out)
{
    MR_CHECK_OK(mr_scope_status(&b->s));
    if (!b->session)
        MR_CHECK_OK(mr_direct_session_new(b->g, NULL, &b->config, &b->session));
    mr_tensor *v = mr_tensor_scalar_f32(x), *got = NULL;
    mr_run_args args = {.feeds = &b->x, .feed_values = &v, .n_feeds = 1, .fetches = &y, .fetched = &got, .n_fetches = 1};
    mr_run_options options = {.timeout_ms = b->timeout_ms};
    mr_status *st = mr_session_run(b->session, &args, &options, NULL);
    if (!st)
        *out = got->dtype == MR_FLOAT ? *MR_DATA(float, got) : (float)mr_tensor_int_at(got, 0);
    mr_tensor_unref(got);
    mr_tensor_unref(v);
    return st;
}

float function_fixture_value(function_fixture *b, float x, mr_out y)
{
    float v = 0;
    MR_CHECK_OK(function_fixture_run(b, x, y, &v));
    return v;
}

mr_out function_fixture_begin_types(function_fixture *b, int n, const int *types)
{
    b->fg = mr_graph_new();
    MR_CHECK_OK(mr_library_copy(b->g->library, b->fg->library));
    mr_scope_init(&b->f, b->fg, "");
    b->n_args = n;
    for (int i = 0; i < n; i++) {
        char name[] = {'a', (char)('0' + i), '\0'};
        b->args[i] = mr_placeholder(&b->f, (mr_dtype)types[i], name, NULL);
    }
    return b->args[0];
}

mr_out function_fixture_begin(function_fixture *b, int n)
{
    static const int floats[8] = {MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT};
    return function_fixture_begin_types(b, n, floats);
}

void function_fixture_end_n(function_fixture *b, const char *name, const mr_out *results, int n)
{
    mr_function *made;
    MR_CHECK_OK(mr_scope_status(&b->f));
    mr_function_spec spec = {.name = name, .n_nodes = -1, .n_inputs = b->n_args, .inputs = b->args, .n_outputs = n, .outputs = results};
    MR_CHECK_OK(mr_function_from_graph(b->fg, &spec, &made));
    MR_CHECK_OK(mr_library_copy(b->fg->library, b->g->library));
    MR_CHECK_OK(mr_library_add(b->g->library, made));
    mr_function_unref(made);
    mr_scope_deinit(&b->f);
    mr_graph_unref(b->fg);
}

void function_fixture_end(function_fixture *b, const char *name, mr_out result)
{
    function_fixture_end_n(b, name, &result, 1);
}

void function_fixture_end2(function_fixture *b, const char *name, mr_out first, mr_out second)
{
    function_fixture_end_n(b, name, (const mr_out[]){first, second}, 2);
}

static const int one_float[] = {MR_FLOAT};

mr_out function_fixture_if(mr_scope *s, const char *op, mr_out cond, const char *yes, const char *no, mr_out x)
{
    mr_func_ref then = {.name = yes}, other = {.name = no};
    return mr_emit_with(s, op, MR_ATTRS({"Tin", mr_a_types(1, one_float)}, {"Tout", mr_a_types(1, one_float)},
                                        {"then_branch", {MR_ATTR_FUNC, .func = &then}},
                                        {"else_branch", {MR_ATTR_FUNC, .func = &other}}), cond, x);
}

mr_out function_fixture_while_n(mr_scope *s, const char *op, const char *cond, const char *body, const mr_out *in,
                                int n)
{
    mr_func_ref c = {.name = cond}, f = {.name = body};
    int types[16];
    for (int i = 0; i < n; i++)
        types[i] = in[i].node ? (int)mr_dtype_base(mr_out_type(in[i])) : MR_FLOAT;
    mr_named_attr attrs[] = {{"T", mr_a_types(n, types)}, {"cond", {MR_ATTR_FUNC, .func = &c}}, {"body", {MR_ATTR_FUNC, .func = &f}}};
    return mr_emit_n(s, op, attrs, 3, in, n);
}

mr_out function_fixture_while(mr_scope *s, const char *op, const char *cond, const char *body, mr_out x, mr_out y)
{
    return function_fixture_while_n(s, op, cond, body, (const mr_out[]){x, y}, 2);
}

mr_out function_fixture_while1(mr_scope *s, const char *op, const char *cond, const char *body, mr_out x)
{
    return function_fixture_while_n(s, op, cond, body, &x, 1);
}

mr_out function_fixture_call(mr_scope *s, const char *f, mr_out x)
{
    mr_func_ref ref = {.name = f};
    return mr_emit_with(s, "PartitionedCall", MR_ATTRS({"Tin", mr_a_types(1, one_float)}, {"Tout", mr_a_types(1, one_float)},
                                                       {"f", {MR_ATTR_FUNC, .func = &ref}}), x);
}

mr_out function_fixture_gradient(function_fixture *b, mr_out y)
{
    mr_gradient dx = MR_NO_GRAD;
    MR_CHECK_OK(mr_scope_status(&b->s));
    MR_CHECK_OK(mr_graph_gradients(b->g, &y, 1, &b->x, 1, NULL, &dx));
    MR_CHECK(dx.dense.node != NULL);
    return dx.dense;
}
