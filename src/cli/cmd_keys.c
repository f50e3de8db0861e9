/* cli/cmd_keys.c -- `millrace keys`: a CA and a certificate for each task of a cluster. */
#include <stdio.h>

#include "base/memory.h"
#include "base/vec.h"
#include "cli/command.h"
#include "net/net.h"

static int64_t n_ps = 1, n_workers = 1, days = 365;
static const char *hosts = "localhost";

static const mr_option options[] = {
    {"ps", MR_OPT_INT, &n_ps, "N", "tasks of the job ps (default 1)"},
    {"workers", MR_OPT_INT, &n_workers, "N", "tasks of the job worker (default 1)"},
    {"hosts", MR_OPT_STRING, &hosts, "LIST", "host names the tasks may have, h1,h2 (default localhost)"},
    {"days", MR_OPT_INT, &days, "N", "how long the certificates hold (default 365)"},
    {0},
};

enum { MAX_TASKS = 1 << 16 };

static mr_status *make_keys(int n_args, char **args)
{
    (void)n_args;
    if (n_ps < 0 || n_workers < 0 || n_ps + n_workers > MAX_TASKS || days < 1 || days > 36500)
        return mr_invalid("--ps %lld --workers %lld --days %lld cannot be", (long long)n_ps, (long long)n_workers, (long long)days);
    int n = (int)(n_ps + n_workers) + 1;
    char **names = mr_new_array(char *, n);
    const char **where = mr_new_array(const char *, n);
    for (int i = 0; i < n; i++) {
        names[i] = i < n_ps       ? mr_printf("ps/%d", i)
                   : i < n - 1 ? mr_printf("worker/%d", i - (int)n_ps)
                               : mr_strdup("client");
        where[i] = hosts;
    }
    mr_status *st = mr_net_make_keys(args[0], (const char *const *)names, where, n, (int)days);
    if (!st)
        printf("keys for %d tasks and for clients are in %s; set MILLRACE_TLS_DIR to it on every host\n", n - 1, args[0]);
    for (int i = 0; i < n; i++)
        mr_free(names[i]);
    mr_free(names);
    mr_free(where);
    return st;
}

MR_COMMAND(keys, .summary = "make certificates for the tasks of a cluster", .usage = "FOLDER", .options = options, .min_args = 1,
           .max_args = 1, .run = make_keys);
