/* ops/reduce_grad.c -- giving a reduced value the shape it was reduced from.
 *
 * When the axes and all but one of the kept sizes are known, the shape with ones for folded axes is
 * a constant ([-1, 1] for the rows of a batch of unknown size); else it is computed: with a mask
 * that is 1 at folded axes, shape * (1 - mask) + mask. */
#include "graph/infer.h"
#include "ops/reduce.h"

/* True, with the shape, if the shape is known when the gradient is built. */
static bool known_kept_shape(mr_grad *g, const mr_pshape *x, int32_t *out)
{
    mr_tensor *axes = NULL;
    bool fold[MR_MAX_RANK], ok = false;
    mr_status *st = mr_out_value(mr_xi(g, 1), &axes);
    if (!st && axes && x->rank >= 0)
        st = mr_reduce_axes(axes, x->rank, fold), ok = !st;
    mr_status_free(st);
    mr_tensor_unref(axes);
    int unknown = 0, zeros = 0;
    for (int d = 0; ok && d < x->rank; d++) {
        int64_t size = fold[d] ? 1 : x->dims[d];
        unknown += size < 0;
        zeros += size == 0;
        ok = size <= INT32_MAX;
        out[d] = (int32_t)size;
    }
    return ok && unknown + (unknown && zeros) <= 1; /* next to a 0, a -1 would be ambiguous */
}

static mr_out computed_kept_shape(mr_grad *g)
{
    mr_scope *s = g->s;
    mr_out x = mr_xi(g, 0), shape = mr_shape_of(g, x), one = mr_const_i32(s, 1);
    mr_out axes = mr_emit(s, "Reshape", mr_xi(g, 1), mr_const_vec_i32(s, 1, (int32_t[]){-1}));
    if (mr_scope_ok(s) && mr_out_type(axes) != MR_INT32)
        axes = mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_INT32)}), axes);
    mr_out rank = mr_emit(s, "Rank", x);
    mr_out mask = mr_emit(s, "UnsortedSegmentSum", mr_emit(s, "OnesLike", axes),
                          mr_emit(s, "FloorMod", axes, rank), rank);
    return mr_emit(s, "AddV2", mr_emit(s, "Mul", shape, mr_emit(s, "Sub", one, mask)), mask);
}

mr_out mr_reduce_kept(mr_grad *g, mr_out v)
{
    bool keep_dims = false;
    mr_scope_fail(g->s, mr_node_get_bool(g->node, "keep_dims", &keep_dims));
    if (keep_dims || !mr_scope_ok(g->s))
        return v;
    const mr_pshape *x = mr_out_shape(mr_xi(g, 0));
    int32_t dims[MR_MAX_RANK];
    if (known_kept_shape(g, x, dims))
        return mr_emit(g->s, "Reshape", v, mr_const_vec_i32(g->s, x->rank, dims));
    return mr_emit(g->s, "Reshape", v, computed_kept_shape(g));
}

mr_out mr_reduce_spread(mr_grad *g, mr_out v)
{
    return mr_emit(g->s, "BroadcastTo", mr_reduce_kept(g, v), mr_shape_of(g, mr_xi(g, 0)));
}
