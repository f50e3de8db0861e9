/* ops/control/device_index.c -- tells on which of several device types a node runs. */
#include "graph/infer.h"
#include "run/run.h"

/* The entries are device types ("CPU"); a device that no entry names gets the number of entries. */
static mr_status *device_index(mr_run *r)
{
    const mr_attr *names;
    mr_tensor *y;
    MR_TRY(mr_node_get_list(r->node, "device_names", MR_ATTR_STRING, &names));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &y));
    int i = 0;
    while (i < names->n && !mr_sv_is(names->ss[i], r->step->device->type->name))
        i++;
    *MR_DATA(int32_t, y) = i;
    return NULL;
}

MR_OP(DeviceIndex,
    .doc      = "the place of the type of the node's device in device_names; their number when it is none of them",
    .sig      = "-> index: int32",
    .attrs    = "device_names: list(string)",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(device_index)),
    .examples = MR_EXAMPLES("device_names=[\"GPU\", \"CPU\"]: -> 1", "device_names=[\"GPU\"]: -> 1", "device_names=[]: -> 0"));
