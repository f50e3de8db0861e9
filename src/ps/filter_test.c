#include "ps/filter.h"

#include "base/memory.h"
#include "tests/harness/test.h"

static float draw(void) { return (float)((double)(int64_t)mr_test_random() * 0x1p-63); }

MR_TEST(ps_filter_kkt_leaves_out_what_would_stay_zero)
{
    const float w[5] = {0, 0, 1, 0, 0};
    const float gu[10] = {0.5f, 9, 0.6f, 9, 0.1f, 9, -0.5f, 9, NAN, 9};
    uint8_t present[5] = {1, 1, 1, 1, 1};
    mr_ps_filter_stats s = {0};
    MR_CHECK_INT(mr_ps_filter_kkt(w, gu, 5, 1, 2, 0.5f, present, &s), 2);
    MR_CHECK(!present[0] && present[1] && present[2] && !present[3] && present[4]);
    MR_CHECK_INT(s.kkt, 2);
}

MR_TEST(ps_filter_kkt_counts_absent_rows_once)
{
    const float w[2] = {0}, g[2] = {0};
    uint8_t present[2] = {0, 1};
    mr_ps_filter_stats s = {0};
    MR_CHECK_INT(mr_ps_filter_kkt(w, g, 2, 1, 1, 0.5f, present, &s), 1);
    MR_CHECK(!present[0] && !present[1]);
}

MR_TEST(ps_filter_skip_keeps_a_share_and_the_mean)
{
    enum { N = 20000 };
    static float v[2 * N];
    static uint8_t present[N];
    mr_ps_filter_stats s = {0};
    double sum = 0;
    for (int i = 0; i < N; i++)
        v[2 * i] = v[2 * i + 1] = 1, present[i] = i % 4 != 0;
    size_t out = mr_ps_filter_skip(v, N, 2, 0.25f, 11, present, &s);
    for (int i = 0; i < N; i++) {
        sum += present[i] ? (double)v[2 * i + 1] : 0;
        MR_CHECK(i % 4 || !present[i]);
    }
    MR_CHECK_NEAR((double)out / (N * 3 / 4), 0.75, 0.02);
    MR_CHECK_NEAR(sum / (N * 3 / 4), 1, 0.08);
    MR_CHECK_INT(s.skipped, out);
}

MR_TEST(ps_filter_skip_by_another_seed_keeps_others)
{
    float v[64];
    uint8_t a[64], b[64];
    mr_ps_filter_stats s = {0};
    for (int i = 0; i < 64; i++)
        a[i] = b[i] = 1;
    mr_ps_filter_skip(memset(v, 0, sizeof v), 64, 1, 0.5f, 1, a, &s);
    mr_ps_filter_skip(v, 64, 1, 0.5f, 2, b, &s);
    MR_CHECK(memcmp(a, b, 64) != 0);
}

MR_TEST(ps_filter_skip_of_nothing_changes_nothing)
{
    float v[1] = {3};
    uint8_t present[1] = {1};
    mr_ps_filter_stats s = {0};
    MR_CHECK_INT(mr_ps_filter_skip(v, 1, 1, 1, 1, present, &s), 0);
    MR_CHECK(v[0] == 3 && present[0]);
}

/* ---- significantly modified ---- */

MR_TEST(ps_filter_modified_sends_when_small_changes_have_become_large)
{
    mr_ps_residuals *r = mr_ps_residuals_new(1, false);
    mr_ps_filter_stats s = {0};
    const uint64_t key = 77;
    for (int i = 1; i <= 6; i++) {
        float v = 0.25f;
        uint8_t present = 1;
        MR_CHECK_OK(mr_ps_filter_modified(r, &key, 1, &v, 1, 0.7f, &present, &s));
        MR_CHECK_INT(present, i % 3 == 0);
        MR_CHECK(!present || v == 0.75f);
        MR_CHECK_INT(mr_ps_residuals_count(r), i % 3 != 0);
    }
    MR_CHECK_INT(s.unmodified, 4);
    mr_ps_residuals_free(r);
}

MR_TEST(ps_filter_modified_loses_nothing)
{
    enum { KEYS = 300, ROUNDS = 50, W = 2 };
    static double pushed[KEYS * W], arrived[KEYS * W];
    mr_ps_residuals *r = mr_ps_residuals_new(W, false);
    mr_ps_filter_stats s = {0};
    int64_t sent = 0, all = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t keys[KEYS];
        float v[KEYS * W];
        uint8_t present[KEYS];
        size_t n = 0;
        for (uint64_t k = 0; k < KEYS; k++) {
            if (mr_test_random() % 3)
                continue;
            keys[n] = k, present[n] = 1;
            for (int j = 0; j < W; j++) { /* multiples of 2^-10: sums are exact */
                v[n * W + (size_t)j] = (float)((int)(mr_test_random() % 512) - 256) / 1024;
                pushed[k * W + (size_t)j] += (double)v[n * W + (size_t)j];
            }
            n++;
        }
        MR_CHECK_OK(mr_ps_filter_modified(r, keys, n, v, W, 0.5f, present, &s));
        all += (int64_t)n;
        for (size_t i = 0; i < n; i++)
            for (int j = 0; j < W && present[i]; j++) {
                arrived[keys[i] * W + (uint64_t)j] += (double)v[i * W + (size_t)j];
                sent += j == 0;
            }
    }
    MR_CHECK(sent > 0 && sent < all / 2);
    MR_CHECK_INT(s.unmodified, all - sent);
    uint64_t *keys;
    float *v;
    size_t n;
    MR_CHECK_OK(mr_ps_residuals_flush(r, &keys, &v, &n));
    for (size_t i = 0; i < n; i++) {
        MR_CHECK(i == 0 || keys[i - 1] < keys[i]);
        for (int j = 0; j < W; j++)
            arrived[keys[i] * W + (uint64_t)j] += (double)v[i * W + (size_t)j];
    }
    MR_CHECK(memcmp(pushed, arrived, sizeof pushed) == 0);
    MR_CHECK_INT(mr_ps_residuals_count(r), 0);
    mr_free(keys), mr_free(v);
    MR_CHECK_OK(mr_ps_residuals_flush(r, &keys, &v, &n));
    MR_CHECK_INT(n, 0);
    mr_free(keys), mr_free(v);
    mr_ps_residuals_free(r);
}

