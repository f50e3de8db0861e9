/* sim/train/run_random_test.c -- jobs made of a seed: whatever they are, they end and their accounts are in order. */
#include "base/memory.h"
#include "sim/train/train.h"
#include "tests/harness/test.h"

enum { CHUNKS = 6, SLOW = 3, CRASHES = 4, CUTS = 4, CHECKPOINTS = 3, JOBS = 300 };

typedef struct made {
    mr_simtrain_job job;
    mr_simtrain_chunk chunks[CHUNKS];
    mr_simtrain_slow slow[SLOW];
    mr_simtrain_crash crashes[CRASHES];
    mr_simtrain_cut cuts[CUTS];
    double checkpoints[CHECKPOINTS];
} made;

static uint64_t state;

static int between(int low, int high)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return low + (int)((z ^ z >> 31) % (uint64_t)(high - low + 1));
}

/* Nothing, or of very different size. */
static double some_s(double scale)
{
    static const double sizes[] = {0, 1e-5, 1e-3, 0.1, 1};
    return scale * sizes[between(0, 4)] * between(1, 9);
}

static void make_work(made *m)
{
    mr_simtrain_job *j = &m->job;
    for (int i = 0; i < CHUNKS; i++)
        m->chunks[i] = (mr_simtrain_chunk){NULL, some_s(0.01), some_s(0.01), between(0, 2) * 1e6, between(-1, MR_MAX(j->n_ps, 1) - 1)};
    j->chunks = m->chunks;
    j->n_chunks = between(0, CHUNKS);
    j->step_s = some_s(0.01), j->rpc_s = some_s(0.001), j->rpc_tail_s = some_s(0.001), j->latency_s = some_s(0.001);
    j->token_s = some_s(0.001), j->ps_message_s = some_s(0.001);
    j->ps_bytes_per_s = between(0, 2) * 1e8, j->worker_bytes_per_s = between(0, 1) * 1e8;
    j->window = between(0, 3), j->duplex = between(0, 1), j->ps_jitter = between(0, 2) / 2.0;
    j->n_hosts = between(0, 3) ? 0 : between(1, 3), j->cores = between(1, 4), j->worker_cores = between(1, 4);
}

static void make_trouble(made *m)
{
    mr_simtrain_job *j = &m->job;
    int n = j->n_workers + j->backup;
    for (int i = 0; i < SLOW; i++)
        m->slow[i] = (mr_simtrain_slow){between(0, n - 1), between(1, 50) / 10.0};
    for (int i = 0; i < CRASHES; i++) {
        mr_simtrain_kind kind = j->n_ps > 0 ? between(0, 2) : 2 * between(0, 1); /* without servers, none crashes */
        m->crashes[i] = (mr_simtrain_crash){kind, between(0, (kind == MR_SIMTRAIN_PS ? j->n_ps : n) - 1), some_s(1), between(0, 1)};
    }
    j->slow = m->slow, j->n_slow = between(0, SLOW);
    j->crashes = m->crashes, j->n_crashes = between(0, CRASHES);
    j->tail_s = some_s(0.01), j->tail_share = between(0, 4) / 4.0, j->spread = between(0, 2) * 0.3;
    j->restart_s = some_s(1), j->open_s = some_s(0.1), j->lease_s = between(0, 5), j->chief_s = between(0, 5);
    j->checkpoint_s = between(0, 5) * 0.1, j->save_s = some_s(0.1), j->restore_s = some_s(0.1);
    j->save_blocks = between(0, 1) && j->save_s < j->checkpoint_s;
}

