/* store/checkpoint_state.h -- the file `checkpoint` of a folder: lists its checkpoints, the newest last.
 *
 * Text-format CheckpointState, replaced as a whole.  Relative paths count from the folder. */
#ifndef MR_STORE_CHECKPOINT_STATE_H
#define MR_STORE_CHECKPOINT_STATE_H

#include "base/str.h"
#include "base/vec.h"

typedef struct mr_checkpoint_state {
    MR_VEC(char *) paths; /* of all checkpoints, oldest first, as written in the file; owned */
} mr_checkpoint_state;

/* NOT_FOUND when the folder has none. */
mr_status *mr_checkpoint_state_read(const char *folder, mr_checkpoint_state *out);
mr_status *mr_checkpoint_state_write(const char *folder, const mr_checkpoint_state *s);
void mr_checkpoint_state_deinit(mr_checkpoint_state *s);
/* Appends a path; if the list already has it, moves it to the end. */
void mr_checkpoint_state_add(mr_checkpoint_state *s, const char *path);
/* The path as this process opens it; the caller frees it with mr_free. */
char *mr_checkpoint_resolve(const char *folder, const char *path);

#endif
