/* group/run.c -- operations over any transport, by messages.
 *
 * A step of a schedule starts all its messages at once, in chunks, and merges each chunk as it arrives, so that
 * merging and transfer overlap. Every transfer that was started is finished, also after an error: the first error
 * fails the transport, and then the others end without waiting. Receives are added before sends, so the index of
 * the first send separates them. */
#include <pthread.h>
#include <stdlib.h>

#include "base/memory.h"
#include "group/group.h"
#include "group/merge.h"

#define CHUNK ((size_t)1 << 20)

/* ---- checking an operation ---- */

static bool is_reduction(mr_group_kind k) { return k == MR_GROUP_ALL_REDUCE || k == MR_GROUP_REDUCE_SCATTER; }

/* Rejects what would be wrong at every member, and sizes whose total overflows. */
mr_status *mr_group_work_check(const mr_group_work *w, int size, int rank)
{
    size_t bytes;
    if ((unsigned)w->kind > MR_GROUP_BARRIER)
        return mr_invalid("group: unknown operation %d", (int)w->kind);
    if (w->kind == MR_GROUP_BARRIER)
        return NULL;
    if (!mr_dtype_is_plain(w->type))
        return mr_invalid("group: values of type %s cannot be sent", mr_dtype_name(w->type));
    if (w->count < 0 || !mr_size_mul((size_t)w->count, mr_dtype_size(w->type), &bytes) ||
        !mr_size_mul(bytes, (size_t)size, &bytes) || bytes > INT64_MAX / 2)
        return mr_invalid("group: %lld elements at each of %d members are not possible", (long long)w->count, size);
    if (is_reduction(w->kind))
        MR_TRY(mr_merge_check(w->type, w->merge));
    if (is_reduction(w->kind) && w->mean && w->merge != MR_MERGE_ADD)
        return mr_invalid("group: mean needs the merge to be a sum");
    if (w->kind == MR_GROUP_BROADCAST && (w->root < 0 || w->root >= size))
        return mr_invalid("group: the root of the broadcast is %d, but there are %d members", w->root, size);
    bool needs_in = w->kind != MR_GROUP_BROADCAST || w->root == rank;
    if (w->count > 0 && (!w->out || (needs_in && !w->in)))
        return mr_invalid("group: in or out is NULL although count is %lld", (long long)w->count);
    if (w->count > 0 && size > 1 && (w->kind == MR_GROUP_ALL_TO_ALL || w->kind == MR_GROUP_REDUCE_SCATTER ||
                                     w->kind == MR_GROUP_ALL_GATHER) && w->in == w->out)
        return mr_invalid("group: all-to-all, reduce-scatter and all-gather need in and out to differ");
    return NULL;
}

/* The environment's choice, read once; an unknown name counts as "auto". */
static mr_group_algorithm wanted;
static void read_wanted(void)
{
    const char *name = getenv("MILLRACE_GROUP_ALGORITHM");
    if (name && !mr_group_algorithm_from_name(name, &wanted))
        wanted = MR_GROUP_AUTO;
}

/* The algorithm to use: the caller's choice, or the environment's if the caller left it to us. */
static mr_group_algorithm algorithm_of(const mr_group_work *w)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_wanted);
    if (w->deterministic)
        return MR_GROUP_DIRECT;
    return w->algorithm == MR_GROUP_AUTO ? wanted : w->algorithm;
}

/* ---- messages ---- */

typedef struct run {
    mr_transport *t;
    const mr_group_work *w;
    size_t elem;
    int64_t deadline_ns;
    MR_VEC(mr_transfer) transfers;
    char *aside; /* received values that are to be merged */
    size_t aside_bytes;
} run;

static mr_status *no_memory_error(size_t bytes)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "group: out of memory for %zu bytes to receive", bytes);
}

/* Grows r->aside; its old content is lost. */
static mr_status *reserve_aside(run *r, size_t bytes)
{
    if (bytes <= r->aside_bytes)
        return NULL;
    mr_free(r->aside);
    r->aside = mr_try_alloc(bytes);
    r->aside_bytes = r->aside ? bytes : 0;
    return r->aside ? NULL : no_memory_error(bytes);
}

