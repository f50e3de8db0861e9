/* ops/parse/proto_pool_test.c -- messages that are described at run time.
 *
 * The descriptors are those that a compiler writes for
 *
 *     syntax = "proto2"; package p;
 *     enum E { A = 3; B = -4; }
 *     message M {
 *         optional E e = 1;
 *         repeated int32 r = 2 [packed = true];
 *         optional group G = 3 { optional bytes b = 1 [default = "\001x"]; }
 *         optional M m = 4;
 *         extensions 100 to 200;
 *     }
 *     extend M { optional bool flag = 100; } */
#include "ops/parse/proto_pool.h"

#include "base/memory.h"
#include "tests/harness/test.h"
#include "wire/pb.h"

static void put_field(mr_pb_writer *w, uint32_t number, const char *name, int n, int label, int type,
                      const char *type_name)
{
    size_t mark = mr_pb_begin(w, number);
    mr_pb_put_bytes(w, 1, mr_sv_of(name));
    if (n == 100)
        mr_pb_put_bytes(w, 2, MR_SV(".p.M"));
    mr_pb_put_varint(w, 3, (uint64_t)n);
    mr_pb_put_varint(w, 4, (uint64_t)label);
    mr_pb_put_varint(w, 5, (uint64_t)type);
    if (type_name)
        mr_pb_put_bytes(w, 6, mr_sv_of(type_name));
    if (type == MR_PROTO_BYTES)
        mr_pb_put_bytes(w, 7, MR_SV("\\001x"));
    if (label == 3)
        mr_pb_put_bytes(w, 8, MR_SV("\x10\x01"));
    mr_pb_end(w, mark);
}

static void put_enum(mr_pb_writer *w)
{
    static const struct {
        const char *name;
        int64_t number;
    } values[] = {{"A", 3}, {"B", -4}};
    size_t mark = mr_pb_begin(w, 5);
    mr_pb_put_bytes(w, 1, MR_SV("E"));
    for (int i = 0; i < 2; i++) {
        size_t v = mr_pb_begin(w, 2);
        mr_pb_put_bytes(w, 1, mr_sv_of(values[i].name));
        mr_pb_put_varint(w, 2, (uint64_t)values[i].number);
        mr_pb_end(w, v);
    }
    mr_pb_end(w, mark);
}

static void describe(mr_str *out, const char *type_of_e)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    size_t file = mr_pb_begin(&w, 1);
    mr_pb_put_bytes(&w, 2, MR_SV("p"));
    put_enum(&w);
    size_t m = mr_pb_begin(&w, 4);
    mr_pb_put_bytes(&w, 1, MR_SV("M"));
    put_field(&w, 2, "e", 1, 1, MR_PROTO_ENUM, type_of_e);
    put_field(&w, 2, "r", 2, 3, MR_PROTO_INT32, NULL);
    put_field(&w, 2, "g", 3, 1, MR_PROTO_GROUP, ".p.M.G");
    put_field(&w, 2, "m", 4, 1, MR_PROTO_MESSAGE, ".p.M");
    size_t g = mr_pb_begin(&w, 3);
    mr_pb_put_bytes(&w, 1, MR_SV("G"));
    put_field(&w, 2, "b", 1, 1, MR_PROTO_BYTES, NULL);
    mr_pb_end(&w, g);
    mr_pb_end(&w, m);
    put_field(&w, 7, "flag", 100, 1, MR_PROTO_BOOL, NULL);
    mr_pb_end(&w, file);
}

static mr_proto_pool *pool(void)
{
    mr_str s = {0};
    mr_proto_pool *p;
    describe(&s, ".p.E");
    MR_CHECK_OK(mr_proto_pool_new(mr_str_view(&s), &p));
    mr_str_deinit(&s);
    return p;
}

