/* base/columns_test.c */
#include "base/columns.h"

#include "base/memory.h"
#include "tests/harness/test.h"

static void fill(mr_columns *c)
{
    mr_columns_row(c, "layer", "devices", "work");
    mr_columns_style(c, -1, MR_STYLE_HEADING);
    mr_columns_row(c, "block1/c_3x3", "gpu0+gpu1+gpu2", "7");
    mr_columns_style(c, 1, mr_style_device(0));
    mr_columns_row(c, "out", "gpu0", "12");
    c->right = 1u << 2;
}

/* What the table looks like in a terminal; free with mr_free. */
static char *fitted(mr_terminal to, int indent)
{
    mr_columns c = {0};
    mr_str out = {0};
    fill(&c);
    mr_columns_fit(&c, &to, indent, &out);
    char *text = mr_strdup(mr_str_z(&out));
    mr_str_deinit(&out);
    return text;
}

static void check_width(int width, const char *wanted)
{
    char *text = fitted((mr_terminal){.width = width}, 2);
    MR_CHECK_STR(text, wanted);
    mr_free(text);
}

MR_TEST(columns_are_aligned)
{
    mr_columns c = {0};
    mr_str out = {0};
    fill(&c);
    MR_CHECK_INT(mr_columns_least(&c, 2), 2 + 9 + 2 + 7 + 2 + 4); /* 9: "block1/" and an indent */
    mr_columns_print(&c, 2, &out);
    MR_CHECK_STR(mr_str_z(&out), "  layer         devices         work\n"
                                 "  block1/c_3x3  gpu0+gpu1+gpu2     7\n"
                                 "  out           gpu0              12\n");
    mr_str_deinit(&out);
}

MR_TEST(columns_become_narrower_where_words_end)
{
    check_width(33, "  layer         devices     work\n"
                    "  block1/c_3x3  gpu0+gpu1+     7\n"
                    "                gpu2\n"
                    "  out           gpu0          12\n");
    check_width(26, "  layer    devices  work\n"
                    "  block1/  gpu0+       7\n"
                    "    c_3x3  gpu1+\n"
                    "           gpu2\n"
                    "  out      gpu0       12\n");
}

MR_TEST(columns_have_styles_only_with_color)
{
    char *text = fitted((mr_terminal){.width = 80, .color = true}, 0);
    MR_CHECK(strstr(text, "\x1b[1mlayer\x1b[0m         \x1b[1mdevices\x1b[0m         \x1b[1mwork\x1b[0m\n"));
    MR_CHECK(strstr(text, "block1/c_3x3  \x1b[36mgpu0+gpu1+gpu2\x1b[0m     7\n"));
    mr_free(text);
}

MR_TEST(columns_escape_control_characters)
{
    mr_columns c = {0};
    mr_str out = {0};
    mr_columns_row(&c, "a\x1b[31m", "b");
    mr_columns_row(&c, "", "");
    mr_columns_print(&c, 0, &out);
    MR_CHECK_STR(mr_str_z(&out), "a\\x1b[31m  b\n\n");
    mr_str_deinit(&out);
}
