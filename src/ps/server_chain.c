/* ps/server_chain.c -- carries out what the ranges decide (dist/ps_replica.h), and takes messages
 * of other members of the chain.
 *
 * The path of a push, from the head to the tail and back:
 *
 *     head       offer_part -> RECORD: make_record applies it and keeps it -> SEND: queue_records
 *     others     take_append -> APPLY: apply_record, kept too -> SEND to the next, HAVE to the one before
 *     head       HAVE makes the record stable -> ANSWER: the client's part is answered
 *     all        FORGET: drop_kept, when all members behind have it
 *
 * Only this file changes the store and the kept records, and it does so in the order of the
 * actions. Therefore, at the end of each event:
 *
 * - the store holds exactly the version that the range's mr_psr counts;
 * - the records in `kept` have consecutive versions, and the last one is that version. */
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

/* A copy that shares the blobs; the caller owns it. */
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

/* Frees the kept records up to a version, inclusive. */
static void drop_kept(mr_ps_range_state *s, uint64_t through)
{
    int n = 0;
    while (n < s->kept.n && s->kept.p[n].version <= through)
        mr_ps_record_deinit(&s->kept.p[n++]);
    if (n > 0)
        memmove(s->kept.p, s->kept.p + n, (size_t)(s->kept.n - n) * sizeof *s->kept.p);
    s->kept.n -= n;
    MR_ASSERT(s->kept.n == 0 || s->kept.p[0].version > through);
}

void mr_ps_range_state_deinit(mr_ps_range_state *s)
{
    drop_kept(s, UINT64_MAX);
    mr_vec_deinit(&s->kept);
    mr_psr_deinit(&s->r);
}

/* ---- carrying out actions ---- */

/* Runs a table's update graph on the rows of a push. Only the head does this, because a graph need
 * not give the same bits everywhere: the entry becomes a SET of the resulting rows, which the other
 * members copy. On error the entry is as it was. */
