/* ops/table/table.c -- see table.h.
 *
 * Entries are contiguous in two tensors, keys and values, which grow by doubling; an open-addressing hash
 * of entry numbers finds them.  When an entry is removed, the last entry takes its place and the hash
 * closes the gap, so there are no deletion marks.  Each table has a secret hash key, so that nobody can
 * make keys collide.
 *
 * TensorFlow's dense table exports its buckets and grows by its own rule, so the number of buckets that it
 * would have is tracked here. */
#include "ops/table/table.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/siphash.h"
#include "ops/queue/named.h"
#include "ops/string/hashes.h"

struct mr_lookup {
    mr_object base;
    mr_lookup_kind kind;
    mr_dtype key, value;
    mr_shape *key_shape, *value_shape; /* shape of one key, one value */
    int64_t key_width, value_width;    /* elements of one key, one value */
    mr_tensor *empty_key, *deleted_key;
    float max_load;
    uint64_t secret[2];

    mr_mutex mu;
    bool initialized MR_GUARDED_BY(mu);
    int64_t n MR_GUARDED_BY(mu), cap MR_GUARDED_BY(mu);
    mr_tensor *keys MR_GUARDED_BY(mu), *values MR_GUARDED_BY(mu); /* cap rows; NULL while cap is 0 */
    int64_t *slots MR_GUARDED_BY(mu);                             /* entry + 1; 0: free */
    int64_t n_slots MR_GUARDED_BY(mu);                            /* a power of two, over cap */
    int64_t n_buckets MR_GUARDED_BY(mu);
};

static void free_table(mr_object *o)
{
    mr_lookup *t = (mr_lookup *)o;
    mr_tensor_unref(t->keys);
    mr_tensor_unref(t->values);
    mr_tensor_unref(t->empty_key);
    mr_tensor_unref(t->deleted_key);
    mr_free(t->slots);
    mr_free(t->key_shape);
    mr_free(t->value_shape);
    mr_mutex_deinit(&t->mu);
    mr_free(t);
}

const mr_object_type mr_lookup_type = {"tensorflow::lookup::LookupInterface", free_table};

/* ---- creation ---- */

static bool same_rows(const mr_tensor *a, int64_t i, const mr_tensor *b, int64_t k, int64_t width)
{
    if (a->dtype == MR_STRING) {
        for (int64_t e = 0; e < width; e++)
            if (!mr_sv_eq(mr_tensor_str_at(a, i * width + e), mr_tensor_str_at(b, k * width + e)))
                return false;
        return true;
    }
    size_t bytes = (size_t)width * mr_dtype_size(a->dtype);
    return memcmp((char *)a->data + (size_t)i * bytes, (char *)b->data + (size_t)k * bytes, bytes) == 0;
}

static mr_status *check_dense(const mr_lookup_spec *s)
{
    const mr_tensor *e = s->empty_key, *d = s->deleted_key;
    if (s->n_buckets < 1 || (s->n_buckets & (s->n_buckets - 1)) != 0)
        return mr_invalid("Number of buckets must be a power of 2, got: %lld",
                          (long long)s->n_buckets);
    if (!(s->max_load > 0 && s->max_load < 1))
        return mr_invalid("max_load_factor must be between 0 and 1, got: %g", (double)s->max_load);
    if (d && !mr_tensor_same_shape(e, d))
        return mr_invalid("Empty and deleted keys must have same shape, got shapes: %s and %s",
                          MR_TENSOR_SHAPE(e), MR_TENSOR_SHAPE(d));
    if (e->n == 0)
        return mr_invalid("the empty key has no elements: its shape is %s", MR_TENSOR_SHAPE(e));
    if (d && same_rows(e, 0, d, 0, e->n))
        return mr_invalid("Empty and deleted keys cannot be equal");
    return NULL;
}

static mr_status *check_spec(const mr_lookup_spec *s)
{
    if (s->key != MR_STRING && !mr_dtype_is_plain(s->key))
        return mr_error(MR_UNIMPLEMENTED, "keys of type %s are not supported", mr_dtype_name(s->key));
    if (s->kind == MR_LOOKUP_DENSE)
        MR_TRY(check_dense(s));
    return NULL;
}

