/* graph/interpreter_fixture.h -- a few ops and a small interpreter, so that graph/ is tested alone.
 *
 * The ops have TensorFlow's names and signatures.  The interpreter follows the rules of frames,
 * iterations and dead values one token at a time, always taking a random one of those that could go
 * next: an order that control edges fail to force will be broken by some seed.  Values are doubles,
 * scalars or vectors. */
#ifndef MR_GRAPH_INTERPRETER_FIXTURE_H
#define MR_GRAPH_INTERPRETER_FIXTURE_H

#include "graph/grad.h"
#include "graph/infer.h"

void mr_mini_register(void); /* does it once */

typedef struct mr_mini_feed {
    mr_node *node; /* a Placeholder */
    int n;         /* -1: a scalar */
    double v[8];
} mr_mini_feed;

typedef struct mr_mini_value {
    int rank, n;
    bool dead;
    double v[64];
} mr_mini_value;

mr_status *mr_mini_run(mr_graph *g, const mr_mini_feed *feeds, int n_feeds, const mr_out *fetches,
                       int n_fetches, uint64_t seed, mr_mini_value *out);

#endif
