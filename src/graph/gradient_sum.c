/* graph/gradient_sum.c -- sums gradients that arrive at the same tensor.
 *
 * Dense gradients are summed by AddN. Rows of a tensor (IndexedSlices) stay sparse as long as all gradients are sparse:
 * values and indices are concatenated, and an index that occurs twice counts twice. If any gradient is dense, sparse
 * ones are made dense first. */
#include "graph/backward.h"
#include "graph/infer.h"

typedef struct sum {
    MR_VEC(mr_gradient) parts;
} sum;

/* ---- rows ---- */
/* Size of the first dimension of the whole tensor. */
static mr_out row_count(mr_scope *s, mr_out dense_shape)
{
    mr_tensor *t = NULL;
    mr_scope_fail(s, mr_out_value(dense_shape, &t));
    if (t && t->n > 0) {
        mr_out n = mr_const_i32(s, (int32_t)mr_tensor_int_at(t, 0));
        mr_tensor_unref(t);
        return n;
    }
    mr_tensor_unref(t);
    mr_out zero = mr_const_vec_i32(s, 1, (const int32_t[]){0}),
           one = mr_const_vec_i32(s, 1, (const int32_t[]){1});
    return mr_emit_with(s, "StridedSlice", MR_ATTRS({"shrink_axis_mask", mr_a_int(1)}), dense_shape,
                        zero, one, one);
}

mr_out mr_gradient_dense(mr_scope *s, const mr_gradient *g)
{
    if (!mr_scope_ok(s) || !mr_is_sparse(g))
        return mr_scope_ok(s) ? g->dense : MR_NO_OUT;
    return mr_emit(s, "UnsortedSegmentSum", g->values, g->indices, row_count(s, g->dense_shape));
}

static mr_out as_int64(mr_scope *s, mr_out v)
{
    return mr_out_type(v) == MR_INT64
               ? v
               : mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT64)}), v);
}

static mr_out join_parts(mr_scope *s, const mr_out *parts, int n)
{
    mr_out axis = mr_const_i32(s, 0);
    mr_emit_arg args[] = {{n, parts}, {-1, &axis}};
    return mr_emit_lists(s, "ConcatV2", NULL, 0, args, 2);
}

static mr_gradient join_rows(mr_backward *w, const mr_gradient *g, int n)
{
    mr_out *values = mr_arena_array(&w->arena, mr_out, n),
           *indices = mr_arena_array(&w->arena, mr_out, n);
    bool mixed = false;
    for (int i = 1; i < n; i++)
        mixed = mixed || mr_out_type(g[i].indices) != mr_out_type(g[0].indices);
    for (int i = 0; i < n; i++) {
        values[i] = g[i].values;
        indices[i] = mixed ? as_int64(&w->s, g[i].indices) : g[i].indices;
    }
    return (mr_gradient){MR_NO_OUT, join_parts(&w->s, values, n), join_parts(&w->s, indices, n),
                         g[0].dense_shape};
}

/* ---- sums ---- */
static mr_gradient add_all(mr_backward *w, const mr_gradient *g, int n)
{
    int n_sparse = 0;
    for (int i = 0; i < n; i++)
        n_sparse += mr_is_sparse(&g[i]);
    if (n_sparse == n)
        return join_rows(w, g, n);
    mr_out *in = mr_arena_array(&w->arena, mr_out, n);
    for (int i = 0; i < n; i++)
        in[i] = mr_gradient_dense(&w->s, &g[i]);
    return mr_dense_grad(mr_emit_n(&w->s, "AddN", NULL, 0, in, n));
}

static mr_out first_out(const mr_gradient *g) { return g->dense.node ? g->dense : g->values; }

/* A value that is live if g is. */
static mr_out anchor_of(mr_backward *w, const mr_gradient *g)
{
    bool tie = w->level->outer || w->level->frame != mr_cflow_root(&w->flow) || w->flow.any;
    return tie ? first_out(g) : MR_NO_OUT;
}

mr_out mr_backward_dense(mr_backward *w, const mr_gradient *g)
{
    if (!mr_is_sparse(g) || !mr_scope_ok(&w->s))
        return mr_scope_ok(&w->s) ? g->dense : MR_NO_OUT;
    int start = w->graph->nodes.n;
    mr_out o = mr_gradient_dense(&w->s, g);
    mr_backward_settle(w, start, NULL, anchor_of(w, g));
    return o;
}

void mr_backward_add(mr_backward *w, mr_level *l, mr_out o, mr_gradient g)
{
    bool is_x = mr_imap_get(&w->xs, mr_out_key(o)) != NULL;
    bool flows = mr_backward_between(w, o.node) && !mr_imap_get(&w->stops, mr_out_key(o));
    if (!mr_scope_ok(&w->s) || !mr_is_grad(&g) || !(is_x || flows))
        return;
    sum *t = mr_imap_get(&l->sums, mr_out_key(o));
    if (!t) {
        t = mr_new(sum);
        mr_imap_put(&l->sums, mr_out_key(o), t);
    }
    mr_vec_push(&t->parts, g);
}

bool mr_backward_total(mr_backward *w, mr_level *l, mr_out o, mr_gradient *out)
{
    sum *t = mr_imap_get(&l->sums, mr_out_key(o));
    *out = MR_NO_GRAD;
    if (!t || !mr_scope_ok(&w->s))
        return false;
    if (t->parts.n > 1) {
        int start = w->graph->nodes.n;
        const mr_node *colocate = w->s.colocate;
        const char *prefix = w->s.prefix;
        mr_level *level = w->level;
        w->level = l;
        w->s.prefix = w->prefix;
        w->s.colocate = w->opt->colocate ? o.node : NULL;
        mr_gradient total = add_all(w, t->parts.p, t->parts.n);
        if (mr_scope_ok(&w->s))
            mr_backward_settle(w, start, NULL, anchor_of(w, &t->parts.p[0]));
        w->level = level;
        w->s.prefix = prefix;
        w->s.colocate = colocate;
        t->parts.n = 1;
        t->parts.p[0] = total;
    }
    *out = t->parts.p[0];
    return mr_scope_ok(&w->s) && mr_is_grad(out);
}

static void level_free(mr_level *l)
{
    uint32_t pos = 0;
    uint64_t key;
    void *value;
    while (mr_imap_next(&l->sums, &pos, &key, &value)) {
        mr_vec_deinit(&((sum *)value)->parts);
        mr_free(value);
    }
    mr_imap_deinit(&l->sums);
    mr_imap_deinit(&l->real);
    mr_imap_deinit(&l->sides);
    mr_imap_deinit(&l->shapes);
}

mr_level *mr_backward_level(mr_backward *w, mr_level *outer, mr_loop_frame *frame)
{
    mr_level *l = mr_arena_new(&w->arena, mr_level);
    l->outer = outer;
    l->frame = frame;
    mr_vec_push(&w->levels, l);
    return l;
}

void mr_backward_free_levels(mr_backward *w)
{
    for (int i = 0; i < w->levels.n; i++)
        level_free(w->levels.p[i]);
    mr_vec_deinit(&w->levels);
    mr_vec_deinit(&w->node_level);
}
