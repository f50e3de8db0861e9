/* passes/fuse_updates.c -- one _FusedUpdate node for many small updates of variables, such as an optimizer makes for each
 * variable. The kernels stay the same and run one after the other; what is saved is the executor's work for each node.
 *
 * Candidates are nodes in no loop whose CPU kernel only updates variables (mr_kernel.update), whose outputs nobody reads,
 * and whose gradient is known to be small: it has to be kept until the last gradient of the group is there. Each node has a
 * level, the most candidates on a path to it. Candidates of one device, element type, level and set of gates
 * (passes/readiness.h) form a group.
 *
 * Why this is safe:
 * - No cycle. A path from one candidate to another raises the level, so there is none inside of a group, and groups on a
 *   cycle would each have to be on a higher level than the one before.
 * - No other deadness, and no wait: the members have equal gates.
 * - Locks are taken for one member at a time, as before. Only the order of updates that nothing orders is another one. */
#include <stdlib.h>

#include "base/map.h"
#include "base/memory.h"
#include "passes/fuse.h"
#include "passes/readiness.h"
#include "run/fused.h"

enum {
    MOST_BYTES = 64 << 10,  /* of the values that one member reads */
    GROUP_BYTES = 1 << 20,  /* of the values that a group reads */
    GROUP_MEMBERS = 128,
};

typedef struct group {
    int level, gates, type; /* type: of the variables, if they are references; else 0 */
    int64_t bytes;
    MR_VEC(mr_node *) members;
} group;

typedef struct fuser {
    mr_graph *g;
    mr_node **order;
    int n, n_ids;
    int *level; /* by node id */
    bool *update; /* by node id: a candidate */
    mr_readiness ready;
    MR_VEC(group) groups;
    mr_imap open; /* hash of what members have in common -> 1 + the group that takes more */
    mr_node **instead;
} fuser;

/* ---- candidates ---- */

/* The bytes of a gradient or hyper-parameter; -1: unknown. What has no known shape is no larger than the variable, except
 * the rows and indices of a sparse gradient. */
static int64_t input_bytes(const mr_node *n, int i)
{
    int64_t bytes = mr_cost_bytes(n->in[i]);
    bool dense = true;
    for (int k = 0; k < n->n_in; k++)
        dense &= mr_dtype_is_ref(n->in_types[k]) || n->in_types[k] == n->in_types[i];
    return bytes >= 0 || !dense || !mr_dtype_is_ref(n->in_types[0]) ? bytes : mr_cost_bytes(n->in[0]);
}

/* The bytes of the values that an update reads, except the variables; -1: unknown, or too many. */
static int64_t value_bytes(const mr_node *n)
{
    int64_t sum = 0;
    for (int i = 0; i < n->n_in; i++) {
        if (mr_dtype_is_ref(n->in_types[i]) || n->in_types[i] == MR_RESOURCE)
            continue;
        int64_t bytes = input_bytes(n, i);
        if (bytes < 0 || bytes > MOST_BYTES - sum)
            return -1;
        sum += bytes;
    }
    return sum;
}

/* A value that is read from a reference on the way into the kernel would be read at another time. */
static bool reads_references(const mr_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i].node || (mr_dtype_is_ref(mr_out_type(n->in[i])) && !mr_dtype_is_ref(n->in_types[i])))
            return true;
    return false;
}

/* The type of the variables that an update changes by reference; 0: it has handles. -1: they differ. */
static int reference_type(const mr_node *n)
{
    int type = 0;
    for (int i = 0; i < n->n_in; i++)
        if (mr_dtype_is_ref(n->in_types[i])) {
            int base = mr_dtype_base(n->in_types[i]);
            if (type && base != type)
                return -1;
            type = base;
        }
    return type;
}

static bool has_data_readers(const mr_node *n)
{
    for (int u = 0; u < n->uses.n; u++)
        if (n->uses.p[u].input >= 0)
            return true;
    return false;
}

