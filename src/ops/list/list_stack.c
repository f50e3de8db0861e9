/* ops/list/list_stack.c -- converts between lists and tensors: stack, concat, split, gather, scatter. */
#include "ops/list/list.h"

mr_out mr_list_rest_shape(mr_grad *g, mr_out v)
{
    static const int32_t from[] = {1}, all[] = {-1};
    return mr_emit(g->s, "Slice", mr_emit(g->s, "Shape", v), mr_const_vec_i32(g->s, 1, from), mr_const_vec_i32(g->s, 1, all));
}

/* ---- tensors from lists ---- */

typedef struct parts { /* elements, with zeros for missing ones */
    mr_tensor **p;
    int64_t n;
} parts;

static void drop_parts(parts *p)
{
    for (int64_t i = 0; i < p->n; i++)
        mr_tensor_unref(p->p[i]);
    mr_free(p->p);
}

static mr_status *parts_init(parts *p, int64_t n)
{
    p->n = 0;
    p->p = mr_try_calloc((size_t)n + 1, sizeof *p->p);
    return p->p ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %lld elements", (long long)n);
}

/* The common shape of the elements at the indices `at` (NULL: all), on which input `in`, the list's element shape
 * and the elements themselves must agree. */
static mr_status *common_shape(const mr_run *r, int in, const mr_list *l, const mr_tensor *at, mr_pshape **out)
{
    mr_pshape *asked, *s;
    int64_t n = at ? at->n : l->e.n;
    MR_TRY(mr_list_shape_in(r, in, &asked));
    mr_status *st = mr_list_merge_shape(asked, l->shape, &s);
    mr_free(asked);
    MR_TRY(st);
    if (n == 0 && !mr_pshape_full(s))
        st = mr_invalid(at ? "Tried to gather 0-elements from a list with non-fully-defined shape: %s"
                           : "Tried to stack elements of an empty list with non-fully-defined element_shape: %s",
                        MR_PSHAPE_TEXT(s));
    for (int64_t k = 0; k < n && !st; k++) {
        int64_t i = at ? mr_tensor_int_at(at, k) : k;
        if (i < 0 || i >= l->e.n)
            st = mr_invalid("Index %lld out o range; list only has %d elements.", (long long)i, l->e.n);
        else if (l->e.p[i])
            st = mr_list_refine_shape(l->e.p[i], 0, &s);
    }
    if (!st && !mr_pshape_full(s))
        st = mr_invalid(at ? "Tried to gather uninitialized tensors from a list with non-fully-defined element_shape: %s"
                           : "Tried to stack list which only contains uninitialized tensors and has a non-fully-defined "
                             "element_shape: %s",
                        MR_PSHAPE_TEXT(s));
    if (st)
        mr_free(s);
    else
        *out = s;
    return st;
}

/* Reads elements, all of this shape. */
static mr_status *read_parts(mr_run *r, const mr_list *l, const mr_tensor *at, const mr_pshape *shape, parts *p)
{
    int64_t n = at ? at->n : l->e.n;
    for (int64_t k = 0; k < n; k++) {
        MR_TRY(mr_list_read(r, l, at ? mr_tensor_int_at(at, k) : k, shape, &p->p[p->n]));
        p->n++;
    }
    return NULL;
}

static mr_status *stack_parts(mr_run *r, const parts *p, const mr_pshape *each)
{
    mr_shape shape = {.rank = 1, .dims = {p->n}};
    mr_tensor *out;
    for (int i = 0; i < each->rank; i++)
        MR_TRY(mr_shape_push(&shape, each->dims[i]));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    for (int64_t i = 0; i < p->n; i++)
        MR_TRY(mr_tensor_try_copy_elements(out, i * p->p[i]->n, p->p[i], 0, p->p[i]->n));
    return NULL;
}

/* Stacks the elements that `at` selects (NULL: all); their shape is that of the list merged with input `shape_in`. */
static mr_status *stack_elements(mr_run *r, const mr_list *l, const mr_tensor *at, int shape_in)
{
    mr_pshape *each = NULL;
    parts p = {0};
    mr_status *st = NULL;
    MR_GO(common_shape(r, shape_in, l, at, &each));
    MR_GO(parts_init(&p, at ? at->n : l->e.n));
    MR_GO(read_parts(r, l, at, each, &p));
    MR_GO(stack_parts(r, &p, each));
out:
    drop_parts(&p);
    mr_free(each);
    return st;
}

