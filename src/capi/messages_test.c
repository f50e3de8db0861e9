/* capi/messages_test.c */
#include "base/memory.h"
#include "capi/internal.h"
#include "messages.inc"
#include "millrace/front_end.h"
#include "tests/harness/test.h"

static TF_Status *status;

static void begin(void) { status = TF_NewStatus(); }

static void check_ok(void)
{
    if (TF_GetCode(status) != TF_OK)
        mr_test_fail(__FILE__, __LINE__, "%s", TF_Message(status));
}

/* Takes a buffer's bytes; NUL-terminated for comparing. */
static char *taken(TF_Buffer *b)
{
    check_ok();
    char *s = mr_printf("%.*s", (int)b->length, b->length ? (const char *)b->data : "");
    TF_DeleteBuffer(b);
    return s;
}

static void check_description(const char *message, const char *lines)
{
    begin();
    char *s = taken(mr_message_describe(message, status));
    MR_CHECK_STR(s, lines);
    mr_free(s);
    TF_DeleteStatus(status);
}

MR_TEST(messages_are_described_field_by_field)
{
    check_description("JobDef", "name\t1\tone\tstring\t\t\t0\n"
                                "tasks\t2\tmap\tmessage\tJobDef.TasksEntry\t\t0\n");
    check_description("JobDef.TasksEntry", "key\t1\tone\tint32\t\t\t0\n"
                                           "value\t2\tone\tstring\t\t\t0\n");
    check_description("FloatList", "value\t1\tmany\tfloat\t\t\t1\n");
    check_description("BytesList", "value\t1\tmany\tbytes\t\t\t0\n");
    check_description("NoneValue", "");
}

MR_TEST(messages_tell_enums_and_parts_by_name)
{
    check_description("NodeOutput", "slot\t1\tone\tint32\t\t\t0\n"
                                    "tensor_description\t3\tone\tmessage\tTensorDescription\t\t0\n");
    check_description("VerifierConfig", "verification_timeout_in_ms\t1\tone\tint64\t\t\t0\n"
                                        "structure_verifier\t2\tone\tenum\tVerifierConfig.Toggle\t\t0\n");
}

MR_TEST(messages_of_other_packages_have_their_whole_name)
{
    check_description("google.protobuf.Any", "type_url\t1\tone\tstring\t\t\t0\nvalue\t2\tone\tbytes\t\t\t0\n");
    check_description("distributed_runtime.GrpcPayloadsLost", "");
}

MR_TEST(messages_tell_the_names_of_oneofs)
{
    check_description("Feature", "bytes_list\t1\tone\tmessage\tBytesList\tkind\t0\n"
                                 "float_list\t2\tone\tmessage\tFloatList\tkind\t0\n"
                                 "int64_list\t3\tone\tmessage\tInt64List\tkind\t0\n");
    check_description("TensorSliceProto.Extent", "start\t1\tone\tint64\t\t\t0\n"
                                                 "length\t2\tone\tint64\t\thas_length\t0\n");
}

