/* passes/fuse_elementwise.c -- replaces connected nodes that treat each element alike by one _FusedElementwise node, which
 * reads the inputs of the chain once and writes its outputs once (run/fused.h, ops/fused/).
 *
 * Candidates are nodes on a CPU with such a kernel. Each candidate gets a depth: the number of other nodes on the longest
 * path to it. Candidates of one device, one depth and equal gates (passes/readiness.h) that are connected by data edges
 * form a region. Then a region whose values only one other region of its device reads becomes part of that region, whatever
 * its depth and gates are.
 *
 * Why this is safe:
 * - No cycle. A path that leaves a region and comes back would pass through a node that is not a candidate, a control
 *   edge or an edge between devices. Each of these adds to the depth, but all nodes of a region have the same. A node
 *   that only one region reads closes no new path when it joins it. A region that is too large for one node is cut along
 *   a topological order.
 * - No other deadness, and no wait. All values of a region that others read have equal gates; members with fewer gates are
 *   read only inside.
 * - No value comes much later than before. Values that others read have equal depth: their longest path passes
 *   through as many nodes that compute.
 * - Control inputs become those of the fused node, which delays only members with the same gates.
 * - No value of a ref variable is read at another time: nodes that read references are no candidates.
 *
 * A value that only reductions read begins a region of its own: it is needed for a short time.
 * A region that is computed from several values and used at a later depth is left alone: fusing it would keep these
 * values in memory instead of one.
 *
 * The fused node has the name of its last member that others read, so traces, costs and the placer find it. */
#include <stdlib.h>

#include "base/memory.h"
#include "passes/fuse.h"
#include "passes/readiness.h"
#include "run/fused.h"

typedef struct region {
    int parent;        /* the region it became part of; itself: none */
    int n_members, last; /* position of its last member in the order */
} region;

typedef struct fuser {
    mr_graph *g;
    mr_node **order; /* producers first */
    int n, n_ids;
    mr_each_form *form; /* by node id; MR_FORM_NONE: not a candidate */
    bool *after;        /* by node id: a candidate is before it, or it is one */
    int *depth;         /* by node id */
    mr_readiness ready;
    region *regions; /* by id of the candidate that it began with */
    mr_node **instead; /* by node id: the fused node; NULL: none */
} fuser;

/* ---- candidates ---- */

static bool same_device(const mr_node *a, const mr_node *b) { return mr_fuse_same_device(a, b); }

/* A node that takes no time and comes after no candidate: it delays nothing, and no path from a region passes it. */
static bool is_free(const fuser *w, const mr_node *n)
{
    return !w->after[n->id] && (n->n_in == 0 || (n->def->flags & MR_CHEAP));
}

static void visit_node(fuser *w, const mr_prepare_options *o, const mr_node *n)
{
    int depth = 0;
    bool after = false;
    if (mr_fuse_on_cpu(o, n))
        w->form[n->id] = mr_fused_form(n);
    for (int i = 0; i < n->n_in; i++) {
        const mr_node *from = n->in[i].node;
        if (!from)
            continue;
        depth = MR_MAX(depth, w->depth[from->id] + !same_device(from, n));
        after |= w->after[from->id];
    }
    for (int i = 0; i < n->n_ctrl; i++) {
        depth = MR_MAX(depth, w->depth[n->ctrl[i]->id] + 1);
        after |= w->after[n->ctrl[i]->id];
    }
    w->after[n->id] = after || w->form[n->id];
    w->depth[n->id] = depth + (!w->form[n->id] && !is_free(w, n));
}

/* ---- regions ---- */

/* The region of a candidate, with the paths to it shortened. */
static int find_region(fuser *w, int id)
{
    while (w->regions[id].parent != id)
        id = w->regions[id].parent = w->regions[w->regions[id].parent].parent;
    return id;
}

static void join_regions(fuser *w, int from, int to)
{
    region *a = &w->regions[from], *b = &w->regions[to];
    if (from == to)
        return;
    a->parent = to;
    b->n_members += a->n_members;
    b->last = MR_MAX(a->last, b->last);
}

static bool alike(const fuser *w, const mr_node *a, const mr_node *b)
{
    return w->depth[a->id] == w->depth[b->id] && w->ready.gates[a->id] == w->ready.gates[b->id] && same_device(a, b);
}

/* True if the value is summed up at once and then not needed any more. As one of several outputs it would exist as long
 * as the others. */
