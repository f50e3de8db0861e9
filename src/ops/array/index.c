/* ops/array/index.c -- tensors of indices: reading, checking and using them. */
#include "ops/array/index.h"

#include <stdio.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "ops/first_error.h"
#include "run/scratch.h"

int64_t mr_index_at(const mr_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case MR_UINT8: return MR_DATA(const uint8_t, t)[i];
    case MR_INT16: return MR_DATA(const int16_t, t)[i];
    case MR_UINT16: return MR_DATA(const uint16_t, t)[i];
    case MR_INT32: return MR_DATA(const int32_t, t)[i];
    default: MR_ASSERT(t->dtype == MR_INT64); return MR_DATA(const int64_t, t)[i];
    }
}

#define READ(T)                                \
    for (int64_t i = 0; i < t->n; i++)         \
    out[i] = MR_DATA(const T, t)[i]

void mr_index_read(const mr_tensor *t, int64_t *out)
{
    switch (t->dtype) {
    case MR_UINT8: READ(uint8_t); return;
    case MR_INT16: READ(int16_t); return;
    case MR_UINT16: READ(uint16_t); return;
    case MR_INT32: READ(int32_t); return;
    default: MR_ASSERT(t->dtype == MR_INT64); READ(int64_t); return;
    }
}

const char *mr_index_place(char *buf, size_t n, int rank, const int64_t *dims, int64_t i)
{
    int64_t at[MR_MAX_RANK];
    if (rank == 0) {
        buf[0] = '\0';
        return buf;
    }
    for (int d = rank - 1; d >= 0; d--) {
        at[d] = i % dims[d];
        i /= dims[d];
    }
    return mr_shape_text(buf, n, rank, at);
}

static mr_status *bad_index(const mr_tensor *t, const char *what, int64_t i, int64_t limit)
{
    return mr_invalid("%s%s = %lld is not in [0, %lld)", what, MR_INDEX_PLACE(t->rank, t->dims, i),
                      (long long)mr_index_at(t, i), (long long)limit);
}

/* One comparison per element: a negative index is a very large unsigned number. */
#define FIRST_BAD(T)                                                   \
    static int64_t first_bad_##T(const T *v, int64_t n, int64_t limit) \
    {                                                                  \
        for (int64_t i = 0; i < n; i++)                                \
            if ((uint64_t)(int64_t)v[i] >= (uint64_t)limit)            \
                return i;                                              \
        return -1;                                                     \
    }
FIRST_BAD(uint8_t)
FIRST_BAD(int16_t)
FIRST_BAD(uint16_t)
FIRST_BAD(int32_t)
FIRST_BAD(int64_t)

mr_status *mr_index_check(const mr_tensor *t, const char *what, int64_t limit)
{
    int64_t bad;
    switch (t->dtype) {
    case MR_UINT8: bad = first_bad_uint8_t(t->data, t->n, limit); break;
    case MR_INT16: bad = first_bad_int16_t(t->data, t->n, limit); break;
    case MR_UINT16: bad = first_bad_uint16_t(t->data, t->n, limit); break;
    case MR_INT32: bad = first_bad_int32_t(t->data, t->n, limit); break;
    default: bad = first_bad_int64_t(t->data, t->n, limit); break;
    }
    return bad < 0 ? NULL : bad_index(t, what, bad, limit);
}

static mr_status *new_rows(const mr_run *r, int64_t n, int64_t **out)
{
    size_t bytes;
    *out = mr_size_mul((size_t)n, sizeof(int64_t), &bytes) ? mr_scratch(r, bytes) : NULL;
    return *out ? NULL
                : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld indices", (long long)n);
}

mr_status *mr_index_load(const mr_run *r, const mr_tensor *t, const char *what, int64_t limit, int64_t **out)
{
    *out = NULL;
    MR_TRY(mr_index_check(t, what, limit));
    if (t->n == 0)
        return NULL;
    MR_TRY(new_rows(r, t->n, out));
    mr_index_read(t, *out);
    return NULL;
}

/* ---- indices of several dimensions ---- */

static mr_status *bad_tuple(const mr_tensor *t, int64_t i, int rank, const int64_t *dims,
                            const char *what)
{
    int k = (int)t->dims[t->rank - 1];
    mr_str tuple = {0};
    for (int d = 0; d < k; d++)
        mr_str_printf(&tuple, "%s%lld", d ? ", " : "", (long long)mr_index_at(t, i * k + d));
    mr_status *st = mr_invalid("indices%s = [%s] does not index into %s %s",
                               MR_INDEX_PLACE(t->rank - 1, t->dims, i), mr_str_z(&tuple), what,
                               MR_SHAPE_TEXT(rank, dims));
    mr_str_deinit(&tuple);
    return st;
}

