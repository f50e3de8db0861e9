/* passes/place_internal.h -- the inside of the placer; for place.c, place_cost.c, place_state.c and planned_step.c. */
#ifndef MR_PASSES_PLACE_INTERNAL_H
#define MR_PASSES_PLACE_INTERNAL_H

#include "passes/passes.h"

typedef struct mr_place_group {
    mr_device_name request;
    const char *device; /* chosen; NULL: not yet */
    mr_status *error;   /* why it cannot be placed; owned */
    int named_by;       /* first member with a requested device; -1 */
    int first;          /* member; then by placer.next */
    bool later;         /* no step needs it yet: by cost it is placed when one does */
} mr_place_group;

typedef struct mr_placer {
    const mr_graph *g;
    const mr_prepare_options *o;
    int *parent;            /* union-find by node id */
    int *next;              /* the next member of a node's group; -1 behind the last */
    mr_place_group *groups; /* at the root's id */
    mr_device **order;      /* by preference */
    const char **placed;
} mr_placer;

/* The id that stands for a node's group. */
int mr_placer_root(mr_placer *p, int id);
/* All members of a group may stand on a device: its request matches, and there are kernels. */
bool mr_placer_fits(mr_placer *p, int root, const mr_device *d, const mr_device_name *request);

/* ---- place_cost.c ---- */
/* Chooses devices for the groups of a signature's step by what it would take, as o->costs says. */
mr_status *mr_place_by_cost(mr_placer *p, const mr_run_signature *sig, const bool *needed);
/* The step of a placed graph, simulated as it will run.  all: as of mr_planned_step_init. */
mr_status *mr_placer_simulate(mr_placer *p, const mr_run_signature *sig, bool all, mr_planned_step *out);
/* What the step takes with everything on one device that is not placed or asked for elsewhere; INFINITY: it does not fit. */
mr_status *mr_placer_alone(mr_placer *p, const mr_run_signature *sig, int device, double *seconds);
/* As mr_place_reasons, of a step that was simulated with `all`. */
mr_status *mr_placer_reasons(mr_placer *p, mr_planned_step *s, const bool *wanted, void (*tell)(void *arg, const mr_place_reason *r),
                             void *arg);
/* A feed, or a placeholder that will be one. */
bool mr_place_is_fed(const mr_node *n);
/* A reason as text. */
void mr_place_reason_print(const mr_place_reason *r, mr_device *const *devices, mr_str *out);

/* ---- place_state.c ---- */
typedef mr_status *mr_plan_step_fn(mr_placer *p, mr_graph *step_graph, bool (*take)(void *arg, int root), void *arg);
/* Places the state that a signature only initializes for the steps that will use it; plan plans a step graph. */
void mr_place_new_state(mr_placer *p, const mr_run_signature *sig, const bool *needed, mr_plan_step_fn *plan);

#endif
