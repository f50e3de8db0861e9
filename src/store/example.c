/* store/example.c -- parses Examples into columns.
 *
 * The first pass measures each example and checks it; the second pass can only fail for lack of memory, or for numbers
 * that were counted correctly but do not decode. If several examples have errors, the error of the first one is
 * reported, however the examples were split over threads. */
#include "store/example.h"

#include "base/memory.h"
#include "store/example_table.h"

typedef struct work {
    mr_feature_table t;
    mr_feature_result *out;
    int64_t *longest; /* by feature: the number of values of the longest example */
} work;

/* ---- errors ---- */

/* Prepends the feature, and in a batch the example, to an error. */
static mr_status *prepend_feature(const mr_feature_table *t, int64_t example, const mr_feature *f,
                                  mr_status *st)
{
    if (!t->batch)
        return mr_status_prepend(st, "Key: %.*s.  ", MR_SV_ARG(f->key));
    return mr_status_prepend(st, "Name: %.*s, Key: %.*s, Index: %lld.  ",
                             MR_SV_ARG(mr_example_name(t->x, example)), MR_SV_ARG(f->key),
                             (long long)example);
}

static mr_status *unparsable_example(void) { return mr_invalid("Can't parse serialized Example."); }

static mr_status *wrong_type(const mr_feature *f, mr_dtype kind)
{
    if (f->form == MR_FEATURE_DENSE)
        return mr_invalid("Data types don't match. Data type: %s but expected type: %s",
                          mr_dtype_name(kind), mr_dtype_name(f->dtype));
    return mr_invalid("Data types don't match. Expected type: %s, Actual type: %s",
                      mr_dtype_name(f->dtype), mr_dtype_name(kind));
}

static const char *kind_name(mr_dtype t)
{
    return t == MR_STRING ? "bytes" : t == MR_FLOAT ? "float" : "int64";
}

static mr_status *wrong_number(const mr_feature_table *t, const mr_feature *f, bool open, int64_t n)
{
    if (!t->batch)
        return unparsable_example();
    if (open)
        return mr_invalid("Number of %s values is not a multiple of stride length. Saw %lld values "
                          "but output shape is: %s",
                          kind_name(f->dtype), (long long)n, MR_PSHAPE_TEXT(f->shape));
    return mr_invalid("Number of %s values != expected.  Values size: %lld but output shape: %s",
                      kind_name(f->dtype), (long long)n, MR_PSHAPE_TEXT(f->shape));
}

static mr_status *bad_example(mr_sv bytes)
{
    return mr_invalid("Could not parse example input, value: '%.*s'", (int)MR_MIN(bytes.n, 1000),
                      bytes.p);
}

/* ---- the first pass: counting values ---- */

static mr_status *check_number(const mr_feature_table *t, const mr_feature *f, int64_t n)
{
    bool open;
    int64_t stride = mr_feature_stride(f, &open);
    if (f->form != MR_FEATURE_DENSE)
        return NULL;
    bool fits = !open ? n == stride : stride == 0 ? n == 0 : n % stride == 0;
    return fits ? NULL : wrong_number(t, f, open, n);
}

/* Counts the values of a present feature. The cell's bytes become those of its list; a feature without a list has no
 * values. */
static mr_status *measure_present(const mr_feature_table *t, const mr_feature *f,
                                  mr_feature_cell *c)
{
    mr_dtype kind;
    mr_sv feature = c->bytes;
    if (!mr_feature_open(feature, &kind, &c->bytes))
        return mr_invalid("Unsupported datatype.");
    if (kind == MR_INVALID)
        return NULL;
    if (kind != f->dtype)
        return wrong_type(f, kind);
    c->n = mr_feature_count(kind, c->bytes);
    return c->n < 0 ? unparsable_example() : check_number(t, f, c->n);
}

