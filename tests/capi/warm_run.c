/* tests/capi/warm_run.c -- a run that has run before asks for no memory: malloc is counted. */

#include "client.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define COUNTING 0
#endif
#endif
#ifndef COUNTING
#define COUNTING 1
#endif

static long n_calls; /* of malloc and its kin, by all threads */

#if COUNTING
/* The library's calls come here, because the program comes first when names are looked up. */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t bytes);
extern void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n)
{
    __atomic_add_fetch(&n_calls, 1, __ATOMIC_RELAXED);
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t bytes)
{
    __atomic_add_fetch(&n_calls, 1, __ATOMIC_RELAXED);
    return __libc_calloc(n, bytes);
}
void *realloc(void *p, size_t n)
{
    __atomic_add_fetch(&n_calls, 1, __ATOMIC_RELAXED);
    return __libc_realloc(p, n);
}
#endif

enum { ROWS = 16, WARM = 50, RUNS = 200 };

typedef struct step {
    TF_Session *session;
    int n_feeds, n_sets, n_targets;
    const TF_Output *feeds;
    TF_Tensor **sets[3]; /* values of the feeds, taken by turns */
    TF_Output loss;
    const TF_Operation *const *targets;
} step;

/* How often malloc is called in n runs. */
static long calls_in(const step *p, int n, TF_Status *s)
{
    long before = __atomic_load_n(&n_calls, __ATOMIC_RELAXED);
    TF_Tensor *out = NULL;
    for (int i = 0; i < n; i++) {
        TF_SessionRun(p->session, NULL, p->feeds, p->sets[i % p->n_sets], p->n_feeds, &p->loss, &out, 1,
                      p->targets, p->n_targets, NULL, s);
        CHECK_OK(s);
        TF_DeleteTensor(out);
    }
    return __atomic_load_n(&n_calls, __ATOMIC_RELAXED) - before;
}

/* After some runs it calls malloc no more, at the latest in the last stretch.  Where kernels are large enough for threads to
 * help, each thread brings its own caches when it first does, which on a busy machine may be late: such steps get several
 * stretches.  A kernel that calls malloc does so in every one. */
static void check_warm(const char *name, const step *p, int stretches, TF_Status *s)
{
    CHECK(calls_in(p, WARM, s) > 0 || !COUNTING); /* we do count */
    long calls = calls_in(p, RUNS, s);
    for (int i = 1; calls && i < stretches; i++)
        calls = calls_in(p, RUNS, s);
    if (calls)
        fprintf(stderr, "%s: %ld calls of malloc in %d runs\n", name, calls, RUNS);
    CHECK(calls == 0);
}

/* Training of y = relu(x W) W2 by gradient descent, with 40 feeds besides: more than a few. */
static void train(TF_Status *s)
{
    enum { EXTRA = 40 };
    TF_Graph *g = TF_NewGraph();
    static float x[ROWS * 8], w[8 * 8];
    for (int i = 0; i < 64; i++)
        w[i] = (float)(i % 7) / 10;
    TF_Output feeds[EXTRA + 1], extra[EXTRA];
    feeds[0] = placeholder(g, TF_FLOAT, "x", s);
    for (int i = 0; i < EXTRA; i++) {
        char name[16];
        snprintf(name, sizeof name, "e%d", i);
        extra[i] = feeds[i + 1] = placeholder(g, TF_FLOAT, name, s);
    }
    TF_OperationDescription *d = TF_NewOperation(g, "AddN", "extra");
    TF_AddInputList(d, extra, EXTRA);
    TF_Output sum = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    d = TF_NewOperation(g, "VariableV2", "w");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", (const int64_t[]){8, 8}, 2);
    TF_Output var = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    TF_Output start = constant(g, tensor_of(TF_FLOAT, (const int64_t[]){8, 8}, 2, w), "start", s);
    const TF_Operation *init = binary(g, "Assign", var, start, "init", s).oper;
    TF_Output h = unary(g, "Relu", binary(g, "MatMul", feeds[0], var, "xw", s), "h", s);
    TF_Output y = binary(g, "Add", h, sum, "y", s);
    TF_Output axes =
        constant(g, tensor_of(TF_INT32, (const int64_t[]){2}, 1, (const int32_t[]){0, 1}), "axes", s);
    TF_Output loss = binary(g, "Mean", unary(g, "Square", y, "sq", s), axes, "loss", s);
    TF_Output dw = NOTHING;
    TF_AddGradients(g, &loss, 1, &var, 1, NULL, s, &dw);
    CHECK_OK(s);
    d = TF_NewOperation(g, "ApplyGradientDescent", "step");
    TF_AddInput(d, var);
    TF_AddInput(d, constant(g, float_of(1e-3f), "rate", s));
    TF_AddInput(d, dw);
    const TF_Operation *step = TF_FinishOperation(d, s);
    CHECK_OK(s);

    TF_Session *session = session_on(g, s);
    TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, s);
    CHECK_OK(s);
    TF_Tensor *values[EXTRA + 1];
    values[0] = tensor_of(TF_FLOAT, (const int64_t[]){ROWS, 8}, 2, x);
    for (int i = 1; i <= EXTRA; i++)
        values[i] = float_of(1);
    check_warm("dense", &(struct step){session, EXTRA + 1, 1, 1, feeds, {values}, loss, &step}, 1, s);
    for (int i = 0; i <= EXTRA; i++)
        TF_DeleteTensor(values[i]);
    end_session(session, s);
    TF_DeleteGraph(g);
}

