/* run/rendezvous.c -- where a Send meets its Recv.
 *
 * A key is seen twice: once by the producer, once by the consumer, in either order. The table holds the half
 * that came first; the second half removes it. A key may be used again: its halves meet in the order they
 * came.
 *
 * Invariants:
 * - At rest, everything in the table waits for its peer, so values and receives of one key are never both
 * there.
 * - `n` of a shard counts its values and receives; the table has no buckets before the first use.
 * - An aborted shard is empty and takes nothing in. `why` is written before any shard is marked.
 *
 * Locks: each shard has its own. Callbacks run with none held, because a callback may start the next op,
 * which may call back into this file. */
#include "run/rendezvous.h"

#include <inttypes.h>

#include "base/memory.h"
#include "base/thread.h"
#include "run/device.h"

enum { N_SHARDS = 8, FIRST_BUCKETS = 16 };

typedef struct value { /* sent, not received yet */
    struct value *next;
    mr_tensor *t;
    uint64_t hash, frame;
    int64_t iteration;
    bool dead;
    size_t text_n;
    char text[]; /* a copy: the sender's key may be gone before the receiver comes */
} value;

/* A bucket may hold several keys. Of each key it holds values or receives, never both; both lists are in the order of
 * arrival. */
typedef struct bucket {
    value *values;
    mr_recv *waits;
} bucket;

typedef struct shard {
    mr_mutex mu;
    bucket *buckets MR_GUARDED_BY(mu); /* n_buckets, a power of two; NULL before the first use */
    uint32_t n_buckets, n MR_GUARDED_BY(mu);
    bool aborted MR_GUARDED_BY(mu);
} shard;

struct mr_rendezvous {
    mr_refs refs;
    mr_rendezvous_remote remote;
    mr_mutex mu;
    mr_status *why MR_GUARDED_BY(mu); /* of the abort; constant once set */
    _Atomic bool used; /* something went in since the last reset */
    shard shards[N_SHARDS];
};

/* ---- keys ---- */

/* A key must name two devices, because the owner of a value is found by the source device. */
static mr_status *check_device(mr_sv device)
{
    mr_device_name n;
    if (!mr_device_name_parse(device, &n) || device.n == 0)
        return mr_invalid("Invalid rendezvous key: '%.*s' is not a device", MR_SV_ARG(device));
    return NULL;
}

/* One string holds all parts; the views point into it. 18 is the length of ";", 16 hex digits and ";". */
mr_status *mr_rendezvous_key_make(mr_sv src_device, uint64_t incarnation, mr_sv dst_device,
                                  mr_sv name, mr_rendezvous_key *out)
{
    *out = (mr_rendezvous_key){0};
    MR_TRY(check_device(src_device));
    MR_TRY(check_device(dst_device));
    if (name.n == 0 || memchr(name.p, ';', name.n))
        return mr_invalid("Invalid rendezvous key: bad tensor name '%.*s'", MR_SV_ARG(name));
    mr_str s = {0};
    mr_str_printf(&s, "%.*s;%016" PRIx64 ";%.*s;", MR_SV_ARG(src_device), incarnation,
                  MR_SV_ARG(dst_device));
    mr_str_append(&s, name.p, name.n);
    size_t n = s.n;
    out->text = mr_str_take(&s);
    out->src_device = (mr_sv){out->text, src_device.n};
    out->dst_device = (mr_sv){out->text + src_device.n + 18, dst_device.n};
    out->name = (mr_sv){out->text + n - name.n, name.n};
    MR_ASSERT(out->text[src_device.n] == ';' && out->text[src_device.n + 17] == ';');
    out->src_incarnation = incarnation;
    out->hash = mr_hash64(out->text, n);
    return NULL;
}

/* Exactly 16 lower-case digits, as mr_rendezvous_key_make prints them. */
static bool parse_hex16(mr_sv s, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
        *out = *out << 4 | (uint64_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return s.n == 16;
}

/* Decimal digits only; false on overflow. mr_sv_to_i64 would refuse frames above INT64_MAX. */
static bool parse_u64(mr_sv s, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < s.n; i++)
        if (s.p[i] < '0' || s.p[i] > '9' || __builtin_mul_overflow(*out, 10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(s.p[i] - '0'), out))
            return false;
    return s.n > 0;
}

