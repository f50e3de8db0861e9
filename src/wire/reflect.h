/* wire/reflect.h -- fields of a protobuf-c message by descriptor.
 *
 * Descriptors describe at run time what the generated structs describe at compile time. The binary
 * decoder, the text format and the map order all work on any message through these few functions.
 * They know proto3 without `optional`, which is all that proto/ has.
 *
 * The adding functions allocate from an arena and only work on messages made here: arrays grow by
 * doubling, and their room is implied by their count (there is no member to keep it in). */
#ifndef MR_WIRE_REFLECT_H
#define MR_WIRE_REFLECT_H

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/str.h"

typedef ProtobufCFieldDescriptor mr_field;

/* ---- looking ---- */

/* Where the value is, or for repeated fields the pointer to the array. */
static inline void *mr_field_at(const ProtobufCMessage *m, const mr_field *f)
{
    return (char *)(uintptr_t)m + f->offset;
}

/* The number of values of a repeated field. */
static inline size_t *mr_field_count(const ProtobufCMessage *m, const mr_field *f)
{
    return (size_t *)((char *)(uintptr_t)m + f->quantifier_offset);
}

/* Which member of its oneof is set; only for fields with the ONEOF flag. */
static inline uint32_t *mr_field_case(const ProtobufCMessage *m, const mr_field *f)
{
    return (uint32_t *)((char *)(uintptr_t)m + f->quantifier_offset);
}

static inline bool mr_field_repeated(const mr_field *f)
{
    return f->label == PROTOBUF_C_LABEL_REPEATED;
}
static inline bool mr_field_in_oneof(const mr_field *f)
{
    return f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
}

size_t mr_field_elem_bytes(const mr_field *f); /* of one value in memory */
uint32_t mr_field_wire(const mr_field *f);     /* MR_WIRE_* of one value, unpacked */

/* Has presence, or a value other than the default where there is none. */
bool mr_field_is_set(const ProtobufCMessage *m, const mr_field *f);

const mr_field *mr_field_named(const ProtobufCMessageDescriptor *d, mr_sv name); /* NULL: none */

/* A map is a repeated message with the fields key and value; protobuf-c does not mark it, but it is
 * recognized by the name that protoc gives to the entry (attr: AttrEntry). */
bool mr_field_is_map(const mr_field *f);

/* Sorts map entries by key; equal keys keep their order. False, and unsorted, if there is no memory. */
bool mr_map_entries_sort(ProtobufCMessage **entries, size_t n);
/* < 0, 0, > 0 */
int mr_map_entries_compare(const ProtobufCMessage *a, const ProtobufCMessage *b);

/* ---- adding: NULL when memory is out ---- */

ProtobufCMessage *mr_message_in_arena(mr_arena *a, const ProtobufCMessageDescriptor *d);
/* Room for n more values of a repeated field, zeroed and already counted; returns the first. */
void *mr_field_add(mr_arena *a, ProtobufCMessage *m, const mr_field *f, size_t n);
/* The place for the next value: a new last element, or the single value. The other member of a oneof is cleared. */
void *mr_field_slot(mr_arena *a, ProtobufCMessage *m, const mr_field *f);
/* The message to fill: for a repeated field a new last element, otherwise the existing message or a new one. */
ProtobufCMessage *mr_field_message(mr_arena *a, ProtobufCMessage *m, const mr_field *f);
ProtobufCMessageUnknownField *mr_message_add_unknown(mr_arena *a, ProtobufCMessage *m);

#endif
