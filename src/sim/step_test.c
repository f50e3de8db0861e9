/* sim/step_test.c -- built-in networks placed, partitioned and simulated; their work, counted by hand. */
#include "sim/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "graph/graph_def.h"
#include "passes/effort.h"
#include "sim/answer.h"
#include "sim/measure.h"
#include "sim/show.h"
#include "sim/sweep.h"
#include "sim/training.h"
#include "store/saved_model.h"
#include "tests/harness/test.h"
#include "wire/pb.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

static const mr_terminal wide = {.width = 100};
static mr_sim_plan plan;

static mr_sim_step *simulate(const char *text)
{
    mr_sim_step *s;
    mr_ops_register();
    MR_CHECK_OK(mr_sim_plan_parse(mr_sv_of(text), "plan", &plan));
    MR_CHECK_OK(mr_sim_step_new(&plan, NULL, &s));
    return s;
}

static void end(mr_sim_step *s)
{
    mr_sim_step_free(s);
    mr_sim_plan_deinit(&plan);
}

/* Of all nodes whose op begins so. */
static double flops(const mr_sim_step *s, const char *op, int *n)
{
    double sum = 0;
    *n = 0;
    for (int v = 0; v < s->n_nodes; v++) {
        const char *name = s->nodes[v]->def->name;
        bool fused = strncmp(name, "_Fused", 6) == 0 && strncmp(name + 6, op, strlen(op)) == 0;
        if (fused || strncmp(name, op, strlen(op)) == 0) {
            sum += mr_effort_of(s->nodes[v], MR_USUAL_DIM).flops;
            ++*n;
        }
    }
    return sum;
}

/* Of z = x y, Mul is dz y and Mul_1 is x dz, as in TensorFlow, whichever compiler built this. */
MR_TEST(sim_model_gradients_of_products_are_named_from_the_left)
{
    int n = 0;
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"lstm\", \"time\": 2}}");
    for (int i = 0; i < s->def.g->nodes.n; i++) {
        const mr_node *left = s->def.g->nodes.p[i], *right;
        const char *end_of_name = strstr(left->name, "_grad/Mul");
        if (!end_of_name || strcmp(end_of_name, "_grad/Mul") != 0 || !strstr(left->name, "/Mul"))
            continue;
        char *name = mr_printf("%s_1", left->name);
        right = mr_graph_find(s->def.g, mr_sv_of(name));
        mr_free(name);
        if (!right || !mr_node_is(left, "Mul") || !mr_node_is(right, "Mul"))
            continue;
        MR_CHECK(mr_out_eq(left->in[0], right->in[1]));
        MR_CHECK(left->id < right->id);
        n++;
    }
    MR_CHECK(n > 0);
    end(s);
}

MR_TEST(sim_model_mlp_does_the_work_of_its_products)
{
    int n;
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"mlp\"}}");
    /* forward and for the weights: 784x256, 256x256, 256x10; for the inputs of all but the first layer */
    double all = 784 * 256 + 256 * 256 + 256 * 10, back = 256 * 256 + 256 * 10;
    MR_CHECK_NEAR(flops(s, "MatMul", &n), 2 * 128 * (2 * all + back), 1);
    MR_CHECK_INT(n, 3 + 3 + 2);
    end(s);
}

MR_TEST(sim_model_lenet_does_the_work_of_its_convolutions)
{
    int n;
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"lenet\"}}");
    double one = 28 * 28 * 32 * 25.0, two = 14 * 14 * 64 * 25.0 * 32;
    MR_CHECK_NEAR(flops(s, "Conv2D", &n), 2 * 128 * (2 * one + 3 * two), 1);
    MR_CHECK_INT(n, 2 + 2 + 1);
    end(s);
}

