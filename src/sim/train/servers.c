/* sim/train/servers.c -- messages between a worker and the parameter servers.
 *
 * A server processes one message after the other, in the order of arrival. If it has its own host, the service time is
 * known when a message arrives, so its queue is just the time at which it will be free, and a message to all servers
 * does not need an event for each. On a shared host the time depends on the other tasks there, so real queues are
 * needed. */
#include "base/memory.h"
#include "sim/train/engine.h"

static double bytes_at(const mr_jobsim *s, int chunk)
{
    const mr_simtrain_chunk *c = &s->job->chunks[chunk];
    return c->ps < 0 ? c->bytes / s->n_ps : c->bytes;
}

/* A share `ps_jitter` of the service time is exponentially distributed. */
static double service_s(mr_jobsim *s, int worker, int chunk)
{
    const mr_simtrain_job *j = s->job;
    double mean_s = j->ps_message_s + (j->ps_bytes_per_s > 0 ? bytes_at(s, chunk) / j->ps_bytes_per_s : 0);
    if (j->ps_jitter == 0)
        return mean_s;
    return mean_s * (1 - j->ps_jitter) + mr_jobsim_exponential(&s->workers[worker].random, mean_s * j->ps_jitter);
}

static int first_ps(const mr_jobsim *s, int chunk) { return MR_MAX(s->job->chunks[chunk].ps, 0); }
static int n_servers(const mr_jobsim *s, int chunk) { return s->job->chunks[chunk].ps < 0 ? s->n_ps : 1; }

/* ---- the answer ---- */

static void answer_fetch(mr_jobsim *s, int worker, int chunk) { mr_jobsim_answered(s, worker, chunk, false); }
static void answer_push(mr_jobsim *s, int worker, int chunk) { mr_jobsim_answered(s, worker, chunk, true); }

/* Passes a message through the worker's network interface, one at a time; returns the time until it is through. */
static double pass_interface(const mr_jobsim *s, int worker, int chunk, double *free_s)
{
    double takes_s = s->job->worker_bytes_per_s > 0 ? s->job->chunks[chunk].bytes / s->job->worker_bytes_per_s : 0;
    *free_s = MR_MAX(*free_s, s->now_s) + takes_s;
    s->workers[worker].nic_s += takes_s;
    return *free_s - s->now_s;
}

static void reach_worker(mr_jobsim *s, int worker, int chunk)
{
    mr_jobsim_after(s, worker, pass_interface(s, worker, chunk, &s->workers[worker].in_free_s), answer_fetch, chunk);
}

/* What happens when the answer has arrived at the worker. The answer to a push is empty; the answer to a fetch occupies
 * the worker's interface. */
static mr_jobsim_fn *arrival_fn(const mr_jobsim *s, bool push)
{
    return push ? answer_push : s->job->worker_bytes_per_s > 0 ? reach_worker : answer_fetch;
}

static void send_answer(mr_jobsim *s, int worker, int chunk, bool push, double served_s)
{
    double later_s = served_s - s->now_s + s->job->latency_s;
    mr_jobsim_after(s, worker, later_s, arrival_fn(s, push), chunk);
}

/* ---- the answer to a worker with cuts: each server's part may arrive at another time ---- */

static void part_answered(mr_jobsim *s, int worker, int chunk, bool push)
{
    if (--s->workers[worker].parts[push][chunk] == 0)
        arrival_fn(s, push)(s, worker, chunk);
}

static void part_fetched(mr_jobsim *s, int worker, int chunk) { part_answered(s, worker, chunk, false); }
static void part_pushed(mr_jobsim *s, int worker, int chunk) { part_answered(s, worker, chunk, true); }

static void answer_part(mr_jobsim *s, int ps, int worker, int chunk, bool push, double served_s)
{
    double arrives_s = mr_jobsim_pass(s, worker, ps, served_s, s->job->latency_s);
    mr_jobsim_after(s, worker, arrives_s - s->now_s, push ? part_pushed : part_fetched, chunk);
}

/* ---- a server with its own host ---- */

static double serve_message(mr_jobsim *s, int ps, int worker, int chunk, bool push)
{
    mr_jobsim_ps *p = &s->ps[ps];
    double *free_s = &p->free_s[push && s->job->duplex];
    double start_s = MR_MAX(*free_s, s->now_s);
    double takes_s = service_s(s, worker, chunk) * mr_jobsim_pace_of(s, s->n_workers + ps, start_s);
    *free_s = start_s + takes_s;
    p->busy_s += takes_s;
    mr_jobsim_span(s, MR_SIMTRAIN_PS, ps, MR_SIMTRAIN_SERVE, chunk, (int)s->workers[worker].clock, start_s, *free_s);
    return *free_s;
}

/* ---- a server on a shared host ---- */

static void serve_next(mr_jobsim *s, int ps);

/* The answer to a worker follows when all servers have served their part of the chunk. */
static void message_served(mr_jobsim *s, int task, int arg)
{
    (void)arg;
    int ps = task - s->n_workers;
    mr_jobsim_ps *p = &s->ps[ps];
    mr_jobsim_message m = p->queue.p[p->first++];
    p->serving = false;
    p->busy_s += s->now_s - p->free_s[0];
    p->free_s[0] = 0;
    serve_next(s, ps);
    if (s->generations[m.worker] != m.generation)
        return;
    if (s->workers[m.worker].is_split) {
        answer_part(s, ps, m.worker, m.chunk, m.push, s->now_s);
        return;
    }
    uint16_t *left = &s->workers[m.worker].parts[m.push][m.chunk];
    if (--*left == 0)
        send_answer(s, m.worker, m.chunk, m.push, s->now_s);
}

