/* dist/sandblaster_test.c -- portions told as stories, and clusters from seeds in which replicas die, return and dawdle. */
#include "dist/sandblaster.h"

#include "base/str.h"
#include "tests/harness/test.h"

typedef struct story {
    mr_blast b;
    mr_str log;
    int64_t now;
} story;

static story begin(int portions)
{
    story t = {0};
    mr_blast_init(&t.b, &(mr_blast_rules){portions, 100});
    return t;
}

/* What follows: "1:p0" replica 1 computes portion 0 ("1+p0": and keeps what it had), "1:f0" flushes to lane 0, "done". */
static const char *say(story *t, mr_blast_event_kind kind, int64_t replica, int64_t portion)
{
    mr_blast_actions out = {0};
    mr_str_clear(&t->log);
    mr_blast_step(&t->b, &(mr_blast_event){kind, replica, t->b.evaluation, portion, 1}, t->now, &out);
    for (int i = 0; i < out.n; i++) {
        const mr_blast_action *a = &out.p[i];
        if (i)
            mr_str_printf(&t->log, " ");
        if (a->what == MR_BLAST_COMPLETE)
            mr_str_printf(&t->log, "done %d", (int)a->loss);
        else
            mr_str_printf(&t->log, "%d%c%c%d", (int)a->replica, a->keep ? '+' : ':', a->what == MR_BLAST_FLUSH ? 'f' : 'p',
                          a->what == MR_BLAST_FLUSH ? a->lane : (int)a->portion);
    }
    mr_vec_deinit(&out);
    return mr_str_z(&t->log);
}

static void end(story *t)
{
    mr_blast_deinit(&t->b);
    mr_str_deinit(&t->log);
}

MR_TEST(sandblaster_idle_replicas_get_the_next_portion)
{
    story t = begin(4);
    MR_CHECK_STR(say(&t, MR_BLAST_JOIN, 1, 0), "");
    MR_CHECK_STR(say(&t, MR_BLAST_EVALUATE, -1, 0), "1:p0");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 0), "1+p1");
    MR_CHECK_STR(say(&t, MR_BLAST_JOIN, 2, 0), "2:p2");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 1), "1+f0"); /* one of the last is next: flush first */
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 1, 0), "1:p3");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 2, 2), "2+f1");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 3), "1+f0");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 1, 0), "");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 2, 0), "done 4");
    MR_CHECK(mr_blast_counts(&t.b, 0) && mr_blast_counts(&t.b, 1) && !mr_blast_counts(&t.b, 2));
    end(&t);
}

MR_TEST(sandblaster_gives_the_last_portion_twice_and_counts_it_once)
{
    story t = begin(2);
    say(&t, MR_BLAST_JOIN, 1, 0);
    say(&t, MR_BLAST_JOIN, 2, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_EVALUATE, -1, 0), "1:p0 2:p1");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 0), "1+f0");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 1, 0), "1:p1"); /* a second time */
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 1), "1+f0");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 2, 1), "");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 1, 0), "done 2");
    MR_CHECK_STR(say(&t, MR_BLAST_EVALUATE, -1, 0), "1:p0 2:p1"); /* ':': what 2 had is dropped */
    end(&t);
}

MR_TEST(sandblaster_portions_of_the_dead_go_to_others)
{
    story t = begin(3);
    say(&t, MR_BLAST_JOIN, 1, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_EVALUATE, -1, 0), "1:p0");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 0), "1+p1"); /* 0 is in its sum only */
    say(&t, MR_BLAST_LOST, 1, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_JOIN, 2, 0), "2:p0");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 1), ""); /* it is not heard any more */
    end(&t);
}

MR_TEST(sandblaster_a_lane_in_doubt_is_never_used_again)
{
    story t = begin(1);
    say(&t, MR_BLAST_JOIN, 1, 0);
    say(&t, MR_BLAST_EVALUATE, -1, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 0), "1+f0");
    say(&t, MR_BLAST_LOST, 1, 0); /* while it flushed */
    MR_CHECK_STR(say(&t, MR_BLAST_JOIN, 2, 0), "2:p0");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 2, 0), "2+f1");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 2, 0), "done 1");
    MR_CHECK(!mr_blast_counts(&t.b, 0) && mr_blast_counts(&t.b, 1));
    end(&t);
}

MR_TEST(sandblaster_what_the_dead_had_flushed_still_counts)
{
    story t = begin(2);
    say(&t, MR_BLAST_JOIN, 1, 0);
    say(&t, MR_BLAST_EVALUATE, -1, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 0), "1+f0");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 1, 0), "1:p1");
    say(&t, MR_BLAST_LOST, 1, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_JOIN, 2, 0), "2:p1");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 2, 1), "2+f1"); /* not lane 0, which counts */
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 2, 0), "done 2");
    MR_CHECK(mr_blast_counts(&t.b, 0));
    MR_CHECK_STR(say(&t, MR_BLAST_EVALUATE, -1, 0), "2:p0");
    say(&t, MR_BLAST_JOIN, 3, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 3, 1), "3+f0"); /* now it may serve again */
    end(&t);
}

