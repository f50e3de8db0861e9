/* ops/parse/parse_sequence.c -- ParseSequenceExample, ParseSequenceExampleV2, ParseSingleSequenceExample.
 *
 * The three differ in where their keys come from (attrs, vectors, scalars) and in their outputs; all use
 * the same parser (store/example.h). */
#include "base/memory.h"
#include "ops/parse/features.h"

typedef struct state {
    mr_feature_group context, lists;
    /* only in ParseSequenceExample, whose keys are attrs */
    const mr_attr *context_sparse, *context_dense, *list_sparse, *list_dense, *missing;
} state;

/* ---- attrs ---- */

static const mr_feature_attrs context_attrs = {"context_sparse_types", "Tcontext_dense",
                                               "context_dense_shapes", NULL, NULL};
static const mr_feature_attrs list_attrs = {"feature_list_sparse_types", "feature_list_dense_types",
                                            "feature_list_dense_shapes", NULL, NULL};
static const mr_feature_attrs context_v2 = {"context_sparse_types", "Tcontext_dense",
                                            "context_dense_shapes", "context_ragged_value_types",
                                            "context_ragged_split_types"};
static const mr_feature_attrs list_v2 = {"feature_list_sparse_types", "feature_list_dense_types",
                                         "feature_list_dense_shapes",
                                         "feature_list_ragged_value_types",
                                         "feature_list_ragged_split_types"};

static mr_status *check_count(const mr_node *n, const char *attr, int have)
{
    int64_t count;
    MR_TRY(mr_node_get_int(n, attr, &count));
    return count == have ? NULL
                         : mr_invalid("%s is %lld, but there are %d types", attr, (long long)count,
                                      have);
}

static mr_status *init_groups(const mr_node *n, state *s, const mr_feature_attrs *context,
                              const mr_feature_attrs *lists, bool count_context_dense)
{
    MR_TRY(mr_feature_group_init(&s->context, n, context, false));
    MR_TRY(mr_feature_group_init(&s->lists, n, lists, true));
    MR_TRY(check_count(n, "Ncontext_sparse", s->context.n_sparse));
    MR_TRY(check_count(n, "Nfeature_list_sparse", s->lists.n_sparse));
    if (count_context_dense)
        MR_TRY(check_count(n, "Ncontext_dense", s->context.n_dense));
    return check_count(n, "Nfeature_list_dense", s->lists.n_dense);
}

static mr_status *get_keys(const mr_node *n, const char *attr, int want, const mr_attr **out)
{
    MR_TRY(mr_node_get_list(n, attr, MR_ATTR_STRING, out));
    return (*out)->n == want ? NULL
                             : mr_invalid("%s has %d keys, but there are %d types", attr, (*out)->n,
                                          want);
}

static mr_status *init_v1(const mr_node *n, state *s)
{
    MR_TRY(init_groups(n, s, &context_attrs, &list_attrs, true));
    MR_TRY(get_keys(n, "context_sparse_keys", s->context.n_sparse, &s->context_sparse));
    MR_TRY(get_keys(n, "context_dense_keys", s->context.n_dense, &s->context_dense));
    MR_TRY(get_keys(n, "feature_list_sparse_keys", s->lists.n_sparse, &s->list_sparse));
    MR_TRY(get_keys(n, "feature_list_dense_keys", s->lists.n_dense, &s->list_dense));
    return mr_node_get_list(n, "feature_list_dense_missing_assumed_empty", MR_ATTR_STRING,
                            &s->missing);
}

static mr_status *init_v2(const mr_node *n, state *s)
{
    return init_groups(n, s, &context_v2, &list_v2, false);
}

static mr_status *init_single(const mr_node *n, state *s)
{
    return init_groups(n, s, &context_attrs, &list_attrs, true);
}

static mr_status *make_v1(mr_make *m, void *s) { return init_v1(m->node, s); }
static mr_status *make_v2(mr_make *m, void *s) { return init_v2(m->node, s); }
static mr_status *make_single(mr_make *m, void *s) { return init_single(m->node, s); }

/* ---- inputs ---- */

typedef struct wanted {
    mr_feature *context, *lists;
    const mr_tensor *names;
} wanted;

