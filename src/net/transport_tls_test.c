/* net/transport_tls_test.c -- gRPC, and frames over TLS, between tasks that show certificates, right ones and wrong
 * ones. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "net/keys.h"
#include "net/transport_fixture.h"
#include "tests/harness/test.h"

static mr_net *grpc(void)
{
    mr_net *net;
    MR_CHECK_OK(mr_net_grpc(&net));
    return net;
}

static mr_net *direct(void)
{
    mr_net *net;
    MR_CHECK_OK(mr_net_direct(&net));
    return net;
}

/* A text has a part. */
#define MR_CHECK_HAS(text, part)                                                      \
    (strstr(text, part) ? (void)0                                                     \
                        : mr_test_fail(__FILE__, __LINE__, "no word of \"%s\" in: %s", part, text))

/* Keys of one cluster in a folder of its own. */
static char *make_keys(const char *cluster, int days)
{
    static const char *const names[] = {"ps/0", "worker/1", "launcher"};
    static const char *const hosts[] = {"localhost,127.0.0.1,::1", NULL, ""};
    char *folder = mr_printf("%s/%s", mr_test_dir(), cluster);
    MR_CHECK_OK(mr_net_make_keys(folder, names, hosts, 3, days));
    return folder;
}

typedef struct cluster {
    char *folder;
    mr_net_keys_file ps, worker;
} cluster;

static void open_cluster(cluster *c, const char *name, int days)
{
    c->folder = make_keys(name, days);
    MR_CHECK_OK(mr_net_keys_load(c->folder, "ps/0", &c->ps));
    MR_CHECK_OK(mr_net_keys_load(c->folder, "worker/1", &c->worker));
}

static void close_cluster(cluster *c)
{
    mr_net_keys_deinit(&c->ps);
    mr_net_keys_deinit(&c->worker);
    mr_free(c->folder);
}

/* One call; the server must have seen nothing of it, and the client hears the reason (NULL: any). */
static void check_gets_nothing_over(mr_net *net, const mr_net_keys *server, const mr_net_keys *client,
                                    const char *name, const char *reason)
{
    trial t;
    ask a;
    trial_init(&t, net);
    trial_listen(&t, server);
    trial_connect(&t, client, name);
    ask_init(&a, "/trial/Hold", "secret", 6);
    a.r.deadline_ns = mr_now_ns() + INT64_C(15000000000);
    ask_start(&a, t.net, t.peer);
    mr_status *st = ask_wait(&a);
    MR_CHECK(mr_status_code(st) == MR_UNAVAILABLE || mr_status_code(st) == MR_UNAUTHENTICATED);
    if (reason)
        MR_CHECK_HAS(mr_status_message(st), reason);
    MR_CHECK_INT(a.reply.n, 0);
    MR_CHECK_INT(t.n_held, 0);
    mr_status_free(st);
    ask_deinit(&a);
    trial_close(&t);
}

/* By gRPC, with and without frames beside it, and by these frames alone. */
static void check_gets_nothing(const mr_net_keys *server, const mr_net_keys *client, const char *name,
                               const char *reason)
{
    check_gets_nothing_over(grpc(), server, client, name, reason);
    check_gets_nothing_over(direct(), server, client, name, reason);
    check_gets_nothing_over(mr_net_tcp(), server, client, name, NULL);
}

static void check_works_over(mr_net *net, const mr_net_keys *server, const mr_net_keys *client, const char *name,
                             const char *seen)
{
    trial t;
    char out[8];
    size_t n = sizeof(out);
    trial_init(&t, net);
    trial_listen(&t, server);
    trial_connect(&t, client, name);
    MR_CHECK_OK(ask_once(&t, "/trial/Echo", "hello", 5, out, &n));
    MR_CHECK(n == 5 && memcmp(out, "hello", 5) == 0);
    MR_CHECK_STR(t.peer_name, seen);
    trial_close(&t);
}

static void check_works(const mr_net_keys *server, const mr_net_keys *client, const char *name, const char *seen)
{
    check_works_over(grpc(), server, client, name, seen);
    check_works_over(mr_net_tcp(), server, client, name, seen);
}

MR_TEST(tls_tasks_of_a_cluster_know_each_other)
{
    cluster c;
    open_cluster(&c, "ours", 1);
    check_works(&c.ps.keys, &c.worker.keys, "ps/0", "worker/1");
    check_works(&c.worker.keys, &c.ps.keys, "worker/1", "ps/0");
    check_works(&c.ps.keys, &c.worker.keys, NULL, "worker/1");
    close_cluster(&c);
}

MR_TEST(tls_names_without_a_task_are_names_too)
{
    cluster c;
    mr_net_keys_file launcher;
    open_cluster(&c, "ours", 1);
    MR_CHECK_OK(mr_net_keys_load(c.folder, "launcher", &launcher));
    check_works(&c.ps.keys, &launcher.keys, "ps/0", "launcher");
    mr_net_keys_deinit(&launcher);
    close_cluster(&c);
}

