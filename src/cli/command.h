/* cli/command.h -- a subcommand of `millrace`, described by one constant.
 *
 * Each command is one file, cli/cmd_NAME.c, which ends with MR_COMMAND(NAME, ...). The build collects these lines into a
 * table. Parsing, --help and the man page (cli/help.h) all come from the constant, so each text is written once. */
#ifndef MR_CLI_COMMAND_H
#define MR_CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum mr_option_kind {
    MR_OPT_FLAG,
    MR_OPT_STRING,
    MR_OPT_INT,
    MR_OPT_HEADING, /* not an option: `help` is the heading of the options that follow */
} mr_option_kind;

#define MR_NOT_GIVEN INT64_MIN /* for an MR_OPT_INT without a fixed default */

typedef struct mr_option {
    const char *name; /* without the dashes; NULL ends the table */
    mr_option_kind kind;
    void *value; /* bool *, const char **, int64_t * */
    const char *metavar, *help;
} mr_option;

#define MR_OPTION_HEADING(title) {"", MR_OPT_HEADING, NULL, NULL, title}

/* A variable and what it does, or a command line and what it is an example of. */
typedef struct mr_help_item {
    const char *name; /* NULL ends the table */
    const char *text;
} mr_help_item;

/* The groups of `millrace --help`, in its order. */
typedef enum mr_command_group {
    MR_COMMANDS_RUN,
    MR_COMMANDS_MODEL,
    MR_COMMANDS_ANALYZE,
    MR_COMMANDS_OTHER,
    MR_COMMAND_GROUPS,
} mr_command_group;

typedef struct mr_command {
    const char *name, *summary;
    mr_command_group group;
    const char *usage;                /* arguments after the options: "FILE..."; "--" ends the options */
    const mr_option *options;         /* may be NULL */
    const char *about;                /* paragraphs separated by empty lines, wrapped when shown; may be NULL */
    const mr_help_item *environment;  /* variables that the command reads; may be NULL */
    const mr_help_item *examples;     /* may be NULL */
    int min_args, max_args;           /* max -1: any number */
    bool ends_at_argument;            /* everything after the first argument is an argument, even if it starts with -- */
    mr_status *(*run)(int n_args, char **args); /* an error is printed and gives exit code 1 */
} mr_command;

/* Sets the exit code of a command that returns no error; the default is 0. */
void mr_command_exit_code(int code);

/* All commands, sorted by name. */
const mr_command *const *mr_commands(int *n);
/* NULL if there is no command of this name. */
const mr_command *mr_command_find(const char *name);

#define MR_COMMAND(id, ...) \
    extern const mr_command mr_command_##id; \
    const mr_command mr_command_##id = {.name = #id, __VA_ARGS__}

#endif
