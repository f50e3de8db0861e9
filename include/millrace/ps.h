/* millrace/ps.h -- a parameter server (OSDI'14): vectors by key, sharded over servers, pushed and pulled by workers.
 *
 * A table has num_keys keys, 0 .. num_keys - 1, each with a vector of `width` floats and what the table's update function
 * keeps beside it (Adagrad's sums, say).  Workers push gradients (or values) for sorted keys and pull values; the servers
 * apply the update function.  Every push that was acknowledged counts once and only once, whatever dies meanwhile, as
 * long as one copy of each range is left.
 *
 *     mr_ps_manager *m = mr_ps_manager_start(&(mr_ps_manager_options){sizeof(mr_ps_manager_options), .address = "127.0.0.1:0"}, status);
 *     mr_ps_server *s = mr_ps_server_start(&(mr_ps_server_options){sizeof(mr_ps_server_options), .manager = mr_ps_manager_address(m)}, status);
 *     mr_ps *ps = mr_ps_connect(&(mr_ps_options){sizeof(mr_ps_options), .manager = mr_ps_manager_address(m)}, status);
 *     int w = mr_ps_table(ps, "w", &(mr_ps_table_options){sizeof(mr_ps_table_options), .num_keys = 1000,
 *                                                          .update = MR_PS_ADAGRAD, .rate = 0.1f}, status);
 *     mr_ps_task t = mr_ps_pull(ps, w, keys, n, values, NULL, status);   // asynchronous
 *     mr_ps_wait(ps, t, status);
 *     t = mr_ps_push(ps, w, keys, n, gradients, NULL, status);           // gradients are copied before it returns
 *     mr_ps_wait(ps, t, status);                                         // acknowledged: on all replicas
 *
 * Servers come and go while workers push and pull: what a dead one held is served by its replicas, and calls that were
 * under way are made again without anybody seeing it but in the time they take.
 *
 * All functions may be called from several threads at a time, but for those that free.  Structs of options begin with
 * their size, and zero is a sensible value of every other field. */
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

/* ---- the manager: knows who is there and who holds what ---- */

typedef struct mr_ps_manager mr_ps_manager;

typedef struct mr_ps_manager_options {
    size_t struct_size;    /* sizeof(mr_ps_manager_options) */
    const char *address;   /* "host:port", port 0: any; NULL: 127.0.0.1:0 */
    int replicas;          /* copies of every range, 1: none beside the first; 0: 2 */
    int servers;           /* wait for so many before ranges are dealt out; 0: 1 */
    int64_t lost_ms;       /* a silent server or worker is lost after that; 0: 1000 (a closed connection is seen at once) */
    int num_ranges;        /* the key space of each table is cut into so many pieces; 0: 240 */
    mr_cluster_task *task; /* serves at this task's address instead of one of its own; to be freed before the task */
} mr_ps_manager_options;

/* NULL after an error. */
MR_EXPORT extern mr_ps_manager *mr_ps_manager_start(const mr_ps_manager_options *options, TF_Status *status);
/* "host:port", with the port that was taken. */
MR_EXPORT extern const char *mr_ps_manager_address(const mr_ps_manager *m);
/* Servers and workers go on by what they heard last, and look for a manager at that address: one that is started there anew
 * learns from the servers what they hold. */
MR_EXPORT extern void mr_ps_manager_free(mr_ps_manager *m);

/* ---- a server ---- */

typedef struct mr_ps_server mr_ps_server;

typedef struct mr_ps_server_options {
    size_t struct_size;    /* sizeof(mr_ps_server_options) */
    const char *address;   /* NULL: 127.0.0.1:0 */
    const char *manager;   /* "host:port"; NULL with a task: that of the cluster (see mr_ps_options) */
    int64_t memory;        /* budget in bytes for tables and what is under way; 0: none.  One answer may go over it */
    mr_cluster_task *task; /* serves at this task's address instead of one of its own; to be freed before the task */
} mr_ps_server_options;

/* Joins: ranges come to it while training goes on.  NULL after an error. */
MR_EXPORT extern mr_ps_server *mr_ps_server_start(const mr_ps_server_options *options, TF_Status *status);
/* "host:port", with the port that was taken. */
MR_EXPORT extern const char *mr_ps_server_address(const mr_ps_server *s);
/* Hands its ranges over to the others; when it returns well, the server holds nothing and can be freed without loss. */
MR_EXPORT extern void mr_ps_server_leave(mr_ps_server *s, TF_Status *status);
/* Ends it at once: without mr_ps_server_leave others take it as lost. */
MR_EXPORT extern void mr_ps_server_free(mr_ps_server *s);

/* ---- a client ---- */

typedef struct mr_ps mr_ps;

#define MR_PS_EVENTUAL (-1) /* nobody waits */
#define MR_PS_ADAPTIVE (-2) /* the manager chooses the delay by the waits it sees */

