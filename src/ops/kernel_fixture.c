/* ops/kernel_fixture.c -- see kernel_fixture.h. */
#include "ops/kernel_fixture.h"

#include "base/memory.h"
#include "ops/table.h"
#include "tests/harness/test.h"

void mr_kernel_fixture_init(mr_kernel_fixture *b, int threads, const char *op, const mr_named_attr *attrs,
                   int n_attrs, int n_in, const mr_dtype *types)
{
    *b = (mr_kernel_fixture){0};
    mr_ops_register();
    b->graph = mr_graph_new();
    mr_scope_init(&b->scope, b->graph, "");
    mr_out in[32];
    MR_CHECK(n_in <= 32);
    for (int i = 0; i < n_in; i++)
        in[i] = mr_placeholder(&b->scope, types[i], "in", NULL);
    mr_out out = mr_emit_n(&b->scope, op, attrs, n_attrs, in, n_in);
    MR_CHECK_OK(mr_scope_status(&b->scope));
    b->node = out.node;
    MR_CHECK_OK(mr_pool_new("bench", threads, &b->pool));
    MR_CHECK_OK(
        mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", b->pool, &b->device));
    MR_CHECK_OK(
        mr_instance_new(&(mr_make){b->node, NULL, b->device, b->graph->library}, &b->kernel));
}

void mr_kernel_fixture_deinit(mr_kernel_fixture *b)
{
    mr_instance_unref(b->kernel);
    mr_device_free(b->device);
    mr_pool_free(b->pool);
    mr_scope_deinit(&b->scope);
    mr_graph_unref(b->graph);
}

mr_status *mr_kernel_fixture_run(mr_kernel_fixture *b, mr_tensor **in, mr_tensor **out)
{
    mr_value values[64] = {{.kind = MR_ABSENT}};
    mr_step step = {.device = b->device};
    mr_run r = {.node = b->node,
                .kernel = b->kernel->kernel,
                .state = b->kernel->state,
                .n_in = b->node->n_in,
                .n_out = b->node->n_out,
                .in = values,
                .out = values + 32,
                .step = &step};
    for (int i = 0; i < r.n_in; i++)
        values[i] = (mr_value){.t = in[i], .kind = MR_LIVE};
    mr_status *st = r.kernel->run(&r);
    for (int i = 0; i < r.n_in; i++)
        mr_value_drop(&r.in[i]);
    for (int i = 0; i < r.n_out; i++) {
        out[i] = r.out[i].kind == MR_LIVE ? r.out[i].t : NULL;
        if (st) {
            mr_value_drop(&r.out[i]);
            out[i] = NULL;
        }
    }
    return st;
}

mr_tensor *mr_kernel_fixture_random(mr_dtype type, int rank, const int64_t *dims)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, type, rank, dims, &t));
    for (int64_t i = 0; i < t->n; i++) {
        int64_t v = (int64_t)(mr_test_random() % 17) - 8;
        bool is_signed = mr_dtype_is_floating(type) || mr_dtype_is_complex(type) ||
                         type == MR_INT8 || type == MR_INT16 || type == MR_INT32 ||
                         type == MR_INT64;
        v = is_signed ? v : v + 8;
        mr_dtype_convert(MR_INT64, &v, type, (char *)t->data + (size_t)i * mr_dtype_size(type), 1,
                         false);
    }
    return t;
}

double mr_kernel_fixture_at(const mr_tensor *t, int64_t i)
{
    double v = 0;
    mr_dtype_convert((mr_dtype)t->dtype,
                     (char *)t->data + (size_t)i * mr_dtype_size((mr_dtype)t->dtype), MR_DOUBLE, &v,
                     1, false);
    return v;
}
