/* distbelief/lbfgs.c -- the two-loop recursion and a line search over vectors that are elsewhere.
 *
 * The history is a ring of `history` pairs, of which the newest n_pairs are valid; the i-th newest is
 * at next - 1 - i. A pair is a move of X and the change of G along it.
 *
 * Invariants: between iterations, G and the loss belong to X; rho of a valid pair is positive. */
#include "distbelief/lbfgs.h"

#include <math.h>

#include "base/memory.h"
#include "distbelief/line_search.h"

typedef struct run {
    const mr_lbfgs_space *v;
    const mr_lbfgs_options *o;
    mr_lbfgs_result *r;
    int n_pairs, next;
    double rho[MR_LBFGS_MOST_HISTORY]; /* 1 / (move * change) */
    double gamma;                      /* the scale of the inverse Hessian, from the newest pair */
} run;

static int pair_at(const run *x, int i) { return (x->next - 1 - i + 2 * x->o->history) % x->o->history; }
static int move_of(int p) { return MR_LBFGS_HISTORY + 2 * p; }
static int change_of(int p) { return MR_LBFGS_HISTORY + 2 * p + 1; }

/* D = -H G, by the two-loop recursion over the pairs. */
static mr_status *make_direction(run *x)
{
    const mr_lbfgs_space *v = x->v;
    double alpha[MR_LBFGS_MOST_HISTORY], beta;
    MR_ASSERT(x->n_pairs >= 0 && x->n_pairs <= x->o->history);
    MR_TRY(v->copy(v->arg, MR_LBFGS_D, MR_LBFGS_G));
    for (int i = 0; i < x->n_pairs; i++) {
        int p = pair_at(x, i);
        MR_TRY(v->dot(v->arg, move_of(p), MR_LBFGS_D, &alpha[i]));
        alpha[i] *= x->rho[p];
        MR_TRY(v->axpy(v->arg, MR_LBFGS_D, change_of(p), -alpha[i]));
    }
    MR_TRY(v->scale(v->arg, MR_LBFGS_D, x->n_pairs ? -x->gamma : -1));
    for (int i = x->n_pairs - 1; i >= 0; i--) { /* D is negated already */
        int p = pair_at(x, i);
        MR_TRY(v->dot(v->arg, change_of(p), MR_LBFGS_D, &beta));
        MR_TRY(v->axpy(v->arg, MR_LBFGS_D, move_of(p), -alpha[i] - x->rho[p] * beta));
    }
    return NULL;
}

/* Computes the loss and G at X. */
static mr_status *evaluate_loss(run *x, double *loss)
{
    x->r->evaluations++;
    return x->v->evaluate(x->v->arg, loss);
}

/* Sets X = X0 + step * D and evaluates there. *slope is the derivative along D. */
static mr_status *try_step(run *x, double step, double *loss, double *slope)
{
    const mr_lbfgs_space *v = x->v;
    MR_TRY(v->copy(v->arg, MR_LBFGS_X, MR_LBFGS_X0));
    MR_TRY(v->axpy(v->arg, MR_LBFGS_X, MR_LBFGS_D, step));
    MR_TRY(evaluate_loss(x, loss));
    return v->dot(v->arg, MR_LBFGS_G, MR_LBFGS_D, slope);
}

/* Stores the pair of the step just made. It is dropped if the curvature along it is not positive,
 * which rounding can cause. */
static mr_status *remember_pair(run *x)
{
    const mr_lbfgs_space *v = x->v;
    int p = x->next, s = move_of(p), y = change_of(p);
    double sy, yy;
    MR_TRY(v->copy(v->arg, s, MR_LBFGS_X));
    MR_TRY(v->axpy(v->arg, s, MR_LBFGS_X0, -1));
    MR_TRY(v->copy(v->arg, y, MR_LBFGS_G));
    MR_TRY(v->axpy(v->arg, y, MR_LBFGS_G0, -1));
    MR_TRY(v->dot(v->arg, s, y, &sy));
    MR_TRY(v->dot(v->arg, y, y, &yy));
    /* The pair was written over the oldest one; if it is dropped, the oldest one is lost too. */
    bool over = x->n_pairs == x->o->history;
    if (!(sy > 1e-12 * yy) || !(yy > 0)) {
        x->n_pairs -= over;
        return NULL;
    }
    MR_ASSERT(p >= 0 && p < x->o->history && x->n_pairs <= x->o->history);
    x->rho[p] = 1 / sy;
    x->gamma = sy / yy;
    x->next = (p + 1) % x->o->history;
    x->n_pairs += !over;
    return NULL;
}

