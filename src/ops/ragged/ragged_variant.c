/* ops/ragged/ragged_variant.c -- converts ragged tensors to variants and back: RaggedTensorToVariant,
 * RaggedTensorFromVariant, RaggedTensorToVariantGradient.
 *
 * The object holds nested row splits and values, as TensorFlow's RaggedTensorVariant does. */
#include "base/memory.h"
#include "ops/array/layout.h"
#include "ops/ragged/ragged.h"
#include "ops/sparse/sparse.h"
#include "ops/state/update.h"
#include "run/scratch.h"
#include "tensor/variant.h"

typedef struct ragged {
    mr_object base;
    int depth;
    mr_tensor **splits; /* owned */
    mr_tensor *values;
} ragged;

static void ragged_free(mr_object *o)
{
    ragged *g = (ragged *)o;
    for (int i = 0; i < g->depth; i++)
        mr_tensor_unref(g->splits[i]);
    mr_free(g->splits);
    mr_tensor_unref(g->values);
    mr_free(g);
}

static mr_status *zeros_like(const mr_object *o, mr_allocator *a, mr_object **out);
static mr_status *add_ragged(const mr_object *x, const mr_object *y, mr_allocator *a, mr_object **out);
static mr_status *encode_ragged(const mr_object *o, struct mr_variant_data *out);

static const mr_object_type ragged_type = {.name = "RaggedTensorVariant",
                                           .free = ragged_free,
                                           .zeros_like = zeros_like,
                                           .add = add_ragged,
                                           .encode = encode_ragged};

/* Takes over the references to splits and values, also on error. */
static mr_status *ragged_new(int depth, mr_tensor *const *splits, mr_tensor *values, ragged **out)
{
    ragged *g = mr_new(ragged);
    mr_object_init(&g->base, &ragged_type);
    g->values = values;
    g->splits = mr_new_array(mr_tensor *, depth + 1); /* as many as a node has inputs */
    g->depth = depth;
    for (int i = 0; i < depth; i++)
        g->splits[i] = splits[i];
    *out = g;
    return NULL;
}

mr_object *mr_ragged_object(int depth, mr_tensor *const *splits, mr_tensor *values)
{
    ragged *g = NULL;
    mr_status_free(ragged_new(depth, splits, values, &g));
    return &g->base;
}

static mr_status *with_values(const ragged *g, mr_tensor *values, mr_object **out)
{
    ragged *made;
    MR_TRY(ragged_new(g->depth, g->splits, values, &made));
    for (int i = 0; i < g->depth; i++)
        mr_tensor_ref(made->splits[i]);
    *out = &made->base;
    return NULL;
}

static mr_status *zeros_like(const mr_object *o, mr_allocator *a, mr_object **out)
{
    const ragged *g = (const ragged *)o;
    mr_tensor *zeros;
    MR_TRY(
        mr_tensor_zeros(a, (mr_dtype)g->values->dtype, g->values->rank, g->values->dims, &zeros));
    return with_values(g, zeros, out);
}

static mr_status *add_ragged(const mr_object *x, const mr_object *y, mr_allocator *a, mr_object **out)
{
    const ragged *p = (const ragged *)x, *q = (const ragged *)y;
    mr_tensor *sum;
    bool fits = p->depth == q->depth && p->values->dtype == q->values->dtype &&
                mr_tensor_same_shape(p->values, q->values);
    for (int i = 0; fits && i < p->depth; i++)
        fits = mr_tensor_equal(p->splits[i], q->splits[i]);
    if (!fits)
        return mr_invalid("Can't add RaggedTensorVariants of different shapes or types.");
    mr_update_loop *loop = mr_update_find(MR_UPDATE_ADD, (mr_dtype)p->values->dtype);
    if (!loop)
        return mr_error(MR_UNIMPLEMENTED, "RaggedTensorVariants of %s cannot be added",
                        mr_dtype_name(p->values->dtype));
    MR_TRY(mr_tensor_copy(a, p->values, &sum));
    loop(sum->data, q->values->data, sum->n);
    return with_values(p, sum, out);
}

static mr_status *encode_ragged(const mr_object *o, struct mr_variant_data *out)
{
    const ragged *g = (const ragged *)o;
    for (int i = 0; i < g->depth; i++)
        mr_vec_push(&out->tensors, mr_tensor_ref(g->splits[i]));
    mr_vec_push(&out->tensors, mr_tensor_ref(g->values));
    return NULL;
}

