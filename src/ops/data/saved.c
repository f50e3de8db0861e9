/* ops/data/saved.c -- datasets stored in files: SaveDataset, SaveDatasetV2, LoadDataset.
 *
 * Saving is a dataset that passes on the elements of its input and writes each one (saved_files.h), to the shard
 * that a function of the element selects; SaveDataset is an op that iterates over such a dataset. If it is closed
 * before its end, it leaves nothing.
 *
 * Loading passes a function a dataset of datasets, one per shard, and gives the elements of the dataset that the
 * function returns. */
#include "base/memory.h"
#include "ops/data/dataset.h"
#include "ops/data/saved_files.h"

typedef struct state {
    mr_dataset_state base;
    mr_compression compression;
} state;

static mr_status *init_saved(mr_make *m, void *p)
{
    state *s = p;
    mr_sv name;
    MR_TRY(mr_dataset_init(m, p));
    MR_TRY(mr_node_get_str(m->node, "compression", &name));
    if (!mr_compression_parse(name, &s->compression))
        return mr_invalid("%s '%s': unsupported compression '%.*s'", m->node->def->name, m->node->name, MR_SV_ARG(name));
    if (s->base.n_funcs != 1)
        return mr_invalid("%s '%s' has no function", m->node->def->name, m->node->name);
    return NULL;
}

typedef struct saved { /* a dataset in files */
    mr_dataset base;
    const char *path;
    mr_compression compression;
    mr_data_fn fn;
    bool by_shard;   /* when saving: fn selects the shard of an element */
    const char *run; /* when loading: the run to read */
    int64_t n;       /* when loading: the cardinality */
} saved;

static mr_status *read_path(mr_run *r, int i, mr_sv *out)
{
    if (mr_in(r, i)->rank != 0)
        return mr_invalid("path must be a scalar");
    *out = mr_tensor_str_at(mr_in(r, i), 0);
    if (out->n == 0 || memchr(out->p, '\0', out->n))
        return mr_invalid("path must not be empty or contain a NUL byte");
    return NULL;
}

/* Over n_inputs datasets; the next input is the path, and the function captures the rest. */
static mr_status *new_saved(mr_run *r, const mr_dataset_kind *k, int n_inputs, saved **out)
{
    const state *s = r->state;
    mr_sv path = {0};
    MR_TRY(read_path(r, n_inputs, &path));
    MR_TRY(mr_dataset_new(r, k, 0, n_inputs, out));
    saved *d = *out;
    d->path = mr_arena_strndup(&d->base.arena, path.p, path.n);
    d->compression = s->compression;
    d->by_shard = s->base.flag;
    mr_data_fn_init(&d->fn, &d->base, r, 0, n_inputs + 1, r->n_in - n_inputs - 1);
    return NULL;
}

/* ---- saving ---- */

typedef struct saving {
    mr_iterator base;
    mr_saved_writer *w;
    bool ended; /* at the end, or closed early */
} saving;

static mr_status *save_element(saving *p, const saved *d, mr_tensor *const *element)
{
    int64_t shard = 0;
    if (d->by_shard)
        MR_TRY(mr_data_call_int(&d->fn, &p->base, element, d->base.n, &shard));
    return mr_saved_add(p->w, shard, element);
}

static void give_up(saving *p)
{
    mr_saved_writer_free(p->w);
    p->w = NULL;
    p->ended = true;
}

/* An error of the input is passed on, and the next element can follow; an error of saving ends it, as in TensorFlow. */
static mr_status *save_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const saved *d = (saved *)it->dataset;
    saving *p = (saving *)it;
    if ((*end = p->ended))
        return NULL;
    mr_status *st = p->w ? NULL : mr_saved_writer_new(d->path, d->compression, d->base.n, d->base.types, &p->w);
    if (!st) {
        MR_TRY(mr_iterator_next(it->input, out, end));
        st = *end ? mr_saved_finish(p->w) : save_element(p, d, out);
    }
    if (st || *end)
        give_up(p);
    return st;
}

static void save_close(mr_iterator *it) { mr_saved_writer_free(((saving *)it)->w); }

static const mr_dataset_kind save_kind = {"SaveV2", sizeof(saved), sizeof(saving), NULL, save_next, save_close,
                                          mr_dataset_cardinality_of_input};

static mr_status *save_dataset_v2(mr_run *r)
{
    saved *d;
    MR_TRY(new_saved(r, &save_kind, 1, &d));
    return mr_dataset_give(r, d, NULL);
}

static mr_status *go_over(saved *d, mr_data_env *env)
{
    mr_iterator *it = NULL;
    mr_tensor **t = mr_element_new(d->base.n);
    bool end = false;
    mr_status *st = mr_iterator_open(&d->base, env, NULL, &it);
    while (!st && !end) {
        st = mr_iterator_next(it, t, &end);
        mr_element_drop(t, d->base.n);
    }
    mr_iterator_close(it);
    mr_free(t);
    return st;
}

static mr_status *save_elements(mr_run *r, mr_data_env *env)
{
    saved *d;
    MR_TRY(new_saved(r, &save_kind, 1, &d));
    mr_status *st = go_over(d, env);
    mr_object_unref(&d->base.base);
    return st;
}

static void save_dataset(mr_run *r) { mr_data_job_start(r, save_elements); }

#define SAVED .state_bytes = sizeof(state), .init = init_saved, .deinit = mr_dataset_deinit
MR_OP(SaveDataset,
    .doc     = "writes the elements of a dataset to files",
    .sig     = "input_dataset: variant, path: string, shard_func_other_args: Tshard_func_args ->",
    .attrs   = "compression: string = ''; shard_func: func; use_shard_func: bool = true; Tshard_func_args: list(type) >= 0",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_dataset_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(save_dataset)), SAVED);

