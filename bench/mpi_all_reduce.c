/* bench/mpi_all_reduce.c -- the same as bench/all_reduce.c, with MPI: `mpirun -n PROCESSES mpi_all_reduce MIB...`. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 21, WARM = 3 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(int rank, int size, int mib)
{
    int n = mib << 18;
    double ms[ROUNDS];
    float *x = aligned_alloc(64, (size_t)n * 4);
    for (int round = -WARM; round < ROUNDS; round++) {
        for (int i = 0; i < n; i++)
            x[i] = (float)(rank + 1);
        MPI_Barrier(MPI_COMM_WORLD);
        double began = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, x, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        double took = 1e3 * (MPI_Wtime() - began);
        MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (x[n - 1] != (float)(size * (size + 1) / 2))
            MPI_Abort(MPI_COMM_WORLD, 1);
        if (round >= 0)
            ms[round] = took;
    }
    qsort(ms, ROUNDS, sizeof(ms[0]), by_value);
    if (rank == 0)
        printf("allreduce_%dMiB_%d_openmpi_ms %.3f ms\n", mib, size, ms[ROUNDS / 2]);
    free(x);
}

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int i = 1; i < argc; i++)
        measure(rank, size, atoi(argv[i]));
    MPI_Finalize();
    return 0;
}