MR_TEST(ps_filter_modified_judges_the_first_floats)
{
    mr_ps_residuals *r = mr_ps_residuals_new(2, false);
    mr_ps_filter_stats s = {0};
    const uint64_t key = 1;
    float v[2] = {0.1f, 100};
    uint8_t present = 1;
    MR_CHECK_OK(mr_ps_filter_modified(r, &key, 1, v, 1, 0.5f, &present, &s));
    MR_CHECK(!present);
    mr_ps_residuals_free(r);
}

MR_TEST(ps_filter_modified_assigns_by_the_distance_to_what_was_sent)
{
    mr_ps_residuals *r = mr_ps_residuals_new(1, true);
    mr_ps_filter_stats s = {0};
    const uint64_t key = 5;
    const float values[] = {10, 10.5f, 10.9f, 11.5f, 11, 11.5f, 11.25f};
    const bool sent[] = {true, false, false, true, false, false, false};
    const int waiting[] = {0, 1, 1, 0, 1, 0, 1};
    for (int i = 0; i < MR_COUNT(values); i++) {
        float v = values[i];
        uint8_t present = 1;
        MR_CHECK_OK(mr_ps_filter_modified(r, &key, 1, &v, 1, 1, &present, &s));
        MR_CHECK_INT(present, sent[i]);
        MR_CHECK_INT(mr_ps_residuals_count(r), waiting[i]);
        MR_CHECK(v == values[i]);
    }
    uint64_t *keys;
    float *v;
    size_t n;
    MR_CHECK_OK(mr_ps_residuals_flush(r, &keys, &v, &n));
    MR_CHECK(n == 1 && keys[0] == 5 && v[0] == 11.25f);
    mr_free(keys), mr_free(v);
    mr_ps_residuals_free(r);
}

MR_TEST(ps_filter_modified_sends_what_is_not_a_number)
{
    mr_ps_residuals *r = mr_ps_residuals_new(1, false);
    mr_ps_filter_stats s = {0};
    const uint64_t keys[2] = {1, 2};
    float v[2] = {NAN, INFINITY};
    uint8_t present[2] = {1, 1};
    MR_CHECK_OK(mr_ps_filter_modified(r, keys, 2, v, 1, 1, present, &s));
    MR_CHECK(present[0] && present[1]);
    mr_ps_residuals_free(r);
}

MR_TEST(ps_filter_modified_without_memory_changes_nothing)
{
    for (int64_t k = 1; k < 5; k++) {
        mr_ps_residuals *r = mr_ps_residuals_new(1, false);
        mr_ps_filter_stats s = {0};
        const uint64_t key = 1;
        float v = 0.1f;
        uint8_t present = 1;
        mr_memory_fail_after(k);
        mr_status *st = mr_ps_filter_modified(r, &key, 1, &v, 1, 1, &present, &s);
        mr_memory_fail_after(0);
        if (st) {
            MR_CHECK(mr_status_code(st) == MR_RESOURCE_EXHAUSTED && present && v == 0.1f);
            mr_status_free(st);
            MR_CHECK_OK(mr_ps_filter_modified(r, &key, 1, &v, 1, 1, &present, &s));
        }
        MR_CHECK(!present && mr_ps_residuals_count(r) == 1);
        mr_ps_residuals_free(r);
    }
}

MR_TEST(ps_filters_follow_each_other)
{
    enum { N = 1000 };
    static float w[N], gu[2 * N];
    static uint8_t present[N];
    static uint64_t keys[N];
    mr_ps_filter_stats s = {.seen = N};
    mr_ps_residuals *r = mr_ps_residuals_new(2, false);
    for (int i = 0; i < N; i++)
        gu[2 * i] = draw(), gu[2 * i + 1] = 1, present[i] = 1, keys[i] = (uint64_t)i;
    mr_ps_filter_kkt(w, gu, N, 1, 2, 0.2f, present, &s);
    MR_CHECK_OK(mr_ps_filter_modified(r, keys, N, gu, 1, 0.5f, present, &s));
    mr_ps_filter_skip(gu, N, 2, 0.5f, 3, present, &s);
    int64_t left = 0;
    for (int i = 0; i < N; i++)
        left += present[i];
    MR_CHECK_INT(s.kkt + s.unmodified + s.skipped + left, N);
    MR_CHECK(s.kkt > 150 && s.unmodified > 200 && s.skipped > 150);
    mr_ps_residuals_free(r);
}
