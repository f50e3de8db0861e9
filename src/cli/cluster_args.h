/* cli/cluster_args.h -- a cluster and a task of it from flags, a JSON file, or TF_CONFIG: the same for every command. */
#ifndef MR_CLI_CLUSTER_ARGS_H
#define MR_CLI_CLUSTER_ARGS_H

#include "cli/command.h"
#include "dist/cluster.h"

typedef struct mr_cluster_args {
    const char *ps_hosts, *worker_hosts, *cluster, *job;
    int64_t task; /* may be MR_NOT_GIVEN */
} mr_cluster_args;

#define MR_CLUSTER_OPTIONS(a)                                                                                              \
    {"ps-hosts", MR_OPT_STRING, &(a).ps_hosts, "LIST", "addresses of the job ps: host:port,host:port"},                    \
        {"worker-hosts", MR_OPT_STRING, &(a).worker_hosts, "LIST", "the same of the job worker"},                          \
        {"cluster", MR_OPT_STRING, &(a).cluster, "FILE", "the cluster, and maybe the task, as JSON like TF_CONFIG (or the JSON itself)"}, \
        {"job", MR_OPT_STRING, &(a).job, "NAME", "be a task of this job: ps, worker, chief"},                              \
        {"task", MR_OPT_INT, &(a).task, "N", "its number in the job (default 0)"}

/* The flags, else --cluster, else TF_CONFIG where `environment`.  out->job is NULL when none is named, and out->cluster empty
 * when there is none.  A task that is named is in the cluster. */
mr_status *mr_cluster_args_read(const mr_cluster_args *a, bool environment, mr_server_def *out);

#endif
