/* ops/array/matrix_bands.c -- several diagonals of matrices at once: MatrixDiagV2 and V3,
 * MatrixDiagPartV2 and V3, MatrixSetDiagV2 and V3.
 *
 * Diagonal k of a matrix holds the elements (i, i + k); a band is those from `low` to `high`.  Each diagonal is
 * stored in one row, `high` first, and all rows have the length of the longest diagonal; `align` determines
 * separately for those above and those below the main diagonal whether a shorter one is at the left or at the right
 * of its row. V2 is V3 with all at the left. */
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/array/blit.h"
#include "ops/array/layout.h"
#include "ops/array/matrix_diag.h"

typedef struct state {
    bool left_above, left_below;
} state;

static mr_status *init_v2(mr_make *m, void *s)
{
    (void)m;
    *(state *)s = (state){true, true};
    return NULL;
}

static mr_status *init_v3(mr_make *m, void *s)
{
    mr_sv align;
    MR_TRY(mr_node_get_str(m->node, "align", &align));
    ((state *)s)->left_above =
        mr_sv_eq(align, mr_sv_of("LEFT_RIGHT")) || mr_sv_eq(align, mr_sv_of("LEFT_LEFT"));
    ((state *)s)->left_below =
        mr_sv_eq(align, mr_sv_of("RIGHT_LEFT")) || mr_sv_eq(align, mr_sv_of("LEFT_LEFT"));
    return NULL;
}

typedef struct band {
    int64_t low, high;
    int64_t batch, rows, cols;
    int64_t count, longest; /* diagonals, and the elements of the longest */
    state align;
} band;

/* ---- the band ---- */

/* Reads the band from a scalar or from a vector of one or two elements. */
static mr_status *band_of(const mr_tensor *k, band *b)
{
    if (k->rank > 1)
        return mr_invalid("diag_index must be a scalar or vector, received shape: %s",
                          MR_TENSOR_SHAPE(k));
    if (k->n < 1 || k->n > 2)
        return mr_invalid("diag_index must have only one or two elements, received %lld elements.",
                          (long long)k->n);
    b->low = mr_tensor_int_at(k, 0);
    b->high = mr_tensor_int_at(k, k->n - 1);
    b->count = b->high - b->low + 1;
    if (b->low > b->high)
        return mr_invalid("lower_diag_index must not be larger than upper_diag_index: %lld > %lld",
                          (long long)b->low, (long long)b->high);
    return NULL;
}

static mr_status *check_index(const band *b, const char *which, int64_t k)
{
    if ((-b->rows < k && k < b->cols) || k == 0)
        return NULL;
    return mr_invalid("%s is out of bound: %lld. It must be between %lld and %lld", which,
                      (long long)k, (long long)-b->rows, (long long)b->cols);
}

/* For matrices of known size: checks the indices and sets the length of the longest diagonal. */
static mr_status *measure_band(band *b)
{
    MR_TRY(check_index(b, "lower_diag_index", b->low));
    MR_TRY(check_index(b, "upper_diag_index", b->high));
    b->longest = MR_MIN(b->rows + MR_MIN(b->high, 0), b->cols + MR_MIN(-b->low, 0));
    return NULL;
}

/* The copy between diagonal k of the matrices and its row: returns its length, and where both begin. */
static int64_t diagonal_at(const band *b, int64_t k, int64_t *in_matrix, int64_t *in_rows)
{
    int64_t n = MR_MIN(b->rows + MR_MIN(0, k), b->cols - MR_MAX(0, k));
    bool left = (k >= 0 && b->align.left_above) || (k <= 0 && b->align.left_below);
    *in_matrix = k >= 0 ? k : -k * b->cols;
    *in_rows = (b->high - k) * b->longest + (left ? 0 : b->longest - n);
    return n;
}

