/* graph/tensor_attr.c -- a tensor as an attr, kept serialized until it is needed.
 *
 * Small tensors are in the arena. Large ones (weights of a frozen model) are in a separate buffer, the blob, which
 * copies of the graph share. The bytes are placed in the blob such that tensor_content starts at a multiple of 64, so
 * that the decoded tensor is just a header for the same bytes: nothing is decoded and the weights are in memory only
 * once. If the bytes of the whole graph stay (a file that is mapped), they are the blob of each tensor whose
 * tensor_content happens to be aligned.
 *
 * Equal tensors may be serialized in several ways, so equality and hash look at the values; they
 * avoid decoding where tensor_content shows the values as they are. */
#include "graph/attr.h"
#include "wire/pb.h"

#define BLOB_BYTES 4096 /* from this size on, a blob costs less than copies */
#define ALIGN 64

/* The fields of a TensorProto before its values. */
typedef struct scan {
    int dtype, n_shapes;
    mr_sv shape, content; /* content.p == NULL: typed fields */
} scan;

static bool scan_proto(mr_sv raw, scan *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (scan){0};
    mr_pb_reader_init(&r, raw);
    while (mr_pb_next(&r, &field, &wire)) {
        switch (field) {
        case 1: out->dtype = mr_pb_int32(&r); break;
        case 2:
            out->shape = mr_pb_bytes(&r);
            out->n_shapes++;
            break;
        case 4: out->content = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    }
    return r.error == NULL;
}

/* ---- creating ---- */

static bool is_aligned(const void *p) { return (uintptr_t)p % ALIGN == 0; }

/* A plain tensor of bytes serves as the blob: it is counted and aligned already. */
static mr_status *make_blob(mr_sv raw, const scan *s, mr_tensor_attr *out)
{
    size_t offset = s->content.p ? (size_t)(s->content.p - raw.p) : 0;
    size_t pad = (ALIGN - offset % ALIGN) % ALIGN;
    int64_t bytes = (int64_t)(pad + raw.n);
    MR_TRY(mr_tensor_new(NULL, MR_UINT8, 1, &bytes, &out->blob));
    out->blob->readonly = true;
    char *at = MR_DATA(char, out->blob) + pad;
    memcpy(at, raw.p, raw.n);
    out->raw = (mr_sv){at, raw.n};
    return NULL;
}

mr_status *mr_tensor_attr_of(const mr_attr_room *room, mr_sv raw, const mr_tensor_attr **out)
{
    scan s;
    if (!scan_proto(raw, &s))
        return mr_invalid("AttrValue: malformed TensorProto");
    mr_tensor_attr *v = mr_arena_new(room->arena, mr_tensor_attr);
    if (room->held && raw.n >= BLOB_BYTES) {
        if (room->source && s.content.p && is_aligned(s.content.p))
            *v = (mr_tensor_attr){.raw = raw, .blob = mr_tensor_ref(room->source)};
        else
            MR_TRY(make_blob(raw, &s, v));
        mr_vec_push(room->held, v->blob);
    } else {
        char *copy = mr_arena_try_alloc(room->arena, raw.n + 1);
        if (!copy)
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a tensor attr of %zu bytes",
                            raw.n);
        memcpy(copy, raw.p, raw.n);
        v->raw = (mr_sv){copy, raw.n};
    }
    *out = v;
    return NULL;
}

/* ---- decoding ---- */

static void unref_blob(void *data, size_t bytes, void *blob)
{
    (void)data, (void)bytes;
    mr_tensor_unref(blob);
}

/* The elements, if the bytes have the same layout as memory; NULL if they must be decoded. Bools are excluded: bytes
 * from outside may be neither 0 nor 1. */
static const char *plain_data(const scan *s, mr_shape *shape, int64_t *n)
{
    mr_dtype type = (mr_dtype)s->dtype;
    if (!s->content.p || s->n_shapes != 1 || !mr_dtype_valid(s->dtype) ||
        !mr_dtype_is_plain(type) || type == MR_BOOL)
        return NULL;
    mr_status *st = mr_shape_decode(s->shape, shape);
    if (!st)
        st = mr_shape_elements(shape->rank, shape->dims, n);
    bool fits = !st && *n > 0 && (uint64_t)*n == s->content.n / mr_dtype_size(type) &&
                s->content.n % mr_dtype_size(type) == 0;
    mr_status_free(st);
    return fits ? s->content.p : NULL;
}

