/* ops/sets/set_operation.c -- difference, intersection and union of the rows of two tensors as sets.
 *
 * Both sides are sorted by row and value, so that one merge of them gives the result in order. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/sets/rows.h"

typedef enum operation { A_MINUS_B, B_MINUS_A, INTERSECTION, UNION } operation;

typedef struct state {
    operation op;
    bool validate;
} state;

static mr_status *init_operation(mr_make *m, void *p)
{
    static const char *const names[] = {"a-b", "b-a", "intersection", "union"};
    state *s = p;
    mr_sv name;
    char small[16] = "";
    MR_TRY(mr_node_get_bool(m->node, "validate_indices", &s->validate));
    MR_TRY(mr_node_get_str(m->node, "set_operation", &name));
    for (size_t i = 0; i < name.n && i < sizeof small - 1; i++)
        small[i] = (char)(name.p[i] >= 'A' && name.p[i] <= 'Z' ? name.p[i] + 32 : name.p[i]);
    for (int i = 0; i < MR_COUNT(names); i++)
        if (name.n < sizeof small && strcmp(small, names[i]) == 0) {
            s->op = (operation)i;
            return NULL;
        }
    return mr_invalid("Invalid set_operation %.*s.", MR_SV_ARG(name));
}

/* ---- the two sides ---- */

typedef struct side {
    mr_rows rows;
    mr_shape *shape; /* of the whole tensor */
    int64_t at;      /* the next element of the merge */
} side;

static void deinit_side(side *s)
{
    mr_rows_deinit(&s->rows);
    mr_free(s->shape);
}

static mr_status *check_rank(const mr_shape *s)
{
    return s->rank >= 2 ? NULL : mr_invalid("Shape rank %d < 2 where sets are wanted.", s->rank);
}

static mr_status *dense_side(const mr_tensor *t, side *s)
{
    s->shape = mr_new(mr_shape);
    mr_shape_set(s->shape, t->rank, t->dims);
    MR_TRY(check_rank(s->shape));
    return mr_rows_of_dense(t, &s->rows);
}

/* Checks that the rows of indices are in order and not repeated. */
static mr_status *check_order(const mr_tensor *indices)
{
    int64_t rank = indices->dims[1];
    for (int64_t i = 1; i < indices->dims[0]; i++) {
        const int64_t *x = MR_DATA(int64_t, indices) + i * rank, *before = x - rank;
        int64_t d = 0;
        while (d < rank && x[d] == before[d])
            d++;
        if (d == rank || x[d] < before[d])
            return mr_invalid("indices[%lld] = %s is %s", (long long)i, MR_SHAPE_TEXT((int)rank, x),
                              d == rank ? "repeated" : "out of order");
    }
    return NULL;
}

static mr_status *sparse_side(const mr_run *r, int first, const char *what, bool validate, side *s)
{
    const mr_tensor *shape = mr_in(r, first + 2);
    MR_TRY(mr_sparse_check(what, mr_in(r, first), mr_in(r, first + 1), shape));
    s->shape = mr_new(mr_shape);
    mr_shape_set(s->shape, (int)shape->n, MR_DATA(int64_t, shape));
    MR_TRY(check_rank(s->shape));
    if (validate)
        MR_TRY(check_order(mr_in(r, first)));
    return mr_rows_of_sparse(mr_in(r, first), mr_in(r, first + 1), s->shape->rank, s->shape->dims,
                             s->shape->dims, &s->rows);
}

static mr_status *check_groups(const side *a, const side *b)
{
    const mr_shape *x = a->shape, *y = b->shape;
    if (mr_shape_eq(x->rank - 1, x->dims, y->rank - 1, y->dims))
        return NULL;
    return mr_invalid("Mismatched group shapes: %s vs. %s", MR_SHAPE_TEXT(x->rank - 1, x->dims),
                      MR_SHAPE_TEXT(y->rank - 1, y->dims));
}

/* ---- the merge ---- */

typedef struct found {
    int64_t group, at;
    bool in_b; /* `at` is an index into the values of b, otherwise of a */
} found;

typedef struct results {
    found *p;
    int64_t n, widest;
} results;

static const mr_row_element *current_element(const side *s)
{
    return s->at < s->rows.n ? &s->rows.e[s->at] : NULL;
}

/* Skips all elements that equal the current one. */
static void skip_equal(side *s)
{
    const mr_row_element *e = current_element(s);
    while (++s->at < s->rows.n && s->rows.e[s->at].group == e->group &&
           mr_element_compare(s->rows.values, e->at, s->rows.values, s->rows.e[s->at].at) == 0)
        ;
}

