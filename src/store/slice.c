/* store/slice.c -- parts of tensors: their texts, their keys, and copying between them.
 *
 * Invariant: a full dimension is written start 0, length MR_SLICE_ALL, never with its size, because the key of a part
 * must not depend on how it was specified. */
#include "store/slice.h"

#include "wire/pb.h"

void mr_slice_all(mr_slice *s, int rank)
{
    s->rank = rank;
    for (int i = 0; i < rank; i++) {
        s->start[i] = 0;
        s->length[i] = MR_SLICE_ALL;
    }
}

static int64_t length_of(const mr_slice *s, int i, const int64_t *dims)
{
    return s->length[i] == MR_SLICE_ALL ? dims[i] : s->length[i];
}

bool mr_slice_is_all(const mr_slice *s, const int64_t *dims)
{
    for (int i = 0; i < s->rank; i++)
        if (s->start[i] != 0 || length_of(s, i, dims) != dims[i])
            return false;
    return true;
}

/* Parts are separated by colons; each is "start,length", or "-" for the whole dimension. */
mr_status *mr_slice_parse(mr_sv text, mr_slice *out)
{
    mr_sv rest = text, part, start;
    out->rank = 0;
    while (mr_sv_cut(&rest, ':', &part)) {
        int i = out->rank;
        if (i >= MR_MAX_RANK)
            return mr_invalid("Too many dimensions in slice '%.*s'", MR_SV_ARG(text));
        out->rank++;
        out->start[i] = 0;
        out->length[i] = MR_SLICE_ALL;
        if (mr_sv_is(part, "-"))
            continue;
        mr_sv length = part;
        if (!mr_sv_cut(&length, ',', &start) || !length.p || !mr_sv_to_i64(start, &out->start[i]) ||
            !mr_sv_to_i64(length, &out->length[i]) || out->start[i] < 0 || out->length[i] <= 0)
            return mr_invalid("Expected a pair of numbers or '-' but got '%.*s': string = %.*s", MR_SV_ARG(part),
                              MR_SV_ARG(text));
    }
    return NULL;
}

void mr_slice_print(const mr_slice *s, mr_str *out)
{
    for (int i = 0; i < s->rank; i++) {
        if (i)
            mr_str_appendc(out, ':');
        if (s->length[i] == MR_SLICE_ALL)
            mr_str_appendc(out, '-');
        else
            mr_str_printf(out, "%lld,%lld", (long long)s->start[i], (long long)s->length[i]);
    }
}

/* The bounds are checked without adding start and length, which might overflow. */
mr_status *mr_slice_shape(const mr_slice *s, int rank, const int64_t *dims, mr_shape *out)
{
    if (s->rank != rank)
        return mr_invalid("Mismatching ranks: a slice of rank %d of a tensor of shape %s", s->rank,
                          MR_SHAPE_TEXT(rank, dims));
    out->rank = rank;
    for (int i = 0; i < rank; i++) {
        int64_t n = length_of(s, i, dims);
        if (s->start[i] < 0 || n < 0 || s->start[i] > dims[i] || n > dims[i] - s->start[i])
            return mr_invalid("Extent in dimension %d out of bounds: shape = %s, start = %lld, length = %lld", i,
                              MR_SHAPE_TEXT(rank, dims), (long long)s->start[i], (long long)n);
        out->dims[i] = n;
    }
    return NULL;
}

/* The text has the dimensions and then the slice, separated by spaces. */
mr_status *mr_shape_and_slice_parse(mr_sv text, mr_shape *shape, mr_slice *slice, mr_shape *part)
{
    mr_sv rest = text, word, next;
    shape->rank = 0;
    if (!mr_sv_cut(&rest, ' ', &word))
        return mr_invalid("Need least two elements in shape_and_slice specification: %.*s", MR_SV_ARG(text));
    while (mr_sv_cut(&rest, ' ', &next)) { /* the last word is the slice, all words before it are dimensions */
        int64_t d;
        if (!mr_sv_to_i64(word, &d) || d < 0)
            return mr_invalid("Non numerical dimension in shape_and_slice: %.*s", MR_SV_ARG(text));
        MR_TRY(mr_shape_push(shape, d));
        word = next;
    }
    if (shape->rank == 0)
        return mr_invalid("Need least two elements in shape_and_slice specification: %.*s", MR_SV_ARG(text));
    MR_TRY(mr_slice_parse(word, slice));
    int64_t n;
    MR_TRY(mr_shape_elements(shape->rank, shape->dims, &n));
    return mr_slice_shape(slice, shape->rank, shape->dims, part);
}

bool mr_slice_intersect(const mr_slice *a, const mr_slice *b, const int64_t *dims, mr_slice *out)
{
    out->rank = a->rank;
    for (int i = 0; i < a->rank; i++) {
        int64_t lo = MR_MAX(a->start[i], b->start[i]);
        int64_t hi = MR_MIN(a->start[i] + length_of(a, i, dims), b->start[i] + length_of(b, i, dims));
        if (hi <= lo)
            return false;
        out->start[i] = lo;
        out->length[i] = hi - lo;
    }
    return true;
}

