/* server/collective_boxes.c -- what the members of a group have for each other.
 *
 * Each exchange of a member has a box: what it offers, and the calls of others that fetch from it
 * (RecvBuf). Either may come first, and so may the box: a fetch may arrive before the exchange has
 * begun here, or before this task knows the communicator. An exchange ends well when everything it
 * offered was fetched.
 *
 * A fetcher is answered once: by the thread that sets `answered` under the lock. Answers are collected
 * as deliveries and sent without the lock. A box without an exchange exists only while a fetcher waits
 * in it.
 *
 * Invariants: each offer is counted in its exchange's n_left as often as it has still to be fetched; a
 * fetcher that waits is in exactly one box; a fetcher that has an answer is in none.
 *
 * The key of such a RecvBuf is
 * "millrace;COMMUNICATOR;INSTANCE;NUMBER;FROM;PHASE;SECTION;CHUNK;SIGNATURE". */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/memory.h"
#include "server/collective_internal.h"
#include "server/wire.h"

#define KEY_PREFIX "millrace;"

/* Another member's call for a piece. */
typedef struct fetcher {
    mr_refs refs; /* one for the handler of the call, one for the thread that answers it */
    mr_collectives *all;
    mr_net_call *call;
    char *box; /* text of the exchange */
    uint64_t communicator;
    int64_t instance, number, from;
    mr_xname name;
    int64_t bytes;
    char *signature;
    bool answered; /* under the lock */
    struct fetcher *next;
} fetcher;

/* A piece that n_left members have still to fetch. */
typedef struct offer {
    mr_xname name;
    mr_tensor *t;
    int64_t at, bytes, n_left;
    struct offer *next;
} offer;

/* What one exchange of one member has to offer, and those who wait for it; in the table under its text. */
typedef struct box {
    char *text;
    uint64_t communicator;
    mr_exchange *x; /* NULL: it has not begun */
    fetcher *fetchers;
    offer *offers;
} box;

/* An answer to be sent once the lock is released. */
typedef struct delivery {
    fetcher *to;
    mr_tensor *t;
    int64_t at, bytes;
    mr_status *st;
} delivery;
typedef MR_VEC(delivery) deliveries;

/* The call is answered by then; it is not touched here. */
static void fetcher_unref(fetcher *f)
{
    if (!mr_refs_drop(&f->refs))
        return;
    mr_free(f->box);
    mr_free(f->signature);
    mr_free(f);
}

static bool same_name(mr_xname a, mr_xname b)
{
    return a.phase == b.phase && a.section == b.section && a.chunk == b.chunk;
}

/* ---- boxes, under the lock ---- */

/* Finds the box, or makes an empty one. */
static box *box_locked(mr_collectives *c, const char *text, uint64_t communicator) MR_REQUIRES(c->mu);
static box *box_locked(mr_collectives *c, const char *text, uint64_t communicator)
{
    box *b = mr_map_getz(&c->boxes, text);
    if (b)
        return b;
    b = mr_new(box);
    b->text = mr_strdup(text);
    b->communicator = communicator;
    mr_map_putz(&c->boxes, text, b);
    return b;
}

/* Takes the box out of the table and frees it with its offers. Nobody waits in it any more. */
static void box_free_locked(mr_collectives *c, box *b) MR_REQUIRES(c->mu);
static void box_free_locked(mr_collectives *c, box *b)
{
    MR_ASSERT(!b->fetchers && mr_map_getz(&c->boxes, b->text) == b);
    mr_map_remove(&c->boxes, mr_sv_of(b->text));
    for (offer *o = b->offers, *next; o; o = next) {
        next = o->next;
        mr_tensor_unref(o->t);
        mr_free(o);
    }
    mr_free(b->text);
    mr_free(b);
}

