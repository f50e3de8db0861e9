/* cli/cmd_keys.c -- `millrace keys`: makes a CA and a certificate for each task of a cluster. */
#include <stdio.h>

#include "base/memory.h"
#include "base/vec.h"
#include "cli/cluster_args.h"
#include "net/net.h"

static int64_t n_ps = MR_NOT_GIVEN, n_workers = MR_NOT_GIVEN, days = 365;
static const char *hosts, *cluster;

static const mr_option options[] = {
    {"ps", MR_OPT_INT, &n_ps, "N", "number of ps tasks (default 1)"},
    {"workers", MR_OPT_INT, &n_workers, "N", "number of worker tasks (default 1)"},
    {"cluster", MR_OPT_STRING, &cluster, "FILE",
     "make keys for all tasks of this cluster instead: a JSON file in the format of TF_CONFIG, or the JSON itself"},
    {"hosts", MR_OPT_STRING, &hosts, "LIST",
     "host names that the certificates are valid for, HOST,HOST (default: those of the cluster, or localhost)"},
    {"days", MR_OPT_INT, &days, "N", "how long the certificates are valid, in days (default 365)"},
    {0},
};

enum { MAX_TASKS = 1 << 16 };

typedef struct names {
    MR_VEC(char *) name, host; /* "ps/0" and its host; both owned */
} names;

static void add_name(names *n, char *name, char *host)
{
    mr_vec_push(&n->name, name);
    mr_vec_push(&n->host, host);
}

static mr_status *add_counted(names *out)
{
    int64_t ps = n_ps == MR_NOT_GIVEN ? 1 : n_ps, workers = n_workers == MR_NOT_GIVEN ? 1 : n_workers;
    if (ps < 0 || workers < 0 || ps > MAX_TASKS || workers > MAX_TASKS - ps)
        return mr_invalid("--ps %lld --workers %lld: neither may be negative, and their sum may be at most %d",
                          (long long)ps, (long long)workers, MAX_TASKS);
    for (int64_t i = 0; i < ps + workers; i++)
        add_name(out, i < ps ? mr_printf("ps/%lld", (long long)i) : mr_printf("worker/%lld", (long long)(i - ps)),
                 mr_strdup(hosts ? hosts : "localhost"));
    return NULL;
}

static mr_status *add_cluster(names *out)
{
    mr_server_def d;
    mr_cluster_args from = MR_CLUSTER_ARGS;
    from.cluster = cluster;
    if (n_ps != MR_NOT_GIVEN || n_workers != MR_NOT_GIVEN)
        return mr_invalid("give either --cluster or --ps and --workers, not both");
    MR_TRY(mr_cluster_args_read(&from, false, &d));
    for (int i = 0; i < d.cluster.tasks.n; i++) {
        const mr_task_address *t = &d.cluster.tasks.p[i];
        add_name(out, mr_printf("%s/%d", t->job, t->number),
                 hosts ? mr_strdup(hosts) : mr_strndup(t->address, (size_t)(strrchr(t->address, ':') - t->address)));
    }
    mr_server_def_deinit(&d);
    return NULL;
}

/* Makes the keys of all tasks, and one more pair named "client". */
static mr_status *make_keys(int n_args, char **args)
{
    (void)n_args;
    names n = {0};
    if (days < 1 || days > 36500)
        return mr_invalid("--days %lld is out of range: give 1 to 36500", (long long)days);
    mr_status *st = cluster ? add_cluster(&n) : add_counted(&n);
    add_name(&n, mr_strdup("client"), mr_strdup(hosts ? hosts : "localhost"));
    if (!st)
        st = mr_net_make_keys(args[0], (const char *const *)n.name.p, (const char *const *)n.host.p, n.name.n, (int)days);
    if (!st)
        printf("keys for %d tasks and for clients are in %s; set MILLRACE_TLS_DIR to it on every host\n", n.name.n - 1, args[0]);
    for (int i = 0; i < n.name.n; i++) {
        mr_free(n.name.p[i]);
        mr_free(n.host.p[i]);
    }
    mr_vec_deinit(&n.name);
    mr_vec_deinit(&n.host);
    return st;
}

static const char about[] =
    "Writes to FOLDER a certificate authority (ca.pem, ca.key), and a certificate and a key (.pem, .key) for each task and for "
    "clients. Existing files are kept.\n\n"
    "Copy ca.pem and the files of its own tasks to each host, and set MILLRACE_TLS_DIR to the folder that holds them. Anyone who "
    "has ca.key can make more keys, so keep it in a safe place.";

MR_COMMAND(keys, .summary = "make TLS certificates for the tasks of a cluster", .group = MR_COMMANDS_RUN, .usage = "FOLDER",
           .options = options, .about = about, .min_args = 1, .max_args = 1, .run = make_keys);
