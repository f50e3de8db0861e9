/* server/round.h -- the same call to several tasks, over when all have answered. */
#ifndef MR_SERVER_ROUND_H
#define MR_SERVER_ROUND_H

#include "server/host.h"

/* st (owned): the first error, with its task in front; replies by task, the callee may take them. */
typedef void (*mr_round_fn)(void *arg, mr_status *st, mr_str *replies);

/* done is called once, from any thread, perhaps before this returns.  Tasks that are not up are not waited for; one
 * that does not answer is given up at the deadline. */
void mr_round_start(mr_host *h, const bool *asked, const char *method, mr_sv body, int64_t deadline_ns, mr_round_fn done,
                    void *arg);

#endif
