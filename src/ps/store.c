/* ps/store.c -- the rows that a server holds.
 *
 * The floats of a row are in several planes, the values in the first. Where a row travels whole
 * (SET, snapshots), its floats follow each other. Two rows of a table of width 2 with momentum:
 *
 *     planes of a part    v0 v0  v1 v1 | m0 m0  m1 m1
 *     whole rows          v0 v0  m0 m0 | v1 v1  m1 m1
 *
 * Invariants: `used` is the memory of all planes and sums. A part has `sum` and `seen` or neither,
 * and n_pushed is below the table's aggregate. mr_ps_store_check makes the memory,
 * mr_ps_store_change only writes to it. */
#include "ps/store.h"

#include <math.h>

#include "ps/keys.h"

enum { ROWS_AT_ONCE = 256 }; /* rows of one call to a rule, and of initial values that are only computed to be read */

/* ---- layout ---- */

/* The number of rows of a range, and its first key. */
static size_t range_rows(const mr_ps_store *s, const mr_ps_table_spec *t, int range, uint64_t *first)
{
    MR_ASSERT(range >= 0 && range < s->n_ranges);
    *first = mr_ps_range_first(t->o.num_keys, s->n_ranges, range);
    return (size_t)(mr_ps_range_first(t->o.num_keys, s->n_ranges, range + 1) - *first);
}

/* The values, and what the rule or the graph keeps beside them. */
static int n_planes(const mr_ps_table_spec *t)
{
    return t->o.update == MR_PS_GRAPH ? 1 + (t->o.graph_slots > 0) : mr_ps_rule_planes(&t->rule);
}

static size_t plane_width(const mr_ps_table_spec *t, int plane)
{
    return plane && t->o.update == MR_PS_GRAPH ? (size_t)t->o.graph_slots : (size_t)t->o.width;
}

/* All planes before it have the width of the values; only the last one of a graph may differ. */
static float *plane_of(const mr_ps_table_spec *t, const mr_ps_part *p, size_t n_rows, int plane)
{
    MR_ASSERT(p->planes && plane >= 0 && plane < n_planes(t));
    return p->planes + (size_t)plane * n_rows * (size_t)t->o.width;
}

void mr_ps_store_init(mr_ps_store *s, int n_ranges, size_t limit)
{
    *s = (mr_ps_store){.n_ranges = n_ranges, .limit = limit};
}

/* Frees a part; it has its initial values again. */
static void part_drop(mr_ps_store *s, const mr_ps_table_spec *t, mr_ps_part *p, size_t n_rows)
{
    MR_ASSERT(!p->sum == !p->seen);
    if (p->planes)
        s->used -= n_rows * mr_ps_table_row_floats(t) * sizeof(float);
    if (p->sum)
        s->used -= n_rows * ((size_t)mr_ps_table_push_width(t) * sizeof(float) + 1);
    mr_free(p->planes);
    mr_free(p->sum);
    mr_free(p->seen);
    *p = (mr_ps_part){0};
}

void mr_ps_store_drop(mr_ps_store *s, int range)
{
    uint64_t first;
    for (int i = 0; i < s->tables.n; i++)
        part_drop(s, s->tables.p[i], &s->parts.p[i][range], range_rows(s, s->tables.p[i], range, &first));
}

/* Returns all memory; `used` is 0 at the end. */
void mr_ps_store_deinit(mr_ps_store *s)
{
    for (int i = 0; i < s->n_ranges; i++)
        mr_ps_store_drop(s, i);
    for (int i = 0; i < s->tables.n; i++) {
        mr_ps_table_spec_deinit(s->tables.p[i]);
        mr_free(s->tables.p[i]);
        mr_free(s->parts.p[i]);
    }
    MR_ASSERT(s->used == 0);
    mr_vec_deinit(&s->tables);
    mr_vec_deinit(&s->parts);
}

/* Row numbers within a range must fit into 32 bits. */
mr_status *mr_ps_store_add(mr_ps_store *s, mr_ps_table_spec *t)
{
    if (t->o.num_keys / (unsigned)s->n_ranges >= UINT32_MAX - 1)
        return mr_invalid("Table '%s': %llu keys are too many for %d ranges; start the manager with more num_ranges",
                          t->name, (unsigned long long)t->o.num_keys, s->n_ranges);
    mr_ps_part *parts = mr_try_calloc((size_t)s->n_ranges, sizeof *parts);
    if (!parts)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for table '%s'", t->name);
    mr_vec_push(&s->tables, t);
    mr_vec_push(&s->parts, parts);
    return NULL;
}