static mr_status *measure_missing(const mr_feature_table *t, int64_t example, const mr_feature *f)
{
    bool open;
    (void)mr_feature_stride(f, &open);
    if (f->form != MR_FEATURE_DENSE || open || (f->fallback && f->fallback->n > 0))
        return NULL;
    mr_status *st = mr_feature_missing(f);
    return t->batch ? mr_status_prepend(st, "Name: %.*s, ",
                                        MR_SV_ARG(mr_example_name(t->x, example)))
                    : st;
}

/* Runs on any thread; writes only the cells of its example. */
static mr_status *measure_example(void *ctx, int64_t example)
{
    mr_feature_table *t = &((work *)ctx)->t;
    mr_feature_cell *row = mr_feature_row(t, example);
    if (!mr_features_find(&t, 1, example))
        return bad_example(mr_tensor_str_at(t->x->serialized, example));
    for (int i = 0; i < t->n; i++) {
        const mr_feature *f = &t->features[i];
        if (!row[i].present) {
            MR_TRY(measure_missing(t, example, f));
            continue;
        }
        mr_status *st = measure_present(t, f, &row[i]);
        if (st)
            return prepend_feature(t, example, f, st);
    }
    return NULL;
}

/* ---- allocating the results ---- */

/* An open first dimension becomes that of the longest example. */
static mr_status *new_dense(const work *w, const mr_feature *f, int64_t longest,
                            mr_feature_result *out)
{
    mr_shape s = {0};
    bool open;
    int64_t stride = mr_feature_stride(f, &open);
    if (w->t.batch)
        s.dims[s.rank++] = w->t.n_examples;
    if (f->shape->rank + s.rank > MR_MAX_RANK)
        return mr_invalid("Feature %.*s: shape %s has too many dimensions", MR_SV_ARG(f->key),
                          MR_PSHAPE_TEXT(f->shape));
    for (int i = 0; i < f->shape->rank; i++)
        s.dims[s.rank++] = f->shape->dims[i];
    if (open)
        s.dims[w->t.batch] = stride > 0 ? longest / stride : 0;
    else if (f->fallback && f->fallback->n > 0 && f->fallback->n != stride)
        return mr_invalid("Feature %.*s: the default has %lld elements, but the shape is %s",
                          MR_SV_ARG(f->key), (long long)f->fallback->n, MR_PSHAPE_TEXT(f->shape));
    return mr_tensor_new(w->t.x->alloc, f->dtype, s.rank, s.dims, &out->values);
}

static mr_status *new_ragged(const work *w, const mr_feature *f, int64_t total,
                             mr_feature_result *out)
{
    /* A single example needs no splits: all values belong to it. */
    MR_TRY(mr_feature_new_splits(w->t.x, f->splits, w->t.batch ? w->t.n_examples + 1 : 0,
                                 &out->splits));
    for (int64_t e = 0; w->t.batch && e < w->t.n_examples; e++) {
        const mr_feature_cell *c = &mr_feature_row(&w->t, e)[f - w->t.features];
        MR_TRY(mr_feature_set_split(out->splits, e + 1, c->at + c->n));
    }
    return mr_tensor_new(w->t.x->alloc, f->dtype, 1, &total, &out->values);
}

static mr_status *new_sparse(const work *w, const mr_feature *f, int64_t total, int64_t longest,
                             mr_feature_result *out)
{
    MR_TRY(mr_feature_new_sparse(w->t.x, f->dtype, total, w->t.batch ? 2 : 1, out));
    int64_t *shape = MR_DATA(int64_t, out->shape);
    if (w->t.batch)
        *shape++ = w->t.n_examples;
    *shape = longest;
    return NULL;
}

/* Now that all sizes are known: sets where each example's values begin, and allocates all results. */
static mr_status *make_room(work *w)
{
    for (int i = 0; i < w->t.n; i++) {
        const mr_feature *f = &w->t.features[i];
        int64_t total = 0, longest = 0;
        for (int64_t e = 0; e < w->t.n_examples; e++) {
            mr_feature_cell *c = &mr_feature_row(&w->t, e)[i];
            c->at = total;
            total += c->n; /* cannot overflow: each value takes at least one byte of the input */
            longest = MR_MAX(longest, c->n);
        }
        w->longest[i] = longest;
        MR_TRY(f->form == MR_FEATURE_DENSE    ? new_dense(w, f, longest, &w->out[i])
               : f->form == MR_FEATURE_SPARSE ? new_sparse(w, f, total, longest, &w->out[i])
                                              : new_ragged(w, f, total, &w->out[i]));
    }
    return NULL;
}

