/* cli/process.h -- a child process with pipes to its standard streams.
 *
 * It leads a separate process group and is killed when its parent dies. The warden (cli/warden.h) kills other processes
 * that are left in its group. */
#ifndef MR_CLI_PROCESS_H
#define MR_CLI_PROCESS_H

#include <sys/types.h>

#include "base/str.h"

typedef struct mr_process {
    pid_t pid;  /* also the number of its group; 0: none */
    int in;     /* its standard input; -1: none */
    int out[2]; /* its standard output and standard error, non-blocking; -1: none */
} mr_process;

#define MR_PROCESS_NONE ((mr_process){0, -1, {-1, -1}})

typedef struct mr_process_start_options {
    char *const *argv;
    char *const *env;   /* "NAME=value", ends with NULL; overrides the environment of this process */
    const char *folder; /* working directory; NULL: that of this process */
    bool input;         /* with a pipe to its standard input; otherwise that is /dev/null */
    bool own_output;    /* it inherits our output streams instead of pipes */
} mr_process_start_options;
/* If the program cannot be run, the child prints why and exits with 126 or 127. */
mr_status *mr_process_start(const mr_process_start_options *o, mr_process *out);
/* Closes the pipes; the process must have ended. */
void mr_process_close(mr_process *p);

/* The exit code as in shells: that of the process, or 128 + the signal that killed it. */
int mr_process_code(int wait_status);
/* "ended with exit code 3", "was killed by signal 9 (Killed)". */
void mr_process_how(int code, bool by_signal, mr_str *out);

#endif