MR_TEST(sim_model_inception_has_its_four_branches)
{
    int n;
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"inception\", \"batch\": 2}}");
    double pixels = 2 * 28 * 28, first = 192 * (64 + 64 + 64 + 32), inner = 9.0 * (64 * 64 + 64 * 96 + 96 * 96);
    MR_CHECK_NEAR(flops(s, "Conv2D", &n), 2 * pixels * (2 * first + 3 * inner), 10);
    MR_CHECK_INT(n, 7 + 7 + 3);
    flops(s, "FusedBatchNorm", &n);
    MR_CHECK_INT(n, 14);
    flops(s, "AvgPool", &n);
    MR_CHECK_INT(n, 1);
    flops(s, "Relu", &n);
    MR_CHECK_INT(n, 14);
    flops(s, "ResourceApplyGradientDescent", &n);
    MR_CHECK_INT(n, 7 * 3 + 2);
    flops(s, "AssignSubVariableOp", &n); /* moving means and variances */
    MR_CHECK_INT(n, 14);
    end(s);
}

MR_TEST(sim_model_lstm_has_a_cell_for_each_step_and_layer)
{
    int n;
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"lstm\", \"time\": 5, \"layers\": 3, \"batch\": 2, \"inputs\": 8, \"units\": 16}}");
    /* forward, for the weights, and for the inputs of all but the first cell, which has only what is fed */
    double cells = 5 * (24.0 * 64 + 2 * 32.0 * 64), out = 16 * 10;
    MR_CHECK_NEAR(flops(s, "MatMul", &n), 2 * 2 * (3 * cells - 24 * 64 + 3 * out), 1);
    MR_CHECK_INT(n, 3 * (15 + 1) - 1);
    end(s);
}

MR_TEST(sim_model_transformer_does_the_work_of_its_layers)
{
    int n;
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"transformer\", \"batch\": 2, \"time\": 8, \"width\": 16, \"heads\": 2, \"layers\": 3,"
                              " \"words\": 50}}");
    /* products of activations [16 words, ..] with weights, forward, and twice as much backward */
    double layer = 4 * 16 * 16 + 2 * 16 * 64, all = 16 * (3 * layer + 16 * 50);
    MR_CHECK_NEAR(flops(s, "MatMul", &n), 2 * 3 * all, 1);
    /* queries with keys, and weights with values: heads of width 8 over 8 x 8 pairs of words */
    MR_CHECK_NEAR(flops(s, "BatchMatMul", &n), 2 * 3 * 3 * (2 * 2 * 2 * 8 * 8 * 8), 1);
    end(s);
}

/* ---- whatever the network, these hold ---- */

static const char *const networks[] = {
    "\"neuron\"",
    "\"mlp\"",
    "\"lenet\"",
    "\"inception\", \"batch\": 4",
    "\"lstm\", \"time\": 4",
    "\"transformer\", \"layers\": 1",
};

static const char *const machines[] = {
    "[{}]",
    "[{}, {\"type\": \"GPU\", \"speedup\": 0.01}]",
    "[{}, {\"speedup\": 0.5}, {\"type\": \"GPU\", \"speedup\": 0.02, \"task\": 1}, {\"type\": \"GPU\", \"speedup\": 0.01, \"task\": 1}]",
};

static void check_times(const mr_sim_step *s)
{
    const mr_workload *w = &s->planned.w;
    double last = 0;
    for (int v = 0; v < s->n_nodes; v++) {
        MR_CHECK(s->planned.play.start[v] >= s->planned.play.ready_at[v]);
        MR_CHECK(s->planned.play.finish[v] >= s->planned.play.start[v]);
        last = MR_MAX(last, s->planned.play.finish[v]);
        for (int e = w->first_input[v]; e < w->first_input[v + 1]; e++) {
            const mr_workload_input *in = &w->inputs[e];
            int from = s->device[in->from], to = s->device[v];
            const mr_workload_link *l = &s->links[from * s->n_devices + to];
            double way_s = from == to ? 0 : l->latency_s + (double)in->bytes / l->bytes_per_s;
            MR_CHECK(s->planned.play.ready_at[v] >= (s->planned.play.finish[in->from] + way_s) * (1 - 1e-9));
        }
    }
    MR_CHECK_NEAR(last, s->step_s, 1e-12);
}

