/* passes/place_cost_test.c -- graphs placed by what a step would take, and the reasons given. */
#include <stdio.h>

#include "base/memory.h"
#include "graph/scope.h"
#include "passes/planned_step.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

enum { N = 3 };

typedef struct bench {
    mr_graph *g;
    mr_device *devices[N];
    mr_workload_link links[N * N];
    mr_costs *measured;
    mr_place_costs costs;
    mr_prepare_options o;
    const char *placed[200];
} bench;

static void begin(bench *b)
{
    static const double speed[N] = {1, 4, 16};
    memset(b, 0, sizeof *b);
    mr_ops_register();
    b->g = mr_graph_new();
    for (int i = 0; i < N; i++) {
        char name[80];
        snprintf(name, sizeof name, "/job:localhost/replica:0/task:0/device:CPU:%d", i);
        MR_CHECK_OK(mr_device_new_cpu(name, NULL, &b->devices[i]));
        b->devices[i]->speed = (mr_speed){1e9 * speed[i], 1e9 * speed[i], 1e-6};
    }
    for (int i = 0; i < N * N; i++)
        b->links[i] = (mr_workload_link){1e-5, 1e9};
    b->measured = mr_costs_new();
    b->costs = (mr_place_costs){.measured = b->measured, .links = b->links};
    b->o = (mr_prepare_options){.devices = b->devices, .n_devices = N, .costs = &b->costs};
}

static void end(bench *b)
{
    mr_graph_unref(b->g);
    mr_costs_free(b->measured);
    for (int i = 0; i < N; i++)
        mr_device_free(b->devices[i]);
}

static mr_out variable(bench *b, const char *name, int64_t n, const char *device)
{
    mr_node *v = NULL;
    mr_arena a;
    mr_arena_init(&a, 0);
    mr_node_builder *nb = mr_node_begin(b->g, "VariableV2", name);
    mr_nb_attr(nb, "dtype", mr_a_type(MR_FLOAT));
    mr_nb_attr(nb, "shape", mr_a_shape(mr_pshape_matrix(&a, n, n)));
    mr_nb_device(nb, device);
    MR_CHECK_OK(mr_node_finish(nb, &v));
    mr_arena_deinit(&a);
    return (mr_out){v, 0};
}

static mr_out apply(bench *b, const char *op, const char *name, mr_out x, mr_out y)
{
    mr_node *v = NULL;
    mr_node_builder *nb = mr_node_begin(b->g, op, mr_graph_unique_name(b->g, name));
    mr_nb_input(nb, x);
    if (y.node)
        mr_nb_input(nb, y);
    MR_CHECK_OK(mr_node_finish(nb, &v));
    return (mr_out){v, 0};
}

static mr_status *place(bench *b)
{
    memset(b->placed, 0, sizeof b->placed);
    return mr_place(b->g, &b->o, NULL, NULL, b->placed);
}

/* The last digit of where a node stands. */
static int where(bench *b, mr_out o)
{
    const char *d = b->placed[o.node->id];
    return d ? d[strlen(d) - 1] - '0' : -1;
}

/* Four chains of products over one input. */
static void four_chains(bench *b, mr_out last[4])
{
    for (int c = 0; c < 4; c++) {
        char name[40];
        snprintf(name, sizeof name, "w%d", c);
        mr_out w = variable(b, name, 100, "");
        mr_out x = apply(b, "Identity", "read", w, MR_NO_OUT);
        for (int i = 0; i < 3; i++) {
            snprintf(name, sizeof name, "p%d_%d", c, i);
            x = apply(b, "MatMul", name, x, x);
        }
        last[c] = x;
    }
}

MR_TEST(place_by_cost_uses_the_fast_device_and_the_others)
{
    bench b;
    mr_out last[4];
    int on[N] = {0};
    begin(&b);
    four_chains(&b, last);
    MR_CHECK_OK(place(&b));
    for (int c = 0; c < 4; c++)
        on[where(&b, last[c])]++;
    /* A chain takes a time unit on the fastest device, four on the next, sixteen on the slowest. */
    MR_CHECK_INT(on[2], 4);
    b.devices[2]->speed = b.devices[1]->speed;
    MR_CHECK_OK(place(&b));
    memset(on, 0, sizeof on);
    for (int c = 0; c < 4; c++)
        on[where(&b, last[c])]++;
    MR_CHECK_INT(on[1], 2);
    MR_CHECK_INT(on[2], 2);
    end(&b);
}

MR_TEST(place_by_cost_keeps_what_was_asked_for_and_who_belongs_together)
{
    bench b;
    begin(&b);
    mr_out w = variable(&b, "w", 100, "/device:CPU:0");
    mr_out x = apply(&b, "MatMul", "x", w, w);
    mr_out a = apply(&b, "Assign", "a", w, x);
    MR_CHECK_OK(place(&b));
    MR_CHECK_INT(where(&b, w), 0);
    MR_CHECK_INT(where(&b, a), 0);
    MR_CHECK_INT(where(&b, x), 2);
    end(&b);
}