/* ---- memory ---- */

/* Allocates within the limit and counts it; NULL: no memory, or over the limit. */
static void *take_memory(mr_ps_store *s, size_t n_rows, size_t bytes_a_row)
{
    size_t bytes;
    MR_ASSERT(n_rows > 0);
    if (!mr_size_mul(n_rows, bytes_a_row, &bytes) ||
        (s->limit && (s->used > s->limit || bytes > s->limit - s->used)))
        return NULL;
    void *p = mr_try_alloc(bytes);
    if (p)
        s->used += bytes;
    return p;
}

static mr_status *no_memory(const mr_ps_table_spec *t, int range)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "Table '%s': no memory for range %d", t->name, range);
}

/* Initial values of all planes. */
static void begin_rows(const mr_ps_table_spec *t, float *planes, uint64_t first, size_t n_rows)
{
    mr_ps_rule_fill(planes, first, n_rows, t->o.width, t->o.start, t->o.spread, t->o.seed);
    if (t->o.update != MR_PS_GRAPH)
        mr_ps_rule_start(&t->rule, planes, n_rows);
    else if (t->o.graph_slots)
        memset(planes + n_rows * (size_t)t->o.width, 0, n_rows * (size_t)t->o.graph_slots * sizeof(float));
}

/* Allocates a part's planes, with initial values, when it is first changed. */
static mr_status *have_planes(mr_ps_store *s, int table, int range)
{
    uint64_t first;
    const mr_ps_table_spec *t = s->tables.p[table];
    mr_ps_part *p = &s->parts.p[table][range];
    size_t n = range_rows(s, t, range, &first);
    if (p->planes || n == 0)
        return NULL;
    p->planes = take_memory(s, n, mr_ps_table_row_floats(t) * sizeof(float));
    if (!p->planes)
        return no_memory(t, range);
    begin_rows(t, p->planes, first, n);
    return NULL;
}

/* Allocates the sum of a table that aggregates pushes. */
static mr_status *have_sum(mr_ps_store *s, int table, int range)
{
    uint64_t first;
    const mr_ps_table_spec *t = s->tables.p[table];
    mr_ps_part *p = &s->parts.p[table][range];
    size_t n = range_rows(s, t, range, &first), width = (size_t)mr_ps_table_push_width(t);
    if (t->o.aggregate < 2 || p->sum || n == 0)
        return NULL;
    p->sum = take_memory(s, n, width * sizeof(float) + 1);
    p->seen = p->sum ? mr_try_calloc(n, 1) : NULL;
    if (!p->seen) {
        s->used -= p->sum ? n * (width * sizeof(float) + 1) : 0;
        mr_free(p->sum);
        p->sum = NULL;
        return no_memory(t, range);
    }
    memset(p->sum, 0, n * width * sizeof(float));
    return NULL;
}

/* ---- checking ---- */

/* Checks the ends first: for a list that rises, they say whether all keys are in the range. The keys
 * come from a client, so a range may also overflow. */
mr_status *mr_ps_keys_in_range(const mr_ps_store *s, int table, int range, mr_ps_keys k)
{
    uint64_t first;
    const mr_ps_table_spec *t = s->tables.p[table];
    size_t n = range_rows(s, t, range, &first);
    if (k.n == 0)
        return NULL;
    uint64_t from = k.list ? k.list[0] : k.first;
    uint64_t last = k.list ? k.list[k.n - 1] : k.first + (k.n - 1);
    if (k.n > n || from < first || last < from || last - first >= n)
        return mr_invalid("Table '%s': keys %llu to %llu are not all in range %d, which has %zu keys from %llu on",
                          t->name, (unsigned long long)from, (unsigned long long)last, range, n,
                          (unsigned long long)first);
    return k.list ? mr_ps_keys_check(k.list, k.n, t->o.num_keys) : NULL;
}

