/* distbelief/lbfgs.h -- L-BFGS over vectors that are on other machines.
 *
 * A vector is only a number here: products, sums and copies are computed on the parameter servers, and only scalars
 * come back. So Sandblaster's coordinator needs no memory for parameters and transfers none, however many there are.
 *
 * The minimizer keeps the last `history` moves and changes of gradient, computes a direction from them by the usual two
 * loops, and searches along it (line_search.h). */
#ifndef MR_DISTBELIEF_LBFGS_H
#define MR_DISTBELIEF_LBFGS_H

#include <stdint.h>

#include "base/status.h"

/* The vectors it needs; the moves are HISTORY + 2 i, the changes of gradient HISTORY + 2 i + 1. */
enum { MR_LBFGS_X, MR_LBFGS_G, MR_LBFGS_X0, MR_LBFGS_G0, MR_LBFGS_D, MR_LBFGS_HISTORY, MR_LBFGS_MOST_HISTORY = 100 };

typedef struct mr_lbfgs_space {
    void *arg;
    mr_status *(*dot)(void *arg, int a, int b, double *out);
    mr_status *(*scale)(void *arg, int a, double by);
    mr_status *(*axpy)(void *arg, int a, int b, double by); /* a += by * b */
    mr_status *(*copy)(void *arg, int a, int b);            /* a = b */
    /* The loss at X; the gradient there goes to G. */
    mr_status *(*evaluate)(void *arg, double *loss);
    /* After each iteration, may be NULL; an error ends the run. */
    mr_status *(*report)(void *arg, int64_t iteration, double loss, double gradient_norm);
} mr_lbfgs_space;

typedef struct mr_lbfgs_options {
    int history;             /* 1 .. MR_LBFGS_MOST_HISTORY */
    int64_t most_iterations;
    double gradient_norm;    /* stop when it is at most this */
    double least_gain;       /* stop when two iterations in a row lower the loss by less than this fraction of it */
    double noise;            /* relative, of the loss */
} mr_lbfgs_options;

typedef enum mr_lbfgs_end { MR_LBFGS_FLAT, MR_LBFGS_SMALL_GAIN, MR_LBFGS_NO_STEP, MR_LBFGS_ITERATIONS } mr_lbfgs_end;

typedef struct mr_lbfgs_result {
    double loss, gradient_norm;
    int64_t iterations, evaluations;
    mr_lbfgs_end end;
} mr_lbfgs_result;

/* Starts at X and leaves X at the minimum. */
mr_status *mr_lbfgs_run(const mr_lbfgs_space *v, const mr_lbfgs_options *o, mr_lbfgs_result *out);

#endif
