/* net/listen_check_test.c */
#include "net/listen_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/net.h"
#include "tests/harness/test.h"

static void check_cause(const char *address, mr_listen_trouble want, const char *text)
{
    mr_listen_trouble what;
    mr_status *st = mr_listen_check(address, &what);
    MR_CHECK_INT(mr_status_code(st), MR_UNKNOWN);
    MR_CHECK_INT(what, want);
    MR_CHECK(strstr(mr_status_message(st), text));
    mr_status_free(st);
}

/* A socket that listens; its port. */
static int take_port(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MR_CHECK(bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0);
    MR_CHECK(getsockname(fd, (struct sockaddr *)&a, &n) == 0);
    *port = ntohs(a.sin_port);
    return fd;
}

MR_TEST(listen_check_names_a_taken_port)
{
    char address[64], text[64];
    int port, fd = take_port(&port);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    snprintf(text, sizeof text, "another process uses port %d", port);
    check_cause(address, MR_LISTEN_IN_USE, text);
    close(fd);
    MR_CHECK_OK(mr_listen_check(address, NULL));
}

MR_TEST(listen_check_names_an_address_of_another_machine)
{
    check_cause("192.0.2.1:0", MR_LISTEN_NOT_HERE, "192.0.2.1 is not an address of this machine");
}

MR_TEST(listen_check_names_a_name_that_does_not_resolve)
{
    check_cause("no-such-host.invalid:2222", MR_LISTEN_NO_NAME, "the name no-such-host.invalid does not resolve");
}

MR_TEST(listen_check_names_an_address_without_a_port)
{
    check_cause("localhost", MR_LISTEN_OTHER, "cannot listen at localhost: it is not host:port");
    check_cause("localhost:http", MR_LISTEN_OTHER, "the port is not a number from 0 to 65535");
    check_cause("localhost:65536", MR_LISTEN_OTHER, "the port is not a number from 0 to 65535");
    check_cause("localhost:", MR_LISTEN_OTHER, "the port is not a number from 0 to 65535");
}

MR_TEST(listen_check_names_a_port_that_is_not_allowed)
{
    mr_listen_trouble what;
    if (geteuid() == 0)
        MR_CHECK_INT(setuid(65534), 0); /* root may use all */
    mr_status *st = mr_listen_check("127.0.0.1:1", &what);
    bool allowed = !st || what == MR_LISTEN_IN_USE;
    mr_status_free(st);
    if (allowed)
        mr_test_skip("this machine gives low ports to everybody");
    check_cause("127.0.0.1:1", MR_LISTEN_NOT_ALLOWED,
                "this user may not use port 1: ports below 1024 are usually reserved for root");
}

MR_TEST(listen_check_takes_any_port_and_ipv6)
{
    MR_CHECK_OK(mr_listen_check("127.0.0.1:0", NULL));
    mr_listen_trouble what;
    mr_status *st = mr_listen_check("[::1]:0", &what); /* where the machine has it */
    MR_CHECK(!st || what == MR_LISTEN_NOT_HERE || what == MR_LISTEN_OTHER);
    mr_status_free(st);
}

MR_TEST(grpc_listening_at_a_taken_port_names_the_cause)
{
    char address[64];
    mr_net *grpc;
    mr_net_server *s = NULL;
    int port, fd = take_port(&port), got;
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    MR_CHECK_OK(mr_net_grpc(&grpc));
    mr_net_listen o = {.address = address};
    mr_status *st = grpc->listen(grpc, &o, &s, &got);
    MR_CHECK_INT(mr_status_code(st), MR_UNKNOWN);
    MR_CHECK(strstr(mr_status_message(st), "Could not start gRPC server: cannot listen at"));
    MR_CHECK(strstr(mr_status_message(st), "another process uses port"));
    mr_status_free(st);
    close(fd);
}
