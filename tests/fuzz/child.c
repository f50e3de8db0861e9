/* tests/fuzz/child.c -- the process in which a batch of runs is done.
 *
 * A mutated graph may do anything, so the process is sandboxed first: it can write files only in a separate folder
 * (Landlock, if the kernel supports it), dumps no core, and has a stack as small as that of many programs' threads, so
 * that unlimited recursion is found. Leaks are checked once, at the end of the batch: the check stops the process for
 * some milliseconds. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "tests/fuzz/slot.h"

enum { STACK_BYTES = 1 << 20 };

/* Allocations sized by input may fail: malloc must return NULL for absurd sizes, and a hang ended by SIGABRT must print
 * its stack. */
#define SANITIZER_OPTIONS(name, text)                                    \
    const char *name(void) __attribute__((visibility("default"), used)); \
    const char *name(void) { return text; }
SANITIZER_OPTIONS(__asan_default_options,
                  "allocator_may_return_null=1:max_allocation_size_mb=64:handle_abort=1:detect_"
                  "stack_use_after_return=0:"
                  "quarantine_size_mb=16:malloc_context_size=12:detect_leaks=1")
SANITIZER_OPTIONS(__ubsan_default_options, "print_stacktrace=1")
SANITIZER_OPTIONS(__tsan_default_options, "allocator_may_return_null=1")

/* Only defined if the sanitizer is linked. */
extern int __lsan_do_recoverable_leak_check(void) __attribute__((weak));
extern void __lsan_disable(void) __attribute__((weak));

/* ---- what a target calls ---- */

void fuzz_note(fuzz_run *r, mr_sv input)
{
    r->slot->n_input = MR_MIN(input.n, FUZZ_MAX_INPUT);
    memcpy(r->slot->input, input.p, r->slot->n_input);
}

void fuzz_notef(fuzz_run *r, const char *fmt, ...)
{
    mr_str s = {0};
    va_list ap;
    va_start(ap, fmt);
    mr_str_vprintf(&s, fmt, ap);
    va_end(ap);
    fuzz_note(r, mr_str_view(&s));
    mr_str_deinit(&s);
}

void fuzz_fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("BROKEN: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    fflush(NULL);
    _exit(FUZZ_EXIT_BROKEN);
}

void fuzz_must(mr_status *st, const char *what)
{
    if (st)
        fuzz_fail("%s: %s: %s", what, mr_code_name(mr_status_code(st)), mr_status_message(st));
}

void fuzz_say(const fuzz_run *r, const char *fmt, ...)
{
    va_list ap;
    if (!r->verbose)
        return;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
}

/* Helpers shared with the unit tests call this to end a test. */
void mr_test_fail(const char *file, int line, const char *fmt, ...) MR_PRINTF(3, 4)
    __attribute__((noreturn));
void mr_test_fail(const char *file, int line, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    fuzz_fail("%s:%d: %s", file, line, text);
}

/* ---- the fence ---- */

/* In a coverage build (tools/fuzz-coverage), the counts are written beside the objects, outside of the sandbox. */
extern void __gcov_dump(void) __attribute__((weak));

#define WRITES                                                                                     \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                               \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | \
     LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |   \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* Nothing may be created, written or removed outside of the folder. Older kernels cannot enforce that; then ops that
 * write files still get only relative names from us. */
static void fence_files(const char *folder)
{
    if (__gcov_dump)
        return;
    struct landlock_ruleset_attr attr = {.handled_access_fs = WRITES};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
    if (rules < 0)
        return;
    struct landlock_path_beneath_attr beneath = {WRITES, open(folder, O_PATH | O_CLOEXEC)};
    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    syscall(SYS_landlock_restrict_self, rules, 0);
    close(beneath.parent_fd);
    close(rules);
}

static void fence(const char *folder)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_STACK, &(struct rlimit){STACK_BYTES, RLIM_INFINITY});
    mr_status *st = mr_dir_make(folder);
    fuzz_must(st, "the folder of a child");
    fence_files(folder);
    if (chdir(folder) != 0)
        fuzz_fail("chdir %s: %s", folder, strerror(errno));
}

/* ---- runs ---- */

uint64_t fuzz_start(uint64_t seed, const char *target, int64_t run)
{
    uint64_t h = fuzz_mix(seed ^ mr_hash64(target, strlen(target)));
    return fuzz_mix(h + (uint64_t)run * 0x9e3779b97f4a7c15u);
}

/* True if there are leaks; the sanitizer has printed them. */
static bool leaks(void)
{
    return __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check();
}

static void one_run(fuzz_slot *s, const fuzz_batch *b, int64_t number)
{
    fuzz_run r = {number, {fuzz_start(b->seed, b->target->name, number)}, s->counts, b->verbose, s};
    s->n_input = 0;
    atomic_store(&s->run, number);
    atomic_store(&s->started_ns, mr_now_ns());
    if (b->input) {
        mr_str bytes = {0};
        fuzz_must(mr_file_read_all(b->input, &bytes), "input");
        b->target->replay(&r, mr_str_view(&bytes));
        mr_str_deinit(&bytes);
    } else {
        b->target->run(&r);
    }
    atomic_fetch_add(&s->n_done, 1);
}

void fuzz_child(fuzz_slot *s, const fuzz_batch *b, bool no_fork)
{
    int code = FUZZ_EXIT_DONE;
    if (!no_fork)
        fence(b->folder);
    for (int64_t i = b->begin; i < b->end && code == FUZZ_EXIT_DONE && !atomic_load(b->stop); i++) {
        one_run(s, b, i);
        if (b->check_each && leaks())
            code = FUZZ_EXIT_LEAK;
    }
    atomic_store(&s->started_ns, 0);
    if (code == FUZZ_EXIT_DONE && !b->check_each && leaks())
        code = FUZZ_EXIT_LEAK;
    if (no_fork)
        return;
    fflush(NULL);
    if (__gcov_dump)
        __gcov_dump();
    _exit(code);
}
