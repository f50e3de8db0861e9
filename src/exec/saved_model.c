/* exec/saved_model.c -- the steps from an imported MetaGraph to a session that can answer.
 *
 * The order is TensorFlow's: find the assets, restore the variables, run the init op. Each is one run. A name
 * in the file that is not in the graph is an error that names it.
 *
 * `paths` collects the feeds of every run: the path of each asset. It owns its tensors, and its two lists are
 * always of equal length. */
#include "exec/saved_model.h"

#include "base/file.h"
#include "base/memory.h"
#include "proto/saved_model.pb-c.h"
#include "wire/message.h"

/* What every run of the loader is fed: paths. */
typedef struct paths {
    MR_VEC(mr_out) feeds;
    MR_VEC(mr_tensor *) values;
} paths;

/* Frees the texts; the nodes belong to the graph. */
static void paths_deinit(paths *p)
{
    for (int i = 0; i < p->values.n; i++)
        mr_tensor_unref(p->values.p[i]);
    mr_vec_deinit(&p->feeds);
    mr_vec_deinit(&p->values);
}

/* ---- names ---- */

/* Finds the tensor "node:0"; `what` says in the error what the name was for. */
static mr_status *find_tensor(const mr_graph *g, const char *name, const char *what, mr_out *out)
{
    mr_tensor_name t;
    if (!mr_tensor_name_parse(mr_sv_of(name), &t) || t.index < 0)
        return mr_invalid("SavedModel: %s '%s' is not the name of a tensor", what, name);
    mr_node *n = mr_graph_find(g, t.node);
    if (!n || t.index >= n->n_out)
        return mr_invalid("SavedModel: %s '%s' is not in the graph", what, name);
    *out = (mr_out){n, t.index};
    return NULL;
}

/* Accepts the name of an op, or of one of its outputs. */
static mr_status *find_node(const mr_graph *g, const char *name, const char *what, mr_node **out)
{
    mr_tensor_name t;
    *out = mr_tensor_name_parse(mr_sv_of(name), &t) ? mr_graph_find(g, t.node) : NULL;
    return *out ? NULL : mr_invalid("SavedModel: %s '%s' is not in the graph", what, name);
}

/* The value is listed before its text is set, so paths_deinit frees it also on failure. */
static mr_status *add_path(paths *p, mr_out to, const char *path)
{
    mr_tensor *t;
    MR_TRY(mr_tensor_new(NULL, MR_STRING, 0, NULL, &t));
    mr_vec_push(&p->values, t);
    mr_vec_push(&p->feeds, to);
    return mr_tensor_set_str(t, 0, mr_sv_of(path));
}

/* Runs one target with the paths fed. */
static mr_status *run_target(mr_session *s, const paths *p, mr_node *target, const mr_run_options *o)
{
    MR_ASSERT(p->feeds.n == p->values.n);
    mr_run_args a = {.feeds = p->feeds.p, .n_feeds = p->feeds.n, .feed_values = p->values.p, .targets = &target, .n_targets = 1};
    return mr_session_run(s, &a, o, NULL);
}

/* ---- assets ---- */

/* Feeds the path of one asset file to its tensor. */
static mr_status *add_asset(const mr_graph *g, mr_sv def, const char *dir, paths *p)
{
    Tensorflow__AssetFileDef *a;
    mr_out to;
    MR_TRY(mr_message_unpack(&tensorflow__asset_file_def__descriptor, def, "AssetFileDef", (ProtobufCMessage **)&a));
    bool named = a->tensor_info && a->tensor_info->encoding_case == TENSORFLOW__TENSOR_INFO__ENCODING_NAME;
    mr_status *st = find_tensor(g, named ? a->tensor_info->name : "", "the tensor of an asset", &to);
    if (!st) {
        char *path = mr_printf("%s/assets/%s", dir, a->filename);
        st = add_path(p, to, path);
        mr_free(path);
    }
    mr_message_free(&a->base);
    return st;
}

