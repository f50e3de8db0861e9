/* ps/snapshot.c -- saves all tables as a TensorBundle, and loads them.
 *
 * One client reads and writes a snapshot, by pulls of whole rows and pushes that set them. So the
 * number of servers does not matter, now or later. In the bundle "folder/ps" a table NAME is
 *
 *     NAME          float [num_keys, width]    its values
 *     NAME/slots    float [num_keys, beside]   what its rule keeps beside the values; absent if nothing
 *     NAME/options  string []                  the table, as a message (Table of docs/formats/ps.md)
 *
 * Tensors are stored in slices of consecutive keys, so that only one slice is in memory at a time. */
#include "ps/client.h"

#include "base/file.h"
#include "store/bundle.h"

#define SLICE_BYTES ((size_t)16 << 20)

static const char values_end[] = "", slots_end[] = "/slots", options_end[] = "/options";

/* Rows of one slice: about SLICE_BYTES, at least one row. */
static size_t rows_at_once(const mr_ps_table_spec *t)
{
    return MR_MAX(1, SLICE_BYTES / (mr_ps_table_row_floats(t) * sizeof(float)));
}

static char *prefix_of(const char *folder) { return mr_printf("%s/ps", folder); }

/* ---- rows and their columns ---- */

/* Copies columns from .. from + width - 1 of n rows into a new matrix; row: floats per row. */
static mr_status *copy_columns(const float *rows, size_t n, size_t row, size_t from, size_t width, mr_tensor **out)
{
    MR_TRY(mr_tensor_new(NULL, MR_FLOAT, 2, (const int64_t[]){(int64_t)n, (int64_t)width}, out));
    for (size_t i = 0; i < n; i++)
        memcpy(MR_DATA(float, *out) + i * width, rows + i * row + from, width * sizeof(float));
    return NULL;
}

/* Rows first .. first + n - 1, all columns. */
static mr_slice slice_of(uint64_t first, size_t n, size_t width)
{
    mr_slice s = {.rank = 2};
    s.start[0] = (int64_t)first;
    s.length[0] = (int64_t)n;
    s.start[1] = 0;
    s.length[1] = (int64_t)width;
    return s;
}

/* Stores columns of the rows first .. first + n - 1 as one slice of the tensor NAME + end. */
static mr_status *add_columns(mr_bundle_writer *w, const mr_ps_table_spec *t, const char *end,
                              const float *rows, uint64_t first, size_t n, size_t from, size_t width)
{
    mr_tensor *part = NULL;
    MR_ASSERT(n > 0 && first + n <= t->o.num_keys && from + width <= mr_ps_table_row_floats(t));
    mr_shape full = {.rank = 2, .dims = {(int64_t)t->o.num_keys, (int64_t)width}};
    mr_slice slice = slice_of(first, n, width);
    char *name = mr_printf("%s%s", t->name, end);
    mr_status *st = copy_columns(rows, n, mr_ps_table_row_floats(t), from, width, &part);
    if (!st)
        st = mr_bundle_add_slice(w, mr_sv_of(name), &full, &slice, part);
    mr_tensor_unref(part);
    mr_free(name);
    return st;
}

/* ---- saving ---- */

/* Whole rows: values, then what the rule keeps beside them. Waits for them. */
static mr_status *pull_rows(mr_ps *ps, int table, uint64_t first, size_t n, float *out)
{
    mr_ps_task task;
    MR_TRY(mr_ps_begin(
        ps,
        &(mr_ps_job){
            .pull = true, .whole = true, .table = table, .keys = {.first = first, .n = n}, .out = out},
        &task));
    return mr_ps_end(ps, task);
}

/* One slice after the other, so that memory stays bounded. */
static mr_status *save_rows(mr_ps *ps, int table, mr_bundle_writer *w)
{
    const mr_ps_table_spec *t = mr_ps_table_at(ps, table);
    size_t row = mr_ps_table_row_floats(t), step = rows_at_once(t), width = (size_t)t->o.width;
    float *rows = mr_try_alloc(step * row * sizeof(float));
    mr_status *st = rows ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "No memory to save table '%s'", t->name);
    for (uint64_t at = 0; !st && at < t->o.num_keys; at += step) {
        size_t n = (size_t)MR_MIN(step, t->o.num_keys - at);
        st = pull_rows(ps, table, at, n, rows);
        if (!st)
            st = add_columns(w, t, values_end, rows, at, n, 0, width);
        if (!st && row > width)
            st = add_columns(w, t, slots_end, rows, at, n, width, row - width);
    }
    mr_free(rows);
    return st;
}

/* Stores the table's description as NAME/options, from which load_table makes the table again. */
static mr_status *save_options(const mr_ps_table_spec *t, mr_bundle_writer *w)
{
    mr_pb_writer pb;
    mr_str bytes = {0};
    mr_tensor *options = NULL;
    char *name = mr_printf("%s%s", t->name, options_end);
    mr_pb_writer_init(&pb, &bytes);
    mr_ps_table_spec_put(&pb, t);
    mr_status *st = mr_pb_writer_status(&pb, "Table");
    if (!st) {
        options = mr_tensor_scalar_str(mr_str_view(&bytes));
        st = mr_bundle_add(w, mr_sv_of(name), options);
    }
    mr_tensor_unref(options);
    mr_str_deinit(&bytes);
    mr_free(name);
    return st;
}

/* Waits for all tasks first, so that this client's pushes are in the snapshot. Pushes of other
 * workers may fall between two slices. */
