/* ops/parse/proto_pool.c -- reads a FileDescriptorSet.
 *
 * Files are read one after another, each message with its nested messages.  A field may name a type that
 * is defined later, so the types of fields are resolved at the end.  Descriptors that protobuf's compiler
 * never writes (a duplicate number, a missing type) are rejected, so that users of a pool need no checks. */
#include "ops/parse/proto_pool.h"

#include "base/file.h"
#include "base/memory.h"
#include "wire/pb.h"

enum { LABEL_REPEATED = 3 };

typedef struct extension {
    mr_sv extendee;
    mr_proto_field *field;
} extension;

struct mr_proto_pool {
    mr_str bytes;
    mr_arena arena; /* holds the structs; their vectors are freed one by one */
    mr_map messages, enums;
    MR_VEC(mr_proto_message *) all_messages;
    MR_VEC(mr_proto_enum *) all_enums;
    MR_VEC(extension) extensions;
    bool proto3; /* the syntax of the file being read */
};

void mr_proto_pool_free(mr_proto_pool *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->all_messages.n; i++) {
        mr_vec_deinit(&p->all_messages.p[i]->fields);
        mr_map_deinit(&p->all_messages.p[i]->names);
        mr_imap_deinit(&p->all_messages.p[i]->numbers);
    }
    for (int i = 0; i < p->all_enums.n; i++) {
        mr_vec_deinit(&p->all_enums.p[i]->names);
        mr_vec_deinit(&p->all_enums.p[i]->numbers);
    }
    mr_vec_deinit(&p->all_messages);
    mr_vec_deinit(&p->all_enums);
    mr_vec_deinit(&p->extensions);
    mr_map_deinit(&p->messages);
    mr_map_deinit(&p->enums);
    mr_arena_deinit(&p->arena);
    mr_str_deinit(&p->bytes);
    mr_free(p);
}

/* ---- fields, enums ---- */

static mr_sv scoped_name(mr_proto_pool *p, mr_sv scope, mr_sv name)
{
    if (scope.n == 0)
        return name;
    char *text = mr_arena_array(&p->arena, char, scope.n + 1 + name.n);
    memcpy(text, scope.p, scope.n);
    text[scope.n] = '.';
    memcpy(text + scope.n + 1, name.p, name.n);
    return (mr_sv){text, scope.n + 1 + name.n};
}

/* Removes the leading dot of ".package.Message"; compilers always write absolute names. */
static mr_sv without_dot(mr_sv name)
{
    return name.n > 0 && name.p[0] == '.' ? (mr_sv){name.p + 1, name.n - 1} : name;
}

/* Reads FieldOptions.packed; in proto3 it is true unless it is switched off. */
static void read_packed(mr_pb_reader *options, mr_proto_field *f)
{
    uint32_t field, wire;
    while (mr_pb_next(options, &field, &wire))
        if (field == 2 && wire == MR_WIRE_VARINT)
            f->packed = mr_pb_bool(options);
        else
            mr_pb_skip(options);
}

/* Only repeated numbers have a packed form. */
static bool may_be_packed(const mr_proto_field *f)
{
    return f->repeated && f->type != MR_PROTO_STRING && f->type != MR_PROTO_BYTES &&
           f->type != MR_PROTO_MESSAGE && f->type != MR_PROTO_GROUP;
}

static mr_proto_field *read_field(mr_proto_pool *p, mr_pb_reader *r, mr_sv *extendee)
{
    mr_proto_field *f = mr_arena_new(&p->arena, mr_proto_field);
    mr_pb_reader options;
    uint32_t field, wire;
    *f = (mr_proto_field){.name = MR_SV(""), .packed = p->proto3};
    *extendee = MR_SV("");
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: f->name = mr_pb_bytes(r); break;
        case 2: *extendee = without_dot(mr_pb_bytes(r)); break;
        case 3: f->number = mr_pb_uint32(r); break;
        case 4: f->repeated = mr_pb_int32(r) == LABEL_REPEATED; break;
        case 5: f->type = (mr_proto_type)mr_pb_uint32(r); break;
        case 6: f->type_name = without_dot(mr_pb_bytes(r)); break;
        case 7:
            f->deflt = mr_pb_bytes(r);
            f->has_default = true;
            break;
        case 8:
            mr_pb_message(r, &options);
            read_packed(&options, f);
            break;
        default: mr_pb_skip(r);
        }
    f->packed = f->packed && may_be_packed(f);
    if (f->number == 0 || f->number > 0x1FFFFFFF || f->type == 0 || f->type >= MR_PROTO_N_TYPES)
        mr_pb_fail(r, "a field has no valid number or type");
    return f;
}

