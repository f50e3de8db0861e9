#include "wire/pb.h"

#include "tests/harness/test.h"

static mr_pb_reader over(const void *p, size_t n)
{
    mr_pb_reader r;
    mr_pb_reader_init(&r, (mr_sv){p, n});
    return r;
}

/* A reader over literal bytes, standing at its first field. */
#define FIRST(r, literal)                                \
    uint32_t field = 0, wire = 0;                        \
    mr_pb_reader r = over(literal, sizeof(literal) - 1); \
    MR_CHECK(mr_pb_next(&r, &field, &wire))

MR_TEST(pb_reads_every_wire_type)
{
    static const char bytes[] = "\x08\x96\x01"                         /* 1: varint 150 */
                                "\x11\x01\x02\x03\x04\x05\x06\x07\x08" /* 2: fixed64 */
                                "\x1a\x02hi"                           /* 3: bytes */
                                "\x25\x00\x00\x80\x3f";                /* 4: float 1 */
    uint32_t field, wire;
    mr_pb_reader r = over(bytes, sizeof(bytes) - 1);
    MR_CHECK(mr_pb_next(&r, &field, &wire) && field == 1 && wire == MR_WIRE_VARINT);
    MR_CHECK_INT(mr_pb_varint(&r), 150);
    MR_CHECK(mr_pb_next(&r, &field, &wire) && field == 2 && wire == MR_WIRE_FIXED64);
    MR_CHECK(mr_pb_fixed64(&r) == 0x0807060504030201u);
    MR_CHECK(mr_pb_next(&r, &field, &wire) && field == 3 && wire == MR_WIRE_BYTES);
    MR_CHECK(mr_sv_is(mr_pb_bytes(&r), "hi"));
    MR_CHECK(mr_pb_next(&r, &field, &wire) && field == 4 && wire == MR_WIRE_FIXED32);
    MR_CHECK(mr_pb_float(&r) == 1.0f);
    MR_CHECK(!mr_pb_next(&r, &field, &wire));
    MR_CHECK_OK(mr_pb_reader_status(&r, "x"));
}

MR_TEST(pb_int32_minus_one_takes_ten_bytes)
{
    FIRST(r, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    MR_CHECK_INT(mr_pb_int32(&r), -1);
    MR_CHECK(!mr_pb_more(&r));
}

MR_TEST(pb_varint_of_eleven_bytes_is_an_error)
{
    FIRST(r, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    MR_CHECK_INT(mr_pb_varint(&r), 0);
    MR_CHECK_ERR(mr_pb_reader_status(&r, "NodeDef"), MR_INVALID_ARGUMENT,
                 "NodeDef: malformed protobuf at byte 1: varint is longer than 10 bytes");
}

MR_TEST(pb_first_error_is_kept_and_ends_all_loops)
{
    FIRST(r, "\x0a\x05hi");
    MR_CHECK_INT(mr_pb_bytes(&r).n, 0);
    mr_pb_fail(&r, "another");
    MR_CHECK(!mr_pb_next(&r, &field, &wire));
    MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "length runs past the end");
}

MR_TEST(pb_wrong_wire_type_is_an_error)
{
    FIRST(r, "\x08\x01");
    MR_CHECK_INT(mr_pb_bytes(&r).n, 0);
    MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "wrong wire type");
}

MR_TEST(pb_bad_tags_are_errors)
{
    static const struct {
        const char *bytes, *error;
    } bad[] = {
        {"\x07", "field number out of range"},                 /* field 0 */
        {"\x80\x80\x80\x80\x10", "field number out of range"}, /* 2^32 */
        {"\x0c", "end of a group that did not begin"},
        {"\x0e", "unknown wire type"},
        {"\x0f", "unknown wire type"},
        {"\x80", "truncated"},
    };
    for (int i = 0; i < MR_COUNT(bad); i++) {
        uint32_t field, wire;
        mr_pb_reader r = over(bad[i].bytes, strlen(bad[i].bytes));
        MR_CHECK(!mr_pb_next(&r, &field, &wire));
        MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, bad[i].error);
    }
}