/* Tensors that use a blob are read-only: the blob belongs to all copies of the attr. */
mr_status *mr_attr_tensor(const mr_tensor_attr *v, mr_tensor **out)
{
    scan s;
    mr_shape shape;
    int64_t n;
    const char *data = NULL;
    if (v->t) {
        *out = mr_tensor_ref(v->t);
        return NULL;
    }
    if (v->blob && scan_proto(v->raw, &s))
        data = plain_data(&s, &shape, &n);
    if (!data || !is_aligned(data))
        return mr_tensor_decode(NULL, v->raw, out);
    MR_TRY(mr_tensor_adopt((mr_dtype)s.dtype, shape.rank, shape.dims, (char *)(uintptr_t)data,
                           s.content.n, unref_blob, mr_tensor_ref(v->blob), out));
    (*out)->readonly = true;
    return NULL;
}

mr_status *mr_tensor_attr_shape(const mr_tensor_attr *v, mr_dtype *dtype, mr_shape *shape)
{
    scan s;
    if (v->t) {
        *dtype = (mr_dtype)v->t->dtype;
        mr_shape_set(shape, v->t->rank, v->t->dims);
        return NULL;
    }
    if (!scan_proto(v->raw, &s) || s.n_shapes > 1 || !mr_dtype_valid(s.dtype))
        return mr_invalid("Cannot parse tensor from proto: bad type or shape");
    *dtype = (mr_dtype)s.dtype;
    return mr_shape_decode(s.shape.p ? s.shape : MR_SV(""), shape);
}

/* ---- comparing ---- */

/* If both have plain content of the same type and shape, compares the bytes. False: they must be decoded. */
static bool content_eq(const mr_tensor_attr *a, const mr_tensor_attr *b, bool *eq)
{
    scan x, y;
    mr_shape xs, ys;
    int64_t xn, yn;
    if (!a->raw.p || !b->raw.p || !scan_proto(a->raw, &x) || !scan_proto(b->raw, &y))
        return false;
    if (!plain_data(&x, &xs, &xn) || !plain_data(&y, &ys, &yn))
        return false;
    *eq = x.dtype == y.dtype && mr_shape_eq(xs.rank, xs.dims, ys.rank, ys.dims) &&
          mr_sv_eq(x.content, y.content);
    return true;
}

bool mr_tensor_attr_eq(const mr_tensor_attr *a, const mr_tensor_attr *b)
{
    bool eq;
    mr_tensor *x = NULL, *y = NULL;
    if (a == b || (a->t && a->t == b->t))
        return true;
    if (a->raw.p && b->raw.p && mr_sv_eq(a->raw, b->raw))
        return true;
    if (content_eq(a, b, &eq))
        return eq;
    mr_status *st = mr_attr_tensor(a, &x);
    if (!st)
        st = mr_attr_tensor(b, &y);
    eq = !st && mr_tensor_equal(x, y);
    mr_status_free(st);
    mr_tensor_unref(x);
    mr_tensor_unref(y);
    return eq;
}

static uint64_t mix_bytes(uint64_t seed, const void *p, size_t n)
{
    return (seed ^ mr_hash64(p, n)) * 0x9e3779b97f4a7c15u;
}

/* Hashes both ends and the size: enough to distinguish constants, at any size. */
static uint64_t hash_plain(uint64_t seed, int dtype, const char *p, size_t n)
{
    size_t part = MR_MIN(n, (size_t)256);
    seed = mix_bytes(seed, &dtype, sizeof(dtype));
    seed = mix_bytes(seed, &n, sizeof(n));
    seed = mix_bytes(seed, p, part);
    return mix_bytes(seed, p + n - part, part);
}

static uint64_t hash_tensor(const mr_tensor *t, uint64_t seed)
{
    if (mr_dtype_is_plain((mr_dtype)t->dtype))
        return hash_plain(seed, t->dtype, t->n ? t->data : "", mr_tensor_bytes(t));
    seed = mix_bytes(seed, &t->dtype, sizeof(t->dtype));
    for (int64_t i = 0; t->dtype == MR_STRING && i < t->n && i < 16; i++) {
        mr_sv s = mr_tensor_str_at(t, i);
        seed = mix_bytes(seed, s.p, s.n);
    }
    return seed;
}

uint64_t mr_tensor_attr_hash(const mr_tensor_attr *v, uint64_t seed)
{
    scan s;
    mr_shape shape;
    int64_t n;
    mr_tensor *t = NULL;
    if (v->raw.p && scan_proto(v->raw, &s) && plain_data(&s, &shape, &n))
        return hash_plain(seed, s.dtype, s.content.p, s.content.n);
    mr_status *st = mr_attr_tensor(v, &t);
    if (st) { /* equal only to the same bytes */
        mr_status_free(st);
        return mix_bytes(seed, v->raw.p, v->raw.n);
    }
    seed = hash_tensor(t, seed);
    mr_tensor_unref(t);
    return seed;
}