typedef mr_status *(*reader)(const mr_run *r, wanted *w);

static mr_status *read_v1(const mr_run *r, wanted *w)
{
    const state *s = r->state;
    mr_feature *dense = w->lists + s->lists.n_sparse;
    if (mr_in(r, 0)->rank != 1)
        return mr_invalid("Expected serialized to be a vector, got shape: %s",
                          MR_TENSOR_SHAPE(mr_in(r, 0)));
    MR_TRY(mr_example_names(r, 1, mr_in(r, 0), &w->names));
    mr_feature_keys_attr(s->context_sparse, w->context);
    mr_feature_keys_attr(s->context_dense, w->context + s->context.n_sparse);
    mr_feature_keys_attr(s->list_sparse, w->lists);
    mr_feature_keys_attr(s->list_dense, dense);
    for (int i = 0; i < s->lists.n_dense; i++)
        for (int k = 0; k < s->missing->n; k++)
            dense[i].missing_is_empty |= mr_sv_eq(s->missing->ss[k], dense[i].key);
    return mr_feature_defaults(r, 2, &s->context, w->context + s->context.n_sparse);
}

static mr_status *read_missing_flags(const mr_run *r, int in, int n, mr_feature *dense)
{
    const mr_tensor *t = mr_in(r, in);
    if (t->rank != 1 || t->n != n)
        return mr_invalid("Expected feature_list_dense_missing_assumed_empty to be a vector of %d, one "
                          "per dense feature list, got shape %s",
                          n, MR_TENSOR_SHAPE(t));
    for (int i = 0; i < n; i++)
        dense[i].missing_is_empty = MR_DATA(bool, t)[i];
    return NULL;
}

static mr_status *read_v2(const mr_run *r, wanted *w)
{
    const mr_feature_group *c = &((const state *)r->state)->context;
    const mr_feature_group *l = &((const state *)r->state)->lists;
    mr_feature *dense = w->context + c->n_sparse, *list_dense = w->lists + l->n_sparse;
    if (mr_in(r, 0)->rank > 1)
        return mr_invalid("Expected serialized to be a scalar or vector, got shape: %s",
                          MR_TENSOR_SHAPE(mr_in(r, 0)));
    MR_TRY(mr_example_names(r, 1, mr_in(r, 0), &w->names));
    MR_TRY(mr_feature_keys_vector(r, 2, "context_sparse_keys", c->n_sparse, w->context));
    MR_TRY(mr_feature_keys_vector(r, 3, "context_dense_keys", c->n_dense, dense));
    MR_TRY(mr_feature_keys_vector(r, 4, "context_ragged_keys", c->n_ragged, dense + c->n_dense));
    MR_TRY(mr_feature_keys_vector(r, 5, "feature_list_sparse_keys", l->n_sparse, w->lists));
    MR_TRY(mr_feature_keys_vector(r, 6, "feature_list_dense_keys", l->n_dense, list_dense));
    MR_TRY(mr_feature_keys_vector(r, 7, "feature_list_ragged_keys", l->n_ragged,
                                  list_dense + l->n_dense));
    MR_TRY(read_missing_flags(r, 8, l->n_dense, list_dense));
    return mr_feature_defaults(r, 9, c, dense);
}

static mr_status *read_single(const mr_run *r, wanted *w)
{
    const mr_feature_group *c = &((const state *)r->state)->context;
    const mr_feature_group *l = &((const state *)r->state)->lists;
    const mr_tensor *missing = mr_in(r, 1);
    mr_feature *dense = w->context + c->n_sparse, *list_dense = w->lists + l->n_sparse;
    int in = 2;
    if (mr_in(r, 0)->rank != 0)
        return mr_invalid("Expected serialized to be a scalar, got shape: %s",
                          MR_TENSOR_SHAPE(mr_in(r, 0)));
    MR_TRY(mr_feature_keys_scalars(r, in, "context_sparse_keys", c->n_sparse, w->context));
    MR_TRY(mr_feature_keys_scalars(r, in += c->n_sparse, "context_dense_keys", c->n_dense, dense));
    MR_TRY(mr_feature_keys_scalars(r, in += c->n_dense, "feature_list_sparse_keys", l->n_sparse,
                                   w->lists));
    MR_TRY(mr_feature_keys_scalars(r, in += l->n_sparse, "feature_list_dense_keys", l->n_dense,
                                   list_dense));
    MR_TRY(mr_feature_defaults(r, in += l->n_dense, c, dense));
    MR_TRY(mr_example_names(r, in + c->n_dense, mr_in(r, 0), &w->names));
    for (int i = 0; i < l->n_dense; i++)
        for (int64_t k = 0; k < missing->n; k++)
            list_dense[i].missing_is_empty |= mr_sv_eq(mr_tensor_str_at(missing, k),
                                                       list_dense[i].key);
    return NULL;
}

