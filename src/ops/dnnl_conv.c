/* ops/dnnl_conv.c -- convolutions of floats by oneDNN.
 *
 * TensorFlow's filters [window.., in, out] are described to oneDNN by strides, so oneDNN's own reorder converts
 * them to the blocked format of a primitive and back. Passing them in the plain format would be up to four times
 * slower.
 *
 * Creating a memory object over a blocked format writes zeros behind the last channels. Therefore all threads share
 * one memory object per filter, created before they start.
 *
 * Lock: mr_dnnl_convs.mu guards the list. It is held while a primitive is created (about 0.2 ms, once), because
 * other threads that arrive meanwhile most likely want the same primitive. */
#include "ops/dnnl_conv.h"

#include <dnnl.h>

#include "base/memory.h"
#include "ops/dnnl.h"

#define LARGEST_SIDE (INT64_C(1) << 24)
#define LARGEST_STEP (INT64_C(1) << 16)  /* upper limit of strides, dilations and padding */

struct mr_dnnl_conv {
    mr_refs refs;
    mr_conv_pass pass;
    mr_conv conv;
    int64_t used; /* time of last use on the clock of the list; guarded by the list's lock */
    dnnl_primitive_t run, reorder; /* reorder converts the filter; NULL when the format is plain */
    dnnl_memory_desc_t image, filter, out_image, plain;
    dnnl_memory_desc_t run_scratch, reorder_scratch;
};

struct mr_dnnl_convs {
    mr_mutex mu;
    mr_dnnl_conv *list[MR_DNNL_KEPT] MR_GUARDED_BY(mu);
    int n MR_GUARDED_BY(mu);
    int64_t clock MR_GUARDED_BY(mu);
    /* a constant filter, as given and in the format in which it was last requested */
    mr_tensor *source MR_GUARDED_BY(mu);
    mr_dnnl_filter *filter MR_GUARDED_BY(mu);
};

struct mr_dnnl_filter {
    mr_refs refs;
    dnnl_memory_t memory;
    dnnl_memory_desc_t form;
    mr_tensor *held;
};

struct mr_dnnl_run {
    mr_dnnl_conv *conv;
    dnnl_stream_t stream;
    dnnl_memory_t image, out_image, scratch;
    mr_allocator *alloc;
    void *scratch_data;
    size_t scratch_bytes;
};

bool mr_dnnl_conv_fits(const mr_conv *c)
{
    bool fits = MR_MAX(mr_conv_in_size(c), mr_conv_out_size(c)) <= MR_DNNL_LARGEST &&
                mr_conv_filter_size(c) <= MR_DNNL_LARGEST && c->in_channels <= LARGEST_SIDE &&
                c->out_channels <= LARGEST_SIDE;
    for (int i = 0; i < MR_SPACE && fits; i++)
        fits = c->in[i] <= LARGEST_SIDE && c->out[i] <= LARGEST_SIDE &&
               c->window[i] <= LARGEST_STEP && c->stride[i] <= LARGEST_STEP &&
               c->dilation[i] <= LARGEST_STEP && c->before[i] <= LARGEST_STEP &&
               c->after[i] <= LARGEST_STEP;
    return fits;
}

/* ---- creating a primitive ---- */

static dnnl_engine_t engine;
static mr_status *engine_error;

static void engine_make(void)
{
    engine_error = mr_dnnl_check(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
}

/* The engine is created once per process and never freed. */
static mr_status *engine_need(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, engine_make);
    return mr_status_copy(engine_error);
}

/* Describes [batch, channels, space..] to oneDNN, with channels last in memory. */
static dnnl_status_t image_desc(const mr_conv *c, const int64_t *space, int64_t channels,
                                dnnl_memory_desc_t *out)
{
    dnnl_dims_t dims = {c->batch, channels}, strides = {0, 1};
    int64_t step = channels;
    for (int i = (int)c->n - 1; i >= 0; i--) {
        dims[2 + i] = space[MR_SPACE - (int)c->n + i];
        strides[2 + i] = step;
        step *= dims[2 + i];
    }
    strides[0] = step;
    return dnnl_memory_desc_init_by_strides(out, (int)c->n + 2, dims, dnnl_f32, strides);
}

