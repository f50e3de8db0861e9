/* store/saved_model.h -- SavedModel folders: MetaGraphs with their variables and assets.
 *
 *     DIR/saved_model.pb (or .pbtxt)    one MetaGraphDef for each set of tags
 *     DIR/variables/variables.*         a checkpoint
 *     DIR/assets/                       files that the graph reads
 *
 * A model is kept as the bytes that were read, and a MetaGraph is a set of views of them: the graph may be hundreds of
 * megabytes, and its importer takes bytes anyway. A client gets back exactly what was written, including unknown
 * fields. */
#ifndef MR_STORE_SAVED_MODEL_H
#define MR_STORE_SAVED_MODEL_H

#include "base/str.h"
#include "base/vec.h"

typedef struct mr_named_bytes { /* an entry of a map: views */
    mr_sv name, bytes;
} mr_named_bytes;

/* A MetaGraphDef.  The views are valid as long as the bytes it was opened on. */
typedef struct mr_meta_graph {
    mr_sv bytes;
    mr_sv graph_def, saver_def, object_graph; /* serialized; empty when absent */
    mr_sv tensorflow_version;
    MR_VEC(mr_sv) tags;
    MR_VEC(mr_named_bytes) collections; /* of CollectionDef */
    MR_VEC(mr_named_bytes) signatures;  /* of SignatureDef */
    MR_VEC(mr_sv) assets;               /* of AssetFileDef */
} mr_meta_graph;
/* INVALID_ARGUMENT if the bytes are not a MetaGraphDef; *out needs a deinit either way. */
mr_status *mr_meta_graph_open(mr_sv bytes, mr_meta_graph *out);
void mr_meta_graph_deinit(mr_meta_graph *m);
/* Serialized; of several entries with the same key the last; false if there is none. */
bool mr_meta_graph_signature(const mr_meta_graph *m, const char *key, mr_sv *out);
bool mr_meta_graph_collection(const mr_meta_graph *m, const char *key, mr_sv *out);
/* "{ serve, gpu }" */
void mr_meta_graph_print_tags(const mr_meta_graph *m, mr_str *out);

typedef struct mr_saved_model {
    mr_str bytes; /* a SavedModel */
    int64_t version;
    MR_VEC(mr_meta_graph) graphs;
} mr_saved_model;
/* Reads DIR/saved_model.pb or .pbtxt; NOT_FOUND if neither exists. */
mr_status *mr_saved_model_read(const char *dir, mr_saved_model *out);
/* The same from bytes, which are taken over even on an error. */
mr_status *mr_saved_model_open(mr_str *bytes, mr_saved_model *out);
void mr_saved_model_deinit(mr_saved_model *m);
/* Whether DIR has one of the two files. */
bool mr_saved_model_exists(const char *dir);
/* The MetaGraph with exactly these tags, in any order. The message of NOT_FOUND lists the existing sets. */
mr_status *mr_saved_model_find(const mr_saved_model *m, const char *const *tags, int n,
                               const mr_meta_graph **out);

/* Writes DIR/saved_model.pb with these serialized MetaGraphDefs, atomically. */
mr_status *mr_saved_model_write(const char *dir, const mr_sv *meta_graphs, int n);

#endif
