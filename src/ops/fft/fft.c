/* ops/fft/fft.c -- transforms of complex numbers: FFT, IFFT, in one, two and three dimensions, and their old names. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/array/layout.h"
#include "ops/fft/lines.h"

typedef struct state {
    mr_fft_cache cache;
} state;

static mr_status *init_fft(mr_make *m, void *s)
{
    (void)m;
    mr_fft_cache_init(&((state *)s)->cache);
    return NULL;
}

static void deinit_fft(void *s) { mr_fft_cache_deinit(&((state *)s)->cache); }

/* ---- kernel ---- */

static mr_status *run_fft(mr_run *r, int dimensions, bool inverse)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    if (x->rank < dimensions)
        return mr_invalid("Input must have rank of at least %d but got: %s", dimensions,
                          MR_TENSOR_SHAPE(x));
    MR_TRY(mr_run_forward(r, 0, 0, x->rank, x->dims, &y));
    mr_fft_array src = {.t = x, .dims = {1, 1, 1, 1}}, dst;
    src.dims[0] = mr_dims_product(x->dims, 0, x->rank - dimensions);
    for (int d = 0; d < dimensions; d++)
        src.dims[3 - d] = x->dims[x->rank - 1 - d];
    dst = src;
    dst.t = y;
    if (x->n == 0)
        return NULL;
    for (int axis = 3; axis > 3 - dimensions; axis--, src = dst)
        MR_TRY(mr_fft_lines(r, &((state *)r->state)->cache,
                            &(mr_fft_pass){MR_FFT_COMPLEX, inverse, axis, src.dims[axis]}, &src,
                            &dst));
    return NULL;
}

static mr_status *fft_run(mr_run *r) { return run_fft(r, 1, false); }
static mr_status *fft2d_run(mr_run *r) { return run_fft(r, 2, false); }
static mr_status *fft3d_run(mr_run *r) { return run_fft(r, 3, false); }
static mr_status *ifft_run(mr_run *r) { return run_fft(r, 1, true); }
static mr_status *ifft2d_run(mr_run *r) { return run_fft(r, 2, true); }
static mr_status *ifft3d_run(mr_run *r) { return run_fft(r, 3, true); }

static mr_status *infer_fft1(mr_infer *c) { return mr_infer_rank_at_least(c, c->in[0], 1, &c->out[0]); }
static mr_status *infer_fft2(mr_infer *c) { return mr_infer_rank_at_least(c, c->in[0], 2, &c->out[0]); }
static mr_status *infer_fft3(mr_infer *c) { return mr_infer_rank_at_least(c, c->in[0], 3, &c->out[0]); }

/* ---- gradients ---- */

/* The adjoint of the transform is its inverse times this factor: the number of elements. */
static mr_out size_of(mr_grad *g, mr_out x, int dimensions)
{
    mr_scope *s = g->s;
    mr_out shape = mr_shape_of(g, x);
    mr_out last = mr_emit_with(s, "StridedSlice", MR_ATTRS({"end_mask", mr_a_int(1)}), shape,
                               mr_const_vec_i32(s, 1, (int32_t[]){-dimensions}),
                               mr_const_vec_i32(s, 1, (int32_t[]){0}),
                               mr_const_vec_i32(s, 1, (int32_t[]){1}));
    mr_out n = mr_emit(s, "Prod", last, mr_const_i32(s, 0));
    return mr_emit_with(s, "Cast", MR_ATTRS({"DstT", mr_a_type(mr_dtype_base(mr_out_type(x)))}), n);
}

static void forward_backward(mr_grad *g, int dimensions, const char *inverse)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dxi(g, 0, mr_emit(g->s, "Mul", mr_emit(g->s, inverse, dy), size_of(g, dy, dimensions)));
}

static void inverse_backward(mr_grad *g, int dimensions, const char *forward)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dxi(g, 0, mr_emit(g->s, "RealDiv", mr_emit(g->s, forward, dy), size_of(g, dy, dimensions)));
}

static void fft_backward(mr_grad *g) { forward_backward(g, 1, "IFFT"); }
static void fft2d_backward(mr_grad *g) { forward_backward(g, 2, "IFFT2D"); }
static void fft3d_backward(mr_grad *g) { forward_backward(g, 3, "IFFT3D"); }
static void ifft_backward(mr_grad *g) { inverse_backward(g, 1, "FFT"); }
static void ifft2d_backward(mr_grad *g) { inverse_backward(g, 2, "FFT2D"); }
static void ifft3d_backward(mr_grad *g) { inverse_backward(g, 3, "FFT3D"); }

#define TRANSFORM(fn, by_shape)                                                                  \
    .sig = "input: Tcomplex -> output: Tcomplex",                                                \
    .attrs = "Tcomplex: {complex64, complex128} = DT_COMPLEX64", .shape = by_shape,              \
    .grad = fn##_backward, .kernels = MR_KERNELS(MR_CPU_ONE(fn##_run, MR_COMPLEXES)),            \
    .state_bytes = sizeof(state), .init = init_fft, .deinit = deinit_fft
