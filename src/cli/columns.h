/* cli/columns.h -- rows of text laid out in columns. */
#ifndef MR_CLI_COLUMNS_H
#define MR_CLI_COLUMNS_H

#include "base/str.h"
#include "base/vec.h"

enum { MR_COLUMNS_MOST = 8 };

typedef struct mr_columns {
    int n;                          /* columns; set by the first row */
    MR_VEC(char *) cells;           /* owned, row by row */
} mr_columns;

/* Adds a row of n cells, which are copied. Control characters are escaped. */
void mr_columns_add(mr_columns *c, int n, const char *const *cells);
#define mr_columns_row(c, ...) \
    mr_columns_add(c, MR_COUNT(((const char *const[]){__VA_ARGS__})), (const char *const[]){__VA_ARGS__})
/* Prints each row on a line, after `indent` spaces, with two spaces between columns; then empties c. */
void mr_columns_print(mr_columns *c, int indent, mr_str *out);

/* "3.4 MB", "12 bytes" */
const char *mr_bytes_text(double bytes, char buf[32]);

#endif
