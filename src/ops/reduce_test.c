/* ops/reduce_test.c -- reductions of random shapes against a plain loop. */
#include <stdlib.h>

#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

enum { MAX = 6 };

/* The index in the result of element i of x: its index without the folded dimensions. */
static int64_t target_of(int rank, const int64_t *dims, const bool *fold, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = rank - 1; d >= 0; d--) {
        if (!fold[d]) {
            at += i % dims[d] * step;
            step *= dims[d];
        }
        i /= dims[d];
    }
    return at;
}

static void check_sum(mr_kernel_fixture *b, mr_dtype type, int rank, const int64_t *dims, const bool *fold)
{
    int32_t axes[MAX];
    int n_axes = 0;
    for (int d = 0; d < rank; d++)
        if (fold[d])
            axes[n_axes++] = mr_test_random() % 2 ? d : d - rank;
    mr_tensor *x = mr_kernel_fixture_random(type, rank, dims), *y;
    MR_CHECK_OK(
        mr_kernel_fixture_run(b, (mr_tensor *[]){mr_tensor_ref(x), mr_tensor_vector_i32(n_axes, axes)}, &y));
    double *want = calloc((size_t)y->n + 1, sizeof(double));
    for (int64_t i = 0; i < x->n; i++)
        want[target_of(rank, dims, fold, i)] += mr_kernel_fixture_at(x, i);
    for (int64_t i = 0; i < y->n; i++)
        MR_CHECK_NEAR(mr_kernel_fixture_at(y, i), want[i], fabs(want[i]) * (type == MR_HALF ? 1e-3 : 0));
    free(want);
    mr_tensor_unref(x);
    mr_tensor_unref(y);
}

static void check_random(mr_dtype type)
{
    static const int64_t sizes[] = {1, 2, 3, 7, 30, 70, 600};
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 3, "Sum", NULL, 0, 2, (mr_dtype[]){type, MR_INT32});
    for (int k = 0; k < 80; k++) {
        int rank = (int)(mr_test_random() % 6);
        int64_t dims[MAX], n = 1;
        bool fold[MAX];
        for (int d = 0; d < rank; d++) {
            dims[d] = sizes[mr_test_random() % 7];
            dims[d] = n * dims[d] > 100000 ? 1 : dims[d];
            n *= dims[d];
            fold[d] = mr_test_random() % 2;
        }
        check_sum(&b, type, rank, dims, fold);
    }
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(reduce_of_ints_equals_a_plain_loop) { check_random(MR_INT64); }
MR_TEST(reduce_of_floats_equals_a_plain_loop) { check_random(MR_FLOAT); }
MR_TEST(reduce_of_halfs_equals_a_plain_loop) { check_random(MR_HALF); }

MR_TEST(reduce_cut_into_segments_equals_a_plain_loop)
{
    static const struct {
        int rank;
        int64_t dims[3];
        bool fold[3];
    } cases[] = {{1, {1000003}, {true}},
                 {2, {100001, 9}, {true, false}},
                 {2, {9, 100001}, {false, true}},
                 {3, {300, 5, 700}, {true, false, true}},
                 {3, {2, 70000, 5}, {false, true, false}},
                 {2, {200, 5000}, {true, false}}};
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 3, "Sum", NULL, 0, 2, (mr_dtype[]){MR_INT32, MR_INT32});
    for (int i = 0; i < 6; i++)
        check_sum(&b, MR_INT32, cases[i].rank, cases[i].dims, cases[i].fold);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(reduce_of_many_floats_stays_accurate)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, "Sum", NULL, 0, 2, (mr_dtype[]){MR_FLOAT, MR_INT32});
    int64_t dims[] = {10000, 1001};
    for (int axis = 0; axis < 2; axis++) {
        mr_tensor *x, *y;
        MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 2, dims, &x));
        for (int64_t i = 0; i < x->n; i++)
            MR_DATA(float, x)[i] = 0.1f;
        MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){x, mr_tensor_scalar_i32(axis)}, &y));
        double want = (double)0.1f * (double)dims[axis];
        for (int64_t i = 0; i < y->n; i++)
            MR_CHECK_NEAR(MR_DATA(float, y)[i], want, want * 1e-6);
        mr_tensor_unref(y);
    }
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(reduce_does_not_depend_on_threads)
{
    mr_tensor *y[3];
    int64_t dims[] = {2000000};
    for (int k = 0; k < 3; k++) {
        mr_kernel_fixture b;
        mr_tensor *x;
        mr_kernel_fixture_init(&b, 1 + k, "Sum", NULL, 0, 2, (mr_dtype[]){MR_FLOAT, MR_INT32});
        MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, dims, &x));
        for (int64_t i = 0; i < x->n; i++)
            MR_DATA(float, x)[i] = 1.0f / (float)(i + 1);
        MR_CHECK_OK(mr_kernel_fixture_run(&b, (mr_tensor *[]){x, mr_tensor_scalar_i32(0)}, &y[k]));
        mr_kernel_fixture_deinit(&b);
    }
    for (int k = 0; k < 3; k++) {
        MR_CHECK(mr_tensor_equal(y[0], y[k]));
        if (k)
            mr_tensor_unref(y[k]);
    }
    mr_tensor_unref(y[0]);
}
