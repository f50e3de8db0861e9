/* dist/delay_test.c -- bounded delay: stories of what is said and what follows, and random schedules against the rules. */
#include "dist/delay.h"

#include "base/str.h"
#include "tests/harness/test.h"

typedef struct story {
    mr_delay d;
    mr_str log;
    int64_t now;
} story;

static story begin(int64_t bound)
{
    story t = {0};
    mr_delay_init(&t.d, &(mr_delay_options){.bound = bound}, 0);
    return t;
}

static void end(story *t)
{
    mr_str_deinit(&t->log);
    mr_delay_deinit(&t->d);
}

/* Sends a message and returns the actions: "j1:0" worker 1 joined at 0, "b1:0" it may begin 0, "?1" it must join. */
static const char *say(story *t, int64_t worker, int64_t message, int64_t iteration)
{
    static const char *const how[] = {[MR_DELAY_JOINED] = "%sj%d:%d", [MR_DELAY_BEGIN] = "%sb%d:%d"};
    mr_delay_actions out = {0};
    mr_str_clear(&t->log);
    mr_delay_step(&t->d, &(mr_delay_event){worker, message, iteration}, t->now, &out);
    for (int i = 0; i < out.n; i++) {
        const mr_delay_action *a = &out.p[i];
        const char *gap = i ? " " : "";
        if (a->what == MR_DELAY_STRANGER)
            mr_str_printf(&t->log, "%s?%d", gap, (int)a->worker);
        else
            mr_str_printf(&t->log, how[a->what], gap, (int)a->worker, (int)a->iteration);
    }
    mr_vec_deinit(&out);
    return mr_str_z(&t->log);
}

static void join(story *t, int64_t worker)
{
    say(t, worker, MR_DELAY_JOIN, 0);
}

/* As a worker says it: done with t, on to t + 1. */
static const char *next(story *t, int64_t worker, int64_t iteration)
{
    say(t, worker, MR_DELAY_FINISH, iteration);
    return say(t, worker, MR_DELAY_ASK, iteration + 1);
}

MR_TEST(delay_of_0_keeps_all_in_step)
{
    story t = begin(0);
    join(&t, 7);
    join(&t, 3);
    MR_CHECK_STR(say(&t, 7, MR_DELAY_ASK, 0), "b7:0");
    MR_CHECK_STR(say(&t, 3, MR_DELAY_ASK, 0), "b3:0");
    MR_CHECK_STR(next(&t, 7, 0), "");
    MR_CHECK_STR(say(&t, 3, MR_DELAY_FINISH, 0), "b7:1");
    MR_CHECK_STR(say(&t, 3, MR_DELAY_ASK, 1), "b3:1");
    end(&t);
}

MR_TEST(delay_of_2_lets_a_worker_be_2_ahead)
{
    story t = begin(2);
    join(&t, 0);
    join(&t, 1);
    say(&t, 0, MR_DELAY_ASK, 0);
    say(&t, 1, MR_DELAY_ASK, 0);
    MR_CHECK_STR(next(&t, 0, 0), "b0:1");
    MR_CHECK_STR(next(&t, 0, 1), "b0:2");
    MR_CHECK_STR(next(&t, 0, 2), "");
    MR_CHECK_STR(next(&t, 1, 0), "b1:1");
    MR_CHECK_STR(say(&t, 0, MR_DELAY_ASK, 3), "b0:3"); /* the other's message let it begin already: repeated */
    MR_CHECK_INT(mr_delay_find(&t.d, 0)->lead_max, 2);
    end(&t);
}

MR_TEST(delay_without_a_bound_holds_nobody)
{
    story t = begin(MR_DELAY_EVENTUAL);
    join(&t, 0);
    join(&t, 1);
    say(&t, 0, MR_DELAY_ASK, 0);
    for (int i = 0; i < 100; i++)
        MR_CHECK(next(&t, 0, i)[0] == 'b');
    MR_CHECK_INT(mr_delay_find(&t.d, 0)->waited_ns, 0);
    end(&t);
}