mr_status *mr_index_load_nd(const mr_run *r, const mr_tensor *t, int rank, const int64_t *dims,
                            const char *what, int64_t **out)
{
    int64_t k = t->dims[t->rank - 1], n = 1;
    MR_ASSERT(k <= rank);
    for (int d = 0; d < t->rank - 1; d++)
        n *= t->dims[d];
    *out = NULL;
    MR_TRY(new_rows(r, n, out));
    for (int64_t i = 0; i < n; i++) {
        int64_t row = 0;
        for (int64_t d = 0; d < k; d++) {
            int64_t v = mr_index_at(t, i * k + d);
            if ((uint64_t)v >= (uint64_t)dims[d]) {
                mr_scratch_free(*out);
                *out = NULL;
                return bad_tuple(t, i, rank, dims, what);
            }
            row = row * dims[d] + v;
        }
        (*out)[i] = row;
    }
    return NULL;
}

mr_status *mr_infer_scatter_nd(mr_infer *c, const mr_pshape *indices, const mr_pshape *updates, const mr_pshape *out,
                               const char *what)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank_at_least(c, indices, 1, &ignored));
    MR_TRY(mr_infer_rank_at_least(c, updates, 1, &ignored));
    if (mr_infer_elements(out) == 0 && (mr_infer_elements(indices) > 0 || mr_infer_elements(updates) > 0))
        return mr_invalid("Indices and updates specified for empty output shape");
    if (indices->rank < 0 || updates->rank < 0 || mr_infer_dim(indices, -1) < 0)
        return NULL;
    int outer = indices->rank - 1;
    int k = (int)MR_MIN(mr_infer_dim(indices, -1), MR_MAX_RANK);
    mr_status *st = mr_infer_merge(c, mr_infer_sub(c, indices, 0, outer), mr_infer_sub(c, updates, 0, outer), &ignored);
    if (st)
        return mr_status_prepend(st, "The outer %d dimensions of indices.shape=%s must match the outer %d dimensions "
                                     "of updates.shape=%s: ",
                                 outer, MR_PSHAPE_TEXT(indices), outer, MR_PSHAPE_TEXT(updates));
    if (out->rank < 0)
        return NULL;
    st = mr_infer_merge(c, mr_infer_sub(c, out, k, MR_MAX_RANK), mr_infer_sub(c, updates, outer, MR_MAX_RANK),
                        &ignored);
    return st ? mr_status_prepend(st, "The inner %lld dimensions of %s.shape=%s must match the inner %d dimensions of "
                                      "updates.shape=%s: ",
                                  (long long)(out->rank - mr_infer_dim(indices, -1)), what, MR_PSHAPE_TEXT(out),
                                  updates->rank - outer, MR_PSHAPE_TEXT(updates))
              : NULL;
}

mr_status *mr_scatter_nd_check(const mr_tensor *indices, const mr_tensor *updates, int rank, const int64_t *dims)
{
    int lead = indices->rank - 1;
    if (rank < 1)
        return mr_invalid("Output must be at least 1-D, got shape: %s", MR_SHAPE_TEXT(rank, dims));
    if (lead < 0)
        return mr_invalid("Indices shape must have rank at least one. Found:%s", MR_TENSOR_SHAPE(indices));
    if (updates->rank < 1)
        return mr_invalid("Updates shape must have rank at least one. Found:%s", MR_TENSOR_SHAPE(updates));
    bool empty = false;
    for (int d = 0; d < rank; d++)
        empty = empty || dims[d] == 0;
    if (empty && (indices->n > 0 || updates->n > 0))
        return mr_invalid("Indices and updates specified for empty output shape");
    int64_t k = indices->dims[lead];
    for (int d = 0; d < lead; d++)
        if (d >= updates->rank || updates->dims[d] != indices->dims[d])
            return mr_invalid("Outer dimensions of indices and update must match. Indices shape: %s, updates shape:%s",
                              MR_TENSOR_SHAPE(indices), MR_TENSOR_SHAPE(updates));
    if (k > rank || updates->rank - lead != rank - k)
        return mr_invalid("Inner dimensions of output shape must match inner dimensions of updates shape. Output: %s "
                          "updates: %s",
                          MR_SHAPE_TEXT(rank, dims), MR_TENSOR_SHAPE(updates));
    for (int d = lead; d < updates->rank; d++)
        if (updates->dims[d] != dims[k + d - lead])
            return mr_invalid("The inner %lld dimensions of output.shape=%s must match the inner %d dimensions of "
                              "updates.shape=%s",
                              (long long)(rank - k), MR_SHAPE_TEXT(rank, dims), updates->rank - lead,
                              MR_TENSOR_SHAPE(updates));
    return NULL;
}

