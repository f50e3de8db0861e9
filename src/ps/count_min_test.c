#include "ps/count_min.h"

#include <stdlib.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static mr_count_min *sketch(uint64_t width, int depth, uint64_t seed)
{
    mr_count_min *s;
    MR_CHECK_OK(mr_count_min_new(width, depth, seed, &s));
    return s;
}

/* Keys with a long tail; exact counts go to `exact`. */
static void insert_many(mr_count_min *s, size_t n, uint64_t n_keys, uint32_t *exact)
{
    uint64_t keys[1000];
    while (n > 0) {
        size_t m = MR_MIN(n, (size_t)1000);
        for (size_t i = 0; i < m; i++) {
            uint64_t a = mr_test_random() % n_keys, b = mr_test_random() % (a + 1);
            keys[i] = b * 1000003;
            exact[b]++;
        }
        mr_count_min_insert(s, keys, m);
        n -= m;
    }
}

MR_TEST(ps_count_min_is_never_too_small_and_mostly_right)
{
    enum { KEYS = 20000, INSERTS = 100000 };
    static uint32_t exact[KEYS];
    mr_count_min *s = sketch(1 << 15, 4, 9);
    insert_many(s, INSERTS, KEYS, exact);
    int64_t wrong = 0, far = 0;
    for (uint64_t k = 0; k < KEYS; k++) {
        uint32_t v = mr_count_min_get(s, k * 1000003);
        MR_CHECK(v >= exact[k]);
        wrong += v != exact[k];
        far += v > exact[k] + INSERTS * 2.718 / (1 << 15);
    }
    MR_CHECK(wrong < KEYS / 50);
    MR_CHECK(far <= KEYS / 50);
    MR_CHECK_INT(mr_count_min_total(s), INSERTS);
    mr_count_min_free(s);
}

MR_TEST(ps_count_min_of_a_group_is_that_of_single_keys)
{
    enum { N = 500 };
    uint64_t keys[N];
    uint32_t counts[N];
    mr_count_min *a = sketch(64, 3, 1), *b = sketch(64, 3, 1);
    for (int i = 0; i < N; i++)
        keys[i] = mr_test_random() % 40;
    mr_count_min_insert(a, keys, N);
    for (int i = 0; i < N; i++)
        mr_count_min_insert(b, keys + i, 1);
    mr_count_min_get_many(a, keys, N, counts);
    for (int i = 0; i < N; i++)
        MR_CHECK_INT(counts[i], mr_count_min_get(b, keys[i]));
    mr_count_min_free(a), mr_count_min_free(b);
}

MR_TEST(ps_count_min_merged_counts_both)
{
    enum { KEYS = 1000 };
    static uint32_t exact[KEYS];
    mr_count_min *a = sketch(4096, 4, 5), *b = sketch(4000, 4, 5);
    insert_many(a, 5000, KEYS, exact);
    insert_many(b, 5000, KEYS, exact);
    MR_CHECK_OK(mr_count_min_merge(a, b));
    int wrong = 0;
    for (uint64_t k = 0; k < KEYS; k++) {
        uint32_t v = mr_count_min_get(a, k * 1000003);
        MR_CHECK(v >= exact[k]);
        wrong += v != exact[k];
    }
    MR_CHECK(wrong < KEYS / 20);
    MR_CHECK_INT(mr_count_min_total(a), 10000);
    mr_count_min_free(a), mr_count_min_free(b);
}

MR_TEST(ps_count_min_merges_only_its_like)
{
    mr_count_min *a = sketch(64, 4, 5), *others[] = {sketch(128, 4, 5), sketch(64, 3, 5), sketch(64, 4, 6)};
    for (int i = 0; i < 3; i++) {
        MR_CHECK_ERR(mr_count_min_merge(a, others[i]), MR_INVALID_ARGUMENT, "cannot merge");
        mr_count_min_free(others[i]);
    }
    mr_count_min_free(a);
}

