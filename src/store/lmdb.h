/* store/lmdb.h -- reads LMDB files: every record of the main database, in the order of the keys.
 *
 * What liblmdb's cursor gives between MDB_FIRST and MDB_NOTFOUND in an environment opened read-only and without
 * locks, this
 * gives too: of a key with sorted duplicates each of its values, of a named database its record.  Files are those of
 * 64-bit little-endian machines, as liblmdb's on these are.  docs/formats/lmdb.md has the format. */
#ifndef MR_STORE_LMDB_H
#define MR_STORE_LMDB_H

#include "base/str.h"

typedef struct mr_lmdb mr_lmdb;

/* path: the file, or the folder that holds it as data.mdb.  INVALID_ARGUMENT, in liblmdb's words, for all that is
 * wrong. */
mr_status *mr_lmdb_open(const char *path, mr_lmdb **out);
void mr_lmdb_close(mr_lmdb *l); /* NULL is fine */
/* The next record, borrowed until the next call; *at_end instead when there is none. */
mr_status *mr_lmdb_next(mr_lmdb *l, mr_sv *key, mr_sv *value, bool *at_end);

#endif
