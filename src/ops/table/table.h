/* ops/table/table.h -- lookup tables from keys to values.
 *
 * A key is an element, or a row of elements of a fixed shape; so is a value.  Keys are compared by their
 * bits, strings by content.  A static table is initialised once and not changed after that; a mutable
 * table can change at any time.  All functions may be called from any thread, and each call is atomic. */
#ifndef MR_OPS_TABLE_TABLE_H
#define MR_OPS_TABLE_TABLE_H

#include "run/run.h"

typedef struct mr_lookup mr_lookup;

typedef enum mr_lookup_kind {
    MR_LOOKUP_STATIC,  /* HashTable */
    MR_LOOKUP_MUTABLE, /* MutableHashTable, MutableHashTableOfTensors */
    MR_LOOKUP_DENSE,   /* MutableDenseHashTable: two keys are reserved, and exports have empty rows */
} mr_lookup_kind;

typedef struct mr_lookup_spec {
    mr_lookup_kind kind;
    mr_dtype key, value;
    int value_rank;
    const int64_t *value_dims;
    /* only for dense tables */
    const mr_tensor *empty_key, *deleted_key; /* deleted_key may be NULL: nothing can be removed */
    int64_t n_buckets;
    float max_load;
} mr_lookup_spec;

extern const mr_object_type mr_lookup_type; /* "tensorflow::lookup::LookupInterface" */

mr_status *mr_lookup_new(const mr_lookup_spec *s, mr_lookup **out);
/* INVALID_ARGUMENT if the table was created for other types. */
mr_status *mr_lookup_matches(mr_lookup *t, const mr_lookup_spec *s, const char *name);

mr_lookup_kind mr_lookup_get_kind(const mr_lookup *t);
mr_dtype mr_lookup_key_type(const mr_lookup *t);
mr_dtype mr_lookup_value_type(const mr_lookup *t);
int64_t mr_lookup_size(mr_lookup *t);

/* The values of keys; `missing` (one value, or one for each key) for keys that are not in the table.
 * FAILED_PRECONDITION "Table not initialized." */
mr_status *mr_lookup_find(mr_lookup *t, mr_allocator *a, const mr_tensor *keys,
                         const mr_tensor *missing, mr_tensor **out);
/* Inserts keys; an existing key gets the new value.  UNIMPLEMENTED for a static table. */
mr_status *mr_lookup_insert(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values);
mr_status *mr_lookup_remove(mr_lookup *t, const mr_tensor *keys);
/* Replaces the contents of a mutable table, or initialises a static one. */
mr_status *mr_lookup_import(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values);
mr_status *mr_lookup_export(mr_lookup *t, mr_allocator *a, mr_tensor **keys, mr_tensor **values);

/* Initialises a static table in pieces: next(ctx, &keys, &values) passes ownership of the tensors to this function,
 * and sets keys to NULL at the end.  A table may be initialised again with the same content, which changes nothing.
 * INVALID_ARGUMENT for a mutable table.  FAILED_PRECONDITION if the content differs, or one key has two
 * values.  next is called with the table locked: it must not use tables. */
typedef mr_status *(*mr_lookup_source)(void *ctx, mr_tensor **keys, mr_tensor **values);
mr_status *mr_lookup_initialize(mr_lookup *t, mr_lookup_source next, void *ctx);
/* The same in one piece; INVALID_ARGUMENT if that is empty. */
mr_status *mr_lookup_initialize_with(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values);

/* Finds the table of input 0, a handle of either form; the caller owns *out. */
mr_status *mr_lookup_of(mr_run *r, mr_lookup **out);

#endif
