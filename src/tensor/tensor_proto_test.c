#include "tensor/tensor.h"

#include "base/file.h"
#include "base/memory.h"
#include "tests/harness/test.h"
#include "wire/pb.h"

#define DIMS(...) (int64_t[]){__VA_ARGS__}

/* A proto by hand: dtype, one dimension (-1: scalar), then raw bytes of other fields. */
static mr_str proto(int dtype, int64_t dim, mr_sv rest)
{
    mr_str s = {0}, shape = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, &s);
    mr_pb_opt_varint(&w, 1, (uint64_t)dtype);
    if (dim >= 0)
        mr_shape_encode(1, &dim, &shape);
    mr_pb_put_bytes(&w, 2, mr_str_view(&shape));
    mr_pb_put_raw(&w, rest.p, rest.n);
    mr_str_deinit(&shape);
    return s;
}

static mr_tensor *decoded(int dtype, int64_t dim, mr_sv rest)
{
    mr_tensor *t = NULL;
    mr_str s = proto(dtype, dim, rest);
    MR_CHECK_OK(mr_tensor_decode(NULL, mr_str_view(&s), &t));
    mr_str_deinit(&s);
    return t;
}

static mr_status *refused(int dtype, int64_t dim, mr_sv rest)
{
    mr_tensor *t = NULL;
    mr_str s = proto(dtype, dim, rest);
    mr_status *st = mr_tensor_decode(NULL, mr_str_view(&s), &t);
    mr_str_deinit(&s);
    if (!st)
        mr_tensor_unref(t);
    return st;
}

/* Decodes, compares the values as printed, frees. */
static void check_values(int dtype, int64_t dim, mr_sv rest, const char *expected)
{
    mr_tensor *t = decoded(dtype, dim, rest);
    mr_str text = {0};
    mr_tensor_summarize(t, -1, &text);
    MR_CHECK_STR(mr_str_z(&text), expected);
    mr_str_deinit(&text);
    mr_tensor_unref(t);
}
#define FIELDS(literal) MR_SV(literal)

