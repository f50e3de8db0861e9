/* distbelief/downpour.h -- Downpour SGD: a replica of a model that trains against the parameter server.
 *
 * Implements the replicas of millrace/distbelief.h.  dist/downpour.h decides; here its decisions are carried out: steps
 * run on the caller's thread, fetches and pushes at the same time in the parameter server's client. */
#ifndef MR_DISTBELIEF_DOWNPOUR_H
#define MR_DISTBELIEF_DOWNPOUR_H

#include "exec/session.h"
#include "millrace/distbelief.h"
#include "train/nn.h"

typedef struct mr_downpour_replica mr_downpour_replica;

/* Adds its nodes to the network; options that are zero get their defaults.  NULL after an error, which is in the
 * network's scope. */
mr_downpour_replica *mr_downpour_replica_new(mr_nn *n, mr_out loss, const mr_downpour_options *o);
/* Waits for everything in progress; call it before the client of the servers is closed. */
void mr_downpour_replica_free(mr_downpour_replica *p);

/* Later starts, finishes and fetches end with CANCELLED when `cancel` is started; may be NULL. */
void mr_downpour_replica_under(mr_downpour_replica *p, mr_cancel *cancel);
/* Makes the tables, makes sure that they have values, and waits for its turn and the first parameters. */
mr_status *mr_downpour_replica_start(mr_downpour_replica *p, mr_session *s, mr_ps *ps);
/* One step with the client's feeds, fetches and targets. */
mr_status *mr_downpour_replica_train(mr_downpour_replica *p, const mr_run_args *client, mr_cancel *cancel);
/* Pushes the rest and waits for everything in progress.  Afterwards training may be started again. */
mr_status *mr_downpour_replica_finish(mr_downpour_replica *p);
/* Copies the servers' present values to the session's variables. */
mr_status *mr_downpour_replica_fetch(mr_downpour_replica *p);
void mr_downpour_replica_count(const mr_downpour_replica *p, mr_downpour_stats *out);

#endif
