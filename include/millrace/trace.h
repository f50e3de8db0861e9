/* millrace/trace.h -- what a traced step did, and who made it slow.
 *
 * TF_SessionRun with RunOptions.trace_level FULL_TRACE fills a RunMetadata: when each node ran, on all tasks of a cluster and by
 * one clock.  These functions make something for people of it; `millrace trace` does the same with files.
 *
 *     TF_Buffer *options = TF_NewBufferFromString("\010\003", 2), *metadata = TF_NewBuffer();    // FULL_TRACE
 *     TF_SessionRun(session, options, ..., metadata, status);
 *     mr_trace_to_chrome((const TF_Buffer **)&metadata, 1, "trace.json", status);  // for https://ui.perfetto.dev
 *     TF_Buffer *blame = mr_trace_blame((const TF_Buffer **)&metadata, 1, status);
 *     fwrite(blame->data, 1, blame->length, stdout);
 *
 * Several steps go into one picture: metadata is an array of n pointers.  Training under a supervisor is traced by
 * mr_supervisor_options.trace, or by the environment: MILLRACE_TRACE is a folder, MILLRACE_TRACE_STEPS says which ("20-24,100"). */
#ifndef MILLRACE_TRACE_H
#define MILLRACE_TRACE_H

#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes a Chrome trace: a process for each task, a thread for each device and link, arrows from Sends to Recvs. */
MR_EXPORT extern void mr_trace_to_chrome(const TF_Buffer *const *metadata, int n, const char *path, TF_Status *status);
/* Text: for each step how its time divides on the critical path into compute, input, send and wait, by task, the slowest
 * task, and the node and edge that cost most.  To be deleted; NULL after an error. */
MR_EXPORT extern TF_Buffer *mr_trace_blame(const TF_Buffer *const *metadata, int n, TF_Status *status);
/* Text: the lanes of all tasks drawn with characters, in lines of that many (0: 100).  To be deleted; NULL after an error. */
MR_EXPORT extern TF_Buffer *mr_trace_text(const TF_Buffer *const *metadata, int n, int width, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
