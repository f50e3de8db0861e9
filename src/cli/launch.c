/* cli/launch.c -- starts, watches, restarts and ends the processes of a job.
 *
 * One thread polls the pipes of the tasks, the socket for their reports, and the descriptors that signals come through.
 *
 * Invariant: a task whose process.pid is not 0 has not been waited for. Only the process groups of such tasks are
 * signalled, so a signal never hits an unrelated process that got the same number. */
#include "cli/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "cli/agent.h"
#include "cli/ending.h"
#include "cli/launch_internal.h"

#define MS INT64_C(1000000)
#define LONG_LIFE_NS (600 * 1000 * MS) /* after running this long, a task may be restarted max_restarts times again */
#define SOON_NS (5 * 1000 * MS)
#define BEGIN_NS (30 * 1000 * MS) /* a task that has run this long has begun, whether it reports or not */
enum { SSH_FAILED = 255 };

/* ---- starting ---- */

/* Writes all records for the agent at once; the pipe is made large enough to hold them, so this does not block. EPIPE
 * is no error here: ssh has ended, and reap_tasks reports how. */
static mr_status *send_input(mr_launched *t)
{
    mr_sv in = t->what->input;
    bool ok = fcntl(t->process.in, F_SETPIPE_SZ, (int)in.n + 4096) >= 0 && write(t->process.in, in.p, in.n) == (ssize_t)in.n;
    if (ok || errno == EPIPE)
        return NULL;
    return mr_error(MR_RESOURCE_EXHAUSTED, "cannot send the task to %s: %s", t->what->host, strerror(errno));
}

/* Starts or restarts the process of a task, and forgets what its previous process reported. */
static mr_status *start_task(mr_launcher *l, mr_launched *t)
{
    bool remote = t->what->input.n > 0;
    mr_process_close(&t->process);
    t->restart_at_ns = 0;
    mr_process_start_options o = {t->what->argv, t->what->env, t->what->folder, remote, l->o->bare_chief && t->what->decides && !remote};
    MR_TRY(mr_process_start(&o, &t->process));
    mr_warden_add(l->warden, t->process.pid);
    t->began_ns = mr_now_ns();
    t->port_taken = t->agent_up = false;
    mr_long_wait_begin(&t->agent_wait, t->began_ns);
    mr_launch_forget(t);
    return remote ? send_input(t) : NULL;
}

/* ---- ending ---- */

/* Asks a task to end. For a task on another host the process here is ssh, so the request goes to the agent; the last
 * output of the task still arrives. */
static void ask_to_end(mr_launched *t)
{
    mr_str end = {0};
    if (t->process.in >= 0) {
        mr_agent_put(&end, MR_AGENT_END, MR_SV(""));
        if (write(t->process.in, end.p, end.n) < 0)
            kill(-t->process.pid, SIGTERM);
    } else {
        kill(-t->process.pid, SIGTERM);
    }
    mr_str_deinit(&end);
}

/* Asks all tasks to end; they are killed after the grace period. Only the first call counts. */
static void end_job(mr_launcher *l, int exit_code)
{
    if (l->ending)
        return;
    l->ending = true;
    l->exit_code = exit_code;
    l->kill_at_ns = mr_now_ns() + l->o->grace_ms * MS;
    for (int i = 0; i < l->n; i++) {
        l->tasks[i].restart_at_ns = 0;
        if (l->tasks[i].process.pid)
            ask_to_end(&l->tasks[i]);
    }
}

static void kill_all(mr_launcher *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->tasks[i].process.pid)
            kill(-l->tasks[i].process.pid, SIGKILL);
}

/* How long to wait before a restart: longer each time a task dies soon after its start. A task that has run for a while
 * is restarted at once, so that the others hardly notice. */
static int64_t pause_ns(mr_launched *t)
{
    static const int ms[] = {50, 100, 200, 400, 800};
    if (mr_now_ns() - t->began_ns > SOON_NS)
        t->n_quick = 0;
    int i = t->n_quick;
    t->n_quick = MR_MIN(i + 1, MR_COUNT(ms) - 1);
    return ms[i] * MS;
}

static void give_up(mr_launcher *l, mr_launched *t, int code, const char *how)
{
    if (t->n_restarts)
        mr_launch_say(l, "%s %s; it was restarted %d time%s: the job ends", t->name, how, t->n_restarts, t->n_restarts > 1 ? "s" : "");
    else
        mr_launch_say(l, "%s %s: the job ends", t->name, how);
    end_job(l, code ? code : 1);
}

/* Whether a program failed by itself before it listened or trained. A restart does not help then: its arguments are
 * wrong, or a module is missing. A program that was killed, or whose ssh failed, may succeed the next time. */
