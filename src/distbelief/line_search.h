/* distbelief/line_search.h -- how far along a direction: the strong Wolfe conditions, as a step function.
 *
 * Pure: the caller tries the step it is told, says the loss and the slope there, and is told what follows.  The loss must have
 * fallen enough and the slope have become flat enough.  Losses come from sums of floats: near the minimum they differ by
 * less than their rounding, so a loss that is not higher than at the start by more than `noise` of it counts as fallen, and
 * the slope decides (the approximate Wolfe conditions of Hager and Zhang). */
#ifndef MR_DISTBELIEF_LINE_SEARCH_H
#define MR_DISTBELIEF_LINE_SEARCH_H

#include <stdbool.h>

typedef struct mr_line_point {
    double at, loss, slope;
} mr_line_point;

typedef struct mr_line_search {
    mr_line_point start, low, high; /* high counts once bracketed; between low and high lies a step that will do */
    double noise;
    double step; /* being tried */
    int trials;
    bool bracketed, last; /* last: the best that was found is tried once more, and taken */
} mr_line_search;

typedef enum mr_line_do {
    MR_LINE_TRY,  /* s->step */
    MR_LINE_TAKE, /* s->step, which was tried just now */
    MR_LINE_FAIL, /* no step of any size lowers the loss: the direction is wrong, or this is the minimum */
} mr_line_do;

/* The slope must be below 0.  The first step to be tried is `step`. */
void mr_line_begin(mr_line_search *s, double loss, double slope, double step, double noise);
mr_line_do mr_line_step(mr_line_search *s, double loss, double slope);

#endif
