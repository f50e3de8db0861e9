/* store/table.h -- the sorted table file: names to values, in blocks with checksums.
 *
 * The index of a checkpoint is one (docs/formats/table.md).  Tables are small next to the data they index,
 * so reading takes the whole file into memory, checks every block, and keeps a sorted list. */
#ifndef MR_STORE_TABLE_H
#define MR_STORE_TABLE_H

#include "base/file.h"

typedef struct mr_table_entry {
    mr_sv key, value; /* live as long as the table */
} mr_table_entry;

typedef struct mr_table {
    int n;
    mr_table_entry *entries; /* ascending by key, bytewise */
    struct mr_table_memory *memory;
} mr_table;

/* Whether a file ends as a table does. */
bool mr_table_is(const char *path);
/* DATA_LOSS when anything about the file is wrong. */
mr_status *mr_table_read(const char *path, mr_table *out);
/* The same from bytes; error messages call them `name`. */
mr_status *mr_table_parse(mr_sv bytes, const char *name, mr_table *out);
void mr_table_deinit(mr_table *t);
/* The entry of a key, or NULL. */
const mr_table_entry *mr_table_find(const mr_table *t, mr_sv key);

/* Writing: keys must come in ascending order.  The file is borrowed. */
typedef struct mr_table_writer mr_table_writer;
mr_table_writer *mr_table_writer_new(mr_writer *file);
mr_status *mr_table_writer_add(mr_table_writer *w, mr_sv key, mr_sv value);
mr_status *mr_table_writer_finish(mr_table_writer *w); /* index block and footer */
void mr_table_writer_free(mr_table_writer *w);

int mr_bytes_compare(mr_sv a, mr_sv b); /* bytewise; a prefix comes first */

#endif
