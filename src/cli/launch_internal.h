/* cli/launch_internal.h -- the state of a launcher: launch.c starts, watches and ends tasks; launch_view.c shows them.
 * */
#ifndef MR_CLI_LAUNCH_INTERNAL_H
#define MR_CLI_LAUNCH_INTERNAL_H

#include "base/long_wait.h"
#include "base/report.h"
#include "cli/launch.h"
#include "cli/process.h"
#include "cli/screen.h"
#include "cli/warden.h"

enum { MR_LAST_LINES = 5 };

typedef struct mr_launched { /* a task and its current process */
    const mr_launch_task *what;
    char *name; /* "worker/0" */
    int number; /* among all tasks */
    mr_process process;
    mr_lines lines[2];
    int64_t began_ns;      /* when the current process started */
    int64_t restart_at_ns; /* 0: no restart is due */
    int n_restarts;        /* in total */
    int n_counted;         /* those that count towards the limit */
    int n_quick;           /* processes in a row that ended soon after their start */
    bool done;             /* ended successfully */
    bool began;            /* its current or an earlier process has listened or trained */
    bool port_taken;       /* it could not listen: another process has its port */
    bool agent_up;         /* the agent on its host has reported */
    mr_long_wait agent_wait; /* for that report */
    mr_str last_lines[MR_LAST_LINES]; /* a ring; the oldest is at next_line */
    int next_line;
    /* what it reported */
    bool reported;
    double loss;           /* NaN: none */
    int64_t last_step;     /* at which the training ends; -1: unknown */
    double step_rate;      /* global steps per second; negative: unknown */
    int64_t step_was, step_ns; /* the last measurement of step_rate; step_ns 0: none */
    int64_t step, own;     /* the global step, and its own steps at own_ns */
    int64_t own_ns, heard_ns;
    double rate;
    char *waiting;
    bool judged; /* figures are known; they cover all its processes */
    mr_report_figures figures;
} mr_launched;

typedef struct mr_launcher {
    const mr_launch_options *o;
    int n;
    mr_launched *tasks;
    mr_screen *screen;
    mr_warden *warden;
    int signals; /* signalfd of SIGCHLD */
    int asked;   /* delivers the signals that end the job (cli/ending.h) */
    int status;  /* the socket for reports; -1: none */
    bool ending;
    int exit_code;
    int64_t began_ns, kill_at_ns, draw_at_ns;
    int last_writer, n_in_a_row; /* the task that wrote the last line, and how many lines in a row it wrote */
    int name_width;
} mr_launcher;

/* Opens the socket for reports in the folder of the job. */
mr_status *mr_launch_listen(mr_launcher *l);
/* Reads what tasks have reported. */
void mr_launch_hear(mr_launcher *l);
/* Resets what a task has reported, before its next process starts. */
void mr_launch_forget(mr_launched *t);
/* Reads what a task has written. False: the pipe has ended and was closed. */
bool mr_launch_read(mr_launcher *l, mr_launched *t, int stream);
/* Draws the table if that is due, and sets draw_at_ns to the next time. */
void mr_launch_show(mr_launcher *l);
/* Whether the last lines of a task are the last lines on the screen. */
bool mr_launch_lines_are_last(const mr_launcher *l, const mr_launched *t);
/* Shows the last lines of a task again, after our line about its end. */
void mr_launch_repeat_lines(mr_launcher *l, const mr_launched *t);
/* At the end of the job: prints how long workers waited for each other, and the staleness of their gradients. */
void mr_launch_tell_figures(mr_launcher *l);
void mr_launch_say(mr_launcher *l, const char *fmt, ...) MR_PRINTF(2, 3);

#endif
