/* dist/election_test.c -- who is the chief, told as stories of workers around one record. */
#include "dist/election.h"

#include "base/memory.h"
#include "tests/harness/test.h"

enum { N = 4, PATIENCE = 40, LOOK = 5 };

typedef struct story {
    mr_election e[N];
    bool up[N];
    mr_chief_record record;
    int64_t now;
} story;

static void rise(story *t, int worker)
{
    t->up[worker] = true;
    mr_election_init(&t->e[worker], worker, PATIENCE, t->now);
}

static story begin(void)
{
    story t = {.record = {-1, -1}};
    for (int i = 0; i < N; i++)
        rise(&t, i);
    return t;
}

/* A look, or a compare and swap. */
static bool look_once(story *t, int worker)
{
    mr_chief_record expect, want;
    mr_election *e = &t->e[worker];
    if (mr_election_next(e, &expect, &want) && expect.worker == t->record.worker && expect.count == t->record.count)
        t->record = want;
    return mr_election_saw(e, t->record, t->now);
}

static void look(story *t, int worker)
{
    while (look_once(t, worker))
        ;
}

/* Time passes; all who are up look now and then, the highest first. */
static void pass(story *t, int64_t time)
{
    for (int64_t end = t->now + time; t->now < end; t->now += LOOK)
        for (int i = N - 1; i >= 0; i--)
            if (t->up[i])
                look(t, i);
}

/* The one chief; -1: there is none, -2: there are several. */
static int chief(const story *t)
{
    int found = -1;
    for (int i = 0; i < N; i++)
        if (t->up[i] && t->e[i].chief)
            found = found == -1 ? i : -2;
    return found;
}

MR_TEST(election_worker_0_begins)
{
    story t = begin();
    pass(&t, 2 * LOOK);
    MR_CHECK_INT(chief(&t), 0);
    pass(&t, 10 * PATIENCE);
    MR_CHECK_INT(chief(&t), 0);
}

MR_TEST(election_the_lowest_that_lives_follows)
{
    story t = begin();
    pass(&t, 2 * LOOK);
    t.up[0] = t.up[1] = false;
    pass(&t, PATIENCE / 2);
    MR_CHECK_INT(chief(&t), -1); /* it may come back */
    pass(&t, 2 * PATIENCE);
    MR_CHECK_INT(chief(&t), 2);
}

MR_TEST(election_who_is_back_in_time_is_chief_at_once)
{
    story t = begin();
    pass(&t, 2 * LOOK);
    t.up[0] = false;
    pass(&t, PATIENCE / 2);
    rise(&t, 0);
    look(&t, 0);
    MR_CHECK_INT(chief(&t), 0);
}

MR_TEST(election_the_lowest_takes_its_place_again)
{
    story t = begin();
    pass(&t, 2 * LOOK);
    t.up[0] = false;
    pass(&t, 3 * PATIENCE);
    MR_CHECK_INT(chief(&t), 1);
    rise(&t, 0);
    pass(&t, 3 * LOOK);
    MR_CHECK_INT(chief(&t), 0);
}

MR_TEST(election_goes_on_when_the_record_is_lost)
{
    story t = begin();
    t.up[0] = false;
    pass(&t, 3 * PATIENCE);
    MR_CHECK_INT(chief(&t), 1);
    t.record = (mr_chief_record){-1, -1};
    pass(&t, 3 * LOOK);
    MR_CHECK_INT(chief(&t), 1); /* not the others after their patience */
}

MR_TEST(election_worker_0_may_never_come)
{
    story t = begin();
    t.up[0] = false;
    pass(&t, PATIENCE / 2);
    MR_CHECK_INT(chief(&t), -1);
    pass(&t, 2 * PATIENCE);
    MR_CHECK_INT(chief(&t), 1);
}

/* Cut off from the record, nobody could write: the first look after that does not tell that the chief is gone. */
MR_TEST(election_blindness_is_no_silence)
{
    story t = begin();
    pass(&t, 2 * LOOK);
    t.now += 100 * PATIENCE;
    for (int i = N - 1; i >= 0; i--)
        look(&t, i);
    MR_CHECK_INT(chief(&t), 0);
}

/* The answer to a write was lost with its session: it is found in the record. */
MR_TEST(election_a_write_whose_answer_was_lost_counts)
{
    story t = begin();
    pass(&t, 2 * LOOK);
    mr_chief_record expect, want;
    MR_CHECK(mr_election_next(&t.e[0], &expect, &want));
    t.record = want;
    look(&t, 0);
    MR_CHECK_INT(chief(&t), 0);
}
