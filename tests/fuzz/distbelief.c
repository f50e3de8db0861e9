/* tests/fuzz/distbelief.c -- messages of Sandblaster's coordinator and replicas, and evaluations of replicas that send
 * anything.
 *
 * Whatever replicas send, each has at most one order, the counts of portions are correct, and a lane has one writer. */
#include "base/memory.h"
#include "dist/sandblaster.h"
#include "distbelief/sandblaster_messages.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

enum { HELLOS, REPORTS, ORDERS, EVALUATIONS, N_FORMS };

/* ---- words ---- */

static void read_hello(fuzz_run *r, mr_sv bytes)
{
    mr_blast_hello h;
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_blast_get_hello(exact, &h);
    r->counts[HELLOS] += !st;
    if (!st && (h.keys == 0 || h.width < 1))
        fuzz_fail("a vector of %llu keys of %lld", (unsigned long long)h.keys, (long long)h.width);
    mr_status_free(st);
    mr_free((void *)(uintptr_t)exact.p);
}

static void read_report(fuzz_run *r, mr_sv bytes)
{
    mr_blast_report o;
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_blast_get_report(exact, &o);
    r->counts[REPORTS] += !st;
    if (!st && (o.kind <= MR_TOLD_NOTHING || o.kind > MR_TOLD_FAILED || o.code < 0 || o.code > MR_UNAUTHENTICATED))
        fuzz_fail("a report of kind %d, code %d", (int)o.kind, o.code);
    mr_status_free(st);
    mr_free((void *)(uintptr_t)exact.p);
}

static void read_order(fuzz_run *r, mr_sv bytes)
{
    mr_blast_order o;
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_blast_get_order(exact, &o);
    r->counts[ORDERS] += !st;
    if (!st && o.kind == MR_WISH_COMPUTE && (o.portion < 0 || o.portion >= o.portions))
        fuzz_fail("portion %lld of %lld", (long long)o.portion, (long long)o.portions);
    mr_status_free(st);
    mr_free((void *)(uintptr_t)exact.p);
}

/* A message, damaged half of the time. */
static void spoil(fuzz_run *r, mr_bytes *b, mr_str *out)
{
    mr_sv flat;
    fuzz_must(mr_bytes_flat(b, &flat), "flat bytes");
    mr_str_append(out, flat.p, flat.n);
    mr_bytes_deinit(b);
    while (fuzz_once_in(&r->rng, 2) && out->n)
        fuzz_damage(&r->rng, out);
    fuzz_note(r, mr_str_view(out));
}

static void try_hello(fuzz_run *r)
{
    mr_bytes b = {0};
    mr_str s = {0};
    fuzz_must(mr_blast_put_hello(&(mr_blast_hello){MR_SV("job"), 1 + fuzz_below(&r->rng, 1 << 20), 16}, &b), "a hello");
    spoil(r, &b, &s);
    read_hello(r, mr_str_view(&s));
    mr_str_deinit(&s);
}

static void try_report(fuzz_run *r)
{
    mr_bytes b = {0};
    mr_str s = {0};
    mr_blast_report o = {(mr_blast_report_kind)(1 + fuzz_below(&r->rng, 4)), fuzz_odd_int(&r->rng), fuzz_odd_int(&r->rng), 0.25,
                         (int)fuzz_below(&r->rng, 17), MR_SV("why")};
    fuzz_must(mr_blast_put_report(&o, &b), "a report");
    spoil(r, &b, &s);
    read_report(r, mr_str_view(&s));
    mr_str_deinit(&s);
}

static void try_order(fuzz_run *r)
{
    mr_bytes b = {0};
    mr_str s = {0};
    int64_t portions = 1 + (int64_t)fuzz_below(&r->rng, 100);
    mr_blast_order o = {(mr_blast_order_kind)(1 + fuzz_below(&r->rng, 4)), fuzz_odd_int(&r->rng),
                        (int64_t)fuzz_below(&r->rng, (uint64_t)portions), portions, (int)fuzz_below(&r->rng, 50),
                        fuzz_once_in(&r->rng, 2)};
    fuzz_must(mr_blast_put_order(&o, &b), "an order");
    spoil(r, &b, &s);
    read_order(r, mr_str_view(&s));
    mr_str_deinit(&s);
}

/* ---- evaluations ---- */

