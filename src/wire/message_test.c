#include "wire/message.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/vec.h"
#include "proto/config.pb-c.h"
#include "proto/event.pb-c.h"
#include "proto/graph.pb-c.h"
#include "proto/saved_model.pb-c.h"
#include "tests/harness/test.h"
#include "wire/pb.h"
#include "wire/reflect.h"

static void *unpack(const ProtobufCMessageDescriptor *d, mr_sv bytes)
{
    ProtobufCMessage *m = NULL;
    MR_CHECK_OK(mr_message_unpack(d, bytes, d->short_name, &m));
    return m;
}

#define UNPACK_FAILS(d, bytes, text)                                                     \
    do {                                                                                 \
        ProtobufCMessage *m_ = NULL;                                                     \
        MR_CHECK_ERR(mr_message_unpack(d, bytes, "It", &m_), MR_INVALID_ARGUMENT, text); \
        MR_CHECK(m_ == NULL);                                                            \
    } while (0)

MR_TEST(message_empty_bytes_give_defaults)
{
    Tensorflow__NodeDef *n = unpack(&tensorflow__node_def__descriptor, MR_SV(""));
    MR_CHECK_STR(n->name, "");
    MR_CHECK_INT(n->n_input, 0);
    MR_CHECK(n->experimental_type == NULL);
    mr_message_free(&n->base);
}

