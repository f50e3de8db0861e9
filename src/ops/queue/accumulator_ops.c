/* ops/queue/accumulator_ops.c -- the ops on accumulators of gradients, dense and sparse.
 *
 * TensorFlow has handles of two strings for both kinds, and resources only for dense ones; each kernel
 * serves both forms. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/maths.h"
#include "ops/queue/accumulator.h"
#include "ops/queue/named.h"
#include "ops/queue/tuple.h"

/* ---- creation ---- */

typedef struct state {
    mr_named named;
    mr_arena arena;
    mr_accumulator_spec spec;
} state;

static mr_status *init_accumulator(mr_make *m, state *s, bool sparse)
{
    const mr_pshape *shape;
    mr_sv reduction;
    mr_arena_init(&s->arena, 0);
    MR_TRY(mr_named_init(&s->named, m, &mr_accumulator_type));
    MR_TRY(mr_node_get_type(m->node, "dtype", &s->spec.dtype));
    MR_TRY(mr_node_get_shape(m->node, "shape", &shape));
    MR_TRY(mr_node_get_str(m->node, "reduction_type", &reduction));
    s->spec.name = s->named.name;
    s->spec.shape = shape->rank < 0 ? &mr_pshape_unknown
                                    : mr_pshape_of(&s->arena, shape->rank, shape->dims);
    s->spec.sparse = sparse;
    s->spec.mean = mr_sv_eq(reduction, MR_SV("MEAN"));
    return NULL;
}

static mr_status *init_dense(mr_make *m, void *s) { return init_accumulator(m, s, false); }
static mr_status *init_sparse(mr_make *m, void *s) { return init_accumulator(m, s, true); }

static void deinit_accumulator(void *p)
{
    state *s = p;
    mr_named_deinit(&s->named);
    mr_arena_deinit(&s->arena);
}

static mr_status *make_accumulator(void *ctx, mr_object **out)
{
    *out = (mr_object *)mr_accumulator_new(ctx);
    return NULL;
}

/* An accumulator that already exists is not compared with the attrs, as in TensorFlow: a mismatch is
 * reported when it is used. */
static mr_status *open_accumulator(mr_run *r)
{
    state *s = r->state;
    mr_object *a;
    MR_TRY(mr_named_open(&s->named, make_accumulator, &s->spec, &a));
    mr_object_unref(a);
    mr_named_give(&s->named, r);
    return NULL;
}

static mr_status *two_strings(mr_infer *c)
{
    mr_infer_out_vector(c, 0, 2);
    return NULL;
}

#define NUMBERS                                                                            \
    "{float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, " \
    "bfloat16, uint16, complex128, half, uint32, uint64}"
#define ACCUMULATOR(handle, init_, shape_)                                                  \
    .sig = "-> handle: " handle,                                                            \
    .attrs = "dtype: " NUMBERS "; shape: shape; container: string = ''; "                    \
             "shared_name: string = ''; reduction_type: {'MEAN', 'SUM'} = 'MEAN'",          \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = shape_,                                 \
    .kernels = MR_KERNELS(MR_CPU_ONE(open_accumulator, MR_NUMBERS)                               \
                              MR_CPU_ONE(open_accumulator, MR_CODES)),                           \
    .state_bytes = sizeof(state), .init = init_, .deinit = deinit_accumulator

MR_OP(ConditionalAccumulator,
    .doc      = "adds up gradients until there are enough of them",
    ACCUMULATOR("Ref(string)", init_dense, two_strings),
    .examples = MR_EXAMPLES(
        "shape=[2] shared_name=\"a\": -> [\"localhost\", \"a\"]",
        "shape=[2] shared_name=\"a\" reduction_type=\"SUM\": -> [\"localhost\", \"a\"]"));
MR_OP(ResourceConditionalAccumulator,
    .doc      = "ConditionalAccumulator with a resource as its handle",
    ACCUMULATOR("resource", init_dense, mr_shape_scalar),
    .examples = MR_EXAMPLES("shape=[2] shared_name=\"a\": -> shape()"));
MR_OP(SparseConditionalAccumulator,
    .doc      = "adds up sparse gradients, row by row, until there are enough of them",
    ACCUMULATOR("Ref(string)", init_sparse, two_strings),
    .examples = MR_EXAMPLES("shape=[9,2] shared_name=\"a\": -> [\"localhost\", \"a\"]"));

/* ---- shared by the other kernels ---- */

