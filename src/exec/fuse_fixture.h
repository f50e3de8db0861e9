/* exec/fuse_fixture.h -- a graph of floats run with and without fusing nodes. */
#ifndef MR_EXEC_FUSE_FIXTURE_H
#define MR_EXEC_FUSE_FIXTURE_H

#include "exec/session.h"
#include "graph/grad.h"
#include "graph/scope.h"
#include "tests/harness/test.h"

enum { MR_FUSE_FIXTURE_INPUTS = 8, MR_FUSE_FIXTURE_FETCHES = 8 };

typedef struct mr_fuse_fixture {
    mr_graph *g;
    mr_scope s;
    int n_x;
    mr_out x[MR_FUSE_FIXTURE_INPUTS]; /* placeholders */
    mr_tensor *feed[MR_FUSE_FIXTURE_INPUTS];
    uint32_t seed;
} mr_fuse_fixture;

void mr_fuse_fixture_init(mr_fuse_fixture *f);
void mr_fuse_fixture_deinit(mr_fuse_fixture *f);
/* Another input of this shape, with numbers from low to high; known: so is its shape beforehand. */
mr_out mr_fuse_fixture_input(mr_fuse_fixture *f, int rank, const int64_t *dims, float low, float high, bool known);
mr_out mr_fuse_fixture_num(mr_fuse_fixture *f, float v); /* a scalar constant */
/* The gradient of the sum of y, weighted with random numbers, by x. */
mr_out mr_fuse_fixture_gradient(mr_fuse_fixture *f, mr_out y, mr_out x);
/* Runs with or without fusing; the caller owns *out. */
mr_status *mr_fuse_fixture_run(mr_fuse_fixture *f, bool no_fuse, const mr_out *fetches, int n, mr_tensor **out);
/* The fetches have the same values with and without fusing, but for rounding. */
void mr_fuse_fixture_check(mr_fuse_fixture *f, const mr_out *fetches, int n);
/* How many nodes of this op a run of the fetches executes, members of _FusedElementwise included. */
int mr_fuse_fixture_count(mr_fuse_fixture *f, const mr_out *fetches, int n, const char *op);

#endif
