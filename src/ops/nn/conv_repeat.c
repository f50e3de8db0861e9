/* ops/nn/conv_repeat.c -- repeats the channels of an image, and sums the copies again. */
#include "ops/nn/conv_repeat.h"

#define ELEMENT_NS 0.5

typedef struct job {
    const void *from;
    void *to;
    int64_t times;
} job;

#define REPEAT(S)                                                       \
    static void repeat_##S(void *ctx, int64_t begin, int64_t end)       \
    {                                                                   \
        const job *j = ctx;                                             \
        const S *from = j->from;                                        \
        S *to = (S *)j->to + begin * j->times;                          \
        for (int64_t i = begin; i < end; i++)                           \
            for (int64_t k = 0; k < j->times; k++)                      \
                *to++ = from[i];                                        \
    }
REPEAT(uint32_t)
REPEAT(uint64_t)

#define FOLD(S, W)                                                      \
    static void fold_##S(void *ctx, int64_t begin, int64_t end)         \
    {                                                                   \
        const job *j = ctx;                                             \
        const S *from = (const S *)j->from + begin * j->times;          \
        S *to = j->to;                                                  \
        for (int64_t i = begin; i < end; i++) {                         \
            W sum = 0;                                                  \
            for (int64_t k = 0; k < j->times; k++)                      \
                sum += (W)*from++;                                      \
            to[i] = (S)sum;                                             \
        }                                                               \
    }
FOLD(float, float)
FOLD(double, double)
FOLD(int32_t, uint32_t)

void mr_channels_repeat(mr_run *r, const void *from, void *to, size_t bytes, int64_t n,
                        int64_t times)
{
    MR_ASSERT(bytes == 4 || bytes == 8);
    job j = {from, to, times};
    mr_run_for(r, n, ELEMENT_NS * (double)times, bytes == 4 ? repeat_uint32_t : repeat_uint64_t,
               &j);
}

void mr_channels_fold(mr_run *r, mr_dtype type, const void *from, void *to, int64_t n,
                      int64_t times)
{
    job j = {from, to, times};
    mr_run_for(r, n, ELEMENT_NS * (double)times,
               type == MR_FLOAT    ? fold_float
               : type == MR_DOUBLE ? fold_double
                                   : fold_int32_t,
               &j);
}
