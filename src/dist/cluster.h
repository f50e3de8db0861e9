/* dist/cluster.h -- what a cluster consists of: jobs, their tasks, and the address of each.
 *
 * A spec comes from flags ("ps" and "host:port,host:port"), from a ClusterDef or ServerDef message, or from JSON as
 * TF_CONFIG has it.  Tasks are sorted by job and number; their names are prefixes of device names:
 * "/job:ps/replica:0/task:1". */
#ifndef MR_DIST_CLUSTER_H
#define MR_DIST_CLUSTER_H

#include "base/str.h"
#include "base/vec.h"

typedef struct mr_task_address {
    char *job, *address; /* "host:port" */
    char *name;          /* "/job:worker/replica:0/task:3" */
    int number;
} mr_task_address;

/* Placeholder for the address of a task that a naming service knows (net/naming.h); port 0 is no valid address.  In
 * specs it is also written "zk". */
#define MR_ADDRESS_ASKED "zk:0"

typedef struct mr_cluster {
    MR_VEC(mr_task_address) tasks; /* by job, then number */
} mr_cluster;

void mr_cluster_deinit(mr_cluster *c);
/* INVALID_ARGUMENT for a bad job name, number or address, or for a task that exists already. */
mr_status *mr_cluster_add(mr_cluster *c, mr_sv job, int number, mr_sv address);
/* list is "host:port,host:port": tasks 0, 1, .. of a job. */
mr_status *mr_cluster_add_list(mr_cluster *c, mr_sv job, mr_sv list);
mr_status *mr_cluster_copy(const mr_cluster *c, mr_cluster *out);

/* The index of a task; -1: there is none. */
int mr_cluster_find(const mr_cluster *c, mr_sv job, int number);
/* The same by the name of a device or task. */
int mr_cluster_find_named(const mr_cluster *c, mr_sv device);
int mr_cluster_count(const mr_cluster *c, mr_sv job);

/* A ClusterDef message, and back. */
mr_status *mr_cluster_decode(mr_cluster *c, mr_sv cluster_def);
void mr_cluster_encode(const mr_cluster *c, mr_str *out);

/* What a ServerDef says about a task. */
typedef struct mr_server_def {
    mr_cluster cluster;
    char *job;
    int task;
    mr_str config; /* serialized ConfigProto of its sessions, or empty */
    int port;      /* 0: that of the task's address */
} mr_server_def;
mr_status *mr_server_def_decode(mr_sv server_def, mr_server_def *out);
/* From the text of TF_CONFIG, which must name a task. */
mr_status *mr_server_def_from_json(mr_sv tf_config, mr_server_def *out);
/* The same, but the text need not name a task; then job is NULL. */
mr_status *mr_server_def_read_json(mr_sv text, mr_server_def *out);
/* The text of TF_CONFIG for a task. */
void mr_server_def_to_json(const mr_cluster *c, const char *job, int number, mr_str *out);
void mr_server_def_deinit(mr_server_def *d);

#endif
