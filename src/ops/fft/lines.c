/* ops/fft/lines.c -- transforms the lines of a tensor, several at once in the lanes of vectors, or one by one.
 *
 * Lines of an even number of real numbers are transformed as half as many complex ones. The numbers of a line that is
 * not in the plan's type, or not stored in one of the ways that loops.h supports, are moved one at a time. */
#include "ops/fft/lines.h"

#include <complex.h>

#include "base/memory.h"
#include "run/scratch.h"

typedef struct job {
    const mr_run *run;
    mr_fft_pass p;
    const mr_fft *plan;
    const mr_fft_loops *loops;
    mr_fft_array src, dst;
    int64_t src_step, dst_step; /* distance between the numbers of a line */
    int64_t n_read, n_written;  /* numbers of a line */
    int64_t lines;
    bool halved;  /* real numbers are seen as pairs that are complex numbers */
    bool paired;  /* two real lines in each lane */
    bool long_;   /* lines are transformed one by one */
    bool failed;  /* atomic: out of memory */
} job;

/* ---- single numbers ---- */

/* A number of a tensor of real or complex numbers. */
static mr_c128 number_at(const mr_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case MR_FLOAT: return MR_DATA(float, t)[i];
    case MR_DOUBLE: return MR_DATA(double, t)[i];
    case MR_COMPLEX64: return MR_DATA(mr_c64, t)[i];
    default: return MR_DATA(mr_c128, t)[i];
    }
}

static void set_number(const mr_tensor *t, int64_t i, double re, double im)
{
    switch (t->dtype) {
    case MR_FLOAT: MR_DATA(float, t)[i] = (float)re; break;
    case MR_DOUBLE: MR_DATA(double, t)[i] = re; break;
    case MR_COMPLEX64: MR_DATA(mr_c64, t)[i] = __builtin_complex((float)re, (float)im); break;
    default: MR_DATA(mr_c128, t)[i] = __builtin_complex(re, im);
    }
}

static bool is_real(const mr_tensor *t) { return !mr_dtype_is_complex((mr_dtype)t->dtype); }

/* Number k of the complex line that is transformed: for real lines a pair, or one number; to a real line of odd
 * length, the second half is the conjugate of the first. */
static mr_c128 input_number(const job *j, int64_t start, int64_t k)
{
    const mr_tensor *t = j->src.t;
    if (is_real(t) && j->halved)
        return __builtin_complex(creal(number_at(t, start + 2 * k * j->src_step)),
                                 creal(number_at(t, start + (2 * k + 1) * j->src_step)));
    if (j->p.kind == MR_FFT_TO_REAL && !j->halved && k >= j->n_read)
        return conj(number_at(t, start + (j->p.n - k) * j->src_step));
    return number_at(t, start + k * j->src_step);
}

static void output_number(const job *j, int64_t start, int64_t k, double re, double im)
{
    const mr_tensor *t = j->dst.t;
    if (is_real(t) && j->halved) {
        set_number(t, start + 2 * k * j->dst_step, re, 0);
        set_number(t, start + (2 * k + 1) * j->dst_step, im, 0);
    } else {
        set_number(t, start + k * j->dst_step, re, im);
    }
}

/* Complex numbers of a line before and after the transform: a halved line has one more than it transforms on the side
 * of the frequencies. */
static int64_t numbers_in(const job *j)
{
    return j->plan->n + (j->halved && j->p.kind == MR_FFT_TO_REAL);
}

static int64_t numbers_out(const job *j)
{
    if (j->p.kind == MR_FFT_FROM_REAL)
        return j->n_written;
    return j->plan->n;
}

/* The inverse of a transform, and the halves of combine_lanes, are scaled at the end. */
static double scale_of(const job *j) { return j->p.inverse ? 1 / (double)j->p.n : 1; }

/* ---- lanes ---- */

static const char *address(const mr_tensor *t, int64_t i)
{
    return (const char *)t->data + (size_t)i * mr_dtype_size((mr_dtype)t->dtype);
}

