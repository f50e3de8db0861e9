/* cli/warden.h -- a small process that outlives its maker by a moment, to clean up behind it.
 *
 * Even one that is killed by -9 leaves nothing: the warden sees its end by a closed pipe, kills the groups it was told of
 * and removes the folder of secrets.  It is in a session of its own, so that what kills its maker's group spares it. */
#ifndef MR_CLI_WARDEN_H
#define MR_CLI_WARDEN_H

#include <sys/types.h>

#include "base/status.h"

typedef struct mr_warden mr_warden;

/* folder: removed with the files in it, at the end; NULL: none. */
mr_status *mr_warden_new(const char *folder, mr_warden **out);
void mr_warden_add(mr_warden *w, pid_t group);
void mr_warden_remove(mr_warden *w, pid_t group); /* nothing of it lives any more */
/* Ends it: whatever it still knows of goes too.  NULL is fine. */
void mr_warden_free(mr_warden *w);

/* A folder that has files only, and those. */
void mr_remove_folder(const char *folder);

#endif
