/* millrace/cluster.h -- training on several devices and processes.
 *
 * Every process of a cluster is a task of a job: "ps" tasks hold variables, "worker" tasks compute. All processes run
 * the same program. Each one starts its task; a ps then serves, and a worker builds the model and trains:
 *
 *     mr_cluster_task *t = mr_cluster_task_new(NULL, status);           // from TF_CONFIG
 *     if (!mr_cluster_task_is_worker(t)) mr_cluster_task_serve(t, status);
 *     mr_replicate(m, t, MR_BY_TURNS);                                  // before the first variable
 *     ... build the model, train = mr_minimize(m, loss, mr_adam(0.001f)) ...
 *     mr_supervisor *s = mr_supervisor_new(m, &(mr_supervisor_options){sizeof(mr_supervisor_options), .task = t,
 *                                              .train = train, .checkpoints = "folder"}, status);
 *     mr_supervisor_start(s, status);
 *     do {
 *         while (step < total) step = mr_supervisor_train(s, feeds.., fetches.., status);
 *     } while ((step = mr_supervisor_finish(s, status)) < total);
 *
 * Float tensors can be sent between tasks as bfloat16, in half the bytes: the lower 16 bits of each number are dropped
 * and become zeros at the receiver; a NaN stays a NaN. To do so for a whole session, set
 * graph_options.enable_bfloat16_sendrecv in its ConfigProto (off by default). The bool attr "_lossy_bfloat16" of an
 * operation turns it on or off for the outputs of that operation: TF_SetAttrBool(desc, "_lossy_bfloat16", 1). Gradients
 * are computed as before; their edges may be lossy too. */
#ifndef MILLRACE_CLUSTER_H
#define MILLRACE_CLUSTER_H

#include "millrace/millrace.h"
#include "millrace/train.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- this process as a task ---- */

/* A running task: a server that executes parts of steps for all sessions of the cluster. */
typedef struct mr_cluster_task mr_cluster_task;

/* The cluster and the task of this process. */
typedef struct mr_cluster_options {
    size_t struct_size;   /* sizeof(mr_cluster_options) */
    const char *ps_hosts; /* "host:port,host:port"; "": no ps tasks */
    /* The same for the workers. With ZooKeeper, an address may also be "zk": it is looked up there. */
    const char *worker_hosts;
    const char *job; /* job of this process: "ps" or "worker" */
    int index;       /* number of this process in its job */
    /* ZooKeeper through which tasks find each other, even after a restart elsewhere: "host:port,host:port/path"; NULL:
     * the environment variable MILLRACE_ZOOKEEPER, or none. */
    const char *zookeeper;
    int64_t zookeeper_ms; /* how long the entry of a task that died stays in ZooKeeper; 0: 4000 */
    /* Address of this task instead of the one in the hosts; port 0 takes any port. NULL: the environment variable
     * MILLRACE_ADDRESS, or the address in the hosts, or for "zk" any port of the loopback interface. */
    const char *address;
} mr_cluster_options;

/* Starts the task of this process. If options is NULL or has no hosts, the cluster and the task come from the
 * environment variable TF_CONFIG. Otherwise ps_hosts, worker_hosts and job are required. Returns NULL after an
 * error. */
MR_EXPORT extern mr_cluster_task *mr_cluster_task_new(const mr_cluster_options *options, TF_Status *status);
/* Stops the task and frees it. NULL is allowed. */
MR_EXPORT extern void mr_cluster_task_free(mr_cluster_task *t);
/* Returns "grpc://host:port", which sessions in any process can use as their target. It is valid as long as the
 * task. */
