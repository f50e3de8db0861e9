/* server/collective_moves.c -- which pieces of an exchange go where: ops that only move data, and what
 * all kinds share.
 *
 * Gather and all-to-all fetch from each member what it has. A broadcast goes down a binary tree, chunk
 * by chunk, with a head that carries the shape. Reductions are in collective_reduce.c. The tree of seven
 * members, whose places count from the source:
 *
 *            0
 *         /     \
 *        1       2
 *       / \     / \
 *      3   4   5   6
 *
 * A member offers each chunk to its children as soon as it has it, so the chunks follow each other down
 * the tree.
 *
 * The pieces of an exchange and their names (phase, section, chunk), in the box of the member that offers:
 *
 *     gather          RAW, 0, c              chunk c of the member's input, for all others
 *     all-to-all      RAW, k, c              chunk c of row k, for member k
 *     broadcast       HEAD, 0, 0             the shape, for the children
 *                     RAW, 0, c              chunk c of the tensor, for the children
 *     reductions      RAW, s, c              values of section s that are not merged with all others yet
 *                     FINAL, s, c            the result of section s
 *     halving         i, k, c                the i-th message of chunk c to member k
 *
 * A reply is copied into the output only after its size was found to be the expected one
 * (mr_fetched_at). */
#include "server/collective_moves.h"

/* The algorithm of an all-reduce is part of the signature, because environments and hints of the
 * members may differ. */
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
    x->algorithm = mr_x_choose(x);
    if (x->algorithm == MR_GROUP_RING)
        mr_str_printf(&x->signature, " in a ring");
    else if (x->algorithm == MR_GROUP_HALVING)
        mr_str_printf(&x->signature, " by halving");
}

/* ---- fetching into a place of the output ---- */

/* Asks a member for a piece. ctx and at are for `then`; index is the member's rank. */
void mr_x_fetch(mr_exchange *x, int from, mr_xname name, int64_t bytes,
                void (*then)(mr_xrequest *q, mr_bytes *reply), void *ctx, int64_t at)
{
    MR_ASSERT(from >= 0 && from < x->group->n && from != x->rank);
    mr_xrequest *q = mr_xrequest_new(x, x->group->members[from].task, from, then);
    q->ctx = ctx;
    q->at = at;
    q->index = from;
    mr_exchange_fetch(x, from, name, bytes, q);
}

/* Offsets and lengths in elements, not bytes. */
void mr_x_offer(mr_exchange *x, mr_xname name, const mr_tensor *t, int64_t at, int64_t n, int64_t n_others)
{
    mr_exchange_offer(x, name, t, at * mr_x_size(x), n * mr_x_size(x), n_others);
}

/* Copies a reply into the output. Any non-zero byte of a bool tensor becomes true. */
mr_status *mr_x_put(mr_exchange *x, int64_t at, int64_t bytes, mr_bytes *reply)
{
    size_t from, n;
    MR_TRY(mr_fetched_at(reply, bytes, &from, &n));
    MR_ASSERT(x->out && at >= 0 && (uint64_t)at * (uint64_t)mr_x_size(x) + n <= mr_tensor_bytes(x->out));
    char *to = mr_x_at(x->out, at);
    mr_bytes_read(reply, from, to, n);
    for (size_t i = 0; x->call.type == MR_BOOL && i < n; i++)
        to[i] = to[i] != 0;
    return NULL;
}

/* `then` of a request whose reply only has to be copied to its place in the output. */
void mr_x_put_it(mr_xrequest *q, mr_bytes *reply)
{
    mr_status *st = mr_x_put(q->x, q->at, q->bytes, reply);
    if (st)
        mr_exchange_fail(q->x, st, true);
}

/* Checks that dimension 0 can be divided among n members: exactly one row for each, or a multiple. */
mr_status *mr_x_check_rows(const mr_tensor *t, int64_t n, bool exactly)
{
    if (t->rank >= 1 && (exactly ? t->dims[0] == n : t->dims[0] % n == 0))
        return NULL;
    return mr_invalid("dimension 0 of the input must be %sthe size of the group, %lld, but its shape is %s",
                      exactly ? "" : "a multiple of ", (long long)n, MR_TENSOR_SHAPE(t));
}

