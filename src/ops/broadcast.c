/* ops/broadcast.c -- the walk over a broadcast result.
 *
 * After mr_broadcast_collapse every dimension of the walk has a size above 1, and for at least one operand it
 * cannot be merged with its inner neighbour.  In the innermost dimension each stride is 0 or 1, because operands
 * are packed: so a row of the result is, for each operand, either a run of elements or one element repeated. */
#include "ops/broadcast.h"

#include <string.h>

#include "base/memory.h"
#include "base/simd.h"

void mr_broadcast_init(mr_broadcast *b)
{
    b->n_operands = 0;
    b->rank = 0;
    b->n = 1;
    b->shape.rank = 0;
}

mr_status *mr_broadcast_add(mr_broadcast *b, int rank, const int64_t *dims)
{
    MR_ASSERT(b->n_operands < MR_BROADCAST_OPERANDS);
    if (b->n_operands == 0) {
        mr_shape_set(&b->shape, rank, dims);
    } else {
        mr_shape both;
        MR_TRY(mr_shape_broadcast(b->shape.rank, b->shape.dims, rank, dims, &both));
        mr_shape_set(&b->shape, both.rank, both.dims);
    }
    b->ranks[b->n_operands] = rank;
    b->operands[b->n_operands++] = dims;
    return NULL;
}

/* Strides of one operand, seen in the dimensions of the result. */
static void operand_strides(const mr_broadcast *b, int operand, int64_t *out)
{
    int missing = b->shape.rank - b->ranks[operand];
    int64_t step = 1;
    for (int d = b->shape.rank - 1; d >= 0; d--) {
        int64_t size = d < missing ? 1 : b->operands[operand][d - missing];
        out[d] = size == 1 ? 0 : step;
        step *= size;
    }
}

/* True if dimension d of the result continues the inner dimension that was added to the walk last, in every
 * operand: then the two can be merged. */
static bool continues_walk(const mr_broadcast *b, int made, int64_t strides[][MR_MAX_RANK], int d)
{
    for (int k = 0; k < b->n_operands; k++)
        if (strides[k][d] != b->strides[k][made] * b->dims[made])
            return false;
    return true;
}

mr_status *mr_broadcast_collapse(mr_broadcast *b)
{
    MR_TRY(mr_shape_elements(b->shape.rank, b->shape.dims, &b->n));
    b->rank = 0;
    if (b->n <= 1)
        return NULL;
    int64_t strides[MR_BROADCAST_OPERANDS][MR_MAX_RANK];
    for (int k = 0; k < b->n_operands; k++)
        operand_strides(b, k, strides[k]);
    /* Dimensions are added from the inside out, at the end of the arrays, then moved to the front. */
    int at = MR_MAX_RANK;
    for (int d = b->shape.rank - 1; d >= 0; d--) {
        if (b->shape.dims[d] == 1)
            continue;
        if (at < MR_MAX_RANK && continues_walk(b, at, strides, d)) {
            b->dims[at] *= b->shape.dims[d];
            continue;
        }
        b->dims[--at] = b->shape.dims[d];
        for (int k = 0; k < b->n_operands; k++)
            b->strides[k][at] = strides[k][d];
    }
    b->rank = MR_MAX_RANK - at;
    memmove(b->dims, b->dims + at, (size_t)b->rank * sizeof *b->dims);
    for (int k = 0; k < b->n_operands; k++)
        memmove(b->strides[k], b->strides[k] + at, (size_t)b->rank * sizeof *b->dims);
    return NULL;
}

bool mr_broadcast_direct(const mr_broadcast *b, int operand)
{
    int64_t step = 1;
    for (int d = b->rank - 1; d >= 0; d--) {
        if (b->strides[operand][d] != step)
            return false;
        step *= b->dims[d];
    }
    return true;
}

