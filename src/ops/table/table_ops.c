/* ops/table/table_ops.c -- the ops that create lookup tables and those that use them.
 *
 * Each op has two forms that differ only in the handle (ops/queue/named.h).  Tables of tensors and of
 * scalars, static or mutable, are the same type of object. */
#include "base/memory.h"
#include "graph/infer.h"
#include "ops/queue/named.h"
#include "ops/queue/tuple.h"
#include "ops/table/table.h"

/* ---- creating tables ---- */

typedef struct maker {
    mr_named named;
    mr_lookup_kind kind;
    bool anonymous;
    mr_dtype key, value;
    mr_shape *value_shape;
    int64_t n_buckets;
    float max_load;
} maker;

static mr_status *read_value_shape(mr_make *m, maker *k)
{
    const mr_pshape *s;
    k->value_shape = mr_new(mr_shape);
    if (!mr_node_attr(m->node, "value_shape"))
        return NULL;
    MR_TRY(mr_node_get_shape(m->node, "value_shape", &s));
    if (!mr_pshape_full(s))
        return mr_invalid("value_shape must be fully defined, got %s", MR_PSHAPE_TEXT(s));
    /* The values of a mutable table are scalars or vectors. */
    if (k->kind == MR_LOOKUP_MUTABLE && s->rank != 1 && s->rank != 0)
        return mr_invalid("Default value must be a vector, got shape %s", MR_PSHAPE_TEXT(s));
    mr_shape_set(k->value_shape, s->rank, s->dims);
    return NULL;
}

static mr_status *init_maker(mr_make *m, void *p, mr_lookup_kind kind)
{
    maker *k = p;
    k->kind = kind;
    k->anonymous = !mr_node_attr(m->node, "shared_name");
    MR_TRY(mr_node_get_type(m->node, "key_dtype", &k->key));
    MR_TRY(mr_node_get_type(m->node, "value_dtype", &k->value));
    MR_TRY(read_value_shape(m, k));
    if (kind == MR_LOOKUP_DENSE) {
        MR_TRY(mr_node_get_int(m->node, "initial_num_buckets", &k->n_buckets));
        MR_TRY(mr_node_get_float(m->node, "max_load_factor", &k->max_load));
    }
    if (k->anonymous)
        return NULL;
    MR_TRY(mr_named_init(&k->named, m, &mr_lookup_type));
    mr_sv shared;
    bool by_node = false;
    MR_TRY(mr_node_get_str(m->node, "shared_name", &shared));
    MR_TRY(mr_node_get_bool(m->node, "use_node_name_sharing", &by_node));
    return by_node && shared.n == 0 ? mr_named_share(&k->named, m->node->name) : NULL;
}

static mr_status *init_static(mr_make *m, void *p) { return init_maker(m, p, MR_LOOKUP_STATIC); }
static mr_status *init_mutable(mr_make *m, void *p) { return init_maker(m, p, MR_LOOKUP_MUTABLE); }
static mr_status *init_dense(mr_make *m, void *p) { return init_maker(m, p, MR_LOOKUP_DENSE); }

static void deinit_maker(void *p)
{
    maker *k = p;
    if (k->named.device)
        mr_named_deinit(&k->named);
    mr_free(k->value_shape);
}

static mr_lookup_spec spec_of(const mr_run *r)
{
    const maker *k = r->state;
    mr_lookup_spec s = {.kind = k->kind, .key = k->key, .value = k->value,
                       .value_rank = k->value_shape->rank, .value_dims = k->value_shape->dims};
    if (k->kind == MR_LOOKUP_DENSE) {
        s.empty_key = mr_in(r, 0);
        s.deleted_key = r->n_in > 1 ? mr_in(r, 1) : NULL;
        s.n_buckets = k->n_buckets;
        s.max_load = k->max_load;
    }
    return s;
}

static mr_status *make_table(void *ctx, mr_object **out)
{
    return mr_lookup_new(ctx, (mr_lookup **)out);
}

static mr_status *run_anonymous(mr_run *r, const mr_lookup_spec *s)
{
    mr_lookup *t;
    mr_tensor *handle;
    MR_TRY(mr_lookup_new(s, &t));
    MR_TRY(mr_anonymous_handle(r, (mr_object *)t, &handle));
    mr_run_set(r, 0, handle);
    return NULL;
}

