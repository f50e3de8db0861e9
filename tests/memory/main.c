/* tests/memory/main.c -- refuses every allocation of every scenario, one at a time.
 *
 *     memory [part of a name]
 *
 * A scenario's first 2,000 allocations are refused, each in a run of its own; the last line tells how many scenarios and runs
 * there were.  Under the address sanitizer what a scenario lost is looked for when it is over. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "ops/table.h"
#include "tensor/allocator.h"
#include "tests/memory/memory.h"

enum { MOST_POINTS = 2000, DEADLINE_S = 60 };

#if defined(__SANITIZE_ADDRESS__)
int __lsan_do_recoverable_leak_check(void);
static bool leaks(void) { return __lsan_do_recoverable_leak_check() != 0; }
#else
static bool leaks(void) { return false; }
#endif

static const memory_scenario *current;
static int64_t turn; /* which allocation is refused; 0: none */
static bool fired;

/* ---- refusing ---- */

void memory_begin(void) { mr_memory_fail_after(turn); }

/* What is left of the count tells whether the turn came. */
void memory_end(void)
{
    bool still_armed = false;
    for (int64_t i = 0; i < turn && !still_armed; i++)
        still_armed = mr_memory_refuses();
    mr_memory_fail_after(0);
    fired |= turn > 0 && !still_armed;
}

static mr_status *run_once(const memory_scenario *s, int64_t which)
{
    turn = which;
    fired = false;
    mr_status *st = s->run(s->arg);
    mr_memory_fail_after(0);
    turn = 0;
    return st;
}

/* ---- a scenario ---- */

static int n_wrong;

static void wrong(const memory_scenario *s, int64_t which, const char *what, const char *detail)
{
    printf("FAIL %s: allocation %lld: %s%s%.300s\n", s->name, (long long)which, what, detail ? ": " : "", detail ? detail : "");
    n_wrong++;
}

static void on_signal(int sig)
{
    char text[300];
    int n = snprintf(text, sizeof text, "FAIL %s: allocation %lld: signal %d\n", current ? current->name : "", (long long)turn, sig);
    ssize_t ignored = write(1, text, (size_t)n);
    (void)ignored;
    signal(sig, SIG_DFL);
    raise(sig);
}

/* How many allocations it has; -1 when it does not even work with memory. */
static int64_t try_all(const memory_scenario *s)
{
    for (int i = 0; i < 2; i++) { /* twice: what is made on first use is there then */
        mr_status *st = run_once(s, 0);
        if (st) {
            wrong(s, 0, mr_code_name(mr_status_code(st)), mr_status_message(st));
            mr_status_free(st);
            return -1;
        }
    }
    int64_t which = 1;
    for (; which <= MOST_POINTS; which++) {
        mr_status *st = run_once(s, which);
        if (!fired) {
            mr_status_free(st);
            break;
        }
        if (st && mr_status_code(st) != MR_RESOURCE_EXHAUSTED)
            wrong(s, which, mr_code_name(mr_status_code(st)), mr_status_message(st));
        mr_status_free(st);
    }
    mr_status *st = run_once(s, 0);
    if (st)
        wrong(s, which, "it no longer works afterwards", mr_status_message(st));
    mr_status_free(st);
    return which - 1;
}

static int64_t in_use(void)
{
    mr_allocator_stats stats;
    mr_allocator_get_stats(mr_cpu_allocator(), &stats);
    return stats.in_use;
}

/* Threads of iterators end by themselves, a little later. */
static bool comes_back_to(int64_t before)
{
    for (int i = 0; i < 2000 && in_use() != before; i++)
        usleep(1000);
    return in_use() == before;
}

static int64_t try_scenario(const memory_scenario *s)
{
    current = s;
    alarm(DEADLINE_S);
    if (s->prepare)
        s->prepare(s->arg);
    mr_status_free(run_once(s, 0));
    usleep(1000);
    int64_t before = in_use(), points = try_all(s);
    if (!comes_back_to(before))
        wrong(s, points, "tensors were lost", NULL);
    if (leaks())
        wrong(s, points, "memory was lost", NULL);
    return points;
}

int main(int argc, char **argv)
{
    int n[2], n_done = 0;
    const memory_scenario *all[2] = {memory_scenarios(&n[0]), memory_op_scenarios(&n[1])};
    int64_t n_runs = 0;
    int signals[] = {SIGABRT, SIGALRM, SIGSEGV};
    for (int i = 0; i < MR_COUNT(signals); i++)
        signal(signals[i], on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < n[k]; i++) {
            if (argc > 1 && !strstr(all[k][i].name, argv[1]))
                continue;
            int64_t points = try_scenario(&all[k][i]);
            if (k == 0 || argc > 1)
                printf("%s  %lld allocations\n", all[k][i].name, (long long)points);
            n_runs += points > 0 ? points : 0;
            n_done++;
        }
    printf("memory scenarios %d refused %lld wrong %d\n", n_done, (long long)n_runs, n_wrong);
    return n_wrong > 0 || n_done == 0;
}
