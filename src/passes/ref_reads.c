/* passes/ref_reads.c -- a value of a ref variable that is used after an update is the new value.
 *
 * In TensorFlow an Identity of a VariableV2 shares the variable's memory, and updates write into that memory.  So a
 * node that runs after an update sees its effect even where it takes the value from an Identity that ran before:
 *
 *     read = Identity(v);  add = AssignAdd(v, 1);  tokens = Fill([n], read) behind add       -> the new value
 *
 * Graphs of TensorFlow's own front end, which has one Identity for each variable, count on it.  Here a value once read
 * never changes (run/variable.h), which keeps torn values, data races and aliases out of kernels.  This pass
 * gives such a node what it would see: wherever edges of the graph order an update of the variable before a node and
 * not before the read that the node takes its value from, the node gets a read of its own, which waits for all that the
 * node waits for.  Where the graph orders nothing, TensorFlow gives either value, and we that of the first read.
 *
 * Values are followed through nodes that hand on the memory of their input: Identity and its like, changes of shape, a
 * Switch, and an Enter of a loop's constant.  A node on another device than the variable keeps what it was sent: there
 * TensorFlow has copied it too. */
#include <stdlib.h>

#include "base/memory.h"
#include "passes/passes.h"

enum { MAX_CHAIN = 64 };

/* How a value of a variable comes to a node: nodes[0] reads it through the reference `ref`, the last is read by the
 * node. */
typedef struct chain {
    mr_node *nodes[MAX_CHAIN];
    int n;
    mr_out ref;
} chain;

typedef struct reader {
    mr_graph *g;
    mr_frames frames;
    int n_old;                /* nodes that were there before */
    int *place;               /* of these, in the order of their dependencies */
    bool *handed_on;          /* of these: its outputs are the value of some variable, as find_chain would say */
    mr_map read;              /* names of the variables of which somebody hands on a value */
    MR_VEC(bool) reached;     /* by id: the update is before it */
    MR_VEC(mr_node *) behind; /* those */
    MR_VEC(mr_node *) users;  /* of those, the ones that use a value of some variable */
} reader;

static bool is_one_of(const mr_node *n, const char *const *names)
{
    for (; *names; names++)
        if (mr_node_is(n, *names))
            return true;
    return false;
}

static bool is_variable(const mr_node *n)
{
    static const char *const names[] = {"VariableV2", "Variable", "TemporaryVariable", NULL};
    return is_one_of(n, names);
}

static bool changes_shape(const mr_node *n)
{
    static const char *const names[] = {"Reshape", "Squeeze", "ExpandDims", NULL};
    return is_one_of(n, names);
}

/* Its output 0 (of a Switch: any) is the memory of its input 0. */
static bool hands_on(const mr_node *n)
{
    static const char *const names[] = {"Identity", "StopGradient", "PreventGradient", "Snapshot", "Switch", NULL};
    if (n->n_in < 1 || mr_dtype_is_ref(n->in_types[0]))
        return false;
    if (mr_node_is(n, "Enter")) {
        const mr_attr *a = mr_node_attr(n, "is_constant");
        return a && a->kind == MR_ATTR_BOOL && a->b;
    }
    return is_one_of(n, names) || changes_shape(n);
}

/* The node that made the variable behind a reference; NULL when that is one of several. */
static const mr_node *variable_of(mr_out ref)
{
    while (ref.node && ref.node->n_in > 0 && mr_dtype_is_ref(ref.node->in_types[0])) {
        if (mr_node_is(ref.node, "RefMerge") || mr_node_is(ref.node, "RefSelect") ||
            mr_node_is(ref.node, "RefNextIteration"))
            return NULL;
        ref = ref.node->in[0];
    }
    return ref.node && is_variable(ref.node) ? ref.node : NULL;
}

static mr_sv resource_name(const mr_node *n)
{
    const mr_attr *a = mr_node_attr(n, "shared_name");
    return a && a->kind == MR_ATTR_STRING && a->s.n > 0 ? a->s : mr_sv_of(n->name);
}

static mr_sv container_name(const mr_node *n)
{
    const mr_attr *a = mr_node_attr(n, "container");
    return a && a->kind == MR_ATTR_STRING ? a->s : MR_SV("");
}

/* Two nodes may lead to one variable, by its name. */
static bool same_variable(const mr_node *a, const mr_node *b)
{
    return a && b &&
           (a == b || (mr_sv_eq(resource_name(a), resource_name(b)) && mr_sv_eq(container_name(a), container_name(b)) &&
                       !mr_node_is(a, "TemporaryVariable") && !mr_node_is(b, "TemporaryVariable")));
}

static bool find_chain(mr_out value, chain *out)
{
    mr_node *back[MAX_CHAIN];
    int n = 0;
    for (mr_node *at = value.node;; at = at->in[0].node) {
        if (!at || !hands_on(at) || n == MAX_CHAIN || !at->in[0].node)
            return false;
        back[n++] = at;
        if (mr_dtype_is_ref(mr_out_type(at->in[0])))
            break;
    }
    for (int i = 0; i < n; i++)
        out->nodes[i] = back[n - 1 - i];
    out->n = n;
    out->ref = out->nodes[0]->in[0];
    return true;
}

