/* bench/ops.c -- single ops on large tensors, one thread: how fast beside a copy of as many bytes.
 *
 *     ops [NAME...]        all, or those whose names hold one of the words
 *
 * Prints for each op `NAME_ms VALUE ms` (CPU time of a run, median) and `NAME_of_copy RATIO x`: the bytes that it must read and
 * write in that time, in units of what memcpy moves, measured in the same run.  Over 1 is faster than memory, which only
 * what stays in the caches can be.  bench/op_peers puts PyTorch's times beside them. */
#include <millrace/millrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tensorflow/c/c_api.h>
#include <time.h>

enum { N = 1 << 22, ROUNDS = 11, ROWS = 4096, COLUMNS = N / ROWS };

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) == TF_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof *v, by_value);
    return v[ROUNDS / 2];
}

/* ---- what is measured ---- */

typedef struct subject {
    const char *name, *op;
    int rank;
    int64_t dims[4];
    int n_inputs;      /* of that shape */
    const char *extra; /* a constant last input: "axis 1", "perm 1 0", "index" (4096 rows of int32); or NULL */
    double passes;     /* over the bytes of one input: read and written */
} subject;

static const subject subjects[] = {
    {"add", "AddV2", 1, {N}, 2, NULL, 3},
    {"mul", "Mul", 1, {N}, 2, NULL, 3},
    {"relu", "Relu", 1, {N}, 1, NULL, 2},
    {"exp", "Exp", 1, {N}, 1, NULL, 2},
    {"tanh", "Tanh", 1, {N}, 1, NULL, 2},
    {"sigmoid", "Sigmoid", 1, {N}, 1, NULL, 2},
    {"sqrt", "Sqrt", 1, {N}, 1, NULL, 2},
    {"softmax", "Softmax", 2, {ROWS, COLUMNS}, 1, NULL, 2},
    {"sum_rows", "Sum", 2, {ROWS, COLUMNS}, 1, "axis 1", 1},
    {"sum_columns", "Sum", 2, {ROWS, COLUMNS}, 1, "axis 0", 1},
    {"max_rows", "Max", 2, {ROWS, COLUMNS}, 1, "axis 1", 1},
    {"transpose", "Transpose", 2, {ROWS, COLUMNS}, 1, "perm", 2},
    {"gather", "Gather", 2, {ROWS, COLUMNS}, 1, "index", 2},
    {"max_pool", "MaxPool", 4, {16, 64, 64, 64}, 1, NULL, 1.25},
    {"avg_pool", "AvgPool", 4, {16, 64, 64, 64}, 1, NULL, 1.25},
};

static TF_Output constant(TF_Graph *g, int rank, int64_t n, const int32_t *v)
{
    TF_Tensor *t = TF_AllocateTensor(TF_INT32, &n, rank, (size_t)(rank ? n : 1) * 4);
    memcpy(TF_TensorData(t), v, (size_t)(rank ? n : 1) * 4);
    TF_OperationDescription *d = TF_NewOperation(g, "Const", "extra");
    TF_SetAttrType(d, "dtype", TF_INT32);
    TF_SetAttrTensor(d, "value", t, status);
    TF_Output o = {TF_FinishOperation(d, status), 0};
    check("Const");
    TF_DeleteTensor(t);
    return o;
}

static TF_Output extra_input(TF_Graph *g, const char *what)
{
    static int32_t rows[ROWS];
    if (strcmp(what, "perm") == 0)
        return constant(g, 1, 2, (const int32_t[]){1, 0});
    if (strncmp(what, "axis", 4) == 0)
        return constant(g, 0, 1, (const int32_t[]){what[5] - '0'});
    for (int i = 0; i < ROWS; i++)
        rows[i] = (int32_t)((i * 1237LL) % ROWS);
    return constant(g, 1, ROWS, rows);
}

