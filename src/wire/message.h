/* wire/message.h -- protobuf-c messages from bytes and back, safe against any bytes.
 *
 *     Tensorflow__ConfigProto *config;
 *     MR_TRY(mr_message_unpack(&tensorflow__config_proto__descriptor, bytes, "ConfigProto",
 *                              (ProtobufCMessage **)&config));
 *     ... config->gpu_options may be NULL, strings never are ...
 *     mr_message_free(&config->base);
 *
 * A message made here lies with all its parts in one arena and is freed as a whole, with
 * mr_message_free and nothing else; protobuf-c's own *__unpack and *__free_unpacked are not used in
 * this project (no limit on nesting, quadratic time when a field is repeated that should not be).
 * Messages that a caller builds by hand from the generated structs can be packed too.
 *
 * Maps are arrays of entries in the order they came; of entries with the same key the last one
 * counts, and an entry's value message may be NULL (it means an empty one).  Unknown fields and
 * numbers of enums are kept.  Strings with a NUL inside are refused: the structs could not hold
 * them. */
#ifndef MR_WIRE_MESSAGE_H
#define MR_WIRE_MESSAGE_H

#include <protobuf-c/protobuf-c.h>

#include "base/arena.h"
#include "base/str.h"

/* An empty message.  RESOURCE_EXHAUSTED when memory is out. */
mr_status *mr_message_new(const ProtobufCMessageDescriptor *d, ProtobufCMessage **out);
void mr_message_free(ProtobufCMessage *m); /* NULL is fine */
/* The arena of m, for parts that are added to it; valid as long as m. */
mr_arena *mr_message_arena(ProtobufCMessage *m);

/* Reads a message.  Malformed bytes, a field with the wire type of another, and more than 100
 * levels give INVALID_ARGUMENT, whose text begins with `what`; refused memory gives
 * RESOURCE_EXHAUSTED. */
mr_status *mr_message_unpack(const ProtobufCMessageDescriptor *d, mr_sv bytes, const char *what,
                             ProtobufCMessage **out);

/* Appends the serialized message.  INVALID_ARGUMENT when it would exceed protobuf's 2 GiB. */
mr_status *mr_message_pack(const ProtobufCMessage *m, mr_str *out);

/* Sorts the entries of every map by key and drops all but the last of each key, so that equal
 * messages pack to equal bytes.  Works on messages built by hand too. */
mr_status *mr_message_sort_maps(ProtobufCMessage *m);

#endif
