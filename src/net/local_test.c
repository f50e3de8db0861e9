/* net/local_test.c -- the local transport against peers that are hostile, dead or slow, and its
 * shared memory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/raw_peer_fixture.h"
#include "net/local.h"
#include "net/transport_fixture.h"
#include "tests/harness/test.h"

/* ---- a peer made by hand ---- */

static void pass_fds(int fd, const void *bytes, size_t n, int passed, int n_fds)
{
    char control[CMSG_SPACE(64 * sizeof(int))] = {0};
    struct iovec io = {(void *)(uintptr_t)bytes, n};
    struct msghdr m = {.msg_iov = &io,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int))};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
    for (int i = 0; i < n_fds; i++)
        memcpy(CMSG_DATA(h) + (size_t)i * sizeof(int), &passed, sizeof(int));
    MR_CHECK(sendmsg(fd, &m, MSG_NOSIGNAL) == (ssize_t)n);
}

static int n_open_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* ---- who may come in ---- */

MR_TEST(local_client_with_another_token_is_told_so)
{
    trial t;
    uint8_t other[32] = "another token";
    trial_init(&t, mr_net_local());
    trial_listen(&t, NULL);
    int fd = dial(t.address);
    /* By hand with the old token, for both ends of this process share one. */
    mr_hello h = {0};
    uint8_t a[MR_HELLO_CLIENT], b[MR_HELLO_SERVER], c[MR_HELLO_PROOF];
    MR_CHECK_OK(mr_hello_begin(&h, other, a));
    write_all(fd, a, sizeof(a));
    read_all(fd, b, sizeof(b));
    MR_CHECK_ERR(mr_hello_finish(&h, b, c), MR_UNAUTHENTICATED, "token");
    memset(c, 1, sizeof(c));
    write_all(fd, c, sizeof(c));
    check_closed(fd);
    trial_close(&t);
}

/* A server of another cluster, by hand: requests hear it at once, also those that would wait. */
MR_TEST(local_server_with_another_token_gets_nothing)
{
    trial t;
    uint8_t other[32] = "another token", a[MR_HELLO_CLIENT], b[MR_HELLO_SERVER], rest;
    trial_init(&t, mr_net_local());
    int fd = listen_by_hand(t.address);
    trial_connect(&t, NULL, NULL);
    ask q;
    ask_init(&q, "/trial/Echo", "secret", 6);
    q.r.wait_for_ready = true;
    ask_start(&q, t.net, t.peer);
    int client = accept(fd, NULL, NULL);
    mr_hello h = {0};
    read_all(client, a, sizeof(a));
    MR_CHECK_OK(mr_hello_answer(&h, other, a, b));
    write_all(client, b, sizeof(b));
    MR_CHECK_ERR(ask_wait(&q), MR_UNAUTHENTICATED, "token");
    MR_CHECK(read(client, &rest, 1) == 0); /* neither a proof nor the request */
    ask_deinit(&q);
    trial_close(&t);
}

MR_TEST(local_server_closes_what_does_not_greet)
{
    trial t;
    mr_local_settings_get()->hello_ns = 50000000;
    trial_init(&t, mr_net_local());
    trial_listen(&t, NULL);
    int silent = dial(t.address), half = dial(t.address), wrong = dial(t.address);
    write_all(half, "MRLOC", 5);
    const char *http = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    write_all(wrong, http, strlen(http));
    check_closed(wrong);
    check_closed(silent);
    check_closed(half);
    mr_local_settings_get()->hello_ns = INT64_C(5000000000);
    trial_connect(&t, NULL, NULL);
    check_works(&t);
    trial_close(&t);
}

MR_TEST(local_socket_is_its_owners_only)
{
    trial t;
    struct stat st;
    trial_open(&t, mr_net_local());
    MR_CHECK(stat(t.address, &st) == 0 && (st.st_mode & 0777) == 0600);
    trial_close(&t);
    MR_CHECK(stat(t.address, &st) != 0); /* and gone with its server */
}

MR_TEST(local_server_takes_the_place_of_a_dead_one)
{
    trial t;
    struct sockaddr_un a;
    trial_init(&t, mr_net_local());
    MR_CHECK_OK(mr_local_address(t.address, &a));
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    MR_CHECK(bind(dead, (struct sockaddr *)&a, sizeof(a)) == 0);
    close(dead);
    trial_listen(&t, NULL);
    trial_connect(&t, NULL, NULL);
    check_works(&t);
    trial_close(&t);
}

