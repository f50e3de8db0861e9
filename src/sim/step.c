/* sim/step.c -- from a plan to a simulated step. */
#include "sim/step.h"

#include "base/file.h"
#include "base/memory.h"
#include "graph/graph_def.h"

/* ---- the graph ---- */

static mr_status *import(const char *path, mr_graph *g)
{
    mr_str bytes = {0};
    mr_status *st = mr_file_read_all(path, &bytes);
    size_t n = strlen(path);
    if (!st && n > 6 && strcmp(path + n - 6, ".pbtxt") == 0)
        st = mr_graph_import_text(g, mr_str_view(&bytes), NULL);
    else if (!st)
        st = mr_graph_import(g, mr_str_view(&bytes), NULL, NULL);
    mr_str_deinit(&bytes);
    return st ? mr_status_prepend(st, "%s: ", path) : NULL;
}

static mr_status *find_tensor(const mr_sim_plan *p, const mr_graph *g, const char *name, bool node_only, mr_out *out)
{
    mr_tensor_name t;
    if (!mr_tensor_name_parse(mr_sv_of(name), &t) || t.index < 0)
        return mr_invalid("'%s' is not the name of a tensor", name);
    *out = (mr_out){mr_graph_find(g, t.node), t.index};
    if (!out->node || (!node_only && t.index >= out->node->n_out))
        return mr_invalid("%s: there is no '%s'", p->graph.file, name);
    return NULL;
}

static mr_status *find_ends(const mr_sim_plan *p, mr_sim_graph_def *d)
{
    const mr_sim_graph_plan *from = &p->graph;
    mr_out o;
    for (int i = 0; i < from->feeds.n; i++) {
        MR_TRY(find_tensor(p, d->g, from->feeds.p[i], false, &o));
        mr_vec_push(&d->feeds, o);
    }
    for (int i = 0; i < from->fetches.n; i++) {
        MR_TRY(find_tensor(p, d->g, from->fetches.p[i], false, &o));
        mr_vec_push(&d->fetches, o);
    }
    for (int i = 0; i < from->targets.n; i++) {
        MR_TRY(find_tensor(p, d->g, from->targets.p[i], true, &o));
        mr_vec_push(&d->targets, o.node);
    }
    for (int i = 0; !from->feeds.n && i < d->g->nodes.n; i++)
        if (mr_node_is(d->g->nodes.p[i], "Placeholder"))
            mr_vec_push(&d->feeds, (mr_out){d->g->nodes.p[i], 0});
    return NULL;
}

static mr_status *open_file(const mr_sim_plan *p, mr_sim_graph_def *out)
{
    *out = (mr_sim_graph_def){.g = mr_graph_new()};
    mr_status *st = import(p->graph.file, out->g);
    if (!st)
        st = find_ends(p, out);
    if (st)
        mr_sim_graph_def_deinit(out);
    return st;
}

mr_status *mr_sim_graph_open(const mr_sim_plan *p, mr_sim_graph_def *out)
{
    MR_TRY(p->graph.model ? mr_sim_model_build(p->graph.model, p->graph.params, out) : open_file(p, out));
    if (out->g->nodes.n <= MR_SIM_MAX_GRAPH_NODES)
        return NULL;
    mr_status *st = mr_error(MR_RESOURCE_EXHAUSTED, "The graph has %d nodes; at most %d can be simulated", out->g->nodes.n,
                             MR_SIM_MAX_GRAPH_NODES);
    mr_sim_graph_def_deinit(out);
    return st;
}

/* ---- devices ---- */

/* Whatever their names say, planned devices are believed to have the kernels of a CPU. */
static void leave_device(mr_device *d) { (void)d; }
static const mr_device_type planned_cpu = {.name = "CPU", .priority = 60, .free = leave_device};
static const mr_device_type planned_gpu = {.name = "GPU", .kernels = "CPU", .priority = 210, .free = leave_device};