/* ---- embeddings ---- */

enum { IDS = 24, BAGS = 8, SAMPLED = 10, VOCABULARY = 100, WIDTH = 16 };

/* The first output of an op whose attrs follow from its inputs; output k is {.oper, k}. */
static TF_Output node(TF_Graph *g, const char *op, const char *name, TF_Status *s, int n, const TF_Output *in)
{
    TF_OperationDescription *d = TF_NewOperation(g, op, name);
    for (int i = 0; i < n; i++)
        TF_AddInput(d, in[i]);
    TF_Output o = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    return o;
}
#define NODE(op, name, ...) \
    node(g, op, name, s, (int)(sizeof((TF_Output[]){__VA_ARGS__}) / sizeof(TF_Output)), (TF_Output[]){__VA_ARGS__})

static TF_Output nth(TF_Output o, int k) { return (TF_Output){o.oper, k}; }

/* A table of embeddings; *init sets all of it to v. */
static TF_Output table(TF_Graph *g, const char *name, float v, const TF_Operation **init, TF_Status *s)
{
    char at[40];
    TF_OperationDescription *d = TF_NewOperation(g, "VariableV2", name);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", (const int64_t[]){VOCABULARY, WIDTH}, 2);
    TF_Output var = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    static float values[VOCABULARY * WIDTH];
    for (int i = 0; i < VOCABULARY * WIDTH; i++)
        values[i] = v + (float)(i % 7) / 100;
    snprintf(at, sizeof at, "%s/start", name);
    TF_Output start =
        constant(g, tensor_of(TF_FLOAT, (const int64_t[]){VOCABULARY, WIDTH}, 2, values), at, s);
    snprintf(at, sizeof at, "%s/init", name);
    *init = binary(g, "Assign", var, start, at, s).oper;
    return var;
}

static TF_Output sample(TF_Graph *g, TF_Output classes, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, "LogUniformCandidateSampler", "sample");
    TF_AddInput(d, classes);
    TF_SetAttrInt(d, "num_true", 1);
    TF_SetAttrInt(d, "num_sampled", SAMPLED);
    TF_SetAttrBool(d, "unique", 1);
    TF_SetAttrInt(d, "range_max", VOCABULARY);
    TF_Output sampled = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    return sampled;
}

/* What else such a step is made of, to be run along with it: the operations that end it. */
static int bystanders(TF_Graph *g, TF_Output ids, TF_Output bags, TF_Output logits, TF_Output classes,
                      TF_Output sampled, const TF_Operation **out, TF_Status *s)
{
    int n = 0;
    TF_Output three = constant(g, int_of(3), "three", s), zero = constant(g, int_of(0), "0", s);
    TF_Output parts = constant(g, tensor_of(TF_INT32, (const int64_t[]){BAGS}, 1,
                                            (const int32_t[]){0, 1, 1, 0, 1, 0, 0, 1}), "parts", s);
    TF_Output all = constant(g, tensor_of(TF_INT32, (const int64_t[]){BAGS}, 1,
                                          (const int32_t[]){0, 1, 2, 3, 4, 5, 6, 7}), "all", s);
    TF_OperationDescription *d = TF_NewOperation(g, "ComputeAccidentalHits", "hits");
    TF_AddInput(d, classes);
    TF_AddInput(d, sampled);
    TF_SetAttrInt(d, "num_true", 1);
    out[n++] = TF_FinishOperation(d, s);
    CHECK_OK(s);
    TF_Output dealt[2][2];
    for (int i = 0; i < 2; i++) {
        d = TF_NewOperation(g, "DynamicPartition", i ? "deal_rows" : "deal");
        TF_AddInput(d, i ? bags : all);
        TF_AddInput(d, parts);
        TF_SetAttrInt(d, "num_partitions", 2);
        dealt[i][0] = (TF_Output){TF_FinishOperation(d, s), 0};
        dealt[i][1] = nth(dealt[i][0], 1);
        CHECK_OK(s);
    }
    d = TF_NewOperation(g, "DynamicStitch", "stitch");
    TF_AddInputList(d, dealt[0], 2);
    TF_AddInputList(d, dealt[1], 2);
    out[n++] = TF_FinishOperation(d, s);
    CHECK_OK(s);
    d = TF_NewOperation(g, "SplitV", "split");
    TF_AddInput(d, bags);
    TF_AddInput(d, constant(g, tensor_of(TF_INT32, (const int64_t[]){2}, 1, (const int32_t[]){-1, 3}), "sizes", s));
    TF_AddInput(d, zero);
    TF_SetAttrInt(d, "num_split", 2);
    out[n++] = TF_FinishOperation(d, s);
    CHECK_OK(s);
    out[n++] = NODE("TopKV2", "top", logits, three).oper;
    out[n++] = NODE("Multinomial", "draw", logits, three).oper;
    out[n++] = NODE("RandomShuffle", "shuffle", ids).oper;
    return n;
}

