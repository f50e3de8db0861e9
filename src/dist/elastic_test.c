/* dist/elastic_test.c -- generations of workers that come and go. */
#include "dist/elastic.h"

#include "base/memory.h"
#include "tests/harness/test.h"

enum { N = 4 };

typedef struct rig {
    mr_elastic e;
    mr_elastic_answers out;
    int64_t now, ends;
    char callers[N];
} rig;

static void forget(rig *r)
{
    for (int i = 0; i < r->out.n; i++)
        mr_status_free(r->out.p[i].st);
    r->out.n = 0;
}

static void end(rig *r)
{
    forget(r);
    mr_vec_deinit(&r->out);
    mr_elastic_deinit(&r->e);
}

static void ask(rig *r, int worker, int64_t generation, int64_t step)
{
    mr_elastic_step(&r->e, &(mr_elastic_ask){worker, N, generation, step, 1000, 10, &r->callers[worker]}, r->now, &r->out, &r->ends);
}

static void begin(rig *r)
{
    *r = (rig){0};
    for (int i = N - 1; i >= 0; i--)
        ask(r, i, 0, -1);
}

MR_TEST(elastic_first_generation_has_all_in_the_order_of_workers)
{
    rig r;
    begin(&r);
    MR_CHECK_INT(r.out.n, N);
    for (int i = 0; i < N; i++) {
        MR_CHECK(r.out.p[i].caller == &r.callers[i]);
        MR_CHECK_INT(r.out.p[i].rank, i);
        MR_CHECK_INT(r.out.p[i].generation, 1);
        MR_CHECK_INT(r.out.p[i].source, 0);
    }
    end(&r);
}

MR_TEST(elastic_first_generation_waits_but_not_for_ever)
{
    rig r = {0};
    ask(&r, 1, 0, -1);
    ask(&r, 2, 0, -1);
    mr_elastic_tick(&r.e, 999, &r.out);
    MR_CHECK_INT(r.out.n, 0);
    MR_CHECK_INT(mr_elastic_next_ns(&r.e), 1000);
    mr_elastic_tick(&r.e, 1000, &r.out);
    MR_CHECK_INT(r.out.n, 2);
    MR_CHECK_INT(r.out.p[0].size, 2);
    end(&r);
}

MR_TEST(elastic_rest_goes_on_when_one_is_lost)
{
    rig r;
    begin(&r);
    forget(&r);
    ask(&r, 0, 1, 7);
    MR_CHECK_INT(r.ends, 1);
    ask(&r, 3, 1, 8); /* it has made the step that the others have not */
    MR_CHECK_INT(r.ends, 0);
    ask(&r, 1, 1, 7);
    mr_elastic_tick(&r.e, 10, &r.out);
    MR_CHECK_INT(r.out.n, 3);
    MR_CHECK_INT(r.out.p[2].generation, 2);
    MR_CHECK_INT(r.out.p[0].source, 2);
    end(&r);
}

MR_TEST(elastic_who_comes_back_ends_the_generation_at_work)
{
    rig r = {0};
    for (int i = 0; i < 3; i++)
        ask(&r, i, 0, -1);
    mr_elastic_tick(&r.e, 1000, &r.out);
    MR_CHECK_INT(r.out.n, 3);
    forget(&r);
    ask(&r, 3, 0, -1);
    MR_CHECK_INT(r.ends, 1);
    for (int i = 0; i < 3; i++)
        ask(&r, i, 1, 5);
    MR_CHECK_INT(r.out.n, 4);
    MR_CHECK_INT(r.out.p[3].size, 4);
    MR_CHECK_INT(r.out.p[3].source, 0);
    end(&r);
}

MR_TEST(elastic_numbers_go_on_after_the_leader_was_started_anew)
{
    rig r = {0};
    ask(&r, 0, 6, 9);
    ask(&r, 2, 0, -1);
    mr_elastic_tick(&r.e, 1000, &r.out);
    MR_CHECK_INT(r.out.p[0].generation, 7);
    end(&r);
}

MR_TEST(elastic_no_number_that_a_worker_tells_is_the_last_one)
{
    static const int64_t told[] = {MR_ELASTIC_MAX_GENERATION - 1, MR_ELASTIC_MAX_GENERATION, 1, 77};
    rig r = {0};
    for (int i = 0; i < 4; i++, r.now += 100000) { /* each member of a generation can ask for the next */
        int64_t last = r.e.generation;
        ask(&r, 0, told[i], -1);
        ask(&r, 1, last, 3);
        mr_elastic_tick(&r.e, r.now + 50000, &r.out);
        MR_CHECK_INT(r.out.n, 2);
        MR_CHECK_OK(r.out.p[1].st);
        MR_CHECK(r.out.p[1].generation != last && r.out.p[1].generation >= 1);
        MR_CHECK(r.out.p[1].generation <= MR_ELASTIC_MAX_GENERATION);
        forget(&r);
    }
    MR_CHECK_INT(r.e.generation, 78);
    ask(&r, 2, INT64_MAX, 0);
    MR_CHECK_INT(mr_status_code(r.out.p[0].st), MR_INVALID_ARGUMENT);
    end(&r);
}

