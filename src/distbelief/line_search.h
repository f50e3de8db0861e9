/* distbelief/line_search.h -- how far along a direction: the strong Wolfe conditions, as a step function.
 *
 * Pure: the caller evaluates the given step, passes the loss and the slope there, and gets the next action.  The loss
 * must have fallen enough and the slope must have become flat enough.  Losses are sums of floats: near the minimum they
 * differ by less than their rounding errors.  So a loss that exceeds the first one by at most the fraction `noise`
 * counts as fallen, and the slope decides (the approximate Wolfe conditions of Hager and Zhang). */
#ifndef MR_DISTBELIEF_LINE_SEARCH_H
#define MR_DISTBELIEF_LINE_SEARCH_H

#include <stdbool.h>

typedef struct mr_line_point {
    double at, loss, slope;
} mr_line_point;

typedef struct mr_line_search {
    mr_line_point start, low, high; /* high is valid once bracketed; a good step is between low and high */
    double noise;
    double step; /* being tried */
    int trials;
    bool bracketed, last; /* last: the best point is evaluated once more, and taken */
} mr_line_search;

typedef enum mr_line_do {
    MR_LINE_TRY,  /* s->step */
    MR_LINE_TAKE, /* s->step, which was tried just now */
    MR_LINE_FAIL, /* no step lowers the loss: the direction is wrong, or this is the minimum */
} mr_line_do;

/* The slope must be below 0.  The first step to be tried is `step`. */
void mr_line_begin(mr_line_search *s, double loss, double slope, double step, double noise);
mr_line_do mr_line_step(mr_line_search *s, double loss, double slope);

#endif
