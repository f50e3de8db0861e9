/* exec/signature.h -- which program serves which feeds, fetches and targets.
 *
 * A run names its feeds, fetches and targets in some order. Exactly that order is looked up first. If it is
 * new, all three are sorted, duplicates are dropped, and the program that an earlier run in another order has
 * made is looked up. The entry that is found tells where the i-th feed and fetch of this order are in the
 * program. */
#ifndef MR_EXEC_SIGNATURE_H
#define MR_EXEC_SIGNATURE_H

#include "base/map.h"
#include "exec/program.h"
#include "exec/session.h"
#include "passes/passes.h"

typedef struct mr_entry { /* one order of one signature */
    mr_run_signature sig;     /* owned arrays */
    bool partial;
    mr_program *program; /* borrowed; shared by all orders */
    int *feed_at;        /* argument of the program for each feed; -1: not needed */
    int *fetch_at;       /* result of the program for each fetch */
    struct mr_entry *next; /* of the same hash */
} mr_entry;

typedef struct mr_run_signatures { /* the caller locks */
    mr_imap by_hash;
} mr_run_signatures;

void mr_run_signatures_deinit(mr_run_signatures *s);
uint64_t mr_run_signature_hash(const mr_run_signature *sig, bool partial);
mr_entry *mr_run_signatures_find(const mr_run_signatures *s, const mr_run_signature *sig, bool partial,
                             uint64_t hash);
/* Copies the signature; feed_at and fetch_at are the positions of its members in `sorted`. */
mr_entry *mr_run_signatures_add(mr_run_signatures *s, const mr_run_signature *sig, bool partial, uint64_t hash,
                            const mr_run_signature *sorted, mr_program *p);

/* A copy of sig with its members sorted and duplicate fetches and targets dropped (a duplicate feed is an error that
 * others report). */
void mr_run_signature_sort(const mr_run_signature *sig, mr_run_signature *out);
void mr_run_signature_deinit(mr_run_signature *sig);

#endif
