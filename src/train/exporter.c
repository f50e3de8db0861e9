/* train/exporter.c -- writes a MetaGraphDef field by field, and the SavedModel folder around it.
 *
 * saved_model.pb is written last, so a folder that contains it is complete. */
#include "train/exporter.h"

#include "base/file.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "store/meta_graph_fields.h"
#include "store/saved_model.h"
#include "wire/pb.h"

static const char init_key[] = "__saved_model_init_op";

/* ---- the MetaGraphDef ---- */

/* TensorFlow's name of an output: "node:0". */
static void put_name(mr_pb_writer *w, uint32_t field, mr_out o)
{
    MR_ASSERT(o.node && o.index >= 0);
    char *name = mr_printf("%s:%d", o.node->name, o.index);
    mr_pb_put_bytes(w, field, mr_sv_of(name));
    mr_free(name);
}

/* A TensorInfo: name, type and static shape. */
static void put_tensor(mr_pb_writer *w, uint32_t field, mr_out o)
{
    mr_str shape = {0};
    size_t mark = mr_pb_begin(w, field);
    put_name(w, TENSOR_NAME, o);
    mr_pb_opt_varint(w, TENSOR_TYPE, (uint64_t)mr_dtype_base(mr_out_type(o)));
    mr_pshape_encode(o.node->out_shapes[o.index], &shape);
    mr_pb_put_bytes(w, TENSOR_SHAPE, mr_str_view(&shape));
    mr_pb_end(w, mark);
    mr_str_deinit(&shape);
}

/* One map entry per tensor: its key in the signature, and its TensorInfo. */
static void put_tensors(mr_pb_writer *w, uint32_t field, const mr_export_tensor *t, int n)
{
    for (int i = 0; i < n; i++) {
        size_t entry = mr_pb_begin(w, field);
        mr_pb_put_bytes(w, ENTRY_KEY, mr_sv_of(t[i].name));
        put_tensor(w, ENTRY_VALUE, t[i].tensor);
        mr_pb_end(w, entry);
    }
}

static void put_signature(mr_pb_writer *w, const mr_export_signature *s)
{
    size_t entry = mr_pb_begin(w, META_SIGNATURE);
    mr_pb_put_bytes(w, ENTRY_KEY, mr_sv_of(s->key));
    size_t value = mr_pb_begin(w, ENTRY_VALUE);
    put_tensors(w, SIGNATURE_INPUTS, s->inputs, s->n_inputs);
    put_tensors(w, SIGNATURE_OUTPUTS, s->outputs, s->n_outputs);
    mr_pb_opt_bytes(w, SIGNATURE_METHOD, mr_sv_of(s->method));
    mr_pb_end(w, value);
    mr_pb_end(w, entry);
}

/* The init op has no output, so the signature holds the name of the node itself. */
static void put_init(mr_pb_writer *w, const mr_node *init)
{
    size_t entry = mr_pb_begin(w, META_SIGNATURE);
    mr_pb_put_bytes(w, ENTRY_KEY, mr_sv_of(init_key));
    size_t value = mr_pb_begin(w, ENTRY_VALUE);
    size_t output = mr_pb_begin(w, SIGNATURE_OUTPUTS);
    mr_pb_put_bytes(w, ENTRY_KEY, mr_sv_of(init_key));
    size_t tensor = mr_pb_begin(w, ENTRY_VALUE);
    mr_pb_put_bytes(w, TENSOR_NAME, mr_sv_of(init->name));
    mr_pb_end(w, tensor);
    mr_pb_end(w, output);
    mr_pb_end(w, value);
    mr_pb_end(w, entry);
}

/* MetaInfoDef: the tags by which a loader chooses this graph, and the version whose ops it uses. */
static void put_info(mr_pb_writer *w, const mr_export *e)
{
    size_t mark = mr_pb_begin(w, META_INFO);
    for (int i = 0; i < e->n_tags; i++)
        mr_pb_put_bytes(w, INFO_TAGS, mr_sv_of(e->tags[i]));
    mr_pb_put_bytes(w, INFO_TENSORFLOW_VERSION, MR_SV(MR_TF_VERSION));
    mr_pb_end(w, mark);
}

