/* sim/train/run.c -- runs a job from start to end. */
#include <math.h>

#include "base/memory.h"
#include "sim/train/engine.h"

#define USUAL_PATIENCE_S 10

void mr_simtrain_job_init(mr_simtrain_job *job)
{
    *job = (mr_simtrain_job){.batch = 1, .steps = 100, .seed = 1, .n_workers = 1, .n_ps = 1, .cores = 1, .worker_cores = 1,
                             .tail_share = 1, .restart_s = 1, .open_s = 0.05, .lease_s = USUAL_PATIENCE_S,
                             .chief_s = USUAL_PATIENCE_S};
}

/* Each worker has its own random numbers, so that one more worker, or one more message of another worker, changes
 * nothing for it. */
static uint64_t seed_of(uint64_t seed, int worker)
{
    uint64_t state = seed * 0x9e3779b97f4a7c15u + (uint64_t)(worker + 1) * 0xd1342543de82ef95u;
    return mr_jobsim_random(&state);
}

static void init_workers(mr_jobsim *s)
{
    const mr_simtrain_job *j = s->job;
    for (int i = 0; i < s->n_workers; i++) {
        mr_jobsim_worker *w = &s->workers[i];
        w->random = seed_of(j->seed, i);
        w->factor = j->spread > 0 ? exp(j->spread * mr_jobsim_normal(&w->random)) : 1;
        w->up = true;
        w->loss = w->push_span = -1;
        w->phase = MR_JOBSIM_AWAY; /* until mr_jobsim_go: another worker's begin must not start it too */
        w->arrived = s->arrived_memory + (size_t)i * (size_t)j->n_chunks;
        for (int k = 0; k < 2; k++)
            w->parts[k] = s->parts_memory ? s->parts_memory + (size_t)(2 * i + k) * (size_t)j->n_chunks : NULL;
    }
    for (int i = 0; i < j->n_chunks; i++)
        s->compute_s += j->chunks[i].forward_s + j->chunks[i].backward_s;
}

/* Counts the parameter servers that hold something: every step calls them. */
static int count_holders(mr_jobsim *s)
{
    int n = 0;
    if (s->n_ps == 0)
        return 0;
    for (int i = 0; i < s->job->n_chunks; i++) {
        const mr_simtrain_chunk *c = &s->job->chunks[i];
        if (c->bytes > 0 && c->ps < 0)
            return s->n_ps;
        if (c->bytes > 0 && !s->noticed[c->ps]) /* borrowed as a set */
            n += s->noticed[c->ps] = 1;
    }
    memset(s->noticed, 0, (size_t)s->n_ps);
    return n;
}

static void init_ps(mr_jobsim *s)
{
    s->n_holders = count_holders(s);
    for (int i = 0; i < s->n_ps; i++) {
        s->ps[i].up = s->ps[i].ready = true;
        s->ps_loss[i] = -1;
    }
}

/* Allocates everything whose size depends on the job; false if memory runs out. */
static bool take_memory(mr_jobsim *s)
{
    const mr_simtrain_job *j = s->job;
    size_t n = (size_t)s->n_workers, p = (size_t)MR_MAX(s->n_ps, 1), chunks = (size_t)j->n_chunks;
    return (s->workers = mr_try_calloc(n, sizeof *s->workers)) && (s->ps = mr_try_calloc(p, sizeof *s->ps)) &&
           (s->generations = mr_try_calloc(n + p + (size_t)j->n_hosts, sizeof *s->generations)) &&
           (s->hosts = mr_try_calloc((size_t)j->n_hosts + 1, sizeof *s->hosts)) &&
           (s->arrived_memory = mr_try_calloc(n * chunks + 1, 1)) &&
           ((j->n_hosts == 0 && j->n_cuts == 0) || (s->parts_memory = mr_try_calloc(2 * n * chunks + 1, sizeof *s->parts_memory))) &&
           (s->incarnations = mr_try_calloc(n + p, sizeof *s->incarnations)) &&
           (s->ps_loss = mr_try_calloc(p, sizeof *s->ps_loss)) && (s->noticed = mr_try_calloc(n + p, 1)) &&
           (s->watched = mr_try_calloc(n + p, 1)) &&
           (s->at_warm.by_ps = mr_try_calloc(p, sizeof(double))) &&
           (j->mode != MR_SIMTRAIN_ALLREDUCE || mr_jobsim_ring_init(s)) &&
           (s->result->workers = mr_try_calloc(n, sizeof *s->result->workers));
}

