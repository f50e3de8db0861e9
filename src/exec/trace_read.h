/* exec/trace_read.h -- RunMetadata as a timeline.
 *
 * Several messages are steps that follow each other, or run beside each other in different tasks.
 * Those that know each other's clocks (by tasks they have in common) are set to one clock; long
 * times in which nothing was traced are cut short.
 *
 * Kinds are told from ops: what receives waits until its Send is there, then it transfers; queues
 * and files are input, a queue of tokens and an accumulator are barriers.  Nothing in a message is
 * trusted. */
#ifndef MR_EXEC_TRACE_READ_H
#define MR_EXEC_TRACE_READ_H

#include "exec/timeline.h"

/* The bytes of n RunMetadata messages, into an empty timeline (mr_timeline_init).  INVALID_ARGUMENT
 * names the one that is malformed: `names` may be NULL. */
mr_status *mr_trace_read(const mr_sv *metadata, const char *const *names, int n, mr_timeline *out);

/* "worker:1" of "/job:worker/replica:0/task:1/device:CPU:0" and "CPU:0"; views into the name or
 * constants. */
void mr_trace_split_device(mr_sv device, mr_str *task, mr_sv *rest);
/* What a node of this op does; inputs as in a timeline_label: "queue, n". */
mr_span_kind mr_trace_kind(mr_sv op, mr_sv inputs, bool *blocks);

#endif
