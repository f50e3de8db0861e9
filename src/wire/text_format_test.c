#include "wire/text_format.h"

#include "base/file.h"
#include "base/memory.h"
#include "proto/config.pb-c.h"
#include "proto/event.pb-c.h"
#include "proto/graph.pb-c.h"
#include "proto/saved_model.pb-c.h"
#include "tests/harness/test.h"
#include "wire/message.h"

#define NODE (&tensorflow__node_def__descriptor)
#define ATTR (&tensorflow__attr_value__descriptor)
#define TENSOR (&tensorflow__tensor_proto__descriptor)
#define SHAPE (&tensorflow__tensor_shape_proto__descriptor)

static void *parse(const ProtobufCMessageDescriptor *d, const char *text)
{
    ProtobufCMessage *m = NULL;
    MR_CHECK_OK(mr_text_parse(d, mr_sv_of(text), &m));
    return m;
}

/* The text, read and printed, is this one. */
static void check_prints(const ProtobufCMessageDescriptor *d, const char *text, const char *printed)
{
    ProtobufCMessage *m = parse(d, text);
    mr_str s = {0};
    MR_CHECK_OK(mr_text_print(m, &s));
    MR_CHECK_STR(mr_str_z(&s), printed);
    mr_str_deinit(&s);
    mr_message_free(m);
}

static void check_fails(const ProtobufCMessageDescriptor *d, const char *text, const char *error)
{
    ProtobufCMessage *m = NULL;
    MR_CHECK_ERR(mr_text_parse(d, mr_sv_of(text), &m), MR_INVALID_ARGUMENT, error);
    MR_CHECK(m == NULL);
}

/* ---- reading ---- */

MR_TEST(text_empty_is_an_empty_message) { check_prints(NODE, " \t\r\n# nothing\n#", ""); }

MR_TEST(text_fields_in_any_order_print_by_number)
{
    check_prints(NODE, "op: 'Add' input: \"a\" name:\"n\" input:'b'",
                 "name: \"n\"\nop: \"Add\"\ninput: \"a\"\ninput: \"b\"\n");
}

MR_TEST(text_messages_take_braces_angles_and_a_colon)
{
    static const char *const same[] = {
        "tensor_shape { dim { size: 2 } dim { size: 3 } }",
        "tensor_shape: < dim: <size: 2> dim <size:3> >",
        "tensor_shape{dim:[{size:2},<size:3>]}",
        "tensor_shape{dim{size:2};dim{size:3},};",
        "tensor_shape # c\n { # {\n dim { size: 2, } dim { size: 3; } }",
    };
    for (int i = 0; i < MR_COUNT(same); i++)
        check_prints(TENSOR, same[i],
                     "tensor_shape {\n  dim {\n    size: 2\n  }\n  dim {\n    size: 3\n  }\n}\n");
}

MR_TEST(text_lists_give_repeated_values)
{
    check_prints(TENSOR, "int_val: [1, -2,3] int_val: 4 int_val: []",
                 "int_val: 1\nint_val: -2\nint_val: 3\nint_val: 4\n");
    check_prints(NODE, "input: ['a' 'b', \"c\"]", "input: \"ab\"\ninput: \"c\"\n");
}

MR_TEST(text_integers_in_three_notations)
{
    check_prints(TENSOR,
                 "int64_val: 0x7FFFffffFFFFffff int64_val: -0x8000000000000000 int64_val: 017 "
                 "uint64_val: 18446744073709551615 uint32_val: 0xffffffff int_val: - 5",
                 "int_val: -5\nint64_val: 9223372036854775807\nint64_val: -9223372036854775808\n"
                 "int64_val: 15\nuint32_val: 4294967295\nuint64_val: 18446744073709551615\n");
}

MR_TEST(text_integers_out_of_range_are_errors)
{
    check_fails(TENSOR, "int_val: 2147483648", "1:10: integer out of range: 2147483648");
    check_fails(TENSOR, "int_val: -2147483649", "integer out of range: -2147483649");
    check_fails(TENSOR, "int64_val: 0x8000000000000000", "out of range");
    check_fails(TENSOR, "uint32_val: 4294967296", "out of range");
    check_fails(TENSOR, "uint64_val: 18446744073709551616", "out of range");
    check_fails(TENSOR, "uint64_val: -1", "expected an integer, not -");
    check_fails(TENSOR, "int_val: 08", "out of range");
    check_fails(TENSOR, "int_val: 1.0", "expected an integer, not 1.0");
}

