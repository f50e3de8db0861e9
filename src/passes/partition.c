/* passes/partition.c -- one graph per device, joined by Send and Recv.
 *
 * An edge that crosses devices is cut: the producer's side sends, the consumer's side receives. All consumers of an
 * output on one device share one transfer. Reads through a reference are not shared, because each consumer sees the
 * variable at its own time. A control edge travels as an empty tensor.
 *
 * A loop that spans devices needs care, since a Recv has no inputs and would run only once. On every device that
 * receives inside the loop, a control loop (Enter, Merge, Switch on the loop's predicate, NextIteration) makes the same
 * iterations as the real one, and each Recv has a control edge from its Merge. The predicate itself is transferred like
 * any other value. Nested loops nest their control loops.
 *
 * Floats may be sent to another task as bfloat16 (white paper of 2015, 5.5): the lower half of each is cut off before
 * the Send and filled with zeros after the Recv. This happens after gradients were made, so gradients do not see it.
 *
 * An Enter passes its value to one iteration only, a NextIteration to all but the first. A Recv waits in every
 * iteration, so it could not receive from them. So they are first moved to where their values are used, or duplicated
 * (the code calls both kinds loop entries).
 *
 * Invariants: nodes below n_nodes have their device in device_of; the device of node n_nodes + i is dev_new[i]. Every
 * node that this pass adds goes through finish_node or schedule, which keep the two arrays complete. */
#include "passes/passes.h"

#include <stdatomic.h>

typedef struct cutter {
    mr_graph *g;
    const mr_prepare_options *o;
    mr_device *const *devices;
    int n_devices;
    mr_frames frames;
    int n_nodes;        /* nodes of the frame analysis; later ones were added by this pass */
    int *device_of;     /* by id of those */
    mr_node **merges;   /* control loop Merge by frame * n_devices + device; NULL: none */
    int64_t *first_key; /* by id: the number of its first output in a numbering of all outputs and node ends */
    int *lines;         /* by device: the first device of its task */
    mr_imap recvs;      /* transfer_key -> the node that has received it */
    MR_VEC(int) dev_new; /* device of node n_nodes + i */
    MR_VEC(mr_cut_edge) transfers;
} cutter;

/* Numbers transfers uniquely in the process: stateful kernels are found by name. */
static int64_t next_edge(void)
{
    static _Atomic int64_t counter;
    return atomic_fetch_add(&counter, 1);
}

/* Of a node of the graph or of one that this pass added. */
static int device_index(const cutter *c, const mr_node *n)
{
    MR_ASSERT(n->id - c->n_nodes < c->dev_new.n);
    if (n->id >= c->n_nodes)
        return c->dev_new.p[n->id - c->n_nodes];
    return c->device_of[n->id];
}

/* Finds the device of each node; the placer must have chosen one of this step. */
static mr_status *locate_nodes(cutter *c)
{
    c->device_of = mr_new_array(int, c->n_nodes + 1);
    for (int i = 0; i < c->n_nodes; i++) {
        const mr_node *n = c->g->nodes.p[i];
        int d = n ? c->n_devices - 1 : -1;
        while (n && d >= 0 && strcmp(c->devices[d]->name, n->placed ? n->placed : "") != 0)
            d--;
        if (n && d < 0)
            return mr_error(MR_INTERNAL, "{{node %s}} is placed on %s, which is not a device of this step", n->name,
                            n->placed ? n->placed : "no device");
        c->device_of[i] = d;
    }
    return NULL;
}

/* ---- adding nodes ---- */

/* Starts a node whose name is unique in the process; finish_node must follow. */
static mr_node_builder *begin_node(cutter *c, const char *op, const char *base)
{
    char *name = mr_printf("%s/_%lld", base, (long long)next_edge());
    mr_node_builder *b = mr_node_begin(c->g, op, name);
    mr_free(name);
    mr_nb_internal(b);
    return b;
}

/* Finishes a node that this pass adds, and records its device. Nodes must be finished in the order of their ids. */
static mr_status *finish_node(cutter *c, mr_node_builder *b, int device, mr_node **out)
{
    MR_TRY(mr_node_finish(b, out));
    MR_ASSERT(device >= 0 && device < c->n_devices);
    MR_ASSERT((*out)->id == c->n_nodes + c->dev_new.n);
    (*out)->placed = c->devices[device]->name;
    mr_vec_push(&c->dev_new, device);
    return NULL;
}

