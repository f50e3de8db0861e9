/* group/fusion.c -- many small all-reduces as few large ones.
 *
 * The group's own thread works in cycles.  When there are requests, and some have had time to gather, it exchanges with the other
 * members what each has (a list of names and what is to be done with them); what all have is ready, in the order of member 0's
 * list.  All see the same lists, so all decide the same.  What is ready is copied into one buffer as far as it fits and is alike,
 * reduced, and copied back.  What is not ready stays for a later cycle.
 *
 * A member that has nothing does not come to the exchange, so the others wait for it there. */
#include "base/clock.h"
#include "base/log.h"
#include "base/long_wait.h"
#include "base/memory.h"
#include "group/member.h"

enum { LISTED = 64, MOST_LISTED = 1 << 20 };

typedef struct item { /* a request that waits */
    mr_group_work work;
    char *name;
    uint64_t hash;
    size_t bytes;
    int64_t since_ns;
    void (*done)(void *arg, mr_status *st);
    void *arg;
    struct item *next;
} item;

typedef struct entry { /* of it, as members tell each other */
    uint64_t hash;
    int64_t count;
    uint32_t type, merge; /* mean: bit 8 of merge, deterministic: bit 9 */
} entry;

typedef struct list { /* what is exchanged at first; who has more tells all in a second exchange */
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
    /* the thread's own */
    char *buffer;
    size_t buffer_bytes;
    list own, *all;
    int all_n;
    entry *rest;      /* all entries of all, when there are many: `most` a member */
    int64_t most;
    int64_t tell_ns; /* a request that waits for a member is logged then at the earliest */
};

static entry entry_of(const item *it)
{
    const mr_group_work *w = &it->work;
    return (entry){it->hash, w->count, (uint32_t)w->type, (uint32_t)w->merge | (uint32_t)w->mean << 8 | (uint32_t)w->deterministic << 9};
}

static void end_item(item *it, mr_status *st)
{
    it->done(it->arg, st);
    mr_free(it->name);
    mr_free(it);
}

static void end_items(item *list_of, const mr_status *why)
{
    while (list_of) {
        item *next = list_of->next;
        end_item(list_of, mr_status_copy(why));
        list_of = next;
    }
}

static item *take_all_locked(mr_fusion *f) MR_REQUIRES(f->mu)
{
    item *all = f->items;
    f->items = NULL;
    f->items_end = &f->items;
    f->bytes = 0;
    return all;
}

/* The item of an entry, taken out of the list; NULL: it is not there. */
static item *take_locked(mr_fusion *f, uint64_t hash) MR_REQUIRES(f->mu)
{
    for (item **at = &f->items; *at; at = &(*at)->next)
        if ((*at)->hash == hash) {
            item *it = *at;
            *at = it->next;
            if (!it->next)
                f->items_end = at;
            f->bytes -= it->bytes;
            it->next = NULL;
            return it;
        }
    return NULL;
}

/* ---- who has what ---- */

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
    return f->most > LISTED ? f->rest + (int64_t)i * f->most : f->all[i].entries;
}

static mr_status *exchange_rest(mr_fusion *f, int64_t deadline_ns)
{
    size_t bytes = (size_t)f->most * sizeof(entry), all;
    entry *own = mr_try_calloc((size_t)f->most, sizeof(entry));
    mr_free(f->rest);
    f->rest = mr_size_mul(bytes, (size_t)f->all_n, &all) ? mr_try_alloc(all) : NULL;
    mr_status *st = own && f->rest ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "group: no memory for %lld names", (long long)f->most);
    int64_t n = 0;
    mr_lock(&f->mu);
    for (item *it = f->items; !st && it && n < f->own.n; it = it->next) /* those that were counted are still the first */
        own[n++] = entry_of(it);
    mr_unlock(&f->mu);
    if (!st) {
        mr_group_work w = {.kind = MR_GROUP_ALL_GATHER, .type = MR_UINT8, .in = own, .out = f->rest, .count = (int64_t)bytes};
        st = mr_group_run_lane(f->g, MR_LANE_FUSION, &w, deadline_ns);
    }
    mr_free(own);
    return st;
}

