/* cli/launch_internal.h -- a launcher opened: launch.c starts, watches and ends; launch_view.c shows. */
#ifndef MR_CLI_LAUNCH_INTERNAL_H
#define MR_CLI_LAUNCH_INTERNAL_H

#include "base/long_wait.h"
#include "base/report.h"
#include "cli/launch.h"
#include "cli/process.h"
#include "cli/screen.h"
#include "cli/warden.h"

enum { MR_LAST_LINES = 5 };

typedef struct mr_launched { /* a task and its present life */
    const mr_launch_task *what;
    char *name; /* "worker/0" */
    int number; /* among all tasks */
    mr_process process;
    mr_lines lines[2];
    int64_t began_ns;      /* this life */
    int64_t restart_at_ns; /* 0: not waiting for it */
    int n_restarts; /* in all */
    int n_counted;  /* those that count towards the limit */
    int n_quick;    /* lives that ended soon, one after the other */
    bool done;             /* ended well */
    bool began;            /* it has listened, or trained, in this life or one before */
    bool port_taken;       /* it could not listen: another process has its port */
    bool agent_up;         /* the agent of another host was heard in this life */
    mr_long_wait agent_wait; /* until then */
    mr_str last_lines[MR_LAST_LINES]; /* that it wrote, the oldest at next_line */
    int next_line;
    /* what it reported */
    bool reported;
    double loss;           /* NaN: none */
    int64_t last_step;     /* of the training; -1: not known */
    double step_rate;      /* global steps in a second; negative: not known */
    int64_t step_was, step_ns; /* since that was measured; 0: it was not */
    int64_t step, own;     /* of own_ns */
    int64_t own_ns, heard_ns;
    double rate;
    char *waiting;
    bool judged; /* there are figures of it: of all its lives */
    mr_report_figures figures;
} mr_launched;

typedef struct mr_launcher {
    const mr_launch_options *o;
    int n;
    mr_launched *tasks;
    mr_screen *screen;
    mr_warden *warden;
    int signals; /* signalfd of SIGCHLD */
    int asked;   /* gives signals that end the job (cli/ending.h) */
    int status;  /* socket that reports come to; -1 */
    bool ending;
    int exit_code;
    int64_t began_ns, kill_at_ns, draw_at_ns;
    int last_writer, n_in_a_row; /* the task that wrote the last line, and how many before it were its own */
    int name_width;
} mr_launcher;

/* The socket for reports, in the job's folder. */
mr_status *mr_launch_listen(mr_launcher *l);
/* Reads what tasks have reported. */
void mr_launch_hear(mr_launcher *l);
/* A life ends: what it reported says nothing of the next. */
void mr_launch_forget(mr_launched *t);
/* Reads what a task has written; false when the pipe is at its end, and closed. */
bool mr_launch_read(mr_launcher *l, mr_launched *t, int stream);
/* Draws, when it is time to; when the next time is, in draw_at_ns. */
void mr_launch_show(mr_launcher *l);
/* Whether the last lines of a task are the last that were shown at all. */
bool mr_launch_lines_are_last(const mr_launcher *l, const mr_launched *t);
/* Repeats the last lines of a task, after our line about how it ended. */
void mr_launch_repeat_lines(mr_launcher *l, const mr_launched *t);
/* At the end: how workers fared with each other. */
void mr_launch_tell_figures(mr_launcher *l);
void mr_launch_say(mr_launcher *l, const char *fmt, ...) MR_PRINTF(2, 3);

#endif
