/* ops/data/files.c -- elements from files: TFRecordDataset, TextLineDataset, FixedLengthRecordDataset,
 * MatchingFilesDataset.
 *
 * One stream at a time (store/stream.h), file after file; no length in a file determines the size of an allocation. */
#include <glob.h>

#include "base/memory.h"
#include "ops/data/dataset.h"
#include "store/record.h"

#define STATEFUL (MR_STATEFUL | MR_NO_GRADIENT)

typedef struct files {
    mr_dataset base;
    mr_tensor *names, *offsets; /* held; offsets NULL: from the beginning */
    mr_compression compression;
    size_t buffer;
    int64_t header, record, footer; /* sizes of files with records of one length */
} files;

typedef struct reading {
    mr_iterator base;
    int64_t file; /* index of the file that is open, or comes next */
    mr_stream *stream;
    mr_record_reader *records;
    uint64_t end; /* end of the records of the open file; fixed lengths */
    mr_str line;
} reading;

static void close_file(reading *p)
{
    mr_stream_close(p->stream);
    mr_record_reader_close(p->records);
    p->stream = NULL;
    p->records = NULL;
    p->file++;
}

static void reading_close(mr_iterator *it)
{
    reading *p = (reading *)it;
    mr_stream_close(p->stream);
    mr_record_reader_close(p->records);
    mr_str_deinit(&p->line);
}

static mr_status *give_string(mr_sv text, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(NULL, MR_STRING, 0, NULL, out));
    return mr_tensor_set_str(*out, 0, text);
}

static mr_status *name_of(const files *d, int64_t i, char **out)
{
    mr_sv name = mr_tensor_str_at(d->names, i);
    if (memchr(name.p, '\0', name.n))
        return mr_error(MR_NOT_FOUND, "A file name contains a NUL byte");
    *out = mr_strndup(name.p, name.n);
    return NULL;
}

/* ---- lines ---- */

static mr_status *open_stream(reading *p, const files *d)
{
    char *name;
    MR_TRY(name_of(d, p->file, &name));
    mr_status *st = mr_stream_open(name, d->compression, d->buffer, &p->stream);
    mr_free(name);
    return st;
}

static bool has_line(const mr_stream *s)
{
    mr_sv there = s ? mr_stream_buffered(s) : (mr_sv){0};
    return there.n > 0 && memchr(there.p, '\n', there.n);
}

/* If a file cannot be opened, the next call skips it. */
static mr_status *text_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const files *d = (files *)it->dataset;
    reading *p = (reading *)it;
    if (mr_iterator_attempt(it) && !has_line(p->stream))
        return mr_give_up(it);
    while (p->file < d->names->n) {
        mr_status *st = p->stream ? NULL : open_stream(p, d);
        if (!st && !(st = mr_stream_line(p->stream, &p->line)))
            return give_string(mr_str_view(&p->line), &out[0]);
        close_file(p);
        if (mr_status_code(st) != MR_OUT_OF_RANGE)
            return st;
        mr_status_free(st);
    }
    *end = true;
    return NULL;
}

static const mr_dataset_kind text_kind = {"TextLine", sizeof(files), sizeof(reading), NULL, text_next, reading_close, .tries = true};

/* names: input 0, a scalar or a vector. */
static mr_status *new_files(mr_run *r, const mr_dataset_kind *k, int compression, int buffer, files **out)
{
    const mr_tensor *names = mr_in(r, 0);
    int64_t bytes;
    mr_compression c = MR_UNCOMPRESSED;
    if (names->rank > 1)
        return mr_invalid("`filenames` must be a scalar or a vector.");
    if (compression >= 0) {
        const mr_tensor *t = mr_in(r, compression);
        if (t->rank != 0)
            return mr_invalid("`compression_type` must be a scalar");
        if (!mr_compression_parse(mr_tensor_str_at(t, 0), &c))
            return mr_invalid("Unsupported compression_type.");
    }
    MR_TRY(mr_in_scalar_int(r, buffer, "buffer_size", &bytes));
    if (bytes < 0)
        return mr_invalid("`buffer_size` must be >= 0 (0 == default)");
    MR_TRY(mr_dataset_new(r, k, 0, 0, out));
    files *d = *out;
    const mr_pshape *scalar = &mr_pshape_scalar;
    mr_dataset_set_types(&d->base, 1, (int[]){MR_STRING}, &scalar);
    d->names = mr_dataset_keep(&d->base, mr_in(r, 0));
    d->compression = c;
    d->buffer = (size_t)MR_MIN(bytes, (int64_t)MR_STREAM_BUFFER); /* a larger buffer is not faster */
    return NULL;
}

