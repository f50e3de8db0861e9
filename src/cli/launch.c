/* cli/launch.c -- the processes of a cluster on this machine.
 *
 * One thread, one poll: the pipes of the tasks and a signalfd.  Invariant: a task with a pid has not been waited for; its
 * group is signalled only while it has one, so no stranger's process ever is. */
#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

enum { MAX_LINE = 1 << 16 };

typedef struct stream { /* what a task writes */
    int fd;             /* -1: closed */
    FILE *to;
    mr_str line; /* begun, not ended */
} stream;

typedef struct task {
    const mr_launch_task *what;
    char *name; /* "worker/0" */
    pid_t pid;  /* 0: not running */
    stream out[2];
    int n_restarts;
    int n_quick; /* lives that ended soon, one after the other */
    int64_t started_ns;
    bool done; /* ended well */
    int64_t restart_at_ns; /* 0: not waiting for it */
} task;

typedef struct launcher {
    const mr_launch_options *o;
    int n;
    task *tasks;
    int signals; /* signalfd */
    bool ending;
    int exit_code;
    int64_t kill_at_ns;
    size_t name_width;
} launcher;

/* ---- output ---- */

static void write_line(const launcher *l, const task *t, stream *s)
{
    fprintf(s->to, "[%-*s] ", (int)l->name_width, t->name);
    fwrite(mr_str_z(&s->line), 1, s->line.n, s->to);
    fputc('\n', s->to);
    fflush(s->to);
    mr_str_clear(&s->line);
}

/* A carriage return ends a line too: progress bars come line by line. */
static void take_bytes(const launcher *l, const task *t, stream *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool end = p[i] == '\n' || p[i] == '\r';
        if (!end)
            mr_str_appendc(&s->line, p[i]);
        if ((end && s->line.n > 0) || s->line.n >= MAX_LINE)
            write_line(l, t, s);
    }
}

/* false when the pipe is at its end. */
static bool read_stream(const launcher *l, const task *t, stream *s)
{
    char buf[8192];
    ssize_t n = read(s->fd, buf, sizeof buf);
    if (n > 0) {
        take_bytes(l, t, s, buf, (size_t)n);
        return true;
    }
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (s->line.n)
        write_line(l, t, s);
    close(s->fd);
    s->fd = -1;
    return false;
}

