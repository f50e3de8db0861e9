/* graph/control_flow.c -- loops and conditionals, as found in the graph itself.
 *
 * Nodes are visited on demand, producers first, ignoring back edges (NextIteration -> Merge), so a query about a part
 * of a large graph costs no more than that part. A node's frame is that of its inputs; Enter opens or joins the child
 * frame of its name. A node's guard is the union of the guards of its inputs, data and control, because one dead input
 * makes it dead; Switch adds a side to each of its outputs, Merge removes the sides that its inputs cover together.
 *
 * Inner frames inherit the guards of outer frames, since nothing inside a loop is live if the loop was never entered;
 * an Exit drops the sides chosen inside the loop it leaves. */
#include "graph/control_flow.h"

/* Limits on nested conditionals and loops: a hostile graph must not cause quadratic time or a stack overflow. */
enum { MAX_SIDES = 128, MAX_DEPTH = 100 };

/* ---- guards ---- */
static int side_order(const mr_side *a, const mr_side *b)
{
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return (a->side > b->side) - (a->side < b->side);
}

static const mr_guard *intern_guard(mr_cflow *f, const mr_side *sides, int n)
{
    if (n > MAX_SIDES)
        return f->too_deep;
    mr_sv key = {n ? (const char *)sides : "", (size_t)n * sizeof(mr_side)};
    mr_guard *g = mr_map_get(&f->guards, key);
    if (g)
        return g;
    g = mr_arena_alloc(&f->arena, sizeof(mr_guard) + key.n);
    g->n = n;
    if (n)
        memcpy(g->sides, sides, key.n);
    mr_map_put(&f->guards, key, g);
    return g;
}

const mr_guard *mr_guard_union(mr_cflow *f, const mr_guard *a, const mr_guard *b)
{
    if (a == b || b->n == 0 || a->n < 0)
        return a;
    if (a->n == 0 || b->n < 0)
        return b;
    mr_side all[2 * MAX_SIDES];
    int n = 0, i = 0, j = 0;
    while (i < a->n || j < b->n) {
        int order = i == a->n ? 1 : j == b->n ? -1 : side_order(&a->sides[i], &b->sides[j]);
        all[n++] = order <= 0 ? a->sides[i] : b->sides[j];
        i += order <= 0;
        j += order >= 0;
    }
    return intern_guard(f, all, n);
}

const mr_guard *mr_guard_add(mr_cflow *f, const mr_guard *g, mr_side s)
{
    return mr_guard_union(f, g, intern_guard(f, &s, 1));
}

static bool has_side(const mr_guard *g, const mr_side *s)
{
    for (int i = 0; i < g->n; i++)
        if (side_order(&g->sides[i], s) == 0)
            return true;
    return false;
}

/* The sides of g that pass a test. */
static const mr_guard *filter_guard(mr_cflow *f, const mr_guard *g,
                                    bool (*test)(const mr_cflow *, const mr_side *, const void *),
                                    const void *ctx)
{
    mr_side kept[MAX_SIDES];
    int n = 0;
    if (g->n <= 0)
        return g;
    for (int i = 0; i < g->n; i++)
        if (test(f, &g->sides[i], ctx))
            kept[n++] = g->sides[i];
    return n == g->n ? g : intern_guard(f, kept, n);
}

static bool in_other_guard(const mr_cflow *f, const mr_side *s, const void *ctx)
{
    (void)f;
    return has_side(ctx, s);
}

static bool is_other_side(const mr_cflow *f, const mr_side *s, const void *ctx)
{
    (void)f;
    return side_order(s, ctx) != 0;
}

const mr_guard *mr_guard_remove(mr_cflow *f, const mr_guard *g, mr_side s)
{
    return filter_guard(f, g, is_other_side, &s);
}

static mr_loop_frame *selector_frame(const mr_cflow *f, const mr_side *s)
{
    mr_out o = {f->graph->nodes.p[s->node], MR_MAX(s->index, 0)};
    return mr_cflow_value_frame(f, o);
}

static bool outside_of(const mr_cflow *f, const mr_side *s, const void *frame)
{
    return selector_frame(f, s) != frame;
}

static bool chosen_within(const mr_cflow *f, const mr_side *s, const void *ctx)
{
    const mr_loop_frame *frame = ctx;
    return selector_frame(f, s) == frame && f->graph->nodes.p[s->node] != frame->cond;
}

const mr_guard *mr_guard_within(mr_cflow *f, const mr_guard *g, const mr_loop_frame *frame)
{
    return filter_guard(f, g, chosen_within, frame);
}

const mr_guard *mr_guard_outside(mr_cflow *f, const mr_guard *g, const mr_loop_frame *frame)
{
    return filter_guard(f, g, outside_of, frame);
}

