/* ps/server_messages.c -- messages between the members of a chain, as bytes.
 *
 * Messages about many ranges to one server travel together in one call (Chain). Only one such call
 * to a server is open at a time, so messages keep their order, and those that are queued meanwhile
 * go out together. A lost call is not repeated here: dist/ps_replica.h asks again by itself.
 *
 * A queued message shares the bytes of its records with the range that keeps them. A received
 * message has all its records in one blob; only its sizes have been checked when mr_ps_message_get
 * returns. */
#include "ps/server_internal.h"

#include "base/clock.h"
#include "base/log.h"

#define CHAIN_NS INT64_C(2000000000)

/* ---- queued messages ---- */

void mr_ps_message_deinit(mr_ps_message *w)
{
    for (int i = 0; i < w->records.n; i++)
        mr_ps_record_deinit(&w->records.p[i]);
    mr_vec_deinit(&w->records);
}

/* The outbox of a server; made when it is first needed. */
static mr_ps_outbox *outbox_of(mr_ps_server *s, uint64_t to)
{
    for (int i = 0; i < s->outboxes.n; i++)
        if (s->outboxes.p[i]->to == to)
            return s->outboxes.p[i];
    mr_ps_outbox *b = mr_new(mr_ps_outbox);
    b->to = to;
    mr_vec_push(&s->outboxes, b);
    return b;
}

void mr_ps_server_say(mr_ps_server *s, uint64_t to, mr_ps_message w) { mr_vec_push(&outbox_of(s, to)->messages, w); }

static void outbox_clear(mr_ps_outbox *b)
{
    for (int i = 0; i < b->messages.n; i++)
        mr_ps_message_deinit(&b->messages.p[i]);
    b->messages.n = 0;
}

/* Forgets the messages queued for a server that is gone. */
void mr_ps_server_drop_peer(mr_ps_server *s, uint64_t id)
{
    for (int i = 0; i < s->outboxes.n; i++) {
        mr_ps_outbox *b = s->outboxes.p[i];
        if (b->to != id)
            continue;
        mr_vec_remove_swap(&s->outboxes, i);
        outbox_clear(b);
        mr_vec_deinit(&b->messages);
        mr_free(b);
        return;
    }
}

/* ---- sending ---- */

enum { SMALL_PIECE = 4096 };

typedef struct raw_out { /* raw bytes of a call: small pieces are copied together, large ones are shared */
    mr_bytes bytes;
    mr_str small;
} raw_out;

/* b: the blob that holds the bytes; NULL only for pieces that are small enough to be copied. */
static void raw_add(raw_out *o, mr_ps_blob *b, const void *p, size_t n)
{
    MR_ASSERT(b || n < SMALL_PIECE);
    if (n < SMALL_PIECE) {
        mr_str_append(&o->small, p, n);
        return;
    }
    mr_bytes_add_str(&o->bytes, &o->small);
    mr_ps_bytes_add(&o->bytes, b, p, n);
}

/* The keys and floats of a change, each padded to 8 bytes, as mr_ps_change_raw counts them. */
static void put_raw(raw_out *raw, const mr_ps_server *s, const mr_ps_entry *e)
{
    static const char zeros[8];
    const mr_ps_change *c = &e->change;
    if (c->kind == MR_PS_CHANGE_NONE || c->kind == MR_PS_CHANGE_ALGEBRA)
        return;
    size_t floats = c->keys.n * mr_ps_change_width(s->store.tables.p[c->table], c->kind) * sizeof(float);
    if (c->keys.list)
        raw_add(raw, e->blob, c->keys.list, c->keys.n * sizeof(uint64_t));
    raw_add(raw, e->blob, c->floats, floats);
    raw_add(raw, NULL, zeros, -floats & 7);
}

