/* ps/server_chain.c -- what the slots of a server decided (dist/ps_replica.h), carried out, and words of other members taken.
 *
 * The store and the records that are kept change here alone, in the order of the actions: so at the end of each event a slot
 * holds what its mr_psr counts, and records kept follow each other up to that version. */
#include "ps/server_internal.h"

#include "base/clock.h"
#include "base/log.h"

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
        if (st) { /* it was checked, and memory taken, when it came: a member that goes on without it would differ */
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
    mr_ps_server_say(s, a->to, w);
}

static void install(mr_ps_server *s, int slot, const mr_ps_hand *h)
{
    drop_kept(&s->slots[slot], UINT64_MAX);
    if (h && h->copy && h->copy->parts)
        mr_ps_store_install(&s->store, slot, h->copy);
    else
        mr_ps_server_fail(s, mr_error(MR_INTERNAL, "range %d: there is no copy", slot));
}

static void act(mr_ps_server *s, int slot, const mr_psr_action *a, mr_ps_hand *h)
{
    mr_ps_slot_state *state = &s->slots[slot];
    switch (a->what) {
    case MR_PSR_RECORD: make_record(s, slot, a->version); break;
    case MR_PSR_APPLY: apply_record(s, slot, &h->records[a->index]); break;
    case MR_PSR_SEND: queue_records(s, slot, a); break;
    case MR_PSR_HAVE:
        mr_ps_server_say(s, a->to,
                         (mr_ps_word){.kind = MR_PS_WORD_HAVE,
                                      .slot = slot,
                                      .epoch = state->r.view.epoch,
                                      .version = a->version,
                                      .stable = a->stable,
                                      .again = a->again});
        break;
    case MR_PSR_REFUSE:
        mr_ps_server_say(s, a->to,
                         (mr_ps_word){.kind = MR_PS_WORD_REFUSE, .slot = slot, .epoch = a->epoch});
        break;
    case MR_PSR_COPY: mr_ps_server_send_copy(s, slot, a); break;
    case MR_PSR_INSTALL: install(s, slot, h); break;
    case MR_PSR_RESET:
        drop_kept(state, UINT64_MAX);
        mr_ps_store_drop(&s->store, slot);
        break;
    case MR_PSR_FORGET: drop_kept(state, a->version); break;
    case MR_PSR_ANSWER:
        mr_ps_push_answered((mr_ps_push_part *)(uintptr_t)a->cookie, a->code, a->epoch, a->version);
        break;
    case MR_PSR_COMPLETE:
    case MR_PSR_DRAINED:
    case MR_PSR_DECLINE: mr_ps_server_report(s, slot, a); break;
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

void mr_ps_server_decline(mr_ps_server *s, int slot, uint64_t from, uint64_t epoch, const mr_status *why)
{
    mr_psr_decline(&s->slots[slot].r, from, epoch, &s->actions);
    if (s->actions.n > 0)
        mr_warn("parameters: range %d is declined: %s", slot, mr_status_message(why));
    mr_ps_server_act(s, slot, NULL);
}

/* Records must be possible before any of them is taken: what would not be is nothing that a head made, unless it is for want
 * of memory.  That is taken here, for all of them. */
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
    mr_status *st;
    switch (w->kind) {
    case MR_PS_WORD_APPEND:
        st = mr_psr_follows(r, from, w->epoch) ? check_records(s, w) : NULL;
        if (mr_status_code(st) == MR_RESOURCE_EXHAUSTED)
            mr_ps_server_decline(s, w->slot, from, w->epoch, st);
        if (!st)
            take_append(s, from, w, now);
        return st;
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
            st = mr_ps_word_get(s, &sub, raw, &at, &w);
            if (!st && !r.error)
                mr_status_update(&bad, take_word(s, from, &w));
            mr_ps_word_deinit(&w);
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
