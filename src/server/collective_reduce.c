/* server/collective_reduce.c -- all-reduce and reduce-scatter.
 *
 * A reduction is cut into one section per member, and sections into chunks, each of which is reduced
 * separately. Among few members, the owner of a section fetches it from all others (RAW) and merges in
 * the order of ranks, and all fetch the result from it (FINAL): two hops, whatever their number. A
 * tiny tensor is fetched whole by every member from every other: one hop, and merged in the same order.
 *
 * Among many members, large tensors go around a ring: a section starts behind its owner, each member
 * adds its values, and from the owner the result goes around once more. So each member talks only to
 * its neighbours. Section 0 among three members:
 *
 *     RAW     member 1 offers its values, member 2 adds its own, member 0 adds its own: the result
 *     FINAL   member 0 offers the result, member 1 keeps it and passes it on, member 2 keeps it
 *
 * That takes 2 (n - 1) hops; tensors that are too small to fill them are reduced by halving
 * (collective_halving.c), in about 2 log n hops.
 *
 * In all of these, each number is computed by one member or in the same order by all, so all members
 * get the same bits; and the order depends only on the ranks, so results repeat. */
#include "base/memory.h"
#include "ops/collective/combine.h"
#include "server/collective_moves.h"

enum { TINY_BYTES = 16384, POOL_BYTES = 65536 };

/* A chunk to be merged from several sources; in a ring it has one source. */
typedef struct mr_xpiece {
    mr_task task; /* first */
    mr_exchange *x;
    mr_xname name;
    int64_t at, n;     /* elements of the input */
    int64_t out_at;    /* of the output */
    mr_bytes *got;     /* by rank: a reply; in a ring there is one */
    int n_got;
    _Atomic int n_missing;
} mr_xpiece;

/* ---- the algorithm ---- */

static bool in_ring(const mr_exchange *x) { return x->algorithm == MR_GROUP_RING; }

static bool is_tiny(const mr_exchange *x) { return x->call.in->n * mr_x_size(x) <= TINY_BYTES; }

/* The setting comes first, then the op's hint, then the size: in a ring each member passes on one
 * section at a time, which must be worth the hops (MR_X_HALVING_BYTES). */
mr_group_algorithm mr_x_choose(const mr_exchange *x)
{
    const mr_collectives *c = x->all;
    int64_t n = x->group->n;
    if (x->call.kind != MR_ALL_REDUCE)
        return MR_GROUP_DIRECT;
    if (c->algorithm != MR_GROUP_AUTO)
        return c->algorithm;
    if (x->call.ring)
        return MR_GROUP_RING;
    if (n < c->ring_from)
        return MR_GROUP_DIRECT;
    return x->call.in->n * mr_x_size(x) / n <= MR_X_HALVING_BYTES ? MR_GROUP_HALVING : MR_GROUP_RING;
}

/* ---- merging ---- */

/* The array of pieces ends with one that has no exchange. */
void mr_exchange_forget_pieces(mr_exchange *x)
{
    for (mr_xpiece *p = x->pieces; p && p->x; p++) {
        for (int i = 0; p->got && i < p->n_got; i++)
            mr_bytes_deinit(&p->got[i]);
        mr_free(p->got);
    }
    mr_free(x->pieces);
    x->pieces = NULL;
    mr_x_forget_flows(x);
}

/* Uses the numbers in place if the reply has them in one aligned piece; otherwise copies them into
 * *tmp, which is made at the first need and reused. */
mr_status *mr_x_numbers(mr_exchange *x, int64_t n, mr_bytes *reply, mr_tensor **tmp, const void **out)
{
    size_t at, bytes;
    int64_t size = mr_x_size(x);
    MR_TRY(mr_fetched_at(reply, n * size, &at, &bytes));
    const mr_piece *last = &reply->pieces.p[reply->pieces.n - 1];
    const char *in_place = (const char *)last->data + (last->n - bytes);
    if (last->n >= bytes && at + bytes == reply->n && (uintptr_t)in_place % (uintptr_t)size == 0) {
        *out = in_place;
        return NULL;
    }
    if (!*tmp)
        MR_TRY(mr_tensor_new(mr_cpu_allocator(), x->call.type, 1, &n, tmp));
    mr_bytes_read(reply, at, (*tmp)->data, bytes);
    *out = (*tmp)->data;
    return NULL;
}

