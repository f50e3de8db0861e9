/* cli/ranks.c -- reads from the environment which rank of a job this process is, and where all ranks run.
 *
 * Under mpirun inside a Slurm job, the variables of both are set. mpirun started us, so its variables are read first.
 * Slurm sets SLURM_PROCID in a batch script too, which is not a rank; only `srun` also sets SLURM_STEP_ID.
 *
 * We assume that ranks fill one host after the other, as mpirun and srun do by default. Each rank checks this against
 * what it knows about its own place, because a wrong address would only show as an endless wait for a task. */
#include "cli/ranks.h"

#include "base/file.h"
#include "base/memory.h"

static const struct scheduler {
    const char *name, *rank, *size, *must; /* must: a variable that must also be set, or NULL */
    const char *local_rank, *local_size;   /* among the ranks of the host; may be unset */
    const char *how;                       /* the option that fills host after host */
} schedulers[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     "mpirun --map-by slot"},
    {"MPI", "PMI_RANK", "PMI_SIZE", NULL, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "mpirun without -ppn"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_LOCALID", NULL, "srun --distribution=block"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_LOCALID", NULL, "srun --distribution=block"},
};

static bool number_of(mr_env_fn env, const char *name, int64_t *out)
{
    const char *text = name ? env(name) : NULL;
    return text && mr_sv_to_i64(mr_sv_of(text), out);
}

static const struct scheduler *find_scheduler(mr_env_fn env)
{
    for (int i = 0; i < MR_COUNT(schedulers); i++) {
        const struct scheduler *s = &schedulers[i];
        if (env(s->rank) && env(s->size) && (!s->must || env(s->must)))
            return s;
    }
    return NULL;
}

/* ---- where ranks are ---- */

static const char *first_of(mr_env_fn env, const char *a, const char *b)
{
    const char *v = env(a);
    return v && v[0] ? v : env(b);
}

/* The host of each rank: from the command line, from Slurm, or from PBS. Leaves *out empty if none of them has a list.
 * */
static mr_status *find_hosts(mr_env_fn env, const mr_hosts *given, mr_hosts *out)
{
    const char *nodes = first_of(env, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"), *pbs = env("PBS_NODEFILE");
    for (int i = 0; i < given->places.n; i++)
        MR_TRY(mr_hosts_add(out, mr_sv_of(mr_host_address(given->places.p[i])), 1));
    if (given->places.n)
        return NULL;
    if (nodes && nodes[0]) {
        const char *counts = first_of(env, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE");
        return mr_status_prepend(mr_hosts_add_slurm(out, mr_sv_of(nodes), counts), "Slurm's list of nodes '%s': ", nodes);
    }
    return pbs && pbs[0] ? mr_hosts_add_file(out, pbs) : NULL;
}

static mr_status *all_here(mr_ranks *r)
{
    mr_hosts_deinit(&r->hosts);
    return mr_hosts_add(&r->hosts, MR_SV("127.0.0.1"), r->size);
}

static bool one_host(const mr_ranks *r)
{
    for (int i = 1; i < r->size; i++)
        if (strcmp(r->hosts.places.p[i], r->hosts.places.p[0]) != 0)
            return false;
    return true;
}

/* Checks that the local rank that the scheduler gave us agrees with our list of hosts. */
static mr_status *check_place(mr_env_fn env, const struct scheduler *s, const mr_ranks *r)
{
    int64_t local, before = 0;
    for (int i = 0; i < r->rank; i++)
        before += strcmp(r->hosts.places.p[i], r->hosts.places.p[r->rank]) == 0;
    if (!number_of(env, s->local_rank, &local) || local == before)
        return NULL;
    return mr_invalid("rank %d would be number %lld on %s, but %s says it is number %lld there: ranks must fill one host after the other "
                      "(%s)", r->rank, (long long)before, r->hosts.places.p[r->rank], s->name, (long long)local, s->how);
}

static mr_status *place_ranks(mr_env_fn env, const struct scheduler *s, const mr_hosts *given, mr_ranks *r)
{
    int64_t local = 0;
    if (!given->places.n && number_of(env, s->local_size, &local) && local == r->size)
        return all_here(r);
    MR_TRY(find_hosts(env, given, &r->hosts));
    if (!r->hosts.places.n)
        return mr_invalid("%s does not report the hosts of its ranks: give --hosts or --hostfile, as for mpirun",
                          s->name);
    if (r->hosts.places.n < r->size)
        return mr_invalid("the hosts have places for %d ranks, but there are %d ranks", r->hosts.places.n, r->size);
    return one_host(r) ? all_here(r) : check_place(env, s, r);
}

/* ---- the number of the job ---- */

/* Slurm numbers jobs, and the steps of each job. mpirun gives each run a number or a name, which we hash. */
static void find_job(mr_env_fn env, const struct scheduler *s, mr_ranks *r)
{
    static const char *const names[] = {"OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "PMI_JOBID"};
    int64_t job, step;
    if (strcmp(s->name, "Slurm") == 0) {
        r->has_job = number_of(env, "SLURM_JOB_ID", &job) && job >= 0;
        if (r->has_job)
            r->job = (uint64_t)job + (number_of(env, "SLURM_STEP_ID", &step) && step > 0 ? (uint64_t)step * 101 : 0);
        return;
    }
    for (int i = 0; i < MR_COUNT(names) && !r->has_job; i++) {
        const char *text = env(names[i]);
        r->has_job = text && text[0];
        r->job = 14695981039346656037u; /* FNV-1a */
        for (; text && *text; text++)
            r->job = (r->job ^ (unsigned char)*text) * 1099511628211u;
    }
}

mr_status *mr_ranks_read(mr_env_fn env, const mr_hosts *given, mr_ranks *out)
{
    int64_t rank, size;
    const struct scheduler *s = find_scheduler(env);
    *out = (mr_ranks){0};
    if (!s)
        return NULL;
    if (!number_of(env, s->rank, &rank) || !number_of(env, s->size, &size) || size < 1 || size > INT16_MAX || rank < 0 || rank >= size)
        return mr_invalid("%s=%s and %s=%s are not a valid rank and size", s->rank, env(s->rank), s->size,
                          env(s->size));
    *out = (mr_ranks){.scheduler = s->name, .rank = (int)rank, .size = (int)size};
    find_job(env, s, out);
    mr_status *st = place_ranks(env, s, given, out);
    if (st)
        mr_ranks_deinit(out);
    return st;
}

void mr_ranks_deinit(mr_ranks *r)
{
    mr_hosts_deinit(&r->hosts);
    *r = (mr_ranks){0};
}
