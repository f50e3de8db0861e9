/* ops/state/tensor_array.c -- arrays of tensors for one step, which loops write and read by index.
 *
 * An array is in the step's resources.  The `flow` scalar that its ops take and return carries no data: it is the edge
 * that orders them, and the edge along which the gradient flows.  The gradient of an array is another array,
 * NAME@SOURCE, in which several writes to an index add up and an index that was never written reads as zeros.
 *
 * Locks: each array has one.  Where both are needed, a gradient array is locked before its forward array. */
#include <stdatomic.h>

#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/state/step_handle.h"
#include "ops/state/tensor_array.h"
#include "ops/state/update.h"

typedef struct element {
    mr_tensor *t;          /* NULL: not written, or cleared */
    bool written, read, cleared;
} element;

typedef struct array {
    mr_object base;
    mr_mutex mu;
    char *name;
    mr_dtype dtype;
    mr_pshape *element_shape;
    bool dynamic, clear_after_read, identical, is_grad;
    int marked MR_GUARDED_BY(mu); /* elements that the last split or unpack wrote (to the forward array, if this is a
                                     gradient array); -1: none */
    struct array *forward; /* only a gradient array: owned reference, for the shapes of unwritten elements */
    bool closed MR_GUARDED_BY(mu);
    bool aggregated MR_GUARDED_BY(mu); /* some element was written more than once */
    MR_VEC(element) e MR_GUARDED_BY(mu);
} array;

static void drop_elements(array *a)
{
    for (int i = 0; i < a->e.n; i++)
        mr_tensor_unref(a->e.p[i].t);
    mr_vec_deinit(&a->e);
}

static void array_free(mr_object *o)
{
    array *a = (array *)o;
    drop_elements(a);
    mr_mutex_deinit(&a->mu);
    if (a->forward)
        mr_object_unref(&a->forward->base);
    mr_free(a->element_shape);
    mr_free(a->name);
    mr_free(a);
}

static const mr_object_type array_type = {"tensorflow::TensorArray", array_free};

enum { MAX_ELEMENTS = 1 << 26 };

static mr_pshape *copy_shape(const mr_pshape *s)
{
    size_t bytes = sizeof *s + sizeof s->dims[0] * (size_t)MR_MAX(s->rank, 0);
    return memcpy(mr_alloc(bytes), s, bytes);
}

static mr_status *resize_locked(array *a, int64_t n) MR_REQUIRES(a->mu)
{
    if (n < 0 || n > MAX_ELEMENTS)
        return mr_invalid("TensorArray %s: a size of %lld", a->name, (long long)n);
    int old = a->e.n;
    if (n > a->e.cap) { /* grows by half, because growing arrays are written element by element */
        int cap = (int)MR_MAX(n, a->e.cap + a->e.cap / 2);
        element *p = mr_try_realloc(a->e.p, sizeof(element) * (size_t)cap);
        if (!p)
            return mr_error(MR_RESOURCE_EXHAUSTED, "TensorArray %s: no memory for %lld elements",
                            a->name, (long long)n);
        a->e.p = p;
        a->e.cap = cap;
    }
    a->e.n = (int)n;
    if (n > old)
        memset(&a->e.p[old], 0, sizeof(element) * (size_t)(n - old));
    return NULL;
}

/* ---- creation ---- */

static array *array_new(const char *name, mr_dtype t, const mr_pshape *shape)
{
    array *a = mr_new(array);
    mr_object_init(&a->base, &array_type);
    mr_mutex_init(&a->mu);
    a->name = mr_strdup(name);
    a->dtype = t;
    a->element_shape = copy_shape(shape);
    a->marked = -1;
    return a;
}

/* Adds the array to the step's resources and sets the outputs to its handle and a flow of 0. */
static mr_status *publish_array(mr_run *r, array *a)
{
    mr_tensor *flow;
    MR_TRY(mr_resources_create(mr_step_resources(r->step), MR_SV(""), mr_sv_of(a->name), &a->base));
    MR_TRY(mr_step_handle_give(r, &array_type, a->name));
    if (r->n_out < 2) /* the older forms have no flow output */
        return NULL;
    MR_TRY(mr_run_output(r, 1, 0, NULL, &flow));
    *MR_DATA(float, flow) = 0;
    return NULL;
}