/* The output has the input's shape, with another number of rows. */
mr_status *mr_x_new_output(mr_exchange *x, int64_t rows)
{
    MR_ASSERT(!x->out && x->call.in->rank >= 1);
    mr_shape shape;
    mr_shape_set(&shape, x->call.in->rank, x->call.in->dims);
    shape.dims[0] = rows;
    return mr_tensor_new(mr_run_allocator(x->r), x->call.type, shape.rank, shape.dims, &x->out);
}

/* ---- gather and all-to-all ---- */

/* Every member offers its input to all others and fetches theirs into the output, in the order of
 * ranks. */
static mr_status *move_gather(mr_exchange *x)
{
    const mr_tensor *in = x->call.in;
    int64_t rows, step = mr_x_chunk(x);
    if (in->rank < 1)
        return mr_invalid("input must have at least one dimension to be gathered");
    if (!mr_i64_mul(in->dims[0], x->group->n, &rows))
        return mr_invalid("the gathered tensor is too large");
    MR_TRY(mr_x_new_output(x, rows));
    for (int64_t c = 0; c * step < in->n; c++) {
        mr_xname name = {MR_X_RAW, 0, c};
        int64_t at = c * step, len = MR_MIN(step, in->n - at);
        mr_x_offer(x, name, in, at, len, x->group->n - 1);
        for (int k = 0; k < x->group->n; k++)
            if (k != x->rank)
                mr_x_fetch(x, k, name, len * mr_x_size(x), mr_x_put_it, NULL, k * in->n + at);
    }
    if (in->n)
        memcpy(mr_x_at(x->out, x->rank * in->n), in->data, (size_t)(in->n * mr_x_size(x)));
    return NULL;
}

/* Row k of a member's input goes to member k, which puts it at the sender's rank. */
static mr_status *all_to_all(mr_exchange *x)
{
    const mr_tensor *in = x->call.in;
    MR_TRY(mr_x_check_rows(in, x->group->n, true));
    int64_t row = in->n / x->group->n, step = mr_x_chunk(x);
    MR_TRY(mr_x_new_output(x, in->dims[0]));
    for (int k = 0; k < x->group->n; k++)
        for (int64_t c = 0; k != x->rank && c * step < row; c++) {
            int64_t at = c * step, len = MR_MIN(step, row - at);
            mr_x_offer(x, (mr_xname){MR_X_RAW, k, c}, in, k * row + at, len, 1);
            mr_x_fetch(x, k, (mr_xname){MR_X_RAW, x->rank, c}, len * mr_x_size(x), mr_x_put_it, NULL, k * row + at);
        }
    if (row)
        memcpy(mr_x_at(x->out, x->rank * row), mr_x_at(in, x->rank * row), (size_t)(row * mr_x_size(x)));
    return NULL;
}

/* ---- broadcast ---- */

/* Positions in the tree count from the source. */
static int tree_place(const mr_exchange *x) { return (x->rank - x->source + x->group->n) % x->group->n; }

/* The nodes of the tree are numbered like a heap: the children of k are 2k + 1 and 2k + 2. */
static int n_children(const mr_exchange *x)
{
    int first = 2 * tree_place(x) + 1;
    return MR_MAX(0, MR_MIN(2, x->group->n - first));
}

/* Offers the shape to the children: the rank, then the dimensions, as int64 numbers. */
static mr_status *offer_head(mr_exchange *x, const mr_tensor *t)
{
    mr_tensor *head;
    int64_t n = t->rank + 1;
    MR_TRY(mr_tensor_new(mr_cpu_allocator(), MR_INT64, 1, &n, &head));
    MR_DATA(int64_t, head)[0] = t->rank;
    for (int i = 0; i < t->rank; i++)
        MR_DATA(int64_t, head)[i + 1] = t->dims[i];
    mr_exchange_offer(x, (mr_xname){MR_X_HEAD, 0, 0}, head, 0, n * 8, n_children(x));
    mr_tensor_unref(head);
    return NULL;
}

