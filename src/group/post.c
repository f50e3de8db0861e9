/* group/post.c -- a transport whose messages are calls.
 *
 * A message meets its receive in either order: whichever comes first waits in the transport, and the second
 * removes it. Messages and receives between two members are numbered from 0, so it does not matter in which order
 * the calls arrive. Where a call can be:
 *
 *     mr_post.pending       its transport does not exist yet; mr_post_transport moves it (adopt_locked)
 *     letters.early         its receive has not begun yet; start_receive takes it
 *     answered              its bytes were copied, or it was refused
 *
 * All calls in the first two places count in n_pending and pending_bytes, which are limited.
 *
 * One lock guards the mr_post, its transports and all their transfers. Calls are answered and requests are started
 * without it, because either may call back into this file. The thread that removes a call from a list under the
 * lock is the one that answers it, so each call is answered exactly once. */
#include "group/post.h"

#include "base/clock.h"
#include "base/long_wait.h"
#include "base/memory.h"
#include "base/thread.h"

typedef struct pending { /* a pending call: its receive, or its transport, does not exist yet */
    mr_net_call *call;
    mr_post_head head;
    struct pending *next;
} pending;

typedef struct letters { /* one transport; the post's lock guards all but the fields that never change */
    mr_transport t;
    mr_post *post;
    uint64_t key;
    const mr_post_route *routes;
    uint64_t *next_send, *next_receive; /* numbers, by rank */
    mr_transfer *receives;              /* begun, without a message yet */
    pending *early; /* calls whose receive has not begun */
    mr_status *failed; /* why every wait ends; NULL: the transport works */
    struct letters *next;
} letters;

struct mr_post {
    mr_mutex mu;
    mr_cond changed;
    letters *transports MR_GUARDED_BY(mu);
    pending *pending MR_GUARDED_BY(mu); /* calls for transports that do not exist yet */
    int n_pending MR_GUARDED_BY(mu); /* including those in transports */
    uint64_t pending_bytes MR_GUARDED_BY(mu); /* of these calls */
    bool closed MR_GUARDED_BY(mu);
};

/* The state of a transfer; owned by it until finish. done and st are guarded by the lock. */
typedef struct parcel {
    mr_net_request request; /* of a send; first, because `send_done` casts back */
    letters *l;
    bool done;
    mr_status *st;
} parcel;

/* ---- heads ---- */

