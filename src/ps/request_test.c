/* ps/request_test.c -- a client's messages there and back, and such as no client sends. */
#include "ps/request.h"

#include "tests/harness/test.h"

enum { RANGES = 10, KEYS = 1000 };

typedef struct rig {
    mr_ps_table_spec t;
    mr_ps_key_cache *cache;
    mr_ps_request q, got;
    mr_bytes body;
    mr_ps_frame f;
    mr_ps_unpacked u;
    size_t most; /* bytes that are left; 0: any */
} rig;

static void open_rig(rig *r)
{
    *r = (rig){.q = {.client = 5, .ts = 9}};
    MR_CHECK_OK(mr_ps_table_spec_init(&r->t, MR_SV("t"),
                                      &(mr_ps_table_options){.num_keys = KEYS, .update = MR_PS_ADD}));
    r->cache = mr_ps_key_cache_new(1 << 20);
}

static void add_part(rig *r, uint64_t range, uint64_t count)
{
    mr_vec_push(&r->q.ranges, range);
    mr_vec_push(&r->q.prevs, 1);
    mr_vec_push(&r->q.epochs, 100 + range);
    mr_vec_push(&r->q.generations, 3);
    if (count)
        mr_vec_push(&r->q.counts, count);
}

/* Sends what q says with these raw bytes, and reads it. */
static mr_status *pass(rig *r, const void *raw, size_t n, size_t width)
{
    mr_pb_writer w;
    mr_str head = {0};
    mr_bytes more = {0};
    mr_ps_unpacked_deinit(&r->u);
    mr_ps_request_deinit(&r->got);
    mr_ps_frame_deinit(&r->f);
    mr_bytes_deinit(&r->body);
    r->got = (mr_ps_request){0};
    mr_bytes_add_copy(&more, raw, n);
    mr_ps_head_begin(&w, &head);
    mr_ps_request_put(&w, &r->q);
    MR_TRY(mr_ps_head_end(&w, &head, &more, &r->body));
    MR_TRY(mr_ps_frame_open(&r->body, &r->f));
    MR_TRY(mr_ps_request_get(r->f.head, RANGES, &r->got));
    return mr_ps_request_unpack(&r->got, &r->f, &r->t, RANGES, width, r->most ? r->most : SIZE_MAX, r->cache, &r->u);
}

static void close_rig(rig *r)
{
    mr_ps_unpacked_deinit(&r->u);
    mr_ps_request_deinit(&r->q);
    mr_ps_request_deinit(&r->got);
    mr_ps_frame_deinit(&r->f);
    mr_bytes_deinit(&r->body);
    mr_ps_table_spec_deinit(&r->t);
    mr_ps_key_cache_free(r->cache);
}

typedef struct raw {
    uint64_t keys[3];
    float values[3];
} raw;

static void say_list(rig *r)
{
    add_part(r, 1, 2);
    add_part(r, 7, 1);
    r->q.key_bytes = 24;
    r->q.value_bytes = 12;
}

MR_TEST(ps_request_of_a_list_comes_through)
{
    rig r;
    raw x = {{101, 150, 700}, {1, 2, 3}};
    open_rig(&r);
    say_list(&r);
    MR_CHECK_OK(pass(&r, &x, 36, 1));
    MR_CHECK_INT(r.u.parts.n, 2);
    MR_CHECK_INT(r.u.parts.p[0].n, 2);
    MR_CHECK_INT(r.u.parts.p[1].list[0], 700);
    MR_CHECK_NEAR(r.u.floats[r.u.at.p[1]], 3, 0);
    MR_CHECK_INT(r.got.epochs.p[1], 107);
    close_rig(&r);
}

MR_TEST(ps_request_of_a_range_is_cut_by_ranges)
{
    rig r;
    float v[150] = {0};
    open_rig(&r);
    r.q.first = 150;
    r.q.n = 200;
    r.q.value_bytes = sizeof v;
    v[50] = 7;
    add_part(&r, 1, 0); /* 150 .. 199 */
    add_part(&r, 2, 0); /* 200 .. 299 */
    MR_CHECK_OK(pass(&r, v, sizeof v, 1));
    MR_CHECK_INT(r.u.parts.p[0].first, 150);
    MR_CHECK_INT(r.u.parts.p[0].n, 50);
    MR_CHECK_INT(r.u.parts.p[1].n, 100);
    MR_CHECK_NEAR(r.u.floats[r.u.at.p[1]], 7, 0);
    r.q.n = 900; /* more than there are */
    MR_CHECK_ERR(pass(&r, v, sizeof v, 1), MR_INVALID_ARGUMENT, "has 1000 keys");
    r.q.n = UINT64_MAX - 100;
    MR_CHECK_ERR(pass(&r, v, sizeof v, 1), MR_INVALID_ARGUMENT, "has 1000 keys");
    close_rig(&r);
}

