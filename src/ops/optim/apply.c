/* ops/optim/apply.c -- runs an optimizer's loop over variables.
 *
 * All forms lock the variables of an update together, in address order, until the update is complete.
 * So no update is lost and no reader sees a partial one, which is more than use_locking=false
 * requires. */
#include "ops/optim/apply.h"

#include "ops/array/layout.h"

enum { SMALL = 4096 }; /* fewer elements are not worth a call of the thread pool */

typedef struct update {
    mr_run *r;
    const mr_apply_form *form;
    mr_apply_loop *loop;
    mr_variable *vars[MR_APPLY_VARS];
    mr_apply_args args;
    mr_tensor *var; /* the variable's value, writable */
} update;

mr_status *mr_apply_init(mr_make *m, void *state)
{
    const mr_apply *a = m->kernel->user;
    mr_apply_state *s = state;
    return a->form->flag ? mr_node_get_bool(m->node, a->form->flag, &s->flag) : NULL;
}

static bool by_handle(const mr_run *r) { return !mr_dtype_is_ref(r->node->in_types[0]); }

static mr_status *open_vars(update *u)
{
    for (int i = 0; i < u->form->n_vars; i++) {
        if (by_handle(u->r))
            MR_TRY(mr_run_variable(u->r, i, &u->vars[i]));
        else
            u->vars[i] = mr_variable_ref(mr_in_ref(u->r, i));
    }
    return NULL;
}

/* Whether v is within the limit.  A NaN never is, because comparisons with it are false. */
static bool within_limit(mr_apply_limit limit, double v, bool zero_too)
{
    switch (limit) {
    case MR_APPLY_POSITIVE: return zero_too ? v >= 0 : v > 0;
    case MR_APPLY_NON_NEGATIVE: return v >= 0;
    case MR_APPLY_NON_POSITIVE: return v <= 0;
    default: return true;
    }
}

static mr_status *read_scalars(update *u)
{
    static const char *const kinds[] = {"", "positive ", "non-negative ", "non-positive "};
    const mr_apply_form *f = u->form;
    for (int i = 0; i < f->n_scalars; i++) {
        const mr_tensor *t = mr_in(u->r, f->scalars[i]);
        const char *name = u->r->node->def->in[f->scalars[i]].name;
        if (t->rank != 0)
            return mr_invalid("%s is not a %sscalar: %s", name, kinds[f->limits[i]],
                              MR_TENSOR_SHAPE(t));
        mr_c128 *h = &u->args.h[i];
        if (t->dtype == MR_FLOAT) /* nearly always: saves a small variable much of its time */
            *h = *MR_DATA(float, t);
        else if (!mr_dtype_convert((mr_dtype)t->dtype, t->data, MR_COMPLEX128, h, 1, false))
            return mr_error(MR_UNIMPLEMENTED, "hyper-parameters of type %s are not supported",
                            mr_dtype_name(t->dtype));
        if (!within_limit(f->limits[i], creal(*h), u->args.flag))
            return mr_invalid("%s is not a %sscalar: %g", name, kinds[f->limits[i]], creal(*h));
    }
    return NULL;
}

/* Makes the values of all variables writable and checks that their shapes are equal. */
static mr_status *open_values(update *u) MR_NO_TSA
{
    for (int i = 0; i < u->form->n_vars; i++) {
        mr_variable *v = u->vars[i];
        mr_tensor *t;
        if ((int)v->dtype != u->r->kernel->type)
            return mr_invalid("variable %s is of type %s, the update of type %s", v->name,
                              mr_dtype_name(v->dtype), mr_dtype_name(u->r->kernel->type));
        MR_TRY(mr_variable_writable(v, mr_run_allocator(u->r), &t));
        if (!t)
            return mr_error(MR_FAILED_PRECONDITION, "Attempting to use uninitialized variables: %s",
                            v->name);
        if (u->var && !mr_tensor_same_shape(t, u->var))
            return mr_invalid("var and %s do not have the same shape %s %s",
                              u->r->node->def->in[i].name, MR_TENSOR_SHAPE(u->var),
                              MR_TENSOR_SHAPE(t));
        u->args.var[i] = t->data;
        if (i == 0)
            u->var = t;
    }
    return NULL;
}

