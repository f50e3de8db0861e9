/* bench/all_reduce.c -- the sum of some MiB of floats over processes of this host: `all_reduce PROCESSES [shared]
 * MIB...`, or `all_reduce PROCESSES calls MIB...` as between hosts, with the addresses of this one; and how long it takes
 * until the remaining processes continue after one of four was killed: `all_reduce lose`.
 *
 * Each process has its own buffer, from malloc, or with `shared` from mr_group_alloc; a time is that of the slowest,
 * and the figure the median of many. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "group/group.h"

enum { ROUNDS = 21, WARM = 3 };

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

static void fill(float *x, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

static double one_round(mr_group *g, float *x, int64_t n)
{
    mr_group_work sum = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = x, .out = x, .count = n};
    must(mr_group_run(g, &(mr_group_work){.kind = MR_GROUP_BARRIER}));
    int64_t began = mr_now_ns();
    must(mr_group_run(g, &sum));
    double took = (double)(mr_now_ns() - began) / 1e6;
    mr_group_work slowest = {.kind = MR_GROUP_ALL_REDUCE, .type = MR_DOUBLE, .merge = MR_MERGE_MAX, .in = &took, .out = &took, .count = 1};
    must(mr_group_run(g, &slowest));
    return took;
}

typedef enum way { OWN_MEMORY, SHARED_MEMORY, CALLS } way;
static const char *const way_names[] = {"", "_shared", "_calls"};

static void measure(mr_group *g, int64_t mib, way how)
{
    int64_t n = mib << 18;
    int rank = mr_group_own_rank(g), size = mr_group_n_members(g);
    double ms[ROUNDS];
    bool shared = how == SHARED_MEMORY;
    float *x = shared ? mr_group_memory(g, (size_t)n * 4) : aligned_alloc(64, (size_t)n * 4), right = (float)(size * (size + 1) / 2);
    if (!x)
        must(mr_error(MR_RESOURCE_EXHAUSTED, "no memory"));
    for (int round = -WARM; round < ROUNDS; round++) {
        fill(x, n, (float)(rank + 1));
        double took = one_round(g, x, n);
        if (x[0] != right || x[n / 2] != right || x[n - 1] != right)
            must(mr_error(MR_INTERNAL, "the sum is %g", x[n - 1]));
        ms[round < 0 ? 0 : round] = took;
    }
    qsort(ms, ROUNDS, sizeof(ms[0]), by_value);
    if (rank == 0)
        printf("allreduce_%lldMiB_%d%s_ms %.3f ms\n", (long long)mib, size, way_names[how], ms[ROUNDS / 2]);
    must(mr_group_run(g, &(mr_group_work){.kind = MR_GROUP_BARRIER}));
    if (shared)
        mr_group_memory_free(g, x);
    else
        free(x);
}

/* Ports beside the usual ones, which nobody else should use. */
static const char *const addresses[] = {"127.0.0.1:31871", "127.0.0.1:31872", "127.0.0.1:31873", "127.0.0.1:31874"};

static void member(int rank, int size, const char *folder, char **sizes, int n_sizes, way how)
{
    mr_group *g;
    mr_group_config c = {.name = "bench", .transport = "shm", .rank = rank, .size = size, .folder = folder};
    if (how == CALLS)
        c = (mr_group_config){.name = "bench", .transport = "grpc", .rank = rank, .size = size, .addresses = addresses, .n_addresses = size};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    must(mr_group_open(&c, &g));
    for (int i = 0; i < n_sizes; i++)
        measure(g, atoi(sizes[i]), how);
    mr_group_close(g);
    exit(0);
}

/* The lock, and sockets of those that were killed. */
static mr_status *remove_file(void *folder, const char *name)
{
    char *path = mr_printf("%s/%s", (char *)folder, name);
    unlink(path);
    mr_free(path);
    return NULL;
}

/* ---- losing one ---- */

enum { LOSE_SIZE = 4 };
typedef struct board {
    _Atomic int rounds;
    _Atomic int64_t went_on_ns[LOSE_SIZE];
} board;

static void live(board *b, int rank, const char *folder)
{
    mr_group *g;
    float x[1024] = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    must(mr_group_open(&(mr_group_config){.name = "bench", .transport = "shm", .rank = rank, .size = LOSE_SIZE, .folder = folder}, &g));
    for (int after = 0; after == 0;) {
        mr_status *st = mr_group_run(g, &(mr_group_work){.kind = MR_GROUP_ALL_REDUCE, .type = MR_FLOAT, .in = x, .out = x, .count = 1024});
        if (st)
            must(mr_group_form(g));
        else
            after = mr_group_n_members(g) < LOSE_SIZE;
        mr_status_free(st);
        atomic_fetch_add(&b->rounds, rank == 0);
    }
    atomic_store(&b->went_on_ns[rank], mr_now_ns());
    mr_group_close(g);
    exit(0);
}

static double lose_one(const char *folder, int victim)
{
    pid_t pids[LOSE_SIZE];
    int64_t last = 0;
    board *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED)
        exit(1);
    for (int i = 0; i < LOSE_SIZE; i++)
        if ((pids[i] = fork()) == 0)
            live(b, i, folder);
    while (atomic_load(&b->rounds) < 100)
        mr_sleep_ns(1000000);
    int64_t killed = mr_now_ns();
    kill(pids[victim], SIGKILL);
    for (int i = 0; i < LOSE_SIZE; i++)
        waitpid(pids[i], NULL, 0);
    for (int i = 0; i < LOSE_SIZE; i++)
        last = MR_MAX(last, atomic_load(&b->went_on_ns[i]));
    munmap(b, sizeof(*b));
    return (double)(last - killed) / 1e6;
}

/* Kills each of them once: one of them holds the roster. */
static void measure_loss(const char *folder)
{
    double worst = 0;
    for (int i = 0; i < LOSE_SIZE; i++) {
        double ms = lose_one(folder, i);
        worst = MR_MAX(worst, ms);
    }
    printf("group_goes_on_after_kill_ms %.1f ms\n", worst);
}

int main(int argc, char **argv)
{
    int size = argc > 1 ? atoi(argv[1]) : 0, status, bad = 0;
    way how = argc > 2 && strcmp(argv[2], "shared") == 0 ? SHARED_MEMORY : argc > 2 && strcmp(argv[2], "calls") == 0 ? CALLS : OWN_MEMORY;
    int first = how == OWN_MEMORY ? 2 : 3;
    char folder[] = "/tmp/millrace-bench-XXXXXX";
    bool lose = argc == 2 && strcmp(argv[1], "lose") == 0;
    if (!(lose || (size >= 1 && size <= MR_COUNT(addresses) && argc > first)) || !mkdtemp(folder))
        return 2;
    if (lose)
        measure_loss(folder);
    for (int r = 0; r < size; r++)
        if (fork() == 0)
            member(r, size, folder, argv + first, argc - first, how);
    while (wait(&status) > 0)
        bad |= status;
    mr_status_free(mr_dir_each(folder, remove_file, folder));
    rmdir(folder);
    return bad != 0;
}
