/* ps/client_internal.h -- a client's state, for its files.
 *
 *     client.c        start, end, waiting for tasks
 *     client_ask.c    questions to the manager that a caller waits for: tables, iterations
 *     client_begin.c  checks, filters, splits and begins pushes and pulls
 *     client_send.c   sends what was decided, and handles the answers
 *
 * Decisions (mr_psc) and tasks are under the lock, because API callers begin tasks themselves. Only
 * the client's thread makes, sends and receives messages and ends tasks. */
#ifndef MR_PS_CLIENT_INTERNAL_H
#define MR_PS_CLIENT_INTERNAL_H

#include "base/long_wait.h"
#include "dist/ps_client.h"
#include "ps/client.h"
#include "ps/filter.h"
#include "ps/link.h"
#include "ps/manager.h"
#include "ps/request.h"
#include "ps/server.h"
#include "run/parameter_store.h"

typedef struct mr_ps_client_task {
    int64_t number, since_ns;
    int refs; /* under the lock: one while the task is open, one per message under way */
    bool pull, reduce, whole;
    mr_ps_change change; /* of a push; its keys and floats are in the blob */
    mr_ps_blob *blob;
    uint8_t *present; /* by row: whether it is sent; NULL: all are */
    size_t width;     /* floats per key that are pushed or pulled */
    MR_VEC(mr_psc_piece) pieces;
    MR_VEC(size_t) at; /* the first row of each piece, and then the number of rows */
    float *out;
    double *sums; /* of a reduction, by piece; owned by the caller that waits */
    mr_status *why; /* the first error that a server reported; later the task's result */
    void (*done)(void *arg, mr_ps_task t, const mr_status *st);
    void *arg;
    bool ended;
} mr_ps_client_task;

typedef struct mr_ps_failed { /* the error of a task that has ended, until a caller asks for it */
    int64_t number;
    mr_status *st;
} mr_ps_failed;

typedef struct mr_ps_kept_back { /* by table: changes that the filter `modified` holds back */
    mr_ps_residuals *residuals;
} mr_ps_kept_back;

struct mr_ps {
    mr_ps_options o; /* its strings are NULL after mr_ps_open */
    char *name;
    uint64_t id;
    int64_t timeout_ns;
    mr_ps_manager *own_manager; /* inside this process, if no manager was given */
    mr_ps_server *own_server;   /* likewise */
    mr_ps_inbox inbox;
    mr_ps_routes routes;
    mr_ps_link link;
    mr_ps_map map; /* only the client's thread writes it, under the lock; it reads it without, others with the lock */
    mr_ps_store tables; /* only the list of tables is used */
    mr_ps_key_cache *keys; /* hashes of key lists that servers have */
    uint64_t seed_sent;    /* for random rounding */
    int64_t look_ns; /* when to look for late tasks again */
    bool closing;

    mr_mutex mu;
    mr_cond changed; /* a task ended, room became free, a view or a table came, or the manager refused */
    mr_psc *psc MR_GUARDED_BY(mu);
    mr_psc_actions actions MR_GUARDED_BY(mu);
    mr_ps_note nudge MR_GUARDED_BY(mu);
    bool nudged MR_GUARDED_BY(mu);
    mr_imap tasks MR_GUARDED_BY(mu); /* open tasks by number */
    int64_t last MR_GUARDED_BY(mu);  /* number of the newest task */
    MR_VEC(mr_ps_failed) failed MR_GUARDED_BY(mu);
    MR_VEC(mr_ps_kept_back) kept_back MR_GUARDED_BY(mu);
    uint64_t seed MR_GUARDED_BY(mu); /* for random skipping */
    mr_ps_stats stats MR_GUARDED_BY(mu);
    int n_ranges MR_GUARDED_BY(mu);
    int n_tables MR_GUARDED_BY(mu);  /* tables that API callers may use */
    mr_ps_table_spec *table_at[MR_PS_MAX_TABLES]; /* entries below n_tables never change */
    int64_t iteration MR_GUARDED_BY(mu), delay_now MR_GUARDED_BY(mu);
    bool quiet MR_GUARDED_BY(mu); /* the manager's last answer: it has nothing to move */
    mr_parameter_store store; /* for ops */
    char *bound MR_GUARDED_BY(mu); /* the store's name; NULL: not bound */
    mr_status *refused MR_GUARDED_BY(mu); /* the manager refuses this client for good: why */
};

/* ---- client.c ---- */
/* Wakes the client's thread to carry out ps->actions. */
void mr_ps_nudge_locked(mr_ps *ps) MR_REQUIRES(ps->mu);
void mr_ps_task_unref_locked(mr_ps *ps, mr_ps_client_task *t) MR_REQUIRES(ps->mu);

/* ---- client_ask.c ---- */
/* Starts a question with this client's id; the caller adds the other fields with w. */
void mr_ps_question_begin(mr_ps *ps, mr_pb_writer *w, mr_str *head);
/* Calls the manager and waits; repeats the call while there is no manager. head: from mr_ps_question_begin, taken over.
 * reply may be NULL. */
mr_status *mr_ps_ask_manager(mr_ps *ps, const char *method, mr_pb_writer *w, mr_str *head, int64_t timeout_ns,
                             mr_bytes *reply);
const mr_ps_table_spec *mr_ps_find_table(mr_ps *ps, int table, mr_status **st); /* NULL: unknown, *st is set */

/* ---- client_begin.c ---- */
/* Gives a complete task its number, and begins it. Takes it over, also on error. */
mr_status *mr_ps_task_begin(mr_ps *ps, mr_ps_client_task *t, const mr_ps_task *after, int n_after, mr_ps_task *number);
void mr_ps_task_free(mr_ps_client_task *t);

/* ---- client_send.c ---- */
void mr_ps_send_all(mr_ps *ps); /* carries out ps->actions; on the client's thread */

#endif
