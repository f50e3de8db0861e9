/* ops/list/list_ops.c -- creates lists of tensors, and accesses single elements. */
#include "ops/list/list.h"
#include "tensor/variant.h"

/* ---- creation ---- */

static mr_status *new_list(mr_run *r, int max, mr_list **out)
{
    mr_pshape *shape;
    mr_dtype type;
    MR_TRY(mr_node_get_type(r->node, "element_dtype", &type));
    MR_TRY(mr_list_shape_in(r, 0, &shape));
    *out = mr_list_new(type, shape, max);
    mr_free(shape);
    return NULL;
}

static mr_status *run_empty(mr_run *r)
{
    int64_t max;
    mr_list *l;
    MR_TRY(mr_in_scalar_int(r, 1, "max_num_elements", &max));
    MR_TRY(new_list(r, max < 0 ? -1 : (int)max, &l));
    return mr_list_give(r, 0, l);
}

static mr_status *run_reserve(mr_run *r)
{
    int64_t n;
    mr_list *l;
    MR_TRY(mr_in_scalar_int(r, 1, "num_elements", &n));
    if (n < 0)
        return mr_invalid("The num_elements to reserve must be a non negative number, but got %lld", (long long)n);
    MR_TRY(new_list(r, -1, &l));
    mr_status *st = mr_list_resize(l, n);
    if (st) {
        mr_object_unref(&l->base);
        return st;
    }
    return mr_list_give(r, 0, l);
}

#define NEW_ATTRS "element_dtype: type; shape_type: {int32, int64}"

MR_OP(EmptyTensorList,
    .doc      = "a list of tensors with nothing in it",
    .sig      = "element_shape: shape_type, max_num_elements: int32 -> handle: variant",
    .attrs    = NEW_ATTRS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_list_shape_new,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_empty)),
    .examples = MR_EXAMPLES(
        "element_dtype=float: int32[2, -1], 3 -> shape()", "element_dtype=string: int64 -1, -1 -> shape()",
        "element_dtype=float: int32 3, -1 -> !INVALID_ARGUMENT", "element_dtype=float: int32[-2], -1 -> !INVALID_ARGUMENT",
        "element_dtype=float: int32[2], [1] -> !INVALID_ARGUMENT"));

MR_OP(TensorListReserve,
    .doc      = "a list of num_elements tensors that are set later",
    .sig      = "element_shape: shape_type, num_elements: int32 -> handle: variant",
    .attrs    = NEW_ATTRS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_list_shape_new,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_reserve)),
    .examples = MR_EXAMPLES(
        "element_dtype=float: int32[2], 3 -> shape()",
        "element_dtype=float: int32[2], -1 -> !INVALID_ARGUMENT non negative",
        "element_dtype=float: int32[2], 2147483647 -> !RESOURCE_EXHAUSTED"));

/* ---- the end of a list ---- */

/* Gives the list as output 0, or drops it after an error. */
static mr_status *give_or_drop(mr_run *r, mr_list *l, mr_status *st)
{
    if (!st)
        return mr_list_give(r, 0, l);
    mr_object_unref(&l->base);
    return st;
}

static mr_status *run_push(mr_run *r)
{
    mr_list *l;
    MR_TRY(mr_list_take(r, 0, mr_in(r, 1)->dtype, &l));
    return give_or_drop(r, l, mr_list_push(l, mr_in(r, 1)));
}

static void push_backward(mr_grad *g)
{
    mr_out v = mr_x(g, "tensor");
    mr_out p = mr_emit_like(g, "TensorListPopBack", "element_dtype", MR_OUTS(mr_dy(g, "output_handle"), mr_shape_of(g, v)));
    mr_dx(g, "input_handle", p);
    mr_dx(g, "tensor", mr_nth(p, 1));
}

