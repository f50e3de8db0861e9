/* ops/nn/data_format.c -- converts indices and lists of dimensions between image layouts:
 * DataFormatDimMap and DataFormatVecPermute, which TensorFlow's layout optimizer inserts into graphs. */
#include "base/memory.h"
#include "graph/infer.h"
#include "run/run.h"

enum { MAX_DIMS = 5 };

typedef struct formats {
    int n;
    char src[MAX_DIMS + 1], dst[MAX_DIMS + 1];
} formats;

static int place_of(const char *format, int n, char c)
{
    for (int i = 0; i < n; i++)
        if (format[i] == c)
            return i;
    return -1;
}

static mr_status *init_formats(mr_make *m, void *state)
{
    formats *f = state;
    mr_sv src, dst;
    MR_TRY(mr_node_get_str(m->node, "src_format", &src));
    MR_TRY(mr_node_get_str(m->node, "dst_format", &dst));
    if (src.n != 4 && src.n != 5)
        return mr_invalid("Source format must be of length 4 or 5, received src_format = %.*s",
                          (int)MR_MIN(src.n, 100), src.p);
    if (dst.n != 4 && dst.n != 5)
        return mr_invalid("Destination format must be of length 4 or 5, received dst_format = %.*s",
                          (int)MR_MIN(dst.n, 100), dst.p);
    bool same = src.n == dst.n;
    for (size_t i = 0; i < src.n && same; i++)
        same = place_of(dst.p, (int)dst.n, src.p[i]) >= 0 &&
               place_of(src.p, (int)i, src.p[i]) < 0; /* no letter twice */
    if (!same)
        return mr_invalid("Destination and source format must determine a permutation, got %.*s "
                          "and %.*s", (int)src.n, src.p, (int)dst.n, dst.p);
    f->n = (int)src.n;
    memcpy(f->src, src.p, src.n);
    memcpy(f->dst, dst.p, dst.n);
    return NULL;
}

static void store_index(mr_tensor *t, int64_t i, int64_t v)
{
    if (t->dtype == MR_INT32)
        MR_DATA(int32_t, t)[i] = (int32_t)v;
    else
        MR_DATA(int64_t, t)[i] = v;
}

/* An index out of range counts as the last dimension, as in TensorFlow. */
static mr_status *dim_map(mr_run *r)
{
    const formats *f = r->state;
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &y));
    for (int64_t i = 0; i < x->n; i++) {
        int64_t d = mr_tensor_int_at(x, i);
        d = d >= -f->n && d < 0 ? d + f->n : d;
        d = d >= 0 && d < f->n ? d : f->n - 1;
        store_index(y, i, place_of(f->dst, f->n, f->src[d]));
    }
    return NULL;
}

/* The formats without N and C: only the spatial dimensions. */
static formats without_n_and_c(const formats *f)
{
    formats s = {0};
    int n_dst = 0;
    for (int i = 0; i < f->n; i++) {
        if (f->src[i] != 'N' && f->src[i] != 'C')
            s.src[s.n++] = f->src[i];
        if (f->dst[i] != 'N' && f->dst[i] != 'C')
            s.dst[n_dst++] = f->dst[i];
    }
    return s;
}

static mr_status *check_vector(const formats *f, const mr_tensor *x)
{
    if (x->rank != 1 && x->rank != 2)
        return mr_invalid("input must be a vector or 2D tensor, but got shape %s",
                          MR_TENSOR_SHAPE(x));
    if (x->dims[0] != f->n && x->dims[0] != f->n - 2)
        return mr_invalid("%s input must be of size %d or %d, but got shape %s",
                          x->rank == 1 ? "1D" : "First dimension of 2D", f->n - 2, f->n,
                          MR_TENSOR_SHAPE(x));
    if (x->rank == 2 && x->dims[1] != 2)
        return mr_invalid("Second dimension of 2D input must be of size 2, but got shape %s",
                          MR_TENSOR_SHAPE(x));
    return NULL;
}

static mr_status *vec_permute(mr_run *r)
{
    formats f = *(const formats *)r->state;
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *y;
    MR_TRY(check_vector(&f, x));
    if (x->dims[0] != f.n) {
        int n = f.n - 2;
        f = without_n_and_c(&f);
        if (f.n != n)
            return mr_invalid("a list of %d dimensions requires formats that contain N and C", n);
    }
    MR_TRY(mr_run_output(r, 0, x->rank, x->dims, &y));
    int64_t width = x->rank == 2 ? 2 : 1;
    for (int i = 0; i < f.n; i++) {
        int from = place_of(f.src, f.n, f.dst[i]);
        for (int64_t k = 0; k < width; k++)
            store_index(y, i * width + k, mr_tensor_int_at(x, from * width + k));
    }
    return NULL;
}

#define ATTRS                                                                            \
    .attrs = "T: {int32, int64} = DT_INT32; src_format: string = 'NHWC'; dst_format: "   \
             "string = 'NCHW'",                                                          \
    .flags = MR_NO_GRADIENT, .shape = mr_shape_same, .state_bytes = sizeof(formats), .init = init_formats

MR_OP(DataFormatDimMap,
    .doc      = "converts dimension indices from one layout to another",
    .sig      = "x: T -> y: T",
    ATTRS,
    .kernels  = MR_KERNELS(MR_CPU_ONE(dim_map, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "[0, 1, 2, 3, -1, -4] -> [0, 2, 3, 1, 1, 0]", "3 -> 1", "[7, -5] -> [1, 1]",
        "src_format=\"NDHWC\" dst_format=\"NCDHW\": [[0, 1], [4, -2]] -> [[0, 2], [1, 4]]",
        "src_format=\"HWNC\": shape(0) -> shape(0)",
        "src_format=\"NHW\": [0] -> !INVALID_ARGUMENT Source format must be of length 4 or 5",
        "src_format=\"NHWD\": [0] -> !INVALID_ARGUMENT must determine a permutation",
        "src_format=\"NNHW\" dst_format=\"NHWC\": [0] -> !INVALID_ARGUMENT permutation"));

MR_OP(DataFormatVecPermute,
    .doc      = "permutes a list of numbers, or of pairs, one per dimension, from one layout to another",
    .sig      = "x: T -> y: T",
    ATTRS,
    .kernels  = MR_KERNELS(MR_CPU_ONE(vec_permute, MR_INDEXES)),
    .examples = MR_EXAMPLES(
        "[7, 4, 9, 3] -> [7, 3, 4, 9]", "[[7, 8], [4, 5], [9, 1], [3, 2]] -> "
        "[[7, 8], [3, 2], [4, 5], [9, 1]]", "[4, 9] -> [4, 9]",
        "src_format=\"NHWC\" dst_format=\"WHCN\": [4, 9] -> [9, 4]",
        "src_format=\"NDHWC\" dst_format=\"NCDHW\": [1, 2, 3, 4, 5] -> [1, 5, 2, 3, 4]",
        "[1, 2, 3] -> !INVALID_ARGUMENT 1D input must be of size 2 or 4, but got shape [3]",
        "[[1], [2]] -> !INVALID_ARGUMENT Second dimension of 2D input must be of size 2",
        "1 -> !INVALID_ARGUMENT input must be a vector or 2D tensor"));