/* *two: the operation reads a second table, which must have the same keys and width. */
static mr_status *check_algebra(const mr_ps_store *s, mr_ps_algebra what, int a, int b, bool *two)
{
    *two = what == MR_PS_DOT || what == MR_PS_AXPY || what == MR_PS_COPY || what == MR_PS_MULTIPLY;
    if ((unsigned)what > MR_PS_NORM1)
        return mr_invalid("Unknown algebra operation %d", (int)what);
    if (!*two)
        return NULL;
    if (b < 0 || b >= s->tables.n)
        return mr_error(MR_NOT_FOUND, "There is no table %d", b);
    const mr_ps_table_spec *x = s->tables.p[a], *y = s->tables.p[b];
    if (x->o.num_keys != y->o.num_keys || x->o.width != y->o.width)
        return mr_invalid("Tables '%s' and '%s' differ: %llu keys of width %d, and %llu keys of width %d", x->name,
                          y->name, (unsigned long long)x->o.num_keys, x->o.width, (unsigned long long)y->o.num_keys,
                          y->o.width);
    return NULL;
}

size_t mr_ps_change_width(const mr_ps_table_spec *t, mr_ps_change_kind kind)
{
    return kind == MR_PS_CHANGE_PUSH  ? (size_t)mr_ps_table_push_width(t)
           : kind == MR_PS_CHANGE_SET ? mr_ps_table_row_floats(t)
                                      : 0;
}

/* What it allocates stays when the check fails later on: the next change needs it too. */
mr_status *mr_ps_store_check(mr_ps_store *s, int range, const mr_ps_change *c)
{
    bool two;
    if (c->kind == MR_PS_CHANGE_NONE)
        return NULL;
    if (c->table < 0 || c->table >= s->tables.n)
        return mr_error(MR_NOT_FOUND, "There is no table %d", c->table);
    if (range < 0 || range >= s->n_ranges)
        return mr_invalid("There is no range %d: ranges are 0 to %d", range, s->n_ranges - 1);
    switch (c->kind) {
    case MR_PS_CHANGE_PUSH: MR_TRY(have_sum(s, c->table, range)); /* fallthrough */
    case MR_PS_CHANGE_SET: MR_TRY(mr_ps_keys_in_range(s, c->table, range, c->keys)); break;
    case MR_PS_CHANGE_ALGEBRA:
        MR_TRY(check_algebra(s, c->what, c->table, c->other, &two));
        if (two)
            MR_TRY(have_planes(s, c->other, range));
        break;
    default: return mr_invalid("Unknown kind of change: %d", (int)c->kind);
    }
    return have_planes(s, c->table, range);
}

/* ---- changing ---- */

/* The row of the i-th key in its range, which begins with key `first`. */
static inline size_t row_at(mr_ps_keys k, uint64_t first, size_t i)
{
    return (size_t)((k.list ? k.list[i] : k.first + i) - first);
}

/* Applies a push at once. Rules take row numbers of 32 bits in groups; a push of the whole range
 * needs no numbers. */
static void apply_push(const mr_ps_table_spec *t, mr_ps_part *p, size_t n_rows, uint64_t first, mr_ps_keys k,
                       const float *pushed)
{
    uint32_t rows[ROWS_AT_ONCE];
    size_t width = (size_t)mr_ps_table_push_width(t);
    if (!k.list && k.n == n_rows) {
        mr_ps_rule_apply(&t->rule, p->planes, n_rows, NULL, n_rows, pushed);
        return;
    }
    for (size_t i = 0; i < k.n;) {
        size_t m = MR_MIN(k.n - i, (size_t)ROWS_AT_ONCE);
        for (size_t j = 0; j < m; j++)
            rows[j] = (uint32_t)row_at(k, first, i + j);
        mr_ps_rule_apply(&t->rule, p->planes, n_rows, rows, m, pushed + i * width);
        i += m;
    }
}

/* Begins a new round of aggregation. */
static void clear_sum(const mr_ps_table_spec *t, mr_ps_part *p, size_t n_rows)
{
    memset(p->sum, 0, n_rows * (size_t)mr_ps_table_push_width(t) * sizeof(float));
    memset(p->seen, 0, n_rows);
    p->n_pushed = 0;
}