static bool is_reduced(const mr_node *n)
{
    static const char *const ops[] = {"Sum", "Mean", "BiasAddGrad", "L2Loss", "Max", "Min", "Prod", "All", "Any"};
    for (int u = 0; u < n->uses.n; u++) {
        bool found = false;
        for (int i = 0; i < MR_COUNT(ops) && n->uses.p[u].input >= 0; i++)
            found |= mr_node_is(n->uses.p[u].node, ops[i]);
        if (!found)
            return false;
    }
    return n->uses.n > 0;
}

static void connect_regions(fuser *w)
{
    for (int i = 0; i < w->n; i++) {
        const mr_node *n = w->order[i];
        if (!w->form[n->id])
            continue;
        w->regions[n->id] = (region){n->id, 1, i};
        for (int k = 0; k < n->n_in && !is_reduced(n); k++)
            if (w->form[n->in[k].node->id] && alike(w, n->in[k].node, n))
                join_regions(w, find_region(w, n->in[k].node->id), find_region(w, n->id));
    }
}

typedef struct member_list { /* the members of all regions, grouped, in topological order within each */
    int *first; /* by region */
    mr_node **nodes;
} member_list;

/* Grouped by the regions as they are now. The caller frees both arrays. */
static member_list list_members(fuser *w)
{
    member_list l = {mr_new_array(int, w->n_ids + 1), mr_new_array(mr_node *, w->n + 1)};
    int *at = mr_new_array(int, w->n_ids + 1), sum = 0;
    for (int id = 0; id < w->n_ids; id++) {
        l.first[id] = at[id] = sum;
        if (w->form[id] && w->regions[id].parent == id)
            sum += w->regions[id].n_members;
    }
    for (int i = 0; i < w->n; i++)
        if (w->form[w->order[i]->id])
            l.nodes[at[find_region(w, w->order[i]->id)]++] = w->order[i];
    mr_free(at);
    return l;
}

/* The one other region that reads the values of these members, if no other node does; -1 otherwise. */
static int only_reader(fuser *w, int self, mr_node *const *members, int n)
{
    int reader = -1;
    for (int i = 0; i < n; i++)
        for (int u = 0; u < members[i]->uses.n; u++) {
            const mr_use *use = &members[i]->uses.p[u];
            if (use->input < 0 || !w->form[use->node->id] || !same_device(use->node, members[i]))
                return -1;
            int r = find_region(w, use->node->id);
            if (r != self && reader >= 0 && r != reader)
                return -1;
            reader = r != self ? r : reader;
        }
    return reader;
}

/* True if the value is known to have few elements. */
static bool is_small(mr_out o)
{
    enum { FEW = 4096 };
    const mr_pshape *s = mr_out_shape(o);
    int64_t n = 1;
    for (int i = 0; i < s->rank && n <= FEW; i++)
        n = s->dims[i] < 0 || s->dims[i] > FEW ? FEW + 1 : n * s->dims[i];
    return s->rank >= 0 && n <= FEW;
}

static size_t type_bytes(int type) { return mr_dtype_size(mr_dtype_base(type)); }

/* True if holding the inputs of these members takes no more memory than holding their values: there is at most one
 * input that is not there for the whole step, or small, and it is no larger than the value, or others read it too. */
static bool holds_little(fuser *w, int self, mr_node *const *members, int n)
{
    mr_out held = MR_NO_OUT;
    size_t widest = 0;
    for (int i = 0; i < n; i++) {
        widest = MR_MAX(widest, type_bytes(members[i]->out_types[0]));
        for (int k = 0; k < members[i]->n_in; k++) {
            mr_out in = members[i]->in[k];
            bool inside = w->form[in.node->id] && find_region(w, in.node->id) == self;
            bool stays = w->depth[in.node->id] == 0 && !w->after[in.node->id];
            if (inside || stays || is_small(in) || mr_out_eq(in, held))
                continue;
            if (held.node)
                return false;
            held = in;
        }
    }
    return !held.node || type_bytes(mr_out_type(held)) <= widest || held.node->uses.n > 1;
}

static int by_last(const void *a, const void *b)
{
    const int *x = a, *y = b;
    return (x[0] < y[0]) - (x[0] > y[0]); /* descending */
}

/* Moves regions into the only region that reads them. From the end of the graph, so that a reader has found its place
 * before what it reads. */
