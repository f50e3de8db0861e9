/* ops/parse/parse_example.c -- ParseExample, ParseExampleV2, ParseSingleExample: parse Examples to
 * tensors. */
#include "base/memory.h"
#include "ops/parse/features.h"

typedef struct state {
    mr_feature_group g;
    /* only in ParseSingleExample, whose keys are attrs */
    const mr_attr *sparse_keys, *dense_keys;
} state;

static const mr_feature_attrs plain_attrs = {"sparse_types", "Tdense", "dense_shapes", NULL, NULL};
static const mr_feature_attrs ragged_attrs = {"sparse_types", "Tdense", "dense_shapes",
                                              "ragged_value_types", "ragged_split_types"};

static mr_status *check_count(const mr_node *n, const char *attr, const char *what, int have)
{
    int64_t count;
    MR_TRY(mr_node_get_int(n, attr, &count));
    return count == have ? NULL
                         : mr_invalid("len(%s_keys) != len(%s_types): %lld and %d", what, what,
                                      (long long)count, have);
}

static mr_status *init_v1(const mr_node *n, state *s)
{
    MR_TRY(mr_feature_group_init(&s->g, n, &plain_attrs, false));
    MR_TRY(check_count(n, "Nsparse", "sparse", s->g.n_sparse));
    return check_count(n, "Ndense", "dense", s->g.n_dense);
}

static mr_status *init_v2(const mr_node *n, state *s)
{
    MR_TRY(mr_feature_group_init(&s->g, n, &ragged_attrs, false));
    return check_count(n, "num_sparse", "sparse", s->g.n_sparse);
}

static mr_status *init_single(const mr_node *n, state *s)
{
    MR_TRY(mr_feature_group_init(&s->g, n, &plain_attrs, false));
    MR_TRY(mr_node_get_list(n, "sparse_keys", MR_ATTR_STRING, &s->sparse_keys));
    MR_TRY(mr_node_get_list(n, "dense_keys", MR_ATTR_STRING, &s->dense_keys));
    MR_TRY(check_count(n, "num_sparse", "sparse", s->g.n_sparse));
    if (s->sparse_keys->n != s->g.n_sparse)
        return mr_invalid("len(sparse_keys) != len(sparse_types): %d and %d", s->sparse_keys->n,
                          s->g.n_sparse);
    if (s->dense_keys->n != s->g.n_dense)
        return mr_invalid("len(dense_keys) != len(dense_types): %d and %d", s->dense_keys->n,
                          s->g.n_dense);
    return NULL;
}

static mr_status *make_v1(mr_make *m, void *s) { return init_v1(m->node, s); }
static mr_status *make_v2(mr_make *m, void *s) { return init_v2(m->node, s); }
static mr_status *make_single(mr_make *m, void *s) { return init_single(m->node, s); }

/* ---- the kernels ---- */

/* Reads the keys and defaults of a run; f is sparse, then dense, then ragged. */
typedef mr_status *(*reader)(const mr_run *r, mr_feature *f, const mr_tensor **names);

static mr_status *read_v1(const mr_run *r, mr_feature *f, const mr_tensor **names)
{
    const mr_feature_group *g = &((const state *)r->state)->g;
    mr_feature *dense = f + g->n_sparse;
    int dense_keys = 2 + g->n_sparse;
    if (mr_in(r, 0)->rank != 1)
        return mr_invalid("Expected serialized to be a vector, got shape: %s",
                          MR_TENSOR_SHAPE(mr_in(r, 0)));
    MR_TRY(mr_example_names(r, 1, mr_in(r, 0), names));
    MR_TRY(mr_feature_keys_scalars(r, 2, "sparse_keys", g->n_sparse, f));
    MR_TRY(mr_feature_keys_scalars(r, dense_keys, "dense_keys", g->n_dense, dense));
    return mr_feature_defaults(r, dense_keys + g->n_dense, g, dense);
}

static mr_status *read_v2(const mr_run *r, mr_feature *f, const mr_tensor **names)
{
    const mr_feature_group *g = &((const state *)r->state)->g;
    mr_feature *dense = f + g->n_sparse, *ragged = dense + g->n_dense;
    if (mr_in(r, 0)->rank > 1)
        return mr_invalid("Expected serialized to be a scalar or vector, got shape: %s",
                          MR_TENSOR_SHAPE(mr_in(r, 0)));
    MR_TRY(mr_example_names(r, 1, mr_in(r, 0), names));
    MR_TRY(mr_feature_keys_vector(r, 2, "sparse_keys", g->n_sparse, f));
    MR_TRY(mr_feature_keys_vector(r, 3, "dense_keys", g->n_dense, dense));
    MR_TRY(mr_feature_keys_vector(r, 4, "ragged_keys", g->n_ragged, ragged));
    return mr_feature_defaults(r, 5, g, dense);
}

