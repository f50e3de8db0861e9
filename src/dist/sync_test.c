/* dist/sync_test.c -- the barrier, told as stories: what is said, and what follows. */
#include "dist/sync.h"

#include <stdio.h>

#include "base/memory.h"
#include "base/str.h"
#include "tests/harness/test.h"

typedef struct story {
    mr_sync s;
    mr_str log;
    int64_t now, last;
    bool deaf; /* the chief receives nothing until the next message */
} story;

static story begin(int n, int aggregate)
{
    story t = {0};
    mr_sync_init(&t.s, &(mr_sync_options){n, aggregate, 10, 100}, 1000, 0);
    return t;
}

/* Sends a message and returns the actions: "t0:1" a token for worker 0, "apply 2", "end". */
static const char *say(story *t, int worker, mr_sync_message message, int64_t stamp)
{
    mr_sync_actions out = {0};
    mr_str_clear(&t->log);
    for (; !t->deaf && t->last < t->now; t->last++) /* the chief's own messages */
        mr_sync_step(&t->s, &(mr_sync_event){-1, MR_SYNC_ALIVE, 0}, t->last, &out);
    t->last = t->now;
    t->deaf = false;
    mr_sync_step(&t->s, &(mr_sync_event){worker, message, stamp + 1000}, t->now, &out);
    for (int i = 0; i < out.n; i++) {
        const mr_sync_action *a = &out.p[i];
        const char *gap = i ? " " : "";
        if (a->what == MR_SYNC_TOKEN)
            mr_str_printf(&t->log, "%st%d:%d", gap, a->worker, (int)(a->stamp - 1000));
        else if (a->what == MR_SYNC_APPLY)
            mr_str_printf(&t->log, "%sapply %d", gap, a->count);
        else
            mr_str_printf(&t->log, "%send", gap);
    }
    mr_vec_deinit(&out);
    return mr_str_z(&t->log);
}

static void end(story *t)
{
    mr_str_deinit(&t->log);
    mr_sync_deinit(&t->s);
}

MR_TEST(sync_waits_for_all_workers)
{
    story t = begin(2, 0);
    MR_CHECK_STR(say(&t, 0, MR_SYNC_JOIN, 0), "t0:0");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), ""); /* the other has not even come */
    MR_CHECK_STR(say(&t, 1, MR_SYNC_JOIN, 0), "t1:0");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 0), "apply 2 t0:1 t1:1");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 1), "");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 1), ""); /* twice from one is once */
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 1), "apply 2 t0:2 t1:2");
    end(&t);
}

MR_TEST(sync_first_m_of_n_complete_a_step)
{
    story t = begin(3, 2);
    for (int i = 0; i < 3; i++)
        say(&t, i, MR_SYNC_JOIN, 0);
    MR_CHECK_STR(say(&t, 2, MR_SYNC_ARRIVED, 0), "");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), "apply 2 t0:1 t1:1 t2:1");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 0), ""); /* the backup came late: it counts for nothing */
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 1), "");
    MR_CHECK_STR(say(&t, 2, MR_SYNC_ARRIVED, 1), "apply 2 t0:2 t1:2 t2:2");
    end(&t);
}

/* One step of 4 workers: all have arrived but the last after 1, which takes `late` and has not given yet. */
static const char *all_but_one(story *t, int64_t stamp)
{
    const char *last = "";
    t->now++;
    for (int i = 0; i < 3; i++)
        last = say(t, i, MR_SYNC_ARRIVED, stamp);
    return last;
}

MR_TEST(backups_of_a_barrier_follow_the_times_of_workers)
{
    story t = begin(4, MR_SYNC_ADAPTIVE);
    t.s.o.lease_ns = 0;
    for (int i = 0; i < 4; i++)
        say(&t, i, MR_SYNC_JOIN, 0);
    for (int stamp = 0; stamp < 2; stamp++) { /* nothing is known: all are waited for, and are alike */
        MR_CHECK_STR(all_but_one(&t, stamp), "");
        say(&t, 3, MR_SYNC_ARRIVED, stamp);
    }
    for (int stamp = 2; stamp < 4; stamp++) { /* the last takes four times as long: once may be chance */
        MR_CHECK_STR(all_but_one(&t, stamp), "");
        t.now += 3;
        say(&t, 3, MR_SYNC_ARRIVED, stamp);
    }
    MR_CHECK_STR(all_but_one(&t, 4), "apply 3 t0:5 t1:5 t2:5 t3:5");
    MR_CHECK_STR(say(&t, 3, MR_SYNC_ARRIVED, 4), ""); /* too late, but as quick as ever */
    MR_CHECK_INT(t.s.members[3].n_late, 1);
    for (int stamp = 5; stamp < 14; stamp++) {
        all_but_one(&t, stamp);
        say(&t, 3, MR_SYNC_ARRIVED, stamp);
    }
    MR_CHECK_STR(all_but_one(&t, 14), ""); /* it is waited for again */
    MR_CHECK_STR(say(&t, 3, MR_SYNC_ARRIVED, 14), "apply 4 t0:15 t1:15 t2:15 t3:15");
    end(&t);
}