static mr_status *run_maker(mr_run *r)
{
    maker *k = r->state;
    mr_lookup_spec s = spec_of(r);
    mr_object *t;
    if (k->anonymous)
        return run_anonymous(r, &s);
    MR_TRY(mr_named_open(&k->named, make_table, &s, &t));
    mr_status *st = mr_lookup_matches((mr_lookup *)t, &s, k->named.name);
    mr_object_unref(t);
    if (!st)
        mr_named_give(&k->named, r);
    return st;
}

/* Kernels for each type of key, so that other types have none; shared by both forms of an op. */
#define KEYED(name, fn) \
    static const mr_kernel name[] = {MR_CPU_ONE(fn, MR_PLAIN) {"CPU", MR_STRING, fn}, {0}}

/* The older handle is two strings. */
static mr_status *handle_shape(mr_infer *c)
{
    if (mr_dtype_is_ref(c->node->out_types[0]))
        mr_infer_out_vector(c, 0, 2);
    else
        mr_infer_out_scalar(c, 0);
    return NULL;
}

static mr_status *changing_shape(mr_infer *c);

#define NAMES "container: string = ''; shared_name: string = ''; use_node_name_sharing: bool = false; "
#define TYPES "key_dtype: type; value_dtype: type"
#define SHAPED TYPES "; value_shape: shape = []"
#define BUCKETS SHAPED "; initial_num_buckets: int = 131072; max_load_factor: float = 0.8"
#define MAKER(in, handle, make, attrs_) MAKER_OF(in, handle, make, attrs_, handle_shape)
#define CHANGING(in, make, attrs_) MAKER_OF(in, "resource", make, attrs_, changing_shape)
#define MAKER_OF(in, handle, make, attrs_, shape_)                                          \
    .sig = in "-> table_handle: " handle, .attrs = attrs_,                                   \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .key = "key_dtype", .shape = shape_,               \
    .kernels = MR_KERNELS(MR_CPU_ANY(run_maker)), .state_bytes = sizeof(maker), .init = make, \
    .deinit = deinit_maker
#define ONE_KEY "empty_key: key_dtype "
#define TWO_KEYS "empty_key: key_dtype, deleted_key: key_dtype "

MR_OP(HashTableV2,
    .doc      = "a table that is initialised once",
    MAKER("", "resource", init_static, NAMES TYPES),
    .examples = MR_EXAMPLES("key_dtype=string value_dtype=int64: -> shape()", "key_dtype=string value_dtype=float: -> shape()",
        "h = HashTableV2 key_dtype=string value_dtype=int32 shared_name=\"t\"; shared_name=\"t\" "
        "key_dtype=string value_dtype=float: -> !INVALID_ARGUMENT Conflicting key/value dtypes "
        "string->float with string-int32 for table t"));
MR_OP(HashTable, .doc = "the older form of HashTableV2",
    MAKER("", "Ref(string)", init_static, NAMES TYPES),
    .examples = MR_EXAMPLES("key_dtype=string value_dtype=int64: -> shape(2)"));
MR_OP(AnonymousHashTable, .doc = "a HashTableV2 that lives as long as its handles",
    MAKER("", "resource", init_static, TYPES),
    .examples = MR_EXAMPLES("key_dtype=string value_dtype=int64: -> shape()"));
MR_OP(MutableHashTableV2,
    .doc      = "a table that may be changed at any time",
    CHANGING("", init_mutable, NAMES TYPES),
    .examples = MR_EXAMPLES("key_dtype=string value_dtype=int64: -> shape()"));
MR_OP(MutableHashTable, .doc = "the older form of MutableHashTableV2",
    MAKER("", "Ref(string)", init_mutable, NAMES TYPES),
    .examples = MR_EXAMPLES("key_dtype=string value_dtype=int64: -> shape(2)"));
MR_OP(AnonymousMutableHashTable, .doc = "a MutableHashTableV2 that lives as long as its handles",
    CHANGING("", init_mutable, TYPES),
    .examples = MR_EXAMPLES("key_dtype=string value_dtype=int64: -> shape()"));
MR_OP(MutableHashTableOfTensorsV2,
    .doc      = "a table of vectors that may be changed at any time",
    CHANGING("", init_mutable, NAMES SHAPED),
    .examples = MR_EXAMPLES("key_dtype=string value_dtype=int64 value_shape=[2]: -> shape()",
        "key_dtype=string value_dtype=int64 value_shape=[2,2]: -> !INVALID_ARGUMENT must be a vector",
        "key_dtype=string value_dtype=int64 value_shape=[?]: -> !INVALID_ARGUMENT must be fully defined"));