/* ---- which nodes run after an update ---- */

static bool is_reached(const reader *w, const mr_node *n) { return n->id < w->reached.n && w->reached.p[n->id]; }

static void reach(reader *w, mr_node *n)
{
    while (w->reached.n <= n->id)
        mr_vec_push(&w->reached, false);
    if (!w->reached.p[n->id]) {
        w->reached.p[n->id] = true;
        mr_vec_push(&w->behind, n);
    }
}

static int by_place(const void *a, const void *b, void *place)
{
    const mr_node *x = *(mr_node *const *)a, *y = *(mr_node *const *)b;
    return ((int *)place)[x->id] - ((int *)place)[y->id];
}

/* Only for nodes of this pass, which are few, does it look at the node itself. */
static bool uses_value(const reader *w, const mr_node *n, int i)
{
    const mr_node *from = n->in[i].node;
    return from && !mr_dtype_is_ref(n->in_types[i]) && (from->id < w->n_old ? w->handed_on[from->id] : hands_on(from));
}

/* All nodes behind an update, and their users of values, producers first; around: in later iterations of its loop, and
 * behind the loop, too.  What this pass has added reads for those behind it already and is no user. */
static void find_behind(reader *w, mr_node *update, bool around)
{
    for (int i = 0; i < w->behind.n; i++)
        w->reached.p[w->behind.p[i]->id] = false;
    w->behind.n = w->users.n = 0;
    reach(w, update);
    for (int i = 0; i < w->behind.n; i++) {
        mr_node *n = w->behind.p[i];
        bool ends_iteration = !around && mr_node_is_next(n);
        for (int k = 0; k < n->uses.n; k++)
            if (!ends_iteration || !mr_node_is_merge(n->uses.p[k].node))
                reach(w, n->uses.p[k].node);
        bool uses = false;
        for (int k = 0; k < n->n_in && n->id < w->n_old && !uses; k++)
            uses = uses_value(w, n, k);
        if (uses && n != update && !mr_node_is_merge(n))
            mr_vec_push(&w->users, n);
    }
    if (w->users.n > 1)
        qsort_r(w->users.p, (size_t)w->users.n, sizeof *w->users.p, by_place, w->place);
}

static bool in_loop(const reader *w, const mr_node *n)
{
    return n->id < w->n_old ? w->frames.of_node[n->id] > 0 : n->n_in > 0 && mr_node_is_enter(n->in[0].node);
}

/* ---- another read ---- */

static mr_status *add_node(reader *w, const char *op, const mr_node *like, const mr_out *in, int n_in,
                           const char *placed, mr_node **out)
{
    char *name = mr_printf("%s/again", like->name);
    mr_node_builder *b = mr_node_begin(w->g, op, mr_graph_unique_name(w->g, name));
    mr_free(name);
    mr_nb_internal(b);
    mr_nb_device(b, like->device);
    if (strcmp(op, "Identity") != 0)
        for (int i = 0; i < like->n_attrs; i++)
            if (like->attrs[i].name[0] != '_')
                mr_nb_attr(b, like->attrs[i].name, like->attrs[i].v);
    for (int i = 0; i < n_in; i++)
        mr_nb_input(b, in[i]);
    MR_TRY(mr_node_finish(b, out));
    (*out)->placed = placed;
    return NULL;
}

/* n runs after that value was made, and is dead if it is: a Switch as such is dead with none of its sides. */
static mr_status *add_wait(reader *w, mr_node *n, mr_out value, const char *placed)
{
    mr_node *pivot = value.node;
    if (mr_node_is_switch(value.node))
        MR_TRY(add_node(w, "Identity", value.node, &value, 1, placed, &pivot));
    mr_node_add_control(n, pivot);
    return NULL;
}

static bool same_device(const mr_node *a, const mr_node *b)
{
    return a->placed == b->placed || (a->placed && b->placed && strcmp(a->placed, b->placed) == 0);
}

static bool on_cpu(const mr_node *n) { return !n->placed || strstr(n->placed, "/device:CPU:"); }

/* Input i of user, which c leads to, is read again behind all that user waits for on its device, and behind the update.
 * What cannot be repeated inside of a loop (a change of shape outside of it, a reference on a device without RefEnter)
 * is left as it is. */
