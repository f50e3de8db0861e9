/* exec/trace.h -- what each node did and when: RunMetadata.step_stats. */
#ifndef MR_EXEC_TRACE_H
#define MR_EXEC_TRACE_H

#include "exec/step.h"
#include "passes/costs.h"

typedef struct mr_trace mr_trace;
mr_trace *mr_trace_new(void);
void mr_trace_free(mr_trace *t); /* NULL is fine */
/* One run of a node, by mr_now_ns times; from any thread. */
void mr_trace_node(mr_trace *t, const mr_plan *p, const mr_plan_node *n, int64_t start_ns,
                   int64_t end_ns, const mr_value *out);

/* What nodes took and how large their outputs were, for a cost model. */
void mr_trace_costs(const mr_trace *t, mr_costs *c);

/* Appends a serialized RunMetadata: step_stats of the trace (NULL: none), and the graphs of n plans
 * (0: none). */
mr_status *mr_trace_encode(mr_trace *t, mr_plan *const *plans, int n, mr_str *out);

#endif
