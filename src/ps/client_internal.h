/* ps/client_internal.h -- a client's state, for its files.
 *
 *     client.c        its life, waiting
 *     client_ask.c    what it asks of the manager while somebody waits: tables, iterations
 *     client_begin.c  pushes and pulls are taken apart, filtered and begun
 *     client_send.c   what was decided is sent, and what is answered taken
 *
 * Decisions (mr_psc) and tasks are under the lock, because callers of the API begin tasks themselves; messages are made, sent
 * and taken by the client's thread alone, and tasks end there. */
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
    int refs; /* under the lock: the client's while it is open, and of messages */
    bool pull, reduce, whole;
    mr_ps_change change; /* of a push; keys and floats in the blob */
    mr_ps_blob *blob;
    uint8_t *present; /* by row: it is sent; NULL: all are */
    size_t width;     /* floats a key, of what is pushed or pulled */
    MR_VEC(mr_psc_piece) pieces;
    MR_VEC(size_t) at; /* the first row of each piece, and behind them the number of rows */
    float *out;
    double *sums; /* of a sum: by piece; whoever waits keeps it */
    mr_status *why; /* what a server said */
    void (*done)(void *arg, mr_ps_task t, const mr_status *st);
    void *arg;
    bool ended;
} mr_ps_client_task;

typedef struct mr_ps_failed { /* a task that nobody has asked for yet */
    int64_t number;
    mr_status *st;
} mr_ps_failed;

typedef struct mr_ps_kept_back { /* by table: what `modified` keeps */
    mr_ps_residuals *residuals;
} mr_ps_kept_back;

struct mr_ps {
    mr_ps_options o; /* strings are not kept */
    char *name;
    uint64_t id;
    int64_t timeout_ns;
    mr_ps_manager *own_manager; /* inside this process */
    mr_ps_server *own_server;
    mr_ps_inbox inbox;
    mr_ps_ways ways;
    mr_ps_link link;
    mr_ps_map map; /* written by the client's thread under the lock: the thread reads it without, others with it */
    mr_ps_store tables; /* of which only the tables are used */
    mr_ps_key_cache *keys; /* hashes that servers have */
    uint64_t seed_sent;    /* of random rounding */
    int64_t look_ns; /* for tasks that are late */
    bool closing;

    mr_mutex mu;
    mr_cond changed; /* a task ended, there is room, a view came */
    mr_psc *psc MR_GUARDED_BY(mu);
    mr_psc_actions actions MR_GUARDED_BY(mu);
    mr_ps_note nudge MR_GUARDED_BY(mu);
    bool nudged MR_GUARDED_BY(mu);
    mr_imap tasks MR_GUARDED_BY(mu); /* that are open, by number */
    int64_t last MR_GUARDED_BY(mu);  /* number given out */
    MR_VEC(mr_ps_failed) failed MR_GUARDED_BY(mu);
    MR_VEC(mr_ps_kept_back) kept_back MR_GUARDED_BY(mu);
    uint64_t seed MR_GUARDED_BY(mu); /* of random skipping */
    mr_ps_stats stats MR_GUARDED_BY(mu);
    int n_slots MR_GUARDED_BY(mu);
    int n_tables MR_GUARDED_BY(mu);  /* as far as the API may look; tables stay where they are */
    mr_ps_table_spec *table_at[MR_PS_MAX_TABLES]; /* below n_tables */
    int64_t iteration MR_GUARDED_BY(mu), delay_now MR_GUARDED_BY(mu);
    bool quiet MR_GUARDED_BY(mu); /* the manager has nothing to move, as it said last */
    mr_parameter_store store; /* for ops */
    char *bound MR_GUARDED_BY(mu); /* its name; NULL: it has none */
    mr_status *refused MR_GUARDED_BY(mu); /* by the manager, for good */
};

/* ---- client.c ---- */
/* Lets the client's thread look at what was decided. */
void mr_ps_nudge_locked(mr_ps *ps) MR_REQUIRES(ps->mu);
void mr_ps_task_unref_locked(mr_ps *ps, mr_ps_client_task *t) MR_REQUIRES(ps->mu);

/* ---- client_ask.c ---- */
/* A question begins with who asks; w writes its other fields. */
void mr_ps_question_begin(mr_ps *ps, mr_pb_writer *w, mr_str *head);
/* A call to the manager, which is made again while there is none.  head: what mr_ps_question_begin began; reply: may be
 * NULL. */
mr_status *mr_ps_ask_manager(mr_ps *ps, const char *method, mr_pb_writer *w, mr_str *head, int64_t timeout_ns,
                             mr_bytes *reply);
const mr_ps_table_spec *mr_ps_find_table(mr_ps *ps, int table, mr_status **st); /* NULL: there is none */

/* ---- client_begin.c ---- */
/* Begins a task that is complete but for its number, and takes it over. */
mr_status *mr_ps_task_begin(mr_ps *ps, mr_ps_client_task *t, const mr_ps_task *after, int n_after, mr_ps_task *number);
void mr_ps_task_free(mr_ps_client_task *t);

/* ---- client_send.c ---- */
void mr_ps_send_all(mr_ps *ps); /* carries out what was decided; on the client's thread */

#endif
