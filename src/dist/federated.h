/* dist/federated.h -- rounds of federated averaging: whom to ask, what counts, when a round is over.
 *
 * Pure: events in, actions out.  A round asks a share of the clients that are there, drawn by a seed, and some more than it
 * needs, because clients are phones and laptops that leave without a word.  It is complete when enough updates have come,
 * or when its time is over and those that came suffice.  With too few it is given up: nothing of it counts, and the same round
 * is tried again with other clients.
 *
 * Every try has a ticket, and tickets rise.  An answer counts once and only for the ticket and the stage that its
 * client was asked for: what is late, doubled, or of a try that was given up is dropped.  A client that went away is out of
 * the try, even when it comes back: what it knew of it may be lost.
 *
 * A plain round has one stage, TRAIN.  A secure one (fed/secure.h) has four.  Those who answered one stage are asked for the next:
 * KEYS, SHARES, TRAIN (the update, masked), UNMASK.  Shares of any `threshold` of the clients bring a secret back, so a
 * stage with fewer answers ends the try. */
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
    MR_FED_JOIN,   /* a client is there */
    MR_FED_GONE,   /* and is not any more */
    MR_FED_ANSWER, /* to `ticket` and `stage`; the caller has seen that it is well-formed */
    MR_FED_REFUSE, /* it could not, or its answer is malformed: out of this try */
    MR_FED_TIME,   /* some has passed */
} mr_fed_message;

typedef struct mr_fed_event {
    mr_fed_message message;
    int64_t client, ticket, stage; /* from the wire: checked here */
} mr_fed_event;

typedef enum mr_fed_do {
    MR_FED_ASK,      /* `client` for `stage` of `ticket` */
    MR_FED_TAKE,     /* the answer of this event counts */
    MR_FED_DROP,     /* the answer of this event does not */
    MR_FED_NEXT,     /* the stage before `stage` is over, `count` clients go on; before the ASKs of the next */
    MR_FED_COMPLETE, /* average `count` updates: the round is done */
    MR_FED_GIVE_UP,  /* forget all answers of `ticket` */
    MR_FED_FAIL,     /* too many tries of one round were given up; nothing follows */
} mr_fed_do;

typedef struct mr_fed_action {
    mr_fed_do what;
    mr_fed_stage stage;
    int client, count;
    int64_t ticket;
} mr_fed_action;
typedef MR_VEC(mr_fed_action) mr_fed_actions;

typedef struct mr_fed_options {
    int n_clients;    /* are numbered 0 .. n_clients - 1 */
    double fraction;  /* C: of the clients that are there */
    int at_least;     /* but so many, where so many are there; 0: 1 */
    double over;      /* asked beyond that: 0.3 means three more for ten */
    double suffice;   /* of the updates wanted, so many make a round when its time is over; 0: half */
    int wait_for;     /* a round begins when so many are there; 0: 1 */
    bool secure;
    double threshold; /* secure: above this share of those who gave keys; 0: two thirds.  At least a half */
    int64_t stage_ns; /* time of a stage; 0: without end */
    int64_t pause_ns; /* before a round is tried again */
    int most_tries;   /* of one round; 0: no limit */
    uint64_t seed;
} mr_fed_options;

/* Fewer clients than this in a sum would tell one client's update to the others. */
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
    int wanted, suffice, threshold; /* of the present try; the last is known behind KEYS */
    int n_open, n_answered;         /* chosen ones that have not, or have, answered the stage */
    int n_counted;
    int64_t until_ns;  /* the stage's end; 0: none */
    int64_t not_before_ns;
    bool hold;         /* the round is complete, and no new one begins: mr_fed_go */
    bool failed;
} mr_fed;

/* INVALID values are the caller's to refuse: see mr_fed_check. */
void mr_fed_init(mr_fed *f, const mr_fed_options *o);
void mr_fed_deinit(mr_fed *f);
/* NULL, or what is wrong with the options; a constant text. */
const char *mr_fed_check(const mr_fed_options *o);
/* Rounds begin one at a time: after each that is complete nothing is asked until this, which begins the next. */
void mr_fed_go(mr_fed *f, int64_t now_ns, mr_fed_actions *out);
/* What happened, and what follows, in the order in which it is to be done.  Words of nobody are dropped. */
void mr_fed_step(mr_fed *f, const mr_fed_event *e, int64_t now_ns, mr_fed_actions *out);
/* What the caller took is of no use (shares that bring nothing back): the try is given up, also when it was complete. */
void mr_fed_spoilt(mr_fed *f, int64_t now_ns, mr_fed_actions *out);
/* How many clients must be there before a round begins. */
int mr_fed_least(const mr_fed *f);
/* When time alone changes something; 0: never. */
int64_t mr_fed_next_ns(const mr_fed *f);

#endif
