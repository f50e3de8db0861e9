/* cli/launch_plan.h -- which tasks a launch starts, and where.
 *
 * In this order: a cluster that is given by flags or a file, with --job only that task of it; this rank of what mpirun or
 * Slurm started; hosts that tasks are dealt out to; TF_CONFIG; tasks on this machine. */
#ifndef MR_CLI_LAUNCH_PLAN_H
#define MR_CLI_LAUNCH_PLAN_H

#include "cli/cluster_args.h"

typedef struct mr_launch_plan_args {
    mr_cluster_args cluster;
    int64_t n_ps, n_workers; /* may be MR_NOT_GIVEN */
    int64_t port;            /* the first of those for tasks; 0: any that are free, on other hosts from 2222 on */
    const char *hosts, *hostfile;
    const char *zookeeper;   /* that tells where tasks are; NULL: none */
    bool local;              /* whatever the environment says: all tasks on this machine */
    int retries;             /* how often another process had one of the ports that were chosen */
} mr_launch_plan_args;

typedef struct mr_launch_plan {
    mr_cluster cluster;
    char **hosts;          /* for each task the host that ssh goes to; NULL: here */
    int only;              /* the one task to start: others are started elsewhere; -1: all */
    const char *scheduler; /* that started this process as a rank; NULL: none */
    char **launchers;      /* of a rank: the address of each task's launcher (cli/peers.h) */
    bool chose_ports;      /* nobody asked for these ports: others are as good */
} mr_launch_plan;

mr_status *mr_launch_plan_make(const mr_launch_plan_args *a, mr_launch_plan *out);
void mr_launch_plan_deinit(mr_launch_plan *p);
/* Worker 0, or the chief where there is such a job. */
bool mr_launch_plan_is_chief(const mr_launch_plan *p, int task);

#endif
