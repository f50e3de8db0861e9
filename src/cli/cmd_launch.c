/* cli/cmd_launch.c -- `millrace launch`: a whole cluster on this machine, from one command, ended as one. */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "dist/cluster.h"
#include "net/net.h"

enum { MAX_TASKS = 1024 };

static int64_t n_ps = 1, n_workers = 1, restarts = 3, grace_ms = 5000;
static bool quiet, no_tls, bare_chief;

static const mr_option options[] = {
    {"ps", MR_OPT_INT, &n_ps, "N", "tasks that hold the variables (default 1); they run `millrace serve`"},
    {"workers", MR_OPT_INT, &n_workers, "N", "tasks that run PROGRAM (default 1)"},
    {"restarts", MR_OPT_INT, &restarts, "N", "how often each task is started again when it dies (default 3)"},
    {"grace", MR_OPT_INT, &grace_ms, "MS", "time to end in before a task is killed (default 5000)"},
    {"no-tls", MR_OPT_FLAG, &no_tls, NULL, "talk in plain text, without keys"},
    {"bare-chief", MR_OPT_FLAG, &bare_chief, NULL, "worker/0 writes straight to this terminal, without its name before each line"},
    {"quiet", MR_OPT_FLAG, &quiet, NULL, "only what the tasks write"},
    {0},
};

/* ---- addresses ---- */

/* A port that is free now; the socket keeps it until all are chosen. */
static mr_status *hold_port(int *fd, int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (struct sockaddr *)&a, sizeof a) < 0 || getsockname(*fd, (struct sockaddr *)&a, &n) < 0)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no free port: %s", strerror(errno));
    *port = ntohs(a.sin_port);
    return NULL;
}

static mr_status *add_task(mr_cluster *c, const char *job, int i, int port)
{
    char *address = mr_printf("127.0.0.1:%d", port);
    mr_status *st = mr_cluster_add(c, mr_sv_of(job), i, mr_sv_of(address));
    mr_free(address);
    return st;
}

static mr_status *choose_addresses(mr_cluster *c)
{
    int n = (int)(n_ps + n_workers), held[MAX_TASKS], n_held = 0;
    mr_status *st = NULL;
    for (int i = 0; !st && i < n; i++) {
        int port = 0;
        st = hold_port(&held[n_held], &port);
        n_held += held[n_held] >= 0;
        if (!st)
            st = i < n_ps ? add_task(c, "ps", i, port) : add_task(c, "worker", i - (int)n_ps, port);
    }
    for (int i = 0; i < n_held; i++)
        close(held[i]);
    return st;
}

/* ---- keys: a folder that only this user can read, gone with the job ---- */

/* 32 random bytes that tasks of this host show each other. */
static mr_status *write_token(const char *folder)
{
    uint64_t token[4];
    char *path = mr_printf("%s/token", folder);
    for (int i = 0; i < 4; i++)
        token[i] = mr_random64();
    FILE *f = fopen(path, "wbx");
    bool ok = f && fchmod(fileno(f), 0600) == 0 && fwrite(token, sizeof token, 1, f) == 1;
    if (f && fclose(f) != 0)
        ok = false;
    mr_status *st = ok ? NULL : mr_error(MR_INTERNAL, "%s: %s", path, strerror(errno));
    mr_free(path);
    return st;
}

static mr_status *make_keys(const mr_cluster *c, char *folder)
{
    int n = c->tasks.n + 1;
    char **names = mr_new_array(char *, n);
    const char **hosts = mr_new_array(const char *, n);
    for (int i = 0; i < n; i++) {
        names[i] = i < n - 1 ? mr_printf("%s/%d", c->tasks.p[i].job, c->tasks.p[i].number) : mr_strdup("client");
        hosts[i] = "localhost";
    }
    mr_status *st = mr_net_make_keys(folder, (const char *const *)names, hosts, n, 30);
    for (int i = 0; i < n; i++)
        mr_free(names[i]);
    mr_free(names);
    mr_free(hosts);
    return st;
}

static mr_status *prepare_secrets(const mr_cluster *c, char *folder)
{
    if (!mkdtemp(folder))
        return mr_error(MR_INTERNAL, "%s: %s", folder, strerror(errno));
    MR_TRY(write_token(folder));
    return no_tls ? NULL : make_keys(c, folder);
}

/* The folder has files only. */
static void remove_folder(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    rmdir(folder);
}

/* ---- tasks ---- */

static char **environment(const mr_cluster *c, const char *folder, const char *job, int number)
{
    mr_str config = {0};
    char **env = mr_new_array(char *, 6);
    mr_str_appendz(&config, "TF_CONFIG=");
    mr_server_def_to_json(c, job, number, &config);
    env[0] = mr_str_take(&config);
    env[1] = mr_printf("MILLRACE_TASK=%s/%d", job, number);
    env[2] = mr_printf("MILLRACE_TLS_DIR=%s", folder);
    env[3] = mr_strdup("MILLRACE_SHM=on"); /* they start together: a socket that is missing will come */
    if (no_tls)
        env[4] = mr_strdup("MILLRACE_TLS=off");
    return env;
}

static void free_environment(char **env)
{
    for (char **e = env; e && *e; e++)
        mr_free(*e);
    mr_free(env);
}

static mr_status *launch(int n_args, char **args)
{
    (void)n_args;
    mr_cluster c = {0};
    int code = 1;
    char folder[] = "/tmp/millrace-launch-XXXXXX";
    if (n_ps < 0 || n_workers < 1 || n_ps + n_workers > MAX_TASKS)
        return mr_invalid("--ps %lld --workers %lld: at least one worker, at most %d tasks", (long long)n_ps, (long long)n_workers,
                          MAX_TASKS);
    mr_status *st = choose_addresses(&c);
    if (!st)
        st = prepare_secrets(&c, folder);
    int n = st ? 0 : c.tasks.n;
    char *serve[] = {(char *)"/proc/self/exe", (char *)"serve", NULL};
    mr_launch_task *tasks = mr_new_array(mr_launch_task, n + 1);
    for (int i = 0; i < n; i++) {
        bool ps = strcmp(c.tasks.p[i].job, "ps") == 0;
        tasks[i] = (mr_launch_task){c.tasks.p[i].job, c.tasks.p[i].number, ps ? serve : args,
                                    environment(&c, folder, c.tasks.p[i].job, c.tasks.p[i].number)};
    }
    if (!st)
        st = mr_launch(tasks, n, &(mr_launch_options){(int)MR_MIN(restarts, 1000), (int)MR_MIN(grace_ms, 600000), quiet, bare_chief}, &code);
    for (int i = 0; i < n; i++)
        free_environment(tasks[i].env);
    mr_free(tasks);
    remove_folder(folder);
    mr_cluster_deinit(&c);
    mr_command_exit_code(code);
    return st;
}

MR_COMMAND(launch,
           .summary = "start a cluster on this machine, run a program on its workers, end all together",
           .usage = "-- PROGRAM [ARGUMENT...]", .options = options, .min_args = 1, .max_args = -1, .run = launch);
