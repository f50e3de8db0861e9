/* ps/wire.c -- messages of the parameter server as bytes.
 *
 * Blobs are the shared memory of records and messages: reference counted, and freed by whichever
 * thread drops the last reference, which is often the transport's. A blob is written only by the
 * one who made it, before it is shared.
 *
 * Reading checks first and allocates afterwards, so that a bad length cannot make a server allocate
 * more than the message itself has bytes. */
#include "ps/wire.h"

#include "tensor/allocator.h"

enum { HEAD_SIZE = 4, MAX_ADDRESS = 512 };
#define MAX_HEAD ((size_t)64 << 20)

/* ---- blobs ---- */

mr_ps_tally *mr_ps_tally_new(void)
{
    mr_ps_tally *t = mr_new(mr_ps_tally);
    mr_refs_init(&t->refs);
    return t;
}

void mr_ps_tally_unref(mr_ps_tally *t)
{
    if (t && mr_refs_drop(&t->refs))
        mr_free(t);
}

/* A reference to the tally for n bytes; count_out gives both back. */
static mr_ps_tally *count_in(mr_ps_tally *t, size_t n)
{
    mr_refs_take(&t->refs);
    atomic_fetch_add(&t->bytes, n);
    return t;
}

/* Gives back what count_in took. The last reference may be dropped here, after the server is gone. */
static void count_out(mr_ps_tally *t, size_t n)
{
    MR_ASSERT(atomic_load(&t->bytes) >= n);
    atomic_fetch_sub(&t->bytes, n);
    mr_ps_tally_unref(t);
}

mr_ps_blob *mr_ps_blob_new_counted(size_t n, mr_ps_tally *t)
{
    mr_ps_blob *b = mr_ps_blob_new(n);
    if (b)
        b->tally = count_in(t, n);
    return b;
}

/* From the tensors' allocator, which keeps memory for later: fresh memory from the system costs a fault for each page. */
mr_ps_blob *mr_ps_blob_new(size_t n)
{
    size_t bytes;
    mr_allocator *a = mr_cpu_allocator();
    mr_ps_blob *b = mr_size_add(n, sizeof(mr_ps_blob), &bytes) ? a->alloc(a, bytes) : NULL;
    if (!b)
        return NULL;
    mr_refs_init(&b->refs);
    b->tally = NULL;
    b->n = n;
    return b;
}

mr_ps_blob *mr_ps_blob_ref(mr_ps_blob *b)
{
    if (b)
        mr_refs_take(&b->refs);
    return b;
}

void mr_ps_blob_unref(mr_ps_blob *b)
{
    if (!b || !mr_refs_drop(&b->refs))
        return;
    if (b->tally)
        count_out(b->tally, b->n);
    mr_allocator *a = mr_cpu_allocator();
    a->free(a, b, sizeof(mr_ps_blob) + b->n);
}

static void drop_blob(void *b) { mr_ps_blob_unref(b); }

void mr_ps_bytes_add(mr_bytes *to, mr_ps_blob *b, const void *p, size_t n)
{
    MR_ASSERT(n == 0 || ((const char *)p >= b->data && (size_t)((const char *)p - b->data) + n <= b->n));
    if (n > 0)
        mr_bytes_add(to, (mr_piece){.data = p, .n = n, .drop = drop_blob, .owner = mr_ps_blob_ref(b)});
}

typedef struct counted_str {
    mr_str s;
    mr_ps_tally *tally;
} counted_str;

static void drop_str(void *counted)
{
    counted_str *c = counted;
    count_out(c->tally, c->s.n);
    mr_str_deinit(&c->s);
    mr_free(c);
}

/* As mr_bytes_add_str, counted: takes over *s, which is empty afterwards. */
void mr_ps_bytes_add_str(mr_bytes *to, mr_str *s, mr_ps_tally *t)
{
    counted_str *c = mr_new(counted_str);
    *c = (counted_str){*s, count_in(t, s->n)};
    *s = (mr_str){0};
    mr_bytes_add(to, (mr_piece){.data = c->s.p, .n = c->s.n, .drop = drop_str, .owner = c});
}

/* ---- bodies ---- */

