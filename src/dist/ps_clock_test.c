/* dist/ps_clock_test.c */
#include "dist/ps_clock.h"

#include "base/status.h"
#include "tests/harness/test.h"

enum { RANGES = 16 };

static void set(mr_ps_clock *c, uint64_t client, int first, int end, uint64_t ts)
{
    mr_status *st = mr_ps_clock_set(c, client, first, end, ts);
    MR_CHECK(st == NULL);
    mr_status_free(st);
}

static int n_spans(const mr_ps_clock *c, uint64_t client)
{
    const mr_ps_client_clock *l = mr_ps_clock_of(c, client);
    return l ? l->spans.n : 0;
}

MR_TEST(ps_clock_a_push_to_all_ranges_is_one_span)
{
    mr_ps_clock c;
    mr_ps_clock_init(&c, RANGES, 0);
    for (int range = 0; range < RANGES; range++)
        set(&c, 7, range, range + 1, 5);
    MR_CHECK(n_spans(&c, 7) == 1 && mr_ps_clock_get(&c, 7, 0) == 5 && mr_ps_clock_get(&c, 7, RANGES - 1) == 5);
    mr_ps_clock_deinit(&c);
}

MR_TEST(ps_clock_a_push_to_part_of_a_span_splits_it)
{
    mr_ps_clock c;
    mr_ps_clock_init(&c, RANGES, 0);
    set(&c, 7, 0, RANGES, 5);
    set(&c, 7, 4, 6, 8);
    MR_CHECK(n_spans(&c, 7) == 3);
    MR_CHECK(mr_ps_clock_get(&c, 7, 3) == 5 && mr_ps_clock_get(&c, 7, 4) == 8 && mr_ps_clock_get(&c, 7, 6) == 5);
    mr_ps_clock_deinit(&c);
}

/* Against the plain thing: a number for each client and range. */
MR_TEST(ps_clock_agrees_with_a_table)
{
    uint64_t random = 1, table[4][RANGES] = {{0}};
    mr_ps_clock c;
    mr_ps_clock_init(&c, RANGES, 0);
    for (int i = 0; i < 20000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int client = 1 + (int)(random >> 33) % 3, first = (int)(random >> 40) % RANGES;
        int end = first + 1 + (int)(random >> 48) % (RANGES - first);
        uint64_t ts = (random >> 60) % 4; /* few numbers, so that many are equal */
        set(&c, (uint64_t)client, first, end, ts);
        for (int range = first; range < end; range++)
            table[client][range] = ts;
        const mr_ps_client_clock *l = mr_ps_clock_of(&c, (uint64_t)client);
        for (int range = 0; range < RANGES; range++)
            MR_CHECK(mr_ps_clock_get(&c, (uint64_t)client, range) == table[client][range]);
        for (int k = 1; l && k < l->spans.n; k++) {
            const mr_ps_clock_span *a = &l->spans.p[k - 1], *b = &l->spans.p[k];
            MR_CHECK(a->first < a->end && a->end <= b->first && (a->end < b->first || a->ts != b->ts) && b->ts > 0);
        }
    }
    mr_ps_clock_deinit(&c);
}

MR_TEST(ps_clock_tells_whose_turn_it_is)
{
    mr_ps_clock c;
    mr_ps_clock_init(&c, RANGES, 0);
    set(&c, 7, 2, 3, 5);
    MR_CHECK(mr_ps_clock_turn(&c, 7, 2, 9, 5) == MR_PS_NEXT);
    MR_CHECK(mr_ps_clock_turn(&c, 7, 2, 5, 3) == MR_PS_DUPLICATE);
    MR_CHECK(mr_ps_clock_turn(&c, 7, 2, 4, 3) == MR_PS_DUPLICATE);
    MR_CHECK(mr_ps_clock_turn(&c, 7, 2, 12, 9) == MR_PS_GAP);
    MR_CHECK(mr_ps_clock_turn(&c, 7, 2, 12, 3) == MR_PS_GAP);
    MR_CHECK(mr_ps_clock_turn(&c, 8, 2, 1, 0) == MR_PS_NEXT);
    mr_ps_clock_deinit(&c);
}

