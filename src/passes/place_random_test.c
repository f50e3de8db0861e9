/* passes/place_random_test.c -- random graphs with random feeds, fetches, links and memory: a plan
 * is never longer than the best single device, and its total, its nodes' times and its reasons are
 * of one simulation; and a graph that grows is placed as if all of it were looked at each time. */
#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "passes/planned_step.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

enum { GRAPHS = 1000, MOST_DEVICES = 4, MOST_NODES = 30, VISITS = 2000 };

typedef struct world {
    uint64_t seed, random;
    mr_graph *g;
    int n_devices;
    mr_device *devices[MOST_DEVICES];
    mr_workload_link links[MOST_DEVICES * MOST_DEVICES];
    int64_t memory[MOST_DEVICES];
    mr_place_costs costs;
    mr_prepare_options o;
    MR_VEC(mr_out) values, feeds, fetches;
    MR_VEC(mr_node *) targets;
    mr_run_signature sig;
    bool *needed;
    const char **placed;
    bool planned, moved; /* there was a plan; it sends feeds */
} world;

static uint64_t draw(world *w, uint64_t n)
{
    w->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = w->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % n;
}

/* From low to high, as likely in each of its decades. */
static double spread(world *w, double low, double high)
{
    return low * pow(high / low, (double)draw(w, 1001) / 1000);
}

static void draw_devices(world *w)
{
    w->n_devices = 1 + (int)draw(w, MOST_DEVICES);
    bool scarce = draw(w, 3) == 0;
    for (int i = 0; i < w->n_devices; i++) {
        char name[80];
        snprintf(name, sizeof name, "/job:localhost/replica:0/task:0/device:CPU:%d", i);
        MR_CHECK_OK(mr_device_new_cpu(name, NULL, &w->devices[i]));
        w->devices[i]->speed =
            (mr_speed){spread(w, 1e8, 1e12), spread(w, 1e8, 1e11), spread(w, 1e-7, 1e-4)};
        w->memory[i] = scarce ? (int64_t)spread(w, 1e3, 1e6) : INT64_MAX;
    }
    for (int i = 0; i < w->n_devices * w->n_devices; i++)
        w->links[i] = (mr_workload_link){spread(w, 1e-6, 1e-3), spread(w, 1e6, 1e11)};
}

static void add(world *w, mr_node_builder *b, int n_in, const mr_out *in)
{
    mr_node *n = NULL;
    char device[40];
    for (int i = 0; i < n_in; i++)
        mr_nb_input(b, in[i]);
    snprintf(device, sizeof device, "/device:CPU:%d", (int)draw(w, (uint64_t)w->n_devices));
    if (draw(w, 8) == 0)
        mr_nb_device(b, device);
    for (int i = 0; w->values.n && i < (int)draw(w, 8) - 6; i++)
        mr_nb_control(b, w->values.p[draw(w, (uint64_t)w->values.n)].node);
    MR_CHECK_OK(mr_node_finish(b, &n));
    mr_vec_push(&w->values, ((mr_out){n, 0}));
}

/* Inputs, variables and what is computed of them: products, sums and functions of matrices of one
 * size; equal nodes too. */
