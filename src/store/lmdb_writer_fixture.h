/* store/lmdb_writer_fixture.h -- writes LMDB files with liblmdb itself, for tests. */
#ifndef MR_STORE_LMDB_WRITER_FIXTURE_H
#define MR_STORE_LMDB_WRITER_FIXTURE_H

#include "base/str.h"

enum { MR_LMDB_DUPLICATES = 0x04, MR_LMDB_FIXED = 0x10 }; /* as liblmdb has them */

typedef struct mr_lmdb_writer {
    void *lib, *env, *txn;
    unsigned db;
} mr_lmdb_writer;

/* Creates a file; flags: its main database has duplicates, and these have one size.  Skips the test if liblmdb is not
 * installed. */
void mr_lmdb_writer_open(mr_lmdb_writer *w, const char *path, int flags);
void mr_lmdb_put(mr_lmdb_writer *w, mr_sv key, mr_sv value);
/* A named database of one record beside the others. */
void mr_lmdb_put_database(mr_lmdb_writer *w, const char *name);
/* Commits the records; again: begins another transaction. */
void mr_lmdb_commit(mr_lmdb_writer *w, bool again);
void mr_lmdb_writer_close(mr_lmdb_writer *w);

#endif
