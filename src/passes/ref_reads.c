/* passes/ref_reads.c -- a node that uses a ref variable's value after an update sees the new value.
 *
 * In TensorFlow an Identity of a VariableV2 shares the variable's memory, and updates write into that memory. So a node
 * that runs after an update sees its effect, even if it takes the value from an Identity that ran before the update:
 *
 *     read = Identity(v);  add = AssignAdd(v, 1);  tokens = Fill([n], read) after add        -> the new value
 *
 * Graphs of TensorFlow's own front end, which has one Identity for each variable, rely on this. In Millrace a value
 * that was read never changes (run/variable.h), which keeps torn values, data races and aliases out of kernels. This
 * pass gives such a node the value that it would see in TensorFlow: if edges of the graph order an update of the
 * variable before a node, but not before the read that the node takes its value from, the node gets a separate read,
 * which waits for everything that the node waits for. If the graph does not order the two, TensorFlow gives either
 * value, and this pass gives that of the first read.
 *
 * Values are followed through nodes that hand on the memory of their input: Identity and similar ops, checks, changes
 * of shape, a Switch, and an Enter of a loop's constant. A node on a device with other memory keeps the value that was
 * sent to it: TensorFlow copies the value in this case too.
 *
 * The updates that come before each node are found for up to 64 updates at a time, one bit each, in one pass over the
 * nodes that come after any update. With thousands of variables that are all updated before thousands of moving averages,
 * a search per variable would be too slow. Most steps have no node that both comes after some update and uses the value
 * of an updated variable; updates of variables that no such node uses are left out (keep_needed_updates).
 *
 * Invariant: `before` covers every node that this pass has added, because add_node and read_again extend it. */
#include "base/memory.h"
#include "passes/passes.h"

enum { MAX_CHAIN = 64, BATCH = 64 };

/* The way of a value from its variable to a node: nodes[0] reads it through the reference `ref`, and the node reads the
 * last of them. */
typedef struct chain {
    mr_node *nodes[MAX_CHAIN];
    int n;
    mr_out ref;
} chain;

typedef struct update {
    const mr_node *node, *variable;
} update;

typedef struct reader {
    mr_graph *g;
    mr_frames frames;
    int n_old;                         /* nodes that the graph had before this pass */
    bool *handed_on;                   /* by id of those: its outputs are some variable's value, as of find_chain */
    MR_VEC(mr_node *) order, grown;    /* updates and nodes after them, producers first; with what a batch adds */
    mr_map numbers;                    /* name of a variable whose value some node hands on -> 1 + its number */
    MR_VEC(update) updates;            /* of these variables */
    const update *batch;               /* the updates that are looked at now: bit i of a mask is batch[i] */
    MR_VEC(uint64_t) before;           /* by id: the updates of the batch that are before it, or are it */
    MR_VEC(uint64_t) of_number;        /* by number of a name: the updates of the batch of variables of that name */
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
    static const char *const names[] = {"Identity",      "StopGradient", "PreventGradient", "PlaceholderWithDefault",
                                        "CheckNumerics", "EnsureShape",  "Print",           "Switch",
                                        NULL};
    if (n->n_in < 1 || mr_dtype_is_ref(n->in_types[0]))
        return false;
    if (mr_node_is(n, "Enter")) {
        const mr_attr *a = mr_node_attr(n, "is_constant");
        return a && a->kind == MR_ATTR_BOOL && a->b;
    }
    return is_one_of(n, names) || changes_shape(n);
}

/* The node that made the variable of a reference; NULL if the reference may lead to one of several. */
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

/* The name under which the kernel finds the variable. */
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

/* Two nodes may refer to one variable, by its name and container. A TemporaryVariable is never shared. */
static bool same_variable(const mr_node *a, const mr_node *b)
{
    return a && b &&
           (a == b || (mr_sv_eq(resource_name(a), resource_name(b)) && mr_sv_eq(container_name(a), container_name(b)) &&
                       !mr_node_is(a, "TemporaryVariable") && !mr_node_is(b, "TemporaryVariable")));
}

/* Follows a value back to the read of its variable. Returns false if the value does not come from one, or only
 * through too many nodes. */
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
    MR_ASSERT(n > 0 && n <= MAX_CHAIN);
    out->ref = out->nodes[0]->in[0];
    return true;
}

