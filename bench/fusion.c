/* bench/fusion.c -- what fusing chains of element-wise nodes saves: the same graph in two sessions, one of them without
 * fusion, taking turns.
 *
 * Prints `name value unit` lines: nanoseconds of CPU of a step without and with fusion, and their ratio (above 1: fusion
 * is faster); the median of several rounds. One thread computes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/memory.h"
#include "exec/session.h"
#include "graph/grad.h"
#include "graph/scope.h"
#include "ops/table.h"

enum { ROUNDS = 11, MAX_IN = 6, MAX_OUT = 6 };

static void must(mr_status *st)
{
    if (!st)
        return;
    fprintf(stderr, "%s\n", mr_status_message(st));
    exit(1);
}

typedef struct setting {
    mr_graph *g;
    mr_scope s;
    mr_out in[MAX_IN], out[MAX_OUT];
    mr_tensor *fed[MAX_IN], *got[MAX_OUT];
    int n_in, n_out;
} setting;

static mr_out node1(setting *t, const char *op, mr_out x) { return mr_emit(&t->s, op, x); }
static mr_out node2(setting *t, const char *op, mr_out x, mr_out y) { return mr_emit(&t->s, op, x, y); }
static mr_out number(setting *t, float v) { return mr_const_f32(&t->s, v); }

/* Another input, of values between -2 and 2. */
static mr_out input(setting *t, int rank, const int64_t *dims)
{
    mr_tensor *v;
    uint32_t random = 12345;
    must(mr_tensor_new(NULL, MR_FLOAT, rank, dims, &v));
    for (int64_t i = 0; i < v->n; i++) {
        random = random * 1664525u + 1013904223u;
        MR_DATA(float, v)[i] = (float)(random >> 8) / (1 << 22) - 2;
    }
    t->fed[t->n_in] = v;
    return t->in[t->n_in++] = mr_placeholder(&t->s, MR_FLOAT, "x", mr_pshape_of(&t->g->arena, rank, dims));
}

static mr_out matrix(setting *t, int64_t rows, int64_t cols) { return input(t, 2, (int64_t[]){rows, cols}); }

static void output(setting *t, mr_out o) { t->out[t->n_out++] = o; }

/* Adds the gradient of the sum of y by the first input. */
static void with_gradient(setting *t, mr_out y)
{
    mr_gradient dx;
    must(mr_scope_status(&t->s));
    must(mr_graph_gradients(t->g, &y, 1, t->in, 1, NULL, &dx));
    output(t, y);
    output(t, dx.dense);
}

/* ---- timing ---- */

