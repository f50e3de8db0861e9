/* ps/store_test.c -- rows of ranges: changed, read, packed. */
#include "ps/store.h"

#include "tests/harness/test.h"

enum { RANGES = 4 };

static mr_ps_table_spec *spec(const char *name, mr_ps_table_options o)
{
    mr_ps_table_spec *t = mr_new(mr_ps_table_spec);
    MR_CHECK_OK(mr_ps_table_spec_init(t, mr_sv_of(name), &o));
    return t;
}

static void open_store(mr_ps_store *s, mr_ps_table_options o, size_t limit)
{
    mr_ps_store_init(s, RANGES, limit);
    MR_CHECK_OK(mr_ps_store_add(s, spec("t", o)));
}

static mr_status *change(mr_ps_store *s, int range, mr_ps_change c)
{
    MR_TRY(mr_ps_store_check(s, range, &c));
    mr_ps_store_change(s, range, &c);
    return NULL;
}

MR_TEST(ps_ranges_cover_all_keys_once)
{
    const uint64_t sizes[] = {1, 3, 240, 241, 1000, ((uint64_t)1 << 48) - 1};
    for (int i = 0; i < MR_COUNT(sizes); i++)
        for (int n = 1; n <= 300; n += 37) {
            MR_CHECK_INT(mr_ps_range_first(sizes[i], n, 0), 0);
            MR_CHECK(mr_ps_range_first(sizes[i], n, n) == sizes[i]);
            for (int k = 0; k < n; k++) {
                uint64_t first = mr_ps_range_first(sizes[i], n, k), end = mr_ps_range_first(sizes[i], n, k + 1);
                MR_CHECK(first <= end);
                if (first < end) {
                    MR_CHECK_INT(mr_ps_range_of(sizes[i], n, first), k);
                    MR_CHECK_INT(mr_ps_range_of(sizes[i], n, end - 1), k);
                }
            }
        }
}

MR_TEST(ps_store_takes_memory_at_the_first_change)
{
    mr_ps_store s;
    open_store(&s, (mr_ps_table_options){.num_keys = 40, .update = MR_PS_ADD, .start = 2}, 0);
    float v[10], one = 1;
    mr_ps_store_read(&s, 0, 1, (mr_ps_keys){.first = 10, .n = 10}, false, v);
    MR_CHECK_INT(s.used, 0);
    MR_CHECK_NEAR(v[9], 2, 0);
    MR_CHECK_OK(change(
        &s, 1, (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .keys = {.first = 12, .n = 1}, .floats = &one}));
    MR_CHECK_INT(s.used, 10 * sizeof(float));
    mr_ps_store_read(&s, 0, 1, (mr_ps_keys){.first = 10, .n = 10}, false, v);
    MR_CHECK_NEAR(v[1] * 10 + v[2], 23, 0);
    mr_ps_store_drop(&s, 1);
    MR_CHECK_INT(s.used, 0);
    mr_ps_store_deinit(&s);
}

/* Whole numbers, so that any order of adding is exact. */
static void check_sums(int64_t rows)
{
    mr_ps_store s;
    double dot = 0, norm = 0, got;
    float x[100], y[100];
    mr_ps_table_options o = {.num_keys = (uint64_t)rows * RANGES, .update = MR_PS_ADD};
    open_store(&s, o, 0);
    MR_CHECK_OK(mr_ps_store_add(&s, spec("u", o)));
    for (int64_t i = 0; i < rows; i++) {
        x[i] = (float)(i % 7 - 3);
        y[i] = (float)(i % 5 - 1);
        dot += (double)x[i] * (double)y[i];
        norm += i % 7 < 3 ? -(double)x[i] : (double)x[i];
    }
    mr_ps_keys keys = {.first = (uint64_t)rows, .n = (size_t)rows}; /* of range 1 */
    MR_CHECK_OK(change(&s, 1, (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .keys = keys, .floats = x}));
    MR_CHECK_OK(change(&s, 1, (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .table = 1, .keys = keys, .floats = y}));
    MR_CHECK_OK(mr_ps_store_reduce(&s, 1, MR_PS_DOT, 0, 1, &got));
    MR_CHECK_NEAR(got, dot, 0);
    MR_CHECK_OK(mr_ps_store_reduce(&s, 1, MR_PS_NORM1, 0, 0, &got));
    MR_CHECK_NEAR(got, norm, 0);
    mr_ps_store_deinit(&s);
}