/* Older models keep the assets in a collection, each packed into an Any. */
static mr_status *add_old_assets(const mr_graph *g, mr_sv collection, const char *dir, paths *p)
{
    Tensorflow__CollectionDef *c;
    mr_status *st = NULL;
    MR_TRY(mr_message_unpack(&tensorflow__collection_def__descriptor, collection, "CollectionDef", (ProtobufCMessage **)&c));
    bool any = c->kind_case == TENSORFLOW__COLLECTION_DEF__KIND_ANY_LIST;
    for (size_t i = 0; any && !st && i < c->any_list->n_value; i++) {
        const ProtobufCBinaryData *v = &c->any_list->value[i]->value;
        st = add_asset(g, (mr_sv){(const char *)v->data, v->len}, dir, p);
    }
    mr_message_free(&c->base);
    return st;
}

/* TF2 lists the assets in the MetaGraph itself; only models without that list are searched for the old collection. */
static mr_status *find_assets(const mr_graph *g, const mr_meta_graph *m, const char *dir, paths *p)
{
    mr_sv old;
    for (int i = 0; i < m->assets.n; i++)
        MR_TRY(add_asset(g, m->assets.p[i], dir, p));
    if (m->assets.n == 0 && mr_meta_graph_collection(m, "saved_model_assets", &old))
        return add_old_assets(g, old, dir, p);
    return NULL;
}

/* ---- variables ---- */

/* Runs the restore op of the saver, with the path of the variables fed in addition for this run only. */
static mr_status *restore_by(mr_session *s, const mr_graph *g, const Tensorflow__SaverDef *saver, const char *prefix, paths *p,
                             const mr_run_options *o)
{
    mr_node *target;
    mr_out file;
    MR_TRY(find_node(g, saver->restore_op_name, "the restore op", &target));
    MR_TRY(find_tensor(g, saver->filename_tensor_name, "the tensor of the file name", &file));
    MR_TRY(add_path(p, file, prefix));
    mr_status *st = run_target(s, p, target, o);
    MR_ASSERT(p->feeds.n > 0 && p->feeds.n == p->values.n);
    p->feeds.n--;
    mr_tensor_unref(mr_vec_pop(&p->values));
    return st;
}

/* Restores the variables. A model without variables has no such folder; that is not an error. */
static mr_status *restore_variables(mr_session *s, const mr_graph *g, const mr_meta_graph *m, const char *dir, paths *p,
                          const mr_run_options *o)
{
    char *prefix = mr_printf("%s/variables/variables", dir), *index = mr_printf("%s.index", prefix);
    mr_status *st = NULL;
    if (mr_file_exists(index)) {
        Tensorflow__SaverDef *saver;
        MR_GO(mr_message_unpack(&tensorflow__saver_def__descriptor, m->saver_def, "SaverDef", (ProtobufCMessage **)&saver));
        st = restore_by(s, g, saver, prefix, p, o);
        mr_message_free(&saver->base);
    }
out:
    mr_free(prefix);
    mr_free(index);
    return st;
}

/* ---- the init op ---- */

/* TF2 names the init op as an output of a signature. *out stays unchanged if the signature has none. */
static mr_status *init_of_signature(const mr_graph *g, mr_sv signature, mr_node **out)
{
    Tensorflow__SignatureDef *d;
    mr_status *st = NULL;
    MR_TRY(mr_message_unpack(&tensorflow__signature_def__descriptor, signature, "SignatureDef", (ProtobufCMessage **)&d));
    for (size_t i = 0; i < d->n_outputs && !st; i++)
        if (strcmp(d->outputs[i]->key, "__saved_model_init_op") == 0) {
            const Tensorflow__TensorInfo *t = d->outputs[i]->value;
            bool named = t && t->encoding_case == TENSORFLOW__TENSOR_INFO__ENCODING_NAME;
            st = find_node(g, named ? t->name : "", "the init op", out);
        }
    mr_message_free(&d->base);
    return st;
}

/* TF1 names it in a collection of exactly one node. */
static mr_status *init_of_collection(const mr_graph *g, const char *key, mr_sv collection, mr_node **out)
{
    Tensorflow__CollectionDef *c;
    mr_status *st;
    MR_TRY(mr_message_unpack(&tensorflow__collection_def__descriptor, collection, "CollectionDef", (ProtobufCMessage **)&c));
    size_t n = c->kind_case == TENSORFLOW__COLLECTION_DEF__KIND_NODE_LIST ? c->node_list->n_value : 0;
    if (n != 1)
        st = mr_error(MR_FAILED_PRECONDITION, "Expected exactly one main op in : %s", key);
    else
        st = find_node(g, c->node_list->value[0], key, out);
    mr_message_free(&c->base);
    return st;
}

