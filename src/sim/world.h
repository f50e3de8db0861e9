/* sim/world.h -- internals of the simulation, for the files of this folder.
 *
 * Everything happens in events, in the order of their time. An event belongs to a node and to one generation of it;
 * events of an earlier generation are dropped. All memory is in the run's arena, except for memory that dist/ owns. */
#ifndef MR_SIM_WORLD_H
#define MR_SIM_WORLD_H

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"
#include "dist/master_step.h"
#include "dist/membership.h"
#include "dist/session.h"
#include "dist/sync.h"
#include "dist/worker_steps.h"
#include "sim/sim.h"

#define MR_SIM_US INT64_C(1000)
#define MR_SIM_MS INT64_C(1000000)
#define MR_SIM_S INT64_C(1000000000)

enum { MR_SIM_MAX_TASKS = 6, MR_SIM_MAX_NODES = 10 };

typedef struct mr_sim mr_sim;
typedef struct mr_sim_call mr_sim_call;
typedef struct mr_sim_task mr_sim_task;
typedef struct mr_sim_client mr_sim_client;
typedef void mr_sim_fn(mr_sim *s, void *arg);

typedef struct mr_sim_event {
    int64_t at_ns;
    uint64_t seq; /* events at the same time run in the order of their creation */
    mr_sim_fn *fn;
    void *arg;
    int node; /* -1: belongs to no node */
    uint32_t generation;
} mr_sim_event;

typedef struct mr_sim_node {
    char name[24];
    bool up;
    uint32_t generation;
    uint64_t incarnation;
    int slow; /* factor on the time of everything */
    mr_sim_task *task;
} mr_sim_node;

/* ---- messages ---- */

typedef enum mr_sim_kind {
    MR_SIM_GET_STATUS,
    MR_SIM_CREATE_WORKER_SESSION,
    MR_SIM_DELETE_WORKER_SESSION,
    MR_SIM_REGISTER_GRAPH,
    MR_SIM_RUN_GRAPH,
    MR_SIM_CLEANUP_GRAPH,
    MR_SIM_RECV_TENSOR,
    MR_SIM_HEARTBEAT,
    MR_SIM_CREATE_SESSION,
    MR_SIM_RUN_STEP,
    MR_SIM_CLOSE_SESSION,
} mr_sim_kind;
const char *mr_sim_kind_name(mr_sim_kind k);

/* What a program does at the parameter servers of its mask. */
typedef enum mr_sim_work {
    MR_SIM_ADD,   /* a: added to the counter */
    MR_SIM_INIT,  /* a: updates to begin with, from a checkpoint */
    MR_SIM_READ,  /* -> a: whether it was initialised, b: its updates */
    MR_SIM_STAMP, /* a: gradients for earlier stamps are dropped from now on, including those already stored */
    MR_SIM_PUSH,  /* a: stamp, b: amount: a gradient for the accumulator */
    MR_SIM_APPLY, /* a: how many gradients, b: the next stamp; waits for them */
    MR_SIM_SAY,   /* a, b, c: a message for the chief's queue */
    MR_SIM_HEAR,  /* -> a, b, c; waits for a message */
    MR_SIM_TOKEN, /* a: stamp, b: mask of the workers that get it */
    MR_SIM_WAIT,  /* a: worker -> a: stamp; waits for a token */
} mr_sim_work;

typedef struct mr_sim_value {
    int64_t a, b, c;
} mr_sim_value;

typedef struct mr_sim_message {
    mr_sim_kind kind;
    uint64_t session, graph, incarnation;
    int64_t step, request, timeout_ns;
    mr_sim_value v; /* the fed or fetched value */
    int worker, mask; /* of a program: the task of its client's part, and its parameter servers */
    mr_sim_work work;
    uint64_t incarnations[MR_SIM_MAX_TASKS]; /* incarnations of the tasks, as the session's master knows them */
} mr_sim_message;

struct mr_sim_call {
    uint64_t number;
    int from, to;
    uint32_t from_generation, to_generation;
    int64_t start_ns, request_at_ns;
    mr_sim_message q, reply;
    mr_status *reply_st;
    bool caller_open; /* done has not been called */
    bool served;      /* arrived and not answered */
    bool arrived, dropped, reply_dropped, wait_for_ready, linked;
    int tries; /* transmissions of the message in flight */
    mr_sim_call *origin; /* of a duplicate: the call it copies, which gets its answer */
    mr_sim_call *twin;
    void (*done)(mr_sim *s, mr_sim_call *c, mr_status *st); /* the caller's; owns st */
    void *ctx;
    void (*gone)(mr_sim *s, mr_sim_call *c); /* the server's, while served: the caller has gone */
    void *server;
    mr_sim_call *next, **link; /* list of all open calls */
};

/* ---- the world ---- */

typedef struct mr_sim_ledger mr_sim_ledger;

struct mr_sim {
    mr_arena arena;
    uint64_t random;
    int64_t now_ns;
    uint64_t seq;
    MR_VEC(mr_sim_event) heap;
    int n_tasks, n_ps, n_workers, n_trainers, n_nodes; /* tasks: parameter servers, then workers; then clients: trainers first */
    mr_sim_node nodes[MR_SIM_MAX_NODES];
    mr_sim_client *clients[MR_SIM_MAX_NODES];
    unsigned faults;
    int64_t faults_end_ns;
    bool cut[MR_SIM_MAX_NODES][MR_SIM_MAX_NODES]; /* from, to */
    mr_sim_call *calls;
    uint64_t n_calls;
    mr_sim_ledger *ledger;
    const mr_sim_options *options;
    mr_sim_result *result;
};

