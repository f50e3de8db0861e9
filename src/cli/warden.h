/* cli/warden.h -- a small process that cleans up after the process that started it, even if that is killed by SIGKILL.
 *
 * The warden sees the end of its parent as the end of a pipe. It then kills the process groups that it knows and
 * removes the folder of secrets. It runs in a separate session, so that a signal to the group of its parent does not
 * reach it. */
#ifndef MR_CLI_WARDEN_H
#define MR_CLI_WARDEN_H

#include <sys/types.h>

#include "base/status.h"

typedef struct mr_warden mr_warden;

/* folder: removed at the end as by mr_remove_folder; NULL: none. */
mr_status *mr_warden_new(const char *folder, mr_warden **out);
void mr_warden_add(mr_warden *w, pid_t group);
void mr_warden_remove(mr_warden *w, pid_t group); /* all its processes have ended */
/* Ends the warden, which kills the groups that it still knows and removes the folder. NULL is allowed. */
void mr_warden_free(mr_warden *w);

/* Removes a folder, the files in it, and folders in it that contain only files. */
void mr_remove_folder(const char *folder);

#endif