/* True if the plan's type is that of the tensor's numbers, or of their parts. */
static bool same_type(const job *j, const mr_tensor *t)
{
    return t->dtype == j->plan->type ||
           t->dtype == (j->plan->type == MR_FLOAT ? MR_COMPLEX64 : MR_COMPLEX128);
}

/* True if contiguous memory of the tensor's lines is an array of complex numbers of the plan's type. */
static bool is_plain(const job *j, const mr_tensor *t) { return same_type(j, t) && (!is_real(t) || j->halved); }

static bool are_neighbours(const int64_t *starts, int lanes)
{
    for (int l = 1; l < lanes; l++)
        if (starts[l] != starts[0] + l)
            return false;
    return true;
}

/* starts[l] is the first number of lane l; lanes without a line of their own repeat the last one. */
static void load_lanes(const job *j, const int64_t *starts, int count, bool exchange, void *x)
{
    const mr_fft_loops *loops = j->loops;
    const mr_tensor *t = j->src.t;
    bool mirrored = j->p.kind == MR_FFT_TO_REAL && !j->halved;
    if (is_plain(j, t) && j->src_step == 1 && !mirrored) {
        const void *lines[MR_FFT_LANES];
        for (int l = 0; l < loops->lanes; l++)
            lines[l] = address(t, starts[l]);
        loops->load_along(2 * numbers_in(j), lines, 1, exchange, x);
    } else if (same_type(j, t) && !is_real(t) && !mirrored && count == loops->lanes && are_neighbours(starts, count)) {
        loops->load_across(numbers_in(j), address(t, starts[0]), j->src_step, exchange, x);
    } else {
        for (int64_t k = 0; k < numbers_in(j); k++)
            for (int l = 0; l < loops->lanes; l++) {
                mr_c128 v = input_number(j, starts[l], k);
                loops->set(x, k, exchange, l, creal(v));
                loops->set(x, k, !exchange, l, cimag(v));
            }
    }
}

