/* distbelief/small_problem_fixture.h -- what the tests of Downpour and Sandblaster share: a small problem, and replicas of a model. */
#ifndef MR_DISTBELIEF_SMALL_PROBLEM_FIXTURE_H
#define MR_DISTBELIEF_SMALL_PROBLEM_FIXTURE_H

#include "millrace/distbelief.h"

enum { SMALL_FEATURES = 12, SMALL_CLASSES = 3, SMALL_EXAMPLES = 600 };

/* Examples of a fixed seed: features, and labels that follow from them but for some noise. */
typedef struct small_data {
    float x[SMALL_EXAMPLES][SMALL_FEATURES];
    int32_t y[SMALL_EXAMPLES];
} small_data;
const small_data *small_problem(void);
/* Examples first .. first + n - 1 (around the end) as feeds of x and y. */
void small_batch(int64_t first, int64_t n, TF_Tensor *in[2]);

typedef struct small_model { /* of a session of its own */
    TF_Graph *graph;
    mr_model *m;
    TF_Output in[2], loss;
    TF_Session *session;
    TF_Status *status;
} small_model;
/* hidden 0: logistic regression.  The session is opened by small_open, when all has been added to the graph. */
small_model small_build(int hidden);
void small_open(small_model *r, const char *target); /* NULL: this process, with two CPU devices */
void small_close(small_model *r);
/* The mean loss over all examples with the session's variables. */
double small_loss(small_model *r);

#endif
