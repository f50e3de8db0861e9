/* ps/server_aggregate_test.c -- members that hear what pushes came to hold what the head holds. */
#include "ps/server_internal.h"
#include "tests/harness/test.h"

enum { RANGES = 2, RANGE = 1, KEYS = 40, FIRST = 20, MOST = 12 };

typedef struct rig {
    mr_ps_store head, member;
    mr_ps_record r;
} rig;

static mr_ps_table_spec *spec(mr_ps_table_options o)
{
    mr_ps_table_spec *t = mr_new(mr_ps_table_spec);
    o.num_keys = KEYS;
    MR_CHECK_OK(mr_ps_table_spec_init(t, MR_SV("t"), &o));
    return t;
}

static rig begin(mr_ps_table_options o)
{
    rig g = {0};
    mr_ps_store_init(&g.head, RANGES, 0);
    mr_ps_store_init(&g.member, RANGES, 0);
    MR_CHECK_OK(mr_ps_store_add(&g.head, spec(o)));
    MR_CHECK_OK(mr_ps_store_add(&g.member, spec(o)));
    return g;
}

static void apply(mr_ps_store *s, const mr_ps_change *c)
{
    MR_CHECK_OK(mr_ps_store_check(s, RANGE, c));
    mr_ps_store_change(s, RANGE, c);
}

/* A push of `value` for keys first .. first + n - 1, as a list or a range. */
static void push(rig *g, uint64_t first, size_t n, bool list, float value)
{
    mr_ps_blob *b = mr_ps_blob_new(n * (sizeof(uint64_t) + 2 * sizeof(float)));
    uint64_t *keys = (uint64_t *)b->data;
    float *floats = (float *)(keys + n);
    for (size_t i = 0; i < n; i++) {
        keys[i] = first + i;
        floats[2 * i] = value;
        floats[2 * i + 1] = value * (float)i;
    }
    mr_ps_change c = {.kind = MR_PS_CHANGE_PUSH, .keys = {list ? keys : NULL, first, n}, .floats = floats};
    apply(&g->head, &c);
    mr_ps_entry e = {{1 + (uint64_t)g->r.entries.n, 1}, c, b};
    mr_vec_push(&g->r.entries, e);
}

static int entries_with_something(const rig *g)
{
    int n = 0;
    for (int i = 0; i < g->r.entries.n; i++)
        n += g->r.entries.p[i].change.kind != MR_PS_CHANGE_NONE;
    return n;
}

/* The member applies the record: all that is kept must be as at the head. */
static void check_equal(rig *g)
{
    float a[20 * 8], b[20 * 8];
    const mr_ps_keys all = {.first = FIRST, .n = 20};
    size_t floats = 20 * mr_ps_table_row_floats(g->head.tables.p[0]);
    for (int i = 0; i < g->r.entries.n; i++)
        apply(&g->member, &g->r.entries.p[i].change);
    mr_ps_store_read(&g->head, 0, RANGE, all, true, a);
    mr_ps_store_read(&g->member, 0, RANGE, all, true, b);
    MR_CHECK(floats <= MR_COUNT(a) && memcmp(a, b, floats * sizeof(float)) == 0);
    MR_CHECK_INT(g->member.parts.p[0][RANGE].n_pushed, g->head.parts.p[0][RANGE].n_pushed);
}

static void end(rig *g)
{
    check_equal(g);
    mr_ps_record_deinit(&g->r);
    mr_ps_store_deinit(&g->head);
    mr_ps_store_deinit(&g->member);
}

MR_TEST(ps_aggregate_many_pushes_of_the_same_keys_become_their_rows)
{
    rig g = begin((mr_ps_table_options){.width = 2, .update = MR_PS_ADAGRAD, .rate = 0.1f, .a = 0.1f});
    for (int i = 0; i < 5; i++)
        push(&g, FIRST + 3, 10, true, (float)i - 1.5f);
    mr_ps_record_aggregate(&g.head, RANGE, &g.r);
    MR_CHECK_INT(entries_with_something(&g), 1);
    MR_CHECK_INT(g.r.entries.n, 5);
    MR_CHECK_INT(g.r.entries.p[4].change.kind, MR_PS_CHANGE_SET);
    MR_CHECK_INT(g.r.entries.p[4].change.keys.n, 10);
    MR_CHECK_INT(g.r.entries.p[3].stamp.client, 4);
    end(&g);
}