/* An empty tensor, as the start of a control loop or to report that `control` has ended. */
static mr_status *add_empty_const(cutter *c, int device, const char *base, mr_node *control, mr_node **out)
{
    mr_node_builder *b = begin_node(c, "Const", base);
    mr_tensor *empty = mr_tensor_of(MR_FLOAT, 1, (int64_t[]){0}, NULL);
    mr_nb_attr(b, "dtype", mr_a_type(MR_FLOAT));
    mr_nb_attr_tensor(b, "value", empty);
    mr_tensor_unref(empty);
    if (control)
        mr_nb_control(b, control);
    return finish_node(c, b, device, out);
}

/* ---- Enter and NextIteration: moved to where their values are used ---- */

/* True if the node takes a reference, which cannot leave its device. */
static bool by_reference(const mr_node *n) { return mr_dtype_is_ref(n->in_types[0]); }

/* True for an Enter or NextIteration. A constant RefEnter may send: its value is read in every iteration, and may
 * change. */
static bool is_loop_entry(const mr_node *n)
{
    const mr_attr *constant = mr_node_attr(n, "is_constant");
    if (mr_node_is_enter(n))
        return !(by_reference(n) && constant && constant->kind == MR_ATTR_BOOL && constant->b);
    return mr_node_is_next(n);
}

/* Copies an Enter or NextIteration to another device. A reference is read there, so the copy is one for values. */
static mr_status *copy_entry(cutter *c, const mr_node *n, int device, mr_node **out)
{
    mr_node_builder *b = begin_node(c, mr_node_is_enter(n) ? "Enter" : "NextIteration", n->name);
    mr_nb_input(b, n->in[0]);
    for (int i = 0; i < n->n_ctrl; i++)
        mr_nb_control(b, n->ctrl[i]);
    for (int i = 0; i < n->n_attrs; i++)
        mr_nb_attr(b, n->attrs[i].name, n->attrs[i].v);
    return finish_node(c, b, device, out);
}

/* Uses of n on a device go to its copy there. The loop runs backwards, because each change removes a use. */
static mr_status *use_copy(cutter *c, mr_node *n, mr_node *copy, int device)
{
    for (int i = n->uses.n - 1; i >= 0; i--) {
        mr_use u = n->uses.p[i];
        if (device_index(c, u.node) != device)
            continue;
        if (u.input >= 0) {
            MR_TRY(mr_node_set_input(u.node, u.input, (mr_out){copy, 0}));
        } else {
            mr_node_remove_control(u.node, n);
            mr_node_add_control(u.node, copy);
        }
    }
    return NULL;
}

/* The number of uses of n on one device. */
static int count_uses(const cutter *c, const mr_node *n, int device)
{
    int count = 0;
    for (int i = 0; i < n->uses.n; i++)
        count += device_index(c, n->uses.p[i].node) == device;
    return count;
}

/* Moves the node to its consumers if none of them is on its own device, and copies it to every other device that
 * uses it. A node that reads a reference must stay with its variable. */
static mr_status *move_loop_entry(cutter *c, mr_node *n)
{
    if (n->uses.n > 0 && count_uses(c, n, c->device_of[n->id]) == 0 && !by_reference(n))
        c->device_of[n->id] = device_index(c, n->uses.p[0].node);
    int own = c->device_of[n->id];
    n->placed = c->devices[own]->name;
    while (count_uses(c, n, own) < n->uses.n) {
        int other = own;
        for (int i = 0; other == own; i++)
            other = device_index(c, n->uses.p[i].node);
        mr_node *copy;
        MR_TRY(copy_entry(c, n, other, &copy));
        MR_TRY(use_copy(c, n, copy, other));
    }
    return NULL;
}

/* Goes from consumers to producers: an Enter behind another one has moved already. Afterwards the copies count as
 * ordinary nodes. */
