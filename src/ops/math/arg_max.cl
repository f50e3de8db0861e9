/* ops/math/arg_max.cl -- places of extremes along the middle of [outer, width, inner]; NaN loses against numbers. */
#define ARG(name, R, better)                                                                                   \
    kernel void arg_##name(const long n, P(R, o), P(float, a), const long width, const long inner)             \
    {                                                                                                          \
        const long i = get_global_id(0);                                                                       \
        if (i >= n)                                                                                            \
            return;                                                                                            \
        global const float *p = AT(float, a) + i / inner * width * inner + i % inner;                          \
        float b = p[0];                                                                                        \
        long place = 0;                                                                                        \
        for (long k = 1; k < width; k++) {                                                                     \
            const float x = p[k * inner];                                                                      \
            if (x better b || (b != b && x == x)) {                                                            \
                b = x;                                                                                         \
                place = k;                                                                                     \
            }                                                                                                  \
        }                                                                                                      \
        AT(R, o)[i] = (R)place;                                                                                \
    }
ARG(largest_int32, int, >)
ARG(largest_int64, long, >)
ARG(smallest_int32, int, <)
ARG(smallest_int64, long, <)
