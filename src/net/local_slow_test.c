/* net/local_slow_test.c -- peers of the local transport that stop in the middle, send little by little,
 * or promise what never comes; and messages that wait for each other. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/raw_peer_fixture.h"
#include "net/local.h"
#include "tests/harness/test.h"

#define MS INT64_C(1000000)
#define FOUR_GIB (UINT64_C(4) << 30)

static const mr_frame_head request = {MR_FRAME_REQUEST, .text_bytes = 11};

/* ---- half-open ---- */

/* Bytes of a good request, up to which a peer comes before it falls silent. */
static size_t good_request(uint8_t out[MR_FRAME_HEAD + 11 + 4])
{
    mr_frame_head h = request;
    h.stream_bytes = 4;
    mr_frame_head_write(&h, out);
    memcpy(out + MR_FRAME_HEAD, "/trial/Echoabcd", 15);
    return MR_FRAME_HEAD + 15;
}

MR_TEST(local_server_bears_connections_that_fall_silent)
{
    enum { N = 55 };
    trial t;
    uint8_t bytes[MR_FRAME_HEAD + 15];
    int fds[N];
    trial_open(&t, mr_net_local());
    MR_CHECK_INT(good_request(bytes), N);
    for (int i = 0; i < N; i++) {
        fds[i] = shake_hands(t.address);
        write_all(fds[i], bytes, (size_t)i);
    }
    check_works(&t);
    trial_close(&t); /* nobody waits for them */
    for (int i = 0; i < N; i++)
        check_closed(fds[i]);
}

/* As after the power failed over there: no more bytes, and no end. */
MR_TEST(local_request_ends_by_its_deadline_when_the_server_falls_silent)
{
    trial t;
    ask a, b;
    trial_init(&t, mr_net_local());
    int listener = listen_by_hand(t.address);
    trial_connect(&t, NULL, NULL);
    ask_init(&a, "/trial/Echo", "x", 1);
    a.r.deadline_ns = mr_now_ns() + 100 * MS;
    ask_start(&a, t.net, t.peer);
    int fd = accept_by_hand(listener);
    uint8_t half[MR_FRAME_HEAD / 2] = {MR_FRAME_REPLY};
    write_all(fd, half, sizeof(half));
    MR_CHECK_ERR(ask_wait(&a), MR_DEADLINE_EXCEEDED, "");
    ask_init(&b, "/trial/Echo", "x", 1); /* over the same connection */
    b.r.deadline_ns = mr_now_ns() + 100 * MS;
    ask_start(&b, t.net, t.peer);
    MR_CHECK_ERR(ask_wait(&b), MR_DEADLINE_EXCEEDED, "");
    ask_deinit(&a);
    ask_deinit(&b);
    trial_close(&t);
    close(fd);
    close(listener);
}

/* ---- 4 GiB ---- */

/* It may be said, but nobody takes memory for it that the budget has not got. */
MR_TEST(local_server_takes_no_memory_for_4_GiB_that_were_only_promised)
{
    trial t;
    mr_net_budget *held = &mr_local_settings_get()->received;
    trial_open(&t, mr_net_local());
    mr_net_local_budget(0, 1 << 20);
    int fd = shake_hands(t.address);
    mr_frame_head h = request;
    h.stream_bytes = FOUR_GIB;
    write_frame(fd, h, "/trial/Echo", NULL);
    write_all(fd, "some", 4);
    check_works(&t);
    MR_CHECK_INT(held->used, 0);
    close(fd);
    trial_close(&t);
}

MR_TEST(local_server_hangs_up_on_a_method_of_4_GiB)
{
    trial t;
    trial_open(&t, mr_net_local());
    int fd = shake_hands(t.address);
    uint8_t head[MR_FRAME_HEAD];
    mr_frame_head_write(&(mr_frame_head){MR_FRAME_REQUEST, .text_bytes = UINT32_MAX}, head);
    write_all(fd, head, sizeof(head));
    check_closed(fd);
    check_works(&t);
    trial_close(&t);
}

MR_TEST(local_request_ends_by_its_deadline_when_4_GiB_are_promised)
{
    trial t;
    ask a;
    trial_init(&t, mr_net_local());
    int listener = listen_by_hand(t.address);
    trial_connect(&t, NULL, NULL);
    ask_init(&a, "/trial/Echo", "x", 1);
    a.r.deadline_ns = mr_now_ns() + 100 * MS;
    ask_start(&a, t.net, t.peer);
    int fd = accept_by_hand(listener);
    write_frame(fd, (mr_frame_head){MR_FRAME_REPLY, .stream_bytes = FOUR_GIB}, "", NULL);
    MR_CHECK_ERR(ask_wait(&a), MR_DEADLINE_EXCEEDED, "");
    ask_deinit(&a);
    trial_close(&t);
    close(fd);
    close(listener);
}

