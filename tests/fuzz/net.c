/* tests/fuzz/net.c -- mutated streams through the local transport and that over TCP and TLS: data that another process
 * could send.
 *
 * Most runs feed a stream of frames, cut at random places, to the reader alone, together with
 * segments that are sound, damaged or missing.  Some go through a socket to one of three servers of this
 * process, which must answer others whatever one peer does.  Every piece that comes out is read
 * from end to end. */
#include <fcntl.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/memory.h"
#include "net/frame.h"
#include "net/keys.h"
#include "net/tcp.h"
#include "tests/fuzz/bytes.h"
#include "tests/fuzz/fuzz.h"

enum {
    MOST_FRAMES = 8,
    MOST_MESSAGE = 1 << 16,
    SEGMENT_BYTES = 1 << 14,
    LIVE_IN = 32, /* one in this many runs goes through a socket */
};
enum { FRAMES, BODIES, SHARED, TOO_LARGE, ERRORS, LIVE, TCP, TLS, N_COUNTS };

/* ---- streams ---- */

static const char zeros[2 * MOST_MESSAGE];
static const char *const methods[] = {"/fuzz/Echo", "/fuzz/Hang", "/fuzz/Other", ""};

static uint64_t small_id(fuzz_rng *r)
{
    return fuzz_once_in(r, 20) ? (uint64_t)fuzz_odd_int(r) : fuzz_below(r, 6);
}

static mr_frame_part odd_part(fuzz_rng *r)
{
    uint64_t n = fuzz_once_in(r, 8) ? (uint64_t)fuzz_odd_int(r) : fuzz_below(r, 300);
    if (fuzz_once_in(r, 2))
        return (mr_frame_part){MR_FRAME_IN_STREAM, n};
    return (mr_frame_part){fuzz_once_in(r, 8) ? (uint64_t)fuzz_odd_int(r)
                                              : 64 * fuzz_below(r, SEGMENT_BYTES / 64 + 8),
                           n};
}

/* Mostly valid: bodies as long as their heads say, parts that add up. */
static void add_call(fuzz_rng *r, mr_str *s, mr_frame_head h)
{
    uint8_t bytes[MR_FRAME_HEAD];
    mr_frame_part parts[6];
    const char *text = fuzz_pick(r, methods);
    h.text_bytes = (uint32_t)strlen(text);
    h.stream_bytes = fuzz_below(r, fuzz_once_in(r, 12) ? MOST_MESSAGE * 2 : 400);
    if (fuzz_once_in(r, 3)) {
        uint64_t in_stream = 0;
        h.segment = fuzz_once_in(r, 3) ? 0 : (uint32_t)(1 + fuzz_below(r, 3)); /* over TCP there is none */
        h.n_parts = (uint16_t)(1 + fuzz_below(r, MR_COUNT(parts)));
        for (int i = 0; i < h.n_parts; i++) {
            parts[i] = odd_part(r);
            if (!h.segment && !fuzz_once_in(r, 10))
                parts[i].offset = MR_FRAME_IN_STREAM;
            if (parts[i].offset == MR_FRAME_IN_STREAM)
                in_stream += parts[i].n;
        }
        h.stream_bytes = in_stream;
    }
    mr_frame_head_write(&h, bytes);
    mr_str_append(s, bytes, MR_FRAME_HEAD);
    mr_str_appendz(s, text);
    for (int i = 0; i < h.n_parts; i++) {
        mr_frame_part_write(parts[i], bytes);
        mr_str_append(s, bytes, MR_FRAME_PART);
    }
    mr_str_append(s, zeros,
                  h.stream_bytes < sizeof(zeros) ? (size_t)h.stream_bytes : sizeof(zeros));
}

