/* ops/control/map_defun.c -- calls a function once for each row of its arguments and stacks the results.
 *
 * Several calls run at a time; each one that ends starts the next. Calls are posted from callbacks, so neither the
 * stack nor the number of concurrent calls grows with the number of rows. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

enum { MAX_AT_ONCE = 16 };

typedef struct mapping mapping;

typedef struct turn { /* a sequence of calls */
    mapping *m;
    int64_t row;
    mr_tensor **args, **rets;
} turn;

struct mapping {
    mr_run *r;
    const mr_func_ref *f;
    int n_rows_in; /* arguments that are taken row by row; the others are the same for all calls */
    int64_t n;
    mr_mutex mu;
    int64_t next MR_GUARDED_BY(mu);
    int under_way MR_GUARDED_BY(mu);
    mr_status *st MR_GUARDED_BY(mu); /* first error */
    int n_turns;
    turn turns[MAX_AT_ONCE];
    mr_tensor **tensors; /* those of all turns */
};

static void mapping_end(mapping *m)
{
    mr_run *r = m->r;
    mr_status *st = m->st;
    mr_mutex_deinit(&m->mu);
    mr_free(m->tensors);
    mr_free(m);
    mr_run_done(r, st);
}

/* ---- one row ---- */

static mr_status *take_row(mapping *m, int i, int64_t row, mr_tensor **out)
{
    const mr_tensor *t = mr_in(m->r, i);
    mr_tensor *part;
    MR_TRY(mr_tensor_rows(t, row, 1, &part));
    mr_status *st = mr_tensor_view(part, t->dtype, t->rank - 1, t->dims + 1, out);
    mr_tensor_unref(part);
    return st;
}

static void drop_rows(turn *t)
{
    for (int i = 0; i < t->m->n_rows_in; i++) {
        mr_tensor_unref(t->args[i]);
        t->args[i] = NULL;
    }
}

/* The first result of each output determines the shape of all rows. */
static mr_status *room_for_locked(mapping *m, int i, const mr_tensor *v, mr_tensor **out) MR_REQUIRES(m->mu)
{
    mr_shape shape = {.rank = 1, .dims = {m->n}};
    const mr_attr *promised;
    if (m->r->out[i].kind == MR_LIVE) {
        *out = m->r->out[i].t;
        return NULL;
    }
    MR_TRY(mr_node_get_list(m->r->node, "output_shapes", MR_ATTR_SHAPE, &promised));
    const mr_pshape *p = promised->shapes[i];
    bool fits = p->rank < 0 || p->rank == v->rank;
    for (int k = 0; fits && k < p->rank; k++)
        fits = p->dims[k] < 0 || p->dims[k] == v->dims[k];
    if (!fits)
        return mr_invalid("Mismatch in function retval shape, %s, and expected output shape, %s.", MR_TENSOR_SHAPE(v), MR_PSHAPE_TEXT(p));
    for (int k = 0; k < v->rank; k++)
        MR_TRY(mr_shape_push(&shape, v->dims[k]));
    return mr_run_output(m->r, i, shape.rank, shape.dims, out);
}

static mr_status *keep_result_locked(mapping *m, int i, int64_t row, const mr_tensor *v) MR_REQUIRES(m->mu)
{
    mr_tensor *to;
    if (v->dtype != mr_out_dtype(m->r, i))
        return mr_invalid("Expected type %s for return value %d, got %s", mr_dtype_name(mr_out_dtype(m->r, i)), i,
                          mr_dtype_name(v->dtype));
    MR_TRY(room_for_locked(m, i, v, &to));
    if (!mr_shape_eq(v->rank, v->dims, to->rank - 1, to->dims + 1))
        return mr_invalid("Mismatch in function retval shape, %s, and that of other rows, %s.", MR_TENSOR_SHAPE(v), MR_TENSOR_SHAPE(to));
    return mr_tensor_try_copy_elements(to, row * v->n, v, 0, v->n);
}

static void take_turn(turn *t);

static void row_done(void *ctx, mr_status *st)
{
    turn *t = ctx;
    mapping *m = t->m;
    drop_rows(t);
    mr_lock(&m->mu);
    for (int i = 0; i < m->r->n_out && !st && t->rets[i]; i++)
        st = keep_result_locked(m, i, t->row, t->rets[i]);
    mr_status_update(&m->st, st);
    mr_unlock(&m->mu);
    for (int i = 0; i < m->r->n_out; i++) {
        mr_tensor_unref(t->rets[i]);
        t->rets[i] = NULL;
    }
    take_turn(t);
}

/* Starts the next row that nobody has taken, or ends this turn. */
static void take_turn(turn *t)
{
    mapping *m = t->m;
    mr_caller *c = m->r->step->caller;
    mr_lock(&m->mu);
    bool cancelled = mr_cancel_started(m->r->step->cancel), more = !m->st && !cancelled && m->next < m->n;
    if (cancelled && !m->st && m->next < m->n)
        m->st = mr_error(MR_CANCELLED, "MapDefun was cancelled");
    if (more)
        t->row = m->next++;
    bool last = !more && --m->under_way == 0;
    mr_unlock(&m->mu);
    if (last)
        mapping_end(m);
    if (!more)
        return;
    mr_status *st = NULL;
    for (int i = 0; i < m->n_rows_in && !st; i++)
        st = take_row(m, i, t->row, &t->args[i]);
    if (st)
        row_done(t, st); /* recurses no deeper: after an error no more rows are started */
    else
        c->call(c, m->r, m->f, t->args, m->r->n_in, t->rets, m->r->n_out, row_done, t);
}