/* ---- the kernels ---- */

static mr_status *parse_batch(mr_run *r, reader read, bool lengths)
{
    const state *s = r->state;
    int n_context = mr_feature_group_size(&s->context), n_lists = mr_feature_group_size(&s->lists);
    int n = n_context + n_lists, out = 0;
    mr_feature *f = mr_new_array(mr_feature, n + 1);
    mr_feature_result *results = mr_new_array(mr_feature_result, n + 1);
    wanted w = {f, f + n_context, NULL};
    mr_examples x = {.serialized = mr_in(r, 0),
                     .alloc = mr_run_allocator(r),
                     .pool = r->step->device->pool};
    mr_status *st = NULL;
    mr_feature_group_list(&s->context, w.context);
    mr_feature_group_list(&s->lists, w.lists);
    MR_GO(read(r, &w));
    x.names = w.names;
    MR_GO(mr_sequences_parse(&x, w.context, n_context, w.lists, n_lists, results,
                             results + n_context));
    mr_feature_group_give(r, &s->context, results, false, &out);
    mr_feature_group_give(r, &s->lists, results + n_context, lengths, &out);
out:
    mr_feature_results_free(results, n); /* frees lengths that are not outputs */
    mr_free(results);
    mr_free(f);
    return st;
}

static mr_status *parse_v1(mr_run *r) { return parse_batch(r, read_v1, true); }
static mr_status *parse_v2(mr_run *r) { return parse_batch(r, read_v2, true); }
static mr_status *parse_single(mr_run *r) { return parse_batch(r, read_single, false); }

/* ---- shapes ---- */

static mr_status *group_shapes(mr_infer *c, const state *s, int rank, bool lengths)
{
    int64_t batch = rank == 1 && c->in[0]->rank == 1 ? c->in[0]->dims[0] : -1;
    int out = 0;
    MR_TRY(mr_feature_group_shape(c, &s->context, rank, batch, false, &out));
    return mr_feature_group_shape(c, &s->lists, rank, batch, lengths, &out);
}

static mr_status *shape_v1(mr_infer *c)
{
    state s = {0};
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &ignored));
    MR_TRY(init_v1(c->node, &s));
    return group_shapes(c, &s, 1, true);
}

static mr_status *shape_v2(mr_infer *c)
{
    state s = {0};
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank_at_most(c, c->in[0], 1, &ignored));
    MR_TRY(init_v2(c->node, &s));
    return group_shapes(c, &s, c->in[0]->rank, true);
}

static mr_status *shape_single(mr_infer *c)
{
    state s = {0};
    const mr_pshape *ignored;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &ignored));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &ignored));
    MR_TRY(init_single(c->node, &s));
    return group_shapes(c, &s, 0, false);
}

/* ---- the ops ----
 *
 * Examples: c is an int64 of the context, l a list of rows of int64. */

#define ROWS_1_23                                                                                  \
    "\"\\n\\x0c\\n\\n\\n\\x01c\\x12\\x05\\x1a\\x03\\n\\x01\\x05\\x12\\x16\\n\\x14\\n\\x01l\\x12\\x0f\\n"   \
    "\\x05\\x1a\\x03\\n\\x01\\x01\\n\\x06\\x1a\\x04\\n\\x02\\x02\\x03\""
#define ROWS_4                                                                                     \
    "\"\\n\\x0c\\n\\n\\n\\x01c\\x12\\x05\\x1a\\x03\\n\\x01\\x06\\x12\\x0e\\n\\x0c\\n\\x01l\\x12\\x07\\n"   \
    "\\x05\\x1a\\x03\\n\\x01\\x04\""