/* Which of the two comes first: -1, 1, or 0 for both. */
static int first_of(const side *a, const side *b)
{
    const mr_row_element *x = current_element(a), *y = current_element(b);
    if (!x || !y)
        return x ? -1 : 1;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return mr_element_compare(a->rows.values, x->at, b->rows.values, y->at);
}

static bool is_wanted(operation op, int first)
{
    switch (op) {
    case A_MINUS_B: return first < 0;
    case B_MINUS_A: return first > 0;
    case INTERSECTION: return first == 0;
    default: return true;
    }
}

static mr_status *merge_sides(side *a, side *b, operation op, results *out)
{
    int64_t in_row = 0;
    out->p = mr_try_calloc((size_t)(a->rows.n + b->rows.n) + 1, sizeof *out->p);
    if (!out->p)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for sets");
    while (current_element(a) || current_element(b)) {
        int first = first_of(a, b);
        const mr_row_element *e = current_element(first > 0 ? b : a);
        if (is_wanted(op, first)) {
            bool same_row = out->n > 0 && out->p[out->n - 1].group == e->group;
            in_row = same_row ? in_row + 1 : 1;
            out->widest = MR_MAX(out->widest, in_row);
            out->p[out->n++] = (found){e->group, e->at, first > 0};
        }
        if (first <= 0)
            skip_equal(a);
        if (first >= 0)
            skip_equal(b);
    }
    return NULL;
}

/* ---- the three outputs ---- */

static void put_index(int64_t *to, const mr_shape *s, int64_t group, int64_t column)
{
    to[s->rank - 1] = column;
    for (int d = s->rank - 2; d >= 0; d--) {
        to[d] = group % s->dims[d];
        group /= s->dims[d];
    }
}

static mr_status *give_outputs(mr_run *r, const side *a, const side *b, const results *x)
{
    const mr_shape *s = a->shape;
    mr_tensor *indices, *values, *shape;
    int64_t column = 0;
    MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){x->n, s->rank}, &indices));
    MR_TRY(mr_run_output(r, 1, 1, (int64_t[]){x->n}, &values));
    MR_TRY(mr_run_output(r, 2, 1, (int64_t[]){s->rank}, &shape));
    for (int64_t i = 0; i < x->n; i++) {
        column = i > 0 && x->p[i].group == x->p[i - 1].group ? column + 1 : 0;
        put_index(MR_DATA(int64_t, indices) + i * s->rank, s, x->p[i].group, column);
        MR_TRY(mr_tensor_try_copy_elements(values, i, (x->p[i].in_b ? b : a)->rows.values,
                                           x->p[i].at, 1));
    }
    memcpy(shape->data, s->dims, (size_t)(s->rank - 1) * sizeof(int64_t));
    MR_DATA(int64_t, shape)[s->rank - 1] = x->widest;
    return NULL;
}

typedef mr_status *(*open_fn)(const mr_run *r, bool validate, side *a, side *b);

static mr_status *run_operation(mr_run *r, open_fn open)
{
    const state *st_ = r->state;
    side a = {{0}, NULL, 0}, b = {{0}, NULL, 0};
    results x = {0};
    mr_status *st = NULL;
    MR_GO(open(r, st_->validate, &a, &b));
    MR_GO(check_groups(&a, &b));
    mr_rows_sort(&a.rows, true);
    mr_rows_sort(&b.rows, true);
    MR_GO(merge_sides(&a, &b, st_->op, &x));
    MR_GO(give_outputs(r, &a, &b, &x));
out:
    mr_free(x.p);
    deinit_side(&a);
    deinit_side(&b);
    return st;
}

static mr_status *open_dense(const mr_run *r, bool validate, side *a, side *b)
{
    (void)validate;
    MR_TRY(dense_side(mr_in(r, 0), a));
    return dense_side(mr_in(r, 1), b);
}

static mr_status *open_mixed(const mr_run *r, bool validate, side *a, side *b)
{
    MR_TRY(dense_side(mr_in(r, 0), a));
    return sparse_side(r, 1, "set2", validate, b);
}

static mr_status *open_sparse(const mr_run *r, bool validate, side *a, side *b)
{
    MR_TRY(sparse_side(r, 0, "set1", validate, a));
    return sparse_side(r, 3, "set2", validate, b);
}

static mr_status *run_dense(mr_run *r) { return run_operation(r, open_dense); }
static mr_status *run_mixed(mr_run *r) { return run_operation(r, open_mixed); }
static mr_status *run_sparse(mr_run *r) { return run_operation(r, open_sparse); }

/* ---- shapes ---- */

static void result_shape(mr_infer *c, int64_t rank)
{
    c->out[0] = mr_pshape_matrix(c->arena, -1, rank);
    mr_infer_out_vector(c, 1, -1);
    mr_infer_out_vector(c, 2, rank);
}