static mr_status *read_attrs(const mr_node *n, mr_dtype *t, const mr_pshape **shape, bool flags[3], mr_sv *name)
{
    MR_TRY(mr_node_get_type(n, "dtype", t));
    MR_TRY(mr_node_get_shape(n, "element_shape", shape));
    MR_TRY(mr_node_get_bool(n, "dynamic_size", &flags[0]));
    MR_TRY(mr_node_get_bool(n, "clear_after_read", &flags[1]));
    flags[2] = false; /* the older forms do not have it */
    if (mr_node_attr(n, "identical_element_shapes"))
        MR_TRY(mr_node_get_bool(n, "identical_element_shapes", &flags[2]));
    return mr_node_get_str(n, "tensor_array_name", name);
}

mr_status *mr_array_run_new(mr_run *r)
{
    static _Atomic int64_t counter;
    int64_t size;
    mr_dtype t;
    const mr_pshape *shape;
    bool flags[3];
    mr_sv given;
    MR_TRY(mr_in_scalar_int(r, 0, "size", &size));
    MR_TRY(read_attrs(r->node, &t, &shape, flags, &given));
    char *name = given.n ? mr_printf("%.*s_%lld", MR_SV_ARG(given), (long long)atomic_fetch_add(&counter, 1))
                         : mr_printf("%s_%lld", r->node->name, (long long)atomic_fetch_add(&counter, 1));
    array *a = array_new(name, t, shape);
    a->dynamic = flags[0];
    a->clear_after_read = flags[1];
    a->identical = flags[2];
    mr_lock(&a->mu);
    mr_status *st = resize_locked(a, size);
    mr_unlock(&a->mu);
    if (!st)
        st = publish_array(r, a);
    mr_object_unref(&a->base);
    mr_free(name);
    return st;
}

MR_OP(TensorArrayV3,
    .doc     = "an array of `size` tensors for this step",
    .sig     = "size: int32 -> handle: resource, flow: float",
    .attrs   = "dtype: type; element_shape: shape = { unknown_rank: true }; dynamic_size: bool = false; "
               "clear_after_read: bool = true; identical_element_shapes: bool = false; tensor_array_name: string = ''",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_array_shape_new,
    .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_new)),
    .examples = MR_EXAMPLES("dtype=float: 3 -> shape(), 0", "dtype=float: -1 -> !INVALID_ARGUMENT a size of -1"));

static mr_status *find_array(mr_run *r, array **out) { return mr_step_handle_find(r, &array_type, (mr_object **)out); }

static mr_status *closed_error(const array *a) { return mr_invalid("TensorArray %s has already been closed.", a->name); }

/* ---- writing ---- */

static mr_status *check_value_locked(array *a, int64_t i, const mr_tensor *v) MR_REQUIRES(a->mu)
{
    const mr_pshape *s = a->element_shape;
    if (v->dtype != a->dtype)
        return mr_invalid("TensorArray dtype is %s but Op is trying to write dtype %s.", mr_dtype_name(a->dtype),
                          mr_dtype_name(v->dtype));
    bool fits = s->rank < 0 || s->rank == v->rank;
    for (int k = 0; fits && k < s->rank; k++)
        fits = s->dims[k] < 0 || s->dims[k] == v->dims[k];
    if (!fits)
        return mr_invalid("TensorArray %s: Could not write to TensorArray index %lld because the value shape is %s which is "
                          "incompatible with the TensorArray's inferred element shape: %s (consider setting infer_shape=False).",
                          a->name, (long long)i, MR_TENSOR_SHAPE(v), MR_PSHAPE_TEXT(s));
    if (a->identical && !mr_pshape_full(s)) {
        size_t bytes = sizeof *s + sizeof v->dims[0] * v->rank;
        mr_free(a->element_shape);
        a->element_shape = mr_alloc(bytes);
        a->element_shape->rank = v->rank;
        memcpy(a->element_shape->dims, v->dims, sizeof v->dims[0] * v->rank);
    }
    return NULL;
}

static mr_status *check_index_locked(array *a, int64_t i) MR_REQUIRES(a->mu)
{
    if (i < 0 || (i >= a->e.n && !a->dynamic))
        return mr_invalid("TensorArray %s: Tried to write to index %lld but array is not resizeable and size is: %d", a->name,
                          (long long)i, a->e.n);
    return i >= a->e.n ? resize_locked(a, i + 1) : NULL;
}