#define ROWS_12_34                                                                                 \
    "\"\\n\\x0c\\n\\n\\n\\x01c\\x12\\x05\\x1a\\x03\\n\\x01\\x05\\x12\\x17\\n\\x15\\n\\x01l\\x12\\x10\\n"   \
    "\\x06\\x1a\\x04\\n\\x02\\x01\\x02\\n\\x06\\x1a\\x04\\n\\x02\\x03\\x04\""
#define ROWS_56                                                                                    \
    "\"\\n\\x0c\\n\\n\\n\\x01c\\x12\\x05\\x1a\\x03\\n\\x01\\x06\\x12\\x0f\\n\\x0d\\n\\x01l\\x12\\x08\\n"   \
    "\\x06\\x1a\\x04\\n\\x02\\x05\\x06\""
#define NO_ROWS "\"\\n\\x0c\\n\\n\\n\\x01c\\x12\\x05\\x1a\\x03\\n\\x01\\x07\\x12\\x00\""

/* c is present but has no value, which is valid for every type. */
#define C_NOTHING "\"\\n\\x07\\n\\x05\\n\\x01c\\x12\\x00\""
#define ANY_TYPES                                                                                  \
    "Ncontext_sparse=1 Nfeature_list_sparse=1 Nfeature_list_dense=1 context_sparse_types=[float] " \
    "Tcontext_dense=[float] feature_list_sparse_types=[float] feature_list_dense_types=[float] "   \
    "context_dense_shapes=[[0]] feature_list_dense_shapes=[[2]] "

#define V1_DENSE(missing)                                                                          \
    "feature_list_dense_missing_assumed_empty=" missing " context_sparse_keys=[] "                 \
    "context_dense_keys=[\"c\"] feature_list_sparse_keys=[] feature_list_dense_keys=[\"l\"] "      \
    "Ncontext_dense=1 Nfeature_list_dense=1 Tcontext_dense=[int64] "                               \
    "feature_list_dense_types=[int64] context_dense_shapes=[[]] feature_list_dense_shapes=[[2]]: "
#define V1_SPARSE                                                                                  \
    "feature_list_dense_missing_assumed_empty=[] context_sparse_keys=[\"c\"] "                     \
    "context_dense_keys=[] feature_list_sparse_keys=[\"l\"] feature_list_dense_keys=[] "           \
    "Ncontext_sparse=1 Nfeature_list_sparse=1 context_sparse_types=[int64] "                       \
    "feature_list_sparse_types=[int64]: "

