/* base/terminal_test.c */
#include "base/terminal.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/harness/test.h"

MR_TEST(terminal_color_is_as_asked_for)
{
    mr_color_when when;
    MR_CHECK_OK(mr_color_parse(NULL, &when));
    MR_CHECK_INT(when, MR_COLOR_AUTO);
    MR_CHECK_OK(mr_color_parse("always", &when));
    MR_CHECK_INT(when, MR_COLOR_ALWAYS);
    MR_CHECK_OK(mr_color_parse("never", &when));
    MR_CHECK_INT(when, MR_COLOR_NEVER);
    MR_CHECK_ERR(mr_color_parse("red", &when), MR_INVALID_ARGUMENT, "expected auto, always or never");
}

MR_TEST(terminal_color_of_a_pipe_depends_on_the_environment)
{
    int pipe_of[2];
    MR_CHECK_INT(pipe(pipe_of), 0);
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    unsetenv("CLICOLOR_FORCE");
    MR_CHECK(!mr_terminal_color(pipe_of[1], MR_COLOR_AUTO));
    MR_CHECK(mr_terminal_color(pipe_of[1], MR_COLOR_ALWAYS));
    setenv("CLICOLOR_FORCE", "1", 1);
    MR_CHECK(mr_terminal_color(pipe_of[1], MR_COLOR_AUTO));
    MR_CHECK(!mr_terminal_color(pipe_of[1], MR_COLOR_NEVER));
    setenv("NO_COLOR", "", 1); /* an empty one does not count */
    MR_CHECK(mr_terminal_color(pipe_of[1], MR_COLOR_AUTO));
    setenv("NO_COLOR", "1", 1);
    MR_CHECK(!mr_terminal_color(pipe_of[1], MR_COLOR_AUTO));
    MR_CHECK(mr_terminal_color(pipe_of[1], MR_COLOR_ALWAYS));
    unsetenv("NO_COLOR");
    setenv("CLICOLOR_FORCE", "0", 1);
    MR_CHECK(!mr_terminal_color(pipe_of[1], MR_COLOR_AUTO));
    close(pipe_of[0]);
    close(pipe_of[1]);
}

MR_TEST(terminal_width_is_bounded)
{
    int pipe_of[2];
    MR_CHECK_INT(pipe(pipe_of), 0);
    MR_CHECK_INT(mr_terminal_of(pipe_of[1], MR_COLOR_NEVER, 0).width, MR_TERMINAL_USUAL);
    MR_CHECK_INT(mr_terminal_of(pipe_of[1], MR_COLOR_NEVER, 80).width, 80);
    MR_CHECK_INT(mr_terminal_of(pipe_of[1], MR_COLOR_NEVER, 1).width, MR_TERMINAL_NARROW);
    MR_CHECK_INT(mr_terminal_of(pipe_of[1], MR_COLOR_NEVER, INT64_MAX).width, MR_TERMINAL_WIDE);
    MR_CHECK(!mr_terminal_of(pipe_of[1], MR_COLOR_NEVER, 0).ascii); /* whatever the locale is */
    close(pipe_of[0]);
    close(pipe_of[1]);
}

MR_TEST(terminal_styles_need_color)
{
    mr_str out = {0};
    mr_style_put(&(mr_terminal){.color = true}, MR_STYLE_HEADING, MR_SV("a"), &out);
    mr_style_put(&(mr_terminal){.color = true}, NULL, MR_SV("b"), &out);
    mr_style_put(&(mr_terminal){.color = false}, MR_STYLE_HEADING, MR_SV("c"), &out);
    mr_style_put(NULL, MR_STYLE_HEADING, MR_SV("d"), &out);
    mr_style_put(&(mr_terminal){.color = true}, MR_STYLE_HEADING, MR_SV(""), &out);
    mr_style_printf(&(mr_terminal){.color = true}, mr_style_device(0), &out, "%d", 5);
    MR_CHECK_STR(mr_str_z(&out), "\x1b[1ma\x1b[0mbcd\x1b[36m5\x1b[0m");
    MR_CHECK_STR(mr_style_device(1), mr_style_device(9));
    MR_CHECK_STR(mr_style_device_box(1), mr_style_device_box(9));
    mr_str_deinit(&out);
}
