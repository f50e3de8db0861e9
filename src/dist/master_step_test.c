/* dist/master_step_test.c */
#include "dist/master_step.h"

#include "base/str.h"
#include "tests/harness/test.h"

/* Actions as text: "run0 run1 ..". */
static const char *told(mr_step_actions *a, mr_str *s)
{
    static const char *const names[] = {"run", "cancel", "cleanup", "reply"};
    mr_str_clear(s);
    for (int i = 0; i < a->n; i++) {
        mr_str_printf(s, "%s%s", i ? " " : "", names[a->p[i].what]);
        if (a->p[i].part >= 0)
            mr_str_printf(s, "%d", a->p[i].part);
    }
    a->n = 0;
    return mr_str_z(s);
}

typedef struct bench {
    mr_master_step s;
    mr_step_actions a;
    mr_str text;
} bench;

static void begin(bench *b, int n)
{
    *b = (bench){0};
    mr_master_step_init(&b->s, n);
    mr_master_step_begin(&b->s, &b->a);
}

static void end(bench *b, mr_code code)
{
    mr_status *st = mr_master_step_result(&b->s);
    MR_CHECK_INT(mr_status_code(st), code);
    mr_status_free(st);
    mr_master_step_deinit(&b->s);
    mr_vec_deinit(&b->a);
    mr_str_deinit(&b->text);
}

MR_TEST(master_step_answers_when_all_parts_are_done)
{
    bench b;
    begin(&b, 2);
    MR_CHECK_STR(told(&b.a, &b.text), "run0 run1");
    mr_master_step_ran(&b.s, 1, NULL, &b.a);
    MR_CHECK_STR(told(&b.a, &b.text), "");
    mr_master_step_ran(&b.s, 0, NULL, &b.a);
    MR_CHECK_STR(told(&b.a, &b.text), "cleanup0 cleanup1 reply");
    end(&b, MR_OK);
}

MR_TEST(master_step_of_no_parts_is_over_at_once)
{
    bench b;
    begin(&b, 0);
    MR_CHECK_STR(told(&b.a, &b.text), "reply");
    end(&b, MR_OK);
}

MR_TEST(master_step_tells_the_root_error)
{
    bench b;
    begin(&b, 3);
    told(&b.a, &b.text);
    mr_master_step_ran(&b.s, 0, mr_status_mark_derived(mr_error(MR_ABORTED, "peer")), &b.a);
    MR_CHECK_STR(told(&b.a, &b.text), "cancel1 cancel2");
    mr_master_step_ran(&b.s, 1, mr_invalid("root"), &b.a);
    mr_master_step_ran(&b.s, 2, mr_error(MR_CANCELLED, "was cancelled"), &b.a);
    MR_CHECK_STR(told(&b.a, &b.text), "cleanup0 cleanup1 cleanup2 reply");
    end(&b, MR_INVALID_ARGUMENT);
}

MR_TEST(master_step_stops_once)
{
    bench b;
    begin(&b, 2);
    told(&b.a, &b.text);
    mr_master_step_stop(&b.s, mr_error(MR_DEADLINE_EXCEEDED, "late"), &b.a);
    mr_master_step_stop(&b.s, mr_error(MR_CANCELLED, "closed"), &b.a);
    MR_CHECK_STR(told(&b.a, &b.text), "cancel0 cancel1");
    mr_master_step_ran(&b.s, 0, mr_error(MR_CANCELLED, "x"), &b.a);
    mr_master_step_ran(&b.s, 0, mr_invalid("said twice"), &b.a);
    mr_master_step_ran(&b.s, 1, NULL, &b.a);
    MR_CHECK_STR(told(&b.a, &b.text), "cleanup0 cleanup1 reply");
    mr_master_step_stop(&b.s, mr_invalid("too late"), &b.a);
    MR_CHECK_STR(told(&b.a, &b.text), "");
    end(&b, MR_DEADLINE_EXCEEDED);
}

/* A call of a partial run leaves the step with its tasks, unless it fails. */
MR_TEST(master_step_that_goes_on_is_not_cleaned_up)
{
    bench b;
    begin(&b, 1);
    b.s.goes_on = true;
    b.a.n = 0;
    mr_master_step_ran(&b.s, 0, NULL, &b.a);
    MR_CHECK_STR(told(&b.a, &b.text), "reply");
    end(&b, MR_OK);
    begin(&b, 1);
    b.s.goes_on = true;
    b.a.n = 0;
    mr_master_step_ran(&b.s, 0, mr_error(MR_INTERNAL, "broken"), &b.a);
    MR_CHECK_STR(told(&b.a, &b.text), "cleanup0 reply");
    end(&b, MR_INTERNAL);
}
