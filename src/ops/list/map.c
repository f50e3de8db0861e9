/* ops/list/map.c -- maps from tensors to tensors that are passed as variants.
 *
 * A map is a value like a list (list.h): ops create new ones, and change one in place only if nobody else holds it.
 * Entries are in the order of their insertion; a hash of the key selects a bucket, whose entries are chained by
 * index. */
#include "base/memory.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "ops/state/update.h"
#include "run/run.h"
#include "tensor/variant.h"

typedef struct entry {
    uint64_t hash;
    mr_tensor *key, *value;
    int next; /* next entry of the same bucket; -1: none */
} entry;

typedef struct map {
    mr_object base;
    MR_VEC(entry) e;
    int *buckets; /* first entry of each; -1: none */
    int n_buckets; /* a power of two, or 0 */
} map;

/* ---- creation and destruction ---- */

static void map_free(mr_object *o)
{
    map *m = (map *)o;
    for (int i = 0; i < m->e.n; i++) {
        mr_tensor_unref(m->e.p[i].key);
        mr_tensor_unref(m->e.p[i].value);
    }
    mr_vec_deinit(&m->e);
    mr_free(m->buckets);
    mr_free(m);
}

static const mr_object_type map_type;

static map *map_new(void)
{
    map *m = mr_new(map);
    mr_object_init(&m->base, &map_type);
    return m;
}

static void link_entry(map *m, int i)
{
    int *b = &m->buckets[m->e.p[i].hash & (uint64_t)(m->n_buckets - 1)];
    m->e.p[i].next = *b;
    *b = i;
}

/* Makes buckets for at least n entries, and enters all entries. */
static mr_status *rehash_entries(map *m, int n)
{
    int want = MR_MAX(m->n_buckets, 8);
    while (want < n)
        want *= 2;
    if (want != m->n_buckets) {
        int *b = mr_try_realloc(m->buckets, sizeof(int) * (size_t)want);
        if (!b)
            return mr_error(MR_RESOURCE_EXHAUSTED, "No memory for a map of %d tensors", n);
        m->buckets = b;
        m->n_buckets = want;
    }
    memset(m->buckets, -1, sizeof(int) * (size_t)m->n_buckets);
    for (int i = 0; i < m->e.n; i++)
        link_entry(m, i);
    return NULL;
}

static uint64_t mix_hash(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static uint64_t hash_bytes(uint64_t h, const char *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t v;
        memcpy(&v, p, 8);
        h = mix_hash(h, v);
    }
    for (size_t i = 0; i < n; i++)
        h = mix_hash(h, (unsigned char)p[i]);
    return h;
}

static uint64_t hash_of(const mr_tensor *t)
{
    uint64_t h = mix_hash(t->dtype, t->rank);
    for (int i = 0; i < t->rank; i++)
        h = mix_hash(h, (uint64_t)t->dims[i]);
    if (t->dtype != MR_STRING)
        return hash_bytes(h, t->data, mr_tensor_bytes(t));
    for (int64_t i = 0; i < t->n; i++) {
        mr_sv s = mr_tensor_str_at(t, i);
        h = hash_bytes(mix_hash(h, s.n), s.p, s.n);
    }
    return h;
}

static entry *find_entry(const map *m, const mr_tensor *key)
{
    if (!m->n_buckets)
        return NULL;
    uint64_t hash = hash_of(key);
    for (int i = m->buckets[hash & (uint64_t)(m->n_buckets - 1)]; i >= 0; i = m->e.p[i].next)
        if (m->e.p[i].hash == hash && mr_tensor_equal(m->e.p[i].key, key))
            return &m->e.p[i];
    return NULL;
}

static mr_status *put_entry(map *m, mr_tensor *key, mr_tensor *value)
{
    entry *old = find_entry(m, key);
    if (old) {
        mr_tensor_unref(old->value);
        old->value = mr_tensor_ref(value);
        return NULL;
    }
    if (m->e.n >= m->n_buckets)
        MR_TRY(rehash_entries(m, m->e.n + 1));
    mr_vec_push(&m->e, (entry){hash_of(key), mr_tensor_ref(key), mr_tensor_ref(value), -1});
    link_entry(m, m->e.n - 1);
    return NULL;
}

static mr_status *copy_map(const map *m, map **out)
{
    map *c = map_new();
    for (int i = 0; i < m->e.n; i++)
        mr_vec_push(&c->e, (entry){m->e.p[i].hash, mr_tensor_ref(m->e.p[i].key), mr_tensor_ref(m->e.p[i].value), -1});
    mr_status *st = rehash_entries(c, c->e.n);
    if (st)
        mr_object_unref(&c->base);
    else
        *out = c;
    return st;
}