static bool never_began(const mr_launched *t, int code, bool killed)
{
    bool by_itself = code > 0 && !killed && !(t->what->host && code == SSH_FAILED);
    return by_itself && !t->began && mr_now_ns() - t->began_ns < BEGIN_NS;
}

static bool any_trained(const mr_launcher *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->tasks[i].own > 0 || l->tasks[i].n_restarts > 0)
            return true;
    return false;
}

/* Reports a task that is not worth a restart, and ends the job. */
static void report_failure(mr_launcher *l, mr_launched *t, int code, const char *how)
{
    if (t->port_taken && l->o->chose_ports && !any_trained(l)) {
        mr_launch_say(l, "another process has taken the port of %s: all tasks start again at other ports", t->name);
        end_job(l, MR_LAUNCH_PORT_TAKEN);
        return;
    }
    bool repeat = !t->port_taken && !mr_launch_lines_are_last(l, t);
    if (t->port_taken)
        mr_launch_say(l, "%s could not listen, because another process uses its port: the job ends", t->name);
    else
        mr_launch_say(l, "%s %s before it began, so it is not restarted: the job ends%s", t->name, how,
                      repeat ? "; its last lines:" : "");
    if (repeat)
        mr_launch_repeat_lines(l, t);
    end_job(l, code);
}

/* Decides what follows the end of a task: the end of the job, a restart after a pause, or nothing. */
static void task_ended(mr_launcher *l, mr_launched *t, int code, bool killed, const char *how)
{
    if (l->ending)
        return;
    if (code == 0 && strcmp(t->what->job, "ps") != 0) {
        t->done = true;
        if (t->what->decides)
            end_job(l, 0);
        return;
    }
    if (mr_now_ns() - t->began_ns > LONG_LIFE_NS)
        t->n_counted = 0;
    /* An agent leaves restarts to its launcher. Codes 126 and 127 mean that the program cannot be run. */
    if (l->o->bare || code == 126 || code == 127) {
        give_up(l, t, code, how);
        return;
    }
    if (never_began(t, code, killed)) {
        report_failure(l, t, code, how);
        return;
    }
    if (t->n_counted >= l->o->max_restarts) {
        give_up(l, t, code, how);
        return;
    }
    t->restart_at_ns = mr_now_ns() + pause_ns(t);
    t->n_counted++;
    t->n_restarts++;
    mr_launch_say(l, "%s %s; restart %d of %d", t->name, how, t->n_counted, l->o->max_restarts);
}

/* Whether a signal ended the task. An agent reports this as shells do, with an exit code of 128 + signal. */
static bool was_killed(const mr_launched *t, int status)
{
    int code = mr_process_code(status);
    return WIFSIGNALED(status) || (t->what->host && code > 128 && code != SSH_FAILED);
}

static void tell_how(const mr_launched *t, int status, mr_str *out)
{
    int code = mr_process_code(status);
    bool remote = t->what->host != NULL;
    if (remote && WIFEXITED(status) && code == SSH_FAILED)
        mr_str_printf(out, "could not be started or was cut off: ssh to %s failed", t->what->host);
    else
        mr_process_how(code, was_killed(t, status), out);
    if (remote && code != SSH_FAILED)
        mr_str_printf(out, " on %s", t->what->host);
}

/* Collects tasks that have ended. Reads the rest of their output and reports first, so that it is shown before the line
 * about their end. */
static void reap_tasks(mr_launcher *l)
{
    for (int i = 0; i < l->n; i++) {
        mr_launched *t = &l->tasks[i];
        mr_str how = {0};
        int status;
        pid_t pid = t->process.pid;
        if (!pid || waitpid(pid, &status, WNOHANG) != pid)
            continue;
        kill(-pid, SIGKILL); /* processes that it started and left running */
        mr_warden_remove(l->warden, pid);
        t->process.pid = 0;
        for (int k = 1; k <= 2; k++)
            while (t->process.out[k - 1] >= 0 && poll(&(struct pollfd){t->process.out[k - 1], POLLIN, 0}, 1, 0) > 0)
                mr_launch_read(l, t, k);
        if (l->status >= 0)
            mr_launch_hear(l); /* its last reports */
        tell_how(t, status, &how);
        task_ended(l, t, mr_process_code(status), was_killed(t, status), mr_str_z(&how));
        mr_str_deinit(&how);
    }
}

/* ---- the loop ---- */

/* The first signal ends the job, the second one kills its tasks. */
static void take_signal(mr_launcher *l)
{
    struct signalfd_siginfo s;
    int sig;
    while (read(l->signals, &s, sizeof s) == sizeof s)
        ; /* SIGCHLD */
    while (read(l->asked, &sig, sizeof sig) == sizeof sig) {
        if (l->ending && l->exit_code == MR_LAUNCH_PORT_TAKEN)
            l->exit_code = 128 + sig; /* the job must not start again at other ports */
        else if (l->ending)
            l->kill_at_ns = 0; /* the second signal: kill now */
        else
            mr_launch_say(l, "%s: ending all tasks", strsignal(sig));
        end_job(l, 128 + sig);
    }
    reap_tasks(l);
}

