/* sparse_logistic.c -- sparse logistic regression over parameter servers, by delayed block proximal gradient (OSDI'14, 5.1).
 *
 *     sparse_logistic [option number]...                (--help)
 *
 * Which of ten million features tell whether somebody clicks?  The weights w minimise
 *
 *     sum over examples of log(1 + exp(-y <w, x>)) + l1 * sum |w|
 *
 * where l1 makes most of them zero.  Features are cut into blocks of neighbouring keys.  In an iteration each worker takes
 * the next block, computes the gradient g and the curvature u of its own examples along the features of the block that
 * they have, and pushes both; the servers add up the workers' shares and take the proximal step (MR_PS_PROXIMAL); then the
 * workers pull what became of the block.  A worker may be `delay` iterations ahead of the slowest: then what it computes with
 * lacks the blocks that the slowest has not pushed yet, and nobody waits at once for a worker that stumbles.
 *
 * A worker's keys of a block are the same in every pass, so with cache_keys they travel once; nearly all weights are zero, so
 * they compress; and nearly all features would stay zero, so with kkt their gradients are not sent at all.
 *
 * The examples are made up from a seed: each has 50 features drawn by Zipf's law, of which one in a hundred has a weight.
 * Servers and workers are processes of this machine, which share nothing but what they send. */
#define _GNU_SOURCE
#include <math.h>
#include <millrace/ps.h>
#include <millrace/sketch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "options.h"

enum { MAX_WORKERS = 16, MAX_EVALUATIONS = 1000, ADDRESS = 256 };

/* X(field, option, what holds if it is not given, what it is for).  All are numbers from 0 on. */
#define SETTINGS(X) \
    X(features, "--features", "1e6", "keys of the table")                                         \
    X(examples, "--examples", "1e5", "of all workers")                                            \
    X(per_example, "--per-example", "50", "features of each")                                     \
    X(zipf, "--zipf", "1.1", "exponent of the features' frequencies")                             \
    X(workers, "--workers", "2", "processes")                                                     \
    X(servers, "--servers", "1", "processes; with two or more every range has a replica")         \
    X(blocks, "--blocks", "40", "of neighbouring features; a pass is an iteration for each")      \
    X(passes, "--passes", "10", "over all blocks")                                                \
    X(evaluations, "--evaluations", "1", "of the objective in a pass")                            \
    X(delay, "--delay", "0", "iterations a worker may be ahead; below the number of blocks")      \
    X(l1, "--l1", "5", "weight of the penalty")                                                   \
    X(rate, "--rate", "1", "of the proximal steps: 1 or less")                                    \
    X(min_count, "--min-count", "0", "features that come less often are dropped before training") \
    X(cache_keys, "--cache-keys", "0", "1: key lists that were sent before travel as their hash") \
    X(compress, "--compress", "0", "1: Snappy")                                                   \
    X(half, "--half", "0", "1: bfloat16, 2: 16 bits fixed point")                                 \
    X(kkt, "--kkt", "0", "1: features that would stay zero are not sent")                         \
    X(slow, "--slow", "0", "a worker sleeps this many times as long as it computes")              \
    X(wander, "--wander", "0", "1: which worker is slow changes with every iteration")            \
    X(seed, "--seed", "1", "of the examples")

#define FIELD(field, name, otherwise, about) double field;
static struct settings {
    SETTINGS(FIELD)
} set;

#define ROW(field, name, otherwise, about) {name, "N", otherwise, about},
static option options[] = {SETTINGS(ROW){NULL, NULL, NULL, NULL}};
static const char about[] = "sparse_logistic: sparse logistic regression over parameter servers, all of them processes of this machine.";

/* What a worker tells, in memory that the processes share.  Nothing of it is used in training. */
typedef struct report {
    int n; /* evaluations */
    double seconds[MAX_EVALUATIONS], loss[MAX_EVALUATIONS], norm[MAX_EVALUATIONS];
    int64_t bytes[MAX_EVALUATIONS], offered[MAX_EVALUATIONS], sent[MAX_EVALUATIONS];
    int64_t keys, iterations;
    double waited_s, computed_s, slept_s;
} report;

