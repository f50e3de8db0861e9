/* ps/server_chain.c -- what members of a chain tell each other, and what was decided.
 *
 * Words about many slots to one server travel in one message (Chain), one message at a time: so they keep their order, and
 * what comes while one is under way is put together in the next.  A message that is lost is not sent again: dist/ps_replica.h
 * asks again by itself. */
#include "ps/server_internal.h"

#include "base/clock.h"
#include "base/log.h"

#define MS INT64_C(1000000)
#define CHAIN_NS (2000 * MS)
#define COPY_NS (30000 * MS)

/* ---- records ---- */

void mr_ps_record_deinit(mr_ps_record *r)
{
    for (int i = 0; i < r->entries.n; i++)
        mr_ps_blob_unref(r->entries.p[i].blob);
    mr_vec_deinit(&r->entries);
}

static mr_ps_record record_share(const mr_ps_record *from)
{
    mr_ps_record r = {.version = from->version};
    for (int i = 0; i < from->entries.n; i++) {
        mr_ps_entry e = from->entries.p[i];
        mr_ps_blob_ref(e.blob);
        mr_vec_push(&r.entries, e);
    }
    return r;
}

static void drop_kept(mr_ps_slot_state *s, uint64_t through)
{
    int n = 0;
    while (n < s->kept.n && s->kept.p[n].version <= through)
        mr_ps_record_deinit(&s->kept.p[n++]);
    if (n > 0)
        memmove(s->kept.p, s->kept.p + n, (size_t)(s->kept.n - n) * sizeof *s->kept.p);
    s->kept.n -= n;
}

void mr_ps_slot_state_deinit(mr_ps_slot_state *s)
{
    drop_kept(s, UINT64_MAX);
    mr_vec_deinit(&s->kept);
    mr_psr_deinit(&s->r);
}

/* ---- words that wait ---- */

static void word_deinit(mr_ps_word *w)
{
    for (int i = 0; i < w->records.n; i++)
        mr_ps_record_deinit(&w->records.p[i]);
    mr_vec_deinit(&w->records);
}

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

static void outbox_clear(mr_ps_outbox *b)
{
    for (int i = 0; i < b->words.n; i++)
        word_deinit(&b->words.p[i]);
    b->words.n = 0;
}

void mr_ps_server_drop_peer(mr_ps_server *s, uint64_t id)
{
    for (int i = 0; i < s->outboxes.n; i++) {
        mr_ps_outbox *b = s->outboxes.p[i];
        if (b->to != id)
            continue;
        mr_vec_remove_swap(&s->outboxes, i);
        outbox_clear(b);
        mr_vec_deinit(&b->words);
        mr_free(b);
        return;
    }
}

/* ---- a message of them ---- */

enum { SMALL_PIECE = 4096 };

typedef struct
    raw_out { /* raw bytes of a message: small pieces are put together, large ones go as they lie */
    mr_bytes bytes;
    mr_str small;
} raw_out;

static void raw_add(raw_out *o, mr_ps_blob *b, const void *p, size_t n)
{
    if (n < SMALL_PIECE) {
        mr_str_append(&o->small, p, n);
        return;
    }
    mr_bytes_add_str(&o->bytes, &o->small);
    mr_ps_bytes_add(&o->bytes, b, p, n);
}

/* A change's keys and floats, each padded to 8 bytes. */
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

static void put_word(mr_pb_writer *w, raw_out *raw, const mr_ps_server *s, const mr_ps_word *word)
{
    size_t mark = mr_pb_begin(w, 2);
    mr_pb_opt_varint(w, 1, (uint64_t)word->kind);
    mr_pb_opt_varint(w, 2, (uint64_t)word->slot);
    mr_pb_opt_varint(w, 3, word->epoch);
    mr_pb_opt_varint(w, 4, word->version);
    mr_pb_opt_varint(w, 5, word->stable);
    mr_pb_opt_varint(w, 6, word->again);
    for (int i = 0; i < word->records.n; i++)
        put_record(w, raw, s, &word->records.p[i]);
    mr_pb_end(w, mark);
}