static void put_int(uint8_t *p, uint64_t v, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_int(const uint8_t *p, int n)
{
    uint64_t v = 0;
    for (int i = 0; i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

void mr_post_head_write(const mr_post_head *h, uint8_t out[MR_POST_HEAD])
{
    memcpy(out, "MRGP", 4);
    put_int(out + 4, h->from, 4);
    put_int(out + 8, h->key, 8);
    put_int(out + 16, h->number, 8);
    put_int(out + 24, h->bytes, 8);
}

/* The body comes from a peer: its size must be exactly what the header announces, so later code may rely on it. */
mr_status *mr_post_head_read(const mr_bytes *body, mr_post_head *out)
{
    uint8_t b[MR_POST_HEAD];
    if (!mr_bytes_read(body, 0, b, sizeof(b)) || memcmp(b, "MRGP", 4) != 0)
        return mr_invalid("group: a message has no valid header");
    *out = (mr_post_head){(uint32_t)get_int(b + 4, 4), get_int(b + 8, 8), get_int(b + 16, 8), get_int(b + 24, 8)};
    if (out->bytes != body->n - MR_POST_HEAD)
        return mr_invalid("group: the header of a message announces %llu bytes, but %zu follow",
                          (unsigned long long)out->bytes, body->n - MR_POST_HEAD);
    return NULL;
}

/* ---- pending calls ---- */

mr_post *mr_post_new(void)
{
    mr_post *p = mr_new(mr_post);
    mr_mutex_init(&p->mu);
    mr_cond_init(&p->changed);
    return p;
}

/* Ends calls with an error of this code. Takes over the list; called without the lock. */
static void refuse_calls(pending *list, mr_code code, const char *why)
{
    while (list) {
        pending *next = list->next;
        list->call->net->reply(list->call, mr_error(code, "group: %s", why), NULL);
        mr_free(list);
        list = next;
    }
}

/* Updates the totals for a call that is no longer pending. */
static void drop_pending_locked(mr_post *p, const pending *k) MR_REQUIRES(p->mu)
{
    MR_ASSERT(p->n_pending > 0 && p->pending_bytes >= k->head.bytes);
    p->n_pending--;
    p->pending_bytes -= k->head.bytes;
}

/* Calls for transports that never came to exist are still pending; they are refused here. */
void mr_post_free(mr_post *p)
{
    if (!p)
        return;
    MR_ASSERT(!p->transports);
    refuse_calls(p->pending, MR_UNAVAILABLE, "the receiver has left the group");
    mr_cond_deinit(&p->changed);
    mr_mutex_deinit(&p->mu);
    mr_free(p);
}

/* The transport with this key; NULL: it has not been made yet, or is freed. */
static letters *find_locked(mr_post *p, uint64_t key) MR_REQUIRES(p->mu)
{
    letters *l = p->transports;
    while (l && l->key != key)
        l = l->next;
    return l;
}

/* Completes a receive: copies the message after the header to where it is expected. The lock is held. */
static void end_receive(mr_transfer *x, const mr_bytes *body, const mr_post_head *h)
{
    parcel *c = x->impl;
    MR_ASSERT(!x->sending && !c->done);
    c->done = true;
    if (h->bytes != x->n)
        c->st = mr_invalid("group: member %d runs a different operation: it sent %llu bytes, expected %zu", x->peer,
                           (unsigned long long)h->bytes, x->n);
    else if (x->n)
        mr_bytes_read(body, MR_POST_HEAD, x->data, x->n);
}

/* Removes the receive that waits for this message; NULL: there is none. */
static mr_transfer *match_locked(letters *l, const mr_post_head *h)
{
    for (mr_transfer **x = &l->receives; *x; x = &(*x)->next)
        if ((*x)->peer == (int)h->from && (*x)->number == h->number) {
            mr_transfer *found = *x;
            *x = found->next;
            return found;
        }
    return NULL;
}

/* Removes the entry of a call from a list; NULL: it is not in it. The lock is held. */
static pending *take_call(pending **list, const mr_net_call *c)
{
    for (; *list; list = &(*list)->next)
        if ((*list)->call == c) {
            pending *found = *list;
            *list = found->next;
            return found;
        }
    return NULL;
}

/* A pending call was cancelled: its caller is gone. If it is in no list, another thread has removed it and answers
 * it. */
static void caller_left(void *arg, mr_net_call *c)
{
    mr_post *p = arg;
    mr_lock(&p->mu);
    pending *k = take_call(&p->pending, c);
    for (letters *l = p->transports; l && !k; l = l->next)
        k = take_call(&l->early, c);
    if (k)
        drop_pending_locked(p, k);
    mr_unlock(&p->mu);
    if (k) {
        k->next = NULL;
        refuse_calls(k, MR_CANCELLED, "the sender has cancelled the message");
    }
}

/* Keeps a call until its receive begins. The limits keep a hostile or broken peer from filling memory; one call
 * alone may exceed the byte limit, so that a large message always gets through. After an error the caller answers
 * the call. */
static mr_status *add_pending_locked(mr_post *p, pending **list, mr_net_call *c, const mr_post_head *h)
    MR_REQUIRES(p->mu)
{
    if (p->n_pending >= MR_POST_PENDING)
        return mr_error(MR_RESOURCE_EXHAUSTED, "group: the limit of %d pending messages is reached",
                        (int)MR_POST_PENDING);
    if (p->n_pending > 0 && (h->bytes > MR_POST_PENDING_BYTES || p->pending_bytes > MR_POST_PENDING_BYTES - h->bytes))
        return mr_error(MR_RESOURCE_EXHAUSTED,
                        "group: %d messages with %llu bytes are pending, no room for another of %llu bytes",
                        p->n_pending, (unsigned long long)p->pending_bytes, (unsigned long long)h->bytes);
    if (!c->net->on_cancel(c, caller_left, p))
        return mr_error(MR_CANCELLED, "group: the sender has cancelled the message");
    pending *k = mr_new(pending);
    *k = (pending){c, *h, *list};
    *list = k;
    p->n_pending++;
    p->pending_bytes += h->bytes; /* no overflow: they are in memory */
    return NULL;
}

/* Handles one message: completes its receive, or keeps it until that begins. Returns whether the caller must
 * answer the call now, with *st. A number below next_receive without a receive was received before. */
static bool accept_locked(mr_post *p, mr_net_call *c, const mr_post_head *h, mr_status **st) MR_REQUIRES(p->mu)
{
    letters *l = find_locked(p, h->key);
    if (l && (h->from >= (uint32_t)l->t.size || (int)h->from == l->t.rank)) {
        *st = mr_invalid("group: a message names member %u as its sender, of %d members", h->from, l->t.size);
        return true;
    }
    if (l && h->number + 1 <= l->next_receive[h->from]) {
        mr_transfer *x = match_locked(l, h);
        if (x) {
            end_receive(x, &c->body, h);
            mr_cond_broadcast(&p->changed);
        } else {
            *st = mr_invalid("group: message %llu of member %u arrived twice", (unsigned long long)h->number, h->from);
        }
        return true;
    }
    *st = add_pending_locked(p, l ? &l->early : &p->pending, c, h);
    return *st != NULL;
}

/* Every call is answered here or becomes pending; a body that is not a message is answered with INVALID_ARGUMENT. */
void mr_post_handle(mr_post *p, mr_net_call *c)
{
    mr_post_head h;
    mr_status *st = mr_post_head_read(&c->body, &h);
    bool answer = true;
    if (!st) {
        mr_lock(&p->mu);
        answer = accept_locked(p, c, &h, &st);
        mr_unlock(&p->mu);
    }
    mr_bytes none = {0};
    if (answer)
        c->net->reply(c, st, st ? NULL : &none);
}

/* ---- transfers ---- */

/* The end of a send's call. The waiter in finish may free the parcel as soon as the lock is released. */
static void send_done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    parcel *c = (parcel *)r;
    (void)reply;
    mr_lock(&c->l->post->mu);
    MR_ASSERT(!c->done);
    c->st = st;
    c->done = true;
    mr_cond_broadcast(&c->l->post->changed);
    mr_unlock(&c->l->post->mu);
}

/* Builds the body of a message. The bytes are copied, because the network may hold them after finish has returned. */
static mr_status *compose_message(letters *l, mr_transfer *x, mr_bytes *out)
{
    uint8_t head[MR_POST_HEAD];
    mr_post_head h = {(uint32_t)l->t.rank, l->key, x->number, x->n};
    char *body = x->n ? mr_try_alloc(x->n) : NULL;
    if (x->n && !body)
        return mr_error(MR_RESOURCE_EXHAUSTED, "group: out of memory for a message of %zu bytes", x->n);
    mr_post_head_write(&h, head);
    if (!mr_bytes_add_copy(out, head, sizeof(head))) {
        mr_free(body);
        return mr_error(MR_RESOURCE_EXHAUSTED, "group: out of memory for a message");
    }
    if (!x->n)
        return NULL;
    memcpy(body, x->data, x->n);
    mr_bytes_add(out, (mr_piece){body, x->n, mr_free, body});
    return NULL;
}

/* Starts the call of a message. If that is impossible, the transfer is done at once with the error. */
static void start_send(letters *l, mr_transfer *x)
{
    parcel *c = x->impl;
    x->number = l->next_send[x->peer]++;
    c->request = (mr_net_request){.method = MR_POST_METHOD, .wait_for_ready = true, .done = send_done};
    mr_status *st = compose_message(l, x, &c->request.body);
    mr_lock(&l->post->mu);
    if (!st && l->failed)
        st = mr_status_copy(l->failed);
    if (st) {
        c->st = st;
        c->done = true;
    }
    mr_unlock(&l->post->mu);
    if (st)
        mr_bytes_deinit(&c->request.body);
    else
        l->routes[x->peer].net->start(l->routes[x->peer].peer, &c->request);
}

/* Removes the message of a receive, if it has arrived already. */
static pending *take_early_locked(mr_post *p, letters *l, const mr_transfer *x) MR_REQUIRES(p->mu)
{
    for (pending **k = &l->early; *k; k = &(*k)->next)
        if ((int)(*k)->head.from == x->peer && (*k)->head.number == x->number) {
            pending *found = *k;
            *k = found->next;
            drop_pending_locked(p, found);
            return found;
        }
    return NULL;
}

/* Begins a receive. If its message has arrived already, the receive is complete and the call is answered. */
static void start_receive(letters *l, mr_transfer *x)
{
    mr_post *p = l->post;
    mr_bytes none = {0};
    mr_lock(&p->mu);
    x->number = l->next_receive[x->peer]++;
    pending *k = take_early_locked(p, l, x);
    if (k) {
        end_receive(x, &k->call->body, &k->head);
    } else {
        x->next = l->receives;
        l->receives = x;
    }
    mr_unlock(&p->mu);
    if (k)
        k->call->net->reply(k->call, NULL, &none);
    mr_free(k);
}

/* The mr_transport's start. The parcel lives until finish_transfer frees it. */
static void start_transfer(mr_transport *t, mr_transfer *x)
{
    MR_ASSERT(x->peer >= 0 && x->peer < t->size && x->peer != t->rank);
    letters *l = (letters *)t;
    parcel *c = mr_new(parcel);
    c->l = l;
    x->impl = c;
    if (x->sending)
        start_send(l, x);
    else
        start_receive(l, x);
}

/* Removes a receive that is given up, so that a later message is not written into its data. */
static void forget_receive_locked(letters *l, const mr_transfer *x)
{
    MR_ASSERT(l->receives); /* a receive that is not done is in the list */
    for (mr_transfer **y = &l->receives; *y; y = &(*y)->next)
        if (*y == x) {
            *y = x->next;
            return;
        }
}

/* Cancels a send in progress and waits for its completion, which always comes. */
static void give_up_send(letters *l, mr_transfer *x)
{
    parcel *c = x->impl;
    l->routes[x->peer].net->cancel(&c->request);
    mr_lock(&l->post->mu);
    while (!c->done)
        mr_cond_wait(&l->post->changed, &l->post->mu);
    mr_unlock(&l->post->mu);
}

/* Converts the error of a send. Errors that the receiver reports about the message stay; everything else means
 * that the receiver cannot be reached: UNAVAILABLE. */
static mr_status *convert_send_error(mr_status *st, int peer, int size)
{
    mr_code code = mr_status_code(st);
    if (code == MR_INVALID_ARGUMENT || code == MR_RESOURCE_EXHAUSTED)
        return mr_status_prepend(st, "group: member %d of %d: ", peer, size);
    mr_status *out = mr_error(MR_UNAVAILABLE, "group: member %d of %d: %s", peer, size, mr_status_message(st));
    mr_status_free(st);
    return out;
}

/* Waits for a transfer, then releases its state; afterwards nothing refers to x or its data. A transfer that is
 * given up is removed from the receives, or its call is cancelled. */
static mr_status *finish_transfer(mr_transport *t, mr_transfer *x, int64_t deadline_ns)
{
    letters *l = (letters *)t;
    mr_post *p = l->post;
    parcel *c = x->impl;
    MR_ASSERT(c && c->l == l);
    mr_status *why = NULL;
    bool in_time = true;
    mr_long_wait wait;
    mr_long_wait_begin(&wait, mr_now_ns());
    mr_lock(&p->mu);
    while (!c->done && !l->failed && in_time)
        in_time =
            mr_long_wait_cond(&wait, &p->changed, &p->mu, deadline_ns, "member %d of %d of the group: %s", x->peer,
                              t->size, x->sending ? "it has not received what was sent" : "it has sent nothing");
    /* Decided under the lock: a message that arrives from here on does not find the receive any more. */
    bool given_up = !c->done;
    if (given_up)
        why = l->failed ? mr_status_copy(l->failed)
                        : mr_error(MR_DEADLINE_EXCEEDED, "group: waited for member %d of %d until the deadline",
                                   x->peer, t->size);
    if (given_up && !x->sending)
        forget_receive_locked(l, x);
    mr_unlock(&p->mu);
    if (given_up && x->sending)
        give_up_send(l, x);
    /* The reason for giving up comes before the error of the cancelled call. */
    mr_status *st = why ? why : c->st;
    if (why)
        mr_status_free(c->st);
    else if (st && x->sending)
        st = convert_send_error(st, x->peer, t->size);
    mr_free(c);
    x->impl = NULL;
    return st;
}

/* ---- creating and freeing a transport ---- */

/* Wakes every wait of the post; those of other transports look again and go on waiting. */
static void fail_transport(mr_transport *t, const mr_status *st)
{
    letters *l = (letters *)t;
    mr_lock(&l->post->mu);
    if (!l->failed)
        l->failed = mr_status_copy(st);
    mr_cond_broadcast(&l->post->changed);
    mr_unlock(&l->post->mu);
}

/* All transfers are finished. Messages that arrived for it and were never received end with UNAVAILABLE. */
static void letters_free(mr_transport *t)
{
    letters *l = (letters *)t;
    mr_post *p = l->post;
    mr_lock(&p->mu);
    MR_ASSERT(!l->receives);
    for (letters **at = &p->transports; *at; at = &(*at)->next)
        if (*at == l) {
            *at = l->next;
            break;
        }
    for (const pending *k = l->early; k; k = k->next)
        drop_pending_locked(p, k);
    mr_unlock(&p->mu);
    refuse_calls(l->early, MR_UNAVAILABLE, "the receiver has ended this generation");
    mr_status_free(l->failed);
    mr_free(l->next_send);
    mr_free(l->next_receive);
    mr_free(l);
}

static const mr_transport_class class = {"grpc", start_transfer, finish_transfer, NULL, fail_transport, letters_free};

/* Moves the calls that arrived before the transport existed to it. Returns those whose sender cannot be a member;
 * the caller refuses them without the lock. */
static pending *adopt_locked(mr_post *p, letters *l) MR_REQUIRES(p->mu)
{
    pending *bad = NULL;
    for (pending **k = &p->pending; *k;) {
        pending *it = *k;
        if (it->head.key != l->key) {
            k = &it->next;
            continue;
        }
        bool good = it->head.from < (uint32_t)l->t.size && (int)it->head.from != l->t.rank;
        *k = it->next;
        it->next = good ? l->early : bad;
        *(good ? &l->early : &bad) = it;
        if (!good)
            drop_pending_locked(p, it);
    }
    return bad;
}

/* Registers a transport under its key, and takes over the calls that wait for that key. */
mr_transport *mr_post_transport(mr_post *p, uint64_t key, int rank, int size, const mr_post_route *routes)
{
    letters *l = mr_new(letters);
    l->t = (mr_transport){&class, rank, size};
    l->post = p;
    l->key = key;
    l->routes = routes;
    MR_ASSERT(rank >= 0 && rank < size);
    l->next_send = mr_new_array(uint64_t, size);
    l->next_receive = mr_new_array(uint64_t, size);
    mr_lock(&p->mu);
    l->next = p->transports;
    p->transports = l;
    pending *bad = adopt_locked(p, l);
    mr_unlock(&p->mu);
    refuse_calls(bad, MR_INVALID_ARGUMENT, "the sender of the message is not a member");
    return &l->t;
}