/* Adds the transfers of a message, one per chunk. Both sides cut alike, so the chunks match. */
static void add_message(run *r, bool sending, int peer, void *data, size_t n)
{
    MR_ASSERT(peer >= 0 && peer < r->t->size && peer != r->t->rank);
    for (size_t at = 0; at < n; at += CHUNK)
        mr_vec_push(&r->transfers,
                    (mr_transfer){.sending = sending, .peer = peer, .data = (char *)data + at, .n = MR_MIN(CHUNK, n - at)});
}

/* Call only when all transfers are added: transports keep pointers into the vector, which must not grow any more. */
static void start_all(run *r)
{
    for (int i = 0; i < r->transfers.n; i++)
        r->t->of->start(r->t, &r->transfers.p[i]);
}

/* Finishes one transfer. The first error fails the transport, so the other transfers end without waiting. */
static void finish_transfer(run *r, int i, mr_status **st)
{
    MR_ASSERT(i >= 0 && i < r->transfers.n);
    mr_transfer *x = &r->transfers.p[i];
    mr_status *end = r->t->of->finish(r->t, x, r->deadline_ns);
    if (end && !*st)
        r->t->of->fail(r->t, end);
    mr_status_update(st, end);
}

/* Finishes all: receives first, because the acknowledgement of a send may arrive later. */
static mr_status *finish_all(run *r, int first_send)
{
    mr_status *st = NULL;
    MR_ASSERT(first_send >= 0 && first_send <= r->transfers.n);
    for (int i = 0; i < first_send; i++)
        finish_transfer(r, i, &st);
    for (int i = first_send; i < r->transfers.n; i++)
        finish_transfer(r, i, &st);
    r->transfers.n = 0;
    return st;
}

/* ---- schedules ---- */

/* Carries out one step on the working buffer: sends one range, receives another, and merges what arrives. */
static mr_status *do_step(run *r, const mr_group_step *s, char *buffer)
{
    MR_ASSERT(r->transfers.n == 0);
    mr_status *st = NULL;
    size_t recv_bytes = s->from >= 0 ? (size_t)s->recv_n * r->elem : 0;
    char *place = buffer + (size_t)s->recv_at * r->elem;
    if (s->merge)
        MR_TRY(reserve_aside(r, recv_bytes));
    char *came = s->merge ? r->aside : place;
    if (recv_bytes)
        add_message(r, false, s->from, came, recv_bytes);
    int n_recv = r->transfers.n;
    if (s->to >= 0)
        add_message(r, true, s->to, buffer + (size_t)s->send_at * r->elem, (size_t)s->send_n * r->elem);
    start_all(r);
    for (int i = 0; i < n_recv; i++) {
        size_t at = (size_t)i * CHUNK, n = r->transfers.p[i].n;
        finish_transfer(r, i, &st);
        if (!st && s->merge)
            mr_merge_two(r->w->type, r->w->merge, came + at, place + at, place + at, (int64_t)(n / r->elem));
    }
    for (int i = n_recv; i < r->transfers.n; i++)
        finish_transfer(r, i, &st);
    r->transfers.n = 0;
    return st;
}

/* Carries out steps up to the first error, and frees their list. */
static mr_status *do_steps(run *r, mr_group_steps *steps, char *buffer)
{
    mr_status *st = NULL;
    for (int i = 0; i < steps->n && !st; i++)
        st = do_step(r, &steps->p[i], buffer);
    mr_vec_deinit(steps);
    return st;
}

static void copy_bytes(void *to, const void *from, size_t bytes)
{
    if (bytes && to != from)
        memcpy(to, from, bytes);
}

/* ---- merging in the order of ranks ---- */

/* Receives part `rank` of all members' values and merges it into `to` in the order of ranks; sends each other
 * member its part of ours. */
