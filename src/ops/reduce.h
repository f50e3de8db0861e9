/* ops/reduce.h -- folding a tensor along some of its axes: Sum, Max, All and similar ops.
 *
 * A reduction is defined by how one element is added to an accumulator; reduce.c does the rest: axes, empty sets,
 * vector speed whichever axes are folded, threads, and accurate sums.
 *
 *     MR_REDUCER(sum, MR_TYPE_INT32, 0, (uint64_t)a + (uint64_t)x)
 *
 * defines sum_int32, where a is the accumulator and x the element. Accumulators have two stages: a `block` takes a
 * few dozen elements, then is merged into a `total` and reset. With blocks of float and totals of double a long sum
 * costs little more than in float and stays accurate. 16-bit floats are converted to float first. */
#ifndef MR_OPS_REDUCE_H
#define MR_OPS_REDUCE_H

#include "base/simd.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "graph/op.h"
#include "ops/maths.h"
#include "run/run.h"

/* Adds x[j] to acc[j], for n of them. */
typedef void mr_reduce_add(void *acc, const void *x, int64_t n);

typedef struct mr_reducer {
    uint8_t x_bytes, block_bytes, total_bytes; /* sizes of an element and of the accumulators */
    const void *empty_block, *empty_total;     /* the result of folding no elements */
    mr_reduce_add *add;   /* elements into blocks */
    mr_reduce_add *merge; /* blocks into totals */
    mr_reduce_add *join;  /* totals into totals */
    /* Computes the totals of `rows` rows of n packed elements each. */
    void (*fold)(void *totals, const void *x, int64_t rows, int64_t n);
    bool folds_long; /* fold is fast for long rows too */
    /* Computes results, of the elements' type, from n totals of `count` elements each; NULL: the totals are the
     * results. */
    void (*finish)(void *out, const void *total, int64_t n, int64_t count);
} mr_reducer;

/* Runs an op with inputs (x, axes) and attr keep_dims whose mr_kernel.user is an mr_reducer. */
mr_status *mr_reduce_run(mr_run *r);

/* The same without an op: folds x over the dimensions with fold[d] into out, which has the elements of the
 * remaining dimensions, in order. For half and bfloat16 the reducer is that of float. */
mr_status *mr_reduce(mr_run *r, const mr_reducer *f, mr_dtype type, const void *x, int rank,
                     const int64_t *dims, const bool *fold, void *out);
/* Converts axes, given by an int32 or int64 tensor (scalar or vector), to one flag per dimension. INVALID_ARGUMENT
 * "Invalid reduction dimension (..", "Axes contains duplicate dimension: ..". */
mr_status *mr_reduce_axes(const mr_tensor *axes, int rank, bool *fold);
/* The reducer of Sum for a type (ops/math/sum.c); NULL when there is none. */
const mr_reducer *mr_sum_reducer(mr_dtype type);

/* For gradients of reductions. mr_reduce_kept reshapes v, which has the shape of output 0, so that folded axes have
 * size 1 and it broadcasts against input 0; mr_reduce_spread also broadcasts it to the shape of input 0. */
mr_out mr_reduce_kept(mr_grad *g, mr_out v);
mr_out mr_reduce_spread(mr_grad *g, mr_out v);