MR_TEST(elastic_who_leaves_or_asks_again_is_counted_once)
{
    rig r = {0};
    ask(&r, 0, 0, -1);
    ask(&r, 0, 0, -1);
    MR_CHECK_INT(r.out.n, 1);
    MR_CHECK_INT(mr_status_code(r.out.p[0].st), MR_ABORTED);
    forget(&r);
    mr_elastic_leave(&r.e, &r.callers[0]);
    MR_CHECK_INT(mr_elastic_next_ns(&r.e), 0);
    ask(&r, N, 0, -1);
    MR_CHECK_INT(mr_status_code(r.out.p[0].st), MR_INVALID_ARGUMENT);
    end(&r);
}

/* Two that take longer to ask again than they are waited for: each would be in a generation of its own, by turns. */
MR_TEST(elastic_slow_workers_come_together)
{
    rig r = {0};
    int64_t at[2] = {0, 7}; /* when each asks next; 0: it is in */
    int64_t in[2] = {0, 0};
    bool together = false;
    ask(&r, 2, 0, -1);
    mr_elastic_tick(&r.e, 1000, &r.out); /* the first generation is behind them */
    forget(&r);
    for (r.now = 2000; r.now < 9000 && !together; r.now++) {
        for (int i = 0; i < 2; i++)
            if (at[i] >= 0 && r.now >= 2000 + at[i]) {
                at[i] = -1;
                ask(&r, i, in[i], 1);
                if (r.ends && in[1 - i] == r.ends)
                    at[1 - i] = r.now - 2000 + 35; /* it hears, and needs more than the 10 that it is waited for */
            }
        mr_elastic_tick(&r.e, r.now, &r.out);
        for (int k = 0; k < r.out.n; k++) {
            in[(char *)r.out.p[k].caller - r.callers] = r.out.p[k].generation;
            together |= r.out.p[k].size == 2;
        }
        forget(&r);
    }
    MR_CHECK(together);
    end(&r);
}

/* Workers are lost and come back at random; from then on that nothing happens any more, all who live are in one generation. */
MR_TEST(elastic_random_lives_end_in_one_generation)
{
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        rig r = {0};
        uint64_t rng = seed * 0x9E3779B97F4A7C15u;
        bool alive[N] = {true, true, true, true}, asked[N] = {0};
        int64_t in[N] = {0}, last = 0;
        for (int t = 0; t < 80; t++, r.now += 4) {
            for (int i = 0; i < N; i++) {
                rng = rng * 6364136223846793005u + 1442695040888963407u;
                if (t < 40 && rng >> 60 == 0) { /* killed, or started */
                    alive[i] = !alive[i];
                    if (asked[i])
                        mr_elastic_leave(&r.e, &r.callers[i]);
                    asked[i] = false;
                    in[i] = 0;
                }
                bool ended = in[i] && (in[i] != r.e.generation || r.e.members.n == 0);
                for (int k = 0; k < r.e.members.n && in[i]; k++)
                    ended |= !alive[r.e.members.p[k]];
                if (alive[i] && !asked[i] && (!in[i] || ended)) {
                    int64_t was = in[i];
                    asked[i] = true;
                    in[i] = 0;
                    ask(&r, i, was, was);
                }
            }
            mr_elastic_tick(&r.e, r.now, &r.out);
            for (int k = 0; k < r.out.n; k++) {
                int64_t w = (char *)r.out.p[k].caller - r.callers;
                asked[w] = false;
                if (r.out.p[k].st)
                    continue;
                in[w] = r.out.p[k].generation;
                MR_CHECK(in[w] > 0 && r.out.p[k].rank < r.out.p[k].size);
                last = MR_MAX(last, in[w]);
            }
            forget(&r);
            if ((t < 40 || t > 60) && t % 8 == 7)
                r.now += 1000;
        }
        for (int i = 0; i < N; i++)
            MR_CHECK(!alive[i] || in[i] == last);
        end(&r);
    }
}

MR_TEST(elastic_idle_one_is_handed_over_to_another_group)
{
    rig r;
    begin(&r);
    forget(&r);
    MR_CHECK(!mr_elastic_is_idle(&r.e, MR_ELASTIC_IDLE_NS - 1));
    MR_CHECK(mr_elastic_is_idle(&r.e, MR_ELASTIC_IDLE_NS));
    r.now = MR_ELASTIC_IDLE_NS;
    MR_CHECK_INT(mr_elastic_hand_over(&r.e, r.now), 1); /* ends */
    MR_CHECK(!mr_elastic_is_idle(&r.e, r.now));
    ask(&r, 1, 0, -1);
    MR_CHECK_INT(r.ends, 0);
    MR_CHECK(!mr_elastic_is_idle(&r.e, 2 * r.now)); /* somebody waits */
    mr_elastic_tick(&r.e, r.now + 999, &r.out);
    MR_CHECK_INT(r.out.n, 0); /* as long as for a first generation */
    mr_elastic_tick(&r.e, r.now + 1000, &r.out);
    MR_CHECK_INT(r.out.p[0].generation, 2);
    end(&r);
}
