/* group/gift.h -- passes files of shared memory from one process of a host to others.
 *
 * A process offers files under numbers at a socket; a process of the same user asks for a number and gets the
 * descriptor. */
#ifndef MR_GROUP_GIFT_H
#define MR_GROUP_GIFT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mr_gifts mr_gifts;
/* Listens at a path, in a folder that only this user can enter. */
mr_status *mr_gifts_new(const char *path, mr_gifts **out);
void mr_gifts_free(mr_gifts *g);
/* Takes over the descriptor; take_back closes it. */
void mr_gifts_offer(mr_gifts *g, uint64_t number, int fd, size_t bytes);
void mr_gifts_take_back(mr_gifts *g, uint64_t number);
/* Asks at a path until the file is offered.  ABORTED when *stop (may be NULL) is set, UNAVAILABLE when no process
 * answers at the path.  The caller owns *fd. */
mr_status *mr_gift_ask(const char *path, uint64_t number, int64_t deadline_ns, const _Atomic bool *stop, int *fd, size_t *bytes);

#endif
