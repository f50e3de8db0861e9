/* train/saver.h -- checkpoints of a network's variables.
 *
 * A plain saver writes on the scope's device.  With a sharded one every device writes and reads its own variables, so
 * values do not travel, but all devices must see the same folder.  The files differ only in the number of data files;
 * either kind restores what the other saved, on any number of devices.
 *
 * The saver adds SaveV2 and RestoreV2 to the graph, under the names TensorFlow's Saver uses, and keeps the
 * folder's `checkpoint` file.  Order of events in a save: the new checkpoint is whole on disk, then it is named
 * in `checkpoint`, then what exceeds max_to_keep is removed; a crash between any two leaves a folder whose
 * newest named checkpoint loads. */
#ifndef MR_TRAIN_SAVER_H
#define MR_TRAIN_SAVER_H

#include "exec/session.h"
#include "train/nn.h"

typedef struct mr_nn_saver {
    mr_out file;         /* string scalar to feed: the prefix */
    mr_out aside;        /* likewise, of a sharded saver: what follows the prefix in the names of temporary parts */
    mr_node *save, *restore;
    int max_to_keep;     /* 0: all */
} mr_nn_saver;

/* A saver of all variables made so far; errors go to the network's scope. */
mr_nn_saver *mr_nn_saver_new(mr_nn *n, int max_to_keep);
mr_nn_saver *mr_nn_saver_new_sharded(mr_nn *n, int max_to_keep);
void mr_nn_saver_free(mr_nn_saver *s);
mr_status *mr_nn_save(mr_nn_saver *s, mr_session *session, const char *prefix, int64_t step);
/* Saves at exactly this prefix, without naming it in a `checkpoint` file. */
mr_status *mr_nn_save_at(mr_nn_saver *s, mr_session *session, const char *prefix);
mr_status *mr_nn_restore(mr_nn_saver *s, mr_session *session, const char *path);
/* Removes the files that killed saves under this prefix left, if they are at least a minute old. */
mr_status *mr_nn_saver_clean(const char *prefix);
/* *found false when the folder names no checkpoint; an error when it names some and none loads. */
mr_status *mr_nn_restore_latest(mr_nn_saver *s, mr_session *session, const char *folder, bool *found);

#endif
