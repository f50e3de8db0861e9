/* ops/summary/writer.c -- SummaryWriter, CreateSummaryFileWriter, FlushSummaryWriter,
 * CloseSummaryWriter.
 *
 * A SummaryWriter op only returns a handle; CreateSummaryFileWriter creates the writer, and until then ops
 * that write fail with NOT_FOUND.  Closing removes it from the device's resources; the file is closed when
 * the last op that uses it has ended. */
#include "ops/summary/writer.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/memory.h"
#include "graph/infer.h"
#include "ops/io/name_input.h"
#include "ops/summary/summary.h"

typedef struct writer {
    mr_object base;
    mr_mutex mu;
    mr_events_writer *events MR_GUARDED_BY(mu);
} writer;

static void writer_free(mr_object *o)
{
    writer *w = (writer *)o;
    mr_events_writer_close(w->events);
    mr_mutex_deinit(&w->mu);
    mr_free(w);
}

static const mr_object_type writer_type = {"tensorflow::SummaryWriterInterface", writer_free};

/* ---- writing ---- */

mr_status *mr_summary_writer_put(mr_run *r, mr_sv event)
{
    writer *w;
    MR_TRY(mr_run_resource(r, 0, &writer_type, (mr_object **)&w));
    mr_lock(&w->mu);
    mr_status *st = mr_events_write(w->events, event);
    mr_unlock(&w->mu);
    mr_object_unref(&w->base);
    return st;
}

void mr_event_out_begin(mr_event_out *e, int64_t step)
{
    *e = (mr_event_out){0};
    mr_pb_writer_init(&e->w, &e->bytes);
    mr_event_begin(&e->w, mr_event_now(), step);
}

mr_status *mr_event_out_send(mr_event_out *e, mr_run *r, mr_status *st)
{
    if (!st)
        st = mr_pb_writer_status(&e->w, "Event");
    if (!st)
        st = mr_summary_writer_put(r, mr_str_view(&e->bytes));
    mr_str_deinit(&e->bytes);
    return st;
}

mr_value_marks mr_event_out_value(mr_event_out *e, mr_sv tag)
{
    mr_value_marks m;
    m.summary = mr_pb_begin(&e->w, MR_EVENT_SUMMARY);
    m.value = mr_pb_begin(&e->w, MR_SUMMARY_VALUE);
    mr_pb_opt_bytes(&e->w, MR_SUMMARY_TAG, tag);
    return m;
}

void mr_event_out_value_end(mr_event_out *e, mr_value_marks m)
{
    mr_pb_end(&e->w, m.value);
    mr_pb_end(&e->w, m.summary);
}

/* ---- SummaryWriter ---- */

static mr_status *handle_init(mr_make *m, void *p)
{
    mr_tensor **handle = p;
    mr_sv container, shared;
    MR_TRY(mr_node_get_str(m->node, "container", &container));
    MR_TRY(mr_node_get_str(m->node, "shared_name", &shared));
    MR_TRY(mr_resource_check_names(container, shared));
    char *c = container.n ? mr_strndup(container.p, container.n)
                          : mr_strdup(mr_resources_default(m->device->resources));
    char *name = mr_strndup(shared.p, shared.n); /* unchanged, even if it is empty */
    mr_status *st = mr_handle_tensor(
        mr_handle_new(m->device->name, c, name, writer_type.name, 0, NULL), handle);
    mr_free(c);
    mr_free(name);
    return st;
}

static void handle_deinit(void *p) { mr_tensor_unref(*(mr_tensor **)p); }

static mr_status *summary_writer(mr_run *r)
{
    mr_run_set(r, 0, mr_tensor_ref(*(mr_tensor **)r->state));
    return NULL;
}

MR_OP(SummaryWriter,
    .doc      = "a handle to a writer of event files",
    .sig      = "-> writer: resource",
    .attrs    = "shared_name: string = \"\"; container: string = \"\"",
    .flags    = MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_scalar,
    .kernels  = MR_KERNELS(MR_CPU_ANY(summary_writer)),
    .state_bytes = sizeof(mr_tensor *), .init = handle_init, .deinit = handle_deinit,
    .examples = MR_EXAMPLES("-> shape()", "shared_name=\"w\": -> shape()"));

/* ---- CreateSummaryFileWriter ---- */

typedef struct request {
    const char *logdir;
    mr_sv suffix;
    int64_t max_queue, flush_ms;
} request;

