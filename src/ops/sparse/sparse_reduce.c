/* ops/sparse/sparse_reduce.c -- SparseReduceSum, SparseReduceMax, their sparse forms,
 * SparseSoftmax.
 *
 * A reduction combines elements by segment (ops/segment/segment.h): elements that differ only along the
 * reduced axes belong to the same segment. */
#include "base/memory.h"
#include "ops/maths.h"
#include "ops/segment/segment.h"
#include "ops/sparse/sparse.h"
#include "run/scratch.h"

typedef struct folding {
    mr_sparse s;
    bool fold[MR_MAX_RANK];
    bool keep_dims;
    mr_shape shape; /* shape of the result */
} folding;

/* Reads the axes; an empty list means all of them. */
static mr_status *read_axes(folding *f, const mr_tensor *axes)
{
    if (axes->rank > 1)
        return mr_invalid("Expected reduction_axes to be a scalar or a vector; got shape: %s",
                          MR_TENSOR_SHAPE(axes));
    for (int64_t d = 0; d < f->s.rank; d++)
        f->fold[d] = axes->n == 0;
    for (int64_t i = 0; i < axes->n; i++) {
        int64_t axis = mr_tensor_int_at(axes, i);
        if (axis < -f->s.rank || axis >= f->s.rank)
            return mr_invalid("Invalid reduction dimension %lld, for input with %lld dimensions.",
                              (long long)axis, (long long)f->s.rank);
        f->fold[axis < 0 ? axis + f->s.rank : axis] = true;
    }
    return NULL;
}

static mr_status *read_folding(mr_run *r, folding *f)
{
    MR_TRY(mr_sparse_read(r, 0, "", &f->s));
    if (f->s.rank > MR_MAX_RANK)
        return mr_invalid("the shape has %lld dimensions, the maximum is %d",
                          (long long)f->s.rank, MR_MAX_RANK);
    MR_TRY(read_axes(f, mr_in(r, 3)));
    MR_TRY(mr_sparse_check_bounds(&f->s));
    f->keep_dims = *(const bool *)r->state;
    f->shape.rank = 0;
    for (int d = 0; d < f->s.rank; d++)
        if (!f->fold[d] || f->keep_dims)
            MR_TRY(mr_shape_push(&f->shape, f->fold[d] ? 1 : f->s.dims[d]));
    return NULL;
}

/* The index that an element has in the result. */
static void result_index(const folding *f, const int64_t *at, int64_t *out)
{
    int k = 0;
    for (int d = 0; d < f->s.rank; d++)
        if (!f->fold[d] || f->keep_dims)
            out[k++] = f->fold[d] ? 0 : at[d];
}

static mr_status *join_elements(mr_run *r, const folding *f, mr_update_kind kind, const mr_tensor *ids,
                                mr_tensor *out)
{
    mr_tensor *flat;
    MR_TRY(mr_tensor_view(out, (mr_dtype)out->dtype, 1, &out->n, &flat));
    mr_status *st = mr_segments_join(
        r, &(mr_segments){.kind = kind, .data = f->s.values, .n = f->s.n, .ids = ids}, flat);
    mr_tensor_unref(flat);
    return st;
}

/* ---- dense results ---- */

static mr_status *reduce_dense(mr_run *r, mr_update_kind kind)
{
    folding f;
    mr_tensor *ids, *out;
    int64_t strides[MR_MAX_RANK], at[MR_MAX_RANK], step = 1, total;
    MR_TRY(read_folding(r, &f));
    MR_TRY(mr_shape_elements(f.shape.rank, f.shape.dims, &total));
    MR_TRY(mr_run_output(r, 0, f.shape.rank, f.shape.dims, &out));
    MR_TRY(mr_run_temp(r, MR_INT64, 1, &f.s.n, &ids));
    for (int d = f.shape.rank - 1; d >= 0; d--) {
        strides[d] = step;
        step *= f.shape.dims[d];
    }
    for (int64_t i = 0; i < f.s.n; i++) {
        result_index(&f, mr_sparse_at(&f.s, i), at);
        MR_DATA(int64_t, ids)[i] = mr_sparse_flat(at, strides, f.shape.rank);
    }
    mr_status *st = join_elements(r, &f, kind, ids, out);
    mr_tensor_unref(ids);
    return st;
}

static mr_status *reduce_sum(mr_run *r) { return reduce_dense(r, MR_UPDATE_ADD); }
static mr_status *reduce_max(mr_run *r) { return reduce_dense(r, MR_UPDATE_MAX); }