/* Bags of ids looked up in one table, sampled classes in another; each is trained where it was read. */
static void train_embeddings(TF_Status *s)
{
    TF_Graph *g = TF_NewGraph();
    const TF_Operation *init[3], *targets[16];
    int32_t bag_of[IDS];
    for (int i = 0; i < IDS; i++)
        bag_of[i] = i * BAGS / IDS;
    TF_Output ids = placeholder(g, TF_INT64, "ids", s), classes = placeholder(g, TF_INT64, "classes", s);
    TF_Output zero = constant(g, int_of(0), "zero", s), rate = constant(g, float_of(1e-3f), "rate", s);
    TF_Output in = table(g, "in", 0.1f, &init[0], s), sums = table(g, "sums", 1, &init[1], s);
    TF_Output weights = table(g, "weights", 0.2f, &init[2], s);

    TF_Output used = NODE("Unique", "used", ids);
    TF_Output rows = NODE("GatherV2", "rows", in, used, zero);
    TF_Output bag = constant(g, tensor_of(TF_INT32, (const int64_t[]){IDS}, 1, bag_of), "bag_of", s);
    TF_Output bags = NODE("SparseSegmentMean", "bags", rows, nth(used, 1), bag);
    TF_Output sampled = sample(g, classes, s);
    TF_Output w = NODE("GatherV2", "w", weights, sampled, zero);
    TF_OperationDescription *d = TF_NewOperation(g, "MatMul", "logits");
    TF_AddInput(d, bags);
    TF_AddInput(d, w);
    TF_SetAttrBool(d, "transpose_b", 1);
    TF_Output logits = {TF_FinishOperation(d, s), 0}, grads[2];
    CHECK_OK(s);
    TF_Output axes =
        constant(g, tensor_of(TF_INT32, (const int64_t[]){2}, 1, (const int32_t[]){0, 1}), "axes", s);
    TF_Output loss = binary(g, "Mean", unary(g, "Square", logits, "sq", s), axes, "loss", s);
    TF_AddGradients(g, &loss, 1, (TF_Output[]){rows, w}, 2, NULL, s, grads);
    CHECK_OK(s);
    int n = bystanders(g, ids, bags, logits, classes, sampled, targets, s);
    targets[n++] = NODE("SparseApplyAdagrad", "step", in, sums, rate, grads[0], used).oper;
    targets[n++] = NODE("ScatterSub", "step_w", weights, sampled, grads[1]).oper;

    TF_Session *session = session_on(g, s);
    TF_SessionRun(session, NULL, NULL, NULL, 0, NULL, NULL, 0, init, 3, NULL, s);
    CHECK_OK(s);
    step p = {session, 2, 3, n, (TF_Output[]){ids, classes}, {0}, loss, targets};
    TF_Tensor *values[3][2];
    for (int k = 0; k < p.n_sets; k++) { /* of different numbers of different ids */
        int64_t v[IDS];
        for (int i = 0; i < IDS; i++)
            v[i] = i * (k + 3) * (k + 3) % (VOCABULARY - 30 * k);
        values[k][0] = tensor_of(TF_INT64, (const int64_t[]){IDS}, 1, v);
        values[k][1] = tensor_of(TF_INT64, (const int64_t[]){BAGS, 1}, 2, v);
        p.sets[k] = values[k];
    }
    check_warm("embeddings", &p, 5, s);
    for (int k = 0; k < 2 * p.n_sets; k++)
        TF_DeleteTensor(values[k / 2][k % 2]);
    end_session(session, s);
    TF_DeleteGraph(g);
}