/* ---- RaggedTensorToVariant ---- */

static mr_status *put_ragged(mr_tensor *out, int64_t i, int depth, mr_tensor *const *splits,
                             mr_tensor *values)
{
    ragged *g;
    MR_TRY(ragged_new(depth, splits, values, &g));
    MR_DATA(mr_object *, out)[i] = &g->base;
    return NULL;
}

static mr_status *give_whole(mr_run *r, int depth, mr_tensor *const *splits, mr_tensor *values)
{
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, 0, NULL, &out));
    for (int i = 0; i < depth; i++)
        mr_tensor_ref(splits[i]);
    return put_ragged(out, 0, depth, splits, mr_tensor_ref(values));
}

/* The entries begin..end of splits, with the first one subtracted from all. */
static mr_status *splits_part(mr_run *r, const mr_tensor *t, int64_t begin, int64_t end,
                              mr_tensor **out)
{
    int64_t n = end - begin + 1, first = mr_tensor_int_at(t, begin);
    MR_TRY(mr_run_temp(r, (mr_dtype)t->dtype, 1, &n, out));
    for (int64_t i = 0; i < n; i++) {
        int64_t v = mr_tensor_int_at(t, begin + i) - first;
        if (t->dtype == MR_INT64)
            MR_DATA(int64_t, *out)[i] = v;
        else
            MR_DATA(int32_t, *out)[i] = (int32_t)v;
    }
    return NULL;
}

static mr_status *values_part(mr_run *r, const mr_tensor *t, int64_t begin, int64_t end,
                              mr_tensor **out)
{
    mr_shape s;
    int64_t width = mr_dims_product(t->dims, 1, t->rank);
    mr_shape_set(&s, t->rank, t->dims);
    s.dims[0] = end - begin;
    MR_TRY(mr_run_temp(r, (mr_dtype)t->dtype, s.rank, s.dims, out));
    return mr_tensor_try_copy_elements(*out, 0, t, begin * width, (end - begin) * width);
}

/* Stores row i of a ragged tensor, which is a ragged tensor with one level less, as element i. */
static mr_status *put_row(mr_run *r, int depth, mr_tensor *const *splits, const mr_tensor *values,
                          mr_tensor *out, int64_t i)
{
    mr_tensor *parts[MR_MAX_RANK] = {0}, *v = NULL;
    int64_t begin = mr_tensor_int_at(splits[0], i), end = mr_tensor_int_at(splits[0], i + 1);
    mr_status *st = NULL;
    for (int k = 1; k < depth && !st; k++) {
        st = splits_part(r, splits[k], begin, end, &parts[k - 1]);
        begin = mr_tensor_int_at(splits[k], begin);
        end = mr_tensor_int_at(splits[k], end);
    }
    if (!st)
        st = values_part(r, values, begin, end, &v);
    if (!st)
        return put_ragged(out, i, depth - 1, parts, v);
    for (int k = 0; k < depth; k++)
        mr_tensor_unref(parts[k]);
    mr_tensor_unref(v);
    return st;
}

static mr_status *to_variant(mr_run *r)
{
    int depth = r->n_in - 1;
    mr_tensor *splits[MR_MAX_RANK], *values = mr_in(r, depth), *out;
    bool batched = *(const bool *)r->state;
    if (depth > MR_MAX_RANK)
        return mr_invalid("ragged rank %d is too large, the maximum is %d", depth, MR_MAX_RANK);
    for (int i = 0; i < depth; i++)
        splits[i] = mr_in(r, i);
    MR_TRY(mr_ragged_check(splits, depth, values));
    if (!batched)
        return give_whole(r, depth, splits, values);
    int64_t n = depth > 0 ? splits[0]->n - 1 : values->rank > 0 ? values->dims[0] : -1;
    if (n < 0)
        return mr_invalid("batched_input is True, but a scalar has no rows");
    MR_TRY(mr_run_output(r, 0, 1, &n, &out));
    for (int64_t i = 0; i < n; i++) {
        mr_tensor *row, *view;
        if (depth > 0) {
            MR_TRY(put_row(r, depth, splits, values, out, i));
            continue;
        }
        MR_TRY(values_part(r, values, i, i + 1,
                           &row)); /* rows of a dense tensor lose their first dimension */
        mr_status *st =
            mr_tensor_view(row, (mr_dtype)row->dtype, row->rank - 1, row->dims + 1, &view);
        mr_tensor_unref(row);
        MR_TRY(st);
        MR_TRY(put_ragged(out, i, 0, NULL, view));
    }
    return NULL;
}

