/* ops/sparse/sparse_reorder.c -- ops that move elements to other indices: SparseReorder, SparseReshape,
 * SparseConcat, SparseSplit, SparseSlice and its gradient. */
#include "base/memory.h"
#include "ops/array/index.h"
#include "ops/sparse/sparse.h"
#include "run/scratch.h"

/* ---- SparseReorder ---- */

static mr_status *run_reorder(mr_run *r)
{
    mr_sparse s;
    mr_tensor *indices, *values;
    int64_t *order;
    MR_TRY(mr_sparse_read(r, 0, "", &s));
    MR_TRY(mr_sparse_sort(r, &s, &order)); /* indices are only compared, so those beyond the shape do no harm */
    mr_status *st = mr_sparse_output(r, 0, s.n, s.rank, &indices, &values);
    for (int64_t i = 0; i < s.n && !st; i++)
        memcpy(MR_DATA(int64_t, indices) + i * s.rank, mr_sparse_at(&s, order[i]),
               (size_t)s.rank * sizeof(int64_t));
    if (!st)
        st = mr_sparse_pick(r, values, s.values, order);
    mr_scratch_free(order);
    return st;
}

static mr_status *reorder_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    mr_infer_out_sparse(c, 0, n, rank, false);
    return NULL;
}

/* The numbers of the elements, reordered in the same way, say where each came from; sorting them again says
 * where each went. */
static void reorder_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out n = mr_emit(s, "Size", mr_xi(g, 1));
    mr_out numbers = mr_emit(s, "Range", mr_const_i32(s, 0), n, mr_const_i32(s, 1));
    mr_out from = mr_nth(mr_emit(s, "SparseReorder", mr_xi(g, 0), numbers, mr_xi(g, 2)), 1);
    mr_out to = mr_emit(s, "InvertPermutation", from);
    mr_dxi(g, 1, mr_emit(s, "GatherV2", mr_dyi(g, 1), to, mr_const_i32(s, 0)));
}

MR_OP(SparseReorder,
    .doc      = "the elements in row-major order",
    .sig      = "input_indices: int64, input_values: T, input_shape: int64 -> output_indices: int64, output_values: T",
    .attrs    = "T: type",
    .shape    = reorder_shape,
    .grad     = reorder_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_reorder)),
    .examples = MR_EXAMPLES(
        "[[1, 0], [0, 1], [0, 0]], [1, 2, 3], [2, 2] -> [[0, 0], [0, 1], [1, 0]], [3, 2, 1]",
        "[[0], [1]], [1, 2], [2] -> [[0], [1]], [1, 2]", "[[1], [0]], [\"a\", \"b\"], [2] -> [[0], [1]], [\"b\", \"a\"]",
        "shape(0,2), shape(0), [2, 2] -> shape(0,2), shape(0)", "nograd: [[1], [1], [0]], [1, 2, 3], [2] -> [[0], [1], [1]], [3, 1, 2]",
        "[[5], [-1], [2]], [1, 2, 3], [2] -> [[-1], [2], [5]], [2, 3, 1]",
        "[[0]], [1, 2], [2] -> !INVALID_ARGUMENT must be equal", "[0], [1], [2] -> !INVALID_ARGUMENT must be rank 2"));

/* ---- SparseReshape ---- */

