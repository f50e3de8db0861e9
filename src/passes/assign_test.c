/* passes/assign_test.c -- choosing devices by simulated time: against every other choice, and against bounds. */
#include "passes/assign.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/vec.h"
#include "passes/simulate.h"
#include "tests/harness/test.h"

enum { DEVICES = 3 };
static const double speeds[DEVICES] = {1, 4, 16};

/* A work with room to grow. */
typedef struct job {
    mr_workload w;
    int *group;
    double *seconds;
    int64_t *bytes;
    int *first_input;
    MR_VEC(mr_workload_input) inputs;
    mr_workload_link links[DEVICES * DEVICES];
    int64_t memory[DEVICES];
} job;

static void job_init(job *j, int n, double latency_s, double bytes_per_s)
{
    memset(j, 0, sizeof *j);
    j->group = mr_new_array(int, n);
    j->seconds = mr_new_array(double, n * DEVICES);
    j->bytes = mr_new_array(int64_t, n);
    j->first_input = mr_new_array(int, n + 1);
    for (int i = 0; i < DEVICES * DEVICES; i++)
        j->links[i] = (mr_workload_link){latency_s, bytes_per_s};
    j->w = (mr_workload){.n_devices = DEVICES, .group = j->group, .seconds = j->seconds, .bytes = j->bytes,
                     .first_input = j->first_input, .links = j->links};
}

static void job_deinit(job *j)
{
    mr_free(j->group);
    mr_free(j->seconds);
    mr_free(j->bytes);
    mr_free(j->first_input);
    mr_vec_deinit(&j->inputs);
}

/* A node that takes so long at speed 1; its output is the tensor of its number. */
static int job_node(job *j, double seconds)
{
    int v = j->w.n_nodes++;
    for (int d = 0; d < DEVICES; d++)
        j->seconds[v * DEVICES + d] = seconds / speeds[d];
    j->group[v] = v;
    j->w.n_groups = j->w.n_tensors = v + 1;
    j->first_input[v + 1] = j->inputs.n;
    return v;
}

/* An input of the newest node. */
static void job_input(job *j, int from, int64_t bytes)
{
    mr_vec_push(&j->inputs, (mr_workload_input){from, from, bytes});
    j->first_input[j->w.n_nodes] = j->inputs.n;
    j->w.inputs = j->inputs.p;
}

static double simulate(const job *j, const int *device_of)
{
    double t = -1;
    MR_CHECK_OK(mr_assign_simulate(&j->w, device_of, NULL, NULL, &t));
    return t;
}

static double find(const job *j, int *device_of)
{
    double t = -1;
    int culprit = -1;
    for (int g = 0; g < j->w.n_groups; g++)
        device_of[g] = -1;
    MR_CHECK_OK(mr_assign_find(&j->w, device_of, &t, &culprit));
    MR_CHECK(t == simulate(j, device_of));
    return t;
}

static uint64_t seed;

