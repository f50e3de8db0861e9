/* base/map_test.c */
#include "base/map.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "tests/harness/test.h"

static void *num(int64_t i) { return (void *)(intptr_t)i; }

MR_TEST(map_of_nothing_answers)
{
    mr_map m = {0};
    uint32_t pos = 0;
    mr_sv key;
    void *value;
    MR_CHECK(mr_map_getz(&m, "a") == NULL);
    MR_CHECK(!mr_map_has(&m, MR_SV("")));
    MR_CHECK(mr_map_remove(&m, MR_SV("a")) == NULL);
    MR_CHECK(!mr_map_next(&m, &pos, &key, &value));
    mr_map_deinit(&m);
}

MR_TEST(map_put_replaces_and_returns_the_old_value)
{
    mr_map m = {0};
    char key[] = "key";
    MR_CHECK(mr_map_putz(&m, key, num(1)) == NULL);
    key[0] = 'x'; /* the map has its own copy */
    MR_CHECK(mr_map_putz(&m, "key", num(2)) == num(1));
    MR_CHECK(mr_map_getz(&m, "key") == num(2));
    MR_CHECK_INT(m.n, 1);
    mr_map_deinit(&m);
}

MR_TEST(map_tells_a_null_value_from_an_absent_key)
{
    mr_map m = {0};
    mr_map_putz(&m, "null", NULL);
    MR_CHECK(mr_map_has(&m, MR_SV("null")) && !mr_map_has(&m, MR_SV("other")));
    mr_map_deinit(&m);
}

MR_TEST(map_keys_may_be_empty_or_hold_nuls)
{
    mr_map m = {0};
    mr_map_put(&m, (mr_sv){NULL, 0}, num(1));
    mr_map_put(&m, (mr_sv){"a\0b", 3}, num(2));
    mr_map_put(&m, (mr_sv){"a", 1}, num(3));
    MR_CHECK(mr_map_getz(&m, "") == num(1));
    MR_CHECK(mr_map_get(&m, (mr_sv){"a\0b", 3}) == num(2));
    MR_CHECK(mr_map_getz(&m, "a") == num(3));
    MR_CHECK(mr_map_remove(&m, MR_SV("")) == num(1));
    MR_CHECK_INT(m.n, 2);
    mr_map_deinit(&m);
}

MR_TEST(map_borrows_keys_and_takes_over_the_newer_one)
{
    mr_map m = {.borrow_keys = true};
    char first[] = "key", second[] = "key";
    mr_map_putz(&m, first, num(1));
    mr_map_putz(&m, second, num(2));
    first[0] = 'x'; /* no longer looked at */
    MR_CHECK(mr_map_getz(&m, "key") == num(2));
    MR_CHECK(mr_map_remove(&m, MR_SV("key")) == num(2));
    mr_map_deinit(&m);
    MR_CHECK(m.borrow_keys);
}

#define N_KEYS 512

/* Random puts and removes beside a plain array that knows the truth. */
MR_TEST(map_agrees_with_an_array_over_random_changes)
{
    mr_map m = {0};
    int64_t truth[N_KEYS] = {0};
    for (int i = 1; i < 50000; i++) {
        int k = (int)(mr_test_random() % N_KEYS);
        char *key = mr_printf("node/%d", k);
        bool put = mr_test_random() % 2;
        void *old = put ? mr_map_putz(&m, key, num(i)) : mr_map_remove(&m, mr_sv_of(key));
        MR_CHECK(old == num(truth[k]));
        truth[k] = put ? i : 0;
        MR_CHECK(mr_map_getz(&m, key) == num(truth[k]));
        mr_free(key);
    }
    uint32_t n = 0, seen = 0, pos = 0;
    mr_sv key;
    void *value;
    for (int k = 0; k < N_KEYS; k++)
        n += truth[k] != 0;
    while (mr_map_next(&m, &pos, &key, &value)) {
        int64_t k = 0;
        MR_CHECK(mr_sv_to_i64((mr_sv){key.p + 5, key.n - 5}, &k) && value == num(truth[k]));
        seen++;
    }
    MR_CHECK_INT(seen, n);
    MR_CHECK_INT(m.n, n);
    MR_CHECK(m.cap <= 4 * N_KEYS); /* removed slots are swept out */
    mr_map_deinit(&m);
}