MR_TEST(ps_aggregate_whole_ranges_need_no_keys)
{
    rig g = begin((mr_ps_table_options){.width = 2, .update = MR_PS_ADD});
    for (int i = 0; i < 3; i++)
        push(&g, FIRST, 20, i == 1, (float)i);
    mr_ps_record_aggregate(&g.head, RANGE, &g.r);
    MR_CHECK(!g.r.entries.p[2].change.keys.list);
    MR_CHECK_INT(entries_with_something(&g), 1);
    end(&g);
}

MR_TEST(ps_aggregate_pushes_that_hardly_meet_stay_pushes)
{
    rig g = begin((mr_ps_table_options){.width = 2, .update = MR_PS_ADAM, .rate = 0.1f, .a = 0.9f, .b = 0.99f, .epsilon = 1e-8f});
    push(&g, FIRST, 6, true, 1);
    push(&g, FIRST + 5, 6, true, 2);
    mr_ps_record_aggregate(&g.head, RANGE, &g.r);
    MR_CHECK_INT(entries_with_something(&g), 2);
    end(&g);
}

MR_TEST(ps_aggregate_one_push_stays_a_push)
{
    rig g = begin((mr_ps_table_options){.width = 2, .update = MR_PS_ADD});
    push(&g, FIRST, 6, true, 1);
    mr_ps_record_aggregate(&g.head, RANGE, &g.r);
    MR_CHECK_INT(g.r.entries.p[0].change.kind, MR_PS_CHANGE_PUSH);
    end(&g);
}

MR_TEST(ps_aggregate_whole_rounds_of_workers_become_their_rows)
{
    rig g = begin((mr_ps_table_options){.width = 2, .update = MR_PS_SGD, .rate = 0.5f, .aggregate = 2});
    for (int i = 0; i < 4; i++)
        push(&g, FIRST + 1, 12, true, (float)i);
    mr_ps_record_aggregate(&g.head, RANGE, &g.r);
    MR_CHECK_INT(entries_with_something(&g), 1);
    end(&g);
}

/* What a round has of other records is not in the rows that this one touches. */
MR_TEST(ps_aggregate_rounds_over_several_records_stay_pushes)
{
    rig g = begin((mr_ps_table_options){.width = 2, .update = MR_PS_SGD, .rate = 0.5f, .aggregate = 3});
    push(&g, FIRST, 4, true, 1);
    check_equal(&g);
    mr_ps_record_deinit(&g.r);
    g.r = (mr_ps_record){0};
    push(&g, FIRST + 1, 12, true, 2);
    push(&g, FIRST + 1, 12, true, 3);
    mr_ps_record_aggregate(&g.head, RANGE, &g.r);
    MR_CHECK_INT(entries_with_something(&g), 2);
    end(&g);
}

MR_TEST(ps_aggregate_algebra_in_between_keeps_all_as_it_was)
{
    rig g = begin((mr_ps_table_options){.width = 2, .update = MR_PS_ADD});
    push(&g, FIRST, 10, true, 1);
    mr_ps_change scale = {.kind = MR_PS_CHANGE_ALGEBRA, .what = MR_PS_SCALE, .alpha = 3};
    apply(&g.head, &scale);
    mr_vec_push(&g.r.entries, ((mr_ps_entry){{9, 1}, scale, NULL}));
    push(&g, FIRST, 10, true, 2);
    mr_ps_record_aggregate(&g.head, RANGE, &g.r);
    MR_CHECK_INT(entries_with_something(&g), 3);
    end(&g);
}

/* Random pushes: whatever is put together, members hold the same bits. */
MR_TEST(ps_aggregate_members_hold_what_the_head_holds)
{
    uint64_t random = 1;
    static const mr_ps_update updates[] = {MR_PS_ASSIGN, MR_PS_ADD, MR_PS_MOMENTUM, MR_PS_ADAGRAD};
    for (int i = 0; i < 400; i++) {
        rig g = begin((mr_ps_table_options){.width = 2, .update = updates[i % 4], .rate = 0.1f, .a = 0.5f, .aggregate = i / 4 % 3});
        for (int records = 0; records < 3; records++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            int n = 1 + (int)(random >> 33) % MOST;
            for (int k = 0; k < n; k++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                uint64_t at = (random >> 33) % 20, most = 20 - at;
                push(&g, FIRST + at, 1 + (random >> 40) % most, random >> 63, (float)(random >> 50 & 7));
            }
            mr_ps_record_aggregate(&g.head, RANGE, &g.r);
            check_equal(&g);
            mr_ps_record_deinit(&g.r);
            g.r = (mr_ps_record){0};
        }
        end(&g);
    }
}
