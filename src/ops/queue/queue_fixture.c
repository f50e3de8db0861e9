/* ops/queue/queue_fixture.c -- see queue_fixture.h. */
#include "ops/queue/queue_fixture.h"

#include "base/memory.h"

static mr_callee callee(mr_queue_fixture *g, const char *op, const mr_named_attr *attrs, int n_attrs,
                        int n_types, const mr_dtype *types)
{
    return mr_callee_make(&g->calls, op, attrs, n_attrs, (mr_out){g->make.node, 0}, n_types, types);
}

static mr_callee make_queue(mr_queue_fixture *g, const char *kind, int64_t capacity, int64_t min_after)
{
    static const int types[] = {MR_INT64};
    const mr_pshape *shapes[] = {&mr_pshape_scalar};
    bool random = strcmp(kind, "RandomShuffleQueueV2") == 0;
    mr_named_attr attrs[] = {{"shared_name", mr_a_str("q")},
                             {"capacity", mr_a_int(capacity)},
                             {"component_types", mr_a_types(1, types)},
                             {"shapes", mr_a_shapes(1, shapes)},
                             {"min_after_dequeue", mr_a_int(min_after)},
                             {"seed", mr_a_int(1)},
                             {"seed2", mr_a_int(2)}};
    return mr_callee_make(&g->calls, kind, attrs, random ? 7 : 4, MR_NO_OUT, 0, NULL);
}

void mr_queue_fixture_init(mr_queue_fixture *g, const char *kind, int64_t capacity, int64_t min_after)
{
    static const int types[] = {MR_INT64, MR_INT64};
    const mr_dtype ins[] = {MR_INT64, MR_INT64};
    g->width = strcmp(kind, "PriorityQueueV2") == 0 ? 2 : 1;
    mr_calls_init(&g->calls);
    g->make = make_queue(g, kind, capacity, min_after);
    const mr_named_attr out = {"component_types", mr_a_types(g->width, types)};
    const mr_named_attr cancel = {"cancel_pending_enqueues", mr_a_bool(true)};
    g->enqueue = callee(g, "QueueEnqueueV2", NULL, 0, g->width, ins);
    g->enqueue_many = callee(g, "QueueEnqueueManyV2", NULL, 0, g->width, ins);
    g->dequeue = callee(g, "QueueDequeueV2", &out, 1, 0, NULL);
    g->dequeue_many = callee(g, "QueueDequeueManyV2", &out, 1, MR_TYPES(MR_INT32));
    g->dequeue_up_to = callee(g, "QueueDequeueUpToV2", &out, 1, MR_TYPES(MR_INT32));
    g->close = callee(g, "QueueCloseV2", NULL, 0, 0, NULL);
    g->cancel = callee(g, "QueueCloseV2", &cancel, 1, 0, NULL);
    g->size = callee(g, "QueueSizeV2", NULL, 0, 0, NULL);
    g->is_closed = callee(g, "QueueIsClosedV2", NULL, 0, 0, NULL);
    MR_CHECK_OK(
        mr_call_end(mr_queue_fixture_begun(mr_call_new(&g->calls, &g->make, 0, NULL)), &g->handle));
}

void mr_queue_fixture_deinit(mr_queue_fixture *g)
{
    mr_callee *all[] = {&g->make,          &g->enqueue, &g->enqueue_many, &g->dequeue,
                        &g->dequeue_many,  &g->close,   &g->cancel,       &g->size,
                        &g->dequeue_up_to, &g->is_closed};
    for (int i = 0; i < MR_COUNT(all); i++)
        mr_callee_deinit(all[i]);
    mr_tensor_unref(g->handle);
    mr_calls_deinit(&g->calls);
}

/* ---- calls ---- */

static mr_call *on_queue(mr_queue_fixture *g, const mr_callee *k, mr_tensor *arg)
{
    mr_value in[2] = {mr_live(mr_tensor_ref(g->handle)), mr_live(arg)};
    return mr_call_new(&g->calls, k, arg ? 2 : 1, in);
}

mr_call *mr_queue_fixture_begun(mr_call *c)
{
    mr_call_begin(c);
    return c;
}

static mr_call *new_put(mr_queue_fixture *g, const mr_callee *k, mr_tensor *v)
{
    mr_value in[3] = {mr_live(mr_tensor_ref(g->handle)), mr_live(v)};
    if (g->width == 2)
        in[2] = mr_live(mr_tensor_ref(v));
    return mr_call_new(&g->calls, k, 1 + g->width, in);
}

