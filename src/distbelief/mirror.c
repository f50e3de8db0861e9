/* distbelief/mirror.c -- the mapping between a model's variables and the servers' vector and tables.
 *
 * The graph gets one placeholder and assignment for each variable, and its gradient as floats. Values
 * outside the graph are in mr_mirror_values, in the layout of the servers.
 *
 * Invariants: the parts without rows cover the vector without gaps, in their order; n is a multiple of width. */
#include "distbelief/mirror.h"

#include <string.h>

enum {
    WIDE = 16,           /* floats per key, if that leaves at least */
    ENOUGH_KEYS = 24000, /* keys: then 240 ranges differ by at most one percent */
};

/* ---- adding nodes ---- */

/* Parameter servers hold floats, so values and gradients of other types are cast. */
static mr_out as_float(mr_nn *n, mr_out v)
{
    if (!v.node || mr_dtype_base(mr_out_type(v)) == MR_FLOAT)
        return v;
    return mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), v);
}

/* The placeholder is a float; the assignment casts to the type of the variable. */
static mr_node *add_assignment(mr_nn *n, const mr_nn_var *v, mr_mirror_part *p)
{
    p->feed = mr_placeholder(&n->s, MR_FLOAT, "value", mr_out_shape(v->value));
    mr_out cast = p->feed;
    if (v->dtype != MR_FLOAT)
        cast = mr_emit_with(&n->s, "Cast", MR_ATTRS({"DstT", mr_a_type(v->dtype)}), p->feed);
    return mr_nn_assign(n, v, cast).node;
}

/* Adds the gradient as floats: rows and their indices if the variable has a table of its own,
 * otherwise a dense tensor. Duplicate rows are summed on the device. */
static void add_gradient(mr_nn *n, mr_gradient g, bool rows, mr_mirror_part *p)
{
    p->gradient = p->indices = MR_NO_OUT;
    p->rows = rows && !g.dense.node && g.values.node && p->rank >= 1 && p->dims[0] > 0 && p->n > 0;
    if (p->rows) {
        mr_nn_sum_rows(n, &g);
        p->gradient = as_float(n, g.values);
        p->indices = g.indices;
        p->columns = p->n / p->dims[0];
    } else if (g.dense.node || g.values.node) {
        p->gradient = as_float(n, g.dense.node ? g.dense : mr_gradient_dense(&n->s, &g));
    }
}

/* Adds the nodes of one variable and gives it its place in the vector. Returns its assignment. */
static mr_node *add_part(mr_nn *n, int var, mr_gradient g, bool rows, mr_mirror *out)
{
    mr_nn_var v = n->vars.p[var];
    const mr_pshape *shape = mr_out_shape(v.value);
    mr_mirror_part p = {.name = v.name, .rank = shape->rank, .n = v.n};
    if (!mr_dtype_is_floating(v.dtype))
        mr_scope_fail(&n->s,
                      mr_invalid("Variable '%s' has type %s, but parameter servers hold only floating-point numbers",
                                 v.name, mr_dtype_name(v.dtype)));
    if (!mr_scope_ok(&n->s))
        return NULL;
    memcpy(p.dims, shape->dims, (size_t)shape->rank * sizeof *p.dims);
    /* The nodes are on the device of the variable, so that only values cross devices. */
    const char *saved, *before = mr_nn_at(n, v.device);
    mr_nn_enter(n, v.name, &saved);
    p.value = as_float(n, v.value);
    mr_node *assign = add_assignment(n, &v, &p);
    add_gradient(n, g, rows, &p);
    mr_nn_leave(n, saved);
    mr_nn_at(n, before);
    if (!p.rows) {
        p.at = out->n;
        if (!mr_i64_add(out->n, p.n, &out->n))
            mr_scope_fail(&n->s, mr_error(MR_RESOURCE_EXHAUSTED, "The model has more than 2^63 parameters"));
    }
    mr_vec_push(&out->parts, p);
    return assign;
}

/* Chooses the width of keys. The unused rest of the last key is padding, which stays zero. */
static void cut_keys(mr_mirror *m)
{
    m->width = m->n / WIDE >= ENOUGH_KEYS ? WIDE : 1;
    m->keys = (uint64_t)((m->n + m->width - 1) / m->width);
    m->n = (int64_t)m->keys * m->width;
    MR_ASSERT(m->n % m->width == 0);
}

/* Adds all nodes. The global step is made before entering the scope, because the prefix is not part of
 * its name. */