static mr_status *copy_band(mr_run *r, const band *b, const mr_tensor *from, mr_tensor *to,
                            bool to_matrix)
{
    int64_t matrix = b->rows * b->cols, rows = b->count * b->longest, m, d;
    for (int64_t k = b->low; k <= b->high; k++) {
        int64_t n = diagonal_at(b, k, &m, &d);
        if (n <= 0)
            continue;
        mr_blit blit;
        mr_blit_init(&blit);
        mr_blit_dim(&blit, b->batch, to_matrix ? rows : matrix, to_matrix ? matrix : rows);
        mr_blit_dim(&blit, n, to_matrix ? 1 : b->cols + 1, to_matrix ? b->cols + 1 : 1);
        MR_TRY(mr_blit_copy(r, &blit, to, to_matrix ? m : d, from, to_matrix ? d : m));
    }
    return NULL;
}

static mr_status *fill_padding(mr_run *r, int padding, mr_tensor *out)
{
    const mr_tensor *v = mr_in(r, padding);
    mr_blit blit;
    if (v->n < 1)
        return mr_invalid("padding_value must be a scalar, received shape: %s", MR_TENSOR_SHAPE(v));
    mr_blit_init(&blit);
    mr_blit_dim(&blit, out->n, 0, 1);
    return mr_blit_copy(r, &blit, out, 0, v, 0);
}

/* The shape of the diagonals; a single one has no dimension for their number. */
static mr_status *rows_shape(const band *b, int rank, const int64_t *dims, mr_shape *out)
{
    mr_shape_set(out, rank - 2, dims);
    if (b->count > 1)
        MR_TRY(mr_shape_push(out, b->count));
    return mr_shape_push(out, b->longest);
}

/* ---- MatrixDiagPart ---- */

static mr_status *matrices_band(mr_run *r, int k, band *b)
{
    const mr_tensor *x = mr_in(r, 0);
    if (x->rank < 2)
        return mr_invalid("input must be at least 2-dim, received shape: %s", MR_TENSOR_SHAPE(x));
    MR_TRY(band_of(mr_in(r, k), b));
    b->align = *(state *)r->state;
    b->batch = mr_dims_product(x->dims, 0, x->rank - 2);
    b->rows = x->dims[x->rank - 2];
    b->cols = x->dims[x->rank - 1];
    return measure_band(b);
}

static mr_status *diag_part(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    band b;
    mr_shape shape;
    mr_tensor *out;
    MR_TRY(matrices_band(r, 1, &b));
    MR_TRY(rows_shape(&b, x->rank, x->dims, &shape));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    if (out->n == 0)
        return NULL;
    MR_TRY(fill_padding(r, 2, out));
    return copy_band(r, &b, x, out, false);
}

/* ---- MatrixDiag ---- */

/* -1: as many rows or columns as the diagonals need. */
static mr_status *matrix_sizes(band *b, int64_t rows, int64_t cols)
{
    int64_t least_rows = b->longest - MR_MIN(b->high, 0),
            least_cols = b->longest + MR_MAX(b->low, 0);
    b->rows = rows >= 0 ? rows : cols >= 0 ? least_rows : MR_MAX(least_rows, least_cols);
    b->cols = cols >= 0 ? cols : rows >= 0 ? least_cols : MR_MAX(least_rows, least_cols);
    if (b->rows < least_rows)
        return mr_invalid("The number of rows is too small.");
    if (b->cols < least_cols)
        return mr_invalid("The number of columns is too small.");
    if (b->rows != least_rows && b->cols != least_cols)
        return mr_invalid("The number of rows or columns is not consistent with the specified "
                          "d_lower, d_upper, and diagonal.");
    return NULL;
}

