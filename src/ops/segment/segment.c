/* ops/segment/segment.c -- joins rows by segment.
 *
 * The first row of a segment is copied and the others are combined with it, so no operation needs a
 * neutral element.  Which rows are first is determined once, before the columns are divided over
 * threads. */
#include "ops/segment/segment.h"

#include <float.h>

#include "base/memory.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"

enum {
    CHUNK = 512, /* columns at a time: a row of them in any type fits on the stack */
    AHEAD = 16,  /* rows that are fetched before their turn */
    MAX_RUN = 8, /* so few that the CPU still reads consecutive rows as one stream */
};

typedef struct job {
    const mr_segments *s;
    const bool *first;     /* row k is the first of its segment */
    const int64_t *counts; /* rows of each segment */
    int64_t width, segments;
    size_t elem_bytes; /* of data */
    mr_dtype type; /* the type in which rows are combined: float for 16-bit floats */
    mr_update_loop *loop;
    char *sums;
    mr_tensor *out;
} job;

/* ---- scaling ---- */

#define DIVIDE(E, name, number, S, C, n_type)                                        \
    case MR_##E:                                                                     \
        for (int64_t i = 0; i < n; i++)                                              \
            ((S *)p)[i] = (S)((n_type)((S *)p)[i] / (n_type)by);                     \
        return;

/* Integers are divided in 64 bits, because a count may not fit their type. */
static void divide_row(mr_dtype t, void *p, int64_t n, double by)
{
    switch (t) {
        MR_TYPE_FLOAT(DIVIDE, float)
        MR_TYPE_DOUBLE(DIVIDE, double)
        MR_TYPE_COMPLEX64(DIVIDE, mr_c64)
        MR_TYPE_COMPLEX128(DIVIDE, mr_c128)
        MR_SIGNED(DIVIDE, int64_t)
        MR_UNSIGNED(DIVIDE, uint64_t)
        MR_TYPE_QINT8(DIVIDE, int64_t)
        MR_TYPE_QUINT8(DIVIDE, int64_t)
        MR_TYPE_QINT32(DIVIDE, int64_t)
    default: MR_ASSERT(false);
    }
}

static void scale_segment(const job *j, char *sum, int64_t n, int64_t count)
{
    if (count > 1 && j->s->scale == MR_SEGMENT_MEAN)
        divide_row(j->type, sum, n, (double)count);
    else if (count > 1 && j->s->scale == MR_SEGMENT_SQRT_N)
        divide_row(j->type, sum, n, sqrt((double)count));
}

static void multiply_row(mr_dtype t, void *p, int64_t n, double by)
{
    for (int64_t i = 0; t == MR_FLOAT && i < n; i++)
        ((float *)p)[i] *= (float)by;
    for (int64_t i = 0; t == MR_DOUBLE && i < n; i++)
        ((double *)p)[i] *= by;
}

/* ---- empty segments ---- */

#define EXTREME(E, name, number, S, C, low, high) \
    case MR_##E: *(S *)out = empty == MR_EMPTY_LOWEST ? (S)(low) : (S)(high); return;

static void extreme_value(mr_dtype t, mr_segment_empty empty, void *out)
{
    switch (t) {
        MR_TYPE_FLOAT(EXTREME, -FLT_MAX, FLT_MAX)
        MR_TYPE_DOUBLE(EXTREME, -DBL_MAX, DBL_MAX)
        MR_TYPE_INT8(EXTREME, INT8_MIN, INT8_MAX)
        MR_TYPE_INT16(EXTREME, INT16_MIN, INT16_MAX)
        MR_TYPE_INT32(EXTREME, INT32_MIN, INT32_MAX)
        MR_TYPE_INT64(EXTREME, INT64_MIN, INT64_MAX)
        MR_TYPE_UINT8(EXTREME, 0, UINT8_MAX)
        MR_TYPE_UINT16(EXTREME, 0, UINT16_MAX)
        MR_TYPE_UINT32(EXTREME, 0, UINT32_MAX)
        MR_TYPE_UINT64(EXTREME, 0, UINT64_MAX)
    case MR_HALF: ((mr_half *)out)->bits = empty == MR_EMPTY_LOWEST ? 0xfbff : 0x7bff; return;
    case MR_BFLOAT16: ((mr_bf16 *)out)->bits = empty == MR_EMPTY_LOWEST ? 0xff7f : 0x7f7f; return;
    default: MR_ASSERT(false);
    }
}