static mr_status *text_dataset(mr_run *r)
{
    files *d;
    MR_TRY(new_files(r, &text_kind, 1, 2, &d));
    return mr_dataset_give(r, d, NULL);
}

MR_OP(TextLineDataset,
    .doc     = "the lines of files, without their ends",
    .sig     = "filenames: string, compression_type: string, buffer_size: int64 -> handle: variant",
    .attrs   = "metadata: string = ''",
    .flags   = STATEFUL, MR_DATASET(text_dataset),
    .examples = MR_EXAMPLES("[\"a\", \"b\"], \"\", 0 -> shape()", "\"a\", \"LZ\", 0 -> !INVALID_ARGUMENT Unsupported compression_type.",
                            "\"a\", \"\", -1 -> !INVALID_ARGUMENT `buffer_size` must be >= 0",
                            "[[\"a\"]], \"\", 0 -> !INVALID_ARGUMENT"));

/* ---- records ---- */

static mr_status *open_records(reading *p, const files *d)
{
    char *name;
    MR_TRY(name_of(d, p->file, &name));
    mr_status *st = mr_record_reader_open(name, d->compression, d->buffer, &p->records);
    if (!st && d->offsets)
        st = mr_record_seek(p->records, (uint64_t)MR_DATA(int64_t, d->offsets)[p->file]);
    mr_free(name);
    return st;
}

static mr_status *record_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const files *d = (files *)it->dataset;
    reading *p = (reading *)it;
    if (mr_iterator_attempt(it) && !(p->records && mr_record_is_buffered(p->records)))
        return mr_give_up(it);
    while (p->file < d->names->n) {
        mr_sv record;
        mr_status *st = p->records ? NULL : open_records(p, d);
        if (!st && !(st = mr_record_view(p->records, &p->line, &record)))
            return give_string(record, &out[0]);
        close_file(p);
        if (mr_status_code(st) != MR_OUT_OF_RANGE)
            return st;
        mr_status_free(st);
    }
    *end = true;
    return NULL;
}

static const mr_dataset_kind record_kind = {"TFRecord", sizeof(files), sizeof(reading), NULL, record_next, reading_close, .tries = true};

static mr_status *read_offsets(mr_run *r, files *d)
{
    const mr_tensor *t = mr_in(r, 3);
    if (t->rank > 1)
        return mr_invalid("`byte_offsets` must be a scalar or a vector.");
    if (t->n != d->names->n)
        return mr_invalid("`byte_offsets` must be of same size as `filenames`");
    for (int64_t i = 0; i < t->n; i++)
        if (MR_DATA(int64_t, t)[i] < 0)
            return mr_invalid("`byte_offsets` must not be negative");
    d->offsets = mr_dataset_keep(&d->base, mr_in(r, 3));
    return NULL;
}

static mr_status *record_dataset(mr_run *r)
{
    files *d;
    MR_TRY(new_files(r, &record_kind, 1, 2, &d));
    return mr_dataset_give(r, d, r->n_in == 4 ? read_offsets(r, d) : NULL);
}

MR_OP(TFRecordDataset,
    .doc     = "the records of TFRecord files",
    .sig     = "filenames: string, compression_type: string, buffer_size: int64 -> handle: variant",
    .attrs   = "metadata: string = ''",
    .flags   = STATEFUL, MR_DATASET(record_dataset),
    .examples = MR_EXAMPLES("[\"a\", \"b\"], \"GZIP\", 0 -> shape()", "\"a\", \"LZ\", 0 -> !INVALID_ARGUMENT Unsupported compression_type."));

