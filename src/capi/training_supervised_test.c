/* capi/training_supervised_test.c -- training goes on when tasks are lost, over clusters in one process. */
#include "train/supervised.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "capi/training_fixture.h"
#include "dist/recovery.h"
#include "tests/harness/log.h"
#include "tests/harness/test.h"

enum { N_PS = 2, N_WORKERS = 2, TOTAL = 150 };

typedef struct team {
    training_fixture fixture;
    bool sync, bounded; /* bounded: each for itself, at most 2 ahead */
    char *folder;
    _Atomic int64_t seen[N_WORKERS];   /* the newest step of each */
    _Atomic int n_seen[N_WORKERS];     /* how many it has made */
    _Atomic int64_t fell_to[N_WORKERS]; /* the lowest step after a fall; -1: none */
    _Atomic bool crash[N_WORKERS];     /* ends as if killed */
    _Atomic bool leads[N_WORKERS];     /* is the chief */
    _Atomic int losses;
    _Atomic bool hold; /* nobody ends yet: something is to happen before */
    _Atomic bool away;   /* no session can be made */
    _Atomic bool stall;  /* worker 1 makes no step */
    _Atomic bool linger; /* worker 1 does not end yet */
    int n_returns;           /* how often worker 0 trains on when it has finished */
    int64_t last[N_WORKERS]; /* the step each ends with: so far its data goes */
    int64_t chief_ms; /* 0: worker 0 is the chief, without an election */
    int64_t saved; /* the newest checkpoint when a task was lost */
} team;

typedef struct player {
    team *t;
    int worker;
    mr_thread thread;
    bool ended; /* for good */
    line_net l;
    mr_nn_sync *sync;
} player;

static mr_status *open_session(void *arg, mr_cancel *cancel, mr_session **out)
{
    player *p = arg;
    *out = NULL;
    if (p->t->crash[p->worker])
        return mr_error(MR_FAILED_PRECONDITION, "This process has crashed");
    if (p->t->away)
        return mr_error(MR_UNAVAILABLE, "ps 0 has gone");
    return training_fixture_open_under(&p->t->fixture, p->worker, p->l.graph, cancel, out);
}

static mr_supervised *supervise(player *p)
{
    mr_nn *n = (line_begin(&p->l, N_PS, p->worker), p->l.net);
    mr_nn_optimizer sgd = {.kind = MR_NN_SGD, .rate = 0.1f};
    mr_supervised_options o = {.chief = p->worker == 0,
                               .worker = p->worker,
                               .chief_ms = p->t->chief_ms,
                               .open = open_session,
                               .arg = p,
                               .folder = p->t->folder,
                               .save_ms = 5,
                               .max_to_keep = 3,
                               .deadline_ms = 20000};
    if (p->t->sync)
        o.sync = p->sync = mr_nn_sync_new(n, p->l.loss, &sgd,
                                          &(mr_nn_sync_options){N_WORKERS, p->worker, 0, 600, 5000, p->t->bounded, 2});
    else
        o.train = mr_nn_minimize(n, p->l.loss, &sgd);
    mr_supervised *s = mr_supervised_new(n, &o);
    MR_CHECK_OK(mr_scope_status(&n->s));
    return s;
}

static void note(team *t, int worker, int64_t step)
{
    if (step < t->seen[worker])
        t->fell_to[worker] = step;
    t->seen[worker] = step;
    t->n_seen[worker]++;
}

static mr_status *train_some(player *p, mr_supervised *s, int64_t *step)
{
    mr_tensor *v[2];
    mr_out feeds[] = {p->l.x, p->l.y};
    mr_run_args a = {.feeds = feeds, .feed_values = v, .n_feeds = 2};
    mr_status *st = NULL;
    while ((*step < p->t->last[p->worker] || p->t->hold || (p->worker == 1 && p->t->linger)) && !st &&
           !p->t->crash[p->worker]) {
        while (p->worker == 1 && p->t->stall)
            mr_sleep_ns(1000000);
        line_batch((*step * N_WORKERS + p->worker) * 8, 8, v);
        st = mr_supervised_train(s, &a, step);
        note(p->t, p->worker, *step);
        p->t->leads[p->worker] = mr_supervised_is_chief(s);
        mr_tensor_unref(v[0]);
        mr_tensor_unref(v[1]);
        mr_sleep_ns(1000000); /* there is time to lose tasks in */
    }
    return st;
}