MR_OP(MutableHashTableOfTensors, .doc = "the older form of MutableHashTableOfTensorsV2",
    MAKER("", "Ref(string)", init_mutable, NAMES SHAPED),
    .examples = MR_EXAMPLES("key_dtype=string value_dtype=int64 value_shape=[2]: -> shape(2)"));
MR_OP(AnonymousMutableHashTableOfTensors,
    .doc      = "a MutableHashTableOfTensorsV2 that lives as long as its handles",
    CHANGING("", init_mutable, SHAPED),
    .examples = MR_EXAMPLES("key_dtype=string value_dtype=int64 value_shape=[2]: -> shape()"));
MR_OP(MutableDenseHashTableV2,
    .doc      = "a mutable table of tensors, in which two keys are reserved",
    CHANGING(TWO_KEYS, init_dense, NAMES BUCKETS),
    .examples = MR_EXAMPLES("key_dtype=int64 value_dtype=float: 0, 1 -> shape()",
        "key_dtype=string value_dtype=float: \"a\", \"b\" -> shape()",
        "key_dtype=int64 value_dtype=int64: [0, 0], [0, 1] -> shape()",
        "key_dtype=int64 value_dtype=int64: 0, 0 -> !INVALID_ARGUMENT Empty and deleted keys cannot be equal",
        "key_dtype=int64 value_dtype=int64: 0, [1] -> !INVALID_ARGUMENT Empty and deleted keys must "
        "have same shape",
        "key_dtype=int64 value_dtype=int64 initial_num_buckets=3: 0, 1 -> !INVALID_ARGUMENT Number of "
        "buckets must be a power of 2, got: 3",
        "key_dtype=int64 value_dtype=int64 max_load_factor=1.5: 0, 1 -> !INVALID_ARGUMENT "
        "max_load_factor must be between 0 and 1, got: 1.5"));
MR_OP(MutableDenseHashTable, .doc = "an older form of MutableDenseHashTableV2",
    MAKER(ONE_KEY, "Ref(string)", init_dense, NAMES BUCKETS),
    .examples = MR_EXAMPLES("key_dtype=int64 value_dtype=float: 0 -> shape(2)", "key_dtype=string value_dtype=float: \"a\" -> shape(2)"));
MR_OP(AnonymousMutableDenseHashTable,
    .doc      = "a MutableDenseHashTableV2 that lives as long as its handles",
    CHANGING(TWO_KEYS, init_dense, BUCKETS),
    .examples = MR_EXAMPLES("key_dtype=int64 value_dtype=float: 0, 1 -> shape()",
                            "key_dtype=string value_dtype=float: \"a\", \"b\" -> shape()"));

/* ---- using tables ---- */

/* Checks that the types of the node's first n_in inputs and n_out outputs are those of the table. */
static mr_status *check_types(const mr_run *r, const mr_lookup *t, int n_in, int n_out, bool out_keys)
{
    int in[3] = {r->node->in_types[0], mr_lookup_key_type(t), mr_lookup_value_type(t)};
    int out[2] = {mr_lookup_key_type(t), mr_lookup_value_type(t)};
    const int *want_out = out_keys ? out : out + 1;
    bool same = true;
    for (int i = 1; i < n_in; i++)
        same = same && mr_dtype_base(r->node->in_types[i]) == (mr_dtype)in[i];
    for (int i = 0; i < n_out; i++)
        same = same && mr_dtype_base(r->node->out_types[i]) == (mr_dtype)want_out[i];
    return same ? NULL : mr_signature_mismatch(r, n_in, in, n_out, want_out);
}

static void unref_table(mr_lookup *t) { mr_object_unref((mr_object *)t); }

static mr_status *run_find(mr_run *r)
{
    mr_lookup *t;
    mr_tensor *out;
    MR_TRY(mr_lookup_of(r, &t));
    mr_status *st = check_types(r, t, 3, 1, false);
    if (!st)
        st = mr_lookup_find(t, mr_run_allocator(r), mr_in(r, 1), mr_in(r, 2), &out);
    if (!st)
        mr_run_set(r, 0, out);
    unref_table(t);
    return st;
}