static mr_status *exchange(mr_fusion *f, int64_t deadline_ns)
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
    for (int i = 0; i < size; i++) { /* from others: believed as far as it makes sense */
        if (f->all[i].n < 0 || f->all[i].n > MOST_LISTED)
            return mr_error(MR_DATA_LOSS, "group: member %d lists %lld tensors", i, (long long)f->all[i].n);
        f->most = MR_MAX(f->most, f->all[i].n);
    }
    return f->most > LISTED ? exchange_rest(f, deadline_ns) : NULL;
}

static const entry *find_entry(const mr_fusion *f, int member, uint64_t hash)
{
    const entry *e = entries_of(f, member);
    for (int64_t i = 0; i < f->all[member].n; i++)
        if (e[i].hash == hash)
            return &e[i];
    return NULL;
}

/* Whether all have it; *alike: and mean the same by it. */
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

/* What is ready, as a list in the order that all agree on. */
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
            continue; /* listed twice under one hash */
        if (alike) {
            *end = it;
            end = &it->next;
        } else {
            mr_status *st = mr_invalid("group: members do different things with '%s'", it->name);
            end_item(it, st);
        }
    }
    return ready;
}

/* ---- reducing ---- */

static bool are_alike(const item *a, const item *b)
{
    const mr_group_work *x = &a->work, *y = &b->work;
    return x->type == y->type && x->merge == y->merge && x->mean == y->mean && x->deterministic == y->deterministic &&
           x->algorithm == y->algorithm;
}

static bool reserve(mr_fusion *f, size_t bytes)
{
    if (bytes <= f->buffer_bytes)
        return true;
    mr_group_memory_free(f->g, f->buffer);
    f->buffer = mr_group_memory(f->g, bytes);
    f->buffer_bytes = f->buffer ? bytes : 0;
    return f->buffer != NULL;
}

/* Items from first up to (not with) end, in one buffer. */
static mr_status *reduce_fused(mr_fusion *f, item *first, const item *end, int64_t count, int64_t deadline_ns)
{
    size_t elem = mr_dtype_size(first->work.type), at = 0;
    if (!reserve(f, MR_MAX((size_t)f->g->c.fusion_bytes, (size_t)count * elem)))
        return mr_error(MR_RESOURCE_EXHAUSTED, "group: no memory for fused tensors");
    for (const item *it = first; it != end; at += it->bytes, it = it->next)
        memcpy(f->buffer + at, it->work.in, it->bytes);
    mr_group_work w = first->work;
    w.in = w.out = f->buffer;
    w.count = count;
    MR_TRY(mr_group_run_lane(f->g, MR_LANE_FUSION, &w, deadline_ns));
    at = 0;
    for (const item *it = first; it != end; at += it->bytes, it = it->next)
        memcpy(it->work.out, f->buffer + at, it->bytes);
    return NULL;
}

/* The first item and those after it that fit; returns the rest. */
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

/* The first member whose list does not have it; -1: all have. */
static int who_lacks(const mr_fusion *f, uint64_t hash)
{
    for (int i = 0; i < f->all_n; i++)
        if (!find_entry(f, i, hash))
            return i;
    return -1;
}

/* Logs the request that has waited longest, when it is old enough, and the member that has not begun it. */
static void tell_old(mr_fusion *f)
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
    int missing = name ? who_lacks(f, hash) : -1;
    if (missing >= 0) {
        mr_info("Still waiting for member %d of %d of group '%s': it has not begun '%s' (%.0f s)", missing, f->all_n,
                f->g->name, name, (double)(now - since) / 1e9);
        f->tell_ns = now + mr_long_wait_period_ns();
    }
    mr_free(name);
}

/* Requests that have waited for too long for somebody. */
static void end_old(mr_fusion *f)
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
                                 who_lacks(f, it->hash), it->name);
        end_item(it, st);
    }
}

