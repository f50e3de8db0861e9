/* The conformance test over MPI: mpirun runs this very program, once a rank, with a variable that says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/beside.h"
#include "base/memory.h"
#include "group/conformance_test.h"
#include "group/mpi.h"
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
             "ASAN_OPTIONS=detect_leaks=0 MILLRACE_MPI_TEST=1 OMPI_MCA_rmaps_base_oversubscribe=1 mpirun --oversubscribe --allow-run-as-root "
             "-x MILLRACE_MPI_TEST -x ASAN_OPTIONS -n %d timeout 80 '%s' %s > '%s/out' 2>&1", n, program, test, mr_test_dir());
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

MR_TEST(group_conformance_mpi_3_members)
{
    mr_test_deadline(100);
    if (getenv("MILLRACE_MPI_TEST")) {
        be_a_rank();
        return;
    }
    if (system("command -v mpirun > /dev/null 2>&1") != 0)
        mr_test_skip("there is no mpirun");
    if (!is_built())
        mr_test_skip("there is no libmillrace-mpi.so: it needs the package libopenmpi-dev");
    MR_CHECK_INT(run_ranks(3, "group_conformance_mpi_3_members"), 0);
}
