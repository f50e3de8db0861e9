/* ops/array/strided_slice_spec.c -- resolves x[a:b:c, ..., d].
 *
 * The entries of begin, end and strides are the items between Python's brackets. An item covers one dimension of
 * the input, or none (a new axis), or all remaining ones (the ellipsis; one is implied at the end when none is
 * written). First the items are assigned to dimensions, each with the data needed for its range; then the ranges
 * are limited to the sizes. */
#include "base/memory.h"
#include "ops/array/index.h"
#include "ops/array/strided_slice.h"

#define MAX_ITEMS 32

typedef struct masks {
    int64_t begin, end, ellipsis, new_axis, shrink;
} masks;

static mr_status *read_masks(const mr_node *n, masks *m)
{
    MR_TRY(mr_node_get_int(n, "begin_mask", &m->begin));
    MR_TRY(mr_node_get_int(n, "end_mask", &m->end));
    MR_TRY(mr_node_get_int(n, "ellipsis_mask", &m->ellipsis));
    MR_TRY(mr_node_get_int(n, "new_axis_mask", &m->new_axis));
    return mr_node_get_int(n, "shrink_axis_mask", &m->shrink);
}

static bool has_bit(int64_t mask, int i) { return (uint64_t)mask >> i & 1; }

/* What an item means for one dimension. */
typedef struct item {
    bool known;           /* begin and end are known */
    bool no_begin, no_end; /* from the first element, to the last */
    bool shrink;
    int64_t begin, end, stride;
} item;

static const item whole = {.known = true, .no_begin = true, .no_end = true, .stride = 1};

typedef struct parse {
    const mr_tensor *begin, *end, *strides;
    masks m;
    int n;    /* items */
    int used; /* dimensions of the input assigned so far */
    mr_slicing *out;
    item items[MR_MAX_RANK];
} parse;

static mr_status *check_vectors(const parse *p)
{
    const mr_tensor *t[] = {p->begin, p->end, p->strides};
    for (int i = 0; i < 3; i++)
        if (t[i] && (t[i]->rank != 1 || t[i]->n != p->strides->n || t[i]->n >= MAX_ITEMS))
            return mr_invalid(
                "Expected begin, end, and strides to be 1D equal size tensors of fewer "
                "than %d elements, but got shapes %s, %s, and %s instead.",
                MAX_ITEMS, MR_TENSOR_SHAPE(t[0] ? t[0] : t[2]), MR_TENSOR_SHAPE(t[1] ? t[1] : t[2]),
                MR_TENSOR_SHAPE(t[2]));
    return NULL;
}

/* ---- assigning items to dimensions ---- */

/* Appends a dimension to the result; its size is set later, from range `from` (-1: it is 1). */
static mr_status *push_result(parse *p, int from)
{
    return mr_shape_push(&p->out->shape, from);
}

static mr_status *lay_whole(parse *p, int n)
{
    for (int i = 0; i < n; i++) {
        MR_TRY(push_result(p, p->used));
        p->items[p->used++] = whole;
    }
    return NULL;
}

static mr_status *lay_item(parse *p, int i)
{
    if (p->used == p->out->rank)
        return mr_invalid("Index out of range using input dim %d; input has only %d dims", p->used,
                          p->out->rank);
    item *t = &p->items[p->used];
    *t = (item){.known = p->begin && p->end,
                .no_begin = has_bit(p->m.begin, i),
                .no_end = has_bit(p->m.end, i),
                .shrink = has_bit(p->m.shrink, i),
                .begin = p->begin ? mr_index_at(p->begin, i) : 0,
                .end = p->end ? mr_index_at(p->end, i) : 0,
                .stride = mr_index_at(p->strides, i)};
    if (!t->shrink)
        MR_TRY(push_result(p, p->used));
    p->used++;
    return NULL;
}

/* The number of dimensions that the ellipsis at item i covers: those that no other item takes. */
static int ellipsis_width(const parse *p, int i)
{
    int taken = p->used;
    for (int k = i + 1; k < p->n; k++)
        taken += !has_bit(p->m.new_axis, k);
    return MR_MAX(0, p->out->rank - taken);
}

static mr_status *lay_out(parse *p)
{
    bool seen = false;
    p->out->shape.rank = 0;
    for (int i = 0; i < p->n; i++) {
        if (has_bit(p->m.ellipsis, i)) {
            if (seen)
                return mr_invalid("Multiple ellipses in slice spec not allowed");
            seen = true;
            MR_TRY(lay_whole(p, ellipsis_width(p, i)));
        } else if (has_bit(p->m.new_axis, i)) {
            MR_TRY(push_result(p, -1));
        } else {
            MR_TRY(lay_item(p, i));
        }
    }
    return lay_whole(p, p->out->rank - p->used);
}

/* ---- ranges ---- */

/* A bound as in Python: counted from the end when negative, then limited to the positions that can be reached in
 * the direction of the stride. */
static int64_t clamp_bound(int64_t v, int64_t n, int64_t stride)
{
    int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? n : n - 1;
    v = v < 0 ? v + n : v;
    return MR_MAX(low, MR_MIN(v, high));
}

static mr_status *single_index(const item *t, int d, int64_t n, mr_range *out)
{
    if (t->stride <= 0)
        return mr_invalid("only stride 1 allowed on non-range indexing.");
    *out = (mr_range){0, 1, 1};
    if (!t->known || n < 0)
        return NULL;
    out->begin = t->begin < 0 ? t->begin + n : t->begin;
    if (out->begin < 0 || out->begin >= n)
        return mr_invalid("slice index %lld of dimension %d out of bounds.", (long long)t->begin,
                          d);
    return NULL;
}

static mr_status *make_range(const item *t, int d, int64_t n, mr_range *out)
{
    if (t->stride == 0)
        return mr_invalid("strides[%d] must be non-zero", d);
    if (t->shrink)
        return single_index(t, d, n, out);
    *out = (mr_range){0, t->stride, -1};
    if (n < 0 || (!t->known && !(t->no_begin && t->no_end)))
        return NULL;
    bool forward = t->stride > 0;
    int64_t begin = t->no_begin ? (forward ? 0 : n - 1) : clamp_bound(t->begin, n, t->stride);
    int64_t end = t->no_end ? (forward ? n : -1) : clamp_bound(t->end, n, t->stride);
    int64_t length = end - begin; /* both are in [-1, n] */
    out->begin = begin;
    out->size = 0;
    if (length != 0 && (length > 0) == forward)
        out->size = length / t->stride + (length % t->stride != 0);
    return NULL;
}

mr_status *mr_slicing_parse(const mr_node *n, const mr_tensor *begin, const mr_tensor *end,
                            const mr_tensor *strides, int rank, const int64_t *dims,
                            mr_slicing *out)
{
    parse p; /* 12 KB, so not cleared */
    p.begin = begin;
    p.end = end;
    p.strides = strides;
    p.used = 0;
    p.out = out;
    MR_TRY(read_masks(n, &p.m));
    MR_TRY(check_vectors(&p));
    p.n = (int)strides->n;
    out->rank = rank;
    MR_TRY(lay_out(&p));
    for (int d = 0; d < rank; d++)
        MR_TRY(make_range(&p.items[d], d, dims[d], &out->ranges[d]));
    for (int i = 0; i < out->shape.rank; i++) {
        int64_t from = out->shape.dims[i];
        out->shape.dims[i] = from < 0 ? 1 : out->ranges[from].size;
    }
    return NULL;
}
