/* sim/measure.c -- runs steps for real and compares them with the simulation. */
#include "sim/measure.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/session.h"
#include "exec/timeline.h"
#include "passes/effort.h"
#include "proto/config.pb-c.h"
#include "wire/message.h"

enum { WARM_UP = 3 };

typedef MR_VEC(double) samples;

/* ---- a graph in a session of this machine ---- */

typedef struct trainer {
    mr_sim_graph_def def;
    mr_session *session;
    MR_VEC(mr_tensor *) values; /* of the feeds */
    samples seconds;
} trainer;

static void trainer_deinit(trainer *t)
{
    mr_session_free(t->session);
    for (int i = 0; i < t->values.n; i++)
        mr_tensor_unref(t->values.p[i]);
    mr_vec_deinit(&t->values);
    mr_vec_deinit(&t->seconds);
    mr_sim_graph_def_deinit(&t->def);
}

/* Random numbers below 1, or integers below 2: valid for pictures, labels and words alike. */
static mr_status *make_value(mr_out feed, mr_tensor **out)
{
    const mr_pshape *s = mr_out_shape(feed);
    mr_dtype type = mr_dtype_base(mr_out_type(feed));
    uint32_t random = 12345;
    MR_TRY(mr_tensor_zeros(NULL, type, s->rank, s->dims, out));
    for (int64_t i = 0; i < (*out)->n; i++) {
        random = random * 1664525u + 1013904223u;
        if (type == MR_FLOAT)
            ((float *)(*out)->data)[i] = (float)(random >> 8) / (float)(1 << 24);
        else
            ((int32_t *)(*out)->data)[i] = (int32_t)(random >> 31);
    }
    return NULL;
}

static mr_status *run_step(trainer *t, const mr_run_options *o, mr_str *metadata)
{
    mr_tensor *loss = NULL;
    mr_run_args a = {.feeds = t->def.feeds.p, .n_feeds = t->def.feeds.n, .feed_values = t->values.p,
                     .fetches = t->def.fetches.p, .n_fetches = t->def.fetches.n, .fetched = &loss,
                     .targets = t->def.targets.p, .n_targets = t->def.targets.n};
    mr_status *st = mr_session_run(t->session, &a, o, metadata);
    mr_tensor_unref(loss);
    return st;
}

static mr_status *timed_step(trainer *t)
{
    int64_t start = mr_now_ns();
    MR_TRY(run_step(t, NULL, NULL));
    mr_vec_push(&t->seconds, (double)(mr_now_ns() - start) / 1e9);
    return NULL;
}

static mr_status *start_trainer(trainer *t, int n_cpus)
{
    /* One thread for each device: a simulated device runs one node at a time. */
    mr_session_config c = {.n_cpus = n_cpus, .intra_threads = 1, .inter_threads = n_cpus > 1 ? n_cpus : -1,
                           .per_session_threads = true};
    mr_run_args init = {.targets = &t->def.init, .n_targets = 1};
    for (int i = 0; i < t->def.feeds.n; i++) {
        mr_tensor *v = NULL;
        MR_TRY(make_value(t->def.feeds.p[i], &v));
        mr_vec_push(&t->values, v);
    }
    MR_TRY(mr_direct_session_new(t->def.g, NULL, &c, &t->session));
    MR_TRY(mr_session_run(t->session, &init, NULL, NULL));
    for (int i = 0; i < WARM_UP; i++)
        MR_TRY(run_step(t, NULL, NULL));
    return NULL;
}

static mr_status *open_trainer(const mr_sim_plan *p, trainer *t)
{
    MR_TRY(mr_sim_graph_open(p, &t->def));
    return start_trainer(t, 1);
}

/* ---- times ---- */

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The mean of the fastest third: other activity on the machine can only make a step longer. */
static double fastest_mean(const samples *s)
{
    samples sorted = {0};
    double sum = 0;
    for (int i = 0; i < s->n; i++)
        mr_vec_push(&sorted, s->p[i]);
    if (s->n)
        qsort(sorted.p, (size_t)s->n, sizeof *sorted.p, by_value);
    int n = (s->n + 2) / 3;
    for (int i = 0; i < n; i++)
        sum += sorted.p[i];
    mr_vec_deinit(&sorted);
    return n ? sum / n : 0;
}

/* A traced step; its metadata stays serialized until the fastest steps are known. */
typedef struct traced {
    double seconds;
    mr_str metadata;
} traced;

typedef MR_VEC(traced) traced_vec;