MR_TEST(pb_truncated_values_are_errors)
{
    static const char *const cut[] = {"\x09\x01\x02\x03\x04\x05\x06\x07",
                                      "\x0d\x01\x02\x03",
                                      "\x08\x80",
                                      "\x0a\x80",
                                      "\x0a\x01",
                                      "\x0b\x08",
                                      "\x0b"};
    for (int i = 0; i < MR_COUNT(cut); i++) {
        uint32_t field, wire;
        mr_pb_reader r = over(cut[i], strlen(cut[i]));
        MR_CHECK(mr_pb_next(&r, &field, &wire));
        mr_pb_skip(&r);
        MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "malformed");
    }
}

MR_TEST(pb_length_of_all_ones_is_an_error)
{
    FIRST(r, "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
    mr_pb_skip(&r);
    MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "length runs past the end");
}

MR_TEST(pb_error_inside_a_message_ends_the_outer_reader)
{
    FIRST(r, "\x0a\x02\x0a\x05\x10\x01");
    mr_pb_reader sub;
    MR_CHECK(mr_pb_message(&r, &sub));
    MR_CHECK(mr_pb_next(&sub, &field, &wire));
    mr_pb_bytes(&sub);
    MR_CHECK(!mr_pb_next(&r, &field, &wire));
    MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "at byte 4");
}

static int depth_reached(mr_pb_reader *r, int depth)
{
    uint32_t field, wire;
    mr_pb_reader sub;
    if (!mr_pb_next(r, &field, &wire) || !mr_pb_message(r, &sub))
        return depth;
    return depth_reached(&sub, depth + 1);
}

/* Bytes of `levels` messages, each the field 1 of the one around it. */
static void nested(int levels, mr_str *out)
{
    mr_pb_writer w;
    size_t mark[512];
    mr_pb_writer_init(&w, out);
    for (int i = 0; i < levels; i++)
        mark[i] = mr_pb_begin(&w, 1);
    for (int i = levels - 1; i >= 0; i--)
        mr_pb_end(&w, mark[i]);
    MR_CHECK_OK(mr_pb_writer_status(&w, "nested"));
}

MR_TEST(pb_depth_of_100_is_read_and_101_is_not)
{
    mr_str s = {0};
    nested(100, &s);
    mr_pb_reader r = over(s.p, s.n);
    MR_CHECK_INT(depth_reached(&r, 0), 100);
    MR_CHECK_OK(mr_pb_reader_status(&r, "x"));

    mr_str_clear(&s);
    nested(101, &s);
    r = over(s.p, s.n);
    MR_CHECK_INT(depth_reached(&r, 0), 100);
    MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "nested too deeply");
    mr_str_deinit(&s);
}

MR_TEST(pb_group_is_skipped_with_what_it_holds)
{
    /* 1: group { 2: varint, 3: group {}, 4: bytes }, 5: varint 7 */
    FIRST(r, "\x0b\x10\x01\x1b\x1c\x22\x01x\x0c\x28\x07");
    mr_pb_skip(&r);
    MR_CHECK(mr_pb_next(&r, &field, &wire) && field == 5);
    MR_CHECK_INT(mr_pb_varint(&r), 7);
}

MR_TEST(pb_group_must_end_with_its_own_number)
{
    FIRST(r, "\x0b\x14");
    mr_pb_skip(&r);
    MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "end of another group");
}

MR_TEST(pb_groups_nest_at_most_100_deep)
{
    char bytes[256];
    memset(bytes, 0x0b, 101);
    memset(bytes + 101, 0x0c, 101);
    uint32_t field, wire;
    mr_pb_reader r = over(bytes, 202);
    MR_CHECK(mr_pb_next(&r, &field, &wire));
    mr_pb_skip(&r);
    MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "nested too deeply");

    r = over(bytes + 1, 200);
    MR_CHECK(mr_pb_next(&r, &field, &wire));
    mr_pb_skip(&r);
    MR_CHECK_OK(mr_pb_reader_status(&r, "x"));
    MR_CHECK(!mr_pb_more(&r));
}

