/* server/collective_halving.c -- all-reduce by recursive halving and doubling, among any number of
 * members.
 *
 * Each chunk is a separate flow, which follows the steps of group/schedule.h: a step merges what
 * another member has with what is here, or takes over a result. A member asks for everything that the
 * steps of a flow will bring as soon as the flow begins. Data that arrives before its turn is kept, so
 * a hop takes the time of one message, not of a request and an answer.
 *
 * With four members, a chunk is reduced in four steps: members exchange halves with the one two ranks away
 * and add them, then quarters with their neighbour; each then has one quarter of the result, and the same
 * steps backwards collect the others. If the number of members is not a power of two, there is one step
 * before and one after these.
 *
 * One thread at a time works on a flow: the one that has set `busy` under the lock. It stops when a
 * step's data is missing, and the thread that brings the data continues. A step may overwrite data that was
 * offered before, because it has been read by then: a result comes from the member to which the values
 * went that it was computed from. */
#include "base/memory.h"
#include "ops/collective/combine.h"
#include "server/collective_moves.h"

enum { MAX_STEPS = 64 }; /* two for each doubling of the members, and two more; bits of mr_xflow.there */
_Static_assert(MR_GROUP_MAX_SIZE < 1 << 30, "a schedule has more steps than a flow");

/* The reduction of one chunk. */
typedef struct mr_xflow {
    mr_task task; /* first */
    mr_exchange *x; /* NULL: the end of the array */
    int64_t chunk, at; /* its place in the tensor, of all steps too */
    mr_group_steps steps;
    mr_bytes came[MAX_STEPS]; /* by step, until it is used */
    /* Of the thread that is busy: */
    int next;    /* step */
    bool begun;  /* what that step sends is offered */
    bool merged; /* the current numbers are in the output; before that, in the input */
    /* Under the lock: */
    uint64_t there; /* a bit for each step whose data has arrived */
    bool busy;
} mr_xflow;

/* Drops the data that arrived and was not used. The exchange has ended, so no flow is busy. */
void mr_x_forget_flows(mr_exchange *x)
{
    for (mr_xflow *f = x->flows; f && f->x; f++) {
        for (int i = 0; i < f->steps.n; i++)
            mr_bytes_deinit(&f->came[i]);
        mr_vec_deinit(&f->steps);
    }
    mr_free(x->flows);
    x->flows = NULL;
}

/* The name of what a step sends or receives. Members agree on names by order alone: the phase counts
 * the messages that went from the one member to the other before. */
static mr_xname name_of(const mr_xflow *f, int step, bool sent)
{
    const mr_group_step *s = f->steps.p;
    mr_xname name = {0, sent ? s[step].to : f->x->rank, f->chunk};
    for (int i = 0; i < step; i++)
        name.phase += sent ? s[i].to == s[step].to : s[i].from == s[step].from;
    return name;
}

static bool step_receives(const mr_group_step *s) { return s->from >= 0 && s->recv_n > 0; }

/* The size of what a step receives. */
static int64_t bytes_of(const mr_xflow *f, const mr_group_step *s) { return s->recv_n * mr_x_size(f->x); }

/* ---- one step ---- */

/* Before the first merge the values are the input's; afterwards the output has them. */
static const mr_tensor *numbers_of(const mr_xflow *f) { return f->merged ? f->x->out : f->x->call.in; }

/* Offers what the current step sends. */
static void offer_step(mr_xflow *f)
{
    MR_ASSERT(f->next < f->steps.n && !f->begun);
    const mr_group_step *s = &f->steps.p[f->next];
    if (s->to >= 0 && s->send_n > 0)
        mr_x_offer(f->x, name_of(f, f->next, true), numbers_of(f), f->at + s->send_at, s->send_n, 1);
}

/* Whether the current step is the last one that merges; then the mean is computed. */
static bool merges_last(const mr_xflow *f)
{
    return f->next + 1 == f->steps.n || !f->steps.p[f->next + 1].merge;
}

/* Merges what arrived into the output. */
static mr_status *merge_step(mr_xflow *f, const mr_group_step *s)
{
    mr_exchange *x = f->x;
    mr_tensor *tmp = NULL;
    const void *v;
    void *to = mr_x_at(x->out, f->at + s->recv_at);
    mr_status *st = mr_x_numbers(x, s->recv_n, &f->came[f->next], &tmp, &v);
    if (!st)
        x->how->merge[x->call.merge](to, v, mr_x_at(numbers_of(f), f->at + s->recv_at), s->recv_n);
    if (!st && merges_last(f) && x->call.mean)
        x->how->divide(to, s->recv_n, x->group->n);
    mr_tensor_unref(tmp);
    return st;
}

