/* distbelief/line_search.c -- a line search for the strong Wolfe conditions: widen until a good step is enclosed, then
 * narrow down.
 *
 * Invariant: `low` is the best point so far that fulfils the condition of decrease, and the loss falls
 * from there towards `high`, once there is one. */
#include "distbelief/line_search.h"

#include <math.h>

#include "base/status.h"

enum { MOST_TRIALS = 25 };
static const double enough = 1e-4, flat = 0.9; /* the usual values for quasi-Newton directions */

/* low starts at the start itself, so that a search without success returns to it. */
void mr_line_begin(mr_line_search *s, double loss, double slope, double step, double noise)
{
    MR_ASSERT(slope < 0);
    *s = (mr_line_search){.start = {0, loss, slope}, .low = {0, loss, slope}, .noise = noise, .step = step};
}

/* The condition of decrease (Armijo), or a loss that differs from the first one only by noise. */
static bool has_fallen(const mr_line_search *s, const mr_line_point *p)
{
    double base = s->start.loss;
    return p->loss <= base + enough * p->at * s->start.slope || p->loss <= base + s->noise * fabs(base);
}

/* The minimum of the cubic through two points with given slopes; NAN if there is none. */
static double cubic_minimum(const mr_line_point *a, const mr_line_point *b)
{
    double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->at - b->at);
    double square = d1 * d1 - a->slope * b->slope;
    if (!(square >= 0))
        return NAN;
    double d2 = copysign(sqrt(square), b->at - a->at);
    return b->at - (b->at - a->at) * (b->slope + d2 - d1) / (b->slope - a->slope + 2 * d2);
}

/* A step between low and high, kept away from both ends so that the interval shrinks. */
static double step_between(const mr_line_search *s)
{
    MR_ASSERT(s->bracketed);
    double width = s->high.at - s->low.at, guess = cubic_minimum(&s->low, &s->high);
    double part = (guess - s->low.at) / width;
    if (!(part > 0.05 && part < 0.95) || s->trials % 4 == 3) /* every fourth step halves the interval */
        part = 0.5;
    return s->low.at + part * width;
}

/* No step fulfils the conditions: tries the best point so far once more and takes it, or fails if it
 * is no improvement. */
static mr_line_do give_up(mr_line_search *s)
{
    if (!(s->low.loss < s->start.loss)) /* equal within rounding is not lower */
        return MR_LINE_FAIL;
    s->last = true;
    s->step = s->low.at;
    return MR_LINE_TRY;
}

/* Without a bracket the step grows by 3; with one it shrinks towards the cubic's minimum. Losses that
 * are not finite count as too high. */
mr_line_do mr_line_step(mr_line_search *s, double loss, double slope)
{
    mr_line_point p = {s->step, loss, slope};
    bool finite = isfinite(loss) && isfinite(slope);
    if (s->last)
        return finite ? MR_LINE_TAKE : MR_LINE_FAIL;
    bool fallen = finite && has_fallen(s, &p);
    if (fallen && fabs(slope) <= flat * fabs(s->start.slope))
        return MR_LINE_TAKE;
    if (++s->trials >= MOST_TRIALS)
        return give_up(s);
    /* A worse point bounds the interval from above. A better one becomes `low`; if the slope has turned there, the old
     * `low` is the other bound. */
    bool worse = !fallen || (s->low.at != 0 && loss > s->low.loss + s->noise * fabs(s->start.loss));
    if (worse) {
        s->high = p;
        s->bracketed = true;
    } else {
        bool turned = s->bracketed ? slope * (s->high.at - s->low.at) >= 0 : slope >= 0;
        if (turned) {
            s->high = s->low;
            s->bracketed = true;
        }
        s->low = p;
    }
    s->step = s->bracketed ? step_between(s) : 3 * s->step;
    return s->step > 0 && isfinite(s->step) ? MR_LINE_TRY : give_up(s);
}