/* The fields of the record go to w, its keys and floats to raw, in the same order. */
static void put_record(mr_pb_writer *w, raw_out *raw, const mr_ps_server *s, const mr_ps_record *r)
{
    size_t mark = mr_pb_begin(w, 7);
    mr_pb_put_varint(w, 1, r->version);
    for (int i = 0; i < r->entries.n; i++) {
        const mr_ps_entry *e = &r->entries.p[i];
        size_t inner = mr_pb_begin(w, 2), change;
        mr_pb_put_fixed64(w, 1, e->stamp.client);
        mr_pb_put_varint(w, 2, e->stamp.ts);
        change = mr_pb_begin(w, 3);
        mr_ps_change_put(w, &e->change);
        mr_pb_end(w, change);
        mr_pb_end(w, inner);
        put_raw(raw, s, e);
    }
    mr_pb_end(w, mark);
}

/* Field 2 of Chain: one message about one range. */
static void put_message(mr_pb_writer *w, raw_out *raw, const mr_ps_server *s, const mr_ps_message *message)
{
    size_t mark = mr_pb_begin(w, 2);
    mr_pb_opt_varint(w, 1, (uint64_t)message->kind);
    mr_pb_opt_varint(w, 2, (uint64_t)message->range);
    mr_pb_opt_varint(w, 3, message->epoch);
    mr_pb_opt_varint(w, 4, message->version);
    mr_pb_opt_varint(w, 5, message->stable);
    mr_pb_opt_varint(w, 6, message->again);
    for (int i = 0; i < message->records.n; i++)
        put_record(w, raw, s, &message->records.p[i]);
    mr_pb_end(w, mark);
}

/* The call to a server has ended. After a failure the queued messages are dropped: when the server
 * is back, they would be out of date. */
static void on_chained(void *owner, mr_ps_ask *a)
{
    mr_ps_server *s = owner;
    for (int i = 0; i < s->outboxes.n; i++)
        if (s->outboxes.p[i]->to == a->to) {
            s->outboxes.p[i]->busy = false;
            if (a->st)
                outbox_clear(s->outboxes.p[i]);
        }
    mr_ps_ask_deinit(a);
    mr_free(a);
}

enum { MAX_PIECES = 900 }; /* of one call: the local transport accepts 1024 */

/* Sends as many queued messages as one call can carry; the rest waits for its end. */
static void send_messages(mr_ps_server *s, mr_ps_outbox *b)
{
    mr_pb_writer w;
    mr_str head = {0};
    raw_out raw = {0};
    mr_bytes body = {0};
    int n = 0;
    MR_ASSERT(!b->busy && b->messages.n > 0);
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, s->id);
    while (n < b->messages.n && raw.bytes.pieces.n < MAX_PIECES)
        put_message(&w, &raw, s, &b->messages.p[n++]);
    /* Large pieces of the call hold their own references to the blobs. */
    for (int i = 0; i < n; i++)
        mr_ps_message_deinit(&b->messages.p[i]);
    memmove(b->messages.p, b->messages.p + n, (size_t)(b->messages.n - n) * sizeof *b->messages.p);
    b->messages.n -= n;
    mr_bytes_add_str(&raw.bytes, &raw.small);
    mr_status *st = mr_ps_head_end(&w, &head, &raw.bytes, &body);
    if (st) {
        mr_warn("parameters: cannot send %d messages to another server: %s", n, mr_status_message(st));
        mr_status_free(st);
        return;
    }
    mr_ps_ask *a = mr_new(mr_ps_ask);
    a->answered = on_chained;
    b->busy = true;
    mr_ps_ask_start(&s->routes, a, b->to, mr_ps_map_address(&s->map, b->to), MR_PS_SERVICE "Chain", &body,
                    mr_now_ns() + CHAIN_NS);
}

/* Nothing is sent after `closing`: the messages are freed with their outboxes. */
void mr_ps_server_flush(mr_ps_server *s)
{
    for (int i = 0; i < s->outboxes.n && !s->closing; i++)
        if (!s->outboxes.p[i]->busy && s->outboxes.p[i]->messages.n > 0)
            send_messages(s, s->outboxes.p[i]);
}

/* ---- receiving ---- */

/* Finds the keys and floats of a change in the call's raw bytes, at *at, which moves behind them.
 * The entry shares the blob. ALGEBRA and NONE have no raw bytes. */
