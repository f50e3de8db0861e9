/* store/example_sequence.c -- parses SequenceExamples into columns: a context like an Example, and lists of features,
 * each a row.
 *
 * TensorFlow parses them with different code than Examples, with different rules (an empty feature counts as present)
 * and different error messages; this file follows both. */
#include "base/memory.h"
#include "store/example.h"
#include "store/example_table.h"

typedef struct work {
    const mr_examples *x;
    mr_feature_table context, lists;
    mr_feature_result *out_context, *out_lists;
    int64_t *longest_list; /* by list: the number of values of the longest example */
} work;

/* ---- the first pass: counting values ---- */

static mr_status *wrong_type(const work *w, int64_t example, const char *what, const mr_feature *f,
                             int64_t row)
{
    mr_status *st = mr_invalid(".  Data types don't match. Expected type: %s",
                               mr_dtype_name(f->dtype));
    if (row >= 0)
        st = mr_status_prepend(st, ", Index: %lld", (long long)row);
    return mr_status_prepend(st, "Name: %.*s, %s: %.*s", MR_SV_ARG(mr_example_name(w->x, example)),
                             what, MR_SV_ARG(f->key));
}

static mr_status *broken_list(const work *w, int64_t example, const mr_feature *f)
{
    return mr_invalid("Error in sequence feature %.*s in example %.*s", MR_SV_ARG(f->key),
                      MR_SV_ARG(mr_example_name(w->x, example)));
}

/* The number of values of one Feature; -1 if they are malformed or not of the wanted type. */
static int64_t count_values(const mr_feature *f, mr_sv feature, mr_sv *list)
{
    mr_dtype kind;
    if (!mr_feature_open(feature, &kind, list))
        return -1;
    if (kind == MR_INVALID)
        return 0;
    return kind == f->dtype ? mr_feature_count(kind, *list) : -1;
}

static mr_status *measure_context(const work *w, int64_t example, const mr_feature *f,
                                  mr_feature_cell *c)
{
    c->n = count_values(f, c->bytes, &c->bytes);
    return c->n < 0 ? wrong_type(w, example, "Context feature", f, -1) : NULL;
}

/* Reads the next Feature of a FeatureList; false at the end or on an error. */
static bool next_row(mr_pb_reader *r, mr_sv *feature)
{
    uint32_t field, wire;
    if (!mr_pb_next(r, &field, &wire))
        return false;
    if (field != 1)
        mr_pb_fail(r, "unknown field in a FeatureList");
    else
        *feature = mr_pb_bytes(r);
    return !r->error;
}

static mr_status *measure_list(const work *w, int64_t example, const mr_feature *f,
                               mr_feature_cell *c)
{
    mr_pb_reader r;
    mr_sv feature, list;
    mr_pb_reader_init(&r, c->bytes);
    for (; next_row(&r, &feature); c->rows++) {
        int64_t n = count_values(f, feature, &list);
        if (n < 0)
            return wrong_type(w, example, "Feature list", f, c->rows);
        c->n += n;
    }
    return r.error ? broken_list(w, example, f) : NULL;
}

static mr_status *measure_example(void *ctx, int64_t example)
{
    work *w = ctx;
    mr_feature_cell *context = mr_feature_row(&w->context, example);
    mr_feature_cell *lists = mr_feature_row(&w->lists, example);
    if (!mr_features_find((mr_feature_table *[]){&w->context, &w->lists}, 2, example))
        return mr_invalid("Invalid protocol message input, example id: %.*s",
                          MR_SV_ARG(mr_example_name(w->x, example)));
    for (int i = 0; i < w->context.n; i++)
        MR_TRY(measure_context(w, example, &w->context.features[i], &context[i]));
    for (int i = 0; i < w->lists.n; i++)
        MR_TRY(measure_list(w, example, &w->lists.features[i], &lists[i]));
    return NULL;
}

/* ---- allocating the results ---- */

typedef struct totals {
    int64_t n, rows, longest, most_rows;
} totals;

static totals add_up(mr_feature_table *t, int i)
{
    totals s = {0};
    for (int64_t e = 0; e < t->n_examples; e++) {
        mr_feature_cell *c = &mr_feature_row(t, e)[i];
        c->at = s.n;
        c->row_at = s.rows;
        s.n += c->n;
        s.rows += c->rows;
        s.longest = MR_MAX(s.longest, c->n);
        s.most_rows = MR_MAX(s.most_rows, c->rows);
    }
    return s;
}

