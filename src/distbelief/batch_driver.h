/* distbelief/batch_driver.h -- training like a batch system, as a baseline for the parameter server.
 *
 * One driver has the parameters.  In every iteration it sends all of them to every worker; stateless workers compute
 * the gradient of one partition each and send it back; when all are complete, the driver makes a step.  If a worker is
 * lost, another computes its partition, so the result is the same: up to rounding, or to the bit if requested
 * (base/deterministic.h). It uses the same work sessions as Sandblaster (distbelief/coordinator_service.h).
 *
 *     order    1: iteration  2: partition  3: partitions  4: parameters, floats
 *     report   1: iteration  2: partition  3: loss (double)  4: gradient, floats */
#ifndef MR_DISTBELIEF_BATCH_DRIVER_H
#define MR_DISTBELIEF_BATCH_DRIVER_H

#include "distbelief/mirror.h"

typedef struct mr_batch_driver mr_batch_driver;

typedef struct mr_batch_driver_options {
    const char *address; /* NULL: any port of the loopback */
    int partitions;
    float rate;          /* of plain gradient descent with the mean over all partitions */
    int64_t deadline_ms; /* an error if no worker reports for this long; 0: 60000 */
} mr_batch_driver_options;

typedef struct mr_batch_driver_stats {
    int64_t iterations, sent, received; /* bytes */
    int64_t lost;                       /* workers */
} mr_batch_driver_stats;

/* The parameters are copied. */
mr_status *mr_batch_driver_new(const mr_batch_driver_options *o, const float *parameters, int64_t n, mr_batch_driver **out);
void mr_batch_driver_free(mr_batch_driver *d); /* ends its workers */
const char *mr_batch_driver_address(const mr_batch_driver *d);
/* Runs one iteration. *loss: the mean loss before the step. */
mr_status *mr_batch_driver_step(mr_batch_driver *d, double *loss);
const float *mr_batch_driver_parameters(const mr_batch_driver *d); /* between steps */
void mr_batch_driver_count(mr_batch_driver *d, mr_batch_driver_stats *out);

typedef struct mr_batch_worker {
    const mr_mirror *mirror; /* of a model whose variables are all in the vector */
    mr_session *session;
    const char *driver;
    const mr_out *inputs;
    int n_inputs;
    mr_status *(*partition)(void *arg, int64_t iteration, int64_t partition, int64_t partitions, mr_tensor **values);
    void *arg;
} mr_batch_worker;
/* Works until the driver ends. */
mr_status *mr_batch_worker_run(const mr_batch_worker *w);

#endif