MR_TEST(sandblaster_does_not_wait_for_a_slow_replica_that_holds_a_sum)
{
    story t = begin(4);
    say(&t, MR_BLAST_JOIN, 1, 0);
    say(&t, MR_BLAST_EVALUATE, -1, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 0), "1+p1"); /* and there it stays */
    MR_CHECK_STR(say(&t, MR_BLAST_JOIN, 2, 0), "2:p2");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 2, 2), "2+f0");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 2, 0), "2:p3");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 2, 3), "2+f0");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 2, 0), "2:p1"); /* a second time */
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 2, 1), "2+f0");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 2, 0), ""); /* portion 0 is in the sum of 1 */
    t.now = 100;
    MR_CHECK_STR(say(&t, MR_BLAST_TICK, -1, 0), "2:p0");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 1), ""); /* disowned: nothing more in this evaluation */
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 2, 0), "2+f0");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 2, 0), "done 4");
    end(&t);
}

/* Two that stand still, and do not even die, hold up nobody; should one of them move after all, its result is as good. */
MR_TEST(sandblaster_does_not_wait_for_two_slow_replicas_with_the_same_portion)
{
    story t = begin(1);
    for (int i = 1; i <= 4; i++)
        say(&t, MR_BLAST_JOIN, i, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_EVALUATE, -1, 0), "1:p0 2:p0");
    t.now = 99;
    MR_CHECK_STR(say(&t, MR_BLAST_TICK, -1, 0), "");
    t.now = 100;
    MR_CHECK_STR(say(&t, MR_BLAST_TICK, -1, 0), "3:p0");
    t.now = 199;
    MR_CHECK_STR(say(&t, MR_BLAST_TICK, -1, 0), "");
    t.now = 200;
    MR_CHECK_STR(say(&t, MR_BLAST_TICK, -1, 0), "4:p0");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 0), "1+f0");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 3, 0), "");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 1, 0), "done 1");
    MR_CHECK_INT(t.b.dropped, 1);
    end(&t);
}

MR_TEST(sandblaster_words_nobody_asked_for_change_nothing)
{
    story t = begin(2);
    say(&t, MR_BLAST_JOIN, 1, 0);
    say(&t, MR_BLAST_EVALUATE, -1, 0);
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 1), ""); /* it has portion 0 */
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, -7), "");
    MR_CHECK_STR(say(&t, MR_BLAST_FLUSHED, 1, 0), "");
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 9, 0), "");
    MR_CHECK_STR(say(&t, MR_BLAST_LOST, 9, 0), "");
    MR_CHECK_STR(say(&t, MR_BLAST_JOIN, -5, 0), ""); /* that would be nobody */
    MR_CHECK_STR(say(&t, MR_BLAST_DONE, 1, 0), "1+f0");
    end(&t);
}

/* ---- clusters from seeds ----
 *
 * A lane lies on two servers.  A flush reaches each at some time, also when its sender has died or is thought dead; then the
 * coordinator may long have gone on.  What is summed up in the end must hold every portion once, on both servers. */

enum { PORTIONS = 12, LANES = 64, SERVERS = 2, MOST = 8, WRITES = 64 };

typedef struct actor {
    int64_t id;
    bool alive, known; /* runs; the coordinator thinks so */
    bool busy;
    mr_blast_action order;
    int64_t evaluation;
    int sum[PORTIONS], held; /* held: the portion it computed and has no verdict on; -1: none */
    int to_land;             /* servers its flush has not reached */
    bool slow;
} actor;

typedef struct landing { /* a write under way to one server */
    bool used;
    int64_t actor;
    int lane, server;
    int sum[PORTIONS];
} landing;

typedef struct world {
    mr_blast b;
    actor a[MOST];
    landing writes[WRITES];
    int lanes[LANES][SERVERS][PORTIONS];
    int64_t next_id, now, completed;
    uint64_t seed;
} world;

static uint64_t draw(world *w, uint64_t below)
{
    w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
    return (w->seed >> 33) % below;
}

static actor *actor_of(world *w, int64_t id)
{
    for (int i = 0; i < MOST; i++)
        if (w->a[i].id == id && w->a[i].known)
            return &w->a[i];
    return NULL;
}

static void check_complete(world *w)
{
    for (int s = 0; s < SERVERS; s++)
        for (int p = 0; p < PORTIONS; p++) {
            int n = 0;
            for (int l = 0; l < w->b.n_lanes; l++)
                if (mr_blast_counts(&w->b, l))
                    n += w->lanes[l][s][p];
            if (n != 1)
                mr_test_fail(__FILE__, __LINE__, "evaluation %d: server %d has portion %d %d times",
                             (int)w->b.evaluation, s, p, n);
        }
    w->completed++;
}

static void begin_flush(world *w, actor *a)
{
    a->to_land = SERVERS;
    for (int s = 0, i = 0; s < SERVERS && i < WRITES; i++)
        if (!w->writes[i].used) {
            w->writes[i] = (landing){true, a->id, a->order.lane, s++, {0}};
            memcpy(w->writes[i].sum, a->sum, sizeof a->sum);
        }
}