/* ---- which nodes run after an update ---- */

/* The updates of the batch that run before n; 0 for nodes that are newer than the table. */
static uint64_t updates_before(const reader *w, const mr_node *n)
{
    return n->id < w->before.n ? w->before.p[n->id] : 0;
}

/* Adds the updates before the inputs of a node to those before the node; true if that changed anything. around:
 * follow also the edge from one iteration of a loop to the next. */
static bool follow_inputs(reader *w, const mr_node *n, bool around)
{
    uint64_t bits = updates_before(w, n), old = bits;
    bool forward_only = !around && w->frames.n > 1 && mr_node_is_merge(n);
    for (int i = 0; i < n->n_in; i++) {
        const mr_node *from = n->in[i].node;
        if (from && !(forward_only && mr_node_is_next(from)))
            bits |= updates_before(w, from);
    }
    for (int i = 0; i < n->n_ctrl; i++)
        bits |= updates_before(w, n->ctrl[i]);
    while (w->before.n <= n->id)
        mr_vec_push(&w->before, 0);
    w->before.p[n->id] = bits;
    return bits != old;
}

/* Finds the updates of the batch (n of them) before each node. With `around` those of earlier iterations count too,
 * which takes a few rounds. */
static void follow_updates(reader *w, int n, bool around)
{
    MR_ASSERT(n > 0 && n <= BATCH);
    w->before.n = 0;
    for (int i = 0; i < w->g->nodes.n; i++)
        mr_vec_push(&w->before, 0);
    for (int i = 0; i < n; i++)
        w->before.p[w->batch[i].node->id] |= UINT64_C(1) << i;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < w->order.n; i++)
            again |= follow_inputs(w, w->order.p[i], around);
        again &= around;
    }
}

/* True if input i is the value of some variable. Only for nodes of this pass, which are few, is the node itself
 * examined. */
static bool uses_value(const reader *w, const mr_node *n, int i)
{
    const mr_node *from = n->in[i].node;
    return from && !mr_dtype_is_ref(n->in_types[i]) && (from->id < w->n_old ? w->handed_on[from->id] : hands_on(from));
}

/* A node that this pass added is in a loop if it reads an Enter. */
static bool in_loop(const reader *w, const mr_node *n)
{
    return n->id < w->n_old ? w->frames.of_node[n->id] > 0 : n->n_in > 0 && mr_node_is_enter(n->in[0].node);
}

/* ---- another read ---- */

/* Adds a node like another one, but of its inputs' types, on the device of `beside`. In a planned step it belongs to
 * the same group too (mark). */
static mr_status *add_node(reader *w, const char *op, const mr_node *like, const mr_out *in, int n_in,
                           const mr_node *beside, mr_node **out)
{
    char *name = mr_printf("%s/again", like->name);
    mr_node_builder *b = mr_node_begin(w->g, op, mr_graph_unique_name(w->g, name));
    mr_free(name);
    mr_nb_internal(b);
    mr_nb_device(b, beside->device);
    if (strcmp(op, "Identity") != 0)
        for (int i = 0; i < like->n_attrs; i++)
            if (like->attrs[i].name[0] != '_' && like->attrs[i].v.kind != MR_ATTR_TYPE)
                mr_nb_attr(b, like->attrs[i].name, like->attrs[i].v);
    for (int i = 0; i < n_in; i++)
        mr_nb_input(b, in[i]);
    MR_TRY(mr_node_finish(b, out));
    (*out)->placed = beside->placed;
    (*out)->mark = beside->mark;
    follow_inputs(w, *out, false);
    return NULL;
}

/* Makes n, which is for user, run after that value was made, and be dead if the value is. A Switch as such is never
 * dead, so n waits for an Identity of the output. */
static mr_status *add_wait(reader *w, mr_node *n, mr_out value, const mr_node *user)
{
    mr_node *pivot = value.node;
    if (mr_node_is_switch(value.node))
        MR_TRY(add_node(w, "Identity", value.node, &value, 1, user, &pivot));
    mr_node_add_control(n, pivot);
    return NULL;
}

static bool same_device(const mr_node *a, const mr_node *b)
{
    return a->placed == b->placed || (a->placed && b->placed && strcmp(a->placed, b->placed) == 0);
}