MR_EXPORT extern const char *mr_cluster_task_target(const mr_cluster_task *t);
/* Returns whether the task is a worker: a task of the job "worker" or "chief". A chief is worker 0. */
MR_EXPORT extern unsigned char mr_cluster_task_is_worker(const mr_cluster_task *t);
/* Returns the number of the task among the workers, -1 if it is not a worker. */
MR_EXPORT extern int mr_cluster_task_worker(const mr_cluster_task *t);
/* Returns the number of workers in the cluster, the chief included. */
MR_EXPORT extern int mr_cluster_task_num_workers(const mr_cluster_task *t);
/* Returns the number of ps tasks in the cluster. */
MR_EXPORT extern int mr_cluster_task_num_ps(const mr_cluster_task *t);
/* Waits until another thread stops the task, or for ever. */
MR_EXPORT extern void mr_cluster_task_serve(mr_cluster_task *t, TF_Status *status);
/* Stops the task, from any thread. mr_cluster_task_serve returns, now and in later calls. The task must still be
 * freed. */
MR_EXPORT extern void mr_cluster_task_stop(mr_cluster_task *t);
/* Stops a server: ends its sessions and steps, and lets TF_ServerJoin return. The server cannot be started again.
 * TF_ServerStop fails with TF_UNIMPLEMENTED for a running server, as in TensorFlow. */
MR_EXPORT extern void mr_stop_server(TF_Server *server, TF_Status *status);

/* ---- placing a model on devices ---- */

/* Where mr_replicate places variables. */
typedef enum mr_placement {
    MR_BY_TURNS, /* variables go to the ps tasks in turn */
    MR_BY_SIZE,  /* each variable goes to the ps task that holds the fewest bytes */
} mr_placement;

/* From now on, places variables of the model on the ps tasks, slots of optimizers with their variables, and everything
 * else on this worker. Without ps tasks, the first worker holds the variables. Call it before the first variable; every
 * worker must build its variables in the same order. It is an error of the model if t is not a worker. */
MR_EXPORT extern void mr_replicate(mr_model *m, const mr_cluster_task *t, mr_placement placement);
/* The same for any jobs: num_ps tasks of the job ps_job hold the variables, and `worker` is the device of this worker,
 * for example "/job:worker/task:1". */
MR_EXPORT extern void mr_replicate_on(mr_model *m, const char *ps_job, int num_ps, const char *worker,
                                      mr_placement placement);
/* Places the model as the synchrony needs it (see mr_barrier_options.synchrony): by mr_model_on_worker for
 * "all_reduce", otherwise by mr_replicate. NULL: the environment variable MILLRACE_SYNCHRONY, or "async". */
MR_EXPORT extern void mr_replicate_as(mr_model *m, const mr_cluster_task *t, mr_placement placement,
                                      const char *synchrony);
/* Places new operations of the model on this device. "" or NULL: the session chooses. */
MR_EXPORT extern void mr_model_device(mr_model *m, const char *device);
/* With 1, a variable whose name already exists in the model is reused instead of created, so that layers of the same
 * name share their variables. The default is 0. */
MR_EXPORT extern void mr_model_reuse(mr_model *m, unsigned char reuse);
/* Like mr_minimize, but with the mean of the gradients of several losses. Each gradient is computed on the device of
 * its loss. */
MR_EXPORT extern TF_Operation *mr_minimize_towers(mr_model *m, const TF_Output *losses, int num_losses,
                                                  mr_optimizer optimizer);

/* ---- pipelines: the stages of one network on several devices ----
 *
 * The batch is split into micro-batches, which pass through the stages one after the other, forward and then backward.
 * Their gradients are summed and make one update, so that a step is a step on the whole batch, up to rounding. */

/* The order of forward and backward passes. */
typedef enum mr_pipeline_kind {
    MR_PIPELINE_FILL_DRAIN, /* all forward passes, then all backward passes */
    MR_PIPELINE_1F1B,       /* each backward pass as soon as possible: no slower, and keeps fewer activations */
} mr_pipeline_kind;

