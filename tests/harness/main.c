/* tests/harness/main.c -- runs the unit tests, each in a child process with a deadline.
 *
 * Each test's stdout and stderr go to a separate memory file, which is shown only if it fails or is skipped. The child
 * reports how it ended through `slot`, memory shared with the parent, because an exit code alone cannot distinguish a
 * test that passed from one whose code called exit(0). Each child leads a process group, so its own children are killed
 * with it, and it dies with the parent. */
#include "tests/harness/test.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"

#define X(name) void mr_test_##name(void);
#include "tests.inc"
#undef X

typedef struct test_entry {
    const char *name;
    void (*fn)(void);
} test_entry;

static const test_entry tests[] = {
#define X(name) {#name, mr_test_##name},
#include "tests.inc"
#undef X
    {NULL, NULL}};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWNESS 5
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOWNESS 5
#endif
#endif
#ifndef SLOWNESS
#define SLOWNESS 1
#endif

/* Allocations sized by input may fail: sanitizers must return NULL as malloc does, instead of ending the test. The
 * thread sanitizer does not see locks inside libraries without instrumentation (gRPC has its own), so accesses inside
 * such libraries are ignored. */
#define SANITIZER_OPTIONS(name, more)                                    \
    const char *name(void) __attribute__((visibility("default"), used)); \
    const char *name(void) { return "allocator_may_return_null=1" more; }
/* libasan mistakes a thread-local block of a dlopened library for one with a header if its address is 16 more than a
 * multiple of 4096, and LeakSanitizer then reads the wrong place. Such blocks are found through malloc anyway. */
SANITIZER_OPTIONS(__asan_default_options, ":intercept_tls_get_addr=0")
SANITIZER_OPTIONS(__tsan_default_options, ":ignore_noninstrumented_modules=1")
SANITIZER_OPTIONS(__msan_default_options, "")

enum outcome { UNDECIDED, PASSED, FAILED, SKIPPED, WITHOUT_GOLDEN };

/* One running test, in memory shared with its child; the child writes only the first two members. */
typedef struct slot {
    _Atomic int outcome;
    _Atomic int deadline_s;
    pid_t pid; /* 0: free */
    int test, output_fd;
    int64_t started_ns;
    bool timed_out; /* it was asked to print its stacks, and is killed a second later */
} slot;

static slot *mine; /* the slot of the test running in this process; NULL in the parent */
static char dir_path[512];
static bool no_fork;

/* ---- what a test calls ---- */

static void end_test(enum outcome outcome)
{
    fflush(NULL);
    atomic_store(&mine->outcome, outcome);
    if (no_fork && outcome == FAILED)
        abort(); /* a debugger stops here */
    _exit(outcome == FAILED);
}

void mr_test_fail(const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    end_test(FAILED);
    abort();
}

void mr_test_skip(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    end_test(SKIPPED);
    abort();
}

void mr_test_deadline(int seconds) { atomic_store(&mine->deadline_s, seconds * SLOWNESS); }

const char *mr_test_dir(void)
{
    if (mkdir(dir_path, 0700) != 0 && errno != EEXIST)
        mr_test_fail(__FILE__, __LINE__, "mkdir %s: %s", dir_path, strerror(errno));
    return dir_path;
}

const char *mr_test_golden(void) { return "tests/golden"; }

const char *mr_test_tensorflow_golden(void)
{
    const char *dir = getenv("MILLRACE_GOLDEN");
    if (access(dir ? dir : "../shared/golden", R_OK | X_OK) == 0)
        return dir ? dir : "../shared/golden";
    if (dir)
        mr_test_fail(__FILE__, __LINE__, "MILLRACE_GOLDEN is '%s': %s", dir, strerror(errno));
    end_test(WITHOUT_GOLDEN);
    return NULL;
}