static mr_status *run_stack(mr_run *r)
{
    const mr_list *l;
    int64_t n;
    MR_TRY(mr_list_in(r, 0, mr_out_dtype(r, 0), &l));
    MR_TRY(mr_node_get_int(r->node, "num_elements", &n));
    if (n >= 0 && l->e.n != n)
        return mr_invalid("Operation expected a list with %lld elements but got a list with %d elements.", (long long)n, l->e.n);
    return stack_elements(r, l, NULL, 1);
}

static void stack_backward(mr_grad *g)
{
    mr_out d = mr_dy(g, "tensor");
    mr_dx(g, "input_handle", mr_emit(g->s, "TensorListFromTensor", d, mr_list_rest_shape(g, d)));
}

MR_OP(TensorListStack,
    .doc      = "all elements of a list, along a new first dimension",
    .sig      = "input_handle: variant, element_shape: int32 -> tensor: element_dtype",
    .attrs    = "element_dtype: type; num_elements: int = -1",
    .shape    = mr_list_shape_stack,
    .grad     = stack_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_stack)),
    .examples = MR_EXAMPLES(
        "l = TensorListFromTensor element_dtype=$T: [[1, 2], [3, 4]], int32[2]; nograd element_dtype=$T: l, [2] "
        "-> [[1, 2], [3, 4]]",
        "l = TensorListReserve element_dtype=float: int32[2], 2; element_dtype=float: l, -1 -> [[0, 0], [0, 0]]",
        "l = EmptyTensorList element_dtype=float: int32 -1, -1; element_dtype=float: l, [3] -> shape(0,3)",
        "l = EmptyTensorList element_dtype=float: int32 -1, -1; element_dtype=float: l, -1 -> !INVALID_ARGUMENT empty list",
        "l = TensorListReserve element_dtype=float: int32[2], 2; element_dtype=float num_elements=3: l, -1 -> !INVALID_ARGUMENT "
        "3 elements"));

static mr_status *run_gather(mr_run *r)
{
    const mr_list *l;
    MR_TRY(mr_list_in(r, 0, mr_out_dtype(r, 0), &l));
    if (mr_in(r, 1)->rank != 1)
        return mr_invalid("Expected indices to be a vector, but received shape: %s", MR_TENSOR_SHAPE(mr_in(r, 1)));
    return stack_elements(r, l, mr_in(r, 1), 2);
}

static void gather_backward(mr_grad *g)
{
    mr_out l = mr_x(g, "input_handle");
    mr_out shape = mr_emit_with(g->s, "TensorListElementShape", MR_ATTRS({"shape_type", mr_a_type(MR_INT32)}), l);
    mr_dx(g, "input_handle", mr_emit(g->s, "TensorListScatterV2", mr_dy(g, "values"), mr_x(g, "indices"), shape,
                                     mr_emit(g->s, "TensorListLength", l)));
}

MR_OP(TensorListGather,
    .doc      = "elements of a list by index, along a new first dimension",
    .sig      = "input_handle: variant, indices: int32, element_shape: int32 -> values: element_dtype",
    .attrs    = "element_dtype: type",
    .shape    = mr_list_shape_gather,
    .grad     = gather_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_gather)),
    .examples = MR_EXAMPLES(
        "l = TensorListFromTensor element_dtype=$T: [[1, 2], [3, 4]], int32[2]; nograd element_dtype=$T: l, [1, "
        "1, 0], [2] -> [[3, 4], [3, 4], [1, 2]]",
        "l = TensorListReserve element_dtype=float: int32[2], 2; element_dtype=float: l, shape(0), [2] -> shape(0,2)",
        "l = TensorListReserve element_dtype=float: int32[2], 2; element_dtype=float: l, [2], [2] -> !INVALID_ARGUMENT out o range",
        "l = TensorListReserve element_dtype=float: int32[2], 2; element_dtype=float: l, [-1], [2] -> !INVALID_ARGUMENT"));