static mr_status *run_graph(mr_ps_server *s, int range, mr_ps_entry *e)
{
    MR_ASSERT(e->change.kind == MR_PS_CHANGE_PUSH);
    mr_ps_change *c = &e->change;
    const mr_ps_table_spec *t = s->store.tables.p[c->table];
    size_t row = mr_ps_table_row_floats(t), keys = c->keys.list ? c->keys.n * sizeof(uint64_t) : 0, bytes;
    if (c->keys.n == 0)
        return NULL;
    if (!s->graphs.p[c->table])
        return mr_error(MR_FAILED_PRECONDITION, "Table '%s': this server could not load its update graph", t->name);
    mr_ps_blob *b = mr_size_mul(c->keys.n, row * sizeof(float), &bytes) ? mr_ps_blob_new(keys + bytes) : NULL;
    if (!b)
        return mr_error(MR_RESOURCE_EXHAUSTED, "Table '%s': no memory to run its update graph", t->name);
    float *rows = (float *)(b->data + keys);
    if (keys)
        memcpy(b->data, c->keys.list, keys);
    mr_ps_store_read(&s->store, c->table, range, c->keys, true, rows);
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

/* The head turns the waiting pushes into one record: they are applied now, and kept until all
 * members have them. A push whose update fails stays in the record as NONE, because its number was
 * counted; the error goes to its client with the answer. */
static void make_record(mr_ps_server *s, int range, uint64_t version)
{
    mr_ps_range_state *state = &s->ranges[range];
    mr_ps_record r = {.version = version};
    MR_ASSERT(state->kept.n == 0 || mr_vec_last(&state->kept).version + 1 == version);
    for (int i = 0; i < state->r.batch.n; i++) {
        const mr_psr_push *p = &state->r.batch.p[i];
        mr_ps_push_part *part = (mr_ps_push_part *)(uintptr_t)p->cookie;
        mr_ps_entry e = {{p->client, p->ts}, part->change, mr_ps_blob_ref(part->of->blob)};
        if (e.change.kind == MR_PS_CHANGE_PUSH && s->store.tables.p[e.change.table]->o.update == MR_PS_GRAPH)
            part->st = run_graph(s, range, &e);
        /* Memory was reserved when the push came, but the range may have been emptied since. */
        if (!part->st)
            part->st = mr_ps_store_check(&s->store, range, &e.change);
        if (part->st)
            e.change = (mr_ps_change){.kind = MR_PS_CHANGE_NONE};
        mr_ps_store_change(&s->store, range, &e.change);
        mr_vec_push(&r.entries, e);
    }
    if (state->r.after)
        mr_ps_record_aggregate(&s->store, range, &r);
    mr_vec_push(&state->kept, r);
}

/* A member applies a record of the head and keeps it; *r is moved from. The record was checked, and
 * its memory reserved, when it came. If it fails now, the server must stop: a member that goes on
 * without it would hold other values. */
static void apply_record(mr_ps_server *s, int range, mr_ps_record *r)
{
    mr_ps_range_state *state = &s->ranges[range];
    MR_ASSERT(state->kept.n == 0 || mr_vec_last(&state->kept).version + 1 == r->version);
    for (int i = 0; i < r->entries.n; i++) {
        mr_status *st = mr_ps_store_check(&s->store, range, &r->entries.p[i].change);
        if (st) {
            mr_ps_server_fail(s, mr_status_prepend(st, "range %d: ", range));
            return;
        }
        mr_ps_store_change(&s->store, range, &r->entries.p[i].change);
    }
    mr_vec_push(&state->kept, *r);
    *r = (mr_ps_record){0};
}

/* Queues the kept records of versions a->first to a->version for the next member, sharing their
 * bytes. */
static void queue_records(mr_ps_server *s, int range, const mr_psr_action *a)
{
    mr_ps_range_state *state = &s->ranges[range];
    mr_ps_message w = {.kind = MR_PS_MESSAGE_APPEND, .range = range, .epoch = state->r.view.epoch};
    for (int i = 0; i < state->kept.n; i++)
        if (state->kept.p[i].version >= a->first && state->kept.p[i].version <= a->version)
            mr_vec_push(&w.records, record_share(&state->kept.p[i]));
    mr_ps_server_say(s, a->to, w);
}

/* Replaces the whole range by a copy from the member before this one. */
static void install_copy(mr_ps_server *s, int range, const mr_ps_action_data *h)
{
    drop_kept(&s->ranges[range], UINT64_MAX);
    if (h && h->copy && h->copy->parts)
        mr_ps_store_install(&s->store, range, h->copy);
    else
        mr_ps_server_fail(s, mr_error(MR_INTERNAL, "range %d: a copy should be installed, but none came", range));
}

/* Carries out one action. h holds the records or the copy of the message that is being handled;
 * NULL for other events. */
static void do_action(mr_ps_server *s, int range, const mr_psr_action *a, mr_ps_action_data *h)
{
    mr_ps_range_state *state = &s->ranges[range];
    switch (a->what) {
    case MR_PSR_RECORD: make_record(s, range, a->version); break;
    case MR_PSR_APPLY:
        MR_ASSERT(h && h->records);
        apply_record(s, range, &h->records[a->index]);
        break;
    case MR_PSR_SEND: queue_records(s, range, a); break;
    case MR_PSR_HAVE:
        mr_ps_server_say(s, a->to,
                         (mr_ps_message){.kind = MR_PS_MESSAGE_HAVE,
                                      .range = range,
                                      .epoch = state->r.view.epoch,
                                      .version = a->version,
                                      .stable = a->stable,
                                      .again = a->again});
        break;
    case MR_PSR_REFUSE:
        mr_ps_server_say(s, a->to,
                         (mr_ps_message){.kind = MR_PS_MESSAGE_REFUSE, .range = range, .epoch = a->epoch});
        break;
    case MR_PSR_COPY: mr_ps_server_send_copy(s, range, a); break;
    case MR_PSR_INSTALL: install_copy(s, range, h); break;
    case MR_PSR_RESET:
        drop_kept(state, UINT64_MAX);
        mr_ps_store_drop(&s->store, range);
        break;
    case MR_PSR_FORGET: drop_kept(state, a->version); break;
    case MR_PSR_ANSWER:
        mr_ps_push_answered((mr_ps_push_part *)(uintptr_t)a->cookie, a->code, a->epoch, a->version);
        break;
    case MR_PSR_COMPLETE:
    case MR_PSR_DRAINED:
    case MR_PSR_DECLINE: mr_ps_server_report(s, range, a); break;
    case MR_PSR_ASK_VIEW: break; /* the open Watch brings the view as soon as there is one */
    }
}

/* Each action is copied before it runs, in case one of them adds to the list. */
void mr_ps_server_act(mr_ps_server *s, int range, mr_ps_action_data *h)
{
    MR_ASSERT(range >= 0 && range < s->store.n_ranges);
    for (int i = 0; i < s->actions.n; i++) {
        mr_psr_action a = s->actions.p[i];
        do_action(s, range, &a, h);
    }
    s->actions.n = 0;
}

/* ---- messages from other members ---- */

/* Logs only if the range decided to decline; a message of an old epoch changes nothing. */
void mr_ps_server_decline(mr_ps_server *s, int range, uint64_t from, uint64_t epoch, const mr_status *why)
{
    MR_ASSERT(s->actions.n == 0);
    mr_psr_decline(&s->ranges[range].r, from, epoch, &s->actions);
    if (s->actions.n > 0)
        mr_warn("parameters: this server declines range %d: %s", range, mr_status_message(why));
    mr_ps_server_act(s, range, NULL);
}

/* All records of a message must be applicable before the first one is applied. A correct head sends
 * no others, so a failure is either a bad message or lack of memory. Reserves the memory for all of
 * them. */
static mr_status *check_records(mr_ps_server *s, const mr_ps_message *w)
{
    for (int i = 0; i < w->records.n; i++)
        for (int j = 0; j < w->records.p[i].entries.n; j++)
            MR_TRY(mr_ps_store_check(&s->store, w->range, &w->records.p[i].entries.p[j].change));
    return NULL;
}

/* Lets the range decide which records it takes. dist/ps_replica.c sees only versions and stamps;
 * the records themselves wait in the mr_ps_action_data until an APPLY takes them out. */
static void take_append(mr_ps_server *s, uint64_t from, mr_ps_message *w, int64_t now_ns)
{
    MR_VEC(mr_psr_record_info) told = {0};
    mr_ps_stamps stamps = {0};
    for (int i = 0; i < w->records.n; i++)
        for (int j = 0; j < w->records.p[i].entries.n; j++)
            mr_vec_push(&stamps, w->records.p[i].entries.p[j].stamp);
    int at = 0;
    for (int i = 0; i < w->records.n; i++) {
        int n = w->records.p[i].entries.n;
        mr_vec_push(&told, (mr_psr_record_info){w->records.p[i].version, stamps.p + at, n});
        at += n;
    }
    mr_ps_action_data h = {.records = w->records.p};
    mr_psr_append(&s->ranges[w->range].r, from, w->epoch, told.p, told.n, now_ns, &s->actions);
    mr_ps_server_act(s, w->range, &h);
    mr_vec_deinit(&told);
    mr_vec_deinit(&stamps);
}

/* Handles one message about one range. A message without memory for it is declined, so that the
 * manager finds another server. */
static mr_status *take_message(mr_ps_server *s, uint64_t from, mr_ps_message *w)
{
    int64_t now = mr_now_ns();
    mr_psr *r = &s->ranges[w->range].r;
    mr_status *st;
    MR_ASSERT(s->actions.n == 0);
    switch (w->kind) {
    case MR_PS_MESSAGE_APPEND:
        st = mr_psr_follows(r, from, w->epoch) ? check_records(s, w) : NULL;
        if (mr_status_code(st) == MR_RESOURCE_EXHAUSTED)
            mr_ps_server_decline(s, w->range, from, w->epoch, st);
        if (!st)
            take_append(s, from, w, now);
        return st;
    case MR_PS_MESSAGE_HAVE:
        mr_psr_have(r, from, w->epoch, w->version, w->stable, w->again, now, &s->actions);
        break;
    case MR_PS_MESSAGE_REFUSE: mr_psr_refused(r, from, w->epoch, &s->actions); break;
    default: return mr_invalid("Unknown kind of chain message: %d", (int)w->kind);
    }
    mr_ps_server_act(s, w->range, NULL);
    return NULL;
}

/* Handles the messages one by one. One that is refused does not affect the others. One that cannot
 * be parsed ends the loop, because nothing says where the raw bytes of the next one begin. */
static mr_status *take_messages(mr_ps_server *s, const mr_ps_frame *f, mr_ps_blob *raw)
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
            mr_ps_message w = {0};
            st = mr_ps_message_get(s, &sub, raw, &at, &w);
            if (!st && !r.error)
                mr_status_update(&bad, take_message(s, from, &w));
            mr_ps_message_deinit(&w);
        } else if (field != 2) {
            mr_pb_skip(&r);
        }
    }
    mr_status_update(&st, bad);
    return st ? st : mr_pb_reader_status(&r, "Chain");
}

/* The raw bytes are copied into one blob, which the records share. */
void mr_ps_server_chain(mr_ps_server *s, mr_net_call *c)
{
    mr_ps_frame f = {0};
    mr_ps_blob *raw = NULL;
    mr_status *st = mr_ps_frame_open(&c->body, &f);
    if (!st)
        st = mr_ps_frame_take(&f, 0, f.raw_n, &raw);
    if (!st)
        st = take_messages(s, &f, raw);
    mr_ps_blob_unref(raw);
    mr_ps_frame_deinit(&f);
    mr_ps_reply(c, st, NULL);
}