/* Offers a chunk to the children. */
static void hand_down(mr_exchange *x, const mr_tensor *t, int64_t chunk)
{
    int64_t step = mr_x_chunk(x), at = chunk * step;
    mr_x_offer(x, (mr_xname){MR_X_RAW, 0, chunk}, t, at, MR_MIN(step, t->n - at), n_children(x));
}

/* A chunk of the broadcast has arrived: keeps it and offers it to the children. */
static void chunk_came(mr_xrequest *q, mr_bytes *reply)
{
    mr_status *st = mr_x_put(q->x, q->at, q->bytes, reply);
    if (st)
        mr_exchange_fail(q->x, st, true);
    else
        hand_down(q->x, q->x->out, q->at / mr_x_chunk(q->x));
}

/* Parses a head and makes the output. The sender is not trusted: rank and number of elements are
 * checked. */
static mr_status *read_head(mr_exchange *x, mr_bytes *reply)
{
    int64_t head[MR_MAX_RANK + 1], elements;
    size_t at, n;
    MR_TRY(mr_fetched_at(reply, -1, &at, &n));
    if (n < 8 || n > sizeof head || !mr_bytes_read(reply, at, head, n) || head[0] < 0 || head[0] > MR_MAX_RANK ||
        n != (size_t)(head[0] + 1) * 8)
        return mr_error(MR_INTERNAL, "The head of a broadcast has no valid shape");
    MR_TRY(mr_shape_elements((int)head[0], head + 1, &elements));
    return mr_tensor_new(mr_run_allocator(x->r), x->call.type, (int)head[0], head + 1, &x->out);
}

/* The shape is known: passes it on and asks for all chunks. */
static void head_came(mr_xrequest *q, mr_bytes *reply)
{
    mr_exchange *x = q->x;
    int64_t step = mr_x_chunk(x);
    mr_status *st = read_head(x, reply);
    if (!st)
        st = offer_head(x, x->out);
    for (int64_t c = 0; !st && c * step < x->out->n; c++)
        mr_x_fetch(x, q->from, (mr_xname){MR_X_RAW, 0, c}, MR_MIN(step, x->out->n - c * step) * mr_x_size(x),
                   chunk_came, NULL, c * step);
    if (st)
        mr_exchange_fail(x, st, true);
}

/* The source offers its input; the others fetch from their parent in the tree and offer what they got. */
static mr_status *move_broadcast(mr_exchange *x)
{
    if (x->rank != x->source) {
        int above = ((tree_place(x) - 1) / 2 + x->source) % x->group->n;
        mr_x_fetch(x, above, (mr_xname){MR_X_HEAD, 0, 0}, -1, head_came, NULL, 0);
        return NULL;
    }
    const mr_tensor *in = x->call.in;
    x->out = mr_tensor_ref(in);
    MR_TRY(offer_head(x, in));
    for (int64_t c = 0; c * mr_x_chunk(x) < in->n; c++)
        hand_down(x, in, c);
    return NULL;
}

/* Makes the offers and requests of the op. Everything after that happens in callbacks; the exchange may have ended
 * when this returns. */
mr_status *mr_exchange_move(mr_exchange *x)
{
    if (x->group->n == 1) { /* the result is the input, whatever the op */
        x->out = mr_tensor_ref(x->call.in);
        return x->call.in ? NULL : mr_error(MR_INTERNAL, "a broadcast has no source: all members receive");
    }
    switch (x->call.kind) {
    case MR_ALL_REDUCE: return mr_x_all_reduce(x);
    case MR_REDUCE_SCATTER: return mr_x_reduce_scatter(x);
    case MR_GATHER: return move_gather(x);
    case MR_BROADCAST: return move_broadcast(x);
    case MR_ALL_TO_ALL: return all_to_all(x);
    }
    return mr_error(MR_INTERNAL, "unknown collective op %d", (int)x->call.kind);
}