/* The offset of element `index` of `what` in a tensor that holds the part `at`. */
static int64_t offset_in(const mr_tensor *t, const mr_slice *at, const mr_slice *what, const int64_t *index)
{
    int64_t off = 0;
    for (int i = 0; i < t->rank; i++)
        off = off * t->dims[i] + (what->start[i] - at->start[i] + index[i]);
    return off;
}

/* Copies runs along the last dimension; `index` counts through the other dimensions like an odometer. */
mr_status *mr_slice_copy(const mr_tensor *src, const mr_slice *src_at, mr_tensor *dst, const mr_slice *dst_at,
                         const mr_slice *what)
{
    int64_t index[MR_MAX_RANK] = {0};
    int last = what->rank - 1;
    if (what->rank == 0)
        return mr_tensor_try_copy_elements(dst, 0, src, 0, 1);
    for (;;) { /* one run along the last dimension at a time */
        MR_TRY(mr_tensor_try_copy_elements(dst, offset_in(dst, dst_at, what, index), src,
                                           offset_in(src, src_at, what, index), what->length[last]));
        int i = last - 1;
        while (i >= 0 && ++index[i] == what->length[i])
            index[i--] = 0;
        if (i < 0)
            return NULL;
    }
}

void mr_slice_encode(const mr_slice *s, mr_str *out)
{
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    for (int i = 0; i < s->rank; i++) {
        size_t mark = mr_pb_begin(&w, 1);
        if (s->length[i] != MR_SLICE_ALL) {
            mr_pb_opt_varint(&w, 1, (uint64_t)s->start[i]);
            mr_pb_put_varint(&w, 2, (uint64_t)s->length[i]); /* a oneof: present even when 0 */
        }
        mr_pb_end(&w, mark);
    }
}

/* A slice of hostile bytes has no negative numbers, but may still exceed its tensor: mr_slice_shape checks that. */
mr_status *mr_slice_decode(mr_sv bytes, mr_slice *out)
{
    mr_pb_reader r, e;
    uint32_t field, wire;
    out->rank = 0;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field != 1) {
            mr_pb_skip(&r);
            continue;
        }
        if (out->rank == MR_MAX_RANK)
            return mr_error(MR_DATA_LOSS, "A tensor slice has more than %d dimensions", MR_MAX_RANK);
        int i = out->rank++;
        out->start[i] = 0;
        out->length[i] = MR_SLICE_ALL;
        mr_pb_message(&r, &e);
        while (mr_pb_next(&e, &field, &wire)) {
            if (field == 1)
                out->start[i] = mr_pb_int64(&e);
            else if (field == 2)
                out->length[i] = mr_pb_int64(&e);
            else
                mr_pb_skip(&e);
        }
        if (out->start[i] < 0 || out->length[i] < MR_SLICE_ALL)
            return mr_error(MR_DATA_LOSS, "A tensor slice has a negative start or length");
    }
    return mr_pb_reader_status(&r, "TensorSliceProto");
}

/* ---- keys whose byte order is the order of what they encode ---- */

static void put_number(mr_str *out, uint64_t v)
{
    uint8_t buf[9];
    int n = 0;
    for (uint64_t x = v; x; x >>= 8)
        n++;
    buf[0] = (uint8_t)n;
    for (int i = 0; i < n; i++)
        buf[1 + i] = (uint8_t)(v >> (8 * (n - 1 - i)));
    mr_str_append(out, buf, (size_t)n + 1);
}

static void put_string(mr_str *out, mr_sv s)
{
    for (size_t i = 0; i < s.n; i++) {
        mr_str_appendc(out, s.p[i]);
        if ((uint8_t)s.p[i] == 0)
            mr_str_appendc(out, (char)0xff);
        else if ((uint8_t)s.p[i] == 0xff)
            mr_str_appendc(out, 0);
    }
    mr_str_append(out, "\0\1", 2);
}

/* TensorFlow's OrderedCode for signed numbers: the number of leading bits that are equal gives the length, so shorter
 * encodings of positive numbers sort first, and negative numbers sort before them. */
static void put_signed(mr_str *out, int64_t v)
{
    static const uint8_t header[11][2] = {{0, 0},    {0x80, 0}, {0xc0, 0}, {0xe0, 0}, {0xf0, 0},   {0xf8, 0},
                                          {0xfc, 0}, {0xfe, 0}, {0xff, 0}, {0xff, 0x80}, {0xff, 0xc0}};
    uint8_t buf[10];
    int n = 1;
    while (n < 10 && (v < -(INT64_C(1) << MR_MIN(7 * n - 1, 62)) || v >= INT64_C(1) << MR_MIN(7 * n - 1, 62)))
        n++;
    for (int i = 0; i < n; i++) {
        int shift = 8 * (n - 1 - i);
        buf[i] = (uint8_t)(shift >= 64 ? (v < 0 ? 0xff : 0) : (uint64_t)(v >> MR_MIN(shift, 63)));
    }
    buf[0] ^= header[n][0];
    if (n > 1)
        buf[1] ^= header[n][1];
    mr_str_append(out, buf, (size_t)n);
}

void mr_slice_key(mr_sv name, const mr_slice *s, mr_str *out)
{
    put_number(out, 0);
    put_string(out, name);
    put_number(out, (uint64_t)s->rank);
    for (int i = 0; i < s->rank; i++) {
        put_signed(out, s->start[i]);
        put_signed(out, s->length[i]);
    }
}