/* With a delay no two workers see the same weights.  So the first one keeps what the servers have, in memory that the processes
 * share, and the objective is computed when training is over. */
static float *snapshots;
static size_t snapshot_floats;

static TF_Status *status;

static void check(const char *what)
{
    if (TF_GetCode(status) != TF_OK) {
        fprintf(stderr, "sparse_logistic: %s: %s\n", what, TF_Message(status));
        exit(1);
    }
}

static void *room(size_t n, size_t bytes)
{
    void *p = calloc(n ? n : 1, bytes);
    if (!p) {
        fprintf(stderr, "sparse_logistic: no memory for %zu of %zu bytes\n", n, bytes);
        exit(1);
    }
    return p;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_s(double s)
{
    struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    while (nanosleep(&t, &t)) {
    }
}

/* ---- examples out of nothing ---- */

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Uniform in [0, 1), rising through the states. */
static double draw(uint64_t *state) { return (double)(mix(*state += 0x9e3779b97f4a7c15u) >> 11) * 0x1p-53; }

/* A feature: its rank by Zipf's law (by the inverse of the continuous distribution), and the ranks scattered over all keys, so that
 * every block has its share of frequent ones.  The factor is a prime. */
static uint32_t draw_feature(uint64_t *state)
{
    double n = set.features, power = 1 - set.zipf;
    double top = power == 0 ? log(n) : pow(n, power) - 1;
    double x = power == 0 ? exp(draw(state) * top) : pow(1 + draw(state) * top, 1 / power);
    uint64_t rank = x < n ? (uint64_t)x - 1 : (uint64_t)n - 1;
    return (uint32_t)(rank * UINT64_C(2654435761) % (uint64_t)n);
}

/* The weight that the examples were made with: of one feature in a hundred. */
static double true_weight(uint32_t feature)
{
    uint64_t state = mix((uint64_t)set.seed * 1000003 + feature);
    return draw(&state) < 0.01 ? 8 * draw(&state) - 4 : 0;
}

typedef struct entry { /* the example has the feature */
    uint32_t feature, example;
} entry;

/* Example `number` of all: its features, all different, to e; returns y, 1 or -1. */
static int8_t make_example(int64_t number, uint32_t as, int per_example, entry *e)
{
    uint64_t state = mix((uint64_t)set.seed << 40 ^ (uint64_t)number);
    double margin = 0;
    for (int i = 0; i < per_example;) {
        uint32_t f = draw_feature(&state);
        int known = 0;
        for (int j = 0; j < i; j++)
            known |= e[j].feature == f;
        if (known)
            continue;
        e[i++] = (entry){f, as};
        margin += true_weight(f);
    }
    return draw(&state) < 1 / (1 + exp(-margin)) ? 1 : -1;
}

/* By feature, then by example: the examples are in their order already. */
static void sort_entries(entry **e, size_t n)
{
    enum { BITS = 11 };
    entry *to = room(n, sizeof *to);
    size_t *at = room((1 << BITS) + 1, sizeof *at);
    for (int shift = 0; shift < 32 && (uint64_t)set.features >> shift; shift += BITS) {
        memset(at, 0, ((1 << BITS) + 1) * sizeof *at);
        for (size_t i = 0; i < n; i++)
            at[((*e)[i].feature >> shift & ((1 << BITS) - 1)) + 1]++;
        for (int i = 0; i < 1 << BITS; i++)
            at[i + 1] += at[i];
        for (size_t i = 0; i < n; i++)
            to[at[(*e)[i].feature >> shift & ((1 << BITS) - 1)]++] = (*e)[i];
        entry *other = *e;
        *e = to;
        to = other;
    }
    free(at);
    free(to);
}

/* ---- a worker's share of them, by feature ---- */

typedef struct shard {
    uint32_t n; /* examples */
    int8_t *y;
    size_t n_keys;
    uint64_t *keys;   /* features that occur, rising in each block */
    uint32_t *starts; /* examples of key k: rows[starts[k]] .. rows[starts[k + 1] - 1] */
    uint32_t *rows;
    size_t *blocks;    /* keys of block b: blocks[b] .. blocks[b + 1] - 1 */
    uint8_t *together; /* [b * n + i]: how many features of block b example i has */
    /* what changes */
    float *w;      /* by key, as last pulled */
    double *margin; /* <w, x> of each example */
} shard;

static void gather_columns(shard *s, const entry *e, size_t n)
{
    s->rows = room(n, sizeof *s->rows);
    for (size_t i = 0; i < n; i++)
        s->n_keys += i == 0 || e[i].feature != e[i - 1].feature;
    s->keys = room(s->n_keys, sizeof *s->keys);
    s->starts = room(s->n_keys + 1, sizeof *s->starts);
    for (size_t i = 0, k = 0; i < n; i++) {
        if (i == 0 || e[i].feature != e[i - 1].feature) {
            s->keys[k] = e[i].feature;
            s->starts[k++] = (uint32_t)i;
        }
        s->rows[i] = e[i].example;
    }
    s->starts[s->n_keys] = (uint32_t)n;
}

/* Iterations between evaluations. */
static int64_t evaluation_every(void) { return (int64_t)(set.blocks / set.evaluations); }

static uint64_t block_size(void) { return (uint64_t)ceil(set.features / set.blocks); }

/* A block is a table of its own, so that the servers count the workers' pushes of it by themselves: its keys begin at 0. */
static void cut_blocks(shard *s)
{
    int blocks = (int)set.blocks;
    s->blocks = room((size_t)blocks + 1, sizeof *s->blocks);
    s->together = room((size_t)blocks * s->n, 1);
    for (int b = 0; b < blocks; b++) {
        uint64_t first = block_size() * (uint64_t)b;
        size_t k = s->blocks[b];
        for (; k < s->n_keys && s->keys[k] - first < block_size(); k++) {
            s->keys[k] -= first;
            for (uint32_t i = s->starts[k]; i < s->starts[k + 1]; i++) {
                uint8_t *count = &s->together[(size_t)b * s->n + s->rows[i]];
                *count += *count < 255;
            }
        }
        s->blocks[b + 1] = k;
    }
}

/* The worker's examples; their features, sorted, are for lay_out. */
static entry *make_examples(shard *s, int worker, size_t *n)
{
    int per_example = (int)set.per_example;
    int64_t first = (int64_t)(set.examples / set.workers * worker), end = (int64_t)(set.examples / set.workers * (worker + 1));
    *s = (shard){.n = (uint32_t)(end - first)};
    s->y = room(s->n, 1);
    *n = (size_t)s->n * (size_t)per_example;
    entry *e = room(*n, sizeof *e);
    for (uint32_t i = 0; i < s->n; i++)
        s->y[i] = make_example(first + i, i, per_example, e + (size_t)i * (size_t)per_example);
    sort_entries(&e, *n);
    return e;
}

/* e is used up. */
static void lay_out(shard *s, entry *e, size_t n)
{
    gather_columns(s, e, n);
    free(e);
    cut_blocks(s);
    s->w = room(s->n_keys, sizeof *s->w);
    s->margin = room(s->n, sizeof *s->margin);
}

/* ---- the mathematics of one worker ---- */

/* Gradient and curvature along the features of a block, side by side.  The curvature must bound what all features of the block do
 * together, since they move at the same time: an example that has m of them counts m times.  So do features of the `missing`
 * blocks, which move too without our seeing it; a third of them, for not all go the same way. */
static void differentiate(const shard *s, int block, int missing, float *slope, float *bend, float *gu)
{
    const uint8_t *together = s->together + (size_t)block * s->n;
    float others = (float)(set.per_example / set.blocks * missing / 3);
    for (uint32_t i = 0; i < s->n; i++) {
        float p = 1 / (1 + expf((float)-s->margin[i])); /* that y is 1 */
        slope[i] = s->y[i] > 0 ? p - 1 : p;
        bend[i] = p * (1 - p) * ((float)together[i] + others);
    }
    for (size_t k = s->blocks[block]; k < s->blocks[block + 1]; k++, gu += 2) {
        float g = 0, u = 0;
        for (uint32_t i = s->starts[k]; i < s->starts[k + 1]; i++) {
            g += slope[s->rows[i]];
            u += bend[s->rows[i]];
        }
        gu[0] = g;
        gu[1] = u;
    }
}

/* The block's weights are `fresh` now. */
static void move(shard *s, int block, const float *fresh)
{
    for (size_t k = s->blocks[block]; k < s->blocks[block + 1]; k++) {
        double change = (double)fresh[k - s->blocks[block]] - (double)s->w[k];
        if (change == 0)
            continue;
        for (uint32_t i = s->starts[k]; i < s->starts[k + 1]; i++)
            s->margin[s->rows[i]] += change;
        s->w[k] = fresh[k - s->blocks[block]];
    }
}

static double loss_of(const shard *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        double m = s->y[i] * s->margin[i];
        sum += m > 0 ? log1p(exp(-m)) : log1p(exp(m)) - m;
    }
    return sum;
}

