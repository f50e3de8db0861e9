/* ops/fft/rfft.c -- transforms of real numbers: RFFT and IRFFT, in one, two and three dimensions.
 *
 * The transform of real numbers is Hermitian, so only the first half of its last dimension is stored.  The input
 * may be longer than fft_length: the rest is not read. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/array/layout.h"
#include "ops/fft/lines.h"

typedef struct state {
    mr_fft_cache cache;
} state;

static mr_status *init_rfft(mr_make *m, void *s)
{
    (void)m;
    mr_fft_cache_init(&((state *)s)->cache);
    return NULL;
}

static void deinit_rfft(void *s) { mr_fft_cache_deinit(&((state *)s)->cache); }

/* ---- kernel ---- */

typedef struct lengths {
    int dimensions;
    int64_t n[4]; /* lengths of the transform, for each of the four dimensions */
} lengths;

/* Reads fft_length; the input must be at least that long, unless it is empty. */
static mr_status *read_lengths(mr_run *r, int dimensions, bool inverse, lengths *l)
{
    const mr_tensor *x = mr_in(r, 0), *given = mr_in(r, 1);
    if (x->rank < dimensions)
        return mr_invalid("Input must have rank of at least %d but got: %s", dimensions,
                          MR_TENSOR_SHAPE(x));
    if (given->rank != 1 || given->n != dimensions)
        return mr_invalid("fft_length must have shape [%d], not %s", dimensions,
                          MR_TENSOR_SHAPE(given));
    *l = (lengths){dimensions, {1, 1, 1, 1}};
    for (int i = 0; i < dimensions; i++) {
        int64_t n = mr_tensor_int_at(given, i), least = n;
        int at = x->rank - dimensions + i;
        if (n < 0)
            return mr_invalid("fft_length[%d] must >= 0, but got: %lld", i, (long long)n);
        if (inverse && i == dimensions - 1)
            least = n / 2 + 1;
        if (x->dims[at] != 0 && x->dims[at] < least)
            return mr_invalid("Input dimension %d must have length of at least %lld but got: %lld",
                              at, (long long)least, (long long)x->dims[at]);
        l->n[4 - dimensions + i] = n;
    }
    return NULL;
}

/* The tensor as four dimensions; the last `dimensions` of them are transformed. */
static mr_fft_array array_of(const mr_tensor *t, int dimensions)
{
    mr_fft_array a = {.t = t, .dims = {1, 1, 1, 1}};
    a.dims[0] = mr_dims_product(t->dims, 0, t->rank - dimensions);
    for (int d = 0; d < dimensions; d++)
        a.dims[3 - d] = t->dims[t->rank - 1 - d];
    return a;
}

static mr_status *make_output(mr_run *r, const lengths *l, bool inverse, mr_tensor **y)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_shape shape;
    mr_shape_set(&shape, x->rank, x->dims);
    for (int i = 0; i < l->dimensions; i++)
        shape.dims[x->rank - 1 - i] = l->n[3 - i];
    if (!inverse && l->n[3] > 0)
        shape.dims[x->rank - 1] = l->n[3] / 2 + 1;
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, y));
    if (x->n == 0)
        mr_tensor_zero(*y);
    return NULL;
}

static mr_status *run_rfft(mr_run *r, int dimensions)
{
    lengths l;
    mr_tensor *y;
    mr_fft_cache *cache = &((state *)r->state)->cache;
    MR_TRY(read_lengths(r, dimensions, false, &l));
    MR_TRY(make_output(r, &l, false, &y));
    if (y->n == 0 || mr_in(r, 0)->n == 0)
        return NULL;
    mr_fft_array src = array_of(mr_in(r, 0), dimensions), dst = array_of(y, dimensions);
    MR_TRY(mr_fft_lines(r, cache, &(mr_fft_pass){MR_FFT_FROM_REAL, false, 3, l.n[3]}, &src, &dst));
    for (int axis = 2; axis > 3 - dimensions; axis--)
        MR_TRY(mr_fft_lines(r, cache, &(mr_fft_pass){MR_FFT_COMPLEX, false, axis, l.n[axis]}, &dst,
                            &dst));
    return NULL;
}

