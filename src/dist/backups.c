/* dist/backups.c -- order statistics of the workers' times, and the number that makes the most
 * progress.
 *
 * A worker with fewer times than the window is assumed to have repeated its oldest one before. A
 * worker without any time is assumed to be like the median of the others, which says nothing for or
 * against it. */
#include "dist/backups.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/status.h"

void mr_backups_init(mr_backups *b, int n_workers, double alpha)
{
    *b = (mr_backups){.n_workers = n_workers, .alpha = alpha > 0 ? alpha : 1};
    b->workers = mr_new_array(mr_backups_worker, n_workers + 1);
    b->scratch = mr_new_array(int64_t, n_workers + 1);
    b->expected = mr_new_array(double, n_workers + 1);
}

void mr_backups_deinit(mr_backups *b)
{
    mr_free(b->workers);
    mr_free(b->scratch);
    mr_free(b->expected);
    *b = (mr_backups){0};
}

/* Whether the newest few times are all far below, or all far above, every earlier one. */
static bool has_changed(const mr_backups_worker *w)
{
    int64_t lo = INT64_MAX, hi = 0, old_lo = INT64_MAX, old_hi = 0;
    for (int i = 0; i < w->n; i++) {
        int64_t v = w->took_ns[i];
        if (i < MR_BACKUPS_CHANGED) {
            lo = MR_MIN(lo, v);
            hi = MR_MAX(hi, v);
        } else {
            old_lo = MR_MIN(old_lo, v);
            old_hi = MR_MAX(old_hi, v);
        }
    }
    return w->n > MR_BACKUPS_CHANGED && (hi < old_lo / 2 || lo / 2 > old_hi);
}

/* Times before a lasting change are dropped, so that the window describes the present. */
void mr_backups_took(mr_backups *b, int worker, int64_t ns)
{
    MR_ASSERT(worker >= 0 && worker < b->n_workers);
    mr_backups_worker *w = &b->workers[worker];
    w->n = MR_MIN(w->n + 1, MR_BACKUPS_WINDOW);
    memmove(w->took_ns + 1, w->took_ns, sizeof(int64_t) * (size_t)(w->n - 1));
    w->took_ns[0] = MR_MAX(1, ns);
    w->since_ns = 0;
    if (has_changed(w))
        w->n = MR_BACKUPS_CHANGED;
}

/* Called for every worker before mr_backups_choose. */
void mr_backups_there(mr_backups *b, int worker, bool there, int64_t since_ns)
{
    MR_ASSERT(worker >= 0 && worker < b->n_workers);
    b->workers[worker].there = there;
    b->workers[worker].since_ns = there ? since_ns : 0;
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The time of a worker at one depth of the window; 0: unknown. A present step that lasts longer
 * than any before counts as the newest time, although it is not over. */
static int64_t time_at(const mr_backups_worker *w, int depth)
{
    bool unfinished = w->since_ns > 0;
    for (int i = 0; i < w->n && unfinished; i++)
        unfinished = w->since_ns > w->took_ns[i];
    if (unfinished && depth == 0)
        return w->since_ns;
    depth -= unfinished;
    return w->n ? w->took_ns[MR_MIN(depth, w->n - 1)] : unfinished ? w->since_ns : 0;
}

/* Adds the sorted times at one depth to `expected`. Unknown workers are placed at the median.
 * false: no worker has a time. */
static bool add_row(mr_backups *b, int depth)
{
    int known = 0;
    for (int i = 0; i < b->n_workers; i++) {
        int64_t v = b->workers[i].there ? time_at(&b->workers[i], depth) : 0;
        if (v > 0)
            b->scratch[known++] = v;
    }
    if (known == 0)
        return false;
    qsort(b->scratch, (size_t)known, sizeof *b->scratch, by_time);
    int64_t median = b->scratch[known / 2];
    int unknown = b->n_there - known, below = known / 2;
    MR_ASSERT(unknown >= 0);
    for (int m = 0; m < b->n_there; m++) {
        int64_t v = m < below ? b->scratch[m] : m < below + unknown ? median : b->scratch[m - unknown];
        b->expected[m] += (double)v / MR_BACKUPS_WINDOW;
    }
    return true;
}

/* The criterion of the header: what m gradients are worth, per expected time. */
static double progress(const mr_backups *b, int m) { return pow(m, b->alpha) / b->expected[m - 1]; }

/* Keeps the present number unless another promises MR_BACKUPS_GAIN more, so that noise does not
 * change it. */
int mr_backups_choose(mr_backups *b)
{
    b->n_there = 0;
    for (int i = 0; i < b->n_workers; i++) {
        b->n_there += b->workers[i].there;
        b->expected[i] = 0;
    }
    bool known = b->n_there > 0;
    for (int depth = 0; depth < MR_BACKUPS_WINDOW && known; depth++)
        known = add_row(b, depth);
    int least = (b->n_there + 1) / 2, now = MR_MAX(b->n_there - b->drop, least), best = now;
    if (!known)
        return now;
    for (int m = least; m <= b->n_there; m++)
        if (progress(b, m) > progress(b, best))
            best = m;
    if (progress(b, best) > progress(b, now) * (1 + MR_BACKUPS_GAIN))
        b->drop = b->n_there - best;
    return MR_MAX(b->n_there - b->drop, least);
}

double mr_backups_expected_ns(const mr_backups *b, int m) { return m >= 1 && m <= b->n_there ? b->expected[m - 1] : 0; }
