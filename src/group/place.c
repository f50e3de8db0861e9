/* group/place.c -- reads the place of this process from TF_CONFIG, mpirun or srun.
 *
 * TF_CONFIG lists addresses, so it serves any transport. mpirun and srun only give a rank and a size: enough for MPI
 * and for shared memory, where members find each other by the name of the group. */
#include "group/place.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/memory.h"
#include "dist/cluster.h"

/* A name that resolves to this host but is not its host name counts as another host. */
bool mr_place_is_local(const char *address)
{
    char name[256] = "";
    mr_sv a = mr_sv_of(address);
    size_t n = gethostname(name, sizeof(name) - 1) == 0 ? strlen(name) : 0;
    return mr_sv_starts(a, "127.") || mr_sv_starts(a, "localhost:") || mr_sv_starts(a, "[::1]") ||
           (n && mr_sv_starts(a, name) && a.n > n && a.p[n] == ':');
}

void mr_place_deinit(mr_place *p)
{
    mr_str_deinit(&p->name);
    for (int i = 0; i < p->addresses.n; i++)
        mr_free(p->addresses.p[i]);
    mr_vec_deinit(&p->addresses);
}

/* Appends the addresses of a list; spaces around them are allowed, empty ones are not. */
mr_status *mr_place_addresses(mr_place *p, const char *list)
{
    mr_sv rest = mr_sv_of(list), one;
    while (mr_sv_cut(&rest, ',', &one)) {
        one = mr_sv_trim(one);
        if (one.n == 0)
            return mr_invalid("group: the list of addresses '%s' contains an empty one", list);
        mr_vec_push(&p->addresses, mr_strndup(one.p, one.n));
    }
    return NULL;
}

/* ---- TF_CONFIG ---- */

/* The members are the chief, if there is one, and the workers. The group's name is derived from their addresses,
 * so all members get the same. */
static mr_status *place_from_def(const mr_server_def *def, mr_place *out)
{
    static const char *const jobs[] = {"chief", "master", "worker"};
    mr_str all = {0};
    out->rank = -1;
    out->one_host = true;
    for (int j = 0; j < MR_COUNT(jobs); j++)
        for (int i = 0; i < def->cluster.tasks.n; i++) {
            const mr_task_address *t = &def->cluster.tasks.p[i];
            if (strcmp(t->job, jobs[j]) != 0)
                continue;
            if (strcmp(def->job, t->job) == 0 && def->task == t->number)
                out->rank = out->addresses.n;
            mr_vec_push(&out->addresses, mr_strdup(t->address));
            mr_str_printf(&all, "%s,", t->address);
            out->one_host &= mr_place_is_local(t->address);
        }
    out->size = out->addresses.n;
    MR_ASSERT(out->rank < out->size);
    mr_str_printf(&out->name, "workers-%016llx", (unsigned long long)mr_hash64(mr_str_z(&all), all.n));
    mr_str_deinit(&all);
    if (out->rank < 0)
        return mr_error(MR_FAILED_PRECONDITION,
                        "group: task %d of job '%s' is not a chief or worker of the cluster in TF_CONFIG", def->task,
                        def->job);
    return NULL;
}

/* The place according to the text of TF_CONFIG. */
static mr_status *place_from_config(const char *text, mr_place *out)
{
    mr_server_def def = {0};
    mr_status *st = mr_server_def_from_json(mr_sv_of(text), &def);
    st = st ? mr_status_prepend(st, "group: TF_CONFIG: ") : place_from_def(&def, out);
    mr_server_def_deinit(&def);
    return st;
}

/* ---- ranks ---- */

typedef struct launcher {
    const char *rank, *size, *local_size, *job;
} launcher;
static const launcher launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_ID"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", NULL, "SLURM_JOB_ID"},
};

/* The value of an environment variable; false: the name is NULL, the variable is not set, or not a number. */
static bool read_number(const char *name, int64_t *out)
{
    const char *text = name ? getenv(name) : NULL;
    return text && mr_sv_to_i64(mr_sv_of(text), out);
}

/* Names the group after the job, so that two jobs of one user do not join the same group. */
static void name_after(const launcher *l, mr_place *out)
{
    const char *job = getenv(l->job);
    if (job)
        mr_str_printf(&out->name, "job-%016llx", (unsigned long long)mr_hash64(job, strlen(job)));
}

/* TF_CONFIG wins; then the launchers are tried in their order in the table. */
mr_status *mr_place_find(mr_place *out)
{
    const char *config = getenv("TF_CONFIG");
    *out = (mr_place){.rank = -1};
    if (config && config[0])
        return place_from_config(config, out);
    for (int i = 0; i < MR_COUNT(launchers); i++) {
        const launcher *l = &launchers[i];
        int64_t rank, size, here;
        if (!read_number(l->rank, &rank) || !read_number(l->size, &size))
            continue;
        if (size < 1 || size > INT32_MAX || rank < 0 || rank >= size)
            return mr_invalid("group: %s and %s give rank %lld of %lld, which is not possible", l->rank, l->size,
                              (long long)rank, (long long)size);
        out->rank = (int)rank;
        out->size = (int)size;
        out->one_host = read_number(l->local_size, &here) && here == size;
        name_after(l, out);
        return NULL;
    }
    return mr_error(MR_FAILED_PRECONDITION,
                    "group: set size and rank, or start the processes with `millrace launch`, mpirun or srun, "
                    "or set TF_CONFIG");
}