static mr_status *change_table(mr_run *r,
                               mr_status *(*fn)(mr_lookup *, const mr_tensor *, const mr_tensor *))
{
    mr_lookup *t;
    MR_TRY(mr_lookup_of(r, &t));
    mr_status *st = check_types(r, t, 3, 0, false);
    if (!st)
        st = fn(t, mr_in(r, 1), mr_in(r, 2));
    unref_table(t);
    return st;
}

static mr_status *run_insert(mr_run *r) { return change_table(r, mr_lookup_insert); }
static mr_status *run_import(mr_run *r) { return change_table(r, mr_lookup_import); }

static mr_status *run_remove(mr_run *r)
{
    mr_lookup *t;
    MR_TRY(mr_lookup_of(r, &t));
    mr_status *st = check_types(r, t, 2, 0, false);
    if (!st)
        st = mr_lookup_remove(t, mr_in(r, 1));
    unref_table(t);
    return st;
}

static mr_status *run_size(mr_run *r)
{
    mr_lookup *t;
    mr_tensor *out;
    MR_TRY(mr_lookup_of(r, &t));
    mr_status *st = mr_run_output(r, 0, 0, NULL, &out);
    if (!st)
        *MR_DATA(int64_t, out) = mr_lookup_size(t);
    unref_table(t);
    return st;
}

static mr_status *run_export(mr_run *r)
{
    mr_lookup *t;
    mr_tensor *keys, *values;
    MR_TRY(mr_lookup_of(r, &t));
    mr_status *st = check_types(r, t, 1, 2, true);
    if (!st)
        st = mr_lookup_export(t, mr_run_allocator(r), &keys, &values);
    if (!st) {
        mr_run_set(r, 0, keys);
        mr_run_set(r, 1, values);
    }
    unref_table(t);
    return st;
}

static mr_status *check_vectors(const mr_run *r)
{
    const mr_tensor *keys = mr_in(r, 1), *values = mr_in(r, 2);
    if (keys->rank != 1)
        return mr_invalid("Keys must be a vector, but received shape %s", MR_TENSOR_SHAPE(keys));
    if (values->rank != 1)
        return mr_invalid("Values must be a vector, but received shape %s", MR_TENSOR_SHAPE(values));
    return keys->n == values->n ? NULL
                                : mr_invalid("Keys and values must be the same size %lld vs %lld",
                                             (long long)keys->n, (long long)values->n);
}

static mr_status *run_initialize(mr_run *r)
{
    mr_lookup *t;
    MR_TRY(mr_lookup_of(r, &t));
    mr_status *st = check_types(r, t, 3, 0, false);
    if (!st)
        st = check_vectors(r);
    if (!st)
        st = mr_lookup_initialize_with(t, mr_in(r, 1), mr_in(r, 2));
    unref_table(t);
    return st;
}

/* ---- shapes ---- */

static mr_status *check_handle(mr_infer *c)
{
    const mr_pshape *h;
    bool by_ref = mr_dtype_is_ref(c->node->in_types[0]);
    MR_TRY(mr_infer_rank(c, c->in[0], by_ref ? 1 : 0, &h));
    return by_ref ? mr_infer_dim_is(h->dims[0], 2) : NULL;
}

/* The handle of a mutable table carries the types and shapes of its keys and values. */
static mr_status *changing_shape(mr_infer *c)
{
    struct mr_handle_part *parts = mr_arena_array(c->arena, struct mr_handle_part, 2);
    mr_handle_info *info = mr_arena_new(c->arena, mr_handle_info);
    parts[0].shape = parts[1].shape = &mr_pshape_scalar;
    MR_TRY(mr_node_get_type(c->node, "key_dtype", &parts[0].dtype));
    MR_TRY(mr_node_get_type(c->node, "value_dtype", &parts[1].dtype));
    if (c->n_in > 0)
        MR_TRY(mr_infer_rank_at_most(c, c->in[0], 1, &parts[0].shape));
    if (mr_node_attr(c->node, "value_shape"))
        MR_TRY(mr_node_get_shape(c->node, "value_shape", &parts[1].shape));
    *info = (mr_handle_info){2, parts};
    c->out_handles[0] = info;
    mr_infer_out_scalar(c, 0);
    return NULL;
}

