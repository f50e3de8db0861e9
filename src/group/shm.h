/* group/shm.h -- members of one host, over memory that all of them see.
 *
 * Each member has a segment (a sealed file of net/segment.h): a bell to wake it, a pipe to each other member, and one pipe
 * that all others read.  All map the segments of all; only the pages of files that nobody can shrink are touched, and what is
 * read there is checked before it is used.
 *
 * Operations are streams: a part of a member's values goes through a pipe to the one that merges it, which reads it there,
 * and merged values come back through its common pipe.  Pipes are small enough to stay in caches, so memory sees each value once
 * coming and once going.  Buffers of mr_shm_memory are in segments of their own: then all read and write in place. */
#ifndef MR_GROUP_SHM_H
#define MR_GROUP_SHM_H

#include "group/transport.h"

enum { MR_SHM_MOST = 256 }; /* members */

/* The file of a member's segment, in a group of this size; -1: no memory. */
int mr_shm_file_new(int size);
size_t mr_shm_file_bytes(int size);
/* Takes over the descriptors, those of all members in the order of ranks, also when it fails.  The files of others are checked.
 * find (may be NULL) gives the memory of member `rank`'s buffer `id`, with its size, NULL when there is none: */
typedef char *(*mr_shm_find_fn)(void *arg, int rank, uint64_t id, size_t *bytes);
/* own tells which buffer of this process holds these bytes: its id (over 0) and the place in it. */
typedef bool (*mr_shm_own_fn)(void *arg, const void *p, size_t n, uint64_t *id, size_t *at);
typedef struct mr_shm_memory {
    mr_shm_find_fn find;
    mr_shm_own_fn own;
    void *arg;
} mr_shm_memory;
mr_status *mr_shm_new(int rank, int size, const int *fds, const mr_shm_memory *memory, mr_transport **out);

#endif
