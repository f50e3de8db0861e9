/* ops/array/resize_taps.c -- picks the source pixels of a row of a resized image by vector permutations.
 *
 * As many elements as a vector has are a group. Their sources lie close together unless the image becomes much
 * smaller, so a window of the source row that begins at the group's `base` holds them all, and a permutation of the
 * window's registers by the group's `lanes` picks them. AVX2 permutes one register at a time and blends the results;
 * its gather would be no faster than the loops that this replaces. */
#include "ops/array/resize_taps.h"

#include <stdatomic.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/memory.h"
#include "run/scratch.h"

enum { MOST_CHANNELS = 16 };

typedef void take_fn(const mr_taps *t, int64_t group, int64_t groups, const void *row, float *out);

struct mr_taps {
    take_fn *take;
    int64_t group;  /* elements of one */
    int64_t groups; /* of a row */
    int n_blocks;
    mr_taps_block *blocks;
    int32_t *bases; /* [taps, groups], from the begin of the block's part of the row */
    int32_t *lanes; /* [taps, groups, group], from the base */
};

/* A kind of CPU: how it takes from rows of a type if all windows have at most `window` elements. */
typedef struct method {
    mr_dtype type;
    int group, window;
    take_fn *take;
} method;

typedef struct kind {
    const char *name;
    method methods[4]; /* by window; the first that fits is used */
} kind;

/* ---- one function for each kind of CPU and window; `group` counts over all taps ---- */

#if defined(__x86_64__)
#define AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#define VBMI __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi")))
#define AVX2 __attribute__((target("avx2")))

AVX512 static void take_floats_32(const mr_taps *t, int64_t group, int64_t groups, const void *row, float *out)
{
    for (int64_t g = group; g < group + groups; g++, out += 16) {
        const float *at = (const float *)row + t->bases[g];
        __m512i lanes = _mm512_loadu_si512(t->lanes + 16 * g);
        _mm512_storeu_ps(out, _mm512_permutex2var_ps(_mm512_loadu_ps(at), lanes, _mm512_loadu_ps(at + 16)));
    }
}

AVX512 static void take_floats_64(const mr_taps *t, int64_t group, int64_t groups, const void *row, float *out)
{
    for (int64_t g = group; g < group + groups; g++, out += 16) {
        const float *at = (const float *)row + t->bases[g];
        __m512i lanes = _mm512_loadu_si512(t->lanes + 16 * g); /* a permutation ignores all but their low 5 bits */
        __m512 low = _mm512_permutex2var_ps(_mm512_loadu_ps(at), lanes, _mm512_loadu_ps(at + 16));
        __m512 high = _mm512_permutex2var_ps(_mm512_loadu_ps(at + 32), lanes, _mm512_loadu_ps(at + 48));
        __mmask16 is_high = _mm512_test_epi32_mask(lanes, _mm512_set1_epi32(32));
        _mm512_storeu_ps(out, _mm512_mask_blend_ps(is_high, low, high));
    }
}

/* The lowest byte of each of 16 integers is an index; the other bytes of the result are 0. */
#define LOW_BYTES ((__mmask64)0x1111111111111111)

VBMI static void take_bytes_64(const mr_taps *t, int64_t group, int64_t groups, const void *row, float *out)
{
    for (int64_t g = group; g < group + groups; g++, out += 16) {
        __m512i at = _mm512_loadu_si512((const uint8_t *)row + t->bases[g]);
        __m512i lanes = _mm512_loadu_si512(t->lanes + 16 * g);
        _mm512_storeu_ps(out, _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(LOW_BYTES, lanes, at)));
    }
}

VBMI static void take_bytes_128(const mr_taps *t, int64_t group, int64_t groups, const void *row, float *out)
{
    for (int64_t g = group; g < group + groups; g++, out += 16) {
        const uint8_t *at = (const uint8_t *)row + t->bases[g];
        __m512i low = _mm512_loadu_si512(at), high = _mm512_loadu_si512(at + 64);
        __m512i lanes = _mm512_loadu_si512(t->lanes + 16 * g);
        _mm512_storeu_ps(out, _mm512_cvtepi32_ps(_mm512_maskz_permutex2var_epi8(LOW_BYTES, low, lanes, high)));
    }
}

/* The lanes of 8 floats from 16; a permutation ignores all but the low 3 bits of a lane. */
AVX2 static inline __m256 pick_of_16(const float *at, __m256i lanes)
{
    __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(at), lanes);
    __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(at + 8), lanes);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(lanes, 28))); /* by bit 3 */
}

AVX2 static void pick_floats_16(const mr_taps *t, int64_t group, int64_t groups, const void *row, float *out)
{
    for (int64_t g = group; g < group + groups; g++, out += 8) {
        __m256i lanes = _mm256_loadu_si256((const __m256i *)(t->lanes + 8 * g));
        _mm256_storeu_ps(out, pick_of_16((const float *)row + t->bases[g], lanes));
    }
}

