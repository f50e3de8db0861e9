/* ops/random/unigram_sampler.c -- draws classes by their frequency: FixedUnigramCandidateSampler by
 * given weights, LearnedUnigramCandidateSampler and ThreadUnsafeUnigramCandidateSampler by how often each
 * was a true class so far. */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/vec.h"
#include "ops/random/candidate_sampler.h"

/* A number below n (> 0), uniformly, from one word per try. */
static uint32_t below_32(mr_words *w, uint32_t n)
{
    uint32_t surplus = (n & (n - 1)) ? UINT32_MAX % n + 1 : 0, v;
    do
        v = mr_words_next(w);
    while (v < surplus);
    return v % n;
}

/* ---- learned ----
 *
 * A class has weight 1, plus one for each time it was a true class.  The learned weights are in a
 * Fenwick tree, of which a hash table keeps only the non-zero nodes: the range may have billions of
 * classes, of which few were learned. */

typedef struct tree {
    int64_t *keys; /* numbers of nodes, from 1; 0: free slot */
    int64_t *sums;
    uint64_t cap, n;
    int64_t total; /* sum of all learned weights */
} tree;

static uint64_t slot_of(const tree *t, int64_t key)
{
    uint64_t at = (uint64_t)key * 0x9E3779B97F4A7C15u >> 20 & (t->cap - 1);
    while (t->keys[at] && t->keys[at] != key)
        at = (at + 1) & (t->cap - 1);
    return at;
}

static int64_t node_sum(const tree *t, int64_t key)
{
    return t->cap ? t->sums[slot_of(t, key)] : 0; /* a free slot has sum 0 */
}

static bool tree_grow(tree *t)
{
    tree g = {.cap = t->cap ? 2 * t->cap : 256, .n = t->n, .total = t->total};
    g.keys = mr_try_calloc(g.cap, sizeof(int64_t));
    g.sums = mr_try_calloc(g.cap, sizeof(int64_t));
    if (!g.keys || !g.sums) {
        mr_free(g.keys);
        mr_free(g.sums);
        return false;
    }
    for (uint64_t i = 0; i < t->cap; i++)
        if (t->keys[i]) {
            uint64_t at = slot_of(&g, t->keys[i]);
            g.keys[at] = t->keys[i];
            g.sums[at] = t->sums[i];
        }
    mr_free(t->keys);
    mr_free(t->sums);
    *t = g;
    return true;
}

/* Adds 1 to the weight of a class. */
static mr_status *tree_add(tree *t, int64_t class_, int64_t range)
{
    while (t->cap < 2 * (t->n + 64)) /* an addition touches fewer than 64 nodes */
        if (!tree_grow(t))
            return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to learn classes");
    for (int64_t i = class_ + 1; i <= range; i += i & -i) {
        uint64_t at = slot_of(t, i);
        t->n += t->keys[at] == 0;
        t->keys[at] = i;
        t->sums[at]++;
    }
    t->total++;
    return NULL;
}

/* The first class at which the running sum of the weights, each with its 1, exceeds v. */
static int64_t tree_find(const tree *t, int64_t v, int64_t range)
{
    int64_t at = 0, step = 1;
    while (step <= range / 2)
        step *= 2;
    for (; step > 0; step /= 2) {
        int64_t weight = at + step <= range ? node_sum(t, at + step) + step : v + 1;
        if (weight <= v) {
            at += step;
            v -= weight;
        }
    }
    return at;
}

/* The learned weight of a class: its prefix sum minus the one before it. */
static int64_t tree_weight(const tree *t, int64_t class_)
{
    int64_t sum = 0;
    for (int64_t i = class_ + 1; i > 0; i -= i & -i)
        sum += node_sum(t, i);
    for (int64_t i = class_; i > 0; i -= i & -i)
        sum -= node_sum(t, i);
    return sum;
}

typedef struct learned {
    mr_sampler_state base;
    mr_mutex mu;
    tree t MR_GUARDED_BY(mu);
} learned;

static int64_t draw_learned(const void *ctx, mr_words *w, int64_t range)
{
    const tree *t = ctx;
    return tree_find(t, below_32(w, (uint32_t)(range + t->total)), range);
}

static float learned_probability(const void *ctx, int64_t range, int64_t class_)
{
    const tree *t = ctx;
    return (float)(tree_weight(t, class_) + 1) / (float)(range + t->total);
}

/* The sum of all weights stays within int32, as in TensorFlow: after that, nothing more is learned. */
static mr_status *learn_classes(mr_run *r, tree *t, int64_t range)
{
    const mr_tensor *classes = mr_in(r, 0);
    for (int64_t i = 0; i < classes->n && range + t->total < INT32_MAX; i++)
        MR_TRY(tree_add(t, MR_DATA(int64_t, classes)[i], range));
    return NULL;
}