/* Merges all members' numbers in the order of ranks into the output. Two buffers are enough, because
 * only the first and the current one are needed. */
static mr_status *merge_all(mr_xpiece *p)
{
    mr_exchange *x = p->x;
    mr_tensor *tmp[2] = {NULL, NULL};
    const void *first = NULL, *v = NULL;
    void *to = mr_x_at(x->out, p->out_at);
    mr_status *st = NULL;
    /* The first merge reads member 0's numbers and member 1's; each later one reads the result so far. Replies are
     * dropped as soon as they are merged, except member 0's, which the first merge may read in place. */
    for (int k = 0; k < x->group->n && !st; k++) {
        if (k == x->rank)
            v = mr_x_at(x->call.in, p->at);
        else
            st = mr_x_numbers(x, p->n, &p->got[k], &tmp[k > 0], &v);
        if (k > 0 && !st)
            x->how->merge[x->call.merge](to, first, v, p->n);
        first = k == 0 ? v : to;
        if (k != x->rank && k > 0)
            mr_bytes_deinit(&p->got[k]);
    }
    if (!st && x->call.mean)
        x->how->divide(to, p->n, x->group->n);
    mr_tensor_unref(tmp[0]);
    mr_tensor_unref(tmp[1]);
    return st;
}

/* A step of a ring: merges what arrived with our own numbers. last: we own the section, and the result
 * is complete. */
static mr_status *merge_one(mr_xpiece *p, bool last)
{
    mr_exchange *x = p->x;
    mr_tensor *tmp = NULL;
    const void *v;
    void *to = mr_x_at(x->out, p->out_at);
    mr_status *st = mr_x_numbers(x, p->n, &p->got[0], &tmp, &v);
    if (!st)
        x->how->merge[x->call.merge](to, v, mr_x_at(x->call.in, p->at), p->n);
    if (!st && last && x->call.mean)
        x->how->divide(to, p->n, x->group->n);
    mr_bytes_deinit(&p->got[0]);
    mr_tensor_unref(tmp);
    return st;
}

/* Merges a piece for which everything has arrived, and offers the result to the members that need it. The
 * exchange waits for it (mr_x_merge_soon). */
static void merge_piece(mr_task *t)
{
    mr_xpiece *p = (mr_xpiece *)t;
    mr_exchange *x = mr_exchange_ref(p->x);
    bool ring = in_ring(x), own = p->name.section == x->rank;
    mr_status *st = ring ? merge_one(p, own) : merge_all(p);
    if (st)
        mr_exchange_fail(x, st, true);
    else if (ring)
        mr_x_offer(x, (mr_xname){own ? MR_X_FINAL : MR_X_RAW, p->name.section, p->name.chunk}, x->out, p->out_at, p->n,
                   1);
    else if (x->call.kind == MR_ALL_REDUCE && p->name.phase == MR_X_FINAL)
        mr_x_offer(x, p->name, x->out, p->out_at, p->n, x->group->n - 1);
    mr_exchange_less(x, 1);
    mr_exchange_unref(x);
}

/* Raises n_left before the work is handed over, so the exchange does not end before it is done. */
void mr_x_merge_soon(mr_exchange *x, int64_t bytes, mr_task *t)
{
    mr_lock(&x->all->mu);
    MR_ASSERT(!x->over && x->n_left > 0);
    x->n_left++;
    mr_unlock(&x->all->mu);
    mr_pool *pool = bytes >= POOL_BYTES ? x->session->env.inter : NULL;
    if (pool)
        mr_pool_submit(pool, t);
    else
        t->fn(t);
}