typedef struct mr_ps_options {
    size_t struct_size;       /* sizeof(mr_ps_options) */
    const char *manager;      /* "host:port"; NULL: a manager and a server inside this process */
    const char *name;         /* of this worker, for people; NULL: made up */
    int delay;                /* iterations this worker may be ahead of the slowest one; 0: sequential; or one of the above */
    unsigned char cache_keys; /* key lists that were sent before travel as their hash */
    unsigned char compress;   /* keys as differences, values through Snappy */
    unsigned char half;       /* values travel as 16 bits: 1 bfloat16, 2 fixed point with random rounding */
    unsigned char observer;   /* takes no part in the iterations: nobody waits for it */
    int64_t timeout_ms;       /* of a call, whatever happens; 0: 60000 (mr_ps_iteration waits ten minutes for others) */
    int64_t max_bytes;        /* pushed and not acknowledged yet; a push waits while there are more; 0: 256 MiB */
    mr_cluster_task *task;    /* the manager is at task 0 of "ps" of its cluster; `manager` is not looked at */
} mr_ps_options;

/* Waits, within the time-out, until the ranges are dealt out.  options NULL: all in this process.  NULL after an error. */
MR_EXPORT extern mr_ps *mr_ps_connect(const mr_ps_options *options, TF_Status *status);
/* Leaves: others do not wait for it.  What it pushed and has not waited for is cancelled. */
MR_EXPORT extern void mr_ps_free(mr_ps *ps);

/* What a push does to the values v of its keys; g: what was pushed.  Formulas are those of the Apply* operations. */
typedef enum mr_ps_update {
    MR_PS_ASSIGN,
    MR_PS_ADD,
    MR_PS_SGD,
    MR_PS_MOMENTUM,
    MR_PS_ADAGRAD,
    MR_PS_RMSPROP,
    MR_PS_ADAM,
    MR_PS_FTRL,
    MR_PS_PROXIMAL, /* a push has 2 * width floats a key, the gradient and then the curvature: soft threshold, for L1 */
    MR_PS_GRAPH     /* see graph below */
} mr_ps_update;

typedef struct mr_ps_table_options {
    size_t struct_size; /* sizeof(mr_ps_table_options) */
    uint64_t num_keys;
    int width;                 /* floats a key; 0: 1 */
    mr_ps_update update;
    float rate, a, b, epsilon; /* as mr_optimizer */
    float l1, l2;
    float start, spread; /* values begin as start + spread * u, with u in [-1, 1) made of the key and the seed */
    uint64_t seed;
    int aggregate;     /* the pushes of so many workers make one update, of their mean; 0: each by itself */
    const void *graph; /* a GraphDef with placeholders "value" [n, width], "slot" [n, graph_slots] and "gradient"
                          [n, width] and operations "new_value" and (with slots) "new_slot" of the same shapes */
    size_t graph_bytes;
    int graph_slots; /* floats beside each key's values */
} mr_ps_table_options;

/* Makes a table, or finds the one of that name, which must have the same options.  -1 after an error. */
MR_EXPORT extern int mr_ps_table(mr_ps *ps, const char *name, const mr_ps_table_options *options, TF_Status *status);

typedef int64_t mr_ps_task; /* > 0, rising; 0: none */

typedef struct mr_ps_call {
    size_t struct_size; /* sizeof(mr_ps_call) */
    const mr_ps_task *after; /* not begun before these have ended */
    int num_after;
    float modified;    /* push to ADD, SGD or ASSIGN: only rows whose largest change is above this since they were last sent; the
                          rest is kept for later pushes of the same keys and for mr_ps_flush.  What a push or flush that fails
                          took along is not kept again */
    float keep;        /* push: rows are kept with this probability (random skip), scaled by its inverse; 0: all */
    const float *kkt;    /* push to PROXIMAL: the values of these keys as last pulled; keys whose values are 0 and would stay 0
                            are left out */
    float kkt_threshold; /* they would when no gradient is above this; 0: 0.9 times the table's l1, with which what is
                            pushed, or the mean of what several workers pushed (aggregate), is compared */
    void (*done)(void *arg, mr_ps_task t, const TF_Status *status); /* from a thread of the client; must not block */
    void *arg;
} mr_ps_call;

/* n keys in rising order, width floats for each (PROXIMAL: see above).  Both are copied.  0 after an error, which is the
 * only way status says something: how the push itself ended is told by mr_ps_wait and `done`. */
MR_EXPORT extern mr_ps_task mr_ps_push(mr_ps *ps, int table, const uint64_t *keys, size_t n, const float *values, const mr_ps_call *call,
                                       TF_Status *status);
/* `values` must stay until the task has ended. */
MR_EXPORT extern mr_ps_task mr_ps_pull(mr_ps *ps, int table, const uint64_t *keys, size_t n, float *values, const mr_ps_call *call,
                                       TF_Status *status);
/* Keys first .. first + n - 1, without a list. */
MR_EXPORT extern mr_ps_task mr_ps_push_range(mr_ps *ps, int table, uint64_t first, size_t n, const float *values,
                                             const mr_ps_call *call, TF_Status *status);