static void say(const launcher *l, const char *fmt, ...) MR_PRINTF(2, 3);
static void say(const launcher *l, const char *fmt, ...)
{
    va_list ap;
    if (l->o->quiet)
        return;
    va_start(ap, fmt);
    fputs("millrace: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

/* ---- starting ---- */

static bool is_chief(const task *t) { return strcmp(t->what->job, "worker") == 0 && t->what->number == 0; }

/* In the child; only what may be called between fork and exec. */
static void become(const task *t, int out, int err, pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
        _exit(127);
    for (char **e = t->what->env; e && *e; e++)
        putenv(*e);
    execvp(t->what->argv[0], t->what->argv);
    dprintf(2, "millrace: cannot run %s: %s\n", t->what->argv[0], strerror(errno));
    _exit(127);
}

/* The chief may have ours. */
static mr_status *open_output(const launcher *l, const task *t, int ends[2], int ours)
{
    ends[0] = -1;
    ends[1] = ours;
    if (l->o->bare_chief && is_chief(t))
        return NULL;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return mr_error(MR_RESOURCE_EXHAUSTED, "pipe: %s", strerror(errno));
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return NULL;
}

static void close_end(int *fd)
{
    if (*fd > 2)
        close(*fd);
    *fd = -1;
}

/* What is read from now on; of its life before nothing is left. */
static void read_from(stream *s, int fd, FILE *to)
{
    close_end(&s->fd);
    mr_str_deinit(&s->line);
    *s = (stream){.fd = fd, .to = to};
}

static mr_status *start(const launcher *l, task *t)
{
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    pid_t parent = getpid();
    mr_status *st = open_output(l, t, out, 1);
    if (!st)
        st = open_output(l, t, err, 2);
    fflush(NULL);
    pid_t pid = st ? -1 : fork();
    if (pid == 0)
        become(t, out[1], err[1], parent);
    if (pid < 0 && !st)
        st = mr_error(MR_RESOURCE_EXHAUSTED, "fork: %s", strerror(errno));
    close_end(&out[1]);
    close_end(&err[1]);
    read_from(&t->out[0], out[0], stdout);
    read_from(&t->out[1], err[0], stderr);
    t->restart_at_ns = 0;
    t->started_ns = mr_now_ns();
    t->pid = st ? 0 : pid;
    if (t->pid)
        setpgid(t->pid, t->pid); /* also here: whoever comes first */
    return st;
}

/* ---- ending ---- */

static void signal_all(launcher *l, int sig)
{
    for (int i = 0; i < l->n; i++)
        if (l->tasks[i].pid)
            kill(-l->tasks[i].pid, sig);
}

static void end_job(launcher *l, int exit_code)
{
    if (l->ending)
        return;
    l->ending = true;
    l->exit_code = exit_code;
    l->kill_at_ns = mr_now_ns() + l->o->grace_ms * INT64_C(1000000);
    for (int i = 0; i < l->n; i++)
        l->tasks[i].restart_at_ns = 0;
    signal_all(l, SIGTERM);
}

/* A little later each time that it dies soon; one that has worked for a while is wanted back at once. */
static int64_t restart_delay_ms(task *t)
{
    enum { SOON_MS = 5000, FIRST_MS = 100, LAST_MS = 2000 };
    if (mr_now_ns() - t->started_ns > SOON_MS * INT64_C(1000000))
        t->n_quick = 0;
    int64_t ms = MR_MIN(FIRST_MS << t->n_quick, LAST_MS);
    t->n_quick = MR_MIN(t->n_quick + 1, 6);
    return ms;
}

/* A task ends: the job too, or it is started again. */
static void ended(launcher *l, task *t, int code, const char *how)
{
    if (l->ending)
        return;
    if (code == 0 && strcmp(t->what->job, "ps") != 0) {
        t->done = true;
        if (is_chief(t))
            end_job(l, 0);
        return;
    }
    if (t->n_restarts >= l->o->max_restarts) {
        say(l, "%s %s; it was restarted %d times, no more: the job ends", t->name, how, t->n_restarts);
        end_job(l, code ? code : 1);
        return;
    }
    t->n_restarts++;
    t->restart_at_ns = mr_now_ns() + restart_delay_ms(t) * 1000000;
    say(l, "%s %s; restart %d of %d", t->name, how, t->n_restarts, l->o->max_restarts);
}

static void reap(launcher *l)
{
    for (int i = 0; i < l->n; i++) {
        task *t = &l->tasks[i];
        int status;
        if (!t->pid || waitpid(t->pid, &status, WNOHANG) != t->pid)
            continue;
        kill(-t->pid, SIGKILL); /* what it started and left behind */
        t->pid = 0;
        for (int k = 0; k < 2; k++)
            while (t->out[k].fd >= 0 && poll(&(struct pollfd){t->out[k].fd, POLLIN, 0}, 1, 0) > 0)
                read_stream(l, t, &t->out[k]);
        char how[64];
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        snprintf(how, sizeof how, WIFEXITED(status) ? "ended with exit code %d" : "was killed by signal %d",
                 WIFEXITED(status) ? code : WTERMSIG(status));
        ended(l, t, code, how);
    }
}

/* ---- the loop ---- */

static void take_signal(launcher *l)
{
    struct signalfd_siginfo s;
    while (read(l->signals, &s, sizeof s) == sizeof s)
        if (s.ssi_signo != SIGCHLD) {
            if (l->ending)
                l->kill_at_ns = 0; /* asked twice: at once */
            end_job(l, 128 + (int)s.ssi_signo);
        }
    reap(l);
}

static int64_t next_time(const launcher *l)
{
    int64_t at = l->ending ? l->kill_at_ns : INT64_MAX;
    for (int i = 0; i < l->n; i++)
        if (l->tasks[i].restart_at_ns)
            at = MR_MIN(at, l->tasks[i].restart_at_ns);
    return at;
}

static void due(launcher *l)
{
    int64_t now = mr_now_ns();
    if (l->ending && now >= l->kill_at_ns) {
        signal_all(l, SIGKILL);
        l->kill_at_ns = INT64_MAX;
    }
    for (int i = 0; i < l->n; i++) {
        task *t = &l->tasks[i];
        if (!t->restart_at_ns || now < t->restart_at_ns)
            continue;
        mr_status *st = start(l, t);
        if (st) {
            say(l, "%s: %s", t->name, mr_status_message(st));
            mr_status_free(st);
            end_job(l, 1);
        }
    }
}

static bool all_gone(const launcher *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->tasks[i].pid)
            return false;
    return true;
}

static void wait_for_something(launcher *l)
{
    struct pollfd *p = mr_new_array(struct pollfd, 2 * l->n + 1);
    int64_t at = next_time(l), now = mr_now_ns();
    int timeout = at == INT64_MAX ? -1 : at <= now ? 0 : (int)MR_MIN((at - now) / 1000000 + 1, 60000);
    p[0] = (struct pollfd){l->signals, POLLIN, 0};
    for (int i = 0; i < 2 * l->n; i++)
        p[i + 1] = (struct pollfd){l->tasks[i / 2].out[i % 2].fd, POLLIN, 0};
    if (poll(p, (nfds_t)(2 * l->n + 1), timeout) > 0) {
        for (int i = 0; i < 2 * l->n; i++)
            if (p[i + 1].revents)
                read_stream(l, &l->tasks[i / 2], &l->tasks[i / 2].out[i % 2]);
        if (p[0].revents)
            take_signal(l);
    }
    mr_free(p);
}

static mr_status *run(launcher *l)
{
    for (int i = 0; i < l->n; i++) {
        mr_status *st = start(l, &l->tasks[i]);
        if (st) {
            end_job(l, 1);
            signal_all(l, SIGKILL);
            return st;
        }
    }
    while (!(l->ending && all_gone(l))) {
        wait_for_something(l);
        due(l);
    }
    return NULL;
}

mr_status *mr_launch(const mr_launch_task *tasks, int n, const mr_launch_options *o, int *exit_code)
{
    launcher l = {.o = o, .n = n, .tasks = mr_new_array(task, n)};
    sigset_t mask, before;
    for (int i = 0; i < n; i++) {
        l.tasks[i] = (task){.what = &tasks[i], .name = mr_printf("%s/%d", tasks[i].job, tasks[i].number),
                            .out = {{.fd = -1}, {.fd = -1}}};
        l.name_width = MR_MAX(l.name_width, strlen(l.tasks[i].name));
    }
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGHUP);
    sigprocmask(SIG_BLOCK, &mask, &before);
    l.signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    mr_status *st = l.signals < 0 ? mr_error(MR_RESOURCE_EXHAUSTED, "signalfd: %s", strerror(errno)) : run(&l);
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 2; k++) {
            if (l.tasks[i].out[k].fd >= 0)
                close(l.tasks[i].out[k].fd);
            mr_str_deinit(&l.tasks[i].out[k].line);
        }
        mr_free(l.tasks[i].name);
    }
    if (l.signals >= 0)
        close(l.signals);
    sigprocmask(SIG_SETMASK, &before, NULL);
    mr_free(l.tasks);
    *exit_code = l.exit_code;
    return st;
}
