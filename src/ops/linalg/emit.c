/* ops/linalg/emit.c -- nodes for the gradients of ops on matrices. */
#include "ops/linalg/emit.h"

static mr_out emit_product(mr_grad *g, mr_out a, bool adj_a, mr_out b, bool adj_b)
{
    return mr_emit_with(g->s, "BatchMatMulV2",
                        MR_ATTRS({"adj_x", mr_a_bool(adj_a)}, {"adj_y", mr_a_bool(adj_b)}), a, b);
}

mr_out mr_mat_mul(mr_grad *g, mr_out a, mr_out b) { return emit_product(g, a, false, b, false); }
mr_out mr_mat_mul_h(mr_grad *g, mr_out a, mr_out b) { return emit_product(g, a, false, b, true); }
mr_out mr_mat_h_mul(mr_grad *g, mr_out a, mr_out b) { return emit_product(g, a, true, b, false); }

/* The permutation that exchanges the last two dimensions. */
static mr_out turned_order(mr_grad *g, mr_out a)
{
    mr_scope *s = g->s;
    int rank = mr_scope_ok(s) ? mr_out_shape(a)->rank : -1;
    if (rank >= 2) {
        int32_t order[MR_MAX_RANK];
        for (int i = 0; i < rank; i++)
            order[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
        return mr_const_vec_i32(s, rank, order);
    }
    mr_out n = mr_emit(s, "Rank", a), one = mr_const_i32(s, 1), two = mr_const_i32(s, 2);
    mr_out front = mr_emit(s, "Range", mr_const_i32(s, 0), mr_emit(s, "Sub", n, two), one);
    mr_out last = mr_emit(s, "Pack", mr_emit(s, "Sub", n, one), mr_emit(s, "Sub", n, two));
    return mr_emit(s, "ConcatV2", front, last, mr_const_i32(s, 0));
}

mr_out mr_mat_turn(mr_grad *g, mr_out a)
{
    return mr_emit(g->s, "Transpose", a, turned_order(g, a));
}
mr_out mr_mat_adjoint(mr_grad *g, mr_out a) { return mr_conj(g, mr_mat_turn(g, a)); }

mr_out mr_mat_band(mr_grad *g, mr_out a, int lower, int upper)
{
    return mr_emit(g->s, "MatrixBandPart", a, mr_const_i64(g->s, lower), mr_const_i64(g->s, upper));
}

mr_out mr_mat_over_upper_h(mr_grad *g, mr_out a, mr_out r)
{
    mr_out x = mr_emit_with(g->s, "MatrixTriangularSolve", MR_ATTRS({"lower", mr_a_bool(false)}), r,
                            mr_mat_adjoint(g, a));
    return mr_mat_adjoint(g, x);
}

mr_out mr_mat_columns(mr_grad *g, mr_out a, int64_t from, int64_t to)
{
    mr_scope *s = g->s;
    const int32_t begin[] = {0, (int32_t)from}, end[] = {0, (int32_t)(to < 0 ? 0 : to)},
                  step[] = {1, 1};
    return mr_emit_with(
        s, "StridedSlice",
        MR_ATTRS({"ellipsis_mask", mr_a_int(1)}, {"end_mask", mr_a_int(to < 0 ? 2 : 0)}), a,
        mr_const_vec_i32(s, 2, begin), mr_const_vec_i32(s, 2, end), mr_const_vec_i32(s, 2, step));
}

mr_out mr_safe_reciprocal(mr_grad *g, mr_out x)
{
    mr_out square = mr_mul(g, x, x);
    return mr_emit(g->s, "RealDiv", x, mr_add(g, square, mr_scalar_like(g, 1e-20, x)));
}

mr_out mr_mat_gaps(mr_grad *g, mr_out e)
{
    mr_out gaps = mr_sub(g, mr_emit(g->s, "ExpandDims", e, mr_const_i32(g->s, -2)),
                         mr_emit(g->s, "ExpandDims", e, mr_const_i32(g->s, -1)));
    return mr_emit(g->s, "MatrixSetDiag", mr_safe_reciprocal(g, gaps), mr_zeros_like(g, e));
}

mr_out mr_real_part(mr_grad *g, mr_out x)
{
    if (!mr_scope_ok(g->s))
        return x;
    mr_dtype type = mr_dtype_base(mr_out_type(x));
    if (!mr_dtype_is_complex(type))
        return x;
    mr_attr part = mr_a_type(type == MR_COMPLEX64 ? MR_FLOAT : MR_DOUBLE);
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(type)}),
                        mr_emit_with(g->s, "Real", MR_ATTRS({"Tout", part}), x));
}
