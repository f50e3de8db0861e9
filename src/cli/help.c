/* cli/help.c -- the text of --help and the man pages.
 *
 * Both are printed from the same strings. The help output wraps them at 80 columns and leaves `code` in backquotes as it
 * is. The man pages leave wrapping to man and turn `code` into bold text. */
#include "cli/help.h"

#include <ctype.h>
#include <stdio.h>

#include "base/memory.h"
#include "millrace/millrace.h"

enum { WIDTH = 80, TEXT_COLUMN = 26 };

static const char *const groups[MR_COMMAND_GROUPS] = {"Programs and clusters", "Models and operations", "Analyze performance", "Other commands"};

static const char program_summary[] = "a machine-learning runtime for dataflow graphs";

/* ---- --help ---- */

/* Appends `text`, wrapped at WIDTH. The cursor is at `column`; later lines start at `indent`. An empty line in the text
 * separates paragraphs. Ends with a newline. */
static void append_wrapped(const char *text, int column, int indent, mr_str *out)
{
    bool first = true; /* no word is on this line yet */
    while (*text) {
        if (text[0] == '\n' && text[1] == '\n') {
            mr_str_printf(out, "\n\n%*s", indent, "");
            column = indent;
            first = true;
            text += 2;
            continue;
        }
        if (isspace((unsigned char)*text)) {
            text++;
            continue;
        }
        int n = (int)strcspn(text, " \n");
        if (!first && column + 1 + n > WIDTH) {
            mr_str_printf(out, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        mr_str_printf(out, "%s%.*s", first ? "" : " ", n, text);
        column += n + !first;
        first = false;
        text += n;
    }
    mr_str_appendc(out, '\n');
}

/* A name on the left, its text on the right; the text goes to the next line if the name is too long. */
static void print_item(const char *name, const char *text, int column, mr_str *out)
{
    size_t start = out->n;
    mr_str_printf(out, "  %s", name);
    int used = (int)(out->n - start);
    if (used < column)
        mr_str_printf(out, "%*s", column - used, "");
    else
        mr_str_printf(out, "\n%*s", column, "");
    append_wrapped(text, column, column, out);
}

static bool in_group(const mr_command *c, int group) { return (int)c->group == group; }

void mr_help_overview(const mr_command *const *commands, int n, mr_str *out)
{
    mr_str_printf(out, "millrace %s: %s\n\nusage: millrace COMMAND [OPTION]... [ARGUMENT]...\n", mr_version(), program_summary);
    for (int g = 0; g < MR_COMMAND_GROUPS; g++) {
        mr_str_printf(out, "\n%s:\n", groups[g]);
        for (int i = 0; i < n; i++)
            if (in_group(commands[i], g))
                print_item(commands[i]->name, commands[i]->summary, 12, out);
    }
    mr_str_appendz(out, "\nRun `millrace COMMAND --help` for the options of a command.\n");
}

static void print_option(const mr_option *o, mr_str *out)
{
    char name[64];
    snprintf(name, sizeof name, "--%s%s%s", o->name, o->metavar ? " " : "", o->metavar ? o->metavar : "");
    print_item(name, o->help, TEXT_COLUMN, out);
}

/* "Start a cluster." from the summary "start a cluster". */
static char *make_sentence(const char *summary)
{
    char *s = mr_printf("%s.", summary);
    s[0] = (char)toupper((unsigned char)s[0]);
    return s;
}

void mr_help_command(const mr_command *c, mr_str *out)
{
    char *what = make_sentence(c->summary);
    mr_str_printf(out, "usage: millrace %s%s%s%s\n\n", c->name, c->options ? " [OPTION]..." : "", c->usage ? " " : "",
                  c->usage ? c->usage : "");
    append_wrapped(what, 0, 0, out);
    mr_free(what);
    if (c->about) {
        mr_str_appendc(out, '\n');
        append_wrapped(c->about, 0, 0, out);
    }
    for (const mr_option *o = c->options; o && o->name; o++) {
        if (o->kind == MR_OPT_HEADING)
            mr_str_printf(out, "\n%s:\n", o->help);
        else if (o == c->options)
            mr_str_appendz(out, "\nOptions:\n");
        if (o->kind != MR_OPT_HEADING)
            print_option(o, out);
    }
    for (const mr_help_item *e = c->environment; e && e->name; e++) {
        mr_str_appendz(out, e == c->environment ? "\nEnvironment:\n" : "");
        print_item(e->name, e->text, TEXT_COLUMN, out);
    }
    for (const mr_help_item *e = c->examples; e && e->name; e++)
        mr_str_printf(out, "%s  %s\n      %s\n", e == c->examples ? "\nExamples:\n" : "", e->text, e->name);
}

/* ---- man pages ---- */

/* Escapes what roff would interpret. A dash becomes a minus sign, so that options can be copied from the page. */
static void append_roff(const char *text, size_t n, mr_str *out)
{
    for (size_t i = 0; i < n; i++) {
        bool line_start = out->n == 0 || out->p[out->n - 1] == '\n';
        if (line_start && (text[i] == '.' || text[i] == '\''))
            mr_str_appendz(out, "\\&");
        if (text[i] == '-')
            mr_str_appendz(out, "\\-");
        else if (text[i] == '\\')
            mr_str_appendz(out, "\\e");
        else
            mr_str_appendc(out, text[i]);
    }
}

/* Appends text with `code` in bold and paragraphs separated by .PP. Lines are short, as for roff files written by hand.
 * Ends with a newline. */
static void append_prose(const char *text, mr_str *out)
{
    enum { SOFT_WIDTH = 64 };
    bool code = false;
    size_t line = out->n;
    while (*text) {
        size_t n = strcspn(text, "` \n");
        append_roff(text, n, out);
        text += n;
        if (*text == '`') {
            code = !code;
            mr_str_appendz(out, code ? "\\fB" : "\\fR");
            text++;
        } else if (text[0] == '\n' && text[1] == '\n') {
            mr_str_appendz(out, "\n.PP\n");
            line = out->n;
            text += 2;
        } else if (*text) {
            bool breaks = out->n - line > SOFT_WIDTH;
            mr_str_appendc(out, breaks ? '\n' : ' ');
            line = breaks ? out->n : line;
            text++;
        }
    }
    mr_str_appendc(out, '\n');
}

static void append_word(const char *word, mr_str *out) { append_roff(word, strlen(word), out); }

/* The title line, the name and the summary. The page has no date: it must be the same for every build of a version. Words are not
 * hyphenated, because options and paths must be readable. */
static void begin_page(const char *name, const char *summary, mr_str *out)
{
    mr_str_appendz(out, ".TH ");
    for (const char *p = name; *p; p++)
        mr_str_appendc(out, (char)toupper((unsigned char)*p));
    mr_str_printf(out, " 1 \"\" \"Millrace %s\" \"Millrace Manual\"\n.nh\n.ad l\n.SH NAME\n", mr_version());
    append_word(name, out);
    mr_str_appendz(out, " \\- ");
    append_word(summary, out); /* on one line, for mandb */
    mr_str_appendc(out, '\n');
    mr_str_appendz(out, ".SH SYNOPSIS\n");
}

static void append_items(const char *heading, const mr_help_item *items, mr_str *out)
{
    for (const mr_help_item *e = items; e && e->name; e++) {
        mr_str_printf(out, "%s%s%s.TP\n.B ", e == items ? ".SH " : "", e == items ? heading : "", e == items ? "\n" : "");
        append_word(e->name, out);
        mr_str_appendc(out, '\n');
        append_prose(e->text, out);
    }
}

static void append_option(const mr_option *o, mr_str *out)
{
    mr_str_appendz(out, ".TP\n\\fB\\-\\-");
    append_word(o->name, out);
    mr_str_appendz(out, "\\fR");
    if (o->metavar) {
        mr_str_appendz(out, " \\fI");
        append_word(o->metavar, out);
        mr_str_appendz(out, "\\fR");
    }
    mr_str_appendc(out, '\n');
    append_prose(o->help, out);
}

void mr_man_command(const mr_command *c, mr_str *out)
{
    char *name = mr_printf("millrace-%s", c->name), *what = make_sentence(c->summary);
    begin_page(name, c->summary, out);
    mr_str_printf(out, ".B millrace %s\n", c->name);
    if (c->options)
        mr_str_printf(out, "[\\fIOPTION\\fR]...%s", c->usage ? " " : "\n");
    if (c->usage)
        append_prose(c->usage, out);
    mr_str_appendz(out, ".SH DESCRIPTION\n");
    append_prose(what, out);
    if (c->about) {
        mr_str_appendz(out, ".PP\n");
        append_prose(c->about, out);
    }
    for (const mr_option *o = c->options; o && o->name; o++) {
        if (o == c->options)
            mr_str_appendz(out, ".SH OPTIONS\n");
        if (o->kind == MR_OPT_HEADING)
            mr_str_printf(out, ".SS %s\n", o->help);
        else
            append_option(o, out);
    }
    append_items("ENVIRONMENT", c->environment, out);
    for (const mr_help_item *e = c->examples; e && e->name; e++) {
        mr_str_appendz(out, e == c->examples ? ".SH EXAMPLES\n" : ".PP\n");
        append_prose(e->text, out);
        mr_str_appendz(out, ".PP\n.RS 4\n.EX\n");
        append_word(e->name, out);
        mr_str_appendz(out, "\n.EE\n.RE\n");
    }
    mr_str_appendz(out, ".SH SEE ALSO\n.BR millrace (1)\n");
    mr_free(name);
    mr_free(what);
}

void mr_man_overview(const mr_command *const *commands, int n, mr_str *out)
{
    begin_page("millrace", program_summary, out);
    mr_str_appendz(out, ".B millrace\n\\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\fIARGUMENT\\fR]...\n.SH DESCRIPTION\n");
    append_prose("Millrace runs dataflow graphs in the style of TensorFlow 1.x, on one machine or on a cluster. This command "
                 "starts programs and clusters, and inspects models, traces and plans. Each command below has its own manual "
                 "page and explains itself with `--help`.", out);
    mr_str_appendz(out, ".SH COMMANDS\n");
    for (int g = 0; g < MR_COMMAND_GROUPS; g++) {
        mr_str_printf(out, ".SS %s\n", groups[g]);
        for (int i = 0; i < n; i++) {
            if (!in_group(commands[i], g))
                continue;
            mr_str_printf(out, ".TP\n.BR millrace\\-%s (1)\n", commands[i]->name);
            append_prose(commands[i]->summary, out);
        }
    }
    mr_str_appendz(out, ".SH OPTIONS\n.TP\n.B \\-\\-help\nlist the commands; after a command, describe it\n"
                        ".TP\n.B \\-\\-version\nprint the version\n"
                        ".SH EXIT STATUS\n.TP\n.B 0\nsuccess\n.TP\n.B 1\nthe command failed; the reason is on standard error\n"
                        ".TP\n.B 2\nthe command line is wrong\n"
                        ".PP\n\\fBmillrace python\\fR returns the exit status of the script, \\fBmillrace launch\\fR that of the job.\n");
}
