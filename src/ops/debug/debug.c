/* ops/debug/debug.c -- ops that debuggers insert into graphs: copies, taps and summaries of values.
 *
 * Values pass unchanged. Sending them to debug_urls is not implemented, and a node with such a URL fails when it
 * runs. */
#include <math.h>

#include "graph/grad.h"
#include "graph/infer.h"
#include "run/run.h"

/* ---- copies ---- */

static mr_status *copy_input(mr_run *r)
{
    mr_tensor *y;
    MR_TRY(mr_tensor_copy(mr_run_allocator(r), mr_in(r, 0), &y));
    mr_run_set(r, 0, y);
    return NULL;
}

#define COPY_ATTRS "T: type; tensor_name: string = ''; debug_ops_spec: list(string) = []"

MR_OP(Copy,
    .doc      = "a copy of its input that shares no memory with it",
    .sig      = "input: T -> output: T",
    .attrs    = COPY_ATTRS,
    .flags    = MR_UNINIT_OK,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(copy_input)),
    .examples = MR_EXAMPLES("[1, 0] -> [1, 0]", "\"a\" -> \"a\"", "shape(0,2) -> shape(0,2)"));

MR_OP(CopyHost,
    .doc      = "a copy of its input in the host's memory",
    .sig      = "input: T -> output: T",
    .attrs    = COPY_ATTRS,
    .flags    = MR_UNINIT_OK,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(copy_input)),
    .examples = MR_EXAMPLES("[1, 0] -> [1, 0]", "\"a\" -> \"a\""));

/* ---- taps ---- */

static mr_status *check_urls(const mr_run *r)
{
    const mr_attr *urls = mr_node_attr(r->node, "debug_urls");
    return urls && urls->n > 0 && urls->kind == MR_ATTR_STRING
               ? mr_error(MR_UNIMPLEMENTED, "%s cannot send values to '%.*s'", r->node->def->name, MR_SV_ARG(urls->ss[0]))
               : NULL;
}

static mr_status *tap_input(mr_run *r)
{
    MR_TRY(check_urls(r));
    mr_run_pass(r, 0, 0);
    return NULL;
}

#define TAP_ATTRS \
    "T: type; device_name: string = ''; tensor_name: string = ''; debug_urls: list(string) = []; gated_grpc: bool = false"

MR_OP(DebugIdentity,
    .doc      = "its input, which a debugger may look at",
    .sig      = "input: T -> output: T",
    .attrs    = TAP_ATTRS,
    .flags    = MR_UNINIT_OK,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(tap_input)),
    .examples = MR_EXAMPLES("[1, 0] -> [1, 0]", "\"a\" -> \"a\"",
                            "debug_urls=[\"file:///tmp\"] T=float: [1, 2] -> !UNIMPLEMENTED file:///tmp"));

MR_OP(DebugIdentityV2,
    .doc      = "its input, which a debugger may look at",
    .sig      = "input: T -> output: T",
    .attrs    = "T: type; tfdbg_context_id: string = ''; op_name: string = ''; output_slot: int = -1; "
                "tensor_debug_mode: int = -1; debug_urls: list(string) = []; circular_buffer_size: int = 1000; "
                "tfdbg_run_id: string = ''",
    .flags    = MR_STATEFUL,
    .shape    = mr_shape_same,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(tap_input)),
    .examples = MR_EXAMPLES("[1, 0] -> [1, 0]", "\"a\" -> \"a\"",
                            "debug_urls=[\"file:///tmp\"] T=float: [1, 2] -> !UNIMPLEMENTED file:///tmp"));

MR_OP(DebugGradientIdentity,
    .doc      = "its input, of whose gradient a debugger wants to know",
    .sig      = "input: T -> output: T",
    .attrs    = "T: type",
    .flags    = MR_UNINIT_OK | MR_CHEAP,
    .shape    = mr_shape_same,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(tap_input)),
    .examples = MR_EXAMPLES("[1, 0] -> [1, 0]", "\"a\" -> \"a\""));

MR_OP(DebugGradientRefIdentity,
    .doc      = "a reference, of whose gradient a debugger wants to know",
    .sig      = "input: Ref(T) -> output: Ref(T)",
    .attrs    = "T: type",
    .flags    = MR_UNINIT_OK | MR_CHEAP,
    .shape    = mr_shape_same,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(tap_input)),
    .examples = MR_EXAMPLES("nograd: [1, 0] -> [1, 0]"));

/* ---- summaries ---- */

/* Numbers are converted to double, one block at a time. */
enum { BLOCK = 512 };

static int read_block(const mr_tensor *t, int64_t at, double *out)
{
    int n = (int)MR_MIN(BLOCK, t->n - at);
    const char *from = (const char *)t->data + (size_t)at * mr_dtype_size(t->dtype);
    mr_dtype_convert(t->dtype, from, MR_DOUBLE, out, n, false);
    return n;
}

static mr_status *nan_count(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    double block[BLOCK];
    int64_t n = 0;
    MR_TRY(check_urls(r));
    MR_TRY(mr_run_output(r, 0, 1, (int64_t[]){1}, &y));
    for (int64_t at = 0; at < x->n; at += BLOCK)
        for (int i = 0, k = read_block(x, at, block); i < k; i++)
            n += isnan(block[i]) != 0;
    *MR_DATA(int64_t, y) = n;
    return NULL;
}

