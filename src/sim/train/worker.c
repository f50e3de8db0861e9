/* sim/train/worker.c -- one step of a worker: call, fetch, forward, backward, push.
 *
 * A step begins with one call to each parameter server that it needs, like RunGraph, and continues when the last one
 * has answered. Chunks are requested in their order, `window` ahead of the one that computes. A chunk computes forward
 * when its parameters have arrived and the chunk before it is done; then all compute backward, and the gradients of
 * each are sent while the next computes. The step ends when the last push is answered. */
#include "base/memory.h"
#include "sim/train/engine.h"

enum { HELD = 1 }; /* resumes after a checkpoint */

static void own_span(mr_jobsim *s, int worker, mr_simtrain_doing doing, int chunk, double start_s)
{
    mr_jobsim_span(s, MR_SIMTRAIN_WORKER, worker, doing, chunk, (int)s->workers[worker].clock, start_s, s->now_s);
}

/* Time since its last change of activity, without the time before the end of the warm-up. */
static double spent_s(const mr_jobsim *s, const mr_jobsim_worker *w)
{
    return s->now_s - MR_MAX(w->free_s, s->warm_s);
}

static void ask_more(mr_jobsim *s, int worker)
{
    const mr_simtrain_job *j = s->job;
    mr_jobsim_worker *w = &s->workers[worker];
    while (w->asked < j->n_chunks && (j->window == 0 || w->asked <= w->at + j->window)) {
        int chunk = w->asked++;
        if (j->chunks[chunk].bytes > 0 && j->mode != MR_SIMTRAIN_ALLREDUCE)
            mr_jobsim_send(s, worker, chunk, false);
        else
            w->arrived[chunk] = true;
    }
}

/* ---- backward ---- */

static void finish_if_done(mr_jobsim *s, int worker)
{
    mr_jobsim_worker *w = &s->workers[worker];
    if (!w->computed || w->open > 0)
        return;
    if (s->job->mode == MR_SIMTRAIN_ALLREDUCE) { /* its step ends with those of the others */
        mr_jobsim_ring_computed(s, worker);
        return;
    }
    int n_spans = s->result->spans.n;
    own_span(s, worker, MR_SIMTRAIN_PUSH, -1, w->free_s);
    w->push_span = s->result->spans.n > n_spans ? n_spans : -1;
    w->sum.push_s += spent_s(s, w);
    w->free_s = s->now_s;
    w->phase = MR_JOBSIM_IDLE;
    w->sum.steps++;
    w->clock++;
    mr_jobsim_finished(s, worker);
}

/* How many times slower than usual the worker computes what begins now. */
static double scale_now(const mr_jobsim *s, int worker)
{
    const mr_jobsim_worker *w = &s->workers[worker];
    return w->factor * mr_jobsim_pace_of(s, worker, s->now_s) + w->tail;
}

static void backward_done(mr_jobsim *s, int worker, int chunk);

static void start_backward(mr_jobsim *s, int worker, int chunk)
{
    mr_jobsim_worker *w = &s->workers[worker];
    w->free_s = s->now_s;
    mr_jobsim_compute(s, worker, s->job->worker_cores, s->job->chunks[chunk].backward_s * scale_now(s, worker), backward_done, chunk);
}

/* The gradients of a chunk are pushed while the next chunk computes. */
static void backward_done(mr_jobsim *s, int worker, int chunk)
{
    mr_jobsim_worker *w = &s->workers[worker];
    own_span(s, worker, MR_SIMTRAIN_BACKWARD, chunk, w->free_s);
    w->sum.busy_s += spent_s(s, w);
    w->free_s = s->now_s;
    bool reduce = s->job->chunks[chunk].bytes > 0 && s->job->mode == MR_SIMTRAIN_ALLREDUCE;
    if (s->job->chunks[chunk].bytes > 0 && !reduce) {
        w->open++;
        mr_jobsim_send(s, worker, chunk, true);
    }
    if (chunk > 0)
        start_backward(s, worker, chunk - 1);
    if (reduce)
        mr_jobsim_ring_ready(s, worker, chunk);
    if (chunk == 0) {
        w->computed = true;
        finish_if_done(s, worker);
    }
}

/* ---- forward ---- */

static void forward_done(mr_jobsim *s, int worker, int chunk);

static void forward_if_there(mr_jobsim *s, int worker)
{
    mr_jobsim_worker *w = &s->workers[worker];
    if (w->computing || w->at == s->job->n_chunks || !w->arrived[w->at])
        return;
    own_span(s, worker, MR_SIMTRAIN_FETCH, w->at, w->free_s);
    w->sum.fetch_s += spent_s(s, w);
    w->free_s = s->now_s;
    w->computing = true;
    mr_jobsim_compute(s, worker, s->job->worker_cores, s->job->chunks[w->at].forward_s * scale_now(s, worker), forward_done, w->at);
}

