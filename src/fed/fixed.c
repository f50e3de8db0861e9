/* fed/fixed.c -- converts floats to fixed point and back.
 *
 * Invariant: n_clients words, each of at most scale * clip + 1/2, add up to at most INT32_MAX, so a sum of words read
 * as a signed number is exact. */
#include "fed/fixed.h"

#include <math.h>

#include "base/memory.h"
#include "base/simd.h"

/* The largest scale for which n_clients words cannot overflow; at least 8 bits must be left for a word. */
mr_status *mr_fixed_init(mr_fixed *f, int64_t n_clients, float clip, int64_t most)
{
    if (n_clients < 1 || !(clip > 0) || !isfinite(clip) || most < 1 || most > INT32_MAX / n_clients)
        return mr_invalid("fixed point: %lld clients of at most %lld examples with clip %g are not possible",
                          (long long)n_clients, (long long)most, (double)clip);
    /* Rounding may make each word half a unit larger. */
    double room = (double)INT32_MAX / (double)n_clients - 1;
    *f = (mr_fixed){exp2(floor(log2(room / clip))), clip, most};
    if (f->scale * clip < 256)
        return mr_invalid("fixed point: with clip %g too few bits are left for each of %lld clients", (double)clip,
                          (long long)n_clients);
    return NULL;
}

/* Clips, scales and rounds to nearest; returns how many values were not finite. Such a value becomes 0, so that no
 * undefined conversion happens before the caller reports it. */
MR_CLONES static int64_t encode_values(const float *x, size_t n, double unit, float clip, uint32_t *out)
{
    int64_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        float v = x[i], cut = v > clip ? clip : v < -clip ? -clip : v;
        bad += !(v - v == 0); /* NaN and infinities */
        double y = (v - v == 0 ? cut : 0) * unit;
        out[i] = (uint32_t)(int32_t)(y + (y < 0 ? -0.5 : 0.5));
    }
    return bad;
}

/* The weight of a client is its number of examples, limited to `most`, as a share of `most`. */
mr_status *mr_fixed_encode(const mr_fixed *f, const float *differences, size_t n, int64_t examples, uint32_t *words)
{
    if (examples < 1)
        return mr_invalid("fixed point: an update must have at least one example, not %lld", (long long)examples);
    int64_t weight = MR_MIN(examples, f->most);
    int64_t bad = encode_values(differences, n, f->scale * (double)weight / (double)f->most, f->clip, words);
    if (bad)
        return mr_invalid("fixed point: an update has %lld values that are not finite", (long long)bad);
    words[n] = (uint32_t)weight;
    return NULL;
}

/* Divides by the number of examples in the sum, so the result is a weighted mean. */
mr_status *mr_fixed_decode(const mr_fixed *f, const uint32_t *sum, size_t n, float *mean, int64_t *examples)
{
    int64_t total = (int32_t)sum[n];
    if (total < 1)
        return mr_error(MR_DATA_LOSS, "fixed point: the sum contains %lld examples", (long long)total);
    double unit = (double)f->most / (double)total / f->scale;
    MR_ASSERT(f->scale > 0 && f->most > 0);
    for (size_t i = 0; i < n; i++)
        mean[i] = (float)((int32_t)sum[i] * unit);
    *examples = total;
    return NULL;
}