static void add_frame(fuzz_rng *r, mr_str *s)
{
    static const uint8_t kinds[] = {MR_FRAME_REQUEST, MR_FRAME_REQUEST, MR_FRAME_REQUEST,
                                    MR_FRAME_REPLY,   MR_FRAME_CANCEL,  MR_FRAME_SEGMENT,
                                    MR_FRAME_RETURN,  MR_FRAME_FORGET};
    uint8_t bytes[MR_FRAME_HEAD];
    mr_frame_head h = {.kind = fuzz_pick(r, kinds), .id = small_id(r)};
    h.value = h.kind == MR_FRAME_SEGMENT   ? SEGMENT_BYTES
              : h.kind == MR_FRAME_REQUEST ? (int64_t)fuzz_below(r, 1000)
                                           : (int64_t)fuzz_below(r, 17);
    if (fuzz_once_in(r, 12))
        h.value = fuzz_odd_int(r);
    if (h.kind == MR_FRAME_REQUEST || h.kind == MR_FRAME_REPLY) {
        add_call(r, s, h);
        return;
    }
    mr_frame_head_write(&h, bytes);
    mr_str_append(s, bytes, MR_FRAME_HEAD);
}

static void make_stream(fuzz_rng *r, mr_str *s)
{
    for (uint64_t k = 1 + fuzz_below(r, MOST_FRAMES); k > 0; k--)
        add_frame(r, s);
    for (uint64_t k = fuzz_below(r, 4); k > 0; k--)
        fuzz_damage(r, s);
}

/* ---- segments ---- */

/* Valid, or with one error. */
static int make_file(fuzz_rng *r)
{
    static const int seals[] = {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
                                F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
                                F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_GROW, 0};
    if (fuzz_once_in(r, 10))
        return open("/dev/zero", O_RDWR | O_CLOEXEC);
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    off_t bytes = fuzz_once_in(r, 10) ? (off_t)fuzz_below(r, SEGMENT_BYTES) : SEGMENT_BYTES;
    if (ftruncate(fd, bytes) != 0 ||
        (bytes && !fuzz_once_in(r, 10) && posix_fallocate(fd, 0, bytes) != 0))
        fuzz_fail("no memory file");
    fcntl(fd, F_ADD_SEALS, fuzz_pick(r, seals));
    return fd;
}

/* ---- the reader alone ---- */

static int n_kept;
static void keep(void *owner) { (void)owner, n_kept++; }
static void returned(void *owner, uint32_t id) { (void)owner, (void)id, n_kept--; }

typedef struct reading {
    fuzz_run *r;
    mr_segment_table table;
    mr_net_budget budget;
    mr_frame_reader reader;
    mr_bytes held; /* some bodies are dropped late */
} reading;

static void look_at(const mr_bytes *b)
{
    unsigned sum = 0;
    size_t n = 0;
    for (int i = 0; i < b->pieces.n; i++) {
        const mr_piece *p = &b->pieces.p[i];
        for (size_t k = 0; k < p->n; k++)
            sum += ((const uint8_t *)p->data)[k];
        n += p->n;
    }
    if (n != b->n || (sum == 1 && n == 0))
        fuzz_fail("a body of %zu bytes has %zu", b->n, n);
}

static void take(reading *t, mr_net_frame *f)
{
    int64_t *counts = t->r->counts;
    counts[FRAMES]++;
    counts[TOO_LARGE] += f->too_large;
    counts[BODIES] += f->body.n > 0;
    for (int i = 0; i < f->body.pieces.n; i++)
        counts[SHARED] += f->body.pieces.p[i].shared;
    if (f->body.n > MOST_MESSAGE || (f->too_large && f->body.n))
        fuzz_fail("a body of %zu bytes came through", f->body.n);
    look_at(&f->body);
    if (f->head.kind == MR_FRAME_SEGMENT)
        mr_status_free(mr_segment_map(&t->table, f->head.id, f->head.value, make_file(&t->r->rng)));
    else if (f->head.kind == MR_FRAME_FORGET)
        mr_status_free(mr_segment_forget(&t->table, f->head.id));
    if (fuzz_once_in(&t->r->rng, 4))
        mr_bytes_append(&t->held, &f->body);
    mr_bytes_deinit(&f->body);
}

/* Delivers a random number of bytes, like a socket. */
static bool feed(reading *t, mr_sv *in)
{
    struct iovec space[2];
    mr_net_frame f;
    size_t came = 0, most = 1 + fuzz_below(&t->r->rng, fuzz_once_in(&t->r->rng, 2) ? 50 : 100000);
    int n = mr_frame_reader_space(&t->reader, space);
    for (int i = 0; i < n; i++) {
        size_t part = MR_MIN(MR_MIN(space[i].iov_len, in->n), most - came);
        memcpy(space[i].iov_base, in->p, part);
        *in = (mr_sv){in->p + part, in->n - part};
        came += part;
    }
    mr_frame_reader_came(&t->reader, came);
    for (bool got = true; got;) {
        mr_status *st = mr_frame_reader_next(&t->reader, &f, &got);
        if (st) {
            t->r->counts[ERRORS]++;
            mr_status_free(st);
            return false;
        }
        if (got)
            take(t, &f);
    }
    return true;
}

