/* ops/summary/summary.h -- writes Summary messages, the values that training reports.
 *
 *     mr_summary s;
 *     mr_summary_init(&s);
 *     size_t v = mr_summary_begin(&s, tag);
 *     mr_pb_put_float(&s.w, MR_SUMMARY_SIMPLE_VALUE, 0.5f);
 *     mr_pb_end(&s.w, v);
 *     return mr_summary_finish(&s, r); // output 0, a scalar string; frees s, also on error
 */
#ifndef MR_OPS_SUMMARY_SUMMARY_H
#define MR_OPS_SUMMARY_SUMMARY_H

#include "run/run.h"
#include "wire/pb.h"

enum { /* fields of Summary and Summary.Value */
    MR_SUMMARY_VALUE = 1,
    MR_SUMMARY_TAG = 1,
    MR_SUMMARY_SIMPLE_VALUE = 2,
    MR_SUMMARY_HISTO = 5,
    MR_SUMMARY_NODE_NAME = 7,
    MR_SUMMARY_TENSOR = 8,
    MR_SUMMARY_METADATA = 9,
};

typedef struct mr_summary {
    mr_str bytes;
    mr_pb_writer w;
} mr_summary;

void mr_summary_init(mr_summary *s);
/* Begins a Value with its tag; end it with mr_pb_end. */
size_t mr_summary_begin(mr_summary *s, mr_sv tag);
mr_status *mr_summary_finish(mr_summary *s, mr_run *r);

/* Write fields of a Value: the histogram of a tensor's elements (INVALID_ARGUMENT "Nan in summary histogram
 * for: NAME"), and a whole tensor. */
mr_status *mr_summary_put_histogram(mr_pb_writer *w, const mr_tensor *t, const char *name);
mr_status *mr_summary_put_tensor(mr_pb_writer *w, const mr_tensor *t);
/* Write Values of up to max_images images [batch, height, width, channels] as PNG files (ops/image/image_summary.c),
 * and of sounds [batch, frames, channels] as WAV files (ops/audio/audio_summary.c).  After an error, out is
 * incomplete. */
mr_status *mr_summary_put_images(mr_summary *out, mr_sv tag, const mr_tensor *t, int64_t max_images, const mr_tensor *bad);
mr_status *mr_summary_put_sounds(mr_summary *out, mr_sv tag, const mr_tensor *t, int64_t max_outputs, float rate);
/* INVALID_ARGUMENT if the bytes are not a SummaryMetadata. */
mr_status *mr_summary_check_metadata(mr_sv bytes);

#endif
