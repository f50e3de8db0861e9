/* base/wrap_test.c */
#include "base/wrap.h"

#include "tests/harness/test.h"

static void check_wrap(const char *text, int width, int hang, const char *expected)
{
    mr_str s = {0};
    mr_str_appendz(&s, text);
    mr_wrap(&s, 0, width, hang);
    MR_CHECK_STR(mr_str_z(&s), expected);
    mr_str_deinit(&s);
}

MR_TEST(wrap_keeps_lines_that_fit)
{
    check_wrap("", 10, 2, "");
    check_wrap("0123456789\n\n  a    b\n", 10, 2, "0123456789\n\n  a    b\n");
}

MR_TEST(wrap_breaks_between_words_and_hangs)
{
    check_wrap("step   one two three", 14, 7, "step   one two\n       three");
    check_wrap("one two three four\nfive\n", 9, 2, "one two\n  three\n  four\nfive\n");
    check_wrap("one two   ", 8, 0, "one two");
}

MR_TEST(wrap_leaves_the_text_before_alone)
{
    mr_str s = {0};
    mr_str_appendz(&s, "a long first line\n");
    size_t from = s.n;
    mr_str_appendz(&s, "a second line");
    mr_wrap(&s, from, 9, 1);
    MR_CHECK_STR(mr_str_z(&s), "a long first line\na second\n line");
    mr_str_deinit(&s);
}

MR_TEST(wrap_keeps_numbers_with_their_units)
{
    check_wrap("it ends at 1.25 ms", 15, 0, "it ends at\n1.25 ms");
    check_wrap("busy 10 %, 3 devices", 12, 0, "busy 10 %,\n3 devices");
    check_wrap("in all (+3.5 %)", 12, 0, "in all\n(+3.5 %)");
    check_wrap("12345 metres", 6, 0, "12345\nmetres"); /* if there is room for both */
    check_wrap("      x y z", 6, 1, "   x y\n z"); /* of a deep indent as much as leaves room */
    check_wrap("as fast (3.5 s) now", 12, 0, "as fast\n(3.5 s) now");
    check_wrap("block_1 is ready", 10, 0, "block_1 is\nready"); /* a name that ends in a digit is no number */
}

MR_TEST(wrap_breaks_a_word_only_if_it_is_wider_than_a_line)
{
    check_wrap("on gradients/conv1", 17, 2, "on\n  gradients/conv1");
    check_wrap("on gradients/conv1/MatMul_1 now", 14, 2, "on gradients/\n  conv1/\n  MatMul_1 now");
    check_wrap("a_very_long_name", 10, 0, "a_very_\nlong_name");
    check_wrap("abcdefghijklm", 5, 1, "abcde\n fghi\n jklm");
}

MR_TEST(wrap_counts_columns_not_bytes)
{
    MR_CHECK_INT(mr_text_columns(MR_SV("\x1b[1;31mred\x1b[0m")), 3);
    MR_CHECK_INT(mr_text_columns(MR_SV("a\xe2\x80\xa6")), 2);
    MR_CHECK_INT(mr_text_columns(MR_SV("\x1b[3")), 3); /* no whole escape sequence */
    check_wrap("\x1b[36mgpu0\x1b[0m and \x1b[32mgpu1\x1b[0m end", 13, 0,
               "\x1b[36mgpu0\x1b[0m and \x1b[32mgpu1\x1b[0m\nend");
    check_wrap("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 2, 0, "\xc3\xa4\xc3\xa4\n\xc3\xa4\xc3\xa4");
}

MR_TEST(wrap_never_makes_a_line_too_wide_or_loses_a_word)
{
    static const char text[] = "  gradients/block1/c_3x3_2/Conv2D_grad/Conv2DBackpropInput (Conv2DBackpropInput)"
                               " on gpu0, ends at 4.64 ms";
    for (int width = 8; width < 120; width++) {
        mr_str s = {0}, words = {0}, expected = {0};
        mr_str_appendz(&s, text);
        mr_wrap(&s, 0, width, 4);
        for (mr_sv rest = mr_str_view(&s), line; mr_sv_cut(&rest, '\n', &line);)
            MR_CHECK(mr_text_columns(line) <= width);
        for (size_t i = 0; i < s.n; i++)
            if (s.p[i] != ' ' && s.p[i] != '\n')
                mr_str_appendc(&words, s.p[i]);
        for (const char *p = text; *p; p++)
            if (*p != ' ')
                mr_str_appendc(&expected, *p);
        MR_CHECK_STR(mr_str_z(&words), mr_str_z(&expected));
        mr_str_deinit(&s);
        mr_str_deinit(&words);
        mr_str_deinit(&expected);
    }
}

MR_TEST(wrap_least_is_the_widest_unbreakable_piece)
{
    MR_CHECK_INT(mr_wrap_least(MR_SV("block1/c_3x3_2")), 7);
    MR_CHECK_INT(mr_wrap_least(MR_SV("gpu0+gpu10, x")), 6);
    MR_CHECK_INT(mr_wrap_least(MR_SV("  conv1 x")), 7);
    MR_CHECK_INT(mr_wrap_least(MR_SV("")), 0);
}

MR_TEST(name_end_keeps_whole_names)
{
    static const mr_sv name = {"a/bc/def", 8};
    MR_CHECK(mr_sv_is(mr_name_end(name, 8), "a/bc/def"));
    MR_CHECK(mr_sv_is(mr_name_end(name, 7), "bc/def"));
    MR_CHECK(mr_sv_is(mr_name_end(name, 5), "def"));
    MR_CHECK(mr_sv_is(mr_name_end(name, 3), "def"));
    MR_CHECK_INT(mr_name_end(name, 2).n, 0);
    MR_CHECK_INT(mr_name_end(name, -1).n, 0);
}