static void check_devices(const mr_sim_step *s)
{
    for (int d = 0; d < s->n_devices; d++)
        MR_CHECK(s->busy_s[d] <= s->step_s * (1 + 1e-9)); /* one node at a time */
    for (int v = 0; v < s->n_nodes; v++) /* nodes run where they were placed */
        for (int i = 0; i < s->def.g->nodes.n; i++)
            if (strcmp(s->nodes[v]->name, s->def.g->nodes.p[i]->name) == 0)
                MR_CHECK_STR(s->placed.device[i], s->devices[s->device[v]]->name);
}

MR_TEST(sim_step_of_every_network_on_every_machine)
{
    mr_test_deadline(60);
    for (int m = 0; m < MR_COUNT(machines); m++)
        for (int i = 0; i < MR_COUNT(networks); i++) {
            char *text = mr_printf("{\"graph\": {\"model\": %s}, \"devices\": %s, \"visits\": 20000}", networks[i], machines[m]);
            mr_sim_step *s = simulate(text);
            check_times(s);
            check_devices(s);
            if (m == 0)
                MR_CHECK_INT(s->planned.play.sends.n, 0);
            int n_chunks;
            mr_simtrain_chunk *chunks = mr_sim_step_chunks(s, &n_chunks);
            double sum = 0;
            for (int k = 0; k < n_chunks; k++)
                sum += chunks[k].forward_s + chunks[k].backward_s;
            MR_CHECK_NEAR(sum, s->step_s, 1e-9 + 1e-6 * s->step_s);
            mr_free(chunks);
            end(s);
            mr_free(text);
        }
}

MR_TEST(sim_step_is_no_longer_than_on_the_best_device_alone)
{
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"inception\", \"batch\": 8}, \"devices\": [{}, {\"type\": \"GPU\"}, {\"type\": \"GPU\"}]}");
    double *alone = mr_sim_single_steps(s);
    for (int d = 0; d < 3; d++)
        MR_CHECK(s->step_s <= alone[d]);
    MR_CHECK(s->step_s < alone[1] * 0.8); /* its branches run side by side */
    mr_free(alone);
    end(s);
}

MR_TEST(sim_step_keeps_pins)
{
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"mlp\"}, \"devices\": [{}, {\"speedup\": 0.001}],"
                              " \"pins\": [{\"node\": \"layer2/\", \"device\": \"cpu1\"}, {\"node\": \"out/MatMul\", \"device\": \"cpu1\"}]}");
    for (int i = 0; i < s->def.g->nodes.n; i++) {
        const char *name = s->def.g->nodes.p[i]->name;
        if (s->needed[i] && (strncmp(name, "layer2/", 7) == 0 || strcmp(name, "out/MatMul") == 0))
            MR_CHECK_STR(s->placed.device[i], plan.devices.p[1].full);
    }
    end(s);
}

MR_TEST(sim_step_respects_memory)
{
    mr_sim_step *s = NULL;
    mr_ops_register();
    const char *text = "{\"graph\": {\"model\": \"mlp\"}, \"devices\": [{\"memory_bytes\": 1000}, {\"memory_bytes\": 1000}]}";
    MR_CHECK_OK(mr_sim_plan_parse(mr_sv_of(text), "plan", &plan));
    MR_CHECK_ERR(mr_sim_step_new(&plan, NULL, &s), MR_RESOURCE_EXHAUSTED, "do not have enough memory");
    mr_sim_plan_deinit(&plan);
}

