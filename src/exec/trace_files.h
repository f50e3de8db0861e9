/* exec/trace_files.h -- files of RunMetadata as one timeline. */
#ifndef MR_EXEC_TRACE_FILES_H
#define MR_EXEC_TRACE_FILES_H

#include "exec/blame.h"
#include "exec/trace_read.h"

/* Files, and folders: all that is named *.pb in there, in the order of their names.  Into an empty timeline.  NOT_FOUND for a
 * folder without any. */
mr_status *mr_trace_read_files(const char *const *paths, int n, mr_timeline *out);

/* The blame of each step, up to `most` of them, then of all together. */
void mr_trace_tell(const mr_timeline *t, int most, mr_str *out);

#endif