MR_TEST(text_floats_in_every_notation)
{
    check_prints(
        TENSOR,
        "float_val: [1, -1.5, .5, 2., 1e3, 1E-3f, 3f, 1.5F, inf, -Infinity, nan, -nan, 1e60, "
        "36893488147419103232]",
        "float_val: 1\nfloat_val: -1.5\nfloat_val: 0.5\nfloat_val: 2\nfloat_val: 1000\n"
        "float_val: 0.001\nfloat_val: 3\nfloat_val: 1.5\nfloat_val: inf\nfloat_val: -inf\n"
        "float_val: nan\nfloat_val: nan\nfloat_val: inf\nfloat_val: 3.68934881e+19\n");
    check_prints(TENSOR, "double_val: 0.1 double_val: 1e400", "double_val: 0.1\ndouble_val: inf\n");
}

MR_TEST(text_floats_that_are_not_decimal_are_errors)
{
    check_fails(TENSOR, "float_val: 0x10", "expected a decimal number, not 0x10");
    check_fails(TENSOR, "float_val: 010", "expected a decimal number");
    check_fails(TENSOR, "float_val: 1e", "exponent without digits");
    check_fails(TENSOR, "float_val: 1.2.3", "a space is needed");
    check_fails(TENSOR, "float_val: 1x", "a space is needed");
    check_fails(TENSOR, "float_val: infinite", "expected a decimal number");
    check_fails(TENSOR, "int_val: 0x", "0x without digits");
}

MR_TEST(text_bools_in_every_spelling)
{
    check_prints(TENSOR, "bool_val: [true, True, t, 1, false, False, f, 0]",
                 "bool_val: true\nbool_val: true\nbool_val: true\nbool_val: true\n"
                 "bool_val: false\nbool_val: false\nbool_val: false\nbool_val: false\n");
    check_fails(TENSOR, "bool_val: 2", "out of range");
    check_fails(TENSOR, "bool_val: yes", "expected true or false, not yes");
}

MR_TEST(text_enums_by_name_and_by_number)
{
    check_prints(TENSOR, "dtype: DT_INT32", "dtype: DT_INT32\n");
    check_prints(TENSOR, "dtype: 1", "dtype: DT_FLOAT\n");
    check_prints(TENSOR, "dtype: 999", "dtype: 999\n");
    check_prints(TENSOR, "dtype: -3", "dtype: -3\n");
    check_fails(TENSOR, "dtype: DT_NONE",
                "tensorflow.DataType has no value named DT_NONE (field dtype)");
    check_fails(TENSOR, "dtype: 'DT_INT32'", "expected the name or number");
}

MR_TEST(text_strings_with_every_escape)
{
    Tensorflow__AttrValue *a =
        parse(ATTR, "s: '\\a\\b\\f\\n\\r\\t\\v\\\\\\?\\'\\\"\"' \"\\0\\12\\377\\x4\\X41z\"");
    MR_CHECK(
        mr_sv_eq((mr_sv){(char *)a->s.data, a->s.len}, MR_SV("\a\b\f\n\r\t\v\\?'\"\"\0\n\377\x04"
                                                             "Az")));
    mr_message_free(&a->base);
}

MR_TEST(text_unicode_escapes_become_utf8)
{
    Tensorflow__AttrValue *a = parse(ATTR, "s: '\\u0041\\u00e9\\u20ac\\U0001F600\\ud83d\\ude00'");
    MR_CHECK(mr_sv_eq((mr_sv){(char *)a->s.data, a->s.len}, MR_SV("Aé€😀😀")));
    mr_message_free(&a->base);
}

MR_TEST(text_bad_strings_are_errors)
{
    check_fails(NODE, "name: 'abc", "1:7: string without its closing quote");
    check_fails(NODE, "name: 'abc\n'", "string without its closing quote");
    check_fails(NODE, "name: 'abc\\", "string without its closing quote");
    check_fails(NODE, "name: 'ab\\q'", "1:10: unknown or incomplete escape");
    check_fails(NODE, "name: '\\x'", "incomplete escape");
    check_fails(NODE, "name: '\\u12'", "incomplete escape");
    check_fails(NODE, "name: '\\U00110000'", "incomplete escape");
    check_fails(NODE, "name: 'a\\0b'", "NUL inside");
    check_fails(NODE, "name: abc", "expected a string, not abc");
}

