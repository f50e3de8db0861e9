/* store/saved_model.c -- reads SavedModel folders, and writes their one message.
 *
 * Nothing in a file is trusted. Only the outer fields are read here; graphs, signatures and collections are parsed by
 * the code that uses them. */
#include "store/saved_model.h"

#include "base/file.h"
#include "base/memory.h"
#include "proto/saved_model.pb-c.h"
#include "store/meta_graph_fields.h"
#include "wire/pb.h"
#include "wire/text_format.h"

enum { MODEL_VERSION = 1, MODEL_META_GRAPHS = 2 }; /* fields of SavedModel */

/* ---- a MetaGraph ---- */

static void read_info(mr_pb_reader *r, mr_meta_graph *m)
{
    mr_pb_reader sub;
    uint32_t field, wire;
    mr_pb_message(r, &sub);
    while (mr_pb_next(&sub, &field, &wire))
        switch (field) {
        case INFO_TAGS: mr_vec_push(&m->tags, mr_pb_bytes(&sub)); break;
        case INFO_TENSORFLOW_VERSION: m->tensorflow_version = mr_pb_bytes(&sub); break;
        default: mr_pb_skip(&sub);
        }
}

static mr_named_bytes read_entry(mr_pb_reader *r)
{
    mr_named_bytes e = {MR_SV(""), MR_SV("")};
    mr_pb_reader sub;
    uint32_t field, wire;
    mr_pb_message(r, &sub);
    while (mr_pb_next(&sub, &field, &wire))
        switch (field) {
        case ENTRY_KEY: e.name = mr_pb_bytes(&sub); break;
        case ENTRY_VALUE: e.bytes = mr_pb_bytes(&sub); break;
        default: mr_pb_skip(&sub);
        }
    return e;
}

mr_status *mr_meta_graph_open(mr_sv bytes, mr_meta_graph *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (mr_meta_graph){.bytes = bytes};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case META_INFO: read_info(&r, out); break;
        case META_GRAPH: out->graph_def = mr_pb_bytes(&r); break;
        case META_SAVER: out->saver_def = mr_pb_bytes(&r); break;
        case META_COLLECTION: mr_vec_push(&out->collections, read_entry(&r)); break;
        case META_SIGNATURE: mr_vec_push(&out->signatures, read_entry(&r)); break;
        case META_ASSET: mr_vec_push(&out->assets, mr_pb_bytes(&r)); break;
        case META_OBJECTS: out->object_graph = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "MetaGraphDef");
}

void mr_meta_graph_deinit(mr_meta_graph *m)
{
    mr_vec_deinit(&m->tags);
    mr_vec_deinit(&m->collections);
    mr_vec_deinit(&m->signatures);
    mr_vec_deinit(&m->assets);
}

static bool find_entry(const mr_named_bytes *e, int n, const char *key, mr_sv *out)
{
    while (n > 0)
        if (mr_sv_is(e[--n].name, key)) {
            *out = e[n].bytes;
            return true;
        }
    return false;
}

bool mr_meta_graph_signature(const mr_meta_graph *m, const char *key, mr_sv *out)
{
    return find_entry(m->signatures.p, m->signatures.n, key, out);
}

bool mr_meta_graph_collection(const mr_meta_graph *m, const char *key, mr_sv *out)
{
    return find_entry(m->collections.p, m->collections.n, key, out);
}

void mr_meta_graph_print_tags(const mr_meta_graph *m, mr_str *out)
{
    mr_str_appendz(out, "{");
    for (int i = 0; i < m->tags.n; i++)
        mr_str_printf(out, "%s %.*s", i ? "," : "", MR_SV_ARG(m->tags.p[i]));
    mr_str_appendz(out, " }");
}

/* ---- a model ---- */

/* Takes over the bytes, on success and on error; the graphs are views of them. */
mr_status *mr_saved_model_open(mr_str *bytes, mr_saved_model *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_status *st = NULL;
    *out = (mr_saved_model){.bytes = *bytes};
    *bytes = (mr_str){0};
    mr_pb_reader_init(&r, mr_str_view(&out->bytes));
    while (!st && mr_pb_next(&r, &field, &wire))
        switch (field) {
        case MODEL_VERSION: out->version = mr_pb_int64(&r); break;
        case MODEL_META_GRAPHS: {
            mr_meta_graph g;
            st = mr_meta_graph_open(mr_pb_bytes(&r), &g);
            mr_vec_push(&out->graphs, g);
            break;
        }
        default: mr_pb_skip(&r);
        }
    if (!st)
        st = mr_pb_reader_status(&r, "SavedModel");
    if (st)
        mr_saved_model_deinit(out);
    return st;
}

