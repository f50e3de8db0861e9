/* group/merge.c -- one loop for each type and merge; the rest cuts the work into blocks.
 *
 * A row of `kernels` has the loops of a type. 16-bit types go through a block of floats on the stack. All others
 * are merged directly into the output, unless the output is an input that is still to be read; then a block on the
 * stack holds the result. */
#include "group/merge.h"

#include "base/memory.h"
#include "base/simd.h"

enum { BLOCK = 2048, N_MERGES = 4 };

/* NaN wins, as in Maximum and Minimum. */
#define MAX_OF(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define MIN_OF(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
/* Integers wrap around: they are added as unsigned integers of at least 32 bits, where C defines that. */
#define WRAP(S, x) _Generic((S)0, int64_t: (uint64_t)(x), uint64_t: (uint64_t)(x), default: (uint32_t)(x))

#define LOOP(name, S, expression)                                                    \
    static void name(const void *pa, const void *pb, void *po, int64_t n)            \
    {                                                                                \
        const S *a = pa, *b = pb;                                                    \
        S *o = po;                                                                   \
        MR_IVDEP                                                                     \
        for (int64_t i = 0; i < n; i++)                                              \
            o[i] = (expression);                                                     \
    }
#define FLOAT_LOOPS(E, name, number, S, C, ...)        \
    MR_CLONES LOOP(name##_add, S, a[i] + b[i])         \
    MR_CLONES LOOP(name##_mul, S, a[i] * b[i])         \
    LOOP(name##_max, S, MAX_OF(a[i], b[i]))            \
    LOOP(name##_min, S, MIN_OF(a[i], b[i]))
#define COMPLEX_LOOPS(E, name, number, S, C, ...) \
    LOOP(name##_add, S, a[i] + b[i])              \
    LOOP(name##_mul, S, a[i] * b[i])
#define INT_LOOPS(E, name, number, S, C, ...)                       \
    LOOP(name##_add, S, (S)(WRAP(S, a[i]) + WRAP(S, b[i])))         \
    LOOP(name##_mul, S, (S)(WRAP(S, a[i]) * WRAP(S, b[i])))         \
    LOOP(name##_max, S, a[i] > b[i] ? a[i] : b[i])                  \
    LOOP(name##_min, S, a[i] < b[i] ? a[i] : b[i])
MR_FLOATS32(FLOAT_LOOPS, )
MR_COMPLEXES(COMPLEX_LOOPS, )
MR_INTS(INT_LOOPS, )

/* Division by a small positive number. */
#define DIVIDE(E, name, number, S, C, ...)                 \
    static void name##_divide(void *px, int64_t by, int64_t n) \
    {                                                      \
        S *x = px;                                         \
        for (int64_t i = 0; i < n; i++)                    \
            x[i] = (S)(x[i] / (S)by);                      \
    }
MR_FLOATS32(DIVIDE, )
MR_COMPLEXES(DIVIDE, )
/* In 64 bits, because the number of members may not fit into a small type. */
#define DIVIDE_INT(E, name, number, S, C, ...)             \
    static void name##_divide(void *px, int64_t by, int64_t n) \
    {                                                      \
        S *x = px;                                         \
        for (int64_t i = 0; i < n; i++)                    \
            x[i] = (S)((int64_t)x[i] / by);                \
    }
MR_SIGNED(DIVIDE_INT, )
#define DIVIDE_UNSIGNED(E, name, number, S, C, ...)        \
    static void name##_divide(void *px, int64_t by, int64_t n) \
    {                                                      \
        S *x = px;                                         \
        for (int64_t i = 0; i < n; i++)                    \
            x[i] = (S)((uint64_t)x[i] / (uint64_t)by);     \
    }
MR_UNSIGNED(DIVIDE_UNSIGNED, )

/* Between 16 bits and float. */
#define CONVERT(E, name, number, S, C, ...)                             \
    static void name##_widen(const void *from, float *to, int64_t n)    \
    {                                                                   \
        const S *x = from;                                              \
        for (int64_t i = 0; i < n; i++)                                 \
            to[i] = MR_LD(x + i);                                       \
    }                                                                   \
    static void name##_narrow(const float *from, void *to, int64_t n)   \
    {                                                                   \
        S *x = to;                                                      \
        for (int64_t i = 0; i < n; i++)                                 \
            MR_ST(x + i, from[i]);                                      \
    }
MR_FLOATS16(CONVERT, )

typedef void (*two_fn)(const void *a, const void *b, void *out, int64_t n);
typedef struct kernel {
    mr_dtype type;
    two_fn two[N_MERGES]; /* by mr_merge */
    void (*divide)(void *x, int64_t by, int64_t n);
    void (*widen)(const void *from, float *to, int64_t n); /* 16-bit types only, whose `two` works on floats */
    void (*narrow)(const float *from, void *to, int64_t n);
} kernel;

#define ROW(E, name, number, S, C, ...) \
    {MR_##E, {name##_add, name##_mul, name##_max, name##_min}, name##_divide, NULL, NULL},
#define ROW_COMPLEX(E, name, number, S, C, ...) {MR_##E, {name##_add, name##_mul}, name##_divide, NULL, NULL},
#define ROW_16(E, name, number, S, C, ...) \
    {MR_##E, {float_add, float_mul, float_max, float_min}, float_divide, name##_widen, name##_narrow},
static const kernel kernels[] = {MR_FLOATS32(ROW, ) MR_INTS(ROW, ) MR_COMPLEXES(ROW_COMPLEX, ) MR_FLOATS16(ROW_16, )};

_Static_assert(MR_MERGE_ADD == 0 && MR_MERGE_MUL == 1 && MR_MERGE_MAX == 2 && MR_MERGE_MIN == 3,
               "the order of a row");

/* The loops of a type; NULL: the type is not a number. */
static const kernel *find_kernel(mr_dtype type)
{
    for (int i = 0; i < MR_COUNT(kernels); i++)
        if (kernels[i].type == type)
            return &kernels[i];
    return NULL;
}

mr_status *mr_merge_check(mr_dtype type, mr_merge how)
{
    static const char *const names[N_MERGES] = {"sum", "product", "maximum", "minimum"};
    const kernel *k = find_kernel(type);
    if ((unsigned)how >= N_MERGES)
        return mr_invalid("unknown merge %d", (int)how);
    if (!k || !k->two[how])
        return mr_invalid("%s is not defined for type %s", names[how], mr_dtype_name(type));
    return NULL;
}

/* A block of 16-bit values: widened, merged, rounded once. */
static void merge_narrow(const kernel *k, mr_merge how, const void *const *in, int n_in, int divide,
                         size_t at, void *out, int64_t n)
{
    float sum[BLOCK], next[BLOCK];
    MR_ASSERT(n >= 1 && n <= BLOCK && n_in >= 2);
    k->widen((const char *)in[0] + at, sum, n);
    for (int j = 1; j < n_in; j++) {
        k->widen((const char *)in[j] + at, next, n);
        k->two[how](sum, next, sum, n);
    }
    if (divide > 1)
        k->divide(sum, divide, n);
    k->narrow(sum, (char *)out + at, n);
}

/* Merges a block of another type into `to`: the output, or a block on the stack if the output is still to be read. */
static void merge_wide(const kernel *k, mr_merge how, const void *const *in, int n_in, int divide,
                       size_t at, void *to, int64_t n)
{
    MR_ASSERT(n >= 1 && n <= BLOCK && n_in >= 2 && !k->widen);
    k->two[how]((const char *)in[0] + at, (const char *)in[1] + at, to, n);
    for (int j = 2; j < n_in; j++)
        k->two[how](to, (const char *)in[j] + at, to, n);
    if (divide > 1)
        k->divide(to, divide, n);
}

/* Whether the output is an input that is read after the first two have been merged into the output. */
static bool is_read_late(const void *const *in, int n_in, const void *out)
{
    for (int j = 2; j < n_in; j++)
        if (in[j] == out)
            return true;
    return false;
}

/* Cuts into blocks, so that intermediate results stay in the cache. */
void mr_merge_many(mr_dtype type, mr_merge how, const void *const *in, int n_in, int divide, void *out, int64_t n)
{
    const kernel *k = find_kernel(type);
    size_t bytes = mr_dtype_size(type);
    double aside[BLOCK * 2]; /* the largest type has 16 bytes */
    MR_ASSERT(k && k->two[how] && n_in >= 1 && bytes * BLOCK <= sizeof(aside));
    bool late = is_read_late(in, n_in, out);
    if (n_in == 1) {
        if (in[0] != out)
            memcpy(out, in[0], (size_t)n * bytes);
        return;
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = MR_MIN(n - i, BLOCK);
        size_t at = (size_t)i * bytes;
        void *to = late ? (void *)aside : (char *)out + at;
        if (k->widen)
            merge_narrow(k, how, in, n_in, divide, at, out, m);
        else
            merge_wide(k, how, in, n_in, divide, at, to, m);
        if (late && !k->widen)
            memcpy((char *)out + at, aside, (size_t)m * bytes);
    }
}

/* 16-bit types go through mr_merge_many, which rounds once; all others need no block on the stack, because a loop
 * reads each element before it writes it. */
void mr_merge_two(mr_dtype type, mr_merge how, const void *a, const void *b, void *out, int64_t n)
{
    const kernel *k = find_kernel(type);
    MR_ASSERT(k && k->two[how]);
    if (k->widen)
        mr_merge_many(type, how, (const void *[]){a, b}, 2, 1, out, n);
    else
        k->two[how](a, b, out, n);
}

/* 16-bit types are divided as floats, a block at a time; all others in place. */
void mr_merge_divide(mr_dtype type, void *x, int64_t by, int64_t n)
{
    const kernel *k = find_kernel(type);
    MR_ASSERT(k && by > 0);
    if (!k->widen) {
        k->divide(x, by, n);
        return;
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        float wide[BLOCK];
        int64_t m = MR_MIN(n - i, BLOCK);
        char *at = (char *)x + (size_t)i * mr_dtype_size(type);
        k->widen(at, wide, m);
        k->divide(wide, by, m);
        k->narrow(wide, at, m);
    }
}
