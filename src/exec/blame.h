/* exec/blame.h -- where the time of a step went, and who is to blame.
 *
 * From the span that ended last, a way is gone back through what each one waited for: the span whose
 * value it could have last, or the one that had its lane.  That is the critical path; were anything
 * on it shorter, the step would be.  Its time is divided by kind and task.  Moments in which
 * nothing on it was at work are waiting too: for a thread, or for a call to arrive.  A barrier is
 * blamed on the task that came to it last, when its step was traced too. */
#ifndef MR_EXEC_BLAME_H
#define MR_EXEC_BLAME_H

#include "exec/timeline.h"

typedef struct mr_blame_part { /* the path's time of one kind at one task, from or for one other */
    mr_span_kind kind;
    int task; /* of the timeline; -1: nobody's: before anything ran, or behind it all */
    int peer; /* SEND: where it came from; WAIT: who was waited for; -1: unknown or nobody */
    int64_t ns;
    int top; /* the span that took most of it; -1: none did, it lay between spans */
    int64_t top_ns;
} mr_blame_part;

typedef struct mr_blame {
    int step; /* of the timeline; -1: all of it is seen as one */
    int64_t total_ns;
    int64_t outside_ns; /* of the client before it: as told, or since the step before if traced */
    int64_t kinds_ns[MR_SPAN_KINDS];
    MR_VEC(mr_blame_part) parts; /* the largest first */
    int slowest; /* the task with most work on the path, or `waited` for there; -1: none */
    bool waited;
    int64_t slowest_ns; /* so long */
} mr_blame;

/* Of every step, in the timeline's order; of a timeline without steps of all of it.  *out: mr_free,
 * after mr_blame_deinit of each. */
void mr_blame_steps(const mr_timeline *t, mr_blame **out, int *n);
void mr_blame_deinit(mr_blame *b);
/* By the numbers of their steps, for people. */
void mr_blame_sort(const mr_timeline *t, mr_blame *b, int n);

/* "step 120 of worker:1: 41.2 ms = compute 62 % (worker:1), wait 30 % (worker:1 for worker:0) ..."
 * and lines that say what to look at first. */
void mr_blame_text(const mr_timeline *t, const mr_blame *b, mr_str *out);
/* The same of all steps together; nothing for fewer than two. */
void mr_blame_summary(const mr_timeline *t, const mr_blame *b, int n, mr_str *out);

#endif
