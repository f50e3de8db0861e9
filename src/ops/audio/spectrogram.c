/* ops/audio/spectrogram.c -- AudioSpectrogram: the strength of each frequency over time.
 *
 * A window slides over the samples; each slice is multiplied by a Hann window, padded with zeros to a power of two
 * and transformed (Cooley and Tukey, in place, in double). The result is the squared magnitude of the non-negative
 * frequencies, or its root. */
#include <math.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

typedef struct state {
    int64_t window, stride;
    bool squared;
} state;

static mr_status *read_attrs(const mr_node *n, state *s)
{
    MR_TRY(mr_node_get_int(n, "window_size", &s->window));
    MR_TRY(mr_node_get_int(n, "stride", &s->stride));
    MR_TRY(mr_node_get_bool(n, "magnitude_squared", &s->squared));
    if (s->window < 2 || s->stride < 1 || s->window > INT32_MAX || s->stride > INT32_MAX)
        return mr_invalid("Spectrogram initialization failed for window size %lld and stride %lld", (long long)s->window,
                          (long long)s->stride);
    return NULL;
}

static mr_status *init_spectrogram(mr_make *m, void *s) { return read_attrs(m->node, s); }

static int64_t transform_size(const state *s)
{
    int64_t n = 1;
    while (n < s->window)
        n *= 2;
    return n;
}

static int64_t count_slices(const state *s, int64_t samples)
{
    return samples < 0 ? -1 : samples < s->window ? 0 : 1 + (samples - s->window) / s->stride;
}

/* ---- the transform: n complex numbers, a power of two, with cos and -sin of k 2 pi / n for k < n / 2 ---- */

static void reverse_bits(double *x, int64_t n)
{
    for (int64_t i = 1, j = 0; i < n; i++) {
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j |= bit;
        for (int part = 0; i < j && part < 2; part++) {
            double t = x[2 * i + part];
            x[2 * i + part] = x[2 * j + part];
            x[2 * j + part] = t;
        }
    }
}

static void transform_slice(double *x, int64_t n, const double *turns)
{
    reverse_bits(x, n);
    for (int64_t half = 1; half < n; half *= 2)
        for (int64_t at = 0; at < n; at += 2 * half)
            for (int64_t k = 0; k < half; k++) {
                const double *t = turns + 2 * (k * (n / 2 / half));
                double *a = x + 2 * (at + k), *b = a + 2 * half;
                double re = b[0] * t[0] - b[1] * t[1], im = b[0] * t[1] + b[1] * t[0];
                b[0] = a[0] - re, b[1] = a[1] - im;
                a[0] += re, a[1] += im;
            }
}

/* ---- the op ---- */

typedef struct job {
    const state *s;
    int64_t n, n_slices, channels;
    const float *x;
    double *bell, *turns, *work;
    float *out;
} job;

static void make_tables(job *j)
{
    for (int64_t i = 0; i < j->s->window; i++)
        j->bell[i] = 0.5 - 0.5 * cos(2 * M_PI * (double)i / (double)j->s->window);
    for (int64_t k = 0; k < j->n / 2; k++) {
        j->turns[2 * k] = cos(2 * M_PI * (double)k / (double)j->n);
        j->turns[2 * k + 1] = -sin(2 * M_PI * (double)k / (double)j->n);
    }
}

static void make_slice(job *j, int64_t channel, int64_t slice)
{
    int64_t bins = j->n / 2 + 1;
    float *out = j->out + (channel * j->n_slices + slice) * bins;
    memset(j->work, 0, 2 * (size_t)j->n * sizeof(double));
    for (int64_t i = 0; i < j->s->window; i++)
        j->work[2 * i] = j->bell[i] * (double)j->x[(slice * j->s->stride + i) * j->channels + channel];
    transform_slice(j->work, j->n, j->turns);
    for (int64_t k = 0; k < bins; k++) {
        double re = j->work[2 * k], im = j->work[2 * k + 1], square = re * re + im * im;
        out[k] = (float)(j->s->squared ? square : sqrt(square));
    }
}

static mr_status *run_spectrogram(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *out, *room = NULL;
    job j = {.s = r->state, .x = x->data};
    if (x->rank != 2)
        return mr_invalid("input must be 2-dimensional, got shape %s", MR_TENSOR_SHAPE(x));
    j.n = transform_size(j.s);
    j.n_slices = count_slices(j.s, x->dims[0]);
    j.channels = x->dims[1];
    MR_TRY(mr_run_output(r, 0, 3, (const int64_t[]){j.channels, j.n_slices, j.n / 2 + 1}, &out));
    if (out->n == 0)
        return NULL; /* otherwise there are at least as many samples as the window has */
    MR_TRY(mr_run_temp(r, MR_DOUBLE, 1, (const int64_t[]){4 * j.n}, &room));
    j.bell = room->data;
    j.turns = j.bell + j.n;
    j.work = j.turns + j.n;
    j.out = out->data;
    make_tables(&j);
    mr_status *st = NULL;
    for (int64_t i = 0; i < j.channels * j.n_slices && !st; i++) {
        make_slice(&j, i / j.n_slices, i % j.n_slices);
        if (i % 64 == 63 && r->step->cancel && mr_cancel_started(r->step->cancel))
            st = mr_error(MR_CANCELLED, "the spectrogram was cancelled");
    }
    mr_tensor_unref(room);
    return st;
}

static mr_status *infer_spectrogram(mr_infer *c)
{
    const mr_pshape *x;
    state s;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &x));
    MR_TRY(read_attrs(c->node, &s));
    int64_t dims[] = {mr_infer_dim(x, 1), count_slices(&s, mr_infer_dim(x, 0)), transform_size(&s) / 2 + 1};
    c->out[0] = mr_pshape_of(c->arena, 3, dims);
    return NULL;
}

MR_OP(AudioSpectrogram,
    .doc         = "how strong each frequency is over time: [samples, channels] to [channels, time, frequency]",
    .sig         = "input: float -> spectrogram: float",
    .attrs       = "window_size: int; stride: int; magnitude_squared: bool = false",
    .shape       = infer_spectrogram,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_spectrogram)),
    .state_bytes = sizeof(state),
    .init        = init_spectrogram,
    .examples    = MR_EXAMPLES(
        "window_size=8 stride=1: [[-1], [0], [1], [0], [-1], [0], [1], [0]] -> [[[0, 1, 2, 1, 0]]]",
        "window_size=8 stride=2 magnitude_squared=true: [[-1], [0], [1], [0], [-1], [0], [1], [0], [1], [0]] -> "
        "[[[0, 1, 4, 1, 0], [1, 2, 1, 2, 1]]]",
        "window_size=3 stride=1: [[1, 2], [1, 2], [1, 2]] -> [[[1.5, 1.06066, 0]], [[3, 2.12132, 0]]]",
        "window_size=4 stride=1: shape(3,2) -> shape(2,0,3)",
        "window_size=1 stride=1: [[1]] -> !INVALID_ARGUMENT Spectrogram initialization failed for window size 1 and stride 1",
        "window_size=2 stride=0: [[1]] -> !INVALID_ARGUMENT Spectrogram initialization failed",
        "window_size=2 stride=1: [1] -> !INVALID_ARGUMENT rank"));
