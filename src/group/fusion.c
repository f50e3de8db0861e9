/* group/fusion.c -- combines many small all-reduces into a few large ones.
 *
 * The fusion thread works in cycles. When there are requests, and cycle_ns has passed for others to arrive, it
 * exchanges lists with the other members: the name (as a hash), type and count of each request. Requests that all
 * members have are ready, in the order of member 0's list. All members see the same lists, so all decide the same.
 * Ready requests of one kind are copied into one buffer as far as they fit, reduced, and copied back. The others
 * stay for a later cycle.
 *
 * A member without requests does not take part in the exchange, so the others wait for it there.
 *
 * Invariants: `bytes` is the sum over `items`, and `items_end` points at the NULL that ends the list. A request is
 * either in the list or owned by the thread that took it out, which calls its `done` exactly once.
 *
 * Locking: f->mu guards the list of requests. `busy` is true while a cycle runs; mr_fusion_pause waits for it to
 * become false, and then owns the buffer. */
#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "base/memory.h"
#include "group/member.h"

enum { LISTED = 64, MOST_LISTED = 1 << 20 };

typedef struct item { /* a pending request */
    mr_group_work work;
    char *name;
    uint64_t hash;
    size_t bytes;
    int64_t since_ns;
    void (*done)(void *arg, mr_status *st);
    void *arg;
    struct item *next;
} item;

typedef struct entry { /* a request as members describe it to each other */
    uint64_t hash;
    int64_t count;
    uint32_t type, merge; /* mean: bit 8 of merge, deterministic: bit 9 */
} entry;

typedef struct list { /* the first exchange; if a member has more than LISTED, a second exchange has all entries */
    int64_t n;
    entry entries[LISTED];
} list;

struct mr_fusion {
    mr_group *g;
    mr_thread thread;
    mr_mutex mu;
    mr_cond changed;
    item *items MR_GUARDED_BY(mu), **items_end MR_GUARDED_BY(mu);
    size_t bytes MR_GUARDED_BY(mu); /* of all items */
    bool paused MR_GUARDED_BY(mu), busy MR_GUARDED_BY(mu), closing MR_GUARDED_BY(mu);
    /* used by the fusion thread alone */
    char *buffer;
    size_t buffer_bytes;
    list own, *all;
    int all_n;
    entry *rest;     /* after a second exchange: `most` entries for each member */
    int64_t most;
    int64_t tell_ns; /* the earliest time of the next message in the log about a waiting request */
};

/* Two flags are packed into `merge`, so that comparing three numbers compares everything that must agree. */
static entry entry_of(const item *it)
{
    const mr_group_work *w = &it->work;
    return (entry){it->hash, w->count, (uint32_t)w->type, (uint32_t)w->merge | (uint32_t)w->mean << 8 | (uint32_t)w->deterministic << 9};
}

/* Ends a request that is in no list; done takes over st. Called without the lock, because done may begin another. */
static void end_item(item *it, mr_status *st)
{
    MR_ASSERT(it->done);
    it->done(it->arg, st);
    mr_free(it->name);
    mr_free(it);
}

/* Ends a whole list, each request with its own copy of why. */
static void end_items(item *list_of, const mr_status *why)
{
    while (list_of) {
        item *next = list_of->next;
        end_item(list_of, mr_status_copy(why));
        list_of = next;
    }
}

/* Empties the list; the caller owns the requests and must end them. */
static item *take_all_locked(mr_fusion *f) MR_REQUIRES(f->mu)
{
    item *all = f->items;
    MR_ASSERT(!*f->items_end && (all || f->bytes == 0));
    f->items = NULL;
    f->items_end = &f->items;
    f->bytes = 0;
    return all;
}

/* Removes the request with this hash from the list; NULL: there is none. */
static item *take_locked(mr_fusion *f, uint64_t hash) MR_REQUIRES(f->mu)
{
    for (item **at = &f->items; *at; at = &(*at)->next)
        if ((*at)->hash == hash) {
            item *it = *at;
            MR_ASSERT(f->bytes >= it->bytes);
            *at = it->next;
            if (!it->next)
                f->items_end = at;
            f->bytes -= it->bytes;
            it->next = NULL;
            return it;
        }
    return NULL;
}