void mr_saved_model_deinit(mr_saved_model *m)
{
    for (int i = 0; i < m->graphs.n; i++)
        mr_meta_graph_deinit(&m->graphs.p[i]);
    mr_vec_deinit(&m->graphs);
    mr_str_deinit(&m->bytes);
}

static char *file_in(const char *dir, const char *name) { return mr_printf("%s/%s", dir, name); }

bool mr_saved_model_exists(const char *dir)
{
    char *pb = file_in(dir, "saved_model.pb"), *text = file_in(dir, "saved_model.pbtxt");
    bool there = mr_file_exists(pb) || mr_file_exists(text);
    mr_free(pb);
    mr_free(text);
    return there;
}

/* Reads saved_model.pb, or converts saved_model.pbtxt to the same bytes. */
static mr_status *read_bytes(const char *dir, mr_str *out)
{
    char *pb = file_in(dir, "saved_model.pb"), *text = file_in(dir, "saved_model.pbtxt");
    mr_status *st = NULL;
    if (mr_file_exists(pb)) {
        st = mr_file_read_all(pb, out);
    } else if (mr_file_exists(text)) {
        st = mr_file_read_all(text, out);
        if (!st)
            /* from here on, both forms are the same */
            st = mr_text_to_bytes(&tensorflow__saved_model__descriptor, out);
    } else {
        st = mr_error(MR_NOT_FOUND,
                      "Could not find SavedModel .pb or .pbtxt at supplied export directory path: %s. Check that the directory "
                      "exists and that you have the right permissions for accessing it.",
                      dir);
    }
    mr_free(pb);
    mr_free(text);
    return st;
}

mr_status *mr_saved_model_read(const char *dir, mr_saved_model *out)
{
    mr_str bytes = {0};
    mr_status *st = read_bytes(dir, &bytes);
    if (!st)
        return mr_status_append(mr_saved_model_open(&bytes, out), " (%s)", dir);
    mr_str_deinit(&bytes);
    return st;
}

static bool has_tag(const mr_meta_graph *g, mr_sv tag)
{
    for (int i = 0; i < g->tags.n; i++)
        if (mr_sv_eq(g->tags.p[i], tag))
            return true;
    return false;
}

/* Compares as sets: a tag given twice counts once. */
static bool same_tags(const mr_meta_graph *g, const char *const *tags, int n)
{
    for (int i = 0; i < n; i++)
        if (!has_tag(g, mr_sv_of(tags[i])))
            return false;
    for (int i = 0; i < g->tags.n; i++) {
        bool given = false;
        for (int k = 0; k < n; k++)
            given |= mr_sv_is(g->tags.p[i], tags[k]);
        if (!given)
            return false;
    }
    return true;
}

/* The error lists the tag sets that the model has, so that a user can pick one. */
static mr_status *no_such_tags(const mr_saved_model *m, const char *const *tags, int n)
{
    mr_str wanted = {0}, there = {0};
    for (int i = 0; i < n; i++)
        mr_str_printf(&wanted, "%s %s", i ? "," : "", tags[i]);
    for (int i = 0; i < m->graphs.n; i++) {
        mr_str_appendz(&there, i ? ", " : "");
        mr_meta_graph_print_tags(&m->graphs.p[i], &there);
    }
    mr_status *st = mr_error(MR_NOT_FOUND,
                             "Could not find meta graph def matching supplied tags: {%s }. The SavedModel has these sets of "
                             "tags: %s",
                             mr_str_z(&wanted), m->graphs.n ? mr_str_z(&there) : "none");
    mr_str_deinit(&wanted);
    mr_str_deinit(&there);
    return st;
}

mr_status *mr_saved_model_find(const mr_saved_model *m, const char *const *tags, int n,
                               const mr_meta_graph **out)
{
    for (int i = 0; i < m->graphs.n; i++)
        if (same_tags(&m->graphs.p[i], tags, n)) {
            *out = &m->graphs.p[i];
            return NULL;
        }
    return no_such_tags(m, tags, n);
}

/* ---- writing ---- */

mr_status *mr_saved_model_write(const char *dir, const mr_sv *meta_graphs, int n)
{
    enum { SCHEMA = 1 };
    mr_str out = {0};
    mr_pb_writer w;
    mr_status *st = NULL;
    char *path = file_in(dir, "saved_model.pb");
    mr_pb_writer_init(&w, &out);
    mr_pb_put_varint(&w, MODEL_VERSION, SCHEMA);
    for (int i = 0; i < n; i++)
        mr_pb_put_bytes(&w, MODEL_META_GRAPHS, meta_graphs[i]);
    MR_GO(mr_pb_writer_status(&w, "SavedModel"));
    MR_GO(mr_dir_make(dir));
    MR_GO(mr_file_write_all(path, mr_str_view(&out)));
out:
    mr_free(path);
    mr_str_deinit(&out);
    return st;
}