MR_TEST(tls_another_task_is_not_the_one_asked_for)
{
    cluster c;
    open_cluster(&c, "ours", 1);
    check_gets_nothing(&c.ps.keys, &c.worker.keys, "ps/1", "is of another task");
    check_gets_nothing(&c.ps.keys, &c.worker.keys, "worker/1", "is of another task");
    close_cluster(&c);
}

MR_TEST(tls_another_ca_gets_nothing)
{
    cluster ours, others;
    open_cluster(&ours, "ours", 1);
    open_cluster(&others, "others", 1);
    check_gets_nothing(&ours.ps.keys, &others.worker.keys, "ps/0", "is not of our CA");
    /* Who trusts ours but has another's certificate: only the server can refuse. */
    mr_net_keys mixed = {ours.ps.keys.ca, others.worker.keys.certificate, others.worker.keys.key};
    check_gets_nothing(&ours.ps.keys, &mixed, "ps/0", "closed the connection");
    mr_net_keys server = {ours.ps.keys.ca, others.ps.keys.certificate, others.ps.keys.key};
    check_gets_nothing(&server, &ours.worker.keys, "ps/0", "is not of our CA");
    close_cluster(&ours);
    close_cluster(&others);
}

MR_TEST(tls_expired_certificates_get_nothing)
{
    cluster now;
    open_cluster(&now, "now", 1);
    char *old = mr_printf("%s/old", mr_test_dir()), *from, *to;
    /* The same CA, certificates of the past. */
    MR_CHECK_OK(mr_dir_make(old));
    static const char *const endings[] = {".pem", ".key"};
    for (int i = 0; i < 2; i++) {
        from = mr_net_key_path(now.folder, "ca", endings[i]);
        to = mr_net_key_path(old, "ca", endings[i]);
        MR_CHECK(link(from, to) == 0);
        mr_free(from);
        mr_free(to);
    }
    static const char *const names[] = {"ps/0", "worker/1"};
    mr_net_keys_file ps, worker;
    MR_CHECK_OK(mr_net_make_keys(old, names, NULL, 2, -1));
    MR_CHECK_OK(mr_net_keys_load(old, "ps/0", &ps));
    MR_CHECK_OK(mr_net_keys_load(old, "worker/1", &worker));
    check_gets_nothing(&now.ps.keys, &worker.keys, "ps/0", "closed the connection");
    check_gets_nothing(&ps.keys, &now.worker.keys, "ps/0", "or has expired");
    mr_net_keys_deinit(&ps);
    mr_net_keys_deinit(&worker);
    mr_free(old);
    close_cluster(&now);
}

MR_TEST(tls_and_plain_do_not_mix)
{
    cluster c;
    open_cluster(&c, "ours", 1);
    check_gets_nothing(&c.ps.keys, NULL, NULL, "closed the connection");
    check_gets_nothing(NULL, &c.worker.keys, "ps/0", "speaks plain text");
    close_cluster(&c);
}

static void carry_large_bodies(mr_net *net)
{
    cluster c;
    trial t;
    uint64_t size = 0;
    size_t n = sizeof(size);
    char *body = mr_calloc(1, 20 << 20);
    open_cluster(&c, "ours", 1);
    trial_init(&t, net);
    trial_listen(&t, &c.ps.keys);
    trial_connect(&t, &c.worker.keys, "ps/0");
    MR_CHECK_OK(ask_once(&t, "/trial/Size", body, 20 << 20, &size, &n));
    MR_CHECK_INT(size, 20 << 20);
    trial_close(&t);
    mr_free(body);
    close_cluster(&c);
}

MR_TEST(tls_carries_large_bodies)
{
    carry_large_bodies(grpc());
    carry_large_bodies(mr_net_tcp());
}

/* Of frames alone the code says who refused whom: a client that refuses gets UNAUTHENTICATED, and waits for nothing. */
MR_TEST(tls_over_tcp_a_client_knows_whom_it_refuses)
{
    cluster ours, others;
    open_cluster(&ours, "ours", 1);
    open_cluster(&others, "others", 1);
    check_gets_nothing_over(mr_net_tcp(), &ours.ps.keys, &ours.worker.keys, "ps/1", "certificate was refused");
    check_gets_nothing_over(mr_net_tcp(), &ours.ps.keys, &others.worker.keys, "ps/0", "certificate was refused");
    close_cluster(&ours);
    close_cluster(&others);
}

