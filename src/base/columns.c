/* base/columns.c -- see columns.h. */
#include "base/columns.h"

#include <ctype.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/wrap.h"

enum { GAP = 2 }; /* spaces between columns */

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
        c->n = MR_MIN(n, MR_COLUMNS_MOST);
    for (int i = 0; i < c->n; i++)
        mr_vec_push(&c->cells, (mr_columns_cell){.text = escape_cell(i < n ? cells[i] : "")});
}

void mr_columns_style(mr_columns *c, int column, const char *style)
{
    for (int i = 0; i < c->n; i++)
        if (column < 0 || column == i)
            c->cells.p[c->cells.n - c->n + i].style = style;
}

static mr_sv cell_text(const mr_columns *c, int i) { return mr_sv_of(c->cells.p[i].text); }

/* ---- widths ---- */

static int sum_widths(const mr_columns *c, const int *widths, int indent)
{
    int sum = indent + GAP * MR_MAX(c->n - 1, 0);
    for (int i = 0; i < c->n; i++)
        sum += widths[i];
    return sum;
}

/* The widths the columns would like to have. */
static void measure_columns(const mr_columns *c, int *widths)
{
    for (int i = 0; i < c->cells.n; i++)
        widths[i % c->n] = MR_MAX(widths[i % c->n], mr_text_columns(cell_text(c, i)));
}

/* Lines after the first of a cell of the first column are indented. */
static int hang_of(int column) { return column == 0 ? GAP : 0; }

/* The widths below which words are broken. */
static void measure_least(const mr_columns *c, int *widths)
{
    for (int i = 0; i < c->cells.n; i++) {
        mr_sv text = cell_text(c, i);
        int all = mr_text_columns(text);
        int least = c->whole >> i % c->n & 1 ? all : mr_wrap_least(text) + hang_of(i % c->n);
        widths[i % c->n] = MR_MAX(widths[i % c->n], MR_MIN(all, least));
    }
}

int mr_columns_least(const mr_columns *c, int indent)
{
    int widths[MR_COLUMNS_MOST] = {0};
    measure_least(c, widths);
    return sum_widths(c, widths, indent);
}

/* Takes columns away from the widest one that is wider than its least width, until the rest fits. */
static void shrink_columns(const mr_columns *c, const int *least, int indent, int width, int *widths)
{
    int over = sum_widths(c, widths, indent) - width;
    for (; over > 0; over--) {
        int widest = -1;
        for (int i = 0; i < c->n; i++)
            if (widths[i] > MR_MAX(least[i], 1) && (widest < 0 || widths[i] > widths[widest]))
                widest = i;
        if (widest < 0)
            return;
        widths[widest]--;
    }
}

/* The width of the widest line of a column when its cells are wrapped. */
static int used_width(const mr_columns *c, int column, int width)
{
    int used = 0;
    for (int i = column; i < c->cells.n; i += c->n) {
        mr_str text = {0};
        mr_str_appendz(&text, c->cells.p[i].text);
        mr_wrap(&text, 0, MR_MAX(width, 1), hang_of(column));
        for (mr_sv rest = mr_str_view(&text), line; mr_sv_cut(&rest, '\n', &line);)
            used = MR_MAX(used, mr_text_columns(line));
        mr_str_deinit(&text);
    }
    return used;
}

/* Lines end where words end, so narrow columns may not use all of their width: the first column that has room for its
 * whole cells then gets it back. */
static void return_unused(const mr_columns *c, const int *natural, int indent, int width, int *widths)
{
    for (int i = 0; i < c->n; i++)
        if (widths[i] < natural[i])
            widths[i] = used_width(c, i, widths[i]);
    for (int i = 0; i < c->n; i++)
        if (sum_widths(c, widths, indent) + natural[i] - widths[i] <= width)
            widths[i] = natural[i];
}

/* ---- rows ---- */

/* Appends one line of a cell, aligned; the last column of a row is not padded. */
static void put_cell(const mr_columns *c, int i, mr_sv line, int width, bool last, const mr_terminal *t, mr_str *out)
{
    int column = i % c->n, space = MR_MAX(width - mr_text_columns(line), 0);
    bool right = c->right >> column & 1;
    if (right)
        mr_str_printf(out, "%*s", space, "");
    mr_style_put(t, c->cells.p[i].style, line, out);
    if (!last)
        mr_str_printf(out, "%*s", GAP + (right ? 0 : space), "");
}

/* Prints a row on as many lines as its highest cell has. Empty cells at the end of a line are not padded. */
static void print_row(const mr_columns *c, int row, const int *widths, int indent, const mr_terminal *t, mr_str *out)
{
    mr_str cells[MR_COLUMNS_MOST] = {0};
    mr_sv rest[MR_COLUMNS_MOST];
    int last;
    for (int i = 0; i < c->n; i++) {
        mr_str_appendz(&cells[i], c->cells.p[row * c->n + i].text);
        mr_wrap(&cells[i], 0, MR_MAX(widths[i], 1), hang_of(i));
        rest[i] = mr_str_view(&cells[i]);
    }
    do {
        mr_sv lines[MR_COLUMNS_MOST] = {0};
        for (int i = 0; i < c->n; i++)
            if (rest[i].p)
                mr_sv_cut(&rest[i], '\n', &lines[i]);
        for (last = c->n - 1; last > 0 && !lines[last].n;)
            last--;
        mr_str_printf(out, "%*s", indent, "");
        for (int i = 0; i <= last; i++)
            put_cell(c, row * c->n + i, lines[i], widths[i], i == last, t, out);
        mr_str_appendc(out, '\n');
        for (last = c->n - 1; last >= 0 && !rest[last].p;)
            last--;
    } while (last >= 0);
    for (int i = 0; i < c->n; i++)
        mr_str_deinit(&cells[i]);
}

/* width 0: no limit. */
static void print_rows(mr_columns *c, const mr_terminal *t, int width, int indent, mr_str *out)
{
    int widths[MR_COLUMNS_MOST] = {0}, natural[MR_COLUMNS_MOST];
    int least[MR_COLUMNS_MOST] = {0}, none[MR_COLUMNS_MOST] = {0};
    int n_rows = c->n ? c->cells.n / c->n : 0;
    measure_columns(c, widths);
    if (width > 0 && sum_widths(c, widths, indent) > width) {
        memcpy(natural, widths, sizeof natural);
        measure_least(c, least);
        shrink_columns(c, least, indent, width, widths);
        shrink_columns(c, none, indent, width, widths);
        return_unused(c, natural, indent, width, widths);
    }
    for (int r = 0; r < n_rows; r++)
        print_row(c, r, widths, indent, t, out);
    for (int i = 0; i < c->cells.n; i++)
        mr_free(c->cells.p[i].text);
    mr_vec_deinit(&c->cells);
    *c = (mr_columns){0};
}

void mr_columns_print(mr_columns *c, int indent, mr_str *out) { print_rows(c, NULL, 0, indent, out); }

void mr_columns_fit(mr_columns *c, const mr_terminal *t, int indent, mr_str *out)
{
    print_rows(c, t, t->width, indent, out);
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