MR_EXPORT extern mr_ps_task mr_ps_pull_range(mr_ps *ps, int table, uint64_t first, size_t n, float *values, const mr_ps_call *call,
                                             TF_Status *status);
/* Waits for the end of a task, once: its error.  Errors that nobody asks for are forgotten with mr_ps_wait_all, or when there are
 * thousands of them. */
MR_EXPORT extern void mr_ps_wait(mr_ps *ps, mr_ps_task t, TF_Status *status);
/* Waits for all that was begun so far; the first error among them. */
MR_EXPORT extern void mr_ps_wait_all(mr_ps *ps, TF_Status *status);
/* Pushes what `modified` has kept back from a table's pushes; 0 with an OK status when there is nothing. */
MR_EXPORT extern mr_ps_task mr_ps_flush(mr_ps *ps, int table, TF_Status *status);

/* From now on operations MillracePsPull and MillracePsPush of this process with the attr store=name use this client, until it is
 * freed or bound again with NULL.  Keys of theirs may come in any order. */
MR_EXPORT extern void mr_ps_bind(mr_ps *ps, const char *name, TF_Status *status);

/* ---- vector algebra where the parameters are ---- */

typedef enum mr_ps_algebra {
    MR_PS_DOT,      /* *result = sum a * b */
    MR_PS_SCALE,    /* a *= alpha */
    MR_PS_AXPY,     /* a += alpha * b */
    MR_PS_COPY,     /* a = b */
    MR_PS_FILL,     /* a = alpha */
    MR_PS_MULTIPLY, /* a *= b */
    MR_PS_NORM1     /* *result = sum |a| */
} mr_ps_algebra;

/* Of the values of tables with the same num_keys and width.  Each range is changed at once, one after the other; waits for
 * the end.  Pushes of this client that were begun before have been applied. */
MR_EXPORT extern void mr_ps_vector(mr_ps *ps, mr_ps_algebra what, int a, int b, double alpha, double *result, TF_Status *status);

/* ---- iterations ---- */

/* An iteration of this worker is over and all it began has ended (this call waits for it): waits until it may begin the
 * next one, by `delay`.  Returns its number, the first being 1; -1 after an error. */
MR_EXPORT extern int64_t mr_ps_iteration(mr_ps *ps, TF_Status *status);

/* ---- snapshots ---- */

/* Writes a TensorBundle "folder/ps": every table, what its update keeps, and its options.  Other workers may push meanwhile:
 * rows that are read together (some MiB) are, range by range, of one moment, others of another.  Pushes that `aggregate` has
 * not made an update of yet are not in it, nor is who pushed how far.  The folder is one of this process. */
MR_EXPORT extern void mr_ps_snapshot(mr_ps *ps, const char *folder, TF_Status *status);
/* Makes the tables of a snapshot, or sets them when they are there, on however many servers there are now.  Ranges of which all
 * copies were lost begin anew.
 *
 * What was acknowledged after the snapshot is gone with it, and no worker is told: workers that push across a restore should be
 * stopped, or taken back to where the snapshot was made.  To one that is not, pushes to ranges that were there all the time
 * count once as ever, before the values are set (and are lost) or after; those under way to ranges that began anew end
 * with TF_DATA_LOSS, later ones count.  What `aggregate` had of a range is forgotten.  A worker that outlived all servers and the
 * manager goes on with new ones when their tables have the same numbers, which is so when it comes before others make tables;
 * otherwise its calls end with TF_FAILED_PRECONDITION. */
MR_EXPORT extern void mr_ps_restore(mr_ps *ps, const char *folder, TF_Status *status);

/* ---- what happened ---- */

typedef struct mr_ps_stats {
    size_t struct_size;                 /* sizeof(mr_ps_stats) */
    int64_t bytes_sent, bytes_received; /* bodies of messages to and from servers */
    int64_t pushes, pulls;              /* tasks that ended well */
    int64_t retries;                    /* parts of tasks that were sent again */
    int64_t rows_offered, rows_sent;    /* of pushes: what filters and codecs left */
    int64_t key_lists, key_hits;        /* sent at all, and of these as a hash */
    double waited_s;                    /* in mr_ps_iteration, for others */
    int64_t iteration, delay;           /* of this worker; the delay that holds now */
    int64_t epoch;                      /* of the view */
    int servers;
} mr_ps_stats;

MR_EXPORT extern void mr_ps_get_stats(mr_ps *ps, mr_ps_stats *out);

/* 1: every range has all its copies where they should be; 0: something is still on its way, or an error. */
MR_EXPORT extern unsigned char mr_ps_settled(mr_ps *ps, TF_Status *status);

/* What every worker waited for others, as the manager knows: up to max rows, their number is returned. */
typedef struct mr_ps_worker_stats {
    char name[64];
    int64_t iteration;
    double waited_s;
} mr_ps_worker_stats;

MR_EXPORT extern int mr_ps_worker_waits(mr_ps *ps, mr_ps_worker_stats *rows, int max, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