static mr_status *run_learned(mr_run *r)
{
    static const mr_sampler sampler = {draw_learned, learned_probability};
    learned *s = r->state;
    mr_lock(&s->mu);
    mr_status *st = mr_sampler_run(r, &sampler, &s->t);
    if (!st)
        st = learn_classes(r, &s->t, s->base.range);
    mr_unlock(&s->mu);
    return st;
}

static mr_status *learned_init(mr_make *m, void *state)
{
    learned *s = state;
    mr_mutex_init(&s->mu);
    MR_TRY(mr_sampler_init(m, state));
    return s->base.range < INT32_MAX
               ? NULL
               : mr_invalid("Expected range <= kint32max. Got range: %lld",
                            (long long)s->base.range);
}

static void learned_deinit(void *state)
{
    learned *s = state;
    mr_free(s->t.keys);
    mr_free(s->t.sums);
    mr_mutex_deinit(&s->mu);
    mr_random_deinit(state);
}

#define LEARNED                                                                                  \
    .sig = MR_SAMPLER_SIG,                                                                       \
    .attrs = "num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; "    \
             "seed: int = 0; seed2: int = 0",                                                    \
    .flags = MR_STATEFUL | MR_NO_GRADIENT, .shape = mr_sampler_shape,                            \
    .kernels = MR_KERNELS(MR_CPU_ANY(run_learned)), .state_bytes = sizeof(learned),              \
    .init = learned_init, .deinit = learned_deinit
#define LEARNED_EXAMPLES                                                                         \
    MR_EXAMPLES(                                                                                 \
        "num_true=1 num_sampled=4 unique=false range_max=8: [[0], [1]] -> shape(4), "            \
        "[[0.5], [0.5]], [0.5, 0.5, 0.5, 0.5]",                                                  \
        "num_true=1 num_sampled=1 unique=true range_max=1: [[0]] -> [0], [[1]], [1]",            \
        "num_true=1 num_sampled=3 unique=true range_max=3: [[0]] -> shape(3), shape(1,1), "      \
        "shape(3)",                                                                              \
        "num_true=1 num_sampled=4 unique=true range_max=3: [[0]] -> !INVALID_ARGUMENT Sampler's", \
        "num_true=1 num_sampled=1 unique=true range_max=3: [[3]] -> !INVALID_ARGUMENT",          \
        "num_true=1 num_sampled=1 unique=true range_max=4294967296: [[3]] -> !INVALID_ARGUMENT "  \
        "Expected range <= kint32max. Got range: 4294967296")

MR_OP(LearnedUnigramCandidateSampler,
    .doc = "classes drawn by how often each was a true class so far",
    LEARNED, .examples = LEARNED_EXAMPLES);

MR_OP(ThreadUnsafeUnigramCandidateSampler,
    .doc = "LearnedUnigramCandidateSampler, for one step at a time",
    LEARNED, .examples = LEARNED_EXAMPLES);

/* ---- fixed ----
 *
 * Walker's alias method: each class has a bucket of the same size.  If it does not fill the bucket, one
 * other class fills the rest, so a draw is a random bucket and a random place in it. */

typedef struct bucket {
    float own; /* the share of the bucket that its own class fills */
    int32_t other;
} bucket;

typedef struct fixed {
    mr_sampler_state base;
    float *weights, total;
    bucket *buckets;
} fixed;

static int64_t draw_fixed(const void *ctx, mr_words *w, int64_t range)
{
    const fixed *s = ctx;
    float place = mr_philox_float(mr_words_next(w));
    uint32_t at = below_32(w, (uint32_t)range);
    return place < s->buckets[at].own ? (int64_t)at : s->buckets[at].other;
}

static float fixed_probability(const void *ctx, int64_t range, int64_t class_)
{
    const fixed *s = ctx;
    (void)range;
    return s->weights[class_] / s->total;
}

static mr_status *run_fixed(mr_run *r)
{
    static const mr_sampler sampler = {draw_fixed, fixed_probability};
    return mr_sampler_run(r, &sampler, r->state);
}

