/* ops/nn/conv_float.c -- convolutions of floats: how a batch is split over primitives and threads.
 *
 * A pass over images runs in units of 1, 2, 4.. images: enough images to make a unit worth handing to
 * a thread, and smaller units for the remainder.  So the primitives depend only on the order of
 * magnitude of the batch size: seven primitives serve ten thousand batch sizes.
 *
 * For the gradient of a filter, the primitive sums over the images of a unit.  Each thread takes a
 * part of the batch, in units as large as possible, and the sums of the parts are added in order. */
#include "base/deterministic.h"
#include "base/simd.h"
#include "ops/dnnl_conv.h"
#include "ops/first_error.h"
#include "ops/nn/conv_float.h"

enum {
    MAX_UNIT = 64, /* images; a power of two */
    POWERS = 7,    /* 1, 2, .. MAX_UNIT */
};
#define UNIT_WORK 1e7 /* multiplications that make a unit worth the call and the hand-over to a thread */
#define WORK_NS 0.025 /* per multiplication */
#define ADD_NS 0.3

/* State that the parts of one pass share. */
typedef struct job {
    mr_run *r;
    mr_dnnl_convs *kept;
    mr_conv_pass pass;
    const mr_conv *conv;
    const float *image, *out_image;
    mr_dnnl_conv *units[POWERS]; /* by the power of two; NULL if not needed */
    int64_t unit;                /* images of a full unit */
    const mr_tensor *constant;   /* the filter, if it never changes; else NULL */
    mr_dnnl_filter *filter;      /* for passes over images: the filter in the primitives' format */
    float *sums; /* for the filter's gradient: `size` floats per part, then a spare per part */
    int64_t size, parts;
    mr_first_error failed; /* of any part */
} job;

static int power_of(int64_t unit) { return __builtin_ctzll((unsigned long long)unit); }
static int64_t power_below(int64_t n)
{
    return INT64_C(1) << (63 - __builtin_clzll((unsigned long long)n));
}

static void job_fail(job *j, mr_status *st) { mr_first_error_note(&j->failed, st); }

static mr_status *job_end(job *j, mr_status *st)
{
    for (int i = 0; i < POWERS; i++)
        mr_dnnl_conv_unref(j->units[i]);
    mr_dnnl_filter_unref(j->filter);
    mr_status *failed = mr_first_error_take(&j->failed);
    if (!st)
        return failed;
    mr_status_free(failed);
    return st;
}

/* Makes sure that the primitive of a unit exists.  All units use the filter format of the first one, `like`. */
static mr_status *need_unit(job *j, int64_t unit, const mr_dnnl_conv *like)
{
    mr_conv c = *j->conv;
    c.batch = unit;
    mr_dnnl_conv **p = &j->units[power_of(unit)];
    return *p ? NULL : mr_dnnl_convs_get(j->kept, j->pass, &c, like, p);
}

/* Calls fn for the units that cover images begin..end: full units, then smaller powers of two. */
static mr_status *each_unit(job *j, int64_t begin, int64_t end,
                            mr_status *(*fn)(job *j, void *ctx, int64_t at, int64_t unit),
                            void *ctx)
{
    while (begin < end) {
        int64_t unit = MR_MIN(j->unit, power_below(end - begin));
        MR_TRY(fn(j, ctx, begin, unit));
        begin += unit;
    }
    return NULL;
}

static const float *at_image(const job *j, int64_t i)
{
    return j->image + i * mr_conv_in_size(j->conv);
}
static const float *at_out(const job *j, int64_t i)
{
    return j->out_image + i * mr_conv_out_size(j->conv);
}

/* ---- passes over images ---- */

static mr_status *need_for(job *j, void *ctx, int64_t at, int64_t unit)
{
    (void)ctx, (void)at;
    return need_unit(j, unit, j->units[power_of(j->unit)]);
}

