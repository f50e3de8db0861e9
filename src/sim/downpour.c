/* sim/downpour.c -- Downpour SGD in virtual time.
 *
 * Each replica has at most one step, one fetch and one push in progress, each with the time of its next event; the
 * earliest event of all runs next. A fetch reads the server's parameters half way through, and a push is applied half
 * way through. A single machine is a replica whose fetches and pushes take no time. */
#include "sim/downpour.h"

#include <math.h>
#include <string.h>

#include "dist/downpour.h"

enum {
    FEATURES = 32, HIDDEN = 16, CLASSES = 8,
    TRAIN = 3000, HELD_OUT = 400, BATCH = 8,
    MOST_PARAMETERS = (FEATURES + 1) * HIDDEN + (HIDDEN + 1) * CLASSES,
    LOOK_EVERY = 40, /* updates between two evaluations of the loss */
};

const double mr_falls_rates[MR_FALLS_RATES] = {0.01, 0.03, 0.1, 0.3, 1, 3, 10};

static const double step_s = 0.05, way_s = 0.004; /* of a step; of a round trip to a server */

typedef struct problem {
    int hidden, n; /* 0: no hidden layer; parameters */
    float (*x)[FEATURES];
    int *y;
} problem;

typedef struct thing { /* an operation in progress */
    double at;         /* time of its next event; INFINITY: not in progress */
    bool half;         /* has not reached the server yet */
} thing;

typedef struct replica {
    mr_downpour_plan plan;
    float *w, *fetched, *accrued, *sent;
    thing step, fetch, push, watch;
    double slowness, idle_since;
    int64_t read_at; /* number of updates the server had applied at that time */
    int64_t fetched_at;
    uint64_t seed;
    bool idle;
} replica;

typedef struct falls {
    mr_falls_options o;
    problem p;
    replica *r;
    int n;
    float *w, *sums; /* of the server; sums of squares for Adagrad */
    double now;
    int64_t updates, steps;
    double stale_sum, waited_s;
    bool reached;
    double loss;
    mr_downpour_actions todo;
} falls;

/* ---- numbers ---- */

static uint64_t next_random(uint64_t *s) /* splitmix64 */
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static double draw_uniform(uint64_t *s) { return ((double)(next_random(s) >> 11) + 0.5) * 0x1p-53; }