/* A SaverDef, by which TensorFlow's loader finds the restore op. KEEP is TensorFlow's default of max_to_keep. */
static void put_saver(mr_pb_writer *w, const mr_nn_saver *s)
{
    enum { V2 = 2, KEEP = 5 };
    MR_ASSERT(s->save && s->restore);
    size_t mark = mr_pb_begin(w, META_SAVER);
    put_name(w, SAVER_FILE, s->file);
    put_name(w, SAVER_SAVE, (mr_out){s->save, 0});
    mr_pb_put_bytes(w, SAVER_RESTORE, mr_sv_of(s->restore->name));
    mr_pb_put_varint(w, SAVER_KEEP, (uint64_t)(s->max_to_keep ? s->max_to_keep : KEEP));
    mr_pb_put_varint(w, SAVER_VERSION, V2);
    mr_pb_end(w, mark);
}

/* An AssetFileDef: which tensor the loader feeds with the path of which file. */
static void put_asset(mr_pb_writer *w, const mr_export_asset *a)
{
    mr_sv file = mr_path_basename(a->file);
    size_t mark = mr_pb_begin(w, META_ASSET), tensor = mr_pb_begin(w, ASSET_TENSOR);
    put_name(w, TENSOR_NAME, a->path);
    mr_pb_end(w, tensor);
    mr_pb_put_bytes(w, ASSET_FILE, file);
    mr_pb_end(w, mark);
}

/* Appends the MetaGraphDef to out. A saver without nodes is refused: the network had an error when it was made. */
mr_status *mr_meta_graph_write(const mr_graph *g, const mr_nn_saver *saver, const mr_export *e, mr_str *out)
{
    mr_pb_writer w;
    mr_str graph = {0};
    if (saver && (!saver->save || !saver->restore))
        return mr_error(MR_FAILED_PRECONDITION, "the saver was not built: see the model's status");
    mr_status *st = mr_graph_export(g, &graph);
    if (!st) {
        mr_pb_writer_init(&w, out);
        put_info(&w, e);
        mr_pb_put_bytes(&w, META_GRAPH, mr_str_view(&graph));
        if (saver)
            put_saver(&w, saver);
        for (int i = 0; i < e->n_signatures; i++)
            put_signature(&w, &e->signatures[i]);
        if (e->init)
            put_init(&w, e->init);
        for (int i = 0; i < e->n_assets; i++)
            put_asset(&w, &e->assets[i]);
        st = mr_pb_writer_status(&w, "MetaGraphDef");
    }
    mr_str_deinit(&graph);
    return st;
}

/* ---- the folder ---- */

static mr_status *copy_file(const char *from, const char *to)
{
    mr_str bytes = {0};
    mr_status *st = mr_file_read_all(from, &bytes);
    if (!st)
        st = mr_file_write_all(to, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
    return st;
}

/* Copies the asset files into DIR/assets, which exists only if there are any. */
static mr_status *copy_assets(const char *dir, const mr_export *e)
{
    char *folder = mr_printf("%s/assets", dir);
    mr_status *st = e->n_assets ? mr_dir_make(folder) : NULL;
    for (int i = 0; i < e->n_assets && !st; i++) {
        mr_sv name = mr_path_basename(e->assets[i].file);
        char *to = mr_printf("%s/%.*s", folder, MR_SV_ARG(name));
        st = copy_file(e->assets[i].file, to);
        mr_free(to);
    }
    mr_free(folder);
    return st;
}

/* The checkpoint is DIR/variables/variables, where loaders expect it. */
static mr_status *save_variables(const char *dir, mr_nn_saver *saver, mr_session *session)
{
    char *folder = mr_printf("%s/variables", dir), *prefix = mr_printf("%s/variables", folder);
    mr_status *st = mr_dir_make(folder);
    if (!st)
        st = mr_nn_save_at(saver, session, prefix);
    mr_free(folder);
    mr_free(prefix);
    return st;
}

/* An error leaves a folder without saved_model.pb, which loaders do not take for a model; the export can be
 * repeated. */
mr_status *mr_export_saved_model(mr_sv meta_graph, mr_nn_saver *saver, mr_session *session, const char *dir, const mr_export *e)
{
    if (mr_saved_model_exists(dir))
        return mr_error(MR_ALREADY_EXISTS, "%s has a SavedModel already: export to another folder, or remove it", dir);
    MR_TRY(mr_dir_make(dir));
    if (saver)
        MR_TRY(save_variables(dir, saver, session));
    MR_TRY(copy_assets(dir, e));
    return mr_saved_model_write(dir, &meta_graph, 1);
}
