/* dist/ps_replica_test.c -- one range at one server, told as stories: what happens, and what follows.
 *
 * Servers are called A, B, C: ids 1, 2, 3.  What follows is written as "record 1", "send B 1-1", "have A 1/1" (version
 * and stable; ! asks for more), "ok 5" (the push with cookie 5), "gap 5", "not now 5". */
#include "dist/ps_replica.h"

#include "base/str.h"
#include "tests/harness/test.h"

enum { A = 1, B = 2, C = 3, RANGE = 4 };

typedef struct story {
    mr_psr r;
    mr_ps_clock clock;
    mr_str log;
    int64_t now;
} story;

static void begin(story *t, uint64_t self, int window)
{
    *t = (story){0};
    mr_ps_clock_init(&t->clock, 8, 0);
    mr_psr_options o = {.window = window, .retry_ns = 100, .max_kept = 4, .max_waiting = 3};
    mr_psr_init(&t->r, self, RANGE, &t->clock, &o);
}

static void end(story *t)
{
    mr_psr_deinit(&t->r);
    mr_ps_clock_deinit(&t->clock);
    mr_str_deinit(&t->log);
}

static char name(uint64_t id) { return (char)('@' + (int)id); }

static void tell_answer(story *t, const mr_psr_action *a)
{
    const char *how = mr_code_name(a->code);
    how = a->code == MR_OK ? "ok" : a->code == MR_ABORTED ? "gap" : a->code == MR_UNAVAILABLE ? "not now" : how;
    mr_str_printf(&t->log, "%s %d", how, (int)a->cookie);
}

static void tell(story *t, const mr_psr_action *a)
{
    switch (a->what) {
    case MR_PSR_RECORD: mr_str_printf(&t->log, "record %d of %d", (int)a->version, t->r.batch.n); break;
    case MR_PSR_APPLY: mr_str_printf(&t->log, "apply %d", (int)a->version); break;
    case MR_PSR_SEND:
        if (a->first > a->version)
            mr_str_printf(&t->log, "ask %c", name(a->to));
        else
            mr_str_printf(&t->log, "send %c %d-%d", name(a->to), (int)a->first, (int)a->version);
        break;
    case MR_PSR_HAVE:
        mr_str_printf(&t->log, "have %c %d/%d%s", name(a->to), (int)a->version, (int)a->stable, a->again ? "!" : "");
        break;
    case MR_PSR_REFUSE: mr_str_printf(&t->log, "refuse %c", name(a->to)); break;
    case MR_PSR_COPY: mr_str_printf(&t->log, "copy %c %d", name(a->to), (int)a->version); break;
    case MR_PSR_INSTALL: mr_str_printf(&t->log, "install %d", (int)a->version); break;
    case MR_PSR_RESET: mr_str_printf(&t->log, "reset"); break;
    case MR_PSR_FORGET: mr_str_printf(&t->log, "forget %d", (int)a->version); break;
    case MR_PSR_ANSWER: tell_answer(t, a); break;
    case MR_PSR_COMPLETE: mr_str_printf(&t->log, "complete %c", name(a->to)); break;
    case MR_PSR_DRAINED: mr_str_printf(&t->log, "drained"); break;
    case MR_PSR_DECLINE: mr_str_printf(&t->log, "decline %c", name(a->to)); break;
    case MR_PSR_ASK_VIEW: mr_str_printf(&t->log, "ask view"); break;
    }
}

static const char *told(story *t, mr_psr_actions *out)
{
    mr_str_clear(&t->log);
    for (int i = 0; i < out->n; i++) {
        mr_str_printf(&t->log, "%s", i ? ", " : "");
        tell(t, &out->p[i]);
    }
    mr_vec_deinit(out);
    return mr_str_z(&t->log);
}

/* The chain as letters, the head first; in small letters who catches up.  All are members since epoch 1. */
static mr_ps_range chain(uint64_t epoch, const char *members)
{
    mr_ps_range s = {.epoch = epoch, .generation = 1};
    for (; *members; members++) {
        if (*members >= 'a')
            s.catching = (mr_ps_member){(uint64_t)(*members - 'a' + 1), 1};
        else
            s.chain[s.n++] = (mr_ps_member){(uint64_t)(*members - 'A' + 1), 1};
    }
    return s;
}

