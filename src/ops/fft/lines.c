/* ops/fft/lines.c -- applies mr_fft_run to the lines of a tensor. */
#include "ops/fft/lines.h"

#include "run/scratch.h"

typedef struct job {
    const mr_run *run;
    mr_fft_pass p;
    const mr_fft *plan;
    mr_fft_array src, dst;
    int64_t src_step, dst_step; /* distance between the numbers of a line */
    int64_t n_read, n_written;  /* numbers of a line */
    bool failed;                /* atomic: out of memory */
} job;

/* Converts the numbers of a line, `step` apart, to double, in which they are transformed. */
static void load_line(const mr_tensor *t, int64_t at, int64_t step, int64_t n, mr_c128 *x)
{
    switch (t->dtype) {
    case MR_FLOAT:
        for (int64_t i = 0; i < n; i++)
            x[i] = MR_DATA(float, t)[at + i * step];
        break;
    case MR_DOUBLE:
        for (int64_t i = 0; i < n; i++)
            x[i] = MR_DATA(double, t)[at + i * step];
        break;
    case MR_COMPLEX64:
        for (int64_t i = 0; i < n; i++)
            x[i] = MR_DATA(mr_c64, t)[at + i * step];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            x[i] = MR_DATA(mr_c128, t)[at + i * step];
    }
}

static void store_line(const mr_tensor *t, int64_t at, int64_t step, int64_t n, const mr_c128 *x)
{
    switch (t->dtype) {
    case MR_FLOAT:
        for (int64_t i = 0; i < n; i++)
            MR_DATA(float, t)[at + i * step] = (float)creal(x[i]);
        break;
    case MR_DOUBLE:
        for (int64_t i = 0; i < n; i++)
            MR_DATA(double, t)[at + i * step] = creal(x[i]);
        break;
    case MR_COMPLEX64:
        for (int64_t i = 0; i < n; i++)
            MR_DATA(mr_c64, t)[at + i * step] = (mr_c64)x[i];
        break;
    default:
        for (int64_t i = 0; i < n; i++)
            MR_DATA(mr_c128, t)[at + i * step] = x[i];
    }
}

/* The inverse transform is the conjugate of the transform of the conjugates, divided by n. */
static void conjugate_line(mr_c128 *x, int64_t n, double factor)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = __builtin_complex(creal(x[i]) * factor, -cimag(x[i]) * factor);
}

/* Fills in the second half of a Hermitian line. */
static void mirror_line(mr_c128 *x, int64_t n)
{
    for (int64_t i = 1; i <= (n - 1) / 2; i++)
        x[n - i] = conj(x[i]);
}

static void one_line(const job *j, int64_t from, int64_t to, mr_c128 *x, mr_c128 *room)
{
    int64_t n = j->p.n;
    load_line(j->src.t, from, j->src_step, j->n_read, x);
    if (j->p.kind == MR_FFT_TO_REAL)
        mirror_line(x, n);
    if (j->p.inverse)
        conjugate_line(x, n, 1);
    mr_fft_run(j->plan, x, room);
    if (j->p.inverse)
        conjugate_line(x, n, 1 / (double)n);
    store_line(j->dst.t, to, j->dst_step, j->n_written, x);
}

/* The start of line i of the result, in an array of these dims. */
static int64_t line_start(const job *j, const int64_t *dims, int64_t i)
{
    int64_t index[4] = {0}, at = 0;
    for (int d = 3; d >= 0; d--) {
        if (d == j->p.axis)
            continue;
        index[d] = i % j->dst.dims[d];
        i /= j->dst.dims[d];
    }
    for (int d = 0; d < 4; d++)
        at = at * dims[d] + index[d];
    return at;
}

static void transform_lines(void *ctx, int64_t begin, int64_t end)
{
    job *j = ctx;
    size_t numbers = (size_t)j->p.n + (size_t)mr_fft_room(j->plan);
    mr_c128 *x = mr_scratch(j->run, sizeof(mr_c128) * numbers);
    if (!x)
        __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
    for (int64_t i = begin; x && i < end; i++)
        one_line(j, line_start(j, j->src.dims, i), line_start(j, j->dst.dims, i), x, x + j->p.n);
    mr_scratch_free(x);
}

static int64_t step_of(const mr_fft_array *a, int axis)
{
    int64_t step = 1;
    for (int d = axis + 1; d < 4; d++)
        step *= a->dims[d];
    return step;
}

mr_status *mr_fft_lines(mr_run *r, mr_fft_cache *cache, const mr_fft_pass *p,
                        const mr_fft_array *src, const mr_fft_array *dst)
{
    mr_fft *plan;
    int64_t lines = 1, half = p->n / 2 + 1;
    for (int d = 0; d < 4; d++)
        lines *= d == p->axis ? 1 : dst->dims[d];
    if (lines == 0 || p->n == 0)
        return NULL;
    MR_TRY(mr_fft_cache_get(cache, p->n, &plan));
    job j = {.run = r, .p = *p, .plan = plan, .src = *src, .dst = *dst};
    j.src_step = step_of(src, p->axis);
    j.dst_step = step_of(dst, p->axis);
    j.n_read = p->kind == MR_FFT_TO_REAL ? half : p->n;
    j.n_written = p->kind == MR_FFT_FROM_REAL ? half : p->n;
    mr_run_for(r, lines, 20 + 8.0 * (double)p->n, transform_lines, &j);
    mr_fft_unref(plan);
    return j.failed ? mr_error(MR_RESOURCE_EXHAUSTED, "no memory for lines of %lld numbers",
                               (long long)p->n)
                    : NULL;
}