static mr_status *fill_empty(mr_run *r, mr_segment_empty empty, mr_tensor *out)
{
    char value[16] = {0};
    float one = 1;
    if (empty == MR_EMPTY_ONE)
        mr_dtype_convert(MR_FLOAT, &one, (mr_dtype)out->dtype, value, 1, false);
    else if (empty != MR_EMPTY_ZERO)
        extreme_value((mr_dtype)out->dtype, empty, value);
    return mr_move_fill(r, out, 0, value, out->n);
}

/* ---- joining ---- */

/* Columns at..at+n of row k in the type and with the weight in which they are combined: in place if possible,
 * otherwise in `room`. */
static const void *row_part(const job *j, int64_t k, int64_t at, int64_t n, void *room)
{
    const mr_segments *s = j->s;
    mr_dtype t = (mr_dtype)s->data->dtype;
    int64_t row = s->rows ? mr_segment_id(s->rows, k) : k;
    const char *from =
        (const char *)s->data->data + (size_t)(row * j->width + at) * mr_dtype_size(t);
    if (t == j->type && !s->weights)
        return from;
    if (t == j->type)
        memcpy(room, from, (size_t)n * mr_dtype_size(t));
    else
        mr_dtype_convert(t, from, j->type, room, n, false);
    if (s->weights)
        multiply_row(j->type, room, n, s->weights[k]);
    return room;
}

/* Chosen rows are anywhere: the memory is asked for row k before it is needed. */
static void prefetch_row(const job *j, int64_t k, int64_t at, int64_t n)
{
    const mr_segments *s = j->s;
    if (!s->rows || k >= s->n)
        return;
    size_t size = j->elem_bytes;
    const char *from = (const char *)s->data->data + (size_t)(mr_segment_id(s->rows, k) * j->width + at) * size;
    for (size_t i = 0; i < (size_t)n * size; i += 64)
        __builtin_prefetch(from + i);
}

typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));

/* sum = sum + from[0] + from[1] ..; without the old sum if `fresh`. A piece of the sum stays in registers for all rows; the
 * order of the additions is that of the rows. */
MR_CLONES static void sum_rows(float *sum, const float *const *from, int rows, int64_t n, bool fresh)
{
    enum { L = sizeof(lanes) / sizeof(float) };
    int64_t c = 0;
    for (; c + 4 * L <= n; c += 4 * L) {
        const lanes *start = (const lanes *)((fresh ? from[0] : sum) + c);
        lanes a0 = start[0], a1 = start[1], a2 = start[2], a3 = start[3];
        for (int k = fresh; k < rows; k++) {
            const lanes *row = (const lanes *)(from[k] + c);
            a0 += row[0];
            a1 += row[1];
            a2 += row[2];
            a3 += row[3];
        }
        lanes *to = (lanes *)(sum + c);
        to[0] = a0, to[1] = a1, to[2] = a2, to[3] = a3;
    }
    for (; c + L <= n; c += L) {
        lanes a = *(const lanes *)((fresh ? from[0] : sum) + c);
        for (int k = fresh; k < rows; k++)
            a += *(const lanes *)(from[k] + c);
        *(lanes *)(sum + c) = a;
    }
    for (; c < n; c++) {
        float a = fresh ? from[0][c] : sum[c];
        for (int k = fresh; k < rows; k++)
            a += from[k][c];
        sum[c] = a;
    }
}

static bool is_plain_float_sum(const job *j)
{
    return j->s->kind == MR_UPDATE_ADD && j->s->data->dtype == MR_FLOAT && !j->s->weights;
}

