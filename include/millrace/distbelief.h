/* millrace/distbelief.h -- DistBelief (Dean et al., 2012) on the parameter server: Downpour SGD and Sandblaster L-BFGS.
 *
 * Downpour.  Any number of replicas, each a process or a thread with a session of its own (on one device or many, here or on
 * a cluster: any session will do), train the same model on data of their own.  They never wait for each other: each fetches
 * parameters and pushes gradients when it likes, beside its computing, and one that dies is not missed.
 *
 *     mr_model *m = mr_model_new(graph);
 *     ... loss = mr_softmax_loss(m, logits, labels) ...
 *     mr_downpour *d = mr_downpour_new(m, loss, &(mr_downpour_options){sizeof(mr_downpour_options), .replica = 2, .rate = 0.05f});
 *     ... run mr_initializer(m) ...
 *     mr_ps *ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = "10.0.0.1:7000"}, status);
 *     mr_downpour_start(d, session, ps, status);
 *     for (...) mr_downpour_train(d, inputs, values, 2, &loss, &value, 1, status);
 *     mr_downpour_finish(d, status);
 *
 * Sandblaster.  A coordinator minimises a loss over all data by L-BFGS without ever seeing a parameter: vectors are added and
 * multiplied where they are, on the servers, and replicas compute small portions of the loss and its gradient, as many as each
 * can.  Replicas may come, be slow and die at any time: every portion counts exactly once in each evaluation.
 *
 *     coordinator:  mr_sandblaster *s = mr_sandblaster_start(&(mr_sandblaster_options){sizeof(mr_sandblaster_options),
 *                                                             .address = "0.0.0.0:7100", .portions = 64}, ps, status);
 *                   double loss = mr_sandblaster_minimize(s, status);
 *     a replica:    mr_sandblaster_replica *r = mr_sandblaster_replica_new(m, loss, inputs, 2);
 *                   ... run mr_initializer(m) ...
 *                   mr_sandblaster_replica_work(r, session, ps, &(mr_sandblaster_work){sizeof(mr_sandblaster_work),
 *                                               .coordinator = "10.0.0.1:7100", .portion = read_portion}, status);
 *
 * Structs of options begin with their size, and zero is a sensible value of every other field. */
#ifndef MILLRACE_DISTBELIEF_H
#define MILLRACE_DISTBELIEF_H

#include "millrace/ps.h"
#include "millrace/train.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Downpour SGD ---- */

typedef struct mr_downpour mr_downpour;

typedef struct mr_downpour_options {
    size_t struct_size; /* sizeof(mr_downpour_options) */
    const char *name;   /* of the job: its tables begin with it; NULL: "downpour" */
    int replica;        /* 0, 1, ..: the lowest one gives the servers its initial values and warms up */
    int64_t n_fetch;    /* steps from one fetch to the next; 0: 1 */
    int64_t n_push;     /* the same of pushes, of the gradients summed meanwhile; 0: 1 */
    int64_t most_behind; /* steps it may be ahead of what the servers have answered, while they fail over, say: then it waits for
                            them; 0: four times the larger of n_fetch and n_push */
    int64_t warm_steps; /* replicas but the first begin when the job has made so many; 0: at once */
    int64_t patience_ms; /* a job that stands still for so long before it has begun is taken over by the next replica; 0: 1000 */
    mr_ps_update update; /* of the servers; 0 (ASSIGN, which would be none): ADAGRAD */
    float rate, a, b, epsilon; /* of that, as in mr_ps_table_options; rate 0: 0.05; Adagrad's a 0: 0.1 */
    float local_rate;   /* the replica's own parameters move by this times each gradient until the next fetch; 0: they do not */
    int64_t deadline_ms; /* for any wait for servers; 0: 60000 */
} mr_downpour_options;

/* To be made after the loss and before mr_initializer, instead of mr_minimize.  NULL after an error, which waits in
 * mr_model_status.  All trainable variables of the model go to the servers, in equal shares; one whose gradient is rows (an
 * embedding) goes row by row. */
MR_EXPORT extern mr_downpour *mr_downpour_new(mr_model *m, TF_Output loss, const mr_downpour_options *options);
/* Before the session's graph. */
MR_EXPORT extern void mr_downpour_free(mr_downpour *d);
/* The session's variables must have been initialised; it and ps must outlive d.  Where the job has begun already, its
 * parameters are fetched. */
MR_EXPORT extern void mr_downpour_start(mr_downpour *d, TF_Session *session, mr_ps *ps, TF_Status *status);
/* One step; returns how many this replica has made, -1 after an error.  output_values are to be deleted. */
MR_EXPORT extern int64_t mr_downpour_train(mr_downpour *d, const TF_Output *inputs, TF_Tensor *const *input_values, int ninputs, const TF_Output *outputs, TF_Tensor **output_values, int noutputs, TF_Status *status);
/* Pushes what is left and waits until the servers have it.  mr_downpour_start begins again. */
MR_EXPORT extern void mr_downpour_finish(mr_downpour *d, TF_Status *status);
/* The session's variables become what the servers have now: to test the model, or save it. */
MR_EXPORT extern void mr_downpour_fetch(mr_downpour *d, TF_Status *status);

