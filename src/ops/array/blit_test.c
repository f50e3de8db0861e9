/* ops/array/blit_test.c -- compares blocks in random layouts with a plain walk, and tests large blocks on threads. */
#include <stdio.h>

#include "base/memory.h"
#include "ops/array/blit.h"
#include "tests/harness/test.h"

enum { MAX = 5 };

typedef struct block { /* a random block and its position on both sides */
    int rank;
    int64_t dims[MAX], from[MAX], to[MAX];
    int64_t first_from, first_to;
    int64_t from_n, to_n; /* the number of elements that each side needs */
} block;

static int64_t below(int64_t n) { return (int64_t)(mr_test_random() % (uint64_t)n); }

/* Strides of a layout with the dimensions in random order, with gaps, and some walked backwards. */
static void random_layout(const block *b, bool may_repeat, int64_t *strides, int64_t *first,
                          int64_t *n)
{
    int order[MAX] = {0};
    for (int i = 0; i < b->rank; i++) {
        int k = (int)below(i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    bool ordered = below(3) == 0, gaps = below(3) == 0;
    int64_t step = gaps ? 1 + below(3) : 1;
    *first = below(3);
    *n = *first + 1;
    for (int i = b->rank - 1; i >= 0; i--) {
        int d = ordered ? i : order[i];
        bool repeat = may_repeat && below(5) == 0, backwards = below(6) == 0;
        int64_t reach = repeat ? 0 : (b->dims[d] - 1) * step;
        strides[d] = repeat ? 0 : backwards ? -step : step;
        *first += backwards && !repeat ? reach : 0;
        *n += reach;
        step = repeat ? step : step * b->dims[d] + (gaps ? below(4) : 0);
    }
}

static void random_block(block *b)
{
    static const int64_t sizes[] = {1, 2, 2, 3, 4, 5, 16, 17, 35};
    int64_t n = 1;
    b->rank = (int)below(MAX + 1);
    for (int d = 0; d < b->rank; d++) {
        b->dims[d] = sizes[below(MR_COUNT(sizes))];
        if (n * b->dims[d] > 20000)
            b->dims[d] = 1;
        n *= b->dims[d];
    }
    random_layout(b, true, b->from, &b->first_from, &b->from_n);
    random_layout(b, false, b->to, &b->first_to, &b->to_n);
}

static void element_name(char out[24], int64_t i)
{
    snprintf(out, 24, i % 3 ? "%lld" : "number %lld of all", (long long)i);
}

static mr_tensor *numbered(mr_dtype type, int64_t n)
{
    mr_tensor *t;
    char name[24];
    MR_CHECK_OK(mr_tensor_zeros(NULL, type, 1, &n, &t));
    for (int64_t i = 0; i < n; i++) {
        element_name(name, i);
        if (type == MR_STRING)
            MR_CHECK_OK(mr_tensor_set_str(t, i, mr_sv_of(name)));
    }
    for (size_t i = 0; type != MR_STRING && i < mr_tensor_bytes(t); i++)
        MR_DATA(uint8_t, t)[i] = (uint8_t)(mr_test_random() >> 8);
    return t;
}

/* The expected result, computed one element at a time. */
static void plain_walk(const block *b, mr_tensor *dst, const mr_tensor *src)
{
    int64_t index[MAX] = {0}, n = 1;
    for (int d = 0; d < b->rank; d++)
        n *= b->dims[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = b->first_to, from = b->first_from;
        for (int d = 0; d < b->rank; d++) {
            at += index[d] * b->to[d];
            from += index[d] * b->from[d];
        }
        MR_CHECK_OK(mr_tensor_try_copy_elements(dst, at, src, from, 1));
        for (int d = b->rank - 1; d >= 0 && ++index[d] == b->dims[d]; d--)
            index[d] = 0;
    }
}

/* r NULL: on one thread. */
static void check_block(mr_run *r, mr_dtype type, const block *b)
{
    mr_blit w;
    mr_tensor *got, *want, *src = numbered(type, b->from_n);
    MR_CHECK_OK(mr_tensor_zeros(NULL, type, 1, &b->to_n, &got));
    MR_CHECK_OK(mr_tensor_zeros(NULL, type, 1, &b->to_n, &want));
    plain_walk(b, want, src);
    mr_blit_init(&w);
    for (int d = 0; d < b->rank; d++)
        mr_blit_dim(&w, b->dims[d], b->from[d], b->to[d]);
    MR_CHECK_OK(mr_blit_copy(r, &w, got, b->first_to, src, b->first_from));
    MR_CHECK(mr_tensor_equal(got, want));
    mr_tensor_unref(src);
    mr_tensor_unref(got);
    mr_tensor_unref(want);
}

static void check_random_block(mr_dtype type)
{
    block b;
    random_block(&b);
    check_block(NULL, type, &b);
}

static const mr_dtype sizes_1_to_16[] = {MR_UINT8, MR_INT16, MR_INT32, MR_INT64, MR_COMPLEX128};

MR_TEST(blit_equals_a_plain_walk_in_every_element_size)
{
    for (int i = 0; i < 2000; i++)
        check_random_block(sizes_1_to_16[i % MR_COUNT(sizes_1_to_16)]);
}

/* Rows of every length around the width of a vector: in reverse order, every second and every third element, one value
 * repeated, a few values reversed as a whole, and three channels from neighbours to planes and back. */
MR_TEST(blit_of_rows_of_every_length)
{
    for (int t = 0; t < MR_COUNT(sizes_1_to_16); t++)
        for (int64_t n = 1; n < 300; n += n < 140 ? 1 : 37) {
            const block blocks[] = {
                {2, {3, n}, {n, -1}, {n, 1}, n - 1, 0, 3 * n, 3 * n},
                {2, {3, n}, {2 * n, 2}, {n, 1}, 0, 0, 6 * n, 3 * n},
                {2, {4, n}, {3 * n, 3}, {n, 1}, 0, 0, 12 * n, 4 * n},
                {2, {4, n}, {1, 0}, {n, 1}, 0, 0, 4, 4 * n},
                {3, {2, n, 3}, {3 * n, -3, 1}, {3 * n, 3, 1}, 3 * (n - 1), 0, 6 * n, 6 * n},
                {3, {2, n, 7}, {7 * n, -7, 1}, {7 * n, 7, 1}, 7 * (n - 1), 0, 14 * n, 14 * n},
                {3, {2, 3, n}, {3 * n, 1, 3}, {3 * n, n, 1}, 0, 0, 6 * n, 6 * n},
                {3, {2, n, 3}, {3 * n, 1, n}, {3 * n, 3, 1}, 0, 0, 6 * n, 6 * n},
            };
            for (int i = 0; i < MR_COUNT(blocks); i++)
                check_block(NULL, sizes_1_to_16[t], &blocks[i]);
        }
}

MR_TEST(blit_copies_strings)
{
    for (int i = 0; i < 150; i++)
        check_random_block(MR_STRING);
}

MR_TEST(blit_of_an_empty_block_touches_nothing)
{
    mr_tensor *t = numbered(MR_INT32, 4);
    mr_blit w;
    mr_blit_init(&w);
    mr_blit_dim(&w, 3, 1, 1);
    mr_blit_dim(&w, 0, 1 << 20, 1 << 20);
    MR_CHECK_OK(mr_blit_copy(NULL, &w, t, 0, t, 0));
    mr_tensor_unref(t);
}

/* ---- on threads ---- */

typedef struct many { /* a run that has only a thread pool */
    mr_pool *pool;
    mr_device *device;
    mr_step step;
    mr_run run;
} many;

static void many_init(many *m)
{
    *m = (many){0};
    MR_CHECK_OK(mr_pool_new("blit", 3, &m->pool));
    MR_CHECK_OK(
        mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", m->pool, &m->device));
    m->step.device = m->device;
    m->run.step = &m->step;
}

static void many_deinit(many *m)
{
    mr_device_free(m->device);
    mr_pool_free(m->pool);
}

/* Transposes rows x cols elements, each a run of `run` values. */
static void check_large(many *m, mr_dtype type, int64_t rows, int64_t cols, int64_t run)
{
    int64_t n = rows * cols * run;
    block b = {3, {rows, cols, run}, {cols * run, run, 1}, {run, rows * run, 1}, 0, 0, n, n};
    check_block(&m->run, type, &b);
}

MR_TEST(blit_splits_large_transpositions_over_threads)
{
    many m;
    many_init(&m);
    check_large(&m, MR_FLOAT, 1021, 517, 1);
    check_large(&m, MR_DOUBLE, 301, 1023, 1);
    check_large(&m, MR_UINT8, 2000, 301, 1);
    check_large(&m, MR_FLOAT, 3, 200003, 1);
    check_large(&m, MR_FLOAT, 101, 77, 67);
    check_large(&m, MR_INT16, 500, 400, 3);
    check_large(&m, MR_UINT8, 200003, 3, 1);
    check_large(&m, MR_UINT8, 3, 400003, 1);
    many_deinit(&m);
}

MR_TEST(blit_fills_and_moves_large_runs)
{
    many m;
    many_init(&m);
    int64_t n = 3000001;
    mr_tensor *a, *b = numbered(MR_FLOAT, n);
    float seven = 7;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, &n, &a));
    MR_CHECK_OK(mr_move_fill(&m.run, a, 0, &seven, n));
    for (int64_t i = 0; i < n; i++)
        MR_CHECK(MR_DATA(float, a)[i] == 7);
    MR_CHECK_OK(mr_move(&m.run, a, 1, b, 0, n - 1));
    MR_CHECK(memcmp(MR_DATA(float, a) + 1, b->data, (size_t)(n - 1) * sizeof(float)) == 0);
    MR_CHECK(MR_DATA(float, a)[0] == 7);
    mr_tensor_unref(a);
    mr_tensor_unref(b);
    many_deinit(&m);
}
