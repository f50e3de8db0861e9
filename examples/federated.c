/* federated.c -- federated averaging of a convolutional network on MNIST, after McMahan et al. 2017.
 *
 *     federated [--non-iid] [--target 99] [option value]...        (--help)
 *     federated --server HOST:PORT [--wait-for N] ...      the same with clients that are processes of their own:
 *     federated --client HOST:PORT --number I [--clients 100] [--non-iid]
 *
 * The digits are dealt to the clients evenly, or with --non-iid sorted by digit and cut into two pieces a client, so that
 * most clients know two digits.  Examples never leave their client; with --secure the server does not see
 * single updates either.  Prints a line a round, and ends early when --target percent of the test digits are right. */
#include <millrace/data.h>
#include <millrace/cluster.h>
#include <millrace/federated.h>
#include <millrace/progress.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

typedef struct network {
    mr_model *model;
    TF_Output inputs[2], rate, loss, accuracy;
    TF_Operation *train;
} network;

/* Two convolutions of 5x5, pools, a dense layer.  Dropout is part of the training step alone: the second head shares all
 * variables and has none. */
static TF_Output head(mr_model *m, TF_Output x, int64_t units, float drop)
{
    TF_Output h = mr_max_pool(m, mr_conv2d(m, "conv1", x, 32, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    h = mr_max_pool(m, mr_conv2d(m, "conv2", h, 64, 5, 1, "SAME", MR_RELU), 2, 2, "SAME");
    h = mr_dense(m, "dense", mr_flatten(m, h), units, MR_RELU);
    if (drop > 0)
        h = mr_dropout(m, h, mr_setting(m, "drop", drop));
    return mr_dense(m, "logits", h, 10, MR_LINEAR);
}

static network build(TF_Graph *graph, int64_t units, float drop)
{
    network n = {.model = mr_model_new(graph)};
    mr_model *m = n.model;
    n.inputs[0] = mr_input(m, "images", TF_FLOAT, 4, (int64_t[]){-1, 28, 28, 1});
    n.inputs[1] = mr_input(m, "labels", TF_INT32, 1, (int64_t[]){-1});
    n.rate = mr_setting(m, "rate", 0.1f);
    n.loss = mr_softmax_loss(m, head(m, n.inputs[0], units, drop), n.inputs[1]);
    mr_optimizer sgd = mr_sgd(0.1f);
    sgd.schedule = n.rate;
    n.train = mr_minimize(m, n.loss, sgd);
    mr_model_reuse(m, 1);
    n.accuracy = mr_accuracy(m, head(m, n.inputs[0], units, 0), n.inputs[1]);
    mr_model_status(m, status);
    check("building the network");
    return n;
}

/* ---- whose digits are which ---- */

static uint64_t next_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    return *s ^= *s << 17;
}

static void shuffle(int64_t *v, int64_t n)
{
    uint64_t s = 88172645463325252u;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)(next_random(&s) % (uint64_t)(i + 1)), keep = v[i];
        v[i] = v[j];
        v[j] = keep;
    }
}

/* Rows of all digits, client after client, each the same number of them. */
static int64_t *deal(const int32_t *labels, int64_t n, int clients, int non_iid)
{
    int64_t *rows = calloc((size_t)n, sizeof *rows), *sorted = calloc((size_t)n, sizeof *rows), k = 0;
    int64_t pieces = 2 * clients, each = n / pieces;
    for (int digit = 0; digit < 10; digit++)
        for (int64_t i = 0; i < n; i++)
            if (labels[i] == digit)
                sorted[k++] = i;
    if (!non_iid) {
        shuffle(sorted, k);
        free(rows);
        return sorted;
    }
    int64_t *order = calloc((size_t)pieces, sizeof *order);
    for (int64_t i = 0; i < pieces; i++)
        order[i] = i;
    shuffle(order, pieces);
    for (int64_t i = 0; i < pieces; i++)
        memcpy(rows + i * each, sorted + order[i] * each, (size_t)each * sizeof *rows);
    free(order);
    free(sorted);
    return rows;
}

