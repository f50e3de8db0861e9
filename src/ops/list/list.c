/* ops/list/list.c -- lists of tensors: elements, sums and serialization.
 *
 * Serialized (tensorflow::TensorList): the existing elements as tensors; the metadata is varints: the number of
 * missing elements and their indices, the element type, the limit (as uint64), and then the TensorShapeProto of the
 * element shape. */
#include "ops/list/list.h"

#include "base/memory.h"
#include "ops/state/update.h"
#include "tensor/variant.h"
#include "wire/pb.h"

/* ---- creation and destruction ---- */

static void list_free(mr_object *o)
{
    mr_list *l = (mr_list *)o;
    for (int i = 0; i < l->e.n; i++)
        mr_tensor_unref(l->e.p[i]);
    mr_vec_deinit(&l->e);
    mr_free(l->shape);
    mr_free(l);
}

mr_pshape *mr_list_copy_shape(const mr_pshape *s)
{
    size_t bytes = sizeof *s + sizeof s->dims[0] * (size_t)MR_MAX(s->rank, 0);
    return memcpy(mr_alloc(bytes), s, bytes);
}

mr_list *mr_list_new(mr_dtype dtype, const mr_pshape *shape, int max)
{
    mr_list *l = mr_new(mr_list);
    mr_object_init(&l->base, &mr_list_type);
    l->dtype = dtype;
    l->shape = mr_list_copy_shape(shape);
    l->max = max;
    return l;
}

static mr_status *reserve_elements(mr_list *l, int64_t n)
{
    if (n > MR_LIST_MAX)
        return mr_error(MR_RESOURCE_EXHAUSTED, "A list of %lld tensors is too long", (long long)n);
    if (n <= l->e.cap)
        return NULL;
    int64_t cap = MR_MAX(n, l->e.cap + (int64_t)l->e.cap / 2); /* lists grow one by one */
    mr_tensor **p = mr_try_realloc(l->e.p, sizeof(mr_tensor *) * (size_t)cap);
    if (!p)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a list of %lld tensors", (long long)n);
    l->e.p = p;
    l->e.cap = (int)cap;
    return NULL;
}

static mr_status *copy_list(const mr_list *l, mr_list **out)
{
    mr_list *c = mr_list_new(l->dtype, l->shape, l->max);
    mr_status *st = reserve_elements(c, l->e.n + 1);
    if (st) {
        mr_object_unref(&c->base);
        return st;
    }
    for (int i = 0; i < l->e.n; i++)
        c->e.p[i] = mr_tensor_ref(l->e.p[i]);
    c->e.n = l->e.n;
    *out = c;
    return NULL;
}

mr_status *mr_list_resize(mr_list *l, int64_t n)
{
    MR_TRY(reserve_elements(l, n));
    for (int64_t i = n; i < l->e.n; i++)
        mr_tensor_unref(l->e.p[i]);
    for (int64_t i = l->e.n; i < n; i++)
        l->e.p[i] = NULL;
    l->e.n = (int)n;
    return NULL;
}

/* ---- inputs and outputs of kernels ---- */

mr_status *mr_list_in_at(const mr_run *r, int in, int64_t i, const mr_list **out)
{
    mr_object *o = MR_DATA(mr_object *, mr_in(r, in))[i];
    if (!o || o->type != &mr_list_type)
        return mr_invalid("Input handle is not a list. Saw: '%s'", o ? o->type->name : "[empty]");
    *out = (const mr_list *)o;
    return NULL;
}

mr_status *mr_list_in(const mr_run *r, int in, mr_dtype type, const mr_list **out)
{
    const mr_tensor *t = mr_in(r, in);
    if (t->dtype != MR_VARIANT || t->rank != 0)
        return mr_invalid("Input list must be a scalar variant, but has shape %s", MR_TENSOR_SHAPE(t));
    MR_TRY(mr_list_in_at(r, in, 0, out));
    if (type != MR_INVALID && (*out)->dtype != type)
        return mr_invalid("Invalid data types; op elements %s but list elements %s", mr_dtype_name(type),
                          mr_dtype_name((*out)->dtype));
    return NULL;
}

