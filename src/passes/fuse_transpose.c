/* passes/fuse_transpose.c -- products of matrices read and write through the Transposes around them.
 *
 * A Transpose of two dimensions before a MatMul changes the flag of the MatMul. A BatchMatMul of floats whose operands come
 * from Transposes with constant order, or from Unpacks of such, or whose only reader is a Transpose, becomes one
 * _StridedBatchMatMul (ops/linalg/strided_matmul.c): the heads of an attention are not copied. A Transpose before it is
 * left out only if all that read it are such products, and if one dimension of the matrices stays contiguous.
 *
 * The new node has the control inputs of the nodes that it replaces: it is dead, and waits, as they do. */
#include "base/memory.h"
#include "passes/fuse.h"

enum { MOST_RANK = 8, MOST_REPLACED = 8 };

typedef struct operand {
    mr_out from;
    int rank, axis, part; /* rank 0: no transpose; part -1: no Unpack */
    int64_t order[MOST_RANK];
} operand;

typedef struct product {
    mr_graph *g;
    const mr_prepare_options *o;
    mr_node *node;
    operand in[2];
    mr_node *after; /* a Transpose of the result; or NULL */
    operand out;
    mr_node *replaced[MOST_REPLACED]; /* without those before it that others may read */
    int n_replaced;
} product;

static bool is_batch_product(const mr_prepare_options *o, const mr_node *n)
{
    return n && (mr_node_is(n, "BatchMatMul") || mr_node_is(n, "BatchMatMulV2")) && mr_out_type((mr_out){(mr_node *)n, 0}) == MR_FLOAT &&
           n->in[0].node && n->in[1].node && mr_fuse_on_cpu(o, n);
}

/* The constant order of a Transpose on the same device. */
static bool read_order(const mr_node *n, const mr_node *reader, operand *out)
{
    mr_tensor *t = NULL;
    unsigned seen = 0;
    if (!mr_node_is(n, "Transpose") || !mr_fuse_same_device(n, reader) || !mr_node_is(n->in[1].node, "Const") ||
        mr_dtype_is_ref(mr_out_type(n->in[0])))
        return false;
    mr_status_free(mr_node_get_tensor(n->in[1].node, "value", &t));
    bool good = t && t->rank == 1 && t->n >= 2 && t->n <= MOST_RANK && (t->dtype == MR_INT32 || t->dtype == MR_INT64);
    for (int i = 0; good && i < t->n; i++) {
        int64_t d = mr_tensor_int_at(t, i);
        good = d >= 0 && d < t->n && !(seen >> d & 1);
        seen |= good ? 1u << d : 0;
        out->order[i] = d;
    }
    out->rank = good ? (int)t->n : 0;
    mr_tensor_unref(t);
    return good;
}

/* True if only products that read in place use the node, or Unpacks that only they use. */
static bool feeds_products(const mr_prepare_options *o, const mr_node *n, bool through_unpack)
{
    for (int u = 0; u < n->uses.n; u++) {
        const mr_node *user = n->uses.p[u].node;
        bool fits = is_batch_product(o, user) || mr_node_is(user, "_StridedBatchMatMul") ||
                    (through_unpack && mr_node_is(user, "Unpack") && feeds_products(o, user, false));
        if (n->uses.p[u].input < 0 || !fits || !mr_fuse_same_device(user, n))
            return false;
    }
    return true;
}

static void note_replaced(product *p, mr_node *n)
{
    for (int i = 0; i < p->n_replaced; i++)
        if (p->replaced[i] == n)
            return;
    MR_ASSERT(p->n_replaced < MOST_REPLACED);
    p->replaced[p->n_replaced++] = n;
}

/* Looks through the nodes before an operand. */
static void look_before(product *p, int i)
{
    operand *v = &p->in[i];
    mr_out o = p->node->in[i];
    mr_node *unpack = NULL, *transpose = o.node;
    int64_t axis = 0;
    *v = (operand){.from = o, .part = -1};
    if (mr_node_is(o.node, "Unpack")) {
        unpack = o.node;
        mr_status_free(mr_node_get_int(unpack, "axis", &axis));
        transpose = unpack->in[0].node;
    }
    if (!read_order(transpose, p->node, v))
        return;
    int rank = v->rank - (unpack != NULL);
    axis += axis < 0 ? v->rank : 0;
    bool contiguous = v->order[v->rank - 1] == v->rank - 1 || v->order[v->rank - 2] == v->rank - 1;
    if (rank < 2 || !contiguous || axis < 0 || axis >= v->rank - 2 + (unpack == NULL) ||
        (unpack && !mr_fuse_same_device(unpack, transpose)) || !feeds_products(p->o, transpose, true)) {
        v->rank = 0;
        return;
    }
    v->from = transpose->in[0];
    v->axis = (int)axis;
    v->part = unpack ? o.index : -1;
    note_replaced(p, transpose);
    note_replaced(p, transpose->in[1].node);
    if (unpack)
        note_replaced(p, unpack);
}

static void look_after(product *p)
{
    mr_node *n = mr_fuse_sole_consumer(p->node);
    p->after = NULL;
    if (!n || n->in[0].node != p->node || !read_order(n, p->node, &p->out) || p->out.order[p->out.rank - 1] != p->out.rank - 1) {
        p->out.rank = 0;
        return;
    }
    p->after = n;
}

