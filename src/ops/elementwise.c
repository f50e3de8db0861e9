/* ops/elementwise.c -- runs the loops of elementwise.h over whole tensors.
 *
 * Equal shapes are one call of the loop per thread.  Otherwise the result is computed in blocks that fit the
 * first-level cache, and for each block every operand is brought into packed form: read in place where it is packed
 * already, else copied into a buffer on the stack.  Such a copy is kept while the next block needs the same values:
 * a scalar is replicated once, and a short row is repeated to the length of a block once. So one plain loop per op
 * and type serves all forms of broadcasting.
 *
 * Rows (runs along the innermost dimension of the walk) of at least LONG_ROW elements are separate blocks, in which
 * every operand is packed or a single value; several shorter rows form one block. If one of two inputs is a single
 * value in every row and the op has a loop for that, nothing is copied and a row is one block. */
#include "ops/elementwise.h"

#include <string.h>

#include "ops/broadcast.h"

enum {
    MAX_OPERANDS = 1 + MR_BROADCAST_OPERANDS, /* the result is operand 0 */
    BLOCK_BYTES = 4096,
    LONG_ROW = 96, /* a shorter row costs more to set up than to copy */
};
#define SMALL_NS 10000.0 /* less work than this is not worth a call of the thread pool */

typedef struct job {
    const mr_each *e;
    int n; /* operands, the result included */
    char *p[MAX_OPERANDS];
    size_t bytes[MAX_OPERANDS]; /* of an element as stored */
    mr_dtype types[MAX_OPERANDS];
    int64_t block; /* elements of a block */
    /* only when broadcasting: */
    mr_each_loop *scalar_loop; /* for rows in which one input is a single value; NULL: none, or there are other rows */
    const mr_broadcast *b;
    bool direct[MAX_OPERANDS];
    int64_t period[MAX_OPERANDS];
} job;

/* Buffers in which the operands of one block are packed. */
typedef struct scratch {
    _Alignas(64) char packed[MAX_OPERANDS][BLOCK_BYTES];
    _Alignas(64) char wide[MAX_OPERANDS][BLOCK_BYTES]; /* as float */
    const char *source[MAX_OPERANDS]; /* the memory that `packed` and `wide` were filled from; NULL: none */
    int64_t filled[MAX_OPERANDS];     /* the number of elements in them */
} scratch;

static void scratch_init(scratch *s) { memset(s->source, 0, sizeof s->source); }

static bool is_widened(const job *j, int k) { return j->e->widen && j->bytes[k] == 2; }

/* ---- one block ---- */

/* Calls the loop on packed operands, converting 16-bit floats to float and back. fresh[k] means that scratch.wide
 * does not hold operand k yet. */
static void block_run(const job *j, void *const *packed, const bool *fresh, int64_t n, scratch *s)
{
    void *p[MAX_OPERANDS];
    for (int k = 0; k < j->n; k++) {
        p[k] = is_widened(j, k) ? s->wide[k] : packed[k];
        if (k > 0 && is_widened(j, k) && fresh[k])
            mr_dtype_convert(j->types[k], packed[k], MR_FLOAT, s->wide[k], n, false);
    }
    j->e->loop(p, n);
    if (is_widened(j, 0))
        mr_dtype_convert(MR_FLOAT, s->wide[0], j->types[0], packed[0], n, false);
}

/* Packs n copies of the element at `from`; returns false if an earlier block already left them there. */
static bool spread_element(const job *j, int k, const char *from, int64_t n, scratch *s)
{
    if (s->source[k] == from && s->filled[k] >= n)
        return false;
    mr_splat(s->packed[k], from, j->bytes[k], n);
    s->source[k] = from;
    s->filled[k] = n;
    return true;
}

/* ---- equal shapes ---- */

static void same_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    void *p[MAX_OPERANDS];
    if (!j->e->widen) {
        for (int k = 0; k < j->n; k++)
            p[k] = j->p[k] + (size_t)begin * j->bytes[k];
        j->e->loop(p, end - begin);
        return;
    }
    static const bool fresh[MAX_OPERANDS] = {true, true, true, true};
    scratch s;
    for (int64_t at = begin; at < end; at += j->block) {
        for (int k = 0; k < j->n; k++)
            p[k] = j->p[k] + (size_t)at * j->bytes[k];
        block_run(j, p, fresh, MR_MIN(j->block, end - at), &s);
    }
}

/* ---- long rows ---- */

/* False: operand k has one value in each row. */
static bool steps_in_row(const mr_broadcast *b, int k) { return b->strides[k - 1][b->rank - 1] != 0; }

/* The loop for rows in which exactly one of two inputs is a single value; NULL: there are other rows, or the op has no
 * such loop. */
