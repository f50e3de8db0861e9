/* ops/array/const.c -- Const.
 *
 * The value is decoded once, when the kernel is created. All runs return the same tensor header, marked readonly:
 * so no kernel ever overwrites a constant, and a run costs one reference count. */
#include "graph/infer.h"
#include "run/accel.h"

typedef struct constant {
    mr_tensor *value;
} constant;

/* Moves numbers to the device; shapes, axes and similar values are used on the host and stay there. */
static mr_status *move_to_device(mr_device *d, mr_tensor **value)
{
    mr_tensor *host = *value;
    *value = NULL;
    mr_status *st = mr_tensor_copy(d->alloc, host, value);
    mr_tensor_unref(host);
    return st;
}

static mr_status *const_init(mr_make *m, void *state)
{
    constant *c = state;
    mr_tensor *t = NULL;
    mr_dtype dtype;
    MR_TRY(mr_node_get_type(m->node, "dtype", &dtype));
    MR_TRY(mr_node_get_tensor(m->node, "value", &t));
    mr_status *st;
    if (t->dtype != dtype)
        st = mr_invalid("Type mismatch between value (%s) and dtype (%s)", mr_dtype_name(t->dtype),
                        mr_dtype_name(dtype));
    else /* a separate header: that of the attr may be used elsewhere */
        st = mr_tensor_view(t, dtype, t->rank, t->dims, &c->value);
    mr_tensor_unref(t);
    if (!st && m->device->accel && dtype == MR_FLOAT)
        st = move_to_device(m->device, &c->value);
    if (c->value)
        c->value->readonly = true;
    return st;
}

static void const_deinit(void *state) { mr_tensor_unref(((constant *)state)->value); }

static mr_status *run_const(mr_run *r)
{
    mr_run_set(r, 0, mr_tensor_ref(((const constant *)r->state)->value));
    return NULL;
}

static mr_status *const_shape(mr_infer *c)
{
    const mr_attr *value = mr_node_attr(c->node, "value");
    mr_dtype type;
    mr_shape shape;
    int64_t n;
    MR_ENSURE(value && value->kind == MR_ATTR_TENSOR && !value->is_list);
    MR_TRY(mr_tensor_attr_shape(value->tensor, &type, &shape));
    MR_TRY(mr_shape_elements(shape.rank, shape.dims, &n));
    if ((int)type != c->node->out_types[0])
        return mr_invalid("Type mismatch between value (%s) and dtype (%s)", mr_dtype_name(type),
                          mr_dtype_name(c->node->out_types[0]));
    c->out[0] = mr_pshape_of(c->arena, shape.rank, shape.dims);
    return NULL;
}

MR_OP(Const,
    .doc         = "the tensor given as an attribute",
    .sig         = "-> output: dtype",
    .attrs       = "value: tensor; dtype: type",
    .flags       = MR_CHEAP | MR_NO_GRADIENT,
    .shape       = const_shape,
    .state_bytes = sizeof(constant),
    .init        = const_init,
    .deinit      = const_deinit,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_const) MR_GPU_ANY(run_const)),
    .examples    = MR_EXAMPLES("value=int32[1, 2] dtype=int32: -> [1, 2]",
                               "value=string\"a\" dtype=string: -> \"a\"",
                               "value=half[[0.5], [-1]] dtype=half: -> [[0.5], [-1]]",
                               "value=float[] dtype=float: -> shape(0)",
                               "value=float[1] dtype=int32: -> !INVALID_ARGUMENT Type mismatch"));

MR_OP(HostConst,
    .doc      = "Const that stays in the host's memory",
    .sig      = "-> output: dtype",
    .attrs    = "value: tensor; dtype: type",
    .shape    = const_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_const)),
    .state_bytes = sizeof(constant), .init = const_init, .deinit = const_deinit,
    .flags    = MR_NO_GRADIENT,
    .examples = MR_EXAMPLES("dtype=float value=float[1, 2]: -> [1, 2]"));