/* A second write to an index of a gradient array adds to the existing value. */
static mr_status *add_locked(array *a, int64_t i, const mr_tensor *v, mr_allocator *alloc) MR_REQUIRES(a->mu)
{
    element *e = &a->e.p[i];
    mr_update_loop *add = mr_update_find(MR_UPDATE_ADD, a->dtype);
    if (!add)
        return mr_error(MR_UNIMPLEMENTED, "TensorArray %s: cannot add gradients of type %s", a->name,
                        mr_dtype_name(a->dtype));
    if (!mr_tensor_same_shape(e->t, v))
        return mr_invalid("TensorArray %s: Could not aggregate to TensorArray index %lld because the existing shape is %s but "
                          "the new input shape is %s.",
                          a->name, (long long)i, MR_TENSOR_SHAPE(e->t), MR_TENSOR_SHAPE(v));
    if (!mr_tensor_sole(e->t)) {
        mr_tensor *copy;
        MR_TRY(mr_tensor_copy(alloc, e->t, &copy));
        mr_tensor_unref(e->t);
        e->t = copy;
    }
    add(e->t->data, v->data, v->n);
    a->aggregated = true;
    return NULL;
}

static mr_status *write_locked(array *a, int64_t i, mr_tensor *v, mr_allocator *alloc) MR_REQUIRES(a->mu)
{
    if (a->closed)
        return closed_error(a);
    MR_TRY(check_index_locked(a, i));
    MR_TRY(check_value_locked(a, i, v));
    element *e = &a->e.p[i];
    if (e->read)
        return mr_invalid("TensorArray %s: Could not write to TensorArray index %lld because it has already been read.", a->name,
                          (long long)i);
    if (e->written && !a->is_grad)
        return mr_invalid("TensorArray %s: Could not write to TensorArray index %lld because it has already been written to.",
                          a->name, (long long)i);
    if (e->written)
        return add_locked(a, i, v, alloc);
    e->t = mr_tensor_ref(v);
    e->written = true;
    return NULL;
}

/* Passes the flow on, which only orders the ops of an array; shape inference promises that it is a scalar. */
static mr_status *pass_flow(mr_run *r, int out)
{
    const mr_tensor *flow = mr_in(r, r->n_in - 1);
    if (flow->rank != 0)
        return mr_invalid("flow_in must be a scalar, not of shape %s", MR_TENSOR_SHAPE(flow));
    mr_run_pass(r, r->n_in - 1, out);
    return NULL;
}

mr_status *mr_array_run_write(mr_run *r)
{
    array *a;
    int64_t i;
    MR_TRY(mr_in_scalar_int(r, 1, "index", &i));
    MR_TRY(find_array(r, &a));
    mr_lock(&a->mu);
    mr_status *st = write_locked(a, i, mr_in(r, 2), mr_run_allocator(r));
    mr_unlock(&a->mu);
    mr_object_unref(&a->base);
    return st ? st : pass_flow(r, 0);
}

/* Writes n parts of a value along its first dimension; part k has rows[k] rows (NULL: one, and loses the dimension). */
static mr_status *write_parts(mr_run *r, array *a, const mr_tensor *v, int64_t n, const mr_tensor *at, const int64_t *rows)
{
    mr_status *st = NULL;
    int64_t row = 0, each = v->dims[0] ? v->n / v->dims[0] : 0;
    for (int64_t k = 0; k < n && !st; k++) {
        mr_tensor *part;
        mr_shape shape;
        mr_shape_set(&shape, v->rank, v->dims);
        shape.dims[0] = rows ? rows[k] : 1;
        int skip = rows ? 0 : 1;
        st = mr_tensor_new(mr_run_allocator(r), (mr_dtype)v->dtype, v->rank - skip, shape.dims + skip, &part);
        if (st)
            return st;
        st = mr_tensor_try_copy_elements(part, 0, v, row * each, shape.dims[0] * each);
        row += shape.dims[0];
        mr_lock(&a->mu);
        if (!st)
            st = write_locked(a, at ? mr_tensor_int_at(at, k) : k, part, mr_run_allocator(r));
        mr_unlock(&a->mu);
        mr_tensor_unref(part);
    }
    return st;
}

mr_status *mr_array_run_scatter(mr_run *r)
{
    array *a;
    const mr_tensor *indices = mr_in(r, 1), *v = mr_in(r, 2);
    if (indices->rank != 1 || v->rank < 1 || v->dims[0] != indices->n)
        return mr_invalid("Expected len(indices) == values.shape[0], but saw: %lld vs. %s", (long long)indices->n,
                          MR_TENSOR_SHAPE(v));
    MR_TRY(find_array(r, &a));
    mr_status *st = write_parts(r, a, v, indices->n, indices, NULL);
    mr_object_unref(&a->base);
    return st ? st : pass_flow(r, 0);
}

