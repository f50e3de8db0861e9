/* train/vote.c -- the nodes that compare and swap the chief's record, and their runs.
 *
 * A mutex op makes dequeue, comparison and enqueue atomic between processes. The queue holds one
 * record, or none after its task restarted. */
#include "train/vote.h"

#include "base/clock.h"
#include "base/memory.h"

enum { TRIES = 3 }; /* another worker may change the record between two attempts */

/* ---- nodes ---- */

static mr_out record_input(mr_nn *n, const char *name)
{
    return mr_placeholder(&n->s, MR_INT64, name, mr_pshape_of(&n->s.graph->arena, 1, (int64_t[]){2}));
}

static mr_out make_queue(mr_nn *n)
{
    int types[] = {MR_INT64, MR_INT64};
    const mr_pshape *shapes[] = {&mr_pshape_scalar, &mr_pshape_scalar};
    return mr_emit0_with(mr_as(&n->s, "queue"), "FIFOQueueV2",
                         MR_ATTRS({"component_types", mr_a_types(2, types)}, {"shapes", mr_a_shapes(2, shapes)},
                                  {"shared_name", mr_a_str("chief")}));
}

/* Element i of a vector, as a vector of one element. */
static mr_out element_of(mr_nn *n, mr_out v, int i)
{
    MR_ASSERT(i >= 0);
    return mr_emit(&n->s, "Slice", v, mr_const_vec_i32(&n->s, 1, (int32_t[]){i}), mr_const_vec_i32(&n->s, 1, (int32_t[]){1}));
}

static mr_out concat_vectors(mr_nn *n, mr_out a, mr_out b)
{
    mr_out both[] = {a, b}, axis = mr_const_i32(&n->s, 0);
    return mr_emit_lists(&n->s, "ConcatV2", NULL, 0, (mr_emit_arg[]){{2, both}, {-1, &axis}}, 2);
}

/* Takes the record out of the queue; {-1, -1} if there is none. */
static mr_out take_record(mr_nn *n, mr_out queue, mr_node *locked)
{
    int types[] = {MR_INT64, MR_INT64};
    MR_ASSERT(locked && n->s.controls.n == 0);
    mr_vec_push(&n->s.controls, locked);
    mr_out size = mr_emit(&n->s, "QueueSizeV2", queue);
    n->s.controls.n = 0;
    mr_out all = mr_emit_with(&n->s, "QueueDequeueManyV2", MR_ATTRS({"component_types", mr_a_types(2, types)}), queue, size);
    mr_out none = mr_emit(&n->s, "Fill", mr_const_vec_i32(&n->s, 1, (int32_t[]){1}), mr_const_i64(&n->s, -1));
    mr_out worker = element_of(n, concat_vectors(n, all, none), 0),
           count = element_of(n, concat_vectors(n, mr_nth(all, 1), none), 0);
    return concat_vectors(n, worker, count);
}

/* If the record equals `expect`, it becomes `want`; `found` is the record afterwards. */
static void make_all(mr_nn_vote *v, mr_nn *n)
{
    v->expect = record_input(n, "expect");
    v->want = record_input(n, "want");
    mr_out queue = make_queue(n);
    mr_out mutex = mr_emit0_with(mr_as(&n->s, "mutex"), "MutexV2", MR_ATTRS({"shared_name", mr_a_str("chief_mutex")}));
    mr_out lock = mr_emit(&n->s, "MutexLock", mutex);
    if (!mr_scope_ok(&n->s))
        return;
    mr_out was = take_record(n, queue, lock.node);
    mr_out same = mr_emit(&n->s, "All", mr_emit(&n->s, "Equal", was, v->expect), mr_const_vec_i32(&n->s, 1, (int32_t[]){0}));
    v->found = mr_emit(&n->s, "SelectV2", same, v->want, was);
    mr_out columns[] = {element_of(n, v->found, 0), element_of(n, v->found, 1)};
    mr_node *put = mr_emit_lists(&n->s, "QueueEnqueueManyV2", NULL, 0, (mr_emit_arg[]){{-1, &queue}, {2, columns}}, 2).node;
    if (!mr_scope_ok(&n->s))
        return;
    mr_vec_push(&n->s.controls, put);
    v->done = mr_emit(&n->s, "ConsumeMutexLock", lock).node;
    n->s.controls.n = 0;
}

/* On the device of the global step: a task that every worker needs anyway, so losing it stops training in any case. */
void mr_nn_vote_init(mr_nn_vote *v, mr_nn *n)
{
    const char *saved;
    *v = (mr_nn_vote){0};
    mr_out value = mr_nn_global_step(n);
    const mr_nn_var *step = mr_nn_find(n, value);
    if (!step)
        return;
    const char *before = mr_nn_at(n, step->device);
    mr_nn_enter(n, "chief", &saved);
    make_all(v, n);
    mr_nn_leave(n, saved);
    mr_nn_at(n, before);
}

/* ---- runs ---- */

static mr_tensor *record_tensor(mr_chief_record r) { return mr_tensor_vector_i64(2, (int64_t[]){r.worker, r.count}); }

/* One compare-and-swap of the record. */
static mr_status *swap_record(mr_nn_vote *v, mr_session *s, mr_chief_record expect, mr_chief_record want,
                              mr_chief_record *found)
{
    mr_out feeds[] = {v->expect, v->want};
    mr_tensor *values[] = {record_tensor(expect), record_tensor(want)}, *t = NULL;
    mr_run_args a = {.feeds = feeds, .feed_values = values, .n_feeds = 2, .fetches = &v->found, .fetched = &t, .n_fetches = 1,
                     .targets = &v->done, .n_targets = 1};
    mr_status *st = mr_session_run(s, &a, NULL, NULL);
    if (!st && (t->dtype != MR_INT64 || t->n != 2))
        st = mr_error(MR_INTERNAL, "The record of the chief is not an int64 vector of two elements");
    if (!st)
        *found = (mr_chief_record){MR_DATA(int64_t, t)[0], MR_DATA(int64_t, t)[1]};
    mr_tensor_unref(t);
    mr_tensor_unref(values[0]);
    mr_tensor_unref(values[1]);
    return st;
}

/* When dist/election.c does not want to change the record, `expect` is a value that no record has, so
 * it is only read. */
mr_status *mr_nn_vote_run(mr_nn_vote *v, mr_session *s, mr_election *e)
{
    const mr_chief_record nothing = {-2, -2};
    bool again = true;
    MR_ASSERT(v->done);
    for (int i = 0; i < TRIES && again; i++) {
        mr_chief_record expect, want, found;
        bool go = mr_election_next(e, &expect, &want);
        MR_TRY(swap_record(v, s, go ? expect : nothing, want, &found));
        again = mr_election_saw(e, found, mr_now_ns());
    }
    return NULL;
}
