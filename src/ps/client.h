/* ps/client.h -- the parameter server's client: the functions behind millrace/ps.h.
 *
 * One thread keeps the state (ps/inbox.h). API calls hand a task over to it and get the task's
 * number. dist/ps_client.h decides what is sent when, and what is sent again. */
#ifndef MR_PS_CLIENT_H
#define MR_PS_CLIENT_H

#include "ps/store.h"

mr_status *mr_ps_open(const mr_ps_options *o, mr_ps **out);
void mr_ps_close(mr_ps *ps); /* NULL is fine */

mr_status *mr_ps_make_table(mr_ps *ps, mr_sv name, const mr_ps_table_options *o, int *out);

typedef struct mr_ps_job {
    mr_ps_change_kind kind; /* of a push; a SET must be of whole ranges or known rows */
    bool pull;              /* a pull into `out` instead */
    bool whole;             /* pull: whole rows, as SET takes them */
    int table;
    mr_ps_keys keys;
    const float *floats; /* of a push; copied */
    float *out;          /* of a pull; must stay valid until the task has ended */
    const mr_ps_call *call; /* options, except `done`; NULL: none */
    /* Called on the client's thread with the result; may be NULL. Not called if mr_ps_begin fails. */
    void (*done)(void *arg, mr_ps_task t, const mr_status *st);
    void *arg;
} mr_ps_job;

/* Begins a push or a pull; *task is its number. */
mr_status *mr_ps_begin(mr_ps *ps, const mr_ps_job *j, mr_ps_task *task);
/* Waits for a task's end and returns its error. */
mr_status *mr_ps_end(mr_ps *ps, mr_ps_task t);
mr_status *mr_ps_end_all(mr_ps *ps);
void mr_ps_settle(mr_ps *ps); /* waits for all tasks; errors stay for mr_ps_end */
/* Pushes what the filter `modified` held back of a table; *task is 0 if that is nothing. */
mr_status *mr_ps_begin_flush(mr_ps *ps, int table, mr_ps_task *task);

void mr_ps_cancel(mr_ps *ps, mr_ps_task t); /* the task ends with CANCELLED, unless it has ended */
/* Ops with store=name use this client (run/parameter_store.h). NULL: no longer. */
mr_status *mr_ps_bind_store(mr_ps *ps, const char *name);

mr_status *mr_ps_compute(mr_ps *ps, mr_ps_algebra what, int a, int b, double alpha, double *result);
mr_status *mr_ps_next_iteration(mr_ps *ps, int64_t *out);
mr_status *mr_ps_save(mr_ps *ps, const char *folder);
mr_status *mr_ps_load(mr_ps *ps, const char *folder);
mr_status *mr_ps_renew(mr_ps *ps); /* ranges of which all copies are lost start again with initial values */
void mr_ps_count(mr_ps *ps, mr_ps_stats *out);
mr_status *mr_ps_is_quiet(mr_ps *ps, bool *out); /* whether every range has its copies where they should be */
mr_status *mr_ps_waits(mr_ps *ps, mr_ps_worker_stats *rows, int max, int *n);

/* For snapshots: tables by number, and the number of ranges that each table is divided into. */
int mr_ps_n_tables(mr_ps *ps);
const mr_ps_table_spec *mr_ps_table_at(mr_ps *ps, int table); /* borrowed, valid as long as ps; NULL: unknown */
int mr_ps_n_ranges(mr_ps *ps);

#endif