static void read_stream(fuzz_run *r, mr_sv in)
{
    reading *t = mr_new(reading);
    t->r = r;
    t->table = (mr_segment_table){.limit = 8 * SEGMENT_BYTES, .keep = keep, .returned = returned};
    t->budget.limit = 4 * MOST_MESSAGE;
    mr_frame_reader_init(&t->reader, &t->table, &t->budget, MOST_MESSAGE);
    uint64_t n_segments = fuzz_below(&r->rng, 4);
    for (uint64_t id = 1; id <= n_segments; id++)
        mr_status_free(mr_segment_map(&t->table, id, SEGMENT_BYTES, make_file(&r->rng)));
    while (in.n && feed(t, &in))
        ;
    mr_frame_reader_deinit(&t->reader);
    mr_segment_table_deinit(&t->table);
    mr_bytes_deinit(&t->held);
    if (t->budget.used || n_kept)
        fuzz_fail("%zu bytes and %d loans are left", (size_t)t->budget.used, n_kept);
    mr_free(t);
}

/* ---- a server ---- */

static void end_hang(void *arg, mr_net_call *c)
{
    mr_bytes none = {0};
    (void)arg;
    c->net->reply(c, mr_error(MR_CANCELLED, "cancelled"), &none);
}

static void handle(void *arg, mr_net_call *c)
{
    mr_bytes body = c->body;
    (void)arg;
    look_at(&body);
    if (strcmp(c->method, "/fuzz/Echo") == 0) {
        c->body = (mr_bytes){0};
        c->net->reply(c, NULL, &body);
    } else if (strcmp(c->method, "/fuzz/Hang") != 0) {
        mr_bytes none = {0};
        c->net->reply(c, mr_error(MR_UNIMPLEMENTED, "no method %s", c->method), &none);
    } else if (!c->net->on_cancel(c, end_hang, NULL)) {
        end_hang(NULL, c);
    }
}

enum { BY_LOCAL, BY_TCP, BY_TLS, N_WAYS };

static mr_net_server *servers[N_WAYS]; /* of this process */
static mr_net_peer *peers[N_WAYS];     /* the well-behaved ones */
static char addresses[N_WAYS][40] = {"socket", "127.0.0.1:0", "127.0.0.1:0"};
static mr_net_keys_file ps, worker;

static mr_net *net_of(int way) { return way == BY_LOCAL ? mr_net_local() : mr_net_tcp(); }

static void serve(int way)
{
    static const char *const names[] = {"ps/0", "worker/0"};
    int port;
    mr_net *n = net_of(way);
    n->max_message = MOST_MESSAGE;
    mr_net_local_budget(1 << 20, 1 << 20);
    if (way == BY_TLS) {
        fuzz_must(mr_net_make_keys("keys", names, NULL, 2, 1), "keys");
        fuzz_must(mr_net_keys_load("keys", "ps/0", &ps), "keys");
        fuzz_must(mr_net_keys_load("keys", "worker/0", &worker), "keys");
    }
    mr_net_listen o = {
        .address = addresses[way], .handle = handle, .keys = way == BY_TLS ? &ps.keys : NULL};
    fuzz_must(n->listen(n, &o, &servers[way], &port), "listen");
    if (way != BY_LOCAL)
        snprintf(addresses[way], sizeof(addresses[way]), "127.0.0.1:%d", port);
    fuzz_must(n->connect(n, addresses[way], way == BY_TLS ? &worker.keys : NULL, NULL, &peers[way]), "connect");
}

typedef struct question {
    mr_net_request r;
    sem_t answered;
    size_t n;
} question;

static void done(mr_net_request *r, mr_status *st, mr_bytes *reply)
{
    question *q = (question *)r;
    fuzz_must(st, "a peer that behaves");
    q->n = reply->n;
    sem_post(&q->answered);
}