MR_TEST(text_errors_name_line_and_column)
{
    check_fails(NODE, "name: \"n\"\n  nam: 3",
                "NodeDef text 2:3: tensorflow.NodeDef has no field named nam");
    check_fails(NODE, "name \"n\"", "1:6: expected \":\", not \"n\"");
    check_fails(NODE, "attr { key: 'a'", "1:16: expected \"}\", but the text ends");
    check_fails(NODE, "attr { key: 'a' >", "expected a field name, not >");
    check_fails(NODE, "attr: 3", "expected \"{\", not 3");
    check_fails(NODE, "}", "expected a field name, not }");
    check_fails(NODE, "name: \"n\" ;;", "expected a field name, not ;");
    check_fails(NODE, "input: ['a' , ]", "expected a string, not ]");
    check_fails(NODE, "input: ['a' ; 'b']", "expected \",\" or \"]\", not ;");
    check_fails(NODE, "name: ['a']", "expected a string, not [");
    check_fails(NODE, "name: 'a' \x01", "1:11: invalid character");
    check_fails(NODE, "n\xc3\xa4me: 'a'", "no field named n");
}

MR_TEST(text_extensions_are_refused_in_clear_words)
{
    check_fails(&tensorflow__collection_def__descriptor,
                "any_list { value { [type.googleapis.com/tensorflow.NodeDef] { name: 'a' } } }",
                "extensions and expanded Any messages ([...]) are not supported");
}

MR_TEST(text_singular_fields_may_be_given_once)
{
    check_fails(NODE, "name: 'a' name: 'b'", "1:11: field name is not repeated but given twice");
    check_fails(TENSOR, "tensor_shape {} tensor_shape {}", "not repeated but given twice");
    check_fails(ATTR, "i: 1 f: 2", "field f is given along with i");
    check_fails(ATTR, "i: 0 i: 0", "given twice");
}

MR_TEST(text_nesting_stops_at_100)
{
    mr_str s = {0};
    for (int i = 0; i < 100; i++)
        mr_str_appendz(&s, "args{");
    for (int i = 0; i < 100; i++)
        mr_str_appendz(&s, "}");
    mr_message_free(parse(&tensorflow__full_type_def__descriptor, mr_str_z(&s)));
    mr_str_clear(&s);
    for (int i = 0; i < 100000; i++)
        mr_str_appendz(&s, "args{");
    check_fails(&tensorflow__full_type_def__descriptor, mr_str_z(&s),
                "1:505: messages nested deeper than 100");
    mr_str_deinit(&s);
}

MR_TEST(text_refused_memory_is_a_status)
{
    mr_str s = {0};
    for (int i = 0; i < 2000; i++)
        mr_str_appendz(&s, "input: 'abcdefghijklmnopqrstuvwxyz' ");
    int refused = 0;
    for (int nth = 1; nth < 100; nth++) {
        ProtobufCMessage *m = NULL;
        mr_memory_fail_after(nth);
        mr_status *st = mr_text_parse(NODE, mr_str_view(&s), &m);
        mr_memory_fail_after(0);
        if (st) {
            MR_CHECK_INT(mr_status_code(st), MR_RESOURCE_EXHAUSTED);
            refused++;
        }
        mr_status_free(st);
        mr_message_free(m);
    }
    MR_CHECK(refused >= 3);
    mr_str_deinit(&s);
}

/* ---- writing ---- */

MR_TEST(text_prints_oneof_members_that_have_the_default_value)
{
    check_prints(ATTR, "i: 0", "i: 0\n");
    check_prints(ATTR, "s: ''", "s: \"\"\n");
    check_prints(ATTR, "list {}", "list {\n}\n");
    check_prints(ATTR, "placeholder: ''", "placeholder: \"\"\n");
}

MR_TEST(text_leaves_out_default_scalars)
{
    check_prints(TENSOR, "version_number: 0 dtype: DT_INVALID tensor_content: ''", "");
}

MR_TEST(text_map_entries_are_sorted_and_show_both_sides)
{
    check_prints(NODE, "attr { key: 'b' value { i: 1 } } attr { value { } } attr { key: 'a' }",
                 "attr {\n  key: \"\"\n  value {\n  }\n}\n"
                 "attr {\n  key: \"a\"\n  value {\n  }\n}\n"
                 "attr {\n  key: \"b\"\n  value {\n    i: 1\n  }\n}\n");
    check_prints(&tensorflow__job_def__descriptor,
                 "tasks { key: 10 value: 'x' } tasks { value: 'y' }",
                 "tasks {\n  key: 0\n  value: \"y\"\n}\ntasks {\n  key: 10\n  value: \"x\"\n}\n");
}