MR_TEST(proto_pool_knows_nested_types_enums_and_extensions)
{
    mr_proto_pool *p = pool();
    const mr_proto_message *m = mr_proto_pool_find(p, MR_SV("p.M"));
    MR_CHECK(m != NULL && mr_proto_pool_find(p, MR_SV("p.M.G")) != NULL);
    MR_CHECK(mr_proto_message_field(m, MR_SV("m"))->message == m);
    MR_CHECK_INT(mr_proto_message_field(m, MR_SV("e"))->enumeration->numbers.p[1], -4);
    MR_CHECK(mr_proto_message_field(m, MR_SV("r"))->packed);
    MR_CHECK_INT(mr_proto_message_field(m, MR_SV("p.flag"))->number, 100);
    MR_CHECK(!mr_proto_message_field(m, MR_SV("flag")));
    mr_proto_pool_free(p);
}

MR_TEST(proto_pool_says_that_a_type_is_missing)
{
    mr_str s = {0};
    mr_proto_pool *p;
    describe(&s, ".p.F");
    MR_CHECK_ERR(mr_proto_pool_new(mr_str_view(&s), &p), MR_INVALID_ARGUMENT, "type p.F, which does not exist");
    MR_CHECK_ERR(mr_proto_pool_new(MR_SV("abc"), &p), MR_INVALID_ARGUMENT, "FileDescriptorSet");
    mr_str_deinit(&s);
}

static void check_text(const char *text, mr_sv bytes)
{
    mr_proto_pool *p = pool();
    mr_str out = {0};
    MR_CHECK_OK(mr_proto_from_text(mr_proto_pool_find(p, MR_SV("p.M")), mr_sv_of(text), &out));
    MR_CHECK(mr_sv_eq(mr_str_view(&out), bytes));
    MR_CHECK(mr_proto_is_message(mr_proto_pool_find(p, MR_SV("p.M")), bytes));
    mr_str_deinit(&out);
    mr_proto_pool_free(p);
}

MR_TEST(proto_text_becomes_bytes)
{
    check_text("e: A r: [1, 2] r: 3", MR_SV("\x08\x03\x10\x01\x10\x02\x10\x03"));
    check_text("g { b: 'x' \"y\" }", MR_SV("\x1b\x0a\x02xy\x1c"));
    check_text("m < e: 3; m: { } >, [p.flag]: true", MR_SV("\x22\x04\x08\x03\x22\x00\xa0\x06\x01"));
    check_text("", MR_SV(""));
}

MR_TEST(proto_text_says_where_it_is_wrong)
{
    static const char *const texts[] = {"x: 1",      "e: C",   "r: 5000000000", "r 1",   "g: 1",
                                        "m { e: 1 ", "e: 'a'", "[p.none]: 1",   "r: [1", "b: \"\\xzz\""};
    mr_proto_pool *p = pool();
    mr_str out = {0};
    for (int i = 0; i < MR_COUNT(texts); i++)
        MR_CHECK_ERR(mr_proto_from_text(mr_proto_pool_find(p, MR_SV("p.M")), mr_sv_of(texts[i]), &out),
                     MR_DATA_LOSS, "Unable to parse text protobuf");
    mr_str_clear(&out);
    for (int i = 0; i < 1000; i++)
        mr_str_appendz(&out, "m { ");
    mr_str deep = {0};
    MR_CHECK_ERR(mr_proto_from_text(mr_proto_pool_find(p, MR_SV("p.M")), mr_str_view(&out), &deep),
                 MR_DATA_LOSS, "expected fewer nested messages");
    mr_str_deinit(&deep);
    mr_str_deinit(&out);
    mr_proto_pool_free(p);
}

MR_TEST(proto_message_is_looked_at_in_all_its_depth)
{
    mr_proto_pool *p = pool();
    const mr_proto_message *m = mr_proto_pool_find(p, MR_SV("p.M"));
    MR_CHECK(mr_proto_is_message(m, MR_SV("\x22\x02\x08\x03")));
    MR_CHECK(!mr_proto_is_message(m, MR_SV("\x22\x02\x08\xff")));
    mr_proto_pool_free(p);
}
