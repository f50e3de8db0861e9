/* tensor/shape.c -- shapes: their size, their text, broadcasting, and partly known shapes.
 *
 * A partly known shape is compared dimension by dimension; all operations follow from two small
 * rules at the top, what_both_say and what_holds_for_both. Results that add nothing to an argument
 * are that argument, so a graph whose shapes are settled allocates nothing here. */
#include "tensor/shape.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"

/* ---- known shapes ---------------------------------------------------------------------------- */

void mr_shape_set(mr_shape *s, int rank, const int64_t *dims)
{
    MR_ASSERT(rank >= 0 && rank <= MR_MAX_RANK);
    s->rank = rank;
    if (rank)
        memmove(s->dims, dims, (size_t)rank * sizeof(*dims));
}

mr_status *mr_shape_push(mr_shape *s, int64_t dim)
{
    if (s->rank >= MR_MAX_RANK)
        return mr_invalid("a shape has at most %d dimensions", MR_MAX_RANK);
    s->dims[s->rank++] = dim;
    return NULL;
}

bool mr_shape_eq(int rank_a, const int64_t *a, int rank_b, const int64_t *b)
{
    return rank_a == rank_b && (rank_a <= 0 || memcmp(a, b, (size_t)rank_a * sizeof(*a)) == 0);
}

mr_status *mr_shape_elements(int rank, const int64_t *dims, int64_t *out)
{
    int64_t product = 1, n = 1; /* of the dims that are not 0, and whether all are not */
    if (MR_UNLIKELY(rank < 0 || rank > MR_MAX_RANK))
        return mr_invalid("a shape has 0 to %d dimensions, not %d", MR_MAX_RANK, rank);
    for (int i = 0; i < rank; i++) {
        if (MR_UNLIKELY(dims[i] < 0))
            return mr_invalid("shape %s: dimension %d is negative", MR_SHAPE_TEXT(rank, dims), i);
        if (dims[i] == 0)
            n = 0;
        else if (MR_UNLIKELY(!mr_i64_mul(product, dims[i], &product)))
            return mr_invalid("shape %s has too many elements", MR_SHAPE_TEXT(rank, dims));
    }
    *out = n ? product : 0;
    return NULL;
}

/* Clients match this text. */
static mr_status *incompatible_shapes(int rank_a, const int64_t *a, int rank_b, const int64_t *b)
{
    return mr_invalid("Incompatible shapes: %s vs. %s", MR_SHAPE_TEXT(rank_a, a),
                      MR_SHAPE_TEXT(rank_b, b));
}

/* Dimension i from the right; missing ones are 1. */
static int64_t from_right(int rank, const int64_t *dims, int i)
{
    return i < rank ? dims[rank - 1 - i] : 1;
}

mr_status *mr_shape_broadcast(int rank_a, const int64_t *a, int rank_b, const int64_t *b,
                              mr_shape *out)
{
    int rank = MR_MAX(rank_a, rank_b);
    MR_ENSURE(rank_a >= 0 && rank_b >= 0 && rank <= MR_MAX_RANK);
    for (int i = 0; i < rank; i++) { /* looked at before written, as out may be one of them */
        int64_t x = from_right(rank_a, a, i), y = from_right(rank_b, b, i);
        if (x != y && x != 1 && y != 1)
            return incompatible_shapes(rank_a, a, rank_b, b);
    }
    for (int i = 0; i < rank; i++) {
        int64_t x = from_right(rank_a, a, i), y = from_right(rank_b, b, i);
        out->dims[rank - 1 - i] = x == 1 ? y : x; /* 0 against 1 is 0 */
    }
    out->rank = rank;
    return NULL;
}

