/* ps/server_copy.c -- sends and takes copies of a range, for members that catch up.
 *
 * A copy is one message (Copy): the values as ps/store_pack.c packs them, and the clocks of the
 * same version. The receiver changes nothing before the whole copy has been checked and has its
 * memory. Without memory it declines the copy, and keeps serving its other ranges. */
#include "ps/server_internal.h"

#include "base/clock.h"
#include "base/log.h"

#define COPY_NS INT64_C(30000000000)

/* ---- sending ---- */

typedef struct copy_ask {
    mr_ps_ask ask; /* first */
    int range;
} copy_ask;

/* Tells the range whether the copy arrived; it decides whether to send records or another copy. */
static void on_copied(void *owner, mr_ps_ask *ask)
{
    mr_ps_server *s = owner;
    copy_ask *a = (copy_ask *)ask;
    if (s->ranges && !s->closing) {
        mr_psr_copied(&s->ranges[a->range].r, ask->to, !ask->st, mr_now_ns(), &s->actions);
        mr_ps_server_act(s, a->range, NULL);
    }
    mr_ps_ask_deinit(ask);
    mr_free(a);
}

/* Values and clocks of the range as they are now. On error *body is empty. */
static mr_status *copy_body(mr_ps_server *s, int range, const mr_psr_action *act, mr_bytes *body)
{
    MR_ASSERT(act->version == s->ranges[range].r.version);
    mr_pb_writer w;
    mr_str head = {0}, packed = {0};
    mr_bytes raw = {0};
    mr_ps_stamps stamps = {0};
    mr_status *st = mr_ps_store_pack(&s->store, range, &packed);
    if (st) {
        mr_str_deinit(&packed);
        return st;
    }
    mr_ps_clock_export(&s->clock, range, &stamps);
    mr_ps_head_begin(&w, &head);
    mr_pb_put_fixed64(&w, 1, s->id);
    mr_pb_opt_varint(&w, 2, (uint64_t)range);
    mr_pb_opt_varint(&w, 3, s->ranges[range].r.view.epoch);
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

/* Without memory an empty message goes out, which the receiver refuses: on_copied then arranges the
 * next attempt, as after any other failure. */
void mr_ps_server_send_copy(mr_ps_server *s, int range, const mr_psr_action *act)
{
    mr_bytes body = {0};
    copy_ask *a = mr_new(copy_ask);
    a->range = range;
    a->ask.answered = on_copied;
    mr_status *st = copy_body(s, range, act, &body);
    if (st) {
        mr_warn("parameters: cannot make a copy of range %d: %s", range, mr_status_message(st));
        mr_status_free(st);
    }
    mr_ps_ask_start(&s->routes, &a->ask, act->to, mr_ps_map_address(&s->map, act->to), MR_PS_SERVICE "Copy",
                    &body, mr_now_ns() + COPY_NS);
}

/* ---- receiving ---- */

typedef struct copy_head {
    uint64_t from, epoch, version;
    int range, tables;
    mr_ps_stamps stamps;
} copy_head;

/* Reads and checks the head. Clients (field 5) and their times (field 6) come in pairs. */
static mr_status *get_copy(mr_sv head, int n_ranges, copy_head *h)
{
    mr_pb_reader r;
    uint32_t field, wire;
    int n_ts = 0;
    mr_pb_reader_init(&r, head);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 1: h->from = mr_pb_fixed64(&r); break;
        case 2: h->range = mr_pb_int32(&r); break;
        case 3: h->epoch = mr_pb_varint(&r); break;
        case 4: h->version = mr_pb_varint(&r); break;
        case 5: mr_vec_push(&h->stamps, (mr_ps_stamp){.client = mr_pb_fixed64(&r)}); break;
        case 6:
            if (n_ts < h->stamps.n)
                h->stamps.p[n_ts++].ts = mr_pb_varint(&r);
            else
                mr_pb_fail(&r, "a timestamp without a client");
            break;
        case 7: h->tables = mr_pb_int32(&r); break;
        default: mr_pb_skip(&r);
        }
    MR_TRY(mr_pb_reader_status(&r, "Copy"));
    return h->range >= 0 && h->range < n_ranges
               ? NULL
               : mr_invalid("A copy is of range %d, expected 0 to %d", h->range, n_ranges - 1);
}

/* Unpacks the copy only if the range will take it: it comes from the member before this one, is of
 * this epoch, and is newer. */
static mr_status *take_copy(mr_ps_server *s, const copy_head *h, mr_sv bytes)
{
    mr_ps_staged staged = {0};
    mr_psr *r = &s->ranges[h->range].r;
    mr_status *st = NULL;
    MR_ASSERT(s->actions.n == 0);
    if (mr_psr_follows(r, h->from, h->epoch) && h->version > r->version)
        st = mr_ps_store_stage(&s->store, h->range, bytes, &staged);
    if (mr_status_code(st) == MR_RESOURCE_EXHAUSTED)
        mr_ps_server_decline(s, h->range, h->from, h->epoch, st);
    if (!st) {
        mr_ps_action_data data = {.copy = &staged};
        mr_psr_copy(r, h->from, h->epoch, h->version, h->stamps.p, h->stamps.n, mr_now_ns(), &s->actions);
        mr_ps_server_act(s, h->range, &data);
    }
    mr_ps_staged_deinit(&staged);
    return st;
}

/* A copy may name tables of which this server has not heard yet; UNAVAILABLE makes the sender
 * repeat it. */
void mr_ps_server_copy(mr_ps_server *s, mr_net_call *c)
{
    mr_ps_frame f = {0};
    mr_ps_blob *raw = NULL;
    copy_head h = {0};
    mr_status *st = mr_ps_frame_open(&c->body, &f);
    if (!st)
        st = get_copy(f.head, s->store.n_ranges, &h);
    if (!st && h.tables > s->store.tables.n)
        st = mr_error(MR_UNAVAILABLE, "A copy has %d tables, but this server knows only %d so far", h.tables,
                      s->store.tables.n);
    if (!st)
        st = mr_ps_frame_take(&f, 0, f.raw_n, &raw);
    if (!st)
        st = take_copy(s, &h, (mr_sv){raw->data, raw->n});
    mr_vec_deinit(&h.stamps);
    mr_ps_blob_unref(raw);
    mr_ps_frame_deinit(&f);
    mr_ps_reply(c, st, NULL);
}
