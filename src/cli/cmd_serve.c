/* cli/cmd_serve.c -- `millrace serve`: one task of a cluster, until it is asked to end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "cli/command.h"
#include "server/server.h"

static const char *ps_hosts, *worker_hosts, *job, *cluster_file;
static int64_t task;

static const mr_option options[] = {
    {"ps-hosts", MR_OPT_STRING, &ps_hosts, "LIST", "host:port,host:port of the job ps"},
    {"worker-hosts", MR_OPT_STRING, &worker_hosts, "LIST", "the same of the job worker"},
    {"job", MR_OPT_STRING, &job, "NAME", "the job of this task: ps or worker"},
    {"task", MR_OPT_INT, &task, "N", "its number in the job (default 0)"},
    {"cluster", MR_OPT_STRING, &cluster_file, "JSON", "cluster and task as TF_CONFIG has them (default: TF_CONFIG itself)"},
    {0},
};

/* From flags, or from JSON. */
static mr_status *read_def(mr_server_def *d)
{
    if (!ps_hosts && !worker_hosts) {
        const char *text = cluster_file ? cluster_file : getenv("TF_CONFIG");
        if (!text)
            return mr_invalid("no cluster: give --worker-hosts and --job, or --cluster, or set TF_CONFIG");
        return mr_server_def_from_json(mr_sv_of(text), d);
    }
    *d = (mr_server_def){.job = mr_strdup(job ? job : ""), .task = (int)task};
    mr_status *st = ps_hosts ? mr_cluster_add_list(&d->cluster, MR_SV("ps"), mr_sv_of(ps_hosts)) : NULL;
    if (!st && worker_hosts)
        st = mr_cluster_add_list(&d->cluster, MR_SV("worker"), mr_sv_of(worker_hosts));
    if (!st && mr_cluster_find(&d->cluster, mr_sv_of(d->job), d->task) < 0)
        st = mr_invalid("there is no task %lld of job '%s' in the cluster", (long long)task, d->job);
    if (st)
        mr_server_def_deinit(d);
    return st;
}

static mr_status *serve(int n, char **args)
{
    (void)n, (void)args;
    mr_server_def d;
    mr_server *s = NULL;
    sigset_t mask;
    int sig;
    MR_TRY(read_def(&d));
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &mask, NULL); /* in all threads to come */
    mr_status *st = mr_server_new(&d, NULL, &s);
    if (!st)
        st = mr_server_start(s);
    if (!st) {
        fprintf(stderr, "serving /job:%s/task:%d at %s\n", d.job, d.task, mr_server_target(s));
        sigwait(&mask, &sig);
    }
    mr_server_free(s);
    mr_server_def_deinit(&d);
    return st;
}

MR_COMMAND(serve, .summary = "run one task of a cluster until it is asked to end", .options = options, .run = serve);