static void on_chained(void *owner, mr_ps_ask *a)
{
    mr_ps_server *s = owner;
    for (int i = 0; i < s->outboxes.n; i++)
        if (s->outboxes.p[i]->to == a->to) {
            s->outboxes.p[i]->busy = false;
            if (a->st) /* who is not there is not told old words when it is back */
                outbox_clear(s->outboxes.p[i]);
        }
    mr_ps_ask_deinit(a);
    mr_free(a);
}

enum { MAX_PIECES = 900 }; /* of a message: the local transport takes 1024 */

static void send_words(mr_ps_server *s, mr_ps_outbox *b)
{
    mr_pb_writer w;
    mr_str head = {0};
    raw_out raw = {0};
    mr_bytes body = {0};
    int n = 0;
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, s->id);
    while (n < b->words.n && raw.bytes.pieces.n < MAX_PIECES)
        put_word(&w, &raw, s, &b->words.p[n++]);
    for (int i = 0; i < n; i++)
        word_deinit(&b->words.p[i]);
    memmove(b->words.p, b->words.p + n, (size_t)(b->words.n - n) * sizeof *b->words.p);
    b->words.n -= n;
    mr_bytes_add_str(&raw.bytes, &raw.small);
    mr_status *st = mr_ps_head_end(&w, &head, &raw.bytes, &body);
    if (st) {
        mr_warn("parameters: %s", mr_status_message(st));
        mr_status_free(st);
        return;
    }
    mr_ps_ask *a = mr_new(mr_ps_ask);
    a->answered = on_chained;
    b->busy = true;
    mr_ps_ask_start(&s->ways, a, b->to, mr_ps_map_address(&s->map, b->to), MR_PS_SERVICE "Chain", &body,
                    mr_now_ns() + CHAIN_NS);
}

void mr_ps_server_flush(mr_ps_server *s)
{
    for (int i = 0; i < s->outboxes.n && !s->closing; i++)
        if (!s->outboxes.p[i]->busy && s->outboxes.p[i]->words.n > 0)
            send_words(s, s->outboxes.p[i]);
}

/* ---- copies ---- */

typedef struct copy_ask {
    mr_ps_ask ask; /* first */
    int slot;
} copy_ask;

static void on_copied(void *owner, mr_ps_ask *ask)
{
    mr_ps_server *s = owner;
    copy_ask *a = (copy_ask *)ask;
    if (s->slots && !s->closing) {
        mr_psr_copied(&s->slots[a->slot].r, ask->to, !ask->st, mr_now_ns(), &s->actions);
        mr_ps_server_act(s, a->slot, NULL);
    }
    mr_ps_ask_deinit(ask);
    mr_free(a);
}

static mr_status *copy_body(mr_ps_server *s, int slot, const mr_psr_action *act, mr_bytes *body)
{
    mr_pb_writer w;
    mr_str head = {0}, packed = {0};
    mr_bytes raw = {0};
    mr_ps_stamps stamps = {0};
    mr_status *st = mr_ps_store_pack(&s->store, slot, &packed);
    if (st) {
        mr_str_deinit(&packed);
        return st;
    }
    mr_ps_clock_export(&s->clock, slot, &stamps);
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, s->id);
    mr_pb_opt_varint(&w, 2, (uint64_t)slot);
    mr_pb_opt_varint(&w, 3, s->slots[slot].r.view.epoch);
    mr_pb_opt_varint(&w, 4, act->version);
    for (int i = 0; i < stamps.n; i++) {
        mr_pb_put_fixed64(&w, 5, stamps.p[i].client);
        mr_pb_put_varint(&w, 6, stamps.p[i].ts);
    }
    mr_pb_opt_varint(&w, 7, (uint64_t)s->store.tables.n);
    mr_vec_deinit(&stamps);
    mr_bytes_add_str(&raw, &packed);
    return mr_ps_head_end(&w, &head, &raw, body);
}

