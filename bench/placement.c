/* bench/placement.c -- is placement by cost right?  Random graphs in real sessions on simulated
 * devices.
 *
 *     placement [GRAPHS [FIRST_SEED]]
 *
 * Each graph has random feeds, fetches, variables, control edges and pins, each machine random speeds, links and
 * memory. A session places it by cost; the step that it predicts (mr_session_explain) is compared with the fastest of
 * some steps. Then everything that may move is put on each device in turn: the plan must not be slower than the best of
 * them, except for noise. Prints `name value unit` lines, and each graph that is off, with its seed. Ends with 1 when
 * fewer than 9 of 10 predictions are within 15 %, or a plan is slower than a single device by more than 15 %. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/device_sim.h"
#include "exec/direct_session.h"
#include "graph/scope.h"
#include "ops/table.h"

enum {
    SIDE = 48,
    LONG = 8192,
    MOST_NODES = 24,
    MOST_DEVICES = 3,
    STEPS = 3,
    ROUNDS = 5,
    GRAPHS = 40
};
#define NEAR 1.15

static void must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", mr_status_message(st));
    exit(2);
}

/* ---- chance ---- */

static uint64_t state;

static uint64_t draw(uint64_t n)
{
    state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    uint64_t z = state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % n;
}

/* A random number from low to high, equally likely in each decade. */
static double spread(double low, double high)
{
    return low * pow(high / low, (double)draw(1001) / 1000);
}

/* ---- a graph and its machine ---- */

typedef struct trial {
    int n_devices, n_variables;
    mr_device_sims sims;
    mr_graph *g;
    mr_scope s;
    mr_session *session;
    MR_VEC(mr_out) values, feeds, fetches; /* matrices; of them the fed and the fetched */
    MR_VEC(mr_node *) targets, assigns, free, variables; /* free: nodes that a plan may move */
} trial;

/* Nodes and transfers take some milliseconds, so that late timers on a busy machine matter little. */
static void draw_machine(trial *t)
{
    mr_str text = {0};
    t->n_devices = 2 + (int)draw(MOST_DEVICES - 1);
    bool scarce = draw(3) == 0;
    for (int i = 0; i < t->n_devices; i++) {
        mr_str_printf(
            &text,
            "GPU:%d=flops_per_s=%g,bytes_per_s=%g,op_us=%g,latency_us=%g,link_bytes_per_s=%g", i,
            spread(1e7, 2e8), spread(2e7, 4e8), spread(2500, 15000), spread(250, 15000),
            spread(6e5, 2e8));
        if (scarce) /* memory for one or two variables, and for intermediate results */
            mr_str_printf(&text, ",memory_bytes=%d",
                          (1 + (int)draw(2)) * SIDE * LONG * 4 + (1 << 20));
        mr_str_appendc(&text, ';');
    }
    for (int i = 0; i + 1 < t->n_devices; i++)
        mr_str_printf(&text, "GPU:%d-GPU:%d=latency_us=%g,bytes_per_s=%g;", i, i + 1,
                      spread(100, 5000), spread(2e6, 2e8));
    must(mr_device_sims_parse(&t->sims, mr_str_view(&text)));
    mr_str_deinit(&text);
}

/* A node for the simulated devices: free, or pinned to one of them. */
static mr_out place(trial *t, mr_out o)
{
    char device[32];
    bool pinned = draw(8) == 0;
    snprintf(device, sizeof device, "/device:GPU:%d", (int)draw((uint64_t)t->n_devices));
    mr_node_set_device(o.node, pinned ? device : "/device:GPU:*");
    if (!pinned)
        mr_vec_push(&t->free, o.node);
    return o;
}

static mr_out any_value(const trial *t) { return t->values.p[draw((uint64_t)t->values.n)]; }

static void draw_variable(trial *t, mr_arena *a)
{
    int32_t dims[] = {SIDE, LONG};
    const mr_pshape *shape = mr_pshape_matrix(a, SIDE, LONG);
    mr_out v = mr_emit0_with(&t->s, "VarHandleOp",
                             MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}, {"shape", mr_a_shape(shape)},
                                      {"shared_name", mr_a_str(mr_graph_unique_name(t->g, "v"))}));
    mr_node_set_device(v.node, "/device:GPU:*");
    mr_vec_push(&t->variables, v.node);
    mr_out value = mr_emit_with(&t->s, "RandomUniform", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}),
                                mr_const_vec_i32(&t->s, 2, dims));
    mr_vec_push(&t->assigns, mr_emit(&t->s, "AssignVariableOp", v, value).node);
    mr_out read =
        mr_emit_with(&t->s, "ReadVariableOp", MR_ATTRS({"dtype", mr_a_type(MR_FLOAT)}), v);
    mr_out sum = place(t, mr_emit(&t->s, "Sum", read, mr_const_i32(&t->s, 1)));
    mr_vec_push(&t->values, place(t, mr_emit(&t->s, "Add", any_value(t), sum)));
    t->n_variables++;
}

