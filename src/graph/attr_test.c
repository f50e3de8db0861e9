/* graph/attr_test.c -- attr values: bytes, copies, equality, hashes, text. */
#include "base/memory.h"
#include "graph/attr.h"
#include "proto/graph.pb-c.h"
#include "tests/harness/test.h"
#include "wire/message.h"
#include "wire/pb.h"
#include "wire/text_format.h"

typedef struct pad {
    mr_arena a;
    mr_tensor_vec held;
} pad;

static void pad_deinit(pad *p)
{
    for (int i = 0; i < p->held.n; i++)
        mr_tensor_unref(p->held.p[i]);
    mr_vec_deinit(&p->held);
    mr_arena_deinit(&p->a);
}

/* AttrValue text to bytes, by the reader for messages. */
static void to_bytes(const char *text, mr_str *out)
{
    ProtobufCMessage *m;
    MR_CHECK_OK(mr_text_parse(&tensorflow__attr_value__descriptor, mr_sv_of(text), &m));
    MR_CHECK_OK(mr_message_pack(m, out));
    mr_message_free(m);
}

static mr_attr of_text(pad *p, const char *text)
{
    mr_str bytes = {0};
    mr_attr v;
    to_bytes(text, &bytes);
    MR_CHECK_OK(mr_attr_decode(&p->a, mr_str_view(&bytes), &v));
    mr_str_deinit(&bytes);
    return v;
}

static const char *const samples[] = {
    "s: 'x\\000y'",
    "i: -3",
    "f: 1.5",
    "b: true",
    "b: false",
    "type: DT_FLOAT",
    "type: DT_INT32_REF",
    "shape { dim { size: 2 } dim { size: -1 } }",
    "shape { unknown_rank: true }",
    "shape { }",
    "tensor { dtype: DT_INT32 tensor_shape { } int_val: 7 }",
    "placeholder: 'T'",
    "func { name: 'f' attr { key: 'T' value { type: DT_FLOAT } } }",
    "list { }",
    "list { s: 'a' s: '' }",
    "list { i: 1 i: -2 i: 300 }",
    "list { f: 0.5 f: -0.0 }",
    "list { b: true b: false }",
    "list { type: DT_FLOAT type: DT_BOOL }",
    "list { shape { } shape { unknown_rank: true } }",
    "list { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 2 } }",
    "list { func { name: 'f' } func { name: 'g' } }",
    "",
};

MR_TEST(attr_of_every_kind_is_read_and_written_as_protobuf_does)
{
    for (int i = 0; i < MR_COUNT(samples); i++) {
        pad p = {0};
        mr_str bytes = {0}, again = {0};
        to_bytes(samples[i], &bytes);
        mr_attr v;
        MR_CHECK_OK(mr_attr_decode(&p.a, mr_str_view(&bytes), &v));
        MR_CHECK_OK(mr_attr_encode(&v, &again));
        if (!mr_sv_eq(mr_str_view(&bytes), mr_str_view(&again)))
            mr_test_fail(__FILE__, __LINE__, "%s changed", samples[i]);
        mr_str_deinit(&bytes);
        mr_str_deinit(&again);
        pad_deinit(&p);
    }
}

MR_TEST(attr_equals_its_copy_and_nothing_else)
{
    pad p = {0}, q = {0};
    for (int i = 0; i < MR_COUNT(samples); i++)
        for (int k = 0; k < MR_COUNT(samples); k++) {
            mr_attr x = of_text(&p, samples[i]), y = of_text(&p, samples[k]);
            mr_attr copy = mr_attr_copy(&q.a, &q.held, &y);
            if (mr_attr_eq(&x, &copy) != (i == k))
                mr_test_fail(__FILE__, __LINE__, "%s and %s", samples[i], samples[k]);
            MR_CHECK_INT(mr_attr_hash(&y, 1), mr_attr_hash(&copy, 1));
        }
    pad_deinit(&p);
    pad_deinit(&q);
}

MR_TEST(attr_packed_and_unpacked_lists_are_the_same)
{
    pad p = {0};
    mr_attr packed, plain;
    MR_CHECK_OK(mr_attr_decode(&p.a, MR_SV("\x0a\x04\x1a\x02\x01\x02"), &packed));
    MR_CHECK_OK(mr_attr_decode(&p.a, MR_SV("\x0a\x04\x18\x01\x18\x02"), &plain));
    MR_CHECK_INT(plain.n, 2);
    MR_CHECK(mr_attr_eq(&packed, &plain));
    pad_deinit(&p);
}

