/* ops/random/shuffle.c -- shuffles rows: RandomShuffle and StatelessShuffle; RandomIndexShuffle computes
 * a single index of such a permutation. */
#include "base/memory.h"
#include "ops/array/index.h"
#include "ops/random/key.h"
#include "run/scratch.h"

/* Fisher-Yates: each row but the last is swapped with itself or a later row. */
static void draw_order(mr_philox *p, int64_t *order, int64_t n)
{
    uint32_t w[4] = {0};
    for (int64_t i = 0; i < n; i++)
        order[i] = i;
    for (int64_t i = 0; i < n - 1; i++) {
        if (i % 4 == 0)
            mr_philox_next(p, w);
        int64_t k = i + (int64_t)(w[i % 4] % (uint64_t)(n - i)), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
}

static int64_t n_rows(const mr_tensor *x) { return x->rank > 0 ? x->dims[0] : 1; }
static bool draws_nothing(const mr_tensor *x) { return n_rows(x) <= 1 || x->n <= 1; }

static mr_status *shuffle_by(mr_run *r, mr_philox p)
{
    const mr_tensor *x = mr_in(r, 0);
    int64_t n = n_rows(x), row = x->n / n;
    mr_tensor *y;
    int64_t *order = mr_scratch(r, sizeof(int64_t) * (size_t)n);
    if (!order)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a permutation of %lld rows", (long long)n);
    draw_order(&p, order, n);
    mr_status *st = mr_run_output(r, 0, x->rank, x->dims, &y);
    if (!st)
        st = mr_gather_rows(r, &(mr_gather){y, x, row, n, order}, 1, 0, 1);
    mr_scratch_free(order);
    return st;
}

static mr_status *run_shuffle(mr_run *r)
{
    if (!draws_nothing(mr_in(r, 0)))
        return shuffle_by(
            r, mr_random_reserve(r->state, (uint64_t)(n_rows(mr_in(r, 0)) - 1 + 3) / 4));
    mr_run_pass(r, 0, 0);
    return NULL;
}

static mr_status *run_stateless(mr_run *r)
{
    mr_philox p;
    MR_TRY(mr_key_stream(r, 1, &p));
    if (!draws_nothing(mr_in(r, 0)))
        return shuffle_by(r, p);
    mr_run_pass(r, 0, 0);
    return NULL;
}

static mr_status *stateless_shape(mr_infer *c)
{
    MR_TRY(mr_key_infer(c, 1));
    c->out[0] = c->in[0];
    return NULL;
}

MR_OP(RandomShuffle,
    .doc      = "the rows in a random order",
    .sig      = "value: T -> output: T",
    .attrs    = "seed: int = 0; seed2: int = 0; T: type",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_shuffle)),
    .state_bytes = sizeof(mr_random_state), .init = mr_random_init, .deinit = mr_random_deinit,
    .examples = MR_EXAMPLES(
        "T=int32 seed=87654321 seed2=1: [0, 1, 2, 3, 4, 5, 6, 7] -> [7, 4, 5, 2, 3, 0, 6, 1]",
        "T=float seed=87654321 seed2=1: iota(10,1) -> "
        "[[7], [9], [3], [6], [5], [1], [8], [4], [0], [2]]",
        "T=float: 7 -> 7",
        "T=string: [\"a\", \"a\"] -> [\"a\", \"a\"]"));

MR_OP(StatelessShuffle,
    .doc      = "the rows in an order that a key and a counter determine",
    .sig      = "value: T, key: uint64, counter: uint64, alg: int32 -> output: T",
    .attrs    = "T: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = stateless_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_stateless)),
    .examples = MR_EXAMPLES(
        "T=int32: [0, 1, 2, 3, 4, 5, 6, 7], [87654321], [0, 1], 1 -> [7, 4, 5, 2, 3, 0, 6, 1]",
        "T=float: 7, [1], [0, 2], 3 -> 7",
        "T=string: [\"a\", \"a\"], [1], [0, 2], 1 -> [\"a\", \"a\"]",
        "T=float: [1, 2], [1], [0, 2], 2 -> !INVALID_ARGUMENT Unsupported algorithm id: 2"));

/* ---- a single index ----
 *
 * The index is encrypted by four rounds of Simon, with as many bits per block as max_index needs (16 at
 * least).  A result above max_index is encrypted again until it is in range (cycle walking). */

enum { ROUNDS = 4, MIN_BLOCK = 16 };

static uint64_t turn_left(uint64_t x, int by, int word)
{
    uint64_t mask = word == 64 ? UINT64_MAX : (UINT64_C(1) << word) - 1;
    return ((x << by) | (x >> (word - by))) & mask;
}

static uint64_t simon_round(uint64_t x, int word)
{
    return (turn_left(x, 1, word) & turn_left(x, 8, word)) ^ turn_left(x, 2, word);
}

static uint64_t simon_encrypt(uint64_t v, int word, const uint64_t *keys)
{
    uint64_t mask = (UINT64_C(1) << word) - 1, left = v >> word & mask, right = v & mask;
    for (int i = 0; i < ROUNDS; i += 2) {
        left ^= simon_round(right, word) ^ keys[i];
        right ^= simon_round(left, word) ^ keys[i + 1];
    }
    return left << word | right;
}

/* The three words of the key, and a fourth that is computed from them. */
static void make_round_keys(const uint32_t seed[3], int word, uint64_t keys[ROUNDS])
{
    uint64_t mask = (UINT64_C(1) << word) - 1;
    for (int i = 0; i < 3; i++)
        keys[i] = seed[i] & mask;
    uint64_t right_3 = turn_left(keys[2], word - 3, word),
             right_4 = turn_left(keys[2], word - 4, word);
    keys[3] = (UINT64_C(0xfffffffc) & mask) ^ 1 ^ keys[0] ^ right_3 ^ right_4;
}

