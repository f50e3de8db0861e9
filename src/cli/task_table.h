/* cli/task_table.h -- a table of the tasks of a job: the state of each, its speed, and what it waits for. */
#ifndef MR_CLI_TASK_TABLE_H
#define MR_CLI_TASK_TABLE_H

#include "base/str.h"

typedef enum mr_row_state {
    MR_ROW_STARTING, /* no report yet */
    MR_ROW_SERVING,  /* a parameter server */
    MR_ROW_TRAINING,
    MR_ROW_WAITING,
    MR_ROW_RESTARTING,
    MR_ROW_DONE,
    MR_ROW_ENDING,
    MR_ROW_STATES
} mr_row_state;

typedef struct mr_row {
    const char *name, *host; /* "worker/1"; host NULL: here */
    mr_row_state state;
    int64_t step;            /* the global step; -1: none yet */
    double rate;             /* its own steps per second; negative: none */
    double loss; /* the last one; NaN: none. A column without any value is not shown; the same for the next two */
    double left_s;           /* until the training ends; negative: unknown */
    int restarts;
    bool judged;             /* the next three are known */
    double waited_s;         /* for other workers, so far */
    double staleness;        /* mean number of updates by others while it computes a gradient */
    int64_t late;            /* gradients that came too late */
    const char *waiting;     /* what it waits for, or "" */
} mr_row;

typedef struct mr_task_table {
    const mr_row *rows;
    int n;
    int64_t seconds; /* since the start */
} mr_task_table;

/* Prints at most `height` lines of at most `width` columns, each ending in \n; with `color`, with escape sequences. If
 * there is no room for all columns, those of `judged` are left out first (they are shown at the end of the job), then
 * the host. What a task waits for goes on a separate line if it does not fit after the columns. */
void mr_task_table_print(const mr_task_table *t, int width, int height, bool color, mr_str *out);

#endif