/* Runs of rows of one segment, as sorted ids have them. */
static void join_float_sums(const job *j, int64_t at, int64_t n)
{
    const mr_segments *s = j->s;
    const float *data = MR_DATA(float, s->data), *from[MAX_RUN];
    for (int64_t k = 0; k < s->n;) {
        int64_t first = k, id = mr_segment_id(s->ids, k);
        int rows = 0;
        for (; k < s->n && rows < MAX_RUN && mr_segment_id(s->ids, k) == id; k++) {
            prefetch_row(j, k + AHEAD, at, n);
            from[rows++] = data + (s->rows ? mr_segment_id(s->rows, k) : k) * j->width + at;
        }
        if (id >= 0)
            sum_rows((float *)j->sums + id * j->width + at, from, rows, n, j->first[first]);
    }
}

static void join_chunk(const job *j, int64_t at, int64_t n)
{
    if (is_plain_float_sum(j)) {
        join_float_sums(j, at, n);
        return;
    }
    double room[2 * CHUNK];
    size_t size = mr_dtype_size(j->type), bytes = (size_t)n * size;
    for (int64_t k = 0; k < j->s->n; k++) {
        int64_t id = mr_segment_id(j->s->ids, k);
        prefetch_row(j, k + AHEAD, at, n);
        if (id < 0)
            continue;
        char *sum = j->sums + (size_t)(id * j->width + at) * size;
        const void *row = row_part(j, k, at, n, room);
        if (j->first[k])
            memcpy(sum, row, bytes);
        else
            j->loop(sum, row, n);
    }
}

/* Converts sums to results: scales them and stores them in the output's type. */
static void finish_chunk(const job *j, int64_t at, int64_t n)
{
    if (j->s->scale == MR_SEGMENT_PLAIN && (mr_dtype)j->out->dtype == j->type)
        return;
    size_t size = mr_dtype_size(j->type);
    mr_dtype t = (mr_dtype)j->out->dtype;
    for (int64_t id = 0; id < j->segments; id++) {
        char *sum = j->sums + (size_t)(id * j->width + at) * size;
        if (j->counts[id] == 0)
            continue;
        scale_segment(j, sum, n, j->counts[id]);
        if (t != j->type)
            mr_dtype_convert(j->type, sum, t,
                             (char *)j->out->data + (size_t)(id * j->width + at) * mr_dtype_size(t),
                             n, false);
    }
}

static void join_columns(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t at = begin; at < end; at += CHUNK) {
        join_chunk(j, at, MR_MIN(CHUNK, end - at));
        finish_chunk(j, at, MR_MIN(CHUNK, end - at));
    }
}

/* Returns how many segments have rows. Consecutive rows of one segment are counted together: adding 1 to the same place
 * again and again would wait for the last addition each time. */
static int64_t count_rows(const mr_segments *s, bool *first, int64_t *counts)
{
    int64_t used = 0;
    for (int64_t k = 0, end; k < s->n; k = end) {
        int64_t id = mr_segment_id(s->ids, k);
        for (end = k + 1; end < s->n && mr_segment_id(s->ids, end) == id;)
            end++;
        if (id < 0)
            continue;
        first[k] = counts[id] == 0;
        used += first[k];
        counts[id] += end - k;
    }
    return used;
}

mr_status *mr_segments_join(mr_run *r, const mr_segments *s, mr_tensor *out)
{
    mr_status *st = NULL;
    mr_dtype t = (mr_dtype)out->dtype;
    bool wide = t == MR_HALF || t == MR_BFLOAT16;
    mr_tensor *sums = NULL, *counted = NULL, *firsts = NULL; /* in the device's memory: a warm step calls no malloc */
    if (out->n == 0)
        return NULL;
    MR_GO(mr_run_temp(r, MR_INT64, 1, &out->dims[0], &counted));
    MR_GO(mr_run_temp(r, MR_BOOL, 1, (const int64_t[]){s->n + 1}, &firsts));
    mr_tensor_zero(counted);
    mr_tensor_zero(firsts);
    int64_t *counts = counted->data;
    bool *first = firsts->data;
    if (count_rows(s, first, counts) < out->dims[0])
        MR_GO(fill_empty(r, s->empty, out));
    if (wide)
        MR_GO(mr_run_temp(r, MR_FLOAT, out->rank, out->dims, &sums));
    job j = {s, first, counts, out->n / out->dims[0], out->dims[0], mr_dtype_size((mr_dtype)s->data->dtype), wide ? MR_FLOAT : t};
    j.loop = mr_update_find(s->kind, j.type);
    j.sums = wide ? sums->data : out->data;
    j.out = out;
    mr_run_for(r, j.width, 1.0 + (double)s->n, join_columns, &j);
out:
    mr_tensor_unref(counted);
    mr_tensor_unref(firsts);
    mr_tensor_unref(sums);
    return st;
}