static mr_status *move_loop_entries(cutter *c)
{
    mr_node **order = NULL;
    int n = 0;
    MR_TRY(mr_graph_topological(c->g, &order, &n));
    mr_status *st = NULL;
    for (int i = n - 1; i >= 0 && !st; i--)
        if (is_loop_entry(order[i]))
            st = move_loop_entry(c, order[i]);
    mr_free(order);
    MR_TRY(st);
    c->device_of = mr_realloc(c->device_of, sizeof *c->device_of * (size_t)(c->g->nodes.n + 1));
    for (int i = 0; i < c->dev_new.n; i++)
        c->device_of[c->n_nodes + i] = c->dev_new.p[i];
    c->n_nodes = c->g->nodes.n;
    c->dev_new.n = 0;
    return NULL;
}

/* ---- control loops ---- */

/* The Merge of a frame's control loop on a device; NULL: there is none. */
static mr_node **merge_at(cutter *c, int frame, int device) { return &c->merges[frame * c->n_devices + device]; }

/* Makes the Enter and Merge of the control loop on a device, and those of the enclosing loops. close_control_loop
 * adds the predicate. */
static mr_status *open_control_loop(cutter *c, int frame, int device)
{
    if (frame <= 0 || *merge_at(c, frame, device))
        return NULL;
    const mr_frame_info *f = &c->frames.info[frame];
    if (!f->loop_cond)
        return mr_invalid("A cross-device loop must have a LoopCond: frame '%s' has none", f->name);
    MR_TRY(open_control_loop(c, f->parent, device));
    mr_node *start, *enter, *merge;
    MR_TRY(add_empty_const(c, device, f->name, f->parent > 0 ? *merge_at(c, f->parent, device) : NULL, &start));
    mr_node_builder *b = begin_node(c, "Enter", f->name);
    mr_nb_input(b, (mr_out){start, 0});
    mr_nb_attr(b, "frame_name", mr_a_str(f->name));
    mr_nb_attr(b, "parallel_iterations", mr_a_int(f->parallel_iterations));
    MR_TRY(finish_node(c, b, device, &enter));
    b = begin_node(c, "Merge", f->name);
    mr_nb_input_list(b, (mr_out[]){{enter, 0}, {enter, 0}}, 2); /* the second one becomes the back edge */
    MR_TRY(finish_node(c, b, device, &merge));
    *merge_at(c, frame, device) = merge;
    return NULL;
}

/* Adds the Switch on the loop's predicate and the back edge. */
static mr_status *close_control_loop(cutter *c, int frame, int device)
{
    mr_node *merge = *merge_at(c, frame, device), *sw, *next;
    const mr_frame_info *f = &c->frames.info[frame];
    MR_ASSERT(merge && f->loop_cond);
    mr_node_builder *b = begin_node(c, "Switch", f->name);
    mr_nb_input(b, (mr_out){merge, 0});
    mr_nb_input(b, (mr_out){f->loop_cond, 0});
    MR_TRY(finish_node(c, b, device, &sw));
    b = begin_node(c, "NextIteration", f->name);
    mr_nb_input(b, (mr_out){sw, 1});
    MR_TRY(finish_node(c, b, device, &next));
    return mr_node_set_input(merge, 1, (mr_out){next, 0});
}

/* The frame of an edge is that of its producer's output. */
static int edge_frame(const cutter *c, const mr_node *src)
{
    return src->id < c->n_nodes ? mr_frames_out(&c->frames, src) : 0;
}

/* A device that only sends values computed from invariants would not know how often to send. It needs the control
 * loop too, unless it has the loop's condition itself. */
static mr_status *open_at_both_ends(cutter *c, const mr_node *src, const mr_node *dst)
{
    int from = device_index(c, src), to = device_index(c, dst), frame = edge_frame(c, src);
    if (from == to || frame <= 0)
        return NULL;
    MR_TRY(open_control_loop(c, frame, to));
    const mr_node *cond = c->frames.info[frame].loop_cond;
    return cond && device_index(c, cond) == from ? NULL : open_control_loop(c, frame, from);
}

/* Opens a control loop for every edge that will be cut. */
static mr_status *open_where_cut(cutter *c)
{
    for (int i = 0; i < c->n_nodes; i++) {
        mr_node *n = c->g->nodes.p[i];
        if (!n)
            continue;
        for (int k = 0; k < n->n_in + n->n_ctrl; k++)
            MR_TRY(open_at_both_ends(c, k < n->n_in ? n->in[k].node : n->ctrl[k - n->n_in], n));
    }
    return NULL;
}