/* The shape of the values of `keys`, if the handle has it.  each: every row of keys is one key, of any shape. */
static mr_status *values_shape(mr_infer *c, const mr_pshape *keys, const char *key_attr, const char *value_attr, bool each,
                               const mr_pshape **out)
{
    const mr_handle_info *info = c->in_handles[0];
    const char *attrs[2] = {key_attr, value_attr};
    *out = &mr_pshape_unknown;
    if (!info || info->n != 2)
        return NULL;
    for (int i = 0; i < 2; i++) {
        mr_dtype got;
        MR_TRY(mr_node_get_type(c->node, attrs[i], &got));
        if (got != info->parts[i].dtype)
            return mr_invalid("Trying to read value with wrong dtype. Expected %s got %s", mr_dtype_name(info->parts[i].dtype),
                              mr_dtype_name(got));
    }
    const mr_pshape *key = info->parts[0].shape;
    if (each) {
        *out = mr_infer_concat(c, keys, info->parts[1].shape);
    } else if (key->rank >= 0 && keys->rank >= 0) {
        if (keys->rank < key->rank)
            return mr_invalid("Expected keys to have suffix %s but saw shape: %s", MR_PSHAPE_TEXT(key), MR_PSHAPE_TEXT(keys));
        *out = mr_infer_concat(c, mr_infer_sub(c, keys, 0, keys->rank - key->rank), info->parts[1].shape);
    }
    return NULL;
}

static mr_status *find_shape(mr_infer *c)
{
    const mr_pshape *ignored;
    MR_TRY(check_handle(c));
    if (mr_dtype_is_ref(c->node->in_types[0]))
        MR_TRY(mr_infer_rank_at_most(c, c->in[2], 1, &ignored));
    return values_shape(c, c->in[1], "Tin", "Tout", false, &c->out[0]);
}

static mr_status *export_shape(mr_infer *c)
{
    MR_TRY(check_handle(c));
    mr_infer_out_vector(c, 0, -1);
    return values_shape(c, c->out[0], "Tkeys", "Tvalues", true, &c->out[1]);
}

static mr_status *size_shape(mr_infer *c)
{
    MR_TRY(check_handle(c));
    mr_infer_out_scalar(c, 0);
    return NULL;
}

static mr_status *initialize_shape(mr_infer *c)
{
    const mr_pshape *keys;
    MR_TRY(check_handle(c));
    MR_TRY(mr_infer_rank(c, c->in[1], 1, &keys));
    return mr_infer_merge(c, keys, c->in[2], &keys);
}

/* ---- the ops ---- */

KEYED(find_kernels, run_find);
KEYED(insert_kernels, run_insert);
KEYED(import_kernels, run_import);
KEYED(remove_kernels, run_remove);
KEYED(export_kernels, run_export);
KEYED(initialize_kernels, run_initialize);

#define NEW_FORM .flags = MR_STATEFUL | MR_NO_GRADIENT
#define OLD_FORM .flags = MR_NO_FOLD | MR_NO_GRADIENT
#define USE(handle, in, out, attrs_, shape_, kernel)                                     \
    .sig = "table_handle: " handle in " ->" out, .attrs = attrs_, .shape = shape_,         \
    .kernels = kernel
#define FIND(handle)                                                                     \
    USE(handle, ", keys: Tin, default_value: Tout", " values: Tout", "Tin: type; Tout: type", \
        find_shape, find_kernels)
#define CHANGE(handle, kernel)                                                           \
    USE(handle, ", keys: Tin, values: Tout", "", "Tin: type; Tout: type", check_handle, kernel)
#define SIZE(handle) USE(handle, "", " size: int64", "", size_shape, MR_KERNELS(MR_CPU_ANY(run_size)))
#define EXPORT(handle)                                                                   \
    USE(handle, "", " keys: Tkeys, values: Tvalues", "Tkeys: type; Tvalues: type", export_shape, \
        export_kernels)
#define INITIALIZE(handle)                                                               \
    USE(handle, ", keys: Tkey, values: Tval", "", "Tkey: type; Tval: type", initialize_shape, \
        initialize_kernels)

#define ANY(in, out) "h = AnonymousMutableHashTable key_dtype=$" in " value_dtype=$" out "; "
#define ANY_PUT(in, out) \
    "LookupTableInsertV2 Tin=$" in " Tout=$" out ": h, fill(1, 2), fill(1, 2); "
#define OLD_ANY(in, out) \
    "h = MutableHashTable key_dtype=$" in " value_dtype=$" out " shared_name=\"t\"; "
