/* ps/client.h -- a worker's side of the parameter server: what millrace/ps.h offers, in our own terms.
 *
 * All state is kept by one thread (ps/inbox.h).  Calls hand a task over to it and get its number; the decisions (what is sent
 * when, and sent again) are those of dist/ps_client.h. */
#ifndef MR_PS_CLIENT_H
#define MR_PS_CLIENT_H

#include "ps/store.h"

mr_status *mr_ps_open(const mr_ps_options *o, mr_ps **out);
void mr_ps_close(mr_ps *ps); /* NULL is fine */

mr_status *mr_ps_make_table(mr_ps *ps, mr_sv name, const mr_ps_table_options *o, int *out);

typedef struct mr_ps_job {
    mr_ps_change_kind kind; /* of a push; a SET must be of whole slots or known rows */
    bool pull;              /* instead: `out` */
    bool whole;             /* pull: whole rows, as SET takes them */
    int table;
    mr_ps_keys keys;
    const float *floats; /* of a push; copied */
    float *out;          /* of a pull; must stay until the task has ended */
    const mr_ps_call *call; /* but for `done`; NULL: none */
    /* Told how it ended, from the client's thread; may be NULL.  Also when mr_ps_begin fails it is not called. */
    void (*done)(void *arg, mr_ps_task t, const mr_status *st);
    void *arg;
} mr_ps_job;

/* Begins a push or a pull; *task is its number. */
mr_status *mr_ps_begin(mr_ps *ps, const mr_ps_job *j, mr_ps_task *task);
/* Waits for a task's end: its error. */
mr_status *mr_ps_end(mr_ps *ps, mr_ps_task t);
mr_status *mr_ps_end_all(mr_ps *ps);
void mr_ps_settle(mr_ps *ps); /* waits for all that was begun; errors stay for who asks for them */
/* What `modified` kept back of a table; *task 0: nothing. */
mr_status *mr_ps_begin_flush(mr_ps *ps, int table, mr_ps_task *task);

void mr_ps_cancel(mr_ps *ps, mr_ps_task t); /* it ends CANCELLED, unless it has ended */
/* Ops with store=name use it (run/parameter_store.h); NULL: none do. */
mr_status *mr_ps_bind_store(mr_ps *ps, const char *name);

mr_status *mr_ps_compute(mr_ps *ps, mr_ps_algebra what, int a, int b, double alpha, double *result);
mr_status *mr_ps_next_iteration(mr_ps *ps, int64_t *out);
mr_status *mr_ps_save(mr_ps *ps, const char *folder);
mr_status *mr_ps_load(mr_ps *ps, const char *folder);
mr_status *mr_ps_renew(mr_ps *ps); /* ranges of which all copies are lost begin anew, as tables begin */
void mr_ps_count(mr_ps *ps, mr_ps_stats *out);
mr_status *mr_ps_is_quiet(mr_ps *ps, bool *out); /* every range has its copies where they should be */
mr_status *mr_ps_waits(mr_ps *ps, mr_ps_worker_stats *rows, int max, int *n);

/* For snapshots: tables by number, and how many slots they are cut into. */
int mr_ps_n_tables(mr_ps *ps);
const mr_ps_table_spec *mr_ps_table_at(mr_ps *ps, int table); /* stays as long as ps */
int mr_ps_n_slots(mr_ps *ps);

#endif
