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

MR_TEST(regex_finds_no_match_when_memory_is_out)
{
    mr_regex *re = regex("a+");
    bool is;
    mr_memory_fail_after(1);
    mr_status *st = mr_regex_is_full(re, MR_SV("aa"), &is);
    mr_memory_fail_after(0);
    MR_CHECK_INT(mr_status_code(st), MR_RESOURCE_EXHAUSTED);
    mr_status_free(st);
    MR_CHECK_OK(mr_regex_is_full(re, MR_SV("aa"), &is));
    MR_CHECK(is);
    mr_regex_free(re);
}
