/* exec/trace_read.h -- RunMetadata as a timeline.
 *
 * Several messages are steps that follow each other, or that run at the same time in different tasks. Steps
 * that know each other's clocks (through tasks they have in common) are shifted to one clock. Long times in
 * which nothing was traced are cut short.
 *
 * The kind of a span follows from its op: a Recv waits until its value is sent, then transfers it; queues and
 * files are input; a token queue and an accumulator are barriers. Nothing in a message is trusted. */
#ifndef MR_EXEC_TRACE_READ_H
#define MR_EXEC_TRACE_READ_H

#include "exec/timeline.h"

/* Reads n RunMetadata messages into an empty timeline (mr_timeline_init). INVALID_ARGUMENT names the malformed one;
 * `names` may be NULL. */
mr_status *mr_trace_read(const mr_sv *metadata, const char *const *names, int n, mr_timeline *out);

/* Splits "/job:worker/replica:0/task:1/device:CPU:0" into "worker:1" and "CPU:0"; *rest is a view into the name. */
void mr_trace_split_device(mr_sv device, mr_str *task, mr_sv *rest);
/* The kind of a node of this op; inputs as in a timeline_label: "queue, n". *blocks: it waits for others. */
mr_span_kind mr_trace_kind(mr_sv op, mr_sv inputs, bool *blocks);

#endif
