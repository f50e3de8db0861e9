/* ops/control/if.c -- conditionals over whole functions: If, Case and their variants.
 *
 * The kernel calls the function of the chosen branch; the other one is never instantiated. Nodes with
 * _lower_using_switch_merge become Switch and Merge before they get here (passes/lower.c). graph/gradient_call.c
 * builds the gradients. */
#include "graph/infer.h"
#include "ops/control/truth.h"
#include "run/run.h"

static mr_status *choose_side(mr_run *r, const mr_func_ref **f)
{
    bool yes;
    MR_TRY(mr_tensor_truth(mr_in(r, 0), &yes));
    return mr_node_get_func(r->node, yes ? "then_branch" : "else_branch", f);
}

static void run_if(mr_run *r)
{
    const mr_func_ref *f = NULL;
    mr_status *st = choose_side(r, &f);
    if (st)
        mr_run_done(r, st);
    else
        mr_run_call_from(r, f, 1);
}

/* An index outside the list means the last branch. */
static mr_status *choose_branch(mr_run *r, const mr_func_ref **f)
{
    int64_t i;
    const mr_attr *list;
    MR_TRY(mr_in_scalar_int(r, 0, "branch_index", &i));
    MR_TRY(mr_node_get_list(r->node, "branches", MR_ATTR_FUNC, &list));
    if (list->n < 1)
        return mr_invalid("Case has no branches");
    *f = list->funcs[i < 0 || i >= list->n ? list->n - 1 : i];
    return NULL;
}

static void run_case(mr_run *r)
{
    const mr_func_ref *f = NULL;
    mr_status *st = choose_branch(r, &f);
    if (st)
        mr_run_done(r, st);
    else
        mr_run_call_from(r, f, 1);
}

/* The shapes that the attr output_shapes declares; unknown when it is empty. */
static mr_status *promised_shapes(mr_infer *c)
{
    const mr_attr *shapes;
    MR_TRY(mr_node_get_list(c->node, "output_shapes", MR_ATTR_SHAPE, &shapes));
    if (shapes->n == 0)
        return NULL;
    if (shapes->n != c->n_out)
        return mr_invalid("`output_shapes` must be the same length as num outputs (%d vs. %d)", shapes->n, c->n_out);
    for (int i = 0; i < c->n_out; i++)
        c->out[i] = shapes->shapes[i];
    return NULL;
}

static mr_status *case_shape(mr_infer *c)
{
    const mr_pshape *index;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &index));
    return promised_shapes(c);
}

/* The condition is read on the host; all other inputs are passed to the function. */
#define BY_CONDITION(fn) MR_KERNELS({"CPU", 0, NULL, fn, .host_in = 1}, )
#define IF_ATTRS                                                                                            \
    "Tcond: type; Tin: list(type) >= 0; Tout: list(type) >= 0; then_branch: func; else_branch: func; "      \
    "output_shapes: list(shape) = []"
#define CASE_ATTRS \
    "Tin: list(type) >= 0; Tout: list(type) >= 0; branches: list(func) >= 1; output_shapes: list(shape) = []"

MR_OP(If,
    .doc     = "then_branch(input) if cond counts as true (ToBool), else else_branch(input)",
    .sig     = "cond: Tcond, input: Tin -> output: Tout",
    .attrs   = IF_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = promised_shapes,
    .kernels = BY_CONDITION(run_if));

MR_OP(StatelessIf,
    .doc     = "If with branches that have no side effects",
    .sig     = "cond: Tcond, input: Tin -> output: Tout",
    .attrs   = IF_ATTRS,
    .flags   = MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = promised_shapes,
    .kernels = BY_CONDITION(run_if));

MR_OP(_If,
    .doc     = "If as older programs have it",
    .sig     = "cond: Tcond, input: Tin -> output: Tout",
    .attrs   = "Tcond: type; Tin: list(type) >= 1; Tout: list(type) >= 1; then_branch: func; else_branch: func",
    .flags   = MR_STATEFUL | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = mr_shape_unknown,
    .kernels = BY_CONDITION(run_if));

MR_OP(Case,
    .doc     = "branches[branch_index](input); the last one for an index outside of them",
    .sig     = "branch_index: int32, input: Tin -> output: Tout",
    .attrs   = CASE_ATTRS,
    .flags   = MR_STATEFUL | MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = case_shape,
    .kernels = BY_CONDITION(run_case));

MR_OP(StatelessCase,
    .doc     = "Case with branches that have no side effects",
    .sig     = "branch_index: int32, input: Tin -> output: Tout",
    .attrs   = CASE_ATTRS,
    .flags   = MR_NO_FOLD | MR_HOST_ONLY,
    .shape   = case_shape,
    .kernels = BY_CONDITION(run_case));

/* A placeholder for a result that only another branch has. Nobody reads it, but it has the declared shape of the
 * result; where that leaves a size open, the size is 0. */
static mr_status *fake_param(mr_run *r)
{
    const mr_pshape *s;
    mr_tensor *y;
    mr_shape shape = {.rank = 0};
    MR_TRY(mr_node_get_shape(r->node, "shape", &s));
    for (int i = 0; i < s->rank; i++)
        MR_TRY(mr_shape_push(&shape, MR_MAX(s->dims[i], 0)));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &y));
    mr_tensor_zero(y);
    return NULL;
}

MR_OP(FakeParam,
    .doc      = "a value that is never read, where the results of several functions must match",
    .sig      = "-> output: dtype",
    .attrs    = "dtype: type; shape: shape",
    .flags    = MR_NO_FOLD,
    .shape    = mr_shape_from_attr,
    .kernels  = MR_KERNELS(MR_CPU_ANY(fake_param)),
    .examples = MR_EXAMPLES("dtype=$T shape=[] -> shape()", "dtype=float shape=? -> shape()", "dtype=float shape=[2,?] -> shape(2,0)"));
