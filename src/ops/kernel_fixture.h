/* ops/kernel_fixture.h -- calls a kernel as the executor does: with inputs it may reuse. For tests and benchmarks
 * only.
 *
 * mr_eval_node keeps references to its inputs, so kernels never reuse their memory there, and its device has no
 * threads. The fixture has both: one node, a device with a thread pool, and a call that hands over its inputs. */
#ifndef MR_OPS_KERNEL_FIXTURE_H
#define MR_OPS_KERNEL_FIXTURE_H

#include "graph/scope.h"
#include "run/run.h"

typedef struct mr_kernel_fixture {
    mr_graph *graph;
    mr_scope scope;
    mr_pool *pool;
    mr_device *device;
    mr_node *node;
    mr_instance *kernel;
} mr_kernel_fixture;

/* Makes a node of an op whose inputs have these types; attrs by MR_ATTRS, or NULL, 0. */
void mr_kernel_fixture_init(mr_kernel_fixture *b, int threads, const char *op, const mr_named_attr *attrs,
                   int n_attrs, int n_in, const mr_dtype *types);
void mr_kernel_fixture_deinit(mr_kernel_fixture *b);
/* Takes the references of in; the caller owns out, which has room for the node's outputs. */
mr_status *mr_kernel_fixture_run(mr_kernel_fixture *b, mr_tensor **in, mr_tensor **out);

/* A tensor of random small integers, some of them negative for signed types. */
mr_tensor *mr_kernel_fixture_random(mr_dtype type, int rank, const int64_t *dims);
/* Element i of a real tensor. */
double mr_kernel_fixture_at(const mr_tensor *t, int64_t i);

#endif
