/* base/report_test.c */
#include "base/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "tests/harness/test.h"

MR_TEST(report_reads_what_was_told)
{
    mr_report r;
    MR_CHECK(mr_report_parse(MR_SV("worker/1 1200 40 the token of step 12"), &r));
    MR_CHECK(mr_sv_is(r.task, "worker/1") && r.step == 1200 && r.own == 40);
    MR_CHECK(mr_sv_is(r.waiting, "the token of step 12"));
    MR_CHECK(mr_report_parse(MR_SV("ps/0 -1 0 "), &r));
    MR_CHECK(r.step == -1 && r.waiting.n == 0);
}

MR_TEST(report_refuses_what_is_none)
{
    mr_report r;
    static const char *const bad[] = {"", "worker/1", "worker/1 x 0 ", "worker/1 1", " 1 1 ", "worker/1 -2 0 ", "worker/1 1 -1 ",
                                      "worker/1 99999999999999999999 1 "};
    for (int i = 0; i < MR_COUNT(bad); i++)
        if (mr_report_parse(mr_sv_of(bad[i]), &r))
            mr_test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
}

/* A socket where reports of this process go to. */
static int listen_here(void)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/s", mr_test_dir());
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    MR_CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
    setenv("MILLRACE_STATUS", a.sun_path, 1);
    setenv("MILLRACE_TASK", "worker/3", 1);
    return fd;
}

MR_TEST(report_tells_steps_now_and_then_and_waits_at_once)
{
    char text[256] = "";
    int fd = listen_here();
    for (int i = 1; i <= 1000; i++)
        mr_report_step(10 * i);
    mr_report_waiting("ps/0");
    MR_CHECK(recv(fd, text, sizeof text - 1, 0) > 0);
    MR_CHECK_STR(text, "worker/3 10 1 ");
    ssize_t n = 0, last = 0;
    while ((n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT)) > 0)
        last = n;
    text[last] = 0;
    MR_CHECK_STR(text, "worker/3 10000 1000 ps/0");
    close(fd);
}

MR_TEST(report_tells_a_wait_within_a_step_when_it_lasts)
{
    char text[256] = "";
    int fd = listen_here();
    mr_report_blocked("other workers");
    mr_report_beat();
    MR_CHECK(recv(fd, text, sizeof text, MSG_DONTWAIT) < 0); /* not yet */
    mr_sleep_ns(INT64_C(1100000000));
    mr_report_beat();
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    MR_CHECK(n > 0);
    text[n] = 0;
    MR_CHECK_STR(text, "worker/3 -1 0 other workers");
    mr_report_step(5); /* told at once, because it ends the wait */
    n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    MR_CHECK(n > 0);
    text[n] = 0;
    MR_CHECK_STR(text, "worker/3 5 1 ");
    mr_report_beat();
    MR_CHECK(recv(fd, text, sizeof text, MSG_DONTWAIT) < 0);
    close(fd);
}

MR_TEST(report_tells_figures_of_workers)
{
    char text[256] = "";
    mr_report_figures f;
    int fd = listen_here();
    mr_report_tell_figures(&(mr_report_figures){7, 120, 3, 4500, 1.25, 9});
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    MR_CHECK(n > 0);
    MR_CHECK(mr_report_figures_parse((mr_sv){text, (size_t)n}, &f));
    MR_CHECK(f.worker == 7 && f.iterations == 120 && f.late == 3 && f.waited_ms == 4500 && f.staleness_max == 9);
    MR_CHECK_NEAR(f.staleness, 1.25, 1e-9);
    const char *const bad[] = {"", "figures", "figures 1 2 3 4 5", "figures 1 2 3 4 5 6 7", "figures 1 2 x 4 5 6", "figures -1 2 3 4 5 6",
                               "worker/1 2 3 4 5 6 7"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        MR_CHECK(!mr_report_figures_parse(mr_sv_of(bad[i]), &f));
    close(fd);
}

/* The next report, as text. */
static const char *next_report(int fd)
{
    static char text[2048];
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    MR_CHECK(n >= 0);
    text[MR_MAX(n, 0)] = 0;
    return text;
}

MR_TEST(report_tells_that_a_task_is_ready_or_its_port_taken)
{
    mr_report_news r;
    int fd = listen_here();
    mr_report_ready();
    MR_CHECK(mr_report_news_parse(mr_sv_of(next_report(fd)), &r));
    MR_CHECK(r.kind == MR_REPORT_READY && mr_sv_is(r.task, "worker/3"));
    mr_report_port_taken();
    MR_CHECK(mr_report_news_parse(mr_sv_of(next_report(fd)), &r));
    MR_CHECK(r.kind == MR_REPORT_PORT_TAKEN && mr_sv_is(r.task, "worker/3"));
    close(fd);
}

MR_TEST(report_tells_the_loss_and_the_last_step)
{
    mr_report_news r;
    int fd = listen_here();
    int64_t began = mr_now_ns();
    mr_report_progress(0.25, 1000);
    MR_CHECK(mr_report_news_parse(mr_sv_of(next_report(fd)), &r));
    MR_CHECK(r.kind == MR_REPORT_PROGRESS && r.loss == 0.25 && r.last_step == 1000);
    mr_report_progress(0.5, 1000); /* too soon, unless this machine is very busy */
    bool sent = recv(fd, &r, sizeof r, MSG_DONTWAIT) > 0;
    MR_CHECK(!sent || mr_now_ns() - began >= INT64_C(100000000));
    mr_sleep_ns(INT64_C(110000000));
    mr_report_progress(NAN, 2000); /* the loss of before goes with it */
    MR_CHECK(mr_report_news_parse(mr_sv_of(next_report(fd)), &r));
    MR_CHECK(r.loss == 0.5 && r.last_step == 2000);
    MR_CHECK(mr_report_news_parse(MR_SV("progress worker/3 nan -1"), &r));
    MR_CHECK(r.loss != r.loss && r.last_step == -1);
    close(fd);
}

MR_TEST(report_takes_the_log_when_nobody_listens)
{
    mr_report_news r;
    int fd = listen_here();
    mr_report_log();
    mr_info("still waiting for %s", "ps/0");
    MR_CHECK(mr_report_news_parse(mr_sv_of(next_report(fd)), &r));
    MR_CHECK(r.kind == MR_REPORT_LOG && mr_sv_is(r.text, "still waiting for ps/0"));
    close(fd);
}

MR_TEST(report_refuses_news_that_are_none)
{
    mr_report_news r;
    static const char *const bad[] = {"",
                                      "ready",
                                      "ready ",
                                      "ready worker/1 x",
                                      "progress worker/1",
                                      "progress worker/1 1",
                                      "progress worker/1 x 5",
                                      "progress worker/1 1 x",
                                      "progress worker/1 1 -2",
                                      "other worker/1"};
    for (int i = 0; i < MR_COUNT(bad); i++)
        if (mr_report_news_parse(mr_sv_of(bad[i]), &r))
            mr_test_fail(__FILE__, __LINE__, "'%s' was taken", bad[i]);
}

MR_TEST(report_without_a_watcher_does_nothing)
{
    unsetenv("MILLRACE_STATUS");
    mr_report_step(1);
    mr_report_waiting("nobody");
}
