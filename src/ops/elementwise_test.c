/* ops/elementwise_test.c -- broadcasting against a plain loop, reuse of memory, threads. */
#include "ops/broadcast.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

static const mr_dtype two_floats[] = {MR_FLOAT, MR_FLOAT};

/* Two shapes that broadcast, with rows both longer and shorter than the limits of elementwise.c. */
static void random_shapes(int *rank, int64_t a[], int64_t b[])
{
    static const int64_t sizes[] = {1, 1, 2, 3, 5, 40, 130};
    *rank = (int)(mr_test_random() % 5);
    int64_t n = 1;
    for (int d = 0; d < *rank; d++) {
        int64_t size = sizes[mr_test_random() % 7];
        size = n * size > 200000 ? 1 : size;
        n *= size;
        a[d] = mr_test_random() % 3 == 0 ? 1 : size;
        b[d] = mr_test_random() % 3 == 0 ? 1 : size;
    }
}

static int64_t index_in(int rank, const int64_t *dims, const int64_t *out, int64_t i)
{
    int64_t offset = 0, step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        offset += dims[d] == 1 ? 0 : i % out[d] * step;
        i /= out[d];
        step *= dims[d];
    }
    return offset;
}

/* Sub of two tensors; the second one lacks the first `skip` dimensions, which are 1. */
static void check_sub_of(mr_kernel_fixture *b, mr_dtype type, int rank, const int64_t *x_dims, const int64_t *y_dims,
                         int skip)
{
    int64_t out[8];
    for (int d = 0; d < rank; d++)
        out[d] = x_dims[d] == 1 ? y_dims[d] : x_dims[d];
    mr_tensor *x = mr_kernel_fixture_random(type, rank, x_dims),
              *y = mr_kernel_fixture_random(type, rank - skip, y_dims + skip), *z;
    MR_CHECK_OK(mr_kernel_fixture_run(b, (mr_tensor *[]){mr_tensor_ref(x), mr_tensor_ref(y)}, &z));
    MR_CHECK(mr_shape_eq(z->rank, z->dims, rank, out));
    for (int64_t i = 0; i < z->n; i++)
        MR_CHECK_NEAR(mr_kernel_fixture_at(z, i),
                      mr_kernel_fixture_at(x, index_in(rank, x_dims, out, i)) -
                          mr_kernel_fixture_at(y, index_in(rank, y_dims, out, i)),
                      0);
    mr_tensor_unref(x);
    mr_tensor_unref(y);
    mr_tensor_unref(z);
}

static void check_sub(mr_kernel_fixture *b, mr_dtype type)
{
    int rank;
    int64_t x_dims[8], y_dims[8];
    random_shapes(&rank, x_dims, y_dims);
    int skip = 0;
    while (skip < rank && y_dims[skip] == 1 && mr_test_random() % 2)
        skip++;
    check_sub_of(b, type, rank, x_dims, y_dims, skip);
}

/* Rows around the limits of elementwise.c, with one number for each row or for all rows, on either side. */
MR_TEST(elementwise_of_long_rows_and_single_numbers)
{
    static const int64_t lengths[] = {95, 96, 97, 103, 111, 112, 127, 1023, 1024, 1025, 5000, 20001};
    static const mr_dtype types[] = {MR_FLOAT, MR_BFLOAT16, MR_DOUBLE};
    for (int t = 0; t < MR_COUNT(types); t++) {
        mr_kernel_fixture b;
        mr_kernel_fixture_init(&b, 3, "Sub", NULL, 0, 2, (mr_dtype[]){types[t], types[t]});
        for (int i = 0; i < MR_COUNT(lengths); i++) {
            int64_t n = lengths[i];
            check_sub_of(&b, types[t], 2, (int64_t[]){7, n}, (int64_t[]){7, 1}, 0);
            check_sub_of(&b, types[t], 2, (int64_t[]){7, 1}, (int64_t[]){7, n}, 0);
            check_sub_of(&b, types[t], 2, (int64_t[]){3, n}, (int64_t[]){1, 1}, 2);
            check_sub_of(&b, types[t], 2, (int64_t[]){1, 1}, (int64_t[]){3, n}, 0);
            check_sub_of(&b, types[t], 3, (int64_t[]){2, 3, n}, (int64_t[]){2, 1, 1}, 0);
            check_sub_of(&b, types[t], 3, (int64_t[]){2, 1, n}, (int64_t[]){1, 3, 1}, 1);
            check_sub_of(&b, types[t], 2, (int64_t[]){4, 1}, (int64_t[]){1, n}, 1);
        }
        mr_kernel_fixture_deinit(&b);
    }
}

MR_TEST(elementwise_broadcast_equals_a_plain_loop)
{
    static const mr_dtype types[] = {MR_FLOAT, MR_HALF, MR_INT8, MR_DOUBLE};
    for (int t = 0; t < 4; t++) {
        mr_kernel_fixture b;
        mr_kernel_fixture_init(&b, 2, "Sub", NULL, 0, 2, (mr_dtype[]){types[t], types[t]});
        for (int i = 0; i < 60; i++)
            check_sub(&b, types[t]);
        mr_kernel_fixture_deinit(&b);
    }
}