AVX2 static void pick_floats_32(const mr_taps *t, int64_t group, int64_t groups, const void *row, float *out)
{
    for (int64_t g = group; g < group + groups; g++, out += 8) {
        const float *at = (const float *)row + t->bases[g];
        __m256i lanes = _mm256_loadu_si256((const __m256i *)(t->lanes + 8 * g));
        __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(lanes, 27)); /* by bit 4 */
        _mm256_storeu_ps(out, _mm256_blendv_ps(pick_of_16(at, lanes), pick_of_16(at + 16, lanes), is_high));
    }
}

/* An index with its highest bit set gives 0. That is so for the three upper bytes of each lane, which makes the picked
 * bytes integers, and for a lane of 16 or more in the first half of the window, or below 16 in the second. */
AVX2 static void pick_bytes_32(const mr_taps *t, int64_t group, int64_t groups, const void *row, float *out)
{
    const __m256i limit = _mm256_set1_epi32((int)0x80808070), other = _mm256_set1_epi32(16);
    for (int64_t g = group; g < group + groups; g++, out += 8) {
        const __m128i *at = (const __m128i *)((const uint8_t *)row + t->bases[g]);
        __m256i lanes = _mm256_loadu_si256((const __m256i *)(t->lanes + 8 * g));
        __m256i first = _mm256_add_epi32(lanes, limit);
        __m256i second = _mm256_add_epi32(_mm256_xor_si256(lanes, other), limit);
        __m256i low = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(at)), first);
        __m256i high = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_loadu_si128(at + 1)), second);
        _mm256_storeu_ps(out, _mm256_cvtepi32_ps(_mm256_or_si256(low, high)));
    }
}
#endif

static const kind kinds[] = { /* the best first */
#if defined(__x86_64__)
    {"avx512vbmi", {{MR_FLOAT, 16, 32, take_floats_32}, {MR_FLOAT, 16, 64, take_floats_64},
                    {MR_UINT8, 16, 64, take_bytes_64}, {MR_UINT8, 16, 128, take_bytes_128}}},
    {"avx512", {{MR_FLOAT, 16, 32, take_floats_32}, {MR_FLOAT, 16, 64, take_floats_64},
                {MR_UINT8, 8, 32, pick_bytes_32}}},
    {"avx2", {{MR_FLOAT, 8, 16, pick_floats_16}, {MR_FLOAT, 8, 32, pick_floats_32}, {MR_UINT8, 8, 32, pick_bytes_32}}},
#endif
    {"plain", {{0}}},
};

static bool can_use(const kind *k)
{
#if defined(__x86_64__)
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (strcmp(k->name, "avx512vbmi") == 0)
        return wide && __builtin_cpu_supports("avx512vbmi");
    if (strcmp(k->name, "avx512") == 0)
        return wide;
    if (strcmp(k->name, "avx2") == 0)
        return __builtin_cpu_supports("avx2");
#endif
    return strcmp(k->name, "plain") == 0;
}

static _Atomic(const kind *) chosen;

bool mr_taps_use(const char *name)
{
    for (int i = 0; i < MR_COUNT(kinds); i++)
        if ((!name || strcmp(kinds[i].name, name) == 0) && can_use(&kinds[i])) {
            chosen = &kinds[i];
            return true;
        }
    return false;
}

static const kind *this_kind(void)
{
    if (!atomic_load_explicit(&chosen, memory_order_relaxed))
        mr_taps_use(NULL);
    return atomic_load_explicit(&chosen, memory_order_relaxed);
}

/* ---- the table ---- */

typedef struct source { /* what the table is made from */
    int taps;
    int64_t group;
    const int64_t *pixels;
    int64_t out_w, in_w, channels;
} source;

/* The range of source elements of a tap of the group from element e on. Pixels never fall, so its ends are in the two
 * outermost pixels on either side. */
static void find_range(const source *s, int tap, int64_t e, int64_t *least, int64_t *most)
{
    int64_t ch = s->channels, last = MR_MIN(e + s->group, s->out_w * ch) - 1;
    const int64_t *pixel = s->pixels + tap * s->out_w, *a = pixel + e / ch, *b = pixel + last / ch;
    int64_t low = a[0] * ch + e % ch, high = b[0] * ch + last % ch;
    if (a < b) {
        low = MR_MIN(low, a[1] * ch);
        high = MR_MAX(high, b[-1] * ch + ch - 1);
    }
    *least = MR_MIN(*least, low);
    *most = MR_MAX(*most, high);
}

/* The largest window that a group needs. */
static int64_t widest_window(const source *s)
{
    int64_t widest = 0;
    for (int tap = 0; tap < s->taps; tap++)
        for (int64_t e = 0; e < s->out_w * s->channels; e += s->group) {
            int64_t least = INT64_MAX, most = 0;
            find_range(s, tap, e, &least, &most);
            widest = MR_MAX(widest, most - least + 1);
        }
    return widest;
}