static mr_each_loop *find_scalar_loop(const job *j)
{
    if (j->n != 3 || j->e->widen || steps_in_row(j->b, 1) == steps_in_row(j->b, 2))
        return NULL;
    return steps_in_row(j->b, 2) ? j->e->first_scalar : j->e->second_scalar;
}

/* Computes elements at..at+n of one row. */
static void row_piece(const job *j, const mr_broadcast_row *row, int64_t first, int64_t at,
                      int64_t n, scratch *s)
{
    void *p[MAX_OPERANDS] = {j->p[0] + (size_t)(first + at) * j->bytes[0]};
    bool fresh[MAX_OPERANDS];
    for (int k = 1; k < j->n; k++) {
        bool steps = steps_in_row(j->b, k);
        char *from = j->p[k] + (size_t)(row->offsets[k - 1] + (steps ? at : 0)) * j->bytes[k];
        p[k] = steps || j->scalar_loop ? from : s->packed[k];
        fresh[k] = steps || (!j->scalar_loop && spread_element(j, k, from, n, s));
    }
    if (j->scalar_loop)
        j->scalar_loop(p, n);
    else
        block_run(j, p, fresh, n, s);
}

static void rows_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    int64_t width = j->b->dims[j->b->rank - 1], row = begin / width, at = begin % width;
    mr_broadcast_row where;
    mr_broadcast_row_init(j->b, row, &where);
    scratch s;
    scratch_init(&s);
    for (int64_t done = begin; done < end;) {
        int64_t n = MR_MIN(MR_MIN(j->scalar_loop ? INT64_MAX : j->block, width - at), end - done);
        row_piece(j, &where, row * width, at, n, &s);
        done += n;
        at += n;
        if (at == width) {
            at = 0;
            row++;
            mr_broadcast_row_next(j->b, &where);
        }
    }
}

/* ---- short rows, several to a block ---- */

static bool gather_block(const job *j, int k, int64_t first, int64_t n, scratch *s)
{
    /* A block is a whole number of periods long, so an operand that repeats within a block is the same in every
     * block. */
    bool repeats = j->period[k] <= j->block;
    if (repeats && s->source[k] == j->p[k] && s->filled[k] >= n)
        return false;
    mr_broadcast_gather(j->b, k - 1, j->bytes[k], j->p[k], first, n, s->packed[k]);
    s->source[k] = repeats ? j->p[k] : NULL;
    s->filled[k] = n;
    return true;
}

static void blocks_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    scratch s;
    scratch_init(&s);
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i * j->block, n = MR_MIN(j->block, j->b->n - first);
        void *p[MAX_OPERANDS] = {j->p[0] + (size_t)first * j->bytes[0]};
        bool fresh[MAX_OPERANDS];
        for (int k = 1; k < j->n; k++) {
            p[k] = j->direct[k] ? j->p[k] + (size_t)first * j->bytes[k] : s.packed[k];
            fresh[k] = j->direct[k] || gather_block(j, k, first, n, &s);
        }
        block_run(j, p, fresh, n, &s);
    }
}

/* ---- a whole op ---- */

/* Makes the result, in the memory of an input of the same type and shape that nobody else holds, if there is one. */
static mr_status *make_result(mr_run *r, int rank, const int64_t *dims, mr_tensor **out)
{
    for (int i = 0; i < r->n_in; i++) {
        const mr_tensor *x = mr_in(r, i);
        if (mr_tensor_sole(x) && x->dtype == mr_out_dtype(r, 0) &&
            mr_shape_eq(x->rank, x->dims, rank, dims))
            return mr_run_forward(r, i, 0, rank, dims, out);
    }
    return mr_run_output(r, 0, rank, dims, out);
}

static void job_init(job *j, mr_run *r, const mr_each *e)
{
    j->e = e;
    j->n = 1 + r->n_in;
    size_t widest = mr_dtype_size(mr_out_dtype(r, 0));
    for (int k = 1; k < j->n; k++) {
        const mr_tensor *x = mr_in(r, k - 1);
        j->p[k] = x->data;
        j->types[k] = (mr_dtype)x->dtype;
        j->bytes[k] = mr_dtype_size((mr_dtype)x->dtype);
        widest = MR_MAX(widest, j->bytes[k]);
    }
    j->block = BLOCK_BYTES / (int64_t)MR_MAX(widest, e->widen ? sizeof(float) : 1);
}

static void job_set_result(job *j, const mr_tensor *y)
{
    j->p[0] = y->data;
    j->types[0] = (mr_dtype)y->dtype;
    j->bytes[0] = mr_dtype_size((mr_dtype)y->dtype);
}

