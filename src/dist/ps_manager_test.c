/* dist/ps_manager_test.c -- the manager, told as stories. */
#include "dist/ps_manager.h"

#include "tests/harness/test.h"

typedef struct story {
    mr_psm m;
    mr_psm_actions out;
    int64_t now;
} story;

static void begin(story *t, mr_psm_options o)
{
    *t = (story){0};
    o.stamp = 100;
    MR_CHECK_OK(mr_psm_init(&t->m, &o, 0));
}

static void end(story *t)
{
    mr_psm_deinit(&t->m);
    mr_vec_deinit(&t->out);
}

static int count(const story *t, mr_psm_do what)
{
    int n = 0;
    for (int i = 0; i < t->out.n; i++)
        n += t->out.p[i].what == what;
    return n;
}

static void join(story *t, uint64_t id, const mr_ps_view *has)
{
    t->out.n = 0;
    MR_CHECK_OK(mr_psm_join(&t->m, id, has, t->now, &t->out));
}

static void lose(story *t, uint64_t id)
{
    t->out.n = 0;
    mr_psm_lost(&t->m, id, t->now, &t->out);
}

/* Servers do at once what a view asks of them. */
static void finish_motions(story *t)
{
    for (int i = 0; i < 1000 && mr_psm_in_motion(&t->m) > 0; i++)
        for (int range = 0; range < t->m.view.ranges.n; range++) {
            mr_ps_range s = t->m.view.ranges.p[range];
            if (s.catching.id)
                mr_psm_complete(&t->m, s.chain[s.n - 1].id, range, s.epoch, s.catching.id, &t->out);
            else if (s.draining)
                mr_psm_drained(&t->m, s.chain[0].id, range, s.epoch, &t->out);
            MR_CHECK_OK(mr_ps_view_check(&t->m.view));
        }
}

static int heads_of(const story *t, uint64_t id)
{
    int n = 0;
    for (int i = 0; i < t->m.view.ranges.n; i++)
        n += mr_ps_range_head(&t->m.view.ranges.p[i]) == id;
    return n;
}

static const mr_ps_range *range(const story *t, int i) { return &t->m.view.ranges.p[i]; }

MR_TEST(ps_manager_waits_for_its_servers)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 6, .replicas = 2, .servers = 2});
    join(&t, 1, NULL);
    MR_CHECK(t.out.n == 0 && !t.m.dealt);
    join(&t, 2, NULL);
    MR_CHECK(count(&t, MR_PSM_PUBLISH) == 1 && t.m.view.epoch == 101 && mr_psm_quiet(&t.m));
    MR_CHECK(heads_of(&t, 1) == 3 && heads_of(&t, 2) == 3 && range(&t, 0)->n == 2);
    MR_CHECK_OK(mr_ps_view_check(&t.m.view));
    end(&t);
}

MR_TEST(ps_manager_the_next_member_inherits)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 6, .replicas = 2, .servers = 2});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    lose(&t, 1);
    MR_CHECK(count(&t, MR_PSM_PUBLISH) == 1 && heads_of(&t, 2) == 6 && mr_psm_lost_ranges(&t.m) == 0);
    MR_CHECK(range(&t, 0)->n == 1 && mr_psm_quiet(&t.m));
    end(&t);
}

MR_TEST(ps_manager_refills_chains_a_few_at_a_time)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 12, .replicas = 2, .servers = 3, .max_motion = 2});
    for (uint64_t i = 1; i <= 3; i++)
        join(&t, i, NULL);
    lose(&t, 2);
    MR_CHECK_INT(mr_psm_in_motion(&t.m), 2);
    finish_motions(&t);
    MR_CHECK(mr_psm_quiet(&t.m) && heads_of(&t, 1) == 6 && heads_of(&t, 3) == 6);
    for (int i = 0; i < 12; i++)
        MR_CHECK_INT(range(&t, i)->n, 2);
    end(&t);
}

MR_TEST(ps_manager_a_new_server_gets_its_share)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 12, .replicas = 2, .servers = 3});
    for (uint64_t i = 1; i <= 4; i++)
        join(&t, i, NULL);
    MR_CHECK(heads_of(&t, 4) == 0 && mr_psm_in_motion(&t.m) > 0);
    finish_motions(&t);
    for (uint64_t i = 1; i <= 4; i++)
        MR_CHECK_INT(heads_of(&t, i), 3);
    MR_CHECK(mr_psm_quiet(&t.m));
    end(&t);
}

