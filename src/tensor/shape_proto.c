/* tensor/shape_proto.c -- TensorShapeProto, both ways.
 *
 *     2 dim: repeated { 1 size: int64, 2 name }      3 unknown_rank: bool
 *
 * A size of -1 is unknown; names are dropped.  Without any field it is a scalar. */
#include "tensor/shape.h"

#include <inttypes.h>

#include "wire/pb.h"

/* proto3 leaves zeros out, so a dimension without a size is one of 0. */
static int64_t read_dim(mr_pb_reader *r)
{
    int64_t size = 0;
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire)) {
        if (field == 1)
            size = mr_pb_int64(r);
        else
            mr_pb_skip(r);
    }
    return size;
}

/* Fills in *out; its rank becomes -1 if the proto says that it is unknown. */
static mr_status *read_shape(mr_sv bytes, mr_shape *out)
{
    mr_pb_reader r, dim;
    uint32_t field, wire;
    bool unknown_rank = false;
    out->rank = 0;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == 2) {
            mr_pb_message(&r, &dim);
            MR_TRY(mr_shape_push(out, read_dim(&dim)));
        } else if (field == 3) {
            unknown_rank = mr_pb_bool(&r);
        } else {
            mr_pb_skip(&r);
        }
    }
    MR_TRY(mr_pb_reader_status(&r, "TensorShapeProto"));
    if (unknown_rank && out->rank > 0) /* TensorFlow refuses this too */
        return mr_invalid("TensorShapeProto has an unknown rank and %d dimensions", out->rank);
    if (unknown_rank)
        out->rank = -1;
    return NULL;
}

/* Sizes below `least` are refused. */
static mr_status *check_dims(const mr_shape *s, int64_t least)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dims[i] < least)
            return mr_invalid("TensorShapeProto: dimension %d of %s is %" PRId64, i,
                              MR_SHAPE_TEXT(s->rank, s->dims), s->dims[i]);
    return NULL;
}

mr_status *mr_pshape_decode(mr_arena *a, mr_sv bytes, const mr_pshape **out)
{
    mr_shape s;
    MR_TRY(read_shape(bytes, &s));
    MR_TRY(check_dims(&s, -1));
    *out = mr_pshape_of(a, s.rank, s.dims);
    return NULL;
}

mr_status *mr_shape_decode(mr_sv bytes, mr_shape *out)
{
    MR_TRY(read_shape(bytes, out));
    if (out->rank < 0)
        return mr_invalid("TensorShapeProto: the rank is not known");
    return check_dims(out, 0);
}

/* Small and of a fixed size, so running out of memory ends the process. */
static void put_dim(mr_str *out, int64_t size)
{
    uint8_t dim[1 + MR_PB_MAX_VARINT] = {1 << 3 | MR_WIRE_VARINT};
    size_t n = size ? (size_t)(mr_pb_encode_varint(dim + 1, (uint64_t)size) - dim) : 0;
    mr_str_appendc(out, 2 << 3 | MR_WIRE_BYTES);
    mr_str_appendc(out, (char)n);
    mr_str_append(out, dim, n);
}

/* A rank below 0 is unknown; nothing at all is a scalar. */
void mr_shape_encode(int rank, const int64_t *dims, mr_str *out)
{
    for (int i = 0; i < rank; i++)
        put_dim(out, dims[i]);
    if (rank < 0)
        mr_str_append(out, (const char[]){3 << 3 | MR_WIRE_VARINT, 1}, 2);
}

void mr_pshape_encode(const mr_pshape *s, mr_str *out) { mr_shape_encode(s->rank, s->dims, out); }
