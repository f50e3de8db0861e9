/* cli/cmd_sim.c -- `millrace sim`: simulates a plan and shows the result. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/command.h"
#include "sim/measure.h"
#include "sim/show.h"
#include "sim/training.h"

static bool graph, step, explain, json, list, keys, measure;
static const char *trace, *sweep, *costs_file, *save_costs;
static int64_t width, rounds = 15;

static const mr_option options[] = {
    {"graph", MR_OPT_FLAG, &graph, NULL, "list the nodes of the step with their inputs and outputs"},
    {"step", MR_OPT_FLAG, &step, NULL,
     "print the events of one step in order; on a terminal, Enter shows the next event and q stops"},
    {"explain", MR_OPT_FLAG, &explain, NULL,
     "explain why each node is placed on its device; with NODE, only the nodes whose names start with NODE"},
    {"sweep", MR_OPT_STRING, &sweep, "WHAT=A..B", "simulate repeatedly while the number WHAT goes from A to B"},
    {"trace", MR_OPT_STRING, &trace, "FILE",
     "write the timeline to FILE as a Chrome trace, for chrome://tracing or ui.perfetto.dev"},
    {"costs", MR_OPT_STRING, &costs_file, "FILE", "use the measured costs of nodes in FILE instead of estimates"},
    {"measure", MR_OPT_FLAG, &measure, NULL, "run the network on the CPU of this machine and compare with the prediction"},
    {"rounds", MR_OPT_INT, &rounds, "N", "number of rounds of --measure (default 15)"},
    {"save-costs", MR_OPT_STRING, &save_costs, "FILE", "save the costs that --measure finds, for --costs"},
    {"json", MR_OPT_FLAG, &json, NULL, "print the result as one JSON object"},
    {"width", MR_OPT_INT, &width, "N", "width of the output in columns (default: the width of the terminal, or 100)"},
    {"list", MR_OPT_FLAG, &list, NULL, "list the built-in networks and their parameters"},
    {"keys", MR_OPT_FLAG, &keys, NULL, "list the keys of a plan"},
    {0},
};

static const char usual_plan[] =
    "{\"title\": \"LeNet on a CPU and two GPUs\", \"graph\": {\"model\": \"lenet\"},"
    " \"devices\": [{\"type\": \"CPU\"}, {\"type\": \"GPU\"}, {\"type\": \"GPU\", \"speedup\": 0.5}]}";

static void print_models(void)
{
    int n;
    const mr_sim_model *m = mr_sim_models(&n);
    for (int i = 0; i < n; i++) {
        printf("%-12s %s\n", m[i].name, m[i].about);
        for (const mr_sim_param *p = m[i].params; p->name; p++)
            printf("    %-10s %s (%lld; %lld to %lld)\n", p->name, p->about, (long long)p->usual, (long long)p->low, (long long)p->high);
    }
}

static int output_width(void)
{
    struct winsize w;
    if (width > 0)
        return (int)MR_MIN(MR_MAX(width, 60), 1000);
    return isatty(1) && ioctl(1, TIOCGWINSZ, &w) == 0 && w.ws_col >= 60 ? w.ws_col : 100;
}

/* ---- one step ---- */

/* Prints an event of --step. On a terminal, waits for Enter; returns false if the user typed q or the input ended. */
static bool print_event(void *arg, const char *line)
{
    const bool *waits = arg;
    printf("%s", line);
    fflush(stdout);
    if (!*waits) {
        putchar('\n');
        return true;
    }
    int c, first = 0;
    while ((c = getchar()) != '\n' && c != EOF)
        first = first ? first : c;
    return c != EOF && first != 'q';
}

static void print_text(mr_str *text)
{
    fwrite(mr_str_z(text), 1, text->n, stdout);
    mr_str_deinit(text);
}

static mr_status *show_text(const mr_sim_plan *p, const mr_sim_step *s, const mr_sim_training *t, const double *single)
{
    mr_str out = {0};
    mr_status *st = NULL;
    mr_sim_show_summary(s, single, &out);
    if (p->show & MR_SIM_SHOW_PLACEMENT) {
        mr_str_appendc(&out, '\n');
        st = mr_sim_show_placement(s, &out);
    }
    if (!st && p->show & MR_SIM_SHOW_TIMELINE) {
        mr_str_appendc(&out, '\n');
        mr_sim_show_timeline(s, output_width(), &out);
    }
    if (!st && p->cluster.given && p->show & MR_SIM_SHOW_CLUSTER) {
        mr_str_appendc(&out, '\n');
        mr_sim_show_training(t, output_width(), &out);
    }
    print_text(&out);
    return st;
}

static mr_status *show_json(const mr_sim_plan *p, const mr_sim_step *s, const mr_sim_training *t, const double *single)
{
    mr_str out = {0};
    mr_str_appendc(&out, '{');
    mr_sim_show_json(s, single, &out);
    if (p->cluster.given)
        mr_sim_training_json(t, &out);
    mr_str_appendz(&out, "}\n");
    print_text(&out);
    return NULL;
}

