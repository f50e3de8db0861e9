/* ops/sparse/tensors_map.c -- AddSparseToTensorsMap, AddManySparseToTensorsMap,
 * TakeManySparseFromTensorsMap: keep sparse tensors in a resource under numbers, so that queues can
 * carry the numbers. */
#include "base/map.h"
#include "base/memory.h"
#include "ops/maths.h"
#include "ops/sparse/parts.h"
#include "run/scratch.h"

typedef struct tensors_map {
    mr_object base;
    mr_mutex mu;
    mr_imap parts MR_GUARDED_BY(mu); /* mr_sparse_part *, owned */
    int64_t next MR_GUARDED_BY(mu);
} tensors_map;

static void part_free(mr_sparse_part *p)
{
    if (p)
        mr_sparse_part_deinit(p);
    mr_free(p);
}

static void map_free(mr_object *o)
{
    tensors_map *m = (tensors_map *)o;
    uint32_t pos = 0;
    uint64_t key;
    void *value;
    while (mr_imap_next(&m->parts, &pos, &key, &value))
        part_free(value);
    mr_imap_deinit(&m->parts);
    mr_mutex_deinit(&m->mu);
    mr_free(m);
}

static const mr_object_type map_type = {.name = "tensorflow::SparseTensorsMap", .free = map_free};

static mr_status *make_map(void *ctx, mr_object **out)
{
    (void)ctx;
    tensors_map *m = mr_new(tensors_map);
    mr_object_init(&m->base, &map_type);
    mr_mutex_init(&m->mu);
    *out = &m->base;
    return NULL;
}

/* The name of the map: from the attrs, or the node's name. */
typedef struct place {
    char *container, *name;
} place;

static mr_status *place_init(mr_make *m, void *p)
{
    place *s = p;
    mr_sv container, name;
    MR_TRY(mr_node_get_str(m->node, "container", &container));
    MR_TRY(mr_node_get_str(m->node, "shared_name", &name));
    MR_TRY(mr_resource_check_names(container, name));
    s->container = mr_strndup(container.p, container.n);
    s->name = name.n ? mr_strndup(name.p, name.n) : mr_strdup(m->node->name);
    return NULL;
}

static void place_deinit(void *p)
{
    place *s = p;
    mr_free(s->container);
    mr_free(s->name);
}

static mr_status *open_map(mr_run *r, bool may_make, tensors_map **out)
{
    const place *s = r->state;
    mr_resources *all = r->step->device->resources;
    mr_object *o = NULL;
    mr_sv container = mr_sv_of(s->container), name = mr_sv_of(s->name);
    MR_TRY(may_make ? mr_resources_find_or_make(all, container, name, &map_type, make_map, NULL, &o)
                    : mr_resources_lookup(all, container, name, &map_type, &o));
    *out = (tensors_map *)o;
    return NULL;
}

/* ---- adding ---- */

static int64_t put_part(tensors_map *m, const mr_sparse_part *p)
{
    mr_sparse_part *kept = mr_new(mr_sparse_part);
    *kept = *p;
    mr_lock(&m->mu);
    int64_t handle = m->next++;
    mr_imap_put(&m->parts, (uint64_t)handle, kept);
    mr_unlock(&m->mu);
    return handle;
}

static mr_status *add_one(mr_run *r)
{
    mr_sparse s;
    mr_tensor *out;
    tensors_map *m;
    MR_TRY(mr_sparse_read(r, 0, "", &s));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(open_map(r, true, &m));
    mr_sparse_part p = {mr_tensor_ref(s.indices), mr_tensor_ref(s.values), mr_tensor_ref(s.shape)};
    *MR_DATA(int64_t, out) = put_part(m, &p);
    mr_object_unref(&m->base);
    return NULL;
}

typedef struct adding {
    tensors_map *m;
    mr_tensor *handles;
} adding;

static mr_status *add_row(void *ctx, int64_t i, mr_sparse_part *p)
{
    adding *a = ctx;
    MR_DATA(int64_t, a->handles)[i] = put_part(a->m, p);
    return NULL;
}

static mr_status *add_many(mr_run *r)
{
    mr_sparse s;
    adding a;
    MR_TRY(mr_sparse_read(r, 0, "", &s));
    if (s.rank < 2)
        return mr_invalid("Rank of input SparseTensor should be > 1, but saw rank: %lld",
                          (long long)s.rank);
    MR_TRY(mr_run_output(r, 0, 1, s.dims, &a.handles));
    MR_TRY(open_map(r, true, &a.m));
    mr_status *st = mr_sparse_cut(r, &s, add_row, &a);
    mr_object_unref(&a.m->base);
    return st;
}

static mr_status *add_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

static mr_status *add_many_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    mr_infer_out_vector(c, 0, -1);
    return NULL;
}

#define MAP_ATTRS "container: string = ''; shared_name: string = ''"
#define MAP_OP .flags = MR_STATEFUL | MR_NO_GRADIENT, .state_bytes = sizeof(place), .init = place_init, .deinit = place_deinit

