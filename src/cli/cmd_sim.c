/* cli/cmd_sim.c -- `millrace sim`: simulates a plan and shows the result. */
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/wrap.h"
#include "cli/command.h"
#include "sim/answer.h"
#include "sim/measure.h"
#include "sim/show.h"

static bool graph, step, explain, json, list, keys, measure;
static const char *trace, *sweep, *costs_file, *save_costs, *color;
static int64_t width, rounds = 15;
static mr_terminal terminal; /* what standard output can show */

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
    {"json", MR_OPT_FLAG, &json, NULL, "print the result as one JSON object; also with --explain and --sweep"},
    {"width", MR_OPT_INT, &width, "N", "width of the output in columns (default: the width of the terminal, or 100)"},
    {"color", MR_OPT_STRING, &color, "WHEN",
     "auto, always or never; auto (the default) colors the output of a terminal, unless NO_COLOR is set"},
    {"list", MR_OPT_FLAG, &list, NULL, "list the built-in networks and their parameters"},
    {"keys", MR_OPT_FLAG, &keys, NULL, "list the keys of a plan"},
    {0},
};

static const char usual_plan[] =
    "{\"title\": \"LeNet on a CPU and two GPUs\", \"graph\": {\"model\": \"lenet\"},"
    " \"devices\": [{\"type\": \"CPU\"}, {\"type\": \"GPU\"}, {\"type\": \"GPU\", \"speedup\": 0.5}]}";

static void print_text(mr_str *text)
{
    fwrite(mr_str_z(text), 1, text->n, stdout);
    mr_str_deinit(text);
}

/* ---- lists ---- */

static void list_models(mr_str *out)
{
    enum { ABOUT = 13, PARAM = 15 };
    int n;
    const mr_sim_model *m = mr_sim_models(&n);
    for (int i = 0; i < n; i++) {
        size_t from = out->n;
        mr_style_put(&terminal, MR_STYLE_HEADING, mr_sv_of(m[i].name), out);
        mr_text_pad(out, from, ABOUT);
        mr_str_printf(out, "%s\n", m[i].about);
        mr_wrap(out, from, terminal.width, ABOUT);
        for (const mr_sim_param *p = m[i].params; p->name; p++) {
            from = out->n;
            mr_str_printf(out, "    %-10s %s (%lld; %lld to %lld)\n", p->name, p->about, (long long)p->usual,
                          (long long)p->low, (long long)p->high);
            mr_wrap(out, from, terminal.width, PARAM);
        }
    }
}

/* Appends a row of the table of keys as text: the key with its value, and its meaning below. The row is
 * "| `key` | value | default | meaning |"; the backquotes are left out. */
static void list_key(mr_sv row, mr_str *out)
{
    mr_sv cells[6] = {0};
    mr_str meaning = {0};
    size_t from = out->n;
    for (int i = 0; i < MR_COUNT(cells) && mr_sv_cut(&row, '|', &cells[i]); i++)
        cells[i] = mr_sv_trim(cells[i]);
    mr_sv key = cells[1], value = cells[2], usual = cells[3];
    if (key.n < 2 || key.p[0] != '`')
        return; /* the head of the table */
    mr_style_put(&terminal, MR_STYLE_HEADING, (mr_sv){key.p + 1, key.n - 2}, out);
    mr_str_printf(out, "  %.*s%s%.*s\n", MR_SV_ARG(value), usual.n ? "; default " : "", MR_SV_ARG(usual));
    mr_wrap(out, from, terminal.width, 8);
    from = out->n;
    for (size_t i = 0; i < cells[4].n; i++)
        if (cells[4].p[i] != '`')
            mr_str_appendc(&meaning, cells[4].p[i]);
    mr_str_printf(out, "    %s\n", mr_str_z(&meaning));
    mr_wrap(out, from, terminal.width, 4);
    mr_str_deinit(&meaning);
}

/* A file or a pipe gets a Markdown table, which docs/sim.md contains. A table of this width is no use on a terminal. */
static void list_keys(mr_str *out)
{
    mr_str table = {0};
    mr_sim_plan_keys(&table);
    mr_sv rest = mr_str_view(&table), row;
    if (!width && !isatty(STDOUT_FILENO))
        mr_str_append(out, rest.p, rest.n);
    else
        while (mr_sv_cut(&rest, '\n', &row) && rest.p)
            list_key(row, out);
    mr_str_deinit(&table);
}

/* ---- one step ---- */

/* Prints an event of --step, which may take several lines. On a terminal, waits for Enter; returns false if the user
 * typed q or the input ended. */
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

static mr_status *show_text(const mr_sim_plan *p, const mr_sim_step *s, const mr_sim_training *t, const double *single)
{
    mr_str out = {0};
    mr_status *st = NULL;
    mr_sim_show_summary(s, single, &terminal, &out);
    if (p->show & MR_SIM_SHOW_PLACEMENT) {
        mr_str_appendc(&out, '\n');
        st = mr_sim_show_placement(s, &terminal, &out);
    }
    if (!st && p->show & MR_SIM_SHOW_TIMELINE) {
        mr_str_appendc(&out, '\n');
        mr_sim_show_timeline(s, &terminal, &out);
    }
    if (!st && p->cluster.given && p->show & MR_SIM_SHOW_CLUSTER) {
        mr_str_appendc(&out, '\n');
        mr_sim_show_training(t, &terminal, &out);
    }
    print_text(&out);
    return st;
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
    if (!st && json) {
        mr_str out = {0};
        mr_sim_answer_simulated(s, p->cluster.given ? &t : NULL, &out);
        print_text(&out);
    } else if (!st) {
        double *single = mr_sim_single_steps(s);
        st = show_text(p, s, &t, single);
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
    mr_status *st = NULL;
    if (explain && json) {
        st = mr_sim_answer_reasons(p, costs, node, &out);
        print_text(&out);
        return st;
    }
    MR_TRY(mr_sim_step_new(p, costs, &s));
    if (graph) {
        mr_sim_show_graph(s, &terminal, &out);
    } else if (step) {
        bool waits = isatty(0) && isatty(1);
        mr_sim_show_flow(s, &terminal, print_event, &waits);
    } else if (explain) {
        st = mr_sim_show_reasons(s, node, &terminal, &out);
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
    mr_status *st = json                             ? mr_sim_answer_sweep(p, costs, &r, &out)
                    : mr_sim_training_sweeps(r.what) ? mr_sim_training_sweep(p, costs, &r, &terminal, &out)
                                                     : mr_sim_sweep(p, costs, &r, &terminal, &out);
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
    mr_wrap(&out, 0, terminal.width, 2);
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
    mr_color_when when;
    MR_TRY(mr_color_parse(color, &when));
    terminal = mr_terminal_of(STDOUT_FILENO, when, width);
    if (list || keys) {
        mr_str out = {0};
        if (list)
            list_models(&out);
        else
            list_keys(&out);
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

static const mr_help_item environment[] = {
    {"NO_COLOR", "if set and not empty, no colors with --color auto"},
    {"CLICOLOR_FORCE", "if set and not 0, colors with --color auto even if the output is not a terminal"},
    {0},
};

MR_COMMAND(sim, .summary = "simulate a plan: placement, timeline, training on a cluster", .group = MR_COMMANDS_ANALYZE,
           .usage = "[PLAN.json] [NODE]", .options = options, .about = about, .environment = environment,
           .max_args = 2, .run = run_sim);