MR_OP(TFRecordDatasetV2,
    .doc     = "the records of TFRecord files, each from a byte on",
    .sig     = "filenames: string, compression_type: string, buffer_size: int64, byte_offsets: int64 -> handle: variant",
    .attrs   = "metadata: string = ''",
    .flags   = STATEFUL, MR_DATASET(record_dataset),
    .examples = MR_EXAMPLES("[\"a\", \"b\"], \"\", 0, [0, 16] -> shape()",
                            "[\"a\", \"b\"], \"\", 0, [0] -> !INVALID_ARGUMENT `byte_offsets` must be of same size as `filenames`"));

/* ---- records of one length ---- */

/* The length of the contents of a compressed file is known only after reading it to its end. */
static mr_status *decompressed_bytes(const char *name, const files *d, uint64_t *out)
{
    mr_stream *s = NULL;
    uint64_t skipped = 0;
    if (d->compression == MR_UNCOMPRESSED)
        return mr_file_size(name, out);
    MR_TRY(mr_stream_open(name, d->compression, d->buffer, &s));
    mr_status *st = mr_stream_skip(s, UINT64_MAX / 2, &skipped);
    if (mr_status_code(st) == MR_OUT_OF_RANGE) {
        mr_status_free(st);
        st = NULL;
    }
    *out = skipped;
    mr_stream_close(s);
    return st;
}

static mr_status *open_fixed(reading *p, const files *d)
{
    char *name;
    uint64_t bytes = 0, around = (uint64_t)d->header + (uint64_t)d->footer;
    MR_TRY(name_of(d, p->file, &name));
    mr_status *st = NULL;
    MR_GO(decompressed_bytes(name, d, &bytes));
    if (bytes < around || (bytes - around) % (uint64_t)d->record != 0)
        MR_GO(mr_invalid("Excluding the header (%lld bytes) and footer (%lld bytes), input file \"%s\" has body length %lld bytes, "
                         "which is not an exact multiple of the record length (%lld bytes).", (long long)d->header,
                         (long long)d->footer, name, (long long)bytes - (long long)around, (long long)d->record));
    p->end = bytes - (uint64_t)d->footer;
    MR_GO(mr_stream_open(name, d->compression, d->buffer, &p->stream));
    MR_GO(mr_stream_seek(p->stream, (uint64_t)d->header));
out:
    mr_free(name);
    return st;
}

static mr_status *read_fixed(reading *p, const files *d, mr_tensor **out)
{
    mr_str_clear(&p->line);
    MR_TRY(mr_stream_append(p->stream, (uint64_t)d->record, &p->line));
    if (p->line.n != (size_t)d->record)
        return mr_error(MR_DATA_LOSS, "File ended inside a record of %lld bytes", (long long)d->record);
    return give_string(mr_str_view(&p->line), out);
}

static mr_status *fixed_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const files *d = (files *)it->dataset;
    reading *p = (reading *)it;
    while (p->file < d->names->n) {
        mr_status *st = p->stream ? NULL : open_fixed(p, d);
        if (!st && mr_stream_offset(p->stream) < p->end && !(st = read_fixed(p, d, &out[0])))
            return NULL;
        close_file(p);
        if (st)
            return st;
    }
    *end = true;
    return NULL;
}

static const mr_dataset_kind fixed_kind = {"FixedLengthRecord", sizeof(files), sizeof(reading), NULL, fixed_next, reading_close};

static mr_status *fixed_dataset(mr_run *r)
{
    files *d;
    int64_t header, record, footer;
    MR_TRY(mr_in_scalar_int(r, 1, "header_bytes", &header));
    MR_TRY(mr_in_scalar_int(r, 2, "record_bytes", &record));
    MR_TRY(mr_in_scalar_int(r, 3, "footer_bytes", &footer));
    if (header < 0)
        return mr_invalid("`header_bytes` must be >= 0");
    if (record <= 0)
        return mr_invalid("`record_bytes` must be > 0");
    if (footer < 0)
        return mr_invalid("`footer_bytes` must be >= 0");
    MR_TRY(new_files(r, &fixed_kind, r->n_in == 6 ? 5 : -1, 4, &d));
    d->header = header;
    d->record = record;
    d->footer = footer;
    return mr_dataset_give(r, d, NULL);
}