/* splitmix64: its state is a counter, so threads of a test may share it. */
uint64_t mr_test_random(void)
{
    static _Atomic uint64_t counter;
    const char *seed = getenv("MILLRACE_SEED");
    uint64_t z = (seed ? strtoull(seed, NULL, 0) : 1) * 0xd1342543de82ef95u;
    z += atomic_fetch_add(&counter, 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void mr_test_check_error(const char *file, int line, const char *what, mr_status *s, mr_code code,
                         const char *text)
{
    if (!s)
        mr_test_fail(file, line, "%s succeeds, expected %s", what, mr_code_name(code));
    if (mr_status_code(s) != code || !strstr(mr_status_message(s), text))
        mr_test_fail(file, line, "%s is\n    %s: %s\n  expected\n    %s: ...%s...", what,
                     mr_code_name(mr_status_code(s)), mr_status_message(s), mr_code_name(code),
                     text);
    mr_status_free(s);
}

/* ---- children ---- */

#if SLOWNESS == 1 /* a sanitizer reports crashes itself */
#define MAX_FRAMES 32

static void print_stack(int sig)
{
    void *frames[MAX_FRAMES];
    backtrace_symbols_fd(frames, backtrace(frames, MAX_FRAMES), 2);
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Prints a backtrace on a crash; the handler has a separate stack in case of a stack overflow. */
static void watch_crashes(void)
{
    static char stack[65536];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof(stack)}, NULL);
    const int sigs[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    for (int i = 0; i < MR_COUNT(sigs); i++)
        sigaction(sigs[i], &(struct sigaction){.sa_handler = print_stack, .sa_flags = SA_ONSTACK},
                  NULL);
}

/* The first backtrace loads a library, which a signal handler must not do. */
static void prepare_stacks(void)
{
    void *frame;
    backtrace(&frame, 1);
}
#else
static void watch_crashes(void) {}
static void prepare_stacks(void) {}
#endif

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "test runner: %s: %s\n", what, strerror(errno));
    exit(2);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* The folder of a test; the parent chooses its name, the child creates it on demand. */
static void name_dir(pid_t runner, int test)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir_path, sizeof(dir_path), "%s/millrace-test-%d-%d", tmp ? tmp : "/tmp", (int)runner,
             test);
}

static void remove_dir(int test)
{
    name_dir(getpid(), test);
    nftw(dir_path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void run_child(slot *s, pid_t runner)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != runner)
        _exit(1);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    dup2(s->output_fd, 1);
    dup2(s->output_fd, 2);
    setvbuf(stdout, NULL, _IOLBF, 0); /* keeps the order with stderr */
    int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    watch_crashes();
    name_dir(runner, s->test);
    mine = s;
    tests[s->test].fn();
    fflush(NULL);
    atomic_store(&s->outcome, PASSED);
    exit(0); /* not _exit: the leak sanitizer looks when a process exits */
}

static void start(slot *s, int test)
{
    atomic_store(&s->outcome, UNDECIDED);
    atomic_store(&s->deadline_s, 20 * SLOWNESS);
    s->test = test;
    s->timed_out = false;
    s->started_ns = now_ns();
    s->output_fd = memfd_create("test output", MFD_CLOEXEC);
    if (s->output_fd < 0)
        die("memfd_create");
    pid_t runner = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0)
        run_child(s, runner);
    s->pid = pid;            /* only the parent writes it: the child sees the same memory */
    setpgid(s->pid, s->pid); /* both processes call it, so neither has to wait for the other */
}

/* ---- the parent ---- */

static struct {
    int passed, failed, skipped, without_golden;
    bool dots; /* progress is shown: stdout is a terminal */
    int column;
} tally;

static void end_dots(void)
{
    if (tally.column)
        putchar('\n');
    tally.column = 0;
}

static void progress(void)
{
    if (!tally.dots)
        return;
    putchar('.');
    if (++tally.column == 80)
        end_dots();
    fflush(stdout);
}

