/* ops/parse/features.c -- see features.h. */
#include "ops/parse/features.h"

#include "base/memory.h"

/* ---- attrs ---- */

static mr_status *read_list(const mr_node *n, const char *name, mr_attr_kind kind, const mr_attr **out,
                            int *count)
{
    static const mr_attr none = {.is_list = true};
    *out = &none;
    if (name)
        MR_TRY(mr_node_get_list(n, name, kind, out));
    *count = (*out)->n;
    return NULL;
}

static mr_status *check_shape(const mr_pshape *s, int i)
{
    bool known = s->rank >= 0;
    for (int k = 1; k < s->rank; k++)
        known = known && s->dims[k] >= 0;
    return known ? NULL
                 : mr_invalid("dense_shapes[%d] has unknown rank or unknown inner dimensions: %s", i,
                              MR_PSHAPE_TEXT(s));
}

mr_status *mr_feature_group_init(mr_feature_group *g, const mr_node *n, const mr_feature_attrs *a,
                                 bool of_lists)
{
    int n_shapes, n_splits;
    g->of_lists = of_lists;
    MR_TRY(read_list(n, a->sparse_types, MR_ATTR_TYPE, &g->sparse_types, &g->n_sparse));
    MR_TRY(read_list(n, a->dense_types, MR_ATTR_TYPE, &g->dense_types, &g->n_dense));
    MR_TRY(read_list(n, a->dense_shapes, MR_ATTR_SHAPE, &g->dense_shapes, &n_shapes));
    MR_TRY(read_list(n, a->ragged_types, MR_ATTR_TYPE, &g->ragged_types, &g->n_ragged));
    MR_TRY(read_list(n, a->split_types, MR_ATTR_TYPE, &g->split_types, &n_splits));
    if (n_shapes != g->n_dense)
        return mr_invalid("len(dense_keys) != len(dense_shapes): %d and %d", g->n_dense, n_shapes);
    if (n_splits != g->n_ragged)
        return mr_invalid("len(ragged_value_types) != len(ragged_split_types): %d and %d",
                          g->n_ragged, n_splits);
    for (int i = 0; i < n_shapes; i++)
        MR_TRY(check_shape(g->dense_shapes->shapes[i], i));
    return NULL;
}

void mr_feature_group_list(const mr_feature_group *g, mr_feature *out)
{
    for (int i = 0; i < g->n_sparse; i++)
        *out++ = (mr_feature){.form = MR_FEATURE_SPARSE, .dtype = g->sparse_types->types[i]};
    for (int i = 0; i < g->n_dense; i++)
        *out++ = (mr_feature){.form = MR_FEATURE_DENSE,
                              .dtype = g->dense_types->types[i],
                              .shape = g->dense_shapes->shapes[i]};
    for (int i = 0; i < g->n_ragged; i++)
        *out++ = (mr_feature){.form = MR_FEATURE_RAGGED,
                              .dtype = g->ragged_types->types[i],
                              .splits = g->split_types->types[i]};
}

/* ---- inputs ---- */

mr_status *mr_feature_keys_vector(const mr_run *r, int in, const char *what, int n, mr_feature *out)
{
    const mr_tensor *t = mr_in(r, in);
    if (t->rank != 1 || t->n != n)
        return mr_invalid("Expected %s to be a vector of %d keys, one per type, got shape %s", what, n,
                          MR_TENSOR_SHAPE(t));
    for (int i = 0; i < n; i++)
        out[i].key = mr_tensor_str_at(t, i);
    return NULL;
}

mr_status *mr_feature_keys_scalars(const mr_run *r, int first, const char *what, int n,
                                   mr_feature *out)
{
    for (int i = 0; i < n; i++) {
        const mr_tensor *t = mr_in(r, first + i);
        if (t->n != 1)
            return mr_invalid("Expected %s[%d] to be a scalar, got shape %s", what, i,
                              MR_TENSOR_SHAPE(t));
        out[i].key = mr_tensor_str_at(t, 0);
    }
    return NULL;
}

void mr_feature_keys_attr(const mr_attr *keys, mr_feature *out)
{
    for (int i = 0; i < keys->n; i++)
        out[i].key = keys->ss[i];
}

static mr_status *check_default(int i, const mr_pshape *shape, const mr_tensor *t)
{
    mr_status *st = NULL;
    mr_arena a;
    if (shape->rank > 0 && shape->dims[0] < 0)
        return t->n == 1 ? NULL
                         : mr_invalid("dense_shape[%d] is a variable length shape: %s, therefore "
                                      "def_value[%d] must contain a single element (the padding "
                                      "element).  But its shape is: %s",
                                      i, MR_PSHAPE_TEXT(shape), i, MR_TENSOR_SHAPE(t));
    if (t->n == 0)
        return NULL;
    mr_arena_init(&a, 0);
    if (!mr_pshape_compatible(shape, mr_pshape_of(&a, t->rank, t->dims)))
        st = mr_invalid("def_value[%d].shape() == %s is not compatible with dense_shapes_[%d] == %s",
                        i, MR_TENSOR_SHAPE(t), i, MR_PSHAPE_TEXT(shape));
    mr_arena_deinit(&a);
    return st;
}

