/* millrace/distbelief.h -- DistBelief (Dean et al., 2012) on the parameter server: Downpour SGD and Sandblaster L-BFGS.
 *
 * Downpour: any number of replicas train the same model, each on its own data. A replica is a process or a thread with
 * its own session, on one or more devices, in this process or on a cluster. Replicas never wait for each other: each
 * one fetches parameters and pushes gradients in the background of its computation, and the others continue when one
 * dies.
 *
 *     mr_model *m = mr_model_new(graph);
 *     ... loss = mr_softmax_loss(m, logits, labels) ...
 *     mr_downpour *d = mr_downpour_new(m, loss, &(mr_downpour_options){sizeof(mr_downpour_options), .replica = 2,
 *                                                                      .rate = 0.05f});
 *     ... run mr_initializer(m) ...
 *     mr_ps *ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = "10.0.0.1:7000"}, status);
 *     mr_downpour_start(d, session, ps, status);
 *     for (...) mr_downpour_train(d, inputs, values, 2, &loss, &value, 1, status);
 *     mr_downpour_finish(d, status);
 *
 * Sandblaster: a coordinator minimizes a loss over all data by L-BFGS without holding any parameters. Vectors are added
 * and multiplied on the servers that store them. Replicas compute small portions of the loss and its gradient, each as
 * many as it can. Replicas may join, be slow and die at any time: every portion counts exactly once in each evaluation.
 *
 *     coordinator:  mr_sandblaster *s = mr_sandblaster_start(&(mr_sandblaster_options){sizeof(mr_sandblaster_options),
 *                                                             .address = "0.0.0.0:7100", .portions = 64}, ps, status);
 *                   double loss = mr_sandblaster_minimize(s, status);
 *     a replica:    mr_sandblaster_replica *r = mr_sandblaster_replica_new(m, loss, inputs, 2);
 *                   ... run mr_initializer(m) ...
 *                   mr_sandblaster_replica_work(r, session, ps, &(mr_sandblaster_work){sizeof(mr_sandblaster_work),
 *                                               .coordinator = "10.0.0.1:7100", .portion = read_portion}, status); */
#ifndef MILLRACE_DISTBELIEF_H
#define MILLRACE_DISTBELIEF_H

#include "millrace/ps.h"
#include "millrace/train.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Downpour SGD ---- */

/* One replica of a Downpour job. */
typedef struct mr_downpour mr_downpour;

/* Options of a replica. */
typedef struct mr_downpour_options {
    size_t struct_size; /* sizeof(mr_downpour_options) */
    const char *name;   /* name of the job, with which the names of its tables begin; NULL: "downpour" */
    int replica;        /* number of this replica, from 0. The lowest one initializes the parameters and warms up */
    int64_t n_fetch;    /* number of steps between two fetches of parameters; 0: 1 */
    int64_t n_push;     /* number of steps between two pushes; the gradients in between are summed; 0: 1 */
    /* Number of steps the replica may be ahead of the answers of the servers, for example while they fail over; then it
     * waits. 0: four times the larger of n_fetch and n_push. */
    int64_t most_behind;
    int64_t warm_steps; /* replicas other than the first start when the job has made this many steps; 0: at once */
    /* If a job makes no progress for this long before it has started, the next replica takes over; 0: 1000. */
    int64_t patience_ms;
    /* Update function of the servers; 0 (MR_PS_ASSIGN, which makes no sense here): MR_PS_ADAGRAD. */
    mr_ps_update update;
    float rate;    /* learning rate; 0: 0.05 */
    float a;       /* parameter of the update, as in mr_ps_table_options; for Adagrad, 0: 0.1 */
    float b;       /* the same */
    float epsilon; /* the same */
    /* The replica's own parameters move by this times each gradient until the next fetch; 0: they do not. */
    float local_rate;
    int64_t deadline_ms; /* limit of each wait for servers; 0: 60000 */
} mr_downpour_options;

/* Replaces mr_minimize: adds to the model what the replica needs. Call it after the loss is built and before
 * mr_initializer. All trainable variables are stored on the servers in equal shares; a variable whose gradient is
 * sparse (an embedding) is stored row by row. Returns NULL after an error, which mr_model_status reports. */