static void absorb_regions(fuser *w)
{
    int (*roots)[2] = (int (*)[2])mr_new_array(int, 2 * (w->n + 1)), n_roots = 0;
    member_list l = list_members(w);
    for (int id = 0; id < w->n_ids; id++)
        if (w->form[id] && w->regions[id].parent == id) {
            roots[n_roots][0] = w->regions[id].last;
            roots[n_roots++][1] = id;
        }
    qsort(roots, (size_t)n_roots, sizeof *roots, by_last);
    for (int i = 0; i < n_roots; i++) {
        int id = roots[i][1], n = w->regions[id].n_members; /* nothing has joined it: that comes later */
        mr_node *const *members = l.nodes + l.first[id];
        int reader = only_reader(w, id, members, n);
        if (reader >= 0 && (w->depth[members[n - 1]->id] == w->depth[w->order[w->regions[reader].last]->id] ||
                            holds_little(w, id, members, n)))
            join_regions(w, id, reader);
    }
    mr_free(roots);
    mr_free(l.first);
    mr_free(l.nodes);
}

/* ---- making a fused node ---- */

typedef struct piece { /* a region, or a part of one that is too large */
    mr_node **members;
    int n, n_work; /* n_work: those that compute */
    mr_out in[MR_FUSED_MAX_INPUTS];
    int n_in;
    int outputs[MR_FUSED_MAX_MEMBERS], n_out; /* members that others read */
} piece;

static int member_index(const piece *p, const mr_node *n)
{
    for (int i = 0; i < p->n; i++)
        if (p->members[i] == n)
            return i;
    return -1;
}

static int input_index(const piece *p, mr_out o)
{
    for (int i = 0; i < p->n_in; i++)
        if (mr_out_eq(p->in[i], o))
            return i;
    return -1;
}

/* Adds a member, whose inputs come before it; false if the piece has no room for it. */
static bool add_member(fuser *w, piece *p, mr_node *n)
{
    int n_in = p->n_in;
    if (p->n == MR_FUSED_MAX_MEMBERS)
        return false;
    for (int i = 0; i < n->n_in; i++) {
        if (member_index(p, n->in[i].node) >= 0 || input_index(p, n->in[i]) >= 0)
            continue;
        if (p->n_in == MR_FUSED_MAX_INPUTS) {
            p->n_in = n_in;
            return false;
        }
        p->in[p->n_in++] = n->in[i];
    }
    p->members[p->n++] = n;
    p->n_work += w->form[n->id] != MR_FORM_PASS;
    return true;
}

/* True if a node outside of the piece reads the member or waits for it. */
static bool is_read_outside(const piece *p, const mr_node *n)
{
    for (int u = 0; u < n->uses.n; u++)
        if (n->uses.p[u].input < 0 || member_index(p, n->uses.p[u].node) < 0)
            return true;
    return n->uses.n == 0;
}

static mr_status *new_node(const fuser *w, const piece *p, const char *name, mr_sv body, mr_node **out)
{
    mr_node *last = p->members[p->outputs[p->n_out - 1]];
    int in_types[MR_FUSED_MAX_INPUTS], out_types[MR_FUSED_MAX_MEMBERS];
    int64_t outputs[MR_FUSED_MAX_MEMBERS];
    mr_sv labels[MR_FUSED_MAX_MEMBERS];
    for (int i = 0; i < p->n_in; i++)
        in_types[i] = mr_dtype_base(mr_out_type(p->in[i]));
    for (int k = 0; k < p->n_out; k++) {
        outputs[k] = p->outputs[k];
        out_types[k] = p->members[p->outputs[k]]->out_types[0];
    }
    for (int i = 0; i < p->n; i++)
        labels[i] = mr_fuse_label(w->g, p->members[i]);
    mr_node_builder *b = mr_node_begin(w->g, MR_FUSED_ELEMENTWISE, name);
    mr_nb_internal(b);
    mr_nb_device(b, last->device);
    mr_nb_input_list(b, p->in, p->n_in);
    for (int i = 0; i < p->n; i++)
        for (int c = 0; c < p->members[i]->n_ctrl; c++)
            mr_nb_control(b, p->members[i]->ctrl[c]);
    mr_nb_attr(b, "Tin", mr_a_types(p->n_in, in_types));
    mr_nb_attr(b, "Tout", mr_a_types(p->n_out, out_types));
    mr_nb_attr(b, "body", mr_a_sv(body));
    mr_nb_attr(b, "outputs", mr_a_ints(p->n_out, outputs));
    mr_nb_attr(b, MR_FUSED_MEMBERS, mr_a_strs(p->n, labels));
    MR_TRY(mr_node_finish(b, out));
    (*out)->placed = last->placed;
    (*out)->mark = last->mark;
    for (int k = 0; k < p->n_out; k++)
        (*out)->out_shapes[k] = p->members[p->outputs[k]]->out_shapes[0];
    return NULL;
}