mr_status *mr_feature_defaults(const mr_run *r, int first, const mr_feature_group *g,
                               mr_feature *dense)
{
    for (int i = 0; i < g->n_dense; i++) {
        dense[i].fallback = mr_in(r, first + i);
        MR_TRY(check_default(i, dense[i].shape, dense[i].fallback));
    }
    return NULL;
}

mr_status *mr_example_names(const mr_run *r, int in, const mr_tensor *serialized,
                            const mr_tensor **out)
{
    const mr_tensor *names = mr_in(r, in);
    *out = names;
    if (names->n == 0 || mr_tensor_same_shape(names, serialized))
        return NULL;
    return mr_invalid("Expected the names to be empty or of the shape of the examples: %s and %s",
                      MR_TENSOR_SHAPE(names), MR_TENSOR_SHAPE(serialized));
}

/* ---- outputs ---- */

static void give_tensor(mr_run *r, mr_tensor **t, int *out)
{
    mr_run_set(r, (*out)++, *t);
    *t = NULL;
}

void mr_feature_group_give(mr_run *r, const mr_feature_group *g, mr_feature_result *results,
                           bool lengths, int *out)
{
    mr_feature_result *dense = results + g->n_sparse, *ragged = dense + g->n_dense;
    for (int i = 0; i < g->n_sparse; i++)
        give_tensor(r, &results[i].indices, out);
    for (int i = 0; i < g->n_sparse; i++)
        give_tensor(r, &results[i].values, out);
    for (int i = 0; i < g->n_sparse; i++)
        give_tensor(r, &results[i].shape, out);
    for (int i = 0; i < g->n_dense; i++)
        give_tensor(r, &dense[i].values, out);
    for (int i = 0; lengths && i < g->n_dense; i++)
        give_tensor(r, &dense[i].lengths, out);
    for (int i = 0; i < g->n_ragged; i++)
        give_tensor(r, &ragged[i].values, out);
    for (int i = 0; g->of_lists && i < g->n_ragged; i++)
        give_tensor(r, &ragged[i].outer_splits, out);
    for (int i = 0; i < g->n_ragged; i++)
        give_tensor(r, &ragged[i].splits, out);
}

/* ---- shapes ---- */

static const mr_pshape *dense_shape(mr_infer *c, const mr_feature_group *g, int i, int rank,
                                    int64_t batch)
{
    const mr_pshape *s = g->dense_shapes->shapes[i];
    if (rank < 0)
        return &mr_pshape_unknown;
    if (g->of_lists)
        s = mr_infer_concat(c, mr_pshape_vector(c->arena, -1), s);
    return rank == 1 ? mr_infer_concat(c, mr_pshape_vector(c->arena, batch), s) : s;
}

/* The shape of ragged splits: batch + 1 for a batch of examples. */
static const mr_pshape *splits_shape(mr_infer *c, int rank, int64_t batch)
{
    return rank != 1 ? &mr_pshape_unknown
                     : mr_pshape_vector(c->arena, batch < 0 ? -1 : batch + 1);
}

mr_status *mr_feature_group_shape(mr_infer *c, const mr_feature_group *g, int rank, int64_t batch,
                                  bool lengths, int *out)
{
    int64_t sparse_rank = rank < 0 ? -1 : rank + 1 + g->of_lists;
    const mr_pshape *values = mr_pshape_vector(c->arena, -1);
    for (int i = 0; i < g->n_sparse; i++)
        c->out[(*out)++] = mr_pshape_matrix(c->arena, -1, sparse_rank);
    for (int i = 0; i < g->n_sparse; i++)
        c->out[(*out)++] = values;
    for (int i = 0; i < g->n_sparse; i++)
        c->out[(*out)++] = mr_pshape_vector(c->arena, sparse_rank);
    for (int i = 0; i < g->n_dense; i++)
        c->out[(*out)++] = dense_shape(c, g, i, rank, batch);
    for (int i = 0; lengths && i < g->n_dense; i++)
        c->out[(*out)++] = rank < 0    ? &mr_pshape_unknown
                           : rank == 1 ? mr_pshape_vector(c->arena, batch)
                                       : &mr_pshape_scalar;
    for (int i = 0; i < g->n_ragged; i++)
        c->out[(*out)++] = values;
    for (int i = 0; g->of_lists && i < g->n_ragged; i++)
        c->out[(*out)++] = splits_shape(c, rank, batch);
    for (int i = 0; i < g->n_ragged; i++)
        c->out[(*out)++] = g->of_lists ? values : splits_shape(c, rank, batch);
    return NULL;
}
