/* ops/batch/unbatch_grad.c -- UnbatchGrad: joins the gradients of the rows of many runs for one batch.
 *
 * The run that brought the batch waits until the gradients of all runs in its table have arrived, and gets them
 * joined in the table's order. The other runs leave theirs and continue with no rows. Rows of the batch that belong
 * to no run, which are padding, get zeros, because the result is the gradient of original_input. (TensorFlow leaves
 * them out, and then the shapes do not fit.) As in TensorFlow there is no timeout: a run whose gradients never
 * arrive ends when it is cancelled, and the gradients kept for it are dropped. */
#include "base/map.h"
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/batch/batcher.h"
#include "ops/queue/waiting.h"

typedef struct gatherer {
    mr_waited on;
    mr_waiters line;
    mr_map grads; /* by the 8 bytes of an id: tensors, owned */
} gatherer;

typedef struct asker { /* one run */
    mr_waiter w;
    bool fresh; /* has just arrived */
    int64_t id;
    int64_t n, n_there;   /* n: runs in its table, 0: it has no batch; n_there: how many of the first have gradients
                           * here */
    const int64_t *table; /* in its input batch_index */
    mr_tensor **parts;    /* set when all have arrived */
} asker;

static mr_sv key_of(const int64_t *id) { return (mr_sv){(const char *)id, sizeof *id}; }

/* ---- under the lock ---- */

static mr_status *take_all(gatherer *g, asker *a)
{
    a->parts = mr_try_calloc((size_t)a->n, sizeof *a->parts);
    if (!a->parts)
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for the gradients of %lld runs", (long long)a->n);
    for (int64_t i = 0; i < a->n; i++)
        if (!(a->parts[i] = mr_map_remove(&g->grads, key_of(&a->table[3 * i])))) /* listed twice, or taken by
                                                                                  * another batch */
            return mr_error(MR_INTERNAL, "bad bookkeeping of available tensors.");
    return NULL;
}

static void let_complete_go(gatherer *g, mr_waiters *gone)
{
    for (mr_waiter *w = g->line.first, *next; w; w = next) {
        asker *a = (asker *)w;
        next = w->next;
        while (a->n_there < a->n && mr_map_has(&g->grads, key_of(&a->table[3 * a->n_there])))
            a->n_there++;
        if (a->n_there == a->n)
            mr_waiter_let_go(w, take_all(g, a), gone);
    }
}

/* A run that has just arrived is the last in line: see mr_wait. */
static void advance_gatherer(mr_waited *on, mr_waiters *gone)
{
    gatherer *g = (gatherer *)on;
    asker *a = (asker *)g->line.last;
    if (!a || !a->fresh)
        return;
    a->fresh = false;
    if (mr_map_has(&g->grads, key_of(&a->id))) {
        a->n = 0; /* the gradient kept under this id belongs to another run */
        mr_waiter_let_go(&a->w, mr_invalid("Two runs with the same batch key."), gone);
        return;
    }
    mr_map_put(&g->grads, key_of(&a->id), mr_tensor_ref(mr_in(a->w.r, 2)));
    if (a->n == 0)
        mr_waiter_let_go(&a->w, NULL, gone);
    let_complete_go(g, gone);
}

/* ---- without the lock ---- */

static mr_status *joined_shape(const asker *a, mr_shape *shape)
{
    const mr_tensor *first = a->parts[0];
    if (first->rank < 1)
        return mr_invalid("Gradients of a batch must have at least one dimension");
    mr_shape_set(shape, first->rank, first->dims);
    for (int64_t i = 1; i < a->n; i++) {
        const mr_tensor *t = a->parts[i];
        if (t->dtype != first->dtype || t->rank != first->rank ||
            !mr_shape_eq(t->rank - 1, t->dims + 1, first->rank - 1, first->dims + 1))
            return mr_invalid(
                "Cannot join gradients of shapes %s and %s in one batch: they may differ in dimension 0 only",
                MR_TENSOR_SHAPE(first), MR_TENSOR_SHAPE(t));
        if (__builtin_add_overflow(shape->dims[0], t->dims[0], &shape->dims[0]))
            return mr_invalid("Gradients of a batch have too many rows");
    }
    return NULL;
}