static const char *view_of(story *t, mr_ps_range s)
{
    mr_psr_actions out = {0};
    mr_psr_view(&t->r, &s, t->now, &out);
    return told(t, &out);
}

static const char *view(story *t, uint64_t epoch, const char *members) { return view_of(t, chain(epoch, members)); }

static const char *push(story *t, uint64_t client, uint64_t ts, uint64_t prev, uint64_t cookie)
{
    mr_psr_actions out = {0};
    mr_psr_push p = {client, ts, prev, 1, 1, cookie};
    mr_psr_push_part(&t->r, &p, t->now, &out);
    return told(t, &out);
}

/* Records first .. last, each of one push of client 7, numbered as the record. */
static const char *append(story *t, uint64_t from, uint64_t epoch, uint64_t first, uint64_t last)
{
    mr_psr_actions out = {0};
    mr_ps_stamp stamps[8];
    mr_psr_record_info records[8];
    int n = 0;
    for (uint64_t v = first; v <= last; v++, n++) {
        stamps[n] = (mr_ps_stamp){7, v};
        records[n] = (mr_psr_record_info){v, &stamps[n], 1};
    }
    mr_psr_append(&t->r, from, epoch, records, n, t->now, &out);
    return told(t, &out);
}

static const char *have(story *t, uint64_t from, uint64_t epoch, uint64_t version, uint64_t stable, bool again)
{
    mr_psr_actions out = {0};
    mr_psr_have(&t->r, from, epoch, version, stable, again, t->now, &out);
    return told(t, &out);
}

static const char *tick(story *t, int64_t later)
{
    mr_psr_actions out = {0};
    t->now += later;
    mr_psr_tick(&t->r, t->now, &out);
    return told(t, &out);
}

/* ---- a head ---- */

MR_TEST(ps_replica_alone_answers_at_once)
{
    story t;
    begin(&t, A, 1);
    view(&t, 1, "A");
    MR_CHECK_STR(push(&t, 7, 1, 0, 5), "record 1 of 1, ok 5, forget 1");
    end(&t);
}

MR_TEST(ps_replica_answers_when_the_tail_has_it)
{
    story t;
    begin(&t, A, 1);
    MR_CHECK_STR(view(&t, 1, "AB"), "ask B");
    have(&t, B, 1, 0, 0, true);
    MR_CHECK_STR(push(&t, 7, 1, 0, 5), "record 1 of 1, send B 1-1");
    MR_CHECK_STR(have(&t, B, 1, 1, 0, false), "");
    MR_CHECK_STR(have(&t, B, 1, 1, 1, false), "ok 5, forget 1");
    end(&t);
}

MR_TEST(ps_replica_what_waits_becomes_one_record)
{
    story t;
    begin(&t, A, 1);
    view(&t, 1, "AB");
    have(&t, B, 1, 0, 0, true);
    push(&t, 7, 1, 0, 5);
    MR_CHECK_STR(push(&t, 7, 2, 1, 6), "");
    MR_CHECK_STR(push(&t, 8, 1, 0, 7), "");
    MR_CHECK_STR(have(&t, B, 1, 1, 1, false), "record 2 of 2, send B 2-2, ok 5, forget 1");
    MR_CHECK_STR(have(&t, B, 1, 2, 2, false), "ok 6, ok 7, forget 2");
    end(&t);
}

MR_TEST(ps_replica_a_wider_window_has_more_records_under_way)
{
    story t;
    begin(&t, A, 2);
    view(&t, 1, "AB");
    have(&t, B, 1, 0, 0, true);
    push(&t, 7, 1, 0, 5);
    MR_CHECK_STR(push(&t, 7, 2, 1, 6), "record 2 of 1, send B 2-2");
    MR_CHECK_STR(push(&t, 7, 3, 2, 7), "");
    end(&t);
}