/* Leaves room for the size, which mr_ps_head_end fills in. */
void mr_ps_head_begin(mr_pb_writer *w, mr_str *head)
{
    mr_pb_writer_init(w, head);
    mr_pb_put_raw(w, "\0\0\0", HEAD_SIZE);
}

/* On error head and raw are freed, and *out is as it was. */
mr_status *mr_ps_head_end(mr_pb_writer *w, mr_str *head, mr_bytes *raw, mr_bytes *out)
{
    mr_status *st = mr_pb_writer_status(w, "a parameter server message");
    if (!st && head->n - HEAD_SIZE > MAX_HEAD)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "A parameter server message has a head of %zu bytes, allowed are %zu",
                      head->n, MAX_HEAD);
    if (st) {
        mr_str_deinit(head);
        if (raw)
            mr_bytes_deinit(raw);
        return st;
    }
    uint32_t n = (uint32_t)(head->n - HEAD_SIZE);
    memcpy(head->p, &n, sizeof n);
    mr_bytes_add_str(out, head);
    if (raw)
        mr_bytes_append(out, raw);
    return NULL;
}

/* Copies the head. The frame borrows the body. After an error the head is empty, so that it can be
 * read without a check, and the frame need not be deinitialised. */
mr_status *mr_ps_frame_open(const mr_bytes *body, mr_ps_frame *f)
{
    uint32_t n;
    *f = (mr_ps_frame){.head = MR_SV(""), .body = body};
    if (!mr_bytes_read(body, 0, &n, sizeof n) || n > body->n - HEAD_SIZE || n > MAX_HEAD)
        return mr_invalid("A parameter server message of %zu bytes has no complete head", body->n);
    f->memory = mr_try_alloc((size_t)n + 1);
    if (!f->memory)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a message head of %u bytes", n);
    mr_bytes_read(body, HEAD_SIZE, f->memory, n);
    f->head = (mr_sv){f->memory, n};
    f->raw_at = HEAD_SIZE + (size_t)n;
    f->raw_n = body->n - f->raw_at;
    MR_ASSERT(f->raw_at + f->raw_n == body->n);
    return NULL;
}

void mr_ps_frame_deinit(mr_ps_frame *f)
{
    mr_free(f->memory);
    *f = (mr_ps_frame){0};
}

/* Offset and size come from the message's head, so they are compared with the bytes that exist. */
mr_status *mr_ps_frame_read(const mr_ps_frame *f, size_t at, size_t n, void *out)
{
    if (at > f->raw_n || n > f->raw_n - at)
        return mr_invalid("A parameter server message refers to %zu bytes at %zu, but has only %zu", n, at, f->raw_n);
    if (n > 0)
        mr_bytes_read(f->body, f->raw_at + at, out, n);
    return NULL;
}

/* The size is checked before the blob is allocated. */
mr_status *mr_ps_frame_take(const mr_ps_frame *f, size_t at, size_t n, mr_ps_blob **out)
{
    *out = NULL;
    if (at > f->raw_n || n > f->raw_n - at)
        return mr_ps_frame_read(f, at, n, NULL);
    mr_ps_blob *b = mr_ps_blob_new(n);
    if (!b)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %zu bytes of a message", n);
    *out = b;
    return mr_ps_frame_read(f, at, n, b->data);
}

/* ---- lists of numbers ---- */

static uint64_t zigzag(uint64_t d) { return (d << 1) ^ (uint64_t)((int64_t)d >> 63); }
static uint64_t unzigzag(uint64_t z) { return (z >> 1) ^ (0 - (z & 1)); }

/* The first pass computes the size, which comes before the numbers. */
void mr_ps_put_numbers(mr_pb_writer *w, uint32_t field, const mr_ps_numbers *v)
{
    uint64_t before = 0;
    size_t bytes = 0;
    for (int i = 0; i < v->n; before = v->p[i++])
        bytes += mr_pb_varint_size(zigzag(v->p[i] - before));
    if (v->n == 0)
        return;
    mr_pb_put_header(w, field, bytes);
    before = 0;
    for (int i = 0; i < v->n; before = v->p[i++])
        mr_pb_put_raw_varint(w, zigzag(v->p[i] - before));
}

