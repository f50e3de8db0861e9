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

MR_TEST(columns_are_aligned)
{
    mr_columns c = {0};
    mr_str out = {0};
    fill(&c);
    mr_columns_print(&c, 2, &out);
    MR_CHECK_STR(mr_str_z(&out), "  layer         devices         work\n"
                                 "  block1/c_3x3  gpu0+gpu1+gpu2     7\n"
                                 "  out           gpu0              12\n");
    mr_str_deinit(&out);
}

MR_TEST(columns_become_narrower_where_words_end)
{
    mr_columns c = {0};
    mr_str out = {0};
    fill(&c);
    MR_CHECK_INT(mr_columns_least(&c, 2), 2 + 9 + 2 + 7 + 2 + 4); /* 9: "block1/" and an indent */
    mr_columns_fit(&c, &(mr_terminal){.width = 33}, 2, &out);
    MR_CHECK_STR(mr_str_z(&out), "  layer         devices     work\n"
                                 "  block1/c_3x3  gpu0+gpu1+     7\n"
                                 "                gpu2\n"
                                 "  out           gpu0          12\n");
    mr_str_clear(&out);
    fill(&c);
    mr_columns_fit(&c, &(mr_terminal){.width = 26}, 2, &out);
    MR_CHECK_STR(mr_str_z(&out), "  layer    devices  work\n"
                                 "  block1/  gpu0+       7\n"
                                 "    c_3x3  gpu1+\n"
                                 "           gpu2\n"
                                 "  out      gpu0       12\n");
    mr_str_deinit(&out);
}

MR_TEST(columns_have_styles_only_with_color)
{
    mr_columns c = {0};
    mr_str out = {0};
    fill(&c);
    mr_columns_fit(&c, &(mr_terminal){.width = 80, .color = true}, 0, &out);
    MR_CHECK(strstr(mr_str_z(&out), "\x1b[1mlayer\x1b[0m         \x1b[1mdevices\x1b[0m         \x1b[1mwork\x1b[0m\n"));
    MR_CHECK(strstr(mr_str_z(&out), "block1/c_3x3  \x1b[36mgpu0+gpu1+gpu2\x1b[0m     7\n"));
    mr_str_deinit(&out);
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