/* ---- a worker ---- */

typedef struct worker {
    int number, clock;
    int *tables; /* the weights of each block */
    shard s;
    mr_ps *ps, *observer; /* the second only for snapshots */
    float *gu, *fresh, *slope, *bend;
    double started, computed_s, slept_s;
    uint64_t random;
    report *to;
} worker;

/* Nobody waits for a worker that is not there yet: so all are counted before the first iteration. */
static void assemble(worker *w)
{
    mr_ps_table_options o = {.struct_size = sizeof o, .num_keys = 1, .update = MR_PS_ADD};
    int table = mr_ps_table(w->ps, "here", &o, status);
    float here = 1;
    mr_ps_wait(w->ps, mr_ps_push_range(w->ps, table, 0, 1, &here, NULL, status), status);
    check("being counted");
    while (mr_ps_wait(w->ps, mr_ps_pull_range(w->ps, table, 0, 1, &here, NULL, status), status), check("counting the others"),
           here < (float)set.workers)
        sleep_s(0.01);
}

/* Until all workers have come here. */
static void meet(worker *w)
{
    for (int i = 0; i <= (int)set.delay; i++)
        mr_ps_iteration(w->ps, status);
    check("waiting for the others");
}

static void make_tables(mr_ps *ps, int *tables)
{
    /* The servers step by the mean of the workers' shares, so l1 is a share too. */
    mr_ps_table_options t = {.struct_size = sizeof t,
                             .num_keys = block_size(),
                             .update = MR_PS_PROXIMAL,
                             .rate = (float)set.rate,
                             .l1 = (float)(set.l1 / set.workers),
                             .aggregate = (int)set.workers};
    for (int b = 0; b < (int)set.blocks; b++) {
        char name[32];
        snprintf(name, sizeof name, "w%d", b);
        tables[b] = mr_ps_table(ps, name, &t, status);
        check("making a table");
    }
}

