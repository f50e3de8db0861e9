/* capi/eager.h -- shared by the files of the eager API.
 *
 * An op is run by a session of its context, on a graph that holds one node for each op seen so far with these
 * attrs, input types and device; its inputs are placeholders that are fed.  So resources, functions, devices and
 * stateful kernels are those of a session, and an op that ran before costs one run of a known signature.  The graph
 * grows with the number of different ops, not with the number of executions. */
#ifndef MR_CAPI_EAGER_H
#define MR_CAPI_EAGER_H

#include "base/map.h"
#include "capi/internal.h"
#include "tensorflow/c/eager/c_api.h"

typedef struct mr_eager_inputs { /* placeholders of one type, by position; they serve all ops */
    MR_VEC(mr_node *) nodes;
} mr_eager_inputs;

enum { MR_EAGER_TYPES = 32 }; /* more than there are types that can be fed */

struct TFE_Context {
    TF_Graph *graph; /* its lock guards what follows */
    TF_Session *session;
    mr_map known;    /* how an op was described (TFE_Op.key): its mr_node */
    mr_eager_inputs inputs[MR_EAGER_TYPES];
    mr_str metadata;
    _Atomic bool wants_metadata;
    _Atomic int64_t n_ops; /* described so far: their nodes are named by it */
    TFE_ContextDevicePlacementPolicy policy;
    mr_device_info *devices; /* of the session */
    int n_devices;
};

struct TFE_TensorHandle {
    mr_tensor *t; /* owned */
    char *device; /* owned: handles outlive their context */
};
TFE_TensorHandle *mr_eager_handle_new(mr_tensor *t, const char *device); /* takes the reference */
/* What attrs of an op are set on; NULL after an execution. */
TF_OperationDescription *mr_eager_description(const TFE_Op *op);
/* The first of the context's devices that fits; NULL when none does.  "" is the CPU. */
const char *mr_eager_device(const TFE_Context *ctx, const char *name);

#endif