/* It is alive, but does not arrive: the step that notices does not wait for it without end. */
MR_TEST(backups_of_a_barrier_give_up_within_a_step)
{
    story t = begin(4, MR_SYNC_ADAPTIVE);
    t.s.o.lease_ns = 0;
    for (int i = 0; i < 4; i++)
        say(&t, i, MR_SYNC_JOIN, 0);
    for (int stamp = 0; stamp < 5; stamp++) {
        all_but_one(&t, stamp);
        say(&t, 3, MR_SYNC_ARRIVED, stamp);
    }
    MR_CHECK_STR(all_but_one(&t, 5), "");
    t.now += 20;
    MR_CHECK_STR(say(&t, 3, MR_SYNC_ALIVE, 0), "apply 3 t0:6 t1:6 t2:6 t3:6");
    end(&t);
}

MR_TEST(sync_who_leaves_is_not_waited_for)
{
    story t = begin(2, 0);
    say(&t, 0, MR_SYNC_JOIN, 0);
    say(&t, 1, MR_SYNC_JOIN, 0);
    say(&t, 0, MR_SYNC_ARRIVED, 0);
    MR_CHECK_STR(say(&t, 1, MR_SYNC_LEAVE, 0), "apply 1 t0:1");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ALIVE, 0), ""); /* an old message does not bring it back */
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 1), "apply 1 t0:2");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_LEAVE, 0), "end");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_JOIN, 0), "");
    end(&t);
}

MR_TEST(sync_who_falls_silent_is_not_waited_for_and_comes_back)
{
    story t = begin(2, 0);
    say(&t, 0, MR_SYNC_JOIN, 0);
    say(&t, 1, MR_SYNC_JOIN, 0);
    say(&t, 0, MR_SYNC_ARRIVED, 0);
    t.now = 9;
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ALIVE, 0), "");
    t.now = 11;
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ALIVE, 0), "apply 1 t0:1");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_JOIN, 0), "t1:1"); /* started again */
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 1), "");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 1), "apply 2 t0:2 t1:2");
    end(&t);
}

/* Its first incarnation gave for this stamp: the second waits for the next one. */
MR_TEST(sync_a_worker_gives_once_a_stamp_in_two_lives)
{
    story t = begin(2, 0);
    say(&t, 0, MR_SYNC_JOIN, 0);
    say(&t, 1, MR_SYNC_JOIN, 0);
    say(&t, 1, MR_SYNC_ARRIVED, 0);
    MR_CHECK_STR(say(&t, 1, MR_SYNC_JOIN, 0), "");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), "apply 2 t0:1 t1:1");
    end(&t);
}

MR_TEST(sync_workers_that_never_come_are_waited_for_a_while)
{
    story t = begin(3, 0);
    say(&t, 0, MR_SYNC_JOIN, 0);
    say(&t, 0, MR_SYNC_ARRIVED, 0);
    t.now = 101;
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ALIVE, 0), "apply 1 t0:1");
    end(&t);
}

MR_TEST(sync_a_new_chief_finds_its_workers)
{
    story t = begin(2, 0); /* both wait for tokens of the one before, and only say that they live */
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ALIVE, -50), "t1:0");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, -50), "t0:0"); /* of an old stamp: no gradient */
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), "");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 0), "apply 2 t0:1 t1:1");
    end(&t);
}

/* All others left before the chief was restarted: it ends without them as soon as it has nothing to do itself. */
MR_TEST(sync_a_new_chief_does_not_wait_for_who_left_before)
{
    story t = begin(3, 0);
    mr_sync_remember_left(&t.s, 1);
    mr_sync_remember_left(&t.s, 2);
    MR_CHECK_STR(say(&t, 0, MR_SYNC_JOIN, 0), "t0:0");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), "apply 1 t0:1");
    MR_CHECK_STR(say(&t, 2, MR_SYNC_JOIN, 0), "t2:1"); /* it is back after all */
    MR_CHECK_STR(say(&t, 0, MR_SYNC_LEAVE, 0), "");
    MR_CHECK_STR(say(&t, 2, MR_SYNC_ARRIVED, 1), "apply 1 t2:2");
    MR_CHECK_STR(say(&t, 2, MR_SYNC_LEAVE, 0), "end");
    end(&t);
}

MR_TEST(sync_messages_of_nobody_are_ignored)
{
    story t = begin(1, 0);
    MR_CHECK_STR(say(&t, -1, MR_SYNC_JOIN, 0), "");
    MR_CHECK_STR(say(&t, 7, MR_SYNC_ARRIVED, 0), "");
    MR_CHECK_STR(say(&t, 0, (mr_sync_message)77, 0), "");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_JOIN, 0), "t0:0");
    end(&t);
}

MR_TEST(sync_last_gradients_count_although_their_workers_left)
{
    story t = begin(2, 0);
    say(&t, 0, MR_SYNC_JOIN, 0);
    say(&t, 1, MR_SYNC_JOIN, 0);
    say(&t, 0, MR_SYNC_ARRIVED, 0);
    MR_CHECK_STR(say(&t, 0, MR_SYNC_LEAVE, 0), "");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_LEAVE, 0), "apply 1 end");
    end(&t);
}