/* The part of mr_hash64 that a block of 8 bytes goes through is a permutation, so any block can be
 * found that leads the state where one likes: here, all keys to the same hash. */
static uint64_t inverse_of_odd(uint64_t a)
{
    uint64_t x = a;
    for (int i = 0; i < 6; i++)
        x *= 2 - a * x;
    return x;
}

static void make_colliding_key(uint64_t first, char key[16])
{
    const uint64_t mul = 0xc6a4a7935bd1e995u, inv = inverse_of_odd(mul), seed = 0xDECAFCAFFEu;
    uint64_t k = first * mul;
    k ^= k >> 47;
    uint64_t h = ((seed ^ (16 * mul)) ^ (k * mul)) * mul; /* after the first block */
    k = h * inv;  /* a second block that comes out as h makes the state 0; backwards from there */
    k ^= k >> 47; /* its own inverse: the shift is over half the width */
    k *= inv;
    memcpy(key, &first, 8);
    memcpy(key + 8, &k, 8);
}

MR_TEST(map_stays_fast_when_all_keys_collide)
{
    mr_map m = {0};
    enum { N = 100000 };
    char key[16], other[16];
    make_colliding_key(1, key);
    make_colliding_key(2, other);
    MR_CHECK_INT(mr_hash64(key, 16), mr_hash64(other, 16)); /* the attack works */
    int64_t start = mr_thread_cpu_ns();
    for (int i = 0; i < N; i++) {
        make_colliding_key((uint64_t)i, key);
        mr_map_put(&m, (mr_sv){key, 16}, num(i + 1));
    }
    for (int i = 0; i < N; i++) {
        make_colliding_key((uint64_t)i, key);
        MR_CHECK(mr_map_get(&m, (mr_sv){key, 16}) == num(i + 1));
    }
    MR_CHECK_INT(m.n, N);
    MR_CHECK(mr_thread_cpu_ns() - start < INT64_C(4000000000)); /* n^2 would take minutes */
    mr_map_deinit(&m);
}

MR_TEST(map_hash_changes_only_under_attack)
{
    mr_map m = {0};
    for (int i = 0; i < 200000; i++) {
        char key[16];
        snprintf(key, sizeof(key), "%d", i);
        mr_map_putz(&m, key, num(i));
    }
    MR_CHECK(m.secret == 0);
    mr_map_deinit(&m);
}

MR_TEST(imap_agrees_with_an_array_over_random_changes)
{
    mr_imap m = {0};
    int64_t truth[N_KEYS] = {0};
    for (int i = 1; i < 50000; i++) {
        int k = (int)(mr_test_random() % N_KEYS);
        uint64_t key = (uint64_t)k << 40;
        bool put = mr_test_random() % 2;
        void *old = put ? mr_imap_put(&m, key, num(i)) : mr_imap_remove(&m, key);
        MR_CHECK(old == num(truth[k]));
        truth[k] = put ? i : 0;
        MR_CHECK(mr_imap_get(&m, key) == num(truth[k]));
    }
    uint32_t pos = 0, seen = 0;
    uint64_t key;
    void *value;
    while (mr_imap_next(&m, &pos, &key, &value)) {
        MR_CHECK(value == num(truth[key >> 40]));
        seen++;
    }
    MR_CHECK_INT(seen, m.n);
    mr_imap_deinit(&m);
    MR_CHECK(mr_imap_get(&m, 0) == NULL && mr_imap_remove(&m, 0) == NULL);
}
