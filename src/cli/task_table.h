/* cli/task_table.h -- the tasks of a job as a table: what each does, how fast, how it fares with the others, and what it waits for. */
#ifndef MR_CLI_TASK_TABLE_H
#define MR_CLI_TASK_TABLE_H

#include "base/str.h"

typedef enum mr_row_state {
    MR_ROW_STARTING, /* nothing was heard of it yet */
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
    int64_t step;            /* the global one; -1: none yet */
    double rate;             /* steps of its own in a second; negative: none */
    double loss; /* the last; NaN: none.  As with the next two, a column that nobody has anything in is not there */
    double left_s;           /* until the training ends; negative: not known */
    int restarts;
    bool judged;             /* the next three are known */
    double waited_s;         /* for others, so far */
    double staleness;        /* updates of others while it worked on one: mean */
    int64_t late;            /* gradients that came too late */
    const char *waiting;     /* for what; "" */
} mr_row;

typedef struct mr_task_table {
    const mr_row *rows;
    int n;
    int64_t seconds; /* since the start */
} mr_task_table;

/* Lines of at most `width` columns, at most `height` of them, each with its \n.  color: with escape sequences.  Where
 * there is no room for all columns, those of `judged` are left out first (they are shown at the end anyway), then the
 * host; what a task waits for goes on a separate line where it does not fit behind the columns. */
void mr_task_table_print(const mr_task_table *t, int width, int height, bool color, mr_str *out);

#endif
