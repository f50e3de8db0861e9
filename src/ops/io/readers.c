/* ops/io/readers.c -- the kinds of readers, and the ops that create them: TFRecordReader, TextLineReader,
 * WholeFileReader, FixedLengthRecordReader, LMDBReader, IdentityReader.
 *
 * A record's key is its file and its position: the offset of a record, the number of a line (from 1) or of a record
 * of fixed length (from 0); for whole files only the name. The records of LMDB files have their own keys. */
#include "base/file.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/io/reader.h"

static void put_key(const mr_reader_work *w, mr_str *key, uint64_t n)
{
    mr_str_printf(key, "%s:%llu", w->name, (unsigned long long)n);
}

/* The end of a file is the end of a work, not an error. */
static mr_status *end_is_fine(mr_status *st, bool *at_end)
{
    *at_end = mr_status_code(st) == MR_OUT_OF_RANGE;
    if (*at_end)
        mr_status_free(st);
    return *at_end ? NULL : st;
}

/* ---- records ---- */

static mr_status *record_begin(mr_reader_work *w)
{
    return mr_record_reader_open(w->name, w->spec->compression, 0, &w->records);
}

static mr_status *record_next(mr_reader_work *w, mr_str *key, mr_str *value, bool *at_end)
{
    put_key(w, key, mr_record_offset(w->records));
    return end_is_fine(mr_record_read(w->records, value), at_end);
}

static const mr_reader_kind records = {"TFRecordReader", record_begin, record_next, false};

/* ---- lines ---- */

static mr_status *line_begin(mr_reader_work *w)
{
    mr_str line = {0};
    bool at_end = false;
    mr_status *st = mr_stream_open(w->name, MR_UNCOMPRESSED, 0, &w->in);
    for (; !st && !at_end && w->n < w->spec->skip_lines; w->n++)
        st = end_is_fine(mr_stream_line(w->in, &line), &at_end);
    mr_str_deinit(&line);
    return st;
}

static mr_status *line_next(mr_reader_work *w, mr_str *key, mr_str *value, bool *at_end)
{
    MR_TRY(end_is_fine(mr_stream_line(w->in, value), at_end));
    put_key(w, key, (uint64_t)++w->n); /* lines are counted from 1, including skipped ones */
    return NULL;
}

static const mr_reader_kind lines = {"TextLineReader", line_begin, line_next, false};

/* ---- whole files, and names ----
 *
 * The work is one record; `done` means that it was delivered. */

static mr_status *nothing_to_begin(mr_reader_work *w)
{
    (void)w;
    return NULL;
}

static mr_status *whole_next(mr_reader_work *w, mr_str *key, mr_str *value, bool *at_end)
{
    *at_end = w->done;
    if (w->done)
        return NULL;
    w->done = true;
    mr_str_appendz(key, w->name);
    return mr_file_read_all(w->name, value);
}

static mr_status *identity_next(mr_reader_work *w, mr_str *key, mr_str *value, bool *at_end)
{
    *at_end = w->done;
    if (w->done)
        return NULL;
    w->done = true;
    mr_str_append(key, w->name, w->name_bytes);
    mr_str_append(value, w->name, w->name_bytes);
    return NULL;
}

static const mr_reader_kind whole = {"WholeFileReader", nothing_to_begin, whole_next, true};
static const mr_reader_kind identity = {"IdentityReader", nothing_to_begin, identity_next, true};

/* ---- records of a fixed length ----
 *
 * Record i is at header + i * hop. The footer is at the end, so bytes are a record only if a whole footer follows
 * them: it is read ahead. */

static mr_status *fixed_begin(mr_reader_work *w)
{
    uint64_t skipped;
    MR_TRY(mr_stream_open(w->name, w->spec->compression, 0, &w->in));
    return mr_stream_skip(w->in, (uint64_t)w->spec->header_bytes, &skipped);
}

/* Drops n bytes of the data that was read ahead, or skips in the file. */
static mr_status *skip_bytes(mr_reader_work *w, uint64_t n)
{
    uint64_t skipped;
    if (n > w->ahead.n) {
        n -= w->ahead.n;
        mr_str_clear(&w->ahead);
        return mr_stream_skip(w->in, n, &skipped);
    }
    memmove(w->ahead.p, w->ahead.p + n, w->ahead.n - (size_t)n);
    w->ahead.n -= (size_t)n;
    return NULL;
}

