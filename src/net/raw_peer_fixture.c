/* net/raw_peer_fixture.c -- an end of the local transport made by hand. */
#include "net/raw_peer_fixture.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/hello.h"
#include "net/local.h"
#include "tests/harness/test.h"

int dial(const char *path)
{
    struct sockaddr_un a;
    MR_CHECK_OK(mr_local_address(path, &a));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    MR_CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0);
    return fd;
}

void read_all(int fd, void *out, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, (char *)out + at, n - at);
        MR_CHECK(got > 0);
        at += (size_t)got;
    }
}

void write_all(int fd, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
        MR_CHECK(sent > 0);
        at += (size_t)sent;
    }
}

int shake_hands(const char *path)
{
    mr_hello h = {0};
    uint8_t a[MR_HELLO_CLIENT], b[MR_HELLO_SERVER], c[MR_HELLO_PROOF];
    int fd = dial(path);
    MR_CHECK_OK(mr_hello_begin(&h, mr_local_settings_get()->token, a));
    write_all(fd, a, sizeof(a));
    read_all(fd, b, sizeof(b));
    MR_CHECK_OK(mr_hello_finish(&h, b, c));
    write_all(fd, c, sizeof(c));
    return fd;
}

void write_frame(int fd, mr_frame_head h, const char *text, const void *body)
{
    uint8_t head[MR_FRAME_HEAD];
    h.text_bytes = (uint32_t)strlen(text);
    mr_frame_head_write(&h, head);
    write_all(fd, head, sizeof(head));
    write_all(fd, text, strlen(text));
    if (body)
        write_all(fd, body, h.stream_bytes);
}

void check_closed(int fd)
{
    char rest[4096];
    ssize_t n;
    while ((n = read(fd, rest, sizeof(rest))) > 0)
        ;
    MR_CHECK(n == 0 || errno == ECONNRESET);
    close(fd);
}

void check_works(trial *t)
{
    char out[8];
    size_t n = sizeof(out);
    MR_CHECK_OK(ask_once(t, "/trial/Echo", "fine", 4, out, &n));
    MR_CHECK(n == 4 && memcmp(out, "fine", 4) == 0);
}

int listen_by_hand(const char *path)
{
    struct sockaddr_un a;
    MR_CHECK_OK(mr_local_address(path, &a));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    MR_CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 8) == 0);
    return fd;
}

int accept_by_hand(int listener)
{
    uint8_t a[MR_HELLO_CLIENT], b[MR_HELLO_SERVER], c[MR_HELLO_PROOF];
    mr_hello h = {0};
    int fd = accept(listener, NULL, NULL);
    read_all(fd, a, sizeof(a));
    MR_CHECK_OK(mr_hello_answer(&h, mr_local_settings_get()->token, a, b));
    write_all(fd, b, sizeof(b));
    read_all(fd, c, sizeof(c));
    MR_CHECK_OK(mr_hello_check(&h, c));
    return fd;
}
