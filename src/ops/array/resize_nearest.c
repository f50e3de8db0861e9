/* ops/array/resize_nearest.c -- ResizeNearestNeighbor, and its gradient.
 *
 * A pixel of the result is a copy of one of the original; its gradient is added to that one. */
#include <math.h>

#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/add_run.h"
#include "ops/array/resize.h"
#include "run/scratch.h"

static int64_t nearest_source(const mr_resize *z, int64_t i, float scale, int64_t n)
{
    float at = z->half_pixel_centers ? ((float)i + 0.5f) * scale : (float)i * scale;
    int64_t place = (int64_t)(z->align_corners ? roundf(at) : floorf(at));
    return MR_MAX(0, MR_MIN(place, n - 1));
}

/* Finds the sources of all rows, then of all columns. */
static mr_status *find_all(const mr_run *r, const mr_resize *z, int64_t **out)
{
    size_t n = (size_t)z->out_h + (size_t)z->out_w;
    if (!(*out = mr_scratch_zeroed(r, n, sizeof(int64_t))))
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %zu positions", n);
    for (int64_t i = 0; i < z->out_h; i++)
        (*out)[i] = nearest_source(z, i, z->scale_h, z->in_h);
    for (int64_t i = 0; i < z->out_w; i++)
        (*out)[z->out_h + i] = nearest_source(z, i, z->scale_w, z->in_w);
    return NULL;
}

typedef struct job {
    mr_resize z;
    const int64_t *rows, *cols;
    const mr_tensor *x; /* the input: the images, or the gradients of the resized ones */
    mr_tensor *out;
    mr_add_run *add;
} job;

/* ---- forward ---- */

static void copy_rows(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    size_t pixel = (size_t)j->z.channels * mr_dtype_size(j->x->dtype);
    for (int64_t r = begin; r < end; r++) {
        int64_t image = r / j->z.out_h, y = j->rows[r % j->z.out_h];
        const char *from =
            (const char *)j->x->data + (size_t)((image * j->z.in_h + y) * j->z.in_w) * pixel;
        char *to = (char *)j->out->data + (size_t)(r * j->z.out_w) * pixel;
        for (int64_t i = 0; i < j->z.out_w; i++)
            memcpy(to + (size_t)i * pixel, from + (size_t)j->cols[i] * pixel, pixel);
    }
}

static mr_status *run_resize(mr_run *r)
{
    job j = {.x = mr_in(r, 0)};
    int64_t *places = NULL;
    MR_TRY(mr_resize_read(r, &j.z));
    int64_t dims[] = {j.z.batch, j.z.out_h, j.z.out_w, j.z.channels};
    MR_TRY(mr_run_output(r, 0, 4, dims, &j.out));
    if (j.out->n == 0)
        return NULL;
    MR_TRY(find_all(r, &j.z, &places));
    j.rows = places;
    j.cols = places + j.z.out_h;
    double row = (double)j.z.out_w * (4 + 0.1 * (double)j.z.channels);
    mr_run_for(r, j.z.batch * j.z.out_h, row, copy_rows, &j);
    mr_scratch_free(places);
    return NULL;
}

/* The original's height and width, which the gradient must have. */
static mr_out image_size(mr_grad *g)
{
    mr_out shape = mr_shape_of(g, mr_xi(g, 0));
    return mr_emit(g->s, "Slice", shape, mr_const_vec_i32(g->s, 1, (int32_t[]){1}),
                   mr_const_vec_i32(g->s, 1, (int32_t[]){2}));
}

static void resize_backward(mr_grad *g)
{
    mr_out in[] = {mr_dyi(g, 0), image_size(g)};
    mr_dxi(g, 0,
           mr_emit_like(g, "ResizeNearestNeighborGrad", "align_corners half_pixel_centers", in, 2));
}

#define RESIZE_ATTRS "; align_corners: bool = false; half_pixel_centers: bool = false"
#define RESIZED_TYPES(M, ...)                                                          \
    MR_FLOATS(M, __VA_ARGS__) MR_SIGNED(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__)  \
    MR_TYPE_UINT16(M, __VA_ARGS__)