/* Finds the accumulator of input 0 and checks its kind and its type.  The gradient's type is that of the
 * node's input `in`, or of its output `out` if `in` is negative.  The caller owns *a. */
static mr_status *find_accumulator(mr_run *r, bool sparse, int in, int out, mr_accumulator **a)
{
    const mr_node *n = r->node;
    MR_TRY(mr_named_find(r, &mr_accumulator_type, (mr_object **)a));
    int want = mr_accumulator_dtype(*a), ins[5], outs[3];
    int have = in >= 0 ? n->in_types[in] : n->out_types[out];
    if (mr_accumulator_is_sparse(*a) == sparse && have == want)
        return NULL;
    mr_status *st;
    if (mr_accumulator_is_sparse(*a) != sparse) {
        st = mr_invalid("%s needs a %s accumulator, but this one is %s", n->def->name,
                        sparse ? "sparse" : "dense", sparse ? "dense" : "sparse");
    } else {
        MR_ASSERT(n->n_in <= 5 && n->n_out <= 3);
        for (int i = 0; i < n->n_in; i++)
            ins[i] = n->in_types[i];
        for (int i = 0; i < n->n_out; i++)
            outs[i] = n->out_types[i];
        *(in >= 0 ? &ins[in] : &outs[out]) = want;
        st = mr_signature_mismatch(r, n->n_in, ins, n->n_out, outs);
    }
    mr_object_unref((mr_object *)*a);
    return st;
}

static mr_status *read_scalar(const mr_run *r, const char *name, int64_t *out)
{
    const mr_tensor *t = mr_in(r, 1);
    if (t->rank != 0)
        return mr_invalid("Argument %s must be scalar, but had bad shape %s", name,
                          MR_TENSOR_SHAPE(t));
    *out = mr_tensor_int_at(t, 0);
    return NULL;
}

/* Input 1 is a scalar; the shapes of the outputs are unknown. */
static mr_status *scalar_input(mr_infer *c)
{
    const mr_pshape *s;
    return mr_infer_rank(c, c->in[1], 0, &s);
}

#define BY_REF .flags = MR_NO_FOLD | MR_NO_GRADIENT
#define BY_RESOURCE .flags = MR_STATEFUL | MR_NO_GRADIENT
#define ON_TYPES "dtype: " NUMBERS

#define DENSE(attrs) "a = ConditionalAccumulator dtype=$T shared_name=\"a\" " attrs "; "
#define RESOURCE "a = ResourceConditionalAccumulator dtype=$T shared_name=\"a\" shape=[2]; "
#define SPARSE(attrs) "a = SparseConditionalAccumulator dtype=$T shared_name=\"a\" " attrs "; "
#define NONE "[\"localhost\", \"none\"]"

/* ---- adding ---- */

static mr_status *apply_gradient(mr_run *r)
{
    mr_accumulator *a;
    int64_t step;
    MR_TRY(read_scalar(r, "local_step", &step));
    MR_TRY(find_accumulator(r, false, 2, -1, &a));
    mr_status *st = mr_accumulator_apply(a, r, step, &(mr_accumulator_gradient){mr_in(r, 2), NULL, NULL});
    mr_object_unref((mr_object *)a);
    return st;
}

#define APPLY(handle)                                                     \
    .sig = "handle: " handle ", local_step: int64, gradient: dtype ->",   \
    .attrs = ON_TYPES, .shape = scalar_input,                             \
    .kernels = MR_KERNELS(MR_CPU_ONE(apply_gradient, MR_NUMBERS) MR_CPU_ONE(apply_gradient, MR_CODES))

MR_OP(AccumulatorApplyGradient,
    .doc      = "adds a gradient to an accumulator, unless it was computed at an earlier step",
    APPLY("Ref(string)"), BY_REF,
    .examples = MR_EXAMPLES(
        DENSE("shape=[2]") ": a, 0, [1, 2] ->",
        DENSE("shape=[2]") ": a, 0, [1, 2, 3] -> !INVALID_ARGUMENT "
                           "Shape mismatch: expected [2], got [3]",
        DENSE("shape=[?]") "AccumulatorApplyGradient dtype=$T: a, 0, [1, 2]; : a, 0, [1] -> "
                           "!INVALID_ARGUMENT Shape mismatch: expected [2], got [1]",
        DENSE("shape=[2]") "AccumulatorSetGlobalStep: a, 3; : a, 2, [1, 2, 3] ->",
        "a = ConditionalAccumulator dtype=half shape=[] shared_name=\"a\"; "
        "dtype=float: a, 0, 1 -> !INVALID_ARGUMENT Signature mismatch, have: "
        "string_ref, int64, float-> expected: string_ref, int64, half->",
        SPARSE("shape=[2]") ": a, 0, [1, 2] -> !INVALID_ARGUMENT but this one is sparse",
        NONE ", 0, [1] -> !NOT_FOUND does not exist"));
