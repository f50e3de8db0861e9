/* cli/help_test.c */
#include "cli/help.h"

#include "base/memory.h"
#include "tests/harness/test.h"

static int64_t number;
static bool flag;

static const mr_option options[] = {
    {"number", MR_OPT_INT, &number, "N", "how many there are of the things that this option counts, in units (default 1)"},
    MR_OPTION_HEADING("Special cases"),
    {"a-name-that-fills-the-column", MR_OPT_FLAG, &flag, NULL, "short text"},
    {0},
};

static const mr_help_item variables[] = {{"A_VARIABLE", "its meaning"}, {0}};
static const mr_help_item examples[] = {{"millrace try --number 2 x", "Try it:"}, {0}};

static const mr_command command = {.name = "try",
                                   .summary = "try something",
                                   .usage = "FILE",
                                   .options = options,
                                   .about = "One paragraph with `code` in it.\n\n.A second one, with a \\.",
                                   .environment = variables,
                                   .examples = examples};

MR_TEST(help_of_a_command_is_wrapped_at_80_columns)
{
    mr_str out = {0};
    mr_help_command(&command, &out);
    MR_CHECK_STR(mr_str_z(&out), "usage: millrace try [OPTION]... FILE\n"
                                 "\n"
                                 "Try something.\n"
                                 "\n"
                                 "One paragraph with `code` in it.\n"
                                 "\n"
                                 ".A second one, with a \\.\n"
                                 "\n"
                                 "Options:\n"
                                 "  --number N              how many there are of the things that this option\n"
                                 "                          counts, in units (default 1)\n"
                                 "\n"
                                 "Special cases:\n"
                                 "  --a-name-that-fills-the-column\n"
                                 "                          short text\n"
                                 "\n"
                                 "Environment:\n"
                                 "  A_VARIABLE              its meaning\n"
                                 "\n"
                                 "Examples:\n"
                                 "  Try it:\n"
                                 "      millrace try --number 2 x\n");
    mr_str_deinit(&out);
}

static bool has(const mr_str *text, const char *part) { return strstr(mr_str_z(text), part) != NULL; }

MR_TEST(help_man_page_has_the_same_texts_escaped_for_roff)
{
    mr_str out = {0};
    mr_man_command(&command, &out);
    MR_CHECK(has(&out, ".SH NAME\nmillrace\\-try \\- try something\n"));
    MR_CHECK(has(&out, "One paragraph with \\fBcode\\fR in it.\n.PP\n\\&.A second one, with a \\e.\n"));
    MR_CHECK(has(&out, ".TP\n\\fB\\-\\-number\\fR \\fIN\\fR\nhow many"));
    MR_CHECK(has(&out, ".SS Special cases\n"));
    MR_CHECK(has(&out, ".SH ENVIRONMENT\n.TP\n.B A_VARIABLE\nits meaning\n"));
    MR_CHECK(has(&out, ".EX\nmillrace try \\-\\-number 2 x\n.EE\n"));
    mr_str_deinit(&out);
}

MR_TEST(help_overview_lists_commands_by_group)
{
    static const mr_command later = {.name = "first", .summary = "a summary", .group = MR_COMMANDS_OTHER};
    const mr_command *const commands[] = {&later, &command};
    mr_str out = {0};
    mr_help_overview(commands, 2, &out);
    const char *one = strstr(mr_str_z(&out), "  try       try something\n"), *other = strstr(mr_str_z(&out), "  first     a summary\n");
    MR_CHECK(one && other && one < other);
    mr_str_clear(&out);
    mr_man_overview(commands, 2, &out);
    MR_CHECK(has(&out, ".BR millrace\\-try (1)\ntry something\n"));
    mr_str_deinit(&out);
}