static void forward_done(mr_jobsim *s, int worker, int chunk)
{
    mr_jobsim_worker *w = &s->workers[worker];
    own_span(s, worker, MR_SIMTRAIN_FORWARD, chunk, w->free_s);
    w->sum.busy_s += spent_s(s, w);
    w->free_s = s->now_s;
    w->computing = false;
    w->at = chunk + 1;
    ask_more(s, worker);
    if (w->at == s->job->n_chunks)
        start_backward(s, worker, chunk);
    else
        forward_if_there(s, worker);
}

void mr_jobsim_answered(mr_jobsim *s, int worker, int chunk, bool push)
{
    mr_jobsim_worker *w = &s->workers[worker];
    if (push) {
        w->open--;
        finish_if_done(s, worker);
    } else {
        w->arrived[chunk] = true;
        forward_if_there(s, worker);
    }
}

/* ---- begin and end ---- */

/* A slow step is slow in everything it computes; without any compute, it only begins late. */
static double draw_tail(mr_jobsim *s, mr_jobsim_worker *w)
{
    const mr_simtrain_job *j = s->job;
    double tail_s = mr_jobsim_exponential(&w->random, j->tail_s);
    if (j->tail_share < 1 && mr_jobsim_uniform(&w->random) > j->tail_share)
        tail_s = 0;
    w->tail = s->compute_s > 0 ? tail_s / s->compute_s : 0;
    return s->compute_s > 0 ? 0 : tail_s;
}

static void start_step(mr_jobsim *s, int worker, int arg)
{
    (void)arg;
    mr_jobsim_worker *w = &s->workers[worker];
    own_span(s, worker, MR_SIMTRAIN_CALL, -1, w->free_s);
    w->sum.call_s += spent_s(s, w);
    w->free_s = s->now_s;
    w->version = s->version;
    ask_more(s, worker);
    if (s->job->n_chunks > 0) {
        forward_if_there(s, worker);
    } else {
        w->computed = true;
        finish_if_done(s, worker);
    }
}

/* If checkpoints block training, the step begins when the current one is written. */
void mr_jobsim_begin(mr_jobsim *s, int worker, int arg)
{
    mr_jobsim_worker *w = &s->workers[worker];
    MR_ASSERT(w->phase == MR_JOBSIM_IDLE || arg == HELD);
    w->phase = MR_JOBSIM_STEP;
    if (s->is_saving && s->job->save_blocks) {
        mr_jobsim_after(s, worker, s->saving.at_s - s->now_s, mr_jobsim_begin, HELD);
        return;
    }
    own_span(s, worker, MR_SIMTRAIN_WAIT, -1, w->free_s);
    w->sum.wait_s += spent_s(s, w);
    if (w->began && s->warm && !mr_jobsim_is_sync(s->job))
        mr_jobsim_sample(&s->steps, s->now_s - w->began_s);
    if (!mr_jobsim_is_sync(s->job))
        s->result->max_lead = (int)MR_MAX(s->result->max_lead, w->clock - s->slowest);
    w->began = true;
    w->began_s = w->free_s = s->now_s;
    w->asked = w->at = w->open = 0;
    w->computing = w->computed = false;
    if (s->job->n_chunks)
        memset(w->arrived, 0, (size_t)s->job->n_chunks);
    double call_s = s->job->mode == MR_SIMTRAIN_ALLREDUCE ? 0 : s->job->rpc_s + mr_jobsim_longest(&w->random, s->job->rpc_tail_s, s->n_holders);
    double later_s = s->job->step_s + draw_tail(s, w) + call_s;
    if (w->is_split && s->job->mode != MR_SIMTRAIN_ALLREDUCE)
        later_s = mr_jobsim_pass(s, worker, MR_JOBSIM_ALL_PS, s->now_s + later_s - call_s, call_s) - s->now_s;
    mr_jobsim_after(s, worker, later_s, start_step, 0);
}

void mr_jobsim_stop(mr_jobsim *s, int worker)
{
    mr_jobsim_worker *w = &s->workers[worker];
    s->generations[worker]++;
    mr_jobsim_forget_work(s, worker);
    w->phase = MR_JOBSIM_AWAY;
    w->began = false;
    w->free_s = s->now_s;
    w->in_free_s = w->out_free_s = 0;
    w->stamp = w->token = w->gave = 0;
}