MR_OP(ResourceAccumulatorApplyGradient,
    .doc      = "AccumulatorApplyGradient with a resource as its handle",
    APPLY("resource"), BY_RESOURCE,
    .examples = MR_EXAMPLES(RESOURCE ": a, 0, [1, 2] ->"));

static mr_status *known_shape_init(mr_make *m, void *has_known_shape)
{
    return mr_node_get_bool(m->node, "has_known_shape", has_known_shape);
}

static mr_status *apply_sparse(mr_run *r)
{
    mr_accumulator *a;
    int64_t step;
    MR_TRY(read_scalar(r, "local_step", &step));
    MR_TRY(find_accumulator(r, true, 3, -1, &a));
    mr_accumulator_gradient g = {mr_in(r, 3), mr_in(r, 2), *(const bool *)r->state ? mr_in(r, 4) : NULL};
    mr_status *st = mr_accumulator_apply(a, r, step, &g);
    mr_object_unref((mr_object *)a);
    return st;
}

#define APPLY_SPARSE "SparseAccumulatorApplyGradient dtype=$T has_known_shape=true: "

MR_OP(SparseAccumulatorApplyGradient,
    .doc      = "adds rows to a sparse accumulator, unless they were computed at an earlier step",
    .sig      = "handle: Ref(string), local_step: int64, gradient_indices: int64, "
                "gradient_values: dtype, gradient_shape: int64 ->",
    .attrs    = "dtype: " NUMBERS "; has_known_shape: bool",
    .shape    = scalar_input,
    .state_bytes = sizeof(bool), .init = known_shape_init,
    .kernels  = MR_KERNELS(MR_CPU_ONE(apply_sparse, MR_NUMBERS)
                           MR_CPU_ONE(apply_sparse, MR_CODES)),
    BY_REF,
    .examples = MR_EXAMPLES(
        SPARSE("shape=[3,1]") "has_known_shape=true: a, 0, [0, 2], [[1], [2]], [3, 1] ->",
        SPARSE("shape=[3,1]") "has_known_shape=false: a, 0, [0, 2], [[1], [2]], [7] ->",
        SPARSE("shape=[3,1]") "has_known_shape=true: a, 0, [0], [[1]], [3] -> !INVALID_ARGUMENT "
            "Shape mismatch: expected shape rank at least 2, got 1",
        SPARSE("shape=[3,1]") "has_known_shape=true: a, 0, [0], [[1]], [3, 2] -> "
            "!INVALID_ARGUMENT Shape mismatch: expected shape dim 1 to be 1, got 2",
        SPARSE("shape=[3,1]") "has_known_shape=false: a, 0, [0, 3], [[1], [2]], [3, 1] -> "
            "!INVALID_ARGUMENT Shape mismatch: index of slice 1 exceeded limits of shape; index is "
            "3 exceeded 3",
        SPARSE("shape=[3,1]") "has_known_shape=false: a, 0, [0], [1], [3, 1] -> !INVALID_ARGUMENT "
            "Shape mismatch: expected values rank at least 2, got 1",
        SPARSE("shape=[3,1]") "has_known_shape=false: a, 0, [0], [[1, 2]], [3, 1] -> "
            "!INVALID_ARGUMENT Shape mismatch: expected values dim 1 to be 1, got 2",
        SPARSE("shape=?") APPLY_SPARSE "a, 0, [0], [[1, 2]], [3, 2]; "
            "has_known_shape=false: a, 0, [0], [1], [3, 1] -> !INVALID_ARGUMENT "
            "Shape mismatch: expected values rank 2, got 1",
        SPARSE("shape=?") APPLY_SPARSE "a, 0, [0], [[1, 2]], [3, 2]; "
            "has_known_shape=false: a, 0, [0], [[1]], [3, 1] -> !INVALID_ARGUMENT "
            "Shape mismatch: expected values dim 1 to be 2, got 1",
        SPARSE("shape=?") "has_known_shape=false: a, 0, [[0]], [1], [3] -> !INVALID_ARGUMENT "
            "Input indices should be vector but received shape: [1,1]",
        SPARSE("shape=?") "has_known_shape=false: a, 0, [0], 1, [3] -> !INVALID_ARGUMENT "
            "Values cannot be 0-dimensional.",
        SPARSE("shape=?") "has_known_shape=false: a, 0, [0, 1], [1], [3] -> !INVALID_ARGUMENT "
            "Expected 2 non-empty input values, got 1",
        SPARSE("shape=?") "AccumulatorSetGlobalStep: a, 3; has_known_shape=false: "
            "a, 2, [0, 1], 1, [3] ->",
        DENSE("shape=[2]") "has_known_shape=false: a, 0, [0], [1], [3] -> !INVALID_ARGUMENT "
            "but this one is dense"));