static mr_device *plan_device(const mr_sim_device *from, int number)
{
    mr_device *d = mr_new(mr_device);
    d->type = from->type == MR_SIM_GPU ? &planned_gpu : &planned_cpu;
    d->name = from->full;
    d->incarnation = (uint64_t)number + 1;
    d->speed = (mr_speed){from->flops_per_s * from->speed, from->bytes_per_s * from->speed, from->op_s / from->speed};
    return d;
}

static void make_devices(mr_sim_step *s)
{
    const mr_sim_plan *p = s->plan;
    int n = s->n_devices = p->devices.n;
    s->devices = mr_new_array(mr_device *, n);
    s->memory = mr_new_array(int64_t, n);
    s->links = mr_new_array(mr_workload_link, n * n);
    for (int i = 0; i < n; i++) {
        s->devices[i] = plan_device(&p->devices.p[i], i);
        s->memory[i] = (int64_t)p->devices.p[i].memory_bytes;
        for (int k = 0; k < n; k++)
            s->links[i * n + k] = mr_sim_plan_link(p, i, k);
    }
}

static mr_status *load_costs(mr_sim_step *s, mr_costs *costs)
{
    if (!s->plan->costs) {
        s->place.measured = costs;
        return NULL;
    }
    if (costs)
        return mr_invalid("The plan names a file of costs, and there are others");
    s->costs = mr_costs_new();
    s->place.measured = s->costs;
    return mr_costs_load(s->costs, s->plan->costs);
}

/* ---- placing and cutting ---- */

/* All but what is fed. */
static void pin_all(mr_sim_step *s, int device)
{
    for (int i = 0; i < s->def.g->nodes.n; i++)
        if (!mr_node_is(s->def.g->nodes.p[i], "Placeholder"))
            mr_node_set_device(s->def.g->nodes.p[i], s->devices[device]->name);
}

static void pin(mr_sim_step *s)
{
    for (int k = 0; k < s->plan->pins.n; k++) {
        const mr_sim_pin *pin = &s->plan->pins.p[k];
        size_t n = strlen(pin->node);
        bool all = pin->node[n - 1] == '/';
        for (int i = 0; i < s->def.g->nodes.n; i++) {
            mr_node *node = s->def.g->nodes.p[i];
            if (all ? strncmp(node->name, pin->node, n) == 0 : strcmp(node->name, pin->node) == 0)
                mr_node_set_device(node, s->devices[pin->number]->name);
        }
    }
}

/* A session takes whatever is fed; here all of it is believed to be as large as the graph says. */
static mr_status *shape_args(mr_sim_step *s, mr_graph *g)
{
    for (int i = 0; i < g->nodes.n; i++) {
        int64_t feed;
        if (!g->nodes.p[i] || !mr_node_is(g->nodes.p[i], "_Arg"))
            continue;
        MR_TRY(mr_node_get_int(g->nodes.p[i], "index", &feed));
        MR_ENSURE(feed >= 0 && feed < s->def.feeds.n);
        MR_TRY(mr_out_refine_shape((mr_out){g->nodes.p[i], 0}, mr_out_shape(s->def.feeds.p[feed])));
    }
    return NULL;
}

/* As passes/prepare.c has it. */
static mr_status *optimise_and_cut(mr_sim_step *s, mr_graph *g)
{
    mr_frames frames;
    MR_TRY(mr_frames_find(g, &frames));
    mr_frames_deinit(&frames);
    MR_TRY(mr_fold(g, 0));
    MR_TRY(mr_cse(g));
    MR_TRY(shape_args(s, g));
    return mr_partition(g, &s->options, s->parts);
}