#define T(value) "h = MutableHashTableV2 key_dtype=string value_dtype=" value " shared_name=\"t\"; "
#define PUT "LookupTableInsertV2: h, [\"a\", \"b\"], int64[1, 2]; "
#define OLD "h = MutableHashTable key_dtype=string value_dtype=int64 shared_name=\"t\"; "
#define OLD_PUT "LookupTableInsert: h, string[\"a\", \"b\"], int64[1, 2]; "
#define ONCE "h = HashTableV2 key_dtype=string value_dtype=int64 shared_name=\"t\"; "
#define DENSE(more)                                                                      \
    "h = MutableDenseHashTableV2 key_dtype=int64 value_dtype=int64 shared_name=\"t\" "     \
    "initial_num_buckets=4 " more ": int64 0, int64 -1; "
#define ROWS                                                                             \
    "h = MutableHashTableOfTensorsV2 key_dtype=string value_dtype=int64 value_shape=[2] "  \
    "shared_name=\"t\"; LookupTableInsertV2: h, string[\"a\"], int64[[1, 2]]; "

MR_OP(LookupTableFindV2,
    .doc      = "the values of keys, default_value for keys that are not in the table",
    FIND("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(
        T("int64") PUT "Tin=string Tout=int64: h, [[\"b\", \"x\"], [\"a\", \"\"]], -1 -> "
                       "int64[[2, -1], [1, -1]]",
        T("int64") PUT "Tin=string Tout=int64: h, [\"x\", \"a\"], [7, 8] -> int64[7, 1]",
        T("int64") PUT "Tin=string Tout=int64: h, \"a\", 0 -> int64 1",
        T("string") "Tin=string Tout=string: h, \"a\", \"none\" -> string \"none\"",
        ROWS "Tin=string Tout=int64: h, [\"a\", \"x\"], [8, 9] -> int64[[1, 2], [8, 9]]",
        ROWS "Tin=string Tout=int64: h, [\"a\", \"x\"], 0 -> !INVALID_ARGUMENT Expected shape [2] or "
             "[2,2] for default value, got []",
        DENSE("") "LookupTableInsertV2: h, int64[1, 2], int64[10, 20]; Tin=int64 Tout=int64: h, "
                  "[2, 3], 0 -> int64[20, 0]",
        DENSE("") "Tin=int64 Tout=int64: h, [[0, 5]], 0 -> !INVALID_ARGUMENT Expected key shape [1] got [1,2]",
        DENSE("") "Tin=int64 Tout=int64: h, [0], 0 -> !INVALID_ARGUMENT Using the empty_key as a table "
                  "key is not allowed",
        DENSE("") "Tin=int64 Tout=int64: h, [-1], 0 -> !INVALID_ARGUMENT Using the deleted_key as a "
                  "table key is not allowed",
        ONCE "Tin=string Tout=int64: h, \"a\", 0 -> !FAILED_PRECONDITION Table not initialized.",
        ONCE "LookupTableImportV2: h, string[\"a\", \"b\"], int64[1, 2]; Tin=string Tout=int64: h, [\"b\", \"x\"], -1 -> int64[2, -1]",
        ONCE "Tin=string Tout=float: h, \"a\", 0 -> !INVALID_ARGUMENT Signature mismatch, have: "
             "resource, string, float->float expected: resource, string, int64->int64",
        T("int64") "Tin=string Tout=float: h, \"a\", 0 -> !INVALID_ARGUMENT Trying to read value with wrong dtype. Expected int64 got float",
        DENSE("") "Tin=string Tout=int64: h, \"a\", 0 -> !INVALID_ARGUMENT Trying to read value with wrong dtype. Expected int64 got string",
        ANY("Tin", "Tout") ANY_PUT("Tin", "Tout") "Tout=int64: h, fill(1, 3), fill(0) -> fill(1, 3)"));
MR_OP(LookupTableFind, .doc = "the older form of LookupTableFindV2",
    FIND("Ref(string)"), OLD_FORM,
    .examples = MR_EXAMPLES(
        OLD OLD_PUT "Tin=string Tout=int64: h, [\"b\", \"x\"], 0 -> int64[2, 0]",
        "Tin=string Tout=int64: [\"localhost\", \"none\"], \"a\", 0 -> !NOT_FOUND does not exist",
        OLD_ANY("Tin", "Tout") "Tout=int64: h, fill(1, 3), fill(0) -> fill(0, 3)"));