/* The stages of a pipeline and how to build them. num_stages, devices, micro_batches and build are required. */
typedef struct mr_pipeline_options {
    size_t struct_size;         /* sizeof(mr_pipeline_options) */
    int num_stages;             /* number of stages */
    const char *const *devices; /* one per stage, for its operations and variables */
    int micro_batches;          /* number of micro-batches; the size of a batch must be a multiple of it */
    mr_pipeline_kind kind;      /* the order of passes */
    /* Builds a stage and returns its result. x is the result of the previous stage, or the first input for stage 0.
     * `inputs` are the shares that this micro-batch has of all inputs. The result of the last stage is the loss, a
     * scalar. The function is called once per stage and micro-batch, and uses the same variables by name each time. A
     * stage may depend on no trainable variables but its own, except through x, because gradients only flow from stage
     * to stage; anything else is an error. */
    TF_Output (*build)(void *arg, mr_model *m, int stage, TF_Output x, const TF_Output *inputs);
    void *arg; /* passed to build */
} mr_pipeline_options;

/* Replaces mr_minimize for a pipeline. The first dimension of all inputs is the batch. *loss becomes the mean loss over
 * the batch; it may be NULL. Returns the operation that runs a step, NULL after an error, which mr_model_status
 * reports. */
MR_EXPORT extern TF_Operation *mr_pipeline_minimize(mr_model *m, const TF_Output *inputs, int num_inputs,
                                                    mr_optimizer optimizer, const mr_pipeline_options *options,
                                                    TF_Output *loss);

/* The prediction of mr_pipeline_predict. */
typedef struct mr_pipeline_figures {
    size_t struct_size; /* sizeof(mr_pipeline_figures), set by the caller */
    double step_s;      /* time of a whole step */
    double alone_s;     /* time of the same work, one stage at a time */
    double bubble;      /* share of the time that a stage is idle, on average */
    int most_kept;      /* largest number of micro-batches whose activations a stage keeps */
} mr_pipeline_figures;

/* Predicts how a pipeline will perform. forward_s and backward_s have one entry per stage: the time of one micro-batch.
 * transfer_s is the time to send a result from one stage to the next. Of the options, num_stages, micro_batches and
 * kind are used. */
MR_EXPORT extern void mr_pipeline_predict(const mr_pipeline_options *options, const double *forward_s,
                                          const double *backward_s, double transfer_s, mr_pipeline_figures *out,
                                          TF_Status *status);

/* ---- synchronous training ---- */

/* Coordinates the updates of several workers. */
typedef struct mr_barrier mr_barrier;
struct mr_all_reduce;
struct mr_all_reduce_options;

/* How several workers coordinate their updates. */
typedef struct mr_barrier_options {
    size_t struct_size; /* sizeof(mr_barrier_options) */
    int num_workers;    /* number of workers */
    int worker;         /* number of this worker */
    int aggregate;      /* gradients that a step needs; the other workers are backups. 0: those of all workers */
    int64_t lease_ms;   /* a worker that is silent for this long is no longer waited for, until it is back; 0: 3000 */
    int64_t join_ms;    /* workers that have not joined by then are not waited for; 0: 60000 */
    /* How workers coordinate, instead of `aggregate`. NULL: as `aggregate` says.
     *     "async"      nobody waits
     *     "sync"       one update from the gradients of all workers
     *     "backup"     the same without the slowest workers; their number is chosen before each step
     *     "backup:K"   the same without the K slowest workers
     *     "bounded"    each worker updates by itself, not too far ahead of the slowest; the limit is chosen
     *     "bounded:T"  the same, at most T iterations ahead
     *     "all_reduce" every worker has all variables, and all make the same update (see below and mr_replicate_as) */
    const char *synchrony;
    /* More options for "all_reduce", of which num_workers, worker and join_ms are ignored; NULL: the defaults. */
    const struct mr_all_reduce_options *all_reduce;
} mr_barrier_options;

/* Replaces mr_minimize: each step updates the variables with the mean of the gradients of several workers. Free the
 * barrier after the supervisor. Returns NULL after an error, which mr_model_status reports. */
