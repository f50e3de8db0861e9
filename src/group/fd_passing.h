/* group/fd_passing.h -- passes files of shared memory from one process of a host to others.
 *
 * A process offers files under numbers at a socket; a process of the same user asks for a number and gets the
 * descriptor. */
#ifndef MR_GROUP_FD_PASSING_H
#define MR_GROUP_FD_PASSING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct mr_fd_server mr_fd_server;
/* Listens at a path, in a folder that only this user can enter. */
mr_status *mr_fd_server_new(const char *path, mr_fd_server **out);
void mr_fd_server_free(mr_fd_server *g);
/* Takes over the descriptor; take_back closes it. */
void mr_fd_server_offer(mr_fd_server *g, uint64_t number, int fd, size_t bytes);
void mr_fd_server_take_back(mr_fd_server *g, uint64_t number);
/* Asks at a path until the file is offered.  ABORTED when *stop (may be NULL) is set, UNAVAILABLE when no process
 * answers at the path.  The caller owns *fd. */
mr_status *mr_fd_fetch(const char *path, uint64_t number, int64_t deadline_ns, const _Atomic bool *stop, int *fd, size_t *bytes);

#endif