/* ---- testing ---- */

static double test(TF_Session *session, const network *n, const mr_digits *d)
{
    double hits = 0;
    int64_t count = mr_digits_count(d, MR_SPLIT_TEST);
    for (int64_t i = 0; i < count; i += 500) {
        TF_Tensor *in[2], *out;
        int64_t size = count - i < 500 ? count - i : 500;
        mr_digits_batch(d, MR_SPLIT_TEST, 0, i, size, &in[0], &in[1], status);
        check("reading the test digits");
        TF_SessionRun(session, NULL, n->inputs, in, 2, &n->accuracy, &out, 1, NULL, 0, NULL, status);
        check("testing");
        hits += (double)size * *(float *)TF_TensorData(out);
        TF_DeleteTensor(in[0]);
        TF_DeleteTensor(in[1]);
        TF_DeleteTensor(out);
    }
    return 100 * hits / (double)count;
}

static double run_rounds(mr_federated *f, const network *n, const mr_digits *d, int rounds, float rate, float decay, double target)
{
    double best = 0;
    mr_progress *bar = mr_progress_new(stderr, "rounds", 0, rounds);
    for (int i = 0; i < rounds && !(target > 0 && best >= target); i++, rate *= decay) {
        mr_federated_report r = {.struct_size = sizeof r};
        mr_federated_set_rate(f, rate);
        mr_federated_round(f, &r, status);
        check("a round");
        double accuracy = test(mr_federated_session(f), n, d);
        best = accuracy > best ? accuracy : best;
        printf("round %lld accuracy %.2f %% loss %.4f updates %d of %d tries %d time %.1f s\n", (long long)r.round, accuracy, r.loss,
               r.updates, r.asked, r.tries, r.seconds);
        fflush(stdout);
        mr_progress_update(bar, i + 1, "accuracy %.2f %%, best %.2f %%", accuracy, best);
    }
    mr_progress_end(bar);
    return best;
}

/* ---- the three ways to run ---- */

typedef struct plan {
    int clients, non_iid;
    mr_digits *digits;
    network net;
    mr_federated_work work;
    mr_federated_examples *examples; /* by client */
} plan;

/* What was said, or else what suits the way the digits are dealt. */
static float suited(const char *name, int non_iid, double two_digits, double all_digits)
{
    return (float)(has(name) ? number(name) : non_iid ? two_digits : all_digits);
}

static plan make_plan(void)
{
    plan p = {.non_iid = has("--non-iid"), .clients = (int)integer("--clients", 1)};
    TF_Tensor **values = calloc(2, sizeof *values);
    if (p.clients > 10000) {
        fprintf(stderr, "--clients is from 1 to 10000\n");
        exit(2);
    }
    p.digits = mr_digits_open(digits_folder(), status);
    check("reading the digits");
    p.net = build(TF_NewGraph(), integer("--units", 1), suited("--drop", p.non_iid, 0.3, 0));
    int64_t count = mr_digits_count(p.digits, MR_SPLIT_TRAIN), each = count / p.clients;
    mr_digits_batch(p.digits, MR_SPLIT_TRAIN, 0, 0, count, &values[0], &values[1], status);
    check("reading the digits");
    int64_t *rows = deal(TF_TensorData(values[1]), count, p.clients, p.non_iid);
    p.examples = calloc((size_t)p.clients, sizeof *p.examples);
    for (int i = 0; i < p.clients; i++)
        p.examples[i] = (mr_federated_examples){sizeof *p.examples, values, rows + i * each, each};
    return p;
}

static int be_client(plan *p, const char *address)
{
    int i = (int)(integer("--number", 0) % p->clients);
    mr_federated_client_options o = {sizeof o, .work = &p->work, .examples = &p->examples[i], .address = address,
                                     .secure = (unsigned char)has("--secure")};
    int64_t updates = mr_federated_client(&o, status);
    check("working as a client");
    printf("client %d: %lld updates\n", i, (long long)updates);
    return 0;
}

