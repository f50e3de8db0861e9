/* exec/opencl/prelude.cl -- what all kernels are written with.
 *
 * A tensor comes as a buffer and the bytes to its start: P(float, x) declares it, AT(float, x) is its first element.
 * Groups have 64 work items; there may be more items than work, so a kernel looks at its n.  Nothing is fused or
 * reordered, as on the CPU. */
#pragma OPENCL FP_CONTRACT OFF
#define P(T, x) global T *x##_buf, const long x##_at
#define AT(T, x) ((global T *)((global char *)x##_buf + x##_at))
#define GROUP 64

/* ---- the words of ops/maths.h ---- */
#define typeof(x) float
#define MR_LARGER(x, y) ((x) > (y) || (x) != (x) ? (x) : (y))
#define MR_SMALLER(x, y) ((x) < (y) || (x) != (x) ? (x) : (y))
#define MR_SIGN(x) ((x) > 0 ? 1 : (x) < 0 ? -1 : 0)
#define MR_AS_READ(x) (x)
#define mr_expm1f(x) expm1(x)
#define mr_vexp_f(x) exp(x)
#define mr_vexpm1_f(x) expm1(x)
#define mr_vlog_f(x) log(x)
#define mr_vlog1p_f(x) log1p(x)
#define mr_vsin_f(x) sin(x)
#define mr_vcos_f(x) cos(x)
#define mr_vtanh_f(x) tanh(x)
#define mr_verf_f(x) erf(x)
#define mr_vsigmoid_f(x) mr_sigmoidf(x)
#define mr_vsoftplus_f(x) mr_softplusf(x)
float mr_sigmoidf(float x) { return 1 / (1 + exp(-x)); }
float mr_softplusf(float x) { return (x < 0 ? 0 : x) + (x != x ? x : log1p(exp(-fabs(x)))); }

/* ---- walks: where an operand of another shape has the element behind element i of the result ---- */
#define DIMS long d0, long d1, long d2, long d3, long d4, long d5, long d6, long d7
#define STEPS(s) long s##0, long s##1, long s##2, long s##3, long s##4, long s##5, long s##6, long s##7
#define WALK(i, s) walk(i, d1, d2, d3, d4, d5, d6, d7, s##0, s##1, s##2, s##3, s##4, s##5, s##6, s##7)
long walk(long i, long d1, long d2, long d3, long d4, long d5, long d6, long d7, long s0, long s1, long s2, long s3, long s4,
          long s5, long s6, long s7)
{
    long at = i % d7 * s7;
    i /= d7;
    at += i % d6 * s6;
    i /= d6;
    if (i == 0)
        return at;
    at += i % d5 * s5;
    i /= d5;
    at += i % d4 * s4;
    i /= d4;
    at += i % d3 * s3;
    i /= d3;
    at += i % d2 * s2;
    i /= d2;
    return at + i % d1 * s1 + i / d1 * s0;
}

/* ---- element-wise ops: one item an element; NAME_walk where shapes differ ---- */
#define EACH_1(name, ...)                                             \
    kernel void each_##name(const long n, P(float, o), P(float, a))   \
    {                                                                 \
        const long i = get_global_id(0);                              \
        if (i >= n)                                                   \
            return;                                                   \
        const float x = AT(float, a)[i];                              \
        AT(float, o)[i] = (__VA_ARGS__);                              \
    }
#define EACH_TEST(name, ...)                                          \
    kernel void each_##name(const long n, P(uchar, o), P(float, a))   \
    {                                                                 \
        const long i = get_global_id(0);                              \
        if (i >= n)                                                   \
            return;                                                   \
        const float x = AT(float, a)[i];                              \
        AT(uchar, o)[i] = (__VA_ARGS__) ? 1 : 0;                      \
    }
#define EACH_PAIR(name, T, R, ...)                                                                      \
    kernel void each_##name(const long n, P(R, o), P(T, a), P(T, b))                                    \
    {                                                                                                   \
        const long i = get_global_id(0);                                                                \
        if (i >= n)                                                                                     \
            return;                                                                                     \
        const T x = AT(T, a)[i], y = AT(T, b)[i];                                                       \
        AT(R, o)[i] = (__VA_ARGS__);                                                                    \
    }                                                                                                   \
    kernel void each_##name##_walk(const long n, P(R, o), P(T, a), P(T, b), DIMS, STEPS(s), STEPS(t))   \
    {                                                                                                   \
        const long i = get_global_id(0);                                                                \
        if (i >= n)                                                                                     \
            return;                                                                                     \
        const T x = AT(T, a)[WALK(i, s)], y = AT(T, b)[WALK(i, t)];                                     \
        AT(R, o)[i] = (__VA_ARGS__);                                                                    \
    }
#define EACH_2(name, ...) EACH_PAIR(name, float, float, __VA_ARGS__)
#define EACH_COMPARE(name, ...) EACH_PAIR(name, float, uchar, (__VA_ARGS__) ? 1 : 0)
#define EACH_3(name, ...)                                                                               \
    kernel void each_##name##_walk(const long n, P(float, o), P(float, a), P(float, b), P(float, c), DIMS, STEPS(s), \
                                   STEPS(t), STEPS(u))                                                  \
    {                                                                                                   \
        const long i = get_global_id(0);                                                                \
        if (i >= n)                                                                                     \
            return;                                                                                     \
        const float x = AT(float, a)[WALK(i, s)], y = AT(float, b)[WALK(i, t)], z = AT(float, c)[WALK(i, u)]; \
        AT(float, o)[i] = (__VA_ARGS__);                                                                \
    }

/* ---- optimizers: w the variable, p, q, s its slots, g the gradient, h0.. scalars in device memory ---- */
#define APPLY(name, LOAD, STORE, ...)                                                                   \
    kernel void apply_##name(const long n, const long flag, P(float, var), P(float, slot1), P(float, slot2), \
                             P(float, slot3), P(float, grad), P(float, k0), P(float, k1), P(float, k2), P(float, k3), \
                             P(float, k4), P(float, k5))                                                \
    {                                                                                                   \
        const long i = get_global_id(0);                                                                \
        if (i >= n)                                                                                     \
            return;                                                                                     \
        const float h0 = AT(float, k0)[0], h1 = AT(float, k1)[0], h2 = AT(float, k2)[0];                \
        const float h3 = AT(float, k3)[0], h4 = AT(float, k4)[0], h5 = AT(float, k5)[0];                \
        float w = AT(float, var)[i], g = AT(float, grad)[i];                                            \
        LOAD                                                                                            \
        __VA_ARGS__;                                                                                    \
        AT(float, var)[i] = w;                                                                          \
        STORE                                                                                           \
    }
#define LOAD_2 float p = AT(float, slot1)[i];
#define LOAD_3 LOAD_2 float q = AT(float, slot2)[i];
#define LOAD_4 LOAD_3 float s = AT(float, slot3)[i];
#define STORE_2 AT(float, slot1)[i] = p;
#define STORE_3 STORE_2 AT(float, slot2)[i] = q;
#define STORE_4 STORE_3 AT(float, slot3)[i] = s;
#define APPLY_1(name, ...) APPLY(name, , , __VA_ARGS__)
#define APPLY_2(name, ...) APPLY(name, LOAD_2, STORE_2, __VA_ARGS__)
#define APPLY_3(name, ...) APPLY(name, LOAD_3, STORE_3, __VA_ARGS__)
#define APPLY_4(name, ...) APPLY(name, LOAD_4, STORE_4, __VA_ARGS__)