MR_TEST(ps_manager_the_head_changes_only_when_drained)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 1, .replicas = 1, .servers = 1});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    t.out.n = 0;
    mr_psm_leave(&t.m, 1, 0, &t.out);
    MR_CHECK(range(&t, 0)->catching.id == 2 && mr_ps_range_head(range(&t, 0)) == 1 && !range(&t, 0)->draining);
    mr_psm_complete(&t.m, 1, 0, range(&t, 0)->epoch, 2, &t.out);
    MR_CHECK(range(&t, 0)->n == 2 && mr_ps_range_head(range(&t, 0)) == 1 && range(&t, 0)->draining);
    mr_psm_drained(&t.m, 1, 0, range(&t, 0)->epoch, &t.out);
    MR_CHECK(range(&t, 0)->n == 1 && mr_ps_range_head(range(&t, 0)) == 2 && !range(&t, 0)->draining);
    MR_CHECK(count(&t, MR_PSM_LET_GO) == 1 && mr_vec_last(&t.out).epoch == t.m.view.epoch && t.m.view.servers.n == 1);
    end(&t);
}

MR_TEST(ps_manager_late_words_count_for_nothing)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 1, .replicas = 2, .servers = 1});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    uint64_t old = range(&t, 0)->epoch;
    lose(&t, 2);
    join(&t, 2, NULL);
    uint64_t epoch = t.m.view.epoch;
    mr_psm_complete(&t.m, 1, 0, old, 2, &t.out);
    mr_psm_complete(&t.m, 2, 0, range(&t, 0)->epoch, 2, &t.out);  /* by nobody who feeds */
    mr_psm_complete(&t.m, 1, 99, range(&t, 0)->epoch, 2, &t.out); /* no range */
    mr_psm_drained(&t.m, 1, 0, range(&t, 0)->epoch, &t.out);      /* not asked for */
    MR_CHECK(t.m.view.epoch == epoch && range(&t, 0)->n == 1 && range(&t, 0)->catching.id == 2);
    end(&t);
}

MR_TEST(ps_manager_the_last_copy_is_lost_by_name)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 2});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    lose(&t, 1);
    MR_CHECK(count(&t, MR_PSM_LOST_RANGE) == 2 && mr_psm_lost_ranges(&t.m) == 2);
    end(&t);
}

MR_TEST(ps_manager_who_was_only_cut_off_brings_its_ranges_back)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 2});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    uint64_t generation = range(&t, 0)->generation;
    lose(&t, 1);
    join(&t, 1, NULL);
    MR_CHECK(mr_psm_lost_ranges(&t.m) == 0 && heads_of(&t, 1) == 2 && range(&t, 0)->generation == generation);
    end(&t);
}

MR_TEST(ps_manager_restored_ranges_are_of_another_generation)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 2});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    uint64_t generation = range(&t, 0)->generation;
    lose(&t, 1);
    mr_psm_restore(&t.m, false, &t.out);
    int n_new = 0;
    for (int i = 0; i < 4; i++)
        n_new += range(&t, i)->generation > generation;
    MR_CHECK(n_new == 2 && mr_psm_lost_ranges(&t.m) == 0 && heads_of(&t, 2) == 4);
    mr_psm_restore(&t.m, true, &t.out);
    for (int i = 0; i < 4; i++)
        MR_CHECK(range(&t, i)->generation == t.m.view.epoch);
    end(&t);
}

MR_TEST(ps_manager_the_last_server_cannot_leave)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 2});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    mr_psm_leave(&t.m, 1, 0, &t.out);
    t.out.n = 0;
    mr_psm_leave(&t.m, 2, 0, &t.out);
    MR_CHECK_INT(count(&t, MR_PSM_KEEP), 1);
    lose(&t, 2); /* now the first one must stay, too */
    MR_CHECK_INT(count(&t, MR_PSM_KEEP), 1);
    end(&t);
}

MR_TEST(ps_manager_who_is_behind_is_sent_the_view)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 1});
    join(&t, 1, NULL);
    t.out.n = 0;
    mr_psm_heard(&t.m, 1, t.m.view.epoch, 0, &t.out);
    MR_CHECK_INT(t.out.n, 0);
    mr_psm_heard(&t.m, 1, t.m.view.epoch - 1, 0, &t.out);
    MR_CHECK(t.out.n == 1 && t.out.p[0].what == MR_PSM_SEND_VIEW && t.out.p[0].id == 1);
    end(&t);
}

