/* millrace/trace.h -- reports about traced steps: what ran when, and what made a step slow.
 *
 * TF_SessionRun with RunOptions.trace_level FULL_TRACE fills a RunMetadata that says when each node ran, on all tasks
 * of a cluster and on one clock. These functions turn it into reports. `millrace trace` does the same for files.
 *
 *     TF_Buffer *options = TF_NewBufferFromString("\010\003", 2), *metadata = TF_NewBuffer();    // FULL_TRACE
 *     TF_SessionRun(session, options, ..., metadata, status);
 *     mr_trace_to_chrome((const TF_Buffer **)&metadata, 1, "trace.json", status);  // for https://ui.perfetto.dev
 *     TF_Buffer *blame = mr_trace_blame((const TF_Buffer **)&metadata, 1, status);
 *     fwrite(blame->data, 1, blame->length, stdout);
 *
 * All functions take an array of n serialized RunMetadata messages, so that several steps can go into one report. A
 * supervisor traces training steps by itself: see mr_supervisor_options.trace (millrace/cluster.h), or set
 * MILLRACE_TRACE to a folder and MILLRACE_TRACE_STEPS to the steps ("20-24,100"). */
#ifndef MILLRACE_TRACE_H
#define MILLRACE_TRACE_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a Chrome trace (JSON) to `path`: one process per task, one thread per device and link, and an arrow from each
 * Send to its Recv. */
MR_EXPORT extern void mr_trace_to_chrome(const TF_Buffer *const *metadata, int n, const char *path, TF_Status *status);
/* Returns a text that says, for each step, how much time its critical path spent on compute, input, send and wait, by
 * task; and names the slowest task, and the node and edge that cost the most. The caller deletes the buffer. NULL after
 * an error. */
MR_EXPORT extern TF_Buffer *mr_trace_blame(const TF_Buffer *const *metadata, int n, TF_Status *status);
/* Returns a timeline of all tasks, drawn with characters in lines of `width` columns (0: 100). The caller deletes the
 * buffer. NULL after an error. */
MR_EXPORT extern TF_Buffer *mr_trace_text(const TF_Buffer *const *metadata, int n, int width, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
