/* ops/array/matrix_diag.c -- diagonals of matrices, which are the last two dimensions: MatrixDiag,
 * MatrixDiagPart, MatrixSetDiag, MatrixBandPart, and their old names. */
#include "base/memory.h"
#include "graph/grad.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "ops/array/matrix_diag.h"

/* ---- the walk along all diagonals ---- */

typedef struct diagonals {
    int64_t batch, rows, cols, n; /* n: length of a diagonal */
} diagonals;

static diagonals diagonals_of(const mr_tensor *m)
{
    int64_t rows = m->dims[m->rank - 2], cols = m->dims[m->rank - 1];
    return (diagonals){mr_dims_product(m->dims, 0, m->rank - 2), rows, cols, MR_MIN(rows, cols)};
}

/* Copies packed diagonals into matrices. */
static mr_status *put_diagonals(mr_run *r, diagonals d, mr_tensor *m, const mr_tensor *diag)
{
    mr_blit b;
    mr_blit_init(&b);
    mr_blit_dim(&b, d.batch, d.n, d.rows * d.cols);
    mr_blit_dim(&b, d.n, 1, d.cols + 1);
    return mr_blit_copy(r, &b, m, 0, diag, 0);
}

/* ---- MatrixDiag ---- */

static mr_status *run_diag(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_shape s;
    mr_tensor *out;
    if (x->rank < 1)
        return mr_invalid("diagonal must be at least 1-dim, received shape: %s", MR_TENSOR_SHAPE(x));
    mr_shape_set(&s, x->rank, x->dims);
    MR_TRY(mr_shape_push(&s, x->dims[x->rank - 1]));
    MR_TRY(mr_run_output(r, 0, s.rank, s.dims, &out));
    if (out->n == 0)
        return NULL;
    if (mr_dtype_is_plain(out->dtype))
        MR_TRY(mr_move_fill(r, out, 0, (char[16]){0}, out->n));
    return put_diagonals(r, diagonals_of(out), out, x);
}

static mr_status *diag_shape(mr_infer *c)
{
    const mr_pshape *x = NULL;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &x));
    c->out[0] = x->rank < 0 ? x : mr_infer_concat(c, x, mr_infer_sub(c, x, -1, MR_MAX_RANK));
    return NULL;
}

static void diag_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "MatrixDiagPart", mr_dyi(g, 0)));
}

MR_OP(MatrixDiag,
    .doc      = "matrices with these diagonals, zero elsewhere",
    .sig      = "diagonal: T -> output: T",
    .attrs    = "T: type",
    .shape    = diag_shape,
    .grad     = diag_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_diag)),
    .examples = MR_EXAMPLES(
        "[1, 2] -> [[1, 0], [0, 2]]", "[[1, 2], [3, 4]] -> [[[1, 0], [0, 2]], [[3, 0], [0, 4]]]",
        "[\"a\"] -> [[\"a\"]]", "shape(0) -> shape(0,0)", "shape(2,0) -> shape(2,0,0)",
        "1 -> !INVALID_ARGUMENT at least rank 1",
        "unknown: 1 -> !INVALID_ARGUMENT diagonal must be at least 1-dim, received shape: []"));

/* ---- MatrixDiagPart ---- */

static mr_status *run_diag_part(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    mr_tensor *out;
    mr_blit b;
    int64_t dims[MR_MAX_RANK];
    if (x->rank < 2)
        return mr_invalid("input must be at least 2-dim, received shape: %s", MR_TENSOR_SHAPE(x));
    diagonals d = diagonals_of(x);
    memcpy(dims, x->dims, (size_t)(x->rank - 2) * sizeof(int64_t));
    dims[x->rank - 2] = d.n;
    MR_TRY(mr_run_output(r, 0, x->rank - 1, dims, &out));
    if (out->n == 0)
        return NULL;
    mr_blit_init(&b);
    mr_blit_dim(&b, d.batch, d.rows * d.cols, d.n);
    mr_blit_dim(&b, d.n, d.cols + 1, 1);
    return mr_blit_copy(r, &b, out, 0, x, 0);
}

/* The shape of the diagonals of matrices of shape m, which has a rank of at least 2. */
static const mr_pshape *diagonal_shape(mr_infer *c, const mr_pshape *m)
{
    int64_t rows = mr_infer_dim(m, -2), cols = mr_infer_dim(m, -1);
    int64_t n = rows == 0 || cols == 0 ? 0 : rows < 0 || cols < 0 ? -1 : MR_MIN(rows, cols);
    return mr_infer_concat(c, mr_infer_sub(c, m, 0, -2), mr_pshape_vector(c->arena, n));
}

