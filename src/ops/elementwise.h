/* ops/elementwise.h -- ops that compute each element of their result from the same element of their
 * inputs, written as one expression.
 *
 *     MR_UNARY (tanh,      MR_FLOATS, mr_tanh(x))
 *     MR_BINARY(tanh_grad, MR_FLOATS, y * (1 - x * x))
 *     MR_OP(Tanh, ... .kernels = MR_KERNELS(MR_CPU_EACH(tanh, MR_FLOATS)), ...);
 *
 * Each type of the list yields one plain loop over n packed elements, tanh_float_loop, and a constant tanh_float
 * that says how to run it.  Everything else is done once, in elementwise.c, for all ops and types: broadcasting,
 * reuse of an input's memory, splitting over threads.  half and bfloat16 have no loops: their blocks are converted
 * and use the loop of float, whose row must be in the same list.  The loops of float and double are compiled for
 * several generations of CPUs.
 *
 * In an expression x, y, z are the elements of inputs 0, 1, 2, in the computing type.  Integers
 * wrap: write (uint64_t)x + (uint64_t)y, which the compiler narrows again.  Maths comes from
 * ops/maths.h.
 *
 *     MR_UNARY(fn, TYPES, expr)       T -> T
 *     MR_BINARY(fn, TYPES, expr)      T, T -> T
 *     MR_TERNARY(fn, TYPES, expr)     T, T, T -> T
 *     MR_TEST_UNARY(fn, TYPES, expr)  T -> bool
 *     MR_COMPARE(fn, TYPES, expr)     T, T -> bool
 *
 * The forms ending in _SLOW are for expressions of ten nanoseconds and more (a call into libm):
 * their loops are split over threads sooner and are not compiled more than once.
 *
 *     MR_UNARY_ARRAY(fn, f)           the loop of float is f(n, x, y), of base/vmath.h; for
 * MR_FLOAT_FAMILY
 *     MR_BINARY_ARRAYS(fn, f, d)      those of float and double are f(n, x, y, z) and d(n, x, y, z); for MR_FLOATS
 *     MR_BINARY_CLONED(fn, TYPES, expr)  compiled for several generations of CPUs for integers too
 */
#ifndef MR_OPS_ELEMENTWISE_H
#define MR_OPS_ELEMENTWISE_H

#include "base/simd.h"
#include "graph/grad.h"
#include "graph/infer.h"
#include "graph/op.h"
#include "ops/maths.h"
#include "run/accel.h"

/* p[0] is the result, p[1].. the inputs; each has n packed elements.  The result may be the same
 * memory as an input, never a shifted one. */
typedef void mr_each_loop(void *const *p, int64_t n);

typedef struct mr_each {
    mr_each_loop *loop;
    bool widen;    /* the loop is that of float: 16-bit elements are converted before and after */
    float cost_ns; /* of one element, roughly */
    /* Loops in which one of two inputs is a single number; those of float have them. NULL: the number must be
     * replicated for `loop`. */
    mr_each_loop *first_scalar, *second_scalar;
} mr_each;

/* Runs the kernel whose mr_kernel.user is an mr_each. */
mr_status *mr_each_run(mr_run *r);
/* The same for kernels that check their inputs first. */
mr_status *mr_each_apply(mr_run *r, const mr_each *e);

/* How Select and SelectV2 move elements of a plain type. */
const mr_each *mr_select_each(mr_dtype t);

