/* cli/screen.h -- what a person sees of a job: the lines of its tasks, and on a terminal the table below them.
 *
 * Off a terminal lines are written at once, behind the name of their task, to the stream they came from.  On one they
 * are gathered into frames: one write takes the table away, adds the lines and draws the table anew, so nothing
 * flickers. */
#ifndef MR_CLI_SCREEN_H
#define MR_CLI_SCREEN_H

#include "cli/task_table.h"

typedef struct mr_screen mr_screen;

/* table: draw one if stderr is a terminal. */
mr_screen *mr_screen_new(bool table);
void mr_screen_free(mr_screen *s); /* what is left is written; the table stays as it was drawn last */
bool mr_screen_has_table(const mr_screen *s);

/* A line of a task; number: which one, for its colour.  stream: 1 or 2. */
void mr_screen_line(mr_screen *s, int number, const char *name, int name_width, int stream, mr_sv text);
/* Our own words. */
void mr_screen_say(mr_screen *s, const char *text);
void mr_screen_draw(mr_screen *s, const mr_task_table *t);
/* Takes the table away; it comes back with the next draw. */
void mr_screen_clear(mr_screen *s);

/* All n bytes; a reader that is slow is waited for, one that is gone is not. */
void mr_screen_write(int fd, const char *p, size_t n);

/* Bytes into lines; a carriage return ends one too, so progress bars come line by line. */
typedef struct mr_lines {
    mr_str begun;
} mr_lines;
typedef void (*mr_lines_fn)(void *arg, mr_sv line);
void mr_lines_add(mr_lines *l, const char *p, size_t n, mr_lines_fn fn, void *arg);
void mr_lines_end(mr_lines *l, mr_lines_fn fn, void *arg); /* also one without its end */

#endif
