/* ops/sparse/serialize.c -- SerializeSparse, SerializeManySparse, DeserializeSparse,
 * DeserializeManySparse.
 *
 * A sparse tensor becomes three elements of a tensor: its indices, values and shape, each as the
 * bytes of a TensorProto or as a variant that holds the tensor. */
#include "base/memory.h"
#include "ops/maths.h"
#include "ops/sparse/parts.h"
#include "run/scratch.h"

/* ---- a tensor as an element of a variant tensor ---- */

typedef struct boxed {
    mr_object base;
    mr_tensor *t;
} boxed;

static void boxed_free(mr_object *o)
{
    mr_tensor_unref(((boxed *)o)->t);
    mr_free(o);
}

static const mr_object_type boxed_type = {.name = "tensorflow::Tensor", .free = boxed_free};

/* ---- writing ---- */

void mr_sparse_box(mr_tensor *variants, int64_t i, const mr_tensor *t)
{
    boxed *b = mr_new(boxed);
    mr_object_init(&b->base, &boxed_type);
    b->t = mr_tensor_ref(t);
    MR_DATA(mr_object *, variants)[i] = &b->base;
}

static mr_status *write_one(const mr_tensor *t, mr_tensor *out, int64_t i)
{
    if (out->dtype == MR_VARIANT) {
        mr_sparse_box(out, i, t);
        return NULL;
    }
    mr_str bytes = {0};
    mr_status *st = mr_tensor_encode(t, &bytes);
    if (!st)
        st = mr_tensor_set_str(out, i, mr_str_view(&bytes));
    mr_str_deinit(&bytes);
    return st;
}

static mr_status *serialize_sparse(mr_run *r)
{
    mr_sparse s;
    mr_tensor *out;
    MR_TRY(mr_sparse_read(r, 0, "", &s));
    MR_TRY(mr_run_output(r, 0, 1, (int64_t[]){3}, &out));
    for (int i = 0; i < 3; i++)
        MR_TRY(write_one(mr_in(r, i), out, i));
    return NULL;
}

static mr_status *write_row(void *ctx, int64_t i, mr_sparse_part *p)
{
    mr_status *st = write_one(p->indices, ctx, 3 * i);
    if (!st)
        st = write_one(p->values, ctx, 3 * i + 1);
    if (!st)
        st = write_one(p->shape, ctx, 3 * i + 2);
    mr_sparse_part_deinit(p);
    return st;
}

static mr_status *serialize_many(mr_run *r)
{
    mr_sparse s;
    mr_tensor *out;
    MR_TRY(mr_sparse_read(r, 0, "", &s));
    if (s.rank < 2)
        return mr_invalid("Rank of input SparseTensor should be > 1, but saw rank: %lld",
                          (long long)s.rank);
    MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){s.dims[0], 3}, &out));
    return mr_sparse_cut(r, &s, write_row, out);
}

static mr_status *serialize_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    mr_infer_out_vector(c, 0, 3);
    return NULL;
}

static mr_status *serialize_many_shape(mr_infer *c)
{
    int64_t n, rank;
    MR_TRY(mr_infer_sparse(c, 0, &n, &rank));
    c->out[0] = mr_pshape_matrix(c->arena, -1, 3);
    return NULL;
}

#define SERIALIZE                                                                                               \
    .sig   = "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> serialized_sparse: out_type",     \
    .attrs = "T: type; out_type: {string, variant} = DT_STRING", .flags = MR_NO_GRADIENT

MR_OP(SerializeSparse,
    .doc      = "a sparse tensor as three elements: indices, values, shape", SERIALIZE,
    .shape    = serialize_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(serialize_sparse)),
    .examples = MR_EXAMPLES(
        "[[0, 1]], [1], [2, 2] -> shape(3)", "out_type=variant: [[0, 1]], [1], [2, 2] -> shape(3)", "[[0]], [\"a\"], [2] -> shape(3)",
        "[[0, 1]], [1], [2] -> !INVALID_ARGUMENT must be equal"));
MR_OP(SerializeManySparse,
    .doc      = "the rows of a sparse tensor, each as three elements: indices, values, shape", SERIALIZE,
    .shape    = serialize_many_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(serialize_many)),
    .examples = MR_EXAMPLES(
        "[[0, 1], [2, 0]], [1, 2], [3, 2] -> shape(3,3)", "out_type=variant: shape(0,2), shape(0), [1, 2] -> shape(1,3)",
        "[[0, 1]], [\"a\"], [1, 2] -> shape(1,3)", "[[0]], [1], [2] -> !INVALID_ARGUMENT Rank of input SparseTensor should be > 1",
        "[[1, 0], [0, 0]], [1, 2], [2, 2] -> !INVALID_ARGUMENT is out of order",
        "[[2, 0]], [1], [2, 2] -> !INVALID_ARGUMENT is out of bounds"));

/* ---- reading ---- */

static mr_status *read_one(const mr_tensor *t, int64_t i, mr_tensor **out)
{
    if (t->dtype == MR_STRING)
        return mr_status_prepend(mr_tensor_decode(NULL, mr_tensor_str_at(t, i), out),
                                 "Could not parse serialized proto: ");
    const mr_object *o = MR_DATA(mr_object *, t)[i];
    if (!o || o->type != &boxed_type)
        return mr_invalid("Could not get a tensor from serialized_sparse[%lld, %lld]",
                          (long long)(i / 3), (long long)(i % 3));
    *out = mr_tensor_ref(((const boxed *)o)->t);
    return NULL;
}

