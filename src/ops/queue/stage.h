/* ops/queue/stage.h -- a staging area: tuples of tensors that wait to be taken, by key.
 *
 * Stage numbers the tuples in the order of arrival, so that it is a queue.  In MapStage and OrderedMapStage
 * the user chooses the keys, and may put a tuple in parts.  A take waits for its tuple, a put waits for
 * room, both without a thread. */
#ifndef MR_OPS_QUEUE_STAGE_H
#define MR_OPS_QUEUE_STAGE_H

#include "run/run.h"

typedef struct mr_stage mr_stage;

/* The state of a kernel, from the node's attrs; see mr_stage_init. */
typedef struct mr_stage_state {
    const mr_object_type *type;
    char *container, *name;
    int64_t capacity, memory_limit; /* 0: none */
    int n_types;
} mr_stage_state;

extern const mr_object_type mr_stage_type, mr_map_stage_type, mr_ordered_stage_type;

mr_status *mr_stage_init(mr_make *m, mr_stage_state *s, const mr_object_type *type);
void mr_stage_deinit(void *state);
/* Finds or creates the area of a run's kernel; the caller owns *out. */
mr_status *mr_stage_of(mr_run *r, mr_stage **out);

/* Each takes over a reference to the area and ends the asynchronous run r, now or as soon as possible.  The
 * values are the inputs from first_in on. */
void mr_stage_put(mr_stage *s, mr_run *r, int first_in);                 /* after all others */
void mr_stage_put_parts(mr_stage *s, mr_run *r, int64_t key, const mr_tensor *indices, int first_in,
                        int n_types);
void mr_stage_take(mr_stage *s, mr_run *r);                              /* the first one */
void mr_stage_take_parts(mr_stage *s, mr_run *r, int64_t key, const mr_tensor *indices);
void mr_stage_take_first_parts(mr_stage *s, mr_run *r, const mr_tensor *indices); /* key, values */
void mr_stage_peek(mr_stage *s, mr_run *r, int64_t index);
void mr_stage_peek_parts(mr_stage *s, mr_run *r, int64_t key, const mr_tensor *indices);

int64_t mr_stage_size(mr_stage *s);
int64_t mr_stage_incomplete(mr_stage *s);
void mr_stage_clear(mr_stage *s);

#endif
