/* distbelief/coordinator.h -- Sandblaster's coordinator: L-BFGS over the servers' vectors and the replicas' portions.
 *
 * Implements the coordinator of millrace/distbelief.h. It holds no parameters, and none pass through it:
 * dist/sandblaster.h assigns portions to replicas, lbfgs.h decides the operations on vectors; replicas and servers
 * carry them out. */
#ifndef MR_DISTBELIEF_COORDINATOR_H
#define MR_DISTBELIEF_COORDINATOR_H

#include "millrace/distbelief.h"
#include "base/status.h"

typedef struct mr_blast_coordinator mr_blast_coordinator;

mr_status *mr_blast_coordinator_new(const mr_sandblaster_options *o, mr_ps *ps, mr_blast_coordinator **out);
/* Ends the sessions of the replicas. */
void mr_blast_coordinator_free(mr_blast_coordinator *c);
const char *mr_blast_coordinator_address(const mr_blast_coordinator *c);
mr_status *mr_blast_coordinator_minimize(mr_blast_coordinator *c, double *loss);
void mr_blast_coordinator_cancel(mr_blast_coordinator *c);
void mr_blast_coordinator_count(mr_blast_coordinator *c, mr_sandblaster_stats *out);

#endif
