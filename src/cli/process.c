/* cli/process.c -- starts a child process with pipes to its standard streams.
 *
 * The environment of the child is built before the fork, because memory must not be allocated between fork and exec:
 * another thread may hold the lock of the allocator at the moment of the fork. */
#include "cli/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

enum { IN, OUT, ERR, N_PIPES };

typedef struct pipes {
    int ends[N_PIPES][2]; /* the end to read and the end to write; -1: closed */
} pipes;

static void close_pipes(pipes *p)
{
    for (int i = 0; i < 2 * N_PIPES; i++)
        if (p->ends[i / 2][i % 2] >= 0)
            close(p->ends[i / 2][i % 2]);
}

static mr_status *open_pipes(pipes *p)
{
    *p = (pipes){{{-1, -1}, {-1, -1}, {-1, -1}}};
    for (int i = 0; i < N_PIPES; i++)
        if (pipe2(p->ends[i], O_CLOEXEC) < 0) {
            mr_status *st = mr_error(MR_RESOURCE_EXHAUSTED, "cannot create a pipe for a task: %s", strerror(errno));
            close_pipes(p);
            return st;
        }
    return NULL;
}

/* ---- the environment ---- */

static size_t name_length(const char *entry) { return strcspn(entry, "="); }

static bool named_in(char *const *env, const char *entry)
{
    size_t n = name_length(entry);
    for (; env && *env; env++)
        if (name_length(*env) == n && strncmp(*env, entry, n) == 0)
            return true;
    return false;
}

/* The environment of this process with env added; env wins. The caller owns the array, the entries are borrowed. */
static char **merge_environment(char *const *env)
{
    int n = 0, m = 0;
    for (char **e = environ; *e; e++)
        n++;
    for (char *const *e = env; e && *e; e++)
        n++;
    char **all = mr_new_array(char *, n + 1);
    for (char **e = environ; *e; e++)
        if (!named_in(env, *e))
            all[m++] = *e;
    for (char *const *e = env; e && *e; e++)
        all[m++] = *e;
    return all;
}

/* ---- the child ---- */

static void fail_in_child(const char *what, const char *name) __attribute__((noreturn));
static void fail_in_child(const char *what, const char *name)
{
    int err = errno;
    dprintf(2, "millrace: cannot %s %s: %s\n", what, name, strerror(err));
    _exit(err == ENOENT ? 127 : 126);
}

/* Runs in the child between fork and exec, where only async-signal-safe functions may be called. Does not return. */
static void run_in_child(const mr_process_start_options *o, char **env, pipes *p, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127); /* the parent died before prctl took effect */
    int in = o->input ? p->ends[IN][0] : open("/dev/null", O_RDONLY);
    if (in < 0 || dup2(in, 0) < 0)
        _exit(127);
    if (!o->own_output && (dup2(p->ends[OUT][1], 1) < 0 || dup2(p->ends[ERR][1], 2) < 0))
        _exit(127);
    if (o->folder && chdir(o->folder) < 0)
        fail_in_child("change to the folder", o->folder);
    execvpe(o->argv[0], o->argv, env);
    fail_in_child("run", o->argv[0]);
}

/* Takes one end out of the pipes, so that close_pipes leaves it open. */
static int take_end(int *end)
{
    int fd = *end;
    *end = -1;
    return fd;
}

/* Standard streams of this process are flushed first, so that the child does not write their contents again. */
mr_status *mr_process_start(const mr_process_start_options *o, mr_process *out)
{
    pipes p;
    pid_t parent = getpid();
    *out = MR_PROCESS_NONE;
    MR_TRY(open_pipes(&p));
    char **all = merge_environment(o->env);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        run_in_child(o, all, &p, parent);
    mr_free(all);
    if (pid < 0) {
        close_pipes(&p);
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot start a process for %s: %s", o->argv[0], strerror(errno));
    }
    setpgid(pid, pid); /* parent and child both do this, so that it is done before either goes on */
    out->pid = pid;
    if (o->input)
        out->in = take_end(&p.ends[IN][1]);
    for (int i = 0; i < 2 && !o->own_output; i++) {
        out->out[i] = take_end(&p.ends[OUT + i][0]);
        fcntl(out->out[i], F_SETFL, O_NONBLOCK);
    }
    close_pipes(&p);
    return NULL;
}

void mr_process_close(mr_process *p)
{
    int fds[] = {p->in, p->out[0], p->out[1]};
    for (int i = 0; i < MR_COUNT(fds); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    *p = MR_PROCESS_NONE;
}

int mr_process_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

void mr_process_how(int code, bool by_signal, mr_str *out)
{
    if (by_signal)
        mr_str_printf(out, "was killed by signal %d (%s)", code - 128, strsignal(code - 128));
    else
        mr_str_printf(out, "ended with exit code %d", code);
}
