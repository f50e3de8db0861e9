/* tests/fuzz/graphs.h -- GraphDefs to start from. */
#ifndef MR_TESTS_FUZZ_GRAPHS_H
#define MR_TESTS_FUZZ_GRAPHS_H

#include "tests/fuzz/fuzz.h"

/* Golden graphs if there are any, programs written here, one graph for each op from its examples, and the seeds of
 * earlier failures. All of them can be imported. Created once, before children start. */
const fuzz_files *fuzz_graphs(void);
/* A random one; smaller ones come more often, because a run with them is quicker. */
const mr_str *fuzz_pick_graph(fuzz_rng *r);

#endif
