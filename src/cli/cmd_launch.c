/* cli/cmd_launch.c -- `millrace launch`: starts a cluster, runs a program on it and stops it again.
 *
 * cli/launch_plan.c decides which tasks to start and where. This file makes their keys, environments and command lines.
 * cli/launch.c runs them. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/agent.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/peers.h"
#include "cli/launch_plan.h"
#include "cli/secrets.h"
#include "cli/trace_report.h"
#include "cli/warden.h"
#include "exec/device_sim.h"
#include "dist/synchrony.h"
#include "net/listen_check.h"
#include "server/server.h"
#include "server/routes.h"

enum { MAX_RETRIES = 5 }; /* with other ports */

static mr_launch_plan_args want = {.cluster = MR_CLUSTER_ARGS, .n_ps = MR_NOT_GIVEN, .n_workers = MR_NOT_GIVEN};
static int64_t restarts = 3, grace_ms = 5000;
static bool quiet, no_tls, no_table, bare_chief, stay;
static const char *remote, *env_names, *simulated, *trace, *trace_steps, *synchrony;

static const mr_option options[] = {
    MR_OPTION_HEADING("Tasks and hosts"),
    {"ps", MR_OPT_INT, &want.n_ps, "N", "number of ps tasks, which hold the variables and run `millrace serve` (default 1)"},
    {"workers", MR_OPT_INT, &want.n_workers, "N", "number of worker tasks, which run PROGRAM (default 1)"},
    {"hosts", MR_OPT_STRING, &want.hosts, "LIST",
     "run the tasks on these hosts over SSH, in turn: a,b:2,user@c (b gets two tasks in each round)"},
    {"hostfile", MR_OPT_STRING, &want.hostfile, "FILE", "the same, from a file with one host per line: b, b:2 or b slots=2"},
    {"port", MR_OPT_INT, &want.port, "N",
     "port of the first task; the others use the following ports (default: free ports on this machine, 2222 on other hosts)"},
    {"env", MR_OPT_STRING, &env_names, "LIST", "environment variables to pass to tasks on other hosts: NAME,NAME"},
    {"remote", MR_OPT_STRING, &remote, "PATH", "path of millrace on other hosts (default: the same path as here)"},
    {"local", MR_OPT_FLAG, &want.local, NULL, "run all tasks on this machine; ignore mpirun, Slurm and TF_CONFIG"},
    MR_OPTION_HEADING("A cluster with given addresses"),
    MR_CLUSTER_OPTIONS(want.cluster),
    MR_OPTION_HEADING("Running the job"),
    {"restarts", MR_OPT_INT, &restarts, "N",
     "restart a task that dies, at most N times (default 3); a program that fails before it listens or trains is not restarted"},
    {"grace", MR_OPT_INT, &grace_ms, "MS", "how long a task may take to stop before it is killed, in milliseconds (default 5000)"},
    {"stay", MR_OPT_FLAG, &stay, NULL, "for a single task (--job): when its program has ended, wait to be stopped"},
    {"synchrony", MR_OPT_STRING, &synchrony, "HOW",
     "how workers coordinate, in programs that leave it open: async, sync, backup, backup:K, bounded, bounded:T or all_reduce"},
    {"simulate", MR_OPT_STRING, &simulated, "DEVICES",
     "give tasks simulated devices: worker/GPU:0=flops_per_s=2e11;worker:1/GPU:0=... (docs/devices.md)"},
    {"no-tls", MR_OPT_FLAG, &no_tls, NULL, "communicate in plain text, without certificates"},
    MR_OPTION_HEADING("Tracing and output"),
    {"trace", MR_OPT_STRING, &trace, "FOLDER", "trace some steps of all workers and write FOLDER/trace.json"},
    {"trace-steps", MR_OPT_STRING, &trace_steps, "LIST", "the steps to trace: 20-24,100 (default 20-24)"},
    {"bare-chief", MR_OPT_FLAG, &bare_chief, NULL, "write the chief's output unchanged, without its name before each line"},
    {"no-table", MR_OPT_FLAG, &no_table, NULL, "do not draw the table of tasks on a terminal"},
    {"quiet", MR_OPT_FLAG, &quiet, NULL, "print only what the tasks print"},
    {0},
};