static mr_status *check_lengths(const mr_tensor *lengths, const mr_tensor *v)
{
    int64_t sum = 0;
    if (lengths->rank != 1)
        return mr_invalid("Expected lengths to be a vector, received shape: %s", MR_TENSOR_SHAPE(lengths));
    if (v->rank < 1)
        return mr_invalid("Expected value to be at least a vector, but received shape: %s", MR_TENSOR_SHAPE(v));
    for (int64_t i = 0; i < lengths->n; i++) {
        int64_t n = MR_DATA(int64_t, lengths)[i];
        if (n < 0 || !mr_i64_add(sum, n, &sum))
            return mr_invalid("lengths must not be negative or too large, got %lld", (long long)n);
    }
    return sum == v->dims[0] ? NULL
                             : mr_invalid("Expected sum of lengths to be equal to values.shape[0], but sum of lengths is %lld "
                                          "and value's shape is: %s",
                                          (long long)sum, MR_TENSOR_SHAPE(v));
}

mr_status *mr_array_run_split(mr_run *r)
{
    array *a;
    const mr_tensor *v = mr_in(r, 1), *lengths = mr_in(r, 2);
    MR_TRY(check_lengths(lengths, v));
    MR_TRY(find_array(r, &a));
    mr_lock(&a->mu);
    mr_status *st = a->e.n != lengths->n && !a->dynamic
                        ? mr_invalid("TensorArray's size is not equal to the size of lengths (%d vs. %lld), and the TensorArray "
                                     "is not marked as dynamically resizeable",
                                     a->e.n, (long long)lengths->n)
                        : NULL;
    if (!st && !a->is_grad)
        a->marked = (int)MR_MIN(lengths->n, MAX_ELEMENTS);
    mr_unlock(&a->mu);
    if (!st)
        st = write_parts(r, a, v, lengths->n, NULL, MR_DATA(int64_t, lengths));
    mr_object_unref(&a->base);
    return st ? st : pass_flow(r, 0);
}

/* ---- reading ---- */

/* Finds the array and checks that its elements have the type of this op's output.  The caller owns *out. */
static mr_status *find_to_read(mr_run *r, array **out)
{
    MR_TRY(find_array(r, out));
    if ((*out)->dtype == mr_out_dtype(r, 0))
        return NULL;
    mr_status *st = mr_invalid("TensorArray dtype is %s but Op requested dtype %s.", mr_dtype_name((*out)->dtype),
                               mr_dtype_name(mr_out_dtype(r, 0)));
    mr_object_unref(&(*out)->base);
    return st;
}

/* Zeros for an element that was never written: in the array's element shape, or in that of the forward array's
 * element. */
static mr_status *zeros_locked(array *a, int64_t i, mr_allocator *alloc, mr_tensor **out) MR_REQUIRES(a->mu)
{
    const mr_pshape *s = a->element_shape;
    if (mr_pshape_full(s))
        return mr_tensor_zeros(alloc, a->dtype, s->rank, s->dims, out);
    mr_tensor *like = NULL;
    if (a->forward) {
        mr_lock(&a->forward->mu);
        if (i < a->forward->e.n)
            like = mr_tensor_ref(a->forward->e.p[i].t);
        mr_unlock(&a->forward->mu);
    }
    if (!like)
        return mr_invalid("TensorArray %s: Could not read from TensorArray index %lld. Furthermore, the element shape is not "
                          "fully defined: %s. It is possible you are working with a resizeable TensorArray and "
                          "stop_gradients is not allowing the gradients to be written.",
                          a->name, (long long)i, MR_PSHAPE_TEXT(s));
    mr_status *st = mr_tensor_zeros(alloc, a->dtype, like->rank, like->dims, out);
    mr_tensor_unref(like);
    return st;
}

static mr_status *read_locked(array *a, int64_t i, mr_allocator *alloc, mr_tensor **out) MR_REQUIRES(a->mu)
{
    if (a->closed)
        return closed_error(a);
    if (i < 0 || i >= a->e.n)
        return mr_invalid("TensorArray %s: Tried to read from index %lld but array size is: %d", a->name, (long long)i, a->e.n);
    element *e = &a->e.p[i];
    if (e->cleared)
        return mr_invalid("TensorArray %s: Could not read index %lld twice because it was cleared after a previous read "
                          "(perhaps try setting clear_after_read = false?)",
                          a->name, (long long)i);
    if (!e->written) {
        MR_TRY(zeros_locked(a, i, alloc, &e->t));
        e->written = true;
    }
    *out = mr_tensor_ref(e->t);
    e->read = true;
    if (a->clear_after_read) {
        mr_tensor_unref(e->t);
        e->t = NULL;
        e->cleared = true;
    }
    return NULL;
}

static mr_status *read_at(array *a, int64_t i, mr_allocator *alloc, mr_tensor **out)
{
    mr_lock(&a->mu);
    mr_status *st = read_locked(a, i, alloc, out);
    mr_unlock(&a->mu);
    return st;
}

