/* ops/random/fill.c -- generates random numbers group by group.
 *
 * The numbers of a run are divided into groups of four (two for 64-bit types). Group j uses block j of the stream, or
 * those from j * stride on where numbers are rejected, so the result does not depend on which thread computes it. */
#include "ops/random/fill.h"

#include "ops/random/blocks.h"

enum { CHUNK = 64 }; /* groups whose words are generated at once */

typedef struct job {
    mr_philox start;
    mr_tensor *out;
    /* One block a group: makes the elements of n groups from their words, 4 a group. */
    void (*convert)(const struct job *j, int64_t n, const uint32_t *w, void *out);
    /* Or as many blocks as it takes: makes n elements of a group at out. */
    void (*draw)(mr_philox *p, const struct job *j, int64_t n, void *out);
    int per_group;
    uint64_t stride; /* blocks from one group to the next */
    int64_t lo;      /* lower bound of integers */
    uint64_t range;
} job;

static void convert_groups(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    size_t size = mr_dtype_size((mr_dtype)j->out->dtype);
    for (int64_t g = begin; g < end; g += CHUNK) {
        uint32_t w[4 * CHUNK];
        _Alignas(64) char values[16 * CHUNK];
        int64_t groups = MR_MIN(CHUNK, end - g), at = g * j->per_group;
        mr_philox p = j->start;
        mr_philox_skip(&p, (uint64_t)g);
        mr_philox_blocks(p, groups, w);
        j->convert(j, groups, w, values);
        memcpy((char *)j->out->data + (size_t)at * size, values,
               (size_t)MR_MIN(groups * j->per_group, j->out->n - at) * size);
    }
}

static void draw_groups(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    size_t size = mr_dtype_size((mr_dtype)j->out->dtype);
    for (int64_t g = begin; g < end; g++) {
        mr_philox p = j->start;
        int64_t at = g * j->per_group, n = MR_MIN(j->per_group, j->out->n - at);
        mr_philox_skip(&p, (uint64_t)g * j->stride);
        j->draw(&p, j, n, (char *)j->out->data + (size_t)at * size);
    }
}

/* Stores n elements in the output's type. */
static void store_floats(const job *j, const float *v, int64_t n, void *out)
{
    mr_dtype_convert(MR_FLOAT, v, (mr_dtype)j->out->dtype, out, n, false);
}

static void uniform_float(const job *j, int64_t n, const uint32_t *w, void *out)
{
    float v[4 * CHUNK];
    /* As many random bits as the mantissa of the output's type has. */
    uint32_t mask = j->out->dtype == MR_HALF       ? 0x3ff
                    : j->out->dtype == MR_BFLOAT16 ? 0x7f
                                                   : 0x7fffff;
    float scale = 1 / (float)(mask + 1);
    for (int64_t i = 0; i < 4 * n; i++)
        v[i] = (float)(int32_t)(w[i] & mask) * scale;
    store_floats(j, v, 4 * n, out);
}

static void uniform_double(const job *j, int64_t n, const uint32_t *w, void *out)
{
    (void)j;
    for (int64_t i = 0; i < 2 * n; i++)
        ((double *)out)[i] = mr_philox_double(w[2 * i], w[2 * i + 1]);
}

static void normal_float(const job *j, int64_t n, const uint32_t *w, void *out)
{
    float v[4 * CHUNK];
    mr_philox_normals(2 * n, w, v);
    store_floats(j, v, 4 * n, out);
}

static void normal_double(const job *j, int64_t n, const uint32_t *w, void *out)
{
    (void)j;
    for (int64_t i = 0; i < n; i++)
        mr_philox_normal_double(w + 4 * i, (double *)out + 2 * i);
}

/* Numbers beyond two deviations are rejected; a group has 256 blocks to draw from. */
static void truncated_float(mr_philox *p, const job *j, int64_t n, void *out)
{
    float v[4], two[2];
    uint32_t w[4];
    for (int have = 0, pair = 2; have < 4; pair++) {
        if (pair == 2) {
            mr_philox_next(p, w);
            pair = 0;
        }
        mr_philox_normal(w[2 * pair], w[2 * pair + 1], two);
        for (int i = 0; i < 2 && have < 4; i++)
            if (fabsf(two[i]) < 2)
                v[have++] = two[i];
    }
    store_floats(j, v, n, out);
}

