/* ops/control/remote_call.c -- calls a function on another device of the session, also in another task
 * (server/remote_call.h). */
#include "graph/infer.h"
#include "run/run.h"

static mr_status *read_target(mr_run *r, mr_sv *target, const mr_func_ref **f)
{
    const mr_tensor *t = mr_in(r, 0);
    if (t->rank != 0)
        return mr_invalid("RemoteCall: target must be a scalar, not of shape %s", MR_TENSOR_SHAPE(t));
    *target = mr_tensor_str_at(t, 0);
    if (target->n == 0)
        return mr_invalid("RemoteCall: target names no device");
    return mr_node_get_func(r->node, "f", f);
}

static void remote_call(mr_run *r)
{
    const mr_func_ref *f = NULL;
    mr_sv target;
    mr_status *st = read_target(r, &target, &f);
    if (st)
        mr_run_done(r, st);
    else
        mr_run_call_on(r, target, f, 1);
}

MR_OP(RemoteCall,
    .doc     = "f(args), run on the device that target names",
    .sig     = "target: string, args: Tin -> output: Tout",
    .attrs   = "Tin: list(type) >= 1; Tout: list(type) >= 1; f: func",
    .flags   = MR_STATEFUL | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    .kernels = MR_KERNELS({"CPU", 0, NULL, remote_call, .host_in = 1}, ));