static mr_status *read_parts(const mr_tensor *t, int64_t n, mr_dtype type, mr_sparse_part *out)
{
    for (int64_t i = 0; i < n; i++) {
        MR_TRY(read_one(t, 3 * i, &out[i].indices));
        MR_TRY(read_one(t, 3 * i + 1, &out[i].values));
        MR_TRY(read_one(t, 3 * i + 2, &out[i].shape));
        MR_TRY(mr_sparse_part_check(&out[i], type, i));
    }
    return NULL;
}

static mr_status *deserialize_at(mr_run *r, int lead_rank)
{
    const mr_tensor *t = mr_in(r, 0);
    int64_t n = t->n / 3;
    if (n == 0)
        return mr_invalid(
            "Must have at least 1 serialized SparseTensor, but input matrix has 0 rows");
    mr_sparse_part *parts = mr_scratch_zeroed(r, (size_t)n, sizeof *parts);
    if (!parts)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld sparse tensors", (long long)n);
    mr_status *st = read_parts(t, n, mr_out_dtype(r, 1), parts);
    if (!st)
        st = mr_sparse_stack(r, parts, n, lead_rank, t->dims);
    for (int64_t i = 0; i < n; i++)
        mr_sparse_part_deinit(&parts[i]);
    mr_scratch_free(parts);
    return st;
}

static mr_status *deserialize_sparse(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    if (t->rank < 1)
        return mr_invalid("Serialized sparse should have non-zero rank %s",
                          MR_TENSOR_SHAPE(t));
    if (t->dims[t->rank - 1] != 3)
        return mr_invalid(
            "Serialized sparse should have 3 as the last dimension %s",
            MR_TENSOR_SHAPE(t));
    return deserialize_at(r, t->rank - 1);
}

static mr_status *deserialize_many(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    if (t->rank != 2 || t->dims[1] != 3)
        return mr_invalid(
            "Serialized sparse should have 2 dimensions, the last of size 3, but received shape %s",
            MR_TENSOR_SHAPE(t));
    return deserialize_at(r, 1);
}

static mr_status *deserialize_shape(mr_infer *c)
{
    const mr_pshape *s = NULL;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &s));
    if (s->rank > 0)
        MR_TRY(mr_infer_dim_is(s->dims[s->rank - 1], 3));
    mr_infer_out_sparse(c, 0, -1, -1, true);
    return NULL;
}

static mr_status *deserialize_many_shape(mr_infer *c)
{
    const mr_pshape *s = NULL;
    MR_TRY(mr_infer_rank(c, c->in[0], 2, &s));
    MR_TRY(mr_infer_dim_is(s->dims[1], 3));
    mr_infer_out_sparse(c, 0, -1, -1, true);
    return NULL;
}

#define DESERIALIZED " -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64"

MR_OP(DeserializeSparse,
    .doc      = "stacks sparse tensors that were serialized, [.., 3] of them",
    .sig      = "serialized_sparse: Tserialized" DESERIALIZED,
    .attrs    = "dtype: type; Tserialized: {string, variant} = DT_STRING",
    .flags    = MR_NO_GRADIENT,
    .shape    = deserialize_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(deserialize_sparse)),
    .examples = MR_EXAMPLES(
        "s = SerializeSparse T=$T: [[0, 1]], [1], [2, 2]; : s -> [[0, 1]], [1], [2, 2]",
        "s = SerializeSparse T=$T out_type=variant: [[0, 1]], [1], [2, 2]; Tserialized=variant: s -> [[0, 1]], [1], [2, 2]",
        "s = SerializeManySparse T=$T: [[0, 1], [1, 0]], [1, 2], [2, 3]; : s -> [[0, 1], [1, 0]], [1, 2], [2, 3]",
        "s = SerializeSparse T=string: [[0]], string[\"a\"], [2]; dtype=string: s -> [[0]], [\"a\"], [2]",
        "s = SerializeSparse T=bool: [[0]], bool[true], [2]; dtype=bool: s -> [[0]], [true], [2]",
        "s = SerializeSparse T=int32: [[0]], int32[1], [2]; dtype=float: s -> !INVALID_ARGUMENT Requested SparseTensor of type float",
        "dtype=float: [\"a\", \"b\", \"c\"] -> !INVALID_ARGUMENT", "dtype=float: [\"a\", \"b\"] -> !INVALID_ARGUMENT"));
MR_OP(DeserializeManySparse,
    .doc      = "a sparse tensor whose rows are deserialized",
    .sig      = "serialized_sparse: string" DESERIALIZED,
    .attrs    = "dtype: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = deserialize_many_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(deserialize_many)),
    .examples = MR_EXAMPLES(
        "s = SerializeManySparse T=$T: [[0, 1], [2, 0]], [1, 2], [3, 3]; : s -> [[0, 1], [2, 0]], [1, 2], [3, 3]",
        "s = SerializeManySparse T=string: [[0, 1]], string[\"a\"], [1, 2]; dtype=string: s -> [[0, 1]], [\"a\"], [1, 2]",
        "s = SerializeManySparse T=bool: [[0, 1]], bool[true], [1, 2]; dtype=bool: s -> [[0, 1]], [true], [1, 2]",
        "dtype=float: string shape(0,3) -> !INVALID_ARGUMENT Must have at least 1 serialized SparseTensor",
        "dtype=float: [[\"\", \"\", \"\"]] -> !INVALID_ARGUMENT"));