mr_status *mr_array_run_read(mr_run *r)
{
    array *a;
    int64_t i;
    mr_tensor *t;
    MR_TRY(mr_in_scalar_int(r, 1, "index", &i));
    MR_TRY(find_to_read(r, &a));
    mr_status *st = read_at(a, i, mr_run_allocator(r), &t);
    mr_object_unref(&a->base);
    if (!st)
        mr_run_set(r, 0, t);
    return st;
}

typedef MR_VEC(mr_tensor *) parts;

static void drop_parts(parts *p)
{
    for (int i = 0; i < p->n; i++)
        mr_tensor_unref(p->p[i]);
    mr_vec_deinit(p);
}

static mr_status *read_all(mr_run *r, array *a, int64_t n, const mr_tensor *at, parts *out)
{
    for (int64_t k = 0; k < n; k++) {
        mr_tensor *t;
        MR_TRY(read_at(a, at ? mr_tensor_int_at(at, k) : k, mr_run_allocator(r), &t));
        mr_vec_push(out, t);
    }
    return NULL;
}

/* Stacks the elements along a new dimension. */
static mr_status *stack_parts(mr_run *r, const parts *p)
{
    mr_shape shape = {.rank = 1, .dims = {p->n}};
    const mr_tensor *first = p->p[0];
    mr_tensor *out;
    for (int i = 0; i < first->rank; i++)
        MR_TRY(mr_shape_push(&shape, first->dims[i]));
    for (int i = 1; i < p->n; i++)
        if (!mr_tensor_same_shape(p->p[i], first))
            return mr_invalid("TensorArray has inconsistent shapes.  Index 0 has shape: %s but index %d has shape: %s",
                              MR_TENSOR_SHAPE(first), i, MR_TENSOR_SHAPE(p->p[i]));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    for (int i = 0; i < p->n; i++)
        MR_TRY(mr_tensor_try_copy_elements(out, i * first->n, p->p[i], 0, first->n));
    return NULL;
}

/* The result for no elements; the element shape must be known. */
static mr_status *stack_nothing(mr_run *r, const mr_pshape *each)
{
    mr_shape shape = {.rank = 1, .dims = {0}};
    mr_tensor *out;
    if (!mr_pshape_full(each))
        return mr_error(MR_UNIMPLEMENTED, "TensorArray has size zero, but element shape %s is not fully defined. Currently only "
                                          "static shapes are supported when packing zero-size TensorArrays.",
                        MR_PSHAPE_TEXT(each));
    for (int i = 0; i < each->rank; i++)
        MR_TRY(mr_shape_push(&shape, each->dims[i]));
    return mr_run_output(r, 0, shape.rank, shape.dims, &out);
}

mr_status *mr_array_run_gather(mr_run *r)
{
    array *a;
    const mr_tensor *indices = mr_in(r, 1);
    const mr_pshape *asked;
    parts p = {0};
    if (indices->rank != 1)
        return mr_invalid("Expected indices to be a vector, but received shape: %s", MR_TENSOR_SHAPE(indices));
    MR_TRY(mr_node_get_shape(r->node, "element_shape", &asked));
    MR_TRY(find_to_read(r, &a));
    mr_status *st = read_all(r, a, indices->n, indices, &p);
    if (!st)
        st = p.n ? stack_parts(r, &p) : stack_nothing(r, mr_pshape_full(asked) ? asked : a->element_shape);
    drop_parts(&p);
    mr_object_unref(&a->base);
    return st;
}

static mr_status *join_parts(mr_run *r, const parts *p)
{
    mr_tensor *out, *lengths;
    const mr_tensor *first = p->p[0];
    mr_shape shape;
    mr_shape_set(&shape, first->rank, first->dims);
    MR_TRY(mr_run_output(r, 1, 1, (int64_t[]){p->n}, &lengths));
    int64_t rows = 0, at = 0;
    for (int i = 0; i < p->n; i++) {
        const mr_tensor *t = p->p[i];
        if (t->rank < 1)
            return mr_invalid("Concat saw a scalar shape at index %d but requires at least vectors.", i);
        if (t->rank != first->rank || !mr_shape_eq(t->rank - 1, t->dims + 1, first->rank - 1, first->dims + 1))
            return mr_invalid("TensorArray has inconsistent shapes.  Index 0 has (excepting dimension 0) shape: %s but index %d "
                              "has (excepting dimension 0) shape: %s",
                              MR_SHAPE_TEXT(first->rank - 1, first->dims + 1), i, MR_SHAPE_TEXT(t->rank - 1, t->dims + 1));
        if (!mr_i64_add(rows, t->dims[0], &rows)) /* possible if the rows are empty */
            return mr_invalid("Concat: the sum of all rows is too large");
        MR_DATA(int64_t, lengths)[i] = t->dims[0];
    }
    shape.dims[0] = rows;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    for (int i = 0; i < p->n; at += p->p[i++]->n)
        MR_TRY(mr_tensor_try_copy_elements(out, at, p->p[i], 0, p->p[i]->n));
    return NULL;
}