static void send_copy(mr_ps_server *s, int slot, const mr_psr_action *act)
{
    mr_bytes body = {0};
    copy_ask *a = mr_new(copy_ask);
    a->slot = slot;
    a->ask.answered = on_copied;
    mr_status *st = copy_body(s, slot, act, &body);
    if (st) { /* it is refused where it comes to, and made again later */
        mr_warn("parameters: no copy of range %d: %s", slot, mr_status_message(st));
        mr_status_free(st);
    }
    mr_ps_ask_start(&s->ways, &a->ask, act->to, mr_ps_map_address(&s->map, act->to), MR_PS_SERVICE "Copy",
                    &body, mr_now_ns() + COPY_NS);
}

/* ---- what was decided ---- */

/* A user's graph is run by the head alone: others are told what came of it. */
static mr_status *run_graph(mr_ps_server *s, int slot, mr_ps_entry *e)
{
    mr_ps_change *c = &e->change;
    const mr_ps_table_spec *t = s->store.tables.p[c->table];
    size_t row = mr_ps_table_row_floats(t), keys = c->keys.list ? c->keys.n * sizeof(uint64_t) : 0, bytes;
    if (c->keys.n == 0)
        return NULL;
    if (!s->graphs.p[c->table])
        return mr_error(MR_FAILED_PRECONDITION, "Table '%s': its graph cannot be run", t->name);
    mr_ps_blob *b = mr_size_mul(c->keys.n, row * sizeof(float), &bytes) ? mr_ps_blob_new(keys + bytes) : NULL;
    if (!b)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Table '%s': no memory to run its graph", t->name);
    float *rows = (float *)(b->data + keys);
    if (keys)
        memcpy(b->data, c->keys.list, keys);
    mr_ps_store_read(&s->store, c->table, slot, c->keys, true, rows);
    mr_status *st = mr_ps_graph_update_run(s->graphs.p[c->table], rows, c->floats, c->keys.n);
    if (st) {
        mr_ps_blob_unref(b);
        return mr_status_prepend(st, "Table '%s': ", t->name);
    }
    mr_ps_blob_unref(e->blob);
    e->blob = b;
    c->kind = MR_PS_CHANGE_SET;
    c->keys.list = keys ? (const uint64_t *)b->data : NULL;
    c->floats = rows;
    return NULL;
}

/* What is pushed to a slot is applied at once, and kept until all members have it. */
static void make_record(mr_ps_server *s, int slot, uint64_t version)
{
    mr_ps_slot_state *state = &s->slots[slot];
    mr_ps_record r = {.version = version};
    for (int i = 0; i < state->r.batch.n; i++) {
        const mr_psr_push *p = &state->r.batch.p[i];
        mr_ps_push_part *part = (mr_ps_push_part *)(uintptr_t)p->cookie;
        mr_ps_entry e = {{p->client, p->ts}, part->change, mr_ps_blob_ref(part->of->blob)};
        if (e.change.kind == MR_PS_CHANGE_PUSH && s->store.tables.p[e.change.table]->o.update == MR_PS_GRAPH)
            part->st = run_graph(s, slot, &e);
        /* Memory was taken when the push came, but the slot may have been emptied since. */
        if (!part->st)
            part->st = mr_ps_store_check(&s->store, slot, &e.change);
        if (part->st)
            e.change = (mr_ps_change){.kind = MR_PS_CHANGE_NONE};
        mr_ps_store_change(&s->store, slot, &e.change);
        mr_vec_push(&r.entries, e);
    }
    if (state->r.after)
        mr_ps_record_aggregate(&s->store, slot, &r);
    mr_vec_push(&state->kept, r);
}