/* Shape: [example][rows] + the shape of a row; rows < 0: no such dimension. */
static mr_status *new_dense(const mr_feature_table *t, const mr_feature *f, int64_t rows,
                            mr_tensor **out)
{
    mr_shape s = {0};
    if (t->batch)
        s.dims[s.rank++] = t->n_examples;
    if (rows >= 0)
        s.dims[s.rank++] = rows;
    if (f->shape->rank + s.rank > MR_MAX_RANK)
        return mr_invalid("Feature %.*s: shape %s has too many dimensions", MR_SV_ARG(f->key),
                          MR_PSHAPE_TEXT(f->shape));
    for (int i = 0; i < f->shape->rank; i++)
        s.dims[s.rank++] = f->shape->dims[i];
    return mr_tensor_new(t->x->alloc, f->dtype, s.rank, s.dims, out);
}

static mr_status *context_dense(work *w, const mr_feature *f, int64_t longest,
                                mr_feature_result *out)
{
    bool open;
    int64_t size = mr_feature_stride(f, &open);
    longest = MR_MAX(longest, f->fallback ? f->fallback->n : 0);
    if (open || longest != size)
        return mr_invalid("Inconsistent max number of elements for feature %.*s: expected %lld, but "
                          "found %lld",
                          MR_SV_ARG(f->key), (long long)size, (long long)longest);
    return new_dense(&w->context, f, -1, &out->values);
}

/* Splits by example; for a single example TensorFlow returns a scalar without meaning, and so does this. */
static mr_status *example_splits(const mr_feature_table *t, mr_dtype type, mr_tensor **out)
{
    return t->batch ? mr_feature_new_splits(t->x, type, t->n_examples + 1, out)
                    : mr_tensor_zeros(t->x->alloc, type, 0, NULL, out);
}

/* Allocates the results of a context feature, and sets where each example's values begin. */
static mr_status *context_room(work *w, int i)
{
    mr_feature_table *t = &w->context;
    const mr_feature *f = &t->features[i];
    mr_feature_result *out = &w->out_context[i];
    totals s = add_up(t, i);
    if (f->form == MR_FEATURE_DENSE)
        return context_dense(w, f, s.longest, out);
    if (f->form == MR_FEATURE_SPARSE) {
        MR_TRY(mr_feature_new_sparse(w->x, f->dtype, s.n, t->batch ? 2 : 1, out));
        MR_DATA(int64_t, out->shape)[0] = t->n_examples;
        MR_DATA(int64_t, out->shape)[t->batch] = s.longest;
        return NULL;
    }
    MR_TRY(mr_tensor_new(w->x->alloc, f->dtype, 1, &s.n, &out->values));
    return example_splits(t, f->splits, &out->splits);
}

/* Rows are padded to the longest example; `lengths` says how many rows each example has. */
static mr_status *list_dense(work *w, int i, const totals *s)
{
    const mr_feature_table *t = &w->lists;
    const mr_feature *f = &t->features[i];
    bool open;
    int64_t size = mr_feature_stride(f, &open);
    if (open || (size > 0 ? s->longest % size != 0 : s->longest > 0))
        return mr_invalid("Feature list '%.*s' has an unexpected number of values.  Total values "
                          "size: %lld is not consistent with output shape: %s",
                          MR_SV_ARG(f->key), (long long)s->longest, MR_PSHAPE_TEXT(f->shape));
    w->longest_list[i] = s->longest;
    int64_t rows = size > 0 ? s->longest / size : s->most_rows;
    MR_TRY(new_dense(t, f, rows, &w->out_lists[i].values));
    return mr_tensor_new(w->x->alloc, MR_INT64, t->batch ? 1 : 0, &t->n_examples,
                         &w->out_lists[i].lengths);
}