static void draw_graph(world *w)
{
    int n = 3 + (int)draw(w, MOST_NODES - 2);
    mr_arena a;
    mr_arena_init(&a, 0);
    w->g = mr_graph_new();
    int64_t side = 4 + (int64_t)draw(w, 200);
    const mr_pshape *square = mr_pshape_matrix(&a, side, side);
    for (int i = 0; i < n; i++) {
        char name[20];
        uint64_t kind = w->values.n < 2 ? draw(w, 2) : draw(w, 10);
        snprintf(name, sizeof name, "n%d", i);
        if (kind < 2) {
            mr_node_builder *b = mr_node_begin(w->g, kind ? "VariableV2" : "Placeholder", name);
            mr_nb_attr(b, "dtype", mr_a_type(MR_FLOAT));
            mr_nb_attr(b, "shape", mr_a_shape(square));
            add(w, b, 0, NULL);
            if (!kind)
                mr_vec_push(&w->feeds, mr_vec_last(&w->values));
            continue;
        }
        mr_out in[] = {w->values.p[draw(w, (uint64_t)w->values.n)],
                       w->values.p[draw(w, (uint64_t)w->values.n)]};
        static const char *const ops[] = {"MatMul", "MatMul", "Add", "Mul", "Tanh"};
        const char *op = ops[draw(w, MR_COUNT(ops))];
        add(w, mr_node_begin(w->g, op, name), strcmp(op, "Tanh") == 0 ? 1 : 2, in);
        if (draw(w, 12) == 0) /* computed values can be fed too */
            mr_vec_push(&w->feeds, mr_vec_last(&w->values));
    }
    mr_arena_deinit(&a);
}

static bool is_fed(const world *w, mr_out o)
{
    for (int i = 0; i < w->feeds.n; i++)
        if (mr_out_eq(w->feeds.p[i], o))
            return true;
    return false;
}

static void draw_signature(world *w)
{
    for (int i = 0; i < w->values.n; i++) {
        if (is_fed(w, w->values.p[i]) || mr_node_is(w->values.p[i].node, "VariableV2"))
            continue;
        bool last = w->values.p[i].node->uses.n == 0;
        if (draw(w, last ? 2 : 10) == 0)
            mr_vec_push(&w->fetches, w->values.p[i]);
        else if (last)
            mr_vec_push(&w->targets, w->values.p[i].node);
    }
    w->sig = (mr_run_signature){.feeds = w->feeds.p,
                            .fetches = w->fetches.p,
                            .targets = w->targets.p,
                            .n_feeds = w->feeds.n,
                            .n_fetches = w->fetches.n,
                            .n_targets = w->targets.n};
}

static void begin(world *w, uint64_t seed)
{
    *w = (world){.seed = seed, .random = seed};
    mr_ops_register();
    draw_devices(w);
    draw_graph(w);
    draw_signature(w);
    w->costs = (mr_place_costs){.links = w->links, .memory = w->memory, .visits = VISITS};
    w->o = (mr_prepare_options){.devices = w->devices,
                                .n_devices = w->n_devices,
                                .costs = &w->costs,
                                .rendezvous = draw(w, 4) == 0};
    w->needed = mr_new_array(bool, w->g->nodes.n + 1);
    w->placed = mr_new_array(const char *, w->g->nodes.n + 1);
}

static void end(world *w)
{
    mr_graph_unref(w->g);
    for (int i = 0; i < w->n_devices; i++)
        mr_device_free(w->devices[i]);
    mr_vec_deinit(&w->values);
    mr_vec_deinit(&w->feeds);
    mr_vec_deinit(&w->fetches);
    mr_vec_deinit(&w->targets);
    mr_free(w->needed);
    mr_free(w->placed);
}

static void complain(const world *w, const char *what, double a, double b)
{
    mr_test_fail(__FILE__, __LINE__, "seed %llu: %s: %.17g and %.17g", (unsigned long long)w->seed,
                 what, a, b);
}

/* ---- one simulation ---- */

typedef struct compared {
    world *w;
    const mr_planned_step *s;
    int n;
} compared;

static void compare_reason(void *arg, const mr_place_reason *r)
{
    compared *c = arg;
    const mr_planned_step *s = c->s;
    c->n++;
    if (r->here.step_s != s->step_s)
        complain(c->w, "reason and total", r->here.step_s, s->step_s);
    for (int v = 0; v < s->w.n_nodes; v++)
        if (s->nodes[v]->mark == r->node->id) {
            if (s->play.finish[v] != r->here.ends_s)
                complain(c->w, "reason and timeline", r->here.ends_s, s->play.finish[v]);
            MR_CHECK_INT(s->device_of[s->group[v]], r->here.device);
            return;
        }
    complain(c->w, "a reason for a node that does not run", r->node->id, 0);
}

