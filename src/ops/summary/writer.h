/* ops/summary/writer.h -- a resource that writes event files, and the interface for ops that write to it.
 *
 *     mr_event_out e;
 *     mr_event_out_begin(&e, step);
 *     ... fields of the Event through e.w ...
 *     return mr_event_out_send(&e, r, st); // to the writer of input 0; frees e
 */
#ifndef MR_OPS_SUMMARY_WRITER_H
#define MR_OPS_SUMMARY_WRITER_H

#include "run/run.h"
#include "store/events.h"

typedef struct mr_event_out {
    mr_str bytes;
    mr_pb_writer w;
} mr_event_out;

void mr_event_out_begin(mr_event_out *e, int64_t step);
/* Takes over st, an error from building the event; if it is not NULL, nothing is written and st is returned. */
mr_status *mr_event_out_send(mr_event_out *e, mr_run *r, mr_status *st);
/* Writes bytes that are already a serialized Event. */
mr_status *mr_summary_writer_put(mr_run *r, mr_sv event);

/* Begins a Summary with one Value of this tag; end it with two calls of mr_pb_end: value, then summary. */
typedef struct mr_value_marks {
    size_t summary, value;
} mr_value_marks;
mr_value_marks mr_event_out_value(mr_event_out *e, mr_sv tag);
void mr_event_out_value_end(mr_event_out *e, mr_value_marks m);

#endif