mr_status *mr_axis_resolve(int64_t axis, int rank, int *out)
{
    MR_ASSERT(rank >= 0);
    if (axis < -rank || axis >= rank)
        return mr_invalid("axis %" PRId64 " is not in [%d, %d)", axis, -rank, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

enum { DIM_TEXT = 24 }; /* a separator, a sign, 19 digits and a NUL */

/* One dimension with the separator before it. Only partly known shapes have a '?'. */
static int dim_text(char *buf, int i, int64_t dim, bool partial)
{
    const char *before = i ? "," : "";
    if (partial && dim < 0)
        return snprintf(buf, DIM_TEXT, "%s?", before);
    return snprintf(buf, DIM_TEXT, "%s%" PRId64, before, dim);
}

/* "[2,?]" appended to a string that grows. */
static void print_dims(mr_str *out, int rank, const int64_t *dims, bool partial)
{
    char one[DIM_TEXT];
    if (rank < 0) {
        mr_str_appendz(out, "<unknown>");
        return;
    }
    mr_str_appendc(out, '[');
    for (int i = 0; i < rank; i++)
        mr_str_append(out, one, (size_t)dim_text(one, i, dims[i], partial));
    mr_str_appendc(out, ']');
}

/* The same without memory: this serves error messages, also those about memory. */
static const char *text_dims(char *buf, size_t n, int rank, const int64_t *dims, bool partial)
{
    char one[DIM_TEXT];
    size_t at = 0, tail = sizeof("..]"); /* always reserved, with its NUL */
    if (rank < 0 || n <= tail) {
        snprintf(buf, n, "%s", rank < 0 ? "<unknown>" : "[");
        return buf;
    }
    buf[at++] = '[';
    for (int i = 0; i < rank; i++) {
        size_t len = (size_t)dim_text(one, i, dims[i], partial);
        if (at + len + tail > n) { /* the next would leave no room for the end */
            buf[at++] = '.', buf[at++] = '.';
            break;
        }
        memcpy(buf + at, one, len);
        at += len;
    }
    buf[at++] = ']';
    buf[at] = '\0';
    return buf;
}

void mr_shape_print(mr_str *out, int rank, const int64_t *dims)
{
    print_dims(out, rank, dims, false);
}

const char *mr_shape_text(char *buf, size_t n, int rank, const int64_t *dims)
{
    return text_dims(buf, n, rank, dims, false);
}

void mr_pshape_print(mr_str *out, const mr_pshape *s) { print_dims(out, s->rank, s->dims, true); }

const char *mr_pshape_text(char *buf, size_t n, const mr_pshape *s)
{
    return text_dims(buf, n, s->rank, s->dims, true);
}

/* ---- partly known shapes --------------------------------------------------------------------- */

const mr_pshape mr_pshape_unknown = {.rank = -1};
const mr_pshape mr_pshape_scalar = {.rank = 0};

mr_pshape *mr_pshape_new(mr_arena *a, int rank)
{
    MR_ASSERT(rank >= -1 && rank <= MR_MAX_RANK);
    int n = MR_MAX(rank, 0);
    mr_pshape *s = mr_arena_alloc(a, sizeof(*s) + (size_t)n * sizeof(s->dims[0]));
    s->rank = rank;
    for (int i = 0; i < n; i++)
        s->dims[i] = -1;
    return s;
}

const mr_pshape *mr_pshape_of(mr_arena *a, int rank, const int64_t *dims)
{
    if (rank <= 0)
        return rank < 0 ? &mr_pshape_unknown : &mr_pshape_scalar;
    mr_pshape *s = mr_pshape_new(a, rank);
    for (int i = 0; i < rank; i++)
        s->dims[i] = MR_MAX(dims[i], -1); /* a single value for unknown, so that shapes can be compared */
    return s;
}

const mr_pshape *mr_pshape_vector(mr_arena *a, int64_t n) { return mr_pshape_of(a, 1, &n); }

const mr_pshape *mr_pshape_matrix(mr_arena *a, int64_t rows, int64_t cols)
{
    return mr_pshape_of(a, 2, (int64_t[]){rows, cols});
}

bool mr_pshape_full(const mr_pshape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dims[i] < 0)
            return false;
    return s->rank >= 0;
}

bool mr_pshape_eq(const mr_pshape *a, const mr_pshape *b)
{
    return mr_shape_eq(a->rank, a->dims, b->rank, b->dims);
}

bool mr_pshape_compatible(const mr_pshape *a, const mr_pshape *b)
{
    if (a->rank < 0 || b->rank < 0)
        return true;
    if (a->rank != b->rank)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] >= 0 && b->dims[i] >= 0 && a->dims[i] != b->dims[i])
            return false;
    return true;
}

/* For two dimensions that do not contradict each other. */
static int64_t what_both_say(int64_t x, int64_t y) { return x >= 0 ? x : y; }
static int64_t what_holds_for_both(int64_t x, int64_t y) { return x == y ? x : -1; }

/* Combines two shapes of the same rank; returns x or y if that is the result. */
static const mr_pshape *combine_shapes(mr_arena *a, const mr_pshape *x, const mr_pshape *y,
                                       int64_t (*rule)(int64_t, int64_t))
{
    MR_ASSERT(x->rank == y->rank);
    bool is_x = true, is_y = true;
    for (int i = 0; i < x->rank; i++) {
        int64_t d = rule(x->dims[i], y->dims[i]);
        is_x &= d == x->dims[i];
        is_y &= d == y->dims[i];
    }
    if (is_x || is_y)
        return is_x ? x : y;
    mr_pshape *s = mr_pshape_new(a, x->rank);
    for (int i = 0; i < x->rank; i++)
        s->dims[i] = rule(x->dims[i], y->dims[i]);
    return s;
}

mr_status *mr_pshape_merge(mr_arena *a, const mr_pshape *x, const mr_pshape *y,
                           const mr_pshape **out)
{
    if (x->rank < 0 || y->rank < 0) { /* one is unknown: the result is the other one */
        *out = x->rank < 0 ? y : x;
        return NULL;
    }
    if (x->rank != y->rank)
        return mr_invalid("Shapes must be equal rank, but are %d and %d", x->rank, y->rank);
    if (!mr_pshape_compatible(x, y))
        return mr_invalid("Shapes must be equal, but are %s and %s", MR_PSHAPE_TEXT(x),
                          MR_PSHAPE_TEXT(y));
    *out = combine_shapes(a, x, y, what_both_say);
    return NULL;
}

const mr_pshape *mr_pshape_relax(mr_arena *a, const mr_pshape *x, const mr_pshape *y)
{
    if (x->rank != y->rank) /* an unknown rank against a known one, too */
        return &mr_pshape_unknown;
    return combine_shapes(a, x, y, what_holds_for_both);
}