MR_TEST(ps_store_sums_up_ranges_of_any_length)
{
    for (int64_t rows = 1; rows <= 100; rows++)
        check_sums(rows);
}

/* A restore between two pushes of a round: what came before it counts no more, also not as a push of the round. */
MR_TEST(ps_store_set_rows_forget_what_was_aggregated)
{
    mr_ps_store s;
    open_store(&s, (mr_ps_table_options){.num_keys = 40, .update = MR_PS_ADD, .aggregate = 2}, 0);
    float v[10], hundred = 100, four = 4, zeros[10] = {0};
    const mr_ps_keys one = {.first = 12, .n = 1}, all = {.first = 10, .n = 10};
    MR_CHECK_OK(change(&s, 1, (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .keys = one, .floats = &hundred}));
    MR_CHECK_OK(change(&s, 1, (mr_ps_change){.kind = MR_PS_CHANGE_SET, .keys = all, .floats = zeros}));
    MR_CHECK_OK(change(&s, 1, (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .keys = one, .floats = &four}));
    mr_ps_store_read(&s, 0, 1, all, false, v);
    MR_CHECK_NEAR(v[2], 0, 0); /* the second of the round is still to come */
    MR_CHECK_OK(change(&s, 1, (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .keys = one, .floats = &four}));
    mr_ps_store_read(&s, 0, 1, all, false, v);
    MR_CHECK_NEAR(v[2], 4, 0);
    mr_ps_store_deinit(&s);
}

MR_TEST(ps_store_keeps_to_its_budget)
{
    mr_ps_store s;
    open_store(&s, (mr_ps_table_options){.num_keys = 40, .update = MR_PS_ADAGRAD}, 100);
    float one = 1;
    mr_ps_change c = {.kind = MR_PS_CHANGE_PUSH, .keys = {.first = 0, .n = 1}, .floats = &one};
    MR_CHECK_OK(change(&s, 0, c)); /* 80 bytes */
    c.keys.first = 10;
    MR_CHECK_ERR(change(&s, 1, c), MR_RESOURCE_EXHAUSTED, "range 1");
    mr_ps_store_deinit(&s);
}

MR_TEST(ps_store_refuses_keys_of_other_ranges)
{
    mr_ps_store s;
    open_store(&s, (mr_ps_table_options){.num_keys = 40, .update = MR_PS_ADD}, 0);
    const float v[3] = {1, 1, 1};
    const uint64_t wrong[][2] = {{9, 10}, {12, 12}, {13, 12}, {19, 20}};
    for (int i = 0; i < MR_COUNT(wrong); i++)
        MR_CHECK_ERR(change(&s, 1,
                            (mr_ps_change){
                                .kind = MR_PS_CHANGE_PUSH, .keys = {.list = wrong[i], .n = 2}, .floats = v}),
                     MR_INVALID_ARGUMENT, "");
    MR_CHECK_ERR(
        change(&s, 1,
               (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .keys = {.first = UINT64_MAX, .n = 3}, .floats = v}),
        MR_INVALID_ARGUMENT, "range 1");
    MR_CHECK_ERR(
        change(&s, 1,
               (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .keys = {.first = 12, .n = SIZE_MAX}, .floats = v}),
        MR_INVALID_ARGUMENT, "range 1");
    MR_CHECK_ERR(change(&s, 9, (mr_ps_change){.kind = MR_PS_CHANGE_PUSH}), MR_INVALID_ARGUMENT, "range 9");
    MR_CHECK_ERR(change(&s, 1, (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .table = 3}), MR_NOT_FOUND,
                 "table 3");
    MR_CHECK_ERR(change(&s, 1, (mr_ps_change){.kind = MR_PS_CHANGE_ALGEBRA, .what = MR_PS_AXPY, .other = 7}),
                 MR_NOT_FOUND, "table 7");
    mr_ps_store_deinit(&s);
}