mr_call *mr_queue_fixture_new_enqueue(mr_queue_fixture *g, int64_t v)
{
    return new_put(g, &g->enqueue, mr_tensor_scalar_i64(v));
}

mr_call *mr_queue_fixture_new_enqueue_many(mr_queue_fixture *g, int n, const int64_t *v)
{
    return new_put(g, &g->enqueue_many, mr_tensor_vector_i64(n, v));
}

mr_call *mr_queue_fixture_new_dequeue(mr_queue_fixture *g) { return on_queue(g, &g->dequeue, NULL); }

mr_call *mr_queue_fixture_new_dequeue_many(mr_queue_fixture *g, int n, bool up_to)
{
    return on_queue(g, up_to ? &g->dequeue_up_to : &g->dequeue_many, mr_tensor_scalar_i32(n));
}

mr_call *mr_queue_fixture_new_close(mr_queue_fixture *g, bool cancel_pending)
{
    return on_queue(g, cancel_pending ? &g->cancel : &g->close, NULL);
}

mr_call *mr_queue_fixture_enqueue(mr_queue_fixture *g, int64_t v)
{
    return mr_queue_fixture_begun(mr_queue_fixture_new_enqueue(g, v));
}

mr_call *mr_queue_fixture_dequeue(mr_queue_fixture *g)
{
    return mr_queue_fixture_begun(mr_queue_fixture_new_dequeue(g));
}

mr_call *mr_queue_fixture_dequeue_many(mr_queue_fixture *g, int n)
{
    return mr_queue_fixture_begun(mr_queue_fixture_new_dequeue_many(g, n, false));
}

mr_call *mr_queue_fixture_dequeue_up_to(mr_queue_fixture *g, int n)
{
    return mr_queue_fixture_begun(mr_queue_fixture_new_dequeue_many(g, n, true));
}

mr_call *mr_queue_fixture_close(mr_queue_fixture *g, bool cancel_pending)
{
    return mr_queue_fixture_begun(mr_queue_fixture_new_close(g, cancel_pending));
}

/* ---- at once ---- */

void mr_queue_fixture_put(mr_queue_fixture *g, int64_t v)
{
    mr_call *c = mr_queue_fixture_enqueue(g, v);
    MR_CHECK(mr_call_ended(c));
    MR_CHECK_OK(mr_call_end(c, NULL));
}

mr_status *mr_queue_fixture_end(mr_queue_fixture *g, mr_call *c, mr_tensor **out)
{
    mr_tensor *t[2] = {0};
    mr_status *st = mr_call_end(c, t);
    MR_CHECK(st || g->width == 1 || mr_tensor_equal(t[0], t[1]));
    mr_tensor_unref(t[1]);
    *out = t[0];
    return st;
}

int64_t mr_queue_fixture_take(mr_queue_fixture *g)
{
    mr_tensor *t;
    mr_call *c = mr_queue_fixture_dequeue(g);
    MR_CHECK(mr_call_ended(c));
    MR_CHECK_OK(mr_queue_fixture_end(g, c, &t));
    int64_t v = *MR_DATA(int64_t, t);
    mr_tensor_unref(t);
    return v;
}

int64_t mr_queue_fixture_size(mr_queue_fixture *g)
{
    mr_tensor *t;
    MR_CHECK_OK(mr_call_end(mr_queue_fixture_begun(on_queue(g, &g->size, NULL)), &t));
    int64_t n = *MR_DATA(int32_t, t);
    mr_tensor_unref(t);
    return n;
}

void mr_queue_fixture_check_gave(const char *file, int line, mr_queue_fixture *g, mr_call *c, int n,
                       const int64_t *v)
{
    mr_tensor *t;
    if (!mr_call_ended(c))
        mr_test_fail(file, line, "still waiting");
    MR_CHECK_OK(mr_queue_fixture_end(g, c, &t));
    if (t->n != n)
        mr_test_fail(file, line, "%lld elements, expected %d", (long long)t->n, n);
    for (int i = 0; i < n; i++)
        if (MR_DATA(int64_t, t)[i] != v[i])
            mr_test_fail(file, line, "element %d is %lld, expected %lld", i,
                         (long long)MR_DATA(int64_t, t)[i], (long long)v[i]);
    mr_tensor_unref(t);
}
