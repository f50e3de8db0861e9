/* ops/math/select.c -- Select and SelectV2: t where the condition holds, e elsewhere.
 *
 * Elements are only moved, so one loop per size serves all plain types. Strings and handles are copied one by one. */
#include "ops/broadcast.h"
#include "ops/elementwise.h"
#include "ops/elementwise_accel.h"

/* A complex128, or anything else of 16 bytes. */
typedef struct wide {
    uint64_t lo, hi;
} wide;

#define CHOOSE(T, bytes)                                              \
    static void choose_##bytes##_loop(void *const *p, int64_t n)      \
    {                                                                 \
        T *o = p[0];                                                  \
        const uint8_t *c = p[1];                                      \
        const T *t = p[2], *e = p[3];                                 \
        MR_INDEPENDENT                                                \
        for (int64_t i = 0; i < n; i++) {                             \
            T yes = t[i], no = e[i];                                  \
            o[i] = c[i] ? yes : no;                                   \
        }                                                             \
    }                                                                 \
    static const mr_each choose_##bytes = {choose_##bytes##_loop, false, 0.1f * bytes};
CHOOSE(uint8_t, 1)
CHOOSE(uint16_t, 2)
CHOOSE(uint32_t, 4)
CHOOSE(uint64_t, 8)
CHOOSE(wide, 16)

const mr_each *mr_select_each(mr_dtype t)
{
    switch (mr_dtype_size(t)) {
    case 1: return &choose_1;
    case 2: return &choose_2;
    case 4: return &choose_4;
    case 8: return &choose_8;
    default: return &choose_16;
    }
}

/* Any type, and any shapes that broadcast. */
static mr_status *select_objects(mr_run *r)
{
    mr_tensor *y;
    mr_broadcast b;
    mr_broadcast_init(&b);
    for (int k = 0; k < 3; k++)
        MR_TRY(mr_broadcast_add(&b, mr_in(r, k)->rank, mr_in(r, k)->dims));
    MR_TRY(mr_broadcast_collapse(&b));
    MR_TRY(mr_run_output(r, 0, b.shape.rank, b.shape.dims, &y));
    const uint8_t *c = mr_in(r, 0)->data;
    for (int64_t i = 0; i < b.n; i++) {
        int from = c[mr_broadcast_offset(&b, 0, i)] ? 1 : 2;
        MR_TRY(mr_tensor_try_copy_elements(y, i, mr_in(r, from), mr_broadcast_offset(&b, from, i), 1));
    }
    return NULL;
}

/* rank and dims are the condition's shape; a condition for rows has trailing ones. */
static mr_status *select_by_device(mr_run *r, int rank, const int64_t *dims)
{
    mr_accel_arg args[5 + 4 * MR_ACCEL_DIMS];
    mr_broadcast b;
    mr_tensor *y;
    int n = 5;
    mr_broadcast_init(&b);
    MR_TRY(mr_broadcast_add(&b, rank, dims));
    for (int k = 1; k < 3; k++)
        MR_TRY(mr_broadcast_add(&b, mr_in(r, k)->rank, mr_in(r, k)->dims));
    MR_TRY(mr_broadcast_collapse(&b));
    MR_TRY(mr_accel_walk(r, &b, args, &n));
    MR_TRY(mr_run_output(r, 0, b.shape.rank, b.shape.dims, &y));
    args[0] = MR_AI(y->n);
    args[1] = MR_AT(y);
    for (int k = 0; k < 3; k++)
        args[2 + k] = MR_AT(mr_in(r, k));
    return mr_accel_launch(r, "select_walk", y->n, args, n);
}

static mr_status *select_v2(mr_run *r)
{
    if (mr_on_accel(r))
        return select_by_device(r, mr_in(r, 0)->rank, mr_in(r, 0)->dims);
    mr_dtype t = mr_out_dtype(r, 0);
    return mr_dtype_is_plain(t) ? mr_each_apply(r, mr_select_each(t)) : select_objects(r);
}

/* The condition is a vector that selects whole rows. */
static mr_status *select_rows(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 1), *e = mr_in(r, 2);
    const uint8_t *c = mr_in(r, 0)->data;
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, t->rank, t->dims, &y));
    int64_t rows = t->dims[0], width = rows > 0 ? t->n / rows : 0;
    for (int64_t i = 0; i < rows; i++)
        MR_TRY(mr_tensor_try_copy_elements(y, i * width, c[i] ? t : e, i * width, width));
    return NULL;
}

static mr_status *select_v1(mr_run *r)
{
    const mr_tensor *c = mr_in(r, 0), *t = mr_in(r, 1), *e = mr_in(r, 2);
    if (!mr_tensor_same_shape(t, e))
        return mr_invalid("'then' and 'else' must have the same size.  but received: %s vs. %s",
                          MR_TENSOR_SHAPE(t), MR_TENSOR_SHAPE(e));
    if (mr_tensor_same_shape(c, t))
        return select_v2(r);
    if (c->rank == 0 && mr_on_accel(r))
        return select_v2(r);
    if (c->rank == 0) {
        mr_run_pass(r, *(const uint8_t *)c->data ? 1 : 2, 0);
        return NULL;
    }
    if (c->rank != 1 || t->rank < 1 || c->dims[0] != t->dims[0])
        return mr_invalid("Inputs to operation Select must have the same shape, or the condition "
                          "must be a scalar or a "
                          "vector of the length of dimension 0: condition %s, then %s",
                          MR_TENSOR_SHAPE(c), MR_TENSOR_SHAPE(t));
    mr_shape rows = {.rank = t->rank};
    for (int d = 0; d < rows.rank; d++)
        rows.dims[d] = d == 0 ? c->dims[0] : 1;
    return mr_on_accel(r) ? select_by_device(r, rows.rank, rows.dims) : select_rows(r);
}

