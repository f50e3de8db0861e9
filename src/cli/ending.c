/* cli/ending.c -- a thread that receives the signals that ask a command to end; see ending.h. */
#include "cli/ending.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/thread.h"

static int ends[2] = {-1, -1}; /* of the pipe that the thread writes to */
static _Atomic int first_ms, second_ms;

/* nohup ignores SIGHUP, but a thread that waits for SIGHUP would still get it. */
static bool hangup_is_ignored(void)
{
    struct sigaction now;
    return sigaction(SIGHUP, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static sigset_t ending_signals(void)
{
    sigset_t mask;
    static const int wanted[] = {SIGINT, SIGTERM, SIGQUIT};
    sigemptyset(&mask);
    for (int i = 0; i < MR_COUNT(wanted); i++)
        sigaddset(&mask, wanted[i]);
    if (!hangup_is_ignored())
        sigaddset(&mask, SIGHUP);
    return mask;
}

/* Waits for the next signal; 0 after ms milliseconds. ms < 0: waits without limit. */
static int next_signal(const sigset_t *mask, int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    int sig;
    do
        sig = ms < 0 ? sigwaitinfo(mask, NULL) : sigtimedwait(mask, NULL, &t);
    while (sig < 0 && errno == EINTR);
    return sig < 0 ? 0 : sig;
}

/* Writes to standard error, unless that would block because nobody reads the pipe. */
static void write_error(const char *text)
{
    struct pollfd p = {2, POLLOUT, 0};
    if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) && write(2, text, strlen(text)) < 0) {
    }
}

/* The thread. It ends the process with _exit, because exit() would run handlers while the command may be stuck inside
 * something that they need. */
static void take_signals(void *unused)
{
    (void)unused;
    sigset_t mask = ending_signals();
    int first = next_signal(&mask, -1), second = 0;
    if (write(ends[1], &first, sizeof first) < 0) {
    }
    second = next_signal(&mask, first_ms);
    if (!second) {
        write_error("millrace: could not stop in time; exiting now\n");
        _exit(1);
    }
    if (write(ends[1], &second, sizeof second) < 0) {
    }
    if (second_ms > 0)
        usleep((useconds_t)second_ms * 1000);
    _exit(128 + second);
}

/* The pipe and the thread are made by the first call and live as long as the process. */
mr_status *mr_ending_begin(const mr_ending_options *o, int *fd)
{
    mr_thread t;
    sigset_t mask = ending_signals();
    first_ms = o->first_ms;
    second_ms = o->second_ms;
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    if (ends[0] < 0) {
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
            return mr_error(MR_RESOURCE_EXHAUSTED, "cannot create a pipe: %s", strerror(errno));
        int err = mr_thread_start(&t, "signals", take_signals, NULL);
        if (err)
            return mr_error(MR_RESOURCE_EXHAUSTED, "cannot start a thread: %s", strerror(err));
        pthread_detach(t.t);
    }
    *fd = ends[0];
    return NULL;
}
