/* ps/store.h -- the rows that a server holds.
 *
 * By slot and table, planes of floats as ps/update.h has them.  A part takes memory when it is first changed; before that its
 * values are what the table's options say, which can be told without having them.  All changes are deterministic: members of
 * a chain that apply the same changes in the same order hold the same bits.
 *
 * Used by one thread. */
#ifndef MR_PS_STORE_H
#define MR_PS_STORE_H

#include "base/vec.h"
#include "ps/table.h"

/* The keys of a change within one slot of a table: a sorted list, or `n` from `first` on. */
typedef struct mr_ps_keys {
    const uint64_t *list; /* NULL: a range */
    uint64_t first;
    size_t n;
} mr_ps_keys;

typedef enum mr_ps_change_kind {
    MR_PS_CHANGE_PUSH,    /* floats: push_width a key */
    MR_PS_CHANGE_SET,     /* floats: all that is kept for each key, plane after plane of a row */
    MR_PS_CHANGE_ALGEBRA, /* of the whole slot */
    MR_PS_CHANGE_NONE,    /* nothing: a push that was given up, in its place */
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
    float *planes;  /* NULL: as it began */
    float *sum;     /* aggregate: of what was pushed since the last update; NULL: nothing was */
    uint8_t *seen;  /* by row: it was among that */
    int n_pushed;   /* pushes in it */
} mr_ps_part;

typedef struct mr_ps_store {
    int n_slots;
    size_t limit, used; /* bytes; limit 0: none */
    MR_VEC(mr_ps_table_spec *) tables; /* by their number; owned */
    MR_VEC(mr_ps_part *) parts;        /* by table: n_slots of them */
} mr_ps_store;

void mr_ps_store_init(mr_ps_store *s, int n_slots, size_t limit);
void mr_ps_store_deinit(mr_ps_store *s);
/* Takes over the table, whose number is the next one. */
mr_status *mr_ps_store_add(mr_ps_store *s, mr_ps_table_spec *t);

/* Everything that a change says is possible: its table, that its keys rise and are of the slot.  Also takes what memory it
 * needs, so that mr_ps_store_change cannot fail. */
mr_status *mr_ps_store_check(mr_ps_store *s, int slot, const mr_ps_change *c);
void mr_ps_store_change(mr_ps_store *s, int slot, const mr_ps_change *c);
/* Floats that a change of that kind has a key. */
size_t mr_ps_change_width(const mr_ps_table_spec *t, mr_ps_change_kind kind);

mr_status *mr_ps_keys_in_slot(const mr_ps_store *s, int table, int slot, mr_ps_keys k);
/* Values of keys of a slot; all: whole rows, as SET takes them. */
void mr_ps_store_read(const mr_ps_store *s, int table, int slot, mr_ps_keys k, bool all, float *out);
/* DOT and NORM1 of one slot. */
mr_status *mr_ps_store_reduce(const mr_ps_store *s, int slot, mr_ps_algebra what, int a, int b, double *out);

/* A slot as bytes, with all its tables (docs/formats/ps.md, Slot). */
mr_status *mr_ps_store_pack(const mr_ps_store *s, int slot, mr_str *out);
/* What the bytes make of a slot, aside: with all its memory, so that nothing can fail when it is put in its place. */
typedef struct mr_ps_staged {
    mr_ps_part *parts; /* by table; NULL: nothing is staged */
    int n;
    size_t used;
} mr_ps_staged;
/* RESOURCE_EXHAUSTED: the store would have more than its limit, or there is no memory.  The store is as it was. */
mr_status *mr_ps_store_stage(const mr_ps_store *s, int slot, mr_sv bytes, mr_ps_staged *out);
void mr_ps_store_install(mr_ps_store *s, int slot, mr_ps_staged *staged); /* takes it over, and drops what was there */
void mr_ps_staged_deinit(mr_ps_staged *staged);
mr_status *mr_ps_store_unpack(mr_ps_store *s, int slot, mr_sv bytes); /* both of them */
void mr_ps_store_drop(mr_ps_store *s, int slot); /* back to how it began */

#endif
