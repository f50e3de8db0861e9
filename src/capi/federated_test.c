/* capi/federated_test.c -- millrace/federated.h as a C program sees it. */
#include "millrace/federated.h"

#include <pthread.h>

#include "capi/graph_fixture.h"

enum { CLIENTS = 6, ROWS = 12 };

typedef struct fixture { /* y = 2x - 1 */
    kit k;
    mr_model *m;
    TF_Output inputs[2], loss, prediction;
    TF_Tensor *values[2];
    int64_t rows[CLIENTS][ROWS];
    mr_federated_examples clients[CLIENTS];
    mr_federated_work work;
    mr_federated_options o;
} fixture;

static void begin(fixture *r, mr_optimizer optimizer)
{
    float x[CLIENTS * ROWS], y[CLIENTS * ROWS];
    *r = (fixture){.k = kit_new()};
    r->m = mr_model_new(r->k.g);
    r->inputs[0] = mr_input(r->m, "x", TF_FLOAT, 2, (int64_t[]){-1, 1});
    r->inputs[1] = mr_input(r->m, "y", TF_FLOAT, 2, (int64_t[]){-1, 1});
    r->prediction = mr_dense(r->m, "fc", r->inputs[0], 1, MR_LINEAR);
    r->loss = mr_squared_loss(r->m, r->prediction, r->inputs[1]);
    TF_Operation *train = mr_minimize(r->m, r->loss, optimizer);
    mr_model_status(r->m, r->k.s);
    CHECK_OK(r->k.s);
    for (int i = 0; i < CLIENTS * ROWS; i++) {
        x[i] = (float)i / 20 - 1.8f;
        y[i] = 2 * x[i] - 1;
        r->rows[i / ROWS][i % ROWS] = i;
    }
    r->values[0] = kit_floats(2, (int64_t[]){CLIENTS * ROWS, 1}, x);
    r->values[1] = kit_floats(2, (int64_t[]){CLIENTS * ROWS, 1}, y);
    for (int c = 0; c < CLIENTS; c++)
        r->clients[c] = (mr_federated_examples){sizeof *r->clients, r->values, r->rows[c], ROWS};
    r->work = (mr_federated_work){sizeof r->work,      .model = r->m,   .train = train,
                                  .inputs = r->inputs, .num_inputs = 2, .loss = r->loss};
    r->o = (mr_federated_options){sizeof r->o,           .work = &r->work,       .fraction = 1, .epochs = 3, .batch = 4,
                                  .clients = r->clients, .num_clients = CLIENTS, .threads = 2,  .seed = 1};
}

static void end(fixture *r)
{
    TF_DeleteTensor(r->values[0]);
    TF_DeleteTensor(r->values[1]);
    mr_model_free(r->m);
    kit_free(&r->k);
}

static float predict(fixture *r, mr_federated *f, float x)
{
    TF_Tensor *in = kit_floats(2, (int64_t[]){1, 1}, &x);
    TF_Tensor *out = kit_run(&r->k, mr_federated_session(f), r->inputs[0], in, r->prediction);
    TF_DeleteTensor(in);
    CHECK_OK(r->k.s);
    float y = *(float *)TF_TensorData(out);
    TF_DeleteTensor(out);
    return y;
}

static void learn(fixture *r, int rounds, double tolerance)
{
    mr_federated *f = mr_federated_new(&r->o, r->k.s);
    CHECK_OK(r->k.s);
    for (int i = 1; i <= rounds; i++) {
        mr_federated_report report = {.struct_size = sizeof report};
        mr_federated_round(f, &report, r->k.s);
        CHECK_OK(r->k.s);
        MR_CHECK_INT(report.round, i);
        MR_CHECK_INT(report.updates, CLIENTS);
        MR_CHECK_INT(report.examples, CLIENTS * ROWS);
    }
    MR_CHECK_NEAR(predict(r, f, 1), 1, tolerance);
    MR_CHECK_NEAR(predict(r, f, -1), -3, tolerance);
    MR_CHECK_STR(mr_federated_address(f), "");
    mr_federated_free(f);
}

MR_TEST(federated_capi_learns_a_line)
{
    fixture r;
    begin(&r, mr_sgd(0.1f));
    learn(&r, 25, 0.02);
    end(&r);
}

/* What a local optimizer keeps begins anew with each client, or clients would learn of each other. */
MR_TEST(federated_capi_local_momentum_begins_anew)
{
    fixture r;
    begin(&r, mr_momentum(0.02f, 0.9f));
    learn(&r, 25, 0.1);
    end(&r);
}

MR_TEST(federated_capi_learns_by_secure_sums)
{
    fixture r;
    begin(&r, mr_sgd(0.1f));
    r.o.secure = 1;
    learn(&r, 25, 0.02);
    end(&r);
}

/* Clients that a round did not wait for must not touch what is shown: the same model is there until the next round. */
MR_TEST(federated_capi_shows_a_model_that_stays)
{
    fixture r;
    begin(&r, mr_sgd(0.1f));
    r.o.fraction = 0.2f;
    r.o.over = 2;
    r.o.epochs = 200;
    r.o.threads = 3;
    mr_federated *f = mr_federated_new(&r.o, r.k.s);
    CHECK_OK(r.k.s);
    for (int i = 0; i < 3; i++) {
        mr_federated_report report = {.struct_size = sizeof report};
        mr_federated_round(f, &report, r.k.s);
        CHECK_OK(r.k.s);
        MR_CHECK_INT(report.updates, 2);
        MR_CHECK_INT(report.asked, 6);
        float first = predict(&r, f, 1);
        for (int k = 0; k < 50; k++)
            MR_CHECK_NEAR(predict(&r, f, 1), first, 0);
    }
    mr_federated_free(f);
    end(&r);
}