static mr_status *prepare(mr_sim_step *s)
{
    const mr_sim_graph_def *d = &s->def;
    mr_signature sig = {.feeds = d->feeds.p, .n_feeds = d->feeds.n, .fetches = d->fetches.p, .n_fetches = d->fetches.n,
                        .targets = d->targets.p, .n_targets = d->targets.n};
    s->place.links = s->links;
    s->place.memory = s->memory;
    s->place.visits = s->plan->visits;
    s->options = (mr_prepare_options){.devices = s->devices, .n_devices = s->n_devices, .soft_placement = true,
                                      .costs = &s->place, .placements = &s->placed};
    s->needed = mr_new_array(bool, d->g->nodes.n + 1);
    MR_TRY(mr_needed(d->g, &sig, s->needed));
    for (int i = 0; i < d->g->nodes.n; i++)
        s->n_needed += s->needed[i];
    s->placed.device = mr_new_array(const char *, d->g->nodes.n + 1);
    s->placed.n = d->g->nodes.n;
    MR_TRY(mr_place(d->g, &s->options, s->needed, s->placed.device));
    mr_graph *g;
    MR_TRY(mr_prune(d->g, &sig, &s->options, &g));
    mr_status *st = optimise_and_cut(s, g);
    mr_graph_unref(g);
    return st;
}

/* ---- the parts as one work ---- */

static mr_sv text_attr(const mr_node *n, const char *name)
{
    const mr_attr *a = mr_node_attr(n, name);
    return a && a->kind == MR_ATTR_STRING && !a->is_list ? a->s : MR_SV("");
}

static mr_status *list_nodes(mr_sim_step *s)
{
    int room = 0;
    for (int d = 0; d < s->n_devices; d++)
        room += s->parts[d] ? s->parts[d]->nodes.n : 0;
    s->nodes = mr_new_array(mr_node *, room + 1);
    s->device = mr_new_array(int, room + 1);
    for (int d = 0; d < s->n_devices; d++) {
        mr_node **order;
        int n;
        if (!s->parts[d])
            continue;
        MR_TRY(mr_graph_topological(s->parts[d], &order, &n));
        for (int i = 0; i < n; i++) {
            order[i]->mark = s->n_nodes;
            s->device[s->n_nodes] = d;
            s->nodes[s->n_nodes++] = order[i];
        }
        mr_free(order);
    }
    return NULL;
}

/* A Recv finds its Send by the name that both have. */
static void join_transfers(mr_sim_step *s)
{
    mr_map sends = {0};
    s->sender = mr_new_array(int, s->n_nodes + 1);
    for (int v = 0; v < s->n_nodes; v++)
        if (mr_node_is(s->nodes[v], "_Send"))
            mr_map_put(&sends, text_attr(s->nodes[v], "tensor_name"), s->nodes[v]);
    for (int v = 0; v < s->n_nodes; v++) {
        const mr_node *send = mr_node_is(s->nodes[v], "_Recv") ? mr_map_get(&sends, text_attr(s->nodes[v], "tensor_name")) : NULL;
        s->sender[v] = send ? send->mark : -1;
        s->n_sends += send != NULL;
    }
    mr_map_deinit(&sends);
}

static void draw_inputs(mr_sim_step *s, int v, const int *first_tensor)
{
    const mr_node *n = s->nodes[v];
    for (int i = 0; i < n->n_in; i++) {
        int from = n->in[i].node ? n->in[i].node->mark : v;
        if (from < v) /* else the back edge of a loop */
            mr_vec_push(&s->inputs, (mr_workload_input){from, first_tensor[from] + n->in[i].index, 0});
    }
    for (int i = 0; i < n->n_ctrl; i++)
        if (n->ctrl[i]->mark < v)
            mr_vec_push(&s->inputs, (mr_workload_input){n->ctrl[i]->mark, first_tensor[n->ctrl[i]->mark + 1] - 1, 0});
    if (s->sender[v] >= 0) {
        int from = s->sender[v];
        int64_t bytes = mr_costs_bytes(s->place.measured, s->nodes[from]->in[0]);
        mr_vec_push(&s->inputs, (mr_workload_input){from, first_tensor[from + 1] - 1, bytes});
    }
}

/* Bytes matter on the way from a Send to its Recv only: all other edges stay on their device. */
static void draw_edges(mr_sim_step *s)
{
    int *first_tensor = mr_new_array(int, s->n_nodes + 1);
    s->first_input = mr_new_array(int, s->n_nodes + 1);
    for (int v = 0; v < s->n_nodes; v++)
        first_tensor[v + 1] = first_tensor[v] + s->nodes[v]->n_out + 1;
    for (int v = 0; v < s->n_nodes; v++) {
        draw_inputs(s, v, first_tensor);
        s->first_input[v + 1] = s->inputs.n;
    }
    s->work.n_tensors = first_tensor[s->n_nodes];
    mr_free(first_tensor);
}