/* Executions of one thread, by the power of their unit. */
static mr_status *run_unit(job *j, void *ctx, int64_t at, int64_t unit)
{
    mr_dnnl_run **runs = ctx, **e = &runs[power_of(unit)];
    if (!*e)
        MR_TRY(mr_dnnl_run_new(j->units[power_of(unit)], mr_run_allocator(j->r), e));
    return mr_dnnl_run_unit(*e, at_image(j, at), j->filter, at_out(j, at));
}

/* Runs full units begin..end; the last one may be partial. */
static void images_part(void *ctx, int64_t begin, int64_t end)
{
    job *j = ctx;
    mr_dnnl_run *runs[POWERS] = {0};
    job_fail(j,
             each_unit(j, begin * j->unit, MR_MIN(end * j->unit, j->conv->batch), run_unit, runs));
    for (int i = 0; i < POWERS; i++)
        mr_dnnl_run_free(runs[i]);
}

static int64_t largest_unit(const job *j, int64_t images)
{
    int64_t size = MR_MAX(mr_conv_in_size(j->conv), mr_conv_out_size(j->conv));
    return power_below(MR_MAX(1, MR_MIN(MR_MIN(MAX_UNIT, images), MR_DNNL_LARGEST / size)));
}

static int64_t choose_unit(const job *j)
{
    int64_t threads = mr_pool_shares(j->r->step->device->pool);
    int64_t most = largest_unit(j, j->conv->batch / threads), unit = 1;
    while (unit < most && (double)unit * mr_conv_work(j->conv) < UNIT_WORK)
        unit *= 2;
    return unit;
}

/* Converts the filter to the format of the primitives. */
static mr_status *bring_filter(job *j, const float *filter)
{
    mr_dnnl_conv *p = j->units[power_of(j->unit)];
    if (mr_dnnl_conv_plain(p))
        return mr_dnnl_filter_new(p, filter, NULL, &j->filter);
    if (j->constant && (j->filter = mr_dnnl_convs_filter(j->kept, p, j->constant)))
        return NULL;
    mr_tensor *form;
    int64_t size = mr_dnnl_conv_filter_size(p);
    MR_TRY(mr_run_temp(j->r, MR_FLOAT, 1, &size, &form));
    mr_status *st = mr_dnnl_conv_reorder(p, mr_run_allocator(j->r), filter, form->data);
    if (!st)
        st = mr_dnnl_filter_new(p, form->data, form, &j->filter);
    mr_tensor_unref(form);
    if (!st && j->constant)
        mr_dnnl_convs_keep(j->kept, j->constant, j->filter);
    return st;
}

static mr_status *over_images(job *j, const float *filter)
{
    mr_status *st = NULL;
    j->unit = choose_unit(j);
    MR_GO(need_unit(j, j->unit, NULL));
    MR_GO(each_unit(j, 0, j->conv->batch, need_for, NULL));
    MR_GO(bring_filter(j, filter));
    int64_t units = (j->conv->batch + j->unit - 1) / j->unit;
    mr_run_for(j->r, units, WORK_NS * (double)j->unit * mr_conv_work(j->conv), images_part, j);
out:
    return job_end(j, st);
}

/* ---- the gradient of a filter ---- */

typedef struct sum { /* the filter's gradient over one part of the batch */
    float *total, *one; /* one: the gradient over a unit, which is added to the total */
    bool begun;
    mr_dnnl_run *runs[POWERS];
} sum;