static mr_status *read_single(const mr_run *r, mr_feature *f, const mr_tensor **names)
{
    const state *s = r->state;
    mr_feature *dense = f + s->g.n_sparse;
    (void)names;
    if (mr_in(r, 0)->rank != 0)
        return mr_invalid("Expected serialized to be a scalar, got shape: %s",
                          MR_TENSOR_SHAPE(mr_in(r, 0)));
    mr_feature_keys_attr(s->sparse_keys, f);
    mr_feature_keys_attr(s->dense_keys, dense);
    return mr_feature_defaults(r, 1, &s->g, dense);
}

static mr_status *parse_batch(mr_run *r, reader read)
{
    const mr_feature_group *g = &((const state *)r->state)->g;
    int n = mr_feature_group_size(g), out = 0;
    mr_feature *f = mr_new_array(mr_feature, n + 1);
    mr_feature_result *results = mr_new_array(mr_feature_result, n + 1);
    mr_examples x = {.serialized = mr_in(r, 0),
                     .alloc = mr_run_allocator(r),
                     .pool = r->step->device->pool};
    mr_status *st = NULL;
    mr_feature_group_list(g, f);
    MR_GO(read(r, f, &x.names));
    MR_GO(mr_examples_parse(&x, f, n, results));
    mr_feature_group_give(r, g, results, false, &out);
out:
    mr_free(results);
    mr_free(f);
    return st;
}

static mr_status *parse_v1(mr_run *r) { return parse_batch(r, read_v1); }
static mr_status *parse_v2(mr_run *r) { return parse_batch(r, read_v2); }
static mr_status *parse_single(mr_run *r) { return parse_batch(r, read_single); }

/* ---- shapes ---- */

static mr_status *shape_v1(mr_infer *c)
{
    state s = {0};
    const mr_pshape *serialized, *ignored;
    int out = 0;
    MR_TRY(mr_infer_rank(c, c->in[0], 1, &serialized));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &ignored));
    MR_TRY(init_v1(c->node, &s));
    return mr_feature_group_shape(c, &s.g, 1, mr_infer_dim(serialized, 0), false, &out);
}

static mr_status *shape_v2(mr_infer *c)
{
    state s = {0};
    const mr_pshape *ignored;
    int rank = c->in[0]->rank, out = 0;
    MR_TRY(mr_infer_rank_at_most(c, c->in[0], 1, &ignored));
    for (int i = 2; i <= 4; i++)
        MR_TRY(mr_infer_rank(c, c->in[i], 1, &ignored));
    MR_TRY(init_v2(c->node, &s));
    return mr_feature_group_shape(c, &s.g, rank, rank == 1 ? c->in[0]->dims[0] : -1, false, &out);
}

static mr_status *shape_single(mr_infer *c)
{
    state s = {0};
    const mr_pshape *ignored;
    int out = 0;
    MR_TRY(mr_infer_rank(c, c->in[0], 0, &ignored));
    MR_TRY(init_single(c->node, &s));
    return mr_feature_group_shape(c, &s.g, 0, -1, false, &out);
}

/* ---- the ops ---- */

#define A_1 "\"\\n\\x0f\\n\\x0d\\n\\x01a\\x12\\x08\\x12\\x06\\n\\x04\\x00\\x00\\x80?\""
#define A_12 "\"\\n\\x13\\n\\x11\\n\\x01a\\x12\\x0c\\x12\\n\\n\\x08\\x00\\x00\\x80?\\x00\\x00\\x00@\""
#define A_345                                                                                      \
    "\"\\n\\x17\\n\\x15\\n\\x01a\\x12\\x10\\x12\\x0e\\n\\x0c\\x00\\x00@@\\x00\\x00\\x80@\\x00\\x00"  \
    "\\xa0@\""
