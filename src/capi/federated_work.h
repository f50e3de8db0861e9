/* capi/federated_work.h -- a client's description of federated work opened: sessions and what of the graph they run. */
#ifndef MR_CAPI_FEDERATED_WORK_H
#define MR_CAPI_FEDERATED_WORK_H

#include "capi/internal.h"
#include "fed/learner.h"
#include "millrace/federated.h"

typedef struct mr_capi_work {
    TF_Graph *graph;
    mr_learner_parameter *parameters;
    int n_parameters;
    mr_out *inputs;
    TF_Session **sessions;
    mr_learner *learners; /* one per session */
    int n_learners;
    size_t n_weights;
} mr_capi_work;

/* Opens n sessions and runs what initialises them. */
mr_status *mr_capi_work_open(const mr_federated_work *w, int n, mr_capi_work *out);
void mr_capi_work_close(mr_capi_work *w);

typedef struct mr_capi_examples { /* holds on to the tensors */
    mr_learner_examples e;
    mr_tensor **values;
    int n_values;
} mr_capi_examples;
mr_status *mr_capi_examples_take(const mr_federated_examples *from, int n_inputs, mr_capi_examples *out);
void mr_capi_examples_drop(mr_capi_examples *e);

#endif
