/* net/hello_test.c -- the handshake of processes on one host. */
#include "net/hello.h"

#include "tests/harness/test.h"

static const uint8_t ours[MR_HELLO_TOKEN] = "a token that both of them know",
                     other[MR_HELLO_TOKEN] = "x";

static void run(const uint8_t *client_token, const uint8_t *server_token, int spoiled,
                mr_status **at_client, mr_status **at_server)
{
    mr_hello c = {0}, s = {0};
    uint8_t a[MR_HELLO_CLIENT], b[MR_HELLO_SERVER], p[MR_HELLO_PROOF];
    *at_server = NULL;
    MR_CHECK_OK(mr_hello_begin(&c, client_token, a));
    MR_CHECK_OK(mr_hello_answer(&s, server_token, a, b));
    if (spoiled >= 0)
        b[spoiled] ^= 1;
    *at_client = mr_hello_finish(&c, b, p);
    if (!*at_client)
        *at_server = mr_hello_check(&s, p);
}

MR_TEST(hello_agrees_on_one_token)
{
    mr_status *c, *s;
    run(ours, ours, -1, &c, &s);
    MR_CHECK_OK(c);
    MR_CHECK_OK(s);
}

MR_TEST(hello_tells_a_client_of_another_token)
{
    mr_status *c, *s;
    run(ours, other, -1, &c, &s);
    MR_CHECK_ERR(c, MR_UNAUTHENTICATED, "token");
}

MR_TEST(hello_bears_no_changed_byte)
{
    for (int i = 0; i < MR_HELLO_SERVER; i++) {
        mr_status *c, *s;
        run(ours, ours, i, &c, &s);
        MR_CHECK_ERR(c, MR_UNAUTHENTICATED, "");
    }
}

MR_TEST(hello_takes_no_proof_sent_back)
{
    mr_hello c = {0}, s = {0};
    uint8_t a[MR_HELLO_CLIENT], b[MR_HELLO_SERVER];
    MR_CHECK_OK(mr_hello_begin(&c, ours, a));
    MR_CHECK_OK(mr_hello_answer(&s, ours, a, b));
    MR_CHECK_ERR(mr_hello_check(&s, b + MR_HELLO_MAGIC + MR_HELLO_NONCE), MR_UNAUTHENTICATED,
                 "token");
}

MR_TEST(hello_refuses_another_protocol)
{
    mr_hello s = {0};
    uint8_t a[MR_HELLO_CLIENT] = "PRI * HTTP/2.0\r\n", b[MR_HELLO_SERVER];
    MR_CHECK_ERR(mr_hello_answer(&s, ours, a, b), MR_UNAUTHENTICATED, "protocol");
}
