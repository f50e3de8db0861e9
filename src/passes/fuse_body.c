/* passes/fuse_body.c -- what all passes do that make a node with a body: they write the body, which keeps the client's
 * nodes with their names and attrs, and put the node in the place of its members. */
#include <stdio.h>

#include "base/map.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "passes/fuse.h"
#include "wire/pb.h"

/* ---- the body ---- */

typedef struct body {
    mr_pb_writer w;
    mr_imap inputs; /* output -> 1 + index of the argument */
} body;

static uint64_t key_of(mr_out o) { return (uint64_t)o.node->id << 20 | (uint64_t)o.index; }

static void begin_node(body *b, const char *name, const char *op)
{
    mr_pb_put_bytes(&b->w, 1, mr_sv_of(name));
    mr_pb_put_bytes(&b->w, 2, mr_sv_of(op));
}

/* Nobody runs an argument, so a variable without a name of its own can stand for any reference. */
static mr_status *put_argument(body *b, int i, int type)
{
    char name[16];
    mr_named_attr arg[] = {{"T", mr_a_type(type)}, {"index", mr_a_int(i)}};
    mr_named_attr variable[] = {{"dtype", mr_a_type(mr_dtype_base(type))}, {"shape", mr_a_shape(&mr_pshape_unknown)}};
    bool ref = mr_dtype_is_ref(type);
    size_t node = mr_pb_begin(&b->w, 1);
    snprintf(name, sizeof name, "_%d", i);
    begin_node(b, name, ref ? "VariableV2" : "_Arg");
    mr_status *st = mr_named_attrs_write(ref ? variable : arg, 2, 5, &b->w);
    mr_pb_end(&b->w, node);
    return st;
}

static mr_status *put_member(body *b, const mr_node *n)
{
    mr_status *st = NULL;
    size_t node = mr_pb_begin(&b->w, 1);
    begin_node(b, n->name, n->def->name);
    for (int i = 0; i < n->n_in; i++) {
        char name[16];
        int argument = (int)(intptr_t)mr_imap_get(&b->inputs, key_of(n->in[i])) - 1;
        snprintf(name, sizeof name, "_%d", argument);
        mr_pb_put_bytes(&b->w, 3, mr_sv_of(argument >= 0 ? name : n->in[i].node->name));
    }
    for (int i = 0; i < n->n_attrs && !st; i++)
        if (strcmp(n->attrs[i].name, "_class") != 0)
            st = mr_named_attrs_write(&n->attrs[i], 1, 5, &b->w);
    mr_pb_end(&b->w, node);
    return st;
}

mr_status *mr_fuse_write_body(const mr_graph *g, const mr_out *in, int n_in, mr_node *const *members, int n, mr_str *out)
{
    mr_status *st = NULL;
    body b = {0};
    mr_pb_writer_init(&b.w, out);
    for (int i = 0; i < n_in && !st; i++) {
        mr_imap_put(&b.inputs, key_of(in[i]), (void *)(intptr_t)(i + 1));
        st = put_argument(&b, i, mr_out_type(in[i]));
    }
    for (int i = 0; i < n && !st; i++)
        st = put_member(&b, members[i]);
    mr_imap_deinit(&b.inputs);
    MR_TRY(st);
    size_t versions = mr_pb_begin(&b.w, 4);
    mr_pb_opt_varint(&b.w, 1, (uint64_t)g->versions.producer);
    mr_pb_end(&b.w, versions);
    return mr_pb_writer_status(&b.w, "the body of a fused node");
}

mr_sv mr_fuse_label(mr_graph *g, const mr_node *n)
{
    mr_str label = {0};
    mr_str_printf(&label, "%s:%s", n->name, n->def->name);
    mr_sv out = {mr_arena_strndup(&g->arena, label.p, label.n), label.n};
    mr_str_deinit(&label);
    return out;
}

/* ---- replacing the members ---- */

/* Nodes that waited for a member wait for the fused node, once. marks: by id, 1 + the node that was seen last. */
static void redirect_controls(mr_node *n, mr_node *const *instead, int n_ids, int *marks)
{
    int kept = 0;
    for (int i = 0; i < n->n_ctrl; i++) {
        mr_node *src = n->ctrl[i];
        bool moved = src->id < n_ids && instead[src->id];
        if (moved)
            src = instead[src->id];
        MR_ASSERT(src != n);
        if (marks[src->id] == n->id + 1)
            continue;
        marks[src->id] = n->id + 1;
        if (moved)
            mr_vec_push(&src->uses, (mr_use){n, -1, -1});
        n->ctrl[kept++] = src;
    }
    n->n_ctrl = kept;
}

mr_status *mr_fuse_finish(mr_graph *g, mr_node *const *instead, int n_ids)
{
    int all = g->nodes.n;
    int *marks = mr_try_calloc((size_t)all + 1, sizeof *marks);
    bool *gone = mr_try_calloc((size_t)all + 1, sizeof *gone);
    if (!marks || !gone) {
        mr_free(marks);
        mr_free(gone);
        return mr_error(MR_RESOURCE_EXHAUSTED, "Out of memory: cannot fuse nodes of a graph of %d nodes", all);
    }
    for (int i = 0; i < n_ids; i++)
        gone[i] = instead[i] != NULL;
    for (int i = 0; i < all; i++)
        if (g->nodes.p[i] && !gone[i])
            redirect_controls(g->nodes.p[i], instead, n_ids, marks);
    for (int i = 0; i < n_ids; i++)
        if (gone[i])
            g->nodes.p[i]->uses.n = 0;
    mr_graph_remove_all(g, gone);
    for (int i = n_ids; i < all; i++) {
        if (strcmp(g->nodes.p[i]->name, g->nodes.p[i]->tag) != 0)
            mr_node_rename(g->nodes.p[i], g->nodes.p[i]->tag);
        g->nodes.p[i]->tag = NULL;
    }
    mr_free(marks);
    mr_free(gone);
    return NULL;
}