MR_TEST(text_escapes_bytes_as_c_does)
{
    check_prints(ATTR, "s: '\\000\\001\\n\\r\\t\\v\\177\\200\\377 a~\\'\\\"\\\\?'",
                 "s: \"\\000\\001\\n\\r\\t\\013\\177\\200\\377 a~\\'\\\"\\\\?\"\n");
}

MR_TEST(text_prints_unknown_fields_by_number)
{
    ProtobufCMessage *m = NULL;
    mr_str s = {0};
    MR_CHECK_OK(mr_message_unpack(NODE,
                                  MR_SV("\xc0\x3e\x96\x01"
                                        "\xc9\x3e\x01\x02\x03\x04\x05\x06\x07\x08"
                                        "\xd2\x3e\x02no"
                                        "\xda\x3e\x02\x08\x07"
                                        "\xdd\x3e\x01\x02\x03\x04"
                                        "\xe3\x3e\x08\x01\xe4\x3e"),
                                  "NodeDef", &m));
    MR_CHECK_OK(mr_text_print(m, &s));
    MR_CHECK_STR(mr_str_z(&s),
                 "1000: 150\n1001: 0x0807060504030201\n1002: \"no\"\n1003 {\n  1: 7\n}\n"
                 "1003: 0x04030201\n1004 {\n  1: 1\n}\n");
    mr_str_deinit(&s);
    mr_message_free(m);
}

MR_TEST(text_print_with_refused_memory_is_a_status)
{
    ProtobufCMessage *m = parse(NODE, "attr { key: 'b' } attr { key: 'a' }");
    mr_str s = {0};
    mr_memory_fail_after(1); /* the copy of the map to be sorted */
    MR_CHECK_ERR(mr_text_print(m, &s), MR_RESOURCE_EXHAUSTED, "NodeDef: no memory for its text");
    mr_memory_fail_after(2); /* the sort itself */
    MR_CHECK_ERR(mr_text_print(m, &s), MR_RESOURCE_EXHAUSTED, "NodeDef: no memory for its text");
    mr_str_deinit(&s);
    mr_message_free(m);
}

/* ---- there and back ---- */

/* Parsed, printed and parsed again, the message is the same, and so is its text. */
static void check_round_trip(const ProtobufCMessageDescriptor *d, mr_sv text)
{
    ProtobufCMessage *m = NULL, *again = NULL;
    mr_str a = {0}, b = {0}, first = {0}, second = {0};
    MR_CHECK_OK(mr_text_parse(d, text, &m));
    MR_CHECK_OK(mr_text_print(m, &first));
    MR_CHECK_OK(mr_text_parse(d, mr_str_view(&first), &again));
    MR_CHECK_OK(mr_text_print(again, &second));
    MR_CHECK_STR(mr_str_z(&second), mr_str_z(&first));
    MR_CHECK_OK(mr_message_sort_maps(m));
    MR_CHECK_OK(mr_message_sort_maps(again));
    MR_CHECK_OK(mr_message_pack(m, &a));
    MR_CHECK_OK(mr_message_pack(again, &b));
    MR_CHECK(a.n > 0 && mr_sv_eq(mr_str_view(&a), mr_str_view(&b)));
    mr_str_deinit(&a);
    mr_str_deinit(&b);
    mr_str_deinit(&first);
    mr_str_deinit(&second);
    mr_message_free(m);
    mr_message_free(again);
}

static void read_golden(const char *golden, const char *name, mr_str *out)
{
    char *path = mr_printf("%s/%s", golden, name);
    MR_CHECK_OK(mr_file_read_all(path, out));
    mr_free(path);
}

static void check_graphs_round_trip(const char *golden, const char *const *files, int n)
{
    for (int i = 0; i < n; i++) {
        mr_str s = {0};
        read_golden(golden, files[i], &s);
        check_round_trip(&tensorflow__graph_def__descriptor, mr_str_view(&s));
        mr_str_deinit(&s);
    }
}

/* Each file is printed as it was. by_python: Python writes 1.0 where C++, and so this printer, writes 1. */
static void check_graphs_print(const char *golden, const char *const *files, int n, bool by_python)
{
    for (int i = 0; i < n; i++) {
        mr_str s = {0}, as_cpp = {0};
        read_golden(golden, files[i], &s);
        for (size_t k = 0; k < s.n; k++) {
            if (by_python && strncmp(s.p + k, ".0\n", 3) == 0)
                k += 2;
            mr_str_appendc(&as_cpp, s.p[k]);
        }
        check_prints(&tensorflow__graph_def__descriptor, mr_str_z(&s), mr_str_z(&as_cpp));
        mr_str_deinit(&s);
        mr_str_deinit(&as_cpp);
    }
}