MR_TEST(local_server_overwrites_no_file)
{
    mr_net_server *s;
    char path[300];
    int port;
    snprintf(path, sizeof(path), "%s/file", mr_test_dir());
    close(open(path, O_CREAT | O_WRONLY, 0600));
    mr_net *n = mr_net_local();
    MR_CHECK_ERR(n->listen(n, &(mr_net_listen){.address = path}, &s, &port), MR_ALREADY_EXISTS,
                 path);
    memset(path, 'x', 200);
    path[200] = '\0';
    MR_CHECK_ERR(n->listen(n, &(mr_net_listen){.address = path}, &s, &port), MR_INVALID_ARGUMENT,
                 "107 bytes");
}

/* ---- hostile frames ---- */

/* Sends one frame to a server that knows us; it must hang up, and nobody else notice. */
static void check_hangs_up(trial *t, mr_frame_head h, const char *text, const void *body)
{
    int fd = shake_hands(t->address);
    write_frame(fd, h, text, body);
    check_closed(fd);
    check_works(t);
}

MR_TEST(local_server_hangs_up_on_bad_frames)
{
    trial t;
    trial_open(&t, mr_net_local());
    check_hangs_up(&t, (mr_frame_head){.kind = 77}, "", NULL);
    check_hangs_up(&t, (mr_frame_head){MR_FRAME_REPLY, .id = 0}, "", NULL);
    check_hangs_up(&t, (mr_frame_head){MR_FRAME_REQUEST, .id = UINT64_MAX}, "/trial/Echo", NULL);
    check_hangs_up(&t, (mr_frame_head){MR_FRAME_REQUEST, .id = MR_CONN_MAX_CALLS}, "/trial/Echo",
                   NULL);
    check_hangs_up(&t, (mr_frame_head){MR_FRAME_RETURN, .id = 1}, "", NULL);
    check_hangs_up(&t, (mr_frame_head){MR_FRAME_FORGET, .id = 1}, "", NULL);
    check_hangs_up(&t, (mr_frame_head){MR_FRAME_SEGMENT, .id = 1, .value = 4096}, "", NULL);
    int fd = shake_hands(t.address); /* one id for two calls */
    for (int i = 0; i < 2; i++)
        write_frame(fd, (mr_frame_head){MR_FRAME_REQUEST, .id = 3}, "/trial/Hang", NULL);
    check_closed(fd);
    trial_wait(&t, &t.n_cancelled, 1);
    check_works(&t);
    trial_close(&t);
}

MR_TEST(local_server_bears_cut_frames)
{
    trial t;
    trial_open(&t, mr_net_local());
    for (size_t n = 1; n < MR_FRAME_HEAD + 14; n += 5) {
        uint8_t frame[MR_FRAME_HEAD + 14];
        mr_frame_head h = {MR_FRAME_REQUEST, .text_bytes = 11, .stream_bytes = 1000};
        mr_frame_head_write(&h, frame);
        memcpy(frame + MR_FRAME_HEAD, "/trial/Echoabc", 14);
        int fd = shake_hands(t.address);
        write_all(fd, frame, n);
        close(fd);
    }
    check_works(&t);
    trial_close(&t);
    MR_CHECK_INT(mr_local_settings_get()->received.used, 0);
}

MR_TEST(local_server_refuses_a_body_it_has_no_memory_for)
{
    trial t;
    uint8_t head[MR_FRAME_HEAD];
    mr_frame_head reply;
    char text[MR_FRAME_MAX_TEXT];
    mr_net_local_budget(0, 1 << 20);
    trial_open(&t, mr_net_local());
    int fd = shake_hands(t.address);
    char *body = mr_calloc(1, 3 << 20);
    write_frame(fd, (mr_frame_head){MR_FRAME_REQUEST, .id = 9, .stream_bytes = 3 << 20},
                "/trial/Echo", body);
    read_all(fd, head, sizeof(head));
    MR_CHECK_OK(mr_frame_head_read(head, &reply));
    MR_CHECK(reply.kind == MR_FRAME_REPLY && reply.id == 9 && reply.value == MR_RESOURCE_EXHAUSTED);
    read_all(fd, text, reply.text_bytes);
    /* A length that nobody has takes nothing, not even address space. */
    write_frame(fd, (mr_frame_head){MR_FRAME_REQUEST, .id = 9, .stream_bytes = 1ull << 62},
                "/trial/Echo", NULL);
    check_works(&t);
    MR_CHECK_INT(mr_local_settings_get()->received.used, 0);
    close(fd);
    mr_free(body);
    trial_close(&t);
}

