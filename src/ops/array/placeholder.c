/* ops/array/placeholder.c -- values that are fed: Placeholder, PlaceholderV2, PlaceholderWithDefault.
 *
 * A fed placeholder is removed from the graph before the step, so its kernel runs only when a feed is missing. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

static mr_status *not_fed(mr_run *r)
{
    const mr_pshape *shape = NULL;
    const char *dtype = mr_dtype_name(mr_out_dtype(r, 0));
    MR_TRY(mr_node_get_shape(r->node, "shape", &shape));
    if (shape->rank > 0)
        return mr_invalid(
            "You must feed a value for placeholder tensor '%s' with dtype %s and shape %s",
            r->node->name, dtype, MR_PSHAPE_TEXT(shape));
    return mr_invalid("You must feed a value for placeholder tensor '%s' with dtype %s",
                      r->node->name, dtype);
}

/* Graphs up to version 21 could not express an unknown shape and wrote a scalar's shape instead. */
static mr_status *placeholder_shape(mr_infer *c)
{
    const mr_pshape *shape;
    MR_TRY(mr_node_get_shape(c->node, "shape", &shape));
    return c->producer <= 21 && shape->rank == 0 ? mr_shape_unknown(c) : mr_shape_from_attr(c);
}

MR_OP(Placeholder,
    .doc      = "a value that must be fed",
    .sig      = "-> output: dtype",
    .attrs    = "dtype: type; shape: shape = { unknown_rank: true }",
    .flags    = MR_CHEAP | MR_NO_FOLD,
    .shape    = placeholder_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(not_fed)),
    .examples = MR_EXAMPLES(
        "shape=[2,?]: -> !INVALID_ARGUMENT You must feed a value for placeholder tensor 'op' with "
        "dtype",
        "shape=[2,?] dtype=float: -> !INVALID_ARGUMENT float and shape [2,?]"));

MR_OP(PlaceholderV2,
    .doc        = "a value that must be fed; its shape is always said",
    .sig        = "-> output: dtype",
    .attrs      = "dtype: type; shape: shape",
    .flags      = MR_CHEAP | MR_NO_FOLD,
    .deprecated = 23,
    .shape      = mr_shape_from_attr,
    .kernels    = MR_KERNELS(MR_CPU_ANY(not_fed)),
    .examples   = MR_EXAMPLES("shape=[2]: -> !UNIMPLEMENTED removed in version 23"));

static mr_status *pass_input(mr_run *r)
{
    mr_run_pass(r, 0, 0);
    return NULL;
}

/* Uses only the attr: a fed value may have another shape than the default. */
static mr_status *default_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_node_get_shape(c->node, "shape", &c->out[0]));
    return mr_infer_merge(c, c->in[0], c->out[0], &ignored);
}

MR_OP(PlaceholderWithDefault,
    .doc      = "a value that may be fed; otherwise the input",
    .sig      = "input: dtype -> output: dtype",
    .attrs    = "dtype: type; shape: shape",
    .flags    = MR_CHEAP | MR_NO_FOLD | MR_HOST_ONLY,
    .shape    = default_shape,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(pass_input)),
    .examples = MR_EXAMPLES("shape=[?]: [1, 0] -> [1, 0]",
                            "shape=[3]: [1, 0] -> !INVALID_ARGUMENT must be equal"));
