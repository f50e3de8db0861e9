/* cli/columns.c -- see columns.h. */
#include "cli/columns.h"

#include <ctype.h>
#include <stdio.h>

#include "base/memory.h"

/* A copy with control characters as \xNN; the caller owns it. */
static char *escape_cell(const char *text)
{
    mr_str s = {0};
    for (const char *p = text; *p; p++)
        if (iscntrl((unsigned char)*p))
            mr_str_printf(&s, "\\x%02x", (unsigned char)*p);
        else
            mr_str_appendc(&s, *p);
    char *out = mr_strdup(mr_str_z(&s));
    mr_str_deinit(&s);
    return out;
}

void mr_columns_add(mr_columns *c, int n, const char *const *cells)
{
    if (c->cells.n == 0)
        c->n = n;
    for (int i = 0; i < c->n; i++)
        mr_vec_push(&c->cells, escape_cell(i < n ? cells[i] : ""));
}

/* The number of characters; names may be UTF-8. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* Empty cells at the end of a row are not padded. */
static void print_row(const mr_columns *c, int row, const int *widths, int indent, mr_str *out)
{
    int last = c->n - 1;
    while (last > 0 && !c->cells.p[row * c->n + last][0])
        last--;
    mr_str_printf(out, "%*s", indent, "");
    for (int i = 0; i <= last; i++) {
        const char *cell = c->cells.p[row * c->n + i];
        mr_str_appendz(out, cell);
        if (i < last)
            mr_str_printf(out, "%*s", widths[i] - width_of(cell) + 2, "");
    }
    mr_str_appendc(out, '\n');
}

void mr_columns_print(mr_columns *c, int indent, mr_str *out)
{
    int widths[MR_COLUMNS_MOST] = {0};
    int n_rows = c->n ? c->cells.n / c->n : 0;
    for (int i = 0; i < c->cells.n; i++)
        widths[i % c->n] = MR_MAX(widths[i % c->n], width_of(c->cells.p[i]));
    for (int r = 0; r < n_rows; r++)
        print_row(c, r, widths, indent, out);
    for (int i = 0; i < c->cells.n; i++)
        mr_free(c->cells.p[i]);
    mr_vec_deinit(&c->cells);
    *c = (mr_columns){0};
}

const char *mr_bytes_text(double bytes, char buf[32])
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    int u = 0;
    while (bytes >= 1000 && u < MR_COUNT(units) - 1) {
        bytes /= 1000;
        u++;
    }
    snprintf(buf, 32, u && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return buf;
}
