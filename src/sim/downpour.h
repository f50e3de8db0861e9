/* sim/downpour.h -- Downpour SGD in virtual time: real arithmetic, virtual time.
 *
 * How fast does a loss fall? That depends on how stale gradients are and how they are scaled, so a model of times alone
 * cannot answer. Here replicas, driven by dist/downpour.h, train a small network for real on data like speech (features
 * of very different size, some of them rare, classes of very different frequency), while the time of each step, fetch
 * and push is drawn: machines differ in speed, steps vary, and sometimes a step straggles. Everything follows from the
 * seed. */
#ifndef MR_SIM_DOWNPOUR_H
#define MR_SIM_DOWNPOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum mr_falls_method {
    MR_FALLS_SGD,              /* one machine, no servers */
    MR_FALLS_DOWNPOUR,         /* replicas, and servers that apply plain SGD */
    MR_FALLS_DOWNPOUR_ADAGRAD, /* the same with a separate rate for each parameter */
} mr_falls_method;

typedef struct mr_falls_options {
    mr_falls_method method;
    bool convex;             /* logistic regression; else a hidden layer */
    int replicas;            /* for methods with replicas; 0: 8 */
    int64_t n_fetch, n_push; /* 0: 1 */
    int64_t warm_steps;
    double rate;             /* 0: that method's best of a grid (MR_FALLS_RATES) */
    double target;           /* loss on held-out data; 0: the default of the problem */
    double limit_s;          /* of virtual time; 0: 600 */
    uint64_t seed;
} mr_falls_options;

typedef struct mr_falls_result {
    bool reached;
    double seconds; /* until the target was reached; the limit when it was not */
    double loss;    /* at that time */
    int64_t steps;  /* of all replicas */
    double stale;   /* mean number of updates by others between fetch and push */
    double waited_s; /* time all replicas waited for servers */
} mr_falls_result;

enum { MR_FALLS_RATES = 7 };
extern const double mr_falls_rates[MR_FALLS_RATES];

mr_status *mr_falls_run(const mr_falls_options *o, mr_falls_result *out);

#endif