/* Pairs classes that fill less than their bucket with those that fill more. */
static void fill_buckets(fixed *s, int64_t n, double *share, int32_t *few, int32_t *many)
{
    double sum = 0;
    int64_t n_few = 0, n_many = 0;
    for (int64_t i = 0; i < n; i++)
        sum += s->weights[i];
    for (int64_t i = 0; i < n; i++) {
        share[i] = s->weights[i] * (double)n / sum;
        if (share[i] < 1)
            few[n_few++] = (int32_t)i;
        else
            many[n_many++] = (int32_t)i;
    }
    while (n_few > 0 && n_many > 0) {
        int32_t l = few[--n_few], h = many[--n_many];
        s->buckets[l].other = h;
        share[h] -= 1 - share[l];
        if (share[h] < 1)
            few[n_few++] = h;
        else
            many[n_many++] = h;
    }
    for (int64_t i = 0; i < n; i++)
        s->buckets[i].own = (float)share[i];
    while (n_few > 0) /* the remaining shares differ from 1 only by rounding */
        s->buckets[few[--n_few]].own = 1;
    while (n_many > 0)
        s->buckets[many[--n_many]].own = 1;
}

static mr_status *make_buckets(fixed *s, int64_t n)
{
    mr_status *st = NULL;
    double *share = mr_try_alloc(sizeof(double) * (size_t)n);
    int32_t *few = mr_try_alloc(sizeof(int32_t) * (size_t)n);
    int32_t *many = mr_try_alloc(sizeof(int32_t) * (size_t)n);
    s->buckets = mr_try_calloc((size_t)n, sizeof(bucket));
    if (share && few && many && s->buckets)
        fill_buckets(s, n, share, few, many);
    else
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld weights", (long long)n);
    mr_free(share);
    mr_free(few);
    mr_free(many);
    return st;
}

/* Weights are loaded one by one; those of other shards are skipped. */
typedef struct loading {
    fixed *s;
    int64_t id, n, shards, shard;
    float distortion;
} loading;

static mr_status *load_weight(loading *l, float w)
{
    if (l->id++ % l->shards != l->shard)
        return NULL;
    if (l->n == l->s->base.range)
        return mr_invalid("range is %lld must be equal to weights size  %lld or more",
                          (long long)l->s->base.range, (long long)l->n + 1);
    w = powf(w, l->distortion);
    if (!(w >= 0) || isinf(w))
        return mr_invalid("the weight of class %lld must be finite and not negative", (long long)l->n);
    l->s->weights[l->n++] = w;
    l->s->total += w;
    return NULL;
}

/* A line has fields separated by commas; the last one is the weight. */
static mr_status *load_line(loading *l, mr_sv line)
{
    if (line.n > 0 && line.p[line.n - 1] == '\r')
        line.n--;
    if (line.n == 0)
        return NULL;
    size_t at = line.n;
    while (at > 0 && line.p[at - 1] != ',')
        at--;
    if (l->id % l->shards != l->shard)
        return load_weight(l, 0);
    char *field = mr_strndup(line.p + at, MR_MIN(line.n - at, 64)), *end;
    float w = strtof(field, &end);
    bool bad = end == field || *end != '\0';
    mr_free(field);
    return bad ? mr_invalid("Wrong vocabulary format at line: %.*s", (int)MR_MIN(line.n, 200),
                            line.p)
               : load_weight(l, w);
}

static mr_status *load_file(loading *l, mr_sv path)
{
    mr_status *st = NULL;
    mr_str text = {0};
    char *name = mr_strndup(path.p, path.n);
    MR_GO(mr_file_read_all(name, &text));
    for (const char *p = text.p, *end = text.p + text.n; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        stop = stop ? stop : end;
        MR_GO(load_line(l, (mr_sv){p, (size_t)(stop - p)}));
        p = stop + 1;
    }
out:
    mr_str_deinit(&text);
    mr_free(name);
    return st;
}

enum { MOST_RESERVED = 1 << 26 };

/* Reserved ids come first and have weight 0. */
static mr_status *load_unigrams(mr_make *m, loading *l, mr_sv path)
{
    const mr_attr *unigrams;
    int64_t reserved;
    MR_TRY(mr_node_get_int(m->node, "num_reserved_ids", &reserved));
    MR_TRY(mr_node_get_list(m->node, "unigrams", MR_ATTR_FLOAT, &unigrams));
    if ((path.n == 0) == (unigrams->n == 0))
        return mr_invalid(path.n == 0 ? "Must provide either vocab_file or unigrams."
                                      : "Must only provide one of vocab_file and unigrams.");
    int64_t n = reserved / l->shards + (reserved % l->shards > l->shard);
    if (reserved < 0 || n > l->s->base.range)
        return mr_invalid("%lld reserved ids do not fit the range %lld", (long long)reserved,
                          (long long)l->s->base.range);
    if (n > MOST_RESERVED) /* a small graph must not be able to request this much memory */
        return mr_error(MR_RESOURCE_EXHAUSTED, "%lld reserved ids need too much memory", (long long)n);
    memset(l->s->weights, 0, sizeof(float) * (size_t)n);
    l->n = l->id = n;
    for (int i = 0; i < unigrams->n; i++)
        MR_TRY(load_weight(l, unigrams->fs[i]));
    return path.n > 0 ? load_file(l, path) : NULL;
}

