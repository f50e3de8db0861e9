/* cli/launch.h -- starts, watches and restarts the processes of a job, and ends them together.
 *
 * Each task is a separate process group that dies with the launcher. Its output comes through pipes and is shown line
 * by line, after the name of the task. One task decides (the chief, usually worker 0): when it ends successfully, the
 * job ends. */
#ifndef MR_CLI_LAUNCH_H
#define MR_CLI_LAUNCH_H

#include <signal.h>

#include "base/str.h"

typedef struct mr_launch_task {
    const char *job;
    int number;
    const char *host;  /* where its program runs, reached by ssh; NULL: here */
    char *const *argv;
    char **env;        /* "NAME=value", ends with NULL; added to the environment of the launcher */
    const char *folder; /* its working directory; NULL: that of the launcher */
    mr_sv input;       /* for `millrace agent` on its host (cli/agent.h); empty: the task has no input */
    bool decides;      /* when it ends successfully, the job ends */
} mr_launch_task;

typedef struct mr_launch_end { /* a request from outside to end the job */
    int exit_code; /* -1: no request */
    bool at_once;  /* kill the tasks without a grace period */
} mr_launch_end;

typedef struct mr_launch_options {
    int max_restarts;   /* of each task; a task that ran for 10 minutes counts from 0 again */
    int grace_ms;       /* between asking a task to end and killing it */
    bool quiet;         /* print only what the tasks print */
    bool bare_chief;    /* the task that decides writes directly to our output, so that its progress bar works */
    bool table;         /* draw a table of tasks, if stderr is a terminal */
    const char *folder; /* of this job: made by the caller, removed when the launcher ends in any way; NULL: none */
    bool bare;          /* for an agent: output is passed on unchanged, with reports between the lines (cli/agent.h) */
    bool chose_ports;   /* if a port is taken before any task has trained, end with MR_LAUNCH_PORT_TAKEN */
    int wake;           /* when this descriptor is readable, woken is called; -1: none */
    mr_launch_end (*woken)(int fd);
} mr_launch_options;

/* Blocks the signals that a launcher reads from descriptors. They must be blocked in all threads, so call this before
 * any thread is started. */
void mr_launch_block_signals(sigset_t *before);
enum { MR_LAUNCH_PORT_TAKEN = -1 };
/* Runs all tasks until the job has ended. *exit_code is 0, that of the first task that could not be kept running, 128 +
 * the signal that stopped the launcher, or MR_LAUNCH_PORT_TAKEN (see chose_ports). With a folder, tasks report to the
 * socket `status` in it. */
mr_status *mr_launch(const mr_launch_task *tasks, int n, const mr_launch_options *o, int *exit_code);

#endif
