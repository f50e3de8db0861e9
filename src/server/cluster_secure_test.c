/* server/cluster_secure_test.c -- clusters with keys, and those who have the wrong ones: a client, and a task.
 *
 * Keys are read from MILLRACE_TLS_DIR when somebody listens or connects, so a test gives each its folder before. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "net/keys.h"
#include "net/transport_fixture.h"
#include "ops/table.h"
#include "server/cluster_fixture.h"
#include "server/host.h"
#include "server/routes.h"

enum { N_TASKS = 2 };
static const char *const jobs[N_TASKS] = {"ps", "worker"};

typedef struct secure {
    mr_cluster cluster;
    mr_server *servers[N_TASKS];
    mr_graph *g;
    mr_scope s;
    mr_out x, y;
} secure;

/* ---- keys ---- */

/* A folder of a CA and of all who take part. */
static char *make_keys(const char *name, int days)
{
    static const char *const names[] = {"ps/0", "worker/0", "client"};
    char *folder = mr_printf("%s/%s", mr_test_dir(), name);
    MR_CHECK_OK(mr_net_make_keys(folder, names, NULL, 3, days));
    return folder;
}

/* Certificates of the past, of the CA of another folder. */
static char *make_old_keys(const char *name, const char *ca_folder)
{
    static const char *const names[] = {"ps/0", "worker/0", "client"}, *const endings[] = {".pem", ".key"};
    char *folder = mr_printf("%s/%s", mr_test_dir(), name);
    MR_CHECK_OK(mr_dir_make(folder));
    for (int i = 0; i < 2; i++) {
        char *from = mr_net_key_path(ca_folder, "ca", endings[i]), *to = mr_net_key_path(folder, "ca", endings[i]);
        MR_CHECK(link(from, to) == 0);
        mr_free(from);
        mr_free(to);
    }
    MR_CHECK_OK(mr_net_make_keys(folder, names, NULL, 3, -1));
    return folder;
}

/* From now on, for who listens or connects; NULL: no keys. */
static void use_keys(const char *folder)
{
    if (folder)
        setenv("MILLRACE_TLS_DIR", folder, 1);
    else
        unsetenv("MILLRACE_TLS_DIR");
}

/* ---- a cluster ---- */

static void begin(secure *c)
{
    char address[256];
    mr_net *grpc;
    *c = (secure){0};
    setenv("MILLRACE_SHM", "off", 1); /* or all of this would stay within the host */
    mr_ops_register();
    MR_CHECK_OK(mr_net_grpc(&grpc));
    for (int i = 0; i < N_TASKS; i++) {
        trial_address(grpc, address);
        MR_CHECK_OK(mr_cluster_add(&c->cluster, mr_sv_of(jobs[i]), 0, mr_sv_of(address)));
    }
    c->g = mr_graph_new();
    mr_scope_init(&c->s, c->g, "");
    c->x = mr_placeholder(&c->s, MR_FLOAT, "x", &mr_pshape_scalar);
    c->s.device = "/job:ps/task:0";
    mr_out square = mr_emit(&c->s, "Square", c->x);
    c->s.device = "/job:worker/task:0";
    c->y = mr_emit(&c->s, "Neg", square);
    MR_CHECK_OK(mr_scope_status(&c->s));
}

static mr_status *start_task(secure *c, int i, const char *keys)
{
    mr_server_def def = {.job = c->cluster.tasks.p[i].job, .task = 0};
    MR_CHECK_OK(mr_cluster_copy(&c->cluster, &def.cluster));
    use_keys(keys);
    MR_CHECK_OK(mr_server_new(&def, NULL, &c->servers[i]));
    mr_status *st = mr_server_start(c->servers[i]);
    mr_cluster_deinit(&def.cluster);
    return st;
}

/* A session with the worker, which must come up within 4 s, and a step over both tasks. */
static mr_status *run_step(secure *c, const char *keys)
{
    mr_session *s;
    mr_tensor *in = mr_tensor_scalar_f32(3), *out = NULL;
    mr_run_args a = {.feeds = &c->x, .feed_values = &in, .n_feeds = 1, .fetches = &c->y, .fetched = &out, .n_fetches = 1};
    use_keys(keys);
    /* ConfigProto { operation_timeout_in_ms: 4000 } */
    mr_status *st = mr_remote_session_new(NULL, c->cluster.tasks.p[1].address, c->g, NULL, MR_SV("\x58\xa0\x1f"), NULL, &s);
    if (!st) {
        st = mr_session_run(s, &a, NULL, NULL);
        mr_session_free(s);
    }
    MR_CHECK(st || (out && *MR_DATA(float, out) == -9));
    mr_tensor_unref(out);
    mr_tensor_unref(in);
    return st;
}