static void connect_worker(worker *w, const char *manager)
{
    mr_ps_options o = {.struct_size = sizeof o,
                       .manager = manager,
                       .delay = (int)set.delay,
                       .cache_keys = set.cache_keys != 0,
                       .compress = set.compress != 0,
                       .half = (unsigned char)set.half,
                       .timeout_ms = 120000}; /* a busy machine takes its time */
    w->ps = mr_ps_connect(&o, status);
    check("connecting");
    w->tables = room((size_t)set.blocks, sizeof *w->tables);
    make_tables(w->ps, w->tables);
    if (snapshots && w->number == 0) {
        w->observer = mr_ps_connect(&(mr_ps_options){.struct_size = sizeof(mr_ps_options), .manager = manager, .observer = 1}, status);
        check("connecting again");
        make_tables(w->observer, w->tables); /* finds the same ones */
    }
    mr_ps_table_options c = {.struct_size = sizeof c, .num_keys = (uint64_t)set.blocks, .update = MR_PS_ADD};
    w->clock = mr_ps_table(w->ps, "clock", &c, status);
    check("making the clock");
}

/* Leaves out features that all workers together have too rarely, by sketches that the servers add up.  Returns how many
 * entries are left. */
static size_t drop_rare(worker *w, entry *e, size_t n)
{
    enum { AT_ONCE = 1 << 16 };
    uint64_t *keys = room(AT_ONCE, sizeof *keys);
    uint32_t *counts = room(AT_ONCE, sizeof *counts);
    mr_sketch *s = mr_sketch_new((uint64_t)set.features, 2, (uint64_t)set.seed, status);
    check("making a sketch");
    for (size_t i = 0, m; i < n; i += m) {
        for (m = 0; m < AT_ONCE && i + m < n; m++)
            keys[m] = e[i + m].feature;
        mr_sketch_insert(s, keys, m);
    }
    size_t size = mr_sketch_size(s), left = 0;
    float *counters = room(size, sizeof *counters);
    mr_sketch_get(s, counters);
    mr_ps_table_options o = {.struct_size = sizeof o, .num_keys = size, .update = MR_PS_ADD};
    int table = mr_ps_table(w->ps, "sketch", &o, status);
    check("making the table of the sketch");
    mr_ps_wait(w->ps, mr_ps_push_range(w->ps, table, 0, size, counters, NULL, status), status);
    check("pushing the sketch");
    meet(w);
    mr_ps_wait(w->ps, mr_ps_pull_range(w->ps, table, 0, size, counters, NULL, status), status);
    check("pulling the sketch");
    mr_sketch_set(s, counters);
    for (size_t i = 0, m; i < n; i += m) {
        for (m = 0; m < AT_ONCE && i + m < n; m++)
            keys[m] = e[i + m].feature;
        mr_sketch_counts(s, keys, m, counts);
        for (size_t k = 0; k < m; k++)
            if (counts[k] >= set.min_count)
                e[left++] = e[i + k];
    }
    mr_sketch_free(s);
    free(counters), free(keys), free(counts);
    return left;
}