#define A_NOTHING "\"\\n\\x07\\n\\x05\\n\\x01a\\x12\\x00\""
#define I_78 "\"\\n\\x0d\\n\\x0b\\n\\x01i\\x12\\x06\\x1a\\x04\\n\\x02\\x07\\x08\""
#define I_9 "\"\\n\\x0c\\n\\n\\n\\x01i\\x12\\x05\\x1a\\x03\\n\\x01\\x09\""
#define I_TWICE                                                                                    \
    "\"\\n\\x18\\n\\n\\n\\x01i\\x12\\x05\\x1a\\x03\\n\\x01\\x01\\n\\n\\n\\x01i\\x12\\x05\\x1a\\x03\\n" \
    "\\x01\\x02\""
#define I_UNPACKED "\"\\n\\x0d\\n\\x0b\\n\\x01i\\x12\\x06\\x1a\\x04\\x08\\x05\\x08\\x06\""
#define S_XYZ "\"\\n\\x10\\n\\x0e\\n\\x01s\\x12\\x09\\n\\x07\\n\\x01x\\n\\x02yz\""

#define DENSE(type, shape) \
    "Nsparse=0 Ndense=1 sparse_types=[] Tdense=[" type "] dense_shapes=[" shape "]: "
#define SPARSE(type) "Nsparse=1 Ndense=0 sparse_types=[" type "] Tdense=[] dense_shapes=[]: "

MR_OP(ParseExample,
    .doc      = "Examples as tensors: dense features in one shape, others as sparse tensors",
    .sig      = "serialized: string, names: string, sparse_keys: Nsparse * string, "
                "dense_keys: Ndense * string, dense_defaults: Tdense -> "
                "sparse_indices: Nsparse * int64, sparse_values: sparse_types, "
                "sparse_shapes: Nsparse * int64, dense_values: Tdense",
    .attrs    = "Nsparse: int >= 0; Ndense: int >= 0; "
                "sparse_types: list({float, int64, string}) >= 0; "
                "Tdense: list({float, int64, string}) >= 0; dense_shapes: list(shape) >= 0",
    .flags    = MR_NO_GRADIENT,
    .shape    = shape_v1,
    .kernels  = MR_KERNELS(MR_CPU_ANY(parse_v1)),
    .state_bytes = sizeof(state), .init = make_v1,
    .examples = MR_EXAMPLES(
        DENSE("float", "[2]") "[" A_12 "], shape(0), (), (\"a\"), (float shape(0)) -> float[[1, 2]]",
        DENSE("float", "[]") "[" A_1 ", " I_9 "], shape(0), (), (\"a\"), (float 7) -> float[1, 7]",
        DENSE("float", "[?]") "[" A_12 ", " A_345 ", \"\"], shape(0), (), (\"a\"), (float -1) -> "
                              "float[[1, 2, -1], [3, 4, 5], [-1, -1, -1]]",
        DENSE("int64", "[2]") "[" I_78 ", " I_UNPACKED "], [\"one\", \"two\"], (), (\"i\"), "
                              "(int64 shape(0)) -> int64[[7, 8], [5, 6]]",
        DENSE("string", "[2,1]") "[" S_XYZ "], shape(0), (), (\"s\"), (string shape(0)) -> "
                                 "[[[\"x\"], [\"yz\"]]]",
        DENSE("int64", "[]") "[" I_TWICE "], shape(0), (), (\"i\"), (int64 shape(0)) -> int64[2]",
        DENSE("float", "[]") "[" A_NOTHING "], shape(0), (), (\"a\"), (float 3) -> float[3]",
        DENSE("float", "[2]") "shape(0), shape(0), (), (\"a\"), (float shape(0)) -> float shape(0,2)",
        SPARSE("int64") "[" I_78 ", \"\", " I_9 "], shape(0), (\"i\"), (), () -> "
                        "[[0, 0], [0, 1], [2, 0]], int64[7, 8, 9], [3, 2]",
        SPARSE("float") "[" I_78 "], shape(0), (\"a\"), (), () -> shape(0,2), float shape(0), [1, 0]",
        SPARSE("string") "[" S_XYZ "], shape(0), (\"s\"), (), () -> "
                         "[[0, 0], [0, 1]], [\"x\", \"yz\"], [1, 2]",
        DENSE("float", "[]") "[\"\"], shape(0), (), (\"a\"), (float shape(0)) -> !INVALID_ARGUMENT "
                             "Name: <unknown>, Feature: a (data type: float) is required but could "
                             "not be found.",
        DENSE("float", "[3]") "[" A_12 "], [\"n\"], (), (\"a\"), (float shape(0)) -> "
                              "!INVALID_ARGUMENT Name: n, Key: a, Index: 0.  Number of float values "
                              "!= expected.  Values size: 2 but output shape: [3]",
        DENSE("float", "[?,2]") "[" A_345 "], shape(0), (), (\"a\"), (float 0) -> "
                                "!INVALID_ARGUMENT Number of float values is not a multiple of stride "
                                "length. Saw 3 values but output shape is: [?,2]",
        DENSE("int64", "[1]") "[" A_1 "], shape(0), (), (\"a\"), (int64 shape(0)) -> "
                              "!INVALID_ARGUMENT Data types don't match. Data type: float but "
                              "expected type: int64",
        SPARSE("int64") "[" A_1 "], shape(0), (\"a\"), (), () -> !INVALID_ARGUMENT "
                        "Data types don't match. Expected type: int64, Actual type: float",
        SPARSE("int64") "[\"\\n\\x05abc\"], shape(0), (\"a\"), (), () -> !INVALID_ARGUMENT "
                        "Could not parse example input, value: '",
        SPARSE("float") "[\"\\n\\x0c\\n\\n\\n\\x01a\\x12\\x05\\x12\\x03\\n\\x01\\x09\"], shape(0), "
                        "(\"a\"), (), () -> !INVALID_ARGUMENT Key: a, Index: 0.  Can't parse "
                        "serialized Example.",
        DENSE("float", "[2]") "[" A_12 "], shape(0), (), (\"a\"), (float[1, 2, 3]) -> "
                              "!INVALID_ARGUMENT def_value[0].shape() == [3] is not compatible with "
                              "dense_shapes_[0] == [2]",
        DENSE("float", "[?]") "[" A_12 "], shape(0), (), (\"a\"), (float shape(0)) -> "
                              "!INVALID_ARGUMENT must contain a single element (the padding element)",
        DENSE("float", "[2,?]") "[" A_12 "], shape(0), (), (\"a\"), (float shape(0)) -> "
                                "!INVALID_ARGUMENT dense_shapes[0] has unknown rank or unknown inner "
                                "dimensions: [2,?]",
        DENSE("float", "[]") "[" A_1 "], [\"a\", \"b\"], (), (\"a\"), (float shape(0)) -> "
                             "!INVALID_ARGUMENT Expected the names to be empty"));