/* ---- little by little ---- */

typedef struct drip {
    int fd;
    const uint8_t *bytes;
    size_t n;
    int64_t every_ns;
} drip;

/* Until the other side has hung up. */
static void send_drops(void *arg)
{
    drip *d = arg;
    for (size_t i = 0; i < d->n; i++) {
        if (send(d->fd, d->bytes + i, 1, MSG_NOSIGNAL) != 1)
            return;
        mr_sleep_ns(d->every_ns);
    }
}

MR_TEST(local_server_answers_a_slow_client_and_others_meanwhile)
{
    trial t;
    uint8_t bytes[MR_FRAME_HEAD + 15], head[MR_FRAME_HEAD], body[4];
    mr_thread sender;
    trial_open(&t, mr_net_local());
    drip d = {shake_hands(t.address), bytes, good_request(bytes), 2 * MS};
    MR_CHECK(mr_thread_start(&sender, "drip", send_drops, &d) == 0);
    for (int i = 0; i < 20; i++)
        check_works(&t);
    read_all(d.fd, head, sizeof(head));
    read_all(d.fd, body, sizeof(body));
    MR_CHECK(memcmp(body, "abcd", 4) == 0);
    mr_thread_join(&sender);
    close(d.fd);
    trial_close(&t);
}

/* However it drips, a frame that does not grow ends with its connection, and its memory is free. */
MR_TEST(local_server_hangs_up_on_who_is_too_slow)
{
    enum { BYTES = 1 << 20 };
    trial t;
    mr_thread sender;
    uint8_t *zeros = mr_calloc(1, BYTES);
    mr_net_budget *held = &mr_local_settings_get()->received;
    mr_local_settings_get()->frame_ns = 100 * MS;
    trial_open(&t, mr_net_local());
    drip d = {shake_hands(t.address), zeros, BYTES, MS};
    mr_frame_head h = request;
    h.stream_bytes = BYTES;
    write_frame(d.fd, h, "/trial/Echo", NULL);
    MR_CHECK(mr_thread_start(&sender, "drip", send_drops, &d) == 0);
    char byte;
    MR_CHECK(read(d.fd, &byte, 1) <= 0);
    mr_thread_join(&sender);
    close(d.fd);
    while (held->used) /* it goes with the connection, just behind its socket */
        mr_sleep_ns(MS);
    check_works(&t);
    trial_close(&t);
    mr_free(zeros);
}

MR_TEST(local_client_hangs_up_on_who_is_too_slow)
{
    trial t;
    ask a;
    mr_thread sender;
    uint8_t zeros[1000] = {0};
    mr_local_settings_get()->frame_ns = 50 * MS;
    trial_init(&t, mr_net_local());
    int listener = listen_by_hand(t.address);
    trial_connect(&t, NULL, NULL);
    ask_init(&a, "/trial/Echo", "x", 1); /* without a deadline */
    ask_start(&a, t.net, t.peer);
    drip d = {accept_by_hand(listener), zeros, sizeof(zeros), 2 * MS};
    write_frame(d.fd, (mr_frame_head){MR_FRAME_REPLY, .stream_bytes = 1 << 20}, "", NULL);
    MR_CHECK(mr_thread_start(&sender, "drip", send_drops, &d) == 0);
    MR_CHECK_ERR(ask_wait(&a), MR_UNAVAILABLE, "too slowly");
    mr_thread_join(&sender);
    ask_deinit(&a);
    trial_close(&t);
    close(d.fd);
    close(listener);
}

/* ---- requests that come while the connection is made ---- */