MR_TEST(sim_step_uses_measured_costs)
{
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"neuron\"}}");
    mr_costs *c = mr_costs_new();
    for (int v = 0; v < s->n_nodes; v++)
        mr_costs_add(c, s->devices[0]->name, mr_sv_of(s->nodes[v]->name), 0.5);
    double expected = 0;
    for (int v = 0; v < s->n_nodes; v++) /* feeds and fetches take no time */
        expected += s->nodes[v]->mark < 0 ? 0 : 0.5;
    mr_sim_step_free(s);
    MR_CHECK_OK(mr_sim_step_new(&plan, c, &s));
    MR_CHECK_NEAR(s->step_s, expected, 1e-6);
    end(s);
    mr_costs_free(c);
}

MR_TEST(sim_step_on_a_shared_machine_lies_between_one_device_and_two)
{
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"inception\", \"batch\": 4}, \"devices\": [{}, {}]}");
    MR_CHECK_NEAR(mr_sim_step_shared(s, 1), s->step_s, 0.05 * s->step_s); /* links have no queues there */
    double twice = mr_sim_step_shared(s, 2), work = s->busy_s[0] + s->busy_s[1];
    MR_CHECK(twice > s->step_s && twice >= work * (1 - 1e-9));
    MR_CHECK(mr_sim_step_shared(s, 1.3) < twice);
    end(s);
}

typedef struct told {
    int n;
    double at;
    bool over;
} told;

static bool tell(void *arg, const char *line)
{
    told *t = arg;
    t->n++;
    t->over = strstr(line, "the step is over") != NULL;
    return true;
}

MR_TEST(sim_flow_tells_of_every_node_and_transfer)
{
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"mlp\", \"layers\": 1}, \"devices\": [{}, {}], \"pins\": [{\"node\": \"out/\", \"device\": \"cpu1\"}]}");
    told t = {0};
    mr_sim_show_flow(s, &wide, tell, &t);
    MR_CHECK(s->planned.play.sends.n > 0);
    MR_CHECK(t.n >= s->n_nodes + s->planned.play.sends.n + 1);
    MR_CHECK(t.over);
    end(s);
}

MR_TEST(sim_reasons_are_of_the_nodes_asked_for)
{
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"mlp\"}, \"devices\": [{}, {\"speedup\": 4}]}");
    mr_str out = {0};
    MR_CHECK_OK(mr_sim_show_reasons(s, "layer1/MatMul", &wide, &out));
    MR_CHECK(mr_sv_starts(mr_str_view(&out), "  layer1/MatMul (MatMul) on cpu"));
    MR_CHECK(strstr(mr_str_z(&out), "it would end at") != NULL);
    MR_CHECK_ERR(mr_sim_show_reasons(s, "nobody", &wide, &out), MR_INVALID_ARGUMENT, "a node 'nobody'");
    for (int i = 0, folded = 0; i < s->def.g->nodes.n && !folded; i++) { /* a node that is needed, and folded away */
        const char *name = s->def.g->nodes.p[i]->name;
        bool runs = false;
        for (int v = 0; v < s->n_nodes; v++)
            runs |= s->nodes[v]->mark >= 0 && strncmp(s->def.g->nodes.p[s->nodes[v]->mark]->name, name, strlen(name)) == 0;
        folded = s->needed[i] && !runs;
        if (folded)
            MR_CHECK_ERR(mr_sim_show_reasons(s, name, &wide, &out), MR_INVALID_ARGUMENT, "is computed when the step is prepared");
    }
    mr_str_deinit(&out);
    end(s);
}

static mr_str answer_reasons(const char *text, const char *node)
{
    mr_sim_plan p;
    mr_str out = {0};
    MR_CHECK_OK(mr_sim_plan_parse(mr_sv_of(text), "plan", &p));
    MR_CHECK_OK(mr_sim_answer_reasons(&p, NULL, node, &out));
    mr_sim_plan_deinit(&p);
    return out;
}

