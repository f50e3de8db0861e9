/* store/example_table.c -- finds the features of examples, and decodes them.
 *
 * Messages are read as protobuf would: several Examples back to back are one, and of a key that occurs twice the last
 * value counts. Where TensorFlow is stricter than protobuf (unknown fields inside of features), so is this file. Like
 * TensorFlow, it ignores everything after the first field of a Feature. */
#include "store/example_table.h"

#include "base/memory.h"

enum { LIST_BYTES = 1, LIST_FLOAT = 2, LIST_INT64 = 3 };

/* ---- the table ---- */

static mr_status *index_keys(mr_feature_table *t)
{
    t->keys.borrow_keys = true;
    for (int i = 0; i < t->n; i++)
        if (mr_map_put(&t->keys, t->features[i].key, (void *)(uintptr_t)(i + 1)))
            return mr_invalid("Feature %.*s is requested twice", MR_SV_ARG(t->features[i].key));
    return NULL;
}

mr_status *mr_feature_table_init(mr_feature_table *t, const mr_examples *x,
                                 const mr_feature *features, int n, bool sequences)
{
    size_t cells;
    *t = (mr_feature_table){.x = x, .features = features, .n = n, .sequences = sequences};
    t->n_examples = x->serialized->n;
    t->batch = x->serialized->rank != 0;
    if (mr_size_mul((size_t)t->n_examples, (size_t)n, &cells))
        t->cells = mr_try_calloc(cells, sizeof(*t->cells));
    if (!t->cells)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %d features of %lld examples", n,
                        (long long)t->n_examples);
    return index_keys(t);
}

void mr_feature_table_deinit(mr_feature_table *t)
{
    mr_map_deinit(&t->keys);
    mr_free(t->cells);
}

/* ---- finding ---- */

static void put_cell(const mr_feature_table *t, mr_feature_cell *row, mr_sv key, mr_sv value)
{
    uintptr_t at = (uintptr_t)mr_map_get(&t->keys, key);
    if (at == 0)
        return;
    /* An empty dense feature counts as absent and does not replace an earlier one; for a single example that holds for
     * all forms. */
    bool none = value.n == 0 && !t->sequences;
    if (none && (!t->batch || t->features[at - 1].form == MR_FEATURE_DENSE))
        return;
    row[at - 1].bytes = value;
    row[at - 1].present = true;
}

/* Reads one entry of the feature map; features that nobody asked for are ignored. */
static void find_entry(mr_pb_reader *features, const mr_feature_table *t, mr_feature_cell *row)
{
    mr_pb_reader entry;
    uint32_t field, wire;
    mr_sv key = MR_SV(""), value = MR_SV("");
    mr_pb_message(features, &entry);
    while (mr_pb_next(&entry, &field, &wire))
        if (field == 1)
            key = mr_pb_bytes(&entry);
        else if (field == 2)
            value = mr_pb_bytes(&entry);
        else
            mr_pb_fail(&entry, "unknown field in a map entry");
    if (!features->error)
        put_cell(t, row, key, value);
}

/* Field numbers of an Example (features) and of a SequenceExample (context, feature_lists) are the positions in
 * `tables`, plus 1. */
bool mr_features_find(mr_feature_table *const *tables, int n_tables, int64_t example)
{
    mr_pb_reader r, features;
    uint32_t field, wire;
    mr_pb_reader_init(&r, mr_tensor_str_at(tables[0]->x->serialized, example));
    while (mr_pb_next(&r, &field, &wire)) {
        if (field > (uint32_t)n_tables) {
            mr_pb_skip(&r);
            continue;
        }
        const mr_feature_table *t = tables[field - 1];
        mr_pb_message(&r, &features);
        while (mr_pb_next(&features, &field, &wire))
            if (field == 1)
                find_entry(&features, t, mr_feature_row(t, example));
            else
                mr_pb_fail(&features, "unknown field in Features");
    }
    return !r.error;
}

/* ---- one Feature ---- */

/* Only the first field is read, as in TensorFlow. */
bool mr_feature_open(mr_sv feature, mr_dtype *kind, mr_sv *list)
{
    static const mr_dtype kinds[] = {
        [LIST_BYTES] = MR_STRING, [LIST_FLOAT] = MR_FLOAT, [LIST_INT64] = MR_INT64};
    mr_pb_reader r;
    uint32_t field, wire;
    *kind = MR_INVALID;
    *list = MR_SV("");
    if (feature.n == 0)
        return true;
    mr_pb_reader_init(&r, feature);
    if (!mr_pb_next(&r, &field, &wire) || field > LIST_INT64 || wire != MR_WIRE_BYTES)
        return false;
    *kind = kinds[field];
    *list = mr_pb_bytes(&r);
    return !r.error;
}

static uint32_t element_wire(mr_dtype kind)
{
    return kind == MR_FLOAT ? MR_WIRE_FIXED32 : MR_WIRE_VARINT;
}

/* Counts packed and unpacked values alike. */
int64_t mr_feature_count(mr_dtype kind, mr_sv list)
{
    mr_pb_reader r, p;
    uint32_t field, wire;
    int64_t n = 0;
    mr_pb_reader_init(&r, list);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 1)
            return -1;
        if (kind == MR_STRING) {
            (void)mr_pb_bytes(&r);
            n++;
        } else if (mr_pb_packed(&r, element_wire(kind), &p)) {
            n += (int64_t)mr_pb_packed_count(&p);
        }
    }
    return r.error ? -1 : n;
}

/* Decodes the values of one field 1, at most up to `end`; returns where the next value goes. */
static char *decode_packed(mr_dtype kind, mr_pb_reader *p, char *out, const char *end)
{
    if (kind == MR_FLOAT)
        for (; mr_pb_more(p) && out < end; out += sizeof(float))
            memcpy(out, &(float){mr_pb_float(p)}, sizeof(float));
    else
        for (; mr_pb_more(p) && out < end; out += sizeof(int64_t))
            memcpy(out, &(int64_t){mr_pb_int64(p)}, sizeof(int64_t));
    return out;
}

