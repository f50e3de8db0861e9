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
    TF_Tensor *values[EXTRA + 1], *out = NULL;
    values[0] = tensor_of(TF_FLOAT, (const int64_t[]){ROWS, 8}, 2, x);
    for (int i = 1; i <= EXTRA; i++)
        values[i] = float_of(1);
    long before = 0;
    for (int i = 0; i < WARM + RUNS; i++) {
        if (i == WARM)
            before = __atomic_load_n(&n_calls, __ATOMIC_RELAXED);
        TF_SessionRun(session, NULL, feeds, values, EXTRA + 1, &loss, &out, 1, &step, 1, NULL, s);
        CHECK_OK(s);
        TF_DeleteTensor(out);
    }
    long calls = __atomic_load_n(&n_calls, __ATOMIC_RELAXED) - before;
    if (calls)
        fprintf(stderr, "%ld calls of malloc in %d runs\n", calls, RUNS);
    CHECK(calls == 0);
    CHECK(!COUNTING || before > 100); /* we did count */
    for (int i = 0; i <= EXTRA; i++)
        TF_DeleteTensor(values[i]);
    end_session(session, s);
    TF_DeleteGraph(g);
}

int main(void)
{
    TF_Status *s = TF_NewStatus();
    train(s);
    if (!COUNTING)
        puts("skipped: a sanitizer has malloc of its own");
    TF_DeleteStatus(s);
    return 0;
}
