/* server/worker.h -- the worker service of a task: graphs registered by masters, and the steps that run them.
 *
 * A step has a rendezvous of its own from the first message that names it until its master cleans it up.  Values that
 * come from other tasks are asked for there (RecvTensor) when the first _Recv wants them. */
#ifndef MR_SERVER_WORKER_H
#define MR_SERVER_WORKER_H

#include "server/host.h"

typedef struct mr_worker_service mr_worker_service;
mr_worker_service *mr_worker_new(mr_host *h);
/* No call of it is open any more. */
void mr_worker_free(mr_worker_service *w);
/* Cancels all steps and fails what comes later. */
void mr_worker_stop(mr_worker_service *w, const mr_status *why);
/* A life of a task has ended: sessions of its master end here, and what is received from it. */
void mr_worker_lost(mr_worker_service *w, const mr_task_peers *p, int task);
struct mr_collectives *mr_worker_collectives(mr_worker_service *w);
/* Handles a call of MR_WORKER_SERVICE. */
void mr_worker_handle(mr_worker_service *w, mr_net_call *c);

#endif