/* It may only be slow: when it is back there must be somebody who gives it a token. */
MR_TEST(sync_does_not_end_because_the_last_worker_is_silent)
{
    story t = begin(1, 0);
    say(&t, 0, MR_SYNC_JOIN, 0);
    t.now = 11;
    MR_CHECK_STR(say(&t, -1, MR_SYNC_ALIVE, 0), "");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), "apply 1 t0:1");
    t.now = 11 + 10 * MR_SYNC_PATIENCE;
    MR_CHECK_STR(say(&t, -1, MR_SYNC_ALIVE, 0), "");
    t.now++;
    MR_CHECK_STR(say(&t, -1, MR_SYNC_ALIVE, 0), "end");
    end(&t);
}

/* The chief was stopped, or cut off from the queue: no worker was silent, and their messages are in the queue. */
MR_TEST(sync_does_not_end_because_the_chief_was_deaf)
{
    story t = begin(2, 0);
    say(&t, 0, MR_SYNC_JOIN, 0);
    say(&t, 1, MR_SYNC_JOIN, 0);
    t.now = 1000;
    t.deaf = true;
    MR_CHECK_STR(say(&t, -1, MR_SYNC_ALIVE, 0), "");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), ""); /* the other is waited for */
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 0), "apply 2 t0:1 t1:1");
    end(&t);
}

/* The token, or the message of arrival, was taken by a session that is gone. */
MR_TEST(sync_tokens_come_again)
{
    story t = begin(2, 0);
    say(&t, 0, MR_SYNC_JOIN, 0);
    say(&t, 1, MR_SYNC_JOIN, 0);
    say(&t, 0, MR_SYNC_ARRIVED, 0);
    t.now = 6;
    say(&t, 1, MR_SYNC_ALIVE, 0);
    t.now = 10;
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ALIVE, 0), "");
    t.now = 11;
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ALIVE, 0), "t1:0"); /* not for who arrived */
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ALIVE, 0), "");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 0), "apply 2 t0:1 t1:1");
    end(&t);
}

/* ---- bounded delay ---- */

static story begin_bounded(int n, int64_t delay)
{
    story t = {0};
    mr_sync_init(&t.s, &(mr_sync_options){.n_workers = n, .lease_ns = 10, .join_ns = 100, .bounded = true, .delay = delay}, 1000, 0);
    return t;
}

MR_TEST(delay_of_a_barrier_gives_each_worker_its_own_tokens)
{
    story t = begin_bounded(2, 1);
    MR_CHECK_STR(say(&t, 0, MR_SYNC_JOIN, 0), "t0:0");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_JOIN, 0), "t1:0");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), "t0:1");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 1), ""); /* 2 would be too far ahead */
    MR_CHECK(mr_sync_figures_of(&t.s, 1).waited_for);
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 0), "t0:2 t1:1");
    MR_CHECK_INT(mr_sync_figures_of(&t.s, 0).iterations, 2);
    end(&t);
}

MR_TEST(delay_of_a_barrier_does_not_wait_for_the_silent_or_gone)
{
    story t = begin_bounded(3, 0);
    for (int i = 0; i < 3; i++)
        say(&t, i, MR_SYNC_JOIN, 0);
    say(&t, 0, MR_SYNC_ARRIVED, 0);
    MR_CHECK_STR(say(&t, 1, MR_SYNC_LEAVE, 0), "");
    t.now = 8;
    say(&t, 0, MR_SYNC_ALIVE, 0);
    t.now = 11; /* nothing was heard of 2 for longer than its lease */
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ALIVE, 0), "t0:1");
    MR_CHECK_STR(say(&t, 2, MR_SYNC_ALIVE, 0), "t2:1"); /* it is alive, and continues where the others are */
    end(&t);
}

MR_TEST(delay_of_a_barrier_tells_lost_tokens_again)
{
    story t = begin_bounded(1, 0);
    say(&t, 0, MR_SYNC_JOIN, 0);
    t.now = 6;
    say(&t, 0, MR_SYNC_ALIVE, 0);
    t.now = 11;
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ALIVE, 0), "t0:0");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), "t0:1");
    MR_CHECK_STR(say(&t, 0, MR_SYNC_ARRIVED, 0), ""); /* twice is once */
    MR_CHECK_STR(say(&t, 0, MR_SYNC_JOIN, 0), "t0:1"); /* its session was lost */
    MR_CHECK_STR(say(&t, 0, MR_SYNC_LEAVE, 0), "end");
    end(&t);
}

/* Words for an earlier chief mean nothing, but who says them is there. */
MR_TEST(delay_of_a_barrier_takes_workers_of_an_earlier_chief)
{
    story t = begin_bounded(2, 0);
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, -500), "t1:0");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, -500), "");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, INT64_MAX - 2000), "");
    MR_CHECK_STR(say(&t, 1, MR_SYNC_ARRIVED, 0), "t1:1");
    end(&t);
}
