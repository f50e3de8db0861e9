/* distbelief/downpour.h -- Downpour SGD: a replica of a model that trains against the parameter server.
 *
 * Implements the replicas of millrace/distbelief.h.  dist/downpour.h decides; here its decisions are carried out: steps
 * run on the caller's thread, fetches and pushes at the same time in the parameter server's client. */
#ifndef MR_DISTBELIEF_DOWNPOUR_H
#define MR_DISTBELIEF_DOWNPOUR_H

#include "exec/session.h"
#include "millrace/distbelief.h"
#include "train/net.h"

typedef struct mr_pour mr_pour;

/* Adds its nodes to the network; options that are zero get their defaults.  NULL after an error, which is in the
 * network's scope. */
mr_pour *mr_pour_new(mr_network *n, mr_out loss, const mr_downpour_options *o);
/* Waits for everything in progress; call it before the client of the servers is closed. */
void mr_pour_free(mr_pour *p);

/* Later starts, finishes and fetches end with CANCELLED when `cancel` is started; may be NULL. */
void mr_pour_under(mr_pour *p, mr_cancel *cancel);
/* Makes the tables, makes sure that they have values, and waits for its turn and the first parameters. */
mr_status *mr_pour_start(mr_pour *p, mr_session *s, mr_ps *ps);
/* One step with the client's feeds, fetches and targets. */
mr_status *mr_pour_train(mr_pour *p, const mr_run_args *client, mr_cancel *cancel);
/* Pushes the rest and waits for everything in progress.  Afterwards training may be started again. */
mr_status *mr_pour_finish(mr_pour *p);
/* Copies the servers' present values to the session's variables. */
mr_status *mr_pour_fetch(mr_pour *p);
void mr_pour_count(const mr_pour *p, mr_downpour_stats *out);

#endif
