/* ops/queue/calls_fixture.c -- see calls_fixture.h. */
#include "ops/queue/calls_fixture.h"

#include "base/memory.h"
#include "ops/table.h"

void mr_calls_init(mr_calls *c)
{
    mr_ops_register();
    c->graph = mr_graph_new();
    mr_scope_init(&c->scope, c->graph, "");
    MR_CHECK_OK(
        mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &c->device));
    c->session = mr_cancel_new(NULL);
}

void mr_calls_deinit(mr_calls *c)
{
    mr_cancel_free(c->session);
    mr_device_free(c->device);
    mr_scope_deinit(&c->scope);
    mr_graph_unref(c->graph);
}

mr_callee mr_callee_make(mr_calls *c, const char *op, const mr_named_attr *attrs, int n_attrs,
                         mr_out handle, int n_types, const mr_dtype *types)
{
    mr_out in[8];
    int n = 0;
    MR_CHECK(n_types < 8);
    if (handle.node)
        in[n++] = handle;
    for (int i = 0; i < n_types; i++)
        in[n++] = mr_placeholder(&c->scope, types[i], "in", NULL);
    mr_callee k = {mr_emit_n(&c->scope, op, attrs, n_attrs, in, n).node, NULL};
    MR_CHECK_OK(mr_scope_status(&c->scope));
    MR_CHECK_OK(
        mr_instance_new(&(mr_make){k.node, NULL, c->device, c->graph->library}, &k.kernel));
    return k;
}

void mr_callee_deinit(mr_callee *k) { mr_instance_unref(k->kernel); }

static void call_done(mr_run *r, mr_status *st)
{
    mr_call *c = (mr_call *)r;
    mr_lock(&c->mu);
    MR_CHECK(!c->ended);
    c->ended = true;
    c->st = st;
    mr_cond_signal(&c->changed);
    mr_unlock(&c->mu);
}

mr_call *mr_call_new(mr_calls *calls, const mr_callee *k, int n_in, const mr_value *in)
{
    mr_call *c = mr_new(mr_call);
    MR_CHECK_INT(k->node->n_in, n_in);
    MR_CHECK(n_in <= 8 && k->node->n_out <= 8);
    for (int i = 0; i < n_in; i++)
        c->in[i] = in[i];
    c->run = (mr_run){.node = k->node,
                      .kernel = k->kernel->kernel,
                      .state = k->kernel->state,
                      .n_in = n_in,
                      .n_out = k->node->n_out,
                      .in = c->in,
                      .out = c->out,
                      .step = &c->step,
                      .done = call_done};
    c->step = (mr_step){.device = calls->device, .cancel = mr_cancel_new(calls->session)};
    mr_mutex_init(&c->mu);
    mr_cond_init(&c->changed);
    return c;
}

void mr_call_begin(mr_call *c)
{
    if (c->run.kernel->run)
        mr_run_done(&c->run, c->run.kernel->run(&c->run));
    else
        c->run.kernel->run_async(&c->run);
}

void mr_call_cancel(mr_call *c) { mr_cancel_start(c->step.cancel); }

bool mr_call_ended(mr_call *c)
{
    mr_lock(&c->mu);
    bool ended = c->ended;
    mr_unlock(&c->mu);
    return ended;
}

mr_status *mr_call_end(mr_call *c, mr_tensor **out)
{
    mr_lock(&c->mu);
    while (!c->ended)
        mr_cond_wait(&c->changed, &c->mu);
    mr_status *st = c->st;
    mr_unlock(&c->mu);
    for (int i = 0; i < c->run.n_out; i++) {
        MR_CHECK(st || c->out[i].kind == MR_LIVE || c->out[i].kind == MR_REF);
        if (out)
            out[i] = !st && c->out[i].kind == MR_LIVE ? mr_tensor_ref(c->out[i].t) : NULL;
        mr_value_drop(&c->out[i]);
    }
    for (int i = 0; i < c->run.n_in; i++)
        mr_value_drop(&c->in[i]);
    mr_cancel_free(c->step.cancel);
    mr_cond_deinit(&c->changed);
    mr_mutex_deinit(&c->mu);
    mr_free(c);
    return st;
}

void mr_check_error(const char *file, int line, mr_status *st, mr_code code, const char *text)
{
    if (!st || mr_status_code(st) != code || strcmp(mr_status_message(st), text) != 0)
        mr_test_fail(file, line, "%s: %s\n  expected %s: %s",
                     mr_code_name(st ? mr_status_code(st) : MR_OK),
                     st ? mr_status_message(st) : "", mr_code_name(code), text);
    mr_status_free(st);
}
