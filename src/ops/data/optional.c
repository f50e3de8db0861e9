/* ops/data/optional.c -- optionals: OptionalFromValue, OptionalNone, OptionalHasValue, OptionalGetValue. */
#include "ops/data/optional.h"

#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/state/update.h"
#include "tensor/variant.h"

typedef struct optional {
    mr_object base;
    int n; /* 0: it has no value */
    mr_tensor *t[];
} optional;

static void optional_free(mr_object *o)
{
    optional *p = (optional *)o;
    for (int i = 0; i < p->n; i++)
        mr_tensor_unref(p->t[i]);
    mr_free(p);
}

static const mr_object_type optional_type;

static optional *new_optional(int n, mr_tensor *const *t)
{
    optional *p = mr_calloc(1, sizeof(optional) + sizeof(mr_tensor *) * (size_t)n);
    mr_object_init(&p->base, &optional_type);
    p->n = n;
    for (int i = 0; t && i < n; i++)
        p->t[i] = mr_tensor_ref(t[i]);
    return p;
}

/* Zeros for each component; for a missing value, a missing value. */
static mr_status *zeros_like(const mr_object *o, mr_allocator *a, mr_object **out)
{
    const optional *p = (const optional *)o;
    optional *z = new_optional(p->n, NULL);
    mr_status *st = NULL;
    for (int i = 0; !st && i < p->n; i++)
        st = p->t[i]->dtype == MR_VARIANT ? mr_variants_zeros_like(a, p->t[i], &z->t[i])
                                          : mr_tensor_zeros(a, p->t[i]->dtype, p->t[i]->rank, p->t[i]->dims, &z->t[i]);
    if (st)
        mr_object_unref(&z->base);
    else
        *out = &z->base;
    return st;
}

static mr_status *add_optionals(const mr_object *x, const mr_object *y, mr_allocator *a, mr_object **out)
{
    const optional *p = (const optional *)x, *q = (const optional *)y;
    if ((p->n == 0) != (q->n == 0))
        return mr_invalid("Cannot add optionals because one has a value and the other doesn't.");
    if (p->n != q->n)
        return mr_invalid("Cannot add optionals because they have different numbers of components (%d vs. %d).", p->n, q->n);
    optional *z = new_optional(p->n, NULL);
    mr_status *st = NULL;
    for (int i = 0; !st && i < p->n; i++)
        st = mr_update_sum(a, p->t[i], q->t[i], &z->t[i]);
    if (st)
        mr_object_unref(&z->base);
    else
        *out = &z->base;
    return st;
}

static const mr_object_type optional_type = {.name = "tensorflow::data::Optional", .free = optional_free,
                                             .zeros_like = zeros_like, .add = add_optionals};

mr_status *mr_optional_give(mr_run *r, int n, mr_tensor *const *t)
{
    mr_tensor *v;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &v));
    *MR_DATA(mr_object *, v) = &new_optional(n, t)->base;
    return NULL;
}

static mr_status *optional_in(const mr_run *r, const optional **out)
{
    const mr_tensor *t = mr_in(r, 0);
    mr_object *o = t->rank == 0 ? *MR_DATA(mr_object *, t) : NULL;
    if (!o || o->type != &optional_type)
        return mr_invalid("Input to %s must be a scalar variant holding an Optional value.", r->node->def->name);
    *out = (const optional *)o;
    return NULL;
}

/* The gradient of an optional is an optional of gradients. */
static void from_value_backward(mr_grad *g)
{
    const mr_node *n = g->node;
    const mr_pshape **shapes = mr_new_array(const mr_pshape *, n->n_in + 1);
    for (int i = 0; i < n->n_in; i++)
        shapes[i] = mr_out_shape(n->in[i]);
    if (mr_has_dy(g, 0)) {
        mr_out v = mr_emit_with(g->s, "OptionalGetValue", MR_ATTRS({"output_types", mr_a_types(n->n_in, n->in_types)},
                                                                   {"output_shapes", mr_a_shapes(n->n_in, shapes)}),
                                mr_dyi(g, 0));
        for (int i = 0; i < n->n_in; i++)
            mr_dxi(g, i, mr_nth(v, i));
    }
    mr_free(shapes);
}

static void get_value_backward(mr_grad *g)
{
    int n = g->node->n_out;
    mr_out *dy = mr_new_array(mr_out, n + 1);
    for (int i = 0; i < n; i++)
        dy[i] = mr_dyi(g, i);
    mr_dxi(g, 0, mr_emit_n(g->s, "OptionalFromValue", NULL, 0, dy, n));
    mr_free(dy);
}