/* The new shape with its -1, if any, replaced; total is the number of elements of the old shape. */
static mr_status *new_dims(const mr_tensor *t, int64_t total, mr_shape *out)
{
    int64_t known = 1;
    int open = -1;
    if (t->n > MR_MAX_RANK)
        return mr_invalid("the new shape has %lld dimensions, the maximum is %d", (long long)t->n,
                          MR_MAX_RANK);
    mr_shape_set(out, (int)t->n, t->data);
    for (int d = 0; d < out->rank; d++) {
        if (out->dims[d] == -1 && open >= 0)
            return mr_invalid("only one output dimension may be -1, not both %d and %d", open, d);
        if (out->dims[d] < -1)
            return mr_invalid("size %d must be non-negative, not %lld", d, (long long)out->dims[d]);
        if (out->dims[d] == -1)
            open = d;
        else if (!mr_i64_mul(known, out->dims[d], &known))
            return mr_invalid("the new shape has too many elements to count");
    }
    if (open >= 0 && (known == 0 || total % known != 0))
        return mr_invalid("Input to reshape is a SparseTensor with %lld dense values, but the "
                          "requested shape requires a "
                          "multiple of %lld",
                          (long long)total, (long long)known);
    if (open >= 0)
        out->dims[open] = total / known;
    else if (known != total)
        return mr_invalid(
            "Input to reshape is a tensor with %lld dense values, but the requested shape has %lld",
            (long long)total, (long long)known);
    return NULL;
}

static void reshape_indices(const mr_sparse *s, const mr_shape *to, int64_t *out)
{
    int64_t strides[MR_MAX_RANK];
    mr_sparse_strides(s, strides);
    for (int64_t i = 0; i < s->n; i++, out += to->rank) {
        int64_t flat = mr_sparse_flat(mr_sparse_at(s, i), strides, s->rank);
        for (int d = to->rank - 1; d >= 0; d--) {
            out[d] = flat % to->dims[d];
            flat /= to->dims[d];
        }
    }
}

static mr_status *run_reshape(mr_run *r)
{
    mr_sparse s;
    mr_shape to;
    mr_tensor *indices;
    int64_t total;
    MR_TRY(mr_sparse_of(mr_in(r, 0), NULL, mr_in(r, 1), "", &s));
    if (mr_in(r, 2)->rank != 1)
        return mr_invalid("Target shape should be a vector but received shape %s",
                          MR_TENSOR_SHAPE(mr_in(r, 2)));
    MR_TRY(mr_sparse_elements(&s, &total));
    MR_TRY(new_dims(mr_in(r, 2), total, &to));
    MR_TRY(mr_sparse_check_bounds(&s));
    MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){s.n, to.rank}, &indices));
    if (s.n > 0)
        reshape_indices(&s, &to, indices->data);
    return mr_give_vector(r, 1, to.rank, to.dims);
}

static mr_status *reshape_shape(mr_infer *c)
{
    const mr_pshape *indices = NULL, *shape, *to = NULL;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &indices));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &shape));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &to));
    c->out[0] = mr_pshape_matrix(c->arena, indices->dims[0], to->dims[0]);
    c->out[1] = to;
    return NULL;
}

MR_OP(SparseReshape,
    .doc      = "the indices that the elements have in another dense shape of as many elements",
    .sig      = "input_indices: int64, input_shape: int64, new_shape: int64 -> output_indices: int64, output_shape: int64",
    .flags    = MR_NO_GRADIENT,
    .shape    = reshape_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_reshape)),
    .examples = MR_EXAMPLES(
        "[[0, 1], [1, 2]], [2, 3], [3, 2] -> [[0, 1], [2, 1]], [3, 2]", "[[0, 1], [1, 2]], [2, 3], [-1] -> [[1], [5]], [6]",
        "shape(0,2), [2, 3], [6] -> shape(0,1), [6]", "shape(1,0), shape(0), [1, 1] -> [[0, 0]], [1, 1]",
        "[[0, 1]], [2, 3], [4] -> !INVALID_ARGUMENT has 4", "[[0, 1]], [2, 3], [-1, -1] -> !INVALID_ARGUMENT only one output dimension",
        "[[0, 1]], [2, 3], [-1, 4] -> !INVALID_ARGUMENT multiple of 4", "[[0, 1]], [2, 3], [-2, 3] -> !INVALID_ARGUMENT must be non-negative",
        "[[0, 3]], [2, 3], [6] -> !INVALID_ARGUMENT is out of bounds",
        "[[0, 0]], [4611686018427387904, 4], [1] -> !INVALID_ARGUMENT"));

