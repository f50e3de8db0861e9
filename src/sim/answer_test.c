/* sim/answer_test.c -- simulations that are cancelled. What they answer otherwise is tested in step_test.c and
 * training_test.c. */
#include "sim/answer.h"

#include "base/memory.h"
#include "base/thread.h"
#include "tests/harness/test.h"

void mr_ops_register(void); /* ops/table.h, above this layer */

/* They take half a minute and more. */
#define LONG_STEP                                                                                                      \
    "{\"graph\": {\"model\": \"inception\", \"blocks\": 20}, \"visits\": 20000000, \"devices\": [{}, {}, {}, {}, {}, " \
    "{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]}"
#define LONG_TRAINING                                                                                                  \
    "{\"graph\": {\"model\": \"lenet\"}, \"visits\": 1000, \"cluster\": {\"workers\": 2000, \"ps\": 20, \"mode\": "    \
    "\"sync\", \"steps\": 1000}}"

typedef mr_status *(*answer_fn)(mr_sim_plan *p, mr_str *out);

static mr_status *answer_step(mr_sim_plan *p, mr_str *out) { return mr_sim_answer_step(p, NULL, out); }

static mr_status *answer_reasons(mr_sim_plan *p, mr_str *out) { return mr_sim_answer_reasons(p, NULL, NULL, out); }

static mr_status *sweep(mr_sim_plan *p, const char *text, mr_str *out)
{
    mr_sim_range range;
    MR_CHECK_OK(mr_sim_range_parse(text, &range));
    return mr_sim_answer_sweep(p, NULL, &range, out);
}

static mr_status *sweep_steps(mr_sim_plan *p, mr_str *out) { return sweep(p, "device:cpu1.speedup=1..1000", out); }

static mr_status *sweep_trainings(mr_sim_plan *p, mr_str *out) { return sweep(p, "workers=1..2000", out); }

typedef struct asked {
    mr_sim_plan plan;
    answer_fn answer;
    mr_str out;
    mr_status *st;
    _Atomic bool begins;
} asked;

static void answer(void *arg)
{
    asked *a = arg;
    a->begins = true;
    a->st = a->answer(&a->plan, &a->out);
}

/* Sets the flag while another thread simulates. The deadline of the test is shorter than the simulation. */
static void check_cancel(const char *text, answer_fn fn)
{
    mr_cancel_flag cancelled = false;
    asked a = {.answer = fn};
    mr_thread t;
    mr_test_deadline(20);
    mr_ops_register();
    MR_CHECK_OK(mr_sim_plan_parse(mr_sv_of(text), "plan", &a.plan));
    a.plan.cancelled = &cancelled;
    mr_str_appendz(&a.out, "kept");
    MR_CHECK_INT(mr_thread_start(&t, "answer", answer, &a), 0);
    while (!a.begins)
        ;
    cancelled = true;
    mr_thread_join(&t);
    MR_CHECK_ERR(a.st, MR_CANCELLED, "was cancelled");
    MR_CHECK_STR(mr_str_z(&a.out), "kept");
    mr_str_deinit(&a.out);
    mr_sim_plan_deinit(&a.plan);
}

MR_TEST(sim_a_step_can_be_cancelled) { check_cancel(LONG_STEP, answer_step); }

MR_TEST(sim_reasons_can_be_cancelled) { check_cancel(LONG_STEP, answer_reasons); }

MR_TEST(sim_a_training_can_be_cancelled) { check_cancel(LONG_TRAINING, answer_step); }

MR_TEST(sim_a_sweep_can_be_cancelled) { check_cancel(LONG_STEP, sweep_steps); }

MR_TEST(sim_a_sweep_of_trainings_can_be_cancelled) { check_cancel(LONG_TRAINING, sweep_trainings); }

/* The flag is only looked at. */
MR_TEST(sim_a_flag_that_is_not_set_changes_nothing)
{
    static const char text[] = "{\"graph\": {\"model\": \"lenet\"}, \"devices\": [{\"type\": \"CPU\"}, {\"type\": \"GPU\"}], "
                               "\"cluster\": {\"workers\": 5, \"ps\": 2, \"tail_ms\": 3}}";
    mr_cancel_flag cancelled = false;
    mr_str with = {0}, without = {0};
    mr_sim_plan p;
    mr_ops_register();
    MR_CHECK_OK(mr_sim_plan_parse(mr_sv_of(text), "plan", &p));
    MR_CHECK_OK(mr_sim_answer_step(&p, NULL, &without));
    p.cancelled = &cancelled;
    MR_CHECK_OK(mr_sim_answer_step(&p, NULL, &with));
    MR_CHECK_STR(mr_str_z(&with), mr_str_z(&without));
    mr_str_deinit(&with);
    mr_str_deinit(&without);
    mr_sim_plan_deinit(&p);
}