static void serve_next(mr_jobsim *s, int ps)
{
    mr_jobsim_ps *p = &s->ps[ps];
    if (p->serving)
        return;
    if (p->first == p->queue.n) {
        p->first = p->queue.n = 0;
        return;
    }
    if (p->first > 1024 && p->first > p->queue.n / 2) { /* occasionally removes served messages */
        p->queue.n -= p->first;
        memmove(p->queue.p, p->queue.p + p->first, (size_t)p->queue.n * sizeof *p->queue.p);
        p->first = 0;
    }
    double takes_s = service_s(s, p->queue.p[p->first].worker, p->queue.p[p->first].chunk) *
                     mr_jobsim_pace_of(s, s->n_workers + ps, s->now_s);
    p->serving = true;
    p->free_s[0] = s->now_s; /* on a shared host: when it began to serve */
    mr_jobsim_compute(s, s->n_workers + ps, 1, takes_s, message_served, 0);
}

static void queue_message(mr_jobsim *s, int worker, int chunk, bool push)
{
    mr_jobsim_message m = {worker, chunk, s->generations[worker], push};
    s->workers[worker].parts[push][chunk] = (uint16_t)n_servers(s, chunk);
    for (int i = 0, ps = first_ps(s, chunk); i < n_servers(s, chunk); i++, ps++) {
        mr_vec_push(&s->ps[ps].queue, m);
        serve_next(s, ps);
    }
}

void mr_jobsim_ps_forget(mr_jobsim *s, int ps)
{
    mr_jobsim_ps *p = &s->ps[ps];
    s->generations[s->n_workers + ps]++;
    mr_jobsim_forget_work(s, s->n_workers + ps);
    for (int i = 0; i < 2; i++) /* booked time that will not be spent */
        p->busy_s -= MR_MAX(0, p->free_s[i] - s->now_s);
    p->queue.n = p->first = 0;
    p->serving = false;
    p->free_s[0] = p->free_s[1] = 0;
}

/* ---- requests ---- */

/* If one of the servers is down, the whole message is lost: the worker's session will be lost anyway. */
static void reach_ps(mr_jobsim *s, int worker, int chunk, bool push)
{
    int n = n_servers(s, chunk), first = first_ps(s, chunk);
    double last_s = s->now_s;
    for (int ps = first; ps < first + n; ps++)
        if (!s->ps[ps].up) /* no answer; the crash is noticed elsewhere */
            return;
    if (s->job->n_hosts > 0) {
        queue_message(s, worker, chunk, push);
        return;
    }
    for (int ps = first; ps < first + n; ps++) {
        double end_s = serve_message(s, ps, worker, chunk, push);
        last_s = MR_MAX(last_s, end_s);
    }
    send_answer(s, worker, chunk, push, last_s);
}

static void reach_to_fetch(mr_jobsim *s, int worker, int chunk) { reach_ps(s, worker, chunk, false); }
static void reach_to_push(mr_jobsim *s, int worker, int chunk) { reach_ps(s, worker, chunk, true); }

/* arg: the chunk, plus n_chunks times the parameter server. */
static void part_reaches_ps(mr_jobsim *s, int worker, int arg, bool push)
{
    int ps = arg / s->job->n_chunks, chunk = arg % s->job->n_chunks;
    mr_jobsim_message m = {worker, chunk, s->generations[worker], push};
    if (!s->ps[ps].up)
        return;
    if (s->job->n_hosts > 0) {
        mr_vec_push(&s->ps[ps].queue, m);
        serve_next(s, ps);
    } else {
        answer_part(s, ps, worker, chunk, push, serve_message(s, ps, worker, chunk, push));
    }
}

static void part_to_fetch(mr_jobsim *s, int worker, int arg) { part_reaches_ps(s, worker, arg, false); }
static void part_to_push(mr_jobsim *s, int worker, int arg) { part_reaches_ps(s, worker, arg, true); }

static void send_parts(mr_jobsim *s, int worker, int chunk, bool push, double leaves_s)
{
    int n = n_servers(s, chunk), first = first_ps(s, chunk);
    s->workers[worker].parts[push][chunk] = (uint16_t)n;
    for (int ps = first; ps < first + n; ps++) {
        double arrives_s = mr_jobsim_pass(s, worker, ps, s->now_s + leaves_s, s->job->latency_s);
        mr_jobsim_after(s, worker, arrives_s - s->now_s, push ? part_to_push : part_to_fetch, ps * s->job->n_chunks + chunk);
    }
}

void mr_jobsim_send(mr_jobsim *s, int worker, int chunk, bool push)
{
    double leaves_s = push ? pass_interface(s, worker, chunk, &s->workers[worker].out_free_s) : 0;
    if (s->workers[worker].is_split)
        send_parts(s, worker, chunk, push, leaves_s);
    else
        mr_jobsim_after(s, worker, leaves_s + s->job->latency_s, push ? reach_to_push : reach_to_fetch, chunk);
}