MR_TEST(elementwise_writes_over_an_input_nobody_else_holds)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, "Sub", NULL, 0, 2, two_floats);
    int64_t dims[] = {3};
    for (int which = 0; which < 2; which++) {
        mr_tensor *in[2] = {mr_kernel_fixture_random(MR_FLOAT, 1, dims), mr_kernel_fixture_random(MR_FLOAT, 1, dims)},
                  *z;
        float want = MR_DATA(float, in[0])[2] - MR_DATA(float, in[1])[2];
        mr_tensor *kept = mr_tensor_ref(in[!which]);
        void *memory = in[which]->data;
        MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &z));
        MR_CHECK(z->data == memory);
        MR_CHECK_NEAR(MR_DATA(float, z)[2], want, 0);
        mr_tensor_unref(kept);
        mr_tensor_unref(z);
    }
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(elementwise_writes_over_the_larger_operand_of_a_broadcast)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, "Sub", NULL, 0, 2, two_floats);
    int64_t row[] = {3}, matrix[] = {2, 3};
    mr_tensor *in[2] = {mr_kernel_fixture_random(MR_FLOAT, 1, row), mr_kernel_fixture_random(MR_FLOAT, 2, matrix)},
              *z;
    void *memory = in[1]->data;
    float want = MR_DATA(float, in[0])[1] - MR_DATA(float, in[1])[4];
    MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &z));
    MR_CHECK(z->data == memory);
    MR_CHECK_NEAR(MR_DATA(float, z)[4], want, 0);
    mr_tensor_unref(z);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(elementwise_leaves_a_shared_input_alone)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, "Sub", NULL, 0, 2, two_floats);
    int64_t dims[] = {3};
    mr_tensor *x = mr_kernel_fixture_random(MR_FLOAT, 1, dims), *z;
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(x), mr_tensor_ref(x)}, &z));
    MR_CHECK(z->data != x->data);
    MR_CHECK_NEAR(MR_DATA(float, z)[0], 0, 0);
    mr_tensor_unref(x);
    mr_tensor_unref(z);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(elementwise_over_threads_covers_every_element)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 4, "Exp", NULL, 0, 1, two_floats);
    int64_t dims[] = {1000003};
    mr_tensor *x = mr_kernel_fixture_random(MR_FLOAT, 1, dims), *y;
    MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){mr_tensor_ref(x)}, &y));
    for (int64_t i = 0; i < x->n; i++)
        MR_CHECK_NEAR(MR_DATA(float, y)[i], expf(MR_DATA(float, x)[i]), 1e-3);
    mr_tensor_unref(x);
    mr_tensor_unref(y);
    mr_kernel_fixture_deinit(&b);
}

/* ---- the walk ---- */

static void make_walk(mr_broadcast *b, int ra, const int64_t *x, int rb, const int64_t *y)
{
    mr_broadcast_init(b);
    MR_CHECK_OK(mr_broadcast_add(b, ra, x));
    MR_CHECK_OK(mr_broadcast_add(b, rb, y));
    MR_CHECK_OK(mr_broadcast_collapse(b));
}

MR_TEST(broadcast_collapses_what_operands_step_through_alike)
{
    mr_broadcast b;
    make_walk(&b, 4, (int64_t[]){8, 1, 28, 28}, 4, (int64_t[]){8, 16, 28, 28});
    MR_CHECK_INT(b.rank, 3);
    MR_CHECK_INT(b.dims[2], 784);
    make_walk(&b, 3, (int64_t[]){2, 3, 4}, 3, (int64_t[]){2, 3, 4});
    MR_CHECK_INT(b.rank, 1);
    MR_CHECK(mr_broadcast_direct(&b, 0) && mr_broadcast_direct(&b, 1));
    make_walk(&b, 2, (int64_t[]){1, 1}, 0, NULL);
    MR_CHECK_INT(b.rank, 0);
    MR_CHECK_INT(b.n, 1);
}

MR_TEST(broadcast_period_is_where_an_operand_begins_anew)
{
    mr_broadcast b;
    make_walk(&b, 2, (int64_t[]){5, 3}, 1, (int64_t[]){3});
    MR_CHECK_INT(mr_broadcast_period(&b, 0), 15);
    MR_CHECK_INT(mr_broadcast_period(&b, 1), 3);
    make_walk(&b, 2, (int64_t[]){5, 3}, 0, NULL);
    MR_CHECK_INT(mr_broadcast_period(&b, 1), 1);
}

MR_TEST(broadcast_refuses_shapes_that_do_not_fit)
{
    mr_broadcast b;
    mr_broadcast_init(&b);
    MR_CHECK_OK(mr_broadcast_add(&b, 1, (int64_t[]){2}));
    MR_CHECK_ERR(mr_broadcast_add(&b, 1, (int64_t[]){3}), MR_INVALID_ARGUMENT,
                 "Incompatible shapes: [2] vs. [3]");
}

MR_TEST(broadcast_refuses_a_result_too_large_to_count)
{
    mr_broadcast b;
    mr_broadcast_init(&b);
    MR_CHECK_OK(mr_broadcast_add(&b, 2, (int64_t[]){INT64_C(1) << 40, 1}));
    MR_CHECK_OK(mr_broadcast_add(&b, 1, (int64_t[]){INT64_C(1) << 40}));
    MR_CHECK_ERR(mr_broadcast_collapse(&b), MR_INVALID_ARGUMENT, "");
}

/* Shapes that inference does not know reach the kernel, which then has to check them itself. */
MR_TEST(elementwise_gradients_do_not_broadcast)
{
    mr_kernel_fixture b;
    mr_tensor *in[2], *out[1];
    mr_kernel_fixture_init(&b, 1, "TanhGrad", NULL, 0, 2, (mr_dtype[]){MR_FLOAT, MR_FLOAT});
    in[0] = mr_kernel_fixture_random(MR_FLOAT, 1, (int64_t[]){2});
    in[1] = mr_kernel_fixture_random(MR_FLOAT, 2, (int64_t[]){3, 2});
    MR_CHECK_ERR(mr_kernel_fixture_run(&b, in, out), MR_INVALID_ARGUMENT, "must have same number of elements");
    mr_kernel_fixture_deinit(&b);
}
