/* cli/cmd_trace.c -- `millrace trace`: shows traced steps as a Chrome trace, a timeline and a report on slow tasks. */
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/terminal.h"
#include "base/wrap.h"
#include "cli/command.h"
#include "exec/trace_files.h"

enum { STEPS_TOLD = 20 };

static const char *output, *color;
static bool text;
static int64_t width, only = MR_NOT_GIVEN;
static mr_terminal terminal; /* what standard output can show */

static const mr_option options[] = {
    {"output", MR_OPT_STRING, &output, "FILE", "write a Chrome trace (JSON) of all tasks to FILE; -o FILE is the same"},
    {"text", MR_OPT_FLAG, &text, NULL, "also draw a timeline of the tasks in the terminal"},
    {"width", MR_OPT_INT, &width, "N", "width of the output in columns (default: the width of the terminal, or 100)"},
    {"color", MR_OPT_STRING, &color, "WHEN",
     "auto, always or never; auto (the default) colors the timeline on a terminal, unless NO_COLOR is set"},
    {"step", MR_OPT_INT, &only, "N", "draw only the step with this number; implies --text"},
    {0},
};

/* Draws all steps, or only the one of --step. */
static mr_status *draw_timeline(const mr_timeline *t, mr_str *out)
{
    mr_timeline_text_options o = {.width = terminal.width, .color = terminal.color, .ascii = terminal.ascii};
    bool found = only == MR_NOT_GIVEN;
    for (int i = 0; i < t->steps.n && !found; i++)
        if (t->steps.p[i].number == only) {
            o.from_ns = t->steps.p[i].start_ns;
            o.to_ns = t->steps.p[i].end_ns;
            found = true;
        }
    if (!found)
        return mr_error(MR_NOT_FOUND, "there is no step %lld in the trace", (long long)only);
    mr_timeline_text(t, &o, out);
    mr_str_appendc(out, '\n');
    return NULL;
}

/* Prints the report, with the timeline if asked for, and writes the Chrome trace of --output. */
static mr_status *show_trace(const mr_timeline *t)
{
    mr_str out = {0};
    int arrows = 0;
    mr_status *st = text || only != MR_NOT_GIVEN ? draw_timeline(t, &out) : NULL;
    for (int i = 0; i < t->arrows.n; i++)
        arrows += t->arrows.p[i].drawn;
    if (!st) {
        size_t from = out.n;
        mr_trace_tell(t, STEPS_TOLD, &out);
        if (width || isatty(STDOUT_FILENO)) /* programs that read the report get whole lines */
            mr_wrap(&out, from, terminal.width, 8);
        fputs(mr_str_z(&out), stdout);
    }
    if (!st && output && !(st = mr_timeline_write_chrome(t, output)))
        printf("%s: %d tasks, %d spans, %d arrows; open it in https://ui.perfetto.dev or chrome://tracing\n", output,
               t->tasks.n, t->spans.n, arrows);
    mr_str_deinit(&out);
    return st;
}

/* Removes "-o FILE" from the arguments; the option parser knows only long options. */
static mr_status *take_output(int *n, char **args)
{
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        if (strcmp(args[i], "-o") != 0) {
            args[kept++] = args[i];
            continue;
        }
        if (++i == *n)
            return mr_invalid("-o needs a file name");
        output = args[i];
    }
    *n = kept;
    return kept ? NULL : mr_invalid("no trace to read: give a FILE or a FOLDER");
}

static mr_status *run_trace(int n, char **args)
{
    mr_timeline t;
    mr_color_when when;
    MR_TRY(take_output(&n, args));
    MR_TRY(mr_color_parse(color, &when));
    terminal = mr_terminal_of(STDOUT_FILENO, when, width);
    mr_timeline_init(&t);
    mr_status *st = mr_trace_read_files((const char *const *)args, n, &t);
    if (!st)
        st = show_trace(&t);
    mr_timeline_deinit(&t);
    return st;
}

static const char about[] =
    "Reads traced steps and prints, for each step, how much time its critical path spent on input, compute, send and wait, and "
    "which task to look at.\n\n"
    "FILE is a serialized RunMetadata, as a step returns it when RunOptions.trace_level is FULL_TRACE. From a FOLDER, all files "
    "*.pb are read. The times of all tasks are shown on one clock; several steps follow each other. See docs/trace.md.";

static const mr_help_item examples[] = {
    {"millrace launch --trace traces --workers 2 -- ./program", "Trace some steps of a job:"},
    {"millrace trace traces -o trace.json", "Put all of them into one Chrome trace:"},
    {"millrace trace --text --step 21 traces", "Draw one step in the terminal:"},
    {0},
};

MR_COMMAND(trace, .summary = "show where traced steps spend their time, and which task is slow", .group = MR_COMMANDS_ANALYZE,
           .usage = "FILE|FOLDER...", .options = options, .about = about, .examples = examples, .min_args = 1, .max_args = -1,
           .run = run_trace);