static mr_status *read_again(reader *w, mr_node *user, int i, const chain *c)
{
    mr_out value = c->ref, old = user->in[i];
    mr_node *fresh;
    bool reshaped = false;
    for (int k = 0; k < c->n; k++) {
        reshaped |= changes_shape(c->nodes[k]);
        if (mr_node_is_enter(c->nodes[k]) && (reshaped || !on_cpu(c->nodes[k])))
            return NULL;
    }
    for (int k = 0; k < c->n; k++)
        if (mr_node_is_enter(c->nodes[k])) {
            mr_node *enter;
            MR_TRY(add_node(w, "RefEnter", c->nodes[k], &value, 1, c->nodes[k]->placed, &enter));
            value = (mr_out){enter, 0};
        }
    MR_TRY(add_node(w, "Identity", c->nodes[0], &value, 1, c->nodes[0]->placed, &fresh));
    reach(w, fresh);
    MR_TRY(add_wait(w, fresh, old, user->placed));
    for (int k = 0; k < user->n_in; k++)
        if (k != i && user->in[k].node && (same_device(user->in[k].node, user) || is_reached(w, user->in[k].node)))
            MR_TRY(add_wait(w, fresh, user->in[k], user->placed));
    for (int k = 0; k < user->n_ctrl; k++)
        if (same_device(user->ctrl[k], user) || is_reached(w, user->ctrl[k]))
            mr_node_add_control(fresh, user->ctrl[k]);
    value = (mr_out){fresh, 0};
    for (int k = 0; k < c->n; k++)
        if (changes_shape(c->nodes[k])) {
            mr_node *again;
            mr_out in[2] = {value, c->nodes[k]->n_in > 1 ? c->nodes[k]->in[1] : MR_NO_OUT};
            MR_TRY(add_node(w, c->nodes[k]->def->name, c->nodes[k], in, MR_MIN(c->nodes[k]->n_in, 2),
                            c->nodes[k]->placed, &again));
            value = (mr_out){again, 0};
        }
    return mr_node_set_input(user, i, value);
}

/* The values of v that nodes behind an update use, from reads that are not behind it. */
static mr_status *refresh(reader *w, mr_node *update, const mr_node *v, bool around)
{
    find_behind(w, update, around);
    for (int k = 0; k < w->users.n; k++) {
        mr_node *user = w->users.p[k];
        for (int i = 0; i < user->n_in; i++) {
            chain c;
            if (!uses_value(w, user, i) || !find_chain(user->in[i], &c) || is_reached(w, c.nodes[0]) ||
                !same_variable(variable_of(c.ref), v) || !same_device(user, c.nodes[0]) ||
                (around && in_loop(w, c.nodes[0])))
                continue;
            MR_TRY(read_again(w, user, i, &c));
        }
    }
    return NULL;
}

static void find_reads(reader *w)
{
    for (int i = 0; i < w->n_old; i++) {
        const mr_node *n = w->g->nodes.p[i];
        if (!n || !hands_on(n) || !n->in[0].node || !mr_dtype_is_ref(mr_out_type(n->in[0])))
            continue;
        const mr_node *v = variable_of(n->in[0]);
        if (v)
            mr_map_put(&w->read, resource_name(v), w);
    }
}

static bool only_looks(const mr_node *n)
{
    static const char *const names[] = {"RefIdentity", "RefSelect", "IsVariableInitialized", NULL};
    return mr_node_is_control_flow(n) || is_one_of(n, names);
}

static mr_status *refresh_all(reader *w)
{
    for (int i = 0; i < w->n_old; i++) {
        mr_node *n = w->g->nodes.p[i];
        if (!n || only_looks(n))
            continue;
        for (int k = 0; k < n->n_in; k++) {
            const mr_node *v = mr_dtype_is_ref(n->in_types[k]) ? variable_of(n->in[k]) : NULL;
            if (!v || !mr_map_get(&w->read, resource_name(v)))
                continue;
            MR_TRY(refresh(w, n, v, false));
            if (w->frames.n > 1)
                MR_TRY(refresh(w, n, v, true));
        }
    }
    return NULL;
}

mr_status *mr_refresh_ref_reads(mr_graph *g)
{
    reader w = {.g = g, .n_old = g->nodes.n};
    mr_node **order = NULL;
    mr_status *st = NULL;
    int n;
    find_reads(&w);
    if (w.read.n == 0)
        goto out;
    MR_GO(mr_frames_find(g, &w.frames));
    MR_GO(mr_graph_topological(g, &order, &n));
    w.place = mr_new_array(int, w.n_old + 1);
    w.handed_on = mr_new_array(bool, w.n_old + 1);
    for (int i = 0; i < n; i++) {
        mr_out from = order[i]->n_in > 0 ? order[i]->in[0] : MR_NO_OUT;
        w.place[order[i]->id] = i;
        w.handed_on[order[i]->id] =
            from.node && hands_on(order[i]) && (mr_dtype_is_ref(mr_out_type(from)) || w.handed_on[from.node->id]);
    }
    MR_GO(refresh_all(&w));
out:
    mr_free(order);
    mr_free(w.place);
    mr_free(w.handed_on);
    mr_vec_deinit(&w.users);
    mr_map_deinit(&w.read);
    mr_vec_deinit(&w.reached);
    mr_vec_deinit(&w.behind);
    mr_frames_deinit(&w.frames);
    return st;
}
