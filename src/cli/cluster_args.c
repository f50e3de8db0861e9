/* cli/cluster_args.c -- reads the cluster, and one task of it, from options, JSON or TF_CONFIG. */
#include "cli/cluster_args.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "net/naming.h"

enum { MAX_TASKS = 100000 };

static mr_status *from_flags(const mr_cluster_args *a, mr_server_def *d)
{
    if (a->ps_hosts && a->ps_hosts[0])
        MR_TRY(mr_status_prepend(mr_cluster_add_list(&d->cluster, MR_SV("ps"), mr_sv_of(a->ps_hosts)), "--ps-hosts: "));
    if (a->worker_hosts && a->worker_hosts[0])
        MR_TRY(mr_status_prepend(mr_cluster_add_list(&d->cluster, MR_SV("worker"), mr_sv_of(a->worker_hosts)), "--worker-hosts: "));
    return d->cluster.tasks.n ? NULL : mr_invalid("--ps-hosts and --worker-hosts are empty");
}

/* `given` is JSON if it starts with a brace, otherwise the name of a file. */
static mr_status *from_json(const char *given, mr_server_def *d)
{
    mr_str text = {0};
    if (given[0] == '{')
        return mr_status_prepend(mr_server_def_read_json(mr_sv_of(given), d), "--cluster: ");
    mr_status *st = mr_file_read_all(given, &text);
    if (!st)
        st = mr_status_prepend(mr_server_def_read_json(mr_str_view(&text), d), "%s: ", given);
    mr_str_deinit(&text);
    return st;
}

/* Tasks without addresses; ZooKeeper will provide them. */
static mr_status *from_counts(const mr_cluster_args *a, mr_server_def *d)
{
    int64_t ps = a->n_ps == MR_NOT_GIVEN ? 1 : a->n_ps, workers = a->n_workers == MR_NOT_GIVEN ? 1 : a->n_workers;
    if (ps < 0 || workers < 0 || ps > MAX_TASKS || workers > MAX_TASKS - ps || ps + workers == 0)
        return mr_invalid("--ps %lld --workers %lld: a cluster has 1 to %d tasks", (long long)ps, (long long)workers,
                          MAX_TASKS);
    for (int i = 0; i < ps; i++)
        MR_TRY(mr_cluster_add(&d->cluster, MR_SV("ps"), i, MR_SV(MR_ADDRESS_ASKED)));
    for (int i = 0; i < workers; i++)
        MR_TRY(mr_cluster_add(&d->cluster, MR_SV("worker"), i, MR_SV(MR_ADDRESS_ASKED)));
    return NULL;
}

/* Reads the cluster from the first source that is given; leaves it empty if there is none. */
static mr_status *read_cluster(const mr_cluster_args *a, bool environment, mr_server_def *d)
{
    const char *config = environment ? getenv("TF_CONFIG") : NULL, *zookeeper;
    bool counted = a->n_ps != MR_NOT_GIVEN || a->n_workers != MR_NOT_GIVEN;
    MR_TRY(mr_cluster_args_zookeeper(a, &zookeeper));
    if (counted && (a->ps_hosts || a->worker_hosts || a->cluster))
        return mr_invalid("do not give --ps or --workers with --ps-hosts, --worker-hosts or --cluster");
    if (counted && !zookeeper)
        return mr_invalid(
            "--ps and --workers give no addresses: give --zookeeper too, or --ps-hosts and --worker-hosts");
    if (counted)
        return from_counts(a, d);
    if (a->ps_hosts || a->worker_hosts)
        return a->cluster ? mr_invalid("give either --cluster or --ps-hosts and --worker-hosts, not both")
                          : from_flags(a, d);
    if (a->cluster)
        return from_json(a->cluster, d);
    return config && config[0] ? mr_status_prepend(mr_server_def_read_json(mr_sv_of(config), d), "TF_CONFIG: ") : NULL;
}

mr_status *mr_cluster_args_zookeeper(const mr_cluster_args *a, const char **out)
{
    mr_naming_spec spec;
    const char *variable = getenv("MILLRACE_ZOOKEEPER"), *where = a->zookeeper ? a->zookeeper : variable;
    *out = where && where[0] ? where : NULL;
    if (a->zookeeper_ms < 0)
        return mr_invalid("--zookeeper-timeout %lld: it must not be negative", (long long)a->zookeeper_ms);
    if (!*out)
        return NULL;
    MR_TRY(mr_status_prepend(mr_naming_spec_parse(where, &spec), a->zookeeper ? "--zookeeper: " : "MILLRACE_ZOOKEEPER: "));
    mr_naming_spec_deinit(&spec);
    return NULL;
}

/* Reads the task; --job and --task override the JSON. A task that is named must be in the cluster. */
static mr_status *read_task(const mr_cluster_args *a, mr_server_def *d)
{
    if (a->job) {
        mr_free(d->job);
        d->job = mr_strdup(a->job);
        d->task = 0;
    }
    if (a->task != MR_NOT_GIVEN && (a->task < 0 || a->task > INT32_MAX))
        return mr_invalid("--task %lld: tasks are numbered from 0", (long long)a->task);
    if (a->task != MR_NOT_GIVEN)
        d->task = (int)a->task;
    if (!d->job)
        return a->task == MR_NOT_GIVEN ? NULL : mr_invalid("--task %lld needs --job", (long long)a->task);
    int have = mr_cluster_count(&d->cluster, mr_sv_of(d->job));
    if (d->cluster.tasks.n && mr_cluster_find(&d->cluster, mr_sv_of(d->job), d->task) < 0)
        return mr_invalid("there is no task %d of job '%s': the cluster has %d tasks of that job", d->task, d->job,
                          have);
    return NULL;
}

mr_status *mr_cluster_args_read(const mr_cluster_args *a, bool environment, mr_server_def *out)
{
    *out = (mr_server_def){0};
    mr_status *st = read_cluster(a, environment, out);
    if (!st)
        st = read_task(a, out);
    if (st)
        mr_server_def_deinit(out);
    return st;
}