static void apply_record(mr_ps_server *s, int slot, mr_ps_record *r)
{
    mr_ps_slot_state *state = &s->slots[slot];
    for (int i = 0; i < r->entries.n; i++) {
        mr_status *st = mr_ps_store_check(&s->store, slot, &r->entries.p[i].change);
        if (st) { /* a member that cannot follow would differ from the others */
            mr_ps_server_fail(s, mr_status_prepend(st, "range %d: ", slot));
            return;
        }
        mr_ps_store_change(&s->store, slot, &r->entries.p[i].change);
    }
    mr_vec_push(&state->kept, *r);
    *r = (mr_ps_record){0};
}

static void queue_records(mr_ps_server *s, int slot, const mr_psr_action *a)
{
    mr_ps_slot_state *state = &s->slots[slot];
    mr_ps_word w = {.kind = MR_PS_WORD_APPEND, .slot = slot, .epoch = state->r.view.epoch};
    for (int i = 0; i < state->kept.n; i++)
        if (state->kept.p[i].version >= a->first && state->kept.p[i].version <= a->version)
            mr_vec_push(&w.records, record_share(&state->kept.p[i]));
    mr_vec_push(&outbox_of(s, a->to)->words, w);
}

static void install(mr_ps_server *s, int slot, const mr_ps_hand *h)
{
    drop_kept(&s->slots[slot], UINT64_MAX);
    mr_status *st =
        h ? mr_ps_store_unpack(&s->store, slot, h->copy) : mr_error(MR_INTERNAL, "There is no copy");
    if (st)
        mr_ps_server_fail(s, mr_status_prepend(st, "range %d: ", slot));
}

static void act(mr_ps_server *s, int slot, const mr_psr_action *a, mr_ps_hand *h)
{
    mr_ps_slot_state *state = &s->slots[slot];
    switch (a->what) {
    case MR_PSR_RECORD: make_record(s, slot, a->version); break;
    case MR_PSR_APPLY: apply_record(s, slot, &h->records[a->index]); break;
    case MR_PSR_SEND: queue_records(s, slot, a); break;
    case MR_PSR_HAVE:
        mr_vec_push(&outbox_of(s, a->to)->words, (mr_ps_word){.kind = MR_PS_WORD_HAVE,
                                                              .slot = slot,
                                                              .epoch = state->r.view.epoch,
                                                              .version = a->version,
                                                              .stable = a->stable,
                                                              .again = a->again});
        break;
    case MR_PSR_REFUSE:
        mr_vec_push(&outbox_of(s, a->to)->words,
                    (mr_ps_word){.kind = MR_PS_WORD_REFUSE, .slot = slot, .epoch = a->epoch});
        break;
    case MR_PSR_COPY: send_copy(s, slot, a); break;
    case MR_PSR_INSTALL: install(s, slot, h); break;
    case MR_PSR_RESET:
        drop_kept(state, UINT64_MAX);
        mr_ps_store_drop(&s->store, slot);
        break;
    case MR_PSR_FORGET: drop_kept(state, a->version); break;
    case MR_PSR_ANSWER:
        mr_ps_push_answered((mr_ps_push_part *)(uintptr_t)a->cookie, a->code, a->epoch, a->version);
        break;
    case MR_PSR_COMPLETE: mr_ps_server_report(s, slot, a->epoch, false, a->to); break;
    case MR_PSR_DRAINED: mr_ps_server_report(s, slot, a->epoch, true, 0); break;
    case MR_PSR_ASK_VIEW: break; /* the Watch that is open is answered as soon as there is one */
    }
}

void mr_ps_server_act(mr_ps_server *s, int slot, mr_ps_hand *h)
{
    for (int i = 0; i < s->actions.n; i++) {
        mr_psr_action a = s->actions.p[i];
        act(s, slot, &a, h);
    }
    s->actions.n = 0;
}

/* ---- words that come ---- */

