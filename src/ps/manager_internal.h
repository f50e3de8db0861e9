/* ps/manager_internal.h -- the manager's state, for its two files.
 *
 * manager.c keeps the members (which joined, which are silent) and sends them news; manager_calls.c has
 * the methods. The manager's thread owns all of it. A member (mr_ps_person) is a server or a worker. */
#ifndef MR_PS_MANAGER_INTERNAL_H
#define MR_PS_MANAGER_INTERNAL_H

#include "dist/delay.h"
#include "dist/ps_manager.h"
#include "ps/manager.h"

enum { MR_PS_MAX_PEOPLE = 1 << 16, MR_PS_MAX_GONE = 1 << 16 };

typedef struct mr_ps_person mr_ps_person;

typedef struct mr_ps_held_call { /* an open call of a member */
    mr_ps_held held; /* first */
    uint64_t id;     /* of the member */
    struct mr_ps_held_call **place; /* the member's pointer to this call */
} mr_ps_held_call;

struct mr_ps_person { /* a server or a worker that joined */
    uint64_t id;
    bool server, observer;
    bool silent; /* a worker that is lost: the others do not wait for it, but it may come back */
    char *name, *address;
    int64_t heard_ns; /* time of its last call */
    uint64_t epoch, forgot; /* what it knows, by its last Watch */
    int tables;             /* likewise */
    int64_t watched_ns;  /* since when its Watch is held */
    int64_t n_done;      /* iterations that a worker has finished */
    mr_ps_held_call *live, *watch, *leave, *iterate; /* open calls; NULL: none */
};

typedef struct mr_ps_new_table { /* a Table call that waits until all servers know the table */
    mr_ps_held held; /* first */
    int table;
    int64_t until_ns;
} mr_ps_new_table;

struct mr_ps_manager {
    mr_ps_inbox inbox;
    mr_ps_listeners *listeners;
    int num_ranges;
    int64_t lost_ns;
    mr_psm psm;
    mr_psm_actions actions;
    MR_VEC(mr_ps_person *) people;
    mr_imap by_id;
    MR_VEC(mr_ps_table_spec *) tables;
    MR_VEC(mr_ps_new_table *) new_tables;
    mr_ps_numbers forgotten; /* the newest of `forgot` clients that were forgotten in all */
    uint64_t forgot;
    mr_delay delay;
    mr_delay_actions begun;
    int delay_told; /* the option `delay` of the worker that came first */
    bool has_delay;
    mr_str view;    /* psm.view as bytes, of view_epoch */
    uint64_t view_epoch;
    int64_t ticked_ns; /* time of the last tick */
    bool closing;
};

/* ---- manager.c ---- */
mr_ps_person *mr_ps_person_find(mr_ps_manager *m, uint64_t id); /* NULL: unknown */
mr_ps_person *mr_ps_person_add(mr_ps_manager *m, uint64_t id, bool server); /* NULL: too many, or the id is taken */
/* Forgets and frees a member. Its open calls end with `why`, which is taken over. */
void mr_ps_person_remove(mr_ps_manager *m, mr_ps_person *p, mr_status *why);
/* Carries out m->actions, empties them, and sends news to every member that lacks some. */
void mr_ps_manager_act(mr_ps_manager *m);
/* A member is lost: its connection broke, or it was silent for too long. A server is freed. */
void mr_ps_manager_lost(mr_ps_manager *m, mr_ps_person *p);
void mr_ps_manager_delay(mr_ps_manager *m, uint64_t worker, mr_delay_message message, int64_t iteration);
/* Whether a member lacks a view, a table or a forgotten client. */
bool mr_ps_manager_has_news(const mr_ps_manager *m, const mr_ps_person *p);
mr_status *mr_ps_manager_news(mr_ps_manager *m, const mr_ps_person *p, bool join, mr_bytes *out);
void mr_ps_manager_tell(mr_ps_manager *m, mr_ps_person *p); /* answers its Watch */
/* Holds a call open as *place of a member; an older call there is answered with ABORTED. */
void mr_ps_manager_keep(mr_ps_manager *m, mr_ps_person *p, mr_ps_held_call **place, mr_net_call *c);
void mr_ps_manager_answer(mr_ps_held_call **place, mr_status *st, mr_bytes *body); /* NULL there: nothing happens */

/* ---- manager_calls.c ---- */
void mr_ps_manager_check_tables(mr_ps_manager *m, int64_t now_ns);
void mr_ps_manager_handle(void *manager, mr_net_call *c); /* from any thread */

#endif
