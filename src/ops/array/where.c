/* ops/array/where.c -- Where: the positions of all elements that are not 0. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/array/layout.h"

/* NaN counts as non-zero, -0 as zero. */
#define TEST_ORDINARY(p) (*(p) != 0)
#define TEST_16(p) (((p)->bits & 0x7fff) != 0)

/* Counts the elements in begin..end that are not 0; if out is given, stores their positions. */
#define SCAN(E, name, number, S, C, TEST)                                                   \
    static int64_t scan_##name(const void *data, int64_t begin, int64_t end, int64_t *out)  \
    {                                                                                       \
        const S *v = data;                                                                  \
        int64_t n = 0;                                                                      \
        for (int64_t i = begin; !out && i < end; i++)                                       \
            n += TEST(v + i);                                                               \
        for (int64_t i = begin; out && i < end; i++)                                        \
            if (TEST(v + i))                                                                \
                out[n++] = i;                                                               \
        return n;                                                                           \
    }
MR_FLOATS16(SCAN, TEST_16)
MR_FLOATS32(SCAN, TEST_ORDINARY)
MR_COMPLEXES(SCAN, TEST_ORDINARY)
MR_INTS(SCAN, TEST_ORDINARY)

typedef int64_t scan_fn(const void *data, int64_t begin, int64_t end, int64_t *out);

static scan_fn *scan_of(mr_dtype t)
{
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: return scan_##name;
    switch (t) {
        MR_NUMBERS(CASE, )
    case MR_QINT8: return scan_int8;
    case MR_QINT16: return scan_int16;
    case MR_QUINT16: return scan_uint16;
    case MR_QINT32: return scan_int32;
    default: MR_ASSERT(t == MR_BOOL || t == MR_QUINT8); return scan_uint8;
    }
#undef CASE
}

/* Converts flat positions to coordinates, from the last to the first, so that both can use the same memory. */
static void spread_places(int64_t *out, int64_t n, int rank, const int64_t *dims)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        int64_t at = out[i];
        for (int d = rank - 1; d >= 0; d--) {
            out[i * rank + d] = at % dims[d];
            at /= dims[d];
        }
    }
}

static mr_status *run_where(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    scan_fn *scan = scan_of(x->dtype);
    mr_tensor *out;
    int64_t n = scan(x->data, 0, x->n, NULL);
    MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){n, x->rank}, &out));
    if (out->n == 0)
        return NULL;
    scan(x->data, 0, x->n, out->data);
    if (x->rank > 1)
        spread_places(out->data, n, x->rank, x->dims);
    return NULL;
}

static mr_status *where_shape(mr_infer *c)
{
    c->out[0] = mr_pshape_matrix(c->arena, -1, c->in[0]->rank);
    return NULL;
}

MR_OP(Where,
    .doc      = "the indices of all elements that are true, or not 0, a row each",
    .sig      = "input: T -> index: int64",
    .attrs    = "T: {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, "
                "qint32, bfloat16, uint16, complex128, half, uint32, uint64, bool} = DT_BOOL",
    .flags    = MR_NO_GRADIENT,
    .shape    = where_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_where)),
    .examples = MR_EXAMPLES(
        "[[1, 0], [0, 1]] -> [[0, 0], [1, 1]]", "[0, 2, 3] -> [[1], [2]]",
        "[0, -0.0, nan] -> [[2]]", "[0, 1i] -> [[1]]", "[0, 0] -> shape(0,1)",
        "shape(0,3) -> shape(0,2)", "1 -> shape(1,0)",
        "[[[0, 1], [1, 0], [0, 0]]] -> [[0, 0, 1], [0, 1, 0]]"));
