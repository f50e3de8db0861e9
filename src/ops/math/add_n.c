/* ops/math/add_n.c -- AddN, AccumulateNV2: the sum of many tensors of one shape, from left to right.
 *
 * The sum is computed block by block, so that it stays in the first-level cache while the inputs are read. 16-bit
 * floats are added as floats and rounded once. */
#include "ops/elementwise.h"
#include "tensor/variant.h"

enum { BLOCK_BYTES = 8192 };

MR_BINARY(add, MR_FLOATS32, x + y)
MR_BINARY(add, MR_COMPLEXES, x + y)
MR_BINARY(add, MR_INTS, (uint64_t)x + (uint64_t)y)

typedef struct job {
    mr_each_loop *add;
    const mr_run *r;
    mr_dtype type;
    bool widen;
    char *sum;
} job;

static const char *input_at(const job *j, int k, int64_t i)
{
    return (const char *)mr_in(j->r, k)->data + (size_t)i * mr_dtype_size(j->type);
}

static void add_block(const job *j, int64_t at, int64_t n)
{
    char *out = j->sum + (size_t)at * mr_dtype_size(j->type);
    void *p[3] = {out, (void *)(uintptr_t)input_at(j, 0, at), NULL};
    for (int k = 1; k < j->r->n_in; k++) {
        p[2] = (void *)(uintptr_t)input_at(j, k, at);
        j->add(p, n);
        p[1] = out;
    }
}

static void wide_block(const job *j, int64_t at, int64_t n)
{
    float sum[BLOCK_BYTES / sizeof(float)], x[BLOCK_BYTES / sizeof(float)];
    mr_dtype_convert(j->type, input_at(j, 0, at), MR_FLOAT, sum, n, false);
    for (int k = 1; k < j->r->n_in; k++) {
        mr_dtype_convert(j->type, input_at(j, k, at), MR_FLOAT, x, n, false);
        j->add((void *[]){sum, sum, x}, n);
    }
    mr_dtype_convert(MR_FLOAT, sum, j->type, j->sum + (size_t)at * 2, n, false);
}

static void add_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    int64_t step = BLOCK_BYTES / (int64_t)(j->widen ? sizeof(float) : mr_dtype_size(j->type));
    for (int64_t at = begin; at < end; at += step)
        (j->widen ? wide_block : add_block)(j, at, MR_MIN(step, end - at));
}

static mr_status *add_by_device(mr_run *r, const mr_tensor *x, mr_tensor *y)
{
    mr_status *st = NULL;
    for (int k = 1; k < r->n_in && !st; k++)
        st = mr_accel_launch(r, "each_add", y->n,
                             MR_ACCEL(MR_AI(y->n), MR_AT(y), MR_AT(k == 1 ? x : y), MR_AT(mr_in(r, k))));
    return st;
}

/* The sum may overwrite only input 0: a block of it is read before it is overwritten. */
static mr_status *add_n(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    const mr_each *e = r->kernel->user;
    for (int k = 1; k < r->n_in; k++)
        if (!mr_tensor_same_shape(x, mr_in(r, k)))
            return mr_invalid("Inputs to operation %s of type %s must have the same size and "
                              "shape.  Input 0: %s != "
                              "input %d: %s",
                              r->node->name, r->node->def->name, MR_TENSOR_SHAPE(x), k,
                              MR_TENSOR_SHAPE(mr_in(r, k)));
    if (r->n_in == 1) {
        mr_run_pass(r, 0, 0);
        return NULL;
    }
    mr_tensor *y;
    MR_TRY(mr_run_forward(r, 0, 0, x->rank, x->dims, &y));
    if (mr_on_accel(r))
        return add_by_device(r, x, y);
    job j = {e->loop, r, (mr_dtype)y->dtype, e->widen, y->data};
    if (y->n > 0)
        mr_run_for(r, y->n, e->cost_ns * r->n_in, add_part, &j);
    return NULL;
}

