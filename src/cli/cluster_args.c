/* cli/cluster_args.c -- a cluster and a task of it from what a person gave. */
#include "cli/cluster_args.h"

#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"

static mr_status *from_flags(const mr_cluster_args *a, mr_server_def *d)
{
    if (a->ps_hosts && a->ps_hosts[0])
        MR_TRY(mr_status_prepend(mr_cluster_add_list(&d->cluster, MR_SV("ps"), mr_sv_of(a->ps_hosts)), "--ps-hosts: "));
    if (a->worker_hosts && a->worker_hosts[0])
        MR_TRY(mr_status_prepend(mr_cluster_add_list(&d->cluster, MR_SV("worker"), mr_sv_of(a->worker_hosts)), "--worker-hosts: "));
    return d->cluster.tasks.n ? NULL : mr_invalid("--ps-hosts and --worker-hosts are empty");
}

/* A file's name never begins with a brace. */
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

static mr_status *read_cluster(const mr_cluster_args *a, bool environment, mr_server_def *d)
{
    const char *config = environment ? getenv("TF_CONFIG") : NULL;
    if (a->ps_hosts || a->worker_hosts)
        return a->cluster ? mr_invalid("--cluster and --ps-hosts or --worker-hosts: one of them tells the cluster") : from_flags(a, d);
    if (a->cluster)
        return from_json(a->cluster, d);
    return config && config[0] ? mr_status_prepend(mr_server_def_read_json(mr_sv_of(config), d), "TF_CONFIG: ") : NULL;
}

/* Flags win over what the JSON says. */
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
        return a->task == MR_NOT_GIVEN ? NULL : mr_invalid("--task %lld: of which job? Give --job too", (long long)a->task);
    int have = mr_cluster_count(&d->cluster, mr_sv_of(d->job));
    if (d->cluster.tasks.n && mr_cluster_find(&d->cluster, mr_sv_of(d->job), d->task) < 0)
        return mr_invalid("there is no task %d of job '%s': the cluster has %d of them", d->task, d->job, have);
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