/* ---- joined along the first dimension ---- */

/* A missing element has the leading dimension that `leading` (or NULL) gives for it, or else that of `each`. */
static mr_status *read_joined(mr_run *r, const mr_list *l, const mr_pshape *each, const mr_tensor *leading, parts *p)
{
    for (int i = 0; i < l->e.n; i++) {
        mr_pshape *s = mr_list_copy_shape(each);
        bool said = leading && i < leading->n;
        mr_status *st = NULL;
        if (!l->e.p[i] && said)
            s->dims[0] = mr_tensor_int_at(leading, i);
        else if (!l->e.p[i] && s->dims[0] < 0)
            st = leading ? mr_invalid("List contains uninitialized tensor at index %d but leading_dims has only %lld elements.", i,
                                      (long long)leading->n)
                         : mr_invalid("Concating lists with uninitialized tensors is not supported in this version of "
                                      "TensorListConcat. Consider updating your GraphDef to run the newer version.");
        if (!st)
            st = mr_list_read(r, l, i, s, &p->p[p->n]);
        mr_free(s);
        MR_TRY(st);
        p->n++;
    }
    return NULL;
}

static mr_status *join_parts(mr_run *r, const parts *p, const mr_pshape *each)
{
    mr_tensor *out, *lengths;
    mr_shape shape = {.rank = 1};
    int64_t rows = 0, at = 0;
    MR_TRY(mr_run_output(r, 1, 1, (int64_t[]){p->n}, &lengths));
    for (int i = 1; i < each->rank; i++)
        MR_TRY(mr_shape_push(&shape, each->dims[i]));
    for (int64_t i = 0; i < p->n; i++) {
        const mr_tensor *t = p->p[i];
        if (t->rank < 1)
            return mr_invalid("Concat saw a scalar shape at index %lld but requires at least vectors.", (long long)i);
        if (!mr_shape_eq(t->rank - 1, t->dims + 1, each->rank - 1, each->dims + 1))
            return mr_invalid("Tried to concat tensors with unequal shapes: %s and %s", MR_TENSOR_SHAPE(t), MR_PSHAPE_TEXT(each));
        if (!mr_i64_add(rows, t->dims[0], &rows))
            return mr_invalid("The concatenated list has too many rows");
        MR_DATA(int64_t, lengths)[i] = t->dims[0];
    }
    shape.dims[0] = rows;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    for (int64_t i = 0; i < p->n; at += p->p[i++]->n)
        MR_TRY(mr_tensor_try_copy_elements(out, at, p->p[i], 0, p->p[i]->n));
    return NULL;
}

/* The first dimension of the elements that are set, -1 if they differ. It must equal `said`, unless that is
 * negative. */
static mr_status *first_dimension(const mr_list *l, int64_t said, int64_t *out)
{
    bool any = false;
    *out = said;
    for (int i = 0; i < l->e.n; i++) {
        const mr_tensor *t = l->e.p[i];
        if (!t)
            continue;
        if (t->rank < 1)
            return mr_invalid("Concat saw a scalar shape at index %d but requires at least vectors.", i);
        if (said >= 0 && t->dims[0] != said)
            return mr_invalid("First entry of element_shape input does not match the first dim of list element at index: %d "
                              "Expected: %lld Actual: %lld", i, (long long)said, (long long)t->dims[0]);
        *out = !any || t->dims[0] == *out ? t->dims[0] : -1;
        any = true;
    }
    return NULL;
}

/* Merges the shapes of the elements that are set into *each, which is owned.  Then all but its first dimension must be
 * known. */
