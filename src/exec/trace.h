/* exec/trace.h -- what each node did and when: RunMetadata.step_stats. */
#ifndef MR_EXEC_TRACE_H
#define MR_EXEC_TRACE_H

#include "exec/step.h"
#include "passes/costs.h"
#include "wire/pb.h"

/* The clock of traces: the wall's when first asked, from then on as even as mr_now_ns; so an interval
 * is right whatever is done to the wall's clock meanwhile. */
int64_t mr_trace_clock_ns(void);

typedef struct mr_trace mr_trace;
mr_trace *mr_trace_new(void);
void mr_trace_free(mr_trace *t); /* NULL is fine */
/* For tests: all its times are off by so much. */
void mr_trace_skew(mr_trace *t, int64_t ns);
typedef struct mr_trace_times { /* by mr_now_ns */
    int64_t start_ns;
    int64_t made_ns; /* when others could have its outputs: end_ns, but for a _Send */
    int64_t end_ns;
} mr_trace_times;
/* One run of a node; from any thread. */
void mr_trace_node(mr_trace *t, const mr_plan *p, const mr_plan_node *n, const mr_trace_times *when, const mr_value *out);

/* Appends a CostGraphDef of the nodes of these plans as field 2 of a RunMetadata: what they took, and their outputs. */
void mr_trace_put_cost_graph(const mr_trace *t, mr_plan *const *plans, int n, mr_str *out);

/* What nodes took and how large their outputs were, for a cost model. */
void mr_trace_costs(const mr_trace *t, mr_costs *c);

/* Appends a serialized RunMetadata: step_stats of the trace (NULL: none), and the graphs of n plans
 * (0: none). */
mr_status *mr_trace_encode(mr_trace *t, mr_plan *const *plans, int n, mr_str *out);

/* ---- trace_info.c: the stats of several tasks as one ---- */

/* Appends StepStats with all times later by so much. */
mr_status *mr_trace_shift(mr_sv step_stats, int64_t by_ns, mr_str *out);
/* From when to when something was at work; false when there is nothing, or it is malformed. */
bool mr_trace_span(mr_sv step_stats, int64_t *first_ns, int64_t *last_ns);

/* What is added to a RunMetadata under a field that others skip (docs/formats/trace.md). */
enum { MR_TRACE_FIELD = 1000 };

typedef struct mr_trace_clock { /* of a task; its times were set right by -offset_ns already */
    mr_sv task;
    int64_t offset_ns, error_ns;
} mr_trace_clock;

typedef struct mr_trace_info {
    mr_sv home;                /* the task whose master ran the step, and whose clock counts */
    mr_sv what;                /* it is, in place of a step: "update"; "": a step */
    int64_t number;            /* of the step, when whoever runs it counts; -1: unknown */
    int64_t start_ns, end_ns;  /* as the master saw it; 0: unknown */
    int64_t outside_ns;        /* since the client had its last step back; 0: unknown */
    int n_clocks;
    const mr_trace_clock *clocks;
} mr_trace_info;

/* Appends the field; what is unknown is left out.  Of several such fields in one RunMetadata the later
 * adds to the earlier, as with every message. */
void mr_trace_info_encode(const mr_trace_info *i, mr_pb_writer *w);

#endif
