/* ops/random/key.c -- converts seeds, keys and generators to streams. */
#include "ops/random/key.h"

/* ---- seeds ---- */

static uint64_t seed_bits(const mr_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case MR_INT32: return (uint64_t)(int64_t)MR_DATA(int32_t, t)[i];
    case MR_UINT32: return MR_DATA(uint32_t, t)[i];
    default: return MR_DATA(uint64_t, t)[i];
    }
}

mr_status *mr_seed_stream(const mr_run *r, int i, mr_philox *out)
{
    const mr_tensor *t = mr_in(r, i);
    if (t->rank != 1 || t->dims[0] != 2)
        return mr_invalid("seed must have shape [2], not %s", MR_TENSOR_SHAPE(t));
    uint64_t s0 = seed_bits(t, 0), s1 = seed_bits(t, 1);
    mr_philox p = {{(uint32_t)s0, (uint32_t)(s0 >> 32), (uint32_t)s1, (uint32_t)(s1 >> 32)},
                   {0x3ec8f720, 0x02461e29}};
    uint32_t mixed[4];
    mr_philox_next(&p, mixed);
    *out = (mr_philox){{0, 0, mixed[2], mixed[3]}, {mixed[0], mixed[1]}};
    return NULL;
}

static mr_status *infer_vector(mr_infer *c, int i, int64_t n)
{
    const mr_pshape *v;
    int64_t ignored;
    MR_TRY(mr_infer_rank(c, c->in[i], 1, &v));
    return mr_infer_merge_dim(mr_infer_dim(v, 0), n, &ignored);
}

mr_status *mr_seed_infer(mr_infer *c, int i) { return infer_vector(c, i, 2); }

mr_status *mr_seed_shape(mr_infer *c)
{
    MR_TRY(mr_seed_infer(c, 1));
    return mr_shape_from_input0(c);
}

/* ---- key, counter, algorithm ---- */

static mr_philox philox_of(uint64_t counter0, uint64_t counter1, uint64_t key)
{
    return (mr_philox){{(uint32_t)counter0, (uint32_t)(counter0 >> 32), (uint32_t)counter1,
                        (uint32_t)(counter1 >> 32)},
                       {(uint32_t)key, (uint32_t)(key >> 32)}};
}

mr_status *mr_in_algorithm(const mr_run *r, int i, int64_t *out)
{
    if (mr_in(r, i)->rank != 0)
        return mr_invalid("input %d (0-based) must have shape [], not %s", i,
                          MR_TENSOR_SHAPE(mr_in(r, i)));
    *out = mr_tensor_int_at(mr_in(r, i), 0);
    return NULL;
}

mr_status *mr_key_stream(const mr_run *r, int i, mr_philox *out)
{
    const mr_tensor *key = mr_in(r, i), *counter = mr_in(r, i + 1);
    int64_t alg;
    MR_TRY(mr_in_algorithm(r, i + 2, &alg));
    if (alg != MR_ALG_PHILOX && alg != MR_ALG_AUTO)
        return mr_invalid("Unsupported algorithm id: %lld", (long long)alg);
    if (key->rank != 1 || key->dims[0] != 1)
        return mr_invalid("key must have shape [1], not %s", MR_TENSOR_SHAPE(key));
    if (counter->rank != 1 || counter->dims[0] < 2)
        return mr_invalid("counter must be a vector with length at least 2; got %s",
                          MR_TENSOR_SHAPE(counter));
    *out = philox_of(MR_DATA(uint64_t, counter)[0], MR_DATA(uint64_t, counter)[1],
                     MR_DATA(uint64_t, key)[0]);
    return NULL;
}

mr_status *mr_key_infer(mr_infer *c, int i)
{
    const mr_pshape *ignored;
    MR_TRY(infer_vector(c, i, 1));
    MR_TRY(mr_infer_rank(c, c->in[i + 1], 1, &ignored));
    return mr_infer_rank(c, c->in[i + 2], 0, &ignored);
}

/* ---- generators in variables ---- */

enum { STATE = 3 }; /* numbers in the state of a generator */

static mr_status *check_state(const mr_tensor *t, int64_t alg, int first)
{
    if (!t)
        return mr_error(MR_FAILED_PRECONDITION, "the state variable of the generator is uninitialized");
    if (t->dtype != MR_INT64)
        return mr_invalid("dtype of RNG state variable must be int64, not %s",
                          mr_dtype_name(t->dtype));
    if (t->rank != 1)
        return mr_invalid("RNG state must have one and only one dimension, not %d", t->rank);
    if (first > 0) {
        if (t->n < 1)
            return mr_invalid("Size of tensor must be at least 1");
        alg = MR_DATA(int64_t, t)[0];
    }
    if (alg != MR_ALG_PHILOX && alg != MR_ALG_AUTO)
        return mr_invalid("Unsupported algorithm id: %lld", (long long)alg);
    if (t->n < first + STATE)
        return mr_invalid("For the Philox algorithm, the size of state must be at least %d; got "
                          "%lld", first + STATE, (long long)t->n);
    return NULL;
}

static mr_status *take_locked(mr_run *r, mr_variable *v, int64_t alg, int first, uint64_t n,
                              mr_philox *out, int64_t *old) MR_REQUIRES(v->mu)
{
    mr_tensor *t;
    MR_TRY(check_state(v->t, alg, first));
    MR_TRY(mr_variable_writable(v, mr_run_allocator(r), &t));
    int64_t *s = MR_DATA(int64_t, t) + first;
    for (int i = 0; i < STATE && old; i++)
        old[i] = s[i];
    *out = philox_of((uint64_t)s[0], (uint64_t)s[1], (uint64_t)s[2]);
    mr_philox next = *out;
    mr_philox_skip(&next, n * 256);
    s[0] = (int64_t)((uint64_t)next.counter[1] << 32 | next.counter[0]);
    s[1] = (int64_t)((uint64_t)next.counter[3] << 32 | next.counter[2]);
    return NULL;
}

mr_status *mr_generator_take(mr_run *r, int64_t alg, int first, uint64_t n, mr_philox *out,
                             int64_t *old)
{
    mr_variable *v;
    MR_TRY(mr_run_variable(r, 0, &v));
    mr_lock(&v->mu);
    mr_status *st = take_locked(r, v, alg, first, n, out, old);
    mr_unlock(&v->mu);
    mr_variable_unref(v);
    return st;
}
