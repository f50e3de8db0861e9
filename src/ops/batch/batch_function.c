/* ops/batch/batch_function.c -- calls a function once for the requests of many concurrent steps.
 *
 * A batch of rows (batcher.h) is one call of f on all of them. The results are split again and each run gets its
 * own rows. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/batch/batcher.h"

typedef struct call {
    mr_batch *x;
    int n_args, n_rets;
    mr_tensor **args, **rets;
    mr_func_ref f;
} call;

static void call_free(call *c)
{
    for (int i = 0; i < c->n_args; i++)
        mr_tensor_unref(c->args[i]);
    for (int i = 0; i < c->n_rets; i++)
        mr_tensor_unref(c->rets[i]);
    mr_free(c->args);
    mr_free(c->rets);
    mr_free(c);
}

static mr_status *cut_results(const call *c)
{
    const mr_batch *x = c->x;
    for (int i = 0; i < c->n_rets; i++) {
        const mr_tensor *t = c->rets[i];
        int64_t at = 0;
        if (t->rank < 1 || t->dims[0] != x->padded)
            return mr_error(MR_FAILED_PRECONDITION, "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension "
                                                    "sizes of the input tensors: output %d has shape %s, %lld rows went in",
                            i, MR_TENSOR_SHAPE(t), (long long)x->padded);
        for (mr_batch_piece *p = x->first; p; at += p->rows, p = p->next) {
            if (t->dtype != mr_out_dtype(p->q->r, i))
                return mr_invalid("Expected type %s for return value %d, got %s", mr_dtype_name(mr_out_dtype(p->q->r, i)), i,
                                  mr_dtype_name(t->dtype));
            MR_TRY(mr_tensor_rows(t, at, p->rows, &p->outs[i]));
        }
    }
    return NULL;
}

static void call_done(void *ctx, mr_status *st)
{
    call *c = ctx;
    mr_batch *x = c->x;
    if (!st)
        st = cut_results(c);
    call_free(c);
    mr_batch_end(x, st);
}

static mr_status *make_args(call *c)
{
    const mr_batch *x = c->x;
    mr_run *r = x->first->q->r;
    int n_batched = x->first->q->n_in;
    MR_TRY(mr_batch_check(x));
    c->args = mr_new_array(mr_tensor *, r->n_in + 1);
    c->rets = mr_new_array(mr_tensor *, r->n_out + 1);
    c->n_args = r->n_in;
    for (int i = 0; i < n_batched; i++)
        MR_TRY(mr_batch_join(x, i, &c->args[i]));
    for (int i = n_batched; i < r->n_in; i++) /* captured inputs are those of the first run */
        c->args[i] = mr_tensor_ref(mr_in(r, i));
    c->n_rets = r->n_out;
    return NULL;
}

static void start_call(mr_batch *x)
{
    const mr_func_ref *f = NULL;
    call *c = mr_new(call);
    c->x = x;
    mr_status *st = mr_node_get_func(x->first->q->r->node, "f", &f);
    if (!st)
        st = make_args(c);
    if (st) {
        call_free(c);
        mr_batch_end(x, st);
        return;
    }
    c->f = *f;
    mr_later_call a = {.f = &c->f, .args = c->args, .rets = c->rets, .n_args = c->n_args, .n_rets = c->n_rets};
    mr_later_start(x->later, &a, call_done, c);
}

static const mr_object_type caller_type = {"millrace::Batcher", mr_batcher_free};

static mr_status *init_batch_function(mr_make *m, void *state)
{
    bool split;
    MR_TRY(mr_node_get_bool(m->node, "enable_large_batch_splitting", &split));
    return mr_batching_init(state, m, &caller_type, split, start_call);
}

static void batch_function(mr_run *r)
{
    if (r->step->caller)
        mr_batching_run(r);
    else
        mr_run_done(r, mr_error(MR_FAILED_PRECONDITION, "Functions cannot be called here"));
}

MR_OP(BatchFunction,
    .doc     = "f(in_tensors, captured_tensors), called once for the rows of several concurrent runs",
    .sig     = "in_tensors: Tin, captured_tensors: Tcaptured -> out_tensors: Tout",
    .attrs   = "f: func; num_batch_threads: int; max_batch_size: int; batch_timeout_micros: int; max_enqueued_batches: int = 10; "
               "allowed_batch_sizes: list(int) = []; container: string = ''; shared_name: string = ''; batching_queue: string = ''; "
               "Tin: list(type) >= 1; Tcaptured: list(type) >= 0; Tout: list(type) >= 1; enable_large_batch_splitting: bool = false",
    .flags   = MR_DISTCOMM | MR_NO_FOLD | MR_NO_GRADIENT,
    .shape   = mr_shape_unknown,
    .kernels = MR_KERNELS(MR_CPU_ASYNC(batch_function)),
    .state_bytes = sizeof(mr_batching), .init = init_batch_function, .deinit = mr_batching_deinit);
