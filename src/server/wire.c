/* server/wire.c -- messages of the services that carry tensors.
 *
 * Writing: a large tensor's memory is a separate piece of the message, with a reference to the tensor,
 * and is never copied. The small fields go into `head`, which is moved into the message before each
 * such piece.
 *
 *     piece 1   is_dead, send_start_micros, tag and length of `tensor`, dtype, tensor_shape,
 *               tag and length of `tensor_content`
 *     piece 2   the tensor's memory
 *
 * Reading: our own messages have the contents of a large tensor at the end. They are found by looking
 * at the first bytes only (find_large), and become the tensor without a copy if the piece is aligned.
 * Everything else is parsed in general (decode_flat). Nothing in a message is trusted: sizes are
 * compared before memory is allocated. */
#include "server/wire.h"

#include "base/memory.h"

#define IN_PLACE 4096 /* bytes from which a tensor's memory is sent as a piece */
#define DERIVED "[_Derived_]"

/* ---- writing ---- */

/* The writer appends to `head`; put_cut moves the head into the message before each large piece. */
void mr_wire_init(mr_wire *w)
{
    *w = (mr_wire){0};
    mr_pb_writer_init(&w->pb, &w->head);
}

/* Drops what was written, and the references to tensors. */
void mr_wire_deinit(mr_wire *w)
{
    mr_bytes_deinit(&w->out);
    mr_str_deinit(&w->head);
    mr_status_free(w->st);
    *w = (mr_wire){0};
}

static void drop_tensor(void *t) { mr_tensor_unref(t); }

/* A TensorProto in two parts: its small fields, and the bytes of tensor_content. */
typedef struct cut_tensor {
    mr_str head;
    mr_sv content;
} cut_tensor;

/* Splits a tensor; false: w->st says why not. */
static bool cut_head(mr_wire *w, const mr_tensor *t, cut_tensor *c)
{
    *c = (cut_tensor){0};
    mr_status_update(&w->st, mr_tensor_encode_head(t, &c->head, &c->content));
    return w->st == NULL;
}

/* Writes the tensor as a field. A large content becomes a separate piece. */
static void put_cut(mr_wire *w, uint32_t field, const mr_tensor *t, cut_tensor *c)
{
    mr_pb_put_header(&w->pb, field, c->head.n + c->content.n);
    mr_pb_put_raw(&w->pb, c->head.p, c->head.n);
    if (c->content.n < IN_PLACE) {
        mr_pb_put_raw(&w->pb, c->content.p, c->content.n);
        return;
    }
    mr_bytes_add_str(&w->out, &w->head);
    mr_bytes_add(&w->out, (mr_piece){c->content.p, c->content.n, drop_tensor, mr_tensor_ref(t)});
}

void mr_wire_tensor(mr_wire *w, uint32_t field, const mr_tensor *t)
{
    cut_tensor c;
    if (cut_head(w, t, &c))
        put_cut(w, field, t, &c);
    mr_str_deinit(&c.head);
}

static size_t field_size(size_t n) { return 1 + mr_pb_varint_size(n) + n; } /* numbers below 16 */

/* The length of the message comes before it, so it is computed from those of its two fields. */
void mr_wire_named(mr_wire *w, uint32_t field, mr_sv name, const mr_tensor *t)
{
    cut_tensor c;
    if (cut_head(w, t, &c)) {
        mr_pb_put_header(&w->pb, field, field_size(name.n) + field_size(c.head.n + c.content.n));
        mr_pb_put_bytes(&w->pb, 1, name);
        put_cut(w, 2, t, &c);
    }
    mr_str_deinit(&c.head);
}

/* As mr_wire_named, for a TensorProto that arrived in another message. */
void mr_wire_named_raw(mr_wire *w, uint32_t field, mr_sv name, mr_sv tensor_proto)
{
    mr_pb_put_header(&w->pb, field, field_size(name.n) + field_size(tensor_proto.n));
    mr_pb_put_bytes(&w->pb, 1, name);
    mr_wire_raw(w, 2, tensor_proto);
}

/* Errors are not reported: callers pass messages that were parsed before. */
mr_sv mr_wire_field(mr_sv message, uint32_t want)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv v = MR_SV("");
    mr_pb_reader_init(&r, message);
    while (mr_pb_next(&r, &field, &wire))
        if (field == want)
            v = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    return v;
}

