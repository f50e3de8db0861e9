/* cli/peers.h -- the launchers of one job, one per rank, tell each other that the job has ended.
 *
 * Each launcher listens with the keys of its task. Without this, a parameter server would never learn that the training
 * has ended. */
#ifndef MR_CLI_PEERS_H
#define MR_CLI_PEERS_H

#include "base/str.h"

typedef struct mr_peers mr_peers;

/* task: "worker/0"; its keys in MILLRACE_TLS_DIR are used. *wake becomes readable when another launcher reports the end
 * of the job; it then delivers the exit code as an int. */
mr_status *mr_peers_new(const char *task, const char *address, mr_peers **out, int *wake);
/* Whether another launcher has reported the end of the job. */
bool mr_peers_told(const mr_peers *p);
/* Tells each of the launchers; those that do not answer within 3 seconds are ignored. */
void mr_peers_tell(mr_peers *p, char *const *addresses, int n, int exit_code);
void mr_peers_free(mr_peers *p); /* NULL is allowed */

#endif