/* False unless the list holds exactly n values. */
static bool decode_numbers(mr_dtype kind, mr_sv list, void *to, int64_t n)
{
    mr_pb_reader r, p;
    uint32_t field, wire;
    char *out = to;
    const char *end = out + (size_t)n * mr_dtype_size(kind);
    mr_pb_reader_init(&r, list);
    while (mr_pb_next(&r, &field, &wire)) {
        if (!mr_pb_packed(&r, element_wire(kind), &p))
            return false;
        out = decode_packed(kind, &p, out, end);
        if (mr_pb_more(&p) || p.error)
            return false;
    }
    return !r.error && out == end;
}

static bool decode_strings(mr_sv list, mr_tensor *to, int64_t at, int64_t n, mr_status **st)
{
    mr_pb_reader r;
    uint32_t field, wire;
    int64_t i = 0;
    mr_pb_reader_init(&r, list);
    for (; i < n && mr_pb_next(&r, &field, &wire); i++)
        if ((*st = mr_tensor_set_str(to, at + i, mr_pb_bytes(&r))))
            return true;
    return !r.error && i == n && !mr_pb_more(&r);
}

bool mr_feature_decode(mr_dtype kind, mr_sv list, mr_tensor *to, int64_t at, int64_t n,
                       mr_status **st)
{
    MR_ASSERT(kind == (mr_dtype)to->dtype && at >= 0 && n >= 0 && n <= to->n - at);
    if (kind == MR_STRING)
        return decode_strings(list, to, at, n, st);
    return decode_numbers(kind, list, (char *)to->data + (size_t)at * mr_dtype_size(kind), n);
}

/* ---- shared by all forms ---- */

mr_sv mr_example_name(const mr_examples *x, int64_t example)
{
    bool named = x->names && example < x->names->n;
    return named ? mr_tensor_str_at(x->names, example) : MR_SV("<unknown>");
}

int64_t mr_feature_stride(const mr_feature *f, bool *open)
{
    int64_t n = 1;
    *open = f->shape && f->shape->rank > 0 && f->shape->dims[0] < 0;
    for (int i = *open; f->shape && i < f->shape->rank; i++)
        if (!mr_i64_mul(n, MR_MAX(f->shape->dims[i], 0), &n))
            return INT64_MAX; /* more than any tensor can hold: its allocation will fail */
    return n;
}

mr_status *mr_feature_missing(const mr_feature *f)
{
    return mr_invalid("Feature: %.*s (data type: %s) is required but could not be found.",
                      MR_SV_ARG(f->key), mr_dtype_name(f->dtype));
}

typedef struct each {
    mr_example_fn fn;
    void *ctx;
    mr_mutex mu;
    mr_status *st MR_GUARDED_BY(mu);
    int64_t failed MR_GUARDED_BY(mu); /* the lowest example with an error */
} each;

/* Runs on a thread of the pool. Keeps the error of the lowest example; the loser of two errors is freed outside of the
 * lock. */
static void each_part(void *ctx, int64_t begin, int64_t end)
{
    each *w = ctx;
    for (int64_t e = begin; e < end; e++) {
        mr_status *st = w->fn(w->ctx, e);
        if (!st)
            continue;
        mr_lock(&w->mu);
        bool first = !w->st || e < w->failed;
        mr_status *other = first ? w->st : st;
        if (first) {
            w->st = st;
            w->failed = e;
        }
        mr_unlock(&w->mu);
        mr_status_free(other);
        return; /* later examples of this part can no longer change the result */
    }
}

mr_status *mr_examples_each(const mr_examples *x, mr_example_fn fn, void *ctx)
{
    each w = {.fn = fn, .ctx = ctx};
    mr_mutex_init(&w.mu);
    mr_pool_for(x->pool, x->serialized->n, 5000, each_part, &w);
    mr_mutex_deinit(&w.mu);
    return w.st;
}

mr_status *mr_feature_new_sparse(const mr_examples *x, mr_dtype dtype, int64_t n, int rank,
                                 mr_feature_result *out)
{
    MR_TRY(mr_tensor_new(x->alloc, dtype, 1, &n, &out->values));
    MR_TRY(mr_tensor_new(x->alloc, MR_INT64, 2, (int64_t[]){n, rank}, &out->indices));
    return mr_tensor_new(x->alloc, MR_INT64, 1, (int64_t[]){rank}, &out->shape);
}

mr_status *mr_feature_new_splits(const mr_examples *x, mr_dtype type, int64_t n, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(x->alloc, type, 1, &n, out));
    return n > 0 ? mr_feature_set_split(*out, 0, 0) : NULL;
}

mr_status *mr_feature_set_split(mr_tensor *splits, int64_t i, int64_t v)
{
    if (splits->dtype == MR_INT64)
        MR_DATA(int64_t, splits)[i] = v;
    else if (v > INT32_MAX)
        return mr_invalid("%lld values are too many for row splits of type int32", (long long)v);
    else
        MR_DATA(int32_t, splits)[i] = (int32_t)v;
    return NULL;
}

void mr_feature_results_free(mr_feature_result *r, int n)
{
    for (int i = 0; i < n; i++) {
        mr_tensor_unref(r[i].values);
        mr_tensor_unref(r[i].indices);
        mr_tensor_unref(r[i].shape);
        mr_tensor_unref(r[i].splits);
        mr_tensor_unref(r[i].outer_splits);
        mr_tensor_unref(r[i].lengths);
        r[i] = (mr_feature_result){0};
    }
}
