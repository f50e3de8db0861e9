/* ops/math/equal.c -- Equal and NotEqual, for any type that has values.
 *
 * Integers are equal when their bytes are, so one loop per size serves signed, unsigned and quantized types. */
#include "ops/broadcast.h"
#include "ops/elementwise.h"

MR_COMPARE(equal, MR_FLOATS_COMPLEX, x == y)
MR_COMPARE(equal, MR_UNSIGNED, x == y)
MR_COMPARE(not_equal, MR_FLOATS_COMPLEX, x != y)
MR_COMPARE(not_equal, MR_UNSIGNED, x != y)
/* Any non-zero byte is true. */
MR_COMPARE(same_truth, MR_TYPE_UINT8, (x != 0) == (y != 0))
MR_COMPARE(other_truth, MR_TYPE_UINT8, (x != 0) != (y != 0))

/* With incompatible_shape_error = false, incompatible shapes are not an error: the result is "not equal". */
static mr_status *unequal_shapes(mr_run *r, bool equal, bool *done)
{
    const mr_tensor *x = mr_in(r, 0), *y = mr_in(r, 1);
    bool strict;
    *done = false;
    MR_TRY(mr_node_get_bool(r->node, "incompatible_shape_error", &strict));
    if (strict || mr_tensor_same_shape(x, y))
        return NULL;
    mr_shape both;
    mr_status *st = mr_shape_broadcast(x->rank, x->dims, y->rank, y->dims, &both);
    if (!st)
        return NULL;
    mr_status_free(st);
    mr_tensor *z;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &z));
    *done = true;
    if (r->step->device->accel && mr_run_on_device(r))
        return mr_accel_fill(r, z, !equal);
    *MR_DATA(bool, z) = !equal;
    return NULL;
}

static mr_status *run_each(mr_run *r, bool equal)
{
    bool done;
    MR_TRY(unequal_shapes(r, equal, &done));
    return done ? NULL : mr_each_apply(r, r->kernel->user);
}

static mr_status *equal_each(mr_run *r) { return run_each(r, true); }
static mr_status *not_equal_each(mr_run *r) { return run_each(r, false); }

static mr_status *run_accel(mr_run *r, bool equal)
{
    bool done;
    MR_TRY(unequal_shapes(r, equal, &done));
    return done ? NULL : mr_each_run_accel(r);
}

static mr_status *equal_accel(mr_run *r) { return run_accel(r, true); }
static mr_status *not_equal_accel(mr_run *r) { return run_accel(r, false); }

static mr_status *run_strings(mr_run *r, bool equal)
{
    const mr_tensor *x = mr_in(r, 0), *y = mr_in(r, 1);
    bool done;
    MR_TRY(unequal_shapes(r, equal, &done));
    if (done)
        return NULL;
    mr_tensor *z;
    mr_broadcast b;
    mr_broadcast_init(&b);
    MR_TRY(mr_broadcast_add(&b, x->rank, x->dims));
    MR_TRY(mr_broadcast_add(&b, y->rank, y->dims));
    MR_TRY(mr_broadcast_collapse(&b));
    MR_TRY(mr_run_output(r, 0, b.shape.rank, b.shape.dims, &z));
    for (int64_t i = 0; i < b.n; i++)
        MR_DATA(bool, z)[i] = mr_sv_eq(mr_tensor_str_at(x, mr_broadcast_offset(&b, 0, i)),
                                       mr_tensor_str_at(y, mr_broadcast_offset(&b, 1, i))) == equal;
    return NULL;
}

static mr_status *equal_strings(mr_run *r) { return run_strings(r, true); }
static mr_status *not_equal_strings(mr_run *r) { return run_strings(r, false); }

