/* capi/sketch.c -- millrace/sketch.h: a sketch is an mr_count_min. */
#include "millrace/sketch.h"

#include "capi/internal.h"
#include "ps/count_min.h"

struct mr_sketch {
    mr_count_min *s;
};

mr_sketch *mr_sketch_new(uint64_t width, int depth, uint64_t seed, TF_Status *status)
{
    mr_count_min *s = NULL;
    mr_status *st = mr_count_min_new(width, depth, seed, &s);
    mr_sketch *made = st ? NULL : mr_new(mr_sketch);
    if (made)
        made->s = s;
    mr_capi_set_status(status, st);
    return made;
}

void mr_sketch_free(mr_sketch *s)
{
    if (s)
        mr_count_min_free(s->s);
    mr_free(s);
}

void mr_sketch_insert(mr_sketch *s, const uint64_t *keys, size_t n) { mr_count_min_insert(s->s, keys, n); }

void mr_sketch_counts(const mr_sketch *s, const uint64_t *keys, size_t n, uint32_t *counts)
{
    mr_count_min_get_many(s->s, keys, n, counts);
}

size_t mr_sketch_size(const mr_sketch *s) { return mr_count_min_size(s->s); }

void mr_sketch_get(const mr_sketch *s, float *counters)
{
    const uint32_t *c = mr_count_min_counters(s->s);
    for (size_t i = 0; i < mr_count_min_size(s->s); i++)
        counters[i] = (float)c[i];
}

void mr_sketch_set(mr_sketch *s, const float *counters)
{
    uint32_t *c = mr_count_min_counters(s->s);
    for (size_t i = 0; i < mr_count_min_size(s->s); i++) /* NaN counts as 0, and large values are clamped */
        c[i] = counters[i] >= 4294967040.0f ? UINT32_MAX : counters[i] > 0 ? (uint32_t)counters[i] : 0;
}
