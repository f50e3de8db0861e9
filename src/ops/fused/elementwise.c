/* ops/fused/elementwise.c -- _FusedElementwise: several nodes that treat each element alike, run as one.
 *
 * The members are kept as nodes of a private graph, with their kernels, so that an error names the client's node and has
 * its text. The first run with inputs of some shapes makes a schedule (ops/fused/program.c), which later runs with these
 * shapes use again.
 *
 * The body comes from an attr, so anything may be in it: init accepts only what the pass could have made. */
#include <string.h>

#include "base/memory.h"
#include "graph/graph_def.h"
#include "graph/infer.h"
#include "ops/fused/program.h"
#include "ops/nn/layout.h"

enum { MAX_SCHEDULES = 8 }; /* kept; further shapes are scheduled for each run */

/* ---- the members ---- */

static mr_status *bad_body(const mr_node *n, const char *what, const char *name)
{
    return mr_invalid("%s '%s': node '%s' of the body %s", n->def->name, n->name, name, what);
}

/* Counts arguments and members and gives each node its value: tag is 1 + the number. */
static mr_status *number_values(mr_fused *f, const mr_node *n)
{
    bool seen[MR_FUSED_MAX_INPUTS] = {false};
    f->n_leaves = n->n_in;
    if (n->n_in > MR_FUSED_MAX_INPUTS || f->graph->nodes.n > MR_FUSED_MAX_VALUES)
        return mr_invalid("%s '%s' has %d inputs and a body of %d nodes, at most %d and %d are possible", n->def->name, n->name,
                          n->n_in, f->graph->nodes.n, MR_FUSED_MAX_INPUTS, MR_FUSED_MAX_VALUES);
    for (int i = 0; i < f->graph->nodes.n; i++) {
        mr_node *m = f->graph->nodes.p[i];
        int64_t index = -1;
        if (!mr_node_is(m, "_Arg")) {
            if (f->n_members == MR_FUSED_MAX_MEMBERS)
                return bad_body(n, "is one too many", m->name);
            m->tag = (void *)(intptr_t)(1 + f->n_leaves + f->n_members++);
            continue;
        }
        MR_TRY(mr_node_get_int(m, "index", &index));
        if (index < 0 || index >= n->n_in || seen[index] || m->out_types[0] != n->in_types[index])
            return bad_body(n, "is not one of the inputs", m->name);
        seen[index] = true;
        m->tag = (void *)(intptr_t)(1 + index);
    }
    f->n_values = f->n_leaves + f->n_members;
    return NULL;
}

static int value_of(const mr_node *m) { return (int)(intptr_t)m->tag - 1; }

static const mr_each *each_of(const mr_fused_member *m)
{
    switch (m->form) {
    case MR_FORM_SELECT:
    case MR_FORM_SELECT_V2: return mr_select_each((mr_dtype)m->node->out_types[0]);
    case MR_FORM_CAST:
    case MR_FORM_PASS: return NULL;
    default: return m->instance->kernel->user;
    }
}

/* A sum of one and a conversion between equal types pass their input on, as their kernels do. */
static mr_each_form effective_form(const mr_node *n, mr_each_form form)
{
    bool same = form == MR_FORM_CAST && n->in_types[0] == n->out_types[0];
    return same || (form == MR_FORM_SUM && n->n_in == 1) ? MR_FORM_PASS : form;
}

/* Fills in a member, whose inputs must come before it. */
static mr_status *init_member(mr_make *make, mr_fused *f, mr_node *n, mr_fused_member *m)
{
    mr_make own = {n, NULL, make->device, f->graph->library};
    int self = value_of(n);
    mr_layout layout = MR_CHANNELS_LAST;
    *m = (mr_fused_member){.node = n, .form = effective_form(n, mr_fused_form(n)), .n_in = n->n_in};
    if (m->form == MR_FORM_NONE || n->n_ctrl > 0)
        return bad_body(make->node, "cannot be fused", n->name);
    m->in = mr_arena_array(&f->graph->arena, uint8_t, n->n_in);
    for (int i = 0; i < n->n_in; i++) {
        int v = value_of(n->in[i].node);
        if (v >= self)
            return bad_body(make->node, "comes before its input", n->name);
        m->in[i] = (uint8_t)v;
    }
    MR_TRY(mr_instance_new(&own, &m->instance));
    m->each = each_of(m);
    if (m->form == MR_FORM_BIAS)
        MR_TRY(mr_layout_get(n, &layout));
    if (m->form == MR_FORM_CAST)
        MR_TRY(mr_node_get_bool(n, "Truncate", &m->truncate));
    m->channels_first = layout == MR_CHANNELS_FIRST;
    f->types[self] = (mr_dtype)n->out_types[0];
    f->root[self] = m->form == MR_FORM_PASS ? f->root[m->in[0]] : (uint8_t)self;
    return NULL;
}

