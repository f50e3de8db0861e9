/* dist/downpour_test.c -- a replica told as stories, and under schedules drawn from seeds. */
#include "dist/downpour.h"

#include "base/str.h"
#include "tests/harness/test.h"

typedef struct story {
    mr_downpour_plan d;
    mr_str log;
} story;

static story begin(int64_t n_fetch, int64_t n_push, int64_t most_behind, int replica, int64_t warm)
{
    story t = {0};
    mr_downpour_init(&t.d, &(mr_downpour_rules){n_fetch, n_push, most_behind, replica, warm, 10});
    return t;
}

/* What follows from an event: "fetch step push2 install watch end". */
static const char *say(story *t, mr_downpour_event e, int64_t value, int64_t now)
{
    static const char *const names[] = {"watch", "fetch", "install", "step", "push", "end"};
    mr_downpour_actions out = {0};
    mr_str_clear(&t->log);
    mr_downpour_step(&t->d, e, value, now, &out);
    if (e == MR_DOWNPOUR_BEGIN || e == MR_DOWNPOUR_STEPPED) /* there always is more data */
        mr_downpour_step(&t->d, MR_DOWNPOUR_WANT, 0, now, &out);
    for (int i = 0; i < out.n; i++) {
        mr_str_printf(&t->log, "%s%s", i ? " " : "", names[out.p[i].what]);
        if (out.p[i].what == MR_DOWNPOUR_PUSH)
            mr_str_printf(&t->log, "%d", (int)out.p[i].steps);
    }
    mr_vec_deinit(&out);
    return mr_str_z(&t->log);
}

static void end(story *t) { mr_str_deinit(&t->log); }

MR_TEST(downpour_computes_beside_fetch_and_push)
{
    story t = begin(1, 1, 8, 0, 0);
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_BEGIN, 0, 1), "fetch");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_FETCHED, 0, 1), "install step"); /* it was asked for before step 0 already */
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "push1 fetch step");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "step"); /* neither has been answered */
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_PUSHED, 0, 1), "push1");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_FETCHED, 0, 1), ""); /* the step reads its parameters */
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "install fetch step");
    end(&t);
}

MR_TEST(downpour_pushes_and_fetches_every_so_many_steps)
{
    story t = begin(3, 2, 8, 0, 0);
    say(&t, MR_DOWNPOUR_BEGIN, 0, 1);
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_FETCHED, 0, 1), "install step");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "step");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "push2 step");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "fetch step");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_PUSHED, 0, 1), "");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "push2 step");
    end(&t);
}

MR_TEST(downpour_waits_when_the_servers_are_too_far_behind)
{
    story t = begin(1, 1, 2, 0, 0);
    say(&t, MR_DOWNPOUR_BEGIN, 0, 1);
    say(&t, MR_DOWNPOUR_FETCHED, 0, 1);
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "push1 fetch step");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "step");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "");
    MR_CHECK(mr_downpour_waits(&t.d));
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_PUSHED, 0, 1), "push2 step"); /* what was accrued meanwhile */
    end(&t);
}

MR_TEST(downpour_finishes_when_all_is_pushed)
{
    story t = begin(1, 4, 8, 0, 0);
    say(&t, MR_DOWNPOUR_BEGIN, 0, 1);
    say(&t, MR_DOWNPOUR_FETCHED, 0, 1);
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "fetch step");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_FINISH, 0, 1), "");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_STEPPED, 0, 1), "push2");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_PUSHED, 0, 1), "");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_FETCHED, 0, 1), "install end");
    end(&t);
}

MR_TEST(downpour_installs_what_comes_while_no_step_is_wanted)
{
    story t = begin(1, 4, 8, 0, 0);
    say(&t, MR_DOWNPOUR_BEGIN, 0, 1);
    say(&t, MR_DOWNPOUR_FETCHED, 0, 1);
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_UNDONE, 0, 1), ""); /* the client's data were wrong */
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_WANT, 0, 1), "step");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_UNDONE, 0, 1), "");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_FINISH, 0, 1), "end"); /* nothing was computed */
    end(&t);
}

MR_TEST(downpour_warm_start_lets_the_first_replica_go_alone)
{
    story t = begin(1, 1, 8, 1, 100);
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_BEGIN, 0, 1), "watch");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_PROGRESS, 40, 2), "watch");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_PROGRESS, 90, 11), "watch");
    MR_CHECK_STR(say(&t, MR_DOWNPOUR_PROGRESS, 100, 12), "fetch");
    end(&t);
}

