/* ops/data/sources.c -- datasets of given values: TensorDataset, TensorSliceDataset, RangeDataset, RandomDataset,
 * SparseTensorSliceDataset. */
#include "base/memory.h"
#include "ops/data/dataset.h"
#include "ops/data/seeds.h"

#define STATEFUL (MR_STATEFUL | MR_NO_GRADIENT)

/* ---- one element ---- */

typedef struct tensors {
    mr_dataset base;
    mr_tensor **t; /* held */
    int64_t n;     /* number of rows, for slices */
} tensors;

typedef struct at {
    mr_iterator base;
    int64_t next;
} at;

static void take_tensors(tensors *d, mr_run *r)
{
    d->t = mr_arena_array(&d->base.arena, mr_tensor *, r->n_in + 1);
    for (int i = 0; i < r->n_in; i++)
        d->t[i] = mr_dataset_keep(&d->base, mr_in(r, i));
}

/* The shapes are those of the tensors from dimension `from` on. */
static void say_shapes(mr_dataset *d, mr_run *r, int from)
{
    int *types = mr_arena_array(&d->arena, int, r->n_in + 1);
    const mr_pshape **shapes = mr_arena_array(&d->arena, const mr_pshape *, r->n_in + 1);
    for (int i = 0; i < r->n_in; i++) {
        types[i] = mr_in(r, i)->dtype;
        shapes[i] = mr_pshape_of(&d->arena, mr_in(r, i)->rank - from, mr_in(r, i)->dims + from);
    }
    d->n = r->n_in;
    d->types = types;
    d->shapes = shapes;
}

static mr_status *tensor_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const tensors *d = (tensors *)it->dataset;
    if ((*end = ((at *)it)->next++ > 0)) {
        ((at *)it)->next = 1;
        return NULL;
    }
    for (int i = 0; i < d->base.n; i++)
        out[i] = mr_tensor_ref(d->t[i]);
    return NULL;
}

static int64_t cardinality_one(const mr_dataset *d) { return (void)d, 1; }

static const mr_dataset_kind tensor_kind = {"Tensor", sizeof(tensors), sizeof(at), .next = tensor_next,
                                            .cardinality = cardinality_one, .tries = true};

static mr_status *tensor_dataset(mr_run *r)
{
    tensors *d;
    MR_TRY(mr_dataset_new(r, &tensor_kind, 0, 0, &d));
    take_tensors(d, r);
    say_shapes(&d->base, r, 0);
    const mr_dataset_state *s = r->state;
    mr_status *st = mr_dataset_check_types(s->n, s->types, &d->base);
    if (!st)
        st = mr_dataset_check_shapes(s->n, s->shapes, &d->base);
    return mr_dataset_give(r, d, st);
}

MR_OP(TensorDataset,
    .doc     = "a dataset of one element",
    .sig     = "components: Toutput_types -> handle: variant",
    .attrs   = "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ''",
    .flags   = STATEFUL, MR_DATASET(tensor_dataset),
    .examples = MR_EXAMPLES("output_shapes=[[2], []]: (float[1, 2], \"a\") -> shape()",
                            "output_shapes=[[3]]: (float[1, 2]) -> !INVALID_ARGUMENT Incompatible shapes at component 0"));

/* ---- one element per row ---- */

static mr_status *copy_row(const mr_tensor *t, int64_t i, mr_tensor **out)
{
    int64_t n = t->rank == 1 ? 1 : t->n / t->dims[0];
    MR_TRY(mr_tensor_new(NULL, t->dtype, t->rank - 1, t->dims + 1, out));
    mr_status *st = mr_tensor_try_copy_elements(*out, 0, t, i * n, n);
    if (st) {
        mr_tensor_unref(*out);
        *out = NULL;
    }
    return st;
}

static mr_status *slices_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const tensors *d = (tensors *)it->dataset;
    at *p = (at *)it;
    if ((*end = p->next >= d->n))
        return NULL;
    for (int i = 0; i < d->base.n; i++)
        MR_TRY(copy_row(d->t[i], p->next, &out[i]));
    p->next++;
    return NULL;
}

static int64_t count_rows(const mr_dataset *d) { return ((const tensors *)d)->n; }

static const mr_dataset_kind slices_kind = {"TensorSlice", sizeof(tensors), sizeof(at), .next = slices_next,
                                            .cardinality = count_rows, .tries = true};

static mr_status *check_rows(mr_run *r)
{
    for (int i = 0; i < r->n_in; i++) {
        const mr_tensor *t = mr_in(r, i);
        if (t->rank < 1)
            return mr_invalid("All components must be at least 1-dimensional");
        if (t->dims[0] != mr_in(r, 0)->dims[0])
            return mr_invalid("All components must have the same size in the 0th dimension");
    }
    return NULL;
}

