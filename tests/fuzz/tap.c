/* tests/fuzz/tap.c -- a transport with a man in the middle.
 *
 * A flight is one call in progress: its own request to the loop transport, and the caller's request (none for injected
 * calls). It is in the list from its start until its end is reported; the code that removes it from the list reports
 * the end. So the cutter can end a flight that is being held back in the same way as any other.
 *
 * Locks: one, for the list, the lexicon and the random numbers; never held during calls. */
#include "tests/fuzz/tap.h"

#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/thread.h"
#include "tests/fuzz/values.h"

struct mr_net_peer {
    mr_net_peer *inner;
    int n_flights; /* whose end has not been reported */
    mr_cond gone;  /* one less */
};

typedef struct flight {
    mr_net_request request; /* first */
    mr_net_request *outer;  /* NULL: injected */
    mr_net_peer *peer;
    int method;
    bool mutated, held, started, listed;
    int64_t began_ns;
    mr_refs refs; /* references: the list's, its call's, the cutter's */
    struct flight *next, **link;
} flight;

static struct {
    mr_mutex mu;
    mr_cond empty;
    flight *flights;
    int n_flights;
    fuzz_run *run; /* the one at work */
    fuzz_rng rng;  /* not the run's, which would depend on what other threads do */
    fuzz_lexicon *lexicon;
    int requests, answers; /* one in this many messages is changed; 0: none */
    int64_t cut_after_ns, n_mutated;
    bool has_cutter;
} tap = {.mu = {PTHREAD_MUTEX_INITIALIZER}};

static mr_net *loop(void) { return mr_net_loop(); }

/* ---- flights ---- */

static void flight_unref(flight *f)
{
    if (mr_refs_drop(&f->refs))
        mr_free(f);
}

static flight *flight_new(mr_net_peer *p, int method, mr_net_request *outer)
{
    flight *f = mr_new(flight);
    mr_refs_init(&f->refs); /* the list's */
    mr_refs_take(&f->refs); /* the call's */
    f->peer = p;
    f->method = method;
    f->outer = outer;
    f->began_ns = mr_now_ns();
    f->listed = true;
    return f;
}

static void list_locked(flight *f)
{
    f->next = tap.flights;
    f->link = &tap.flights;
    if (f->next)
        f->next->link = &f->next;
    tap.flights = f;
    tap.n_flights++;
    f->peer->n_flights++;
}

/* True for the caller that must report the end. */
static bool unlist_locked(flight *f)
{
    bool was = f->listed;
    f->listed = false;
    if (was) {
        *f->link = f->next;
        if (f->next)
            f->next->link = f->link;
    }
    return was;
}

/* The end was reported: wakes threads that wait for all ends. */
static void told_locked(flight *f)
{
    tap.n_flights--;
    f->peer->n_flights--;
    mr_cond_broadcast(&tap.empty);
    mr_cond_broadcast(&f->peer->gone);
}

/* ---- answers ---- */

static void count_locked(const flight *f, const mr_status *st)
{
    int64_t *n = tap.run->counts;
    bool malformed = st && strstr(mr_status_message(st), "malformed");
    if (!f->mutated)
        return;
    n[TAP_PARSED] += !malformed;
    n[TAP_ACCEPTED] += !st;
    n[TAP_METHODS + 3 * f->method + 1] += !malformed;
    n[TAP_METHODS + 3 * f->method + 2] += !st;
}

static mr_status *odd_status(fuzz_rng *r)
{
    static const char *const texts[] = {"", "[_Derived_]", "[_Derived_]x", "no %s such %n thing",
                                        "Session handle is not found"};
    return mr_error((mr_code)fuzz_between(r, 1, 16), "%s", fuzz_pick(r, texts));
}

/* Answers in place of the peer: with other bytes, an error, nothing, or another answer. */
static void tamper_reply_locked(flight *f, mr_status **st, mr_bytes *reply)
{
    fuzz_rng *r = &tap.rng;
    mr_sv flat;
    mr_str out = {0};
    if (*st && !fuzz_once_in(r, 4))
        return;
    mr_status_free(*st);
    *st = NULL;
    if (fuzz_once_in(r, 8))
        *st = odd_status(r);
    else if (mr_bytes_flat(reply, &flat) == NULL && !fuzz_once_in(r, 8))
        fuzz_mutate(r, tap.lexicon, f->method, true, flat, 1 + (int)fuzz_below(r, 4), &out);
    else if (!fuzz_once_in(r, 3))
        fuzz_mutant(r, tap.lexicon, f->method, true, (int)fuzz_below(r, 4), &out);
    mr_bytes_deinit(reply);
    mr_bytes_add_str(reply, &out);
    tap.run->counts[TAP_RESPONSES]++;
    tap.n_mutated++;
}

static void hear_reply_locked(flight *f, mr_status *st, mr_bytes *reply)
{
    mr_sv flat;
    mr_status *flattened = st ? NULL : mr_bytes_flat(reply, &flat);
    if (!st && !flattened && (!f->mutated || fuzz_once_in(&tap.rng, 8)))
        fuzz_hear(tap.lexicon, f->method, true, flat);
    mr_status_free(flattened);
}