/* Searches along D from X. If no step lowers the loss, *found is false and X and G are as before. */
static mr_status *search_line(run *x, double slope, bool *found)
{
    const mr_lbfgs_space *v = x->v;
    mr_line_search s;
    MR_ASSERT(slope < 0);
    /* Without history the direction is the gradient, whose length means nothing: the first step has length 1. */
    double loss, first = x->n_pairs ? 1 : 1 / MR_MAX(x->r->gradient_norm, 1e-12);
    mr_line_do next = MR_LINE_TRY;
    MR_TRY(v->copy(v->arg, MR_LBFGS_X0, MR_LBFGS_X));
    MR_TRY(v->copy(v->arg, MR_LBFGS_G0, MR_LBFGS_G));
    for (mr_line_begin(&s, x->r->loss, slope, first, x->o->noise); next == MR_LINE_TRY;) {
        MR_TRY(try_step(x, s.step, &loss, &slope));
        next = mr_line_step(&s, loss, slope);
    }
    *found = next == MR_LINE_TAKE;
    if (*found) {
        x->r->loss = loss;
        return remember_pair(x);
    }
    MR_TRY(v->copy(v->arg, MR_LBFGS_X, MR_LBFGS_X0));
    return v->copy(v->arg, MR_LBFGS_G, MR_LBFGS_G0);
}

/* The norm of G, which decides when to stop. */
static mr_status *measure_gradient(run *x)
{
    double square;
    MR_TRY(x->v->dot(x->v->arg, MR_LBFGS_G, MR_LBFGS_G, &square));
    x->r->gradient_norm = sqrt(square);
    return NULL;
}

/* One iteration. If the direction leads nowhere, it is tried once more without history: along the gradient. */
static mr_status *run_iteration(run *x, bool *found)
{
    double slope;
    for (int attempt = 0; attempt < 2; attempt++) {
        MR_TRY(make_direction(x));
        MR_TRY(x->v->dot(x->v->arg, MR_LBFGS_G, MR_LBFGS_D, &slope));
        *found = false;
        if (slope < 0)
            MR_TRY(search_line(x, slope, found));
        if (*found || x->n_pairs == 0)
            break;
        x->n_pairs = 0;
    }
    return measure_gradient(x);
}

/* The arrays of this file have room for MR_LBFGS_MOST_HISTORY pairs. */
static mr_status *check_options(const mr_lbfgs_options *o)
{
    if (o->history < 1 || o->history > MR_LBFGS_MOST_HISTORY)
        return mr_invalid("L-BFGS: history must be 1 to %d, not %d", MR_LBFGS_MOST_HISTORY, o->history);
    return NULL;
}

/* Ends when the gradient is flat, no step is found, two iterations in a row gain too little, or the
 * iterations are used up. */
mr_status *mr_lbfgs_run(const mr_lbfgs_space *v, const mr_lbfgs_options *o, mr_lbfgs_result *out)
{
    run x = {.v = v, .o = o, .r = out};
    *out = (mr_lbfgs_result){.end = MR_LBFGS_ITERATIONS};
    MR_TRY(check_options(o));
    MR_TRY(evaluate_loss(&x, &out->loss));
    if (!isfinite(out->loss))
        return mr_error(MR_FAILED_PRECONDITION,
                        "L-BFGS: the loss at the initial values is %g, expected a finite number", out->loss);
    MR_TRY(measure_gradient(&x));
    for (int small = 0; out->iterations < o->most_iterations;) {
        double before = out->loss;
        bool found;
        if (out->gradient_norm <= o->gradient_norm) {
            out->end = MR_LBFGS_FLAT;
            break;
        }
        MR_TRY(run_iteration(&x, &found));
        if (!found) {
            out->end = MR_LBFGS_NO_STEP;
            break;
        }
        out->iterations++;
        if (v->report)
            MR_TRY(v->report(v->arg, out->iterations, out->loss, out->gradient_norm));
        /* One small gain may be an unlucky direction; two in a row mean that the minimum is near. */
        small = before - out->loss <= o->least_gain * fabs(out->loss) ? small + 1 : 0;
        if (small >= 2) {
            out->end = MR_LBFGS_SMALL_GAIN;
            break;
        }
    }
    return NULL;
}