/* Everything that one attempt to launch makes; deinit_job frees it. */
typedef struct job {
    mr_launch_plan plan;
    char *folder; /* holds the secrets and the socket for reports */
    char *self;   /* the path of this program */
    char *traces; /* the folder for traces, or NULL */
    char *zookeeper; /* through which tasks find each other; NULL: by their addresses */
    char **program;
    mr_launch_task *tasks;
    mr_str *inputs;
    int n;
} job;

/* ---- the environment of a task ---- */

static bool is_ps(const job *j, int i) { return strcmp(j->plan.cluster.tasks.p[i].job, "ps") == 0; }

/* Whether every task of the cluster is started here, by this launcher. Such tasks can share memory and Unix sockets. */
static bool all_here(const job *j)
{
    for (int i = 0; j->plan.hosts && i < j->plan.cluster.tasks.n; i++)
        if (j->plan.hosts[i])
            return false;
    return j->plan.only < 0;
}

/* The variables that task i gets in addition to those of its host. Owned, ends with NULL. */
static char **make_environment(const job *j, int i)
{
    const mr_task_address *t = &j->plan.cluster.tasks.p[i];
    bool here = !j->plan.hosts || !j->plan.hosts[i];
    mr_str config = {0};
    const char *shm = getenv("MILLRACE_SHM");
    char **env = mr_new_array(char *, 16);
    int n = 0;
    mr_str_appendz(&config, "TF_CONFIG=");
    mr_server_def_to_json(&j->plan.cluster, t->job, t->number, &config);
    env[n++] = mr_str_take(&config);
    env[n++] = mr_printf("MILLRACE_TASK=%s/%d", t->job, t->number);
    if (here)
        env[n++] = mr_printf("MILLRACE_STATUS=%s/status", j->folder);
    if (here && j->plan.only < 0)
        env[n++] = mr_printf("MILLRACE_TLS_DIR=%s", j->folder);
    if (all_here(j)) /* private to this job, so no other user can have put a socket there */
        env[n++] = mr_printf("MILLRACE_SOCKETS=%s", j->folder);
    if (all_here(j) && !(shm && shm[0])) /* unless the user has set it */
        env[n++] = mr_strdup("MILLRACE_SHM=on");
    if (no_tls)
        env[n++] = mr_strdup("MILLRACE_TLS=off");
    if (synchrony)
        env[n++] = mr_printf("MILLRACE_SYNCHRONY=%s", synchrony);
    if (j->traces)
        env[n++] = mr_printf("MILLRACE_TRACE=%s", j->traces);
    if (j->traces && trace_steps)
        env[n++] = mr_printf("MILLRACE_TRACE_STEPS=%s", trace_steps);
    if (j->zookeeper)
        env[n++] = mr_printf("MILLRACE_ZOOKEEPER=%s", j->zookeeper);
    if (j->zookeeper && want.cluster.zookeeper_ms)
        env[n++] = mr_printf("MILLRACE_ZOOKEEPER_TIMEOUT_MS=%lld", (long long)want.cluster.zookeeper_ms);
    if (j->plan.only < 0)
        env[n++] = mr_strdup("MILLRACE_ADDRESS="); /* it would give all tasks the same address */
    if (simulated) {
        mr_str devices = {0};
        mr_status_free(mr_device_sims_of_task(mr_sv_of(simulated), t->job, t->number, &devices)); /* checked before */
        env[n++] = mr_printf("MILLRACE_SIMULATE=%s", mr_str_z(&devices));
        mr_str_deinit(&devices);
    }
    return env;
}

static mr_status *check_synchrony(void)
{
    mr_synchrony how;
    mr_status *st = synchrony ? mr_synchrony_parse(mr_sv_of(synchrony), &how) : NULL;
    return st ? mr_status_prepend(st, "--synchrony: ") : NULL;
}

