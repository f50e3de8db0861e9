/* exec/trace.h -- records what each node did and when: RunMetadata.step_stats. */
#ifndef MR_EXEC_TRACE_H
#define MR_EXEC_TRACE_H

#include "exec/executor_state.h"
#include "passes/costs.h"
#include "wire/pb.h"

/* The clock of traces: the wall clock at the first call, from then on as steady as mr_now_ns. So an interval is right
 * even if somebody sets the wall clock meanwhile. */
int64_t mr_trace_clock_ns(void);

typedef struct mr_trace mr_trace;
mr_trace *mr_trace_new(void);
void mr_trace_free(mr_trace *t); /* NULL is fine */
/* For tests: shifts all times of the trace. */
void mr_trace_skew(mr_trace *t, int64_t ns);
typedef struct mr_trace_times { /* by mr_now_ns */
    int64_t start_ns;
    int64_t made_ns; /* when others could use its outputs: end_ns, except for a _Send */
    int64_t end_ns;
} mr_trace_times;
/* Records one run of a node; from any thread. */
void mr_trace_node(mr_trace *t, const mr_plan *p, const mr_plan_node *n, const mr_trace_times *when, const mr_value *out);

/* Appends a CostGraphDef of the nodes of these plans as field 2 of a RunMetadata: their times and outputs. */
void mr_trace_put_cost_graph(const mr_trace *t, mr_plan *const *plans, int n, mr_str *out);

/* Adds the times of nodes and the sizes of their outputs to a cost model. */
void mr_trace_costs(const mr_trace *t, mr_costs *c);

/* Appends a serialized RunMetadata: step_stats of the trace (NULL: none), and the graphs of n plans
 * (0: none). */
mr_status *mr_trace_encode(mr_trace *t, mr_plan *const *plans, int n, mr_str *out);

/* ---- trace_info.c: the stats of several tasks as one ---- */

/* Appends a copy of the StepStats with all times shifted. */
mr_status *mr_trace_shift(mr_sv step_stats, int64_t by_ns, mr_str *out);
/* The first start and the last end; false if the stats are empty or malformed. */
bool mr_trace_span(mr_sv step_stats, int64_t *first_ns, int64_t *last_ns);

/* Our own field of a RunMetadata, which other readers skip (docs/formats/trace.md). */
enum { MR_TRACE_FIELD = 1000 };

typedef struct mr_trace_clock { /* of a task; its times were corrected by -offset_ns already */
    mr_sv task;
    int64_t offset_ns, error_ns;
} mr_trace_clock;

typedef struct mr_trace_info {
    mr_sv home;                /* the task whose master ran the step; all times are by its clock */
    mr_sv what;                /* if it is not a step: "update"; "": a step */
    int64_t number;            /* of the step, if its client counts; -1: unknown */
    int64_t start_ns, end_ns;  /* as the master saw it; 0: unknown */
    int64_t outside_ns;        /* since the client got the answer of its last step; 0: unknown */
    int n_clocks;
    const mr_trace_clock *clocks;
} mr_trace_info;

/* Appends the field; unknown members are left out. Several such fields in one RunMetadata are merged, the later over
 * the earlier, as with every message. */
void mr_trace_info_encode(const mr_trace_info *i, mr_pb_writer *w);

#endif