static mr_status *batched_init(mr_make *m, void *state)
{
    return mr_node_get_bool(m->node, "batched_input", state);
}

static mr_status *to_variant_shape(mr_infer *c)
{
    bool batched;
    int64_t n = -1;
    const mr_pshape *v;
    MR_TRY(mr_node_get_bool(c->node, "batched_input", &batched));
    for (int i = 0; i < c->n_in - 1; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 1, &v));
    if (!batched) {
        mr_infer_out_scalar(c, 0);
        return NULL;
    }
    const mr_pshape *first = c->in[0];
    if (first->rank > 0)
        n = c->n_in > 1 && first->dims[0] > 0 ? first->dims[0] - 1
            : c->n_in > 1                     ? -1
                                              : first->dims[0];
    mr_infer_out_vector(c, 0, n);
    return NULL;
}

static void to_variant_backward(mr_grad *g)
{
    int depth = g->node->n_in - 1;
    mr_out values = mr_xi(g, depth);
    mr_out splits = depth > 0
                        ? mr_xi(g, 0)
                        : mr_emit(g->s, "ExpandDims", mr_const_i64(g->s, 0), mr_const_i32(g->s, 0));
    mr_dxi(g, depth,
           mr_emit_with(g->s, "RaggedTensorToVariantGradient",
                        MR_ATTRS({"Tvalues", mr_a_type(mr_dtype_base(mr_out_type(values)))}),
                        mr_dyi(g, 0), splits, mr_shape_of(g, values)));
}

MR_OP(RaggedTensorToVariant,
    .doc      = "a ragged tensor as a variant, or its rows as a vector of them",
    .sig      = "rt_nested_splits: RAGGED_RANK * Tsplits, rt_dense_values: Tvalues -> encoded_ragged: variant",
    .attrs    = "RAGGED_RANK: int >= 0; Tvalues: type; Tsplits: {int32, int64} = DT_INT64; batched_input: bool",
    .key      = "Tvalues",
    .shape    = to_variant_shape,
    .grad     = to_variant_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(to_variant)),
    .state_bytes = sizeof(bool), .init = batched_init,
    .examples = MR_EXAMPLES(
        "nograd batched_input=false: ([0, 2, 2, 3]), [1, 2, 3] -> shape()", "nograd batched_input=true: ([0, 2, 2, 3]), [1, 2, 3] -> shape(3)",
        "nograd batched_input=true Tsplits=int32: ([0, 1, 2], [0, 2, 3]), [1, 2, 3] -> shape(2)",
        "nograd batched_input=false: ([0, 1]), [\"a\"] -> shape()", "nograd RAGGED_RANK=0 batched_input=true: (), [1, 2] -> shape(2)",
        "batched_input=true: ([0, 2]), [1, 2, 3] -> !INVALID_ARGUMENT Final value of ragged splits must match"));

/* ---- RaggedTensorFromVariant ---- */

/* Reads element i and checks its depth and types. */
static mr_status *read_one(const mr_tensor *t, int64_t i, int depth, mr_dtype splits,
                           mr_dtype values, const ragged **out)
{
    const mr_object *o = MR_DATA(mr_object *, t)[i];
    if (!o || o->type != &ragged_type)
        return mr_invalid("Input Variant element at index %lld doesn't hold a RaggedTensorVariant",
                          (long long)i);
    const ragged *g = *out = (const ragged *)o;
    if (g->depth != depth)
        return mr_invalid(
            "Encoded input RaggedTensorVariant has ragged_rank=%d.  Expected ragged_rank=%d.",
            g->depth, depth);
    if (g->values->dtype != values)
        return mr_invalid("Expected values Tensor dtype: %s, found: %s", mr_dtype_name(values),
                          mr_dtype_name(g->values->dtype));
    for (int k = 0; k < depth; k++)
        if (g->splits[k]->dtype != splits)
            return mr_invalid("Expected row_splits Tensor dtype: %s, found: %s",
                              mr_dtype_name(splits), mr_dtype_name(g->splits[k]->dtype));
    return NULL;
}

typedef struct joining {
    int64_t n;
    const ragged **in;
    int depth;
} joining;

