/* store/stream.h -- bytes in order: a plain file, a compressed one, or memory.
 *
 * One interface for everything that reads records, lines or parts of a fixed length, so that each of them works with
 * every compression. Memory is bounded whatever the file contains: one or two buffers of a fixed size, and results that
 * grow only by bytes that were read.
 *
 * Compressed input ends where its bytes end, also in the middle of a block, as in TensorFlow (a file
 * that is still being written has no end yet); bytes that cannot be decompressed are DATA_LOSS. */
#ifndef MR_STORE_STREAM_H
#define MR_STORE_STREAM_H

#include "base/file.h"

typedef enum mr_compression {
    MR_UNCOMPRESSED = 0,
    MR_ZLIB, /* RFC 1950 */
    MR_GZIP, /* RFC 1952; several streams in a row count as one */
} mr_compression;

/* "", "ZLIB" or "GZIP"; false for anything else. */
bool mr_compression_parse(mr_sv name, mr_compression *out);

#define MR_STREAM_BUFFER ((size_t)256 << 10)

typedef struct mr_stream mr_stream;

/* buffer_bytes 0: MR_STREAM_BUFFER. */
mr_status *mr_stream_open(const char *path, mr_compression c, size_t buffer_bytes, mr_stream **out);
/* Over bytes that outlive the stream. */
mr_status *mr_stream_of_bytes(mr_sv bytes, mr_compression c, mr_stream **out);
void mr_stream_close(mr_stream *s); /* NULL is fine */

/* Positions count decompressed bytes. */
uint64_t mr_stream_offset(const mr_stream *s);
/* Without compression one step; otherwise, to go back, everything before is decompressed again. A position after the
 * end is only detected by the next read. */
mr_status *mr_stream_seek(mr_stream *s, uint64_t offset);

/* Fewer than n bytes only at the end. */
mr_status *mr_stream_read(mr_stream *s, void *to, size_t n, size_t *got);
mr_status *mr_stream_skip(mr_stream *s, uint64_t n, uint64_t *skipped);
/* Appends at most n bytes to out, which grows with the bytes that are read, not with n. */
mr_status *mr_stream_append(mr_stream *s, uint64_t n, mr_str *out);
/* The rest. */
mr_status *mr_stream_read_all(mr_stream *s, mr_str *out);
/* One line into `line` (cleared first), without its '\n' and, as in TensorFlow, without any '\r'.
 * OUT_OF_RANGE at the end. */
mr_status *mr_stream_line(mr_stream *s, mr_str *line);

/* The bytes that can be read without asking the file, borrowed until the next call. */
mr_sv mr_stream_buffered(const mr_stream *s);

/* Compresses bytes into a file, which is borrowed. */
typedef struct mr_deflater mr_deflater;
/* level -1: zlib's default. */
mr_status *mr_deflater_new(mr_writer *file, mr_compression c, int level, mr_deflater **out);
mr_status *mr_deflater_write(mr_deflater *d, const void *p, size_t n);
mr_status *mr_deflater_flush(mr_deflater *d); /* afterwards, a reader can decompress all bytes so far */
mr_status *mr_deflater_finish(mr_deflater *d);
void mr_deflater_free(mr_deflater *d); /* NULL is fine */

#endif