static mr_shape *shape_of(int rank, const int64_t *dims)
{
    mr_shape *s = mr_new(mr_shape);
    mr_shape_set(s, rank, dims);
    return s;
}

mr_status *mr_lookup_new(const mr_lookup_spec *s, mr_lookup **out)
{
    int64_t width;
    MR_TRY(check_spec(s));
    MR_TRY(mr_shape_elements(s->value_rank, s->value_dims, &width));
    mr_lookup *t = mr_new(mr_lookup);
    mr_object_init(&t->base, &mr_lookup_type);
    mr_mutex_init(&t->mu);
    t->kind = s->kind;
    t->key = s->key;
    t->value = s->value;
    t->key_shape = s->empty_key ? shape_of(s->empty_key->rank, s->empty_key->dims)
                                : shape_of(0, NULL);
    t->key_width = s->empty_key ? s->empty_key->n : 1;
    t->value_shape = shape_of(s->value_rank, s->value_dims);
    t->value_width = width;
    t->empty_key = mr_tensor_ref(s->empty_key);
    t->deleted_key = mr_tensor_ref(s->deleted_key);
    t->n_buckets = s->n_buckets;
    t->max_load = s->max_load;
    t->secret[0] = mr_random64();
    t->secret[1] = mr_random64();
    *out = t;
    return NULL;
}

mr_status *mr_lookup_matches(mr_lookup *t, const mr_lookup_spec *s, const char *name)
{
    if (t->key == s->key && t->value == s->value && t->kind == s->kind)
        return NULL;
    return mr_invalid("Conflicting key/value dtypes %s->%s with %s-%s for table %s",
                      mr_dtype_name(s->key), mr_dtype_name(s->value), mr_dtype_name(t->key),
                      mr_dtype_name(t->value), name);
}

mr_lookup_kind mr_lookup_get_kind(const mr_lookup *t) { return t->kind; }
mr_dtype mr_lookup_key_type(const mr_lookup *t) { return t->key; }
mr_dtype mr_lookup_value_type(const mr_lookup *t) { return t->value; }

int64_t mr_lookup_size(mr_lookup *t)
{
    mr_lock(&t->mu);
    int64_t n = t->n;
    mr_unlock(&t->mu);
    return n;
}

/* ---- lookup ---- */

static uint64_t mix_hash(uint64_t h)
{
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    return h ^ h >> 32;
}

static uint64_t hash_row(const mr_lookup *t, const mr_tensor *keys, int64_t i)
{
    uint64_t h = t->secret[0], v;
    size_t bytes = (size_t)t->key_width * mr_dtype_size(t->key);
    if (t->key == MR_STRING) {
        for (int64_t e = 0; e < t->key_width; e++)
{
            mr_sv word = mr_tensor_str_at(keys, i * t->key_width + e);
            h = mix_hash(h ^ mr_siphash(t->secret, word.p, word.n));
        }
        return h;
    }
    const char *p = (const char *)keys->data + (size_t)i * bytes;
    if (bytes > 8)
        return mr_siphash(t->secret, p, bytes);
    v = 0;
    memcpy(&v, p, bytes);
    return mix_hash(mix_hash(v ^ t->secret[0]) + t->secret[1]);
}

/* The slot of row i of `keys`, or the free slot where it belongs. */
static int64_t find_slot_locked(const mr_lookup *t, const mr_tensor *keys, int64_t i)
    MR_REQUIRES(t->mu)
{
    int64_t mask = t->n_slots - 1, at = (int64_t)hash_row(t, keys, i) & mask;
    while (t->slots[at] && !same_rows(t->keys, t->slots[at] - 1, keys, i, t->key_width))
        at = (at + 1) & mask;
    return at;
}