/* ---- zeros and sums ---- */

static mr_status *map_zeros(const mr_object *o, mr_allocator *a, mr_object **out)
{
    map *z;
    mr_status *st = NULL;
    MR_TRY(copy_map((const map *)o, &z));
    for (int i = 0; i < z->e.n && !st; i++) {
        mr_tensor *v = z->e.p[i].value, *zero = NULL;
        st = v->dtype == MR_VARIANT ? mr_variants_zeros_like(a, v, &zero) : mr_tensor_zeros(a, v->dtype, v->rank, v->dims, &zero);
        if (!st) {
            mr_tensor_unref(v);
            z->e.p[i].value = zero;
        }
    }
    if (st)
        mr_object_unref(&z->base);
    else
        *out = &z->base;
    return st;
}

static mr_status *sum_of(mr_allocator *a, const mr_tensor *x, const mr_tensor *y, mr_tensor **out)
{
    if (x->dtype != y->dtype || !mr_tensor_same_shape(x, y))
        return mr_invalid("Cannot add values %s %s and %s %s of two maps", mr_dtype_name(x->dtype), MR_TENSOR_SHAPE(x),
                          mr_dtype_name(y->dtype), MR_TENSOR_SHAPE(y));
    if (x->dtype == MR_VARIANT)
        return mr_variants_add(a, x, y, out);
    mr_update_loop *add = mr_update_find(MR_UPDATE_ADD, x->dtype);
    if (!add)
        return mr_error(MR_UNIMPLEMENTED, "Cannot add values of type %s", mr_dtype_name(x->dtype));
    MR_TRY(mr_tensor_copy(a, x, out));
    add((*out)->data, y->data, y->n);
    return NULL;
}

/* A key that only one map has keeps its value. */
static mr_status *map_add(const mr_object *x, const mr_object *y, mr_allocator *a, mr_object **out)
{
    map *z;
    const map *other = (const map *)y;
    mr_status *st = NULL;
    MR_TRY(copy_map((const map *)x, &z));
    for (int i = 0; i < other->e.n && !st; i++) {
        const entry *e = &other->e.p[i];
        entry *mine = find_entry(z, e->key);
        mr_tensor *sum;
        if (!mine) {
            st = put_entry(z, e->key, e->value);
        } else if (!(st = sum_of(a, mine->value, e->value, &sum))) {
            mr_tensor_unref(mine->value);
            mine->value = sum;
        }
    }
    if (st)
        mr_object_unref(&z->base);
    else
        *out = &z->base;
    return st;
}

static const mr_object_type map_type = {"tensorflow::TensorMap", map_free, map_zeros, map_add, NULL, NULL};

/* ---- inputs and outputs of kernels ---- */

static mr_status *map_in(const mr_run *r, const map **out)
{
    const mr_tensor *t = mr_in(r, 0);
    mr_object *o = t->rank == 0 ? *MR_DATA(mr_object *, t) : NULL;
    if (!o || o->type != &map_type)
        return mr_invalid("Input handle is not a map. Saw: '%s' of shape %s", o ? o->type->name : "[empty]", MR_TENSOR_SHAPE(t));
    *out = (const map *)o;
    return NULL;
}

/* For changing: the input's own map if nobody else holds it, else a copy. */
static mr_status *map_take(mr_run *r, map **out)
{
    const map *m;
    MR_TRY(map_in(r, &m));
    if (!mr_tensor_sole(mr_in(r, 0)) || !mr_refs_sole(&m->base.refs))
        return copy_map(m, out);
    *out = *MR_DATA(map *, mr_in(r, 0));
    *MR_DATA(map *, mr_in(r, 0)) = NULL;
    return NULL;
}

static mr_status *give_map(mr_run *r, map *m)
{
    mr_tensor *t;
    MR_TRY(mr_variant_tensor(&m->base, &t));
    mr_run_set(r, 0, t);
    return NULL;
}

/* A handle has no value that could be a key. */
static mr_status *check_key(const mr_tensor *key)
{
    return key->dtype == MR_RESOURCE || key->dtype == MR_VARIANT
               ? mr_error(MR_UNIMPLEMENTED, "A %s cannot be a key of a map", mr_dtype_name(key->dtype))
               : NULL;
}

static mr_status *missing_key(const char *what, const mr_tensor *key)
{
    mr_str text = {0};
    mr_tensor_summarize(key, 3, &text);
    mr_status *st = mr_invalid("Trying to %s non-existent key. Could not find key \"%s\" in TensorMap.", what, mr_str_z(&text));
    mr_str_deinit(&text);
    return st;
}

/* ---- the ops ---- */

static mr_status *run_empty(mr_run *r) { return give_map(r, map_new()); }

