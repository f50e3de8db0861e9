/* cli/launch.h -- the processes of a job: started, watched, restarted, ended together.
 *
 * Each task is a process group of its own that dies with the launcher.  Its output comes through pipes and is shown line by
 * line behind its name.  The task that decides (the chief, worker 0) does so: when it has ended well, so has the job. */
#ifndef MR_CLI_LAUNCH_H
#define MR_CLI_LAUNCH_H

#include <signal.h>

#include "base/str.h"

typedef struct mr_launch_task {
    const char *job;
    int number;
    const char *host;  /* where its process really is, reached by ssh; NULL: here */
    char *const *argv;
    char **env;        /* "NAME=value", NULL at the end: beside what the launcher has */
    const char *folder; /* to work in; NULL: where the launcher is */
    mr_sv input;       /* of `millrace agent` on its host (cli/agent.h); empty: it reads nothing */
    bool decides;
} mr_launch_task;

typedef struct mr_launch_end { /* what somebody else wants of the job */
    int exit_code; /* -1: nothing */
    bool at_once;  /* without time to end in */
} mr_launch_end;

typedef struct mr_launch_options {
    int max_restarts;   /* of each task, in lives that follow close on each other */
    int grace_ms;       /* between asking to end and ending */
    bool quiet;         /* nothing but what tasks write */
    bool bare_chief;    /* the task that decides has our own output, without pipe and name: a progress bar there is one */
    bool table;         /* draw one, if stderr is a terminal */
    const char *folder; /* of this job: made by the caller, and removed whatever happens; NULL: none */
    bool bare;          /* for an agent: lines go on as they are, reports between them (cli/agent.h) */
    bool chose_ports; /* when one of them is taken before any task has trained, the job ends, for others to be chosen */
    int wake;           /* when this can be read, woken is asked; -1: never */
    mr_launch_end (*woken)(int fd);
} mr_launch_options;

/* Signals that a launcher reads from a descriptor: they must be blocked in every thread, so before the first is started. */
void mr_launch_block_signals(sigset_t *before);
enum { MR_LAUNCH_PORT_TAKEN = -1 };
/* Runs all until the job has ended; its exit code: 0, that of the first task that could not be kept running, 128 + the
 * signal that stopped the launcher, or MR_LAUNCH_PORT_TAKEN (see chose_ports).  With a folder, tasks report to the
 * socket `status` in it. */
mr_status *mr_launch(const mr_launch_task *tasks, int n, const mr_launch_options *o, int *exit_code);

#endif
