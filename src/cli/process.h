/* cli/process.h -- a process that is started, written to, read from and ended with all it started.
 *
 * It leads a group of its own, and is killed when the one who started it dies.  What it leaves behind in its group is
 * killed by the warden (cli/warden.h). */
#ifndef MR_CLI_PROCESS_H
#define MR_CLI_PROCESS_H

#include <sys/types.h>

#include "base/str.h"

typedef struct mr_process {
    pid_t pid;  /* also of its group; 0: none */
    int in;     /* what is written here it reads; -1: it reads nothing */
    int out[2]; /* what it writes, as output and as error; not blocking; -1: nothing to read */
} mr_process;

#define MR_PROCESS_NONE ((mr_process){0, -1, {-1, -1}})

typedef struct mr_process_start_options {
    char *const *argv;
    char *const *env;   /* "NAME=value", NULL at the end: over what this process has */
    const char *folder; /* to work in; NULL: here */
    bool input;         /* it is written to */
    bool own_output;    /* it writes where this process does, not to pipes */
} mr_process_start_options;
/* A program that cannot be run ends with 126 or 127 and says why. */
mr_status *mr_process_start(const mr_process_start_options *o, mr_process *out);
/* Closes what belongs to it; it must have ended. */
void mr_process_close(mr_process *p);

/* As shells have it: its exit code, or 128 + the signal that killed it. */
int mr_process_code(int wait_status);
/* "ended with exit code 3", "was killed by signal 9 (Killed)". */
void mr_process_how(int code, bool by_signal, mr_str *out);

#endif
