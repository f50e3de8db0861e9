/* base/terminal.h -- what an output can show: its width, colors, characters beyond ASCII.
 *
 * Code that prints for people takes an mr_terminal and asks nothing else about the output. A file or a pipe gets no
 * colors, unless the user wants them. */
#ifndef MR_BASE_TERMINAL_H
#define MR_BASE_TERMINAL_H

#include "base/str.h"

typedef struct mr_terminal {
    int width;  /* in columns */
    bool color; /* escape sequences may be written */
    bool ascii; /* the terminal's locale is not UTF-8 */
} mr_terminal;

typedef enum mr_color_when {
    MR_COLOR_AUTO, /* on a terminal whose TERM is set and not "dumb"; NO_COLOR forbids and CLICOLOR_FORCE requires it */
    MR_COLOR_ALWAYS,
    MR_COLOR_NEVER,
} mr_color_when;

/* "auto", "always" or "never" (the value of an option --color; NULL is auto). */
mr_status *mr_color_parse(const char *text, mr_color_when *out);
bool mr_terminal_color(int fd, mr_color_when when);
/* The width of the terminal at fd in columns; `otherwise` if fd is not a terminal or its width is unknown. */
int mr_terminal_width(int fd, int otherwise);
/* All of it. width: as given by the user; 0 asks the terminal, and takes 100 for files and pipes. It is limited to
 * MR_TERMINAL_NARROW to MR_TERMINAL_WIDE. */
mr_terminal mr_terminal_of(int fd, mr_color_when when, int64_t width);
enum { MR_TERMINAL_NARROW = 40, MR_TERMINAL_WIDE = 1000, MR_TERMINAL_USUAL = 100 };

/* Styles are the parameters of the escape sequence: "1" is bold. A box is a colored background with text that is
 * readable on it in the usual palettes. Devices have no red, yellow or grey, which mean transfers, checkpoints and waiting. */
#define MR_STYLE_HEADING "1"
#define MR_STYLE_DIM "2"
#define MR_STYLE_SEND "31"         /* transfers are red */
#define MR_STYLE_SEND_BOX "97;41"
#define MR_STYLE_WAIT_BOX "97;100" /* grey */
#define MR_STYLE_INPUT_BOX "30;103"
#define MR_STYLE_SAVE "33"         /* checkpoints are yellow */
#define MR_STYLE_SAVE_BOX "30;43"
#define MR_STYLE_DOWN_BOX "1;7"    /* failures have the strongest contrast there is */
#define MR_STYLE_MARK "1;31"
/* The same number always has the same color. */
const char *mr_style_device(int number);
const char *mr_style_device_box(int number);

/* Appends the text in a style; as it is if t is NULL or has no color, or the style is NULL. */
void mr_style_put(const mr_terminal *t, const char *style, mr_sv text, mr_str *out);
void mr_style_printf(const mr_terminal *t, const char *style, mr_str *out, const char *fmt, ...) MR_PRINTF(4, 5);

#endif
