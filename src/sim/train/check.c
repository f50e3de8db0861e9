/* sim/train/check.c -- checks whether a job is valid.
 *
 * Jobs come from untrusted files: every number is checked, and a job that would take too long or too much memory is
 * rejected before anything is allocated for it. */
#include <math.h>

#include "base/memory.h"
#include "sim/train/engine.h"

static mr_status *check_count(const char *name, int64_t v, int64_t low, int64_t high)
{
    if (v >= low && v <= high)
        return NULL;
    return mr_invalid("%s is %lld, expected %lld to %lld", name, (long long)v, (long long)low, (long long)high);
}

static mr_status *check_real(const char *name, double v, double low, double high)
{
    if (v >= low && v <= high) /* false for NaN */
        return NULL;
    return mr_invalid("%s is %g, expected %g to %g", name, v, low, high);
}

/* All-reduce has no parameter servers: an entry that names one is an error, not something to ignore. */
static mr_status *check_ps(const mr_simtrain_job *j, const char *name, int low, int ps)
{
    if (j->mode == MR_SIMTRAIN_ALLREDUCE && ps >= 0)
        return mr_invalid("%s is %d, but the mode allreduce has no parameter servers", name, ps);
    return check_count(name, ps, low, j->mode == MR_SIMTRAIN_ALLREDUCE ? -1 : j->n_ps - 1);
}

static mr_status *check_chunks(const mr_simtrain_job *j)
{
    MR_TRY(check_count("chunks", j->n_chunks, 0, MR_SIMTRAIN_MAX_CHUNKS));
    for (int i = 0; i < j->n_chunks; i++) {
        const mr_simtrain_chunk *c = &j->chunks[i];
        mr_status *st = check_real("forward seconds", c->forward_s, 0, MR_SIMTRAIN_MAX_SECONDS);
        if (!st)
            st = check_real("backward seconds", c->backward_s, 0, MR_SIMTRAIN_MAX_SECONDS);
        if (!st)
            st = check_real("bytes", c->bytes, 0, 1e18);
        if (!st)
            st = j->mode == MR_SIMTRAIN_ALLREDUCE ? NULL : check_count("parameter server", c->ps, -1, j->n_ps - 1);
        if (st)
            return mr_status_prepend(st, "Chunk %d: ", i);
    }
    return NULL;
}

static mr_status *check_times(const mr_simtrain_job *j)
{
    const struct {
        const char *name;
        double v;
    } times[] = {
        {"step_s", j->step_s},         {"rpc_s", j->rpc_s},           {"rpc_tail_s", j->rpc_tail_s},
        {"token_s", j->token_s},       {"ps_message_s", j->ps_message_s}, {"tail_s", j->tail_s},
        {"worker_mtbf_s", j->worker_mtbf_s}, {"ps_mtbf_s", j->ps_mtbf_s}, {"restart_s", j->restart_s},
        {"open_s", j->open_s},         {"checkpoint_s", j->checkpoint_s}, {"save_s", j->save_s},
        {"restore_s", j->restore_s},   {"latency_s", j->latency_s},
    };
    for (int i = 0; i < MR_COUNT(times); i++)
        MR_TRY(check_real(times[i].name, times[i].v, 0, MR_SIMTRAIN_MAX_SECONDS));
    if (j->checkpoint_s > 0) /* otherwise time would not advance */
        MR_TRY(check_real("checkpoint_s", j->checkpoint_s, 1e-3, MR_SIMTRAIN_MAX_SECONDS));
    if (j->save_blocks && j->checkpoint_s > 0 && j->save_s >= j->checkpoint_s) /* otherwise no step would ever begin */
        return mr_invalid("save_s is %g, expected less than checkpoint_s, %g, when saving blocks", j->save_s, j->checkpoint_s);
    if (j->lease_s != 0)
        MR_TRY(check_real("lease_s", j->lease_s, 1e-2, MR_SIMTRAIN_MAX_SECONDS));
    return j->chief_s != 0 ? check_real("chief_s", j->chief_s, 1e-2, MR_SIMTRAIN_MAX_SECONDS) : NULL;
}

static mr_status *check_rest(const mr_simtrain_job *j)
{
    MR_TRY(check_real("batch", j->batch, 0, 1e12));
    MR_TRY(check_real("ps_bytes_per_s", j->ps_bytes_per_s, 0, 1e21));
    MR_TRY(check_real("worker_bytes_per_s", j->worker_bytes_per_s, 0, 1e21));
    MR_TRY(check_real("ps_jitter", j->ps_jitter, 0, 1));
    MR_TRY(check_real("tail_share", j->tail_share, 0, 1));
    MR_TRY(check_real("spread", j->spread, 0, 10));
    MR_TRY(check_real("mtbf_silent", j->mtbf_silent, 0, 1));
    MR_TRY(check_count("window", j->window, 0, MR_SIMTRAIN_MAX_CHUNKS));
    MR_TRY(check_count("hosts", j->n_hosts, 0, MR_SIMTRAIN_MAX_TASKS));
    MR_TRY(check_count("span_steps", j->span_steps, 0, MR_SIMTRAIN_MAX_STEPS));
    if (j->n_hosts > 0) {
        MR_TRY(check_real("cores", j->cores, 1e-3, 1e6));
        MR_TRY(check_real("worker_cores", j->worker_cores, 1e-3, 1e6));
    }
    return NULL;
}

