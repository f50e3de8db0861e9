/* sim/faults.c -- the faults of a run: all of them are planned from the seed, and all are over at a known time. */
#include "sim/world.h"

typedef struct fault {
    int a, b; /* nodes; b -1: a is cut off from all others */
    bool there, back; /* cut from a to b, and from b to a */
    int slow;
    int64_t length_ns;
} fault;

/* ---- partitions ---- */

static void cut_ways(mr_sim *s, const fault *f, bool cut)
{
    for (int i = 0; i < s->n_nodes; i++) {
        if (i == f->a || (f->b >= 0 && i != f->b))
            continue;
        s->cut[f->a][i] = cut && f->there;
        s->cut[i][f->a] = cut && f->back;
    }
}

static void heal_partition(mr_sim *s, void *arg)
{
    const fault *f = arg;
    cut_ways(s, f, false);
    mr_sim_say(s, f->a, "is reached again");
}

static void cut_node(mr_sim *s, void *arg)
{
    const fault *f = arg;
    s->result->n_faults++;
    cut_ways(s, f, true);
    mr_sim_say(s, f->a, "is cut off from %s%s%s", f->b < 0 ? "all" : s->nodes[f->b].name, f->there ? "" : ", one way: in",
               f->back ? "" : ", one way: out");
    mr_sim_after(s, -1, f->length_ns, heal_partition, arg);
}

/* ---- crashes ---- */

static void restart_task(mr_sim *s, void *arg) { mr_sim_task_start(s, ((const fault *)arg)->a); }

static void crash_task(mr_sim *s, void *arg)
{
    const fault *f = arg;
    if (!s->nodes[f->a].up)
        return;
    s->result->n_faults++;
    mr_sim_say(s, f->a, "crashes");
    mr_sim_task_end(s, f->a);
    mr_sim_silence(s, f->a, f->there);
    mr_sim_after(s, -1, f->length_ns, restart_task, arg);
}

/* A trainer dies and never returns: the others must not wait for it. */
static void kill_trainer(mr_sim *s, void *arg)
{
    const fault *f = arg;
    int node = s->n_tasks + 1 + f->a % (s->n_trainers - 1); /* not the chief */
    s->result->n_faults++;
    mr_sim_say(s, node, "dies");
    s->nodes[node].up = false;
    s->nodes[node].generation++;
    mr_sim_silence(s, node, f->there);
    s->clients[node]->finished = true;
}

/* ---- slow tasks ---- */

static void quick_again(mr_sim *s, void *arg) { s->nodes[((const fault *)arg)->a].slow = 1; }

static void slow_down(mr_sim *s, void *arg)
{
    const fault *f = arg;
    s->result->n_faults++;
    mr_sim_say(s, f->a, "is slow");
    s->nodes[f->a].slow = f->slow;
    mr_sim_after(s, -1, f->length_ns, quick_again, arg);
}

/* ---- the plan ---- */

/* Plans up to three faults of one class at random times, nodes and lengths. */
static void plan_class(mr_sim *s, mr_sim_fn *fn, int n_nodes, int64_t longest_ns)
{
    for (int n = (int)mr_sim_between(s, 0, 3); n > 0; n--) {
        fault *f = mr_arena_new(&s->arena, fault);
        int64_t at_ns = mr_sim_between(s, 200 * MR_SIM_MS, s->faults_end_ns - MR_SIM_S);
        f->a = (int)mr_sim_between(s, 0, n_nodes - 1);
        f->b = mr_sim_chance(s, 5000) ? -1 : (f->a + (int)mr_sim_between(s, 1, s->n_nodes - 1)) % s->n_nodes;
        int way = (int)mr_sim_between(s, 0, 3);
        f->there = way != 1;
        f->back = way != 2;
        f->slow = 10 << mr_sim_between(s, 0, 10);
        f->length_ns = mr_sim_between(s, 20 * MR_SIM_MS, MR_MAX(20 * MR_SIM_MS, MR_MIN(longest_ns, s->faults_end_ns - at_ns)));
        mr_sim_after(s, -1, at_ns, fn, f);
    }
}

void mr_sim_plan_faults(mr_sim *s)
{
    s->faults_end_ns = mr_sim_between(s, 6, 16) * MR_SIM_S;
    if (s->faults & MR_SIM_PARTITION)
        plan_class(s, cut_node, s->n_nodes, 12 * MR_SIM_S);
    if (s->faults & MR_SIM_CRASH)
        plan_class(s, crash_task, s->n_tasks, 5 * MR_SIM_S);
    if ((s->faults & MR_SIM_CRASH) && s->n_trainers && mr_sim_chance(s, 3000))
        plan_class(s, kill_trainer, s->n_nodes, 0);
    if (s->faults & MR_SIM_SLOW)
        plan_class(s, slow_down, s->n_tasks, 5 * MR_SIM_S);
}