static mr_status *slice_dataset(mr_run *r)
{
    tensors *d;
    MR_TRY(check_rows(r));
    MR_TRY(mr_dataset_new(r, &slices_kind, 0, 0, &d));
    take_tensors(d, r);
    d->n = mr_in(r, 0)->dims[0];
    say_shapes(&d->base, r, 1);
    const mr_dataset_state *s = r->state;
    mr_status *st = mr_dataset_check_types(s->n, s->types, &d->base);
    if (!st)
        st = mr_dataset_check_shapes(s->n, s->shapes, &d->base);
    return mr_dataset_give(r, d, st);
}

MR_OP(TensorSliceDataset,
    .doc     = "a dataset whose elements are the rows of tensors",
    .sig     = "components: Toutput_types -> handle: variant",
    .attrs   = "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; is_files: bool = false; metadata: string = ''",
    .flags   = STATEFUL, MR_DATASET(slice_dataset),
    .examples = MR_EXAMPLES("output_shapes=[[], [2]]: (float[1, 2], int32[[1, 2], [3, 4]]) -> shape()",
                            "output_shapes=[[]]: (shape(0)) -> shape()",
                            "output_shapes=[[]]: (1.5) -> !INVALID_ARGUMENT at least 1-dimensional",
                            "output_shapes=[[], []]: (float[1, 2], int32[1, 2, 3]) -> !INVALID_ARGUMENT same size in the 0th"));

/* ---- numbers ---- */

typedef struct range {
    mr_dataset base;
    int64_t start, stop, step;
    int64_t n; /* elements */
} range;

#define PUT(E, name, number, S, C, ...) case MR_##E: MR_ST(MR_DATA(S, t), (C)v); break;
static void put_number(mr_tensor *t, int64_t v)
{
    switch (t->dtype) {
        MR_NUMBERS(PUT, )
    default: MR_ASSERT(false); /* checked when the dataset was created */
    }
}

static bool is_number(int type)
{
    return mr_dtype_is_floating((mr_dtype)type) || mr_dtype_is_complex((mr_dtype)type) || mr_dtype_is_integer((mr_dtype)type);
}

static mr_status *range_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const range *d = (range *)it->dataset;
    at *p = (at *)it;
    if ((*end = p->next >= d->n))
        return NULL;
    int64_t v = (int64_t)((uint64_t)d->start + (uint64_t)p->next++ * (uint64_t)d->step); /* the sum fits, but the
                                                                                          * product may not */
    MR_TRY(mr_tensor_new(NULL, (mr_dtype)d->base.types[0], 0, NULL, &out[0]));
    put_number(out[0], v);
    return NULL;
}

static int64_t range_count(const mr_dataset *d) { return ((const range *)d)->n; }

static const mr_dataset_kind range_kind = {"Range", sizeof(range), sizeof(at), .next = range_next, .cardinality = range_count, .tries = true};

/* The number of steps from start to before stop, as if numbers were unbounded. */
static int64_t range_size(int64_t start, int64_t stop, int64_t step)
{
    if (step > 0 ? start >= stop : start <= stop)
        return 0;
    uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t by = step > 0 ? (uint64_t)step : -(uint64_t)step;
    uint64_t n = (span - 1) / by + 1;
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static mr_status *range_dataset(mr_run *r)
{
    range *d;
    int64_t start, stop, step;
    MR_TRY(mr_in_scalar_int(r, 0, "start", &start));
    MR_TRY(mr_in_scalar_int(r, 1, "stop", &stop));
    MR_TRY(mr_in_scalar_int(r, 2, "step", &step));
    if (step == 0)
        return mr_invalid("step must be a non-zero integer.");
    const mr_dataset_state *s = r->state;
    if (s->n != 1 || !is_number(s->types[0]))
        return mr_invalid("Unsupported data type: %s", s->n == 1 ? mr_dtype_name(s->types[0]) : "more than one");
    MR_TRY(mr_dataset_new(r, &range_kind, 0, 0, &d));
    const mr_pshape *scalar = &mr_pshape_scalar;
    mr_dataset_set_types(&d->base, 1, s->types, &scalar);
    d->start = start;
    d->stop = stop;
    d->step = step;
    d->n = range_size(start, stop, step);
    return mr_dataset_give(r, d, NULL);
}

MR_OP(RangeDataset,
    .doc     = "a dataset of the numbers from start on, by step, before stop",
    .sig     = "start: int64, stop: int64, step: int64 -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = STATEFUL, MR_DATASET(range_dataset),
    .examples = MR_EXAMPLES("output_types=[int64] output_shapes=[[]]: 0, 10, 3 -> shape()",
                            "output_types=[int64] output_shapes=[[]]: 0, 10, 0 -> !INVALID_ARGUMENT step must be a non-zero integer",
                            "output_types=[string] output_shapes=[[]]: 0, 10, 1 -> !INVALID_ARGUMENT Unsupported data type: string",
                            "output_types=[half] output_shapes=[[]]: 0, 3, 1 -> shape()"));

/* ---- random numbers ---- */

typedef struct random {
    mr_dataset base;
    mr_seeds seeds;
    mr_seed_source *source; /* NULL: always the same numbers */
} random_set;

typedef struct random_iterator {
    mr_iterator base;
    mr_words words;
} random_iterator;

static mr_status *random_open(mr_iterator *it)
{
    const random_set *d = (random_set *)it->dataset;
    ((random_iterator *)it)->words = mr_seeds_stream(d->source ? mr_seed_source_next(d->source) : d->seeds);
    return NULL;
}

static mr_status *random_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    (void)end;
    MR_TRY(mr_tensor_new(NULL, MR_INT64, 0, NULL, &out[0]));
    *MR_DATA(int64_t, out[0]) = mr_words_next(&((random_iterator *)it)->words);
    return NULL;
}

