/* exec/blame.h -- where the time of a step went, and which task is to blame.
 *
 * From the span that ended last, the search goes back through what each span waited for: the span whose value
 * it could use last, or the one that occupied its lane. That is the critical path: if anything on it were
 * shorter, so would be the step. Its time is divided by kind and task. Times in which nothing on it was at
 * work count as waiting: for a thread, or for a call to arrive. A barrier is blamed on the task that arrived
 * last, if its step was traced too. */
#ifndef MR_EXEC_BLAME_H
#define MR_EXEC_BLAME_H

#include "exec/timeline.h"

typedef struct mr_blame_part { /* the path's time of one kind at one task, in relation to one peer */
    mr_span_kind kind;
    int task; /* of the timeline; -1: no task's: before anything ran, or after everything */
    int peer; /* SEND: the sender; WAIT: the task that was waited for; -1: unknown or none */
    int64_t ns;
    int top; /* the span that took most of it; -1: none, the time was between spans */
    int64_t top_ns;
} mr_blame_part;

typedef struct mr_blame {
    int step; /* of the timeline; -1: the whole timeline as one step */
    int64_t total_ns;
    int64_t outside_ns; /* the client's time before it: as recorded, or since the step before if that was traced */
    int64_t kinds_ns[MR_SPAN_KINDS];
    MR_VEC(mr_blame_part) parts; /* the largest first */
    int slowest; /* the task with most work on the path, or (waited) the one that was waited for; -1: none */
    bool waited;
    int64_t slowest_ns; /* its work, or the time it was waited for */
} mr_blame;

/* Computes the blame of every step, in the timeline's order; a timeline without steps counts as one. *out: mr_free,
 * after mr_blame_deinit of each. */
void mr_blame_steps(const mr_timeline *t, mr_blame **out, int *n);
void mr_blame_deinit(mr_blame *b);
/* Sorts by the numbers of the steps. */
void mr_blame_sort(const mr_timeline *t, mr_blame *b, int n);

/* Appends "step 120 of worker:1: 41.2 ms = compute 62 % (worker:1), wait 30 % (worker:1 for worker:0) ..." and lines
 * that say what to look at first. */
void mr_blame_text(const mr_timeline *t, const mr_blame *b, mr_str *out);
/* Appends the same for all steps together; nothing for fewer than two. */
void mr_blame_summary(const mr_timeline *t, const mr_blame *b, int n, mr_str *out);

#endif