/* The entry of row i; -1 if there is none. */
static int64_t find_locked(const mr_lookup *t, const mr_tensor *keys, int64_t i) MR_REQUIRES(t->mu)
{
    return t->n == 0 ? -1 : t->slots[find_slot_locked(t, keys, i)] - 1;
}

/* ---- growing ---- */

static mr_status *no_room(void)
{
    return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a table of this size");
}

static mr_status *grow_rows(const mr_shape *row, mr_dtype type, int64_t width, int64_t n, int64_t cap,
                            mr_tensor **t)
{
    mr_shape shape;
    mr_tensor *to;
    shape.rank = 0;
    MR_TRY(mr_shape_push(&shape, cap));
    for (int d = 0; d < row->rank; d++)
        MR_TRY(mr_shape_push(&shape, row->dims[d]));
    MR_TRY(mr_tensor_new(NULL, type, shape.rank, shape.dims, &to));
    mr_status *st = n ? mr_tensor_try_copy_elements(to, 0, *t, 0, n * width) : NULL;
    if (st) {
        mr_tensor_unref(to);
        return st;
    }
    mr_tensor_unref(*t);
    *t = to;
    return NULL;
}

static mr_status *rehash_locked(mr_lookup *t, int64_t n_slots) MR_REQUIRES(t->mu)
{
    int64_t *slots = mr_try_calloc((size_t)n_slots, sizeof *slots);
    if (!slots)
        return no_room();
    mr_free(t->slots);
    t->slots = slots;
    t->n_slots = n_slots;
    for (int64_t i = 0; i < t->n; i++)
        t->slots[find_slot_locked(t, t->keys, i)] = i + 1;
    return NULL;
}

/* Makes room for `more` entries; the hash stays at most half full. */
static mr_status *reserve_locked(mr_lookup *t, int64_t more) MR_REQUIRES(t->mu)
{
    int64_t want = t->n + more, cap = MR_MAX(t->cap, 8), n_slots = MR_MAX(t->n_slots, 16);
    if (want <= t->cap)
        return NULL;
    while (cap < want)
        cap *= 2; /* cannot overflow: `want` counts objects that are in memory */
    while (n_slots < 2 * cap)
        n_slots *= 2;
    MR_TRY(grow_rows(t->key_shape, t->key, t->key_width, t->n, cap, &t->keys));
    MR_TRY(grow_rows(t->value_shape, t->value, t->value_width, t->n, cap, &t->values));
    MR_TRY(rehash_locked(t, n_slots));
    t->cap = cap;
    return NULL;
}

/* ---- entries ---- */

static mr_status *put_locked(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values, int64_t i)
    MR_REQUIRES(t->mu)
{
    int64_t slot = find_slot_locked(t, keys, i), entry = t->slots[slot] - 1;
    if (entry < 0) {
        MR_TRY(mr_tensor_try_copy_elements(t->keys, t->n * t->key_width, keys, i * t->key_width,
                                           t->key_width));
        MR_TRY(mr_tensor_try_copy_elements(t->values, t->n * t->value_width, values,
                                           i * t->value_width, t->value_width));
        t->slots[slot] = ++t->n;
        return NULL;
    }
    return mr_tensor_try_copy_elements(t->values, entry * t->value_width, values,
                                       i * t->value_width, t->value_width);
}

/* Fills the gap with the next entry of the probe sequence that may be there, and continues with the gap which that
 * leaves, so that no deletion marks are needed. */
static void close_gap_locked(mr_lookup *t, int64_t gap) MR_REQUIRES(t->mu)
{
    int64_t mask = t->n_slots - 1;
    for (int64_t at = (gap + 1) & mask; t->slots[at]; at = (at + 1) & mask) {
        int64_t home = (int64_t)hash_row(t, t->keys, t->slots[at] - 1) & mask;
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        t->slots[gap] = t->slots[at];
        gap = at;
    }
    t->slots[gap] = 0;
}