/* ---- exchanging lists ---- */

/* Fills the first exchange: the number of requests, and the first LISTED of them. */
static void list_own(mr_fusion *f)
{
    memset(&f->own, 0, sizeof(f->own));
    mr_lock(&f->mu);
    for (item *it = f->items; it && f->own.n < MOST_LISTED; it = it->next, f->own.n++)
        if (f->own.n < LISTED)
            f->own.entries[f->own.n] = entry_of(it);
    mr_unlock(&f->mu);
}

/* The entries of member i. */
static const entry *entries_of(const mr_fusion *f, int i)
{
    MR_ASSERT(i >= 0 && i < f->all_n && f->all[i].n <= f->most);
    return f->most > LISTED ? f->rest + (int64_t)i * f->most : f->all[i].entries;
}

/* The second exchange: every member sends `most` entries, unused ones zero. Requests are only appended, so those
 * counted by list_own are still the first f->own.n. */
static mr_status *exchange_rest(mr_fusion *f, int64_t deadline_ns)
{
    MR_ASSERT(f->most > LISTED && f->own.n <= f->most);
    size_t bytes = (size_t)f->most * sizeof(entry), all;
    entry *own = mr_try_calloc((size_t)f->most, sizeof(entry));
    mr_free(f->rest);
    f->rest = mr_size_mul(bytes, (size_t)f->all_n, &all) ? mr_try_alloc(all) : NULL;
    mr_status *st = own && f->rest ? NULL
                                   : mr_error(MR_RESOURCE_EXHAUSTED, "group: out of memory for a list of %lld tensors",
                                              (long long)f->most);
    int64_t n = 0;
    mr_lock(&f->mu);
    for (item *it = f->items; !st && it && n < f->own.n; it = it->next)
        own[n++] = entry_of(it);
    mr_unlock(&f->mu);
    if (!st) {
        mr_group_work w = {.kind = MR_GROUP_ALL_GATHER, .type = MR_UINT8, .in = own, .out = f->rest, .count = (int64_t)bytes};
        st = mr_group_run_lane(f->g, MR_LANE_FUSION, &w, deadline_ns);
    }
    mr_free(own);
    return st;
}

/* Exchanges lists with all members; afterwards entries_of gives those of each. The counts come from other
 * processes, so they are checked. */
static mr_status *exchange_lists(mr_fusion *f, int64_t deadline_ns)
{
    int size = mr_group_n_members(f->g);
    if (size != f->all_n) {
        mr_free(f->all);
        f->all = mr_new_array(list, size);
        f->all_n = size;
    }
    list_own(f);
    mr_group_work w = {.kind = MR_GROUP_ALL_GATHER, .type = MR_UINT8, .in = &f->own, .out = f->all, .count = sizeof(list)};
    MR_TRY(mr_group_run_lane(f->g, MR_LANE_FUSION, &w, deadline_ns));
    f->most = 0;
    for (int i = 0; i < size; i++) {
        if (f->all[i].n < 0 || f->all[i].n > MOST_LISTED)
            return mr_error(MR_DATA_LOSS, "group: member %d lists %lld tensors, at most %d are possible", i,
                            (long long)f->all[i].n, (int)MOST_LISTED);
        f->most = MR_MAX(f->most, f->all[i].n);
    }
    return f->most > LISTED ? exchange_rest(f, deadline_ns) : NULL;
}

/* Linear search: most lists are short. */
static const entry *find_entry(const mr_fusion *f, int member, uint64_t hash)
{
    const entry *e = entries_of(f, member);
    for (int64_t i = 0; i < f->all[member].n; i++)
        if (e[i].hash == hash)
            return &e[i];
    return NULL;
}

/* Whether all members have the request; *alike: and all describe it the same. */
static bool is_ready(const mr_fusion *f, const entry *e, bool *alike)
{
    *alike = true;
    for (int i = 0; i < f->all_n; i++) {
        const entry *x = find_entry(f, i, e->hash);
        if (!x)
            return false;
        *alike &= x->count == e->count && x->type == e->type && x->merge == e->merge;
    }
    return true;
}