static mr_status *check_weights(const fixed *s, int64_t n)
{
    int64_t positive = 0;
    if (n != s->base.range)
        return mr_invalid("range is %lld must be equal to weights size  %lld",
                          (long long)s->base.range, (long long)n);
    for (int64_t i = 0; i < n; i++)
        positive += s->weights[i] > 0;
    if (positive == 0 || isinf(s->total))
        return mr_invalid("the sum of all weights must be positive and finite, got %g", s->total);
    if (s->base.unique && positive < s->base.num_sampled)
        return mr_invalid("Sampler's range is too small.");
    return NULL;
}

static mr_status *fixed_init(mr_make *m, void *state)
{
    fixed *s = state;
    loading l = {.s = s};
    mr_sv path;
    MR_TRY(mr_sampler_init(m, state));
    MR_TRY(mr_node_get_float(m->node, "distortion", &l.distortion));
    MR_TRY(mr_node_get_int(m->node, "num_shards", &l.shards));
    MR_TRY(mr_node_get_int(m->node, "shard", &l.shard));
    MR_TRY(mr_node_get_str(m->node, "vocab_file", &path));
    if (s->base.range > INT32_MAX)
        return mr_invalid("Expected range <= kint32max. Got range: %lld",
                          (long long)s->base.range);
    s->weights = mr_try_alloc(sizeof(float) * (size_t)s->base.range);
    if (!s->weights)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory for %lld weights",
                        (long long)s->base.range);
    MR_TRY(load_unigrams(m, &l, path));
    MR_TRY(check_weights(s, l.n));
    return make_buckets(s, l.n);
}

static void fixed_deinit(void *state)
{
    fixed *s = state;
    mr_free(s->weights);
    mr_free(s->buckets);
    mr_random_deinit(state);
}

MR_OP(FixedUnigramCandidateSampler,
    .doc      = "classes drawn by weights from an attr or a file",
    .sig      = MR_SAMPLER_SIG,
    .attrs    = "num_true: int >= 1; num_sampled: int >= 1; unique: bool; range_max: int >= 1; "
                "vocab_file: string = ''; distortion: float = 1; num_reserved_ids: int = 0; "
                "num_shards: int >= 1 = 1; shard: int >= 0 = 0; unigrams: list(float) = []; "
                "seed: int = 0; seed2: int = 0",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_sampler_shape,
    .kernels  = MR_KERNELS(MR_CPU_ANY(run_fixed)),
    .state_bytes = sizeof(fixed), .init = fixed_init, .deinit = fixed_deinit,
    .examples = MR_EXAMPLES(
        "num_true=1 num_sampled=2 unique=false range_max=3 unigrams=[0, 5, 0]: [[0], [1]] -> "
        "[1, 1], [[0], [2]], [2, 2]",
        "num_true=1 num_sampled=2 unique=true range_max=3 unigrams=[1, 3]  num_reserved_ids=1: "
        "[[2]] -> shape(2), shape(1,1), shape(2)",
        "num_true=1 num_sampled=2 unique=false range_max=2 unigrams=[1, 4, 2, 4] num_shards=2 "
        "shard=1 distortion=0.5: [[0]] -> shape(2), [[1]], [1, 1]",
        "num_true=1 num_sampled=1 unique=false range_max=3 unigrams=[1, 2]: [[0]] -> "
        "!INVALID_ARGUMENT range is 3 must be equal to weights size  2",
        "num_true=1 num_sampled=1 unique=false range_max=2 unigrams=[1, 2, 3]: [[0]] -> "
        "!INVALID_ARGUMENT range is 2 must be equal to weights size",
        "num_true=1 num_sampled=1 unique=false range_max=2: [[0]] -> "
        "!INVALID_ARGUMENT Must provide either vocab_file or unigrams.",
        "num_true=1 num_sampled=1 unique=false range_max=2 unigrams=[1, 2] vocab_file=\"v\": [[0]] "
        "-> !INVALID_ARGUMENT Must only provide one of vocab_file and unigrams.",
        "num_true=1 num_sampled=1 unique=false range_max=2 vocab_file=\"no/such\": [[0]] -> "
        "!NOT_FOUND",
        "num_true=1 num_sampled=2 unique=true range_max=2 unigrams=[0, 2]: [[0]] -> "
        "!INVALID_ARGUMENT Sampler's range is too small.",
        "num_true=1 num_sampled=1 unique=false range_max=2 unigrams=[1, -2] distortion=0.5: [[0]] "
        "-> !INVALID_ARGUMENT"));