MR_TEST(pb_repeated_varints_read_the_same_packed_and_unpacked)
{
    static const char bytes[] = "\x08\x01"
                                "\x0a\x03\x02\x96\x01"
                                "\x08\x03";
    static const int64_t expected[] = {1, 2, 150, 3};
    uint32_t field, wire;
    int n = 0;
    mr_pb_reader p, r = over(bytes, sizeof(bytes) - 1);
    while (mr_pb_next(&r, &field, &wire)) {
        mr_pb_packed(&r, MR_WIRE_VARINT, &p);
        while (mr_pb_more(&p))
            MR_CHECK_INT(mr_pb_int64(&p), expected[n++]);
    }
    MR_CHECK_INT(n, 4);
    MR_CHECK_OK(mr_pb_reader_status(&r, "x"));
}

MR_TEST(pb_packed_counts_its_values)
{
    FIRST(r, "\x0a\x03\x02\x96\x01\x0a\010abcdefgh");
    mr_pb_reader p;
    MR_CHECK(mr_pb_packed(&r, MR_WIRE_VARINT, &p));
    MR_CHECK_INT(mr_pb_packed_count(&p), 2);
    MR_CHECK(mr_pb_next(&r, &field, &wire));
    MR_CHECK(mr_pb_packed(&r, MR_WIRE_FIXED32, &p));
    MR_CHECK_INT(mr_pb_packed_count(&p), 2);
}

MR_TEST(pb_packed_fixed_of_odd_length_is_an_error)
{
    FIRST(r, "\x0a\003abc");
    mr_pb_reader p;
    MR_CHECK(!mr_pb_packed(&r, MR_WIRE_FIXED32, &p));
    MR_CHECK(!mr_pb_more(&p));
    MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "not a multiple");
}

MR_TEST(pb_packed_varint_cut_short_is_an_error)
{
    FIRST(r, "\x0a\x02\x01\x80\x08\x01");
    mr_pb_reader p;
    MR_CHECK(mr_pb_packed(&r, MR_WIRE_VARINT, &p));
    while (mr_pb_more(&p))
        mr_pb_varint(&p);
    MR_CHECK_ERR(mr_pb_reader_status(&r, "x"), MR_INVALID_ARGUMENT, "truncated");
}

MR_TEST(pb_varint_sizes_agree_with_what_is_written)
{
    for (int bit = 0; bit <= 64; bit++)
        for (int less = 0; less < 2; less++) {
            uint64_t v = (bit == 64 ? 0 : (uint64_t)1 << bit) - (uint64_t)less;
            uint8_t buf[MR_PB_MAX_VARINT];
            size_t n = (size_t)(mr_pb_encode_varint(buf, v) - buf);
            MR_CHECK_INT(mr_pb_varint_size(v), n);
            mr_pb_reader r = over(buf, n);
            MR_CHECK(mr_pb_raw_varint(&r) == v);
            MR_CHECK(!mr_pb_more(&r));
        }
}

MR_TEST(pb_writer_writes_known_bytes)
{
    mr_str s = {0};
    mr_pb_writer w;
    static const int32_t three[] = {1, -1, 300};
    mr_pb_writer_init(&w, &s);
    mr_pb_put_varint(&w, 1, 150);
    mr_pb_put_fixed32(&w, 2, 1);
    mr_pb_put_double(&w, 3, 1.0);
    mr_pb_put_bytes(&w, 4, MR_SV("hi"));
    mr_pb_put_packed_int32(&w, 5, three, 3);
    static const char expected[] =
        "\x08\x96\x01\x15\x01\x00\x00\x00\x19\x00\x00\x00\x00\x00\x00\xf0\x3f"
        "\x22\x02hi\x2a\x0d\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\xac\x02";
    MR_CHECK(mr_sv_eq(mr_str_view(&s), MR_SV(expected)));
    MR_CHECK_OK(mr_pb_writer_status(&w, "x"));
    mr_str_deinit(&s);
}

