/* ops/control/truth.c -- ToBool. */
#include "ops/control/truth.h"

#include "graph/infer.h"
#include "run/run.h"

mr_status *mr_tensor_truth(const mr_tensor *t, bool *out)
{
    if (t->rank > 0) {
        *out = t->n > 0;
        return NULL;
    }
    if (!mr_tensor_on_host(t)) { /* what a function computed on its device */
        mr_tensor *host;
        MR_TRY(mr_tensor_copy(NULL, t, &host));
        mr_status *st = mr_tensor_truth(host, out);
        mr_tensor_unref(host);
        return st;
    }
    if (t->dtype == MR_STRING) {
        *out = mr_tensor_str_at(t, 0).n > 0;
        return NULL;
    }
    if (!mr_dtype_is_plain(t->dtype))
        return mr_invalid("%s cannot be converted to a boolean", mr_dtype_name(t->dtype));
    if (mr_dtype_is_complex(t->dtype)) { /* as a number either part of which is not 0 */
        double parts[2];
        mr_dtype_convert(t->dtype, t->data, MR_COMPLEX128, parts, 1, false);
        *out = parts[0] != 0 || parts[1] != 0;
        return NULL;
    }
    mr_dtype_convert(t->dtype, t->data, MR_BOOL, out, 1, false);
    return NULL;
}

static mr_status *to_bool(mr_run *r)
{
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &y));
    return mr_tensor_truth(mr_in(r, 0), MR_DATA(bool, y));
}

MR_OP(ToBool,
    .doc      = "whether a tensor counts as true: a scalar that is neither 0 nor empty, or any elements at all",
    .sig      = "input: T -> output: bool",
    .attrs    = "T: type",
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(to_bool)),
    .examples = MR_EXAMPLES(
        "0 -> false", "2 -> true", "[0] -> true", "shape(0,3) -> false", "\"\" -> false", "\"a\" -> true",
        "T=float: nan -> true", "T=float: 0.5 -> true", "-0.0 -> false", "2i -> true", "true -> true"));