static void ended(mr_net_request *q, mr_status *st, mr_bytes *reply)
{
    flight *f = (flight *)q;
    mr_lock(&tap.mu);
    bool mine = unlist_locked(f);
    if (!mine)
        fuzz_fail("%s was answered twice", fuzz_methods[f->method].name);
    count_locked(f, st);
    hear_reply_locked(f, st, reply);
    fuzz_say(tap.run, "    %s: %s %s", strrchr(fuzz_methods[f->method].name, '/'),
             mr_code_name(mr_status_code(st)), mr_status_message(st));
    if (f->outer && fuzz_methods[f->method].has_answers && tap.answers &&
        fuzz_once_in(&tap.rng, (uint64_t)tap.answers))
        tamper_reply_locked(f, &st, reply);
    mr_unlock(&tap.mu);
    if (f->outer)
        f->outer->done(f->outer, st, reply);
    else
        mr_status_free(st);
    mr_lock(&tap.mu);
    told_locked(f);
    mr_unlock(&tap.mu);
    flight_unref(f); /* the list's */
    flight_unref(f); /* the call's */
}

/* ---- cutting ---- */

/* Takes over the caller's reference. */
static void cut(flight *f)
{
    mr_bytes none = {0};
    mr_lock(&tap.mu);
    tap.run->counts[TAP_CUT]++;
    bool held = f->held && f->listed;
    f->held = false;
    mr_unlock(&tap.mu);
    if (held) {
        mr_bytes_deinit(&f->request.body);
        ended(&f->request, mr_error(MR_UNAVAILABLE, "held back"), &none);
        mr_bytes_deinit(&none);
    } else {
        loop()->cancel(&f->request);
    }
    flight_unref(f);
}

/* The oldest flight that began before a time, with a reference; NULL: none. */
static flight *older_locked(int64_t before_ns)
{
    flight *found = NULL;
    for (flight *f = tap.flights; f; f = f->next)
        if (f->started && f->began_ns < before_ns && (!found || f->began_ns <= found->began_ns))
            found = f;
    if (found)
        mr_refs_take(&found->refs);
    return found;
}

static bool cut_one(int64_t before_ns)
{
    mr_lock(&tap.mu);
    flight *f = older_locked(before_ns);
    if (f)
        f->began_ns = INT64_MAX; /* once is enough: it is already ending */
    mr_unlock(&tap.mu);
    if (f)
        cut(f);
    return f != NULL;
}

static void *cutter(void *arg)
{
    (void)arg;
    for (;;) {
        nanosleep(&(struct timespec){0, 2000000}, NULL);
        mr_lock(&tap.mu);
        int64_t after = tap.cut_after_ns;
        mr_unlock(&tap.mu);
        while (after && cut_one(mr_now_ns() - after))
            ;
    }
    return NULL;
}

void tap_cut_any(void) { cut_one(INT64_MAX); }

/* ---- the transport ---- */

static void start_flight(flight *f, mr_str *body)
{
    f->request.method = fuzz_methods[f->method].name;
    f->request.done = ended;
    mr_bytes_add_str(&f->request.body, body);
    mr_refs_take(&f->refs); /* this function's */
    mr_lock(&tap.mu);
    bool held = f->held;
    mr_unlock(&tap.mu);
    if (!held)
        loop()->start(f->peer->inner, &f->request);
    mr_lock(&tap.mu);
    f->started = true;
    mr_unlock(&tap.mu);
    flight_unref(f);
}

/* The request to forward: the original, or something else. */
static void tamper_request_locked(flight *f, mr_sv body, mr_str *out)
{
    fuzz_rng *r = &tap.rng;
    f->mutated = tap.requests && fuzz_once_in(r, (uint64_t)tap.requests);
    if (!f->mutated) {
        fuzz_hear(tap.lexicon, f->method, false, body);
        mr_str_append(out, body.p ? body.p : "", body.n);
        tap.run->counts[TAP_SENT]++;
        return;
    }
    f->held = fuzz_once_in(r, 16);
    fuzz_mutate(r, tap.lexicon, f->method, false, body, 1 + (int)fuzz_below(r, 4), out);
}

static void count_request_locked(const flight *f)
{
    if (!f->mutated)
        return;
    tap.run->counts[TAP_REQUESTS]++;
    tap.run->counts[TAP_METHODS + 3 * f->method]++;
    tap.n_mutated++;
}

static void inject_copy(mr_net_peer *p, int method, mr_sv body)
{
    mr_str copy = {0};
    mr_str_append(&copy, body.p ? body.p : "", body.n);
    flight *f = flight_new(p, method, NULL);
    mr_lock(&tap.mu);
    f->mutated = true;
    count_request_locked(f);
    list_locked(f);
    mr_unlock(&tap.mu);
    start_flight(f, &copy);
}

