/* ops/audio/mfcc.c -- Mfcc: mel-frequency cepstral coefficients of a spectrogram.
 *
 * Frequencies are grouped into bands of equal width on the mel scale, which models hearing: triangles that overlap
 * by half, so each bin of the spectrogram belongs to at most two bands. The logarithms of the bands go through a
 * cosine transform, whose first coefficients are the result. */
#include <math.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

typedef struct state {
    float upper, lower; /* Hz */
    int64_t bands, coefficients;
} state;

static mr_status *read_attrs(const mr_node *n, state *s)
{
    MR_TRY(mr_node_get_float(n, "upper_frequency_limit", &s->upper));
    MR_TRY(mr_node_get_float(n, "lower_frequency_limit", &s->lower));
    MR_TRY(mr_node_get_int(n, "filterbank_channel_count", &s->bands));
    return mr_node_get_int(n, "dct_coefficient_count", &s->coefficients);
}

static mr_status *init_mfcc(mr_make *m, void *s) { return read_attrs(m->node, s); }

/* ---- bands ---- */

typedef struct bank {
    int64_t n_bins, n_bands;
    int64_t first, last; /* bins between the limits */
    double *weights;     /* the part of a bin that belongs to the lower of its two bands */
    int32_t *lower;      /* the lower band; -1: below the first */
} bank;

static double mel_of(double hz) { return 1127 * log1p(hz / 700); }

static void fill_bank(bank *b, const state *s, double rate)
{
    double low = mel_of((double)s->lower), step = (mel_of((double)s->upper) - low) / (double)(b->n_bands + 1);
    double hz = 0.5 * rate / (double)(b->n_bins - 1);
    double last = (double)s->upper / hz;
    b->first = (int64_t)(1.5 + (double)s->lower / hz); /* skips the constant component */
    b->last = last < (double)b->n_bins ? (int64_t)last : b->n_bins;
    int64_t band = 0; /* the first band whose center is above the bin */
    for (int64_t i = b->first; i <= b->last && i < b->n_bins; i++) {
        double mel = mel_of((double)i * hz);
        while (band < b->n_bands && low + step * (double)(band + 1) < mel)
            band++;
        b->lower[i] = (int32_t)(band - 1);
        b->weights[i] = (low + step * (double)(band + 1) - mel) / step;
    }
}

/* Sums the bins of one frame into bands; all bins between the limits must exist. */
static void gather_bands(const bank *b, const float *bins, double *bands)
{
    MR_ASSERT(b->last < b->n_bins);
    for (int64_t k = 0; k < b->n_bands; k++)
        bands[k] = 0;
    for (int64_t i = b->first; i <= b->last; i++) {
        double v = sqrt((double)bins[i]), part = v * b->weights[i];
        int64_t k = b->lower[i];
        if (k >= 0)
            bands[k] += part;
        if (k + 1 < b->n_bands)
            bands[k + 1] += v - part;
    }
}

/* ---- the op ---- */

typedef struct job {
    bank bank;
    const state *s;
    double *bands, *cosines;
} job;

/* If the limits reach beyond the spectrogram, the coefficients are zero, as in TensorFlow. */
static void make_frame(const job *j, const float *bins, float *out)
{
    int64_t n = j->bank.n_bands;
    if (j->bank.last >= j->bank.n_bins) {
        memset(out, 0, (size_t)j->s->coefficients * sizeof(float));
        return;
    }
    gather_bands(&j->bank, bins, j->bands);
    for (int64_t k = 0; k < n; k++)
        j->bands[k] = log(j->bands[k] < 1e-12 ? 1e-12 : j->bands[k]);
    for (int64_t i = 0; i < j->s->coefficients; i++) {
        double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += j->cosines[i * n + k] * j->bands[k];
        out[i] = (float)sum;
    }
}

static mr_status *check_inputs(const mr_run *r, const state *s, int64_t *rate)
{
    const mr_tensor *x = mr_in(r, 0), *t = mr_in(r, 1);
    if (x->rank != 3)
        return mr_invalid("spectrogram must be 3-dimensional, got shape %s", MR_TENSOR_SHAPE(x));
    if (t->rank != 0)
        return mr_invalid("Input sample_rate should be a scalar tensor, got shape %s", MR_TENSOR_SHAPE(t));
    *rate = *MR_DATA(const int32_t, t);
    bool sound = s->bands >= 1 && s->coefficients >= 1 && s->coefficients <= s->bands && *rate > 0 && x->dims[2] >= 2 &&
                 s->lower >= 0 && s->upper > s->lower && s->bands <= INT32_MAX;
    if (!sound)
        return mr_invalid("Mfcc initialization failed for channel count %lld, sample rate %lld, %lld bands and %lld "
                          "coefficients between %g and %g Hz", (long long)x->dims[2], (long long)*rate, (long long)s->bands,
                          (long long)s->coefficients, (double)s->lower, (double)s->upper);
    return NULL;
}

