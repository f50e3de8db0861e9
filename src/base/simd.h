/* base/simd.h -- compiler hints for hot loops, and the floating point mode of the CPU.
 *
 * MR_CLONES before a function makes one copy of it for each generation of x86-64 CPUs; the loader
 * picks the right one once.  The body is plain C that the compiler vectorises: with
 * -ffp-contract=off every copy computes the same bits.  Only loops over float and double that are
 * hot deserve it, for each copy costs build time and space.  What such a function calls must be
 * MR_INLINE, or it stays at the baseline. */
#ifndef MR_BASE_SIMD_H
#define MR_BASE_SIMD_H

#include <stdint.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define MR_INLINE static inline __attribute__((always_inline))

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MR_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer) || __has_feature(undefined_behavior_sanitizer)
#define MR_SANITIZED 1
#endif
#endif

/* gcc resolves the copies through ifunc, which runs before a sanitizer is ready. clang 14 gives the
 * resolver a different name, so other files cannot call such a function: there only the baseline is
 * compiled. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && \
    defined(__gnu_linux__) && !defined(MR_SANITIZED)
#define MR_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MR_CLONES
#endif

/* Before a loop whose rounds do not depend on each other, even when its pointers are equal
 * (in-place use): without it the compiler checks for overlap and falls back to one element at a
 * time. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* it may decide that a loop is not worth it */
#define MR_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define MR_IVDEP _Pragma("GCC ivdep")
#else
#define MR_IVDEP
#endif

/* Denormal floats cost hundreds of cycles each and mean nothing in training. mr_denormals_flush
 * makes this thread read and write them as zero and returns the previous setting, for
 * mr_denormals_restore. */
typedef uint64_t mr_fp_mode;

#if defined(__x86_64__)
#define MR_FP_FLUSH ((mr_fp_mode)0x8040) /* FTZ and DAZ of MXCSR */
MR_INLINE mr_fp_mode mr_fp_mode_get(void) { return _mm_getcsr(); }
MR_INLINE void mr_fp_mode_set(mr_fp_mode m) { _mm_setcsr((unsigned)m); }
#elif defined(__aarch64__)
#define MR_FP_FLUSH ((mr_fp_mode)1 << 24) /* FZ of FPCR */
MR_INLINE mr_fp_mode mr_fp_mode_get(void)
{
    mr_fp_mode m;
    __asm__ volatile("mrs %0, fpcr" : "=r"(m));
    return m;
}
MR_INLINE void mr_fp_mode_set(mr_fp_mode m) { __asm__ volatile("msr fpcr, %0" : : "r"(m)); }
#else
#define MR_FP_FLUSH ((mr_fp_mode)0)
MR_INLINE mr_fp_mode mr_fp_mode_get(void) { return 0; }
MR_INLINE void mr_fp_mode_set(mr_fp_mode m) { (void)m; }
#endif

/* Setting the mode stalls the pipeline, reading it does not: so only when it changes. */
MR_INLINE mr_fp_mode mr_denormals_flush(void)
{
    mr_fp_mode before = mr_fp_mode_get();
    if ((before & MR_FP_FLUSH) != MR_FP_FLUSH)
        mr_fp_mode_set(before | MR_FP_FLUSH);
    return before;
}

MR_INLINE void mr_denormals_restore(mr_fp_mode before)
{
    if ((before & MR_FP_FLUSH) != MR_FP_FLUSH)
        mr_fp_mode_set((mr_fp_mode_get() & ~MR_FP_FLUSH) | (before & MR_FP_FLUSH));
}

#endif