static void split_work(mr_run *r, int64_t n, double cost_ns, void (*part)(void *, int64_t, int64_t),
                       job *j)
{
    if ((double)n * cost_ns < SMALL_NS)
        part(j, 0, n);
    else
        mr_run_for(r, n, cost_ns, part, j);
}

/* A separate function, because the walk takes a lot of stack and equal shapes need none. */
static mr_status *broadcast_run(mr_run *r, const mr_each *e)
{
    mr_broadcast b;
    mr_broadcast_init(&b);
    for (int k = 0; k < r->n_in; k++)
        MR_TRY(mr_broadcast_add(&b, mr_in(r, k)->rank, mr_in(r, k)->dims));
    MR_TRY(mr_broadcast_collapse(&b));
    job j;
    job_init(&j, r, e);
    j.b = &b;
    mr_tensor *y;
    MR_TRY(make_result(r, b.shape.rank, b.shape.dims, &y));
    job_set_result(&j, y);
    if (b.n == 0)
        return NULL;
    if (b.n > 1 && b.dims[b.rank - 1] >= LONG_ROW) {
        j.scalar_loop = find_scalar_loop(&j);
        split_work(r, b.n, e->cost_ns, rows_part, &j);
        return NULL;
    }
    int64_t longest = 1;
    for (int k = 1; k < j.n; k++) {
        j.direct[k] = mr_broadcast_direct(&b, k - 1);
        j.period[k] = mr_broadcast_period(&b, k - 1);
        if (j.period[k] <= j.block)
            longest = MR_MAX(longest, j.period[k]);
    }
    j.block -= j.block % longest; /* periods divide one another, so all fit the longest */
    split_work(r, (b.n + j.block - 1) / j.block, e->cost_ns * (double)j.block, blocks_part, &j);
    return NULL;
}

/* Equal shapes: the loop runs over whole tensors. Most ops of a graph are small and take this path, so it does
 * little else. */
static mr_status *same_run(mr_run *r, const mr_each *e)
{
    const mr_tensor *x = mr_in(r, 0);
    int64_t n = x->n;
    mr_tensor *y;
    MR_TRY(make_result(r, x->rank, x->dims, &y));
    if (n == 0)
        return NULL;
    if (!e->widen && (double)n * e->cost_ns < SMALL_NS) {
        void *p[MAX_OPERANDS] = {y->data};
        for (int k = 0; k < r->n_in; k++)
            p[k + 1] = mr_in(r, k)->data; /* an input that became the result can still be read */
        e->loop(p, n);
        return NULL;
    }
    job j;
    job_init(&j, r, e);
    job_set_result(&j, y);
    split_work(r, n, e->cost_ns, same_part, &j);
    return NULL;
}

/* A small tensor and one number: the number is replicated at once, without a walk. */
static mr_status *scalar_run(mr_run *r, const mr_each *e, int scalar)
{
    const mr_tensor *x = mr_in(r, !scalar), *one = mr_in(r, scalar);
    int64_t n = x->n;
    _Alignas(64) char spread_out[BLOCK_BYTES];
    mr_tensor *z;
    mr_splat(spread_out, one->data, mr_dtype_size((mr_dtype)one->dtype), n);
    MR_TRY(make_result(r, x->rank, x->dims, &z));
    void *p[3] = {z->data, x->data, x->data};
    p[1 + scalar] = spread_out;
    if (n > 0)
        e->loop(p, n);
    return NULL;
}

static bool is_small_scalar_case(const mr_run *r, const mr_each *e, int scalar)
{
    const mr_tensor *x = mr_in(r, !scalar), *one = mr_in(r, scalar);
    return !e->widen && one->n == 1 && one->rank <= x->rank &&
           x->n <= BLOCK_BYTES / (int64_t)mr_dtype_size((mr_dtype)one->dtype);
}

mr_status *mr_each_apply(mr_run *r, const mr_each *e)
{
    MR_ASSERT(r->n_in >= 1 && r->n_in <= MR_BROADCAST_OPERANDS);
    if (r->n_in == 2 && !mr_tensor_same_shape(mr_in(r, 0), mr_in(r, 1))) {
        for (int scalar = 0; scalar < 2; scalar++)
            if (is_small_scalar_case(r, e, scalar))
                return scalar_run(r, e, scalar);
        return broadcast_run(r, e);
    }
    for (int i = 1; i < r->n_in; i++)
        if (!mr_tensor_same_shape(mr_in(r, 0), mr_in(r, i)))
            return broadcast_run(r, e);
    return same_run(r, e);
}

mr_status *mr_each_run(mr_run *r) { return mr_each_apply(r, r->kernel->user); }