/* Bytes from IN_PLACE on are not copied: they must live until the message is gone. */
void mr_wire_raw(mr_wire *w, uint32_t field, mr_sv tensor_proto)
{
    mr_pb_put_header(&w->pb, field, tensor_proto.n);
    if (tensor_proto.n < IN_PLACE) {
        mr_pb_put_raw(&w->pb, tensor_proto.p, tensor_proto.n);
        return;
    }
    mr_bytes_add_str(&w->out, &w->head);
    mr_bytes_add(&w->out, (mr_piece){.data = tensor_proto.p, .n = tensor_proto.n});
}

/* The first error of the builder is returned here, and the message is dropped. w can be used again after
 * mr_wire_init. */
mr_status *mr_wire_finish(mr_wire *w, mr_bytes *out)
{
    mr_status *st = w->st ? w->st : mr_pb_writer_status(&w->pb, "message");
    w->st = NULL;
    *out = (mr_bytes){0};
    if (!st) {
        mr_bytes_add_str(&w->out, &w->head);
        mr_bytes_append(out, &w->out);
    }
    mr_wire_deinit(w);
    return st;
}

/* ---- RecvTensorResponse ---- */

enum { R_TENSOR = 1, R_DEAD = 2, R_START = 3 };
enum { T_DTYPE = 1, T_SHAPE = 2, T_CONTENT = 4 };

/* The tensor comes last, so that nothing follows its contents. */
mr_status *mr_wire_recv_encode(const mr_tensor *t, bool dead, int64_t start_us, mr_bytes *out)
{
    mr_wire w;
    mr_wire_init(&w);
    mr_pb_opt_varint(&w.pb, R_DEAD, dead);
    mr_pb_opt_varint(&w.pb, R_START, (uint64_t)start_us);
    if (t)
        mr_wire_tensor(&w, R_TENSOR, t);
    return mr_wire_finish(&w, out);
}

#define EXTRA_URL "type.googleapis.com/tensorflow.RecvBufRespExtra"

/* transport_options is an Any whose value is a RecvBufRespExtra with the contents. As with tensors,
 * they come last and are not copied. */
mr_status *mr_wire_buf_encode(const mr_tensor *t, bool dead, int64_t start_us, mr_bytes *out)
{
    mr_wire w;
    if (t && !mr_dtype_is_plain(t->dtype))
        return mr_error(MR_INTERNAL, "A %s tensor cannot be sent as a buffer", mr_dtype_name(t->dtype));
    size_t n = t ? mr_tensor_bytes(t) : 0, extra = field_size(n);
    mr_wire_init(&w);
    mr_pb_opt_varint(&w.pb, 2, n);
    mr_pb_opt_varint(&w.pb, 3, dead);
    mr_pb_opt_varint(&w.pb, 5, (uint64_t)start_us);
    if (n) {
        mr_pb_put_header(&w.pb, 4, field_size(sizeof EXTRA_URL - 1) + field_size(extra));
        mr_pb_put_bytes(&w.pb, 1, MR_SV(EXTRA_URL));
        mr_pb_put_header(&w.pb, 2, extra);
        mr_pb_put_header(&w.pb, 1, n);
        mr_bytes_add_str(&w.out, &w.head);
        mr_bytes_add(&w.out, (mr_piece){t->data, n, drop_tensor, mr_tensor_ref(t)});
    }
    return mr_wire_finish(&w, out);
}

/* The beginning of a message: what comes before large contents. */
typedef struct front {
    uint8_t bytes[512];
    size_t n, at;
} front;

/* Reads a varint; false: it is malformed, or longer than what was copied. */
static bool front_varint(front *f, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 64 && f->at < f->n; shift += 7) {
        uint8_t b = f->bytes[f->at++];
        *v |= (uint64_t)(b & 0x7f) << shift;
        if (b < 0x80)
            return true;
    }
    return false;
}

/* Where the contents of a message { .. tensor { dtype, shape, content } } are, if it is written that
 * way. */
typedef struct large {
    size_t at, n;    /* of the content */
    size_t head_at, head_n; /* of the fields of the tensor before it */
    bool dead;
} large;

/* Looks for large contents at the very end of the message; false: the message is not of that form, and
 * has to be parsed in general. Each length is checked against the size of the message. */
