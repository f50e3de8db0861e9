/* group/place.h -- a process's place in a group, as its launcher describes it in the environment. */
#ifndef MR_GROUP_PLACE_H
#define MR_GROUP_PLACE_H

#include "base/str.h"
#include "base/vec.h"

typedef struct mr_place {
    int rank, size;
    mr_str name;                /* of the group; empty: not known */
    MR_VEC(char *) addresses;   /* of all members, by rank; or none */
    bool one_host;              /* all are on this host, as far as is known */
} mr_place;

/* TF_CONFIG's workers (a chief first), then MPI's and Slurm's variables.  FAILED_PRECONDITION when none is set.
 * Deinit *out in any case. */
mr_status *mr_place_find(mr_place *out);
void mr_place_deinit(mr_place *p);
/* "host:port,host:port" */
mr_status *mr_place_addresses(mr_place *p, const char *list);
bool mr_place_is_local(const char *address);

#endif