MR_TEST(ps_replica_a_duplicate_is_acknowledged_only_when_stable)
{
    story t;
    begin(&t, A, 1);
    view(&t, 1, "AB");
    have(&t, B, 1, 0, 0, true);
    push(&t, 7, 1, 0, 5);
    MR_CHECK_STR(push(&t, 7, 1, 0, 6), "not now 5"); /* the earlier request is not waited for any more */
    MR_CHECK_STR(have(&t, B, 1, 1, 1, false), "ok 6, forget 1");
    MR_CHECK_STR(push(&t, 7, 1, 0, 8), "ok 8");
    end(&t);
}

MR_TEST(ps_replica_a_gap_is_told_with_the_last_number)
{
    story t;
    mr_psr_actions out = {0};
    begin(&t, A, 1);
    view(&t, 1, "A");
    push(&t, 7, 3, 0, 5);
    mr_psr_push p = {7, 9, 6, 1, 1, 6};
    mr_psr_push_part(&t.r, &p, 0, &out);
    MR_CHECK(out.n == 1 && out.p[0].code == MR_ABORTED && out.p[0].version == 3);
    mr_vec_deinit(&out);
    MR_CHECK_STR(push(&t, 7, 9, 9, 7), "INVALID_ARGUMENT 7");
    MR_CHECK_STR(push(&t, 0, 1, 0, 8), "INVALID_ARGUMENT 8");
    end(&t);
}

MR_TEST(ps_replica_takes_no_more_than_may_wait)
{
    story t;
    begin(&t, A, 1);
    view(&t, 1, "AB");
    push(&t, 7, 1, 0, 1);
    for (uint64_t i = 2; i <= 4; i++)
        MR_CHECK_STR(push(&t, 7, i, i - 1, i), "");
    MR_CHECK_STR(push(&t, 7, 5, 4, 5), "not now 5");
    end(&t);
}

MR_TEST(ps_replica_that_is_not_head_takes_no_push)
{
    story t;
    begin(&t, B, 1);
    MR_CHECK_STR(push(&t, 7, 1, 0, 5), "ask view, not now 5");
    view(&t, 1, "AB");
    MR_CHECK_STR(push(&t, 7, 1, 0, 6), "not now 6");
    MR_CHECK(mr_psr_admits(&t.r, 1) == MR_UNAVAILABLE);
    end(&t);
}

MR_TEST(ps_replica_knows_that_its_client_knows_more)
{
    story t;
    mr_psr_actions out = {0};
    begin(&t, A, 1);
    view(&t, 1, "A");
    mr_psr_push p = {7, 1, 0, 2, 1, 5};
    mr_psr_push_part(&t.r, &p, 0, &out);
    MR_CHECK_STR(told(&t, &out), "ask view, not now 5");
    MR_CHECK(mr_psr_admits(&t.r, 1) == MR_OK && mr_psr_admits(&t.r, 2) == MR_UNAVAILABLE);
    end(&t);
}

MR_TEST(ps_replica_a_stale_head_turns_its_clients_away)
{
    story t;
    mr_psr_actions out = {0};
    begin(&t, A, 1);
    view(&t, 1, "AB");
    have(&t, B, 1, 0, 0, true);
    push(&t, 7, 1, 0, 5);
    push(&t, 7, 2, 1, 6);
    mr_psr_refused(&t.r, B, 2, &out);
    MR_CHECK_STR(told(&t, &out), "not now 6, not now 5, ask view");
    MR_CHECK_STR(push(&t, 7, 2, 1, 7), "not now 7");
    MR_CHECK(mr_psr_admits(&t.r, 1) == MR_UNAVAILABLE);
    end(&t);
}

/* ---- a member ---- */

MR_TEST(ps_replica_the_tail_applies_and_says_so)
{
    story t;
    begin(&t, B, 1);
    MR_CHECK_STR(view(&t, 1, "AB"), "have A 0/0!");
    MR_CHECK_STR(append(&t, A, 1, 1, 2), "apply 1, apply 2, have A 2/2, forget 2");
    MR_CHECK(mr_ps_clock_get(&t.clock, 7, RANGE) == 2);
    end(&t);
}