MR_TEST(delay_does_not_wait_for_the_lost)
{
    story t = begin(0);
    for (int i = 0; i < 3; i++) {
        join(&t, i);
        say(&t, i, MR_DELAY_ASK, 0);
    }
    next(&t, 0, 0);
    next(&t, 1, 0);
    MR_CHECK_STR(say(&t, 2, MR_DELAY_LOST, 0), "b0:1 b1:1");
    MR_CHECK_STR(say(&t, 2, MR_DELAY_FINISH, 0), "?2"); /* it lived after all */
    MR_CHECK_STR(say(&t, 2, MR_DELAY_JOIN, 0), "j2:1");
    MR_CHECK_STR(say(&t, 2, MR_DELAY_ASK, 1), "b2:1");
    end(&t);
}

MR_TEST(delay_late_joiners_begin_where_the_slowest_is)
{
    story t = begin(3);
    join(&t, 0);
    join(&t, 1);
    say(&t, 0, MR_DELAY_ASK, 0);
    say(&t, 1, MR_DELAY_ASK, 0);
    for (int i = 0; i < 5; i++) {
        next(&t, 0, i);
        next(&t, 1, i);
    }
    next(&t, 0, 5);
    MR_CHECK_STR(say(&t, 2, MR_DELAY_JOIN, 0), "j2:5");
    say(&t, 0, MR_DELAY_LEAVE, 0);
    say(&t, 1, MR_DELAY_LEAVE, 0);
    say(&t, 2, MR_DELAY_LEAVE, 0);
    MR_CHECK_STR(say(&t, 9, MR_DELAY_JOIN, 0), "j9:5"); /* nobody is there any more */
    end(&t);
}

MR_TEST(delay_takes_messages_that_come_twice_once)
{
    story t = begin(0);
    join(&t, 0);
    say(&t, 0, MR_DELAY_ASK, 0);
    MR_CHECK_STR(say(&t, 0, MR_DELAY_ASK, 0), "b0:0");
    say(&t, 0, MR_DELAY_FINISH, 0);
    say(&t, 0, MR_DELAY_FINISH, 0);
    MR_CHECK_INT(mr_delay_find(&t.d, 0)->iterations, 1);
    MR_CHECK_STR(say(&t, 0, MR_DELAY_ASK, 0), ""); /* late */
    MR_CHECK_STR(say(&t, 0, MR_DELAY_JOIN, 0), "j0:1");
    end(&t);
}

MR_TEST(delay_asking_for_the_next_finishes_the_one_before)
{
    story t = begin(0);
    join(&t, 0);
    say(&t, 0, MR_DELAY_ASK, 0);
    MR_CHECK_STR(say(&t, 0, MR_DELAY_ASK, 1), "b0:1");
    MR_CHECK_INT(mr_delay_find(&t.d, 0)->iterations, 1);
    end(&t);
}

MR_TEST(delay_ignores_messages_that_make_no_sense)
{
    story t = begin(0);
    MR_CHECK_STR(say(&t, 5, MR_DELAY_ASK, 0), "?5");
    MR_CHECK_STR(say(&t, 5, MR_DELAY_FINISH, INT64_MAX), "?5");
    MR_CHECK_STR(say(&t, 5, MR_DELAY_LOST, 0), "");
    MR_CHECK_STR(say(&t, 5, 77, 0), "");
    MR_CHECK_STR(say(&t, 5, INT64_MIN, 0), "");
    join(&t, INT64_MIN);
    MR_CHECK_STR(say(&t, INT64_MIN, MR_DELAY_FINISH, INT64_MIN), "");
    say(&t, INT64_MIN, MR_DELAY_ASK, INT64_MAX);
    MR_CHECK_INT(mr_delay_find(&t.d, INT64_MIN)->state, MR_DELAY_RESTING);
    end(&t);
}

MR_TEST(delay_goes_on_where_it_was_told_to_start)
{
    mr_delay d;
    mr_delay_actions out = {0};
    mr_delay_init(&d, &(mr_delay_options){.bound = 0, .start = 40}, 0);
    mr_delay_step(&d, &(mr_delay_event){1, MR_DELAY_JOIN, 0}, 0, &out);
    MR_CHECK_INT(out.p[0].iteration, 40);
    mr_vec_deinit(&out);
    mr_delay_deinit(&d);
}