static mr_status *diag(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    band b = {0};
    mr_shape shape;
    mr_tensor *out;
    int64_t rows, cols;
    if (x->rank < 1)
        return mr_invalid("diagonal must be at least 1-dim, received shape: %s",
                          MR_TENSOR_SHAPE(x));
    MR_TRY(band_of(mr_in(r, 1), &b));
    MR_TRY(mr_in_scalar_int(r, 2, "num_rows", &rows));
    MR_TRY(mr_in_scalar_int(r, 3, "num_cols", &cols));
    int inner = b.count > 1 ? 2 : 1;
    if (b.count > 1 && (x->rank < 2 || x->dims[x->rank - 2] != b.count))
        return mr_invalid("The number of diagonals provided in the input does not match the "
                          "lower_diag_index and upper_diag_index range.");
    b.align = *(state *)r->state;
    b.longest = x->dims[x->rank - 1];
    b.batch = mr_dims_product(x->dims, 0, x->rank - inner);
    MR_TRY(matrix_sizes(&b, rows, cols));
    mr_shape_set(&shape, x->rank - inner, x->dims);
    MR_TRY(mr_shape_push(&shape, b.rows));
    MR_TRY(mr_shape_push(&shape, b.cols));
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &out));
    if (out->n == 0)
        return NULL;
    MR_TRY(fill_padding(r, 4, out));
    return x->n > 0 ? copy_band(r, &b, x, out, true) : NULL;
}

/* ---- MatrixSetDiag ---- */

static mr_status *set_diag(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0), *d = mr_in(r, 1);
    band b;
    mr_shape wanted;
    mr_tensor *out;
    if (x->rank >= 2 && d->rank < 1)
        return mr_invalid("diagonal must be at least 1-dim, received shape: %s", MR_TENSOR_SHAPE(d));
    MR_TRY(matrices_band(r, 2, &b));
    MR_TRY(rows_shape(&b, x->rank, x->dims, &wanted));
    if (b.count > 1 && (d->rank < x->rank - 1 || d->dims[x->rank - 2] != b.count))
        return mr_invalid("The number of diagonals provided in `diag` is not consistent with `lower_diag_index` and "
                          "`upper_diag_index`");
    MR_TRY(mr_check_diag(x, d, wanted.rank, wanted.dims));
    MR_TRY(mr_take_over(r, 0, 0, &out));
    return d->n > 0 ? copy_band(r, &b, d, out, true) : NULL;
}

/* ---- shapes ---- */

static mr_status *diag_part_shape(mr_infer *c)
{
    const mr_pshape *x, *ignored;
    band b;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &x));
    MR_TRY(mr_infer_rank_at_most(c, c->in[1], 1, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[2], 0, &ignored));
    const mr_tensor *k = mr_infer_const(c, 1);
    if (x->rank < 0 || !k)
        return NULL;
    MR_TRY(band_of(k, &b));
    b.rows = mr_infer_dim(x, -2);
    b.cols = mr_infer_dim(x, -1);
    b.longest = -1;
    if (b.rows >= 0 && b.cols >= 0)
        MR_TRY(measure_band(&b));
    const mr_pshape *inner = b.count > 1 ? mr_pshape_matrix(c->arena, b.count, b.longest)
                                         : mr_pshape_vector(c->arena, b.longest);
    c->out[0] = mr_infer_concat(c, mr_infer_sub(c, x, 0, -2), inner);
    return NULL;
}

static mr_status *diag_shape(mr_infer *c)
{
    const mr_pshape *x, *ignored;
    band b = {0};
    int64_t rows = -1, cols = -1;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &x));
    MR_TRY(mr_infer_rank_at_most(c, c->in[1], 1, &ignored));
    for (int i = 2; i < 5; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 0, &ignored));
    const mr_tensor *k = mr_infer_const(c, 1);
    if (x->rank < 0 || !k)
        return NULL;
    MR_TRY(band_of(k, &b));
    bool known = mr_infer_int(c, 2, &rows) && mr_infer_int(c, 3, &cols);
    int inner = b.count > 1 ? 2 : 1;
    if (x->rank < inner)
        return mr_invalid("Shape must be at least rank 2 but is rank 1");
    b.longest = mr_infer_dim(x, -1);
    b.rows = b.cols = -1;
    if (known && b.longest >= 0)
        MR_TRY(matrix_sizes(&b, rows, cols));
    c->out[0] = mr_infer_concat(c, mr_infer_sub(c, x, 0, -inner),
                                mr_pshape_matrix(c->arena, b.rows, b.cols));
    return NULL;
}