/* Writes the step and, with a cluster, the first steps of the training as a Chrome trace. */
static mr_status *write_trace(const mr_sim_plan *p, const mr_sim_step *s, const mr_sim_training *t)
{
    mr_timeline line;
    mr_timeline_init(&line);
    mr_sim_step_timeline(s, &line);
    if (p->cluster.given)
        mr_sim_training_timeline(t, &line);
    mr_status *st = mr_timeline_write_chrome(&line, trace);
    mr_timeline_deinit(&line);
    return st;
}

static mr_status *show_all(const mr_sim_plan *p, mr_sim_step *s)
{
    mr_sim_training t = {0};
    mr_status *st = p->cluster.given ? mr_sim_training_run(p, s, &t) : NULL;
    if (!st && trace)
        st = write_trace(p, s, &t);
    if (!st) {
        double *single = mr_sim_single_steps(s);
        st = json ? show_json(p, s, &t, single) : show_text(p, s, &t, single);
        mr_free(single);
    }
    if (p->cluster.given)
        mr_sim_training_deinit(&t);
    return st;
}

/* Simulates one step and shows what --graph, --step or --explain asks for, or else everything. */
static mr_status *show_step(const mr_sim_plan *p, mr_costs *costs, const char *node)
{
    mr_sim_step *s;
    mr_str out = {0};
    MR_TRY(mr_sim_step_new(p, costs, &s));
    mr_status *st = NULL;
    if (graph) {
        mr_sim_show_graph(s, &out);
    } else if (step) {
        bool waits = isatty(0) && isatty(1);
        mr_sim_show_flow(s, print_event, &waits);
    } else if (explain) {
        st = mr_sim_show_reasons(s, node, &out);
    } else {
        st = show_all(p, s);
    }
    print_text(&out);
    mr_sim_step_free(s);
    return st;
}

/* ---- the command ---- */

static mr_status *show_sweep(mr_sim_plan *p, mr_costs *costs)
{
    mr_sim_range r;
    mr_str out = {0};
    MR_TRY(mr_sim_range_parse(sweep, &r));
    mr_status *st = mr_sim_training_sweeps(r.what) ? mr_sim_training_sweep(p, costs, &r, &out) : mr_sim_sweep(p, costs, &r, &out);
    print_text(&out);
    return st;
}

static mr_status *show_measures(const mr_sim_plan *p)
{
    mr_sim_measures m;
    mr_str out = {0};
    if (rounds < 3 || rounds > 10000)
        return mr_invalid("--rounds %lld is out of range: give 3 to 10000", (long long)rounds);
    MR_TRY(mr_sim_measure(p, (int)rounds, save_costs, &m));
    mr_sim_measures_print(&m, p, &out);
    print_text(&out);
    return NULL;
}

static mr_status *run_plan(const char *path, const char *node)
{
    mr_sim_plan p;
    mr_costs *costs = NULL;
    MR_TRY(path ? mr_sim_plan_load(path, &p) : mr_sim_plan_parse(mr_sv_of(usual_plan), "the built-in plan", &p));
    mr_status *st = NULL;
    if (costs_file) {
        costs = mr_costs_new();
        p.costs = NULL; /* the command line overrides the plan */
        st = mr_costs_load(costs, costs_file);
    }
    if (!st)
        st = measure ? show_measures(&p) : sweep ? show_sweep(&p, costs) : show_step(&p, costs, node);
    mr_costs_free(costs);
    mr_sim_plan_deinit(&p);
    return st;
}

static bool is_plan(const char *arg)
{
    size_t n = strlen(arg);
    return !explain || (n > 5 && strcmp(arg + n - 5, ".json") == 0);
}

/* An argument is the plan, unless --explain is given and it does not end in .json: then it is the node. */
static mr_status *run_sim(int n_args, char **args)
{
    const char *path = NULL, *node = NULL;
    for (int i = 0; i < n_args; i++)
        *(is_plan(args[i]) ? &path : &node) = args[i];
    if (n_args == 2 && (!path || !node))
        return mr_invalid("%s and %s: give at most one plan, and with --explain one node", args[0], args[1]);
    if (list || keys) {
        mr_str out = {0};
        if (list)
            print_models();
        else
            mr_sim_plan_keys(&out);
        print_text(&out);
        return NULL;
    }
    return run_plan(path, node);
}

static const char about[] =
    "PLAN.json describes what to simulate: a graph, devices, links and optionally a cluster. Without a plan, a built-in example is "
    "simulated. docs/sim.md describes plans.\n\n"
    "--sweep varies device:NAME.KEY, link.KEY or graph.KEY (device:gpu0.speedup=1..16), or, when the plan trains on a cluster, "
    "workers, ps, backup or delay (workers=1..1000).";

MR_COMMAND(sim, .summary = "simulate a plan: placement, timeline, training on a cluster", .group = MR_COMMANDS_ANALYZE,
           .usage = "[PLAN.json] [NODE]", .options = options, .about = about, .max_args = 2, .run = run_sim);