/* The server must answer, whatever others do. */
static void check_served(int way)
{
    question q = {.r = {.method = "/fuzz/Echo", .done = done, .wait_for_ready = true}};
    sem_init(&q.answered, 0, 0);
    mr_bytes_add_copy(&q.r.body, "fine", 4);
    net_of(way)->start(peers[way], &q.r);
    while (sem_wait(&q.answered) != 0)
        ;
    if (q.n != 4)
        fuzz_fail("an answer of %zu bytes", q.n);
    sem_destroy(&q.answered);
}

static bool receive_all(int fd, void *out, size_t n)
{
    return recv(fd, out, n, MSG_WAITALL) == (ssize_t)n;
}

static int connect_to(int way)
{
    struct sockaddr_storage a = {0};
    if (way == BY_LOCAL)
        fuzz_must(mr_local_address(addresses[way], (struct sockaddr_un *)&a), "an address");
    else
        fuzz_must(mr_tcp_address(addresses[way], &a), "an address");
    int fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = way == BY_LOCAL ? sizeof(struct sockaddr_un) : sizeof(struct sockaddr_in);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, n) != 0)
        fuzz_fail("the server does not accept");
    return fd;
}

/* The first message of the handshake, sometimes with an error. */
static void begin_hello(fuzz_rng *r, int way, mr_hello *h, uint8_t first[MR_HELLO_CLIENT])
{
    static const uint8_t none[MR_HELLO_TOKEN];
    *h = (mr_hello){.direct = way != BY_LOCAL};
    mr_hello_begin(h, way == BY_LOCAL ? mr_local_settings_get()->token : none, first);
    if (fuzz_once_in(r, 20))
        first[fuzz_below(r, MR_HELLO_CLIENT)] ^= 1;
}

/* A connection with a completed handshake, unless that is to fail too. */
static int shake_hands(fuzz_rng *r, int way)
{
    mr_hello h;
    uint8_t first[MR_HELLO_CLIENT], second[MR_HELLO_SERVER], third[MR_HELLO_PROOF];
    int fd = connect_to(way);
    begin_hello(r, way, &h, first);
    if (send(fd, first, sizeof(first), MSG_NOSIGNAL) != sizeof(first) ||
        !receive_all(fd, second, sizeof(second)))
        return fd;
    mr_status_free(mr_hello_finish(&h, second, third));
    if (fuzz_once_in(r, 20))
        third[fuzz_below(r, sizeof(third))] ^= 1;
    send(fd, third, sizeof(third), MSG_NOSIGNAL);
    return fd;
}

/* Some bytes of the stream, sometimes with descriptors. */
static ssize_t send_some(fuzz_rng *r, int way, int fd, mr_sv in)
{
    char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    size_t most = 1 + fuzz_below(r, 50000);
    struct iovec io = {(void *)(uintptr_t)in.p, MR_MIN(in.n, most)};
    struct msghdr m = {.msg_iov = &io, .msg_iovlen = 1};
    int fds[8], n = way == BY_LOCAL && fuzz_once_in(r, 3) ? 1 + (int)fuzz_below(r, fuzz_once_in(r, 5) ? 8 : 1) : 0;
    for (int i = 0; i < n; i++)
        fds[i] = make_file(r);
    if (n) {
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
        *CMSG_FIRSTHDR(&m) =
            (struct cmsghdr){CMSG_LEN((size_t)n * sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), fds, (size_t)n * sizeof(int));
    }
    ssize_t sent = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
    for (int i = 0; i < n; i++)
        close(fds[i]);
    return sent;
}

/* All of it, or as much as the server takes. */
static bool send_secured(const mr_tls_library *lib, mr_tls *t, const void *p, size_t n)
{
    for (size_t taken; n; p = (const char *)p + taken, n -= taken) {
        struct iovec io = {(void *)(uintptr_t)p, n};
        mr_status *st = lib->send(t, &io, 1, &taken);
        if (st || !taken) { /* the socket is full: the server waits for us to read, and need not be sent more */
            mr_status_free(st);
            return false;
        }
    }
    return true;
}

