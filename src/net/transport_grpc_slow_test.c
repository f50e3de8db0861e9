/* net/transport_grpc_slow_test.c -- peers of the gRPC transport that stop in the middle, send little by
 * little, or promise what never comes.
 *
 * They speak just enough HTTP/2 by hand: frames of a 9-byte head (length 3, type 1, flags 1, stream
 * 4), headers without compression. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "net/transport_fixture.h"
#include "tests/harness/test.h"

#define MS INT64_C(1000000)

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

static mr_net *grpc(void)
{
    mr_net *net;
    MR_CHECK_OK(mr_net_grpc(&net));
    return net;
}

/* ---- bytes ---- */

static void put_frame(mr_str *s, int type, int flags, int stream, const void *p, size_t n)
{
    const uint8_t head[9] = {
        (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, (uint8_t)type, (uint8_t)flags, 0, 0, 0,
        (uint8_t)stream};
    mr_str_append(s, head, sizeof(head));
    mr_str_append(s, p, n);
}

/* A literal header that is not to be remembered. */
static void put_header(mr_str *s, const char *name, const char *value)
{
    mr_str_appendc(s, 0);
    mr_str_appendc(s, (char)strlen(name));
    mr_str_appendz(s, name);
    mr_str_appendc(s, (char)strlen(value));
    mr_str_appendz(s, value);
}

/* A whole connection with one Echo of 4 bytes, though its message claims to have `claimed`. */
static void put_request(mr_str *s, uint32_t claimed, const char *timeout)
{
    mr_str headers = {0};
    uint32_t length = htonl(claimed);
    char message[9] = {0};
    memcpy(message + 1, &length, 4);
    memcpy(message + 5, "abcd", 4);
    put_header(&headers, ":method", "POST");
    put_header(&headers, ":scheme", "http");
    put_header(&headers, ":path", "/trial/Echo");
    put_header(&headers, ":authority", "x");
    put_header(&headers, "te", "trailers");
    put_header(&headers, "content-type", "application/grpc");
    if (timeout)
        put_header(&headers, "grpc-timeout", timeout);
    mr_str_appendz(s, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    put_frame(s, SETTINGS, 0, 0, "", 0);
    put_frame(s, HEADERS, END_HEADERS, 1, headers.p, headers.n);
    put_frame(s, DATA, claimed == 4 ? END_STREAM : 0, 1, message, sizeof(message));
    mr_str_deinit(&headers);
}

/* ---- sockets ---- */

static int dial_port(const char *address)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    MR_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    return fd;
}

static bool send_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

static bool receive_all(int fd, void *out, size_t n)
{
    return recv(fd, out, n, MSG_WAITALL) == (ssize_t)n;
}

/* The next frame's type and flags; its bytes are thrown away.  False: the other side hung up. */
static bool next_frame(int fd, int *type, int *flags)
{
    uint8_t head[9], byte;
    if (!receive_all(fd, head, sizeof(head)))
        return false;
    for (size_t n = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]; n > 0; n--)
        if (!receive_all(fd, &byte, 1))
            return false;
    *type = head[3];
    *flags = head[4];
    return true;
}

/* The server says how the call ended. */
static void check_answered(int fd)
{
    int type, flags;
    do
        MR_CHECK(next_frame(fd, &type, &flags));
    while (type != RST_STREAM && !(type == HEADERS && (flags & END_STREAM)));
}

static void check_hung_up(int fd)
{
    int type, flags;
    while (next_frame(fd, &type, &flags))
        ;
    close(fd);
}

static void check_works(trial *t)
{
    char out[8];
    size_t n = sizeof(out);
    MR_CHECK_OK(ask_once(t, "/trial/Echo", "fine", 4, out, &n));
    MR_CHECK(n == 4 && memcmp(out, "fine", 4) == 0);
}

/* ---- clients ---- */

MR_TEST(net_grpc_server_bears_connections_that_fall_silent)
{
    trial t;
    mr_str bytes = {0};
    int fds[256], n = 0;
    trial_open(&t, grpc());
    put_request(&bytes, 4, NULL);
    for (size_t at = 0; at < bytes.n; at += 7) {
        fds[n] = dial_port(t.address);
        MR_CHECK(send_all(fds[n++], bytes.p, at));
    }
    check_works(&t);
    trial_close(&t); /* nobody waits for them */
    for (int i = 0; i < n; i++)
        check_hung_up(fds[i]);
    mr_str_deinit(&bytes);
}

/* In pages of memory that are there. */
static long resident(void)
{
    long all = 0, there = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    MR_CHECK(f && fscanf(f, "%ld %ld", &all, &there) == 2);
    fclose(f);
    return there;
}

MR_TEST(net_grpc_server_takes_no_memory_for_4_GiB_that_were_only_promised)
{
    trial t;
    mr_str bytes = {0};
    trial_open(&t, grpc());
    check_works(&t);
    long before = resident();
    put_request(&bytes, UINT32_MAX, NULL);
    int fd = dial_port(t.address);
    MR_CHECK(send_all(fd, bytes.p, bytes.n));
    for (int i = 0; i < 10; i++)
        check_works(&t);
    MR_CHECK(resident() - before < (256L << 20) / sysconf(_SC_PAGESIZE));
    close(fd);
    trial_close(&t);
    mr_str_deinit(&bytes);
}

typedef struct drip {
    int fd;
    mr_sv bytes;
    int64_t every_ns;
} drip;

static void send_drops(void *arg)
{
    drip *d = arg;
    for (size_t i = 0; i < d->bytes.n && send_all(d->fd, d->bytes.p + i, 1); i++)
        mr_sleep_ns(d->every_ns);
}