static mr_status *check_simulated(const job *j)
{
    mr_status *st = NULL;
    for (int i = 0; simulated && !st && i < j->plan.cluster.tasks.n; i++) {
        mr_str devices = {0};
        const mr_task_address *t = &j->plan.cluster.tasks.p[i];
        st = mr_status_prepend(mr_device_sims_of_task(mr_sv_of(simulated), t->job, t->number, &devices), "--simulate: ");
        mr_str_deinit(&devices);
    }
    return st;
}

static void free_words(char **words)
{
    for (char **w = words; w && *w; w++)
        mr_free(*w);
    mr_free(words);
}

static char **serve_words(const job *j)
{
    char **argv = mr_new_array(char *, 3);
    argv[0] = mr_strdup(j->self);
    argv[1] = mr_strdup("serve");
    return argv;
}

static char **copy_words(char **words)
{
    int n = 0;
    while (words[n])
        n++;
    char **copy = mr_new_array(char *, n + 1);
    for (int i = 0; i < n; i++)
        copy[i] = mr_strdup(words[i]);
    return copy;
}

/* ---- tasks on other hosts ---- */

/* Appends the word in single quotes, for the shell on the other host. */
static void append_quoted(const char *word, mr_str *out)
{
    mr_str_appendc(out, '\'');
    for (const char *p = word; *p; p++)
        *p == '\'' ? mr_str_appendz(out, "'\\''") : mr_str_appendc(out, *p);
    mr_str_appendc(out, '\'');
}

/* ssh wants an IPv6 address without brackets: "me@[::1]" becomes "me@::1". The caller owns the result. */
static char *ssh_host(const char *host)
{
    char *copy = mr_strdup(host), *to = copy;
    for (const char *p = host; *p; p++)
        if (*p != '[' && *p != ']')
            *to++ = *p;
    *to = 0;
    return copy;
}

/* The command line that starts an agent on a host. BatchMode keeps several ssh processes from asking for passwords at
 * the same time. ssh notices within 15 seconds that a host does not answer any more. */
static char **ssh_words(const job *j, const char *host)
{
    static const char *const with[] = {"-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"};
    const char *ssh = getenv("MILLRACE_SSH");
    mr_sv rest = mr_sv_of(ssh && ssh[0] ? ssh : "ssh"), word;
    char **argv = mr_new_array(char *, (int)rest.n + MR_COUNT(with) + 3);
    mr_str command = {0};
    int n = 0;
    while (mr_sv_cut(&rest, ' ', &word))
        if (word.n)
            argv[n++] = mr_strndup(word.p, word.n);
    for (int i = 0; i < MR_COUNT(with); i++)
        argv[n++] = mr_strdup(with[i]);
    argv[n++] = ssh_host(host);
    mr_str_appendz(&command, "exec ");
    append_quoted(remote ? remote : j->self, &command);
    mr_str_appendz(&command, " agent");
    argv[n] = mr_str_take(&command);
    return argv;
}

static void put_variables(mr_str *out)
{
    mr_sv rest = mr_sv_of(env_names), name;
    while (mr_sv_cut(&rest, ',', &name)) {
        char *z = mr_strndup(name.p, name.n), *value = getenv(z), *both = mr_printf("%s=%s", z, value ? value : "");
        if (value)
            mr_agent_put(out, MR_AGENT_ENV, mr_sv_of(both));
        mr_free(both);
        mr_free(z);
    }
}

