/* train/tracer.c -- which training steps are traced, and the files they go to. */
#include "train/tracer.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "exec/trace.h"

/* ---- which ---- */

static mr_status *parse_range(mr_sv text, mr_traced_range *out)
{
    mr_sv rest = mr_sv_trim(text), first;
    *out = (mr_traced_range){0};
    bool ok = mr_sv_cut(&rest, '-', &first) && mr_sv_to_i64(first, &out->first);
    out->last = out->first;
    if (ok && rest.p)
        ok = mr_sv_to_i64(rest, &out->last);
    if (ok && out->first > 0 && out->first <= out->last)
        return NULL;
    return mr_invalid("steps to trace are numbers and ranges such as 20-24,100; not '%.*s'",
                      MR_SV_ARG(text));
}

static const char *otherwise(const char *given, const char *variable, const char *last)
{
    const char *v = given ? given : getenv(variable);
    return v && v[0] ? v : last;
}

mr_status *mr_tracer_init(mr_tracer *t, const char *folder, const char *steps, int worker)
{
    *t = (mr_tracer){.worker = worker};
    folder = otherwise(folder, "MILLRACE_TRACE", NULL);
    if (!folder)
        return NULL;
    t->folder = mr_strdup(folder);
    mr_sv rest = mr_sv_of(otherwise(steps, "MILLRACE_TRACE_STEPS", MR_TRACE_STEPS)), part;
    while (mr_sv_cut(&rest, ',', &part)) {
        mr_traced_range r;
        MR_TRY(parse_range(part, &r));
        mr_vec_push(&t->ranges, r);
    }
    return NULL;
}

void mr_tracer_deinit(mr_tracer *t)
{
    mr_free(t->folder);
    mr_vec_deinit(&t->ranges);
    mr_str_deinit(&t->metadata);
}

/* ---- steps ---- */

mr_str *mr_tracer_begin(mr_tracer *t, int64_t done)
{
    bool wanted = false;
    if (!t->folder)
        return NULL;
    for (int i = 0; i < t->ranges.n; i++) {
        mr_traced_range *r = &t->ranges.p[i];
        if (done + 1 < r->first || (done + 1 > r->last && r->met))
            continue;
        wanted = r->met = true;
    }
    t->outside_ns = t->left_ns ? mr_now_ns() - t->left_ns : 0;
    mr_str_clear(&t->metadata);
    return wanted ? &t->metadata : NULL;
}

static mr_status *write_step(mr_tracer *t, int64_t step)
{
    mr_pb_writer w;
    mr_writer *file = NULL;
    mr_pb_writer_init(&w, &t->metadata);
    mr_trace_info_encode(&(mr_trace_info){.number = step, .outside_ns = t->outside_ns}, &w);
    char *path = mr_printf("%s/worker-%d.step-%08lld.pb", t->folder, t->worker, (long long)step);
    mr_status *st = mr_dir_make(t->folder);
    if (!st)
        st = mr_writer_open(path, &file);
    if (!st)
        st = mr_writer_write(file, t->metadata.p, t->metadata.n);
    if (!st)
        st = mr_writer_commit(file);
    mr_writer_free(file);
    mr_free(path);
    return st;
}

void mr_tracer_end(mr_tracer *t, bool ok, int64_t step)
{
    if (!t->folder)
        return;
    mr_status *st = ok && t->metadata.n ? write_step(t, step) : NULL;
    if (st && !t->failed)
        mr_warn("a trace could not be written: %s", mr_status_message(st));
    t->failed |= st != NULL;
    mr_status_free(st);
    t->left_ns = mr_now_ns();
}
