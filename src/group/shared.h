/* group/shared.h -- buffers in memory that all members on one host share. */
#ifndef MR_GROUP_SHARED_H
#define MR_GROUP_SHARED_H

#include "group/meeting.h"
#include "group/shm.h"

typedef struct mr_shared mr_shared;
mr_shared *mr_shared_new(mr_meeting *m);
void mr_shared_free(mr_shared *s);
void *mr_shared_alloc(mr_shared *s, size_t bytes); /* NULL: out of memory */
bool mr_shared_release(mr_shared *s, void *p);
/* Unmaps the buffers of others, whose ranks change with the generation.  No transport may be in use. */
void mr_shared_forget(mr_shared *s);
/* For the transport of a lane (member.h). */
mr_shm_memory mr_shared_memory(mr_shared *s, int number);

#endif
