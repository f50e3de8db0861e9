/* cli/cmd_inspect.c -- `millrace inspect`: what is in a checkpoint or a graph file. */
#include <stdio.h>

#include "base/file.h"
#include "cli/command.h"
#include "graph/graph_def.h"
#include "store/bundle.h"

static mr_status *inspect_checkpoint(const char *prefix)
{
    mr_bundle *b;
    MR_TRY(mr_bundle_open(prefix, &b));
    mr_bundle_entry *e = mr_new(mr_bundle_entry);
    mr_status *st = NULL;
    int64_t total = 0;
    int width = 0;
    for (int i = 0; i < mr_bundle_count(b); i++)
        width = MR_MAX(width, (int)mr_bundle_name(b, i).n);
    for (int i = 0; i < mr_bundle_count(b) && !st; i++) {
        mr_sv name = mr_bundle_name(b, i);
        st = mr_bundle_lookup(b, name, e);
        if (st)
            break;
        printf("%-*.*s  %-10s %s%s\n", width, MR_SV_ARG(name), mr_dtype_name(e->dtype),
               MR_SHAPE_TEXT(e->shape.rank, e->shape.dims), e->n_slices ? "  (in slices)" : "");
        total += (int64_t)e->size;
    }
    if (!st)
        printf("%d tensors, %lld bytes\n", mr_bundle_count(b), (long long)total);
    mr_free(e);
    mr_bundle_close(b);
    return st;
}

static void print_node(const mr_node *n)
{
    printf("%s = %s(", n->name, n->def->name);
    for (int i = 0; i < n->n_in; i++)
        printf(n->in[i].index ? "%s%s:%d" : "%s%s", i ? ", " : "", n->in[i].node->name, n->in[i].index);
    for (int i = 0; i < n->n_ctrl; i++)
        printf("%s^%s", i || n->n_in ? ", " : "", n->ctrl[i]->name);
    printf(")");
    for (int i = 0; i < n->n_out; i++)
        printf("%s%s%s", i ? ", " : " -> ", mr_dtype_name(n->out_types[i]), MR_PSHAPE_TEXT(n->out_shapes[i]));
    printf("\n");
}

static mr_status *inspect_graph(const char *path)
{
    mr_str bytes = {0};
    mr_graph *g = mr_graph_new();
    mr_status *st = mr_file_read_all(path, &bytes);
    size_t n = strlen(path);
    if (!st && n > 6 && strcmp(path + n - 6, ".pbtxt") == 0)
        st = mr_graph_import_text(g, mr_str_view(&bytes), NULL);
    else if (!st)
        st = mr_graph_import(g, mr_str_view(&bytes), NULL, NULL);
    for (int i = 0; !st && i < g->nodes.n; i++)
        print_node(g->nodes.p[i]);
    if (!st)
        printf("%d nodes, %d functions, producer %d\n", g->nodes.n, mr_library_count(g->library), g->versions.producer);
    mr_graph_unref(g);
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *inspect(int n, char **args)
{
    (void)n;
    size_t len = strlen(args[0]);
    if (len > 6 && strcmp(args[0] + len - 6, ".index") == 0)
        args[0][len - 6] = 0;
    return mr_bundle_exists(args[0]) ? inspect_checkpoint(args[0]) : inspect_graph(args[0]);
}

MR_COMMAND(inspect, .summary = "show what a checkpoint (its prefix) or a graph (.pb, .pbtxt) holds", .usage = "FILE",
           .min_args = 1, .max_args = 1, .run = inspect);
