/* sim/plan.c -- plan.json: the tables of its keys, and the checks between them. */
#include "sim/plan.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/memory.h"
#include "sim/reader.h"

typedef mr_sim_reader reader;
typedef mr_sim_field field;

#define AT(T, member) offsetof(T, member)
#define MS 1e-3
#define US 1e-6

/* ---- lists of names ---- */

static void read_name(reader *r, void *names)
{
    mr_sim_names *list = names;
    mr_vec_push(list, mr_sim_read_text(r));
}

static void read_names(reader *r, mr_sim_names *out) { mr_sim_read_list(r, MR_SIM_MAX_NAMES, out, read_name); }

/* ---- graph ---- */

static void read_feeds(reader *r, void *g) { read_names(r, &((mr_sim_graph_plan *)g)->feeds); }
static void read_fetches(reader *r, void *g) { read_names(r, &((mr_sim_graph_plan *)g)->fetches); }
static void read_targets(reader *r, void *g) { read_names(r, &((mr_sim_graph_plan *)g)->targets); }

static const field graph_fields[] = {
    {"model", MR_SIM_TEXT, AT(mr_sim_graph_plan, model_name),
     .about = "a built-in network; its parameters are further keys of graph (`millrace sim --list`)"},
    {"file", MR_SIM_TEXT, AT(mr_sim_graph_plan, file),
     .about = "instead of model: a GraphDef (.pb, .pbtxt), a MetaGraphDef (.meta) or a SavedModel folder; relative to "
              "the plan"},
    {"signature", MR_SIM_TEXT, AT(mr_sim_graph_plan, signature),
     .about = "for a SavedModel: the signature whose inputs are fed and outputs fetched (default: serving_default, or "
              "the only one)"},
    {"feeds", MR_SIM_OTHER, .words = "list of texts", .read = read_feeds,
     .about = "for a file: tensors to feed (default: every placeholder)"},
    {"fetches", MR_SIM_OTHER, .words = "list of texts", .read = read_fetches,
     .about = "for a file: tensors to fetch (default: its only output)"},
    {"targets", MR_SIM_OTHER, .words = "list of texts", .read = read_targets, .about = "for a file: nodes to run"},
    {0},
};

/* Whether any built-in network has such a parameter. */
static bool is_param(mr_sv key)
{
    int n;
    const mr_sim_model *m = mr_sim_models(&n);
    for (int i = 0; i < n; i++)
        if (mr_sim_model_param(&m[i], key) >= 0)
            return true;
    return false;
}

/* The model may be named after its parameters, so they are kept until the object is complete. */
static bool read_wish(reader *r, void *object, mr_sv key)
{
    mr_sim_graph_plan *g = object;
    if (g->wishes.n >= 4 * MR_SIM_MAX_PARAMS || (mr_json_peek(&r->j) != '0' && !is_param(key)))
        return false;
    for (int i = 0; i < g->wishes.n; i++)
        if (mr_sv_is(key, g->wishes.p[i].key))
            mr_sim_reader_fail(r, "given twice");
    const char *name = mr_arena_strndup(r->arena, key.p, key.n);
    mr_vec_push(&g->wishes, (mr_sim_wish){name, mr_sim_read_whole(r, INT64_MIN, INT64_MAX)});
    return true;
}

static void set_usual(mr_sim_graph_plan *g)
{
    for (int i = 0; g->model->params[i].name; i++)
        g->params[i] = g->model->params[i].usual;
}

static void refuse_wish(reader *r, const mr_sim_graph_plan *g, const char *key)
{
    const char *words[MR_SIM_MAX_PARAMS + MR_COUNT(graph_fields)];
    mr_str known = {0};
    int n = 0;
    for (int i = 0; graph_fields[i].key; i++)
        words[n++] = graph_fields[i].key;
    for (int i = 0; g->model && g->model->params[i].name; i++)
        words[n++] = g->model->params[i].name;
    mr_sim_put_known(mr_sv_of(key), words, n, &known);
    mr_sim_reader_fail(r, "graph.%.100s: %s does not have this key%s", key, g->model ? g->model->name : "a file",
                       mr_str_z(&known));
    mr_str_deinit(&known);
}

static void settle_wish(reader *r, mr_sim_graph_plan *g, const mr_sim_wish *w)
{
    int i = g->model ? mr_sim_model_param(g->model, mr_sv_of(w->key)) : -1;
    if (i < 0)
        refuse_wish(r, g, w->key);
    else if (w->value < g->model->params[i].low || w->value > g->model->params[i].high)
        mr_sim_reader_fail(r, "graph.%s: %lld is out of range, expected %lld to %lld", w->key, (long long)w->value,
                           (long long)g->model->params[i].low, (long long)g->model->params[i].high);
    else
        g->params[i] = w->value;
}

