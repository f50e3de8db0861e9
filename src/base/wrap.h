/* base/wrap.h -- makes lines of text fit a width.
 *
 * Widths are in columns: an escape sequence for color takes none, a character of UTF-8 takes one. */
#ifndef MR_BASE_WRAP_H
#define MR_BASE_WRAP_H

#include "base/str.h"

/* The columns that a text of one line takes. */
int mr_text_columns(mr_sv text);
/* Appends spaces until the text since `from` takes `width` columns. */
void mr_text_pad(mr_str *s, size_t from, int width);

/* Breaks the lines of s that begin at or after `from` and are wider than `width`. A line is broken between words, and
 * goes on after `hang` spaces. A number stays with the word after it ("1.2 ms"). Only a word that is wider than a whole
 * line is broken itself: after a slash or another sign, else after an underscore or a dot, else anywhere. */
void mr_wrap(mr_str *s, size_t from, int width, int hang);
/* The width of the widest piece that mr_wrap would not break inside, except as a last resort. */
int mr_wrap_least(mr_sv text);

/* The longest end of a path of names that has at most `width` characters and begins after a slash, or all of it:
 * "a/b/c" gives "b/c" or "c". If even the last name is too long, the result is empty. */
mr_sv mr_name_end(mr_sv name, int width);

#endif
