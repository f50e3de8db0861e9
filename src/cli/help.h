/* cli/help.h -- the text of --help and the man pages, both made from the constants of cli/command.h. */
#ifndef MR_CLI_HELP_H
#define MR_CLI_HELP_H

#include "base/str.h"
#include "cli/command.h"

/* `millrace --help`: all commands by group. */
void mr_help_overview(const mr_command *const *commands, int n, mr_str *out);
/* `millrace COMMAND --help`, at most 80 columns wide. */
void mr_help_command(const mr_command *c, mr_str *out);

/* millrace(1), and millrace-COMMAND(1), in the man macros of roff. */
void mr_man_overview(const mr_command *const *commands, int n, mr_str *out);
void mr_man_command(const mr_command *c, mr_str *out);

#endif
