/* sim/training_test.c -- the JSON of simulated trainings and of their sweeps. */
#include "sim/training.h"

#include <stdio.h>

#include "tests/harness/test.h"
#include "wire/json.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

/* The training of a plan as a JSON object. */
static mr_str training_json(const char *cluster)
{
    mr_sim_plan p;
    mr_sim_step *s;
    mr_sim_training t;
    mr_str out = {0}, json = {0};
    char text[1000];
    mr_ops_register();
    snprintf(text, sizeof text, "{\"graph\": {\"model\": \"mlp\"}, \"visits\": 1000, \"cluster\": {%s}}", cluster);
    MR_CHECK_OK(mr_sim_plan_parse(mr_sv_of(text), "plan", &p));
    MR_CHECK_OK(mr_sim_step_new(&p, NULL, &s));
    MR_CHECK_OK(mr_sim_training_run(&p, s, &t));
    mr_sim_training_json(&t, &out);
    MR_CHECK(strncmp(mr_str_z(&out), ",\n", 2) == 0);
    mr_str_printf(&json, "{%s}", mr_str_z(&out) + 2);
    mr_str_deinit(&out);
    mr_sim_training_deinit(&t);
    mr_sim_step_free(s);
    mr_sim_plan_deinit(&p);
    return json;
}

/* Fails if the text is not one JSON value. */
static void check_json(mr_str *text)
{
    mr_json j;
    mr_json_init(&j, mr_str_view(text));
    mr_json_skip(&j);
    MR_CHECK_OK(mr_json_status(&j, "json"));
}

static int count(mr_str *text, const char *part)
{
    int n = 0;
    for (const char *p = mr_str_z(text); (p = strstr(p, part)); p++)
        n++;
    return n;
}

MR_TEST(sim_training_json_lists_workers_spans_and_progress)
{
    mr_str json = training_json("\"workers\": 3, \"ps\": 2, \"mode\": \"sync\", \"steps\": 400, \"checkpoint_s\": 0.2, \"save_s\": 0.01,"
                                " \"crashes\": [{\"task\": \"ps\", \"at_s\": 0.5}]");
    check_json(&json);
    MR_CHECK_INT(count(&json, "\"dropped\": 0, \"last\": "), 3); /* each worker */
    MR_CHECK_INT(count(&json, "\"doing\": \"down\""), 1);
    MR_CHECK_INT(count(&json, "\"task\": \"ps:0\", \"doing\": \"down\", \"step\": 0, \"start_s\": 0.5, "), 1);
    MR_CHECK(count(&json, "\"doing\": \"save\"") > 1);
    MR_CHECK(count(&json, "\"task\": \"worker:2\", \"doing\": \"forward\", \"step\": 2,") > 0);
    MR_CHECK_INT(count(&json, "\"doing\": \"forward\", \"step\": 3,"), 0);
    MR_CHECK_INT(count(&json, "\"steps\": 400}]}"), 1); /* the last point of progress */
    MR_CHECK_INT(count(&json, "\"lost_s\": "), 1);
    MR_CHECK_INT(count(&json, "\"steps_per_s\": "), 1);
    mr_str_deinit(&json);
}

/* The server restarts after the training would have ended: there is no span of its downtime in the result. */
MR_TEST(sim_training_json_shows_tasks_that_are_down_at_the_end)
{
    mr_str json = training_json("\"workers\": 2, \"steps\": 40, \"restart_s\": 1000, \"crashes\": [{\"index\": 1, \"at_s\": 0.1}]");
    check_json(&json);
    MR_CHECK_INT(count(&json, "\"task\": \"worker:1\", \"doing\": \"down\", \"step\": 0, \"start_s\": 0.1, "), 1);
    mr_str_deinit(&json);
}

