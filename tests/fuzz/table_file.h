/* tests/fuzz/table_file.h -- table files that no writer would produce, with correct checksums. */
#ifndef MR_TESTS_FUZZ_TABLE_FILE_H
#define MR_TESTS_FUZZ_TABLE_FILE_H

#include "base/str.h"
#include "base/vec.h"
#include "tests/fuzz/random.h"

typedef struct fuzz_entry {
    mr_str key, value;
} fuzz_entry;
typedef MR_VEC(fuzz_entry) fuzz_entries;

void fuzz_entries_deinit(fuzz_entries *e);
/* A table of these entries in the given order: sorted or not, in blocks of any size, some compressed; one in `damage`
 * blocks (0: none) is damaged before its checksum is computed. */
void fuzz_table_write(fuzz_rng *r, const fuzz_entries *e, unsigned damage, mr_str *out);
/* Gives every block of a damaged table, as far as it still has blocks, the right checksum. */
void fuzz_table_repair(mr_str *file);

#endif
