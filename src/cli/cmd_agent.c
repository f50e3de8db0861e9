/* cli/cmd_agent.c -- `millrace agent`: one task of a job that `millrace launch` runs on this host by ssh.
 *
 * When its input ends, the launcher or ssh has ended. The agent then kills the task at once: nothing can ask it to stop
 * any more, and a restarted task needs its port. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/memory.h"
#include "cli/agent.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "cli/secrets.h"
#include "cli/warden.h"

enum { ASKED_TO_END = 128 + 15 };

/* Reads records from standard input until GO. Files of the job are written to `folder`. The buffer is wiped, because it
 * held keys. */
static mr_status *read_job(mr_agent_job *j, const char *folder)
{
    mr_str in = {0};
    mr_status *st = NULL;
    size_t used = 0;
    while (!st && !j->go) {
        mr_agent_record kind;
        mr_sv rest = {mr_str_z(&in) + used, in.n - used}, bytes;
        if (mr_agent_take(&rest, &kind, &bytes)) {
            used = in.n - rest.n;
            st = mr_agent_job_add(j, kind, bytes, folder);
            continue;
        }
        char buf[4096];
        ssize_t n = in.n > MR_AGENT_MAX ? 0 : read(0, buf, sizeof buf);
        if (n > 0)
            mr_str_append(&in, buf, (size_t)n);
        else if (n == 0 || errno != EINTR)
            st = mr_invalid(
                "`millrace launch --hosts` starts this command and sends it a task; it cannot be used by hand");
    }
    if (!st && used < in.n)
        st = mr_error(MR_CANCELLED, "the job ended before this task started"); /* END follows GO */
    if (in.p)
        explicit_bzero(in.p, in.cap);
    mr_str_deinit(&in);
    return st;
}

/* Called when standard input is readable: END stops the task with the usual grace period, the end of the input kills it
 * at once. */
static mr_launch_end read_wake(int fd)
{
    char buf[64];
    ssize_t n = read(fd, buf, sizeof buf);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return (mr_launch_end){-1, false};
    return (mr_launch_end){ASKED_TO_END, n <= 0};
}

/* Runs the task as a job of one task; its keys and the socket for its reports are in `folder`. Sets the exit code. */
static mr_status *run_job(mr_agent_job *j, const char *folder)
{
    int code = 1;
    char *tls = mr_printf("MILLRACE_TLS_DIR=%s", folder), *report = mr_printf("MILLRACE_STATUS=%s/status", folder);
    char **env = mr_new_array(char *, j->n_env + 3);
    for (int i = 0; i < j->n_env; i++)
        env[i] = j->env[i];
    env[j->n_env] = tls;
    env[j->n_env + 1] = report;
    mr_launch_task task = {.job = "task", .argv = j->argv, .env = env, .folder = j->folder, .decides = true};
    mr_launch_options o = {
        .grace_ms = (int)j->grace_ms, .quiet = true, .folder = folder, .bare = true, .wake = 0, .woken = read_wake};
    mr_status *st = mr_launch(&task, 1, &o, &code);
    mr_free(env);
    mr_free(tls);
    mr_free(report);
    mr_command_exit_code(code);
    return st;
}

static mr_status *run_agent(int n, char **args)
{
    (void)n, (void)args;
    mr_agent_job j = {.grace_ms = 5000};
    char *folder = NULL;
    MR_TRY(mr_secrets_folder(&folder));
    mr_status *st = read_job(&j, folder);
    if (st) {
        mr_remove_folder(folder);
    } else {
        fputs(MR_AGENT_REPORT "agent\n", stderr); /* tells the launcher that ssh works */
        st = run_job(&j, folder);
    }
    mr_agent_job_deinit(&j);
    mr_free(folder);
    return st;
}

MR_COMMAND(agent, .summary = "run a task for launch --hosts on this machine (internal)", .group = MR_COMMANDS_OTHER,
           .about = "The launcher sends the task, its files and its environment to the standard input of this command. When the "
                    "input ends, because the launcher or ssh has ended, the task is killed.",
           .run = run_agent);
