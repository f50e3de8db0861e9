/* base/terminal.c -- see terminal.h. */
#include "base/terminal.h"

#include <stdarg.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/memory.h"

/* A variable that is set but empty counts as not set, as no-color.org asks for. */
static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

mr_status *mr_color_parse(const char *text, mr_color_when *out)
{
    static const char *const names[] = {"auto", "always", "never"};
    *out = MR_COLOR_AUTO;
    for (int i = 0; text && i < MR_COUNT(names); i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (mr_color_when)i;
            return NULL;
        }
    return text ? mr_invalid("--color '%s': expected auto, always or never", text) : NULL;
}

bool mr_terminal_color(int fd, mr_color_when when)
{
    const char *term = variable("TERM"), *force = variable("CLICOLOR_FORCE");
    if (when != MR_COLOR_AUTO)
        return when == MR_COLOR_ALWAYS;
    if (variable("NO_COLOR"))
        return false;
    if (force && strcmp(force, "0") != 0)
        return true;
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

int mr_terminal_width(int fd, int otherwise)
{
    struct winsize w;
    return isatty(fd) && ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0 ? w.ws_col : otherwise;
}

/* Files and pipes always get UTF-8, so that what a command writes does not depend on the locale. */
static bool shows_utf8(int fd)
{
    const char *locale = variable("LC_ALL");
    if (!isatty(fd))
        return true;
    if (!locale)
        locale = variable("LC_CTYPE");
    if (!locale)
        locale = variable("LANG");
    const char *charset = locale ? strchr(locale, '.') : NULL;
    return charset && (strncasecmp(charset, ".utf-8", 6) == 0 || strncasecmp(charset, ".utf8", 5) == 0);
}

mr_terminal mr_terminal_of(int fd, mr_color_when when, int64_t width)
{
    int64_t columns = width > 0 ? width : mr_terminal_width(fd, MR_TERMINAL_USUAL);
    return (mr_terminal){
        .width = (int)MR_MIN(MR_MAX(columns, MR_TERMINAL_NARROW), MR_TERMINAL_WIDE),
        .color = mr_terminal_color(fd, when),
        .ascii = !shows_utf8(fd),
    };
}

/* ---- styles ---- */

static const struct {
    const char *text, *box;
} device_colors[] = {
    {"36", "30;46"},  {"32", "30;42"},  {"35", "97;45"},  {"34", "97;44"},
    {"96", "30;106"}, {"92", "30;102"}, {"95", "30;105"}, {"94", "30;104"},
};

static unsigned device_color(int number) { return (unsigned)number % (unsigned)MR_COUNT(device_colors); }

const char *mr_style_device(int number) { return device_colors[device_color(number)].text; }
const char *mr_style_device_box(int number) { return device_colors[device_color(number)].box; }

void mr_style_put(const mr_terminal *t, const char *style, mr_sv text, mr_str *out)
{
    bool on = t && t->color && style && text.n;
    if (on)
        mr_str_printf(out, "\x1b[%sm", style);
    mr_str_append(out, text.p, text.n);
    if (on)
        mr_str_appendz(out, "\x1b[0m");
}

void mr_style_printf(const mr_terminal *t, const char *style, mr_str *out, const char *fmt, ...)
{
    mr_str text = {0};
    va_list ap;
    va_start(ap, fmt);
    mr_str_vprintf(&text, fmt, ap);
    va_end(ap);
    mr_style_put(t, style, mr_str_view(&text), out);
    mr_str_deinit(&text);
}