static mr_status *diag_part_shape(mr_infer *c)
{
    const mr_pshape *x = NULL;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &x));
    if (x->rank >= 0)
        c->out[0] = diagonal_shape(c, x);
    return NULL;
}

static void diag_part_backward(mr_grad *g)
{
    const mr_pshape *s = mr_out_shape(mr_xi(g, 0));
    bool square =
        s->rank >= 2 && mr_infer_dim(s, -1) >= 0 && mr_infer_dim(s, -1) == mr_infer_dim(s, -2);
    mr_dxi(g, 0,
           square ? mr_emit(g->s, "MatrixDiag", mr_dyi(g, 0))
                  : mr_emit(g->s, "MatrixSetDiag", mr_zeros_like(g, mr_xi(g, 0)), mr_dyi(g, 0)));
}

MR_OP(MatrixDiagPart,
    .doc      = "the diagonals of matrices",
    .sig      = "input: T -> diagonal: T",
    .attrs    = "T: type",
    .shape    = diag_part_shape,
    .grad     = diag_part_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_diag_part)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]] -> [1, 4]", "iota(2,2,3) -> [[0, 4], [6, 10]]", "iota(3,2) -> [0, 3]",
        "[[\"a\", \"b\"]] -> [\"a\"]", "shape(2,0,3) -> shape(2,0)",
        "[1] -> !INVALID_ARGUMENT at least rank 2",
        "unknown: [1] -> !INVALID_ARGUMENT input must be at least 2-dim, received shape: [1]"));

/* ---- MatrixSetDiag ---- */

mr_status *mr_check_diag(const mr_tensor *x, const mr_tensor *diag, int rank, const int64_t *dims)
{
    if (mr_shape_eq(rank, dims, diag->rank, diag->dims))
        return NULL;
    return mr_invalid("Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not "
                      "equal to the longests diagonal in range [lower_diag_index:upper_diag_index].\nInput shape: %s\n"
                      "Diagonal shape: %s\nExpected diagonal shape: %s",
                      MR_TENSOR_SHAPE(x), MR_TENSOR_SHAPE(diag), MR_SHAPE_TEXT(rank, dims));
}

static mr_status *run_set_diag(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *diag = mr_in(r, 1);
    mr_tensor *out;
    if (x->rank < 2)
        return mr_invalid("input must be at least 2-dim, received shape: %s", MR_TENSOR_SHAPE(x));
    if (diag->rank < 1)
        return mr_invalid("diagonal must be at least 1-dim, received shape: %s", MR_TENSOR_SHAPE(diag));
    diagonals d = diagonals_of(x);
    int64_t dims[MR_MAX_RANK];
    memcpy(dims, x->dims, (size_t)(x->rank - 2) * sizeof(int64_t));
    dims[x->rank - 2] = d.n;
    MR_TRY(mr_check_diag(x, diag, x->rank - 1, dims));
    MR_TRY(mr_run_forward(r, 0, 0, x->rank, x->dims, &out));
    if (out->data != x->data && x->n > 0)
        MR_TRY(mr_move(r, out, 0, x, 0, x->n));
    return diag->n > 0 ? put_diagonals(r, d, out, diag) : NULL;
}

mr_status *mr_infer_set_diag(mr_infer *c, const mr_pshape *x, const mr_pshape *diag, int inner, const mr_pshape **out)
{
    *out = x;
    if (diag->rank < inner || mr_pshape_full(x))
        return NULL;
    const mr_pshape *batch = mr_infer_sub(c, diag, 0, -inner);
    return mr_infer_merge(c, x, mr_infer_concat(c, batch, mr_pshape_matrix(c->arena, -1, -1)), out);
}

static mr_status *set_diag_shape(mr_infer *c)
{
    const mr_pshape *x = NULL, *diag = NULL;
    int64_t ignored;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &x));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &diag));
    if (x->rank >= 0) {
        MR_TRY(mr_infer_rank(c, diag, x->rank - 1, &diag));
        MR_TRY(mr_infer_merge_dim(mr_infer_dim(diagonal_shape(c, x), -1), mr_infer_dim(diag, -1), &ignored));
    }
    return mr_infer_set_diag(c, x, diag, 1, &c->out[0]);
}

static void set_diag_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0);
    mr_dxi(g, 0, mr_emit(g->s, "MatrixSetDiag", dy, mr_zeros_like(g, mr_xi(g, 1))));
    mr_dxi(g, 1, mr_emit(g->s, "MatrixDiagPart", dy));
}