MR_TEST(downpour_warm_start_outlives_the_first_replica)
{
    story second = begin(1, 1, 8, 1, 100), third = begin(1, 1, 8, 2, 100);
    say(&second, MR_DOWNPOUR_BEGIN, 0, 1);
    say(&third, MR_DOWNPOUR_BEGIN, 0, 1);
    say(&second, MR_DOWNPOUR_PROGRESS, 40, 5);
    say(&third, MR_DOWNPOUR_PROGRESS, 40, 5);
    MR_CHECK_STR(say(&second, MR_DOWNPOUR_PROGRESS, 40, 14), "watch");
    MR_CHECK_STR(say(&second, MR_DOWNPOUR_PROGRESS, 40, 15), "fetch"); /* nothing moved for its patience */
    MR_CHECK_STR(say(&third, MR_DOWNPOUR_PROGRESS, 41, 15), "watch");  /* the second one trains now */
    end(&second);
    end(&third);
}

/* ---- schedules from seeds ---- */

typedef struct world {
    mr_downpour_plan d;
    mr_downpour_actions todo;
    bool fetch, push, step, ended;
    int64_t on_way, pushed, accrued, newest; /* kept apart from the plan's own counts */
} world;

static uint64_t draw(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return *s >> 33;
}

static void carry_out(world *w)
{
    for (int i = 0; i < w->todo.n; i++)
        switch (w->todo.p[i].what) {
        case MR_DOWNPOUR_FETCH: MR_CHECK(!w->fetch && !w->step); w->fetch = true; break;
        case MR_DOWNPOUR_INSTALL: MR_CHECK(!w->step); break;
        case MR_DOWNPOUR_STEP: MR_CHECK(!w->step && !w->ended); w->step = true; break;
        case MR_DOWNPOUR_PUSH:
            MR_CHECK(!w->push);
            MR_CHECK_INT(w->todo.p[i].steps, w->accrued); /* all there is */
            w->push = true;
            w->on_way = w->accrued;
            w->accrued = 0;
            break;
        case MR_DOWNPOUR_END: w->ended = true; break;
        case MR_DOWNPOUR_WATCH: break;
        }
    w->todo.n = 0;
}

static void happen(world *w, mr_downpour_event e)
{
    mr_downpour_step(&w->d, e, 0, 1, &w->todo);
    if (e == MR_DOWNPOUR_BEGIN || e == MR_DOWNPOUR_STEPPED)
        mr_downpour_step(&w->d, MR_DOWNPOUR_WANT, 0, 1, &w->todo);
    carry_out(w);
}

/* One of the things under way ends; false when there is none: then the replica would hang. */
static bool something_ends(world *w, uint64_t *seed)
{
    for (int tries = 0; tries < 64; tries++)
        switch (draw(seed) % 3) {
        case 0:
            if (!w->fetch)
                break;
            w->fetch = false;
            happen(w, MR_DOWNPOUR_FETCHED);
            return true;
        case 1:
            if (!w->push)
                break;
            w->push = false;
            w->pushed += w->on_way;
            happen(w, MR_DOWNPOUR_PUSHED);
            return true;
        default:
            if (!w->step)
                break;
            w->step = false;
            w->accrued++;
            happen(w, MR_DOWNPOUR_STEPPED);
            return true;
        }
    return false;
}

MR_TEST(downpour_pushes_every_gradient_once_whatever_the_order)
{
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        uint64_t s = seed;
        world w = {0};
        mr_downpour_rules o = {1 + (int64_t)(draw(&s) % 5), 1 + (int64_t)(draw(&s) % 5), (int64_t)(draw(&s) % 9), 0, 0, 0};
        mr_downpour_init(&w.d, &o);
        happen(&w, MR_DOWNPOUR_BEGIN);
        while (w.d.steps < 60) {
            MR_CHECK(something_ends(&w, &s));
            MR_CHECK(w.accrued + (w.push ? w.on_way : 0) <= o.most_behind + o.n_push + MR_MAX(o.most_behind, o.n_push));
        }
        happen(&w, MR_DOWNPOUR_FINISH);
        while (!w.ended)
            MR_CHECK(something_ends(&w, &s));
        MR_CHECK_INT(w.pushed, w.d.steps);
        MR_CHECK(!w.fetch && !w.push && !w.step && w.accrued == 0);
        mr_vec_deinit(&w.todo);
    }
}

MR_TEST(downpour_cuts_evenly)
{
    for (int64_t total = 0; total < 50; total++)
        for (int64_t i = 0; i < 10; i++) {
            int64_t n = mr_downpour_cut(total, 10, i + 1) - mr_downpour_cut(total, 10, i);
            MR_CHECK(n == total / 10 || n == total / 10 + 1);
        }
    MR_CHECK_INT(mr_downpour_cut(23, 10, 10), 23);
}