static bool is_candidate(const mr_prepare_options *o, const mr_frames *frames, const mr_node *n)
{
    if (!n->def->op || n->n_in > MR_FUSED_UPDATE_MAX_INPUTS || n->n_out > 1 || !mr_fuse_on_cpu(o, n))
        return false;
    const mr_kernel *k = mr_kernel_find(n, mr_device_cpu.name);
    return k && k->update && k->run && frames->of_node[n->id] == 0 && !has_data_readers(n) && !reads_references(n) &&
           reference_type(n) >= 0 && value_bytes(n) >= 0;
}

static void visit_node(fuser *w, const mr_prepare_options *o, const mr_frames *frames, const mr_node *n)
{
    int level = 0;
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i].node)
            level = MR_MAX(level, w->level[n->in[i].node->id] + w->update[n->in[i].node->id]);
    for (int i = 0; i < n->n_ctrl; i++)
        level = MR_MAX(level, w->level[n->ctrl[i]->id] + w->update[n->ctrl[i]->id]);
    w->level[n->id] = level;
    w->update[n->id] = is_candidate(o, frames, n);
}

/* ---- groups ---- */

/* True if the node may join the members of the group, as far as those are concerned. */
static bool is_like(const fuser *w, const group *g, const mr_node *n)
{
    return g->level == w->level[n->id] && g->gates == w->ready.gates[n->id] && g->type == reference_type(n) &&
           mr_fuse_same_device(g->members.p[0], n);
}

static bool has_room(const group *g, const mr_node *n)
{
    return g->members.n < GROUP_MEMBERS && g->bytes + value_bytes(n) <= GROUP_BYTES;
}

/* Puts an update into the open group of its kind. Another kind with the same hash is left without a group. */
static void join_group(fuser *w, mr_node *n)
{
    struct {
        int level, gates, type;
        uint32_t device;
    } kind = {w->level[n->id], w->ready.gates[n->id], reference_type(n), (uint32_t)mr_hash64(n->placed, strlen(n->placed))};
    uint64_t h = mr_hash64(&kind, sizeof kind) | 1;
    int at = (int)(intptr_t)mr_imap_get(&w->open, h) - 1;
    if (at >= 0 && !is_like(w, &w->groups.p[at], n))
        return;
    if (at < 0 || !has_room(&w->groups.p[at], n)) {
        mr_vec_push(&w->groups, (group){.level = kind.level, .gates = kind.gates, .type = kind.type});
        at = w->groups.n - 1;
        mr_imap_put(&w->open, h, (void *)(intptr_t)(at + 1));
    }
    w->groups.p[at].bytes += value_bytes(n);
    mr_vec_push(&w->groups.p[at].members, n);
}

/* ---- a fused node ---- */

typedef struct inputs { /* each output once */
    MR_VEC(mr_out) refs, values;
    MR_VEC(int) types; /* of the values */
    mr_imap seen;
} inputs;

static void collect_inputs(const group *g, inputs *in)
{
    for (int m = 0; m < g->members.n; m++)
        for (int i = 0; i < g->members.p[m]->n_in; i++) {
            mr_out o = g->members.p[m]->in[i];
            uint64_t key = (uint64_t)o.node->id << 20 | (uint64_t)o.index;
            if (mr_imap_put(&in->seen, key, in))
                continue;
            if (mr_dtype_is_ref(mr_out_type(o))) {
                mr_vec_push(&in->refs, o);
            } else {
                mr_vec_push(&in->values, o);
                mr_vec_push(&in->types, mr_out_type(o));
            }
        }
}