/* Uses the data of the current step, which has arrived. */
static mr_status *take_step(mr_xflow *f)
{
    const mr_group_step *s = &f->steps.p[f->next];
    MR_ASSERT(f->next < f->steps.n && f->begun);
    mr_status *st = NULL;
    if (step_receives(s))
        st = s->merge ? merge_step(f, s) : mr_x_put(f->x, f->at + s->recv_at, bytes_of(f, s), &f->came[f->next]);
    f->merged |= s->merge; /* also if the step merges nothing: then nothing is left to merge here */
    mr_bytes_deinit(&f->came[f->next]);
    return st;
}

/* ---- the steps in order ---- */

/* Whether the current step's data has arrived. False: the flow now belongs to the thread that brings the data,
 * and must not be touched. */
static bool may_take(mr_xflow *f)
{
    mr_collectives *c = f->x->all;
    if (!step_receives(&f->steps.p[f->next]))
        return true;
    mr_lock(&c->mu);
    bool there = f->there >> f->next & 1;
    f->busy = there;
    mr_unlock(&c->mu);
    return there;
}

/* Works on the flow until data is missing or the flow is done. A finished flow stays busy, so nobody
 * starts it again. */
static mr_status *advance_flow(mr_xflow *f)
{
    while (f->next < f->steps.n) {
        if (!f->begun)
            offer_step(f);
        f->begun = true;
        if (!may_take(f))
            return NULL;
        MR_TRY(take_step(f));
        f->next++;
        f->begun = false;
    }
    return NULL;
}

/* Continues a flow; the exchange waits for it (mr_x_merge_soon). */
static void run_flow(mr_task *t)
{
    mr_exchange *x = mr_exchange_ref(((mr_xflow *)t)->x);
    mr_status *st = advance_flow((mr_xflow *)t);
    if (st)
        mr_exchange_fail(x, st, true);
    mr_exchange_less(x, 1);
    mr_exchange_unref(x);
}

/* The data of step q->at has arrived. If the flow waits for it, this thread takes the flow over. */
static void keep_reply(mr_xrequest *q, mr_bytes *reply)
{
    mr_xflow *f = q->ctx;
    mr_collectives *c = q->x->all;
    int step = (int)q->at;
    MR_ASSERT(step >= 0 && step < f->steps.n);
    mr_bytes_append(&f->came[step], reply);
    mr_lock(&c->mu);
    f->there |= UINT64_C(1) << step;
    bool ours = !f->busy && f->next == step;
    f->busy |= ours;
    mr_unlock(&c->mu);
    if (ours)
        mr_x_merge_soon(q->x, q->bytes, &f->task);
}

/* ---- the beginning ---- */

/* Begins the flow of a chunk: asks for the data of all its steps, then goes as far as it can. */
static mr_status *begin_flow(mr_exchange *x, mr_xflow *f, int64_t chunk)
{
    int64_t at = chunk * mr_x_chunk(x);
    *f = (mr_xflow){.task.fn = run_flow, .x = x, .chunk = chunk, .at = at, .busy = true};
    int64_t n = MR_MIN(mr_x_chunk(x), x->call.in->n - at);
    mr_schedule_all_reduce(MR_GROUP_HALVING, x->group->n, x->rank, n, &f->steps);
    MR_ASSERT(f->steps.n <= MAX_STEPS);
    /* busy is set, so replies that arrive meanwhile are only kept; advance_flow uses them in order. */
    for (int i = 0; i < f->steps.n; i++)
        if (step_receives(&f->steps.p[i]))
            mr_x_fetch(x, f->steps.p[i].from, name_of(f, i, false), bytes_of(f, &f->steps.p[i]), keep_reply, f, i);
    return advance_flow(f);
}

/* The array of flows ends with one that has no exchange. */
mr_status *mr_x_reduce_by_halving(mr_exchange *x)
{
    int64_t n = mr_x_chunks(x, x->call.in->n);
    x->flows = mr_try_calloc((size_t)n + 1, sizeof *x->flows);
    if (!x->flows)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for the flows of a reduction");
    for (int64_t i = 0; i < n; i++)
        MR_TRY(begin_flow(x, &x->flows[i], i));
    return NULL;
}