MR_OP(EmptyTensorMap,
    .doc      = "a map from tensors to tensors with nothing in it",
    .sig      = "-> handle: variant",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_empty)),
    .examples = MR_EXAMPLES("-> shape()"));

static mr_status *run_size(mr_run *r)
{
    const map *m;
    mr_tensor *n;
    MR_TRY(map_in(r, &m));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &n));
    *MR_DATA(int32_t, n) = m->e.n;
    return NULL;
}

MR_OP(TensorMapSize,
    .doc      = "how many keys a map has",
    .sig      = "input_handle: variant -> size: int32",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_size)),
    .examples = MR_EXAMPLES("m = EmptyTensorMap; : m -> 0",
                            "e = EmptyTensorMap; m = TensorMapInsert key_dtype=string: e, \"a\", 1; n = TensorMapInsert key_dtype=string: m, \"a\", 2; : n -> 1",
                            "l = EmptyTensorList element_dtype=float: int32[2], 1; : l -> !INVALID_ARGUMENT not a map"));

static mr_status *run_insert(mr_run *r)
{
    map *m;
    MR_TRY(check_key(mr_in(r, 1)));
    MR_TRY(map_take(r, &m));
    mr_status *st = put_entry(m, mr_in(r, 1), mr_in(r, 2));
    if (!st)
        return give_map(r, m);
    mr_object_unref(&m->base);
    return st;
}

/* Something must be removed from the gradient only if it has the key. */
static void insert_backward(mr_grad *g)
{
    mr_out d = mr_dy(g, "output_handle"), key = mr_x(g, "key"), value = mr_x(g, "value");
    mr_named_attr type = {"value_dtype", mr_a_type(value.node ? (int)mr_dtype_base(mr_out_type(value)) : MR_FLOAT)};
    mr_out has = mr_emit(g->s, "TensorMapHasKey", d, key);
    mr_out way = mr_emit(g->s, "Switch", d, has);
    mr_out erased = mr_emit_with(g->s, "TensorMapErase", MR_ATTRS(type), mr_nth(way, 1), key);
    mr_dx(g, "input_handle", mr_emit(g->s, "Merge", way, erased));
    mr_out found = mr_emit_with(g->s, "TensorMapLookup", MR_ATTRS(type), mr_nth(way, 1), key);
    mr_out none = mr_emit(g->s, "ZerosLike", mr_emit(g->s, "Switch", value, has));
    mr_dx(g, "value", mr_emit(g->s, "Merge", none, found));
}

MR_OP(TensorMapInsert,
    .doc      = "the map with this value under this key",
    .sig      = "input_handle: variant, key: key_dtype, value: value_dtype -> output_handle: variant",
    .attrs    = "key_dtype: type; value_dtype: type",
    .key      = "value_dtype",
    .shape    = mr_shape_scalar,
    .grad     = insert_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_insert)),
    .examples = MR_EXAMPLES("m = EmptyTensorMap; nograd: m, int32[1, 2], [3, 4] -> shape()",
                            "m = EmptyTensorMap; nograd: m, \"a\", shape(0) -> shape()"));

static mr_status *run_lookup(mr_run *r)
{
    const map *m;
    MR_TRY(map_in(r, &m));
    MR_TRY(check_key(mr_in(r, 1)));
    const entry *e = find_entry(m, mr_in(r, 1));
    if (!e)
        return missing_key("lookup", mr_in(r, 1));
    if (e->value->dtype != mr_out_dtype(r, 0))
        return mr_invalid("Invalid data types; op wants %s but the value is of type %s", mr_dtype_name(mr_out_dtype(r, 0)),
                          mr_dtype_name(e->value->dtype));
    mr_run_set(r, 0, mr_tensor_ref(e->value));
    return NULL;
}

static void lookup_backward(mr_grad *g)
{
    mr_dx(g, "input_handle", mr_emit(g->s, "TensorMapInsert", mr_emit0(g->s, "EmptyTensorMap"), mr_x(g, "key"), mr_dy(g, "value")));
}

MR_OP(TensorMapLookup,
    .doc      = "the value under a key",
    .sig      = "input_handle: variant, key: key_dtype -> value: value_dtype",
    .attrs    = "key_dtype: type; value_dtype: type",
    .key      = "value_dtype",
    .shape    = mr_shape_unknown,
    .grad     = lookup_backward,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_lookup)),
    .examples = MR_EXAMPLES(
        "e = EmptyTensorMap; m = TensorMapInsert key_dtype=string value_dtype=$T: e, \"a\", [1, 2]; nograd value_dtype=$T: m, "
        "\"a\" -> [1, 2]",
        "m = EmptyTensorMap; value_dtype=float: m, \"a\" -> !INVALID_ARGUMENT non-existent key",
        "e = EmptyTensorMap; m = TensorMapInsert key_dtype=string: e, \"a\", float[1, 2]; value_dtype=int32: m, \"a\" -> !INVALID_ARGUMENT"));