/* Answers all fetchers that wait in the box with why. */
static void fail_fetchers(box *b, const mr_status *why, deliveries *out)
{
    for (fetcher *f = b->fetchers; f; f = f->next) {
        f->answered = true;
        mr_vec_push(out, (delivery){.to = f, .st = mr_status_copy(why)});
    }
    b->fetchers = NULL;
}

/* The error for two members that call different ops, or the same op with different arguments, in one
 * instance. */
static mr_status *signature_disagreement(const fetcher *f, const mr_exchange *x)
{
    return mr_invalid("members of group %lld disagree about instance %lld: %s here, and %s at %s",
                      (long long)x->call.group_key, (long long)x->call.instance_key, f->signature, x->signature.p,
                      x->device);
}

/* Takes what a fetcher wants out of the box, or finds that it will never be there (out->st); false: it
 * has to wait. The last fetcher of an offer removes it. */
static bool take_offer(box *b, fetcher *f, delivery *out)
{
    *out = (delivery){.to = f};
    if (!b->x)
        return false;
    if (strcmp(f->signature, b->x->signature.p) != 0) {
        out->st = signature_disagreement(f, b->x);
        return true;
    }
    for (offer **at = &b->offers; *at; at = &(*at)->next) {
        offer *o = *at;
        if (!same_name(o->name, f->name))
            continue;
        MR_ASSERT(o->n_left > 0);
        /* A fetcher with the wrong size also uses up its share of the offer: it does not ask again. */
        out->t = mr_tensor_ref(o->t);
        out->at = o->at;
        out->bytes = o->bytes;
        if (f->bytes >= 0 && f->bytes != o->bytes)
            out->st = mr_invalid("Shape mismatch in the collective instance: %lld bytes exist, but %lld are fetched",
                                 (long long)o->bytes, (long long)f->bytes);
        if (--o->n_left == 0) {
            *at = o->next;
            mr_tensor_unref(o->t);
            mr_free(o);
        }
        return true;
    }
    return false;
}

/* Serves all fetchers in the box that can be served. */
static void serve_box(box *b, deliveries *out)
{
    for (fetcher **at = &b->fetchers; *at;) {
        fetcher *f = *at;
        MR_ASSERT(!f->answered);
        delivery d;
        if (!take_offer(b, f, &d)) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        f->answered = true;
        mr_vec_push(out, d);
    }
}

/* ---- answers, without the lock ---- */

static void drop_tensor(void *t) { mr_tensor_unref(t); }

#define EXTRA_URL "type.googleapis.com/tensorflow.RecvBufRespExtra"

/* The size of a protobuf field of n bytes with a field number below 16. */
static size_t field_size(size_t n)
{
    size_t head = 2;
    for (size_t v = n; v >= 0x80; v >>= 7)
        head++;
    return head + n;
}

/* Encodes a RecvBufResponse. The tensor's memory is not copied: it is the last piece of the body,
 * which find_last_piece relies on. Takes t.
 *
 * Fields: 2 num_bytes, 4 transport_options, an Any { 1 type_url, 2 value } whose value is a
 * RecvBufRespExtra { 1 tensor_content }. */
static mr_status *encode_offer(mr_tensor *t, int64_t at, int64_t bytes, mr_bytes *out)
{
    mr_str head = {0};
    mr_pb_writer w;
    size_t n = (size_t)bytes, extra = field_size(n);
    mr_pb_writer_init(&w, &head);
    mr_pb_opt_varint(&w, 2, n);
    mr_pb_put_header(&w, 4, field_size(sizeof EXTRA_URL - 1) + field_size(extra));
    mr_pb_put_bytes(&w, 1, MR_SV(EXTRA_URL));
    mr_pb_put_header(&w, 2, extra);
    mr_pb_put_header(&w, 1, n);
    mr_status *st = mr_pb_writer_status(&w, "RecvBufResponse");
    mr_bytes_add_str(out, &head);
    mr_bytes_add(out, (mr_piece){(char *)t->data + at, n, drop_tensor, t});
    return st;
}