static void draw_graph(trial *t)
{
    mr_arena a;
    int n = 8 + (int)draw(MOST_NODES - 7);
    mr_arena_init(&a, 0);
    t->g = mr_graph_new();
    mr_scope_init(&t->s, t->g, "");
    for (int i = 0; i < n; i++) {
        char name[20];
        snprintf(name, sizeof name, "feed%d", i);
        uint64_t kind = t->feeds.n == 0 ? 0 : draw(12);
        if (kind < 2) {
            mr_out x = mr_placeholder(&t->s, MR_FLOAT, name, mr_pshape_matrix(&a, SIDE, SIDE));
            mr_vec_push(&t->feeds, x);
            mr_vec_push(&t->values, x);
        } else if (kind == 2 && t->n_variables < 3) {
            draw_variable(t, &a);
        } else {
            static const char *const ops[] = {"MatMul", "MatMul", "Add", "Mul", "Tanh"};
            const char *op = ops[draw(MR_COUNT(ops))];
            mr_out x = any_value(t), y = any_value(t);
            mr_out z = place(t, strcmp(op, "Tanh") == 0 ? mr_emit(&t->s, op, x)
                                                        : mr_emit(&t->s, op, x, y));
            if (draw(8) == 0)
                mr_node_add_control(z.node, t->values.p[0].node);
            mr_vec_push(&t->values, z);
        }
        must(mr_scope_status(&t->s));
    }
    for (int i = 0; i < t->values.n; i++) {
        mr_out o = t->values.p[i];
        if (mr_node_is(o.node, "Placeholder") || (o.node->uses.n && draw(8)))
            continue;
        if (draw(2) || o.node->uses.n)
            mr_vec_push(&t->fetches, o);
        else
            mr_vec_push(&t->targets, o.node);
    }
    mr_arena_deinit(&a);
}

static mr_direct *inside(const trial *t) { return (mr_direct *)t->session; }

static const char *where(const trial *t, const mr_node *n)
{
    const char *full = inside(t)->placements.device[n->id],
               *at = full ? strstr(full, "/device:") : NULL;
    return at ? at : "/device:GPU:0";
}

/* The same graph and machine for the same seed.  like: NULL: free nodes are placed by cost; else
 * they are all on `device`, and variables where that trial has them. */
static mr_status *open_trial(trial *t, uint64_t seed, const trial *like, int device)
{
    char name[32];
    *t = (trial){0};
    state = seed;
    draw_machine(t);
    draw_graph(t);
    snprintf(name, sizeof name, "/device:GPU:%d", device);
    for (int i = 0; like && i < t->free.n; i++)
        mr_node_set_device(t->free.p[i], name);
    for (int i = 0; like && i < t->variables.n; i++)
        mr_node_set_device(t->variables.p[i], where(like, like->variables.p[i]));
    mr_session_config c = {.n_cpus = 1, .placement_period = 1000000, .simulated = &t->sims};
    MR_TRY(mr_direct_session_new(t->g, NULL, &c, &t->session));
    mr_run_args args = {.targets = t->assigns.p, .n_targets = t->assigns.n};
    return t->assigns.n ? mr_session_run(t->session, &args, NULL, NULL) : NULL;
}

static void close_trial(trial *t)
{
    mr_session_free(t->session);
    mr_device_sims_deinit(&t->sims);
    mr_scope_deinit(&t->s);
    mr_graph_unref(t->g);
    mr_vec_deinit(&t->values);
    mr_vec_deinit(&t->feeds);
    mr_vec_deinit(&t->fetches);
    mr_vec_deinit(&t->targets);
    mr_vec_deinit(&t->assigns);
    mr_vec_deinit(&t->free);
    mr_vec_deinit(&t->variables);
}

/* ---- measuring ---- */

typedef struct times {
    double predicted_s, measured_s;
} times;

static double read_prediction(const mr_str *text)
{
    const char *at = strstr(mr_str_z((mr_str *)text), ", step ");
    return at ? atof(at + 7) / 1e3 : 0;
}

