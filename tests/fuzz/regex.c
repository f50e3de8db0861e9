/* tests/fuzz/regex.c -- random patterns on random texts.
 *
 * An accepted pattern is searched for, matched against the whole text and replaced: matches are inside the text, groups
 * are inside the match, and a pattern that matches the whole text can be found. */
#include "base/memory.h"
#include "base/regex.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

static const char *const tokens[] = {
    "a", "b", "c", "A", "k", "s", "0", " ", "\n", "-", "*", "+", "?", "*?", "+?", "??", "{2}",
    "{1,3}", "{0,}", "{3,1}", "{1001}", "{2,}?", "{", "}", ",", "(", "(", ")", ")", "|", "|", "(?:",
    "(?i)", "(?s)", "(?m)", "(?U)", "(?i:", "(?-i)", "(?P<n>", "(?", "[", "]", "[^", "[a-c]", "[^a]",
    "[]a]", "[z-a]", "[[:alpha:]]", "[[:^digit:]]", "[[:foo:]]", "[\\w.]", ".", ".*", "^", "$", "\\b",
    "\\B", "\\A", "\\z", "\\d", "\\S", "\\W", "\\C", "\\pL", "\\PN", "\\p{Greek}", "\\p{^Lu}", "\\p{",
    "\\x41", "\\x{3b1}", "\\x{110000}", "\\1", "\\12", "\\", "\\Q", "\\E", "\xc3\xa4", "\xce\xb1",
    "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff", "(a|b)", "(a*)*", "(a|ab)", "(x+x+)+y", "{30}", "{99}"};
static const char *const pieces[] = {"a", "b", "c", "A", "k", "s", "0", " ", "\n", "-", "\xc3\xa4",
                                     "\xce\xb1", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff", "\x80",
                                     "xxxxxxxxxxxxxxxxxxxx", "ab", "y", "."};
static const char *const rewrites[] = {"", "x", "\\0", "\\1", "<\\2>", "\\\\", "\\q", "\\", "\\9"};
static const char *const names[] = {"accepted", "found"};

static void make_text(fuzz_rng *r, const char *const *from, size_t n, uint64_t max, mr_str *out)
{
    for (uint64_t k = fuzz_below(r, max); k > 0; k--)
        mr_str_appendz(out, from[fuzz_below(r, n)]);
    if (fuzz_once_in(r, 8))
        fuzz_damage(r, out);
}

static bool lies_in(mr_sv a, mr_sv b)
{
    return a.p >= b.p && a.n <= b.n && (size_t)(a.p - b.p) <= b.n - a.n;
}

static void check_matches(const mr_regex *re, mr_sv text, int64_t *found_count)
{
    mr_regex_match m[10];
    bool found, full;
    mr_status_free(mr_regex_find(re, text, 0, m, 10, &found));
    fuzz_must(mr_regex_is_full(re, text, &full), "a match");
    *found_count += found;
    if (full && !found)
        fuzz_fail("a pattern matches the whole text but is not found in it");
    if (found && !lies_in(m[0], text))
        fuzz_fail("a match is outside of the text");
    for (int i = 1; found && i < 10; i++)
        if (m[i].p && !lies_in(m[i], m[0]))
            fuzz_fail("group %d is outside of its match", i);
}

/* The three parts are separated by NULs. */
static void try_parts(fuzz_run *r, mr_sv pattern, mr_sv text, mr_sv rewrite)
{
    mr_regex *re = NULL;
    mr_status *st = mr_regex_new(pattern, &re);
    fuzz_say(r, "%.*s: %s", MR_SV_ARG(pattern), mr_status_message(st));
    if (!st) {
        mr_str out = {0};
        r->counts[0]++;
        check_matches(re, text, &r->counts[1]);
        fuzz_must(mr_regex_replace(re, text, rewrite, true, &out), "replacing");
        mr_str_clear(&out);
        fuzz_must(mr_regex_replace(re, text, rewrite, false, &out), "replacing");
        mr_str_deinit(&out);
    }
    mr_regex_free(re);
    mr_status_free(st);
}

static void replay(fuzz_run *r, mr_sv input)
{
    mr_sv part[3] = {MR_SV(""), MR_SV(""), MR_SV("")}, rest = input;
    for (int i = 0; i < 3; i++)
        if (!mr_sv_cut(&rest, '\0', &part[i]))
            break;
    for (int i = 0; i < 3; i++)
        part[i] = fuzz_exact(part[i]);
    try_parts(r, part[0], part[1], part[2]);
    for (int i = 0; i < 3; i++)
        mr_free((void *)(uintptr_t)part[i].p);
}

static void run(fuzz_run *r)
{
    mr_str s = {0};
    make_text(&r->rng, tokens, sizeof tokens / sizeof tokens[0], 12, &s);
    mr_str_appendc(&s, '\0');
    make_text(&r->rng, pieces, sizeof pieces / sizeof pieces[0], 20, &s);
    mr_str_appendc(&s, '\0');
    mr_str_appendz(&s, fuzz_pick(&r->rng, rewrites));
    fuzz_note(r, mr_str_view(&s));
    replay(r, mr_str_view(&s));
    mr_str_deinit(&s);
}

static void prepare(void) {}
static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return MR_COUNT(names); }

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    return fuzz_shares("regex", names, counts, MR_COUNT(names), runs, 1, out, err);
}

const fuzz_target fuzz_regex = {.name = "regex",
                                .about = "random patterns on random texts",
                                .prepare = prepare,
                                .n_runs = n_runs,
                                .n_counts = n_counts,
                                .run = run,
                                .replay = replay,
                                .summary = summary};