MR_OP(TensorListPushBack,
    .doc      = "the list with one more element at its end",
    .sig      = "input_handle: variant, tensor: element_dtype -> output_handle: variant",
    .attrs    = "element_dtype: type",
    .shape    = mr_list_shape_push,
    .grad     = push_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_push)),
    .examples = MR_EXAMPLES(
        "l = EmptyTensorList element_dtype=$T: int32[2], -1; nograd: l, [1, 2] -> shape()",
        "l = EmptyTensorList element_dtype=float: int32[2], -1; : l, [1, 2, 3] -> !INVALID_ARGUMENT",
        "l = EmptyTensorList element_dtype=int32: int32[2], -1; element_dtype=float: l, [1, 2] -> !INVALID_ARGUMENT",
        "l = EmptyTensorList element_dtype=float: int32 -1, 0; element_dtype=float: l, 1 -> !INVALID_ARGUMENT full list"));

static mr_status *read_shape(mr_run *r, int in, const mr_list *l, mr_pshape **out)
{
    mr_pshape *asked;
    MR_TRY(mr_list_shape_in(r, in, &asked));
    mr_status *st = mr_list_merge_shape(asked, l->shape, out);
    mr_free(asked);
    return st;
}

/* Element i. If it is missing, the result is zeros, whose shape merges input `in`, the list's element shape and, if
 * `any` and these are not complete, the shapes of all elements that are set. */
static mr_status *read_element(mr_run *r, const mr_list *l, int64_t i, int in, bool any, mr_tensor **out)
{
    mr_pshape *shape = NULL;
    mr_status *st = NULL;
    if (i < 0 || i >= l->e.n || l->e.p[i])
        return mr_list_read(r, l, i, &mr_pshape_unknown, out);
    MR_GO(read_shape(r, in, l, &shape));
    if (any && !mr_pshape_full(shape))
        for (int k = 0; k < l->e.n; k++)
            if (l->e.p[k])
                MR_GO(mr_list_refine_shape(l->e.p[k], 0, &shape));
    MR_GO(mr_list_read(r, l, i, shape, out));
out:
    mr_free(shape);
    return st;
}

static mr_status *pop_from(mr_run *r, mr_list *l)
{
    mr_tensor *t;
    if (l->e.n == 0)
        return mr_invalid("Trying to pop from an empty list.");
    MR_TRY(read_element(r, l, l->e.n - 1, 1, false, &t));
    mr_run_set(r, 1, t);
    return mr_list_resize(l, l->e.n - 1);
}

static mr_status *run_pop(mr_run *r)
{
    mr_list *l;
    MR_TRY(mr_list_take(r, 0, mr_out_dtype(r, 1), &l));
    return give_or_drop(r, l, pop_from(r, l));
}

static void pop_backward(mr_grad *g)
{
    mr_dx(g, "input_handle", mr_emit_like(g, "TensorListPushBack", "element_dtype",
                                          MR_OUTS(mr_dy(g, "output_handle"), mr_dy(g, "tensor"))));
}

MR_OP(TensorListPopBack,
    .doc      = "the list without its last element, and that element",
    .sig      = "input_handle: variant, element_shape: int32 -> output_handle: variant, tensor: element_dtype",
    .attrs    = "element_dtype: type",
    .shape    = mr_list_shape_pop,
    .grad     = pop_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_pop)),
    .examples = MR_EXAMPLES(
        "e = EmptyTensorList element_dtype=$T: int32[2], -1; l = TensorListPushBack: e, [1, 2]; nograd "
        "element_dtype=$T: l, -1 -> shape(), [1, 2]",
        "l = TensorListReserve element_dtype=float: int32[2], 1; element_dtype=float: l, -1 -> shape(), [0, 0]",
        "l = TensorListReserve element_dtype=float: int32 -1, 1; element_dtype=float: l, -1 -> !INVALID_ARGUMENT Trying to read an "
        "uninitialized tensor but element_shape is not fully defined",
        "l = TensorListReserve element_dtype=float: int32[-1, 3], 1; element_dtype=float: l, [2, 3] -> shape(), [[0, 0, 0], [0, 0, 0]]",
        "l = TensorListReserve element_dtype=float: int32[-1, 2], 1; element_dtype=float: l, [1, 3] -> !INVALID_ARGUMENT Incompatible "
        "shapes during merge: [1,3] vs. [?,2]",
        "l = EmptyTensorList element_dtype=float: int32[2], -1; element_dtype=float: l, [2] -> !INVALID_ARGUMENT empty list"));