/* Reads an extension: a field of a message that is described elsewhere.  Its name is its full name. */
static void read_extension(mr_proto_pool *p, mr_pb_reader *up, mr_sv scope)
{
    mr_pb_reader r;
    extension e;
    mr_pb_message(up, &r);
    e.field = read_field(p, &r, &e.extendee);
    e.field->name = scoped_name(p, scope, e.field->name);
    if (!up->error)
        mr_vec_push(&p->extensions, e);
}

static void read_enum_value(mr_pb_reader *up, mr_proto_enum *e)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv name = MR_SV("");
    int32_t number = 0;
    mr_pb_message(up, &r);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            name = mr_pb_bytes(&r);
        else if (field == 2)
            number = mr_pb_int32(&r);
        else
            mr_pb_skip(&r);
    mr_vec_push(&e->names, name);
    mr_vec_push(&e->numbers, number);
}

static void read_enum(mr_proto_pool *p, mr_pb_reader *up, mr_sv scope)
{
    mr_proto_enum *e = mr_arena_new(&p->arena, mr_proto_enum);
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv name = MR_SV("");
    *e = (mr_proto_enum){0};
    mr_vec_push(&p->all_enums, e);
    mr_pb_message(up, &r);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            name = mr_pb_bytes(&r);
        else if (field == 2)
            read_enum_value(&r, e);
        else
            mr_pb_skip(&r);
    e->full_name = scoped_name(p, scope, name);
    mr_map_put(&p->enums, e->full_name, e);
}

/* ---- messages, files ---- */

/* Finds the name of a message before the rest is read.  Compilers write it first, but it may be anywhere. */
static mr_sv name_of(mr_sv message)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv name = MR_SV("");
    mr_pb_reader_init(&r, message);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1 && wire == MR_WIRE_BYTES)
            name = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    return name;
}

static void read_message(mr_proto_pool *p, mr_pb_reader *up, mr_sv scope)
{
    mr_proto_message *m = mr_arena_new(&p->arena, mr_proto_message);
    mr_pb_reader r, sub;
    uint32_t field, wire;
    mr_sv extendee;
    *m = (mr_proto_message){0};
    mr_vec_push(&p->all_messages, m);
    mr_pb_message(up, &r);
    m->full_name = scoped_name(p, scope, name_of(mr_pb_rest(&r)));
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 2:
            mr_pb_message(&r, &sub);
            mr_vec_push(&m->fields, read_field(p, &sub, &extendee));
            break;
        case 3: read_message(p, &r, m->full_name); break; /* the readers limit the depth */
        case 4: read_enum(p, &r, m->full_name); break;
        case 6: read_extension(p, &r, m->full_name); break;
        default: mr_pb_skip(&r);
        }
    mr_map_put(&p->messages, m->full_name, m);
}

/* Reads the package and the syntax, which determine how to read the rest. */
static mr_sv file_head(mr_proto_pool *p, mr_sv file)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv package = MR_SV("");
    p->proto3 = false;
    mr_pb_reader_init(&r, file);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 2 && wire == MR_WIRE_BYTES)
            package = mr_pb_bytes(&r);
        else if (field == 12 && wire == MR_WIRE_BYTES)
            p->proto3 = mr_sv_is(mr_pb_bytes(&r), "proto3");
        else
            mr_pb_skip(&r);
    return package;
}

static void read_file(mr_proto_pool *p, mr_pb_reader *up)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_pb_message(up, &r);
    mr_sv package = file_head(p, mr_pb_rest(&r));
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 4: read_message(p, &r, package); break;
        case 5: read_enum(p, &r, package); break;
        case 7: read_extension(p, &r, package); break;
        default: mr_pb_skip(&r);
        }
}

