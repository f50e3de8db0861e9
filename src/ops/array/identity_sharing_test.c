/* ops/array/identity_sharing_test.c -- which ops share a buffer instead of copying it, and which overwrite one. */
#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

/* ---- one call ---- */

typedef struct call {
    mr_kernel_fixture b;
    int n_in, n_out;
    mr_tensor *in[4]; /* the caller keeps references too, so nothing may be overwritten */
    mr_tensor *out[4];
} call;

static void call_op(call *c, const char *op, const mr_named_attr *attrs, int n_attrs, int n_in,
                    mr_tensor *const *in)
{
    mr_dtype types[4];
    mr_tensor *handed[4];
    c->n_in = n_in;
    for (int i = 0; i < n_in; i++) {
        c->in[i] = in[i];
        types[i] = in[i]->dtype;
        handed[i] = mr_tensor_ref(in[i]);
    }
    mr_kernel_fixture_init(&c->b, 1, op, attrs, n_attrs, n_in, types);
    MR_CHECK_OK(mr_kernel_fixture_run(&c->b, handed, c->out));
    c->n_out = c->b.node->n_out;
}

static void call_end(call *c)
{
    for (int i = 0; i < c->n_in; i++)
        mr_tensor_unref(c->in[i]);
    for (int i = 0; i < c->n_out; i++)
        mr_tensor_unref(c->out[i]);
    mr_kernel_fixture_deinit(&c->b);
}

static mr_tensor *ints(int n, const int32_t *v) { return mr_tensor_vector_i32(n, v); }
#define INTS(...) ints(MR_COUNT(((int32_t[]){__VA_ARGS__})), (int32_t[]){__VA_ARGS__})
static mr_tensor *matrix(int64_t rows, int64_t cols)
{
    return mr_kernel_fixture_random(MR_FLOAT, 2, (int64_t[]){rows, cols});
}

static void check_shared(const char *op, mr_tensor *x, mr_tensor *arg, bool want)
{
    call c;
    call_op(&c, op, NULL, 0, arg ? 2 : 1, (mr_tensor *[]){x, arg});
    if (mr_tensor_shares_buffer(c.out[0], c.in[0]) != want)
        mr_test_fail(__FILE__, __LINE__, "%s %s the buffer", op,
                     want ? "does not share" : "shares");
    call_end(&c);
}

MR_TEST(array_ops_of_shape_share_the_buffer)
{
    check_shared("Identity", matrix(10, 30), NULL, true);
    check_shared("Reshape", matrix(10, 30), INTS(-1, 5), true);
    check_shared("Squeeze", matrix(1, 300), NULL, true);
    check_shared("ExpandDims", matrix(10, 30), INTS(1), true);
    check_shared("Transpose", matrix(1, 300), INTS(1, 0), true);
    check_shared("Transpose", matrix(10, 30), INTS(0, 1), true);
    check_shared("Transpose", matrix(10, 30), INTS(1, 0), false);
    check_shared("Tile", matrix(10, 30), INTS(1, 1), true);
    check_shared("BroadcastTo", matrix(10, 30), INTS(10, 30), true);
    check_shared("ReverseV2", matrix(1, 300), INTS(0), true);
}

static void check_slice(int64_t rows, int64_t cols, mr_tensor *begin, mr_tensor *size, bool want)
{
    call c;
    call_op(&c, "Slice", NULL, 0, 3, (mr_tensor *[]){matrix(rows, cols), begin, size});
    MR_CHECK_INT(mr_tensor_shares_buffer(c.out[0], c.in[0]), want);
    int64_t at = mr_tensor_int_at(c.in[1], 0) * cols + mr_tensor_int_at(c.in[1], 1);
    MR_CHECK_NEAR(mr_kernel_fixture_at(c.out[0], 0), mr_kernel_fixture_at(c.in[0], at), 0);
    call_end(&c);
}

MR_TEST(slice_of_whole_rows_shares_the_buffer)
{
    check_slice(20, 30, INTS(3, 0), INTS(10, 30), true);
    check_slice(2, 1000, INTS(1, 100), INTS(1, 800), true);
}

