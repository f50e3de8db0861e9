/* bench/net_recv.c -- how fast one process receives bytes from another: shared memory, gRPC, and a bare TCP socket
 * beside them in the same run.
 *
 * The request has a few bytes, the answer is large, as when one task requests a tensor from another. All three take
 * turns; a figure is the best of the rounds, because others use the machine too, and a ratio is the median of the
 * ratios of the rounds. One byte of each received page is read; `into_tensor` also copies the answer into one
 * buffer. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/net.h"

enum { N_SIZES = 3, ROUNDS = 9, MOST = 64 << 20 };
static const size_t sizes[N_SIZES] = {64 << 10, 1 << 20, 64 << 20};
static const char *const size_names[N_SIZES] = {"64KiB", "1MiB", "64MiB"};
static const int repeats[N_SIZES] = {300, 60, 3};

static char *memory; /* the data of the server, and the destination at the client */

static void die(const char *what)
{
    fprintf(stderr, "net_recv: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "net_recv: %s\n", mr_status_message(st));
    exit(1);
}

/* ---- the server ---- */

typedef struct addresses {
    char path[128];
    int grpc_port, tcp_port;
} addresses;

/* The request contains the requested size. */
static void handle(void *arg, mr_net_call *c)
{
    uint64_t n = 0;
    mr_bytes reply = {0};
    (void)arg;
    mr_bytes_read(&c->body, 0, &n, sizeof(n));
    mr_bytes_add(&reply, (mr_piece){memory, MR_MIN(n, MOST)});
    c->net->reply(c, NULL, &reply);
}

static bool read_full(int fd, void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, (char *)p + at, n - at);
        if (got <= 0)
            return false;
        at += (size_t)got;
    }
    return true;
}