/* ---- elements by index ---- */

static mr_status *run_get(mr_run *r)
{
    const mr_list *l;
    int64_t i;
    mr_tensor *t;
    MR_TRY(mr_list_in(r, 0, mr_out_dtype(r, 0), &l));
    MR_TRY(mr_in_scalar_int(r, 1, "index", &i));
    MR_TRY(read_element(r, l, i, 2, true, &t));
    mr_run_set(r, 0, t);
    return NULL;
}

static void get_backward(mr_grad *g)
{
    mr_out l = mr_x(g, "input_handle");
    mr_attr type = mr_a_type(mr_dtype_base(g->node->out_types[0]));
    mr_out shape = mr_emit_with(g->s, "TensorListElementShape", MR_ATTRS({"shape_type", mr_a_type(MR_INT32)}), l);
    mr_out zeros = mr_emit_with(g->s, "TensorListReserve", MR_ATTRS({"element_dtype", type}), shape,
                                mr_emit(g->s, "TensorListLength", l));
    mr_dx(g, "input_handle", mr_emit(g->s, "TensorListSetItem", zeros, mr_x(g, "index"), mr_dy(g, "item")));
}

MR_OP(TensorListGetItem,
    .doc      = "one element of a list",
    .sig      = "input_handle: variant, index: int32, element_shape: int32 -> item: element_dtype",
    .attrs    = "element_dtype: type",
    .shape    = mr_list_shape_get,
    .grad     = get_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_get)),
    .examples = MR_EXAMPLES(
        "l = TensorListFromTensor element_dtype=$T: [[1, 2], [3, 4]], int32[2]; nograd element_dtype=$T: l, 1, "
        "[2] -> [3, 4]",
        "l = TensorListReserve element_dtype=float: int32[2], 1; element_dtype=float: l, 0, [2] -> [0, 0]",
        "l = TensorListReserve element_dtype=float: int32 -1, 2; m = TensorListSetItem: l, 1, float[1, 2]; element_dtype=float: m, "
        "0, -1 -> [0, 0]",
        "l = TensorListReserve element_dtype=float: int32 -1, 3; m = TensorListSetItem: l, 1, float[1, 2]; n = TensorListSetItem: m, "
        "2, float[1]; element_dtype=float: n, 0, -1 -> !INVALID_ARGUMENT Incompatible shapes during merge: [2] vs. [1]",
        "l = TensorListReserve element_dtype=float: int32 -1, 2; element_dtype=float: l, 0, -1 -> !INVALID_ARGUMENT Trying to read an "
        "uninitialized tensor but element_shape is not fully defined: <unknown> and no list element is set.",
        "l = TensorListReserve element_dtype=float: int32[2], 1; element_dtype=float: l, 1, [2] -> !INVALID_ARGUMENT "
        "access element 1",
        "l = TensorListReserve element_dtype=float: int32[2], 1; element_dtype=float: l, 0, [3] -> !INVALID_ARGUMENT"));

static mr_status *run_set(mr_run *r)
{
    mr_list *l;
    int64_t i;
    MR_TRY(mr_in_scalar_int(r, 1, "index", &i));
    MR_TRY(mr_list_take(r, 0, mr_in(r, 2)->dtype, &l));
    return give_or_drop(r, l, mr_list_set(l, i, mr_in(r, 2)));
}

