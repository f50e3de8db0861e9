/* millrace/cluster.h -- training over many devices and processes.
 *
 * Every process of a cluster is a task of a job: "ps" tasks hold variables, "worker" tasks compute.  All run the same
 * program; each starts its task, a ps serves, a worker builds the same model and trains:
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
 * Between tasks float tensors can travel as bfloat16, at half the bytes: the lower 16 bits of each number are cut off, and come
 * back as zeros (a NaN stays one).  A session does so for all of them when its ConfigProto has
 * graph_options.enable_bfloat16_sendrecv, off by default; an operation with the bool attr "_lossy_bfloat16" decides for its own
 * outputs, both ways: TF_SetAttrBool(desc, "_lossy_bfloat16", 1).  Gradients are not changed by it, their edges may be lossy too.
 *
 * Structs of options begin with their size, and zero is a sensible value of every other field. */
#ifndef MILLRACE_CLUSTER_H
#define MILLRACE_CLUSTER_H

#include "millrace/millrace.h"
#include "millrace/train.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- this process as a task ---- */

typedef struct mr_cluster_task mr_cluster_task;

typedef struct mr_cluster_options {
    size_t struct_size; /* sizeof(mr_cluster_options) */
    const char *ps_hosts, *worker_hosts; /* "host:port,host:port"; with a ZooKeeper a task may also be "zk": it will be told */
    const char *job; /* of this process: "ps" or "worker" */
    int index;
    const char *zookeeper; /* tells where tasks are, also when they were started elsewhere: "host:port,host:port/path"; NULL: as the
                              environment's MILLRACE_ZOOKEEPER says, or none */
    int64_t zookeeper_ms;  /* how long a task's entry in it outlives the task; 0: 4000 */
    const char *address;   /* of this task, whatever the hosts say, port 0 being any; NULL: MILLRACE_ADDRESS, or that of the
                              hosts, or for "zk" any port of the loopback */
} mr_cluster_options;

/* Starts this process's task.  options NULL, or without hosts: as the environment's TF_CONFIG says. */
MR_EXPORT extern mr_cluster_task *mr_cluster_task_new(const mr_cluster_options *options, TF_Status *status);
/* Stops it. */
MR_EXPORT extern void mr_cluster_task_free(mr_cluster_task *t);
/* "grpc://host:port", for sessions from anywhere. */
MR_EXPORT extern const char *mr_cluster_task_target(const mr_cluster_task *t);
/* Workers are the tasks of "worker", and of "chief" where there is such a job: it is worker 0 then. */
MR_EXPORT extern unsigned char mr_cluster_task_is_worker(const mr_cluster_task *t);
MR_EXPORT extern int mr_cluster_task_worker(const mr_cluster_task *t); /* its number among the workers; -1: it is none */
MR_EXPORT extern int mr_cluster_task_num_workers(const mr_cluster_task *t);
MR_EXPORT extern int mr_cluster_task_num_ps(const mr_cluster_task *t);
/* Waits until the task is stopped: for ever, unless another thread does that or the process is ended. */
MR_EXPORT extern void mr_cluster_task_serve(mr_cluster_task *t, TF_Status *status);
/* Stops it, from any thread; whoever serves, or does so later, returns.  It is still to be freed. */
MR_EXPORT extern void mr_cluster_task_stop(mr_cluster_task *t);
/* Ends the sessions and steps of a server, which cannot be started again, and lets TF_ServerJoin return.  For a server
 * that runs TF_ServerStop refuses to (UNIMPLEMENTED), as in TensorFlow. */
MR_EXPORT extern void mr_stop_server(TF_Server *server, TF_Status *status);

/* ---- where things go ---- */

typedef enum mr_placement { MR_BY_TURNS, MR_BY_SIZE } mr_placement;

/* From now on variables of the model go to the ps tasks, one after the other or to where the fewest bytes are, slots of
 * optimizers beside their variable, and everything else to this worker. */
MR_EXPORT extern void mr_replicate(mr_model *m, const mr_cluster_task *t, mr_placement placement);
/* The same in other words: num_ps tasks of a job, and a worker's device ("/job:worker/task:1"). */
MR_EXPORT extern void mr_replicate_on(mr_model *m, const char *ps_job, int num_ps, const char *worker, mr_placement placement);
/* Either as the word says how workers keep together (mr_barrier_options; NULL: MILLRACE_SYNCHRONY, or "async"): mr_replicate, and with
 * "all_reduce" mr_model_on_worker. */