mr_status *mr_list_take(mr_run *r, int in, mr_dtype type, mr_list **out)
{
    const mr_list *l;
    MR_TRY(mr_list_in(r, in, type, &l));
    if (!mr_tensor_sole(mr_in(r, in)) || !mr_refs_sole(&l->base.refs))
        return copy_list(l, out);
    *out = *MR_DATA(mr_list *, mr_in(r, in)); /* the input is left empty */
    *MR_DATA(mr_list *, mr_in(r, in)) = NULL;
    return NULL;
}

mr_status *mr_list_give(mr_run *r, int i, mr_list *l)
{
    mr_tensor *t;
    MR_TRY(mr_variant_tensor(&l->base, &t));
    mr_run_set(r, i, t);
    return NULL;
}

/* ---- elements ---- */

bool mr_list_fits(const mr_list *l, int rank, const int64_t *dims)
{
    const mr_pshape *s = l->shape;
    bool fits = s->rank < 0 || s->rank == rank;
    for (int k = 0; fits && k < s->rank; k++)
        fits = s->dims[k] < 0 || s->dims[k] == dims[k];
    return fits;
}

mr_status *mr_list_check_value(const mr_list *l, const mr_tensor *t)
{
    if (t->dtype != l->dtype)
        return mr_invalid("Invalid data types; list elements %s but tried to append %s", mr_dtype_name(l->dtype),
                          mr_dtype_name(t->dtype));
    return mr_list_fits(l, t->rank, t->dims)
               ? NULL
               : mr_invalid("Tried to append a tensor with incompatible shape to a list. Op element shape: %s list shape: %s",
                            MR_TENSOR_SHAPE(t), MR_PSHAPE_TEXT(l->shape));
}

mr_status *mr_list_push(mr_list *l, mr_tensor *t)
{
    MR_TRY(mr_list_check_value(l, t));
    if (l->max >= 0 && l->e.n >= l->max)
        return mr_invalid("Tried to push item into a full list list size: %d max_num_elements: %d", l->e.n, l->max);
    MR_TRY(reserve_elements(l, (int64_t)l->e.n + 1));
    l->e.p[l->e.n++] = mr_tensor_ref(t);
    return NULL;
}

mr_status *mr_list_set(mr_list *l, int64_t i, mr_tensor *t)
{
    if (i < 0 || i >= l->e.n)
        return mr_invalid("Trying to modify element %lld in a list with %d elements.", (long long)i, l->e.n);
    if (!mr_list_fits(l, t->rank, t->dims))
        return mr_invalid("Tried to set a tensor with incompatible shape at a list index. Item element shape: %s list shape: %s",
                          MR_TENSOR_SHAPE(t), MR_PSHAPE_TEXT(l->shape));
    MR_TRY(mr_list_check_value(l, t));
    mr_tensor_unref(l->e.p[i]);
    l->e.p[i] = mr_tensor_ref(t);
    return NULL;
}

mr_status *mr_list_read(mr_run *r, const mr_list *l, int64_t i, const mr_pshape *shape, mr_tensor **out)
{
    if (i < 0 || i >= l->e.n)
        return mr_invalid("Trying to access element %lld in a list with %d elements.", (long long)i, l->e.n);
    *out = mr_tensor_ref(l->e.p[i]);
    if (*out)
        return NULL;
    if (!mr_pshape_full(shape))
        return mr_invalid("Trying to read an uninitialized tensor but element_shape is not fully defined: %s and no list element is "
                          "set.", MR_PSHAPE_TEXT(shape));
    return mr_tensor_zeros(mr_run_allocator(r), l->dtype, shape->rank, shape->dims, out);
}

/* ---- shapes ---- */

mr_status *mr_list_shape_in(const mr_run *r, int in, mr_pshape **out)
{
    const mr_tensor *t = mr_in(r, in);
    if (t->dtype != MR_INT32 && t->dtype != MR_INT64)
        return mr_invalid("Expected an int32 or int64 shape tensor; found %s", mr_dtype_name(t->dtype));
    if (t->rank == 0) {
        if (mr_tensor_int_at(t, 0) != -1)
            return mr_invalid("The only valid scalar shape tensor is the fully unknown shape specified as -1.");
        *out = mr_list_copy_shape(&mr_pshape_unknown);
        return NULL;
    }
    if (t->rank != 1 || t->n > MR_MAX_RANK)
        return mr_invalid("Shape must be a vector of at most %d sizes, but has shape %s", MR_MAX_RANK, MR_TENSOR_SHAPE(t));
    for (int64_t i = 0; i < t->n; i++)
        if (mr_tensor_int_at(t, i) < -1)
            return mr_invalid("Dimension %lld of a shape must be >= -1, got %lld", (long long)i, (long long)mr_tensor_int_at(t, i));
    mr_pshape *s = mr_alloc(sizeof *s + sizeof s->dims[0] * (size_t)t->n);
    s->rank = (int)t->n;
    for (int i = 0; i < s->rank; i++)
        s->dims[i] = mr_tensor_int_at(t, i);
    *out = s;
    return NULL;
}

