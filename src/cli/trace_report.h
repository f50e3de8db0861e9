/* cli/trace_report.h -- what `millrace launch --trace FOLDER` makes of the traces its tasks wrote. */
#ifndef MR_CLI_TRACE_REPORT_H
#define MR_CLI_TRACE_REPORT_H

#include "base/status.h"

/* Makes the folder, and removes what an earlier job left there; *path is its full name (mr_free). */
mr_status *mr_trace_folder_begin(const char *folder, char **path);
/* Writes FOLDER/trace.json of all, and tells on stderr where the time went; or why there is no trace, which is no fault of the
 * job. */
void mr_trace_folder_end(const char *path);

#endif