static mr_status *complete_shape(const mr_list *l, mr_pshape **each)
{
    mr_status *st = NULL;
    if ((*each)->rank == 0)
        return mr_invalid("Concat requires elements to be at least vectors, found scalars instead.");
    int64_t first = -1;
    MR_TRY(first_dimension(l, (*each)->rank > 0 ? (*each)->dims[0] : -1, &first));
    mr_pshape *rest = mr_list_copy_shape(&mr_pshape_unknown);
    if ((*each)->rank > 0) {
        mr_free(rest);
        rest = mr_alloc(sizeof *rest + sizeof rest->dims[0] * (size_t)(*each)->rank);
        rest->rank = (*each)->rank - 1;
        memcpy(rest->dims, (*each)->dims + 1, sizeof rest->dims[0] * (size_t)rest->rank);
    }
    for (int i = 0; i < l->e.n && !st; i++)
        if (l->e.p[i])
            st = mr_list_refine_shape(l->e.p[i], 1, &rest);
    if (!st && !mr_pshape_full(rest))
        st = mr_invalid(l->e.n == 0 ? "All except the first dimension must be fully defined when concating an empty tensor list. "
                                      "element_shape: %s"
                                    : "Trying to concat list with only uninitialized tensors but element_shape_except_first_dim_ is "
                                      "not fully defined: %s",
                        MR_PSHAPE_TEXT(rest));
    if (!st) {
        mr_free(*each);
        *each = mr_alloc(sizeof **each + sizeof (*each)->dims[0] * (size_t)(rest->rank + 1));
        (*each)->rank = rest->rank + 1;
        (*each)->dims[0] = first;
        memcpy((*each)->dims + 1, rest->dims, sizeof rest->dims[0] * (size_t)rest->rank);
    }
    mr_free(rest);
    return st;
}

static mr_status *concat_list(mr_run *r, const mr_pshape *asked, const mr_tensor *leading)
{
    const mr_list *l;
    mr_pshape *each = NULL;
    parts p = {0};
    mr_status *st = NULL;
    MR_TRY(mr_list_in(r, 0, mr_out_dtype(r, 0), &l));
    MR_GO(mr_list_merge_shape(asked, l->shape, &each));
    MR_GO(complete_shape(l, &each));
    MR_GO(parts_init(&p, l->e.n));
    MR_GO(read_joined(r, l, each, leading, &p));
    MR_GO(join_parts(r, &p, each));
out:
    drop_parts(&p);
    mr_free(each);
    return st;
}

static mr_status *run_concat(mr_run *r)
{
    const mr_pshape *asked;
    MR_TRY(mr_node_get_shape(r->node, "element_shape", &asked));
    return concat_list(r, asked, NULL);
}

static mr_status *concat_v2(mr_run *r)
{
    mr_pshape *asked;
    const mr_tensor *leading = mr_in(r, 2);
    if (leading->rank != 1)
        return mr_invalid("leading_dims must be a vector, but has shape %s", MR_TENSOR_SHAPE(leading));
    MR_TRY(mr_list_shape_in(r, 1, &asked));
    mr_status *st = concat_list(r, asked, leading);
    mr_free(asked);
    return st;
}

/* The gradient uses the element shape of the list itself. */
static void concat_backward(mr_grad *g)
{
    mr_out shape = mr_emit_with(g->s, "TensorListElementShape", MR_ATTRS({"shape_type", mr_a_type(MR_INT32)}),
                                mr_x(g, "input_handle"));
    mr_dx(g, "input_handle", mr_emit(g->s, "TensorListSplit", mr_dy(g, "tensor"), shape, mr_y(g, "lengths")));
}

MR_OP(TensorListConcat,
    .doc      = "all elements of a list, joined along their first dimension, and how many rows each had",
    .sig      = "input_handle: variant -> tensor: element_dtype, lengths: int64",
    .attrs    = "element_dtype: type; element_shape: shape = { unknown_rank: true }",
    .shape    = mr_list_shape_concat,
    .grad     = concat_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_concat)),
    .examples = MR_EXAMPLES(
        "l = TensorListSplit element_dtype=$T: [1, 2, 3], int32[-1], [1, 2]; nograd element_dtype=$T: l -> [1, 2, "
        "3], [1, 2]",
        "l = EmptyTensorList element_dtype=float: int32[-1, 2], -1; element_dtype=float: l -> shape(0,2), shape(0)",
        "l = EmptyTensorList element_dtype=float: int32 -1, -1; element_dtype=float: l -> !INVALID_ARGUMENT fully defined",
        "l = EmptyTensorList element_dtype=float: int32 shape(0), -1; element_dtype=float: l -> !INVALID_ARGUMENT Concat requires "
        "elements to be at least vectors, found scalars instead"));