MR_TEST(ps_replica_the_middle_passes_on_and_waits)
{
    story t;
    begin(&t, B, 1);
    MR_CHECK_STR(view(&t, 1, "ABC"), "have A 0/0!, ask C");
    have(&t, C, 1, 0, 0, true);
    MR_CHECK_STR(append(&t, A, 1, 1, 1), "apply 1, send C 1-1");
    MR_CHECK_STR(have(&t, C, 1, 1, 1, false), "have A 1/1, forget 1");
    end(&t);
}

MR_TEST(ps_replica_a_gap_in_records_is_refused)
{
    story t;
    begin(&t, B, 1);
    view(&t, 1, "AB");
    MR_CHECK_STR(append(&t, A, 1, 2, 3), "have A 0/0!");
    MR_CHECK_STR(append(&t, A, 1, 1, 3), "apply 1, apply 2, apply 3, have A 3/3, forget 3");
    end(&t);
}

MR_TEST(ps_replica_records_that_come_twice_count_once)
{
    story t;
    begin(&t, B, 1);
    view(&t, 1, "AB");
    append(&t, A, 1, 1, 2);
    MR_CHECK_STR(append(&t, A, 1, 1, 2), "have A 2/2"); /* the message may have been lost */
    MR_CHECK_STR(append(&t, A, 1, 2, 3), "apply 3, have A 3/3, forget 3");
    end(&t);
}

MR_TEST(ps_replica_refuses_who_is_of_an_older_epoch)
{
    story t;
    begin(&t, B, 1);
    view(&t, 1, "AB");
    view(&t, 2, "BC");
    MR_CHECK_STR(append(&t, A, 1, 1, 1), "refuse A");
    MR_CHECK_STR(have(&t, C, 1, 0, 0, true), "");
    end(&t);
}

static const char *decline(story *t, uint64_t from, uint64_t epoch)
{
    mr_psr_actions out = {0};
    mr_psr_decline(&t->r, from, epoch, &out);
    return told(t, &out);
}

/* It takes nothing, says so once until it is time to say it again, and begins with nothing when it is taken in again. */
MR_TEST(ps_replica_without_memory_declines)
{
    story t;
    begin(&t, B, 1);
    view(&t, 1, "AB");
    append(&t, A, 1, 1, 1);
    MR_CHECK_STR(decline(&t, A, 1), "decline B");
    MR_CHECK_STR(decline(&t, A, 1), "");
    MR_CHECK_INT(t.r.version, 1);
    tick(&t, 100);
    MR_CHECK_STR(decline(&t, A, 1), "decline B");
    MR_CHECK_STR(decline(&t, C, 1), ""); /* not the one before it */
    MR_CHECK_STR(view(&t, 2, "A"), "reset");
    MR_CHECK_STR(decline(&t, A, 1), "refuse A");
    MR_CHECK(!mr_psr_follows(&t.r, A, 2));
    end(&t);
}

MR_TEST(ps_replica_follows_the_one_before_it_in_its_epoch)
{
    story t;
    begin(&t, B, 1);
    view(&t, 3, "AB");
    MR_CHECK(mr_psr_follows(&t.r, A, 3));
    MR_CHECK(!mr_psr_follows(&t.r, A, 2) && !mr_psr_follows(&t.r, C, 3) && !mr_psr_follows(&t.r, 0, 3));
    view(&t, 4, "BA");
    MR_CHECK(!mr_psr_follows(&t.r, 0, 4) && !mr_psr_follows(&t.r, A, 4)); /* a head follows nobody */
    end(&t);
}

MR_TEST(ps_replica_asks_for_the_view_that_others_have)
{
    story t;
    begin(&t, B, 1);
    view(&t, 1, "AB");
    MR_CHECK_STR(append(&t, A, 2, 1, 1), "ask view");
    MR_CHECK_STR(append(&t, A, 2, 1, 1), ""); /* once */
    MR_CHECK_STR(tick(&t, 100), "ask view");
    end(&t);
}