/* Opens all control loops before any is closed: closing one adds edges from the predicate, which may cross devices
 * in turn and need control loops that exist. */
static mr_status *add_control_loops(cutter *c)
{
    c->merges = mr_new_array(mr_node *, (int64_t)c->frames.n * c->n_devices);
    MR_TRY(open_where_cut(c));
    for (int f = 1; f < c->frames.n; f++)
        for (int d = 0; d < c->n_devices; d++)
            if (*merge_at(c, f, d))
                MR_TRY(close_control_loop(c, f, d));
    return NULL;
}

/* ---- cutting edges ---- */

/* The attrs that identify a transfer; a Send and its Recv have equal ones. */
static void transfer_attrs(cutter *c, mr_node_builder *b, int from, int to, const char *edge)
{
    mr_nb_attr(b, "tensor_name", mr_a_str(edge));
    mr_nb_attr(b, "send_device", mr_a_str(c->devices[from]->name));
    mr_nb_attr(b, "send_device_incarnation", mr_a_int((int64_t)c->devices[from]->incarnation));
    mr_nb_attr(b, "recv_device", mr_a_str(c->devices[to]->name));
}

/* The attr of the node decides, else the session's option. Only floats between tasks are ever shortened. */
static bool is_lossy(const cutter *c, mr_out src, int from, int to)
{
    const mr_attr *own = mr_node_attr(src.node, MR_LOSSY_ATTR);
    if (c->lines[from] == c->lines[to] || mr_dtype_base(mr_out_type(src)) != MR_FLOAT)
        return false;
    return own && own->kind == MR_ATTR_BOOL && !own->is_list ? own->b : c->o->lossy;
}

/* Converts floats to their upper halves, or these back to floats. A NaN remains a NaN. */
static mr_status *add_cast(cutter *c, mr_out x, mr_dtype to, int device, mr_node **out)
{
    mr_node_builder *b = begin_node(c, "Cast", x.node->name);
    mr_nb_input(b, x);
    mr_nb_attr(b, "DstT", mr_a_type(to));
    mr_nb_attr(b, "Truncate", mr_a_bool(true));
    return finish_node(c, b, device, out);
}

/* On the device of src. */
static mr_status *add_send(cutter *c, mr_out src, int to, const char *edge, mr_node **out)
{
    int from = device_index(c, src.node);
    mr_node_builder *b = begin_node(c, "_Send", src.node->name);
    mr_nb_input(b, src);
    mr_nb_attr(b, "T", mr_a_type(mr_dtype_base(mr_out_type(src))));
    transfer_attrs(c, b, from, to, edge);
    return finish_node(c, b, from, out);
}

/* The Recv waits for the control loop of its frame. It gets the static shape of its source, from which the cost of
 * its consumers is estimated. */
static mr_status *add_recv(cutter *c, mr_out src, int to, int frame, const char *edge, mr_node **out)
{
    mr_node_builder *b = begin_node(c, "_Recv", src.node->name);
    mr_nb_attr(b, "tensor_type", mr_a_type(mr_dtype_base(mr_out_type(src))));
    transfer_attrs(c, b, device_index(c, src.node), to, edge);
    if (frame > 0 && *merge_at(c, frame, to))
        mr_nb_control(b, *merge_at(c, frame, to));
    MR_TRY(finish_node(c, b, to, out));
    return mr_out_refine_shape((mr_out){*out, 0}, mr_out_shape(src));
}

/* Adds a Send after `src` on its device and the matching Recv on device `to`. */
static mr_status *add_transfer(cutter *c, mr_out src, int to, int frame, mr_cut_edge *t)
{
    mr_status *st = NULL;
    int from = device_index(c, src.node);
    MR_ASSERT(from != to);
    bool lossy = is_lossy(c, src, from, to);
    char *edge = mr_printf("edge_%lld_%s", (long long)next_edge(), src.node->name);
    *t = (mr_cut_edge){.remote = c->lines[from] != c->lines[to], .line = c->lines[to]};
    if (lossy) {
        mr_node *half;
        MR_GO(add_cast(c, src, MR_BFLOAT16, from, &half));
        src = (mr_out){half, 0};
    }
    MR_GO(add_send(c, src, to, edge, &t->send));
    MR_GO(add_recv(c, src, to, frame, edge, &t->recv));
    t->value = t->recv;
    if (lossy)
        MR_GO(add_cast(c, (mr_out){t->recv, 0}, MR_FLOAT, to, &t->value));
    mr_vec_push(&c->transfers, *t);
out:
    mr_free(edge);
    return st;
}

