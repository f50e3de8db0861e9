/* cli/screen.h -- shows the lines of the tasks of a job, and on a terminal a table below them.
 *
 * Without a table, a line is written at once, after the name of its task, to the stream it came from. With a table,
 * lines are collected into frames: one write replaces the table by the lines and the new table, so nothing flickers. */
#ifndef MR_CLI_SCREEN_H
#define MR_CLI_SCREEN_H

#include "cli/task_table.h"

typedef struct mr_screen mr_screen;

/* table: draw a table if stderr is a terminal. */
mr_screen *mr_screen_new(bool table);
void mr_screen_free(mr_screen *s); /* writes what is pending; NULL is allowed */
bool mr_screen_has_table(const mr_screen *s);

/* Shows a line of a task. The number of the task selects its color. stream: 1 or 2. */
void mr_screen_line(mr_screen *s, int number, const char *name, int name_width, int stream, mr_sv text);
/* Shows a line of the launcher itself. */
void mr_screen_say(mr_screen *s, const char *text);
void mr_screen_draw(mr_screen *s, const mr_task_table *t);
/* Writes pending lines and removes the table until the next draw. */
void mr_screen_clear(mr_screen *s);

/* Writes all n bytes. Waits for a slow reader; gives up after an error. */
void mr_screen_write(int fd, const char *p, size_t n);

/* Splits bytes into lines. A carriage return ends a line too, so that progress bars are shown. */
typedef struct mr_lines {
    mr_str begun;
} mr_lines;
typedef void (*mr_lines_fn)(void *arg, mr_sv line);
void mr_lines_add(mr_lines *l, const char *p, size_t n, mr_lines_fn fn, void *arg);
void mr_lines_end(mr_lines *l, mr_lines_fn fn, void *arg); /* ends a line that has no newline */

#endif
