/* tests/fuzz/naming.c -- entries of a naming service that anybody may have written, and specs of naming services.
 *
 * An accepted entry is written again unchanged. An accepted spec is the same after being formatted and parsed again. A
 * book that gets entries in any order knows the last valid one, and nothing else. */
#include "base/memory.h"
#include "net/naming_book.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

typedef enum form { ENTRY, SPEC, BOOK, N_FORMS } form;

static const char *const names[N_FORMS] = {"entry", "spec", "book"};

static const char *const entries[] = {"127.0.0.1:2222 0123456789abcdef", "[fe80::1%eth0]:65535 ffffffffffffffff",
                                      "ps-0.job_1.example.com:1 0000000000000001", "a:1 0000000000000002"};
static const char *const specs[] = {"zk:2181", "a:1,b:2,[::1]:3/jobs/mnist.1", "a,[::1]/x"};

/* ---- mutants ---- */

static void insert_token(fuzz_rng *r, mr_str *s)
{
    static const char *const tokens[] = {":", ",", "/", " ", "  ", "[", "]", "%", ".", "..", "/../", ":0", ":65536", ":00001", "-1", "\n",
                                         "0000000000000000", "fffffffffffffffff", "A", "\xff", "zk:0"};
    mr_str out = {0};
    const char *token = fuzz_pick(r, tokens);
    size_t at = fuzz_below(r, s->n + 1);
    mr_str_append(&out, mr_str_z(s), at);
    for (uint64_t k = fuzz_once_in(r, 30) ? 300 : 1; k > 0; k--)
        mr_str_appendz(&out, token);
    mr_str_append(&out, mr_str_z(s) + at, s->n - at);
    mr_str_deinit(s);
    *s = out;
}

static void mutate(fuzz_rng *r, const char *seed, mr_str *out)
{
    mr_str_appendz(out, seed);
    for (uint64_t k = fuzz_below(r, 4); k > 0; k--)
        if (fuzz_once_in(r, 2))
            insert_token(r, out);
        else
            fuzz_damage(r, out);
}

/* ---- what was accepted ---- */

static bool try_entry(mr_sv bytes)
{
    mr_naming_entry e, again;
    mr_str text = {0};
    bool ok = mr_naming_decode(bytes, &e);
    if (!ok && (e.address[0] || e.incarnation))
        fuzz_fail("a rejected input left something behind");
    if (ok) {
        mr_naming_encode(&e, &text);
        if (!mr_sv_eq(mr_str_view(&text), bytes))
            fuzz_fail("an entry differs after a round trip");
        fuzz_must(mr_naming_entry_init(&again, e.address, e.incarnation), "an entry that was just read");
    }
    mr_str_deinit(&text);
    return ok;
}

static bool try_spec(mr_sv bytes)
{
    mr_naming_spec s, again;
    char *text = mr_strndup(bytes.p, bytes.n); /* as a variable has it: up to its first NUL */
    mr_status *st = mr_naming_spec_parse(text, &s);
    bool ok = !st;
    if (ok) {
        char *whole = mr_printf("%s%s", s.servers, s.path);
        fuzz_must(mr_naming_spec_parse(whole, &again), "a spec that was just taken apart");
        if (strcmp(s.servers, again.servers) != 0 || strcmp(s.path, again.path) != 0)
            fuzz_fail("a spec differs after a round trip");
        mr_naming_spec_deinit(&again);
        mr_free(whole);
    }
    mr_naming_spec_deinit(&s);
    mr_status_free(st);
    mr_free(text);
    return ok;
}

/* Successive entries of one task, split at newlines; an empty one means that there is no entry. */
static bool try_book(mr_sv bytes)
{
    mr_book b;
    mr_naming_entry last = {0};
    mr_sv rest = bytes, word;
    int moves = 0;
    mr_book_init(&b, 1);
    while (mr_sv_cut(&rest, '\n', &word)) {
        mr_naming_entry e;
        bool ok = word.n && mr_naming_decode(word, &e);
        mr_book_news news = mr_book_found(&b, 0, word.n ? word : (mr_sv){NULL, 0});
        if (ok && last.address[0] && (e.incarnation != last.incarnation || strcmp(e.address, last.address) != 0)) {
            moves++;
            if (news != MR_BOOK_MOVED)
                fuzz_fail("a task has moved, but the book does not report it");
        } else if (news == MR_BOOK_MOVED) {
            fuzz_fail("the book reports that a task has moved, but it has not");
        }
        if (ok)
            last = e;
        const char *known = mr_book_address(&b, 0);
        if (strcmp(known ? known : "", last.address) != 0)
            fuzz_fail("the book has another address than the last one");
    }
    if (b.tasks[0].moves != moves)
        fuzz_fail("%d moves were counted, of %d", b.tasks[0].moves, moves);
    mr_book_deinit(&b);
    return last.address[0] != 0;
}

/* ---- the target ---- */

static void try_bytes(fuzz_run *r, form f, mr_sv bytes)
{
    mr_sv exact = fuzz_exact(bytes);
    bool ok = f == ENTRY ? try_entry(exact) : f == SPEC ? try_spec(exact) : try_book(exact);
    fuzz_say(r, "%s of %zu bytes: %s", names[f], bytes.n, ok ? "accepted" : "refused");
    r->counts[f] += ok;
    mr_free((void *)(uintptr_t)exact.p);
}

static int64_t n_runs(void) { return 500000; }
static int n_counts(void) { return N_FORMS; }

static void make(fuzz_rng *r, form f, mr_str *out)
{
    if (f != BOOK) {
        mutate(r, f == ENTRY ? fuzz_pick(r, entries) : fuzz_pick(r, specs), out);
        return;
    }
    for (uint64_t k = fuzz_below(r, 8); k > 0; k--) {
        if (!fuzz_once_in(r, 4))
            mutate(r, fuzz_pick(r, entries), out);
        mr_str_appendc(out, '\n');
    }
}

/* The first byte says which form. */
static void replay(fuzz_run *r, mr_sv input)
{
    if (input.n > 0 && (unsigned char)input.p[0] < N_FORMS)
        try_bytes(r, (form)input.p[0], (mr_sv){input.p + 1, input.n - 1});
}

static void run(fuzz_run *r)
{
    form f = (form)(r->number % N_FORMS);
    mr_str bytes = {0};
    make(&r->rng, f, &bytes);
    fuzz_try_form(r, f, &bytes, replay);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    return fuzz_shares("naming", names, counts, N_FORMS, runs, N_FORMS, out, err);
}

static void prepare(void) {}

const fuzz_target fuzz_naming = {.name = "naming",
                                 .about = "entries of naming services, and where those are",
                                 .prepare = prepare,
                                 .n_runs = n_runs,
                                 .n_counts = n_counts,
                                 .run = run,
                                 .replay = replay,
                                 .summary = summary};