/* ---- SparseConcat ---- */

typedef struct part { /* an input of SparseConcat, and how much of it is written */
    mr_sparse s;
    int64_t *order; /* by the dimensions before the concatenated one */
    int64_t next, offset;
} part;

static mr_status *concat_dims(part *parts, int n, int64_t dim, mr_shape *out)
{
    const mr_sparse *first = &parts[0].s;
    if (first->rank > MR_MAX_RANK || first->rank < 1)
        return mr_invalid("Input shapes must be of 1 to %d dimensions, got %lld", MR_MAX_RANK,
                          (long long)first->rank);
    dim = dim < 0 ? dim + first->rank : dim;
    if (dim < 0 || dim >= first->rank)
        return mr_invalid("Concat dimension must be in range [%lld, %lld)", -(long long)first->rank,
                          (long long)first->rank);
    mr_shape_set(out, (int)first->rank, first->dims);
    for (int i = 1; i < n; i++) {
        const mr_sparse *s = &parts[i].s;
        if (s->rank != first->rank)
            return mr_invalid(
                "Ranks of all input tensors must match: expected %lld but got %lld at position %d",
                (long long)first->rank, (long long)s->rank, i);
        for (int d = 0; d < out->rank; d++)
            if (d != dim && s->dims[d] != out->dims[d])
                return mr_invalid("Input shapes must match: expected %lld for dimension %d but got "
                                  "%lld at position %d",
                                  (long long)out->dims[d], d, (long long)s->dims[d], i);
        parts[i].offset = out->dims[dim];
        if (!mr_i64_add(out->dims[dim], s->dims[dim], &out->dims[dim]))
            return mr_invalid("the concatenated dimension is too large");
    }
    return NULL;
}

/* The input that has the next element of the result; -1 if all are written. */
static int next_part(const part *parts, int n, int64_t dim)
{
    int best = -1;
    for (int i = 0; i < n; i++) {
        const part *p = &parts[i], *b = best >= 0 ? &parts[best] : NULL;
        if (p->next == p->s.n)
            continue;
        const int64_t *at = mr_sparse_at(&p->s, p->order[p->next]);
        /* If the indices before `dim` are equal, earlier inputs come first. */
        if (!b || mr_sparse_compare(at, mr_sparse_at(&b->s, b->order[b->next]), dim) < 0)
            best = i;
    }
    return best;
}

static mr_status *write_concat(mr_run *r, part *parts, int n, int64_t dim, const mr_shape *shape)
{
    mr_tensor *indices, *values;
    int64_t total = 0;
    for (int i = 0; i < n; i++)
        total += parts[i].s.n;
    MR_TRY(mr_sparse_output(r, 0, total, shape->rank, &indices, &values));
    int64_t *out = indices->data;
    for (int64_t k = 0; k < total; k++, out += shape->rank) {
        part *p = &parts[next_part(parts, n, dim)];
        int64_t from = p->order[p->next++];
        memcpy(out, mr_sparse_at(&p->s, from), (size_t)shape->rank * sizeof(int64_t));
        out[dim] += p->offset;
        MR_TRY(mr_tensor_try_copy_elements(values, k, p->s.values, from, 1));
    }
    return mr_give_vector(r, 2, shape->rank, shape->dims);
}

static mr_status *run_concat(mr_run *r)
{
    int n = r->n_in / 3;
    int64_t dim = *(const int64_t *)r->state;
    mr_shape shape;
    mr_status *st = NULL;
    part *parts = mr_scratch_zeroed(r, (size_t)n, sizeof *parts);
    if (!parts)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %d inputs", n);
    for (int i = 0; i < n; i++)
        MR_GO(mr_sparse_of(mr_in(r, i), mr_in(r, n + i), mr_in(r, 2 * n + i), "", &parts[i].s));
    MR_GO(concat_dims(parts, n, dim, &shape));
    for (int i = 0; i < n; i++) {
        MR_GO(mr_sparse_check_bounds(&parts[i].s));
        MR_GO(mr_sparse_sort(r, &parts[i].s, &parts[i].order));
    }
    st = write_concat(r, parts, n, dim < 0 ? dim + shape.rank : dim, &shape);
out:
    for (int i = 0; i < n; i++)
        mr_scratch_free(parts[i].order);
    mr_scratch_free(parts);
    return st;
}