MR_TEST(ps_request_knows_a_list_by_its_hash)
{
    rig r;
    raw x = {{101, 150, 700}, {1, 2, 3}};
    open_rig(&r);
    say_list(&r);
    r.q.key_hash = 77;
    r.q.key_form = MR_PS_KEYS_HASH;
    r.q.key_bytes = 0;
    MR_CHECK_ERR(pass(&r, x.values, 12, 1), MR_NOT_FOUND, "no longer knows");
    r.q.key_form = MR_PS_KEYS_RAW;
    r.q.key_bytes = 24;
    r.q.remember = true;
    MR_CHECK_OK(pass(&r, &x, 36, 1));
    r.q.key_form = MR_PS_KEYS_HASH;
    r.q.key_bytes = 0;
    MR_CHECK_OK(pass(&r, x.values, 12, 1));
    MR_CHECK_INT(r.u.parts.p[1].list[0], 700);
    r.q.client = 6; /* lists are everybody's own */
    MR_CHECK_ERR(pass(&r, x.values, 12, 1), MR_NOT_FOUND, "no longer knows");
    close_rig(&r);
}

MR_TEST(ps_request_refuses_sizes_that_do_not_fit)
{
    rig r;
    raw x = {{101, 150, 700}, {1, 2, 3}};
    open_rig(&r);
    say_list(&r);
    MR_CHECK_ERR(pass(&r, &x, 35, 1), MR_INVALID_ARGUMENT, "");
    MR_CHECK_ERR(pass(&r, &x, 36, 2), MR_INVALID_ARGUMENT, "");
    r.q.counts.p[0] = UINT64_MAX;
    MR_CHECK_ERR(pass(&r, &x, 36, 1), MR_INVALID_ARGUMENT, "");
    r.q.counts.p[0] = 3;
    MR_CHECK_ERR(pass(&r, &x, 36, 1), MR_INVALID_ARGUMENT, "");
    r.q.counts.p[0] = 2;
    r.q.key_bytes = UINT64_MAX - 7;
    MR_CHECK_ERR(pass(&r, &x, 36, 1), MR_INVALID_ARGUMENT, "");
    r.q.key_bytes = 24;
    x.keys[1] = 101;
    MR_CHECK_ERR(pass(&r, &x, 36, 1), MR_INVALID_ARGUMENT, "");
    x.keys[1] = 150;
    r.q.ranges.p[1] = 1;
    MR_CHECK_ERR(pass(&r, &x, 36, 1), MR_INVALID_ARGUMENT, "range 1");
    r.q.ranges.p[1] = RANGES;
    MR_CHECK_ERR(pass(&r, &x, 36, 1), MR_INVALID_ARGUMENT, "range 10");
    r.q.ranges.p[1] = 7;
    r.q.epochs.n = 1;
    MR_CHECK_ERR(pass(&r, &x, 36, 1), MR_INVALID_ARGUMENT, "2 parts");
    close_rig(&r);
}

MR_TEST(ps_request_without_absent_rows_of_a_range_is_a_list)
{
    rig r;
    mr_str packed = {0};
    float v[20] = {0};
    uint8_t present[20] = {0};
    open_rig(&r);
    present[3] = present[15] = 1;
    v[3] = 3;
    v[15] = 15;
    MR_CHECK_OK(mr_ps_values_pack(&(mr_ps_codec){.snappy = true}, v, present, 20, 1, &packed));
    r.q.first = 190;
    r.q.n = 20;
    r.q.packed = true;
    r.q.value_bytes = packed.n;
    add_part(&r, 1, 0);
    add_part(&r, 2, 0);
    MR_CHECK_OK(pass(&r, packed.p, packed.n, 1));
    MR_CHECK_INT(r.u.n_rows, 2);
    MR_CHECK_INT(r.u.parts.p[0].n, 1);
    MR_CHECK_INT(r.u.parts.p[0].list[0], 193);
    MR_CHECK_INT(r.u.parts.p[1].list[0], 205);
    MR_CHECK_NEAR(r.u.floats[1], 15, 0);
    mr_str_deinit(&packed);
    close_rig(&r);
}

/* Twenty rows from key 190 on, of which some are there. */
static mr_status *pass_packed(rig *r, int there, size_t most)
{
    mr_str packed = {0};
    float v[20] = {0};
    uint8_t present[20] = {0};
    memset(present, 1, (size_t)there);
    MR_CHECK_OK(mr_ps_values_pack(&(mr_ps_codec){.snappy = true}, v, present, 20, 1, &packed));
    r->q.value_bytes = packed.n;
    r->most = most;
    mr_status *st = pass(r, packed.p, packed.n, 1);
    mr_str_deinit(&packed);
    return st;
}