static mr_status *take_locked(mr_lookup *t, const mr_tensor *keys, int64_t i) MR_REQUIRES(t->mu)
{
    int64_t slot, entry, last = t->n - 1;
    if (t->n == 0)
        return NULL;
    slot = find_slot_locked(t, keys, i);
    entry = t->slots[slot] - 1;
    if (entry < 0)
        return NULL;
    int64_t last_slot = find_slot_locked(t, t->keys, last);
    if (entry != last) {
        MR_TRY(mr_tensor_try_copy_elements(t->values, entry * t->value_width, t->values,
                                           last * t->value_width, t->value_width));
        MR_TRY(mr_tensor_try_copy_elements(t->keys, entry * t->key_width, t->keys,
                                           last * t->key_width, t->key_width));
        t->slots[last_slot] = entry + 1;
    }
    t->n--;
    close_gap_locked(t, slot);
    return NULL;
}

static void clear_locked(mr_lookup *t) MR_REQUIRES(t->mu)
{
    mr_tensor_unref(t->keys);
    mr_tensor_unref(t->values);
    mr_free(t->slots);
    t->keys = t->values = NULL;
    t->slots = NULL;
    t->n = t->cap = t->n_slots = 0;
}

/* ---- checks ---- */

/* Checks the type and shape of keys; *n is the number of keys, and *prefix the rank without the key's dimensions. */
static mr_status *check_keys(const mr_lookup *t, const mr_tensor *keys, int64_t *n, int *prefix)
{
    const mr_shape *s = t->key_shape;
    *prefix = keys->rank - s->rank;
    if (keys->dtype != t->key)
        return mr_invalid("Key must be type %s but got %s", mr_dtype_name(t->key),
                          mr_dtype_name(keys->dtype));
    if (*prefix < 0 || !mr_shape_eq(s->rank, s->dims, s->rank, keys->dims + *prefix))
        return mr_invalid("Input key shape %s must end with the table's key shape %s",
                          MR_TENSOR_SHAPE(keys), MR_SHAPE_TEXT(s->rank, s->dims));
    *n = keys->n / t->key_width;
    return NULL;
}

/* The first `prefix` dimensions of keys, followed by those of a value. */
static mr_status *values_shape(const mr_lookup *t, const mr_tensor *keys, int prefix, mr_shape *out)
{
    mr_shape_set(out, prefix, keys->dims);
    for (int d = 0; d < t->value_shape->rank; d++)
        MR_TRY(mr_shape_push(out, t->value_shape->dims[d]));
    return NULL;
}

static mr_status *check_value_type(const mr_lookup *t, const mr_tensor *v)
{
    return v->dtype == t->value ? NULL
                                : mr_invalid("Value must be type %s but got %s",
                                             mr_dtype_name(t->value), mr_dtype_name(v->dtype));
}

static mr_status *check_pairs(const mr_lookup *t, const mr_tensor *keys, const mr_tensor *values,
                              int64_t *n)
{
    mr_shape want;
    int prefix;
    MR_TRY(check_keys(t, keys, n, &prefix));
    MR_TRY(check_value_type(t, values));
    MR_TRY(values_shape(t, keys, prefix, &want));
    if (!mr_shape_eq(want.rank, want.dims, values->rank, values->dims))
        return mr_invalid("Expected shape %s for value, got %s", MR_SHAPE_TEXT(want.rank, want.dims),
                          MR_TENSOR_SHAPE(values));
    return NULL;
}

/* Whether row i of `keys` equals `key`, one of the reserved keys of a dense table. */
static bool is_key(const mr_lookup *t, const mr_tensor *keys, int64_t i, const mr_tensor *key)
{
    return key && same_rows(keys, i, key, 0, t->key_width);
}

