/* graph/grad.c -- the functions for writing the gradient of an op (graph/grad.h). */
#include "graph/backward.h"

static mr_node *node_of(const mr_grad *g) { return (mr_node *)(uintptr_t)g->node; }

void mr_grad_fail(mr_grad *g, mr_code code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    mr_scope_fail(g->s, mr_errorv_at(__FILE__, __LINE__, code, fmt, ap));
    va_end(ap);
}

/* The first flat index of an argument; -1 (and an error) if there is no such argument. */
static int arg_index(mr_grad *g, const char *arg, bool output)
{
    int start = -1, count = 0;
    mr_status *st = output ? mr_node_out_range(g->node, arg, &start, &count)
                           : mr_node_in_range(g->node, arg, &start, &count);
    if (!st && count > 0)
        return start;
    if (st)
        mr_scope_fail(g->s, st);
    else
        mr_grad_fail(g, MR_INTERNAL, "argument '%s' of %s '%s' is empty", arg, g->node->def->name,
                     g->node->name);
    return -1;
}

/* ---- reading ---- */
mr_out mr_xi(mr_grad *g, int i)
{
    MR_ASSERT(i >= 0 && i < g->node->n_in);
    return g->node->in[i];
}

mr_out mr_yi(mr_grad *g, int i)
{
    MR_ASSERT(i >= 0 && i < g->node->n_out);
    return (mr_out){node_of(g), i};
}

mr_out mr_x(mr_grad *g, const char *arg)
{
    int i = arg_index(g, arg, false);
    return i < 0 ? MR_NO_OUT : mr_xi(g, i);
}

mr_out mr_y(mr_grad *g, const char *arg)
{
    int i = arg_index(g, arg, true);
    return i < 0 ? MR_NO_OUT : mr_yi(g, i);
}

bool mr_has_dy(mr_grad *g, int i)
{
    MR_ASSERT(i >= 0 && i < g->node->n_out);
    return mr_is_grad(&g->dy[i]);
}

const mr_gradient *mr_dy_any(mr_grad *g, int i)
{
    MR_ASSERT(i >= 0 && i < g->node->n_out);
    return &g->dy[i];
}

mr_out mr_dyi(mr_grad *g, int i)
{
    MR_ASSERT(i >= 0 && i < g->node->n_out);
    if (!mr_scope_ok(g->s))
        return MR_NO_OUT;
    if (!mr_is_grad(&g->dy[i]))
        g->dy[i] = mr_dense_grad(mr_zeros_like(g, mr_yi(g, i)));
    else if (mr_is_sparse(&g->dy[i]))
        g->dy[i] = mr_dense_grad(mr_backward_dense(g->walk, &g->dy[i]));
    return g->dy[i].dense;
}

mr_out mr_dy(mr_grad *g, const char *arg)
{
    int i = arg_index(g, arg, true);
    return i < 0 ? MR_NO_OUT : mr_dyi(g, i);
}

bool mr_needs_dx(mr_grad *g, int i)
{
    MR_ASSERT(i >= 0 && i < g->node->n_in);
    mr_out x = g->node->in[i];
    const mr_backward *w = g->walk;
    if (!x.node || !mr_backward_carries(w, mr_out_type(x)))
        return false;
    return mr_imap_get(&w->xs, mr_out_key(x)) ||
           (mr_backward_between(w, x.node) && !mr_imap_get(&w->stops, mr_out_key(x)));
}

const char *mr_grad_source(mr_grad *g) { return g->walk->prefix; }

/* ---- writing ---- */
void mr_dxi(mr_grad *g, int i, mr_out v)
{
    MR_ASSERT(i >= 0 && i < g->node->n_in);
    g->dx[i] = v.node ? mr_dense_grad(v) : MR_NO_GRAD;
}

void mr_dx(mr_grad *g, const char *arg, mr_out v)
{
    int i = arg_index(g, arg, false);
    if (i >= 0)
        mr_dxi(g, i, v);
}

void mr_dxi_sparse(mr_grad *g, int i, mr_out values, mr_out indices, mr_out dense_shape)
{
    MR_ASSERT(i >= 0 && i < g->node->n_in);
    bool whole = values.node && indices.node && dense_shape.node;
    g->dx[i] = whole ? (mr_gradient){MR_NO_OUT, values, indices, dense_shape} : MR_NO_GRAD;
}

mr_out mr_emit_like(mr_grad *g, const char *op, const char *attr_names, const mr_out *in, int n_in)
{
    mr_named_attr attrs[16];
    int n = 0;
    mr_sv rest = mr_sv_of(attr_names ? attr_names : ""), name;
    while (mr_sv_cut(&rest, ' ', &name)) {
        if (name.n == 0)
            continue;
        const char *z = mr_arena_strndup(&g->walk->arena, name.p, name.n);
        const mr_attr *a = mr_node_attr(g->node, z);
        if (!a || n == MR_COUNT(attrs)) {
            mr_grad_fail(g, MR_INTERNAL, "%s '%s' has no attr '%s' for its gradient",
                         g->node->def->name, g->node->name, z);
            return MR_NO_OUT;
        }
        attrs[n++] = (mr_named_attr){z, *a};
    }
    return mr_emit_n(g->s, op, attrs, n, in, n_in);
}

/* ---- values like others ---- */
/* Whether a forward value is not available at the level where the gradient runs. */
static bool is_far(const mr_grad *g, mr_out v)
{
    return g->walk->level->outer && v.node->id < g->walk->n_old;
}