/* The number of rows of g at a level: those of its splits there, or of its values. */
static int64_t rows_of(const ragged *g, int level)
{
    if (level < g->depth)
        return g->splits[level]->n - 1;
    return g->values->rank > 0 ? g->values->dims[0] : 1;
}

/* Sets output o to the splits whose rows are the elements themselves. */
static mr_status *give_outer(mr_run *r, const joining *j, int o)
{
    int64_t *v;
    MR_TRY(mr_new_i64(r, j->n + 1, &v));
    v[0] = 0;
    for (int64_t i = 0; i < j->n; i++)
        v[i + 1] = v[i] + rows_of(j->in[i], 0);
    mr_status *st = mr_give_splits(r, o, j->n + 1, v);
    mr_scratch_free(v);
    return st;
}

static mr_status *give_level(mr_run *r, const joining *j, int level, int o)
{
    int64_t total = 0, at = 0, *v;
    for (int64_t i = 0; i < j->n; i++)
        total += rows_of(j->in[i], level);
    MR_TRY(mr_new_i64(r, total + 1, &v));
    v[0] = 0;
    for (int64_t i = 0; i < j->n; i++) {
        const mr_tensor *s = j->in[i]->splits[level];
        for (int64_t k = 1; k < s->n; k++, at++)
            v[at + 1] = v[at] + mr_tensor_int_at(s, k) - mr_tensor_int_at(s, k - 1);
    }
    mr_status *st = mr_give_splits(r, o, total + 1, v);
    mr_scratch_free(v);
    return st;
}

/* Concatenates the values; values that are single rows of a dense tensor are stacked. */
static mr_status *give_values(mr_run *r, const joining *j, bool stacked, int o)
{
    mr_shape s = {0};
    mr_tensor *out;
    int64_t total = 0, at = 0;
    for (int64_t i = 0; i < j->n; i++) {
        const mr_tensor *v = j->in[i]->values, *first = j->in[0]->values;
        int skip = stacked ? 0 : 1;
        if (v->rank != first->rank || v->rank < skip ||
            !mr_shape_eq(v->rank - skip, v->dims + skip, first->rank - skip, first->dims + skip))
            return mr_invalid("All flat_values must have compatible shapes.  Shape at index 0: %s. "
                              " Shape at index %lld: %s",
                              MR_TENSOR_SHAPE(first), (long long)i, MR_TENSOR_SHAPE(v));
        total += stacked ? 1 : v->dims[0];
    }
    MR_TRY(mr_shape_push(&s, total));
    for (int d = stacked ? 0 : 1; j->n > 0 && d < j->in[0]->values->rank; d++)
        MR_TRY(mr_shape_push(&s, j->in[0]->values->dims[d]));
    MR_TRY(mr_run_output(r, o, s.rank, s.dims, &out));
    for (int64_t i = 0; i < j->n; at += j->in[i++]->values->n)
        MR_TRY(mr_tensor_try_copy_elements(out, at, j->in[i]->values, 0, j->in[i]->values->n));
    return NULL;
}

static mr_status *give_dims(mr_run *r, const mr_tensor *t)
{
    for (int d = 0; d + 1 < t->rank; d++) {
        int64_t n = mr_dims_product(t->dims, 0, d + 1), *v;
        MR_TRY(mr_new_i64(r, n + 1, &v));
        for (int64_t i = 0; i <= n; i++)
            v[i] = i * t->dims[d + 1];
        mr_status *st = mr_give_splits(r, d, n + 1, v);
        mr_scratch_free(v);
        MR_TRY(st);
    }
    return NULL;
}

static mr_status *join_elements(mr_run *r, const mr_tensor *t, const joining *j, int out_depth)
{
    if (t->rank == 0) {
        for (int i = 0; i < j->depth; i++)
            mr_run_set(r, i, mr_tensor_ref(j->in[0]->splits[i]));
        mr_run_set(r, out_depth, mr_tensor_ref(j->in[0]->values));
        return NULL;
    }
    bool stacked =
        out_depth == t->rank - 1 + j->depth; /* each element is one row, not several */
    MR_TRY(give_dims(r, t));
    if (!stacked)
        MR_TRY(give_outer(r, j, t->rank - 1));
    for (int level = 0; level < j->depth; level++)
        MR_TRY(give_level(r, j, level, t->rank - 1 + !stacked + level));
    return give_values(r, j, stacked, out_depth);
}