MR_TEST(tensor_proto_reads_every_typed_field)
{
    check_values(MR_FLOAT, 2, FIELDS("\x2a\x08\0\0\x80\x3f\0\0\0\x40"), "1 2");
    check_values(MR_DOUBLE, 1, FIELDS("\x32\x08\0\0\0\0\0\0\xf0\x3f"), "1");
    check_values(MR_INT32, 3,
                 FIELDS("\x3a\x0d\x05\xac\x02\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                 "5 300 -1");
    check_values(MR_INT8, 2, FIELDS("\x3a\x0b\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                 "5 -1");
    check_values(MR_UINT8, 1, FIELDS("\x3a\x02\xff\x01"), "255");
    check_values(MR_QUINT16, 1, FIELDS("\x3a\x03\xff\xff\x03"), "65535");
    check_values(MR_INT64, 1, FIELDS("\x52\x05\x80\x80\x80\x80\x10"), "4294967296");
    check_values(MR_UINT32, 1, FIELDS("\x82\x01\x05\xff\xff\xff\xff\x0f"), "4294967295");
    check_values(MR_UINT64, 1, FIELDS("\x8a\x01\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                 "18446744073709551615");
    check_values(MR_BOOL, 3, FIELDS("\x5a\x03\x01\x00\x02"), "1 0 1");
    check_values(MR_HALF, 1, FIELDS("\x6a\x02\x80\x7c"), "1.5");
    check_values(MR_BFLOAT16, 1, FIELDS("\x6a\x03\xc0\xff\x00"), "1.5");
    check_values(MR_COMPLEX64, 1, FIELDS("\x4a\x08\0\0\x80\x3f\0\0\0\x40"), "(1,2)");
    check_values(MR_COMPLEX128, 1, FIELDS("\x62\x10\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\x40"),
                 "(1,2)");
    check_values(MR_STRING, 2, FIELDS("\x42\x02hi\x42\0"), "hi ");
    check_values(MR_FLOAT8_E5M2, 2, FIELDS("\x92\x01\x02\x3e\x3c"), "1.5 1");
    check_values(MR_INT4, 2, FIELDS("\x3a\x02\x03\x04"), "3 4");
}

MR_TEST(tensor_proto_reads_values_one_by_one_and_in_pieces)
{
    check_values(MR_FLOAT, 3, FIELDS("\x2d\0\0\x80\x3f\x2a\x08\0\0\0\x40\0\0\x40\x40"), "1 2 3");
    check_values(MR_INT32, 4, FIELDS("\x38\x01\x3a\x02\x02\x03\x38\x04"), "1 2 3 4");
    check_values(MR_COMPLEX64, 1, FIELDS("\x4d\0\0\x80\x3f\x4d\0\0\0\x40"), "(1,2)");
}

MR_TEST(tensor_proto_fields_come_in_any_order)
{
    mr_tensor *t = NULL;
    MR_CHECK_OK(mr_tensor_decode(NULL, MR_SV("\x3a\x01\x07\x12\0\x18\x05\x08\x03"), &t));
    MR_CHECK_INT(*MR_DATA(int32_t, t), 7);
    MR_CHECK_INT(t->rank, 0);
    mr_tensor_unref(t);
}

MR_TEST(tensor_proto_last_value_fills_the_rest)
{
    check_values(MR_FLOAT, 4, FIELDS("\x2a\x08\0\0\x80\x3f\0\0\0\x40"), "1 2 2 2");
    check_values(MR_INT64, 7, FIELDS("\x52\x01\x09"), "9 9 9 9 9 9 9");
    check_values(MR_BOOL, 3, FIELDS("\x5a\x01\x01"), "1 1 1");
    check_values(MR_COMPLEX64, 2, FIELDS("\x4a\x08\0\0\x80\x3f\0\0\0\x40"), "(1,2) (1,2)");
    check_values(MR_COMPLEX64, 2, FIELDS("\x4a\x04\0\0\x80\x3f"),
                 "(0,0) (0,0)"); /* half a value is none */
    check_values(MR_STRING, 3, FIELDS("\x42\x01" "a\x42\x01" "b"), "a b b");
    check_values(MR_STRING, 2, FIELDS("\x42\x1f" "thirty-one bytes, a longer text"),
                 "thirty-one bytes, a longer text thirty-one bytes, a longer text");
}

MR_TEST(tensor_proto_no_value_means_zero)
{
    check_values(MR_FLOAT, 3, FIELDS(""), "0 0 0");
    check_values(MR_INT32, -1, FIELDS(""), "0");
    check_values(MR_STRING, 2, FIELDS(""), " ");
    check_values(MR_INT32, 2, FIELDS("\x52\x01\x09"), "0 0"); /* the field of another type */
}

MR_TEST(tensor_proto_surplus_values_are_ignored)
{
    check_values(MR_INT32, 2, FIELDS("\x3a\x03\x01\x02\x03"), "1 2");
    check_values(MR_FLOAT, -1, FIELDS("\x2a\x08\0\0\x80\x3f\0\0\0\x40"), "1");
    check_values(MR_STRING, -1, FIELDS("\x42\x01" "a\x42\x01" "b"), "a");
}

MR_TEST(tensor_proto_content_wins_over_values)
{
    check_values(MR_INT32, 2, FIELDS("\x22\x08\x01\0\0\0\x02\0\0\0\x3a\x02\x07\x08"), "1 2");
    check_values(MR_BOOL, 3, FIELDS("\x22\x03\x00\x01\xff"), "0 1 1");
    check_values(MR_INT32, 1, FIELDS("\x22\x00\x3a\x01\x07"), "7"); /* empty content is none */
}

MR_TEST(tensor_proto_content_of_strings_is_lengths_then_bytes)
{
    check_values(MR_STRING, 3, FIELDS("\x22\x08\x02\x00\x03" "hiyou"), "hi  you");
    MR_CHECK_ERR(refused(MR_STRING, 3,
                         FIELDS("\x22\x07\x02\x00\x03"
                                "hiyo")),
                 MR_INVALID_ARGUMENT, "lengths");
    MR_CHECK_ERR(refused(MR_STRING, 3,
                         FIELDS("\x22\x09\x02\x00\x03"
                                "hiyou!")),
                 MR_INVALID_ARGUMENT, "lengths");
    MR_CHECK_ERR(refused(MR_STRING, 3, FIELDS("\x22\x02\x00\x00")), MR_INVALID_ARGUMENT, "lengths");
    MR_CHECK_ERR(refused(MR_STRING, 1, FIELDS("\x22\x05\x80\x80\x80\x80\x10")), MR_INVALID_ARGUMENT,
                 "32 bits");
    MR_CHECK_ERR(refused(MR_STRING, 1, FIELDS("\x22\x01\x80")), MR_INVALID_ARGUMENT,
                 "tensor_content");
    /* 2^40 strings, three bytes: refused before anything is allocated */
    MR_CHECK_ERR(refused(MR_STRING, (int64_t)1 << 40, FIELDS("\x22\x03\0\0\0")),
                 MR_INVALID_ARGUMENT, "lengths");
}

MR_TEST(tensor_proto_content_has_exactly_its_size)
{
    MR_CHECK_ERR(refused(MR_FLOAT, 2, FIELDS("\x22\x04\0\0\0\0")), MR_INVALID_ARGUMENT,
                 "4 bytes, but shape [2] of type float takes 8");
    MR_CHECK_ERR(refused(MR_FLOAT, 1, FIELDS("\x22\x05\0\0\0\0\0")), MR_INVALID_ARGUMENT,
                 "5 bytes");
    MR_CHECK_ERR(refused(MR_FLOAT, (int64_t)1 << 40, FIELDS("\x22\x04\0\0\0\0")),
                 MR_INVALID_ARGUMENT, "4 bytes");
}

MR_TEST(tensor_proto_of_no_elements_needs_no_data)
{
    mr_tensor *t = decoded(MR_FLOAT, 0, FIELDS("\x22\x01x"));
    MR_CHECK_INT(t->n, 0);
    MR_CHECK_STR(MR_TENSOR_SHAPE(t), "[0]");
    mr_tensor_unref(t);
}

MR_TEST(tensor_proto_refuses_bad_types_and_shapes)
{
    mr_tensor *t = NULL;
    MR_CHECK_ERR(refused(0, 1, FIELDS("")), MR_INVALID_ARGUMENT, "dtype 0");
    MR_CHECK_ERR(refused(101, 1, FIELDS("")), MR_INVALID_ARGUMENT, "float_ref");
    MR_CHECK_ERR(refused(-1, 1, FIELDS("")), MR_INVALID_ARGUMENT, "dtype -1");
    MR_CHECK_ERR(refused(26, 1, FIELDS("")), MR_INVALID_ARGUMENT, "dtype 26");
    MR_CHECK_ERR(mr_tensor_decode(NULL, MR_SV("\x08\x01\x12\x02\x18\x01"), &t), MR_INVALID_ARGUMENT,
                 "rank");
    MR_CHECK_ERR(mr_tensor_decode(
                     NULL,
                     MR_SV("\x08\x01\x12\x0d\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
                     &t),
                 MR_INVALID_ARGUMENT, "-1");
    MR_CHECK_ERR(mr_tensor_decode(NULL, MR_SV(""), &t), MR_INVALID_ARGUMENT, "dtype 0");
    MR_CHECK_ERR(mr_tensor_decode(NULL, MR_SV("\x08"), &t), MR_INVALID_ARGUMENT, "TensorProto");
}

MR_TEST(tensor_proto_refuses_malformed_values)
{
    MR_CHECK_ERR(refused(MR_INT32, 1, FIELDS("\x3a\x01\x80")), MR_INVALID_ARGUMENT, "TensorProto");
    MR_CHECK_ERR(refused(MR_FLOAT, 1, FIELDS("\x2a\x03\0\0\0")), MR_INVALID_ARGUMENT,
                 "TensorProto");
    MR_CHECK_ERR(refused(MR_FLOAT, 1, FIELDS("\x28\x01")), MR_INVALID_ARGUMENT, "TensorProto");
    MR_CHECK_ERR(refused(MR_STRING, 1, FIELDS("\x40\x01")), MR_INVALID_ARGUMENT, "TensorProto");
    MR_CHECK_ERR(refused(MR_INT32, 1, FIELDS("\x3a\x7f\x01")), MR_INVALID_ARGUMENT, "TensorProto");
}

MR_TEST(tensor_proto_limits_what_few_bytes_grow_to)
{
    MR_CHECK_ERR(refused(MR_FLOAT, (int64_t)1 << 40, FIELDS("")), MR_RESOURCE_EXHAUSTED,
                 "[1099511627776]");
    MR_CHECK_ERR(refused(MR_FLOAT, ((int64_t)1 << 29) + 1, FIELDS("")), MR_RESOURCE_EXHAUSTED,
                 "grow");
    MR_CHECK_ERR(refused(MR_DOUBLE, INT64_MAX, FIELDS("")), MR_RESOURCE_EXHAUSTED, "OOM");
    MR_CHECK_ERR(refused(MR_RESOURCE, (int64_t)1 << 40, FIELDS("")), MR_RESOURCE_EXHAUSTED, "grow");
    /* ten million strings of a thousand bytes each, out of one */
    mr_str value = {0};
    mr_pb_writer w;
    char text[1000] = {0};
    mr_pb_writer_init(&w, &value);
    mr_pb_put_bytes(&w, 8, (mr_sv){text, sizeof(text)});
    MR_CHECK_ERR(refused(MR_STRING, 10000000, mr_str_view(&value)), MR_RESOURCE_EXHAUSTED, "grow");
    mr_str_deinit(&value);
}

MR_TEST(tensor_proto_stays_within_a_budget)
{
    mr_allocator *b = mr_budget_new(NULL, "step", 10000);
    mr_str s = proto(MR_FLOAT, 100000, FIELDS(""));
    mr_tensor *t = NULL;
    MR_CHECK_ERR(mr_tensor_decode(b, mr_str_view(&s), &t), MR_RESOURCE_EXHAUSTED, "step");
    mr_str_deinit(&s);
    mr_budget_free(b);
}

MR_TEST(tensor_proto_takes_type_and_shape_from_elsewhere)
{
    mr_tensor *t = NULL;
    MR_CHECK_OK(mr_tensor_decode_as(NULL, MR_INT64, 2, DIMS(2, 1), MR_SV("\x52\x02\x05\x06"), &t));
    MR_CHECK_STR(MR_TENSOR_SHAPE(t), "[2,1]");
    MR_CHECK_INT(MR_DATA(int64_t, t)[1], 6);
    mr_tensor_unref(t);
    MR_CHECK_ERR(mr_tensor_decode_as(NULL, MR_INVALID, 0, NULL, MR_SV(""), &t), MR_INVALID_ARGUMENT,
                 "type");
}

/* ---- handles and variants ---- */

MR_TEST(tensor_proto_of_resources)
{
    mr_handle *h = mr_handle_new("/cpu:0", "c", "w", "Var", 0, NULL);
    mr_tensor *t = mr_tensor_of(MR_RESOURCE, 1, DIMS(2), (mr_handle *[]){h, NULL}), *back = NULL;
    mr_str bytes = {0}, framed = {0}, one = {0};
    MR_CHECK_OK(mr_tensor_encode(t, &bytes));
    MR_CHECK_OK(mr_tensor_decode(NULL, mr_str_view(&bytes), &back));
    MR_CHECK(mr_tensor_equal(t, back));
    mr_tensor_unref(back);
    mr_handle_encode(h, &one); /* the same in tensor_content */
    mr_str_appendc(&framed, 0x22);
    mr_str_appendc(&framed, (char)(one.n + 2));
    mr_str_appendc(&framed, (char)one.n);
    mr_str_appendc(&framed, 0);
    mr_str_append(&framed, one.p, one.n);
    back = decoded(MR_RESOURCE, 2, mr_str_view(&framed));
    MR_CHECK(mr_tensor_equal(t, back));
    mr_tensor_unref(back);
    mr_tensor_unref(t);
    mr_object_unref(&h->base);
    mr_str_deinit(&bytes);
    mr_str_deinit(&framed);
    mr_str_deinit(&one);
}

static void leave_alone(mr_object *o) { (void)o; }

MR_TEST(tensor_proto_of_variants_must_be_empty)
{
    static const mr_object_type list_type = {"tensorflow::TensorList", leave_alone};
    mr_object list;
    mr_str bytes = {0};
    mr_object_init(&list, &list_type);
    mr_tensor *t = decoded(MR_VARIANT, 3, FIELDS("\x7a\0"));
    MR_CHECK(MR_DATA(mr_object *, t)[0] == NULL);
    MR_CHECK_OK(mr_tensor_encode(t, &bytes));
    MR_CHECK_INT(bytes.n, 2 + 6 + 3 * 2);
    MR_DATA(mr_object *, t)[1] = mr_object_ref(&list);
    MR_CHECK_ERR(mr_tensor_encode(t, &bytes), MR_UNIMPLEMENTED, "tensorflow::TensorList");
    MR_CHECK_INT(bytes.n, 14); /* nothing half written */
    mr_tensor_unref(t);
    MR_CHECK_ERR(refused(MR_VARIANT, 1, FIELDS("\x7a\x03\x0a\x01X")), MR_UNIMPLEMENTED, "variant");
    MR_CHECK_ERR(refused(MR_VARIANT, 1, FIELDS("\x22\x01\x00")), MR_UNIMPLEMENTED, "variant");
    mr_str_deinit(&bytes);
}

/* ---- writing ---- */

static void check_bytes(mr_tensor *t, mr_sv expected)
{
    mr_str out = {0};
    MR_CHECK_OK(mr_tensor_encode(t, &out));
    MR_CHECK(mr_sv_eq(mr_str_view(&out), expected));
    mr_str_deinit(&out);
    mr_tensor_unref(t);
}

MR_TEST(tensor_proto_writes_one_element_in_its_typed_field)
{
    check_bytes(mr_tensor_scalar_f32(1), MR_SV("\x08\x01\x12\0\x2a\x04\0\0\x80\x3f"));
    check_bytes(mr_tensor_scalar_f32(0), MR_SV("\x08\x01\x12\0\x2a\x04\0\0\0\0"));
    check_bytes(mr_tensor_scalar_bool(true), MR_SV("\x08\x0a\x12\0\x5a\x01\x01"));
    check_bytes(mr_tensor_of(MR_INT8, 0, NULL, &(int8_t){-1}),
                MR_SV("\x08\x06\x12\0\x3a\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
    check_bytes(mr_tensor_of(MR_HALF, 0, NULL, &(uint16_t){0x3e00}),
                MR_SV("\x08\x13\x12\0\x6a\x02\x80\x7c"));
    check_bytes(mr_tensor_vector_i32(1, (int32_t[]){5}),
                MR_SV("\x08\x03\x12\x04\x12\x02\x08\x01\x3a\x01\x05"));
    check_bytes(mr_tensor_vector_str(2, (const char *[]){"a", ""}),
                MR_SV("\x08\x07\x12\x04\x12\x02\x08\x02\x42\x01" "a\x42\0"));
}

MR_TEST(tensor_proto_writes_more_elements_as_content)
{
    check_bytes(mr_tensor_vector_i32(2, (int32_t[]){5, -1}),
                MR_SV("\x08\x03\x12\x04\x12\x02\x08\x02\x22\x08\x05\0\0\0\xff\xff\xff\xff"));
    check_bytes(mr_tensor_vector_i32(0, NULL), MR_SV("\x08\x03\x12\x02\x12\0"));
}

MR_TEST(tensor_proto_head_leaves_the_content_where_it_is)
{
    mr_tensor *t = mr_tensor_vector_i32(3, (int32_t[]){1, 2, 3}), *s = mr_tensor_scalar_i32(4);
    mr_str head = {0}, all = {0};
    mr_sv content;
    MR_CHECK_OK(mr_tensor_encode_head(t, &head, &content));
    MR_CHECK(content.p == t->data && content.n == 12);
    mr_str_append(&head, content.p, content.n);
    MR_CHECK_OK(mr_tensor_encode(t, &all));
    MR_CHECK(mr_sv_eq(mr_str_view(&head), mr_str_view(&all)));
    MR_CHECK_OK(mr_tensor_encode_head(s, &head, &content));
    MR_CHECK_INT(content.n, 0);
    mr_str_deinit(&head);
    mr_str_deinit(&all);
    mr_tensor_unref(t);
    mr_tensor_unref(s);
}

MR_TEST(tensor_proto_round_trip_of_every_type)
{
    for (int type = 1; type < 31; type++) {
        if (!mr_dtype_valid(type) || !mr_dtype_is_plain((mr_dtype)type))
            continue;
        for (int64_t n = 0; n < 5; n++) {
            mr_tensor *t = NULL, *back = NULL;
            mr_str bytes = {0};
            MR_CHECK_OK(mr_tensor_zeros(NULL, (mr_dtype)type, 2, DIMS(1, n), &t));
            for (size_t i = 0; i < mr_tensor_bytes(t); i++)
                MR_DATA(uint8_t, t)[i] = type == MR_BOOL ? 1 : (uint8_t)mr_test_random();
            MR_CHECK_OK(mr_tensor_encode(t, &bytes));
            MR_CHECK_OK(mr_tensor_decode(NULL, mr_str_view(&bytes), &back));
            MR_CHECK(mr_tensor_equal(t, back));
            mr_tensor_unref(back);
            mr_tensor_unref(t);
            mr_str_deinit(&bytes);
        }
    }
}

MR_TEST(tensor_proto_memory_may_be_refused)
{
    mr_tensor *t = mr_tensor_vector_str(
                  2, (const char *[]){"a", "a text that does not fit inside the element"}),
              *back = NULL;
    mr_str bytes = {0};
    MR_CHECK_OK(mr_tensor_encode(t, &bytes));
    int failed = 0;
    for (;; failed++) { /* each allocation in turn, until none is left to refuse */
        mr_memory_fail_after(failed + 1);
        mr_status *st = mr_tensor_decode(NULL, mr_str_view(&bytes), &back);
        mr_memory_fail_after(0);
        if (!st)
            break;
        MR_CHECK_INT(mr_status_code(st), MR_RESOURCE_EXHAUSTED);
        mr_status_free(st);
    }
    MR_CHECK_INT(failed, 2);
    mr_tensor_unref(back);
    mr_tensor_unref(t);
    mr_str_deinit(&bytes);
}

/* ---- hostile bytes ---- */

static void try_decode(mr_allocator *b, mr_sv bytes)
{
    mr_tensor *t = NULL;
    mr_str out = {0};
    mr_status *st = mr_tensor_decode(b, bytes, &t);
    if (!st) { /* what was accepted can be printed and written */
        mr_tensor_summarize(t, 20, &out);
        mr_status_free(mr_tensor_encode(t, &out));
        mr_tensor_unref(t);
    }
    mr_status_free(st);
    mr_str_deinit(&out);
}

MR_TEST(tensor_proto_survives_any_bytes)
{
    mr_handle *h = mr_handle_new("/cpu:0", "c", "w", "Var", 1,
                                 &(struct mr_handle_part){MR_FLOAT, &mr_pshape_scalar});
    mr_tensor *seeds[] = {
        mr_tensor_vector_i32(3, (int32_t[]){1, 2, 3}),
        mr_tensor_scalar_f32(1),
        mr_tensor_vector_str(2, (const char *[]){"abc", "a longer one, beyond the twenty-two"}),
        mr_tensor_of(MR_COMPLEX64, 0, NULL, &(mr_c64){1}),
        mr_tensor_of(MR_RESOURCE, 0, NULL, &h),
    };
    mr_allocator *b = mr_budget_new(NULL, "fuzz", 1 << 20);
    for (int i = 0; i < MR_COUNT(seeds); i++) {
        mr_str bytes = {0};
        MR_CHECK_OK(mr_tensor_encode(seeds[i], &bytes));
        for (size_t n = 0; n <= bytes.n; n++)
            try_decode(b, (mr_sv){bytes.p, n});
        for (int round = 0; round < 4000; round++) {
            mr_str mutant = {0};
            mr_str_append(&mutant, bytes.p, bytes.n);
            for (uint64_t k = mr_test_random() % 4 + 1; k > 0; k--)
                mutant.p[mr_test_random() % mutant.n] = (char)mr_test_random();
            try_decode(b, mr_str_view(&mutant));
            mr_str_deinit(&mutant);
        }
        mr_str_deinit(&bytes);
        mr_tensor_unref(seeds[i]);
    }
    mr_object_unref(&h->base);
    mr_budget_free(b);
}

/* ---- golden files ---- */

/* Decodes every TensorProto of a GraphDef (node 1, attr 5, value 2, tensor 8), writes it again and
 * reads that. */
static int check_tensor(mr_sv bytes)
{
    mr_tensor *t = NULL, *back = NULL;
    mr_str out = {0};
    MR_CHECK_OK(mr_tensor_decode(NULL, bytes, &t));
    MR_CHECK_OK(mr_tensor_encode(t, &out));
    MR_CHECK_OK(mr_tensor_decode(NULL, mr_str_view(&out), &back));
    MR_CHECK(mr_tensor_equal(t, back));
    mr_tensor_unref(t);
    mr_tensor_unref(back);
    mr_str_deinit(&out);
    return 1;
}

static int check_level(mr_pb_reader *r, const uint32_t *path)
{
    int n = 0;
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire)) {
        if (field != path[0] || wire != MR_WIRE_BYTES) {
            mr_pb_skip(r);
        } else if (path[1] == 0) {
            n += check_tensor(mr_pb_bytes(r));
        } else {
            mr_pb_reader sub;
            mr_pb_message(r, &sub);
            n += check_level(&sub, path + 1);
        }
    }
    return n;
}

static int n_golden;

static mr_status *check_graph(void *dir, const char *name)
{
    mr_str bytes = {0};
    mr_pb_reader r;
    if (!strstr(name, "_net.pb"))
        return NULL;
    char *path = mr_printf("%s/%s", (char *)dir, name);
    MR_CHECK_OK(mr_file_read_all(path, &bytes));
    mr_pb_reader_init(&r, mr_str_view(&bytes));
    n_golden += check_level(&r, (uint32_t[]){1, 5, 2, 8, 0});
    MR_CHECK_OK(mr_pb_reader_status(&r, path));
    mr_str_deinit(&bytes);
    mr_free(path);
    return NULL;
}

static int check_golden_graphs(const char *golden)
{
    char *dir = mr_printf("%s/graphs", golden);
    MR_CHECK_OK(mr_dir_each(dir, check_graph, dir));
    mr_free(dir);
    return n_golden;
}

MR_TEST(tensor_proto_reads_the_constants_of_golden_graphs) { MR_CHECK(check_golden_graphs(mr_test_golden()) > 50); }
MR_TEST(tensor_proto_reads_the_constants_of_graphs_of_tensorflow)
{
    MR_CHECK(check_golden_graphs(mr_test_tensorflow_golden()) > 100);
}
