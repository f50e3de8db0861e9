/* millrace/federated.h -- federated averaging: training on examples that stay where they are.
 *
 * Clients hold the examples. In each round, some clients receive the model, train it for a few epochs on their own
 * examples, and return how much it changed. The server averages these updates, weighted by the numbers of examples
 * (McMahan et al., 2017). Clients may be lost at any time: a round continues without them, and is tried again if too
 * few are left. With `secure`, the server sees only the sum of the updates, not those of single clients (Bonawitz et
 * al., 2017).
 *
 *     mr_federated_work w = {sizeof w, .model = m, .train = mr_minimize(m, loss, mr_sgd(0.1f)),
 *                            .inputs = (TF_Output[]){x, y}, .num_inputs = 2, .loss = loss};
 *     mr_federated *f = mr_federated_new(&(mr_federated_options){sizeof(mr_federated_options), .work = &w,
 *                                            .fraction = 0.1f, .epochs = 5, .batch = 10,
 *                                            .clients = clients, .num_clients = 100}, status);   // in this process
 *     while (rounds--) mr_federated_round(f, &report, status);
 *     TF_SessionRun(mr_federated_session(f), ...);                         // has the averaged model
 *
 * With `address` instead of `clients`, it serves clients in other processes, which build the same model and call
 * mr_federated_client. Addresses and keys are those of a cluster (docs/cluster.md). */
#ifndef MILLRACE_FEDERATED_H
#define MILLRACE_FEDERATED_H

#include "millrace/millrace.h"
#include "millrace/train.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the work of a client ---- */

/* A float variable of known shape. */
typedef struct mr_federated_parameter {
    TF_Output value;      /* fetched to read the variable */
    TF_Output feed;       /* a placeholder of its shape */
    TF_Operation *assign; /* assigns the fed value to the variable */
} mr_federated_parameter;

/* How to train the model. Either `model` is set, or the graph and its parameters are described one by one. */
typedef struct mr_federated_work {
    size_t struct_size; /* sizeof(mr_federated_work) */
    /* The model. Its trainable parameters are averaged; its other variables are initialized again for each client.
     * NULL: the fields from graph to reset describe the model. */
    mr_model *model;
    TF_Graph *graph; /* the graph */
    const mr_federated_parameter *parameters; /* the variables to average */
    int num_parameters;      /* number of parameters */
    TF_Operation *init;      /* run once in each session */
    TF_Operation *reset;     /* run when a client starts, to reset the state of the optimizer; NULL: nothing to reset */
    TF_Operation *train;     /* one training step on a batch */
    const TF_Output *inputs; /* placeholders that are fed with a batch of the client's examples */
    int num_inputs;          /* number of inputs */
    TF_Output loss;          /* a float scalar, fetched with every step; {NULL, 0}: none */
    TF_Output rate;          /* a float scalar (mr_setting), fed with the learning rate of the round; {NULL, 0}: none */
} mr_federated_work;

/* The examples of a client. */
typedef struct mr_federated_examples {
    size_t struct_size; /* sizeof(mr_federated_examples) */
    /* One tensor per input; dimension 0 counts the examples. They are shared, not copied, so that clients can use the
     * same tensors. */
    TF_Tensor *const *values;
    const int64_t *rows; /* the examples of this client; NULL: the first num_rows */
    int64_t num_rows;    /* number of examples; 0 without rows: all */
} mr_federated_examples;

/* ---- the server ---- */

/* A server of federated averaging, or a simulation with clients in this process. */
typedef struct mr_federated mr_federated;