static mr_status *reduce_direct(run *r, char *to)
{
    mr_transport *t = r->t;
    const mr_group_work *w = r->w;
    mr_status *st = NULL;
    int64_t at, n;
    size_t bytes;
    mr_group_part(w->count, t->size, t->rank, &at, &n);
    const char *own = (const char *)w->in + (size_t)at * r->elem;
    if (!mr_size_mul((size_t)n * r->elem, (size_t)t->size, &bytes))
        return no_memory_error(SIZE_MAX);
    MR_TRY(reserve_aside(r, bytes));
    bytes = (size_t)n * r->elem;
    /* in[i] is what member i contributes, so that the merge goes in the order of ranks whatever arrives first. */
    const void **in = mr_new_array(const void *, t->size);
    for (int i = 0; i < t->size; i++) {
        in[i] = i == t->rank ? own : r->aside + (size_t)i * bytes;
        if (i != t->rank)
            add_message(r, false, i, r->aside + (size_t)i * bytes, bytes);
    }
    int n_recv = r->transfers.n;
    for (int i = 0; i < t->size; i++) {
        int64_t to_at, to_n;
        mr_group_part(w->count, t->size, i, &to_at, &to_n);
        if (i != t->rank)
            add_message(r, true, i, (char *)(uintptr_t)w->in + (size_t)to_at * r->elem, (size_t)to_n * r->elem);
    }
    start_all(r);
    st = finish_all(r, n_recv);
    if (!st)
        mr_merge_many(w->type, w->merge, in, t->size, w->mean ? t->size : 1, to, n);
    mr_free(in);
    return st;
}

/* ---- the operations ---- */

/* Direct: each member merges its part, then all gather the parts. Otherwise a schedule works on out in place. */
static mr_status *all_reduce(run *r, mr_group_algorithm a)
{
    const mr_group_work *w = r->w;
    mr_group_steps steps = {0};
    int64_t at, n;
    size_t bytes = (size_t)w->count * r->elem;
    if (a == MR_GROUP_DIRECT) {
        mr_group_part(w->count, r->t->size, r->t->rank, &at, &n);
        MR_TRY(reduce_direct(r, (char *)w->out + (size_t)at * r->elem));
        mr_schedule_all_gather(r->t->size, r->t->rank, w->count, &steps);
        return do_steps(r, &steps, w->out);
    }
    copy_bytes(w->out, w->in, bytes);
    mr_schedule_all_reduce(mr_group_choose(a, (int64_t)bytes), r->t->size, r->t->rank, w->count, &steps);
    MR_TRY(do_steps(r, &steps, w->out));
    if (w->mean)
        mr_merge_divide(w->type, w->out, r->t->size, w->count);
    return NULL;
}

/* The schedule overwrites the whole working buffer, so it gets a copy; only this member's part is kept. */
static mr_status *reduce_scatter(run *r, mr_group_algorithm a)
{
    const mr_group_work *w = r->w;
    mr_group_steps steps = {0};
    int64_t at, n;
    size_t bytes = (size_t)w->count * r->elem;
    if (a == MR_GROUP_DIRECT)
        return reduce_direct(r, w->out);
    char *buffer = mr_try_alloc(bytes);
    if (!buffer)
        return no_memory_error(bytes);
    copy_bytes(buffer, w->in, bytes);
    mr_schedule_reduce_scatter(r->t->size, r->t->rank, w->count, &steps);
    mr_status *st = do_steps(r, &steps, buffer);
    mr_group_part(w->count, r->t->size, r->t->rank, &at, &n);
    if (!st) {
        copy_bytes(w->out, buffer + (size_t)at * r->elem, (size_t)n * r->elem);
        if (w->mean)
            mr_merge_divide(w->type, w->out, r->t->size, n);
    }
    mr_free(buffer);
    return st;
}

/* Treats out as one buffer of size * count elements, of which each member contributes its own count. */
static mr_status *all_gather(run *r)
{
    const mr_group_work *w = r->w;
    mr_group_steps steps = {0};
    size_t bytes = (size_t)w->count * r->elem;
    copy_bytes((char *)w->out + (size_t)r->t->rank * bytes, w->in, bytes);
    mr_schedule_all_gather(r->t->size, r->t->rank, w->count * r->t->size, &steps);
    return do_steps(r, &steps, w->out);
}