/* Numbers all outputs, and one end per node, for transfer_key. Control loops exist already; transfers do not. */
static void count_keys(cutter *c)
{
    int n = c->g->nodes.n;
    int64_t next = 0;
    c->first_key = mr_new_array(int64_t, n + 1);
    for (int i = 0; i < n; i++) {
        c->first_key[i] = next;
        next += c->g->nodes.p[i] ? c->g->nodes.p[i]->n_out + 1 : 0;
    }
}

/* Identifies the transfer of an output, or (index n_out) of the end of a node, to a device. Only nodes that
 * existed before the first transfer have keys. */
static uint64_t transfer_key(const cutter *c, mr_out o, int device)
{
    MR_ASSERT(o.index >= 0 && o.index <= o.node->n_out);
    return (uint64_t)(c->first_key[o.node->id] + o.index) * (uint64_t)c->n_devices + (uint64_t)device;
}

/* True for a Recv, or the Cast after a shortened one. */
static bool is_received(const mr_node *n)
{
    return mr_node_is(n, "_Recv") || (mr_node_is(n, "Cast") && mr_node_is(n->in[0].node, "_Recv"));
}

/* Replaces an input from another device by the received value. A value that is read through a reference must not
 * be read before the other inputs are ready, so its Recv waits for them. A Merge is excepted, because not all its
 * inputs arrive. */
static mr_status *cut_data_edge(cutter *c, mr_node *n, int input)
{
    mr_out src = n->in[input];
    int to = device_index(c, n), frame = edge_frame(c, src.node);
    MR_ASSERT(device_index(c, src.node) != to);
    bool by_ref = mr_dtype_is_ref(mr_out_type(src));
    mr_node *value = by_ref ? NULL : mr_imap_get(&c->recvs, transfer_key(c, src, to));
    if (!value) {
        mr_cut_edge t;
        MR_TRY(add_transfer(c, src, to, frame, &t));
        value = t.value;
        if (!by_ref)
            mr_imap_put(&c->recvs, transfer_key(c, src, to), value);
        for (int i = 0; by_ref && !mr_node_is_merge(n) && i < n->n_in; i++)
            if (i != input && device_index(c, n->in[i].node) == to && !is_received(n->in[i].node))
                mr_node_add_control(t.recv, n->in[i].node);
    }
    return mr_node_set_input(n, input, (mr_out){value, 0});
}

/* An empty tensor reports the end of the source. The Identity after the Recv carries its deadness. */
static mr_status *cut_control_edge(cutter *c, mr_node *n, mr_node *src)
{
    int to = device_index(c, n), frame = edge_frame(c, src);
    MR_ASSERT(device_index(c, src) != to);
    mr_out key = {src, src->n_out};
    mr_node *id = mr_imap_get(&c->recvs, transfer_key(c, key, to));
    if (!id) {
        mr_node *token;
        mr_cut_edge t;
        MR_TRY(add_empty_const(c, device_index(c, src), src->name, src, &token));
        MR_TRY(add_transfer(c, (mr_out){token, 0}, to, frame, &t));
        mr_node_builder *b = begin_node(c, "Identity", src->name);
        mr_nb_input(b, (mr_out){t.value, 0});
        MR_TRY(finish_node(c, b, to, &id));
        mr_imap_put(&c->recvs, transfer_key(c, key, to), id);
    }
    mr_node_remove_control(n, src);
    mr_node_add_control(n, id);
    return NULL;
}

/* Cuts all edges that reach n from other devices. Control inputs are visited backwards, because cutting one
 * removes it. */
static mr_status *cut_node(cutter *c, mr_node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (device_index(c, n->in[i].node) != device_index(c, n))
            MR_TRY(cut_data_edge(c, n, i));
    for (int i = n->n_ctrl - 1; i >= 0; i--)
        if (device_index(c, n->ctrl[i]) != device_index(c, n))
            MR_TRY(cut_control_edge(c, n, n->ctrl[i]));
    return NULL;
}

