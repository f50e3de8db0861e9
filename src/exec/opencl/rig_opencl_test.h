/* exec/opencl/rig_opencl_test.h -- a session with an OpenCL device, for tests. */
#ifndef MR_EXEC_OPENCL_RIG_OPENCL_TEST_H
#define MR_EXEC_OPENCL_RIG_OPENCL_TEST_H

#include "exec/opencl/opencl.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "proto/config.pb-c.h"
#include "tests/harness/test.h"

typedef struct gpu_rig {
    mr_graph *g;
    mr_scope s;
    mr_session *session; /* made by gpu_session */
    mr_session_config config;
    bool traced;     /* steps are traced: they wait for each kernel, which others do not */
    mr_str metadata; /* of the last run, when traced */
} gpu_rig;

/* Any OpenCL device, with compiled kernels kept in build/; ends the test as skipped when there is none. */
void gpu_require(void);
void gpu_begin(gpu_rig *r);
void gpu_end(gpu_rig *r);
mr_session *gpu_session(gpu_rig *r);
/* One feed (node NULL: none) and one fetch. */
mr_status *gpu_run1(gpu_rig *r, mr_out feed, mr_tensor *value, mr_out fetch, mr_tensor **out);
mr_status *gpu_run(gpu_rig *r, const mr_run_args *a);
/* All nodes of the last run, and where they ran. */
void gpu_each_node(gpu_rig *r, void (*fn)(void *ctx, const char *device, const Tensorflow__NodeExecStats *n), void *ctx);
/* The type of the device that a node of the last run stood on; "" when it was not there. */
const char *gpu_place_of(gpu_rig *r, const char *node);

#endif
