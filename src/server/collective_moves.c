/* server/collective_moves.c -- which pieces of an exchange go where.
 *
 * A reduction is cut into one section a member, and sections into chunks, each of which goes its way by itself.  Among few
 * members the owner of a section fetches it from all (RAW), merges in the order of ranks, and all fetch the result from
 * it (FINAL): two hops whatever their number.  Among many, a section goes around a ring instead: it begins behind its owner,
 * each member adds its own, and from the owner the result goes around once more; so each talks to its neighbours
 * only.  Either way every number is computed by one member, so all get the same bits; and in an order that depends on
 * the ranks alone, so they repeat.  What is tiny is fetched whole by everybody from everybody: one hop, and merged alike.
 *
 * Gather and all-to-all fetch from each member what it has.  A broadcast goes down a binary tree, chunk by chunk, with a
 * head that tells the shape. */
#include "base/memory.h"
#include "ops/collective/combine.h"
#include "server/collective_internal.h"

enum { RAW, FINAL, HEAD };
enum { TINY_BYTES = 16384, POOL_BYTES = 65536 };

/* A chunk that is to be merged from several; one in a ring has one source at a time. */
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

static int64_t size_of(const mr_exchange *x) { return (int64_t)mr_dtype_size(x->call.type); }

static int64_t chunk_elements(const mr_exchange *x) { return MR_MAX(x->all->chunk_bytes / size_of(x), 1); }

static int64_t n_chunks(const mr_exchange *x, int64_t n) { return (n + chunk_elements(x) - 1) / chunk_elements(x); }

static char *element(const mr_tensor *t, int64_t i) { return (char *)t->data + i * (int64_t)mr_dtype_size(t->dtype); }

void mr_exchange_sign(mr_exchange *x)
{
    static const char *const kinds[] = {"all-reduce", "reduce-scatter", "gather", "broadcast", "all-to-all"};
    static const char *const merges[] = {"add", "mul", "max", "min"};
    const mr_collective_call *c = &x->call;
    bool reduces = c->kind == MR_ALL_REDUCE || c->kind == MR_REDUCE_SCATTER;
    mr_str_printf(&x->signature, "%s %s", kinds[c->kind], mr_dtype_name(c->type));
    if (reduces)
        mr_str_printf(&x->signature, " %s%s", merges[c->merge], c->mean ? " mean" : "");
    if (c->kind != MR_BROADCAST)
        mr_str_printf(&x->signature, " %s", MR_TENSOR_SHAPE(c->in));
}

/* ---- fetching into a place of the output ---- */

static void fetch(mr_exchange *x, int from, mr_xname name, int64_t bytes, void (*then)(mr_xrequest *q, mr_bytes *reply), void *ctx,
                  int64_t at)
{
    mr_xrequest *q = mr_xrequest_new(x, x->group->members[from].task, from, then);
    q->ctx = ctx;
    q->at = at;
    q->index = from;
    mr_exchange_fetch(x, from, name, bytes, q);
}

/* The reply's contents to element `at` of the output.  Bytes that are no bools become some. */
static mr_status *put(mr_exchange *x, const mr_xrequest *q, mr_bytes *reply)
{
    size_t at, n;
    MR_TRY(mr_fetched_at(reply, q->bytes, &at, &n));
    char *to = element(x->out, q->at);
    mr_bytes_read(reply, at, to, n);
    for (size_t i = 0; x->call.type == MR_BOOL && i < n; i++)
        to[i] = to[i] != 0;
    return NULL;
}

static void put_it(mr_xrequest *q, mr_bytes *reply)
{
    mr_status *st = put(q->x, q, reply);
    if (st)
        mr_exchange_fail(q->x, st, true);
}

/* ---- merging ---- */

void mr_exchange_forget_pieces(mr_exchange *x)
{
    for (mr_xpiece *p = x->pieces; p && p->x; p++) {
        for (int i = 0; p->got && i < p->n_got; i++)
            mr_bytes_deinit(&p->got[i]);
        mr_free(p->got);
    }
    mr_free(x->pieces);
    x->pieces = NULL;
}