MR_TEST(ps_replica_ignores_who_is_not_its_neighbour)
{
    story t;
    begin(&t, B, 1);
    view(&t, 1, "ABC");
    MR_CHECK_STR(append(&t, C, 1, 1, 1), "");
    MR_CHECK_STR(have(&t, A, 1, 0, 0, false), "");
    MR_CHECK_STR(have(&t, C, 1, 9, 9, false), ""); /* more than there is */
    MR_CHECK_INT(t.r.n_bad, 3);
    end(&t);
}

MR_TEST(ps_replica_a_record_that_its_clock_forbids_is_none)
{
    story t;
    mr_psr_actions out = {0};
    begin(&t, B, 1);
    view(&t, 1, "AB");
    append(&t, A, 1, 1, 3);
    const mr_ps_stamp stamps[] = {{8, 1}, {7, 2}};
    const mr_psr_record_info record = {4, stamps, 2};
    mr_psr_append(&t.r, A, 1, &record, 1, 0, &out);
    MR_CHECK_STR(told(&t, &out), "have A 3/3");
    MR_CHECK(t.r.n_bad == 1 && mr_ps_clock_get(&t.clock, 8, RANGE) == 0 && mr_ps_clock_get(&t.clock, 7, RANGE) == 3);
    end(&t);
}

/* ---- changes of the chain ---- */

MR_TEST(ps_replica_the_heir_sends_what_its_successor_lacks)
{
    story t;
    begin(&t, B, 1);
    view(&t, 1, "ABC");
    have(&t, C, 1, 0, 0, true);
    append(&t, A, 1, 1, 2);
    MR_CHECK_STR(view(&t, 2, "BC"), "ask C");
    MR_CHECK_STR(have(&t, C, 2, 1, 1, true), "send C 2-2, forget 1");
    MR_CHECK_STR(push(&t, 7, 2, 1, 9), ""); /* it counts already, but C may not have it yet */
    MR_CHECK_STR(have(&t, C, 2, 2, 2, false), "ok 9, forget 2");
    end(&t);
}

MR_TEST(ps_replica_the_last_one_left_answers_what_waited)
{
    story t;
    begin(&t, A, 1);
    view(&t, 1, "AB");
    push(&t, 7, 1, 0, 5);
    MR_CHECK_STR(view(&t, 2, "A"), "ok 5, forget 1");
    end(&t);
}

MR_TEST(ps_replica_that_was_dropped_begins_with_nothing)
{
    story t;
    begin(&t, B, 1);
    view(&t, 1, "AB");
    append(&t, A, 1, 1, 3);
    mr_ps_range s = chain(9, "Ab");
    s.catching.since = 9;
    MR_CHECK_STR(view_of(&t, s), "reset, have A 0/0!");
    MR_CHECK(mr_ps_clock_get(&t.clock, 7, RANGE) == 0);
    end(&t);
}

MR_TEST(ps_replica_another_generation_begins_with_nothing)
{
    story t;
    begin(&t, A, 1);
    view(&t, 1, "A");
    push(&t, 7, 1, 0, 5);
    mr_ps_range s = chain(3, "A");
    s.generation = 3;
    MR_CHECK_STR(view_of(&t, s), "reset");
    MR_CHECK_STR(push(&t, 7, 2, 1, 6), "not now 6"); /* of the generation before */
    end(&t);
}

MR_TEST(ps_replica_drains_when_all_have_the_same)
{
    story t;
    begin(&t, A, 1);
    view(&t, 1, "AB");
    have(&t, B, 1, 0, 0, true);
    push(&t, 7, 1, 0, 5);
    push(&t, 7, 2, 1, 6);
    mr_ps_range s = chain(2, "AB");
    s.draining = true;
    MR_CHECK_STR(view_of(&t, s), "ask B");
    MR_CHECK_STR(push(&t, 7, 3, 2, 7), "not now 7");
    MR_CHECK_STR(have(&t, B, 2, 1, 1, true), "record 2 of 1, send B 2-2, ok 5, forget 1");
    MR_CHECK_STR(have(&t, B, 2, 2, 2, false), "ok 6, drained, forget 2");
    MR_CHECK_STR(tick(&t, 100), "drained"); /* until a view comes of it */
    end(&t);
}

