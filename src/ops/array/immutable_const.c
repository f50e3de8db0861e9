/* ops/array/immutable_const.c -- a constant whose value is the content of a file, in the format of memory. It is read, not
 * mapped: a graph from elsewhere may name a file that somebody shortens, and touching a mapping then ends the process. */
#include "base/file.h"
#include "graph/infer.h"
#include "run/run.h"

typedef struct constant {
    mr_mutex mu;
    mr_tensor *value MR_GUARDED_BY(mu); /* read by the first run */
    bool ready;
} constant;

static mr_status *init_immutable_const(mr_make *m, void *state)
{
    constant *c = state;
    (void)m;
    mr_mutex_init(&c->mu);
    c->ready = true;
    return NULL;
}

static void deinit_immutable_const(void *state)
{
    constant *c = state;
    mr_tensor_unref(c->value);
    if (c->ready)
        mr_mutex_deinit(&c->mu);
}

static mr_status *read_value(mr_run *r, mr_tensor **out)
{
    mr_sv region;
    const mr_pshape *shape;
    mr_dtype type;
    mr_file *f = NULL;
    mr_tensor *t = NULL;
    mr_status *st = NULL;
    MR_TRY(mr_node_get_str(r->node, "memory_region_name", &region));
    MR_TRY(mr_node_get_shape(r->node, "shape", &shape));
    MR_TRY(mr_node_get_type(r->node, "dtype", &type));
    if (!mr_dtype_is_plain(type))
        return mr_error(MR_UNIMPLEMENTED, "ImmutableConst does not support type %s", mr_dtype_name(type));
    if (!mr_pshape_full(shape))
        return mr_invalid("ImmutableConst: the shape %s must be fully defined", MR_PSHAPE_TEXT(shape));
    char *path = mr_strndup(region.p, region.n);
    MR_GO(mr_file_open(path, &f));
    int64_t n;
    size_t bytes = 0;
    MR_GO(mr_shape_elements(shape->rank, shape->dims, &n)); /* checked before memory is allocated */
    if (!mr_size_mul((size_t)n, mr_dtype_size(type), &bytes) || bytes > mr_file_bytes(f))
        MR_GO(mr_invalid("ImmutableConst: %s has %llu bytes, fewer than a tensor of shape %s and type %s", path,
                         (unsigned long long)mr_file_bytes(f), MR_PSHAPE_TEXT(shape), mr_dtype_name(type)));
    MR_GO(mr_tensor_new(mr_run_allocator(r), type, shape->rank, shape->dims, &t));
    MR_GO(mr_file_read_at(f, 0, bytes, t->data));
    t->readonly = true;
    *out = t;
    t = NULL;
out:
    mr_tensor_unref(t);
    mr_file_close(f);
    mr_free(path);
    return st;
}

static mr_status *immutable_const(mr_run *r)
{
    constant *c = r->state;
    mr_status *st = NULL;
    mr_lock(&c->mu);
    if (!c->value)
        st = read_value(r, &c->value);
    mr_tensor *t = mr_tensor_ref(c->value);
    mr_unlock(&c->mu);
    if (!st)
        mr_run_set(r, 0, t);
    return st;
}

MR_OP(ImmutableConst,
    .doc      = "a tensor whose elements are the bytes of the file memory_region_name",
    .sig      = "-> tensor: dtype",
    .attrs    = "dtype: type; shape: shape; memory_region_name: string",
    .flags    = MR_BLOCKS | MR_NO_FOLD | MR_NO_GRADIENT,
    .shape    = mr_shape_from_attr,
    .kernels  = MR_KERNELS(MR_CPU_ANY(immutable_const)),
    .state_bytes = sizeof(constant), .init = init_immutable_const, .deinit = deinit_immutable_const,
    .examples = MR_EXAMPLES(
        "dtype=float shape=[2] memory_region_name=\"/nowhere/at/all\": -> !NOT_FOUND",
        "dtype=uint8 shape=[2,0] memory_region_name=\"/dev/null\": -> shape(2,0)",
        "dtype=uint8 shape=[2] memory_region_name=\"/dev/null\": -> !INVALID_ARGUMENT 0 bytes",
        "dtype=float shape=[4611686018427387904] memory_region_name=\"/dev/null\": -> !INVALID_ARGUMENT",
        "dtype=float shape=? memory_region_name=\"/dev/null\": -> !INVALID_ARGUMENT fully defined",
        "dtype=string shape=[2] memory_region_name=\"/dev/null\": -> !UNIMPLEMENTED string"));