/* Ends a round: applies the mean of the pushes to every row that was in one of them. */
static void update_by_sum(const mr_ps_table_spec *t, mr_ps_part *p, size_t n_rows)
{
    size_t width = (size_t)mr_ps_table_push_width(t);
    float scale = 1 / (float)t->o.aggregate;
    for (size_t i = 0; i < n_rows; i++) {
        if (!p->seen[i])
            continue;
        for (size_t j = 0; j < width; j++)
            p->sum[i * width + j] *= scale;
        uint32_t row = (uint32_t)i;
        mr_ps_rule_apply(&t->rule, p->planes, n_rows, &row, 1, p->sum + i * width);
    }
    clear_sum(t, p, n_rows);
}

/* Adds a push to the sum; the last one of a round updates the rows. */
static void aggregate_push(const mr_ps_table_spec *t, mr_ps_part *p, size_t n_rows, uint64_t first, mr_ps_keys k,
                           const float *pushed)
{
    MR_ASSERT(p->sum && p->seen && p->n_pushed < t->o.aggregate);
    size_t width = (size_t)mr_ps_table_push_width(t);
    for (size_t i = 0; i < k.n; i++) {
        size_t row = row_at(k, first, i);
        p->seen[row] = 1;
        for (size_t j = 0; j < width; j++)
            p->sum[row * width + j] += pushed[i * width + j];
    }
    if (++p->n_pushed >= t->o.aggregate)
        update_by_sum(t, p, n_rows);
}

/* Whole rows, as mr_ps_store_read gives them out with `all`. */
static void set_rows(const mr_ps_table_spec *t, mr_ps_part *p, size_t n_rows, uint64_t first, mr_ps_keys k,
                     const float *from)
{
    for (size_t i = 0; i < k.n; i++)
        for (int j = 0; j < n_planes(t); j++) {
            size_t w = plane_width(t, j);
            memcpy(plane_of(t, p, n_rows, j) + row_at(k, first, i) * w, from, w * sizeof(float));
            from += w;
        }
}

/* Element by element, in float. b is NULL for operations on one table. */
static void apply_algebra(mr_ps_algebra what, float *a, const float *b, size_t n, double alpha)
{
    float f = (float)alpha;
    switch (what) {
    case MR_PS_SCALE:
        for (size_t i = 0; i < n; i++)
            a[i] *= f;
        break;
    case MR_PS_AXPY:
        for (size_t i = 0; i < n; i++)
            a[i] += f * b[i];
        break;
    case MR_PS_COPY: memmove(a, b, n * sizeof(float)); break;
    case MR_PS_FILL:
        for (size_t i = 0; i < n; i++)
            a[i] = f;
        break;
    case MR_PS_MULTIPLY:
        for (size_t i = 0; i < n; i++)
            a[i] *= b[i];
        break;
    default: break; /* DOT and NORM1 change nothing */
    }
}

/* The change was checked, so nothing can fail. SET drops the sum: its gradients belong to values
 * that no longer exist, and the next update must be made of whole rounds. */
void mr_ps_store_change(mr_ps_store *s, int range, const mr_ps_change *c)
{
    uint64_t first;
    if (c->kind == MR_PS_CHANGE_NONE)
        return;
    const mr_ps_table_spec *t = s->tables.p[c->table];
    mr_ps_part *p = &s->parts.p[c->table][range];
    size_t n = range_rows(s, t, range, &first);
    MR_ASSERT(n == 0 || p->planes);
    if (n == 0)
        return;
    if (c->kind == MR_PS_CHANGE_SET) {
        set_rows(t, p, n, first, c->keys, c->floats);
        if (p->sum)
            clear_sum(t, p, n);
    } else if (c->kind == MR_PS_CHANGE_ALGEBRA) {
        const float *b = c->other >= 0 && c->other < s->tables.n ? s->parts.p[c->other][range].planes : NULL;
        apply_algebra(c->what, p->planes, b, n * (size_t)t->o.width, c->alpha);
    } else if (t->o.aggregate > 1) {
        aggregate_push(t, p, n, first, c->keys, c->floats);
    } else {
        apply_push(t, p, n, first, c->keys, c->floats);
    }
}

/* ---- reading ---- */