/* Rows for MR_KERNELS. */
#define MR_CPU_EACH_ROW(E, name, number, S, C, fn) \
    {.device = "CPU", .type = MR_##E, .run = mr_each_run, .user = (void *)(uintptr_t)&fn##_##name, .form = MR_FORM_BROADCAST},
#define MR_CPU_EACH(fn, TYPES) TYPES(MR_CPU_EACH_ROW, fn)
/* For a kernel function that ends in mr_each_apply(r, r->kernel->user). */
#define MR_CPU_EACH_BY_ROW(E, name, number, S, C, fn, function) \
    {.device = "CPU", .type = MR_##E, .run = function, .user = (void *)(uintptr_t)&fn##_##name},
#define MR_CPU_EACH_BY(fn, TYPES, function) TYPES(MR_CPU_EACH_BY_ROW, fn, function)
/* The same, with its form: it may be fused. The function may only check what the form says (graph/op.h). */
#define MR_CPU_EACH_FORM_ROW(E, name, number, S, C, fn, function, kind) \
    {.device = "CPU", .type = MR_##E, .run = function, .user = (void *)(uintptr_t)&fn##_##name, .form = kind},
#define MR_CPU_EACH_FORM(fn, TYPES, function, kind) TYPES(MR_CPU_EACH_FORM_ROW, fn, function, kind)

/* A row for accelerators: the same expression of float, as a kernel of the device (tools/cl-kernels). */
mr_status *mr_each_run_accel(mr_run *r);
#define MR_GPU_EACH(fn) MR_GPU_EACH_BY(fn, mr_each_run_accel)
#define MR_GPU_EACH_BY(fn, function) \
    {.device = MR_ACCEL_KERNELS, .type = MR_FLOAT, .run = function, .user = (void *)(uintptr_t) "each_" #fn},

#define MR_UNARY(fn, TYPES, ...) MR_EACH(1, SAME, FAST, fn, TYPES, __VA_ARGS__)
#define MR_BINARY(fn, TYPES, ...)                                        \
    TYPES(MR_EACH_LOOP_ROW, 2, MR_EACH_SAME, FAST, fn, (__VA_ARGS__))     \
    TYPES(MR_EACH_SCALAR_ROW, fn, (__VA_ARGS__))                          \
    TYPES(MR_EACH_CONST_ROW, PAIR, fn)
#define MR_TERNARY(fn, TYPES, ...) MR_EACH(3, SAME, FAST, fn, TYPES, __VA_ARGS__)
#define MR_UNARY_SLOW(fn, TYPES, ...) MR_EACH(1, SAME, SLOW, fn, TYPES, __VA_ARGS__)
#define MR_BINARY_SLOW(fn, TYPES, ...) MR_EACH(2, SAME, SLOW, fn, TYPES, __VA_ARGS__)
#define MR_UNARY_ARRAY(fn, f)                                              \
    static void fn##_float_loop(void *const *p, int64_t n) { f(n, p[1], p[0]); } \
    MR_FLOAT_FAMILY(MR_EACH_CONST_ROW, ARRAY, fn)
#define MR_BINARY_ARRAYS(fn, f, d)                                                              \
    static void fn##_float_loop(void *const *p, int64_t n) { f(n, p[1], p[2], p[0]); }          \
    static void fn##_double_loop(void *const *p, int64_t n) { d(n, p[1], p[2], p[0]); }         \
    MR_FLOATS(MR_EACH_CONST_ROW, ARRAY, fn)
#define MR_BINARY_CLONED(fn, TYPES, ...) MR_EACH(2, SAME, CLONED, fn, TYPES, __VA_ARGS__)
#define MR_TEST_UNARY(fn, TYPES, ...) MR_EACH(1, BOOL, FAST, fn, TYPES, __VA_ARGS__)
#define MR_COMPARE(fn, TYPES, ...) MR_EACH(2, BOOL, FAST, fn, TYPES, __VA_ARGS__)

/* ---- how they are made ---- */

/* All loops come first, then the constants that refer to them, because half is before float in the lists. */
#define MR_EACH(arity, result, speed, fn, TYPES, ...)                              \
    TYPES(MR_EACH_LOOP_ROW, arity, MR_EACH_##result, speed, fn, (__VA_ARGS__))      \
    TYPES(MR_EACH_CONST_ROW, speed, fn)

#define MR_EACH_LOOP_ROW(E, name, number, S, C, arity, R, speed, fn, expr) \
    MR_EACH_IF_LOOP_##E(                                                   \
        MR_EACH_LOOP(MR_EACH_CLONES_##speed(E), arity, R(S), S, fn##_##name##_loop, expr))

#define MR_EACH_LOOP(clones, arity, R, S, loop_name, expr)                  \
    clones static void loop_name(void *const *p, int64_t n)                 \
    {                                                                       \
        R *o = p[0];                                                        \
        MR_EACH_PTRS_##arity(S)                                             \
        MR_INDEPENDENT                                                      \
        for (int64_t i = 0; i < n; i++) {                                   \
            MR_EACH_LOAD_##arity(S)                                         \
            o[i] = (R)expr;                                                 \
        }                                                                   \
    }

#define MR_EACH_SCALAR_ROW(E, name, number, S, C, fn, expr)                             \
    MR_EACH_IF_FLOAT_##E(MR_EACH_LOOP(MR_CLONES, X_AND_VALUE, S, S, fn##_second_scalar, expr) \
                             MR_EACH_LOOP(MR_CLONES, VALUE_AND_Y, S, S, fn##_first_scalar, expr))

#define MR_EACH_CONST_ROW(E, name, number, S, C, speed, fn) \
    static const mr_each fn##_##name = {MR_EACH_CONST_##E(fn, name, MR_EACH_COST_##speed(S)), MR_EACH_SCALARS_##speed(E, fn)};
#define MR_EACH_OWN(fn, name, cost) fn##_##name##_loop, false, cost
#define MR_EACH_WIDE(fn, name, cost) fn##_float_loop, true, cost
#define MR_EACH_SCALARS_FAST(E, fn)
#define MR_EACH_SCALARS_SLOW(E, fn)
#define MR_EACH_SCALARS_ARRAY(E, fn)
#define MR_EACH_SCALARS_CLONED(E, fn)
#define MR_EACH_SCALARS_PAIR(E, fn) MR_EACH_IF_FLOAT_##E(fn##_first_scalar, fn##_second_scalar)

#define MR_EACH_SAME(S) S
#define MR_EACH_BOOL(S) bool
#define MR_EACH_COST_FAST(S) (0.1f * sizeof(S))
#define MR_EACH_COST_PAIR(S) MR_EACH_COST_FAST(S)
#define MR_EACH_COST_SLOW(S) 15.0f
#define MR_EACH_COST_ARRAY(S) 1.5f
#define MR_EACH_COST_CLONED(S) 1.0f
#define MR_EACH_CLONES_FAST(E) MR_EACH_CLONES_##E
#define MR_EACH_CLONES_SLOW(E)
#define MR_EACH_CLONES_CLONED(E) MR_CLONES

#define MR_EACH_PTRS_1(S) const S *a = p[1];
#define MR_EACH_PTRS_2(S) MR_EACH_PTRS_1(S) const S *b = p[2];
#define MR_EACH_PTRS_3(S) MR_EACH_PTRS_2(S) const S *c = p[3];
#define MR_EACH_PTRS_X_AND_VALUE(S) MR_EACH_PTRS_1(S) const S y = *(const S *)p[2];
#define MR_EACH_PTRS_VALUE_AND_Y(S) const S x = *(const S *)p[1], *b = p[2];
#define MR_EACH_LOAD_X_AND_VALUE(S) const S x = a[i];
#define MR_EACH_LOAD_VALUE_AND_Y(S) const S y = b[i];
#define MR_EACH_LOAD_1(S) const S x = a[i];
#define MR_EACH_LOAD_2(S) MR_EACH_LOAD_1(S) const S y = b[i];
#define MR_EACH_LOAD_3(S) MR_EACH_LOAD_2(S) const S z = c[i];

/* The result may share memory with an input: no element depends on another, which gcc cannot see. */
#if defined(__clang__)
#define MR_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MR_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* By type: 16-bit floats use the loop of float, float and double get CPU variants. */
#define MR_EACH_IF_LOOP_HALF(...)
#define MR_EACH_IF_LOOP_BFLOAT16(...)
#define MR_EACH_IF_LOOP_FLOAT(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_DOUBLE(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_INT8(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_UINT8(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_INT16(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_UINT16(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_INT32(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_UINT32(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_INT64(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_UINT64(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_COMPLEX64(...) __VA_ARGS__
#define MR_EACH_IF_LOOP_COMPLEX128(...) __VA_ARGS__
#define MR_EACH_IF_FLOAT_HALF(...)
#define MR_EACH_IF_FLOAT_BFLOAT16(...)
#define MR_EACH_IF_FLOAT_FLOAT(...) __VA_ARGS__
#define MR_EACH_IF_FLOAT_DOUBLE(...)
#define MR_EACH_IF_FLOAT_INT8(...)
#define MR_EACH_IF_FLOAT_UINT8(...)
#define MR_EACH_IF_FLOAT_INT16(...)
#define MR_EACH_IF_FLOAT_UINT16(...)
#define MR_EACH_IF_FLOAT_INT32(...)
#define MR_EACH_IF_FLOAT_UINT32(...)
#define MR_EACH_IF_FLOAT_INT64(...)
#define MR_EACH_IF_FLOAT_UINT64(...)
#define MR_EACH_IF_FLOAT_COMPLEX64(...)
#define MR_EACH_IF_FLOAT_COMPLEX128(...)
#define MR_EACH_CONST_HALF MR_EACH_WIDE
#define MR_EACH_CONST_BFLOAT16 MR_EACH_WIDE
#define MR_EACH_CONST_FLOAT MR_EACH_OWN
#define MR_EACH_CONST_DOUBLE MR_EACH_OWN
#define MR_EACH_CONST_INT8 MR_EACH_OWN
#define MR_EACH_CONST_UINT8 MR_EACH_OWN
#define MR_EACH_CONST_INT16 MR_EACH_OWN
#define MR_EACH_CONST_UINT16 MR_EACH_OWN
#define MR_EACH_CONST_INT32 MR_EACH_OWN
#define MR_EACH_CONST_UINT32 MR_EACH_OWN
#define MR_EACH_CONST_INT64 MR_EACH_OWN
#define MR_EACH_CONST_UINT64 MR_EACH_OWN
#define MR_EACH_CONST_COMPLEX64 MR_EACH_OWN
#define MR_EACH_CONST_COMPLEX128 MR_EACH_OWN
#define MR_EACH_CLONES_FLOAT MR_CLONES
#define MR_EACH_CLONES_DOUBLE MR_CLONES
#define MR_EACH_CLONES_HALF
#define MR_EACH_CLONES_BFLOAT16
#define MR_EACH_CLONES_INT8
#define MR_EACH_CLONES_UINT8
#define MR_EACH_CLONES_INT16
#define MR_EACH_CLONES_UINT16
#define MR_EACH_CLONES_INT32
#define MR_EACH_CLONES_UINT32
#define MR_EACH_CLONES_INT64
#define MR_EACH_CLONES_UINT64
#define MR_EACH_CLONES_COMPLEX64
#define MR_EACH_CLONES_COMPLEX128

#endif