MR_EXPORT extern mr_barrier *mr_minimize_sync(mr_model *m, TF_Output loss, mr_optimizer optimizer,
                                              const mr_barrier_options *options);
/* The same with any synchrony, as in mr_barrier_options. NULL: the environment variable MILLRACE_SYNCHRONY, which
 * `millrace launch --synchrony` sets, or "async". The number of workers and of this worker come from the task. The
 * result is always the `barrier` of the supervisor, even for "async". */
MR_EXPORT extern mr_barrier *mr_minimize_as(mr_model *m, TF_Output loss, mr_optimizer optimizer, const char *synchrony,
                                            const mr_cluster_task *task);
/* Frees the barrier, and its mr_all_reduce if it has one. NULL is allowed. */
MR_EXPORT extern void mr_barrier_free(mr_barrier *b);

/* A gradient as mr_barrier_begin returns it. */
typedef struct mr_barrier_gradient {
    TF_Output gradient; /* the dense gradient, or the rows of a sparse one; oper NULL: the variable has no gradient */
    TF_Output indices;  /* of a sparse gradient: the row numbers; otherwise oper is NULL */
    TF_Output dense_shape; /* of a sparse gradient: the shape of the variable, int32 */
} mr_barrier_gradient;

/* The first half of mr_minimize_sync, for programs that build their own updates. gradients[i] becomes the gradient from
 * which to update the i-th trainable variable, in the order in which they were created: the mean of the workers'
 * gradients, or the gradient of this worker if each updates by itself. num_gradients must be the number of trainable
 * variables. Returns NULL after an error, which mr_model_status reports. */
MR_EXPORT extern mr_barrier *mr_barrier_begin(mr_model *m, TF_Output loss, const mr_barrier_options *options,
                                              mr_barrier_gradient *gradients, int num_gradients);
/* The second half. `update` is an operation that updates the variables and increments mr_global_step by one.
 * mr_model_status reports errors. */
MR_EXPORT extern void mr_barrier_complete(mr_barrier *b, mr_model *m, TF_Operation *update);
/* Returns the all-reduce of a barrier with synchrony "all_reduce", for mr_all_reduce_size and mr_all_reduce_generation.
 * The barrier owns it. NULL for other barriers. */
MR_EXPORT extern const struct mr_all_reduce *mr_barrier_all_reduce(const mr_barrier *b);

/* ---- training by all-reduce ----
 *
 * Every worker has all variables on its own device (mr_model_on_worker instead of mr_replicate), and all workers make
 * the same step from the mean of their gradients. Parameter servers are not needed. If there is one, it leads the
 * group, which then survives the loss of any worker; otherwise the first worker leads it. */

/* The group of workers that train together. */
typedef struct mr_all_reduce mr_all_reduce;

/* Options of training by all-reduce. */
typedef struct mr_all_reduce_options {
    size_t struct_size;   /* sizeof(mr_all_reduce_options) */
    int num_workers;      /* number of workers */
    int worker;           /* number of this worker */
    int64_t bucket_bytes; /* gradients are exchanged together up to this size; 0: 4 MiB, negative: each by itself */
    /* 1: buckets wait for the last gradient instead of being sent while others are computed. */
    unsigned char no_overlap;
    int64_t join_ms;     /* at the start, workers that have not joined by then are not waited for; 0: 60000 */
    int64_t settle_ms;   /* after a loss, how long the remaining workers wait for each other; 0: 500 */
    int64_t exchange_ms; /* how long an exchange may take; 0: ten minutes */
    /* 1: gradients of embeddings are sent whole. 0: only the rows that a batch has used are sent, and updated if the
     * optimizer supports that. */
    unsigned char sparse_as_dense;
} mr_all_reduce_options;

/* Replaces mr_minimize: all workers make the same step from the mean of their gradients. A worker that is lost is left
 * out from then on; one that comes back copies the variables from the others and takes part again. Free the result
 * after the supervisor. Returns NULL after an error, which mr_model_status reports. */
