/* tests/sim/main.c -- many simulated clusters, each from its seed.
 *
 *     sim --runs 100000                  seeds 1 to 100000 on all cores
 *     sim --ps --runs 100000             the same of parameter servers
 *     sim --runs 10000 --first           until one fails
 *     sim --seed 7 --trace               one run, traced line by line
 *
 * Every hundredth seed is run twice: the traces must be the same, or a failing seed could not be replayed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "sim/ps/ps_sim.h"
#include "sim/sim.h"

enum { SHOWN = 10 }; /* failing seeds */

typedef struct totals { /* shared by all processes */
    _Atomic int64_t n_runs, n_failed, n_events, n_ok, n_errors, n_rounds, n_faults, cpu_ns;
    _Atomic int64_t stop, n_shown;
} totals;

typedef struct job {
    uint64_t from, n;
    unsigned faults;
    bool first, ps;
    int index, n_jobs;
} job;

static void print_line(void *arg, const char *line)
{
    (void)arg;
    puts(line);
}

typedef void run_fn(const mr_sim_options *o, mr_sim_result *out);

/* Maps a result of the parameter server simulation to the other one: parts of pushes become steps, views become
 * rounds. */
static void run_ps(const mr_sim_options *o, mr_sim_result *out)
{
    mr_ps_sim_result r;
    mr_ps_sim_run(&(mr_ps_sim_options){o->seed, o->faults, o->trace, o->trace_arg}, &r);
    *out = (mr_sim_result){.failure = r.failure,
                           .hash = r.hash,
                           .end_ns = r.end_ns,
                           .n_events = r.n_events,
                           .n_steps_ok = r.n_acked,
                           .n_steps_failed = r.n_failed,
                           .n_rounds = r.n_views,
                           .n_faults = r.n_faults};
}

static run_fn *run_of(bool ps) { return ps ? run_ps : mr_sim_run; }

static void add(totals *t, const mr_sim_result *r)
{
    t->n_runs++;
    t->n_events += r->n_events;
    t->n_ok += r->n_steps_ok;
    t->n_errors += r->n_steps_failed;
    t->n_rounds += r->n_rounds;
    t->n_faults += r->n_faults;
}

static bool same_again(run_fn *run, const mr_sim_options *o, const mr_sim_result *r)
{
    mr_sim_result again;
    run(o, &again);
    free(again.failure);
    return again.hash == r->hash && again.n_events == r->n_events;
}

static void run_one(const job *j, totals *t, uint64_t seed)
{
    mr_sim_options o = {.seed = seed, .faults = j->faults};
    mr_sim_result r;
    run_of(j->ps)(&o, &r);
    add(t, &r);
    const char *why = r.failure;
    if (!why && seed % 100 == 0 && !same_again(run_of(j->ps), &o, &r))
        why = "a second run has another trace";
    if (why) {
        t->n_failed++;
        if (t->n_shown++ < SHOWN)
            printf("FAIL seed %llu: %s\n", (unsigned long long)seed, why);
        fflush(stdout);
        t->stop |= j->first;
    }
    free(r.failure);
}

static void run_share(const job *j, totals *t)
{
    int64_t start_ns = mr_thread_cpu_ns();
    for (uint64_t i = (uint64_t)j->index; i < j->n && !t->stop; i += (uint64_t)j->n_jobs)
        run_one(j, t, j->from + i);
    t->cpu_ns += mr_thread_cpu_ns() - start_ns;
}

static int run_many(job j)
{
    totals *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t start_ns = mr_now_ns();
    bool died = false;
    for (j.index = 0; j.index < j.n_jobs; j.index++)
        if (fork() == 0) {
            run_share(&j, t);
            _exit(0);
        }
    for (int status; wait(&status) > 0;)
        died |= status != 0;
    if (died)
        printf("FAIL a simulation ended its process\n");
    printf(j.ps ? "ps sim: %lld seeds, %lld failed: %lld parts of pushes acknowledged, %lld not, %lld views, %lld faults; "
                  "%.0f seeds/s a core, %.1f s\n"
                : "sim: %lld seeds, %lld failed: %lld steps done, %lld steps failed, %lld rounds, %lld faults; "
                  "%.0f seeds/s a core, %.1f s\n",
           (long long)t->n_runs, (long long)t->n_failed, (long long)t->n_ok, (long long)t->n_errors, (long long)t->n_rounds,
           (long long)t->n_faults, (double)t->n_runs * 1e9 / (double)MR_MAX(t->cpu_ns, 1),
           (double)(mr_now_ns() - start_ns) / 1e9);
    return t->n_failed > 0 || died;
}

static int run_seed(bool ps, uint64_t seed, unsigned faults, bool trace)
{
    mr_sim_result r;
    run_of(ps)(&(mr_sim_options){.seed = seed, .faults = faults, .trace = trace ? print_line : NULL}, &r);
    printf("seed %llu: %s; %d events, trace %016llx\n", (unsigned long long)seed, r.failure ? r.failure : "holds", r.n_events,
           (unsigned long long)r.hash);
    int failed = r.failure != NULL;
    free(r.failure);
    return failed;
}

int main(int argc, char **argv)
{
    job j = {.from = 1, .n = 1000, .n_jobs = (int)sysconf(_SC_NPROCESSORS_ONLN)};
    uint64_t seed = 0;
    bool trace = false, one = false;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "0";
        if (strcmp(argv[i], "--trace") == 0)
            trace = true;
        else if (strcmp(argv[i], "--ps") == 0)
            j.ps = true;
        else if (strcmp(argv[i], "--first") == 0)
            j.first = true;
        else if (strcmp(argv[i], "--seed") == 0)
            one = true, seed = strtoull(value, NULL, 0), i++;
        else if (strcmp(argv[i], "--from") == 0)
            j.from = strtoull(value, NULL, 0), i++;
        else if (strcmp(argv[i], "--runs") == 0)
            j.n = strtoull(value, NULL, 0), i++;
        else if (strcmp(argv[i], "--jobs") == 0)
            j.n_jobs = atoi(value), i++;
        else if (strcmp(argv[i], "--faults") == 0)
            j.faults = (unsigned)strtoul(value, NULL, 0), i++;
        else
            return fprintf(stderr, "sim [--ps] [--runs N] [--from SEED] [--first] [--jobs N] [--faults BITS] | --seed N [--trace]\n"), 2;
    }
    return one ? run_seed(j.ps, seed, j.faults, trace) : run_many(j);
}