static mr_status *init_run(mr_jobsim *s, const mr_simtrain_job *j, mr_simtrain_result *out)
{
    *s = (mr_jobsim){.job = j, .result = out, .random = seed_of(j->seed, -2), .n_workers = j->n_workers + j->backup,
                     .n_ps = j->mode == MR_SIMTRAIN_ALLREDUCE ? 0 : j->n_ps, .checkpoint = {NAN, 0, 0}};
    s->want = mr_jobsim_is_sync(j) ? j->steps : (int64_t)j->steps * j->n_workers;
    s->may_fail = j->n_crashes > 0 || j->n_cuts > 0 || j->worker_mtbf_s > 0 || j->ps_mtbf_s > 0;
    s->budget = 20000000 + 50 * (int64_t)mr_jobsim_messages(j);
    if (j->max_events > 0)
        s->budget = j->max_events;
    out->n_workers = s->n_workers;
    out->spans_until_s = INFINITY;
    s->n_slowest = s->n_workers;
    mr_delay_init(&s->delay, &(mr_delay_options){.bound = j->adaptive ? MR_DELAY_ADAPTIVE : j->delay_bound}, 0);
    if (!take_memory(s))
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %d workers with %d chunks", s->n_workers, j->n_chunks);
    MR_TRY(mr_jobsim_samples_init(&s->steps, s->want));
    MR_TRY(mr_jobsim_samples_init(&s->staleness, s->want));
    init_workers(s);
    mr_simtrain_watch(j, s->watched);
    if (!mr_jobsim_slow_init(s) || !mr_jobsim_cuts_init(s))
        return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for %d slow tasks and %d cuts", j->n_slow, j->n_cuts);
    init_ps(s);
    for (int i = 0; i < s->n_workers + s->n_ps; i++)
        s->incarnations[i] = 1;
    return NULL;
}

static void deinit_run(mr_jobsim *s)
{
    for (int i = 0; i < s->n_workers && s->workers; i++)
        mr_recovery_deinit(&s->workers[i].recovery);
    for (int i = 0; i < s->n_ps && s->ps; i++)
        mr_vec_deinit(&s->ps[i].queue);
    for (int i = 0; i < s->job->n_hosts && s->hosts; i++)
        mr_vec_deinit(&s->hosts[i].works);
    mr_sync_deinit(&s->sync);
    mr_delay_deinit(&s->delay);
    mr_membership_deinit(&s->members);
    mr_jobsim_ring_deinit(s);
    void *const memory[] = {s->heap, s->workers, s->ps, s->generations, s->hosts, s->arrived_memory, s->parts_memory, s->incarnations,
                            s->ps_loss, s->noticed, s->watched, s->at_warm.by_ps, s->paces, s->cuts, s->steps.p, s->staleness.p};
    for (int i = 0; i < MR_COUNT(memory); i++)
        mr_free(memory[i]);
}

/* The result is valid only if the status is NULL. */
static mr_status *run_once(const mr_simtrain_job *asked, mr_simtrain_result *out)
{
    mr_jobsim s;
    mr_simtrain_job settled = *asked, *job = &settled;
    *out = (mr_simtrain_result){0};
    settled.lease_s = asked->lease_s > 0 ? asked->lease_s : USUAL_PATIENCE_S;
    settled.chief_s = asked->chief_s > 0 ? asked->chief_s : USUAL_PATIENCE_S;
    mr_status *st = init_run(&s, job, out);
    if (!st) {
        if (job->warmup == 0)
            mr_jobsim_warm(&s);
        mr_jobsim_progress(&s);
        mr_jobsim_start_failures(&s);
        mr_jobsim_start_cuts(&s);
        for (int i = 0; i < s.n_workers; i++)
            mr_jobsim_go(&s, i);
        while (mr_jobsim_next(&s))
            ;
        st = s.st;
        if (!st && s.done < s.want)
            st = mr_error(MR_INTERNAL, "The simulated job is stuck after %.6g s", s.now_s);
    }
    if (!st)
        mr_jobsim_conclude(&s);
    deinit_run(&s);
    if (st)
        mr_simtrain_result_deinit(out);
    return st;
}

/* The time of the same job without crashes and cuts, with or without its checkpoints. */
static mr_status *run_without_failures(const mr_simtrain_job *job, bool with_checkpoints, double *out_s)
{
    mr_simtrain_job calm = *job;
    mr_simtrain_result r;
    calm.n_crashes = calm.n_cuts = 0;
    calm.worker_mtbf_s = calm.ps_mtbf_s = 0;
    if (!with_checkpoints)
        calm.n_checkpoints = 0, calm.checkpoint_s = 0;
    calm.span_steps = 0;
    MR_TRY(run_once(&calm, &r));
    *out_s = r.total_s;
    mr_simtrain_result_deinit(&r);
    return NULL;
}

mr_status *mr_simtrain_run(const mr_simtrain_job *job, mr_simtrain_result *out)
{
    *out = (mr_simtrain_result){0};
    MR_TRY(mr_simtrain_check(job));
    MR_TRY(run_once(job, out));
    bool fails = job->n_crashes > 0 || job->n_cuts > 0 || job->worker_mtbf_s > 0 || job->ps_mtbf_s > 0;
    bool saves = job->checkpoint_s > 0 || job->n_checkpoints > 0;
    out->ideal_s = out->calm_s = out->total_s;
    mr_status *st = fails || saves ? run_without_failures(job, false, &out->ideal_s) : NULL;
    if (!st && fails && saves)
        st = run_without_failures(job, true, &out->calm_s);
    else if (!st && fails)
        out->calm_s = out->ideal_s;
    if (st)
        mr_simtrain_result_deinit(out);
    return st;
}

void mr_simtrain_result_deinit(mr_simtrain_result *r)
{
    mr_free(r->workers);
    mr_vec_deinit(&r->losses);
    mr_vec_deinit(&r->spans);
    mr_vec_deinit(&r->progress);
    *r = (mr_simtrain_result){0};
}