static void end(secure *c)
{
    for (int i = 0; i < N_TASKS; i++)
        mr_server_free(c->servers[i]);
    mr_scope_deinit(&c->s);
    mr_graph_unref(c->g);
    mr_cluster_deinit(&c->cluster);
    trial_rest();
}

/* ---- who is served, and who is not ---- */

MR_TEST(secure_cluster_serves_its_own)
{
    secure c;
    begin(&c);
    char *ours = make_keys("ours", 1);
    MR_CHECK_OK(start_task(&c, 0, ours));
    MR_CHECK_OK(start_task(&c, 1, ours));
    MR_CHECK_OK(run_step(&c, ours));
    mr_free(ours);
    end(&c);
}

/* An error that tells why. */
static void check_reason(mr_status *st, const char *reason)
{
    mr_code code = mr_status_code(st);
    MR_CHECK(code == MR_UNAVAILABLE || code == MR_DEADLINE_EXCEEDED || code == MR_UNAUTHENTICATED);
    if (!strstr(mr_status_message(st), reason))
        mr_test_fail(__FILE__, __LINE__, "no word of \"%s\" in: %s", reason, mr_status_message(st));
    mr_status_free(st);
}

/* Gets nothing, and hears the reason; who has the right keys is served behind that. */
static void check_client(const char *keys, const char *ours, const char *reason)
{
    secure c;
    begin(&c);
    MR_CHECK_OK(start_task(&c, 0, ours));
    MR_CHECK_OK(start_task(&c, 1, ours));
    check_reason(run_step(&c, keys), reason);
    MR_CHECK_OK(run_step(&c, ours));
    end(&c);
}

MR_TEST(secure_cluster_refuses_a_plain_client)
{
    char *ours = make_keys("ours", 1);
    check_client(NULL, ours, "closed the connection");
    mr_free(ours);
}

MR_TEST(secure_cluster_refuses_a_client_of_another_ca)
{
    char *ours = make_keys("ours", 1), *others = make_keys("others", 1);
    check_client(others, ours, "is not of our CA");
    mr_free(ours);
    mr_free(others);
}

MR_TEST(secure_cluster_refuses_an_expired_client)
{
    char *ours = make_keys("ours", 1), *old = make_old_keys("old", ours);
    check_client(old, ours, "closed the connection");
    mr_free(ours);
    mr_free(old);
}

MR_TEST(secure_client_refuses_a_plain_server)
{
    secure c;
    char *ours = make_keys("ours", 1);
    begin(&c);
    MR_CHECK_OK(start_task(&c, 0, NULL));
    MR_CHECK_OK(start_task(&c, 1, NULL));
    mr_status *st = run_step(&c, ours);
    mr_test_check_error(__FILE__, __LINE__, "step", st, MR_UNAUTHENTICATED, "speaks plain text");
    mr_free(ours);
    end(&c);
}

/* The client is right and so is the master, but the other task is not what it should be. */
static void check_task(const char *keys, const char *ours, const char *reason)
{
    secure c;
    begin(&c);
    MR_CHECK_OK(start_task(&c, 0, keys));
    MR_CHECK_OK(start_task(&c, 1, ours));
    check_reason(run_step(&c, ours), reason);
    end(&c);
}

MR_TEST(secure_master_refuses_a_plain_task)
{
    char *ours = make_keys("ours", 1);
    check_task(NULL, ours, "speaks plain text");
    mr_free(ours);
}

MR_TEST(secure_master_refuses_a_task_of_another_ca)
{
    char *ours = make_keys("ours", 1), *others = make_keys("others", 1);
    check_task(others, ours, "is not of our CA");
    mr_free(ours);
    mr_free(others);
}

MR_TEST(secure_master_refuses_an_expired_task)
{
    char *ours = make_keys("ours", 1), *old = make_old_keys("old", ours);
    check_task(old, ours, "or has expired");
    mr_free(ours);
    mr_free(old);
}

/* The task at the address has the keys of another task of the same cluster. */
MR_TEST(secure_master_refuses_the_wrong_task)
{
    char *ours = make_keys("ours", 1), *swapped = mr_printf("%s/swapped", mr_test_dir());
    static const char *const endings[] = {".pem", ".key"};
    MR_CHECK_OK(mr_dir_make(swapped));
    for (int i = 0; i < 2; i++) { /* the certificate of worker/0 under the name of ps/0 */
        char *from = mr_net_key_path(ours, "worker/0", endings[i]), *to = mr_net_key_path(swapped, "ps/0", endings[i]);
        MR_CHECK(link(from, to) == 0);
        mr_free(from);
        mr_free(to);
    }
    char *from = mr_net_key_path(ours, "ca", ".pem"), *to = mr_net_key_path(swapped, "ca", ".pem");
    MR_CHECK(link(from, to) == 0);
    check_task(swapped, ours, "is of another task");
    mr_free(from);
    mr_free(to);
    mr_free(swapped);
    mr_free(ours);
}