static bool write_full(int fd, const void *p, size_t n)
{
    for (size_t at = 0; at < n;) {
        ssize_t sent = send(fd, (const char *)p + at, n - at, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += (size_t)sent;
    }
    return true;
}

static int listen_tcp(int *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        die("listen");
    *port = ntohs(a.sin_port);
    return fd;
}

static void serve_tcp(int listener)
{
    int fd = accept(listener, NULL, NULL), one = 1;
    uint64_t n;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    while (read_full(fd, &n, sizeof(n)) && write_full(fd, memory, n))
        ;
}

static void serve(addresses *a, int tells)
{
    mr_net *grpc;
    mr_net_server *s;
    int none, listener = listen_tcp(&a->tcp_port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    memset(memory, 1, MOST);
    must(mr_net_grpc(&grpc));
    must(grpc->listen(grpc, &(mr_net_listen){.address = "127.0.0.1:0", .handle = handle}, &s,
                      &a->grpc_port));
    must(mr_net_local()->listen(mr_net_local(),
                                &(mr_net_listen){.address = a->path, .handle = handle}, &s, &none));
    if (write(tells, a, sizeof(*a)) != sizeof(*a))
        die("tell");
    serve_tcp(listener);
    for (;;)
        pause();
}

/* ---- the client ---- */

typedef struct question {
    mr_net_request r;
    mr_net *net;
    mr_net_peer *peer;
    uint64_t want;
    int left;  /* of the repeated requests: each one starts when the previous one ends */
    bool copy; /* into `memory` */
    sem_t done;
    unsigned sum; /* prevents the compiler from removing the reads */
} question;

static void take(question *q, mr_bytes *b)
{
    if (b->n != q->want)
        must(mr_error(MR_INTERNAL, "%zu bytes instead of %llu", b->n, (unsigned long long)q->want));
    if (q->copy && !mr_bytes_read(b, 0, memory, b->n))
        die("copy");
    for (int i = 0; i < b->pieces.n && !q->copy; i++)
        for (size_t k = 0; k < b->pieces.p[i].n; k += 4096)
            q->sum += ((const uint8_t *)b->pieces.p[i].data)[k];
}

static void ask(question *q)
{
    mr_bytes_add(&q->r.body, (mr_piece){&q->want, sizeof(q->want)});
    q->net->start(q->peer, &q->r);
}

static void answered(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    question *q = (question *)r;
    must(st);
    take(q, reply);
    mr_bytes_deinit(reply); /* the memory is released before the next request */
    if (--q->left > 0)
        ask(q);
    else
        sem_post(&q->done);
}

/* Seconds for one answer of n bytes. */
static double time_net(mr_net *net, mr_net_peer *peer, size_t n, int repeat, bool copy)
{
    question q = {.r = {.method = "/bench/Recv", .done = answered, .wait_for_ready = true},
                  .net = net,
                  .peer = peer,
                  .want = n,
                  .left = repeat,
                  .copy = copy};
    sem_init(&q.done, 0, 0);
    int64_t began = mr_now_ns();
    ask(&q);
    while (sem_wait(&q.done) != 0)
        ;
    return (double)(mr_now_ns() - began) / 1e9 / repeat;
}

static double time_tcp(int fd, size_t n, int repeat)
{
    int64_t began = mr_now_ns();
    for (int i = 0; i < repeat; i++) {
        uint64_t want = n;
        if (!write_full(fd, &want, sizeof(want)) || !read_full(fd, memory, n))
            die("tcp");
    }
    return (double)(mr_now_ns() - began) / 1e9 / repeat;
}

static int connect_tcp(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0)
        die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fd;
}

/* ---- figures ---- */

enum { SHM, GRPC, GRPC_COPY, TCP, N_WAYS };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_ratio(const char *name, double s[N_WAYS][ROUNDS], int way)
{
    double ratio[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        ratio[i] = s[TCP][i] / s[way][i];
    qsort(ratio, ROUNDS, sizeof(ratio[0]), by_value);
    printf("%s %.2f x\n", name, ratio[ROUNDS / 2]);
}

static double best(const double *s)
{
    double least = s[0];
    for (int i = 1; i < ROUNDS; i++)
        least = MR_MIN(least, s[i]);
    return least;
}

typedef struct ends {
    mr_net *grpc, *local;
    mr_net_peer *grpc_peer, *local_peer;
    int tcp;
} ends;

static void measure(const ends *e, int size, double s[N_WAYS][ROUNDS])
{
    for (int i = -1; i < ROUNDS; i++) { /* the first one warms up */
        int at = MR_MAX(i, 0), repeat = repeats[size];
        s[TCP][at] = time_tcp(e->tcp, sizes[size], repeat);
        s[SHM][at] = time_net(e->local, e->local_peer, sizes[size], repeat, false);
        s[GRPC][at] = time_net(e->grpc, e->grpc_peer, sizes[size], repeat, false);
        s[GRPC_COPY][at] = time_net(e->grpc, e->grpc_peer, sizes[size], repeat, true);
    }
}

static void bandwidth(const ends *e, int size)
{
    double s[N_WAYS][ROUNDS], gb = (double)sizes[size] / 1e9;
    const char *name = size_names[size];
    measure(e, size, s);
    printf("recv_shm_%s_GBps %.2f GB/s\n", name, gb / best(s[SHM]));
    printf("recv_grpc_%s_GBps %.2f GB/s\n", name, gb / best(s[GRPC]));
    printf("recv_grpc_%s_into_tensor_GBps %.2f GB/s\n", name, gb / best(s[GRPC_COPY]));
    printf("raw_tcp_%s_GBps %.2f GB/s\n", name, gb / best(s[TCP]));
    if (size == N_SIZES - 1) {
        print_ratio("recv_shm_64MiB_ratio_tcp", s, SHM);
        print_ratio("recv_grpc_64MiB_ratio_tcp", s, GRPC);
    }
    fflush(stdout);
}

static void round_trips(const ends *e)
{
    enum { BYTES = 64, N = 2000 };
    double local = 1, grpc = 1, tcp = 1;
    for (int i = 0; i < ROUNDS; i++) {
        local = MR_MIN(local, time_net(e->local, e->local_peer, BYTES, N, false));
        grpc = MR_MIN(grpc, time_net(e->grpc, e->grpc_peer, BYTES, N / 10, false));
        tcp = MR_MIN(tcp, time_tcp(e->tcp, BYTES, N));
    }
    printf("round_trip_local_64B_us %.2f us\n", local * 1e6);
    printf("round_trip_grpc_64B_us %.2f us\n", grpc * 1e6);
    printf("round_trip_raw_tcp_64B_us %.2f us\n", tcp * 1e6);
}

int main(void)
{
    addresses a;
    ends e = {.local = mr_net_local()};
    int tells[2];
    memory = mmap(NULL, MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || pipe(tells) != 0)
        die("memory");
    snprintf(a.path, sizeof(a.path), "/tmp/millrace-bench-%d", (int)getpid());
    pid_t server = fork();
    if (server == 0)
        serve(&a, tells[1]);
    if (read(tells[0], &a, sizeof(a)) != sizeof(a))
        die("server");
    char address[64];
    snprintf(address, sizeof(address), "127.0.0.1:%d", a.grpc_port);
    memset(memory, 0, MOST);
    must(mr_net_grpc(&e.grpc));
    must(e.grpc->connect(e.grpc, address, NULL, NULL, &e.grpc_peer));
    must(e.local->connect(e.local, a.path, NULL, NULL, &e.local_peer));
    e.tcp = connect_tcp(a.tcp_port);
    round_trips(&e);
    for (int i = 0; i < N_SIZES; i++)
        bandwidth(&e, i);
    e.grpc->disconnect(e.grpc_peer);
    e.local->disconnect(e.local_peer);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    unlink(a.path);
    return 0;
}