static TF_Output build(TF_Graph *g, const subject *s, TF_Output *in)
{
    TF_OperationDescription *d;
    for (int i = 0; i < s->n_inputs; i++) {
        d = TF_NewOperation(g, "Placeholder", i ? "y" : "x");
        TF_SetAttrType(d, "dtype", TF_FLOAT);
        in[i] = (TF_Output){TF_FinishOperation(d, status), 0};
        check("Placeholder");
    }
    TF_Output extra = s->extra ? extra_input(g, s->extra) : (TF_Output){NULL, 0};
    d = TF_NewOperation(g, s->op, "op");
    for (int i = 0; i < s->n_inputs; i++)
        TF_AddInput(d, in[i]);
    if (s->extra)
        TF_AddInput(d, extra);
    if (s->rank == 4) {
        const int64_t two[] = {1, 2, 2, 1};
        TF_SetAttrIntList(d, "ksize", two, 4);
        TF_SetAttrIntList(d, "strides", two, 4);
        TF_SetAttrString(d, "padding", "VALID", 5);
    }
    TF_Output out = {TF_FinishOperation(d, status), 0};
    check(s->op);
    return out;
}

static double run_ms(const subject *s)
{
    TF_Graph *g = TF_NewGraph();
    TF_Output in[2], out = build(g, s, in);
    TF_Tensor *feed[2];
    for (int i = 0; i < s->n_inputs; i++) {
        feed[i] = TF_AllocateTensor(TF_FLOAT, s->dims, s->rank, (size_t)N * 4);
        for (int k = 0; k < N; k++)
            ((float *)TF_TensorData(feed[i]))[k] = (float)(k % 1000) / 1000 + 0.001f;
    }
    unsigned char config[] = {0x10, 1, 0x28, 1}; /* one thread of each kind */
    TF_SessionOptions *o = TF_NewSessionOptions();
    TF_SetConfig(o, config, sizeof config, status);
    TF_Session *session = TF_NewSession(g, o, status);
    check("session");
    double ms[ROUNDS];
    for (int i = -3; i < ROUNDS; i++) {
        TF_Tensor *result = NULL;
        double start = cpu_ms();
        TF_SessionRun(session, NULL, in, feed, s->n_inputs, &out, &result, 1, NULL, 0, NULL, status);
        check(s->op);
        if (i >= 0)
            ms[i] = cpu_ms() - start;
        TF_DeleteTensor(result);
    }
    for (int i = 0; i < s->n_inputs; i++)
        TF_DeleteTensor(feed[i]);
    TF_DeleteSession(session, status);
    TF_DeleteSessionOptions(o);
    TF_DeleteGraph(g);
    return median(ms);
}

/* Milliseconds to read and to write N floats once. */
static double copy_ms(void)
{
    char *a = malloc((size_t)N * 4), *b = malloc((size_t)N * 4);
    double ms[ROUNDS];
    memset(a, 1, (size_t)N * 4);
    for (int i = -3; i < ROUNDS; i++) {
        double start = cpu_ms();
        memcpy(b, a, (size_t)N * 4);
        __asm__ volatile("" ::"r"(b) : "memory");
        if (i >= 0)
            ms[i] = cpu_ms() - start;
    }
    free(a);
    free(b);
    return median(ms);
}

static int wanted(const char *name, int argc, char **argv)
{
    int any = argc < 2;
    for (int i = 1; i < argc; i++)
        any |= strstr(name, argv[i]) != NULL;
    return any;
}

int main(int argc, char **argv)
{
    status = TF_NewStatus();
    for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++) {
        const subject *s = &subjects[i];
        if (!wanted(s->name, argc, argv))
            continue;
        double ms = run_ms(s), copy = copy_ms();
        printf("%s_ms %.3f ms\n%s_of_copy %.2f x\n", s->name, ms, s->name, copy / 2 * s->passes / ms);
        fflush(stdout);
    }
    TF_DeleteStatus(status);
    return 0;
}