MR_TEST(sim_training_json_of_an_all_reduce)
{
    mr_str json = training_json("\"workers\": 3, \"ps\": 2, \"mode\": \"allreduce\", \"shard\": false, \"steps\": 40,"
                                " \"cuts\": [{\"worker\": 1, \"at_s\": 0.05, \"for_s\": 0.1}]");
    check_json(&json);
    MR_CHECK_INT(count(&json, "\"mode\": \"allreduce\", \"workers\": 3, \"ps\": 0,"), 1);
    MR_CHECK_INT(count(&json, "\"doing\": \"reduce\", \"step\": 2,"), 3);
    MR_CHECK_INT(count(&json, "\"task\": \"worker:1\", \"doing\": \"cut\", \"step\": 0, \"start_s\": 0.05, \"end_s\": 0.15}"), 1);
    MR_CHECK_INT(count(&json, "\"ps:"), 0);
    mr_str_deinit(&json);
}

/* 3 steps of 100 workers have more spans than a page can draw. */
MR_TEST(sim_training_json_has_spans_of_few_tasks)
{
    mr_str json = training_json("\"workers\": 100, \"ps\": 30, \"steps\": 20");
    check_json(&json);
    MR_CHECK(count(&json, "\"task\": \"worker:47\"") > 0);
    MR_CHECK_INT(count(&json, "\"task\": \"worker:48\""), 0);
    MR_CHECK(count(&json, "\"task\": \"ps:15\"") > 0);
    MR_CHECK_INT(count(&json, "\"task\": \"ps:16\""), 0);
    MR_CHECK(count(&json, "\"doing\"") <= 10000);
    mr_str_deinit(&json);
}

/* Their 500 workers send more messages to parameter servers in one step than there may be spans. */
MR_TEST(sim_training_json_has_whole_steps_of_a_large_cluster)
{
    mr_str json = training_json("\"workers\": 500, \"ps\": 8, \"mode\": \"sync\", \"steps\": 20");
    check_json(&json);
    MR_CHECK_INT(count(&json, "\"spans_of\": {\"steps\": 3, \"workers\": 56, \"ps\": 8, \"until_s\": null}"), 1);
    for (int step = 0; step < 3; step++)
        for (int i = 0; i < 56; i++) {
            char text[80];
            snprintf(text, sizeof text, "\"task\": \"worker:%d\", \"doing\": \"push\", \"step\": %d,", i, step);
            MR_CHECK_INT(count(&json, text), 1);
        }
    MR_CHECK(count(&json, "\"doing\"") <= 10000);
    mr_str_deinit(&json);
}

/* Each span of the worker fetches or computes one of 4 layers; joined, they would be fewer. */
MR_TEST(sim_training_json_has_all_spans_of_a_small_cluster)
{
    mr_str small = training_json("\"workers\": 2, \"ps\": 1, \"mode\": \"sync\", \"steps\": 20");
    mr_str large = training_json("\"workers\": 500, \"ps\": 8, \"mode\": \"sync\", \"steps\": 20");
    const char *forward = "\"task\": \"worker:1\", \"doing\": \"forward\", \"step\": 0,";
    MR_CHECK(count(&small, forward) > count(&large, forward));
    MR_CHECK_INT(count(&large, forward), 1);
    mr_str_deinit(&small);
    mr_str_deinit(&large);
}

