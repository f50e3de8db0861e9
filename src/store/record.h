/* store/record.h -- TFRecord files: bytes back to back, each with its length and two checksums.
 *
 *     offset  size
 *     0       8     n, the length
 *     8       4     masked crc32c of these 8 bytes
 *     12      n     the bytes
 *     12+n    4     masked crc32c of the bytes
 *
 * The whole file may be compressed (store/stream.h). A reader trusts no length: memory for a record grows only with
 * bytes that were read. */
#ifndef MR_STORE_RECORD_H
#define MR_STORE_RECORD_H

#include "store/stream.h"

#define MR_RECORD_HEADER 12
#define MR_RECORD_FOOTER 4

/* ---- reading ---- */
typedef struct mr_record_reader mr_record_reader;
/* buffer_bytes 0: the default size. */
mr_status *mr_record_reader_open(const char *path, mr_compression c, size_t buffer_bytes,
                                 mr_record_reader **out);
/* Takes ownership of the stream. */
mr_record_reader *mr_record_reader_new(mr_stream *s);
void mr_record_reader_close(mr_record_reader *r); /* NULL is fine */

/* The next record into `record` (cleared first). OUT_OF_RANGE "eof" at the end; DATA_LOSS "corrupted record at N",
 * "truncated record at N". After an error the position is still that of the record that failed. */
mr_status *mr_record_read(mr_record_reader *r, mr_str *record);
/* The same without a copy if the record is in memory as a whole; otherwise it is read into `space`. The view is borrowed
 * until the next call for the reader, or change of `space`. */
mr_status *mr_record_view(mr_record_reader *r, mr_str *space, mr_sv *record);
/* True if the next record is in memory as a whole: mr_record_read will not ask the file. */
bool mr_record_is_buffered(const mr_record_reader *r);
/* Passes over records without checking their bytes; *skipped < n only with an error. */
mr_status *mr_record_skip(mr_record_reader *r, int64_t n, int64_t *skipped);
/* Where the next record begins, in decompressed bytes; a later seek goes there. */
uint64_t mr_record_offset(const mr_record_reader *r);
mr_status *mr_record_seek(mr_record_reader *r, uint64_t offset);

/* ---- writing ---- */
typedef struct mr_record_writer mr_record_writer;
/* Over a file, which is borrowed: the caller opens and commits it (base/file.h). */
mr_status *mr_record_writer_new(mr_writer *file, mr_compression c, mr_record_writer **out);
mr_status *mr_record_write(mr_record_writer *w, mr_sv record);
/* Afterwards, readers of the file can read all records so far. */
mr_status *mr_record_flush(mr_record_writer *w);
/* Ends a compressed stream; nothing may be written afterwards. */
mr_status *mr_record_finish(mr_record_writer *w);
void mr_record_writer_free(mr_record_writer *w); /* NULL is fine */

#endif
