/* distbelief/downpour.h -- Downpour SGD: a replica of a model that trains against the parameter server.
 *
 * What millrace/distbelief.h says, in our own terms.  dist/downpour.h decides; here its decisions are carried out: steps run
 * in the caller's thread, fetches and pushes travel beside them in the parameter server's client. */
#ifndef MR_DISTBELIEF_DOWNPOUR_H
#define MR_DISTBELIEF_DOWNPOUR_H

#include "exec/session.h"
#include "millrace/distbelief.h"
#include "train/net.h"

typedef struct mr_pour mr_pour;

/* Adds what it needs to the network; zero of the options becomes what it stands for.  NULL after an error, which is kept
 * in the network's scope. */
mr_pour *mr_pour_new(mr_network *n, mr_out loss, const mr_downpour_options *o);
/* Waits for what is under way; before the client of the servers is closed. */
void mr_pour_free(mr_pour *p);

/* Starts, finishes and fetches that follow end with CANCELLED when this is started; NULL: nobody does. */
void mr_pour_under(mr_pour *p, mr_cancel *cancel);
/* Makes the tables, sees that they have values, and waits for its turn and for the first parameters. */
mr_status *mr_pour_start(mr_pour *p, mr_session *s, mr_ps *ps);
/* One step with the client's feeds, fetches and targets. */
mr_status *mr_pour_train(mr_pour *p, const mr_run_args *client, mr_cancel *cancel);
/* Pushes what is left and waits for all that is under way.  After it training may be started again. */
mr_status *mr_pour_finish(mr_pour *p);
/* The session's variables become what the servers have now. */
mr_status *mr_pour_fetch(mr_pour *p);
void mr_pour_count(const mr_pour *p, mr_downpour_stats *out);

#endif
