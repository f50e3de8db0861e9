/* net/direct_test.c -- when requests go by frames over TCP, and when they stay with gRPC. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "net/keys.h"
#include "net/transport_fixture.h"
#include "tests/harness/test.h"
#include "wire/pb.h"

static mr_net *direct(void)
{
    mr_net *net;
    MR_CHECK_OK(mr_net_direct(&net));
    return net;
}

static mr_net *grpc(void)
{
    mr_net *net;
    MR_CHECK_OK(mr_net_grpc(&net));
    return net;
}

static bool came_by(trial *t, const char *net)
{
    mr_lock(&t->mu);
    bool is = strcmp(t->came_by, net) == 0;
    mr_unlock(&t->mu);
    return is;
}

/* Calls until one comes by this transport; the test's deadline ends it. */
static void echo_until(trial *t, const char *net)
{
    while (true) {
        mr_status_free(ask_once(t, "/trial/Echo", "x", 1, NULL, NULL)); /* a lost connection is an error of one call */
        if (came_by(t, net))
            return;
        mr_sleep_ns(1000000);
    }
}

MR_TEST(direct_goes_by_tcp_when_it_can)
{
    trial t;
    trial_open(&t, direct());
    echo_until(&t, "tcp");
    for (int i = 0; i < 10; i++) {
        MR_CHECK_OK(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL));
        MR_CHECK(came_by(&t, "tcp"));
    }
    trial_close(&t);
}

MR_TEST(direct_knows_the_peer_by_its_certificate)
{
    static const char *const names[] = {"ps/0", "worker/1"};
    mr_net_keys_file ps, worker;
    trial t;
    MR_CHECK_OK(mr_net_make_keys(mr_test_dir(), names, NULL, 2, 1));
    MR_CHECK_OK(mr_net_keys_load(mr_test_dir(), "ps/0", &ps));
    MR_CHECK_OK(mr_net_keys_load(mr_test_dir(), "worker/1", &worker));
    trial_init(&t, direct());
    trial_listen(&t, &ps.keys);
    trial_connect(&t, &worker.keys, "ps/0");
    echo_until(&t, "tcp");
    MR_CHECK_STR(t.peer_name, "worker/1");
    trial_close(&t);
    mr_net_keys_deinit(&ps);
    mr_net_keys_deinit(&worker);
}

MR_TEST(direct_follows_a_server_that_starts_again)
{
    trial t;
    trial_open(&t, direct());
    echo_until(&t, "tcp");
    t.net->stop(t.server, 0);
    trial_listen(&t, NULL); /* another port for frames, another nonce */
    mr_lock(&t.mu);
    t.came_by[0] = 0;
    mr_unlock(&t.mu);
    echo_until(&t, "tcp");
    trial_close(&t);
}

MR_TEST(direct_client_stays_with_grpc_if_the_server_has_no_frames)
{
    trial t;
    mr_net_peer *peer;
    trial_init(&t, grpc());
    trial_listen(&t, NULL);
    MR_CHECK_OK(direct()->connect(direct(), t.address, NULL, NULL, &peer));
    t.peer = peer;
    t.net = direct();
    for (int i = 0; i < 50; i++) {
        MR_CHECK_OK(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL));
        MR_CHECK(came_by(&t, "grpc"));
    }
    direct()->disconnect(peer);
    t.peer = NULL;
    t.net = grpc();
    trial_close(&t);
}

MR_TEST(direct_server_answers_clients_of_grpc_alone)
{
    trial t;
    trial_init(&t, direct());
    trial_listen(&t, NULL);
    MR_CHECK_OK(grpc()->connect(grpc(), t.address, NULL, NULL, &t.peer));
    t.net = grpc();
    MR_CHECK_OK(ask_once(&t, "/trial/Echo", "x", 1, NULL, NULL));
    grpc()->disconnect(t.peer);
    t.peer = NULL;
    t.net = direct();
    trial_close(&t);
}

MR_TEST(direct_is_grpc_when_it_is_off)
{
    setenv("MILLRACE_DIRECT", "off", 1);
    MR_CHECK(direct() == grpc());
}

/* ---- servers that offer nonsense ---- */

typedef struct liar {
    int port, version;
    size_t nonce_bytes;
    bool junk;
    _Atomic int n_asked, n_served;
} liar;

static void lie(void *arg, mr_net_call *c)
{
    liar *l = arg;
    mr_str s = {0};
    mr_bytes body = {0};
    if (strcmp(c->method, "/millrace.Direct/Find") != 0) {
        l->n_served++;
        c->net->reply(c, NULL, &body);
        return;
    }
    l->n_asked++;
    mr_pb_writer w;
    char nonce[64] = "not the one that the server has";
    mr_pb_writer_init(&w, &s);
    mr_pb_put_varint(&w, 1, (uint64_t)l->version);
    mr_pb_put_varint(&w, 2, (uint64_t)l->port);
    mr_pb_put_bytes(&w, 3, (mr_sv){nonce, l->nonce_bytes});
    if (l->junk)
        mr_str_appendz(&s, "\xff\xff\xff");
    mr_bytes_add_str(&body, &s);
    c->net->reply(c, NULL, &body);
}

/* Whatever the server offers, requests are answered by gRPC. */
static void stay_with_grpc(liar l)
{
    mr_net_server *s;
    trial t;
    int port;
    trial_init(&t, direct());
    MR_CHECK_OK(grpc()->listen(grpc(), &(mr_net_listen){.address = "127.0.0.1:0", .handle = lie, .arg = &l}, &s, &port));
    snprintf(t.address, sizeof(t.address), "127.0.0.1:%d", port);
    trial_connect(&t, NULL, NULL);
    int n = 0;
    for (int64_t until = mr_now_ns() + INT64_C(300000000); n < 20 || !l.n_asked || mr_now_ns() < until; n++)
        MR_CHECK_OK(ask_once(&t, "/trial/Any", "x", 1, NULL, NULL));
    MR_CHECK_INT(l.n_served, n);
    direct()->disconnect(t.peer);
    t.peer = NULL;
    grpc()->stop(s, INT64_C(1000000000));
    trial_close(&t);
}

MR_TEST(direct_ignores_malformed_offers)
{
    stay_with_grpc((liar){.port = 1, .version = 1, .nonce_bytes = 32, .junk = true});
    stay_with_grpc((liar){.port = 1, .version = 2, .nonce_bytes = 32});
    stay_with_grpc((liar){.port = 1, .version = 1, .nonce_bytes = 31});
    stay_with_grpc((liar){.port = 0, .version = 1, .nonce_bytes = 32});
    stay_with_grpc((liar){.port = 65536, .version = 1, .nonce_bytes = 32});
}

MR_TEST(direct_stays_with_grpc_if_the_port_is_closed)
{
    stay_with_grpc((liar){.port = 1, .version = 1, .nonce_bytes = 32});
}

MR_TEST(direct_does_not_speak_to_another_process_at_the_port)
{
    trial other; /* frames, but with another nonce */
    trial_init(&other, mr_net_tcp());
    trial_listen(&other, NULL);
    stay_with_grpc((liar){.port = atoi(strrchr(other.address, ':') + 1), .version = 1, .nonce_bytes = 32});
    MR_CHECK_STR(other.came_by, "");
    trial_close(&other);
}
