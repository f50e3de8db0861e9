/* cli/main.c -- the `millrace` command: finds the subcommand, parses its options and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/help.h"
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

const mr_command *const *mr_commands(int *n)
{
    *n = N_COMMANDS;
    return commands;
}

const mr_command *mr_command_find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static void print_help(FILE *out)
{
    mr_str text = {0};
    mr_help_overview(commands, N_COMMANDS, &text);
    fputs(mr_str_z(&text), out);
    mr_str_deinit(&text);
}

static void print_command_help(const mr_command *c)
{
    mr_str text = {0};
    mr_help_command(c, &text);
    fputs(mr_str_z(&text), stdout);
    mr_str_deinit(&text);
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
    case MR_OPT_HEADING: break;
    }
    return false;
}

static const mr_option *find_option(const mr_command *c, const char *name, size_t n)
{
    for (const mr_option *o = c->options; o && o->name; o++)
        if (o->kind != MR_OPT_HEADING && strlen(o->name) == n && strncmp(o->name, name, n) == 0)
            return o;
    return NULL;
}

/* Reads "--name value" or "--name=value" at argv[i]. Returns how many elements of argv it used, 0 after an error. */
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
        usage_error(c, wants ? "missing or invalid value for" : "unexpected value for", argv[i]);
        return 0;
    }
    return wants && !inline_value ? 2 : 1;
}

static int exit_code;

void mr_command_exit_code(int code) { exit_code = code; }

/* Parses the options, checks the number of arguments and runs the command. Returns the exit code: 0 or what the command
 * set with mr_command_exit_code, 1 if it returned an error (printed here), 2 if the command line is wrong. */
static int run_command(const mr_command *c, int argc, char **argv)
{
    char **args = calloc((size_t)argc + 1, sizeof *args);
    int n = 0, took = 1, code = 2;
    bool plain = false; /* after "--", or after an argument that ends the options */
    for (int i = 0; i < argc && took; i += took) {
        took = 1;
        if (plain || strcmp(argv[i], "--") == 0) {
            if (plain)
                args[n++] = argv[i];
            plain = true;
            continue;
        }
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_command_help(c);
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
        code = usage_error(c, n < c->min_args ? "missing argument" : "too many arguments", NULL);
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

int main(int argc, char **argv)
{
    mr_ops_register();
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_help(argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "--version") == 0)
        argv[1] = (char *)"version";
    const mr_command *c = mr_command_find(argv[1]);
    if (c)
        return run_command(c, argc - 2, argv + 2);
    fprintf(stderr, "millrace: there is no command '%s'\n\n", argv[1]);
    print_help(stderr);
    return 2;
}