/* Keeps a reply for a piece. The last one lets the piece be merged; a large one is merged by the pool,
 * not by the transport's thread. */
static void keep_it(mr_xrequest *q, mr_bytes *reply)
{
    mr_xpiece *p = q->ctx;
    mr_exchange *x = q->x;
    mr_bytes_append(&p->got[in_ring(x) ? 0 : q->index], reply);
    MR_ASSERT(atomic_load_explicit(&p->n_missing, memory_order_relaxed) > 0);
    if (atomic_fetch_sub_explicit(&p->n_missing, 1, memory_order_acq_rel) != 1)
        return;
    p->task.fn = merge_piece;
    mr_x_merge_soon(x, p->n * mr_x_size(x), &p->task);
}

/* ---- reductions ---- */

/* The elements of section s, which member s owns: from *at on, *n of them. */
static void find_section(const mr_exchange *x, int s, int64_t *at, int64_t *n)
{
    mr_group_part(x->call.in->n, x->group->n, s, at, n);
}

/* Prepares a piece with room for its sources' replies. */
static mr_status *piece_init(mr_exchange *x, mr_xpiece *p, mr_xname name, int64_t at, int64_t n, int64_t out_at,
                             int n_sources)
{
    *p = (mr_xpiece){.x = x, .name = name, .at = at, .n = n, .out_at = out_at};
    atomic_init(&p->n_missing, n_sources);
    p->n_got = in_ring(x) ? 1 : x->group->n;
    p->got = mr_try_calloc((size_t)p->n_got, sizeof *p->got);
    return p->got ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a piece of a reduction");
}

/* Every member fetches the whole tensor from every other. */
static mr_status *reduce_tiny(mr_exchange *x)
{
    mr_xname whole = {MR_X_RAW, 0, 0};
    int64_t n = x->call.in->n;
    x->pieces = mr_new_array(mr_xpiece, 2);
    MR_TRY(piece_init(x, &x->pieces[0], whole, 0, n, 0, x->group->n - 1));
    mr_x_offer(x, whole, x->call.in, 0, n, x->group->n - 1);
    for (int k = 0; k < x->group->n; k++)
        if (k != x->rank)
            mr_x_fetch(x, k, whole, n * mr_x_size(x), keep_it, &x->pieces[0], 0);
    return NULL;
}

/* Offers a chunk of another member's section to that member, and fetches the result from it. */
static void give_direct(mr_exchange *x, mr_xname name, int64_t at, int64_t n)
{
    mr_x_offer(x, name, x->call.in, at, n, 1);
    name.phase = MR_X_FINAL;
    if (x->call.kind == MR_ALL_REDUCE)
        mr_x_fetch(x, (int)name.section, name, n * mr_x_size(x), mr_x_put_it, NULL, at);
}

/* Fetches a chunk of our own section from all other members. */
static mr_status *take_direct(mr_exchange *x, mr_xpiece *p, mr_xname name, int64_t at, int64_t n, int64_t out_at)
{
    MR_TRY(piece_init(x, p, (mr_xname){MR_X_FINAL, name.section, name.chunk}, at, n, out_at, x->group->n - 1));
    for (int k = 0; k < x->group->n; k++)
        if (k != x->rank)
            mr_x_fetch(x, k, name, n * mr_x_size(x), keep_it, p, 0);
    return NULL;
}

/* Each member merges its own section. It starts with its own rank, so that not all members ask the
 * same one first. */
static mr_status *reduce_direct(mr_exchange *x)
{
    int64_t at, n, step = mr_x_chunk(x), used = 0;
    find_section(x, x->rank, &at, &n);
    x->pieces = mr_try_calloc((size_t)mr_x_chunks(x, n) + 1, sizeof *x->pieces);
    if (!x->pieces)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the pieces of a reduction");
    for (int i = 0; i < x->group->n; i++) {
        int s = (x->rank + i) % x->group->n;
        find_section(x, s, &at, &n);
        for (int64_t c = 0; c * step < n; c++) {
            mr_xname name = {MR_X_RAW, s, c};
            int64_t from = at + c * step, len = MR_MIN(step, n - c * step);
            if (s != x->rank)
                give_direct(x, name, from, len);
            else
                MR_TRY(take_direct(x, &x->pieces[used++], name, from, len,
                                   x->call.kind == MR_ALL_REDUCE ? from : c * step));
        }
    }
    return NULL;
}

