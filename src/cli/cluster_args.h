/* cli/cluster_args.h -- reads a cluster, and one task of it, from options, a JSON file or TF_CONFIG; for all commands.
 * */
#ifndef MR_CLI_CLUSTER_ARGS_H
#define MR_CLI_CLUSTER_ARGS_H

#include "cli/command.h"
#include "dist/cluster.h"

typedef struct mr_cluster_args {
    const char *ps_hosts, *worker_hosts, *cluster, *job;
    int64_t task; /* may be MR_NOT_GIVEN */
    const char *zookeeper;   /* through which tasks find each other; NULL: MILLRACE_ZOOKEEPER */
    int64_t zookeeper_ms;    /* 0: not given */
    int64_t n_ps, n_workers; /* with ZooKeeper: the numbers of tasks; may be MR_NOT_GIVEN */
} mr_cluster_args;
#define MR_CLUSTER_ARGS {.task = MR_NOT_GIVEN, .n_ps = MR_NOT_GIVEN, .n_workers = MR_NOT_GIVEN}

#define MR_CLUSTER_OPTIONS(a)                                                                                                \
    {"ps-hosts", MR_OPT_STRING, &(a).ps_hosts, "LIST", "addresses of the ps tasks: HOST:PORT,HOST:PORT"},                    \
        {"worker-hosts", MR_OPT_STRING, &(a).worker_hosts, "LIST", "addresses of the worker tasks: HOST:PORT,HOST:PORT"},    \
        {"cluster", MR_OPT_STRING, &(a).cluster, "FILE",                                                                     \
         "the cluster, and optionally the task: a JSON file in the format of TF_CONFIG, or the JSON itself"},                \
        {"job", MR_OPT_STRING, &(a).job, "NAME", "run a task of this job: ps, worker or chief"},                             \
        {"task", MR_OPT_INT, &(a).task, "N", "number of the task in its job (default 0)"},                                   \
        {"zookeeper", MR_OPT_STRING, &(a).zookeeper, "WHERE",                                                                \
         "tasks find each other through this ZooKeeper: HOST:PORT,HOST:PORT/PATH"},                                          \
        {"zookeeper-timeout", MR_OPT_INT, &(a).zookeeper_ms, "MS",                                                           \
         "how long the entry of a task that died stays in ZooKeeper, in milliseconds (default 4000)"}

/* Reads the cluster from --ps-hosts and --worker-hosts, or --cluster, or with `environment` from TF_CONFIG; or, with
 * ZooKeeper, makes one with n_ps and n_workers tasks. out->cluster is empty if nothing is given, and out->job is NULL
 * if no task is named. A task that is named is in the cluster. */
mr_status *mr_cluster_args_read(const mr_cluster_args *a, bool environment, mr_server_def *out);
/* The value of --zookeeper or MILLRACE_ZOOKEEPER, checked; *out is NULL if there is none. */
mr_status *mr_cluster_args_zookeeper(const mr_cluster_args *a, const char **out);

#endif