typedef struct mr_downpour_stats {
    size_t struct_size;     /* sizeof(mr_downpour_stats) */
    int64_t steps;          /* of this replica */
    int64_t fetches, pushes;
    int64_t steps_of_all;   /* pushed by all replicas, as last seen */
    double waited_s;        /* for servers, after the first fetch */
    double longest_step_s;  /* from one step's end to the next's, what the caller does in between too */
    unsigned char gave_values; /* this replica gave the servers their initial values */
    double longest_wait_s;  /* for servers, at one time */
} mr_downpour_stats;
MR_EXPORT extern void mr_downpour_get_stats(const mr_downpour *d, mr_downpour_stats *out);

/* ---- Sandblaster L-BFGS: the coordinator ---- */

typedef struct mr_sandblaster mr_sandblaster;

typedef struct mr_sandblaster_options {
    size_t struct_size;   /* sizeof(mr_sandblaster_options) */
    const char *name;     /* of the job: its tables begin with it; NULL: "sandblaster" */
    const char *address;  /* "host:port" for replicas to come to; NULL: any port of the loopback */
    int portions;         /* the data are cut into so many; several for each replica are best; 0: 32 */
    int history;          /* pairs of vectors, at most 100; 0: 10 */
    int64_t iterations;   /* at most; 0: 200 */
    double gradient_norm; /* ends when the gradient is not longer than this; 0: 1e-6 */
    double least_gain;    /* ends when two iterations in a row gain less than this part of the loss; 0: 1e-9 */
    double l2;            /* l2 / 2 times the sum of squares of all parameters is added to the loss, by the servers */
    int64_t patience_ms;  /* with a replica while another is idle; 0: 1000 */
    int64_t deadline_ms;  /* no replica says anything for so long: an error; 0: 60000 */
    /* After each iteration, from the thread that minimises; may be NULL. */
    void (*report)(void *arg, int64_t iteration, double loss, double gradient_norm);
    void *arg;
} mr_sandblaster_options;

/* Opens its address for replicas.  ps must outlive it. */
MR_EXPORT extern mr_sandblaster *mr_sandblaster_start(const mr_sandblaster_options *options, mr_ps *ps, TF_Status *status);
MR_EXPORT extern const char *mr_sandblaster_address(const mr_sandblaster *s);
/* Waits for replicas, whose initial values are where it begins, and minimises; called again it goes on from where it is.
 * Returns the loss, the penalty included; NAN after an error. */
MR_EXPORT extern double mr_sandblaster_minimize(mr_sandblaster *s, TF_Status *status);
/* From another thread, or from `report`: minimising ends soon, with CANCELLED, also the next time. */
MR_EXPORT extern void mr_sandblaster_cancel(mr_sandblaster *s);

typedef struct mr_sandblaster_stats {
    size_t struct_size; /* sizeof(mr_sandblaster_stats) */
    int64_t iterations, evaluations;
    int64_t joined, lost; /* replicas */
    int64_t given_twice;  /* portions computed by a second replica, because the first was not done yet */
    int64_t dropped;      /* results that came second, and did not count */
    int64_t bytes_sent, bytes_received; /* by the coordinator, to and from replicas */
    double gradient_norm;
} mr_sandblaster_stats;
MR_EXPORT extern void mr_sandblaster_get_stats(mr_sandblaster *s, mr_sandblaster_stats *out);
/* Lets the replicas go: their work ends well. */
MR_EXPORT extern void mr_sandblaster_free(mr_sandblaster *s);

/* ---- Sandblaster L-BFGS: a replica ---- */

typedef struct mr_sandblaster_replica mr_sandblaster_replica;

/* To be made after the loss (a mean over a portion's examples) and before mr_initializer; inputs are what a portion is fed to.
 * NULL after an error, which waits in mr_model_status. */
MR_EXPORT extern mr_sandblaster_replica *mr_sandblaster_replica_new(mr_model *m, TF_Output loss, const TF_Output *inputs, int ninputs);
MR_EXPORT extern void mr_sandblaster_replica_free(mr_sandblaster_replica *r);

typedef struct mr_sandblaster_work {
    size_t struct_size;      /* sizeof(mr_sandblaster_work) */
    const char *coordinator; /* "host:port" */
    const char *name;        /* of the job; NULL: "sandblaster" */
    /* Fills in the values of portion 0 .. portions - 1, which are deleted later.  The loss is the sum of weight * loss over
     * all portions; *weight is 1 / portions before the call, which is right where portions are of the same size. */
    void (*portion)(void *arg, int64_t portion, int64_t portions, TF_Tensor **input_values, double *weight, TF_Status *status);
    void *arg;
    int64_t deadline_ms; /* for the coordinator to be there; 0: 60000 */
} mr_sandblaster_work;

/* Computes portions until the coordinator is done, then returns.  The first replica to come gives the servers its variables'
 * values. */
MR_EXPORT extern void mr_sandblaster_replica_work(mr_sandblaster_replica *r, TF_Session *session, mr_ps *ps, const mr_sandblaster_work *work, TF_Status *status);
/* From another thread: the work ends soon, with CANCELLED. */
MR_EXPORT extern void mr_sandblaster_replica_cancel(mr_sandblaster_replica *r);
/* The session's variables become the parameters of a job's minimum (or wherever it is). */
MR_EXPORT extern void mr_sandblaster_replica_fetch(mr_sandblaster_replica *r, TF_Session *session, mr_ps *ps, const char *name, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
