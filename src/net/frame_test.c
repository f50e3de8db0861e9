/* net/frame_test.c -- frames of the local transport, written and read. */
#include "net/frame.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "tests/harness/test.h"

static void nothing(void *owner) { (void)owner; }
static void nothing_returned(void *owner, uint32_t id) { (void)owner, (void)id; }

typedef struct setting {
    mr_segment_table table;
    mr_net_budget budget;
    mr_frame_reader reader;
} setting;

static setting *open_setting(void)
{
    setting *t = mr_new(setting);
    t->table = (mr_segment_table){.limit = 1 << 26, .keep = nothing, .returned = nothing_returned};
    t->budget.limit = 1 << 20;
    mr_frame_reader_init(&t->reader, &t->table, &t->budget, 1 << 20);
    return t;
}

static void close_setting(setting *t)
{
    mr_frame_reader_deinit(&t->reader);
    mr_segment_table_deinit(&t->table);
    MR_CHECK_INT(t->budget.used, 0);
    mr_free(t);
}

static void add_frame(mr_str *s, mr_frame_head h, const char *text, const mr_frame_part *parts,
                      const void *body)
{
    uint8_t bytes[MR_FRAME_HEAD];
    h.text_bytes = (uint32_t)strlen(text);
    mr_frame_head_write(&h, bytes);
    mr_str_append(s, bytes, sizeof(bytes));
    mr_str_appendz(s, text);
    for (int i = 0; i < h.n_parts; i++) {
        mr_frame_part_write(parts[i], bytes);
        mr_str_append(s, bytes, MR_FRAME_PART);
    }
    if (body)
        mr_str_append(s, body, h.stream_bytes);
}

/* Hands over at most `most` bytes at a time; the frames come out, up to the first error. */
static mr_status *feed(setting *t, mr_sv in, size_t most, mr_net_frame *out, int *n_out)
{
    *n_out = 0;
    while (in.n) {
        struct iovec io[2];
        int n = mr_frame_reader_space(&t->reader, io);
        size_t came = 0;
        for (int i = 0; i < n; i++) {
            size_t part = MR_MIN(MR_MIN(io[i].iov_len, in.n), most - came);
            memcpy(io[i].iov_base, in.p, part);
            in = (mr_sv){in.p + part, in.n - part};
            came += part;
        }
        mr_frame_reader_came(&t->reader, came);
        for (bool got = true; got;) {
            MR_TRY(mr_frame_reader_next(&t->reader, &out[*n_out], &got));
            *n_out += got;
        }
    }
    return NULL;
}

static void check_body(mr_net_frame *f, const char *text)
{
    mr_sv v;
    MR_CHECK_OK(mr_bytes_flat(&f->body, &v));
    MR_CHECK(mr_sv_is(v, text));
    mr_bytes_deinit(&f->body);
}

MR_TEST(frame_heads_survive_being_written)
{
    mr_frame_head h = {MR_FRAME_REPLY, 3, 77, 1ull << 40, 12345678901, 14, 9}, back;
    uint8_t bytes[MR_FRAME_HEAD], again[MR_FRAME_HEAD];
    mr_frame_head_write(&h, bytes);
    MR_CHECK_OK(mr_frame_head_read(bytes, &back));
    MR_CHECK(back.id == h.id && back.value == 14 && back.n_parts == 3 && back.segment == 9);
    mr_frame_head_write(&back, again);
    MR_CHECK(memcmp(bytes, again, sizeof(bytes)) == 0);
}

MR_TEST(frames_are_read_however_they_are_cut)
{
    mr_str s = {0};
    add_frame(&s, (mr_frame_head){MR_FRAME_REQUEST, .id = 1, .stream_bytes = 5, .value = 9}, "/a/B",
              NULL, "hello");
    add_frame(&s, (mr_frame_head){MR_FRAME_CANCEL, .id = 1}, "", NULL, NULL);
    add_frame(&s, (mr_frame_head){MR_FRAME_REPLY, .id = 2, .value = 5}, "not found", NULL, NULL);
    for (size_t most = 1; most <= s.n; most++) {
        setting *t = open_setting();
        mr_net_frame f[3];
        int n;
        MR_CHECK_OK(feed(t, mr_str_view(&s), most, f, &n));
        MR_CHECK_INT(n, 3);
        MR_CHECK_INT(f[0].head.value, 9);
        check_body(&f[0], "hello");
        MR_CHECK_INT(f[1].head.kind, MR_FRAME_CANCEL);
        MR_CHECK_INT(f[2].head.value, 5);
        MR_CHECK(mr_sv_is(f[2].text, "not found"));
        close_setting(t);
    }
    mr_str_deinit(&s);
}