MR_TEST(pb_opt_leaves_out_zero_but_not_minus_zero)
{
    mr_str s = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &s);
    mr_pb_opt_varint(&w, 1, 0);
    mr_pb_opt_fixed32(&w, 1, 0);
    mr_pb_opt_fixed64(&w, 1, 0);
    mr_pb_opt_bytes(&w, 1, MR_SV(""));
    mr_pb_opt_float(&w, 1, 0.0f);
    mr_pb_opt_double(&w, 1, 0.0);
    mr_pb_put_packed_int64(&w, 1, NULL, 0);
    mr_pb_put_packed_fixed(&w, 1, NULL, 0, 8);
    MR_CHECK_INT(s.n, 0);
    mr_pb_opt_float(&w, 1, -0.0f);
    MR_CHECK_INT(s.n, 5);
    mr_str_deinit(&s);
}

MR_TEST(pb_nested_lengths_of_every_width_come_out_right)
{
    static const size_t sizes[] = {0, 1, 127, 128, 129, 16383, 16384, 2097151, 2097152};
    for (int i = 0; i < MR_COUNT(sizes); i++) {
        mr_str s = {0}, payload = {0};
        mr_pb_writer w;
        for (size_t k = 0; k < sizes[i]; k++)
            mr_str_appendc(&payload, (char)('a' + k % 26));
        mr_pb_writer_init(&w, &s);
        mr_pb_put_varint(&w, 9, 9);
        size_t outer = mr_pb_begin(&w, 1), inner = mr_pb_begin(&w, 2);
        mr_pb_put_raw(&w, payload.p, payload.n);
        mr_pb_end(&w, inner);
        mr_pb_end(&w, outer);

        uint32_t field, wire;
        mr_pb_reader sub, r = over(s.p, s.n);
        MR_CHECK(mr_pb_next(&r, &field, &wire) && mr_pb_varint(&r) == 9);
        MR_CHECK(mr_pb_next(&r, &field, &wire) && field == 1);
        MR_CHECK(mr_pb_message(&r, &sub) && mr_pb_next(&sub, &field, &wire) && field == 2);
        MR_CHECK(mr_sv_eq(mr_pb_bytes(&sub), mr_str_view(&payload)));
        MR_CHECK(!mr_pb_more(&sub) && !mr_pb_more(&r));
        mr_str_deinit(&s);
        mr_str_deinit(&payload);
    }
}

MR_TEST(pb_writer_keeps_refused_memory_as_its_error)
{
    static const char kilo[1024];
    mr_str s = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &s);
    mr_memory_fail_after(1);
    mr_pb_put_raw(&w, kilo, sizeof(kilo));
    mr_pb_end(&w, mr_pb_begin(&w, 2));
    MR_CHECK_INT(s.n, 0);
    MR_CHECK_ERR(mr_pb_writer_status(&w, "x"), MR_RESOURCE_EXHAUSTED,
                 "x: out of memory after 0 bytes");
    mr_str_deinit(&s);
}

/* Random bytes must be walked to an end without leaving them; the sanitizers watch. */
static void walk(mr_pb_reader *r)
{
    uint32_t field, wire;
    mr_pb_reader sub;
    while (mr_pb_next(r, &field, &wire)) {
        if (wire == MR_WIRE_BYTES && field % 3 == 1) {
            mr_pb_message(r, &sub);
            walk(&sub);
        } else if (field % 3 == 2) {
            mr_pb_packed(r, MR_WIRE_VARINT, &sub);
            while (mr_pb_more(&sub))
                mr_pb_varint(&sub);
        } else {
            mr_pb_skip(r);
        }
    }
}

MR_TEST(pb_random_bytes_are_walked_without_harm)
{
    for (int i = 0; i < 20000; i++) {
        size_t n = mr_test_random() % 64;
        uint8_t *bytes = mr_alloc(n + 1); /* of the exact size plus nothing readable behind */
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)(mr_test_random() % (i % 2 ? 256 : 32));
        mr_pb_reader r = over(bytes, n);
        walk(&r);
        MR_CHECK(r.at == r.end);
        mr_status_free(mr_pb_reader_status(&r, "x"));
        mr_free(bytes);
    }
}