/* A dense table accepts one key, or a vector of them, and no reserved keys. */
static mr_status *check_dense_keys(const mr_lookup *t, const mr_tensor *keys, int64_t n)
{
    const mr_shape *s = t->key_shape;
    if (t->kind != MR_LOOKUP_DENSE)
        return NULL;
    mr_shape want = {.rank = 0};
    MR_TRY(mr_shape_push(&want, keys->rank > 0 ? keys->dims[0] : 1));
    for (int d = 0; d < s->rank; d++)
        MR_TRY(mr_shape_push(&want, s->dims[d]));
    if (n != want.dims[0])
        return mr_invalid("Expected key shape %s got %s", MR_SHAPE_TEXT(want.rank, want.dims), MR_TENSOR_SHAPE(keys));
    for (int64_t i = 0; i < n; i++) {
        if (is_key(t, keys, i, t->empty_key))
            return mr_invalid("Using the empty_key as a table key is not allowed");
        if (is_key(t, keys, i, t->deleted_key))
            return mr_invalid("Using the deleted_key as a table key is not allowed");
    }
    return NULL;
}

/* ---- the interface ---- */

static mr_status *fill_values_locked(mr_lookup *t, const mr_tensor *keys, int64_t n,
                                     const mr_tensor *missing, bool one, mr_tensor *out)
    MR_REQUIRES(t->mu)
{
    int64_t w = t->value_width;
    for (int64_t i = 0; i < n; i++) {
        int64_t entry = find_locked(t, keys, i);
        MR_TRY(entry >= 0
                   ? mr_tensor_try_copy_elements(out, i * w, t->values, entry * w, w)
                   : mr_tensor_try_copy_elements(out, i * w, missing, one ? 0 : i * w, w));
    }
    return NULL;
}

mr_status *mr_lookup_find(mr_lookup *t, mr_allocator *a, const mr_tensor *keys,
                         const mr_tensor *missing, mr_tensor **out)
{
    mr_shape full;
    int64_t n;
    int prefix;
    const mr_shape *v = t->value_shape;
    MR_TRY(check_keys(t, keys, &n, &prefix));
    MR_TRY(check_value_type(t, missing));
    MR_TRY(values_shape(t, keys, prefix, &full));
    bool one = mr_shape_eq(v->rank, v->dims, missing->rank, missing->dims);
    if (!one && !mr_shape_eq(full.rank, full.dims, missing->rank, missing->dims))
        return mr_invalid("Expected shape %s or %s for default value, got %s",
                          MR_SHAPE_TEXT(v->rank, v->dims), MR_SHAPE_TEXT(full.rank, full.dims),
                          MR_TENSOR_SHAPE(missing));
    MR_TRY(check_dense_keys(t, keys, n));
    MR_TRY(mr_tensor_new(a, t->value, full.rank, full.dims, out));
    mr_lock(&t->mu);
    mr_status *st = t->kind == MR_LOOKUP_STATIC && !t->initialized
                        ? mr_error(MR_FAILED_PRECONDITION, "Table not initialized.")
                        : fill_values_locked(t, keys, n, missing, one, *out);
    mr_unlock(&t->mu);
    if (st)
        mr_tensor_unref(*out);
    return st;
}

/* TensorFlow's table grows as if all keys were new. */
static void count_buckets_locked(mr_lookup *t, int64_t more) MR_REQUIRES(t->mu)
{
    while (t->kind == MR_LOOKUP_DENSE && t->n_buckets < INT64_MAX / 2 &&
           (float)(t->n + more) > (float)t->n_buckets * t->max_load)
        t->n_buckets *= 2;
}

static mr_status *insert_locked(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values,
                                int64_t n, bool skip_reserved) MR_REQUIRES(t->mu)
{
    MR_TRY(reserve_locked(t, n));
    for (int64_t i = 0; i < n; i++)
        if (!skip_reserved ||
            !(is_key(t, keys, i, t->empty_key) || is_key(t, keys, i, t->deleted_key)))
            MR_TRY(put_locked(t, keys, values, i));
    return NULL;
}

static mr_status *not_supported(const char *what)
{
    return mr_error(MR_UNIMPLEMENTED,
                    "%s not supported by InitializableLookupTable implementations", what);
}

mr_status *mr_lookup_insert(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values)
{
    int64_t n;
    if (t->kind == MR_LOOKUP_STATIC)
        return not_supported("Insert");
    MR_TRY(check_pairs(t, keys, values, &n));
    MR_TRY(check_dense_keys(t, keys, n));
    mr_lock(&t->mu);
    count_buckets_locked(t, n);
    mr_status *st = insert_locked(t, keys, values, n, false);
    mr_unlock(&t->mu);
    return st;
}