/* Our functions are hidden symbols, so a backtrace only has offsets into this program: addr2line resolves them. */
static void show_frame(const char *line, unsigned long offset)
{
    char command[96];
    snprintf(command, sizeof(command), "addr2line -fpe /proc/%d/exe %#lx 2>/dev/null",
             (int)getpid(), offset - 1); /* a return address; the call is just before it */
    char where[512];
    FILE *f = popen(command, "r");
    bool known = f && fgets(where, sizeof(where), f) && where[0] != '?';
    fputs(known ? where : line, stdout);
    if (f)
        pclose(f);
}

/* Prints the output of the test, each line indented. */
static void show_output(int fd)
{
    FILE *f = fdopen(dup(fd), "r");
    char *line = NULL;
    size_t cap = 0;
    unsigned long offset;
    if (!f)
        return;
    rewind(f);
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        fputs("    ", stdout);
        if (strstr(line, "/test(+0x") && sscanf(strchr(line, '('), "(+%lx)", &offset) == 1)
            show_frame(line, offset);
        else
            fwrite(line, 1, (size_t)n, stdout);
        if (line[n - 1] != '\n')
            putchar('\n');
    }
    free(line);
    fclose(f);
}

static const char *signal_name(int sig)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 32)
    const char *name = sigabbrev_np(sig);
    return name ? name : "?";
#else
    return strsignal(sig);
#endif
}

/* The reason of a failure, beyond the test's own output. */
static void describe(const slot *s, int wstatus, char *out, size_t out_bytes)
{
    out[0] = '\0';
    if (s->timed_out)
        snprintf(out, out_bytes, ", over its deadline of %d s", atomic_load(&s->deadline_s));
    else if (WIFSIGNALED(wstatus))
        snprintf(out, out_bytes, ", crashed: SIG%s", signal_name(WTERMSIG(wstatus)));
    else if (atomic_load(&s->outcome) == UNDECIDED)
        snprintf(out, out_bytes, ", called exit(%d)", WEXITSTATUS(wstatus));
    else if (atomic_load(&s->outcome) == PASSED)
        snprintf(out, out_bytes, ", exit code %d after its end", WEXITSTATUS(wstatus));
}

static void finish(slot *s, int wstatus)
{
    char why[64];
    bool clean = WIFEXITED(wstatus) && WEXITSTATUS(wstatus) == 0 && !s->timed_out;
    int outcome = atomic_load(&s->outcome);
    kill(-s->pid, SIGKILL); /* processes that the test left running */
    if (clean && outcome == PASSED) {
        tally.passed++;
        progress();
    } else if (clean && outcome == WITHOUT_GOLDEN) {
        tally.without_golden++;
    } else if (clean && outcome == SKIPPED) {
        tally.skipped++;
        end_dots();
        printf("SKIP %s\n", tests[s->test].name);
        show_output(s->output_fd);
    } else {
        tally.failed++;
        end_dots();
        describe(s, wstatus, why, sizeof(why));
        printf("FAIL %s%s\n", tests[s->test].name, why);
        show_output(s->output_fd);
    }
    close(s->output_fd);
    remove_dir(s->test);
    s->pid = 0;
}

static void kill_late(slot *slots, int n_slots)
{
    int64_t now = now_ns();
    for (slot *s = slots; s < slots + n_slots; s++) {
        int64_t late_ns = now - s->started_ns - atomic_load(&s->deadline_s) * INT64_C(1000000000);
        if (!s->pid || late_ns <= 0)
            continue;
        if (!s->timed_out)
            kill(s->pid, SIGABRT); /* makes it print where it hangs */
        else if (late_ns > INT64_C(1000000000))
            kill(-s->pid, SIGKILL);
        s->timed_out = true;
    }
}

static void reap(slot *slots, int n_slots)
{
    int wstatus;
    for (pid_t pid; (pid = waitpid(-1, &wstatus, WNOHANG)) > 0;)
        for (slot *s = slots; s < slots + n_slots; s++)
            if (s->pid == pid)
                finish(s, wstatus);
}

