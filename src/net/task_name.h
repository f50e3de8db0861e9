/* net/task_name.h -- the names of tasks as they are written in certificates.
 *
 * A certificate's names are compared as host names are, without regard to case.  So "ps/0" becomes
 * task-0.ps.millrace and a name without a task, "launcher", becomes name.launcher.millrace; every
 * byte that is not a small letter or a digit is written as - and two hex digits.  All certificates
 * of a cluster also carry MR_TASK_ANY, for callers that only ask for a member of the cluster. */
#ifndef MR_NET_TASK_NAME_H
#define MR_NET_TASK_NAME_H

#include "base/str.h"

#define MR_TASK_ANY "member.millrace"

/* false: the name is empty, or its task is not a number of up to 9 digits. */
bool mr_task_name_encode(const char *name, mr_str *out);
/* false: the host name is not an encoded task name. */
bool mr_task_name_decode(mr_sv host, mr_str *out);

#endif