static void dense_part(void *ctx, int64_t begin, int64_t end)
{
    update *u = ctx;
    u->loop(&u->args, begin, end);
}

static mr_status *run_dense(update *u)
{
    const mr_tensor *g = mr_in(u->r, u->form->grad);
    if (!mr_tensor_same_shape(g, u->var))
        return mr_invalid("var and %s do not have the same shape %s %s",
                          u->r->node->def->in[u->form->grad].name, MR_TENSOR_SHAPE(u->var),
                          MR_TENSOR_SHAPE(g));
    u->args.grad = g->data;
    if (u->var->n <= SMALL)
        u->loop(&u->args, 0, u->var->n);
    else
        mr_run_for(u->r, u->var->n, 1.0, dense_part, u);
    return NULL;
}

static mr_status *check_rows(const update *u, const mr_tensor *g, const mr_tensor *indices)
{
    if (u->var->rank < 1)
        return mr_invalid("var must be at least 1 dimensional");
    if (indices->rank != 1)
        return mr_invalid("indices must be one-dimensional");
    if (g->rank != u->var->rank || g->dims[0] != indices->n ||
        !mr_shape_eq(g->rank - 1, g->dims + 1, u->var->rank - 1, u->var->dims + 1))
        return mr_invalid("grad %s does not fit %lld rows of var %s", MR_TENSOR_SHAPE(g),
                          (long long)indices->n, MR_TENSOR_SHAPE(u->var));
    int64_t rows = u->var->dims[0];
    for (int64_t i = 0; i < indices->n; i++)
        if (mr_tensor_int_at(indices, i) < 0 || mr_tensor_int_at(indices, i) >= rows)
            return mr_invalid("Index %lld at offset %lld in indices is out of range",
                              (long long)mr_tensor_int_at(indices, i), (long long)i);
    return NULL;
}

/* Updates row after row in one thread, so that a row that occurs twice is updated twice. */
static mr_status *run_sparse(update *u)
{
    const mr_tensor *g = mr_in(u->r, u->form->grad), *indices = mr_in(u->r, u->form->indices);
    MR_TRY(check_rows(u, g, indices));
    int64_t rows = u->var->dims[0], inner = rows ? u->var->n / rows : 0;
    size_t row_bytes = (size_t)inner * mr_dtype_size((mr_dtype)u->var->dtype);
    for (int64_t i = 0; i < indices->n; i++) {
        mr_apply_args row = u->args;
        for (int k = 0; k < u->form->n_vars; k++)
            row.var[k] = (char *)u->args.var[k] + (size_t)mr_tensor_int_at(indices, i) * row_bytes;
        row.grad = (const char *)g->data + (size_t)i * row_bytes;
        u->loop(&row, 0, inner);
    }
    return NULL;
}

static mr_status *run_locked(update *u)
{
    MR_TRY(open_values(u));
    return u->form->indices >= 0 ? run_sparse(u) : run_dense(u);
}

mr_status *mr_apply_run(mr_run *r)
{
    const mr_apply *a = r->kernel->user;
    const mr_apply_state *s = r->state;
    update u = {.r = r, .form = a->form, .args.flag = s->flag};
    int n = u.form->n_vars;
    mr_status *st = NULL;
    MR_GO(open_vars(&u));
    MR_GO(read_scalars(&u));
    u.loop = u.form->use_second && u.form->use_second(&u.args) ? a->second : a->loop;
    mr_variables_lock(u.vars, n);
    st = run_locked(&u);
    mr_variables_unlock(u.vars, n);
    if (!st && !by_handle(r))
        mr_run_set_ref(r, 0, mr_variable_ref(u.vars[0]));
out:
    for (int i = 0; i < n; i++)
        mr_variable_unref(u.vars[i]);
    return st;
}

/* ---- on an accelerator ---- */