static mr_status *from_variant(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0);
    int out_depth = r->n_out - 1;
    int64_t depth = *(const int64_t *)r->state;
    if (depth < 0)
        depth = out_depth - t->rank;
    bool stacked = depth == 0 && t->rank > 0 && out_depth == t->rank - 1;
    if (depth < 0 && out_depth - t->rank == -1) {
        depth = 0;
        stacked = true;
    }
    if (depth < 0 || depth > MR_MAX_RANK || (!stacked && out_depth != depth + t->rank))
        return mr_invalid("output_ragged_rank must be equal to input_ragged_rank + "
                          "encoded_ragged.dims(); output_ragged_rank: %d, "
                          "input_ragged_rank: %lld, encoded_ragged.dims(): %d",
                          out_depth, (long long)depth, t->rank);
    joining j = {t->n, mr_scratch_zeroed(r, (size_t)t->n + 1, sizeof *j.in), (int)depth};
    mr_dtype splits = r->n_out > 1 ? mr_out_dtype(r, 0) : MR_INT64;
    mr_status *st =
        j.in ? NULL
             : mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld variants", (long long)t->n);
    for (int64_t i = 0; i < t->n && !st; i++)
        st = read_one(t, i, j.depth, splits, mr_out_dtype(r, out_depth), &j.in[i]);
    if (!st)
        st = join_elements(r, t, &j, out_depth);
    mr_scratch_free(j.in);
    return st;
}

static mr_status *depth_init(mr_make *m, void *state)
{
    return mr_node_get_int(m->node, "input_ragged_rank", state);
}

static mr_status *from_variant_shape(mr_infer *c)
{
    for (int i = 0; i < c->n_out - 1; i++)
        mr_infer_out_vector(c, i, -1);
    return NULL;
}

static void from_variant_backward(mr_grad *g)
{
    int depth = g->node->n_out - 1, rank = mr_out_shape(mr_xi(g, 0))->rank;
    if (rank < 0 || rank > 1) {
        mr_grad_fail(g, MR_INVALID_ARGUMENT,
                     "Unable to compute gradient: RaggedTensorToVariant can currently only "
                     "generate 0D or 1D output.");
        return;
    }
    mr_out *splits = mr_new_array(mr_out, depth + 1), values = mr_dyi(g, depth);
    for (int i = 0; i < depth; i++)
        splits[i] = mr_yi(g, i);
    mr_attr type = mr_a_type(depth > 0 ? mr_dtype_base(mr_out_type(splits[0])) : MR_INT64);
    mr_dxi(g, 0,
           mr_emit_lists(g->s, "RaggedTensorToVariant",
                         MR_ATTRS({"batched_input", mr_a_bool(rank == 1)}, {"Tsplits", type},
                                  {"RAGGED_RANK", mr_a_int(depth)}),
                         (mr_emit_arg[]){{depth, splits}, {-1, &values}}, 2));
    mr_free(splits);
}

MR_OP(RaggedTensorFromVariant,
    .doc      = "a ragged tensor from variants that RaggedTensorToVariant made",
    .sig      = "encoded_ragged: variant -> output_nested_splits: output_ragged_rank * Tsplits, output_dense_values: Tvalues",
    .attrs    = "input_ragged_rank: int >= -1; output_ragged_rank: int >= 0; Tvalues: type; Tsplits: {int32, int64} = DT_INT64",
    .key      = "Tvalues",
    .shape    = from_variant_shape,
    .grad     = from_variant_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(from_variant)),
    .state_bytes = sizeof(int64_t), .init = depth_init,
    .examples = MR_EXAMPLES(
        "v = RaggedTensorToVariant Tvalues=$T batched_input=false: ([0, 2, 2, 3]), [1, 2, 3]; input_ragged_rank=1 "
        "output_ragged_rank=1: v -> [0, 2, 2, 3], [1, 2, 3]",
        "v = RaggedTensorToVariant Tvalues=$T batched_input=true: ([0, 2, 2, 3]), [1, 2, 3]; input_ragged_rank=0 "
        "output_ragged_rank=1: v -> [0, 2, 2, 3], [1, 2, 3]",
        "v = RaggedTensorToVariant Tvalues=$T Tsplits=int32 batched_input=true: ([0, 1, 2], [0, 2, 3]), [1, 2, 3]; "
        "input_ragged_rank=-1 output_ragged_rank=2 Tsplits=int32: v -> [0, 1, 2], [0, 2, 3], [1, 2, 3]",
        "v = RaggedTensorToVariant Tvalues=string batched_input=false: ([0, 1]), string[\"a\"]; input_ragged_rank=1 "
        "output_ragged_rank=1 Tvalues=string: v -> [0, 1], [\"a\"]",
        "v = RaggedTensorToVariant Tvalues=bool batched_input=false: ([0, 1]), bool[true]; input_ragged_rank=1 "
        "output_ragged_rank=1 Tvalues=bool: v -> [0, 1], [true]",
        "v = RaggedTensorToVariant Tvalues=float batched_input=false: ([0, 1]), float[1]; input_ragged_rank=2 "
        "output_ragged_rank=2 Tvalues=float: v -> !INVALID_ARGUMENT has ragged_rank=1.  Expected ragged_rank=2.",
        "v = RaggedTensorToVariant Tvalues=float batched_input=false: ([0, 1]), float[1]; input_ragged_rank=1 "
        "output_ragged_rank=1 Tvalues=int32: v -> !INVALID_ARGUMENT Expected values Tensor dtype: int32, found: float"));