/* Takes keys and floats of a change out of the message's raw bytes. */
static mr_status *take_raw(const mr_ps_server *s, mr_ps_blob *raw, size_t *at, bool listed, mr_ps_entry *e)
{
    mr_ps_change *c = &e->change;
    if (c->kind == MR_PS_CHANGE_NONE)
        return NULL;
    if ((unsigned)c->kind >= MR_PS_CHANGE_KINDS)
        return mr_invalid("There is no change %d", (int)c->kind);
    if (c->table < 0 || c->table >= s->store.tables.n)
        return mr_error(MR_UNAVAILABLE, "Table %d is not known here yet", c->table);
    if (c->kind == MR_PS_CHANGE_ALGEBRA)
        return NULL;
    static const uint64_t some;
    c->keys.list = listed ? &some : NULL;
    size_t n = mr_ps_change_raw(c, s->store.tables.p[c->table]),
           keys = listed ? c->keys.n * sizeof(uint64_t) : 0;
    if (n > raw->n - *at)
        return mr_invalid("A record tells of %zu bytes, and has %zu", n, raw->n - *at);
    c->keys.list = listed ? (const uint64_t *)(raw->data + *at) : NULL;
    c->floats = (const float *)(raw->data + *at + keys);
    e->blob = mr_ps_blob_ref(raw);
    *at += n;
    return NULL;
}

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