void mr_mirror_build(mr_nn *n, mr_out loss, bool rows, float local_rate, mr_mirror *out)
{
    mr_nn_gradients g;
    const char *saved;
    *out = (mr_mirror){0};
    if (local_rate > 0)
        mr_nn_global_step(n);
    mr_nn_gradients_of(n, loss, &g);
    mr_nn_enter(n, "distbelief", &saved);
    out->loss = as_float(n, loss);
    MR_VEC(mr_node *) assigns = {0};
    for (int i = 0; i < g.n && mr_scope_ok(&n->s); i++)
        mr_vec_push(&assigns, add_part(n, g.var[i], g.g[i], rows, out));
    if (local_rate > 0 && mr_scope_ok(&n->s))
        out->local = mr_nn_apply(n, &(mr_nn_optimizer){.kind = MR_NN_SGD, .rate = local_rate}, &g);
    /* One target that waits for all assignments. */
    for (int i = 0; i < assigns.n && mr_scope_ok(&n->s); i++)
        mr_vec_push(&n->s.controls, assigns.p[i]);
    if (mr_scope_ok(&n->s))
        out->install = mr_emit0(mr_as(&n->s, "install"), "NoOp").node;
    n->s.controls.n = 0;
    mr_nn_leave(n, saved);
    mr_vec_deinit(&assigns);
    mr_nn_gradients_deinit(&g);
    if (mr_scope_ok(&n->s) && out->parts.n == 0)
        mr_scope_fail(&n->s, mr_invalid("The model has no trainable variables"));
    cut_keys(out);
}

void mr_mirror_deinit(mr_mirror *m) { mr_vec_deinit(&m->parts); }

/* ---- values ---- */

/* Everything is zero at first. On failure *v is empty. */
mr_status *mr_mirror_values_init(const mr_mirror *m, mr_mirror_values *v)
{
    bool ok = true;
    v->tables = mr_new_array(float *, m->parts.n + 1);
    v->vector = mr_try_calloc((size_t)m->n + 1, sizeof(float));
    for (int i = 0; i < m->parts.n && ok; i++)
        if (m->parts.p[i].rows)
            ok = (v->tables[i] = mr_try_calloc((size_t)m->parts.p[i].n, sizeof(float))) != NULL;
    if (ok && v->vector)
        return NULL;
    mr_mirror_values_deinit(m, v);
    return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot copy %lld parameters", (long long)m->n);
}

/* Accepts values that are zero or filled in part. */
void mr_mirror_values_deinit(const mr_mirror *m, mr_mirror_values *v)
{
    for (int i = 0; v->tables && i < m->parts.n; i++)
        mr_free(v->tables[i]);
    mr_free(v->tables);
    mr_free(v->vector);
    *v = (mr_mirror_values){0};
}

/* A fetched value must have the shape that the variable had when the graph was built. */
static mr_status *check_part(const mr_mirror_part *p, const mr_tensor *t)
{
    bool same = t->dtype == MR_FLOAT && t->rank == p->rank;
    for (int i = 0; same && i < p->rank; i++)
        same = t->dims[i] == p->dims[i];
    return same ? NULL : mr_invalid("'%s': received a value of shape %s, expected %s", p->name, MR_TENSOR_SHAPE(t),
                                    MR_SHAPE_TEXT(p->rank, p->dims));
}

/* Fetches all variables in one run. */
mr_status *mr_mirror_read(const mr_mirror *m, mr_session *s, mr_mirror_values *v)
{
    int n = m->parts.n;
    mr_out *fetches = mr_new_array(mr_out, n);
    mr_tensor **got = mr_new_array(mr_tensor *, n);
    for (int i = 0; i < n; i++)
        fetches[i] = m->parts.p[i].value;
    mr_run_args a = {.fetches = fetches, .fetched = got, .n_fetches = n};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    for (int i = 0; i < n && !st; i++) {
        st = check_part(&m->parts.p[i], got[i]);
        if (!st)
            memcpy(mr_mirror_at(m, v, i), got[i]->data, (size_t)got[i]->n * sizeof(float));
    }
    for (int i = 0; i < n; i++)
        mr_tensor_unref(got[i]);
    mr_free(fetches);
    mr_free(got);
    return st;
}

/* Assigns all variables in one run. Each gets a new tensor, because a variable keeps the one it was
 * assigned. */
mr_status *mr_mirror_install(const mr_mirror *m, mr_session *s, const mr_mirror_values *v)
{
    int n = m->parts.n;
    MR_ASSERT(m->install && n > 0);
    mr_status *st = NULL;
    mr_out *feeds = mr_new_array(mr_out, n);
    mr_tensor **values = mr_new_array(mr_tensor *, n);
    for (int i = 0; i < n; i++) {
        const mr_mirror_part *p = &m->parts.p[i];
        feeds[i] = p->feed;
        MR_GO(mr_tensor_new(NULL, MR_FLOAT, p->rank, p->dims, &values[i]));
        memcpy(values[i]->data, mr_mirror_at(m, v, i), (size_t)p->n * sizeof(float));
    }
    mr_run_args a = {.feeds = feeds, .feed_values = values, .n_feeds = n, .targets = &m->install, .n_targets = 1};
    st = mr_session_run(s, &a, NULL, NULL);
out:
    for (int i = 0; i < n; i++)
        mr_tensor_unref(values[i]);
    mr_free(feeds);
    mr_free(values);
    return st;
}

/* ---- gradients ---- */

