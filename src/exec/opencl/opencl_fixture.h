/* exec/opencl/opencl_fixture.h -- a session with an OpenCL device, for tests. */
#ifndef MR_EXEC_OPENCL_OPENCL_FIXTURE_H
#define MR_EXEC_OPENCL_OPENCL_FIXTURE_H

#include "exec/opencl/opencl.h"
#include "exec/session.h"
#include "graph/scope.h"
#include "proto/config.pb-c.h"
#include "tests/harness/test.h"

typedef struct gpu_fixture {
    mr_graph *g;
    mr_scope s;
    mr_session *session; /* made by gpu_session */
    mr_session_config config;
    bool traced;     /* steps are traced: they wait for each kernel, which others do not */
    mr_str metadata; /* of the last run, when traced */
} gpu_fixture;

/* Any OpenCL device, with compiled kernels kept in build/; ends the test as skipped when there is none. */
void gpu_require(void);
void gpu_begin(gpu_fixture *r);
void gpu_end(gpu_fixture *r);
mr_session *gpu_session(gpu_fixture *r);
/* One feed (node NULL: none) and one fetch. */
mr_status *gpu_run1(gpu_fixture *r, mr_out feed, mr_tensor *value, mr_out fetch, mr_tensor **out);
mr_status *gpu_run(gpu_fixture *r, const mr_run_args *a);
/* All nodes of the last run, and where they ran. */
void gpu_each_node(gpu_fixture *r, void (*fn)(void *ctx, const char *device, const Tensorflow__NodeExecStats *n), void *ctx);
/* The type of the device that a node of the last run stood on; "" when it was not there. */
const char *gpu_place_of(gpu_fixture *r, const char *node);

#endif
