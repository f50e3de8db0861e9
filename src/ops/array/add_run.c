/* ops/array/add_run.c -- adds elements of any type in place. */
#include "ops/array/add_run.h"

/* Integers are added as unsigned ones, because they wrap around. */
#define ADD_FLOATING(a, b) ((a) + (b))
#define ADD_INTEGER(a, b) ((uint64_t)(a) + (uint64_t)(b))

#define ADD_RUN(E, name, number, S, C, ADD)                                            \
    static void add_##name(void *to, const void *from, int64_t step, int64_t n)        \
    {                                                                                  \
        S *d = to;                                                                     \
        const S *s = from;                                                             \
        for (int64_t i = 0; step == 1 && i < n; i++)                                   \
            MR_ST(d + i, (C)ADD(MR_LD(d + i), MR_LD(s + i)));                          \
        for (int64_t i = 0; step != 1 && i < n; i++)                                   \
            MR_ST(d + i, (C)ADD(MR_LD(d + i), MR_LD(s + i * step)));                   \
    }
MR_FLOATS(ADD_RUN, ADD_FLOATING)
MR_COMPLEXES(ADD_RUN, ADD_FLOATING)
MR_INTS(ADD_RUN, ADD_INTEGER)
MR_QUANTIZED(ADD_RUN, ADD_INTEGER)

static void add_bool(void *to, const void *from, int64_t step, int64_t n)
{
    uint8_t *d = to;
    const uint8_t *s = from;
    for (int64_t i = 0; i < n; i++)
        d[i] = d[i] || s[i * step];
}

mr_add_run *mr_add_run_of(mr_dtype t)
{
#define CASE(E, name, number, S, C, ...) \
    case MR_##E: return add_##name;
    switch (t) {
        MR_PLAIN(CASE, )
    default: return NULL;
    }
#undef CASE
}

mr_status *mr_add_string(mr_tensor *to, int64_t at, const mr_tensor *from, int64_t i)
{
    mr_sv a = mr_tensor_str_at(to, at), b = mr_tensor_str_at(from, i);
    mr_str both = {0};
    mr_status *st;
    if (!mr_str_try_append(&both, a.p, a.n) || !mr_str_try_append(&both, b.p, b.n))
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a string of %zu bytes", a.n + b.n);
    else
        st = mr_tensor_set_str(to, at, mr_str_view(&both));
    mr_str_deinit(&both);
    return st;
}