MR_OP(FixedLengthRecordDataset,
    .doc     = "records of record_bytes bytes each, between a header and a footer of every file",
    .sig     = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64 -> handle: variant",
    .attrs   = "metadata: string = ''",
    .flags   = STATEFUL, MR_DATASET(fixed_dataset),
    .examples = MR_EXAMPLES("[\"a\"], 0, 4, 0, 0 -> shape()", "[\"a\"], 0, 0, 0, 0 -> !INVALID_ARGUMENT `record_bytes` must be > 0"));

MR_OP(FixedLengthRecordDatasetV2,
    .doc     = "records of record_bytes bytes each, between a header and a footer of every file",
    .sig     = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64, "
               "compression_type: string -> handle: variant",
    .attrs   = "metadata: string = ''",
    .flags   = STATEFUL, MR_DATASET(fixed_dataset),
    .examples = MR_EXAMPLES("[\"a\"], 1, 4, 2, 0, \"ZLIB\" -> shape()", "[\"a\"], -1, 4, 0, 0, \"\" -> !INVALID_ARGUMENT `header_bytes`"));

/* ---- file names ---- */

typedef struct matching {
    mr_iterator base;
    bool begun;
    glob_t found;
    size_t at;
} matching;

/* Matches all patterns, each in order; a name that two patterns match appears twice, as in TensorFlow. */
static mr_status *match_all(matching *m, const files *d)
{
    for (int64_t i = 0; i < d->names->n; i++) {
        char *pattern;
        MR_TRY(name_of(d, i, &pattern));
        int err = glob(mr_path_local(pattern), i > 0 ? GLOB_APPEND : 0, NULL, &m->found);
        mr_free(pattern);
        if (err == GLOB_NOSPACE)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for file names");
    }
    return NULL;
}

static mr_status *matching_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const files *d = (files *)it->dataset;
    matching *m = (matching *)it;
    if (!m->begun) {
        m->begun = true;
        MR_TRY(match_all(m, d));
        if (m->found.gl_pathc == 0 && d->names->n > 0)
            return mr_error(MR_NOT_FOUND, "Don't find any matched files");
    }
    if ((*end = m->at >= m->found.gl_pathc))
        return NULL;
    return give_string(mr_sv_of(m->found.gl_pathv[m->at++]), &out[0]);
}

static void matching_close(mr_iterator *it)
{
    matching *m = (matching *)it;
    if (m->begun && ((files *)it->dataset)->names->n > 0)
        globfree(&m->found);
}

static const mr_dataset_kind matching_kind = {"MatchingFiles", sizeof(files), sizeof(matching), NULL, matching_next, matching_close};

static mr_status *matching_dataset(mr_run *r)
{
    files *d;
    if (mr_in(r, 0)->rank > 1)
        return mr_invalid("`patterns` must be a scalar or a vector.");
    MR_TRY(mr_dataset_new(r, &matching_kind, 0, 0, &d));
    const mr_pshape *scalar = &mr_pshape_scalar;
    mr_dataset_set_types(&d->base, 1, (int[]){MR_STRING}, &scalar);
    d->names = mr_dataset_keep(&d->base, mr_in(r, 0));
    return mr_dataset_give(r, d, NULL);
}

MR_OP(MatchingFilesDataset,
    .doc     = "the names of files that match patterns",
    .sig     = "patterns: string -> handle: variant",
    .flags   = STATEFUL, MR_DATASET(matching_dataset),
    .examples = MR_EXAMPLES("[\"/x/*.txt\"] -> shape()", "[[\"a\"]] -> !INVALID_ARGUMENT `patterns` must be a scalar or a vector."));
