/* dist/ps_ring_test.c */
#include "dist/ps_ring.h"

#include <string.h>

#include "tests/harness/test.h"

enum { RANGES = 240, MOST = 40 };

static void make_ids(uint64_t *ids, int n)
{
    for (int i = 0; i < n; i++)
        ids[i] = (uint64_t)(i + 1) * 1000003;
}

static void deal(const uint64_t *ids, int n, int ranges, int k, const mr_ps_range *now, uint64_t *order)
{
    mr_status *st = mr_ps_ring_deal(ids, n, ranges, k, now, order);
    MR_CHECK(st == NULL);
    mr_status_free(st);
}

static int heads_of(const uint64_t *order, int ranges, int k, uint64_t id)
{
    int n = 0;
    for (int i = 0; i < ranges; i++)
        n += order[i * k] == id;
    return n;
}

static int copies_of(const uint64_t *order, int ranges, int k, uint64_t id)
{
    int n = 0;
    for (int i = 0; i < ranges * k; i++)
        n += order[i] == id;
    return n;
}

/* Chains as the ring wanted them. */
static void settle(mr_ps_range *now, const uint64_t *order, int ranges, int k)
{
    for (int i = 0; i < ranges; i++) {
        now[i] = (mr_ps_range){.epoch = 1, .generation = 1, .n = k};
        for (int m = 0; m < k; m++)
            now[i].chain[m] = (mr_ps_member){order[i * k + m], 1};
    }
}

static int moved_heads(const mr_ps_range *now, const uint64_t *order, int ranges, int k)
{
    int n = 0;
    for (int i = 0; i < ranges; i++)
        n += order[i * k] != now[i].chain[0].id;
    return n;
}

MR_TEST(ps_ring_heads_are_balanced_to_within_one)
{
    uint64_t ids[MOST], order[RANGES * 3];
    make_ids(ids, MOST);
    for (int n = 1; n <= MOST; n++) {
        int k = MR_MIN(n, 3);
        deal(ids, n, RANGES, k, NULL, order);
        for (int i = 0; i < n; i++) {
            int heads = heads_of(order, RANGES, k, ids[i]);
            MR_CHECK(heads == RANGES / n || heads == (RANGES + n - 1) / n);
        }
    }
}

MR_TEST(ps_ring_copies_of_a_range_are_at_distinct_servers)
{
    uint64_t ids[MOST], order[RANGES * 3];
    make_ids(ids, MOST);
    for (int n = 3; n <= MOST; n++) {
        deal(ids, n, RANGES, 3, NULL, order);
        for (int i = 0; i < RANGES; i++) {
            const uint64_t *o = order + i * 3;
            MR_CHECK(o[0] && o[1] && o[2] && o[0] != o[1] && o[0] != o[2] && o[1] != o[2]);
        }
    }
}

MR_TEST(ps_ring_copies_are_balanced_to_a_twentieth)
{
    uint64_t ids[MOST], order[RANGES * 3];
    make_ids(ids, MOST);
    for (int n = 4; n <= 20; n++) {
        deal(ids, n, RANGES, 3, NULL, order);
        for (int i = 0; i < n; i++)
            MR_CHECK(copies_of(order, RANGES, 3, ids[i]) * n * 20 <= RANGES * 3 * 21 + n * 20); /* and one */
    }
}

MR_TEST(ps_ring_a_join_moves_only_what_the_new_one_gets)
{
    uint64_t ids[MOST], order[RANGES * 2];
    mr_ps_range now[RANGES];
    make_ids(ids, MOST);
    for (int n = 2; n + 1 <= MOST; n++) {
        deal(ids, n, RANGES, 2, NULL, order);
        settle(now, order, RANGES, 2);
        deal(ids, n + 1, RANGES, 2, now, order);
        int gets = heads_of(order, RANGES, 2, ids[n]);
        MR_CHECK(moved_heads(now, order, RANGES, 2) == gets && gets <= (RANGES + n) / (n + 1));
    }
}

MR_TEST(ps_ring_a_leave_moves_only_what_the_old_one_had)
{
    uint64_t ids[MOST], order[RANGES * 2];
    mr_ps_range now[RANGES];
    make_ids(ids, MOST);
    for (int n = 3; n <= MOST; n++) {
        deal(ids, n, RANGES, 2, NULL, order);
        settle(now, order, RANGES, 2);
        int had = heads_of(order, RANGES, 2, ids[n - 1]);
        deal(ids, n - 1, RANGES, 2, now, order);
        MR_CHECK(moved_heads(now, order, RANGES, 2) == had);
    }
}

MR_TEST(ps_ring_what_is_balanced_stays)
{
    uint64_t ids[MOST], order[RANGES * 2], again[RANGES * 2];
    mr_ps_range now[RANGES];
    make_ids(ids, MOST);
    deal(ids, 7, RANGES, 2, NULL, order);
    settle(now, order, RANGES, 2);
    deal(ids, 7, RANGES, 2, now, again);
    MR_CHECK(memcmp(order, again, sizeof order) == 0);
}

MR_TEST(ps_ring_a_lost_range_is_nobodys)
{
    uint64_t ids[2], order[4];
    mr_ps_range now[4] = {[1] = {.epoch = 1, .generation = 1, .n = 1, .lost = true, .chain = {{77, 1}}}};
    make_ids(ids, 2);
    deal(ids, 2, 4, 1, now, order);
    MR_CHECK(order[1] == 0 && order[0] && order[2] && order[3]);
}

MR_TEST(ps_ring_more_copies_than_servers_are_refused)
{
    uint64_t ids[2] = {1, 2}, order[30];
    mr_status *st = mr_ps_ring_deal(ids, 2, 10, 3, NULL, order);
    MR_CHECK(mr_status_code(st) == MR_INVALID_ARGUMENT);
    mr_status_free(st);
}

MR_TEST(ps_ring_without_memory_says_so)
{
    uint64_t ids[2] = {1, 2}, order[20];
    mr_memory_fail_after(1);
    mr_status *st = mr_ps_ring_deal(ids, 2, 10, 2, NULL, order);
    mr_memory_fail_after(0);
    MR_CHECK(mr_status_code(st) == MR_RESOURCE_EXHAUSTED);
    mr_status_free(st);
}