MR_TEST(ps_clock_hostile_numbers_are_bad)
{
    mr_ps_clock c;
    mr_ps_clock_init(&c, RANGES, 0);
    MR_CHECK(mr_ps_clock_turn(&c, 0, 2, 1, 0) == MR_PS_BAD && mr_ps_clock_turn(&c, 7, -1, 1, 0) == MR_PS_BAD);
    MR_CHECK(mr_ps_clock_turn(&c, 7, RANGES, 1, 0) == MR_PS_BAD && mr_ps_clock_turn(&c, 7, 2, 0, 0) == MR_PS_BAD);
    MR_CHECK(mr_ps_clock_turn(&c, 7, 2, 4, 4) == MR_PS_BAD && mr_ps_clock_turn(&c, 7, 2, 1, UINT64_MAX) == MR_PS_BAD);
    const int spans[][2] = {{-1, 2}, {3, 3}, {5, 4}, {0, RANGES + 1}, {RANGES, RANGES + 1}};
    for (int i = 0; i < MR_COUNT(spans); i++) {
        mr_status *st = mr_ps_clock_set(&c, 7, spans[i][0], spans[i][1], 1);
        MR_CHECK(mr_status_code(st) == MR_INVALID_ARGUMENT);
        mr_status_free(st);
    }
    mr_ps_clock_deinit(&c);
}

MR_TEST(ps_clock_of_a_range_travels)
{
    mr_ps_clock a, b;
    mr_ps_stamps all = {0};
    mr_ps_clock_init(&a, RANGES, 0);
    mr_ps_clock_init(&b, RANGES, 0);
    set(&a, 9, 0, 8, 4);
    set(&a, 3, 2, 3, 6);
    set(&b, 5, 2, 3, 1); /* replaced */
    mr_ps_clock_export(&a, 2, &all);
    MR_CHECK(all.n == 2 && all.p[0].client == 3 && all.p[1].client == 9 && all.p[1].ts == 4);
    mr_status *st = mr_ps_clock_import(&b, 2, all.p, all.n);
    MR_CHECK(st == NULL && mr_ps_clock_get(&b, 3, 2) == 6 && mr_ps_clock_get(&b, 9, 2) == 4);
    MR_CHECK(mr_ps_clock_get(&b, 9, 3) == 0 && mr_ps_clock_get(&b, 5, 2) == 0);
    mr_status_free(st);
    mr_vec_deinit(&all);
    mr_ps_clock_deinit(&a);
    mr_ps_clock_deinit(&b);
}

MR_TEST(ps_clock_a_bad_import_changes_nothing)
{
    mr_ps_clock c;
    mr_ps_clock_init(&c, RANGES, 0);
    set(&c, 5, 2, 3, 1);
    const mr_ps_stamp twice[] = {{4, 1}, {4, 2}}, zero[] = {{4, 0}};
    mr_status *st = mr_ps_clock_import(&c, 2, twice, 2);
    MR_CHECK(st != NULL && mr_ps_clock_get(&c, 5, 2) == 1);
    mr_status_free(st);
    MR_CHECK((st = mr_ps_clock_import(&c, 2, zero, 1)) != NULL && mr_ps_clock_get(&c, 5, 2) == 1);
    mr_status_free(st);
    mr_ps_clock_deinit(&c);
}

MR_TEST(ps_clock_room_ends_for_strangers_only)
{
    mr_ps_clock c;
    mr_ps_clock_init(&c, RANGES, 2);
    set(&c, 1, 0, 1, 1);
    MR_CHECK(mr_ps_clock_room(&c, 2));
    set(&c, 2, 0, 1, 1);
    MR_CHECK(mr_ps_clock_room(&c, 1) && !mr_ps_clock_room(&c, 3));
    mr_ps_clock_forget(&c, 2);
    MR_CHECK(mr_ps_clock_room(&c, 3) && mr_ps_clock_get(&c, 2, 0) == 0);
    mr_ps_clock_drop_range(&c, 0); /* the last that client 1 had */
    MR_CHECK(mr_ps_clock_of(&c, 1) == NULL);
    mr_ps_clock_deinit(&c);
}