static uint32_t draw(uint32_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* Layers of nodes, each with one to three inputs from nodes shortly before: what takes 1 to 100 ms at speed 1 makes
 * tensors that take 0 to 5 ms to send. */
static void random_job(job *j, int n)
{
    job_init(j, n, 50e-6, 1e9);
    for (int v = 0; v < n; v++) {
        job_node(j, 0.001 * (1 + draw(100)));
        int n_in = v == 0 ? 0 : (int)draw(4);
        for (int i = 0; i < n_in; i++)
            job_input(j, v - 1 - (int)draw((uint32_t)MR_MIN(v, 8)), draw(5000) * 1000);
    }
}

/* ---- the simulation itself ---- */

MR_TEST(assign_adds_times_and_transfers)
{
    job j;
    double start[3], finish[3], end;
    job_init(&j, 3, 0.5, 100);
    job_node(&j, 16);
    job_node(&j, 16);
    job_node(&j, 16);
    job_input(&j, 0, 200);
    job_input(&j, 1, 0);
    /* The first runs 4 s on device 1, its 200 bytes go 2 s and arrive half a second later. */
    MR_CHECK_OK(mr_assign_simulate(&j.w, (int[]){1, 2, 2}, start, finish, &end));
    MR_CHECK_NEAR(finish[0], 4, 1e-12);
    MR_CHECK_NEAR(finish[1], 1, 1e-12);
    MR_CHECK_NEAR(start[2], 6.5, 1e-12);
    MR_CHECK_NEAR(end, 7.5, 1e-12);
    job_deinit(&j);
}

MR_TEST(assign_sends_a_tensor_once_and_shares_the_link)
{
    job j;
    double start[5], end;
    job_init(&j, 5, 0, 100);
    job_node(&j, 0);
    job_node(&j, 0);
    job_node(&j, 1);
    job_input(&j, 0, 100);
    job_node(&j, 1);
    job_input(&j, 0, 100);
    job_node(&j, 1);
    job_input(&j, 1, 100);
    /* Two consumers of the first share its transfer; the second's follows on the same link. */
    MR_CHECK_OK(mr_assign_simulate(&j.w, (int[]){0, 0, 2, 2, 2}, start, NULL, &end));
    MR_CHECK_NEAR(start[3], 1, 1e-12);
    MR_CHECK_NEAR(start[2], 1 + 1.0 / 16, 1e-12);
    MR_CHECK_NEAR(start[4], 2, 1e-12);
    job_deinit(&j);
}

MR_TEST(assign_takes_the_first_that_is_ready)
{
    job j;
    double start[3], end;
    job_init(&j, 3, 0, 1);
    job_node(&j, 2);
    job_node(&j, 1);
    job_node(&j, 5);
    job_input(&j, 1, 0);
    MR_CHECK_OK(mr_assign_simulate(&j.w, (int[]){0, 0, 0}, start, NULL, &end));
    MR_CHECK_NEAR(start[1], 2, 1e-12);
    MR_CHECK_NEAR(start[2], 3, 1e-12);
    MR_CHECK_NEAR(end, 8, 1e-12);
    job_deinit(&j);
}

/* As the executor has it: the last of those that one end made ready. */
MR_TEST(assign_takes_the_last_of_those_that_become_ready_at_once)
{
    job j;
    double start[4], end;
    job_init(&j, 4, 0, 1);
    job_node(&j, 1);
    for (int v = 1; v < 4; v++) {
        job_node(&j, 1);
        job_input(&j, 0, 0);
    }
    MR_CHECK_OK(mr_assign_simulate(&j.w, (int[]){0, 0, 0, 0}, start, NULL, &end));
    MR_CHECK_NEAR(start[3], 1, 1e-12);
    MR_CHECK_NEAR(start[2], 2, 1e-12);
    MR_CHECK_NEAR(start[1], 3, 1e-12);
    job_deinit(&j);
}

/* ---- the choice ---- */

MR_TEST(assign_keeps_a_chain_on_the_fastest_device)
{
    job j;
    int device_of[20];
    job_init(&j, 20, 1e-3, 1e9);
    for (int v = 0; v < 20; v++) {
        job_node(&j, 0.1);
        if (v)
            job_input(&j, v - 1, 1000);
    }
    MR_CHECK_NEAR(find(&j, device_of), 20 * 0.1 / 16, 1e-12);
    for (int v = 0; v < 20; v++)
        MR_CHECK_INT(device_of[v], 2);
    job_deinit(&j);
}

MR_TEST(assign_keeps_groups_together_and_wishes)
{
    job j;
    int device_of[3] = {-1, 0, -1}, culprit;
    double t;
    job_init(&j, 4, 0, 1e9);
    for (int v = 0; v < 4; v++)
        job_node(&j, 1);
    j.group[3] = 0;
    j.w.n_groups = 3;
    j.seconds[3 * DEVICES + 2] = INFINITY; /* so nodes 0 and 3 cannot stand there */
    MR_CHECK_OK(mr_assign_find(&j.w, device_of, &t, &culprit));
    MR_CHECK_INT(device_of[0], 1);
    MR_CHECK_INT(device_of[1], 0);
    MR_CHECK_INT(device_of[2], 2);
    job_deinit(&j);
}

MR_TEST(assign_respects_memory)
{
    job j;
    int device_of[4], culprit;
    double t;
    job_init(&j, 4, 0, 1e9);
    for (int v = 0; v < 4; v++) {
        job_node(&j, 1);
        j.bytes[v] = 100;
    }
    j.w.memory = j.memory;
    memcpy(j.memory, (int64_t[]){100, 200, 100}, sizeof j.memory);
    find(&j, device_of);
    int on[DEVICES] = {0};
    for (int v = 0; v < 4; v++)
        on[device_of[v]]++;
    MR_CHECK(on[0] == 1 && on[1] == 2 && on[2] == 1);
    j.memory[1] = 199;
    for (int v = 0; v < 4; v++)
        device_of[v] = -1;
    MR_CHECK_ERR(mr_assign_find(&j.w, device_of, &t, &culprit), MR_RESOURCE_EXHAUSTED, "memory");
    job_deinit(&j);
}

MR_TEST(assign_names_what_runs_nowhere)
{
    job j;
    int device_of[2] = {-1, -1}, culprit = -1;
    double t;
    job_init(&j, 2, 0, 1);
    job_node(&j, 1);
    job_node(&j, INFINITY);
    MR_CHECK_ERR(mr_assign_find(&j.w, device_of, &t, &culprit), MR_INVALID_ARGUMENT, "No device");
    MR_CHECK_INT(culprit, 1);
    job_deinit(&j);
}

MR_TEST(assign_ends_when_it_is_cancelled)
{
    job j;
    int device_of[2] = {-1, 1}, culprit = -1;
    double t;
    mr_cancel_flag cancelled = true;
    job_init(&j, 2, 0, 1);
    job_node(&j, 1);
    job_node(&j, 1);
    j.w.cancelled = &cancelled;
    MR_CHECK_ERR(mr_assign_find(&j.w, device_of, &t, &culprit), MR_CANCELLED, "cancelled");
    MR_CHECK(culprit == -1 && device_of[0] == -1 && device_of[1] == 1);
    cancelled = false;
    MR_CHECK_OK(mr_assign_find(&j.w, device_of, &t, &culprit));
    MR_CHECK(device_of[0] >= 0 && device_of[1] == 1);
    job_deinit(&j);
}

/* ---- how good it is ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double best_of_all(const job *j)
{
    int device_of[10], n = j->w.n_nodes;
    double best = INFINITY;
    int total = 1;
    mr_play step; /* kept, for speed */
    MR_CHECK_OK(mr_play_init(&step, &j->w));
    for (int v = 0; v < n; v++)
        total *= DEVICES;
    for (int code = 0; code < total; code++) {
        for (int v = 0, c = code; v < n; v++, c /= DEVICES)
            device_of[v] = c % DEVICES;
        best = MR_MIN(best, mr_play_step(&step, device_of));
    }
    mr_play_deinit(&step);
    return best;
}