static void refuse_model(reader *r, const char *name)
{
    const char *words[32];
    mr_str known = {0};
    int n;
    const mr_sim_model *m = mr_sim_models(&n);
    for (int i = 0; i < MR_MIN(n, (int)MR_COUNT(words)); i++)
        words[i] = m[i].name;
    mr_sim_put_known(mr_sv_of(name), words, MR_MIN(n, (int)MR_COUNT(words)), &known);
    mr_sim_reader_fail(r, "graph.model: unknown model '%.100s'%s (`millrace sim --list` describes them)", name,
                       mr_str_z(&known));
    mr_str_deinit(&known);
}

/* Checks the graph after all keys have been read: they may come in any order. */
static void settle_graph(reader *r, mr_sim_graph_plan *g)
{
    if (!g->model_name && !g->file)
        mr_sim_reader_fail(r, "graph: model or file is missing");
    if (g->model_name && g->file)
        mr_sim_reader_fail(r, "graph: model and file are both given");
    if (g->model_name && (g->feeds.n || g->fetches.n || g->targets.n || g->signature))
        mr_sim_reader_fail(r, "graph: signature, feeds, fetches and targets are only valid together with file");
    if (g->model_name) {
        g->model = mr_sim_model_find(mr_sv_of(g->model_name));
        if (!g->model)
            refuse_model(r, g->model_name);
        else
            set_usual(g);
    }
    for (int i = 0; i < g->wishes.n && !r->st; i++)
        settle_wish(r, g, &g->wishes.p[i]);
}

/* ---- devices ---- */

static const field device_fields[] = {
    {"name", MR_SIM_TEXT, AT(mr_sim_device, name), .about = "its name in the plan (default: cpu0, cpu1, gpu0 ..)"},
    {"type", MR_SIM_WORD, AT(mr_sim_device, type), .words = "CPU GPU", .about = "as in device strings"},
    {"task", MR_SIM_WHOLE, AT(mr_sim_device, task), 0, 9999, 0, .about = "the process it belongs to"},
    {"speedup", MR_SIM_NUMBER, AT(mr_sim_device, speedup), 1e-6, 1e6, 1,
     .about = "factor on the speed of everything on the device"},
    {"flops_per_s", MR_SIM_NUMBER, AT(mr_sim_device, flops_per_s), 1, 1e21, NAN,
     .about = "speed of arithmetic (default: CPU 2e10, GPU 4e12)"},
    {"bytes_per_s", MR_SIM_NUMBER, AT(mr_sim_device, bytes_per_s), 1, 1e21, NAN,
     .about = "speed of its memory, reads and writes together (default: CPU 8e9, GPU 2e11)"},
    {"op_us", MR_SIM_NUMBER, AT(mr_sim_device, op_s), 0, 1e9, NAN, US,
     .about = "minimum time of a node (default: CPU 1, GPU 5)"},
    {"memory_bytes", MR_SIM_NUMBER, AT(mr_sim_device, memory_bytes), 1, 1e18, 1e18, .about = "memory for variables"},
    {0},
};

static void read_device(reader *r, void *plan)
{
    mr_sim_plan *p = plan;
    mr_sim_device d = {0};
    mr_sim_object_init(device_fields, &d);
    mr_sim_read_object(r, device_fields, &d, NULL);
    mr_vec_push(&p->devices, d);
}

static void read_devices(reader *r, void *plan) { mr_sim_read_list(r, MR_SIM_MAX_DEVICES, plan, read_device); }

static const mr_speed gpu_speed = {.flops_per_s = 4e12, .bytes_per_s = 2e11, .op_s = 5e-6};

static void fill_in(mr_sim_device *d)
{
    const mr_speed *s = d->type == MR_SIM_GPU ? &gpu_speed : &mr_speed_cpu;
    d->flops_per_s = isnan(d->flops_per_s) ? s->flops_per_s : d->flops_per_s;
    d->bytes_per_s = isnan(d->bytes_per_s) ? s->bytes_per_s : d->bytes_per_s;
    d->op_s = isnan(d->op_s) ? s->op_s : d->op_s;
}

static const char *const type_names[] = {"CPU", "GPU"}, *const short_types[] = {"cpu", "gpu"};

static void name_device(mr_sim_plan *p, int i)
{
    mr_sim_device *d = &p->devices.p[i];
    int of_task = 0, of_type = 0;
    for (int k = 0; k < i; k++) {
        of_task += p->devices.p[k].type == d->type && p->devices.p[k].task == d->task;
        of_type += p->devices.p[k].type == d->type;
    }
    d->full = mr_arena_printf(&p->arena, "/job:localhost/replica:0/task:%d/device:%s:%d", (int)d->task, type_names[d->type], of_task);
    if (!d->name)
        d->name = mr_arena_printf(&p->arena, "%s%d", short_types[d->type], of_type);
}

static bool plain_name(const char *name)
{
    size_t n = strlen(name);
    return n > 0 && n <= 30 && strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == n;
}

