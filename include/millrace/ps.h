/* millrace/ps.h -- a parameter server (Li et al., OSDI 2014): vectors by key, sharded over servers, pushed and pulled
 * by workers.
 *
 * A table has num_keys keys, 0 .. num_keys - 1. Each key has a vector of `width` floats, and the state of the table's
 * update function, for example the sums of Adagrad. Workers push gradients (or values) for sorted keys and pull values;
 * the servers apply the update function. Every acknowledged push counts exactly once, whatever fails meanwhile, as long
 * as one copy of each range of keys is left.
 *
 *     mr_ps_manager *m = mr_ps_manager_start(&(mr_ps_manager_options){sizeof(mr_ps_manager_options),
 *                                                                     .address = "127.0.0.1:0"}, status);
 *     mr_ps_server *s = mr_ps_server_start(&(mr_ps_server_options){sizeof(mr_ps_server_options),
 *                                                                  .manager = mr_ps_manager_address(m)}, status);
 *     mr_ps *ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = mr_ps_manager_address(m)}, status);
 *     int w = mr_ps_table(ps, "w", &(mr_ps_table_options){sizeof(mr_ps_table_options), .num_keys = 1000,
 *                                                          .update = MR_PS_ADAGRAD, .rate = 0.1f}, status);
 *     mr_ps_task t = mr_ps_pull(ps, w, keys, n, values, NULL, status);   // asynchronous
 *     mr_ps_wait(ps, t, status);
 *     t = mr_ps_push(ps, w, keys, n, gradients, NULL, status);           // copies the gradients before it returns
 *     mr_ps_wait(ps, t, status);                                         // acknowledged: on all replicas
 *
 * Servers can join and leave while workers push and pull. When a server dies, its replicas serve its ranges; calls that
 * were under way are repeated, which callers notice only by the time it takes.
 *
 * All functions may be called from several threads at once, except those that free. */
#ifndef MILLRACE_PS_H
#define MILLRACE_PS_H

#include <stddef.h>
#include <stdint.h>

#include "millrace/cluster.h"
#include "millrace/millrace.h"
#include "tensorflow/c/tf_status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the manager: tracks servers and workers, and assigns ranges ---- */

/* The manager of a parameter server. */
typedef struct mr_ps_manager mr_ps_manager;

/* Options of the manager. */
typedef struct mr_ps_manager_options {
    size_t struct_size;  /* sizeof(mr_ps_manager_options) */
    const char *address; /* "host:port"; port 0 takes any port; NULL: 127.0.0.1:0 */
    int replicas;        /* copies of every range, the first included; 0: 2 */
    int servers;         /* number of servers to wait for before ranges are assigned; 0: 1 */
    /* A server or worker that is silent for this long is lost; a closed connection is noticed at once; 0: 1000. */
    int64_t lost_ms;
    int num_ranges; /* number of ranges into which the keys of each table are divided; 0: 240 */
    /* Serve at the address of this task instead of `address`; free the manager before the task. */
    mr_cluster_task *task;
} mr_ps_manager_options;

/* Starts a manager in this process. Returns NULL after an error. */
MR_EXPORT extern mr_ps_manager *mr_ps_manager_start(const mr_ps_manager_options *options, TF_Status *status);
/* Returns its address, "host:port", with the actual port. It is valid as long as the manager. */
MR_EXPORT extern const char *mr_ps_manager_address(const mr_ps_manager *m);
/* Stops and frees the manager. Servers and workers continue with what they know and look for a new manager at the same
 * address, which learns from the servers which ranges they hold. NULL is allowed. */
MR_EXPORT extern void mr_ps_manager_free(mr_ps_manager *m);

/* ---- a server ---- */

/* A server that holds ranges of the tables. */
typedef struct mr_ps_server mr_ps_server;

/* Options of a server. */
typedef struct mr_ps_server_options {
    size_t struct_size;  /* sizeof(mr_ps_server_options) */
    const char *address; /* "host:port"; NULL: 127.0.0.1:0 */
    /* Address of the manager, "host:port"; NULL with a task: that of the cluster (see mr_ps_options.task). */
    const char *manager;
    /* Memory limit in bytes for tables and requests under way; a single answer may exceed it; 0: none. */
    int64_t memory;
    mr_cluster_task *task; /* serve at the address of this task instead of `address`; free the server before the task */
} mr_ps_server_options;