MR_TEST(tls_keys_that_are_none_are_refused)
{
    mr_net *net = grpc();
    mr_net_server *s;
    mr_net_peer *p;
    int port;
    mr_net_keys part = {.ca = "x"}, junk = {"junk", "junk", "junk"};
    mr_net_listen o = {.address = "127.0.0.1:0", .keys = &part};
    MR_CHECK_ERR(net->listen(net, &o, &s, &port), MR_INVALID_ARGUMENT, "needs");
    MR_CHECK_ERR(net->connect(net, "127.0.0.1:1", &part, "ps/0", &p), MR_INVALID_ARGUMENT, "needs");
    MR_CHECK_ERR(net->connect(net, "127.0.0.1:1", &junk, "ps/x", &p), MR_INVALID_ARGUMENT, "ps/x");
    o.keys = &junk;
    MR_CHECK_ERR(net->listen(net, &o, &s, &port), MR_INVALID_ARGUMENT, "the CA's certificate is not valid PEM");
    cluster c;
    open_cluster(&c, "mixed", 1);
    mr_net_keys mixed = {c.ps.keys.ca, c.ps.keys.certificate, c.worker.keys.key};
    o.keys = &mixed;
    MR_CHECK_ERR(net->listen(net, &o, &s, &port), MR_INVALID_ARGUMENT,
                 "the private key does not belong to the certificate");
    mixed = (mr_net_keys){c.ps.keys.ca, "junk", c.ps.keys.key};
    MR_CHECK_ERR(net->listen(net, &o, &s, &port), MR_INVALID_ARGUMENT, "the task's certificate is not valid PEM");
    close_cluster(&c);
}

/* ---- the folder ---- */

static void check_mode(const char *folder, const char *name, const char *ending)
{
    struct stat st;
    char *path = mr_net_key_path(folder, name, ending);
    MR_CHECK(stat(path, &st) == 0);
    MR_CHECK_INT(st.st_mode & 0777, 0600);
    mr_free(path);
}

static void read_file(const char *folder, const char *name, const char *ending, mr_str *out)
{
    char *path = mr_net_key_path(folder, name, ending);
    MR_CHECK_OK(mr_file_read_all(path, out));
    mr_free(path);
}

MR_TEST(keys_are_their_owners_only)
{
    umask(0);
    char *folder = make_keys("ours", 1);
    check_mode(folder, "ca", ".key");
    check_mode(folder, "ps/0", ".key");
    check_mode(folder, "ps/0", ".pem");
    mr_net_keys_file f;
    char *path = mr_net_key_path(folder, "ps/0", ".key");
    MR_CHECK(chmod(path, 0604) == 0);
    MR_CHECK_ERR(mr_net_keys_load(folder, "ps/0", &f), MR_PERMISSION_DENIED, "ps-0.key");
    MR_CHECK_ERR(mr_net_keys_load(folder, "ps/7", &f), MR_NOT_FOUND, "ps-7.pem");
    mr_free(path);
    mr_free(folder);
}

MR_TEST(keys_that_exist_stay)
{
    mr_str before = {0}, after = {0};
    char *folder = make_keys("ours", 1);
    read_file(folder, "ca", ".pem", &before);
    read_file(folder, "ps/0", ".key", &before);
    read_file(folder, "ps/0", ".pem", &before);
    static const char *const more[] = {"ps/0", "ps/1"};
    MR_CHECK_OK(mr_net_make_keys(folder, more, NULL, 2, 1));
    read_file(folder, "ca", ".pem", &after);
    read_file(folder, "ps/0", ".key", &after);
    read_file(folder, "ps/0", ".pem", &after);
    MR_CHECK(mr_sv_eq(mr_str_view(&before), mr_str_view(&after)));
    check_mode(folder, "ps/1", ".pem");
    mr_str_deinit(&before);
    mr_str_deinit(&after);
    mr_free(folder);
}

MR_TEST(keys_half_made_are_completed)
{
    cluster c;
    char *folder = make_keys("ours", 1), *pem = mr_net_key_path(folder, "ps/0", ".pem");
    MR_CHECK(unlink(pem) == 0);
    mr_free(pem);
    mr_free(folder);
    open_cluster(&c, "ours", 1);
    check_works(&c.ps.keys, &c.worker.keys, "ps/0", "worker/1");
    close_cluster(&c);
}

MR_TEST(keys_need_the_cas_key_to_grow)
{
    static const char *const have[] = {"ps/0"}, *const want[] = {"ps/9"}, *const bad[] = {"ps/x"},
                             *const ca[] = {"ca"};
    char *folder = make_keys("ours", 1), *key = mr_net_key_path(folder, "ca", ".key");
    MR_CHECK(unlink(key) == 0);
    MR_CHECK_OK(mr_net_make_keys(folder, have, NULL, 1, 1));
    MR_CHECK_ERR(mr_net_make_keys(folder, want, NULL, 1, 1), MR_FAILED_PRECONDITION, "ca.key");
    MR_CHECK_ERR(mr_net_make_keys(folder, bad, NULL, 1, 1), MR_INVALID_ARGUMENT, "ps/x");
    MR_CHECK_ERR(mr_net_make_keys(folder, ca, NULL, 1, 1), MR_INVALID_ARGUMENT, "'ca'");
    mr_free(key);
    mr_free(folder);
}