/* ---- catching up ---- */

MR_TEST(ps_replica_a_new_one_gets_records_while_they_are_kept)
{
    story t;
    begin(&t, A, 1);
    view(&t, 1, "AB");
    have(&t, B, 1, 0, 0, true);
    push(&t, 7, 1, 0, 5);
    MR_CHECK_STR(view(&t, 2, "Ab"), "ask B, ok 5"); /* not waited for */
    MR_CHECK_STR(have(&t, B, 2, 0, 0, true), "send B 1-1");
    MR_CHECK_STR(have(&t, B, 2, 1, 1, false), "complete B, forget 1");
    end(&t);
}

MR_TEST(ps_replica_a_new_one_gets_a_copy_and_what_comes_after_it)
{
    story t;
    mr_psr_actions out = {0};
    begin(&t, A, 1);
    view(&t, 1, "A");
    push(&t, 7, 1, 0, 5);
    push(&t, 7, 2, 1, 6);
    view(&t, 2, "Ab");
    MR_CHECK_STR(have(&t, B, 2, 0, 0, true), "copy B 2");
    MR_CHECK_STR(push(&t, 7, 3, 2, 7), "record 3 of 1, ok 7"); /* kept */
    mr_psr_copied(&t.r, B, true, 0, &out);
    MR_CHECK_STR(told(&t, &out), "send B 3-3");
    MR_CHECK_STR(push(&t, 7, 4, 3, 8), "record 4 of 1, send B 4-4"); /* now it is waited for */
    MR_CHECK_STR(have(&t, B, 2, 3, 3, false), "complete B, forget 3");
    MR_CHECK_STR(have(&t, B, 2, 4, 4, false), "ok 8, forget 4");
    end(&t);
}

MR_TEST(ps_replica_a_copy_that_failed_is_made_anew)
{
    story t;
    mr_psr_actions out = {0};
    begin(&t, A, 1);
    view(&t, 1, "A");
    push(&t, 7, 1, 0, 5);
    view(&t, 2, "Ab");
    have(&t, B, 2, 0, 0, true);
    mr_psr_copied(&t.r, B, false, 0, &out);
    MR_CHECK_STR(told(&t, &out), "");
    MR_CHECK_STR(tick(&t, 100), "ask B");
    MR_CHECK_STR(have(&t, B, 2, 0, 0, true), "copy B 1");
    end(&t);
}

MR_TEST(ps_replica_installs_a_copy_with_its_clocks)
{
    story t;
    mr_psr_actions out = {0};
    begin(&t, B, 1);
    view(&t, 2, "Ab");
    const mr_ps_stamp stamps[] = {{7, 5}, {9, 2}};
    mr_psr_copy(&t.r, A, 2, 6, stamps, 2, 0, &out);
    MR_CHECK_STR(told(&t, &out), "install 6, have A 6/6, have A 6/6!");
    MR_CHECK(mr_ps_clock_get(&t.clock, 7, RANGE) == 5 && mr_ps_clock_get(&t.clock, 9, RANGE) == 2);
    mr_psr_copy(&t.r, A, 2, 4, stamps, 2, 0, &out); /* an older one changes nothing */
    MR_CHECK_STR(told(&t, &out), "have A 6/6!");
    end(&t);
}

MR_TEST(ps_replica_a_new_one_too_far_behind_gets_another_copy)
{
    story t;
    mr_psr_actions out = {0};
    begin(&t, A, 1);
    view(&t, 1, "A");
    push(&t, 7, 1, 0, 1);
    view(&t, 2, "Ab");
    have(&t, B, 2, 0, 0, true); /* a copy at 1 */
    for (uint64_t i = 2; i <= 9; i++)
        push(&t, 7, i, i - 1, i);
    mr_psr_copied(&t.r, B, true, 0, &out);
    MR_CHECK_STR(told(&t, &out), "copy B 9, forget 9"); /* records 2 to 5 are not kept: four are the most */
    end(&t);
}