#define V2(attrs) "num_sparse=0 Tdense=[] sparse_types=[] dense_shapes=[] " attrs ": "
#define RAGGED(type) V2("ragged_value_types=[" type "] ragged_split_types=[int64]")

MR_OP(ParseExampleV2,
    .doc      = "parses Examples to dense, sparse and ragged tensors; a scalar gives no dimension of examples",
    .sig      = "serialized: string, names: string, sparse_keys: string, dense_keys: string, "
                "ragged_keys: string, dense_defaults: Tdense -> sparse_indices: num_sparse * int64, "
                "sparse_values: sparse_types, sparse_shapes: num_sparse * int64, "
                "dense_values: Tdense, ragged_values: ragged_value_types, "
                "ragged_row_splits: ragged_split_types",
    .attrs    = "Tdense: list({float, int64, string}) >= 0; num_sparse: int >= 0; "
                "sparse_types: list({float, int64, string}) >= 0; "
                "ragged_value_types: list({float, int64, string}) >= 0; "
                "ragged_split_types: list({int32, int64}) >= 0; dense_shapes: list(shape) >= 0",
    .flags    = MR_NO_GRADIENT,
    .shape    = shape_v2,
    .kernels  = MR_KERNELS(MR_CPU_ANY(parse_v2)),
    .state_bytes = sizeof(state), .init = make_v2,
    .examples = MR_EXAMPLES(
        RAGGED("int64") "[" I_78 ", \"\", " I_9 "], shape(0), shape(0), shape(0), [\"i\"], () -> "
                        "int64[7, 8, 9], int64[0, 2, 2, 3]",
        V2("ragged_value_types=[string] ragged_split_types=[int32]")
            "[" S_XYZ "], shape(0), shape(0), shape(0), [\"s\"], () -> [\"x\", \"yz\"], int32[0, 2]",
        RAGGED("float") A_12 ", shape(0), shape(0), shape(0), [\"a\"], () -> float[1, 2], "
                        "int64 shape(0)",
        "num_sparse=1 sparse_types=[int64] Tdense=[float] dense_shapes=[[2]] ragged_value_types=[] "
        "ragged_split_types=[]: " A_12 ", shape(0), [\"i\"], [\"a\"], shape(0), (float shape(0)) -> "
        "shape(0,1), int64 shape(0), [0], float[1, 2]",
        "num_sparse=1 sparse_types=[int64] Tdense=[float] dense_shapes=[[?]] ragged_value_types=[] "
        "ragged_split_types=[]: [" A_12 ", " I_9 "], shape(0), [\"i\"], [\"a\"], shape(0), (float 0) "
        "-> [[1, 0]], int64[9], [2, 1], float[[1, 2], [0, 0]]",
        RAGGED("float") "[" I_78 "], shape(0), shape(0), shape(0), [\"i\"], () -> "
                        "!INVALID_ARGUMENT Expected type: float, Actual type: int64",
        RAGGED("float") "[" A_1 "], shape(0), shape(0), shape(0), [\"a\", \"b\"], () -> "
                        "!INVALID_ARGUMENT Expected ragged_keys to be a vector of 1 keys",
        "num_sparse=1 sparse_types=[int64] Tdense=[int64] dense_shapes=[[]] ragged_value_types=[] "
        "ragged_split_types=[]: [" I_9 "], shape(0), [\"i\"], [\"i\"], shape(0), (int64 0) -> "
        "!INVALID_ARGUMENT Feature i is requested twice"));

