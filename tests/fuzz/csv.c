/* tests/fuzz/csv.c -- records of comma-separated values.
 *
 * The fields of a record that was accepted, written in quotes and split again, are the same fields. */
#include "base/memory.h"
#include "ops/parse/csv.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

enum { SPLIT, N_COUNTS };

static void quote(mr_str *out, mr_sv field)
{
    mr_str_appendc(out, '"');
    for (size_t i = 0; i < field.n; i++) {
        mr_str_appendc(out, field.p[i]);
        if (field.p[i] == '"')
            mr_str_appendc(out, '"');
    }
    mr_str_appendc(out, '"');
}

static void split_again(const mr_csv_fields *f)
{
    mr_csv csv = {.delim = ',', .quotes = true};
    mr_csv_fields again = {0};
    mr_str text = {0};
    for (int i = 0; i < f->ends.n; i++) {
        if (i > 0)
            mr_str_appendc(&text, ',');
        quote(&text, mr_csv_field(f, i));
    }
    fuzz_must(mr_csv_split(&csv, mr_str_view(&text), &again), "fields in quotes");
    if (again.ends.n != f->ends.n)
        fuzz_fail("%d fields become %d", f->ends.n, again.ends.n);
    for (int i = 0; i < f->ends.n; i++)
        if (!mr_sv_eq(mr_csv_field(f, i), mr_csv_field(&again, i)))
            fuzz_fail("field %d differs after a round trip", i);
    mr_csv_fields_deinit(&again);
    mr_str_deinit(&text);
}

static void try_record(fuzz_run *r, mr_sv bytes)
{
    static const char delims[] = ",;\t\"\n\r";
    static const int64_t cols[] = {0, 2, 3};
    mr_csv csv = {.delim = fuzz_once_in(&r->rng, 4) ? fuzz_pick(&r->rng, delims) : ',',
                  .quotes = !fuzz_once_in(&r->rng, 4),
                  .n_cols = fuzz_once_in(&r->rng, 4) ? (int)fuzz_between(&r->rng, 1, 3) : 0,
                  .cols = cols};
    mr_csv_fields f = {0};
    mr_sv exact = fuzz_exact(bytes);
    mr_status *st = mr_csv_split(&csv, exact, &f);
    fuzz_say(r, "%d fields, %s", f.ends.n, mr_status_message(st));
    if (!st) {
        if (f.text.n > bytes.n || (csv.n_cols && f.ends.n > csv.n_cols))
            fuzz_fail("more fields are returned than the record has");
        split_again(&f);
    }
    r->counts[SPLIT] += !st;
    mr_status_free(st);
    mr_csv_fields_deinit(&f);
    mr_free((void *)(uintptr_t)exact.p);
}

static void put_field(fuzz_rng *r, mr_str *out)
{
    static const char *const plain[] = {"", "1", "-2.5", "abc", " x ", "NA", "1e9"};
    static const char inner[] = "a,;\"\n\r \t";
    mr_str s = {0};
    if (!fuzz_once_in(r, 3)) {
        mr_str_appendz(out, fuzz_pick(r, plain));
        return;
    }
    for (uint64_t k = fuzz_below(r, 6); k > 0; k--)
        mr_str_appendc(&s, inner[fuzz_below(r, sizeof(inner) - 1)]);
    quote(out, mr_str_view(&s));
    mr_str_deinit(&s);
}

static void prepare(void) {}
static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_COUNTS; }

static void run(fuzz_run *r)
{
    mr_str text = {0};
    for (uint64_t k = fuzz_below(&r->rng, 6); k > 0; k--) {
        put_field(&r->rng, &text);
        if (k > 1 || fuzz_once_in(&r->rng, 4))
            mr_str_appendc(&text, fuzz_once_in(&r->rng, 30) ? '\n' : ',');
    }
    if (fuzz_once_in(&r->rng, 4))
        fuzz_damage(&r->rng, &text);
    fuzz_note(r, mr_str_view(&text));
    try_record(r, mr_str_view(&text));
    mr_str_deinit(&text);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    static const char *const names[] = {"split"};
    return fuzz_shares("csv", names, counts, 1, runs, 1, out, err);
}

const fuzz_target fuzz_csv = {.name = "csv",
                              .about = "records of comma-separated values",
                              .prepare = prepare,
                              .n_runs = n_runs,
                              .n_counts = n_counts,
                              .run = run,
                              .replay = try_record,
                              .summary = summary};