MR_TEST(ps_manager_rises_above_epochs_that_others_have)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 1});
    join(&t, 1, NULL);
    t.out.n = 0;
    mr_psm_heard(&t.m, 77, 5000, 0, &t.out); /* a worker with a view of a manager whose clock was ahead */
    MR_CHECK(count(&t, MR_PSM_PUBLISH) == 1 && t.m.view.epoch == 5001);
    mr_psm_heard(&t.m, 77, UINT64_MAX, 0, &t.out);
    MR_CHECK(t.m.view.epoch == 5001);
    end(&t);
}

MR_TEST(ps_manager_workers_come_and_go)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 1});
    mr_psm_worker_join(&t.m, 77, &t.out);
    MR_CHECK(count(&t, MR_PSM_WORKERS) == 1 && count(&t, MR_PSM_SEND_VIEW) == 0);
    join(&t, 1, NULL);
    mr_psm_worker_join(&t.m, 77, &t.out);
    MR_CHECK(count(&t, MR_PSM_SEND_VIEW) == 1 && t.m.workers.n == 1);
    mr_psm_worker_leave(&t.m, 77, &t.out);
    mr_psm_worker_leave(&t.m, 77, &t.out);
    MR_CHECK(count(&t, MR_PSM_FORGET_CLIENT) == 1 && t.m.workers.n == 0);
    end(&t);
}

/* ---- a manager that is restarted ---- */

static void copy_view(mr_ps_view *v, const story *t)
{
    *v = (mr_ps_view){0};
    mr_ps_view_copy(v, &t->m.view);
}

MR_TEST(ps_manager_anew_takes_the_view_of_the_highest_epoch)
{
    story t, u;
    mr_ps_view old, new;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 2, .servers = 3});
    for (uint64_t i = 1; i <= 3; i++)
        join(&t, i, NULL);
    copy_view(&old, &t);
    lose(&t, 3);
    finish_motions(&t);
    copy_view(&new, &t);
    begin(&u, (mr_psm_options){.num_ranges = 4, .replicas = 2, .servers = 1, .settle_ns = 10, .patience_ns = 50});
    join(&u, 3, &old); /* was taken for lost */
    join(&u, 1, &new);
    u.now = 20;
    mr_psm_tick(&u.m, 20, &u.out);
    MR_CHECK(!u.m.dealt); /* server 2 is not here yet */
    join(&u, 2, &new);
    MR_CHECK(u.m.dealt && u.m.view.epoch > new.epoch && u.m.view.servers.n == 3);
    for (int i = 0; i < 4; i++)
        MR_CHECK(range(&u, i)->generation == new.ranges.p[i].generation && mr_ps_range_index(range(&u, i), 3) < 0);
    mr_ps_view_deinit(&old);
    mr_ps_view_deinit(&new);
    end(&t);
    end(&u);
}

MR_TEST(ps_manager_anew_listens_before_it_believes)
{
    story t, u;
    mr_ps_view v;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 1});
    join(&t, 1, NULL);
    copy_view(&v, &t);
    begin(&u, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 1, .settle_ns = 10});
    join(&u, 1, &v); /* all servers of this view, but there may be a newer one */
    MR_CHECK(!u.m.dealt);
    MR_CHECK_INT(mr_psm_tick(&u.m, 5, &u.out), 10);
    mr_psm_tick(&u.m, 10, &u.out);
    MR_CHECK(u.m.dealt && heads_of(&u, 1) == 4);
    mr_ps_view_deinit(&v);
    end(&t);
    end(&u);
}

/* A new server is quicker than those that hold everything. */
MR_TEST(ps_manager_anew_deals_nothing_while_a_worker_remembers)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 6, .replicas = 1, .servers = 1, .settle_ns = 10, .patience_ns = 100});
    mr_psm_remember(&t.m);
    join(&t, 1, NULL);
    t.now = 99;
    mr_psm_tick(&t.m, t.now, &t.out);
    MR_CHECK(!t.m.dealt);
    t.now = 100;
    mr_psm_tick(&t.m, t.now, &t.out);
    MR_CHECK(t.m.dealt && heads_of(&t, 1) == 6);
    end(&t);
}