static void truncated_double(mr_philox *p, const job *j, int64_t n, void *out)
{
    double v[2], two[2];
    (void)j;
    for (int have = 0; have < 2;) {
        uint32_t w[4];
        mr_philox_next(p, w);
        mr_philox_normal_double(w, two);
        for (int i = 0; i < 2 && have < 2; i++)
            if (fabs(two[i]) < 2)
                v[have++] = two[i];
    }
    memcpy(out, v, sizeof(double) * (size_t)n);
}

static void integer_32(const job *j, int64_t n, const uint32_t *w, void *out)
{
    uint32_t lo = (uint32_t)j->lo, range = (uint32_t)j->range;
    for (int64_t i = 0; i < 4 * n; i++)
        ((uint32_t *)out)[i] = lo + w[i] % range;
}

static void integer_64(const job *j, int64_t n, const uint32_t *w, void *out)
{
    uint64_t lo = (uint64_t)j->lo, range = j->range;
    for (int64_t i = 0; i < 2 * n; i++)
        ((uint64_t *)out)[i] = lo + ((uint64_t)w[2 * i] | (uint64_t)w[2 * i + 1] << 32) % range;
}

/* All bits of the words, for signed and unsigned types. */
static void full_32(const job *j, int64_t n, const uint32_t *w, void *out)
{
    (void)j;
    memcpy(out, w, 4 * sizeof(uint32_t) * (size_t)n);
}

static void full_64(const job *j, int64_t n, const uint32_t *w, void *out)
{
    (void)j;
    for (int64_t i = 0; i < 2 * n; i++)
        ((uint64_t *)out)[i] = (uint64_t)w[2 * i] | (uint64_t)w[2 * i + 1] << 32;
}

void mr_random_fill(mr_run *r, const mr_draw *draw, mr_philox start, mr_tensor *out)
{
    static const struct {
        void (*narrow)(const job *, int64_t, const uint32_t *, void *);
        void (*wide)(const job *, int64_t, const uint32_t *, void *);
        double cost_ns;
    } kinds[] = {[MR_UNIFORM] = {uniform_float, uniform_double, 4},
                 [MR_NORMAL] = {normal_float, normal_double, 12},
                 [MR_TRUNCATED] = {NULL, NULL, 100},
                 [MR_INTEGER] = {integer_32, integer_64, 12},
                 [MR_FULL_INTEGER] = {full_32, full_64, 4}};
    bool wide = mr_dtype_size((mr_dtype)out->dtype) == 8, truncated = draw->kind == MR_TRUNCATED;
    job j = {.start = start,
             .out = out,
             .convert = wide ? kinds[draw->kind].wide : kinds[draw->kind].narrow,
             .draw = wide ? truncated_double : truncated_float,
             .per_group = wide ? 2 : 4,
             .stride = wide ? 128 : 256,
             .lo = draw->lo,
             .range = draw->range};
    mr_run_for(r, (out->n + j.per_group - 1) / j.per_group, kinds[draw->kind].cost_ns,
               truncated ? draw_groups : convert_groups, &j);
}

/* Reads a scalar integer; a uint64 keeps its bits. */
static mr_status *scalar_bits(const mr_run *r, int i, const char *what, int64_t *out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 0)
        return mr_invalid("%s must be 0-D, got shape %s", what, MR_TENSOR_SHAPE(t));
    *out = t->dtype == MR_UINT32   ? (int64_t)MR_DATA(uint32_t, t)[0]
           : t->dtype == MR_UINT64 ? (int64_t)MR_DATA(uint64_t, t)[0]
                                   : mr_tensor_int_at(t, 0);
    return NULL;
}

mr_status *mr_draw_integers(const mr_run *r, int i, bool empty, mr_draw *out)
{
    int64_t lo, hi;
    MR_TRY(scalar_bits(r, i, "minval", &lo));
    MR_TRY(scalar_bits(r, i + 1, "maxval", &hi));
    bool unsigned_64 = mr_in(r, i)->dtype == MR_UINT64;
    bool less = unsigned_64 ? (uint64_t)lo < (uint64_t)hi : lo < hi;
    if (!less && !empty && unsigned_64)
        return mr_invalid("Need minval < maxval, got %llu >= %llu", (unsigned long long)lo,
                          (unsigned long long)hi);
    if (!less && !empty)
        return mr_invalid("Need minval < maxval, got %lld >= %lld", (long long)lo, (long long)hi);
    *out = (mr_draw){MR_INTEGER, lo, less ? (uint64_t)hi - (uint64_t)lo : 1};
    return NULL;
}
