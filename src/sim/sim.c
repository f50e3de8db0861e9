/* sim/sim.c -- one run: creates a cluster from the seed, runs it through its faults until it is at rest, and checks
 * it. */
#include "sim/sim.h"

#include <stdio.h>

#include "sim/world.h"

enum { MAX_EVENTS = 2000000 };
#define LONGEST_NS (180 * MR_SIM_S) /* for the clients, after the last fault */
#define REST_NS (35 * MR_SIM_S)     /* for requests that nobody waits for: longer than the longest pause between two
                                     * tries */

static void make_cluster(mr_sim *s)
{
    s->n_ps = (int)mr_sim_between(s, 1, 3);
    s->n_workers = (int)mr_sim_between(s, 1, 2);
    s->n_tasks = s->n_ps + s->n_workers;
    s->n_trainers = mr_sim_chance(s, 4000) ? 1 + (int)mr_sim_between(s, 1, 3) : 0; /* a chief, and workers */
    s->n_nodes = s->n_tasks + s->n_trainers + (int)mr_sim_between(s, s->n_trainers == 0, s->n_trainers ? 1 : 3);
    for (int i = 0; i < s->n_nodes; i++) {
        const char *job = i < s->n_ps ? "ps" : i < s->n_tasks ? "worker" : "client";
        int first = i < s->n_ps ? 0 : i < s->n_tasks ? s->n_ps : s->n_tasks;
        snprintf(s->nodes[i].name, sizeof s->nodes[i].name, "%s:%d", job, i - first);
        s->nodes[i].slow = 1;
    }
}

static void start_all(mr_sim *s)
{
    for (int i = 0; i < s->n_tasks; i++)
        mr_sim_task_start(s, i);
    int first = s->n_tasks + s->n_trainers;
    for (int i = s->n_tasks; i < first; i++)
        mr_sim_trainer_start(s, i, i - s->n_tasks - 1);
    for (int i = first; i < s->n_nodes; i++)
        mr_sim_client_start(s, i);
}

static void run_until_rest(mr_sim *s)
{
    int64_t rest_ns = INT64_MAX, last_ns = s->faults_end_ns + LONGEST_NS;
    while (!s->result->failure && s->now_ns < MR_MIN(rest_ns, last_ns) && mr_sim_next(s)) {
        if (rest_ns == INT64_MAX && s->now_ns >= s->faults_end_ns && mr_sim_clients_finished(s))
            rest_ns = last_ns = s->now_ns + REST_NS;
        if (s->result->n_events > MAX_EVENTS)
            mr_sim_fail(s, "there is no end of events");
    }
}

/* The order of the random draws is part of the result: a seed determines one run. */
void mr_sim_run(const mr_sim_options *o, mr_sim_result *out)
{
    mr_sim *s = mr_new(mr_sim);
    *out = (mr_sim_result){.hash = 14695981039346656037u};
    mr_arena_init(&s->arena, 256 << 10);
    s->random = o->seed;
    s->options = o;
    s->result = out;
    make_cluster(s);
    unsigned chosen = (unsigned)mr_sim_between(s, 1, MR_SIM_ALL);
    s->faults = o->faults ? o->faults & MR_SIM_ALL : chosen;
    mr_sim_ledger_open(s);
    mr_sim_plan_faults(s);
    mr_sim_keep_alive(s);
    start_all(s);
    run_until_rest(s);
    mr_sim_check_end(s);
    out->end_ns = s->now_ns;
    mr_sim_net_deinit(s);
    for (int i = 0; i < s->n_tasks; i++)
        if (s->nodes[i].task)
            mr_sim_task_end(s, i);
    for (int i = s->n_tasks; i < s->n_nodes; i++)
        mr_sim_trainer_deinit(s->clients[i]);
    mr_vec_deinit(&s->heap);
    mr_arena_deinit(&s->arena);
    mr_free(s);
}
