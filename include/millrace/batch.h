/* millrace/batch.h -- training in the style of batch systems (iterative map-reduce), as a baseline for parameter
 * servers.
 *
 * A driver holds the parameters. In every iteration it sends all of them to every worker. Each worker computes the
 * gradient of a partition of the data and sends it back whole; workers keep no state. When all gradients have arrived,
 * the driver makes one step of plain gradient descent. If a worker is lost, another one computes its partition, so the
 * result stays the same.
 *
 *     mr_batch_job *j = mr_batch_job_new(m, loss, inputs, 2);      // driver and workers build the same model
 *     ... run mr_initializer(m) ...
 *     driver:    mr_batch_job_drive(j, session, &(mr_batch_job_options){sizeof(mr_batch_job_options), .partitions = 8,
 *                                                                       .rate = 0.1f}, status);
 *                while (more) value = mr_batch_job_step(j, status);
 *     a worker:  mr_batch_job_work(j, session, &(mr_batch_work){sizeof(mr_batch_work), .driver = "10.0.0.1:7200",
 *                                                               .partition = read_partition}, status);
 *
 * millrace/distbelief.h has the methods that replaced this one. */
#ifndef MILLRACE_BATCH_H
#define MILLRACE_BATCH_H

#include "millrace/millrace.h"
#include "millrace/train.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A training job as one process sees it: as the driver or as a worker. */
typedef struct mr_batch_job mr_batch_job;

/* Adds to the model what the job needs. Call it after the loss is built and before mr_initializer. The loss must be a
 * mean over the examples of a partition; a partition is fed to `inputs`. Returns NULL after an error, which
 * mr_model_status reports. */
MR_EXPORT extern mr_batch_job *mr_batch_job_new(mr_model *m, TF_Output loss, const TF_Output *inputs, int ninputs);
/* Frees the job. If it is the driver, its workers end successfully. NULL is allowed. */
MR_EXPORT extern void mr_batch_job_free(mr_batch_job *j);

/* ---- the driver ---- */

/* Options of the driver. */
typedef struct mr_batch_job_options {
    size_t struct_size;  /* sizeof(mr_batch_job_options) */
    const char *address; /* "host:port" that workers connect to; NULL: any port on the loopback interface */
    int partitions;      /* number of partitions of the data, each computed once per iteration; 0: 8 */
    float rate;          /* learning rate for the mean of all gradients */
    int64_t deadline_ms; /* fail if no worker is heard from for this long; 0: 60000 */
} mr_batch_job_options;

/* Makes this process the driver and starts listening for workers. The initial parameters are the values of the
 * session's variables. Fails with TF_FAILED_PRECONDITION if the job is already a driver. */
MR_EXPORT extern void mr_batch_job_drive(mr_batch_job *j, TF_Session *session, const mr_batch_job_options *options,
                                         TF_Status *status);
/* Returns the address of the driver, "host:port", or "" if the job is not a driver. It is valid as long as the job. */
MR_EXPORT extern const char *mr_batch_job_address(const mr_batch_job *j);
/* Runs one iteration. Returns the mean loss before its step, NAN after an error. */
MR_EXPORT extern double mr_batch_job_step(mr_batch_job *j, TF_Status *status);
/* Assigns the driver's parameters to the variables of the session. */
MR_EXPORT extern void mr_batch_job_fetch(mr_batch_job *j, TF_Session *session, TF_Status *status);

/* What the driver has done so far. */
typedef struct mr_batch_job_stats {
    size_t struct_size;     /* sizeof(mr_batch_job_stats), set by the caller */
    int64_t iterations;     /* iterations so far */
    int64_t bytes_sent;     /* by the driver */
    int64_t bytes_received; /* by the driver */
    int64_t lost;           /* workers that were lost */
} mr_batch_job_stats;

/* Fills *out. All figures are 0 if the job is not a driver. */
MR_EXPORT extern void mr_batch_job_get_stats(mr_batch_job *j, mr_batch_job_stats *out);

/* ---- a worker ---- */

/* What a worker needs. */
typedef struct mr_batch_work {
    size_t struct_size; /* sizeof(mr_batch_work) */
    const char *driver; /* "host:port"; required */
    /* Stores in input_values the data of partition 0 .. partitions - 1, one tensor per input. The library deletes them.
     * The first iteration is 1. Required. */
    void (*partition)(void *arg, int64_t iteration, int64_t partition, int64_t partitions, TF_Tensor **input_values,
                      TF_Status *status);
    void *arg; /* passed to partition */
} mr_batch_work;

/* Computes partitions until the driver ends. The variables of the session are overwritten for every partition. */
MR_EXPORT extern void mr_batch_job_work(mr_batch_job *j, TF_Session *session, const mr_batch_work *work,
                                        TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