MR_OP(AddSparseToTensorsMap,
    .doc      = "keeps a sparse tensor and returns its number",
    .sig      = "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> sparse_handle: int64",
    .attrs    = "T: type; " MAP_ATTRS, MAP_OP,
    .shape    = add_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(add_one)),
    .examples = MR_EXAMPLES("[[0, 1]], [1], [2, 2] -> 0", "[[0]], [\"a\"], [2] -> 0", "[[0]], [1], [2, 2] -> !INVALID_ARGUMENT must be equal"));
MR_OP(AddManySparseToTensorsMap,
    .doc      = "keeps the rows of a sparse tensor and returns their numbers",
    .sig      = "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> sparse_handles: int64",
    .attrs    = "T: type; " MAP_ATTRS, MAP_OP,
    .shape    = add_many_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(add_many)),
    .examples = MR_EXAMPLES("[[0, 1], [2, 0]], [1, 2], [3, 2] -> [0, 1, 2]", "[[0, 0]], [\"a\"], [1, 1] -> [0]",
                            "[[0]], [1], [2] -> !INVALID_ARGUMENT Rank of input SparseTensor should be > 1"));

/* ---- taking ---- */

static mr_status *take_parts(tensors_map *m, const mr_tensor *handles, mr_dtype type, mr_sparse_part *out)
{
    for (int64_t i = 0; i < handles->n; i++) {
        int64_t handle = MR_DATA(const int64_t, handles)[i];
        mr_lock(&m->mu);
        mr_sparse_part *p = mr_imap_remove(&m->parts, (uint64_t)handle);
        mr_unlock(&m->mu);
        if (!p)
            return mr_invalid(
                "Unable to find SparseTensor: %lld in map: it was taken before, or never added",
                (long long)handle);
        out[i] = *p;
        mr_free(p);
        MR_TRY(mr_sparse_part_check(&out[i], type, i));
        if (out[i].shape->n != out[0].shape->n) /* the error counts the batch dimension in the ranks */
            return mr_invalid("Inconsistent rank across SparseTensors: rank prior to SparseTensor[%lld] was: %lld but rank of "
                              "SparseTensor[%lld] is: %lld",
                              (long long)i, (long long)out[0].shape->n + 1, (long long)i, (long long)out[i].shape->n + 1);
    }
    return NULL;
}

static mr_status *take_many(mr_run *r)
{
    const mr_tensor *handles = mr_in(r, 0);
    tensors_map *m;
    if (handles->rank != 1)
        return mr_invalid("sparse_handles should be a vector but received shape %s",
                          MR_TENSOR_SHAPE(handles));
    if (handles->n == 0)
        return mr_invalid(
            "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows");
    MR_TRY(open_map(r, false, &m));
    mr_sparse_part *parts = mr_scratch_zeroed(r, (size_t)handles->n, sizeof *parts);
    mr_status *st = parts ? take_parts(m, handles, mr_out_dtype(r, 1), parts)
                          : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld sparse tensors",
                                     (long long)handles->n);
    if (!st)
        st = mr_sparse_stack(r, parts, handles->n, 1, handles->dims);
    for (int64_t i = 0; parts && i < handles->n; i++)
        mr_sparse_part_deinit(&parts[i]);
    mr_scratch_free(parts);
    mr_object_unref(&m->base);
    return st;
}

static mr_status *take_shape(mr_infer *c)
{
    const mr_pshape *handles;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &handles));
    mr_infer_out_sparse(c, 0, -1, -1, true);
    return NULL;
}

MR_OP(TakeManySparseFromTensorsMap,
    .doc      = "takes kept sparse tensors out as the rows of one",
    .sig      = "sparse_handles: int64 -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64",
    .attrs    = "dtype: type; " MAP_ATTRS, MAP_OP,
    .shape    = take_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(take_many)),
    .examples = MR_EXAMPLES(
        "h = AddManySparseToTensorsMap T=$T shared_name=\"m\": [[0, 1], [2, 0]], [1, 2], [3, 3]; shared_name=\"m\": h -> "
        "[[0, 1], [2, 0]], [1, 2], [3, 3]",
        "h = AddManySparseToTensorsMap T=string shared_name=\"m\": [[0, 1]], string[\"a\"], [1, 2]; dtype=string shared_name=\"m\": "
        "h -> [[0, 1]], [\"a\"], [1, 2]",
        "h = AddManySparseToTensorsMap T=bool shared_name=\"m\": [[0, 1]], bool[true], [1, 2]; dtype=bool shared_name=\"m\": "
        "h -> [[0, 1]], [true], [1, 2]",
        "h = AddManySparseToTensorsMap T=bool shared_name=\"m\": [[0, 1]], bool[true], [1, 2]; dtype=bool shared_name=\"m\": "
        "[7] -> !INVALID_ARGUMENT Unable to find SparseTensor: 7 in map",
        "dtype=float shared_name=\"none\": [0] -> !NOT_FOUND does not exist"));