static bool on_cpu(const mr_node *n) { return !n->placed || strstr(n->placed, "/device:CPU:"); }

/* True if one node sees what the other writes: TensorFlow sends a tensor between CPUs of a task without a copy. */
static bool share_memory(const mr_node *a, const mr_node *b)
{
    if (same_device(a, b))
        return true;
    const char *at = a->placed ? strstr(a->placed, "/device:CPU:") : NULL;
    return at && b->placed && on_cpu(b) && strncmp(a->placed, b->placed, (size_t)(at - a->placed)) == 0 &&
           strstr(b->placed, "/device:CPU:") == b->placed + (at - a->placed);
}

/* True if the user has the variable's memory at the end of the chain. In a loop the reference must be able to
 * follow, which only the CPU's RefEnter does. */
static bool sees_memory(const mr_node *user, const chain *c)
{
    for (int k = 1; k < c->n; k++)
        if (!share_memory(c->nodes[k], c->nodes[0]))
            return false;
    for (int k = 0; k < c->n; k++)
        if (mr_node_is_enter(c->nodes[k]) && !on_cpu(c->nodes[k]))
            return false;
    return share_memory(user, c->nodes[0]);
}

/* Brings the second input of c->nodes[k] (the shape of a Reshape) into the loops that the chain enters after that
 * node. */
static mr_status *bring_argument(reader *w, const chain *c, int k, mr_out *argument)
{
    *argument = c->nodes[k]->in[1];
    for (k++; k < c->n; k++)
        if (mr_node_is_enter(c->nodes[k])) {
            mr_node *enter;
            MR_TRY(add_node(w, "Enter", c->nodes[k], argument, 1, c->nodes[k], &enter));
            *argument = (mr_out){enter, 0};
        }
    return NULL;
}

/* Repeats the changes of shape in a chain on a value that was read at the chain's end. */
static mr_status *change_shape_again(reader *w, const chain *c, mr_out *value)
{
    for (int k = 0; k < c->n; k++) {
        if (!changes_shape(c->nodes[k]))
            continue;
        mr_node *again;
        mr_out in[2] = {*value, MR_NO_OUT};
        int n_in = MR_MIN(c->nodes[k]->n_in, 2);
        if (n_in == 2)
            MR_TRY(bring_argument(w, c, k, &in[1]));
        MR_TRY(add_node(w, c->nodes[k]->def->name, c->nodes[k], in, n_in, c->nodes[k], &again));
        *value = (mr_out){again, 0};
    }
    return NULL;
}

/* Makes input i of user, which c leads to, a new read after everything that user waits for on its device, and
 * after the updates (a mask). The read, and every node that holds the reference, is on the variable's device. */
static mr_status *read_again(reader *w, mr_node *user, int i, const chain *c, uint64_t updates)
{
    mr_out value = c->ref, old = user->in[i];
    MR_ASSERT(i >= 0 && i < user->n_in && updates);
    mr_node *fresh;
    for (int k = 0; k < c->n; k++)
        if (mr_node_is_enter(c->nodes[k])) {
            mr_node *enter;
            MR_TRY(add_node(w, "RefEnter", c->nodes[k], &value, 1, c->nodes[0], &enter));
            value = (mr_out){enter, 0};
        }
    MR_TRY(add_node(w, "Identity", c->nodes[0], &value, 1, c->nodes[0], &fresh));
    /* The new read waits for the old value too, and for everything that orders the user after the updates. */
    MR_TRY(add_wait(w, fresh, old, user));
    for (int k = 0; k < user->n_in; k++)
        if (k != i && user->in[k].node &&
            (same_device(user->in[k].node, user) || (updates_before(w, user->in[k].node) & updates)))
            MR_TRY(add_wait(w, fresh, user->in[k], user));
    for (int k = 0; k < user->n_ctrl; k++)
        if (same_device(user->ctrl[k], user) || (updates_before(w, user->ctrl[k]) & updates))
            mr_node_add_control(fresh, user->ctrl[k]);
    follow_inputs(w, fresh, false);
    value = (mr_out){fresh, 0};
    MR_TRY(change_shape_again(w, c, &value));
    return mr_node_set_input(user, i, value);
}

