/* server/routes_test.c -- a folder of sockets that another user could write to is not used. */
#include "server/routes.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/memory.h"
#include "net/transport_fixture.h"
#include "server/host.h"
#include "tests/harness/test.h"

static int n_warnings;
static char warning[512];

static void hear(void *arg, mr_log_level level, const char *file, int line, const char *text)
{
    (void)arg, (void)file, (void)line;
    if (level != MR_LOG_WARNING)
        return;
    n_warnings++;
    snprintf(warning, sizeof warning, "%s", text);
}

static void answer(void *arg, mr_net_call *c)
{
    (void)arg;
    mr_reply(c, NULL, NULL);
}

/* Listens and calls with such a folder: gRPC carries the call, and one line says why. */
static void check_falls_back(const char *reason)
{
    mr_listeners d;
    mr_net *net;
    mr_net_peer *peer;
    ask a;
    int port;
    n_warnings = 0;
    mr_log_listen(hear, NULL);
    setenv("MILLRACE_SHM", "on", 1);
    MR_CHECK_OK(mr_listeners_open("127.0.0.1:0", NULL, answer, NULL, &d, &port));
    char *address = mr_printf("127.0.0.1:%d", port);
    MR_CHECK_OK(mr_route_to(address, NULL, NULL, &net, &peer));
    MR_CHECK_STR(net->name, "direct");
    ask_init(&a, "/x.Y/Z", "", 0);
    ask_start(&a, net, peer);
    MR_CHECK_OK(ask_wait(&a));
    ask_deinit(&a);
    net->disconnect(peer);
    mr_listeners_close(&d, 0);
    mr_log_listen(NULL, NULL);
    MR_CHECK_INT(n_warnings, 1);
    MR_CHECK(strstr(warning, reason));
    mr_free(address);
}

static char *runtime_folder(void)
{
    setenv("XDG_RUNTIME_DIR", mr_test_dir(), 1);
    return mr_printf("%s/millrace", mr_test_dir());
}

MR_TEST(routes_do_not_use_a_folder_that_is_a_link)
{
    char *folder = runtime_folder(), *real = mr_printf("%s/real", mr_test_dir());
    MR_CHECK(mkdir(real, 0700) == 0 && symlink(real, folder) == 0);
    check_falls_back("is not a folder");
    mr_free(folder);
    mr_free(real);
}

MR_TEST(routes_do_not_use_a_folder_that_others_may_enter)
{
    char *folder = runtime_folder();
    MR_CHECK(mkdir(folder, 0755) == 0 && chmod(folder, 0755) == 0);
    check_falls_back("other users may enter");
    mr_free(folder);
}

MR_TEST(routes_do_not_use_a_folder_of_another_user)
{
    char *folder = runtime_folder();
    MR_CHECK(mkdir(folder, 0700) == 0);
    if (getuid() == 0 && chown(folder, 12345, 12345) == 0) /* who else could make one? */
        check_falls_back("belongs to another user");
    mr_free(folder);
}

MR_TEST(routes_use_the_folder_they_are_told)
{
    mr_listeners d;
    mr_net *net;
    mr_net_peer *peer;
    int port;
    setenv("MILLRACE_SHM", "on", 1);
    setenv("MILLRACE_SOCKETS", mr_test_dir(), 1);
    MR_CHECK(chmod(mr_test_dir(), 0700) == 0);
    MR_CHECK_OK(mr_listeners_open("127.0.0.1:0", NULL, answer, NULL, &d, &port));
    char *address = mr_printf("127.0.0.1:%d", port), *path = mr_printf("%s/%d", mr_test_dir(), port);
    MR_CHECK(access(path, F_OK) == 0);
    MR_CHECK_OK(mr_route_to(address, NULL, NULL, &net, &peer));
    MR_CHECK_STR(net->name, "local");
    net->disconnect(peer);
    mr_listeners_close(&d, 0);
    mr_free(address);
    mr_free(path);
}