MR_TEST(sim_training_json_has_spans_of_tasks_with_which_something_happens)
{
    mr_str json = training_json("\"workers\": 300, \"ps\": 30, \"steps\": 20, \"slow\": [{\"worker\": 250, \"factor\": 2}, "
                                "{\"task\": \"ps\", \"index\": 25, \"factor\": 2}], \"cuts\": [{\"worker\": 260, \"at_s\": 1, \"for_s\": 1}], "
                                "\"crashes\": [{\"index\": 270, \"at_s\": 1}]");
    check_json(&json);
    MR_CHECK_INT(count(&json, "\"spans_of\": {\"steps\": 3, \"workers\": 48, \"ps\": 16, \"until_s\": null}"), 1);
    MR_CHECK(count(&json, "\"task\": \"worker:250\", \"doing\": \"forward\"") > 0);
    MR_CHECK(count(&json, "\"task\": \"worker:260\", \"doing\": \"forward\"") > 0);
    MR_CHECK(count(&json, "\"task\": \"worker:270\", \"doing\": \"forward\"") > 0);
    MR_CHECK(count(&json, "\"task\": \"ps:25\", \"doing\": \"serve\"") > 0);
    MR_CHECK(count(&json, "\"task\": \"worker:44\", \"doing\": \"forward\"") > 0);
    MR_CHECK_INT(count(&json, "\"task\": \"worker:45\", \"doing\": \"forward\""), 0);
    mr_str_deinit(&json);
}

/* The fourth worker needs five steps of the others for its first, whose gradient is dropped. */
MR_TEST(sim_training_json_says_which_gradients_are_dropped)
{
    const char *five = "\"workers\": 4, \"backup\": 1, \"mode\": \"backup\", \"steps\": 30, "
                       "\"slow\": [{\"worker\": 3, \"factor\": 5}]";
    mr_str json = training_json(five);
    check_json(&json);
    MR_CHECK_INT(count(&json, "\"spans_of\": {\"steps\": 6,"), 1);
    MR_CHECK(count(&json, "\"dropped\": true") >= 1);
    mr_str_deinit(&json);
    json = training_json("\"workers\": 5, \"mode\": \"sync\", \"steps\": 30, \"slow\": [{\"worker\": 3, \"factor\": 5}]");
    MR_CHECK_INT(count(&json, "\"spans_of\": {\"steps\": 3,"), 1);
    MR_CHECK_INT(count(&json, "\"dropped\": true"), 0);
    mr_str_deinit(&json);
}

/* The picture of the first steps must reach the time at which workers wait for the slowest. */
MR_TEST(sim_training_json_shows_the_waiting_of_a_bounded_delay)
{
    mr_str json = training_json("\"workers\": 3, \"mode\": \"bounded\", \"delay\": 9, \"steps\": 60, "
                                "\"slow\": [{\"worker\": 2, \"factor\": 8}]");
    check_json(&json);
    MR_CHECK_INT(count(&json, "\"spans_of\": {\"steps\": 12,"), 1);
    MR_CHECK(count(&json, "\"task\": \"worker:0\", \"doing\": \"wait\"") > 0);
    MR_CHECK_INT(count(&json, "\"warmup\": 5"), 1);
    mr_str_deinit(&json);
}

MR_TEST(sim_training_sweep_is_an_object_of_points)
{
    mr_sim_plan p;
    mr_sim_range r;
    mr_str json = {0};
    mr_ops_register();
    MR_CHECK_OK(mr_sim_plan_parse(MR_SV("{\"graph\": {\"model\": \"mlp\"}, \"visits\": 1000, \"cluster\": {\"mode\": \"sync\"}}"), "plan", &p));
    MR_CHECK_OK(mr_sim_range_parse("workers=1..8", &r));
    MR_CHECK_OK(mr_sim_training_sweep_json(&p, NULL, &r, &json));
    check_json(&json);
    MR_CHECK_INT(count(&json, "\"value\": "), 4);
    MR_CHECK_INT(count(&json, "\"what\": \"workers\""), 1);
    MR_CHECK_INT(count(&json, "\"steps_per_s\": "), 4);
    MR_CHECK_INT(count(&json, "\"knee\": "), 1);
    mr_str_clear(&json);
    MR_CHECK_OK(mr_sim_range_parse("backup=0..1", &r));
    MR_CHECK_OK(mr_sim_training_sweep_json(&p, NULL, &r, &json));
    MR_CHECK_INT(count(&json, "\"knee\": null"), 1); /* only sweeps that double have one */
    mr_str_deinit(&json);
    mr_sim_plan_deinit(&p);
}