static mr_status *resolve_field(mr_proto_pool *p, mr_proto_field *f)
{
    bool message = f->type == MR_PROTO_MESSAGE || f->type == MR_PROTO_GROUP;
    if (message)
        f->message = mr_map_get(&p->messages, f->type_name);
    if (f->type == MR_PROTO_ENUM)
        f->enumeration = mr_map_get(&p->enums, f->type_name);
    if ((message && !f->message) || (f->type == MR_PROTO_ENUM && !f->enumeration))
        return mr_invalid("Failed to load FileDescriptorProto: field %.*s is of the type %.*s, which "
                          "does not exist",
                          MR_SV_ARG(f->name), MR_SV_ARG(f->type_name));
    return NULL;
}

static mr_status *resolve_message(mr_proto_pool *p, mr_proto_message *m)
{
    m->names.borrow_keys = true;
    for (int i = 0; i < m->fields.n; i++) {
        mr_proto_field *f = m->fields.p[i];
        MR_TRY(resolve_field(p, f));
        if (mr_map_put(&m->names, f->name, f) || mr_imap_put(&m->numbers, f->number, f))
            return mr_invalid("Failed to load FileDescriptorProto: the name or number of field %.*s (%u) "
                              "of %.*s is used twice",
                              MR_SV_ARG(f->name), f->number, MR_SV_ARG(m->full_name));
    }
    return NULL;
}

/* Ignores extensions of messages that are not in the set: it may be a part of a larger one. */
static mr_status *resolve_all(mr_proto_pool *p)
{
    for (int i = 0; i < p->extensions.n; i++) {
        mr_proto_message *m = mr_map_get(&p->messages, p->extensions.p[i].extendee);
        if (m)
            mr_vec_push(&m->fields, p->extensions.p[i].field);
    }
    for (int i = 0; i < p->all_messages.n; i++)
        MR_TRY(resolve_message(p, p->all_messages.p[i]));
    return NULL;
}

mr_status *mr_proto_pool_new(mr_sv bytes, mr_proto_pool **out)
{
    mr_proto_pool *p = mr_new(mr_proto_pool);
    mr_pb_reader r;
    uint32_t field, wire;
    mr_status *st = NULL;
    mr_arena_init(&p->arena, 0);
    if (!mr_str_try_append(&p->bytes, bytes.p, bytes.n))
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "no memory for descriptors of %zu bytes", bytes.n));
    mr_pb_reader_init(&r, mr_str_view(&p->bytes));
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1)
            read_file(p, &r);
        else
            mr_pb_skip(&r);
    MR_GO(mr_pb_reader_status(&r, "FileDescriptorSet"));
    MR_GO(resolve_all(p));
    *out = p;
    p = NULL;
out:
    mr_proto_pool_free(p);
    return st;
}

mr_status *mr_proto_pool_open(mr_sv source, mr_proto_pool **out)
{
    mr_str bytes = {0};
    mr_status *st = NULL;
    if (mr_sv_starts(source, "bytes://"))
        return mr_proto_pool_new((mr_sv){source.p + 8, source.n - 8}, out);
    if (source.n == 0 || mr_sv_is(source, "local://"))
        return mr_invalid("descriptor_source \"%.*s\": no messages are linked in; give "
                          "\"bytes://\" and a serialized FileDescriptorSet, or the name of a file with "
                          "one",
                          MR_SV_ARG(source));
    char *path = mr_strndup(source.p, source.n);
    st = mr_file_read_all(path, &bytes);
    mr_free(path);
    if (!st)
        st = mr_proto_pool_new(mr_str_view(&bytes), out);
    mr_str_deinit(&bytes);
    return st ? mr_status_prepend(st, "descriptor_source: ") : NULL;
}

/* ---- lookup ---- */

const mr_proto_message *mr_proto_pool_find(const mr_proto_pool *p, mr_sv full_name)
{
    return mr_map_get(&p->messages, full_name);
}

const mr_proto_field *mr_proto_message_field(const mr_proto_message *m, mr_sv name)
{
    return mr_map_get(&m->names, name);
}

const mr_proto_field *mr_proto_message_number(const mr_proto_message *m, uint32_t number)
{
    return mr_imap_get(&m->numbers, number);
}

mr_status *mr_proto_fields_find(const mr_proto_pool *p, mr_sv message, int n, const mr_sv *names,
                                const mr_proto_message **out, const mr_proto_field **fields)
{
    *out = mr_proto_pool_find(p, message);
    if (!*out)
        return mr_invalid("No descriptor found for message type %.*s", MR_SV_ARG(message));
    for (int i = 0; i < n; i++) {
        fields[i] = mr_proto_message_field(*out, names[i]);
        if (!fields[i])
            return mr_invalid("Unknown field: %.*s in message type %.*s", MR_SV_ARG(names[i]),
                              MR_SV_ARG(message));
    }
    return NULL;
}