mr_out mr_zeros_like(mr_grad *g, mr_out v)
{
    if (!mr_scope_ok(g->s) || !v.node)
        return MR_NO_OUT;
    if (is_far(g, v))
        return mr_backward_zeros(g->walk, g->walk->level, v, mr_dtype_base(mr_out_type(v)));
    return mr_emit(g->s, "ZerosLike", v);
}

mr_out mr_ones_like(mr_grad *g, mr_out v)
{
    if (!mr_scope_ok(g->s) || !v.node)
        return MR_NO_OUT;
    if (is_far(g, v))
        return mr_emit(g->s, "Fill", mr_shape_of(g, v), mr_scalar_like(g, 1, v));
    return mr_emit(g->s, "OnesLike", v);
}

mr_out mr_scalar_like(mr_grad *g, double value, mr_out v)
{
    return v.node ? mr_const_num(g->s, mr_dtype_base(mr_out_type(v)), value) : MR_NO_OUT;
}

static bool fits_int32(const mr_pshape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dims[i] > INT32_MAX)
            return false;
    return true;
}

mr_out mr_shape_of(mr_grad *g, mr_out v)
{
    if (!mr_scope_ok(g->s) || !v.node)
        return MR_NO_OUT;
    if (mr_dtype_base(mr_out_type(v)) == MR_RESOURCE)
        return mr_emit(g->s, "VariableShape", v);
    const mr_pshape *s = mr_out_shape(v);
    if (!mr_pshape_full(s) || !fits_int32(s))
        return mr_emit(g->s, "Shape", v);
    int32_t dims[MR_MAX_RANK];
    for (int i = 0; i < s->rank; i++)
        dims[i] = (int32_t)s->dims[i];
    return mr_const_vec_i32(g->s, s->rank, dims);
}

mr_out mr_conj(mr_grad *g, mr_out v)
{
    if (!v.node || !mr_dtype_is_complex(mr_dtype_base(mr_out_type(v))))
        return v;
    return mr_emit(g->s, "Conj", v);
}

/* ---- undoing broadcasting ---- */
enum { KEEP, REDUCE, UNSURE };

/* Whether axis `i` from the back of x was stretched to fit y. Axes that x does not have count as stretched. */
static int is_stretched(const mr_pshape *x, const mr_pshape *y, int i)
{
    if (i > x->rank)
        return REDUCE;
    int64_t a = x->dims[x->rank - i], b = i <= y->rank ? y->dims[y->rank - i] : 1;
    if (b == 1 || a > 1 || a == 0)
        return KEEP;
    if (a == 1)
        return REDUCE; /* summing over an axis that turns out to have size 1 does no harm */
    return UNSURE;
}

/* The axes to sum over; false if the shapes are only known at run time. */
static bool static_axes(const mr_pshape *x, const mr_pshape *y, int32_t *axes, int *n,
                        bool *reshape)
{
    *n = 0;
    *reshape = false;
    if (x->rank < 0 || y->rank < 0)
        return false;
    int rank = MR_MAX(x->rank, y->rank);
    for (int i = rank; i >= 1; i--) {
        int what = is_stretched(x, y, i);
        if (what == UNSURE)
            return false;
        if (what == REDUCE)
            axes[(*n)++] = rank - i;
        *reshape = *reshape || (what == REDUCE && i <= x->rank);
    }
    return true;
}

/* The shape to reduce to: a constant with one -1 if at most one size is unknown. */
static mr_out target_shape(mr_grad *g, mr_out x)
{
    const mr_pshape *s = mr_out_shape(x);
    int32_t dims[MR_MAX_RANK];
    int unknown = 0;
    bool zero = false;
    for (int i = 0; i < s->rank; i++) {
        unknown += s->dims[i] < 0;
        zero = zero || s->dims[i] == 0;
        dims[i] = (int32_t)s->dims[i];
    }
    if (s->rank >= 0 && unknown == 1 && !zero && fits_int32(s))
        return mr_const_vec_i32(g->s, s->rank, dims);
    return mr_shape_of(g, x);
}

static mr_out reduce_to(mr_grad *g, mr_out v, mr_out axes, mr_out x, bool reshape)
{
    mr_out sum = mr_emit(g->s, "Sum", v, axes);
    return reshape ? mr_emit(g->s, "Reshape", sum, target_shape(g, x)) : sum;
}

void mr_dx_broadcast(mr_grad *g, mr_out dx, mr_out dy)
{
    mr_out x[2] = {mr_xi(g, 0), mr_xi(g, 1)}, d[2] = {dx, dy}, args = MR_NO_OUT;
    for (int i = 0; i < 2 && mr_scope_ok(g->s); i++) {
        int32_t axes[MR_MAX_RANK];
        int n;
        bool reshape;
        if (!d[i].node || !mr_needs_dx(g, i))
            continue;
        if (static_axes(mr_out_shape(x[i]), mr_out_shape(x[1 - i]), axes, &n, &reshape)) {
            mr_dxi(g, i,
                   n ? reduce_to(g, d[i], mr_const_vec_i32(g->s, n, axes), x[i], reshape) : d[i]);
            continue;
        }
        if (!args.node)
            args =
                mr_emit(g->s, "BroadcastGradientArgs", mr_shape_of(g, x[0]), mr_shape_of(g, x[1]));
        mr_dxi(g, i, reduce_to(g, d[i], mr_nth(args, i), x[i], true));
    }
}

/* ---- standard gradients ---- */
void mr_grad_identity(mr_grad *g)
{
    for (int i = 0; i < g->node->n_in && i < g->node->n_out; i++)
        g->dx[i] = g->dy[i];
}

void mr_grad_zero(mr_grad *g) { (void)g; }
