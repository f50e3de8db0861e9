/* cli/trace_report.h -- what `millrace launch --trace FOLDER` makes of the traces its tasks wrote. */
#ifndef MR_CLI_TRACE_REPORT_H
#define MR_CLI_TRACE_REPORT_H

#include "base/status.h"

/* Makes the folder and removes the traces of earlier jobs from it. *path is its absolute path; the caller owns it. */
mr_status *mr_trace_folder_begin(const char *folder, char **path);
/* Merges all traces into FOLDER/trace.json and prints on stderr where the time went. If that fails, prints why; the job
 * is not affected. */
void mr_trace_folder_end(const char *path);

#endif