/* The updates of the variable at the start of c that run before user, but not before the read that user takes its
 * value from. */
static uint64_t missed_updates(const reader *w, const mr_node *user, const chain *c)
{
    const mr_node *v = variable_of(c->ref);
    uint64_t missed = updates_before(w, user) & ~updates_before(w, c->nodes[0]);
    int number = missed && v ? (int)(intptr_t)mr_map_get(&w->numbers, resource_name(v)) : 0;
    if (number == 0)
        return 0;
    missed &= w->of_number.p[number - 1];
    for (uint64_t rest = missed; rest; rest &= rest - 1) {
        const update *u = &w->batch[__builtin_ctzll(rest)];
        if (u->node == user || !same_variable(u->variable, v))
            missed &= ~(rest & -rest);
    }
    return missed;
}

/* Gives a node that runs after updates of the batch values that are read after them. */
static mr_status *refresh_user(reader *w, mr_node *user, bool around)
{
    for (int i = 0; i < user->n_in; i++) {
        chain c;
        uint64_t missed = uses_value(w, user, i) && find_chain(user->in[i], &c) ? missed_updates(w, user, &c) : 0;
        if (missed && sees_memory(user, &c) && !(around && in_loop(w, c.nodes[0])))
            MR_TRY(read_again(w, user, i, &c, missed));
    }
    return NULL;
}

/* Handles the n updates from w->batch on; around: see follow_updates. Nodes that this pass has added are not
 * users: they already read after the updates. New nodes are inserted into the order before their user. */
static mr_status *refresh_batch(reader *w, int n, bool around)
{
    int n_before = w->g->nodes.n;
    follow_updates(w, n, around);
    w->grown.n = 0;
    for (int k = 0; k < w->order.n; k++) {
        mr_node *user = w->order.p[k];
        int first_new = w->g->nodes.n;
        if (updates_before(w, user) && user->id < w->n_old && !mr_node_is_merge(user))
            MR_TRY(refresh_user(w, user, around));
        for (int i = first_new; i < w->g->nodes.n; i++)
            mr_vec_push(&w->grown, w->g->nodes.p[i]);
        mr_vec_push(&w->grown, user);
    }
    if (w->g->nodes.n > n_before) {
        __typeof__(w->order) old = w->order;
        w->order = w->grown;
        w->grown = old;
    }
    return NULL;
}

/* ---- the updates ---- */

/* Numbers the variables whose values some node hands on; only their updates matter. */
static void find_reads(reader *w)
{
    for (int i = 0; i < w->n_old; i++) {
        const mr_node *n = w->g->nodes.p[i];
        if (!n || !hands_on(n) || !n->in[0].node || !mr_dtype_is_ref(mr_out_type(n->in[0])))
            continue;
        const mr_node *v = variable_of(n->in[0]);
        if (v && !mr_map_get(&w->numbers, resource_name(v)))
            mr_map_put(&w->numbers, resource_name(v), (void *)(intptr_t)(w->numbers.n + 1));
    }
}

/* True for ops that take a reference without changing the variable. */
static bool only_looks(const mr_node *n)
{
    static const char *const names[] = {"RefIdentity", "RefSelect", "IsVariableInitialized", NULL};
    return mr_node_is_control_flow(n) || is_one_of(n, names);
}

/* Lists every node that takes a reference to a numbered variable and may write it. */
static void find_updates(reader *w)
{
    for (int i = 0; i < w->n_old; i++) {
        const mr_node *n = w->g->nodes.p[i];
        if (!n || only_looks(n))
            continue;
        for (int k = 0; k < n->n_in; k++) {
            const mr_node *v = mr_dtype_is_ref(n->in_types[k]) ? variable_of(n->in[k]) : NULL;
            if (v && mr_map_get(&w->numbers, resource_name(v)))
                mr_vec_push(&w->updates, ((update){n, v}));
        }
    }
}

/* Fills in handed_on. Producers come first, so the entry of an input is known when a node is visited. */
static void find_values(reader *w, mr_node *const *order, int n)
{
    w->handed_on = mr_new_array(bool, w->n_old + 1);
    for (int i = 0; i < n; i++) {
        mr_out from = order[i]->n_in > 0 ? order[i]->in[0] : MR_NO_OUT;
        w->handed_on[order[i]->id] =
            from.node && hands_on(order[i]) && (mr_dtype_is_ref(mr_out_type(from)) || w->handed_on[from.node->id]);
    }
}

