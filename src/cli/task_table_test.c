/* cli/task_table_test.c */
#include "cli/task_table.h"

#include <math.h>

#include "base/memory.h"
#include "tests/harness/test.h"

static const mr_row rows[] = {
    {.name = "ps/0", .state = MR_ROW_SERVING, .step = -1, .rate = -1, .loss = NAN, .left_s = -1, .waiting = ""},
    {.name = "worker/0",
     .state = MR_ROW_TRAINING,
     .step = 12345,
     .rate = 182.31,
     .loss = NAN,
     .left_s = -1,
     .waiting = ""},
    {.name = "worker/1",
     .state = MR_ROW_WAITING,
     .step = 12345,
     .rate = 0,
     .loss = NAN,
     .left_s = -1,
     .restarts = 1,
     .waiting = "ps/0"},
};

static void check(const mr_task_table *t, int width, int height, const char *expected)
{
    mr_str out = {0};
    mr_task_table_print(t, width, height, false, &out);
    MR_CHECK_STR(mr_str_z(&out), expected);
    mr_str_deinit(&out);
}

MR_TEST(table_shows_state_rate_and_what_is_waited_for)
{
    check(&(mr_task_table){rows, 3, 3723}, 60, 20,
          "-- millrace  3 tasks  1:02:03 -----------------------------\n"
          " task      state        step   steps/s  restarts\n"
          " ps/0      serving\n"
          " worker/0  training    12345       182\n"
          " worker/1  waiting     12345       0.0         1  ps/0\n");
}

/* All that a task can report, on the narrowest terminal that is common: only how workers fare with each other is left
 * out. */
MR_TEST(table_shows_loss_time_left_and_restarts_within_80_columns)
{
    mr_row some[3] = {rows[0], rows[1], rows[2]};
    some[1].loss = 0.123456;
    some[1].left_s = 3723;
    some[1].judged = true;
    some[2].loss = 1234.5;
    some[2].waiting = "/job:ps/replica:0/task:0: its part of a step is still running";
    check(&(mr_task_table){some, 3, 0}, 80, 20,
          "-- millrace  3 tasks  0:00:00 ------------------------------------------------\n"
          " task      state        step   steps/s       loss      left  restarts\n"
          " ps/0      serving\n"
          " worker/0  training    12345       182     0.1235   1:02:03\n"
          " worker/1  waiting     12345       0.0       1234                   1\n"
          "   waits for: /job:ps/replica:0/task:0: its part of a step is still running\n");
    check(
        &(mr_task_table){some, 3, 0}, 200, 20,
        "-- millrace  3 tasks  0:00:00 ------------------------------------------------\n"
        " task      state        step   steps/s       loss      left  restarts    waited   stale   late  waiting for\n"
        " ps/0      serving\n"
        " worker/0  training    12345       182     0.1235   1:02:03               0.0 s    0.00      0\n"
        " worker/1  waiting     12345       0.0       1234                   1                           "
        "/job:ps/replica:0/task:0: its part of a step is still running\n");
}

MR_TEST(table_marks_what_it_has_to_cut)
{
    mr_row one = rows[2];
    one.waiting = "a reason that goes on and on and on";
    check(&(mr_task_table){&one, 1, 0}, 40, 20,
          "-- millrace  1 task  0:00:00 ----------\n"
          " task      state        step   steps/s\n"
          " worker/1  waiting     12345       0.0\n"
          "   waits for: a reason that goes on ...\n");
}

MR_TEST(table_shows_how_workers_fare_with_each_other)
{
    mr_row some[3] = {rows[0], rows[1], rows[2]};
    some[1].judged = true;
    some[1].waited_s = 12.34;
    some[1].staleness = 1.5;
    some[1].late = 7;
    check(&(mr_task_table){some, 3, 0}, 80, 20,
          "-- millrace  3 tasks  0:00:00 ------------------------------------------------\n"
          " task      state        step   steps/s  restarts    waited   stale   late\n"
          " ps/0      serving\n"
          " worker/0  training    12345       182              12.3 s    1.50      7\n"
          " worker/1  waiting     12345       0.0         1                           ps/0\n");
}

MR_TEST(table_of_many_tasks_fits_the_screen)
{
    check(&(mr_task_table){rows, 3, 0}, 40, 4,
          "-- millrace  3 tasks  0:00:00 ---------\n"
          " task      state        step   steps/s\n"
          " ps/0      serving\n"
          " and 2 more: 1 training, 1 waiting\n");
}

MR_TEST(table_has_a_column_for_hosts_when_there_are_some)
{
    mr_row far = rows[0];
    far.host = "node7";
    check(&(mr_task_table){&far, 1, 0}, 60, 20,
          "-- millrace  1 task  0:00:00 ------------------------------\n"
          " task  host   state       step   steps/s  waiting for\n"
          " ps/0  node7  serving\n");
}

MR_TEST(table_lets_nothing_move_the_cursor)
{
    mr_row bad = {.name = "w/0",
                  .state = MR_ROW_WAITING,
                  .step = -1,
                  .rate = -1,
                  .loss = NAN,
                  .left_s = -1,
                  .waiting = "a\x1b[2Jb\nc"};
    mr_str out = {0};
    mr_task_table_print(&(mr_task_table){&bad, 1, 0}, 80, 20, false, &out);
    MR_CHECK(strchr(mr_str_z(&out), 0x1b) == NULL && strstr(mr_str_z(&out), "a [2Jb c\n"));
    mr_str_deinit(&out);
}

MR_TEST(table_survives_any_size)
{
    for (int width = -1; width < 100; width += 7)
        for (int height = -1; height < 8; height++) {
            mr_str out = {0};
            mr_task_table_print(&(mr_task_table){rows, 3, 5}, width, height, true, &out);
            mr_str_deinit(&out);
        }
}
