/* capi/model.h -- the struct behind mr_model, shared by the files that build models.
 *
 * A model holds its graph's lock only inside each call. Arguments of the client are checked first, and an error is kept
 * in the model, so train/ gets only valid arguments. */
#ifndef MR_CAPI_MODEL_H
#define MR_CAPI_MODEL_H

#include "capi/internal.h"
#include "millrace/train.h"
#include "train/nn.h"

struct mr_model {
    TF_Graph *graph;
    mr_nn *net;
};

static inline mr_out mr_model_arg(mr_model *m, TF_Output o)
{
    if (mr_scope_ok(&m->net->s))
        mr_scope_fail(&m->net->s, mr_capi_check_output(m->graph, o));
    return mr_capi_out(o);
}

/* Our form of a client's optimizer; its schedule is checked. */
mr_nn_optimizer mr_model_optimizer(mr_model *m, mr_optimizer o);

struct mr_nn_saver;
struct mr_nn_saver *mr_capi_saver(mr_saver *s); /* borrowed */

#endif