static mr_status *from_value(mr_run *r)
{
    mr_tensor **t = mr_new_array(mr_tensor *, r->n_in);
    for (int i = 0; i < r->n_in; i++)
        t[i] = mr_in(r, i);
    mr_status *st = mr_optional_give(r, r->n_in, t);
    mr_free(t);
    return st;
}

MR_OP(OptionalFromValue,
    .doc     = "an optional that has these values",
    .sig     = "components: Toutput_types -> optional: variant",
    .attrs   = "Toutput_types: list(type) >= 1",
    .flags   = MR_NO_FOLD,
    .shape   = mr_shape_scalar,
    .grad    = from_value_backward,
    .kernels = MR_KERNELS(MR_CPU_ANY(from_value)),
    .examples = MR_EXAMPLES("(float[1, 2], \"a\") -> shape()"));

static mr_status *give_none(mr_run *r) { return mr_optional_give(r, 0, NULL); }

MR_OP(OptionalNone,
    .doc     = "an optional without a value",
    .sig     = "-> optional: variant",
    .flags   = MR_NO_FOLD,
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(give_none)),
    .examples = MR_EXAMPLES("-> shape()"));

static mr_status *has_value(mr_run *r)
{
    const optional *p;
    mr_tensor *t;
    MR_TRY(optional_in(r, &p));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &t));
    *MR_DATA(bool, t) = p->n > 0;
    return NULL;
}

MR_OP(OptionalHasValue,
    .doc     = "whether an optional has a value",
    .sig     = "optional: variant -> has_value: bool",
    .shape   = mr_shape_scalar,
    .kernels = MR_KERNELS(MR_CPU_ANY(has_value)),
    .examples = MR_EXAMPLES("o = OptionalNone; : o -> false", "o = OptionalFromValue: (1.5); : o -> true",
                            "d = RangeDataset output_types=[int64] output_shapes=[[]]: 0, 1, 1; : d -> "
                            "!INVALID_ARGUMENT must be a scalar variant holding an Optional value"));

static mr_status *get_value(mr_run *r)
{
    const optional *p;
    MR_TRY(optional_in(r, &p));
    if (p->n == 0)
        return mr_invalid("The given optional does not have a value.");
    if (p->n != r->n_out)
        return mr_invalid("The given optional has %d components, expected %d.", p->n, r->n_out);
    for (int i = 0; i < p->n; i++) {
        const mr_pshape *said = r->node->out_shapes[i];
        bool fits = said->rank < 0 || said->rank == p->t[i]->rank;
        for (int k = 0; fits && k < said->rank; k++)
            fits = said->dims[k] < 0 || said->dims[k] == p->t[i]->dims[k];
        if (p->t[i]->dtype != mr_out_dtype(r, i))
            return mr_invalid("The given optional does not match the expected type for component %d. Expected: %s. "
                              "Actual: %s.", i, mr_dtype_name(mr_out_dtype(r, i)), mr_dtype_name(p->t[i]->dtype));
        if (!fits)
            return mr_invalid("The given optional does not match the expected shape for component %d. Expected: %s. "
                              "Actual: %s.", i, MR_PSHAPE_TEXT(said), MR_TENSOR_SHAPE(p->t[i]));
    }
    for (int i = 0; i < p->n; i++)
        mr_run_set(r, i, mr_tensor_ref(p->t[i]));
    return NULL;
}

static mr_status *get_value_shape(mr_infer *c)
{
    const mr_attr *shapes;
    MR_TRY(mr_node_get_list(c->node, "output_shapes", MR_ATTR_SHAPE, &shapes));
    if (shapes->n != c->n_out)
        return mr_invalid("`output_shapes` must be the same length as `output_types` (%d vs. %d)", shapes->n, c->n_out);
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = shapes->shapes[i];
    return NULL;
}

MR_OP(OptionalGetValue,
    .doc     = "the values of an optional",
    .sig     = "optional: variant -> components: output_types",
    .attrs   = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
    .shape   = get_value_shape,
    .grad    = get_value_backward,
    .kernels = MR_KERNELS(MR_CPU_ANY(get_value)),
    .examples = MR_EXAMPLES(
        "o = OptionalFromValue: (float[1, 2], \"a\"); output_types=[float, string] output_shapes=[[?], []]: o -> [1, 2], \"a\"",
        "o = OptionalFromValue: (float[1, 2]); a = AddN N=2: (o, o); output_types=[float] output_shapes=[[2]]: a -> [2, 4]",
        "o = OptionalNone; output_types=[float] output_shapes=[[]]: o -> !INVALID_ARGUMENT does not have a value",
        "o = OptionalFromValue: (1.5); output_types=[int32] output_shapes=[[]]: o -> !INVALID_ARGUMENT expected type",
        "o = OptionalFromValue: (1.5); output_types=[float] output_shapes=[[1]]: o -> !INVALID_ARGUMENT expected shape"));