static mr_status *concat_init(mr_make *m, void *state)
{
    return mr_node_get_int(m->node, "concat_dim", state);
}

static mr_status *concat_shape(mr_infer *c)
{
    int n = c->n_in / 3;
    int64_t total = 0, rank = -1;
    for (int i = 0; i < n; i++) {
        const mr_pshape *indices = NULL, *values = NULL, *shape = NULL;
        int64_t count;
        MR_TRY(mr_infer_rank(c, c->in[i], 2, &indices));
        MR_TRY(mr_infer_rank(c, c->in[n + i], 1, &values));
        MR_TRY(mr_infer_rank(c, c->in[2 * n + i], 1, &shape));
        MR_TRY(mr_infer_merge_dim(indices->dims[0], values->dims[0], &count));
        MR_TRY(mr_infer_merge_dim(rank, indices->dims[1], &rank));
        MR_TRY(mr_infer_merge_dim(rank, shape->dims[0], &rank));
        if (total >= 0 && (count < 0 || !mr_i64_add(total, count, &total)))
            total = -1;
    }
    mr_infer_out_sparse(c, 0, total, rank, true);
    return NULL;
}

/* The gradient of an input consists of the parts of the output's gradient where its elements went, in the
 * input's order.  To find them, the numbers of the elements are concatenated in the same way as the values. */
static void concat_backward(mr_grad *g)
{
    mr_scope *s = g->s;
    int n = g->node->n_in / 3;
    mr_out *in = mr_new_array(mr_out, 3 * n), offset = mr_const_i32(s, 0), one = mr_const_i32(s, 1);
    mr_out *ends = mr_new_array(mr_out, n + 1);
    ends[0] = offset;
    for (int i = 0; i < n; i++) {
        mr_out size = mr_emit(s, "Size", mr_xi(g, n + i));
        ends[i + 1] = mr_emit(s, "AddV2", ends[i], size);
        in[i] = mr_xi(g, i);
        in[n + i] = mr_emit(s, "Range", ends[i], ends[i + 1], one);
        in[2 * n + i] = mr_xi(g, 2 * n + i);
    }
    const mr_attr *dim = mr_node_attr(g->node, "concat_dim");
    mr_out numbers =
        mr_nth(mr_emit_lists(s, "SparseConcat", MR_ATTRS({"concat_dim", *dim}),
                             (mr_emit_arg[]){{n, in}, {n, in + n}, {n, in + 2 * n}}, 3),
               1);
    mr_out all = mr_emit(s, "GatherV2", mr_dyi(g, 1), mr_emit(s, "InvertPermutation", numbers),
                         mr_const_i32(s, 0));
    for (int i = 0; i < n; i++)
        mr_dxi(g, n + i, mr_emit(s, "GatherV2", all, in[n + i], mr_const_i32(s, 0)));
    mr_free(in);
    mr_free(ends);
}

