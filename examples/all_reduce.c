/* examples/all_reduce.c -- the mean of some numbers over processes, one of which may die.
 *
 *     mpirun -n 3 all_reduce                 ranks and size from mpirun
 *     all_reduce --fork 3                    three processes of its own
 *     all_reduce --fork 3 --lose             and the last of them ends in the middle
 *
 * Every process has a vector of its own; in each of ten rounds all take the mean of what they have and add their rank to it.
 * When a member is lost, the others form the group anew and go on from what member 0 has. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/group.h"

#include "options.h"

enum { N = 1 << 20, ROUNDS = 10 };

static int fail(const char *what, TF_Status *status)
{
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    return 1;
}

/* One round, again from the beginning when the group has changed. */
static int do_round(mr_group *g, float *x, int *round, TF_Status *status)
{
    mr_group_all_reduce(g, x, x, N, TF_FLOAT, MR_GROUP_MEAN, status);
    if (TF_GetCode(status) == TF_ABORTED) {
        printf("%s\n", TF_Message(status));
        mr_group_reform(g, status);
        if (TF_GetCode(status) == TF_OK)
            mr_group_broadcast(g, x, x, N, TF_FLOAT, 0, status);
        if (TF_GetCode(status) == TF_OK) /* how far it had come, too */
            mr_group_broadcast(g, round, round, 1, TF_INT32, 0, status);
        return TF_GetCode(status) == TF_OK ? 0 : fail("going on", status);
    }
    if (TF_GetCode(status) != TF_OK)
        return fail("all-reduce", status);
    for (int i = 0; i < N; i++)
        x[i] += (float)mr_group_rank(g);
    ++*round;
    return 0;
}

static int run(const mr_group_options *options, int dies_in)
{
    TF_Status *status = TF_NewStatus();
    mr_group *g = mr_group_join(options, status);
    if (!g)
        return fail("joining", status);
    float *x = mr_group_alloc(g, N * sizeof(float)); /* members of one host then copy nothing */
    int round = 0, bad = x == NULL;
    for (int i = 0; i < N && !bad; i++)
        x[i] = (float)mr_group_rank(g);
    while (round < ROUNDS && !bad) {
        if (round == dies_in)
            raise(SIGKILL);
        bad = do_round(g, x, &round, status);
    }
    if (!bad && mr_group_rank(g) == 0)
        printf("%d members, generation %lld: %g\n", mr_group_size(g), (long long)mr_group_generation(g), x[N - 1]);
    mr_group_free(g);
    TF_DeleteStatus(status);
    return bad;
}

/* The processes meet in a folder of their own. */
static int run_forked(int size, int lose)
{
    char folder[] = "/tmp/all-reduce-XXXXXX", path[64];
    int status, bad = 0;
    if (!mkdtemp(folder))
        return 2;
    for (int rank = 0; rank < size; rank++)
        if (fork() == 0) {
            mr_group_options options = {sizeof(options), .size = size, .rank = rank, .folder = folder};
            exit(run(&options, lose && rank == size - 1 ? ROUNDS / 2 : -1));
        }
    while (wait(&status) > 0)
        bad |= WIFEXITED(status) && WEXITSTATUS(status);
    snprintf(path, sizeof(path), "rm -rf %s", folder);
    return system(path) || bad;
}

static option options[] = {
    {"--fork", "N", NULL, "processes of its own; else mpirun, srun, `millrace launch` or TF_CONFIG tells who is there"},
    {"--lose", NULL, NULL, "the last of them ends in the middle"},
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "all_reduce: the mean of some numbers over processes, one of which may die.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    if (has("--fork"))
        return run_forked((int)integer("--fork", 1), has("--lose"));
    return run(NULL, -1);
}
