/* dist/backups.h -- how many workers are worth waiting for, from how long each has taken lately.
 *
 * Pure: times in, a number out.  A synchronous step that waits for the first m of n workers takes as long as the m-th of them,
 * X_(m).  Of each worker the last MR_BACKUPS_WINDOW times are kept (from when it could begin to when its gradients were
 * there, also when they came too late to count), and the expected X_(m) is their mean over the window: the newest times of all
 * workers in order, the second newest, and so on.
 *
 * The criterion is progress: m^alpha / E[X_(m)], where alpha says what a gradient more is worth.  With 1, which is the usual,
 * it is worth as much as those before it, so a worker is dropped when the step becomes shorter by a larger share than the
 * batch does: gradients used a second are as many as can be.  Below 1 large batches count for less, and more are dropped.
 * At least half of the workers are waited for in any case.
 *
 * Another number is taken only when it promises MR_BACKUPS_GAIN more than the present one.  A worker that changes for good is
 * seen soon: when its last MR_BACKUPS_CHANGED times are all less than half, or all more than double, of every time before them,
 * what was before is forgotten.  And who has not come yet has taken at least until now (`since`): so a step does not wait
 * for a worker that has just become much slower than it ever was. */
#ifndef MR_DIST_BACKUPS_H
#define MR_DIST_BACKUPS_H

#include <stdbool.h>
#include <stdint.h>

enum { MR_BACKUPS_WINDOW = 8, MR_BACKUPS_CHANGED = 2 };
#define MR_BACKUPS_GAIN 0.05

typedef struct mr_backups_worker {
    int64_t took_ns[MR_BACKUPS_WINDOW]; /* the newest first */
    int n;
    bool there;       /* it is counted on */
    int64_t since_ns; /* how long its present step has lasted already; 0: it is over, or nobody knows */
} mr_backups_worker;

typedef struct mr_backups {
    int n_workers;
    double alpha;
    mr_backups_worker *workers;
    int64_t *scratch; /* times of one row */
    double *expected; /* ns, by m - 1, of the last choice; 0: unknown */
    int n_there;      /* at the last choice */
    int drop;         /* the last choice: that many are not waited for */
} mr_backups;

/* alpha 0: 1. */
void mr_backups_init(mr_backups *b, int n_workers, double alpha);
void mr_backups_deinit(mr_backups *b);
/* A worker's gradients came, so long after it could begin. */
void mr_backups_took(mr_backups *b, int worker, int64_t ns);
void mr_backups_there(mr_backups *b, int worker, bool there, int64_t since_ns);
/* How many of those who are there to wait for: 0 when nobody is. */
int mr_backups_choose(mr_backups *b);
/* The expected time of a step that waits for m, as of the last choice; 0: unknown. */
double mr_backups_expected_ns(const mr_backups *b, int m);

#endif
