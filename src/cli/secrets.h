/* cli/secrets.h -- the keys and the token of a job, in a folder that only this user can read. */
#ifndef MR_CLI_SECRETS_H
#define MR_CLI_SECRETS_H

#include "dist/cluster.h"

/* Makes a new folder below XDG_RUNTIME_DIR or /tmp. The caller calls mr_remove_folder and frees the path. */
mr_status *mr_secrets_folder(char **out);
/* Writes a token of 32 random bytes, with which tasks on one host identify themselves to each other; with `keys`, also
 * a CA and a certificate for each task. */
mr_status *mr_secrets_make(const mr_cluster *c, const char *folder, bool keys);
/* Appends what one task needs as records for its agent (cli/agent.h); never the key of the CA. */
mr_status *mr_secrets_send(const char *folder, const char *task, bool keys, mr_str *out);

#endif
