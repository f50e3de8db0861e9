/* cli/secrets.h -- the keys and the token of a job, in a folder that only this user can read. */
#ifndef MR_CLI_SECRETS_H
#define MR_CLI_SECRETS_H

#include "dist/cluster.h"

/* A new folder, below XDG_RUNTIME_DIR or /tmp; mr_free, after mr_remove_folder. */
mr_status *mr_secrets_folder(char **out);
/* 32 random bytes that tasks of one host show each other, and with keys a CA and a certificate for each task. */
mr_status *mr_secrets_make(const mr_cluster *c, const char *folder, bool keys);
/* What one task needs of it, as records for its agent (cli/agent.h): never the CA's key. */
mr_status *mr_secrets_send(const char *folder, const char *task, bool keys, mr_str *out);

#endif