MR_OP(MatrixSetDiag,
    .doc      = "the input with other diagonals",
    .sig      = "input: T, diagonal: T -> output: T",
    .attrs    = "T: type",
    .shape    = set_diag_shape,
    .grad     = set_diag_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_set_diag)),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [5, 6] -> [[5, 2], [3, 6]]",
        "iota(1,3,2), [[7, 8]] -> [[[7, 1], [2, 8], [4, 5]]]",
        "[[\"a\", \"b\"]], [\"c\"] -> [[\"c\", \"b\"]]", "shape(0,2), shape(0) -> shape(0,2)",
        "[[1, 2]], [5, 6] -> !INVALID_ARGUMENT Dimensions must be equal, but are 1 and 2",
        "[[1, 2]], [[5]] -> !INVALID_ARGUMENT Shape must be rank 1 but is rank 2",
        "[1], [5] -> !INVALID_ARGUMENT Shape must be at least rank 2 but is rank 1",
        "unknown: [1], [5] -> !INVALID_ARGUMENT input must be at least 2-dim, received shape: [1]",
        "unknown: [[1]], 5 -> !INVALID_ARGUMENT diagonal must be at least 1-dim, received shape: []",
        "iota(2,1,1), [[5]] -> !INVALID_ARGUMENT Either first dimensions of diagonal don't match input.shape[:-2]",
        "d = PlaceholderWithDefault dtype=$T shape=?: [1, 2]; : [[1, 2]], d -> !INVALID_ARGUMENT "
        "Either first dimensions of diagonal don't match input.shape[:-2]"));

/* ---- MatrixBandPart ---- */

typedef struct band {
    const mr_tensor *x;
    mr_tensor *out;
    diagonals d;
    int64_t lower, upper; /* negative: all */
} band;

/* The columns that row r of all matrices, counted consecutively, keeps: first to last - 1. */
static void band_of_row(const band *b, int64_t r, int64_t *first, int64_t *last)
{
    int64_t i = r % b->d.rows, cols = b->d.cols;
    *first = b->lower < 0 ? 0 : MR_MAX(0, MR_MIN(cols, i - b->lower));
    *last = b->upper < 0 ? cols : MR_MIN(cols, i + b->upper + 1);
    *last = MR_MAX(*first, *last);
}

/* Writes rows: zeros, the band, zeros. */
static void write_band(void *ctx, int64_t begin, int64_t end)
{
    const band *b = ctx;
    size_t elem = mr_dtype_size(b->x->dtype);
    int64_t cols = b->d.cols, first, last;
    for (int64_t r = begin; r < end; r++) {
        band_of_row(b, r, &first, &last);
        char *to = (char *)b->out->data + (size_t)(r * cols) * elem;
        const char *from = (const char *)b->x->data + (size_t)(r * cols) * elem;
        memset(to, 0, (size_t)first * elem);
        if (to != from)
            memcpy(to + (size_t)first * elem, from + (size_t)first * elem,
                   (size_t)(last - first) * elem);
        memset(to + (size_t)last * elem, 0, (size_t)(cols - last) * elem);
    }
}

static mr_status *check_band(const char *what, int64_t width, const char *of, int64_t n)
{
    if (width <= n)
        return NULL;
    return mr_invalid("%s must be negative or less or equal to number of %s (%lld) got: %lld", what,
                      of, (long long)n, (long long)width);
}

/* Strings and handles: elements outside the band keep their empty initial value. */
static mr_status *copy_band(mr_run *r, band *b)
{
    int64_t first, last;
    MR_TRY(mr_run_output(r, 0, b->x->rank, b->x->dims, &b->out));
    for (int64_t row = 0; row < b->d.batch * b->d.rows; row++) {
        band_of_row(b, row, &first, &last);
        MR_TRY(mr_tensor_try_copy_elements(b->out, row * b->d.cols + first, b->x,
                                           row * b->d.cols + first, last - first));
    }
    return NULL;
}