/* The total is when the last node ends; what was fed arrives over its link before it is used. */
static void check_times(world *w, const mr_planned_step *s)
{
    double last = 0;
    for (int v = 0; v < s->w.n_nodes; v++) {
        int to = s->device_of[s->group[v]];
        last = MR_MAX(last, s->play.finish[v]);
        for (int e = s->first_input[v]; e < s->first_input[v + 1]; e++) {
            const mr_workload_input *in = &s->inputs.p[e];
            int from = s->device_of[s->group[in->from]];
            const mr_workload_link *l = &w->links[from * w->n_devices + to];
            double way_s = from == to ? 0 : l->latency_s + (double)in->bytes / l->bytes_per_s;
            if (s->play.start[v] < (s->play.finish[in->from] + way_s) * (1 - 1e-9))
                complain(w, "a node starts before its input is there", s->play.start[v],
                         s->play.finish[in->from] + way_s);
        }
        if (s->nodes[v]->mark < 0 && to != 0)
            complain(w, "a feed or fetch away from the client", to, 0);
    }
    if (last != s->step_s)
        complain(w, "the last node's end and the total", last, s->step_s);
}

/* ---- never worse ---- */

static void check_graph(world *w)
{
    mr_planned_step s;
    double best = INFINITY;
    const char **nowhere = mr_new_array(const char *, w->g->nodes.n + 1);
    MR_CHECK_OK(mr_needed(w->g, &w->sig, w->needed));
    for (int d = 0; d < w->n_devices; d++) {
        double alone;
        MR_CHECK_OK(mr_place_alone(w->g, &w->o, &w->sig, nowhere, d, &alone));
        best = MR_MIN(best, alone);
    }
    mr_status *st = mr_place(w->g, &w->o, &w->sig, w->needed, w->placed);
    if (st && (mr_status_code(st) != MR_RESOURCE_EXHAUSTED || !isinf(best)))
        complain(w, mr_status_message(st), best, 0);
    if (!st) {
        MR_CHECK_OK(mr_place_simulate(w->g, &w->o, &w->sig, w->placed, &s));
        if (!(s.step_s <= best) || isinf(s.step_s))
            complain(w, "the plan and the best single device", s.step_s, best);
        check_times(w, &s);
        w->planned = true;
        for (int i = 0; i < s.play.sends.n; i++)
            w->moved |= s.nodes[s.play.sends.p[i].node]->mark < 0;
        compared c = {w, &s, 0};
        MR_CHECK_OK(mr_place_reasons(w->g, &w->o, &w->sig, w->placed, NULL, compare_reason, &c));
        for (int v = 0; v < s.w.n_nodes;
             v++) /* each node has its reason; feeds and fetches need none */
            c.n -= s.nodes[v]->mark >= 0;
        MR_CHECK_INT(c.n, 0);
        mr_planned_step_deinit(&s);
    }
    mr_status_free(st);
    mr_free(nowhere);
}

MR_TEST(place_random_graphs_are_never_longer_than_on_the_best_single_device)
{
    int n_planned = 0, n_moved = 0;
    mr_test_deadline(120);
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        world w;
        begin(&w, seed);
        if (w.fetches.n + w.targets.n)
            check_graph(&w);
        n_planned += w.planned;
        n_moved += w.moved;
        end(&w);
    }
    MR_CHECK(n_planned > GRAPHS * 3 / 4 &&
             n_moved > GRAPHS / 10); /* else they are not what this is about */
}

/* ---- graphs that grow ---- */