/* The first method whose window is wide enough and no wider than a row; sets s->group. */
static const method *choose_method(const kind *k, mr_dtype type, source *s)
{
    for (int i = 0; i < MR_COUNT(k->methods); i++) {
        const method *m = &k->methods[i];
        s->group = m->group;
        if (m->take && m->type == type && m->window <= s->in_w * s->channels && widest_window(s) <= m->window)
            return m;
    }
    return NULL;
}

/* Divides the row into blocks: as many groups as the arrays have room for. Returns their number; `blocks` may be NULL,
 * and 0 is returned if the sources of one group are too far apart. */
static int divide_row(const source *s, int64_t window, mr_taps_block *blocks)
{
    int64_t n_out = s->out_w * s->channels, n_in = s->in_w * s->channels, least = INT64_MAX, most = 0, begin = 0;
    int n = 0;
    for (int64_t e = 0;; e += s->group) {
        int64_t low = least, high = most;
        for (int tap = 0; tap < s->taps && e < n_out; tap++)
            find_range(s, tap, e, &low, &high);
        bool fits = e < n_out && e - begin < MR_TAPS_OUT && high - low + 1 + window <= MR_TAPS_IN;
        if (!fits && e == begin)
            return 0;
        if (!fits) {
            int64_t room = MR_MAX(most - least + 1, window);
            if (blocks)
                blocks[n] = (mr_taps_block){begin, MR_MIN(e, n_out) - begin, MR_MIN(least, n_in - room), room};
            n++;
            if (e >= n_out)
                return n;
            begin = e, least = INT64_MAX, most = 0;
            e -= s->group; /* this group once more, as the first of the next block */
            continue;
        }
        least = low, most = high;
    }
}

/* Fills one group. Lanes after the end of the row repeat its base. */
static void fill_group(mr_taps *t, const source *s, int tap, const mr_taps_block *b, int64_t e, int64_t window)
{
    int64_t g = tap * t->groups + e / s->group, least = INT64_MAX, most = 0, ch = s->channels;
    int64_t n = MR_MIN(s->group, s->out_w * ch - e), channel = e % ch;
    const int64_t *pixel = s->pixels + tap * s->out_w + e / ch;
    find_range(s, tap, e, &least, &most);
    int64_t base = MR_MIN(least - b->from, b->n_from - window);
    MR_ASSERT(base >= 0 && most - b->from < base + window);
    int32_t *lanes = t->lanes + g * s->group;
    t->bases[g] = (int32_t)base;
    for (int64_t i = 0; i < n; i++) {
        lanes[i] = (int32_t)(*pixel * ch + channel - b->from - base);
        if (++channel == ch)
            channel = 0, pixel++;
    }
    for (int64_t i = n; i < s->group; i++)
        lanes[i] = 0;
}

mr_status *mr_taps_new(const mr_run *r, mr_dtype type, int taps, const int64_t *pixels, int64_t out_w, int64_t in_w,
                       int64_t channels, mr_taps **out)
{
    source s = {taps, 0, pixels, out_w, in_w, channels};
    const kind *k = this_kind();
    *out = NULL;
    const method *m = channels > MOST_CHANNELS ? NULL : choose_method(k, type, &s);
    int n_blocks = m ? divide_row(&s, m->window, NULL) : 0;
    if (n_blocks == 0)
        return NULL;
    size_t group = (size_t)s.group, groups = ((size_t)(out_w * channels) + group - 1) / group;
    size_t all = groups * (size_t)taps, room = (sizeof(mr_taps) + 63) / 64 * 64, one = (group + 1) * sizeof(int32_t);
    mr_taps *t = mr_scratch(r, room + all * one + (size_t)n_blocks * sizeof(mr_taps_block) + 8);
    if (!t)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the taps of %lld pixels", (long long)out_w);
    t->take = m->take;
    t->group = s.group;
    t->groups = (int64_t)groups;
    t->n_blocks = n_blocks;
    t->lanes = (void *)((char *)t + room);
    t->blocks = (void *)(t->lanes + all * group);
    t->bases = (void *)(t->blocks + n_blocks);
    divide_row(&s, m->window, t->blocks);
    for (int i = 0; i < n_blocks; i++)
        for (int tap = 0; tap < taps; tap++)
            for (int64_t e = t->blocks[i].out; e < t->blocks[i].out + t->blocks[i].n; e += s.group)
                fill_group(t, &s, tap, &t->blocks[i], e, m->window);
    *out = t;
    return NULL;
}

int mr_taps_blocks(const mr_taps *t) { return t->n_blocks; }
const mr_taps_block *mr_taps_block_at(const mr_taps *t, int i) { return &t->blocks[i]; }

void mr_taps_take(const mr_taps *t, int k, const mr_taps_block *b, const void *row, float *out)
{
    t->take(t, k * t->groups + b->out / t->group, (b->n + t->group - 1) / t->group, row, out);
}
