/* tests/fuzz/devices.c -- mutated descriptions of devices: of simulated ones, of one process and of the tasks of a
 * cluster; the DeviceAttributes of other tasks; the StepStats that placement by cost learns from.
 *
 * Accepted descriptions are valid: adding each of them to an empty list succeeds, and so does creating the devices. A
 * device of another task has its full name, and a speed. */
#include "base/memory.h"
#include "exec/device_sim.h"
#include "exec/placing.h"
#include "proto/stats.pb-c.h"
#include "server/host.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/pb_tree.h"

static const char *const seeds[] = {
    "GPU:0=speed=2e11,bandwidth=50G,op=5us,memory=4G,latency=10us,link=12G,priority=210",
    "GPU:0=flops_per_s=2e11,bytes_per_s=50G,op_us=5,memory_bytes=4G,latency_us=10,link_bytes_per_s=12G",
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
        fuzz_fail("a link exists twice");
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

/* ---- what other tasks say ---- */

enum { ALONE, OF_TASK, ATTRIBUTES, STATS, N_COUNTS };
enum { TEXT_FORM, ATTRIBUTES_FORM, STATS_FORM, N_FORMS };

static const char *const attributes_seeds[] = {
    "name: '/job:ps/replica:0/task:0/device:CPU:0' device_type: 'CPU' memory_limit: 268435456 locality { } incarnation: 7",
    ("name: '/job:worker/replica:0/task:1/device:GPU:0' device_type: 'GPU' memory_limit: 4096 incarnation: 9 "
     "physical_device_desc: 'millrace; kernels CPU; priority 210; flops 1e+11; bytes 5e+10; op 5e-06'"),
    "name: '/job:w/replica:0/task:1/device:XLA_CPU:3' device_type: 'XLA_CPU' physical_device_desc: 'device: XLA_CPU device'",
};
static const char *const stats_seeds[] = {
    "dev_stats { device: '/job:localhost/replica:0/task:0/device:CPU:0' node_stats { node_name: 'a' all_start_micros: 1 "
    "op_end_rel_micros: 5 all_end_rel_micros: 6 all_end_rel_nanos: 6000 output { slot: 1 tensor_description { dtype: DT_FLOAT "
    "allocation_description { requested_bytes: 64 allocated_bytes: 64 } } } } node_stats { node_name: 'b/c' } }",
    "dev_stats { device: 'GPU:0' node_stats { node_name: 'x' all_end_rel_micros: 3 } } dev_stats { device: '' }",
    "dev_stats { node_stats { node_name: 'lost' } } dev_stats { device: 'd' node_stats { output { slot: 65535 } } }",
};

static mr_str packed[2][3];

static void try_attributes(fuzz_run *r, mr_sv bytes)
{
    mr_device *d = NULL;
    mr_device_name name;
    mr_status *st = mr_device_attributes_decode(bytes, &d);
    fuzz_say(r, "DeviceAttributes of %zu bytes: %s", bytes.n, mr_status_message(st));
    if (st && d)
        fuzz_fail("a rejected description left a device behind");
    if (d) {
        r->counts[ATTRIBUTES]++;
        if (!mr_device_name_parse(mr_sv_of(d->name), &name) || !mr_device_name_full(&name) || strcmp(name.type, d->type->name) != 0)
            fuzz_fail("a device of another task does not have its full name");
        if (!(d->speed.flops_per_s > 0) || !(d->speed.bytes_per_s > 0) || !(d->speed.op_s > 0))
            fuzz_fail("a device of another task has no speed");
    }
    mr_device_free(d);
    mr_status_free(st);
}

static void try_stats(fuzz_run *r, mr_sv bytes)
{
    mr_device *cpu = NULL;
    fuzz_must(mr_device_new_cpu("/job:localhost/replica:0/task:0/device:CPU:0", NULL, &cpu), "a CPU");
    mr_placing *p = mr_placing_new(&cpu, 1, 0);
    mr_placing_learn_stats(p, bytes);
    fuzz_say(r, "StepStats of %zu bytes", bytes.n);
    r->counts[STATS]++;
    mr_placing_free(p);
    mr_device_free(cpu);
}

static const ProtobufCMessageDescriptor *descriptor(int form)
{
    return form == ATTRIBUTES_FORM ? &tensorflow__device_attributes__descriptor : &tensorflow__step_stats__descriptor;
}

static void mutate_message(fuzz_rng *r, int form, mr_str *out)
{
    fuzz_tree t;
    fuzz_tree_parse(&t, descriptor(form), mr_str_view(&packed[form - 1][fuzz_below(r, 3)]));
    for (uint64_t k = fuzz_below(r, 5); k > 0; k--)
        fuzz_tree_change(r, &t, NULL, NULL);
    fuzz_tree_write(&t, out);
    fuzz_tree_deinit(&t);
    if (fuzz_once_in(r, 4))
        fuzz_damage(r, out);
}

/* ---- descriptions ---- */

static void try_text(fuzz_run *r, mr_sv text)
{
    mr_device_sims s = {0};
    mr_str own = {0};
    mr_sv exact = fuzz_exact(text);
    mr_status *st = mr_device_sims_parse(&s, exact);
    fuzz_say(r, "text of %zu bytes: %s", text.n, mr_status_message(st));
    r->counts[ALONE] += st == NULL;
    check(&s); /* including devices before an error */
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

static void prepare(void)
{
    for (int i = 0; i < 3 && !packed[1][2].n; i++) {
        fuzz_pack_text(descriptor(ATTRIBUTES_FORM), attributes_seeds[i], &packed[0][i]);
        fuzz_pack_text(descriptor(STATS_FORM), stats_seeds[i], &packed[1][i]);
    }
}

static int64_t n_runs(void) { return 500000; }
static int n_counts(void) { return N_COUNTS; }

static void mutate_text(fuzz_rng *r, mr_str *text)
{
    mr_str_appendz(text, fuzz_pick(r, seeds));
    for (uint64_t k = fuzz_below(r, 5); k > 0; k--)
        if (fuzz_once_in(r, 2))
            insert_token(r, text);
        else
            fuzz_damage(r, text);
}

/* The first byte says which form. */
static void replay(fuzz_run *r, mr_sv input)
{
    if (!input.n)
        return;
    mr_sv bytes = {input.p + 1, input.n - 1}, exact = fuzz_exact(bytes);
    if (input.p[0] == ATTRIBUTES_FORM)
        try_attributes(r, exact);
    else if (input.p[0] == STATS_FORM)
        try_stats(r, exact);
    else
        try_text(r, bytes);
    mr_free((void *)(uintptr_t)exact.p);
}

static void run(fuzz_run *r)
{
    mr_str bytes = {0};
    int form = (int)(r->number % N_FORMS);
    if (form == TEXT_FORM)
        mutate_text(&r->rng, &bytes);
    else
        mutate_message(&r->rng, form, &bytes);
    fuzz_try_form(r, form, &bytes, replay);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[N_COUNTS] = {"text", "of_task", "attributes", "stats"};
    return fuzz_shares("devices", names, counts, N_COUNTS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_devices = {.name = "devices",
                                  .about = "mutated descriptions of devices and of what steps took on them",
                                  .prepare = prepare,
                                  .n_runs = n_runs,
                                  .n_counts = n_counts,
                                  .run = run,
                                  .replay = replay,
                                  .summary = summary};