MR_OP(LookupTableInsertV2,
    .doc      = "sets the values of keys",
    CHANGE("resource", insert_kernels), NEW_FORM,
    .examples = MR_EXAMPLES(
        T("int64") PUT "Tin=string Tout=int64: h, [\"b\", \"c\", \"b\"], [5, 6, 7] ->",
        T("int64") "Tin=string Tout=int64: h, shape(0), shape(0) ->",
        T("int64") "Tin=string Tout=int64: h, [\"a\"], [[1]] -> !INVALID_ARGUMENT Expected shape [1] for "
                   "value, got [1,1]",
        DENSE("") "Tin=int64 Tout=int64: h, [1, 0], [1, 1] -> !INVALID_ARGUMENT Using the empty_key",
        DENSE("") "Tin=int64 Tout=int64: h, [[1, 0]], [[1, 1]] -> !INVALID_ARGUMENT Expected key shape [1] got [1,2]",
        ONCE "Tin=string Tout=int64: h, \"a\", 0 -> !UNIMPLEMENTED Insert not supported by "
             "InitializableLookupTable",
        ANY("Tin", "Tout") "Tout=int64: h, fill(1, 3), fill(0, 3) ->"));
MR_OP(LookupTableInsert, .doc = "the older form of LookupTableInsertV2",
    CHANGE("Ref(string)", insert_kernels), OLD_FORM,
    .examples = MR_EXAMPLES(
        OLD "Tin=string Tout=int64: h, [\"b\", \"c\"], [5, 6] ->",
        OLD_ANY("Tin", "Tout") "Tout=int64: h, fill(1, 3), fill(0, 3) ->"));
MR_OP(LookupTableImportV2,
    .doc      = "replaces the contents of a table with these pairs",
    CHANGE("resource", import_kernels), NEW_FORM,
    .examples = MR_EXAMPLES(
        T("int64") PUT "Tin=string Tout=int64: h, [\"c\"], [6] ->",
        DENSE("") "Tin=int64 Tout=int64: h, [1, 0, -1, 2], [1, 0, 0, 2] ->",
        ONCE "Tin=string Tout=int64: h, [\"a\", \"b\"], [1, 2] ->",
        ONCE "Tin=string Tout=int64: h, [\"a\", \"a\"], [1, 2] -> !FAILED_PRECONDITION HashTable has different value for same key. "
             "Key a has 1 and trying to add value 2",
        ONCE "LookupTableImportV2: h, string[\"a\", \"b\"], int64[1, 2]; Tin=string Tout=int64: h, [\"b\", \"a\"], [2, 1] ->",
        ONCE "LookupTableImportV2: h, string[\"a\", \"b\"], int64[1, 2]; Tin=string Tout=int64: h, [\"b\"], [2] -> "
             "!FAILED_PRECONDITION Table was already initialized with different data.",
        ANY("Tin", "Tout") "Tout=int64: h, fill(1, 3), fill(0, 3) ->"));
MR_OP(LookupTableImport, .doc = "the older form of LookupTableImportV2",
    CHANGE("Ref(string)", import_kernels), OLD_FORM,
    .examples = MR_EXAMPLES(
        OLD "Tin=string Tout=int64: h, [\"b\", \"c\"], [5, 6] ->",
        OLD_ANY("Tin", "Tout") "Tout=int64: h, fill(1, 3), fill(0, 3) ->"));
MR_OP(LookupTableRemoveV2,
    .doc      = "removes keys and their values; keys that are not in the table are ignored",
    USE("resource", ", keys: Tin", "", "Tin: type", check_handle, remove_kernels), NEW_FORM,
    .examples = MR_EXAMPLES(
        T("int64") PUT "Tin=string: h, [\"b\", \"x\"] ->",
        DENSE("") "Tin=int64: h, [5] ->",
        DENSE("") "Tin=int64: h, [[5, 6]] -> !INVALID_ARGUMENT Expected key shape [1] got [1,2]",
        DENSE("") "Tin=int64: h, [0] -> !INVALID_ARGUMENT Using the empty_key as a table key",
        ONCE "Tin=string: h, \"a\" -> !UNIMPLEMENTED Remove not supported by",
        "h = AnonymousMutableHashTable key_dtype=$Tin value_dtype=int64; : h, fill(1, 3) ->"));