static mr_status *keep_init(mr_make *m, void *state)
{
    return mr_node_get_bool(m->node, "keep_dims", state);
}

static mr_status *reduce_shape(mr_infer *c)
{
    int64_t n, rank;
    bool keep;
    const mr_pshape *ignored, *in = NULL;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    MR_TRY(mr_node_get_bool(c->node, "keep_dims", &keep));
    MR_TRY(mr_infer_rank_at_most(c, c->in[3], 1, &ignored));
    const mr_tensor *axes = mr_infer_const(c, 3);
    MR_TRY(mr_infer_shape_value(c, 2, &in));
    if (!axes || in->rank < 0)
        return NULL;
    mr_pshape *out = mr_pshape_new(c->arena, in->rank);
    bool fold[MR_MAX_RANK] = {0};
    for (int64_t i = 0; i < axes->n; i++) {
        int64_t axis = mr_tensor_int_at(axes, i);
        if (axis < -in->rank || axis >= in->rank)
            return NULL; /* the kernel reports the error */
        fold[axis < 0 ? axis + in->rank : axis] = true;
    }
    out->rank = 0;
    for (int d = 0; d < in->rank; d++)
        if (!(fold[d] || axes->n == 0) || keep)
            out->dims[out->rank++] = fold[d] || axes->n == 0 ? 1 : in->dims[d];
    c->out[0] = out;
    return NULL;
}

/* The shape that the result would have with keep_dims; an empty list of axes means all of them. */
static mr_out kept_shape(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out shape = mr_xi(g, 2), zero = mr_const_i32(s, 0), rank = mr_emit(s, "Size", shape);
    mr_out axes = mr_emit(s, "Reshape", mr_xi(g, 3), mr_const_vec_i32(s, 1, (int32_t[]){-1}));
    mr_out none = mr_emit(s, "Equal", mr_emit(s, "Size", axes), zero);
    axes = mr_emit(s, "FloorMod", mr_emit(s, "AddV2", axes, rank), rank);
    mr_out ones = mr_emit(s, "Fill", mr_emit(s, "Shape", axes), mr_const_i64(s, 1));
    mr_out in[] = {mr_emit(s, "Range", zero, rank, mr_const_i32(s, 1)), axes, shape, ones};
    mr_out some =
        mr_emit_lists(s, "DynamicStitch", NULL, 0, (mr_emit_arg[]){{2, in}, {2, in + 2}}, 2);
    return mr_emit(s, "SelectV2", none, mr_ones_like(g, shape), some);
}

/* Each element gets the gradient of the result's element that it was added to. */
static void reduce_sum_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out kept = kept_shape(g);
    mr_out stays = mr_cast(g, mr_emit(s, "Equal", kept, mr_xi(g, 2)), MR_INT64);
    mr_out places = mr_emit(s, "Mul", mr_xi(g, 0), stays);
    mr_dxi(g, 1, mr_emit(s, "GatherNd", mr_emit(s, "Reshape", mr_dyi(g, 0), kept), places));
}

#define REDUCE                                                                                              \
    .sig   = "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32 -> output: T", \
    .shape = reduce_shape, .state_bytes = sizeof(bool), .init = keep_init

MR_OP(SparseReduceSum,
    .doc      = "sums of a sparse tensor's elements along axes, as a dense tensor", REDUCE,
    .attrs    = "keep_dims: bool = false; T: numbertype",
    .grad     = reduce_sum_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(reduce_sum, MR_NUMBERS) MR_CPU_ONE(reduce_sum, MR_CODES)),
    .examples = MR_EXAMPLES(
        "[[0, 0], [0, 2], [1, 1]], [1, 2, 3], [2, 3], [1] -> [3, 3]", "[[0, 0], [0, 2], [1, 1]], [1, 2, 3], [2, 3], 0 -> [1, 3, 2]",
        "keep_dims=true: [[0, 0], [0, 2], [1, 1]], [1, 2, 3], [2, 3], [-1] -> [[3], [3]]",
        "[[0, 0], [1, 1]], [1, 2], [2, 3], shape(0) -> 3", "keep_dims=true: [[0, 0], [1, 1]], [1, 2], [2, 3], [0, 1] -> [[3]]",
        "shape(0,2), shape(0), [2, 3], [0] -> [0, 0, 0]",
        "[[0]], [1], [2], [1] -> !INVALID_ARGUMENT Invalid reduction dimension 1, for input with 1 dimensions.",
        "[[2]], [1], [2], [0] -> !INVALID_ARGUMENT is out of bounds"));
