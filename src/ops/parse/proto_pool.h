/* ops/parse/proto_pool.h -- messages that a FileDescriptorSet describes at run time.
 *
 * DecodeProtoV2 and EncodeProto get their message types this way.  Each kernel builds its pool once and
 * never changes it; the names in it point into the bytes that it was read from, which it owns. */
#ifndef MR_OPS_PARSE_PROTO_POOL_H
#define MR_OPS_PARSE_PROTO_POOL_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "tensor/dtype.h"

typedef enum mr_proto_type { /* the numbers of FieldDescriptorProto.Type */
    MR_PROTO_DOUBLE = 1, MR_PROTO_FLOAT, MR_PROTO_INT64, MR_PROTO_UINT64, MR_PROTO_INT32,
    MR_PROTO_FIXED64, MR_PROTO_FIXED32, MR_PROTO_BOOL, MR_PROTO_STRING, MR_PROTO_GROUP,
    MR_PROTO_MESSAGE, MR_PROTO_BYTES, MR_PROTO_UINT32, MR_PROTO_ENUM, MR_PROTO_SFIXED32,
    MR_PROTO_SFIXED64, MR_PROTO_SINT32, MR_PROTO_SINT64,
    MR_PROTO_N_TYPES,
} mr_proto_type;

typedef struct mr_proto_enum {
    mr_sv full_name;
    MR_VEC(mr_sv) names;
    MR_VEC(int32_t) numbers;
} mr_proto_enum;

typedef struct mr_proto_message mr_proto_message;
typedef struct mr_proto_field {
    mr_sv name; /* for an extension, the full name */
    uint32_t number;
    mr_proto_type type;
    bool repeated, packed; /* packed: how to write it; readers accept both forms */
    bool has_default;
    mr_sv deflt;     /* as text */
    mr_sv type_name; /* of messages and enums */
    const mr_proto_message *message;
    const mr_proto_enum *enumeration;
} mr_proto_field;

struct mr_proto_message {
    mr_sv full_name;
    MR_VEC(mr_proto_field *) fields;
    mr_map names;    /* of the fields */
    mr_imap numbers;
};

typedef struct mr_proto_pool mr_proto_pool;
/* INVALID_ARGUMENT if the bytes are not a FileDescriptorSet, or name types that it does not define. */
mr_status *mr_proto_pool_new(mr_sv file_descriptor_set, mr_proto_pool **out);
/* Opens "bytes://..." or the name of a file; "local://" is an error, because no messages are linked in. */
mr_status *mr_proto_pool_open(mr_sv source, mr_proto_pool **out);
void mr_proto_pool_free(mr_proto_pool *p); /* NULL is fine */
const mr_proto_message *mr_proto_pool_find(const mr_proto_pool *p, mr_sv full_name); /* or NULL */
const mr_proto_field *mr_proto_message_field(const mr_proto_message *m, mr_sv name); /* or NULL */
const mr_proto_field *mr_proto_message_number(const mr_proto_message *m, uint32_t number);

/* Finds a kernel's message and its fields by name, and checks that they fit the tensor types. */
mr_status *mr_proto_fields_find(const mr_proto_pool *p, mr_sv message, int n, const mr_sv *names,
                                const mr_proto_message **out, const mr_proto_field **fields);
bool mr_proto_compatible(const mr_proto_field *f, mr_dtype dtype);
/* UNIMPLEMENTED for a tensor type that corresponds to no field type. */
mr_status *mr_proto_check_dtype(mr_dtype dtype);
const char *mr_proto_type_name(mr_proto_type t);
uint32_t mr_proto_wire(mr_proto_type t); /* the wire type of one value */

/* Converts text format to bytes (DATA_LOSS if it is malformed); and whether bytes are a well-formed message
 * of this type, with all nested messages. */
mr_status *mr_proto_from_text(const mr_proto_message *m, mr_sv text, mr_str *out);
bool mr_proto_is_message(const mr_proto_message *m, mr_sv bytes);

#endif