/* Allocates the results of a list, and sets where each example's values and rows begin. */
static mr_status *list_room(work *w, int i)
{
    mr_feature_table *t = &w->lists;
    const mr_feature *f = &t->features[i];
    mr_feature_result *out = &w->out_lists[i];
    totals s = add_up(t, i);
    if (f->form == MR_FEATURE_DENSE)
        return list_dense(w, i, &s);
    if (f->form == MR_FEATURE_SPARSE) { /* find_widest sets the last dimension after the second pass */
        MR_TRY(mr_feature_new_sparse(w->x, f->dtype, s.n, t->batch ? 3 : 2, out));
        MR_DATA(int64_t, out->shape)[0] = t->n_examples;
        MR_DATA(int64_t, out->shape)[t->batch] = s.most_rows;
        MR_DATA(int64_t, out->shape)[t->batch + 1] = 0;
        return NULL;
    }
    MR_TRY(mr_tensor_new(w->x->alloc, f->dtype, 1, &s.n, &out->values));
    MR_TRY(mr_feature_new_splits(w->x, f->splits, s.rows + 1, &out->splits));
    return example_splits(t, f->splits, &out->outer_splits);
}

/* ---- the second pass: values ---- */

static mr_status *decode_values(const work *w, int64_t example, const mr_feature *f, mr_sv list,
                                mr_tensor *to, int64_t at, int64_t n)
{
    mr_status *st = NULL;
    if (n > 0 && !mr_feature_decode(f->dtype, list, to, at, n, &st))
        return broken_list(w, example, f);
    return st;
}

/* A dense context feature that is missing takes its fallback; without one it is an error. */
static mr_status *fill_context_dense(const work *w, int64_t example, int i,
                                     const mr_feature_cell *c)
{
    const mr_feature *f = &w->context.features[i];
    mr_tensor *to = w->out_context[i].values;
    bool open;
    int64_t size = mr_feature_stride(f, &open);
    if (!c->present && (!f->fallback || f->fallback->n == 0))
        return mr_feature_missing(f);
    if ((c->present ? c->n : f->fallback->n) != size)
        return mr_invalid("Unexpected number of elements in example %.*s",
                          MR_SV_ARG(mr_example_name(w->x, example)));
    if (!c->present)
        return mr_tensor_try_copy_elements(to, example * size, f->fallback, 0, size);
    return decode_values(w, example, f, c->bytes, to, example * size, size);
}

/* Writes one example's values of a context feature, in any form. */
static mr_status *fill_context(const work *w, int64_t example, int i, const mr_feature_cell *c)
{
    const mr_feature *f = &w->context.features[i];
    const mr_feature_result *out = &w->out_context[i];
    bool batch = w->context.batch;
    if (f->form == MR_FEATURE_DENSE)
        return fill_context_dense(w, example, i, c);
    MR_TRY(decode_values(w, example, f, c->bytes, out->values, c->at, c->n));
    if (f->form == MR_FEATURE_RAGGED)
        return batch ? mr_feature_set_split(out->splits, example + 1, c->at + c->n) : NULL;
    int64_t *index = MR_DATA(int64_t, out->indices) + c->at * (batch ? 2 : 1);
    for (int64_t k = 0; k < c->n; k++) {
        if (batch)
            *index++ = example;
        *index++ = k;
    }
    return NULL;
}

/* Writes the rows of one example and zeros the padding behind them. */
static mr_status *fill_list_dense(const work *w, int64_t example, int i, const mr_feature_cell *c)
{
    const mr_feature *f = &w->lists.features[i];
    mr_tensor *to = w->out_lists[i].values;
    mr_pb_reader r;
    mr_sv feature, list;
    bool open;
    int64_t size = mr_feature_stride(f, &open), longest = w->longest_list[i];
    int64_t at = example * longest, end = at + longest, row = 0;
    if (!c->present && !f->missing_is_empty)
        return mr_invalid("Name: %.*s, Feature list '%.*s' is required but could not be found.  Did "
                          "you mean to include it in feature_list_dense_missing_assumed_empty or "
                          "feature_list_dense_defaults?",
                          MR_SV_ARG(mr_example_name(w->x, example)), MR_SV_ARG(f->key));
    mr_pb_reader_init(&r, c->bytes);
    for (; next_row(&r, &feature); row++, at += size) {
        int64_t n = count_values(f, feature, &list);
        if (n != size)
            return mr_invalid("Name: %.*s, Key: %.*s, Index: %lld.  Number of values != expected.  "
                              "values size: %lld but output shape: %s",
                              MR_SV_ARG(mr_example_name(w->x, example)), MR_SV_ARG(f->key),
                              (long long)row, (long long)n, MR_PSHAPE_TEXT(f->shape));
        MR_TRY(decode_values(w, example, f, list, to, at, n));
    }
    MR_DATA(int64_t, w->out_lists[i].lengths)[example] = row;
    if (f->dtype != MR_STRING && at < end)
        memset((char *)to->data + (size_t)at * mr_dtype_size(f->dtype), 0,
               (size_t)(end - at) * mr_dtype_size(f->dtype));
    return NULL;
}

