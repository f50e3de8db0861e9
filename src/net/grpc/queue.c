/* net/grpc/queue.c -- when gRPC is initialised and shut down, completion queues and their threads.
 *
 * gRPC is initialised for its first user and shut down after its last one: servers, peers, and
 * received bodies whose memory belongs to gRPC. A completion queue has one thread, which runs the
 * callbacks (mr_tag) of everything that ends in it. */
#include "net/grpc/grpc.h"

#include <signal.h>

#include "base/clock.h"
#include "base/file.h"

static mr_mutex mu = {PTHREAD_MUTEX_INITIALIZER}; /* of both counts; last in this folder's order */
static int n_users MR_GUARDED_BY(mu);

/* The lock is held while gRPC starts or shuts down, so that a new user waits for the end of the last
 * shutdown. gRPC's threads block all signals: the program's handlers run on the program's threads. */
void mr_grpc_use(void)
{
    mr_lock(&mu);
    if (n_users++ == 0) {
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        grpc_init();
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    mr_unlock(&mu);
}

/* The last user shuts gRPC down. */
void mr_grpc_unuse(void)
{
    mr_lock(&mu);
    MR_ASSERT(n_users > 0);
    if (--n_users == 0)
        grpc_shutdown(); /* waits, unless one of gRPC's own threads calls it */
    mr_unlock(&mu);
}

/* ---- completion queues ---- */

/* The thread of a queue: runs the callbacks, and the queue's tick from time to time. It ends when the
 * queue is shut down and empty. */
static void run_queue(void *arg)
{
    mr_grpc_queue *q = arg;
    int64_t tick_ns = q->tick ? mr_now_ns() + q->every_ns : INT64_MAX;
    gpr_timespec until = mr_grpc_time(q->tick ? tick_ns : 0);
    for (;;) {
        grpc_event e = grpc_completion_queue_next(q->cq, until, NULL);
        if (e.type == GRPC_QUEUE_SHUTDOWN)
            return;
        /* Also checked after an event: a busy queue would otherwise never time out. */
        if (q->tick && mr_now_ns() >= tick_ns) {
            q->tick(q->arg);
            tick_ns = mr_now_ns() + q->every_ns;
            until = mr_grpc_time(tick_ns);
        }
        if (e.type != GRPC_OP_COMPLETE)
            continue;
        mr_tag *t = e.tag;
        MR_GET(t);
        t->fn(t, e.success != 0);
    }
}

/* tick, arg and every_ns are set before, since the thread reads them without a lock. */
mr_status *mr_grpc_queue_init(mr_grpc_queue *q, const char *thread_name)
{
    q->cq = grpc_completion_queue_create_for_next(NULL);
    int err = mr_thread_start(&q->thread, thread_name, run_queue, q);
    if (!err)
        return NULL;
    grpc_completion_queue_shutdown(q->cq);
    grpc_completion_queue_destroy(q->cq);
    return mr_errno_status(err, "start", "a thread for gRPC");
}

/* Tags that are pending still run: the thread ends when the queue is shut down and empty. */
void mr_grpc_queue_deinit(mr_grpc_queue *q)
{
    grpc_completion_queue_shutdown(q->cq);
    mr_thread_join(&q->thread);
    grpc_completion_queue_destroy(q->cq);
}

static mr_mutex clients_mu = {PTHREAD_MUTEX_INITIALIZER}; /* above mu */
static int n_clients MR_GUARDED_BY(clients_mu);
static mr_grpc_queue clients MR_GUARDED_BY(clients_mu);

/* All clients share one queue and one thread, made for the first of them and ended after the last. */
mr_status *mr_grpc_queue_clients_get(grpc_completion_queue **out)
{
    mr_lock(&clients_mu);
    mr_status *st = n_clients == 0 ? mr_grpc_queue_init(&clients, "mr-grpc-client") : NULL;
    n_clients += st == NULL;
    *out = clients.cq;
    mr_unlock(&clients_mu);
    return st;
}

/* Waits for the thread, so not from a callback. */
void mr_grpc_queue_clients_put(void)
{
    mr_lock(&clients_mu);
    MR_ASSERT(n_clients > 0);
    if (--n_clients == 0)
        mr_grpc_queue_deinit(&clients);
    mr_unlock(&clients_mu);
}

/* ---- time ---- */

/* gRPC counts its clocks in its own way, so the time that is left is added to gRPC's present. */
gpr_timespec mr_grpc_time(int64_t at_ns)
{
    if (at_ns == 0)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    gpr_timespec left = gpr_time_from_nanos(at_ns - mr_now_ns(), GPR_TIMESPAN);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), left);
}
