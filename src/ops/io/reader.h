/* ops/io/reader.h -- readers: records from files whose names come from a queue.
 *
 * A reader processes one item of the queue (a work) at a time. Kinds of readers differ in how they begin a work,
 * read its next record, and which part of their state can be saved. */
#ifndef MR_OPS_IO_READER_H
#define MR_OPS_IO_READER_H

#include "ops/queue/named.h"
#include "store/lmdb.h"
#include "store/record.h"

typedef struct mr_reader mr_reader;

typedef struct mr_reader_spec { /* from the attrs of the op that creates the reader */
    mr_compression compression;
    int64_t skip_lines;
    int64_t header_bytes, record_bytes, footer_bytes, hop_bytes;
} mr_reader_spec;

typedef struct mr_reader_work { /* the current work */
    const mr_reader_spec *spec;
    char *name;
    size_t name_bytes; /* it may contain NULs */
    mr_stream *in;
    mr_record_reader *records;
    mr_lmdb *lmdb;
    mr_str ahead; /* bytes read beyond the record */
    int64_t n;    /* records or lines so far */
    bool done;    /* for works of one record: it was delivered */
} mr_reader_work;

typedef struct mr_reader_kind {
    const char *name;
    mr_status *(*begin)(mr_reader_work *w);
    /* Reads the next record; sets *at_end instead when there is none. */
    mr_status *(*next)(mr_reader_work *w, mr_str *key, mr_str *value, bool *at_end);
    bool saves; /* its state can be serialized between works */
} mr_reader_kind;

extern const mr_object_type mr_reader_type;
mr_reader *mr_reader_new(const mr_reader_kind *kind, const mr_reader_spec *spec, const char *node);

#endif
