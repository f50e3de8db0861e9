/* bench/master_steps.c -- steps a second through a master in another process.
 *
 * The step is minimal: one op that does nothing. Sequential steps show the latency of a round trip; steps of several
 * threads show the throughput of the master. */
#include <pthread.h>

#include "bench/tasks.h"

enum { MOST = 16 };
#define FOR_NS INT64_C(500000000)

static mr_session *session;
static mr_node *nothing;
static _Atomic bool ending;
static _Atomic int64_t n_steps;

static void *run_steps(void *arg)
{
    for (; !ending; n_steps++)
        tasks_run(session, (mr_out){0}, nothing);
    return arg;
}

/* Steps per second while n threads run them: the best of three. */
static double steps_per_s(int n)
{
    double best = 0;
    for (int round = 0; round < 3; round++) {
        pthread_t threads[MOST];
        int64_t began = mr_now_ns();
        n_steps = 0;
        ending = false;
        for (int i = 0; i < n; i++)
            if (pthread_create(&threads[i], NULL, run_steps, NULL) != 0)
                exit(1);
        mr_sleep_ns(FOR_NS);
        ending = true;
        for (int i = 0; i < n; i++)
            pthread_join(threads[i], NULL);
        best = MR_MAX(best, (double)n_steps / ((double)(mr_now_ns() - began) / 1e9));
    }
    return best;
}

int main(void)
{
    mr_scope s;
    mr_graph *g = mr_graph_new();
    tasks_start(1, "worker", NULL);
    mr_scope_init(&s, g, "");
    nothing = mr_emit0(&s, "NoOp").node;
    tasks_must(mr_scope_status(&s));
    tasks_must(mr_remote_session_new(NULL, tasks_cluster.tasks.p[0].address, g, NULL, MR_SV(""), NULL,
                                     &session));
    for (int i = 0; i < 1000; i++)
        tasks_run(session, (mr_out){0}, nothing);
    printf("master_steps_per_s %.0f steps/s\n", steps_per_s(1));
    printf("master_steps_per_s_4_threads %.0f steps/s\n", steps_per_s(4));
    printf("master_steps_per_s_16_threads %.0f steps/s\n", steps_per_s(16));
    mr_session_free(session);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    tasks_end();
    return 0;
}
