/* cli/cmd_trace.c -- `millrace trace`: what traced steps did, as a Chrome trace, a picture and a blame. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/command.h"
#include "exec/trace_files.h"

enum { STEPS_TOLD = 20 };

static const char *output;
static bool text;
static int64_t width, only = MR_NOT_GIVEN;

static const mr_option options[] = {
    {"output", MR_OPT_STRING, &output, "FILE", "write a Chrome trace (JSON) of all tasks; also -o FILE"},
    {"text", MR_OPT_FLAG, &text, NULL, "draw the tasks' lanes here, too"},
    {"width", MR_OPT_INT, &width, "N", "characters a line of the drawing has (default: the terminal's, or 100)"},
    {"step", MR_OPT_INT, &only, "N", "draw the step of this number only"},
    {0},
};

static int line_width(void)
{
    struct winsize w;
    if (width > 0)
        return (int)MR_MIN(width, 4096);
    return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 40 ? w.ws_col - 1 : 0;
}

static mr_status *draw(const mr_timeline *t, mr_str *out)
{
    mr_timeline_text_options o = {.width = line_width()};
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

static mr_status *show(const mr_timeline *t)
{
    mr_str out = {0};
    int arrows = 0;
    mr_status *st = text || only != MR_NOT_GIVEN ? draw(t, &out) : NULL;
    for (int i = 0; i < t->arrows.n; i++)
        arrows += t->arrows.p[i].drawn;
    if (!st) {
        mr_trace_tell(t, STEPS_TOLD, &out);
        fputs(mr_str_z(&out), stdout);
    }
    if (!st && output && !(st = mr_timeline_write_chrome(t, output)))
        printf("%s: %d tasks, %d spans, %d arrows; open it in https://ui.perfetto.dev or chrome://tracing\n", output,
               t->tasks.n, t->spans.n, arrows);
    mr_str_deinit(&out);
    return st;
}

/* "-o FILE" is what fingers write. */
static mr_status *take_output(int *n, char **args)
{
    int kept = 0;
    for (int i = 0; i < *n; i++) {
        if (strcmp(args[i], "-o") != 0) {
            args[kept++] = args[i];
            continue;
        }
        if (++i == *n)
            return mr_invalid("-o needs the name of a file");
        output = args[i];
    }
    *n = kept;
    return kept ? NULL : mr_invalid("there is no trace to read");
}

static mr_status *trace(int n, char **args)
{
    mr_timeline t;
    MR_TRY(take_output(&n, args));
    mr_timeline_init(&t);
    mr_status *st = mr_trace_read_files((const char *const *)args, n, &t);
    if (!st)
        st = show(&t);
    mr_timeline_deinit(&t);
    return st;
}

static const char notes[] =
    "A trace is a RunMetadata as a traced step gives it (RunOptions.trace_level FULL_TRACE); of a folder\n"
    "all files *.pb are taken.  Times of all tasks are by one clock; several steps stand behind each other.\n"
    "For each step it is told where its time went on the critical path: input, compute, send, wait.\n"
    "\n"
    "  millrace launch --trace traces --workers 2 -- ./program     trace some steps of a job\n"
    "  millrace trace traces -o trace.json                         all of them in one picture\n"
    "  millrace trace --text --step 21 traces                      one step, drawn here\n";

MR_COMMAND(trace, .summary = "show traced steps: a Chrome trace of all tasks, a drawing, and who is slow",
           .usage = "FILE|FOLDER...", .options = options, .notes = notes, .min_args = 1, .max_args = -1, .run = trace);
