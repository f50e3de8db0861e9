/* store/lmdb.h -- reads LMDB files: every record of the main database, in the order of the keys.
 *
 * The records are those of a liblmdb cursor between MDB_FIRST and MDB_NOTFOUND in an environment opened read-only and
 * without locks: a key with sorted duplicates gives one record for each value, a named database gives its description.
 * Files are those that liblmdb writes on 64-bit little-endian machines.  docs/formats/lmdb.md has the format. */
#ifndef MR_STORE_LMDB_H
#define MR_STORE_LMDB_H

#include "base/str.h"

typedef struct mr_lmdb mr_lmdb;

/* path: the file, or the folder that contains it as data.mdb.  Every error here and below, but for RESOURCE_EXHAUSTED,
 * is INVALID_ARGUMENT, with liblmdb's message if it has one. */
mr_status *mr_lmdb_open(const char *path, mr_lmdb **out);
void mr_lmdb_close(mr_lmdb *l); /* accepts NULL */
/* The next record, borrowed until the next call; *at_end instead when there is none. */
mr_status *mr_lmdb_next(mr_lmdb *l, mr_sv *key, mr_sv *value, bool *at_end);

#endif
