/* tests/fuzz/devices.c -- mutated descriptions of simulated devices: of one process, and of the tasks of a cluster.
 *
 * What is accepted are devices that can be: adding each of them to an empty list succeeds, and so does making them. */
#include "base/memory.h"
#include "exec/device_sim.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

static const char *const seeds[] = {
    "GPU:0=speed=2e11,bandwidth=50G,op=5us,memory=4G,latency=10us,link=12G,priority=210",
    "SIM:0;SIM:1=speed=1k;SIM:0-SIM:1=latency=2ms,link=1M",
    " A:0=op=1ns ; A:7=memory=64k ;A:0>CPU:0=link=8M; CPU:0>A:7=latency=3s",
    "worker/GPU:0=speed=4e9;worker:1/GPU:0=speed=1e9;ps/SIM:3;worker:2/GPU:0>CPU:0=latency=1us",
};

static void insert_token(fuzz_rng *r, mr_str *s)
{
    static const char *const tokens[] = {"=", ",", ";", ":", "-", ">", "/", "GPU:0", "CPU:0", "worker:1/", "speed=", "memory=", "link=",
                                         "1e308", "1e309", "nan", "inf", "-1", "0", "T", "us", "ms", "65536", "99999999999999999999",
                                         "priority=", "\n", "\t", "A_very_long_name_of_a_type_of_devices"};
    mr_str out = {0};
    const char *token = fuzz_pick(r, tokens);
    size_t at = fuzz_below(r, s->n + 1), skip = fuzz_once_in(r, 2) ? fuzz_below(r, 6) : 0;
    mr_str_append(&out, mr_str_z(s), at);
    for (uint64_t k = fuzz_once_in(r, 30) ? 300 : 1; k > 0; k--)
        mr_str_appendz(&out, token);
    if (at + skip < s->n)
        mr_str_append(&out, s->p + at + skip, s->n - at - skip);
    mr_str_deinit(s);
    *s = out;
}

static void check(const mr_device_sims *s)
{
    mr_device_sims again = {0};
    mr_device_vec made = {0};
    for (int i = 0; i < s->devices.n; i++)
        fuzz_must(mr_device_sims_add(&again, &s->devices.p[i]), "a device that was accepted");
    for (int i = 0; i < s->links.n; i++)
        fuzz_must(mr_device_sims_link(&again, &s->links.p[i]), "a link that was accepted");
    if (again.links.n != s->links.n)
        fuzz_fail("a link is there twice");
    if (s->devices.n < 4) { /* each list of devices has a thread */
        fuzz_must(mr_device_sims_make(&again, "/job:localhost/replica:0/task:0", NULL, &made), "making what was accepted");
        if (made.n != s->devices.n)
            fuzz_fail("%d devices became %d", s->devices.n, made.n);
    }
    for (int i = 0; i < made.n; i++)
        mr_device_free(made.p[i]);
    mr_vec_deinit(&made);
    mr_device_sims_deinit(&again);
}

enum { ALONE, OF_TASK, N_FORMS };

static void try_text(fuzz_run *r, mr_sv text)
{
    mr_device_sims s = {0};
    mr_str own = {0};
    mr_sv exact = fuzz_exact(text);
    mr_status *st = mr_device_sims_parse(&s, exact);
    fuzz_say(r, "text of %zu bytes: %s", text.n, mr_status_message(st));
    r->counts[ALONE] += st == NULL;
    check(&s); /* also what stood before an error */
    mr_status_free(st);
    mr_device_sims_deinit(&s);
    st = mr_device_sims_of_task(exact, "worker", 1, &own);
    if (!st) {
        r->counts[OF_TASK]++;
        fuzz_must(mr_device_sims_parse(&s, mr_str_view(&own)), "the part of a task");
    }
    mr_status_free(st);
    mr_str_deinit(&own);
    mr_device_sims_deinit(&s);
    mr_free((void *)(uintptr_t)exact.p);
}

static void prepare(void) {}
static int64_t n_runs(void) { return 500000; }
static int n_counts(void) { return N_FORMS; }

static void run(fuzz_run *r)
{
    mr_str text = {0};
    mr_str_appendz(&text, fuzz_pick(&r->rng, seeds));
    for (uint64_t k = fuzz_below(&r->rng, 5); k > 0; k--)
        if (fuzz_once_in(&r->rng, 2))
            insert_token(&r->rng, &text);
        else
            fuzz_damage(&r->rng, &text);
    fuzz_note(r, mr_str_view(&text));
    try_text(r, mr_str_view(&text));
    mr_str_deinit(&text);
}

static void replay(fuzz_run *r, mr_sv input) { try_text(r, input); }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    double alone = 100.0 * (double)counts[ALONE] / (double)runs, of_task = 100.0 * (double)counts[OF_TASK] / (double)runs;
    bool ok = runs < 1000 || (alone >= 10 && of_task >= 10);
    fprintf(out, "accepted_percent %.1f of_task_percent %.1f", alone, of_task);
    if (!ok && err)
        fprintf(err, "fuzz devices: too few descriptions are accepted\n");
    return ok;
}

const fuzz_target fuzz_devices = {.name = "devices",
                                  .about = "mutated descriptions of simulated devices",
                                  .prepare = prepare,
                                  .n_runs = n_runs,
                                  .n_counts = n_counts,
                                  .run = run,
                                  .replay = replay,
                                  .summary = summary};