MR_EXPORT extern void mr_replicate_as(mr_model *m, const mr_cluster_task *t, mr_placement placement, const char *synchrony);
/* New operations of the model go to this device; "" or NULL: where the session likes. */
MR_EXPORT extern void mr_model_device(mr_model *m, const char *device);
/* With 1, a variable whose name is there already is used again instead of made: layers of the same name share. */
MR_EXPORT extern void mr_model_reuse(mr_model *m, unsigned char reuse);
/* As mr_minimize with the mean of the gradients of several losses, each computed where its loss is. */
MR_EXPORT extern TF_Operation *mr_minimize_towers(mr_model *m, const TF_Output *losses, int num_losses, mr_optimizer optimizer);

/* ---- pipelines: one network in stages on several devices ---- */

/* The batch is cut into micro-batches that go through the stages one behind the other, forward and back; their gradients are
 * added up and make one update.  So a step is that of the whole batch, to rounding. */
typedef enum mr_pipeline_kind {
    MR_PIPELINE_FILL_DRAIN, /* all forward, then all backward */
    MR_PIPELINE_1F1B,       /* one backward for each forward as soon as it can be: the same time, fewer activations kept */
} mr_pipeline_kind;

typedef struct mr_pipeline_options {
    size_t struct_size; /* sizeof(mr_pipeline_options) */
    int num_stages;
    const char *const *devices; /* by stage: where its operations and variables are */
    int micro_batches;          /* the size of a batch is a multiple of it */
    mr_pipeline_kind kind;
    /* Builds a stage: x is the result of the one before (of stage 0 the first input), inputs are this micro-batch's shares of all
     * inputs.  The last stage's result is the loss, a scalar.  Called once for each stage and micro-batch, with the same
     * variables by the same names.  A stage uses no trainable variable but its own, nor what depends on one but x: that is
     * refused, since gradients go back from stage to stage only. */
    TF_Output (*build)(void *arg, mr_model *m, int stage, TF_Output x, const TF_Output *inputs);
    void *arg;
} mr_pipeline_options;

/* In place of mr_minimize.  The first dimension of all inputs is the batch; *loss (may be NULL) is the mean over it.  NULL after an
 * error, which waits in mr_model_status. */
MR_EXPORT extern TF_Operation *mr_pipeline_minimize(mr_model *m, const TF_Output *inputs, int num_inputs, mr_optimizer optimizer, const mr_pipeline_options *options, TF_Output *loss);

typedef struct mr_pipeline_figures {
    size_t struct_size; /* sizeof(mr_pipeline_figures) */
    double step_s;      /* of a whole step */
    double alone_s;     /* the same work one stage at a time */
    double bubble;      /* share of its time that the mean stage has nothing to do */
    int most_kept;      /* micro-batches whose activations a stage keeps, at most */
} mr_pipeline_figures;
/* What a pipeline will do, from how long a micro-batch takes in each stage, forward and back, and from one stage to the next. */
MR_EXPORT extern void mr_pipeline_predict(const mr_pipeline_options *options, const double *forward_s, const double *backward_s, double transfer_s, mr_pipeline_figures *out, TF_Status *status);

/* ---- synchronous training ---- */

typedef struct mr_barrier mr_barrier;
struct mr_all_reduce;
struct mr_all_reduce_options;

typedef struct mr_barrier_options {
    size_t struct_size; /* sizeof(mr_barrier_options) */
    int num_workers, worker;
    int aggregate;    /* gradients a step needs, the other workers are backups; 0: those of all */
    int64_t lease_ms; /* a worker that is silent for so long is not waited for, until it is back; 0: 3000 */
    int64_t join_ms;  /* workers that have not come by then are not waited for; 0: 60000 */
    /* How workers keep together, in place of `aggregate`; NULL: as that says.
     *     "async"      nobody waits for anybody
     *     "sync"       one update from the gradients of all workers
     *     "backup"     the same without the slowest, as many as it pays to drop: chosen before each step from how long each takes
     *     "backup:K"   the same without the K slowest
     *     "bounded"    each updates by itself, not too far ahead of the slowest: as far as it pays
     *     "bounded:T"  at most T iterations ahead
     *     "all_reduce" every worker has all variables, and all make the same update (see below; mr_replicate_as) */
    const char *synchrony;
    const struct mr_all_reduce_options *all_reduce; /* more about that one, without num_workers, worker and join_ms; NULL: as usual */
} mr_barrier_options;

/* In place of mr_minimize: steps are made from the mean of the workers' gradients.  To be freed after the supervisor.
 * NULL after an error, which waits in mr_model_status. */
MR_EXPORT extern mr_barrier *mr_minimize_sync(mr_model *m, TF_Output loss, mr_optimizer optimizer, const mr_barrier_options *options);
/* One flag for all of them: synchrony as in mr_barrier_options; NULL: the environment's MILLRACE_SYNCHRONY (`millrace launch
 * --synchrony`), or "async".  Which of how many workers this is comes from the task.  The result goes to the supervisor's `barrier`
 * in any case. */
