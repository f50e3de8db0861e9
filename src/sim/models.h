/* sim/models.h -- networks to simulate: each a whole training step, built with the layers of train/.
 *
 * A model is built from a few integers (its batch, its width, ..), so all its shapes are known and the time of a step
 * can be predicted without running it. The same graphs also run in a session: the feeds declare their types and
 * shapes. */
#ifndef MR_SIM_MODELS_H
#define MR_SIM_MODELS_H

#include "train/nn.h"

enum { MR_SIM_MAX_PARAMS = 8 };

typedef struct mr_sim_param {
    const char *name; /* NULL ends the list */
    int64_t usual, low, high;
    const char *about;
} mr_sim_param;

typedef struct mr_sim_graph_def {
    mr_graph *g;
    MR_VEC(mr_out) feeds, fetches; /* fetches: the loss */
    MR_VEC(mr_node *) targets;     /* nodes that perform the step */
    mr_node *init;                 /* initializes the variables; NULL if there are none */
} mr_sim_graph_def;
void mr_sim_graph_def_deinit(mr_sim_graph_def *d);

typedef struct mr_sim_model {
    const char *name, *about;
    mr_sim_param params[MR_SIM_MAX_PARAMS + 1];
    /* Builds the graph up to the loss; p has the order of params. */
    mr_out (*loss)(mr_nn *n, const int64_t *p, mr_sim_graph_def *out);
} mr_sim_model;

/* Sorted by name; *n of them. */
const mr_sim_model *mr_sim_models(int *n);
const mr_sim_model *mr_sim_model_find(mr_sv name); /* NULL if there is none */
/* -1 if there is none. */
int mr_sim_model_param(const mr_sim_model *m, mr_sv name);

/* Builds the whole step: loss, gradients, one update for each variable. params has MR_SIM_MAX_PARAMS values, each in
 * its range. */
mr_status *mr_sim_model_build(const mr_sim_model *m, const int64_t *params, mr_sim_graph_def *out);

#endif