MR_OP(LookupTableSizeV2,
    .doc      = "how many keys a table has",
    SIZE("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(
        T("int64") ": h -> 0", T("int64") PUT ": h -> 2", T("int64") PUT PUT ": h -> 2",
        T("int64") PUT "LookupTableImportV2: h, string[\"c\"], int64[6]; : h -> 1",
        T("int64") PUT "LookupTableRemoveV2: h, string[\"a\", \"x\"]; : h -> 1",
        DENSE("") "LookupTableImportV2: h, int64[1, 0, -1, 2], int64[1, 0, 0, 2]; : h -> 2",
        ONCE ": h -> 0"));
MR_OP(LookupTableSize, .doc = "the older form of LookupTableSizeV2",
    SIZE("Ref(string)"), OLD_FORM, .examples = MR_EXAMPLES(OLD OLD_PUT ": h -> 2"));
MR_OP(LookupTableExportV2,
    .doc      = "all keys and their values",
    EXPORT("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(
        T("int64") "LookupTableInsertV2: h, string[\"a\"], int64[5]; Tkeys=string Tvalues=int64: h -> "
                   "string[\"a\"], int64[5]",
        T("int64") "Tkeys=string Tvalues=int64: h -> string shape(0), int64 shape(0)",
        ROWS "Tkeys=string Tvalues=int64: h -> string[\"a\"], int64[[1, 2]]",
        DENSE("") "LookupTableInsertV2: h, int64[7], int64[8]; Tkeys=int64 Tvalues=int64: h -> "
                  "int64[7, 0, 0, 0], int64[8, 0, 0, 0]",
        ONCE "Tkeys=string Tvalues=int64: h -> !ABORTED HashTable is not initialized.",
        ANY("Tkeys", "Tvalues") ANY_PUT("Tkeys", "Tvalues") "Tvalues=int64: h -> fill(1, 1), fill(1, 1)"));
MR_OP(LookupTableExport, .doc = "the older form of LookupTableExportV2",
    EXPORT("Ref(string)"), OLD_FORM,
    .examples = MR_EXAMPLES(
        OLD "Tkeys=string Tvalues=int64: h -> string shape(0), int64 shape(0)",
        OLD_ANY("Tkeys", "Tvalues") "Tvalues=int64: h -> shape(0), shape(0)"));
#define FILLED ONCE "InitializeTableV2: h, string[\"a\", \"b\"], int64[1, 2]; "
MR_OP(InitializeTableV2,
    .doc      = "fills a table, once",
    INITIALIZE("resource"), NEW_FORM,
    .examples = MR_EXAMPLES(
        ONCE "Tkey=string Tval=int64: h, [\"a\", \"b\", \"a\"], [1, 2, 1] ->",
        ONCE "Tkey=string Tval=int64: h, [\"a\", \"a\"], [1, 2] -> !FAILED_PRECONDITION HashTable has "
             "different value for same key. Key a has 1 and trying to add value 2",
        FILLED "Tkey=string Tval=int64: h, [\"b\", \"a\"], [2, 1] ->",
        FILLED "Tkey=string Tval=int64: h, [\"b\"], [1] -> !FAILED_PRECONDITION Table was already "
               "initialized with different data.",
        FILLED "Tkey=string Tval=int64: h, [\"b\"], [2] -> !FAILED_PRECONDITION different data",
        ONCE "Tkey=string Tval=int64: h, [\"a\"], [1, 2] -> !INVALID_ARGUMENT must be equal",
        ONCE "Tkey=string Tval=int64: h, string shape(0), int64 shape(0) -> !INVALID_ARGUMENT keys and values cannot be empty tensors.",
        T("int64") "Tkey=string Tval=int64: h, [\"a\"], [1] -> !INVALID_ARGUMENT not initializable",
        "h = HashTableV2 key_dtype=$Tkey value_dtype=$Tval shared_name=\"t\"; Tval=int64: h, fill(1, 1), fill(0, 1) ->"));
MR_OP(InitializeTable, .doc = "the older form of InitializeTableV2",
    INITIALIZE("Ref(string)"), OLD_FORM,
    .examples = MR_EXAMPLES(
        "h = HashTable key_dtype=string value_dtype=int64 shared_name=\"t\"; "
                            "Tkey=string Tval=int64: h, [\"a\"], [1] ->",
        "h = HashTable key_dtype=$Tkey value_dtype=$Tval shared_name=\"t\"; Tval=int64: h, fill(1, 1), fill(0, 1) ->"));
