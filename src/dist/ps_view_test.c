/* dist/ps_view_test.c */
#include "dist/ps_view.h"

#include "tests/harness/test.h"

static void fill(mr_ps_view *v)
{
    *v = (mr_ps_view){.epoch = 9, .replicas = 2};
    mr_vec_push(&v->servers, (mr_ps_peer){11, false});
    mr_vec_push(&v->servers, (mr_ps_peer){12, false});
    mr_vec_push(&v->servers, (mr_ps_peer){13, true});
    mr_vec_push(&v->ranges, (mr_ps_range){.epoch = 7, .generation = 3, .n = 2, .chain = {{11, 3}, {12, 5}}, .catching = {13, 7}});
    mr_vec_push(&v->ranges, (mr_ps_range){.epoch = 9, .generation = 3, .n = 1, .chain = {{12, 3}}});
}

/* Whether the view is refused after a change to it. */
static bool is_refused(void (*change)(mr_ps_view *v))
{
    mr_ps_view v;
    fill(&v);
    change(&v);
    mr_status *st = mr_ps_view_check(&v);
    bool refused = st != NULL;
    mr_status_free(st);
    mr_ps_view_deinit(&v);
    return refused;
}

static void nothing(mr_ps_view *v) { (void)v; }
static void no_ranges(mr_ps_view *v) { v->ranges.n = 0; }
static void no_replicas(mr_ps_view *v) { v->replicas = 0; }
static void no_epoch(mr_ps_view *v) { v->epoch = 0; }
static void servers_twice(mr_ps_view *v) { v->servers.p[1].id = 11; }
static void chain_too_long(mr_ps_view *v) { v->ranges.p[0].n = MR_PS_MAX_CHAIN + 1; }
static void chain_negative(mr_ps_view *v) { v->ranges.p[0].n = -1; }
static void member_twice(mr_ps_view *v) { v->ranges.p[0].chain[1].id = 11; }
static void member_catches_up(mr_ps_view *v) { v->ranges.p[0].catching.id = 12; }
static void member_of_nobody(mr_ps_view *v) { v->ranges.p[0].chain[1].id = 0; }
static void member_from_future(mr_ps_view *v) { v->ranges.p[0].chain[1].since = 8; }
static void range_from_future(mr_ps_view *v) { v->ranges.p[1].epoch = 10; }
static void member_no_server(mr_ps_view *v) { v->ranges.p[0].chain[1].id = 14; }
static void catching_no_server(mr_ps_view *v) { v->ranges.p[0].catching.id = 14; }
static void lost_with_its_server(mr_ps_view *v)
{
    v->ranges.p[1].lost = true;
    v->ranges.p[1].chain[0].id = 14;
}
static void lost_and_moving(mr_ps_view *v) { v->ranges.p[1].lost = v->ranges.p[1].draining = true; }

MR_TEST(ps_view_a_good_one_is_taken) { MR_CHECK(!is_refused(nothing)); }

MR_TEST(ps_view_what_cannot_be_is_refused)
{
    void (*const changes[])(mr_ps_view *) = {no_ranges,          no_replicas,      no_epoch,           servers_twice,
                                             chain_too_long,    chain_negative,   member_twice,       member_catches_up,
                                             member_of_nobody,  member_from_future, range_from_future, lost_and_moving,
                                             member_no_server,  catching_no_server};
    for (int i = 0; i < MR_COUNT(changes); i++)
        if (!is_refused(changes[i]))
            mr_test_fail(__FILE__, __LINE__, "change %d is taken", i);
}

MR_TEST(ps_view_a_lost_range_may_name_who_is_gone) { MR_CHECK(!is_refused(lost_with_its_server)); }

MR_TEST(ps_view_neighbours_include_who_catches_up)
{
    mr_ps_view v;
    fill(&v);
    const mr_ps_range *s = &v.ranges.p[0];
    MR_CHECK(mr_ps_range_head(s) == 11 && mr_ps_range_before(s, 11) == 0 && mr_ps_range_after(s, 11) == 12);
    MR_CHECK(mr_ps_range_before(s, 12) == 11 && mr_ps_range_after(s, 12) == 13);
    MR_CHECK(mr_ps_range_before(s, 13) == 12 && mr_ps_range_after(s, 13) == 0);
    MR_CHECK(mr_ps_range_before(s, 99) == 0 && mr_ps_range_after(s, 99) == 0 && mr_ps_range_index(s, 99) == -1);
    mr_ps_view_deinit(&v);
}

MR_TEST(ps_view_nobody_is_before_or_after_nobody)
{
    mr_ps_range s = {.epoch = 1, .n = 1, .chain = {{5, 1}}};
    MR_CHECK(mr_ps_range_before(&s, 0) == 0 && mr_ps_range_after(&s, 0) == 0);
}

MR_TEST(ps_view_a_lost_range_has_no_head)
{
    mr_ps_range s = {.epoch = 1, .n = 1, .lost = true, .chain = {{5, 1}}};
    MR_CHECK(mr_ps_range_head(&s) == 0);
}

MR_TEST(ps_view_copy_is_its_own)
{
    mr_ps_view v, w = {0};
    fill(&v);
    mr_ps_view_copy(&w, &v);
    v.ranges.p[0].chain[0].id = 99;
    MR_CHECK(w.epoch == 9 && w.ranges.n == 2 && w.ranges.p[0].chain[0].id == 11 && mr_ps_view_has_server(&w, 12));
    MR_CHECK(!mr_ps_view_has_server(&w, 14) && !mr_ps_view_has_server(&w, 0));
    mr_ps_view_deinit(&v);
    mr_ps_view_deinit(&w);
}
