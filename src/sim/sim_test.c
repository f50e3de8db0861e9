/* sim/sim_test.c */
#include "sim/sim.h"

#include "base/memory.h"
#include "tests/harness/test.h"

MR_TEST(sim_a_seed_replays_to_the_same_trace)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mr_sim_result a, b;
        mr_sim_run(&(mr_sim_options){.seed = seed}, &a);
        mr_sim_run(&(mr_sim_options){.seed = seed}, &b);
        MR_CHECK(!a.failure && !b.failure);
        MR_CHECK(a.hash == b.hash && a.n_events == b.n_events && a.end_ns == b.end_ns);
    }
}

MR_TEST(sim_seeds_differ)
{
    mr_sim_result a, b;
    mr_sim_run(&(mr_sim_options){.seed = 1}, &a);
    mr_sim_run(&(mr_sim_options){.seed = 2}, &b);
    MR_CHECK(a.hash != b.hash);
}

/* The fault that each seed has at least a chance of does happen, and clusters live through it. */
MR_TEST(sim_each_kind_of_fault_alone)
{
    for (unsigned fault = 1; fault < MR_SIM_ALL; fault <<= 1) {
        int n_faults = 0, n_ok = 0;
        for (uint64_t seed = 1; seed <= 20; seed++) {
            mr_sim_result r;
            mr_sim_run(&(mr_sim_options){.seed = seed, .faults = fault}, &r);
            if (r.failure)
                mr_test_fail(__FILE__, __LINE__, "fault %u, seed %d: %s", fault, (int)seed, r.failure);
            n_faults += r.n_faults;
            n_ok += r.n_steps_ok;
        }
        MR_CHECK(n_ok > 0 && (n_faults > 0 || fault == MR_SIM_DELAY)); /* delays are not counted */
    }
}