/* ---- clock.c: events, random numbers, trace ---- */
void mr_sim_after(mr_sim *s, int node, int64_t ns, mr_sim_fn *fn, void *arg);
bool mr_sim_next(mr_sim *s); /* runs one event; false if there is none */
uint64_t mr_sim_random(mr_sim *s);
int64_t mr_sim_between(mr_sim *s, int64_t low, int64_t high); /* both included */
bool mr_sim_chance(mr_sim *s, int in_10000);
void mr_sim_say(mr_sim *s, int node, const char *fmt, ...) MR_PRINTF(3, 4);
/* Ends the run: an invariant is violated. */
void mr_sim_fail(mr_sim *s, const char *fmt, ...) MR_PRINTF(2, 3);

/* ---- net.c ---- */
/* deadline_ns: from now, 0 for none.  done is called exactly once, unless the caller's node dies first. */
mr_sim_call *mr_sim_start(mr_sim *s, int from, int to, const mr_sim_message *q, int64_t deadline_ns,
                          bool wait_for_ready, void (*done)(mr_sim *, mr_sim_call *, mr_status *), void *ctx);
void mr_sim_cancel(mr_sim *s, mr_sim_call *c);
void mr_sim_reply(mr_sim *s, mr_sim_call *c, mr_status *st); /* takes ownership of st; c->reply must be filled in */
/* The connection between two nodes breaks; each side notices independently. */
void mr_sim_reset(mr_sim *s, int a, int b);
/* The node has died; seen: its peers notice soon, otherwise only by its silence. */
void mr_sim_silence(mr_sim *s, int node, bool seen);
/* Ends calls that have been open for too long across a partition, as keep-alive would. */
void mr_sim_keep_alive(mr_sim *s);
void mr_sim_net_deinit(mr_sim *s);

/* ---- worker.c, master.c: the services of a task ---- */
typedef struct mr_sim_graph mr_sim_graph;
typedef struct mr_sim_worker_run mr_sim_worker_run;
typedef struct mr_sim_msession mr_sim_msession;

struct mr_sim_task {
    int node;
    mr_worker_steps *steps;
    mr_worker_sessions sessions;
    MR_VEC(mr_sim_graph *) graphs;
    uint64_t next_graph;
    mr_membership members;
    mr_recent requests; /* of RunStep */
    MR_VEC(mr_sim_msession *) msessions;
    int64_t heard_ns[MR_SIM_MAX_TASKS]; /* when the last heartbeat or answer of another task arrived, to check
                                         * membership */
    struct mr_sim_ps *ps;
    int64_t next_request;
};
void mr_sim_task_start(mr_sim *s, int node);
void mr_sim_task_end(mr_sim *s, int node); /* with all its state */
void mr_sim_serve(mr_sim *s, mr_sim_call *c);
void mr_sim_serve_worker(mr_sim *s, mr_sim_task *t, mr_sim_call *c);
void mr_sim_serve_master(mr_sim *s, mr_sim_task *t, mr_sim_call *c);
/* Drops sessions of a master's other incarnations (incarnation 0: of all). */
void mr_sim_drop_sessions(mr_sim *s, mr_sim_task *t, int master, uint64_t incarnation);
/* Stops steps that have a part on a task that is lost or restarted. */
void mr_sim_stop_steps(mr_sim *s, mr_sim_task *t, int lost);
void mr_sim_worker_deinit(mr_sim *s, mr_sim_task *t);
void mr_sim_master_deinit(mr_sim *s, mr_sim_task *t);
bool mr_sim_master_knows(const mr_sim_task *t, const char *handle); /* whether it has a session with that handle */
int mr_sim_master_busy(const mr_sim_task *t);                        /* number of running steps */

/* ---- ps.c: the state of a parameter server ---- */
struct mr_sim_ps *mr_sim_ps_new(void);
void mr_sim_ps_free(struct mr_sim_ps *p);
/* Does the work of a step now or later, then calls mr_sim_work_done, unless the step was forgotten meanwhile. */
void mr_sim_ps_work(mr_sim *s, mr_sim_task *t, mr_sim_worker_run *w, mr_sim_work work, const mr_sim_value *v);
void mr_sim_ps_forget(mr_sim_task *t, const mr_sim_worker_run *w);
void mr_sim_work_done(mr_sim *s, mr_sim_worker_run *w, mr_status *st, mr_sim_value v); /* takes ownership of st */

/* ---- faults.c, client.c, trainer.c, check.c ---- */
void mr_sim_plan_faults(mr_sim *s);
void mr_sim_client_start(mr_sim *s, int node);
bool mr_sim_clients_finished(const mr_sim *s);

struct mr_sim_client {
    int node, master;
    uint64_t session;
    mr_sim_fn *ready; /* called when a new session is open */
    bool finished;
    /* for clients that add to counters */
    int n_wanted, n_ok;
    mr_sim_message step; /* the current step */
    int n_retries;
    bool gave_up;
    int64_t start_ns;
    struct mr_sim_trainer *trainer;
};
void mr_sim_client_create(mr_sim *s, void *client);                       /* retries until a session is open */
void mr_sim_client_close(mr_sim *s, mr_sim_client *c, bool for_good);     /* otherwise a new session is opened */
void mr_sim_trainer_start(mr_sim *s, int node, int worker);              /* -1: the chief */
void mr_sim_trainer_deinit(mr_sim_client *c);

/* The ledger compares the answers to clients with the updates at parameter servers. Each request has a unique
 * amount. */
void mr_sim_ledger_open(mr_sim *s);
int64_t mr_sim_ledger_request(mr_sim *s, int mask); /* a new amount */
void mr_sim_ledger_applied(mr_sim *s, int ps, int64_t amount);
void mr_sim_ledger_answered(mr_sim *s, int64_t amount, mr_code code);
void mr_sim_check_end(mr_sim *s);

#endif