/* Starts a server in this process and joins the manager. Ranges are moved to it while training continues. Returns NULL
 * after an error. */
MR_EXPORT extern mr_ps_server *mr_ps_server_start(const mr_ps_server_options *options, TF_Status *status);
/* Returns its address, "host:port", with the actual port. It is valid as long as the server. */
MR_EXPORT extern const char *mr_ps_server_address(const mr_ps_server *s);
/* Moves all ranges of the server to others. When it succeeds, the server holds nothing and can be freed without
 * loss. */
MR_EXPORT extern void mr_ps_server_leave(mr_ps_server *s, TF_Status *status);
/* Stops and frees the server. Without mr_ps_server_leave before, the others treat it as lost. NULL is allowed. */
MR_EXPORT extern void mr_ps_server_free(mr_ps_server *s);

/* ---- a client ---- */

/* The connection of a worker to the servers. */
typedef struct mr_ps mr_ps;

#define MR_PS_EVENTUAL (-1) /* mr_ps_options.delay: nobody waits */
#define MR_PS_ADAPTIVE (-2) /* mr_ps_options.delay: the manager chooses the delay from the waits it observes */

/* Options of a client. */
typedef struct mr_ps_options {
    size_t struct_size;  /* sizeof(mr_ps_options) */
    const char *manager; /* address of the manager, "host:port"; NULL: start a manager and a server in this process */
    const char *name;    /* name of this worker in reports; NULL: one is made up */
    /* Number of iterations this worker may be ahead of the slowest one; 0: none; or MR_PS_EVENTUAL or
     * MR_PS_ADAPTIVE. */
    int delay;
    unsigned char cache_keys; /* 1: lists of keys that were sent before are sent as a hash */
    unsigned char compress;   /* 1: keys are sent as differences, values compressed with Snappy */
    /* Values are sent in 16 bits: 1 as bfloat16, 2 as fixed point with random rounding; 0: in 32 bits. */
    unsigned char half;
    unsigned char observer; /* 1: takes no part in the iterations, so that nobody waits for it */
    int64_t timeout_ms;     /* time limit of a call; 0: 60000 (mr_ps_iteration waits ten minutes for others) */
    int64_t max_bytes;      /* a push waits while more bytes than this are pushed and not acknowledged; 0: 256 MiB */
    mr_cluster_task *task;  /* the manager is at task 0 of the job "ps" of its cluster; `manager` is ignored */
} mr_ps_options;

/* Connects to the servers. Waits until the ranges are assigned, at most timeout_ms. If options is NULL, a manager and a
 * server are started in this process. Returns NULL after an error. */
MR_EXPORT extern mr_ps *mr_ps_connect(const mr_ps_options *options, TF_Status *status);
/* Leaves, so that others do not wait for this worker, and frees the client. Tasks that were not waited for are
 * cancelled. NULL is allowed. */
MR_EXPORT extern void mr_ps_free(mr_ps *ps);

/* ---- tables ---- */

/* What a push does to the values of its keys. The formulas are those of the Apply* operations. */
typedef enum mr_ps_update {
    MR_PS_ASSIGN, /* replaces the values */
    MR_PS_ADD,    /* adds to the values */
    MR_PS_SGD,
    MR_PS_MOMENTUM,
    MR_PS_ADAGRAD,
    MR_PS_RMSPROP,
    MR_PS_ADAM,
    MR_PS_FTRL,
    /* Soft threshold, for L1; a push has 2 * width floats per key, the gradient and then the curvature. */
    MR_PS_PROXIMAL,
    MR_PS_GRAPH /* runs mr_ps_table_options.graph */
} mr_ps_update;

/* The size and the update function of a table. */
typedef struct mr_ps_table_options {
    size_t struct_size; /* sizeof(mr_ps_table_options) */
    uint64_t num_keys;  /* number of keys */
    int width;          /* floats per key; 0: 1 */
    mr_ps_update update; /* the update function */
    float rate;    /* learning rate */
    float a;       /* parameter of the update, as in mr_optimizer */
    float b;       /* the same */
    float epsilon; /* the same */
    float l1;      /* L1 regularization */
    float l2;      /* L2 regularization */
    float start;   /* the initial values are start + spread * u, where u in [-1, 1) is derived from key and seed */
    float spread;  /* see start */
    uint64_t seed; /* see start */
    int aggregate; /* the pushes of this many workers make one update, with their mean; 0: each push is an update */
    /* For MR_PS_GRAPH: a GraphDef with placeholders "value" [n, width], "slot" [n, graph_slots] and "gradient" [n,
     * width], and operations "new_value" and (with slots) "new_slot" of the same shapes. */
    const void *graph;
    size_t graph_bytes; /* size of the GraphDef */
    int graph_slots;    /* floats of state per key */
} mr_ps_table_options;

