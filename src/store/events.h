/* store/events.h -- event files: training's reports, as TFRecord files of Event messages.
 *
 * The first record says file_version "brain.Event:2". A file is named PREFIX.out.tfevents.SECONDS.HOST SUFFIX and is
 * only appended to, so that it can be read while it is written. */
#ifndef MR_STORE_EVENTS_H
#define MR_STORE_EVENTS_H

#include "store/record.h"
#include "wire/pb.h"

/* ---- one Event ---- */
typedef enum mr_event_kind { /* fields of Event */
    MR_EVENT_NONE = 0,
    MR_EVENT_FILE_VERSION = 3,
    MR_EVENT_GRAPH_DEF = 4,
    MR_EVENT_SUMMARY = 5,
    MR_EVENT_LOG_MESSAGE = 6,
    MR_EVENT_SESSION_LOG = 7,
    MR_EVENT_TAGGED_RUN_METADATA = 8,
    MR_EVENT_META_GRAPH_DEF = 9,
} mr_event_kind;

typedef struct mr_event {
    double wall_time; /* seconds since 1970 */
    int64_t step;
    mr_event_kind kind;
    mr_sv body; /* the bytes of that field; a view */
} mr_event;

/* INVALID_ARGUMENT if the bytes are not an Event; unknown fields are ignored. */
mr_status *mr_event_decode(mr_sv bytes, mr_event *out);
/* Writes wall time and step; the caller appends the field for the event itself. */
void mr_event_begin(mr_pb_writer *w, double wall_time, int64_t step);
double mr_event_now(void);

/* ---- writing ---- */
typedef struct mr_events_writer mr_events_writer;
/* Makes the file, with its first record on disk. prefix: "folder/events"; suffix: "" or ".v2". Records stay buffered
 * until there are more than max_queue of them or the last flush was more than flush_ms ago. */
mr_status *mr_events_writer_open(const char *prefix, const char *suffix, int64_t max_queue,
                                 int64_t flush_ms, mr_events_writer **out);
const char *mr_events_writer_path(const mr_events_writer *w);
mr_status *mr_events_write(mr_events_writer *w, mr_sv event);
mr_status *mr_events_flush(mr_events_writer *w);
void mr_events_writer_close(mr_events_writer *w); /* tries to flush, ignoring errors; accepts NULL */

/* ---- reading ---- */
typedef struct mr_events_reader mr_events_reader;
mr_status *mr_events_reader_open(const char *path, mr_events_reader **out);
mr_events_reader *mr_events_reader_new(mr_stream *s); /* takes ownership of s */
/* The next event, valid until the next call. OUT_OF_RANGE at the end: a later call succeeds if the file has grown.
 * DATA_LOSS for a damaged record. */
mr_status *mr_events_read(mr_events_reader *r, mr_event *out);
mr_sv mr_events_record(const mr_events_reader *r); /* the serialized form of the last event */
void mr_events_reader_close(mr_events_reader *r);  /* accepts NULL */

#endif
