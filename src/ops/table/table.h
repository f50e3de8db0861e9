/* ops/table/table.h -- lookup tables: keys to values.
 *
 * A key is an element, or a row of elements of one shape; so is a value.  Keys are compared by their
 * bits, strings by content.  There are two ways to fill a table: one that is initialised once, and not
 * changed then, or one that changes at any time.  All functions may be called from any thread, and each
 * call is one change or one look: nobody sees half of it. */
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
    /* of dense ones */
    const mr_tensor *empty_key, *deleted_key; /* deleted_key may be NULL: nothing can be removed */
    int64_t n_buckets;
    float max_load;
} mr_lookup_spec;

extern const mr_object_type mr_lookup_type; /* "tensorflow::lookup::LookupInterface" */

mr_status *mr_lookup_new(const mr_lookup_spec *s, mr_lookup **out);
/* INVALID_ARGUMENT when a table of this name was made for other types. */
mr_status *mr_lookup_matches(mr_lookup *t, const mr_lookup_spec *s, const char *name);

mr_lookup_kind mr_lookup_get_kind(const mr_lookup *t);
mr_dtype mr_lookup_key_type(const mr_lookup *t);
mr_dtype mr_lookup_value_type(const mr_lookup *t);
int64_t mr_lookup_size(mr_lookup *t);

/* Values of keys, `missing` (one value, or one for each key) for those that are not there.
 * FAILED_PRECONDITION "Table not initialized." */
mr_status *mr_lookup_find(mr_lookup *t, mr_allocator *a, const mr_tensor *keys,
                         const mr_tensor *missing, mr_tensor **out);
/* A key that is there gets the new value.  UNIMPLEMENTED for a table that is initialised. */
mr_status *mr_lookup_insert(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values);
mr_status *mr_lookup_remove(mr_lookup *t, const mr_tensor *keys);
/* Replaces the contents of a mutable table; initialises one that can be initialised only once. */
mr_status *mr_lookup_import(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values);
mr_status *mr_lookup_export(mr_lookup *t, mr_allocator *a, mr_tensor **keys, mr_tensor **values);

/* Initialises a table in pieces: next(ctx, &keys, &values) gives owned tensors, NULL at the end.  Once
 * initialised, a table may be so again with the same content, which changes nothing.
 * INVALID_ARGUMENT for a table that is not initialised but changed.  FAILED_PRECONDITION when content
 * differs, or one key has two values.  next runs with the table locked: it must not use tables. */
typedef mr_status *(*mr_lookup_source)(void *ctx, mr_tensor **keys, mr_tensor **values);
mr_status *mr_lookup_initialize(mr_lookup *t, mr_lookup_source next, void *ctx);
/* The same in one piece; INVALID_ARGUMENT when that is empty. */
mr_status *mr_lookup_initialize_with(mr_lookup *t, const mr_tensor *keys, const mr_tensor *values);

/* The table that input 0 names, by either form of handle; owned by the caller. */
mr_status *mr_lookup_of(mr_run *r, mr_lookup **out);

#endif