/* The stream inside of TLS, from a peer with the keys of the cluster. */
static void send_inside(fuzz_run *r, int fd, mr_sv in)
{
    const mr_tls_library *lib;
    mr_tls_context *context;
    mr_tls *t;
    mr_hello h;
    uint8_t first[MR_HELLO_CLIENT], second[MR_HELLO_SERVER], third[MR_HELLO_PROOF];
    bool done = false;
    size_t got = 0, n = 0;
    fuzz_must(mr_net_tls(&lib), "TLS");
    fuzz_must(lib->context_new(&worker.keys, false, "ps/0", &context), "keys");
    fuzz_must(lib->open(context, fd, &t), "a session");
    while (!done) {
        fuzz_must(lib->handshake(t, &done), "a handshake");
        usleep(done ? 0 : 50);
    }
    begin_hello(&r->rng, BY_TLS, &h, first);
    mr_status *st = NULL;
    if (send_secured(lib, t, first, sizeof(first)))
        while (!st && got < sizeof(second)) {
            bool drained;
            struct iovec space = {second + got, sizeof(second) - got};
            st = lib->receive(t, &space, 1, &n, &drained);
            got += st ? 0 : n;
        }
    if (!st && got == sizeof(second)) {
        mr_status_free(mr_hello_finish(&h, second, third));
        if (send_secured(lib, t, third, sizeof(third)))
            send_secured(lib, t, in.p, in.n);
    }
    mr_status_free(st);
    lib->close(t);
    lib->context_free(context);
}

static void send_stream(fuzz_run *r, mr_sv in)
{
    char sink[4096];
    int way = (int)fuzz_below(&r->rng, N_WAYS);
    bool inside = way == BY_TLS && !fuzz_once_in(&r->rng, 3);
    if (!servers[way])
        serve(way);
    int fd = way == BY_TLS ? connect_to(way) : shake_hands(&r->rng, way);
    if (inside)
        send_inside(r, fd, in);
    for (ssize_t n; !inside && in.n && (n = send_some(&r->rng, way, fd, in)) > 0;) {
        in = (mr_sv){in.p + n, in.n - (size_t)n};
        if (fuzz_once_in(&r->rng, 3))
            (void)!recv(fd, sink, sizeof(sink), MSG_DONTWAIT);
    }
    if (fuzz_once_in(&r->rng, 2))
        shutdown(fd, SHUT_WR);
    check_served(way);
    close(fd);
    r->counts[way == BY_LOCAL ? LIVE : way == BY_TCP ? TCP : TLS]++;
}

/* ---- the target ---- */

static void prepare(void) {}
static int64_t n_runs(void) { return 1000000; }
static int n_counts(void) { return N_COUNTS; }

static void run(fuzz_run *r)
{
    mr_str s = {0};
    make_stream(&r->rng, &s);
    fuzz_note(r, mr_str_view(&s));
    fuzz_say(r, "a stream of %zu bytes", s.n);
    if (r->number % LIVE_IN == 0)
        send_stream(r, mr_str_view(&s));
    else
        read_stream(r, mr_str_view(&s));
    mr_str_deinit(&s);
}

static void replay(fuzz_run *r, mr_sv input)
{
    read_stream(r, input);
    send_stream(r, input);
}

static bool summary(const int64_t *counts, int64_t runs, FILE *out, FILE *err)
{
    fprintf(
        out,
        "frames %lld bodies %lld shared_pieces %lld too_large %lld refused_streams %lld live %lld tcp %lld tls %lld",
        (long long)counts[FRAMES], (long long)counts[BODIES], (long long)counts[SHARED],
        (long long)counts[TOO_LARGE], (long long)counts[ERRORS], (long long)counts[LIVE], (long long)counts[TCP],
        (long long)counts[TLS]);
    bool ok =
        runs < 1000 || (counts[SHARED] && counts[TOO_LARGE] && counts[BODIES] && counts[ERRORS]);
    if (!ok && err)
        fprintf(err, "fuzz net: some kinds of frames never came through\n");
    return ok;
}

const fuzz_target fuzz_net = {.name = "net",
                              .about = "mutated streams through the transports within and between hosts",
                              .prepare = prepare,
                              .n_runs = n_runs,
                              .n_counts = n_counts,
                              .run = run,
                              .replay = replay,
                              .summary = summary};