MR_TEST(frame_bodies_longer_than_the_stage_arrive_whole)
{
    enum { N = 300000 };
    setting *t = open_setting();
    char *body = mr_alloc(N);
    for (int i = 0; i < N; i++)
        body[i] = (char)(i * 7);
    mr_str s = {0};
    for (int k = 0; k < 3; k++)
        add_frame(&s, (mr_frame_head){MR_FRAME_REPLY, .id = 1, .stream_bytes = N}, "", NULL, body);
    mr_net_frame f[3];
    int n;
    MR_CHECK_OK(feed(t, mr_str_view(&s), 70001, f, &n));
    MR_CHECK_INT(n, 3);
    for (int k = 0; k < 3; k++) {
        mr_sv v;
        MR_CHECK_INT(f[k].body.pieces.n, 1); /* contiguous: nothing to join */
        MR_CHECK_OK(mr_bytes_flat(&f[k].body, &v));
        MR_CHECK(v.n == N && memcmp(v.p, body, N) == 0);
        mr_bytes_deinit(&f[k].body);
    }
    mr_str_deinit(&s);
    mr_free(body);
    close_setting(t);
}

MR_TEST(frame_parts_join_stream_and_segment)
{
    setting *t = open_setting();
    mr_net_budget budget = {.limit = 1 << 20};
    mr_segment_pool pool = {.budget = &budget};
    mr_segment *seg = mr_segment_take(&pool, 1000);
    MR_CHECK(seg && mr_segment_make(&pool, seg));
    memcpy(seg->data + 128, "SHARED", 6);
    MR_CHECK_OK(mr_segment_map(&t->table, seg->id, (int64_t)seg->bytes, seg->fd));
    seg->fd = -1;
    mr_frame_part parts[] = {
        {MR_FRAME_IN_STREAM, 4}, {128, 6}, {MR_FRAME_IN_STREAM, 0}, {MR_FRAME_IN_STREAM, 3}};
    mr_str s = {0};
    add_frame(&s, (mr_frame_head){MR_FRAME_REQUEST, 4, .stream_bytes = 7, .segment = seg->id},
              "/a/B", parts, "headend");
    mr_net_frame f;
    int n;
    MR_CHECK_OK(feed(t, mr_str_view(&s), 11, &f, &n));
    MR_CHECK_INT(n, 1);
    MR_CHECK_INT(f.body.pieces.n, 3);
    check_body(&f, "headSHAREDend");
    mr_str_deinit(&s);
    mr_segment_pool_deinit(&pool);
    close_setting(t);
}

static void check_refused(mr_frame_head h, const mr_frame_part *parts, const char *body)
{
    setting *t = open_setting();
    mr_segment_pool pool = {.budget = &(mr_net_budget){.limit = 1 << 20}};
    mr_segment *seg = mr_segment_take(&pool, 1000);
    MR_CHECK(seg && mr_segment_make(&pool, seg));
    MR_CHECK_OK(mr_segment_map(&t->table, seg->id, (int64_t)seg->bytes, seg->fd));
    seg->fd = -1;
    mr_str s = {0};
    add_frame(&s, h, "", parts, body);
    mr_net_frame f;
    int n;
    MR_CHECK_ERR(feed(t, mr_str_view(&s), 1000, &f, &n), MR_INVALID_ARGUMENT, "");
    mr_str_deinit(&s);
    mr_segment_pool_deinit(&pool);
    close_setting(t);
}