#define OLD_TRANSFORM(fn, by_shape, now)                                                         \
    .sig = "input: complex64 -> output: complex64", .deprecated = 15, .deprecation = "Use " now, \
    .shape = by_shape, .kernels = MR_KERNELS(MR_CPU_ANY(fn##_run)), .state_bytes = sizeof(state), \
    .init = init_fft, .deinit = deinit_fft

MR_OP(FFT,
    .doc      = "the discrete Fourier transform of the last dimension",
    TRANSFORM(fft, infer_fft1),
    .examples = MR_EXAMPLES(
        "[1, 2, 3, 4] -> [10, -2+2i, -2, -2-2i]", "[1+2i, 3] -> [4+2i, -2+2i]",
        "[[1, 0, 0], [0, 1, 0]] -> [[1, 1, 1], [1, -0.5-0.866025403784i, -0.5+0.866025403784i]]",
        "[0, 1, 0, 0, 0] -> [1, 0.309016994375-0.951056516295i, -0.809016994375-0.587785252292i, "
        "-0.809016994375+0.587785252292i, 0.309016994375+0.951056516295i]",
        "fill(1, 7) -> [7, 0, 0, 0, 0, 0, 0]", "nograd: fill(1, 2,1,67) -> shape(2,1,67)",
        "[1i] -> [1i]", "shape(0) -> shape(0)", "shape(3,0) -> shape(3,0)",
        "shape(0,3) -> shape(0,3)",
        "nograd: [nan, 1] -> shape(2)", "1 -> !INVALID_ARGUMENT at least rank 1"));

MR_OP(IFFT,
    .doc      = "the inverse discrete Fourier transform of the last dimension",
    TRANSFORM(ifft, infer_fft1),
    .examples = MR_EXAMPLES(
        "[10, -2+2i, -2, -2-2i] -> [1, 2, 3, 4]", "[4+2i, -2+2i] -> [1+2i, 3]",
        "[[3, 0, 0]] -> [[1, 1, 1]]", "shape(2,0) -> shape(2,0)",
        "1 -> !INVALID_ARGUMENT at least rank 1"));

MR_OP(FFT2D,
    .doc      = "the discrete Fourier transform of the last two dimensions",
    TRANSFORM(fft2d, infer_fft2),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]] -> [[10, -2], [-4, 0]]",
        "[[[1i, 0, 0], [0, 0, 0]]] -> [[[1i, 1i, 1i], [1i, 1i, 1i]]]",
        "shape(0,2) -> shape(0,2)", "[1] -> !INVALID_ARGUMENT at least rank 2"));

MR_OP(IFFT2D,
    .doc      = "the inverse discrete Fourier transform of the last two dimensions",
    TRANSFORM(ifft2d, infer_fft2),
    .examples = MR_EXAMPLES(
        "[[10, -2], [-4, 0]] -> [[1, 2], [3, 4]]", "shape(2,0,3) -> shape(2,0,3)",
        "[1] -> !INVALID_ARGUMENT at least rank 2"));

MR_OP(FFT3D,
    .doc      = "the discrete Fourier transform of the last three dimensions",
    TRANSFORM(fft3d, infer_fft3),
    .examples = MR_EXAMPLES(
        "[[[1, 2], [3, 4]], [[5, 6], [7, 8]]] -> [[[36, -4], [-8, 0]], [[-16, 0], [0, 0]]]",
        "[[[[1i]]]] -> [[[[1i]]]]", "shape(2,0,1,3) -> shape(2,0,1,3)",
        "[[1]] -> !INVALID_ARGUMENT at least rank 3"));

MR_OP(IFFT3D,
    .doc      = "the inverse discrete Fourier transform of the last three dimensions",
    TRANSFORM(ifft3d, infer_fft3),
    .examples = MR_EXAMPLES(
        "[[[36, -4], [-8, 0]], [[-16, 0], [0, 0]]] -> [[[1, 2], [3, 4]], [[5, 6], [7, 8]]]",
        "[[1]] -> !INVALID_ARGUMENT at least rank 3"));

MR_OP(BatchFFT, .doc = "FFT, by its old name", OLD_TRANSFORM(fft, mr_shape_unknown, "FFT"),
      .examples = MR_EXAMPLES("[[1, 2, 3, 4]] -> [[10, -2+2i, -2, -2-2i]]",
                              "1 -> !INVALID_ARGUMENT"));
MR_OP(BatchIFFT,
    .doc      = "IFFT, by its old name",
    OLD_TRANSFORM(ifft, mr_shape_unknown, "IFFT"),
    .examples = MR_EXAMPLES("[[10, -2+2i, -2, -2-2i]] -> [[1, 2, 3, 4]]"));
MR_OP(BatchFFT2D,
    .doc      = "FFT2D, by its old name",
    OLD_TRANSFORM(fft2d, mr_shape_unknown, "FFT2D"),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]] -> [[10, -2], [-4, 0]]"));
MR_OP(BatchIFFT2D,
    .doc      = "IFFT2D, by its old name",
    OLD_TRANSFORM(ifft2d, mr_shape_unknown, "IFFT2D"),
    .examples = MR_EXAMPLES("[[10, -2], [-4, 0]] -> [[1, 2], [3, 4]]"));
MR_OP(BatchFFT3D,
    .doc      = "FFT3D, by its old name",
    OLD_TRANSFORM(fft3d, mr_shape_unknown, "FFT3D"),
    .examples = MR_EXAMPLES("[[[1, 2], [3, 4]]] -> [[[10, -2], [-4, 0]]]"));
MR_OP(BatchIFFT3D,
    .doc      = "IFFT3D, by its old name",
    OLD_TRANSFORM(ifft3d, mr_shape_unknown, "IFFT3D"),
    .examples = MR_EXAMPLES("[[[10, -2], [-4, 0]]] -> [[[1, 2], [3, 4]]]"));