/* ---- starting ---- */

static mr_status *check_call(mr_run *r, int *n_rows_in, int64_t *n, const mr_func_ref **f)
{
    int start;
    if (!r->step->caller)
        return mr_error(MR_FAILED_PRECONDITION, "Functions cannot be called here");
    MR_TRY(mr_node_get_func(r->node, "f", f));
    MR_TRY(mr_node_in_range(r->node, "arguments", &start, n_rows_in));
    const mr_attr *shapes;
    MR_TRY(mr_node_get_list(r->node, "output_shapes", MR_ATTR_SHAPE, &shapes));
    if (shapes->n != r->n_out)
        return mr_invalid("`output_shapes` must be the same length as num outputs (%d vs. %d)", shapes->n, r->n_out);
    for (int i = 0; i < *n_rows_in; i++) {
        const mr_tensor *t = mr_in(r, i);
        if (t->rank == 0)
            return mr_invalid("All inputs must have rank at least 1. Input %d has a rank of 0", i);
        if (i > 0 && t->dims[0] != *n)
            return mr_invalid("All inputs must have the same dimension 0. Input %d has leading dimension %lld, while all previous "
                              "inputs have leading dimension %lld",
                              i, (long long)t->dims[0], (long long)*n);
        *n = t->dims[0];
    }
    return NULL;
}

/* Without rows, the declared shapes must determine the outputs. */
static mr_status *give_nothing(mr_run *r)
{
    const mr_attr *shapes;
    MR_TRY(mr_node_get_list(r->node, "output_shapes", MR_ATTR_SHAPE, &shapes));
    for (int i = 0; i < r->n_out; i++) {
        mr_shape shape = {.rank = 1, .dims = {0}};
        mr_tensor *y;
        if (!mr_pshape_full(shapes->shapes[i]))
            return mr_invalid("MapDefun over no rows: output shape %s is not fully defined", MR_PSHAPE_TEXT(shapes->shapes[i]));
        for (int k = 0; k < shapes->shapes[i]->rank; k++)
            MR_TRY(mr_shape_push(&shape, shapes->shapes[i]->dims[k]));
        MR_TRY(mr_run_output(r, i, shape.rank, shape.dims, &y));
    }
    return NULL;
}

static void start_mapping(mr_run *r, const mr_func_ref *f, int n_rows_in, int64_t n)
{
    mapping *m = mr_new(mapping);
    int each = r->n_in + r->n_out;
    *m = (mapping){.r = r, .f = f, .n_rows_in = n_rows_in, .n = n, .n_turns = (int)MR_MIN(n, MAX_AT_ONCE)};
    mr_mutex_init(&m->mu);
    m->under_way = m->n_turns;
    m->tensors = mr_new_array(mr_tensor *, each * m->n_turns + 1);
    int n_turns = m->n_turns; /* the mapping may be freed once the last turn has started */
    for (int k = 0; k < n_turns; k++) {
        m->turns[k] = (turn){m, 0, m->tensors + (size_t)k * (size_t)each, m->tensors + (size_t)k * (size_t)each + r->n_in};
        for (int i = n_rows_in; i < r->n_in; i++)
            m->turns[k].args[i] = mr_in(r, i);
    }
    for (int k = 0; k < n_turns; k++)
        take_turn(&m->turns[k]);
}

static void map_defun(mr_run *r)
{
    int n_rows_in = 0;
    int64_t n = 0;
    const mr_func_ref *f = NULL;
    mr_status *st = check_call(r, &n_rows_in, &n, &f);
    if (!st && n > 0)
        start_mapping(r, f, n_rows_in, n);
    else
        mr_run_done(r, st ? st : give_nothing(r));
}

static mr_status *map_shape(mr_infer *c)
{
    const mr_attr *shapes;
    int start_at, count;
    int64_t n = -1;
    MR_TRY(mr_node_get_list(c->node, "output_shapes", MR_ATTR_SHAPE, &shapes));
    if (shapes->n != c->n_out)
        return mr_invalid("`output_shapes` must be the same length as `output_types` (%d vs. %d)", shapes->n, c->n_out);
    MR_TRY(mr_node_in_range(c->node, "arguments", &start_at, &count));
    for (int i = 0; i < count; i++) {
        const mr_pshape *s;
        MR_TRY(mr_infer_rank_at_least(c, c->in[i], 1, &s));
        MR_TRY(mr_infer_merge_dim(mr_infer_dim(s, 0), n, &n));
    }
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = mr_infer_concat(c, mr_pshape_vector(c->arena, n), shapes->shapes[i]);
    return NULL;
}

MR_OP(MapDefun,
    .doc     = "f(row of the arguments, captured_inputs) for every row, stacked",
    .sig     = "arguments: Targuments, captured_inputs: Tcaptured -> output: output_types",
    .attrs   = "Targuments: list(type) >= 1; Tcaptured: list(type) >= 0 = []; output_types: list(type) >= 1; "
               "output_shapes: list(shape) >= 1; f: func; max_intra_op_parallelism: int = 1",
    .flags   = MR_NO_FOLD,
    .shape   = map_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(map_defun)));
