/* millrace/saved_model.h -- writing SavedModels from C, for TensorFlow Serving or any client of the C API; reading large
 * graphs.
 *
 *     mr_saver *saver = mr_saver_new(model, 0);
 *     mr_signature_arg x = {"images", images}, y = {"scores", scores};
 *     mr_signature serve = {MR_DEFAULT_SIGNATURE, MR_PREDICT, &x, 1, &y, 1};
 *     mr_saved_model_options o = {.size = sizeof o, .signatures = &serve, .num_signatures = 1};
 *     mr_saved_model_save(graph, saver, session, "/models/digits/1", &o, status);
 *
 * TF_LoadSessionFromSavedModel reads such a model; mr_signature_tensor finds the tensors of its signatures. */
#ifndef MILLRACE_SAVED_MODEL_H
#define MILLRACE_SAVED_MODEL_H

#include "millrace/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The signature key that servers use by default. */
#define MR_DEFAULT_SIGNATURE "serving_default"
/* The method name of a signature that TensorFlow Serving can call. */
#define MR_PREDICT "tensorflow/serving/predict"

/* An input or output of a signature. */
typedef struct mr_signature_arg {
    const char *name; /* the name that clients use */
    TF_Output tensor; /* the tensor that is fed or fetched */
} mr_signature_arg;

/* An entry point of the model: named inputs and outputs. */
typedef struct mr_signature {
    const char *key;    /* name of the signature, for example MR_DEFAULT_SIGNATURE */
    const char *method; /* NULL: MR_PREDICT */
    const mr_signature_arg *inputs;
    int num_inputs;
    const mr_signature_arg *outputs;
    int num_outputs;
} mr_signature;

/* A file that is copied into the model, such as a vocabulary. */
typedef struct mr_asset {
    TF_Output path;   /* a string scalar that is fed with the path of the copy when the model is loaded */
    const char *file; /* the file to copy */
} mr_asset;

/* What goes into a SavedModel besides the graph and the variables. */
typedef struct mr_saved_model_options {
    size_t size;             /* sizeof(mr_saved_model_options) */
    const char *const *tags; /* tags of the graph */
    int num_tags;            /* 0: one tag, "serve" */
    const mr_signature *signatures;
    int num_signatures;
    const mr_asset *assets;
    int num_assets;
    TF_Operation *init; /* run when the model is loaded, after the variables are restored; may be NULL */
} mr_saved_model_options;

/* Writes a SavedModel to the folder `dir`: the graph, the variables of the saver with their values in the session, and
 * the assets. Without a saver (NULL) no variables are saved, and session may be NULL. Fails with TF_ALREADY_EXISTS if
 * the folder already holds a model. */
MR_EXPORT extern void mr_saved_model_save(TF_Graph *graph, mr_saver *saver, TF_Session *session, const char *dir,
                                          const mr_saved_model_options *options, TF_Status *status);

/* Returns the tensor that `name` stands for in the signature `key`: an input if `input` is 1, otherwise an output.
 * graph and meta_graph_def are those that TF_LoadSessionFromSavedModel has filled. Returns {NULL, -1} and TF_NOT_FOUND
 * if there is no such tensor or signature. */
MR_EXPORT extern TF_Output mr_signature_tensor(TF_Graph *graph, const TF_Buffer *meta_graph_def, const char *key,
                                               const char *name, unsigned char input, TF_Status *status);

/* Returns the bytes of a file without reading them all; the caller frees them with TF_DeleteBuffer. A graph that
 * TF_GraphImportGraphDef makes of them leaves in the file the large constants whose elements are aligned there (`millrace
 * convert --align` writes such files), so processes that use the same model share one copy of its weights, which is read
 * when it is first used. The file must not be changed until the buffer and all graphs and sessions made of it are gone:
 * to replace it, write another file and rename it. */
MR_EXPORT extern TF_Buffer *mr_map_file(const char *path, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