/* Describes [groups,] out, in, window.. to oneDNN; with `any` oneDNN chooses the format. */
static dnnl_status_t filter_desc(const mr_conv *c, bool any, dnnl_memory_desc_t *out)
{
    int at = c->groups > 1 ? 1 : 0, n = (int)c->n + 2 + at;
    dnnl_dims_t dims = {c->groups}, strides = {c->out_channels / c->groups};
    dims[at] = c->out_channels / c->groups;
    dims[at + 1] = c->in_channels / c->groups;
    strides[at] = 1;
    strides[at + 1] = c->out_channels;
    int64_t step = dims[at + 1] * c->out_channels;
    for (int i = (int)c->n - 1; i >= 0; i--) {
        dims[at + 2 + i] = c->window[MR_SPACE - (int)c->n + i];
        strides[at + 2 + i] = step;
        step *= dims[at + 2 + i];
    }
    if (any)
        return dnnl_memory_desc_init_by_tag(out, n, dims, dnnl_f32, dnnl_format_tag_any);
    return dnnl_memory_desc_init_by_strides(out, n, dims, dnnl_f32, strides);
}

static dnnl_status_t pass_desc(const mr_dnnl_conv *p, mr_conv_pass pass,
                               const dnnl_memory_desc_t *filter, dnnl_convolution_desc_t *out)
{
    const mr_conv *c = &p->conv;
    dnnl_dims_t stride, holes, before, after;
    for (int i = 0; i < c->n; i++) {
        int at = MR_SPACE - (int)c->n + i;
        stride[i] = c->stride[at];
        holes[i] = c->dilation[at] - 1; /* pixels skipped between two of the window */
        before[i] = c->before[at];
        after[i] = c->after[at];
    }
    switch (pass) {
    case MR_CONV_FORWARD:
        return dnnl_dilated_convolution_forward_desc_init(
            out, dnnl_forward_training, dnnl_convolution_direct, &p->image, filter, NULL,
            &p->out_image, stride, holes, before, after);
    case MR_CONV_INPUT:
        return dnnl_dilated_convolution_backward_data_desc_init(out, dnnl_convolution_direct,
                                                                &p->image, filter, &p->out_image,
                                                                stride, holes, before, after);
    default:
        return dnnl_dilated_convolution_backward_weights_desc_init(
            out, dnnl_convolution_direct, &p->image, filter, NULL, &p->out_image, stride, holes,
            before, after);
    }
}

static dnnl_status_t make_reorder(mr_dnnl_conv *p, const_dnnl_primitive_attr_t attr)
{
    if (dnnl_memory_desc_equal(&p->filter, &p->plain))
        return dnnl_success;
    bool back = p->pass == MR_CONV_FILTER;
    dnnl_primitive_desc_t d;
    dnnl_status_t st =
        dnnl_reorder_primitive_desc_create(&d, back ? &p->filter : &p->plain, engine,
                                           back ? &p->plain : &p->filter, engine, attr);
    if (st)
        return st;
    p->reorder_scratch = *dnnl_primitive_desc_query_md(d, dnnl_query_scratchpad_md, 0);
    st = dnnl_primitive_create(&p->reorder, d);
    dnnl_primitive_desc_destroy(d);
    return st;
}