static mr_status *check_slow(const mr_simtrain_job *j)
{
    MR_TRY(check_count("slow tasks", j->n_slow, 0, MR_SIMTRAIN_MAX_TASKS));
    for (int i = 0; i < j->n_slow; i++) {
        const mr_simtrain_slow *x = &j->slow[i];
        MR_TRY(check_count("kind of slow task", x->kind, MR_SIMTRAIN_WORKER, MR_SIMTRAIN_PS));
        if (x->kind == MR_SIMTRAIN_PS)
            MR_TRY(check_ps(j, "slow parameter server", 0, x->index));
        else
            MR_TRY(check_count("slow worker", x->index, 0, j->n_workers + (int64_t)j->backup - 1));
        MR_TRY(check_real("its factor", x->factor, 1e-6, 1e6));
        MR_TRY(check_real("its at_s", x->at_s, 0, MR_SIMTRAIN_MAX_SECONDS));
        MR_TRY(check_real("its for_s", x->for_s, 0, MR_SIMTRAIN_MAX_SECONDS));
    }
    return NULL;
}

static mr_status *check_crashes(const mr_simtrain_job *j)
{
    MR_TRY(check_count("crashes", j->n_crashes, 0, MR_SIMTRAIN_MAX_CRASHES));
    for (int i = 0; i < j->n_crashes; i++) {
        const mr_simtrain_crash *c = &j->crashes[i];
        MR_TRY(check_count("kind of task that crashes", c->kind, MR_SIMTRAIN_WORKER, MR_SIMTRAIN_CHIEF));
        MR_TRY(check_real("time of a crash", c->at_s, 0, MR_SIMTRAIN_MAX_SECONDS));
        if (c->kind == MR_SIMTRAIN_PS && j->mode == MR_SIMTRAIN_ALLREDUCE)
            return check_ps(j, "parameter server that crashes", 0, MR_MAX(c->index, 0));
        if (c->kind != MR_SIMTRAIN_CHIEF)
            MR_TRY(check_count("task that crashes", c->index, 0,
                               (c->kind == MR_SIMTRAIN_PS ? j->n_ps : j->n_workers + (int64_t)j->backup) - 1));
    }
    return NULL;
}

static mr_status *check_cuts(const mr_simtrain_job *j)
{
    MR_TRY(check_count("cuts", j->n_cuts, 0, MR_SIMTRAIN_MAX_CRASHES));
    for (int i = 0; i < j->n_cuts; i++) {
        const mr_simtrain_cut *c = &j->cuts[i];
        MR_TRY(check_count("worker that is cut off", c->worker, 0, j->n_workers + (int64_t)j->backup - 1));
        MR_TRY(check_ps(j, "parameter server that is cut off", -1, c->ps));
        MR_TRY(check_real("time of a cut", c->at_s, 0, MR_SIMTRAIN_MAX_SECONDS));
        MR_TRY(check_real("duration of a cut", c->for_s, 1e-9, MR_SIMTRAIN_MAX_SECONDS));
    }
    return NULL;
}

static mr_status *check_checkpoints(const mr_simtrain_job *j)
{
    MR_TRY(check_count("checkpoints", j->n_checkpoints, 0, MR_SIMTRAIN_MAX_CRASHES));
    for (int i = 0; i < j->n_checkpoints; i++)
        MR_TRY(check_real("time of a checkpoint", j->checkpoints[i], 0, MR_SIMTRAIN_MAX_SECONDS));
    return NULL;
}

static mr_status *check_mode(const mr_simtrain_job *j)
{
    MR_TRY(check_count("mode", j->mode, MR_SIMTRAIN_ASYNC, MR_SIMTRAIN_ALLREDUCE));
    MR_TRY(check_count("backup workers", j->backup, 0, j->mode == MR_SIMTRAIN_SYNC ? MR_SIMTRAIN_MAX_TASKS : 0));
    MR_TRY(check_count("adaptive", j->adaptive, 0, j->mode == MR_SIMTRAIN_SYNC || j->mode == MR_SIMTRAIN_BOUNDED));
    return check_count("delay bound", j->delay_bound, 0, MR_SIMTRAIN_MAX_STEPS);
}

/* On shared hosts, and from workers with cuts, each server gets its own message. */
double mr_jobsim_messages(const mr_simtrain_job *j)
{
    double n = (double)j->n_workers + j->backup;
    bool servers = j->mode != MR_SIMTRAIN_ALLREDUCE;
    if (servers && j->n_hosts > 0)
        n *= j->n_ps;
    else if (servers)
        n += MR_MIN(n, j->n_cuts) * (j->n_ps - 1);
    return n * j->steps * (j->n_chunks + 1.0);
}

static mr_status *check_work(const mr_simtrain_job *j)
{
    double work = mr_jobsim_messages(j);
    if (work <= (double)MR_SIMTRAIN_MAX_WORK)
        return NULL;
    return mr_invalid("%d workers, %d steps and %d chunks are too much to simulate: take fewer steps", j->n_workers + j->backup,
                      j->steps, j->n_chunks);
}

mr_status *mr_simtrain_check(const mr_simtrain_job *j)
{
    MR_TRY(check_count("workers", j->n_workers, 1, MR_SIMTRAIN_MAX_TASKS));
    MR_TRY(check_mode(j));
    MR_TRY(check_count("parameter servers", j->n_ps, j->mode != MR_SIMTRAIN_ALLREDUCE, MR_SIMTRAIN_MAX_TASKS));
    MR_TRY(check_count("workers with backups", (int64_t)j->n_workers + j->backup, 1, MR_SIMTRAIN_MAX_TASKS));
    MR_TRY(check_count("steps", j->steps, 1, MR_SIMTRAIN_MAX_STEPS));
    MR_TRY(check_count("warmup", j->warmup, 0, j->steps - 1));
    MR_TRY(check_chunks(j));
    MR_TRY(check_times(j));
    MR_TRY(check_rest(j));
    MR_TRY(check_slow(j));
    MR_TRY(check_crashes(j));
    MR_TRY(check_cuts(j));
    MR_TRY(check_checkpoints(j));
    return check_work(j);
}