/* Options of the server. */
typedef struct mr_federated_options {
    size_t struct_size;            /* sizeof(mr_federated_options) */
    const mr_federated_work *work; /* required */
    float fraction;                /* clients in a round: this fraction of the connected clients; 0: 0.1 */
    int at_least;                  /* but at least this many; 0: 1 */
    /* Ask some more clients, as a fraction of those. They replace lost ones; updates that come last do not count. */
    float over;
    float suffice;         /* when the time is over, this fraction of the wanted updates is enough; 0: one half */
    int64_t deadline_ms;   /* time limit of each stage of a round; a plain round has one stage; 0: ten minutes */
    int most_tries;        /* how often a round is tried; 0: 10 */
    uint64_t seed;         /* for the choice of clients and the order of examples */
    int epochs;            /* epochs that a client trains; 0: 1 */
    int batch;             /* batch size of a client; 0: all its examples */
    float rate;            /* learning rate of a client, for work->rate */
    float server_rate;     /* how far the server moves along the averaged update; 0: 1 */
    float server_momentum; /* momentum of the server; 0: none */
    int64_t most_examples; /* a client with more examples counts as one with this many; 0: 100000 */
    /* 1: secure aggregation, in which the server sees only sums. Every round needs three clients. UNIMPLEMENTED where
     * libmillrace-crypto.so cannot be opened. */
    unsigned char secure;
    /* With secure, more than this fraction of a round's clients must stay until its end; 0: two thirds; the minimum is
     * one half. */
    float threshold;
    float clip; /* with secure, a single weight changes by at most this much in a round; 0: 4 */
    const mr_federated_examples *clients; /* clients in this process; NULL: clients connect to `address` */
    int num_clients;     /* number of these clients */
    int threads;         /* threads that train them, each with its own session; 0: one per core */
    float lose;          /* for experiments: probability that a client is lost in each stage */
    const char *address; /* "host:port" for clients in other processes; port 0 takes any port */
    int most_clients;    /* largest number of connected clients; 0: 10000 */
    int wait_for;        /* a round starts when this many clients are connected; 0: 1 */
    int64_t wait_ms;     /* how long a round waits for them; 0: ten minutes */
} mr_federated_options;

/* The result of a round. */
typedef struct mr_federated_report {
    size_t struct_size; /* sizeof(mr_federated_report), set by the caller */
    int64_t round;      /* number of the round, from 1 */
    int tries;          /* how often it was tried */
    int asked;          /* clients that were asked */
    int updates;        /* updates that were averaged */
    int there;          /* clients that were connected at its end */
    int64_t examples;   /* number of examples used for the updates */
    double loss;        /* mean loss of the clients' steps, weighted by examples */
    double seconds;     /* duration of the round */
} mr_federated_report;

/* Creates a server, whose initial model is the one that work->init or the model's initializer makes. The options are
 * copied, except for the tensors of the examples, which are shared, and their rows, which must stay valid. Either
 * clients or address must be set. Returns NULL after an error. */
MR_EXPORT extern mr_federated *mr_federated_new(const mr_federated_options *options, TF_Status *status);
/* Frees the server. Clients in other processes are told that the training is over. NULL is allowed. */
MR_EXPORT extern void mr_federated_free(mr_federated *f);
/* Runs one round; afterwards the session below has the new model. report may be NULL. Fails with TF_ABORTED after
 * most_tries, with TF_DEADLINE_EXCEEDED if there are too few clients, and with TF_CANCELLED after mr_federated_stop. */
MR_EXPORT extern void mr_federated_round(mr_federated *f, mr_federated_report *report, TF_Status *status);
/* Makes the current round of another thread, and all later ones, end with TF_CANCELLED. */
MR_EXPORT extern void mr_federated_stop(mr_federated *f);
/* Sets the learning rate of the clients, from the next round on. */
MR_EXPORT extern void mr_federated_set_rate(mr_federated *f, float rate);
/* Returns a session whose variables are the averaged model after the last round, for testing or saving it. The server
 * owns it. */
MR_EXPORT extern TF_Session *mr_federated_session(mr_federated *f);
/* Returns the address of the server, "host:port"; "" if its clients are in this process. It is valid as long as the
 * server. */
MR_EXPORT extern const char *mr_federated_address(const mr_federated *f);

/* ---- a client in another process ---- */

/* What a client needs. */
typedef struct mr_federated_client_options {
    size_t struct_size;            /* sizeof(mr_federated_client_options) */
    const mr_federated_work *work; /* required */
    const mr_federated_examples *examples; /* required */
    const char *address;  /* address of the server; required */
    int64_t deadline_ms;  /* how long to look for a server that is not there, or no longer there; 0: one minute */
    unsigned char secure; /* 1: refuse to send updates that are not masked; UNIMPLEMENTED as above */
    /* Another thread or a signal handler sets this to 1 to end the client with TF_CANCELLED; NULL: none. */
    const volatile int *stop;
} mr_federated_client_options;

/* Trains for the server until the server ends. Returns how many updates the client has sent, -1 after an error. */
MR_EXPORT extern int64_t mr_federated_client(const mr_federated_client_options *options, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