static mr_status *concat_nothing(mr_run *r)
{
    const mr_pshape *rest;
    mr_tensor *lengths;
    MR_TRY(mr_node_get_shape(r->node, "element_shape_except0", &rest));
    MR_TRY(mr_run_output(r, 1, 1, (int64_t[]){0}, &lengths));
    return stack_nothing(r, rest);
}

/* How many elements Concat and Pack read: all, except in a gradient array, where it is as many as were split or
 * unpacked. */
static int n_to_join(array *a)
{
    mr_lock(&a->mu);
    int n = a->is_grad && a->marked >= 0 ? MR_MIN(a->marked, a->e.n) : a->e.n;
    mr_unlock(&a->mu);
    return n;
}

mr_status *mr_array_run_concat(mr_run *r)
{
    array *a;
    parts p = {0};
    MR_TRY(find_to_read(r, &a));
    int n = n_to_join(a);
    mr_status *st = read_all(r, a, n, NULL, &p);
    if (!st)
        st = p.n ? join_parts(r, &p) : concat_nothing(r);
    drop_parts(&p);
    mr_object_unref(&a->base);
    return st;
}

/* ---- size, close, gradient ---- */

mr_status *mr_array_run_size(mr_run *r)
{
    array *a;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(find_array(r, &a));
    mr_lock(&a->mu);
    *MR_DATA(int32_t, out) = a->e.n;
    mr_status *st = a->closed ? closed_error(a) : NULL;
    mr_unlock(&a->mu);
    mr_object_unref(&a->base);
    return st;
}

mr_status *mr_array_run_close(mr_run *r)
{
    array *a;
    MR_TRY(find_array(r, &a));
    mr_lock(&a->mu);
    a->closed = true;
    drop_elements(a);
    mr_unlock(&a->mu);
    mr_object_unref(&a->base);
    return NULL;
}

typedef struct making {
    array *forward;
    const char *name;
    const mr_tensor *prepend; /* sizes to insert before the elements' shapes; NULL: none */
} making;

/* The elements' shape with `sizes` inserted before it.  The caller frees it. */
static mr_pshape *prepend_sizes(const mr_tensor *sizes, const mr_pshape *s)
{
    if (!sizes || s->rank < 0)
        return copy_shape(s);
    mr_pshape *out = mr_alloc(sizeof *out + sizeof out->dims[0] * (size_t)(sizes->n + s->rank));
    out->rank = (int)sizes->n + s->rank;
    for (int k = 0; k < out->rank; k++)
        out->dims[k] = k < sizes->n ? mr_tensor_int_at(sizes, k) : s->dims[k - sizes->n];
    return out;
}

static mr_status *make_gradient(void *ctx, mr_object **out)
{
    making *m = ctx;
    array *f = m->forward;
    mr_pshape *shape = prepend_sizes(m->prepend, f->element_shape);
    array *a = array_new(m->name, f->dtype, shape);
    mr_free(shape);
    a->is_grad = true;
    a->identical = f->identical;
    a->forward = m->prepend ? NULL : (array *)mr_object_ref(&f->base); /* with prepend, the shapes differ */
    mr_lock(&a->mu);
    mr_lock(&f->mu);
    mr_status *st = f->aggregated ? mr_invalid("TensorArray %s: its gradient cannot be taken after several writes to one index",
                                               f->name)
                    : f->closed ? closed_error(f)
                                : resize_locked(a, f->e.n);
    a->marked = f->marked;
    f->dynamic = false; /* the gradient's size is fixed from now on */
    mr_unlock(&f->mu);
    mr_unlock(&a->mu);
    *out = &a->base;
    if (st)
        mr_object_unref(&a->base);
    return st;
}

static mr_status *check_prepend(const mr_tensor *t)
{
    if (t && (t->rank != 1 || t->n > MR_MAX_RANK / 2))
        return mr_invalid("shape_to_prepend must be a vector of at most %d sizes, not of shape %s",
                          MR_MAX_RANK / 2, MR_TENSOR_SHAPE(t));
    for (int64_t i = 0; t && i < t->n; i++)
        if (mr_tensor_int_at(t, i) < 0)
            return mr_invalid("shape_to_prepend: sizes must not be negative, got %lld",
                              (long long)mr_tensor_int_at(t, i));
    return NULL;
}