mr_status *mr_list_merge_shape(const mr_pshape *a, const mr_pshape *b, mr_pshape **out)
{
    if (a->rank >= 0 && b->rank >= 0 && a->rank != b->rank)
        return mr_invalid("PartialTensorShape: Incompatible ranks during merge: %d vs. %d", a->rank, b->rank);
    if (!mr_pshape_compatible(a, b))
        return mr_invalid("PartialTensorShape: Incompatible shapes during merge: %s vs. %s", MR_PSHAPE_TEXT(a), MR_PSHAPE_TEXT(b));
    *out = mr_list_copy_shape(a->rank < 0 ? b : a);
    for (int i = 0; a->rank >= 0 && b->rank >= 0 && i < a->rank; i++)
        if ((*out)->dims[i] < 0)
            (*out)->dims[i] = b->dims[i];
    return NULL;
}

mr_status *mr_list_refine_shape(const mr_tensor *t, int from, mr_pshape **shape)
{
    mr_pshape *s = mr_alloc(sizeof *s + sizeof s->dims[0] * t->rank), *both;
    s->rank = t->rank - from;
    memcpy(s->dims, t->dims + from, sizeof s->dims[0] * (size_t)s->rank);
    mr_status *st = mr_list_merge_shape(*shape, s, &both);
    mr_free(s);
    MR_TRY(st);
    mr_free(*shape);
    *shape = both;
    return NULL;
}

/* ---- zeros and sums ---- */

static mr_status *zeros_of(mr_allocator *a, const mr_tensor *t, mr_tensor **out)
{
    return t->dtype == MR_VARIANT ? mr_variants_zeros_like(a, t, out) : mr_tensor_zeros(a, t->dtype, t->rank, t->dims, out);
}

static mr_status *list_zeros(const mr_object *o, mr_allocator *a, mr_object **out)
{
    const mr_list *l = (const mr_list *)o;
    mr_list *z = mr_list_new(l->dtype, l->shape, l->max);
    mr_status *st = mr_list_resize(z, l->e.n);
    for (int i = 0; i < l->e.n && !st; i++)
        if (l->e.p[i])
            st = zeros_of(a, l->e.p[i], &z->e.p[i]);
    if (st)
        mr_object_unref(&z->base);
    else
        *out = &z->base;
    return st;
}

/* A missing element counts as zero. */
static mr_status *list_add(const mr_object *ox, const mr_object *oy, mr_allocator *a, mr_object **out)
{
    const mr_list *x = (const mr_list *)ox, *y = (const mr_list *)oy;
    mr_pshape *shape;
    if (x->dtype != y->dtype)
        return mr_invalid("Trying to add two lists of tensors of different dtypes. One is %s and the other is %s",
                          mr_dtype_name(x->dtype), mr_dtype_name(y->dtype));
    if (!mr_pshape_compatible(x->shape, y->shape))
        return mr_invalid("Trying to add two lists of tensors with incompatible element shapes. One is %s and the other is %s",
                          MR_PSHAPE_TEXT(x->shape), MR_PSHAPE_TEXT(y->shape));
    if (x->e.n != y->e.n)
        return mr_invalid("Trying to add two lists of tensors with different lengths. One is %d and the other is %d", x->e.n,
                          y->e.n);
    MR_TRY(mr_list_merge_shape(x->shape, y->shape, &shape));
    mr_list *z = mr_list_new(x->dtype, shape, x->max);
    mr_free(shape);
    mr_status *st = mr_list_resize(z, x->e.n);
    for (int i = 0; i < x->e.n && !st; i++) {
        mr_tensor *tx = x->e.p[i], *ty = y->e.p[i];
        if (tx && ty)
            st = mr_update_sum(a, tx, ty, &z->e.p[i]);
        else
            z->e.p[i] = mr_tensor_ref(tx ? tx : ty);
    }
    if (st)
        mr_object_unref(&z->base);
    else
        *out = &z->base;
    return st;
}