static mr_status *run_band_part(mr_run *r)
{
    band b = {.x = mr_in(r, 0)};
    if (b.x->rank < 2)
        return mr_invalid("input must be at least 2-dim, received shape: %s", MR_TENSOR_SHAPE(b.x));
    b.d = diagonals_of(b.x);
    MR_TRY(mr_in_scalar_int(r, 1, "num_lower", &b.lower));
    MR_TRY(mr_in_scalar_int(r, 2, "num_upper", &b.upper));
    MR_TRY(check_band("num_lower", b.lower, "rows", b.d.rows));
    MR_TRY(check_band("num_upper", b.upper, "columns", b.d.cols));
    if (b.x->n == 0 || (b.lower < 0 && b.upper < 0)) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    if (!mr_dtype_is_plain(b.x->dtype))
        return copy_band(r, &b);
    MR_TRY(mr_run_forward(r, 0, 0, b.x->rank, b.x->dims, &b.out));
    double row_bytes = (double)b.d.cols * (double)mr_dtype_size(b.x->dtype);
    mr_run_for(r, b.d.batch * b.d.rows, 5 + 0.1 * row_bytes, write_band, &b);
    return NULL;
}

static mr_status *band_part_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    return mr_infer_rank_at_least(c, c->in[0], 2, &c->out[0]);
}

static void band_part_backward(mr_grad *g)
{
    mr_dxi(g, 0, mr_emit(g->s, "MatrixBandPart", mr_dyi(g, 0), mr_xi(g, 1), mr_xi(g, 2)));
}

MR_OP(MatrixBandPart,
    .doc      = "the input, zero outside of a band around the diagonal; a negative width is all",
    .sig      = "input: T, num_lower: Tindex, num_upper: Tindex -> band: T",
    .attrs    = "T: type; Tindex: {int32, int64} = DT_INT64",
    .shape    = band_part_shape,
    .grad     = band_part_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_band_part)),
    .examples = MR_EXAMPLES(
        "[[1, 0], [1, 1]], 0, 0 -> [[1, 0], [0, 1]]",
        "[[1, 2, 3], [4, 5, 6], [7, 8, 9]], 1, 0 -> [[1, 0, 0], [4, 5, 0], [0, 8, 9]]",
        "[[1, 2, 3], [4, 5, 6]], 0, -1 -> [[1, 2, 3], [0, 5, 6]]",
        "Tindex=int32: [[1, 2], [3, 4], [5, 6]], -1, 0 -> [[1, 0], [3, 4], [5, 6]]",
        "[[1, 2], [3, 4]], -1, -1 -> [[1, 2], [3, 4]]",
        "[[\"a\", \"b\"], [\"c\", \"d\"]], 0, -1 -> [[\"a\", \"b\"], [\"\", \"d\"]]",
        "[[1], [2], [3], [4]], 0, 0 -> [[1], [0], [0], [0]]", "shape(0,2,2), 1, 1 -> shape(0,2,2)",
        "[[1, 2]], 2, 0 -> !INVALID_ARGUMENT num_lower must be negative or less or equal to number "
        "of rows (1) got: 2",
        "[[1, 2]], 0, 3 -> !INVALID_ARGUMENT num_upper must be negative or less or equal to number "
        "of columns (2) got: 3"));

/* ---- old names ---- */

#define OLD(fn, by_shape, now) \
    .attrs = "T: type", .deprecated = 14, .deprecation = "Use " now, .shape = by_shape, \
    .kernels = MR_KERNELS(MR_CPU_ANY(fn))

MR_OP(BatchMatrixDiag,
    .doc      = "MatrixDiag, by its old name",
    .sig      = "diagonal: T -> output: T",
    OLD(run_diag, diag_shape, "MatrixDiag"),
    .examples = MR_EXAMPLES("[[1, 2]] -> [[[1, 0], [0, 2]]]", "[\"a\"] -> [[\"a\"]]"));

MR_OP(BatchMatrixDiagPart,
    .doc      = "MatrixDiagPart, by its old name",
    .sig      = "input: T -> diagonal: T",
    OLD(run_diag_part, diag_part_shape, "MatrixDiagPart"),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]] -> [1, 4]", "[[\"a\"]] -> [\"a\"]"));

MR_OP(BatchMatrixSetDiag,
    .doc      = "MatrixSetDiag, by its old name",
    .sig      = "input: T, diagonal: T -> output: T",
    OLD(run_set_diag, set_diag_shape, "MatrixSetDiag"),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], [5, 6] -> [[5, 2], [3, 6]]",
                            "[[\"a\"]], [\"b\"] -> [[\"b\"]]"));

MR_OP(BatchMatrixBandPart,
    .doc      = "MatrixBandPart, by its old name",
    .sig      = "input: T, num_lower: int64, num_upper: int64 -> band: T",
    OLD(run_band_part, band_part_shape, "MatrixBandPart"),
    .examples = MR_EXAMPLES("[[1, 2], [3, 4]], 0, -1 -> [[1, 2], [0, 4]]",
                            "[[\"a\"]], 0, 0 -> [[\"a\"]]"));