/* Copies the nodes of each device into a separate graph. */
static mr_status *split_graph(cutter *c, mr_graph **out)
{
    bool *keep = mr_new_array(bool, c->g->nodes.n + 1);
    mr_status *st = NULL;
    for (int d = 0; d < c->n_devices; d++) {
        bool any = false;
        for (int i = 0; i < c->g->nodes.n; i++) {
            keep[i] = c->g->nodes.p[i] && device_index(c, c->g->nodes.p[i]) == d;
            any |= keep[i];
        }
        if (any)
            MR_GO(mr_graph_copy(c->g, keep, &out[d], NULL));
    }
out:
    mr_free(keep);
    return st;
}

/* A line stands for a task: lines[d] is the first device of d's task. Transfers within a task need no line. */
static void find_lines(cutter *c)
{
    mr_device_name *names = mr_new_array(mr_device_name, c->n_devices + 1);
    c->lines = mr_new_array(int, c->n_devices + 1);
    for (int d = 0; d < c->n_devices; d++) {
        int first = 0;
        mr_device_name_parse(mr_sv_of(c->devices[d]->name), &names[d]);
        while (first < d && !mr_device_name_same_task(&names[first], &names[d]))
            first++;
        c->lines[d] = first;
    }
    mr_free(names);
}

/* Nodes that scheduling adds are on the device of their first control input. */
static mr_status *schedule_transfers(cutter *c)
{
    int n = c->g->nodes.n;
    MR_TRY(mr_schedule_recvs(c->g, c->transfers.p, c->transfers.n, c->o->schedule));
    for (; n < c->g->nodes.n; n++) {
        const mr_node *added = c->g->nodes.p[n];
        MR_ASSERT(added->n_ctrl > 0);
        mr_vec_push(&c->dev_new, device_index(c, added->ctrl[0]));
    }
    return NULL;
}

/* The device of all nodes, if there is only one; then the graph itself is the partition. Else -1. */
static int only_device(const cutter *c)
{
    int d = -1;
    for (int i = 0; i < c->n_nodes; i++) {
        if (c->device_of[i] < 0)
            continue;
        if (d >= 0 && c->device_of[i] != d)
            return -1;
        d = c->device_of[i];
    }
    return d;
}

/* Cuts the nodes of the graph and of the control loops, but not the transfers that are added meanwhile. On failure
 * all out[i] are NULL. */
mr_status *mr_partition(mr_graph *g, const mr_prepare_options *o, mr_graph **out)
{
    mr_status *st = NULL;
    cutter c = {.g = g, .o = o, .devices = o->devices, .n_devices = o->n_devices, .n_nodes = g->nodes.n};
    memset(out, 0, sizeof *out * (size_t)c.n_devices);
    MR_GO(locate_nodes(&c));
    int only = only_device(&c);
    if (only >= 0) {
        out[only] = mr_graph_ref(g);
        goto out;
    }
    find_lines(&c);
    /* Loop entries first: moving them changes which edges cross devices. Frames are found afterwards, since entries
     * were copied. */
    MR_GO(move_loop_entries(&c));
    MR_GO(mr_frames_find(g, &c.frames));
    MR_GO(add_control_loops(&c));
    /* From here on only transfers are added; they connect nodes of one device and need not be cut. */
    count_keys(&c);
    for (int i = 0, n = g->nodes.n; i < n; i++)
        if (g->nodes.p[i])
            MR_GO(cut_node(&c, g->nodes.p[i]));
    MR_GO(schedule_transfers(&c));
    MR_GO(split_graph(&c, out));
out:
    for (int d = 0; st && d < c.n_devices; d++) {
        mr_graph_unref(out[d]);
        out[d] = NULL;
    }
    mr_imap_deinit(&c.recvs);
    mr_vec_deinit(&c.dev_new);
    mr_vec_deinit(&c.transfers);
    mr_frames_deinit(&c.frames);
    mr_free(c.device_of);
    mr_free(c.lines);
    mr_free(c.merges);
    mr_free(c.first_key);
    return st;
}
