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
    mr_nn_sync *sync; /* one of these three is set: workers wait for each other, */
    mr_node *train;    /* or they do not, */
    mr_all_reduce *all_reduce; /* or each holds all variables */
    TF_Graph *graph;
    bool asynchronous;
    bool open; /* its update is not set yet */
};

struct mr_all_reduce {
    mr_nn_reduce *reduce;
    TF_Graph *graph;
};

/* The longest of all times in options, about 18 years: a few of them still fit into nanoseconds. */
#define MR_CAPI_MOST_MS (INT64_MAX / 1000000 / 16)

/* As far as the means, which g has then and which have to be deinitialised; the caller holds the graph's lock.  NULL after an error,
 * which waits in the model. */
mr_all_reduce *mr_capi_all_reduce_begin(mr_model *m, TF_Output loss, const mr_all_reduce_options *a, mr_nn_gradients *g);

/* The job that holds the variables. */
const char *mr_capi_variable_job(const mr_cluster_task *t);

#endif