static mr_status *init_outputs(mr_fused *f, const mr_node *n)
{
    const mr_attr *outputs;
    MR_TRY(mr_node_get_list(n, "outputs", MR_ATTR_INT, &outputs));
    if (outputs->n != n->n_out)
        return mr_invalid("%s '%s' has %d outputs, but the attr names %d", n->def->name, n->name, n->n_out, outputs->n);
    f->n_out = n->n_out;
    f->out = mr_arena_array(&f->graph->arena, uint8_t, f->n_out + 1);
    for (int v = 0; v < f->n_values; v++)
        f->output_of[v] = -1;
    for (int k = 0; k < f->n_out; k++) {
        int64_t member = outputs->is[k];
        if (member < 0 || member >= f->n_members || f->types[f->n_leaves + member] != (mr_dtype)n->out_types[k])
            return mr_invalid("%s '%s': output %d is not member %lld", n->def->name, n->name, k, (long long)member);
        f->out[k] = f->root[f->n_leaves + member];
        if (f->output_of[f->out[k]] < 0)
            f->output_of[f->out[k]] = k;
    }
    return NULL;
}

static mr_status *fused_init(mr_make *m, void *state)
{
    mr_fused *f = state;
    mr_sv body;
    const mr_import_options import = {.internal_ok = true, .no_validate_colocation = true};
    mr_mutex_init(&f->mu);
    f->graph = mr_graph_new();
    MR_TRY(mr_node_get_str(m->node, "body", &body));
    MR_TRY(mr_graph_import(f->graph, body, &import, NULL));
    MR_TRY(number_values(f, m->node));
    mr_arena *a = &f->graph->arena;
    f->members = mr_arena_array(a, mr_fused_member, f->n_members + 1);
    f->types = mr_arena_array(a, mr_dtype, f->n_values + 1);
    f->root = mr_arena_array(a, uint8_t, f->n_values + 1);
    f->output_of = mr_arena_array(a, int, f->n_values + 1);
    for (int v = 0; v < f->n_leaves; v++) {
        f->types[v] = (mr_dtype)m->node->in_types[v];
        f->root[v] = (uint8_t)v;
    }
    for (int i = 0; i < f->graph->nodes.n; i++)
        if (value_of(f->graph->nodes.p[i]) >= f->n_leaves)
            MR_TRY(init_member(m, f, f->graph->nodes.p[i], &f->members[value_of(f->graph->nodes.p[i]) - f->n_leaves]));
    return init_outputs(f, m->node);
}

/* Also after an init that failed. */
static void fused_deinit(void *state)
{
    mr_fused *f = state;
    if (!f->graph)
        return;
    for (mr_fused_schedule *s = atomic_load(&f->schedules), *next; s; s = next) {
        next = s->next;
        mr_fused_schedule_free(s);
    }
    for (int i = 0; f->members && i < f->n_members; i++)
        mr_instance_unref(f->members[i].instance);
    mr_graph_unref(f->graph);
    mr_mutex_deinit(&f->mu);
}

/* ---- schedules ---- */

/* The schedule for the inputs of a run. *own: it is not kept, and the caller frees it. Concurrent runs may make the same
 * one twice. */
static mr_status *get_schedule(mr_fused *f, const mr_run *r, mr_fused_schedule **out, bool *own)
{
    *own = false;
    for (mr_fused_schedule *s = atomic_load_explicit(&f->schedules, memory_order_acquire); s; s = s->next)
        if (mr_fused_schedule_fits(f, s, r->in)) {
            *out = s;
            return NULL;
        }
    MR_TRY(mr_fused_schedule_new(f, r->in, out));
    mr_lock(&f->mu);
    *own = f->n_schedules == MAX_SCHEDULES;
    if (!*own) {
        f->n_schedules++;
        (*out)->next = atomic_load_explicit(&f->schedules, memory_order_relaxed);
        atomic_store_explicit(&f->schedules, *out, memory_order_release);
    }
    mr_unlock(&f->mu);
    return NULL;
}

/* ---- a run ---- */

typedef struct fused_run {
    mr_fused_run x;
    const mr_fused_schedule *s;
    uint64_t owned[(MR_FUSED_MAX_VALUES + 63) / 64]; /* bits by value: tensors that this run must drop */
} fused_run;