/* A message to a task, with the keys of somebody. */
static mr_status *say(secure *c, int task, const char *own, const char *method, const mr_str *body)
{
    mr_net *net;
    mr_net_peer *peer;
    ask a;
    MR_CHECK_OK(mr_route_to(c->cluster.tasks.p[task].address, own, NULL, &net, &peer));
    ask_init(&a, method, body->p, body->n);
    ask_start(&a, net, peer);
    mr_status *st = ask_wait(&a);
    ask_deinit(&a);
    net->disconnect(peer);
    return st;
}

/* That a master lives anew ends its sessions, so nobody else may say it. */
MR_TEST(secure_masters_speak_for_themselves)
{
    secure c;
    mr_str body = {0};
    mr_pb_writer w;
    char *ours = make_keys("ours", 1);
    begin(&c);
    MR_CHECK_OK(start_task(&c, 0, ours));
    mr_pb_writer_init(&w, &body);
    mr_pb_put_bytes(&w, 1, MR_SV("handle"));
    mr_pb_put_bytes(&w, 5, MR_SV("/job:worker/replica:0/task:0"));
    mr_pb_put_varint(&w, 6, 7);
    MR_CHECK_ERR(say(&c, 0, "client", MR_WORKER_SERVICE "CreateWorkerSession", &body), MR_PERMISSION_DENIED,
                 "The certificate names client, but the request says it is from /job:worker");
    MR_CHECK_OK(say(&c, 0, "worker/0", MR_WORKER_SERVICE "CreateWorkerSession", &body));
    mr_str_deinit(&body);
    mr_free(ours);
    end(&c);
}

/* ---- listening ---- */

static mr_status *listen_at(const char *address)
{
    mr_server_def def = {.job = "worker"};
    mr_server *s;
    mr_ops_register();
    MR_CHECK_OK(mr_cluster_add(&def.cluster, MR_SV("worker"), 0, mr_sv_of(address)));
    MR_CHECK_OK(mr_server_new(&def, NULL, &s));
    mr_status *st = mr_server_start(s);
    mr_server_free(s);
    mr_cluster_deinit(&def.cluster);
    return st;
}

MR_TEST(secure_addresses_without_keys_are_refused)
{
    static const char *const open[] = {"0.0.0.0:0", "[::]:0", "192.0.2.7:0", "some.host.example:0"};
    unsetenv("MILLRACE_TLS_DIR");
    for (int i = 0; i < MR_COUNT(open); i++) {
        mr_status *st = listen_at(open[i]);
        MR_CHECK(st && !strchr(mr_status_message(st), '\n')); /* one line that says what to do */
        MR_CHECK_ERR(st, MR_FAILED_PRECONDITION, "make some with `millrace keys` and set MILLRACE_TLS_DIR");
    }
    MR_CHECK_OK(listen_at("127.0.0.1:0"));
    setenv("MILLRACE_TLS", "off", 1); /* on purpose */
    MR_CHECK_OK(listen_at("0.0.0.0:0"));
}

MR_TEST(secure_keys_that_do_not_fit_are_named)
{
    char *ours = make_keys("ours", 1), *key = mr_net_key_path(ours, "worker/0", ".key"),
         *other = mr_net_key_path(ours, "ps/0", ".key");
    MR_CHECK(rename(other, key) == 0);
    use_keys(ours);
    mr_status *st = listen_at("127.0.0.1:0");
    MR_CHECK(st && strstr(mr_status_message(st), ours));
    MR_CHECK_ERR(st, MR_INVALID_ARGUMENT, "the private key does not belong to the certificate");
    mr_free(other);
    mr_free(key);
    mr_free(ours);
}

MR_TEST(secure_keys_that_others_can_read_are_refused)
{
    char *ours = make_keys("ours", 1), *key = mr_net_key_path(ours, "worker/0", ".key");
    MR_CHECK(chmod(key, 0644) == 0);
    use_keys(ours);
    MR_CHECK_ERR(listen_at("127.0.0.1:0"), MR_PERMISSION_DENIED, "worker-0.key");
    MR_CHECK(unlink(key) == 0);
    MR_CHECK_ERR(listen_at("127.0.0.1:0"), MR_NOT_FOUND, "worker-0.key");
    mr_free(key);
    mr_free(ours);
}