static void set_backward(mr_grad *g)
{
    mr_out item = mr_x(g, "item"), dl = mr_dy(g, "output_handle"), i = mr_x(g, "index");
    mr_dx(g, "input_handle", mr_emit(g->s, "TensorListSetItem", dl, i, mr_zeros_like(g, item)));
    mr_dx(g, "item", mr_emit_like(g, "TensorListGetItem", "element_dtype", MR_OUTS(dl, i, mr_shape_of(g, item))));
}

MR_OP(TensorListSetItem,
    .doc      = "the list with another element at an index",
    .sig      = "input_handle: variant, index: int32, item: element_dtype -> output_handle: variant",
    .attrs    = "element_dtype: type",
    .shape    = mr_list_shape_set,
    .grad     = set_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_set)),
    .examples = MR_EXAMPLES(
        "l = TensorListReserve element_dtype=$T: int32[2], 2; nograd: l, 1, [1, 2] -> shape()",
        "l = TensorListReserve element_dtype=float: int32[2], 2; : l, 2, float[1, 2] -> !INVALID_ARGUMENT modify element 2",
        "l = TensorListReserve element_dtype=float: int32[2], 2; : l, -1, float[1, 2] -> !INVALID_ARGUMENT",
        "l = TensorListReserve element_dtype=float: int32[2], 2; : l, 1, float[1] -> !INVALID_ARGUMENT"));

/* ---- length and shape ---- */

static mr_status *run_length(mr_run *r)
{
    const mr_list *l;
    mr_tensor *n;
    MR_TRY(mr_list_in(r, 0, MR_INVALID, &l));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &n));
    *MR_DATA(int32_t, n) = l->e.n;
    return NULL;
}

MR_OP(TensorListLength,
    .doc      = "how many elements a list has",
    .sig      = "input_handle: variant -> length: int32",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_length)),
    .examples = MR_EXAMPLES("l = TensorListReserve element_dtype=float: int32[2], 7; : l -> 7",
                            "m = EmptyTensorMap; : m -> !INVALID_ARGUMENT not a list"));

static mr_status *element_shape(mr_run *r)
{
    const mr_list *l;
    mr_tensor *s;
    MR_TRY(mr_list_in(r, 0, MR_INVALID, &l));
    bool unknown = l->shape->rank < 0;
    MR_TRY(mr_run_output(r, 0, unknown ? 0 : 1, (int64_t[]){l->shape->rank}, &s));
    for (int i = 0; i < s->n; i++) {
        int64_t d = unknown ? -1 : l->shape->dims[i];
        if (s->dtype == MR_INT64)
            MR_DATA(int64_t, s)[i] = d;
        else if (d > INT32_MAX)
            return mr_invalid("Dimension %d of the element shape, %lld, is too large for int32", i, (long long)d);
        else
            MR_DATA(int32_t, s)[i] = (int32_t)d;
    }
    return NULL;
}

MR_OP(TensorListElementShape,
    .doc      = "the shape of a list's elements, -1 where it is not known",
    .sig      = "input_handle: variant -> element_shape: shape_type",
    .attrs    = "shape_type: {int32, int64}",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_list_shape_element,
    .kernels  = MR_KERNELS(MR_CPU_ANY(element_shape)),
    .examples = MR_EXAMPLES("l = TensorListReserve element_dtype=float: int32[2, -1], 7; shape_type=$T: l -> [2, -1]",
                            "l = TensorListReserve element_dtype=float: int32 -1, 7; shape_type=int32: l -> -1"));

/* ---- whole lists ---- */

static mr_status *run_resize(mr_run *r)
{
    mr_list *l;
    int64_t n;
    MR_TRY(mr_in_scalar_int(r, 1, "size", &n));
    if (n < 0)
        return mr_invalid("TensorListSlice expects size to be non-negative. Got: %lld", (long long)n);
    MR_TRY(mr_list_take(r, 0, MR_INVALID, &l));
    return give_or_drop(r, l, mr_list_resize(l, n));
}

