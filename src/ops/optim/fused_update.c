/* ops/optim/fused_update.c -- _FusedUpdate: updates of several variables, one after the other, by the kernels of the nodes
 * that the client made.
 *
 * The members are kept as nodes of a private graph, so that an error names the client's node and has its text. The body
 * comes from an attr, so anything may be in it: init accepts only what the pass could have made (passes/fuse_updates.c). */
#include "base/memory.h"
#include "graph/graph_def.h"
#include "graph/infer.h"
#include "run/fused.h"

typedef struct member {
    const mr_node *node;
    mr_instance *instance;
    int *in; /* inputs of the fused node */
} member;

typedef struct state {
    mr_graph *graph; /* owns the nodes */
    int n_members;
    member *members;
} state;

static mr_status *bad_body(const mr_node *n, const char *what, const char *name)
{
    return mr_invalid("%s '%s': node '%s' of the body %s", n->def->name, n->name, name, what);
}

/* The first nodes of the body stand for the inputs; they are never run. */
static mr_status *check_arguments(const mr_node *n, const mr_graph *body)
{
    if (body->nodes.n < n->n_in)
        return mr_invalid("%s '%s' has %d inputs, but a body of %d nodes", n->def->name, n->name, n->n_in, body->nodes.n);
    for (int i = 0; i < n->n_in; i++) {
        mr_node *a = body->nodes.p[i];
        if (a->n_out != 1 || a->n_in != 0 || a->out_types[0] != n->in_types[i])
            return bad_body(n, "is not one of the inputs", a->name);
    }
    return NULL;
}

static mr_status *init_member(mr_make *make, state *s, const mr_node *n, member *m)
{
    mr_make own = {n, NULL, make->device, s->graph->library};
    m->node = n;
    m->in = mr_arena_array(&s->graph->arena, int, n->n_in + 1);
    if (n->n_out > 1 || n->n_in > MR_FUSED_UPDATE_MAX_INPUTS || n->n_ctrl > 0)
        return bad_body(make->node, "cannot be fused", n->name);
    for (int i = 0; i < n->n_in; i++) {
        m->in[i] = n->in[i].node->id;
        if (m->in[i] >= make->node->n_in || mr_dtype_is_ref(n->in_types[i]) != mr_dtype_is_ref(make->node->in_types[m->in[i]]))
            return bad_body(make->node, "reads what is not an input", n->name);
    }
    MR_TRY(mr_instance_new(&own, &m->instance));
    return m->instance->kernel->update && m->instance->kernel->run ? NULL : bad_body(make->node, "is not an update", n->name);
}

static mr_status *update_init(mr_make *m, void *p)
{
    state *s = p;
    mr_sv body;
    const mr_import_options import = {.internal_ok = true, .no_validate_colocation = true};
    s->graph = mr_graph_new();
    MR_TRY(mr_node_get_str(m->node, "body", &body));
    MR_TRY(mr_graph_import(s->graph, body, &import, NULL));
    MR_TRY(check_arguments(m->node, s->graph));
    int n_in = m->node->n_in;
    s->n_members = s->graph->nodes.n - n_in;
    s->members = mr_arena_array(&s->graph->arena, member, s->n_members + 1);
    for (int i = 0; i < s->n_members; i++)
        MR_TRY(init_member(m, s, s->graph->nodes.p[n_in + i], &s->members[i]));
    return NULL;
}

/* Also after an init that failed. */
static void update_deinit(void *p)
{
    state *s = p;
    for (int i = 0; s->members && i < s->n_members; i++)
        mr_instance_unref(s->members[i].instance);
    mr_graph_unref(s->graph);
}

/* The error of an update whose variables have no values is that of the executor, which reads references before it runs a
 * node, with its text. NULL: all variables have values. */
static mr_status *uninitialized(mr_run *r, const member *m)
{
    for (int i = 0; i < m->node->n_in; i++) {
        const mr_value *v = &r->in[m->in[i]];
        mr_tensor *t = NULL;
        if (v->kind != MR_REF)
            continue;
        MR_TRY(mr_variable_read(v->ref, mr_run_allocator(r), &t));
        if (t) {
            mr_tensor_unref(t);
            continue;
        }
        mr_out src = r->node->in[m->in[i]];
        const char *text = "Attempting to use uninitialized value";
        return src.index == 0 ? mr_error(MR_FAILED_PRECONDITION, "%s %s", text, src.node->name)
                              : mr_error(MR_FAILED_PRECONDITION, "%s %s:%d", text, src.node->name, src.index);
    }
    return NULL;
}

/* Takes st. */
static mr_status *at_member(mr_run *r, const member *m, mr_status *st)
{
    mr_status *before = uninitialized(r, m);
    if (before) {
        mr_status_free(st);
        st = before;
    }
    mr_status_append(st, "\n\t [[{{node %s}}]]", m->node->name);
    return mr_status_set_reason(st, MR_REASON_NODE_NAMED);
}

static mr_status *run_updates(mr_run *r)
{
    const state *s = r->state;
    mr_run own = *r;
    mr_value in[MR_FUSED_UPDATE_MAX_INPUTS], out = {0};
    own.in = in;
    own.out = &out;
    for (int k = 0; k < s->n_members; k++) {
        const member *m = &s->members[k];
        own.node = m->node;
        own.kernel = m->instance->kernel;
        own.state = m->instance->state;
        own.n_in = m->node->n_in;
        own.n_out = m->node->n_out;
        for (int i = 0; i < own.n_in; i++)
            in[i] = r->in[m->in[i]]; /* borrowed: an update keeps none of its inputs */
        mr_status *st = own.kernel->run(&own);
        mr_value_drop(&out);
        if (st)
            return at_member(r, m, st);
    }
    return NULL;
}

MR_OP(_FusedUpdate,
    .doc         = "what the nodes in its body do, which update variables; made by the runtime from an optimizer's small updates",
    .sig         = "vars: Ref(N * T), values: Tvalues ->",
    .attrs       = "N: int >= 0; T: type; Tvalues: list(type) >= 1; body: string",
    .flags       = MR_NO_FOLD | MR_NO_GRADIENT | MR_UNINIT_OK,
    .shape       = mr_shape_none,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_updates)),
    .state_bytes = sizeof(state),
    .init        = update_init,
    .deinit      = update_deinit,
    .examples    = MR_EXAMPLES(
        "N=1 T=float Tvalues=[float] body=\"no graph\": [1], float[1] -> !INVALID_ARGUMENT"));