static int64_t cardinality_infinite(const mr_dataset *d) { return (void)d, MR_CARDINALITY_INFINITE; }

static void random_free(mr_dataset *d)
{
    random_set *p = (random_set *)d;
    if (p->source)
        mr_object_unref(&p->source->base);
}

static const mr_dataset_kind random_kind = {"Random", sizeof(random_set), sizeof(random_iterator), random_open, random_next,
                                            NULL, cardinality_infinite, random_free, .tries = true};

static mr_status *random_dataset(mr_run *r)
{
    random_set *d;
    mr_seeds seeds;
    mr_seed_source *source = NULL;
    const mr_dataset_state *s = r->state;
    MR_TRY(mr_seeds_read(r, 0, &seeds));
    if (s->n != 1 || s->types[0] != MR_INT64)
        return mr_invalid("output_types and output_shapes of RandomDataset must be one scalar of type int64");
    if (r->n_in == 3)
        MR_TRY(mr_seed_source_in(r, 2, &source));
    if (s->flag && !source)
        source = mr_seed_source_new(seeds, true);
    mr_status *st = mr_dataset_new(r, &random_kind, 0, 0, &d);
    if (st) {
        if (source)
            mr_object_unref(&source->base);
        return st;
    }
    const mr_pshape *scalar = &mr_pshape_scalar;
    mr_dataset_set_types(&d->base, 1, s->types, &scalar);
    d->seeds = seeds;
    d->source = d->base.seeds = source;
    return mr_dataset_give(r, d, NULL);
}

MR_OP(RandomDataset,
    .doc     = "a dataset of random numbers below 2^32, without end",
    .sig     = "seed: int64, seed2: int64 -> handle: variant",
    .attrs   = MR_DATASET_ATTRS,
    .flags   = STATEFUL, MR_DATASET(random_dataset),
    .examples = MR_EXAMPLES("output_types=[int64] output_shapes=[[]]: 1, 2 -> shape()"));

MR_OP(RandomDatasetV2,
    .doc     = "a dataset of random numbers below 2^32, without end, other ones in each iteration if wanted",
    .sig     = "seed: int64, seed2: int64, seed_generator: resource -> handle: variant",
    .attrs   = "rerandomize_each_iteration: bool = false; " MR_DATASET_ATTRS,
    .flags   = STATEFUL, MR_DATASET(random_dataset),
    .examples = MR_EXAMPLES("g = AnonymousSeedGenerator: 1, 2, true; output_types=[int64] output_shapes=[[]]: 1, 2, g -> shape()"));

/* ---- rows of a sparse tensor ---- */

typedef struct sparse_rows {
    mr_dataset base;
    mr_tensor *indices, *values, *row_shape; /* held */
    int64_t n;                               /* rows */
} sparse_rows;

typedef struct sparse_iterator {
    mr_iterator base;
    int64_t row, next;
} sparse_iterator;

static mr_status *sparse_next(mr_iterator *it, mr_tensor **out, bool *end)
{
    const sparse_rows *d = (sparse_rows *)it->dataset;
    sparse_iterator *p = (sparse_iterator *)it;
    const int64_t *index = MR_DATA(int64_t, d->indices);
    int64_t width = d->indices->dims[1], first = p->next, last = first;
    if ((*end = p->row >= d->n))
        return NULL;
    while (last < d->indices->dims[0] && index[last * width] == p->row)
        last++;
    int64_t n = last - first;
    MR_TRY(mr_tensor_new(NULL, MR_INT64, 2, (int64_t[]){n, width - 1}, &out[0]));
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 1; k < width; k++)
            MR_DATA(int64_t, out[0])[i * (width - 1) + k - 1] = index[(first + i) * width + k];
    MR_TRY(mr_tensor_new(NULL, (mr_dtype)d->values->dtype, 1, &n, &out[1]));
    MR_TRY(mr_tensor_try_copy_elements(out[1], 0, d->values, first, n));
    out[2] = mr_tensor_ref(d->row_shape);
    p->next = last;
    p->row++;
    return NULL;
}

