/* dist/groups_test.c -- members that find each other through their leader. */
#include "dist/groups.h"

#include <stdio.h>

#include "tests/harness/test.h"

static mr_groups table;
static mr_group_answers told;

static void begin(void)
{
    table = (mr_groups){0};
    told = (mr_group_answers){0};
}

static void forget(void)
{
    for (int i = 0; i < told.n; i++)
        mr_status_free(told.p[i].st);
    told.n = 0;
}

static void end(void)
{
    forget();
    mr_vec_deinit(&told);
    mr_groups_deinit(&table);
}

static char callers[16];

/* Member `who`, which has its own device, asks for group 7 in an incarnation. */
static void ask(int who, int64_t size, int64_t rank, uint64_t incarnation, uint64_t useless, uint64_t fresh)
{
    char name[64];
    snprintf(name, sizeof name, "/job:w/replica:0/task:%d/device:CPU:0", who);
    mr_group_ask a = {7, 0, size, rank, mr_sv_of(name), MR_SV("attributes"), incarnation, useless, &callers[who]};
    mr_groups_ask(&table, &a, fresh, &told);
}

static void ask_source(int who, bool is_source)
{
    char name[64];
    snprintf(name, sizeof name, "/job:w/replica:0/task:%d/device:CPU:0", who);
    mr_groups_ask_source(&table, &(mr_instance_ask){7, 0, 3, 0, mr_sv_of(name), -1, is_source, &callers[who]}, &told);
}

MR_TEST(groups_are_told_when_the_last_has_come_in_the_order_of_tasks)
{
    begin();
    ask(10, 3, -1, 1, 0, 50);
    ask(2, 3, -1, 1, 0, 51);
    MR_CHECK_INT(told.n, 0);
    ask(1, 3, -1, 1, 0, 52);
    MR_CHECK_INT(told.n, 3);
    const mr_group_record *g = told.p[0].record;
    MR_CHECK(g && g->communicator == 52);
    MR_CHECK(strstr(g->members.p[0].device, "task:1/") && strstr(g->members.p[2].device, "task:10/"));
    end();
}

MR_TEST(groups_member_with_two_ops_is_counted_once_and_told_twice)
{
    begin();
    ask(0, 2, -1, 1, 0, 1);
    ask(0, 2, -1, 1, 0, 1);
    MR_CHECK_INT(told.n, 0);
    ask(1, 2, -1, 1, 0, 9);
    MR_CHECK_INT(told.n, 3);
    end();
}

MR_TEST(groups_who_leaves_before_the_end_is_no_member)
{
    begin();
    ask(0, 2, -1, 1, 0, 1);
    mr_groups_leave(&table, &callers[0]);
    MR_CHECK_INT(table.records.n, 0);
    ask(1, 2, -1, 1, 0, 1);
    MR_CHECK_INT(told.n, 0);
    ask(0, 2, -1, 1, 0, 1);
    MR_CHECK_INT(told.n, 2);
    end();
}

MR_TEST(groups_are_formed_anew_when_broken_or_when_a_member_has_another_life)
{
    begin();
    ask(0, 2, -1, 1, 0, 5);
    ask(1, 2, -1, 1, 0, 5);
    forget();
    ask(0, 2, -1, 1, 0, 6); /* it only asks again */
    MR_CHECK_INT(told.n, 1);
    MR_CHECK(told.p[0].record->communicator == 5);
    forget();
    ask(0, 2, -1, 1, 5, 6); /* it was broken */
    MR_CHECK_INT(told.n, 0);
    ask(1, 2, -1, 1, 5, 6);
    MR_CHECK_INT(told.n, 2);
    MR_CHECK(told.p[0].record->communicator == 6);
    forget();
    ask(1, 2, -1, 2, 0, 7);
    MR_CHECK_INT(told.n, 0);
    end();
}

MR_TEST(groups_disagreement_is_told)
{
    begin();
    ask(0, 2, -1, 1, 0, 5);
    ask(1, 3, -1, 1, 0, 5);
    MR_CHECK_INT(told.n, 1);
    MR_CHECK_INT(mr_status_code(told.p[0].st), MR_INVALID_ARGUMENT);
    forget();
    ask(1, 0, -1, 1, 0, 5);
    ask(1, 2, 2, 1, 0, 5);
    MR_CHECK_INT(mr_status_code(told.p[0].st), MR_INVALID_ARGUMENT);
    MR_CHECK_INT(mr_status_code(told.p[1].st), MR_INVALID_ARGUMENT);
    forget();
    mr_groups_leave(&table, &callers[0]);
    ask(0, 2, 1, 1, 0, 5); /* the same rank twice */
    ask(1, 2, 1, 1, 0, 5);
    MR_CHECK_INT(told.n, 2);
    MR_CHECK_INT(mr_status_code(told.p[0].st), MR_INVALID_ARGUMENT);
    end();
}

MR_TEST(groups_source_is_told_as_soon_as_it_is_known)
{
    begin();
    ask(0, 2, -1, 1, 0, 5);
    ask(1, 2, -1, 1, 0, 5);
    forget();
    ask_source(0, false);
    MR_CHECK_INT(told.n, 0);
    ask_source(1, true);
    MR_CHECK_INT(told.n, 2);
    MR_CHECK_INT(told.p[0].source, 1);
    forget();
    ask_source(0, true);
    MR_CHECK_INT(mr_status_code(told.p[0].st), MR_INTERNAL);
    end();
}

MR_TEST(groups_broadcast_without_source_is_told)
{
    begin();
    ask(0, 2, -1, 1, 0, 5);
    ask(1, 2, -1, 1, 0, 5);
    forget();
    ask_source(0, false);
    ask_source(1, false);
    MR_CHECK_INT(told.n, 2);
    MR_CHECK_INT(mr_status_code(told.p[0].st), MR_INTERNAL);
    end();
}

MR_TEST(groups_instances_that_broadcast_have_room_together)
{
    begin();
    ask(0, 2, -1, 1, 0, 5);
    ask(1, 2, -1, 1, 0, 5);
    forget();
    ask_source(0, true);
    int64_t one = table.asked_bytes;
    MR_CHECK(one > 0);
    forget();
    table.asked_bytes = MR_GROUPS_MAX_ASKED; /* by other groups */
    mr_groups_ask_source(&table, &(mr_instance_ask){7, 0, 4, 0, MR_SV("/job:w/replica:0/task:0/device:CPU:0"), -1, true, &callers[0]},
                         &told);
    MR_CHECK_INT(mr_status_code(told.p[0].st), MR_RESOURCE_EXHAUSTED);
    forget();
    ask_source(1, false); /* what is known takes no more */
    MR_CHECK_INT(told.p[0].source, 0);
    mr_status *why = mr_error(MR_ABORTED, "w/1 left");
    mr_groups_break(&table, 5, why, &told);
    mr_status_free(why);
    MR_CHECK_INT(table.asked_bytes, MR_GROUPS_MAX_ASKED - one);
    end();
}

MR_TEST(groups_broken_one_ends_who_waits_for_its_source)
{
    begin();
    ask(0, 2, -1, 1, 0, 5);
    ask(1, 2, -1, 1, 0, 5);
    forget();
    ask_source(0, false);
    mr_status *why = mr_error(MR_ABORTED, "w/1 left");
    mr_groups_break(&table, 5, why, &told);
    mr_status_free(why);
    MR_CHECK_INT(told.n, 1);
    MR_CHECK_INT(mr_status_code(told.p[0].st), MR_ABORTED);
    MR_CHECK_INT(table.records.n, 0);
    end();
}
