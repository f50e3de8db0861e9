/* ops/table/initialize_file.c -- InitializeTableFromTextFile: a table from the lines of a file.
 *
 * Keys and values are each the whole line, its number, or a column of it.  Lines are read in pieces of
 * a few thousand, so that neither the file nor the table is in memory twice. */
#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/table/table.h"

enum {
    WHOLE_LINE = -2,
    LINE_NUMBER = -1,
    LINES_A_PIECE = 4096,
    MAX_LINE = 1 << 28 /* bytes; a file such as /dev/zero has no line ends */
};

typedef struct layout {
    int64_t key_index, value_index, vocab_size, offset;
    char delimiter;
} layout;

static mr_status *init_layout(mr_make *m, void *p)
{
    layout *l = p;
    mr_sv delimiter;
    MR_TRY(mr_node_get_int(m->node, "key_index", &l->key_index));
    MR_TRY(mr_node_get_int(m->node, "value_index", &l->value_index));
    MR_TRY(mr_node_get_int(m->node, "vocab_size", &l->vocab_size));
    MR_TRY(mr_node_get_int(m->node, "offset", &l->offset));
    MR_TRY(mr_node_get_str(m->node, "delimiter", &delimiter));
    if (delimiter.n != 1)
        return mr_invalid("delimiter should be only 1 char");
    l->delimiter = delimiter.p[0];
    return NULL;
}

typedef struct reading {
    const layout *l;
    const char *path;
    mr_source file;
    char piece[16 << 10]; /* a piece of the file, of which bytes at..end are not yet used */
    size_t at, end;
    mr_str line; /* without its line end */
    int64_t lines; /* read so far */
    mr_dtype key, value;
    bool ended;
} reading;

/* ---- one field ---- */

static mr_status *bad_field(const reading *r, mr_sv s, mr_dtype t)
{
    return mr_invalid("Field %.*s in line %lld is not a valid %s.", (int)MR_MIN(s.n, 200), s.p,
                      (long long)r->lines, mr_dtype_name(t));
}

static mr_status *read_real(const reading *r, mr_sv s, mr_tensor *out, int64_t i)
{
    char text[64], *end = NULL;
    double v = 0;
    s = mr_sv_trim(s);
    if (s.n > 0 && s.n < sizeof text) {
        memcpy(text, s.p, s.n);
        text[s.n] = '\0';
        v = out->dtype == MR_FLOAT ? (double)strtof(text, &end) : strtod(text, &end);
    }
    if (!end || *end)
        return bad_field(r, s, out->dtype);
    if (out->dtype == MR_FLOAT)
        MR_DATA(float, out)[i] = (float)v;
    else
        MR_DATA(double, out)[i] = v;
    return NULL;
}

static mr_status *read_whole(const reading *r, mr_sv s, mr_tensor *out, int64_t i)
{
    int64_t v;
    bool narrow = out->dtype == MR_INT32;
    if (!mr_sv_to_i64(mr_sv_trim(s), &v) || (narrow && (v < INT32_MIN || v > INT32_MAX)))
        return bad_field(r, s, out->dtype);
    if (narrow)
        MR_DATA(int32_t, out)[i] = (int32_t)v;
    else
        MR_DATA(int64_t, out)[i] = v;
    return NULL;
}

static mr_status *read_field(const reading *r, mr_sv s, mr_tensor *out, int64_t i)
{
    switch (out->dtype) {
    case MR_STRING: return mr_tensor_set_str(out, i, s);
    case MR_INT32:
    case MR_INT64: return read_whole(r, s, out, i);
    case MR_FLOAT:
    case MR_DOUBLE: return read_real(r, s, out, i);
    default:
        return mr_invalid("Data type %s not supported.", mr_dtype_name(out->dtype));
    }
}

/* Finds column `index` of a line. */
static mr_status *find_column(const reading *r, mr_sv line, int64_t index, mr_sv *out)
{
    mr_sv rest = line;
    int64_t n = 0;
    while (mr_sv_cut(&rest, r->l->delimiter, out))
        if (n++ == index)
            return NULL;
    return mr_invalid("Invalid number of columns in %s line %lld (%.*s) : expected at least %lld got "
                      "%lld", r->path, (long long)r->lines, (int)MR_MIN(line.n, 200), line.p,
                      (long long)MR_MAX(r->l->key_index, r->l->value_index) + 1, (long long)n);
}

