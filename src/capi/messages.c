/* capi/messages.c -- mr_message_*, mr_enum_describe: describes the messages of proto/, for front ends that implement
 * messages themselves.
 *
 * The build lists all descriptors and oneofs (tools/message-table). A name is searched linearly: a front end asks for
 * each message once. Names leave out the package `tensorflow`; those of other packages (google.protobuf.Any) are whole.
 * */
#include "millrace/front_end.h"

#include <stddef.h>

#include "capi/internal.h"
#include "messages.inc"
#include "wire/message.h"
#include "wire/reflect.h"
#include "wire/text_format.h"

static const ProtobufCMessageDescriptor *const messages[] = {
#define X(descriptor) &descriptor,
    MR_MESSAGES(X)
#undef X
};

static const ProtobufCEnumDescriptor *const enums[] = {
#define X(descriptor) &descriptor,
    MR_ENUMS(X)
#undef X
};

/* A field belongs to the oneof whose case it has as its quantifier. */
static const struct oneof {
    const ProtobufCMessageDescriptor *message;
    size_t case_offset;
    const char *name;
} oneofs[] = {
#define X(type, descriptor, name) {&descriptor, offsetof(type, name##_case), #name},
    MR_ONEOFS(X)
#undef X
};

/* ---- names ---- */

/* The name of a message or enum for front ends. */
static const char *short_name(const char *full)
{
    static const char package[] = "tensorflow.";
    return strncmp(full, package, sizeof(package) - 1) == 0 ? full + sizeof(package) - 1 : full;
}

static mr_status *find_message(const char *name, const ProtobufCMessageDescriptor **out)
{
    for (int i = 0; name && i < MR_COUNT(messages); i++)
        if (strcmp(short_name(messages[i]->name), name) == 0) {
            *out = messages[i];
            return NULL;
        }
    return mr_error(MR_NOT_FOUND, "There is no message named %.100s", name ? name : "NULL");
}

static mr_status *find_enum(const char *name, const ProtobufCEnumDescriptor **out)
{
    for (int i = 0; name && i < MR_COUNT(enums); i++)
        if (strcmp(short_name(enums[i]->name), name) == 0) {
            *out = enums[i];
            return NULL;
        }
    return mr_error(MR_NOT_FOUND, "There is no enum named %.100s", name ? name : "NULL");
}

static const char *oneof_of(const ProtobufCMessageDescriptor *d, const mr_field *f)
{
    for (int i = 0; mr_field_in_oneof(f) && i < MR_COUNT(oneofs); i++)
        if (oneofs[i].message == d && oneofs[i].case_offset == f->quantifier_offset)
            return oneofs[i].name;
    return "";
}

/* ---- descriptions ---- */

static const char *type_name(const mr_field *f)
{
    static const char *const names[] = {
        [PROTOBUF_C_TYPE_INT32] = "int32",     [PROTOBUF_C_TYPE_SINT32] = "sint32",     [PROTOBUF_C_TYPE_SFIXED32] = "sfixed32",
        [PROTOBUF_C_TYPE_INT64] = "int64",     [PROTOBUF_C_TYPE_SINT64] = "sint64",     [PROTOBUF_C_TYPE_SFIXED64] = "sfixed64",
        [PROTOBUF_C_TYPE_UINT32] = "uint32",   [PROTOBUF_C_TYPE_FIXED32] = "fixed32",   [PROTOBUF_C_TYPE_UINT64] = "uint64",
        [PROTOBUF_C_TYPE_FIXED64] = "fixed64", [PROTOBUF_C_TYPE_FLOAT] = "float",       [PROTOBUF_C_TYPE_DOUBLE] = "double",
        [PROTOBUF_C_TYPE_BOOL] = "bool",       [PROTOBUF_C_TYPE_ENUM] = "enum",         [PROTOBUF_C_TYPE_STRING] = "string",
        [PROTOBUF_C_TYPE_BYTES] = "bytes",     [PROTOBUF_C_TYPE_MESSAGE] = "message",
    };
    return names[f->type];
}

static const char *part_name(const mr_field *f)
{
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return short_name(((const ProtobufCMessageDescriptor *)f->descriptor)->name);
    if (f->type == PROTOBUF_C_TYPE_ENUM)
        return short_name(((const ProtobufCEnumDescriptor *)f->descriptor)->name);
    return "";
}

static void describe_field(const ProtobufCMessageDescriptor *d, const mr_field *f, mr_str *out)
{
    const char *quantity = !mr_field_repeated(f) ? "one" : mr_field_is_map(f) ? "map" : "many";
    bool packed = f->flags & PROTOBUF_C_FIELD_FLAG_PACKED;
    mr_str_printf(out, "%s\t%u\t%s\t%s\t%s\t%s\t%d\n", f->name, (unsigned)f->id, quantity, type_name(f), part_name(f),
                  oneof_of(d, f), packed);
}

/* Puts the error into status, or the text into a new buffer. */
static TF_Buffer *make_answer(mr_status *st, mr_str *text, TF_Status *status)
{
    TF_Buffer *b = st ? NULL : mr_capi_buffer_new(text);
    mr_str_deinit(text);
    mr_capi_set_status(status, st);
    return b;
}

TF_Buffer *mr_message_describe(const char *message, TF_Status *status)
{
    const ProtobufCMessageDescriptor *d = NULL;
    mr_str text = {0};
    mr_status *st = find_message(message, &d);
    for (unsigned i = 0; d && i < d->n_fields; i++) /* protobuf-c has them by number */
        describe_field(d, &d->fields[i], &text);
    return make_answer(st, &text, status);
}

TF_Buffer *mr_enum_describe(const char *name, TF_Status *status)
{
    const ProtobufCEnumDescriptor *d = NULL;
    mr_str text = {0};
    mr_status *st = find_enum(name, &d);
    for (unsigned i = 0; d && i < d->n_values; i++)
        mr_str_printf(&text, "%s\t%d\n", d->values[i].name, d->values[i].value);
    return make_answer(st, &text, status);
}

/* ---- texts ---- */

TF_Buffer *mr_message_to_text(const char *message, const void *proto, size_t proto_len, TF_Status *status)
{
    const ProtobufCMessageDescriptor *d;
    ProtobufCMessage *m = NULL;
    mr_str text = {0};
    mr_status *st = NULL;
    MR_GO(find_message(message, &d));
    MR_GO(mr_message_unpack(d, (mr_sv){proto, proto ? proto_len : 0}, d->short_name, &m));
    MR_GO(mr_text_print(m, &text));
out:
    mr_message_free(m);
    return make_answer(st, &text, status);
}

TF_Buffer *mr_message_from_text(const char *message, const char *text, size_t text_len, TF_Status *status)
{
    const ProtobufCMessageDescriptor *d;
    ProtobufCMessage *m = NULL;
    mr_str bytes = {0};
    mr_status *st = NULL;
    MR_GO(find_message(message, &d));
    MR_GO(mr_text_parse(d, (mr_sv){text ? text : "", text ? text_len : 0}, &m));
    MR_GO(mr_message_pack(m, &bytes));
out:
    mr_message_free(m);
    return make_answer(st, &bytes, status);
}