/* Sends the answers and drops the references for it. */
static void send_deliveries(deliveries *all)
{
    for (int i = 0; i < all->n; i++) {
        delivery *d = &all->p[i];
        mr_bytes body = {0};
        mr_status *st = d->st;
        if (!st)
            st = encode_offer(d->t, d->at, d->bytes, &body);
        else
            mr_tensor_unref(d->t);
        mr_reply(d->to->call, st, &body);
        mr_bytes_deinit(&body);
        fetcher_unref(d->to);
    }
    mr_vec_deinit(all);
}

/* Counts the answers that took an offer; *bad is a copy of the first error among them. */
static int64_t count_taken(const deliveries *all, mr_status **bad)
{
    int64_t n = 0;
    for (int i = 0; i < all->n; i++) {
        n += all->p[i].t != NULL;
        if (all->p[i].st && !*bad)
            *bad = mr_status_copy(all->p[i].st);
    }
    return n;
}

/* Sends the answers, and reports to the exchange how many offers were fetched and whether a member
 * disagreed. */
static void deliver_from(mr_exchange *x, deliveries *all)
{
    mr_status *bad = NULL;
    int64_t n = count_taken(all, &bad);
    send_deliveries(all);
    if (bad)
        mr_exchange_fail(x, bad, true);
    if (n)
        mr_exchange_less(x, n);
}

/* ---- offering ---- */

/* Fetchers that came before the exchange wait in its box already; mr_exchange_greet looks at them. */
void mr_exchange_open_locked(mr_collectives *c, mr_exchange *x)
{
    box_locked(c, x->text, x->group->communicator)->x = x;
}

/* Nothing is offered yet, so this only answers fetchers whose signature differs. */
void mr_exchange_greet(mr_exchange *x)
{
    mr_collectives *c = x->all;
    deliveries out = {0};
    mr_lock(&c->mu);
    box *b = mr_map_getz(&c->boxes, x->text);
    if (b && b->x == x)
        serve_box(b, &out);
    mr_unlock(&c->mu);
    deliver_from(x, &out);
}

/* The exchange waits for one fetch per receiver (n_left). An exchange that has ended offers nothing. */
void mr_exchange_offer(mr_exchange *x, mr_xname name, const mr_tensor *t, int64_t at_bytes, int64_t bytes, int64_t n)
{
    mr_collectives *c = x->all;
    deliveries out = {0};
    mr_lock(&c->mu);
    box *b = x->ended || n == 0 ? NULL : mr_map_getz(&c->boxes, x->text);
    if (b && b->x == x) {
        offer *o = mr_new(offer);
        *o = (offer){name, mr_tensor_ref(t), at_bytes, bytes, n, b->offers};
        b->offers = o;
        x->n_left += n;
        serve_box(b, &out);
    }
    mr_unlock(&c->mu);
    deliver_from(x, &out);
}

/* The offers that were not fetched are counted, because the exchange still waits for them. */
int64_t mr_exchange_close(mr_exchange *x, const mr_status *why)
{
    mr_collectives *c = x->all;
    deliveries out = {0};
    int64_t n = 0;
    mr_lock(&c->mu);
    box *b = x->text ? mr_map_getz(&c->boxes, x->text) : NULL;
    if (b && b->x == x) {
        for (const offer *o = b->offers; o; o = o->next)
            n += o->n_left;
        fail_fetchers(b, why, &out);
        box_free_locked(c, b);
    }
    mr_unlock(&c->mu);
    send_deliveries(&out);
    return n;
}

/* The exchange has its number, and therefore a text. */
bool mr_exchange_offers_locked(mr_collectives *c, const mr_exchange *x)
{
    const box *b = mr_map_getz(&c->boxes, x->text);
    return b && b->x == x && b->offers;
}

