/* cli/ranks_test.c */
#include "cli/ranks.h"

#include <stdio.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static const char *const *variables; /* name, value, name, value, NULL */

static const char *fake(const char *name)
{
    for (const char *const *v = variables; *v; v += 2)
        if (strcmp(v[0], name) == 0)
            return v[1];
    return NULL;
}

#define ENV(...) (variables = (const char *const[]){__VA_ARGS__, NULL})
static const mr_hosts none;

/* "2/3 a a b": rank, size, and where each is. */
static void check(const mr_hosts *given, const char *expected)
{
    mr_ranks r;
    char text[512];
    MR_CHECK_OK(mr_ranks_read(fake, given, &r));
    snprintf(text, sizeof text, "%s %d/%d", r.scheduler ? r.scheduler : "nobody", r.rank, r.size);
    for (int i = 0; i < r.size; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " %s", r.hosts.places.p[i]);
    mr_ranks_deinit(&r);
    MR_CHECK_STR(text, expected);
}

MR_TEST(ranks_of_an_ordinary_process_are_none)
{
    ENV("HOME", "/root");
    check(&none, "nobody 0/0");
}

MR_TEST(ranks_of_slurm_come_from_its_node_list)
{
    ENV("SLURM_PROCID", "2", "SLURM_NTASKS", "3", "SLURM_STEP_ID", "0", "SLURM_JOB_NODELIST", "n[1-2]", "SLURM_TASKS_PER_NODE", "2,1",
        "SLURM_LOCALID", "0");
    check(&none, "Slurm 2/3 n1 n1 n2");
}

MR_TEST(ranks_of_a_slurm_step_are_those_of_the_step)
{
    ENV("SLURM_PROCID", "1", "SLURM_NTASKS", "8", "SLURM_STEP_NUM_TASKS", "2", "SLURM_STEP_ID", "3", "SLURM_JOB_NODELIST", "n[1-4]",
        "SLURM_STEP_NODELIST", "n[3-4]", "SLURM_TASKS_PER_NODE", "2(x4)", "SLURM_STEP_TASKS_PER_NODE", "1(x2)", "SLURM_LOCALID", "0");
    check(&none, "Slurm 1/2 n3 n4");
}

MR_TEST(ranks_a_batch_script_is_none)
{
    ENV("SLURM_PROCID", "0", "SLURM_NTASKS", "8", "SLURM_JOB_NODELIST", "n[1-4]");
    check(&none, "nobody 0/0");
}

MR_TEST(ranks_that_are_dealt_out_in_turns_are_refused)
{
    mr_ranks r;
    ENV("SLURM_PROCID", "1", "SLURM_NTASKS", "4", "SLURM_STEP_ID", "0", "SLURM_JOB_NODELIST", "n[1-2]", "SLURM_TASKS_PER_NODE", "2(x2)",
        "SLURM_LOCALID", "0");
    MR_CHECK_ERR(mr_ranks_read(fake, &none, &r), MR_INVALID_ARGUMENT, "srun --distribution=block");
}

MR_TEST(ranks_of_mpirun_on_one_machine_use_loopback)
{
    ENV("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "3", "OMPI_COMM_WORLD_LOCAL_SIZE", "3", "OMPI_COMM_WORLD_LOCAL_RANK", "1");
    check(&none, "Open MPI 1/3 127.0.0.1 127.0.0.1 127.0.0.1");
    ENV("PMI_RANK", "0", "PMI_SIZE", "2", "MPI_LOCALNRANKS", "2");
    check(&none, "MPI 0/2 127.0.0.1 127.0.0.1");
}

MR_TEST(ranks_of_mpirun_in_slurm_are_mpiruns)
{
    ENV("OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "OMPI_COMM_WORLD_LOCAL_RANK", "1",
        "SLURM_PROCID", "1", "SLURM_NTASKS", "2", "SLURM_STEP_ID", "0", "SLURM_JOB_NODELIST", "a,b", "SLURM_TASKS_PER_NODE", "2(x2)");
    check(&none, "Open MPI 3/4 a a b b");
}

MR_TEST(ranks_of_mpirun_over_hosts_need_the_hosts)
{
    mr_ranks r;
    mr_hosts given = {0};
    ENV("OMPI_COMM_WORLD_RANK", "1", "OMPI_COMM_WORLD_SIZE", "3", "OMPI_COMM_WORLD_LOCAL_SIZE", "2", "OMPI_COMM_WORLD_LOCAL_RANK", "1");
    MR_CHECK_ERR(mr_ranks_read(fake, &none, &r), MR_INVALID_ARGUMENT, "give --hosts or --hostfile");
    MR_CHECK_OK(mr_hosts_add_list(&given, MR_SV("me@a:2,b")));
    check(&given, "Open MPI 1/3 a a b");
    mr_hosts_deinit(&given);
    MR_CHECK_OK(mr_hosts_add_list(&given, MR_SV("a:2")));
    MR_CHECK_ERR(mr_ranks_read(fake, &given, &r), MR_INVALID_ARGUMENT, "places for 2 ranks");
    mr_hosts_deinit(&given);
}

MR_TEST(ranks_that_cannot_be_are_refused)
{
    static const char *const bad[][2] = {{"3", "3"}, {"-1", "3"}, {"x", "3"}, {"0", "0"}, {"0", "99999999"}, {"", ""}};
    for (int i = 0; i < MR_COUNT(bad); i++) {
        mr_ranks r;
        ENV("PMI_RANK", bad[i][0], "PMI_SIZE", bad[i][1]);
        MR_CHECK_ERR(mr_ranks_read(fake, &none, &r), MR_INVALID_ARGUMENT, "are not a valid rank and size");
    }
}
