/* cli/main.c -- the `millrace` command: finds the sub-command, reads its options, runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "millrace/millrace.h"
#include "ops/table.h"

#define X(id) extern const mr_command mr_command_##id;
#include "commands.inc"
#undef X

static const mr_command *const commands[] = {
#define X(id) &mr_command_##id,
#include "commands.inc"
#undef X
};
enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static void print_help(FILE *out)
{
    fprintf(out, "millrace %s -- machine learning on dataflow graphs\n\nusage: millrace COMMAND [options] ...\n\n", mr_version());
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "\n`millrace COMMAND --help` tells more.\n");
}

static void print_command_help(const mr_command *c, FILE *out)
{
    fprintf(out, "usage: millrace %s%s%s%s\n\n%s\n", c->name, c->options ? " [options]" : "", c->usage ? " " : "",
            c->usage ? c->usage : "", c->summary);
    for (const mr_option *o = c->options; o && o->name; o++) {
        if (o == c->options)
            fprintf(out, "\noptions:\n");
        char left[80];
        snprintf(left, sizeof left, "--%s%s%s", o->name, o->metavar ? " " : "", o->metavar ? o->metavar : "");
        fprintf(out, "  %-20s %s\n", left, o->help);
    }
    if (c->notes)
        fprintf(out, "\n%s", c->notes);
}

static int usage_error(const mr_command *c, const char *what, const char *detail)
{
    fprintf(stderr, "millrace %s: %s%s%s\n", c->name, what, detail ? " " : "", detail ? detail : "");
    fprintf(stderr, "try `millrace %s --help`\n", c->name);
    return 2;
}

static bool set_option(const mr_option *o, const char *text)
{
    char *end;
    switch (o->kind) {
    case MR_OPT_FLAG: *(bool *)o->value = true; return true;
    case MR_OPT_STRING: *(const char **)o->value = text; return true;
    case MR_OPT_INT:
        *(int64_t *)o->value = strtoll(text, &end, 10);
        return *text && !*end;
    }
    return false;
}

static const mr_option *find_option(const mr_command *c, const char *name, size_t n)
{
    for (const mr_option *o = c->options; o && o->name; o++)
        if (strlen(o->name) == n && strncmp(o->name, name, n) == 0)
            return o;
    return NULL;
}

/* Reads "--name value" and "--name=value" at argv[i]; returns how many words it took, 0 after an error. */
static int read_option(const mr_command *c, int argc, char **argv, int i)
{
    const char *word = argv[i] + 2, *eq = strchr(word, '=');
    const mr_option *o = find_option(c, word, eq ? (size_t)(eq - word) : strlen(word));
    if (!o) {
        usage_error(c, "unknown option", argv[i]);
        return 0;
    }
    bool inline_value = eq != NULL, wants = o->kind != MR_OPT_FLAG;
    const char *value = inline_value ? eq + 1 : wants && i + 1 < argc ? argv[i + 1] : NULL;
    if ((wants && !value) || (!wants && inline_value) || !set_option(o, value)) {
        usage_error(c, wants ? "a value is missing or wrong for" : "no value belongs to", argv[i]);
        return 0;
    }
    return wants && !inline_value ? 2 : 1;
}

static int exit_code;

void mr_command_exit_code(int code) { exit_code = code; }

static int run_command(const mr_command *c, int argc, char **argv)
{
    char **args = calloc((size_t)argc + 1, sizeof *args);
    int n = 0, took = 1, code = 2;
    bool plain = false; /* behind "--", or behind an argument that ends the options */
    for (int i = 0; i < argc && took; i += took) {
        took = 1;
        if (plain || strcmp(argv[i], "--") == 0) {
            if (plain)
                args[n++] = argv[i];
            plain = true;
            continue;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_command_help(c, stdout);
            free(args);
            return 0;
        }
        if (strncmp(argv[i], "--", 2) == 0)
            took = read_option(c, argc, argv, i);
        else {
            args[n++] = argv[i];
            plain = c->ends_at_argument;
        }
    }
    if (took && (n < c->min_args || (c->max_args >= 0 && n > c->max_args)))
        code = usage_error(c, n < c->min_args ? "an argument is missing" : "too many arguments", NULL);
    else if (took) {
        mr_status *st = c->run(n, args);
        if (st)
            fprintf(stderr, "millrace %s: %s\n", c->name, mr_status_message(st));
        code = st ? 1 : exit_code;
        mr_status_free(st);
    }
    free(args);
    return code;
}

static const mr_command *find_command(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

int main(int argc, char **argv)
{
    mr_ops_register();
    if (argc == 3 && strcmp(argv[1], "help") == 0 && find_command(argv[2])) {
        print_command_help(find_command(argv[2]), stdout);
        return 0;
    }
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "--version") == 0)
        argv[1] = (char *)"version";
    const mr_command *c = find_command(argv[1]);
    if (c)
        return run_command(c, argc - 2, argv + 2);
    fprintf(stderr, "millrace: there is no command '%s'\n\n", argv[1]);
    print_help(stderr);
    return 2;
}