/* If k is not known, TensorFlow assumes one diagonal and so refuses bands; here the kernel checks them. */
static mr_status *set_diag_shape(mr_infer *c)
{
    const mr_pshape *x, *d, *ignored;
    band b = {0};
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &x));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &d));
    MR_TRY(mr_infer_rank_at_most(c, c->in[2], 1, &ignored));
    const mr_tensor *k = mr_infer_const(c, 2);
    c->out[0] = x;
    if (!k) {
        if (x->rank < 0)
            return NULL;
        MR_TRY(mr_infer_rank_at_least(c, d, x->rank - 1, &d));
        return mr_infer_rank_at_most(c, d, x->rank, &d);
    }
    MR_TRY(band_of(k, &b));
    int inner = b.count > 1 ? 2 : 1;
    if (x->rank >= 0)
        MR_TRY(mr_infer_rank(c, d, x->rank - 2 + inner, &d));
    b.rows = mr_infer_dim(x, -2);
    b.cols = mr_infer_dim(x, -1);
    if (b.rows >= 0 && b.cols >= 0)
        MR_TRY(measure_band(&b));
    return mr_infer_set_diag(c, x, d, inner, &c->out[0]);
}

/* ---- gradients: each of the three by the others, of the same version ---- */

static bool is_v3(mr_grad *g) { return strstr(g->node->def->name, "V3") != NULL; }

static mr_out emit_part(mr_grad *g, mr_out x, mr_out k)
{
    const mr_out in[] = {x, k, mr_scalar_like(g, 0, x)};
    return mr_emit_like(g, is_v3(g) ? "MatrixDiagPartV3" : "MatrixDiagPartV2",
                        is_v3(g) ? "align" : "", in, 3);
}

static mr_out emit_set(mr_grad *g, mr_out x, mr_out d, mr_out k)
{
    const mr_out in[] = {x, d, k};
    return mr_emit_like(g, is_v3(g) ? "MatrixSetDiagV3" : "MatrixSetDiagV2",
                        is_v3(g) ? "align" : "", in, 3);
}

static void diag_backward(mr_grad *g) { mr_dxi(g, 0, emit_part(g, mr_dyi(g, 0), mr_xi(g, 1))); }

static void diag_part_backward(mr_grad *g)
{
    mr_dxi(g, 0, emit_set(g, mr_zeros_like(g, mr_xi(g, 0)), mr_dyi(g, 0), mr_xi(g, 1)));
}

static void set_diag_backward(mr_grad *g)
{
    mr_out dy = mr_dyi(g, 0), k = mr_xi(g, 2);
    mr_dxi(g, 0, emit_set(g, dy, mr_zeros_like(g, mr_xi(g, 1)), k));
    mr_dxi(g, 1, emit_part(g, dy, k));
}

/* ---- ops ---- */

#define ALIGN                                                                                     \
    "T: type; align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = 'RIGHT_LEFT'"
#define BANDS(fn, version)                                                                        \
    .shape = fn##_shape, .grad = fn##_backward, .kernels = MR_KERNELS(MR_CPU_ANY(fn)),            \
    .state_bytes = sizeof(state), .init = init_##version

