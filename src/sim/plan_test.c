/* sim/plan_test.c -- plans that are read, and why others are not. */
#include "sim/plan.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "tests/harness/test.h"

static void refused(const char *text, const char *why)
{
    mr_sim_plan p;
    MR_CHECK_ERR(mr_sim_plan_parse(mr_sv_of(text), "plan.json", &p), MR_INVALID_ARGUMENT, why);
    MR_CHECK_INT(p.devices.n, 0); /* nothing is left of it */
}

static mr_sim_plan read(const char *text)
{
    mr_sim_plan p;
    MR_CHECK_OK(mr_sim_plan_parse(mr_sv_of(text), "plan.json", &p));
    return p;
}

#define GRAPH "\"graph\": {\"model\": \"mlp\"}"

MR_TEST(sim_plan_has_usual_values)
{
    mr_sim_plan p = read("{" GRAPH "}");
    MR_CHECK_STR(p.graph.model->name, "mlp");
    MR_CHECK_INT(p.graph.params[0], 128);
    MR_CHECK_INT(p.devices.n, 1);
    MR_CHECK_STR(p.devices.p[0].name, "cpu0");
    MR_CHECK_NEAR(p.devices.p[0].flops_per_s, mr_speed_cpu.flops_per_s, 0);
    MR_CHECK_INT(p.show, MR_SIM_SHOW_ALL);
    MR_CHECK(!p.cluster.given);
    mr_sim_plan_deinit(&p);
}

MR_TEST(sim_plan_reads_devices_and_links)
{
    mr_sim_plan p = read("{" GRAPH ", \"devices\": [{}, {\"type\": \"GPU\", \"speedup\": 2}, {\"type\": \"GPU\", \"task\": 1, \"name\": \"far\","
                         " \"op_us\": 7}], \"link\": {\"latency_us\": 3}, \"network\": {\"bytes_per_s\": 5},"
                         " \"links\": [{\"from\": \"cpu0\", \"to\": \"far\", \"latency_us\": 8, \"bytes_per_s\": 9, \"both\": false}]}");
    MR_CHECK_STR(p.devices.p[1].full, "/job:localhost/replica:0/task:0/device:GPU:0");
    MR_CHECK_STR(p.devices.p[2].full, "/job:localhost/replica:0/task:1/device:GPU:0");
    MR_CHECK_NEAR(p.devices.p[1].speedup, 2, 0);
    MR_CHECK_NEAR(p.devices.p[2].op_s, 7e-6, 1e-12);
    MR_CHECK_NEAR(mr_sim_plan_link(&p, 0, 1).latency_s, 3e-6, 1e-12);
    MR_CHECK_NEAR(mr_sim_plan_link(&p, 1, 2).bytes_per_s, 5, 0);
    MR_CHECK_NEAR(mr_sim_plan_link(&p, 0, 2).bytes_per_s, 9, 0);
    MR_CHECK_NEAR(mr_sim_plan_link(&p, 2, 0).bytes_per_s, 5, 0); /* the way back is the network's */
    mr_sim_plan_deinit(&p);
}

MR_TEST(sim_plan_reads_a_model_whatever_the_order_of_its_keys)
{
    mr_sim_plan p = read("{\"graph\": {\"batch\": 7, \"layers\": 3, \"model\": \"mlp\"}}");
    MR_CHECK_INT(p.graph.params[0], 7);
    MR_CHECK_INT(p.graph.params[3], 3);
    mr_sim_plan_deinit(&p);
}

MR_TEST(sim_plan_reads_a_cluster)
{
    mr_sim_plan p = read("{" GRAPH ", \"cluster\": {\"workers\": 50, \"ps\": 3, \"mode\": \"backup\", \"checkpoint_s\": 60, \"rpc_us\": 1.5,"
                         " \"checkpoints\": [7, 0.5], \"cuts\": [{\"worker\": 2, \"at_s\": 3}, {\"ps\": 0}],"
                         " \"slow\": [{\"worker\": 3, \"factor\": 4}, {\"task\": \"ps\", \"index\": 2, \"at_s\": 1, \"for_s\": 2.5}], \"crashes\": [{\"task\": \"ps\", \"index\": 1, \"at_s\": 9,"
                         " \"silent\": true}]}}");
    const mr_simtrain_job *j = &p.cluster.job;
    MR_CHECK(p.cluster.given);
    MR_CHECK_INT(j->n_workers, 50);
    MR_CHECK_INT(j->n_ps, 3);
    MR_CHECK_INT(j->mode, MR_SIMTRAIN_SYNC);
    MR_CHECK_INT(j->backup, 1);
    MR_CHECK_NEAR(j->checkpoint_s, 60, 0);
    MR_CHECK_NEAR(j->rpc_s, 1.5e-6, 1e-15);
    MR_CHECK_INT(j->n_slow, 2);
    MR_CHECK_INT(j->slow[0].index, 3);
    MR_CHECK_INT(j->slow[0].kind, MR_SIMTRAIN_WORKER);
    MR_CHECK_NEAR(j->slow[0].factor, 4, 0);
    MR_CHECK_NEAR(j->slow[0].for_s, 0, 0);
    MR_CHECK_INT(j->slow[1].index, 2);
    MR_CHECK_INT(j->slow[1].kind, MR_SIMTRAIN_PS);
    MR_CHECK_NEAR(j->slow[1].factor, 2, 0);
    MR_CHECK_NEAR(j->slow[1].at_s, 1, 0);
    MR_CHECK_NEAR(j->slow[1].for_s, 2.5, 0);
    MR_CHECK_INT(j->n_crashes, 1);
    MR_CHECK_INT(j->crashes[0].kind, MR_SIMTRAIN_PS);
    MR_CHECK(j->crashes[0].silent);
    MR_CHECK_INT(j->n_cuts, 2);
    MR_CHECK_INT(j->cuts[0].worker, 2);
    MR_CHECK_INT(j->cuts[0].ps, -1);
    MR_CHECK_NEAR(j->cuts[0].at_s, 3, 0);
    MR_CHECK_NEAR(j->cuts[0].for_s, 1, 0);
    MR_CHECK_INT(j->cuts[1].ps, 0);
    MR_CHECK_INT(j->n_checkpoints, 2);
    MR_CHECK_NEAR(j->checkpoints[1], 0.5, 0);
    mr_sim_plan_deinit(&p);
}