mr_status *mr_array_run_gradient(mr_run *r)
{
    array *f;
    mr_object *g;
    mr_sv source;
    const mr_tensor *flow = mr_in(r, 1), *prepend = r->n_in > 2 ? mr_in(r, 2) : NULL;
    MR_TRY(check_prepend(prepend));
    if (flow->rank != 0)
        return mr_invalid("flow_in must be a scalar, not of shape %s", MR_TENSOR_SHAPE(flow));
    MR_TRY(mr_node_get_str(r->node, "source", &source));
    MR_TRY(find_array(r, &f));
    char *name = mr_printf("%s@%.*s", f->name, MR_SV_ARG(source));
    making ctx = {f, name, prepend};
    mr_status *st = f->element_shape->rank + (prepend ? prepend->n : 0) > MR_MAX_RANK
                        ? mr_invalid("shape_to_prepend makes too many dimensions")
                        : mr_resources_find_or_make(mr_step_resources(r->step), MR_SV(""), mr_sv_of(name), &array_type, make_gradient,
                                                    &ctx, &g);
    if (!st) {
        mr_object_unref(g);
        st = mr_step_handle_give(r, &array_type, name);
    }
    mr_object_unref(&f->base);
    mr_free(name);
    if (!st && r->n_out > 1)
        mr_run_pass(r, 1, 1);
    return st;
}

/* TensorArrayPack of the oldest form: stacks all elements. */
mr_status *mr_array_run_pack(mr_run *r)
{
    array *a;
    const mr_pshape *asked;
    parts p = {0};
    MR_TRY(mr_node_get_shape(r->node, "element_shape", &asked));
    MR_TRY(find_to_read(r, &a));
    int n = n_to_join(a);
    mr_status *st = read_all(r, a, n, NULL, &p);
    if (!st)
        st = p.n ? stack_parts(r, &p) : stack_nothing(r, mr_pshape_full(asked) ? asked : a->element_shape);
    drop_parts(&p);
    mr_object_unref(&a->base);
    return st;
}

/* TensorArrayUnpack: writes row i of the value to element i. */
mr_status *mr_array_run_unpack(mr_run *r)
{
    array *a;
    const mr_tensor *v = mr_in(r, 1);
    if (v->rank < 1)
        return mr_invalid("Expected value to be at least a vector, but received shape: %s", MR_TENSOR_SHAPE(v));
    MR_TRY(find_array(r, &a));
    mr_lock(&a->mu);
    mr_status *st = a->e.n != v->dims[0] && !a->dynamic
                        ? mr_invalid("Input value must have first dimension equal to the array size (%lld vs. %d)",
                                     (long long)v->dims[0], a->e.n)
                        : NULL;
    if (!st && !a->is_grad)
        a->marked = (int)MR_MIN(v->dims[0], MAX_ELEMENTS);
    mr_unlock(&a->mu);
    if (!st)
        st = write_parts(r, a, v, v->dims[0], NULL, NULL);
    mr_object_unref(&a->base);
    return st ? st : pass_flow(r, 0);
}

/* ---- gradients of the ops ---- */

/* The gradient array, ordered after `flow`.  Two gradients of one array do not mix.  Its users take `flow` itself, not
 * the array's own flow: no gradient passes through that one, so gradients of gradients would end there. */
static mr_out gradient_array(mr_grad *g, mr_out flow)
{
    return mr_emit_with(g->s, "TensorArrayGradV3", MR_ATTRS({"source", mr_a_str(mr_grad_source(g))}), mr_x(g, "handle"), flow);
}

static void read_backward(mr_grad *g)
{
    mr_out flow = mr_x(g, "flow_in"), ta = gradient_array(g, flow);
    mr_dx(g, "flow_in", mr_emit(g->s, "TensorArrayWriteV3", ta, mr_x(g, "index"), mr_dy(g, "value"), flow));
}

static mr_attr element_type(mr_grad *g, const char *arg) { return mr_a_type(mr_dtype_base(mr_out_type(mr_x(g, arg)))); }

static void write_backward(mr_grad *g)
{
    mr_out flow = mr_dy(g, "flow_out"), ta = gradient_array(g, flow);
    mr_dx(g, "value", mr_emit_with(g->s, "TensorArrayReadV3", MR_ATTRS({"dtype", element_type(g, "value")}), ta,
                                   mr_x(g, "index"), flow));
    mr_dx(g, "flow_in", flow);
}