static void store_lanes(const job *j, const int64_t *starts, int count, bool exchange, const void *x)
{
    const mr_fft_loops *loops = j->loops;
    const mr_tensor *t = j->dst.t;
    double scale = scale_of(j);
    if (is_plain(j, t) && j->dst_step == 1) {
        void *lines[MR_FFT_LANES];
        for (int l = 0; l < loops->lanes; l++)
            lines[l] = (void *)(uintptr_t)address(t, starts[l]);
        loops->store_along(2 * numbers_out(j), x, 1, exchange, scale, lines, count);
    } else if (same_type(j, t) && !is_real(t) && count == loops->lanes && are_neighbours(starts, count)) {
        loops->store_across(numbers_out(j), x, exchange, scale, (void *)(uintptr_t)address(t, starts[0]), j->dst_step);
    } else {
        for (int64_t k = 0; k < numbers_out(j); k++)
            for (int l = 0; l < count; l++)
                output_number(j, starts[l], k, loops->get(x, k, exchange, l) * scale,
                              loops->get(x, k, !exchange, l) * scale);
    }
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

/* Transforms lines [first, first + count), at most as many as there are lanes. */
static void transform_group(const job *j, int64_t first, int count, char *x, char *room)
{
    const mr_fft_loops *loops = j->loops;
    int64_t from[MR_FFT_LANES], to[MR_FFT_LANES];
    bool inverse = j->p.inverse, combined = inverse && j->halved;
    for (int l = 0; l < loops->lanes; l++) {
        int64_t i = first + MR_MIN(l, count - 1);
        from[l] = line_start(j, j->src.dims, i);
        to[l] = line_start(j, j->dst.dims, i);
    }
    load_lanes(j, from, count, inverse && !combined, x);
    if (combined)
        loops->combine_lanes(j->plan->n, j->plan->turns, x);
    char *y = loops->run(j->plan, x, room);
    if (j->p.kind == MR_FFT_FROM_REAL && j->halved)
        loops->separate_lanes(j->plan->n, j->plan->turns, y);
    store_lanes(j, to, count, inverse, y);
}

/* The addresses of the lines of lanes, from line `first` on; lanes without a line of their own repeat the last one. */
static void line_addresses(const job *j, const mr_fft_array *a, int64_t first, void **lines)
{
    for (int l = 0; l < j->loops->lanes; l++)
        lines[l] = (void *)(uintptr_t)address(a->t, line_start(j, a->dims, MR_MIN(first + l, j->lines - 1)));
}

/* Transforms real lines of odd length from `first` on, two in each lane. */
static void transform_pairs(const job *j, int64_t first, char *x, char *room)
{
    const mr_fft_loops *loops = j->loops;
    int64_t n = j->plan->n, half = n / 2 + 1;
    bool inverse = j->p.inverse;
    char *y;
    void *lines[MR_FFT_LANES];
    for (int i = 0; i < 2; i++) {
        line_addresses(j, &j->src, first + i * loops->lanes, lines);
        if (inverse)
            loops->load_along(2 * half, (const void *const *)lines, 1, false,
                              room + (size_t)(i * half) * MR_FFT_LANES_BYTES);
        else
            loops->load_along(n, (const void *const *)lines, 2, false, x + i * MR_FFT_LANES_BYTES / 2);
    }
    if (inverse)
        loops->combine_pairs(n, room, x);
    y = loops->run(j->plan, x, room);
    char *other = y == x ? room : x;
    if (!inverse)
        loops->separate_pairs(n, y, other);
    for (int i = 0; i < 2; i++) {
        int64_t start = first + i * loops->lanes, left = MR_MAX(0, MR_MIN(loops->lanes, j->lines - start));
        line_addresses(j, &j->dst, start, lines);
        if (inverse) /* the parts are exchanged */
            loops->store_along(n, y + (1 - i) * MR_FFT_LANES_BYTES / 2, 2, false, scale_of(j), lines, (int)left);
        else
            loops->store_along(2 * half, other + (size_t)(i * half) * MR_FFT_LANES_BYTES, 1, false, 1, lines,
                               (int)left);
    }
}

/* ---- single lines ---- */

static void set_part(const job *j, void *line, int64_t i, double v)
{
    if (j->plan->type == MR_FLOAT)
        ((float *)line)[i] = (float)v;
    else
        ((double *)line)[i] = v;
}

static double part_at(const job *j, const void *line, int64_t i)
{
    return j->plan->type == MR_FLOAT ? (double)((const float *)line)[i] : ((const double *)line)[i];
}

/* `line` has space for all numbers; it is used unless the tensors' memory can be used directly. */
static void transform_long(const job *j, int64_t i, void *line, void *room)
{
    const mr_fft_loops *loops = j->loops;
    const mr_tensor *src = j->src.t, *dst = j->dst.t;
    int64_t from = line_start(j, j->src.dims, i), to = line_start(j, j->dst.dims, i);
    bool inverse = j->p.inverse, mirrored = j->p.kind == MR_FFT_TO_REAL && !j->halved;
    bool combined = inverse && j->halved, separated = !inverse && j->halved;
    bool reads = is_plain(j, src) && j->src_step == 1 && !mirrored && !combined;
    bool writes = is_plain(j, dst) && j->dst_step == 1 && !separated && numbers_out(j) == j->plan->n;
    const void *in = reads ? (const void *)address(src, from) : line;
    void *out = writes ? (void *)(uintptr_t)address(dst, to) : line;
    for (int64_t k = 0; !reads && k < numbers_in(j); k++) {
        mr_c128 v = input_number(j, from, k);
        set_part(j, line, 2 * k, creal(v));
        set_part(j, line, 2 * k + 1, cimag(v));
    }
    if (combined)
        loops->combine_line(j->plan->n, j->plan->turns, line);
    loops->run_long(j->plan, in, inverse, scale_of(j), out, room);
    if (separated)
        loops->separate_line(j->plan->n, j->plan->turns, line);
    for (int64_t k = 0; !writes && k < numbers_out(j); k++)
        output_number(j, to, k, part_at(j, line, 2 * k), part_at(j, line, 2 * k + 1));
}

/* ---- all lines ---- */

static void transform_lines(void *ctx, int64_t begin, int64_t end)
{
    job *j = ctx;
    int64_t lanes = j->loops->lanes;
    size_t numbers = (size_t)j->plan->n + 1;
    size_t line = (numbers * (j->long_ ? 2 * mr_dtype_size(j->plan->type) : MR_FFT_LANES_BYTES) + 63) / 64 * 64;
    size_t room = j->long_ ? mr_fft_long_room(j->plan) : mr_fft_lanes_room(j->plan) + MR_FFT_LANES_BYTES;
    char *x = mr_scratch(j->run, line + room);
    if (!x)
        __atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
    for (int64_t i = begin; x && i < end; i++)
        if (j->long_)
            transform_long(j, i, x, x + line);
        else if (j->paired)
            transform_pairs(j, i * 2 * lanes, x, x + line);
        else
            transform_group(j, i * lanes, (int)MR_MIN(lanes, j->lines - i * lanes), x, x + line);
    mr_scratch_free(x);
}

static int64_t step_of(const mr_fft_array *a, int axis)
{
    int64_t step = 1;
    for (int d = axis + 1; d < 4; d++)
        step *= a->dims[d];
    return step;
}

/* double if one of the tensors is: then float would lose digits. */
static mr_dtype type_for(const mr_tensor *src, const mr_tensor *dst)
{
    bool narrow = (src->dtype == MR_FLOAT || src->dtype == MR_COMPLEX64) &&
                  (dst->dtype == MR_FLOAT || dst->dtype == MR_COMPLEX64);
    return narrow ? MR_FLOAT : MR_DOUBLE;
}

mr_status *mr_fft_lines(mr_run *r, mr_fft_cache *cache, const mr_fft_pass *p,
                        const mr_fft_array *src, const mr_fft_array *dst)
{
    mr_fft *plan;
    int64_t half = p->n / 2 + 1;
    job j = {.run = r, .p = *p, .src = *src, .dst = *dst, .lines = 1};
    for (int d = 0; d < 4; d++)
        j.lines *= d == p->axis ? 1 : dst->dims[d];
    if (j.lines == 0 || p->n == 0)
        return NULL;
    j.halved = p->kind != MR_FFT_COMPLEX && p->n % 2 == 0;
    MR_TRY(mr_fft_cache_get(cache, j.halved ? p->n / 2 : p->n, type_for(src->t, dst->t), j.halved, &plan));
    j.plan = plan;
    j.loops = plan->loops;
    j.src_step = step_of(src, p->axis);
    j.dst_step = step_of(dst, p->axis);
    j.n_read = p->kind == MR_FFT_TO_REAL ? half : p->n;
    j.n_written = p->kind == MR_FFT_FROM_REAL ? half : p->n;
    bool typed = same_type(&j, src->t) && same_type(&j, dst->t);
    j.paired = p->kind != MR_FFT_COMPLEX && !j.halved && typed && j.lines > 1 && mr_fft_has_lanes(plan);
    /* a few lines would leave most lanes empty */
    bool few = 2 * j.lines <= j.loops->lanes || plan->n > MR_FFT_MOST_IN_LANES;
    j.long_ = !j.paired && (!mr_fft_has_lanes(plan) || (mr_fft_has_long(plan) && few));
    int64_t lanes = j.loops->lanes * (j.paired ? 2 : 1), units = j.long_ ? j.lines : (j.lines + lanes - 1) / lanes;
    mr_run_for(r, units, 100 + (double)p->n * (j.long_ ? 8 : 30), transform_lines, &j);
    mr_fft_unref(plan);
    return j.failed ? mr_error(MR_RESOURCE_EXHAUSTED, "no memory for lines of %lld numbers",
                               (long long)p->n)
                    : NULL;
}