static bool find_large(const mr_bytes *b, large *l)
{
    front f = {.n = b->n < sizeof f.bytes ? b->n : sizeof f.bytes};
    uint64_t tag = 0, v = 0;
    *l = (large){0};
    if (!mr_bytes_read(b, 0, f.bytes, f.n))
        return false;
    /* The fields before the tensor must be numbers. */
    while (front_varint(&f, &tag) && front_varint(&f, &v) && (tag >> 3) != R_TENSOR)
        if ((tag & 7) != MR_WIRE_VARINT)
            return false;
        else if (tag >> 3 == R_DEAD)
            l->dead = v != 0;
    if (tag != (R_TENSOR << 3 | MR_WIRE_BYTES) || v > b->n - f.at || f.at + v != b->n)
        return false;
    /* Inside the tensor: small fields, which are skipped, up to tensor_content, which must fill the rest. */
    l->head_at = f.at;
    for (size_t before = f.at; front_varint(&f, &tag); before = f.at) {
        if (!front_varint(&f, &v))
            return false;
        if (tag == (T_CONTENT << 3 | MR_WIRE_BYTES)) {
            l->head_n = before - l->head_at;
            l->at = f.at;
            l->n = v;
            return v >= IN_PLACE && v == b->n - f.at;
        }
        if ((tag & 7) == MR_WIRE_BYTES) {
            if (v > f.n - f.at)
                return false;
            f.at += v;
        } else if ((tag & 7) != MR_WIRE_VARINT) {
            return false;
        }
    }
    return false;
}

/* The tensor is freed: drops the piece that its memory came from. */
static void drop_piece_memory(void *data, size_t n, void *arg)
{
    (void)data, (void)n;
    mr_piece *p = arg;
    mr_piece_drop(*p);
    mr_free(p);
}

/* The last piece is exactly the contents: its memory becomes the tensor's. */
static mr_status *adopt_last(mr_bytes *b, mr_dtype type, int rank, const int64_t *dims, mr_tensor **t)
{
    MR_ASSERT(b->pieces.n > 0);
    mr_piece *p = mr_new(mr_piece);
    *p = mr_bytes_take(b, b->pieces.n - 1);
    return mr_tensor_adopt(type, rank, dims, (void *)(uintptr_t)p->data, p->n, drop_piece_memory, p, t);
}

/* Parses the type and the shape of a TensorProto whose contents were cut off. */
static mr_status *read_head(mr_sv head, mr_dtype *type, int *rank, int64_t *dims)
{
    mr_pb_reader r, shape, dim;
    uint32_t field, wire;
    *type = 0;
    *rank = 0;
    mr_pb_reader_init(&r, head);
    while (mr_pb_next(&r, &field, &wire)) {
        if (field == T_DTYPE) {
            *type = (mr_dtype)mr_pb_int32(&r);
        } else if (field == T_SHAPE && mr_pb_message(&r, &shape)) {
            while (mr_pb_next(&shape, &field, &wire)) {
                if (field != 2 || !mr_pb_message(&shape, &dim)) {
                    mr_pb_skip(&shape);
                    continue;
                }
                int64_t size = 0;
                while (mr_pb_next(&dim, &field, &wire))
                    if (field == 1)
                        size = mr_pb_int64(&dim);
                    else
                        mr_pb_skip(&dim);
                if (*rank == MR_MAX_RANK)
                    return mr_invalid("TensorProto: too many dimensions");
                dims[(*rank)++] = size;
            }
        } else if (field != T_SHAPE) {
            mr_pb_skip(&r);
        }
    }
    return mr_pb_reader_status(&r, "TensorProto");
}

/* Makes the tensor of a message that find_large has accepted. The contents must have exactly the size
 * that type and shape imply. Bool tensors are always copied, since any byte but 0 has to become 1. */
static mr_status *decode_large(mr_bytes *b, const large *l, mr_allocator *a, mr_tensor **t)
{
    char head[512];
    mr_dtype type;
    int rank;
    int64_t dims[MR_MAX_RANK], elements;
    if (l->head_n > sizeof head || !mr_bytes_read(b, l->head_at, head, l->head_n))
        return mr_invalid("TensorProto: the fields before tensor_content cannot be read");
    MR_TRY(read_head((mr_sv){head, l->head_n}, &type, &rank, dims));
    if (!mr_dtype_is_plain(type))
        return mr_invalid("TensorProto: dtype %d cannot have tensor_content", (int)type);
    MR_TRY(mr_shape_elements(rank, dims, &elements));
    if ((uint64_t)elements > l->n / mr_dtype_size(type) || (size_t)elements * mr_dtype_size(type) != l->n)
        return mr_invalid("TensorProto: tensor_content has %zu bytes, which does not fit %lld elements of %s", l->n,
                          (long long)elements, mr_dtype_name(type));
    /* The piece is exactly the contents if the sender was one of ours; kernels expect tensors to be aligned. */
    const mr_piece *last = &b->pieces.p[b->pieces.n - 1];
    if (type != MR_BOOL && last->n == l->n && (uintptr_t)last->data % 64 == 0)
        return adopt_last(b, type, rank, dims, t);
    MR_TRY(mr_tensor_new(a, type, rank, dims, t));
    mr_bytes_read(b, l->at, (*t)->data, l->n);
    for (int64_t i = 0; type == MR_BOOL && i < elements; i++)
        ((uint8_t *)(*t)->data)[i] = ((uint8_t *)(*t)->data)[i] != 0;
    return NULL;
}

