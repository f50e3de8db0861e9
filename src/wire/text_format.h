/* wire/text_format.h -- protobuf's text format, for any message, both ways.
 *
 * Reads what C++ TextFormat reads: comments, {} and <>, lists in [], `,` and `;` between fields,
 * adjacent string literals joined, every escape, numbers in decimal, hexadecimal and octal, enums
 * by name or number, maps as repeated entries.  Not read: extensions and expanded Any ([...] as a
 * field name).  Writes what C++ writes: two spaces a level, fields by number, map entries sorted by
 * key. */
#ifndef MR_WIRE_TEXT_FORMAT_H
#define MR_WIRE_TEXT_FORMAT_H

#include <protobuf-c/protobuf-c.h>

#include "base/str.h"

/* Free with mr_message_free.  Errors are INVALID_ARGUMENT and begin "GraphDef text 12:5: " with
 * line and column, both from 1. */
mr_status *mr_text_parse(const ProtobufCMessageDescriptor *d, mr_sv text, ProtobufCMessage **out);

/* Makes a message's bytes of its text, in place. */
mr_status *mr_text_to_bytes(const ProtobufCMessageDescriptor *d, mr_str *text);

/* Appended to out.  RESOURCE_EXHAUSTED when memory is out. */
mr_status *mr_text_print(const ProtobufCMessage *m, mr_str *out);

/* Appends the bytes as between the quotes of a literal: \n \r \t \" \' \\, and \ooo for what is not
 * printable ASCII. False if there is no memory. */
bool mr_text_escape(mr_sv bytes, mr_str *out);

#endif
