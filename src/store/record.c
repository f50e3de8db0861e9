/* store/record.c -- reads and writes TFRecord files.
 *
 * The reader remembers where the current record begins (`next`). If a read failed half way, the next read seeks back
 * there, so the reader of a file that is still being written can retry later. */
#include "store/record.h"

#include "base/memory.h"
#include "wire/crc32c.h"

struct mr_record_reader {
    mr_stream *in;
    uint64_t next;
};

/* ---- reading ---- */

mr_record_reader *mr_record_reader_new(mr_stream *s)
{
    mr_record_reader *r = mr_new(mr_record_reader);
    r->in = s;
    r->next = mr_stream_offset(s);
    return r;
}

mr_status *mr_record_reader_open(const char *path, mr_compression c, size_t buffer_bytes,
                                 mr_record_reader **out)
{
    mr_stream *s;
    MR_TRY(mr_stream_open(path, c, buffer_bytes, &s));
    *out = mr_record_reader_new(s);
    return NULL;
}

void mr_record_reader_close(mr_record_reader *r)
{
    if (!r)
        return;
    mr_stream_close(r->in);
    mr_free(r);
}

static mr_status *truncated_record(uint64_t at)
{
    return mr_error(MR_DATA_LOSS, "truncated record at %llu", (unsigned long long)at);
}

static mr_status *corrupted_record(uint64_t at)
{
    return mr_error(MR_DATA_LOSS, "corrupted record at %llu", (unsigned long long)at);
}

static bool crc_matches(const void *p, size_t n, const void *masked)
{
    uint32_t stored;
    memcpy(&stored, masked, sizeof(stored));
    return mr_crc32c_unmask(stored) == mr_crc32c(p, n);
}

/* The length of the record at `next`. */
static mr_status *read_length(mr_record_reader *r, uint64_t *n)
{
    char head[MR_RECORD_HEADER];
    size_t got;
    if (mr_stream_offset(r->in) != r->next)
        MR_TRY(mr_stream_seek(r->in, r->next));
    MR_TRY(mr_stream_read(r->in, head, sizeof(head), &got));
    if (got == 0)
        return mr_error(MR_OUT_OF_RANGE, "eof");
    if (got < sizeof(head))
        return truncated_record(r->next);
    if (!crc_matches(head, sizeof(*n), head + sizeof(*n)))
        return corrupted_record(r->next);
    memcpy(n, head, sizeof(*n));
    if (*n > INT64_MAX - MR_RECORD_HEADER - MR_RECORD_FOOTER - r->next)
        return mr_error(MR_DATA_LOSS, "record size too large at %llu", (unsigned long long)r->next);
    return NULL;
}

/* The bytes of the next record, if all of it is in memory; its checksums are not checked. */
static bool find_buffered(const mr_record_reader *r, mr_sv *record)
{
    mr_sv there = mr_stream_buffered(r->in);
    uint64_t n;
    if (mr_stream_offset(r->in) != r->next || there.n < MR_RECORD_HEADER + MR_RECORD_FOOTER)
        return false;
    memcpy(&n, there.p, sizeof(n));
    *record = (mr_sv){there.p + MR_RECORD_HEADER, (size_t)n};
    return n <= there.n - MR_RECORD_HEADER - MR_RECORD_FOOTER;
}

bool mr_record_is_buffered(const mr_record_reader *r)
{
    mr_sv record;
    return find_buffered(r, &record);
}

/* `next` advances only after the whole record has been read and verified. */
mr_status *mr_record_read(mr_record_reader *r, mr_str *record)
{
    uint64_t n;
    mr_str_clear(record);
    MR_TRY(read_length(r, &n));
    MR_TRY(mr_stream_append(r->in, n + MR_RECORD_FOOTER, record));
    if (record->n != n + MR_RECORD_FOOTER)
        return truncated_record(r->next);
    if (!crc_matches(record->p, (size_t)n, record->p + n))
        return corrupted_record(r->next + MR_RECORD_HEADER);
    record->n = (size_t)n;
    record->p[n] = '\0';
    r->next = mr_stream_offset(r->in);
    return NULL;
}

mr_status *mr_record_view(mr_record_reader *r, mr_str *space, mr_sv *record)
{
    mr_sv whole;
    uint64_t n, skipped;
    /* What is damaged, or only partly there, mr_record_read reports. */
    if (find_buffered(r, &whole) && crc_matches(whole.p - MR_RECORD_HEADER, sizeof(n), whole.p - sizeof(uint32_t)) &&
        crc_matches(whole.p, whole.n, whole.p + whole.n)) {
        MR_TRY(mr_stream_skip(r->in, MR_RECORD_HEADER + whole.n + MR_RECORD_FOOTER, &skipped));
        r->next = mr_stream_offset(r->in);
        *record = whole;
        return NULL;
    }
    MR_TRY(mr_record_read(r, space));
    *record = mr_str_view(space);
    return NULL;
}

mr_status *mr_record_skip(mr_record_reader *r, int64_t n, int64_t *skipped)
{
    for (*skipped = 0; *skipped < n; ++*skipped) {
        uint64_t length, passed;
        MR_TRY(read_length(r, &length));
        MR_TRY(mr_stream_skip(r->in, length + MR_RECORD_FOOTER, &passed));
        if (passed != length + MR_RECORD_FOOTER)
            return truncated_record(r->next);
        r->next = mr_stream_offset(r->in);
    }
    return NULL;
}

uint64_t mr_record_offset(const mr_record_reader *r) { return r->next; }

mr_status *mr_record_seek(mr_record_reader *r, uint64_t offset)
{
    r->next = offset; /* the next read seeks */
    return NULL;
}

/* ---- writing ---- */

struct mr_record_writer {
    mr_writer *file;
    mr_deflater *deflater; /* NULL: uncompressed */
};

mr_status *mr_record_writer_new(mr_writer *file, mr_compression c, mr_record_writer **out)
{
    mr_record_writer *w = mr_new(mr_record_writer);
    mr_status *st = NULL;
    w->file = file;
    if (c != MR_UNCOMPRESSED)
        st = mr_deflater_new(file, c, -1, &w->deflater);
    if (st)
        mr_record_writer_free(w);
    else
        *out = w;
    return st;
}

static mr_status *put_bytes(mr_record_writer *w, const void *p, size_t n)
{
    return w->deflater ? mr_deflater_write(w->deflater, p, n) : mr_writer_write(w->file, p, n);
}

mr_status *mr_record_write(mr_record_writer *w, mr_sv record)
{
    char head[MR_RECORD_HEADER];
    uint64_t n = record.n;
    uint32_t crc = mr_crc32c_mask(mr_crc32c(&n, sizeof(n)));
    memcpy(head, &n, sizeof(n));
    memcpy(head + sizeof(n), &crc, sizeof(crc));
    MR_TRY(put_bytes(w, head, sizeof(head)));
    MR_TRY(put_bytes(w, record.p, record.n));
    crc = mr_crc32c_mask(mr_crc32c(record.p, record.n));
    return put_bytes(w, &crc, sizeof(crc));
}

mr_status *mr_record_flush(mr_record_writer *w)
{
    if (w->deflater)
        MR_TRY(mr_deflater_flush(w->deflater));
    return mr_writer_flush(w->file);
}

mr_status *mr_record_finish(mr_record_writer *w)
{
    return w->deflater ? mr_deflater_finish(w->deflater) : NULL;
}

void mr_record_writer_free(mr_record_writer *w)
{
    if (!w)
        return;
    mr_deflater_free(w->deflater);
    mr_free(w);
}
