/* dist/ps_client_internal.h -- a client's tasks and rows, for its two files.
 *
 *     ps_client.c       events: tasks that begin, views, answers, time
 *     ps_client_rows.c  parts in the rows of their ranges, and the end of tasks */
#ifndef MR_DIST_PS_CLIENT_INTERNAL_H
#define MR_DIST_PS_CLIENT_INTERNAL_H

#include "base/map.h"
#include "dist/ps_client.h"

typedef struct mr_psc_task mr_psc_task;

typedef struct mr_psc_part {
    mr_psc_task *task;
    int piece, range, try;
    bool under_way;
    bool was_first; /* when it was sent, it was the first of its row: the server has all it needs */
    bool empty;     /* has no payload, and the task does not wait for it */
    bool went_empty; /* it was empty when it was last sent */
    bool out;              /* no longer in its row */
    uint64_t to, ts, prev;
    int64_t due_ns; /* an answer is expected until then */
} mr_psc_part;

struct mr_psc_task {
    int64_t id, deadline_ns;
    bool push, begun, ended;
    mr_code code;
    int failed_range;
    int n, n_waited, n_in_rows, n_before; /* parts; parts not finished; parts in rows; tasks that must end before it */
    size_t bytes;
    MR_VEC(int64_t) followers;
    mr_psc_task *next, **link; /* list of all tasks: mr_psc.all */
    mr_psc_part parts[];
};

typedef struct mr_psc_row {
    MR_VEC(mr_psc_part *) pushes, pulls;
    uint64_t last; /* timestamp of the newest push of this range, in this generation */
    int n_under_way;
    int64_t retry_at_ns, pause_ns;
} mr_psc_row;

struct mr_psc {
    uint64_t client;
    mr_psc_options o;
    mr_ps_view view;
    mr_psc_row *rows;
    mr_imap tasks;
    mr_psc_task *all;
    MR_VEC(int64_t) ready; /* tasks that may begin; they do at the end of the present event */
    int n_open;
    int64_t last_task;
    uint64_t last_ts;
    size_t bytes;
    int64_t ask_at_ns, n_resent;
};

/* ---- ps_client_rows.c ---- */
mr_psc_task *mr_psc_task_of(const mr_psc *c, int64_t id); /* NULL: unknown, or freed */
void mr_psc_ask_view(mr_psc *c, int64_t now_ns, mr_psc_actions *out);
/* Sends what may be sent now. */
void mr_psc_row_pump(mr_psc *c, int range, int64_t now_ns, mr_psc_actions *out);
void mr_psc_row_pause(mr_psc *c, mr_psc_row *r, int64_t now_ns); /* each pause is longer than the one before */
bool mr_psc_row_has_more(const mr_psc_row *r);                   /* whether parts wait to be sent */
void mr_psc_part_stop(mr_psc *c, mr_psc_part *p);     /* no longer under way */
void mr_psc_part_set_back(mr_psc *c, mr_psc_part *p); /* to be sent again, with all pushes behind it */
void mr_psc_part_finish(mr_psc_part *p, mr_code code); /* its task no longer waits for it */
void mr_psc_part_take_out(mr_psc *c, mr_psc_part *p);  /* out of its row */
void mr_psc_part_fail(mr_psc *c, mr_psc_part *p, mr_code code);
void mr_psc_task_look_at(mr_psc *c, mr_psc_task *t, mr_psc_actions *out); /* ends or frees it, if it is time */
void mr_psc_task_abandon(mr_psc *c, mr_psc_task *t, mr_code code, mr_psc_actions *out);
void mr_psc_task_free(mr_psc *c, mr_psc_task *t);

#endif