/* ---- kernels that need much room ---- */

/* A node of two square matrices by their "ab,bc->ac". */
static TF_Output einsum(TF_Graph *g, TF_Output x, TF_Status *s)
{
    TF_OperationDescription *d = TF_NewOperation(g, "Einsum", "einsum");
    TF_AddInputList(d, (TF_Output[]){x, x}, 2);
    TF_SetAttrString(d, "equation", "ab,bc->ac", 9);
    TF_Output y = {TF_FinishOperation(d, s), 0};
    CHECK_OK(s);
    return y;
}

/* The loss of sequences: 8 of 8 steps and 8 classes, each with one label. */
static TF_Output ctc(TF_Graph *g, TF_Output x, TF_Status *s)
{
    int64_t at[BAGS][2] = {{0}};
    int32_t labels[BAGS], lengths[BAGS];
    for (int i = 0; i < BAGS; i++) {
        at[i][0] = i;
        labels[i] = i % 7;
        lengths[i] = BAGS;
    }
    TF_Output indices = constant(g, tensor_of(TF_INT64, (const int64_t[]){BAGS, 2}, 2, at), "ctc/at", s);
    TF_Output values = constant(g, tensor_of(TF_INT32, (const int64_t[]){BAGS}, 1, labels), "ctc/labels", s);
    TF_Output times = constant(g, tensor_of(TF_INT32, (const int64_t[]){BAGS}, 1, lengths), "ctc/lengths", s);
    TF_Output dims = constant(g, tensor_of(TF_INT32, (const int64_t[]){3}, 1, (const int32_t[]){8, 1, 8}), "ctc/dims", s);
    TF_Output often = constant(g, tensor_of(TF_INT32, (const int64_t[]){3}, 1, (const int32_t[]){1, BAGS, 1}), "ctc/often", s);
    TF_Output cube = NODE("Tile", "ctc/x", NODE("Reshape", "ctc/row", x, dims), often);
    return NODE("CTCLoss", "ctc", cube, indices, values, times);
}

static void run_roomy(TF_Status *s)
{
    TF_Graph *g = TF_NewGraph();
    const TF_Operation *targets[16];
    int n = 0;
    float v[64];
    for (int i = 0; i < 64; i++)
        v[i] = (float)(i * i % 23) / 10 + (i % 9 == 0 ? 5 : 0);
    TF_Output x = placeholder(g, TF_FLOAT, "x", s);
    TF_OperationDescription *d = TF_NewOperation(g, "Eig", "eig");
    TF_AddInput(d, x);
    TF_SetAttrType(d, "Tout", TF_COMPLEX64);
    targets[n++] = TF_FinishOperation(d, s);
    CHECK_OK(s);
    static const char *const of_matrix[] = {"MatrixInverse", "Lu", "Qr", "Svd", "SelfAdjointEigV2", "MatrixSquareRoot"};
    for (size_t i = 0; i < sizeof of_matrix / sizeof *of_matrix; i++)
        targets[n++] = NODE(of_matrix[i], of_matrix[i], x).oper;
    targets[n++] = einsum(g, x, s).oper;
    targets[n++] = ctc(g, x, s).oper;
    TF_Output dims = constant(g, tensor_of(TF_INT32, (const int64_t[]){4}, 1, (const int32_t[]){1, 8, 8, 1}), "dims", s);
    TF_Output size = constant(g, tensor_of(TF_INT32, (const int64_t[]){2}, 1, (const int32_t[]){5, 11}), "size", s);
    targets[n++] = NODE("ResizeBilinear", "resize", NODE("Reshape", "image", x, dims), size).oper;
    targets[n++] = NODE("FakeQuantWithMinMaxVars", "fake", x, constant(g, float_of(-1), "min", s),
                        constant(g, float_of(1), "max", s)).oper;
    TF_Output loss = NODE("MatrixDeterminant", "loss", x);

    TF_Session *session = session_on(g, s);
    TF_Tensor *value = tensor_of(TF_FLOAT, (const int64_t[]){8, 8}, 2, v);
    check_warm("roomy kernels", &(step){session, 1, 1, n, &x, {&value}, loss, targets}, 5, s);
    TF_DeleteTensor(value);
    end_session(session, s);
    TF_DeleteGraph(g);
}

int main(void)
{
    TF_Status *s = TF_NewStatus();
    train(s);
    train_embeddings(s);
    run_roomy(s);
    if (!COUNTING)
        puts("skipped: a sanitizer has malloc of its own");
    TF_DeleteStatus(s);
    return 0;
}
