/* ops/data/csv.c -- records of comma-separated values in files: CSVDataset, CSVDatasetV2.
 *
 * A record ends with a line, but not inside quotes; ops/parse/csv.h splits it into fields. */
#include "base/memory.h"
#include "ops/data/dataset.h"
#include "ops/parse/csv.h"
#include "ops/string/strings.h"
#include "store/stream.h"

enum { CHUNK = 4096 };

typedef struct csv_files {
    mr_dataset base;
    mr_tensor *names;     /* held */
    mr_tensor **defaults; /* held, one per column */
    mr_compression compression;
    mr_csv csv;
    mr_sv na;
    bool header;
    int n_exclude;
    const int64_t *exclude; /* ascending */
} csv_files;

typedef struct csv_reading {
    mr_iterator base;
    int64_t file, line; /* number of the record in the file, for errors */
    mr_stream *stream;
    char buf[CHUNK];
    size_t at, n;
    mr_str record;
    mr_csv_fields fields;
} csv_reading;

/* ---- records ---- */

static mr_status *next_char(csv_reading *p, int *out)
{
    if (p->at == p->n) {
        p->at = 0;
        MR_TRY(mr_stream_read(p->stream, p->buf, CHUNK, &p->n));
    }
    *out = p->at < p->n ? (unsigned char)p->buf[p->at++] : -1;
    return NULL;
}

/* Reads a record without its line end; *end: the file has no more. */
static mr_status *read_record(csv_reading *p, bool quotes, bool *end)
{
    bool inside = false, any = false;
    mr_str_clear(&p->record);
    for (;;) {
        int c;
        MR_TRY(next_char(p, &c));
        if (c < 0) {
            *end = !any;
            return NULL;
        }
        any = true;
        if (c == '"' && quotes)
            inside = !inside;
        if (c == '\n' && !inside)
            break;
        char byte = (char)c;
        if (!mr_str_try_append(&p->record, &byte, 1))
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a record");
    }
    if (p->record.n > 0 && p->record.p[p->record.n - 1] == '\r')
        p->record.p[--p->record.n] = '\0';
    p->line++;
    *end = false;
    return NULL;
}

static mr_status *open_file(csv_reading *p, const csv_files *d)
{
    mr_sv name = mr_tensor_str_at(d->names, p->file);
    bool end = false;
    if (memchr(name.p, '\0', name.n))
        return mr_error(MR_NOT_FOUND, "A file name contains a NUL byte");
    char *path = mr_strndup(name.p, name.n);
    mr_status *st = mr_stream_open(path, d->compression, 0, &p->stream);
    mr_free(path);
    p->at = p->n = 0;
    p->line = 0;
    if (!st && d->header)
        st = read_record(p, d->csv.quotes, &end);
    return st;
}

static void close_file(csv_reading *p)
{
    mr_stream_close(p->stream);
    p->stream = NULL;
    p->file++;
}

/* ---- fields ---- */

static bool is_excluded(const csv_files *d, int i)
{
    for (int k = 0; k < d->n_exclude; k++)
        if (d->exclude[k] == i)
            return true;
    return false;
}

static mr_status *give_field(const csv_files *d, int k, mr_sv field, mr_tensor **out)
{
    const mr_tensor *deflt = d->defaults[k];
    MR_TRY(mr_tensor_new(NULL, (mr_dtype)d->base.types[k], 0, NULL, out));
    if (field.n == 0 || mr_sv_eq(field, d->na))
        return deflt->n == 1 ? mr_tensor_try_copy_elements(*out, 0, deflt, 0, 1)
                             : mr_invalid("Field %d is required but missing in record!", k);
    if ((*out)->dtype == MR_STRING)
        return mr_tensor_set_str(*out, 0, field);
    if (mr_string_to_number(field, *out, 0))
        return NULL;
    return mr_invalid("Field %d in record is not a valid %s: %.*s", k, mr_dtype_name((*out)->dtype),
                      (int)MR_MIN(field.n, 200), field.p);
}