/* The text comes from other tasks: every part is checked, and the devices must be valid names. */
mr_status *mr_rendezvous_key_parse(mr_sv text, mr_rendezvous_key *out, uint64_t *frame,
                                   int64_t *iteration)
{
    mr_sv rest = text, part[6], frame_text;
    int n = 0;
    while (n < 6 && mr_sv_cut(&rest, ';', &part[n]))
        n++;
    uint64_t incarnation;
    *out = (mr_rendezvous_key){0};
    if (n != 5 || !parse_hex16(part[1], &incarnation) || !mr_sv_cut(&part[4], ':', &frame_text) ||
        !parse_u64(frame_text, frame) || part[4].p == NULL || !mr_sv_to_i64(part[4], iteration))
        return mr_invalid("Invalid rendezvous key: %.*s", MR_SV_ARG(text));
    return mr_rendezvous_key_make(part[0], incarnation, part[2], part[3], out);
}

void mr_rendezvous_key_deinit(mr_rendezvous_key *k)
{
    mr_free(k->text);
    *k = (mr_rendezvous_key){0};
}

/* ---- the table ---- */

static size_t key_bytes(const mr_rendezvous_key *k)
{
    return (size_t)(k->name.p + k->name.n - k->text);
}

/* The hash of a key in one frame and iteration. The last line mixes high bits into the low ones, which select the
 * shard and the bucket. */
static uint64_t hash_of(const mr_rendezvous_key *k, uint64_t frame, int64_t iteration)
{
    uint64_t h =
        k->hash ^ (frame * 0x9e3779b97f4a7c15u) ^ ((uint64_t)iteration * 0xc2b2ae3d27d4eb4fu);
    return h ^ h >> 29;
}

static uint64_t recv_hash(const mr_recv *w) { return hash_of(w->key, w->frame, w->iteration); }

/* The hash is compared first, which decides nearly always. */
static bool value_matches(const value *v, const mr_recv *w, uint64_t hash)
{
    return v->hash == hash && v->frame == w->frame && v->iteration == w->iteration &&
           v->text_n == key_bytes(w->key) && memcmp(v->text, w->key->text, v->text_n) == 0;
}

/* The counterpart of value_matches. w has no hash of its own key in this frame, so the key's hash is compared. */
static bool wait_matches(const mr_recv *w, const mr_rendezvous_key *k, uint64_t frame,
                         int64_t iteration)
{
    return w->frame == frame && w->iteration == iteration && w->key->hash == k->hash &&
           key_bytes(w->key) == key_bytes(k) && memcmp(w->key->text, k->text, key_bytes(k)) == 0;
}

static shard *shard_of(mr_rendezvous *r, uint64_t hash) { return &r->shards[hash % N_SHARDS]; }

static bucket *bucket_of(const shard *s, uint64_t hash)
{
    return &s->buckets[(hash / N_SHARDS) & (s->n_buckets - 1)];
}

/* Appending keeps the order of arrival, in which uses of one key must meet. */
static void append_value(bucket *b, value *v)
{
    value **at = &b->values;
    while (*at)
        at = &(*at)->next;
    v->next = NULL;
    *at = v;
}

/* Appending keeps the order of arrival, as for values. */
static void append_wait(bucket *b, mr_recv *w)
{
    mr_recv **at = &b->waits;
    while (*at)
        at = &(*at)->next;
    w->next = NULL;
    *at = w;
}

/* Makes room for one more entry. Doubling keeps the chains short, whatever the number of keys. */
static void grow_locked(shard *s)
{
    if (s->n_buckets && s->n < 2 * s->n_buckets)
        return;
    uint32_t old_n = s->n_buckets;
    bucket *old = s->buckets;
    s->n_buckets = old_n ? old_n * 2 : FIRST_BUCKETS;
    s->buckets = mr_new_array(bucket, s->n_buckets);
    MR_ASSERT((s->n_buckets & (s->n_buckets - 1)) == 0);
    for (uint32_t i = 0; i < old_n; i++) {
        for (value *v = old[i].values, *next; v; v = next) {
            next = v->next;
            append_value(bucket_of(s, v->hash), v);
        }
        for (mr_recv *w = old[i].waits, *next; w; w = next) {
            next = w->next;
            append_wait(bucket_of(s, recv_hash(w)), w);
        }
    }
    mr_free(old);
}