MR_OP(ParseSequenceExample,
    .doc      = "SequenceExamples as tensors: their context and their lists, dense or sparse",
    .sig      = "serialized: string, debug_name: string, context_dense_defaults: Tcontext_dense -> "
                "context_sparse_indices: Ncontext_sparse * int64, "
                "context_sparse_values: context_sparse_types, "
                "context_sparse_shapes: Ncontext_sparse * int64, "
                "context_dense_values: Tcontext_dense, "
                "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
                "feature_list_sparse_values: feature_list_sparse_types, "
                "feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
                "feature_list_dense_values: feature_list_dense_types, "
                "feature_list_dense_lengths: Nfeature_list_dense * int64",
    .attrs    = "feature_list_dense_missing_assumed_empty: list(string) >= 0; "
                "context_sparse_keys: list(string) >= 0; context_dense_keys: list(string) >= 0; "
                "feature_list_sparse_keys: list(string) >= 0; "
                "feature_list_dense_keys: list(string) >= 0; Ncontext_sparse: int >= 0 = 0; "
                "Ncontext_dense: int >= 0 = 0; Nfeature_list_sparse: int >= 0 = 0; "
                "Nfeature_list_dense: int >= 0 = 0; "
                "context_sparse_types: list({float, int64, string}) >= 0 = []; "
                "Tcontext_dense: list({float, int64, string}) >= 0 = []; "
                "feature_list_dense_types: list({float, int64, string}) >= 0 = []; "
                "context_dense_shapes: list(shape) >= 0 = []; "
                "feature_list_sparse_types: list({float, int64, string}) >= 0 = []; "
                "feature_list_dense_shapes: list(shape) >= 0 = []",
    .flags    = MR_NO_GRADIENT,
    .shape    = shape_v1,
    .kernels  = MR_KERNELS(MR_CPU_ANY(parse_v1)),
    .state_bytes = sizeof(state), .init = make_v1,
    .examples = MR_EXAMPLES(
        ANY_TYPES "Ncontext_dense=1 feature_list_dense_missing_assumed_empty=[\"l\"] "
                  "context_sparse_keys=[\"s\"] context_dense_keys=[\"c\"] "
                  "feature_list_sparse_keys=[\"m\"] feature_list_dense_keys=[\"l\"]: "
                  "[" C_NOTHING "], shape(0), (shape(0)) -> shape(0,2), shape(0), [1, 0], shape(1,0), "
                  "shape(0,3), shape(0), [1, 0, 0], shape(1,0,2), [0]",
        V1_DENSE("[]") "[" ROWS_12_34 ", " ROWS_56 "], shape(0), (int64 shape(0)) -> int64[5, 6], "
                       "int64[[[1, 2], [3, 4]], [[5, 6], [0, 0]]], [2, 1]",
        V1_DENSE("[\"l\"]") "[" NO_ROWS "], shape(0), (int64 shape(0)) -> int64[7], "
                            "int64 shape(1,0,2), [0]",
        V1_DENSE("[]") "[\"\", " ROWS_56 "], [\"a\", \"b\"], (int64 3) -> !INVALID_ARGUMENT Name: a, "
                       "Feature list 'l' is required but could not be found.",
        V1_DENSE("[]") "[" ROWS_1_23 "], [\"a\"], (int64 3) -> !INVALID_ARGUMENT Feature list 'l' has "
                       "an unexpected number of values.",
        V1_DENSE("[\"l\"]") "[\"\"], shape(0), (int64 shape(0)) -> !INVALID_ARGUMENT Inconsistent max "
                            "number of elements for feature c: expected 1, but found 0",
        V1_DENSE("[\"l\"]") "[" NO_ROWS ", \"\"], shape(0), (int64 shape(0)) -> !INVALID_ARGUMENT "
                            "Feature: c (data type: int64) is required but could not be found.",
        V1_SPARSE "[" ROWS_1_23 ", " ROWS_4 ", \"\"], shape(0), () -> [[0, 0], [1, 0]], int64[5, 6], "
                  "[3, 1], [[0, 0, 0], [0, 1, 0], [0, 1, 1], [1, 0, 0]], int64[1, 2, 3, 4], [3, 2, 2]",
        V1_SPARSE "[\"\\n\\x05abc\"], shape(0), () -> !INVALID_ARGUMENT Invalid protocol message "
                  "input, example id: <unknown>",
        "feature_list_dense_missing_assumed_empty=[] context_sparse_keys=[\"c\"] "
        "context_dense_keys=[] feature_list_sparse_keys=[] feature_list_dense_keys=[] "
        "Ncontext_sparse=1 context_sparse_types=[float]: [" ROWS_4 "], shape(0), () -> "
        "!INVALID_ARGUMENT Name: <unknown>, Context feature: c.  Data types don't match. Expected "
        "type: float"));

#define V2(attrs) attrs ": "
#define V2_RAGGED                                                                                  \
    V2("context_ragged_value_types=[int64] context_ragged_split_types=[int32] "                    \
       "feature_list_ragged_value_types=[int64] feature_list_ragged_split_types=[int64]")
#define V2_DENSE                                                                                   \
    V2("Nfeature_list_dense=1 feature_list_dense_types=[int64] feature_list_dense_shapes=[[2]] "   \
       "Tcontext_dense=[int64] context_dense_shapes=[[]]")
#define NOT "shape(0), "

