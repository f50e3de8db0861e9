/* tensor/tensor.c -- tensors: headers over shared buffers.
 *
 * Blocks.  A new tensor is at most two blocks: header and buffer struct in one, the data in
 * another.  Up to EMBED_BYTES of data move into the first block, so most scalars and small vectors
 * are one allocation:
 *
 *     [ mr_tensor, dims ][ mr_buffer ][ to the next 64 bytes ][ data ]
 *
 * A view is one more header in a separate block.
 *
 * Lives.  Each header has a count and holds one count of its buffer.  The first header's memory
 * belongs to the buffer, whether that header still lives or not; other headers free themselves. */
#include "tensor/tensor.h"

#include "base/memory.h"
#include "tensor/buffer.h"
#include "tensor/pages.h"

enum { EMBED_BYTES = MR_POOLED ? 1024 : -1, ALIGN = 64 };

static size_t header_bytes(int rank) { return sizeof(mr_tensor) + (size_t)rank * sizeof(int64_t); }

/* Header and buffer struct; the data of an embedded one begins at the next multiple of ALIGN. */
static size_t head_bytes(int rank) { return header_bytes(rank) + sizeof(mr_buffer); }

static size_t embedded_offset(int rank)
{
    return (head_bytes(rank) + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* The header that the buffer was created with. Its memory exists as long as the buffer; the header
 * itself may be dead. */
static mr_tensor *first_header(const mr_buffer *b)
{
    return (mr_tensor *)((char *)b - header_bytes(b->rank));
}

mr_status *mr_tensor_measure(mr_dtype dtype, int rank, const int64_t *dims, int64_t *n,
                             size_t *bytes)
{
    size_t size = mr_dtype_size(dtype);
    if (MR_UNLIKELY(size == 0))
        return mr_invalid("a tensor cannot have the type %s (%d)", mr_dtype_name((int)dtype),
                          (int)dtype);
    MR_TRY(mr_shape_elements(rank, dims, n));
    if (MR_UNLIKELY((int64_t)(size_t)*n != *n || !mr_size_mul((size_t)*n, size, bytes))) /* size_t may have 32 bits */
        return mr_error(
            MR_RESOURCE_EXHAUSTED,
            "OOM when allocating tensor with shape%s and type %s: more than there can be",
            MR_SHAPE_TEXT(rank, dims), mr_dtype_name((int)dtype));
    return NULL;
}

/* ---- making ---------------------------------------------------------------------------------- */

/* All but where the data is. */
static void fill_header(mr_tensor *t, mr_dtype dtype, int rank, const int64_t *dims, int64_t n)
{
    mr_refs_init(&t->refs);
    t->dtype = (uint8_t)dtype;
    t->rank = (uint8_t)rank;
    t->readonly = false;
    t->n = n;
    for (int i = 0; i < rank; i++)
        t->dims[i] = dims[i];
}

/* Header and buffer at the start of a block of at least head_bytes(rank). The model describes the
 * memory of the buffer. */
static mr_tensor *fill_block(void *block, mr_dtype dtype, int rank, const int64_t *dims, int64_t n,
                             const mr_buffer *model)
{
    mr_tensor *t = block;
    mr_buffer *b = (mr_buffer *)((char *)block + header_bytes(rank));
    MR_ASSERT(rank >= 0 && rank <= MR_MAX_RANK && model->bytes >= model->used);
    fill_header(t, dtype, rank, dims, n);
    *b = *model;
    mr_refs_init(&b->refs);
    b->dtype = (uint8_t)dtype;
    b->rank = (uint8_t)rank;
    t->buf = b;
    t->data = b->data;
    return t;
}

/* In the wording of TensorFlow, which tools look for; a budget adds how full it is. */
static mr_status *oom_status(mr_allocator *a, mr_dtype dtype, int rank, const int64_t *dims)
{
    mr_allocator_stats s;
    mr_status *st = mr_error(
        MR_RESOURCE_EXHAUSTED,
        "OOM when allocating tensor with shape%s and type %s on %s by allocator %s",
        MR_SHAPE_TEXT(rank, dims), mr_dtype_name((int)dtype), a->host ? "CPU" : "device", a->name);
    mr_allocator_get_stats(a, &s);
    if (s.limit > 0)
        st = mr_status_append(st, ": %lld of its %lld bytes are in use", (long long)s.in_use,
                              (long long)s.limit);
    return st;
}

mr_status *mr_tensor_new_bytes(mr_allocator *a, mr_dtype dtype, int rank, const int64_t *dims,
                               size_t bytes, mr_tensor **out)
{
    bool plain = mr_dtype_is_plain(dtype);
    if (!a || (!a->host && !plain)) /* strings and handles are always in host memory */
        a = mr_cpu_allocator();
    mr_buffer b = {.a = a};
    int64_t n;
    MR_TRY(mr_tensor_measure(dtype, rank, dims, &n, &b.used));
    b.bytes = MR_MAX(bytes, b.used);
    b.embedded = a->host && EMBED_BYTES > 0 && b.bytes <= (size_t)EMBED_BYTES;
    char *block; /* the data first: its memory may be refused, that of the header may not */
    if (b.embedded) {
        size_t offset = embedded_offset(rank);
        block = a->alloc(a, offset + b.bytes);
        b.data = block + offset;
    } else {
        b.data = a->alloc(a, b.bytes);
        block = b.data ? mr_small_alloc(head_bytes(rank)) : NULL;
    }
    if (MR_UNLIKELY(!block))
        return oom_status(a, dtype, rank, dims);
    if (!plain)
        memset(b.data, 0, b.used); /* 24 zero bytes are an empty string */
    *out = fill_block(block, dtype, rank, dims, n, &b);
    return NULL;
}

mr_status *mr_tensor_new(mr_allocator *a, mr_dtype dtype, int rank, const int64_t *dims,
                         mr_tensor **out)
{
    return mr_tensor_new_bytes(a, dtype, rank, dims, 0, out);
}

static mr_status *clear_on_device(mr_tensor *t)
{
    mr_allocator *a = t->buf->a;
    mr_status *st = t->n > 0 ? a->clear(a, t->data, mr_tensor_bytes(t)) : NULL;
    if (st)
        mr_tensor_unref(t);
    return st;
}

mr_status *mr_tensor_zeros(mr_allocator *a, mr_dtype dtype, int rank, const int64_t *dims,
                           mr_tensor **out)
{
    MR_TRY(mr_tensor_new(a, dtype, rank, dims, out));
    if (!mr_tensor_on_host(*out))
        return clear_on_device(*out);
    if (mr_dtype_is_plain(dtype))
        memset((*out)->data, 0, mr_tensor_bytes(*out));
    return NULL;
}

/* The alignment that the type needs to be read as C objects; vector code needs no more. */
static bool aligned_for(mr_dtype dtype, const void *p)
{
    size_t align = mr_dtype_size(dtype);
    if (!mr_dtype_is_plain(dtype))
        align = sizeof(void *);
    else if (mr_dtype_is_complex(dtype))
        align /= 2;
    return (uintptr_t)p % align == 0;
}

/* Copies foreign memory into a tensor of ours; the foreign memory is not changed. */
static mr_status *copy_foreign(mr_dtype dtype, int rank, const int64_t *dims, const char *data,
                               size_t bytes, mr_tensor **out)
{
    mr_tensor *t;
    MR_TRY(mr_tensor_new_bytes(NULL, dtype, rank, dims, bytes, &t));
    mr_status *st = mr_elements_copy(dtype, t->data, data, t->n, data, data + bytes);
    if (st)
        mr_tensor_unref(t);
    else
        *out = t;
    return st;
}

/* Checks that the memory of a caller is large enough for the shape. */
static mr_status *check_foreign(mr_dtype dtype, int rank, const int64_t *dims, const void *data,
                                size_t bytes, int64_t *n, size_t *used)
{
    MR_TRY(mr_tensor_measure(dtype, rank, dims, n, used));
    if (bytes < *used)
        return mr_invalid("a tensor of shape %s and type %s takes %zu bytes, but %zu were given",
                          MR_SHAPE_TEXT(rank, dims), mr_dtype_name((int)dtype), *used, bytes);
    if (!data && *used > 0)
        return mr_invalid("a tensor of shape %s was given no data", MR_SHAPE_TEXT(rank, dims));
    return NULL;
}

mr_status *mr_tensor_adopt(mr_dtype dtype, int rank, const int64_t *dims, void *data, size_t bytes,
                           void (*free)(void *data, size_t bytes, void *arg), void *arg,
                           mr_tensor **out)
{
    int64_t n;
    mr_buffer b = {.data = data, .bytes = bytes, .free = free, .arg = arg};
    mr_status *st = check_foreign(dtype, rank, dims, data, bytes, &n, &b.used);
    if (st || (n > 0 && !aligned_for(dtype, data))) {
        /* In both cases the memory is not kept, and its free function is called now. */
        if (!st)
            st = copy_foreign(dtype, rank, dims, data, bytes, out);
        if (free)
            free(data, bytes, arg);
        return st;
    }
    *out = fill_block(mr_small_alloc(head_bytes(rank)), dtype, rank, dims, n, &b);
    if (!data)
        (*out)->data = (*out)->buf; /* empty, but a pointer all the same */
    return NULL;
}

mr_status *mr_tensor_shape_only(mr_dtype dtype, int rank, const int64_t *dims, mr_tensor **out)
{
    static char nothing;
    int64_t n, bytes;
    MR_TRY(mr_shape_elements(rank, dims, &n));
    if (!mr_i64_mul(n, (int64_t)mr_dtype_size(dtype), &bytes))
        return mr_invalid("a tensor of shape %s and type %s is too large", MR_SHAPE_TEXT(rank, dims),
                          mr_dtype_name((int)dtype));
    mr_buffer b = {.data = &nothing};
    *out = fill_block(mr_small_alloc(head_bytes(rank)), dtype, rank, dims, n, &b);
    return NULL;
}

/* ---- living and dying ------------------------------------------------------------------------ */

mr_tensor *mr_tensor_ref(const mr_tensor *t)
{
    mr_tensor *mine = (mr_tensor *)(uintptr_t)t; /* the count is not part of what const protects */
    if (mine)
        mr_refs_take(&mine->refs);
    return mine;
}

/* b is in the block that is freed last, so the fields needed for that are read first. */
static void buffer_free(mr_buffer *b)
{
    mr_allocator *a = b->a;
    void *block = first_header(b);
    int rank = b->rank;
    if (!a) {
        if (b->free)
            b->free(b->data, b->bytes, b->arg);
        mr_small_free(block, head_bytes(rank));
        return;
    }
    if (MR_UNLIKELY(!mr_dtype_is_plain(b->dtype)))
        mr_elements_clear(b->dtype, b->data, (int64_t)(b->used / mr_dtype_size(b->dtype)));
    if (b->embedded) {
        a->free(a, block, embedded_offset(rank) + b->bytes);
    } else {
        a->free(a, b->data, b->bytes);
        mr_small_free(block, head_bytes(rank));
    }
}

void mr_tensor_unref(mr_tensor *t)
{
    if (!t || !mr_refs_drop(&t->refs))
        return;
    mr_buffer *b = t->buf;
    if (t != first_header(b)) /* that one is part of the buffer's block */
        mr_small_free(t, header_bytes(t->rank));
    if (mr_refs_drop(&b->refs))
        buffer_free(b);
}

bool mr_tensor_sole(const mr_tensor *t)
{
    return t->buf->a && !t->readonly && mr_refs_sole(&t->refs) && mr_refs_sole(&t->buf->refs);
}

bool mr_tensor_on_host(const mr_tensor *t) { return !t->buf->a || t->buf->a->host; }

bool mr_tensor_shares_buffer(const mr_tensor *a, const mr_tensor *b) { return a->buf == b->buf; }

/* ---- views ----------------------------------------------------------------------------------- */

/* A header over part of t's data, `offset` bytes from its start. */
static mr_tensor *new_view(const mr_tensor *t, mr_dtype dtype, int rank, const int64_t *dims,
                           int64_t n, size_t offset)
{
    mr_tensor *v = mr_small_alloc(header_bytes(rank));
    fill_header(v, dtype, rank, dims, n);
    v->readonly = t->readonly; /* a view of a read-only tensor is read-only */
    v->data = (char *)t->data + offset;
    v->buf = t->buf;
    mr_refs_take(&t->buf->refs);
    return v;
}

mr_status *mr_tensor_view(const mr_tensor *t, mr_dtype dtype, int rank, const int64_t *dims,
                          mr_tensor **out)
{
    int64_t n;
    size_t bytes;
    MR_TRY(mr_tensor_measure(dtype, rank, dims, &n, &bytes));
    if (dtype != t->dtype && !(mr_dtype_is_plain(dtype) && mr_dtype_is_plain(t->dtype)))
        return mr_invalid("a tensor of type %s cannot be viewed as %s", mr_dtype_name(t->dtype),
                          mr_dtype_name((int)dtype));
    if (bytes != mr_tensor_bytes(t))
        return mr_invalid(
            "a tensor of shape %s and type %s has %zu bytes, but shape %s and type %s take %zu",
            MR_TENSOR_SHAPE(t), mr_dtype_name(t->dtype), mr_tensor_bytes(t),
            MR_SHAPE_TEXT(rank, dims), mr_dtype_name((int)dtype), bytes);
    if (MR_UNLIKELY(n > 0 && !aligned_for(dtype, t->data)))
        return copy_foreign(dtype, rank, dims, t->data, bytes, out);
    *out = new_view(t, dtype, rank, dims, n, 0);
    return NULL;
}

mr_status *mr_tensor_rows(const mr_tensor *t, int64_t start, int64_t n, mr_tensor **out)
{
    if (t->rank == 0)
        return mr_invalid("a scalar has no rows");
    if (start < 0 || n < 0 || start > t->dims[0] || n > t->dims[0] - start)
        return mr_invalid("a tensor of shape %s has no %lld rows from row %lld", MR_TENSOR_SHAPE(t),
                          (long long)n, (long long)start);
    int64_t row = t->dims[0] ? t->n / t->dims[0] : 0; /* elements; no row, no matter */
    size_t offset = (size_t)(start * row) * mr_dtype_size(t->dtype);
    mr_tensor *v = new_view(t, t->dtype, t->rank, t->dims, n * row, offset);
    v->dims[0] = n;
    *out = v;
    return NULL;
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Plain elements, at least one side of which is memory of a device. */
static mr_status *copy_by_device(void *dst, const mr_tensor *to, const void *src, const mr_tensor *from, size_t bytes)
{
    bool in = mr_tensor_on_host(from), out = mr_tensor_on_host(to);
    mr_allocator *a = in ? to->buf->a : from->buf->a;
    if (bytes == 0)
        return NULL;
    return a->copy(a, dst, src, bytes, in ? MR_COPY_IN : out ? MR_COPY_OUT : MR_COPY_WITHIN);
}

mr_status *mr_tensor_try_copy_elements(mr_tensor *dst, int64_t at, const mr_tensor *src,
                                       int64_t from, int64_t n)
{
    size_t size = mr_dtype_size(src->dtype);
    const mr_buffer *b = src->buf;
    MR_ASSERT(dst->dtype == src->dtype && n >= 0);
    MR_ASSERT(at >= 0 && at <= dst->n - n && from >= 0 && from <= src->n - n);
    char *to = (char *)dst->data + (size_t)at * size;
    const char *of = (const char *)src->data + (size_t)from * size;
    if (MR_UNLIKELY(!mr_tensor_on_host(dst) || !mr_tensor_on_host(src)))
        return copy_by_device(to, dst, of, src, (size_t)n * size);
    return mr_elements_copy(src->dtype, to, of, n, b->data, b->data + b->bytes);
}

mr_status *mr_tensor_copy(mr_allocator *a, const mr_tensor *t, mr_tensor **out)
{
    mr_tensor *copy;
    MR_TRY(mr_tensor_new(a, t->dtype, t->rank, t->dims, &copy));
    mr_status *st = mr_tensor_try_copy_elements(copy, 0, t, 0, t->n);
    if (st)
        mr_tensor_unref(copy);
    else
        *out = copy;
    return st;
}

void mr_tensor_zero(mr_tensor *t) { mr_elements_clear(t->dtype, t->data, t->n); }

/* ---- questions ------------------------------------------------------------------------------- */

size_t mr_tensor_bytes(const mr_tensor *t) { return (size_t)t->n * mr_dtype_size(t->dtype); }

size_t mr_tensor_buffer_bytes(const mr_tensor *t)
{
    /* A reshape of all of it is as long as its buffer, surplus bytes too; a part has no surplus. */
    size_t bytes = mr_tensor_bytes(t);
    bool whole = bytes == t->buf->used && (t->n == 0 || t->data == t->buf->data);
    return whole ? t->buf->bytes : bytes;
}

bool mr_tensor_same_shape(const mr_tensor *a, const mr_tensor *b)
{
    return mr_shape_eq(a->rank, a->dims, b->rank, b->dims);
}

/* Two handles are equal when they name the same resource, wherever they were decoded. */
static bool same_handle(const mr_handle *a, const mr_handle *b)
{
    if (a == b || !a || !b)
        return a == b;
    return a->type_hash == b->type_hash && !strcmp(a->device, b->device) &&
           !strcmp(a->container, b->container) && !strcmp(a->name, b->name) &&
           !strcmp(a->type_name, b->type_name);
}

bool mr_tensor_equal(const mr_tensor *a, const mr_tensor *b)
{
    if (a->dtype != b->dtype || !mr_tensor_same_shape(a, b))
        return false;
    if (a->n == 0)
        return true;
    if (a->dtype == MR_STRING) {
        for (int64_t i = 0; i < a->n; i++)
            if (!mr_sv_eq(mr_tensor_str_at(a, i), mr_tensor_str_at(b, i)))
                return false;
        return true;
    }
    if (a->dtype == MR_RESOURCE) {
        for (int64_t i = 0; i < a->n; i++)
            if (!same_handle(MR_DATA(mr_handle *, a)[i], MR_DATA(mr_handle *, b)[i]))
                return false;
        return true;
    }
    return memcmp(a->data, b->data, mr_tensor_bytes(a)) == 0; /* variants: the same objects */
}

const char *mr_tensor_shape_text(const mr_tensor *t, char *buf, size_t n)
{
    return mr_shape_text(buf, n, t->rank, t->dims);
}

mr_sv mr_tensor_str_at(const mr_tensor *t, int64_t i)
{
    MR_ASSERT(t->dtype == MR_STRING && i >= 0 && i < t->n);
    return mr_element_str(MR_DATA(const TF_TString, t) + i, t->buf->data,
                          t->buf->data + t->buf->bytes);
}

mr_status *mr_tensor_set_str(mr_tensor *t, int64_t i, mr_sv v)
{
    MR_ASSERT(t->dtype == MR_STRING && i >= 0 && i < t->n);
    return mr_element_set_str(MR_DATA(TF_TString, t) + i, v);
}

int64_t mr_tensor_int_at(const mr_tensor *t, int64_t i)
{
    MR_ASSERT(t->dtype == MR_INT32 || t->dtype == MR_INT64);
    MR_ASSERT(i >= 0 && i < t->n);
    return t->dtype == MR_INT32 ? MR_DATA(int32_t, t)[i] : MR_DATA(int64_t, t)[i];
}