/* Stores the formats that d describes and generates the code of the primitive. */
static dnnl_status_t make_run(mr_dnnl_conv *p, const_dnnl_primitive_desc_t d,
                              const_dnnl_primitive_attr_t attr)
{
    bool makes = p->pass == MR_CONV_FILTER;
    p->filter = *dnnl_primitive_desc_query_md(
        d, makes ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    p->run_scratch = *dnnl_primitive_desc_query_md(d, dnnl_query_scratchpad_md, 0);
    dnnl_status_t st = dnnl_primitive_create(&p->run, d);
    return st ? st : make_reorder(p, attr);
}

/* The backward passes refer to a description of the forward pass, although no forward primitive is created. */
static dnnl_status_t make_pass(mr_dnnl_conv *p, const dnnl_memory_desc_t *filter,
                               const_dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t forward, desc;
    dnnl_memory_desc_t any;
    dnnl_primitive_desc_t hint, d;
    dnnl_status_t st = filter_desc(&p->conv, true, &any);
    bool is_forward = p->pass == MR_CONV_FORWARD;
    if (st || (st = pass_desc(p, MR_CONV_FORWARD, is_forward && filter ? filter : &any, &forward)))
        return st;
    if ((st = dnnl_primitive_desc_create(&hint, &forward, attr, engine, NULL)))
        return st;
    if (is_forward) {
        st = make_run(p, hint, attr);
    } else if (!(st = pass_desc(p, p->pass, filter ? filter : &any, &desc)) &&
               !(st = dnnl_primitive_desc_create(&d, &desc, attr, engine, hint))) {
        st = make_run(p, d, attr);
        dnnl_primitive_desc_destroy(d);
    }
    dnnl_primitive_desc_destroy(hint);
    return st;
}

static dnnl_status_t make_conv(mr_dnnl_conv *p, const dnnl_memory_desc_t *filter)
{
    const mr_conv *c = &p->conv;
    dnnl_primitive_attr_t attr;
    dnnl_status_t st = dnnl_primitive_attr_create(&attr);
    if (st)
        return st;
    /* each call brings its scratch memory, so that calls may overlap */
    st = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (!st)
        st = image_desc(c, c->in, c->in_channels, &p->image);
    if (!st)
        st = image_desc(c, c->out, c->out_channels, &p->out_image);
    if (!st)
        st = filter_desc(c, false, &p->plain);
    if (!st)
        st = make_pass(p, filter, attr);
    dnnl_primitive_attr_destroy(attr);
    return st;
}

static mr_status *conv_new(mr_conv_pass pass, const mr_conv *c, const mr_dnnl_conv *like,
                           mr_dnnl_conv **out)
{
    MR_TRY(engine_need());
    mr_dnnl_conv *p = mr_new(mr_dnnl_conv);
    mr_refs_init(&p->refs);
    p->pass = pass;
    p->conv = *c;
    int before = mr_dnnl_enter();
    mr_status *st = mr_dnnl_check(make_conv(p, like ? &like->filter : NULL), "making a convolution");
    mr_dnnl_leave(before);
    if (st)
        mr_dnnl_conv_unref(p);
    else
        *out = p;
    return st;
}

void mr_dnnl_conv_unref(mr_dnnl_conv *p)
{
    if (!p || !mr_refs_drop(&p->refs))
        return;
    if (p->run)
        dnnl_primitive_destroy(p->run);
    if (p->reorder)
        dnnl_primitive_destroy(p->reorder);
    mr_free(p);
}

/* ---- the primitives of a kernel ---- */

mr_dnnl_convs *mr_dnnl_convs_new(void)
{
    mr_dnnl_convs *kept = mr_new(mr_dnnl_convs);
    mr_mutex_init(&kept->mu);
    return kept;
}

void mr_dnnl_convs_free(mr_dnnl_convs *kept)
{
    if (!kept)
        return;
    for (int i = 0; i < kept->n; i++)
        mr_dnnl_conv_unref(kept->list[i]);
    mr_tensor_unref(kept->source);
    mr_dnnl_filter_unref(kept->filter);
    mr_mutex_deinit(&kept->mu);
    mr_free(kept);
}

int mr_dnnl_convs_count(mr_dnnl_convs *kept)
{
    mr_lock(&kept->mu);
    int n = kept->n;
    mr_unlock(&kept->mu);
    return n;
}

static bool serves_call(const mr_dnnl_conv *p, mr_conv_pass pass, const mr_conv *c,
                        const mr_dnnl_conv *like)
{
    return p->pass == pass && memcmp(&p->conv, c, sizeof *c) == 0 &&
           (!like || dnnl_memory_desc_equal(&p->filter, &like->filter));
}

/* A free slot of the list, or the slot of the least recently used primitive. */
static mr_dnnl_conv **place_locked(mr_dnnl_convs *kept) MR_REQUIRES(kept->mu)
{
    if (kept->n < MR_DNNL_KEPT)
        return &kept->list[kept->n++];
    int oldest = 0;
    for (int i = 1; i < kept->n; i++)
        if (kept->list[i]->used < kept->list[oldest]->used)
            oldest = i;
    mr_dnnl_conv_unref(kept->list[oldest]);
    return &kept->list[oldest];
}

mr_status *mr_dnnl_convs_get(mr_dnnl_convs *kept, mr_conv_pass pass, const mr_conv *c,
                             const mr_dnnl_conv *like, mr_dnnl_conv **out)
{
    mr_status *st = NULL;
    mr_dnnl_conv *p = NULL;
    mr_lock(&kept->mu);
    for (int i = 0; i < kept->n && !p; i++)
        if (serves_call(kept->list[i], pass, c, like))
            p = kept->list[i];
    if (!p && !(st = conv_new(pass, c, like, &p)))
        *place_locked(kept) = p;
    if (!st) {
        p->used = ++kept->clock;
        mr_refs_take(&p->refs);
        *out = p;
    }
    mr_unlock(&kept->mu);
    return st;
}

/* ---- filters ---- */

int64_t mr_dnnl_conv_filter_size(const mr_dnnl_conv *p)
{
    return (int64_t)(dnnl_memory_desc_get_size(&p->filter) / sizeof(float));
}

bool mr_dnnl_conv_plain(const mr_dnnl_conv *p) { return p->reorder == NULL; }

/* oneDNN's memory objects take a non-const pointer even for memory that is only read. */
static dnnl_status_t memory_over(const dnnl_memory_desc_t *d, const void *data, dnnl_memory_t *out)
{
    return dnnl_memory_create(out, d, engine, (void *)(uintptr_t)data);
}

static void memory_free(dnnl_memory_t m)
{
    if (m)
        dnnl_memory_destroy(m);
}

static dnnl_status_t reorder_filter(const mr_dnnl_conv *p, const float *from, float *to, void *scratch)
{
    bool back = p->pass == MR_CONV_FILTER;
    dnnl_stream_t stream = NULL;
    dnnl_memory_t m[3] = {0};
    dnnl_status_t st = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    if (!st)
        st = memory_over(back ? &p->filter : &p->plain, from, &m[0]);
    if (!st)
        st = memory_over(back ? &p->plain : &p->filter, to, &m[1]);
    if (!st)
        st = memory_over(&p->reorder_scratch, scratch, &m[2]);
    const dnnl_exec_arg_t args[] = {
        {DNNL_ARG_FROM, m[0]}, {DNNL_ARG_TO, m[1]}, {DNNL_ARG_SCRATCHPAD, m[2]}};
    if (!st)
        st = dnnl_primitive_execute(p->reorder, stream, MR_COUNT(args), args);
    for (int i = 0; i < MR_COUNT(m); i++)
        memory_free(m[i]);
    if (stream)
        dnnl_stream_destroy(stream);
    return st;
}

mr_status *mr_dnnl_conv_reorder(const mr_dnnl_conv *p, mr_allocator *a, const float *from,
                                float *to)
{
    MR_ASSERT(p->reorder);
    size_t bytes = dnnl_memory_desc_get_size(&p->reorder_scratch);
    void *scratch = bytes ? a->alloc(a, bytes) : NULL;
    if (bytes && !scratch)
        return mr_error(MR_RESOURCE_EXHAUSTED, "no memory to reorder a filter: %zu bytes", bytes);
    int before = mr_dnnl_enter();
    mr_status *st = mr_dnnl_check(reorder_filter(p, from, to, scratch), "reordering a filter");
    mr_dnnl_leave(before);
    if (scratch)
        a->free(a, scratch, bytes);
    return st;
}

mr_status *mr_dnnl_filter_new(const mr_dnnl_conv *p, const float *data, mr_tensor *held,
                              mr_dnnl_filter **out)
{
    mr_dnnl_filter *f = mr_new(mr_dnnl_filter);
    mr_refs_init(&f->refs);
    f->form = p->filter;
    f->held = mr_tensor_ref(held);
    int before = mr_dnnl_enter();
    mr_status *st = mr_dnnl_check(memory_over(&p->filter, data, &f->memory), "filter");
    mr_dnnl_leave(before);
    if (st)
        mr_dnnl_filter_unref(f);
    else
        *out = f;
    return st;
}

void mr_dnnl_filter_unref(mr_dnnl_filter *f)
{
    if (!f || !mr_refs_drop(&f->refs))
        return;
    memory_free(f->memory);
    mr_tensor_unref(f->held);
    mr_free(f);
}

mr_dnnl_filter *mr_dnnl_convs_filter(mr_dnnl_convs *kept, const mr_dnnl_conv *p,
                                     const mr_tensor *source)
{
    mr_dnnl_filter *f = NULL;
    mr_lock(&kept->mu);
    if (kept->source == source && dnnl_memory_desc_equal(&kept->filter->form, &p->filter)) {
        f = kept->filter;
        mr_refs_take(&f->refs);
    }
    mr_unlock(&kept->mu);
    return f;
}

void mr_dnnl_convs_keep(mr_dnnl_convs *kept, const mr_tensor *source, mr_dnnl_filter *f)
{
    MR_ASSERT(source->readonly && f->held);
    mr_refs_take(&f->refs);
    mr_lock(&kept->mu);
    mr_tensor *old_source = kept->source;
    mr_dnnl_filter *old = kept->filter;
    kept->source = mr_tensor_ref(source);
    kept->filter = f;
    mr_unlock(&kept->mu);
    mr_tensor_unref(old_source);
    mr_dnnl_filter_unref(old);
}

/* ---- executions ---- */

static dnnl_status_t run_init(mr_dnnl_run *e)
{
    const mr_dnnl_conv *p = e->conv;
    dnnl_status_t st = dnnl_stream_create(&e->stream, engine, dnnl_stream_default_flags);
    if (!st)
        st = memory_over(&p->image, DNNL_MEMORY_NONE, &e->image);
    if (!st)
        st = memory_over(&p->out_image, DNNL_MEMORY_NONE, &e->out_image);
    return st ? st : memory_over(&p->run_scratch, e->scratch_data, &e->scratch);
}

mr_status *mr_dnnl_run_new(mr_dnnl_conv *p, mr_allocator *a, mr_dnnl_run **out)
{
    mr_dnnl_run *e = mr_new(mr_dnnl_run);
    mr_status *st = NULL;
    mr_refs_take(&p->refs);
    e->conv = p;
    e->alloc = a;
    e->scratch_bytes = dnnl_memory_desc_get_size(&p->run_scratch);
    if (e->scratch_bytes && !(e->scratch_data = a->alloc(a, e->scratch_bytes)))
        st = mr_error(MR_RESOURCE_EXHAUSTED, "no memory for a convolution: %zu bytes",
                      e->scratch_bytes);
    if (!st)
        st = mr_dnnl_check(run_init(e), "convolution");
    if (st)
        mr_dnnl_run_free(e);
    else
        *out = e;
    return st;
}

static dnnl_status_t run_unit(mr_dnnl_run *e, const float *image, const mr_dnnl_filter *f,
                              const float *out_image)
{
    mr_conv_pass pass = e->conv->pass;
    dnnl_status_t st = dnnl_memory_set_data_handle(e->image, (void *)(uintptr_t)image);
    if (!st)
        st = dnnl_memory_set_data_handle(e->out_image, (void *)(uintptr_t)out_image);
    const dnnl_exec_arg_t args[] = {
        {pass == MR_CONV_INPUT ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC, e->image},
        {pass == MR_CONV_FILTER ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, f->memory},
        {pass == MR_CONV_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST, e->out_image},
        {DNNL_ARG_SCRATCHPAD, e->scratch}};
    return st ? st : dnnl_primitive_execute(e->conv->run, e->stream, MR_COUNT(args), args);
}

mr_status *mr_dnnl_run_unit(mr_dnnl_run *e, const float *image, const mr_dnnl_filter *f,
                            const float *out_image)
{
    int before = mr_dnnl_enter();
    mr_status *st = mr_dnnl_check(run_unit(e, image, f, out_image), "convolution");
    mr_dnnl_leave(before);
    return st;
}

void mr_dnnl_run_free(mr_dnnl_run *e)
{
    if (!e)
        return;
    memory_free(e->image);
    memory_free(e->out_image);
    memory_free(e->scratch);
    if (e->stream)
        dnnl_stream_destroy(e->stream);
    if (e->scratch_data)
        e->alloc->free(e->alloc, e->scratch_data, e->scratch_bytes);
    mr_dnnl_conv_unref(e->conv);
    mr_free(e);
}