MR_OP(TensorListConcatV2,
    .doc      = "all elements of a list, joined along their first dimension; leading_dims are those of missing ones",
    .sig      = "input_handle: variant, element_shape: shape_type, leading_dims: int64 -> tensor: element_dtype, lengths: int64",
    .attrs    = "element_dtype: type; shape_type: {int32, int64}",
    .shape    = mr_list_shape_concat_v2,
    .grad     = concat_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(concat_v2)),
    .examples = MR_EXAMPLES(
        "l = TensorListSplit element_dtype=$T: [1, 2, 3], int32[-1], [1, 2]; nograd element_dtype=$T: l, "
        "int32[-1], shape(0) -> [1, 2, 3], [1, 2]",
        "l = TensorListReserve element_dtype=float: int32[-1], 2; element_dtype=float: l, int64[-1], [2, 1] -> [0, 0, 0], [2, 1]",
        "l = TensorListReserve element_dtype=float: int32[-1], 2; element_dtype=float: l, int64[-1], [2] -> !INVALID_ARGUMENT List "
        "contains uninitialized tensor at index 1 but leading_dims has only 1 elements.",
        "l = TensorListReserve element_dtype=float: int32 -1, 2; m = TensorListSetItem: l, 1, float[1, 2]; element_dtype=float: m, "
        "int64 -1, shape(0) -> [0, 0, 1, 2], [2, 2]",
        "l = TensorListReserve element_dtype=float: int32 -1, 3; m = TensorListSetItem: l, 1, float[1, 2]; n = TensorListSetItem: m, "
        "2, float[3]; element_dtype=float: n, int64 -1, [1] -> [0, 1, 2, 3], [1, 2, 1]",
        "l = TensorListReserve element_dtype=float: int32 -1, 3; m = TensorListSetItem: l, 1, float[1, 2]; n = TensorListSetItem: m, "
        "2, float[3]; element_dtype=float: n, int64 -1, shape(0) -> !INVALID_ARGUMENT index 0 but leading_dims has only 0 elements",
        "l = TensorListReserve element_dtype=float: int32 -1, 2; element_dtype=float: l, int64 -1, [1, 1] -> !INVALID_ARGUMENT Trying to "
        "concat list with only uninitialized tensors but element_shape_except_first_dim_ is not fully defined",
        "l = TensorListReserve element_dtype=float: int32[-1], 1; element_dtype=float: l, int64[-1], [-2] -> !INVALID_ARGUMENT"));

/* ---- lists from tensors ---- */

static mr_status *new_from(mr_run *r, int shape_in, mr_list **out)
{
    mr_pshape *shape;
    MR_TRY(mr_list_shape_in(r, shape_in, &shape));
    *out = mr_list_new(mr_in(r, 0)->dtype, shape, -1);
    mr_free(shape);
    return NULL;
}

/* Copies `n` rows of a tensor from `row` on; n = -1 copies one row and drops the first dimension. */
static mr_status *cut_rows(mr_run *r, const mr_tensor *v, int64_t row, int64_t n, mr_tensor **out)
{
    mr_shape shape;
    int skip = n < 0 ? 1 : 0;
    int64_t each = v->dims[0] ? v->n / v->dims[0] : 0;
    mr_shape_set(&shape, v->rank, v->dims);
    shape.dims[0] = n < 0 ? 1 : n;
    MR_TRY(mr_tensor_new(mr_run_allocator(r), v->dtype, v->rank - skip, shape.dims + skip, out));
    mr_status *st = mr_tensor_try_copy_elements(*out, 0, v, row * each, shape.dims[0] * each);
    if (st)
        mr_tensor_unref(*out);
    return st;
}

static mr_status *give_or_drop(mr_run *r, mr_list *l, mr_status *st)
{
    if (!st)
        return mr_list_give(r, 0, l);
    mr_object_unref(&l->base);
    return st;
}

static mr_status *append_rows(mr_run *r, const mr_tensor *v, mr_list *l)
{
    for (int64_t i = 0; i < v->dims[0]; i++) {
        mr_tensor *row;
        MR_TRY(cut_rows(r, v, i, -1, &row));
        mr_status *st = mr_list_push(l, row);
        mr_tensor_unref(row);
        MR_TRY(st);
    }
    return NULL;
}