/* ---- the gradient of RaggedTensorToVariant ---- */

/* An empty variant stands for a gradient of zeros, with as many rows as the splits say. */
static mr_status *to_variant_gradient(mr_run *r)
{
    const mr_tensor *t = mr_in(r, 0), *splits = mr_in(r, 1);
    mr_shape s;
    mr_tensor *out;
    int64_t at = 0;
    MR_TRY(mr_in_shape(r, 2, "dense_values_shape", 0, &s));
    MR_TRY(mr_tensor_zeros(mr_run_allocator(r), mr_out_dtype(r, 0), s.rank, s.dims, &out));
    mr_run_set(r, 0, out);
    for (int64_t i = 0; i < t->n; i++) {
        const ragged *g = (const ragged *)MR_DATA(mr_object *, t)[i];
        if (g && (g->base.type != &ragged_type || g->values->dtype != out->dtype))
            return mr_invalid("encoded_ragged_grad[%lld] does not hold a RaggedTensorVariant of %s",
                              (long long)i, mr_dtype_name(out->dtype));
        bool counted = t->rank == 1 && splits->rank == 1 && splits->n == t->n + 1 && s.rank > 0 &&
                       s.dims[0] > 0;
        int64_t n = g         ? g->values->n
                    : counted ? (mr_tensor_int_at(splits, i + 1) - mr_tensor_int_at(splits, i)) *
                                    (out->n / s.dims[0])
                              : 0;
        if (n < 0 || n > out->n - at)
            return mr_invalid("the gradients have more values than dense_values_shape %s",
                              MR_SHAPE_TEXT(s.rank, s.dims));
        if (g)
            MR_TRY(mr_tensor_try_copy_elements(out, at, g->values, 0, n));
        at += n;
    }
    return NULL;
}

static mr_status *variant_gradient_shape(mr_infer *c)
{
    return mr_infer_shape_value(c, 2, &c->out[0]);
}

MR_OP(RaggedTensorToVariantGradient,
    .doc      = "the gradient of RaggedTensorToVariant",
    .sig      = "encoded_ragged_grad: variant, row_splits: Tsplits, dense_values_shape: int32 -> dense_values_grad: Tvalues",
    .attrs    = "Tvalues: type; Tsplits: {int32, int64} = DT_INT64",
    .key      = "Tvalues",
    .shape    = variant_gradient_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(to_variant_gradient)),
    .examples = MR_EXAMPLES(
        "v = RaggedTensorToVariant Tvalues=$T batched_input=true: ([0, 2, 2, 3]), [1, 2, 3]; : v, [0, 2, 2, 3], [3] -> [1, 2, 3]",
        "v = RaggedTensorToVariant Tvalues=$T batched_input=false: ([0, 2]), [1, 2]; Tsplits=int32: v, [0, 2], [2] -> [1, 2]",
        "v = RaggedTensorToVariant Tvalues=string batched_input=false: ([0, 1]), string[\"a\"]; Tvalues=string: v, [0, 1], [1] -> [\"a\"]",
        "v = RaggedTensorToVariant Tvalues=bool batched_input=false: ([0, 1]), bool[true]; Tvalues=bool: v, [0, 1], [1] -> [true]",
        "v = RaggedTensorToVariant Tvalues=float batched_input=false: ([0, 2]), float[1, 2]; Tvalues=float: v, [0, 2], [1] -> "
        "!INVALID_ARGUMENT the gradients have more values"));