static void settle_devices(reader *r, mr_sim_plan *p)
{
    if (!p->devices.n) { /* the default: one device */
        mr_vec_push(&p->devices, (mr_sim_device){0});
        mr_sim_object_init(device_fields, &p->devices.p[0]);
    }
    for (int i = 0; i < p->devices.n && !r->st; i++) {
        mr_sim_device *d = &p->devices.p[i];
        fill_in(d);
        name_device(p, i);
        if (!plain_name(d->name))
            mr_sim_reader_fail(r, "devices[%d].name: expected at most 30 letters, digits, - and _", i);
        if (mr_sim_plan_device(p, mr_sv_of(d->name)) != i)
            mr_sim_reader_fail(r, "devices[%d].name: another device is also named '%s'", i, d->name);
    }
}

/* ---- links ---- */

static const field usual_link_fields[] = {
    {"latency_us", MR_SIM_NUMBER, AT(mr_workload_link, latency_s), 0, 1e9, 10, US,
     .about = "latency from one end to the other"},
    {"bytes_per_s", MR_SIM_NUMBER, AT(mr_workload_link, bytes_per_s), 1, 1e21, 1e10,
     .about = "bandwidth; tensors are sent one after the other"},
    {0},
};

static const field network_fields[] = {
    {"latency_us", MR_SIM_NUMBER, AT(mr_workload_link, latency_s), 0, 1e9, 100, US,
     .about = "latency from one end to the other"},
    {"bytes_per_s", MR_SIM_NUMBER, AT(mr_workload_link, bytes_per_s), 1, 1e21, 1e9,
     .about = "bandwidth; tensors are sent one after the other"},
    {0},
};

static const field link_fields[] = {
    {"from", MR_SIM_TEXT, AT(mr_sim_link, from), .about = "the sending device"},
    {"to", MR_SIM_TEXT, AT(mr_sim_link, to), .about = "the receiving device"},
    {"both", MR_SIM_FLAG, AT(mr_sim_link, both), .usual = 1, .about = "the opposite direction is the same"},
    {"latency_us", MR_SIM_NUMBER, AT(mr_sim_link, latency_s), 0, 1e9, 10, US,
     .about = "latency from one end to the other"},
    {"bytes_per_s", MR_SIM_NUMBER, AT(mr_sim_link, bytes_per_s), 1, 1e21, 1e10,
     .about = "bandwidth; tensors are sent one after the other"},
    {0},
};

static void read_link(reader *r, void *plan) { mr_sim_read_object(r, usual_link_fields, &((mr_sim_plan *)plan)->link, NULL); }
static void read_network(reader *r, void *plan) { mr_sim_read_object(r, network_fields, &((mr_sim_plan *)plan)->network, NULL); }

static void read_pair(reader *r, void *plan)
{
    mr_sim_plan *p = plan;
    mr_sim_link l = {0};
    mr_sim_object_init(link_fields, &l);
    mr_sim_read_object(r, link_fields, &l, NULL);
    mr_vec_push(&p->links, l);
}

static void read_links(reader *r, void *plan) { mr_sim_read_list(r, MR_SIM_MAX_LINKS, plan, read_pair); }

static void check_end(reader *r, const mr_sim_plan *p, int i, const char *which, const char *name)
{
    if (!name)
        mr_sim_reader_fail(r, "links[%d].%s: missing", i, which);
    else if (mr_sim_plan_device(p, mr_sv_of(name)) < 0)
        mr_sim_reader_fail(r, "links[%d].%s: unknown device '%.100s'", i, which, name);
}

static void settle_links(reader *r, mr_sim_plan *p)
{
    for (int i = 0; i < p->links.n && !r->st; i++) {
        check_end(r, p, i, "from", p->links.p[i].from);
        check_end(r, p, i, "to", p->links.p[i].to);
    }
}

/* ---- pins ---- */

static const field pin_fields[] = {
    {"node", MR_SIM_TEXT, AT(mr_sim_pin, node),
     .about = "a node, or a prefix of names that ends with a slash (`layer1/`)"},
    {"device", MR_SIM_TEXT, AT(mr_sim_pin, device), .about = "the device for these nodes"},
    {0},
};

static void read_pin(reader *r, void *plan)
{
    mr_sim_plan *p = plan;
    mr_sim_pin pin = {0};
    mr_sim_read_object(r, pin_fields, &pin, NULL);
    mr_vec_push(&p->pins, pin);
}

static void read_pins(reader *r, void *plan) { mr_sim_read_list(r, MR_SIM_MAX_PINS, plan, read_pin); }

static void settle_pins(reader *r, mr_sim_plan *p)
{
    for (int i = 0; i < p->pins.n && !r->st; i++) {
        mr_sim_pin *pin = &p->pins.p[i];
        pin->number = pin->device ? mr_sim_plan_device(p, mr_sv_of(pin->device)) : -1;
        if (!pin->node || !pin->node[0])
            mr_sim_reader_fail(r, "pins[%d].node: missing", i);
        if (pin->number < 0)
            mr_sim_reader_fail(r, "pins[%d].device: unknown device '%.100s'", i, pin->device ? pin->device : "");
    }
}

/* ---- what is shown ---- */

#define SHOWN "placement timeline cluster"

