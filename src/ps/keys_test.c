#include "ps/keys.h"

#include "base/memory.h"
#include "tests/harness/test.h"

#define KEYS(...) (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)

MR_TEST(ps_keys_check_wants_them_rising_and_in_range)
{
    MR_CHECK_OK(mr_ps_keys_check(NULL, 0, 0));
    MR_CHECK_OK(mr_ps_keys_check(KEYS(0, 5, 9), 10));
    MR_CHECK_ERR(mr_ps_keys_check(KEYS(0, 5, 10), 10), MR_INVALID_ARGUMENT, "10 is out of range, the table has 10 keys");
    MR_CHECK_ERR(mr_ps_keys_check(KEYS(0, 5, 5), 10), MR_INVALID_ARGUMENT, "5 at 2 follows 5");
    MR_CHECK_ERR(mr_ps_keys_check(KEYS(3, 1), 10), MR_INVALID_ARGUMENT, "1 at 1 follows 3");
}

MR_TEST(ps_keys_split_by_bounds)
{
    const uint64_t bounds[] = {0, 10, 20, 20, 30};
    size_t cuts[5];
    mr_ps_keys_split(KEYS(1, 9, 10, 11, 29), bounds, 4, cuts);
    const size_t want[] = {0, 2, 4, 4, 5};
    MR_CHECK(memcmp(cuts, want, sizeof want) == 0);
}

MR_TEST(ps_keys_split_as_a_plain_search_does)
{
    enum { N = 1000, RANGES = 50 };
    uint64_t keys[N], bounds[RANGES + 1], at = 0, bound = 0;
    size_t cuts[RANGES + 1];
    for (int i = 0; i < N; i++)
        keys[i] = at += 1 + mr_test_random() % 30;
    for (int i = 0; i <= RANGES; i++)
        bounds[i] = bound += mr_test_random() % 700;
    mr_ps_keys_split(keys, N, bounds, RANGES, cuts);
    for (int i = 0; i <= RANGES; i++) {
        size_t want = 0;
        while (want < N && keys[want] < bounds[i])
            want++;
        MR_CHECK_INT(cuts[i], want);
    }
}

MR_TEST(ps_keys_hash_tells_lists_apart)
{
    MR_CHECK(mr_ps_keys_hash(KEYS(1, 2, 3)) == mr_ps_keys_hash(KEYS(1, 2, 3)));
    MR_CHECK(mr_ps_keys_hash(KEYS(1, 2, 3)) != mr_ps_keys_hash(KEYS(1, 2)));
    MR_CHECK(mr_ps_keys_hash(KEYS(1, 2, 3)) != mr_ps_keys_hash(KEYS(1, 2, 4)));
    MR_CHECK(mr_ps_keys_hash(NULL, 0) != mr_ps_keys_hash(KEYS(0)));
}

MR_TEST(ps_keys_hash_is_the_same_everywhere)
{
    MR_CHECK(mr_ps_keys_hash(KEYS(0, 1, 2)) == UINT64_C(0x74f837a0b527a318));
}

MR_TEST(ps_keys_come_back_from_packing)
{
    const uint64_t keys[] = {0, 1, 127, 255, 256, 1u << 20, UINT64_C(1) << 40, UINT64_MAX - 1};
    mr_str s = {0};
    uint64_t *back;
    MR_CHECK_OK(mr_ps_keys_pack(keys, MR_COUNT(keys), &s));
    MR_CHECK_OK(mr_ps_keys_unpack(mr_str_view(&s), MR_COUNT(keys), UINT64_MAX, &back));
    MR_CHECK(memcmp(keys, back, sizeof keys) == 0);
    mr_free(back);
    mr_str_deinit(&s);
}

MR_TEST(ps_keys_close_to_each_other_take_a_byte)
{
    enum { N = 1000 };
    uint64_t keys[N];
    mr_str s = {0};
    for (int i = 0; i < N; i++)
        keys[i] = (uint64_t)i * 100;
    MR_CHECK_OK(mr_ps_keys_pack(keys, N, &s));
    MR_CHECK_INT(s.n, N);
    mr_str_deinit(&s);
}

static void unpack_fails(mr_sv in, size_t n, uint64_t num_keys, const char *text)
{
    uint64_t *keys;
    MR_CHECK_ERR(mr_ps_keys_unpack(in, n, num_keys, &keys), MR_INVALID_ARGUMENT, text);
}

MR_TEST(ps_keys_unpack_refuses_what_is_no_list)
{
    unpack_fails(MR_SV("\1\1"), 3, 100, "2 bytes cannot hold 3 keys");
    unpack_fails(MR_SV("\1\1"), SIZE_MAX, 100, "cannot hold");
    unpack_fails(MR_SV("\1\1"), 1, 100, "follow the last key");
    unpack_fails(MR_SV("\x64"), 1, 100, "out of range");
    unpack_fails(MR_SV("\x31\x32"), 2, 100, "out of range");
    unpack_fails(MR_SV("\x80\x80"), 1, 100, "truncated");
    unpack_fails(MR_SV("\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\0"), 2, UINT64_MAX, "out of range");
    unpack_fails(MR_SV("\0"), 1, 0, "out of range");
}

/* ---- the cache ---- */

static bool knows(mr_ps_key_cache *c, uint64_t owner, uint64_t hash) { return mr_ps_key_cache_get(c, owner, hash, NULL); }

