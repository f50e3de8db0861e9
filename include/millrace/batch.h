/* millrace/batch.h -- training as batch systems do it, to compare parameter servers with.
 *
 * One driver has the parameters.  In every iteration it ships all of them to every worker, workers that keep nothing compute the
 * gradient of one partition of the data each and ship it back whole, and when all have come the driver makes a step of plain
 * gradient descent.  A worker that is lost has its partition computed by another, so the result is the same.
 *
 *     mr_batch_job *j = mr_batch_job_new(m, loss, inputs, 2);      // driver and workers build the same model
 *     ... run mr_initializer(m) ...
 *     driver:    mr_batch_job_drive(j, session, &(mr_batch_job_options){sizeof(mr_batch_job_options), .partitions = 8, .rate = 0.1f}, status);
 *                while (more) value = mr_batch_job_step(j, status);
 *     a worker:  mr_batch_job_work(j, session, &(mr_batch_work){sizeof(mr_batch_work), .driver = "10.0.0.1:7200",
 *                                                               .partition = read_partition}, status);
 *
 * millrace/distbelief.h has what replaced it.  Structs of options begin with their size, and zero is a sensible value of every other
 * field. */
#ifndef MILLRACE_BATCH_H
#define MILLRACE_BATCH_H

#include "millrace/millrace.h"
#include "millrace/train.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_batch_job mr_batch_job;

/* To be made after the loss (a mean over a partition's examples) and before mr_initializer; inputs are what a partition is fed to.
 * NULL after an error, which waits in mr_model_status. */
MR_EXPORT extern mr_batch_job *mr_batch_job_new(mr_model *m, TF_Output loss, const TF_Output *inputs, int ninputs);
/* A driver's workers end well. */
MR_EXPORT extern void mr_batch_job_free(mr_batch_job *j);

/* ---- the driver ---- */

typedef struct mr_batch_job_options {
    size_t struct_size;  /* sizeof(mr_batch_job_options) */
    const char *address; /* "host:port" for workers to come to; NULL: any port of the loopback */
    int partitions;      /* of the data, each computed once in an iteration; 0: 8 */
    float rate;          /* of a step along the mean of all gradients */
    int64_t deadline_ms; /* no worker says anything for so long: an error; 0: 60000 */
} mr_batch_job_options;

/* Opens its address for workers.  The session's variables are where it begins. */
MR_EXPORT extern void mr_batch_job_drive(mr_batch_job *j, TF_Session *session, const mr_batch_job_options *options, TF_Status *status);
/* "host:port"; "" of a job that does not drive. */
MR_EXPORT extern const char *mr_batch_job_address(const mr_batch_job *j);
/* One iteration: the mean loss before its step; NAN after an error. */
MR_EXPORT extern double mr_batch_job_step(mr_batch_job *j, TF_Status *status);
/* The session's variables become the driver's parameters. */
MR_EXPORT extern void mr_batch_job_fetch(mr_batch_job *j, TF_Session *session, TF_Status *status);

typedef struct mr_batch_job_stats {
    size_t struct_size; /* sizeof(mr_batch_job_stats) */
    int64_t iterations;
    int64_t bytes_sent, bytes_received; /* by the driver */
    int64_t lost;                       /* workers */
} mr_batch_job_stats;
MR_EXPORT extern void mr_batch_job_get_stats(mr_batch_job *j, mr_batch_job_stats *out);

/* ---- a worker ---- */

typedef struct mr_batch_work {
    size_t struct_size; /* sizeof(mr_batch_work) */
    const char *driver; /* "host:port" */
    /* Fills in the values of partition 0 .. partitions - 1 in an iteration (the first is 1), which are deleted later. */
    void (*partition)(void *arg, int64_t iteration, int64_t partition, int64_t partitions, TF_Tensor **input_values, TF_Status *status);
    void *arg;
} mr_batch_work;

/* Computes partitions until the driver ends.  Of the session's variables nothing is kept from one to the next. */
MR_EXPORT extern void mr_batch_job_work(mr_batch_job *j, TF_Session *session, const mr_batch_work *work, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