MR_OP(DebugNanCount,
    .doc      = "how many elements are NaN",
    .sig      = "input: T -> output: int64",
    .attrs    = TAP_ATTRS,
    .flags    = MR_UNINIT_OK | MR_NO_GRADIENT,
    .shape    = mr_shape_unknown,
    .kernels  = MR_KERNELS(MR_CPU_ONE(nan_count, MR_REALS) {"CPU", MR_BOOL, nan_count},),
    .examples = MR_EXAMPLES("[1, 0] -> [0]", "[1, nan, inf, nan] -> [2]", "shape(0) -> [0]", "true -> [0]"));

typedef struct summary {
    int64_t nan, minus, negative, zero, positive, plus; /* minus, plus: include values beyond the bounds */
    int64_t n_finite;
    double min, max, sum, squares;
} summary;

static void look_at(summary *s, double x, double low, double high)
{
    if (isnan(x)) {
        s->nan++;
        return;
    }
    if (isinf(x)) {
        *(x < 0 ? &s->minus : &s->plus) += 1;
        return;
    }
    s->min = MR_MIN(s->min, x);
    s->max = MR_MAX(s->max, x);
    s->sum += x;
    s->n_finite++;
    if (x <= low)
        s->minus++;
    else if (x >= high)
        s->plus++;
    else
        *(x < 0 ? &s->negative : x > 0 ? &s->positive : &s->zero) += 1;
}

/* The variance needs a second pass, otherwise it would lose precision. */
static void summarize_tensor(const mr_tensor *x, double low, double high, summary *s)
{
    double block[BLOCK];
    *s = (summary){.min = INFINITY, .max = -INFINITY};
    for (int64_t at = 0; at < x->n; at += BLOCK)
        for (int i = 0, k = read_block(x, at, block); i < k; i++)
            look_at(s, block[i], low, high);
    double mean = s->n_finite ? s->sum / (double)s->n_finite : 0;
    for (int64_t at = 0; at < x->n && s->n_finite; at += BLOCK)
        for (int i = 0, k = read_block(x, at, block); i < k; i++)
            if (isfinite(block[i]))
                s->squares += (block[i] - mean) * (block[i] - mean);
}

enum { FIXED = 14 };

static mr_status *numeric_summary(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    float low, high;
    bool mute;
    summary s;
    mr_tensor *y;
    MR_TRY(check_urls(r));
    MR_TRY(mr_node_get_float(r->node, "lower_bound", &low));
    MR_TRY(mr_node_get_float(r->node, "upper_bound", &high));
    MR_TRY(mr_node_get_bool(r->node, "mute_if_healthy", &mute));
    summarize_tensor(x, low, high, &s);
    if (mute && s.nan == 0 && s.minus == 0 && s.plus == 0)
        return mr_run_output(r, 0, 1, (int64_t[]){0}, &y);
    MR_TRY(mr_run_output(r, 0, 1, (int64_t[]){FIXED + x->rank}, &y));
    double n = (double)s.n_finite, mean = s.n_finite ? s.sum / n : NAN, variance = s.n_finite ? s.squares / n : NAN;
    const double values[FIXED] = {1, (double)x->n, (double)s.nan, (double)s.minus, (double)s.negative, (double)s.zero,
                                  (double)s.positive, (double)s.plus, s.min, s.max, mean, variance, x->dtype, x->rank};
    memcpy(y->data, values, sizeof values);
    for (int i = 0; i < x->rank; i++)
        MR_DATA(double, y)[FIXED + i] = (double)x->dims[i];
    return NULL;
}

MR_OP(DebugNumericSummary,
    .doc      = "[1, elements, NaNs, -inf, negative, 0, positive, inf, least, greatest, mean, variance, type, rank, sizes...]",
    .sig      = "input: T -> output: double",
    .attrs    = "T: type; device_name: string = ''; tensor_name: string = ''; debug_urls: list(string) = []; "
                "lower_bound: float = -inf; upper_bound: float = inf; mute_if_healthy: bool = false; gated_grpc: bool = false",
    .flags    = MR_UNINIT_OK | MR_NO_GRADIENT,
    .shape    = mr_shape_unknown,
    .kernels  = MR_KERNELS(MR_CPU_ONE(numeric_summary, MR_REALS) {"CPU", MR_BOOL, numeric_summary},),
    .examples = MR_EXAMPLES(
        "T=float: [[1, -3], [0, 2]] -> [1, 4, 0, 0, 1, 1, 2, 0, -3, 2, 0, 3.5, 1, 2, 2, 2]",
        "T=float: [nan, inf, -inf, 4] -> [1, 4, 1, 1, 0, 0, 1, 1, 4, 4, 4, 0, 1, 1, 4]",
        "T=float lower_bound=-1.0 upper_bound=1.0: [-2, 0.5, 3] -> [1, 3, 0, 1, 0, 0, 1, 1, -2, 3, 0.5, 4.16666667, 1, 1, 3]",
        "T=float mute_if_healthy=true: [1, 2] -> shape(0)",
        "T=float: shape(0) -> [1, 0, 0, 0, 0, 0, 0, 0, inf, -inf, nan, nan, 1, 1, 0]",
        "[1, 0] -> shape(15)"));