static void check_checkpoint_state(const char *golden, const char *file)
{
    mr_str s = {0};
    read_golden(golden, file, &s);
    Tensorflow__CheckpointState *c = parse(&tensorflow__checkpoint_state__descriptor, mr_str_z(&s));
    MR_CHECK(c->model_checkpoint_path[0] && c->n_all_model_checkpoint_paths > 0);
    mr_message_free(&c->base);
    mr_str_deinit(&s);
}

/* A binary meta graph survives the way through text. */
static void check_meta_graph(const char *golden, const char *file)
{
    mr_str bytes = {0}, text = {0};
    ProtobufCMessage *m = NULL;
    read_golden(golden, file, &bytes);
    MR_CHECK_OK(mr_message_unpack(&tensorflow__meta_graph_def__descriptor, mr_str_view(&bytes),
                                  "MetaGraphDef", &m));
    MR_CHECK_OK(mr_text_print(m, &text));
    check_round_trip(&tensorflow__meta_graph_def__descriptor, mr_str_view(&text));
    mr_message_free(m);
    mr_str_deinit(&bytes);
    mr_str_deinit(&text);
}

static const char *const our_graphs[] = {"pbtxt/nested_loop.pbtxt", "pbtxt/queues.pbtxt", "pbtxt/functions.pbtxt",
                                         "pbtxt/while_loop.pbtxt", "checkpoint/trained/graph.pbtxt"};
static const char *const tensorflow_graphs[] = {"pbtxt/nested_loop.pbtxt", "pbtxt/queues_and_loops.pbtxt",
                                                "pbtxt/simple_function.pbtxt", "pbtxt/while_loop.pbtxt",
                                                "checkpoint/tensorflex_iris/graph.pbtxt"};

MR_TEST(text_golden_graphs_round_trip) { check_graphs_round_trip(mr_test_golden(), our_graphs, 5); }
MR_TEST(text_golden_graphs_print_as_they_were) { check_graphs_print(mr_test_golden(), our_graphs, 5, false); }
MR_TEST(text_checkpoint_state_is_read) { check_checkpoint_state(mr_test_golden(), "checkpoint/trained/checkpoint"); }
MR_TEST(text_golden_meta_graph_survives_text) { check_meta_graph(mr_test_golden(), "checkpoint/trained/model.meta"); }

MR_TEST(text_golden_graphs_of_tensorflow_round_trip)
{
    check_graphs_round_trip(mr_test_tensorflow_golden(), tensorflow_graphs, 5);
}

/* Without the last one, which has floats of another printer. */
MR_TEST(text_golden_graphs_print_as_tensorflow_printed_them)
{
    check_graphs_print(mr_test_tensorflow_golden(), tensorflow_graphs, 4, true);
}

MR_TEST(text_checkpoint_state_of_tensorflow_is_read)
{
    check_checkpoint_state(mr_test_tensorflow_golden(), "checkpoint/tensorflex_iris/checkpoint");
}

MR_TEST(text_golden_meta_graph_of_tensorflow_survives_text)
{
    check_meta_graph(mr_test_tensorflow_golden(), "checkpoint/tensorflex_iris/graph.meta");
}

MR_TEST(text_damaged_text_does_no_harm)
{
    static const char text[] =
        "node { name: 'a\\x41\\u00e9' op: \"Const\" attr { key: 'value' value { tensor { "
        "dtype: DT_FLOAT tensor_shape < dim: [{ size: -0x2 }] > float_val: [1.5f, "
        "-inf] } } } } versions { producer: 134 } # end";
    for (int i = 0; i < 20000; i++) {
        size_t n = 1 + mr_test_random() % (sizeof(text) - 1);
        char *copy = mr_alloc(n);
        memcpy(copy, text, n);
        for (int k = 0; k < i % 4; k++)
            copy[mr_test_random() % n] =
                i % 2 ? (char)mr_test_random() : text[mr_test_random() % n];
        ProtobufCMessage *m = NULL;
        mr_status *st = mr_text_parse(&tensorflow__graph_def__descriptor, (mr_sv){copy, n}, &m);
        if (st)
            mr_status_free(st);
        else
            mr_message_free(m);
        mr_free(copy);
    }
}