static bool follows_any(const bool *after, const mr_node *n)
{
    bool any = after[n->id];
    for (int i = 0; i < n->n_in && !any; i++)
        any = n->in[i].node && after[n->in[i].node->id];
    for (int i = 0; i < n->n_ctrl && !any; i++)
        any = after[n->ctrl[i]->id];
    return any;
}

/* Fills in the order: the updates and the nodes after them, in this iteration of a loop or in a later one. */
static void find_followers(reader *w, mr_node *const *order, int n)
{
    bool *after = mr_new_array(bool, w->n_old + 1);
    for (int i = 0; i < w->updates.n; i++)
        after[w->updates.p[i].node->id] = true;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < n; i++)
            if (!after[order[i]->id] && follows_any(after, order[i]))
                again = after[order[i]->id] = true;
        again &= w->frames.n > 1;
    }
    for (int i = 0; i < n; i++)
        if (after[order[i]->id])
            mr_vec_push(&w->order, order[i]);
    mr_free(after);
}

static intptr_t number_of(const reader *w, const mr_node *variable)
{
    return (intptr_t)mr_map_get(&w->numbers, resource_name(variable));
}

/* Drops the updates of variables whose value no node of the order uses. */
static void keep_needed_updates(reader *w)
{
    bool *needed = mr_new_array(bool, (int)w->numbers.n + 1);
    for (int k = 0; k < w->order.n; k++)
        for (int i = 0; i < w->order.p[k]->n_in; i++) {
            chain c;
            const mr_node *v = uses_value(w, w->order.p[k], i) && find_chain(w->order.p[k]->in[i], &c)
                                   ? variable_of(c.ref)
                                   : NULL;
            if (v)
                needed[number_of(w, v)] = true;
        }
    int kept = 0;
    for (int i = 0; i < w->updates.n; i++)
        if (needed[number_of(w, w->updates.p[i].variable)])
            w->updates.p[kept++] = w->updates.p[i];
    w->updates.n = kept;
    mr_free(needed);
}

/* Finds what the batches need to know about the graph. */
static mr_status *survey(reader *w)
{
    mr_node **order;
    int n;
    MR_TRY(mr_graph_topological(w->g, &order, &n));
    find_values(w, order, n);
    find_followers(w, order, n);
    keep_needed_updates(w);
    mr_free(order);
    return NULL;
}

/* Each batch is done twice if the graph has loops: first within iterations, then around them. */
static mr_status *refresh_all(reader *w)
{
    for (uint32_t i = 0; i < w->numbers.n; i++)
        mr_vec_push(&w->of_number, 0);
    for (int first = 0; first < w->updates.n; first += BATCH) {
        int n = MR_MIN(w->updates.n - first, BATCH);
        w->batch = w->updates.p + first;
        for (int i = 0; i < w->of_number.n; i++)
            w->of_number.p[i] = 0;
        for (int i = 0; i < n; i++) {
            w->of_number.p[number_of(w, w->batch[i].variable) - 1] |= UINT64_C(1) << i;
        }
        MR_TRY(refresh_batch(w, n, false));
        if (w->frames.n > 1)
            MR_TRY(refresh_batch(w, n, true));
    }
    return NULL;
}

/* Costs one walk over the nodes if the graph has no ref variable that is both read and updated. */
mr_status *mr_refresh_ref_reads(mr_graph *g)
{
    reader w = {.g = g, .n_old = g->nodes.n};
    mr_status *st = NULL;
    find_reads(&w);
    if (w.numbers.n > 0)
        find_updates(&w);
    if (w.updates.n == 0)
        goto out;
    MR_GO(mr_frames_find(g, &w.frames));
    MR_GO(survey(&w));
    MR_GO(refresh_all(&w));
out:
    mr_free(w.handed_on);
    mr_map_deinit(&w.numbers);
    mr_vec_deinit(&w.order);
    mr_vec_deinit(&w.grown);
    mr_vec_deinit(&w.updates);
    mr_vec_deinit(&w.before);
    mr_vec_deinit(&w.of_number);
    mr_frames_deinit(&w.frames);
    return st;
}
