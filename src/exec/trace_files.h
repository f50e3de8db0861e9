/* exec/trace_files.h -- files of RunMetadata as one timeline. */
#ifndef MR_EXEC_TRACE_FILES_H
#define MR_EXEC_TRACE_FILES_H

#include "exec/blame.h"
#include "exec/trace_read.h"

/* Reads files, and from folders all files named *.pb, in the order of their names, into an empty timeline. NOT_FOUND
 * for a folder without any. */
mr_status *mr_trace_read_files(const char *const *paths, int n, mr_timeline *out);

/* Appends the blame of each step, up to `most` of them, then of all steps together. */
void mr_trace_tell(const mr_timeline *t, int most, mr_str *out);

#endif
