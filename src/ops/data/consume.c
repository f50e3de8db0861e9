/* ops/data/consume.c -- ops that read a whole dataset at once: DatasetToSingleElement, DatasetToTFRecord,
 * InitializeTableFromDataset. */
#include "base/memory.h"
#include "ops/data/iterator_resource.h"
#include "ops/table/table.h"
#include "store/record.h"

#define TYPES "output_types=[int64] output_shapes=[[]]"

/* ---- one element ---- */

static mr_status *only_element(mr_run *r, mr_iterator *it, mr_tensor **t, mr_tensor **more)
{
    bool end = false;
    MR_TRY(mr_iterator_next(it, t, &end));
    if (end)
        return mr_invalid("Dataset was empty.");
    MR_TRY(mr_iterator_next(it, more, &end));
    if (!end)
        return mr_invalid("Dataset had more than one element.");
    return mr_give_element(r, it->dataset, t);
}

static mr_status *get_single_element(mr_run *r, mr_data_env *env)
{
    mr_dataset *d;
    mr_iterator *it = NULL;
    MR_TRY(mr_dataset_of(mr_in(r, 0), &d));
    MR_TRY(mr_iterator_open(d, env, NULL, &it));
    mr_tensor **t = mr_element_new(d->n), **more = mr_element_new(d->n);
    mr_status *st = only_element(r, it, t, more);
    mr_element_drop(t, d->n);
    mr_element_drop(more, d->n);
    mr_free(t);
    mr_free(more);
    mr_iterator_close(it);
    return st;
}

static void to_single_element(mr_run *r) { mr_data_job_start(r, get_single_element); }

static mr_status *elements_shape(mr_infer *c)
{
    const mr_attr *shapes;
    MR_TRY(mr_node_get_list(c->node, "output_shapes", MR_ATTR_SHAPE, &shapes));
    if (shapes->n != c->n_out)
        return mr_invalid("`output_shapes` must be the same length as `output_types` (%d vs. %d)", shapes->n, c->n_out);
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = shapes->shapes[i];
    return NULL;
}

#define R(n) "r = RangeDataset " TYPES ": 3, " n ", 1; "
#define ALL "output_types=[int64] output_shapes=[?]"
#define BATCH "b = BatchDataset " ALL ": d, 20; " ALL ": b -> "
MR_OP(DatasetToSingleElement,
    .doc     = "the one element of a dataset that has just one",
    .sig     = "dataset: variant -> components: output_types",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = elements_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(to_single_element)),
    .examples = MR_EXAMPLES(
        R("4") TYPES ": r -> 3", R("3") TYPES ": r -> !INVALID_ARGUMENT Dataset was empty.",
        R("5") TYPES ": r -> !INVALID_ARGUMENT Dataset had more than one element.",
        "d = RangeDataset " TYPES ": 10, 0, -3; " BATCH "[10, 7, 4, 1]",
        R("9") "d = TakeDataset " TYPES ": r, 2; " BATCH "[3, 4]", R("9") "d = SkipDataset " TYPES ": r, 4; " BATCH "[7, 8]",
        R("5") "d = RepeatDataset " TYPES ": r, 2; " BATCH "[3, 4, 3, 4]", R("9") "d = ShardDataset " TYPES ": r, 3, 1; " BATCH "[4, 7]",
        R("5") "d = ConcatenateDataset " TYPES ": r, r; " BATCH "[3, 4, 3, 4]",
        R("9") "d = PrefetchDataset " TYPES ": r, 2; " BATCH "[3, 4, 5, 6, 7, 8]",
        R("9") "d = CacheDataset " TYPES ": r, \"\"; " BATCH "[3, 4, 5, 6, 7, 8]",
        R("5") "c = RepeatDataset " TYPES ": r, 3; d = UniqueDataset " TYPES ": c; " BATCH "[3, 4]",
        R("9") "d = SlidingWindowDataset " ALL ": r, 2, 3, 2; " BATCH "[[3, 5], [6, 8]]",
        R("9") "d = AssertCardinalityDataset " TYPES ": r, 2; " BATCH "!FAILED_PRECONDITION expected to contain 2 elements but contained "
                                                             "at least 3 elements",
        "d = TensorSliceDataset output_shapes=[[]]: (string[\"a\", \"b\"]); b = BatchDataset output_types=[string] output_shapes=[?]: d, 9; "
        "output_types=[string] output_shapes=[[?]]: b -> [\"a\", \"b\"]",
        "d = TensorSliceDataset output_shapes=[[2]]: (float[[1, 2], [3, 4]]); s = SkipDataset output_types=[float] output_shapes=[?]: d, 1; "
        "output_types=[float] output_shapes=[[2]]: s -> [3, 4]",
        "d = SparseTensorSliceDataset Tvalues=float: [[0, 1], [2, 0]], [1, 2], [3, 4]; s = SkipDataset output_types=[int64, float, int64] "
        "output_shapes=[?, ?, ?]: d, 2; output_types=[int64, float, int64] output_shapes=[?, ?, ?]: s -> [[0]], [2], [4]"));

/* ---- records ---- */

static mr_status *write_all(mr_iterator *it, mr_record_writer *w)
{
    for (;;) {
        mr_tensor *t = NULL;
        bool end = false;
        MR_TRY(mr_iterator_next(it, &t, &end));
        if (end)
            return mr_record_finish(w);
        mr_status *st = t->n == 1 ? mr_record_write(w, mr_tensor_str_at(t, 0))
                                  : mr_invalid("A record must be a scalar, got one of shape %s", MR_TENSOR_SHAPE(t));
        mr_tensor_unref(t);
        MR_TRY(st);
    }
}

