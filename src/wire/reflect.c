/* wire/reflect.c -- fields of a protobuf-c message by descriptor.
 *
 * How protobuf-c lays out a field, by its label and flags:
 *
 *     singular    the value at `offset`; a message or string is a pointer, bytes are {len, data}
 *     oneof       the same, in a union; at `quantifier_offset` the number of the member that is set
 *     repeated    at `offset` a pointer to an array; at `quantifier_offset` the count, a size_t
 *
 * Invariant of arrays made here: room for room_of(n) values stands behind n of them.  So doubling
 * needs no stored capacity, and a message that is merged a million times over still costs linear
 * time. */
#include "wire/reflect.h"

#include "wire/pb.h"

/* ---- looking ---- */

/* Enums are ints in the generated structs: protobuf-c forces their size. */
size_t mr_field_elem_bytes(const mr_field *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_ENUM: return 4;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 8;
    }
}

uint32_t mr_field_wire(const mr_field *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_FLOAT: return MR_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return MR_WIRE_FIXED64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return MR_WIRE_BYTES;
    default: return MR_WIRE_VARINT;
    }
}

/* A value without presence counts when it differs from zero: bits decide, so -0.0 counts. */
static bool is_nonzero(const mr_field *f, const void *at)
{
    static const char zeros[8];
    if (f->type == PROTOBUF_C_TYPE_MESSAGE)
        return *(void *const *)at != NULL;
    if (f->type == PROTOBUF_C_TYPE_STRING)
        return *(const char *const *)at && **(const char *const *)at;
    if (f->type == PROTOBUF_C_TYPE_BYTES)
        return ((const ProtobufCBinaryData *)at)->len != 0;
    return memcmp(at, zeros, mr_field_elem_bytes(f)) != 0;
}

bool mr_field_is_set(const ProtobufCMessage *m, const mr_field *f)
{
    if (mr_field_repeated(f))
        return *mr_field_count(m, f) != 0;
    if (mr_field_in_oneof(f))
        return *mr_field_case(m, f) == f->id;
    return is_nonzero(f, mr_field_at(m, f));
}

/* Binary search in the index by name; the name comes from a text and has no NUL after it. */
const mr_field *mr_field_named(const ProtobufCMessageDescriptor *d, mr_sv name)
{
    unsigned lo = 0, hi = d->n_fields;
    while (lo < hi) {
        unsigned mid = lo + (hi - lo) / 2;
        const mr_field *f = &d->fields[d->fields_sorted_by_name[mid]];
        int order = strncmp(name.p, f->name, name.n);
        if (order == 0 && f->name[name.n] == '\0')
            return f;
        if (order > 0)
            lo = mid + 1;
        else
            hi = mid; /* name is smaller, or the beginning of f->name */
    }
    return NULL;
}

/* entry is CamelCase(field) + "Entry", as protoc forms it: a_b2_c gives AB2CEntry. */
static bool named_as_entry(const char *entry, const char *field)
{
    bool upper = true;
    for (; *field; field++) {
        if (*field == '_') {
            upper = true;
            continue;
        }
        char c = upper && *field >= 'a' && *field <= 'z' ? (char)(*field - 'a' + 'A') : *field;
        if (*entry++ != c)
            return false;
        upper = false;
    }
    return strcmp(entry, "Entry") == 0;
}

bool mr_field_is_map(const mr_field *f)
{
    if (f->type != PROTOBUF_C_TYPE_MESSAGE || !mr_field_repeated(f))
        return false;
    const ProtobufCMessageDescriptor *d = f->descriptor;
    return d->n_fields == 2 && d->fields[0].id == 1 && strcmp(d->fields[0].name, "key") == 0 &&
           d->fields[1].id == 2 && strcmp(d->fields[1].name, "value") == 0 &&
           named_as_entry(d->short_name, f->name);
}

/* Differences could overflow, so comparisons it is. */
static int compare_i64(int64_t a, int64_t b) { return a < b ? -1 : a > b; }
static int compare_u64(uint64_t a, uint64_t b) { return a < b ? -1 : a > b; }

/* As C++ orders keys when it writes deterministically: strings by bytes, numbers by value.  Field 0
 * of an entry is its key. */
int mr_map_entries_compare(const ProtobufCMessage *a, const ProtobufCMessage *b)
{
    const mr_field *key = &a->descriptor->fields[0];
    const void *x = mr_field_at(a, key), *y = mr_field_at(b, key);
    switch (key->type) {
    case PROTOBUF_C_TYPE_STRING: {
        const char *s = *(char *const *)x, *t = *(char *const *)y;
        return strcmp(s ? s : "", t ? t : "");
    }
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32: return compare_u64(*(const uint32_t *)x, *(const uint32_t *)y);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: return compare_u64(*(const uint64_t *)x, *(const uint64_t *)y);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64: return compare_i64(*(const int64_t *)x, *(const int64_t *)y);
    default: /* int32 kinds and bool */
        return compare_i64(*(const int32_t *)x, *(const int32_t *)y);
    }
}