static mr_status *take_raw(const mr_ps_server *s, mr_ps_blob *raw, size_t *at, bool listed, mr_ps_entry *e)
{
    MR_ASSERT(*at <= raw->n);
    mr_ps_change *c = &e->change;
    if (c->kind == MR_PS_CHANGE_NONE)
        return NULL;
    if ((unsigned)c->kind >= MR_PS_CHANGE_KINDS)
        return mr_invalid("Unknown kind of change: %d", (int)c->kind);
    if (c->table < 0 || c->table >= s->store.tables.n)
        return mr_error(MR_UNAVAILABLE, "Table %d is not known here yet", c->table);
    if (c->kind == MR_PS_CHANGE_ALGEBRA)
        return NULL;
    static const uint64_t some;
    c->keys.list = listed ? &some : NULL;
    size_t n = mr_ps_change_raw(c, s->store.tables.p[c->table]),
           keys = listed ? c->keys.n * sizeof(uint64_t) : 0;
    if (n > raw->n - *at)
        return mr_invalid("A record announces %zu bytes of keys and values, but only %zu follow", n, raw->n - *at);
    c->keys.list = listed ? (const uint64_t *)(raw->data + *at) : NULL;
    c->floats = (const float *)(raw->data + *at + keys);
    e->blob = mr_ps_blob_ref(raw);
    *at += n;
    return NULL;
}

/* A parse error is left in r, where the caller of the outermost reader finds it. */
static mr_status *get_entry(const mr_ps_server *s, mr_pb_reader *r, mr_ps_blob *raw, size_t *at,
                            mr_ps_entry *e)
{
    mr_pb_reader sub;
    uint32_t field, wire;
    bool listed = false;
    while (mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: e->stamp.client = mr_pb_fixed64(r); break;
        case 2: e->stamp.ts = mr_pb_varint(r); break;
        case 3:
            if (mr_pb_message(r, &sub))
                mr_ps_change_get(&sub, &e->change, &listed);
            break;
        default: mr_pb_skip(r);
        }
    return r->error ? NULL : take_raw(s, raw, at, listed, e);
}

/* The entry is added even after an error, so that mr_ps_record_deinit frees its blob. */
static mr_status *get_record(const mr_ps_server *s, mr_pb_reader *r, mr_ps_blob *raw, size_t *at,
                             mr_ps_record *out)
{
    mr_pb_reader sub;
    uint32_t field, wire;
    mr_status *st = NULL;
    while (!st && mr_pb_next(r, &field, &wire)) {
        mr_ps_entry e = {0};
        if (field == 1) {
            out->version = mr_pb_varint(r);
        } else if (field == 2 && mr_pb_message(r, &sub)) {
            st = get_entry(s, &sub, raw, at, &e);
            mr_vec_push(&out->entries, e);
        } else if (field != 2) {
            mr_pb_skip(r);
        }
    }
    return st;
}

/* A parse error is left in r. Kind and epoch are not checked here; the range is, if r has no error. After any error
 * the caller still calls mr_ps_message_deinit. */
mr_status *mr_ps_message_get(const mr_ps_server *s, mr_pb_reader *r, mr_ps_blob *raw, size_t *at, mr_ps_message *w)
{
    mr_pb_reader sub;
    uint32_t field, wire;
    mr_status *st = NULL;
    while (!st && mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: w->kind = mr_pb_int32(r); break;
        case 2: w->range = mr_pb_int32(r); break;
        case 3: w->epoch = mr_pb_varint(r); break;
        case 4: w->version = mr_pb_varint(r); break;
        case 5: w->stable = mr_pb_varint(r); break;
        case 6: w->again = mr_pb_bool(r); break;
        case 7:
            if (mr_pb_message(r, &sub)) {
                mr_vec_push(&w->records, (mr_ps_record){0});
                st = get_record(s, &sub, raw, at, &mr_vec_last(&w->records));
            }
            break;
        default: mr_pb_skip(r);
        }
    if (!st && !r->error && (w->range < 0 || w->range >= s->store.n_ranges))
        st = mr_invalid("A chain message is about range %d, expected 0 to %d", w->range, s->store.n_ranges - 1);
    return st;
}