/* No answer comes that could carry one along which was left behind. */
MR_TEST(local_requests_are_sent_whenever_they_come)
{
    enum { ROUNDS = 150, EACH = 20 };
    trial t;
    trial_open(&t, mr_net_local());
    for (int i = 0; i < ROUNDS; i++) {
        mr_net_peer *p;
        ask a[EACH];
        MR_CHECK_OK(t.net->connect(t.net, t.address, NULL, NULL, &p));
        for (int k = 0; k < EACH; k++) {
            ask_init(&a[k], "/trial/Hold", "x", 1);
            ask_start(&a[k], t.net, p);
        }
        trial_wait(&t, &t.n_held, (i + 1) * EACH);
        for (int k = 0; k < EACH; k++)
            trial_answer(&t, i * EACH + k, NULL);
        for (int k = 0; k < EACH; k++) {
            MR_CHECK_OK(ask_wait(&a[k]));
            ask_deinit(&a[k]);
        }
        t.net->disconnect(p);
    }
    trial_close(&t);
}

/* ---- messages that wait for each other ---- */

static void read_request(int fd, uint64_t want)
{
    uint8_t head[MR_FRAME_HEAD], rest[11 + 1];
    mr_frame_head h;
    read_all(fd, head, sizeof(head));
    MR_CHECK_OK(mr_frame_head_read(head, &h));
    MR_CHECK(h.kind == MR_FRAME_REQUEST && h.text_bytes == 11 && h.stream_bytes == 1);
    MR_CHECK_INT(h.id, want);
    read_all(fd, rest, sizeof(rest));
}

/* A client with an open connection to `fd`, over which request 0 has gone. */
static int open_by_hand(trial *t, ask *first, int *listener)
{
    trial_init(t, mr_net_local());
    *listener = listen_by_hand(t->address);
    trial_connect(t, NULL, NULL);
    ask_init(first, "/trial/Echo", "x", 1);
    ask_start(first, t->net, t->peer);
    int fd = accept_by_hand(*listener);
    read_request(fd, 0);
    return fd;
}

static void close_by_hand(trial *t, ask *a, int n, int fd, int listener)
{
    trial_close(t);
    for (int i = 0; i < n; i++) {
        MR_CHECK_ERR(ask_wait(&a[i]), MR_CANCELLED, "");
        ask_deinit(&a[i]);
    }
    close(fd);
    close(listener);
}

MR_TEST(local_held_requests_go_at_the_release)
{
    trial t;
    ask a[3];
    char byte;
    int listener, fd = open_by_hand(&t, &a[0], &listener);
    mr_net_hold();
    mr_net_hold();
    for (int i = 1; i < 3; i++) {
        ask_init(&a[i], "/trial/Echo", "x", 1);
        ask_start(&a[i], t.net, t.peer);
    }
    mr_net_release();
    MR_CHECK(recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    mr_net_release();
    MR_CHECK(recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1);
    read_request(fd, 1);
    read_request(fd, 2);
    close_by_hand(&t, a, 3, fd, listener);
}

typedef struct further { /* a request that begins when the body of another is dropped */
    trial *t;
    ask *a;
} further;

static void ask_further(void *arg)
{
    further *f = arg;
    ask_start(f->a, f->t->net, f->t->peer);
}

MR_TEST(local_requests_that_begin_in_a_release_go_too)
{
    trial t;
    ask a[3];
    char byte;
    int listener, fd = open_by_hand(&t, &a[0], &listener);
    ask_init(&a[1], "/trial/Echo", NULL, 0);
    ask_init(&a[2], "/trial/Echo", "x", 1);
    mr_bytes_add(&a[1].r.body, (mr_piece){"x", 1, ask_further, &(further){&t, &a[2]}});
    mr_net_hold();
    ask_start(&a[1], t.net, t.peer);
    mr_net_release();
    read_request(fd, 1);
    MR_CHECK(recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1);
    read_request(fd, 2);
    close_by_hand(&t, a, 3, fd, listener);
}

MR_TEST(local_lazy_requests_go_with_the_next)
{
    trial t;
    ask a[3];
    int listener, fd = open_by_hand(&t, &a[0], &listener);
    for (int i = 1; i < 3; i++) {
        ask_init(&a[i], "/trial/Echo", "x", 1);
        a[i].r.lazy = i == 1;
        ask_start(&a[i], t.net, t.peer);
    }
    read_request(fd, 1);
    read_request(fd, 2);
    close_by_hand(&t, a, 3, fd, listener);
}

MR_TEST(local_lazy_requests_go_by_themselves)
{
    trial t;
    ask a[2];
    int listener, fd = open_by_hand(&t, &a[0], &listener);
    ask_init(&a[1], "/trial/Echo", "x", 1);
    a[1].r.lazy = true;
    ask_start(&a[1], t.net, t.peer);
    read_request(fd, 1);
    close_by_hand(&t, a, 2, fd, listener);
}