static mr_status *put_part(const reading *r, mr_sv line, int64_t index, mr_tensor *out, int64_t i)
{
    if (index == LINE_NUMBER) { /* counted from 0; the sum with the offset wraps */
        MR_DATA(int64_t, out)[i] = (int64_t)((uint64_t)r->lines + (uint64_t)r->l->offset);
        return NULL;
    }
    if (index >= 0)
        MR_TRY(find_column(r, line, index, &line));
    return read_field(r, line, out, i);
}

/* ---- lines ---- */

/* Appends the part of the line that is in the current piece; *whole says whether it ends there. */
static mr_status *take_piece(reading *r, bool *whole)
{
    const char *from = r->piece + r->at, *stop = memchr(from, '\n', r->end - r->at);
    size_t n = stop ? (size_t)(stop - from) : r->end - r->at;
    if (n > MAX_LINE - r->line.n || !mr_str_try_append(&r->line, from, n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "%s: line %lld is too long", r->path, (long long)r->lines);
    r->at += n + (stop != NULL);
    *whole = stop != NULL;
    return NULL;
}

/* Reads the next line; *there is false at the end of the file. */
static mr_status *next_line(reading *r, mr_sv *line, bool *there)
{
    bool whole = false;
    mr_str_clear(&r->line);
    while (!whole) {
        if (r->at == r->end) {
            r->at = 0;
            MR_TRY(mr_source_read(&r->file, r->piece, sizeof(r->piece), &r->end));
            if (r->end == 0)
                break;
        }
        MR_TRY(take_piece(r, &whole));
    }
    *there = whole || r->line.n > 0;
    *line = mr_str_view(&r->line);
    if (line->n > 0 && line->p[line->n - 1] == '\r')
        line->n--;
    return NULL;
}

static mr_status *end_of_lines(reading *r)
{
    r->ended = true;
    if (r->l->vocab_size > r->lines)
        return mr_invalid("Invalid vocab_size in %s: expected %lld but got %lld", r->path,
                          (long long)r->l->vocab_size, (long long)r->lines);
    return NULL;
}

static mr_status *read_lines(reading *r, mr_tensor *keys, mr_tensor *values, int64_t *n)
{
    mr_sv line;
    bool there;
    for (*n = 0; *n < LINES_A_PIECE; ++*n, r->lines++) {
        if (r->lines == r->l->vocab_size)
            return end_of_lines(r);
        MR_TRY(next_line(r, &line, &there));
        if (!there)
            return end_of_lines(r);
        MR_TRY(put_part(r, line, r->l->key_index, keys, *n));
        MR_TRY(put_part(r, line, r->l->value_index, values, *n));
    }
    return NULL;
}

/* An mr_lookup_source; see table.h. */
static mr_status *next_piece(void *ctx, mr_tensor **keys, mr_tensor **values)
{
    reading *r = ctx;
    mr_tensor *k = NULL, *v = NULL;
    int64_t n = 0;
    mr_status *st = NULL;
    if (r->ended)
        return NULL;
    MR_GO(mr_tensor_new(NULL, r->key, 1, (int64_t[]){LINES_A_PIECE}, &k));
    MR_GO(mr_tensor_new(NULL, r->value, 1, (int64_t[]){LINES_A_PIECE}, &v));
    MR_GO(read_lines(r, k, v, &n));
    MR_GO(mr_tensor_rows(k, 0, n, keys));
    st = mr_tensor_rows(v, 0, n, values);
    if (st)
        mr_tensor_unref(*keys);
out:
    mr_tensor_unref(k);
    mr_tensor_unref(v);
    return st;
}

/* ---- the op ---- */

static mr_status *check_part(const char *what, int64_t index, mr_dtype t)
{
    if (index == LINE_NUMBER && t != MR_INT64)
        return mr_invalid("%s index for line number requires table %s dtype of int64, got %s",
                          what, what[0] == 'K' ? "key" : "value", mr_dtype_name(t));
    if (index == WHOLE_LINE && !mr_dtype_is_integer(t) && t != MR_STRING)
        return mr_invalid("%s index for whole line requires string or integer table %s, got %s", what,
                          what[0] == 'K' ? "key" : "value", mr_dtype_name(t));
    return NULL;
}

static mr_status *fill_from(mr_lookup *t, const layout *l, const char *path)
{
    reading r = {.l = l, .path = path, .key = mr_lookup_key_type(t), .value = mr_lookup_value_type(t)};
    MR_TRY(check_part("Key", l->key_index, r.key));
    MR_TRY(check_part("Value", l->value_index, r.value));
    MR_TRY(mr_source_open(path, &r.file));
    mr_status *st = mr_lookup_initialize(t, next_piece, &r);
    mr_source_close(&r.file);
    mr_str_deinit(&r.line);
    return st;
}

static mr_status *run_from_file(mr_run *r)
{
    const mr_tensor *name = mr_in(r, 1);
    mr_lookup *t;
    if (name->n != 1)
        return mr_invalid("filename should be a single string, but got shape %s",
                          MR_TENSOR_SHAPE(name));
    mr_sv s = mr_tensor_str_at(name, 0);
    if (s.n == 0)
        return mr_invalid("filename cannot be empty.");
    MR_TRY(mr_lookup_of(r, &t));
    char *path = mr_strndup(s.p, s.n);
    mr_status *st = fill_from(t, r->state, path);
    mr_free(path);
    mr_object_unref((mr_object *)t);
    return st;
}

static mr_status *from_file_shape(mr_infer *c)
{
    const mr_pshape *handle, *ignored;
    bool by_ref = mr_dtype_is_ref(c->node->in_types[0]);
    MR_TRY(mr_infer_rank(c, c->in[0], by_ref ? 1 : 0, &handle));
    if (by_ref)
        MR_TRY(mr_infer_dim_is(handle->dims[0], 2));
    return mr_infer_rank(c, c->in[1], 0, &ignored);
}

#define FROM_FILE(handle)                                                                 \
    .sig = "table_handle: " handle ", filename: string ->",                                 \
    .attrs = "key_index: int >= -2; value_index: int >= -2; vocab_size: int >= -1 = -1; "     \
             "delimiter: string = '\\t'; offset: int = 0",                                  \
    .shape = from_file_shape, .kernels = MR_KERNELS(MR_CPU_ANY(run_from_file)),               \
    .state_bytes = sizeof(layout), .init = init_layout

#define ONCE "h = HashTableV2 key_dtype=string value_dtype=int64 shared_name=\"t\"; "
MR_OP(InitializeTableFromTextFileV2,
    .doc      = "fills a table from a text file: keys and values are lines, their numbers or columns",
    FROM_FILE("resource"), .flags = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .examples = MR_EXAMPLES(
        ONCE "key_index=-2 value_index=-1: h, \"/dev/null\" ->",
        ONCE "key_index=-2 value_index=-1 vocab_size=3: h, \"/dev/null\" -> !INVALID_ARGUMENT Invalid "
             "vocab_size in /dev/null: expected 3 but got 0",
        ONCE "key_index=-2 value_index=-1: h, \"/none/such\" -> !NOT_FOUND /none/such",
        ONCE "key_index=-2 value_index=-1: h, \"\" -> !INVALID_ARGUMENT filename cannot be empty.",
        ONCE "key_index=-1 value_index=-1: h, \"/dev/null\" -> !INVALID_ARGUMENT Key index for line "
             "number requires table key dtype of int64, got string",
        ONCE "key_index=-2 value_index=-1 delimiter=\"ab\": h, \"/dev/null\" -> !INVALID_ARGUMENT "
             "delimiter should be only 1 char",
        "h = MutableHashTableV2 key_dtype=string value_dtype=int64 shared_name=\"t\"; key_index=-2 "
        "value_index=-1: h, \"/dev/null\" -> !INVALID_ARGUMENT not initializable",
        ONCE "key_index=-2 value_index=-1: h, [\"a\"] -> !INVALID_ARGUMENT must be rank 0"));
MR_OP(InitializeTableFromTextFile, .doc = "the older form of InitializeTableFromTextFileV2",
    FROM_FILE("Ref(string)"), .flags = MR_BLOCKS | MR_NO_FOLD | MR_NO_GRADIENT,
    .examples = MR_EXAMPLES("h = HashTable key_dtype=string value_dtype=int64 shared_name=\"t\"; "
                            "key_index=-2 value_index=-1: h, \"/dev/null\" ->"));