/* ---- the second pass: values ---- */

/* Sets elements [at, end) to the padding: the fallback's first element, or zero. */
static mr_status *pad_elements(mr_tensor *to, int64_t at, int64_t end, const mr_tensor *fallback)
{
    size_t bytes = mr_dtype_size((mr_dtype)to->dtype);
    bool given = fallback && fallback->n > 0;
    if (!given && to->dtype != MR_STRING && at < end)
        memset((char *)to->data + (size_t)at * bytes, 0, (size_t)(end - at) * bytes);
    for (; given && at < end; at++)
        MR_TRY(mr_tensor_try_copy_elements(to, at, fallback, 0, 1));
    return NULL;
}

/* Writes one example's values: the fallback if the feature is missing, and padding behind them if the dimension is
 * open. */
static mr_status *fill_dense(const work *w, int i, int64_t example, const mr_feature_cell *c)
{
    const mr_feature *f = &w->t.features[i];
    mr_tensor *to = w->out[i].values;
    bool open;
    int64_t stride = mr_feature_stride(f, &open), size = open ? w->longest[i] : stride;
    int64_t at = example * size;
    mr_status *st = NULL;
    if (to->n == 0)
        return NULL;
    if (!open && !c->present)
        return mr_tensor_try_copy_elements(to, at, f->fallback, 0, size);
    if (c->n > 0 && !mr_feature_decode(f->dtype, c->bytes, to, at, c->n, &st))
        return unparsable_example();
    return st ? st : pad_elements(to, at + c->n, at + size, f->fallback);
}

/* Writes one example's values of a sparse or ragged result, and the indices of a sparse one. */
static mr_status *fill_row(const work *w, int i, int64_t example, const mr_feature_cell *c)
{
    const mr_feature *f = &w->t.features[i];
    const mr_feature_result *o = &w->out[i];
    mr_status *st = NULL;
    int rank = w->t.batch ? 2 : 1;
    if (c->n > 0 && !mr_feature_decode(f->dtype, c->bytes, o->values, c->at, c->n, &st))
        return unparsable_example();
    if (f->form != MR_FEATURE_SPARSE || st)
        return st;
    int64_t *index = MR_DATA(int64_t, o->indices) + c->at * rank;
    for (int64_t k = 0; k < c->n; k++) {
        if (w->t.batch)
            *index++ = example;
        *index++ = k;
    }
    return NULL;
}

static mr_status *fill_example(void *ctx, int64_t example)
{
    const work *w = ctx;
    const mr_feature_cell *row = mr_feature_row(&w->t, example);
    for (int i = 0; i < w->t.n; i++) {
        bool dense = w->t.features[i].form == MR_FEATURE_DENSE;
        mr_status *st = dense ? fill_dense(w, i, example, &row[i]) : fill_row(w, i, example, &row[i]);
        if (st && mr_status_code(st) == MR_INVALID_ARGUMENT)
            return prepend_feature(&w->t, example, &w->t.features[i], st);
        MR_TRY(st);
    }
    return NULL;
}

/* Two passes over all examples: measure, then decode into results of the right size. */
mr_status *mr_examples_parse(const mr_examples *x, const mr_feature *features, int n,
                             mr_feature_result *out)
{
    work w = {.out = out, .longest = mr_new_array(int64_t, n + 1)};
    mr_status *st = NULL;
    MR_GO(mr_feature_table_init(&w.t, x, features, n, false));
    MR_GO(mr_examples_each(x, measure_example, &w));
    MR_GO(make_room(&w));
    MR_GO(mr_examples_each(x, fill_example, &w));
out:
    if (st)
        mr_feature_results_free(out, n);
    mr_feature_table_deinit(&w.t);
    mr_free(w.longest);
    return st;
}
