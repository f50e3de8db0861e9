/* ops/state/scatter_test.c -- the gradient of ResourceGather equals that of GatherV2 on the same value; the loops that
 * update rows. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/state/update.h"
#include "ops/table.h"
#include "ops/values_fixture.h"
#include "tests/harness/test.h"

static mr_tensor *numbers(mr_dtype type, int rank, const int64_t *dims, int64_t below)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, type, rank, dims, &t));
    for (int64_t i = 0; i < t->n; i++) {
        int64_t v = (int64_t)(mr_test_random() % (uint64_t)below);
        mr_dtype_convert(MR_INT64, &v, type, (char *)t->data + (size_t)i * mr_dtype_size(type), 1,
                         false);
    }
    return t;
}

/* The gradient of `from` by the weights of `out`, made dense. */
static mr_out gradient(mr_graph *g, mr_out out, mr_out weights, mr_out from)
{
    mr_gradient dy = MR_NO_GRAD, dx;
    dy.dense = weights;
    MR_CHECK_OK(
        mr_graph_gradients(g, &out, 1, &from, 1, &(mr_gradient_options){.grad_ys = &dy}, &dx));
    return dx.dense;
}

static void check(int64_t batch, mr_dtype index_type, int rank, const int64_t *dims, int n_out,
                  const int64_t *out_dims)
{
    mr_ops_register();
    mr_graph *g = mr_graph_new();
    mr_scope s;
    mr_device *device;
    mr_values v;
    mr_tensor *value = numbers(MR_FLOAT, 3, (const int64_t[]){2, 3, 2}, 100), *by_variable,
              *by_value;
    MR_CHECK_OK(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &device));
    mr_scope_init(&s, g, "");
    mr_attr shape = mr_a_shape(mr_pshape_of(&g->arena, 3, value->dims)), type = mr_a_type(MR_FLOAT);
    mr_out handle = mr_emit0_with(&s, "VarHandleOp", MR_ATTRS({"dtype", type}, {"shape", shape}));
    mr_out params = mr_const(&s, value);
    mr_out assign = mr_emit(&s, "AssignVariableOp", handle, params);
    mr_out indices = mr_const(&s, numbers(index_type, rank, dims, 2)); /* with repetitions */
    mr_out weights = mr_const(&s, numbers(MR_FLOAT, n_out, out_dims, 50));
    mr_named_attr attrs[] = {{"batch_dims", mr_a_int(batch)}, {"dtype", type}};
    mr_out a = mr_emit_n(&s, "ResourceGather", attrs, 2, MR_OUTS(handle, indices));
    mr_out axis = mr_const_i32(&s, (int32_t)batch);
    mr_out b = mr_emit_n(&s, "GatherV2", attrs, 1, MR_OUTS(params, indices, axis));
    MR_CHECK_OK(mr_scope_status(&s));
    mr_out da = gradient(g, a, weights, handle), db = gradient(g, b, weights, params);
    mr_values_init(&v, g, device);
    MR_CHECK_OK(mr_values_get(&v, assign, &by_value));
    MR_CHECK_OK(mr_values_get(&v, da, &by_variable));
    MR_CHECK_OK(mr_values_get(&v, db, &by_value));
    MR_CHECK(mr_tensor_equal(by_variable, by_value));
    mr_values_deinit(&v);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    mr_device_free(device);
}

MR_TEST(resource_gather_gradient_of_rows)
{
    check(0, MR_INT32, 1, (const int64_t[]){4}, 3, (const int64_t[]){4, 3, 2});
}

MR_TEST(resource_gather_gradient_of_batches)
{
    check(1, MR_INT32, 2, (const int64_t[]){2, 4}, 3, (const int64_t[]){2, 4, 2});
    check(1, MR_INT64, 1, (const int64_t[]){2}, 2, (const int64_t[]){2, 2});
    check(2, MR_INT64, 3, (const int64_t[]){2, 3, 5}, 3, (const int64_t[]){2, 3, 5});
}

/* Compares the loop of one kind with x OP y for each number of elements, also where rows are not aligned; the elements
 * around them stay. */
static void check_loop(mr_update_kind kind, float sign)
{
    enum { MOST = 70, ROOM = MOST + 8 };
    mr_update_loop *loop = mr_update_find(kind, MR_FLOAT);
    for (int n = 0; n <= MOST; n++) {
        float dst[ROOM], src[ROOM];
        int at = n % 4, from = n % 3;
        for (int i = 0; i < ROOM; i++) {
            dst[i] = (float)i;
            src[i] = (float)(i * i) + 0.5f;
        }
        loop(dst + at, src + from, n);
        for (int i = 0; i < ROOM; i++) {
            bool inside = i >= at && i < at + n;
            float added = inside ? sign * src[i - at + from] : 0.0f;
            MR_CHECK(dst[i] == (float)i + added);
        }
    }
}

MR_TEST(scatter_loops_treat_every_length)
{
    check_loop(MR_UPDATE_ADD, 1);
    check_loop(MR_UPDATE_SUB, -1);
}
