/* sim/step.c -- from a plan to a simulated step. */
#include "sim/step.h"

#include "base/memory.h"

/* ---- the graph ---- */

mr_status *mr_sim_graph_open(const mr_sim_plan *p, mr_sim_graph_def *out)
{
    MR_TRY(p->graph.model ? mr_sim_model_build(p->graph.model, p->graph.params, out) : mr_sim_graph_file_open(p, out));
    if (out->g->nodes.n <= MR_SIM_MAX_GRAPH_NODES)
        return NULL;
    mr_status *st = mr_error(MR_RESOURCE_EXHAUSTED, "The graph has %d nodes; at most %d can be simulated", out->g->nodes.n,
                             MR_SIM_MAX_GRAPH_NODES);
    mr_sim_graph_def_deinit(out);
    return st;
}

/* ---- devices ---- */

/* Planned devices of any type are assumed to have the kernels of a CPU. */
static void leave_device(mr_device *d) { (void)d; }
static const mr_device_type planned_cpu = {.name = "CPU", .priority = 60, .free = leave_device};
static const mr_device_type planned_gpu = {.name = "GPU", .kernels = "CPU", .priority = 210, .free = leave_device};

static mr_device *plan_device(const mr_sim_device *from, int number)
{
    mr_device *d = mr_new(mr_device);
    d->type = from->type == MR_SIM_GPU ? &planned_gpu : &planned_cpu;
    d->name = from->full;
    d->incarnation = (uint64_t)number + 1;
    d->speed = (mr_speed){from->flops_per_s * from->speedup, from->bytes_per_s * from->speedup, from->op_s / from->speedup};
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
        return mr_invalid("Costs are given twice: by the plan's file of costs and by the caller");
    s->costs = mr_costs_new();
    s->place.measured = s->costs;
    return mr_costs_load(s->costs, s->plan->costs);
}

/* ---- placing ---- */

static void pin_nodes(mr_sim_step *s)
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

static mr_run_signature run_signature(const mr_sim_graph_def *d)
{
    return (mr_run_signature){.feeds = d->feeds.p, .n_feeds = d->feeds.n, .fetches = d->fetches.p, .n_fetches = d->fetches.n,
                          .targets = d->targets.p, .n_targets = d->targets.n};
}

/* Places the nodes that the step needs. The devices only serve for planning. */
static mr_status *place_nodes(mr_sim_step *s)
{
    const mr_sim_graph_def *d = &s->def;
    mr_run_signature sig = run_signature(d);
    s->place.links = s->links;
    s->place.memory = s->memory;
    s->place.visits = s->plan->visits;
    s->place.cancelled = s->plan->cancelled;
    /* What is shown is the graph as it was written, so nodes are not fused. */
    s->options = (mr_prepare_options){.devices = s->devices, .n_devices = s->n_devices, .soft_placement = true,
                                      .no_fuse = true, .no_simplify = true,
                                      .costs = &s->place, .placements = &s->placed};
    s->needed = mr_new_array(bool, d->g->nodes.n + 1);
    MR_TRY(mr_needed(d->g, &sig, s->needed));
    for (int i = 0; i < d->g->nodes.n; i++)
        s->n_needed += s->needed[i];
    s->placed.device = mr_new_array(const char *, d->g->nodes.n + 1);
    s->placed.n = d->g->nodes.n;
    return mr_place(d->g, &s->options, &sig, s->needed, s->placed.device);
}

/* ---- the step ---- */

/* Collects the numbers of the nodes, their devices, and how long each device works. */
static void gather_nodes(mr_sim_step *s)
{
    const mr_planned_step *p = &s->planned;
    s->n_nodes = p->w.n_nodes;
    s->nodes = p->nodes;
    s->step_s = p->step_s;
    s->device = mr_new_array(int, s->n_nodes + 1);
    s->number = mr_new_array(int, p->g->nodes.n + 1);
    s->busy_s = mr_new_array(double, s->n_devices);
    for (int v = 0; v < s->n_nodes; v++) {
        s->number[s->nodes[v]->id] = v;
        s->device[v] = p->device_of[p->group[v]];
        s->busy_s[s->device[v]] += p->play.finish[v] - p->play.start[v];
    }
}