static mr_status *launch_locked(update *u, const char *kernel, mr_tensor *const *values)
{
    const mr_apply_form *f = u->form;
    const mr_tensor *g = mr_in(u->r, f->grad);
    mr_accel_arg args[3 + MR_APPLY_VARS + MR_APPLY_SCALARS] = {MR_AI(u->var->n), MR_AI(u->args.flag)};
    int n = 2;
    if (!mr_tensor_same_shape(g, u->var))
        return mr_invalid("var and %s do not have the same shape %s %s", u->r->node->def->in[f->grad].name,
                          MR_TENSOR_SHAPE(u->var), MR_TENSOR_SHAPE(g));
    for (int i = 0; i < MR_APPLY_VARS; i++) /* a kernel does not touch slots that its optimizer does not have */
        args[n++] = MR_AT(values[i < f->n_vars ? i : 0]);
    args[n++] = MR_AT(g);
    for (int i = 0; i < MR_APPLY_SCALARS; i++)
        args[n++] = MR_AT(i < f->n_scalars ? mr_in(u->r, f->scalars[i]) : g);
    return mr_accel_launch(u->r, kernel, u->var->n, args, n);
}

static mr_status *check_scalars(const update *u)
{
    for (int i = 0; i < u->form->n_scalars; i++) {
        const mr_tensor *t = mr_in(u->r, u->form->scalars[i]);
        if (t->rank != 0)
            return mr_invalid("%s is not a scalar: %s", u->r->node->def->in[u->form->scalars[i]].name, MR_TENSOR_SHAPE(t));
    }
    return NULL;
}

static mr_status *run_accel_locked(update *u, const char *kernel) MR_NO_TSA
{
    mr_tensor *values[MR_APPLY_VARS];
    MR_TRY(open_values(u));
    for (int i = 0; i < u->form->n_vars; i++)
        values[i] = u->vars[i]->t;
    return launch_locked(u, kernel, values);
}

mr_status *mr_apply_run_accel(mr_run *r)
{
    const mr_apply *a = r->kernel->user;
    update u = {.r = r, .form = a->form, .args.flag = ((const mr_apply_state *)r->state)->flag};
    int n = u.form->n_vars;
    mr_status *st = NULL;
    MR_GO(open_vars(&u));
    MR_GO(check_scalars(&u));
    mr_variables_lock(u.vars, n);
    st = run_accel_locked(&u, a->accel);
    mr_variables_unlock(u.vars, n);
    if (!st && !by_handle(r))
        mr_run_set_ref(r, 0, mr_variable_ref(u.vars[0]));
out:
    for (int i = 0; i < n; i++)
        mr_variable_unref(u.vars[i]);
    return st;
}

/* A sparse gradient, input i, has one row for each of the indices, input i + 1. */
static mr_status *infer_rows(mr_infer *c, int i, const mr_pshape **s)
{
    const mr_pshape *indices, *grad = c->in[i];
    int64_t ignored;
    MR_TRY(mr_infer_rank(c, c->in[i + 1], 1, &indices));
    if (grad->rank < 0)
        return NULL;
    MR_TRY(mr_infer_rank_at_least(c, grad, 1, &grad));
    MR_TRY(mr_infer_merge_dim(indices->dims[0], grad->dims[0], &ignored));
    return mr_infer_merge(c, *s, mr_pshape_with(c->arena, grad, 0, -1), s);
}

/* Recognises the inputs by their names and checks them in order, as TensorFlow does. */
mr_status *mr_apply_shape(mr_infer *c)
{
    const mr_pshape *s = mr_infer_variable(c, 0), *ignored;
    for (int i = 1; i < c->n_in; i++) {
        const char *name = c->node->def->in[i].name;
        bool variable = mr_dtype_is_ref(c->node->in_types[i]) || mr_dtype_base(c->node->in_types[i]) == MR_RESOURCE;
        bool grad = strcmp(name, "grad") == 0 || strcmp(name, "delta") == 0;
        if (grad && i + 1 < c->n_in && strcmp(c->node->def->in[i + 1].name, "indices") == 0)
            MR_TRY(infer_rows(c, i++, &s));
        else if (variable || grad)
            MR_TRY(mr_infer_merge(c, s, mr_infer_variable(c, i), &s));
        else
            MR_TRY(mr_infer_rank(c, c->in[i], 0, &ignored));
    }
    if (c->n_out)
        c->out[0] = s;
    return NULL;
}
