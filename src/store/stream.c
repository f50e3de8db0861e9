/* store/stream.c -- reads bytes in order, through a window.
 *
 * The window [at, end) holds bytes that were read but not yet handed out. Without compression it is filled from the
 * file, or is a view of the given bytes; with compression, zlib fills it from a second buffer with the file's bytes.
 * `taken` counts the bytes handed out, so it is the position in both cases. */
#include "store/stream.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>
#include <zlib.h>

#include "base/memory.h"

enum { BYTES_BUFFER = 16 << 10 }; /* for input that is already in memory */
enum { GZIP_WRAPPER = 16 }; /* added to the window bits, it asks zlib for gzip's header and trailer */

struct mr_stream {
    mr_source file; /* fd -1: over bytes */
    char *path;     /* for error messages */
    mr_compression compression;
    uint64_t taken;

    mr_sv bytes; /* without a file: all of them */
    size_t used; /* of bytes, how many have been read */

    char *buffer; /* memory of the window; NULL if the window is a view of `bytes` */
    size_t buffer_bytes;
    const char *at, *end;

    z_stream z; /* with compression */
    bool z_open;
    bool z_end; /* there is no more input */
    char *packed; /* with compression and a file */
};

bool mr_compression_parse(mr_sv name, mr_compression *out)
{
    if (name.n == 0)
        *out = MR_UNCOMPRESSED;
    else if (mr_sv_is(name, "ZLIB"))
        *out = MR_ZLIB;
    else if (mr_sv_is(name, "GZIP"))
        *out = MR_GZIP;
    else
        return false;
    return true;
}

static int window_bits(mr_compression c) { return MAX_WBITS + (c == MR_GZIP ? GZIP_WRAPPER : 0); }

/* ---- making ---- */

static mr_status *start_inflate(mr_stream *s)
{
    if (s->z_open)
        inflateEnd(&s->z);
    s->z = (z_stream){0};
    s->z_end = false;
    s->z_open = inflateInit2(&s->z, window_bits(s->compression)) == Z_OK;
    return s->z_open ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "%s: no memory to decompress", s->path);
}

static mr_status *make_stream(mr_compression c, size_t buffer_bytes, const char *path, mr_stream **out)
{
    mr_stream *s = mr_new(mr_stream);
    mr_status *st = NULL;
    s->file.fd = -1;
    s->path = mr_strdup(path);
    s->compression = c;
    s->buffer_bytes = buffer_bytes ? buffer_bytes : MR_STREAM_BUFFER;
    s->at = s->end = "";
    if (c != MR_UNCOMPRESSED)
        st = start_inflate(s);
    *out = s;
    return st;
}