static mr_status *from_tensor(mr_run *r)
{
    const mr_tensor *v = mr_in(r, 0);
    mr_list *l;
    if (v->rank < 1)
        return mr_invalid("Tensor must be at least a vector, but saw shape: %s", MR_TENSOR_SHAPE(v));
    MR_TRY(new_from(r, 1, &l));
    return give_or_drop(r, l, append_rows(r, v, l));
}

static void from_tensor_backward(mr_grad *g)
{
    mr_out v = mr_x(g, "tensor");
    mr_dx(g, "tensor", mr_emit_like(g, "TensorListStack", "element_dtype",
                                    MR_OUTS(mr_dy(g, "output_handle"), mr_list_rest_shape(g, v))));
}

#define FROM_ATTRS "element_dtype: type; shape_type: {int32, int64}"

MR_OP(TensorListFromTensor,
    .doc      = "the rows of a tensor as a list",
    .sig      = "tensor: element_dtype, element_shape: shape_type -> output_handle: variant",
    .attrs    = FROM_ATTRS,
    .shape    = mr_list_shape_from_tensor,
    .grad     = from_tensor_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(from_tensor)),
    .examples = MR_EXAMPLES(
        "nograd: [[1, 2], [3, 4]], int32[2] -> shape()", "nograd: shape(0,2), int64 -1 -> shape()",
        "element_dtype=float: 1, int32 -1 -> !INVALID_ARGUMENT", "element_dtype=float: [1], int32[1] -> !INVALID_ARGUMENT"));

static mr_status *check_lengths(const mr_tensor *lengths, const mr_tensor *v)
{
    int64_t sum = 0;
    if (v->rank < 1)
        return mr_invalid("Tensor must be at least a vector, but saw shape: %s", MR_TENSOR_SHAPE(v));
    if (lengths->rank != 1)
        return mr_invalid("Expected lengths to be a vector, received shape: %s", MR_TENSOR_SHAPE(lengths));
    for (int64_t i = 0; i < lengths->n; i++) {
        int64_t n = MR_DATA(int64_t, lengths)[i];
        int64_t end;
        if (n < 0 || !mr_i64_add(sum, n, &end))
            return mr_invalid("Invalid value in lengths: %lld", (long long)n);
        if (end > v->dims[0])
            return mr_invalid("Attempting to slice [%lld, %lld] from tensor with length %lld", (long long)sum, (long long)end,
                              (long long)v->dims[0]);
        sum = end;
    }
    return sum == v->dims[0] ? NULL
                             : mr_invalid("Unused values in tensor. Length of tensor: %lld Values used: %lld",
                                          (long long)v->dims[0], (long long)sum);
}

static mr_status *append_parts(mr_run *r, const mr_tensor *v, const mr_tensor *lengths, mr_list *l)
{
    int64_t row = 0;
    for (int64_t i = 0; i < lengths->n; i++) {
        mr_tensor *part;
        int64_t n = MR_DATA(int64_t, lengths)[i];
        MR_TRY(cut_rows(r, v, row, n, &part));
        mr_status *st = mr_list_push(l, part);
        mr_tensor_unref(part);
        MR_TRY(st);
        row += n;
    }
    return NULL;
}

/* The parts of v must fit the element shape of l, except for their number of rows. */
static mr_status *check_split(const mr_list *l, const mr_tensor *v)
{
    const mr_pshape *s = l->shape;
    if (s->rank == 0)
        return mr_invalid("TensorListSplit requires element_shape to be at least of rank 1, but saw: %s", MR_PSHAPE_TEXT(s));
    if (v->rank < 1)
        return mr_invalid("Tensor must be at least a vector, but saw shape: %s", MR_TENSOR_SHAPE(v));
    bool fits = s->rank < 0 || s->rank == v->rank;
    for (int i = 1; fits && i < s->rank; i++)
        fits = s->dims[i] < 0 || s->dims[i] == v->dims[i];
    return fits ? NULL
                : mr_invalid("tensor shape %s is not compatible with element_shape %s", MR_TENSOR_SHAPE(v), MR_PSHAPE_TEXT(s));
}