MR_TEST(local_server_keeps_no_descriptor_of_a_flood)
{
    trial t;
    trial_open(&t, mr_net_local());
    check_works(&t);
    int null = open("/dev/null", O_RDONLY), before = n_open_fds();
    mr_frame_head h = {MR_FRAME_SEGMENT, .id = 1, .value = 4096};
    uint8_t head[MR_FRAME_HEAD];
    mr_frame_head_write(&h, head);
    for (int n = 1; n <= 64; n *= 2) {
        int fd = shake_hands(t.address);
        pass_fds(fd, head, sizeof(head), null, n);
        check_closed(fd);
        fd = dial(t.address); /* before the handshake */
        pass_fds(fd, "MRLOCAL1", 8, null, n);
        check_closed(fd);
        fd = shake_hands(
            t.address); /* a byte at a time, each with a descriptor and no frame for it */
        for (int i = 0; i < MR_CONN_MAX_FDS + 1; i++)
            pass_fds(fd, head + i, 1, null, 1);
        check_closed(fd);
    }
    check_works(&t); /* every descriptor is closed before the next call is answered */
    MR_CHECK_INT(n_open_fds(), before);
    trial_close(&t);
}

MR_TEST(local_server_maps_no_file_that_can_shrink)
{
    trial t;
    trial_open(&t, mr_net_local());
    uint8_t head[MR_FRAME_HEAD];
    mr_frame_head h = {MR_FRAME_SEGMENT, .id = 1, .value = 1 << 20};
    mr_frame_head_write(&h, head);
    int file = memfd_create("x", MFD_ALLOW_SEALING), fd = shake_hands(t.address);
    MR_CHECK(ftruncate(file, 1 << 20) == 0 && posix_fallocate(file, 0, 1 << 20) == 0);
    pass_fds(fd, head, sizeof(head), file, 1);
    check_closed(fd);
    close(file);
    check_works(&t);
    trial_close(&t);
}

/* ---- hostile servers ---- */

MR_TEST(local_client_hangs_up_on_bad_answers)
{
    static const mr_frame_head bad[] = {
        {MR_FRAME_REPLY, .id = 5},  {MR_FRAME_REPLY, .id = UINT64_MAX}, {MR_FRAME_REQUEST, .id = 0},
        {MR_FRAME_CANCEL, .id = 0}, {MR_FRAME_RETURN, .id = 1},         {.kind = 99}};
    trial t;
    trial_init(&t, mr_net_local());
    int listener = listen_by_hand(t.address);
    trial_connect(&t, NULL, NULL);
    for (int i = 0; i < MR_COUNT(bad); i++) {
        ask a;
        ask_init(&a, "/trial/Echo", "x", 1);
        ask_start(&a, t.net, t.peer);
        int fd = accept_by_hand(listener);
        write_frame(fd, bad[i], "", NULL);
        MR_CHECK_ERR(ask_wait(&a), MR_UNAVAILABLE, "connection lost");
        check_closed(fd);
        ask_deinit(&a);
    }
    trial_close(&t);
    close(listener);
}

/* ---- slow readers ---- */

typedef struct flood {
    int fd, n;
    size_t bytes;
} flood;

static void send_flood(void *arg)
{
    flood *f = arg;
    char *body = mr_calloc(1, f->bytes);
    for (int i = 0; i < f->n; i++)
        write_frame(f->fd,
                    (mr_frame_head){MR_FRAME_REQUEST, .id = (uint64_t)i, .stream_bytes = f->bytes},
                    "/trial/Echo", body);
    mr_free(body);
}

/* A client that asks and asks and does not read: the server stops listening to it, and others go
 * on. */
MR_TEST(local_server_reads_no_more_than_it_can_answer)
{
    enum { N = 4000, BYTES = 16000 }; /* too little to be shared */
    trial t;
    mr_test_deadline(60);
    trial_open(&t, mr_net_local());
    flood f = {shake_hands(t.address), N, BYTES};
    mr_thread sender;
    MR_CHECK(mr_thread_start(&sender, "flood", send_flood, &f) == 0);
    mr_net_budget *held = &mr_local_settings_get()->received;
    while (held->used <
           MR_CONN_MAX_QUEUED / 10 * 9) /* the heads of frames are among what is queued */
        mr_sleep_ns(1000000);
    char *body = mr_alloc(BYTES);
    for (int i = 0; i < N; i++) {
        uint8_t head[MR_FRAME_HEAD];
        mr_frame_head h;
        if (i % 100 == 0)
            check_works(&t);
        MR_CHECK(held->used < 2 * MR_CONN_MAX_QUEUED);
        read_all(f.fd, head, sizeof(head));
        MR_CHECK_OK(mr_frame_head_read(head, &h));
        MR_CHECK(h.kind == MR_FRAME_REPLY && h.value == 0 && h.stream_bytes == BYTES);
        read_all(f.fd, body, BYTES);
    }
    mr_thread_join(&sender);
    close(f.fd);
    mr_free(body);
    trial_close(&t);
    MR_CHECK_INT(held->used, 0);
}