static mr_status *fixed_next(mr_reader_work *w, mr_str *key, mr_str *value, bool *at_end)
{
    const mr_reader_spec *s = w->spec;
    uint64_t need = (uint64_t)s->record_bytes + (uint64_t)s->footer_bytes;
    if (w->n > 0)
        MR_TRY(skip_bytes(w, (uint64_t)s->hop_bytes));
    if (w->ahead.n < need)
        MR_TRY(mr_stream_append(w->in, need - w->ahead.n, &w->ahead));
    *at_end = w->ahead.n < need;
    if (*at_end)
        return NULL;
    put_key(w, key, (uint64_t)w->n++);
    if (!mr_str_try_append(value, w->ahead.p, (size_t)s->record_bytes))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a record of %lld bytes",
                        (long long)s->record_bytes);
    return NULL;
}

static const mr_reader_kind fixed = {"FixedLengthRecordReader", fixed_begin, fixed_next, false};

/* ---- records of LMDB files ---- */

static mr_status *lmdb_begin(mr_reader_work *w) { return mr_lmdb_open(w->name, &w->lmdb); }

static mr_status *lmdb_next(mr_reader_work *w, mr_str *key, mr_str *value, bool *at_end)
{
    mr_sv k, v;
    MR_TRY(mr_lmdb_next(w->lmdb, &k, &v, at_end));
    if (*at_end)
        return NULL;
    if (!mr_str_try_append(key, k.p, k.n) || !mr_str_try_append(value, v.p, v.n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a record of %zu bytes", v.n);
    return NULL;
}

static const mr_reader_kind lmdb = {"LMDBReader", lmdb_begin, lmdb_next, false};

/* ---- the ops that create readers ---- */

typedef struct state {
    mr_named named;
    const mr_reader_kind *kind;
    mr_reader_spec spec;
    char *node; /* its name */
} state;

static mr_status *init_named(mr_make *m, state *s, const mr_reader_kind *kind)
{
    s->kind = kind;
    s->node = mr_strdup(m->node->name);
    return mr_named_init(&s->named, m, &mr_reader_type);
}

static mr_status *get_compression(const mr_make *m, const char *attr, mr_compression *out)
{
    mr_sv name;
    MR_TRY(mr_node_get_str(m->node, attr, &name));
    return mr_compression_parse(name, out)
               ? NULL
               : mr_invalid("Unsupported %s:%.*s", attr, MR_SV_ARG(name));
}

static mr_status *init_records(mr_make *m, void *p)
{
    state *s = p;
    MR_TRY(init_named(m, s, &records));
    return get_compression(m, "compression_type", &s->spec.compression);
}

static mr_status *init_lines(mr_make *m, void *p)
{
    state *s = p;
    MR_TRY(init_named(m, s, &lines));
    MR_TRY(mr_node_get_int(m->node, "skip_header_lines", &s->spec.skip_lines));
    return s->spec.skip_lines >= 0 ? NULL
                                   : mr_invalid("skip_header_lines must be >= 0 not %lld",
                                                (long long)s->spec.skip_lines);
}

static mr_status *init_whole(mr_make *m, void *p) { return init_named(m, p, &whole); }
static mr_status *init_identity(mr_make *m, void *p) { return init_named(m, p, &identity); }
static mr_status *init_lmdb(mr_make *m, void *p) { return init_named(m, p, &lmdb); }

static mr_status *get_bytes(const mr_make *m, const char *attr, int64_t min, int64_t *out)
{
    MR_TRY(mr_node_get_int(m->node, attr, out));
    return *out >= min ? NULL
                       : mr_invalid("%s must be >= %lld not %lld", attr, (long long)min,
                                    (long long)*out);
}

static mr_status *init_fixed(mr_make *m, void *p)
{
    state *s = p;
    mr_reader_spec *f = &s->spec;
    MR_TRY(init_named(m, s, &fixed));
    MR_TRY(get_bytes(m, "header_bytes", 0, &f->header_bytes));
    MR_TRY(get_bytes(m, "record_bytes", 1, &f->record_bytes));
    MR_TRY(get_bytes(m, "footer_bytes", 0, &f->footer_bytes));
    MR_TRY(get_bytes(m, "hop_bytes", 0, &f->hop_bytes));
    if (f->hop_bytes == 0)
        f->hop_bytes = f->record_bytes;
    return mr_node_attr(m->node, "encoding") ? get_compression(m, "encoding", &f->compression) : NULL;
}

static void deinit_reader(void *p)
{
    state *s = p;
    mr_named_deinit(&s->named);
    mr_free(s->node);
}

static mr_status *make_reader(void *ctx, mr_object **out)
{
    const state *s = ctx;
    *out = (mr_object *)mr_reader_new(s->kind, &s->spec, s->node);
    return NULL;
}

static mr_status *reader_op(mr_run *r)
{
    state *s = r->state;
    mr_object *o;
    MR_TRY(mr_named_open(&s->named, make_reader, s, &o));
    mr_object_unref(o);
    mr_named_give(&s->named, r);
    return NULL;
}

/* A reference to two strings, or a handle. */
static mr_status *pair_shape(mr_infer *c)
{
    mr_infer_out_vector(c, 0, 2);
    return NULL;
}

#define MAKES(init_, type, shape_)                                                               \
    .sig = "-> reader_handle: " type, .shape = shape_,                                           \
    .kernels = MR_KERNELS(MR_CPU_ANY(reader_op)), .flags = MR_STATEFUL | MR_NO_GRADIENT,         \
    .state_bytes = sizeof(state), .init = init_, .deinit = deinit_reader
#define NEW(init_) MAKES(init_, "resource", mr_shape_scalar)
#define OLD(init_) MAKES(init_, "Ref(string)", pair_shape)
#define NAMES "container: string = \"\"; shared_name: string = \"\""
#define USE(Name) .deprecated = 26, .deprecation = "Use " Name "V2"

MR_OP(TFRecordReaderV2,
    .doc      = "a reader of TFRecord files",
    NEW(init_records), .attrs = NAMES "; compression_type: string = \"\"",
    .examples = MR_EXAMPLES("-> shape()", "compression_type=\"ZLIB\": -> shape()",
                            "compression_type=\"RAR\": -> !INVALID_ARGUMENT Unsupported "
                            "compression_type:RAR"));
MR_OP(TFRecordReader,
    .doc      = "the older form of TFRecordReaderV2",
    OLD(init_records), .attrs = NAMES "; compression_type: string = \"\"", USE("TFRecordReader"),
    .examples = MR_EXAMPLES("-> shape(2)"));

#define LINE_ATTRS "skip_header_lines: int = 0; " NAMES
MR_OP(TextLineReaderV2,
    .doc      = "a reader of the lines of files",
    NEW(init_lines), .attrs = LINE_ATTRS,
    .examples = MR_EXAMPLES("-> shape()", "skip_header_lines=-1: -> !INVALID_ARGUMENT "
                                          "skip_header_lines must be >= 0 not -1"));
MR_OP(TextLineReader,
    .doc      = "the older form of TextLineReaderV2",
    OLD(init_lines), .attrs = LINE_ATTRS, USE("TextLineReader"),
    .examples = MR_EXAMPLES("-> shape(2)"));

MR_OP(WholeFileReaderV2,
    .doc      = "a reader of whole files",
    NEW(init_whole), .attrs = NAMES, .examples = MR_EXAMPLES("-> shape()"));
MR_OP(WholeFileReader,
    .doc      = "the older form of WholeFileReaderV2",
    OLD(init_whole), .attrs = NAMES, .examples = MR_EXAMPLES("-> shape(2)"));

#define FIXED_ATTRS                                                                              \
    "header_bytes: int = 0; record_bytes: int; footer_bytes: int = 0; hop_bytes: int = 0; " NAMES
MR_OP(FixedLengthRecordReaderV2,
    .doc      = "a reader of records of a fixed length",
    NEW(init_fixed), .attrs = FIXED_ATTRS "; encoding: string = \"\"",
    .examples = MR_EXAMPLES("record_bytes=4: -> shape()",
                            "record_bytes=0: -> !INVALID_ARGUMENT record_bytes must be >= 1 not 0",
                            "record_bytes=1 encoding=\"RAR\": -> !INVALID_ARGUMENT Unsupported "
                            "encoding:RAR"));
MR_OP(FixedLengthRecordReader,
    .doc      = "the older form of FixedLengthRecordReaderV2",
    OLD(init_fixed), .attrs = FIXED_ATTRS, USE("FixedLengthRecordReader"),
    .examples = MR_EXAMPLES("record_bytes=4: -> shape(2)"));

MR_OP(LMDBReader,
    .doc      = "a reader of the keys and values of LMDB files",
    OLD(init_lmdb), .attrs = NAMES, .examples = MR_EXAMPLES("-> shape(2)"));

MR_OP(IdentityReaderV2,
    .doc      = "a reader that gives the names themselves",
    NEW(init_identity), .attrs = NAMES, .examples = MR_EXAMPLES("-> shape()"));
MR_OP(IdentityReader,
    .doc      = "the older form of IdentityReaderV2",
    OLD(init_identity), .attrs = NAMES, USE("IdentityReader"),
    .examples = MR_EXAMPLES("-> shape(2)"));
