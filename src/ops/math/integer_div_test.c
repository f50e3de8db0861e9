/* ops/math/integer_div_test.c -- quotients and remainders of integers against C's operators. */
#include "ops/math/integer_div.h"

#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

enum { N = 65536 };

static const char *const signed_ops[] = {"FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod"};

static int64_t exact(int op, int64_t x, int64_t y)
{
    switch (op) {
    case 0: return (int64_t)mr_floor_div(x, y);
    case 1: return mr_floor_mod(x, y);
    case 2: return (int64_t)mr_truncate_div(x, y);
    default: return mr_truncate_mod(x, y);
    }
}

/* Numbers of all magnitudes; the first are the edges of the type. */
static int64_t sample(int i, int bits, bool is_signed)
{
    int64_t low = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
    int64_t high = ((int64_t)1 << (bits - is_signed)) - 1;
    const int64_t edges[] = {low, high, low + 1, high - 1, high / 2, high / 2 + 1, 1, 2, 3, is_signed ? -1 : 5};
    if (i < MR_COUNT(edges))
        return edges[i];
    uint64_t v = mr_test_random() >> (64 - bits + (int)(mr_test_random() % (unsigned)bits));
    return is_signed && mr_test_random() % 2 ? -(int64_t)(v / 2) : is_signed ? (int64_t)(v / 2) : (int64_t)v;
}

static void check_op(int op, mr_dtype type, int bits, bool is_signed)
{
    mr_kernel_fixture b;
    mr_kernel_fixture_init(&b, 1, signed_ops[op], NULL, 0, 2, (mr_dtype[]){type, type});
    int64_t *x = mr_new_array(int64_t, N), *y = mr_new_array(int64_t, N), *z = mr_new_array(int64_t, N);
    for (int i = 0; i < N; i++) { /* the edges with each other, then random pairs */
        x[i] = i < 100 ? sample(i / 10, bits, is_signed) : sample(N, bits, is_signed);
        y[i] = i < 100 ? sample(i % 10, bits, is_signed) : sample(N, bits, is_signed);
        y[i] = y[i] ? y[i] : 1;
    }
    int64_t n = N;
    mr_tensor *in[2], *out;
    MR_CHECK_OK(mr_tensor_new(NULL, type, 1, &n, &in[0]));
    MR_CHECK_OK(mr_tensor_new(NULL, type, 1, &n, &in[1]));
    mr_dtype_convert(MR_INT64, x, type, in[0]->data, n, false);
    mr_dtype_convert(MR_INT64, y, type, in[1]->data, n, false);
    MR_CHECK_OK(mr_kernel_fixture_run(&b, in, &out));
    for (int i = 0; i < N; i++) /* wrap the expected value to the type */
        z[i] = exact(op, x[i], y[i]);
    mr_tensor *want;
    MR_CHECK_OK(mr_tensor_new(NULL, type, 1, &n, &want));
    mr_dtype_convert(MR_INT64, z, type, want->data, n, false);
    for (int i = 0; i < N; i++)
        if (mr_kernel_fixture_at(out, i) != mr_kernel_fixture_at(want, i))
            mr_test_fail(__FILE__, __LINE__, "%s of %lld and %lld is %.0f", signed_ops[op], (long long)x[i],
                         (long long)y[i], mr_kernel_fixture_at(out, i));
    mr_tensor_unref(want);
    mr_tensor_unref(out);
    mr_free(x);
    mr_free(y);
    mr_free(z);
    mr_kernel_fixture_deinit(&b);
}

MR_TEST(integer_div_of_signed_types_equals_c)
{
    for (int op = 0; op < 3; op++) {
        check_op(op, MR_INT8, 8, true);
        check_op(op, MR_INT16, 16, true);
        check_op(op, MR_INT32, 32, true);
    }
    check_op(3, MR_INT32, 32, true);
}

MR_TEST(integer_div_of_unsigned_types_equals_c)
{
    for (int op = 0; op < 3; op++) {
        check_op(op, MR_UINT8, 8, false);
        check_op(op, MR_UINT16, 16, false);
        check_op(op, MR_UINT32, 32, false);
    }
}
