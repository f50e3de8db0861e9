/* passes/frames.c -- finds the loop that each node belongs to.
 *
 * Going from producers to consumers, the frame of a node is the frame of its inputs. Enter leads into a child
 * frame named by its frame_name, Exit back to the parent. All inputs must agree. The only edges that point
 * backwards, NextIteration to Merge, are checked in a second pass.
 *
 * Invariant: a parent frame has a smaller index than its children; frame 0 is the root. */
#include "passes/passes.h"

typedef struct finder {
    const mr_graph *g;
    mr_frames f;
    MR_VEC(mr_frame_info) info;
} finder;

/* Empty if the attr is missing or has another type; such an Enter still has a frame. */
static mr_sv enter_frame_name(const mr_node *n)
{
    const mr_attr *a = mr_node_attr(n, "frame_name");
    return a && a->kind == MR_ATTR_STRING ? a->s : MR_SV("");
}

/* Frames of one name below different parents are different frames. */
static int find_child(const mr_frame_info *info, int n, int parent, mr_sv name)
{
    for (int i = 1; i < n; i++)
        if (info[i].parent == parent && mr_sv_is(name, info[i].name))
            return i;
    return -1;
}

/* Of an Enter the child frame, of an Exit the parent. -1 for an Exit in the root, which is an error of the graph. */
int mr_frames_out(const mr_frames *f, const mr_node *n)
{
    int own = f->of_node[n->id];
    MR_ASSERT(own >= 0 && own < f->n);
    if (mr_node_is_enter(n))
        return find_child(f->info, f->n, own, enter_frame_name(n));
    if (mr_node_is_exit(n))
        return f->info[own].parent;
    return own;
}

/* mr_frames_out while the frames are still being collected. */
static int out_frame(finder *w, const mr_node *n)
{
    mr_frames view = {w->info.n, w->info.p, w->f.of_node};
    return mr_frames_out(&view, n);
}

/* Counts an Enter in the child frame it leads to; the first one makes the frame. */
static mr_status *enter_child(finder *w, mr_node *n)
{
    int own = w->f.of_node[n->id];
    mr_sv name = enter_frame_name(n);
    int child = find_child(w->info.p, w->info.n, own, name);
    if (child < 0) {
        const mr_attr *par = mr_node_attr(n, "parallel_iterations");
        mr_frame_info info = {
            .name = mr_strndup(name.p, name.n),
            .parent = own,
            .parallel_iterations = par && par->kind == MR_ATTR_INT ? (int)MR_MAX(1, MR_MIN(par->i, 1 << 20)) : 10,
        };
        child = w->info.n;
        mr_vec_push(&w->info, info);
    }
    w->info.p[child].n_enters++;
    MR_ASSERT(w->info.p[child].parent == own && own < child);
    return NULL;
}

/* The text is TensorFlow's. */
static mr_status *frames_differ(finder *w, const mr_node *n, const mr_node *a, int fa, const mr_node *b, int fb)
{
    return mr_invalid("{{node %s}} has inputs from different frames. The input {{node %s}} is in frame '%s'. "
                      "The input {{node %s}} is in frame '%s'.",
                      n->name, a->name, w->info.p[fa].name, b->name, w->info.p[fb].name);
}

/* Sets the frame of a node from its producers, which must agree. A producer that has no frame yet is a back edge. */
static mr_status *settle_frame(finder *w, mr_node *n)
{
    int frame = -1;
    const mr_node *first = NULL;
    for (int i = 0; i < n->n_in + n->n_ctrl; i++) {
        const mr_node *src = i < n->n_in ? n->in[i].node : n->ctrl[i - n->n_in];
        if (w->f.of_node[src->id] < 0)
            continue;
        int fr = out_frame(w, src);
        if (fr < 0)
            return mr_invalid("{{node %s}}: an Exit outside of any loop feeds it", n->name);
        if (frame >= 0 && fr != frame)
            return frames_differ(w, n, first, frame, src, fr);
        frame = fr;
        first = src;
    }
    w->f.of_node[n->id] = frame < 0 ? 0 : frame;
    return NULL;
}

/* Settles a node, and checks what its op requires of its frame. */
static mr_status *visit_node(finder *w, mr_node *n)
{
    MR_TRY(settle_frame(w, n));
    int frame = w->f.of_node[n->id];
    if (mr_node_is_enter(n))
        return enter_child(w, n);
    if (mr_node_is_exit(n) && frame == 0)
        return mr_invalid("{{node %s}} is an Exit outside of any loop", n->name);
    if (mr_node_is(n, "LoopCond")) {
        if (w->info.p[frame].loop_cond)
            return mr_invalid("frame '%s' has two LoopCond nodes: {{node %s}} and {{node %s}}", w->info.p[frame].name,
                              w->info.p[frame].loop_cond->name, n->name);
        w->info.p[frame].loop_cond = n;
    }
    return NULL;
}

/* Every input of a Merge must come from the frame of the Merge; the first pass has skipped the back edge. */
static mr_status *check_back_edges(finder *w, mr_node *n)
{
    for (int i = 0; mr_node_is_merge(n) && i < n->n_in; i++) {
        int fr = out_frame(w, n->in[i].node);
        if (fr != w->f.of_node[n->id])
            return frames_differ(w, n, n, w->f.of_node[n->id], n->in[i].node, MR_MAX(fr, 0));
    }
    return NULL;
}

/* On failure *out is empty. */
mr_status *mr_frames_find(const mr_graph *g, mr_frames *out)
{
    mr_status *st = NULL;
    finder w = {.g = g};
    mr_node **order = NULL;
    int n = 0;
    MR_GO(mr_graph_topological(g, &order, &n));
    w.f.of_node = mr_new_array(int, g->nodes.n + 1);
    memset(w.f.of_node, 0xff, sizeof(int) * (size_t)(g->nodes.n + 1));
    mr_vec_push(&w.info, (mr_frame_info){.name = mr_strdup(""), .parent = -1, .parallel_iterations = 1});
    for (int i = 0; i < n; i++)
        MR_GO(visit_node(&w, order[i]));
    for (int i = 0; i < n; i++)
        MR_GO(check_back_edges(&w, order[i]));
out:
    mr_free(order);
    *out = (mr_frames){w.info.n, w.info.p, w.f.of_node};
    if (st)
        mr_frames_deinit(out);
    return st;
}

/* Accepts frames that are all zero. */
void mr_frames_deinit(mr_frames *f)
{
    for (int i = 0; i < f->n; i++)
        mr_free((char *)(uintptr_t)f->info[i].name);
    mr_free(f->info);
    mr_free(f->of_node);
    *f = (mr_frames){0};
}
