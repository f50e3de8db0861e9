/* ops/batch/batch.c -- Batch: collects the rows of many runs in one.
 *
 * The last run of a batch gets all rows, and a table of their owners: id, first row, row after the last. The other
 * runs continue with no rows, and their Unbatch waits for its rows from the Unbatch of the last run. As in
 * TensorFlow the table does not mention rows that are padding. */
#include "base/clock.h"
#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/batch/batcher.h"

/* Gives every run its id first, because the table contains the ids too. */
static mr_status *give_ids(mr_batch *x, int at)
{
    for (mr_batch_piece *p = x->first; p; p = p->next) {
        MR_TRY(mr_tensor_new(NULL, MR_INT64, 0, NULL, &p->outs[at]));
        *MR_DATA(int64_t, p->outs[at]) = (int64_t)mr_random64();
    }
    return NULL;
}

static mr_status *give_table(mr_batch *x, int at)
{
    int64_t n = 0, row = 0;
    for (const mr_batch_piece *p = x->first; p; p = p->next)
        n++;
    MR_TRY(mr_tensor_new(NULL, MR_INT64, 2, (int64_t[]){n, 3}, &x->last->outs[at]));
    int64_t *to = MR_DATA(int64_t, x->last->outs[at]);
    for (const mr_batch_piece *p = x->first; p; row += p->rows, p = p->next) {
        *to++ = *MR_DATA(int64_t, p->outs[at + 1]);
        *to++ = row;
        *to++ = row + p->rows;
    }
    return NULL;
}

static mr_status *give_nothing(mr_batch_piece *p, int n_in)
{
    for (int i = 0; i < n_in; i++) {
        const mr_tensor *t = mr_in(p->q->r, i);
        mr_shape shape;
        mr_shape_set(&shape, t->rank, t->dims);
        shape.dims[0] = 0;
        MR_TRY(mr_tensor_new(NULL, t->dtype, shape.rank, shape.dims, &p->outs[i]));
    }
    return mr_tensor_new(NULL, MR_INT64, 2, (int64_t[]){0, 3}, &p->outs[n_in]);
}

static mr_status *give_all(mr_batch *x)
{
    int n_in = x->first->q->n_in;
    MR_TRY(mr_batch_check(x));
    for (int i = 0; i < n_in; i++)
        MR_TRY(mr_batch_join(x, i, &x->last->outs[i]));
    MR_TRY(give_ids(x, n_in + 1));
    MR_TRY(give_table(x, n_in));
    for (mr_batch_piece *p = x->first; p != x->last; p = p->next)
        MR_TRY(give_nothing(p, n_in));
    return NULL;
}

static void process_batch(mr_batch *x) { mr_batch_end(x, give_all(x)); }

static const mr_object_type joiner_type = {"millrace::BatchJoiner", mr_batcher_free};

static mr_status *init_batch(mr_make *m, void *state)
{
    int64_t n_threads;
    MR_TRY(mr_batching_init(state, m, &joiner_type, false, process_batch));
    MR_TRY(mr_node_get_int(m->node, "num_batch_threads", &n_threads));
    if (n_threads < 1)
        return mr_invalid("num_batch_threads must be positive; was %lld", (long long)n_threads);
    return NULL;
}

mr_status *mr_batch_any_rows(mr_infer *c, int i, const mr_pshape **out)
{
    mr_shape shape;
    MR_TRY(mr_infer_rank_at_least(c, c->in[i], 1, out));
    if ((*out)->rank < 0)
        return NULL;
    mr_shape_set(&shape, (*out)->rank, (*out)->dims);
    shape.dims[0] = -1;
    *out = mr_pshape_of(c->arena, shape.rank, shape.dims);
    return NULL;
}

mr_status *mr_batch_check_output(const mr_run *r, mr_dtype t, int rank, const int64_t *dims)
{
    const mr_pshape *said = r->node->out_shapes[0];
    bool fits = t == mr_out_dtype(r, 0) && (said->rank < 0 || said->rank == rank);
    for (int i = 0; i < said->rank && fits; i++)
        fits = said->dims[i] < 0 || said->dims[i] == dims[i];
    return fits ? NULL : mr_invalid("%s '%s': the run that has the batch gave %s of shape %s, expected %s of shape %s",
                                    r->node->def->name, r->node->name, mr_dtype_name(t), MR_SHAPE_TEXT(rank, dims),
                                    mr_dtype_name(mr_out_dtype(r, 0)), MR_PSHAPE_TEXT(said));
}