/* Merges the sorted runs [lo, mid) and [mid, hi) of `from` into `to`. */
static void merge_runs(ProtobufCMessage **from, ProtobufCMessage **to, size_t lo, size_t mid,
                       size_t hi)
{
    size_t i = lo, j = mid;
    for (size_t k = lo; k < hi; k++) {
        bool left = i < mid && (j >= hi || mr_map_entries_compare(from[i], from[j]) <= 0);
        to[k] = left ? from[i++] : from[j++];
    }
}

/* Merge sort, because the last of equal keys counts and so their order must stay; qsort promises
 * nothing there. */
bool mr_map_entries_sort(ProtobufCMessage **entries, size_t n)
{
    size_t i = 1;
    while (i < n && mr_map_entries_compare(entries[i - 1], entries[i]) <= 0)
        i++;
    if (i >= n) /* most often they are sorted already */
        return true;
    ProtobufCMessage **other = mr_try_calloc(n, sizeof(*other));
    if (!other)
        return false;
    ProtobufCMessage **from = entries, **to = other;
    for (size_t run = 1; run < n; run *= 2) {
        for (size_t lo = 0; lo < n; lo += 2 * run)
            merge_runs(from, to, lo, MR_MIN(lo + run, n), MR_MIN(lo + 2 * run, n));
        ProtobufCMessage **swap = from;
        from = to;
        to = swap;
    }
    if (from != entries)
        memcpy(entries, from, n * sizeof(*entries));
    mr_free(other);
    return true;
}

/* ---- adding ---- */

/* message_init sets the descriptor, and strings to "" rather than NULL. */
ProtobufCMessage *mr_message_in_arena(mr_arena *a, const ProtobufCMessageDescriptor *d)
{
    ProtobufCMessage *m = mr_arena_try_alloc(a, d->sizeof_message);
    if (m)
        d->message_init(m);
    return m;
}

/* The capacity of an array of n values; 0 if there is no power of two above n. */
static size_t room_of(size_t n)
{
    if (n == 0 || n > SIZE_MAX / 2)
        return 0;
    return n <= 4 ? 4 : (size_t)1 << (64 - __builtin_clzll(n - 1));
}

/* Grows *array from n to n + more elements, zeroing the new ones, and returns the first of those.
 * The old array stays in the arena: all old ones together are no larger than the new one. */
static void *grow_array(mr_arena *a, void **array, size_t n, size_t more, size_t elem_bytes)
{
    size_t want, bytes;
    if (!mr_size_add(n, more, &want))
        return NULL;
    if (want > room_of(n)) {
        if (!room_of(want) || !mr_size_mul(room_of(want), elem_bytes, &bytes))
            return NULL;
        void *bigger = mr_arena_try_alloc(a, bytes);
        if (!bigger)
            return NULL;
        if (n)
            memcpy(bigger, *array, n * elem_bytes);
        *array = bigger;
    }
    return memset((char *)*array + n * elem_bytes, 0, more * elem_bytes);
}

void *mr_field_add(mr_arena *a, ProtobufCMessage *m, const mr_field *f, size_t n)
{
    MR_ASSERT(mr_field_repeated(f) && n > 0);
    size_t *count = mr_field_count(m, f);
    void *first = grow_array(a, mr_field_at(m, f), *count, n, mr_field_elem_bytes(f));
    if (first)
        *count += n;
    return first;
}

void *mr_field_slot(mr_arena *a, ProtobufCMessage *m, const mr_field *f)
{
    if (mr_field_repeated(f))
        return mr_field_add(a, m, f, 1);
    MR_ASSERT(f->label == PROTOBUF_C_LABEL_NONE);
    void *at = mr_field_at(m, f);
    if (mr_field_in_oneof(f) && *mr_field_case(m, f) != f->id) {
        *mr_field_case(m, f) = f->id;
        memset(at, 0, mr_field_elem_bytes(f));
    }
    return at;
}

ProtobufCMessage *mr_field_message(mr_arena *a, ProtobufCMessage *m, const mr_field *f)
{
    MR_ASSERT(f->type == PROTOBUF_C_TYPE_MESSAGE);
    ProtobufCMessage **slot = mr_field_slot(a, m, f);
    if (slot && !*slot)
        *slot = mr_message_in_arena(a, f->descriptor);
    return slot ? *slot : NULL;
}

ProtobufCMessageUnknownField *mr_message_add_unknown(mr_arena *a, ProtobufCMessage *m)
{
    if (m->n_unknown_fields == UINT32_MAX)
        return NULL;
    void *u =
        grow_array(a, (void **)&m->unknown_fields, m->n_unknown_fields, 1, sizeof(*m->unknown_fields));
    m->n_unknown_fields += u != NULL;
    return u;
}