MR_TEST(slice_of_columns_or_of_little_copies)
{
    check_slice(20, 30, INTS(0, 1), INTS(20, 20), false);
    check_slice(20, 30, INTS(3, 0), INTS(1, 30), false);
}

MR_TEST(split_and_unpack_along_dimension_0_share_the_buffer)
{
    call c;
    call_op(&c, "Split", MR_ATTRS({"num_split", mr_a_int(2)}), 2,
            (mr_tensor *[]){mr_tensor_scalar_i32(0), matrix(20, 30)});
    MR_CHECK(mr_tensor_shares_buffer(c.out[1], c.in[1]));
    MR_CHECK_NEAR(mr_kernel_fixture_at(c.out[1], 0), mr_kernel_fixture_at(c.in[1], 300), 0);
    call_end(&c);
    call_op(&c, "Unpack", MR_ATTRS({"num", mr_a_int(2)}), 1, (mr_tensor *[]){matrix(2, 300)});
    MR_CHECK(mr_tensor_shares_buffer(c.out[1], c.in[0]));
    MR_CHECK_INT(c.out[1]->rank, 1);
    call_end(&c);
}

MR_TEST(split_along_another_dimension_copies)
{
    call c;
    call_op(&c, "Split", MR_ATTRS({"num_split", mr_a_int(2)}), 2,
            (mr_tensor *[]){mr_tensor_scalar_i32(1), matrix(20, 30)});
    MR_CHECK(!mr_tensor_shares_buffer(c.out[1], c.in[1]));
    MR_CHECK_NEAR(mr_kernel_fixture_at(c.out[1], 15), mr_kernel_fixture_at(c.in[1], 45), 0);
    call_end(&c);
}

MR_TEST(concat_with_empty_pieces_hands_the_other_on)
{
    call c;
    call_op(&c, "ConcatV2", MR_ATTRS({"N", mr_a_int(2)}), 3,
            (mr_tensor *[]){matrix(20, 30), matrix(0, 30), mr_tensor_scalar_i32(0)});
    MR_CHECK(mr_tensor_shares_buffer(c.out[0], c.in[0]));
    call_end(&c);
}

/* ---- overwriting an input ---- */

MR_TEST(matrix_set_diag_writes_over_an_input_nobody_else_holds)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, "MatrixSetDiag", NULL, 0, 2, (mr_dtype[]){MR_FLOAT, MR_FLOAT});
    mr_tensor *x = matrix(20, 20), *d = mr_kernel_fixture_random(MR_FLOAT, 1, (int64_t[]){20}), *y;
    void *data = x->data;
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){x, d}, &y));
    MR_CHECK(y->data == data);
    mr_tensor_unref(y);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(matrix_set_diag_leaves_an_input_others_hold_alone)
{
    mr_tensor *x = matrix(20, 20), *before;
    MR_CHECK_OK(mr_tensor_copy(NULL, x, &before));
    call c;
    call_op(&c, "MatrixSetDiag", NULL, 0, 2,
            (mr_tensor *[]){x, mr_kernel_fixture_random(MR_FLOAT, 1, (int64_t[]){20})});
    MR_CHECK(mr_tensor_equal(c.in[0], before));
    mr_tensor_unref(before);
    call_end(&c);
}

MR_TEST(const_hands_out_one_buffer_that_is_never_sole)
{
    call c;
    mr_tensor *value = mr_tensor_scalar_f32(3), *again;
    mr_tensor_attr attr = {.t = value};
    call_op(&c, "Const",
            MR_ATTRS({"value", (mr_attr){MR_ATTR_TENSOR, .tensor = &attr}},
                     {"dtype", mr_a_type(MR_FLOAT)}),
            0, NULL);
    MR_CHECK_OK(mr_kernel_fixture_run(&c.b, NULL, &again));
    MR_CHECK(c.out[0]->data == again->data);
    MR_CHECK(!mr_tensor_sole(again));
    mr_tensor_unref(again);
    mr_tensor_unref(value);
    call_end(&c);
}