/* The device of a node comes first, with the time that the step has; the others follow. */
MR_TEST(sim_answer_gives_the_reasons_of_a_node)
{
    const char *text = "{\"graph\": {\"model\": \"mlp\"}, \"devices\": [{}, {\"speedup\": 4}]}";
    mr_sim_step *s = simulate(text);
    mr_str out = answer_reasons(text, "layer1/MatMul"), here = {0};
    mr_str_printf(&here, "\"step_s\": %.9g}, {\"device\": \"cpu0\"", s->step_s);
    MR_CHECK(mr_sv_starts(mr_str_view(&out), "{\"reasons\": [\n  {\"node\": \"layer1/MatMul\", \"device\": \"cpu1\", \"why\": \""));
    MR_CHECK(strstr(mr_str_z(&out), "\"choices\": [{\"device\": \"cpu1\", \"end_s\": ") != NULL);
    MR_CHECK(strstr(mr_str_z(&out), mr_str_z(&here)) != NULL);
    mr_str_deinit(&out);
    mr_str_deinit(&here);
    end(s);
}

/* An error leaves nothing of an incomplete object behind. */
MR_TEST(sim_answer_appends_nothing_after_an_error)
{
    mr_sim_plan p;
    mr_str out = {0};
    mr_sim_range r;
    mr_ops_register();
    MR_CHECK_OK(mr_sim_plan_parse(MR_SV("{\"graph\": {\"model\": \"neuron\"}}"), "plan", &p));
    MR_CHECK_ERR(mr_sim_answer_reasons(&p, NULL, "nobody", &out), MR_INVALID_ARGUMENT, "a node 'nobody'");
    MR_CHECK_OK(mr_sim_range_parse("device:gpu9.speedup=1..2", &r));
    MR_CHECK_ERR(mr_sim_answer_sweep(&p, NULL, &r, &out), MR_INVALID_ARGUMENT, "gpu9");
    MR_CHECK_INT(out.n, 0);
    MR_CHECK_OK(mr_sim_range_parse("graph.batch=1..4", &r));
    MR_CHECK_OK(mr_sim_answer_sweep(&p, NULL, &r, &out));
    MR_CHECK(mr_sv_starts(mr_str_view(&out), "{\"what\": \"graph.batch\", \"points\": [\n  {\"value\": 1, \"step_s\": "));
    mr_str_deinit(&out);
    mr_sim_plan_deinit(&p);
}

/* Inputs are numbers of earlier nodes, and the producer of a transfer is on the device that sends it. */
MR_TEST(sim_json_names_inputs_and_sources_by_number)
{
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"neuron\"}, \"devices\": [{}, {}],"
                              " \"pins\": [{\"node\": \"neuron/\", \"device\": \"cpu1\"}]}");
    mr_str out = {0}, want = {0};
    mr_sim_answer_simulated(s, NULL, &out);
    MR_CHECK(s->planned.play.sends.n > 0);
    for (int i = 0; i < s->planned.play.sends.n; i++)
        MR_CHECK_INT(s->device[s->planned.play.sends.p[i].node], s->planned.play.sends.p[i].from);
    mr_str_printf(&want, "\"source\": %d, \"bytes\": ", s->planned.play.sends.p[0].node);
    MR_CHECK(strstr(mr_str_z(&out), mr_str_z(&want)) != NULL);
    for (int v = 0; v < s->n_nodes; v++) {
        if (s->nodes[v]->n_in != 1 || s->nodes[v]->n_ctrl || !s->nodes[v]->in[0].node)
            continue;
        mr_str_clear(&want);
        mr_str_printf(&want, "\"inputs\": [%d]", s->number[s->nodes[v]->in[0].node->id]);
        MR_CHECK(strstr(mr_str_z(&out), mr_str_z(&want)) != NULL);
    }
    mr_str_deinit(&out);
    mr_str_deinit(&want);
    end(s);
}