MR_OP(ParseSequenceExampleV2,
    .doc      = "parses SequenceExamples to dense, sparse and ragged tensors; a scalar gives no dimension of examples",
    .sig      = "serialized: string, debug_name: string, context_sparse_keys: string, "
                "context_dense_keys: string, context_ragged_keys: string, "
                "feature_list_sparse_keys: string, feature_list_dense_keys: string, "
                "feature_list_ragged_keys: string, "
                "feature_list_dense_missing_assumed_empty: bool, "
                "context_dense_defaults: Tcontext_dense -> "
                "context_sparse_indices: Ncontext_sparse * int64, "
                "context_sparse_values: context_sparse_types, "
                "context_sparse_shapes: Ncontext_sparse * int64, "
                "context_dense_values: Tcontext_dense, "
                "context_ragged_values: context_ragged_value_types, "
                "context_ragged_row_splits: context_ragged_split_types, "
                "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
                "feature_list_sparse_values: feature_list_sparse_types, "
                "feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
                "feature_list_dense_values: feature_list_dense_types, "
                "feature_list_dense_lengths: Nfeature_list_dense * int64, "
                "feature_list_ragged_values: feature_list_ragged_value_types, "
                "feature_list_ragged_outer_splits: feature_list_ragged_split_types, "
                "feature_list_ragged_inner_splits: feature_list_ragged_split_types",
    .attrs    = "Ncontext_sparse: int >= 0 = 0; "
                "Tcontext_dense: list({float, int64, string}) >= 0 = []; "
                "context_sparse_types: list({float, int64, string}) >= 0 = []; "
                "context_ragged_value_types: list({float, int64, string}) >= 0 = []; "
                "context_ragged_split_types: list({int32, int64}) >= 0 = []; "
                "context_dense_shapes: list(shape) >= 0 = []; "
                "Nfeature_list_sparse: int >= 0 = 0; Nfeature_list_dense: int >= 0 = 0; "
                "feature_list_dense_types: list({float, int64, string}) >= 0 = []; "
                "feature_list_sparse_types: list({float, int64, string}) >= 0 = []; "
                "feature_list_ragged_value_types: list({float, int64, string}) >= 0 = []; "
                "feature_list_ragged_split_types: list({int32, int64}) >= 0 = []; "
                "feature_list_dense_shapes: list(shape) >= 0 = []",
    .flags    = MR_NO_GRADIENT,
    .shape    = shape_v2,
    .kernels  = MR_KERNELS(MR_CPU_ANY(parse_v2)),
    .state_bytes = sizeof(state), .init = make_v2,
    .examples = MR_EXAMPLES(
        ANY_TYPES "context_ragged_value_types=[float] context_ragged_split_types=[int64] "
                  "feature_list_ragged_value_types=[float] feature_list_ragged_split_types=[int64]: "
                  "[" C_NOTHING "], shape(0), [\"s\"], [\"c\"], [\"r\"], [\"m\"], [\"l\"], [\"q\"], "
                  "[true], (shape(0)) -> shape(0,2), shape(0), [1, 0], shape(1,0), shape(0), [0, 0], "
                  "shape(0,3), shape(0), [1, 0, 0], shape(1,0,2), [0], shape(0), [0, 0], [0]",
        V2_RAGGED "[" ROWS_1_23 ", \"\", " ROWS_4 "], " NOT NOT NOT "[\"c\"], " NOT NOT "[\"l\"], "
                  "bool shape(0), () -> int64[5, 6], int32[0, 1, 1, 2], int64[1, 2, 3, 4], "
                  "int64[0, 2, 2, 3], int64[0, 1, 3, 4]",
        V2_RAGGED ROWS_1_23 ", " NOT NOT NOT "[\"c\"], " NOT NOT "[\"l\"], bool shape(0), () -> "
                  "int64[5], int32 0, int64[1, 2, 3], int64 0, int64[0, 1, 3]",
        V2_DENSE "[" ROWS_12_34 ", \"\"], " NOT NOT "[\"c\"], " NOT NOT "[\"l\"], " NOT "[true], "
                 "(int64 9) -> int64[5, 9], int64[[[1, 2], [3, 4]], [[0, 0], [0, 0]]], [2, 0]",
        V2_DENSE ROWS_12_34 ", " NOT NOT "[\"c\"], " NOT NOT "[\"l\"], " NOT "[true], (int64 9) -> "
                 "int64 5, int64[[1, 2], [3, 4]], 2",
        V2("Ncontext_sparse=1 context_sparse_types=[int64] Nfeature_list_sparse=1 "
           "feature_list_sparse_types=[int64]") ROWS_1_23
        ", " NOT "[\"c\"], " NOT NOT "[\"l\"], " NOT NOT "bool shape(0), () -> [[0]], int64[5], [1], "
        "[[0, 0], [1, 0], [1, 1]], int64[1, 2, 3], [2, 2]",
        V2_DENSE "[" ROWS_12_34 "], " NOT NOT "[\"c\"], " NOT NOT "[\"l\"], " NOT "[true, true], "
                 "(int64 9) -> !INVALID_ARGUMENT "
                 "Expected feature_list_dense_missing_assumed_empty to be a vector of 1"));

