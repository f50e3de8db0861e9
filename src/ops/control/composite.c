/* ops/control/composite.c -- values of several tensors (ragged, sparse ...) that are passed as one variant.
 *
 * Only clients interpret the metadata: it describes how the components form the value. */
#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/state/update.h"
#include "run/run.h"
#include "tensor/variant.h"

typedef struct composite {
    mr_object base;
    mr_str metadata;
    int n;
    mr_tensor *parts[];
} composite;

static void composite_free(mr_object *o)
{
    composite *c = (composite *)o;
    for (int i = 0; i < c->n; i++)
        mr_tensor_unref(c->parts[i]);
    mr_str_deinit(&c->metadata);
    mr_free(c);
}

static const mr_object_type composite_type;

static mr_status *composite_new(mr_sv metadata, int n, composite **out)
{
    composite *c = mr_try_calloc(1, sizeof *c + sizeof(mr_tensor *) * (size_t)n);
    if (!c || !mr_str_try_append(&c->metadata, metadata.p, metadata.n)) {
        mr_free(c);
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a value of %d components", n);
    }
    mr_object_init(&c->base, &composite_type);
    c->n = n;
    *out = c;
    return NULL;
}

/* Row lengths and similar integers are not added: they are kept unchanged. */
static bool is_number(const mr_tensor *t) { return mr_dtype_is_floating(t->dtype) || mr_dtype_is_complex(t->dtype); }

static mr_status *composite_zeros(const mr_object *o, mr_allocator *a, mr_object **out)
{
    const composite *c = (const composite *)o;
    composite *z;
    mr_status *st = NULL;
    MR_TRY(composite_new(mr_str_view(&c->metadata), c->n, &z));
    for (int i = 0; i < c->n && !st; i++) {
        const mr_tensor *t = c->parts[i];
        if (t->dtype == MR_VARIANT)
            st = mr_variants_zeros_like(a, t, &z->parts[i]);
        else if (is_number(t))
            st = mr_tensor_zeros(a, t->dtype, t->rank, t->dims, &z->parts[i]);
        else
            z->parts[i] = mr_tensor_ref(t);
    }
    if (st)
        mr_object_unref(&z->base);
    else
        *out = &z->base;
    return st;
}

static mr_status *add_part(mr_allocator *a, const mr_tensor *x, const mr_tensor *y, mr_tensor **out)
{
    if (x->dtype != y->dtype || !mr_tensor_same_shape(x, y))
        return mr_invalid("Cannot add composite values with components %s %s and %s %s", mr_dtype_name(x->dtype), MR_TENSOR_SHAPE(x),
                          mr_dtype_name(y->dtype), MR_TENSOR_SHAPE(y));
    if (x->dtype == MR_VARIANT)
        return mr_variants_add(a, x, y, out);
    if (!is_number(x)) {
        *out = mr_tensor_ref(x);
        return NULL;
    }
    MR_TRY(mr_tensor_copy(a, x, out));
    mr_update_find(MR_UPDATE_ADD, x->dtype)((*out)->data, y->data, y->n);
    return NULL;
}

static mr_status *composite_add(const mr_object *ox, const mr_object *oy, mr_allocator *a, mr_object **out)
{
    const composite *x = (const composite *)ox, *y = (const composite *)oy;
    composite *z;
    mr_status *st = NULL;
    if (x->n != y->n)
        return mr_invalid("Cannot add composite values of %d and %d components", x->n, y->n);
    MR_TRY(composite_new(mr_str_view(&x->metadata), x->n, &z));
    for (int i = 0; i < x->n && !st; i++)
        st = add_part(a, x->parts[i], y->parts[i], &z->parts[i]);
    if (st)
        mr_object_unref(&z->base);
    else
        *out = &z->base;
    return st;
}

static const mr_object_type composite_type = {"CompositeTensorVariant", composite_free, composite_zeros, composite_add, NULL, NULL};

/* ---- the ops ---- */