MR_EXPORT extern mr_all_reduce *mr_minimize_all_reduce(mr_model *m, TF_Output loss, mr_optimizer optimizer,
                                                       const mr_all_reduce_options *options);
/* Returns how many workers are in the group now, 0 if it is not formed yet. May be called from any thread. */
MR_EXPORT extern int mr_all_reduce_size(const mr_all_reduce *r);
/* Returns how often the group has been formed, 0 if it is not formed yet. May be called from any thread. */
MR_EXPORT extern int64_t mr_all_reduce_generation(const mr_all_reduce *r);
/* Frees it. NULL is allowed. */
MR_EXPORT extern void mr_all_reduce_free(mr_all_reduce *r);
/* From now on, places all operations of the model, variables included, on this worker. It is an error of the model if t
 * is not a worker. */
MR_EXPORT extern void mr_model_on_worker(mr_model *m, const mr_cluster_task *t);

/* ---- supervisors: training that survives the loss of tasks ---- */

/* Runs the training steps of one worker. When a task is lost, it opens a new session, restores lost variables from the
 * newest checkpoint, and repeats the step. One worker at a time is the chief, which initializes and saves the
 * variables. */
typedef struct mr_supervisor mr_supervisor;

/* Options of a supervisor. At most one of train, barrier and all_reduce is set. */
typedef struct mr_supervisor_options {
    size_t struct_size;    /* sizeof(mr_supervisor_options) */
    mr_cluster_task *task; /* the task of this worker, whose master runs the steps; NULL: use `target` */
    const char *target;    /* target of the session, as for TF_SetTarget; NULL: this process */
    /* Without a task: 1 if this worker is the chief, which initializes and saves the variables and leads synchronous
     * training. With a task, see chief_ms. */
    unsigned char chief;
    TF_Operation *train; /* the result of mr_minimize, or: */
    /* The result of mr_minimize_sync, mr_minimize_as or mr_barrier_begin (after mr_barrier_complete). */
    mr_barrier *barrier;
    const char *checkpoints; /* folder of checkpoints; NULL: none are written or read */
    int64_t save_ms;         /* time between two checkpoints; 0: write one at the end only */
    int max_to_keep;         /* number of checkpoints to keep; 0: all */
    int64_t deadline_ms;     /* how long to wait for the cluster, at the start and after a loss; 0: ten minutes */
    /* 1: the chief writes and reads whole checkpoints. 0: each task writes and reads the variables it holds, so that
     * all of them must see the folder under the same name. */
    unsigned char chief_saves;
    /* With a task, the chief is the worker with the lowest number that is alive. One that is not heard from for this
     * long is replaced until it is back. 0: 5000; negative: worker 0 is always the chief. */
    int64_t chief_ms;
    /* Folder for traces of some steps (millrace/trace.h); NULL: the environment variable MILLRACE_TRACE, or none. */
    const char *trace;
    const char *trace_steps; /* the steps to trace: "20-24,100"; NULL: MILLRACE_TRACE_STEPS, or 20-24 */
    /* 1: from now on this process computes the same bits regardless of the number of threads and of the order in which
     * gradients of synchronous workers arrive. MILLRACE_DETERMINISTIC=1 does the same. */
    unsigned char deterministic;
    /* The result of mr_minimize_all_reduce, instead of train and barrier. The chief is the first worker of the
     * group. */
    mr_all_reduce *all_reduce;
} mr_supervisor_options;

/* Creates a supervisor. The model must be complete: all its variables are saved. The task, the barrier or all-reduce,
 * and the graph must outlive the supervisor. Returns NULL after an error. */
MR_EXPORT extern mr_supervisor *mr_supervisor_new(mr_model *m, const mr_supervisor_options *options, TF_Status *status);
/* Waits for the cluster. The chief restores the newest checkpoint, or initializes the variables; the other workers wait
 * for that. */