/* Rows of a part that has no memory yet: computed from the table's options. */
static void read_beginning(const mr_ps_table_spec *t, mr_ps_keys k, bool all, float *out)
{
    size_t row = all ? mr_ps_table_row_floats(t) : (size_t)t->o.width;
    if (!all && !k.list) {
        mr_ps_rule_fill(out, k.first, k.n, t->o.width, t->o.start, t->o.spread, t->o.seed);
        return;
    }
    for (size_t i = 0; i < k.n; i++, out += row) {
        uint64_t key = k.list ? k.list[i] : k.first + i;
        if (all)
            begin_rows(t, out, key, 1); /* the planes of a single row follow each other */
        else
            mr_ps_rule_fill(out, key, 1, t->o.width, t->o.start, t->o.spread, t->o.seed);
    }
}

/* Never allocates, so a pull cannot fail for lack of memory here. */
void mr_ps_store_read(const mr_ps_store *s, int table, int range, mr_ps_keys k, bool all, float *out)
{
    uint64_t first;
    const mr_ps_table_spec *t = s->tables.p[table];
    const mr_ps_part *p = &s->parts.p[table][range];
    size_t n = range_rows(s, t, range, &first), w = (size_t)t->o.width;
    if (k.n == 0)
        return;
    if (!p->planes) {
        read_beginning(t, k, all, out);
    } else if (!all && !k.list) {
        memcpy(out, p->planes + row_at(k, first, 0) * w, k.n * w * sizeof(float));
    } else if (!all && w == 1) {
        for (size_t i = 0; i < k.n; i++)
            out[i] = p->planes[k.list[i] - first];
    } else {
        int planes = all ? n_planes(t) : 1;
        for (size_t i = 0; i < k.n; i++)
            for (int j = 0; j < planes; j++) {
                size_t pw = plane_width(t, j);
                memcpy(out, plane_of(t, p, n, j) + row_at(k, first, i) * pw, pw * sizeof(float));
                out += pw;
            }
    }
}

/* The values of rows at .. at + m - 1 of a range. If the part has no memory yet, they are computed
 * into `memory`. */
static const float *values_at(const mr_ps_table_spec *t, const mr_ps_part *p, uint64_t first, size_t at,
                              size_t m, float *memory)
{
    size_t w = (size_t)t->o.width;
    if (p->planes)
        return p->planes + at * w;
    mr_ps_rule_fill(memory, first + at, m, t->o.width, t->o.start, t->o.spread, t->o.seed);
    return memory;
}

/* Adds up in LANES sums side by side; in a single sum every addition would wait for the one before.
 * The order is fixed, so results are reproducible. */
static double reduce_run(const float *x, const float *y, size_t n)
{
    enum { LANES = 8 };
    double sums[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; y && i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += (double)x[i + k] * (double)y[i + k];
    for (; !y && i + LANES <= n; i += LANES)
        for (size_t k = 0; k < LANES; k++)
            sums[k] += fabs((double)x[i + k]);
    for (; i < n; i++)
        sum += y ? (double)x[i] * (double)y[i] : fabs((double)x[i]);
    for (size_t k = 0; k < LANES; k++)
        sum += sums[k];
    return sum;
}

/* Goes through the range in steps, so that parts without memory need none. */
mr_status *mr_ps_store_reduce(const mr_ps_store *s, int range, mr_ps_algebra what, int a, int b, double *out)
{
    bool two;
    uint64_t first;
    MR_TRY(check_algebra(s, what, a, b, &two));
    if (what != MR_PS_DOT && what != MR_PS_NORM1)
        return mr_invalid("Algebra operation %d has no result; only DOT and NORM1 have", (int)what);
    const mr_ps_table_spec *t = s->tables.p[a], *u = two ? s->tables.p[b] : t;
    const mr_ps_part *p = &s->parts.p[a][range], *q = two ? &s->parts.p[b][range] : p;
    size_t n = range_rows(s, t, range, &first), w = (size_t)t->o.width, step = MR_MAX(1, ROWS_AT_ONCE / w);
    float *x = mr_try_alloc(2 * step * w * sizeof(float));
    if (!x)
        return no_memory(t, range);
    double sum = 0;
    for (size_t i = 0; i < n; i += step) {
        size_t m = MR_MIN(step, n - i);
        const float *v = values_at(t, p, first, i, m, x);
        sum += reduce_run(v, two ? values_at(u, q, first, i, m, x + step * w) : NULL, m * w);
    }
    mr_free(x);
    *out = sum;
    return NULL;
}
