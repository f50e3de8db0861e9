/* ops/list/list_shape.c -- shape inference for lists of tensors.
 *
 * A variant output carries the type and shape of the elements of its list, if they are known. Reading an element
 * merges that shape with the one that the reading op declares. */
#include "ops/list/list.h"

/* The elements of input i, a list; NULL: not known. Elements of another type than this are an error. */
static mr_status *list_part(mr_infer *c, int i, mr_dtype type, const struct mr_handle_part **out)
{
    const mr_handle_info *h = c->in_handles[i];
    *out = h && h->n == 1 ? &h->parts[0] : NULL;
    if (*out && type != MR_INVALID && (*out)->dtype != type)
        return mr_invalid("Trying to use a list with wrong element dtype. List has type %s but expected type %s",
                          mr_dtype_name((*out)->dtype), mr_dtype_name(type));
    return NULL;
}

static void set_list(mr_infer *c, int output, mr_dtype type, const mr_pshape *shape)
{
    struct mr_handle_part *part = mr_arena_new(c->arena, struct mr_handle_part);
    mr_handle_info *info = mr_arena_new(c->arena, mr_handle_info);
    *part = (struct mr_handle_part){type, shape};
    *info = (mr_handle_info){1, part};
    c->out_handles[output] = info;
}

static mr_status *element_type(mr_infer *c, mr_dtype *out) { return mr_node_get_type(c->node, "element_dtype", out); }

/* Input i as an element shape: the scalar -1 means that nothing is known. */
static mr_status *shape_value(mr_infer *c, int i, const mr_pshape **out)
{
    const mr_pshape *s = c->in[i];
    *out = &mr_pshape_unknown;
    if (s->rank < 0)
        return NULL;
    if (s->rank == 0) {
        int64_t v;
        if (mr_infer_int(c, i, &v) && v != -1)
            return mr_invalid("The only valid scalar shape tensor is the fully unknown shape specified as -1.");
        return NULL;
    }
    return mr_infer_shape_value(c, i, out);
}

static mr_status *check_scalar(mr_infer *c, int i)
{
    const mr_pshape *ignored;
    return mr_infer_rank(c, c->in[i], 0, &ignored);
}

mr_status *mr_list_shape_new(mr_infer *c)
{
    mr_dtype type;
    const mr_pshape *shape;
    MR_TRY(check_scalar(c, 1));
    MR_TRY(element_type(c, &type));
    MR_TRY(shape_value(c, 0, &shape));
    set_list(c, 0, type, shape);
    return mr_shape_scalar(c);
}

mr_status *mr_list_shape_same(mr_infer *c)
{
    MR_TRY(check_scalar(c, 1));
    c->out_handles[0] = c->in_handles[0];
    return mr_shape_scalar(c);
}

/* The last input becomes an element of the list. */
mr_status *mr_list_shape_push(mr_infer *c)
{
    mr_dtype type;
    const struct mr_handle_part *p;
    const mr_pshape *ignored;
    MR_TRY(element_type(c, &type));
    MR_TRY(list_part(c, 0, type, &p));
    if (p)
        MR_TRY(mr_infer_merge(c, c->in[c->n_in - 1], p->shape, &ignored));
    set_list(c, 0, type, p ? p->shape : &mr_pshape_unknown);
    return mr_shape_scalar(c);
}

mr_status *mr_list_shape_set(mr_infer *c)
{
    MR_TRY(check_scalar(c, 1));
    return mr_list_shape_push(c);
}

/* The shape of an element of the list, from its handle and from input `at`. */
static mr_status *element_shape(mr_infer *c, int at, const mr_pshape **out)
{
    mr_dtype type;
    const struct mr_handle_part *p;
    MR_TRY(element_type(c, &type));
    MR_TRY(list_part(c, 0, type, &p));
    MR_TRY(shape_value(c, at, out));
    if (p)
        MR_TRY(mr_infer_merge(c, *out, p->shape, out));
    return NULL;
}

/* The shape is the list's; the requested one matters only if the element is missing. */
mr_status *mr_list_shape_pop(mr_infer *c)
{
    mr_dtype type;
    const struct mr_handle_part *p;
    MR_TRY(element_type(c, &type));
    MR_TRY(list_part(c, 0, type, &p));
    if (p)
        c->out[1] = p->shape;
    c->out_handles[0] = c->in_handles[0];
    mr_infer_out_scalar(c, 0);
    return NULL;
}

mr_status *mr_list_shape_get(mr_infer *c)
{
    MR_TRY(check_scalar(c, 1));
    return element_shape(c, 2, &c->out[0]);
}

mr_status *mr_list_shape_stack(mr_infer *c)
{
    const mr_pshape *each;
    int64_t n;
    MR_TRY(element_shape(c, 1, &each));
    MR_TRY(mr_node_get_int(c->node, "num_elements", &n));
    c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, n < 0 ? -1 : n), each);
    return NULL;
}

mr_status *mr_list_shape_gather(mr_infer *c)
{
    const mr_pshape *each, *indices;
    MR_TRY(element_shape(c, 2, &each));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &indices));
    c->out[0] = mr_infer_concat(c, indices, each);
    return NULL;
}