static double cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double run_ns(setting *t, mr_session *s, int runs)
{
    mr_run_args a = {.feeds = t->in, .feed_values = t->fed, .n_feeds = t->n_in,
                     .fetches = t->out, .fetched = t->got, .n_fetches = t->n_out};
    double begin = cpu_ns();
    for (int i = 0; i < runs; i++) {
        must(mr_session_run(s, &a, NULL, NULL));
        for (int k = 0; k < t->n_out; k++)
            mr_tensor_unref(t->got[k]);
    }
    return (cpu_ns() - begin) / runs;
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

static void measure(const char *name, int64_t rows, int64_t cols, void (*build)(setting *t, int64_t rows, int64_t cols))
{
    setting t = {.g = mr_graph_new()};
    mr_session *s[2];
    double ns[2][ROUNDS], ratio[ROUNDS];
    mr_scope_init(&t.s, t.g, "");
    build(&t, rows, cols);
    must(mr_scope_status(&t.s));
    for (int fused = 0; fused < 2; fused++) {
        mr_session_config c = {.inter_threads = -1, .intra_threads = 1, .no_fuse = !fused};
        must(mr_direct_session_new(t.g, NULL, &c, &s[fused]));
        run_ns(&t, s[fused], 5);
    }
    int runs = (int)MR_MAX(1, 2e7 / run_ns(&t, s[0], 3));
    for (int r = 0; r < ROUNDS; r++) {
        for (int fused = 0; fused < 2; fused++)
            ns[fused][r] = run_ns(&t, s[fused], runs);
        ratio[r] = ns[0][r] / ns[1][r];
    }
    printf("%s_%lldx%lld_plain %.0f ns\n", name, (long long)rows, (long long)cols, median(ns[0]));
    printf("%s_%lldx%lld_fused %.0f ns\n", name, (long long)rows, (long long)cols, median(ns[1]));
    printf("%s_%lldx%lld_ratio %.2f x\n", name, (long long)rows, (long long)cols, median(ratio));
    fflush(stdout);
    for (int fused = 0; fused < 2; fused++)
        mr_session_free(s[fused]);
    for (int i = 0; i < t.n_in; i++)
        mr_tensor_unref(t.fed[i]);
    mr_scope_deinit(&t.s);
    mr_graph_unref(t.g);
}

/* ---- graphs ---- */

static void unary10(setting *t, int64_t rows, int64_t cols)
{
    static const char *const ops[] = {"Neg", "Abs", "Relu", "Square", "Neg", "Abs", "Relu", "Square", "Neg", "Abs"};
    mr_out x = matrix(t, rows, cols);
    for (int i = 0; i < 10; i++)
        x = node1(t, ops[i], x);
    output(t, x);
}

/* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
static mr_out gelu(setting *t, mr_out x)
{
    mr_out cube = node2(t, "Mul", node2(t, "Mul", x, x), x);
    mr_out inner = node2(t, "AddV2", x, node2(t, "Mul", number(t, 0.044715f), cube));
    mr_out tanh = node1(t, "Tanh", node2(t, "Mul", number(t, 0.7978845608f), inner));
    return node2(t, "Mul", node2(t, "Mul", number(t, 0.5f), x), node2(t, "AddV2", number(t, 1), tanh));
}

static void gelu_forward(setting *t, int64_t rows, int64_t cols) { output(t, gelu(t, matrix(t, rows, cols))); }
static void gelu_both(setting *t, int64_t rows, int64_t cols) { with_gradient(t, gelu(t, matrix(t, rows, cols))); }

/* x / keep where a random number is below keep, given the random numbers. */
static void dropout(setting *t, int64_t rows, int64_t cols)
{
    mr_out x = matrix(t, rows, cols), random = matrix(t, rows, cols);
    mr_out keep = mr_emit_with(&t->s, "Cast", MR_ATTRS({"DstT", mr_a_type(MR_FLOAT)}), node2(t, "GreaterEqual", random, number(t, 0.1f)));
    output(t, node2(t, "Mul", node2(t, "Mul", x, number(t, 1 / 0.9f)), keep));
}

/* Batch normalization with given statistics, and an activation. */
static void batch_norm(setting *t, int64_t rows, int64_t cols)
{
    mr_out x = matrix(t, rows, cols), p[4];
    for (int i = 0; i < 4; i++)
        p[i] = input(t, 1, &cols);
    mr_out scale = node2(t, "Mul", node1(t, "Rsqrt", node2(t, "AddV2", node1(t, "Square", p[0]), number(t, 1e-3f))), p[1]);
    mr_out shift = node2(t, "Sub", p[2], node2(t, "Mul", p[3], scale));
    output(t, node1(t, "Relu", node2(t, "AddV2", node2(t, "Mul", x, scale), shift)));
}

static void adam(setting *t, int64_t rows, int64_t cols)
{
    mr_out w = matrix(t, rows, cols), m = matrix(t, rows, cols), v = matrix(t, rows, cols), g = matrix(t, rows, cols);
    mr_out m2 = node2(t, "AddV2", node2(t, "Mul", m, number(t, 0.9f)), node2(t, "Mul", g, number(t, 0.1f)));
    mr_out v2 = node2(t, "AddV2", node2(t, "Mul", node1(t, "Square", v), number(t, 0.999f)), node2(t, "Mul", node1(t, "Square", g), number(t, 0.001f)));
    mr_out step = node2(t, "RealDiv", node2(t, "Mul", m2, number(t, 0.001f)), node2(t, "AddV2", node1(t, "Sqrt", v2), number(t, 1e-7f)));
    output(t, node2(t, "Sub", w, step));
    output(t, m2);
    output(t, v2);
}

static mr_out mean_of_rows(setting *t, mr_out x)
{
    return mr_emit_with(&t->s, "Mean", MR_ATTRS({"keep_dims", mr_a_bool(true)}), x, mr_const_i32(&t->s, 1));
}

static mr_out layer_norm(setting *t, mr_out x, mr_out gamma, mr_out beta)
{
    mr_out mean = mean_of_rows(t, x), var = mean_of_rows(t, node2(t, "SquaredDifference", x, mean));
    mr_out inv = node2(t, "Mul", node1(t, "Rsqrt", node2(t, "AddV2", var, number(t, 1e-5f))), gamma);
    return node2(t, "AddV2", node2(t, "Mul", x, inv), node2(t, "Sub", beta, node2(t, "Mul", mean, inv)));
}

static void layer_norm_forward(setting *t, int64_t rows, int64_t cols)
{
    mr_out x = matrix(t, rows, cols), gamma = input(t, 1, &cols), beta = input(t, 1, &cols);
    output(t, layer_norm(t, x, gamma, beta));
}

static void layer_norm_both(setting *t, int64_t rows, int64_t cols)
{
    mr_out x = matrix(t, rows, cols), gamma = input(t, 1, &cols), beta = input(t, 1, &cols);
    with_gradient(t, layer_norm(t, x, gamma, beta));
}

/* With an argument, only the graphs whose names begin with it. */
int main(int argc, char **argv)
{
    static const int64_t sizes[][2] = {{1, 16}, {10, 100}, {128, 256}, {1024, 1024}};
    static const struct {
        const char *name;
        void (*build)(setting *, int64_t, int64_t);
    } all[] = {{"unary10", unary10},       {"gelu", gelu_forward},         {"gelu_grad", gelu_both},
               {"dropout", dropout},       {"batch_norm", batch_norm},     {"adam", adam},
               {"layer_norm", layer_norm_forward}, {"layer_norm_grad", layer_norm_both}};
    mr_ops_register();
    for (size_t i = 0; i < MR_COUNT(all); i++)
        for (size_t k = 0; k < MR_COUNT(sizes) && (argc < 2 || strncmp(all[i].name, argv[1], strlen(argv[1])) == 0); k++)
            measure(all[i].name, sizes[k][0], sizes[k][1], all[i].build);
    return 0;
}