MR_OP(SaveDatasetV2,
    .doc     = "the same elements, written to files on the way",
    .sig     = "input_dataset: variant, path: string, shard_func_other_args: Tshard_func_args -> handle: variant",
    .attrs   = "compression: string = ''; shard_func: func; use_shard_func: bool = true; Tshard_func_args: list(type) >= 0; " MR_DATASET_TYPES,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_dataset_shape,
    .kernels = MR_KERNELS(MR_CPU_ANY(save_dataset_v2)), SAVED);

/* ---- loading: a shard ---- */

typedef struct shard_set {
    mr_dataset base;
    char *dir;
    mr_compression compression;
} shard_set;

typedef struct reading {
    mr_iterator base;
    mr_saved_reader *r;
} reading;

static mr_status *shard_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const shard_set *d = (shard_set *)it->dataset;
    reading *p = (reading *)it;
    if (!p->r)
        p->r = mr_saved_reader_new(d->dir, d->compression, d->base.n);
    return mr_saved_read(p->r, out, end);
}

static void shard_close(mr_iterator *it) { mr_saved_reader_free(((reading *)it)->r); }
static void shard_free(mr_dataset *d) { mr_free(((shard_set *)d)->dir); }

static const mr_dataset_kind shard_kind = {"SnapshotDatasetReader", sizeof(shard_set), sizeof(reading), .next = shard_next,
                                           .close = shard_close, .free = shard_free};

/* ---- loading: all shards ---- */

typedef struct shards { /* its elements are datasets */
    mr_dataset base;
    MR_VEC(mr_dataset *) all; /* referenced */
} shards;

typedef struct listing {
    mr_iterator base;
    int at;
} listing;

static mr_status *shards_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const shards *d = (shards *)it->dataset;
    listing *p = (listing *)it;
    if ((*end = p->at >= d->all.n))
        return NULL;
    return mr_dataset_tensor(d->all.p[p->at++], &out[0]);
}

static int64_t shards_count(const mr_dataset *d) { return ((const shards *)d)->all.n; }

static void shards_free(mr_dataset *o)
{
    shards *d = (shards *)o;
    for (int i = 0; i < d->all.n; i++)
        mr_object_unref(&d->all.p[i]->base);
    mr_vec_deinit(&d->all);
}

static const mr_dataset_kind shards_kind = {"SnapshotNestedDatasetReader", sizeof(shards), sizeof(listing), .next = shards_next,
                                            .cardinality = shards_count, .free = shards_free};

static void add_shard(shards *all, const saved *d, char *dir)
{
    shard_set *s = (shard_set *)mr_dataset_make(&shard_kind, d->base.n, d->base.types, d->base.shapes);
    s->dir = dir; /* takes ownership */
    s->compression = d->compression;
    mr_vec_push(&all->all, &s->base);
}

static mr_status *list_shards(const saved *d, mr_tensor **out)
{
    mr_saved_names names = {0};
    const mr_pshape *scalar = &mr_pshape_scalar;
    shards *all = (shards *)mr_dataset_make(&shards_kind, 1, (int[]){MR_VARIANT}, &scalar);
    mr_status *st = mr_saved_shards(d->path, d->run, &names);
    for (int i = 0; i < names.n; i++)
        add_shard(all, d, names.p[i]);
    if (!st)
        st = mr_dataset_tensor(&all->base, out);
    mr_object_unref(&all->base.base);
    mr_vec_deinit(&names);
    return st;
}

/* ---- loading ---- */

typedef struct loading {
    mr_iterator base;
    mr_iterator *made; /* over the dataset that the function returned */
} loading;

static mr_status *load_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const saved *d = (saved *)it->dataset;
    loading *p = (loading *)it;
    if (!p->made) {
        mr_tensor *t = NULL;
        MR_TRY(list_shards(d, &t));
        mr_status *st = mr_data_call_dataset(&d->fn, it, &t, 1, &p->made);
        mr_tensor_unref(t);
        MR_TRY(st);
    }
    return mr_iterator_next(p->made, out, end);
}

static void load_close(mr_iterator *it) { mr_iterator_close(((loading *)it)->made); }
static int64_t load_count(const mr_dataset *d) { return ((const saved *)d)->n; }

static const mr_dataset_kind load_kind = {"Load", sizeof(saved), sizeof(loading), NULL, load_next, load_close, load_count};

static mr_status *take_meta(saved *d)
{
    mr_saved_meta m;
    MR_TRY(mr_saved_meta_read(d->path, &m));
    d->run = mr_arena_strndup(&d->base.arena, m.run, strlen(m.run));
    d->n = m.finished ? m.n_elements : MR_CARDINALITY_UNKNOWN;
    mr_free(m.run);
    if (m.version != MR_SAVED_VERSION)
        return mr_invalid("Snapshot reader version: %lld is not supported.", (long long)m.version);
    return NULL;
}

static mr_status *load_dataset(mr_run *r)
{
    saved *d;
    MR_TRY(new_saved(r, &load_kind, 0, &d));
    mr_dataset_say_types(&d->base, r->state);
    return mr_dataset_give(r, d, take_meta(d));
}

MR_OP(LoadDataset,
    .doc     = "the elements of a saved dataset, its shards put together by reader_func",
    .sig     = "path: string, reader_func_other_args: Treader_func_args -> handle: variant",
    .attrs   = MR_DATASET_TYPES "; compression: string = ''; reader_func: func; Treader_func_args: list(type) >= 0",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_dataset_shape,
    .kernels = MR_KERNELS(MR_CPU_ANY(load_dataset)), SAVED);