MR_TEST(attr_of_a_oneof_the_last_value_counts)
{
    pad p = {0};
    mr_attr v;
    MR_CHECK_OK(mr_attr_decode(&p.a, MR_SV("\x18\x05\x28\x01"), &v));
    MR_CHECK_INT(v.kind, MR_ATTR_BOOL);
    pad_deinit(&p);
}

MR_TEST(attr_lists_of_mixed_kinds_are_refused)
{
    pad p = {0};
    mr_attr v;
    MR_CHECK_ERR(mr_attr_decode(&p.a, MR_SV("\x0a\x04\x18\x01\x28\x01"), &v), MR_INVALID_ARGUMENT,
                 "more than one type");
    pad_deinit(&p);
}

MR_TEST(attr_nested_too_deeply_is_refused)
{
    pad p = {0};
    mr_attr v;
    mr_str bytes = {0};
    mr_pb_writer w;
    size_t marks[180];
    mr_pb_writer_init(&w, &bytes);
    for (int i = 0; i < 180; i += 3) {
        marks[i] = mr_pb_begin(&w, 10);    /* func { */
        marks[i + 1] = mr_pb_begin(&w, 2); /* attr { */
        marks[i + 2] = mr_pb_begin(&w, 2); /* value { */
    }
    for (int i = 179; i >= 0; i--)
        mr_pb_end(&w, marks[i]);
    MR_CHECK_ERR(mr_attr_decode(&p.a, mr_str_view(&bytes), &v), MR_INVALID_ARGUMENT, "deep");
    mr_str_deinit(&bytes);
    pad_deinit(&p);
}

MR_TEST(attr_names_with_a_nul_are_refused)
{
    pad p = {0};
    mr_attr v;
    MR_CHECK_ERR(mr_attr_decode(&p.a,
                                MR_SV("\x52\x05\x0a\x03"
                                      "a\0b"),
                                &v),
                 MR_INVALID_ARGUMENT, "NUL");
    pad_deinit(&p);
}

MR_TEST(attr_prints_for_people)
{
    pad p = {0};
    const char *const expected[] = {
        "\"x\\000y\"",
        "-3",
        "1.5",
        "true",
        "false",
        "DT_FLOAT",
        "DT_INT32_REF",
        "[2,?]",
        "<unknown>",
        "[]",
        "Tensor<type: int32 shape: [] values: 7>",
        "$T",
        "f[T=DT_FLOAT]",
        "[]",
        "[\"a\", \"\"]",
        "[1, -2, 300]",
        "[0.5, -0]",
        "[true, false]",
        "[DT_FLOAT, DT_BOOL]",
        "[[], <unknown>]",
        "[Tensor<type: float shape: [] values: 2>]",
        "[f[], g[]]",
        "<Unknown AttrValue type>",
    };
    for (int i = 0; i < MR_COUNT(samples); i++) {
        mr_attr v = of_text(&p, samples[i]);
        mr_str text = {0};
        mr_attr_print(&text, &v);
        MR_CHECK_STR(mr_str_z(&text), expected[i]);
        mr_str_deinit(&text);
    }
    pad_deinit(&p);
}

MR_TEST(attr_print_shortens_long_lists_and_strings)
{
    int64_t v[100] = {0};
    char s[200];
    mr_str text = {0};
    mr_attr list = mr_a_ints(100, v);
    memset(s, 'x', sizeof(s));
    mr_attr_print(&text, &list);
    MR_CHECK_STR(mr_str_z(&text), "[0, 0, 0, 0, 0, ..., 0, 0, 0, 0, 0]");
    mr_str_clear(&text);
    mr_attr str = mr_a_sv((mr_sv){s, sizeof(s)});
    mr_attr_print(&text, &str);
    MR_CHECK_INT(text.n, 2 + 35 + 3 + 35);
    mr_str_deinit(&text);
}

/* ---- tensors ---- */

static mr_tensor *ramp(int64_t n)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_tensor_new(NULL, MR_FLOAT, 1, &n, &t));
    for (int64_t i = 0; i < n; i++)
        MR_DATA(float, t)[i] = (float)i;
    return t;
}

static const mr_tensor_attr *raw_of(pad *p, const mr_tensor *t)
{
    mr_str bytes = {0};
    const mr_tensor_attr *v;
    MR_CHECK_OK(mr_tensor_encode(t, &bytes));
    MR_CHECK_OK(mr_tensor_attr_of(&(mr_attr_room){&p->a, &p->held}, mr_str_view(&bytes), &v));
    mr_str_deinit(&bytes);
    return v;
}