/* Parses any RecvTensorResponse, after joining its pieces. */
static mr_status *decode_flat(mr_bytes *b, mr_allocator *a, mr_tensor **t, bool *dead)
{
    mr_sv bytes, tensor = MR_SV("");
    mr_pb_reader r;
    uint32_t field, wire;
    MR_TRY(mr_bytes_flat(b, &bytes));
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        if (field == R_TENSOR)
            tensor = mr_pb_bytes(&r);
        else if (field == R_DEAD)
            *dead = mr_pb_bool(&r);
        else
            mr_pb_skip(&r);
    MR_TRY(mr_pb_reader_status(&r, "RecvTensorResponse"));
    return *dead ? NULL : mr_tensor_decode(a, tensor, t);
}

/* May take the last piece of b as the tensor's memory. *t is NULL for a dead value. */
mr_status *mr_wire_recv_decode(mr_bytes *b, mr_allocator *a, mr_tensor **t, bool *dead)
{
    large l;
    *t = NULL;
    *dead = false;
    if (!find_large(b, &l))
        return decode_flat(b, a, t, dead);
    *dead = l.dead;
    return l.dead ? NULL : decode_large(b, &l, a, t);
}

/* ---- RunGraphResponse ---- */

void mr_run_reply_deinit(mr_run_reply *r)
{
    mr_vec_deinit(&r->named);
    mr_vec_deinit(&r->graphs);
}

/* The strings in `out` are views into the body, which must outlive it. */
mr_status *mr_run_reply_parse(mr_bytes *body, mr_run_reply *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv bytes, text = MR_SV("");
    int64_t code = 0;
    MR_TRY(mr_bytes_flat(body, &bytes));
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire)) {
        switch (field) {
        case 1: mr_vec_push(&out->named, mr_pb_bytes(&r)); break;
        case 2: out->stats = mr_pb_bytes(&r); break;
        case 3: out->costs = mr_pb_bytes(&r); break;
        case 4: mr_vec_push(&out->graphs, mr_pb_bytes(&r)); break;
        case 5: code = mr_pb_int64(&r); break;
        case 6: text = mr_pb_bytes(&r); break;
        default: mr_pb_skip(&r);
        }
    }
    MR_TRY(mr_pb_reader_status(&r, "RunGraphResponse"));
    return mr_wire_error(code, text);
}

/* ---- errors in messages ---- */

/* TensorFlow has no field for "derived", so it is a prefix of the text. */
char *mr_wire_error_text(const mr_status *st)
{
    const char *text = mr_status_message(st);
    return mr_printf("%s%s", mr_status_is_derived(st) ? DERIVED : "", text);
}

/* Makes an error of a code and a text that came in a message. Codes that are not gRPC's become
 * UNKNOWN, and long texts are cut. */
mr_status *mr_wire_error(int64_t code, mr_sv text)
{
    if (code == MR_OK)
        return NULL;
    bool derived = mr_sv_starts(text, DERIVED);
    size_t skip = derived ? sizeof DERIVED - 1 : 0;
    mr_code known = code > 0 && code <= MR_UNAUTHENTICATED ? (mr_code)code : MR_UNKNOWN;
    mr_status *st = mr_error(known, "%.*s", (int)MR_MIN(text.n - skip, 65536), text.p + skip);
    return derived ? mr_status_mark_derived(st) : st;
}

/* Takes st. An error that came over the wire has its mark as a prefix of its text; here it becomes a
 * flag again. */
mr_status *mr_wire_unmark(mr_status *st)
{
    if (!st || strncmp(mr_status_message(st), DERIVED, sizeof DERIVED - 1) != 0)
        return st;
    mr_status *plain = mr_wire_error(mr_status_code(st), mr_sv_of(mr_status_message(st)));
    mr_status_free(st);
    return plain;
}
