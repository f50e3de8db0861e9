/* cli/ending.h -- signals that ask a command to end.
 *
 * The first one asks politely: the command learns of it through a descriptor.  The second one always ends the process,
 * whatever the command is doing, because a separate thread takes the signals. */
#ifndef MR_CLI_ENDING_H
#define MR_CLI_ENDING_H

#include "base/status.h"

typedef struct mr_ending_options {
    int first_ms;  /* after the first signal the process may take this long to end by itself; -1: as long as it wants */
    int second_ms; /* the same after the second one */
} mr_ending_options;

/* Blocks SIGINT, SIGTERM, SIGQUIT and SIGHUP (unless it is ignored, as under nohup) in this thread and those it starts
 * from now on, and has a thread take them.  *fd, which stays open as long as the process runs, then gives the number of
 * each as an int.  Called again, it only changes the options. */
mr_status *mr_ending_begin(const mr_ending_options *o, int *fd);

#endif