static void resize_backward(mr_grad *g)
{
    mr_out n = mr_emit(g->s, "TensorListLength", mr_x(g, "input_handle"));
    mr_dx(g, "input_handle", mr_emit(g->s, "TensorListResize", mr_dy(g, "output_handle"), n));
}

MR_OP(TensorListResize,
    .doc      = "the list with as many elements: cut, or with missing ones at its end",
    .sig      = "input_handle: variant, size: int32 -> output_handle: variant",
    .shape    = mr_list_shape_same,
    .grad     = resize_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_resize)),
    .examples = MR_EXAMPLES(
        "l = TensorListReserve element_dtype=float: int32[2], 7; nograd: l, 3 -> shape()",
        "l = TensorListReserve element_dtype=float: int32[2], 7; : l, -3 -> !INVALID_ARGUMENT non-negative",
        "l = TensorListReserve element_dtype=float: int32[2], 7; : l, 2147483647 -> !RESOURCE_EXHAUSTED"));

static mr_status *join_one(mr_run *r, int64_t i, mr_dtype type, mr_object **out)
{
    const mr_list *a, *b;
    MR_TRY(mr_list_in_at(r, 0, i, &a));
    MR_TRY(mr_list_in_at(r, 1, i, &b));
    if (a->dtype != type || b->dtype != type)
        return mr_invalid("input_%c[%lld].dtype != element_dtype.  Saw: %s vs. %s", a->dtype != type ? 'a' : 'b', (long long)i,
                          mr_dtype_name(a->dtype != type ? a->dtype : b->dtype), mr_dtype_name(type));
    if (!mr_pshape_eq(a->shape, b->shape))
        return mr_invalid("input_a and input_b TensorList element shapes are not identical at index %lld.  Saw %s vs. %s",
                          (long long)i, MR_PSHAPE_TEXT(a->shape), MR_PSHAPE_TEXT(b->shape));
    mr_list *l = mr_list_new(type, a->shape, a->max);
    mr_status *st = mr_list_resize(l, (int64_t)a->e.n + b->e.n);
    for (int k = 0; !st && k < l->e.n; k++)
        l->e.p[k] = mr_tensor_ref(k < a->e.n ? a->e.p[k] : b->e.p[k - a->e.n]);
    if (st)
        mr_object_unref(&l->base);
    else
        *out = &l->base;
    return st;
}

static mr_status *run_join(mr_run *r)
{
    const mr_tensor *a = mr_in(r, 0), *b = mr_in(r, 1);
    mr_dtype type;
    mr_tensor *out;
    MR_TRY(mr_node_get_type(r->node, "element_dtype", &type));
    if (!mr_tensor_same_shape(a, b))
        return mr_invalid("Incompatible input TensorList tensor shapes: %s vs. %s", MR_TENSOR_SHAPE(a), MR_TENSOR_SHAPE(b));
    MR_TRY(mr_run_output(r, 0, a->rank, a->dims, &out));
    for (int64_t i = 0; i < a->n; i++)
        MR_TRY(join_one(r, i, type, &MR_DATA(mr_object *, out)[i]));
    return NULL;
}

MR_OP(TensorListConcatLists,
    .doc      = "concatenates two lists, or the lists in two tensors pair by pair",
    .sig      = "input_a: variant, input_b: variant -> output: variant",
    .attrs    = "element_dtype: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_list_shape_join,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_join)),
    .examples = MR_EXAMPLES(
        "l = TensorListReserve element_dtype=$T: int32[2], 2; element_dtype=$T: l, l -> shape()",
        "l = EmptyTensorList element_dtype=float: int32 -1, -1; element_dtype=float: l, l -> shape()",
        "l = TensorListReserve element_dtype=float: int32[2], 2; m = TensorListReserve element_dtype=float: int32[3], 2; "
        "element_dtype=float: l, m -> !INVALID_ARGUMENT",
        "l = TensorListReserve element_dtype=int32: int32[2], 2; element_dtype=float: l, l -> !INVALID_ARGUMENT"));