static mr_status *run_split(mr_run *r)
{
    const mr_tensor *v = mr_in(r, 0), *lengths = mr_in(r, 2);
    mr_list *l;
    MR_TRY(new_from(r, 1, &l));
    mr_status *st = check_split(l, v);
    if (!st)
        st = check_lengths(lengths, v);
    return give_or_drop(r, l, st ? st : append_parts(r, v, lengths, l));
}

static void split_backward(mr_grad *g)
{
    static const int32_t any[] = {-1};
    mr_out rest = mr_list_rest_shape(g, mr_x(g, "tensor"));
    mr_out shape = mr_emit_lists(g->s, "ConcatV2", NULL, 0,
                                 (mr_emit_arg[]){{2, (mr_out[]){mr_const_vec_i32(g->s, 1, any), rest}},
                                                 {-1, (mr_out[]){mr_const_i32(g->s, 0)}}}, 2);
    mr_dx(g, "tensor", mr_emit_like(g, "TensorListConcatV2", "element_dtype",
                                    MR_OUTS(mr_dy(g, "output_handle"), shape, mr_x(g, "lengths"))));
}

MR_OP(TensorListSplit,
    .doc      = "parts of a tensor as a list: element i has lengths[i] of its rows",
    .sig      = "tensor: element_dtype, element_shape: shape_type, lengths: int64 -> output_handle: variant",
    .attrs    = FROM_ATTRS,
    .shape    = mr_list_shape_split,
    .grad     = split_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_split)),
    .examples = MR_EXAMPLES(
        "nograd: [[1, 2], [3, 4]], int32[-1, 2], [0, 2] -> shape()",
        "element_dtype=float: [1, 2], int32[-1], [1] -> !INVALID_ARGUMENT Unused values",
        "element_dtype=float: [1, 2], int32[-1], [-1, 3] -> !INVALID_ARGUMENT Invalid value",
        "element_dtype=float: [1, 2], int32[-1], [9223372036854775807, 3] -> !INVALID_ARGUMENT Attempting to slice [0, "
        "9223372036854775807] from tensor with length 2",
        "element_dtype=float: [1, 2], int32[1], [2] -> !INVALID_ARGUMENT"));

/* ---- scattered ---- */

static mr_status *check_scatter(const mr_tensor *v, const mr_tensor *indices, int64_t *most)
{
    if (v->rank < 1)
        return mr_invalid("Tensor must be at least a vector, but saw shape: %s", MR_TENSOR_SHAPE(v));
    if (indices->rank != 1)
        return mr_invalid("Expected indices to be a vector, but received shape: %s", MR_TENSOR_SHAPE(indices));
    if (v->dims[0] != indices->n)
        return mr_invalid("Invalid number of rows in input tensor. Expected: %lld Actual: %lld", (long long)indices->n,
                          (long long)v->dims[0]);
    *most = -1;
    for (int64_t i = 0; i < indices->n; i++) {
        int64_t at = mr_tensor_int_at(indices, i);
        if (at < 0)
            return mr_invalid("Indices in TensorListScatter must all be non-negative.");
        *most = MR_MAX(*most, at);
    }
    return NULL;
}

static mr_status *set_rows(mr_run *r, const mr_tensor *v, const mr_tensor *indices, mr_list *l)
{
    for (int64_t i = 0; i < indices->n; i++) {
        mr_tensor *row;
        MR_TRY(cut_rows(r, v, i, -1, &row));
        mr_status *st = mr_list_set(l, mr_tensor_int_at(indices, i), row);
        mr_tensor_unref(row);
        MR_TRY(st);
    }
    return NULL;
}

static mr_status *scatter_new(mr_run *r, int64_t n)
{
    const mr_tensor *v = mr_in(r, 0), *indices = mr_in(r, 1);
    int64_t most;
    mr_list *l;
    if (n < -1)
        return mr_invalid("TensorListScatter expects num_elements >= -1, found: %lld", (long long)n);
    MR_TRY(check_scatter(v, indices, &most));
    if (n >= 0 && most >= n)
        return mr_invalid("TensorListScatter: Trying to scatter at index %lld in list with size %lld", (long long)most, (long long)n);
    MR_TRY(new_from(r, 2, &l));
    mr_status *st = mr_list_resize(l, n < 0 ? most + 1 : n);
    return give_or_drop(r, l, st ? st : set_rows(r, v, indices, l));
}