/* Takes over the reference to t. */
static value *value_new(const mr_rendezvous_key *k, uint64_t hash, uint64_t frame,
                        int64_t iteration, mr_tensor *t, bool dead)
{
    size_t n = key_bytes(k);
    value *v = mr_small_alloc(sizeof(value) + n);
    *v = (value){NULL, t, hash, frame, iteration, dead, n};
    memcpy(v->text, k->text, n);
    return v;
}

static void value_free(value *v) { mr_small_free(v, sizeof(value) + v->text_n); }

/* ---- the interface ---- */

/* The tables of the shards are allocated with their first entry: many steps have no transfers. */
mr_rendezvous *mr_rendezvous_new(void)
{
    mr_rendezvous *r = mr_new(mr_rendezvous);
    mr_refs_init(&r->refs);
    mr_mutex_init(&r->mu);
    for (int i = 0; i < N_SHARDS; i++)
        mr_mutex_init(&r->shards[i].mu);
    return r;
}

mr_rendezvous *mr_rendezvous_ref(mr_rendezvous *r)
{
    mr_refs_take(&r->refs);
    return r;
}

/* The last reference drops values that were never received, then reports to the remote side that it may free its
 * state. */
void mr_rendezvous_unref(mr_rendezvous *r)
{
    if (!r || !mr_refs_drop(&r->refs))
        return;
    mr_rendezvous_reset(r);
    for (int i = 0; i < N_SHARDS; i++) {
        mr_free(r->shards[i].buckets);
        mr_mutex_deinit(&r->shards[i].mu);
    }
    mr_mutex_deinit(&r->mu);
    if (r->remote.gone)
        r->remote.gone(r->remote.arg);
    mr_free(r);
}

void mr_rendezvous_set_remote(mr_rendezvous *r, mr_rendezvous_remote remote) { r->remote = remote; }

/* A copy of the reason for the abort, marked as derived, so that it never replaces a root error. */
static mr_status *abort_status(mr_rendezvous *r)
{
    mr_lock(&r->mu);
    MR_ASSERT(r->why);
    mr_status *st = mr_status_mark_derived(mr_status_copy(r->why));
    mr_unlock(&r->mu);
    return st;
}

/* Removes the first receive that waits for this key. Needs the shard's lock. */
static mr_recv *take_wait_locked(shard *s, uint64_t hash, const mr_rendezvous_key *k,
                                 uint64_t frame, int64_t iteration)
{
    if (!s->n)
        return NULL;
    for (mr_recv **at = &bucket_of(s, hash)->waits; *at; at = &(*at)->next)
        if (wait_matches(*at, k, frame, iteration)) {
            MR_ASSERT(s->n > 0 && !s->aborted);
            mr_recv *w = *at;
            *at = w->next;
            s->n--;
            return w;
        }
    return NULL;
}

/* Removes the first value of the key that w waits for. Needs the shard's lock. */
static value *take_value_locked(shard *s, uint64_t hash, const mr_recv *w)
{
    if (!s->n)
        return NULL;
    for (value **at = &bucket_of(s, hash)->values; *at; at = &(*at)->next)
        if (value_matches(*at, w, hash)) {
            value *v = *at;
            *at = v->next;
            s->n--;
            return v;
        }
    return NULL;
}

/* Takes over t, also on failure. The callback of a waiting receive runs here, on the sender's thread, after the
 * lock is released. */
mr_status *mr_rendezvous_send(mr_rendezvous *r, const mr_rendezvous_key *key, uint64_t frame,
                              int64_t iteration, mr_tensor *t, bool dead)
{
    MR_ASSERT(!t || !dead);
    uint64_t hash = hash_of(key, frame, iteration);
    shard *s = shard_of(r, hash);
    atomic_store_explicit(&r->used, true, memory_order_relaxed);
    mr_lock(&s->mu);
    bool aborted = s->aborted;
    mr_recv *w = aborted ? NULL : take_wait_locked(s, hash, key, frame, iteration);
    /* Nobody waits: the value stays in the table until its receive comes, or until the step ends. */
    if (!aborted && !w) {
        grow_locked(s);
        append_value(bucket_of(s, hash), value_new(key, hash, frame, iteration, t, dead));
        s->n++;
    }
    mr_unlock(&s->mu);
    if (aborted) {
        mr_tensor_unref(t);
        return abort_status(r);
    }
    if (w)
        w->fn(w, NULL, t, dead);
    return NULL;
}