/* Differences may wrap around: they are added modulo 2^64, as they were taken. */
void mr_ps_get_numbers(mr_pb_reader *r, int max, mr_ps_numbers *out)
{
    mr_pb_reader p;
    uint64_t at = 0;
    if (!mr_pb_packed(r, MR_WIRE_VARINT, &p))
        return;
    while (mr_pb_more(&p)) {
        if (out->n >= max) {
            mr_pb_fail(&p, "too many numbers");
            return;
        }
        at += unzigzag(mr_pb_raw_varint(&p));
        mr_vec_push(out, at);
    }
}

/* ---- views ---- */

void mr_ps_map_deinit(mr_ps_map *m)
{
    MR_ASSERT(m->addresses.n == 0 || m->addresses.n == m->view.servers.n);
    for (int i = 0; i < m->addresses.n; i++)
        mr_free(m->addresses.p[i]);
    mr_vec_deinit(&m->addresses);
    mr_ps_view_deinit(&m->view);
}

const char *mr_ps_map_address(const mr_ps_map *m, uint64_t id)
{
    for (int i = 0; i < m->view.servers.n && i < m->addresses.n; i++)
        if (m->view.servers.p[i].id == id)
            return m->addresses.p[i];
    return NULL;
}

/* The servers of a view with their addresses, which a view itself does not have. */
static void put_servers(mr_pb_writer *w, const mr_ps_view *v, const char *(*address)(void *arg, uint64_t id),
                        void *arg)
{
    for (int i = 0; i < v->servers.n; i++) {
        size_t mark = mr_pb_begin(w, 3);
        mr_pb_put_fixed64(w, 1, v->servers.p[i].id);
        mr_pb_opt_varint(w, 2, v->servers.p[i].leaving);
        mr_pb_opt_bytes(w, 3, mr_sv_of(address(arg, v->servers.p[i].id)));
        mr_pb_end(w, mark);
    }
}

/* Members go by id rather than by position: a member that is lost may no longer be a server of the
 * view. */
static void put_range(mr_pb_writer *w, const mr_ps_range *s)
{
    size_t mark = mr_pb_begin(w, 4);
    mr_pb_opt_varint(w, 1, s->epoch);
    mr_pb_opt_varint(w, 2, s->generation);
    mr_pb_opt_varint(w, 3, s->draining);
    mr_pb_opt_varint(w, 4, s->lost);
    for (int i = 0; i < s->n; i++) {
        mr_pb_put_fixed64(w, 5, s->chain[i].id);
        mr_pb_put_varint(w, 6, s->chain[i].since);
    }
    mr_pb_opt_fixed64(w, 7, s->catching.id);
    mr_pb_opt_varint(w, 8, s->catching.since);
    mr_pb_end(w, mark);
}

/* The addresses are not part of a view; `address` supplies them. */
void mr_ps_view_put(mr_pb_writer *w, const mr_ps_view *v, const char *(*address)(void *arg, uint64_t id),
                    void *arg)
{
    mr_pb_opt_varint(w, 1, v->epoch);
    mr_pb_opt_varint(w, 2, (uint64_t)v->replicas);
    put_servers(w, v, address, arg);
    for (int i = 0; i < v->ranges.n; i++)
        put_range(w, &v->ranges.p[i]);
}

/* Errors are left in r. Nothing is added after an error, so servers and addresses stay in step. */
static void get_server(mr_pb_reader *r, mr_ps_map *m)
{
    mr_ps_peer p = {0};
    mr_sv address = MR_SV("");
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: p.id = mr_pb_fixed64(r); break;
        case 2: p.leaving = mr_pb_bool(r); break;
        case 3: address = mr_pb_bytes(r); break;
        default: mr_pb_skip(r);
        }
    if (m->view.servers.n >= MR_PS_MAX_SERVERS || address.n > MAX_ADDRESS ||
        memchr(address.p, 0, address.n)) {
        mr_pb_fail(r, "too many servers, or a bad address");
        return;
    }
    mr_vec_push(&m->view.servers, p);
    mr_vec_push(&m->addresses, mr_strndup(address.p, address.n));
}

/* Ids (field 5) and epochs (field 6) of the members come in pairs. mr_ps_view_check refuses a range
 * in which they do not match. */