/* Creates a table, or finds the existing one of this name, which must have the same options. The options are required.
 * Returns the number of the table, -1 after an error. */
MR_EXPORT extern int mr_ps_table(mr_ps *ps, const char *name, const mr_ps_table_options *options, TF_Status *status);

/* ---- push and pull ---- */

/* The number of an asynchronous call. Numbers are positive and increase; 0 means none. */
typedef int64_t mr_ps_task;

/* Options of a push or pull. */
typedef struct mr_ps_call {
    size_t struct_size;      /* sizeof(mr_ps_call) */
    const mr_ps_task *after; /* tasks that must end before this one starts */
    int num_after;           /* number of these tasks */
    /* Push to ADD, SGD or ASSIGN: send only rows whose largest change since they were last sent is above this. The rest
     * is kept for later pushes of the same keys, and for mr_ps_flush. Changes that were part of a failed push or flush
     * are not kept. */
    float modified;
    float keep; /* push: keep each row with this probability, and scale it by the inverse; 0: keep all rows */
    /* Push to PROXIMAL: the values of these keys as last pulled; keys whose values are 0 and would stay 0 are left
     * out. */
    const float *kkt;
    /* A value would stay 0 if no gradient is above this; 0: 0.9 times the table's l1, which is compared with the pushed
     * gradient or, with `aggregate`, with the mean of those of several workers. */
    float kkt_threshold;
    /* Called by a thread of the client when the task has ended; must not block; may be NULL. */
    void (*done)(void *arg, mr_ps_task t, const TF_Status *status);
    void *arg; /* passed to done */
} mr_ps_call;

/* Starts to push `width` floats for each of n keys, which must be in increasing order (for MR_PS_PROXIMAL, 2 * width
 * floats). Keys and values are copied. Returns the task, 0 after an error. status reports only errors of starting;
 * mr_ps_wait and `done` report how the push ended. */
MR_EXPORT extern mr_ps_task mr_ps_push(mr_ps *ps, int table, const uint64_t *keys, size_t n, const float *values,
                                       const mr_ps_call *call, TF_Status *status);
/* Starts to pull the values of n keys, which must be in increasing order. Keys are copied; `values` must stay valid
 * until the task has ended. Returns as mr_ps_push. */
MR_EXPORT extern mr_ps_task mr_ps_pull(mr_ps *ps, int table, const uint64_t *keys, size_t n, float *values,
                                       const mr_ps_call *call, TF_Status *status);
/* Like mr_ps_push, for the keys first .. first + n - 1. */
MR_EXPORT extern mr_ps_task mr_ps_push_range(mr_ps *ps, int table, uint64_t first, size_t n, const float *values,
                                             const mr_ps_call *call, TF_Status *status);
/* Like mr_ps_pull, for the keys first .. first + n - 1. */
MR_EXPORT extern mr_ps_task mr_ps_pull_range(mr_ps *ps, int table, uint64_t first, size_t n, float *values,
                                             const mr_ps_call *call, TF_Status *status);
/* Waits for a task to end and reports its error, once. Errors that are never asked for are forgotten by mr_ps_wait_all,
 * or when there are thousands of them. */
MR_EXPORT extern void mr_ps_wait(mr_ps *ps, mr_ps_task t, TF_Status *status);
/* Waits for all tasks that were started so far and reports the first error among them. */
MR_EXPORT extern void mr_ps_wait_all(mr_ps *ps, TF_Status *status);
/* Pushes the changes that `modified` has kept back from a table. Returns the task, 0 with TF_OK if there are none. */
MR_EXPORT extern mr_ps_task mr_ps_flush(mr_ps *ps, int table, TF_Status *status);

/* From now on, the operations MillracePsPull and MillracePsPush in this process with the attr store=name use this
 * client, until it is freed or this function is called again for it; with name NULL, no operations use it. Their keys
 * may be in any order. */
MR_EXPORT extern void mr_ps_bind(mr_ps *ps, const char *name, TF_Status *status);