static void push_block(worker *w, int block)
{
    shard *s = &w->s;
    size_t first = s->blocks[block], n = s->blocks[block + 1] - first;
    mr_ps_call call = {.struct_size = sizeof call};
    if (set.kkt != 0) {
        call.kkt = s->w + first;
        call.kkt_threshold = (float)(0.9 * set.l1 / set.workers);
    }
    mr_ps_task t = mr_ps_push(w->ps, w->tables[block], s->keys + first, n, w->gu, &call, status);
    check("pushing");
    if (set.delay == 0)
        return; /* mr_ps_iteration says enough */
    /* The clock of a block counts the pushes of it that have been applied. */
    mr_ps_call after = {.struct_size = sizeof after, .after = &t, .num_after = 1};
    mr_ps_push(w->ps, w->clock, &(uint64_t){(uint64_t)block}, 1, &(float){1}, &after, status);
    check("pushing");
}

/* Whether all workers have pushed the block so many times. */
static int is_complete(worker *w, int block, int64_t times)
{
    float count = 0;
    mr_ps_wait(w->ps, mr_ps_pull(w->ps, w->clock, &(uint64_t){(uint64_t)block}, 1, &count, NULL, status), status);
    check("pulling");
    return count >= (float)((double)times * set.workers);
}

static void pull_block(worker *w, int block)
{
    shard *s = &w->s;
    size_t first = s->blocks[block], n = s->blocks[block + 1] - first;
    mr_ps_task t = mr_ps_pull(w->ps, w->tables[block], s->keys + first, n, w->fresh, NULL, status);
    check("pulling");
    mr_ps_wait(w->ps, t, status);
    check("pulling");
    double start = now();
    move(s, block, w->fresh);
    w->computed_s += now() - start;
}