/* Without an mr_model: variables that somebody else made. */
MR_TEST(federated_capi_takes_parameters_of_any_graph)
{
    fixture r;
    begin(&r, mr_sgd(0.1f));
    const char *const names[2] = {"fc/kernel", "fc/bias"};
    mr_federated_parameter p[2];
    for (int i = 0; i < 2; i++) {
        TF_Output handle = {TF_GraphOperationByName(r.k.g, names[i]), 0};
        MR_CHECK(handle.oper != NULL);
        TF_OperationDescription *d = TF_NewOperation(r.k.g, "Placeholder", i ? "p1" : "p0");
        TF_SetAttrType(d, "dtype", TF_FLOAT);
        TF_SetAttrShape(d, "shape", (int64_t[]){1, 1}, i ? 1 : 2);
        p[i].feed = kit_out(kit_finish(&r.k, d), 0);
        d = TF_NewOperation(r.k.g, "AssignVariableOp", i ? "a1" : "a0");
        TF_AddInput(d, handle);
        TF_AddInput(d, p[i].feed);
        p[i].assign = kit_finish(&r.k, d);
        d = TF_NewOperation(r.k.g, "ReadVariableOp", i ? "r1" : "r0");
        TF_AddInput(d, handle);
        TF_SetAttrType(d, "dtype", TF_FLOAT);
        p[i].value = kit_out(kit_finish(&r.k, d), 0);
    }
    r.work.model = NULL;
    r.work.graph = r.k.g;
    r.work.parameters = p;
    r.work.num_parameters = 2;
    r.work.init = mr_initializer(r.m);
    learn(&r, 25, 0.02);
    end(&r);
}

typedef struct client_thread {
    pthread_t thread;
    fixture r;
    char *address;
    int64_t updates;
} client_thread;

static void *be_client(void *arg)
{
    client_thread *c = arg;
    c->updates = mr_federated_client(&(mr_federated_client_options){sizeof(mr_federated_client_options), &c->r.work,
                                                                    &c->r.clients[0], c->address, 20000, 0, NULL},
                                     c->r.k.s);
    return NULL;
}

MR_TEST(federated_capi_serves_clients_elsewhere)
{
    fixture r;
    client_thread c[3];
    begin(&r, mr_sgd(0.1f));
    r.o.clients = NULL;
    r.o.num_clients = 0;
    r.o.address = "127.0.0.1:0";
    r.o.wait_for = 3;
    mr_federated *f = mr_federated_new(&r.o, r.k.s);
    CHECK_OK(r.k.s);
    char address[64];
    strncpy(address, mr_federated_address(f), sizeof address - 1);
    for (int i = 0; i < 3; i++) {
        begin(&c[i].r, mr_sgd(0.1f));
        c[i].address = address;
        c[i].r.clients[0] = c[i].r.clients[2 * i];
        MR_CHECK(pthread_create(&c[i].thread, NULL, be_client, &c[i]) == 0);
    }
    for (int i = 0; i < 5; i++) {
        mr_federated_round(f, NULL, r.k.s);
        CHECK_OK(r.k.s);
    }
    mr_federated_free(f);
    for (int i = 0; i < 3; i++) {
        pthread_join(c[i].thread, NULL);
        CHECK_OK(c[i].r.k.s);
        MR_CHECK(c[i].updates >= 4);
        end(&c[i].r);
    }
    end(&r);
}

/* ---- what is wrong is said ---- */

static void refused(fixture *r, const char *why)
{
    MR_CHECK(mr_federated_new(&r->o, r->k.s) == NULL);
    CHECK_CODE(r->k.s, TF_INVALID_ARGUMENT, why);
}

MR_TEST(federated_capi_says_what_is_wrong)
{
    fixture r;
    begin(&r, mr_sgd(0.1f));
    mr_federated_options good = r.o;
    r.o.address = "127.0.0.1:0";
    refused(&r, "set either clients or address");
    r.o = good;
    r.o.fraction = 2;
    refused(&r, "fraction of clients");
    r.o = good;
    r.o.epochs = -1;
    refused(&r, "negative");
    r.o = good;
    r.o.deadline_ms = INT64_MAX / 1000000; /* with the time of day it would be beyond what a number holds */
    refused(&r, "too large");
    r.o = good;
    r.o.over = 1e30f;
    refused(&r, "over-selection");
    r.o = good;
    r.o.struct_size = 3;
    refused(&r, "struct_size");
    r.o = good;
    r.o.server_momentum = 1;
    refused(&r, "momentum");
    r.o = good;
    r.o.work = NULL;
    refused(&r, "work is NULL");
    r.o = good;
    r.work.num_inputs = 0;
    refused(&r, "inputs");
    r.work.num_inputs = 2;
    r.work.train = NULL;
    refused(&r, "Node NULL");
    mr_federated_round(NULL, NULL, r.k.s);
    CHECK_CODE(r.k.s, TF_INVALID_ARGUMENT, "federated averaging is NULL");
    mr_federated_free(NULL);
    end(&r);
}