mr_status *mr_lookup_remove(mr_lookup *t, const mr_tensor *keys)
{
    int64_t n;
    int prefix;
    mr_status *st = NULL;
    if (t->kind == MR_LOOKUP_STATIC)
        return not_supported("Remove");
    MR_TRY(check_keys(t, keys, &n, &prefix));
    MR_TRY(check_dense_keys(t, keys, n));
    mr_lock(&t->mu);
    for (int64_t i = 0; i < n && !st; i++)
        st = take_locked(t, keys, i);
    mr_unlock(&t->mu);
    return st;
}

/* An mr_lookup_source of keys and values in one piece. */
typedef struct one_piece {
    const mr_tensor *keys, *values;
    bool given;
} one_piece;

static mr_status *next_piece(void *ctx, mr_tensor **keys, mr_tensor **values)
{
    one_piece *p = ctx;
    if (!p->given) {
        *keys = mr_tensor_ref(p->keys);
        *values = mr_tensor_ref(p->values);
    }
    p->given = true;
    return NULL;
}

mr_status *mr_lookup_initialize_with(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values)
{
    one_piece p = {keys, values, false};
    return keys->n > 0 ? mr_lookup_initialize(t, next_piece, &p) : mr_invalid("keys and values cannot be empty tensors.");
}

mr_status *mr_lookup_import(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values)
{
    int64_t n;
    if (t->kind == MR_LOOKUP_STATIC)
        return mr_lookup_initialize_with(t, keys, values);
    MR_TRY(check_pairs(t, keys, values, &n));
    mr_lock(&t->mu);
    clear_locked(t);
    t->n_buckets = t->kind == MR_LOOKUP_DENSE ? MR_MAX(n, 1) : 0;
    mr_status *st = insert_locked(t, keys, values, n, t->kind == MR_LOOKUP_DENSE);
    count_buckets_locked(t, 0);
    mr_unlock(&t->mu);
    return st;
}

/* ---- exporting ---- */

/* Copies the rows of a table to a new tensor of `rows` rows; the rest is filled with `filler` or zero. */
static mr_status *export_rows(mr_allocator *a, mr_dtype type, const mr_shape *row, int64_t width,
                              int64_t n, int64_t rows, const mr_tensor *from,
                              const mr_tensor *filler, mr_tensor **out)
{
    mr_shape shape;
    shape.rank = 0;
    MR_TRY(mr_shape_push(&shape, rows));
    for (int d = 0; d < row->rank; d++)
        MR_TRY(mr_shape_push(&shape, row->dims[d]));
    MR_TRY(mr_tensor_zeros(a, type, shape.rank, shape.dims, out));
    mr_status *st = n ? mr_tensor_try_copy_elements(*out, 0, from, 0, n * width) : NULL;
    for (int64_t i = n; i < rows && filler && !st; i++)
        st = mr_tensor_try_copy_elements(*out, i * width, filler, 0, width);
    if (st)
        mr_tensor_unref(*out);
    return st;
}

mr_status *mr_lookup_export(mr_lookup *t, mr_allocator *a, mr_tensor **keys, mr_tensor **values)
{
    mr_status *st = NULL;
    *keys = NULL;
    mr_lock(&t->mu);
    int64_t rows = t->kind == MR_LOOKUP_DENSE ? t->n_buckets : t->n;
    if (t->kind == MR_LOOKUP_STATIC && !t->initialized)
        MR_GO(mr_error(MR_ABORTED, "HashTable is not initialized."));
    MR_GO(export_rows(a, t->key, t->key_shape, t->key_width, t->n, rows, t->keys, t->empty_key, keys));
    st = export_rows(a, t->value, t->value_shape, t->value_width, t->n, rows, t->values, NULL, values);
    if (st)
        mr_tensor_unref(*keys);
out:
    mr_unlock(&t->mu);
    return st;
}