static mr_status *equal_shape(mr_infer *c)
{
    bool strict;
    MR_TRY(mr_node_get_bool(c->node, "incompatible_shape_error", &strict));
    if (strict)
        return mr_shape_broadcast2(c);
    /* The result may be a scalar unless the shapes are known to fit. */
    mr_status *st = mr_infer_broadcast(c, c->in[0], c->in[1], &c->out[0]);
    if (st)
        c->out[0] = &mr_pshape_scalar;
    else if (!mr_pshape_full(c->in[0]) || !mr_pshape_full(c->in[1]))
        c->out[0] = &mr_pshape_unknown;
    mr_status_free(st);
    return NULL;
}

#define ROW(E, each, fn) \
    {.device = "CPU", .type = MR_##E, .run = fn, .user = (void *)(uintptr_t)&each, .form = MR_FORM_BROADCAST},
#define ALL_ROWS(op, truth, each_fn, string_fn)                                                    \
    MR_CPU_EACH_FORM(op, MR_FLOATS_COMPLEX, each_fn, MR_FORM_BROADCAST)                            \
    MR_CPU_EACH_FORM(op, MR_UNSIGNED, each_fn, MR_FORM_BROADCAST)                                  \
    ROW(INT8, op##_uint8, each_fn) ROW(INT16, op##_uint16, each_fn)                                \
    ROW(INT32, op##_uint32, each_fn) ROW(INT64, op##_uint64, each_fn)                              \
    ROW(QINT8, op##_uint8, each_fn) ROW(QUINT8, op##_uint8, each_fn)                               \
    ROW(QINT16, op##_uint16, each_fn) ROW(QUINT16, op##_uint16, each_fn)                           \
    ROW(QINT32, op##_uint32, each_fn) ROW(BOOL, truth##_uint8, each_fn)                            \
    {"CPU", MR_STRING, string_fn},

MR_OP(Equal,
    .doc      = "x == y, element by element",
    .sig      = "x: T, y: T -> z: bool",
    .attrs    = "T: type; incompatible_shape_error: bool = true",
    .flags    = MR_COMMUTATIVE | MR_NO_GRADIENT,
    .shape    = equal_shape,
    .kernels  = MR_KERNELS(ALL_ROWS(equal, same_truth, equal_each, equal_strings) MR_GPU_EACH_BY(equal, equal_accel)
                           {.device = MR_ACCEL_KERNELS, .type = MR_INT64, .run = equal_accel, .user = "each_equal_int64"},),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [1, 0, 3] -> [true, false, true]",
        "[[1], [2]], [1, 2] -> [[true, false], [false, true]]",
        "[true, false], [true, true] -> [true, false]",
        "[1+1i, 1], [1+1i, 1i] -> [true, false]",
        "[nan, 0, inf], [nan, -0, inf] -> [false, true, true]",
        "[\"a\", \"b\"], \"a\" -> [true, false]",
        "incompatible_shape_error=false: [1, 2], [1, 2, 3] -> false",
        "T=string incompatible_shape_error=false: [\"a\", \"b\"], [\"a\", \"b\", \"c\"] -> false",
        "incompatible_shape_error=false: [1, 2], [[1], [2]] -> [[true, false], [false, true]]",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT"));

MR_OP(NotEqual,
    .doc      = "x != y, element by element",
    .sig      = "x: T, y: T -> z: bool",
    .attrs    = "T: type; incompatible_shape_error: bool = true",
    .flags    = MR_COMMUTATIVE | MR_NO_GRADIENT,
    .shape    = equal_shape,
    .kernels  = MR_KERNELS(ALL_ROWS(not_equal, other_truth, not_equal_each, not_equal_strings) MR_GPU_EACH_BY(not_equal, not_equal_accel)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], [1, 0, 3] -> [false, true, false]",
        "[true, false], [true, true] -> [false, true]",
        "[1+1i, 1], [1+1i, 1i] -> [false, true]",
        "[nan, 0, inf], [nan, -0, inf] -> [true, false, false]",
        "[\"a\", \"b\"], \"a\" -> [false, true]",
        "incompatible_shape_error=false: [1, 2], [1, 2, 3] -> true"));