/* Writes the records for the agent of task i (cli/agent.h). Secrets are sent only this way, never on a command line. */
static mr_status *compose_input(const job *j, int i, char *const *env, mr_str *out)
{
    const mr_task_address *t = &j->plan.cluster.tasks.p[i];
    char *name = mr_printf("%s/%d", t->job, t->number), *grace = mr_printf("%lld", (long long)grace_ms), *here = getcwd(NULL, 0);
    mr_status *st = mr_secrets_send(j->folder, name, !no_tls, out);
    if (is_ps(j, i)) {
        mr_agent_put(out, MR_AGENT_SELF, MR_SV(""));
        mr_agent_put(out, MR_AGENT_ARG, MR_SV("serve"));
    }
    for (char **w = j->program; !is_ps(j, i) && *w; w++)
        mr_agent_put(out, MR_AGENT_ARG, mr_sv_of(*w));
    put_variables(out);
    for (char *const *e = env; *e; e++)
        mr_agent_put(out, MR_AGENT_ENV, mr_sv_of(*e));
    if (here && !is_ps(j, i))
        mr_agent_put(out, MR_AGENT_FOLDER, mr_sv_of(here));
    mr_agent_put(out, MR_AGENT_GRACE, mr_sv_of(grace));
    mr_agent_put(out, MR_AGENT_GO, MR_SV(""));
    if (!st && out->n > MR_AGENT_MAX)
        st = mr_invalid("%s: its arguments, variables and keys take %zu bytes; at most %d can be sent to another host",
                        name, out->n, MR_AGENT_MAX);
    free(here);
    mr_free(name);
    mr_free(grace);
    return st;
}

/* ---- the job ---- */

/* Whether the end of task i ends the job. This is the chief, or the only task here if no other launcher can tell us
 * that the job has ended. */
static bool task_decides(const job *j, int i)
{
    bool alone = j->plan.only >= 0 && !j->plan.launchers;
    return alone ? !stay : mr_launch_plan_is_chief(&j->plan, i);
}

/* Adds the process of task i. For a task on another host this is ssh; the environment and the program go to the agent
 * as its input. */
static mr_status *add_task(job *j, int i)
{
    const mr_task_address *a = &j->plan.cluster.tasks.p[i];
    const char *host = j->plan.hosts ? j->plan.hosts[i] : NULL;
    mr_launch_task *t = &j->tasks[j->n];
    mr_str *input = &j->inputs[j->n++];
    *t = (mr_launch_task){.job = a->job, .number = a->number, .host = host, .env = make_environment(j, i),
                          .decides = task_decides(j, i)};
    t->argv = host ? ssh_words(j, host) : is_ps(j, i) ? serve_words(j) : copy_words(j->program);
    if (!host)
        return NULL;
    mr_status *st = compose_input(j, i, t->env, input);
    free_words(t->env); /* sent to the task; ssh must not get them */
    t->env = NULL;
    t->input = mr_str_view(input);
    return st;
}

/* The place in ZooKeeper where the tasks of this job register, or NULL without ZooKeeper. Without a path in `where`,
 * each job gets its own path, so that jobs do not mix; but launchers that start one task each must use the same path.
 */
static char *own_zookeeper(const job *j, const char *where)
{
    const char *slurm = j->plan.scheduler ? getenv("SLURM_JOB_ID") : NULL;
    if (!where || strchr(where, '/'))
        return where ? mr_strdup(where) : NULL;
    if (slurm && slurm[0])
        return mr_printf("%s/millrace/slurm-%s", where, slurm);
    if (j->plan.only >= 0)
        return mr_strdup(where);
    return mr_printf("%s/millrace/launch-%016llx", where, (unsigned long long)mr_random64());
}

static mr_status *check_listener(const char *in_cluster)
{
    char *place = mr_server_place(NULL, in_cluster);
    mr_status *st = mr_listeners_check(place);
    mr_free(place);
    return st;
}

/* Returns an error only if another process uses the address. */
static mr_status *check_free(const char *address)
{
    mr_listen_trouble what = MR_LISTEN_FINE;
    mr_status *st = mr_listen_check(address, &what);
    if (what == MR_LISTEN_IN_USE)
        return st;
    mr_status_free(st); /* the task reports other trouble itself */
    return NULL;
}

/* The same for the address that a task on this machine will listen at. */
static mr_status *check_free_for_task(const char *in_cluster)
{
    char *place = mr_server_place(NULL, in_cluster), *address = NULL;
    mr_status *st = mr_listeners_address(place, &address);
    if (!st)
        st = check_free(address);
    mr_free(address);
    mr_free(place);
    return st;
}

