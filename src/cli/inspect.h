/* cli/inspect.h -- finds the kind of a file and describes its contents, for `millrace inspect`. */
#ifndef MR_CLI_INSPECT_H
#define MR_CLI_INSPECT_H

#include "base/str.h"

typedef enum mr_file_kind {
    MR_FILE_GRAPH,        /* GraphDef */
    MR_FILE_GRAPH_TEXT,
    MR_FILE_META_GRAPH,   /* MetaGraphDef */
    MR_FILE_SAVED_MODEL,  /* a folder */
    MR_FILE_CHECKPOINT,   /* a prefix; for the V1 format, a file or a pattern for its files */
    MR_FILE_RECORDS,      /* TFRecord */
    MR_FILE_EVENTS,       /* TFRecord of Events */
} mr_file_kind;

/* Whether the name says that the file is a message in text format. */
bool mr_file_is_text(const char *path);
/* Finds the kind of a file. *path is what to open: the prefix or pattern of a checkpoint, or the folder of a model. The
 * caller owns it, also after an error. */
mr_status *mr_file_kind_of(const char *file, mr_file_kind *kind, char **path);

typedef struct mr_inspect_options {
    bool all; /* every node, every record */
} mr_inspect_options;

/* Each appends a description to *out. */
mr_status *mr_inspect_graph(mr_sv graph_def, const mr_inspect_options *o, mr_str *out);
mr_status *mr_inspect_meta_graph(mr_sv meta_graph_def, const mr_inspect_options *o, mr_str *out);
mr_status *mr_inspect_saved_model(const char *dir, const mr_inspect_options *o, mr_str *out);
mr_status *mr_inspect_checkpoint(const char *prefix, mr_str *out);
mr_status *mr_inspect_records(const char *path, const mr_inspect_options *o, mr_str *out);
mr_status *mr_inspect_events(const char *path, const mr_inspect_options *o, mr_str *out);

#endif