/* ---- types ---- */

static const struct {
    const char *name;
    uint32_t wire;
    mr_dtype dtype, wider; /* wider: also allowed as the tensor type; MR_INVALID: none */
} types[MR_PROTO_N_TYPES] = {
    [MR_PROTO_DOUBLE] = {"double", MR_WIRE_FIXED64, MR_DOUBLE, MR_INVALID},
    [MR_PROTO_FLOAT] = {"float", MR_WIRE_FIXED32, MR_FLOAT, MR_DOUBLE},
    [MR_PROTO_INT64] = {"int64", MR_WIRE_VARINT, MR_INT64, MR_INVALID},
    [MR_PROTO_UINT64] = {"uint64", MR_WIRE_VARINT, MR_UINT64, MR_INVALID},
    [MR_PROTO_INT32] = {"int32", MR_WIRE_VARINT, MR_INT32, MR_INT64},
    [MR_PROTO_FIXED64] = {"fixed64", MR_WIRE_FIXED64, MR_UINT64, MR_INVALID},
    [MR_PROTO_FIXED32] = {"fixed32", MR_WIRE_FIXED32, MR_UINT32, MR_UINT64},
    [MR_PROTO_BOOL] = {"bool", MR_WIRE_VARINT, MR_BOOL, MR_INVALID},
    [MR_PROTO_STRING] = {"string", MR_WIRE_BYTES, MR_STRING, MR_INVALID},
    [MR_PROTO_GROUP] = {"group", MR_WIRE_GROUP, MR_STRING, MR_INVALID},
    [MR_PROTO_MESSAGE] = {"message", MR_WIRE_BYTES, MR_STRING, MR_INVALID},
    [MR_PROTO_BYTES] = {"bytes", MR_WIRE_BYTES, MR_STRING, MR_INVALID},
    [MR_PROTO_UINT32] = {"uint32", MR_WIRE_VARINT, MR_UINT32, MR_UINT64},
    [MR_PROTO_ENUM] = {"enum", MR_WIRE_VARINT, MR_INT32, MR_INVALID},
    [MR_PROTO_SFIXED32] = {"sfixed32", MR_WIRE_FIXED32, MR_INT32, MR_INT64},
    [MR_PROTO_SFIXED64] = {"sfixed64", MR_WIRE_FIXED64, MR_INT64, MR_INVALID},
    [MR_PROTO_SINT32] = {"sint32", MR_WIRE_VARINT, MR_INT32, MR_INT64},
    [MR_PROTO_SINT64] = {"sint64", MR_WIRE_VARINT, MR_INT64, MR_INVALID},
};

bool mr_proto_compatible(const mr_proto_field *f, mr_dtype dtype)
{
    return dtype != MR_INVALID && (types[f->type].dtype == dtype || types[f->type].wider == dtype);
}

mr_status *mr_proto_check_dtype(mr_dtype dtype)
{
    for (int t = 1; t < MR_PROTO_N_TYPES; t++)
        if (types[t].dtype == dtype)
            return NULL;
    return mr_error(MR_UNIMPLEMENTED, "No protobuf field type corresponds to %s", mr_dtype_name(dtype));
}

const char *mr_proto_type_name(mr_proto_type t) { return types[t].name; }
uint32_t mr_proto_wire(mr_proto_type t) { return types[t].wire; }

/* ---- depth ---- */

/* A sub-reader passes its error to the reader that contains it, so only the outermost is checked. */
static bool check_depth(const mr_proto_message *m, mr_pb_reader *r)
{
    mr_pb_reader sub;
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire)) {
        const mr_proto_field *f = mr_proto_message_number(m, field);
        if (f && f->type == MR_PROTO_MESSAGE && wire == MR_WIRE_BYTES) {
            if (mr_pb_message(r, &sub))
                check_depth(f->message, &sub);
        } else {
            mr_pb_skip(r);
        }
    }
    return !r->error;
}

bool mr_proto_is_message(const mr_proto_message *m, mr_sv bytes)
{
    mr_pb_reader r;
    mr_pb_reader_init(&r, bytes);
    return check_depth(m, &r);
}