/* Rows for MR_KERNELS. half and bfloat16 use the reducer of float. */
#define MR_CPU_REDUCE_BY(E, reducer) \
    {.device = "CPU", .type = MR_##E, .run = mr_reduce_run, .user = (void *)(uintptr_t)&reducer},
#define MR_CPU_REDUCE_ROW(E, name, number, S, C, fn) MR_CPU_REDUCE_BY(E, fn##_##name)
#define MR_CPU_REDUCE(fn, TYPES) TYPES(MR_CPU_REDUCE_ROW, fn)
#define MR_CPU_REDUCE_FLOATS(fn)                                                \
    MR_CPU_REDUCE_BY(HALF, fn##_float) MR_CPU_REDUCE_BY(BFLOAT16, fn##_float)   \
    MR_CPU_REDUCE_BY(FLOAT, fn##_float) MR_CPU_REDUCE_BY(DOUBLE, fn##_double)

/* ---- how reducers are made ---- */

/* A loop with accumulators of type A, elements of type X and an expression of a and x. */
#define MR_REDUCE_ADD(clones, loop_name, A, X, expr)                        \
    clones static void loop_name(void *acc, const void *elements, int64_t n) \
    {                                                                       \
        A *p = acc;                                                         \
        const X *q = elements;                                              \
        MR_REDUCE_INDEPENDENT                                               \
        for (int64_t i = 0; i < n; i++) {                                   \
            const A a = p[i];                                               \
            const X x = q[i];                                               \
            p[i] = (A)(expr);                                               \
        }                                                                   \
    }
#define MR_REDUCE_FOLD(loop_name, A, X, empty, expr) MR_REDUCE_FOLD_BY(, loop_name, A, X, empty, expr)
#define MR_REDUCE_FOLD_BY(clones, loop_name, A, X, empty, expr)             \
    clones static void loop_name(void *totals, const void *elements, int64_t rows, int64_t n) \
    {                                                                       \
        const X *q = elements;                                              \
        for (int64_t r = 0; r < rows; r++, q += n) {                        \
            A a = empty;                                                    \
            for (int64_t i = 0; i < n; i++) {                               \
                const X x = q[i];                                           \
                a = (A)(expr);                                              \
            }                                                               \
            ((A *)totals)[r] = a;                                           \
        }                                                                   \
    }
/* The same with vectors of 32 bytes: four of them alternate, so that no addition waits for the previous one. V is
 * the vector type, vexpr the expression on vectors; every 1024 elements the vectors are joined into the total. */
#define MR_REDUCE_FOLD_VECTOR(loop_name, A, X, V, empty, expr, vexpr)       \
    MR_INLINE void loop_name##_v(V *acc, const void *from)                  \
    {                                                                       \
        typedef V unaligned __attribute__((aligned(sizeof(X))));            \
        const V a = *acc, x = *(const unaligned *)from;                     \
        *acc = vexpr;                                                       \
    }                                                                       \
    MR_INLINE A loop_name##_rest(A a, const X *q, int64_t n)                \
    {                                                                       \
        MR_REDUCE_ROLLED                                                    \
        for (int64_t i = 0; i < n; i++) {                                   \
            const X x = q[i];                                               \
            a = (A)(expr);                                                  \
        }                                                                   \
        return a;                                                           \
    }                                                                       \
    MR_CLONES static void loop_name(void *totals, const void *elements, int64_t rows, int64_t n) \
    {                                                                       \
        enum { L = sizeof(V) / sizeof(X) };                                 \
        const X *q = elements;                                              \
        for (int64_t r = 0; r < rows; r++) {                                \
            A a = empty;                                                    \
            for (int64_t left = n; left > 0;) {                             \
                int64_t m = left < 1024 ? left : 1024, i = 0;               \
                V none = (V){0} + (X)(empty), v[4] = {none, none, none, none}; \
                for (; i + 4 * L <= m; i += 4 * L) {                        \
                    loop_name##_v(&v[0], q + i);                            \
                    loop_name##_v(&v[1], q + i + L);                        \
                    loop_name##_v(&v[2], q + i + 2 * L);                    \
                    loop_name##_v(&v[3], q + i + 3 * L);                    \
                }                                                           \
                for (; i + L <= m; i += L)                                  \
                    loop_name##_v(&v[0], q + i);                            \
                loop_name##_v(&v[0], &v[1]);                                \
                loop_name##_v(&v[2], &v[3]);                                \
                loop_name##_v(&v[0], &v[2]);                                \
                a = loop_name##_rest(a, (const X *)&v[0], i > 0 ? L : 0);   \
                a = loop_name##_rest(a, q + i, m - i);                      \
                q += m;                                                     \
                left -= m;                                                  \
            }                                                               \
            ((A *)totals)[r] = a;                                           \
        }                                                                   \
    }
typedef float mr_lanes8f __attribute__((vector_size(32), aligned(4), may_alias)); /* need not be aligned */
typedef double mr_lanes4d __attribute__((vector_size(32), aligned(8), may_alias));
/* Accumulators and elements never share memory; a few elements need no unrolled code. */
#if defined(__clang__)
#define MR_REDUCE_ROLLED _Pragma("clang loop unroll(disable)")
#define MR_REDUCE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MR_REDUCE_ROLLED _Pragma("GCC unroll 1")
#define MR_REDUCE_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* One stage: blocks and totals have the element's type. */
#define MR_REDUCER(fn, TYPES, empty, ...) TYPES(MR_REDUCER_ROW, fn, empty, __VA_ARGS__)
#define MR_REDUCER_ROW(E, name, number, S, C, fn, empty, ...)                      \
    MR_REDUCE_ADD(, fn##_##name##_add, S, S, __VA_ARGS__)                          \
    MR_REDUCE_FOLD(fn##_##name##_fold, S, S, empty, __VA_ARGS__)                   \
    MR_REDUCER_ONE(fn, name, S, empty, false)
/* The same for integers in whose type the order of folding makes no difference and compilers have vectors: compiled for
 * several generations of CPUs. */
#define MR_REDUCER_CLONED(fn, TYPES, empty, ...) TYPES(MR_REDUCER_CLONED_ROW, fn, empty, __VA_ARGS__)
#define MR_REDUCER_CLONED_ROW(E, name, number, S, C, fn, empty, ...)               \
    MR_REDUCE_ADD(MR_CLONES, fn##_##name##_add, S, S, __VA_ARGS__)                 \
    MR_REDUCE_FOLD_BY(MR_CLONES, fn##_##name##_fold, S, S, empty, __VA_ARGS__)     \
    MR_REDUCER_ONE(fn, name, S, empty, true)
#define MR_REDUCER_ONE(fn, name, S, empty, folds_long)                                        \
    static const S fn##_##name##_empty = empty;                                               \
    static const mr_reducer fn##_##name =                                                     \
        MR_REDUCER_INIT(S, S, S, fn##_##name##_empty, fn##_##name##_empty, fn##_##name##_add, \
                        fn##_##name##_add, fn##_##name##_add, fn##_##name##_fold, folds_long, NULL);
#define MR_REDUCER_INIT(X, Block, Total, empty_block, empty_total, add, merge, join, fold, \
                        folds_long, finish)                                                \
    {sizeof(X), sizeof(Block), sizeof(Total), &empty_block, &empty_total, add, merge,      \
     join,      fold,          folds_long,    finish}

/* float in two stages and double in one: defines the loops fn_float_add .. for MR_REDUCER_FLOATS. */
#define MR_REDUCE_LOOPS_FLOATS(fn, empty, ...)                                                     \
    MR_REDUCE_ADD(MR_CLONES, fn##_float_add, float, float, __VA_ARGS__)                            \
    MR_REDUCE_ADD(MR_CLONES, fn##_float_merge, double, float, __VA_ARGS__)                         \
    MR_REDUCE_ADD(MR_CLONES, fn##_double_add, double, double, __VA_ARGS__)                         \
    MR_REDUCE_FOLD_VECTOR(fn##_float_fold, double, float, mr_lanes8f, empty, __VA_ARGS__, __VA_ARGS__) \
    MR_REDUCE_FOLD_VECTOR(fn##_double_fold, double, double, mr_lanes4d, empty, __VA_ARGS__,            \
                          __VA_ARGS__)                                                             \
    static const float fn##_float_empty = empty;                                                   \
    static const double fn##_double_empty = empty;
/* Defines fn_float and fn_double with the loops of `by`; finish_float and finish_double compute the results. */
#define MR_REDUCER_FLOATS(fn, by, finish_float, finish_double)                                     \
    static const mr_reducer fn##_float =                                                           \
        MR_REDUCER_INIT(float, float, double, by##_float_empty, by##_double_empty, by##_float_add, \
                        by##_float_merge, by##_double_add, by##_float_fold, true, finish_float);   \
    static const mr_reducer fn##_double =                                                          \
        MR_REDUCER_INIT(double, double, double, by##_double_empty, by##_double_empty,              \
                        by##_double_add, by##_double_add, by##_double_add, by##_double_fold, true, \
                        finish_double);

/* Converts float results that were accumulated as double. */
static inline void mr_reduce_narrow(void *out, const void *total, int64_t n, int64_t count)
{
    (void)count;
    for (int64_t i = 0; i < n; i++)
        ((float *)out)[i] = (float)((const double *)total)[i];
}

#endif