/* Checks that the ports that the user asked for are free. This gives one message, instead of one from each task that
 * cannot listen. */
static mr_status *check_ports(const job *j)
{
    const mr_launch_plan *p = &j->plan;
    mr_status *st = NULL;
    for (int i = 0; i < p->cluster.tasks.n && !p->chose_ports && !st; i++) {
        const mr_task_address *t = &p->cluster.tasks.p[i];
        if ((p->only >= 0 && i != p->only) || (p->hosts && p->hosts[i]))
            continue;
        st = check_free_for_task(t->address);
        if (!st && p->launchers)
            st = check_free(p->launchers[i]);
        if (st)
            st = mr_status_prepend(st, "%s/%d: ", t->job, t->number);
    }
    return st;
}

/* Checks the options and makes the folder of secrets, the keys and the tasks. */
static mr_status *prepare_job(job *j)
{
    int n = j->plan.cluster.tasks.n, only = j->plan.only;
    MR_TRY(check_simulated(j));
    MR_TRY(check_synchrony());
    MR_TRY(check_ports(j));
    MR_TRY(mr_secrets_folder(&j->folder));
    if (only < 0)
        MR_TRY(mr_secrets_make(&j->plan.cluster, j->folder, !no_tls));
    else if (!no_tls)
        MR_TRY(check_listener(j->plan.cluster.tasks.p[only].address));
    j->tasks = mr_new_array(mr_launch_task, n);
    j->inputs = mr_new_array(mr_str, n);
    for (int i = 0; i < n; i++)
        if (only < 0 || i == only)
            MR_TRY(add_task(j, i));
    return NULL;
}

static mr_launch_end told_by_peer(int fd)
{
    int code;
    return (mr_launch_end){read(fd, &code, sizeof code) == sizeof code ? code : -1, false};
}

/* Runs the tasks. As a rank of mpirun or Slurm there is one launcher per rank; the one whose job ends first tells the
 * others. Signals are blocked before mr_peers_new starts threads. */
static mr_status *run_job(job *j, int *code)
{
    mr_launch_options o = {.max_restarts = (int)MR_MIN(restarts, 1000000),
                           .grace_ms = (int)MR_MIN(grace_ms, 600000),
                           .quiet = quiet,
                           .bare_chief = bare_chief,
                           .table = !no_table && !quiet && !bare_chief && j->plan.only < 0,
                           .folder = j->folder,
                           .chose_ports = j->plan.chose_ports && want.retries < MAX_RETRIES,
                           .wake = -1,
                           .woken = told_by_peer};
    mr_peers *peers = NULL;
    sigset_t before;
    int me = j->plan.only;
    if (j->plan.launchers && j->plan.cluster.tasks.n > 1) {
        char *name = mr_printf("%s/%d", j->tasks[0].job, j->tasks[0].number);
        mr_launch_block_signals(&before);
        mr_status *st = mr_peers_new(name, j->plan.launchers[me], &peers, &o.wake);
        mr_free(name);
        if (st)
            return st;
    }
    mr_status *st = mr_launch(j->tasks, j->n, &o, code);
    if (peers && !mr_peers_told(peers)) {
        mr_peers_tell(peers, j->plan.launchers, me, st ? 1 : *code);
        mr_peers_tell(peers, j->plan.launchers + me + 1, j->plan.cluster.tasks.n - me - 1, st ? 1 : *code);
    }
    mr_peers_free(peers);
    return st;
}

/* Frees the job and removes its folder. Inputs of agents are wiped, because they contain keys. */
static void deinit_job(job *j)
{
    for (int i = 0; i < j->n; i++) {
        free_words((char **)(uintptr_t)j->tasks[i].argv);
        free_words(j->tasks[i].env);
        if (j->inputs[i].p)
            explicit_bzero(j->inputs[i].p, j->inputs[i].cap);
        mr_str_deinit(&j->inputs[i]);
    }
    if (j->folder)
        mr_remove_folder(j->folder);
    mr_free(j->tasks);
    mr_free(j->inputs);
    mr_free(j->folder);
    mr_free(j->self);
    mr_free(j->traces);
    mr_free(j->zookeeper);
    mr_launch_plan_deinit(&j->plan);
}

