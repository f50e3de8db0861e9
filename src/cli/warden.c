/* cli/warden.c -- a small process that cleans up after the process that started it.
 *
 * It reads process group numbers from a pipe: g when a group starts, -g when it has ended. When the pipe ends, its
 * parent has ended; the warden then kills the groups that are left and removes the folder. */
#include "cli/warden.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"

enum { MAX_GROUPS = 4096 };

struct mr_warden {
    pid_t pid;
    int pipe;
};

/* Removes the folder, the files in it, and folders in it, down to `depth` levels. Links are removed, not followed. */
static void remove_at(int dir, const char *name, int depth)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && unlinkat(fd, e->d_name, 0) < 0 && depth > 1)
            remove_at(fd, e->d_name, depth - 1);
    if (d)
        closedir(d);
    else if (fd >= 0)
        close(fd);
    unlinkat(dir, name, AT_REMOVEDIR);
}

void mr_remove_folder(const char *folder)
{
    remove_at(AT_FDCWD, folder, 2);
}

/* ---- the warden process ---- */

static void note_group(pid_t *groups, int *n, pid_t g)
{
    if (g > 0 && *n < MAX_GROUPS)
        groups[(*n)++] = g;
    for (int i = 0; g < 0 && i < *n; i++)
        if (groups[i] == -g)
            groups[i--] = groups[--*n];
}

static void keep_watch(int pipe, const char *folder) __attribute__((noreturn));
static void keep_watch(int pipe, const char *folder)
{
    static pid_t groups[MAX_GROUPS];
    int n = 0;
    pid_t g;
    ssize_t got;
    while ((got = read(pipe, &g, sizeof g)) == sizeof g || (got < 0 && errno == EINTR))
        if (got > 0)
            note_group(groups, &n, g);
    for (int i = 0; i < n; i++)
        kill(-groups[i], SIGKILL);
    if (folder)
        mr_remove_folder(folder);
    _exit(0);
}

/* Gives up everything inherited from the parent: the terminal, signals, and descriptors. Others may wait for the
 * inherited pipes to be closed. */
static void detach_from_maker(int *pipe)
{
    setsid();
    prctl(PR_SET_NAME, "millrace-warden");
    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_IGN);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        dup2(null, fd);
    *pipe = dup2(*pipe, 3);
    close_range(4, ~0U, 0);
    if (chdir("/") < 0)
        _exit(1);
}

/* Forks the warden; this process keeps the end of the pipe to write. */
mr_status *mr_warden_new(const char *folder, mr_warden **out)
{
    int ends[2];
    *out = NULL;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot create a pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[1]);
        detach_from_maker(&ends[0]);
        keep_watch(ends[0], folder);
    }
    close(ends[0]);
    if (pid < 0) {
        close(ends[1]);
        return mr_error(MR_RESOURCE_EXHAUSTED, "cannot start the process that cleans up: %s", strerror(errno));
    }
    *out = mr_new(mr_warden);
    **out = (mr_warden){pid, ends[1]};
    return NULL;
}

static void send_group(mr_warden *w, pid_t g)
{
    while (w && write(w->pipe, &g, sizeof g) < 0 && errno == EINTR)
        ;
}

void mr_warden_add(mr_warden *w, pid_t group) { send_group(w, group); }
void mr_warden_remove(mr_warden *w, pid_t group) { send_group(w, -group); }

void mr_warden_free(mr_warden *w)
{
    if (!w)
        return;
    close(w->pipe);
    waitpid(w->pid, NULL, 0);
    mr_free(w);
}