MR_EXPORT extern mr_barrier *mr_minimize_as(mr_model *m, TF_Output loss, mr_optimizer optimizer, const char *synchrony, const mr_cluster_task *task);
MR_EXPORT extern void mr_barrier_free(mr_barrier *b);

/* The same in two halves, for whoever makes updates of its own.  gradients[i]: what that of the i-th trainable variable is to be
 * made from, in the order in which the model got them: the mean of the workers' gradients, or what this one has where each
 * updates by itself.  Rows have indices and dense_shape (int32) too; gradient.oper NULL: none arrives.  NULL after an error, which
 * waits in mr_model_status. */
typedef struct mr_barrier_gradient {
    TF_Output gradient, indices, dense_shape;
} mr_barrier_gradient;
MR_EXPORT extern mr_barrier *mr_barrier_begin(mr_model *m, TF_Output loss, const mr_barrier_options *options, mr_barrier_gradient *gradients, int num_gradients);
/* update changes the variables and raises mr_global_step by one.  Errors wait in mr_model_status. */
MR_EXPORT extern void mr_barrier_complete(mr_barrier *b, mr_model *m, TF_Operation *update);
/* Of a barrier of "all_reduce", which owns it: mr_all_reduce_size and mr_all_reduce_generation tell of it.  NULL: of another. */
MR_EXPORT extern const struct mr_all_reduce *mr_barrier_all_reduce(const mr_barrier *b);

/* ---- training by all-reduce ---- */

/* Every worker has all variables on its own device (mr_model_on_worker, not mr_replicate), and all make the same step from the
 * mean of their gradients.  No parameter server is needed; one makes the group outlive any worker, since it leads then, else
 * the first worker does. */
typedef struct mr_all_reduce mr_all_reduce;

typedef struct mr_all_reduce_options {
    size_t struct_size; /* sizeof(mr_all_reduce_options) */
    int num_workers, worker;
    int64_t bucket_bytes; /* gradients travel together up to this size; 0: 4 MiB, below 0: each by itself */
    unsigned char no_overlap; /* 1: buckets wait for the last gradient, instead of going while others are computed */
    int64_t join_ms;   /* at first: workers that have not come by then are not waited for; 0: 60000 */
    int64_t settle_ms; /* after a loss: how long the rest waits for each other; 0: 500 */
    int64_t exchange_ms; /* how long an exchange may take; 0: ten minutes */
    unsigned char sparse_as_dense; /* 1: gradients of embeddings travel whole.  0: only the rows that a batch has used, and only
                                      these are updated where the optimizer does so */
} mr_all_reduce_options;

/* In place of mr_minimize: steps are made from the mean of the workers' gradients, by all of them alike.  A worker that is lost is
 * left out from then on; one that comes back takes the variables of the others and is in again.  To be freed after the
 * supervisor.  NULL after an error, which waits in mr_model_status. */
MR_EXPORT extern mr_all_reduce *mr_minimize_all_reduce(mr_model *m, TF_Output loss, mr_optimizer optimizer, const mr_all_reduce_options *options);
/* How many workers are in the group now, and how often it was formed; 0: not yet.  From any thread. */
MR_EXPORT extern int mr_all_reduce_size(const mr_all_reduce *r);
MR_EXPORT extern int64_t mr_all_reduce_generation(const mr_all_reduce *r);
MR_EXPORT extern void mr_all_reduce_free(mr_all_reduce *r);
/* From now on all operations of the model go to this worker, variables too. */
MR_EXPORT extern void mr_model_on_worker(mr_model *m, const mr_cluster_task *t);

/* ---- sessions that mend themselves ---- */

typedef struct mr_supervisor mr_supervisor;