/* ---- shared memory ---- */

static void echo_large(trial *t, size_t n, ask *a)
{
    char *body = mr_alloc(n);
    memset(body, 'm', n);
    ask_init(a, "/trial/Echo", NULL, 0);
    mr_bytes_add(&a->r.body, (mr_piece){body, n, mr_free, body});
    ask_start(a, t->net, t->peer);
    MR_CHECK_OK(ask_wait(a));
    MR_CHECK_INT(a->reply.n, n);
}

MR_TEST(local_large_pieces_arrive_in_place)
{
    trial t;
    ask a;
    mr_net_budget *segments = &mr_local_settings_get()->segments;
    trial_open(&t, mr_net_local());
    size_t used = 0;
    for (int i = 0; i < 50; i++) {
        echo_large(&t, 1 << 20, &a);
        MR_CHECK_INT(a.reply.pieces.n, 1);
        MR_CHECK(a.reply.pieces.p[0].shared);
        MR_CHECK_INT((uintptr_t)a.reply.pieces.p[0].data % MR_SEGMENT_ALIGN, 0);
        *(char *)(uintptr_t)a.reply.pieces.p[0].data = 'x'; /* it is ours, to write as well */
        ask_deinit(&a);
        if (i == 0)
            used = segments->used;
    }
    /* One each way serves all; a second, when the first was still on its way back. */
    MR_CHECK(segments->used <= 2 * used);
    trial_close(&t);
    MR_CHECK_INT(segments->used, 0);
}

MR_TEST(local_pieces_outlive_their_connection)
{
    enum { N = 5 };
    trial t;
    ask a[N];
    trial_open(&t, mr_net_local());
    for (int i = 0; i < N; i++)
        echo_large(&t, 200000, &a[i]);
    trial_close(&t);
    for (int i = 0; i < N; i++) {
        const char *p = a[i].reply.pieces.p[0].data;
        MR_CHECK(p[0] == 'm' && p[199999] == 'm');
        ask_deinit(&a[i]);
    }
}

MR_TEST(local_messages_go_through_the_socket_when_shared_memory_is_used_up)
{
    trial t;
    ask kept[4], a;
    mr_net_local_budget(4 << 20, 0);
    trial_open(&t, mr_net_local());
    for (int i = 0; i < 4; i++) /* whoever keeps what it got keeps the sender's memory */
        echo_large(&t, 1 << 20, &kept[i]);
    echo_large(&t, 1 << 20, &a);
    MR_CHECK(!a.reply.pieces.p[0].shared);
    const char *p = a.reply.pieces.p[0].data;
    MR_CHECK(p[0] == 'm' && p[(1 << 20) - 1] == 'm');
    ask_deinit(&a);
    for (int i = 0; i < 4; i++)
        ask_deinit(&kept[i]);
    trial_close(&t);
}

MR_TEST(local_large_bodies_of_cancelled_requests_come_back)
{
    enum { N = 40 };
    trial t;
    ask a[N];
    mr_net_budget *segments = &mr_local_settings_get()->segments;
    trial_open(&t, mr_net_local());
    for (int i = 0; i < N; i++) {
        char *body = mr_calloc(1, 300000);
        ask_init(&a[i], "/trial/Hang", NULL, 0);
        mr_bytes_add(&a[i].r.body, (mr_piece){body, 300000, mr_free, body});
        ask_start(&a[i], t.net, t.peer);
        t.net->cancel(&a[i].r);
    }
    for (int i = 0; i < N; i++) {
        MR_CHECK_ERR(ask_wait(&a[i]), MR_CANCELLED, "");
        ask_deinit(&a[i]);
    }
    check_works(&t);
    trial_close(&t);
    MR_CHECK_INT(segments->used, 0);
}

/* ---- the thread ---- */

static int n_threads(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/task");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

MR_TEST(local_thread_ends_with_its_last_user)
{
    int threads = 0, fds = n_open_fds();
    for (int i = 0; i < 3; i++) {
        trial t;
        trial_open(&t, mr_net_local());
        check_works(&t);
        int running = n_threads();
        trial_close(&t);
        if (i == 0) /* a sanitizer may have a separate thread, from the first one on */
            threads = running - 1;
        MR_CHECK_INT(running, threads + 1);
        while (n_threads() > threads) /* the kernel may list a thread for a moment after it was joined */
            mr_sleep_ns(1000000);
        MR_CHECK_INT(n_threads(), threads);
        MR_CHECK_INT(n_open_fds(), fds);
    }
}