static void get_range(mr_pb_reader *r, mr_ps_view *v)
{
    mr_ps_range s = {0};
    int n_since = 0;
    uint32_t field, wire;
    while (mr_pb_next(r, &field, &wire)) {
        if ((field == 5 && s.n >= MR_PS_MAX_CHAIN) || (field == 6 && n_since >= MR_PS_MAX_CHAIN)) {
            mr_pb_fail(r, "chain too long");
            return;
        }
        switch (field) {
        case 1: s.epoch = mr_pb_varint(r); break;
        case 2: s.generation = mr_pb_varint(r); break;
        case 3: s.draining = mr_pb_bool(r); break;
        case 4: s.lost = mr_pb_bool(r); break;
        case 5: s.chain[s.n++].id = mr_pb_fixed64(r); break;
        case 6: s.chain[n_since++].since = mr_pb_varint(r); break;
        case 7: s.catching.id = mr_pb_fixed64(r); break;
        case 8: s.catching.since = mr_pb_varint(r); break;
        default: mr_pb_skip(r);
        }
    }
    if (v->ranges.n >= MR_PS_MAX_RANGES)
        mr_pb_fail(r, "too many ranges");
    else
        mr_vec_push(&v->ranges, s);
}

/* A parse error of a part ends the whole message, because the readers share their error. */
mr_status *mr_ps_map_get(mr_sv bytes, mr_ps_map *m)
{
    mr_pb_reader r, sub;
    uint32_t field, wire;
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: m->view.epoch = mr_pb_varint(&r); break;
        case 2: m->view.replicas = mr_pb_int32(&r); break;
        case 3:
            if (mr_pb_message(&r, &sub))
                get_server(&sub, m);
            break;
        case 4:
            if (mr_pb_message(&r, &sub))
                get_range(&sub, &m->view);
            break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "View"));
    return mr_ps_view_check(&m->view);
}

/* ---- changes ---- */

/* SIZE_MAX if the numbers, which come from a peer, do not fit into memory. */
size_t mr_ps_change_raw(const mr_ps_change *c, const mr_ps_table_spec *t)
{
    size_t keys = 0, floats;
    if (c->keys.list && !mr_size_mul(c->keys.n, sizeof(uint64_t), &keys))
        return SIZE_MAX;
    if (!mr_size_mul(c->keys.n, mr_ps_change_width(t, c->kind) * sizeof(float), &floats) ||
        floats > SIZE_MAX - 8)
        return SIZE_MAX;
    return mr_size_add(keys, (floats + 7) & ~(size_t)7, &keys) ? keys : SIZE_MAX;
}

/* Only the description: keys and floats travel as raw bytes, in the order of the changes. */
void mr_ps_change_put(mr_pb_writer *w, const mr_ps_change *c)
{
    mr_pb_opt_varint(w, 1, (uint64_t)c->kind);
    mr_pb_opt_varint(w, 2, (uint64_t)c->table);
    mr_pb_opt_varint(w, 3, c->keys.n);
    mr_pb_opt_varint(w, 4, c->keys.first);
    mr_pb_opt_varint(w, 5, c->keys.list != NULL);
    mr_pb_opt_varint(w, 6, (uint64_t)c->what);
    mr_pb_opt_varint(w, 7, (uint64_t)(unsigned)c->other);
    mr_pb_opt_double(w, 8, c->alpha);
}

/* Parse errors are left in r. *listed: the keys are a list, which follows in the raw bytes; else
 * they are a range. Kind and table are not checked here. */
void mr_ps_change_get(mr_pb_reader *r, mr_ps_change *c, bool *listed)
{
    uint32_t field, wire;
    *c = (mr_ps_change){0};
    *listed = false;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: c->kind = (mr_ps_change_kind)mr_pb_int32(r); break;
        case 2: c->table = mr_pb_int32(r); break;
        case 3: c->keys.n = mr_pb_varint(r); break;
        case 4: c->keys.first = mr_pb_varint(r); break;
        case 5: *listed = mr_pb_bool(r); break;
        case 6: c->what = (mr_ps_algebra)mr_pb_int32(r); break;
        case 7: c->other = mr_pb_int32(r); break;
        case 8: c->alpha = mr_pb_double(r); break;
        default: mr_pb_skip(r);
        }
}