/* Takes the ready requests out of the list, in the order that all members agree on. Requests that members describe
 * differently end with an error; all members see that too, so they still agree. */
static item *take_ready(mr_fusion *f)
{
    item *ready = NULL, **end = &ready;
    for (int64_t i = 0; i < f->all[0].n; i++) {
        bool alike;
        const entry *e = &entries_of(f, 0)[i];
        if (!is_ready(f, e, &alike))
            continue;
        mr_lock(&f->mu);
        item *it = take_locked(f, e->hash);
        mr_unlock(&f->mu);
        if (!it)
            continue; /* two names with one hash: the first entry took it */
        if (alike) {
            *end = it;
            end = &it->next;
        } else {
            mr_status *st = mr_invalid("group: members disagree about the count, type or merge of '%s'", it->name);
            end_item(it, st);
        }
    }
    return ready;
}

/* ---- reducing ---- */

/* Whether two requests can be reduced as one operation. */
static bool are_alike(const item *a, const item *b)
{
    const mr_group_work *x = &a->work, *y = &b->work;
    return x->type == y->type && x->merge == y->merge && x->mean == y->mean && x->deterministic == y->deterministic &&
           x->algorithm == y->algorithm;
}

/* Grows the fusion buffer; false: out of memory. */
static bool reserve_buffer(mr_fusion *f, size_t bytes)
{
    if (bytes <= f->buffer_bytes)
        return true;
    mr_group_memory_free(f->g, f->buffer);
    f->buffer = mr_group_memory(f->g, bytes);
    f->buffer_bytes = f->buffer ? bytes : 0;
    return f->buffer != NULL;
}

