/* bench/all_reduce.c -- the sum of some MiB of floats over processes of this host: `all_reduce PROCESSES MIB [shared]`.
 *
 * Each process has a buffer of its own, in shared memory (mr_group_alloc's) when asked so; a time is that of the slowest, and the
 * figure the median of many. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "group/group.h"
#include "group/shm.h"

enum { MOST = 16, ROUNDS = 21, WARM = 3 };

static void must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", mr_status_message(st));
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int64_t soon(void) { return mr_now_ns() + INT64_C(60000000000); }

static void member(mr_transport *t, int64_t mib)
{
    int64_t n = mib << 18;
    double ms[ROUNDS];
    float *x = aligned_alloc(64, (size_t)n * 4);
    for (int round = -WARM; round < ROUNDS; round++) {
        for (int64_t i = 0; i < n; i++)
            x[i] = (float)(t->rank + 1);
        must(mr_group_run_on(t, &(mr_group_work){.kind = MR_GROUP_BARRIER}, soon()));
        int64_t began = mr_now_ns();
        must(mr_group_run_on(
            t, &(mr_group_work){.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = x, .out = x, .count = n}, soon()));
        double took = (double)(mr_now_ns() - began) / 1e6;
        must(mr_group_run_on(t,
                             &(mr_group_work){.kind = MR_GROUP_ALL_REDUCE, .type = MR_DOUBLE, .merge = MR_MERGE_MAX,
                                              .in = &took, .out = &took, .count = 1}, soon()));
        if (x[n - 1] != (float)(t->size * (t->size + 1) / 2) || x[0] != x[n - 1] || x[n / 2] != x[0])
            must(mr_error(MR_INTERNAL, "the sum is %g", x[n - 1]));
        if (round >= 0)
            ms[round] = took;
    }
    qsort(ms, ROUNDS, sizeof(ms[0]), by_value);
    if (t->rank == 0)
        printf("allreduce_%lldMiB_%d_ms %.3f ms\n", (long long)mib, t->size, ms[ROUNDS / 2]);
    free(x);
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 2, files[MOST], status, bad = 0;
    int64_t mib = argc > 2 ? atoi(argv[2]) : 16;
    if (size < 1 || size > MOST || mib < 1)
        return 2;
    for (int i = 0; i < size; i++)
        files[i] = mr_shm_file_new(size);
    for (int r = 0; r < size; r++)
        if (fork() == 0) {
            mr_transport *t;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            must(mr_shm_new(r, size, files, NULL, &t));
            member(t, mib);
            mr_transport_free(t);
            exit(0);
        }
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}
