/* bench/push_pull.c -- some MiB from a worker to a parameter server, and back: `push_pull [MIB...]`, 30 if none is
 * given.
 *
 * One step adds a variable of the worker to one of the parameter server, in another process, and then reads that back
 * to the worker, which checks an element of it. */
#include "bench/tasks.h"

enum { STEPS = 6, ROUNDS = 5 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct graph {
    mr_node *init[2];
    mr_out result;
} graph;

static void build(mr_scope *s, graph *g, int64_t n)
{
    s->device = "/job:ps/task:0";
    mr_out there = tasks_variable(s, "there", n, 0, &g->init[0]);
    s->device = "/job:worker/task:0";
    mr_out here = tasks_read(s, tasks_variable(s, "here", n, 1, &g->init[1]));
    s->device = "/job:ps/task:0";
    mr_node *push = mr_emit(s, "AssignAddVariableOp", there, here).node;
    mr_vec_push(&s->controls, push);
    mr_out pulled = tasks_read(s, there);
    s->controls.n = 0;
    s->device = "/job:worker/task:0";
    int32_t last = (int32_t)n - 1, one = 1;
    g->result =
        mr_emit(s, "Slice", pulled, mr_const_vec_i32(s, 1, &last), mr_const_vec_i32(s, 1, &one));
}

/* Milliseconds per step; *count is the final value of the variable. */
static double time_steps(mr_session *session, const graph *g, int steps, int *count)
{
    int64_t began = mr_now_ns();
    for (int i = 0; i < steps; i++) {
        mr_tensor *got = tasks_run(session, g->result, NULL);
        if (*MR_DATA(float, got) != (float)++*count)
            tasks_must(mr_error(MR_INTERNAL, "%g instead of %d", *MR_DATA(float, got), *count));
        mr_tensor_unref(got);
    }
    return (double)(mr_now_ns() - began) / 1e6 / steps;
}

/* Short steps are repeated more often. */
static void measure(mr_server *own, int mib)
{
    mr_scope s;
    mr_session *session;
    graph made;
    double ms[ROUNDS];
    int count = 0, steps = mib < 8 ? STEPS * 8 : STEPS;
    mr_graph *g = mr_graph_new();
    mr_scope_init(&s, g, "");
    build(&s, &made, (int64_t)mib << 18);
    tasks_must(mr_scope_status(&s));
    tasks_must(mr_server_session(own, g, NULL, MR_SV(""), NULL, &session));
    for (int i = 0; i < 2; i++)
        tasks_run(session, (mr_out){0}, made.init[i]);
    for (int i = -1; i < ROUNDS; i++)
        ms[MR_MAX(i, 0)] = time_steps(session, &made, steps, &count);
    qsort(ms, ROUNDS, sizeof(ms[0]), by_value);
    printf("push_pull_%dMiB_ms %.3f ms\n", mib, ms[ROUNDS / 2]);
    mr_session_free(session);
    mr_scope_deinit(&s);
    mr_graph_unref(g);
}

int main(int argc, char **argv)
{
    tasks_start(1, "ps", "worker");
    mr_server *own = tasks_own();
    if (argc < 2)
        measure(own, 30);
    for (int i = 1; i < argc; i++)
        measure(own, atoi(argv[i]));
    mr_server_free(own);
    tasks_end();
    return 0;
}