static void play(void *arg)
{
    player *p = arg;
    int64_t step = 0;
    mr_supervised *s = supervise(p);
    MR_CHECK_OK(mr_supervised_start(s));
    MR_CHECK_OK(mr_supervised_step(s, &step));
    note(p->t, p->worker, step);
    mr_status *st = NULL;
    do {
        st = train_some(p, s, &step);
        if (!st && !p->t->crash[p->worker])
            st = mr_supervised_finish(s, &step);
    } while (!st && !p->t->crash[p->worker] && step < p->t->last[p->worker]);
    for (int i = 0; i < p->t->n_returns && p->worker == 0 && !st; i++) {
        p->t->last[0] = step + 3;
        st = train_some(p, s, &step);
        if (!st)
            st = mr_supervised_finish(s, &step);
    }
    if (p->t->crash[p->worker])
        mr_status_free(st);
    else
        MR_CHECK_OK(st);
    p->t->losses += mr_supervised_losses(s);
    mr_supervised_free(s);
    mr_nn_sync_free(p->sync);
    line_end(&p->l);
    p->sync = NULL;
}

static void begin(team *t, bool sync)
{
    *t = (team){.sync = sync, .folder = mr_printf("%s/supervised", mr_test_dir())};
    training_fixture_begin(&t->fixture, N_PS, N_WORKERS);
    for (int i = 0; i < N_WORKERS; i++)
        t->fell_to[i] = -1;
    for (int i = 0; i < N_WORKERS; i++)
        t->last[i] = TOTAL;
}

static void start_player(team *t, player *p, int worker)
{
    *p = (player){.t = t, .worker = worker};
    mr_thread_start(&p->thread, "player", play, p);
}

/* Waits until the chief has reached the step and a checkpoint of at least a quarter of it exists. */
static void wait_for(team *t, int64_t step)
{
    while (t->seen[0] < step || training_fixture_newest_saved(t->folder) < step / 4)
        mr_sleep_ns(2000000);
    t->saved = training_fixture_newest_saved(t->folder);
}

/* What the parameter servers hold at the end. */
static void check_end(team *t)
{
    line_net l;
    mr_session *s;
    float v[3];
    line_begin(&l, N_PS, 0);
    mr_out step = mr_emit_with(&l.net->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), mr_nn_global_step(l.net));
    MR_CHECK_OK(mr_scope_status(&l.net->s));
    MR_CHECK_OK(training_fixture_open(&t->fixture, 0, l.graph, &s));
    MR_CHECK_OK(line_run(&l, s, 0, 1, NULL, (mr_out[]){l.w, l.b, step}, 3, v));
    MR_CHECK_NEAR(v[0], 2, 0.05);
    MR_CHECK_NEAR(v[1], 1, 0.05);
    MR_CHECK(v[2] >= TOTAL);
    mr_session_free(s);
    line_end(&l);
}

static void end(team *t)
{
    training_fixture_end(&t->fixture);
    mr_free(t->folder);
}

static void play_all(team *t, void (*meanwhile)(team *t, player *players))
{
    player players[N_WORKERS];
    for (int i = 0; i < N_WORKERS; i++)
        start_player(t, &players[i], i);
    meanwhile(t, players);
    t->hold = false;
    for (int i = 0; i < N_WORKERS; i++)
        if (!players[i].ended)
            mr_thread_join(&players[i].thread);
    check_end(t);
}

static void nothing_happens(team *t, player *p) { (void)t, (void)p; }