/* ---- gathering rows ---- */

enum { AHEAD = 8 };

typedef struct gather {
    const mr_gather *g;
    int64_t src_rows, repeat;
    size_t row_bytes;
    mr_first_error failed;
} gather;

/* The rows of a part of the work: where they come from and go to. */
typedef struct stretch {
    const int64_t *rows;
    int64_t n;      /* the number of rows, all of one set */
    int64_t dst, src; /* row numbers */
    int64_t next;     /* how many rows after src the next set with the same rows begins; 0: it has others */
} stretch;

static stretch stretch_at(const gather *c, int64_t i, int64_t end)
{
    int64_t n = c->g->n, set = i / n, first = i % n;
    return (stretch){c->g->rows + set / c->repeat * n + first, MR_MIN(n - first, end - i), i,
                     set * c->src_rows, (set + 1) % c->repeat ? c->src_rows : 0};
}

/* A row may be anywhere: the memory is asked for some rows before their turn. Of a long row the CPU fetches the rest
 * by itself. */
static void prefetch_row(const char *row, size_t bytes)
{
    for (size_t at = 0; at < bytes && at < 512; at += 64)
        __builtin_prefetch(row + at);
}

static void copy_rows(const gather *c, stretch s, size_t bytes)
{
    char *d = (char *)c->g->dst->data + (size_t)s.dst * bytes;
    const char *src = (const char *)c->g->src->data + (size_t)s.src * bytes;
    for (int64_t i = 0; i < s.n; i++, d += bytes) {
        if (i + AHEAD < s.n && s.rows[i + AHEAD] >= 0)
            prefetch_row(src + (size_t)s.rows[i + AHEAD] * bytes, bytes);
        if (MR_LIKELY(s.rows[i] >= 0))
            memcpy(d, src + (size_t)s.rows[i] * bytes, bytes);
        else
            memset(d, 0, bytes);
    }
}

/* The same for rows as small as an element: several of them share what is fetched, so it is the next set that is asked
 * for. */
static inline __attribute__((always_inline)) void copy_elements(const gather *c, stretch s, size_t bytes)
{
    char *d = (char *)c->g->dst->data + (size_t)s.dst * bytes;
    const char *src = (const char *)c->g->src->data + (size_t)s.src * bytes;
    size_t ahead = (size_t)s.next * bytes;
    for (int64_t i = 0; i < s.n; i++, d += bytes) {
        const char *from = src + s.rows[i] * (int64_t)bytes;
        if (MR_LIKELY(s.rows[i] >= 0)) {
            __builtin_prefetch(from + ahead);
            memcpy(d, from, bytes);
        } else
            memset(d, 0, bytes);
    }
}

/* Copies strings and handles; a fresh tensor holds empty ones. */
static mr_status *copy_objects(const gather *c, stretch s)
{
    int64_t inner = c->g->inner;
    for (int64_t i = 0; i < s.n; i++)
        if (s.rows[i] >= 0)
            MR_TRY(mr_tensor_try_copy_elements(c->g->dst, (s.dst + i) * inner, c->g->src,
                                               (s.src + s.rows[i]) * inner, inner));
    return NULL;
}

static void gather_part(void *ctx, int64_t begin, int64_t end)
{
    gather *c = ctx;
    bool plain = mr_dtype_is_plain(c->g->dst->dtype);
    while (begin < end && !mr_first_error_any(&c->failed)) {
        stretch s = stretch_at(c, begin, end);
        if (!plain)
            mr_first_error_note(&c->failed, copy_objects(c, s));
        else if (c->row_bytes == 4)
            copy_elements(c, s, 4);
        else if (c->row_bytes == 8)
            copy_elements(c, s, 8);
        else if (c->row_bytes == 1)
            copy_elements(c, s, 1);
        else if (c->row_bytes == 16)
            copy_elements(c, s, 16);
        else
            copy_rows(c, s, c->row_bytes);
        begin += s.n;
    }
}

mr_status *mr_gather_rows(mr_run *r, const mr_gather *g, int64_t sets, int64_t src_rows, int64_t repeat)
{
    gather c = {g, src_rows, repeat, (size_t)g->inner * mr_dtype_size(g->dst->dtype), {NULL}};
    if (sets * g->n == 0 || g->inner == 0)
        return NULL;
    mr_run_for(r, sets * g->n, 3 + 0.15 * (double)c.row_bytes, gather_part, &c);
    return mr_first_error_take(&c.failed);
}
