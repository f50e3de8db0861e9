/* cli/peers.h -- launchers of one job on many hosts, one a rank, telling each other that the job has ended.
 *
 * Each listens beside its task, with the task's keys.  Without this a parameter server would never hear that training is
 * over. */
#ifndef MR_CLI_PEERS_H
#define MR_CLI_PEERS_H

#include "base/str.h"

typedef struct mr_peers mr_peers;

/* task: "worker/0", whose keys in MILLRACE_TLS_DIR are shown.  *wake can be read (an int) once the job has ended. */
mr_status *mr_peers_new(const char *task, const char *address, mr_peers **out, int *wake);
/* Whether another one has told the end. */
bool mr_peers_told(const mr_peers *p);
/* Tells each of them; who is gone is gone. */
void mr_peers_tell(mr_peers *p, char *const *addresses, int n, int exit_code);
void mr_peers_free(mr_peers *p); /* NULL is fine */

#endif
