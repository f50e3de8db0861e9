/* tests/fuzz/plan.c -- plans of `millrace sim`, generated from keys and values and then damaged; and files of costs.
 *
 * Most plans are only read. Some accepted plans are also simulated, small ones to save time: their times must be
 * plausible, and a second simulation must give the same result. */
#include <math.h>

#include "base/memory.h"
#include "ops/table.h"
#include "sim/show.h"
#include "sim/training.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

enum { READ, SIMULATED, TRAINED, N_COUNTS };
static const mr_terminal terminal = {.width = 80, .color = true};

/* ---- plans out of keys and values ---- */

static void put_value(fuzz_rng *r, mr_str *out)
{
    static const char *const values[] = {"0",  "1",   "2",    "3",      "7",     "64",    "1e3",  "0.5",  "-1",   "1e-9",    "1e300",
                                         "true", "false", "null", "\"cpu0\"", "\"gpu0\"", "\"\"", "[]", "{}", "\"sync\"", "\"worker\"", "1e18"};
    mr_str_appendz(out, fuzz_pick(r, values));
}

static void put_numbers(fuzz_rng *r, mr_str *out, const char *const *keys, int n)
{
    for (int i = 0; i < n; i++)
        if (fuzz_once_in(r, 4)) {
            mr_str_printf(out, ", \"%s\": ", keys[i]);
            if (fuzz_once_in(r, 12))
                put_value(r, out);
            else
                mr_str_printf(out, "%lld", (long long)fuzz_between(r, 1, 20));
        }
}

static void put_graph(fuzz_rng *r, mr_str *out)
{
    static const char *const models[] = {"neuron", "mlp", "mlp", "mlp", "lenet", "lstm", "transformer", "inception", "vgg"};
    static const char *const keys[] = {"batch", "inputs", "hidden", "layers", "classes", "units", "time", "width", "heads", "size"};
    const char *model = fuzz_pick(r, models);
    mr_str_printf(out, "\"graph\": {\"model\": \"%s\"", model);
    if (strcmp(model, "mlp") == 0)
        put_numbers(r, out, keys, 5);
    else if (fuzz_once_in(r, 3))
        put_numbers(r, out, keys, fuzz_once_in(r, 4) ? MR_COUNT(keys) : 1);
    mr_str_appendc(out, '}');
}

static void put_devices(fuzz_rng *r, mr_str *out)
{
    static const char *const keys[] = {"speedup", "flops_per_s", "bytes_per_s", "op_us", "memory_bytes", "task"};
    mr_str_appendz(out, ", \"devices\": [");
    for (uint64_t i = 0, n = fuzz_below(r, 5); i < n; i++) {
        mr_str_printf(out, "%s{\"type\": \"%s\"", i ? ", " : "", fuzz_once_in(r, 2) ? "CPU" : "GPU");
        put_numbers(r, out, keys, MR_COUNT(keys) - (fuzz_once_in(r, 3) ? 0 : 2));
        mr_str_appendc(out, '}');
    }
    mr_str_appendc(out, ']');
}

static void put_links(fuzz_rng *r, mr_str *out)
{
    static const char *const keys[] = {"latency_us", "bytes_per_s"}, *const ends[] = {"cpu0", "cpu1", "gpu0", "x"};
    mr_str_appendz(out, ", \"links\": [");
    for (uint64_t i = 0, n = fuzz_below(r, 3); i < n; i++) {
        mr_str_printf(out, "%s{\"from\": \"%s\", \"to\": \"%s\"", i ? ", " : "", fuzz_pick(r, ends), fuzz_pick(r, ends));
        put_numbers(r, out, keys, 2);
        mr_str_appendc(out, '}');
    }
    mr_str_appendc(out, ']');
}