/* Fields with the ONEOF flag are those described with a oneof: protobuf-c and the build's table agree. */
MR_TEST(messages_name_every_oneof)
{
    static const ProtobufCMessageDescriptor *const all[] = {
#define X(d) &d,
        MR_MESSAGES(X)
#undef X
    };
    for (int i = 0; i < MR_COUNT(all); i++) {
        const char *name = all[i]->name;
        begin();
        char *s = taken(mr_message_describe(strncmp(name, "tensorflow.", 11) == 0 ? name + 11 : name, status));
        mr_sv rest = mr_sv_of(s), line, part = {0};
        for (unsigned f = 0; f < all[i]->n_fields; f++) {
            MR_CHECK(mr_sv_cut(&rest, '\n', &line));
            for (int k = 0; k < 6; k++)
                MR_CHECK(mr_sv_cut(&line, '\t', &part));
            MR_CHECK_INT(part.n > 0, (all[i]->fields[f].flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0);
        }
        mr_free(s);
        TF_DeleteStatus(status);
    }
}

/* The text that enum_describe gives has no second names of a number. */
MR_TEST(messages_have_enums_with_one_name_a_number)
{
    static const ProtobufCEnumDescriptor *const all[] = {
#define X(d) &d,
        MR_ENUMS(X)
#undef X
    };
    for (int i = 0; i < MR_COUNT(all); i++)
        MR_CHECK_INT(all[i]->n_values, all[i]->n_value_names);
}

MR_TEST(messages_describe_enums_value_by_value)
{
    begin();
    char *s = taken(mr_enum_describe("OptimizerOptions.GlobalJitLevel", status));
    MR_CHECK_STR(s, "OFF\t-1\nDEFAULT\t0\nON_1\t1\nON_2\t2\n");
    mr_free(s);
    s = taken(mr_enum_describe("error.Code", status));
    MR_CHECK(strstr(s, "\nUNAUTHENTICATED\t16\n"));
    mr_free(s);
    TF_DeleteStatus(status);
}

MR_TEST(messages_that_are_not_there_are_not_found)
{
    begin();
    const char *names[] = {"", "Nothing", "tensorflow.GraphDef", "DataType", "GraphDef ", NULL};
    for (int i = 0; i < MR_COUNT(names); i++) {
        MR_CHECK(mr_message_describe(names[i], status) == NULL);
        MR_CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
        MR_CHECK(mr_message_to_text(names[i], NULL, 0, status) == NULL);
        MR_CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
        MR_CHECK(mr_message_from_text(names[i], "", 0, status) == NULL);
        MR_CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
    }
    MR_CHECK(mr_enum_describe("GraphDef", status) == NULL);
    MR_CHECK_INT(TF_GetCode(status), TF_NOT_FOUND);
    MR_CHECK(mr_enum_describe(NULL, status) == NULL);
    TF_DeleteStatus(status);
}

MR_TEST(messages_go_to_text_and_back)
{
    const char text[] = "name: \"ps\"\ntasks {\n  key: 1\n  value: \"a:1\"\n}\n";
    begin();
    TF_Buffer *b = mr_message_from_text("JobDef", text, sizeof(text) - 1, status);
    check_ok();
    char *again = taken(mr_message_to_text("JobDef", b->data, b->length, status));
    MR_CHECK_STR(again, text);
    mr_free(again);
    TF_DeleteBuffer(b);
    TF_DeleteStatus(status);
}

MR_TEST(messages_without_fields_have_no_text_and_no_bytes)
{
    begin();
    char *s = taken(mr_message_to_text("GraphDef", NULL, 0, status));
    MR_CHECK_STR(s, "");
    mr_free(s);
    TF_Buffer *b = mr_message_from_text("GraphDef", NULL, 0, status);
    check_ok();
    MR_CHECK_INT(b->length, 0);
    TF_DeleteBuffer(b);
    TF_DeleteStatus(status);
}

MR_TEST(messages_refuse_bad_bytes_and_bad_text)
{
    begin();
    MR_CHECK(mr_message_to_text("GraphDef", "\x0a\x05", 2, status) == NULL);
    MR_CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
    MR_CHECK(strncmp(TF_Message(status), "GraphDef", 8) == 0);
    MR_CHECK(mr_message_from_text("GraphDef", "nodes {}", 8, status) == NULL);
    MR_CHECK_INT(TF_GetCode(status), TF_INVALID_ARGUMENT);
    MR_CHECK(strstr(TF_Message(status), "GraphDef text 1:1: "));
    TF_DeleteStatus(status);
}

MR_TEST(messages_report_refused_memory)
{
    const char text[] = "node { name: \"a\" }";
    begin();
    mr_memory_fail_after(1);
    TF_Buffer *b = mr_message_from_text("GraphDef", text, sizeof(text) - 1, status);
    mr_memory_fail_after(0);
    MR_CHECK(b == NULL);
    MR_CHECK_INT(TF_GetCode(status), TF_RESOURCE_EXHAUSTED);
    TF_DeleteStatus(status);
}
