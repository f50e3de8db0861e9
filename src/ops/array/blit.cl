/* ops/array/blit.cl -- elements moved from one layout to another, by size; strides may be negative. */
#define BLIT(name, T)                                                                            \
    kernel void name(const long n, P(T, out), P(T, in), DIMS, STEPS(s), STEPS(t))                \
    {                                                                                            \
        const long i = get_global_id(0);                                                         \
        if (i < n)                                                                               \
            AT(T, out)[WALK(i, t)] = AT(T, in)[WALK(i, s)];                                      \
    }
BLIT(blit_1, uchar)
BLIT(blit_4, uint)
BLIT(blit_8, ulong)

kernel void blit_fill_4(const long n, P(uint, out), const long value, DIMS, STEPS(s), STEPS(t))
{
    const long i = get_global_id(0);
    if (i < n)
        AT(uint, out)[WALK(i, t)] = (uint)value;
}