/* The number of rows of original_input if they have the shape of the rows of this gradient, else 0. */
static int64_t rows_before(const mr_run *r, int rank, const int64_t *dims)
{
    const mr_tensor *x = mr_in(r, 0);
    return x->rank == rank && mr_shape_eq(rank - 1, x->dims + 1, rank - 1, dims + 1) ? x->dims[0] : 0;
}

static mr_status *give_joined(const asker *a)
{
    mr_shape shape;
    mr_tensor *y;
    int64_t at = 0;
    MR_TRY(joined_shape(a, &shape));
    int64_t rows = rows_before(a->w.r, shape.rank, shape.dims);
    bool padded = rows > shape.dims[0];
    if (padded)
        shape.dims[0] = rows;
    MR_TRY(mr_batch_check_output(a->w.r, (mr_dtype)a->parts[0]->dtype, shape.rank, shape.dims));
    MR_TRY(mr_run_output(a->w.r, 0, shape.rank, shape.dims, &y));
    if (padded)
        mr_tensor_zero(y);
    for (int64_t i = 0; i < a->n; at += a->parts[i++]->n)
        MR_TRY(mr_tensor_try_copy_elements(y, at, a->parts[i], 0, a->parts[i]->n));
    return NULL;
}

static mr_status *give_gradient(mr_waiter *w)
{
    const asker *a = (asker *)w;
    mr_shape shape;
    mr_tensor *none;
    if (a->parts)
        return give_joined(a);
    mr_shape_set(&shape, mr_in(w->r, 2)->rank, mr_in(w->r, 2)->dims);
    shape.dims[0] = rows_before(w->r, shape.rank, shape.dims); /* the rows have no elements */
    return mr_run_output(w->r, 0, shape.rank, shape.dims, &none);
}

/* After a cancellation: no other run will ask for the gradients of this batch. */
static void drop_left(gatherer *g, const asker *a)
{
    mr_lock(&g->on.mu);
    for (int64_t i = 0; i < a->n; i++)
        mr_tensor_unref(mr_map_remove(&g->grads, key_of(&a->table[3 * i])));
    mr_tensor_unref(mr_map_remove(&g->grads, key_of(&a->id)));
    mr_unlock(&g->on.mu);
}

static void forget_asker(mr_waiter *w)
{
    asker *a = (asker *)w;
    if (!a->parts && !a->fresh && a->n > 0)
        drop_left((gatherer *)w->on, a);
    for (int64_t i = 0; a->parts && i < a->n; i++)
        mr_tensor_unref(a->parts[i]);
    mr_free(a->parts);
}

static const mr_waited_kind gatherer_kind = {sizeof(asker), advance_gatherer, give_gradient, forget_asker};

/* ---- the kernel ---- */

static void gatherer_free(mr_object *o)
{
    gatherer *g = (gatherer *)o;
    mr_sv key;
    void *t;
    for (uint32_t pos = 0; mr_map_next(&g->grads, &pos, &key, &t);)
        mr_tensor_unref(t);
    mr_map_deinit(&g->grads);
    mr_waited_deinit(&g->on);
    mr_free(g);
}

static const mr_object_type gatherer_type = {"millrace::BatchGradients", gatherer_free};

static mr_status *make_gatherer(void *ctx, mr_object **out)
{
    (void)ctx;
    gatherer *g = mr_new(gatherer);
    mr_waited_init(&g->on, &gatherer_type, &gatherer_kind);
    *out = &g->on.base;
    return NULL;
}

static mr_status *check_inputs(const mr_tensor *data, const mr_tensor *index, const mr_tensor *grad,
                               const mr_tensor *id)
{
    if (id->rank != 0)
        return mr_invalid("Expected `id` to be scalar. Received %s", MR_TENSOR_SHAPE(id));
    if (grad->rank < 1)
        return mr_invalid("Expected `grad` to have at least one dimension");
    if (data->n == 0)
        return NULL;
    if (index->n == 0)
        return mr_invalid("batch_index is empty while the tensor isn't.");
    if (index->rank < 1 || index->n % 3 != 0 || index->n / 3 != index->dims[0])
        return mr_invalid("batch_index should contain 3 elements for each of its rows. Received shape %s", MR_TENSOR_SHAPE(index));
    return NULL;
}