MR_TEST(sim_timeline_has_every_device_and_ends_with_the_step)
{
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"lenet\"}, \"devices\": [{}, {\"type\": \"GPU\"}, {\"type\": \"GPU\"}]}");
    mr_timeline t;
    int64_t from, to;
    mr_timeline_init(&t);
    mr_sim_step_timeline(s, &t);
    mr_timeline_range(&t, &from, &to);
    MR_CHECK_INT(from, 0);
    MR_CHECK_NEAR((double)to, s->step_s * 1e9, 1);
    MR_CHECK(t.lanes.n >= 3 && t.arrows.n > 0);
    mr_timeline_deinit(&t);
    end(s);
}

MR_TEST(sim_sweep_of_a_devices_speed_makes_steps_shorter)
{
    mr_sim_range r;
    mr_str out = {0};
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"mlp\"}, \"devices\": [{}, {\"speedup\": 1}]}");
    MR_CHECK_OK(mr_sim_range_parse("device:cpu1.speedup=1..8", &r));
    MR_CHECK_OK(mr_sim_sweep(&plan, NULL, &r, &wide, &out));
    MR_CHECK(strstr(mr_str_z(&out), "\n         8  ") != NULL);
    MR_CHECK_NEAR(plan.devices.p[1].speedup, 8, 0);
    MR_CHECK_ERR(mr_sim_range_parse("speed", &r), MR_INVALID_ARGUMENT, "expected WHAT=FROM..TO");
    MR_CHECK_ERR(mr_sim_range_parse("x=3..1", &r), MR_INVALID_ARGUMENT, "not a valid range");
    mr_str_deinit(&out);
    end(s);
}

/* ---- one simulation ---- */

typedef struct compared {
    const mr_sim_step *s;
    const mr_timeline *line;
    int n;
} compared;

/* A reason says what the timeline shows, to the nanosecond that it is drawn with, and what the total says, to the last digit. */
static void compare_reason(void *arg, const mr_place_reason *r)
{
    compared *c = arg;
    bool drawn = false;
    MR_CHECK(r->here.step_s == c->s->step_s);
    for (int v = 0; v < c->s->n_nodes; v++)
        if (c->s->nodes[v]->mark == r->node->id) {
            MR_CHECK(c->s->planned.play.finish[v] == r->here.ends_s);
            MR_CHECK_INT(c->s->device[v], r->here.device);
        }
    for (int i = 0; i < c->line->spans.n && !drawn; i++)
        drawn = strcmp(c->line->spans.p[i].name, r->node->name) == 0 && c->line->spans.p[i].end_ns == llround(r->here.ends_s * 1e9);
    if (!drawn)
        mr_test_fail(__FILE__, __LINE__, "%s is not in the timeline to end at %g s", r->node->name, r->here.ends_s);
    c->n++;
}

MR_TEST(sim_reasons_timeline_and_total_agree)
{
    mr_test_deadline(60);
    for (int i = 0; i < MR_COUNT(networks); i++) {
        char *text = mr_printf("{\"graph\": {\"model\": %s}, \"devices\": %s, \"visits\": 20000}", networks[i], machines[2]);
        mr_sim_step *s = simulate(text);
        mr_timeline line;
        mr_timeline_init(&line);
        mr_sim_step_timeline(s, &line);
        int64_t from, to;
        mr_timeline_range(&line, &from, &to);
        MR_CHECK_INT(to, llround(s->step_s * 1e9));
        compared c = {s, &line, 0};
        MR_CHECK_OK(mr_sim_step_reasons(s, NULL, compare_reason, &c));
        MR_CHECK(c.n > 5);
        mr_timeline_deinit(&line);
        end(s);
        mr_free(text);
    }
}

/* A feed of 1.6 GB over a link of 100 MB/s: nothing that reads it moves. */
MR_TEST(sim_step_counts_what_it_costs_to_move_a_feed)
{
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"mlp\", \"batch\": 4096, \"inputs\": 100000, \"hidden\": 16, \"layers\": 1},"
                              " \"devices\": [{\"type\": \"CPU\"}, {\"type\": \"GPU\"}], \"link\": {\"latency_us\": 10, \"bytes_per_s\": 1e8}}");
    double *alone = mr_sim_single_steps(s);
    MR_CHECK(s->step_s <= alone[0] && s->step_s <= alone[1] && s->step_s < 1.4 && alone[1] > 16);
    mr_free(alone);
    end(s);
}

