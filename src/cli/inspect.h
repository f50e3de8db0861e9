/* cli/inspect.h -- what a file is, and what is in it: the parts of `millrace inspect`. */
#ifndef MR_CLI_INSPECT_H
#define MR_CLI_INSPECT_H

#include "base/str.h"

typedef enum mr_file_kind {
    MR_FILE_GRAPH,        /* GraphDef */
    MR_FILE_GRAPH_TEXT,
    MR_FILE_META_GRAPH,   /* MetaGraphDef */
    MR_FILE_SAVED_MODEL,  /* a folder */
    MR_FILE_CHECKPOINT,   /* a prefix; of the first format: a file, or a pattern of its files */
    MR_FILE_RECORDS,      /* TFRecord */
    MR_FILE_EVENTS,       /* the same, of Events */
} mr_file_kind;

/* A name that says: a message as text. */
bool mr_file_is_text(const char *path);
/* Looks at the name and the first bytes.  *path is what to open (mr_free): a checkpoint's prefix or pattern, a model's folder. */
mr_status *mr_file_kind_of(const char *file, mr_file_kind *kind, char **path);

typedef struct mr_inspect_options {
    bool all; /* every node, every record */
} mr_inspect_options;

/* Each appends what there is to say. */
mr_status *mr_inspect_graph(mr_sv graph_def, const mr_inspect_options *o, mr_str *out);
mr_status *mr_inspect_meta_graph(mr_sv meta_graph_def, const mr_inspect_options *o, mr_str *out);
mr_status *mr_inspect_saved_model(const char *dir, const mr_inspect_options *o, mr_str *out);
mr_status *mr_inspect_checkpoint(const char *prefix, mr_str *out);
mr_status *mr_inspect_records(const char *path, const mr_inspect_options *o, mr_str *out);
mr_status *mr_inspect_events(const char *path, const mr_inspect_options *o, mr_str *out);

#endif