/* Names of nodes n0 ... n(n-1), or of the next few, which do not exist yet. */
static void add_colocation(world *w, mr_node_builder *b, int n)
{
    char text[40];
    uint64_t span = draw(w, 20) == 0 ? (uint64_t)n + 3 : (uint64_t)n;
    if (!n || draw(w, 5))
        return;
    snprintf(text, sizeof text, "loc:@n%d", (int)draw(w, span));
    mr_sv one = mr_sv_of(text);
    mr_nb_attr(b, "_class", mr_a_strs(1, &one));
}

static mr_out some_reference(world *w)
{
    for (int i = 0; i < 20 && w->values.n; i++) {
        mr_out o = w->values.p[draw(w, (uint64_t)w->values.n)];
        if (mr_node_is(o.node, "VariableV2"))
            return o;
    }
    return MR_NO_OUT;
}

/* Constants and variables, sums, assignments and shapes; with devices and colocations that may contradict. */
static void grow_graph(world *w)
{
    static const char *const ops[] = {"Placeholder", "VariableV2", "Add", "Assign", "Shape"};
    char name[20];
    int n = w->g->nodes.n;
    uint64_t kind = draw(w, MR_COUNT(ops));
    mr_out ref = kind == 3 ? some_reference(w) : MR_NO_OUT, in[2] = {ref, MR_NO_OUT};
    if (w->values.n < 2 || (kind == 3 && !ref.node))
        kind = 1;
    snprintf(name, sizeof name, "n%d", n);
    mr_node_builder *b = mr_node_begin(w->g, ops[kind], name);
    add_colocation(w, b, n);
    if (kind < 2) {
        mr_nb_attr(b, "dtype", mr_a_type(MR_FLOAT));
        mr_nb_attr(b, "shape", mr_a_shape(&mr_pshape_unknown));
    }
    for (int i = kind == 3; i < 2; i++)
        in[i] = w->values.n ? w->values.p[draw(w, (uint64_t)w->values.n)] : MR_NO_OUT;
    add(w, b, kind < 2 ? 0 : kind == 4 ? 1 : 2, in);
    if (kind == 4)
        w->values.n--; /* integers are no inputs of the others */
}

/* Places with what is remembered, and everything with the same placements: both must agree. */
static void place_twice(world *w, mr_placements *kept)
{
    int n = w->g->nodes.n;
    kept->device = mr_realloc(kept->device, sizeof *kept->device * (size_t)n);
    memset(kept->device + kept->n, 0, sizeof *kept->device * (size_t)(n - kept->n));
    kept->n = n;
    const char **all = mr_new_array(const char *, n + 1);
    memcpy(all, kept->device, sizeof *all * (size_t)n);
    mr_status *some_st = mr_place_added(w->g, &w->o, NULL, kept), *all_st = mr_place(w->g, &w->o, NULL, NULL, all);
    if (!some_st != !all_st)
        complain(w, some_st ? mr_status_message(some_st) : mr_status_message(all_st), some_st != NULL, all_st != NULL);
    for (int i = 0; i < n; i++)
        if (!all[i] != !kept->device[i] || (all[i] && strcmp(all[i], kept->device[i]) != 0))
            complain(w, w->g->nodes.p[i]->name, i, n);
    mr_status_free(some_st);
    mr_status_free(all_st);
    mr_free(all);
}

MR_TEST(place_added_nodes_where_placing_all_nodes_would)
{
    mr_test_deadline(120);
    mr_ops_register();
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        world w = {.seed = seed, .random = seed, .g = mr_graph_new()};
        mr_placements kept = {0};
        draw_devices(&w);
        w.o = (mr_prepare_options){.devices = w.devices, .n_devices = w.n_devices, .soft_placement = draw(&w, 2)};
        for (int i = 0; i < 20; i++)
            grow_graph(&w);
        for (int step = 0; step < 12; step++) {
            for (int i = (int)draw(&w, 4); i >= 0; i--)
                grow_graph(&w);
            place_twice(&w, &kept);
        }
        mr_placements_deinit(&kept);
        end(&w);
    }
}
