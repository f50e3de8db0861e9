/* ops/control/lists.c -- lists of values with another kind of type attr, as in bodies of old functions. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

static mr_status *pass_list(mr_run *r)
{
    if (r->n_in != r->n_out)
        return mr_invalid("#inputs != #outputs : %d vs. %d", r->n_in, r->n_out);
    for (int i = 0; i < r->n_in; i++)
        if (mr_in(r, i)->dtype != mr_out_dtype(r, i))
            return mr_invalid("Input and output types for position %d do not match: %s vs. %s", i,
                              mr_dtype_name(mr_in(r, i)->dtype), mr_dtype_name(mr_out_dtype(r, i)));
    for (int i = 0; i < r->n_out; i++)
        mr_run_pass(r, i, i);
    return NULL;
}

static mr_status *each_same(mr_infer *c)
{
    for (int i = 0; i < c->n_out && i < c->n_in; i++)
        c->out[i] = c->in[i];
    return NULL;
}

MR_OP(_ListToArray,
    .doc      = "values of listed types, all of which are one, as so many of that type",
    .sig      = "input: Tin -> output: N * T",
    .attrs    = "Tin: list(type) >= 1; T: type; N: int >= 1",
    .flags    = MR_CHEAP,
    .shape    = each_same,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(pass_list)),
    .examples = MR_EXAMPLES("N=2 T=double: (double[1, 2], double 3) -> [1, 2], 3",
                            "N=2 T=float: (float[1, 2], int32 3) -> !INVALID_ARGUMENT types for position 1",
                            "N=1 T=float: (float[1, 2], float 3) -> !INVALID_ARGUMENT #inputs"));

MR_OP(_ArrayToList,
    .doc      = "several values of one type as values of listed types",
    .sig      = "input: N * T -> output: out_types",
    .attrs    = "T: type; N: int >= 1; out_types: list(type) >= 1",
    .flags    = MR_CHEAP,
    .shape    = each_same,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(pass_list)),
    .examples = MR_EXAMPLES("T=double out_types=[double, double]: ([1, 2], 3) -> [1, 2], 3",
                            "out_types=[int32]: (float[1, 2]) -> !INVALID_ARGUMENT types for position 0"));
