/* ops/string/hash_bucket.c -- StringToHashBucket and its faster and stronger forms; Fingerprint.
 *
 * The older form uses Hash64, whose results TensorFlow does not guarantee, but with which old graphs were
 * trained; Fast is a fingerprint; Strong has a key, so that without knowing the key nobody can make
 * strings collide. */
#include <inttypes.h>
#include <stdio.h>

#include "base/memory.h"
#include "base/siphash.h"
#include "graph/infer.h"
#include "ops/string/hashes.h"
#include "ops/string/strings.h"

typedef struct buckets {
    uint64_t n, key[2];
} buckets;

static mr_status *init_buckets(mr_make *m, void *p)
{
    int64_t n;
    MR_TRY(mr_node_get_int(m->node, "num_buckets", &n));
    ((buckets *)p)->n = (uint64_t)n;
    return NULL;
}

static mr_status *init_keyed(mr_make *m, void *p)
{
    buckets *b = p;
    const mr_attr *key = mr_node_attr(m->node, "key");
    MR_TRY(init_buckets(m, p));
    if (!key || key->n != 2)
        return mr_invalid("Key must have 2 elements");
    for (int i = 0; i < 2; i++)
        b->key[i] = (uint64_t)key->is[i];
    return NULL;
}

static mr_status *hash_all(mr_run *r, uint64_t (*hash)(const buckets *b, mr_sv s))
{
    const buckets *b = r->state;
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n; i++) /* the remainder is below num_buckets, so it fits */
        MR_DATA(int64_t, out)[i] = (int64_t)(hash(b, mr_tensor_str_at(in, i)) % b->n);
    return NULL;
}

static uint64_t hash_old(const buckets *b, mr_sv s) { return (void)b, mr_hash64(s.p, s.n); }
static uint64_t hash_fast(const buckets *b, mr_sv s) { return (void)b, mr_fingerprint64(s); }
static uint64_t hash_strong(const buckets *b, mr_sv s) { return mr_siphash(b->key, s.p, s.n); }

static mr_status *run_old(mr_run *r) { return hash_all(r, hash_old); }
static mr_status *run_fast(mr_run *r) { return hash_all(r, hash_fast); }
static mr_status *run_strong(mr_run *r) { return hash_all(r, hash_strong); }

#define BUCKETS(kernel, make)                                                        \
    .flags = MR_NO_GRADIENT, .shape = mr_shape_same,                                 \
    .kernels = MR_KERNELS(MR_CPU_ANY(kernel)), .state_bytes = sizeof(buckets), .init = make

MR_OP(StringToHashBucket,
    .doc      = "which of num_buckets each string falls into, by a hash of older releases",
    .sig      = "string_tensor: string -> output: int64",
    .attrs    = "num_buckets: int >= 1",
    BUCKETS(run_old, init_buckets),
    .examples = MR_EXAMPLES(
        "num_buckets=10: [\"a\", \"b\", \"c\"] -> [8, 0, 7]", "num_buckets=1: \"x\" -> 0",
        "num_buckets=3: shape(0,2) -> shape(0,2)",
        "num_buckets=0: \"x\" -> !INVALID_ARGUMENT num_buckets"));
MR_OP(StringToHashBucketFast,
    .doc      = "which of num_buckets each string falls into, by its fingerprint",
    .sig      = "input: string -> output: int64",
    .attrs    = "num_buckets: int >= 1",
    BUCKETS(run_fast, init_buckets),
    .examples = MR_EXAMPLES(
        "num_buckets=10: [\"a\", \"b\", \"c\"] -> [9, 2, 2]", "num_buckets=1: \"x\" -> 0",
        "num_buckets=9223372036854775807: \"\" -> 1936946117179621456",
        "num_buckets=3: shape(0) -> shape(0)"));
MR_OP(StringToHashBucketStrong,
    .doc      = "which of num_buckets each string falls into, by a hash with a secret key",
    .sig      = "input: string -> output: int64",
    .attrs    = "num_buckets: int >= 1; key: list(int)",
    BUCKETS(run_strong, init_keyed),
    .examples = MR_EXAMPLES(
        "num_buckets=10 key=[98765, 132]: [\"a\", \"b\", \"c\"] -> [4, 2, 8]",
        "num_buckets=1 key=[1, -2]: [[\"x\"]] -> [[0]]",
        "num_buckets=10 key=[98765]: \"a\" -> !INVALID_ARGUMENT Key must have 2 elements"));

/* ---- numbers, hashed as text ---- */

static int print_number(const mr_tensor *t, int64_t i, char *buf, size_t n)
{
    switch (t->dtype) {
    case MR_INT8: return snprintf(buf, n, "%d", MR_DATA(int8_t, t)[i]);
    case MR_UINT8: return snprintf(buf, n, "%u", MR_DATA(uint8_t, t)[i]);
    case MR_INT16: return snprintf(buf, n, "%d", MR_DATA(int16_t, t)[i]);
    case MR_UINT16: return snprintf(buf, n, "%u", MR_DATA(uint16_t, t)[i]);
    case MR_INT32: return snprintf(buf, n, "%" PRId32, MR_DATA(int32_t, t)[i]);
    case MR_UINT32: return snprintf(buf, n, "%" PRIu32, MR_DATA(uint32_t, t)[i]);
    case MR_INT64: return snprintf(buf, n, "%" PRId64, MR_DATA(int64_t, t)[i]);
    default: return snprintf(buf, n, "%" PRIu64, MR_DATA(uint64_t, t)[i]);
    }
}