MR_OP(SparseConcat,
    .doc      = "concatenates sparse tensors along a dimension, in row-major order",
    .sig      = "indices: N * int64, values: N * T, shapes: N * int64 -> output_indices: int64, output_values: T, "
                "output_shape: int64",
    .attrs    = "concat_dim: int; N: int >= 2; T: type",
    .shape    = concat_shape,
    .grad     = concat_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_concat)),
    .state_bytes = sizeof(int64_t), .init = concat_init,
    .examples = MR_EXAMPLES(
        "concat_dim=1: ([[0, 1], [1, 0]], [[0, 0]]), ([1, 2], [3]), ([2, 2], [2, 1]) -> [[0, 1], [0, 2], [1, 0]], [1, 3, 2], [2, 3]",
        "concat_dim=0: ([[1], [0]], [[0]]), ([1, 2], [3]), ([2], [1]) -> [[0], [1], [2]], [2, 1, 3], [3]",
        "concat_dim=-1: ([[0, 0]], shape(0,2)), ([\"a\"], shape(0)), ([1, 1], [1, 4]) -> [[0, 0]], [\"a\"], [1, 5]",
        "concat_dim=2: ([[0, 0]], [[0, 0]]), ([1], [2]), ([1, 1], [1, 1]) -> !INVALID_ARGUMENT Concat dimension must be in range [-2, 2)",
        "concat_dim=0: ([[0, 0]], [[0, 0]]), ([1], [2]), ([1, 1], [1, 2]) -> !INVALID_ARGUMENT Input shapes must match: expected 1 "
        "for dimension 1 but got 2 at position 1"));

/* ---- parts: SparseSlice and SparseSplit ---- */

/* Sets output o to the elements of s with start <= index < end in every dimension, with start subtracted from
 * their indices. */
static mr_status *write_block(mr_run *r, const mr_sparse *s, const int64_t *start,
                              const int64_t *end, int o, int step)
{
    mr_tensor *indices, *values;
    int64_t *rows, n = 0;
    MR_TRY(mr_new_i64(r, s->n, &rows));
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t *at = mr_sparse_at(s, i);
        bool in = true;
        for (int64_t d = 0; d < s->rank; d++)
            in = in && at[d] >= start[d] && at[d] < end[d];
        if (in)
            rows[n++] = i;
    }
    mr_status *st = mr_run_output(r, o, 2, (int64_t[]){n, s->rank}, &indices);
    if (!st)
        st = mr_run_output(r, o + step, 1, &n, &values);
    if (!st)
        st = mr_sparse_pick(r, values, s->values, rows);
    for (int64_t i = 0; i < n && !st; i++)
        for (int64_t d = 0; d < s->rank; d++)
            MR_DATA(int64_t, indices)[i * s->rank + d] = mr_sparse_at(s, rows[i])[d] - start[d];
    mr_scratch_free(rows);
    return st;
}

static mr_status *run_slice(mr_run *r)
{
    const mr_tensor *start = mr_in(r, 3), *size = mr_in(r, 4);
    mr_sparse s;
    int64_t end[MR_MAX_RANK], dims[MR_MAX_RANK];
    MR_TRY(mr_sparse_read(r, 0, "", &s));
    if (start->rank != 1 || size->rank != 1 || start->n != s.rank || size->n != s.rank ||
        s.rank > MR_MAX_RANK)
        return mr_invalid(
            "Expected start and size to be vectors of length %lld, got shapes %s and %s",
            (long long)s.rank, MR_TENSOR_SHAPE(start), MR_TENSOR_SHAPE(size));
    for (int64_t d = 0; d < s.rank; d++) {
        int64_t a = MR_DATA(const int64_t, start)[d], n = MR_DATA(const int64_t, size)[d];
        if (a < 0 || n < 0)
            return mr_invalid("start[%lld] = %lld and size[%lld] = %lld must not be negative",
                              (long long)d, (long long)a, (long long)d, (long long)n);
        end[d] = a >= s.dims[d] ? a : n > s.dims[d] - a ? s.dims[d] : a + n;
        dims[d] = end[d] - a;
    }
    MR_TRY(write_block(r, &s, start->data, end, 0, 1));
    return mr_give_vector(r, 2, s.rank, dims);
}

static mr_status *slice_shape(mr_infer *c)
{
    const mr_pshape *start, *size;
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    MR_TRY(mr_infer_rank(c, c->in[3], 1, &start));
    MR_TRY(mr_infer_rank(c, c->in[4], 1, &size));
    mr_infer_out_sparse(c, 0, -1, rank, true);
    return NULL;
}