/* Allocates all arrays of the job, in doubles: bands, weights, their lower bands, cosines. */
static mr_status *make_room(mr_run *r, job *j, mr_tensor **out)
{
    int64_t n, bins = j->bank.n_bins, bands = j->bank.n_bands;
    if (!mr_i64_mul(bands, j->s->coefficients + 1, &n) || !mr_i64_add(n, 2 * bins, &n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld bands", (long long)bands);
    MR_TRY(mr_run_temp(r, MR_DOUBLE, 1, &n, out));
    j->bands = (*out)->data;
    j->bank.weights = j->bands + bands;
    j->bank.lower = (int32_t *)(j->bank.weights + bins);
    j->cosines = j->bank.weights + 2 * bins;
    double scale = sqrt(2 / (double)bands), turn = M_PI / (double)bands;
    for (int64_t i = 0; i < j->s->coefficients; i++)
        for (int64_t k = 0; k < bands; k++)
            j->cosines[i * bands + k] = scale * cos((double)i * turn * ((double)k + 0.5));
    return NULL;
}

static mr_status *run_mfcc(mr_run *r)
{
    const state *s = r->state;
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *out, *room = NULL;
    int64_t rate = 0;
    MR_TRY(check_inputs(r, s, &rate));
    job j = {.bank = {.n_bins = x->dims[2], .n_bands = s->bands}, .s = s};
    MR_TRY(mr_run_output(r, 0, 3, (const int64_t[]){x->dims[0], x->dims[1], s->coefficients}, &out));
    if (out->n == 0)
        return NULL;
    MR_TRY(make_room(r, &j, &room));
    fill_bank(&j.bank, s, (double)rate);
    mr_status *st = NULL;
    for (int64_t i = 0; i < x->dims[0] * x->dims[1] && !st; i++) {
        make_frame(&j, MR_DATA(const float, x) + i * x->dims[2], MR_DATA(float, out) + i * s->coefficients);
        if (i % 256 == 255 && r->step->cancel && mr_cancel_started(r->step->cancel))
            st = mr_error(MR_CANCELLED, "the cepstrum was cancelled");
    }
    mr_tensor_unref(room);
    return st;
}

static mr_status *infer_mfcc(mr_infer *c)
{
    const mr_pshape *x, *rate;
    state s;
    MR_TRY(mr_infer_rank(c, c->in[0], 3, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &rate));
    MR_TRY(read_attrs(c->node, &s));
    if (s.coefficients < 0)
        return mr_invalid("dct_coefficient_count must not be negative, got %lld", (long long)s.coefficients);
    int64_t dims[] = {mr_infer_dim(x, 0), mr_infer_dim(x, 1), s.coefficients};
    c->out[0] = mr_pshape_of(c->arena, 3, dims);
    return NULL;
}

MR_OP(Mfcc,
    .doc         = "mel-frequency cepstral coefficients of a spectrogram of squared magnitudes: [channels, time, frequency]",
    .sig         = "spectrogram: float, sample_rate: int32 -> output: float",
    .attrs       = "upper_frequency_limit: float = 4000; lower_frequency_limit: float = 20; "
                   "filterbank_channel_count: int = 40; dct_coefficient_count: int = 13",
    .shape       = infer_mfcc,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_mfcc)),
    .state_bytes = sizeof(state),
    .init        = init_mfcc,
    .examples    = MR_EXAMPLES(
        "x = AddV2 T=float: iota(1,1,513), 1; : x, 22050 -> [[[29.13970072, -6.41568601, -0.61903012, -0.96778652, -0.26819878, -0.40907028, "
        "-0.15614748, -0.23203119, -0.10481487, -0.1543029, -0.0769791, -0.10806114, -0.06047613]]]",
        "dct_coefficient_count=2 filterbank_channel_count=3: fill(1, 2,1,129), 8000 -> shape(2,1,2)",
        "dct_coefficient_count=2: [[[1, 2, 3]]], 2000 -> [[[0, 0]]]",
        "shape(0,3,5), 8000 -> shape(0,3,13)",
        "dct_coefficient_count=41: [[[1, 2, 3]]], 8000 -> !INVALID_ARGUMENT Mfcc initialization failed",
        "[[[1, 2]]], 0 -> !INVALID_ARGUMENT Mfcc initialization failed",
        "[[1, 2]], 8000 -> !INVALID_ARGUMENT rank"));