/* Transforms the other dimensions first, in a temporary array with the needed part of the input. */
static mr_status *inverse_front(mr_run *r, const lengths *l, const mr_fft_array *src,
                                mr_fft_array *mid, mr_tensor **room)
{
    *mid = *src;
    for (int axis = 1; axis < 3; axis++)
        mid->dims[axis] = l->n[axis];
    mid->dims[3] = l->n[3] / 2 + 1;
    MR_TRY(mr_run_temp(r, (mr_dtype)src->t->dtype, 4, mid->dims, room));
    mid->t = *room;
    for (int axis = 4 - l->dimensions; axis < 3; axis++, src = mid)
        MR_TRY(mr_fft_lines(r, &((state *)r->state)->cache,
                            &(mr_fft_pass){MR_FFT_COMPLEX, true, axis, l->n[axis]}, src, mid));
    return NULL;
}

static mr_status *run_irfft(mr_run *r, int dimensions)
{
    mr_status *st = NULL;
    lengths l;
    mr_tensor *y, *room = NULL;
    MR_TRY(read_lengths(r, dimensions, true, &l));
    MR_TRY(make_output(r, &l, true, &y));
    if (y->n == 0 || mr_in(r, 0)->n == 0)
        return NULL;
    mr_fft_array src = array_of(mr_in(r, 0), dimensions), mid = src, dst = array_of(y, dimensions);
    if (dimensions > 1)
        MR_GO(inverse_front(r, &l, &src, &mid, &room));
    MR_GO(mr_fft_lines(r, &((state *)r->state)->cache,
                       &(mr_fft_pass){MR_FFT_TO_REAL, true, 3, l.n[3]}, &mid, &dst));
out:
    mr_tensor_unref(room);
    return st;
}

static mr_status *rfft_run(mr_run *r) { return run_rfft(r, 1); }
static mr_status *rfft2d_run(mr_run *r) { return run_rfft(r, 2); }
static mr_status *rfft3d_run(mr_run *r) { return run_rfft(r, 3); }
static mr_status *irfft_run(mr_run *r) { return run_irfft(r, 1); }
static mr_status *irfft2d_run(mr_run *r) { return run_irfft(r, 2); }
static mr_status *irfft3d_run(mr_run *r) { return run_irfft(r, 3); }

/* ---- shapes ---- */

static mr_status *infer_rfft(mr_infer *c, int dimensions, bool forward_)
{
    const mr_pshape *x, *given;
    int64_t n;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], dimensions, &x));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &given));
    MR_TRY(mr_infer_dim_is(mr_infer_dim(given, 0), dimensions));
    if (x->rank < 0)
        return NULL;
    mr_pshape *y = mr_pshape_new(c->arena, x->rank);
    memcpy(y->dims, x->dims, sizeof(int64_t) * (size_t)(x->rank - dimensions));
    const mr_tensor *value = mr_infer_const(c, 1);
    for (int i = 0; value && i < dimensions; i++) {
        n = mr_tensor_int_at(value, i);
        bool halved = forward_ && i == dimensions - 1 && n != 0;
        if (n >= 0)
            y->dims[x->rank - dimensions + i] = halved ? n / 2 + 1 : n;
    }
    c->out[0] = y;
    return NULL;
}

static mr_status *rfft_shape(mr_infer *c) { return infer_rfft(c, 1, true); }
static mr_status *rfft2d_shape(mr_infer *c) { return infer_rfft(c, 2, true); }
static mr_status *rfft3d_shape(mr_infer *c) { return infer_rfft(c, 3, true); }
static mr_status *irfft_shape(mr_infer *c) { return infer_rfft(c, 1, false); }
static mr_status *irfft2d_shape(mr_infer *c) { return infer_rfft(c, 2, false); }
static mr_status *irfft3d_shape(mr_infer *c) { return infer_rfft(c, 3, false); }

/* ---- gradients ---- */

/* Pads v with zeros at the end, up to this shape. */
static mr_out pad_to(mr_grad *g, mr_out v, mr_out wanted)
{
    mr_out more = mr_emit(g->s, "Sub", wanted, mr_shape_of(g, v));
    mr_out none = mr_zeros_like(g, more);
    mr_out pads = mr_emit_with(g->s, "Pack", MR_ATTRS({"axis", mr_a_int(1)}), none, more);
    return mr_emit(g->s, "Pad", v, pads);
}