MR_TEST(net_grpc_server_answers_a_slow_client_and_others_meanwhile)
{
    trial t;
    mr_str bytes = {0};
    mr_thread sender;
    trial_open(&t, grpc());
    put_request(&bytes, 4, NULL);
    drip d = {dial_port(t.address), mr_str_view(&bytes), MS};
    MR_CHECK(mr_thread_start(&sender, "drip", send_drops, &d) == 0);
    for (int i = 0; i < 20; i++)
        check_works(&t);
    check_answered(d.fd);
    mr_thread_join(&sender);
    close(d.fd);
    trial_close(&t);
    mr_str_deinit(&bytes);
}

MR_TEST(net_grpc_server_ends_a_slow_call_by_its_deadline)
{
    trial t;
    mr_str bytes = {0};
    trial_open(&t, grpc());
    put_request(&bytes, 1000, "100m");
    int fd = dial_port(t.address);
    MR_CHECK(send_all(fd, bytes.p, bytes.n));
    check_answered(fd);
    check_works(&t);
    close(fd);
    trial_close(&t);
    mr_str_deinit(&bytes);
}

/* One who answers pings but never comes to the end of its request. */
MR_TEST(net_grpc_server_ends_a_call_that_does_not_arrive)
{
    trial t;
    mr_str bytes = {0};
    mr_net *net = grpc();
    net->arrival_ns = 200 * MS;
    trial_open(&t, net);
    put_request(&bytes, 1000, NULL);
    int fd = dial_port(t.address);
    MR_CHECK(send_all(fd, bytes.p, bytes.n));
    check_answered(fd);
    ask a; /* one that has arrived may take as long as it likes */
    ask_init(&a, "/trial/Hold", "x", 1);
    ask_start(&a, t.net, t.peer);
    trial_wait(&t, &t.n_held, 1);
    mr_sleep_ns(1000 * MS);
    MR_CHECK(!ask_is_done(&a));
    trial_answer(&t, 0, NULL);
    MR_CHECK_OK(ask_wait(&a));
    ask_deinit(&a);
    close(fd);
    trial_close(&t);
    mr_str_deinit(&bytes);
}

/* ---- servers ---- */

/* What a server says that promises an answer of 4 GiB. */
static void put_promise(mr_str *s)
{
    mr_str headers = {0};
    put_header(&headers, ":status", "200");
    put_header(&headers, "content-type", "application/grpc");
    put_frame(s, SETTINGS, 0, 0, "", 0);
    put_frame(s, SETTINGS, ACK, 0, "", 0);
    put_frame(s, HEADERS, END_HEADERS, 1, headers.p, headers.n);
    put_frame(s, DATA, 0, 1,
              "\0\xff\xff\xff\xff"
              "abcd",
              9);
    mr_str_deinit(&headers);
}

/* It says `bytes` of that and falls silent. */
static void check_ends_by_deadline(size_t bytes)
{
    trial t;
    ask a;
    mr_str said = {0};
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(addr);
    char preface[24];
    trial_init(&t, grpc());
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    MR_CHECK(bind(listener, (struct sockaddr *)&addr, n) == 0 && listen(listener, 5) == 0 &&
             getsockname(listener, (struct sockaddr *)&addr, &n) == 0);
    snprintf(t.address, sizeof(t.address), "127.0.0.1:%d", ntohs(addr.sin_port));
    trial_connect(&t, NULL, NULL);
    ask_init(&a, "/trial/Echo", "x", 1);
    a.r.deadline_ns = mr_now_ns() + 500 * MS;
    ask_start(&a, t.net, t.peer);
    int fd = accept(listener, NULL, NULL), type, flags;
    MR_CHECK(receive_all(fd, preface, sizeof(preface)));
    put_promise(&said);
    size_t first = MR_MIN(bytes, 9);
    MR_CHECK(send_all(fd, said.p, first)); /* the settings, which it waits for before it asks */
    do
        MR_CHECK(bytes == 0 || next_frame(fd, &type, &flags));
    while (bytes && type != HEADERS);
    MR_CHECK(send_all(fd, said.p + first, MR_MIN(bytes, said.n) - first));
    MR_CHECK_ERR(ask_wait(&a), MR_DEADLINE_EXCEEDED, "");
    ask_deinit(&a);
    trial_close(&t);
    close(fd);
    close(listener);
    mr_str_deinit(&said);
}

MR_TEST(net_grpc_request_ends_by_its_deadline_when_nobody_speaks) { check_ends_by_deadline(0); }
MR_TEST(net_grpc_request_ends_by_its_deadline_in_the_middle) { check_ends_by_deadline(40); }
MR_TEST(net_grpc_request_ends_by_its_deadline_when_4_GiB_are_promised)
{
    check_ends_by_deadline(SIZE_MAX);
}

MR_TEST(net_grpc_server_refuses_a_call_without_the_token_before_its_request_has_arrived)
{
    trial t;
    mr_str bytes = {0};
    mr_net *net = grpc();
    memset(net->token, '5', sizeof net->token - 1);
    trial_init(&t, net);
    trial_listen(&t, NULL);
    put_request(&bytes, 1000, NULL);
    int fd = dial_port(t.address);
    MR_CHECK(send_all(fd, bytes.p, bytes.n));
    check_answered(fd);
    trial_connect(&t, NULL, NULL);
    check_works(&t); /* with the token */
    net->disconnect(t.peer);
    char first = net->token[0];
    net->token[0] = '\0';
    trial_connect(&t, NULL, NULL);
    net->token[0] = first;
    MR_CHECK_ERR(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL), MR_UNAUTHENTICATED, "token");
    close(fd);
    trial_close(&t);
    mr_str_deinit(&bytes);
}
