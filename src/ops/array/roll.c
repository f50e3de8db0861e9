/* ops/array/roll.c -- Roll: shifts elements along dimensions; those that leave at one end enter at the other.
 *
 * Along one dimension a roll exchanges two blocks; several dimensions are rolled one after the other. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"

/* The shift of each dimension, in [0, its size). */
static mr_status *read_shifts(const mr_tensor *x, const mr_tensor *shift, const mr_tensor *axis,
                              int64_t *out)
{
    if (x->rank < 1)
        return mr_invalid("input must be 1-D or higher");
    if (shift->rank > 1)
        return mr_invalid("shift must be a scalar or a 1-D vector. Found: %s",
                          MR_TENSOR_SHAPE(shift));
    if (axis->rank > 1)
        return mr_invalid("axis must be a scalar or a 1-D vector. Found: %s",
                          MR_TENSOR_SHAPE(axis));
    if (shift->rank != axis->rank || shift->n != axis->n)
        return mr_invalid("shift and axis must have the same size");
    for (int d = 0; d < x->rank; d++)
        out[d] = 0;
    for (int64_t i = 0; i < axis->n; i++) {
        int64_t d = mr_tensor_int_at(axis, i);
        d = d < 0 ? d + x->rank : d;
        if (d < 0 || d >= x->rank)
            return mr_invalid("axis %lld is out of range", (long long)mr_tensor_int_at(axis, i));
        int64_t n = MR_MAX(x->dims[d], 1), by = mr_tensor_int_at(shift, i) % n;
        by = by < 0 ? by + n : by;
        out[d] = by >= n - out[d] ? by - (n - out[d])
                                  : by + out[d]; /* sizes may be near the limit of int64 */
    }
    return NULL;
}

/* Copies n slices along dimension d, from slice `from` on to slice `to` on. */
static mr_status *move_slices(mr_run *r, mr_tensor *dst, const mr_tensor *src, int d, int64_t from,
                              int64_t to, int64_t n)
{
    int64_t inner = mr_dims_product(src->dims, d + 1, src->rank),
            outer = mr_dims_product(src->dims, 0, d);
    int64_t step = inner * src->dims[d];
    mr_blit b;
    mr_blit_init(&b);
    mr_blit_dim(&b, outer, step, step);
    mr_blit_dim(&b, n * inner, 1, 1);
    return b.empty ? NULL : mr_blit_copy(r, &b, dst, to * inner, src, from * inner);
}

static mr_status *roll_one(mr_run *r, mr_tensor *dst, const mr_tensor *src, int d, int64_t by)
{
    int64_t n = src->dims[d];
    MR_TRY(move_slices(r, dst, src, d, 0, by, n - by));
    return move_slices(r, dst, src, d, n - by, 0, by);
}

/* Rolls from the input to the output, through temporary tensors if there are several rolls. */
static mr_status *roll_all(mr_run *r, const int64_t *shifts, int n_rolls)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *from = mr_tensor_ref(x), *to;
    mr_status *st = NULL;
    for (int d = 0; d < x->rank && !st; d++) {
        if (shifts[d] == 0)
            continue;
        st = --n_rolls == 0 ? mr_run_output(r, 0, x->rank, x->dims, &to)
                            : mr_run_temp(r, (mr_dtype)x->dtype, x->rank, x->dims, &to);
        if (!st)
            st = roll_one(r, to, from, d, shifts[d]);
        if (n_rolls > 0 && !st) {
            mr_tensor_unref(from);
            from = to;
        }
    }
    mr_tensor_unref(from);
    return st;
}

static mr_status *run_roll(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    int64_t shifts[MR_MAX_RANK];
    int n = 0;
    MR_TRY(read_shifts(x, mr_in(r, 1), mr_in(r, 2), shifts));
    for (int d = 0; d < x->rank; d++)
        n += shifts[d] != 0;
    if (n > 0 && x->n > 0)
        return roll_all(r, shifts, n);
    mr_run_pass(r, 0, 0);
    return NULL;
}

static mr_status *roll_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &c->out[0]));
    MR_TRY(mr_infer_rank_at_most(c, c->in[1], 1, &ignored));
    return mr_infer_rank_at_most(c, c->in[2], 1, &ignored);
}

static void roll_backward(mr_grad *g)
{
    mr_dxi(g, 0,
           mr_emit(g->s, "Roll", mr_dyi(g, 0), mr_emit(g->s, "Neg", mr_xi(g, 1)), mr_xi(g, 2)));
}

MR_OP(Roll,
    .doc      = "the elements shifted along dimensions; what falls out comes in at the other end",
    .sig      = "input: T, shift: Tshift, axis: Taxis -> output: T",
    .attrs    = "T: type; Tshift: {int32, int64}; Taxis: {int32, int64}",
    .shape    = roll_shape,
    .grad     = roll_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_roll)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3, 4], int32 1, int32 0 -> [4, 1, 2, 3]", "[1, 2, 3], int64 -1, int64 0 -> [2, 3, 1]",
        "[[1, 2, 3], [4, 5, 6]], int32[1, 2], int64[0, 1] -> [[5, 6, 4], [2, 3, 1]]",
        "[1, 2, 3], int64[2, 2], int32[0, -1] -> [3, 1, 2]", "[1, 2, 3], int32 300, int32 0 -> [1, 2, 3]",
        "[\"a\", \"b\"], int32 1, int32 0 -> [\"b\", \"a\"]", "shape(0,2), int32 1, int32 0 -> shape(0,2)",
        "[1, 2], int32 shape(0), int32 shape(0) -> [1, 2]",
        "[1, 2], int32 1, int32 1 -> !INVALID_ARGUMENT axis 1 is out of range",
        "[1, 2], int32[1], int32[0, 0] -> !INVALID_ARGUMENT shift and axis must have the same size",
        "1, int32 1, int32 0 -> !INVALID_ARGUMENT at least rank 1"));