/* Sleeps if it is this worker's turn to be slow: for a while whose mean is `slow` times what it computed. */
static void stumble(worker *w, int64_t iteration, double computed_s)
{
    uint64_t state = mix((uint64_t)iteration + 77);
    int slow = set.wander != 0 ? (int)(draw(&state) * set.workers) : (int)set.workers - 1;
    if (set.slow == 0 || slow != w->number)
        return;
    double s = set.slow * computed_s * -log(1 - draw(&w->random));
    w->slept_s += s;
    sleep_s(s);
}

/* All weights as they are now, by a client of its own: its bytes and time are no part of training. */
static void take_snapshot(worker *w, float *to)
{
    double start = now();
    for (int b = 0; b < (int)set.blocks; b++) {
        mr_ps_pull_range(w->observer, w->tables[b], 0, block_size(), to + (size_t)b * block_size(), NULL, status);
        check("pulling all weights");
    }
    mr_ps_wait_all(w->observer, status);
    check("pulling all weights");
    w->started += now() - start;
}

static void evaluate(worker *w)
{
    report *r = w->to;
    int i = r->n;
    mr_ps_stats st = {.struct_size = sizeof st};
    if (i == MAX_EVALUATIONS)
        return;
    mr_ps_get_stats(w->ps, &st);
    r->bytes[i] = st.bytes_sent + st.bytes_received;
    r->offered[i] = st.rows_offered;
    r->sent[i] = st.rows_sent;
    r->waited_s = st.waited_s;
    r->seconds[i] = now() - w->started;
    r->n = i + 1;
    if (snapshots) {
        if (w->number == 0)
            take_snapshot(w, snapshots + (size_t)i * snapshot_floats);
        return;
    }
    r->loss[i] = loss_of(&w->s);
    for (int b = 0; b < (int)set.blocks && w->number == 0; b++) {
        double sum = 0;
        mr_ps_vector(w->ps, MR_PS_NORM1, w->tables[b], w->tables[b], 0, &sum, status);
        check("summing up the weights");
        r->norm[i] += sum;
    }
}

/* The objective at each snapshot: this worker's share of it. */
static void evaluate_snapshots(worker *w)
{
    shard *s = &w->s;
    for (int i = 0; i < w->to->n; i++) {
        const float *all = snapshots + (size_t)i * snapshot_floats;
        for (int b = 0; b < (int)set.blocks; b++) {
            const float *weights = all + (size_t)b * block_size();
            for (size_t k = s->blocks[b]; k < s->blocks[b + 1]; k++)
                w->fresh[k - s->blocks[b]] = weights[s->keys[k]];
            move(s, b, w->fresh);
        }
        w->to->loss[i] = loss_of(s);
        for (size_t k = 0; k < snapshot_floats && w->number == 0; k++)
            w->to->norm[i] += fabs((double)all[k]);
    }
}

/* Every pass in another order, the same for all workers. */
static int block_of(int64_t iteration)
{
    int n = (int)set.blocks, at = (int)(iteration % n);
    uint64_t state = mix((uint64_t)(iteration / n) + (uint64_t)set.seed);
    uint64_t step = 1 + (uint64_t)(draw(&state) * (n - 1));
    while (n % (int)step == 0 && step > 1) /* coprime to n, so that each comes once */
        step--;
    for (uint64_t a = step, b = (uint64_t)n; b;) {
        uint64_t c = a % b;
        a = b;
        b = c;
        if (b == 0 && a != 1)
            step = 1;
    }
    return (int)(((uint64_t)at * step + (uint64_t)(draw(&state) * n)) % (uint64_t)n);
}

/* Pulls the blocks of iterations `*from` .. t - 1 as far as all workers have pushed them.  Those before t - delay they have, for
 * nobody may be further ahead. */
static void refresh(worker *w, int64_t *from, int64_t t)
{
    for (; *from < t; ++*from) {
        int block = block_of(*from);
        if (*from >= t - (int64_t)set.delay && !is_complete(w, block, *from / (int64_t)set.blocks + 1))
            return;
        pull_block(w, block);
    }
}