MR_OP(SparseReduceMax,
    .doc      = "largest of a sparse tensor's elements along axes, as a dense tensor; 0 where there is none", REDUCE,
    .attrs    = "keep_dims: bool = false; T: realnumbertype",
    .kernels  = MR_KERNELS(MR_CPU_ONE(reduce_max, MR_REALS)),
    .examples = MR_EXAMPLES(
        "[[0, 0], [0, 2], [1, 1]], [1, 2, 3], [2, 3], [1] -> [2, 3]", "[[0, 0], [0, 1]], [-1, -2], [2, 2], [1] -> [-1, 0]",
        "keep_dims=true: [[0, 0], [0, 2], [1, 1]], [1, 2, 3], [2, 3], [0] -> [[1, 3, 2]]"));

/* ---- sparse results ---- */

/* Groups the elements by their index in the result: ids[i] is the number of element i's index among the
 * distinct ones, first[k] is an element that has the k-th index. */
static mr_status *group_elements(mr_run *r, const folding *f, const mr_tensor *keys, mr_tensor **ids,
                                 int64_t **first, int64_t *n)
{
    mr_sparse k = {.n = f->s.n, .rank = f->shape.rank, .at = keys->data, .dims = f->shape.dims};
    int64_t *order;
    *n = 0;
    *ids = NULL;
    MR_TRY(mr_sparse_sort(r, &k, &order));
    mr_status *st = mr_new_i64(r, k.n, first);
    if (!st)
        st = mr_run_temp(r, MR_INT64, 1, &k.n, ids);
    for (int64_t i = 0; i < k.n && !st; i++) {
        bool same = i > 0 && mr_sparse_compare(mr_sparse_at(&k, order[i - 1]),
                                               mr_sparse_at(&k, order[i]), k.rank) == 0;
        if (!same)
            (*first)[(*n)++] = order[i];
        MR_DATA(int64_t, *ids)[order[i]] = *n - 1;
    }
    mr_scratch_free(order);
    return st;
}

static mr_status *reduce_sparse(mr_run *r, mr_update_kind kind)
{
    folding f;
    mr_tensor *keys = NULL, *ids = NULL, *indices, *values;
    int64_t *first = NULL, n;
    mr_status *st = NULL;
    MR_TRY(read_folding(r, &f));
    int64_t width = f.shape.rank;
    MR_TRY(mr_run_temp(r, MR_INT64, 2, (int64_t[]){f.s.n, width}, &keys));
    for (int64_t i = 0; i < f.s.n; i++)
        result_index(&f, mr_sparse_at(&f.s, i), MR_DATA(int64_t, keys) + i * width);
    MR_GO(group_elements(r, &f, keys, &ids, &first, &n));
    MR_GO(mr_sparse_output(r, 0, n, width, &indices, &values));
    for (int64_t i = 0; i < n; i++)
        memcpy(MR_DATA(int64_t, indices) + i * width, MR_DATA(int64_t, keys) + first[i] * width,
               (size_t)width * sizeof(int64_t));
    MR_GO(join_elements(r, &f, kind, ids, values));
    st = mr_give_vector(r, 2, width, f.shape.dims);
out:
    mr_scratch_free(first);
    mr_tensor_unref(keys);
    mr_tensor_unref(ids);
    return st;
}

static mr_status *reduce_sum_sparse(mr_run *r) { return reduce_sparse(r, MR_UPDATE_ADD); }
static mr_status *reduce_max_sparse(mr_run *r) { return reduce_sparse(r, MR_UPDATE_MAX); }

static mr_status *reduce_sparse_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    mr_infer_out_sparse(c, 0, -1, -1, true);
    return NULL;
}

#define REDUCE_SPARSE                                                                                        \
    .sig   = "input_indices: int64, input_values: T, input_shape: int64, reduction_axes: int32 -> "          \
             "output_indices: int64, output_values: T, output_shape: int64",                                 \
    .flags = MR_NO_GRADIENT, .shape = reduce_sparse_shape, .state_bytes = sizeof(bool), .init = keep_init

MR_OP(SparseReduceSumSparse,
    .doc      = "sums of a sparse tensor's elements along axes, as a sparse tensor", REDUCE_SPARSE,
    .attrs    = "keep_dims: bool = false; T: numbertype",
    .kernels  = MR_KERNELS(MR_CPU_ONE(reduce_sum_sparse, MR_NUMBERS) MR_CPU_ONE(reduce_sum_sparse, MR_CODES)),
    .examples = MR_EXAMPLES(
        "[[0, 0], [0, 2], [2, 1]], [1, 2, 3], [3, 3], [1] -> [[0], [2]], [3, 3], [3]",
        "keep_dims=true: [[0, 0], [0, 2], [2, 1]], [1, 2, 3], [3, 3], [0] -> [[0, 0], [0, 1], [0, 2]], [1, 3, 2], [1, 3]",
        "[[0, 0], [1, 1]], [1, 2], [2, 3], shape(0) -> shape(1,0), [3], shape(0)",
        "shape(0,2), shape(0), [2, 3], [0] -> shape(0,1), shape(0), [3]"));
