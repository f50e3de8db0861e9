/* group/shm.h -- the transport between members on one host, over shared memory.
 *
 * Each member has a segment (a sealed file of net/segment.h): a bell to wake it, a pipe to each other member, and one
 * pipe that all others read.  All members map all segments. The files are sealed, so no member can shrink them, and
 * what is read from them is checked before it is used.
 *
 * Operations are streams: a part of a member's values goes through a pipe to the one that merges it, which reads it
 * there, and merged values come back through its common pipe.  Pipes are small enough to stay in caches, so each value
 * crosses memory once in each direction.  Buffers of mr_shm_memory have separate segments, which all members read and
 * write in place. */
#ifndef MR_GROUP_SHM_H
#define MR_GROUP_SHM_H

#include "group/transport.h"

enum { MR_SHM_MOST = 256 }; /* members */

/* Creates the file of a member's segment for a group of this size; -1: out of memory. */
int mr_shm_file_new(int size);
size_t mr_shm_file_bytes(int size);
/* Takes over the descriptors of all members, in the order of ranks, also when it fails.  The files of others are
 * checked. find (may be NULL) returns the memory of member `rank`'s buffer `id` and its size; NULL: there is none. */
typedef char *(*mr_shm_find_fn)(void *arg, int rank, uint64_t id, size_t *bytes);
/* own finds the buffer of this process that holds these bytes: its id (above 0) and the offset in it. */
typedef bool (*mr_shm_own_fn)(void *arg, const void *p, size_t n, uint64_t *id, size_t *at);
typedef struct mr_shm_memory {
    mr_shm_find_fn find;
    mr_shm_own_fn own;
    void *arg;
} mr_shm_memory;
mr_status *mr_shm_new(int rank, int size, const int *fds, const mr_shm_memory *memory, mr_transport **out);

#endif