MR_OP(ResizeNearestNeighbor,
    .doc      = "images [batch, height, width, channels] of another size, by the nearest pixel",
    .sig      = "images: T, size: int32 -> resized_images: T",
    .attrs    = "T: {int8, uint8, int16, uint16, int32, int64, half, float, double, bfloat16}"
                RESIZE_ATTRS,
    .shape    = mr_resize_shape,
    .grad     = resize_backward,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_resize, RESIZED_TYPES)),
    .examples = MR_EXAMPLES(
        "[[[[1], [2]], [[3], [4]]]], [4, 4] -> [[[[1], [1], [2], [2]], [[1], [1], [2], [2]], [[3], "
        "[3], [4], [4]], [[3], [3], [4], [4]]]]",
        "align_corners=true: [[[[1], [2], [3]]]], [1, 4] -> [[[[1], [2], [2], [3]]]]",
        "half_pixel_centers=true: [[[[1, 7], [2, 8], [3, 9]]]], [1, 2] -> [[[[1, 7], [3, 9]]]]",
        "iota(1,4,4,1), [2, 2] -> [[[[0], [2]], [[8], [10]]]]",
        "shape(2,2,2,0), [3, 3] -> shape(2,3,3,0)",
        "[[[[1]]]], [2, -1] -> !INVALID_ARGUMENT output dimensions must be positive",
        "s = PlaceholderWithDefault dtype=int32 shape=?: int32[0, 1]; : [[[[1]]]], s -> "
        "!INVALID_ARGUMENT output dimensions must be positive"));

/* ---- gradient ---- */

static void add_images(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    size_t pixel = (size_t)j->z.channels * mr_dtype_size(j->x->dtype);
    for (int64_t r = begin * j->z.out_h; r < end * j->z.out_h; r++) {
        int64_t image = r / j->z.out_h, y = j->rows[r % j->z.out_h];
        const char *from = (const char *)j->x->data + (size_t)(r * j->z.out_w) * pixel;
        char *to = (char *)j->out->data + (size_t)((image * j->z.in_h + y) * j->z.in_w) * pixel;
        for (int64_t i = 0; i < j->z.out_w; i++)
            j->add(to + (size_t)j->cols[i] * pixel, from + (size_t)i * pixel, 1, j->z.channels);
    }
}

static mr_status *run_resize_grad(mr_run *r)
{
    job j = {.x = mr_in(r, 0), .add = mr_add_run_of(mr_in(r, 0)->dtype)};
    int64_t *places = NULL;
    if (j.x->rank != 4)
        return mr_invalid("input must be 4-dimensional %s", MR_TENSOR_SHAPE(j.x));
    MR_TRY(mr_resize_size(r, 1, &j.z.in_h, &j.z.in_w));
    j.z.batch = j.x->dims[0];
    j.z.out_h = j.x->dims[1];
    j.z.out_w = j.x->dims[2];
    j.z.channels = j.x->dims[3];
    MR_TRY(mr_resize_scale(r->node, &j.z));
    int64_t dims[] = {j.z.batch, j.z.in_h, j.z.in_w, j.z.channels};
    MR_TRY(mr_tensor_zeros(mr_run_allocator(r), j.x->dtype, 4, dims, &j.out));
    mr_run_set(r, 0, j.out);
    if (j.x->n == 0)
        return NULL;
    MR_TRY(find_all(r, &j.z, &places));
    j.rows = places;
    j.cols = places + j.z.out_h;
    double image = (double)(j.z.out_h * j.z.out_w) * (4 + 0.5 * (double)j.z.channels);
    mr_run_for(r, j.z.batch, image, add_images, &j);
    mr_scratch_free(places);
    return NULL;
}

#define GRAD_TYPES(M, ...)                                                                    \
    MR_FLOATS(M, __VA_ARGS__) MR_TYPE_UINT8(M, __VA_ARGS__) MR_TYPE_INT8(M, __VA_ARGS__)      \
    MR_TYPE_INT32(M, __VA_ARGS__)

MR_OP(ResizeNearestNeighborGrad,
    .doc      = "the gradient of ResizeNearestNeighbor; size is that of the original",
    .sig      = "grads: T, size: int32 -> output: T",
    .attrs    = "T: {uint8, int8, int32, half, float, double, bfloat16}" RESIZE_ATTRS,
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_resize_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_resize_grad, GRAD_TYPES)),
    .examples = MR_EXAMPLES(
        "[[[[1], [2], [3], [4]]]], [1, 2] -> [[[[3], [7]]]]",
        "align_corners=true: [[[[1], [2], [4], [8]]]], [1, 3] -> [[[[1], [6], [8]]]]",
        "half_pixel_centers=true: [[[[1, 7], [3, 9]]]], [1, 3] -> [[[[1, 7], [0, 0], [3, 9]]]]",
        "shape(1,0,2,1), [1, 2] -> [[[[0], [0]]]]",
        "[[[[1]]]], [0, 2] -> !INVALID_ARGUMENT output dimensions must be positive"));