/* The root's out holds the values too, so that the tree can send from out at every member. */
static mr_status *broadcast(run *r)
{
    const mr_group_work *w = r->w;
    mr_group_steps steps = {0};
    if (r->t->rank == w->root)
        copy_bytes(w->out, w->in, (size_t)w->count * r->elem);
    mr_schedule_broadcast(r->t->size, r->t->rank, w->root, w->count, &steps);
    return do_steps(r, &steps, w->out);
}

/* In round i each member sends to the one i ahead of it and receives from the one i behind, so no member is a
 * bottleneck. */
static mr_status *all_to_all(run *r)
{
    const mr_group_work *w = r->w;
    int size = r->t->size, rank = r->t->rank;
    size_t bytes = (size_t)w->count * r->elem;
    copy_bytes((char *)w->out + (size_t)rank * bytes, (const char *)w->in + (size_t)rank * bytes, bytes);
    for (int i = 1; i < size; i++) {
        int to = (rank + i) % size, from = (rank + size - i) % size;
        add_message(r, false, from, (char *)w->out + (size_t)from * bytes, bytes);
        int n_recv = r->transfers.n;
        add_message(r, true, to, (char *)(uintptr_t)w->in + (size_t)to * bytes, bytes);
        start_all(r);
        MR_TRY(finish_all(r, n_recv));
    }
    return NULL;
}

/* After round k a member knows, directly or through others, that the 2^k members before it have arrived. */
static mr_status *barrier(run *r)
{
    char byte = 1, came;
    for (int far = 1; far < r->t->size; far *= 2) {
        add_message(r, false, (r->t->rank + r->t->size - far) % r->t->size, &came, 1);
        add_message(r, true, (r->t->rank + far) % r->t->size, &byte, 1);
        start_all(r);
        MR_TRY(finish_all(r, 1));
    }
    return NULL;
}

/* Carries out a checked operation of at least two members. The algorithm only matters for reductions. */
static mr_status *run_by_messages(run *r, mr_group_algorithm a)
{
    MR_ASSERT(r->t->size > 1 && r->transfers.n == 0);
    switch (r->w->kind) {
    case MR_GROUP_ALL_REDUCE:
        return all_reduce(r, a);
    case MR_GROUP_REDUCE_SCATTER:
        return reduce_scatter(r, a);
    case MR_GROUP_ALL_GATHER:
        return all_gather(r);
    case MR_GROUP_BROADCAST:
        return broadcast(r);
    case MR_GROUP_ALL_TO_ALL:
        return all_to_all(r);
    case MR_GROUP_BARRIER:
        return barrier(r);
    }
    return mr_error(MR_INTERNAL, "group: unknown operation %d", (int)r->w->kind);
}

/* With one member the result is the input. */
static mr_status *run_alone(const mr_group_work *w)
{
    if (w->kind != MR_GROUP_BARRIER)
        copy_bytes(w->out, w->in, (size_t)w->count * mr_dtype_size(w->type));
    return NULL;
}

/* Runs an operation: the transport's own way if it has one, otherwise messages. */
mr_status *mr_group_run_on(mr_transport *t, const mr_group_work *w, int64_t deadline_ns)
{
    bool done = false;
    MR_TRY(mr_group_work_check(w, t->size, t->rank));
    if (t->size == 1)
        return run_alone(w);
    mr_group_work with = *w;
    with.algorithm = algorithm_of(w);
    if (t->of->run)
        MR_TRY(t->of->run(t, &with, deadline_ns, &done));
    if (done)
        return NULL;
    run r = {.t = t, .w = &with, .elem = w->kind == MR_GROUP_BARRIER ? 1 : mr_dtype_size(w->type), .deadline_ns = deadline_ns};
    mr_status *st = run_by_messages(&r, with.algorithm);
    mr_vec_deinit(&r.transfers);
    mr_free(r.aside);
    return st;
}