static mr_status *cycle(mr_fusion *f)
{
    mr_status *st = NULL;
    int64_t deadline_ns = mr_now_ns() + f->g->c.timeout_ns;
    MR_TRY(exchange(f, deadline_ns));
    item *ready = take_ready(f);
    while (ready && !st)
        ready = reduce_some(f, ready, deadline_ns, &st);
    end_items(ready, st);
    tell_old(f);
    end_old(f);
    return st;
}

/* ---- its thread ---- */

/* Until there is something, and a little longer for others to come; false: it is the end. */
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

static void run(void *arg)
{
    mr_fusion *f = arg;
    while (wait_for_items(f)) {
        mr_lock(&f->mu);
        bool busy = f->busy;
        mr_unlock(&f->mu);
        if (!busy)
            continue;
        mr_status *st = cycle(f);
        if (!st)
            continue;
        mr_group_spoil(f->g, st); /* the others may be in the middle of what this member has no memory for */
        mr_lock(&f->mu);
        item *all = take_all_locked(f);
        mr_unlock(&f->mu);
        end_items(all, st);
        mr_status_free(st);
    }
}

/* ---- its life ---- */

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
        int err = mr_thread_start(&f->thread, "mr-group", run, f);
        if (err) {
            st = mr_error(MR_RESOURCE_EXHAUSTED, "group '%s': no thread: %s", g->name, strerror(err));
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
    mr_group_memory_free(f->g, f->buffer); /* its number is of the generation */
    f->buffer = NULL;
    f->buffer_bytes = 0;
}

void mr_fusion_resume(mr_fusion *f)
{
    mr_lock(&f->mu);
    f->paused = false;
    mr_cond_broadcast(&f->changed);
    mr_unlock(&f->mu);
}

void mr_fusion_free(mr_fusion *f)
{
    if (!f)
        return;
    mr_lock(&f->mu);
    f->closing = true;
    mr_cond_broadcast(&f->changed);
    mr_unlock(&f->mu);
    mr_thread_join(&f->thread);
    mr_status *why = mr_error(MR_CANCELLED, "group '%s': this member leaves", f->g->name);
    end_items(f->items, why);
    mr_status_free(why);
    mr_group_memory_free(f->g, f->buffer);
    mr_free(f->all);
    mr_free(f->rest);
    mr_cond_deinit(&f->changed);
    mr_mutex_deinit(&f->mu);
    mr_free(f);
}

static mr_status *check(mr_group *g, const mr_group_request *r)
{
    if (!r->name || !r->done)
        return mr_invalid("group '%s': a request needs a name", g->name);
    if (r->work.kind != MR_GROUP_ALL_REDUCE)
        return mr_invalid("group '%s': '%s' is no all-reduce", g->name, r->name);
    return mr_group_work_check(&r->work, mr_group_n_members(g), mr_group_own_rank(g));
}

static bool is_there_locked(const mr_fusion *f, uint64_t hash)
{
    for (const item *it = f->items; it; it = it->next)
        if (it->hash == hash)
            return true;
    return false;
}

mr_status *mr_group_begin(mr_group *g, const mr_group_request *r)
{
    mr_fusion *f;
    MR_TRY(check(g, r));
    MR_TRY(fusion_of(g, &f));
    item *it = mr_new(item);
    *it = (item){.work = r->work, .name = mr_strdup(r->name), .hash = mr_hash64(r->name, strlen(r->name)),
                 .bytes = (size_t)r->work.count * mr_dtype_size(r->work.type), .since_ns = mr_now_ns(), .done = r->done, .arg = r->arg};
    mr_lock(&f->mu);
    bool twice = is_there_locked(f, it->hash), closing = f->closing;
    if (!twice && !closing) {
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
    return twice ? mr_error(MR_ALREADY_EXISTS, "group '%s': '%s' is under way already", g->name, r->name)
                 : mr_error(MR_CANCELLED, "group '%s': this member leaves", g->name);
}
