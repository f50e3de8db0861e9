/* train/exporter.h -- writes a trained graph and its variables as a SavedModel. */
#ifndef MR_TRAIN_EXPORTER_H
#define MR_TRAIN_EXPORTER_H

#include "train/saver.h"

typedef struct mr_export_tensor {
    const char *name; /* key in the signature */
    mr_out tensor;
} mr_export_tensor;

typedef struct mr_export_signature {
    const char *key, *method; /* "serving_default", "tensorflow/serving/predict" */
    const mr_export_tensor *inputs, *outputs;
    int n_inputs, n_outputs;
} mr_export_signature;

typedef struct mr_export_asset { /* a file copied into the model; the loader feeds its new location to `path` */
    mr_out path;
    const char *file;
} mr_export_asset;

typedef struct mr_export {
    const char *const *tags;
    const mr_export_signature *signatures;
    const mr_export_asset *assets;
    mr_node *init; /* run when the model is loaded; may be NULL */
    int n_tags, n_signatures, n_assets;
} mr_export;

/* The message alone, without variables and assets; saver may be NULL. */
mr_status *mr_meta_graph_write(const mr_graph *g, const mr_nn_saver *saver, const mr_export *e, mr_str *out);
/* Writes a whole folder; ALREADY_EXISTS if it has a model.  saved_model.pb is written last, so a folder with it is
 * complete. saver NULL: a model without variables. */
mr_status *mr_export_saved_model(mr_sv meta_graph, mr_nn_saver *saver, mr_session *session, const char *dir, const mr_export *e);

#endif
