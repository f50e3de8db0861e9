/* ops/control/arg.c -- the inputs and outputs of a function or of a pruned graph: _Arg, _Retval.
 *
 * They access the step's table of arguments and results; the session or the caller fills the arguments and takes
 * the results. */
#include "graph/infer.h"
#include "run/run.h"

typedef struct place {
    int index;
} place;

static mr_status *place_init(mr_make *m, void *state)
{
    int64_t index;
    MR_TRY(mr_node_get_int(m->node, "index", &index));
    if (index < 0 || index > INT32_MAX)
        return mr_invalid("index %lld is out of range", (long long)index);
    ((place *)state)->index = (int)index;
    return NULL;
}

static mr_status *run_arg(mr_run *r)
{
    int i = ((const place *)r->state)->index;
    if (i >= r->step->n_args || r->step->args[i].kind != MR_LIVE)
        return mr_invalid("arg[%d] is missing: the call has %d arguments", i, r->step->n_args);
    mr_tensor *t = r->step->args[i].t;
    if (t->dtype != mr_out_dtype(r, 0))
        return mr_invalid("Expects arg[%d] to be %s but %s is provided", i,
                          mr_dtype_name(mr_out_dtype(r, 0)), mr_dtype_name(t->dtype));
    if (MR_UNLIKELY(!mr_tensor_on_host(t) && r->step->device->alloc->host)) { /* the caller is on another device */
        mr_tensor *host;
        MR_TRY(mr_tensor_copy(NULL, t, &host));
        mr_run_set(r, 0, host);
        return NULL;
    }
    mr_run_set(r, 0, mr_tensor_ref(t));
    return NULL;
}

/* In a loop, several iterations may try to set the same result. */
static mr_status *keep_retval(mr_run *r, int i) MR_NO_TSA
{
    mr_value *to = &r->step->rets[i];
    bool in_loop = r->frame != 0;
    if (in_loop)
        mr_lock(r->step->mu);
    bool is_set = to->kind != MR_ABSENT;
    if (!is_set) {
        *to = r->in[0];
        r->in[0].kind = MR_ABSENT;
    }
    if (in_loop)
        mr_unlock(r->step->mu);
    return is_set ? mr_error(MR_INTERNAL, "Retval[%d] has already been set.", i) : NULL;
}

static mr_status *run_retval(mr_run *r)
{
    int i = ((const place *)r->state)->index;
    if (i >= r->step->n_rets)
        return mr_invalid("ret[%d] is out of range: the call has %d results", i, r->step->n_rets);
    if (mr_in(r, 0)->dtype != mr_dtype_base(r->node->in_types[0]))
        return mr_invalid("Expects ret[%d] to be %s but %s is provided", i,
                          mr_dtype_name(r->node->in_types[0]), mr_dtype_name(mr_in(r, 0)->dtype));
    return keep_retval(r, i);
}

#define PLACED .state_bytes = sizeof(place), .init = place_init

MR_OP(_Arg,
    .doc     = "the index-th argument of a function, or fed value of a step",
    .sig     = "-> output: T",
    .attrs   = "T: type; index: int >= 0",
    .flags   = MR_STATEFUL | MR_CHEAP | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    PLACED,
    .kernels = MR_KERNELS(MR_CPU_ANY(run_arg)));

MR_OP(_DeviceArg,
    .doc     = "_Arg for a value in the memory of its device",
    .sig     = "-> output: T",
    .attrs   = "T: type; index: int >= 0",
    .flags   = MR_STATEFUL | MR_CHEAP | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    PLACED,
    .kernels = MR_KERNELS(MR_CPU_ANY(run_arg)));

MR_OP(_Retval,
    .doc     = "the index-th result of a function, or fetched value of a step",
    .sig     = "input: T ->",
    .attrs   = "T: type; index: int >= 0",
    .flags   = MR_STATEFUL | MR_CHEAP | MR_HOST_ONLY,
    .shape   = mr_shape_none,
    PLACED,
    .kernels = MR_KERNELS(MR_CPU_ANY(run_retval)));

MR_OP(_DeviceRetval,
    .doc     = "_Retval for a value in the memory of its device",
    .sig     = "input: T ->",
    .attrs   = "T: type; index: int >= 0",
    .flags   = MR_STATEFUL | MR_CHEAP | MR_HOST_ONLY,
    .shape   = mr_shape_none,
    PLACED,
    .kernels = MR_KERNELS(MR_CPU_ANY(run_retval)));