/* Only boxes without an exchange: the others are closed by their exchanges. */
void mr_boxes_break(mr_collectives *c, uint64_t communicator, const mr_status *why)
{
    deliveries out = {0};
    MR_VEC(box *) gone = {0};
    uint32_t pos = 0;
    mr_sv key;
    void *v;
    mr_lock(&c->mu);
    while (mr_map_next(&c->boxes, &pos, &key, &v)) {
        box *b = v;
        if (!b->x && (!communicator || b->communicator == communicator))
            mr_vec_push(&gone, b);
    }
    for (int i = 0; i < gone.n; i++) {
        fail_fetchers(gone.p[i], why, &out);
        box_free_locked(c, gone.p[i]);
    }
    mr_unlock(&c->mu);
    mr_vec_deinit(&gone);
    send_deliveries(&out);
}

/* ---- RecvBuf ---- */

/* Cuts the next decimal number off the key. */
static bool next_number(mr_sv *text, int64_t *out)
{
    mr_sv word;
    return mr_sv_cut(text, ';', &word) && mr_sv_to_i64(word, out);
}

/* Reads a communicator, which is always written with 16 hexadecimal digits. */
static bool next_hex(mr_sv *text, uint64_t *out)
{
    mr_sv word;
    *out = 0;
    if (!mr_sv_cut(text, ';', &word) || word.n != 16)
        return false;
    for (size_t i = 0; i < word.n; i++) {
        char ch = word.p[i];
        if (!((ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'f')))
            return false;
        *out = *out << 4 | (uint64_t)(ch <= '9' ? ch - '0' : ch - 'a' + 10);
    }
    return true;
}

/* Parses the key of a RecvBuf that starts with KEY_PREFIX. The rest after the numbers is the
 * signature. */
static mr_status *parse_key(mr_sv text, fetcher *f)
{
    mr_sv rest = {text.p + sizeof KEY_PREFIX - 1, text.n - (sizeof KEY_PREFIX - 1)};
    if (!next_hex(&rest, &f->communicator) || !next_number(&rest, &f->instance) || !next_number(&rest, &f->number) ||
        !next_number(&rest, &f->from) || !next_number(&rest, &f->name.phase) || !next_number(&rest, &f->name.section) ||
        !next_number(&rest, &f->name.chunk))
        return mr_invalid("'%.*s' is not the key of a buffer", MR_SV_ARG(text));
    f->signature = mr_strndup(rest.p ? rest.p : "", rest.n);
    f->box = mr_printf("%016" PRIx64 ";%" PRId64 ";%" PRId64 ";%" PRId64, f->communicator, f->instance, f->number,
                       f->from);
    return NULL;
}

/* Takes the two fields that decide whether the call is for us; worker_step.c parses the others of TensorFlow's kind. */
static mr_status *parse_recv_buf(mr_sv body, mr_sv *key, int64_t *bytes)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *key = MR_SV("");
    *bytes = 0;
    mr_pb_reader_init(&r, body);
    while (mr_pb_next(&r, &field, &wire))
        switch (field) {
        case 2: *key = mr_pb_bytes(&r); break;
        case 3: *bytes = mr_pb_int64(&r); break;
        default: mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "RecvBufRequest");
}

/* The caller cancelled: it leaves the box, which is freed if nothing else is in it. */
static void caller_left(void *arg, mr_net_call *call)
{
    fetcher *f = arg;
    mr_collectives *c = f->all;
    mr_lock(&c->mu);
    bool mine = !f->answered;
    f->answered = true;
    box *b = mine ? mr_map_getz(&c->boxes, f->box) : NULL;
    for (fetcher **at = b ? &b->fetchers : NULL; at && *at; at = &(*at)->next)
        if (*at == f) {
            *at = f->next;
            break;
        }
    if (b && !b->x && !b->fetchers)
        box_free_locked(c, b);
    mr_unlock(&c->mu);
    if (!mine)
        return;
    mr_reply(call, mr_error(MR_CANCELLED, "RecvBuf was cancelled"), NULL);
    fetcher_unref(f);
}

