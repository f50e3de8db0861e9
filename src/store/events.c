/* store/events.c -- writes and reads event files. */
#include "store/events.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

static const char version[] = "brain.Event:2";

/* ---- one Event ---- */

/* The body is a view of `bytes`. */
mr_status *mr_event_decode(mr_sv bytes, mr_event *out)
{
    mr_pb_reader r;
    uint32_t field, wire;
    *out = (mr_event){.body = MR_SV("")};
    mr_pb_reader_init(&r, bytes);
    while (mr_pb_next(&r, &field, &wire))
        if (field == 1) {
            out->wall_time = mr_pb_double(&r);
        } else if (field == 2) {
            out->step = mr_pb_int64(&r);
        } else if (field >= MR_EVENT_FILE_VERSION && field <= MR_EVENT_META_GRAPH_DEF) {
            out->kind = (mr_event_kind)field; /* of several fields the last one wins, as in every oneof */
            out->body = mr_pb_bytes(&r);
        } else {
            mr_pb_skip(&r);
        }
    return mr_pb_reader_status(&r, "Event");
}

void mr_event_begin(mr_pb_writer *w, double wall_time, int64_t step)
{
    mr_pb_opt_double(w, 1, wall_time);
    mr_pb_opt_varint(w, 2, (uint64_t)step);
}

double mr_event_now(void) { return (double)mr_wall_us() / 1e6; }

/* ---- writing ---- */

struct mr_events_writer {
    char *path;
    mr_writer *file;
    mr_record_writer *records;
    int64_t max_queue, flush_ns;
    int64_t n_waiting, flushed_ns;
};

static char *file_name(const char *prefix, const char *suffix, double now)
{
    char host[256] = "";
    if (gethostname(host, sizeof(host) - 1) != 0 || !host[0])
        strcpy(host, "localhost");
    return mr_printf("%s.out.tfevents.%010lld.%s%s", prefix, (long long)now, host, suffix);
}

static mr_status *write_version(mr_events_writer *w, double now)
{
    mr_str s = {0};
    mr_pb_writer pb;
    mr_pb_writer_init(&pb, &s);
    mr_event_begin(&pb, now, 0);
    mr_pb_put_bytes(&pb, MR_EVENT_FILE_VERSION, mr_sv_of(version));
    mr_status *st = mr_pb_writer_status(&pb, "Event");
    if (!st)
        st = mr_record_write(w->records, mr_str_view(&s));
    mr_str_deinit(&s);
    return st ? st : mr_events_flush(w);
}

/* The version record is on disk before the writer is handed out, so a reader never sees a file without it. */
mr_status *mr_events_writer_open(const char *prefix, const char *suffix, int64_t max_queue,
                                 int64_t flush_ms, mr_events_writer **out)
{
    double now = mr_event_now();
    mr_events_writer *w = mr_new(mr_events_writer);
    mr_status *st = NULL;
    w->path = file_name(prefix, suffix, now);
    w->max_queue = max_queue;
    w->flush_ns = flush_ms < INT64_MAX / 1000000 ? flush_ms * 1000000 : INT64_MAX;
    MR_GO(mr_writer_open_append(w->path, &w->file));
    MR_GO(mr_record_writer_new(w->file, MR_UNCOMPRESSED, &w->records));
    MR_GO(write_version(w, now));
    *out = w;
    w = NULL;
out:
    mr_events_writer_close(w);
    return st;
}

const char *mr_events_writer_path(const mr_events_writer *w) { return w->path; }

mr_status *mr_events_flush(mr_events_writer *w)
{
    w->n_waiting = 0;
    w->flushed_ns = mr_now_ns();
    return mr_record_flush(w->records);
}

mr_status *mr_events_write(mr_events_writer *w, mr_sv event)
{
    MR_TRY(mr_record_write(w->records, event));
    if (++w->n_waiting > w->max_queue || mr_now_ns() - w->flushed_ns > w->flush_ns)
        return mr_events_flush(w);
    return NULL;
}

void mr_events_writer_close(mr_events_writer *w)
{
    if (!w)
        return;
    mr_record_writer_free(w->records);
    mr_writer_free(w->file); /* writes the buffered bytes */
    mr_free(w->path);
    mr_free(w);
}

/* ---- reading ---- */

struct mr_events_reader {
    mr_record_reader *records;
    mr_str record;
};

mr_events_reader *mr_events_reader_new(mr_stream *s)
{
    mr_events_reader *r = mr_new(mr_events_reader);
    r->records = mr_record_reader_new(s);
    return r;
}

mr_status *mr_events_reader_open(const char *path, mr_events_reader **out)
{
    mr_stream *s;
    MR_TRY(mr_stream_open(path, MR_UNCOMPRESSED, 0, &s));
    *out = mr_events_reader_new(s);
    return NULL;
}

mr_status *mr_events_read(mr_events_reader *r, mr_event *out)
{
    MR_TRY(mr_record_read(r->records, &r->record));
    mr_status *st = mr_event_decode(mr_str_view(&r->record), out);
    if (!st)
        return NULL;
    mr_status *loss = mr_error(MR_DATA_LOSS, "A record is not an Event message: %s", mr_status_message(st));
    mr_status_free(st);
    return loss;
}

mr_sv mr_events_record(const mr_events_reader *r) { return mr_str_view(&r->record); }

void mr_events_reader_close(mr_events_reader *r)
{
    if (!r)
        return;
    mr_record_reader_close(r->records);
    mr_str_deinit(&r->record);
    mr_free(r);
}