static void put_cluster(fuzz_rng *r, mr_str *out)
{
    static const char *const keys[] = {"workers", "ps",      "backup", "delay",   "steps",     "warmup",       "seed",      "rpc_us", "window",
                                       "hosts",   "tail_ms", "cores",  "spread",  "restart_s", "checkpoint_s", "lease_s",   "ps_mtbf_s", "worker_mtbf_s"};
    static const char *const modes[] = {"async", "sync", "backup", "bounded", "adaptive", "allreduce", "allreduce", "other"};
    mr_str_printf(out, ", \"cluster\": {\"mode\": \"%s\"", fuzz_pick(r, modes));
    put_numbers(r, out, keys, MR_COUNT(keys));
    if (fuzz_once_in(r, 3))
        mr_str_printf(out, ", \"crashes\": [{\"task\": \"%s\", \"at_s\": %d}]", fuzz_once_in(r, 2) ? "ps" : "worker",
                      (int)fuzz_below(r, 5));
    if (fuzz_once_in(r, 3))
        mr_str_printf(out, ", \"slow\": [{\"worker\": %d, \"factor\": %d}]", (int)fuzz_below(r, 5), (int)fuzz_below(r, 5));
    else if (fuzz_once_in(r, 3))
        mr_str_printf(out, ", \"slow\": [{\"task\": \"%s\", \"index\": %d, \"at_s\": 0.%d, \"for_s\": %d}]",
                      fuzz_once_in(r, 2) ? "ps" : "worker", (int)fuzz_below(r, 3), (int)fuzz_below(r, 10), (int)fuzz_below(r, 5));
    if (fuzz_once_in(r, 3))
        mr_str_printf(out, ", \"cuts\": [{\"worker\": %d, \"at_s\": 0.0%d, \"for_s\": %d.5}]", (int)fuzz_below(r, 3),
                      (int)fuzz_below(r, 10), (int)fuzz_below(r, 15));
    if (fuzz_once_in(r, 3))
        mr_str_printf(out, ", \"checkpoints\": [%d, 0.0%d]", (int)fuzz_below(r, 5), (int)fuzz_below(r, 10));
    mr_str_appendc(out, '}');
}

static void make_plan(fuzz_rng *r, mr_str *out)
{
    mr_str_appendc(out, '{');
    put_graph(r, out);
    if (!fuzz_once_in(r, 4))
        put_devices(r, out);
    if (fuzz_once_in(r, 4))
        put_links(r, out);
    if (fuzz_once_in(r, 4))
        mr_str_printf(out, ", \"pins\": [{\"node\": \"%s\", \"device\": \"cpu0\"}]", fuzz_once_in(r, 2) ? "layer1/" : "x");
    if (fuzz_once_in(r, 3))
        put_cluster(r, out);
    mr_str_appendc(out, '}');
    for (uint64_t k = fuzz_once_in(r, 2) ? fuzz_below(r, 4) : 0; k > 0; k--)
        fuzz_damage(r, out);
}

/* ---- what was accepted ---- */

/* Some networks are large whatever their parameters are; each is tried occasionally. */
static bool is_small(const mr_sim_plan *p, fuzz_rng *r)
{
    const mr_sim_model *m = p->graph.model;
    if (!m)
        return false;
    if (strcmp(m->name, "neuron") == 0)
        return fuzz_once_in(r, 8);
    if (strcmp(m->name, "mlp") == 0)
        return p->graph.params[3] <= 4 && fuzz_once_in(r, 16);
    return strcmp(m->name, "lenet") == 0 && fuzz_once_in(r, 100);
}

static void check_step(const mr_sim_step *s)
{
    if (!(s->step_s >= 0) || !isfinite(s->step_s))
        fuzz_fail("a step takes %g s", s->step_s);
    for (int v = 0; v < s->n_nodes; v++)
        if (!(s->planned.play.start[v] >= s->planned.play.ready_at[v] &&
              s->planned.play.finish[v] <= s->step_s * (1 + 1e-9)))
            fuzz_fail("%s runs at another time in the second simulation", s->nodes[v]->name);
    double *single = mr_sim_single_steps(s);
    for (int d = 0; d < s->n_devices; d++)
        if (!(s->step_s <= single[d]))
            fuzz_fail("a step of %g s, and of %g s on device %d alone", s->step_s, single[d], d);
    mr_free(single);
}