MR_TEST(ps_count_min_comes_back_from_packing)
{
    static uint32_t exact[3000];
    mr_count_min *s = sketch(1 << 14, 2, 77), *back;
    mr_str bytes = {0}, again = {0};
    insert_many(s, 4000, 3000, exact);
    MR_CHECK_OK(mr_count_min_pack(s, &bytes));
    MR_CHECK(bytes.n < 4 * 8000);
    MR_CHECK_OK(mr_count_min_unpack(mr_str_view(&bytes), 1 << 20, &back));
    for (uint64_t k = 0; k < 3000; k++)
        MR_CHECK_INT(mr_count_min_get(back, k * 1000003), mr_count_min_get(s, k * 1000003));
    MR_CHECK_INT(mr_count_min_total(back), 4000);
    MR_CHECK_OK(mr_count_min_pack(back, &again));
    MR_CHECK(mr_sv_eq(mr_str_view(&bytes), mr_str_view(&again)));
    mr_str_deinit(&bytes), mr_str_deinit(&again);
    mr_count_min_free(s), mr_count_min_free(back);
}

MR_TEST(ps_count_min_of_full_counters_packs)
{
    mr_str bytes = {0};
    mr_count_min *s = sketch(1 << 13, 1, 1), *back;
    for (uint64_t i = 0; i < 3000; i++) {
        uint64_t keys[64];
        for (int j = 0; j < 64; j++)
            keys[j] = mr_test_random();
        mr_count_min_insert(s, keys, 64);
    }
    MR_CHECK_OK(mr_count_min_pack(s, &bytes));
    MR_CHECK_OK(mr_count_min_unpack(mr_str_view(&bytes), 1 << 20, &back));
    mr_str_deinit(&bytes);
    mr_count_min_free(s), mr_count_min_free(back);
}

static void refuses(mr_sv in, const char *text)
{
    mr_count_min *s;
    MR_CHECK_ERR(mr_count_min_unpack(in, 1 << 20, &s), MR_INVALID_ARGUMENT, text);
}

MR_TEST(ps_count_min_refuses_what_is_no_sketch)
{
    mr_count_min *s;
    MR_CHECK_ERR(mr_count_min_new(0, 1, 1, &s), MR_INVALID_ARGUMENT, "width is 0");
    MR_CHECK_ERR(mr_count_min_new(1, 9, 1, &s), MR_INVALID_ARGUMENT, "depth is 9");
    MR_CHECK_ERR(mr_count_min_new(UINT64_MAX, 1, 1, &s), MR_INVALID_ARGUMENT, "width is 18446744073709551615");
    refuses(MR_SV(""), "not a sketch");
    refuses(MR_SV("\2\1\1\1\1\1"), "not a sketch");
    refuses(MR_SV("\1\3\1\1\1\1"), "not a sketch");
    refuses(MR_SV("\1\0\1\1\1\1"), "width is 0");
    refuses(MR_SV("\1\1\x20\1\1\1"), "depth is 32");
    refuses(MR_SV("\1\x80\x80\x20\1\1\1\0\xff\xff\x1f"), "524288 counters take more than 1048576 bytes");
    refuses(MR_SV("\1\2\1\1\1\1"), "counter 1 of 2");
    refuses(MR_SV("\1\2\1\1\1\0\2"), "counter 0 of 2");
    refuses(MR_SV("\1\2\1\1\1\1\1\1"), "follow the last");
    refuses(MR_SV("\1\1\1\1\1\xff\xff\xff\xff\x7f"), "counter 0 of 1");
}

MR_TEST(ps_count_min_survives_no_memory)
{
    mr_count_min *s, *other;
    mr_str bytes = {0};
    mr_memory_fail_after(1);
    MR_CHECK_ERR(mr_count_min_new(100, 2, 1, &s), MR_RESOURCE_EXHAUSTED, "128 counters");
    mr_memory_fail_after(0);
    s = sketch(100, 2, 1);
    mr_count_min_insert(s, (const uint64_t[]){1, 2, 3}, 3);
    mr_memory_fail_after(1);
    MR_CHECK_ERR(mr_count_min_pack(s, &bytes), MR_RESOURCE_EXHAUSTED, "256 counters");
    mr_memory_fail_after(0);
    MR_CHECK_OK(mr_count_min_pack(s, &bytes));
    mr_memory_fail_after(1);
    MR_CHECK_ERR(mr_count_min_unpack(mr_str_view(&bytes), 1 << 20, &other), MR_RESOURCE_EXHAUSTED, "counters");
    mr_memory_fail_after(0);
    mr_str_deinit(&bytes);
    mr_count_min_free(s);
}
