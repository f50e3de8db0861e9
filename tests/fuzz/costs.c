/* tests/fuzz/costs.c -- files of measured costs: generated and damaged lines.
 *
 * Everything that is accepted must give valid times, for nodes and devices that it names and for others. */
#include <math.h>

#include "base/memory.h"
#include "ops/table.h"
#include "passes/costs.h"
#include "sim/models.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

static mr_sim_graph_def def;
static mr_device devices[2];

static void put_line(fuzz_rng *r, mr_str *out)
{
    static const char *const where[] = {"/job:localhost/replica:0/task:0/device:CPU:0", "/job:localhost/replica:0/task:0/device:GPU:0", "x", "bytes", ""};
    static const char *const numbers[] = {"0", "1", "7", "65535", "65536", "1e-9", "0.25", "1e300", "-1", "nan", "inf", "9223372036854775807", "5e-324"};
    const mr_node *n = def.g->nodes.p[fuzz_below(r, (uint64_t)def.g->nodes.n)];
    bool size = fuzz_once_in(r, 3);
    mr_str_printf(out, "%s\t%s\t", size ? "bytes" : fuzz_pick(r, where), n->name);
    if (fuzz_once_in(r, 6))
        mr_str_printf(out, "%s\t%s\n", fuzz_pick(r, numbers), fuzz_pick(r, numbers));
    else if (size)
        mr_str_printf(out, "%d\t%lld\n", (int)fuzz_below(r, 3), (long long)(fuzz_u64(r) >> (1 + fuzz_below(r, 60))));
    else
        mr_str_printf(out, "%d\t%g\n", (int)fuzz_between(r, 1, 100), pow(10, (double)fuzz_between(r, -12, 8)));
}

static void check_costs(const mr_costs *c)
{
    mr_device *both[] = {&devices[0], &devices[1]};
    int n = def.g->nodes.n;
    double *seconds = mr_new_array(double, 2 * n);
    mr_costs_fill(c, def.g->nodes.p, n, both, 2, seconds);
    for (int i = 0; i < 2 * n; i++)
        if (!(seconds[i] >= 0) || !isfinite(seconds[i]))
            fuzz_fail("%s takes %g s", def.g->nodes.p[i / 2]->name, seconds[i]);
    for (int i = 0; i < n; i++)
        if (def.g->nodes.p[i]->n_out && mr_costs_bytes(c, (mr_out){def.g->nodes.p[i], 0}) < 0)
            fuzz_fail("%s has a negative number of bytes", def.g->nodes.p[i]->name);
    mr_free(seconds);
}

static void try_file(fuzz_run *r, mr_sv bytes)
{
    mr_costs *c = mr_costs_new();
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_costs_parse(c, exact, "costs");
    fuzz_say(r, "%zu bytes: %s", bytes.n, mr_status_message(st));
    mr_free((void *)(uintptr_t)exact.p);
    r->counts[0] += !st;
    check_costs(c); /* lines before a bad one count too */
    mr_status_free(st);
    mr_costs_free(c);
}

static void prepare(void)
{
    int64_t params[MR_SIM_MAX_PARAMS] = {4, 3};
    if (def.g)
        return;
    mr_ops_register();
    fuzz_must(mr_sim_model_build(mr_sim_model_find(MR_SV("neuron")), params, &def), "a neuron");
    devices[0] = (mr_device){.name = "/job:localhost/replica:0/task:0/device:CPU:0", .speed = mr_speed_cpu};
    devices[1] = (mr_device){.name = "/job:localhost/replica:0/task:0/device:GPU:0", .speed = {1e12, 1e11, 5e-6}};
}

static int64_t n_runs(void) { return 500000; }
static int n_counts(void) { return 1; }

static void run(fuzz_run *r)
{
    mr_str text = {0};
    for (uint64_t n = fuzz_below(&r->rng, 12); n > 0; n--)
        put_line(&r->rng, &text);
    for (uint64_t k = fuzz_once_in(&r->rng, 3) ? fuzz_below(&r->rng, 4) : 0; k > 0; k--)
        fuzz_damage(&r->rng, &text);
    fuzz_note(r, mr_str_view(&text));
    try_file(r, mr_str_view(&text));
    mr_str_deinit(&text);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    double read = 100.0 * (double)counts[0] / (double)runs;
    fprintf(out, "read_percent %.1f", read);
    if (runs >= 1000 && read < 15 && err)
        fprintf(err, "fuzz costs: too few files are accepted\n");
    return runs < 1000 || read >= 15;
}

const fuzz_target fuzz_costs = {.name = "costs",
                                .about = "files of measured costs, made and damaged",
                                .prepare = prepare,
                                .n_runs = n_runs,
                                .n_counts = n_counts,
                                .run = run,
                                .replay = try_file,
                                .summary = summary};
