/* group/shared.h -- buffers in memory that all members of a host see. */
#ifndef MR_GROUP_SHARED_H
#define MR_GROUP_SHARED_H

#include "group/meeting.h"
#include "group/shm.h"

typedef struct mr_shared mr_shared;
mr_shared *mr_shared_new(mr_meeting *m);
void mr_shared_free(mr_shared *s);
void *mr_shared_alloc(mr_shared *s, size_t bytes); /* NULL: no memory */
bool mr_shared_release(mr_shared *s, void *p);
/* Forgets the buffers of others: their ranks are not the same any more.  No transport is at work. */
void mr_shared_forget(mr_shared *s);
/* For the transport of a lane (member.h). */
mr_shm_memory mr_shared_memory(mr_shared *s, int number);

#endif