/* Whether the exchange that is fetched from has ended: it was counted and has no box. One that is just
 * failing still has to report why, so it does not count as ended. */
static bool is_over_locked(mr_collectives *c, const mr_cgroup *g, const fetcher *f) MR_REQUIRES(c->mu);
static bool is_over_locked(mr_collectives *c, const mr_cgroup *g, const fetcher *f)
{
    if (mr_cgroup_count_locked(c, g, f->instance, f->from) <= f->number)
        return false;
    for (const mr_exchange *x = c->exchanges; x; x = x->next)
        if (!x->over && x->text && strcmp(x->text, f->box) == 0)
            return false;
    return true;
}

static mr_status *refusal_locked(mr_collectives *c, const fetcher *f) MR_REQUIRES(c->mu);
/* Why a fetcher cannot wait here; NULL: it can. In a group that a member has left, exchanges that are
 * under way may still be fetched from. An unknown communicator is accepted, since the answer with it
 * may still be on its way. */
static mr_status *refusal_locked(mr_collectives *c, const fetcher *f)
{
    mr_cgroup *g = mr_cgroup_find_locked(c, f->communicator);
    const box *b = mr_map_getz(&c->boxes, f->box);
    if (c->stopped)
        return mr_status_copy(c->stopped);
    if (!g || (g->left && b && b->x))
        return NULL;
    if (g->broken)
        return mr_status_copy(g->broken);
    if (!b && is_over_locked(c, g, f))
        return mr_invalid("members of group %lld disagree about instance %lld: %s has already finished it",
                          (long long)g->key, (long long)f->instance, mr_task_peers_name(g->peers));
    return NULL;
}

static void fetch_locked(mr_collectives *c, fetcher *f, deliveries *out, mr_exchange **x) MR_REQUIRES(c->mu);
/* Takes the piece at once if it exists; otherwise the fetcher waits in the box. *x is a reference to
 * the exchange that the piece was taken from. */
static void fetch_locked(mr_collectives *c, fetcher *f, deliveries *out, mr_exchange **x)
{
    if (f->answered) /* the caller has cancelled */
        return;
    delivery d = {.to = f, .st = refusal_locked(c, f)};
    if (!d.st) {
        box *b = box_locked(c, f->box, f->communicator);
        if (!take_offer(b, f, &d)) {
            f->next = b->fetchers;
            b->fetchers = f;
            return;
        }
        *x = mr_exchange_ref(b->x);
    }
    f->answered = true;
    mr_vec_push(out, d);
}

/* Registers the cancellation first, so that a caller that leaves is always noticed. */
static void fetch_piece(mr_collectives *c, fetcher *f)
{
    deliveries out = {0};
    mr_exchange *x = NULL;
    mr_refs_take(&f->refs);
    if (!f->call->net->on_cancel(f->call, caller_left, f))
        caller_left(f, f->call);
    mr_lock(&c->mu);
    fetch_locked(c, f, &out, &x);
    mr_unlock(&c->mu);
    if (x)
        deliver_from(x, &out);
    else
        send_deliveries(&out);
    mr_exchange_unref(x);
}

/* False: the key is not one of ours (or malformed), and the call is for a buffer of TensorFlow's kind. */
bool mr_collectives_recv_buf(mr_collectives *c, mr_net_call *call, mr_sv body)
{
    mr_sv key;
    int64_t bytes;
    mr_status *st = parse_recv_buf(body, &key, &bytes);
    if (st || !mr_sv_starts(key, KEY_PREFIX)) {
        mr_status_free(st); /* the other handler reports it */
        return false;
    }
    fetcher *f = mr_new(fetcher);
    mr_refs_init(&f->refs);
    f->all = c;
    f->call = call;
    f->bytes = bytes;
    st = parse_key(key, f);
    if (st)
        mr_reply(call, st, NULL);
    else
        fetch_piece(c, f);
    fetcher_unref(f);
    return true;
}

/* ---- fetching ---- */