static mr_status *traced_step(trainer *t, traced_vec *out)
{
    mr_run_options o = {.trace_level = MR_FULL_TRACE};
    traced x = {0};
    int64_t start = mr_now_ns();
    mr_status *st = run_step(t, &o, &x.metadata);
    x.seconds = (double)(mr_now_ns() - start) / 1e9;
    mr_vec_push(out, x);
    return st;
}

static int by_seconds(const void *a, const void *b)
{
    const traced *x = a, *y = b;
    return (x->seconds > y->seconds) - (x->seconds < y->seconds);
}

typedef struct node_time {
    double seconds;
} node_time;

/* Adds `share` of the times of one step to those of its nodes. */
static mr_status *add_times(const traced *x, mr_map *times, double share)
{
    Tensorflow__RunMetadata *m;
    MR_TRY(mr_message_unpack(&tensorflow__run_metadata__descriptor, mr_str_view(&x->metadata), "RunMetadata", (ProtobufCMessage **)&m));
    for (size_t d = 0; m->step_stats && d < m->step_stats->n_dev_stats; d++)
        for (size_t i = 0; i < m->step_stats->dev_stats[d]->n_node_stats; i++) {
            const Tensorflow__NodeExecStats *s = m->step_stats->dev_stats[d]->node_stats[i];
            node_time *t = mr_map_getz(times, s->node_name);
            if (!t)
                mr_map_putz(times, s->node_name, t = mr_new(node_time));
            t->seconds += share * (double)s->all_end_rel_nanos / 1e9;
        }
    mr_message_free(&m->base);
    return NULL;
}

/* Averages whole steps of the fastest third, so that the times of the nodes add up to the time of a step. */
static mr_status *node_times(traced_vec *steps, mr_map *times)
{
    int n = (steps->n + 2) / 3;
    qsort(steps->p, (size_t)steps->n, sizeof *steps->p, by_seconds);
    for (int i = 0; i < n; i++)
        MR_TRY(add_times(&steps->p[i], times, 1.0 / n));
    return NULL;
}

static void free_times(mr_map *times)
{
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    while (mr_map_next(times, &pos, &key, &v))
        mr_free(v);
    mr_map_deinit(times);
}

/* ---- from measured times to another configuration ---- */

static double estimate_seconds(const mr_node *n)
{
    mr_effort e = mr_effort_of(n, MR_USUAL_DIM);
    return mr_speed_cpu.op_s + MR_MAX(e.flops / mr_speed_cpu.flops_per_s, e.bytes / mr_speed_cpu.bytes_per_s);
}

/* The costs of the new graph's nodes on each of two devices: the measured times, scaled by the ratio of the
 * estimates. */
static mr_costs *scale_costs(const mr_sim_step *old, const mr_sim_step *wanted, const mr_map *times, int *n_measured)
{
    mr_costs *c = mr_costs_new();
    mr_map before = {0};
    for (int v = 0; v < old->n_nodes; v++)
        mr_map_putz(&before, old->nodes[v]->name, old->nodes[v]);
    *n_measured = 0;
    for (int v = 0; v < wanted->n_nodes; v++) {
        const mr_node *n = wanted->nodes[v], *o = mr_map_getz(&before, n->name);
        const node_time *t = mr_map_getz(times, n->name);
        if (!t || !o)
            continue;
        double seconds = t->seconds * estimate_seconds(n) / estimate_seconds(o);
        mr_costs_add(c, "/job:localhost/replica:0/task:0/device:CPU:0", mr_sv_of(n->name), seconds);
        mr_costs_add(c, "/job:localhost/replica:0/task:0/device:CPU:1", mr_sv_of(n->name), seconds);
        ++*n_measured;
    }
    mr_map_deinit(&before);
    return c;
}

/* A plan with the same graph on n CPUs of this process, which pass tensors without copying. */
static mr_status *machine_plan(const mr_sim_plan *p, int n, int64_t batch, mr_sim_plan *out)
{
    MR_TRY(mr_sim_plan_parse(n == 1 ? MR_SV("{\"graph\": {\"model\": \"neuron\"}, \"devices\": [{}]}")
                                    : MR_SV("{\"graph\": {\"model\": \"neuron\"}, \"devices\": [{}, {}]}"), "machine", out));
    out->link = (mr_workload_link){5e-6, 1e11};
    out->graph.model = p->graph.model;
    memcpy(out->graph.params, p->graph.params, sizeof out->graph.params);
    return mr_sim_plan_set(out, MR_SV("graph.batch"), (double)batch);
}