static void read_shown(reader *r, void *plan) { ((mr_sim_plan *)plan)->show |= 1u << mr_sim_read_word(r, SHOWN); }

static void read_show(reader *r, void *plan)
{
    ((mr_sim_plan *)plan)->show = 0;
    mr_sim_read_list(r, 3, plan, read_shown);
}

/* ---- the whole ---- */

static void read_graph(reader *r, void *plan) { mr_sim_read_object(r, graph_fields, &((mr_sim_plan *)plan)->graph, read_wish); }

static const field cluster_fields[];

static void read_cluster(reader *r, void *plan)
{
    mr_sim_plan *p = plan;
    p->cluster.given = true;
    mr_sim_read_object(r, cluster_fields, &p->cluster, NULL);
}

static const field plan_fields[] = {
    {"title", MR_SIM_TEXT, AT(mr_sim_plan, title), .about = "the title, printed first"},
    {"graph", MR_SIM_OTHER, .read = read_graph, .about = "the computation of a step"},
    {"devices", MR_SIM_OTHER, .words = "list", .read = read_devices,
     .about = "the devices; feeds and fetches are on the first one (default: one CPU)"},
    {"link", MR_SIM_OTHER, .read = read_link, .about = "links between devices of one task"},
    {"network", MR_SIM_OTHER, .read = read_network, .about = "links between devices of different tasks"},
    {"links", MR_SIM_OTHER, .words = "list", .read = read_links, .about = "single links that differ from the others"},
    {"pins", MR_SIM_OTHER, .words = "list", .read = read_pins, .about = "nodes with a fixed device"},
    {"costs", MR_SIM_TEXT, AT(mr_sim_plan, costs),
     .about = "a file of measured costs; its path is relative to the plan"},
    {"cluster", MR_SIM_OTHER, .read = read_cluster, .about = "workers and parameter servers that train with this step"},
    {"show", MR_SIM_OTHER, .words = "list of " SHOWN, .read = read_show, .about = "what to show (default: everything)"},
    {"visits", MR_SIM_WHOLE, AT(mr_sim_plan, visits), 1, 20000000, 1000000,
     .about = "effort of the placer: the number of nodes it may simulate"},
    {0},
};

/* ---- cluster ---- */

#define JOB(member) AT(mr_sim_cluster, job.member)

typedef struct slow_plan {
    int task;
    int64_t index, worker; /* -1: not given */
    double factor, at_s, for_s;
} slow_plan;

static const field slow_fields[] = {
    {"task", MR_SIM_WORD, AT(slow_plan, task), .words = "worker ps", .about = "kind of the task that is slow"},
    {"index", MR_SIM_WHOLE, AT(slow_plan, index), 0, MR_SIMTRAIN_MAX_TASKS, 0, .about = "number of the task"},
    {"worker", MR_SIM_WHOLE, AT(slow_plan, worker), 0, MR_SIMTRAIN_MAX_TASKS, NAN,
     .about = "instead of index: number of the worker"},
    {"factor", MR_SIM_NUMBER, AT(slow_plan, factor), 0.01, 1000, 2,
     .about = "factor on the compute time of a worker, or on the time of a message at a parameter server; it applies to "
              "work that begins in the interval, and factors of overlapping intervals multiply"},
    {"at_s", MR_SIM_NUMBER, AT(slow_plan, at_s), 0, 1e9, 0, .about = "when the task becomes slow"},
    {"for_s", MR_SIM_NUMBER, AT(slow_plan, for_s), 1e-6, 1e9, NAN, .about = "for how long (default: to the end)"},
    {0},
};

static void read_slow(reader *r, void *cluster)
{
    mr_sim_cluster *c = cluster;
    slow_plan s = {0};
    mr_sim_object_init(slow_fields, &s);
    s.index = s.worker = -1;
    mr_sim_read_object(r, slow_fields, &s, NULL);
    if (s.worker >= 0 && s.index >= 0)
        mr_sim_reader_fail(r, "index and worker are both given");
    if (s.worker >= 0 && s.task != MR_SIMTRAIN_WORKER)
        mr_sim_reader_fail(r, "worker is given, but the task is a ps; use index");
    int64_t index = MR_MAX(MR_MAX(s.index, s.worker), 0);
    mr_vec_push(&c->slow, (mr_simtrain_slow){(int)index, s.factor, (mr_simtrain_kind)s.task, s.at_s, isnan(s.for_s) ? 0 : s.for_s});
}

static void read_slows(reader *r, void *cluster) { mr_sim_read_list(r, 1000, cluster, read_slow); }

typedef struct crash_plan {
    int task;
    int64_t index;
    double at_s;
    bool silent;
} crash_plan;

static const field crash_fields[] = {
    {"task", MR_SIM_WORD, AT(crash_plan, task), .words = "worker ps chief", .about = "kind of the task that crashes"},
    {"index", MR_SIM_WHOLE, AT(crash_plan, index), 0, MR_SIMTRAIN_MAX_TASKS, 0, .about = "number of the task"},
    {"at_s", MR_SIM_NUMBER, AT(crash_plan, at_s), 0, 1e9, 1, .about = "time of the crash"},
    {"silent", MR_SIM_FLAG, AT(crash_plan, silent),
     .about = "the whole host fails, so only its silence reveals the crash"},
    {0},
};