/* Worker 1 takes 30 where worker 0 takes 10. */
MR_TEST(delay_counts_waits_staleness_and_who_is_waited_for)
{
    story t = begin(0);
    for (int i = 0; i < 2; i++) {
        join(&t, i);
        say(&t, i, MR_DELAY_ASK, 0);
    }
    t.now = 10;
    next(&t, 0, 0);
    t.now = 25;
    const mr_delay_worker *w = mr_delay_find(&t.d, 0);
    MR_CHECK_INT(mr_delay_waited_ns(w, t.now), 15);
    MR_CHECK(mr_delay_is_waited_for(&t.d, mr_delay_find(&t.d, 1)));
    MR_CHECK(!mr_delay_is_waited_for(&t.d, w));
    t.now = 30;
    next(&t, 1, 0);
    MR_CHECK_INT(w->waited_ns, 20);
    MR_CHECK_INT(w->worked_ns, 10);
    MR_CHECK_INT(mr_delay_blamed_ns(&t.d, mr_delay_find(&t.d, 1)), 20);
    MR_CHECK_INT(mr_delay_blamed_ns(&t.d, w), 0);
    MR_CHECK_INT(mr_delay_find(&t.d, 1)->staleness_max, 1); /* the other finished one meanwhile */
    MR_CHECK_NEAR(mr_delay_mean_staleness(mr_delay_find(&t.d, 1)), 1, 0);
    MR_CHECK_NEAR(mr_delay_mean_staleness(w), 0, 0);
    end(&t);
}

/* ---- whole runs in virtual time ---- */

enum { MOST = 12 };

typedef struct runner {
    story t;
    int n;
    int64_t ends[MOST], at[MOST]; /* when it finishes what it works on; -1: it works on nothing */
    int64_t (*takes)(int worker, int64_t iteration);
} runner;

static void obey(runner *r, const mr_delay_actions *out)
{
    for (int i = 0; i < out->n; i++) {
        const mr_delay_action *a = &out->p[i];
        if (a->what == MR_DELAY_BEGIN && r->ends[a->worker] < 0) {
            r->at[a->worker] = a->iteration;
            r->ends[a->worker] = r->t.now + r->takes((int)a->worker, a->iteration);
        }
    }
}

static void tell(runner *r, int worker, mr_delay_message message, int64_t iteration)
{
    mr_delay_actions out = {0};
    mr_delay_step(&r->t.d, &(mr_delay_event){worker, message, iteration}, r->t.now, &out);
    obey(r, &out);
    mr_vec_deinit(&out);
}

static runner start(int n, int64_t bound, int64_t (*takes)(int, int64_t))
{
    runner r = {.t = begin(bound), .n = n, .takes = takes};
    for (int i = 0; i < n; i++) {
        r.ends[i] = -1;
        tell(&r, i, MR_DELAY_JOIN, 0);
    }
    for (int i = 0; i < n; i++)
        tell(&r, i, MR_DELAY_ASK, 0);
    return r;
}

/* Until the slowest has done so many. */
static void run_until(runner *r, int64_t slowest)
{
    while (r->t.d.slowest < slowest) {
        int first = -1;
        for (int i = 0; i < r->n; i++)
            if (r->ends[i] >= 0 && (first < 0 || r->ends[i] < r->ends[first]))
                first = i;
        MR_CHECK(first >= 0); /* else all wait for each other */
        r->t.now = r->ends[first];
        r->ends[first] = -1;
        tell(r, first, MR_DELAY_FINISH, r->at[first]);
        tell(r, first, MR_DELAY_ASK, r->at[first] + 1);
    }
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ (x >> 32);
}

static int64_t by_chance(int worker, int64_t iteration)
{
    return 100 + (mix((uint64_t)worker * 1000003 + (uint64_t)iteration + 1) % 10 == 0 ? 400 : 0);
}

static int64_t one_is_slow(int worker, int64_t iteration)
{
    (void)iteration;
    return worker == 0 ? 400 : 100;
}

static int64_t all_alike(int worker, int64_t iteration)
{
    (void)iteration;
    return 100 + worker;
}

MR_TEST(delay_adaptive_widens_over_delays_that_come_by_chance)
{
    runner a = start(8, MR_DELAY_ADAPTIVE, by_chance), fixed = start(8, 0, by_chance);
    run_until(&a, 3000);
    run_until(&fixed, 3000);
    MR_CHECK(a.t.d.bound >= 2);
    MR_CHECK(a.t.d.bound <= MR_DELAY_HI);
    MR_CHECK(a.t.now < fixed.t.now * 3 / 4);
    end(&a.t);
    end(&fixed.t);
}

MR_TEST(delay_adaptive_stays_narrow_beside_a_worker_that_is_slow_for_good)
{
    runner a = start(8, MR_DELAY_ADAPTIVE, one_is_slow);
    run_until(&a, 3000);
    MR_CHECK(a.t.d.bound <= 1); /* 1: a trial */
    end(&a.t);
}