/* ---- looking things up ---- */
typedef struct place { /* of a node */
    mr_loop_frame *frame;
    const mr_guard *guard;
} place;

/* NULL for nodes that were added later without mr_cflow_set, and for nodes of a cycle. */
static const place *place_of(const mr_cflow *f, const mr_node *n)
{
    const place *p = mr_imap_get(&f->places, (uint64_t)n->id);
    if (p || !f->any || f->visiting || n->id >= f->n_old)
        return p;
    /* The knowledge about nodes is a cache, so filling it does not change f for callers. */
    mr_status_free(mr_cflow_visit((mr_cflow *)(uintptr_t)f, (mr_node *)(uintptr_t)n));
    return mr_imap_get(&f->places, (uint64_t)n->id);
}

mr_loop_frame *mr_cflow_frame(const mr_cflow *f, const mr_node *n)
{
    const place *p = place_of(f, n);
    return p ? p->frame : mr_cflow_root(f);
}

mr_loop_frame *mr_cflow_value_frame(const mr_cflow *f, mr_out o)
{
    mr_loop_frame *frame = mr_cflow_frame(f, o.node);
    return mr_node_is_exit(o.node) && frame->parent ? frame->parent : frame;
}

const mr_guard *mr_cflow_guard(const mr_cflow *f, const mr_node *n)
{
    const place *p = place_of(f, n);
    return p ? p->guard : f->always;
}

mr_out mr_cflow_origin(mr_out o)
{
    while (mr_node_is(o.node, "Identity") && o.node->in[0].node)
        o = o.node->in[0];
    return o;
}

mr_side mr_cflow_switch_side(mr_out o)
{
    mr_out sel = mr_cflow_origin(o.node->in[1]);
    int n = mr_node_is(o.node, "_SwitchN") ? o.node->n_out : 2;
    return (mr_side){sel.node->id, sel.index, o.index, n};
}

const mr_guard *mr_cflow_value_guard(mr_cflow *f, mr_out o)
{
    const mr_guard *g = mr_cflow_guard(f, o.node);
    if (f->any && mr_node_is_switch(o.node) && o.node->in[1].node)
        return mr_guard_add(f, g, mr_cflow_switch_side(o));
    return g;
}

void mr_cflow_set(mr_cflow *f, const mr_node *n, mr_loop_frame *frame, const mr_guard *guard)
{
    place *p = mr_imap_get(&f->places, (uint64_t)n->id);
    if (!p) {
        p = mr_arena_new(&f->arena, place);
        mr_imap_put(&f->places, (uint64_t)n->id, p);
    }
    *p = (place){frame, guard};
}

mr_node *mr_cflow_back_edge(const mr_node *merge)
{
    for (int i = 0; i < merge->n_in; i++)
        if (merge->in[i].node && mr_node_is_next(merge->in[i].node))
            return merge->in[i].node;
    return NULL;
}

bool mr_cflow_is_loop_switch(const mr_cflow *f, const mr_node *n)
{
    if (!f->any || !mr_node_is_switch(n) || !n->in[1].node)
        return false;
    return mr_cflow_origin(n->in[1]).node == mr_cflow_frame(f, n)->cond;
}

/* ---- frames ---- */
static mr_loop_frame *add_frame(mr_cflow *f, mr_loop_frame *parent, const char *name)
{
    mr_loop_frame *frame = mr_arena_new(&f->arena, mr_loop_frame);
    frame->parent = parent;
    frame->id = f->frames.n;
    frame->depth = parent ? parent->depth + 1 : 0;
    frame->name = name;
    frame->parallel_iterations = 10;
    mr_vec_push(&f->frames, frame);
    return frame;
}

static mr_status *enter_frame(mr_cflow *f, mr_node *n, mr_loop_frame *from, mr_loop_frame **out)
{
    mr_sv name;
    MR_TRY(mr_node_get_str(n, "frame_name", &name));
    if (from->depth >= MAX_DEPTH)
        return mr_invalid("Loops are nested more than %d deep at '%s'", MAX_DEPTH, n->name);
    char *key = mr_printf("%d/%.*s", from->id, MR_SV_ARG(name));
    mr_loop_frame *frame = mr_map_getz(&f->by_name, key);
    if (!frame) {
        const mr_attr *p = mr_node_attr(n, "parallel_iterations");
        frame = add_frame(f, from, mr_arena_strndup(&f->arena, name.p, name.n));
        if (p && p->kind == MR_ATTR_INT)
            frame->parallel_iterations = p->i;
        mr_map_putz(&f->by_name, key, frame);
    }
    mr_free(key);
    mr_vec_push(&frame->enters, n);
    *out = frame;
    return NULL;
}

