/* capi/trace.c -- mr_trace_*: pictures and blame of RunMetadata. */
#include "millrace/trace.h"

#include "capi/internal.h"
#include "exec/trace_files.h"

static mr_status *read_all(const TF_Buffer *const *metadata, int n, mr_timeline *out)
{
    if (n < 0 || (n && !metadata))
        return mr_invalid("metadata is NULL, or its length %d is negative", n);
    mr_sv *views = mr_new_array(mr_sv, n + 1);
    mr_status *st = NULL;
    for (int i = 0; i < n && !st; i++) {
        if (!metadata[i] || (metadata[i]->length && !metadata[i]->data))
            st = mr_invalid("Metadata %d is NULL", i);
        else
            views[i] = (mr_sv){metadata[i]->length ? metadata[i]->data : "", metadata[i]->length};
    }
    if (!st)
        st = mr_trace_read(views, NULL, n, out);
    mr_free(views);
    return st;
}

void mr_trace_to_chrome(const TF_Buffer *const *metadata, int n, const char *path, TF_Status *status)
{
    mr_timeline t;
    mr_timeline_init(&t);
    mr_status *st = read_all(metadata, n, &t);
    if (!st)
        st = path ? mr_timeline_write_chrome(&t, path) : mr_invalid("path is NULL");
    mr_timeline_deinit(&t);
    mr_capi_set_status(status, st);
}

/* A text made of the timeline. */
static TF_Buffer *make_text(const TF_Buffer *const *metadata, int n, int width, bool drawn, TF_Status *status)
{
    mr_timeline t;
    mr_str text = {0};
    TF_Buffer *out = NULL;
    mr_timeline_init(&t);
    mr_status *st = read_all(metadata, n, &t);
    if (!st && drawn)
        mr_timeline_text(&t, &(mr_timeline_text_options){.width = width}, &text);
    else if (!st)
        mr_trace_tell(&t, INT32_MAX, &text);
    if (!st)
        out = TF_NewBufferFromString(mr_str_z(&text), text.n);
    mr_str_deinit(&text);
    mr_timeline_deinit(&t);
    mr_capi_set_status(status, st);
    return out;
}

TF_Buffer *mr_trace_blame(const TF_Buffer *const *metadata, int n, TF_Status *status)
{
    return make_text(metadata, n, 0, false, status);
}

TF_Buffer *mr_trace_text(const TF_Buffer *const *metadata, int n, int width, TF_Status *status)
{
    return make_text(metadata, n, width, true, status);
}