/* Lists of tensors and other variants: their types define the sum. */
static mr_status *add_variants(mr_run *r)
{
    mr_tensor *sum = mr_tensor_ref(mr_in(r, 0));
    mr_status *st = NULL;
    for (int k = 1; k < r->n_in && !st; k++) {
        mr_tensor *next = NULL;
        st = mr_variants_add(mr_run_allocator(r), sum, mr_in(r, k), &next);
        mr_tensor_unref(sum);
        sum = next;
    }
    if (!st)
        mr_run_set(r, 0, sum);
    return st;
}

static void add_n_backward(mr_grad *g)
{
    for (int i = 0; i < g->node->n_in; i++)
        mr_dxi(g, i, mr_dyi(g, 0));
}

MR_FLOATS16(MR_EACH_CONST_ROW, FAST, add)

MR_OP(AddN,
    .doc      = "sum of all inputs, which have one shape",
    .sig      = "inputs: N * T -> sum: T",
    .attrs    = "N: int >= 1; T: {float, double, int32, uint8, int16, int8, complex64, int64, "
                "qint8, quint8, qint32, "
                "bfloat16, uint16, complex128, half, uint32, uint64, variant}",
    .flags    = MR_COMMUTATIVE | MR_AGGREGATE,
    .shape    = mr_shape_merge_all,
    .grad     = add_n_backward,
    .kernels  = MR_KERNELS(MR_CPU_EACH_FORM(add, MR_NUMBERS, add_n, MR_FORM_SUM) MR_GPU(add_n, FLOAT)
                           MR_CPU_EACH_FORM(add, MR_CODES, add_n, MR_FORM_SUM) {"CPU", MR_VARIANT, add_variants},),
    .examples = MR_EXAMPLES(
        "([1, 2], [3, 4], [5, 6]) -> [9, 12]",
        "([[1, 2]]) -> [[1, 2]]",
        "(shape(0,2), shape(0,2)) -> shape(0,2)",
        "([1+1i], [2i]) -> [1+3i]",
        "T=int8: ([100], [100]) -> [-56]",
        "T=quint8: ([100], [100]) -> [200]",
        "T=float: ([1, 2], [1, 2, 3]) -> !INVALID_ARGUMENT"));

/* TensorFlow adds inputs as they arrive, to hold fewer of them; here the inputs of a node arrive together. */
static mr_status *run_accumulate(mr_run *r)
{
    const mr_tensor *x = mr_in(r, 0);
    const mr_pshape *want = NULL;
    MR_TRY(mr_node_get_shape(r->node, "shape", &want));
    bool fits = want->rank < 0 || want->rank == x->rank;
    for (int d = 0; fits && d < want->rank; d++)
        fits = want->dims[d] < 0 || want->dims[d] == x->dims[d];
    return fits ? add_n(r) : mr_invalid("the inputs have shape %s, not %s", MR_TENSOR_SHAPE(x), MR_PSHAPE_TEXT(want));
}

static mr_status *accumulate_shape(mr_infer *c)
{
    const mr_pshape *s = NULL;
    MR_TRY(mr_node_get_shape(c->node, "shape", &s));
    for (int i = 0; i < c->n_in; i++)
        MR_TRY(mr_infer_merge(c, s, c->in[i], &s));
    c->out[0] = s;
    return NULL;
}

MR_OP(AccumulateNV2, .doc = "sum of all inputs, which have the shape said", .sig = "inputs: N * T -> sum: T",
      .attrs = "N: int >= 1; T: numbertype; shape: shape", .flags = MR_COMMUTATIVE | MR_AGGREGATE,
      .shape = accumulate_shape, .grad = add_n_backward,
      .kernels = MR_KERNELS(MR_CPU_EACH_BY(add, MR_NUMBERS, run_accumulate)
                                MR_CPU_EACH_BY(add, MR_CODES, run_accumulate)),
      .examples = MR_EXAMPLES("shape=[2]: ([1, 2], [3, 4], [5, 6]) -> [9, 12]", "shape=[1,2]: ([[1, 2]]) -> [[1, 2]]",
                              "shape=[1]: ([1+1i], [2i]) -> [1+3i]",
                              "T=float shape=[2]: ([1, 2], [1, 2, 3]) -> !INVALID_ARGUMENT",
                              "T=float shape=[3]: ([1, 2]) -> !INVALID_ARGUMENT must be equal"));