static void read_crash(reader *r, void *cluster)
{
    mr_sim_cluster *c = cluster;
    crash_plan k = {0};
    mr_sim_object_init(crash_fields, &k);
    mr_sim_read_object(r, crash_fields, &k, NULL);
    mr_vec_push(&c->crashes, (mr_simtrain_crash){(mr_simtrain_kind)k.task, (int)k.index, k.at_s, k.silent});
}

static void read_crashes(reader *r, void *cluster) { mr_sim_read_list(r, 1000, cluster, read_crash); }

typedef struct cut_plan {
    int64_t worker, ps; /* ps -1: not given */
    double at_s, for_s;
} cut_plan;

static const field cut_fields[] = {
    {"worker", MR_SIM_WHOLE, AT(cut_plan, worker), 0, MR_SIMTRAIN_MAX_TASKS, 0, .about = "number of the worker"},
    {"ps", MR_SIM_WHOLE, AT(cut_plan, ps), 0, MR_SIMTRAIN_MAX_TASKS, NAN,
     .about = "number of the parameter server (default: all of them)"},
    {"at_s", MR_SIM_NUMBER, AT(cut_plan, at_s), 0, 1e9, 1, .about = "when the cut begins"},
    {"for_s", MR_SIM_NUMBER, AT(cut_plan, for_s), 1e-6, 1e9, 1, .about = "how long it lasts"},
    {0},
};

static void read_cut(reader *r, void *cluster)
{
    mr_sim_cluster *c = cluster;
    cut_plan k = {0};
    mr_sim_object_init(cut_fields, &k);
    k.ps = -1;
    mr_sim_read_object(r, cut_fields, &k, NULL);
    mr_vec_push(&c->cuts, (mr_simtrain_cut){(int)k.worker, (int)k.ps, k.at_s, k.for_s});
}

static void read_cuts(reader *r, void *cluster) { mr_sim_read_list(r, 1000, cluster, read_cut); }

static void read_checkpoint(reader *r, void *cluster)
{
    mr_vec_push(&((mr_sim_cluster *)cluster)->checkpoints, mr_sim_read_number(r, 0, 1e9));
}

static void read_checkpoints(reader *r, void *cluster) { mr_sim_read_list(r, 1000, cluster, read_checkpoint); }