MR_TEST(message_reads_scalars_strings_and_messages)
{
    Tensorflow__TensorShapeProto *s =
        unpack(&tensorflow__tensor_shape_proto__descriptor,
               MR_SV("\x12\x05\x08\x03\x12\x01x"
                     "\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                     "\x18\x01"));
    MR_CHECK_INT(s->n_dim, 2);
    MR_CHECK_INT(s->dim[0]->size, 3);
    MR_CHECK_STR(s->dim[0]->name, "x");
    MR_CHECK_INT(s->dim[1]->size, -1);
    MR_CHECK(s->unknown_rank);
    mr_message_free(&s->base);
}

MR_TEST(message_packed_and_unpacked_numbers_join)
{
    Tensorflow__TensorProto *t =
        unpack(&tensorflow__tensor_proto__descriptor,
               MR_SV("\x3a\x02\x01\x02"                         /* int_val packed */
                     "\x38\x03"                                 /* and not */
                     "\x2a\x08\x00\x00\x80\x3f\x00\x00\x00\x40" /* float_val packed */
                     "\x2d\x00\x00\x40\x40"                     /* and not */
                     "\x5a\x02\x01\x00"));                      /* bool_val */
    MR_CHECK_INT(t->n_int_val, 3);
    MR_CHECK_INT(t->int_val[2], 3);
    MR_CHECK_INT(t->n_float_val, 3);
    MR_CHECK(t->float_val[0] == 1 && t->float_val[1] == 2 && t->float_val[2] == 3);
    MR_CHECK_INT(t->n_bool_val, 2);
    MR_CHECK(t->bool_val[0] && !t->bool_val[1]);
    mr_message_free(&t->base);
}

MR_TEST(message_oneof_last_member_wins)
{
    Tensorflow__AttrValue *a =
        unpack(&tensorflow__attr_value__descriptor, MR_SV("\x12\x02hi\x18\x07"));
    MR_CHECK_INT(a->value_case, TENSORFLOW__ATTR_VALUE__VALUE_I);
    MR_CHECK_INT(a->i, 7);
    mr_message_free(&a->base);
    a = unpack(&tensorflow__attr_value__descriptor, MR_SV("\x18\x07\x3a\x00"));
    MR_CHECK_INT(a->value_case, TENSORFLOW__ATTR_VALUE__VALUE_SHAPE);
    MR_CHECK_INT(a->shape->n_dim, 0);
    mr_message_free(&a->base);
}

MR_TEST(message_empty_bytes_in_a_oneof_survive_packing)
{
    Tensorflow__AttrValue *a = unpack(&tensorflow__attr_value__descriptor, MR_SV("\x12\x00"));
    mr_str s = {0};
    MR_CHECK_INT(a->value_case, TENSORFLOW__ATTR_VALUE__VALUE_S);
    MR_CHECK_OK(mr_message_pack(&a->base, &s));
    MR_CHECK(mr_sv_eq(mr_str_view(&s), MR_SV("\x12\x00")));
    mr_str_deinit(&s);
    mr_message_free(&a->base);
}

MR_TEST(message_singular_message_that_comes_twice_is_merged)
{
    /* versions { producer: 5 bad_consumers: 1 } versions { min_consumer: 6 bad_consumers: 2 } */
    Tensorflow__GraphDef *g =
        unpack(&tensorflow__graph_def__descriptor,
               MR_SV("\x22\x05\x08\x05\x1a\x01\x01\x22\x05\x10\x06\x1a\x01\x02"));
    MR_CHECK_INT(g->versions->producer, 5);
    MR_CHECK_INT(g->versions->min_consumer, 6);
    MR_CHECK_INT(g->versions->n_bad_consumers, 2);
    MR_CHECK_INT(g->versions->bad_consumers[1], 2);
    mr_message_free(&g->base);
}

/* Merging copies nothing, so this is quick; in quadratic time the deadline would end it. */
MR_TEST(message_merged_many_times_takes_linear_time)
{
    mr_str s = {0};
    for (int i = 0; i < 200000; i++)
        mr_str_append(&s, "\x22\x03\x1a\x01\x01", 5);
    Tensorflow__GraphDef *g = unpack(&tensorflow__graph_def__descriptor, mr_str_view(&s));
    MR_CHECK_INT(g->versions->n_bad_consumers, 200000);
    mr_message_free(&g->base);
    mr_str_deinit(&s);
}

MR_TEST(message_sint64_is_unzigzagged)
{
    Tensorflow__StructuredValue *v =
        unpack(&tensorflow__structured_value__descriptor, MR_SV("\x60\x03"));
    MR_CHECK_INT(v->int64_value, -2);
    mr_message_free(&v->base);
}

MR_TEST(message_unknown_enum_number_is_kept)
{
    Tensorflow__TensorProto *t =
        unpack(&tensorflow__tensor_proto__descriptor, MR_SV("\x08\xe7\x07"));
    MR_CHECK_INT(t->dtype, 999);
    mr_message_free(&t->base);
}

MR_TEST(message_unknown_fields_survive_packing)
{
    static const char bytes[] = "\x0a\x01n"                                /* name */
                                "\xc0\x3e\x96\x01"                         /* 1000: varint */
                                "\xc9\x3e\x01\x02\x03\x04\x05\x06\x07\x08" /* 1001: fixed64 */
                                "\xd2\x3e\x02hi"                           /* 1002: bytes */
                                "\xdd\x3e\x01\x02\x03\x04"                 /* 1003: fixed32 */
                                "\xe3\x3e\x08\x01\xe4\x3e";                /* 1004: a group */
    Tensorflow__NodeDef *n = unpack(&tensorflow__node_def__descriptor, MR_SV(bytes));
    MR_CHECK_INT(n->base.n_unknown_fields, 5);
    mr_str s = {0};
    MR_CHECK_OK(mr_message_pack(&n->base, &s));
    MR_CHECK(mr_sv_eq(mr_str_view(&s), MR_SV(bytes)));
    mr_str_deinit(&s);
    mr_message_free(&n->base);
}

MR_TEST(message_malformed_bytes_name_place_and_field)
{
    UNPACK_FAILS(&tensorflow__graph_def__descriptor, MR_SV("\x0a\x04\x0a\x05hi"),
                 "It: malformed protobuf at byte 4: length runs past the end (NodeDef.name)");
    UNPACK_FAILS(&tensorflow__graph_def__descriptor, MR_SV("\x08\x01"),
                 "at byte 1: wrong wire type (GraphDef.node)");
    UNPACK_FAILS(&tensorflow__node_def__descriptor, MR_SV("\x0a"), "truncated (NodeDef.name)");
    UNPACK_FAILS(&tensorflow__node_def__descriptor, MR_SV("\x0c"), "end of a group");
    UNPACK_FAILS(&tensorflow__node_def__descriptor, MR_SV("\xc3\x3e"), "truncated (NodeDef)");
    UNPACK_FAILS(&tensorflow__tensor_proto__descriptor, MR_SV("\x3a\x02\x01\x80"), "truncated");
    UNPACK_FAILS(&tensorflow__tensor_proto__descriptor, MR_SV("\x3a\x01\x80"), "truncated");
    UNPACK_FAILS(&tensorflow__tensor_proto__descriptor, MR_SV("\x2a\003abc"), "not a multiple");
}

MR_TEST(message_string_with_nul_is_refused_but_bytes_are_not)
{
    UNPACK_FAILS(&tensorflow__node_def__descriptor, MR_SV("\x0a\003a\0b"),
                 "NUL inside (NodeDef.name)");
    Tensorflow__AttrValue *a = unpack(&tensorflow__attr_value__descriptor, MR_SV("\x12\003a\0b"));
    MR_CHECK_INT(a->s.len, 3);
    mr_message_free(&a->base);
}

/* `levels` of FullTypeDef, each in the args of the one around it. */
static void nested_types(int levels, mr_str *out)
{
    mr_pb_writer w;
    size_t mark[512];
    mr_pb_writer_init(&w, out);
    for (int i = 0; i < levels; i++)
        mark[i] = mr_pb_begin(&w, 2);
    for (int i = levels - 1; i >= 0; i--)
        mr_pb_end(&w, mark[i]);
}

MR_TEST(message_nesting_stops_at_100)
{
    mr_str s = {0};
    nested_types(100, &s);
    Tensorflow__FullTypeDef *t = unpack(&tensorflow__full_type_def__descriptor, mr_str_view(&s));
    mr_message_free(&t->base);
    mr_str_clear(&s);
    nested_types(101, &s);
    UNPACK_FAILS(&tensorflow__full_type_def__descriptor, mr_str_view(&s), "nested too deeply");
    mr_str_deinit(&s);
}

MR_TEST(message_refused_memory_is_a_status)
{
    mr_str s = {0};
    for (int i = 0; i < 2000; i++)
        mr_str_append(&s, "\x0a\x07\x0a\x01n\xc0\x3e\x96\x01", 9);
    int refused = 0;
    for (int nth = 1; nth < 100; nth++) {
        ProtobufCMessage *m = NULL;
        mr_memory_fail_after(nth);
        mr_status *st =
            mr_message_unpack(&tensorflow__graph_def__descriptor, mr_str_view(&s), "It", &m);
        mr_memory_fail_after(0);
        if (!st) { /* more than it needs */
            mr_message_free(m);
            break;
        }
        MR_CHECK_INT(mr_status_code(st), MR_RESOURCE_EXHAUSTED);
        mr_status_free(st);
        refused++;
    }
    MR_CHECK(refused >= 3);
    mr_str_deinit(&s);
}

MR_TEST(message_new_and_arena_build_a_message)
{
    Tensorflow__NodeDef *n = NULL;
    MR_CHECK_OK(mr_message_new(&tensorflow__node_def__descriptor, (ProtobufCMessage **)&n));
    n->name = mr_arena_strdup(mr_message_arena(&n->base), "abc");
    mr_str s = {0};
    MR_CHECK_OK(mr_message_pack(&n->base, &s));
    MR_CHECK(mr_sv_eq(mr_str_view(&s), MR_SV("\x0a\003abc")));
    mr_str_deinit(&s);
    mr_message_free(&n->base);
    mr_message_free(NULL);
}

MR_TEST(message_maps_sort_by_key_and_keep_the_last_of_doubles)
{
    /* attr: b (1), a (2), b (3) */
    Tensorflow__NodeDef *n =
        unpack(&tensorflow__node_def__descriptor, MR_SV("\x2a\x07\x0a\001b\x12\x02\x18\x01"
                                                        "\x2a\x07\x0a\001a\x12\x02\x18\x02"
                                                        "\x2a\x07\x0a\001b\x12\x02\x18\x03"));
    MR_CHECK_OK(mr_message_sort_maps(&n->base));
    MR_CHECK_INT(n->n_attr, 2);
    MR_CHECK_STR(n->attr[0]->key, "a");
    MR_CHECK_INT(n->attr[0]->value->i, 2);
    MR_CHECK_STR(n->attr[1]->key, "b");
    MR_CHECK_INT(n->attr[1]->value->i, 3);
    mr_message_free(&n->base);
}

MR_TEST(message_maps_with_number_keys_sort_as_numbers)
{
    /* tasks: 10, -1, 2 */
    Tensorflow__JobDef *j = unpack(&tensorflow__job_def__descriptor,
                                   MR_SV("\x12\x02\x08\x0a"
                                         "\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                                         "\x12\x02\x08\x02"));
    MR_CHECK_OK(mr_message_sort_maps(&j->base));
    MR_CHECK_INT(j->tasks[0]->key, -1);
    MR_CHECK_INT(j->tasks[1]->key, 2);
    MR_CHECK_INT(j->tasks[2]->key, 10);
    mr_message_free(&j->base);
}

MR_TEST(message_map_fields_are_told_from_other_repeated_messages)
{
    const ProtobufCMessageDescriptor *node = &tensorflow__node_def__descriptor;
    const ProtobufCMessageDescriptor *named_tuple = &tensorflow__named_tuple_value__descriptor;
    const ProtobufCMessageDescriptor *meta = &tensorflow__meta_graph_def__descriptor;
    MR_CHECK(mr_field_is_map(mr_field_named(node, MR_SV("attr"))));
    MR_CHECK(mr_field_is_map(mr_field_named(meta, MR_SV("collection_def"))));
    MR_CHECK(!mr_field_is_map(mr_field_named(node, MR_SV("input"))));
    MR_CHECK(
        !mr_field_is_map(mr_field_named(named_tuple, MR_SV("values")))); /* PairValue: key, value */
}

MR_TEST(message_fields_are_found_by_whole_names_only)
{
    const ProtobufCMessageDescriptor *node = &tensorflow__node_def__descriptor;
    MR_CHECK_INT(mr_field_named(node, MR_SV("name"))->id, 1);
    MR_CHECK_INT(mr_field_named(node, MR_SV("op"))->id, 2);
    MR_CHECK(mr_field_named(node, MR_SV("nam")) == NULL);
    MR_CHECK(mr_field_named(node, MR_SV("names")) == NULL);
    MR_CHECK(mr_field_named(node, MR_SV("")) == NULL);
}

/* ---- agreement with protobuf-c's own decoder ---- */

/* Our decoder's message and protobuf-c's pack to the same bytes, for good input. */
static void check_agrees(const ProtobufCMessageDescriptor *d, mr_sv bytes)
{
    ProtobufCMessage *ours = unpack(d, bytes);
    ProtobufCMessage *theirs =
        protobuf_c_message_unpack(d, NULL, bytes.n, (const uint8_t *)bytes.p);
    MR_CHECK(theirs != NULL);
    mr_str a = {0}, b = {0};
    MR_CHECK_OK(mr_message_pack(ours, &a));
    MR_CHECK_OK(mr_message_pack(theirs, &b));
    MR_CHECK(mr_sv_eq(mr_str_view(&a), mr_str_view(&b)));
    mr_str_deinit(&a);
    mr_str_deinit(&b);
    mr_message_free(ours);
    protobuf_c_message_free_unpacked(theirs, NULL);
}

static void check_golden_file(const ProtobufCMessageDescriptor *d, const char *folder, const char *name)
{
    mr_str s = {0};
    char *path = mr_printf("%s/%s", folder, name);
    MR_CHECK_OK(mr_file_read_all(path, &s));
    check_agrees(d, mr_str_view(&s));
    mr_str_deinit(&s);
    mr_free(path);
}

static int n_golden;

static mr_status *check_graph_file(void *folder, const char *name)
{
    mr_sv v = mr_sv_of(name);
    if (v.n < 3 || memcmp(v.p + v.n - 3, ".pb", 3) != 0)
        return NULL;
    check_golden_file(&tensorflow__graph_def__descriptor, folder, name);
    n_golden++;
    return NULL;
}

static void check_golden_graphs(const char *golden)
{
    char *folder = mr_printf("%s/graphs", golden);
    MR_CHECK_OK(mr_dir_each(folder, check_graph_file, folder));
    MR_CHECK(n_golden > 20);
    mr_free(folder);
}

static void check_golden_models(const char *golden, const char *const *names, int n)
{
    for (int i = 0; i < n; i++) {
        char *folder = mr_printf("%s/saved_model/%s", golden, names[i]);
        check_golden_file(&tensorflow__saved_model__descriptor, folder, "saved_model.pb");
        mr_free(folder);
    }
}

MR_TEST(message_golden_graphs_read_as_protobuf_c_reads_them) { check_golden_graphs(mr_test_golden()); }
MR_TEST(message_golden_graphs_of_tensorflow_read_as_protobuf_c_reads_them)
{
    check_golden_graphs(mr_test_tensorflow_golden());
}

MR_TEST(message_golden_saved_models_read_as_protobuf_c_reads_them)
{
    static const char *const names[] = {"half_plus_two/00000001", "while_loop", "object_graph"};
    check_golden_models(mr_test_golden(), names, MR_COUNT(names));
}

MR_TEST(message_golden_saved_models_of_tensorflow_read_as_protobuf_c_reads_them)
{
    static const char *const names[] = {"half_plus_two/00000123", "half_plus_two_v2/00000123", "SimpleWhileLoop",
                                        "VarsAndArithmeticObjectGraph"};
    check_golden_models(mr_test_tensorflow_golden(), names, MR_COUNT(names));
}

/* Bytes of a real message, damaged in a few places, never do harm. */
MR_TEST(message_damaged_bytes_do_no_harm)
{
    mr_str s = {0};
    for (int i = 0; i < 3; i++)
        mr_str_append(
            &s,
            "\x0a\x26\x0a\005const\x12\005Const\x2a\x16\x0a\x05value\x12\x0d\x42\x0b\x08\x03"
            "\x12\x04\x12\x02\x08\x02\x3a\x01\x07\x22\x03\x08\x87\x01",
            45);
    mr_message_free(unpack(&tensorflow__graph_def__descriptor, mr_str_view(&s)));
    for (int i = 0; i < 20000; i++) {
        char *bytes = mr_alloc(s.n);
        size_t n = 1 + mr_test_random() % s.n;
        memcpy(bytes, s.p, s.n);
        for (int k = 0; k < 1 + i % 4; k++)
            bytes[mr_test_random() % s.n] = (char)mr_test_random();
        memmove(bytes + s.n - n, bytes, n); /* its end is the end of the memory */
        ProtobufCMessage *m = NULL;
        mr_status *st = mr_message_unpack(&tensorflow__graph_def__descriptor,
                                          (mr_sv){bytes + s.n - n, n}, "It", &m);
        if (st)
            mr_status_free(st);
        else
            mr_message_free(m);
        mr_free(bytes);
    }
    mr_str_deinit(&s);
}