static mr_status *need_buffer(char **p, size_t n, const char *path)
{
    if (!*p && !(*p = mr_try_alloc(n)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "%s: no memory for a buffer of %zu bytes", path, n);
    return NULL;
}

mr_status *mr_stream_open(const char *path, mr_compression c, size_t buffer_bytes, mr_stream **out)
{
    mr_stream *s;
    mr_status *st = make_stream(c, buffer_bytes, path, &s);
    if (!st)
        st = mr_source_open(s->path, &s->file);
    if (!st)
        st = need_buffer(&s->buffer, s->buffer_bytes, path);
    if (!st && c != MR_UNCOMPRESSED)
        st = need_buffer(&s->packed, s->buffer_bytes, path);
    if (st)
        mr_stream_close(s);
    else
        *out = s;
    return st;
}

mr_status *mr_stream_of_bytes(mr_sv bytes, mr_compression c, mr_stream **out)
{
    mr_stream *s;
    mr_status *st = make_stream(c, BYTES_BUFFER, "bytes", &s);
    if (!st && c != MR_UNCOMPRESSED)
        st = need_buffer(&s->buffer, s->buffer_bytes, s->path);
    if (st) {
        mr_stream_close(s);
        return st;
    }
    s->bytes = (mr_sv){bytes.p ? bytes.p : "", bytes.n};
    *out = s;
    return NULL;
}

void mr_stream_close(mr_stream *s)
{
    if (!s)
        return;
    mr_source_close(&s->file);
    if (s->z_open)
        inflateEnd(&s->z);
    mr_free(s->path);
    mr_free(s->buffer);
    mr_free(s->packed);
    mr_free(s);
}

/* ---- filling the window ---- */

/* Gives zlib the next bytes of the source. */
static mr_status *feed_inflate(mr_stream *s)
{
    size_t got = 0;
    if (s->file.fd < 0) {
        got = MR_MIN(s->bytes.n - s->used, (size_t)UINT_MAX);
        s->z.next_in = (Bytef *)s->bytes.p + s->used;
        s->used += got;
    } else {
        MR_TRY(mr_source_read(&s->file, s->packed, MR_MIN(s->buffer_bytes, (size_t)UINT_MAX), &got));
        s->z.next_in = (Bytef *)s->packed;
    }
    s->z.avail_in = (uInt)got;
    return NULL;
}

/* A compressed stream has ended: another gzip stream may follow; anything else is ignored. */
static mr_status *end_of_member(mr_stream *s)
{
    if (s->z.avail_in == 0)
        MR_TRY(feed_inflate(s));
    if (s->compression == MR_GZIP && s->z.avail_in > 0 && inflateReset(&s->z) == Z_OK)
        return NULL;
    s->z_end = true;
    return NULL;
}

/* Decompresses until the window has bytes or the input ends. Input that ends in the middle of a block is an end, not an
 * error. */
static mr_status *inflate_some(mr_stream *s)
{
    size_t room = MR_MIN(s->buffer_bytes, (size_t)UINT_MAX);
    s->at = s->end = s->buffer;
    while (!s->z_end && s->at == s->end) {
        if (s->z.avail_in == 0)
            MR_TRY(feed_inflate(s));
        if (s->z.avail_in == 0)
            return NULL;
        s->z.next_out = (Bytef *)s->buffer;
        s->z.avail_out = (uInt)room;
        int r = inflate(&s->z, Z_NO_FLUSH);
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
            return mr_error(r == Z_MEM_ERROR ? MR_RESOURCE_EXHAUSTED : MR_DATA_LOSS,
                            "inflate() failed with error %d: %s", r, s->z.msg ? s->z.msg : s->path);
        s->end = s->buffer + (room - s->z.avail_out);
        if (r == Z_STREAM_END)
            MR_TRY(end_of_member(s));
    }
    return NULL;
}

/* Refills the empty window; it stays empty only at the end. */
static mr_status *fill_window(mr_stream *s)
{
    size_t got;
    MR_ASSERT(s->at == s->end);
    if (s->compression != MR_UNCOMPRESSED)
        return inflate_some(s);
    if (s->file.fd < 0) {
        s->at = s->bytes.p + s->used;
        s->end = s->bytes.p + s->bytes.n;
        s->used = s->bytes.n;
        return NULL;
    }
    MR_TRY(mr_source_read(&s->file, s->buffer, s->buffer_bytes, &got));
    s->at = s->buffer;
    s->end = s->buffer + got;
    return NULL;
}

/* ---- reading ---- */

uint64_t mr_stream_offset(const mr_stream *s) { return s->taken; }

mr_sv mr_stream_buffered(const mr_stream *s) { return (mr_sv){s->at, (size_t)(s->end - s->at)}; }

static void take_bytes(mr_stream *s, size_t n)
{
    s->at += n;
    s->taken += n;
}

mr_status *mr_stream_read(mr_stream *s, void *to, size_t n, size_t *got)
{
    *got = 0;
    while (*got < n) {
        if (s->at == s->end)
            MR_TRY(fill_window(s));
        size_t part = MR_MIN(n - *got, (size_t)(s->end - s->at));
        if (part == 0)
            return NULL;
        memcpy((char *)to + *got, s->at, part);
        take_bytes(s, part);
        *got += part;
    }
    return NULL;
}

mr_status *mr_stream_skip(mr_stream *s, uint64_t n, uint64_t *skipped)
{
    *skipped = 0;
    while (*skipped < n) {
        if (s->at == s->end)
            MR_TRY(fill_window(s));
        size_t there = (size_t)(s->end - s->at);
        size_t part = n - *skipped < there ? (size_t)(n - *skipped) : there;
        if (part == 0)
            return NULL;
        take_bytes(s, part);
        *skipped += part;
    }
    return NULL;
}

/* A device may have neither an end nor line breaks, so the amount read from it is limited. */
static mr_status *check_size(const mr_stream *s, size_t bytes)
{
    return s->file.fd >= 0 && s->file.waits ? mr_source_check_size(&s->file, bytes) : NULL;
}

/* Grows `out` only by bytes that were read: n may be UINT64_MAX. */
mr_status *mr_stream_append(mr_stream *s, uint64_t n, mr_str *out)
{
    while (n > 0) {
        if (s->at == s->end)
            MR_TRY(fill_window(s));
        size_t there = (size_t)(s->end - s->at);
        size_t part = n < there ? (size_t)n : there;
        if (part == 0)
            return NULL;
        MR_TRY(check_size(s, out->n + part));
        if (!mr_str_try_append(out, s->at, part))
            return mr_error(MR_RESOURCE_EXHAUSTED, "%s: no memory for %zu bytes", s->path,
                            out->n + part);
        take_bytes(s, part);
        n -= part;
    }
    return NULL;
}

mr_status *mr_stream_read_all(mr_stream *s, mr_str *out)
{
    return mr_stream_append(s, UINT64_MAX, out);
}

/* Appends a piece of a line without its '\r'. */
static bool append_piece(mr_str *line, const char *p, size_t n)
{
    for (const char *cr; n > 0 && (cr = memchr(p, '\r', n)); p = cr + 1) {
        if (!mr_str_try_append(line, p, (size_t)(cr - p)))
            return false;
        n -= (size_t)(cr - p) + 1;
    }
    return mr_str_try_append(line, p, n);
}

/* A last line without a newline counts, unless it is empty. */
mr_status *mr_stream_line(mr_stream *s, mr_str *line)
{
    mr_str_clear(line);
    for (const char *stop = NULL; !stop;) {
        if (s->at == s->end)
            MR_TRY(fill_window(s));
        size_t there = (size_t)(s->end - s->at);
        if (there == 0)
            return line->n ? NULL : mr_error(MR_OUT_OF_RANGE, "eof");
        stop = memchr(s->at, '\n', there);
        size_t part = stop ? (size_t)(stop - s->at) : there;
        MR_TRY(check_size(s, line->n + part));
        if (!append_piece(line, s->at, part))
            return mr_error(MR_RESOURCE_EXHAUSTED, "%s: no memory for a line of %zu bytes", s->path,
                            line->n + part);
        take_bytes(s, part + (stop != NULL));
    }
    return NULL;
}

static mr_status *rewind_to(mr_stream *s, uint64_t offset)
{
    s->at = s->end = s->buffer ? s->buffer : "";
    s->taken = offset;
    if (s->file.fd < 0)
        s->used = MR_MIN(offset, s->bytes.n);
    else if (lseek(s->file.fd, (off_t)offset, SEEK_SET) < 0)
        return mr_errno_status(errno, "seek", s->path);
    return s->compression == MR_UNCOMPRESSED ? NULL : start_inflate(s);
}

/* Within the window this is free. Otherwise uncompressed input seeks the file; compressed input is decompressed up to
 * the position, from the start if it is behind. */
mr_status *mr_stream_seek(mr_stream *s, uint64_t offset)
{
    uint64_t skipped;
    if (offset > INT64_MAX)
        return mr_error(MR_OUT_OF_RANGE, "%s: cannot seek to position %llu", s->path, (unsigned long long)offset);
    if (offset >= s->taken && offset - s->taken <= (uint64_t)(s->end - s->at)) {
        take_bytes(s, (size_t)(offset - s->taken));
        return NULL;
    }
    if (s->compression == MR_UNCOMPRESSED)
        return rewind_to(s, offset);
    if (offset < s->taken)
        MR_TRY(rewind_to(s, 0));
    return mr_stream_skip(s, offset - s->taken, &skipped);
}

/* ---- compressing ---- */

struct mr_deflater {
    mr_writer *file;
    z_stream z;
    bool open;
    char out[64 << 10];
};

mr_status *mr_deflater_new(mr_writer *file, mr_compression c, int level, mr_deflater **out)
{
    mr_deflater *d = mr_new(mr_deflater);
    MR_ASSERT(c != MR_UNCOMPRESSED);
    d->file = file;
    /* Memory level 9 as in TensorFlow's writers, so that the output is the same to the byte. */
    d->open = deflateInit2(&d->z, level, Z_DEFLATED, window_bits(c), 9, Z_DEFAULT_STRATEGY) == Z_OK;
    if (!d->open) {
        mr_deflater_free(d);
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to compress at level %d", level);
    }
    *out = d;
    return NULL;
}

/* Runs zlib until it has consumed its input and written all output for it. */
static mr_status *pump_deflate(mr_deflater *d, int flush)
{
    do {
        d->z.next_out = (Bytef *)d->out;
        d->z.avail_out = sizeof(d->out);
        int r = deflate(&d->z, flush);
        if (r == Z_STREAM_ERROR)
            return mr_error(MR_INTERNAL, "deflate() failed with error %d", r);
        MR_TRY(mr_writer_write(d->file, d->out, sizeof(d->out) - d->z.avail_out));
    } while (d->z.avail_out == 0);
    return NULL;
}

mr_status *mr_deflater_write(mr_deflater *d, const void *p, size_t n)
{
    for (size_t part; n > 0; n -= part, p = (const char *)p + part) {
        part = MR_MIN(n, (size_t)1 << 30); /* zlib counts in 32 bits */
        d->z.next_in = (Bytef *)p;
        d->z.avail_in = (uInt)part;
        MR_TRY(pump_deflate(d, Z_NO_FLUSH));
    }
    return NULL;
}

mr_status *mr_deflater_flush(mr_deflater *d) { return pump_deflate(d, Z_SYNC_FLUSH); }

mr_status *mr_deflater_finish(mr_deflater *d) { return pump_deflate(d, Z_FINISH); }

void mr_deflater_free(mr_deflater *d)
{
    if (!d)
        return;
    if (d->open)
        deflateEnd(&d->z);
    mr_free(d);
}