/* The key names the sender's exchange, the piece and our signature, so the sender can see whether we
 * agree.
 *
 * Fields of a RecvBufRequest: 1 step_id, 2 buf_rendezvous_key, 3 num_bytes, 8 src_device, 9 dst_device,
 * 11 src_incarnation. */
void mr_exchange_fetch(mr_exchange *x, int from, mr_xname name, int64_t bytes, mr_xrequest *q)
{
    mr_str body = {0}, key = {0};
    mr_pb_writer w;
    mr_cgroup *g = x->group;
    mr_str_printf(&key, KEY_PREFIX "%016" PRIx64 ";%" PRId64 ";%" PRId64 ";%d;%" PRId64 ";%" PRId64 ";%" PRId64 ";%s",
                  g->communicator, x->instance, x->number, from, name.phase, name.section, name.chunk, x->signature.p);
    mr_pb_writer_init(&w, &body);
    mr_pb_put_varint(&w, 1, (uint64_t)x->r->step->id);
    mr_pb_put_bytes(&w, 2, mr_str_view(&key));
    mr_pb_put_varint(&w, 3, (uint64_t)bytes);
    mr_pb_put_bytes(&w, 8, mr_sv_of(g->members[from].device));
    mr_pb_put_bytes(&w, 9, mr_sv_of(x->device));
    mr_pb_put_varint(&w, 11, g->members[from].incarnation);
    q->bytes = bytes;
    mr_xrequest_send(q, MR_WORKER_SERVICE "RecvBuf", &body);
    mr_str_deinit(&key);
}

/* Finds the contents of a reply of our own servers, which send them as the last piece, behind a head
 * that ends with their length. So the contents are found without joining the pieces. The length is
 * compared, since another server may send anything. */
static bool find_last_piece(const mr_bytes *reply, size_t *at, size_t *n)
{
    char head[256];
    if (reply->pieces.n != 2 || reply->pieces.p[0].n > sizeof head ||
        !mr_bytes_read(reply, 0, head, reply->pieces.p[0].n))
        return false;
    *at = reply->pieces.p[0].n;
    *n = reply->pieces.p[1].n;
    size_t length = field_size(*n) - *n - 1, v = *n;
    if (*at < length)
        return false;
    for (size_t k = 0; k < length; v >>= 7, k++)
        if ((uint8_t)head[*at - length + k] != ((v & 0x7f) | (k + 1 < length ? 0x80 : 0)))
            return false;
    return true;
}

/* The last value of a bytes field; *ok becomes false if the message is malformed. */
static mr_sv bytes_in(mr_sv message, uint32_t wanted, bool *ok)
{
    mr_pb_reader r;
    uint32_t field, wire;
    mr_sv v = MR_SV("");
    mr_pb_reader_init(&r, message);
    while (mr_pb_next(&r, &field, &wire))
        if (field == wanted)
            v = mr_pb_bytes(&r);
        else
            mr_pb_skip(&r);
    *ok &= !r.error;
    return v;
}

/* Finds the contents without joining the pieces if the reply has the form that our servers send; otherwise joins and
 * parses it. *at counts from the start of the reply. */
mr_status *mr_fetched_at(mr_bytes *reply, int64_t bytes, size_t *at, size_t *n)
{
    if (!find_last_piece(reply, at, n)) {
        mr_sv flat;
        bool ok = true;
        MR_TRY(mr_bytes_flat(reply, &flat));
        mr_sv content = bytes_in(bytes_in(bytes_in(flat, 4, &ok), 2, &ok), 1, &ok);
        if (!ok)
            return mr_invalid("RecvBufResponse: malformed protobuf");
        *at = content.n ? (size_t)(content.p - flat.p) : 0;
        *n = content.n;
    }
    if (bytes >= 0 && *n != (uint64_t)bytes)
        return mr_invalid("Shape mismatch in the collective instance: received %zu bytes, expected %lld", *n,
                          (long long)bytes);
    return NULL;
}