/* On an interrupt: kills all children and removes all files. */
static void abandon(slot *slots, int n_slots)
{
    for (slot *s = slots; s < slots + n_slots; s++)
        if (s->pid) {
            kill(-s->pid, SIGKILL);
            waitpid(s->pid, NULL, 0);
            remove_dir(s->test);
        }
    exit(130);
}

static slot *free_slot(slot *slots, int n_slots)
{
    for (slot *s = slots; s < slots + n_slots; s++)
        if (!s->pid)
            return s;
    return NULL;
}

static bool any_running(const slot *slots, int n_slots)
{
    for (const slot *s = slots; s < slots + n_slots; s++)
        if (s->pid)
            return true;
    return false;
}

/* Waits until a child ends or a tenth of a second has passed, to check the deadlines. */
static void wait_and_reap(slot *slots, int n_slots, const sigset_t *watched)
{
    struct timespec tick = {0, 100000000};
    int sig = sigtimedwait(watched, NULL, &tick);
    if (sig == SIGINT || sig == SIGTERM)
        abandon(slots, n_slots);
    kill_late(slots, n_slots);
    reap(slots, n_slots);
}

static bool is_wanted(const char *name, char **parts, int n_parts)
{
    for (int i = 0; i < n_parts; i++)
        if (strstr(name, parts[i]))
            return true;
    return n_parts == 0;
}

static int n_jobs(void)
{
    const char *jobs = getenv("MILLRACE_JOBS");
    long n = jobs ? strtol(jobs, NULL, 10) : sysconf(_SC_NPROCESSORS_ONLN);
    return (int)MR_MIN(MR_MAX(n, 1), 256);
}

static int run_all(char **parts, int n_parts)
{
    int n_slots = n_jobs();
    slot *slots = mmap(NULL, (size_t)n_slots * sizeof(slot), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (slots == MAP_FAILED)
        die("mmap");
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGTERM);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    tally.dots = isatty(1);
    prepare_stacks();
    for (int i = 0; tests[i].name; i++) {
        if (!is_wanted(tests[i].name, parts, n_parts))
            continue;
        slot *s;
        while (!(s = free_slot(slots, n_slots)))
            wait_and_reap(slots, n_slots, &watched);
        start(s, i);
    }
    while (any_running(slots, n_slots))
        wait_and_reap(slots, n_slots, &watched);
    end_dots();
    if (tally.without_golden)
        printf("%d tests need the golden files made by TensorFlow, which are not here: set MILLRACE_GOLDEN to their "
               "folder\n",
               tally.without_golden);
    printf("%d passed, %d failed", tally.passed, tally.failed);
    if (tally.skipped)
        printf(", %d skipped", tally.skipped);
    putchar('\n');
    return tally.failed || tally.passed + tally.skipped + tally.without_golden == 0;
}

/* For a debugger: runs one test in this process, without a deadline. */
static int run_here(const char *name)
{
    static slot only;
    for (int i = 0; tests[i].name; i++) {
        if (strcmp(tests[i].name, name) != 0)
            continue;
        mine = &only;
        no_fork = true;
        name_dir(getpid(), i);
        tests[i].fn();
        remove_dir(i);
        return 0;
    }
    fprintf(stderr, "no test has the name '%s' (--list shows all)\n", name);
    return 1;
}

static int help(void)
{
    puts("test [part of a name]...   run the tests whose names contain one of the parts (or all)\n"
         "test --list                print the names\n"
         "test --no-fork NAME        run one test in this process, for a debugger\n"
         "MILLRACE_JOBS: tests at a time (default: cores); MILLRACE_SEED: of mr_test_random;\n"
         "MILLRACE_GOLDEN: folder of the golden files made by TensorFlow (default: ../shared/golden);\n"
         "TMPDIR: where tests make their folders");
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return help();
    if (argc == 3 && strcmp(argv[1], "--no-fork") == 0)
        return run_here(argv[2]);
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (int i = 0; tests[i].name; i++)
            puts(tests[i].name);
        return 0;
    }
    return run_all(argv + 1, argc - 1);
}