static const field cluster_fields[] = {
    {"workers", MR_SIM_WHOLE, AT(mr_sim_cluster, workers), 1, 10000, 1, .about = "tasks that compute steps"},
    {"ps", MR_SIM_WHOLE, AT(mr_sim_cluster, ps), 1, 1000, 1, .about = "tasks that hold the parameters (allreduce has none, and ignores this and what describes them)"},
    {"mode", MR_SIM_WORD, AT(mr_sim_cluster, mode), .words = "async sync backup bounded adaptive allreduce",
     .about = "async: no worker waits; sync: all wait for all; backup: the slowest gradients are dropped; bounded: no "
              "worker is far ahead; adaptive: the number of dropped gradients is chosen before each step; allreduce: all wait "
              "for all and reduce their gradients in a ring"},
    {"backup", MR_SIM_WHOLE, AT(mr_sim_cluster, backup), 0, 1000, 0,
     .about = "for sync and backup: additional workers (default for backup: 1)"},
    {"delay", MR_SIM_WHOLE, AT(mr_sim_cluster, delay), 0, 1000000, 4,
     .about = "for bounded: how many steps a worker may be ahead"},
    {"steps", MR_SIM_WHOLE, AT(mr_sim_cluster, steps), 1, 1000000, NAN,
     .about = "steps of each worker (default: up to 200, fewer if the simulation would take long)"},
    {"warmup", MR_SIM_WHOLE, AT(mr_sim_cluster, warmup), 0, 1000000, 5,
     .about = "number of first steps that are not measured"},
    {"seed", MR_SIM_WHOLE, AT(mr_sim_cluster, seed), 0, 9e15, 1, .about = "seed of all random numbers"},
    {"rpc_us", MR_SIM_NUMBER, JOB(rpc_s), 0, 1e9, 200, US, .about = "round trip of the call that begins a step"},
    {"rpc_tail_us", MR_SIM_NUMBER, JOB(rpc_tail_s), 0, 1e9, 0, US,
     .about = "mean random addition to the call to each parameter server"},
    {"latency_us", MR_SIM_NUMBER, JOB(latency_s), 0, 1e9, 0, US, .about = "one-way latency of any message"},
    {"step_us", MR_SIM_NUMBER, JOB(step_s), 0, 1e9, 100, US, .about = "fixed overhead of a step"},
    {"token_us", MR_SIM_NUMBER, JOB(token_s), 0, 1e9, 20, US,
     .about = "for sync: the chief's time to release one worker"},
    {"shard", MR_SIM_FLAG, AT(mr_sim_cluster, shard), .usual = 1,
     .about = "each layer is spread over all parameter servers; otherwise each whole layer is on one server"},
    {"window", MR_SIM_WHOLE, AT(mr_sim_cluster, window), 0, 10000, 0,
     .about = "number of layers requested ahead (0: all)"},
    {"ps_message_us", MR_SIM_NUMBER, JOB(ps_message_s), 0, 1e9, 50, US,
     .about = "fixed time of a message at a parameter server"},
    {"ps_bytes_per_s", MR_SIM_NUMBER, JOB(ps_bytes_per_s), 0, 1e21, 1e9,
     .about = "bandwidth of a parameter server (0: no limit)"},
    {"ps_jitter", MR_SIM_NUMBER, JOB(ps_jitter), 0, 1, 0,
     .about = "random share of a message's time at a parameter server"},
    {"worker_bytes_per_s", MR_SIM_NUMBER, JOB(worker_bytes_per_s), 0, 1e21, 1e9,
     .about = "bandwidth of a worker (0: no limit)"},
    {"duplex", MR_SIM_FLAG, JOB(duplex), .usual = 1, .about = "parameter servers send and receive at the same time"},
    {"hosts", MR_SIM_WHOLE, AT(mr_sim_cluster, hosts), 0, 10000, 0,
     .about = "number of hosts that the tasks share (0: each task has its own)"},
    {"cores", MR_SIM_NUMBER, JOB(cores), 0.01, 1e6, 1, .about = "cores of a shared host"},
    {"worker_cores", MR_SIM_NUMBER, JOB(worker_cores), 0.01, 1e6, 1,
     .about = "cores that one worker can use on a shared host"},
    {"tail_ms", MR_SIM_NUMBER, JOB(tail_s), 0, 1e9, 0, MS, .about = "stragglers: mean random addition to a step"},
    {"tail_share", MR_SIM_NUMBER, JOB(tail_share), 0, 1, 1, .about = "stragglers: share of steps with this addition"},
    {"spread", MR_SIM_NUMBER, JOB(spread), 0, 2, 0,
     .about = "stragglers: spread of worker speeds (sigma of a log-normal factor)"},
    {"slow", MR_SIM_OTHER, .words = "list", .read = read_slows, .about = "stragglers: slow tasks"},
    {"crashes", MR_SIM_OTHER, .words = "list", .read = read_crashes, .about = "failures at given times"},
    {"cuts", MR_SIM_OTHER, .words = "list", .read = read_cuts,
     .about = "times in which no message passes between a worker and parameter servers: messages wait until the cut "
              "ends; a synchronous worker that is cut off for longer than lease_s is not waited for until it is back "
              "(allreduce: no message passes between the worker and the others)"},
    {"worker_mtbf_s", MR_SIM_NUMBER, JOB(worker_mtbf_s), 0, 1e9, 0,
     .about = "mean time between failures of a worker (0: never)"},
    {"ps_mtbf_s", MR_SIM_NUMBER, JOB(ps_mtbf_s), 0, 1e9, 0,
     .about = "mean time between failures of a parameter server (0: never)"},
    {"mtbf_silent", MR_SIM_NUMBER, JOB(mtbf_silent), 0, 1, 0,
     .about = "share of these failures that take down the whole host"},
    {"restart_s", MR_SIM_NUMBER, JOB(restart_s), 0, 1e6, 2, .about = "time until a crashed task runs again"},
    {"open_s", MR_SIM_NUMBER, JOB(open_s), 0, 1e6, 0.1, .about = "time to open a session with the cluster"},
    {"lease_s", MR_SIM_NUMBER, JOB(lease_s), 0, 1e6, 10, 
     .about = "for sync and allreduce: how long to wait for a silent worker"},
    {"chief_s", MR_SIM_NUMBER, JOB(chief_s), 0, 1e6, 10,
     .about = "how long the chief may be silent before another worker takes over"},
    {"checkpoint_s", MR_SIM_NUMBER, JOB(checkpoint_s), 0, 1e9, 0,
     .about = "time between checkpoints (0: no checkpoints)"},
    {"checkpoints", MR_SIM_OTHER, .words = "list of numbers", .read = read_checkpoints,
     .about = "times of further checkpoints, in seconds; one is left out if a checkpoint is being written already, or "
              "if a task that is needed for it is down"},
    {"save_s", MR_SIM_NUMBER, JOB(save_s), 0, 1e6, 0.2, .about = "time to write a checkpoint"},
    {"save_blocks", MR_SIM_FLAG, JOB(save_blocks), .about = "no step begins while a checkpoint is written"},
    {"restore_s", MR_SIM_NUMBER, JOB(restore_s), 0, 1e6, 0.2, .about = "time to restore a checkpoint"},
    {0},
};

static void init_cluster(mr_sim_cluster *c)
{
    mr_simtrain_job_init(&c->job);
    mr_sim_object_init(cluster_fields, c);
}