/* Cuts, slowness and checkpoints at given times. */
static void make_timed_trouble(made *m)
{
    mr_simtrain_job *j = &m->job;
    int n = j->n_workers + j->backup;
    for (int i = 0; i < SLOW; i++) {
        m->slow[i].at_s = some_s(1), m->slow[i].for_s = some_s(1);
        if (between(0, 1) && j->n_ps > 0)
            m->slow[i].kind = MR_SIMTRAIN_PS, m->slow[i].index = between(0, j->n_ps - 1);
    }
    for (int i = 0; i < CUTS; i++)
        m->cuts[i] = (mr_simtrain_cut){between(0, n - 1), between(-1, j->n_ps - 1), some_s(1), 1e-6 + some_s(1)};
    for (int i = 0; i < CHECKPOINTS; i++)
        m->checkpoints[i] = some_s(1);
    j->cuts = m->cuts, j->n_cuts = between(0, CUTS);
    j->checkpoints = m->checkpoints, j->n_checkpoints = between(0, CHECKPOINTS);
}

static void make_job(made *m, uint64_t seed)
{
    mr_simtrain_job *j = &m->job;
    state = seed;
    mr_simtrain_job_init(j);
    j->seed = seed;
    j->n_workers = between(1, 12), j->n_ps = between(1, 5);
    j->mode = seed % 4 == 3 ? MR_SIMTRAIN_ALLREDUCE : (mr_simtrain_mode)between(MR_SIMTRAIN_ASYNC, MR_SIMTRAIN_BOUNDED);
    if (j->mode == MR_SIMTRAIN_ALLREDUCE)
        j->n_ps = 0;
    j->backup = j->mode == MR_SIMTRAIN_SYNC ? between(0, 3) : 0;
    j->delay_bound = between(0, 4);
    j->steps = between(1, 40), j->warmup = between(0, j->steps - 1), j->span_steps = between(0, 2);
    make_work(m);
    make_trouble(m);
    if (seed % 2)
        make_timed_trouble(m);
}

/* Every lost gradient has been computed again. A barrier may complete a step with more or fewer gradients than n:
 * workers expected at its start have pushed too, and dead ones have not. */
static void check_account(const mr_simtrain_job *j, const mr_simtrain_result *r)
{
    double lost = 0;
    for (int i = 0; i < r->losses.n; i++)
        lost += r->losses.p[i].lost_steps;
    if (j->mode != MR_SIMTRAIN_SYNC && j->mode != MR_SIMTRAIN_ALLREDUCE)
        MR_CHECK_NEAR((double)r->applied, (j->steps + lost) * j->n_workers, 1e-6);
    else
        MR_CHECK((double)r->applied <= (j->steps + lost) * (j->n_workers + j->backup) && (double)r->applied >= j->steps + lost);
    if (j->mode == MR_SIMTRAIN_BOUNDED)
        MR_CHECK(r->max_lead <= j->delay_bound);
}

static void check_shares(const mr_simtrain_result *r)
{
    const double shares[] = {r->ps_busy, r->ps_busiest, r->worker_busy, r->worker_nic_busy, r->chief_busy, r->core_busy};
    for (int i = 0; i < MR_COUNT(shares); i++)
        MR_CHECK(shares[i] >= -1e-9 && (shares[i] <= 1 + 1e-6 || i >= 3)); /* an interface and the chief are booked ahead */
    MR_CHECK(r->core_busy <= 1 + 1e-6);
    for (int i = 0; i < r->spans.n; i++)
        MR_CHECK(r->spans.p[i].start_s < r->spans.p[i].end_s);
}

MR_TEST(simtrain_random_jobs_end_with_their_accounts_in_order)
{
    mr_test_deadline(300);
    for (uint64_t seed = 1; seed <= JOBS; seed++) {
        made m;
        mr_simtrain_result r;
        mr_str out = {0};
        make_job(&m, seed);
        mr_status *st = mr_simtrain_run(&m.job, &r);
        if (st)
            mr_test_fail(__FILE__, __LINE__, "seed %d: %s", (int)seed, mr_status_message(st));
        check_account(&m.job, &r);
        check_shares(&r);
        mr_simtrain_print(&m.job, &r, &out);
        mr_str_deinit(&out);
        mr_simtrain_result_deinit(&r);
    }
}