static mr_status *get_word(const mr_ps_server *s, mr_pb_reader *r, mr_ps_blob *raw, size_t *at, mr_ps_word *w)
{
    mr_pb_reader sub;
    uint32_t field, wire;
    mr_status *st = NULL;
    while (!st && mr_pb_next(r, &field, &wire))
        switch (field) {
        case 1: w->kind = mr_pb_int32(r); break;
        case 2: w->slot = mr_pb_int32(r); break;
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
    if (!st && !r->error && (w->slot < 0 || w->slot >= s->store.n_slots))
        st = mr_invalid("A word about range %d of %d", w->slot, s->store.n_slots);
    return st;
}

/* Records must be possible before any of them is taken: what would not be is nothing that a head made. */
static mr_status *check_records(mr_ps_server *s, const mr_ps_word *w)
{
    for (int i = 0; i < w->records.n; i++)
        for (int j = 0; j < w->records.p[i].entries.n; j++)
            MR_TRY(mr_ps_store_check(&s->store, w->slot, &w->records.p[i].entries.p[j].change));
    return NULL;
}

static void take_append(mr_ps_server *s, uint64_t from, mr_ps_word *w, int64_t now_ns)
{
    MR_VEC(mr_psr_record) told = {0};
    mr_ps_stamps stamps = {0};
    for (int i = 0; i < w->records.n; i++)
        for (int j = 0; j < w->records.p[i].entries.n; j++)
            mr_vec_push(&stamps, w->records.p[i].entries.p[j].stamp);
    int at = 0;
    for (int i = 0; i < w->records.n; i++) {
        int n = w->records.p[i].entries.n;
        mr_vec_push(&told, (mr_psr_record){w->records.p[i].version, stamps.p + at, n});
        at += n;
    }
    mr_ps_hand h = {.records = w->records.p};
    mr_psr_append(&s->slots[w->slot].r, from, w->epoch, told.p, told.n, now_ns, &s->actions);
    mr_ps_server_act(s, w->slot, &h);
    mr_vec_deinit(&told);
    mr_vec_deinit(&stamps);
}

static mr_status *take_word(mr_ps_server *s, uint64_t from, mr_ps_word *w)
{
    int64_t now = mr_now_ns();
    mr_psr *r = &s->slots[w->slot].r;
    switch (w->kind) {
    case MR_PS_WORD_APPEND:
        MR_TRY(check_records(s, w));
        take_append(s, from, w, now);
        return NULL;
    case MR_PS_WORD_HAVE:
        mr_psr_have(r, from, w->epoch, w->version, w->stable, w->again, now, &s->actions);
        break;
    case MR_PS_WORD_REFUSE: mr_psr_refused(r, from, w->epoch, &s->actions); break;
    default: return mr_invalid("There is no word %d", (int)w->kind);
    }
    mr_ps_server_act(s, w->slot, NULL);
    return NULL;
}

/* Words are taken one by one: one that is no good does not spoil the others, but raw bytes behind it cannot be told apart. */
static mr_status *take_words(mr_ps_server *s, const mr_ps_frame *f, mr_ps_blob *raw)
{
    mr_pb_reader r, sub;
    uint32_t field, wire;
    uint64_t from = 0;
    size_t at = 0;
    mr_status *st = NULL, *bad = NULL;
    mr_pb_reader_init(&r, f->head);
    while (!st && mr_pb_next(&r, &field, &wire)) {
        if (field == 1) {
            from = mr_pb_fixed64(&r);
        } else if (field == 2 && mr_pb_message(&r, &sub)) {
            mr_ps_word w = {0};
            st = get_word(s, &sub, raw, &at, &w);
            if (!st && !r.error)
                mr_status_update(&bad, take_word(s, from, &w));
            word_deinit(&w);
        } else if (field != 2) {
            mr_pb_skip(&r);
        }
    }
    mr_status_update(&st, bad);
    return st ? st : mr_pb_reader_status(&r, "Chain");
}

void mr_ps_server_chain(mr_ps_server *s, mr_net_call *c)
{
    mr_ps_frame f = {0};
    mr_ps_blob *raw = NULL;
    mr_status *st = mr_ps_frame_open(&c->body, &f);
    if (!st)
        st = mr_ps_frame_take(&f, 0, f.raw_n, &raw);
    if (!st)
        st = take_words(s, &f, raw);
    mr_ps_blob_unref(raw);
    mr_ps_frame_deinit(&f);
    mr_ps_reply(c, st, NULL);
}

/* ---- copies that come ---- */

typedef struct copy_head {
    uint64_t from, epoch, version;
    int slot, tables;
    mr_ps_stamps stamps;
} copy_head;

static mr_status *get_copy(mr_sv head, int n_slots, copy_head *h)
{
    mr_pb_reader r;
    uint32_t field, wire;
    int n_ts = 0;
    mr_pb_reader_init(&r, head);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: h->from = mr_pb_fixed64(&r); break;
        case 2: h->slot = mr_pb_int32(&r); break;
        case 3: h->epoch = mr_pb_varint(&r); break;
        case 4: h->version = mr_pb_varint(&r); break;
        case 5: mr_vec_push(&h->stamps, (mr_ps_stamp){.client = mr_pb_fixed64(&r)}); break;
        case 6:
            if (n_ts < h->stamps.n)
                h->stamps.p[n_ts++].ts = mr_pb_varint(&r);
            else
                mr_pb_fail(&r, "a time without a client");
            break;
        case 7: h->tables = mr_pb_int32(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "Copy"));
    return h->slot >= 0 && h->slot < n_slots ? NULL
                                             : mr_invalid("A copy of range %d of %d", h->slot, n_slots);
}

void mr_ps_server_copy(mr_ps_server *s, mr_net_call *c)
{
    mr_ps_frame f = {0};
    mr_ps_blob *raw = NULL;
    copy_head h = {0};
    mr_status *st = mr_ps_frame_open(&c->body, &f);
    if (!st)
        st = get_copy(f.head, s->store.n_slots, &h);
    if (!st && h.tables > s->store.tables.n)
        st = mr_error(MR_UNAVAILABLE, "A copy has %d tables, %d are known here", h.tables, s->store.tables.n);
    if (!st)
        st = mr_ps_frame_take(&f, 0, f.raw_n, &raw);
    if (!st)
        st = mr_ps_store_try(&s->store, h.slot, (mr_sv){raw->data, raw->n});
    if (!st) {
        mr_ps_hand hand = {.copy = {raw->data, raw->n}};
        mr_psr_copy(&s->slots[h.slot].r, h.from, h.epoch, h.version, h.stamps.p, h.stamps.n, mr_now_ns(),
                    &s->actions);
        mr_ps_server_act(s, h.slot, &hand);
    }
    mr_vec_deinit(&h.stamps);
    mr_ps_blob_unref(raw);
    mr_ps_frame_deinit(&f);
    mr_ps_reply(c, st, NULL);
}
