/* cli/cmd_version.c -- `millrace version`. */
#include <stdio.h>

#include "cli/command.h"
#include "millrace/millrace.h"
#include "tensorflow/c/c_api.h"

static mr_status *run_version(int n, char **args)
{
    (void)n, (void)args;
    printf("millrace %s (TensorFlow C API %s)\n", mr_version(), TF_Version());
    return NULL;
}

MR_COMMAND(version, .summary = "print the version", .group = MR_COMMANDS_OTHER, .run = run_version);