static mr_status *make_writer(void *ctx, mr_object **out)
{
    static _Atomic int64_t n_files;
    const request *q = ctx;
    mr_events_writer *events = NULL;
    mr_status *st = mr_dir_exists(q->logdir) ? NULL : mr_dir_make(q->logdir);
    if (st)
        return st;
    /* The process id and a number make the name unique. */
    bool dot = q->suffix.n > 0 && q->suffix.p[0] == '.';
    char *suffix = mr_printf(".%d.%lld%s%.*s", (int)getpid(),
                             (long long)atomic_fetch_add(&n_files, 1), dot ? "" : ".",
                             MR_SV_ARG(q->suffix));
    char *prefix = mr_printf("%s/events", q->logdir);
    st = mr_events_writer_open(prefix, suffix, q->max_queue, q->flush_ms, &events);
    mr_free(suffix);
    mr_free(prefix);
    if (st)
        return st;
    writer *w = mr_new(writer);
    mr_object_init(&w->base, &writer_type);
    mr_mutex_init(&w->mu);
    w->events = events;
    *out = &w->base;
    return NULL;
}

static mr_status *handle_of(const mr_run *r, const mr_handle **out)
{
    const mr_tensor *t = mr_in(r, 0);
    *out = t->n == 1 ? *MR_DATA(mr_handle *, t) : NULL;
    if (!*out || strcmp((*out)->type_name, writer_type.name) != 0)
        return mr_invalid("writer must be a handle from SummaryWriter");
    return NULL;
}

static mr_status *create_writer(mr_run *r)
{
    request q;
    const mr_handle *h;
    char *logdir = NULL;
    mr_object *w = NULL;
    mr_status *st = NULL;
    MR_GO(handle_of(r, &h));
    MR_GO(mr_in_path(r, 1, "logdir", &logdir));
    MR_GO(mr_in_scalar_int(r, 2, "max_queue", &q.max_queue));
    MR_GO(mr_in_scalar_int(r, 3, "flush_millis", &q.flush_ms));
    MR_GO(mr_in_scalar_str(r, 4, "filename_suffix", &q.suffix));
    q.logdir = logdir;
    MR_GO(mr_resources_find_or_make(r->step->device->resources, mr_sv_of(h->container),
                                    mr_sv_of(h->name), &writer_type, make_writer, &q, &w));
    mr_object_unref(w);
out:
    mr_free(logdir);
    return st;
}

MR_OP(CreateSummaryFileWriter,
    .doc      = "creates a writer that writes to an event file in a folder",
    .sig      = "writer: resource, logdir: string, max_queue: int32, flush_millis: int32, "
                "filename_suffix: string ->",
    .flags    = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT,
    .shape    = mr_shape_none,
    .kernels  = MR_KERNELS(MR_CPU_ANY(create_writer)),
    .examples = MR_EXAMPLES(
        "w = SummaryWriter shared_name=\"w\"; : w, \"/proc/no/such/folder\", 10, 1000, \".v2\" -> "
        "!NOT_FOUND /proc/no",
        "w = SummaryWriter shared_name=\"w\"; : w, [\"a\"], 10, 1000, \"\" -> !INVALID_ARGUMENT logdir "
        "must be scalar",
        "w = MutexV2 shared_name=\"w\"; : w, \"a\", 10, 1000, \"\" -> !INVALID_ARGUMENT writer must be "
        "a handle from SummaryWriter"));

/* ---- FlushSummaryWriter, CloseSummaryWriter ---- */

static mr_status *flush_writer(mr_run *r)
{
    writer *w;
    MR_TRY(mr_run_resource(r, 0, &writer_type, (mr_object **)&w));
    mr_lock(&w->mu);
    mr_status *st = mr_events_flush(w->events);
    mr_unlock(&w->mu);
    mr_object_unref(&w->base);
    return st;
}

static mr_status *close_writer(mr_run *r)
{
    const mr_handle *h;
    MR_TRY(handle_of(r, &h));
    return mr_resources_remove_handle(r->step->device->resources, h);
}

#define ON_WRITER(kernel)                                                \
    .sig = "writer: resource ->", .flags = MR_BLOCKS | MR_STATEFUL | MR_NO_GRADIENT, \
    .shape = mr_shape_none, .kernels = MR_KERNELS(MR_CPU_ANY(kernel)),   \
    .examples = MR_EXAMPLES("w = SummaryWriter shared_name=\"w\"; : w -> !NOT_FOUND does not exist")

MR_OP(FlushSummaryWriter,
    .doc      = "writes the buffered events of a writer to its file",
    ON_WRITER(flush_writer));
MR_OP(CloseSummaryWriter,
    .doc      = "writes the buffered events of a writer to its file, and closes it",
    ON_WRITER(close_writer));