/* ---- serialization ---- */

static void put_varint(mr_str *s, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        mr_str_appendc(s, (char)(v | 0x80));
    mr_str_appendc(s, (char)v);
}

static mr_status *list_encode(const mr_object *o, mr_variant_data *d)
{
    const mr_list *l = (const mr_list *)o;
    int missing = 0;
    for (int i = 0; i < l->e.n; i++)
        missing += !l->e.p[i];
    put_varint(&d->metadata, (uint64_t)missing);
    for (int i = 0; i < l->e.n; i++)
        if (l->e.p[i])
            mr_vec_push(&d->tensors, mr_tensor_ref(l->e.p[i]));
        else
            put_varint(&d->metadata, (uint64_t)i);
    put_varint(&d->metadata, l->dtype);
    put_varint(&d->metadata, (uint64_t)(int64_t)l->max);
    mr_pshape_encode(l->shape, &d->metadata);
    return NULL;
}

/* Fills the positions that are not missing, in order; the indices of missing ones must rise. */
static mr_status *place_elements(mr_pb_reader *p, uint64_t n_missing, const mr_variant_data *d, mr_list *l)
{
    if (n_missing > MR_LIST_MAX || n_missing > mr_pb_rest(p).n) /* each takes at least one byte */
        return mr_invalid("Invalid list of tensors: it claims %llu missing elements", (unsigned long long)n_missing);
    MR_TRY(mr_list_resize(l, (int64_t)n_missing + d->tensors.n));
    int at = 0, next = 0;
    for (uint64_t k = 0; k <= n_missing; k++) {
        uint64_t gap = k < n_missing ? mr_pb_raw_varint(p) : (uint64_t)l->e.n;
        if (gap > (uint64_t)l->e.n || gap < (uint64_t)at || gap - (uint64_t)at > (uint64_t)(d->tensors.n - next) ||
            (k < n_missing && gap == (uint64_t)l->e.n))
            return mr_invalid("Invalid list of tensors: index %llu of a missing element, but the list has %d elements",
                              (unsigned long long)gap, l->e.n);
        for (; (uint64_t)at < gap; at++)
            l->e.p[at] = mr_tensor_ref(d->tensors.p[next++]);
        at++;
    }
    return NULL;
}

static mr_status *read_list(mr_pb_reader *p, const mr_variant_data *d, mr_list *l, mr_arena *a)
{
    const mr_pshape *shape;
    MR_TRY(place_elements(p, mr_pb_raw_varint(p), d, l));
    uint64_t dtype = mr_pb_raw_varint(p), max = mr_pb_raw_varint(p);
    MR_TRY(mr_pb_reader_status(p, "TensorList"));
    if (dtype >= MR_REF_OFFSET || !mr_dtype_valid((int)dtype))
        return mr_invalid("Invalid list of tensors: unknown element type %llu", (unsigned long long)dtype);
    MR_TRY(mr_pshape_decode(a, mr_pb_rest(p), &shape));
    l->dtype = (mr_dtype)dtype;
    l->max = (int64_t)max < 0 || max > INT32_MAX ? -1 : (int)max;
    mr_free(l->shape);
    l->shape = mr_list_copy_shape(shape);
    for (int i = 0; i < l->e.n; i++)
        if (l->e.p[i])
            MR_TRY(mr_list_check_value(l, l->e.p[i]));
    return NULL;
}

static mr_status *list_decode(const mr_variant_data *d, mr_object **out)
{
    mr_pb_reader p;
    mr_arena a;
    mr_list *l = mr_list_new(MR_FLOAT, &mr_pshape_unknown, -1);
    mr_arena_init(&a, 256);
    mr_pb_reader_init(&p, mr_str_view(&d->metadata));
    mr_status *st = read_list(&p, d, l, &a);
    mr_arena_deinit(&a);
    if (st)
        mr_object_unref(&l->base);
    else
        *out = &l->base;
    return st;
}

const mr_object_type mr_list_type = {"tensorflow::TensorList", list_free, list_zeros, list_add, list_encode, list_decode};