static mr_status *batch_shape(mr_infer *c)
{
    for (int i = 0; i < c->n_in; i++)
        MR_TRY(mr_batch_any_rows(c, i, &c->out[i]));
    c->out[c->n_in] = mr_pshape_of(c->arena, 2, (int64_t[]){-1, 3});
    mr_infer_out_scalar(c, c->n_in + 1);
    return NULL;
}

/* The gradient of the joined rows goes back to the runs they came from. All sessions with this graph share the name. */
static void batch_backward(mr_grad *g)
{
    int n = g->node->n_in;
    int64_t timeout_us = 0;
    mr_status *st = mr_node_get_int(g->node, "grad_timeout_micros", &timeout_us);
    if (st) {
        mr_grad_fail(g, mr_status_code(st), "%s", mr_status_message(st));
        mr_status_free(st);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (!mr_needs_dx(g, i))
            continue;
        char *name = mr_printf("batch_gradient_%s_%d", g->node->name, i);
        mr_dxi(g, i, mr_emit_with(g->s, "Unbatch", MR_ATTRS({"timeout_micros", mr_a_int(timeout_us)}, {"shared_name", mr_a_str(name)}),
                                  mr_dyi(g, i), mr_yi(g, n), mr_yi(g, n + 1)));
        mr_free(name);
    }
}

#define ATTRS(max, more) "num_batch_threads=1 max_batch_size=" max " batch_timeout_micros=0 grad_timeout_micros=1000000 " more
MR_OP(Batch,
    .doc     = "the rows of several concurrent runs, given to one of them",
    .sig     = "in_tensors: T -> batched_tensors: T, batch_index: int64, id: int64",
    .attrs   = "num_batch_threads: int; max_batch_size: int; max_enqueued_batches: int = 10; batch_timeout_micros: int; "
               "allowed_batch_sizes: list(int) = []; grad_timeout_micros: int; container: string = ''; shared_name: string = ''; "
               "batching_queue: string = ''; T: list(type) >= 1",
    .flags   = MR_DISTCOMM | MR_NO_FOLD,
    .shape   = batch_shape,
    .grad    = batch_backward,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(mr_batching_run)),
    .examples = MR_EXAMPLES(
        ATTRS("4", ": ([1, 2]) -> [1, 2], [[?, 0, 2]], ?"), ATTRS("4", ": ([1, 2, 3, 4]) -> [1, 2, 3, 4], [[?, 0, 4]], ?"),
        ATTRS("4", ": ([[1, 2]], string[\"a\"]) -> [[1, 2]], [\"a\"], [[?, 0, 1]], ?"),
        ATTRS("4", "nograd: (shape(0,2)) -> shape(0,2), [[?, 0, 0]], ?"),
        ATTRS("4", "nograd allowed_batch_sizes=[3, 4]: ([5, 6]) -> [5, 6, 5], [[?, 0, 2]], ?"),
        ATTRS("4", "nograd allowed_batch_sizes=[3, 4]: (shape(0)) -> shape(0), [[?, 0, 0]], ?"),
        ATTRS("1", ": ([1, 2]) -> !INVALID_ARGUMENT larger than maximum"),
        ATTRS("4", ": ([1, 2], [1]) -> !INVALID_ARGUMENT equal 0th-dimension size"),
        ATTRS("4", ": (1) -> !INVALID_ARGUMENT at least rank 1"), ATTRS("0", ": ([1]) -> !INVALID_ARGUMENT max_batch_size must be positive (got 0)"),
        ATTRS("4", "allowed_batch_sizes=[4, 3]: ([1]) -> !INVALID_ARGUMENT monotonically increasing"),
        ATTRS("4", "allowed_batch_sizes=[2, 3]: ([1]) -> !INVALID_ARGUMENT final entry in allowed_batch_sizes must equal max_batch_size"),
        "num_batch_threads=0 max_batch_size=1 batch_timeout_micros=0 grad_timeout_micros=0: ([1]) -> !INVALID_ARGUMENT "
        "num_batch_threads must be positive"),
    .state_bytes = sizeof(mr_batching), .init = init_batch, .deinit = mr_batching_deinit);