MR_OP(MatrixDiagV2,
    .doc      = "matrices with these diagonals, k[0] to k[1], and a value elsewhere",
    .sig      = "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T -> "
                "output: T",
    .attrs    = "T: type",
    BANDS(diag, v2),
    .examples = MR_EXAMPLES(
        "[1, 2], 0, -1, -1, 0 -> [[1, 0], [0, 2]]",
        "[1, 2], 1, -1, -1, 0 -> [[0, 1, 0], [0, 0, 2], [0, 0, 0]]",
        "[[0, 8], [1, 2], [4, 0]], [-1, 1], -1, -1, 9 -> [[1, 0], [4, 2]]",
        "[[1, 2]], [-1], 5, 4, 7 -> !INVALID_ARGUMENT not consistent",
        "[[1, 2]], -1, 3, 2, 7 -> [[[7, 7], [1, 7], [7, 2]]]",
        "[1], 0, 2, 2, 0 -> !INVALID_ARGUMENT not consistent",
        "[1, 2], 0, 1, -1, 0 -> !INVALID_ARGUMENT The number of rows is too small.",
        "[\"a\"], 0, 1, 2, \"b\" -> [[\"a\", \"b\"]]", "shape(2,0), 0, -1, -1, 1 -> shape(2,0,0)",
        "[1, 2], [1, 0], -1, -1, 0 -> !INVALID_ARGUMENT must not be larger",
        "[1, 2], int32[0, 1, 2], -1, -1, 0 -> !INVALID_ARGUMENT only one or two",
        "1, 0, -1, -1, 0 -> !INVALID_ARGUMENT at least rank 1"));

MR_OP(MatrixDiagV3,
    .doc      = "matrices with these diagonals, k[0] to k[1], and a value elsewhere; shorter "
                "diagonals are "
                "aligned in their rows",
    .sig      = "diagonal: T, k: int32, num_rows: int32, num_cols: int32, padding_value: T -> "
                "output: T",
    .attrs    = ALIGN,
    BANDS(diag, v3),
    .examples = MR_EXAMPLES(
        "[1, 2], 0, -1, -1, 0 -> [[1, 0], [0, 2]]",
        "[[0, 8, 9], [1, 2, 3], [4, 5, 0]], [-1, 1], -1, -1, 0 -> [[1, 8, 0], [4, 2, 9], [0, 5, "
        "3]]",
        "align=\"LEFT_RIGHT\": [[8, 9, 0], [1, 2, 3], [0, 4, 5]], [-1, 1], -1, -1, 0 -> [[1, 8, "
        "0], [4, 2, "
        "9], [0, 5, 3]]",
        "align=\"RIGHT_RIGHT\": [[0, 8, 9], [1, 2, 3], [0, 4, 5]], [-1, 1], 3, 3, 7 -> [[1, 8, "
        "7], [4, 2, "
        "9], [7, 5, 3]]",
        "[\"a\"], 1, 2, 2, \"b\" -> [[\"b\", \"a\"], [\"b\", \"b\"]]",
        "[[1, 2]], [0, 1], -1, -1, 0 -> !INVALID_ARGUMENT The number of diagonals provided",
        "[1, 2], [0, 1], -1, -1, 0 -> !INVALID_ARGUMENT"));

MR_OP(MatrixDiagPartV2,
    .doc      = "diagonals k[0] to k[1] of matrices, filled up with a value",
    .sig      = "input: T, k: int32, padding_value: T -> diagonal: T",
    .attrs    = "T: type",
    BANDS(diag_part, v2),
    .examples = MR_EXAMPLES(
        "[[1, 2, 3], [4, 5, 6]], 0, 0 -> [1, 5]", "[[1, 2, 3], [4, 5, 6]], 1, 0 -> [2, 6]",
        "[[1, 2, 3], [4, 5, 6]], [-1, 2], 9 -> [[3, 9], [2, 6], [1, 5], [4, 9]]",
        "[[[1, 2], [3, 4]]], [0], 0 -> [[1, 4]]",
        "[[\"a\", \"b\"]], [0, 1], \"c\" -> [[\"b\"], [\"a\"]]",
        "shape(0,2,2), 0, 1 -> shape(0,2)", "shape(0,0), 0, 1 -> shape(0)",
        "[[1, 2]], 2, 0 -> !INVALID_ARGUMENT lower_diag_index is out of bound: 2. It must be "
        "between -1 and 2",
        "[1], 0, 0 -> !INVALID_ARGUMENT at least rank 2"));

