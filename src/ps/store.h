/* ps/store.h -- the rows that a server holds.
 *
 * By range and table: a part is one range of one table, as planes of floats (ps/update.h). A part
 * takes memory when it is first changed; until then its values follow from the table's options. All
 * changes are deterministic: members of a chain that apply the same changes in the same order hold
 * the same bits.
 *
 * Used by one thread. */
#ifndef MR_PS_STORE_H
#define MR_PS_STORE_H

#include "base/vec.h"
#include "ps/table.h"

/* The keys of a change within one range of a table: a sorted list, or `n` keys from `first` on. */
typedef struct mr_ps_keys {
    const uint64_t *list; /* NULL: a range */
    uint64_t first;
    size_t n;
} mr_ps_keys;

typedef enum mr_ps_change_kind {
    MR_PS_CHANGE_PUSH,    /* floats: push_width per key */
    MR_PS_CHANGE_SET,     /* floats: whole rows, for each key the values and then the other planes */
    MR_PS_CHANGE_ALGEBRA, /* of the whole range */
    MR_PS_CHANGE_NONE,    /* no change: in place of a push that was given up */
    MR_PS_CHANGE_KINDS
} mr_ps_change_kind;

typedef struct mr_ps_change {
    mr_ps_change_kind kind;
    int table;
    mr_ps_keys keys;
    const float *floats;
    mr_ps_algebra what; /* ALGEBRA: a is `table` */
    int other;          /* b */
    double alpha;
} mr_ps_change;

typedef struct mr_ps_part {
    float *planes;  /* NULL: initial values */
    float *sum;     /* aggregate: sum of the pushes since the last update; NULL: not needed yet */
    uint8_t *seen;  /* by row: whether it is in the sum */
    int n_pushed;   /* pushes in the sum */
} mr_ps_part;

typedef struct mr_ps_store {
    int n_ranges;
    size_t limit, used; /* bytes; limit 0: none */
    MR_VEC(mr_ps_table_spec *) tables; /* by number; owned */
    MR_VEC(mr_ps_part *) parts;        /* by table: n_ranges parts */
} mr_ps_store;

void mr_ps_store_init(mr_ps_store *s, int n_ranges, size_t limit);
void mr_ps_store_deinit(mr_ps_store *s);
/* Adds a table under the next number. Takes over t, unless it fails. */
mr_status *mr_ps_store_add(mr_ps_store *s, mr_ps_table_spec *t);

/* Checks that a change is possible: its table exists, its keys rise and are in the range. Also allocates the memory
 * that it needs, so that mr_ps_store_change cannot fail. */
mr_status *mr_ps_store_check(mr_ps_store *s, int range, const mr_ps_change *c);
void mr_ps_store_change(mr_ps_store *s, int range, const mr_ps_change *c);
/* Floats per key of a change of that kind. */
size_t mr_ps_change_width(const mr_ps_table_spec *t, mr_ps_change_kind kind);

mr_status *mr_ps_keys_in_range(const mr_ps_store *s, int table, int range, mr_ps_keys k);
/* Reads the values of keys of a range, which were checked (mr_ps_keys_in_range); all: whole rows, as SET has them. */
void mr_ps_store_read(const mr_ps_store *s, int table, int range, mr_ps_keys k, bool all, float *out);
/* DOT and NORM1 of one range. */
mr_status *mr_ps_store_reduce(const mr_ps_store *s, int range, mr_ps_algebra what, int a, int b, double *out);

/* A range as bytes, with all its tables (docs/formats/ps.md, Range). */
mr_status *mr_ps_store_pack(const mr_ps_store *s, int range, mr_str *out);
/* A range that was unpacked, with all its memory, and is not part of the store yet: installing it cannot fail. */
typedef struct mr_ps_staged {
    mr_ps_part *parts; /* by table; NULL: nothing is staged */
    int n;
    size_t used;
} mr_ps_staged;
/* Does not change the store. RESOURCE_EXHAUSTED: the store would exceed its limit, or there is no memory. */
mr_status *mr_ps_store_stage(const mr_ps_store *s, int range, mr_sv bytes, mr_ps_staged *out);
void mr_ps_store_install(mr_ps_store *s, int range, mr_ps_staged *staged); /* replaces the range; takes over staged */
void mr_ps_staged_deinit(mr_ps_staged *staged);
mr_status *mr_ps_store_unpack(mr_ps_store *s, int range, mr_sv bytes); /* stages and installs */
void mr_ps_store_drop(mr_ps_store *s, int range); /* frees the range: initial values again */

#endif