static mr_federated *begin(plan *p, const char *address)
{
    mr_federated_options o = {sizeof o,
                              .work = &p->work,
                              .fraction = (float)number("--fraction"),
                              .over = (float)number("--over"),
                              .epochs = (int)integer("--epochs", 1),
                              .batch = (int)integer("--batch", 1),
                              .server_momentum = suited("--momentum", p->non_iid, 0.7, 0),
                              .secure = (unsigned char)has("--secure"),
                              .seed = (uint64_t)integer("--seed", 0),
                              .deadline_ms = 1000 * integer("--deadline", 1),
                              .lose = (float)number("--lose"),
                              .threads = (int)integer("--threads", 0),
                              .clients = address ? NULL : p->examples,
                              .num_clients = p->clients,
                              .address = address,
                              .wait_for = (int)integer("--wait-for", 1)};
    mr_federated *f = mr_federated_new(&o, status);
    check("beginning");
    if (address) {
        printf("serving at %s\n", mr_federated_address(f));
        fflush(stdout);
    }
    return f;
}

static option options[] = {
    {"--clients", "N", "100", "that the digits are dealt to"},
    {"--non-iid", NULL, NULL, "two digits a client; else all are dealt evenly"},
    {"--fraction", "C", "0.1", "of the clients that a round asks"},
    {"--over", "X", "0", "asked beyond that, as a share of it; the first that come count"},
    {"--epochs", "E", "5", "of a client in a round"},
    {"--batch", "B", "10", "digits of a client and step"},
    {"--rounds", "N", NULL, "at most: 30, or 60 with --non-iid"},
    {"--target", "PERCENT", "0", "of the test digits that end it early; not reached: it ends with 1"},
    {"--rate", "X", NULL, "of the clients: 0.1, or 0.05 with --non-iid"},
    {"--decay", "X", NULL, "of the rate, a round: 0.97, or 0.99"},
    {"--momentum", "X", NULL, "of the server: 0, as in the paper, or 0.7"},
    {"--drop", "P", NULL, "dropout before the last layer: none, or 0.3"},
    {"--units", "N", "512", "of the dense layer"},
    {"--secure", NULL, NULL, "the server sees sums of updates alone"},
    {"--lose", "P", "0", "of updates that are lost, to see what comes of it"},
    {"--deadline", "SECONDS", "600", "of a round"},
    {"--threads", "N", "0", "that train clients of this process; 0: one a core"},
    {"--seed", "N", "1", "of who is asked and in which order examples come"},
    {"--server", "HOST:PORT", NULL, "clients are processes of their own, which come here"},
    {"--wait-for", "N", "1", "clients that must be there before a round"},
    {"--client", "HOST:PORT", NULL, "be a client of that server"},
    {"--number", "N", "0", "which client"},
    DIGITS_OPTION,
    {NULL, NULL, NULL, NULL},
};
static const char about[] = "federated: federated averaging of a convolutional network on handwritten digits.";

int main(int argc, char **argv)
{
    read_options(argc, argv, about, options);
    status = TF_NewStatus();
    plan p = make_plan();
    p.work = (mr_federated_work){sizeof p.work,   .model = p.net.model, .train = p.net.train, .inputs = p.net.inputs,
                                 .num_inputs = 2, .loss = p.net.loss,   .rate = p.net.rate};
    if (has("--client"))
        return be_client(&p, said("--client"));
    mr_federated *f = begin(&p, said("--server"));
    double target = number("--target");
    int rounds = has("--rounds") ? (int)integer("--rounds", 1) : p.non_iid ? 60 : 30;
    double best = run_rounds(f, &p.net, p.digits, rounds, suited("--rate", p.non_iid, 0.05, 0.1),
                             suited("--decay", p.non_iid, 0.99, 0.97), target);
    printf("best accuracy %.2f %% (%s)\n", best, mr_digits_name(p.digits));
    mr_federated_free(f);
    return target > 0 && best < target;
}