/* A receive from another task is taken over by `remote`. Otherwise the callback runs here if the value has
 * arrived or the rendezvous is aborted; else the receive waits in the table. */
void mr_rendezvous_recv(mr_rendezvous *r, mr_recv *w)
{
    if (r->remote.take && r->remote.take(r->remote.arg, w))
        return;
    uint64_t hash = recv_hash(w);
    shard *s = shard_of(r, hash);
    atomic_store_explicit(&r->used, true, memory_order_relaxed);
    mr_lock(&s->mu);
    bool aborted = s->aborted;
    value *v = aborted ? NULL : take_value_locked(s, hash, w);
    if (!aborted && !v) {
        grow_locked(s);
        append_wait(bucket_of(s, hash), w);
        s->n++;
    }
    mr_unlock(&s->mu);
    if (aborted) {
        w->fn(w, abort_status(r), NULL, false);
    } else if (v) {
        mr_tensor *t = v->t;
        bool dead = v->dead;
        value_free(v);
        w->fn(w, NULL, t, dead);
    }
}

/* Never waits and never fails; an aborted shard is empty. */
bool mr_rendezvous_poll(mr_rendezvous *r, const mr_rendezvous_key *key, uint64_t frame,
                        int64_t iteration, mr_tensor **t, bool *dead)
{
    mr_recv w = {.key = key, .frame = frame, .iteration = iteration};
    uint64_t hash = recv_hash(&w);
    shard *s = shard_of(r, hash);
    mr_lock(&s->mu);
    value *v = take_value_locked(s, hash, &w);
    mr_unlock(&s->mu);
    if (!v)
        return false;
    *t = v->t;
    *dead = v->dead;
    value_free(v);
    return true;
}

/* Empties a shard and prepends its contents to the two lists, which the caller owns. abort: the shard refuses
 * everything from now on. */
static void take_all(shard *s, bool abort, value **values, mr_recv **waits)
{
    mr_lock(&s->mu);
    s->aborted = abort;
    for (uint32_t i = 0; s->n && i < s->n_buckets; i++) {
        for (value *v = s->buckets[i].values, *next; v; v = next) {
            next = v->next;
            v->next = *values;
            *values = v;
        }
        for (mr_recv *w = s->buckets[i].waits, *next; w; w = next) {
            next = w->next;
            w->next = *waits;
            *waits = w;
        }
        s->buckets[i] = (bucket){0};
    }
    s->n = 0;
    mr_unlock(&s->mu);
}

/* Frees a list of values that nobody will receive. */
static void drop_values(value *v)
{
    for (value *next; v; v = next) {
        next = v->next;
        mr_tensor_unref(v->t);
        value_free(v);
    }
}

/* Only the first abort counts. All shards are marked before any callback runs, because a callback may send or
 * receive. */
void mr_rendezvous_abort(mr_rendezvous *r, const mr_status *why)
{
    MR_ASSERT(why);
    mr_lock(&r->mu);
    bool first = !r->why;
    if (first)
        r->why = mr_status_mark_derived(mr_status_copy(why));
    mr_unlock(&r->mu);
    if (!first)
        return;
    atomic_store_explicit(&r->used, true, memory_order_relaxed);
    value *values = NULL;
    mr_recv *waits = NULL;
    for (int i = 0; i < N_SHARDS; i++)
        take_all(&r->shards[i], true, &values, &waits);
    drop_values(values);
    for (mr_recv *w = waits, *next; w; w = next) {
        next = w->next;
        w->fn(w, abort_status(r), NULL, false);
    }
    if (r->remote.aborted)
        r->remote.aborted(r->remote.arg, why);
}

/* Cheap if nothing went in since the last reset: a local step without transfers never touches the shards. */
void mr_rendezvous_reset(mr_rendezvous *r)
{
    if (!atomic_load_explicit(&r->used, memory_order_relaxed))
        return;
    value *values = NULL;
    mr_recv *waits = NULL;
    for (int i = 0; i < N_SHARDS; i++)
        take_all(&r->shards[i], false, &values, &waits);
    MR_ASSERT(!waits);
    drop_values(values);
    mr_lock(&r->mu);
    mr_status *why = r->why;
    r->why = NULL;
    mr_unlock(&r->mu);
    mr_status_free(why);
    atomic_store_explicit(&r->used, false, memory_order_relaxed);
}
