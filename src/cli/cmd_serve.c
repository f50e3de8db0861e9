/* cli/cmd_serve.c -- `millrace serve`: runs one task of a cluster until a signal stops it. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "cli/cluster_args.h"
#include "cli/ending.h"
#include "exec/device_sim.h"
#include "server/server.h"

static mr_cluster_args want = MR_CLUSTER_ARGS;
static const char *address;

static const char *simulated;

static const mr_option options[] = {
    MR_OPTION_HEADING("The cluster and the task"),
    MR_CLUSTER_OPTIONS(want),
    {"ps", MR_OPT_INT, &want.n_ps, "N", "with --zookeeper, instead of addresses: number of ps tasks (default 1)"},
    {"workers", MR_OPT_INT, &want.n_workers, "N", "with --zookeeper, instead of addresses: number of worker tasks (default 1)"},
    {"address", MR_OPT_STRING, &address, "HOST:PORT",
     "listen at this address instead of the one in the cluster; port 0 takes any free port"},
    MR_OPTION_HEADING("Devices"),
    {"simulate", MR_OPT_STRING, &simulated, "DEVICES",
     "add simulated devices: GPU:0=flops_per_s=2e11,memory_bytes=4G;... (docs/devices.md)"},
    {0},
};

static mr_status *read_def(mr_server_def *d)
{
    MR_TRY(mr_cluster_args_read(&want, true, d));
    mr_status *st = NULL;
    if (!d->cluster.tasks.n)
        st = mr_invalid("no cluster: give --ps-hosts and --worker-hosts, or --cluster, or set TF_CONFIG; or --zookeeper and --ps and --workers");
    else if (!d->job)
        st = mr_invalid("no task: give --job and --task to say which task of the cluster to run");
    if (st)
        mr_server_def_deinit(d);
    return st;
}

/* Prints the log of the library to standard error. */
static void print_log(void *arg, mr_log_level level, const char *file, int line, const char *text)
{
    (void)arg, (void)file, (void)line;
    fprintf(stderr, "%s%s\n", level == MR_LOG_INFO ? "" : level == MR_LOG_WARNING ? "warning: " : "error: ", text);
}

/* A cancelled step ends within milliseconds, unless one of its kernels runs for long. */
enum { STOP_MS = 10000 };

static void wait_for_signal(int asked)
{
    while (poll(&(struct pollfd){asked, POLLIN, 0}, 1, -1) < 0)
        ;
}

/* Prints all lines with one call, so that no line of the log comes between them. */
static void tell_ready(const mr_server_def *d, mr_server *s)
{
    const char *target = mr_server_target(s);
    mr_str text = {0};
    mr_str_printf(&text, "serving /job:%s/task:%d at %s\n", d->job, d->task, target);
    if (mr_server_is_plain(s))
        mr_str_printf(&text,
                      "warning: there are no keys: anyone who can reach %s, at least every user of this host, can run "
                      "steps and read files as this user; `millrace keys` makes keys\n",
                      target);
    fputs(mr_str_z(&text), stderr);
    mr_str_deinit(&text);
}

/* The first signal stops the server. The process exits at once after a second signal, or if the server has not stopped
 * after STOP_MS. */
static mr_status *run_serve(int n, char **args)
{
    (void)n, (void)args;
    mr_log_listen(print_log, NULL);
    mr_server_def d;
    mr_server *s = NULL;
    int asked;
    MR_TRY(read_def(&d));
    mr_device_sims sims = {0};
    mr_server_options o = {.zookeeper = want.zookeeper,
                           .zookeeper_ms = want.zookeeper_ms,
                           .address = address,
                           .simulated = simulated ? &sims : NULL};
    mr_status *st = mr_ending_begin(&(mr_ending_options){.first_ms = STOP_MS}, &asked); /* before other threads start */
    if (!st && simulated)
        st = mr_device_sims_parse(&sims, mr_sv_of(simulated));
    if (!st)
        st = mr_server_new(&d, &o, &s);
    mr_device_sims_deinit(&sims);
    if (!st)
        st = mr_server_start(s);
    if (!st) {
        tell_ready(&d, s);
        wait_for_signal(asked);
    }
    mr_server_free(s);
    mr_server_def_deinit(&d);
    return st;
}

static const char about[] =
    "The cluster comes from the options, or else from TF_CONFIG. The task listens at its own address in the cluster; the usual port "
    "is 2222. Ctrl-C or SIGTERM stops the task, and a second one ends the process at once.\n\n"
    "With --zookeeper, tasks need no addresses beforehand: each one takes any port and registers it, and the others find it again "
    "after it is restarted elsewhere. See docs/cluster.md.";

static const mr_help_item variables[] = {
    {"TF_CONFIG", "the cluster and the task as JSON, unless options give them"},
    {"MILLRACE_TLS_DIR", "folder with the keys of this task (see `millrace keys`)"},
    {"MILLRACE_BIND", "host to listen at instead of the host of the task's address, for example 0.0.0.0"},
    {"MILLRACE_ZOOKEEPER", "the same as --zookeeper"},
    {0},
};

static const mr_help_item examples[] = {
    {"millrace serve --ps-hosts a:2222 --worker-hosts b:2222 --job ps", "Run the parameter server of a cluster:"},
    {"millrace serve --cluster cluster.json --job ps", "The same, with the cluster in a file:"},
    {"millrace serve --zookeeper zk:2181 --workers 4 --job ps --address c:0", "Run a task that others find through ZooKeeper:"},
    {0},
};

MR_COMMAND(serve, .summary = "run one task of a cluster until it is stopped", .group = MR_COMMANDS_RUN, .options = options, .about = about,
           .environment = variables, .examples = examples, .run = run_serve);
