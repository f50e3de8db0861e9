/* cli/ending_test.c -- signals that ask a command to end, in processes that do not end by themselves. */
#include "cli/ending.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/harness/test.h"

/* A command that reads the first signal, reports that, and then does not end. */
static pid_t start_stubborn(const mr_ending_options *o, int *said)
{
    int ends[2];
    MR_CHECK_INT(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int asked, sig;
        mr_status *st = mr_ending_begin(o, &asked);
        char first = st ? 'e' : 'r', second = 's';
        if (write(ends[1], &first, 1) != 1)
            _exit(77);
        while (poll(&(struct pollfd){asked, POLLIN, 0}, 1, -1) < 0 || read(asked, &sig, sizeof sig) != sizeof sig)
            ;
        if (write(ends[1], &second, 1) != 1)
            _exit(77);
        for (;;)
            pause();
    }
    close(ends[1]);
    *said = ends[0];
    char c = 0;
    MR_CHECK_INT(read(*said, &c, 1), 1);
    MR_CHECK_INT(c, 'r');
    return pid;
}

static int exit_of(pid_t pid, int said)
{
    int status = -1;
    close(said);
    MR_CHECK(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

MR_TEST(ending_second_signal_ends_a_command_that_does_not)
{
    int said;
    char c = 0;
    pid_t pid = start_stubborn(&(mr_ending_options){.first_ms = -1}, &said);
    kill(pid, SIGTERM);
    MR_CHECK_INT(read(said, &c, 1), 1);
    MR_CHECK_INT(c, 's');
    kill(pid, SIGINT);
    MR_CHECK_INT(exit_of(pid, said), 128 + SIGINT);
}

MR_TEST(ending_first_signal_gives_a_bounded_time)
{
    int said;
    pid_t pid = start_stubborn(&(mr_ending_options){.first_ms = 50}, &said);
    kill(pid, SIGTERM);
    MR_CHECK_INT(exit_of(pid, said), 1);
}

MR_TEST(ending_leaves_a_hangup_that_is_ignored_alone)
{
    int said;
    char c = 0;
    void (*before)(int) = signal(SIGHUP, SIG_IGN); /* as nohup does; the child inherits it */
    pid_t pid = start_stubborn(&(mr_ending_options){.first_ms = -1}, &said);
    signal(SIGHUP, before);
    kill(pid, SIGHUP); /* if it were taken, it would be the first, and SIGTERM the second, which ends the process */
    kill(pid, SIGTERM);
    MR_CHECK_INT(read(said, &c, 1), 1);
    MR_CHECK_INT(c, 's');
    kill(pid, SIGINT);
    MR_CHECK_INT(exit_of(pid, said), 128 + SIGINT);
}