static void check_ledger(const mr_blast *b)
{
    int n_free = 0, n_safe = 0;
    for (int i = 0; i < b->o.portions && b->evaluation; i++) {
        const mr_blast_portion *p = &b->portions[i];
        n_free += p->holding == MR_BLAST_FREE;
        n_safe += p->holding == MR_BLAST_SAFE;
        if (p->holding == MR_BLAST_SAFE && (p->lane < 0 || p->lane >= b->n_lanes))
            fuzz_fail("portion %d is in lane %d of %d", i, p->lane, b->n_lanes);
        if (b->running && p->holding == MR_BLAST_GIVEN && p->by[0] < 0 && p->by[1] < 0)
            fuzz_fail("portion %d is not assigned to any replica", i);
    }
    if (b->running && (n_free != b->n_free || n_safe != b->n_safe))
        fuzz_fail("%d portions are free and %d safe, expected %d and %d", n_free, n_safe, b->n_free, b->n_safe);
    for (int i = 0; i < b->replicas.n; i++)
        for (int k = 0; k < i; k++)
            if (b->replicas.p[i].lane >= 0 && b->replicas.p[i].lane == b->replicas.p[k].lane)
                fuzz_fail("two replicas write lane %d", b->replicas.p[i].lane);
}

/* An answer to the order that a replica has, or anything. */
static mr_blast_event some_event(fuzz_rng *g, const mr_blast *b)
{
    mr_blast_event e = {(mr_blast_event_kind)fuzz_below(g, MR_BLAST_TICK + 1), (int64_t)fuzz_below(g, 12), b->evaluation,
                        (int64_t)fuzz_below(g, 8), 1};
    if (b->replicas.n && !fuzz_once_in(g, 3)) {
        const mr_blast_replica *r = &b->replicas.p[fuzz_below(g, (uint64_t)b->replicas.n)];
        e = (mr_blast_event){r->state == MR_BLAST_FLUSHING ? MR_BLAST_FLUSHED : MR_BLAST_DONE, r->id, r->evaluation, r->portion, 1};
    } else if (fuzz_once_in(g, 8)) {
        e.evaluation = fuzz_odd_int(g);
        e.portion = fuzz_odd_int(g);
        e.replica = fuzz_odd_int(g);
    }
    if (e.kind == MR_BLAST_EVALUATE && b->running && !fuzz_once_in(g, 20))
        e.kind = MR_BLAST_JOIN;
    if (e.kind == MR_BLAST_JOIN && b->replicas.n >= 6)
        e.kind = MR_BLAST_TICK;
    return e;
}

static void try_evaluations(fuzz_run *r)
{
    fuzz_rng *g = &r->rng;
    mr_blast b;
    int64_t now = 0, completed = 0;
    mr_blast_init(&b, &(mr_blast_rules){1 + (int)fuzz_below(g, 8), 20});
    for (int k = 0; k < 200; k++, now += (int64_t)fuzz_below(g, 4)) {
        mr_blast_actions out = {0};
        mr_blast_event e = some_event(g, &b);
        mr_blast_step(&b, &e, now, &out);
        for (int i = 0; i < out.n; i++) {
            completed += out.p[i].what == MR_BLAST_COMPLETE;
            for (int j = 0; j < i && out.p[i].what != MR_BLAST_COMPLETE; j++)
                if (out.p[j].what != MR_BLAST_COMPLETE && out.p[j].replica == out.p[i].replica)
                    fuzz_fail("a replica gets two orders at once");
        }
        mr_vec_deinit(&out);
        check_ledger(&b);
    }
    r->counts[EVALUATIONS] += completed > 0;
    mr_blast_deinit(&b);
}

/* ---- the target ---- */

static int64_t n_runs(void) { return 400000; }
static int n_counts(void) { return N_FORMS; }

static void run(fuzz_run *r)
{
    static void (*const forms[N_FORMS])(fuzz_run *) = {try_hello, try_report, try_order, try_evaluations};
    forms[r->number % N_FORMS](r);
}

static void replay(fuzz_run *r, mr_sv input)
{
    read_hello(r, input);
    read_report(r, input);
    read_order(r, input);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"hellos", "reports", "orders", "evaluations"};
    return fuzz_shares("distbelief", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

const fuzz_target fuzz_distbelief = {.name = "distbelief",
                                     .about = "words of Sandblaster, and evaluations of replicas that say anything",
                                     .n_runs = n_runs,
                                     .n_counts = n_counts,
                                     .run = run,
                                     .replay = replay,
                                     .summary = summary};