/* Replaces the last `last` entries of a shape by `entries`. */
static mr_out with_last(mr_grad *g, mr_out shape_, int last, mr_out entries)
{
    mr_scope *s = g->s;
    mr_out front = mr_emit_with(s, "StridedSlice", MR_ATTRS({"begin_mask", mr_a_int(1)}), shape_,
                                mr_const_vec_i32(s, 1, (int32_t[]){0}),
                                mr_const_vec_i32(s, 1, (int32_t[]){-last}),
                                mr_const_vec_i32(s, 1, (int32_t[]){1}));
    return mr_emit(s, "ConcatV2", front, entries, mr_const_i32(s, 0));
}

static mr_out cast_to(mr_grad *g, mr_out v, mr_dtype type)
{
    return mr_emit_with(g->s, "Cast", MR_ATTRS({"DstT", mr_a_type(type)}), v);
}

static mr_out count_elements(mr_grad *g, mr_dtype type) /* product of fft_length */
{
    return cast_to(g, mr_emit(g->s, "Prod", mr_xi(g, 1), mr_const_i32(g->s, 0)), type);
}

/* The adjoint: dy, with zeros for the half that is not stored, is transformed back without the factor; the result
 * is its real part. */
static void forward_backward(mr_grad *g, int dimensions, const char *inverse_)
{
    mr_out dy = mr_dyi(g, 0), x = mr_xi(g, 0);
    mr_dtype real = mr_dtype_base(mr_out_type(x));
    mr_out whole = pad_to(g, dy, with_last(g, mr_shape_of(g, dy), dimensions, mr_xi(g, 1)));
    mr_out back = mr_emit_with(g->s, "Real", MR_ATTRS({"Tout", mr_a_type(real)}),
                               mr_emit(g->s, inverse_, whole));
    mr_dxi(g, 0, pad_to(g, mr_emit(g->s, "Mul", back, count_elements(g, real)), mr_shape_of(g, x)));
}

/* The adjoint: dy is transformed and divided by the number of elements. Entries that also represent their conjugate
 * count twice: all but the first and, for an even length, the last. */
static void inverse_backward(mr_grad *g, const char *forward_)
{
    mr_scope *s = g->s;
    mr_out dy = mr_dyi(g, 0), x = mr_xi(g, 0), last = mr_const_vec_i32(s, 1, (int32_t[]){-1});
    mr_dtype whole = mr_dtype_base(mr_out_type(x));
    mr_out n = mr_emit_with(s, "StridedSlice",
                            MR_ATTRS({"end_mask", mr_a_int(1)}, {"shrink_axis_mask", mr_a_int(1)}),
                            mr_xi(g, 1), last, mr_const_vec_i32(s, 1, (int32_t[]){0}),
                            mr_const_vec_i32(s, 1, (int32_t[]){1}));
    mr_out two = mr_const_i32(s, 2), one = mr_const_i32(s, 1), zero = mr_const_i32(s, 0);
    mr_out half = mr_emit(s, "AddV2", mr_emit(s, "FloorDiv", n, two), one);
    mr_out k = mr_emit(s, "Range", zero, half, one);
    mr_out first = cast_to(g, mr_emit(s, "Equal", k, zero), MR_INT32);
    mr_out middle = cast_to(g, mr_emit(s, "Equal", mr_emit(s, "Mul", k, two), n), MR_INT32);
    mr_out times = mr_emit(s, "Sub", mr_emit(s, "Sub", two, first), middle);
    mr_out weight = mr_emit(s, "RealDiv", cast_to(g, times, whole), count_elements(g, whole));
    mr_out there =
        mr_emit_with(s, forward_, MR_ATTRS({"Tcomplex", mr_a_type(whole)}), dy, mr_xi(g, 1));
    mr_dxi(g, 0, pad_to(g, mr_emit(s, "Mul", there, weight), mr_shape_of(g, x)));
}