/* Whether ssh runs but the agent has not reported yet. For a host that does not answer, ssh takes minutes to fail. */
static bool waits_for_agent(const mr_launcher *l, const mr_launched *t)
{
    return t->what->host && t->process.pid && !t->agent_up && !l->ending;
}

static void tell_wait_for_agent(mr_launcher *l, mr_launched *t)
{
    double seconds;
    if (waits_for_agent(l, t) && mr_long_wait_due(&t->agent_wait, mr_now_ns(), &seconds))
        mr_launch_say(l, "still waiting for %s: ssh to %s has not started it (%.0f s)", t->name, t->what->host,
                      seconds);
}

static int64_t next_time(const mr_launcher *l)
{
    int64_t at = MR_MIN(l->draw_at_ns, l->ending ? l->kill_at_ns : INT64_MAX);
    for (int i = 0; i < l->n; i++)
        if (l->tasks[i].restart_at_ns)
            at = MR_MIN(at, l->tasks[i].restart_at_ns);
        else if (waits_for_agent(l, &l->tasks[i]))
            at = MR_MIN(at, l->tasks[i].agent_wait.next_ns);
    return at;
}

static void start_or_end(mr_launcher *l, mr_launched *t)
{
    mr_status *st = start_task(l, t);
    if (!st)
        return;
    mr_launch_say(l, "%s: %s", t->name, mr_status_message(st));
    mr_status_free(st);
    end_job(l, 1);
}

static void do_due_work(mr_launcher *l)
{
    int64_t now = mr_now_ns();
    if (l->ending && now >= l->kill_at_ns) {
        kill_all(l);
        l->kill_at_ns = INT64_MAX;
    }
    for (int i = 0; i < l->n; i++) {
        if (l->tasks[i].restart_at_ns && now >= l->tasks[i].restart_at_ns)
            start_or_end(l, &l->tasks[i]);
        tell_wait_for_agent(l, &l->tasks[i]);
    }
}

static bool all_gone(const mr_launcher *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->tasks[i].process.pid)
            return false;
    return true;
}

static void take_wake(mr_launcher *l)
{
    mr_launch_end e = l->o->woken(l->o->wake);
    if (e.exit_code < 0)
        return;
    end_job(l, e.exit_code);
    if (e.at_once)
        l->kill_at_ns = 0;
}

enum { SIGNALS, ASKED, STATUS, WAKE, FIRST_PIPE };

/* Fills in the descriptors to poll, and for each pipe in who: 2 * task + stream. Closed ones are left out, because poll
 * fails if there are more entries than the process may have descriptors. */
static int gather_descriptors(const mr_launcher *l, struct pollfd *p, int *who)
{
    int n = FIRST_PIPE;
    p[SIGNALS] = (struct pollfd){l->signals, POLLIN, 0};
    p[ASKED] = (struct pollfd){l->asked, POLLIN, 0};
    p[STATUS] = (struct pollfd){l->status, POLLIN, 0};
    p[WAKE] = (struct pollfd){l->ending ? -1 : l->o->wake, POLLIN, 0};
    for (int i = 0; i < 2 * l->n; i++) {
        int fd = l->tasks[i / 2].process.out[i % 2];
        if (fd < 0)
            continue;
        who[n] = i;
        p[n++] = (struct pollfd){fd, POLLIN, 0};
    }
    return n;
}

static void take_all(mr_launcher *l, const struct pollfd *p, const int *who, int n)
{
    for (int i = FIRST_PIPE; i < n; i++)
        if (p[i].revents)
            mr_launch_read(l, &l->tasks[who[i] / 2], 1 + who[i] % 2);
    if (p[STATUS].revents)
        mr_launch_hear(l);
    if (p[WAKE].revents)
        take_wake(l);
    if (p[SIGNALS].revents || p[ASKED].revents)
        take_signal(l);
}

/* Polls until something happens or the next timer is due, and handles it. */
static void wait_for_something(mr_launcher *l)
{
    struct pollfd *p = mr_new_array(struct pollfd, FIRST_PIPE + 2 * l->n);
    int *who = mr_new_array(int, FIRST_PIPE + 2 * l->n);
    int64_t at = next_time(l), now = mr_now_ns();
    int timeout = at == INT64_MAX ? -1 : at <= now ? 0 : (int)MR_MIN((at - now) / MS + 1, 60000);
    int n = gather_descriptors(l, p, who), got = poll(p, (nfds_t)n, timeout);
    if (got > 0)
        take_all(l, p, who, n);
    else if (got < 0 && errno != EINTR) {
        mr_launch_say(l, "poll: %s: the job ends", strerror(errno));
        end_job(l, 1);
        l->kill_at_ns = 0; /* without poll, waiting is impossible */
        take_signal(l);
        mr_sleep_ns(10 * MS);
    }
    mr_free(p);
    mr_free(who);
}