/* The block size in bits for 0..last: the logarithm of last, rounded up to an even number. */
static int block_bits(uint64_t last)
{
    int bits = 0;
    while (bits < 64 && (bits == 63 ? UINT64_C(1) << 63 : UINT64_C(1) << bits) < last)
        bits++;
    bits += bits % 2;
    return bits < MIN_BLOCK ? MIN_BLOCK : bits;
}

static uint64_t place_of(uint64_t index, const uint32_t seed[3], uint64_t last)
{
    uint64_t keys[ROUNDS];
    if (last == 0)
        return 0;
    int word = block_bits(last) / 2;
    make_round_keys(seed, word, keys);
    do
        index = simon_encrypt(index, word, keys);
    while (index > last);
    return index;
}

static uint64_t bits_at(const mr_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case MR_INT32: return (uint64_t)(int64_t)MR_DATA(int32_t, t)[i];
    case MR_UINT32: return MR_DATA(uint32_t, t)[i];
    default: return MR_DATA(uint64_t, t)[i];
    }
}

static mr_status *check_places(const mr_run *r, int64_t n)
{
    const mr_tensor *index = mr_in(r, 0), *seed = mr_in(r, 1), *last = mr_in(r, 2);
    if (index->rank != 0 && !(index->rank == 1 && index->dims[0] == n))
        return mr_invalid("Index bust be a scalar or vector.");
    if (!(seed->rank == 1 && seed->dims[0] == 3) &&
        !(seed->rank == 2 && seed->dims[0] == n && seed->dims[1] == 3))
        return mr_invalid("Seed must be a vector of size [3] or a matrix of size [%lld, 3] but got "
                          "%s.", (long long)n, MR_TENSOR_SHAPE(seed));
    if (last->rank != 0 && !(last->rank == 1 && last->dims[0] == n))
        return mr_invalid("Maxval must be a scalar or a vector of the same size as index but got "
                          "%s", MR_TENSOR_SHAPE(last));
    return NULL;
}

static mr_status *index_shuffle(mr_run *r)
{
    const mr_tensor *index = mr_in(r, 0), *seed = mr_in(r, 1), *last = mr_in(r, 2);
    int64_t n = MR_MAX(MR_MAX(index->n, last->n), seed->n / 3);
    bool scalar = index->rank == 0 && seed->rank == 1 && last->rank == 0;
    mr_tensor *out;
    MR_TRY(check_places(r, n));
    MR_TRY(mr_run_output(r, 0, scalar ? 0 : 1, &n, &out));
    for (int64_t i = 0; i < n; i++) {
        int64_t row = seed->rank == 1 ? 0 : 3 * i;
        uint32_t key[3];
        for (int k = 0; k < 3; k++)
            key[k] = (uint32_t)bits_at(seed, row + k);
        uint64_t at = bits_at(index, index->rank ? i : 0), end = bits_at(last, last->rank ? i : 0);
        if (at > end) /* cycle walking from outside of the range might never enter it */
            return mr_invalid("index %llu is beyond max_index %llu", (unsigned long long)at,
                              (unsigned long long)end);
        if (i % 64 == 63 && r->step->cancel && mr_cancel_started(r->step->cancel))
            return mr_error(MR_CANCELLED, "the shuffle was cancelled");
        uint64_t v = place_of(at, key, end);
        if (mr_dtype_size((mr_dtype)out->dtype) == 8)
            MR_DATA(uint64_t, out)[i] = v;
        else
            MR_DATA(uint32_t, out)[i] = (uint32_t)v;
    }
    return NULL;
}

static mr_status *index_shape(mr_infer *c)
{
    const mr_pshape *index, *seed, *last;
    MR_TRY(mr_infer_rank_at_most(c, c->in[0], 1, &index));
    MR_TRY(mr_infer_rank_at_least(c, c->in[1], 1, &seed));
    MR_TRY(mr_infer_rank_at_most(c, seed, 2, &seed));
    MR_TRY(mr_infer_rank_at_most(c, c->in[2], 1, &last));
    if (index->rank < 0 || seed->rank < 0 || last->rank < 0)
        return NULL;
    if (index->rank == 0 && seed->rank == 1 && last->rank == 0) {
        mr_infer_out_scalar(c, 0);
        return NULL;
    }
    int64_t n = index->rank ? index->dims[0] : last->rank ? last->dims[0] : seed->dims[0];
    mr_infer_out_vector(c, 0, n);
    return NULL;
}

MR_OP(RandomIndexShuffle,
    .doc      = "the position of an index in a permutation of 0..max_index that a seed determines",
    .sig      = "index: dtype, seed: Tseed, max_index: dtype -> output: dtype",
    .attrs    = "dtype: {int32, uint32, int64, uint64}; Tseed: {int32, uint32, int64, uint64}",
    .flags    = MR_NO_GRADIENT,
    .key      = "dtype",
    .shape    = index_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(index_shuffle)),
    .examples = MR_EXAMPLES(
        "0, int32[1, 2, 3], 0 -> 0", "5, int32[1, 2, 3], 9 -> ?", "[0, 1, 2], uint32[1, 2, 3], 2 "
        "-> shape(3)", "1, int64[[1, 2, 3], [4, 5, 6]], [3, 4] -> shape(2)",
        "1, uint64[1, 2, 3], [3, 4] -> shape(2)",
        "[1, 2, 3], uint64[1, 2], 4 -> !INVALID_ARGUMENT Seed must be a vector of size [3]",
        "5, int32[1, 2, 3], 4 -> !INVALID_ARGUMENT",
        "[1, 2], int32[1, 2, 3], [4, 5, 6] -> !INVALID_ARGUMENT"));