/* Whether at least one of our tasks runs PROGRAM. */
static bool needs_program(const job *j) { return j->plan.only < 0 || !is_ps(j, j->plan.only); }

static char *own_path(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    return n > 0 ? mr_strndup(path, (size_t)n) : mr_strdup("millrace");
}

/* Plans, prepares and runs the job once. */
static mr_status *run_once(job *j, int n_args, int *code)
{
    MR_TRY(mr_launch_plan_make(&want, &j->plan));
    j->zookeeper = own_zookeeper(j, want.zookeeper);
    if (n_args == 0 && needs_program(j))
        return mr_invalid(
            "no program: give one after the options: millrace launch [OPTION]... -- PROGRAM [ARGUMENT...]");
    if (trace && !j->traces)
        MR_TRY(mr_trace_folder_begin(trace, &j->traces));
    MR_TRY(prepare_job(j));
    return run_job(j, code);
}

/* Launches the job, and again with other ports if another process takes one of the chosen ports before its task
 * listens. The folder for traces is kept across attempts. */
static mr_status *run_launch(int n_args, char **args)
{
    job j = {0};
    const char *tls = getenv("MILLRACE_TLS");
    int code = 1;
    no_tls |= tls && strcmp(tls, "off") == 0;
    if (restarts < 0 || grace_ms < 0)
        return mr_invalid("--restarts %lld --grace %lld: neither may be negative", (long long)restarts,
                          (long long)grace_ms);
    MR_TRY(mr_cluster_args_zookeeper(&want.cluster, &want.zookeeper));
    mr_status *st;
    do {
        char *traces = j.traces;
        j.traces = NULL;
        deinit_job(&j);
        j = (job){.program = args, .self = own_path(), .traces = traces};
        st = run_once(&j, n_args, &code);
        want.retries++;
    } while (!st && code == MR_LAUNCH_PORT_TAKEN);
    if (!st && trace && j.plan.only < 0) /* a launcher of one task does not have the traces of the others */
        mr_trace_folder_end(j.traces);
    deinit_job(&j);
    mr_command_exit_code(code);
    return st;
}

static const char about[] =
    "Starts ps and worker tasks on this machine, on other hosts over SSH, or as the ranks of mpirun or Slurm. Tasks that die are "
    "restarted. When the chief (worker 0) ends successfully, the whole job ends with exit code 0. When a task cannot be kept "
    "running, the job ends with the exit code of that task. See docs/cluster.md.";

static const mr_help_item variables[] = {
    {"MILLRACE_SSH", "the command to use as ssh, with its first arguments: ssh -p 2200"},
    {"MILLRACE_TLS_DIR", "folder with keys, when this command starts only one task (--job, mpirun, Slurm); otherwise keys are made "
                         "for the job"},
    {"MILLRACE_ZOOKEEPER", "the same as --zookeeper"},
    {"TF_CONFIG", "the cluster and the task as JSON, unless options give them"},
    {0},
};

static const mr_help_item examples[] = {
    {"millrace launch --ps 2 --workers 4 -- ./program args", "Run a program on this machine:"},
    {"millrace launch --workers 4 --hosts a,b -- ./program args", "Run it on other hosts:"},
    {"srun millrace launch --ps 2 -- ./program args", "Run it under Slurm, with one task per rank:"},
    {"millrace launch --cluster c.json --job worker --task 1 -- ./program args", "Run one task of a cluster:"},
    {"millrace launch --zookeeper zk:2181 --workers 4 -- ./program args", "Run tasks that find each other through ZooKeeper:"},
    {0},
};

MR_COMMAND(launch, .summary = "start a cluster, run a program on it, and stop it again", .group = MR_COMMANDS_RUN,
           .usage = "-- PROGRAM [ARGUMENT...]", .options = options, .about = about, .environment = variables, .examples = examples,
           .min_args = 0, .max_args = -1, .run = run_launch);
