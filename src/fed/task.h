/* fed/task.h -- the tasks of a client and its answers, as structs and as bytes.
 *
 * The bytes are a protobuf message (docs/formats/federated.md). Weights and updates are floats, little-endian. */
#ifndef MR_FED_TASK_H
#define MR_FED_TASK_H

#include "base/bytes.h"
#include "base/thread.h"
#include "dist/federated.h"
#include "fed/learner.h"

typedef struct mr_fed_weights { /* shared: not written after it is handed out */
    mr_refs refs;
    size_t n;
    float v[];
} mr_fed_weights;
mr_fed_weights *mr_fed_weights_new(size_t n); /* values are not set; NULL: out of memory */
mr_fed_weights *mr_fed_weights_ref(mr_fed_weights *w);
void mr_fed_weights_unref(mr_fed_weights *w); /* NULL is fine */

typedef struct mr_fed_config { /* of a round; the same for all its clients, except the seed */
    int64_t round;
    mr_learner_config learn;
    bool secure;
    int64_t sum_clients; /* secure: at most this many vectors are added */
    float clip;
    int64_t most_examples;
} mr_fed_config;

typedef enum mr_fed_kind {
    MR_FED_WAIT, /* nothing to do: ask again */
    MR_FED_WORK,
    MR_FED_END, /* there are no more rounds */
} mr_fed_kind;

typedef struct mr_fed_task { /* owns what it points to */
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
    mr_fed_stage stage; /* REST: no answer, the client only wants a task */
    bool refused;
    mr_str body;      /* the reason of a refusal; the update as floats, or as masked words; the message of the stage */
    int64_t examples; /* plain TRAIN */
    double loss;      /* likewise */
} mr_fed_answer;
void mr_fed_answer_deinit(mr_fed_answer *a);

/* The weights of an encoded task are a separate piece of the bytes, without a copy. */
mr_status *mr_fed_task_encode(mr_fed_task *t, mr_bytes *out);
mr_status *mr_fed_task_decode(mr_sv bytes, mr_fed_task *out);
/* An answer with the name that its client has chosen: 1 to MR_FED_NAME bytes of any value. */
enum { MR_FED_NAME = 64 };
mr_status *mr_fed_answer_encode(mr_sv name, const mr_fed_answer *a, mr_str *out);
mr_status *mr_fed_answer_decode(mr_sv bytes, mr_sv *name, mr_fed_answer *out); /* name: a view of the bytes */

#endif
