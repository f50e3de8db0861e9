/* board/http_library_test.c -- slow clients and clients that leave, with the web server and a clock of this test.
 *
 * The server's deadlines are on a clock that only the test advances, so a busy machine cannot make a client late. How
 * often the server looks at that clock is real time. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "board/http.h"
#include "board/listen.h"
#include "tests/harness/test.h"

enum { WAIT_S = 60, GRACE_S = 30, BYTES_PER_S = 1 << 20, REPLY_BYTES = 64 << 20, FOREVER_S = 100000 };
#define SECOND ((int64_t)1000000000)

static _Atomic int64_t clock_ns;

static int64_t test_now_ns(void) { return clock_ns; }

/* ---- a board that answers nothing but these requests ---- */

static _Atomic int n_began, n_cancelled, n_freed; /* requests */
static char *large;

static bool admit_all(mr_board *b, const mr_board_request *r, size_t *most_bytes, mr_board_reply *out)
{
    (void)b, (void)r, (void)out;
    *most_bytes = 1 << 20;
    return true;
}

/* /large: a long reply. /wait: works until the request is cancelled. */
static void handle(mr_board *b, const mr_board_request *r, mr_board_reply *out)
{
    (void)b;
    n_began++;
    if (mr_sv_is(r->target, "/wait")) {
        while (!mr_cancel_flag_is_set(r->cancelled))
            mr_sleep_ns(SECOND / 1000);
        n_cancelled++;
    }
    *out = (mr_board_reply){.code = 200, .body = MR_SV("ok")};
    if (mr_sv_is(r->target, "/large"))
        out->body = (mr_sv){large, REPLY_BYTES};
}

static void refuse(int code, mr_code status, const char *message, mr_board_reply *out)
{
    (void)status, (void)message;
    *out = (mr_board_reply){.code = code, .body = MR_SV("refused")};
}

static void free_reply(mr_board_reply *r)
{
    n_freed += r->code == 200;
    *r = (mr_board_reply){0};
}

typedef struct server {
    const mr_board_http *http;
    mr_board_http_server *s;
    int port;
} server;

static server start_server(void)
{
    server v = {0};
    mr_board_sockets at;
    mr_test_deadline(60);
    mr_status *st = mr_board_http_library(&v.http);
    if (st) {
        mr_status_free(st);
        mr_test_skip("no libmicrohttpd");
    }
    clock_ns = SECOND;
    n_began = n_cancelled = n_freed = 0;
    MR_CHECK_OK(mr_board_listen(NULL, 0, 0, &at));
    v.port = at.port;
    mr_board_http_options o = {
        .admits = admit_all,
        .handle = handle,
        .refuse = refuse,
        .reply_deinit = free_reply,
        .sockets = at.fds,
        .n_sockets = at.n,
        .deadlines = {WAIT_S * SECOND, GRACE_S * SECOND, BYTES_PER_S, SECOND / 1000, test_now_ns},
    };
    MR_CHECK_OK(v.http->start(&o, &v.s));
    return v;
}

/* ---- clients ---- */

static int connect_to(const server *v)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)v->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MR_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0);
    return fd;
}

static void send_text(int fd, const char *text)
{
    MR_CHECK_INT(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* The server has closed the connection. It has sent nothing, or `text`. */
static bool is_closed(int fd)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (poll(&p, 1, 1) != 1)
        return false;
    ssize_t n = recv(fd, &byte, 1, 0);
    MR_CHECK(n <= 0);
    return true;
}

/* Sends a byte of the text each second, and then "a", until the connection is closed; returns after how long. */
static int drip(int fd, const char *text)
{
    size_t n = strlen(text), at = 0;
    for (int s = 1; s < FOREVER_S; s++) {
        clock_ns += SECOND;
        ssize_t sent = send(fd, at < n ? text + at : "a", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
        MR_CHECK(sent == 1 || errno == EPIPE || errno == ECONNRESET || errno == EAGAIN);
        at++;
        if (is_closed(fd)) {
            close(fd);
            return s;
        }
    }
    mr_test_fail(__FILE__, __LINE__, "the connection was never closed");
    return 0;
}

static void wait_for(const _Atomic int *count, int n)
{
    while (*count < n)
        mr_sleep_ns(SECOND / 1000);
}

/* ---- deadlines ---- */

MR_TEST(board_http_closes_a_connection_whose_request_line_drips)
{
    server v = start_server();
    MR_CHECK(drip(connect_to(&v), "GET /") >= WAIT_S);
    v.http->stop(v.s);
    MR_CHECK_INT(n_began, 0);
}

MR_TEST(board_http_closes_a_connection_whose_head_drips)
{
    static const char line[] = "GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ";
    server v = start_server();
    int fd = connect_to(&v);
    send_text(fd, line);
    MR_CHECK(drip(fd, "") >= GRACE_S);
    v.http->stop(v.s);
    MR_CHECK_INT(n_began, 0);
}

/* The request says that it has more bytes than are sent in the time. */
MR_TEST(board_http_closes_a_connection_whose_body_drips)
{
    server v = start_server();
    int fd = connect_to(&v);
    send_text(fd, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
    MR_CHECK(drip(fd, "") >= GRACE_S);
    v.http->stop(v.s);
    MR_CHECK_INT(n_began, 0);
}

/* Its memory is freed when the connection is closed. A long reply may take longer. */
MR_TEST(board_http_closes_a_connection_that_reads_nothing)
{
    server v = start_server();
    large = mr_try_calloc(REPLY_BYTES, 1);
    MR_CHECK(large != NULL);
    int fd = connect_to(&v), s = 0;
    send_text(fd, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wait_for(&n_began, 1);
    for (; n_freed == 0 && s < FOREVER_S; s++) {
        clock_ns += SECOND;
        mr_sleep_ns(SECOND / 1000);
    }
    MR_CHECK(s >= GRACE_S + REPLY_BYTES / BYTES_PER_S && s < FOREVER_S);
    v.http->stop(v.s);
    close(fd);
    mr_free(large);
}

/* A simulation may take as long as it wants, and then the connection can be used again. */
MR_TEST(board_http_has_no_deadline_for_its_own_work)
{
    server v = start_server();
    int fd = connect_to(&v), other;
    send_text(fd, "POST /wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    wait_for(&n_began, 1);
    other = connect_to(&v);
    MR_CHECK(drip(other, "GET /") >= WAIT_S); /* the deadlines were looked at */
    MR_CHECK(!is_closed(fd));
    MR_CHECK_INT(n_cancelled, 0);
    v.http->stop(v.s);
    close(fd);
}

/* ---- clients that leave ---- */

MR_TEST(board_http_cancels_the_request_of_a_client_that_leaves)
{
    server v = start_server();
    int fd[2] = {connect_to(&v), connect_to(&v)};
    for (int i = 0; i < 2; i++)
        send_text(fd[i], "POST /wait HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    wait_for(&n_began, 2);
    close(fd[0]);
    wait_for(&n_cancelled, 1);
    MR_CHECK(!is_closed(fd[1]));
    MR_CHECK_INT(n_cancelled, 1);
    v.http->stop(v.s); /* cancels the other one */
    MR_CHECK_INT(n_cancelled, 2);
    close(fd[1]);
}