static void lose_ps(team *t, int task)
{
    wait_for(t, 40);
    training_fixture_stop(&t->fixture, "ps", task);
    mr_sleep_ns(30000000);
    training_fixture_start(&t->fixture, "ps", task);
    for (int i = 0; i < N_WORKERS; i++) /* all train again */
        for (int before = t->n_seen[i]; t->n_seen[i] < before + 2;)
            mr_sleep_ns(2000000);
}

static void lose_ps_0(team *t, player *p) { (void)p, lose_ps(t, 0); }
static void lose_ps_1(team *t, player *p) { (void)p, lose_ps(t, 1); }

/* The whole process of a worker: its client and its server. */
static void lose_worker(team *t, player *p, int worker)
{
    wait_for(t, 40);
    t->crash[worker] = true;
    training_fixture_stop(&t->fixture, "worker", worker);
    training_fixture_start(&t->fixture, "worker", worker);
    mr_thread_join(&p[worker].thread);
    t->crash[worker] = false;
    start_player(t, &p[worker], worker);
}

static void lose_chief(team *t, player *p) { lose_worker(t, p, 0); }
static void lose_worker_1(team *t, player *p) { lose_worker(t, p, 1); }

static void play_story(int64_t chief_ms, bool sync, bool bounded, void (*meanwhile)(team *t, player *players),
                       bool restores)
{
    team t;
    begin(&t, sync);
    t.bounded = bounded;
    t.chief_ms = chief_ms;
    t.hold = meanwhile != nothing_happens;
    play_all(&t, meanwhile);
    MR_CHECK(training_fixture_newest_saved(t.folder) >= TOTAL); /* by the worker that was the chief at the end */
    MR_CHECK(!restores || t.losses >= N_WORKERS);
    for (int i = 0; i < N_WORKERS; i++) /* from the newest checkpoint, not from the start */
        MR_CHECK(t.fell_to[i] == -1 || (restores && t.fell_to[i] >= t.saved));
    end(&t);
}

static void story_with(int64_t chief_ms, bool sync, void (*meanwhile)(team *t, player *players), bool restores)
{
    play_story(chief_ms, sync, false, meanwhile, restores);
}

static void story(bool sync, void (*meanwhile)(team *t, player *players), bool restores)
{
    story_with(0, sync, meanwhile, restores);
}

/* The others wait for the chief, and say so until it comes. */
MR_TEST(supervised_worker_that_waits_for_the_chief_says_so)
{
    team t;
    player players[N_WORKERS];
    mr_test_log_begin(INT64_C(30000000));
    begin(&t, false);
    for (int i = 1; i < N_WORKERS; i++)
        start_player(&t, &players[i], i);
    mr_test_log_wait("Still waiting for the chief to make variables ready (", 2);
    start_player(&t, &players[0], 0);
    for (int i = 0; i < N_WORKERS; i++)
        mr_thread_join(&players[i].thread);
    end(&t);
    mr_test_log_end();
}

/* A cluster that cannot be reached is named with the reason. */
MR_TEST(supervised_worker_that_waits_for_the_cluster_says_why)
{
    team t;
    player players[N_WORKERS];
    mr_test_log_begin(INT64_C(30000000));
    begin(&t, false);
    t.away = true;
    for (int i = 0; i < N_WORKERS; i++)
        start_player(&t, &players[i], i);
    mr_test_log_wait("Still waiting for the cluster: ps 0 has gone (", 4);
    t.away = false;
    for (int i = 0; i < N_WORKERS; i++)
        mr_thread_join(&players[i].thread);
    end(&t);
    mr_test_log_end();
}

/* The chief names the worker that the others wait for: one that has not come, one that is slow, one that trains on. */
static void wait_for_worker_1(bool bounded)
{
    team t;
    player players[N_WORKERS];
    mr_test_log_begin(INT64_C(30000000));
    begin(&t, true);
    t.bounded = bounded;
    t.linger = true;
    start_player(&t, &players[0], 0);
    if (!bounded)
        mr_test_log_wait("Still waiting for worker 1: it has not joined (", 2);
    t.stall = true;
    start_player(&t, &players[1], 1);
    mr_test_log_wait("Still waiting for worker 1: it has not sent its gradient, and others wait (", 2);
    t.stall = false;
    mr_test_log_wait("Still waiting for worker 1: it has not finished (", 2);
    t.linger = false;
    for (int i = 0; i < N_WORKERS; i++)
        mr_thread_join(&players[i].thread);
    end(&t);
    mr_test_log_end();
}

