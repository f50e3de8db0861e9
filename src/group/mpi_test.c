/* The conformance test over MPI: mpirun runs this very program, once a rank, with a variable that says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "group/transport_conformance_test.h"
#include "group/mpi.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

static void be_a_rank(void)
{
    mr_transport *t[2];
    MR_CHECK_OK(mr_mpi_open(2, t));
    conformance_run(t[0]);
    conformance_run(t[1]);
    mr_transport_free(t[0]);
    mr_transport_free(t[1]);
}

/* How the ranks end, 0 being well; what they print is kept for when they do not.  MPI leaves memory behind in its own ways. */
static int run_ranks(int n, const char *test)
{
    char program[512] = {0}, command[1600], line[512];
    MR_CHECK(readlink("/proc/self/exe", program, sizeof(program) - 1) > 0);
    snprintf(command, sizeof(command),
             "ASAN_OPTIONS=detect_leaks=0 MILLRACE_MPI_TEST='%s/seen' OMPI_MCA_rmaps_base_oversubscribe=1 "
             "mpirun --oversubscribe --allow-run-as-root -x MILLRACE_MPI_TEST -x ASAN_OPTIONS -n %d timeout 80 '%s' %s "
             "> '%s/out' 2>&1",
             mr_test_dir(), n, program, test, mr_test_dir());
    int rc = system(command);
    snprintf(line, sizeof(line), "%s/out", mr_test_dir());
    FILE *f = rc ? fopen(line, "r") : NULL;
    while (f && fgets(line, sizeof(line), f))
        fprintf(stderr, "    %s", line);
    if (f)
        fclose(f);
    return rc;
}

static bool is_built(void)
{
    mr_str path = {0};
    mr_find_beside("libmillrace-mpi.so", "MILLRACE_MPI_LIB", &path);
    bool there = access(mr_str_z(&path), R_OK) == 0;
    mr_str_deinit(&path);
    return there;
}

/* Runs the test in n ranks, where MPI is; this process is none of them. */
static void check_ranks(int n, const char *test)
{
    if (system("command -v mpirun > /dev/null 2>&1") != 0)
        mr_test_skip("there is no mpirun");
    if (!is_built())
        mr_test_skip("there is no libmillrace-mpi.so: it needs the package libopenmpi-dev");
    MR_CHECK_INT(run_ranks(n, test), 0);
}

MR_TEST(group_conformance_mpi_3_members)
{
    mr_test_deadline(100);
    if (getenv("MILLRACE_MPI_TEST"))
        be_a_rank();
    else
        check_ranks(3, "group_conformance_mpi_3_members");
}

/* ---- the log of a long wait ---- */

static void note_wait(void *arg)
{
    mr_test_log_wait("Still waiting for member 1 of 2 of the group over MPI: it has sent nothing (", 2);
    FILE *f = fopen(arg, "w");
    MR_CHECK(f && fclose(f) == 0);
}

/* Rank 0 makes a file when it has logged that it waits; then rank 1 sends. */
static void wait_as_a_rank(char *seen)
{
    char byte = 1;
    mr_thread noter;
    mr_transport *t;
    MR_CHECK_OK(mr_mpi_open(1, &t));
    mr_transfer x = {.sending = t->rank == 1, .peer = 1 - t->rank, .data = &byte, .n = 1};
    mr_test_log_begin(INT64_C(5000000));
    if (!x.sending)
        MR_CHECK_INT(mr_thread_start(&noter, "noter", note_wait, seen), 0);
    while (x.sending && access(seen, F_OK) != 0)
        mr_sleep_ns(1000000);
    t->of->start(t, &x);
    MR_CHECK_OK(t->of->finish(t, &x, 0));
    if (!x.sending)
        mr_thread_join(&noter);
    mr_test_log_end();
    mr_transport_free(t);
}

MR_TEST(group_mpi_logs_a_long_wait_for_a_member)
{
    mr_test_deadline(100);
    if (getenv("MILLRACE_MPI_TEST"))
        wait_as_a_rank(getenv("MILLRACE_MPI_TEST"));
    else
        check_ranks(2, "group_mpi_logs_a_long_wait_for_a_member");
}
