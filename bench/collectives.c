/* bench/collectives.c -- all-reduce of graphs, in a ring, by halving and directly: `collectives [MEMBERS...]`.
 *
 * Members are tasks, each a process of this host; 9, 12 and 16 of them unless told otherwise. Each algorithm has a
 * separate cluster, and they take turns, so that other activity on the machine affects them equally. A step runs CHAIN
 * reductions, each of the result of the previous one, so that the round trip to the master counts little.
 *
 *     all_reduce_9_64KiB_ring            one reduction of 64 KiB among 9 members: the median of ROUNDS steps
 *     all_reduce_9_64KiB_halving_gain    a ring's time beside that of halving in the same round, median; over 1: halving is faster
 *
 * MR_X_HALVING_BYTES (server/collective_moves.h) is chosen by these. */
#include "bench/tasks.h"

enum { RING, HALVING, DIRECT, WAYS };
enum { CHAIN = 4, ROUNDS = 15, WARM = 2, MOST = 16 };

static const char *const ways[WAYS] = {"ring", "halving", "direct"};
static const int64_t sizes[] = {1, 16, 64, 256, 512, 1024, 2048, 4096, 8192}; /* KiB */

static mr_cluster clusters[WAYS];

/* ---- a step ---- */

typedef struct steps {
    mr_graph *g;
    mr_session *session;
    mr_node *all;
} steps;

static mr_out reduce(mr_scope *s, int n, int instance, mr_out in)
{
    mr_named_attr attrs[] = {{"merge_op", mr_a_str("Add")}, {"final_op", mr_a_str("Div")},
                             {"Nordering_token", mr_a_int(0)}, {"communication_hint", mr_a_str("auto")}};
    mr_out ins[] = {in, mr_const_i32(s, n), mr_const_i32(s, n), mr_const_i32(s, instance)};
    return mr_emit_n(s, "CollectiveReduceV2", attrs, MR_COUNT(attrs), ins, MR_COUNT(ins));
}

static steps build(const mr_cluster *c, int n, int64_t kib)
{
    steps t = {.g = mr_graph_new()};
    mr_scope s;
    mr_node *last[MOST];
    char device[64];
    mr_scope_init(&s, t.g, "");
    for (int i = 0; i < n; i++) {
        snprintf(device, sizeof device, "/job:worker/task:%d", i);
        s.device = mr_arena_strdup(&t.g->arena, device);
        mr_out x = mr_emit(&s, "Fill", mr_const_vec_i32(&s, 1, (int32_t[]){(int32_t)(kib << 8)}), mr_const_f32(&s, (float)i));
        for (int k = 0; k < CHAIN; k++)
            x = reduce(&s, n, k + 1, x);
        last[i] = x.node;
    }
    s.device = "/job:worker/task:0";
    t.all = mr_emit0(&s, "NoOp").node;
    for (int i = 0; i < n; i++)
        mr_node_add_control(t.all, last[i]);
    tasks_must(mr_scope_status(&s));
    mr_scope_deinit(&s);
    tasks_must(mr_remote_session_new(NULL, c->tasks.p[0].address, t.g, NULL, MR_SV(""), NULL, &t.session));
    return t;
}

static void drop(steps *t)
{
    mr_session_free(t->session);
    mr_graph_unref(t->g);
}

static double step_us(const steps *t)
{
    int64_t began = mr_now_ns();
    tasks_run(t->session, (mr_out){0}, t->all);
    return (double)(mr_now_ns() - began) / 1e3 / CHAIN;
}

/* ---- by turns ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const double *x)
{
    double sorted[ROUNDS];
    memcpy(sorted, x, sizeof sorted);
    qsort(sorted, ROUNDS, sizeof *sorted, by_value);
    return sorted[ROUNDS / 2];
}

static void measure(int n, int64_t kib)
{
    steps t[WAYS];
    double us[WAYS][ROUNDS], gain[WAYS][ROUNDS];
    for (int w = 0; w < WAYS; w++)
        t[w] = build(&clusters[w], n, kib);
    for (int round = -WARM; round < ROUNDS; round++)
        for (int w = 0; w < WAYS; w++)
            us[w][MR_MAX(round, 0)] = step_us(&t[w]);
    for (int w = 0; w < WAYS; w++) {
        printf("all_reduce_%d_%lldKiB_%s %.0f us\n", n, (long long)kib, ways[w], median(us[w]));
        for (int i = 0; i < ROUNDS; i++)
            gain[w][i] = us[RING][i] / us[w][i];
        drop(&t[w]);
    }
    for (int w = HALVING; w < WAYS; w++)
        printf("all_reduce_%d_%lldKiB_%s_gain %.2f x\n", n, (long long)kib, ways[w], median(gain[w]));
    fflush(stdout);
}

/* In a separate process, because tasks are forked before any thread is started. */
static void members(int n)
{
    for (int w = 0; w < WAYS; w++) {
        setenv("MILLRACE_COLLECTIVE_ALGORITHM", ways[w], 1);
        tasks_cluster = (mr_cluster){0};
        tasks_start(n, "worker", NULL);
        clusters[w] = tasks_cluster;
    }
    for (int i = 0; i < MR_COUNT(sizes); i++)
        measure(n, sizes[i]);
    tasks_end();
    exit(0);
}

int main(int argc, char **argv)
{
    static char *usual[] = {"9", "12", "16"};
    char **list = argc > 1 ? argv + 1 : usual;
    int count = argc > 1 ? argc - 1 : MR_COUNT(usual), status;
    for (int i = 0; i < count; i++) {
        int n = atoi(list[i]);
        if (n < 2 || n > MOST)
            return 2;
        pid_t pid = fork();
        if (pid == 0)
            members(n);
        if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
            return 1;
    }
    return 0;
}
