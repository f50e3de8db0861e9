/* ops/random/multinomial.c -- Multinomial and StatelessMultinomial: draw classes by unnormalised
 * log-probabilities.
 *
 * A row's probabilities are summed from left to right in double; a sample is the first class whose sum
 * exceeds a uniform number times the total.  Row i uses the words of the run's stream from
 * 2 i num_samples on, as TensorFlow does in one thread.  (With more threads TensorFlow's results depend
 * on how it divides the rows; ours do not.) */
#include <math.h>
#include <stdatomic.h>

#include "graph/infer.h"
#include "ops/random/key.h"
#include "run/scratch.h"

typedef struct job {
    const mr_run *run;
    const mr_tensor *logits;
    mr_tensor *out;
    int64_t n_classes, n_samples;
    mr_philox start;
    atomic_bool no_memory;
} job;

/* Replaces the log-probabilities of a row by running sums of probabilities, scaled so that the largest
 * probability is 1.  Returns the total. */
static double accumulate_row(int64_t n, double *row)
{
    double top = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(row[i]) && row[i] > top)
            top = row[i];
    for (int64_t i = 0; i < n; i++) {
        sum += isfinite(row[i]) ? exp(row[i] - top) : 0;
        row[i] = sum;
    }
    return sum;
}

/* The first entry above v; n if there is none. */
static int64_t first_above(int64_t n, const double *sums, double v)
{
    int64_t at = 0;
    while (n > 0) {
        int64_t half = n / 2;
        if (sums[at + half] <= v) {
            at += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return at;
}

static void draw_row(const job *j, int64_t row, double *sums)
{
    mr_dtype type = (mr_dtype)j->logits->dtype;
    size_t row_bytes = (size_t)j->n_classes * mr_dtype_size(type);
    mr_words words = mr_words_at(j->start, (uint64_t)row * (uint64_t)j->n_samples * 2);
    mr_dtype_convert(type, (const char *)j->logits->data + (size_t)row * row_bytes, MR_DOUBLE, sums,
                     j->n_classes, false);
    double total = accumulate_row(j->n_classes, sums);
    for (int64_t i = 0; i < j->n_samples; i++) {
        int64_t at = row * j->n_samples + i;
        int64_t drawn = first_above(j->n_classes, sums, mr_words_double(&words) * total);
        if (j->out->dtype == MR_INT64)
            MR_DATA(int64_t, j->out)[at] = drawn;
        else
            MR_DATA(int32_t, j->out)[at] = (int32_t)drawn;
    }
}

static void draw_rows(void *ctx, int64_t begin, int64_t end)
{
    job *j = ctx;
    double *sums = mr_scratch(j->run, sizeof(double) * (size_t)j->n_classes);
    if (!sums) {
        j->no_memory = true;
        return;
    }
    for (int64_t row = begin; row < end; row++)
        draw_row(j, row, sums);
    mr_scratch_free(sums);
}

static mr_status *check_inputs(const mr_run *r, job *j)
{
    const mr_tensor *x = j->logits;
    if (x->rank != 2)
        return mr_invalid("logits should be a matrix, got shape %s", MR_TENSOR_SHAPE(x));
    if (mr_in(r, 1)->rank != 0)
        return mr_invalid("num_samples should be a scalar, got shape %s",
                          MR_TENSOR_SHAPE(mr_in(r, 1)));
    j->n_samples = mr_tensor_int_at(mr_in(r, 1), 0);
    if (j->n_samples < 0)
        return mr_invalid("num_samples should be nonnegative, got %lld", (long long)j->n_samples);
    j->n_classes = x->dims[1];
    if (x->dims[0] > INT32_MAX || j->n_classes > INT32_MAX)
        return mr_invalid("batch_size and num_classes cannot exceed max int, got shape %s",
                          MR_TENSOR_SHAPE(x));
    if (j->n_classes == 0)
        return mr_invalid("num_classes should be positive, got 0");
    return NULL;
}

static mr_status *draw_all(mr_run *r, job *j)
{
    double cost = 20.0 * (double)j->n_classes + 40.0 * (double)j->n_samples;
    mr_run_for(r, j->logits->dims[0], cost, draw_rows, j);
    return j->no_memory ? mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld classes",
                                   (long long)j->n_classes)
                        : NULL;
}

static mr_status *run_multinomial(mr_run *r)
{
    job j = {.run = r, .logits = mr_in(r, 0)};
    MR_TRY(check_inputs(r, &j));
    int64_t rows = j.logits->dims[0];
    MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){rows, j.n_samples}, &j.out));
    if (j.out->n == 0)
        return NULL;
    /* TensorFlow reserves two outputs per sample, samples rounded up to fours, and 256 blocks per output. */
    uint64_t outputs = (uint64_t)rows * ((uint64_t)(j.n_samples + 3) / 4 * 4 * 2);
    j.start = mr_random_reserve(r->state, outputs * 256);
    return draw_all(r, &j);
}