/* Replaces the members by one node, which reads what they read. They are removed later, when all pieces are done; until
 * then the node has a name of its own, and control edges still lead from the members. */
static mr_status *fuse_piece(fuser *w, piece *p)
{
    mr_str body = {0};
    mr_node *fused;
    for (int i = 0; i < p->n; i++)
        if (is_read_outside(p, p->members[i]))
            p->outputs[p->n_out++] = i;
    MR_ASSERT(p->n_out > 0);
    mr_status *st = mr_fuse_write_body(w->g, p->in, p->n_in, p->members, p->n, &body);
    if (!st)
        st = new_node(w, p, mr_graph_unique_name(w->g, "_fused"), mr_str_view(&body), &fused);
    mr_str_deinit(&body);
    MR_TRY(st);
    for (int k = 0; k < p->n_out; k++)
        MR_TRY(mr_graph_replace_uses((mr_out){p->members[p->outputs[k]], 0}, (mr_out){fused, k}));
    for (int i = 0; i < p->n; i++)
        w->instead[p->members[i]->id] = fused;
    fused->tag = (void *)(uintptr_t)p->members[p->outputs[p->n_out - 1]]->name;
    return NULL;
}

/* A node of its own for each part of a region that fits into one. A part that would replace fewer than two nodes that
 * compute is not worth it. */
static mr_status *fuse_region(fuser *w, mr_node **members, int n)
{
    for (int at = 0; at < n;) {
        piece p = {.members = members + at};
        while (at + p.n < n && add_member(w, &p, members[at + p.n]))
            ;
        int size = p.n;
        MR_ASSERT(size > 0);
        if (p.n_work >= 2)
            MR_TRY(fuse_piece(w, &p));
        at += size;
    }
    return NULL;
}

/* ---- the whole pass ---- */

static mr_status *fuse_regions(fuser *w)
{
    member_list l = list_members(w);
    mr_status *st = NULL;
    for (int id = 0; id < w->n_ids && !st; id++)
        if (w->form[id] && w->regions[id].parent == id && w->regions[id].n_members > 1)
            st = fuse_region(w, l.nodes + l.first[id], w->regions[id].n_members);
    mr_free(l.first);
    mr_free(l.nodes);
    return st || w->g->nodes.n == w->n_ids ? st : mr_fuse_finish(w->g, w->instead, w->n_ids);
}

mr_status *mr_fuse_elementwise(mr_graph *g, const mr_prepare_options *o)
{
    mr_status *st = NULL;
    size_t all = (size_t)g->nodes.n + 1;
    fuser w = {.g = g, .n_ids = g->nodes.n};
    w.form = mr_try_calloc(all, sizeof *w.form);
    w.after = mr_try_calloc(all, sizeof *w.after);
    w.depth = mr_try_calloc(all, sizeof *w.depth);
    w.regions = mr_try_calloc(all, sizeof *w.regions);
    w.instead = mr_try_calloc(all, sizeof *w.instead);
    if (!w.form || !w.after || !w.depth || !w.regions || !w.instead)
        MR_GO(mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot look for nodes to fuse among %d", g->nodes.n));
    MR_GO(mr_graph_topological(g, &w.order, &w.n));
    int n_candidates = 0;
    for (int i = 0; i < w.n; i++) {
        visit_node(&w, o, w.order[i]);
        n_candidates += w.form[w.order[i]->id] != MR_FORM_NONE;
    }
    if (n_candidates > 1) {
        MR_GO(mr_readiness_find(g, w.order, w.n, &w.ready));
        connect_regions(&w);
        absorb_regions(&w);
        MR_GO(fuse_regions(&w));
    }
out:
    mr_readiness_deinit(&w.ready);
    mr_free(w.order);
    mr_free(w.form);
    mr_free(w.after);
    mr_free(w.depth);
    mr_free(w.regions);
    mr_free(w.instead);
    return st;
}
