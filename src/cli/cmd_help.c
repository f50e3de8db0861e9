/* cli/cmd_help.c -- `millrace help`: the help of a command, or the man pages of all of them. */
#include <stdio.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/help.h"

static const char *man_folder;

/* Writes FOLDER/NAME.1; takes the page's text. */
static mr_status *write_page(const char *name, mr_str *page)
{
    char *path = mr_printf("%s/%s.1", man_folder, name);
    mr_status *st = mr_file_write_all(path, mr_str_view(page));
    mr_free(path);
    mr_str_deinit(page);
    return st;
}

static mr_status *write_pages(void)
{
    int n;
    const mr_command *const *commands = mr_commands(&n);
    mr_str page = {0};
    mr_man_overview(commands, n, &page);
    mr_status *st = write_page("millrace", &page);
    for (int i = 0; i < n && !st; i++) {
        char *name = mr_printf("millrace-%s", commands[i]->name);
        mr_man_command(commands[i], &page);
        st = write_page(name, &page);
        mr_free(name);
    }
    return st;
}

static mr_status *run_help(int n_args, char **args)
{
    int n;
    const mr_command *const *commands = mr_commands(&n);
    if (man_folder)
        return write_pages();
    const mr_command *c = n_args ? mr_command_find(args[0]) : NULL;
    if (n_args && !c)
        return mr_error(MR_NOT_FOUND, "there is no command '%s'; `millrace help` lists them", args[0]);
    mr_str text = {0};
    if (c)
        mr_help_command(c, &text);
    else
        mr_help_overview(commands, n, &text);
    fputs(mr_str_z(&text), stdout);
    mr_str_deinit(&text);
    return NULL;
}

static const mr_option options[] = {
    {"man", MR_OPT_STRING, &man_folder, "FOLDER", "write the man pages of all commands to FOLDER instead, which must exist"},
    {0},
};

MR_COMMAND(help, .summary = "describe a command, or list all commands", .group = MR_COMMANDS_OTHER, .usage = "[COMMAND]",
           .options = options, .max_args = 1, .run = run_help);
