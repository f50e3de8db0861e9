/* ops/nn/lstm_test.c -- the gradient of BlockLSTM against finite differences of cs and h (its other
 * outputs are only inputs of the gradient op). */
#include "base/memory.h"
#include "ops/kernel_fixture.h"
#include "tests/harness/test.h"

enum { TIME = 3, BATCH = 2, INPUTS = 3, CELLS = 4, N_IN = 9, N_OUT = 7, N_GRADS = 8 };

static mr_tensor *random_floats(int rank, const int64_t *dims)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, rank, dims, &t));
    for (int64_t i = 0; i < t->n; i++)
        MR_DATA(float, t)[i] = (float)(mr_test_random() % 2001) / 1000.0f - 1.0f;
    return t;
}

static void make_inputs(mr_tensor **in)
{
    const int64_t state[2] = {BATCH, CELLS}, w[2] = {INPUTS + CELLS, 4 * CELLS}, hole[1] = {CELLS};
    in[0] = mr_tensor_scalar_i64(TIME);
    in[1] = random_floats(3, (const int64_t[]){TIME, BATCH, INPUTS});
    in[2] = random_floats(2, state);
    in[3] = random_floats(2, state);
    in[4] = random_floats(2, w);
    for (int i = 5; i < 8; i++)
        in[i] = random_floats(1, hole);
    in[8] = random_floats(1, &w[1]);
}

static void run(mr_kernel_fixture *b, mr_tensor *const *in, int n, mr_tensor **out)
{
    mr_tensor *given[18];
    for (int i = 0; i < n; i++)
        given[i] = mr_tensor_ref(in[i]);
    MR_CHECK_OK(mr_kernel_fixture_run(b, given, out));
}

static void drop(mr_tensor **t, int n)
{
    for (int i = 0; i < n; i++)
        mr_tensor_unref(t[i]);
}

/* sum(cs v + h w), with element i of input k moved by d. */
static double loss(mr_kernel_fixture *b, mr_tensor **in, int k, int64_t i, float d, const mr_tensor *v,
                   const mr_tensor *w)
{
    mr_tensor *out[N_OUT];
    MR_DATA(float, in[k])[i] += d;
    run(b, in, N_IN, out);
    MR_DATA(float, in[k])[i] -= d;
    double sum = 0;
    for (int64_t e = 0; e < v->n; e++)
        sum += mr_kernel_fixture_at(v, e) * mr_kernel_fixture_at(out[1], e) +
               mr_kernel_fixture_at(w, e) * mr_kernel_fixture_at(out[6], e);
    drop(out, N_OUT);
    return sum;
}

static void check(const char *op, const char *grad, bool peephole)
{
    mr_kernel_fixture b, back;
    const mr_dtype types[18] = {MR_INT64, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT,
                                MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT,
                                MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT, MR_FLOAT};
    mr_kernel_fixture_init(&b, 1, op,
                  MR_ATTRS({"use_peephole", mr_a_bool(peephole)}, {"cell_clip", mr_a_float(0)}),
                  N_IN, types);
    mr_kernel_fixture_init(&back, 1, grad, MR_ATTRS({"use_peephole", mr_a_bool(peephole)}), 18, types);
    mr_tensor *in[18], *d[N_GRADS];
    make_inputs(in);
    run(&b, in, N_IN, in + N_IN);
    in[16] = random_floats(3, in[9]->dims);
    in[17] = random_floats(3, in[9]->dims);
    run(&back, in, 18, d);
    for (int k = 1; k < N_IN; k++)
        for (int64_t i = 0; i < in[k]->n; i++) {
            double up = loss(&b, in, k, i, 0.01f, in[16], in[17]);
            double down = loss(&b, in, k, i, -0.01f, in[16], in[17]);
            MR_CHECK_NEAR(mr_kernel_fixture_at(d[k - 1], i), (up - down) / 0.02, 3e-3);
        }
    drop(in, 18);
    drop(d, N_GRADS);
    mr_kernel_fixture_deinit(&b);
    mr_kernel_fixture_deinit(&back);
}

MR_TEST(lstm_gradient_agrees_with_differences) { check("BlockLSTM", "BlockLSTMGrad", false); }
MR_TEST(lstm_gradient_with_peepholes_agrees) { check("BlockLSTM", "BlockLSTMGrad", true); }
MR_TEST(lstm_gradient_of_v2_agrees) { check("BlockLSTMV2", "BlockLSTMGradV2", true); }