static mr_status *from_components(mr_run *r)
{
    mr_sv metadata;
    composite *c;
    mr_tensor *t;
    MR_TRY(mr_node_get_str(r->node, "metadata", &metadata));
    MR_TRY(composite_new(metadata, r->n_in, &c));
    for (int i = 0; i < r->n_in; i++)
        c->parts[i] = mr_tensor_ref(mr_in(r, i));
    MR_TRY(mr_variant_tensor(&c->base, &t));
    mr_run_set(r, 0, t);
    return NULL;
}

static mr_status *to_components(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    mr_object *o = t->rank == 0 ? *MR_DATA(mr_object *, t) : NULL;
    if (!o || o->type != &composite_type)
        return mr_invalid("The input does not hold a CompositeTensorVariant but '%s' of shape %s", o ? o->type->name : "[empty]",
                          MR_TENSOR_SHAPE(t));
    const composite *c = (const composite *)o;
    if (c->n != r->n_out)
        return mr_invalid("Encoded value has %d tensor components; expected %d components based on type_spec", c->n, r->n_out);
    for (int i = 0; i < c->n; i++)
        if (c->parts[i]->dtype != mr_out_dtype(r, i))
            return mr_invalid("Tensor component %d had dtype %s; expected dtype %s", i, mr_dtype_name(c->parts[i]->dtype),
                              mr_dtype_name(mr_out_dtype(r, i)));
    for (int i = 0; i < c->n; i++)
        mr_run_set(r, i, mr_tensor_ref(c->parts[i]));
    return NULL;
}

static void from_backward(mr_grad *g)
{
    mr_out in = mr_dyi(g, 0), o = mr_emit_like(g, "CompositeTensorVariantToComponents", "metadata Tcomponents", &in, 1);
    for (int i = 0; i < g->node->n_in && o.node; i++)
        mr_dxi(g, i, mr_nth(o, i));
}

static void to_backward(mr_grad *g)
{
    mr_out *in = mr_arena_array(&g->s->graph->arena, mr_out, g->node->n_out + 1);
    for (int i = 0; i < g->node->n_out; i++) /* components without a gradient are passed back unchanged */
        in[i] = mr_dtype_is_trainable(mr_dtype_base(g->node->out_types[i])) ? mr_dyi(g, i) : mr_yi(g, i);
    mr_dxi(g, 0, mr_emit_like(g, "CompositeTensorVariantFromComponents", "metadata Tcomponents", in, g->node->n_out));
}

static mr_status *scalar_in(mr_infer *c)
{
    const mr_pshape *ignored;
    return mr_infer_rank(c, c->in[0], 0, &ignored);
}

MR_OP(CompositeTensorVariantFromComponents,
    .doc      = "several tensors as one variant",
    .sig      = "components: Tcomponents -> encoded: variant",
    .attrs    = "metadata: string; Tcomponents: list(type) >= 0",
    .shape    = mr_shape_scalar,
    .grad     = from_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(from_components)),
    .examples = MR_EXAMPLES("nograd metadata=\"\": ([1, 2], \"a\") -> shape()", "metadata=\"\" Tcomponents=[]: () -> shape()"));

MR_OP(CompositeTensorVariantToComponents,
    .doc      = "the tensors that a variant was made of",
    .sig      = "encoded: variant -> components: Tcomponents",
    .attrs    = "metadata: string; Tcomponents: list(type) >= 0",
    .shape    = scalar_in,
    .grad     = to_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(to_components)),
    .examples = MR_EXAMPLES(
        "c = CompositeTensorVariantFromComponents metadata=\"\": ([1, 2], \"a\"); "
        "nograd metadata=\"\" Tcomponents=[float, string]: c -> [1, 2], \"a\"",
        "c = CompositeTensorVariantFromComponents metadata=\"\": ([1, 2]); "
        "metadata=\"\" Tcomponents=[string]: c -> !INVALID_ARGUMENT had dtype float",
        "c = CompositeTensorVariantFromComponents metadata=\"\": ([1, 2]); "
        "metadata=\"\" Tcomponents=[]: c -> !INVALID_ARGUMENT 1 tensor components",
        "m = EmptyTensorMap; metadata=\"\" Tcomponents=[]: m -> !INVALID_ARGUMENT TensorMap"));