static mr_status *run_erase(mr_run *r)
{
    map *m;
    MR_TRY(check_key(mr_in(r, 1)));
    MR_TRY(map_take(r, &m));
    entry *e = find_entry(m, mr_in(r, 1));
    mr_status *st = e ? NULL : missing_key("erase", mr_in(r, 1));
    if (e) {
        mr_tensor_unref(e->key);
        mr_tensor_unref(e->value);
        int at = (int)(e - m->e.p);
        memmove(e, e + 1, sizeof(entry) * (size_t)(m->e.n - at - 1)); /* the others keep their order */
        m->e.n--;
        st = rehash_entries(m, m->e.n);
    }
    if (!st)
        return give_map(r, m);
    mr_object_unref(&m->base);
    return st;
}

MR_OP(TensorMapErase,
    .doc      = "the map without this key",
    .sig      = "input_handle: variant, key: key_dtype -> output_handle: variant",
    .attrs    = "key_dtype: type; value_dtype: type",
    .key      = "value_dtype",
    .shape    = mr_shape_scalar,
    .grad     = mr_grad_identity,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_erase)),
    .examples = MR_EXAMPLES(
        "e = EmptyTensorMap; m = TensorMapInsert key_dtype=string value_dtype=$T: e, \"a\", [1, 2]; nograd value_dtype=$T: m, \"a\" -> shape()",
        "m = EmptyTensorMap; value_dtype=float: m, \"a\" -> !INVALID_ARGUMENT non-existent key"));

static mr_status *has_key(mr_run *r)
{
    const map *m;
    mr_tensor *y;
    MR_TRY(map_in(r, &m));
    MR_TRY(check_key(mr_in(r, 1)));
    MR_TRY(mr_run_output(r, 0, 0, NULL, &y));
    *MR_DATA(bool, y) = find_entry(m, mr_in(r, 1)) != NULL;
    return NULL;
}

MR_OP(TensorMapHasKey,
    .doc      = "whether a map has a value under a key",
    .sig      = "input_handle: variant, key: key_dtype -> has_key: bool",
    .attrs    = "key_dtype: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(has_key)),
    .examples = MR_EXAMPLES(
        "e = EmptyTensorMap; m = TensorMapInsert key_dtype=$T: e, [1, 0], 2; key_dtype=$T: m, [1, 0] -> true",
        "e = EmptyTensorMap; m = TensorMapInsert key_dtype=$T: e, [1, 0], 2; key_dtype=$T: m, [1, 1] -> false"));

static mr_status *stack_keys(mr_run *r)
{
    const map *m;
    mr_tensor *y;
    mr_shape shape = {.rank = 1};
    MR_TRY(map_in(r, &m));
    if (m->e.n == 0)
        return mr_invalid("TensorMapStackKeys cannot be called on empty map.");
    const mr_tensor *first = m->e.p[0].key;
    shape.dims[0] = m->e.n;
    for (int i = 0; i < first->rank; i++)
        MR_TRY(mr_shape_push(&shape, first->dims[i]));
    for (int i = 0; i < m->e.n; i++) {
        const mr_tensor *k = m->e.p[i].key;
        if (k->dtype != mr_out_dtype(r, 0))
            return mr_invalid("Key does not match requested dtype.");
        if (!mr_tensor_same_shape(k, first))
            return mr_invalid("Keys must all have the same shape.");
    }
    MR_TRY(mr_run_output(r, 0, shape.rank, shape.dims, &y));
    for (int i = 0; i < m->e.n; i++)
        MR_TRY(mr_tensor_try_copy_elements(y, i * first->n, m->e.p[i].key, 0, first->n));
    return NULL;
}

MR_OP(TensorMapStackKeys,
    .doc      = "all keys of a map, along a new first dimension",
    .sig      = "input_handle: variant -> keys: key_dtype",
    .attrs    = "key_dtype: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_unknown,
    .kernels  = MR_KERNELS(MR_CPU_ANY(stack_keys)),
    .examples = MR_EXAMPLES(
        "e = EmptyTensorMap; m = TensorMapInsert key_dtype=$T: e, [1, 0], 2; key_dtype=$T: m -> [[1, 0]]",
        "m = EmptyTensorMap; key_dtype=float: m -> !INVALID_ARGUMENT empty map",
        "e = EmptyTensorMap; m = TensorMapInsert key_dtype=string value_dtype=float: e, \"a\", 2; key_dtype=float: m -> !INVALID_ARGUMENT dtype"));