MR_EXPORT extern mr_downpour *mr_downpour_new(mr_model *m, TF_Output loss, const mr_downpour_options *options);
/* Waits for what is under way and frees the replica. Call it before the session's graph is deleted and before the mr_ps
 * is freed. NULL is allowed. */
MR_EXPORT extern void mr_downpour_free(mr_downpour *d);
/* Starts training. The variables of the session must be initialized. If the job has already started, its parameters are
 * fetched. session and ps must outlive d. */
MR_EXPORT extern void mr_downpour_start(mr_downpour *d, TF_Session *session, mr_ps *ps, TF_Status *status);
/* Runs one step. Returns how many steps this replica has made, -1 after an error. The caller deletes the
 * output_values. */
MR_EXPORT extern int64_t mr_downpour_train(mr_downpour *d, const TF_Output *inputs, TF_Tensor *const *input_values,
                                           int ninputs, const TF_Output *outputs, TF_Tensor **output_values,
                                           int noutputs, TF_Status *status);
/* Pushes the remaining gradients and waits until the servers have them. mr_downpour_start can start again. */
MR_EXPORT extern void mr_downpour_finish(mr_downpour *d, TF_Status *status);
/* Assigns the current parameters on the servers to the variables of the session, for example to test or save the
 * model. */
MR_EXPORT extern void mr_downpour_fetch(mr_downpour *d, TF_Status *status);

/* What a replica has done so far. */
typedef struct mr_downpour_stats {
    size_t struct_size;   /* sizeof(mr_downpour_stats), set by the caller */
    int64_t steps;        /* steps of this replica */
    int64_t fetches;      /* fetches of parameters */
    int64_t pushes;       /* pushes of gradients */
    int64_t steps_of_all; /* steps that all replicas have pushed, when last seen */
    double waited_s;      /* time spent waiting for servers, after the first fetch */
    /* Longest time from the end of one step to the end of the next, the caller's work included. */
    double longest_step_s;
    unsigned char gave_values; /* 1: this replica initialized the parameters */
    double longest_wait_s;     /* longest single wait for servers */
} mr_downpour_stats;

/* Fills *out. */
MR_EXPORT extern void mr_downpour_get_stats(const mr_downpour *d, mr_downpour_stats *out);

/* ---- Sandblaster L-BFGS: the coordinator ---- */

/* The coordinator of a Sandblaster job. */
typedef struct mr_sandblaster mr_sandblaster;

/* Options of the coordinator. */
typedef struct mr_sandblaster_options {
    size_t struct_size;   /* sizeof(mr_sandblaster_options) */
    const char *name;     /* name of the job, with which the names of its tables begin; NULL: "sandblaster" */
    const char *address;  /* "host:port" that replicas connect to; NULL: any port on the loopback interface */
    int portions;         /* number of portions of the data; several per replica are best; 0: 32 */
    int history;          /* number of vector pairs that L-BFGS keeps, at most 100; 0: 10 */
    int64_t iterations;   /* largest number of iterations; 0: 200 */
    double gradient_norm; /* stop when the norm of the gradient is at most this; 0: 1e-6 */
    double least_gain;    /* stop when two iterations in a row reduce the loss by less than this fraction; 0: 1e-9 */
    double l2;            /* the servers add l2 / 2 times the sum of squares of all parameters to the loss */
    /* How long to wait for a replica while another one is idle, before its portion is given to that one; 0: 1000. */
    int64_t patience_ms;
    int64_t deadline_ms; /* fail if no replica is heard from for this long; 0: 60000 */
    /* Called after each iteration, from the thread that minimizes. May be NULL. */
    void (*report)(void *arg, int64_t iteration, double loss, double gradient_norm);
    void *arg; /* passed to report */
} mr_sandblaster_options;

/* Starts a coordinator that listens for replicas. ps must outlive it. Returns NULL after an error. */
MR_EXPORT extern mr_sandblaster *mr_sandblaster_start(const mr_sandblaster_options *options, mr_ps *ps,
                                                      TF_Status *status);
