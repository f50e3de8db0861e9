/* passes/place_state.c -- chooses the device of variables in the step that initializes them.
 *
 * State stays on the device where it is first created. An initializer creates it, and its step says nothing about the
 * steps that will use the state. So state that a signature only initializes is placed in view of those steps: all
 * nodes of the graph that work on it, together with feeds or other state, are planned as one step. Its feeds are the
 * placeholders, its fetches the outputs that nobody reads. Nodes that run once or rarely are left out: assignments of
 * values that depend on neither feeds nor state, checks for initialized variables, and writing checkpoints.
 *
 * If the signature uses its state itself, the step of the signature decides, and this file does nothing. */
#include "base/memory.h"
#include "passes/planned_step.h"

typedef struct users {
    mr_placer *p;
    bool *fresh;   /* by root: state that is placed now */
    bool *dynamic; /* by node id: its value depends on feeds or state */
    bool *rare;    /* by node id: it runs once or rarely, or is read only by what does */
    bool *uses;    /* by node id: in a step that uses fresh state */
    mr_node **order;
    int n;
    MR_VEC(mr_out) feeds, fetches;
    MR_VEC(mr_node *) targets;
} users;

static bool is_variable(const mr_node *n)
{
    return mr_node_is(n, "VarHandleOp") || mr_node_is(n, "VariableV2") || mr_node_is(n, "Variable");
}

/* True for an assignment of a value that does not change from step to step, so it runs once. */
static bool is_initializer(const users *u, const mr_node *n)
{
    if (!mr_node_is(n, "Assign") && !mr_node_is(n, "AssignVariableOp"))
        return false;
    for (int i = 1; i < n->n_in; i++)
        if (n->in[i].node && u->dynamic[n->in[i].node->id])
            return false;
    return true;
}

static bool saves_or_checks(const mr_node *n)
{
    return mr_node_is(n, "SaveV2") || mr_node_is(n, "Save") || mr_node_is(n, "SaveSlices") ||
           mr_node_is(n, "IsVariableInitialized") || mr_node_is(n, "VarIsInitializedOp");
}

/* Finds the state of a signature that has no device yet; false if there is none. */
static bool find_fresh(users *u, const bool *needed)
{
    mr_placer *p = u->p;
    bool any = false;
    for (int i = 0; i < p->g->nodes.n; i++) {
        int root = needed[i] ? mr_placer_root(p, i) : -1;
        if (root >= 0 && is_variable(p->g->nodes.p[i]) && !p->groups[root].device &&
            !p->groups[root].error)
            any = u->fresh[root] = true;
    }
    return any;
}

/* True if the node has consumers and all of them are rare, so it is rare too. A variable never is. */
static bool only_rare_readers(const users *u, const mr_node *n)
{
    bool only = n->uses.n > 0 && !is_variable(n);
    for (int i = 0; i < n->uses.n && only; i++)
        only = u->rare[n->uses.p[i].node->id];
    return only;
}

/* Three walks: producers first to find dynamic values, consumers first to find rare nodes, producers first again
 * to find users of fresh state. */
static void follow_uses(users *u)
{
    for (int k = 0; k < u->n; k++) {
        const mr_node *n = u->order[k];
        bool dynamic = is_variable(n) || mr_place_is_fed(n);
        for (int i = 0; i < n->n_in; i++)
            dynamic |= n->in[i].node && u->dynamic[n->in[i].node->id];
        u->rare[n->id] = is_initializer(u, n) || saves_or_checks(n);
        u->dynamic[n->id] = dynamic && !u->rare[n->id];
    }
    for (int k = u->n - 1; k >= 0; k--)
        u->rare[u->order[k]->id] |= only_rare_readers(u, u->order[k]);
    for (int k = 0; k < u->n; k++) {
        const mr_node *n = u->order[k];
        bool uses = is_variable(n) && u->fresh[mr_placer_root(u->p, n->id)];
        for (int i = 0; i < n->n_in; i++)
            uses |= n->in[i].node && u->uses[n->in[i].node->id];
        for (int i = 0; i < n->n_ctrl; i++)
            uses |= u->uses[n->ctrl[i]->id];
        u->uses[n->id] = uses && !u->rare[n->id];
    }
}

/* True if the signature itself works on its state. Variables alone are not work. */
static bool works_on_state(const users *u, const bool *needed)
{
    for (int k = 0; k < u->n; k++)
        if (needed[u->order[k]->id] && u->uses[u->order[k]->id] && !is_variable(u->order[k]))
            return true;
    return false;
}

/* Describes the steps that use the state as one signature: every node that no other user reads is a target, and
 * its values are fetched. */
static void draw_signature(users *u)
{
    MR_ASSERT(u->targets.n == 0 && u->feeds.n == 0);
    for (int k = 0; k < u->n; k++) {
        mr_node *n = u->order[k];
        bool read = false;
        if (mr_place_is_fed(n)) {
            mr_vec_push(&u->feeds, ((mr_out){n, 0}));
            continue;
        }
        if (!u->uses[n->id] || is_variable(n))
            continue;
        for (int i = 0; i < n->uses.n && !read; i++)
            read = u->uses[n->uses.p[i].node->id];
        if (read)
            continue;
        mr_vec_push(&u->targets, n);
        for (int i = 0; i < n->n_out; i++)
            if (n->out_types[i] != MR_RESOURCE && !mr_dtype_is_ref(n->out_types[i]))
                mr_vec_push(&u->fetches, ((mr_out){n, i}));
    }
}

static bool is_fresh(void *arg, int root) { return ((users *)arg)->fresh[root]; }

/* Errors are dropped: if the graph cannot run as a whole, the signature alone decides. plan records devices for
 * fresh state only (is_fresh); all other nodes are placed later, by the steps that need them. */
void mr_place_new_state(mr_placer *p, const mr_run_signature *sig, const bool *needed,
                        mr_plan_step_fn *plan)
{
    users u = {.p = p};
    mr_graph *step_graph = NULL;
    mr_prepare_options quick = *p->o;
    mr_status *st = NULL;
    if (!sig || !needed)
        return;
    u.fresh = mr_new_array(bool, p->g->nodes.n + 1);
    u.dynamic = mr_new_array(bool, p->g->nodes.n + 1);
    u.rare = mr_new_array(bool, p->g->nodes.n + 1);
    u.uses = mr_new_array(bool, p->g->nodes.n + 1);
    quick.no_fold = true; /* initial values are not part of it */
    if (!find_fresh(&u, needed))
        goto out;
    MR_GO(mr_graph_topological(p->g, &u.order, &u.n));
    follow_uses(&u);
    if (!works_on_state(&u, needed))
        draw_signature(&u);
    if (u.targets.n) {
        mr_run_signature all = {.feeds = u.feeds.p,
                            .fetches = u.fetches.p,
                            .targets = u.targets.p,
                            .n_feeds = u.feeds.n,
                            .n_fetches = u.fetches.n,
                            .n_targets = u.targets.n};
        MR_GO(mr_step_graph(p->g, &all, &quick, &step_graph));
        MR_GO(plan(p, step_graph, is_fresh, &u));
    }
out:
    mr_graph_unref(step_graph);
    mr_free(u.order);
    mr_free(u.fresh);
    mr_free(u.dynamic);
    mr_free(u.rare);
    mr_free(u.uses);
    mr_vec_deinit(&u.feeds);
    mr_vec_deinit(&u.fetches);
    mr_vec_deinit(&u.targets);
    mr_status_free(st);
}