static void slice_backward(mr_grad *g)
{
    mr_dxi(g, 1,
           mr_emit(g->s, "SparseSliceGrad", mr_dyi(g, 1), mr_xi(g, 0), mr_xi(g, 3), mr_yi(g, 0)));
}

MR_OP(SparseSlice,
    .doc      = "the elements of a block, with its start subtracted from the indices",
    .sig      = "indices: int64, values: T, shape: int64, start: int64, size: int64 -> output_indices: int64, "
                "output_values: T, output_shape: int64",
    .attrs    = "T: type",
    .shape    = slice_shape,
    .grad     = slice_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_slice)),
    .examples = MR_EXAMPLES(
        "[[0, 1], [1, 0], [1, 2]], [1, 2, 3], [2, 3], [1, 0], [1, 2] -> [[0, 0]], [2], [1, 2]",
        "[[0], [3]], [1, 2], [4], [2], [10] -> [[1]], [2], [2]", "[[0]], [\"a\"], [4], [9], [1] -> shape(0,1), shape(0), [0]",
        "shape(0,1), shape(0), [4], [1], [2] -> shape(0,1), shape(0), [2]",
        "[[0]], [1], [4], [-1], [2] -> !INVALID_ARGUMENT must not be negative",
        "[[0]], [1], [4], [0, 0], [2] -> !INVALID_ARGUMENT vectors of length 1"));

/* The elements of the output are those of the input within the block, in the same order. */
static mr_status *run_slice_grad(mr_run *r)
{
    const mr_tensor *grad = mr_in(r, 0), *in = mr_in(r, 1), *start = mr_in(r, 2),
                    *out = mr_in(r, 3);
    mr_tensor *dx;
    if (grad->rank != 1 || in->rank != 2 || start->rank != 1 || out->rank != 2 ||
        out->dims[0] != grad->n || in->dims[1] != out->dims[1] || start->n != in->dims[1])
        return mr_invalid("the gradient %s, the indices %s and %s and the start %s of a slice do "
                          "not match",
                          MR_TENSOR_SHAPE(grad), MR_TENSOR_SHAPE(in), MR_TENSOR_SHAPE(out),
                          MR_TENSOR_SHAPE(start));
    int64_t rank = start->n, k = 0;
    const int64_t *a = in->data, *b = out->data, *from = start->data;
    MR_TRY(mr_tensor_zeros(mr_run_allocator(r), (mr_dtype)grad->dtype, 1, in->dims, &dx));
    mr_run_set(r, 0, dx);
    for (int64_t i = 0; i < in->dims[0] && k < grad->n; i++) {
        bool same = true;
        for (int64_t d = 0; d < rank && same; d++)
            same = (uint64_t)a[i * rank + d] - (uint64_t)from[d] == (uint64_t)b[k * rank + d];
        if (same)
            MR_TRY(mr_tensor_try_copy_elements(dx, i, grad, k++, 1));
    }
    return k == grad->n ? NULL
                        : mr_error(MR_INTERNAL,
                                   "Elements of backprop_val_grad aren't all propagated. Num "
                                   "elements:%lld, used: %lld",
                                   (long long)grad->n, (long long)k);
}

static mr_status *slice_grad_shape(mr_infer *c)
{
    const mr_pshape *in = NULL;
    MR_TRY(mr_infer_rank(c, c->in[1], 2, &in));
    mr_infer_out_vector(c, 0, in->dims[0]);
    return NULL;
}