/* The deepest frame of a node's inputs: nodes with inputs from several frames are rejected when the graph runs, not
 * here. */
static mr_loop_frame *inputs_frame(const mr_cflow *f, const mr_node *n)
{
    mr_loop_frame *frame = mr_cflow_root(f);
    for (int i = 0; i < n->n_in; i++) {
        if (!n->in[i].node || (mr_node_is_merge(n) && mr_node_is_next(n->in[i].node)))
            continue;
        mr_loop_frame *in = mr_cflow_value_frame(f, n->in[i]);
        frame = in->depth > frame->depth ? in : frame;
    }
    for (int i = 0; i < n->n_ctrl; i++) {
        mr_loop_frame *in = mr_cflow_value_frame(f, (mr_out){n->ctrl[i], 0});
        frame = in->depth > frame->depth ? in : frame;
    }
    return frame;
}

/* ---- the pass ---- */
static const mr_guard *inputs_guard(mr_cflow *f, const mr_node *n)
{
    const mr_guard *g = f->always;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node)
            g = mr_guard_union(f, g, mr_cflow_value_guard(f, n->in[i]));
    for (int i = 0; i < n->n_ctrl; i++)
        g = mr_guard_union(f, g, mr_cflow_guard(f, n->ctrl[i]));
    return g;
}

/* The sides that the guards of all inputs of a Merge have in common. */
static const mr_guard *common_guard(mr_cflow *f, const mr_node *merge)
{
    const mr_guard *g = NULL;
    for (int i = 0; i < merge->n_in; i++) {
        if (!merge->in[i].node)
            continue;
        const mr_guard *in = mr_cflow_value_guard(f, merge->in[i]);
        g = !g ? in : in->n < 0 ? in : g->n < 0 ? g : filter_guard(f, g, in_other_guard, in);
    }
    return g ? g : f->always;
}

/* The side of a selector that a guard names; -1 if it names none. */
static int side_of(const mr_guard *g, const mr_side *sel)
{
    for (int i = 0; i < g->n; i++)
        if (g->sides[i].node == sel->node && g->sides[i].index == sel->index)
            return g->sides[i].side;
    return -1;
}

/* Whether each input is on a different side of this selector, and there are no further sides. */
static bool covers_sides(mr_cflow *f, const mr_node *merge, const mr_side *sel, int *sides)
{
    bool seen[MAX_SIDES] = {0};
    if (sel->index < 0 || merge->n_in != sel->n_sides || merge->n_in > MAX_SIDES)
        return false;
    for (int i = 0; i < merge->n_in; i++) {
        int side = merge->in[i].node ? side_of(mr_cflow_value_guard(f, merge->in[i]), sel) : -1;
        if (side < 0 || side >= sel->n_sides || seen[side])
            return false;
        seen[side] = true;
        if (sides)
            sides[i] = side;
    }
    return true;
}

bool mr_cflow_merge_selector(mr_cflow *f, const mr_node *merge, mr_out *sel, int *sides)
{
    if (merge->n_in < 2 || !merge->in[0].node)
        return false;
    const mr_guard *common = common_guard(f, merge), *g = mr_cflow_value_guard(f, merge->in[0]);
    for (int i = 0; i < g->n; i++) {
        if (has_side(common, &g->sides[i]) || !covers_sides(f, merge, &g->sides[i], sides))
            continue;
        *sel = (mr_out){f->graph->nodes.p[g->sides[i].node], g->sides[i].index};
        return true;
    }
    return false;
}

/* Whether the inputs together cover every side that only some of them need. */
static bool joins_all(mr_cflow *f, const mr_node *merge, const mr_guard *common)
{
    for (int i = 0; i < merge->n_in; i++) {
        if (!merge->in[i].node)
            return false;
        const mr_guard *g = mr_cflow_value_guard(f, merge->in[i]);
        for (int j = 0; j < g->n; j++)
            if (!has_side(common, &g->sides[j]) && !covers_sides(f, merge, &g->sides[j], NULL))
                return false;
    }
    return true;
}

static const mr_guard *merge_guard(mr_cflow *f, mr_node *n)
{
    if (mr_cflow_back_edge(n)) { /* live in every iteration that starts */
        for (int i = 0; i < n->n_in; i++)
            if (n->in[i].node && !mr_node_is_next(n->in[i].node))
                return mr_cflow_value_guard(f, n->in[i]);
        return f->always;
    }
    const mr_guard *common = common_guard(f, n);
    if (common->n < 0 || joins_all(f, n, common))
        return common;
    return mr_guard_add(f, common, (mr_side){n->id, -1, 0, 1});
}