MR_EXPORT extern void mr_supervisor_start(mr_supervisor *s, TF_Status *status);
/* Runs one training step with the given feeds and fetches. Returns the global step after it, -1 after an error. If a
 * task was lost, the session is opened again, lost variables are restored from the newest checkpoint, so that the
 * global step may go back, and the step is repeated. The caller deletes the output_values. */
MR_EXPORT extern int64_t mr_supervisor_train(mr_supervisor *s, const TF_Output *inputs, TF_Tensor *const *input_values,
                                             int ninputs, const TF_Output *outputs, TF_Tensor **output_values,
                                             int noutputs, TF_Status *status);
/* Runs anything else, with the same recovery. The caller deletes the output_values. */
MR_EXPORT extern void mr_supervisor_run(mr_supervisor *s, const TF_Output *inputs, TF_Tensor *const *input_values,
                                        int ninputs, const TF_Output *outputs, TF_Tensor **output_values, int noutputs,
                                        const TF_Operation *const *targets, int ntargets, TF_Status *status);
/* Returns the global step, -1 after an error. */
MR_EXPORT extern int64_t mr_supervisor_step(mr_supervisor *s, TF_Status *status);
/* Ends the training of this worker. With a barrier, the worker leaves, and the chief waits for all others to leave. The
 * chief saves. Returns the global step, -1 after an error. If it is lower than before, variables were lost and restored
 * from a checkpoint meanwhile, and training can continue. */
MR_EXPORT extern int64_t mr_supervisor_finish(mr_supervisor *s, TF_Status *status);
/* Cancels what other threads are waiting for in the supervisor: their calls, and all later ones, fail with
 * TF_CANCELLED. May be called from any thread. */
MR_EXPORT extern void mr_supervisor_cancel(mr_supervisor *s);
/* Returns whether this worker is the chief at the moment, for example to decide who prints results. */
MR_EXPORT extern unsigned char mr_supervisor_is_chief(mr_supervisor *s);
/* Returns how often the session was lost and opened again. */
MR_EXPORT extern int mr_supervisor_losses(const mr_supervisor *s);

/* How a worker keeps up with the others. */
typedef struct mr_worker_figures {
    size_t struct_size;    /* sizeof(mr_worker_figures), set by the caller */
    int64_t iterations;    /* gradients delivered, or updates made */
    int64_t late;          /* gradients that were too late for their step */
    double waited_s;       /* time spent waiting for other workers */
    double staleness;      /* mean number of updates by others while it computes an update; 0 if all update together */
    int64_t staleness_max; /* largest such number */
    unsigned char waited_for; /* 1: others are waiting for this worker at the moment */
} mr_worker_figures;

/* Fills *out with the figures of a worker and returns 1, or returns 0 if this process does not know them. The chief
 * knows all workers since it became chief; other workers only know themselves, and only if they train
 * asynchronously. */
MR_EXPORT extern unsigned char mr_supervisor_figures(mr_supervisor *s, int worker, mr_worker_figures *out);
/* Frees the supervisor and closes its session. Without mr_supervisor_finish before, the others treat this worker as
 * lost. NULL is allowed. */
MR_EXPORT extern void mr_supervisor_free(mr_supervisor *s);

/* ---- reporting to `millrace launch` ----
 *
 * The launcher shows a table of its tasks. A supervisor reports its steps and waits to it. These functions are for
 * programs with a training loop of their own, and for what only the program knows. Without a launcher they do
 * nothing. */

/* Reports that this worker has done one more step, and that the global step is now `step`. */
MR_EXPORT extern void mr_tell_step(int64_t step);
/* Reports the latest loss (NaN: unknown), and the global step at which the training ends (-1: unknown). */
MR_EXPORT extern void mr_tell_progress(double loss, int64_t last_step);
/* Reports what this worker is waiting for. It is shown until the next step. */
MR_EXPORT extern void mr_tell_waiting(const char *what);

#ifdef __cplusplus
}
#endif

#endif