static bool is_owned(const fused_run *w, int v) { return w->owned[v / 64] >> (v % 64) & 1; }
static void set_owned(fused_run *w, int v, bool owned)
{
    uint64_t bit = UINT64_C(1) << (v % 64);
    w->owned[v / 64] = owned ? w->owned[v / 64] | bit : w->owned[v / 64] & ~bit;
}

static void drop_owned(fused_run *w, int v)
{
    if (!is_owned(w, v))
        return;
    mr_tensor_unref(w->x.t[v]);
    set_owned(w, v, false);
}

/* Adds the member to an error that its kernel returned, as the executor does for other nodes. */
static mr_status *at_member(const mr_fused_member *m, mr_status *st)
{
    mr_status_append(st, "\n\t [[{{node %s}}]]", m->node->name);
    return mr_status_set_reason(st, MR_REASON_NODE_NAMED);
}

/* Makes the tensor of a result of tiles: an output, in the memory of an input that is not needed any more if there is
 * one, or a temporary value. */
static mr_status *make_result(mr_run *r, fused_run *w, int v)
{
    const mr_fused *f = w->x.f;
    const mr_fused_dims *d = &w->s->dims[v];
    int k = f->output_of[v];
    if (k < 0) {
        MR_TRY(mr_run_temp(r, f->types[v], d->rank, d->dims, &w->x.t[v]));
        set_owned(w, v, true);
        return NULL;
    }
    const uint8_t *list = w->s->reuse[v];
    for (int i = 1; list && i <= list[0]; i++)
        if (r->in[list[i]].kind == MR_LIVE && mr_tensor_sole(r->in[list[i]].t))
            return mr_run_forward(r, list[i], k, d->rank, d->dims, &w->x.t[v]);
    return mr_run_output(r, k, d->rank, d->dims, &w->x.t[v]);
}

static mr_status *run_tiles(mr_run *r, fused_run *w, const mr_fused_tiles *t)
{
    for (int i = 0; i < t->n_instrs; i++) {
        const mr_fused_operand *dst = &t->operands[t->instrs[i].dst];
        mr_status *st = dst->place == MR_FUSED_TENSOR ? make_result(r, w, dst->value) : NULL;
        if (st)
            return at_member(t->instrs[i].m, st);
    }
    mr_fused_tiles_run(r, t, &w->x);
    return NULL;
}

/* Input i of a member for its kernel, which may overwrite it if nobody reads the value afterwards. */
static mr_value take_input(mr_run *r, fused_run *w, const mr_fused_member *m, int i, int step)
{
    const mr_fused *f = w->x.f;
    int v = f->root[m->in[i]];
    bool last = w->s->last_step[v] == step;
    for (int k = i + 1; last && k < m->n_in; k++)
        last = f->root[m->in[k]] != v;
    mr_value out = {.t = w->x.t[v], .kind = MR_LIVE};
    if (last && v < f->n_leaves)
        r->in[v].kind = MR_ABSENT;
    else if (last && is_owned(w, v))
        set_owned(w, v, false);
    else
        mr_tensor_ref(out.t);
    return out;
}

/* Runs a member by its kernel. */
static mr_status *run_member(mr_run *r, fused_run *w, int member, int step)
{
    const mr_fused *f = w->x.f;
    const mr_fused_member *m = &f->members[member];
    int v = f->n_leaves + member;
    mr_value in[MR_FUSED_MAX_INPUTS], out = {0};
    mr_run own = *r;
    for (int i = 0; i < m->n_in; i++)
        in[i] = take_input(r, w, m, i, step);
    own.node = m->node;
    own.kernel = m->instance->kernel;
    own.state = m->instance->state;
    own.in = in;
    own.out = &out;
    own.n_in = m->n_in;
    own.n_out = 1;
    mr_status *st = own.kernel->run(&own);
    for (int i = 0; i < m->n_in; i++)
        if (in[i].kind != MR_ABSENT)
            mr_value_drop(&in[i]);
    if (st) {
        mr_value_drop(&out);
        return at_member(m, st);
    }
    MR_ASSERT(out.kind == MR_LIVE && out.t->dtype == f->types[v]);
    w->x.t[v] = out.t;
    if (f->output_of[v] >= 0)
        mr_run_set(r, f->output_of[v], out.t);
    else
        set_owned(w, v, true);
    return NULL;
}

