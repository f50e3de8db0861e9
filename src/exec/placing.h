/* exec/placing.h -- placement by cost in a session: what its steps took, and when to place again.
 *
 * ConfigProto.placement_period requests it: after that many steps devices are chosen again, with the times
 * measured meanwhile, and then at growing intervals. A few steps before each time are measured; the others
 * read no clock. Nodes with state stay where they are. */
#ifndef MR_EXEC_PLACING_H
#define MR_EXEC_PLACING_H

#include "base/thread.h"
#include "exec/trace.h"
#include "passes/passes.h"

typedef struct mr_placing mr_placing;

/* For a session on these devices, which outlive it; period 0: nodes are never placed again. */
mr_placing *mr_placing_new(mr_device *const *devices, int n_devices, int period);
void mr_placing_free(mr_placing *p); /* NULL is fine */

typedef enum mr_placing_turn { MR_PLACING_RUN, MR_PLACING_MEASURE, MR_PLACING_ANEW } mr_placing_turn;
/* Called when a step begins: whether it is to be measured, or devices are to be chosen again before it. Each turn goes
 * to one step. */
mr_placing_turn mr_placing_next(mr_placing *p);
void mr_placing_learn(mr_placing *p, const mr_trace *t);
/* The same from a serialized StepStats; malformed parts are skipped. */
void mr_placing_learn_stats(mr_placing *p, mr_sv step_stats);

/* mr_prepare by cost; the measured times do not change meanwhile. */
mr_status *mr_placing_prepare(mr_placing *p, const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o, mr_graph **parts);
/* Forgets where nodes without state are placed. */
void mr_placing_forget(const mr_graph *g, mr_placements *placements);

/* Appends where each node of a signature is placed, or would be, and why (mr_place_explain). by_cost: how to place
 * nodes that have no place yet; placements are only read. */
mr_status *mr_placing_explain(mr_placing *p, const mr_graph *g, const mr_run_signature *sig, const mr_prepare_options *o, bool by_cost,
                              const mr_placements *placements, mr_str *out);
/* Writes the measured costs to a file, or adds those of a file (passes/costs.h). */
mr_status *mr_placing_save(mr_placing *p, const char *path);
mr_status *mr_placing_load(mr_placing *p, const char *path);

/* log_device_placement: a line on stderr for each node that has a device and was not logged yet, or has another one
 * now: "MatMul: (MatMul): /job:localhost/replica:0/task:0/device:CPU:0". */
void mr_placing_log(const mr_graph *g, const mr_placements *now, mr_placements *told);

#endif