MR_TEST(delay_adaptive_comes_back_when_the_delays_are_over)
{
    runner a = start(8, MR_DELAY_ADAPTIVE, by_chance);
    run_until(&a, 3000);
    a.takes = one_is_slow;
    run_until(&a, 3000 + 100 * MR_DELAY_WINDOW);
    MR_CHECK(a.t.d.bound <= 2);
    a.takes = all_alike;
    run_until(&a, 3000 + 140 * MR_DELAY_WINDOW);
    MR_CHECK(a.t.d.bound <= 1);
    end(&a.t);
}

MR_TEST(delay_adaptive_keeps_within_lo_and_hi)
{
    runner a = start(8, MR_DELAY_ADAPTIVE, by_chance);
    a.t.d.o.lo = 1;
    a.t.d.o.hi = 3;
    a.t.d.bound = 1;
    for (int i = 1; i < 3000; i++) {
        run_until(&a, i);
        MR_CHECK(a.t.d.bound >= 1 && a.t.d.bound <= 3);
    }
    end(&a.t);
}

/* ---- random schedules ---- */

/* What must hold after every message, seen from outside. */
static void check_rules(const mr_delay *d)
{
    int64_t slowest = INT64_MAX;
    int there = 0, waiting = 0, lowest = 0;
    for (int i = 0; i < d->workers.n; i++) {
        const mr_delay_worker *w = &d->workers.p[i];
        MR_CHECK(i == 0 || w[-1].id < w->id);
        there += w->state != MR_DELAY_GONE;
        waiting += w->state == MR_DELAY_WAITING;
        if (w->state != MR_DELAY_GONE)
            slowest = MR_MIN(slowest, w->clock);
    }
    MR_CHECK_INT(d->n_there, there);
    MR_CHECK_INT(d->n_waiting, waiting);
    for (int i = 0; i < d->workers.n; i++)
        lowest += d->workers.p[i].state != MR_DELAY_GONE && d->workers.p[i].clock == d->slowest;
    MR_CHECK_INT(d->n_slowest, lowest);
    MR_CHECK(there == 0 || d->slowest == slowest);
    for (int i = 0; i < d->workers.n; i++)
        if (d->workers.p[i].state == MR_DELAY_WAITING)
            MR_CHECK(d->bound >= 0 && d->workers.p[i].clock - slowest > d->bound);
}

static void one_schedule(uint64_t seed)
{
    static const int64_t bounds[] = {0, 1, 3, MR_DELAY_EVENTUAL, MR_DELAY_ADAPTIVE};
    int64_t bound = bounds[seed % 5], began[MOST] = {0};
    uint64_t x = seed;
    story t = begin(bound);
    for (int i = 0; i < 400; i++) {
        x = mix(x + 1);
        int worker = (int)(x % MOST);
        int64_t message = (int64_t)((x >> 8) % 40), was = t.d.slowest;
        const mr_delay_worker *w = mr_delay_find(&t.d, worker);
        int64_t iteration = w ? w->clock + (int64_t)((x >> 20) % 5 == 0) : 0;
        message = message < 3 ? MR_DELAY_JOIN : message < 4 ? MR_DELAY_LEAVE : message < 5 ? MR_DELAY_LOST : message < 22 ? MR_DELAY_FINISH
                                                                                                   : MR_DELAY_ASK;
        t.now += (int64_t)((x >> 32) % 10);
        mr_delay_actions out = {0};
        mr_delay_step(&t.d, &(mr_delay_event){worker, message, iteration}, t.now, &out);
        check_rules(&t.d);
        MR_CHECK(t.d.slowest >= was);
        for (int k = 0; k < out.n; k++) {
            if (out.p[k].what != MR_DELAY_BEGIN)
                continue;
            int64_t lead = out.p[k].iteration - was; /* this very message may have moved the slowest */
            MR_CHECK(bound < 0 || lead <= bound + (t.d.slowest - was));
            MR_CHECK(out.p[k].iteration >= began[out.p[k].worker]);
            began[out.p[k].worker] = out.p[k].iteration;
        }
        mr_vec_deinit(&out);
    }
    end(&t);
}

MR_TEST(delay_random_schedules_keep_the_rules)
{
    for (uint64_t seed = 0; seed < 3000; seed++)
        one_schedule(seed);
}