/* Outputs that stand for an input, or for another output. */
static void set_aliases(mr_run *r, const fused_run *w)
{
    const mr_fused *f = w->x.f;
    for (int k = 0; k < f->n_out; k++) {
        int v = f->out[k];
        if (v < f->n_leaves || f->output_of[v] != k)
            mr_run_set(r, k, mr_tensor_ref(w->x.t[v]));
    }
}

static mr_status *fused_run_node(mr_run *r)
{
    mr_fused *f = r->state;
    mr_status *st = NULL;
    fused_run w;
    mr_fused_schedule *s;
    bool own;
    MR_TRY(get_schedule(f, r, &s, &own));
    w.x.f = f;
    w.s = s;
    memset(w.owned, 0, sizeof w.owned);
    for (int v = 0; v < f->n_leaves; v++)
        w.x.t[v] = r->in[v].t;
    for (int k = 0; k < s->n_steps && !st; k++) {
        const mr_fused_step *at = &s->steps[k];
        st = at->member >= 0 ? run_member(r, &w, at->member, k) : run_tiles(r, &w, at->tiles);
        for (int v = f->n_leaves; v < f->n_values; v++)
            if (s->last_step[v] <= k)
                drop_owned(&w, v);
    }
    for (int v = f->n_leaves; v < f->n_values; v++)
        drop_owned(&w, v);
    if (!st)
        set_aliases(r, &w);
    if (own)
        mr_fused_schedule_free(s);
    return st;
}

/* GraphDefs: a = -input, b = a * a; and a = softmax(input). */
#define NEG_SQUARE \
    "\\x0a \\x0a\\x02_0\\x12\\x04_Arg*\\x07\\x0a\\x01T\\x12\\x020\\x01*\\x0b\\x0a\\x05index\\x12\\x02" \
    "\\x18\\x00\\x0a\\x15\\x0a\\x01a\\x12\\x03Neg\\x1a\\x02_0*\\x07\\x0a\\x01T\\x12\\x020\\x01\\x0a" \
    "\\x17\\x0a\\x01b\\x12\\x06Square\\x1a\\x01a*\\x07\\x0a\\x01T\\x12\\x020\\x01"
#define SOFTMAX \
    "\\x0a \\x0a\\x02_0\\x12\\x04_Arg*\\x07\\x0a\\x01T\\x12\\x020\\x01*\\x0b\\x0a\\x05index\\x12\\x02" \
    "\\x18\\x00\\x0a\\x19\\x0a\\x01a\\x12\\x07Softmax\\x1a\\x02_0*\\x07\\x0a\\x01T\\x12\\x020\\x01"

MR_OP(_FusedElementwise,
    .doc         = "what the nodes in its body compute; made by the runtime from nodes that treat each element alike",
    .sig         = "inputs: Tin -> outputs: Tout",
    .attrs       = "Tin: list(type) >= 1; Tout: list(type) >= 1; body: string; outputs: list(int) >= 1",
    .flags       = MR_NO_GRADIENT,
    .shape       = mr_shape_unknown,
    .kernels     = MR_KERNELS(MR_CPU_ANY(fused_run_node)),
    .state_bytes = sizeof(mr_fused),
    .init        = fused_init,
    .deinit      = fused_deinit,
    .examples    = MR_EXAMPLES(
        "Tin=[float] Tout=[float] outputs=[1] body=\"" NEG_SQUARE "\": (float[1, -2]) -> [1, 4]",
        "Tin=[float] Tout=[float,float] outputs=[0,1] body=\"" NEG_SQUARE "\": (float[1, -2]) -> [-1, 2], [1, 4]",
        "Tin=[float] Tout=[float] outputs=[1] body=\"" NEG_SQUARE "\": (float shape(0,2)) -> shape(0,2)",
        "Tin=[float] Tout=[float] outputs=[2] body=\"" NEG_SQUARE "\": (float[1, -2]) -> !INVALID_ARGUMENT output 0 is not member 2",
        "Tin=[float] Tout=[double] outputs=[1] body=\"" NEG_SQUARE "\": (float[1, -2]) -> !INVALID_ARGUMENT output 0 is not member 1",
        "Tin=[double] Tout=[float] outputs=[1] body=\"" NEG_SQUARE "\": (double[1, -2]) -> !INVALID_ARGUMENT is not one of the inputs",
        "Tin=[float] Tout=[float] outputs=[0] body=\"" SOFTMAX "\": (float[1, -2]) -> !INVALID_ARGUMENT cannot be fused",
        "Tin=[float] Tout=[float] outputs=[0] body=\"no graph\": (float[1]) -> !INVALID_ARGUMENT"));
