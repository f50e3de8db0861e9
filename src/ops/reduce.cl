/* ops/reduce.cl -- folding along axes.
 *
 * The result's element i folds `count` elements: those at base(i) + step(k), where kept and folded dimensions (at most four
 * of each, neighbours put together) give offsets by their sizes and strides.  Long folds are shared by a group; within an
 * item short blocks are summed first, which keeps long sums accurate. */
long offset4(long i, long n1, long n2, long n3, long s0, long s1, long s2, long s3)
{
    long at = i % n3 * s3;
    i /= n3;
    at += i % n2 * s2;
    i /= n2;
    return at + i % n1 * s1 + i / n1 * s0;
}
#define REDUCE_ARGS                                                                                               \
    const long n, const long count, P(float, out), P(float, in), const long k1, const long k2, const long k3,     \
        const long a0, const long a1, const long a2, const long a3, const long f1, const long f2, const long f3,  \
        const long b0, const long b1, const long b2, const long b3, const float divisor
#define REDUCE(name, EMPTY, JOIN, TAKE)                                                                           \
    kernel void reduce_##name##_item(REDUCE_ARGS)                                                                 \
    {                                                                                                             \
        const long i = get_global_id(0);                                                                          \
        if (i >= n)                                                                                               \
            return;                                                                                               \
        global const float *from = AT(float, in) + offset4(i, k1, k2, k3, a0, a1, a2, a3);                        \
        float a = EMPTY;                                                                                          \
        for (long k = 0; k < count; k++) {                                                                        \
            const float x = from[offset4(k, f1, f2, f3, b0, b1, b2, b3)];                                         \
            a = JOIN(a, TAKE(x));                                                                                 \
        }                                                                                                         \
        AT(float, out)[i] = a / divisor;                                                                          \
    }                                                                                                             \
    kernel void reduce_##name##_group(REDUCE_ARGS)                                                                \
    {                                                                                                             \
        local float part[GROUP];                                                                                  \
        const long i = get_group_id(0);                                                                           \
        const int me = get_local_id(0);                                                                           \
        global const float *from = AT(float, in) + offset4(i, k1, k2, k3, a0, a1, a2, a3);                        \
        float total = EMPTY;                                                                                      \
        for (long k = me; k < count;) {                                                                           \
            float a = EMPTY;                                                                                      \
            for (int end = 0; end < 64 && k < count; end++, k += GROUP) {                                         \
                const float x = from[offset4(k, f1, f2, f3, b0, b1, b2, b3)];                                     \
                a = JOIN(a, TAKE(x));                                                                             \
            }                                                                                                     \
            total = JOIN(total, a);                                                                               \
        }                                                                                                         \
        part[me] = total;                                                                                         \
        for (int half_ = GROUP / 2; half_ > 0; half_ /= 2) {                                                      \
            barrier(CLK_LOCAL_MEM_FENCE);                                                                         \
            if (me < half_)                                                                                       \
                part[me] = JOIN(part[me], part[me + half_]);                                                      \
        }                                                                                                         \
        if (me == 0)                                                                                              \
            AT(float, out)[i] = part[0] / divisor;                                                                \
    }
#define JOIN_SUM(a, b) ((a) + (b))
#define JOIN_PROD(a, b) ((a) * (b))
#define TAKE_IT(x) (x)
#define TAKE_SQUARE(x) ((x) * (x))
REDUCE(sum, 0, JOIN_SUM, TAKE_IT)
REDUCE(squares, 0, JOIN_SUM, TAKE_SQUARE)
REDUCE(prod, 1, JOIN_PROD, TAKE_IT)
REDUCE(max, -INFINITY, MR_LARGER, TAKE_IT)
REDUCE(min, INFINITY, MR_SMALLER, TAKE_IT)