MR_TEST(place_by_cost_leaves_alone_what_stands)
{
    bench b;
    begin(&b);
    mr_out w = variable(&b, "w", 100, "");
    mr_out x = apply(&b, "MatMul", "x", w, w);
    b.placed[w.node->id] = b.devices[1]->name;
    MR_CHECK_OK(mr_place(b.g, &b.o, NULL, NULL, b.placed));
    MR_CHECK_INT(where(&b, w), 1);
    MR_CHECK(where(&b, x) > 0);
    end(&b);
}

/* The device that promised most turns out to be slow. */
MR_TEST(place_by_cost_learns_from_what_was_measured)
{
    bench b;
    mr_out last[4];
    begin(&b);
    four_chains(&b, last);
    MR_CHECK_OK(place(&b));
    for (int i = 0; i < b.g->nodes.n; i++)
        if (mr_node_is(b.g->nodes.p[i], "MatMul"))
            mr_costs_add(b.measured, b.devices[2]->name, mr_sv_of(b.g->nodes.p[i]->name), 0.1);
    MR_CHECK_OK(place(&b));
    for (int c = 0; c < 4; c++)
        MR_CHECK(where(&b, last[c]) < 2);
    end(&b);
}

MR_TEST(place_by_cost_respects_memory)
{
    bench b;
    mr_out w[3];
    begin(&b);
    for (int i = 0; i < 3; i++) {
        char name[40];
        snprintf(name, sizeof name, "w%d", i);
        w[i] = variable(&b, name, 100, "");
        apply(&b, "MatMul", "p", w[i], w[i]);
    }
    int64_t memory[N] = {40000, 40000, 40000};
    b.costs.memory = memory;
    MR_CHECK_OK(place(&b));
    MR_CHECK_INT(where(&b, w[0]) + where(&b, w[1]) + where(&b, w[2]), 3);
    memory[0] = 39999;
    MR_CHECK_ERR(place(&b), MR_RESOURCE_EXHAUSTED, "memory for the graph ({{node w");
    end(&b);
}

MR_TEST(place_by_cost_says_what_fits_nowhere)
{
    bench b;
    begin(&b);
    mr_out w = variable(&b, "w", 100, "/device:GPU:0");
    MR_CHECK_ERR(place(&b), MR_INVALID_ARGUMENT, "Cannot assign a device for operation w");
    b.o.soft_placement = true;
    MR_CHECK_OK(place(&b));
    MR_CHECK(where(&b, w) >= 0);
    end(&b);
}

MR_TEST(place_explains_itself)
{
    bench b;
    mr_str text = {0};
    begin(&b);
    mr_out w = variable(&b, "w", 100, "/device:CPU:0");
    mr_node_set_device(apply(&b, "MatMul", "x", w, w).node, "/device:CPU:*"); /* asks for a type: which one is still a choice */
    MR_CHECK_OK(place(&b));
    MR_CHECK_OK(mr_place_explain(b.g, &b.o, NULL, b.placed, &text));
    MR_CHECK(strstr(mr_str_z(&text), "w (VariableV2) on /job:localhost/replica:0/task:0/device:CPU:0: 0.001 ms, step "));
    MR_CHECK(strstr(mr_str_z(&text), "; as requested\n"));
    MR_CHECK(strstr(mr_str_z(&text), "x (MatMul) on /job:localhost/replica:0/task:0/device:CPU:2: "));
    MR_CHECK(strstr(mr_str_z(&text), "; the step would be longer elsewhere\n    on /job:localhost/replica:0/task:0/device:CPU:0: "));
    mr_str_deinit(&text);
    end(&b);
}

static void count_reasons(void *arg, const mr_place_reason *r) { ((int *)arg)[r->node->id]++; }

/* What runs after an update of a ref variable reads it again: the planned step does so too, where the first read is, and
 * reasons are given for the client's nodes only. */
MR_TEST(place_plans_the_reads_of_ref_variables_that_a_step_has)
{
    bench b;
    mr_planned_step s;
    int told[200] = {0};
    begin(&b);
    mr_out v = variable(&b, "v", 100, ""), read = apply(&b, "Identity", "read", v, MR_NO_OUT);
    mr_out update = apply(&b, "AssignAdd", "update", v, read), use = apply(&b, "MatMul", "use", read, read);
    mr_node_add_control(use.node, update.node);
    MR_CHECK_OK(place(&b));
    MR_CHECK_OK(mr_place_simulate(b.g, &b.o, NULL, b.placed, &s));
    const mr_node *again = mr_graph_find(s.g, MR_SV("read/again"));
    MR_CHECK(again && again->id >= s.first_added && again->mark == read.node->id);
    MR_CHECK(mr_graph_find(s.g, MR_SV("use"))->in[0].node == again);
    mr_planned_step_deinit(&s);
    MR_CHECK_OK(mr_place_reasons(b.g, &b.o, NULL, b.placed, NULL, count_reasons, told));
    for (int i = 0; i < b.g->nodes.n; i++)
        MR_CHECK_INT(told[i], 1);
    end(&b);
}