/* ---- taking ---- */

static void take_some(mr_run *r, bool sparse)
{
    mr_accumulator *a;
    int64_t required;
    mr_status *st = read_scalar(r, "num_required", &required);
    if (!st)
        st = find_accumulator(r, sparse, -1, sparse ? 1 : 0, &a);
    if (st)
        mr_run_done(r, st);
    else
        mr_accumulator_take(a, r, required);
}

static void take_dense(mr_run *r) { take_some(r, false); }
static void take_sparse(mr_run *r) { take_some(r, true); }

#define TAKE_ROW(E, name, number, S, C, fn) {"CPU", MR_##E, NULL, fn},
#define TAKE(handle, outputs, kernel)                                  \
    .sig = "handle: " handle ", num_required: int32 -> " outputs,      \
    .attrs = ON_TYPES, .shape = scalar_input,                          \
    .kernels = MR_KERNELS(MR_NUMBERS(TAKE_ROW, kernel) MR_CODES(TAKE_ROW, kernel))

#define ADD(what) "AccumulatorApplyGradient dtype=$T: a, 0, " what "; "
#define TWICE(what) "AccumulatorTakeGradient dtype=$T: a, 1; " what

MR_OP(AccumulatorTakeGradient,
    .doc      = "waits for as many gradients as required and returns their mean or sum",
    TAKE("Ref(string)", "average: dtype", take_dense), BY_REF,
    .examples = MR_EXAMPLES(
        DENSE("shape=[2]") ADD("[1, 2]") ": a, 1 -> [1, 2]",
        DENSE("shape=[2]") ADD("[1, 2]") ADD("[3, 6]") ": a, 1 -> [2, 4]",
        DENSE("shape=[2] reduction_type=\"SUM\"") ADD("[1, 2]") ADD("[3, 6]") ": a, 2 -> [4, 8]",
        DENSE("shape=[]") ADD("0.5") ADD("1") ": a, 2 -> 0.75",
        DENSE("shape=[]") "AccumulatorApplyGradient dtype=$T: a, -1, 7; " ADD("1") ": a, 1 -> 1",
        DENSE("shape=[]") ADD("1") TWICE(ADD("7"))
            "AccumulatorApplyGradient dtype=$T: a, 1, 2; : a, 1 -> 2",
        DENSE("shape=[0]") ADD("shape(0)") ADD("shape(0)") ": a, 2 -> shape(0)",
        DENSE("shape=[]") ": a, 0 -> !INVALID_ARGUMENT "
                          "Argument num_required must be positive, but was 0",
        "a = ConditionalAccumulator dtype=half shape=[] shared_name=\"a\"; "
        "dtype=float: a, 1 -> !INVALID_ARGUMENT Signature mismatch, have: "
        "string_ref, int32->float expected: string_ref, int32->half",
        NONE ", 1 -> !NOT_FOUND does not exist"));
MR_OP(ResourceAccumulatorTakeGradient,
    .doc      = "AccumulatorTakeGradient with a resource as its handle",
    TAKE("resource", "average: dtype", take_dense), BY_RESOURCE,
    .examples = MR_EXAMPLES(
        RESOURCE "ResourceAccumulatorApplyGradient dtype=$T: a, 0, [1, 2]; : a, 1 -> [1, 2]"));