/* Appends row i of the tensor to list i. */
static mr_status *push_row(mr_run *r, int64_t i, mr_object **out)
{
    const mr_list *from;
    const mr_tensor *rows = mr_in(r, 1);
    mr_tensor *row, *part;
    MR_TRY(mr_list_in_at(r, 0, i, &from));
    if (!mr_list_fits(from, rows->rank - 1, rows->dims + 1))
        return mr_invalid("Tried to append a tensor with incompatible shape to a list at index %lld. Op element shape: %s "
                          "list shape: %s",
                          (long long)i, MR_SHAPE_TEXT(rows->rank - 1, rows->dims + 1), MR_PSHAPE_TEXT(from->shape));
    if (from->dtype != rows->dtype)
        return mr_invalid("Invalid data type at index %lld; op elements %s but list elements %s", (long long)i,
                          mr_dtype_name(rows->dtype), mr_dtype_name(from->dtype));
    mr_list *l = mr_list_new(from->dtype, from->shape, from->max);
    mr_status *st = mr_list_resize(l, from->e.n);
    for (int k = 0; !st && k < l->e.n; k++)
        l->e.p[k] = mr_tensor_ref(from->e.p[k]);
    if (!st && !(st = mr_tensor_rows(rows, i, 1, &part))) {
        st = mr_tensor_view(part, rows->dtype, rows->rank - 1, rows->dims + 1, &row);
        mr_tensor_unref(part);
        if (!st) {
            st = mr_list_push(l, row);
            mr_tensor_unref(row);
        }
    }
    if (st)
        mr_object_unref(&l->base);
    else
        *out = &l->base;
    return st;
}

static mr_status *push_batch(mr_run *r)
{
    const mr_tensor *lists = mr_in(r, 0), *rows = mr_in(r, 1);
    mr_tensor *out;
    if (lists->rank != 1)
        return mr_invalid("Expected input_handles to be a vector of lists, but saw shape %s", MR_TENSOR_SHAPE(lists));
    if (rows->rank < 1 || rows->dims[0] != lists->n)
        return mr_invalid("Expected tensor.shape[0] == input_handles.size, but saw: %s vs. %lld", MR_TENSOR_SHAPE(rows),
                          (long long)lists->n);
    MR_TRY(mr_run_output(r, 0, 1, lists->dims, &out));
    for (int64_t i = 0; i < lists->n; i++)
        MR_TRY(push_row(r, i, &MR_DATA(mr_object *, out)[i]));
    return NULL;
}

MR_OP(TensorListPushBackBatch,
    .doc      = "appends row i of a tensor to list i of a vector of lists",
    .sig      = "input_handles: variant, tensor: element_dtype -> output_handles: variant",
    .attrs    = "element_dtype: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_list_shape_batch,
    .kernels  = MR_KERNELS(MR_CPU_ANY(push_batch)),
    .examples = MR_EXAMPLES(
        "l = EmptyTensorList element_dtype=$T: int32[2], -1; v = Pack N=2: (l, l); : v, [[1, 2], [3, 4]] -> shape(2)",
        "l = EmptyTensorList element_dtype=float: int32[2], -1; v = Pack N=2: (l, l); : v, float[[1, 2]] -> !INVALID_ARGUMENT",
        "l = EmptyTensorList element_dtype=float: int32[2], -1; v = Pack N=2: (l, l); : v, float[[1], [2]] -> !INVALID_ARGUMENT Tried "
        "to append a tensor with incompatible shape to a list at index 0. Op element shape: [1] list shape: [2]",
        ": shape(1), float[[1, 2]] -> !INVALID_ARGUMENT not a list"));
