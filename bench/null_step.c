/* bench/null_step.c -- how long a step takes that only reads from 16 parameter servers.
 *
 * Each of the 16 is a process and holds one number; the worker, this process, reads them all and
 * adds them up. */
#include "bench/tasks.h"

enum { N_PS = 16, N = 200, ROUNDS = 15 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void check(mr_tensor *got)
{
    if (*MR_DATA(float, got) != N_PS * (N_PS + 1) / 2) {
        fprintf(stderr, "the sum is %g\n", *MR_DATA(float, got));
        exit(1);
    }
    mr_tensor_unref(got);
}

static double time_steps(mr_session *session, mr_out sum)
{
    int64_t began = mr_now_ns();
    for (int i = 0; i < N; i++)
        check(tasks_run(session, sum, NULL));
    return (double)(mr_now_ns() - began) / 1e3 / N;
}

int main(void)
{
    mr_scope s;
    mr_session *session;
    mr_out values[N_PS];
    mr_node *init[N_PS];
    double us[ROUNDS];
    mr_graph *g = mr_graph_new();
    tasks_start(N_PS, "ps", "worker");
    mr_server *own = tasks_own();
    mr_scope_init(&s, g, "");
    for (int i = 0; i < N_PS; i++) {
        char *device = mr_arena_printf(&g->arena, "/job:ps/task:%d", i);
        char *name = mr_arena_printf(&g->arena, "v%d", i);
        s.device = device;
        values[i] = tasks_read(&s, tasks_variable(&s, name, 0, (float)(i + 1), &init[i]));
    }
    s.device = "/job:worker/task:0";
    mr_out sum = mr_emit_n(&s, "AddN", NULL, 0, values, N_PS);
    tasks_must(mr_scope_status(&s));
    tasks_must(mr_server_session(own, g, NULL, MR_SV(""), NULL, &session));
    for (int i = 0; i < N_PS; i++)
        tasks_run(session, (mr_out){0}, init[i]);
    for (int i = -1; i < ROUNDS; i++)
        us[MR_MAX(i, 0)] = time_steps(session, sum);
    qsort(us, ROUNDS, sizeof(us[0]), by_value);
    printf("null_sync_step_16ps_us %.0f us\n", us[ROUNDS / 2]);
    printf("null_sync_step_16ps_best_us %.0f us\n", us[0]);
    mr_session_free(session);
    mr_server_free(own);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
    tasks_end();
    return 0;
}