MR_TEST(frame_parts_that_do_not_fit_are_refused)
{
    mr_frame_part beyond[] = {{128, 1 << 20}}, too_long[] = {{MR_FRAME_IN_STREAM, 9}},
                  huge[] = {{MR_FRAME_IN_STREAM, UINT64_MAX}}, wraps[] = {{UINT64_MAX - 1, 2}},
                  short_one[] = {{MR_FRAME_IN_STREAM, 2}};
    mr_frame_head h = {MR_FRAME_REQUEST, 1, .segment = 1, .stream_bytes = 4};
    check_refused(h, too_long, "abcd");
    check_refused(h, huge, "abcd");
    check_refused(h, short_one, "abcd");
    h.stream_bytes = 0;
    check_refused(h, beyond, NULL);
    check_refused(h, wraps, NULL);
    h.segment = 2; /* never announced */
    check_refused(h, short_one, NULL);
}

MR_TEST(frame_heads_that_make_no_sense_are_refused)
{
    check_refused((mr_frame_head){0}, NULL, NULL);
    check_refused((mr_frame_head){MR_FRAME_FORGET + 1}, NULL, NULL);
    check_refused((mr_frame_head){MR_FRAME_CANCEL, .stream_bytes = 1}, NULL, "x");
    check_refused((mr_frame_head){MR_FRAME_REQUEST, .value = -1}, NULL, NULL);
    check_refused((mr_frame_head){MR_FRAME_REPLY, .value = 1ll << 40}, NULL, NULL);
    check_refused((mr_frame_head){MR_FRAME_REQUEST, .segment = 1}, NULL, NULL);
    check_refused((mr_frame_head){MR_FRAME_REQUEST, 1}, &(mr_frame_part){0}, NULL);
}

MR_TEST(frame_bodies_over_the_limit_are_skipped)
{
    setting *t = open_setting();
    char *body = mr_calloc(1, 2 << 20);
    mr_str s = {0};
    add_frame(&s, (mr_frame_head){MR_FRAME_REQUEST, .id = 1, .stream_bytes = (1 << 20) + 1}, "/a/B",
              NULL, body);
    add_frame(&s, (mr_frame_head){MR_FRAME_REQUEST, .id = 2, .stream_bytes = 2}, "/a/C", NULL,
              "ok");
    mr_net_frame f[2];
    int n;
    MR_CHECK_OK(feed(t, mr_str_view(&s), 4096, f, &n));
    MR_CHECK_INT(n, 2);
    MR_CHECK(f[0].too_large && f[0].head.id == 1 && f[0].body.n == 0);
    MR_CHECK(!f[1].too_large);
    check_body(&f[1], "ok");
    mr_str_deinit(&s);
    mr_free(body);
    close_setting(t);
}

MR_TEST(frame_bodies_share_a_budget_until_they_are_dropped)
{
    setting *t = open_setting();
    char *body = mr_calloc(1, 600 << 10);
    mr_str s = {0};
    for (uint64_t id = 1; id <= 2; id++)
        add_frame(&s, (mr_frame_head){MR_FRAME_REQUEST, .id = id, .stream_bytes = 600 << 10}, "",
                  NULL, body);
    mr_net_frame f[2];
    int n;
    MR_CHECK_OK(feed(t, mr_str_view(&s), 100000, f, &n));
    MR_CHECK(n == 2 && !f[0].too_large && f[1].too_large);
    mr_bytes_deinit(&f[0].body);
    MR_CHECK_OK(feed(t, mr_str_view(&s), 100000, f, &n));
    MR_CHECK(!f[0].too_large);
    mr_bytes_deinit(&f[0].body);
    mr_str_deinit(&s);
    mr_free(body);
    close_setting(t);
}

/* A reply was asked for, and a tensor in its memory may live for long. */
MR_TEST(frame_bodies_of_replies_leave_the_budget_when_they_are_complete)
{
    setting *t = open_setting();
    char *body = mr_calloc(1, 600 << 10);
    mr_str s = {0};
    for (uint64_t id = 1; id <= 2; id++)
        add_frame(&s, (mr_frame_head){MR_FRAME_REPLY, .id = id, .stream_bytes = 600 << 10}, "", NULL, body);
    mr_net_frame f[2];
    int n;
    MR_CHECK_OK(feed(t, mr_str_view(&s), 100000, f, &n));
    MR_CHECK(n == 2 && !f[0].too_large && !f[1].too_large);
    MR_CHECK_INT(t->budget.used, 0);
    mr_bytes_deinit(&f[0].body);
    mr_bytes_deinit(&f[1].body);
    mr_str_deinit(&s);
    mr_free(body);
    close_setting(t);
}

