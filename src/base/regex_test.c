/* base/regex_test.c -- what a pattern matches and what is said of one that is wrong.
 *
 * The expected values are those of RE2. */
#include "base/regex.h"

#include "base/memory.h"
#include "tests/harness/test.h"

static mr_regex *regex(const char *pattern)
{
    mr_regex *re;
    MR_CHECK_OK(mr_regex_new(mr_sv_of(pattern), &re));
    return re;
}

/* The whole match and group 1, as "whole|group"; "-": none. */
static void check_find(const char *pattern, const char *text, const char *expected)
{
    mr_regex *re = regex(pattern);
    mr_regex_match m[2];
    bool found;
    mr_str got = {0};
    MR_CHECK_OK(mr_regex_find(re, mr_sv_of(text), 0, m, 2, &found));
    if (found)
        mr_str_printf(&got, "%.*s", MR_SV_ARG(m[0]));
    if (found && m[1].p)
        mr_str_printf(&got, "|%.*s", MR_SV_ARG(m[1]));
    MR_CHECK_STR(found ? mr_str_z(&got) : "-", expected);
    mr_str_deinit(&got);
    mr_regex_free(re);
}

static void check_full(const char *pattern, const char *text, bool expected)
{
    mr_regex *re = regex(pattern);
    bool is;
    MR_CHECK_OK(mr_regex_is_full(re, mr_sv_of(text), &is));
    MR_CHECK(is == expected);
    mr_regex_free(re);
}

MR_TEST(regex_prefers_the_first_alternative_at_the_leftmost_place)
{
    check_find("(a|ab)(?:c|bcd)", "xabcd", "abcd|a");
    check_find("ab|a", "aab", "a");
    check_find("(a+?)", "aaa", "a|a");
    check_find("(?U)(a+)", "aaa", "a|a");
    check_find("x|(y)", "zzz", "-");
    check_find("(a)?b", "b", "b");
}

MR_TEST(regex_leaves_empty_rounds_as_perl_does)
{
    check_find("(|a)*", "aa", "|");
    check_find("(|a)+", "aa", "|");
    check_find("(a|b*)*c", "abbc", "abbc|bb");
    check_find("(a*)+", "b", "|");
}

MR_TEST(regex_knows_classes_of_unicode)
{
    check_full("\\p{Greek}+\\pN", "\xce\xb1\xce\xb2" "7", true);
    check_full("\\P{Lu}", "A", false);
    check_full("[[:^alpha:]]\\d\\W", "!7 ", true);
    check_full("(?i)\xc3\xa4k", "\xc3\x84\xe2\x84\xaa", true); /* the sign of kelvin */
    check_full("[^a]", "\n", true);
    check_full(".", "\n", false);
    check_full("(?s).", "\n", true);
}

MR_TEST(regex_knows_places)
{
    check_find("(?m)^b$", "a\nb\nc", "b");
    check_find("^b", "a\nb", "-");
    check_find("\\bfoo\\b", "foobar foo.", "foo");
    check_find("\\Qa.b\\E+", "a.bb", "a.bb");
}

MR_TEST(regex_takes_linear_time)
{
    mr_str text = {0};
    for (int i = 0; i < 20000; i++)
        mr_str_appendc(&text, 'a');
    mr_regex *re = regex("(a*)*(a*)*(a|aa)+b"); /* hopeless for a matcher that goes back */
    bool is;
    mr_test_deadline(20);
    MR_CHECK_OK(mr_regex_is_full(re, mr_str_view(&text), &is));
    MR_CHECK(!is);
    mr_regex_free(re);
    mr_str_deinit(&text);
}

MR_TEST(regex_says_what_is_wrong)
{
    static const struct {
        const char *pattern, *text;
    } cases[] = {
        {"(a", "missing ): (a"}, {"a)", "unexpected ): a)"}, {"[a", "missing ]: [a"},
        {"a**", "bad repetition operator: **"}, {"*", "no argument for repetition operator: *"},
        {"a{2,1}", "invalid repetition size: {2,1}"}, {"(a{100}){11}", "invalid repetition size: {11}"},
        {"\\8", "invalid escape sequence: \\8"}, {"\\", "trailing \\"}, {"\xff", "invalid UTF-8"},
        {"[b-a]", "invalid character class range: b-a"}, {"(?x)", "invalid perl operator: (?x"},
        {"(?P<n!>a)", "invalid named capture group: (?P<n!>"},
        {"\\p{Foo}", "invalid character class range: \\p{Foo}"},
        {"((\\pL{50}){10}){2}", "pattern too large - compile failed"},
    };
    for (int i = 0; i < MR_COUNT(cases); i++) {
        mr_regex *re = NULL;
        mr_status *st = mr_regex_new(mr_sv_of(cases[i].pattern), &re);
        MR_CHECK_STR(mr_status_message(st), cases[i].text);
        mr_status_free(st);
        mr_regex_free(re);
    }
}

