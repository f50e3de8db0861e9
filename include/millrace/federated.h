/* millrace/federated.h -- federated averaging: training on examples that stay where they are.
 *
 * Clients hold examples.  In each round some of them get the model, train it for a few epochs on their own examples, and
 * return by how much it changed; the server averages that, weighted by their numbers of examples (McMahan et al. 2017).
 * Clients may be lost at any time: a round goes on without them, and with too few left it is tried again.  With `secure`
 * the server sees only the sum of the updates, not those of single clients (Bonawitz et al. 2017).
 *
 *     mr_federated_work w = {sizeof w, .model = m, .train = mr_minimize(m, loss, mr_sgd(0.1f)),
 *                            .inputs = (TF_Output[]){x, y}, .num_inputs = 2, .loss = loss};
 *     mr_federated *f = mr_federated_new(&(mr_federated_options){sizeof(mr_federated_options), .work = &w,
 *                                            .fraction = 0.1f, .epochs = 5, .batch = 10,
 *                                            .clients = clients, .num_clients = 100}, status);   // inside this process
 *     while (rounds--) mr_federated_round(f, &report, status);
 *     TF_SessionRun(mr_federated_session(f), ...);                         // has the averaged model
 *
 * With `address` instead of `clients` it serves clients of other processes, which build the same model and call
 * mr_federated_client.  Addresses and keys are those of a cluster (docs/cluster.md).
 *
 * Structs begin with their size, and zero is a sensible value of every other field. */
#ifndef MILLRACE_FEDERATED_H
#define MILLRACE_FEDERATED_H

#include "millrace/millrace.h"
#include "millrace/train.h"
#include "tensorflow/c/c_api.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what clients do ---- */

typedef struct mr_federated_parameter { /* a float variable of known shape */
    TF_Output value;      /* fetched */
    TF_Output feed;       /* a placeholder of its shape */
    TF_Operation *assign; /* run to give the variable what is fed */
} mr_federated_parameter;

typedef struct mr_federated_work {
    size_t struct_size; /* sizeof(mr_federated_work) */
    mr_model *model;    /* its trainable parameters are averaged, its other variables begin anew with each client; or NULL and: */
    TF_Graph *graph;
    const mr_federated_parameter *parameters;
    int num_parameters;
    TF_Operation *init;  /* run once in each session */
    TF_Operation *reset; /* run when a client begins: what optimizers keep; NULL: nothing */
    /* In both cases: */
    TF_Operation *train;     /* one step on a batch */
    const TF_Output *inputs; /* placeholders, fed with rows of a client's examples */
    int num_inputs;
    TF_Output loss; /* a scalar float, fetched with every step; {NULL, 0}: none */
    TF_Output rate; /* a scalar float (mr_setting), fed with the learning rate of the round; {NULL, 0}: none */
} mr_federated_work;

typedef struct mr_federated_examples {
    size_t struct_size;       /* sizeof(mr_federated_examples) */
    TF_Tensor *const *values; /* one an input; dimension 0 counts examples.  Kept, not copied: clients may share them */
    const int64_t *rows;      /* which of them are this client's; NULL: the first num_rows */
    int64_t num_rows;         /* 0 without rows: all */
} mr_federated_examples;

/* ---- the server ---- */

typedef struct mr_federated mr_federated;

typedef struct mr_federated_options {
    size_t struct_size; /* sizeof(mr_federated_options) */
    const mr_federated_work *work;
    /* Whom a round asks: */
    float fraction;   /* of the clients that are there; 0: 0.1 */
    int at_least;     /* but so many; 0: 1 */
    float over;       /* some more, as a fraction of those: they make up for lost ones, and who is too slow does not count */
    float suffice;    /* of the updates wanted, so many are enough when the time is over; 0: half */
    int64_t deadline_ms; /* the time of a stage (a plain round has one); 0: ten minutes */
    int most_tries;   /* of one round; 0: 10 */
    uint64_t seed;    /* of whom is asked, and of the order of examples */
    /* What clients are told: */
    int epochs;  /* 0: 1 */
    int batch;   /* 0: all examples at once */
    float rate;  /* for work->rate */
    /* What becomes of their updates: */
    float server_rate;     /* 0: 1 */
    float server_momentum; /* 0: none */
    int64_t most_examples; /* a client with more counts as having so many; 0: 100000 */
    unsigned char secure;  /* only sums are seen; every round needs three clients */
    float threshold;       /* secure: above this share of a round's clients must stay to its end; 0: two thirds, least: a half */
    float clip;            /* secure: single weights change by no more than this in a round; 0: 4 */
    /* Where clients are.  Inside this process: */
    const mr_federated_examples *clients;
    int num_clients;
    int threads; /* each with a session of its own; 0: one a core */
    float lose;  /* for trials: clients are lost with this probability at each stage */
    /* Or elsewhere: */
    const char *address; /* "host:port", port 0: any */
    int most_clients;    /* at the same time; 0: 10000 */
    int wait_for;        /* a round begins when so many are there; 0: 1 */
    int64_t wait_ms;     /* how long it waits for them; 0: ten minutes */
} mr_federated_options;

typedef struct mr_federated_report {
    size_t struct_size;  /* sizeof(mr_federated_report), set before */
    int64_t round;       /* from 1 on */
    int tries;           /* 1, unless it was given up before */
    int asked, updates;  /* clients */
    int there;           /* clients at its end */
    int64_t examples;    /* behind the updates */
    double loss;         /* mean of the clients' steps, weighted by examples */
    double seconds;
} mr_federated_report;

/* Everything in the options is copied but the examples' tensors, which are kept, and their rows, which must stay. */
MR_EXPORT extern mr_federated *mr_federated_new(const mr_federated_options *options, TF_Status *status);
/* Clients of other processes are told that it is over. */
MR_EXPORT extern void mr_federated_free(mr_federated *f);
/* Until a round is complete; then the session below has the new model.  report may be NULL. */
MR_EXPORT extern void mr_federated_round(mr_federated *f, mr_federated_report *report, TF_Status *status);
/* Ends a round that another thread waits for, with CANCELLED, and those after it. */
MR_EXPORT extern void mr_federated_stop(mr_federated *f);
/* The clients' learning rate from the next round on. */
MR_EXPORT extern void mr_federated_set_rate(mr_federated *f, float rate);
/* A session whose variables are the averaged model, since the end of the last round: to test it, to save it. */
MR_EXPORT extern TF_Session *mr_federated_session(mr_federated *f);
/* Where clients reach it, "host:port"; "" when they are inside this process. */
MR_EXPORT extern const char *mr_federated_address(const mr_federated *f);

/* ---- a client of another process ---- */

typedef struct mr_federated_client_options {
    size_t struct_size; /* sizeof(mr_federated_client_options) */
    const mr_federated_work *work;
    const mr_federated_examples *examples;
    const char *address;  /* the server's */
    int64_t deadline_ms;  /* how long it looks for a server that is not there, or not any more; 0: a minute */
    unsigned char secure; /* refuses to send updates that are not masked */
    const volatile int *stop; /* another thread, or a handler of signals, ends the client (CANCELLED) by setting it to 1; NULL: none */
} mr_federated_client_options;

/* Works until the server says that it is over; returns how many updates it has sent (-1 after an error). */
MR_EXPORT extern int64_t mr_federated_client(const mr_federated_client_options *options, TF_Status *status);

#ifdef __cplusplus
}
#endif

#endif