/* Converts what the tables cannot represent: ints, and modes that set two members. */
static void settle_cluster(mr_sim_cluster *c)
{
    enum { ASYNC, SYNC, BACKUP, BOUNDED, ADAPTIVE, ALLREDUCE };
    static const mr_simtrain_mode modes[] = {MR_SIMTRAIN_ASYNC, MR_SIMTRAIN_SYNC, MR_SIMTRAIN_SYNC, MR_SIMTRAIN_BOUNDED,
                                             MR_SIMTRAIN_SYNC, MR_SIMTRAIN_ALLREDUCE};
    mr_simtrain_job *j = &c->job;
    j->mode = modes[c->mode];
    j->n_workers = (int)c->workers;
    j->n_ps = c->mode == ALLREDUCE ? 0 : (int)c->ps;
    j->backup = c->mode == BACKUP ? (int)MR_MAX(c->backup, 1) : c->mode == SYNC ? (int)c->backup : 0;
    j->adaptive = c->mode == ADAPTIVE;
    j->delay_bound = (int)c->delay;
    j->window = (int)c->window;
    j->n_hosts = (int)c->hosts;
    j->warmup = (int)c->warmup;
    j->seed = (uint64_t)c->seed;
    j->slow = c->slow.p;
    j->n_slow = c->slow.n;
    j->crashes = c->crashes.p;
    j->n_crashes = c->crashes.n;
    j->cuts = c->cuts.p;
    j->n_cuts = c->cuts.n;
    j->checkpoints = c->checkpoints.p;
    j->n_checkpoints = c->checkpoints.n;
}

/* ---- reading ---- */

static void init_plan(mr_sim_plan *p)
{
    *p = (mr_sim_plan){.show = MR_SIM_SHOW_ALL};
    mr_arena_init(&p->arena, 0);
    mr_sim_object_init(plan_fields, p);
    mr_sim_object_init(usual_link_fields, &p->link);
    mr_sim_object_init(network_fields, &p->network);
    init_cluster(&p->cluster);
}

/* Reads the whole text before it checks how the parts fit together. On an error the plan is empty. */
mr_status *mr_sim_plan_parse(mr_sv text, const char *name, mr_sim_plan *p)
{
    reader r;
    init_plan(p);
    mr_sim_reader_init(&r, text, name, &p->arena);
    if (text.n > MR_SIM_MAX_PLAN_BYTES)
        mr_sim_reader_fail(&r, "the plan is too large: %zu bytes", text.n);
    mr_sim_read_object(&r, plan_fields, p, NULL);
    if (!r.j.error) {
        settle_graph(&r, &p->graph);
        settle_devices(&r, p);
        settle_links(&r, p);
        settle_pins(&r, p);
        settle_cluster(&p->cluster);
    }
    mr_status *st = mr_sim_reader_end(&r);
    if (!p->title)
        p->title = "";
    if (st)
        mr_sim_plan_deinit(p);
    return st;
}

/* Paths are relative to the folder of the plan, unless they are absolute. */
static const char *path_beside(mr_sim_plan *p, const char *plan, const char *file)
{
    const char *slash = strrchr(plan, '/');
    if (!file || file[0] == '/' || !slash)
        return file;
    return mr_arena_printf(&p->arena, "%.*s/%s", (int)(slash - plan), plan, file);
}

mr_status *mr_sim_plan_load(const char *path, mr_sim_plan *out)
{
    mr_str text = {0};
    *out = (mr_sim_plan){0};
    mr_status *st = mr_file_read_all(path, &text);
    if (!st)
        st = mr_sim_plan_parse(mr_str_view(&text), path, out);
    mr_str_deinit(&text);
    if (st)
        return st;
    out->graph.file = path_beside(out, path, out->graph.file);
    out->costs = path_beside(out, path, out->costs);
    return NULL;
}

void mr_sim_plan_deinit(mr_sim_plan *p)
{
    mr_vec_deinit(&p->graph.feeds);
    mr_vec_deinit(&p->graph.fetches);
    mr_vec_deinit(&p->graph.targets);
    mr_vec_deinit(&p->graph.wishes);
    mr_vec_deinit(&p->devices);
    mr_vec_deinit(&p->links);
    mr_vec_deinit(&p->pins);
    mr_vec_deinit(&p->cluster.slow);
    mr_vec_deinit(&p->cluster.crashes);
    mr_vec_deinit(&p->cluster.cuts);
    mr_vec_deinit(&p->cluster.checkpoints);
    mr_arena_deinit(&p->arena);
    *p = (mr_sim_plan){0};
}

/* ---- asking and changing ---- */

int mr_sim_plan_device(const mr_sim_plan *p, mr_sv name)
{
    for (int i = 0; i < p->devices.n; i++)
        if (p->devices.p[i].name && mr_sv_is(name, p->devices.p[i].name))
            return i;
    return -1;
}

