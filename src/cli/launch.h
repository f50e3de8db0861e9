/* cli/launch.h -- the processes of a cluster on this machine: started, watched, restarted, ended together.
 *
 * Each task is a process group of its own that dies with the launcher.  Its output comes through pipes and is written
 * line by line behind its name.  The chief (worker 0) decides: when it has ended well, so has the job. */
#ifndef MR_CLI_LAUNCH_H
#define MR_CLI_LAUNCH_H

#include "base/str.h"

typedef struct mr_launch_task {
    const char *job;
    int number;
    char *const *argv;
    char **env; /* "NAME=value", NULL at the end: beside what the launcher has */
} mr_launch_task;

typedef struct mr_launch_options {
    int max_restarts; /* of each task */
    int grace_ms;     /* between asking to end and ending */
    bool quiet;       /* nothing but what tasks write */
    bool bare_chief;  /* the chief has our own output, without pipe and name: a progress bar there is one */
} mr_launch_options;

/* Runs all until the chief has ended; the exit code of the job: 0, that of the first task that could not be kept
 * running, or 128 + the signal that stopped the launcher. */
mr_status *mr_launch(const mr_launch_task *tasks, int n, const mr_launch_options *o, int *exit_code);

#endif