/* The result of a section goes around: it is kept, and offered to the next member unless that one owns
 * the section. */
static void pass_on(mr_xrequest *q, mr_bytes *reply)
{
    mr_exchange *x = q->x;
    const mr_xpiece *p = q->ctx;
    mr_status *st = mr_x_put(x, q->at, q->bytes, reply);
    if (st)
        mr_exchange_fail(x, st, true);
    else if ((x->rank + 1) % x->group->n != p->name.section)
        mr_x_offer(x, (mr_xname){MR_X_FINAL, p->name.section, p->name.chunk}, x->out, p->out_at, p->n, 1);
}

/* One chunk in the ring: it starts at the member behind the section's owner; every other member
 * fetches it from the one before. */
static mr_status *ring_chunk(mr_exchange *x, mr_xpiece *p, mr_xname name, int64_t at, int64_t len)
{
    int n = x->group->n, s = (int)name.section, before = (x->rank + n - 1) % n;
    int distance = (x->rank - s - 1 + n) % n; /* from where it begins */
    MR_TRY(piece_init(x, p, name, at, len, at, 1));
    if (distance == 0)
        mr_x_offer(x, name, x->call.in, at, len, 1);
    else
        mr_x_fetch(x, before, name, len * mr_x_size(x), keep_it, p, 0);
    name.phase = MR_X_FINAL;
    if (s != x->rank)
        mr_x_fetch(x, before, name, len * mr_x_size(x), pass_on, p, at);
    return NULL;
}

/* Starts all chunks of all sections at once; each member then only reacts to what its neighbour sends. */
static mr_status *reduce_ring(mr_exchange *x)
{
    int64_t step = mr_x_chunk(x), at, n, total = 0, used = 0;
    for (int s = 0; s < x->group->n; s++) {
        find_section(x, s, &at, &n);
        total += mr_x_chunks(x, n);
    }
    x->pieces = mr_try_calloc((size_t)total + 1, sizeof *x->pieces);
    if (!x->pieces)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the pieces of a reduction");
    MR_ASSERT(x->group->n > 1);
    for (int s = 0; s < x->group->n; s++) {
        find_section(x, s, &at, &n);
        for (int64_t c = 0; c * step < n; c++)
            MR_TRY(ring_chunk(x, &x->pieces[used++], (mr_xname){MR_X_RAW, s, c}, at + c * step,
                              MR_MIN(step, n - c * step)));
    }
    MR_ASSERT(used == total);
    return NULL;
}

/* x->algorithm was chosen by mr_exchange_sign, and all members have the same one. */
mr_status *mr_x_all_reduce(mr_exchange *x)
{
    const mr_tensor *in = x->call.in;
    MR_TRY(mr_arithmetic_of(x->call.type, &x->how));
    MR_TRY(mr_tensor_new(mr_run_allocator(x->r), x->call.type, in->rank, in->dims, &x->out));
    if (!in->n)
        return NULL;
    if (x->algorithm == MR_GROUP_HALVING)
        return mr_x_reduce_by_halving(x);
    if (in_ring(x))
        return reduce_ring(x);
    return is_tiny(x) ? reduce_tiny(x) : reduce_direct(x);
}

/* Each member gets its own section; the number of rows must be a multiple of the members. */
mr_status *mr_x_reduce_scatter(mr_exchange *x)
{
    MR_TRY(mr_x_check_rows(x->call.in, x->group->n, false));
    MR_TRY(mr_arithmetic_of(x->call.type, &x->how));
    MR_TRY(mr_x_new_output(x, x->call.in->dims[0] / x->group->n));
    return reduce_direct(x);
}

