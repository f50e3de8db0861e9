/* fed/crypto_library_test.c -- what happens where libmillrace-crypto.so is missing. */
#include <stdlib.h>

#include "fed/client.h"
#include "fed/crypto.h"
#include "fed/server.h"
#include "tests/harness/test.h"

#define MISSING "They need libmillrace-crypto.so"

static void hide_library(void) { setenv("MILLRACE_CRYPTO_LIB", "/nowhere/libmillrace-crypto.so", 1); }

MR_TEST(crypto_library_that_is_missing_is_named)
{
    const mr_crypto *c;
    hide_library();
    MR_CHECK_ERR(mr_crypto_open(&c), MR_UNIMPLEMENTED, MISSING);
    unsetenv("MILLRACE_CRYPTO_LIB");
    MR_CHECK_OK(mr_crypto_open(&c)); /* it is found once it exists */
}

/* A library that has no function of this name, and one that is of another build. */
MR_TEST(crypto_library_of_another_kind_is_refused)
{
    const mr_crypto *c;
    setenv("MILLRACE_CRYPTO_LIB", "libz.so.1", 1);
    MR_CHECK_ERR(mr_crypto_open(&c), MR_UNIMPLEMENTED, "not of this build");
}

static mr_status *server_with(bool secure, mr_fed_server **out)
{
    mr_fed_coordinator_options o = {.rounds = {.n_clients = 4, .fraction = 1, .secure = secure, .stage_ns = 1000000000},
                                    .config = {.learn = {.epochs = 1}, .clip = 4, .most_examples = 100}};
    return mr_fed_server_new(&o, "127.0.0.1:0", mr_fed_weights_new(3), out);
}

MR_TEST(crypto_library_is_needed_by_secure_servers_alone)
{
    mr_fed_server *s;
    hide_library();
    MR_CHECK_ERR(server_with(true, &s), MR_UNIMPLEMENTED, MISSING);
    MR_CHECK_OK(server_with(false, &s));
    mr_fed_server_free(s);
}

/* It does not try to reach a server first. */
MR_TEST(crypto_library_is_needed_by_clients_that_insist_on_secure_rounds)
{
    mr_fed_client_options o = {.address = "127.0.0.1:1", .deadline_ns = 60000000000, .secure = true};
    int64_t updates;
    hide_library();
    MR_CHECK_ERR(mr_fed_client_run(&o, &updates), MR_UNIMPLEMENTED, MISSING);
}

/* Other clients learn of it with their first task. */
MR_TEST(crypto_library_that_a_task_needs_ends_the_client)
{
    mr_fed_worker w = {0};
    mr_fed_answer a;
    mr_fed_task t = {.kind = MR_FED_WORK, .ticket = 1, .stage = MR_FED_KEYS, .config = {.secure = true}};
    hide_library();
    MR_CHECK_ERR(mr_fed_worker_do(&w, NULL, &t, (mr_learner_stop){0}, &a), MR_UNIMPLEMENTED, MISSING);
    MR_CHECK(a.refused && strstr(mr_str_z(&a.body), MISSING));
    mr_fed_answer_deinit(&a);
    mr_fed_worker_deinit(&w);
}