static void add_operand_attrs(mr_node_builder *b, int i, const operand *v)
{
    mr_nb_attr(b, i ? "y_order" : "x_order", mr_a_ints(v->rank, v->order));
    mr_nb_attr(b, i ? "y_part" : "x_part", mr_a_int(v->part));
    mr_nb_attr(b, i ? "y_axis" : "x_axis", mr_a_int(v->axis));
}

static mr_status *add_product(const product *p, mr_node **out)
{
    mr_node *n = p->node, *last = p->after ? p->after : n;
    mr_sv members[MOST_REPLACED + 2];
    char *texts[MOST_REPLACED + 2];
    const mr_node *listed[MOST_REPLACED + 2];
    int n_listed = 0;
    mr_node_builder *b = mr_node_begin(p->g, "_StridedBatchMatMul", mr_graph_unique_name(p->g, n->name));
    mr_nb_internal(b);
    mr_nb_device(b, n->device);
    for (int i = 0; i < 2; i++)
        mr_nb_input(b, p->in[i].from);
    for (int i = 0; i < 2; i++)
        add_operand_attrs(b, i, &p->in[i]);
    mr_nb_attr(b, "order", mr_a_ints(p->out.rank, p->out.order));
    mr_nb_attr(b, "broadcasts", mr_a_bool(mr_node_is(n, "BatchMatMulV2")));
    mr_nb_attr(b, "adj_x", *mr_node_attr(n, "adj_x"));
    mr_nb_attr(b, "adj_y", *mr_node_attr(n, "adj_y"));
    for (int i = 0; i < p->n_replaced; i++)
        if (!mr_node_is(p->replaced[i], "Const"))
            listed[n_listed++] = p->replaced[i];
    listed[n_listed++] = n;
    if (p->after)
        listed[n_listed++] = p->after;
    for (int i = 0; i < n_listed; i++)
        members[i] = mr_sv_of(texts[i] = mr_printf("%s:%s", listed[i]->name, listed[i]->def->name));
    mr_nb_attr(b, MR_FUSED_MEMBERS, mr_a_strs(n_listed, members));
    for (int i = 0; i < n_listed; i++)
        mr_free(texts[i]);
    MR_TRY(mr_node_finish(b, out));
    (*out)->placed = n->placed;
    (*out)->mark = n->mark;
    (*out)->out_shapes[0] = last->out_shapes[0];
    return NULL;
}

static void copy_controls(mr_node *to, const mr_node *from)
{
    for (int i = 0; i < from->n_ctrl; i++)
        mr_node_add_control(to, from->ctrl[i]);
}

static void remove_unused(mr_graph *g, mr_node *n)
{
    if (n && n->uses.n == 0)
        mr_graph_remove(g, n);
}

static mr_status *replace_product(product *p)
{
    mr_node *made, *n = p->node, *last = p->after ? p->after : n;
    const char *name = n->name;
    MR_TRY(add_product(p, &made));
    for (int i = 0; i < p->n_replaced; i++)
        copy_controls(made, p->replaced[i]);
    copy_controls(made, n);
    if (p->after) {
        copy_controls(made, p->after);
        copy_controls(made, p->after->in[1].node);
    }
    MR_TRY(mr_graph_replace_uses((mr_out){last, 0}, (mr_out){made, 0}));
    mr_fuse_move_controls(last, made);
    if (p->after) {
        mr_node *perm = p->after->in[1].node;
        mr_graph_remove(p->g, p->after);
        remove_unused(p->g, perm);
    }
    mr_graph_remove(p->g, n);
    for (int again = 0; again < 3; again++) /* an Unpack goes before its Transpose, and that before its order */
        for (int i = 0; i < p->n_replaced; i++)
            if (p->replaced[i] && p->replaced[i]->uses.n == 0) {
                mr_graph_remove(p->g, p->replaced[i]);
                p->replaced[i] = NULL;
            }
    mr_node_rename(made, name);
    return NULL;
}

static mr_status *fuse_batch(mr_graph *g, const mr_prepare_options *o, mr_node *n)
{
    product p = {.g = g, .o = o, .node = n};
    look_before(&p, 0);
    look_before(&p, 1);
    look_after(&p);
    return p.in[0].rank || p.in[1].rank || p.after ? replace_product(&p) : NULL;
}

/* ---- MatMul ---- */

static mr_status *fuse_matrix(mr_graph *g, mr_node *n)
{
    static const char *const flags[] = {"transpose_a", "transpose_b"};
    for (int i = 0; i < 2; i++) {
        mr_node *t = n->in[i].node, *perm;
        operand v = {0};
        bool flag = false;
        if (!t || !read_order(t, n, &v) || v.rank != 2 || v.order[0] != 1)
            continue;
        perm = t->in[1].node;
        copy_controls(n, t);
        copy_controls(n, perm);
        mr_status_free(mr_node_get_bool(n, flags[i], &flag));
        mr_node_set_attr(n, flags[i], mr_a_bool(!flag));
        MR_TRY(mr_node_set_input(n, i, t->in[0]));
        if (t->uses.n == 0) {
            mr_graph_remove(g, t);
            remove_unused(g, perm);
        }
    }
    return NULL;
}

mr_status *mr_fuse_transpose(mr_graph *g, const mr_prepare_options *o)
{
    for (int i = 0, n = g->nodes.n; i < n; i++) {
        mr_node *p = g->nodes.p[i];
        if (is_batch_product(o, p))
            MR_TRY(fuse_batch(g, o, p));
        else if (p && mr_node_is(p, "MatMul") && mr_fuse_on_cpu(o, p))
            MR_TRY(fuse_matrix(g, p));
    }
    return NULL;
}
