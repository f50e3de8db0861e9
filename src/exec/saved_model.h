/* exec/saved_model.h -- loads a SavedModel's state into a session: restores variables and runs the init op. */
#ifndef MR_EXEC_SAVED_MODEL_H
#define MR_EXEC_SAVED_MODEL_H

#include "exec/session.h"
#include "store/saved_model.h"

/* The session runs on `g`, into which m->graph_def was imported. Restores DIR/variables if it exists, then runs the
 * init op, the main op or the legacy init op, each with the paths of the assets fed. */
mr_status *mr_saved_model_start(mr_session *s, const mr_graph *g, const mr_meta_graph *m, const char *dir,
                                const mr_run_options *o);

/* A name of a signature and the tensor it stands for. */
typedef struct mr_model_tensor {
    char *name; /* owned */
    mr_out tensor;
} mr_model_tensor;
typedef struct mr_model_signature {
    MR_VEC(mr_model_tensor) inputs, outputs;
} mr_model_signature;
/* NOT_FOUND if there is no such signature, INVALID_ARGUMENT if it names something that is not in the graph. Tensors
 * that consist of several (sparse ones) are left out. */
mr_status *mr_model_signature_find(const mr_graph *g, const mr_meta_graph *m, const char *key, mr_model_signature *out);
void mr_model_signature_deinit(mr_model_signature *s);

#endif