MR_TEST(ps_manager_anew_gives_up_on_the_missing)
{
    story t, u;
    mr_ps_view v;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 2, .servers = 2});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    copy_view(&v, &t);
    begin(&u, (mr_psm_options){.num_ranges = 4, .replicas = 2, .servers = 1, .settle_ns = 10, .patience_ns = 50});
    join(&u, 2, &v);
    mr_psm_tick(&u.m, 49, &u.out);
    MR_CHECK(!u.m.dealt);
    mr_psm_tick(&u.m, 50, &u.out);
    MR_CHECK(u.m.dealt && heads_of(&u, 2) == 4 && mr_psm_lost_ranges(&u.m) == 0);
    mr_ps_view_deinit(&v);
    end(&t);
    end(&u);
}

MR_TEST(ps_manager_refuses_reports_that_cannot_be)
{
    story t, u;
    mr_ps_view v;
    begin(&t, (mr_psm_options){.num_ranges = 4, .replicas = 1, .servers = 1});
    join(&t, 1, NULL);
    copy_view(&v, &t);
    begin(&u, (mr_psm_options){.num_ranges = 5, .replicas = 1, .servers = 1});
    mr_status *st = mr_psm_join(&u.m, 1, &v, 0, &u.out);
    MR_CHECK(mr_status_code(st) == MR_FAILED_PRECONDITION && u.m.here.n == 0);
    mr_status_free(st);
    v.ranges.p[0].n = 100;
    MR_CHECK(mr_status_code(st = mr_psm_join(&u.m, 1, &v, 0, &u.out)) == MR_INVALID_ARGUMENT);
    mr_status_free(st);
    MR_CHECK(mr_status_code(st = mr_psm_join(&u.m, 0, NULL, 0, &u.out)) == MR_INVALID_ARGUMENT);
    mr_status_free(st);
    mr_ps_view_deinit(&v);
    end(&t);
    end(&u);
}

/* Whatever is said in whatever order, the view can be, and ends balanced. */
MR_TEST(ps_manager_any_order_of_events)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 16, .replicas = 3, .servers = 1, .max_motion = 3});
    for (int i = 0; i < 3000; i++) {
        uint64_t id = 1 + mr_test_random() % 7;
        int k = (int)(mr_test_random() % 16);
        mr_ps_range s = t.m.dealt ? *range(&t, k) : (mr_ps_range){0};
        t.out.n = 0;
        switch (mr_test_random() % 8) {
        case 0: join(&t, id, NULL); break;
        case 1: mr_psm_lost(&t.m, id, 0, &t.out); break;
        case 2: mr_psm_leave(&t.m, id, 0, &t.out); break;
        case 3: mr_psm_restore(&t.m, mr_test_random() % 8 == 0, &t.out); break;
        case 4: mr_psm_drained(&t.m, s.chain[0].id, k, s.epoch, &t.out); break;
        default: mr_psm_complete(&t.m, s.n ? s.chain[s.n - 1].id : 0, k, s.epoch, s.catching.id, &t.out); break;
        }
        if (t.m.dealt)
            MR_CHECK_OK(mr_ps_view_check(&t.m.view));
        MR_CHECK(mr_psm_in_motion(&t.m) <= 3);
    }
    for (uint64_t id = 1; id <= 4; id++)
        join(&t, id, NULL);
    mr_psm_restore(&t.m, false, &t.out);
    finish_motions(&t);
    MR_CHECK(mr_psm_quiet(&t.m));
    end(&t);
}

/* ---- servers that have no memory ---- */

static void decline(story *t, uint64_t id, int at)
{
    t->out.n = 0;
    mr_psm_declined(&t->m, id, at, range(t, at)->epoch, t->now, &t->out);
    MR_CHECK_OK(mr_ps_view_check(&t->m.view));
}

static int ranges_of(const story *t, uint64_t id)
{
    int n = 0;
    for (int i = 0; i < t->m.view.ranges.n; i++)
        n += mr_ps_range_index(range(t, i), id) >= 0;
    return n;
}

static int range_with_tail(const story *t, uint64_t id)
{
    for (int i = 0; i < t->m.view.ranges.n; i++)
        if (range(t, i)->n > 1 && range(t, i)->chain[range(t, i)->n - 1].id == id)
            return i;
    return -1;
}