/* ---- the whole ---- */

typedef struct measuring {
    mr_sim_plan half, half2, one, two; /* half, half2: measured; one, two: predicted */
    mr_sim_step *old, *guess, *step1, *step2;
    trainer a, b, whole, split; /* b: half the batch, split */
    traced_vec traces;
    mr_map times;
    mr_costs *costs;
} measuring;

static void measuring_deinit(measuring *m)
{
    mr_sim_step_free(m->old);
    mr_sim_step_free(m->guess);
    mr_sim_step_free(m->step1);
    mr_sim_step_free(m->step2);
    trainer_deinit(&m->a);
    trainer_deinit(&m->b);
    trainer_deinit(&m->whole);
    trainer_deinit(&m->split);
    for (int i = 0; i < m->traces.n; i++)
        mr_str_deinit(&m->traces.p[i].metadata);
    mr_vec_deinit(&m->traces);
    free_times(&m->times);
    mr_costs_free(m->costs);
    mr_sim_plan_deinit(&m->half);
    mr_sim_plan_deinit(&m->half2);
    mr_sim_plan_deinit(&m->one);
    mr_sim_plan_deinit(&m->two);
}

static mr_status *open_all(measuring *m, const mr_sim_plan *p, int64_t batch)
{
    MR_TRY(machine_plan(p, 1, batch / 2, &m->half));
    MR_TRY(machine_plan(p, 2, batch / 2, &m->half2));
    MR_TRY(machine_plan(p, 1, batch, &m->one));
    MR_TRY(machine_plan(p, 2, batch, &m->two));
    MR_TRY(mr_sim_step_new(&m->half, NULL, &m->old));
    MR_TRY(mr_sim_step_new(&m->one, NULL, &m->guess));
    MR_TRY(open_trainer(&m->half, &m->a));
    return open_trainer(&m->one, &m->whole);
}

/* Opens the graph of a plan on two devices, each node on the device that the split chose. */
static mr_status *open_placed(measuring *m, const mr_sim_plan *p, trainer *t)
{
    MR_TRY(mr_sim_graph_open(p, &t->def));
    for (int i = 0; i < t->def.g->nodes.n; i++)
        if (m->step2->placed.device[i])
            mr_node_set_device(t->def.g->nodes.p[i], m->step2->placed.device[i]);
    return start_trainer(t, 2);
}

/* Places the split with costs from a few first steps, so that it can run in turn with everything else. */
static mr_status *open_split(measuring *m)
{
    mr_map first = {0};
    traced_vec steps = {0};
    int n;
    mr_status *st = NULL;
    for (int i = 0; i < 3 && !st; i++)
        st = traced_step(&m->a, &steps);
    if (!st)
        st = node_times(&steps, &first);
    if (!st) {
        m->costs = scale_costs(m->old, m->guess, &first, &n);
        st = mr_sim_step_new(&m->two, m->costs, &m->step2);
    }
    for (int i = 0; i < steps.n; i++)
        mr_str_deinit(&steps.p[i].metadata);
    mr_vec_deinit(&steps);
    free_times(&first);
    if (!st)
        st = open_placed(m, &m->two, &m->split);
    return st ? st : open_placed(m, &m->half2, &m->b);
}

static mr_status *one_round(measuring *m)
{
    MR_TRY(traced_step(&m->a, &m->traces));
    MR_TRY(timed_step(&m->whole));
    MR_TRY(timed_step(&m->split));
    MR_TRY(timed_step(&m->a));
    return timed_step(&m->b);
}

/* Predicts the split with its existing placement, from the times measured meanwhile. */
static mr_status *predict_split(measuring *m, mr_sim_plan *p, mr_costs *costs, mr_sim_step **out)
{
    for (int i = 0; i < m->step2->def.g->nodes.n; i++)
        if (m->step2->needed[i])
            mr_vec_push(&p->pins, (mr_sim_pin){.node = mr_arena_strdup(&p->arena, m->step2->def.g->nodes.p[i]->name),
                                               .number = strcmp(m->step2->placed.device[i], p->devices.p[1].full) == 0});
    return mr_sim_step_new(p, costs, out);
}

/* Finds by bisection the slowdown of devices that work at the same time for which the predicted split of half the batch
 * matches the measurement. */