/* The main loop: starts all tasks, then handles events until the job has ended and no process is left. */
static mr_status *run_job(mr_launcher *l)
{
    MR_TRY(mr_launch_listen(l));
    for (int i = 0; i < l->n && !l->ending; i++)
        start_or_end(l, &l->tasks[i]);
    while (!(l->ending && all_gone(l))) {
        mr_launch_show(l);
        wait_for_something(l);
        do_due_work(l);
    }
    mr_screen_clear(l->screen);
    if (l->status >= 0 && !l->o->bare) {
        mr_launch_hear(l); /* the last reports */
        mr_launch_tell_figures(l);
    }
    return NULL;
}

/* ---- the launcher ---- */

static void init_tasks(mr_launcher *l, const mr_launch_task *tasks)
{
    for (int i = 0; i < l->n; i++) {
        mr_launched *t = &l->tasks[i];
        *t = (mr_launched){
            .what = &tasks[i], .number = i, .process = MR_PROCESS_NONE, .step = -1, .rate = -1, .last_step = -1};
        t->name = mr_printf("%s/%d", tasks[i].job, tasks[i].number);
        l->name_width = MR_MAX(l->name_width, (int)strlen(t->name));
    }
}

static void deinit_launcher(mr_launcher *l)
{
    for (int i = 0; i < l->n; i++) {
        mr_launched *t = &l->tasks[i];
        mr_process_close(&t->process);
        mr_launch_forget(t);
        mr_str_deinit(&t->lines[0].begun);
        mr_str_deinit(&t->lines[1].begun);
        for (int k = 0; k < MR_LAST_LINES; k++)
            mr_str_deinit(&t->last_lines[k]);
        mr_free(t->name);
    }
    if (l->signals >= 0)
        close(l->signals);
    if (l->status >= 0)
        close(l->status);
    mr_warden_free(l->warden);
    mr_screen_free(l->screen);
    mr_free(l->tasks);
}

static sigset_t wanted_signals(void)
{
    sigset_t mask;
    static const int wanted[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT}; /* those of cli/ending.h, and children */
    sigemptyset(&mask);
    for (int i = 0; i < MR_COUNT(wanted); i++)
        sigaddset(&mask, wanted[i]);
    return mask;
}

void mr_launch_block_signals(sigset_t *before)
{
    sigset_t mask = wanted_signals();
    sigprocmask(SIG_BLOCK, &mask, before);
}

/* Blocks the signals and opens the descriptors that they come through. Three seconds after a second signal the process
 * exits in any case, even if it is stuck in a write to a pipe that nobody reads. */
static mr_status *open_signals(mr_launcher *l, sigset_t *before)
{
    sigset_t mask;
    mr_launch_block_signals(before);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    l->signals = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (l->signals < 0)
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot open a signalfd: %s", strerror(errno));
    return mr_ending_begin(&(mr_ending_options){.first_ms = -1, .second_ms = 3000}, &l->asked);
}

/* Raises the limit of descriptors: a task needs up to three, and the usual limit is 1024. */
static void allow_descriptors(int n_tasks)
{
    struct rlimit r;
    rlim_t want = (rlim_t)n_tasks * 3 + 100;
    if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= want)
        return;
    r.rlim_cur = MR_MIN(want, r.rlim_max);
    setrlimit(RLIMIT_NOFILE, &r); /* if this fails, starting a task reports the error */
}

/* Restores the signal mask and SIGPIPE of the caller at the end. */
mr_status *mr_launch(const mr_launch_task *tasks, int n, const mr_launch_options *o, int *exit_code)
{
    mr_launcher l = {.o = o,
                     .n = n,
                     .tasks = mr_new_array(mr_launched, n),
                     .signals = -1,
                     .asked = -1,
                     .status = -1,
                     .exit_code = 1,
                     .began_ns = mr_now_ns(),
                     .screen = mr_screen_new(o->table)};
    sigset_t before;
    allow_descriptors(n);
    init_tasks(&l, tasks);
    void (*pipe_before)(int) = signal(SIGPIPE, SIG_IGN);
    mr_status *st = open_signals(&l, &before);
    if (!st)
        st = mr_warden_new(o->folder, &l.warden);
    if (!st)
        st = run_job(&l);
    deinit_launcher(&l);
    sigprocmask(SIG_SETMASK, &before, NULL);
    signal(SIGPIPE, pipe_before);
    *exit_code = l.exit_code;
    return st;
}