MR_TEST(frame_reader_takes_no_memory_for_a_head_that_lies)
{
    setting *t = open_setting();
    mr_str s = {0};
    add_frame(&s, (mr_frame_head){MR_FRAME_REQUEST, .stream_bytes = UINT64_MAX}, "/a/B", NULL,
              NULL);
    mr_net_frame f;
    int n;
    MR_CHECK_OK(feed(t, mr_str_view(&s), 1000, &f, &n));
    MR_CHECK_INT(n, 0);
    MR_CHECK_INT(t->budget.used, 0);
    mr_str_deinit(&s);
    close_setting(t);
}

/* Two small parts and a large one between them, as a tensor between the fields of its message. */
MR_TEST(frame_parts_in_the_stream_are_aligned_however_they_are_cut)
{
    enum { LARGE = 70000, N = 5 + LARGE + 3 };
    static const size_t cuts[] = {1, 40, 63, 4096, 33000, 200000};
    mr_frame_part parts[] = {{MR_FRAME_IN_STREAM, 5}, {MR_FRAME_IN_STREAM, 0}, {MR_FRAME_IN_STREAM, LARGE},
                             {MR_FRAME_IN_STREAM, 3}};
    char *body = mr_alloc(N);
    mr_str s = {0};
    for (int i = 0; i < N; i++)
        body[i] = (char)(i * 7);
    for (int k = 0; k < 2; k++)
        add_frame(&s, (mr_frame_head){MR_FRAME_REPLY, .n_parts = 4, .id = 1, .stream_bytes = N}, "", parts, body);
    for (int c = 0; c < MR_COUNT(cuts); c++) {
        setting *t = open_setting();
        mr_net_frame f[2];
        int n;
        MR_CHECK_OK(feed(t, mr_str_view(&s), cuts[c], f, &n));
        MR_CHECK_INT(n, 2);
        for (int k = 0; k < 2; k++) {
            mr_sv v;
            MR_CHECK_INT(f[k].body.pieces.n, 3); /* the empty one leaves no piece */
            MR_CHECK_INT((uintptr_t)f[k].body.pieces.p[1].data % MR_SEGMENT_ALIGN, 0);
            MR_CHECK_INT(f[k].body.pieces.p[1].n, LARGE);
            MR_CHECK_OK(mr_bytes_flat(&f[k].body, &v));
            MR_CHECK(v.n == N && memcmp(v.p, body, N) == 0);
            mr_bytes_deinit(&f[k].body);
        }
        close_setting(t);
    }
    mr_str_deinit(&s);
    mr_free(body);
}

/* The reader must not believe a size before it has compared it. */
MR_TEST(frame_parts_in_the_stream_must_fit_the_body)
{
    static const struct {
        mr_frame_part a, b;
        uint64_t stream_bytes;
    } cases[] = {
        {{MR_FRAME_IN_STREAM, 5}, {MR_FRAME_IN_STREAM, 6}, 10},
        {{MR_FRAME_IN_STREAM, 5}, {MR_FRAME_IN_STREAM, 4}, 10},
        {{MR_FRAME_IN_STREAM, 5}, {MR_FRAME_IN_STREAM, UINT64_MAX - 2}, 2},
        {{MR_FRAME_IN_STREAM, UINT64_MAX - 30}, {MR_FRAME_IN_STREAM, 30}, UINT64_MAX},
        {{MR_FRAME_IN_STREAM, 5}, {0, 5}, 5}, /* in a segment, and the frame names none */
    };
    static const char body[16];
    for (int i = 0; i < MR_COUNT(cases); i++) {
        setting *t = open_setting();
        t->reader.max_message = SIZE_MAX;
        mr_frame_part parts[] = {cases[i].a, cases[i].b};
        mr_net_frame f[1];
        mr_str s = {0};
        int n;
        mr_frame_head h = {MR_FRAME_REPLY, .n_parts = 2, .id = 1, .stream_bytes = cases[i].stream_bytes};
        add_frame(&s, h, "", parts, NULL);
        mr_str_append(&s, body, sizeof(body));
        MR_CHECK_ERR(feed(t, mr_str_view(&s), 1000, f, &n), MR_INVALID_ARGUMENT, "part");
        MR_CHECK_INT(n, 0);
        mr_str_deinit(&s);
        close_setting(t);
    }
}
