/* train/tracer.c -- selects the training steps to trace, and writes their files.
 *
 * The client's thread begins and ends steps; the chief's thread writes updates. They share only what
 * is fixed after mr_tracer_init, and the atomic `failed`. */
#include "train/tracer.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "exec/trace.h"

/* ---- the steps to trace ---- */

/* "20" or "20-24", from step 1 on. */
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
    return mr_invalid("invalid steps to trace: expected numbers and ranges such as 20-24,100, not '%.*s'",
                      MR_SV_ARG(text));
}

/* The caller's value, else that of the environment variable, else `last`. An empty text counts as not given, and then
 * the environment is not consulted. */
static const char *value_or_default(const char *given, const char *variable, const char *last)
{
    const char *v = given ? given : getenv(variable);
    return v && v[0] ? v : last;
}

/* The steps are parsed only if there is a folder, so a wrong value of the environment does not stop a run that is not
 * traced. */
mr_status *mr_tracer_init(mr_tracer *t, const char *folder, const char *steps, int worker)
{
    *t = (mr_tracer){.worker = worker};
    folder = value_or_default(folder, "MILLRACE_TRACE", NULL);
    if (!folder)
        return NULL;
    t->folder = mr_strdup(folder);
    mr_sv rest = mr_sv_of(value_or_default(steps, "MILLRACE_TRACE_STEPS", MR_TRACE_STEPS)), part;
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

/* Decides whether the next step is traced. outside_ns is the time since the last step ended: the
 * client's own work. */
mr_str *mr_tracer_begin(mr_tracer *t, int64_t done)
{
    bool wanted = false;
    if (!t->folder)
        return NULL;
    for (int i = 0; i < t->ranges.n; i++) {
        mr_traced_range *r = &t->ranges.p[i];
        MR_ASSERT(r->first >= 1 && r->first <= r->last);
        if (done + 1 < r->first || (done + 1 > r->last && r->met))
            continue;
        wanted = r->met = true;
    }
    t->outside_ns = t->left_ns ? mr_now_ns() - t->left_ns : 0;
    mr_str_clear(&t->metadata);
    return wanted ? &t->metadata : NULL;
}

/* Adds the trace information to the metadata and writes the file. Only the first failure is logged. */
static void write_step(mr_tracer *t, const char *kind, const mr_trace_info *info, mr_str *metadata)
{
    mr_pb_writer w;
    mr_writer *file = NULL;
    MR_ASSERT(t->folder);
    mr_pb_writer_init(&w, metadata);
    mr_trace_info_encode(info, &w);
    char *path =
        mr_printf("%s/worker-%d.%s-%08lld.pb", t->folder, t->worker, kind, (long long)info->number);
    mr_status *st = mr_dir_make(t->folder);
    if (!st)
        st = mr_writer_open(path, &file);
    if (!st)
        st = mr_writer_write(file, metadata->p, metadata->n);
    if (!st)
        st = mr_writer_commit(file);
    if (st && !atomic_exchange(&t->failed, true))
        mr_warn("Could not write a trace: %s", mr_status_message(st));
    mr_status_free(st);
    mr_writer_free(file);
    mr_free(path);
}

/* A failed step is not written. Its end still counts for outside_ns of the next one. */
void mr_tracer_end(mr_tracer *t, bool ok, int64_t step)
{
    if (!t->folder)
        return;
    if (ok && t->metadata.n)
        write_step(t, "step", &(mr_trace_info){.number = step, .outside_ns = t->outside_ns},
                   &t->metadata);
    t->left_ns = mr_now_ns();
}

/* From any thread: reads only what mr_tracer_init has set. */
bool mr_tracer_wants_update(const mr_tracer *t, int64_t step)
{
    bool wanted = false;
    for (int i = 0; t && t->folder && i < t->ranges.n; i++)
        wanted |= step >= t->ranges.p[i].first && step <= t->ranges.p[i].last;
    return wanted;
}

void mr_tracer_update(mr_tracer *t, int64_t step, mr_str *metadata)
{
    if (metadata->n)
        write_step(t, "update", &(mr_trace_info){.number = step, .what = MR_SV("update")},
                   metadata);
}