#define SINGLE(sparse, dense) sparse " " dense ": "
#define NO_SPARSE "num_sparse=0 sparse_keys=[] sparse_types=[]"
#define NO_DENSE "dense_keys=[] Tdense=[] dense_shapes=[]"

MR_OP(ParseSingleExample,
    .doc      = "one Example as dense and sparse tensors",
    .sig      = "serialized: string, dense_defaults: Tdense -> sparse_indices: num_sparse * int64, "
                "sparse_values: sparse_types, sparse_shapes: num_sparse * int64, "
                "dense_values: Tdense",
    .attrs    = "num_sparse: int >= 0; sparse_keys: list(string) >= 0; "
                "dense_keys: list(string) >= 0; sparse_types: list({float, int64, string}) >= 0; "
                "Tdense: list({float, int64, string}) >= 0; dense_shapes: list(shape) >= 0",
    .flags    = MR_NO_GRADIENT,
    .shape    = shape_single,
    .kernels  = MR_KERNELS(MR_CPU_ANY(parse_single)),
    .state_bytes = sizeof(state), .init = make_single,
    .examples = MR_EXAMPLES(
        SINGLE(NO_SPARSE, "dense_keys=[\"a\"] Tdense=[float] dense_shapes=[[2]]")
            A_12 ", (float shape(0)) -> float[1, 2]",
        SINGLE(NO_SPARSE, "dense_keys=[\"i\"] Tdense=[int64] dense_shapes=[[?,1]]")
            I_78 ", (int64 0) -> int64[[7], [8]]",
        SINGLE(NO_SPARSE, "dense_keys=[\"i\"] Tdense=[int64] dense_shapes=[[?,3]]")
            A_1 ", (int64 0) -> int64 shape(0,3)",
        SINGLE(NO_SPARSE, "dense_keys=[\"s\"] Tdense=[string] dense_shapes=[[]]")
            A_1 ", (\"none\") -> \"none\"",
        SINGLE("num_sparse=1 sparse_keys=[\"s\"] sparse_types=[string]", NO_DENSE)
            S_XYZ ", () -> [[0], [1]], [\"x\", \"yz\"], [2]",
        SINGLE("num_sparse=1 sparse_keys=[\"a\"] sparse_types=[float]", NO_DENSE)
            "\"\", () -> shape(0,1), float shape(0), [0]",
        SINGLE("num_sparse=1 sparse_keys=[\"i\"] sparse_types=[int64]", NO_DENSE)
            I_9 ", () -> [[0]], int64[9], [1]",
        SINGLE(NO_SPARSE, "dense_keys=[\"a\"] Tdense=[float] dense_shapes=[[3]]")
            A_12 ", (float shape(0)) -> !INVALID_ARGUMENT Key: a.  Can't parse serialized Example.",
        SINGLE(NO_SPARSE, "dense_keys=[\"a\"] Tdense=[float] dense_shapes=[[]]")
            "\"\", (float shape(0)) -> !INVALID_ARGUMENT Feature: a (data type: float) is required "
            "but could not be found.",
        SINGLE("num_sparse=2 sparse_keys=[\"a\"] sparse_types=[float, float]", NO_DENSE)
            A_1 ", () -> !INVALID_ARGUMENT len(sparse_keys) != len(sparse_types): 1 and 2"));