MR_TEST(attr_large_tensors_are_neither_copied_nor_decoded)
{
    pad p = {0}, q = {0};
    mr_tensor *t = ramp(5000), *a, *b;
    const mr_tensor_attr *v = raw_of(&p, t);
    MR_CHECK(v->blob);
    mr_attr copy = mr_attr_copy(&q.a, &q.held, &(mr_attr){MR_ATTR_TENSOR, .tensor = v});
    MR_CHECK_OK(mr_attr_tensor(v, &a));
    MR_CHECK_OK(mr_attr_tensor(copy.tensor, &b));
    MR_CHECK(a->data == b->data);
    MR_CHECK_INT((uintptr_t)a->data % 64, 0);
    MR_CHECK(mr_tensor_equal(a, t));
    MR_CHECK(!mr_tensor_sole(a));
    pad_deinit(&p); /* the tensors hold the bytes */
    pad_deinit(&q);
    MR_CHECK(mr_tensor_equal(b, t));
    mr_tensor_unref(a);
    mr_tensor_unref(b);
    mr_tensor_unref(t);
}

MR_TEST(attr_tensors_are_equal_by_value_however_serialized)
{
    pad p = {0};
    mr_tensor *t = ramp(8);
    mr_tensor_attr plain = {.t = t};
    const mr_tensor_attr *content = raw_of(&p, t);
    mr_attr typed = of_text(
        &p, "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 8 } } float_val: 0 float_val: 1 "
            "float_val: 2 float_val: 3 float_val: 4 float_val: 5 float_val: 6 float_val: 7 }");
    MR_CHECK(mr_tensor_attr_eq(&plain, content));
    MR_CHECK(mr_tensor_attr_eq(content, typed.tensor));
    MR_CHECK_INT(mr_tensor_attr_hash(&plain, 3), mr_tensor_attr_hash(content, 3));
    MR_CHECK_INT(mr_tensor_attr_hash(&plain, 3), mr_tensor_attr_hash(typed.tensor, 3));
    mr_tensor *other = ramp(9);
    MR_CHECK(!mr_tensor_attr_eq(content, raw_of(&p, other)));
    mr_tensor_unref(other);
    mr_tensor_unref(t);
    pad_deinit(&p);
}

MR_TEST(attr_shape_of_a_tensor_is_known_without_its_values)
{
    pad p = {0};
    mr_dtype type;
    mr_shape shape;
    mr_attr v = of_text(&p, "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 1099511627776 } } "
                            "float_val: 1 }");
    MR_CHECK_OK(mr_tensor_attr_shape(v.tensor, &type, &shape));
    MR_CHECK_INT(type, MR_FLOAT);
    MR_CHECK_INT(shape.dims[0], INT64_C(1) << 40);
    v = of_text(&p, "tensor { dtype: DT_INT32 }");
    MR_CHECK_OK(mr_tensor_attr_shape(v.tensor, &type, &shape));
    MR_CHECK_INT(shape.rank, 0);
    v = of_text(&p, "tensor { }");
    MR_CHECK_ERR(mr_tensor_attr_shape(v.tensor, &type, &shape), MR_INVALID_ARGUMENT, "bad type");
    pad_deinit(&p);
}

MR_TEST(attr_malformed_tensor_is_refused_when_read)
{
    pad p = {0};
    mr_attr v;
    MR_CHECK_ERR(mr_attr_decode(&p.a, MR_SV("\x42\x02\x22\x05"), &v), MR_INVALID_ARGUMENT,
                 "TensorProto");
    pad_deinit(&p);
}

/* ---- names ---- */

MR_TEST(attr_names_are_sorted_and_the_last_of_equals_stays)
{
    mr_named_attr v[100];
    for (int n = 3; n <= 100; n += 97) { /* the short and the long way */
        int left = n;
        for (int i = 0; i < n; i++)
            v[i] = (mr_named_attr){i % 3 == 0 ? "b" : i % 3 == 1 ? "a" : "c", mr_a_int(i)};
        MR_CHECK_OK(mr_named_attrs_sort(v, &left));
        MR_CHECK_INT(left, 3);
        MR_CHECK_INT(mr_named_attrs_find(v, left, "a")->i, n == 3 ? 1 : 97);
        MR_CHECK_INT(mr_named_attrs_find(v, left, "b")->i, n == 3 ? 0 : 99);
        MR_CHECK(!mr_named_attrs_find(v, left, "d"));
    }
}