static int64_t sparse_count(const mr_dataset *d) { return ((const sparse_rows *)d)->n; }

static const mr_dataset_kind sparse_kind = {"SparseTensorSlice", sizeof(sparse_rows), sizeof(sparse_iterator),
                                            .next = sparse_next, .cardinality = sparse_count, .tries = true};

/* Checks that the indices are inside the shape and their rows in order. */
static mr_status *check_sparse(const mr_tensor *indices, const mr_tensor *values, const mr_tensor *shape)
{
    if (indices->rank != 2)
        return mr_invalid("Input indices should be a matrix but received shape %s", MR_TENSOR_SHAPE(indices));
    if (values->rank != 1)
        return mr_invalid("Input values should be a vector but received shape %s", MR_TENSOR_SHAPE(values));
    if (shape->rank != 1)
        return mr_invalid("Input shape should be a vector but received shape %s", MR_TENSOR_SHAPE(shape));
    if (indices->dims[0] != values->n)
        return mr_invalid("Number of values must match first dimension of indices. Got %lld values, indices shape: %s",
                          (long long)values->n, MR_TENSOR_SHAPE(indices));
    if (indices->dims[1] != shape->n)
        return mr_invalid("Number of dimensions must match second dimension of indices. Got %lld dimensions, indices shape: %s",
                          (long long)shape->n, MR_TENSOR_SHAPE(indices));
    if (shape->n < 1 || MR_DATA(int64_t, shape)[0] < 0)
        return mr_invalid("The shape argument requires at least one element.");
    int64_t before = 0;
    for (int64_t i = 0; i < indices->dims[0]; i++) {
        const int64_t *at_i = MR_DATA(int64_t, indices) + i * shape->n;
        for (int64_t k = 0; k < shape->n; k++)
            if (at_i[k] < 0 || at_i[k] >= MR_DATA(int64_t, shape)[k])
                return mr_invalid("indices[%lld,%lld] = %lld is out of bounds", (long long)i, (long long)k, (long long)at_i[k]);
        if (at_i[0] < before)
            return mr_error(MR_UNIMPLEMENTED, "The SparseTensor must be ordered in the batch dimension; handling arbitrarily "
                                              "ordered input is not currently supported.");
        before = at_i[0];
    }
    return NULL;
}

static mr_status *sparse_dataset(mr_run *r)
{
    sparse_rows *d;
    const mr_tensor *shape = mr_in(r, 2);
    MR_TRY(check_sparse(mr_in(r, 0), mr_in(r, 1), shape));
    MR_TRY(mr_dataset_new(r, &sparse_kind, 0, 0, &d));
    d->indices = mr_dataset_keep(&d->base, mr_in(r, 0));
    d->values = mr_dataset_keep(&d->base, mr_in(r, 1));
    d->n = MR_DATA(int64_t, shape)[0];
    mr_status *st = mr_tensor_new(NULL, MR_INT64, 1, (int64_t[]){shape->n - 1}, &d->row_shape);
    if (!st) {
        mr_vec_push(&d->base.held, d->row_shape);
        st = mr_tensor_try_copy_elements(d->row_shape, 0, shape, 1, shape->n - 1);
        mr_arena *a = &d->base.arena;
        mr_dataset_set_types(&d->base, 3, (int[]){MR_INT64, d->values->dtype, MR_INT64},
                             (const mr_pshape *const[]){mr_pshape_matrix(a, -1, shape->n - 1), mr_pshape_vector(a, -1),
                                                        mr_pshape_vector(a, shape->n - 1)});
    }
    return mr_dataset_give(r, d, st);
}

MR_OP(SparseTensorSliceDataset,
    .doc     = "a dataset of the rows of a sparse tensor, each a sparse tensor",
    .sig     = "indices: int64, values: Tvalues, dense_shape: int64 -> handle: variant",
    .attrs   = "Tvalues: type",
    .flags   = STATEFUL, MR_DATASET(sparse_dataset),
    .examples = MR_EXAMPLES("[[0, 1], [2, 0]], [1, 2], [3, 4] -> shape()", "shape(0,1), shape(0), [0] -> shape()",
                            "[[0, 9]], [1], [3, 4] -> !INVALID_ARGUMENT out of bounds",
                            "[[2, 0], [0, 1]], [1, 2], [3, 4] -> !UNIMPLEMENTED ordered in the batch dimension"));