static mr_status *simulate_step(mr_sim_step *s)
{
    MR_TRY(mr_sim_graph_open(s->plan, &s->def));
    pin_nodes(s);
    MR_TRY(place_nodes(s));
    mr_run_signature sig = run_signature(&s->def);
    MR_TRY(mr_place_simulate(s->def.g, &s->options, &sig, s->placed.device, &s->planned));
    gather_nodes(s);
    return NULL;
}

mr_status *mr_sim_step_new(const mr_sim_plan *p, mr_costs *costs, mr_sim_step **out)
{
    mr_sim_step *s = mr_new(mr_sim_step);
    s->plan = p;
    make_devices(s);
    mr_status *st = load_costs(s, costs);
    if (!st)
        st = simulate_step(s);
    if (st) {
        mr_sim_step_free(s);
        return st;
    }
    *out = s;
    return NULL;
}

mr_status *mr_sim_step_alone(const mr_sim_step *s, int device, double *seconds)
{
    const char **nowhere = mr_new_array(const char *, s->def.g->nodes.n + 1);
    mr_run_signature sig = run_signature(&s->def);
    mr_status *st = mr_place_alone(s->def.g, &s->options, &sig, nowhere, device, seconds);
    mr_free(nowhere);
    return st;
}

/* Each explained node costs a simulated step for every device. */
enum { MOST_VISITS = 50000000 };

mr_status *mr_sim_step_reasons(const mr_sim_step *s, const bool *wanted, void (*tell)(void *arg, const mr_place_reason *r), void *arg)
{
    mr_run_signature sig = run_signature(&s->def);
    int64_t n = 0;
    for (int i = 0; i < s->def.g->nodes.n; i++)
        n += s->needed[i] && (!wanted || wanted[i]);
    if (n * s->n_devices * s->n_needed > MOST_VISITS)
        return mr_error(MR_RESOURCE_EXHAUSTED,
                        "%lld nodes on %d devices are too many to explain at once; name a few of them", (long long)n,
                        s->n_devices);
    return mr_place_reasons(s->def.g, &s->options, &sig, s->placed.device, wanted, tell, arg);
}

/* Counts the reasons that pass through it. */
typedef struct counted_tell {
    void (*tell)(void *arg, const mr_place_reason *r);
    void *arg;
    int n;
} counted_tell;

static void count_and_tell(void *arg, const mr_place_reason *r)
{
    counted_tell *c = arg;
    c->n++;
    c->tell(c->arg, r);
}

mr_status *mr_sim_step_explain(const mr_sim_step *s, const char *node, void (*tell)(void *arg, const mr_place_reason *r), void *arg)
{
    bool *wanted = mr_new_array(bool, s->def.g->nodes.n + 1);
    counted_tell c = {tell, arg, 0};
    int n = 0;
    for (int i = 0; i < s->def.g->nodes.n; i++) {
        wanted[i] = s->needed[i] && (!node || strncmp(s->def.g->nodes.p[i]->name, node, strlen(node)) == 0);
        n += wanted[i];
    }
    mr_status *st = n ? mr_sim_step_reasons(s, wanted, count_and_tell, &c)
                      : mr_invalid("The step does not run a node '%s'", node ? node : "");
    if (!st && !c.n)
        st = mr_invalid("The step does not run '%s': it is computed when the step is prepared, or merged with an equal node",
                        node ? node : "");
    mr_free(wanted);
    return st;
}

void mr_sim_step_free(mr_sim_step *s)
{
    if (!s)
        return;
    mr_planned_step_deinit(&s->planned);
    for (int i = 0; i < s->n_devices; i++)
        mr_free(s->devices[i]);
    mr_free(s->devices);
    mr_free(s->links);
    mr_free(s->memory);
    mr_free(s->needed);
    mr_free(s->device);
    mr_free(s->number);
    mr_free(s->busy_s);
    mr_placements_deinit(&s->placed);
    mr_costs_free(s->costs);
    mr_sim_graph_def_deinit(&s->def);
    mr_free(s);
}
