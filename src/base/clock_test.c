/* base/clock_test.c -- random numbers, also where the system gives none. */
#include "base/clock.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "tests/harness/test.h"

/* Makes getrandom fail in this process, as in a sandbox that does not know it.  false: the kernel has no filters. */
static bool forbid_getrandom(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrandom, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {MR_COUNT(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

MR_TEST(random_secrets_are_never_made_of_the_clock)
{
    uint64_t a = 0, b = 0;
    MR_CHECK_OK(mr_random_secret(&a, sizeof a));
    MR_CHECK_OK(mr_random_secret(&b, sizeof b));
    MR_CHECK(a != b);
    pid_t child = fork();
    if (child == 0) {
        if (!forbid_getrandom())
            _exit(0);
        mr_status *st = mr_random_secret(&a, sizeof a);
        _exit(mr_status_code(st) == MR_UNAVAILABLE && mr_random64() != mr_random64() ? 0 : 1);
    }
    int status = -1;
    MR_CHECK(child > 0 && waitpid(child, &status, 0) == child);
    MR_CHECK_INT(status, 0);
}
