/* federated.c -- federated averaging of a convolutional network on MNIST, after McMahan et al. 2017.
 *
 *     federated [--clients 100] [--fraction 0.1] [--epochs 5] [--batch 10] [--rounds N] [--non-iid] [--target 99]
 *               [--units 512] [--rate R] [--decay D] [--momentum M] [--drop P] [--secure] [--lose P] [--threads N] [--dir FOLDER]
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

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "%s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return argv[i + 1];
    return otherwise;
}

static int has(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return 1;
    return 0;
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

int main(int argc, char **argv)
{
    const char *server = option(argc, argv, "--server", NULL), *client = option(argc, argv, "--client", NULL);
    int clients = atoi(option(argc, argv, "--clients", "100")), non_iid = has(argc, argv, "--non-iid");
    int rounds = atoi(option(argc, argv, "--rounds", non_iid ? "60" : "30"));
    double target = atof(option(argc, argv, "--target", "0"));
    float drop = (float)atof(option(argc, argv, "--drop", non_iid ? "0.3" : "0.5"));
    status = TF_NewStatus();
    mr_digits *digits = mr_digits_open(option(argc, argv, "--dir", getenv("MNIST_DIR")), status);
    check("reading the digits");
    TF_Graph *graph = TF_NewGraph();
    network n = build(graph, atoll(option(argc, argv, "--units", "512")), drop);
    mr_federated_work work = {sizeof work,     .model = n.model, .train = n.train, .inputs = n.inputs,
                              .num_inputs = 2, .loss = n.loss,   .rate = n.rate};

    int64_t count = mr_digits_count(digits, MR_SPLIT_TRAIN), each = count / clients;
    TF_Tensor *values[2];
    mr_digits_batch(digits, MR_SPLIT_TRAIN, 0, 0, count, &values[0], &values[1], status);
    check("reading the digits");
    int64_t *rows = deal(TF_TensorData(values[1]), count, clients, non_iid);
    mr_federated_examples *examples = calloc((size_t)clients, sizeof *examples);
    for (int i = 0; i < clients; i++)
        examples[i] = (mr_federated_examples){sizeof *examples, values, rows + i * each, each};

    if (client) {
        int number = atoi(option(argc, argv, "--number", "0")) % clients;
        mr_federated_client_options o = {sizeof o, .work = &work, .examples = &examples[number], .address = client,
                                         .secure = (unsigned char)has(argc, argv, "--secure")};
        int64_t updates = mr_federated_client(&o, status);
        check("working as a client");
        printf("client %d: %lld updates\n", number, (long long)updates);
        return 0;
    }
    mr_federated_options o = {sizeof o,
                              .work = &work,
                              .fraction = (float)atof(option(argc, argv, "--fraction", "0.1")),
                              .over = (float)atof(option(argc, argv, "--over", "0")),
                              .epochs = atoi(option(argc, argv, "--epochs", "5")),
                              .batch = atoi(option(argc, argv, "--batch", "10")),
                              .server_momentum = (float)atof(option(argc, argv, "--momentum", "0.7")),
                              .secure = (unsigned char)has(argc, argv, "--secure"),
                              .seed = (uint64_t)atoll(option(argc, argv, "--seed", "1")),
                              .deadline_ms = 1000 * (int64_t)atoi(option(argc, argv, "--deadline", "600")),
                              .lose = (float)atof(option(argc, argv, "--lose", "0")),
                              .threads = atoi(option(argc, argv, "--threads", "0")),
                              .clients = server ? NULL : examples,
                              .num_clients = clients,
                              .address = server,
                              .wait_for = atoi(option(argc, argv, "--wait-for", "1"))};
    mr_federated *f = mr_federated_new(&o, status);
    check("beginning");
    if (server) {
        printf("serving at %s\n", mr_federated_address(f));
        fflush(stdout);
    }
    double best = run_rounds(f, &n, digits, rounds, (float)atof(option(argc, argv, "--rate", non_iid ? "0.05" : "0.1")),
                             (float)atof(option(argc, argv, "--decay", "0.99")), target);
    printf("best accuracy %.2f %% (%s)\n", best, mr_digits_name(digits));
    mr_federated_free(f);
    return target > 0 && best < target;
}