mr_status *mr_segments_output(mr_run *r, int i, const mr_tensor *data, int lead, int64_t n,
                              mr_tensor **out)
{
    mr_shape shape;
    mr_shape_set(&shape, 1, &n);
    for (int d = lead; d < data->rank; d++)
        MR_TRY(mr_shape_push(&shape, data->dims[d]));
    return mr_run_output(r, i, shape.rank, shape.dims, out);
}

/* The number of segments is *segments or, if that is negative, the last id plus one.  Ids that are larger or decrease
 * are errors, found in the same order as in TensorFlow. */
mr_status *mr_segments_sorted(const mr_tensor *ids, int64_t *segments)
{
    if (ids->rank != 1)
        return mr_invalid("segment_ids should be a vector.");
    int64_t last = ids->n > 0 ? mr_segment_id(ids, ids->n - 1) : -1;
    if (last == INT64_MAX)
        return mr_invalid("segment id %lld is too large", (long long)last);
    if (*segments >= 0 && last >= *segments)
        return mr_invalid("segment ids must be < num_segments");
    if (*segments < 0)
        *segments = last + 1;
    if (*segments < 0 || (*segments == 0 && ids->n > 0))
        return mr_invalid("segment ids must be >= 0");
    for (int64_t i = 0; i < ids->n; i++) { /* a run of equal ids is checked when its end is found */
        int64_t id = mr_segment_id(ids, i), next = i + 1 < ids->n ? mr_segment_id(ids, i + 1) : INT64_MAX;
        if (next == id)
            continue;
        if (next < id)
            return mr_invalid("segment ids are not increasing");
        if (id < 0 || id >= *segments)
            return mr_invalid("Segment id %lld out of range [0, %lld), possibly because 'segment_ids' input is not "
                              "sorted.",
                              (long long)id, (long long)*segments);
    }
    return NULL;
}

/* ---- gradients ---- */

mr_out mr_segment_mask(mr_grad *g, mr_out mask, mr_out rows)
{
    mr_scope *s = g->s;
    mr_out more = mr_emit(s, "Sub", mr_emit(s, "Rank", rows), mr_emit(s, "Rank", mask));
    mr_out one = mr_const_vec_i32(s, 1, (int32_t[]){1});
    mr_out ones = mr_emit(s, "Fill", mr_emit(s, "Reshape", more, one), mr_const_i32(s, 1));
    mr_out shape = mr_emit(s, "ConcatV2", mr_emit(s, "Shape", mask), ones, mr_const_i32(s, 0));
    return mr_emit(s, "Reshape", mask, shape);
}

mr_out mr_segment_spread(mr_grad *g, mr_out from, mr_out ids)
{
    mr_out some = mr_emit(g->s, "Maximum", ids, mr_scalar_like(g, 0, ids));
    return mr_emit(g->s, "GatherV2", from, some, mr_const_i32(g->s, 0));
}

mr_out mr_cast(mr_grad *g, mr_out v, mr_dtype t)
{
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(t)}), v);
}

mr_out mr_dim0(mr_grad *g, mr_out v)
{
    mr_out zero = mr_const_i32(g->s, 0);
    return mr_emit(g->s, "GatherV2", mr_shape_of(g, v), zero, zero);
}