static mr_status *read_names(mr_run *r, mr_sv *path, mr_compression *c)
{
    if (mr_in(r, 1)->rank != 0 || mr_in(r, 2)->rank != 0)
        return mr_invalid("filename and compression_type must be scalars");
    *path = mr_tensor_str_at(mr_in(r, 1), 0);
    if (memchr(path->p, '\0', path->n))
        return mr_invalid("filename contains a NUL byte");
    if (!mr_compression_parse(mr_tensor_str_at(mr_in(r, 2), 0), c))
        return mr_invalid("Unsupported compression_type.");
    return NULL;
}

static mr_status *to_record(mr_run *r, mr_data_env *env)
{
    mr_dataset *d;
    mr_sv path = {0};
    mr_compression c;
    mr_iterator *it = NULL;
    mr_writer *file = NULL;
    mr_record_writer *w = NULL;
    mr_status *st = NULL;
    MR_TRY(mr_dataset_of(mr_in(r, 0), &d));
    MR_TRY(read_names(r, &path, &c));
    if (d->n != 1 || d->types[0] != MR_STRING)
        return mr_invalid("Dataset should have one component of type string");
    char *name = mr_strndup(path.p, path.n);
    MR_GO(mr_writer_open(name, &file));
    MR_GO(mr_record_writer_new(file, c, &w));
    MR_GO(mr_iterator_open(d, env, NULL, &it));
    MR_GO(write_all(it, w));
    MR_GO(mr_writer_commit(file));
out:
    mr_iterator_close(it);
    mr_record_writer_free(w);
    mr_writer_free(file);
    mr_free(name);
    return st;
}

static void to_tf_record(mr_run *r) { mr_data_job_start(r, to_record); }

MR_OP(DatasetToTFRecord,
    .doc     = "writes a dataset of strings to a TFRecord file",
    .sig     = "input_dataset: variant, filename: string, compression_type: string ->",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(to_tf_record)),
    .examples = MR_EXAMPLES(R("5") ": r, \"x\", \"\" -> !INVALID_ARGUMENT one component of type string",
                            R("5") ": r, \"x\", \"LZ\" -> !INVALID_ARGUMENT Unsupported compression_type."));

/* ---- tables ---- */

/* The table is locked while it is filled, and functions of the dataset may use tables. So all elements are read
 * first. */
typedef struct pairs {
    MR_VEC(mr_tensor *) all; /* key, value, key, value .. */
    int at;
} pairs;

static mr_status *next_pair(void *ctx, mr_tensor **keys, mr_tensor **values)
{
    pairs *p = ctx;
    bool more = p->at < p->all.n;
    *keys = more ? mr_tensor_ref(p->all.p[p->at]) : NULL;
    *values = more ? mr_tensor_ref(p->all.p[p->at + 1]) : NULL;
    p->at += 2;
    return NULL;
}

static mr_status *gather_pairs(mr_iterator *it, pairs *p)
{
    for (;;) {
        mr_tensor *t[2];
        bool end = false;
        MR_TRY(mr_iterator_next(it, t, &end));
        if (end)
            return NULL;
        if (p->all.n > INT32_MAX - 2) {
            mr_element_drop(t, 2);
            return mr_error(MR_RESOURCE_EXHAUSTED, "Too many entries for a table");
        }
        mr_vec_push(&p->all, t[0]);
        mr_vec_push(&p->all, t[1]);
    }
}

static mr_status *initialize_from_dataset(mr_run *r, mr_data_env *env)
{
    mr_dataset *d;
    mr_lookup *table = NULL;
    mr_iterator *it = NULL;
    pairs p = {0};
    mr_status *st = NULL;
    MR_TRY(mr_dataset_of(mr_in(r, 1), &d));
    if (d->n != 2)
        return mr_invalid("Dataset should have two components only, but has %d components", d->n);
    MR_GO(mr_lookup_of(r, &table));
    if (d->types[0] != (int)mr_lookup_key_type(table) || d->types[1] != (int)mr_lookup_value_type(table))
        MR_GO(mr_invalid("Key and value types of dataset (%s, %s) and table (%s, %s) differ", mr_dtype_name(d->types[0]),
                         mr_dtype_name(d->types[1]), mr_dtype_name(mr_lookup_key_type(table)),
                         mr_dtype_name(mr_lookup_value_type(table))));
    MR_GO(mr_iterator_open(d, env, NULL, &it));
    MR_GO(gather_pairs(it, &p));
    MR_GO(mr_lookup_initialize(table, next_pair, &p));
out:
    mr_element_drop(p.all.p, p.all.n);
    mr_vec_deinit(&p.all);
    mr_iterator_close(it);
    mr_object_unref((mr_object *)table);
    return st;
}

static void initialize_table(mr_run *r) { mr_data_job_start(r, initialize_from_dataset); }

MR_OP(InitializeTableFromDataset,
    .doc     = "initialises a table with the pairs of a dataset",
    .sig     = "table_handle: resource, dataset: variant ->",
    .flags   = MR_STATEFUL | MR_NO_GRADIENT,
    .shape   = mr_shape_none,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(initialize_table)),
    .examples = MR_EXAMPLES(
        "t = HashTableV2 key_dtype=int64 value_dtype=int64 shared_name=\"t\"; " R("5") "z = ZipDataset output_types=[int64, int64] "
        "output_shapes=[[], []]: (r, r); : t, z ->",
        "t = HashTableV2 key_dtype=int64 value_dtype=int64 shared_name=\"t\"; " R("5") ": t, r -> !INVALID_ARGUMENT two components"));
