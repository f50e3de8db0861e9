/* net/tcp_test.c -- frames over TCP and TLS, with peers that are not ours. */
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/keys.h"
#include "net/raw_peer_fixture.h"
#include "net/tcp.h"
#include "tests/harness/test.h"

static int dial_tcp(const char *address)
{
    struct sockaddr_storage a;
    MR_CHECK_OK(mr_tcp_address(address, &a));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    MR_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(struct sockaddr_in)) == 0);
    return fd;
}

static int shake_hands_tcp(const char *address)
{
    static const uint8_t none[MR_HELLO_TOKEN];
    mr_hello h = {.direct = true};
    uint8_t a[MR_HELLO_CLIENT], b[MR_HELLO_SERVER], c[MR_HELLO_PROOF];
    int fd = dial_tcp(address);
    MR_CHECK_OK(mr_hello_begin(&h, none, a));
    write_all(fd, a, sizeof(a));
    read_all(fd, b, sizeof(b));
    MR_CHECK_OK(mr_hello_finish(&h, b, c));
    write_all(fd, c, sizeof(c));
    return fd;
}

static void open_secured(trial *t, mr_net_keys_file *ps, mr_net_keys_file *worker)
{
    static const char *const names[] = {"ps/0", "worker/1"};
    MR_CHECK_OK(mr_net_make_keys(mr_test_dir(), names, NULL, 2, 1));
    MR_CHECK_OK(mr_net_keys_load(mr_test_dir(), "ps/0", ps));
    MR_CHECK_OK(mr_net_keys_load(mr_test_dir(), "worker/1", worker));
    trial_init(t, mr_net_tcp());
    trial_listen(t, &ps->keys);
    trial_connect(t, &worker->keys, "ps/0");
}

MR_TEST(tcp_closes_a_connection_that_says_nothing)
{
    trial t;
    mr_local_settings_get()->hello_ns = INT64_C(50000000);
    trial_open(&t, mr_net_tcp());
    int fd = dial_tcp(t.address);
    check_closed(fd);
    mr_local_settings_get()->hello_ns = INT64_C(5000000000);
    check_works(&t);
    trial_close(&t);
}

MR_TEST(tcp_closes_a_tls_handshake_that_does_not_go_on)
{
    trial t;
    mr_net_keys_file ps, worker;
    static const uint8_t begin[] = {22, 3, 1, 2, 0, 1, 0, 1}; /* of a ClientHello of 512 bytes */
    mr_local_settings_get()->hello_ns = INT64_C(50000000);
    open_secured(&t, &ps, &worker);
    int fd = dial_tcp(t.address);
    write_all(fd, begin, sizeof(begin));
    check_closed(fd);
    mr_local_settings_get()->hello_ns = INT64_C(5000000000);
    check_works(&t);
    trial_close(&t);
    mr_net_keys_deinit(&ps);
    mr_net_keys_deinit(&worker);
}

MR_TEST(tcp_closes_a_connection_of_another_protocol)
{
    trial t;
    mr_net_keys_file ps, worker;
    static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    trial_open(&t, mr_net_tcp());
    int fd = dial_tcp(t.address);
    write_all(fd, http, sizeof(http));
    check_closed(fd);
    check_works(&t);
    trial_close(&t);
    open_secured(&t, &ps, &worker);
    fd = dial_tcp(t.address);
    write_all(fd, http, sizeof(http));
    check_closed(fd);
    check_works(&t);
    trial_close(&t);
    mr_net_keys_deinit(&ps);
    mr_net_keys_deinit(&worker);
}

MR_TEST(tcp_does_not_take_the_local_handshake)
{
    static const uint8_t none[MR_HELLO_TOKEN];
    trial t;
    mr_hello h = {0};
    uint8_t a[MR_HELLO_CLIENT];
    trial_open(&t, mr_net_tcp());
    int fd = dial_tcp(t.address);
    MR_CHECK_OK(mr_hello_begin(&h, none, a));
    write_all(fd, a, sizeof(a));
    check_closed(fd);
    trial_close(&t);
}

MR_TEST(tcp_has_no_shared_memory)
{
    static const uint8_t kinds[] = {MR_FRAME_SEGMENT, MR_FRAME_RETURN, MR_FRAME_FORGET, MR_FRAME_REPLY};
    trial t;
    trial_open(&t, mr_net_tcp());
    for (int i = 0; i < MR_COUNT(kinds); i++) {
        int fd = shake_hands_tcp(t.address);
        write_frame(fd, (mr_frame_head){.kind = kinds[i], .id = 1, .value = 4096}, "", NULL);
        check_closed(fd);
        check_works(&t);
    }
    trial_close(&t);
}

MR_TEST(tcp_answers_a_peer_made_by_hand)
{
    trial t;
    uint8_t head[MR_FRAME_HEAD];
    char body[5];
    mr_frame_head h;
    trial_open(&t, mr_net_tcp());
    int fd = shake_hands_tcp(t.address);
    write_frame(fd, (mr_frame_head){.kind = MR_FRAME_REQUEST, .id = 7, .stream_bytes = 5}, "/trial/Echo", "hello");
    read_all(fd, head, sizeof(head));
    MR_CHECK_OK(mr_frame_head_read(head, &h));
    MR_CHECK(h.kind == MR_FRAME_REPLY && h.id == 7 && h.value == MR_OK && h.stream_bytes == 5 && !h.n_parts);
    read_all(fd, body, 5);
    MR_CHECK(memcmp(body, "hello", 5) == 0);
    close(fd);
    trial_close(&t);
}