/* Returns the address for replicas, "host:port". It is valid as long as the coordinator. */
MR_EXPORT extern const char *mr_sandblaster_address(const mr_sandblaster *s);
/* Waits for replicas and minimizes. The first replica to join provides the initial values. Another call continues from
 * where the last one ended. Returns the loss including the L2 penalty, NAN after an error. */
MR_EXPORT extern double mr_sandblaster_minimize(mr_sandblaster *s, TF_Status *status);
/* Makes mr_sandblaster_minimize return soon with TF_CANCELLED, now and in later calls. Call it from another thread or
 * from `report`. */
MR_EXPORT extern void mr_sandblaster_cancel(mr_sandblaster *s);

/* What the coordinator has done so far. */
typedef struct mr_sandblaster_stats {
    size_t struct_size;     /* sizeof(mr_sandblaster_stats), set by the caller */
    int64_t iterations;     /* iterations of L-BFGS */
    int64_t evaluations;    /* evaluations of the loss and its gradient */
    int64_t joined;         /* replicas that joined */
    int64_t lost;           /* replicas that were lost */
    int64_t given_twice;    /* portions given to a second replica because the first was not done yet */
    int64_t dropped;        /* results that came second and did not count */
    int64_t bytes_sent;     /* by the coordinator, to replicas */
    int64_t bytes_received; /* by the coordinator, from replicas */
    double gradient_norm;   /* of the last iteration */
} mr_sandblaster_stats;

/* Fills *out. */
MR_EXPORT extern void mr_sandblaster_get_stats(mr_sandblaster *s, mr_sandblaster_stats *out);
/* Frees the coordinator. The work of its replicas ends successfully. NULL is allowed. */
MR_EXPORT extern void mr_sandblaster_free(mr_sandblaster *s);

/* ---- Sandblaster L-BFGS: a replica ---- */

/* One replica of a Sandblaster job. */
typedef struct mr_sandblaster_replica mr_sandblaster_replica;

/* Adds to the model what the replica needs. Call it after the loss is built and before mr_initializer. The loss must be
 * a mean over the examples of a portion; a portion is fed to `inputs`. Returns NULL after an error, which
 * mr_model_status reports. */
MR_EXPORT extern mr_sandblaster_replica *mr_sandblaster_replica_new(mr_model *m, TF_Output loss,
                                                                    const TF_Output *inputs, int ninputs);
/* Frees the replica. NULL is allowed. */
MR_EXPORT extern void mr_sandblaster_replica_free(mr_sandblaster_replica *r);

/* What a replica needs. */
typedef struct mr_sandblaster_work {
    size_t struct_size;      /* sizeof(mr_sandblaster_work) */
    const char *coordinator; /* "host:port"; required */
    const char *name;        /* name of the job; NULL: "sandblaster" */
    /* Stores in input_values the data of portion 0 .. portions - 1, one tensor per input. The library deletes them. The
     * total loss is the sum of weight * loss over all portions. *weight is 1 / portions before the call, which is right
     * if all portions have the same size. Required. */
    void (*portion)(void *arg, int64_t portion, int64_t portions, TF_Tensor **input_values, double *weight,
                    TF_Status *status);
    void *arg;           /* passed to portion */
    int64_t deadline_ms; /* how long to wait for the coordinator to appear; 0: 60000 */
} mr_sandblaster_work;

/* Computes portions until the coordinator is done. The first replica to join stores the values of its variables on the
 * servers. */
MR_EXPORT extern void mr_sandblaster_replica_work(mr_sandblaster_replica *r, TF_Session *session, mr_ps *ps,
                                                  const mr_sandblaster_work *work, TF_Status *status);
/* Makes mr_sandblaster_replica_work return soon with TF_CANCELLED. Call it from another thread. */
MR_EXPORT extern void mr_sandblaster_replica_cancel(mr_sandblaster_replica *r);
/* Assigns the parameters of the job `name` (NULL: "sandblaster") to the variables of the session: those of the minimum,
 * or of the point that the job has reached. */
MR_EXPORT extern void mr_sandblaster_replica_fetch(mr_sandblaster_replica *r, TF_Session *session, mr_ps *ps,
                                                   const char *name, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