MR_TEST(ps_key_cache_gives_back_what_was_put)
{
    mr_ps_key_cache *c = mr_ps_key_cache_new(1 << 20);
    mr_ps_key_list *l = mr_ps_key_list_new(KEYS(3, 4, 5)), *got;
    mr_ps_key_cache_put(c, 1, l->hash, l);
    MR_CHECK(mr_ps_key_cache_get(c, 1, l->hash, &got) && got == l);
    MR_CHECK(!mr_ps_key_cache_get(c, 2, l->hash, &got) && !got); /* another owner's */
    mr_ps_key_cache_put(c, 1, 77, NULL);
    MR_CHECK(mr_ps_key_cache_get(c, 1, 77, &got) && !got);
    mr_ps_key_cache_stats s = mr_ps_key_cache_get_stats(c);
    MR_CHECK(s.hits == 2 && s.misses == 1 && s.entries == 2);
    mr_ps_key_cache_free(c);
    MR_CHECK(l->refs == 1 && l->keys[2] == 5);
    mr_ps_key_list_unref(l);
}

MR_TEST(ps_key_cache_forgets_the_least_recently_used)
{
    mr_ps_key_list *l[3];
    uint64_t keys[100] = {0};
    for (uint64_t i = 0; i < 3; i++) {
        keys[99] = i + 1;
        l[i] = mr_ps_key_list_new(keys, 100);
    }
    mr_ps_key_cache *c = mr_ps_key_cache_new(2 * 1000); /* room for two of about 900 bytes */
    mr_ps_key_cache_put(c, 0, l[0]->hash, l[0]);
    mr_ps_key_cache_put(c, 0, l[1]->hash, l[1]);
    MR_CHECK(knows(c, 0, l[0]->hash));
    mr_ps_key_cache_put(c, 0, l[2]->hash, l[2]);
    MR_CHECK(knows(c, 0, l[0]->hash) && !knows(c, 0, l[1]->hash) && knows(c, 0, l[2]->hash));
    MR_CHECK_INT(mr_ps_key_cache_get_stats(c).evictions, 1);
    MR_CHECK(mr_ps_key_cache_get_stats(c).bytes <= 2000);
    mr_ps_key_cache_free(c);
    for (int i = 0; i < 3; i++)
        mr_ps_key_list_unref(l[i]);
}

MR_TEST(ps_key_cache_keeps_nothing_over_its_budget)
{
    mr_ps_key_cache *c = mr_ps_key_cache_new(500);
    mr_ps_key_list *l = mr_ps_key_list_new(NULL, 100);
    mr_ps_key_cache_put(c, 0, 1, NULL);
    mr_ps_key_cache_put(c, 0, 2, l);
    MR_CHECK(knows(c, 0, 1) && !knows(c, 0, 2));
    mr_ps_key_cache_free(c);
    mr_ps_key_list_unref(l);
}

MR_TEST(ps_key_cache_of_many_entries)
{
    mr_ps_key_cache *c = mr_ps_key_cache_new(1 << 24);
    for (uint64_t i = 0; i < 10000; i++)
        mr_ps_key_cache_put(c, i % 3, i, NULL);
    for (uint64_t i = 0; i < 10000; i++)
        MR_CHECK(knows(c, i % 3, i) && !knows(c, 3, i));
    mr_ps_key_cache_drop(c, 0, 3);
    MR_CHECK(!knows(c, 0, 3));
    mr_ps_key_cache_drop_owner(c, 1);
    for (uint64_t i = 10; i < 10000; i++)
        MR_CHECK(knows(c, i % 3, i) == (i % 3 != 1));
    MR_CHECK_INT(mr_ps_key_cache_get_stats(c).entries, 10000 - 3333 - 1);
    mr_ps_key_cache_free(c);
}

MR_TEST(ps_key_cache_holds_one_of_each)
{
    mr_ps_key_cache *c = mr_ps_key_cache_new(1 << 20);
    size_t bytes = 0;
    for (int i = 0; i < 3; i++) {
        mr_ps_key_cache_put(c, 5, 6, NULL);
        MR_CHECK(i == 0 || mr_ps_key_cache_get_stats(c).bytes == bytes);
        bytes = mr_ps_key_cache_get_stats(c).bytes;
    }
    MR_CHECK_INT(mr_ps_key_cache_get_stats(c).entries, 1);
    mr_ps_key_cache_free(c);
}

MR_TEST(ps_keys_survive_no_memory)
{
    enum { N = 100 };
    uint64_t keys[N], *back = NULL;
    mr_str s = {0}, other = {0};
    for (uint64_t i = 0; i < N; i++)
        keys[i] = i * 1000;
    MR_CHECK_OK(mr_ps_keys_pack(keys, N, &s));
    mr_memory_fail_after(1);
    MR_CHECK_ERR(mr_ps_keys_pack(keys, N, &other), MR_RESOURCE_EXHAUSTED, "100");
    mr_memory_fail_after(1);
    MR_CHECK_ERR(mr_ps_keys_unpack(mr_str_view(&s), N, 1 << 20, &back), MR_RESOURCE_EXHAUSTED, "100");
    mr_memory_fail_after(1);
    MR_CHECK(!mr_ps_key_list_new(keys, N));
    mr_memory_fail_after(0);
    MR_CHECK(!mr_ps_key_list_new(NULL, SIZE_MAX / 8));
    mr_str_deinit(&s);
    mr_str_deinit(&other);
}

MR_TEST(ps_key_cache_without_memory_forgets)
{
    mr_ps_key_cache *c = mr_ps_key_cache_new(1 << 20);
    for (uint64_t i = 0; i < 500; i++) { /* an entry, and now and then more chains, are refused */
        mr_memory_fail_after(1 + (int64_t)(i % 2));
        mr_ps_key_cache_put(c, 0, i, NULL);
        mr_memory_fail_after(0);
        MR_CHECK(knows(c, 0, i) == (i % 2 == 1));
    }
    mr_ps_key_cache_free(c);
}
