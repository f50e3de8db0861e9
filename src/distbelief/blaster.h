/* distbelief/blaster.h -- a replica of Sandblaster: computes portions for a coordinator.
 *
 * Implements the replicas of millrace/distbelief.h. */
#ifndef MR_DISTBELIEF_BLASTER_H
#define MR_DISTBELIEF_BLASTER_H

#include "exec/session.h"
#include "millrace/ps.h"
#include "train/nn.h"

typedef struct mr_blaster mr_blaster;

/* Adds its nodes to the network.  NULL after an error, which is in the network's scope. */
mr_blaster *mr_blaster_new(mr_nn *n, mr_out loss, const mr_out *inputs, int n_inputs);
void mr_blaster_free(mr_blaster *b);

typedef struct mr_blaster_work {
    mr_session *session;
    mr_ps *ps;
    const char *coordinator, *name;
    int64_t deadline_ms;
    /* Returns the values of a portion, one for each input; the replica releases them. */
    mr_status *(*portion)(void *arg, int64_t portion, int64_t portions, mr_tensor **values, double *weight);
    void *arg;
} mr_blaster_work;
/* Works until the coordinator is done. */
mr_status *mr_blaster_run(mr_blaster *b, const mr_blaster_work *w);
void mr_blaster_cancel(mr_blaster *b);
mr_status *mr_blaster_fetch(mr_blaster *b, mr_session *s, mr_ps *ps, const char *name);

#endif
