/* cli/launch_plan.h -- which tasks a launch starts, and where.
 *
 * The first of these that applies: a cluster given by options or a file (with --job, only that task of it); this rank
 * of a job that mpirun or Slurm started; the hosts of --hosts or --hostfile; TF_CONFIG; tasks on this machine. */
#ifndef MR_CLI_LAUNCH_PLAN_H
#define MR_CLI_LAUNCH_PLAN_H

#include "cli/cluster_args.h"

typedef struct mr_launch_plan_args {
    mr_cluster_args cluster;
    int64_t n_ps, n_workers; /* may be MR_NOT_GIVEN */
    int64_t port;            /* of the first task; 0: free ports on this machine, 2222 and following on other hosts */
    const char *hosts, *hostfile;
    const char *zookeeper;   /* through which tasks find each other; NULL: none */
    bool local;              /* run all tasks on this machine, whatever the environment says */
    int retries;             /* how often another process took one of the chosen ports */
} mr_launch_plan_args;

typedef struct mr_launch_plan {
    mr_cluster cluster;
    char **hosts;          /* for each task, the host to reach by ssh; NULL: here */
    int only;              /* the only task to start, because others are started elsewhere; -1: all */
    const char *scheduler; /* the one that started this process as a rank; NULL: none */
    char **launchers;      /* for a rank: the address of the launcher of each task (cli/peers.h) */
    bool chose_ports;      /* the ports were not given, so a retry may use others */
} mr_launch_plan;

mr_status *mr_launch_plan_make(const mr_launch_plan_args *a, mr_launch_plan *out);
void mr_launch_plan_deinit(mr_launch_plan *p);
/* Whether the task is task 0 of the job "chief", or of "worker" if there is no job "chief". */
bool mr_launch_plan_is_chief(const mr_launch_plan *p, int task);

#endif