static mr_status *run_numbers(mr_run *r)
{
    const buckets *b = r->state;
    const mr_tensor *in = mr_in(r, 0);
    mr_tensor *out;
    char text[24];
    MR_TRY(mr_run_output(r, 0, in->rank, in->dims, &out));
    for (int64_t i = 0; i < in->n; i++) {
        mr_sv s = {text, (size_t)print_number(in, i, text, sizeof text)};
        MR_DATA(int64_t, out)[i] = (int64_t)(mr_fingerprint64(s) % b->n);
    }
    return NULL;
}

MR_OP(_TensorToHashBucketFast,
    .doc      = "AsString and StringToHashBucketFast in one",
    .sig      = "input: T -> output: int64",
    .attrs    = "T: {int8, uint8, int16, uint16, int32, uint32, int64, uint64}; "
                "num_buckets: int >= 1",
    .flags    = MR_NO_GRADIENT,
    .shape    = mr_shape_same,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_numbers, MR_INTS)),
    .state_bytes = sizeof(buckets), .init = init_buckets,
    .examples = MR_EXAMPLES("num_buckets=1: [0, 1] -> [0, 0]", "num_buckets=9: shape(0) -> shape(0)",
                            "num_buckets=100: [[7]] -> [[88]]"));

/* ---- Fingerprint ---- */

static void put_uint64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* The fingerprint of a row of several strings is the fingerprint of their fingerprints. */
static void fingerprint_strings(const mr_tensor *in, int64_t row, int64_t per_row, uint8_t *scratch,
                                uint8_t *out)
{
    if (in->rank == 1) {
        put_uint64(out, mr_fingerprint64(mr_tensor_str_at(in, row)));
        return;
    }
    for (int64_t k = 0; k < per_row; k++)
        put_uint64(scratch + 8 * k, mr_fingerprint64(mr_tensor_str_at(in, row * per_row + k)));
    put_uint64(out, mr_fingerprint64((mr_sv){(const char *)scratch, (size_t)per_row * 8}));
}

static mr_status *fingerprint_rows(const mr_tensor *in, int64_t rows, mr_tensor *out)
{
    int64_t per_row = rows ? in->n / rows : 0;
    uint8_t *to = out->data;
    if (in->dtype == MR_STRING) {
        uint8_t *scratch = mr_try_calloc((size_t)per_row + 1, 8);
        MR_TRY(mr_string_room(scratch != NULL));
        for (int64_t i = 0; i < rows; i++)
            fingerprint_strings(in, i, per_row, scratch, to + 8 * i);
        mr_free(scratch);
        return NULL;
    }
    size_t bytes = (size_t)per_row * mr_dtype_size(in->dtype);
    for (int64_t i = 0; i < rows; i++)
        put_uint64(to + 8 * i, mr_fingerprint64((mr_sv){(char *)in->data + (size_t)i * bytes, bytes}));
    return NULL;
}

static mr_status *run_fingerprint(mr_run *r)
{
    const mr_tensor *in = mr_in(r, 0), *method = mr_in(r, 1);
    mr_tensor *out;
    if (in->rank < 1)
        return mr_invalid("`data` should have at least one dimension. Got: %s", MR_TENSOR_SHAPE(in));
    if (method->n != 1)
        return mr_invalid("`method` should be a scalar string, got shape %s",
                          MR_TENSOR_SHAPE(method));
    mr_sv name = mr_tensor_str_at(method, 0);
    if (!mr_sv_is(name, "farmhash64"))
        return mr_invalid("Unsupported fingerprint method: %.*s", MR_SV_ARG(name));
    MR_TRY(mr_run_output(r, 0, 2, (int64_t[]){in->dims[0], 8}, &out));
    return fingerprint_rows(in, in->dims[0], out);
}

static mr_status *fingerprint_shape(mr_infer *c)
{
    const mr_pshape *data, *ignored;
    MR_TRY(mr_infer_rank_at_least(c, c->in[0], 1, &data));
    MR_TRY(mr_infer_rank(c, c->in[1], 0, &ignored));
    const mr_tensor *method = mr_infer_const(c, 1);
    int64_t width = -1;
    if (method && method->n == 1) {
        if (!mr_sv_is(mr_tensor_str_at(method, 0), "farmhash64"))
            return mr_invalid("Unsupported fingerprint method: %.*s",
                              MR_SV_ARG(mr_tensor_str_at(method, 0)));
        width = 8;
    }
    c->out[0] = mr_pshape_matrix(c->arena, mr_infer_dim(data, 0), width);
    return NULL;
}

MR_OP(Fingerprint,
    .doc      = "an 8-byte fingerprint of each row of data",
    .sig      = "data: T, method: string -> fingerprint: uint8",
    .attrs    = "T: type",
    .flags    = MR_NO_GRADIENT,
    .shape    = fingerprint_shape,
    .kernels  = MR_KERNELS(MR_CPU_ONE(run_fingerprint, MR_PLAIN)
                           {"CPU", MR_STRING, run_fingerprint},),
    .examples = MR_EXAMPLES(
        "T=string: [\"\"], \"farmhash64\" -> [[79, 64, 144, 47, 59, 106, 225, 154]]",
        "fill(1, 3,2), \"farmhash64\" -> shape(3,8)", "shape(0,4), \"farmhash64\" -> shape(0,8)",
        "T=string: [[\"a\", \"b\"]], \"farmhash64\" -> shape(1,8)",
        "T=float: 1, \"farmhash64\" -> !INVALID_ARGUMENT must be at least rank 1",
        "T=float: [1], \"md5\" -> !INVALID_ARGUMENT Unsupported fingerprint method: md5"));