static mr_status *run_scatter(mr_run *r) { return scatter_new(r, -1); }

static mr_status *scatter_v2(mr_run *r)
{
    int64_t n;
    MR_TRY(mr_in_scalar_int(r, 3, "num_elements", &n));
    return scatter_new(r, n);
}

static mr_status *scatter_into(mr_run *r)
{
    const mr_tensor *v = mr_in(r, 1), *indices = mr_in(r, 2);
    int64_t most;
    mr_list *l;
    MR_TRY(check_scatter(v, indices, &most));
    MR_TRY(mr_list_take(r, 0, v->dtype, &l));
    mr_status *st = most >= l->e.n ? mr_list_resize(l, most + 1) : NULL;
    return give_or_drop(r, l, st ? st : set_rows(r, v, indices, l));
}

static void scatter_backward(mr_grad *g)
{
    mr_dx(g, "tensor", mr_emit_like(g, "TensorListGather", "element_dtype",
                                    MR_OUTS(mr_dy(g, "output_handle"), mr_x(g, "indices"),
                                            mr_list_rest_shape(g, mr_x(g, "tensor")))));
}

static void scatter_into_backward(mr_grad *g)
{
    mr_out zeros = mr_zeros_like(g, mr_x(g, "tensor"));
    scatter_backward(g);
    mr_dx(g, "input_handle", mr_emit(g->s, "TensorListScatterIntoExistingList", mr_dy(g, "output_handle"), zeros, mr_x(g, "indices")));
}

MR_OP(TensorListScatter,
    .doc      = "a list with the rows of a tensor at these indices",
    .sig      = "tensor: element_dtype, indices: int32, element_shape: shape_type -> output_handle: variant",
    .attrs    = FROM_ATTRS,
    .shape    = mr_list_shape_scatter,
    .grad     = scatter_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_scatter)),
    .examples = MR_EXAMPLES(
        "nograd: [[1, 2], [3, 4]], [2, 0], int32[2] -> shape()",
        "element_dtype=float: [1], [-1], int32 shape(0) -> !INVALID_ARGUMENT non-negative",
        "element_dtype=float: [1], [0, 1], int32 shape(0) -> !INVALID_ARGUMENT number of rows",
        "element_dtype=float: [1], [2147483647], int32 shape(0) -> !RESOURCE_EXHAUSTED"));

MR_OP(TensorListScatterV2,
    .doc      = "a list of num_elements (-1: as many as needed) with the rows of a tensor at these indices",
    .sig      = "tensor: element_dtype, indices: int32, element_shape: shape_type, num_elements: int32 -> output_handle: variant",
    .attrs    = FROM_ATTRS,
    .shape    = mr_list_shape_scatter,
    .grad     = scatter_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(scatter_v2)),
    .examples = MR_EXAMPLES(
        "nograd: [[1, 2], [3, 4]], [2, 0], int32[2], 5 -> shape()",
        "element_dtype=float: [1], [5], int32 shape(0), 5 -> !INVALID_ARGUMENT index 5",
        "element_dtype=float: [1], [0], int32 shape(0), -2 -> !INVALID_ARGUMENT num_elements"));

MR_OP(TensorListScatterIntoExistingList,
    .doc      = "the list with the rows of a tensor at these indices; it grows as needed",
    .sig      = "input_handle: variant, tensor: element_dtype, indices: int32 -> output_handle: variant",
    .attrs    = "element_dtype: type",
    .shape    = mr_list_shape_scatter_into,
    .grad     = scatter_into_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(scatter_into)),
    .examples = MR_EXAMPLES(
        "l = TensorListReserve element_dtype=$T: int32[2], 2; nograd: l, [[1, 2], [3, 4]], [2, 0] -> shape()",
        "l = TensorListReserve element_dtype=float: int32[2], 2; : l, float[[1], [3]], [2, 0] -> !INVALID_ARGUMENT"));
