/* passes/prepare.c -- the order of the passes.
 *
 * Placement comes first and looks at the whole graph of the client, so that nodes keep their devices between
 * signatures. Pruning copies what the signature needs; all later passes change the copy. Folding, merging (cse), fusing,
 * the ordering of collectives and the scheduling of Recvs depend on the options; the other passes always run.
 *
 * A function's body is a private copy that its caller has pruned. It is lowered before it is placed, because the
 * bodies of its calls may request devices too. */
#include "passes/passes.h"

void mr_placements_deinit(mr_placements *p)
{
    mr_free(p->device);
    *p = (mr_placements){0};
}

/* The passes after lowering, on a placed graph. Frames are checked first: mismatched frames are an error of the
 * client, and the later passes rely on frames that match. */
static mr_status *optimise_and_cut(mr_graph *g, const mr_prepare_options *o, mr_graph **parts)
{
    MR_ASSERT(o->n_devices > 0);
    mr_frames frames;
    MR_TRY(mr_frames_find(g, &frames));
    mr_frames_deinit(&frames);
    MR_TRY(mr_refresh_ref_reads(g));
    if (!o->no_fold)
        MR_TRY(mr_fold(g, o->max_folded_bytes));
    MR_TRY(mr_simplify(g, o));
    if (!o->no_cse)
        MR_TRY(mr_cse(g));
    if (!o->exported)
        MR_TRY(mr_fuse(g, o));
    if (o->order_collectives)
        MR_TRY(mr_order_collectives(g));
    return mr_partition(g, o, parts);
}

/* Lowers calls and places the nodes of their functions beside those that are placed already. Costs are not used: they
 * are known only for nodes that the client sees. */
static mr_status *lower_placed(mr_graph **g, const mr_prepare_options *o)
{
    bool any;
    MR_TRY(mr_lower(g, &any));
    if (!any)
        return NULL;
    mr_prepare_options plain = *o;
    plain.costs = NULL;
    const char **placed = mr_new_array(const char *, (*g)->nodes.n + 1);
    for (int i = 0; i < (*g)->nodes.n; i++)
        placed[i] = (*g)->nodes.p[i] ? (*g)->nodes.p[i]->placed : NULL;
    mr_status *st = mr_place(*g, &plain, NULL, NULL, placed);
    for (int i = 0; i < (*g)->nodes.n; i++)
        if ((*g)->nodes.p[i])
            (*g)->nodes.p[i]->placed = placed[i];
    mr_free(placed);
    return st;
}

/* Makes room for n nodes; new entries are NULL (not placed). */
static void grow_placements(mr_placements *p, int n)
{
    if (p->n >= n)
        return;
    p->device = mr_realloc(p->device, sizeof *p->device * (size_t)n);
    memset(p->device + p->n, 0, sizeof *p->device * (size_t)(n - p->n));
    p->n = n;
}

/* Placements are recorded even if a later pass fails: they are valid for the next attempt. */
mr_status *mr_prepare(const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o, mr_graph **parts)
{
    mr_status *st = NULL;
    mr_graph *pruned = NULL;
    mr_placements local = {0};
    mr_prepare_options with = *o;
    bool *needed = mr_new_array(bool, g->nodes.n + 1);
    memset(parts, 0, sizeof *parts * (size_t)o->n_devices);
    if (!with.placements)
        with.placements = &local;
    MR_GO(mr_needed(g, sig, needed));
    grow_placements(with.placements, g->nodes.n);
    if (o->costs) {
        with.placements->entangled = true; /* not known: mr_place looks at all nodes anyway */
        MR_GO(mr_place(g, o, sig, needed, with.placements->device));
    } else {
        MR_GO(mr_place_added(g, o, needed, with.placements));
    }
    MR_ASSERT(with.placements->n >= g->nodes.n);
    MR_GO(mr_prune(g, sig, &with, &pruned));
    MR_GO(lower_placed(&pruned, o));
    MR_GO(optimise_and_cut(pruned, o, parts));
out:
    mr_graph_unref(pruned);
    mr_placements_deinit(&local);
    mr_free(needed);
    return st;
}

/* True if the caller's device has kernels for all nodes that request no other device. */
static bool fits_at_home(const mr_graph *body, const mr_device *home)
{
    bool fits = true;
    for (int i = 0; i < body->nodes.n && fits; i++) {
        const mr_node *n = body->nodes.p[i];
        fits = !n || n->device[0] || n->def->function || mr_device_kernel(home, n);
    }
    return fits;
}

/* Nodes without a device of their own run on the caller's device, if it has kernels for all of them; else they are
 * placed like any others. */
mr_status *mr_prepare_body(mr_graph *body, const mr_prepare_options *o, mr_graph **parts)
{
    mr_status *st = NULL;
    bool any;
    const char **placed = NULL;
    memset(parts, 0, sizeof *parts * (size_t)o->n_devices);
    MR_GO(mr_lower(&body, &any));
    placed = mr_new_array(const char *, body->nodes.n + 1);
    bool at_home = fits_at_home(body, o->devices[0]);
    for (int i = 0; i < body->nodes.n && at_home; i++)
        if (body->nodes.p[i] && !body->nodes.p[i]->device[0])
            placed[i] = o->devices[0]->name;
    MR_GO(mr_place(body, o, NULL, NULL, placed));
    for (int i = 0; i < body->nodes.n; i++)
        if (body->nodes.p[i])
            body->nodes.p[i]->placed = placed[i];
    MR_GO(optimise_and_cut(body, o, parts));
out:
    mr_free(placed);
    mr_graph_unref(body);
    return st;
}