/* ---- files ---- */

#define PLACEHOLDER "node { name: \"x\" op: \"Placeholder\" attr { key: \"dtype\" value { type: DT_FLOAT } } attr { key: \"shape\" value { shape { dim { size: 8 } } } } }\n"
#define UNARY(name, op, in) "node { name: \"" name "\" op: \"" op "\" input: \"" in "\" attr { key: \"T\" value { type: DT_FLOAT } } }\n"

static mr_status *simulate_file(const char *file, const char *more, mr_sim_step **s)
{
    char *text = mr_printf("{\"graph\": {\"file\": \"%s\"%s}}", file, more);
    mr_ops_register();
    MR_CHECK_OK(mr_sim_plan_parse(mr_sv_of(text), "plan", &plan));
    mr_free(text);
    mr_status *st = mr_sim_step_new(&plan, NULL, s);
    if (st)
        mr_sim_plan_deinit(&plan);
    return st;
}

MR_TEST(sim_graph_file_with_one_output_needs_no_fetches)
{
    mr_sim_step *s = NULL;
    char *path = mr_printf("%s/one.pbtxt", mr_test_dir()), *two = mr_printf("%s/two.pbtxt", mr_test_dir());
    MR_CHECK_OK(mr_file_write_all(path, MR_SV(PLACEHOLDER UNARY("y", "Tanh", "x") UNARY("z", "Exp", "y"))));
    MR_CHECK_OK(mr_file_write_all(two, MR_SV(PLACEHOLDER UNARY("y", "Tanh", "x") UNARY("z", "Exp", "x"))));
    MR_CHECK_OK(simulate_file(path, "", &s));
    MR_CHECK_INT(s->n_needed, 2);
    MR_CHECK_STR(s->def.fetches.p[0].node->name, "z");
    MR_CHECK_STR(s->def.feeds.p[0].node->name, "x");
    end(s);
    MR_CHECK_ERR(simulate_file(two, "", &s), MR_INVALID_ARGUMENT, "the graph has 2 results (y, z); name those of the step in graph.fetches");
    MR_CHECK_OK(simulate_file(two, ", \"fetches\": [\"y\"]", &s));
    end(s);
    mr_free(path);
    mr_free(two);
}

static void put_tensor_info(mr_pb_writer *w, uint32_t field, const char *key, const char *tensor)
{
    size_t entry = mr_pb_begin(w, field);
    mr_pb_put_bytes(w, 1, mr_sv_of(key));
    size_t info = mr_pb_begin(w, 2);
    mr_pb_put_bytes(w, 1, mr_sv_of(tensor));
    mr_pb_end(w, info);
    mr_pb_end(w, entry);
}

/* MetaGraphDef { meta_info_def { tags }, graph_def, signature_def } */
static void put_meta_graph(mr_str *out)
{
    mr_graph *g = mr_graph_new();
    mr_str def = {0};
    mr_pb_writer w;
    mr_pb_writer_init(&w, out);
    mr_ops_register();
    MR_CHECK_OK(mr_graph_import_text(g, MR_SV(PLACEHOLDER UNARY("y", "Tanh", "x") UNARY("z", "Exp", "y") UNARY("other", "Exp", "x")), NULL));
    MR_CHECK_OK(mr_graph_export(g, &def));
    size_t info = mr_pb_begin(&w, 1);
    mr_pb_put_bytes(&w, 4, MR_SV("serve"));
    mr_pb_end(&w, info);
    mr_pb_put_bytes(&w, 2, mr_str_view(&def));
    for (int i = 0; i < 2; i++) {
        size_t entry = mr_pb_begin(&w, 5);
        mr_pb_put_bytes(&w, 1, i ? MR_SV("other") : MR_SV("serving_default"));
        size_t signature = mr_pb_begin(&w, 2);
        put_tensor_info(&w, 1, "in", i ? "x:0" : "y:0");
        put_tensor_info(&w, 2, "out", i ? "other:0" : "z:0");
        mr_pb_end(&w, signature);
        mr_pb_end(&w, entry);
    }
    mr_graph_unref(g);
    mr_str_deinit(&def);
}

