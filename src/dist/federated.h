/* dist/federated.h -- rounds of federated averaging: which clients to ask, what counts, when a round is over.
 *
 * Pure: events in, actions out.  A round asks a share of the present clients, drawn by a seed, and some more than it
 * needs, because clients are phones and laptops that disappear without notice.  It is complete when enough updates have
 * arrived, or when its time is over and those that arrived suffice.  With too few it is given up: nothing of it counts,
 * and the same round is tried again with other clients.
 *
 * Every try has a ticket, and tickets rise.  An answer counts once, and only for the ticket and the stage that its
 * client was asked for: late or repeated answers, and those of a try that was given up, are dropped.  A client that
 * went away is out of the try, even when it comes back, because it may have lost its state.
 *
 * A plain round has one stage, TRAIN.  A secure one (fed/secure.h) has four: KEYS, SHARES, TRAIN (the masked update)
 * and UNMASK.  The clients that answered a stage are asked for the next one.  The shares of any `threshold` clients
 * restore a secret, so a stage with fewer answers ends the try. */
#ifndef MR_DIST_FEDERATED_H
#define MR_DIST_FEDERATED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

typedef enum mr_fed_stage {
    MR_FED_REST, /* between rounds */
    MR_FED_KEYS,
    MR_FED_SHARES,
    MR_FED_TRAIN,
    MR_FED_UNMASK,
} mr_fed_stage;

typedef enum mr_fed_message {
    MR_FED_JOIN,   /* a client is present */
    MR_FED_GONE,   /* it has gone */
    MR_FED_ANSWER, /* its answer to `ticket` and `stage`; the caller has checked that it is well-formed */
    MR_FED_REFUSE, /* it could not answer, or its answer is malformed: it is out of this try */
    MR_FED_TIME,   /* time has passed */
} mr_fed_message;

typedef struct mr_fed_event {
    mr_fed_message message;
    int64_t client, ticket, stage; /* from the wire: checked here */
} mr_fed_event;

typedef enum mr_fed_do {
    MR_FED_ASK,      /* `client` for `stage` of `ticket` */
    MR_FED_TAKE,     /* the answer of this event counts */
    MR_FED_DROP,     /* the answer of this event does not */
    MR_FED_NEXT,     /* the stage before `stage` is over, and `count` clients continue; comes before the next ASKs */
    MR_FED_COMPLETE, /* average `count` updates: the round is complete */
    MR_FED_GIVE_UP,  /* forget all answers of `ticket` */
    MR_FED_FAIL,     /* too many tries of one round were given up; no action follows */
} mr_fed_do;

typedef struct mr_fed_action {
    mr_fed_do what;
    mr_fed_stage stage;
    int client, count;
    int64_t ticket;
} mr_fed_action;
typedef MR_VEC(mr_fed_action) mr_fed_actions;

typedef struct mr_fed_options {
    int n_clients;    /* numbered 0 .. n_clients - 1 */
    double fraction;  /* C: the share of present clients that a round uses */
    int at_least;     /* but at least this many, if present; 0: 1 */
    double over;      /* how many more are asked: 0.3 means three more for ten */
    double suffice;   /* share of the wanted updates that makes a round when its time is over; 0: half */
    int wait_for;     /* present clients before a round begins; 0: 1 */
    bool secure;
    double threshold; /* secure: more than this share of the clients that gave keys; 0: two thirds.  At least a half */
    int64_t stage_ns; /* time of a stage; 0: no limit */
    int64_t pause_ns; /* before a round is tried again */
    int most_tries;   /* of one round; 0: no limit */
    uint64_t seed;
} mr_fed_options;

/* With fewer clients in a sum, one client's update could be computed by the others. */
enum { MR_FED_SECURE_LEAST = 3 };

typedef struct mr_fed_client {
    bool there;
    bool chosen;   /* takes part in the present try */
    bool answered; /* the present stage */
    bool counted;  /* its update is in the sum */
} mr_fed_client;

typedef struct mr_fed {
    mr_fed_options o;
    mr_fed_client *clients;
    int n_there;
    int64_t round;  /* the one being made, from 1 on */
    int64_t ticket; /* of the present try, or the last */
    int tries;      /* of this round */
    mr_fed_stage stage;
    int wanted, suffice, threshold; /* of the present try; the threshold is known after KEYS */
    int n_open, n_answered;         /* chosen clients that have not, or have, answered the stage */
    int n_counted;
    int64_t until_ns;  /* the stage's end; 0: none */
    int64_t not_before_ns;
    bool hold;         /* the round is complete; mr_fed_go begins the next one */
    bool failed;
} mr_fed;

/* The caller has checked the options with mr_fed_check. */
void mr_fed_init(mr_fed *f, const mr_fed_options *o);
void mr_fed_deinit(mr_fed *f);
/* NULL, or what is wrong with the options; a constant text. */
const char *mr_fed_check(const mr_fed_options *o);
/* Begins the next round.  After a complete round nothing is asked until the caller calls this. */
void mr_fed_go(mr_fed *f, int64_t now_ns, mr_fed_actions *out);
/* Handles an event; appends the actions in the order in which they must be done.  Messages of unknown clients are
 * dropped. */
void mr_fed_step(mr_fed *f, const mr_fed_event *e, int64_t now_ns, mr_fed_actions *out);
/* The answers that the caller took are useless (shares that restore nothing): the try is given up, even if it was
 * complete. */
void mr_fed_spoilt(mr_fed *f, int64_t now_ns, mr_fed_actions *out);
/* How many clients must be present before a round begins. */
int mr_fed_least(const mr_fed *f);
/* When time alone changes something; 0: never. */
int64_t mr_fed_next_ns(const mr_fed *f);

#endif
