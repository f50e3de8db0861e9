/* ops/random/random_test.c -- the stream of a kernel from run to run, and that it does not depend on
 * the number of threads. */
#include "ops/kernel_fixture.h"
#include "ops/random/philox.h"
#include "tests/harness/test.h"

#define SEEDS {"seed", mr_a_int(87654321)}, {"seed2", mr_a_int(1)}

static mr_tensor *run(mr_kernel_fixture *b, int n_in, mr_tensor *x, mr_tensor *y)
{
    mr_tensor *out, *in[] = {mr_tensor_ref(x), n_in > 1 ? mr_tensor_ref(y) : NULL};
    MR_CHECK_OK(mr_kernel_fixture_run(b, in, &out));
    return out;
}

/* TensorFlow advances by 256 blocks for each requested element. */
MR_TEST(random_second_run_goes_on_where_tensorflow_does)
{
    static const float want[2][4] = {{0.2390374f, 0.92039955f, 0.05051243f, 0.49574447f},
                                     {0.97840536f, 0.7541301f, 0.7954952f, 0.07647216f}};
    mr_kernel_fixture b;
    mr_tensor *shape = mr_tensor_vector_i32(1, (int32_t[]){4});
    mr_kernel_fixture_init(&b, 1, "RandomUniform", MR_ATTRS(SEEDS, {"dtype", mr_a_type(MR_FLOAT)}), 1,
                  (mr_dtype[]){MR_INT32});
    for (int k = 0; k < 2; k++) {
        mr_tensor *y = run(&b, 1, shape, NULL);
        for (int i = 0; i < 4; i++)
            MR_CHECK_NEAR(mr_kernel_fixture_at(y, i), want[k][i], 1e-7);
        mr_tensor_unref(y);
    }
    mr_tensor_unref(shape);
    mr_kernel_fixture_deinit(&b);
}

/* The same node on one thread and on four. */
static void check_threads(const char *op, const mr_named_attr *attrs, int n_attrs, mr_tensor *x,
                          mr_tensor *y)
{
    mr_tensor *out[2];
    int n_in = y ? 2 : 1;
    for (int k = 0; k < 2; k++) {
        mr_kernel_fixture b;
        mr_dtype types[] = {(mr_dtype)x->dtype, y ? (mr_dtype)y->dtype : MR_INVALID};
        mr_kernel_fixture_init(&b, k ? 4 : 1, op, attrs, n_attrs, n_in, types);
        out[k] = run(&b, n_in, x, y);
        mr_kernel_fixture_deinit(&b);
    }
    MR_CHECK(mr_tensor_equal(out[0], out[1]));
    mr_tensor_unref(out[0]);
    mr_tensor_unref(out[1]);
    mr_tensor_unref(x);
    mr_tensor_unref(y);
}

MR_TEST(random_numbers_do_not_depend_on_threads)
{
    static const char *const ops[] = {"RandomUniform", "RandomStandardNormal", "TruncatedNormal"};
    for (int i = 0; i < 3; i++)
        for (int wide = 0; wide < 2; wide++)
            check_threads(ops[i],
                          MR_ATTRS(SEEDS, {"dtype", mr_a_type(wide ? MR_DOUBLE : MR_FLOAT)}),
                          mr_tensor_vector_i32(2, (int32_t[]){311, 401}), NULL);
}

MR_TEST(random_classes_do_not_depend_on_threads)
{
    check_threads("Multinomial", MR_ATTRS(SEEDS),
                  mr_kernel_fixture_random(MR_FLOAT, 2, (int64_t[]){501, 37}), mr_tensor_scalar_i32(7));
}

/* Row i begins at word 2 i num_samples, so it may begin inside of a block. */
MR_TEST(random_words_can_begin_anywhere)
{
    mr_philox p = {{0, 0, 1, 0}, {87654321, 0}};
    mr_words all = mr_words_at(p, 0);
    uint32_t first[12];
    for (int i = 0; i < 12; i++)
        first[i] = mr_words_next(&all);
    for (int i = 0; i < 12; i++) {
        mr_words from = mr_words_at(p, (uint64_t)i);
        for (int k = i; k < 12; k++)
            MR_CHECK_INT(mr_words_next(&from), first[k]);
    }
}

MR_TEST(random_numbers_below_a_bound_reach_all_of_them)
{
    mr_words w = mr_words_at((mr_philox){{0}, {7, 7}}, 0);
    int count[6] = {0};
    for (int i = 0; i < 6000; i++) {
        uint64_t v = mr_words_below(&w, 6);
        MR_CHECK(v < 6);
        count[v]++;
    }
    for (int i = 0; i < 6; i++) /* a thousand, give or take five deviations of 29 */
        MR_CHECK(count[i] > 850 && count[i] < 1150);
    MR_CHECK_INT(mr_words_below(&w, 1), 0);
}