static mr_status *give_record(csv_reading *p, const csv_files *d, mr_tensor **out)
{
    int at = 0;
    MR_TRY(mr_csv_split(&d->csv, mr_str_view(&p->record), &p->fields));
    if (p->record.n == 0 && d->base.n == 1 && p->fields.ends.n == 0) /* one column, which is empty */
        return give_field(d, 0, MR_SV(""), &out[0]);
    for (int i = 0; i < p->fields.ends.n; i++) {
        if (is_excluded(d, i))
            continue;
        if (at < d->base.n)
            MR_TRY(give_field(d, at, mr_csv_field(&p->fields, i), &out[at]));
        at++;
    }
    return at == d->base.n ? NULL : mr_invalid("Expect %d fields but have %d in record", d->base.n, at);
}

static mr_status *csv_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const csv_files *d = (csv_files *)it->dataset;
    csv_reading *p = (csv_reading *)it;
    while (p->file < d->names->n) {
        bool ended = false;
        mr_status *st = p->stream ? NULL : open_file(p, d);
        if (!st)
            st = read_record(p, d->csv.quotes, &ended);
        if (!st && !ended)
            return give_record(p, d, out);
        close_file(p);
        if (st)
            return st;
    }
    *end = true;
    return NULL;
}

static void csv_close(mr_iterator *it)
{
    csv_reading *p = (csv_reading *)it;
    mr_stream_close(p->stream);
    mr_str_deinit(&p->record);
    mr_csv_fields_deinit(&p->fields);
}

static const mr_dataset_kind csv_kind = {"CSV", sizeof(csv_files), sizeof(csv_reading), NULL, csv_next, csv_close};

/* ---- creating the dataset ---- */

static mr_status *scalar_text(mr_run *r, int i, const char *what, mr_sv *out)
{
    if (mr_in(r, i)->rank != 0)
        return mr_invalid("`%s` must be a scalar", what);
    *out = mr_tensor_str_at(mr_in(r, i), 0);
    return NULL;
}

static mr_status *read_columns(mr_run *r, csv_files *d, int i, const char *what, int *n, const int64_t **out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 1)
        return mr_invalid("`%s` must be a vector", what);
    if (t->n > INT32_MAX)
        return mr_invalid("`%s` is too long", what);
    for (int64_t k = 0; k < t->n; k++) {
        int64_t v = MR_DATA(int64_t, t)[k];
        if (v < 0)
            return mr_invalid("%s should be non-negative indices", what);
        if (k > 0 && v <= MR_DATA(int64_t, t)[k - 1])
            return mr_invalid("%s should be strictly increasing indices", what);
    }
    *n = (int)t->n;
    *out = MR_DATA(int64_t, mr_dataset_keep(&d->base, mr_in(r, i)));
    return NULL;
}

static mr_status *read_defaults(mr_run *r, csv_files *d)
{
    int first, n;
    MR_TRY(mr_node_in_range(r->node, "record_defaults", &first, &n));
    d->defaults = mr_arena_array(&d->base.arena, mr_tensor *, n + 1);
    for (int i = 0; i < n; i++) {
        const mr_tensor *t = mr_in(r, first + i);
        if (t->rank > 1)
            return mr_invalid("Each record default should be at most rank 1");
        if (t->n > 1)
            return mr_invalid("There should only be 1 default per field but field %d has %lld", i, (long long)t->n);
        d->defaults[i] = mr_dataset_keep(&d->base, mr_in(r, first + i));
    }
    if (d->csv.n_cols != 0 && d->csv.n_cols != n)
        return mr_invalid("select_cols should match output size");
    return NULL;
}