static double draw_normal(uint64_t *s)
{
    double u = draw_uniform(s), v = draw_uniform(s);
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

/* ---- the network ----
 *
 * Parameters are [features + 1][hidden] and [hidden + 1][classes]; without a hidden layer [features + 1][classes]. */

static int inputs_of(const problem *p) { return p->hidden ? p->hidden : FEATURES; }

static void hidden_of(const problem *p, const float *w, const float *x, float *h)
{
    for (int j = 0; j < p->hidden; j++) {
        float sum = w[FEATURES * p->hidden + j];
        for (int i = 0; i < FEATURES; i++)
            sum += x[i] * w[i * p->hidden + j];
        h[j] = tanhf(sum);
    }
}

/* Computes the probabilities of the classes; h is the input of the last layer. */
static void classes_of(const problem *p, const float *w, const float *h, float *prob)
{
    int n = inputs_of(p);
    const float *v = w + (p->hidden ? (FEATURES + 1) * p->hidden : 0);
    float top = -INFINITY, sum = 0;
    for (int c = 0; c < CLASSES; c++) {
        prob[c] = v[n * CLASSES + c];
        for (int i = 0; i < n; i++)
            prob[c] += h[i] * v[i * CLASSES + c];
        top = fmaxf(top, prob[c]);
    }
    for (int c = 0; c < CLASSES; c++)
        sum += prob[c] = expf(prob[c] - top);
    for (int c = 0; c < CLASSES; c++)
        prob[c] /= sum;
}

static double loss_of(const problem *p, const float *w, const float *x, int y, float *h, float *prob)
{
    memcpy(h, x, FEATURES * sizeof *h);
    hidden_of(p, w, x, h);
    classes_of(p, w, h, prob);
    return -log(fmax((double)prob[y], 1e-30));
}

static double loss_held_out(const falls *f)
{
    float h[FEATURES], prob[CLASSES];
    double sum = 0;
    for (int k = TRAIN; k < TRAIN + HELD_OUT; k++)
        sum += loss_of(&f->p, f->w, f->p.x[k], f->p.y[k], h, prob);
    return sum / HELD_OUT;
}

/* Adds the gradient of one example, times `scale`. */
static void add_gradient(const problem *p, const float *w, const float *x, int y, float scale, float *g)
{
    float h[FEATURES], d[CLASSES];
    int n = inputs_of(p), at = p->hidden ? (FEATURES + 1) * p->hidden : 0;
    loss_of(p, w, x, y, h, d);
    d[y] -= 1;
    for (int c = 0; c < CLASSES; c++) {
        d[c] *= scale;
        g[at + n * CLASSES + c] += d[c];
        for (int i = 0; i < n; i++)
            g[at + i * CLASSES + c] += h[i] * d[c];
    }
    for (int j = 0; j < p->hidden; j++) {
        float back = 0;
        for (int c = 0; c < CLASSES; c++)
            back += w[at + j * CLASSES + c] * d[c];
        back *= 1 - h[j] * h[j];
        g[FEATURES * p->hidden + j] += back;
        for (int i = 0; i < FEATURES; i++)
            g[i * p->hidden + j] += x[i] * back;
    }
}

/* ---- data ---- */

/* Features differ in scale by a factor of 30, and a third of them are rare. The labels come from a network of random
 * weights that sees all features at the same scale, so that the small and rare ones matter too. */
static void make_example(const float *teacher, const float *size, uint64_t *seed, float *x, int *y)
{
    float h[HIDDEN] = {0}, best = -INFINITY;
    for (int i = 0; i < FEATURES; i++) {
        bool there = i % 3 || draw_uniform(seed) < 0.1;
        float z = there ? (float)draw_normal(seed) * (i % 3 ? 1.0f : 2.0f) : 0;
        x[i] = z * size[i];
        for (int j = 0; j < HIDDEN; j++)
            h[j] += z * teacher[i * HIDDEN + j];
    }
    for (int c = 0; c < CLASSES; c++) {
        float v = -0.35f * (float)c + 0.2f * (float)draw_normal(seed); /* later classes are rarer */
        for (int j = 0; j < HIDDEN; j++)
            v += tanhf(h[j] * 0.3f) * teacher[FEATURES * HIDDEN + j * CLASSES + c];
        if (v > best) {
            best = v;
            *y = c;
        }
    }
}

static mr_status *make_problem(const mr_falls_options *o, problem *p)
{
    uint64_t seed = 12345; /* always the same problem; the run's seed draws times, batches and initial parameters */
    float teacher[FEATURES * HIDDEN + HIDDEN * CLASSES], size[FEATURES];
    p->hidden = o->convex ? 0 : HIDDEN;
    p->n = (p->hidden ? (FEATURES + 1) * p->hidden : 0) + (inputs_of(p) + 1) * CLASSES;
    p->x = mr_try_calloc(TRAIN + HELD_OUT, sizeof *p->x);
    p->y = mr_try_calloc(TRAIN + HELD_OUT, sizeof *p->y);
    if (!p->x || !p->y)
        return mr_error(MR_RESOURCE_EXHAUSTED, "out of memory for %d examples", TRAIN + HELD_OUT);
    for (int i = 0; i < MR_COUNT(teacher); i++)
        teacher[i] = (float)draw_normal(&seed) * 0.8f;
    for (int i = 0; i < FEATURES; i++)
        size[i] = powf(30, -(float)(i * 7 % FEATURES) / FEATURES);
    for (int k = 0; k < TRAIN + HELD_OUT; k++)
        make_example(teacher, size, &seed, p->x[k], &p->y[k]);
    return NULL;
}

/* ---- servers ---- */

/* Applies one gradient at the server, and evaluates the loss every LOOK_EVERY updates. */
static void apply_gradient(falls *f, const float *g)
{
    float rate = (float)f->o.rate;
    for (int i = 0; i < f->p.n; i++) {
        if (f->o.method == MR_FALLS_DOWNPOUR_ADAGRAD) {
            f->sums[i] += g[i] * g[i];
            f->w[i] -= rate * g[i] / sqrtf(f->sums[i] + 1e-8f);
        } else {
            f->w[i] -= rate * g[i];
        }
    }
    if (++f->updates % LOOK_EVERY == 0) {
        f->loss = loss_held_out(f);
        f->reached = f->loss <= f->o.target;
    }
}

/* ---- replicas ---- */

static double draw_step(replica *r)
{
    double s = step_s * r->slowness * exp(0.15 * draw_normal(&r->seed));
    return draw_uniform(&r->seed) < 0.02 ? s * (3 + 7 * draw_uniform(&r->seed)) : s;
}

static double draw_way(const falls *f, replica *r)
{
    if (f->o.method == MR_FALLS_SGD)
        return 0;
    double s = way_s * exp(0.3 * draw_normal(&r->seed));
    return draw_uniform(&r->seed) < 0.01 ? s * 10 : s;
}

/* Starts the operations that the plan of a replica asks for, and accounts for the time it waits. */
static void carry_out(falls *f, replica *r)
{
    for (int i = 0; i < f->todo.n; i++)
        switch (f->todo.p[i].what) {
        case MR_DOWNPOUR_WATCH: r->watch = (thing){f->now + 0.01, false}; break;
        case MR_DOWNPOUR_FETCH: r->fetch = (thing){f->now + draw_way(f, r) / 2, true}; break;
        case MR_DOWNPOUR_INSTALL:
            memcpy(r->w, r->fetched, (size_t)f->p.n * sizeof *r->w);
            r->read_at = r->fetched_at;
            break;
        case MR_DOWNPOUR_STEP: r->step = (thing){f->now + draw_step(r), false}; break;
        case MR_DOWNPOUR_PUSH:
            memcpy(r->sent, r->accrued, (size_t)f->p.n * sizeof *r->sent);
            memset(r->accrued, 0, (size_t)f->p.n * sizeof *r->accrued);
            r->push = (thing){f->now + draw_way(f, r) / 2, true};
            break;
        case MR_DOWNPOUR_END: break;
        }
    f->todo.n = 0;
    bool idle = mr_downpour_waits(&r->plan);
    if (r->idle && !idle)
        f->waited_s += f->now - r->idle_since;
    if (!r->idle && idle)
        r->idle_since = f->now;
    r->idle = idle;
}

static void handle_event(falls *f, replica *r, mr_downpour_event e)
{
    mr_downpour_step(&r->plan, e, f->steps, (int64_t)(f->now * 1e9) + 1, &f->todo);
    if (e == MR_DOWNPOUR_BEGIN || e == MR_DOWNPOUR_STEPPED) /* there is always more data */
        mr_downpour_step(&r->plan, MR_DOWNPOUR_WANT, 0, 0, &f->todo);
    carry_out(f, r);
}

static void end_step(falls *f, replica *r)
{
    for (int k = 0; k < BATCH; k++) {
        int at = (int)(next_random(&r->seed) % TRAIN);
        add_gradient(&f->p, r->w, f->p.x[at], f->p.y[at], 1.0f / BATCH, r->accrued);
    }
    f->steps++;
    r->step.at = INFINITY;
    handle_event(f, r, MR_DOWNPOUR_STEPPED);
}

static void get_on_fetch(falls *f, replica *r)
{
    if (r->fetch.half) {
        memcpy(r->fetched, f->w, (size_t)f->p.n * sizeof *f->w);
        r->fetched_at = f->updates;
        r->fetch = (thing){f->now + draw_way(f, r) / 2, false};
        return;
    }
    r->fetch.at = INFINITY;
    handle_event(f, r, MR_DOWNPOUR_FETCHED);
}

static void get_on_push(falls *f, replica *r)
{
    if (r->push.half) {
        f->stale_sum += (double)(f->updates - r->read_at);
        apply_gradient(f, r->sent);
        r->push = (thing){f->now + draw_way(f, r) / 2, false};
        return;
    }
    r->push.at = INFINITY;
    handle_event(f, r, MR_DOWNPOUR_PUSHED);
}

static void get_on_watch(falls *f, replica *r)
{
    r->watch.at = INFINITY;
    handle_event(f, r, MR_DOWNPOUR_PROGRESS);
}

/* ---- the run ---- */

/* Advances the clock to the earliest event of all replicas and handles it. */
static void run_next(falls *f)
{
    static void (*const get_on[])(falls *, replica *) = {get_on_push, get_on_fetch, end_step, get_on_watch};
    double best = INFINITY;
    int who = 0, what = 0;
    for (int i = 0; i < f->n; i++) {
        const replica *r = &f->r[i];
        const double at[] = {r->push.at, r->fetch.at, r->step.at, r->watch.at};
        for (int k = 0; k < MR_COUNT(at); k++)
            if (at[k] < best) {
                best = at[k];
                who = i;
                what = k;
            }
    }
    f->now = best;
    if (best < f->o.limit_s)
        get_on[what](f, &f->r[who]);
}

/* The four arrays of a replica share one allocation, which r->w owns. */
static mr_status *make_replica(falls *f, int i)
{
    replica *r = &f->r[i];
    size_t n = (size_t)f->p.n;
    r->seed = f->o.seed * 1000003 + (uint64_t)i + 1;
    r->slowness = f->n == 1 ? 1 : exp(0.2 * draw_normal(&r->seed));
    r->step.at = r->fetch.at = r->push.at = r->watch.at = INFINITY;
    float *all = mr_try_calloc(4 * n, sizeof *all);
    if (!all)
        return mr_error(MR_RESOURCE_EXHAUSTED, "out of memory for %d replicas", f->n);
    r->w = all;
    r->fetched = all + n;
    r->accrued = all + 2 * n;
    r->sent = all + 3 * n;
    bool alone = f->o.method == MR_FALLS_SGD;
    mr_downpour_init(&r->plan, &(mr_downpour_rules){f->o.n_fetch, f->o.n_push, alone ? 0 : 20, i,
                                                    f->o.warm_steps, (int64_t)1e9});
    return NULL;
}

static mr_status *begin_run(falls *f)
{
    uint64_t seed = f->o.seed;
    MR_TRY(make_problem(&f->o, &f->p));
    f->w = mr_try_calloc((size_t)f->p.n, sizeof *f->w);
    f->sums = mr_try_calloc((size_t)f->p.n, sizeof *f->sums);
    f->r = mr_try_calloc((size_t)f->n, sizeof *f->r);
    if (!f->w || !f->sums || !f->r)
        return mr_error(MR_RESOURCE_EXHAUSTED, "out of memory for %d parameters", f->p.n);
    for (int i = 0; i < f->p.n; i++)
        f->w[i] = 0.1f * (float)draw_normal(&seed);
    for (int i = 0; i < f->n; i++)
        MR_TRY(make_replica(f, i));
    for (int i = 0; i < f->n; i++)
        handle_event(f, &f->r[i], MR_DOWNPOUR_BEGIN);
    return NULL;
}

static void deinit_run(falls *f)
{
    for (int i = 0; f->r && i < f->n; i++)
        mr_free(f->r[i].w); /* the other arrays are in the same allocation */
    mr_free(f->r);
    mr_free(f->w);
    mr_free(f->sums);
    mr_free(f->p.x);
    mr_free(f->p.y);
    mr_vec_deinit(&f->todo);
}

static void set_defaults(mr_falls_options *o)
{
    static const double best[2][3] = {{0.3, 0.1, 0.1}, {3, 1, 1}}; /* by problem and method, of mr_falls_rates */
    o->replicas = o->replicas > 0 ? o->replicas : 8;
    o->n_fetch = MR_MAX(o->n_fetch, 1);
    o->n_push = MR_MAX(o->n_push, 1);
    o->limit_s = o->limit_s > 0 ? o->limit_s : 600;
    o->target = o->target > 0 ? o->target : 0.9;
    o->rate = o->rate > 0 ? o->rate : best[o->convex][o->method];
    o->seed = o->seed ? o->seed : 1;
}

/* Runs until the loss is reached, the time is over, or the loss is NaN: then the training has diverged. */
mr_status *mr_falls_run(const mr_falls_options *o, mr_falls_result *out)
{
    falls f = {.o = *o, .loss = INFINITY};
    if ((int)o->method < 0 || o->method > MR_FALLS_DOWNPOUR_ADAGRAD || o->replicas > 10000)
        return mr_invalid("Unknown method %d, or too many replicas: %d, at most 10000", (int)o->method, o->replicas);
    set_defaults(&f.o);
    f.n = f.o.method == MR_FALLS_SGD ? 1 : f.o.replicas;
    mr_status *st = begin_run(&f);
    while (!st && !f.reached && f.now < f.o.limit_s && !(f.updates && isnan(f.loss)))
        run_next(&f);
    *out = (mr_falls_result){f.reached, f.reached ? f.now : f.o.limit_s, f.loss, f.steps,
                             f.updates ? f.stale_sum / (double)f.updates : 0, f.waited_s};
    deinit_run(&f);
    return st;
}
