/* distbelief/small_problem_fixture.c -- a small problem, and replicas of a model. */
#include "distbelief/small_problem_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/harness/test.h"

static small_data data;

static double draw(uint64_t *s) /* about normal */
{
    double sum = 0;
    for (int i = 0; i < 6; i++) {
        *s = *s * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(*s >> 11) * 0x1p-53 - 0.5;
    }
    return sum * 1.4;
}

static void make_data(void)
{
    uint64_t seed = 77;
    double teacher[SMALL_FEATURES][SMALL_CLASSES];
    for (int i = 0; i < SMALL_FEATURES; i++)
        for (int c = 0; c < SMALL_CLASSES; c++)
            teacher[i][c] = draw(&seed);
    for (int k = 0; k < SMALL_EXAMPLES; k++) {
        double best = -1e9;
        for (int i = 0; i < SMALL_FEATURES; i++)
            data.x[k][i] = (float)draw(&seed);
        for (int c = 0; c < SMALL_CLASSES; c++) {
            double v = draw(&seed);
            for (int i = 0; i < SMALL_FEATURES; i++)
                v += (double)data.x[k][i] * teacher[i][c];
            if (v > best) {
                best = v;
                data.y[k] = c;
            }
        }
    }
}

const small_data *small_problem(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_data);
    return &data;
}

void small_batch(int64_t first, int64_t n, TF_Tensor *in[2])
{
    const small_data *d = small_problem();
    in[0] = TF_AllocateTensor(TF_FLOAT, (int64_t[]){n, SMALL_FEATURES}, 2, (size_t)n * SMALL_FEATURES * sizeof(float));
    in[1] = TF_AllocateTensor(TF_INT32, &n, 1, (size_t)n * sizeof(int32_t));
    for (int64_t i = 0; i < n; i++) {
        int64_t at = (first + i) % SMALL_EXAMPLES;
        memcpy((float *)TF_TensorData(in[0]) + i * SMALL_FEATURES, d->x[at], sizeof d->x[at]);
        ((int32_t *)TF_TensorData(in[1]))[i] = d->y[at];
    }
}

static void check(small_model *r)
{
    if (TF_GetCode(r->status) != TF_OK)
        mr_test_fail(__FILE__, __LINE__, "%s", TF_Message(r->status));
}

small_model small_build(int hidden)
{
    small_model r = {.graph = TF_NewGraph(), .status = TF_NewStatus()};
    r.m = mr_model_new(r.graph);
    r.in[0] = mr_input(r.m, "x", TF_FLOAT, 2, (int64_t[]){-1, SMALL_FEATURES});
    r.in[1] = mr_input(r.m, "y", TF_INT32, 1, (int64_t[]){-1});
    TF_Output h = hidden ? mr_dense(r.m, "hidden", r.in[0], hidden, MR_TANH) : r.in[0];
    r.loss = mr_softmax_loss(r.m, mr_dense(r.m, "out", h, SMALL_CLASSES, MR_LINEAR), r.in[1]);
    return r;
}

void small_open(small_model *r, const char *target)
{
    TF_SessionOptions *o = TF_NewSessionOptions();
    const TF_Operation *init = mr_initializer(r->m);
    mr_model_status(r->m, r->status);
    check(r);
    static const char two_cpus[] = {0x0a, 7, 0x0a, 3, 'C', 'P', 'U', 0x10, 2}; /* ConfigProto.device_count */
    if (target)
        TF_SetTarget(o, target);
    else
        TF_SetConfig(o, two_cpus, sizeof two_cpus, r->status);
    check(r);
    r->session = TF_NewSession(r->graph, o, r->status);
    check(r);
    TF_DeleteSessionOptions(o);
    TF_SessionRun(r->session, NULL, NULL, NULL, 0, NULL, NULL, 0, &init, 1, NULL, r->status);
    check(r);
}

void small_close(small_model *r)
{
    TF_Status *s = TF_NewStatus();
    if (r->session)
        TF_DeleteSession(r->session, s);
    mr_model_free(r->m);
    TF_DeleteGraph(r->graph);
    TF_DeleteStatus(r->status);
    TF_DeleteStatus(s);
}

double small_loss(small_model *r)
{
    TF_Tensor *in[2], *out;
    small_batch(0, SMALL_EXAMPLES, in);
    TF_SessionRun(r->session, NULL, r->in, in, 2, &r->loss, &out, 1, NULL, 0, NULL, r->status);
    check(r);
    double loss = *(float *)TF_TensorData(out);
    TF_DeleteTensor(in[0]);
    TF_DeleteTensor(in[1]);
    TF_DeleteTensor(out);
    return loss;
}
