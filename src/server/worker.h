/* server/worker.h -- the worker service of a task: graphs registered by masters, and the steps that run them.
 *
 * Each step has a rendezvous, from the first message that names the step until its master cleans it up.  A value of
 * another task is requested from that task (RecvTensor) when a _Recv needs it. */
#ifndef MR_SERVER_WORKER_H
#define MR_SERVER_WORKER_H

#include "server/host.h"

typedef struct mr_worker_service mr_worker_service;
mr_worker_service *mr_worker_new(mr_host *h);
/* All calls must be answered. */
void mr_worker_free(mr_worker_service *w);
/* Cancels all steps and refuses later calls. */
void mr_worker_stop(mr_worker_service *w, const mr_status *why);
/* An incarnation of a task has ended: sessions of its master end here, and so do receives from it. */
void mr_worker_lost(mr_worker_service *w, const mr_task_peers *p, int task);
struct mr_collectives *mr_worker_collectives(mr_worker_service *w);
/* Handles a call of MR_WORKER_SERVICE. */
void mr_worker_handle(mr_worker_service *w, mr_net_call *c);

#endif