int64_t mr_broadcast_offset(const mr_broadcast *b, int operand, int64_t i)
{
    int64_t offset = 0;
    for (int d = b->rank - 1; d >= 0; d--) {
        offset += i % b->dims[d] * b->strides[operand][d];
        i /= b->dims[d];
    }
    return offset;
}

int64_t mr_broadcast_period(const mr_broadcast *b, int operand)
{
    int d = 0;
    while (d < b->rank && b->strides[operand][d] == 0)
        d++;
    int64_t period = 1;
    for (; d < b->rank; d++)
        period *= b->dims[d];
    return period;
}

/* ---- moving along the rows of a walk ---- */

void mr_broadcast_row_init(const mr_broadcast *b, int64_t row, mr_broadcast_row *out)
{
    MR_ASSERT(b->rank > 0);
    memset(out->offsets, 0, sizeof out->offsets);
    for (int d = b->rank - 2; d >= 0; d--) {
        out->index[d] = row % b->dims[d];
        row /= b->dims[d];
        for (int k = 0; k < b->n_operands; k++)
            out->offsets[k] += out->index[d] * b->strides[k][d];
    }
}

void mr_broadcast_row_next(const mr_broadcast *b, mr_broadcast_row *row)
{
    for (int d = b->rank - 2; d >= 0; d--) {
        bool carry = ++row->index[d] == b->dims[d];
        for (int k = 0; k < b->n_operands; k++)
            row->offsets[k] += b->strides[k][d] * (carry ? 1 - b->dims[d] : 1);
        if (!carry)
            return;
        row->index[d] = 0;
    }
}

void mr_broadcast_offsets(const mr_broadcast *b, int operand, int64_t first, int64_t n,
                          int64_t *out)
{
    if (b->rank == 0) {
        for (int64_t i = 0; i < n; i++)
            out[i] = 0;
        return;
    }
    int64_t width = b->dims[b->rank - 1], step = b->strides[operand][b->rank - 1],
            at = first % width;
    mr_broadcast_row row;
    mr_broadcast_row_init(b, first / width, &row);
    for (int64_t i = 0; i < n; mr_broadcast_row_next(b, &row), at = 0)
        for (; at < width && i < n; at++)
            out[i++] = row.offsets[operand] + at * step;
}

#define SPLAT(T)                                      \
    do {                                              \
        T v, *d = dst;                                \
        memcpy(&v, value, sizeof v);                  \
        for (int64_t i = 0; i < n; i++)               \
            d[i] = v;                                 \
    } while (0)

typedef struct wide { /* a complex128, as bytes */
    uint64_t lo, hi;
} wide;

MR_CLONES void mr_splat(void *dst, const void *value, size_t elem_bytes, int64_t n)
{
    switch (elem_bytes) {
    case 1: memset(dst, *(const uint8_t *)value, (size_t)n); return;
    case 2: SPLAT(uint16_t); return;
    case 4: SPLAT(uint32_t); return;
    case 8: SPLAT(uint64_t); return;
    default: MR_ASSERT(elem_bytes == 16); SPLAT(wide); return;
    }
}

void mr_broadcast_gather(const mr_broadcast *b, int operand, size_t elem_bytes, const void *src,
                         int64_t first, int64_t n, void *dst)
{
    if (b->rank == 0) {
        mr_splat(dst, src, elem_bytes, n);
        return;
    }
    int64_t width = b->dims[b->rank - 1], step = b->strides[operand][b->rank - 1],
            at = first % width;
    char *to = dst;
    mr_broadcast_row row;
    mr_broadcast_row_init(b, first / width, &row);
    while (n > 0) {
        int64_t run = MR_MIN(n, width - at);
        const char *from =
            (const char *)src + (size_t)(row.offsets[operand] + at * step) * elem_bytes;
        if (step == 0)
            mr_splat(to, from, elem_bytes, run);
        else
            memcpy(to, from, (size_t)run * elem_bytes);
        to += (size_t)run * elem_bytes;
        n -= run;
        at = 0;
        mr_broadcast_row_next(b, &row);
    }
}