/* *out is NULL if the model has no init op. */
static mr_status *find_init(const mr_graph *g, const mr_meta_graph *m, mr_node **out)
{
    static const char *const keys[] = {"saved_model_main_op", "legacy_init_op"};
    mr_sv v;
    *out = NULL;
    if (mr_meta_graph_signature(m, "__saved_model_init_op", &v))
        return init_of_signature(g, v, out);
    for (int i = 0; i < MR_COUNT(keys); i++)
        if (mr_meta_graph_collection(m, keys[i], &v))
            return init_of_collection(g, keys[i], v, out);
    return NULL;
}

/* The order matters: the restore op and the init op may read the paths of assets, and the init op may read
 * restored variables. */
mr_status *mr_saved_model_start(mr_session *s, const mr_graph *g, const mr_meta_graph *m, const char *dir,
                                const mr_run_options *o)
{
    paths p = {0};
    mr_node *init;
    mr_status *st = NULL;
    MR_GO(find_assets(g, m, dir, &p));
    MR_GO(restore_variables(s, g, m, dir, &p, o));
    MR_GO(find_init(g, m, &init));
    if (init)
        MR_GO(run_target(s, &p, init, o));
out:
    paths_deinit(&p);
    return st;
}

/* ---- signatures ---- */

typedef Tensorflow__SignatureDef__InputsEntry input_entry;
typedef Tensorflow__SignatureDef__OutputsEntry output_entry;

/* The name is copied only on success, so a failed entry owns nothing. */
static mr_status *add_tensor(const mr_graph *g, const char *name, const Tensorflow__TensorInfo *t, mr_model_tensor *out)
{
    MR_TRY(find_tensor(g, t->name, "a tensor of a signature", &out->tensor));
    out->name = mr_strdup(name);
    return NULL;
}

/* Sparse and composite tensors consist of several and are left out. */
static bool is_one_tensor(const Tensorflow__TensorInfo *t)
{
    return t && t->encoding_case == TENSORFLOW__TENSOR_INFO__ENCODING_NAME;
}

/* Finds the tensors of a signature. On failure the caller frees those found so far. */
static mr_status *resolve_signature(const mr_graph *g, const Tensorflow__SignatureDef *d, mr_model_signature *out)
{
    for (size_t i = 0; i < d->n_inputs; i++)
        if (is_one_tensor(d->inputs[i]->value)) {
            mr_model_tensor t;
            MR_TRY(add_tensor(g, d->inputs[i]->key, d->inputs[i]->value, &t));
            mr_vec_push(&out->inputs, t);
        }
    for (size_t i = 0; i < d->n_outputs; i++)
        if (is_one_tensor(d->outputs[i]->value)) {
            mr_model_tensor t;
            MR_TRY(add_tensor(g, d->outputs[i]->key, d->outputs[i]->value, &t));
            mr_vec_push(&out->outputs, t);
        }
    return NULL;
}

/* On failure *out is empty. */
mr_status *mr_model_signature_find(const mr_graph *g, const mr_meta_graph *m, const char *key, mr_model_signature *out)
{
    mr_sv bytes;
    Tensorflow__SignatureDef *d;
    *out = (mr_model_signature){0};
    if (!mr_meta_graph_signature(m, key, &bytes))
        return mr_error(MR_NOT_FOUND, "The SavedModel has no signature '%s'", key);
    MR_TRY(mr_message_unpack(&tensorflow__signature_def__descriptor, bytes, "SignatureDef", (ProtobufCMessage **)&d));
    mr_status *st = resolve_signature(g, d, out);
    mr_message_free(&d->base);
    if (st)
        mr_model_signature_deinit(out);
    return st;
}

static void free_names(mr_model_tensor *t, int n)
{
    for (int i = 0; i < n; i++)
        mr_free(t[i].name);
}

/* The tensors themselves belong to the graph. */
void mr_model_signature_deinit(mr_model_signature *s)
{
    free_names(s->inputs.p, s->inputs.n);
    free_names(s->outputs.p, s->outputs.n);
    mr_vec_deinit(&s->inputs);
    mr_vec_deinit(&s->outputs);
    *s = (mr_model_signature){0};
}