MR_OP(SparseReduceMaxSparse,
    .doc      = "largest of a sparse tensor's elements along axes, as a sparse tensor", REDUCE_SPARSE,
    .attrs    = "keep_dims: bool = false; T: realnumbertype",
    .kernels  = MR_KERNELS(MR_CPU_ONE(reduce_max_sparse, MR_REALS)),
    .examples = MR_EXAMPLES("[[0, 0], [0, 2], [2, 1]], [1, 2, 3], [3, 3], [1] -> [[0], [2]], [2, 3], [3]"));

/* ---- SparseSoftmax ---- */

static void softmax_double(double *v, int64_t n)
{
    double top = v[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        top = MR_LARGER(top, v[i]);
    for (int64_t i = 0; i < n; i++)
        sum += v[i] = exp(v[i] - top);
    for (int64_t i = 0; i < n; i++)
        v[i] /= sum;
}

/* Rows are the elements that differ only along the last dimension; they are adjacent. */
static mr_status *run_softmax(mr_run *r)
{
    mr_sparse s;
    mr_tensor *wide, *out;
    MR_TRY(mr_sparse_read(r, 0, "sp_", &s));
    if (s.rank < 2)
        return mr_invalid("Input should have rank >= 2, but received shape of %lld dimensions",
                          (long long)s.rank);
    MR_TRY(mr_sparse_check_order(&s));
    MR_TRY(mr_run_output(r, 0, 1, &s.n, &out));
    MR_TRY(mr_run_temp(r, MR_DOUBLE, 1, &s.n, &wide));
    mr_dtype_convert((mr_dtype)out->dtype, s.values->data, MR_DOUBLE, wide->data, s.n, false);
    for (int64_t i = 0, end; i < s.n; i = end) {
        for (end = i + 1; end < s.n; end++)
            if (mr_sparse_compare(mr_sparse_at(&s, i), mr_sparse_at(&s, end), s.rank - 1) != 0)
                break;
        softmax_double(MR_DATA(double, wide) + i, end - i);
    }
    mr_dtype_convert(MR_DOUBLE, wide->data, (mr_dtype)out->dtype, out->data, s.n, false);
    mr_tensor_unref(wide);
    return NULL;
}

static mr_status *softmax_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    mr_infer_out_vector(c, 0, n);
    return NULL;
}

/* y (dy - sum of y dy over the row). */
static void softmax_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out y = mr_yi(g, 0), dy = mr_dyi(g, 0), indices = mr_xi(g, 0), shape = mr_xi(g, 2);
    mr_out sum =
        mr_emit_with(s, "SparseReduceSum", MR_ATTRS({"keep_dims", mr_a_bool(true)}), indices,
                     mr_emit(s, "Mul", y, dy), shape, mr_const_vec_i32(s, 1, (int32_t[]){-1}));
    mr_out left = mr_emit(s, "SparseDenseCwiseAdd", indices, dy, shape, mr_emit(s, "Neg", sum));
    mr_dxi(g, 1, mr_emit(s, "Mul", left, y));
}

MR_OP(SparseSoftmax,
    .doc      = "softmax over the elements of each row, those that are missing being minus infinity",
    .sig      = "sp_indices: int64, sp_values: T, sp_shape: int64 -> output: T",
    .attrs    = "T: {float, double}",
    .shape    = softmax_shape,
    .grad     = softmax_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_softmax, MR_FLOATS32)),
    .examples = MR_EXAMPLES(
        "[[0, 0], [0, 2], [1, 1]], [1, 1, 3], [2, 3] -> [0.5, 0.5, 1]", "[[0, 0], [0, 1]], [0, 1], [1, 2] -> [0.26894142, 0.7310586]",
        "shape(0,2), shape(0), [2, 3] -> shape(0)", "[[0]], [1], [1] -> !INVALID_ARGUMENT Input should have rank >= 2",
        "nograd: [[0, 0]], [inf], [1, 1] -> [nan]", "[[0, 1], [0, 0]], [1, 1], [1, 2] -> !INVALID_ARGUMENT is out of order"));