/* Reduces the requests from first up to, not including, end in one buffer. count is the sum of their elements. */
static mr_status *reduce_fused(mr_fusion *f, item *first, const item *end, int64_t count, int64_t deadline_ns)
{
    size_t elem = mr_dtype_size(first->work.type), at = 0;
    if (!reserve_buffer(f, MR_MAX((size_t)f->g->c.fusion_bytes, (size_t)count * elem)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "group: out of memory for the fusion buffer");
    for (const item *it = first; it != end; at += it->bytes, it = it->next)
        memcpy(f->buffer + at, it->work.in, it->bytes);
    MR_ASSERT(at == (size_t)count * elem && at <= f->buffer_bytes);
    mr_group_work w = first->work;
    w.in = w.out = f->buffer;
    w.count = count;
    MR_TRY(mr_group_run_lane(f->g, MR_LANE_FUSION, &w, deadline_ns));
    at = 0;
    for (const item *it = first; it != end; at += it->bytes, it = it->next)
        memcpy(it->work.out, f->buffer + at, it->bytes);
    return NULL;
}

/* Reduces the first request and those after it that fit into one buffer, and ends them with *st. Returns the rest
 * of the list. A single request is reduced where it is, without a copy. */
static item *reduce_some(mr_fusion *f, item *first, int64_t deadline_ns, mr_status **st)
{
    size_t bytes = first->bytes;
    int64_t count = first->work.count;
    item *end = first->next;
    while (end && are_alike(first, end) && bytes + end->bytes <= (size_t)f->g->c.fusion_bytes) {
        bytes += end->bytes;
        count += end->work.count;
        end = end->next;
    }
    if (end == first->next)
        *st = mr_group_run_lane(f->g, MR_LANE_FUSION, &first->work, deadline_ns);
    else
        *st = reduce_fused(f, first, end, count, deadline_ns);
    while (first != end) {
        item *next = first->next;
        end_item(first, mr_status_copy(*st));
        first = next;
    }
    return end;
}

/* The first member whose list lacks the request; -1: all have it. */
static int member_without(const mr_fusion *f, uint64_t hash)
{
    for (int i = 0; i < f->all_n; i++)
        if (!find_entry(f, i, hash))
            return i;
    return -1;
}

/* Logs the oldest request once it has waited long enough, with a member that has not begun it. */
static void log_oldest(mr_fusion *f)
{
    int64_t now = mr_now_ns(), since = 0;
    char *name = NULL;
    uint64_t hash = 0;
    if (now < f->tell_ns)
        return;
    mr_lock(&f->mu);
    if (f->items && now - f->items->since_ns >= mr_long_wait_period_ns()) {
        since = f->items->since_ns;
        hash = f->items->hash;
        name = mr_strdup(f->items->name);
    }
    mr_unlock(&f->mu);
    int missing = name ? member_without(f, hash) : -1;
    if (missing >= 0) {
        mr_info("Still waiting for member %d of %d of group '%s': it has not begun '%s' (%.0f s)", missing, f->all_n,
                f->g->name, name, (double)(now - since) / 1e9);
        f->tell_ns = now + mr_long_wait_period_ns();
    }
    mr_free(name);
}

/* Ends requests that have waited longer than timeout_ns for another member. */
static void end_expired(mr_fusion *f)
{
    int64_t now = mr_now_ns();
    for (;;) {
        mr_lock(&f->mu);
        item *it = f->items;
        while (it && now - it->since_ns < f->g->c.timeout_ns)
            it = it->next;
        it = it ? take_locked(f, it->hash) : NULL;
        mr_unlock(&f->mu);
        if (!it)
            return;
        mr_status *st = mr_error(MR_DEADLINE_EXCEEDED, "group '%s': member %d has not begun '%s'", f->g->name,
                                 member_without(f, it->hash), it->name);
        end_item(it, st);
    }
}

/* One cycle: exchange, reduce what is ready, look after what is old. After an error every ready request has ended
 * with it. */
static mr_status *run_cycle(mr_fusion *f)
{
    mr_status *st = NULL;
    int64_t deadline_ns = mr_now_ns() + f->g->c.timeout_ns;
    MR_TRY(exchange_lists(f, deadline_ns));
    item *ready = take_ready(f);
    while (ready && !st)
        ready = reduce_some(f, ready, deadline_ns, &st);
    end_items(ready, st);
    log_oldest(f);
    end_expired(f);
    return st;
}

/* ---- the thread ---- */

/* Waits until there are requests, then up to cycle_ns for more to fuse with them, or until they fill the buffer.
 * Returns false when the fusion closes; otherwise f->busy says whether to run a cycle. */
static bool wait_for_items(mr_fusion *f)
{
    mr_lock(&f->mu);
    f->busy = false;
    mr_cond_broadcast(&f->changed);
    while (!f->closing && (f->paused || !f->items))
        mr_cond_wait(&f->changed, &f->mu);
    int64_t until = mr_now_ns() + f->g->c.cycle_ns;
    while (!f->closing && !f->paused && f->bytes < (size_t)f->g->c.fusion_bytes && mr_cond_wait_until(&f->changed, &f->mu, until))
        ;
    bool go = !f->closing;
    f->busy = go && !f->paused;
    mr_unlock(&f->mu);
    return go;
}

/* The fusion thread. A failed cycle makes the generation unusable: this member may have failed in the middle of
 * something that the others go on with. All pending requests end with its error. */
static void run_fusion(void *arg)
{
    mr_fusion *f = arg;
    while (wait_for_items(f)) {
        mr_lock(&f->mu);
        bool busy = f->busy;
        mr_unlock(&f->mu);
        if (!busy)
            continue;
        mr_status *st = run_cycle(f);
        if (!st)
            continue;
        mr_group_spoil(f->g, st);
        mr_lock(&f->mu);
        item *all = take_all_locked(f);
        mr_unlock(&f->mu);
        end_items(all, st);
        mr_status_free(st);
    }
}

/* ---- creating, pausing, freeing ---- */

/* The group's fusion, created with its thread at the first request. It starts paused while the group is being
 * formed. */
static mr_status *fusion_of(mr_group *g, mr_fusion **out)
{
    mr_status *st = NULL;
    mr_lock(&g->mu);
    if (!g->fusion) {
        mr_fusion *f = mr_new(mr_fusion);
        f->g = g;
        f->items_end = &f->items;
        f->paused = g->forming;
        mr_mutex_init(&f->mu);
        mr_cond_init(&f->changed);
        int err = mr_thread_start(&f->thread, "mr-group", run_fusion, f);
        if (err) {
            st = mr_error(MR_RESOURCE_EXHAUSTED, "group '%s': cannot start the fusion thread: %s", g->name,
                          strerror(err));
            mr_cond_deinit(&f->changed);
            mr_mutex_deinit(&f->mu);
            mr_free(f);
        } else {
            g->fusion = f;
        }
    }
    *out = g->fusion;
    mr_unlock(&g->mu);
    return st;
}

/* Waits for the running cycle, ends all requests with a copy of why, and frees the buffer, whose number belongs to
 * the generation. The caller has failed the lane, so the cycle ends soon. */
void mr_fusion_pause(mr_fusion *f, const mr_status *why)
{
    mr_lock(&f->mu);
    f->paused = true;
    mr_cond_broadcast(&f->changed);
    while (f->busy)
        mr_cond_wait(&f->changed, &f->mu);
    item *all = take_all_locked(f);
    mr_unlock(&f->mu);
    end_items(all, why);
    mr_group_memory_free(f->g, f->buffer);
    f->buffer = NULL;
    f->buffer_bytes = 0;
}

/* Lets the thread run cycles again; requests that began during the pause are waiting in the list. */
void mr_fusion_resume(mr_fusion *f)
{
    mr_lock(&f->mu);
    f->paused = false;
    mr_cond_broadcast(&f->changed);
    mr_unlock(&f->mu);
}

/* Stops the thread after its present cycle and ends the requests that are left with CANCELLED. The group still
 * exists, because the buffer may be in its shared memory. */
void mr_fusion_free(mr_fusion *f)
{
    if (!f)
        return;
    mr_lock(&f->mu);
    f->closing = true;
    mr_cond_broadcast(&f->changed);
    mr_unlock(&f->mu);
    mr_thread_join(&f->thread);
    mr_status *why = mr_error(MR_CANCELLED, "group '%s': this member is leaving", f->g->name);
    end_items(f->items, why);
    mr_status_free(why);
    mr_group_memory_free(f->g, f->buffer);
    mr_free(f->all);
    mr_free(f->rest);
    mr_cond_deinit(&f->changed);
    mr_mutex_deinit(&f->mu);
    mr_free(f);
}

/* Checks a request on the caller's thread, so that a mistake in it cannot end the generation later. */
static mr_status *check_request(mr_group *g, const mr_group_request *r)
{
    if (!r->name || !r->done)
        return mr_invalid("group '%s': a request needs a name and a callback", g->name);
    if (r->work.kind != MR_GROUP_ALL_REDUCE)
        return mr_invalid("group '%s': only an all-reduce can be fused, and '%s' is another operation", g->name,
                          r->name);
    return mr_group_work_check(&r->work, mr_group_n_members(g), mr_group_own_rank(g));
}

static bool has_request_locked(const mr_fusion *f, uint64_t hash)
{
    for (const item *it = f->items; it; it = it->next)
        if (it->hash == hash)
            return true;
    return false;
}

/* Appends a request and wakes the thread. On an error done is not called. */
mr_status *mr_group_begin(mr_group *g, const mr_group_request *r)
{
    mr_fusion *f;
    MR_TRY(check_request(g, r));
    MR_TRY(fusion_of(g, &f));
    item *it = mr_new(item);
    *it = (item){.work = r->work, .name = mr_strdup(r->name), .hash = mr_hash64(r->name, strlen(r->name)),
                 .bytes = (size_t)r->work.count * mr_dtype_size(r->work.type), .since_ns = mr_now_ns(), .done = r->done, .arg = r->arg};
    mr_lock(&f->mu);
    bool twice = has_request_locked(f, it->hash), closing = f->closing;
    if (!twice && !closing) {
        MR_ASSERT(!*f->items_end);
        *f->items_end = it;
        f->items_end = &it->next;
        f->bytes += it->bytes;
        mr_cond_broadcast(&f->changed);
    }
    mr_unlock(&f->mu);
    if (!twice && !closing)
        return NULL;
    mr_free(it->name);
    mr_free(it);
    return twice ? mr_error(MR_ALREADY_EXISTS, "group '%s': '%s' was begun already and has not ended", g->name, r->name)
                 : mr_error(MR_CANCELLED, "group '%s': this member is leaving", g->name);
}