static void train(worker *w)
{
    int64_t iterations = (int64_t)(set.passes * set.blocks), fresh = 0; /* iterations whose blocks have been pulled */
    int64_t every = evaluation_every();
    evaluate(w);
    for (int64_t t = 0; t < iterations; t++) {
        double start = now();
        differentiate(&w->s, block_of(t), (int)(t - fresh), w->slope, w->bend, w->gu);
        double computed_s = now() - start;
        w->computed_s += computed_s;
        stumble(w, t, computed_s);
        push_block(w, block_of(t));
        mr_ps_iteration(w->ps, status);
        check("waiting for the others");
        refresh(w, &fresh, t + 1);
        if ((t + 1) % every == 0 && t + 1 < iterations)
            evaluate(w);
    }
    meet(w);
    refresh(w, &fresh, iterations);
    evaluate(w);
    meet(w);
    if (snapshots)
        evaluate_snapshots(w);
    w->to->iterations = iterations;
}

static void run_worker(int number, const char *manager, report *to)
{
    worker w = {.number = number, .to = to, .random = mix((uint64_t)number + 5)};
    size_t n, most = 0;
    entry *e = make_examples(&w.s, number, &n);
    connect_worker(&w, manager);
    assemble(&w);
    if (set.min_count > 1)
        n = drop_rare(&w, e, n);
    lay_out(&w.s, e, n);
    for (int b = 0; b < (int)set.blocks; b++)
        most = w.s.blocks[b + 1] - w.s.blocks[b] > most ? w.s.blocks[b + 1] - w.s.blocks[b] : most;
    w.gu = room(2 * most, sizeof *w.gu);
    w.fresh = room(most, sizeof *w.fresh);
    w.slope = room(w.s.n, sizeof *w.slope);
    w.bend = room(w.s.n, sizeof *w.bend);
    meet(&w);
    w.started = now();
    train(&w);
    to->keys = (int64_t)w.s.n_keys;
    to->computed_s = w.computed_s;
    to->slept_s = w.slept_s;
    mr_ps_free(w.observer);
    mr_ps_free(w.ps);
}

/* ---- servers, and everything together ---- */

/* Serves until the other end of `stop` is closed.  The first one starts the manager, and tells its address. */
static void run_server(int number, const char *manager, int tell, int stop)
{
    mr_ps_manager *m = NULL;
    if (number == 0) {
        mr_ps_manager_options o = {.struct_size = sizeof o,
                                   .address = "127.0.0.1:0",
                                   .servers = (int)set.servers,
                                   .replicas = set.servers > 1 ? 2 : 1,
                                   .num_ranges = 4 * (int)set.servers};
        m = mr_ps_manager_start(&o, status);
        check("starting the manager");
        char address[ADDRESS] = {0};
        snprintf(address, sizeof address, "%s", mr_ps_manager_address(m));
        if (write(tell, address, sizeof address) != sizeof address)
            exit(1);
    }
    mr_ps_server_options o = {.struct_size = sizeof o, .manager = m ? mr_ps_manager_address(m) : manager};
    mr_ps_server *s = mr_ps_server_start(&o, status);
    check("starting a server");
    char byte;
    while (read(stop, &byte, 1) > 0) {
    }
    mr_ps_server_free(s);
    mr_ps_manager_free(m);
}

/* Ends the program where the numbers do not go together. */
static void read_settings(int argc, char **argv)
{
    read_options(argc, argv, about, options);
#define READ(field, name, otherwise, about) set.field = number(name);
    SETTINGS(READ)
    int fits = set.workers >= 1 && set.workers <= MAX_WORKERS && set.servers >= 1 && set.servers <= MAX_WORKERS && set.blocks >= 1 &&
               set.delay < set.blocks &&
               set.features >= set.blocks && set.features < 4e9 && set.per_example >= 1 && set.per_example * 4 <= set.features &&
               set.evaluations >= 1 && set.evaluations <= set.blocks;
#define FITS(field, name, otherwise, about) fits &= set.field >= 0;
    SETTINGS(FITS)
    if (!fits) {
        fprintf(stderr, "from 1 to %d workers and servers; a delay below the number of blocks, not more blocks than features, "
                        "not more evaluations than blocks, four times as many features as an example has\n", MAX_WORKERS);
        exit(2);
    }
}