MR_TEST(supervised_sync_chief_that_waits_for_a_worker_names_it) { wait_for_worker_1(false); }
MR_TEST(delay_supervised_chief_that_waits_for_a_worker_names_it) { wait_for_worker_1(true); }

MR_TEST(supervised_trains_asynchronously) { story(false, nothing_happens, false); }
MR_TEST(supervised_trains_synchronously) { story(true, nothing_happens, false); }
MR_TEST(supervised_goes_on_without_ps_0) { story(false, lose_ps_0, true); }
MR_TEST(supervised_goes_on_without_ps_1) { story(false, lose_ps_1, true); }
MR_TEST(supervised_goes_on_without_its_chief) { story(false, lose_chief, false); }
MR_TEST(supervised_goes_on_without_a_worker) { story(false, lose_worker_1, false); }
MR_TEST(supervised_sync_goes_on_without_ps_0) { story(true, lose_ps_0, true); }
MR_TEST(supervised_sync_goes_on_without_ps_1) { story(true, lose_ps_1, true); }
MR_TEST(supervised_sync_goes_on_without_its_chief) { story(true, lose_chief, false); }
MR_TEST(supervised_sync_goes_on_without_a_worker) { story(true, lose_worker_1, false); }

/* Who has less data leaves the barrier; the chief leads on, and saves when the last one has left. */
static void uneven_story(int worker)
{
    team t;
    begin(&t, true);
    t.last[worker] = TOTAL / 3;
    play_all(&t, nothing_happens);
    MR_CHECK(training_fixture_newest_saved(t.folder) >= TOTAL);
    MR_CHECK_INT(t.losses, 0);
    end(&t);
}

MR_TEST(supervised_sync_chief_has_less_data) { uneven_story(0); }
MR_TEST(supervised_sync_worker_has_less_data) { uneven_story(1); }

/* As after a loss between the last step and the last checkpoint; the others have left for good. */
MR_TEST(supervised_sync_chief_trains_on_after_it_finished)
{
    team t;
    begin(&t, true);
    t.n_returns = 30;
    play_all(&t, nothing_happens);
    MR_CHECK(training_fixture_newest_saved(t.folder) >= TOTAL + 3 * t.n_returns);
    end(&t);
}

/* ---- chiefs by election ---- */

enum { CHIEF_MS = 300 };

static void wait_for_other_chief(team *t)
{
    while (!t->leads[1])
        mr_sleep_ns(2000000);
    t->hold = false;
}

/* Nobody starts it again; its host is up once more when all is over, for the look at the end. */
static void lose_chief_for_good(team *t, player *p)
{
    wait_for(t, 40);
    t->crash[0] = true;
    training_fixture_stop(&t->fixture, "worker", 0);
    mr_thread_join(&p[0].thread);
    wait_for_other_chief(t);
    mr_thread_join(&p[1].thread);
    p[0].ended = p[1].ended = true;
    training_fixture_start(&t->fixture, "worker", 0);
}

/* It is back when another has its place, and gets it again. */
static void lose_chief_for_long(team *t, player *p)
{
    wait_for(t, 40);
    t->crash[0] = true;
    training_fixture_stop(&t->fixture, "worker", 0);
    mr_thread_join(&p[0].thread);
    wait_for_other_chief(t);
    t->crash[0] = false;
    training_fixture_start(&t->fixture, "worker", 0);
    start_player(t, &p[0], 0);
}