static void tap_start(mr_net_peer *p, mr_net_request *outer)
{
    mr_sv body;
    mr_str out = {0};
    int method = fuzz_method_find(outer->method);
    if (method < 0)
        fuzz_fail("a call of %s", outer->method);
    fuzz_must(mr_bytes_flat(&outer->body, &body), "a message of few bytes");
    flight *f = flight_new(p, method, outer);
    mr_lock(&tap.mu);
    tamper_request_locked(f, body, &out);
    count_request_locked(f);
    list_locked(f);
    bool twice = tap.requests && fuzz_once_in(&tap.rng, 30);
    mr_unlock(&tap.mu);
    if (twice)
        inject_copy(p, method, body);
    mr_bytes_deinit(&outer->body);
    start_flight(f, &out);
}

static void tap_cancel(mr_net_request *outer)
{
    mr_lock(&tap.mu);
    flight *f = tap.flights;
    while (f && f->outer != outer)
        f = f->next;
    if (f)
        mr_refs_take(&f->refs);
    mr_unlock(&tap.mu);
    if (f)
        cut(f);
}

static mr_status *tap_connect(mr_net *n, const char *address, const mr_net_keys *keys,
                              const char *name, mr_net_peer **out)
{
    mr_net_peer *p = mr_new(mr_net_peer);
    (void)n;
    mr_cond_init(&p->gone);
    *out = p;
    return loop()->connect(loop(), address, keys, name, &p->inner);
}

/* One that was not cut yet. */
static flight *any_from_locked(const mr_net_peer *p)
{
    flight *f = tap.flights;
    while (f && (f->peer != p || !f->started || f->began_ns == INT64_MAX))
        f = f->next;
    return f;
}

static void tap_disconnect(mr_net_peer *p)
{
    mr_lock(&tap.mu);
    while (p->n_flights > 0) {
        flight *f = any_from_locked(p);
        if (!f) { /* ends are being reported */
            mr_cond_wait_until(&p->gone, &tap.mu, mr_now_ns() + 1000000);
            continue;
        }
        f->began_ns = INT64_MAX;
        mr_refs_take(&f->refs);
        mr_unlock(&tap.mu);
        cut(f);
        mr_lock(&tap.mu);
    }
    mr_unlock(&tap.mu);
    loop()->disconnect(p->inner);
    mr_cond_deinit(&p->gone);
    mr_free(p);
}

static mr_status *tap_listen(mr_net *n, const mr_net_listen *o, mr_net_server **out, int *port)
{
    (void)n;
    return loop()->listen(loop(), o, out, port);
}

static void tap_stop(mr_net_server *s, int64_t grace_ns) { loop()->stop(s, grace_ns); }

static mr_net net = {.name = "tap",
                     .listen = tap_listen,
                     .stop = tap_stop,
                     .connect = tap_connect,
                     .disconnect = tap_disconnect,
                     .start = tap_start,
                     .cancel = tap_cancel};

/* ---- a run ---- */

mr_net *tap_open(fuzz_run *r, fuzz_lexicon *l)
{
    pthread_t thread;
    mr_lock(&tap.mu);
    bool first = !tap.has_cutter;
    if (first)
        mr_cond_init(&tap.empty);
    tap.has_cutter = true;
    tap.run = r;
    tap.rng.state = fuzz_u64(&r->rng);
    tap.lexicon = l;
    tap.requests = tap.answers = 0;
    tap.n_mutated = 0;
    tap.cut_after_ns = 0;
    mr_unlock(&tap.mu);
    if (first && pthread_create(&thread, NULL, cutter, NULL) != 0)
        fuzz_fail("no thread");
    return &net;
}

void tap_tamper(int requests, int answers)
{
    mr_lock(&tap.mu);
    tap.requests = requests;
    tap.answers = answers;
    mr_unlock(&tap.mu);
}

void tap_cut_after(int64_t ns)
{
    mr_lock(&tap.mu);
    tap.cut_after_ns = ns;
    mr_unlock(&tap.mu);
}

int64_t tap_mutated(void)
{
    mr_lock(&tap.mu);
    int64_t n = tap.n_mutated;
    mr_unlock(&tap.mu);
    return n;
}

void tap_inject(mr_net_peer *p, int method, int changes)
{
    mr_str body = {0};
    flight *f = flight_new(p, method, NULL);
    mr_lock(&tap.mu);
    f->mutated = true;
    fuzz_mutant(&tap.rng, tap.lexicon, method, false, changes, &body);
    count_request_locked(f);
    list_locked(f);
    fuzz_say(tap.run, "%s of %zu bytes", fuzz_methods[method].name, body.n);
    mr_unlock(&tap.mu);
    start_flight(f, &body);
}

void tap_close(void)
{
    mr_lock(&tap.mu);
    tap.requests = tap.answers = 0;
    tap.cut_after_ns = 0;
    mr_unlock(&tap.mu);
    for (bool more = true; more;) { /* an ended call may start another one */
        while (cut_one(INT64_MAX))
            ;
        mr_lock(&tap.mu);
        if (tap.n_flights > 0)
            mr_cond_wait_until(&tap.empty, &tap.mu, mr_now_ns() + 1000000);
        more = tap.n_flights > 0;
        mr_unlock(&tap.mu);
    }
}