MR_CLONES static void add_floats(float *restrict to, const float *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

static mr_status *sum_unit(job *j, void *ctx, int64_t at, int64_t unit)
{
    sum *s = ctx;
    mr_dnnl_conv *p = j->units[power_of(unit)];
    mr_dnnl_run **e = &s->runs[power_of(unit)];
    mr_dnnl_filter *f;
    if (!*e)
        MR_TRY(mr_dnnl_run_new(p, mr_run_allocator(j->r), e));
    MR_TRY(mr_dnnl_filter_new(p, s->begun ? s->one : s->total, NULL, &f));
    mr_status *st = mr_dnnl_run_unit(*e, at_image(j, at), f, at_out(j, at));
    mr_dnnl_filter_unref(f);
    if (!st && s->begun)
        add_floats(s->total, s->one, j->size);
    s->begun = true;
    return st;
}

static int64_t part_begin(const job *j, int64_t part)
{
    return j->conv->batch / j->parts * part + MR_MIN(part, j->conv->batch % j->parts);
}

static void parts_part(void *ctx, int64_t begin, int64_t end)
{
    job *j = ctx;
    for (int64_t part = begin; part < end; part++) {
        sum s = {.total = j->sums + part * j->size, .one = j->sums + (j->parts + part) * j->size};
        job_fail(j, each_unit(j, part_begin(j, part), part_begin(j, part + 1), sum_unit, &s));
        for (int i = 0; i < POWERS; i++)
            mr_dnnl_run_free(s.runs[i]);
    }
}

static void add_part(void *ctx, int64_t begin, int64_t end)
{
    const job *j = ctx;
    for (int64_t part = 1; part < j->parts; part++)
        add_floats(j->sums + begin, j->sums + part * j->size + begin, end - begin);
}

/* The number of parts.  More parts use more threads, but each costs memory and additions for a separate sum. */
static int64_t choose_parts(const job *j)
{
    int64_t threads = mr_pool_shares(j->r->step->device->pool);
    double worth = (double)j->conv->batch * mr_conv_work(j->conv) / UNIT_WORK;
    int64_t most = MR_MIN(threads, j->conv->batch);
    return worth < (double)most ? MR_MAX(1, (int64_t)worth) : most;
}

static mr_status *over_filter(job *j, float *out)
{
    mr_status *st = NULL;
    mr_tensor *sums = NULL;
    j->parts = choose_parts(j);
    int64_t images = part_begin(j, 1);
    j->unit = largest_unit(j, images);
    MR_GO(need_unit(j, j->unit, NULL));
    for (int64_t part = 0; part < j->parts; part++)
        MR_GO(each_unit(j, part_begin(j, part), part_begin(j, part + 1), need_for, NULL));
    const mr_dnnl_conv *p = j->units[power_of(j->unit)];
    j->size = mr_dnnl_conv_filter_size(p);
    bool spare = images > j->unit || j->conv->batch % j->parts; /* a part has more than one unit */
    bool direct = mr_dnnl_conv_plain(p) && j->parts == 1 && !spare;
    MR_GO(mr_run_temp(j->r, MR_FLOAT, 2, (int64_t[]){direct ? 0 : j->parts * (1 + spare), j->size},
                      &sums));
    j->sums = direct ? out : sums->data;
    mr_run_for(j->r, j->parts, WORK_NS * (double)images * mr_conv_work(j->conv), parts_part, j);
    if (j->parts > 1)
        mr_run_for(j->r, j->size, ADD_NS * (double)j->parts, add_part, j);
    if (!mr_dnnl_conv_plain(p))
        MR_GO(mr_dnnl_conv_reorder(p, mr_run_allocator(j->r), j->sums, out));
    else if (!direct)
        memcpy(out, j->sums, (size_t)j->size * sizeof(float));
out:
    st = job_end(j, st);
    mr_tensor_unref(sums);
    return st;
}

mr_status *mr_conv_float(mr_run *r, mr_dnnl_convs *kept, mr_conv_pass pass, const mr_conv *c,
                         const float *a, const float *b, float *out, const mr_tensor *constant)
{
    job j = {.r = r, .kept = kept, .pass = pass, .conv = c, .constant = constant};
    switch (pass) {
    case MR_CONV_FORWARD:
        j.image = a;
        j.out_image = out;
        return over_images(&j, b);
    case MR_CONV_INPUT:
        j.image = out;
        j.out_image = b;
        return over_images(&j, a);
    default:
        j.image = a;
        j.out_image = b;
        return over_filter(&j, out);
    }
}