/* Elements joined along their first dimension; the kernel checks that they have one. */
static mr_status *set_joined(mr_infer *c, const mr_pshape *each)
{
    mr_infer_out_vector(c, 1, -1);
    if (each->rank < 0)
        return NULL;
    c->out[0] = mr_infer_concat(c, mr_pshape_vector(c->arena, -1), mr_infer_sub(c, each, 1, MR_MAX_RANK));
    return NULL;
}

mr_status *mr_list_shape_concat(mr_infer *c)
{
    mr_dtype type;
    const struct mr_handle_part *p;
    const mr_pshape *each;
    MR_TRY(element_type(c, &type));
    MR_TRY(list_part(c, 0, type, &p));
    MR_TRY(mr_node_get_shape(c->node, "element_shape", &each));
    if (p)
        MR_TRY(mr_infer_merge(c, each, p->shape, &each));
    return set_joined(c, each);
}

mr_status *mr_list_shape_concat_v2(mr_infer *c)
{
    const mr_pshape *each, *ignored;
    MR_TRY(element_shape(c, 1, &each));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &ignored));
    return set_joined(c, each);
}

mr_status *mr_list_shape_split(mr_infer *c)
{
    mr_dtype type;
    const mr_pshape *shape, *value, *ignored;
    MR_TRY(element_type(c, &type));
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &value));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &ignored));
    MR_TRY(shape_value(c, 1, &shape));
    if (value->rank >= 0) {
        const mr_pshape *part =
            mr_infer_concat(c, mr_pshape_vector(c->arena, -1), mr_infer_sub(c, value, 1, MR_MAX_RANK));
        MR_TRY(mr_infer_merge(c, part, shape, &ignored));
    }
    set_list(c, 0, type, shape);
    return mr_shape_scalar(c);
}

/* The rows of `rows` become elements of a list whose element shape input `at` gives. */
static mr_status *list_of_rows(mr_infer *c, int rows, int at)
{
    mr_dtype type;
    const mr_pshape *shape, *value, *ignored;
    MR_TRY(element_type(c, &type));
    MR_TRY(mr_infer_rank_at_least(c, c->in[rows], 1, &value));
    MR_TRY(shape_value(c, at, &shape));
    if (value->rank >= 0)
        MR_TRY(mr_infer_merge(c, mr_infer_sub(c, value, 1, MR_MAX_RANK), shape, &ignored));
    set_list(c, 0, type, shape);
    return mr_shape_scalar(c);
}

mr_status *mr_list_shape_from_tensor(mr_infer *c) { return list_of_rows(c, 0, 1); }

mr_status *mr_list_shape_scatter(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &ignored));
    if (c->n_in > 3)
        MR_TRY(check_scalar(c, 3));
    return list_of_rows(c, 0, 2);
}

mr_status *mr_list_shape_scatter_into(mr_infer *c)
{
    mr_dtype type;
    const struct mr_handle_part *p;
    const mr_pshape *value, *ignored;
    MR_TRY(element_type(c, &type));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &value));
    MR_TRY(mr_infer_rank(c, c->in[2], 1, &ignored));
    MR_TRY(list_part(c, 0, type, &p));
    if (p && value->rank >= 0)
        MR_TRY(mr_infer_merge(c, mr_infer_sub(c, value, 1, MR_MAX_RANK), p->shape, &ignored));
    set_list(c, 0, type, p ? p->shape : &mr_pshape_unknown);
    return mr_shape_scalar(c);
}

mr_status *mr_list_shape_join(mr_infer *c)
{
    mr_dtype type;
    const struct mr_handle_part *a, *b;
    MR_TRY(element_type(c, &type));
    MR_TRY(mr_infer_merge(c, c->in[0], c->in[1], &c->out[0]));
    MR_TRY(list_part(c, 0, MR_INVALID, &a));
    MR_TRY(list_part(c, 1, MR_INVALID, &b));
    const mr_pshape *both = &mr_pshape_unknown;
    a = a ? a : b;
    b = b ? b : a;
    if (a && (a->dtype != type || b->dtype != type))
        return mr_invalid("input_%c.type != element_dtype: %s vs. %s", a->dtype != type ? 'a' : 'b',
                          mr_dtype_name(a->dtype != type ? a->dtype : b->dtype), mr_dtype_name(type));
    if (a)
        MR_TRY(mr_infer_merge(c, a->shape, b->shape, &both));
    set_list(c, 0, type, both);
    return NULL;
}

mr_status *mr_list_shape_batch(mr_infer *c)
{
    const mr_pshape *lists, *value;
    const struct mr_handle_part *p;
    mr_dtype type;
    int64_t n;
    MR_TRY(element_type(c, &type));
    MR_TRY(list_part(c, 0, type, &p));
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &lists));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &value));
    MR_TRY(mr_infer_merge_dim(mr_infer_dim(lists, 0), mr_infer_dim(value, 0), &n));
    mr_infer_out_vector(c, 0, n);
    set_list(c, 0, type, p ? p->shape : &mr_pshape_unknown);
    return NULL;
}

/* A vector, or the scalar -1 for an unknown rank: at run time more or less may be known about the list than here. */
mr_status *mr_list_shape_element(mr_infer *c)
{
    const struct mr_handle_part *p;
    return list_part(c, 0, MR_INVALID, &p);
}