/* Sparse and ragged results, row by row. */
static mr_status *fill_rows(const work *w, int64_t example, int i, const mr_feature_cell *c)
{
    const mr_feature *f = &w->lists.features[i];
    const mr_feature_result *out = &w->out_lists[i];
    bool batch = w->lists.batch, sparse = f->form == MR_FEATURE_SPARSE;
    mr_pb_reader r;
    mr_sv feature, list;
    int64_t at = c->at, row = 0;
    int64_t *index = sparse ? MR_DATA(int64_t, out->indices) + at * (batch ? 3 : 2) : NULL;
    mr_pb_reader_init(&r, c->bytes);
    for (; next_row(&r, &feature); row++) {
        int64_t n = count_values(f, feature, &list);
        MR_TRY(decode_values(w, example, f, list, out->values, at, n));
        at += n;
        for (int64_t k = 0; sparse && k < n; k++) {
            if (batch)
                *index++ = example;
            *index++ = row;
            *index++ = k;
        }
        if (!sparse)
            MR_TRY(mr_feature_set_split(out->splits, c->row_at + row + 1, at));
    }
    return !sparse && batch ? mr_feature_set_split(out->outer_splits, example + 1, c->row_at + row)
                            : NULL;
}

static mr_status *fill_example(void *ctx, int64_t example)
{
    const work *w = ctx;
    const mr_feature_cell *context = mr_feature_row(&w->context, example);
    const mr_feature_cell *lists = mr_feature_row(&w->lists, example);
    for (int i = 0; i < w->context.n; i++)
        MR_TRY(fill_context(w, example, i, &context[i]));
    for (int i = 0; i < w->lists.n; i++)
        MR_TRY(w->lists.features[i].form == MR_FEATURE_DENSE
                   ? fill_list_dense(w, example, i, &lists[i])
                   : fill_rows(w, example, i, &lists[i]));
    return NULL;
}

/* Sets the last dimension of sparse shapes: the size of the widest row. */
static void find_widest(const work *w)
{
    for (int i = 0; i < w->lists.n; i++) {
        const mr_feature_result *out = &w->out_lists[i];
        if (w->lists.features[i].form != MR_FEATURE_SPARSE)
            continue;
        int rank = w->lists.batch ? 3 : 2;
        int64_t *widest = &MR_DATA(int64_t, out->shape)[rank - 1];
        for (int64_t k = 0; k < out->values->n; k++)
            *widest = MR_MAX(*widest, MR_DATA(int64_t, out->indices)[k * rank + rank - 1] + 1);
    }
}

/* Two passes over all examples: measure, then decode into results of the right size. */
mr_status *mr_sequences_parse(const mr_examples *x, const mr_feature *context, int n_context,
                              const mr_feature *lists, int n_lists, mr_feature_result *out_context,
                              mr_feature_result *out_lists)
{
    work w = {.x = x, .out_context = out_context, .out_lists = out_lists};
    mr_status *st = NULL;
    w.longest_list = mr_new_array(int64_t, n_lists + 1);
    MR_GO(mr_feature_table_init(&w.context, x, context, n_context, true));
    MR_GO(mr_feature_table_init(&w.lists, x, lists, n_lists, true));
    MR_GO(mr_examples_each(x, measure_example, &w));
    for (int i = 0; i < n_context; i++)
        MR_GO(context_room(&w, i));
    for (int i = 0; i < n_lists; i++)
        MR_GO(list_room(&w, i));
    MR_GO(mr_examples_each(x, fill_example, &w));
    find_widest(&w);
out:
    if (st) {
        mr_feature_results_free(out_context, n_context);
        mr_feature_results_free(out_lists, n_lists);
    }
    mr_feature_table_deinit(&w.context);
    mr_feature_table_deinit(&w.lists);
    mr_free(w.longest_list);
    return st;
}