#define SINGLE_DENSE                                                                               \
    "Ncontext_dense=1 Nfeature_list_dense=1 Tcontext_dense=[int64] "                               \
    "feature_list_dense_types=[int64] context_dense_shapes=[[1]] feature_list_dense_shapes=[[2]]: "
#define SINGLE_SPARSE                                                                              \
    "Ncontext_sparse=1 Nfeature_list_sparse=1 context_sparse_types=[int64] "                       \
    "feature_list_sparse_types=[int64]: "

MR_OP(ParseSingleSequenceExample,
    .doc      = "one SequenceExample as dense and sparse tensors",
    .sig      = "serialized: string, feature_list_dense_missing_assumed_empty: string, "
                "context_sparse_keys: Ncontext_sparse * string, "
                "context_dense_keys: Ncontext_dense * string, "
                "feature_list_sparse_keys: Nfeature_list_sparse * string, "
                "feature_list_dense_keys: Nfeature_list_dense * string, "
                "context_dense_defaults: Tcontext_dense, debug_name: string -> "
                "context_sparse_indices: Ncontext_sparse * int64, "
                "context_sparse_values: context_sparse_types, "
                "context_sparse_shapes: Ncontext_sparse * int64, "
                "context_dense_values: Tcontext_dense, "
                "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
                "feature_list_sparse_values: feature_list_sparse_types, "
                "feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
                "feature_list_dense_values: feature_list_dense_types",
    .attrs    = "Ncontext_sparse: int >= 0 = 0; Ncontext_dense: int >= 0 = 0; "
                "Nfeature_list_sparse: int >= 0 = 0; Nfeature_list_dense: int >= 0 = 0; "
                "context_sparse_types: list({float, int64, string}) >= 0 = []; "
                "Tcontext_dense: list({float, int64, string}) >= 0 = []; "
                "feature_list_dense_types: list({float, int64, string}) >= 0 = []; "
                "context_dense_shapes: list(shape) >= 0 = []; "
                "feature_list_sparse_types: list({float, int64, string}) >= 0 = []; "
                "feature_list_dense_shapes: list(shape) >= 0 = []",
    .flags    = MR_NO_GRADIENT,
    .shape    = shape_single,
    .kernels  = MR_KERNELS(MR_CPU_ANY(parse_single)),
    .state_bytes = sizeof(state), .init = make_single,
    .examples = MR_EXAMPLES(
        ANY_TYPES "Ncontext_dense=1: " C_NOTHING ", [\"l\"], (\"s\"), (\"c\"), (\"m\"), (\"l\"), "
                  "(shape(0)), \"\" -> shape(0,1), shape(0), [0], shape(0), shape(0,2), shape(0), "
                  "[0, 0], shape(0,2)",
        SINGLE_DENSE ROWS_12_34 ", shape(0), (), (\"c\"), (), (\"l\"), (int64 shape(0)), \"\" -> "
                                "int64[5], int64[[1, 2], [3, 4]]",
        SINGLE_DENSE NO_ROWS ", [\"l\"], (), (\"c\"), (), (\"l\"), (int64 shape(0)), \"\" -> int64[7], "
                             "int64 shape(0,2)",
        SINGLE_SPARSE ROWS_1_23 ", shape(0), (\"c\"), (), (\"l\"), (), (), \"\" -> [[0]], int64[5], "
                                "[1], [[0, 0], [1, 0], [1, 1]], int64[1, 2, 3], [2, 2]",
        SINGLE_DENSE NO_ROWS ", shape(0), (), (\"c\"), (), (\"l\"), (int64 shape(0)), \"x\" -> "
                             "!INVALID_ARGUMENT Name: x, Feature list 'l' is required but could not "
                             "be found."));