/* The number of parameter servers may stay in the plan when the mode changes. */
MR_TEST(sim_plan_allreduce_ignores_parameter_servers)
{
    mr_sim_plan p = read("{" GRAPH ", \"cluster\": {\"workers\": 4, \"ps\": 3, \"mode\": \"allreduce\"}}");
    MR_CHECK_INT(p.cluster.job.mode, MR_SIMTRAIN_ALLREDUCE);
    MR_CHECK_INT(p.cluster.job.n_ps, 0);
    MR_CHECK_OK(mr_sim_plan_set(&p, MR_SV("cluster.ps"), 5));
    MR_CHECK_INT(p.cluster.job.n_ps, 0);
    mr_sim_plan_deinit(&p);
}

MR_TEST(sim_plan_errors_name_their_place)
{
    refused("{" GRAPH ", \"devices\": [{}, {\"speedup\": 0}]}",
            "plan.json: devices[1].speedup: 0 is out of range, expected 1e-06 to 1e+06");
    refused("{" GRAPH ", \"devices\": [{\"speedup\": \"fast\"}]}", "plan.json: devices[0].speedup: expected a number");
    refused("{" GRAPH ", \"devices\": {}}", "plan.json: devices: expected a list");
    refused("{" GRAPH ", \"devices\": [{\"type\": \"TPU\"}]}",
            "plan.json: devices[0].type: 'TPU' is invalid, expected one of: CPU GPU");
    refused("{" GRAPH ", \"devices\": [{\"task\": 1.5}]}", "plan.json: devices[0].task: 1.5 is not a whole number");
    refused("{" GRAPH ", \"devices\": [{\"colour\": 1}]}",
            "plan.json: devices[0].colour: unknown key; expected one of name, type");
    refused("{" GRAPH ", \"links\": [{\"from\": \"cpu0\", \"to\": \"x\"}]}",
            "plan.json: links[0].to: unknown device 'x'");
    refused("{" GRAPH ", \"cluster\": {\"slow\": [{\"factor\": 1e9}]}}",
            "plan.json: cluster.slow[0].factor: 1e+09 is out of range");
    refused("{" GRAPH ", \"cluster\": {\"checkpoints\": [1, -1]}}",
            "plan.json: cluster.checkpoints[1]: -1 is out of range, expected 0 to 1e+09");
    refused("{" GRAPH ", \"cluster\": {\"checkpoints\": 5}}", "plan.json: cluster.checkpoints: expected a list");
    refused("{" GRAPH ", \"cluster\": {\"slow\": [{\"worker\": 1, \"index\": 1}]}}",
            "plan.json: cluster.slow[0]: index and worker are both given");
    refused("{" GRAPH ", \"cluster\": {\"slow\": [{\"worker\": 1, \"task\": \"ps\"}]}}",
            "plan.json: cluster.slow[0]: worker is given, but the task is a ps; use index");
    refused("{" GRAPH ", \"cluster\": {\"slow\": [{\"for_s\": 0}]}}", "plan.json: cluster.slow[0].for_s: 0 is out of range");
    refused("{" GRAPH ", \"cluster\": {\"cuts\": [{\"ps\": -1}]}}", "plan.json: cluster.cuts[0].ps: -1 is out of range");
    refused("{" GRAPH ", \"cluster\": {\"cuts\": [{\"task\": 1}]}}",
            "plan.json: cluster.cuts[0].task: unknown key; expected one of worker, ps");
    refused("{" GRAPH ", \"cluster\": {\"mode\": \"both\"}}",
            "plan.json: cluster.mode: 'both' is invalid, expected one of: async sync backup bounded adaptive allreduce");
}