mr_workload_link mr_sim_plan_link(const mr_sim_plan *p, int from, int to)
{
    const mr_sim_device *a = &p->devices.p[from], *b = &p->devices.p[to];
    for (int i = p->links.n - 1; i >= 0; i--) { /* the last entry wins */
        const mr_sim_link *l = &p->links.p[i];
        bool there = strcmp(l->from, a->name) == 0 && strcmp(l->to, b->name) == 0;
        bool back = l->both && strcmp(l->from, b->name) == 0 && strcmp(l->to, a->name) == 0;
        if (there || back)
            return (mr_workload_link){l->latency_s, l->bytes_per_s};
    }
    return a->task == b->task ? p->link : p->network;
}

/* An error that lists the valid names. */
static mr_status *no_number(mr_sv what, mr_sv key, const char *const *words, int n)
{
    mr_str known = {0};
    mr_sim_put_known(key, words, n, &known);
    mr_status *st = mr_invalid("%.*s: unknown number%s", MR_SV_ARG(what), mr_str_z(&known));
    mr_str_deinit(&known);
    return st;
}

static mr_status *set_field(const field *fields, void *object, mr_sv what, mr_sv key, double value)
{
    const char *words[100];
    int n = 0;
    for (const field *f = fields; f->key; f++) {
        bool number = f->kind == MR_SIM_NUMBER || f->kind == MR_SIM_WHOLE;
        if (number && n < (int)MR_COUNT(words))
            words[n++] = f->key;
        if (!number || !mr_sv_is(key, f->key))
            continue;
        if (!(value >= f->low && value <= f->high))
            return mr_invalid("%.*s: %g is out of range, expected %g to %g", MR_SV_ARG(what), value, f->low, f->high);
        char *to = (char *)object + f->at;
        if (f->kind == MR_SIM_NUMBER)
            *(double *)to = value * (f->unit > 0 ? f->unit : 1);
        else
            *(int64_t *)to = (int64_t)llround(value);
        return NULL;
    }
    return no_number(what, key, words, n);
}

static mr_status *set_param(mr_sim_graph_plan *g, mr_sv what, mr_sv key, double value)
{
    int i = g->model ? mr_sim_model_param(g->model, key) : -1;
    if (i < 0) {
        const char *words[MR_SIM_MAX_PARAMS];
        int n = 0;
        for (; g->model && g->model->params[n].name; n++)
            words[n] = g->model->params[n].name;
        return no_number(what, key, words, n);
    }
    const mr_sim_param *p = &g->model->params[i];
    if (!(value >= (double)p->low && value <= (double)p->high))
        return mr_invalid("%.*s: %g is out of range, expected %lld to %lld", MR_SV_ARG(what), value, (long long)p->low,
                          (long long)p->high);
    g->params[i] = llround(value);
    return NULL;
}

/* `what` is OBJECT.KEY; only numbers can be set. */
mr_status *mr_sim_plan_set(mr_sim_plan *p, mr_sv what, double value)
{
    mr_sv key = what, object;
    if (!mr_sv_cut(&key, '.', &object) || !key.p)
        return mr_invalid("%.*s: expected device:NAME.KEY, graph.KEY, link.KEY, network.KEY or cluster.KEY", MR_SV_ARG(what));
    if (mr_sv_is(object, "graph"))
        return set_param(&p->graph, what, key, value);
    if (mr_sv_is(object, "link") || mr_sv_is(object, "network"))
        return set_field(usual_link_fields, mr_sv_is(object, "link") ? &p->link : &p->network, what, key, value);
    if (mr_sv_is(object, "cluster")) {
        mr_status *st = set_field(cluster_fields, &p->cluster, what, key, value);
        settle_cluster(&p->cluster);
        return st;
    }
    if (!mr_sv_starts(object, "device:"))
        return mr_invalid("%.*s: unknown object '%.*s'; expected device:NAME, graph, link, network or cluster",
                          MR_SV_ARG(what), MR_SV_ARG(object));
    int d = mr_sim_plan_device(p, (mr_sv){object.p + 7, object.n - 7});
    if (d < 0)
        return mr_invalid("%.*s: unknown device", MR_SV_ARG(what));
    return set_field(device_fields, &p->devices.p[d], what, key, value);
}

void mr_sim_plan_keys(mr_str *out)
{
    mr_str_appendz(out, "| key | value | usual | meaning |\n|---|---|---|---|\n");
    mr_sim_print_fields(plan_fields, "", out);
    mr_sim_print_fields(graph_fields, "graph.", out);
    mr_sim_print_fields(device_fields, "devices[].", out);
    mr_sim_print_fields(usual_link_fields, "link.", out);
    mr_sim_print_fields(network_fields, "network.", out);
    mr_sim_print_fields(link_fields, "links[].", out);
    mr_sim_print_fields(pin_fields, "pins[].", out);
    mr_sim_print_fields(cluster_fields, "cluster.", out);
    mr_sim_print_fields(slow_fields, "cluster.slow[].", out);
    mr_sim_print_fields(crash_fields, "cluster.crashes[].", out);
    mr_sim_print_fields(cut_fields, "cluster.cuts[].", out);
}
