/* millrace/saved_model.h -- SavedModels written from C, for TensorFlow Serving or any client of the C API.
 *
 *     mr_saver *saver = mr_saver_new(model, 0);
 *     mr_signature_arg x = {"images", images}, y = {"scores", scores};
 *     mr_signature serve = {MR_DEFAULT_SIGNATURE, MR_PREDICT, &x, 1, &y, 1};
 *     mr_saved_model_options o = {.size = sizeof o, .signatures = &serve, .num_signatures = 1};
 *     mr_saved_model_save(graph, saver, session, "/models/digits/1", &o, status);
 *
 * They are read by TF_LoadSessionFromSavedModel; mr_signature_tensor finds what a name of a signature stands for. */
#ifndef MILLRACE_SAVED_MODEL_H
#define MILLRACE_SAVED_MODEL_H

#include "millrace/train.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MR_DEFAULT_SIGNATURE "serving_default"
#define MR_PREDICT "tensorflow/serving/predict"

typedef struct mr_signature_arg {
    const char *name;
    TF_Output tensor;
} mr_signature_arg;

typedef struct mr_signature {
    const char *key, *method;
    const mr_signature_arg *inputs;
    int num_inputs;
    const mr_signature_arg *outputs;
    int num_outputs;
} mr_signature;

typedef struct mr_asset { /* a file that goes into the model; `path`, a string, is fed with where it is then */
    TF_Output path;
    const char *file;
} mr_asset;

typedef struct mr_saved_model_options {
    size_t size;             /* sizeof(mr_saved_model_options) */
    const char *const *tags; /* none: "serve" */
    int num_tags;
    const mr_signature *signatures;
    int num_signatures;
    const mr_asset *assets;
    int num_assets;
    TF_Operation *init; /* run when the model is loaded; may be NULL */
} mr_saved_model_options;

/* Writes the graph, the variables of the saver as the session has them, and the assets.  saver NULL: no variables.
 * ALREADY_EXISTS when the folder has a model. */
MR_EXPORT extern void mr_saved_model_save(TF_Graph *graph, mr_saver *saver, TF_Session *session, const char *dir,
                                          const mr_saved_model_options *options, TF_Status *status);

/* The tensor that a name means in a signature of the MetaGraphDef that TF_LoadSessionFromSavedModel gave: of its inputs when
 * `input`, else of its outputs.  {NULL, -1} and NOT_FOUND when there is none. */
MR_EXPORT extern TF_Output mr_signature_tensor(TF_Graph *graph, const TF_Buffer *meta_graph_def, const char *key, const char *name,
                                               unsigned char input, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
