/* ops/control/truth.c -- ToBool. */
#include "ops/control/truth.h"

#include "graph/infer.h"
#include "run/run.h"

/* For any plain element; a 16-bit float is 0 when all bits but its sign are. */
static bool is_not_zero(const mr_tensor *t)
{
    const unsigned char *p = t->data;
    switch (t->dtype) {
    case MR_FLOAT: return *MR_DATA(float, t) != 0;
    case MR_DOUBLE: return *MR_DATA(double, t) != 0;
    case MR_COMPLEX64: return MR_DATA(float, t)[0] != 0 || MR_DATA(float, t)[1] != 0;
    case MR_COMPLEX128: return MR_DATA(double, t)[0] != 0 || MR_DATA(double, t)[1] != 0;
    case MR_HALF:
    case MR_BFLOAT16: return (*MR_DATA(uint16_t, t) & 0x7fff) != 0;
    case MR_FLOAT8_E5M2:
    case MR_FLOAT8_E4M3FN: return (p[0] & 0x7f) != 0;
    case MR_INT4:
    case MR_UINT4: return (p[0] & 0x0f) != 0;
    default: break;
    }
    for (size_t i = 0; i < mr_dtype_size(t->dtype); i++)
        if (p[i])
            return true;
    return false;
}

mr_status *mr_tensor_truth(const mr_tensor *t, bool *out)
{
    if (t->rank > 0) {
        *out = t->n > 0;
        return NULL;
    }
    if (!mr_tensor_on_host(t)) { /* a function computed it on its device */
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
    *out = is_not_zero(t);
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