static void take_order(world *w, actor *a, const mr_blast_action *o)
{
    MR_CHECK(!a->busy); /* one order at a time */
    a->busy = true;
    a->order = *o;
    if (a->evaluation != o->evaluation) {
        memset(a->sum, 0, sizeof a->sum);
        a->evaluation = o->evaluation;
        MR_CHECK(!o->keep);
    } else if (o->keep) {
        MR_CHECK(a->held >= 0);
        a->sum[a->held]++;
    }
    a->held = -1;
    if (o->what == MR_BLAST_FLUSH)
        begin_flush(w, a);
}

static void tell(world *w, mr_blast_event e)
{
    mr_blast_actions out = {0};
    mr_blast_step(&w->b, &e, w->now, &out);
    MR_CHECK(w->b.n_lanes < LANES);
    for (int i = 0; i < out.n; i++) {
        if (out.p[i].what == MR_BLAST_COMPLETE)
            check_complete(w);
        else if (actor_of(w, out.p[i].replica)->alive)
            take_order(w, actor_of(w, out.p[i].replica), &out.p[i]);
    }
    mr_vec_deinit(&out);
}

static void join(world *w)
{
    for (int i = 0; i < MOST; i++)
        if (!w->a[i].known && !w->a[i].alive) {
            w->a[i] = (actor){.id = ++w->next_id, .alive = true, .known = true, .held = -1, .slow = draw(w, 4) == 0};
            tell(w, (mr_blast_event){.kind = MR_BLAST_JOIN, .replica = w->a[i].id});
            return;
        }
}

static void land(world *w, landing *l)
{
    l->used = false;
    memcpy(w->lanes[l->lane][l->server], l->sum, sizeof l->sum);
    for (int i = 0; i < MOST; i++) {
        actor *a = &w->a[i];
        if (a->id != l->actor || !a->alive || --a->to_land > 0)
            continue;
        a->busy = false;
        if (a->known)
            tell(w, (mr_blast_event){.kind = MR_BLAST_FLUSHED, .replica = a->id, .evaluation = a->order.evaluation});
    }
}

static void compute(world *w, actor *a)
{
    if (!a->alive || !a->busy || a->order.what != MR_BLAST_COMPUTE || (a->slow && draw(w, 30)))
        return;
    a->busy = false;
    a->held = (int)a->order.portion;
    if (a->known)
        tell(w, (mr_blast_event){MR_BLAST_DONE, a->id, a->order.evaluation, a->order.portion, 1});
}

/* Dies, or is considered dead while it runs; the coordinator may learn of a death much later. */
static void trouble(world *w, actor *a)
{
    switch (draw(w, 3)) {
    case 0: a->alive = false; break;
    case 1:
        if (a->known) {
            a->known = false;
            tell(w, (mr_blast_event){.kind = MR_BLAST_LOST, .replica = a->id});
        }
        break;
    default:
        if (a->alive && !a->known)
            a->alive = false; /* a ghost ends; what it sent may still land */
    }
}

static void run_one(world *w, bool faults)
{
    actor *a = &w->a[draw(w, MOST)];
    landing *l = &w->writes[draw(w, WRITES)];
    w->now += (int64_t)draw(w, 3);
    compute(w, a);
    if (l->used && draw(w, 3) == 0)
        land(w, l);
    if (!a->alive && a->known && draw(w, 40) == 0) {
        a->known = false;
        tell(w, (mr_blast_event){.kind = MR_BLAST_LOST, .replica = a->id});
    }
    if (faults && draw(w, 150) == 0)
        trouble(w, a);
    if (draw(w, 60) == 0)
        join(w);
    if (draw(w, 20) == 0)
        tell(w, (mr_blast_event){.kind = MR_BLAST_TICK, .replica = -1});
}

MR_TEST(sandblaster_counts_every_portion_once_despite_losses)
{
    static world w;
    mr_test_deadline(120);
    int64_t twice = 0, lost = 0, disowned = 0;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        memset(&w, 0, sizeof w);
        w.seed = seed * 7919;
        mr_blast_init(&w.b, &(mr_blast_rules){PORTIONS, 60});
        join(&w);
        for (int evaluation = 0; evaluation < 4; evaluation++) {
            tell(&w, (mr_blast_event){.kind = MR_BLAST_EVALUATE, .replica = -1});
            for (int64_t n = 0; w.completed <= evaluation; n++) {
                run_one(&w, n < 4000 && w.b.n_lanes < LANES - MOST - 1);
                if (n > 100000)
                    mr_test_fail(__FILE__, __LINE__, "seed %d hangs in evaluation %d", (int)seed, evaluation);
            }
        }
        twice += w.b.given_twice;
        lost += w.b.lost;
        disowned += w.b.disowned;
        mr_blast_deinit(&w.b);
    }
    MR_CHECK(twice > 1000 && lost > 1000 && disowned > 100); /* or the seeds show nothing */
}
