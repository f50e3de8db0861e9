/* ops/io/remap_matrix.c -- LoadAndRemapMatrix: a matrix of a checkpoint with its rows and columns reordered; new
 * entries are filled from given values. */
#include "base/map.h"
#include "graph/infer.h"
#include "ops/io/name_input.h"
#include "store/bundle.h"

typedef struct state {
    int64_t rows, cols;
} state;

static mr_status *read_attrs(const mr_node *n, state *s)
{
    MR_TRY(mr_node_get_int(n, "num_rows", &s->rows));
    return mr_node_get_int(n, "num_cols", &s->cols);
}

static mr_status *init_remap_matrix(mr_make *m, void *p) { return read_attrs(m->node, p); }

/* Checks that a remapping has the right length and names no row or column of the old matrix twice. */
static mr_status *check_remapping(const mr_tensor *t, const char *what, int64_t n, int64_t n_old)
{
    mr_imap seen = {0};
    mr_status *st = NULL;
    if (t->rank != 1)
        return mr_invalid("%s_remapping must be a vector, but had shape: %s", what, MR_TENSOR_SHAPE(t));
    if (t->n != n)
        return mr_invalid("%s %s_remapping%s is %lld instead of being equal to num_%ss=%lld", *what == 'r' ? "Size of" : "Provided", what,
                          *what == 'r' ? "" : ", but its size", (long long)t->n, what, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        int64_t old = MR_DATA(int64_t, t)[i];
        if (old < 0)
            continue;
        if (old >= n_old)
            MR_GO(mr_invalid("%s_remapping[%lld] is %lld, but the matrix has %lld %ss", what,
                             (long long)i, (long long)old, (long long)n_old, what));
        void *before = mr_imap_put(&seen, (uint64_t)old, (void *)(intptr_t)(i + 1));
        if (before)
            MR_GO(mr_error(MR_UNIMPLEMENTED,
                           "Old ID %lld is mapped to both new ID %lld and %lld, which is not currently "
                           "supported. Maybe there are duplicate entries in the old vocabulary?",
                           (long long)old, (long long)(intptr_t)before - 1, (long long)i));
    }
out:
    mr_imap_deinit(&seen);
    return st;
}

/* Reads the whole matrix, regardless of max_rows_in_memory: it is larger than the result only by the rows and
 * columns that are dropped. */
static mr_status *read_old(mr_run *r, mr_tensor **out)
{
    char *path = NULL;
    mr_sv name = MR_SV("");
    mr_bundle *b = NULL;
    mr_bundle_entry *e = mr_new(mr_bundle_entry);
    mr_status *st = NULL;
    if (mr_in(r, 0)->n != 1) /* of any rank */
        MR_GO(mr_invalid("The ckpt_path must be one string, but had shape: %s", MR_TENSOR_SHAPE(mr_in(r, 0))));
    MR_GO(mr_in_path_at(r, 0, "The ckpt_path", &path));
    MR_GO(mr_in_scalar_str(r, 1, "The old_tensor_name", &name));
    MR_GO(mr_bundle_open(path, &b));
    MR_GO(mr_bundle_lookup(b, name, e));
    if (e->dtype != MR_FLOAT)
        MR_GO(mr_invalid("Tensor %.*s has invalid type %s instead of expected type float", MR_SV_ARG(name),
                         mr_dtype_name(e->dtype)));
    if (e->shape.rank != 2)
        MR_GO(mr_invalid("Tensor %.*s has shape %s of invalid rank %d instead of expected shape of rank 2.", MR_SV_ARG(name),
                         MR_SHAPE_TEXT(e->shape.rank, e->shape.dims), e->shape.rank));
    MR_GO(mr_bundle_read(b, name, mr_run_allocator(r), out));
out:
    mr_bundle_close(b);
    mr_free(e);
    mr_free(path);
    return st;
}

static mr_status *fill_matrix(const mr_run *r, const mr_tensor *old, mr_tensor *out)
{
    const int64_t *rows = MR_DATA(int64_t, mr_in(r, 2));
    const int64_t *cols = mr_in(r, 3)->n > 0 ? MR_DATA(int64_t, mr_in(r, 3)) : NULL;
    const mr_tensor *values = mr_in(r, 4);
    float *to = MR_DATA(float, out);
    int64_t used = 0;
    for (int64_t i = 0; i < out->dims[0]; i++)
        for (int64_t k = 0; k < out->dims[1]; k++, to++) {
            int64_t col = cols ? cols[k] : k;
            if (rows[i] >= 0 && col >= 0)
                *to = MR_DATA(float, old)[rows[i] * old->dims[1] + col];
            else if (used < values->n)
                *to = MR_DATA(float, values)[used++];
            else
                return mr_invalid("initializing_values contained %lld elements, but more missing values remain.",
                                  (long long)values->n);
        }
    return used == values->n ? NULL
                             : mr_invalid("initializing_values contained %lld elements, but only %lld elements were used to fill "
                                          "in missing values.", (long long)values->n, (long long)used);
}

static mr_status *load_and_remap(mr_run *r)
{
    const state *s = r->state;
    mr_tensor *old = NULL, *out;
    mr_status *st = NULL;
    MR_GO(read_old(r, &old));
    MR_GO(check_remapping(mr_in(r, 2), "row", s->rows, old->dims[0]));
    if (mr_in(r, 3)->n > 0)
        MR_GO(check_remapping(mr_in(r, 3), "col", s->cols, old->dims[1]));
    else if (s->cols != old->dims[1])
        MR_GO(mr_invalid("Tensor %.*s has shape %s, where the size of its 2nd dimension is %lld instead of being equal to "
                         "num_cols=%lld", MR_SV_ARG(mr_tensor_str_at(mr_in(r, 1), 0)), MR_TENSOR_SHAPE(old),
                         (long long)old->dims[1], (long long)s->cols));
    MR_GO(mr_run_output(r, 0, 2, (int64_t[]){s->rows, s->cols}, &out));
    MR_GO(fill_matrix(r, old, out));
out:
    mr_tensor_unref(old);
    return st;
}

/* Only the name is checked here, as in TensorFlow: estimators pass ckpt_path as a vector of one. */
static mr_status *remap_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    state s;
    MR_TRY(read_attrs(c->node, &s));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    c->out[0] = mr_pshape_matrix(c->arena, s.rows, s.cols);
    return NULL;
}

MR_OP(LoadAndRemapMatrix,
    .doc      = "a matrix of a checkpoint with rows and columns in another order; new ones (-1) are filled "
                "from initializing_values, in order",
    .sig      = "ckpt_path: string, old_tensor_name: string, row_remapping: int64, "
                "col_remapping: int64, initializing_values: float -> output_matrix: float",
    .attrs    = "num_rows: int >= 0; num_cols: int >= 1; max_rows_in_memory: int = -1",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = remap_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(load_and_remap)),
    .state_bytes = sizeof(state), .init = init_remap_matrix,
    .examples = MR_EXAMPLES(
        "num_rows=1 num_cols=1: \"/nowhere/at/all\", \"a\", [0], shape(0), shape(0) -> !NOT_FOUND Failed "
        "to find any matching files for /nowhere/at/all",
        "num_rows=1 num_cols=1: \"a\", [\"a\"], [0], shape(0), shape(0) -> !INVALID_ARGUMENT must be rank 0"));