static mr_status *run(trial *t, times *out)
{
    mr_tensor **in = mr_new_array(mr_tensor *, t->feeds.n + 1),
              **got = mr_new_array(mr_tensor *, t->fetches.n + 1);
    mr_str text = {0};
    mr_status *st = NULL;
    *out = (times){0, INFINITY};
    for (int i = 0; i < t->feeds.n; i++)
        must(mr_tensor_zeros(mr_cpu_allocator(), MR_FLOAT, 2, (int64_t[]){SIDE, SIDE}, &in[i]));
    mr_run_args a = {.feeds = t->feeds.p,
                     .feed_values = in,
                     .n_feeds = t->feeds.n,
                     .fetches = t->fetches.p,
                     .fetched = got,
                     .n_fetches = t->fetches.n,
                     .targets = t->targets.p,
                     .n_targets = t->targets.n};
    for (int i = 0; i <= STEPS && !st; i++) { /* the first step also places the graph and does not count */
        int64_t start = mr_now_ns();
        st = mr_session_run(t->session, &a, NULL, NULL);
        if (i && !st)
            out->measured_s = MR_MIN(out->measured_s, (double)(mr_now_ns() - start) / 1e9);
        for (int k = 0; k < t->fetches.n; k++) {
            mr_tensor_unref(got[k]);
            got[k] = NULL;
        }
    }
    if (!st)
        st = mr_direct_explain(t->session, &a, &text);
    out->predicted_s = read_prediction(&text);
    for (int i = 0; i < t->feeds.n; i++)
        mr_tensor_unref(in[i]);
    mr_str_deinit(&text);
    mr_free(in);
    mr_free(got);
    return st;
}

typedef struct tally {
    int n, near, none, slower;
    double worst, off; /* ratio of plan to single device; sum of the prediction errors */
} tally;

/* The fastest of several rounds, repeated while it is slower than expected: other work on the machine only ever adds
 * time. */
static mr_status *run_again(trial *t, double wanted_s, times *out)
{
    times again;
    for (int i = 0; i < ROUNDS && out->measured_s > wanted_s; i++) {
        MR_TRY(run(t, &again));
        out->measured_s = MR_MIN(out->measured_s, again.measured_s);
    }
    return NULL;
}

/* One graph: first the plan, then everything movable on each device. */
static void try_graph(uint64_t seed, tally *sum)
{
    trial plan, single;
    times planned, alone;
    double best = INFINITY;
    mr_status *st = open_trial(&plan, seed, NULL, 0);
    if (!st)
        st = run(&plan, &planned);
    if (st) { /* the variables do not fit on any device */
        if (mr_status_code(st) != MR_RESOURCE_EXHAUSTED)
            must(st);
        mr_status_free(st);
        sum->none++;
        close_trial(&plan);
        return;
    }
    for (int d = 0; d < plan.n_devices; d++) {
        st = open_trial(&single, seed, &plan, d);
        if (!st)
            st = run(&single, &alone);
        if (!st)
            best = MR_MIN(best, alone.measured_s);
        mr_status_free(st);
        close_trial(&single);
    }
    must(run_again(&plan, MR_MIN(planned.predicted_s, best) * NEAR, &planned));
    double ratio = planned.measured_s / planned.predicted_s;
    bool near = ratio <= NEAR && ratio >= 1 / NEAR, slower = planned.measured_s > best * NEAR;
    sum->n++;
    sum->near += near;
    sum->off += fabs(ratio - 1);
    sum->slower += slower;
    sum->worst = MR_MAX(sum->worst, planned.measured_s / best);
    if (!near || slower)
        printf("# seed %llu: predicted %.2f ms, measured %.2f ms, best single device %.2f ms\n",
               (unsigned long long)seed, 1e3 * planned.predicted_s, 1e3 * planned.measured_s,
               1e3 * best);
    close_trial(&plan);
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : GRAPHS;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    tally sum = {0};
    mr_ops_register();
    for (int i = 0; i < n; i++)
        try_graph(first + (uint64_t)i, &sum);
    printf("placement_graphs %d graphs\n", sum.n);
    printf("placement_without_room %d graphs\n", sum.none);
    printf("placement_predicted_within_15_percent %.3f share\n",
           sum.n ? (double)sum.near / sum.n : 0);
    printf("placement_mean_deviation %.3f share\n", sum.n ? sum.off / sum.n : 0);
    printf("placement_slower_than_a_single_device %d graphs\n", sum.slower);
    printf("placement_longest_to_best_single_device %.3f ratio\n", sum.worst);
    return sum.n && 10 * sum.near >= 9 * sum.n && !sum.slower ? 0 : 1;
}