/* ---- initialising ---- */

static mr_status *different_value_error(const mr_lookup *t, const mr_tensor *keys, const mr_tensor *values,
                                        int64_t i, int64_t entry)
{
    mr_str text[3] = {{0}};
    const mr_tensor *from[3] = {keys, t->values, values};
    int64_t at[3] = {i, entry, i};
    mr_status *st = NULL;
    for (int k = 0; k < 3 && !st; k++) {
        mr_tensor *row;
        st = mr_tensor_rows(from[k], at[k], 1, &row);
        if (!st)
            mr_tensor_summarize(row, 1, &text[k]);
        if (!st)
            mr_tensor_unref(row);
    }
    if (!st)
        st = mr_error(MR_FAILED_PRECONDITION,
                      "HashTable has different value for same key. Key %s has %s and trying to add "
                      "value %s", mr_str_z(&text[0]), mr_str_z(&text[1]), mr_str_z(&text[2]));
    for (int k = 0; k < 3; k++)
        mr_str_deinit(&text[k]);
    return st;
}

static bool same_value(const mr_lookup *t, int64_t entry, const mr_tensor *values, int64_t i)
{
    if (t->value == MR_RESOURCE || t->value == MR_VARIANT)
        return MR_DATA(void *, t->values)[entry] == MR_DATA(void *, values)[i];
    return same_rows(t->values, entry, values, i, t->value_width);
}

static mr_status *add_once_locked(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values)
    MR_REQUIRES(t->mu)
{
    int64_t n;
    MR_TRY(check_pairs(t, keys, values, &n));
    MR_TRY(reserve_locked(t, n));
    for (int64_t i = 0; i < n; i++) {
        int64_t entry = find_locked(t, keys, i);
        if (entry < 0)
            MR_TRY(put_locked(t, keys, values, i));
        else if (!same_value(t, entry, values, i))
            return different_value_error(t, keys, values, i, entry);
    }
    return NULL;
}

/* For a table that is already initialised: checks that it has the same entries. */
static mr_status *compare_locked(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values,
                                 int64_t *seen) MR_REQUIRES(t->mu)
{
    int64_t n;
    MR_TRY(check_pairs(t, keys, values, &n));
    for (int64_t i = 0; i < n; i++) {
        int64_t entry = find_locked(t, keys, i);
        if (entry < 0 || !same_value(t, entry, values, i))
            return mr_error(MR_FAILED_PRECONDITION,
                            "Table was already initialized with different data.");
    }
    *seen += n;
    return NULL;
}

static mr_status *initialize_locked(mr_lookup *t, mr_lookup_source next, void *ctx)
    MR_REQUIRES(t->mu)
{
    int64_t seen = 0;
    for (;;) {
        mr_tensor *keys = NULL, *values = NULL;
        MR_TRY(next(ctx, &keys, &values));
        if (!keys)
            break;
        mr_status *st = t->initialized ? compare_locked(t, keys, values, &seen)
                                       : add_once_locked(t, keys, values);
        mr_tensor_unref(keys);
        mr_tensor_unref(values);
        MR_TRY(st);
    }
    if (t->initialized && seen < t->n)
        return mr_error(MR_FAILED_PRECONDITION, "Table was already initialized with different data.");
    t->initialized = true;
    return NULL;
}

mr_status *mr_lookup_initialize(mr_lookup *t, mr_lookup_source next, void *ctx)
{
    if (t->kind != MR_LOOKUP_STATIC)
        return mr_invalid("Table is not initializable: it is mutable");
    mr_lock(&t->mu);
    bool before = t->initialized;
    mr_status *st = initialize_locked(t, next, ctx);
    if (st && !before)
        clear_locked(t); /* so that another attempt starts with an empty table */
    mr_unlock(&t->mu);
    return st;
}

mr_status *mr_lookup_of(mr_run *r, mr_lookup **out)
{
    return mr_named_find(r, &mr_lookup_type, (mr_object **)out);
}
