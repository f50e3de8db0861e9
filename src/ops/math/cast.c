/* ops/math/cast.c -- Cast: any plain type to any other (the rules are in tensor/convert.c). */
#include <stdio.h>

#include "ops/elementwise.h"

typedef struct job {
    mr_dtype from, to;
    const char *x;
    char *y;
    bool truncate;
} job;

static void convert_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    mr_dtype_convert(j->from, j->x + (size_t)begin * mr_dtype_size(j->from), j->to,
                     j->y + (size_t)begin * mr_dtype_size(j->to), end - begin, j->truncate);
}

static mr_status *cast_by_device(mr_run *r, const mr_tensor *x, mr_dtype to)
{
    char name[64];
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &y));
    snprintf(name, sizeof name, "cast_%s_%s", mr_dtype_name(x->dtype), mr_dtype_name(to));
    return mr_accel_launch(r, name, y->n, MR_ACCEL(MR_AI(y->n), MR_AT(y), MR_AT(x)));
}

static mr_status *cast_run(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_dtype from = (mr_dtype)x->dtype, to = mr_out_dtype(r, 0);
    if (from == to) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    if (!mr_dtype_convert(from, NULL, to, NULL, 0, false))
        return mr_error(MR_UNIMPLEMENTED, "Cast %s to %s is not supported", mr_dtype_name(from),
                        mr_dtype_name(to));
    if (mr_on_accel(r))
        return cast_by_device(r, x, to);
    job j = {from, to, x->data, NULL, false};
    MR_TRY(mr_node_get_bool(r->node, "Truncate", &j.truncate));
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &y));
    j.y = y->data;
    if (x->n > 0)
        mr_run_for(r, x->n, 0.5, convert_part, &j);
    return NULL;
}

/* Casts back; there is a gradient only if both types are continuous. */
static void cast_backward(mr_grad *g)
{
    mr_dtype from = mr_dtype_base(mr_out_type(mr_xi(g, 0))),
             to = mr_dtype_base(mr_out_type(mr_yi(g, 0)));
    bool smooth = (mr_dtype_is_floating(from) || mr_dtype_is_complex(from)) &&
                  (mr_dtype_is_floating(to) || mr_dtype_is_complex(to));
    if (smooth)
        mr_dxi(g, 0, mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(from)}), mr_dyi(g, 0)));
}

/* Casts between floats and the types for counting and choosing; the host does the others. */
static const mr_named_attr from_float[] = {
    {"DstT", {.kind = MR_ATTR_TYPE, .is_list = true, .n = 4, .types = (int[]){MR_FLOAT, MR_BOOL, MR_INT32, MR_INT64}}}, {0}};
static const mr_named_attr to_float[] = {{"DstT", {.kind = MR_ATTR_TYPE, .type = MR_FLOAT}}, {0}};
/* The format in which floats are sent between tasks when half of the bits are enough. */
static const mr_named_attr to_upper_half[] = {{"DstT", {.kind = MR_ATTR_TYPE, .type = MR_BFLOAT16}},
                                              {"Truncate", {.kind = MR_ATTR_BOOL, .b = true}}, {0}};
#define ACCEL_ROW(E, to) {.device = MR_ACCEL_KERNELS, .type = MR_##E, .run = cast_run, .constraints = to},

MR_OP(Cast,
    .doc      = "the same numbers in another type",
    .sig      = "x: SrcT -> y: DstT",
    .attrs    = "SrcT: type; DstT: type; Truncate: bool = false",
    .shape    = mr_shape_same,
    .grad     = cast_backward,
    .kernels  = MR_KERNELS({.device = "CPU", .run = cast_run, .form = MR_FORM_CAST}, ACCEL_ROW(FLOAT, from_float) ACCEL_ROW(BOOL, to_float)
                           ACCEL_ROW(INT32, to_float) ACCEL_ROW(INT64, to_float) ACCEL_ROW(FLOAT, to_upper_half)
                           ACCEL_ROW(BFLOAT16, to_float)),
    .examples = MR_EXAMPLES(
        "DstT=int32: [0, 1] -> [0, 1]",
        "DstT=float: [0, 1] -> [0, 1]",
        "DstT=double: [0, 1] -> [0, 1]",
        "DstT=complex128: [0, 1] -> [0, 1]",
        "DstT=bool: [0, 1] -> [false, true]",
        "SrcT=float DstT=int32: [2.9, -2.9, 1e10, nan] -> [2, -2, -2147483648, -2147483648]",
        "SrcT=int32 DstT=uint8: [300, -1] -> [44, 255]",
        "SrcT=float DstT=bool: [0.1, 0, nan] -> [true, false, true]",
        "SrcT=bool DstT=double: [true, false] -> [1, 0]",
        "SrcT=complex64 DstT=float: [1.5+2i] -> [1.5]",
        "SrcT=double DstT=complex128: [1.5, -2] -> [1.5, -2]",
        "nograd SrcT=double DstT=float: [0.1, 1e300] -> [0.1, inf]",
        "SrcT=float DstT=half: [65519, 65520, 1e-10] -> [65504, inf, 0]",
        "SrcT=float DstT=bfloat16: [1.0058594] -> [1.0078125]",
        "SrcT=float DstT=bfloat16 Truncate=true: [1.0058594, nan] -> [1, nan]",
        "DstT=$T: [0, 1] -> [0, 1]",
        "SrcT=string DstT=float: [\"1\"] -> !UNIMPLEMENTED Cast string to float is not supported",
        "SrcT=float DstT=string: [1] -> !UNIMPLEMENTED Cast float to string is not supported"));

MR_OP(_HostCast,
    .doc      = "Cast of a value that lies in the memory of the host",
    .sig      = "x: SrcT -> y: DstT",
    .attrs    = "SrcT: type; DstT: type; Truncate: bool = false",
    .flags    = MR_HOST_ONLY,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(cast_run)),
    .examples = MR_EXAMPLES(
        "DstT=int32: [0, 1] -> [0, 1]", "SrcT=string DstT=float: [\"1\"] -> !UNIMPLEMENTED"));