MR_TEST(ps_request_is_weighed_as_it_comes_out)
{
    rig r;
    open_rig(&r);
    r.q.first = 190;
    r.q.n = 20;
    r.q.packed = true;
    add_part(&r, 1, 0);
    add_part(&r, 2, 0);
    MR_CHECK_ERR(pass_packed(&r, 20, 239), MR_UNAVAILABLE, "room for only 19 rows"); /* a key and a float each */
    MR_CHECK_OK(pass_packed(&r, 20, 240));
    MR_CHECK_ERR(pass_packed(&r, 2, 23), MR_UNAVAILABLE, "room for only 1 rows");
    MR_CHECK_OK(pass_packed(&r, 2, 24)); /* what is absent takes nothing */
    close_rig(&r);
}

MR_TEST(ps_request_of_a_known_list_is_weighed_with_its_keys)
{
    rig r;
    const struct {
        uint64_t keys[2];
        float values[2];
    } x = {{3, 5}, {1, 2}};
    open_rig(&r);
    r.q.key_hash = 77;
    r.q.remember = true;
    r.q.key_bytes = sizeof x.keys;
    r.q.value_bytes = sizeof x.values;
    add_part(&r, 0, 2);
    MR_CHECK_OK(pass(&r, &x, sizeof x, 1));
    r.q.key_form = MR_PS_KEYS_HASH;
    r.q.key_bytes = 0;
    r.most = 23;
    MR_CHECK_ERR(pass(&r, x.values, sizeof x.values, 1), MR_UNAVAILABLE, "No memory for 2 keys");
    r.most = 24;
    MR_CHECK_OK(pass(&r, x.values, sizeof x.values, 1));
    close_rig(&r);
}

MR_TEST(ps_frame_needs_a_whole_head)
{
    mr_ps_frame f;
    mr_bytes b = {0};
    MR_CHECK_ERR(mr_ps_frame_open(&b, &f), MR_INVALID_ARGUMENT, "no complete head");
    mr_bytes_add_copy(&b, "\5\0\0\0abcd", 8);
    MR_CHECK_ERR(mr_ps_frame_open(&b, &f), MR_INVALID_ARGUMENT, "no complete head");
    mr_bytes_add_copy(&b, "e!", 2);
    MR_CHECK_OK(mr_ps_frame_open(&b, &f));
    MR_CHECK(mr_sv_is(f.head, "abcde"));
    MR_CHECK_INT(f.raw_n, 1);
    char c;
    MR_CHECK_ERR(mr_ps_frame_read(&f, 0, 2, &c), MR_INVALID_ARGUMENT, "");
    MR_CHECK_ERR(mr_ps_frame_read(&f, SIZE_MAX, 2, &c), MR_INVALID_ARGUMENT, "");
    mr_ps_frame_deinit(&f);
    mr_bytes_deinit(&b);
}

static const char *address(void *arg, uint64_t id)
{
    (void)arg;
    return id == 3 ? "host:3" : "host:4";
}

MR_TEST(ps_view_comes_through)
{
    mr_ps_view v = {.epoch = 50, .replicas = 2};
    mr_ps_map m = {0};
    mr_str s = {0};
    mr_pb_writer w;
    mr_vec_push(&v.servers, (mr_ps_peer){.id = 3});
    mr_vec_push(&v.servers, (mr_ps_peer){.id = 4, .leaving = true});
    mr_vec_push(&v.ranges, (mr_ps_range){.epoch = 50, .generation = 20, .n = 2, .chain = {{3, 20}, {4, 30}}});
    mr_vec_push(&v.ranges, (mr_ps_range){.epoch = 40,
                                       .generation = 20,
                                       .n = 1,
                                       .draining = true,
                                       .chain = {{4, 20}},
                                       .catching = {3, 40}});
    mr_pb_writer_init(&w, &s);
    mr_ps_view_put(&w, &v, address, NULL);
    MR_CHECK_OK(mr_ps_map_get(mr_str_view(&s), &m));
    MR_CHECK_STR(mr_ps_map_address(&m, 4), "host:4");
    MR_CHECK(!mr_ps_map_address(&m, 5));
    MR_CHECK_INT(m.view.ranges.p[0].chain[1].since, 30);
    MR_CHECK_INT(m.view.ranges.p[1].catching.id, 3);
    MR_CHECK(m.view.ranges.p[1].draining && m.view.servers.p[1].leaving);
    for (size_t n = 0; n < s.n; n++) { /* cut anywhere it is refused, or a sound view */
        mr_ps_map cut = {0};
        mr_status_free(mr_ps_map_get((mr_sv){s.p, n}, &cut));
        mr_ps_map_deinit(&cut);
    }
    mr_str_deinit(&s);
    mr_ps_map_deinit(&m);
    mr_ps_view_deinit(&v);
}
