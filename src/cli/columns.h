/* cli/columns.h -- rows of text laid out in columns. */
#ifndef MR_CLI_COLUMNS_H
#define MR_CLI_COLUMNS_H

#include "base/str.h"
#include "base/vec.h"

enum { MR_COLUMNS_MOST = 8 };

typedef struct mr_columns {
    int n;                          /* columns; the first row tells */
    MR_VEC(char *) cells;           /* owned, row by row */
} mr_columns;

/* One more row of n cells, copied.  What cannot be shown (control characters) is escaped. */
void mr_columns_add(mr_columns *c, int n, const char *const *cells);
#define mr_columns_row(c, ...) \
    mr_columns_add(c, MR_COUNT(((const char *const[]){__VA_ARGS__})), (const char *const[]){__VA_ARGS__})
/* Every row on a line behind `indent` spaces, columns two spaces apart; then empties c. */
void mr_columns_print(mr_columns *c, int indent, mr_str *out);

/* "3.4 MB", "12 bytes" */
const char *mr_bytes_text(double bytes, char buf[32]);

#endif