MR_TEST(sim_graph_file_of_a_saved_model_is_run_by_its_signature)
{
    mr_sim_step *s = NULL;
    mr_str meta = {0};
    char *inside = mr_printf("%s/saved_model.pb", mr_test_dir());
    put_meta_graph(&meta);
    mr_sv bytes = mr_str_view(&meta);
    MR_CHECK_OK(mr_saved_model_write(mr_test_dir(), &bytes, 1));
    MR_CHECK_OK(simulate_file(mr_test_dir(), "", &s));
    MR_CHECK_STR(s->def.feeds.p[0].node->name, "y");
    MR_CHECK_STR(s->def.fetches.p[0].node->name, "z");
    end(s);
    MR_CHECK_OK(simulate_file(inside, ", \"signature\": \"other\"", &s));
    MR_CHECK_STR(s->def.feeds.p[0].node->name, "x");
    MR_CHECK_STR(s->def.fetches.p[0].node->name, "other");
    end(s);
    MR_CHECK_ERR(simulate_file(inside, ", \"signature\": \"othr\"", &s), MR_INVALID_ARGUMENT,
                 "there is no signature 'othr' (did you mean 'other'?); expected one of serving_default, other");
    mr_free(inside);
    mr_str_deinit(&meta);
}

/* ---- trainings ---- */

/* Shares are of what is drawn beside them: three steps in one picture, checkpoints and crashes of the whole in another. */
MR_TEST(sim_training_shows_shares_of_the_steps_that_it_draws)
{
    mr_sim_training t;
    mr_str out = {0};
    mr_sim_step *s = simulate("{\"graph\": {\"model\": \"mlp\"}, \"cluster\": {\"workers\": 2, \"mode\": \"sync\", \"steps\": 300, \"checkpoint_s\": 0.3,"
                              " \"crashes\": [{\"task\": \"ps\", \"at_s\": 1}]}}");
    MR_CHECK_OK(mr_sim_training_run(&plan, s, &t));
    mr_sim_show_training(&t, &wide, &out);
    const char *steps = strstr(mr_str_z(&out), "\nthe first 3 steps\n"), *rest = strstr(mr_str_z(&out), "\ncheckpoints and failures of the whole training\n");
    MR_CHECK(steps && rest && steps < rest && !strchr(rest, '%'));
    const char *worker = strstr(steps, "\nworker:0"), *share = worker ? strstr(worker, " %\n") : NULL;
    MR_CHECK(share && atoi(share - 3) > 20);
    mr_str_deinit(&out);
    mr_sim_training_deinit(&t);
    end(s);
}

MR_TEST(sim_measure_predicts_other_configurations)
{
    mr_sim_measures m;
    mr_test_deadline(120);
    mr_ops_register();
    MR_CHECK_OK(mr_sim_plan_parse(MR_SV("{\"graph\": {\"model\": \"mlp\", \"batch\": 16}}"), "plan", &plan));
    MR_CHECK_OK(mr_sim_measure(&plan, 3, NULL, &m));
    MR_CHECK_INT(m.batch, 8);
    MR_CHECK(m.n_nodes > 20 && m.together >= 1);
    for (int i = 0; i < 2; i++) /* how near they are depends on the machine: `millrace sim --measure` tells */
        MR_CHECK(m.config[i].predicted_s > 0 && m.config[i].measured_s > 0);
    mr_sim_plan_deinit(&plan);
}