static mr_status *select_shape(mr_infer *c)
{
    const mr_pshape *data, *cond = c->in[0];
    MR_TRY(mr_infer_merge(c, c->in[1], c->in[2], &data));
    c->out[0] = data;
    if (cond->rank <= 0)
        return NULL;
    if (cond->rank == 1 && data->rank != 1) { /* one per row, unless it is one per element */
        int64_t rows;
        MR_TRY(mr_infer_rank_at_least(c, data, 1, &data));
        if (data->rank < 0)
            return NULL;
        return mr_infer_merge_dim(cond->dims[0], data->dims[0], &rows);
    }
    return mr_infer_merge(c, data, cond, &c->out[0]);
}

static mr_status *select_v2_shape(mr_infer *c)
{
    const mr_pshape *data;
    MR_TRY(mr_infer_broadcast(c, c->in[1], c->in[2], &data));
    return mr_infer_broadcast(c, c->in[0], data, &c->out[0]);
}

static void select_backward(mr_grad *g)
{
    mr_out c = mr_xi(g, 0), dy = mr_dyi(g, 0), zero = mr_zeros_like(g, dy);
    mr_dxi(g, 1, mr_emit(g->s, "Select", c, dy, zero));
    mr_dxi(g, 2, mr_emit(g->s, "Select", c, zero, dy));
}

/* Sums dx over the axes along which x was repeated to make y. */
static mr_out sum_to(mr_grad *g, mr_out dx, mr_out x, mr_out y)
{
    mr_out shape = mr_shape_of(g, x);
    mr_out axes = mr_emit(g->s, "BroadcastGradientArgs", shape, mr_shape_of(g, y));
    return mr_emit(g->s, "Reshape", mr_emit(g->s, "Sum", dx, axes), shape);
}

static void select_v2_backward(mr_grad *g)
{
    mr_out c = mr_xi(g, 0), y = mr_yi(g, 0), dy = mr_dyi(g, 0), zero = mr_scalar_like(g, 0, dy);
    mr_dxi(g, 1, sum_to(g, mr_emit(g->s, "SelectV2", c, dy, zero), mr_xi(g, 1), y));
    mr_dxi(g, 2, sum_to(g, mr_emit(g->s, "SelectV2", c, zero, dy), mr_xi(g, 2), y));
}

MR_OP(Select,
    .doc      = "t where the condition holds, e elsewhere; the condition is as large as t, a "
                "scalar, or chooses rows",
    .sig      = "condition: bool, t: T, e: T -> output: T",
    .attrs    = "T: type",
    .shape    = select_shape,
    .grad     = select_backward,
    .kernels  = MR_KERNELS({.device = "CPU", .run = select_v1, .form = MR_FORM_SELECT}, MR_GPU(select_v1, FLOAT)),
    .examples = MR_EXAMPLES(
        "[true, false, true], [1, 2, 3], [4, 5, 6] -> [1, 5, 3]",
        "[true, false], [[1, 2], [3, 4]], [[5, 6], [7, 8]] -> [[1, 2], [7, 8]]",
        "false, [1, 2], [3, 4] -> [3, 4]",
        "[true, false], [true, false], [false, true] -> [true, true]",
        "[true, false], [1, nan], [nan, 4] -> [1, 4]",
        "[true, false], [\"a\", \"b\"], [\"c\", \"d\"] -> [\"a\", \"d\"]",
        "[true, false], [[\"a\"], [\"b\"]], [[\"c\"], [\"d\"]] -> [[\"a\"], [\"d\"]]",
        "shape(0), shape(0), shape(0) -> shape(0)",
        "T=float: [true, false], [1, 2], [1, 2, 3] -> !INVALID_ARGUMENT",
        "T=float: [true, false], [1, 2, 3], [1, 2, 3] -> !INVALID_ARGUMENT",
        "T=float: [true, false], 1, 2 -> !INVALID_ARGUMENT"));

MR_OP(SelectV2,
    .doc      = "t where the condition holds, e elsewhere; all three broadcast",
    .sig      = "condition: bool, t: T, e: T -> output: T",
    .attrs    = "T: type",
    .shape    = select_v2_shape,
    .grad     = select_v2_backward,
    .kernels  = MR_KERNELS({.device = "CPU", .run = select_v2, .form = MR_FORM_SELECT_V2}, MR_GPU(select_v2, FLOAT)),
    .examples = MR_EXAMPLES(
        "[true, false, true], [1, 2, 3], [4, 5, 6] -> [1, 5, 3]",
        "[[true], [false]], [1, 2, 3], 9 -> [[1, 2, 3], [9, 9, 9]]",
        "[true, false], 1, [[5, 6], [7, 8]] -> [[1, 6], [1, 8]]",
        "[true, false], [true, false], true -> [true, true]",
        "[true, false], [1, nan], [nan, 4] -> [1, 4]",
        "[true, false], \"a\", [\"c\", \"d\"] -> [\"a\", \"d\"]",
        "T=float: [true, false], [1, 2, 3], 0 -> !INVALID_ARGUMENT"));
