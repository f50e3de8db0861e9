/* dist/backups.h -- how many workers a synchronous step should wait for, given how long each has taken recently.
 *
 * Pure: times in, a number out.  A step that waits for the first m of n workers takes as long as the m-th of them,
 * X_(m).  The last MR_BACKUPS_WINDOW times of each worker are kept: from when it could begin until its gradients
 * arrived, even if they arrived too late to count.  The expected X_(m) is a mean over the window: the m-th smallest of
 * the newest times of all workers, of the second newest, and so on.
 *
 * The criterion is progress: m^alpha / E[X_(m)], where alpha says what one more gradient is worth.  With alpha 1, the
 * default, it is worth as much as the others, so a worker is dropped when that shortens the step by a larger share than
 * the batch: this maximizes the gradients used per second.  With a smaller alpha large batches count for less, and more
 * workers are dropped.  At least half of the workers are always waited for.
 *
 * The number changes only if the new one promises MR_BACKUPS_GAIN more than the present one.  A worker whose speed
 * changes for good is noticed soon: when its last MR_BACKUPS_CHANGED times are all less than half, or all more than
 * double, of every earlier time, the earlier times are forgotten.  A worker that has not arrived yet has taken at least
 * the time until now (`since_ns`), so a step does not wait for a worker that has just become much slower than it ever
 * was. */
#ifndef MR_DIST_BACKUPS_H
#define MR_DIST_BACKUPS_H

#include <stdbool.h>
#include <stdint.h>

enum { MR_BACKUPS_WINDOW = 8, MR_BACKUPS_CHANGED = 2 };
#define MR_BACKUPS_GAIN 0.05

typedef struct mr_backups_worker {
    int64_t took_ns[MR_BACKUPS_WINDOW]; /* the newest first */
    int n;
    bool there;       /* it takes part */
    int64_t since_ns; /* how long its present step has lasted so far; 0: the step is over, or unknown */
} mr_backups_worker;

typedef struct mr_backups {
    int n_workers;
    double alpha;
    mr_backups_worker *workers;
    int64_t *scratch; /* times of one row */
    double *expected; /* ns, by m - 1, of the last choice; 0: unknown */
    int n_there;      /* at the last choice */
    int drop;         /* the last choice: this many workers are not waited for */
} mr_backups;

/* alpha 0: 1. */
void mr_backups_init(mr_backups *b, int n_workers, double alpha);
void mr_backups_deinit(mr_backups *b);
/* A worker's gradients arrived, ns after it could begin. */
void mr_backups_took(mr_backups *b, int worker, int64_t ns);
void mr_backups_there(mr_backups *b, int worker, bool there, int64_t since_ns);
/* How many of the workers that take part to wait for; 0 if none does. */
int mr_backups_choose(mr_backups *b);
/* The expected time of a step that waits for m, as of the last choice; 0: unknown. */
double mr_backups_expected_ns(const mr_backups *b, int m);

#endif