MR_OP(MatrixDiagPartV3,
    .doc      = "diagonals k[0] to k[1] of matrices, aligned in their rows and filled up with a "
                "value",
    .sig      = "input: T, k: int32, padding_value: T -> diagonal: T",
    .attrs    = ALIGN,
    BANDS(diag_part, v3),
    .examples = MR_EXAMPLES(
        "[[1, 2, 3], [4, 5, 6]], 0, 0 -> [1, 5]",
        "[[1, 2, 3], [4, 5, 6], [7, 8, 9]], [-1, 1], 0 -> [[0, 2, 6], [1, 5, 9], [4, 8, 0]]",
        "align=\"LEFT_RIGHT\": [[1, 2, 3], [4, 5, 6], [7, 8, 9]], [-1, 1], 0 -> [[2, 6, 0], [1, "
        "5, 9], [0, 4, 8]]",
        "[[\"a\", \"b\"]], 1, \"c\" -> [\"b\"]",
        "[[1, 2]], [0, 2], 0 -> !INVALID_ARGUMENT upper_diag_index is out of bound"));

MR_OP(MatrixSetDiagV2,
    .doc      = "the input with other diagonals k[0] to k[1]",
    .sig      = "input: T, diagonal: T, k: int32 -> output: T",
    .attrs    = "T: type",
    BANDS(set_diag, v2),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [5, 6], 0 -> [[5, 2], [3, 6]]",
        "[[1, 2], [3, 4]], [7], -1 -> [[1, 2], [7, 4]]",
        "[[1, 2], [3, 4]], [[7, 0], [5, 6]], [0, 1] -> [[5, 7], [3, 6]]",
        "[[\"a\", \"b\"]], [\"c\"], 1 -> [[\"a\", \"c\"]]",
        "shape(0,2,2), shape(0,2), 0 -> shape(0,2,2)",
        "[[1, 2], [3, 4]], [5], 0 -> !INVALID_ARGUMENT Either first dimensions of diagonal don't match",
        "[[1, 2], [3, 4]], [[5]], [0, 1] -> !INVALID_ARGUMENT The number of diagonals provided in `diag` is not "
        "consistent",
        "[[1, 2], [3, 4]], [5], [0, 1] -> !INVALID_ARGUMENT Shape must be rank 2 but is rank 1",
        "[[1, 2], [3, 4]], [[5, 6]], 0 -> !INVALID_ARGUMENT Shape must be rank 1 but is rank 2",
        "[[1, 2], [3, 4]], [5], 2 -> !INVALID_ARGUMENT lower_diag_index is out of bound",
        "unknown: [[1, 2], [3, 4]], [5], [0, 1] -> !INVALID_ARGUMENT The number of diagonals provided in `diag` is not "
        "consistent",
        "unknown: [[1, 2], [3, 4]], 5, 0 -> !INVALID_ARGUMENT diagonal must be at least 1-dim, received shape: []"));

MR_OP(MatrixSetDiagV3,
    .doc      = "the input with other diagonals k[0] to k[1], which are aligned in their rows",
    .sig      = "input: T, diagonal: T, k: int32 -> output: T",
    .attrs    = ALIGN,
    BANDS(set_diag, v3),
    .examples = MR_EXAMPLES(
        "[[1, 2], [3, 4]], [5, 6], 0 -> [[5, 2], [3, 6]]",
        "[[1, 2], [3, 4]], [[0, 7], [5, 6]], [0, 1] -> [[5, 7], [3, 6]]",
        "align=\"LEFT_LEFT\": [[1, 2], [3, 4]], [[7, 0], [5, 6]], [0, 1] -> [[5, 7], [3, 6]]",
        "[[\"a\", \"b\"]], [\"c\"], 1 -> [[\"a\", \"c\"]]",
        "[[1, 2]], [5, 6], 0 -> !INVALID_ARGUMENT Either first dimensions of diagonal don't match"));