/* The numbers of a reply: where they lie, when they can be read there, or else in tmp (made when it is NULL). */
static mr_status *numbers(const mr_xpiece *p, mr_bytes *reply, mr_tensor **tmp, const void **out)
{
    size_t at, n;
    int64_t size = size_of(p->x);
    MR_TRY(mr_fetched_at(reply, p->n * size, &at, &n));
    const mr_piece *last = &reply->pieces.p[reply->pieces.n - 1];
    const char *in_place = (const char *)last->data + (last->n - n);
    if (last->n >= n && at + n == reply->n && (uintptr_t)in_place % (uintptr_t)size == 0) {
        *out = in_place;
        return NULL;
    }
    if (!*tmp)
        MR_TRY(mr_tensor_new(mr_cpu_allocator(), p->x->call.type, 1, &p->n, tmp));
    mr_bytes_read(reply, at, (*tmp)->data, n);
    *out = (*tmp)->data;
    return NULL;
}

/* All members' numbers in the order of ranks. */
static mr_status *merge_all(mr_xpiece *p)
{
    mr_exchange *x = p->x;
    mr_tensor *tmp[2] = {NULL, NULL};
    const void *first = NULL, *v = NULL;
    void *to = element(x->out, p->out_at);
    mr_status *st = NULL;
    for (int k = 0; k < x->group->n && !st; k++) {
        if (k == x->rank)
            v = element(x->call.in, p->at);
        else
            st = numbers(p, &p->got[k], &tmp[k > 0], &v);
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

/* Of a ring: what came, and then our own.  FINAL at the owner of the section. */
static mr_status *merge_one(mr_xpiece *p, bool last)
{
    mr_exchange *x = p->x;
    mr_tensor *tmp = NULL;
    const void *v;
    void *to = element(x->out, p->out_at);
    mr_status *st = numbers(p, &p->got[0], &tmp, &v);
    if (!st)
        x->how->merge[x->call.merge](to, v, element(x->call.in, p->at), p->n);
    if (!st && last && x->call.mean)
        x->how->divide(to, p->n, x->group->n);
    mr_bytes_deinit(&p->got[0]);
    mr_tensor_unref(tmp);
    return st;
}

static bool is_tiny(const mr_exchange *x) { return x->call.in->n * size_of(x) <= TINY_BYTES; }

static bool in_ring(const mr_exchange *x)
{
    return x->call.kind == MR_ALL_REDUCE && x->group->n >= x->all->ring_from && !is_tiny(x);
}

static void offer(mr_exchange *x, mr_xname name, const mr_tensor *t, int64_t at, int64_t n, int64_t n_others)
{
    mr_exchange_offer(x, name, t, at * size_of(x), n * size_of(x), n_others);
}

/* All that a piece needs is there.  The exchange waits for it (mr_exchange_less). */
static void merge(mr_task *t)
{
    mr_xpiece *p = (mr_xpiece *)t;
    mr_exchange *x = mr_exchange_ref(p->x);
    bool ring = in_ring(x), own = p->name.section == x->rank;
    mr_status *st = ring ? merge_one(p, own) : merge_all(p);
    if (st)
        mr_exchange_fail(x, st, true);
    else if (ring)
        offer(x, (mr_xname){own ? FINAL : RAW, p->name.section, p->name.chunk}, x->out, p->out_at, p->n, 1);
    else if (x->call.kind == MR_ALL_REDUCE && p->name.phase == FINAL)
        offer(x, p->name, x->out, p->out_at, p->n, x->group->n - 1);
    mr_exchange_less(x, 1);
    mr_exchange_unref(x);
}

/* A reply for a piece; the last one lets it be merged, which takes long, so not here. */
static void keep_it(mr_xrequest *q, mr_bytes *reply)
{
    mr_xpiece *p = q->ctx;
    mr_exchange *x = q->x;
    mr_bytes_append(&p->got[in_ring(x) ? 0 : q->index], reply);
    if (atomic_fetch_sub_explicit(&p->n_missing, 1, memory_order_acq_rel) != 1)
        return;
    mr_lock(&x->all->mu);
    x->n_left++;
    mr_unlock(&x->all->mu);
    p->task.fn = merge;
    mr_pool *pool = p->n * size_of(x) >= POOL_BYTES ? x->session->env.inter : NULL;
    if (pool)
        mr_pool_submit(pool, &p->task);
    else
        merge(&p->task);
}

/* ---- reductions ---- */

static void section(const mr_exchange *x, int s, int64_t *at, int64_t *n)
{
    int64_t all = x->call.in->n, share = all / x->group->n, more = all % x->group->n;
    *at = s * share + MR_MIN(s, more);
    *n = share + (s < more);
}

static mr_status *piece_init(mr_exchange *x, mr_xpiece *p, mr_xname name, int64_t at, int64_t n, int64_t out_at, int n_sources)
{
    *p = (mr_xpiece){.x = x, .name = name, .at = at, .n = n, .out_at = out_at};
    atomic_init(&p->n_missing, n_sources);
    p->n_got = in_ring(x) ? 1 : x->group->n;
    p->got = mr_try_calloc((size_t)p->n_got, sizeof *p->got);
    return p->got ? NULL : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a piece of a reduction");
}

/* What is tiny: everybody has all. */
static mr_status *reduce_tiny(mr_exchange *x)
{
    mr_xname whole = {RAW, 0, 0};
    int64_t n = x->call.in->n;
    x->pieces = mr_new_array(mr_xpiece, 2);
    MR_TRY(piece_init(x, &x->pieces[0], whole, 0, n, 0, x->group->n - 1));
    offer(x, whole, x->call.in, 0, n, x->group->n - 1);
    for (int k = 0; k < x->group->n; k++)
        if (k != x->rank)
            fetch(x, k, whole, n * size_of(x), keep_it, &x->pieces[0], 0);
    return NULL;
}

/* One chunk of another's section. */
static void give_direct(mr_exchange *x, mr_xname name, int64_t at, int64_t n)
{
    offer(x, name, x->call.in, at, n, 1);
    name.phase = FINAL;
    if (x->call.kind == MR_ALL_REDUCE)
        fetch(x, (int)name.section, name, n * size_of(x), put_it, NULL, at);
}

static mr_status *take_direct(mr_exchange *x, mr_xpiece *p, mr_xname name, int64_t at, int64_t n, int64_t out_at)
{
    MR_TRY(piece_init(x, p, (mr_xname){FINAL, name.section, name.chunk}, at, n, out_at, x->group->n - 1));
    for (int k = 0; k < x->group->n; k++)
        if (k != x->rank)
            fetch(x, k, name, n * size_of(x), keep_it, p, 0);
    return NULL;
}

static mr_status *reduce_direct(mr_exchange *x)
{
    int64_t at, n, step = chunk_elements(x), used = 0;
    section(x, x->rank, &at, &n);
    x->pieces = mr_try_calloc((size_t)n_chunks(x, n) + 1, sizeof *x->pieces);
    if (!x->pieces)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the pieces of a reduction");
    for (int i = 0; i < x->group->n; i++) {
        int s = (x->rank + i) % x->group->n; /* so that not all begin with the same one */
        section(x, s, &at, &n);
        for (int64_t c = 0; c * step < n; c++) {
            mr_xname name = {RAW, s, c};
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

/* The result of a section on its way around: kept, and handed on unless its owner is next. */
static void pass_on(mr_xrequest *q, mr_bytes *reply)
{
    mr_exchange *x = q->x;
    const mr_xpiece *p = q->ctx;
    mr_status *st = put(x, q, reply);
    if (st)
        mr_exchange_fail(x, st, true);
    else if ((x->rank + 1) % x->group->n != p->name.section)
        offer(x, (mr_xname){FINAL, p->name.section, p->name.chunk}, x->out, p->out_at, p->n, 1);
}

static mr_status *ring_chunk(mr_exchange *x, mr_xpiece *p, mr_xname name, int64_t at, int64_t len)
{
    int n = x->group->n, s = (int)name.section, before = (x->rank + n - 1) % n;
    int distance = (x->rank - s - 1 + n) % n; /* from where it begins */
    MR_TRY(piece_init(x, p, name, at, len, at, 1));
    if (distance == 0)
        offer(x, name, x->call.in, at, len, 1);
    else
        fetch(x, before, name, len * size_of(x), keep_it, p, 0);
    name.phase = FINAL;
    if (s != x->rank)
        fetch(x, before, name, len * size_of(x), pass_on, p, at);
    return NULL;
}

static mr_status *reduce_ring(mr_exchange *x)
{
    int64_t step = chunk_elements(x), at, n, total = 0, used = 0;
    for (int s = 0; s < x->group->n; s++) {
        section(x, s, &at, &n);
        total += n_chunks(x, n);
    }
    x->pieces = mr_try_calloc((size_t)total + 1, sizeof *x->pieces);
    if (!x->pieces)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the pieces of a reduction");
    for (int s = 0; s < x->group->n; s++) {
        section(x, s, &at, &n);
        for (int64_t c = 0; c * step < n; c++)
            MR_TRY(ring_chunk(x, &x->pieces[used++], (mr_xname){RAW, s, c}, at + c * step, MR_MIN(step, n - c * step)));
    }
    return NULL;
}

static mr_status *all_reduce(mr_exchange *x)
{
    const mr_tensor *in = x->call.in;
    MR_TRY(mr_arithmetic_of(x->call.type, &x->how));
    MR_TRY(mr_tensor_new(mr_run_allocator(x->r), x->call.type, in->rank, in->dims, &x->out));
    if (is_tiny(x))
        return in->n ? reduce_tiny(x) : NULL;
    return in_ring(x) ? reduce_ring(x) : reduce_direct(x);
}

static mr_status *check_rows(const mr_tensor *t, int64_t n, bool exactly)
{
    if (t->rank >= 1 && (exactly ? t->dims[0] == n : t->dims[0] % n == 0))
        return NULL;
    return mr_invalid("dimension 0 of the input must be %sthe size of the group, %lld, but its shape is %s",
                      exactly ? "" : "a multiple of ", (long long)n, MR_TENSOR_SHAPE(t));
}

static mr_status *new_output(mr_exchange *x, int64_t rows)
{
    mr_shape shape;
    mr_shape_set(&shape, x->call.in->rank, x->call.in->dims);
    shape.dims[0] = rows;
    return mr_tensor_new(mr_run_allocator(x->r), x->call.type, shape.rank, shape.dims, &x->out);
}

static mr_status *reduce_scatter(mr_exchange *x)
{
    MR_TRY(check_rows(x->call.in, x->group->n, false));
    MR_TRY(mr_arithmetic_of(x->call.type, &x->how));
    MR_TRY(new_output(x, x->call.in->dims[0] / x->group->n));
    return reduce_direct(x);
}

/* ---- what is only moved ---- */

static mr_status *gather(mr_exchange *x)
{
    const mr_tensor *in = x->call.in;
    int64_t rows, step = chunk_elements(x);
    if (in->rank < 1)
        return mr_invalid("input must have at least one dimension to be gathered");
    if (!mr_i64_mul(in->dims[0], x->group->n, &rows))
        return mr_invalid("the gathered tensor is too large");
    MR_TRY(new_output(x, rows));
    for (int64_t c = 0; c * step < in->n; c++) {
        mr_xname name = {RAW, 0, c};
        int64_t at = c * step, len = MR_MIN(step, in->n - at);
        offer(x, name, in, at, len, x->group->n - 1);
        for (int k = 0; k < x->group->n; k++)
            if (k != x->rank)
                fetch(x, k, name, len * size_of(x), put_it, NULL, k * in->n + at);
    }
    if (in->n)
        memcpy(element(x->out, x->rank * in->n), in->data, (size_t)(in->n * size_of(x)));
    return NULL;
}

static mr_status *all_to_all(mr_exchange *x)
{
    const mr_tensor *in = x->call.in;
    MR_TRY(check_rows(in, x->group->n, true));
    int64_t row = in->n / x->group->n, step = chunk_elements(x);
    MR_TRY(new_output(x, in->dims[0]));
    for (int k = 0; k < x->group->n; k++)
        for (int64_t c = 0; k != x->rank && c * step < row; c++) {
            int64_t at = c * step, len = MR_MIN(step, row - at);
            offer(x, (mr_xname){RAW, k, c}, in, k * row + at, len, 1);
            fetch(x, k, (mr_xname){RAW, x->rank, c}, len * size_of(x), put_it, NULL, k * row + at);
        }
    if (row)
        memcpy(element(x->out, x->rank * row), element(in, x->rank * row), (size_t)(row * size_of(x)));
    return NULL;
}

/* ---- broadcast ---- */

/* Places in the tree are counted from the source on. */
static int place(const mr_exchange *x) { return (x->rank - x->source + x->group->n) % x->group->n; }

static int n_children(const mr_exchange *x)
{
    int first = 2 * place(x) + 1;
    return MR_MAX(0, MR_MIN(2, x->group->n - first));
}

/* The shape as int64 numbers. */
static mr_status *offer_head(mr_exchange *x, const mr_tensor *t)
{
    mr_tensor *head;
    int64_t n = t->rank + 1;
    MR_TRY(mr_tensor_new(mr_cpu_allocator(), MR_INT64, 1, &n, &head));
    MR_DATA(int64_t, head)[0] = t->rank;
    for (int i = 0; i < t->rank; i++)
        MR_DATA(int64_t, head)[i + 1] = t->dims[i];
    mr_exchange_offer(x, (mr_xname){HEAD, 0, 0}, head, 0, n * 8, n_children(x));
    mr_tensor_unref(head);
    return NULL;
}

static void hand_down(mr_exchange *x, const mr_tensor *t, int64_t chunk)
{
    int64_t step = chunk_elements(x), at = chunk * step;
    offer(x, (mr_xname){RAW, 0, chunk}, t, at, MR_MIN(step, t->n - at), n_children(x));
}

static void chunk_came(mr_xrequest *q, mr_bytes *reply)
{
    mr_status *st = put(q->x, q, reply);
    if (st)
        mr_exchange_fail(q->x, st, true);
    else
        hand_down(q->x, q->x->out, q->at / chunk_elements(q->x));
}

static mr_status *read_head(mr_exchange *x, mr_bytes *reply)
{
    int64_t head[MR_MAX_RANK + 1], elements;
    size_t at, n;
    MR_TRY(mr_fetched_at(reply, -1, &at, &n));
    if (n < 8 || n > sizeof head || !mr_bytes_read(reply, at, head, n) || head[0] < 0 || head[0] > MR_MAX_RANK ||
        n != (size_t)(head[0] + 1) * 8)
        return mr_error(MR_INTERNAL, "A broadcast without a shape");
    MR_TRY(mr_shape_elements((int)head[0], head + 1, &elements));
    return mr_tensor_new(mr_run_allocator(x->r), x->call.type, (int)head[0], head + 1, &x->out);
}

static void head_came(mr_xrequest *q, mr_bytes *reply)
{
    mr_exchange *x = q->x;
    int64_t step = chunk_elements(x);
    mr_status *st = read_head(x, reply);
    if (!st)
        st = offer_head(x, x->out);
    for (int64_t c = 0; !st && c * step < x->out->n; c++)
        fetch(x, q->from, (mr_xname){RAW, 0, c}, MR_MIN(step, x->out->n - c * step) * size_of(x), chunk_came, NULL, c * step);
    if (st)
        mr_exchange_fail(x, st, true);
}

static mr_status *broadcast(mr_exchange *x)
{
    if (x->rank != x->source) {
        int above = ((place(x) - 1) / 2 + x->source) % x->group->n;
        fetch(x, above, (mr_xname){HEAD, 0, 0}, -1, head_came, NULL, 0);
        return NULL;
    }
    const mr_tensor *in = x->call.in;
    x->out = mr_tensor_ref(in);
    MR_TRY(offer_head(x, in));
    for (int64_t c = 0; c * chunk_elements(x) < in->n; c++)
        hand_down(x, in, c);
    return NULL;
}

mr_status *mr_exchange_move(mr_exchange *x)
{
    if (x->group->n == 1) { /* whatever it is, it has what it brings */
        x->out = mr_tensor_ref(x->call.in);
        return x->call.in ? NULL : mr_error(MR_INTERNAL, "a broadcast has no source: all members receive");
    }
    switch (x->call.kind) {
    case MR_ALL_REDUCE: return all_reduce(x);
    case MR_REDUCE_SCATTER: return reduce_scatter(x);
    case MR_GATHER: return gather(x);
    case MR_BROADCAST: return broadcast(x);
    case MR_ALL_TO_ALL: return all_to_all(x);
    }
    return mr_error(MR_INTERNAL, "no such collective: %d", (int)x->call.kind);
}
