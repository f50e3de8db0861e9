/* ops/random/crop.c -- RandomCrop: crops an image at a random position. */
#include "graph/infer.h"
#include "ops/random/philox.h"

static mr_status *check_size(const mr_run *r, const int64_t *size)
{
    const mr_tensor *x = mr_in(r, 0);
    static const char *const names[] = {"height", "width"};
    for (int i = 0; i < 2; i++) {
        if (size[i] < 0)
            return mr_invalid("target_%s must not be negative, got %lld", names[i],
                              (long long)size[i]);
        if (x->dims[i] < size[i])
            return mr_error(MR_FAILED_PRECONDITION, "%s must be >= target_%s: %s = %lld, target_%s "
                            "= %lld", names[i], names[i], names[i], (long long)x->dims[i], names[i],
                            (long long)size[i]);
    }
    return NULL;
}

static mr_status *run_crop(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *s = mr_in(r, 1);
    if (x->rank != 3)
        return mr_invalid("input must be 3-dimensional%s", MR_TENSOR_SHAPE(x));
    if (s->rank != 1 || s->n != 2)
        return mr_invalid("shape_t must have two elements%s", MR_TENSOR_SHAPE(s));
    const int64_t *size = MR_DATA(int64_t, s);
    if (size[0] == x->dims[0] && size[1] == x->dims[1]) { /* draws nothing */
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    MR_TRY(check_size(r, size));
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, 3, (int64_t[]){size[0], size[1], x->dims[2]}, &y));
    mr_words w = mr_words_at(mr_random_reserve(r->state, 1), 0);
    int64_t at[2] = {0};
    for (int i = 0; i < 2; i++)
        if (size[i] < x->dims[i])
            at[i] = (int64_t)(mr_words_next(&w) % (uint64_t)(x->dims[i] - size[i] + 1));
    int64_t channels = x->dims[2], row = size[1] * channels;
    for (int64_t i = 0; i < size[0] && y->n > 0; i++)
        MR_TRY(mr_tensor_try_copy_elements(y, i * row, x, ((at[0] + i) * x->dims[1] + at[1]) * channels, row));
    return NULL;
}

static mr_status *infer_crop(mr_infer *c)
{
    const mr_pshape *image, *size;
    MR_TRY(mr_infer_rank(c, c->in[0], 3, &image));
    MR_TRY(mr_infer_shape_value(c, 1, &size));
    MR_TRY(mr_infer_rank(c, size, 2, &size));
    mr_pshape *y = mr_pshape_new(c->arena, 3);
    y->dims[0] = mr_infer_dim(size, 0);
    y->dims[1] = mr_infer_dim(size, 1);
    y->dims[2] = mr_infer_dim(image, 2);
    c->out[0] = y;
    return NULL;
}

MR_OP(RandomCrop,
    .doc         = "a part of the given height and width of an image [height, width, channels]",
    .sig         = "image: T, size: int64 -> output: T",
    .attrs       = "T: {uint8, int8, int16, int32, int64, float, double}; seed: int = 0; "
                   "seed2: int = 0",
    .flags       = MR_STATEFUL | MR_NO_GRADIENT,
    .deprecated  = 8,
    .deprecation = "Random crop is now pure Python",
    .shape       = infer_crop,
    .kernels     = MR_KERNELS(MR_CPU_ANY(run_crop)),
    .state_bytes = sizeof(mr_random_state), .init = mr_random_init, .deinit = mr_random_deinit,
    .examples    = MR_EXAMPLES(
        "[[[1], [2]], [[3], [4]]], [2, 2] -> [[[1], [2]], [[3], [4]]]",
        "fill(7, 3,4,2), [2, 1] -> fill(7, 2,1,2)", "[[[1]]], [0, 1] -> shape(0,1,1)",
        "seed=1: iota(2,2,1), [1, 1] -> shape(1,1,1)",
        "[[[1]]], [2, 1] -> !FAILED_PRECONDITION height must be >= target_height: height = 1",
        "[[[1]]], [0, -1] -> !INVALID_ARGUMENT", "[[1]], [1, 1] -> !INVALID_ARGUMENT",
        "[[[1]]], [1] -> !INVALID_ARGUMENT"));
