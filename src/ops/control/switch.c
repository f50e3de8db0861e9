/* ops/control/switch.c -- Switch passes a value to one output; the other outputs are dead.
 *
 * graph/gradients.c builds the gradients of these ops, because it treats conditionals and loops as a whole. */
#include "graph/infer.h"
#include "run/run.h"

/* All outputs have the type and shape of the data input; a handle refers to the same object on every output. */
static mr_status *like_data(mr_infer *c)
{
    for (int i = 0; i < c->n_out; i++) {
        c->out[i] = c->in[0];
        c->out_handles[i] = c->in_handles[0];
    }
    return NULL;
}

static mr_status *switch_shape(mr_infer *c)
{
    const mr_pshape *pred;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &pred));
    return like_data(c);
}

static void send_one_way(mr_run *r, int way)
{
    for (int i = 0; i < r->n_out; i++)
        if (i != way)
            mr_run_set_dead(r, i);
    mr_run_pass(r, 0, way);
}

static mr_status *run_switch(mr_run *r)
{
    bool pred;
    const mr_tensor *t = mr_in(r, 1);
    if (t->rank != 0)
        return mr_invalid("The second input must be a scalar, but it has shape %s",
                          MR_TENSOR_SHAPE(t));
    MR_TRY(mr_in_scalar_bool(r, 1, "pred", &pred));
    send_one_way(r, pred);
    return NULL;
}

static mr_status *run_switch_n(mr_run *r)
{
    int64_t way;
    const mr_tensor *t = mr_in(r, 1);
    if (t->rank != 0)
        return mr_invalid("The second input must be a scalar, but it has shape %s",
                          MR_TENSOR_SHAPE(t));
    MR_TRY(mr_in_scalar_int(r, 1, "output_index", &way));
    send_one_way(r, way < 0 || way >= r->n_out ? r->n_out - 1 : (int)way);
    return NULL;
}

static mr_status *run_ref_select(mr_run *r)
{
    int64_t which;
    const mr_tensor *t = mr_in(r, 0);
    if (t->rank != 0)
        return mr_invalid("Index must be a scalar, but it has shape %s", MR_TENSOR_SHAPE(t));
    MR_TRY(mr_in_scalar_int(r, 0, "index", &which));
    if (which < 0 || which >= r->n_in - 1)
        return mr_invalid("Index must be in the range [0, %d) but got %lld", r->n_in - 1,
                          (long long)which);
    mr_run_pass(r, (int)which + 1, 0);
    return NULL;
}

static mr_status *ref_select_shape(mr_infer *c)
{
    const mr_pshape *s;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &s));
    s = c->in[1];
    for (int i = 1; i < c->n_in; i++) /* known only if all are known and agree, as in TensorFlow */
        if (!mr_pshape_full(c->in[i]) || !mr_pshape_eq(c->in[i], s))
            s = &mr_pshape_unknown;
    c->out[0] = s;
    return NULL;
}

MR_OP(Switch,
    .doc     = "forwards data to output_true when pred, else to output_false; the other is dead",
    .sig     = "data: T, pred: bool -> output_false: T, output_true: T",
    .attrs   = "T: type",
    .flags   = MR_CHEAP | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = switch_shape,
    .kernels = MR_KERNELS({.device = "CPU", .run = run_switch, .host_in = 2},),
    .examples = MR_EXAMPLES("[1, 2], true -> dead, [1, 2]", "[1, 2], false -> [1, 2], dead",
                            "[1, 2], [true] -> !INVALID_ARGUMENT"));

MR_OP(RefSwitch,
    .doc     = "Switch for a reference",
    .sig     = "data: Ref(T), pred: bool -> output_false: Ref(T), output_true: Ref(T)",
    .attrs   = "T: type",
    .flags   = MR_CHEAP | MR_NO_FOLD | MR_HOST_ONLY | MR_UNINIT_OK,
    .shape   = switch_shape,
    .kernels = MR_KERNELS({.device = "CPU", .run = run_switch, .host_in = 2},));

MR_OP(_SwitchN,
    .doc     = "forwards data to the output that output_index names (the last when out of range)",
    .sig     = "data: T, output_index: int32 -> outputs: num_outs * T",
    .attrs   = "num_outs: int >= 1; T: type",
    .flags   = MR_CHEAP | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = switch_shape,
    .kernels = MR_KERNELS({.device = "CPU", .run = run_switch_n, .host_in = 2},),
    .examples = MR_EXAMPLES("num_outs=3: [1, 2], 1 -> dead, [1, 2], dead",
                            "num_outs=2: [1, 2], 7 -> dead, [1, 2]"));

MR_OP(RefSelect,
    .doc     = "forwards the index-th of several references",
    .sig     = "index: int32, inputs: Ref(N * T) -> output: Ref(T)",
    .attrs   = "T: type; N: int >= 1",
    .flags   = MR_CHEAP | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = ref_select_shape,
    .kernels = MR_KERNELS({.device = "CPU", .run = run_ref_select, .host_in = 1},));