static mr_status *new_node(fuser *w, const group *g, const inputs *in, mr_sv body, mr_node **out)
{
    const mr_node *last = g->members.p[g->members.n - 1];
    mr_sv *labels = mr_new_array(mr_sv, g->members.n);
    mr_node_builder *b = mr_node_begin(w->g, MR_FUSED_UPDATE, mr_graph_unique_name(w->g, "_fused"));
    mr_nb_internal(b);
    mr_nb_device(b, last->device);
    mr_nb_input_list(b, in->refs.p, in->refs.n);
    mr_nb_input_list(b, in->values.p, in->values.n);
    for (int m = 0; m < g->members.n; m++) {
        labels[m] = mr_fuse_label(w->g, g->members.p[m]);
        for (int c = 0; c < g->members.p[m]->n_ctrl; c++)
            mr_nb_control(b, g->members.p[m]->ctrl[c]);
    }
    mr_nb_attr(b, "N", mr_a_int(in->refs.n));
    mr_nb_attr(b, "T", mr_a_type(g->type ? g->type : MR_FLOAT));
    mr_nb_attr(b, "Tvalues", mr_a_types(in->types.n, in->types.p));
    mr_nb_attr(b, "body", mr_a_sv(body));
    mr_nb_attr(b, MR_FUSED_MEMBERS, mr_a_strs(g->members.n, labels));
    mr_status *st = mr_node_finish(b, out);
    mr_free(labels);
    MR_TRY(st);
    (*out)->placed = last->placed;
    (*out)->mark = last->mark;
    (*out)->tag = (void *)(uintptr_t)last->name;
    return NULL;
}

static mr_status *fuse_group(fuser *w, const group *g)
{
    inputs in = {0};
    mr_str body = {0};
    mr_node *fused;
    mr_status *st = NULL;
    collect_inputs(g, &in);
    MR_VEC(mr_out) all = {0};
    for (int i = 0; i < in.refs.n; i++)
        mr_vec_push(&all, in.refs.p[i]);
    for (int i = 0; i < in.values.n; i++)
        mr_vec_push(&all, in.values.p[i]);
    MR_GO(mr_fuse_write_body(w->g, all.p, all.n, g->members.p, g->members.n, &body));
    MR_GO(new_node(w, g, &in, mr_str_view(&body), &fused));
    for (int m = 0; m < g->members.n; m++)
        w->instead[g->members.p[m]->id] = fused;
out:
    mr_vec_deinit(&in.refs);
    mr_vec_deinit(&in.values);
    mr_vec_deinit(&in.types);
    mr_imap_deinit(&in.seen);
    mr_vec_deinit(&all);
    mr_str_deinit(&body);
    return st;
}

/* ---- the whole pass ---- */

static mr_status *fuse_groups(fuser *w)
{
    MR_TRY(mr_readiness_find(w->g, w->order, w->n, &w->ready));
    for (int i = 0; i < w->n; i++)
        if (w->update[w->order[i]->id])
            join_group(w, w->order[i]);
    for (int i = 0; i < w->groups.n; i++)
        if (w->groups.p[i].members.n > 1)
            MR_TRY(fuse_group(w, &w->groups.p[i]));
    return w->g->nodes.n > w->n_ids ? mr_fuse_finish(w->g, w->instead, w->n_ids) : NULL;
}

mr_status *mr_fuse_updates(mr_graph *g, const mr_prepare_options *o)
{
    mr_status *st = NULL;
    size_t all = (size_t)g->nodes.n + 1;
    int n_candidates = 0;
    mr_frames frames = {0};
    fuser w = {.g = g, .n_ids = g->nodes.n};
    MR_TRY(mr_frames_find(g, &frames));
    w.level = mr_try_calloc(all, sizeof *w.level);
    w.update = mr_try_calloc(all, sizeof *w.update);
    w.instead = mr_try_calloc(all, sizeof *w.instead);
    if (!w.level || !w.update || !w.instead)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot look for updates to fuse among %d nodes", g->nodes.n));
    MR_GO(mr_graph_topological(g, &w.order, &w.n));
    for (int i = 0; i < w.n; i++) {
        visit_node(&w, o, &frames, w.order[i]);
        n_candidates += w.update[w.order[i]->id];
    }
    if (n_candidates > 1)
        MR_GO(fuse_groups(&w));
out:
    for (int i = 0; i < w.groups.n; i++)
        mr_vec_deinit(&w.groups.p[i].members);
    mr_vec_deinit(&w.groups);
    mr_imap_deinit(&w.open);
    mr_readiness_deinit(&w.ready);
    mr_frames_deinit(&frames);
    mr_free(w.order);
    mr_free(w.level);
    mr_free(w.update);
    mr_free(w.instead);
    return st;
}