static void add_loop_var(mr_loop_frame *frame, mr_node *merge, mr_node *next)
{
    mr_loop_var v = {.merge = merge, .next = next};
    for (int i = 0; i < merge->n_in; i++)
        if (merge->in[i].node && mr_node_is_enter(merge->in[i].node))
            v.enter = merge->in[i].node;
    mr_vec_push(&frame->vars, v);
}

static mr_status *visit_node(mr_cflow *f, mr_node *n)
{
    mr_loop_frame *frame = inputs_frame(f, n);
    const mr_guard *guard;
    if (mr_node_is_enter(n))
        MR_TRY(enter_frame(f, n, frame, &frame));
    mr_cflow_set(f, n, frame, f->always); /* needed by mr_cflow_value_frame below */
    if (mr_node_is(n, "LoopCond"))
        frame->cond = n;
    if (mr_node_is_merge(n)) {
        guard = merge_guard(f, n);
        if (mr_cflow_back_edge(n))
            add_loop_var(frame, n, mr_cflow_back_edge(n));
    } else {
        guard = mr_node_is(n, "ControlTrigger") ? f->always : inputs_guard(f, n);
    }
    if (mr_node_is_exit(n)) {
        mr_vec_push(&frame->exits, n);
        guard = mr_guard_outside(f, guard, frame);
    }
    mr_cflow_set(f, n, frame, guard);
    return NULL;
}

typedef struct step { /* a node whose inputs are being visited */
    mr_node *node;
    int next; /* data inputs, then control inputs */
} step;

/* The next input that must be visited before the node; the NextIteration of a Merge is left for later. */
static mr_node *next_input(step *s, bool *later)
{
    mr_node *n = s->node;
    *later = false;
    while (s->next < n->n_in + n->n_ctrl) {
        int i = s->next++;
        mr_node *in = i < n->n_in ? n->in[i].node : n->ctrl[i - n->n_in];
        if (!in)
            continue;
        *later = i < n->n_in && mr_node_is_merge(n) && mr_node_is_next(in);
        return in;
    }
    return NULL;
}

/* Depth first, with an explicit stack.  A node that was begun but is not finished is in `begun` and not in places. */
static mr_status *visit_from(mr_cflow *f, mr_node *root)
{
    mr_status *st = NULL;
    MR_VEC(step) stack = {0};
    MR_VEC(mr_node *) roots = {0};
    mr_imap begun = {0};
    mr_vec_push(&roots, root);
    while (roots.n > 0) {
        mr_node *from = mr_vec_pop(&roots);
        if (mr_imap_get(&f->places, (uint64_t)from->id))
            continue;
        mr_vec_push(&stack, ((step){from, 0}));
        mr_imap_put(&begun, (uint64_t)from->id, from);
        while (stack.n > 0) {
            bool later;
            mr_node *in = next_input(&mr_vec_last(&stack), &later);
            if (!in) {
                MR_GO(visit_node(f, mr_vec_pop(&stack).node));
            } else if (later) {
                mr_vec_push(&roots, in);
            } else if (!mr_imap_get(&f->places, (uint64_t)in->id)) {
                if (mr_imap_get(&begun, (uint64_t)in->id))
                    MR_GO(mr_invalid("Graph is invalid, contains a cycle through '%s'", in->name));
                mr_imap_put(&begun, (uint64_t)in->id, in);
                mr_vec_push(&stack, ((step){in, 0}));
            }
        }
    }
out:
    mr_vec_deinit(&stack);
    mr_vec_deinit(&roots);
    mr_imap_deinit(&begun);
    return st;
}

mr_status *mr_cflow_visit(mr_cflow *f, mr_node *n)
{
    if (!f->any || f->visiting || f->st)
        return mr_status_copy(f->st);
    f->visiting = true;
    f->st = visit_from(f, n);
    f->visiting = false;
    return mr_status_copy(f->st);
}

void mr_cflow_init(mr_cflow *f, mr_graph *g)
{
    *f = (mr_cflow){.graph = g, .n_old = g->nodes.n, .any = g->n_control_flow > 0};
    mr_arena_init(&f->arena, 0);
    mr_guard *deep = mr_arena_new(&f->arena, mr_guard);
    deep->n = -1;
    f->too_deep = deep;
    f->always = intern_guard(f, NULL, 0);
    add_frame(f, NULL, "");
}

void mr_cflow_deinit(mr_cflow *f)
{
    for (int i = 0; i < f->frames.n; i++) {
        mr_vec_deinit(&f->frames.p[i]->enters);
        mr_vec_deinit(&f->frames.p[i]->exits);
        mr_vec_deinit(&f->frames.p[i]->vars);
    }
    mr_vec_deinit(&f->frames);
    mr_imap_deinit(&f->places);
    mr_status_free(f->st);
    mr_map_deinit(&f->by_name);
    mr_map_deinit(&f->guards);
    mr_arena_deinit(&f->arena);
}
