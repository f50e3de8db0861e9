/* sim/ps/ps_sim_test.c */
#include "sim/ps/ps_sim.h"

#include <stdlib.h>

#include "tests/harness/test.h"

MR_TEST(ps_sim_a_seed_replays_to_the_same_trace)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mr_ps_sim_result a, b;
        mr_ps_sim_run(&(mr_ps_sim_options){.seed = seed}, &a);
        mr_ps_sim_run(&(mr_ps_sim_options){.seed = seed}, &b);
        MR_CHECK(!a.failure && !b.failure);
        MR_CHECK(a.hash == b.hash && a.n_events == b.n_events && a.end_ns == b.end_ns);
    }
}

MR_TEST(ps_sim_seeds_differ)
{
    mr_ps_sim_result a, b;
    mr_ps_sim_run(&(mr_ps_sim_options){.seed = 1}, &a);
    mr_ps_sim_run(&(mr_ps_sim_options){.seed = 2}, &b);
    MR_CHECK(a.hash != b.hash);
}

MR_TEST(ps_sim_each_kind_of_fault_alone)
{
    for (unsigned fault = 1; fault < MR_PS_SIM_ALL; fault <<= 1) {
        int n_acked = 0, n_faults = 0;
        if (fault == MR_PS_SIM_NONE)
            continue;
        for (uint64_t seed = 1; seed <= 40; seed++) {
            mr_ps_sim_result r;
            mr_ps_sim_run(&(mr_ps_sim_options){.seed = seed, .faults = fault}, &r);
            if (r.failure)
                mr_test_fail(__FILE__, __LINE__, "fault %u, seed %d: %s", fault, (int)seed, r.failure);
            n_acked += r.n_acked;
            n_faults += r.n_faults;
        }
        MR_CHECK(n_acked > 0 && (n_faults > 0 || fault < MR_PS_SIM_PARTITION)); /* faults of messages are not counted */
    }
}

MR_TEST(ps_sim_without_faults_every_good_push_is_acknowledged)
{
    int n_acked = 0, n_lost = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        mr_ps_sim_result r;
        mr_ps_sim_run(&(mr_ps_sim_options){.seed = seed, .faults = MR_PS_SIM_NONE}, &r);
        MR_CHECK(!r.failure);
        n_acked += r.n_acked;
        n_lost += r.n_lost;
    }
    MR_CHECK(n_acked > 0 && n_lost == 0);
}