static void gather_backward(mr_grad *g)
{
    mr_out flow = mr_x(g, "flow_in"), ta = gradient_array(g, flow);
    mr_dx(g, "flow_in", mr_emit(g->s, "TensorArrayScatterV3", ta, mr_x(g, "indices"), mr_dy(g, "value"), flow));
}

static void scatter_backward(mr_grad *g)
{
    mr_out flow = mr_dy(g, "flow_out"), ta = gradient_array(g, flow);
    mr_dx(g, "value", mr_emit_with(g->s, "TensorArrayGatherV3", MR_ATTRS({"dtype", element_type(g, "value")}), ta,
                                   mr_x(g, "indices"), flow));
    mr_dx(g, "flow_in", flow);
}

static void concat_backward(mr_grad *g)
{
    mr_out flow = mr_x(g, "flow_in"), ta = gradient_array(g, flow);
    mr_dx(g, "flow_in",
          mr_emit(g->s, "TensorArraySplitV3", ta, mr_dy(g, "value"), mr_y(g, "lengths"), flow));
}

/* The rows of a split went to the first elements; an array that has grown since has more elements after them. */
static void split_backward(mr_grad *g)
{
    mr_out flow = mr_dy(g, "flow_out"), ta = gradient_array(g, flow);
    mr_out all = mr_emit_with(g->s, "TensorArrayConcatV3", MR_ATTRS({"dtype", element_type(g, "value")}), ta, flow);
    mr_out shape = mr_emit(g->s, "Shape", mr_x(g, "value"));
    mr_dx(g, "value", mr_emit(g->s, "Slice", all, mr_emit(g->s, "ZerosLike", shape), shape));
    mr_dx(g, "flow_in", flow);
}

/* ---- the ops ---- */

#define ARRAY_FLAGS .flags = MR_STATEFUL

MR_OP(TensorArrayWriteV3, .doc = "writes one element",
    .sig = "handle: resource, index: int32, value: T, flow_in: float -> flow_out: float", .attrs = "T: type", ARRAY_FLAGS,
    .shape = mr_array_shape_write, .grad = write_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_write)));
MR_OP(TensorArrayReadV3, .doc = "reads one element",
    .sig = "handle: resource, index: int32, flow_in: float -> value: dtype", .attrs = "dtype: type", ARRAY_FLAGS,
    .shape = mr_array_shape_read, .grad = read_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_read)));
MR_OP(TensorArrayGatherV3, .doc = "reads elements and stacks them",
    .sig = "handle: resource, indices: int32, flow_in: float -> value: dtype",
    .attrs = "dtype: type; element_shape: shape = { unknown_rank: true }", ARRAY_FLAGS, .shape = mr_array_shape_gather,
    .grad = gather_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_gather)));
MR_OP(TensorArrayScatterV3, .doc = "writes the rows of a value to elements",
    .sig = "handle: resource, indices: int32, value: T, flow_in: float -> flow_out: float", .attrs = "T: type", ARRAY_FLAGS,
    .shape = mr_array_shape_scatter, .grad = scatter_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_scatter)));
MR_OP(TensorArrayConcatV3, .doc = "joins all elements along their first dimension",
    .sig = "handle: resource, flow_in: float -> value: dtype, lengths: int64",
    .attrs = "dtype: type; element_shape_except0: shape = { unknown_rank: true }", ARRAY_FLAGS, .shape = mr_array_shape_concat,
    .grad = concat_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_concat)));
MR_OP(TensorArraySplitV3, .doc = "writes parts of a value, lengths[i] rows to element i",
    .sig = "handle: resource, value: T, lengths: int64, flow_in: float -> flow_out: float", .attrs = "T: type", ARRAY_FLAGS,
    .shape = mr_array_shape_split, .grad = split_backward, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_split)));
MR_OP(TensorArraySizeV3, .doc = "the number of elements",
    .sig = "handle: resource, flow_in: float -> size: int32", .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_size)));
MR_OP(TensorArrayCloseV3, .doc = "empties an array; using it later is an error",
    .sig = "handle: resource ->", .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_close)));
MR_OP(TensorArrayGradV3, .doc = "the array that collects the gradients of another's elements",
    .sig = "handle: resource, flow_in: float -> grad_handle: resource, flow_out: float", .attrs = "source: string",
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_array_shape_gradient, .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_gradient)));
MR_OP(TensorArrayGradWithShape, .doc = "TensorArrayGradV3 with dimensions prepended to the elements' shapes",
    .sig = "handle: resource, flow_in: float, shape_to_prepend: int32 -> grad_handle: resource, flow_out: float",
    .attrs = "source: string", .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_array_shape_gradient_with,
    .kernels = MR_KERNELS(MR_CPU_ANY(mr_array_run_gradient)));