MR_TEST(ps_manager_another_stands_in_for_who_has_no_memory)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 6, .replicas = 2, .servers = 3, .again_ns = 100});
    for (uint64_t id = 1; id <= 3; id++)
        join(&t, id, NULL);
    int at = range_with_tail(&t, 2), had = ranges_of(&t, 2);
    uint64_t head = range(&t, at)->chain[0].id;
    decline(&t, 2, at);
    MR_CHECK_INT(count(&t, MR_PSM_DECLINED), 1);
    MR_CHECK_INT(mr_ps_range_index(range(&t, at), 2), -1);
    MR_CHECK(range(&t, at)->catching.id == 6 - 2 - head); /* the third */
    MR_CHECK(!mr_psm_quiet(&t.m));
    finish_motions(&t);
    MR_CHECK(mr_psm_quiet(&t.m));
    MR_CHECK_INT(range(&t, at)->n, 2);
    MR_CHECK_INT(ranges_of(&t, 2), had - 1); /* what else it has it keeps */
    end(&t);
}

MR_TEST(ps_manager_a_range_that_nobody_has_memory_for_has_fewer_copies)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 6, .replicas = 2, .servers = 2, .again_ns = 100});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    int at = range_with_tail(&t, 2);
    decline(&t, 2, at);
    MR_CHECK_INT(range(&t, at)->n, 1);
    MR_CHECK_INT(mr_psm_in_motion(&t.m), 0);
    MR_CHECK(!mr_psm_quiet(&t.m)); /* it lacks a copy */
    t.now = 99;
    mr_psm_tick(&t.m, t.now, &t.out);
    MR_CHECK_INT(mr_psm_in_motion(&t.m), 0);
    t.now = 100; /* it is asked again, */
    mr_psm_tick(&t.m, t.now, &t.out);
    MR_CHECK(range(&t, at)->catching.id == 2);
    decline(&t, 2, at); /* and declines while it catches up, */
    MR_CHECK_INT(mr_psm_in_motion(&t.m), 0);
    join(&t, 3, NULL); /* until there is somebody else */
    MR_CHECK(mr_psm_in_motion(&t.m) > 0);
    finish_motions(&t);
    MR_CHECK(mr_psm_quiet(&t.m));
    MR_CHECK_INT(range(&t, at)->n, 2);
    end(&t);
}

/* The head holds all that exists; late messages, and those of strangers, have no effect. */
MR_TEST(ps_manager_only_members_behind_the_head_decline)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 6, .replicas = 2, .servers = 2});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    int at = range_with_tail(&t, 2);
    uint64_t epoch = t.m.view.epoch;
    decline(&t, 1, at);
    decline(&t, 3, at);
    decline(&t, 0, at);
    mr_psm_declined(&t.m, 2, at, range(&t, at)->epoch - 1, t.now, &t.out);
    mr_psm_declined(&t.m, 2, -1, range(&t, at)->epoch, t.now, &t.out);
    mr_psm_declined(&t.m, 2, 6, range(&t, at)->epoch, t.now, &t.out);
    MR_CHECK(t.m.view.epoch == epoch);
    MR_CHECK_INT(t.m.full.n, 0);
    MR_CHECK(mr_psm_quiet(&t.m));
    end(&t);
}

MR_TEST(ps_manager_keeps_who_leaves_when_nobody_has_memory_for_its_ranges)
{
    story t;
    begin(&t, (mr_psm_options){.num_ranges = 2, .replicas = 1, .servers = 2});
    join(&t, 1, NULL);
    join(&t, 2, NULL);
    t.out.n = 0;
    mr_psm_leave(&t.m, 1, t.now, &t.out);
    int at = range(&t, 0)->chain[0].id == 1 ? 0 : 1;
    MR_CHECK(range(&t, at)->catching.id == 2);
    decline(&t, 2, at);
    MR_CHECK_INT(count(&t, MR_PSM_KEEP), 1);
    MR_CHECK_INT(mr_psm_in_motion(&t.m), 0);
    MR_CHECK(range(&t, at)->n == 1 && range(&t, at)->chain[0].id == 1);
    MR_CHECK(!t.m.view.servers.p[0].leaving);
    MR_CHECK(mr_psm_quiet(&t.m));
    end(&t);
}
