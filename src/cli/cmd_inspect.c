/* cli/cmd_inspect.c -- `millrace inspect`: shows the contents of a graph, model, checkpoint, record or event file. */
#include <stdio.h>

#include "base/file.h"
#include "cli/command.h"
#include "cli/inspect.h"
#include "graph/graph_def.h"
#include "proto/graph.pb-c.h"
#include "wire/text_format.h"

static bool all;

static mr_status *inspect_bytes(const char *path, mr_file_kind kind, const mr_inspect_options *o, mr_str *out)
{
    mr_str bytes = {0};
    mr_status *st = mr_file_read_all(path, &bytes);
    if (!st && kind == MR_FILE_GRAPH_TEXT)
        st = mr_text_to_bytes(&tensorflow__graph_def__descriptor, &bytes);
    if (!st)
        st = kind == MR_FILE_META_GRAPH ? mr_inspect_meta_graph(mr_str_view(&bytes), o, out)
                                        : mr_inspect_graph(mr_str_view(&bytes), o, out);
    mr_str_deinit(&bytes);
    return mr_status_prepend(st, "%s: ", path);
}

static mr_status *inspect_file(const char *path, mr_file_kind kind, mr_str *out)
{
    mr_inspect_options o = {.all = all};
    switch (kind) {
    case MR_FILE_SAVED_MODEL: return mr_inspect_saved_model(path, &o, out);
    case MR_FILE_CHECKPOINT: return mr_inspect_checkpoint(path, out);
    case MR_FILE_RECORDS: return mr_inspect_records(path, &o, out);
    case MR_FILE_EVENTS: return mr_inspect_events(path, &o, out);
    default: return inspect_bytes(path, kind, &o, out);
    }
}

static mr_status *run_inspect(int n, char **args)
{
    mr_file_kind kind;
    mr_str text = {0};
    char *path = NULL;
    (void)n;
    mr_status *st = mr_file_kind_of(args[0], &kind, &path);
    if (!st)
        st = inspect_file(path, kind, &text);
    fputs(mr_str_z(&text), stdout); /* after an error, as much as could be read */
    mr_str_deinit(&text);
    mr_free(path);
    return st;
}

static const mr_option options[] = {
    {"all", MR_OPT_FLAG, &all, NULL, "show every node, record and value"},
    {0},
};

MR_COMMAND(inspect, .summary = "show the contents of a graph, model, checkpoint, record or event file",
           .group = MR_COMMANDS_MODEL, .usage = "FILE", .options = options, .min_args = 1, .max_args = 1,
           .run = run_inspect,
           .about = "FILE is one of: a GraphDef (.pb, .pbtxt); a MetaGraphDef (.meta); the folder of a SavedModel, or a "
                    "folder of versions of one, of which the highest is shown; the prefix of a checkpoint, a checkpoint "
                    "file of the old format, or a folder of checkpoints; a TFRecord file; an event file.");