static void train(fuzz_run *r, mr_sim_plan *p, mr_sim_step *s, mr_str *text)
{
    mr_sim_training t;
    p->cluster.steps = MR_MIN(MR_MAX(p->cluster.steps, 1), 5);
    p->cluster.job.max_events = 200000; /* crashes may come faster than steps end: that is reported, and need not be
                                         * simulated for long */
    mr_status *st = mr_sim_training_run(p, s, &t);
    fuzz_say(r, "trained: %s", mr_status_message(st));
    if (!st) {
        r->counts[TRAINED]++;
        if (!(t.result.total_s >= 0) || !isfinite(t.result.total_s))
            fuzz_fail("a training takes %g s", t.result.total_s);
        mr_sim_show_training(&t, &terminal, text);
        mr_sim_training_json(&t, text);
        mr_sim_training_deinit(&t);
    }
    mr_status_free(st);
}

static void simulate(fuzz_run *r, mr_sim_plan *p)
{
    mr_sim_step *s;
    mr_str text = {0};
    p->visits = MR_MIN(p->visits, 2000);
    mr_status *st = mr_sim_step_new(p, NULL, &s);
    fuzz_say(r, "simulated: %s", mr_status_message(st));
    if (!st) {
        r->counts[SIMULATED]++;
        check_step(s);
        mr_sim_show_summary(s, NULL, &terminal, &text);
        mr_status_free(mr_sim_show_placement(s, &terminal, &text));
        mr_sim_show_timeline(s, &terminal, &text);
        mr_sim_show_json(s, NULL, &text);
        if (p->cluster.given && p->cluster.workers <= 50)
            train(r, p, s, &text);
        mr_sim_step_free(s);
    }
    mr_str_deinit(&text);
    mr_status_free(st);
}

static void try_plan(fuzz_run *r, mr_sv bytes)
{
    mr_sim_plan p;
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_sim_plan_parse(exact, "plan", &p);
    fuzz_say(r, "%.*s\n%s", MR_SV_ARG(bytes), mr_status_message(st));
    mr_free((void *)(uintptr_t)exact.p);
    if (!st) {
        r->counts[READ]++;
        if (p.devices.n < 1 || p.devices.n > MR_SIM_MAX_DEVICES || (!p.graph.model && !p.graph.file))
            fuzz_fail("a plan without devices or graph");
        if (r->verbose || is_small(&p, &r->rng))
            simulate(r, &p);
        mr_sim_plan_deinit(&p);
    } else if (p.devices.n || p.arena.head) {
        fuzz_fail("a rejected plan left something behind");
    }
    mr_status_free(st);
}

/* ---- the target ---- */

static void prepare(void) { mr_ops_register(); }
static int64_t n_runs(void) { return 500000; }
static int n_counts(void) { return N_COUNTS; }

static void run(fuzz_run *r)
{
    mr_str text = {0};
    make_plan(&r->rng, &text);
    fuzz_note(r, mr_str_view(&text));
    try_plan(r, mr_str_view(&text));
    mr_str_deinit(&text);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    double read = 100.0 * (double)counts[READ] / (double)runs, simulated = 100.0 * (double)counts[SIMULATED] / (double)runs;
    fprintf(out, "read_percent %.1f simulated_percent %.2f trained %lld", read, simulated, (long long)counts[TRAINED]);
    bool ok = runs < 1000 || (read >= 15 && simulated >= 0.3 && counts[TRAINED] > 0);
    if (!ok && err)
        fprintf(err, "fuzz plan: too few plans are accepted\n");
    return ok;
}

const fuzz_target fuzz_plan = {.name = "plan",
                               .about = "plans of simulations, made of keys and values and damaged",
                               .prepare = prepare,
                               .n_runs = n_runs,
                               .n_counts = n_counts,
                               .run = run,
                               .replay = try_plan,
                               .summary = summary};
