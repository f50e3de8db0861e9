/* graph/sample_ops_fixture.h -- ops that only the tests of graph/ know. */
#ifndef MR_GRAPH_SAMPLE_OPS_FIXTURE_H
#define MR_GRAPH_SAMPLE_OPS_FIXTURE_H

#include "graph/graph.h"
#include "tests/harness/test.h"

/* Registers them, once per process. */
void mr_sample_ops(void);

/* A graph for a test that adds nodes in a line or two and fails the test when that fails. */
mr_node *mr_sample_source(mr_graph *g, const char *name, mr_dtype type); /* TestSource */
mr_node *mr_sample_add(mr_graph *g, const char *name, mr_node *x,
                       mr_node *y); /* TestAdd of both outputs 0 */
static inline mr_out mr_o(mr_node *n, int i) { return (mr_out){n, i}; }

/* The graph as GraphDef text without defaults and versions, one node a line:
 * `z = TestAdd(x, y:1, ^c) {T=DT_FLOAT}`. */
char *mr_sample_print(const mr_graph *g); /* mr_free */

#endif