static mr_status *run_stateless(mr_run *r)
{
    job j = {.run = r, .logits = mr_in(r, 0)};
    MR_TRY(check_inputs(r, &j));
    MR_TRY(mr_seed_stream(r, 2, &j.start));
    MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){j.logits->dims[0], j.n_samples}, &j.out));
    return j.out->n == 0 ? NULL : draw_all(r, &j);
}

static mr_status *infer_multinomial(mr_infer *c)
{
    const mr_pshape *logits, *ignored;
    int64_t n = -1;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &logits));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    if (mr_infer_int(c, 1, &n) && n < 0)
        return mr_invalid("num_samples should be nonnegative, got %lld", (long long)n);
    c->out[0] = mr_pshape_matrix(c->arena, mr_infer_dim(logits, 0), n);
    return NULL;
}

MR_OP(Multinomial,
    .doc      = "classes drawn for each row of unnormalised log-probabilities",
    .sig      = "logits: T, num_samples: int32 -> output: output_dtype",
    .attrs    = "seed: int = 0; seed2: int = 0; T: realnumbertype; "
                "output_dtype: {int32, int64} = DT_INT64",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .key      = "T",
    .shape    = infer_multinomial,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_multinomial, MR_REALS)),
    .state_bytes = sizeof(mr_random_state), .init = mr_random_init, .deinit = mr_random_deinit,
    .examples = MR_EXAMPLES(
        "seed=87654321 seed2=1: [[0, 0, 0, 0], [0, 0, 0, 0]], 3 -> [[3, 1, 2], [2, 0, 1]]",
        "seed=87654321 seed2=1: [[0.5, -1, 2, 0]], 8 -> [[3, 2, 2, 2, 0, 2, 2, 2]]",
        "output_dtype=int32: [[0, 100], [100, 0]], 2 -> int32[[1, 1], [0, 0]]",
        "T=float: [[0, -inf, -inf], [nan, -inf, 3]], 2 -> [[0, 0], [2, 2]]",
        "T=float: [[-inf, nan]], 1 -> [[2]]",
        "[[1, 2]], 0 -> shape(1,0)", "shape(0,2), 3 -> shape(0,3)",
        "[[1, 2]], -1 -> !INVALID_ARGUMENT num_samples should be nonnegative, got -1",
        "shape(2,0), 1 -> !INVALID_ARGUMENT num_classes should be positive",
        "[1], 1 -> !INVALID_ARGUMENT"));

static mr_status *stateless_shape(mr_infer *c)
{
    MR_TRY(mr_seed_infer(c, 2));
    return infer_multinomial(c);
}

MR_OP(StatelessMultinomial,
    .doc      = "classes drawn for each row of unnormalised log-probabilities, by the seed alone",
    .sig      = "logits: T, num_samples: int32, seed: Tseed -> output: output_dtype",
    .attrs    = "T: realnumbertype; Tseed: {int32, int64} = DT_INT64; "
                "output_dtype: {int32, int64} = DT_INT64",
    .flags    = MR_NO_GRADIENT,
    .key      = "T",
    .shape    = stateless_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_stateless, MR_REALS)),
    .examples = MR_EXAMPLES(
        "[[0, 100], [100, 0]], 2, [1, 2] -> [[1, 1], [0, 0]]",
        "output_dtype=int32: [[0, 100], [100, 0]], 2, int32[1, -2] -> int32[[1, 1], [0, 0]]",
        "[[1, 2]], 0, [1, 2] -> shape(1,0)", "shape(0,2), 3, [1, 2] -> shape(0,3)",
        "[[1, 2]], 3, [1] -> !INVALID_ARGUMENT",
        "[[1, 2]], -1, [1, 2] -> !INVALID_ARGUMENT num_samples should be nonnegative, got -1"));