static mr_status *find_together(measuring *m, double measured_s, double *out)
{
    mr_sim_step *half;
    int n;
    double low = 1, high = 4;
    mr_costs *costs = scale_costs(m->old, m->old, &m->times, &n);
    mr_status *st = predict_split(m, &m->half2, costs, &half);
    for (int i = 0; i < 40 && !st; i++) {
        double x = (low + high) / 2;
        *(mr_sim_step_shared(half, x) < measured_s ? &low : &high) = x;
    }
    *out = low;
    if (!st)
        mr_sim_step_free(half);
    mr_costs_free(costs);
    return st;
}

/* Uses only times that were measured on one device with half the batch, and the slowdown of two devices. */
static mr_status *predict_steps(measuring *m, mr_sim_measures *out)
{
    mr_sim_step *split;
    MR_TRY(node_times(&m->traces, &m->times));
    mr_costs_free(m->costs);
    m->costs = scale_costs(m->old, m->guess, &m->times, &out->n_nodes);
    out->step_s = fastest_mean(&m->a.seconds);
    MR_TRY(find_together(m, fastest_mean(&m->b.seconds), &out->together));
    MR_TRY(mr_sim_step_new(&m->one, m->costs, &m->step1));
    MR_TRY(predict_split(m, &m->two, m->costs, &split));
    out->config[0].predicted_s = out->config[0].naive_s = m->step1->step_s;
    out->config[1].predicted_s = mr_sim_step_shared(split, out->together);
    out->config[1].naive_s = split->step_s;
    for (int v = 0; v < split->n_nodes; v++)
        out->config[1].moved += split->device[v] == 1;
    mr_sim_step_free(split);
    out->config[0].measured_s = fastest_mean(&m->whole.seconds);
    out->config[1].measured_s = fastest_mean(&m->split.seconds);
    return NULL;
}

/* All configurations run in turns, one step each per round. */
static mr_status *measure_plan(measuring *m, const mr_sim_plan *p, int rounds, const char *save, mr_sim_measures *out)
{
    int at = mr_sim_model_param(p->graph.model, MR_SV("batch"));
    int64_t batch = p->graph.params[at];
    if (batch < 2)
        return mr_invalid("graph.batch: a batch of 1 cannot be halved");
    *out = (mr_sim_measures){.batch = batch / 2, .rounds = rounds};
    out->config[0] = (mr_sim_measured){.devices = 1, .batch = batch};
    out->config[1] = (mr_sim_measured){.devices = 2, .batch = batch};
    MR_TRY(open_all(m, p, batch));
    MR_TRY(open_split(m));
    for (int i = 0; i < rounds; i++)
        MR_TRY(one_round(m));
    MR_TRY(predict_steps(m, out));
    return save ? mr_costs_save(m->costs, save) : NULL;
}

mr_status *mr_sim_measure(const mr_sim_plan *p, int rounds, const char *save, mr_sim_measures *out)
{
    measuring m = {0};
    if (!p->graph.model)
        return mr_invalid("Only built-in networks can be measured: a file does not say which values to feed");
    mr_status *st = measure_plan(&m, p, rounds, save, out);
    measuring_deinit(&m);
    return st;
}

static void put_time(mr_str *out, double s) { mr_put_duration(out, s * 1e9); }

void mr_sim_measures_print(const mr_sim_measures *m, const mr_sim_plan *p, mr_str *out)
{
    mr_str_printf(out, "%s on this machine, one thread per device, %d rounds\n\n", p->graph.model->name, m->rounds);
    mr_str_printf(out, "measured node by node: batch %lld on one device, %d nodes, a step ", (long long)m->batch, m->n_nodes);
    put_time(out, m->step_s);
    mr_str_printf(out, "\nthe same on two devices: while both work, each takes %.2f times as long\n\n", m->together);
    mr_str_printf(out, "%7s  %6s  %10s  %10s  %9s\n", "devices", "batch", "predicted", "measured", "predicted/measured");
    for (int i = 0; i < MR_COUNT(m->config); i++) {
        const mr_sim_measured *c = &m->config[i];
        mr_str a = {0}, b = {0};
        put_time(&a, c->predicted_s);
        put_time(&b, c->measured_s);
        mr_str_printf(out, "%7d  %6lld  %10s  %10s  %9.2f\n", c->devices, (long long)c->batch, mr_str_z(&a), mr_str_z(&b),
                      c->predicted_s / c->measured_s);
        mr_str_deinit(&a);
        mr_str_deinit(&b);
    }
    mr_str_printf(out, "\nof the two devices the second has %d nodes; if they shared nothing, a step would take ", m->config[1].moved);
    put_time(out, m->config[1].naive_s);
    mr_str_appendc(out, '\n');
}
