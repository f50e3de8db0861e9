/* passes/place_internal.h -- the inside of the placer; for place.c, place_cost.c, place_state.c and planned_step.c. */
#ifndef MR_PASSES_PLACE_INTERNAL_H
#define MR_PASSES_PLACE_INTERNAL_H

#include "passes/passes.h"

typedef struct mr_place_group {
    mr_device_name request;
    const char *device; /* chosen; NULL: not yet */
    mr_status *error;   /* why it cannot be placed; owned */
    int named_by;       /* first member with a requested device; -1 */
    int first;          /* first member; the others follow by placer.next */
    bool later;         /* no step needs it yet; with costs, it is placed when a step does */
} mr_place_group;

/* Works on all nodes of the graph (nodes[i] is the one with id i, or NULL), or on some of them in the order of their ids.
 * Then a place among `nodes` is not an id; only place.c works with placers of that kind. */
typedef struct mr_placer {
    const mr_graph *g;
    const mr_prepare_options *o;
    mr_node *const *nodes;
    int n;
    bool some;              /* `nodes` are not all */
    int *parent;            /* union-find */
    int *next;              /* the next member of a node's group; -1 after the last */
    mr_place_group *groups; /* at the root */
    mr_device **order;      /* by preference */
    mr_device_name *names;  /* of `order` */
    const char **outside;   /* with `some`: the device of a node outside that a node must be with; NULL: none */
    const char **placed;    /* by id */
    bool dangling;          /* a `_class` names a node that does not exist */
    bool unclear;           /* with `some`: the answer depends on nodes outside */
} mr_placer;

/* The place that represents a node's group. */
int mr_placer_root(mr_placer *p, int i);
/* True if all members of a group can run on a device: the request matches, and it has kernels for them. */
bool mr_placer_fits(mr_placer *p, int root, const mr_device *d, const mr_device_name *request);

/* ---- place_cost.c ---- */
/* Chooses devices for the groups of a signature's step by its simulated time, with o->costs. */
mr_status *mr_place_by_cost(mr_placer *p, const mr_run_signature *sig, const bool *needed);
/* Simulates the step of a placed graph as it will run. all: see mr_planned_step_init. */
mr_status *mr_placer_simulate(mr_placer *p, const mr_run_signature *sig, bool all, mr_planned_step *out);
/* See mr_place_alone. */
mr_status *mr_placer_alone(mr_placer *p, const mr_run_signature *sig, int device, double *seconds);
/* Like mr_place_reasons, for a step that was simulated with `all`. */
mr_status *mr_placer_reasons(mr_placer *p, mr_planned_step *s, const bool *wanted, void (*tell)(void *arg, const mr_place_reason *r),
                             void *arg);
/* True for a feed, or a placeholder that will be one. */
bool mr_place_is_fed(const mr_node *n);
/* Appends a reason as text. */
void mr_place_reason_print(const mr_place_reason *r, mr_device *const *devices, mr_str *out);

/* ---- place_state.c ---- */
typedef mr_status *mr_plan_step_fn(mr_placer *p, mr_graph *step_graph, bool (*take)(void *arg, int root), void *arg);
/* Places state that a signature only initializes, in view of the steps that will use it. plan plans a step graph. */
void mr_place_new_state(mr_placer *p, const mr_run_signature *sig, const bool *needed, mr_plan_step_fn *plan);

#endif