/* One line an evaluation, then what each worker did. */
static void tell(const report *r)
{
    int workers = (int)set.workers;
    printf("%8s %9s %14s %12s %10s %10s\n", "pass", "seconds", "objective", "sum |w|", "MB", "% dropped");
    for (int i = 0; i < r[0].n; i++) {
        double loss = 0, seconds = 0, bytes = 0, offered = 0, sent = 0;
        for (int k = 0; k < workers; k++) {
            loss += r[k].loss[i];
            seconds = fmax(seconds, r[k].seconds[i]);
            bytes += (double)r[k].bytes[i];
            offered += (double)(r[k].offered[i] - (i ? r[k].offered[i - 1] : 0));
            sent += (double)(r[k].sent[i] - (i ? r[k].sent[i - 1] : 0));
        }
        printf("%8.2f %9.3f %14.3f %12.3f %10.3f %10.2f\n", i * (double)evaluation_every() / set.blocks, seconds,
               loss + set.l1 * r[0].norm[i], r[0].norm[i], bytes / 1e6, offered > 0 ? 100 * (1 - sent / offered) : 0);
    }
    for (int k = 0; k < workers; k++)
        printf("worker %d: %lld keys, computed %.3f s, slept %.3f s, idle %.3f s\n", k, (long long)r[k].keys, r[k].computed_s, r[k].slept_s,
               r[k].waited_s);
}

static pid_t children[2 * MAX_WORKERS];
static int n_children;

/* 0 in the child. */
static pid_t start_child(void)
{
    fflush(stdout);
    pid_t p = fork();
    if (p < 0) {
        perror("fork");
        exit(1);
    }
    if (p == 0)
        status = TF_NewStatus();
    else
        children[n_children++] = p;
    return p;
}

/* Waits for n children; when one fails the others would wait for it in vain. */
static int wait_for(int n)
{
    int how, failed = 0;
    for (pid_t p; n > 0 && (p = wait(&how)) > 0; n--) {
        for (int i = 0; i < n_children; i++) {
            if (children[i] == p)
                children[i] = 0; /* the number may be somebody else's soon */
            else if (how && !failed && children[i])
                kill(children[i], SIGTERM);
        }
        failed |= how != 0;
    }
    return failed;
}

int main(int argc, char **argv)
{
    read_settings(argc, argv);
    int workers = (int)set.workers, servers = (int)set.servers, told[2], stop[2];
    report *reports = mmap(NULL, sizeof *reports * MAX_WORKERS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char manager[ADDRESS] = {0};
    if (set.delay > 0) {
        size_t most = (size_t)fmin(set.passes * set.blocks / (double)evaluation_every() + 2, MAX_EVALUATIONS);
        snapshot_floats = (size_t)set.blocks * block_size();
        snapshots = mmap(NULL, most * snapshot_floats * sizeof *snapshots, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1, 0);
    }
    if (reports == MAP_FAILED || snapshots == MAP_FAILED || pipe(told) || pipe(stop))
        return perror("sparse_logistic"), 1;
    for (int i = 0; i < servers; i++) {
        if (start_child() == 0) {
            close(stop[1]);
            run_server(i, manager, told[1], stop[0]);
            return 0;
        }
        if (i == 0) {
            close(told[1]);
            if (read(told[0], manager, sizeof manager) != sizeof manager)
                return 1;
        }
    }
    for (int i = 0; i < workers; i++)
        if (start_child() == 0) {
            close(stop[1]);
            run_worker(i, manager, &reports[i]);
            return 0;
        }
    int failed = wait_for(workers);
    close(stop[1]);
    failed |= wait_for(n_children - workers);
    if (!failed)
        tell(reports);
    return failed;
}