mr_status *mr_ps_save(mr_ps *ps, const char *folder)
{
    mr_bundle_writer *w = NULL;
    char *prefix = prefix_of(folder);
    mr_status *st = NULL;
    mr_ps_settle(ps);
    MR_GO(mr_dir_make(folder));
    MR_GO(mr_bundle_writer_new(prefix, &w));
    for (int i = 0; i < mr_ps_n_tables(ps); i++) {
        MR_GO(save_options(mr_ps_table_at(ps, i), w));
        MR_GO(save_rows(ps, i, w));
    }
    MR_GO(mr_bundle_finish(w));
out:
    mr_bundle_writer_free(w);
    mr_free(prefix);
    return mr_status_prepend(st, "Cannot save a snapshot in %s: ", folder);
}

/* ---- loading ---- */

/* Reads a slice into columns from .. from + width - 1 of n rows. The file may be damaged, so the
 * shape is checked. */
static mr_status *read_columns(mr_bundle *b, const mr_ps_table_spec *t, const char *end, uint64_t first,
                               size_t n, size_t from, size_t width, float *rows)
{
    mr_tensor *part = NULL;
    mr_slice slice = slice_of(first, n, width);
    char *name = mr_printf("%s%s", t->name, end);
    size_t row = mr_ps_table_row_floats(t);
    mr_status *st = mr_bundle_read_slice(b, mr_sv_of(name), &slice, NULL, &part);
    if (!st && (part->dtype != MR_FLOAT || part->rank != 2 || part->dims[0] != (int64_t)n ||
                part->dims[1] != (int64_t)width))
        st = mr_error(MR_DATA_LOSS, "'%s' has shape %s, expected [%zu,%zu]", name, MR_TENSOR_SHAPE(part), n, width);
    for (size_t i = 0; !st && i < n; i++)
        memcpy(rows + i * row + from, MR_DATA(float, part) + i * width, width * sizeof(float));
    mr_tensor_unref(part);
    mr_free(name);
    return st;
}

/* One push is under way while the next slice is read; a push copies its rows, so one buffer is
 * enough. */
static mr_status *load_rows(mr_ps *ps, int table, mr_bundle *b)
{
    const mr_ps_table_spec *t = mr_ps_table_at(ps, table);
    size_t row = mr_ps_table_row_floats(t), step = rows_at_once(t), width = (size_t)t->o.width;
    float *rows = mr_try_alloc(step * row * sizeof(float));
    mr_status *st = rows ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "No memory to restore table '%s'", t->name);
    mr_ps_task task = 0, before = 0;
    for (uint64_t at = 0; !st && at < t->o.num_keys; at += step) {
        size_t n = (size_t)MR_MIN(step, t->o.num_keys - at);
        mr_ps_job j = {
            .kind = MR_PS_CHANGE_SET, .table = table, .keys = {.first = at, .n = n}, .floats = rows};
        st = read_columns(b, t, values_end, at, n, 0, width, rows);
        if (!st && row > width)
            st = read_columns(b, t, slots_end, at, n, width, row - width, rows);
        if (before)
            mr_status_update(&st, mr_ps_end(ps, before));
        before = 0;
        if (!st && !(st = mr_ps_begin(ps, &j, &task)))
            before = task;
    }
    mr_free(rows);
    if (before)
        mr_status_update(&st, mr_ps_end(ps, before));
    return st;
}

/* Creates the table unless it exists. A table with the same name but other options is an error. */
static mr_status *load_table(mr_ps *ps, mr_bundle *b, mr_sv options)
{
    mr_ps_table_spec t = {0};
    mr_tensor *bytes = NULL;
    int table;
    mr_status *st = mr_bundle_read(b, options, NULL, &bytes);
    if (!st && (bytes->dtype != MR_STRING || bytes->n != 1))
        st = mr_error(MR_DATA_LOSS, "'%.*s' does not hold the options of a table", MR_SV_ARG(options));
    if (!st)
        st = mr_ps_table_spec_get(mr_tensor_str_at(bytes, 0), &t);
    if (!st) {
        st = mr_ps_make_table(ps, mr_sv_of(t.name), &t.o, &table);
        mr_ps_table_spec_deinit(&t);
    }
    mr_tensor_unref(bytes);
    return st ? st : load_rows(ps, table, b);
}

/* A table's own name may end like this too, but its values are not strings. An error counts as
 * options, so that reading them reports it. */
static bool is_options(const mr_bundle *b, mr_sv name)
{
    size_t n = sizeof options_end - 1;
    mr_bundle_entry e;
    if (name.n <= n || memcmp(name.p + name.n - n, options_end, n) != 0)
        return false;
    mr_status *st = mr_bundle_lookup(b, name, &e);
    bool is = st || e.dtype == MR_STRING;
    mr_status_free(st);
    return is;
}

/* Errors of earlier tasks are ignored: a failure may be the reason for loading. Lost ranges are
 * renewed first, so that there is a server for every row. */
mr_status *mr_ps_load(mr_ps *ps, const char *folder)
{
    mr_bundle *b = NULL;
    char *prefix = prefix_of(folder);
    mr_status *st = NULL;
    mr_ps_settle(ps);
    MR_GO(mr_bundle_open(prefix, &b));
    MR_GO(mr_ps_renew(ps));
    for (int i = 0; i < mr_bundle_count(b); i++)
        if (is_options(b, mr_bundle_name(b, i)))
            MR_GO(load_table(ps, b, mr_bundle_name(b, i)));
out:
    mr_bundle_close(b);
    mr_free(prefix);
    return mr_status_prepend(st, "Cannot load the snapshot in %s: ", folder);
}