static mr_status *draw_times(mr_sim_step *s)
{
    size_t cells;
    if (mr_size_mul((size_t)s->n_nodes + 1, (size_t)s->n_devices, &cells))
        s->seconds = mr_try_calloc(cells, sizeof *s->seconds);
    if (!s->seconds)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory to plan %d nodes on %d devices", s->n_nodes, s->n_devices);
    mr_costs_fill(s->place.measured, s->nodes, s->n_nodes, s->devices, s->n_devices, s->seconds);
    for (int v = 0; v < s->n_nodes; v++) /* the link has all that a transfer takes; a measured Recv has waited */
        if (mr_node_is(s->nodes[v], "_Send") || mr_node_is(s->nodes[v], "_Recv"))
            memset(s->seconds + (size_t)v * (size_t)s->n_devices, 0, sizeof *s->seconds * (size_t)s->n_devices);
    return NULL;
}

static mr_status *play(mr_sim_step *s)
{
    s->group = mr_new_array(int, s->n_devices + 1);
    for (int d = 0; d < s->n_devices; d++)
        s->group[d] = d;
    s->work = (mr_workload){.n_nodes = s->n_nodes, .n_groups = s->n_devices, .n_devices = s->n_devices, .group = s->device,
                            .n_tensors = s->work.n_tensors, .seconds = s->seconds, .first_input = s->first_input,
                            .inputs = s->inputs.p, .links = s->links};
    MR_TRY(mr_play_init(&s->play, &s->work));
    s->play.keep_sends = true;
    s->step_s = mr_play_step(&s->play, s->group);
    s->busy_s = mr_new_array(double, s->n_devices);
    for (int v = 0; v < s->n_nodes; v++) {
        if (s->play.pending[v])
            return mr_invalid("{{node %s}} waits for itself over devices", s->nodes[v]->name);
        s->busy_s[s->device[v]] += s->play.finish[v] - s->play.start[v];
    }
    return NULL;
}

/* ---- the whole ---- */

static mr_status *simulate(mr_sim_step *s, int only)
{
    MR_TRY(mr_sim_graph_open(s->plan, &s->def));
    if (only >= 0)
        pin_all(s, only);
    else
        pin(s);
    MR_TRY(prepare(s));
    MR_TRY(list_nodes(s));
    join_transfers(s);
    draw_edges(s);
    MR_TRY(draw_times(s));
    return play(s);
}

mr_status *mr_sim_step_new(const mr_sim_plan *p, mr_costs *costs, int only, mr_sim_step **out)
{
    mr_sim_step *s = mr_new(mr_sim_step);
    s->plan = p;
    make_devices(s);
    s->parts = mr_new_array(mr_graph *, s->n_devices);
    mr_status *st = load_costs(s, costs);
    if (!st)
        st = simulate(s, only);
    if (st) {
        mr_sim_step_free(s);
        return st;
    }
    *out = s;
    return NULL;
}

void mr_sim_step_free(mr_sim_step *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n_devices; i++) {
        mr_graph_unref(s->parts[i]);
        mr_free(s->devices[i]);
    }
    mr_play_deinit(&s->play);
    mr_free(s->parts);
    mr_free(s->devices);
    mr_free(s->links);
    mr_free(s->memory);
    mr_free(s->needed);
    mr_free(s->nodes);
    mr_free(s->device);
    mr_free(s->group);
    mr_free(s->first_input);
    mr_free(s->seconds);
    mr_free(s->sender);
    mr_free(s->busy_s);
    mr_vec_deinit(&s->inputs);
    mr_placements_deinit(&s->placed);
    mr_costs_free(s->costs);
    mr_sim_graph_def_deinit(&s->def);
    mr_free(s);
}