MR_TEST(ps_replica_says_again_what_may_be_lost)
{
    story t;
    begin(&t, A, 1);
    view(&t, 1, "AB");
    have(&t, B, 1, 0, 0, true);
    push(&t, 7, 1, 0, 5);
    MR_CHECK_STR(tick(&t, 50), "");
    MR_CHECK_STR(tick(&t, 50), "ask B");
    MR_CHECK_STR(have(&t, B, 1, 0, 0, true), "send B 1-1");
    end(&t);
}

/* ---- whatever comes ---- */

static mr_ps_range any_chain(uint64_t epoch)
{
    static const char *const chains[] = {"A", "AB", "BA", "ABC", "BAC", "Ab", "BAc", "Ba", "BC", "BCa", "AB"};
    mr_ps_range s = chain(epoch, chains[mr_test_random() % MR_COUNT(chains)]);
    s.draining = mr_test_random() % 8 == 0 && !s.catching.id;
    s.lost = mr_test_random() % 16 == 0 && s.n == 1 && !s.catching.id && !s.draining;
    s.generation = 1 + mr_test_random() % 16 / 15;
    return s;
}

/* Every request is answered once: who asks has a cookie of its own. */
static void check_answers(const mr_psr_actions *out, uint8_t *answered)
{
    for (int i = 0; i < out->n; i++)
        if (out->p[i].what == MR_PSR_ANSWER)
            MR_CHECK(++answered[out->p[i].cookie] == 1);
}

MR_TEST(ps_replica_survives_whatever_words_come)
{
    enum { EVENTS = 30000 };
    static uint8_t answered[EVENTS];
    story t;
    uint64_t epoch = 1;
    begin(&t, A, 2);
    for (int i = 0; i < EVENTS; i++) {
        mr_psr_actions out = {0};
        mr_psr *r = &t.r;
        uint64_t from = 1 + mr_test_random() % 3, e = epoch + mr_test_random() % 8 / 7 - mr_test_random() % 8 / 7;
        uint64_t version = mr_test_random() % 64 ? r->version + mr_test_random() % 4 - (r->version > 0) : UINT64_MAX;
        mr_ps_stamp stamps[2] = {{7, r->version + mr_test_random() % 5}, {8 + mr_test_random() % 2, version}};
        mr_psr_record_info records[2] = {{version, stamps, 2}, {version + 1, stamps + 1, (int)(mr_test_random() % 2)}};
        mr_ps_range s = any_chain(epoch + 1);
        switch (mr_test_random() % 16) {
        case 0: mr_psr_view(r, &s, t.now, &out), epoch++; break;
        case 1: mr_psr_refused(r, from, e, &out); break;
        case 2: mr_psr_copy(r, from, e, version, stamps, (int)(mr_test_random() % 3), t.now, &out); break;
        case 3: mr_psr_copied(r, from, mr_test_random() % 2, t.now, &out); break;
        case 4: mr_psr_tick(r, t.now += 40, &out); break;
        case 5:
        case 6:
        case 7: mr_psr_append(r, from, e, records, (int)(mr_test_random() % 3), t.now, &out); break;
        case 8:
        case 9:
        case 10: mr_psr_have(r, from, e, version, version - mr_test_random() % 2, mr_test_random() % 2, t.now, &out); break;
        default: {
            uint64_t client = mr_test_random() % 4 + 6, last = mr_ps_clock_get(&t.clock, client, RANGE);
            mr_psr_push p = {client, last + mr_test_random() % 3, last + mr_test_random() % 5 / 4, e, 1, (uint64_t)i};
            mr_psr_push_part(r, &p, t.now, &out);
        }
        }
        check_answers(&out, answered);
        MR_CHECK(r->stable <= r->version && r->after_has <= r->version && r->first_kept <= r->version + 1);
        MR_CHECK(r->waiting.n <= 3 && r->answers.n <= 12);
        mr_vec_deinit(&out);
    }
    end(&t);
}
