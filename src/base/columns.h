/* base/columns.h -- rows of text laid out in columns. */
#ifndef MR_BASE_COLUMNS_H
#define MR_BASE_COLUMNS_H

#include "base/str.h"
#include "base/terminal.h"
#include "base/vec.h"

enum { MR_COLUMNS_MOST = 8 };

typedef struct mr_columns_cell {
    char *text;        /* owned */
    const char *style; /* NULL: none */
} mr_columns_cell;

typedef struct mr_columns {
    int n;                          /* columns; set by the first row */
    unsigned right;                 /* bits of the columns that are aligned at the right */
    unsigned whole;                 /* bits of the columns that are not made narrower as long as others can be */
    MR_VEC(mr_columns_cell) cells;  /* row by row */
} mr_columns;

/* Adds a row of n cells, which are copied. Control characters are escaped. */
void mr_columns_add(mr_columns *c, int n, const char *const *cells);
#define mr_columns_row(c, ...) \
    mr_columns_add(c, MR_COUNT(((const char *const[]){__VA_ARGS__})), (const char *const[]){__VA_ARGS__})
/* Sets the style (base/terminal.h) of a cell of the last row, or of all of them if column is -1. */
void mr_columns_style(mr_columns *c, int column, const char *style);
/* Prints each row on a line, after `indent` spaces, with two spaces between columns; then empties c. */
void mr_columns_print(mr_columns *c, int indent, mr_str *out);
/* The same within the width of a terminal, and with its colors: if the columns do not fit, the widest ones become
 * narrower and their cells take several lines, which are broken as by mr_wrap. */
void mr_columns_fit(mr_columns *c, const mr_terminal *t, int indent, mr_str *out);
/* The width that mr_columns_fit needs if it breaks cells only where mr_wrap breaks words. */
int mr_columns_least(const mr_columns *c, int indent);

/* "3.4 MB", "12 bytes" */
const char *mr_bytes_text(double bytes, char buf[32]);

#endif