static mr_status *dense_shape(mr_infer *c)
{
    const mr_pshape *a, *b, *ignored;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &a));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 2, &b));
    result_shape(c, a->rank >= 0 ? a->rank : b->rank);
    if (a->rank < 0 || b->rank < 0)
        return NULL;
    MR_TRY(mr_infer_rank(c, b, a->rank, &b));
    return mr_infer_merge(c, mr_infer_sub(c, a, 0, -1), mr_infer_sub(c, b, 0, -1), &ignored);
}

/* The rank of the sparse tensor whose parts start at input `first`; -1 if unknown. */
static mr_status *sparse_rank(mr_infer *c, int first, int64_t *rank)
{
    const mr_pshape *indices, *ignored, *shape;
    MR_TRY(mr_infer_rank(c, c->in[first], 2, &indices));
    MR_TRY(mr_infer_rank(c, c->in[first + 1], 1, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[first + 2], 1, &shape));
    return mr_infer_merge_dim(mr_infer_dim(indices, 1), mr_infer_dim(shape, 0), rank);
}

static mr_status *mixed_shape(mr_infer *c)
{
    const mr_pshape *a;
    int64_t rank;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 2, &a));
    MR_TRY(sparse_rank(c, 1, &rank));
    MR_TRY(mr_infer_merge_dim(rank, a->rank, &rank));
    result_shape(c, rank);
    return NULL;
}

static mr_status *sparse_shape(mr_infer *c)
{
    int64_t a, b;
    MR_TRY(sparse_rank(c, 0, &a));
    MR_TRY(sparse_rank(c, 3, &b));
    MR_TRY(mr_infer_merge_dim(a, b, &a));
    result_shape(c, a);
    return NULL;
}

/* ---- the ops ---- */

#define RESULT " -> result_indices: int64, result_values: T, result_shape: int64"
#define SET2 "set2_indices: int64, set2_values: T, set2_shape: int64"
#define TYPES "T: {int8, int16, int32, int64, uint8, uint16, string}"
#define SETS(run_, shape_)                                                                  \
    .attrs = "set_operation: string; validate_indices: bool = true; " TYPES,                  \
    .flags = MR_NO_GRADIENT, .shape = shape_, .kernels = MR_KERNELS(MR_CPU_ANY(run_)),         \
    .state_bytes = sizeof(state), .init = init_operation

MR_OP(DenseToDenseSetOperation,
    .doc      = "the rows of two tensors as sets: a-b, b-a, intersection or union",
    .sig      = "set1: T, set2: T" RESULT, SETS(run_dense, dense_shape),
    .examples = MR_EXAMPLES(
        "set_operation=\"intersection\": [[1, 2, 2], [3, 4, 5]], [[2, 3], [5, 3]] -> "
        "[[0, 0], [1, 0], [1, 1]], [2, 3, 5], [2, 2]",
        "set_operation=\"a-b\": [[1, 2], [3, 4]], [[2], [9]] -> [[0, 0], [1, 0], [1, 1]], [1, 3, 4], [2, 2]",
        "set_operation=\"B-A\": [[1, 2], [3, 4]], [[2], [9]] -> [[1, 0]], [9], [2, 1]",
        "T=string set_operation=\"union\": [[\"b\", \"a\"]], [[\"c\", \"a\", \"ab\"]] -> [[0, 0], [0, 1], [0, 2], "
        "[0, 3]], [\"a\", \"ab\", \"b\", \"c\"], [1, 4]",
        "set_operation=\"union\": shape(0,2), shape(0,3) -> shape(0,2), shape(0), [0, 0]",
        "T=int32 set_operation=\"x\": [[1]], [[1]] -> !INVALID_ARGUMENT Invalid set_operation x.",
        "T=int32 set_operation=\"union\": [[1]], [[1], [2]] -> !INVALID_ARGUMENT must be equal",
        "T=int32 set_operation=\"union\": [1], [[1]] -> !INVALID_ARGUMENT must be at least rank 2"));