MR_OP(SparseSliceGrad,
    .doc      = "the gradient of SparseSlice: zeros for the elements outside",
    .sig      = "backprop_val_grad: T, input_indices: int64, input_start: int64, output_indices: int64 -> val_grad: T",
    .attrs    = "T: numbertype",
    .shape    = slice_grad_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_slice_grad)),
    .examples = MR_EXAMPLES(
        "[5], [[0, 1], [1, 0], [1, 2]], [1, 0], [[0, 0]] -> [0, 5, 0]", "shape(0), [[0]], [1], shape(0,1) -> [0]",
        "[5], [[0]], [1], [[0]] -> !INTERNAL aren't all propagated", "[5], [[0]], [1], [[0, 0]] -> !INVALID_ARGUMENT do not match"));

/* ---- SparseSplit ---- */

/* Part i of n is one larger if i is below the remainder. */
static mr_status *run_split(mr_run *r)
{
    int n = r->n_out / 3;
    mr_sparse s;
    int64_t dim, start[MR_MAX_RANK] = {0}, end[MR_MAX_RANK], dims[MR_MAX_RANK];
    MR_TRY(mr_in_scalar_int(r, 0, "split_dim", &dim));
    MR_TRY(mr_sparse_read(r, 1, "", &s));
    if (s.rank > MR_MAX_RANK || dim < -s.rank || dim >= s.rank)
        return mr_invalid("Input split_dim should be between [0, rank (%lld)), got %lld",
                          (long long)s.rank, (long long)dim);
    dim = dim < 0 ? dim + s.rank : dim;
    if (n > s.dims[dim])
        return mr_invalid(
            "Input num_split should be between 1 and the splitting dimension size (%lld), got %d",
            (long long)s.dims[dim], n);
    MR_TRY(mr_sparse_check_bounds(&s));
    memcpy(end, s.dims, (size_t)s.rank * sizeof(int64_t));
    memcpy(dims, s.dims, (size_t)s.rank * sizeof(int64_t));
    for (int i = 0; i < n; i++) {
        int64_t size = s.dims[dim] / n + (i < s.dims[dim] % n);
        end[dim] = start[dim] + size;
        dims[dim] = size;
        MR_TRY(write_block(r, &s, start, end, i, n));
        MR_TRY(mr_give_vector(r, 2 * n + i, s.rank, dims));
        start[dim] = end[dim];
    }
    return NULL;
}

static mr_status *split_shape(mr_infer *c)
{
    int n = c->n_out / 3;
    int64_t count, rank;
    const mr_pshape *scalar;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &scalar));
    MR_TRY(mr_infer_sparse(c, 1, &count, &rank));
    for (int i = 0; i < n; i++) {
        c->out[i] = mr_pshape_matrix(c->arena, -1, rank);
        mr_infer_out_vector(c, n + i, -1);
        mr_infer_out_vector(c, 2 * n + i, rank);
    }
    return NULL;
}

MR_OP(SparseSplit,
    .doc      = "splits a sparse tensor along a dimension; the first parts are one larger if it does not divide "
                "evenly",
    .sig      = "split_dim: int64, indices: int64, values: T, shape: int64 -> output_indices: num_split * int64, "
                "output_values: num_split * T, output_shape: num_split * int64",
    .attrs    = "num_split: int >= 1; T: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = split_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_split)),
    .examples = MR_EXAMPLES(
        "num_split=2: 1, [[0, 0], [0, 2], [1, 1]], [1, 2, 3], [2, 3] -> [[0, 0], [1, 1]], [[0, 0]], [1, 3], [2], [2, 2], [2, 1]",
        "num_split=1: -1, [[0]], [\"a\"], [1] -> [[0]], [\"a\"], [1]",
        "num_split=2: 0, shape(0,1), shape(0), [5] -> shape(0,1), shape(0,1), shape(0), shape(0), [3], [2]",
        "num_split=3: 0, [[0]], [1], [2] -> !INVALID_ARGUMENT Input num_split should be between 1",
        "num_split=1: 1, [[0]], [1], [2] -> !INVALID_ARGUMENT Input split_dim should be between",
        "num_split=1: 0, [[2]], [1], [2] -> !INVALID_ARGUMENT is out of bounds"));
