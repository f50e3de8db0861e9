/* ops/math/add.c -- Add, AddV2 and Sub.
 *
 * Add is the older one: it also concatenates strings, and supports fewer types of integers. */
#include "ops/broadcast.h"
#include "ops/elementwise.h"

#define ADD_TYPES(M, ...) \
    MR_FLOATS_COMPLEX(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__)

MR_BINARY(add, MR_FLOATS_COMPLEX, x + y)
MR_BINARY(add, MR_INTS, (uint64_t)x + (uint64_t)y)
MR_BINARY(sub, MR_FLOATS_COMPLEX, x - y)
MR_BINARY(sub, MR_INTS, (uint64_t)x - (uint64_t)y)

static mr_status *join_strings(mr_str *both, mr_sv x, mr_sv y)
{
    mr_str_clear(both);
    if (!mr_str_try_append(both, x.p, x.n) || !mr_str_try_append(both, y.p, y.n))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a string of %zu bytes", x.n + y.n);
    return NULL;
}

static mr_status *add_string(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *y = mr_in(r, 1);
    mr_tensor *z;
    mr_broadcast b;
    mr_broadcast_init(&b);
    MR_TRY(mr_broadcast_add(&b, x->rank, x->dims));
    MR_TRY(mr_broadcast_add(&b, y->rank, y->dims));
    MR_TRY(mr_broadcast_collapse(&b));
    MR_TRY(mr_run_output(r, 0, b.shape.rank, b.shape.dims, &z));
    mr_str both = {0};
    mr_status *st = NULL;
    for (int64_t i = 0; i < b.n && !st; i++) {
        st = join_strings(&both, mr_tensor_str_at(x, mr_broadcast_offset(&b, 0, i)),
                          mr_tensor_str_at(y, mr_broadcast_offset(&b, 1, i)));
        if (!st)
            st = mr_tensor_set_str(z, i, mr_str_view(&both));
    }
    mr_str_deinit(&both);
    return st;
}

static void add_backward(mr_grad *g) { mr_dx_broadcast(g, mr_dyi(g, 0), mr_dyi(g, 0)); }

static void sub_backward(mr_grad *g)
{
    mr_dx_broadcast(g, mr_dyi(g, 0), mr_emit(g->s, "Neg", mr_dyi(g, 0)));
}

MR_OP(Add,
    .doc      = "x + y, element by element; joins strings",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, uint8, int8, int16, int32, int64, complex64, "
                "complex128, string}",
    .shape    = mr_shape_broadcast2,
    .grad     = add_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(add, ADD_TYPES) MR_GPU_EACH(add) {"CPU", MR_STRING, add_string},),
    .examples = MR_EXAMPLES(
        "[1, 2], [3, 4] -> [4, 6]",
        "[[1, 2, 3], [4, 5, 6]], [10, 20, 30] -> [[11, 22, 33], [14, 25, 36]]",
        "[1+2i], [3-1i] -> [4+1i]",
        "[\"a\", \"b\"], \"!\" -> [\"a!\", \"b!\"]",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT"));

MR_OP(AddV2,
    .doc      = "x + y, element by element",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, uint8, uint16, uint32, uint64, int8, int16, "
                "int32, int64, "
                "complex64, complex128}",
    .flags    = MR_COMMUTATIVE | MR_AGGREGATE,
    .shape    = mr_shape_broadcast2,
    .grad     = add_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(add, MR_NUMBERS) MR_GPU_EACH(add)),
    .examples = MR_EXAMPLES(
        "[1, 2, 3], 10 -> [11, 12, 13]",
        "[1+2i], [3-1i] -> [4+1i]",
        "[[1], [2]], [[10, 20, 30]] -> [[11, 21, 31], [12, 22, 32]]",
        "shape(0,3), [1, 2, 3] -> shape(0,3)",
        "shape(2,0), 1 -> shape(2,0)",
        "[[[1, 2]], [[3, 4]]], [[10], [20]] -> [[[11, 12], [21, 22]], [[13, 14], [23, 24]]]",
        "iota(2,130), [[1], [2]] -> shape(2,130)",
        "T=int8: [127, -128], [1, -1] -> [-128, 127]",
        "T=uint8: 255, 1 -> 0",
        "T=int32: 2147483647, 1 -> -2147483648",
        "T=int64: 9223372036854775807, 1 -> -9223372036854775808",
        "T=float: [inf, inf, nan], [1, -inf, 1] -> [inf, nan, nan]",
        "[1, 2], [1, 2, 3] -> !INVALID_ARGUMENT"));

MR_OP(Sub,
    .doc      = "x - y, element by element",
    .sig      = "x: T, y: T -> z: T",
    .attrs    = "T: {bfloat16, half, float, double, uint8, int8, uint16, int16, int32, int64, "
                "complex64, complex128, "
                "uint32, uint64}",
    .shape    = mr_shape_broadcast2,
    .grad     = sub_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH(sub, MR_NUMBERS) MR_GPU_EACH(sub)),
    .examples = MR_EXAMPLES(
        "[5, 7], [3, 4] -> [2, 3]",
        "10, [1, 2, 3] -> [9, 8, 7]",
        "[[1.5], [2]], [1, 0.25] -> [[0.5, 1.25], [1, 1.75]]",
        "[1+2i], [3-1i] -> [-2+3i]",
        "T=int32: -2147483648, 1 -> 2147483647",
        "T=uint16: 0, 1 -> 65535"));