typedef struct mr_supervisor_options {
    size_t struct_size;      /* sizeof(mr_supervisor_options) */
    mr_cluster_task *task;   /* its master runs the steps; NULL: `target` */
    const char *target;      /* as TF_SetTarget; NULL: this process */
    unsigned char chief;     /* without a task: makes variables ready, saves, leads.  With one: see chief_ms */
    TF_Operation *train;     /* of mr_minimize; or */
    mr_barrier *barrier;     /* of mr_minimize_sync, mr_minimize_as or mr_barrier_complete */
    const char *checkpoints; /* folder; NULL: none are made or read */
    int64_t save_ms;         /* between two checkpoints; 0: one at the end */
    int max_to_keep;         /* 0: all */
    int64_t deadline_ms;     /* for the cluster to come up, or back after a loss; 0: ten minutes */
    unsigned char chief_saves; /* 1: the chief writes and reads all of a checkpoint.  0: each task what it holds, so all must
                                  see the folder under the same name */
    int64_t chief_ms; /* with a task the chief is the lowest worker that is alive: one that is not heard of for so long is
                         replaced, until it is back; 0: 5000, below 0: it is worker 0 in any case */
    const char *trace; /* folder: some steps are traced (millrace/trace.h); NULL: the environment's MILLRACE_TRACE, if any */
    const char *trace_steps; /* which: "20-24,100"; NULL: MILLRACE_TRACE_STEPS, or 20-24 */
    unsigned char deterministic; /* 1: from now on this process computes the same bits whatever the number of threads and the order
                                    in which gradients of synchronous workers come.  MILLRACE_DETERMINISTIC=1 does the same */
    mr_all_reduce *all_reduce; /* of mr_minimize_all_reduce, in place of train and barrier; the chief is the first worker of the
                                  group, and saves */
} mr_supervisor_options;

/* To be made when the model is complete; all its variables are saved.  NULL after an error. */
MR_EXPORT extern mr_supervisor *mr_supervisor_new(mr_model *m, const mr_supervisor_options *options, TF_Status *status);
/* Waits for the cluster.  The chief restores the newest checkpoint, or initialises; the others wait for that. */
MR_EXPORT extern void mr_supervisor_start(mr_supervisor *s, TF_Status *status);
/* One training step; returns the global step then, -1 after an error.  When a task was lost, the session is opened
 * anew, variables that are gone come back from the newest checkpoint (so the global step may fall), and the step is run
 * again.  output_values are to be deleted. */
MR_EXPORT extern int64_t mr_supervisor_train(mr_supervisor *s, const TF_Output *inputs, TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs, TF_Tensor **output_values, int noutputs, TF_Status *status);
/* Any other run, with the same care. */
MR_EXPORT extern void mr_supervisor_run(mr_supervisor *s, const TF_Output *inputs, TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs, TF_Tensor **output_values, int noutputs, const TF_Operation *const *targets, int ntargets, TF_Status *status);
/* The global step; -1 after an error. */
MR_EXPORT extern int64_t mr_supervisor_step(mr_supervisor *s, TF_Status *status);
/* This worker is done.  With a barrier it leaves, and the chief waits for all to leave; the chief saves.  Returns the global
 * step then (-1 after an error): when variables were lost meanwhile and came back from a checkpoint, it is lower than
 * before, and training can go on. */
MR_EXPORT extern int64_t mr_supervisor_finish(mr_supervisor *s, TF_Status *status);
/* Ends what waits in it, from any thread: that fails with TF_CANCELLED, and so does whatever follows. */
MR_EXPORT extern void mr_supervisor_cancel(mr_supervisor *s);
/* Whether this worker is the chief now: it has something to tell the user, say. */
MR_EXPORT extern unsigned char mr_supervisor_is_chief(mr_supervisor *s);
/* How often a session was lost. */
MR_EXPORT extern int mr_supervisor_losses(const mr_supervisor *s);
/* How a worker fares with the others. */
typedef struct mr_worker_figures {
    size_t struct_size;  /* sizeof(mr_worker_figures) */
    int64_t iterations;  /* gradients given, or updates made */
    int64_t late;        /* gradients that came too late for their step */
    double waited_s;     /* for others */
    double staleness;    /* updates by others while it worked on one of its own: mean and maximum.  0 in step with all */
    int64_t staleness_max;
    unsigned char waited_for; /* others wait at present, and for this one */
} mr_worker_figures;
/* Of one worker, as this process knows it: the chief knows all of them since it leads, others only themselves when they train
 * asynchronously.  Returns 0 when it knows nothing. */
MR_EXPORT extern unsigned char mr_supervisor_figures(mr_supervisor *s, int worker, mr_worker_figures *out);
/* Before its barrier, its model's graph and its task. */
MR_EXPORT extern void mr_supervisor_free(mr_supervisor *s);

/* ---- for `millrace launch` ----
 *
 * The launcher's table shows what its tasks report.  A supervisor reports steps and waits by itself; these functions
 * are for programs with another training loop, and for what only the program knows.  Without a launcher they do
 * nothing. */

/* One more step of this worker is done; the global step is `step` now. */
MR_EXPORT extern void mr_tell_step(int64_t step);
/* The last loss (NaN: not known), and the global step at which the training ends (-1: not known). */
MR_EXPORT extern void mr_tell_progress(double loss, int64_t last_step);
/* What this worker waits for, until its next step. */
MR_EXPORT extern void mr_tell_waiting(const char *what);

#ifdef __cplusplus
}
#endif

#endif