/* A copy has what the range has, also of pushes that wait for others; and then does the same. */
MR_TEST(ps_store_packs_a_range_and_back)
{
    mr_ps_store a, b;
    mr_str bytes = {0};
    mr_ps_table_options o = {
        .num_keys = 40, .width = 2, .update = MR_PS_ADAM, .rate = 0.1f, .aggregate = 2, .spread = 1};
    open_store(&a, o, 0);
    open_store(&b, o, 0);
    float v[20], x[60], y[60];
    for (int i = 0; i < 20; i++)
        v[i] = (float)i;
    mr_ps_change c = {.kind = MR_PS_CHANGE_PUSH, .keys = {.first = 10, .n = 10}, .floats = v};
    for (int i = 0; i < 3; i++)
        MR_CHECK_OK(change(&a, 1, c));
    MR_CHECK_OK(mr_ps_store_pack(&a, 1, &bytes));
    MR_CHECK_OK(mr_ps_store_unpack(&b, 1, mr_str_view(&bytes)));
    MR_CHECK_INT(a.used, b.used);
    MR_CHECK_OK(change(&a, 1, c));
    MR_CHECK_OK(change(&b, 1, c));
    MR_CHECK_INT(mr_ps_table_row_floats(a.tables.p[0]) * 10 <= 80, 1);
    static float all_a[80], all_b[80];
    mr_ps_store_read(&a, 0, 1, c.keys, true, all_a);
    mr_ps_store_read(&b, 0, 1, c.keys, true, all_b);
    MR_CHECK(memcmp(all_a, all_b, 10 * mr_ps_table_row_floats(a.tables.p[0]) * sizeof(float)) == 0);
    mr_ps_store_read(&a, 0, 1, c.keys, false, x);
    mr_ps_store_read(&b, 0, 1, c.keys, false, y);
    MR_CHECK(memcmp(x, y, 20 * sizeof(float)) == 0);
    mr_str_deinit(&bytes);
    mr_ps_store_deinit(&a);
    mr_ps_store_deinit(&b);
}

/* Bytes that are cut or changed are refused, or are a range of the right size. */
MR_TEST(ps_store_survives_damaged_copies)
{
    mr_ps_store a, b;
    mr_str bytes = {0};
    mr_ps_table_options o = {.num_keys = 40, .update = MR_PS_MOMENTUM, .aggregate = 3};
    open_store(&a, o, 0);
    open_store(&b, o, 0);
    float v[10] = {0};
    MR_CHECK_OK(change(
        &a, 1, (mr_ps_change){.kind = MR_PS_CHANGE_PUSH, .keys = {.first = 10, .n = 10}, .floats = v}));
    MR_CHECK_OK(mr_ps_store_pack(&a, 1, &bytes));
    for (size_t i = 0; i < bytes.n; i++) {
        mr_status_free(mr_ps_store_unpack(&b, 1, (mr_sv){bytes.p, i}));
        bytes.p[i] ^= 0x55;
        mr_status_free(mr_ps_store_unpack(&b, 1, mr_str_view(&bytes)));
        bytes.p[i] ^= 0x55;
    }
    MR_CHECK_OK(mr_ps_store_unpack(&b, 1, mr_str_view(&bytes)));
    MR_CHECK_INT(a.used, b.used);
    mr_str_deinit(&bytes);
    mr_ps_store_deinit(&a);
    mr_ps_store_deinit(&b);
    MR_CHECK_INT(a.used + b.used, 0);
}

MR_TEST(ps_tables_are_the_same_as_bytes)
{
    mr_ps_table_options o = {.num_keys = 7,
                             .width = 3,
                             .update = MR_PS_FTRL,
                             .rate = 0.5f,
                             .a = 1,
                             .b = 2,
                             .epsilon = 3,
                             .l1 = 4,
                             .l2 = 5,
                             .start = 6,
                             .spread = 7,
                             .seed = 8,
                             .aggregate = 9};
    mr_ps_table_spec a, b;
    mr_pb_writer w;
    mr_str bytes = {0};
    MR_CHECK_OK(mr_ps_table_spec_init(&a, MR_SV("name"), &o));
    mr_pb_writer_init(&w, &bytes);
    mr_ps_table_spec_put(&w, &a);
    MR_CHECK_OK(mr_ps_table_spec_get(mr_str_view(&bytes), &b));
    MR_CHECK(mr_ps_table_spec_same(&a, &b));
    MR_CHECK_STR(b.name, "name");
    mr_ps_table_spec_deinit(&b);
    o.seed = 9;
    MR_CHECK_OK(mr_ps_table_spec_init(&b, MR_SV("name"), &o));
    MR_CHECK(!mr_ps_table_spec_same(&a, &b));
    mr_ps_table_spec_deinit(&a);
    mr_ps_table_spec_deinit(&b);
    mr_str_deinit(&bytes);
}