MR_OP(SparseAccumulatorTakeGradient,
    .doc      = "waits for as many sparse gradients as required and returns the mean or sum of each row",
    TAKE("Ref(string)", "indices: int64, values: dtype, shape: int64", take_sparse), BY_REF,
    .examples = MR_EXAMPLES(
        SPARSE("shape=[5,1]") APPLY_SPARSE "a, 0, [1, 4], [[1], [2]], [5, 1]; "
            ": a, 1 -> [1, 4], [[1], [2]], [5, 1]",
        SPARSE("shape=?") APPLY_SPARSE "a, 0, [1, 4], [[1], [2]], [5, 1]; "
            APPLY_SPARSE "a, 0, [0, 4], [[3], [4]], [5, 1]; "
            APPLY_SPARSE "a, 0, [4], [[6]], [5, 1]; "
            ": a, 3 -> [0, 1, 4], [[3], [1], [4]], [-1, 1]",
        SPARSE("shape=[5,1] reduction_type=\"SUM\"") APPLY_SPARSE "a, 0, [1, 4], [[1], [2]], "
            "[5, 1]; " APPLY_SPARSE "a, 0, [0, 4], [[3], [4]], [5, 1]; "
            ": a, 1 -> [0, 1, 4], [[3], [1], [6]], [5, 1]",
        SPARSE("shape=[5,?]") APPLY_SPARSE "a, 0, shape(0), shape(0,2), [5, 2]; "
            APPLY_SPARSE "a, 0, shape(0), shape(0,2), [5, 2]; "
            ": a, 2 -> shape(0), shape(0,2), [5, 2]",
        DENSE("shape=[]") ": a, 1 -> !INVALID_ARGUMENT but this one is dense"));

/* ---- step and count ---- */

/* Finds an accumulator of either kind. */
static mr_status *find_any(mr_run *r, mr_accumulator **a)
{
    return mr_named_find(r, &mr_accumulator_type, (mr_object **)a);
}

static mr_status *set_step(mr_run *r)
{
    mr_accumulator *a;
    int64_t step;
    MR_TRY(read_scalar(r, "new_global_step", &step));
    MR_TRY(find_any(r, &a));
    mr_accumulator_set_step(a, step);
    mr_object_unref((mr_object *)a);
    return NULL;
}

static mr_status *count_gradients(mr_run *r)
{
    mr_accumulator *a;
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    MR_TRY(find_any(r, &a));
    *MR_DATA(int32_t, out) = (int32_t)MR_MIN(mr_accumulator_count(a), INT32_MAX);
    mr_object_unref((mr_object *)a);
    return NULL;
}

#define SET_STEP(handle)                                    \
    .sig = "handle: " handle ", new_global_step: int64 ->", \
    .shape = scalar_input, .kernels = MR_KERNELS(MR_CPU_ANY(set_step))
#define COUNT(handle)                                       \
    .sig = "handle: " handle " -> num_accumulated: int32",  \
    .shape = mr_shape_scalar, .kernels = MR_KERNELS(MR_CPU_ANY(count_gradients))
#define FLOATS "a = ConditionalAccumulator dtype=float shape=[] shared_name=\"a\"; "
#define FLOAT_RESOURCE \
    "a = ResourceConditionalAccumulator dtype=float shape=[] shared_name=\"a\"; "

MR_OP(AccumulatorSetGlobalStep,
    .doc      = "gradients computed before this step are dropped from now on",
    SET_STEP("Ref(string)"), BY_REF,
    .examples = MR_EXAMPLES(FLOATS ": a, 3 ->",
                            FLOATS "AccumulatorSetGlobalStep: a, 5; : a, 3 ->",
                            NONE ", 3 -> !NOT_FOUND does not exist"));
MR_OP(ResourceAccumulatorSetGlobalStep,
    .doc      = "AccumulatorSetGlobalStep with a resource as its handle",
    SET_STEP("resource"), BY_RESOURCE,
    .examples = MR_EXAMPLES(FLOAT_RESOURCE ": a, 3 ->"));
MR_OP(AccumulatorNumAccumulated,
    .doc      = "how many gradients have been added since the last were taken",
    COUNT("Ref(string)"), BY_REF,
    .examples = MR_EXAMPLES(
        FLOATS ": a -> 0",
        FLOATS "AccumulatorApplyGradient dtype=float: a, 0, float 1; : a -> 1",
        FLOATS "AccumulatorApplyGradient dtype=float: a, -1, float 1; : a -> 0",
        FLOATS "AccumulatorApplyGradient dtype=float: a, 0, float 1; "
               "AccumulatorTakeGradient dtype=float: a, 1; : a -> 0"));
MR_OP(ResourceAccumulatorNumAccumulated,
    .doc      = "AccumulatorNumAccumulated with a resource as its handle",
    COUNT("resource"), BY_RESOURCE,
    .examples = MR_EXAMPLES(FLOAT_RESOURCE ": a -> 0"));
