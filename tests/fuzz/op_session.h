/* tests/fuzz/op_session.h -- sessions for fuzzing, and running the graph of a trial in one. */
#ifndef MR_TESTS_FUZZ_OP_SESSION_H
#define MR_TESTS_FUZZ_OP_SESSION_H

#include "exec/session.h"
#include "ops/example_fixture.h"
#include "tests/fuzz/random.h"

enum { FUZZ_MEMORY_LIMIT = 8 << 20 };

/* Random settings: memory is limited, folding too, and nodes run mostly in the caller's thread. */
mr_session_config fuzz_session_config(fuzz_rng *r);

/* Runs the whole graph of a trial. Placeholders are fed with the values of its steps; fetched values of the last step
 * go to its `out`, the rest stays NULL. At times its gradients are run too. *as_declared: all feeds have shapes that
 * their Placeholders could have. */
mr_status *fuzz_run_whole(fuzz_rng *r, mr_trial *t, bool *as_declared);

#endif