/* ---- vector algebra on the servers ---- */

/* Operations on the values of the tables a and b. */
typedef enum mr_ps_algebra {
    MR_PS_DOT,      /* *result = sum of a * b */
    MR_PS_SCALE,    /* a *= alpha */
    MR_PS_AXPY,     /* a += alpha * b */
    MR_PS_COPY,     /* a = b */
    MR_PS_FILL,     /* a = alpha */
    MR_PS_MULTIPLY, /* a *= b */
    MR_PS_NORM1     /* *result = sum of |a| */
} mr_ps_algebra;

/* Runs such an operation and waits for it. The tables must have the same num_keys and width. Each range is changed
 * atomically, one after the other. Pushes that this client started before are applied first. */
MR_EXPORT extern void mr_ps_vector(mr_ps *ps, mr_ps_algebra what, int a, int b, double alpha, double *result,
                                   TF_Status *status);

/* ---- iterations ---- */

/* Ends an iteration of this worker: waits for its tasks, and then until `delay` allows the next iteration. Returns the
 * number of the next iteration, -1 after an error. The first iteration is 1. */
MR_EXPORT extern int64_t mr_ps_iteration(mr_ps *ps, TF_Status *status);

/* ---- snapshots ---- */

/* Writes a TensorBundle "folder/ps" with every table, the state of its update function, and its options. The folder is
 * on the machine of this process. Other workers may push meanwhile: rows of a range that are read together (some MiB)
 * are from one moment, others from another. Pushes that `aggregate` has not yet turned into an update are not included,
 * nor is how far each worker has pushed. */
MR_EXPORT extern void mr_ps_snapshot(mr_ps *ps, const char *folder, TF_Status *status);
/* Creates the tables of a snapshot, or sets their values if they exist, on any number of servers. Ranges of which all
 * copies were lost are created again.
 *
 * Pushes that were acknowledged after the snapshot are lost, and workers are not told. Workers that push during a
 * restore should be stopped, or set back to the point of the snapshot. For a worker that is not, pushes to ranges that
 * existed all the time count once, either before the values are set, and are lost, or after. Pushes under way to ranges
 * that were created again end with TF_DATA_LOSS; later ones count. What `aggregate` had collected for a range is
 * forgotten.
 *
 * A worker that outlived all servers and the manager continues with new ones if their tables have the same numbers,
 * which is so if it connects before others create tables. Otherwise its calls end with TF_FAILED_PRECONDITION. */
MR_EXPORT extern void mr_ps_restore(mr_ps *ps, const char *folder, TF_Status *status);

/* ---- statistics ---- */

/* What a client has done so far. */
typedef struct mr_ps_stats {
    size_t struct_size;     /* sizeof(mr_ps_stats), set by the caller */
    int64_t bytes_sent;     /* bytes in the bodies of messages to servers */
    int64_t bytes_received; /* the same from servers */
    int64_t pushes;         /* pushes that succeeded */
    int64_t pulls;          /* pulls that succeeded */
    int64_t retries;        /* parts of tasks that were sent again */
    int64_t rows_offered;   /* rows of all pushes */
    int64_t rows_sent;      /* rows that were left after filters */
    int64_t key_lists;      /* lists of keys that were sent */
    int64_t key_hits;       /* of these, sent as a hash */
    double waited_s;        /* time spent in mr_ps_iteration, waiting for others */
    int64_t iteration;      /* iteration of this worker */
    int64_t delay;          /* the delay at the moment */
    int64_t epoch;          /* version of the assignment of ranges to servers */
    int servers;            /* number of servers */
} mr_ps_stats;

/* Fills *out. */
MR_EXPORT extern void mr_ps_get_stats(mr_ps *ps, mr_ps_stats *out);

/* Returns 1 if every range has all its copies in place; 0 if some are still being moved, or after an error. */
MR_EXPORT extern unsigned char mr_ps_settled(mr_ps *ps, TF_Status *status);

/* How long a worker has waited for others. */
typedef struct mr_ps_worker_stats {
    char name[64];
    int64_t iteration;
    double waited_s;
} mr_ps_worker_stats;

/* Asks the manager how long each worker has waited. Fills at most `max` rows and returns their number. */
MR_EXPORT extern int mr_ps_worker_waits(mr_ps *ps, mr_ps_worker_stats *rows, int max, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
