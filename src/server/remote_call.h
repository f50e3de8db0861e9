/* server/remote_call.h -- functions called on devices of other tasks: RemoteCall.
 *
 * A call is a graph of one node between its arguments and its results.  It is registered with the other task once per
 * node and device (RegisterGraph) and run for each call (RunGraph) as a separate step, in that task's part of the
 * same session. */
#ifndef MR_SERVER_REMOTE_CALL_H
#define MR_SERVER_REMOTE_CALL_H

#include "exec/env.h"
#include "server/task_peers.h"

struct mr_worker_service;
struct mr_wsession;

typedef struct mr_remote_device { /* of another task */
    char *name;
    int task;
    uint64_t incarnation;
} mr_remote_device;

/* What a worker's session needs for it. */
typedef struct mr_remote_calls {
    mr_remote_caller caller; /* first: the session's env has it */
    struct mr_wsession *session; /* which contains this */
    MR_VEC(mr_remote_device) devices; /* of the session at other tasks, as the master has listed them */
    mr_mutex mu;
    mr_map registered MR_GUARDED_BY(mu); /* "graph device node" -> registered */
} mr_remote_calls;

void mr_remote_calls_init(mr_remote_calls *c, struct mr_wsession *s);
void mr_remote_calls_deinit(mr_remote_calls *c);
/* Before the first call: adds a device of the session; devices of this task are ignored. */
void mr_remote_calls_add_device(mr_remote_calls *c, const mr_device *d);
/* Ends calls to incarnations of a task that have ended. */
void mr_remote_calls_lost(struct mr_worker_service *w, const mr_task_peers *p, int task);

/* ---- remote_graph.c ---- */
/* The graph of a call that r makes, as a GraphDef. */
mr_status *mr_remote_graph(const mr_run *r, const mr_func_ref *f, mr_tensor *const *args, int n_args,
                           const mr_remote_device *on, mr_str *out);
/* The rendezvous key of argument or result i ("arg", "ret"); mr_free. */
mr_status *mr_remote_key(const mr_remote_device *on, const char *what, int i, char **out);

#endif