/* Every allocation refused in turn: the answer is right, or there is none. */
MR_TEST(regex_answers_correctly_or_not_at_all_when_memory_is_out)
{
    bool refused = false;
    for (int64_t k = 1; k < 30; k++) {
        mr_regex *re = regex("a+(b)");
        mr_regex_match m[2];
        bool is;
        mr_memory_fail_after(k);
        mr_status *st = mr_regex_find(re, MR_SV("caab"), 0, m, 2, &is);
        mr_memory_fail_after(0);
        MR_CHECK(st ? mr_status_code(st) == MR_RESOURCE_EXHAUSTED : is && m[0].n == 3 && m[1].n == 1);
        refused |= st != NULL;
        mr_status_free(st);
        MR_CHECK_OK(mr_regex_is_full(re, MR_SV("aab"), &is));
        MR_CHECK(is);
        mr_regex_free(re);
    }
    MR_CHECK(refused);
}

/* ---- the automaton beside the threads ---- */

static void append_random(mr_str *out, const char *const *pieces, int n_pieces, int n)
{
    for (int i = 0; i < n; i++) {
        const char *piece = pieces[mr_test_random() % (unsigned)n_pieces];
        mr_str_append(out, piece, strlen(piece));
    }
}

/* With its first allocation refused, a pattern is matched by threads. */
static bool answer_of(const char *pattern, mr_sv text, bool full, bool by_threads)
{
    mr_regex *re = regex(pattern);
    bool is;
    mr_regex_match m[1];
    mr_memory_fail_after(by_threads ? 1 : 0);
    MR_CHECK_OK(full ? mr_regex_is_full(re, text, &is) : mr_regex_find(re, text, 0, m, 1, &is));
    mr_memory_fail_after(0);
    mr_regex_free(re);
    return is;
}

MR_TEST(regex_automaton_and_threads_agree)
{
    static const char *const atoms[] = {"a", "b", ".", "[ab]", "[^a]", "^", "$", "\\b", "\\B", "(?m:^)", "(?m:$)", "a*", "b+",
                                        "(ab|b)?", "(a|b)*", "(?:a|_)", "\\C", "\xc3\xa4", "\n", "|", ".*", "a{2,3}", "\\A", "\\z"};
    static const char *const letters[] = {"a", "b", "_", " ", "\n", "\xc3\xa4", "\xff", "ab"};
    int matches = 0;
    for (int i = 0; i < 4000; i++) {
        mr_str pattern = {0}, text = {0};
        append_random(&pattern, atoms, MR_COUNT(atoms), 1 + (int)(mr_test_random() % 6));
        append_random(&text, letters, MR_COUNT(letters), (int)(mr_test_random() % 8));
        for (int full = 0; full < 2; full++) {
            bool fast = answer_of(mr_str_z(&pattern), mr_str_view(&text), full, false);
            bool slow = answer_of(mr_str_z(&pattern), mr_str_view(&text), full, true);
            matches += slow;
            if (fast != slow)
                mr_test_fail(__FILE__, __LINE__, "'%s' on '%s', full %d: %d and %d", mr_str_z(&pattern), mr_str_z(&text), full,
                             fast, slow);
        }
        mr_str_deinit(&pattern);
        mr_str_deinit(&text);
    }
    MR_CHECK(matches > 500 && matches < 7500);
}

/* Its automaton would have 2^20 states: the threads answer, before and after it has given up. */
MR_TEST(regex_whose_automaton_is_too_large_is_matched_by_threads)
{
    mr_regex *re = regex("[ab]*a[ab]{20}");
    mr_str text = {0};
    bool is;
    mr_test_deadline(60);
    for (int i = 0; i < 20000; i++)
        mr_str_appendc(&text, mr_test_random() % 2 ? 'a' : 'b');
    for (int k = 0; k < 2; k++) {
        text.p[text.n - 21] = k ? 'a' : 'b';
        MR_CHECK_OK(mr_regex_is_full(re, mr_str_view(&text), &is));
        MR_CHECK(is == (k == 1));
    }
    mr_str_deinit(&text);
    mr_regex_free(re);
}