MR_TEST(sim_plan_refuses_what_makes_no_sense)
{
    refused("{}", "plan.json: graph: model or file is missing");
    refused("{\"graph\": {\"model\": \"mlp\", \"file\": \"x.pb\"}}", "model and file are both given");
    refused("{" GRAPH ", \"devices\": [{\"speed\": 2}]}",
            "plan.json: devices[0].speed: unknown key (did you mean 'speedup'?); expected one of name,");
    refused("{\"graph\": {\"modle\": \"mlp\"}}",
            "plan.json: graph.modle: unknown key (did you mean 'model'?); expected one of model, file,");
    refused("{\"graph\": {\"model\": \"mlp\", \"bach\": 8}}",
            "graph.bach: mlp does not have this key (did you mean 'batch'?); expected one of model, file, signature, "
            "feeds,");
    refused("{\"graph\": {\"model\": \"mlp\", \"batch\": \"8\"}}", "plan.json: graph.batch: expected a whole number");
    refused("{\"graph\": {\"model\": \"lennet\"}}",
            "unknown model 'lennet' (did you mean 'lenet'?); expected one of inception, lenet,");
    refused("{\"graph\": {\"model\": \"vgg\"}}", "graph.model: unknown model 'vgg'");
    refused("{\"graph\": {\"model\": \"lenet\", \"hidden\": 3}}", "graph.hidden: lenet does not have this key");
    refused("{\"graph\": {\"model\": \"mlp\", \"batch\": 0}}", "graph.batch: 0 is out of range, expected 1 to 65536");
    refused("{\"graph\": {\"model\": \"mlp\", \"batch\": 1, \"batch\": 2}}", "graph.batch: given twice");
    refused("{" GRAPH ", " GRAPH "}", "plan.json: graph: given twice");
    refused("{" GRAPH ", \"devices\": [{\"name\": \"a\"}, {\"name\": \"a\"}]}",
            "devices[1].name: another device is also named 'a'");
    refused("{" GRAPH ", \"devices\": [{\"name\": \"a b\"}]}", "devices[0].name: expected at most 30 letters");
    refused("{" GRAPH ", \"pins\": [{\"node\": \"x\", \"device\": \"y\"}]}", "pins[0].device: unknown device 'y'");
    refused("{" GRAPH "} x", "plan.json: bad JSON at byte");
    refused("{" GRAPH, "plan.json: bad JSON at byte");
    refused("[]", "plan.json: expected an object");
}

MR_TEST(sim_plan_sets_one_number)
{
    mr_sim_plan p = read("{" GRAPH ", \"devices\": [{}, {\"type\": \"GPU\"}]}");
    MR_CHECK_OK(mr_sim_plan_set(&p, MR_SV("device:gpu0.speedup"), 8));
    MR_CHECK_NEAR(p.devices.p[1].speedup, 8, 0);
    MR_CHECK_OK(mr_sim_plan_set(&p, MR_SV("graph.batch"), 16));
    MR_CHECK_INT(p.graph.params[0], 16);
    MR_CHECK_OK(mr_sim_plan_set(&p, MR_SV("cluster.workers"), 12));
    MR_CHECK_INT(p.cluster.job.n_workers, 12);
    MR_CHECK_ERR(mr_sim_plan_set(&p, MR_SV("device:gpu7.speedup"), 8), MR_INVALID_ARGUMENT, "unknown device");
    MR_CHECK_ERR(mr_sim_plan_set(&p, MR_SV("device:gpu0.name"), 8), MR_INVALID_ARGUMENT, "unknown number");
    MR_CHECK_ERR(
        mr_sim_plan_set(&p, MR_SV("device:gpu0.speed"), 8), MR_INVALID_ARGUMENT,
        "device:gpu0.speed: unknown number (did you mean 'speedup'?); expected one of task, speedup, flops_per_s");
    MR_CHECK_ERR(mr_sim_plan_set(&p, MR_SV("graph.batch"), -1), MR_INVALID_ARGUMENT,
                 "-1 is out of range, expected 1 to 65536");
    MR_CHECK_ERR(mr_sim_plan_set(&p, MR_SV("speed"), 8), MR_INVALID_ARGUMENT, "expected device:NAME.KEY");
    mr_sim_plan_deinit(&p);
}

MR_TEST(sim_plan_finds_its_files_beside_itself)
{
    char path[500], text[] = "{\"graph\": {\"file\": \"g.pb\", \"targets\": [\"x\"]}, \"costs\": \"/c.txt\"}";
    mr_sim_plan p;
    mr_writer *w;
    snprintf(path, sizeof path, "%s/p.json", mr_test_dir());
    MR_CHECK_OK(mr_writer_open(path, &w));
    MR_CHECK_OK(mr_writer_write(w, text, sizeof text - 1));
    MR_CHECK_OK(mr_writer_commit(w));
    mr_writer_free(w);
    MR_CHECK_OK(mr_sim_plan_load(path, &p));
    snprintf(path, sizeof path, "%s/g.pb", mr_test_dir());
    MR_CHECK_STR(p.graph.file, path);
    MR_CHECK_STR(p.costs, "/c.txt");
    mr_sim_plan_deinit(&p);
}