static void unbatch_grad(mr_run *r)
{
    mr_object *g = NULL;
    mr_status *st = check_inputs(mr_in(r, 0), mr_in(r, 1), mr_in(r, 2), mr_in(r, 3));
    if (!st)
        st = mr_named_open(r->state, make_gatherer, NULL, &g);
    if (st) {
        mr_run_done(r, st);
        return;
    }
    asker *a = mr_waiter_new((mr_waited *)g, r, "UnbatchGrad was cancelled");
    a->fresh = true;
    a->id = *MR_DATA(int64_t, mr_in(r, 3));
    a->n = mr_in(r, 0)->n > 0 ? mr_in(r, 1)->dims[0] : 0;
    a->table = MR_DATA(int64_t, mr_in(r, 1));
    mr_wait(&a->w, &((gatherer *)g)->line);
}

static mr_status *init_unbatch_grad(mr_make *m, void *state) { return mr_named_init(state, m, &gatherer_type); }
static void deinit_unbatch_grad(void *state) { mr_named_deinit(state); }

static mr_status *unbatch_grad_shape(mr_infer *c)
{
    int64_t any[MR_MAX_RANK];
    int rank = c->in[2]->rank;
    for (int i = 0; i < rank; i++)
        any[i] = -1;
    if (rank >= 0)
        c->out[0] = mr_pshape_of(c->arena, rank, any);
    return NULL;
}

#define LEFT "a = UnbatchGrad T=$T shared_name=\"g\": shape(0), shape(0,3), [1], int64 8; shared_name=\"g\": "
MR_OP(UnbatchGrad,
    .doc     = "the gradients of the rows of several runs, given to the one that has the batch",
    .sig     = "original_input: T, batch_index: int64, grad: T, id: int64 -> batched_grad: T",
    .attrs   = "container: string = ''; shared_name: string = ''; T: type",
    .flags   = MR_NO_FOLD | MR_NO_GRADIENT,
    .shape   = unbatch_grad_shape,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(unbatch_grad)),
    .examples = MR_EXAMPLES(
        "[1, 2], [[7, 0, 2]], [3, 4], 7 -> [3, 4]", "[1, 2, 3], [[7, 0, 2]], [3, 4], 7 -> [3, 4, 0]",
        "shape(2,0), shape(0,3), shape(1,0), 7 -> shape(2,0)", "shape(0,2), shape(0,3), [[3, 4]], 7 -> shape(0,2)",
        LEFT "[1, 2, 3], [[8, 0, 1], [7, 1, 3]], [2, 3], 7 -> [1, 2, 3]", LEFT "[1, 2, 3], [[7, 0, 2], [8, 2, 3]], [2, 3], 7 -> [2, 3, 1]",
        LEFT "shape(0), shape(0,3), [5], 8 -> !INVALID_ARGUMENT Two runs with the same batch key.",
        LEFT "[1, 2], [[8, 0, 1], [7, 1, 2]], [[2]], 7 -> !INVALID_ARGUMENT of shapes [1] and [1,1]",
        "[1, 2], [[7, 0, 1], [7, 1, 2]], [3], 7 -> !INTERNAL bad bookkeeping of available tensors.",
        "[1], [[7, 0, 1], [9, 1, 2]], [3], 7 -> !CANCELLED UnbatchGrad was cancelled",
        "[1], shape(0,3), [3], 7 -> !INVALID_ARGUMENT batch_index is empty while the tensor isn't.",
        "[1], [[7, 0]], [3], 7 -> !INVALID_ARGUMENT batch_index should contain",
        "[1], [[7, 0, 1]], 3, 7 -> !INVALID_ARGUMENT at least one dimension",
        "[1], [[7, 0, 1]], [3], [7] -> !INVALID_ARGUMENT Expected `id` to be scalar"),
    .state_bytes = sizeof(mr_named), .init = init_unbatch_grad, .deinit = deinit_unbatch_grad);
