/* ops/array/identity.c -- ops that pass their inputs through and share the buffer: Identity, IdentityN,
 * StopGradient, PreventGradient, EnsureShape. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

static mr_status *pass_all(mr_run *r)
{
    for (int i = 0; i < r->n_out; i++)
        mr_run_pass(r, i, i);
    return NULL;
}

#define PASSES {.device = "CPU", .run = pass_all, .form = MR_FORM_PASS},

MR_OP(Identity,
    .doc      = "its input",
    .sig      = "input: T -> output: T",
    .attrs    = "T: type",
    .flags    = MR_CHEAP | MR_HOST_ONLY,
    .shape    = mr_shape_same,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(PASSES),
    .examples = MR_EXAMPLES(
        "[[1, 0], [1, 1]] -> [[1, 0], [1, 1]]", "\"a\" -> \"a\"", "shape(2,0) -> shape(2,0)"));

static mr_status *each_same(mr_infer *c)
{
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = c->in[i];
    return NULL;
}

MR_OP(IdentityN,
    .doc      = "its inputs",
    .sig      = "input: T -> output: T",
    .attrs    = "T: list(type) >= 1",
    .flags    = MR_CHEAP | MR_HOST_ONLY,
    .shape    = each_same,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(pass_all)),
    .examples = MR_EXAMPLES("([1, 2], \"a\", int32 3) -> [1, 2], \"a\", 3"));

MR_OP(StopGradient,
    .doc      = "its input, which counts as a constant in gradients",
    .sig      = "input: T -> output: T",
    .attrs    = "T: type",
    .flags    = MR_CHEAP | MR_HOST_ONLY | MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(PASSES),
    .examples = MR_EXAMPLES("[1, 0] -> [1, 0]"));

static void prevent_backward(mr_grad *g)
{
    mr_sv message = MR_SV("");
    mr_status_free(mr_node_get_str(g->node, "message", &message));
    mr_grad_fail(g, MR_NOT_FOUND, "Gradient explicitly disabled. Reason: %.*s", MR_SV_ARG(message));
}

MR_OP(PreventGradient,
    .doc      = "its input, of which no gradient may be asked",
    .sig      = "input: T -> output: T",
    .attrs    = "T: type; message: string = \"\"",
    .flags    = MR_CHEAP | MR_HOST_ONLY,
    .shape    = mr_shape_same,
    .grad     = prevent_backward,
    .kernels  = MR_KERNELS(PASSES),
    .examples = MR_EXAMPLES("nograd: [1, 0] -> [1, 0]"));

/* ---- EnsureShape ---- */

static mr_status *ensured_shape(mr_infer *c)
{
    const mr_pshape *want = NULL;
    MR_TRY(mr_node_get_shape(c->node, "shape", &want));
    return mr_infer_merge(c, c->in[0], want, &c->out[0]);
}

static bool fits_shape(const mr_tensor *t, const mr_pshape *want)
{
    if (want->rank < 0)
        return true;
    if (want->rank != t->rank)
        return false;
    for (int i = 0; i < t->rank; i++)
        if (want->dims[i] >= 0 && want->dims[i] != t->dims[i])
            return false;
    return true;
}

static mr_status *ensure_shape(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    const mr_pshape *want = NULL;
    MR_TRY(mr_node_get_shape(r->node, "shape", &want));
    if (!fits_shape(t, want)) {
        const mr_node *from = r->node->in[0].node;
        return mr_invalid("Shape of tensor %s %s is not compatible with expected shape %s.",
                          from ? from->name : "input", MR_TENSOR_SHAPE(t), MR_PSHAPE_TEXT(want));
    }
    mr_run_pass(r, 0, 0);
    return NULL;
}

MR_OP(EnsureShape,
    .doc      = "its input, if it has the shape said",
    .sig      = "input: T -> output: T",
    .attrs    = "shape: shape; T: type",
    .flags    = MR_CHEAP | MR_HOST_ONLY,
    .shape    = ensured_shape,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(ensure_shape)),
    .examples = MR_EXAMPLES("shape=[?,2]: [[1, 0]] -> [[1, 0]]", "shape=?: 1 -> 1",
                            "x = PlaceholderWithDefault dtype=$T shape=?: [1, 0]; shape=[3]: x -> "
                            "!INVALID_ARGUMENT [2] is not compatible with expected shape [3].",
                            "shape=[3]: [1, 0] -> !INVALID_ARGUMENT must be equal"));
