/* graph/random_program_test.h -- random programs to differentiate.  For tests.
 *
 * A program works on a few registers, which start as its inputs: doubles, scalars or vectors.  Each
 * seed writes another one, with loops and conditionals in one another. */
#ifndef MR_GRAPH_RANDOM_PROGRAM_TEST_H
#define MR_GRAPH_RANDOM_PROGRAM_TEST_H

#include "graph/flow_builder_test.h"

enum { MR_RANDOM_PROGRAM_INPUTS = 3 };

/* The result.  real_ops: only ops that are in the table of ops. */
mr_out mr_random_program(mr_fb *b, const mr_out *x, uint64_t seed, bool vectors, bool real_ops);

#endif