static double best_single(const job *j)
{
    int device_of[200];
    double best = INFINITY;
    for (int d = 0; d < DEVICES; d++) {
        for (int v = 0; v < j->w.n_nodes; v++)
            device_of[v] = d;
        best = MR_MIN(best, simulate(j, device_of));
    }
    return best;
}

/* Fifty small graphs against every choice there is, in five parts. */
static void near_the_best(int part)
{
    enum { N = 10 };
    double ratio[N];
    seed = (uint64_t)part;
    for (int i = 0; i < N; i++) {
        job j;
        int device_of[10];
        random_job(&j, 10);
        double t = find(&j, device_of);
        ratio[i] = t / best_of_all(&j);
        MR_CHECK(ratio[i] >= 1 - 1e-12);
        MR_CHECK(t <= best_single(&j));
        job_deinit(&j);
    }
    qsort(ratio, N, sizeof *ratio, by_value);
    MR_CHECK(ratio[N / 2] <= 1.01);
    MR_CHECK(ratio[N - 1] <= 1.10);
}

MR_TEST(assign_is_near_the_best_of_all_1) { near_the_best(1); }
MR_TEST(assign_is_near_the_best_of_all_2) { near_the_best(2); }
MR_TEST(assign_is_near_the_best_of_all_3) { near_the_best(3); }
MR_TEST(assign_is_near_the_best_of_all_4) { near_the_best(4); }
MR_TEST(assign_is_near_the_best_of_all_5) { near_the_best(5); }

/* The longest chain at the highest speed, and all work on all devices: no schedule beats either. */
static double lower_bound(const job *j)
{
    double finish[200], chain = 0, work = 0;
    for (int v = 0; v < j->w.n_nodes; v++) {
        double at = 0;
        for (int e = j->first_input[v]; e < j->first_input[v + 1]; e++)
            at = MR_MAX(at, finish[j->inputs.p[e].from]);
        finish[v] = at + j->seconds[v * DEVICES + 2];
        chain = MR_MAX(chain, finish[v]);
        work += j->seconds[v * DEVICES];
    }
    return MR_MAX(chain, work / (1 + 4 + 16));
}

MR_TEST(assign_is_near_the_bound_for_large_graphs)
{
    enum { N = 20 };
    double ratio[N];
    seed = 7;
    for (int i = 0; i < N; i++) {
        job j;
        int device_of[200];
        random_job(&j, 200);
        double t = find(&j, device_of);
        ratio[i] = t / lower_bound(&j);
        MR_CHECK(ratio[i] >= 1 - 1e-12);
        MR_CHECK(t <= best_single(&j));
        job_deinit(&j);
    }
    qsort(ratio, N, sizeof *ratio, by_value);
    MR_CHECK(ratio[N / 2] <= 1.05);
    MR_CHECK(ratio[N - 1] <= 1.20);
}

MR_TEST(assign_gives_the_same_answer_twice)
{
    job j;
    int a[100], b[100];
    seed = 9;
    random_job(&j, 100);
    MR_CHECK(find(&j, a) == find(&j, b));
    MR_CHECK(memcmp(a, b, sizeof a) == 0);
    job_deinit(&j);
}
