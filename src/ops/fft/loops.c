/* ops/fft/loops.c -- the loops of passes.h, for float and double.
 *
 * They are plain vector arithmetic without fused multiply-add, so every CPU computes the same bits. */
#include "ops/fft/loops.h"

#include <string.h>

#include "base/memory.h"
#include "base/simd.h"
#include "ops/fft/plan.h"

enum { LARGEST = MR_FFT_LARGEST };

/* Numbers of a type before the next array, which is aligned to 64 bytes. */
static int64_t round_up(int64_t n) { return (n + 15) / 16 * 16; }

/* 8 vectors of 8 floats; transposing twice gives the same again. */
#define TURN_8(from, to)                                                                      \
    do {                                                                                      \
        FN(vec) s_[8], t_[8];                                                                 \
        _Pragma("GCC unroll 4") for (int i_ = 0; i_ < 8; i_ += 2)                             \
        {                                                                                     \
            s_[i_] = __builtin_shufflevector(from[i_], from[i_ + 1], 0, 8, 1, 9, 4, 12, 5, 13);       \
            s_[i_ + 1] = __builtin_shufflevector(from[i_], from[i_ + 1], 2, 10, 3, 11, 6, 14, 7, 15); \
        }                                                                                     \
        _Pragma("GCC unroll 8") for (int i_ = 0; i_ < 8; i_++)                                \
        {                                                                                     \
            const int at_ = (i_ & 4) | (i_ >> 1 & 1);                                         \
            t_[i_] = i_ & 1 ? __builtin_shufflevector(s_[at_], s_[at_ + 2], 2, 3, 10, 11, 6, 7, 14, 15) \
                            : __builtin_shufflevector(s_[at_], s_[at_ + 2], 0, 1, 8, 9, 4, 5, 12, 13);  \
        }                                                                                     \
        _Pragma("GCC unroll 4") for (int i_ = 0; i_ < 4; i_++)                                \
        {                                                                                     \
            to[i_] = __builtin_shufflevector(t_[i_], t_[i_ + 4], 0, 1, 2, 3, 8, 9, 10, 11);   \
            to[i_ + 4] = __builtin_shufflevector(t_[i_], t_[i_ + 4], 4, 5, 6, 7, 12, 13, 14, 15); \
        }                                                                                     \
    } while (0)

#define TURN_4(from, to)                                                               \
    do {                                                                               \
        const FN(vec) a_ = __builtin_shufflevector(from[0], from[1], 0, 4, 2, 6);      \
        const FN(vec) b_ = __builtin_shufflevector(from[0], from[1], 1, 5, 3, 7);      \
        const FN(vec) c_ = __builtin_shufflevector(from[2], from[3], 0, 4, 2, 6);      \
        const FN(vec) d_ = __builtin_shufflevector(from[2], from[3], 1, 5, 3, 7);      \
        to[0] = __builtin_shufflevector(a_, c_, 0, 1, 4, 5);                           \
        to[1] = __builtin_shufflevector(b_, d_, 0, 1, 4, 5);                           \
        to[2] = __builtin_shufflevector(a_, c_, 2, 3, 6, 7);                           \
        to[3] = __builtin_shufflevector(b_, d_, 2, 3, 6, 7);                           \
    } while (0)

#define R float
#define LANES 8
#define FN(name) float_##name
#define TURN TURN_8
#define EVENS 0, 2, 4, 6, 8, 10, 12, 14
#define ODDS 1, 3, 5, 7, 9, 11, 13, 15
#define LOW_PAIRS 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_PAIRS 4, 12, 5, 13, 6, 14, 7, 15
#include "ops/fft/passes.h"
#undef R
#undef LANES
#undef FN
#undef TURN
#undef EVENS
#undef ODDS
#undef LOW_PAIRS
#undef HIGH_PAIRS

#define R double
#define LANES 4
#define FN(name) double_##name
#define TURN TURN_4
#define EVENS 0, 2, 4, 6
#define ODDS 1, 3, 5, 7
#define LOW_PAIRS 0, 4, 1, 5
#define HIGH_PAIRS 2, 6, 3, 7
#include "ops/fft/passes.h"

const mr_fft_loops *mr_fft_loops_of(mr_dtype type) { return type == MR_FLOAT ? &float_loops : &double_loops; }