MR_TEST(delay_supervised_trains) { play_story(0, true, true, nothing_happens, false); }
MR_TEST(delay_supervised_goes_on_without_ps_0) { play_story(0, true, true, lose_ps_0, true); }
MR_TEST(delay_supervised_goes_on_without_ps_1) { play_story(0, true, true, lose_ps_1, true); }
MR_TEST(delay_supervised_goes_on_without_its_chief) { play_story(0, true, true, lose_chief, false); }
MR_TEST(delay_supervised_goes_on_without_a_worker) { play_story(0, true, true, lose_worker_1, false); }
MR_TEST(delay_supervised_chief_is_followed) { play_story(CHIEF_MS, true, true, lose_chief_for_good, false); }
MR_TEST(delay_supervised_chief_comes_back) { play_story(CHIEF_MS, true, true, lose_chief_for_long, false); }

MR_TEST(supervised_elects_its_chief) { story_with(CHIEF_MS, false, nothing_happens, false); }
MR_TEST(supervised_sync_elects_its_chief) { story_with(CHIEF_MS, true, nothing_happens, false); }
MR_TEST(supervised_chief_is_followed) { story_with(CHIEF_MS, false, lose_chief_for_good, false); }
MR_TEST(supervised_sync_chief_is_followed) { story_with(CHIEF_MS, true, lose_chief_for_good, false); }
MR_TEST(supervised_chief_comes_back) { story_with(CHIEF_MS, false, lose_chief_for_long, false); }
MR_TEST(supervised_sync_chief_comes_back) { story_with(CHIEF_MS, true, lose_chief_for_long, false); }
MR_TEST(supervised_elects_without_ps_0) { story_with(CHIEF_MS, false, lose_ps_0, true); }
MR_TEST(supervised_sync_elects_without_ps_0) { story_with(CHIEF_MS, true, lose_ps_0, true); }

MR_TEST(supervised_gives_up_at_its_deadline)
{
    team t;
    player p = {.t = &t};
    begin(&t, false);
    training_fixture_stop(&t.fixture, "ps", 1);
    line_begin(&p.l, N_PS, 0);
    mr_node *train = mr_nn_minimize(p.l.net, p.l.loss, &(mr_nn_optimizer){.kind = MR_NN_SGD, .rate = 0.1f});
    mr_supervised *s = mr_supervised_new(
        p.l.net,
        &(mr_supervised_options){.chief = true, .open = open_session, .arg = &p, .train = train, .deadline_ms = 100});
    MR_CHECK_OK(mr_scope_status(&p.l.net->s));
    int64_t step;
    for (int i = 0; i < 2; i++) { /* it may be tried again; what leads and saves is not there before */
        mr_status *st = mr_supervised_start(s);
        MR_CHECK(mr_recovery_mends(st));
        mr_status_free(st);
        MR_CHECK_ERR(mr_supervised_train(s, &(mr_run_args){0}, &step), MR_FAILED_PRECONDITION, "not started");
    }
    mr_supervised_free(s);
    line_end(&p.l);
    end(&t);
}

static void cancel_soon(void *arg)
{
    mr_sleep_ns(50000000);
    mr_supervised_cancel(arg);
}

/* A task is not there, and would be waited for for ten minutes. */
MR_TEST(supervised_can_be_cancelled_on_its_way)
{
    team t;
    player p = {.t = &t};
    mr_thread thread;
    begin(&t, false);
    training_fixture_stop(&t.fixture, "ps", 1);
    line_begin(&p.l, N_PS, 0);
    mr_node *train = mr_nn_minimize(p.l.net, p.l.loss, &(mr_nn_optimizer){.kind = MR_NN_SGD, .rate = 0.1f});
    mr_supervised *s = mr_supervised_new(
        p.l.net, &(mr_supervised_options){.chief = true, .open = open_session, .arg = &p, .train = train});
    MR_CHECK_OK(mr_scope_status(&p.l.net->s));
    mr_thread_start(&thread, "cancel", cancel_soon, s);
    MR_CHECK_ERR(mr_supervised_start(s), MR_CANCELLED, "was cancelled");
    mr_thread_join(&thread);
    MR_CHECK_ERR(mr_supervised_start(s), MR_CANCELLED, "was cancelled");
    mr_supervised_free(s);
    line_end(&p.l);
    end(&t);
}
