/* cli/command.h -- what a command of `millrace` is.
 *
 * A command is one file cli/cmd_x.c with a table of its options; parsing and --help come from the table.  The build
 * finds MR_COMMAND(name at the start of a line. */
#ifndef MR_CLI_COMMAND_H
#define MR_CLI_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef enum mr_option_kind { MR_OPT_FLAG, MR_OPT_STRING, MR_OPT_INT } mr_option_kind;

#define MR_NOT_GIVEN INT64_MIN /* for an MR_OPT_INT without a fixed default */

typedef struct mr_option {
    const char *name; /* without the dashes; NULL ends the table */
    mr_option_kind kind;
    void *value;      /* bool *, const char **, int64_t * */
    const char *metavar, *help;
} mr_option;

typedef struct mr_command {
    const char *name, *summary;
    const char *usage;        /* arguments after the options: "FILE..."; "--" ends the options */
    const mr_option *options; /* may be NULL */
    const char *notes;        /* below the options in --help, whole lines; may be NULL */
    int min_args, max_args;   /* max -1: any number */
    bool ends_at_argument;    /* what stands behind the first argument is one too, also when it looks like an option */
    mr_status *(*run)(int n_args, char **args); /* an error is printed and gives exit code 1 */
} mr_command;

/* For a command that ended well by its own measure: the exit code of the process in place of 0. */
void mr_command_exit_code(int code);

#define MR_COMMAND(id, ...) \
    extern const mr_command mr_command_##id; \
    const mr_command mr_command_##id = {.name = #id, __VA_ARGS__}

#endif
