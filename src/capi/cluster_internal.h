/* capi/cluster_internal.h -- the handles of millrace/cluster.h opened. */
#ifndef MR_CAPI_CLUSTER_INTERNAL_H
#define MR_CAPI_CLUSTER_INTERNAL_H

#include "capi/model.h"
#include "millrace/cluster.h"
#include "server/server.h"
#include "train/all_reduce.h"
#include "train/sync.h"

struct mr_cluster_task {
    mr_server_def def;
    mr_server *server;
};

struct mr_barrier {
    mr_net_sync *sync; /* or, when nobody waits for anybody: */
    mr_node *train;
    TF_Graph *graph;
};

struct mr_all_reduce {
    mr_net_reduce *reduce;
    TF_Graph *graph;
};

/* The job that holds the variables. */
const char *mr_capi_variable_job(const mr_cluster_task *t);

#endif
