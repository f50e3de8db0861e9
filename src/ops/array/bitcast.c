/* ops/array/bitcast.c -- Bitcast: the same bytes as another type; the last dimension absorbs a difference in
 * element size. */
#include "graph/infer.h"
#include "run/run.h"

/* The shape after the cast; a size of -1 is unknown. *out must have room for one more dimension. */
static mr_status *cast_shape(mr_dtype from, mr_dtype to, int rank, const int64_t *dims,
                             mr_shape *out)
{
    int64_t a = (int64_t)mr_dtype_size(from), b = (int64_t)mr_dtype_size(to);
    mr_shape_set(out, rank, dims);
    if (a == b)
        return NULL;
    if (a > b)
        return mr_shape_push(out, a / b);
    if (rank == 0)
        return mr_invalid("Shape must be at least rank 1 but is rank 0");
    if (dims[rank - 1] >= 0 && dims[rank - 1] != b / a)
        return mr_invalid("Cannot bitcast due to shape. %lld does not match %lld", (long long)dims[rank - 1],
                          (long long)(b / a));
    out->rank--;
    return NULL;
}

static mr_status *run_bitcast(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    mr_shape s;
    mr_status *st = cast_shape(t->dtype, mr_out_dtype(r, 0), t->rank, t->dims, &s);
    if (st)
        return mr_status_prepend(st, "Cannot bitcast from %s to %s, shape %s: ", mr_dtype_name(t->dtype),
                                 mr_dtype_name(mr_out_dtype(r, 0)), MR_TENSOR_SHAPE(t));
    return mr_run_reshape(r, 0, 0, s.rank, s.dims);
}

static mr_status *bitcast_shape(mr_infer *c)
{
    mr_dtype from, to;
    mr_shape s;
    MR_TRY(mr_node_get_type(c->node, "T", &from));
    MR_TRY(mr_node_get_type(c->node, "type", &to));
    if (c->in[0]->rank < 0)
        return NULL;
    MR_TRY(cast_shape(from, to, c->in[0]->rank, c->in[0]->dims, &s));
    c->out[0] = mr_pshape_of(c->arena, s.rank, s.dims);
    return NULL;
}

#define BITCAST_TYPES                                                                          \
    "{bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, int16, " \
    "complex64, complex128, qint8, quint8, qint16, quint16, qint32}"

MR_OP(Bitcast,
    .doc      = "the same bytes, seen as another type",
    .sig      = "input: T -> output: type",
    .attrs    = "T: " BITCAST_TYPES "; type: " BITCAST_TYPES,
    .flags    = MR_CHEAP | MR_NO_GRADIENT,
    .shape    = bitcast_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_bitcast)),
    .examples = MR_EXAMPLES(
        "type=$T: [1, 0] -> [1, 0]", "T=float type=int32: [1, -2] -> [1065353216, -1073741824]",
        "T=int32 type=uint8: [1, 256] -> [[1, 0, 0, 0], [0, 1, 0, 0]]",
        "T=uint8 type=int32: [[1, 0, 0, 0], [0, 1, 0, 0]] -> [1, 256]",
        "T=uint8 type=int64: [[0, 1, 0, 0, 0, 0, 0, 0]] -> [256]",
        "T=uint8 type=complex128: fill(0, 1,16) -> [0]",
        "T=int64 type=float: shape(0) -> shape(0,2)",
        "T=uint8 type=int32: [1, 0] -> !INVALID_ARGUMENT Cannot bitcast due to shape. 2 does not match 4",
        "T=uint8 type=int32: 1 -> !INVALID_ARGUMENT Shape must be at least rank 1 but is rank 0",
        "unknown T=uint8 type=int32: [1, 0] -> !INVALID_ARGUMENT Cannot bitcast from uint8 to int32",
        "unknown T=uint8 type=int32: 1 -> !INVALID_ARGUMENT Cannot bitcast from uint8 to int32"));
