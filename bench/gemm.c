/* bench/gemm.c -- our product of float matrices compared with oneDNN's, on one thread.
 *
 * Prints for each shape GFLOP/s of both and the ratio, above 1 where ours is faster: the best fifths of many short
 * rounds in which both take turns, by the CPU time of the thread. */
#include <dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/memory.h"
#include "ops/dnnl.h"
#include "ops/linalg/sgemm.h"
#include "tensor/allocator.h"

enum { ROUNDS = 100 };
static mr_allocator *alloc;

typedef struct shape {
    int64_t m, n, k;
    bool ta, tb;
} shape;
static const shape shapes[] = {
    /* a perceptron: forward, by weights, by inputs */
    {128, 256, 784, 0, 0},
    {784, 256, 128, 1, 0},
    {128, 128, 256, 0, 0},
    {256, 128, 128, 1, 0},
    {128, 256, 128, 0, 1},
    {128, 10, 128, 0, 0},
    {128, 10, 128, 1, 0},
    {128, 128, 10, 0, 1},
    /* a long short-term memory */
    {128, 512, 128, 0, 0},
    {3584, 512, 28, 0, 0},
    {128, 512, 3584, 1, 0},
    {128, 128, 512, 0, 1},
    /* after convolutions */
    {128, 1024, 3136, 0, 0},
    {3136, 1024, 128, 1, 0},
    {128, 3136, 1024, 0, 1},
    /* squares and vectors */
    {1024, 1024, 1024, 0, 0},
    {1024, 1024, 1024, 1, 1},
    {1000, 1000, 1000, 0, 0},
    {64, 64, 64, 0, 0},
    {32, 32, 32, 0, 0},
    {16, 16, 16, 0, 0},
    {8, 1024, 1024, 0, 0},
    {1, 1024, 1024, 0, 0},
    {1, 1024, 1024, 0, 1},
    {1024, 1, 1024, 0, 0},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void ours(const mr_sgemm *g, int times)
{
    size_t bytes = mr_sgemm_room(g);
    for (int i = 0; i < times; i++) {
        void *room = alloc->alloc(alloc, bytes);
        mr_sgemm_run(g, room);
        alloc->free(alloc, room, bytes);
    }
}

static void theirs(const mr_sgemm *g, int times)
{
    int before = mr_dnnl_enter();
    for (int i = 0; i < times; i++)
        dnnl_sgemm(g->ta ? 'T' : 'N', g->tb ? 'T' : 'N', g->m, g->n, g->k, 1, g->a, g->lda, g->b,
                   g->ldb, 0, g->c, g->ldc);
    mr_dnnl_leave(before);
}

static float *matrix(int64_t n)
{
    float *p = alloc->alloc(alloc, (size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)(i * 7919 % 1009) / 1009.0f - 0.4f;
    return p;
}

static void measure(const shape *s)
{
    float *a = matrix(s->m * s->k), *b = matrix(s->k * s->n), *c = matrix(s->m * s->n);
    mr_sgemm g = {.ta = s->ta,
                  .tb = s->tb,
                  .m = s->m,
                  .n = s->n,
                  .k = s->k,
                  .a = a,
                  .b = b,
                  .c = c,
                  .lda = s->ta ? s->m : s->k,
                  .ldb = s->tb ? s->k : s->n,
                  .ldc = s->n};
    g.thin = mr_sgemm_thin(&g);
    double flop = 2.0 * (double)s->m * (double)s->n * (double)s->k, t[2][ROUNDS];
    int times = (int)(5e7 / flop) + 1;
    for (int r = -1; r < ROUNDS; r++)
        for (int side = 0; side < 2; side++) {
            double start = now();
            (side ? theirs : ours)(&g, times);
            if (r >= 0)
                t[side][r] = (now() - start) / times;
        }
    for (int side = 0; side < 2; side++)
        qsort(t[side], ROUNDS, sizeof(double), by_value);
    double x = t[0][ROUNDS / 5], y = t[1][ROUNDS / 5];
    printf("gemm_%lldx%lldx%lld%s%s %.1f GFLOP/s, oneDNN %.1f, ratio %.2f\n", (long long)s->m,
           (long long)s->n, (long long)s->k, s->ta ? "_ta" : "", s->tb ? "_tb" : "",
           flop / x * 1e-9, flop / y * 1e-9, y / x);
}

int main(void)
{
    alloc = mr_cpu_allocator();
    for (int i = 0; i < MR_COUNT(shapes); i++)
        measure(&shapes[i]);
    return 0;
}