MR_OP(DenseToSparseSetOperation,
    .doc      = "the rows of a dense and a sparse tensor as sets: a-b, b-a, intersection or union",
    .sig      = "set1: T, " SET2 RESULT, SETS(run_mixed, mixed_shape),
    .examples = MR_EXAMPLES(
        "set_operation=\"intersection\": [[1, 2], [3, 4]], [[0, 0], [1, 3]], [2, 3], [2, 5] -> "
        "[[0, 0], [1, 0]], [2, 3], [2, 1]",
        "T=string set_operation=\"intersection\": [[\"a\", \"b\"], [\"c\", \"d\"]], [[0, 0], [1, 3]], [\"b\", \"c\"], [2, 5] -> "
        "[[0, 0], [1, 0]], [\"b\", \"c\"], [2, 1]",
        "set_operation=\"b-a\": [[1, 2], [3, 4]], shape(0,2), shape(0), [2, 5] -> shape(0,2), shape(0), [2, 0]",
        "T=int32 set_operation=\"union\": [[1]], [[0, 5]], [2], [1, 5] -> !INVALID_ARGUMENT out of bounds",
        "T=int32 set_operation=\"union\": [[1]], shape(0,2), shape(0), [2, 5] -> !INVALID_ARGUMENT Mismatched "
        "group shapes: [1] vs. [2]"));
MR_OP(SparseToSparseSetOperation,
    .doc      = "the rows of two sparse tensors as sets: a-b, b-a, intersection or union",
    .sig      = "set1_indices: int64, set1_values: T, set1_shape: int64, " SET2 RESULT,
    SETS(run_sparse, sparse_shape),
    .examples = MR_EXAMPLES(
        "set_operation=\"union\": [[0, 0], [0, 1]], [2, 1], [2, 2], [[0, 0], [1, 0]], [1, 7], [2, 1] -> "
        "[[0, 0], [0, 1], [1, 0]], [1, 2, 7], [2, 2]",
        "T=string set_operation=\"union\": [[0, 0], [0, 1]], [\"b\", \"a\"], [2, 2], [[0, 0], [1, 0]], [\"a\", \"g\"], [2, 1] -> "
        "[[0, 0], [0, 1], [1, 0]], [\"a\", \"b\", \"g\"], [2, 2]",
        "set_operation=\"intersection\": [[0, 0, 0]], [5], [1, 2, 1], [[0, 0, 3]], [5], [1, 2, 4] -> "
        "[[0, 0, 0]], [5], [1, 2, 1]",
        "T=int32 set_operation=\"union\": [[1, 0], [0, 0]], [1, 2], [2, 2], shape(0,2), shape(0), [2, 2] -> "
        "!INVALID_ARGUMENT is out of order",
        "T=int32 set_operation=\"union\": [[0, 0], [0, 0]], [1, 2], [2, 2], shape(0,2), shape(0), [2, 2] -> "
        "!INVALID_ARGUMENT is repeated",
        "T=int32 set_operation=\"union\" validate_indices=false: [[1, 0], [0, 0]], [1, 2], [2, 2], shape(0,2), "
        "shape(0), [2, 2] -> [[0, 0], [1, 0]], [2, 1], [2, 1]"));

/* ---- SetSize ---- */

static mr_status *init_size(mr_make *m, void *p)
{
    return mr_node_get_bool(m->node, "validate_indices", p);
}

static mr_status *run_size(mr_run *r)
{
    side s = {{0}, NULL, 0};
    mr_tensor *out;
    mr_status *st = NULL;
    MR_GO(sparse_side(r, 0, "set", *(bool *)r->state, &s));
    MR_GO(mr_run_output(r, 0, s.shape->rank - 1, s.shape->dims, &out));
    mr_tensor_zero(out);
    mr_rows_sort(&s.rows, true);
    while (current_element(&s)) {
        MR_DATA(int32_t, out)[current_element(&s)->group]++;
        skip_equal(&s);
    }
out:
    deinit_side(&s);
    return st;
}

static mr_status *size_shape(mr_infer *c)
{
    int64_t rank;
    const mr_pshape *s;
    MR_TRY(sparse_rank(c, 0, &rank));
    MR_TRY(mr_infer_shape_value(c, 2, &s));
    if (s->rank >= 2)
        c->out[0] = mr_infer_sub(c, s, 0, -1);
    return NULL;
}

MR_OP(SetSize,
    .doc      = "how many different elements each row of a sparse tensor has",
    .sig      = "set_indices: int64, set_values: T, set_shape: int64 -> size: int32",
    .attrs    = "validate_indices: bool = true; " TYPES,
    .flags    = MR_NO_GRADIENT,
    .shape    = size_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_size)), .state_bytes = sizeof(bool), .init = init_size,
    .examples = MR_EXAMPLES(
        "[[0, 0], [0, 1], [0, 2], [2, 0]], [1, 1, 2, 9], [3, 3] -> [2, 0, 1]",
        "shape(0,3), shape(0), [2, 1, 4] -> [[0], [0]]",
        "T=int32: [[0, 4]], [1], [1, 3] -> !INVALID_ARGUMENT out of bounds",
        "T=int32: [[0]], [1], [1] -> !INVALID_ARGUMENT rank 1 < 2"));
