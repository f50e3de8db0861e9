/* ops/io/reader.h -- readers: records out of files whose names come from a queue.
 *
 * A reader works on one item of the queue (a work) at a time.  What kinds of readers differ in is how
 * they begin a work, take the next record of it, and what of their state can be saved. */
#ifndef MR_OPS_IO_READER_H
#define MR_OPS_IO_READER_H

#include "ops/queue/named.h"
#include "store/lmdb.h"
#include "store/record.h"

typedef struct mr_reader mr_reader;

typedef struct mr_reader_spec { /* from the attrs of the op that makes it */
    mr_compression compression;
    int64_t skip_lines;
    int64_t header_bytes, record_bytes, footer_bytes, hop_bytes;
} mr_reader_spec;

typedef struct mr_reader_work { /* what is being worked on */
    const mr_reader_spec *spec;
    char *name;
    size_t name_bytes; /* there may be NULs inside */
    mr_stream *in;
    mr_record_reader *records;
    mr_lmdb *lmdb;
    mr_str ahead; /* bytes read beyond the record */
    int64_t n;    /* records or lines so far */
    bool done;    /* of works that are one record: it was given */
} mr_reader_work;

typedef struct mr_reader_kind {
    const char *name;
    mr_status *(*begin)(mr_reader_work *w);
    /* The next record; *at_end instead when there is none. */
    mr_status *(*next)(mr_reader_work *w, mr_str *key, mr_str *value, bool *at_end);
    bool saves; /* its state can be serialized between works */
} mr_reader_kind;

extern const mr_object_type mr_reader_type;
mr_reader *mr_reader_new(const mr_reader_kind *kind, const mr_reader_spec *spec, const char *node);

#endif