static void rfft_backward(mr_grad *g) { forward_backward(g, 1, "IFFT"); }
static void rfft2d_backward(mr_grad *g) { forward_backward(g, 2, "IFFT2D"); }
static void rfft3d_backward(mr_grad *g) { forward_backward(g, 3, "IFFT3D"); }
static void irfft_backward(mr_grad *g) { inverse_backward(g, "RFFT"); }
static void irfft2d_backward(mr_grad *g) { inverse_backward(g, "RFFT2D"); }
static void irfft3d_backward(mr_grad *g) { inverse_backward(g, "RFFT3D"); }

#define TRANSFORM(fn, from, to, by)                                                              \
    .sig = "input: " from ", fft_length: int32 -> output: " to,                                  \
    .attrs = "Treal: {float, double} = DT_FLOAT; Tcomplex: {complex64, complex128} = DT_COMPLEX64", \
    .key = by, .shape = fn##_shape, .grad = fn##_backward,                                       \
    .kernels = MR_KERNELS(MR_CPU_ANY(fn##_run)),                                                 \
    .state_bytes = sizeof(state), .init = init_rfft, .deinit = deinit_rfft

MR_OP(RFFT,
    .doc      = "the first half of the Fourier transform of real numbers in the last dimension",
    TRANSFORM(rfft, "Treal", "Tcomplex", "Treal"),
    .examples = MR_EXAMPLES(
        "Treal=float: [1, 2, 3, 4], [4] -> [10, -2+2i, -2]",
        "Treal=double Tcomplex=complex128: [1, 2, 3, 4], [4] -> [10, -2+2i, -2]",
        "Treal=double Tcomplex=complex128: [1, 2, 4], [3] -> [7, -2+1.732050807569i]",
        "Treal=double Tcomplex=complex128: [[1, 2, 3, 9]], [2] -> [[3, -1]]",
        "Treal=double Tcomplex=complex64 nograd: [1, 2], [2] -> [3, -1]",
        "Treal=float Tcomplex=complex128 nograd: [1, 2], [2] -> [3, -1]",
        "Treal=double Tcomplex=complex128: [5], [1] -> [5]", "Treal=float: [1, 2], [0] -> shape(0)",
        "Treal=float: shape(2,0), [0] -> shape(2,0)", "Treal=float: shape(0,4), [4] -> shape(0,3)",
        "Treal=float: [1, 2], [4] -> !INVALID_ARGUMENT Input dimension 0 must have length of at "
        "least 4 but got: 2",
        "Treal=float: [1, 2], [-1] -> !INVALID_ARGUMENT fft_length[0] must >= 0, but got: -1",
        "Treal=float: [1, 2], [1, 2] -> !INVALID_ARGUMENT",
        "Treal=float: 1, [1] -> !INVALID_ARGUMENT"));

MR_OP(IRFFT,
    .doc      = "real numbers from the first half of their Fourier transform in the last dimension",
    TRANSFORM(irfft, "Tcomplex", "Treal", "Tcomplex"),
    .examples = MR_EXAMPLES(
        "Tcomplex=complex64: [10, -2+2i, -2], [4] -> [1, 2, 3, 4]",
        "Tcomplex=complex128 Treal=double: [10, -2+2i, -2], [4] -> [1, 2, 3, 4]",
        "Tcomplex=complex128 Treal=double: [7, -2+1.732050807568877i], [3] -> [1, 2, 4]",
        "Tcomplex=complex128 Treal=double: [[3, -1, 9, 9]], [2] -> [[1, 2]]",
        "Tcomplex=complex64 Treal=double nograd: [3, -1], [2] -> [1, 2]",
        "Tcomplex=complex128 Treal=float nograd: [3, -1], [2] -> [1, 2]",
        "Tcomplex=complex64: [5], [1] -> [5]", "Tcomplex=complex64: [1], [0] -> shape(0)",
        "Tcomplex=complex64: [1, 2], [4] -> !INVALID_ARGUMENT Input dimension 0 must have length "
        "of "
        "at least 3 but got: 2"));

MR_OP(RFFT2D,
    .doc      = "the first half of the Fourier transform of real numbers in the last two "
                "dimensions",
    TRANSFORM(rfft2d, "Treal", "Tcomplex", "Treal"),
    .examples = MR_EXAMPLES(
        "Treal=float: [[1, 2], [3, 4]], [2, 2] -> [[10, -2], [-4, 0]]",
        "Treal=double Tcomplex=complex128: [[1, 2, 3], [4, 5, 7]], [2, 3] -> [[22, "
        "-3.5+2.598076211353i], [-10, 0.5-0.866025403784i]]",
        "Treal=double Tcomplex=complex128: [[1, 2, 3], [4, 5, 7]], [1, 2] -> [[3, -1]]",
        "Treal=double Tcomplex=complex64 nograd: [[1, 2], [3, 4]], [2, 2] -> [[10, -2], [-4, 0]]",
        "Treal=float Tcomplex=complex128 nograd: [[1, 2], [3, 4]], [2, 2] -> [[10, -2], [-4, 0]]",
        "Treal=float: [[1, 2]], [1, 3] -> !INVALID_ARGUMENT must have length of at least 3",
        "Treal=float: [1], [1, 1] -> !INVALID_ARGUMENT at least rank 2"));

MR_OP(IRFFT2D,
    .doc      = "real numbers from the first half of their Fourier transform in the last two "
                "dimensions",
    TRANSFORM(irfft2d, "Tcomplex", "Treal", "Tcomplex"),
    .examples = MR_EXAMPLES(
        "Tcomplex=complex64: [[10, -2], [-4, 0]], [2, 2] -> [[1, 2], [3, 4]]",
        "Tcomplex=complex128 Treal=double: [[22, -3.5+2.598076211353316i], [-10, "
        "0.5-0.866025403784439i]], [2, 3] -> [[1, 2, 3], [4, 5, 7]]",
        "Tcomplex=complex128 Treal=double: [[3, -1, 7], [8, 8, 8]], [1, 2] -> [[1, 2]]",
        "Tcomplex=complex64 Treal=double nograd: [[10, -2], [-4, 0]], [2, 2] -> [[1, 2], [3, 4]]",
        "Tcomplex=complex128 Treal=float nograd: [[10, -2], [-4, 0]], [2, 2] -> [[1, 2], [3, 4]]",
        "Tcomplex=complex64: [[1, 2]], [2, 2] -> !INVALID_ARGUMENT must have length of at least 2"));

MR_OP(RFFT3D,
    .doc      = "the first half of the Fourier transform of real numbers in the last three "
                "dimensions",
    TRANSFORM(rfft3d, "Treal", "Tcomplex", "Treal"),
    .examples = MR_EXAMPLES(
        "Treal=float: [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [2, 2, 2] -> [[[36, -4], [-8, 0]], "
        "[[-16, 0], [0, 0]]]",
        "Treal=double Tcomplex=complex128: [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], [2, 2, 2] -> "
        "[[[36, -4], [-8, 0]], [[-16, 0], [0, 0]]]",
        "Treal=double Tcomplex=complex64 nograd: [[[1, 2]]], [1, 1, 2] -> [[[3, -1]]]",
        "Treal=float Tcomplex=complex128 nograd: [[[1, 2]]], [1, 1, 2] -> [[[3, -1]]]",
        "Treal=float: [[1]], [1, 1, 1] -> !INVALID_ARGUMENT at least rank 3"));

MR_OP(IRFFT3D,
    .doc      = "real numbers from the first half of their Fourier transform in the last three "
                "dimensions",
    TRANSFORM(irfft3d, "Tcomplex", "Treal", "Tcomplex"),
    .examples = MR_EXAMPLES(
        "Tcomplex=complex64: [[[36, -4], [-8, 0]], [[-16, 0], [0, 0]]], [2, 2, 2] -> [[[1, 2], [3, "
        "4]], [[5, 6], [7, 8]]]",
        "Tcomplex=complex128 Treal=double: [[[36, -4], [-8, 0]], [[-16, 0], [0, 0]]], [2, 2, 2] -> "
        "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]]",
        "Tcomplex=complex64 Treal=double nograd: [[[3, -1]]], [1, 1, 2] -> [[[1, 2]]]",
        "Tcomplex=complex128 Treal=float nograd: [[[3, -1]]], [1, 1, 2] -> [[[1, 2]]]"));
