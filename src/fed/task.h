/* fed/task.h -- what a client is asked and what it answers, as structs and as bytes.
 *
 * As bytes they are the fields of a protobuf message (docs/formats/federated.md).  Weights and updates are floats, little-endian. */
#ifndef MR_FED_TASK_H
#define MR_FED_TASK_H

#include "base/bytes.h"
#include "base/thread.h"
#include "dist/federated.h"
#include "fed/learner.h"

typedef struct mr_fed_weights { /* shared: never written once it is given away */
    mr_refs refs;
    size_t n;
    float v[];
} mr_fed_weights;
mr_fed_weights *mr_fed_weights_new(size_t n); /* unset; NULL: no memory */
mr_fed_weights *mr_fed_weights_ref(mr_fed_weights *w);
void mr_fed_weights_unref(mr_fed_weights *w); /* NULL is fine */

typedef struct mr_fed_config { /* of a round; the same for all its clients but for the seed */
    int64_t round;
    mr_learner_config learn;
    bool secure;
    int64_t sum_clients; /* secure: at most so many are added up */
    float clip;
    int64_t most_examples;
} mr_fed_config;

typedef enum mr_fed_kind {
    MR_FED_WAIT, /* nothing to do: ask again */
    MR_FED_WORK,
    MR_FED_END, /* there are no more rounds */
} mr_fed_kind;

typedef struct mr_fed_task { /* what a client is asked; owns what it points to */
    mr_fed_kind kind;
    int64_t ticket;
    mr_fed_stage stage;
    mr_fed_config config;
    mr_str ask;              /* secure: the stage's message */
    mr_fed_weights *weights; /* TRAIN: the model; NULL elsewhere */
} mr_fed_task;
void mr_fed_task_deinit(mr_fed_task *t);

typedef struct mr_fed_answer { /* owns its body */
    int64_t ticket;
    mr_fed_stage stage; /* REST: it answers nothing, and only wants to be asked */
    bool refused;
    mr_str body;      /* why it refuses; the update as floats, or the masked words; the stage's message */
    int64_t examples; /* plain TRAIN */
    double loss;      /* likewise */
} mr_fed_answer;
void mr_fed_answer_deinit(mr_fed_answer *a);

/* Bytes both ways.  The task's weights travel as a piece of their own, without a copy. */
mr_status *mr_fed_task_encode(mr_fed_task *t, mr_bytes *out);
mr_status *mr_fed_task_decode(mr_sv bytes, mr_fed_task *out);
/* An answer with the name its client chose for itself: any bytes, at most MR_FED_NAME of them. */
enum { MR_FED_NAME = 64 };
mr_status *mr_fed_answer_encode(mr_sv name, const mr_fed_answer *a, mr_str *out);
mr_status *mr_fed_answer_decode(mr_sv bytes, mr_sv *name, mr_fed_answer *out); /* name: a view of the bytes */

#endif