static mr_status *read_inputs(mr_run *r, csv_files *d)
{
    mr_sv text;
    int64_t bytes;
    if (mr_in(r, 0)->rank > 1)
        return mr_invalid("`filenames` must be a scalar or a vector.");
    MR_TRY(scalar_text(r, 1, "compression_type", &text));
    if (!mr_compression_parse(text, &d->compression))
        return mr_invalid("Unsupported compression_type: %.*s", (int)MR_MIN(text.n, 100), text.p);
    MR_TRY(mr_in_scalar_int(r, 2, "buffer_size", &bytes));
    if (bytes <= 0)
        return mr_invalid("buffer_size should be positive");
    MR_TRY(mr_in_scalar_bool(r, 3, "header", &d->header));
    MR_TRY(scalar_text(r, 4, "field_delim", &text));
    if (text.n != 1)
        return mr_invalid("field_delim should be only 1 char");
    d->csv.delim = text.p[0];
    MR_TRY(mr_in_scalar_bool(r, 5, "use_quote_delim", &d->csv.quotes));
    MR_TRY(scalar_text(r, 6, "na_value", &text));
    d->na = (mr_sv){mr_arena_strndup(&d->base.arena, text.p, text.n), text.n};
    MR_TRY(read_columns(r, d, 7, "select_cols", &d->csv.n_cols, &d->csv.cols));
    if (mr_op_def_input(r->node->def, "exclude_cols") >= 0)
        MR_TRY(read_columns(r, d, r->n_in - 1, "exclude_cols", &d->n_exclude, &d->exclude));
    if (d->csv.n_cols > 0 && d->n_exclude > 0)
        return mr_invalid("Either select_cols or exclude_cols should be empty");
    d->names = mr_dataset_keep(&d->base, mr_in(r, 0));
    return read_defaults(r, d);
}

static mr_status *csv_dataset(mr_run *r)
{
    csv_files *d;
    MR_TRY(mr_dataset_new(r, &csv_kind, 0, 0, &d));
    mr_dataset_say_types(&d->base, r->state);
    return mr_dataset_give(r, d, read_inputs(r, d));
}

#define INPUTS "filenames: string, compression_type: string, buffer_size: int64, header: bool, field_delim: string, " \
               "use_quote_delim: bool, na_value: string, select_cols: int64, record_defaults: output_types"
#define ATTRS "output_types: list({float, double, int32, int64, string}) >= 1; output_shapes: list(shape) >= 1"
#define E(compression, size, delim, cols) \
    "output_types=[float] output_shapes=[[]]: [\"a\"], \"" compression "\", " size ", true, \"" delim "\", true, \"\", " cols ", (float shape(0))"

MR_OP(CSVDataset,
    .doc     = "the records of files of comma-separated values",
    .sig     = INPUTS " -> handle: variant",
    .attrs   = ATTRS,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT, MR_DATASET(csv_dataset),
    .examples = MR_EXAMPLES(E("", "100", ",", "shape(0)") " -> shape()", E("GZIP", "100", ";", "[3]") " -> shape()",
                            E("LZ", "100", ",", "shape(0)") " -> !INVALID_ARGUMENT Unsupported compression_type",
                            E("", "0", ",", "shape(0)") " -> !INVALID_ARGUMENT buffer_size should be positive",
                            E("", "100", ",", "[1, 0]") " -> !INVALID_ARGUMENT strictly increasing",
                            E("", "100", ",", "[1, 2]") " -> !INVALID_ARGUMENT select_cols should match output size"));

MR_OP(CSVDatasetV2,
    .doc     = "the records of files of comma-separated values, without some columns",
    .sig     = INPUTS ", exclude_cols: int64 -> handle: variant",
    .attrs   = ATTRS,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT, MR_DATASET(csv_dataset),
    .examples = MR_EXAMPLES(E("", "100", ",", "shape(0)") ", [1] -> shape()",
                            E("", "100", ",", "[1]") ", [1] -> !INVALID_ARGUMENT Either select_cols or exclude_cols should be empty"));