/* Fetches the client's outputs first, then the loss, then the gradient and indices of each part. */
static mr_status *run_all(const mr_mirror *m, mr_session *s, const mr_run_args *client, mr_cancel *cancel, mr_out *fetches,
                          mr_tensor **got, mr_node **targets)
{
    int n = client->n_fetches, n_targets = client->n_targets;
    if (n)
        memcpy(fetches, client->fetches, (size_t)n * sizeof *fetches);
    fetches[n++] = m->loss;
    for (int i = 0; i < m->parts.n; i++) {
        if (m->parts.p[i].gradient.node)
            fetches[n++] = m->parts.p[i].gradient;
        if (m->parts.p[i].indices.node)
            fetches[n++] = m->parts.p[i].indices;
    }
    if (n_targets)
        memcpy(targets, client->targets, (size_t)n_targets * sizeof(mr_node *));
    if (m->local)
        targets[n_targets++] = m->local;
    mr_run_args a = *client;
    a.fetches = fetches;
    a.fetched = got;
    a.n_fetches = n;
    a.targets = targets;
    a.n_targets = n_targets;
    return mr_session_run(s, &a, &(mr_run_options){.cancel = cancel}, NULL);
}

/* On an error all results are released and the outputs are NULL. */
mr_status *mr_mirror_run(const mr_mirror *m, mr_session *s, const mr_run_args *client, mr_cancel *cancel, mr_tensor **gradients,
                         float *loss)
{
    size_t most = (size_t)client->n_fetches + 1 + 2 * (size_t)m->parts.n;
    MR_ASSERT(m->loss.node);
    mr_out *fetches = mr_new_array(mr_out, most);
    mr_tensor **got = mr_new_array(mr_tensor *, most);
    mr_node **targets = mr_new_array(mr_node *, client->n_targets + 1);
    memset(gradients, 0, 2 * (size_t)m->parts.n * sizeof(mr_tensor *));
    mr_status *st = run_all(m, s, client, cancel, fetches, got, targets);
    /* The results are in the order of run_all: the client's, the loss, the gradients. On failure all are NULL. */
    int n = client->n_fetches;
    if (!st && (got[n]->n != 1 || got[n]->dtype != MR_FLOAT))
        st = mr_invalid("The loss has %lld elements, expected one number", (long long)got[n]->n);
    if (!st && loss)
        *loss = MR_DATA(float, got[n])[0];
    mr_tensor_unref(got[n++]);
    for (int i = 0; i < m->parts.n; i++) {
        if (m->parts.p[i].gradient.node)
            gradients[2 * i] = got[n++];
        if (m->parts.p[i].indices.node)
            gradients[2 * i + 1] = got[n++];
    }
    for (int i = 0; i < client->n_fetches; i++) {
        if (st)
            mr_tensor_unref(got[i]);
        client->fetched[i] = st ? NULL : got[i];
    }
    if (st)
        mr_mirror_drop(m, gradients);
    mr_free(fetches);
    mr_free(got);
    mr_free(targets);
    return st;
}

/* Releases the gradients; NULL entries are allowed. */
void mr_mirror_drop(const mr_mirror *m, mr_tensor **gradients)
{
    for (int i = 0; i < 2 * m->parts.n; i++) {
        mr_tensor_unref(gradients[i]);
        gradients[i] = NULL;
    }
}

/* to += by * from; vectorises. */
static void add_scaled(float *to, const float *from, float by, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += by * from[i];
}

/* Adds rows to a table, after checking them: indices come from a run, which may be in another process. */
static mr_status *add_rows(const mr_mirror_part *p, const mr_tensor *values, const mr_tensor *indices, float by, float *to,
                           uint8_t *touched)
{
    bool whole = indices->dtype == MR_INT32 || indices->dtype == MR_INT64;
    if (!whole || values->dtype != MR_FLOAT || values->n != indices->n * p->columns)
        return mr_invalid("'%s': received %lld values for %lld rows of %lld columns", p->name, (long long)values->n,
                          (long long)indices->n, (long long)p->columns);
    for (int64_t i = 0; i < indices->n; i++) {
        int64_t row = mr_tensor_int_at(indices, i);
        if (row < 0 || row >= p->dims[0])
            return mr_invalid("'%s': row %lld does not exist, the table has %lld rows", p->name, (long long)row,
                              (long long)p->dims[0]);
        add_scaled(to + row * p->columns, MR_DATA(const float, values) + i * p->columns, by, p->columns);
        if (touched)
            touched[row] = 1;
    }
    return NULL;
}

/* Checks every gradient before it is added. On failure some parts may have been added already; the caller gives up
 * the sum then. */
mr_status *mr_mirror_add(const mr_mirror *m, mr_tensor *const *gradients, float by, mr_mirror_values *v, uint8_t **touched)
{
    for (int i = 0; i < m->parts.n; i++) {
        const mr_mirror_part *p = &m->parts.p[i];
        const mr_tensor *g = gradients[2 * i];
        float *to = mr_mirror_at(m, v, i);
        if (!g)
            continue;
        if (p->rows) {
            MR_TRY(add_rows(p, g, gradients[2 * i + 1], by, to, touched ? touched[i] : NULL));
            continue;
        }
        MR_TRY(check_part(p, g));
        add_scaled(to, MR_DATA(const float, g), by, p->n);
    }
    return NULL;
}
